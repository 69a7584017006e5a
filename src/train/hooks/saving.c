// SPDX-License-Identifier: Apache-2.0
#include "train/hooks/saving.h"

#include "base/memory/own.h"
#include "base/values/nest_internal.h"
#include "lockstep/graph_ops.h"
#include "state/checkpoints.h"
#include "train/folder/saves.h"

ls_status ls_saving_open(ls_saving *self,
                         const ls_checkpoints_options *options) {
  self->every_steps = options->every_steps.set ? options->every_steps.value : 0;
  self->saved = -1;
  return ls_checkpoints_open(options, &self->checkpoints);
}

ls_status ls_saving_close(ls_saving *self) {
  ls_checkpoints *checkpoints = self->checkpoints;
  self->checkpoints = NULL;
  return ls_checkpoints_close(checkpoints);
}

bool ls_saving_is_due(const ls_saving *self, int64_t step) {
  return self->checkpoints != NULL && step != self->saved &&
         ls_checkpoints_are_due(self->checkpoints, step) &&
         (!self->yields || self->every_steps > 0 ||
          !ls_checkpoints_are_writing(self->checkpoints));
}

int64_t ls_saving_steps_left(const ls_saving *self, int64_t step) {
  const int64_t every = self->every_steps;
  return every > 0 ? every - step % every : 0;
}

ls_status ls_saving_save(ls_saving *self, int64_t step,
                         const ls_checkpoint_metric *metrics,
                         size_t num_metrics) {
  self->saved = step;
  return self->checkpoints != NULL
             ? ls_checkpoints_save(self->checkpoints, step, metrics,
                                   num_metrics)
             : ls_ok();
}

bool ls_saving_has_failed(const ls_saving *self) {
  return self->checkpoints != NULL &&
         ls_checkpoints_have_failed(self->checkpoints);
}

ls_status ls_saving_wait(const ls_saving *self) {
  return self->checkpoints != NULL ? ls_checkpoints_wait(self->checkpoints)
                                   : ls_ok();
}

bool ls_saving_has_checkpoint(const ls_saving *self, bool waits) {
  size_t count = 0;
  if (self->checkpoints == NULL ||
      (!waits && ls_checkpoints_are_writing(self->checkpoints)))
    return false;
  ls_status_free(ls_checkpoints_list(self->checkpoints, NULL, 0, &count));
  return count > 0;
}

// ---- Saved variables -------------------------------------------------------
ls_status ls_collection_variables(const ls_graph *graph, const char *name,
                                  ls_variable ***out_variables,
                                  size_t *out_count) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = ls_graph_collection(graph, name, NULL, 0);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  (void)ls_graph_collection(graph, name, leaves, count);
  LS_NEW_ARRAY_OR_RETURN(allocator, ls_variable *, found, count + 1);
  *out_count = 0;
  for (size_t i = 0; i < count; ++i) {
    ls_variable *variable = ls_nest_as_variable(leaves[i]);
    if (variable != NULL) found[(*out_count)++] = variable;
  }
  *out_variables = found;
  return ls_ok();
}

static ls_status saved_op_of(const char *name, ls_nest leaf, ls_op *out_op) {
  if (leaf.kind == LS_KIND_OP)
    *out_op = leaf.as.op;
  else if (leaf.kind == LS_KIND_TENSOR)
    *out_op = ls_tensor_op(leaf.as.tensor);
  else
    return ls_invalid_argument("collection '%s' has %s, which is no op", name,
                               LS_NEST_TEXT(leaf));
  return ls_ok();
}

ls_status ls_collection_ops(const ls_graph *graph, const char *name,
                            ls_op **out_ops, size_t *out_count) {
  ls_allocator *allocator = ls_current_allocator();
  *out_ops = NULL;
  *out_count = ls_graph_collection(graph, name, NULL, 0);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, *out_count + 1);
  (void)ls_graph_collection(graph, name, leaves, *out_count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops, *out_count + 1);
  for (size_t i = 0; i < *out_count; ++i)
    LS_RETURN_IF_ERROR(saved_op_of(name, leaves[i], &ops[i]));
  return ls_hand_over(&ops, out_ops);
}

static ls_status saved_find_all(ls_saved_values *values,
                                const ls_run_context *context,
                                size_t *out_count) {
  const ls_model *model = context->called.model;
  if (context->graph != NULL)
    return ls_collection_variables(context->graph,
                                   LS_COLLECTION_GLOBAL_VARIABLES,
                                   &values->variables, out_count);
  LS_RETURN_IF_ERROR(ls_train_prepare_optimizer(context->runtime, model));
  return ls_train_variables(context->runtime, model, true, &values->variables,
                            out_count);
}

ls_status ls_saved_values_take(ls_saved_values *values,
                               const ls_run_context *context,
                               ls_variable *const *variables, size_t count) {
  ls_saved_values_drop(values);
  if (variables == NULL) {
    LS_RETURN_IF_ERROR(saved_find_all(values, context, &count));
    variables = values->variables;
  }
  values->saver = (ls_saver){.variables = variables,
                             .num_variables = count,
                             .session = context->session,
                             .exact = true};
  return ls_ok();
}

void ls_saved_values_drop(ls_saved_values *values) {
  ls_release(ls_current_allocator(), values->variables);
  *values = (ls_saved_values){0};
}
