// SPDX-License-Identifier: Apache-2.0
#include "estimator/hooks/progress_hooks.h"

#include "base/require.h"
#include "runtime/store.h"
#include "train/folder/saves.h"
#include "train/hooks/hook.h"
#include "train/hooks/saving.h"
#include "train/ranks.h"

// ---- Lines -----------------------------------------------------------------
static int64_t count_runs(ls_loop_length length, int64_t steps) {
  const int64_t each = length.steps > 0 ? length.steps : 1;
  return steps > 0 ? (steps - 1) / each + 1 : 1;
}

ls_status ls_loss_log_hook(ls_tensor loss, ls_loop_length length,
                           ls_opt log_steps, ls_hook **out_hook) {
  static const char *const names[] = {"loss", "step"};
  LS_REQUIRE(out_hook);
  *out_hook = NULL;
  LS_REQUIRE(loss.graph);
  if (!log_steps.set) return ls_ok();
  ls_tensor values[] = {loss, loss};
  {
    LS_GRAPH_SCOPE(loss.graph);
    LS_RETURN_IF_ERROR(ls_global_step_read(&values[1]));
  }
  ls_log_hook_options options = {
      .names = names, .values = values, .num_values = LS_COUNT_OF(values)};
  if (length.seconds > 0)
    options.every_seconds = (ls_opt)LS_SOME(length.seconds);
  else
    options.every_steps = (ls_opt)LS_SOME(count_runs(length, log_steps.value));
  return ls_log_hook(&options, out_hook);
}

ls_status ls_examples_hook(ls_opt log_steps, int64_t steps_per_run,
                           double batch_size, ls_event_writer *events,
                           ls_hook **out_hook) {
  LS_REQUIRE(out_hook);
  *out_hook = NULL;
  if (!log_steps.set) return ls_ok();
  return ls_counter_hook(
      &(ls_counter_hook_options){
          .every_steps = log_steps,
          .steps_per_run = LS_SOME(steps_per_run > 0 ? steps_per_run : 1),
          .writer = events,
          .batch_size = batch_size},
      out_hook);
}

// ---- A global step that does not move --------------------------------------
// The number of runs in a row that may leave the step unchanged. A user's train
// op may count one step in several runs, for example if it accumulates
// gradients.
enum { MOST_STEPS = 100, LEAST_RUNS = 2 };

typedef struct moving {
  const char *train_op;
  int64_t most, runs;  // Limit and count of runs without a change.
  int64_t step;
} moving;

static ls_status moving_hook_after_create(void *state,
                                          ls_run_context *context) {
  moving *self = state;
  self->runs = 0;
  self->step = context->steps;
  return ls_ok();
}

static ls_status moving_hook_after_run(void *state, ls_run_context *context,
                                       ls_nest results) {
  moving *self = state;
  int64_t step = context->steps;
  (void)results;
  if (step == self->step && ++self->runs < self->most) return ls_ok();
  // Reads the step again if it did not change: the run may have fetched its
  // value before the update.
  if (step == self->step)
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  const bool moves = step != self->step;
  self->step = step;
  if (!moves)
    return ls_invalid_argument(
        "the train op '%s' was run %lld times, and the global step is still "
        "%lld: a training would never end; use ls_train_op for the spec's "
        "train_op, or add 1 to the global step",
        self->train_op, (long long)self->runs, (long long)step);
  self->runs = 0;
  return ls_ok();
}

static const ls_hook_type moving_type = {.name = "guard of the global step",
                                         .size = sizeof(moving),
                                         .counts = true,
                                         .after_create_session =
                                             moving_hook_after_create,
                                         .after_run = moving_hook_after_run};

ls_status ls_moving_step_hook(const char *train_op, int64_t steps_per_run,
                              ls_hook **out_hook) {
  const int64_t runs = MOST_STEPS / (steps_per_run > 0 ? steps_per_run : 1);
  return ls_hook_make(&moving_type,
                      &(moving){.train_op = train_op,
                                .most = runs > LEAST_RUNS ? runs : LEAST_RUNS},
                      out_hook);
}

// ---- A check of ranks ------------------------------------------------------
typedef struct checks {
  ls_ranks_check options;
  ls_saved_values values;
  int64_t checked;  // Step of the last check.
} checks;

// Prints hashes of the variables.
static ls_status sum_variables(const checks *self,
                               const ls_run_context *context, int64_t step,
                               ls_text *text) {
  const ls_saver *saver = &self->values.saver;
  uint64_t sum = 0;
  return ls_variables_sum(context->runtime, ls_session_store(context->session),
                          saver->variables, saver->num_variables, step, text,
                          &sum);
}

// Prints what ranks have in common before the first run.
static ls_status describe_begin(const checks *self,
                                const ls_run_context *context, ls_text *text) {
  const ls_ranks_check *o = &self->options;
  uint64_t data = 0;
  if (o->is_new)
    LS_RETURN_IF_ERROR(sum_variables(self, context, context->steps, text));
  if (o->data != NULL)
    LS_RETURN_IF_ERROR(
        ls_train_identify_data(context->runtime, o->data, &data));
  ls_text_append_format(text, "data, by their hash: %016llx\n",
                        (unsigned long long)data);
  return ls_text_status(text);
}

static ls_status ranks_hook_create(void *state, ls_run_context *context) {
  checks *self = state;
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  self->checked = context->steps;
  ls_status status =
      ls_saved_values_take(&self->values, context, self->options.variables,
                           self->options.num_variables);
  if (ls_status_is_ok(status)) status = describe_begin(self, context, &text);
  return ls_ranks_compare(
      self->options.ranks, status,
      &(ls_rank_facts){.verb = "begin with", .text = &text});
}

// All ranks know the same steps, and so compare after the same runs.
static ls_status ranks_hook_after(void *state, ls_run_context *context,
                                  ls_nest results) {
  checks *self = state;
  const ls_ranks_check *o = &self->options;
  const int64_t next = context->steps + o->steps_per_run;
  int64_t step = 0;
  (void)results;
  if (o->every == 0 || next / o->every == self->checked / o->every)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (step / o->every == self->checked / o->every) return ls_ok();
  self->checked = step;
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  const ls_status status = sum_variables(self, context, step, &text);
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
