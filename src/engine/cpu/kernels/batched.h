// SPDX-License-Identifier: Apache-2.0
//
// Kernels that run for all replicas at once, whose values are concatenated.
#ifndef LS_ENGINE_CPU_KERNELS_BATCHED_H_
#define LS_ENGINE_CPU_KERNELS_BATCHED_H_

#include "engine/cpu/run/merge.h"

// A kernel that each of `lanes` replicas runs on its part of the operands.
typedef struct ls_cpu_per_lane {
  ls_kernel_loop loop;
  const void *params;
  int64_t blocks;  // Blocks of one replica.
  uint32_t first;  // First replica, of `lanes`.
  uint32_t lanes, num_in, num_out;
  size_t strides[];  // Bytes from one replica's part of an operand to the next.
} ls_cpu_per_lane;

enum { LS_CPU_PER_LANE_OPERANDS = 32 };

// Makes the parameters; the caller fills in the strides.
//   LS_INTERNAL  more than LS_CPU_PER_LANE_OPERANDS.
ls_status ls_cpu_per_lane_make(ls_arena *arena, ls_kernel_loop loop,
                               const void *params, int64_t blocks,
                               uint32_t lanes, uint32_t num_in,
                               uint32_t num_out, ls_cpu_per_lane **out_spread);
// Runs block b as block b mod `blocks` of replica b / `blocks`.
void ls_cpu_per_lane_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block);

// Copies between one operand per replica and one operand for all: block r is
// replica r. `params` is the size of a part, a size_t.
void ls_cpu_concatenate_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block);
void ls_cpu_deal_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block);
void ls_cpu_deal_one_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block);
// Copies one value for each replica; `params` is its size.
void ls_cpu_repeat_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block);

// ---- Merges ----------------------------------------------------------------
// Position of a replica's contribution: part `index` of an operand.
typedef struct ls_cpu_merge_part {
  // NO_PART: the replica contributes nothing, or -0, which changes no sum.
  uint32_t operand;
  uint32_t index;
} ls_cpu_merge_part;
enum { LS_CPU_NO_PART = UINT32_MAX };

// A sum or mean of f32 or f64 along the canonical tree: a block of the result
// reads its part of each contribution once and is written once.
typedef struct ls_cpu_tree {
  ls_dtype dtype;
  int64_t count;  // Elements.
  uint32_t replicas;
  bool mean;
  const ls_cpu_kernels *kernels;
  const ls_cpu_merge_part *parts;  // One per replica.
  // Per replica, and at the end: number of lower replicas that contribute.
  const uint32_t *there;
} ls_cpu_tree;

int64_t ls_cpu_tree_blocks(const ls_cpu_tree *tree);
size_t ls_cpu_tree_scratch(const ls_cpu_tree *tree);
void ls_cpu_tree_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block);

// Steps of tree sums, f32 or f64: adding `count` elements of two operands, and
// multiplying by 1 / replicas for a mean. `target` may be an operand.
void ls_cpu_tree_add(const ls_cpu_kernels *kernels, ls_dtype dtype,
                     void *target, const void *a, const void *b, int64_t count);
void ls_cpu_tree_mean(ls_dtype dtype, void *target, const void *sum,
                      int64_t count, uint32_t replicas);

// Any merge, in one block. Outputs: the result, and room for the stack and a
// widened value. A merge of only some replicas writes their rows to the result,
// or leaves their sum at the bottom of the stack.
typedef struct ls_cpu_merge_all {
  const ls_cpu_merge *merge;
  uint32_t first, replicas;
  const ls_cpu_merge_part *parts;  // Per replica, from the first one on.
  const size_t *strides;           // Per replica: the size of its contribution.
} ls_cpu_merge_all;
void ls_cpu_merge_all_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block);

#endif  // LS_ENGINE_CPU_KERNELS_BATCHED_H_
