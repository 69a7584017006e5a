// SPDX-License-Identifier: Apache-2.0
//
// Merges: all_reduce, which adds along the canonical tree over replica ids, and
// all_gather, which concatenates the rows of the replicas.
//
// The tree over n replicas splits at the largest power of two below n; the left
// operand of each addition is the subtree of the lower ids. Contributions come
// in order of replica, so the complete subtrees that wait for their sibling
// form a stack, as the ones of a binary counter do: replica r finds popcount(r)
// of them and merges with as many as r has trailing ones; the last replica
// merges with all. floor(log2 n) buffers hold the stack.
//
// A replica without a trailing one (an even one that is not the last) only
// pushes: its kernel may write straight into the stack.
//
// A part of the replicas (2^k of them starting at a multiple of 2^k, or the
// rest at the end) is a subtree. So each part has a stack of its own, in which
// its replicas count from 0, and leaves its sum at the bottom of the stack; the
// sums of the parts then form a tree as replicas do.
#ifndef LS_ENGINE_CPU_RUN_MERGE_H_
#define LS_ENGINE_CPU_RUN_MERGE_H_

#include "engine/cpu/kernels/kernel.h"

typedef struct ls_cpu_step {
  ls_kernel_loop loop;  // NULL: no such step.
  const void *params;
  int64_t blocks;
  bool by_team;  // True if threads should share its blocks.
} ls_cpu_step;

typedef struct ls_cpu_sums ls_cpu_sums;

typedef struct ls_cpu_merge {
  int32_t replicas;     // Number of replicas, at least 2.
  ls_cpu_step widen;    // Converts 16-bit floats to f32 before they are added.
  ls_cpu_step combine;  // Adds two subtrees.
  ls_cpu_step scale;    // Mean: multiplies by `reciprocal`.
  ls_cpu_step narrow;   // Rounds the sum to 16 bits, once.
  const void *reciprocal;  // One element.
  size_t bytes;            // Size of a partial result.
  size_t stride;           // Distance of two buffers of the stack.
  size_t scratch;          // Scratch that the steps need, in bytes.
  // Gather: R + 1 offsets into the result, where the rows of each replica
  // begin. NULL: an all_reduce.
  const size_t *offsets;
  // Merges that lanes post to: the exchange of the sums with other ranks; NULL:
  // there are none, or it is a gather.
  const ls_cpu_sums *sums;
} ls_cpu_merge;

// Prepares the merge of an all_reduce or all_gather node with a result of
// `type`. All memory comes from the arena.
//   LS_UNIMPLEMENTED  no such reduction or no kernel for the type.
ls_status ls_cpu_merge_prepare(const ls_cpu_kernels *kernels, ls_arena *arena,
                               const ls_node *node, ls_type type,
                               int32_t replicas, ls_cpu_merge **out_merge);

// Returns true if merging equal contributions gives the contribution itself:
// maximum and minimum.
bool ls_cpu_merge_is_idempotent(const ls_node *node);

// Returns the distance of a buffer to the next one: cache lines. Two memory
// streams that are a multiple of 4 KiB apart slow each other down, so big
// buffers, whose sizes often are such a multiple, get 192 more bytes.
static inline size_t ls_cpu_stride(size_t size) {
  return size == 0 ? LS_CACHE_LINE
                   : ls_round_to_line(size) + (size >= 2048 ? 192 : 0);
}

// Returns the number of buffers in the stack of `count` replicas.
static inline uint32_t ls_cpu_merge_depth(uint32_t count) {
  return count < 2 ? 1 : 31U - (uint32_t)__builtin_clz(count);
}

// Position of replica number `index` in the tree over `count` replicas.
typedef struct ls_cpu_leaf {
  uint32_t index, count;
  uint32_t waiting;  // Complete subtrees on the stack when the leaf arrives.
  uint32_t merges;   // Number of waiting subtrees that the leaf merges with.
} ls_cpu_leaf;

static inline ls_cpu_leaf ls_cpu_leaf_at(uint32_t index, uint32_t count) {
  const uint32_t waiting = (uint32_t)__builtin_popcount(index);
  return (ls_cpu_leaf){
      .index = index,
      .count = count,
      .waiting = waiting,
      .merges = index + 1 == count ? waiting : (uint32_t)__builtin_ctz(~index),
  };
}

// Returns the stack buffer to which the contribution of a replica may be
// written directly; NULL if it is added to one instead.
static inline void *ls_cpu_merge_top(const ls_cpu_merge *self, char *stack,
                                     const ls_cpu_leaf *leaf) {
  if (self->offsets != NULL || leaf->merges > 0) return NULL;
  return stack + leaf->waiting * self->stride;
}

// Returns the stack buffer that the contribution is added to first. NULL if it
// is not added, or if the addition completes the sum and `sum` is not NULL.
static inline void *ls_cpu_merge_left(const ls_cpu_merge *self, char *stack,
                                      const ls_cpu_leaf *leaf,
                                      const void *sum) {
  const bool ends = leaf->index + 1 == leaf->count && leaf->merges == 1;
  if (self->offsets != NULL || leaf->merges == 0 || (ends && sum != NULL))
    return NULL;
  return stack + (leaf->waiting - 1) * self->stride;
}

// Adds a replica's contribution, after those of all lower replicas. A value in
// the buffer of ls_cpu_merge_left has been added to it already. `wide` is a
// free buffer of `bytes` if there is a widen step. After the last contribution
// the sum is in `sum`, or at the bottom of the stack if `sum` is NULL.
void ls_cpu_merge_add(const ls_cpu_merge *self, ls_kernel_call *call,
                      const ls_cpu_leaf *leaf, const void *value, char *stack,
                      void *sum, void *wide);

// Copies the rows of a replica to their position in the result of a gather;
// replicas may come in any order.
void ls_cpu_merge_put(const ls_cpu_merge *self, uint32_t replica,
                      const void *value, void *result);

// Sums of parts, of `count` in all, at the bottoms of their stacks, which are
// `stride` bytes apart from part `first` on.
typedef struct ls_cpu_parts {
  char *stacks;
  size_t stride;
  uint32_t first, count;
} ls_cpu_parts;

// Adds up parts `begin` to `end` as far as they form complete subtrees: the sum
// of each subtree ends at the bottom of the stack of its first part, the sum of
// all parts where ls_cpu_merge_add leaves it.
void ls_cpu_merge_parts(const ls_cpu_merge *self, ls_kernel_call *call,
                        const ls_cpu_parts *parts, uint32_t begin, uint32_t end,
                        void *sum);

// Adds the sums of two subtrees; `out` may be either of them.
void ls_cpu_merge_two(const ls_cpu_merge *self, ls_kernel_call *call,
                      const void *left, const void *right, void *out);

// Returns the buffer for the sum of all replicas: `result`, or NULL (the bottom
// of the stack) if a conversion follows. ls_cpu_merge_end then scales and
// converts the sum into `result`.
static inline void *ls_cpu_merge_sum(const ls_cpu_merge *self, void *result) {
  return self->narrow.loop == NULL ? result : NULL;
}
void ls_cpu_merge_end(const ls_cpu_merge *self, ls_kernel_call *call,
                      char *stack, void *result);

// Merges equal contributions. `power` and, if there is a narrow step, `sum` are
// free buffers of `bytes`.
void ls_cpu_merge_equal(const ls_cpu_merge *self, ls_kernel_call *call,
                        const void *value, void *result, void *power,
                        void *sum);

#endif  // LS_ENGINE_CPU_RUN_MERGE_H_
