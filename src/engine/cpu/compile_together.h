// SPDX-License-Identifier: Apache-2.0
//
// The emission of replicas side by side: what compile_together.c, which does
// all but merges, and compile_together_merges.c share.
#ifndef LS_ENGINE_CPU_COMPILE_TOGETHER_H_
#define LS_ENGINE_CPU_COMPILE_TOGETHER_H_

#include "engine/cpu/compile_region.h"

typedef struct ls_cpu_together {
  ls_cpu_compiler *compiler;
  ls_cpu_region *region;
  const ls_graph *graph;
  ls_cpu_scope *scope;
  uint32_t lanes;
  // By argument: the storages of its parts, one a replica, and whether they
  // have been lined up.
  uint32_t **parts;
  bool *is_lined_up;
  // By node: the merge that alone uses it and computes it, or NULL.
  const ls_node **merged_by;
} ls_cpu_together;

static inline bool ls_cpu_together_varies(const ls_cpu_together *self,
                                          uint64_t ref) {
  return ls_graph_node_of(self->graph, ref)->varying;
}

// The number of the argument that a value is, or NONE.
uint32_t ls_cpu_together_argument(const ls_cpu_together *self, uint64_t ref);
// The storage of a value: an argument is lined up when it is first used so.
uint32_t ls_cpu_together_storage(ls_cpu_together *self, uint64_t ref);

// What an instruction is that no node asked for.
typedef struct ls_cpu_extra {
  const ls_node *node;
  const char *kind;  // NULL: the node's op.
  ls_kernel_loop loop;
  const void *params;
  int64_t blocks, flops;
  size_t bytes;
  const uint32_t *in, *out;
  uint32_t num_in, num_out;
} ls_cpu_extra;

void ls_cpu_emit_extra(ls_cpu_together *self, const ls_cpu_extra *e);

// ---- compile_together_merges.c ---------------------------------------------
// Finds the products that nobody but a merge uses, to be summed while they are
// multiplied: fills in `merged_by`.
ls_status ls_cpu_find_products(ls_cpu_together *self);
// Emits a merge of what replicas contribute, and binds its result. One of
// products stands where the product would, before the merge: their operands
// need not be kept until then.
void ls_cpu_merge_together(ls_cpu_together *self, const ls_node *merge);

#endif  // LS_ENGINE_CPU_COMPILE_TOGETHER_H_
