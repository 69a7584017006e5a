// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Hooks: work around the runs of a training, independent of what is run:
// saving, stopping, counting, logging.
//
//   begin                 once, before the session: may add to the graph
//   after_create_session  each time that there is a session whose variables
//                         have values: again when one was lost
//   session_lost          when that session goes: before another one is made in
//                         its place, and at last, however the loop ended
//   before_run            asks for more to be run and fed
//   after_run             gets the results
//   run_failed            when the run has failed, or a hook around it
//   end                   once, when the loop ends without a failure
//
// Those of a list are called in its order. A hook that reads the graph by an op
// which it makes at its begin reads what the run has made of it.
//
// A session with hooks is a monitored one (lockstep/monitored_session.h). Where
// a loop calls functions (ls_train_options.hooks) there is neither session nor
// graph, and a run is a call: it gives its results, by name, and makes one step
// or, in a loop of steps, several. The moments are the same: nothing is ever
// lost there, and session_lost is after the last run.
//
// Threads: a hook is used by one loop at a time, and called by its thread.
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
#define LS_COLLECTION_LOCAL_VARIABLES "local_variables"
#define LS_COLLECTION_EVAL_STEP "eval_step"

// Makes the variable 'global_step' of a build graph, an i64 scalar that begins
// at 0, in the root name scope, in the collections "variables" and
// "global_step". The graph has it; the result is lent.
//   LS_FAILED_PRECONDITION  there is one.
LS_API LS_MUST_USE ls_status ls_global_step_create(ls_graph *graph,
                                                   ls_variable **out_step);
// Finds the one in a graph; in that of a loop or a branch, the one in the graph
// around it. Lent.
//   LS_FAILED_PRECONDITION  there is none, or several.
LS_API LS_MUST_USE ls_status ls_global_step_get(ls_graph *graph,
                                                ls_variable **out_step);
// The variable 'eval_step', which counts batches of an evaluation, made if
// there is none: an i64 scalar in "local_variables" and "eval_step". Lent.
//   LS_FAILED_PRECONDITION  there are several.
LS_API LS_MUST_USE ls_status ls_eval_step_get(ls_graph *graph,
                                              ls_variable **out_step);

// ---- Timers ----------------------------------------------------------------
// Knows when something is due: each so many steps, or seconds of the runtime's
// clock; at the first request, and never twice for a step.
typedef struct ls_step_timer {
  int64_t every_steps;  // One of the two. Default: never.
  double every_seconds;
  int64_t last_step;    // -1: never yet.
  int64_t last_moment;  // Of the clock.
} ls_step_timer;

//   LS_INVALID_ARGUMENT  both are set, or less than 0.
LS_API LS_MUST_USE ls_status ls_step_timer_begin(ls_step_timer *timer,
                                                 ls_opt every_steps,
                                                 ls_opt every_seconds);
LS_API bool ls_step_timer_is_due(const ls_step_timer *timer, int64_t step);
// Notes that it was done at `step`. Returns whether it was done before, and
// then how many seconds and steps ago.
LS_API bool ls_step_timer_done(ls_step_timer *timer, int64_t step,
                               double *out_seconds, int64_t *out_steps);

// ---- Hooks -----------------------------------------------------------------
typedef struct ls_hook ls_hook;

// Where a hook is called.
typedef struct ls_run_context ls_run_context;
// Both are lent; NULL: functions are called.
LS_API ls_session *ls_run_context_session(const ls_run_context *context);
LS_API ls_graph *ls_run_context_graph(const ls_run_context *context);
// Gives the number of steps made: as the loop counts them, or the global step
// now.
//   LS_FAILED_PRECONDITION  the graph has none.
LS_API LS_MUST_USE ls_status ls_run_context_steps(const ls_run_context *context,
                                                  int64_t *out_steps);
