// SPDX-License-Identifier: Apache-2.0
// A training step of an estimator as a function, outside of a training.
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/input/feed.h"
#include "estimator/calls/estimator.h"
#include "graph/region.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"
#include "lockstep/element_spec.h"
#include "lockstep/estimator_table.h"
#include "lockstep/hook.h"
#include "lockstep/iterator.h"
#include "lockstep/strategy_extended.h"

static ls_status begin_calls(const ls_estimator *self,
                             const ls_input_function *input,
                             ls_estimator_calls *out_calls) {
  const ls_plan *plan = NULL;
  LS_RETURN_IF_ERROR(ls_plans_get(self->plans, LS_MODE_TRAIN, false, &plan));
  for (size_t i = 0; i < self->num_batch_axes; ++i)
    if (self->batch_axis[i] != 0)
      return ls_unimplemented("a step of an estimator with batches along axis "
                              "%lld: replicas share them along axis 0",
                              (long long)self->batch_axis[i]);
  *out_calls = (ls_estimator_calls){.plan = plan,
                                    .model = &self->model_fn,
                                    .input = input,
                                    .config = self->config,
                                    .params = self->params};
  return plan->on_cpu
             ? ls_ok()
             : ls_unimplemented("a step of an estimator on a TPU system");
}

// ---- The batch -------------------------------------------------------------
ls_status ls_estimator_first_batch(ls_estimator *estimator,
                                   const ls_input_function *input,
                                   ls_nest *out_batch) {
  LS_REQUIRE_OUT(out_batch, estimator, input);
  *out_batch = ls_none();
  ls_estimator_calls calls;
  ls_nest features, labels;
  LS_OWN(ls_nest, made) = ls_none();
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_RETURN_IF_ERROR(begin_calls(estimator, input, &calls));
  LS_RETURN_IF_ERROR(ls_call_input(&calls, NULL, &made));
  if (ls_nest_as_dataset(made) == NULL)
    return ls_unimplemented("a batch of an input_fn that gives no Dataset "
                            "(ls_nest_dataset)");
  LS_RETURN_IF_ERROR(
      ls_iterator_create(ls_nest_as_dataset(made), NULL, &iterator));
  LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &element));
  LS_RETURN_IF_ERROR(ls_features_split(element, &features, &labels));
  return ls_take_nest(
      LS_TUPLE(ls_nest_retain(features), ls_nest_retain(labels)), out_batch);
}

// ---- The step --------------------------------------------------------------
// Makes the global step of a function's graph, once for all replicas.
static ls_status make_global_step(void) {
  ls_graph *graph = ls_graph_whole(ls_graph_current());
  ls_variable *step = NULL;
  if (ls_graph_collection(graph, LS_COLLECTION_GLOBAL_STEP, NULL, 0) > 0)
    return ls_ok();
  LS_NAME_SCOPE("");
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = "global_step",
                             .dtype = LS_DTYPE_I64,
                             .trainable = LS_FLAG_OFF,
                             .aggregation = LS_AGGREGATION_ONLY_FIRST_REPLICA},
      &step));
  const ls_status status = ls_graph_add_to_collection(
      graph, LS_COLLECTION_GLOBAL_STEP,
      (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = step});
  ls_variable_release(step);
  return status;
}

// Adds all variables of the current graph to the function's collection.
static ls_status collect_variables(void) {
  ls_graph *graph = ls_graph_current();
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    ls_variable *variable = ls_node_named_variable(walk.node);
    if (variable != NULL)
      LS_RETURN_IF_ERROR(ls_graph_add_to_collection(
          ls_graph_whole(graph), LS_COLLECTION_GLOBAL_VARIABLES,
          (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = variable}));
  }
  return ls_ok();
}

static ls_nest call_model(const ls_estimator *self, ls_nest batch) {
  ls_estimator_calls calls;
  ls_estimator_spec *spec = NULL;
  LS_RETURN_FAILED_IF_ERROR(begin_calls(self, NULL, &calls));
  LS_RETURN_FAILED_IF_ERROR(make_global_step());
  LS_RETURN_FAILED_IF_ERROR(
      ls_call_model(&calls,
                    &(ls_model_inputs){.features = ls_nest_item(batch, 0),
                                       .labels = ls_nest_item(batch, 1),
                                       .mask = ls_failed_tensor(),
                                       .keeps_kind = true},
                    &spec));
  const ls_nest loss = ls_leaf(ls_estimator_spec_values(spec)->loss);
  ls_estimator_spec_release(spec);
  LS_RETURN_FAILED_IF_ERROR(collect_variables());
  return ls_nest_dict("", &(const char *){"loss"}, &loss, 1);
}

ls_nest ls_estimator_step(ls_nest batch, void *estimator) {
  LS_SCALE_LOSS_SCOPE(ls_strategy_current());
  return call_model(estimator, batch);
}
