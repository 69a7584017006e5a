// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Hooks: actions around the runs of a training, such as saving, stopping,
// counting and logging, independent of what the runs compute.
//
//   begin                 once, before the session: may add to the graph
//   after_create_session  each time a session exists whose variables have
//                         values: again after one was lost
//   session_lost          when that session ends: before another one is created
//                         in its place, and finally, however the loop ended
//   before_run            may request more to run and to feed
//   after_run             with the results of these requests
//   run_failed            when the run has failed, or a hook around it
//   end                   once, when the loop ends without a failure
//
// The hooks of a list are called in its order. An op that a hook adds at
// `begin` to read a value of the graph reads it as the run has left it.
//
// A session with hooks is a monitored one (lockstep/monitored_session.h). Where
// a loop calls functions (ls_train_options.hooks) there is neither session nor
// graph, and a run is a call: it returns its results, by name, and makes one
// step or, in a loop of steps, several. The hooks are called at the same
// moments: no session is ever lost there, and session_lost comes after the last
// run.
//
// Threads: one loop at a time uses a hook, and its thread calls it.
#ifndef LOCKSTEP_HOOK_H_
#define LOCKSTEP_HOOK_H_

#include "lockstep/checkpoint.h"
#include "lockstep/events.h"
#include "lockstep/session.h"
#include "lockstep/summary.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Steps -----------------------------------------------------------------
#define LS_COLLECTION_EVAL_STEP "eval_step"

// Creates the variable 'global_step' of a build graph, an i64 scalar with
// initial value 0, in the root name scope, in the collections "variables" and
// "global_step". The graph owns it; the result is lent.
//   LS_FAILED_PRECONDITION  there is one already.
LS_API LS_MUST_USE ls_status ls_global_step_create(ls_graph *graph,
                                                   ls_variable **out_step);
// Gets the global step of a graph or, for the graph of a loop or a branch, of
// the graph around it. Lent.
//   LS_FAILED_PRECONDITION  there is none, or several.
LS_API LS_MUST_USE ls_status ls_global_step_get(ls_graph *graph,
                                                ls_variable **out_step);
// Gets the variable 'eval_step', which counts batches of an evaluation, created
// if missing: an i64 scalar in "local_variables" and "eval_step". Lent.
//   LS_FAILED_PRECONDITION  there are several.
LS_API LS_MUST_USE ls_status ls_eval_step_get(ls_graph *graph,
                                              ls_variable **out_step);

// ---- Timers ----------------------------------------------------------------
// A timer that is due every so many steps, or seconds of the runtime's clock;
// also the first time it is queried, and never twice for a step.
typedef struct ls_step_timer {
  int64_t every_steps;  // Set at most one of the two. Default: never.
  double every_seconds;
  int64_t last_step;    // Step of the last ls_step_timer_done; -1: none.
  int64_t last_moment;  // Time of that step by the clock.
} ls_step_timer;

// Initializes a timer.
//   LS_INVALID_ARGUMENT  both are set, or one is below 0.
LS_API LS_MUST_USE ls_status ls_step_timer_begin(ls_step_timer *timer,
                                                 ls_opt every_steps,
                                                 ls_opt every_seconds);
LS_API bool ls_step_timer_is_due(const ls_step_timer *timer, int64_t step);
// Records that the action was done at `step`. Returns true if it was done
// before, with the seconds and steps since then.
LS_API bool ls_step_timer_done(ls_step_timer *timer, int64_t step,
                               double *out_seconds, int64_t *out_steps);

// ---- Hooks -----------------------------------------------------------------
typedef struct ls_hook ls_hook;

// Context of a hook's call.
typedef struct ls_run_context ls_run_context;
// Return the session and its graph, lent; NULL if the loop calls functions.
LS_API ls_session *ls_run_context_session(const ls_run_context *context);
LS_API ls_graph *ls_run_context_graph(const ls_run_context *context);
// Gets the number of steps made: as the loop counts them, or the current global
// step.
//   LS_FAILED_PRECONDITION  the graph has no global step.
LS_API LS_MUST_USE ls_status ls_run_context_steps(const ls_run_context *context,
                                                  int64_t *out_steps);
// Returns the results of the run for its caller, lent until the next run: the
// step's results, or for several steps the last one's "loss" and "accuracy"; in
// a session the values that the caller fetched. None before the first run.
LS_API ls_nest ls_run_context_results(const ls_run_context *context);
// Returns the arguments of the last run where functions are called, lent until
// the next run: the batch, of several replicas a distributed value with the
// part of each. None in a session, and for loops of several steps.
LS_API ls_nest ls_run_context_args(const ls_run_context *context);
// Gets the numbers in the data's source of the last step's examples, in the
// order of the batch: writes up to `capacity` and sets their number.
//   LS_FAILED_PRECONDITION  no step has been made.
//   LS_UNIMPLEMENTED        the data have no numbers, or are not those of
//                           ls_train.
LS_API LS_MUST_USE ls_status
ls_run_context_examples(const ls_run_context *context, int64_t *examples,
                        size_t capacity, size_t *out_count);
