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
#include "state/checkpoint_file.h"
#include "train/chain/chain.h"
#include "train/hooks/hook.h"

// A job's use of a system, stored in the job. Zeroed: no system is used.
typedef struct ls_system_use {
  struct ls_system_use *next;  // Next in the runtime's list.
  ls_runtime *runtime;
  ls_system_id *id;    // NULL: no system is used.
  const char *folder;  // The estimator's model_dir, borrowed.
  ls_estimator_mode mode;
} ls_system_use;

typedef struct ls_job ls_job;
typedef ls_status (*ls_job_act)(ls_job *job);

// Positions of hooks that a kind of job adds, relative to hooks of users,
// models and calls.
typedef enum ls_hook_place {
  LS_HOOKS_OF_INPUT,  // Before the user's hooks.
  LS_HOOKS_OF_STEPS,  // After the user's hooks: count steps and end the loop.
  LS_HOOKS_BEFORE_MODEL,  // After the hooks that guard the training.
  LS_HOOKS_BEHIND_MODEL,
  LS_HOOKS_LAST,  // After all other hooks have added ops to the graph.
  LS_NUM_HOOK_PLACES,
} ls_hook_place;
typedef ls_job_act ls_job_hook_acts[LS_NUM_MODES][LS_NUM_HOOK_PLACES];

// A kind of job: on cores of a system, on a CPU, or in the replicas of a
// strategy. NULL functions do nothing.
typedef struct ls_job_kind {
  ls_job_act check[LS_NUM_MODES];  // Refuse unsupported requests, by mode.
  ls_job_act build;  // Builds the model and its fetches in the job's graph.
  const ls_job_hook_acts *add_hooks;
  // Adds the losses that a run of an evaluation has fetched to `losses`.
  ls_status (*take_losses)(const ls_job *job, ls_nest fetched,
                           ls_eval_losses *losses);
  bool reads_input;  // True: runs see the input's end; false: threads read it.
} ls_job_kind;
extern const ls_job_kind ls_tpu_job, ls_cpu_job, ls_strategy_job;

// The chain of a training's folder. Zeroed: none.
typedef struct ls_job_chain {
  ls_chain chain;
  ls_part_reader reader;
  ls_part lines;  // Lines of metrics.jsonl so far.
  ls_text path;   // Room for a path.
  const char *config;
  const ls_dataset *data;  // Borrowed; NULL: the input reads none.
  char identity[17];       // Hash of the data.
  bool attest;             // A chain begins if there is none.
  bool goes_on;            // Lines are added to those that are there.
  int64_t first_step;      // Step at which the training begins.
  int64_t step;            // Step of the last save.
} ls_job_chain;

struct ls_job {
  ls_estimator *estimator;
  const ls_job_kind *kind;
  ls_estimator_calls calls;
  ls_input_function input;
  ls_opt steps_wanted, max_steps;  // The caller's limits of steps.
  ls_graph *graph;
  ls_rendezvous *rendezvous;
  const ls_train_stop *stop;
  // The ranks that share the job; zeroed in a process that is alone. Together
  // they request `agreed`, once `stop` is requested on one.
  ls_ranks ranks;
  ls_train_stop agreed;
  bool stops_build;  // A request ends building the model, too.
  bool *pauses;      // As in ls_estimator_train_part; NULL: never.
  bool is_paused;    // True if that alone ends the runs.

  // Fields for jobs on TPUs.
  ls_system_use use;
  ls_input_feed feed;
  ls_estimator_program program;
  ls_hook *device_hook;  // Holds a reference.
  bool input_ended;
  bool restarted;        // True if the ended input is at the next epoch.
  bool user_saves;       // True if a hook of the model or the caller saves.
  bool input_end_fails;  // True if the input must not end before the last step.
  ls_train_stop system_gone;  // Stops the training once the system is gone.
  // Fields for jobs on CPUs and in the replicas of a strategy.
  ls_cpu_input cpu_input;
  ls_strategy *strategy;  // Borrowed; NULL: none.

  // Results of the model, and the fetches of a run.
  ls_estimator_spec *spec;
  ls_tensor loss;
  ls_op train_op;
  ls_nest metrics;      // Evaluation: a dict of (value, update op).
  ls_nest losses;       // The loss, and for how many steps or examples.
  ls_nest predictions;  // Borrowed.
  ls_iterator *const *iterators;  // The input's iterators, borrowed.
  size_t num_iterators;
  ls_loop_length length;  // Length of a run; 0 steps: not known yet.

  ls_hook_list hooks;  // Hooks of the session that will be made.
  ls_scaffold scaffold;
  ls_status (*init_fn)(void *user, ls_session *session);  // The user's init_fn.
  void *init_user;
  // Checkpoint from which values start in place of initial values, borrowed;
  // NULL in trainings.
  const ls_estimator_checkpoint *checkpoint;
  ls_event_writer *events;
  ls_summary_writer *summaries;
  ls_saveable state;  // Saves the input's position.
  bool afresh;        // True if the input starts with the next epoch.
  bool restored;      // True if the input continued at the saved position.
  ls_job_chain chain;
};

// Makes the graph, the global step and the rendezvous of a call in mode `mode`.
LS_MUST_USE ls_status ls_job_begin(ls_job *job, ls_estimator *estimator,
                                   ls_estimator_mode mode,
                                   const ls_input_function *input);
// Makes only the graph, with the configuration's seed.
LS_MUST_USE ls_status ls_job_make_graph(ls_job *job, const char *name);
// Frees the job. Returns the root cause among all threads' errors and `status`,
// the error of the loop, which is taken over.
LS_MUST_USE ls_status ls_job_end(ls_job *job, const char *source,
                                 ls_status status);

// Adds the hooks of the job's kind and mode at this position.
LS_MUST_USE ls_status ls_job_add_hooks(ls_job *job, ls_hook_place place);
// Hooks of jobs on CPUs and in the replicas of a strategy (cpu_job.c).
extern const ls_job_hook_acts ls_cpu_job_hooks;
// Adds the hook that logs steps and examples per second (train.c).
LS_MUST_USE ls_status ls_job_add_examples_hook(ls_job *job);
// Calls the model function on a CPU, outside replicas (cpu_job.c).
LS_MUST_USE ls_status ls_call_model_alone(const ls_estimator_calls *calls,
                                          ls_nest features, ls_nest labels,
                                          ls_estimator_spec **out_spec);
// Sets the variables before the first run: to the values of the job's
// checkpoint, without its input position; without a checkpoint, to initial
// values or those of a warm start (job_values.c).
LS_MUST_USE ls_status ls_job_set_values(ls_job *job);
// Makes the input's position part of checkpoints (job_values.c).
void ls_job_set_state(ls_job *job);

// Adds lines to the chain of the job's folder with each save, if `wanted` says
// so or the training goes on from step `saved` and has a chain; -1: starts from
// scratch (attest.c). The session has no other listeners afterwards.
LS_MUST_USE ls_status ls_job_attest(ls_job *job,
                                    const ls_training_lines *wanted,
                                    int64_t saved);
void ls_job_chain_deinit(ls_job_chain *self);  // Accepts a zeroed one.

// Returns true if a stop was requested; on ranks, if all have agreed on it.
bool ls_job_is_stopped(const ls_job *job);
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
// Fails if the input ended before the last step, where it must not.
LS_MUST_USE ls_status ls_job_check_input_end(const ls_job *job);

#endif  // LS_ESTIMATOR_CALLS_JOB_H_
