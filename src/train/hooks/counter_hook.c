// SPDX-License-Identifier: Apache-2.0
// Counts steps a second.
#include "base/plain.h"
#include "base/require.h"
#include "train/hooks/hook.h"

typedef struct counter {
  ls_counter_hook_options options;
  ls_step_timer timer;
  int64_t last;  // The step that the last run has read; -1: none.
  int num_warnings;
  char tag[80];
} counter;

static ls_status counter_after_create(void *state, ls_run_context *context) {
  counter *self = state;
  ls_variable *variable = NULL;
  if (context->graph != NULL)
    LS_RETURN_IF_ERROR(ls_global_step_get(context->graph, &variable));
  ls_format(self->tag, sizeof(self->tag), "%s/sec",
            variable != NULL ? ls_variable_name(variable) : "global_step");
  return ls_ok();
}

static ls_status counter_report(const counter *self,
                                const ls_run_context *context, const char *tag,
                                int64_t step, double value) {
  ls_runtime_log(context->runtime, LS_LOG_INFO, "train", "%s: %g", tag, value);
  return self->options.writer == NULL
             ? ls_ok()
             : ls_event_writer_scalar(self->options.writer, tag, step, value);
}

static ls_status counter_count(counter *self, const ls_run_context *context) {
  double seconds = 0;
  int64_t step = 0, steps = 0;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (!ls_step_timer_is_due(&self->timer, step) ||
      !ls_step_timer_done(&self->timer, step, &seconds, &steps) || seconds <= 0)
    return ls_ok();
  const double speed = (double)steps / seconds;
  LS_RETURN_IF_ERROR(counter_report(self, context, self->tag, step, speed));
  return self->options.batch_size > 0
             ? counter_report(self, context, "examples/sec", step,
                              speed * self->options.batch_size)
             : ls_ok();
}

static ls_status counter_after_run(void *state, ls_run_context *context,
                                   ls_nest results) {
  enum { MOST_WARNINGS = 5 };
  counter *self = state;
  const int64_t read = context->steps;
  (void)results;
  if (ls_step_timer_is_due(&self->timer,
                           read + self->options.steps_per_run.value))
    LS_RETURN_IF_ERROR(counter_count(self, context));
  if (read == self->last && self->num_warnings < MOST_WARNINGS) {
    ++self->num_warnings;
    ls_runtime_log(context->runtime, LS_LOG_WARNING, "train",
                   "the global step has not grown in a run: it is still %lld "
                   "(does the train op add to it?)",
                   (long long)read);
  }
  self->last = read;
  return ls_ok();
}

static const ls_hook_type counter_type = {.name = "step counter",
                                          .size = sizeof(counter),
                                          .counts = true,
                                          .after_create_session =
                                              counter_after_create,
                                          .after_run = counter_after_run};

ls_status ls_counter_hook(const ls_counter_hook_options *options,
                          ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  counter self = {.last = -1};
  if (options != NULL) self.options = *options;
  if (!self.options.every_steps.set && !self.options.every_seconds.set)
    self.options.every_steps = LS_SOME(100);
  if (!self.options.steps_per_run.set) self.options.steps_per_run = LS_SOME(1);
  LS_RETURN_IF_ERROR(ls_step_timer_begin(&self.timer, self.options.every_steps,
                                         self.options.every_seconds));
  return ls_hook_make(&counter_type, &self, out_hook);
}
