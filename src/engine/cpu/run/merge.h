// SPDX-License-Identifier: Apache-2.0
//
// Merges: what all_reduce computes, along the canonical tree on replica ids,
// and all_gather, which puts each replica's rows in their place.
//
// The tree over n replicas splits at the largest power of two below n; the
// left operand of each addition is the subtree of the lower ids. Contributions
// come in order of replica, so the complete subtrees that wait for their
// sibling form a stack, as the ones of a binary counter do: replica r finds
// popcount(r) of them, merges with as many as r has trailing ones, and the last
// one with all. floor(log2 n) buffers hold the stack.
//
// A replica without a trailing one (an even one that is not the last) only
// pushes: its kernel may write straight into the stack.
//
// A part of the replicas, 2^k of them from a multiple of 2^k on or what is left
// of them at the end, is a subtree. So each part has a stack of its own, in
// which its replicas count from 0, and leaves its sum at the stack's bottom;
// the parts' sums then form a tree as replicas do.
#ifndef LS_ENGINE_CPU_RUN_MERGE_H_
#define LS_ENGINE_CPU_RUN_MERGE_H_

#include "engine/cpu/kernels/kernel.h"

typedef struct ls_cpu_step {
  ls_kernel_loop loop;  // NULL: no such step.
  const void *params;
  int64_t blocks;
  bool by_team;  // Worth sharing among threads.
} ls_cpu_step;

typedef struct ls_cpu_merge {
  int32_t replicas;        // At least 2.
  ls_cpu_step widen;       // 16-bit floats are added as f32 ...
  ls_cpu_step combine;     // Two subtrees.
  ls_cpu_step scale;       // Mean: times `reciprocal`.
  ls_cpu_step narrow;      // ... and rounded once.
  const void *reciprocal;  // One element.
  size_t bytes;            // Of a partial result.
  size_t stride;           // From one buffer of the stack to the next.
  size_t scratch;          // Bytes that the steps need.
  const size_t *offsets;   // Of a gather, for R + 1 replicas: where in the
                           // result the rows of each begin. Else NULL.
} ls_cpu_merge;

// Prepares the merge of an all_reduce or all_gather node; `type` is that of its
// result.
// Everything goes into the arena.
//   LS_UNIMPLEMENTED  no such reduction or no kernel for the type.
ls_status ls_cpu_merge_prepare(const ls_cpu_kernels *kernels, ls_arena *arena,
                               const ls_node *node, ls_type type,
                               int32_t replicas, ls_cpu_merge **out_merge);

// Whether equal contributions give just that value: maximum and minimum.
bool ls_cpu_merge_is_idempotent(const ls_node *node);

// Buffers that the stack of `count` replicas takes.
static inline uint32_t ls_cpu_merge_depth(uint32_t count) {
  return count < 2 ? 1 : 31U - (uint32_t)__builtin_clz(count);
}

// A replica's place in the tree over `count`, where it is number `index`.
typedef struct ls_cpu_leaf {
  uint32_t index, count;
  uint32_t waiting;  // Subtrees on the stack when it comes, and ...
  uint32_t merges;   // ... how many of them it completes.
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

// Where in the stack the contribution of a replica may be written: NULL for
// those that are added to what is there.
static inline void *ls_cpu_merge_top(const ls_cpu_merge *self, char *stack,
                                     const ls_cpu_leaf *leaf) {
  if (self->offsets != NULL || leaf->merges > 0) return NULL;
  return stack + leaf->waiting * self->stride;
}

// What it is added to first: NULL for those that are not, and where the sum
// goes to `sum`, which is not NULL.
static inline void *ls_cpu_merge_left(const ls_cpu_merge *self, char *stack,
                                      const ls_cpu_leaf *leaf,
                                      const void *sum) {
  const bool ends = leaf->index + 1 == leaf->count && leaf->merges == 1;
  if (self->offsets != NULL || leaf->merges == 0 || (ends && sum != NULL)) {
    return NULL;
  }
  return stack + (leaf->waiting - 1) * self->stride;
}

// Adds the contribution of a replica, which comes after those of all lower
// ones; a value that lies where ls_cpu_merge_left says has been added to it
// already. `wide` is a free buffer of `bytes` if there is a widen step. After
// the last one the sum is in `sum`, or at the bottom of the stack if that is
// NULL.
void ls_cpu_merge_add(const ls_cpu_merge *self, ls_kernel_call *call,
                      const ls_cpu_leaf *leaf, const void *value, char *stack,
                      void *sum, void *wide);

// A gather, instead: puts the rows of a replica where they belong, in any
// order.
void ls_cpu_merge_put(const ls_cpu_merge *self, uint32_t replica,
                      const void *value, void *result);

// What `count` parts have left at the bottom of their stacks, which are
// `stride` bytes apart.
typedef struct ls_cpu_parts {
  char *stacks;
  size_t stride;
  uint32_t count;
} ls_cpu_parts;

// Adds up parts `begin` to `end` as far as these alone are whole subtrees: the
// sum of each is then at the bottom of its first part, that of all parts where
// ls_cpu_merge_add leaves it.
void ls_cpu_merge_parts(const ls_cpu_merge *self, ls_kernel_call *call,
                        const ls_cpu_parts *parts, uint32_t begin, uint32_t end,
                        void *sum);
// The subtree of parts `first` to `last` has its sum, as have those below: adds
// them up as far as this one makes larger ones whole.
void ls_cpu_merge_subtree(const ls_cpu_merge *self, ls_kernel_call *call,
                          const ls_cpu_parts *parts, uint32_t first,
                          uint32_t last, void *sum);

// The sum of two subtrees, which may lie on either.
void ls_cpu_merge_two(const ls_cpu_merge *self, ls_kernel_call *call,
                      const void *left, const void *right, void *out);

// Where the sum of all goes: a buffer for `result`'s, or NULL, the stack's
// bottom, if it is not what is wanted yet; and then makes that of it.
static inline void *ls_cpu_merge_sum(const ls_cpu_merge *self, void *result) {
  return self->narrow.loop == NULL ? result : NULL;
}
void ls_cpu_merge_end(const ls_cpu_merge *self, ls_kernel_call *call,
                      char *stack, void *result);

// The merge of equal contributions. `power` and, if there is a narrow step,
// `sum` are free buffers of `bytes`.
void ls_cpu_merge_equal(const ls_cpu_merge *self, ls_kernel_call *call,
                        const void *value, void *result, void *power,
                        void *sum);

#endif  // LS_ENGINE_CPU_RUN_MERGE_H_
