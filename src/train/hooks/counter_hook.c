// SPDX-License-Identifier: Apache-2.0
// Counts steps a second.
#include "base/plain.h"
#include "base/require.h"
#include "train/hooks/hook.h"

typedef struct counter {
  ls_counter_hook_options options;
  ls_step_timer timer;
  int64_t last;  // The step that the run before has read; -1: none.
  int warnings;
  char tag[80];
} counter;

static ls_status counter_after_create(void *user, ls_run_context *context) {
  counter *self = user;
  ls_variable *variable = NULL;
  if (context->graph != NULL)
    LS_RETURN_IF_ERROR(ls_global_step_get(context->graph, &variable));
  ls_format(self->tag, sizeof(self->tag), "%s/sec",
            variable != NULL ? ls_variable_name(variable) : "global_step");
  return ls_ok();
}

static ls_status counter_hook_tell(const counter *self,
                                   const ls_run_context *context,
                                   const char *tag, int64_t step,
                                   double value) {
  ls_runtime_log(context->runtime, LS_LOG_INFO, "train", "%s: %g", tag, value);
  return self->options.writer == NULL
             ? ls_ok()
             : ls_event_writer_scalar(self->options.writer, tag, step, value);
}

static ls_status counter_hook_count(counter *self,
                                    const ls_run_context *context) {
  double seconds = 0;
  int64_t now = 0, steps = 0;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &now));
  if (!ls_step_timer_is_due(&self->timer, now) ||
      !ls_step_timer_done(&self->timer, now, &seconds, &steps) || seconds <= 0)
    return ls_ok();
  const double speed = (double)steps / seconds;
  LS_RETURN_IF_ERROR(counter_hook_tell(self, context, self->tag, now, speed));
  return self->options.batch_size > 0
             ? counter_hook_tell(self, context, "examples/sec", now,
                                 speed * self->options.batch_size)
             : ls_ok();
}

static ls_status counter_after_run(void *user, ls_run_context *context,
                                   ls_nest results) {
  enum { MOST_WARNINGS = 5 };
  counter *self = user;
  const int64_t read = context->steps;
  (void)results;
  if (ls_step_timer_is_due(&self->timer,
                           read + self->options.steps_per_run.value))
    LS_RETURN_IF_ERROR(counter_hook_count(self, context));
  if (read == self->last && self->warnings < MOST_WARNINGS) {
    ++self->warnings;
    ls_runtime_log(context->runtime, LS_LOG_WARNING, "train",
                   "the global step has not grown in a run: it is still %lld "
                   "(does the train op add to it?)",
                   (long long)read);
  }
  self->last = read;
  return ls_ok();
}

ls_status ls_counter_hook(const ls_counter_hook_options *options,
                          ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  static const ls_counter_hook_options defaults;
  counter *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  self->options = options != NULL ? *options : defaults;
  self->last = -1;
  if (!self->options.every_steps.set && !self->options.every_seconds.set)
    self->options.every_steps = LS_SOME(100);
  if (!self->options.steps_per_run.set)
    self->options.steps_per_run = LS_SOME(1);
  const ls_status status = ls_step_timer_begin(
      &self->timer, self->options.every_steps, self->options.every_seconds);
  if (!ls_status_is_ok(status)) {
    ls_hook_free(self);
    return status;
  }
  return ls_hook_of_steps(
      &(ls_hook_options){.name = "step counter",
                         .user = self,
                         .after_create_session = counter_after_create,
                         .after_run = counter_after_run,
                         .destroy = ls_hook_free},
      false, out_hook);
}
