// SPDX-License-Identifier: Apache-2.0
//
// Gradients of what replicas do together.
#include "grad/rules.h"

// What a replica's value contributes to every replica's sum comes back from
// all of them.
ls_status gradient_all_reduce(ls_gradient *g) {
  const char *reduce = ls_node_attr(g->node, "reduce")->as.string;
  if (strcmp(reduce, "sum") == 0)
    g->din[0] = ls_all_reduce(LS_REDUCE_SUM, g->dout[0]);
  else if (strcmp(reduce, "mean") == 0)
    g->din[0] = ls_all_reduce(LS_REDUCE_MEAN, g->dout[0]);
  else
    return ls_not_found(
        "op '%s' (all_reduce by %s) has no gradient: only sum and mean have "
        "one; wrap its operand in ls_stop_gradient if none shall pass",
        ls_op_name(g->op), reduce);
  return ls_ok();
}

// Each replica's rows are in every replica's result: what comes back for them
// is added up, and each takes its own.
ls_status gradient_all_gather(ls_gradient *g) {
  g->din[0] = ls_reduce_scatter_like(LS_REDUCE_SUM, g->dout[0],
                                     (int)ls_node_int(g->node, "axis", 0),
                                     ls_gradient_input(g, 0));
  return ls_ok();
}

// Each replica's part is a sum to which all contribute alike.
ls_status gradient_reduce_scatter(ls_gradient *g) {
  const char *reduce = ls_node_attr(g->node, "reduce")->as.string;
  const bool is_mean = strcmp(reduce, "mean") == 0;
  if (!is_mean && strcmp(reduce, "sum") != 0)
    return ls_not_found(
        "op '%s' (reduce_scatter by %s) has no gradient: only sum and mean "
        "have one; wrap its operand in ls_stop_gradient if none shall pass",
        ls_op_name(g->op), reduce);
  g->din[0] =
      ls_all_gather(g->dout[0], (int)ls_node_int(g->node, "axis", 0));
  if (is_mean)
    g->din[0] = ls_mul_scalar(
        g->din[0], 1 / (double)ls_node_int(g->node, "replicas", 1));
  return ls_ok();
}
