// SPDX-License-Identifier: Apache-2.0
//
// Merges of replicas that go side by side: of what lies one behind the other,
// or of an argument's parts, or of products that no replica stores.
#include "engine/cpu/compile_together.h"

#include "engine/cpu/products.h"
#include "engine/cpu/together.h"

// Elements of a product from which on it matters, and how many times that its
// operands may be for it to be summed while it is multiplied.
enum { LEAST_ELEMENTS = 4096, MOST_OPERANDS = 2 };

// Whether a merge is a sum or mean of floats that are added as they are.
static bool is_sum(const ls_node *merge, bool *out_mean) {
  const ls_attr *attr = ls_node_attr(merge, "reduce");
  const char *reduce = attr == NULL ? "sum" : attr->as.string;
  const ls_dtype dtype = merge->outputs[0].dtype;
  *out_mean = strcmp(reduce, "mean") == 0;
  return merge->type == LS_OP_ALL_REDUCE &&
         (*out_mean || strcmp(reduce, "sum") == 0) &&
         (dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64);
}

// Whether a merge adds up products of what replicas have, whose operands are
// small enough beside them.
static bool adds_products(const ls_cpu_together *self, const ls_node *merge) {
  bool mean = false;
  const ls_node *node = ls_graph_node_of(self->graph, merge->inputs[0]);
  if (!is_sum(merge, &mean) || node->type != LS_OP_MATMUL ||
      !ls_node_int(node, "transpose_a", 0) ||
      ls_node_int(node, "transpose_b", 0))
    return false;
  int64_t operands = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    const ls_shape shape = ls_graph_type(self->graph, node->inputs[i]).shape;
    if (shape.rank != 2 || !ls_cpu_together_varies(self, node->inputs[i]))
      return false;
    operands += ls_shape_num_elements(shape);
  }
  const int64_t size = ls_shape_num_elements(node->outputs[0].shape);
  return size >= LEAST_ELEMENTS && operands <= MOST_OPERANDS * size;
}

ls_status ls_cpu_find_products(ls_cpu_together *self) {
  const ls_graph *graph = self->graph;
  ls_arena *temp = &self->compiler->temp;
  uint32_t *uses = ls_arena_new_array(temp, uint32_t, graph->num_nodes);
  self->merged_by = ls_arena_new_array(temp, const ls_node *, graph->num_nodes);
  if (uses == NULL || self->merged_by == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t n = 0; n < graph->nodes[i]->num_inputs; ++n)
      ++uses[ls_graph_position(graph, ls_ref_id(graph->nodes[i]->inputs[n]))];
  for (size_t i = 0; i < graph->num_results; ++i)
    ++uses[ls_graph_position(graph, ls_ref_id(graph->results[i]))];
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *merge = graph->nodes[i];
    if (!self->region->meets[i]) continue;
    const size_t at = ls_graph_position(graph, ls_ref_id(merge->inputs[0]));
    if (uses[at] == 1 && adds_products(self, merge))
      self->merged_by[at] = merge;
  }
  return ls_ok();
}

static void emit_products(ls_cpu_together *self, const ls_node *merge,
                          const ls_node *product, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_type a = ls_graph_type(self->graph, product->inputs[0]);
  const ls_type b = ls_graph_type(self->graph, product->inputs[1]);
  ls_cpu_products products = {.dtype = a.dtype,
                              .m = a.shape.dim[1],
                              .n = b.shape.dim[1],
                              .k = a.shape.dim[0],
                              .replicas = self->lanes};
  is_sum(merge, &products.mean);
  ls_kernel_plan plan = {.kernels = compiler->kernels,
                         .arena = &compiler->out->arena};
  const ls_status status = ls_cpu_products_prepare(&products, &plan);
  if (status != NULL) {
    ls_cpu_fail_at(compiler, self->graph, merge, status);
    return;
  }
  uint32_t in[2];
  size_t bytes = ls_cpu_type_size(merge->outputs[0]);
  for (uint32_t i = 0; i < 2; ++i) {
    in[i] = ls_cpu_together_storage(self, product->inputs[i]);
    bytes += self->lanes * ls_cpu_ref_size(self->graph, product->inputs[i]);
  }
  ls_cpu_emit_extra(self, &(ls_cpu_extra){.node = merge,
                                          .kind = "sum of products",
                                          .loop = plan.loop,
                                          .params = plan.params,
                                          .blocks = plan.blocks,
                                          .flops = plan.flops,
                                          .bytes = bytes,
                                          .in = in,
                                          .num_in = 2,
                                          .out = &result,
                                          .num_out = 1});
  ls_cpu_need_scratch(compiler, plan.scratch);
  compiler->out->facts.flops += plan.flops * compiler->trips;
}

