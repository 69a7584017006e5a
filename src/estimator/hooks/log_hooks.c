// SPDX-License-Identifier: Apache-2.0
#include "estimator/hooks/log_hooks.h"

#include "base/require.h"
#include "train/hooks/hook.h"

static int64_t runs_of(ls_loop_length length, int64_t steps) {
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
    options.every_steps = (ls_opt)LS_SOME(runs_of(length, log_steps.value));
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
