// SPDX-License-Identifier: Apache-2.0
#include "train/step_check.h"

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "graph/variables/variable.h"
#include "lockstep/function_plan.h"
#include "lower/lower.h"

static ls_status check_results(const ls_model *model, ls_nest results) {
  static const char *const keys[] = {"loss", "accuracy"};
  for (size_t i = 0; i < LS_COUNT_OF(keys); ++i)
    if (ls_nest_find(results, keys[i]).kind == LS_KIND_NONE)
      return ls_invalid_argument(
          "the training step of model '%s' gives no \"%s\": it must give a "
          "dict of \"loss\" and, of a model made with .metrics, \"accuracy\"",
          model->type->name, keys[i]);
  return ls_ok();
}

// Whether one of them, or the whole of which it is a component, is trained.
static bool any_is_trained(ls_variable *const *written, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const ls_variable *whole = written[i]->container;
    if (ls_variable_is_trainable(whole != NULL ? whole : written[i]))
      return true;
  }
  return false;
}

static ls_status check_updates(const ls_model *model, const ls_function *step) {
  const ls_graph *graph = ls_function_graph(step);
  LS_OWN_MEMORY(graph->allocator, ls_variable *, written) = NULL;
  size_t count = 0, capacity = 0;
  LS_RETURN_IF_ERROR(
      ls_graph_written(graph, graph->allocator, &written, &count, &capacity));
  if (!any_is_trained(written, count))
    return ls_invalid_argument(
        "the training step of model '%s' changes no trainable variable: it "
        "takes no step of an optimizer (see ls_optimizer_minimize)",
        model->type->name);
  return ls_ok();
}

ls_status ls_train_check_step(const ls_model *model, const ls_function *step,
                              ls_nest results) {
  if (model->type->variables(model->self, NULL, 0) == 0)
    return ls_invalid_argument("model '%s' lists no variables: there is "
                               "nothing to train or save",
                               model->type->name);
  LS_RETURN_IF_ERROR(check_results(model, results));
  return check_updates(model, step);
}