// Gets one of the results that is a number, by its name; where functions are
// called in replicas its mean over the batch.
//   LS_NOT_FOUND         there is none: lists the names.
//   LS_INVALID_ARGUMENT  it is no number.
LS_API LS_MUST_USE ls_status ls_run_context_number(
    const ls_run_context *context, const char *name, double *out_number);
// Requests that no run follows this one.
LS_API void ls_run_context_request_stop(ls_run_context *context);
LS_API bool ls_run_context_stop_requested(const ls_run_context *context);

// Requests of a hook for a run. The hook owns everything in it and keeps it
// until after_run.
typedef struct ls_run_wish {
  // Refused, as feeds are, where functions are called.
  ls_nest fetches;
  const ls_feed *feeds;  // Values to feed.
  size_t num_feeds;
  // Largest number of steps of the run, where the loop can choose: the caller
  // of a session decides about its runs. Default: no limit.
  int64_t most_steps;
} ls_run_wish;

// Functions of a hook, called at the moments listed above; NULL: nothing.
typedef struct ls_hook_options {
  const char *name;  // For messages. Default "hook".
  void *user;
  ls_status (*begin)(void *user);
  ls_status (*after_create_session)(void *user, ls_run_context *context);
  // Must stop what the hook has running for the session, such as threads and
  // open files.
  void (*session_lost)(void *user);
  ls_status (*before_run)(void *user, ls_run_context *context,
                          ls_run_wish *wish);
  // `results` are the values of the hook's own fetches, lent.
  ls_status (*after_run)(void *user, ls_run_context *context, ls_nest results);
  // Returns the failure to report, taken over: a hook that ended the run by
  // closing its session knows the cause better.
  ls_status (*run_failed)(void *user, ls_status status);
  ls_status (*end)(void *user, ls_run_context *context);
  void (*destroy)(void *user);
} ls_hook_options;

LS_API LS_MUST_USE ls_status ls_hook_create(const ls_hook_options *options,
                                            ls_hook **out_hook);
LS_API ls_hook *ls_hook_retain(ls_hook *hook);
LS_API void ls_hook_release(ls_hook *hook);  // NULL is fine.
LS_API const char *ls_hook_name(const ls_hook *hook);

// ---- Ready-made ------------------------------------------------------------
// In all options zero in a field means its default. Hooks with tensors, ops or
// feeds, and ls_wait_for_step_hook, are for sessions; the others work with
// functions, too.

// Makes a hook that stops after the run in which the global step reaches
// `last_step`, or `num_steps` more than at the session's start. Give one of the
// two.
LS_API LS_MUST_USE ls_status ls_stop_at_step_hook(ls_opt num_steps,
                                                  ls_opt last_step,
                                                  ls_hook **out_hook);

// Functions called around saves; `session` is NULL if the loop calls functions.
typedef struct ls_save_listener {
  void *user;
  ls_status (*begin)(void *user);
  ls_status (*before_save)(void *user, ls_session *session, int64_t step);
  // May request a stop.
  ls_status (*after_save)(void *user, ls_session *session, int64_t step,
                          bool *out_stop);
  ls_status (*end)(void *user, ls_session *session, int64_t step);
} ls_save_listener;

typedef struct ls_saver_hook_options {
  const char *folder;  // Required.
  // Variables to save, lent. Default: the collection "variables"; with
  // functions those of the model and its optimizer.
  ls_variable *const *variables;
  size_t num_variables;
  const ls_saveable *states;  // Lent.
  size_t num_states;
  ls_opt every_steps, every_seconds;  // One of the two. Default: 600 seconds.
  ls_opt steps_per_run;               // Default 1.
  ls_opt keep;                        // Default 5.
  double keep_every_hours;            // Default: none.
  const int64_t *kept_step;           // As in ls_checkpoints_options. Lent.
  // A result of runs, such as "loss", whose mean since the last save each
  // checkpoint has as a metric; with `keep_lowest` the checkpoint for which it
  // was lowest is kept, too. Default: none. Lent.
  const char *metric;
  bool keep_lowest;
  // Also writes the graph, as graph.ls; with functions the function's, once it
  // has been called. Default on.
  ls_flag graph_text;
  const ls_save_listener *listeners;  // Copied.
  size_t num_listeners;
} ls_saver_hook_options;
// Makes a hook that saves checkpoints: once a session exists, when one is due,
// and at the end if the last step was not saved. Of ranks that train together
// each writes its part, so saves can only be due by steps.
//   LS_INVALID_ARGUMENT  no folder; both steps and seconds.
LS_API LS_MUST_USE ls_status ls_saver_hook(const ls_saver_hook_options *options,
                                           ls_hook **out_hook);
