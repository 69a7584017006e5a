// SPDX-License-Identifier: Apache-2.0
//
// Jobs: one call of an estimator, with the graph that it builds, the hooks
// around its runs, and the first error.
#ifndef LS_ESTIMATOR_CALLS_JOB_H_
#define LS_ESTIMATOR_CALLS_JOB_H_

#include "estimator/calls/estimator.h"
#include "estimator/device/device.h"
#include "estimator/input/input.h"
#include "estimator/loop/program.h"
#include "lockstep/monitored_session.h"
#include "train/hooks/hook.h"

// A job's use of a system, stored in the job. Zeroed: uses none.
typedef struct ls_system_use {
  struct ls_system_use *next;  // Next in the runtime's list.
  ls_runtime *runtime;
  ls_system_id *id;    // NULL: uses none.
  const char *folder;  // The estimator's model_dir, borrowed.
  ls_estimator_mode mode;
} ls_system_use;

typedef struct ls_job ls_job;
typedef ls_status (*ls_job_act)(ls_job *job);

// Positions of a kind's hooks relative to those of users, models and calls.
typedef enum ls_hook_place {
  LS_HOOKS_OF_INPUT,      // Before the user's.
  LS_HOOKS_OF_STEPS,      // After the user's: count steps and end the loop.
  LS_HOOKS_BEFORE_MODEL,  // After guards.
  LS_HOOKS_BEHIND_MODEL,
  LS_HOOKS_LAST,  // After all others have added to the graph.
  LS_NUM_HOOK_PLACES,
} ls_hook_place;
typedef ls_job_act ls_job_hook_acts[LS_NUM_MODES][LS_NUM_HOOK_PLACES];

// A kind of job: on cores of a system, on a CPU, or in the replicas of a
// strategy. NULL functions do nothing.
typedef struct ls_job_kind {
  ls_job_act check[LS_NUM_MODES];  // Refuses unsupported requests, by mode.
  ls_job_act build;  // Builds the model and its fetches in the job's graph.
  const ls_job_hook_acts *add_hooks;
  // Adds the losses fetched by a run of an evaluation to `losses`.
  ls_status (*take_losses)(const ls_job *job, ls_nest fetched,
                           ls_eval_losses *losses);
  bool reads_input;  // Runs read the input and see its end; else threads do.
} ls_job_kind;
extern const ls_job_kind ls_tpu_job, ls_cpu_job, ls_strategy_job;

struct ls_job {
  ls_estimator *estimator;
  const ls_job_kind *kind;
  ls_estimator_calls calls;
  ls_input_function input;
  ls_opt steps_wanted, max_steps;  // Set by the caller.
  ls_graph *graph;
  ls_rendezvous *rendezvous;
  const ls_train_stop *stop;

  // Fields of jobs on TPUs.
  ls_system_use use;
  ls_input_feed feed;
  ls_estimator_program program;
  ls_hook *device_hook;  // Holds a reference.
  bool input_ended;
  bool user_saves;       // True if a hook of the model or the caller saves.
  bool input_end_fails;  // True if the input must not end before the last step.
  ls_train_stop system_gone;  // Requested when the system is seen to be gone.
  // Fields of jobs on CPUs and in the replicas of a strategy.
  ls_cpu_input cpu_input;
  ls_strategy *strategy;  // Borrowed; NULL: none.

  // Results of the model, and the fetches of a run.
  ls_estimator_spec *spec;
  ls_tensor loss;
  ls_op train_op;
  ls_nest metrics;  // Evaluation: a dict of (value, update op).
  ls_nest losses;   // The loss, and the number of steps or examples it is for.
  ls_nest predictions;            // Borrowed.
  ls_iterator *const *iterators;  // The input's iterators, borrowed.
  size_t num_iterators;
  ls_loop_length length;  // Length of a run; 0 steps: not known.

  ls_hook_list hooks;  // Hooks of the session to be made.
  ls_scaffold scaffold;
  ls_status (*init_fn)(void *user, ls_session *session);  // The user's.
  void *init_user;
  // Checkpoint to start from instead of initial values, borrowed; NULL in
  // trainings.
  const ls_estimator_checkpoint *checkpoint;
  ls_event_writer *events;
  ls_summary_writer *summaries;
  ls_saveable state;  // Saves the input's position.
  bool afresh;        // Start with the epoch after the saved position.
  bool restored;      // True if the input continued at its saved position.
};

// Makes the graph, global step and rendezvous of a call in a mode.
LS_MUST_USE ls_status ls_job_begin(ls_job *job, ls_estimator *estimator,
                                   ls_estimator_mode mode,
                                   const ls_input_function *input);
// Makes the graph alone, with the configuration's seed.
LS_MUST_USE ls_status ls_job_make_graph(ls_job *job, const char *name);
// Frees everything. Returns the root cause among all threads' errors and
// `status`, the loop's, which is taken over.
LS_MUST_USE ls_status ls_job_end(ls_job *job, const char *source,
                                 ls_status status);

// Adds the kind's hooks for the job's mode at this position.
LS_MUST_USE ls_status ls_job_add_hooks(ls_job *job, ls_hook_place place);
// Hooks of jobs on CPUs and in the replicas of a strategy (cpu_job.c).
extern const ls_job_hook_acts ls_cpu_job_hooks;
LS_MUST_USE ls_status ls_cpu_job_check_evaluation(ls_job *job);
// Adds the hook that logs steps and examples per second (train.c).
LS_MUST_USE ls_status ls_job_add_examples_hook(ls_job *job);
// Calls the model function on a CPU, outside replicas (cpu_job.c).
LS_MUST_USE ls_status ls_call_model_alone(const ls_estimator_calls *calls,
                                          ls_nest features, ls_nest labels,
                                          ls_estimator_spec **out_spec);
// Logs that the job runs on a CPU.
void ls_job_log_cpu(const ls_job *job);
// Sets values before the first run: those of the job's checkpoint without its
// input position; without a checkpoint, initial values or those of a warm start
// (job_values.c).
LS_MUST_USE ls_status ls_job_set_values(ls_job *job);
// Makes the input's position part of checkpoints (job_values.c).
void ls_job_set_state(ls_job *job);

// Opens the event files of a training that continues from step `saved`; -1:
// starts from scratch.
LS_MUST_USE ls_status ls_job_open_events(ls_job *job, int64_t saved);
LS_MUST_USE ls_status ls_job_session(ls_job *job, bool restores,
                                     ls_monitored_session **out_session);
// Makes runs in the session until it stops, and closes it; `take` receives the
// results of each run, borrowed.
typedef ls_status (*ls_job_take)(ls_job *job, ls_monitored_session *session,
                                 ls_nest results, void *user);
LS_MUST_USE ls_status ls_job_run_all(ls_job *job, ls_monitored_session *session,
                                     ls_nest fetches, ls_job_take take,
                                     void *user);
// Logs if OUT_OF_RANGE ended the runs, because then the input has ended.
// Returns `status`.
LS_MUST_USE ls_status ls_job_end_runs(ls_job *job, ls_status status);
// Fails if the input ended too soon.
LS_MUST_USE ls_status ls_job_check_input_end(const ls_job *job);

#endif  // LS_ESTIMATOR_CALLS_JOB_H_