// Returns the results of the run for its caller, lent until the next one: those
// of the step, or of several steps the last one's "loss" and "accuracy"; in a
// session what the caller fetched. None before.
LS_API ls_nest ls_run_context_results(const ls_run_context *context);
// Gives one of them that is a number, by its name; its mean over the batch,
// where functions are called in replicas.
//   LS_NOT_FOUND         there is none: names those that there are.
//   LS_INVALID_ARGUMENT  it is no number.
LS_API LS_MUST_USE ls_status ls_run_context_number(
    const ls_run_context *context, const char *name, double *out_number);
// Requests that no run comes after this one.
LS_API void ls_run_context_request_stop(ls_run_context *context);
LS_API bool ls_run_context_stop_requested(const ls_run_context *context);

// The additions of a hook to a run. They are the hook's, and stay until
// after_run.
typedef struct ls_run_wish {
  ls_nest fetches;  // Where functions are called, a hook that wishes to fetch
  const ls_feed *feeds;  //   or feed is refused.
  size_t num_feeds;
  // The run makes at most so many steps, where the loop has the choice: that of
  // a session is its caller's. Default: as many as it likes.
  int64_t most_steps;
} ls_run_wish;

// The functions of a hook, named by the moments above; NULL: it does nothing
// then.
typedef struct ls_hook_options {
  const char *name;  // For messages. Default "hook".
  void *user;
  ls_status (*begin)(void *user);
  ls_status (*after_create_session)(void *user, ls_run_context *context);
  // Ends what goes on for the session, as threads and open files.
  void (*session_lost)(void *user);
  ls_status (*before_run)(void *user, ls_run_context *context,
                          ls_run_wish *wish);
  // `results` is what the hook's own fetches gave, lent.
  ls_status (*after_run)(void *user, ls_run_context *context, ls_nest results);
  // Returns the error to report in place of `status`, which is taken over: a
  // hook that has ended the run by closing its session knows better.
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
// Zero in a field of options means its default, everywhere. Those with tensors,
// ops or feeds are for sessions, and waiting for a step is; the others are for
// functions, too.

// Stops after the run in which the global step comes to `last_step`, or to so
// many steps more than the session began with. One of the two.
LS_API LS_MUST_USE ls_status ls_stop_at_step_hook(ls_opt num_steps,
                                                  ls_opt last_step,
                                                  ls_hook **out_hook);

// Is notified of saves; `session` is NULL where functions are called.
typedef struct ls_save_listener {
  void *user;
  ls_status (*begin)(void *user);
  ls_status (*before_save)(void *user, ls_session *session, int64_t step);
  // May ask for a stop.
  ls_status (*after_save)(void *user, ls_session *session, int64_t step,
                          bool *out_stop);
  ls_status (*end)(void *user, ls_session *session, int64_t step);
} ls_save_listener;

typedef struct ls_saver_hook_options {
  const char *folder;  // Required.
  // Variables to save. Lent. Default: the collection "variables"; of functions,
  // those of the model and its optimizer.
  ls_variable *const *variables;
  size_t num_variables;
  const ls_saveable *states;  // Lent.
  size_t num_states;
  ls_opt every_steps, every_seconds;  // One of the two. Default: 600 seconds.
  ls_opt steps_per_run;               // Default 1.
  ls_opt keep;                        // Default 5.
  double keep_every_hours;            // Default: none.
  // The graph is written too, as graph.ls; a function's once it was called.
  // Default on.
  ls_flag graph_text;
  const ls_save_listener *listeners;  // Copied.
  size_t num_listeners;
} ls_saver_hook_options;
// Saves checkpoints: once there is a session, when one is due, and at the end
// if the last step was not saved. Of ranks that train together each writes its
// part, so that saves can only be due by steps.
//   LS_INVALID_ARGUMENT  no folder; steps and seconds.
LS_API LS_MUST_USE ls_status ls_saver_hook(const ls_saver_hook_options *options,
                                           ls_hook **out_hook);
// Adds listeners to a saver that exists already, the first of a list.
//   LS_INVALID_ARGUMENT  no hook of the list saves.
LS_API LS_MUST_USE ls_status ls_saver_hooks_add_listeners(
    ls_hook *const *hooks, size_t num_hooks, const ls_save_listener *listeners,
    size_t num_listeners);

typedef struct ls_counter_hook_options {
  ls_opt every_steps, every_seconds;  // One of the two. Default: 100 steps.
  ls_opt steps_per_run;               // Default 1.
  ls_event_writer *writer;            // Lent. Default: none, only the log.
  double batch_size;  // To count examples a second, too. Default: they are not.
} ls_counter_hook_options;
// Steps a second, as "global_step/sec".
LS_API LS_MUST_USE ls_status
ls_counter_hook(const ls_counter_hook_options *options, ls_hook **out_hook);

typedef struct ls_log_hook_options {
  const char *const *names;  // Of the values; as many.
  // Default: results of the run by these names.
  const ls_tensor *values;
  size_t num_values;
  ls_opt every_steps, every_seconds;  // Runs; at most one of the two.
  bool at_end;                        // Also, or only, at the end.
  // Prints the line, instead of "name = value, name = value (s sec)"; both have
  // the values in the order of their names.
  void (*format)(void *user, const char *const *names, const ls_nest *values,
                 size_t num_values, char *buffer, size_t size);
  void *user;
} ls_log_hook_options;
// Logs values of the graph, or results of a run.
//   LS_INVALID_ARGUMENT  neither at the end nor at any time, or both intervals.
LS_API LS_MUST_USE ls_status ls_log_hook(const ls_log_hook_options *options,
                                         ls_hook **out_hook);

// A loss that is no number fails the run (LS_FAILED_PRECONDITION, "NaN loss
// during training"), or stops with a warning.
LS_API LS_MUST_USE ls_status ls_nan_hook(ls_tensor loss, ls_flag fails,
                                         ls_hook **out_hook);
// The same of the result of that name.
LS_API LS_MUST_USE ls_status ls_nan_hook_named(const char *name, ls_flag fails,
                                               ls_hook **out_hook);

typedef struct ls_summary_hook_options {
  const ls_op *ops;  // The summaries, as of ls_summary. Default: those that a
  size_t num_ops;    //   function makes, whose writer writes when due alone.
  ls_summary_writer *writer;          // Of them, lent: its step is set.
  ls_opt every_steps, every_seconds;  // One of the two. Required.
} ls_summary_hook_options;
// Runs summaries in the first run, and when they are due.
LS_API LS_MUST_USE ls_status
ls_summary_hook(const ls_summary_hook_options *options, ls_hook **out_hook);

// Runs a nest of tensors and ops once at the end; `*out_values` gets them, and
// is the caller's. With feeds, which are lent.
LS_API LS_MUST_USE ls_status ls_final_ops_hook(ls_nest fetches,
                                               const ls_feed *feeds,
                                               size_t num_feeds,
                                               ls_nest *out_values,
                                               ls_hook **out_hook);
// Feeds each run what `feed` writes, at most `capacity` (64).
typedef ls_status (*ls_feed_function)(void *user, ls_feed *feeds,
                                      size_t capacity, size_t *out_count);
LS_API LS_MUST_USE ls_status ls_feed_hook(ls_feed_function feed, void *user,
                                          ls_hook **out_hook);
// Waits before the first run until the global step is there, which other
// threads move: looks each half second of the runtime's clock.
LS_API LS_MUST_USE ls_status ls_wait_for_step_hook(int64_t step,
                                                   ls_hook **out_hook);
// Traces a run when it is due, into `folder`/timeline-<step>.json: by one of
// the two, the first run too.
//   LS_INVALID_ARGUMENT  neither or both.
LS_API LS_MUST_USE ls_status ls_profiler_hook(const char *folder,
                                              ls_opt every_steps,
                                              ls_opt every_seconds,
                                              ls_hook **out_hook);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_HOOK_H_
