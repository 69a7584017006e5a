// SPDX-License-Identifier: Apache-2.0
//
// How losses are reduced over replicas: what an estimator asks of a strategy,
// and what the losses of a graph have said.
#include "distribute/context/context.h"
#include "lockstep/strategy_extended.h"

// An open scope, on the stack of whoever opened it.
struct ls_loss_scaling {
  const struct ls_loss_scaling *outer;
  const ls_strategy *strategy;
};

static const ls_scope_type scale_loss_scope = {.name =
                                                   "a scope of scaled losses"};

void ls_scale_loss_scope_begin(ls_scope *scope, ls_strategy *strategy) {
  if (strategy == NULL) {
    ls_context_refuse(scope, ls_invalid_argument("the strategy is NULL"));
    return;
  }
  ls_context *context = ls_context_open(scope, &scale_loss_scope);
  struct ls_loss_scaling *entry = LS_SCOPE_ENTRY(struct ls_loss_scaling, scope);
  *entry = (struct ls_loss_scaling){
      ls_distribute_scoped_of(context)->loss_scaling, strategy};
  ls_distribute_scoped_of(context)->loss_scaling = entry;
}

static bool scales_loss(const ls_strategy *strategy) {
  const struct ls_loss_scaling *entry =
      ls_distribute_scoped_here()->loss_scaling;
  while (entry != NULL && entry->strategy != strategy)
    entry = entry->outer;
  return entry != NULL;
}

ls_reduce_op ls_loss_reduction(void) {
  if (!scales_loss(ls_strategy_current())) return LS_REDUCE_SUM;
  const char *last = ls_graph_loss_reduction(ls_graph_current());
  const bool sum =
      strcmp(last, "weighted_sum") == 0 || strcmp(last, "sum") == 0;
  return sum ? LS_REDUCE_SUM : LS_REDUCE_MEAN;
}
