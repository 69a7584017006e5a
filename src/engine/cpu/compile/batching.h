// SPDX-License-Identifier: Apache-2.0
//
// Emission of replicas as one batch: declarations shared by batching.c,
// batching_classes.c, batching_merges.c and batching_ranks.c.
#ifndef LS_ENGINE_CPU_COMPILE_BATCHING_H_
#define LS_ENGINE_CPU_COMPILE_BATCHING_H_

#include "engine/cpu/compile/region.h"

// The range of a node's operands that are split into independent rows: `count`
// operands from `first` on; each row uses the other operands whole. Count 0:
// the op has no independent rows. Determined by the op's row in ops.def.
typedef struct ls_cpu_rows {
  uint32_t first, count;
} ls_cpu_rows;
ls_cpu_rows ls_cpu_find_rows(const ls_graph *graph, const ls_node *node);
// Returns true if each row of a value is computed from the same row of one of
// the program's inputs, as far as that is easy to find (input_rows.c).
bool ls_cpu_has_input_rows(const ls_program *program, const ls_graph *graph,
                           uint64_t ref);

// The replicas of one class.
typedef struct ls_cpu_batched {
  ls_cpu_compiler *compiler;
  ls_cpu_region *region;
  ls_cpu_body *body;
  const ls_graph *graph;
  ls_cpu_scope *scope;
  // First replica of the class, and number of replicas.
  uint32_t first, replicas;
  // Number of parts in each value: `replicas`, or 1 if all replicas compute the
  // same.
  uint32_t lanes;
  // Per node. varies: the node has a value for each lane; is_merged: the node
  // is computed by the only merge that uses it; needs: a node of this body uses
  // the node's value from shared code.
  bool *varies, *is_merged, *needs;
  // Per argument: the storages of its parts, one per lane, and whether they
  // have been concatenated in one storage, as wide arguments are from the
  // start.
  uint32_t **parts;
  bool *is_concatenated;
  uint32_t emitted;  // Number of emitted nodes.
} ls_cpu_batched;

// A class's contribution to a merge: a value; a product times a number, summed
// while it is multiplied; or -0, which changes no sum.
typedef enum ls_cpu_comes_with {
  LS_CPU_COMES_VALUE,
  LS_CPU_COMES_PRODUCT,
  LS_CPU_COMES_NOTHING,
} ls_cpu_comes_with;

typedef struct ls_cpu_addend {
  ls_cpu_comes_with kind;
  const ls_node *product;
  double scale;  // Factor of the product, if `scales`.
  bool scales;
  uint32_t before;  // Nodes of the class that must be emitted before the merge.
} ls_cpu_addend;

// A merge whose sums of this rank's subtrees have been emitted, and whose
// exchange with other ranks has not.
typedef struct ls_cpu_unsent {
  const ls_node *merge;
  const ls_cpu_merge *steps;
  size_t first, count;  // Elements of the result.
  uint32_t *own;        // Storages of the sums.
  uint32_t result;
} ls_cpu_unsent;

// All classes. Shared code comes from the body of the first one.
typedef struct ls_cpu_classes {
  ls_cpu_compiler *compiler;
  ls_cpu_region *region;
  ls_cpu_batched *items;
  uint32_t count;
  ls_cpu_addend *addends;  // Per merge and class.
  uint32_t *order;         // Merge numbers in the order of emission.
  ls_cpu_unsent *unsent;   // Room for all merges.
  uint32_t num_unsent;
  size_t unsent_bytes;
} ls_cpu_classes;

// A range of replicas, whose values are concatenated.
typedef struct ls_cpu_range {
  uint32_t first, end;
} ls_cpu_range;

static inline bool ls_cpu_batched_varies(const ls_cpu_batched *self,
                                         uint64_t ref) {
  return self->varies[ls_graph_position(self->graph, ls_ref_id(ref))];
}

// Returns the number of an argument's value, or NONE for other values.
uint32_t ls_cpu_batched_argument(const ls_cpu_batched *self, uint64_t ref);
// Returns the storage of a value. Concatenates the parts of an argument at its
// first use.
uint32_t ls_cpu_batched_storage(ls_cpu_batched *self, uint64_t ref);

// Describes an instruction that does not correspond to a node.
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

// ---- batching_classes.c ----------------------------------------------------
// Decides whether the replicas of each class can run as one batch, and how:
// fills in `out` except the storages of arguments. Without memory the compiler
// fails and the result is false; the plan never depends on memory.
bool ls_cpu_plan_classes(ls_cpu_compiler *compiler, ls_cpu_region *region,
                         ls_cpu_classes *out);

// ---- batching_merges.c -----------------------------------------------------
// Chooses the contribution of each class to merge `m`, and fills in
// `is_merged`; `uses` counts the uses of each node, per class.
void ls_cpu_find_addends(ls_cpu_classes *self, uint32_t *const *uses,
                         uint32_t m);
// Emits merge `m` of the replicas' contributions and binds its result. A merge
// of products is emitted at the position of the products, earlier than the
// merge, so that their operands need not be kept until then.
void ls_cpu_merge_batched(ls_cpu_classes *self, uint32_t m);
// Emits the partial sum of merge `m` over a range of replicas that forms a
// subtree. Returns a storage that begins with the sum, in the type of the
// additions in `steps`: `result` where that is possible, unless it is NONE.
uint32_t ls_cpu_merge_range(ls_cpu_classes *self, uint32_t m,
                            const ls_cpu_range *range,
                            const ls_cpu_merge *steps, uint32_t result);
// Emits rows `first` to `end` of the partial sum of merge `m` over a subtree.
// Returns a storage; NONE if the merge is not one of products.
uint32_t ls_cpu_merge_rows(ls_cpu_classes *self, uint32_t m,
                           const ls_cpu_range *range, int64_t first,
                           int64_t end);
// Emits merge `m` of these replicas, addition by addition, to `result`; returns
// the storage of its stack.
uint32_t ls_cpu_merge_steps(ls_cpu_classes *self, uint32_t m,
                            const ls_cpu_range *range,
                            const ls_cpu_merge *steps, uint32_t result);

// ---- batching_ranks.c ------------------------------------------------------
// Emits merge `m` over the replicas of all ranks, to `result`. A sum may be
// exchanged later, together with others.
void ls_cpu_merge_on_ranks(ls_cpu_classes *self, uint32_t m, uint32_t result);
// Emits the exchange of all sums that are unsent if there are enough of them,
// or merge number `e` in the order of emission was the last.
void ls_cpu_send_ready(ls_cpu_classes *self, uint32_t e);
// Does so if a node reads the result of one of them.
void ls_cpu_send_before(ls_cpu_classes *self, const ls_node *node);
// Emits the exchange of per-replica results, and makes storages for those of
// all ranks.
void ls_cpu_exchange_gathered(ls_cpu_classes *self);

#endif  // LS_ENGINE_CPU_COMPILE_BATCHING_H_