// Adds listeners to the saver in a list of hooks.
//   LS_INVALID_ARGUMENT  no hook of the list saves.
LS_API LS_MUST_USE ls_status ls_saver_hooks_add_listeners(
    ls_hook *const *hooks, size_t num_hooks, const ls_save_listener *listeners,
    size_t num_listeners);

typedef struct ls_counter_hook_options {
  ls_opt every_steps, every_seconds;  // One of the two. Default: 100 steps.
  ls_opt steps_per_run;               // Default 1.
  ls_event_writer *writer;            // Lent. Default: reports to the log only.
  double batch_size;  // Also reports examples per second. Default: does not.
} ls_counter_hook_options;
// Makes a hook that reports steps per second, as "global_step/sec".
LS_API LS_MUST_USE ls_status
ls_counter_hook(const ls_counter_hook_options *options, ls_hook **out_hook);

typedef struct ls_log_hook_options {
  const char *const *names;  // Names of the values, one each.
  // Default: the run's results with these names.
  const ls_tensor *values;
  size_t num_values;
  // Interval in runs or seconds; at most one of the two.
  ls_opt every_steps, every_seconds;
  bool at_end;  // Also, or only, logs at the end.
  // Formats the line, instead of "name = value, name = value (s sec)"; both
  // have the values in the order of their names.
  void (*format)(void *user, const char *const *names, const ls_nest *values,
                 size_t num_values, char *buffer, size_t size);
  void *user;
} ls_log_hook_options;
// Makes a hook that logs values of the graph, or results of the run.
//   LS_INVALID_ARGUMENT  neither at the end nor at an interval, or both
//                        intervals.
LS_API LS_MUST_USE ls_status ls_log_hook(const ls_log_hook_options *options,
                                         ls_hook **out_hook);

// Makes a hook that fails the run when the loss is NaN (LS_FAILED_PRECONDITION,
// "NaN loss during training"), or stops with a warning.
LS_API LS_MUST_USE ls_status ls_nan_hook(ls_tensor loss, ls_flag fails,
                                         ls_hook **out_hook);
// Makes such a hook for the run's result of that name.
LS_API LS_MUST_USE ls_status ls_nan_hook_named(const char *name, ls_flag fails,
                                               ls_hook **out_hook);

typedef struct ls_summary_hook_options {
  // Summaries, as made by ls_summary. Default: those that a function makes,
  // whose writer is enabled when due.
  const ls_op *ops;
  size_t num_ops;
  // Writer of the summaries, lent: the hook sets its step.
  ls_summary_writer *writer;
  ls_opt every_steps, every_seconds;  // One of the two. Required.
} ls_summary_hook_options;
// Makes a hook that records summaries of the first run, and of those in which
// they are due, at the step after the run.
LS_API LS_MUST_USE ls_status
ls_summary_hook(const ls_summary_hook_options *options, ls_hook **out_hook);

// Makes a hook that runs a nest of tensors and ops once at the end, with lent
// feeds; stores the values in `*out_values`, which the caller owns.
LS_API LS_MUST_USE ls_status ls_final_ops_hook(ls_nest fetches,
                                               const ls_feed *feeds,
                                               size_t num_feeds,
                                               ls_nest *out_values,
                                               ls_hook **out_hook);
// Writes the feeds of a run, at most `capacity` (64).
typedef ls_status (*ls_feed_function)(void *user, ls_feed *feeds,
                                      size_t capacity, size_t *out_count);
LS_API LS_MUST_USE ls_status ls_feed_hook(ls_feed_function feed, void *user,
                                          ls_hook **out_hook);
// Makes a hook that waits before the first run until other threads have moved
// the global step to `step`: checks every half second of the runtime's clock.
LS_API LS_MUST_USE ls_status ls_wait_for_step_hook(int64_t step,
                                                   ls_hook **out_hook);
// Makes a hook that traces the first run and those that are due by one of the
// two intervals, into `folder`/timeline-<step>.json.
//   LS_INVALID_ARGUMENT  neither or both.
LS_API LS_MUST_USE ls_status ls_profiler_hook(const char *folder,
                                              ls_opt every_steps,
                                              ls_opt every_seconds,
                                              ls_hook **out_hook);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_HOOK_H_
