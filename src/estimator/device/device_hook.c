// SPDX-License-Identifier: Apache-2.0
#include "estimator/device/device.h"

#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/timers.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "estimator/config/config.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/shutdown_hooks.h"
#include "lockstep/summary_ops.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "train/hooks/hook.h"

typedef struct device_hook {
  ls_device_hook_options options;
  ls_runtime *runtime;
  // True if the hook initializes the system and shuts it down.
  bool initializes;
  bool has_begun;      // True if this hook has initialized the system.
  ls_tensor count;     // Number of steps of the next run.
  ls_nest counted;     // Value of `count`, read before the run.
  ls_nest fed, taken;  // Results of the two threads' runs.
  ls_nest initializers, finalizers;  // Lists of ops.
  // Steps between takes, and nanoseconds to sleep first.
  int64_t take_every, sleep;
  char *compile_error;
  // Atomic; only one thread sets closed_outfeeds.
  bool input_ended, closed_outfeeds;
  ls_device_work works[LS_DEVICE_THREADS];
  ls_device_threads threads;
  ls_ferries *ferries;  // Between ranks; NULL: none.
  ls_ranks ranks;       // For agreement after runs.
} device_hook;

static size_t num_ops(ls_nest ops) {
  return ops.kind == LS_KIND_NONE ? 0 : ls_nest_num_leaves(ops);
}

// Runs ops for their effects; an empty list does nothing.
static ls_status run_ops(ls_session *session, ls_nest ops, ls_nest *results) {
  return num_ops(ops) == 0 ? ls_ok()
                           : ls_session_run(session, ops, NULL, 0, results);
}

static bool has_input_ended(const device_hook *self) {
  return __atomic_load_n(&self->input_ended, __ATOMIC_ACQUIRE);
}

// Tells all ranks why a thread has failed, before its session closes, which
// would look like the cause there. Returns `status`.
static ls_status tell_ranks(const device_hook *self, ls_status status) {
  ls_communicator *ranks = ls_plan_ranks(self->options.plan);
  if (ranks != NULL && ls_status_code(status) != LS_CANCELLED)
    ranks->cancel(ranks, status);
  return status;
}

static void note_input_end(device_hook *self) {
  if (self->options.input_ended != NULL)
    __atomic_store_n(self->options.input_ended, true, __ATOMIC_RELEASE);
  __atomic_store_n(&self->input_ended, true, __ATOMIC_RELEASE);
}

// ---- The infeed thread -----------------------------------------------------
// Sleeps in short pieces, so that the thread can be ended in between.
static ls_status sleep_first(void *user) {
  enum { PIECE_NANOS = 50 * 1000 * 1000 };
  const device_hook *self = user;
  for (int64_t left = self->sleep; left > 0; left -= PIECE_NANOS) {
    if (ls_device_threads_should_end(&self->threads))
      return LS_STATUS(LS_CANCELLED, "ended before anything was fed");
    ls_runtime_sleep(self->runtime, left < PIECE_NANOS ? left : PIECE_NANOS);
  }
  return ls_ok();
}

static ls_status feed_steps(void *user, int64_t count) {
  device_hook *self = user;
  const int64_t runs = self->options.each_step ? count : 1;
  for (int64_t i = 0; i < runs; ++i)
    LS_RETURN_IF_ERROR(
        run_ops(self->threads.session, self->options.enqueue_ops, &self->fed));
  return ls_ok();
}

// Reports the end of the input to the queues, so that the loop ends after its
// last complete step and no core waits for more.
static ls_status report_end(device_hook *self) {
  LS_OWN(ls_nest, results) = ls_none();
  return self->options.predicts
             ? ls_device_system_close_outfeeds(self->options.plan)
             : run_ops(self->threads.session, self->options.close_ops,
                       &results);
}

