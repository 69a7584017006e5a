// SPDX-License-Identifier: Apache-2.0
//
// Merges: what all_reduce computes, along the canonical tree on replica ids, and
// all_gather, which puts each replica's rows in their place.
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
#ifndef LS_ENGINE_CPU_MERGE_H_
#define LS_ENGINE_CPU_MERGE_H_

#include "engine/cpu/kernel.h"

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
  uint32_t depth;          // Buffers of the stack.
  size_t scratch;          // Bytes that the steps need.
  const size_t *offsets;   // Of a gather, for R + 1 replicas: where in the
                           // result the rows of each begin. Else NULL.
} ls_cpu_merge;

// Prepares the merge of an all_reduce or all_gather node; `type` is that of its
// result.
// Everything goes into the arena.
//   LS_UNIMPLEMENTED  no such reduction or no kernel for the type.
ls_status ls_cpu_merge_prepare(const ls_cpu_kernels *kernels, ls_arena *arena,
                               const ls_graph *graph, const ls_node *node,
                               ls_type type, int32_t replicas,
                               ls_cpu_merge **out_merge);

// Whether equal contributions give just that value: maximum and minimum.
bool ls_cpu_merge_is_idempotent(const ls_node *node);

// Where in the stack the contribution of a replica may be written: NULL for
// those that are added to what is there.
static inline void *ls_cpu_merge_top(const ls_cpu_merge *self, char *stack,
                                     uint32_t replica) {
  if (self->offsets != NULL || (replica & 1U) != 0 || replica + 1 == (uint32_t)self->replicas) {
    return NULL;
  }
  return stack + (size_t)__builtin_popcount(replica) * self->stride;
}

// Adds the contribution of `replica`, which comes after those of all lower
// ones. `wide` is a free buffer of `bytes` if there is a widen step. True:
// that was the last one, and `result` is complete.
bool ls_cpu_merge_add(const ls_cpu_merge *self, ls_kernel_call *call,
                      uint32_t replica, const void *value, char *stack,
                      void *result, void *wide);

// The merge of equal contributions. `power` and, if there is a narrow step,
// `sum` are free buffers of `bytes`.
void ls_cpu_merge_equal(const ls_cpu_merge *self, ls_kernel_call *call,
                        const void *value, void *result, void *power,
                        void *sum);

#endif  // LS_ENGINE_CPU_MERGE_H_
