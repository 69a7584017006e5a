// SPDX-License-Identifier: Apache-2.0
//
// The emission of replicas side by side: what batching.c,
// batching_classes.c and batching_merges.c share.
#ifndef LS_ENGINE_CPU_COMPILE_BATCHING_H_
#define LS_ENGINE_CPU_COMPILE_BATCHING_H_

#include "engine/cpu/compile/region.h"

// The replicas of one class.
typedef struct ls_cpu_batched {
  ls_cpu_compiler *compiler;
  ls_cpu_region *region;
  ls_cpu_body *body;
  const ls_graph *graph;
  ls_cpu_scope *scope;
  uint32_t first, replicas;  // From which one on, and how many.
  uint32_t lanes;            // As many; 1 where all of them do the same.
  // By node: whether it has a value for each lane; whether the merge that alone
  // uses it computes it; whether somebody in here needs what shared code
  // computes.
  bool *varies, *is_merged, *needs;
  // By argument: the storages of its parts, one a lane, and whether they have
  // been lined up; a wide one is.
  uint32_t **parts;
  bool *is_lined_up;
  uint32_t emitted;  // Nodes that have been.
} ls_cpu_batched;

// How a class comes to a merge: with a value; with a product, times a number,
// that is summed while it is multiplied; with -0, which changes no sum.
typedef enum ls_cpu_comes_with {
  LS_CPU_COMES_VALUE,
  LS_CPU_COMES_PRODUCT,
  LS_CPU_COMES_NOTHING,
} ls_cpu_comes_with;

typedef struct ls_cpu_addend {
  ls_cpu_comes_with kind;
  const ls_node *product;
  double scale;  // Of a product, where it has one.
  bool scales;
  uint32_t before;  // Nodes of the class before the merge can be emitted.
} ls_cpu_addend;

// All classes, the first one's body being that which shared code is from.
typedef struct ls_cpu_classes {
  ls_cpu_compiler *compiler;
  ls_cpu_region *region;
  ls_cpu_batched *items;
  uint32_t count;
  ls_cpu_addend *addends;  // By merge and class.
  uint32_t *order;  // The merges, in the order in which they are emitted.
} ls_cpu_classes;

// Some of the replicas, one behind the other.
typedef struct ls_cpu_range {
  uint32_t first, end;
} ls_cpu_range;

static inline bool ls_cpu_batched_varies(const ls_cpu_batched *self,
                                         uint64_t ref) {
  return self->varies[ls_graph_position(self->graph, ls_ref_id(ref))];
}

// The number of the argument that a value is, or NONE.
uint32_t ls_cpu_batched_argument(const ls_cpu_batched *self, uint64_t ref);
// The storage of a value: an argument is lined up when it is first used so.
uint32_t ls_cpu_batched_storage(ls_cpu_batched *self, uint64_t ref);

// What an instruction is that no node asked for.
typedef struct ls_cpu_extra {
  const ls_node *node;
  const char *kind;  // NULL: the node's op.
  ls_kernel_loop loop;
  const void *params;
  int64_t blocks;
  double flops;
  size_t bytes;
  const uint32_t *in, *out;
  uint32_t num_in, num_out;
} ls_cpu_extra;

void ls_cpu_emit_extra(ls_cpu_compiler *compiler, const ls_cpu_extra *e);

// ---- batching_classes.c -----------------------------------------------------
// Whether the replicas of each class can go side by side, and how: fills in
// `out` but for the storages of arguments. No memory fails the compiler, with
// false: the plan does not depend on it.
bool ls_cpu_plan_classes(ls_cpu_compiler *compiler, ls_cpu_region *region,
                         ls_cpu_classes *out);

// ---- batching_merges.c ------------------------------------------------------
// How each class comes to merge `m`; `uses` counts those of its nodes, by
// class. Fills in `is_merged`.
void ls_cpu_find_addends(ls_cpu_classes *self, uint32_t *const *uses,
                         uint32_t m);
// Emits merge `m` of what replicas contribute, and binds its result. One of
// products stands where the product would, before the merge: their operands
// need not be kept until then.
void ls_cpu_merge_batched(ls_cpu_classes *self, uint32_t m);
// Emits merge `m` of some replicas, a subtree, as far as partial sums go, and
// returns a storage that begins with the sum, as `steps` add up.
uint32_t ls_cpu_merge_range(ls_cpu_classes *self, uint32_t m,
                            const ls_cpu_range *of, const ls_cpu_merge *steps);
// Emits merge `m` of these replicas step by step, to `result`; returns the
// storage of its stack.
uint32_t ls_cpu_merge_steps(ls_cpu_classes *self, uint32_t m,
                            const ls_cpu_range *of, const ls_cpu_merge *steps,
                            uint32_t result);

// ---- batching_ranks.c -------------------------------------------------------
// Emits merge `m` of the replicas of all ranks, to `result`.
void ls_cpu_merge_on_ranks(ls_cpu_classes *self, uint32_t m, uint32_t result);
// Emits the exchange of what single replicas give, and makes room for it.
void ls_cpu_exchange_gathered(ls_cpu_classes *self);

#endif  // LS_ENGINE_CPU_COMPILE_BATCHING_H_