// Handles the end of the input, which is no error of the thread.
static ls_status map_feed_error(void *user, ls_status status) {
  device_hook *self = user;
  // Another rank's input has ended, for which the queues were closed here.
  if (ls_status_code(status) == LS_FAILED_PRECONDITION &&
      self->ferries != NULL && has_input_ended(self)) {
    ls_status_free(status);
    return ls_ok();
  }
  if (ls_status_code(status) != LS_OUT_OF_RANGE)
    return tell_ranks(self, status);
  if (self->options.predicts) {
    // Ends the waits for predictions: an empty input sends no stop signal.
    ls_status_free(status);
    return report_end(self);
  }
  ls_runtime_log(
      self->runtime, LS_LOG_INFO, "estimator", "the input has ended: %.*s",
      (int)strcspn(ls_status_message(status), "\n"), ls_status_message(status));
  note_input_end(self);
  if (self->options.input_end_fails)
    ls_rendezvous_record(
        self->options.rendezvous, "infeed",
        ls_status_annotate(ls_status_clone(status), "where it shall not end"),
        NULL);
  ls_status_free(status);
  return report_end(self);
}

// ---- The outfeed thread ----------------------------------------------------
static ls_status begin_to_take(void *user) {
  (void)user;
  return ls_ok();
}

// Takes the tuples of `count` steps, step by step. If steps send no tuples,
// returns at once, because nothing would pace the takes, or stop them when the
// input ends early.
static ls_status take_steps(void *user, int64_t count) {
  device_hook *self = user;
  const int64_t steps = num_ops(self->options.dequeue_ops) > 0 ? count : 0;
  for (int64_t i = 0; i < steps; i += self->take_every)
    LS_RETURN_IF_ERROR(run_ops(self->threads.session, self->options.dequeue_ops,
                               &self->taken));
  return ls_ok();
}

// Maps the error of a closed outfeed: if the program ended early, all tuples
// have been taken. Another rank's close may come before this one's.
static ls_status map_take_error(void *user, ls_status status) {
  const device_hook *self = user;
  if (ls_status_code(status) != LS_OUT_OF_RANGE ||
      (self->ferries == NULL &&
       !__atomic_load_n(&self->closed_outfeeds, __ATOMIC_ACQUIRE)))
    return tell_ranks(self, status);
  ls_status_free(status);
  return ls_ok();
}

static const ls_device_work feeding = {.name = "InfeedController",
                                       .source = "infeed",
                                       .begin = sleep_first,
                                       .work = feed_steps,
                                       .map_error = map_feed_error};
static const ls_device_work taking = {.name = "OutfeedController",
                                      .source = "outfeed",
                                      .begin = begin_to_take,
                                      .work = take_steps,
                                      .map_error = map_take_error};

// ---- The graph -------------------------------------------------------------
static ls_status make_finalizers(device_hook *self, ls_nest flushers) {
  const ls_plan *plan = self->options.plan;
  LS_OWN(ls_nest_builder, list) = {0};
  if (self->initializes) {
    LS_PLAN_SYSTEM_SCOPE(plan);
    ls_nest_builder_append(&list,
                           ls_nest_op(ls_tpu_shutdown_op(plan->system->job)));
  }
  for (size_t i = 0; i < ls_nest_count(flushers); ++i)
    ls_nest_builder_append(&list, ls_nest_item(flushers, i));
  return ls_nest_give(ls_nest_builder_finish(&list, LS_KIND_LIST),
                      &self->finalizers);
}

static ls_status device_hook_begin(void *state) {
  device_hook *self = state;
  ls_graph *graph = ls_graph_current();
  ls_variable *iterations = NULL;
  LS_OWN(ls_nest, flushers) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterations_per_loop(graph, &iterations));
  LS_NAME_SCOPE("");
  self->count = ls_variable_read(iterations);
  ls_nest_release(self->initializers);
  self->initializers = ls_none();
  // Rank 0 writes all files.
  if (ls_plan_leads(self->options.plan))
    LS_RETURN_IF_ERROR(
        ls_file_writers_of(graph, &self->initializers, &flushers));
  LS_RETURN_IF_ERROR(make_finalizers(self, flushers));
  return ls_graph_take_error(graph);
}

