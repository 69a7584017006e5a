// SPDX-License-Identifier: Apache-2.0
//
// The gradient of weights that are used several times, such as those of each
// step of an unrolled loop, is a sum of products. Joined into one op, the
// products are added up block by block and never stored:
//
//   add_n(matmul(x', dy), matmul(u', dz))   add_products(x, dy, u, dz)
//
// Bit for bit: both add up along the canonical tree. The factors live until the
// sum in place of the products, so that only products are joined that are as
// large as both factors.
#include "engine/cpu/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/walk.h"

static int64_t count_elements(const ls_rewrite *r, uint64_t ref) {
  return ls_shape_num_elements(ls_graph_type(r->graph, ref).shape);
}

// Returns the product of matrices, the first transposed, that is used for this
// sum alone and not smaller than its factors; NULL: the value is something
// else.
static const ls_node *product_of(const ls_rewrite *r, uint64_t ref) {
  const ls_node *node = ls_rewrite_match(r, ref, LS_OP_MATMUL);
  if (node == NULL || ls_rewrite_count_uses(r, node->id) != 1 ||
      ls_rewrite_count_leaving(r, node->id) != 0 ||
      ls_node_int(node, LS_ATTR_ID_TRANSPOSE_A) == 0 ||
      ls_node_int(node, LS_ATTR_ID_TRANSPOSE_B) != 0)
    return NULL;
  const ls_type a = ls_graph_type(r->graph, node->inputs[0]);
  const ls_type b = ls_graph_type(r->graph, node->inputs[1]);
  const bool fits = (a.dtype == LS_DTYPE_F32 || a.dtype == LS_DTYPE_F64) &&
                    a.shape.rank == 2 && b.shape.rank == 2;
  const bool is_large =
      count_elements(r, node->inputs[0]) + count_elements(r, node->inputs[1]) <=
      count_elements(r, ref);
  return fits && is_large ? node : NULL;
}

static ls_status join_sum(ls_rewrite *r, ls_node *sum) {
  if (sum->type != LS_OP_ADD_N || sum->num_inputs < 2) return ls_ok();
  for (uint32_t i = 0; i < sum->num_inputs; ++i)
    if (product_of(r, sum->inputs[i]) == NULL) return ls_ok();
  LS_OWN_ARRAY_OR_RETURN(r->graph->allocator, uint64_t, factors,
                         2 * (size_t)sum->num_inputs);
  for (uint32_t i = 0; i < sum->num_inputs; ++i)
    memcpy(factors + 2 * i, product_of(r, sum->inputs[i])->inputs,
           2 * sizeof(uint64_t));
  sum->type = LS_OP_ADD_PRODUCTS;
  return ls_rewrite_set_inputs(r, sum, factors, 2 * sum->num_inputs);
}

static ls_status join_products(ls_graph *graph, void *out_changed) {
  LS_OWN(ls_rewrite, r) = {0};
  LS_RETURN_IF_ERROR(ls_rewrite_begin(&r, graph));
  for (size_t i = 0; i < graph->num_nodes; ++i)
    LS_RETURN_IF_ERROR(join_sum(&r, graph->nodes[i]));
  *(bool *)out_changed |= r.changed;
  return ls_rewrite_end(&r);
}

ls_status ls_cpu_join_products(ls_graph *graph, bool *out_changed) {
  *out_changed = false;
  return ls_graph_each(graph, join_products, out_changed);
}
