// SPDX-License-Identifier: Apache-2.0
// Hooks that choose the number of steps of each run, by number or by time, and
// end the loop.
#include "lockstep/iteration_count.h"

#include <math.h>

#include "base/require.h"
#include "estimator/config/config.h"
#include "estimator/input/input.h"
#include "lockstep/estimator_hooks.h"
#include "train/hooks/hook.h"

// ---- Number of steps of a run ----------------------------------------------
typedef struct sample {
  double seconds;  // Time of all its steps.
  int64_t steps;
} sample;

LS_OWNED_POINTER(ls_iteration_count, ls_iteration_count_destroy)
struct ls_iteration_count {
  ls_allocator *allocator;
  sample *ring;
  size_t capacity, count;
  int64_t seen;  // Number of samples so far.
  double last;   // The last estimate.
};

ls_status ls_iteration_count_create(ls_opt capacity, ls_iteration_count **out) {
  LS_REQUIRE_OUT(out);
  enum { CAPACITY = 20 };
  if (capacity.set)
    LS_RETURN_IF_ERROR(ls_check_positive("capacity", capacity.value));
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_iteration_count, self);
  self->allocator = allocator;
  self->last = 1;
  self->capacity = capacity.set ? (size_t)capacity.value : CAPACITY;
  LS_SET_ARRAY_OR_RETURN(allocator, sample, self->ring, self->capacity);
  return ls_hand_over(&self, out);
}

void ls_iteration_count_destroy(ls_iteration_count *self) {
  if (self == NULL) return;
  ls_release(self->allocator, self->ring);
  ls_release(self->allocator, self);
}

void ls_iteration_count_update(ls_iteration_count *self, double seconds,
                               int64_t steps) {
  if (seconds <= 0 || steps <= 0) return;
  self->ring[(size_t)self->seen % self->capacity] = (sample){seconds, steps};
  ++self->seen;
  if (self->count < self->capacity) ++self->count;
}

static double step_time(sample s) { return s.seconds / (double)s.steps; }

static double run_time(sample s) { return s.seconds; }

static double find_mean(const ls_iteration_count *self,
                        double (*time)(sample s)) {
  double sum = 0;
  for (size_t i = 0; i < self->count; ++i)
    sum += time(self->ring[i]);
  return sum / (double)self->count;
}

static double find_deviation(const ls_iteration_count *self) {
  const double mean = find_mean(self, step_time);
  double sum = 0;
  for (size_t i = 0; i < self->count; ++i)
    sum += pow(step_time(self->ring[i]) - mean, 2);
  return sqrt(sum / (double)self->count);
}

ls_status ls_within_percent(double actual, double target, double percent,
                            bool *out_is) {
  LS_REQUIRE_OUT(out_is);
  if (actual == 0 || target == 0)
    return ls_invalid_argument(
        "whether %g is within %g percent of %g: neither may be 0", actual,
        percent, target);
  *out_is = fabs(actual - target) / fabs(target) <= percent / 100;
  return ls_ok();
}

static ls_status is_stable(const ls_iteration_count *self, double seconds,
                           bool *out_is) {
  const sample last = self->ring[(size_t)(self->seen - 1) % self->capacity];
  *out_is = false;
  if (find_deviation(self) >= 0.03 || self->seen <= (int64_t)self->capacity)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_within_percent(last.seconds, seconds, 10, out_is));
  return *out_is
             ? ls_ok()
             : ls_within_percent(find_mean(self, run_time), seconds, 5, out_is);
}

ls_status ls_iteration_count_get(ls_iteration_count *self, double seconds,
                                 int64_t *out_steps) {
  LS_REQUIRE_OUT(out_steps, self);
  bool stable = false;
  *out_steps = 1;
  if (!(seconds > 0))
    return ls_invalid_argument(
        "how many steps fit into %g seconds: more than 0 are needed", seconds);
  if (self->count == 0) return ls_ok();
  LS_RETURN_IF_ERROR(is_stable(self, seconds, &stable));
  if (!stable) self->last = fmax(seconds / find_mean(self, step_time), 1);
  // The limit 2^62 is more than any number of steps, and exact both as a double
  // and as an integer.
  *out_steps = (int64_t)fmin(floor(self->last + 0.5), 0x1p62);
  return ls_ok();
}