// ---- Start of a session ----------------------------------------------------
// A time limit for a run, which is ended by closing its session.
typedef struct limit {
  ls_timer timer;
  ls_session *session;
  bool reached;  // True if the limit was reached. Atomic; set last.
} limit;

static void reach_limit(ls_timer *timer) {
  limit *self = (limit *)timer;
  ls_session_request_close(self->session);
  __atomic_store_n(&self->reached, true, __ATOMIC_RELEASE);
}

static ls_status initialize_writers(device_hook *self, ls_session *session) {
  enum { MINUTES = 5 };
  limit most = {.timer.fn = reach_limit, .session = session};
  LS_OWN(ls_nest, results) = ls_none();
  ls_timer_set(self->runtime, &most.timer, MINUTES * INT64_C(60000000000));
  const ls_status status = run_ops(session, self->initializers, &results);
  if (ls_timer_clear(self->runtime, &most.timer)) return status;
  while (!__atomic_load_n(&most.reached, __ATOMIC_ACQUIRE))
    ls_spin_pause();
  ls_status_free(status);
  return LS_STATUS(
      LS_DEADLINE_EXCEEDED,
      "initializing %zu writers of summaries took more than %d minutes",
      ls_nest_count(self->initializers), MINUTES);
}

static bool asks_compiler(const device_hook *self) {
  ls_setting setting;
  ls_setting_read(self->runtime, "TPU_SPLIT_COMPILE_AND_EXECUTE", &setting);
  return setting.value != NULL && strcmp(setting.value, "1") == 0 &&
         self->options.compile_status.graph != NULL;
}

static ls_status ask_compiler(device_hook *self, ls_run_context *context) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN(ls_nest, answer) = ls_none();
  LS_OWN_MEMORY(allocator, char, text) = NULL;
  LS_RETURN_IF_ERROR(ls_session_run(context->session,
                                    ls_leaf(self->options.compile_status), NULL,
                                    0, &answer));
  LS_RETURN_IF_ERROR(
      ls_device_system_compile_error(ls_nest_as_array(answer), &text));
  ls_release(allocator, self->compile_error);
  self->compile_error = NULL;
  if (text[0] == '\0') {
    ls_runtime_log(self->runtime, LS_LOG_INFO, "estimator",
                   "the program compiles");
    return ls_ok();
  }
  self->compile_error = ls_give(&text);
  ls_runtime_log(self->runtime, LS_LOG_ERROR, "estimator",
                 "Compilation failed: %s", self->compile_error);
  ls_run_context_request_stop(context);
  return ls_ok();
}

static ls_status device_hook_after_create(void *state,
                                          ls_run_context *context) {
  device_hook *self = state;
  ls_device_threads_stop(&self->threads);
  __atomic_store_n(&self->input_ended, false, __ATOMIC_RELAXED);
  __atomic_store_n(&self->closed_outfeeds, false, __ATOMIC_RELAXED);
  if (self->initializes) {
    LS_RETURN_IF_ERROR(ls_device_system_begin(self->options.plan));
    self->has_begun = true;
  } else {
    // Empties the queues, in which other users may have left tuples, and
    // reopens them.
    ls_device_system_clear(self->options.plan);
  }
  LS_RETURN_IF_ERROR(initialize_writers(self, context->session));
  if (asks_compiler(self)) LS_RETURN_IF_ERROR(ask_compiler(self, context));
  LS_RETURN_IF_ERROR(
      ls_ferries_start(self->options.plan, context->session, &self->ferries));
  LS_RETURN_IF_ERROR(ls_device_threads_start(&self->threads, context->session));
  return ls_watchdog_start_by_environment(self->options.plan->system->resolver);
}

// Ends the ferries before their time.
static void give_up_ferries(device_hook *self) {
  if (self->ferries == NULL) return;
  LS_OWN(ls_status, failure) =
      LS_STATUS(LS_CANCELLED, "a session of an estimator has ended early");
  ls_ferries_give_up(self->ferries, failure);
  self->ferries = NULL;
}

