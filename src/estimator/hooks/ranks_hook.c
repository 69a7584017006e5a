// SPDX-License-Identifier: Apache-2.0
#include "estimator/hooks/progress_hooks.h"
#include "runtime/store.h"
#include "train/hooks/saving.h"
#include "train/ranks.h"

typedef struct checks {
  ls_ranks_check options;
  ls_saved_values values;
  int64_t checked;  // Step of the last check.
} checks;

static ls_status ranks_hook_create(void *state, ls_run_context *context) {
  checks *self = state;
  self->checked = context->steps;
  return ls_saved_values_take(&self->values, context, self->options.variables,
                              self->options.num_variables);
}

// All ranks know the same steps, and so compare after the same runs.
static ls_status ranks_hook_after(void *state, ls_run_context *context,
                                  ls_nest results) {
  checks *self = state;
  const ls_ranks_check *o = &self->options;
  const ls_saver *saver = &self->values.saver;
  const int64_t next = context->steps + o->steps_per_run;
  int64_t step = 0;
  uint64_t sum = 0;
  (void)results;
  if (next / o->every == self->checked / o->every) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (step / o->every == self->checked / o->every) return ls_ok();
  self->checked = step;
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  const ls_status status = ls_variables_sum(
      context->runtime, ls_session_store(context->session), saver->variables,
      saver->num_variables, step, &text, &sum);
  return ls_ranks_compare(
      o->ranks, status,
      &(ls_rank_facts){.verb = "have", .code = LS_DATA_LOSS, .text = &text});
}

static void ranks_hook_destroy(void *state) {
  ls_saved_values_drop(&((checks *)state)->values);
}

static const ls_hook_type ranks_hook_type = {.name = "check of ranks",
                                             .size = sizeof(checks),
                                             .counts = true,
                                             .needs_session = true,
                                             .after_create_session =
                                                 ranks_hook_create,
                                             .after_run = ranks_hook_after,
                                             .destroy = ranks_hook_destroy};

ls_status ls_ranks_hook(const ls_ranks_check *options, ls_hook **out_hook) {
  LS_RETURN_IF_ERROR(ls_hook_make(&ranks_hook_type, NULL, out_hook));
  ((checks *)(*out_hook)->state)->options = *options;
  return ls_ok();
}