// ---- Training --------------------------------------------------------------
typedef struct tpu_stop {
  ls_loop_length length;
  ls_opt num_steps;
  int64_t last;  // -1: not known yet.
  ls_variable *iterations;
  ls_iteration_count *count;  // Set if runs are limited by time, else NULL.
  int64_t loaded, began;  // Number of steps of the current run, and its start.
  ls_ranks ranks;         // Zeroed: none.
} tpu_stop;

static void tpu_stop_destroy(void *state) {
  tpu_stop *self = state;
  ls_iteration_count_destroy(self->count);
  ls_ranks_deinit(&self->ranks);
}

static ls_status tpu_stop_begin(void *state) {
  return ls_iterations_per_loop(ls_graph_current(),
                                &((tpu_stop *)state)->iterations);
}

static ls_status load_next(tpu_stop *self, const ls_run_context *context,
                           int64_t step) {
  int64_t wanted = self->length.steps;
  if (self->count != NULL)
    LS_RETURN_IF_ERROR(ls_iteration_count_get(
        self->count, (double)self->length.seconds, &wanted));
  // By the clock of rank 0.
  if (self->count != NULL)
    LS_RETURN_IF_ERROR(ls_ranks_send(&self->ranks, &wanted, sizeof(wanted)));
  self->loaded = wanted < self->last - step ? wanted : self->last - step;
  return ls_load_iterations(context, self->iterations, self->loaded);
}

static ls_status tpu_stop_after_create(void *state, ls_run_context *context) {
  tpu_stop *self = state;
  int64_t step = 0;
  ls_ranks_deinit(&self->ranks);
  if (context->called.num_ranks > 1)
    LS_RETURN_IF_ERROR(ls_ranks_init(&self->ranks, context->runtime,
                                     "steps of an estimator's runs", 0));
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (self->last < 0) self->last = ls_steps_after(step, self->num_steps.value);
  return load_next(self, context, step);
}

static ls_status tpu_stop_before_run(void *state, ls_run_context *context,
                                     ls_run_wish *wish) {
  tpu_stop *self = state;
  (void)wish;
  self->began = ls_runtime_now(context->runtime);
  return ls_ok();
}

// Reads the step in a separate run, because the run may have fetched its value
// before the loop.
static ls_status tpu_stop_after_run(void *state, ls_run_context *context,
                                    ls_nest results) {
  tpu_stop *self = state;
  int64_t step = 0;
  (void)results;
  if (self->count != NULL)
    ls_iteration_count_update(
        self->count,
        (double)(ls_runtime_now(context->runtime) - self->began) * 1e-9,
        self->loaded);
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (step < self->last) return load_next(self, context, step);
  ls_run_context_request_stop(context);
  return ls_ok();
}

static const ls_hook_type tpu_stop_type = {.name = "TPU stop at step",
                                           .size = sizeof(tpu_stop),
                                           .needs_session = true,
                                           .begin = tpu_stop_begin,
                                           .after_create_session =
                                               tpu_stop_after_create,
                                           .before_run = tpu_stop_before_run,
                                           .after_run = tpu_stop_after_run,
                                           .destroy = tpu_stop_destroy};

ls_status ls_tpu_stop_hook(ls_loop_length length, ls_opt num_steps,
                           ls_opt last_step, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  if (num_steps.set == last_step.set)
    return ls_invalid_argument(
        "a hook that stops a loop on the device: %s",
        num_steps.set ? "Only one of num_steps or last_step can be specified"
                      : "One of num_steps or last_step must be specified");
  if (length.steps < 1 && length.seconds < 1)
    return ls_invalid_argument("a loop on the device without a step or a "
                               "second: at least 1 is possible");
  tpu_stop self = {.length = length,
                   .num_steps = num_steps,
                   .last = last_step.set ? last_step.value : -1};
  if (length.seconds > 0)
    LS_RETURN_IF_ERROR(ls_iteration_count_create((ls_opt){0}, &self.count));
  return ls_hook_make(&tpu_stop_type, &self, out_hook);
}