static void device_hook_lost(void *state) {
  device_hook *self = state;
  ls_device_threads_stop(&self->threads);
  give_up_ferries(self);
}

// ---- A run -----------------------------------------------------------------
static ls_status device_hook_before_run(void *state, ls_run_context *context,
                                        ls_run_wish *wish) {
  device_hook *self = state;
  (void)wish;
  LS_RETURN_IF_ERROR(ls_session_run(context->session, ls_leaf(self->count),
                                    NULL, 0, &self->counted));
  return ls_device_threads_post(&self->threads, ls_result_count(self->counted));
}

// Agrees if the input has ended on a rank. Where another's has, closes the
// queues into which this one may still feed.
static ls_status agree_on_end(device_hook *self) {
  if (self->ferries == NULL) return ls_ok();
  const bool own = has_input_ended(self);
  bool any = false;
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(ls_ranks_any(&self->ranks, own, &any));
  if (!any || own) return ls_ok();
  note_input_end(self);
  return run_ops(self->threads.session, self->options.close_ops, &results);
}

// Closes the outfeeds, because the input ended before the number of steps that
// the thread has to take.
static ls_status end_taking(device_hook *self) {
  if (num_ops(self->options.dequeue_ops) == 0 && self->ferries == NULL)
    return ls_ok();
  __atomic_store_n(&self->closed_outfeeds, true, __ATOMIC_RELEASE);
  return ls_device_system_close_outfeeds(self->options.plan);
}

static ls_status device_hook_after_run(void *state, ls_run_context *context,
                                       ls_nest results) {
  device_hook *self = state;
  (void)results;
  LS_RETURN_IF_ERROR(ls_device_threads_run_ended(&self->threads, ls_ok()));
  LS_RETURN_IF_ERROR(agree_on_end(self));
  if (!has_input_ended(self)) return ls_ok();
  ls_run_context_request_stop(context);
  return end_taking(self);
}

// Ends the loop if the input ended before the run made a step.
static ls_status device_hook_run_failed(void *state, ls_status status) {
  device_hook *self = state;
  status = ls_device_threads_run_ended(&self->threads, status);
  const ls_status carried = ls_ferries_failure(self->ferries);
  if (!ls_status_is_ok(carried)) {
    ls_status_free(status);
    return carried;
  }
  // All ranks are here: none has made a step.
  ls_status ended =
      ls_status_code(status) == LS_OUT_OF_RANGE ? agree_on_end(self) : ls_ok();
  if (ls_status_is_ok(ended) &&
      (ls_status_code(status) != LS_OUT_OF_RANGE || !has_input_ended(self)))
    return status;
  if (ls_status_is_ok(ended)) ended = end_taking(self);
  if (ls_status_is_ok(ended)) return status;
  ls_status_free(status);
  return ended;
}

// ---- End -------------------------------------------------------------------
static ls_status device_hook_end(void *state, ls_run_context *context) {
  device_hook *self = state;
  LS_OWN(ls_nest, results) = ls_none();
  // Cancels predictions that the caller has abandoned: their threads would
  // never end.
  if (self->options.predicts) ls_cancel_request(self->threads.cancel);
  ls_device_threads_join(&self->threads, LS_INFEED_THREAD);
  ls_rendezvous_record_done(self->options.rendezvous, "infeed");
  ls_device_threads_join(&self->threads, LS_OUTFEED_THREAD);
  ls_rendezvous_record_done(self->options.rendezvous, "outfeed");
  ls_ferries_end(self->ferries);
  self->ferries = NULL;
  ls_rendezvous_forget(self->options.rendezvous, context->session);
  const ls_status status = ls_device_threads_unkept(&self->threads);
  const ls_status ran = run_ops(context->session, self->finalizers, &results);
  if (ls_status_is_ok(ran)) self->has_begun = false;
  return ls_status_join(status, ran);
}