static void emit_tree(ls_cpu_together *self, const ls_node *merge,
                      uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_type type = merge->outputs[0];
  ls_cpu_tree *tree = ls_arena_new(&compiler->out->arena, ls_cpu_tree);
  if (tree == NULL) {
    ls_cpu_fail(compiler, ls_out_of_memory());
    return;
  }
  const uint32_t argument = ls_cpu_together_argument(self, merge->inputs[0]);
  *tree = (ls_cpu_tree){.dtype = type.dtype,
                        .count = ls_shape_num_elements(type.shape),
                        .replicas = self->lanes,
                        .kernels = compiler->kernels,
                        .apart = argument != LS_CPU_NONE &&
                                 !self->is_lined_up[argument]};
  is_sum(merge, &tree->mean);
  ls_cpu_need_scratch(compiler, ls_cpu_tree_scratch(tree));
  const uint32_t all =
      tree->apart ? 0 : ls_cpu_together_storage(self, merge->inputs[0]);
  ls_cpu_emit_extra(
      self, &(ls_cpu_extra){.node = merge,
                            .loop = ls_cpu_tree_loop,
                            .params = tree,
                            .blocks = ls_cpu_tree_blocks(tree),
                            .bytes = (self->lanes + 1) * ls_cpu_type_size(type),
                            .in = tree->apart ? self->parts[argument] : &all,
                            .num_in = tree->apart ? self->lanes : 1,
                            .out = &result,
                            .num_out = 1});
}

// Whatever else there is: step by step.
static void emit_any(ls_cpu_together *self, const ls_node *merge,
                     uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  ls_arena *arena = &compiler->out->arena;
  ls_cpu_merge_all *all = ls_arena_new(arena, ls_cpu_merge_all);
  ls_cpu_merge *steps = NULL;
  ls_status status =
      all == NULL
          ? ls_out_of_memory()
          : ls_cpu_merge_prepare(compiler->kernels, arena, merge,
                                 merge->outputs[0], compiler->replicas, &steps);
  if (status != NULL) {
    ls_cpu_fail_at(compiler, self->graph, merge, status);
    return;
  }
  all->merge = steps;
  all->stride = ls_cpu_ref_size(self->graph, merge->inputs[0]);
  ls_cpu_need_scratch(compiler, steps->scratch);
  const uint32_t outputs[] = {
      result,
      ls_cpu_new_shared(compiler,
                        steps->stride * ls_cpu_merge_depth(self->lanes)),
      ls_cpu_new_shared(compiler, steps->widen.loop == NULL ? 0 : steps->bytes),
  };
  const uint32_t value = ls_cpu_together_storage(self, merge->inputs[0]);
  ls_cpu_emit_extra(self, &(ls_cpu_extra){.node = merge,
                                          .loop = ls_cpu_merge_all_loop,
                                          .params = all,
                                          .blocks = 1,
                                          .in = &value,
                                          .num_in = 1,
                                          .out = outputs,
                                          .num_out = 3});
}

void ls_cpu_merge_together(ls_cpu_together *self, const ls_node *merge) {
  ls_cpu_compiler *compiler = self->compiler;
  const uint32_t result =
      ls_cpu_new_shared(compiler, ls_cpu_type_size(merge->outputs[0]));
  ls_cpu_bind_ref(compiler, self->scope, ls_ref(merge->id, 0), result);
  const size_t at = ls_graph_position(self->graph, ls_ref_id(merge->inputs[0]));
  bool mean = false;
  if (self->merged_by[at] != NULL)
    emit_products(self, merge, self->graph->nodes[at], result);
  else if (is_sum(merge, &mean))
    emit_tree(self, merge, result);
  else
    emit_any(self, merge, result);
}