// ---- Evaluation and prediction ---------------------------------------------
typedef struct setter {
  int64_t steps;
  ls_variable *iterations;
  ls_tensor stopping;
} setter;

static ls_status setter_begin(void *state) {
  return ls_iterations_per_loop(ls_graph_current(),
                                &((setter *)state)->iterations);
}

static ls_status setter_after_create(void *state, ls_run_context *context) {
  const setter *self = state;
  return ls_load_iterations(context, self->iterations, self->steps);
}

static const ls_hook_type setter_type = {.name = "evaluation's iterations",
                                         .size = sizeof(setter),
                                         .needs_session = true,
                                         .begin = setter_begin,
                                         .after_create_session =
                                             setter_after_create};

ls_status ls_eval_iterations_hook(int64_t steps, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  LS_RETURN_IF_ERROR(ls_check_positive("Eval steps", steps));
  return ls_hook_make(&setter_type, &(setter){.steps = steps}, out_hook);
}

static ls_status predict_before_run(void *state, ls_run_context *context,
                                    ls_run_wish *wish) {
  (void)context;
  wish->fetches = ls_leaf(((setter *)state)->stopping);
  return ls_ok();
}

static ls_status predict_after_run(void *state, ls_run_context *context,
                                   ls_nest results) {
  (void)state, (void)context;
  return ls_result_count(results) == 0
             ? ls_ok()
             : ls_out_of_range("Stopped by stopping signal.");
}

static const ls_hook_type predict_type = {
    .name = "TPU stop at prediction's end",
    .size = sizeof(setter),
    .needs_session = true,
    .begin = setter_begin,
    .after_create_session = setter_after_create,
    .before_run = predict_before_run,
    .after_run = predict_after_run};

ls_status ls_predict_stop_hook(ls_tensor stopping, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  return ls_hook_make(&predict_type,
                      &(setter){.steps = 1, .stopping = stopping}, out_hook);
}

// ---- Count evaluations -----------------------------------------------------
typedef struct counter {
  int64_t most, every;  // Limit of runs, 0: none; and runs per log line.
  ls_tensor step;
} counter;

static ls_status counter_begin(void *state) {
  counter *self = state;
  ls_variable *variable = NULL;
  ls_graph *graph = ls_graph_current();
  LS_RETURN_IF_ERROR(ls_eval_step_get(graph, &variable));
  LS_NAME_SCOPE("");
  self->step = ls_variable_read(variable);
  return ls_tensor_is_failed(self->step) ? ls_graph_take_error(graph) : ls_ok();
}

static ls_status counter_before_run(void *state, ls_run_context *context,
                                    ls_run_wish *wish) {
  (void)context;
  wish->fetches = ls_leaf(((counter *)state)->step);
  return ls_ok();
}

static ls_status counter_after_run(void *state, ls_run_context *context,
                                   ls_nest results) {
  const counter *self = state;
  const int64_t done = ls_result_count(results);
  if (self->most == 0)
    ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                   "Evaluation [%lld]", (long long)done);
  else if (done % self->every == 0 || done == self->most)
    ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                   "Evaluation [%lld/%lld]", (long long)done,
                   (long long)self->most);
  if (self->most > 0 && done >= self->most)
    ls_run_context_request_stop(context);
  return ls_ok();
}

static const ls_hook_type counter_type = {.name = "stop after evaluations",
                                          .size = sizeof(counter),
                                          .needs_session = true,
                                          .begin = counter_begin,
                                          .before_run = counter_before_run,
                                          .after_run = counter_after_run};

ls_status ls_stop_after_evals_hook(int64_t num_evals, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  enum { FEW = 20, LINES = 10 };
  const int64_t most = num_evals > 0 ? num_evals : 0;
  return ls_hook_make(
      &counter_type,
      &(counter){.most = most, .every = most < FEW ? 1 : most / LINES},
      out_hook);
}