static void device_hook_destroy(void *state) {
  device_hook *self = state;
  ls_device_threads_deinit(&self->threads);
  give_up_ferries(self);
  ls_ranks_deinit(&self->ranks);
  // Shuts the system down, because `end` is not called after a failure and the
  // next job may use another system.
  if (self->has_begun) ls_status_free(ls_device_system_end(self->options.plan));
  ls_nest_release(self->counted);
  ls_nest_release(self->fed);
  ls_nest_release(self->taken);
  ls_nest_release(self->initializers);
  ls_nest_release(self->finalizers);
  ls_release(ls_current_allocator(), self->compile_error);
}

static const ls_hook_type device_type = {.name = "infeed and outfeed",
                                         .size = sizeof(device_hook),
                                         .needs_session = true,
                                         .begin = device_hook_begin,
                                         .after_create_session =
                                             device_hook_after_create,
                                         .session_lost = device_hook_lost,
                                         .before_run = device_hook_before_run,
                                         .after_run = device_hook_after_run,
                                         .run_failed = device_hook_run_failed,
                                         .end = device_hook_end,
                                         .destroy = device_hook_destroy};

void ls_device_hook_settle(ls_hook *hook) {
  if (hook == NULL || hook->type != &device_type) return;
  device_hook *self = hook->state;
  if (!self->options.predicts)
    ls_device_threads_settle(&self->threads, LS_INFEED_THREAD);
}

const char *ls_device_hook_compile_error(const ls_hook *hook) {
  return hook != NULL && hook->type == &device_type
             ? ((const device_hook *)hook->state)->compile_error
             : NULL;
}

// ---- Making ----------------------------------------------------------------
// Returns true if the user has initialized the system and the job uses it as it
// is: replicas of several cores that all get the same input.
static bool is_users_system(const ls_plan *plan) {
  if (plan->input.way != LS_FEED_ALL || !ls_plan_is_model_parallel(plan))
    return false;
  LS_OWN(ls_pod, pod) = ls_plan_pod(plan);
  return pod != NULL && ls_pod_is_initialized(pod);
}

static ls_status device_hook_fill(device_hook *self,
                                  const ls_device_hook_options *options) {
  const ls_plan *plan = options->plan;
  const ls_tpu_config *tpu = ls_plan_tpu(plan);
  self->options = *options;
  self->runtime = ls_runtime_current();
  self->counted = self->fed = self->taken = ls_none();
  self->initializers = self->finalizers = ls_none();
  self->works[LS_INFEED_THREAD] = feeding;
  self->works[LS_INFEED_THREAD].once = options->predicts;
  self->works[LS_INFEED_THREAD].helped =
      options->each_step && !options->predicts;
  self->works[LS_OUTFEED_THREAD] = taking;
  self->works[LS_OUTFEED_THREAD].helped = num_ops(options->dequeue_ops) == 0;
  LS_RETURN_IF_ERROR(ls_device_threads_init(&self->threads, self->works, self,
                                            options->rendezvous));
  if (ls_plan_ranks(plan) != NULL)
    LS_RETURN_IF_ERROR(ls_ranks_init(&self->ranks, self->runtime,
                                     "the input of an estimator", 0));
  self->initializes = !is_users_system(plan);
  self->take_every = plan->host_call_every;
  self->sleep = ls_nanos_of_seconds(tpu->initial_infeed_sleep_secs.value);
  return ls_ok();
}

ls_status ls_device_hook(const ls_device_hook_options *options,
                         ls_hook **out_hook) {
  LS_REQUIRE(out_hook);
  *out_hook = NULL;
  LS_REQUIRE(options, options->rendezvous);
  LS_OWN(ls_hook, hook) = NULL;
  LS_RETURN_IF_ERROR(ls_hook_make(&device_type, NULL, &hook));
  LS_RETURN_IF_ERROR(device_hook_fill(hook->state, options));
  return ls_hand_over(&hook, out_hook);
}
