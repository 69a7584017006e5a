// SPDX-License-Identifier: Apache-2.0
// Training run: epochs of steps with hooks; and the state used by the run's own
// hooks.
#ifndef LS_TRAIN_LOOP_H_
#define LS_TRAIN_LOOP_H_

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/trace.h"
#include "lockstep/cancel.h"
#include "lockstep/iterator.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"
#include "train/chain/chain.h"
#include "train/events/run_events.h"
#include "train/folder/run_folder.h"
#include "train/folder/saves.h"
#include "train/hooks/hook.h"
#include "train/input.h"
#include "train/ranks.h"
#include "train/run_plan.h"

// Device loops: many steps in one run, as a loop in the replicas that gets a
// batch for each step.

// ---- Feeder ----------------------------------------------------------------
// A feeder is a thread that feeds the cores of a strategy with batches, while a
// loop on the cores takes them.
// Options of a feeder; all is lent. `like` is a sharded batch whose parts have
// the shapes of all batches.
typedef struct ls_feeder_options {
  ls_runtime *runtime;
  ls_strategy *strategy;
  const ls_model_type *type;
  ls_iterator *input;
  const ls_train_stop *stop;
  ls_nest like;
} ls_feeder_options;

// Result of a job.
typedef struct ls_feeder_result {
  int64_t batches;
  bool asked;        // A stop was requested: fewer batches were fed.
  bool stalls;       // ... while the feeder waited for a batch.
  ls_status status;  // Status of the next batch. The caller owns it.
} ls_feeder_result;

// Returns true if all parts of a batch have the same shape, as a loop requires.
bool ls_batch_is_even(ls_nest args);

// Means over the examples of a step.
typedef struct ls_step_numbers {
  double loss, accuracy;
} ls_step_numbers;

typedef struct ls_device_loop ls_device_loop;

// Options of a device loop. A zero field means its default.
typedef struct ls_device_loop_options {
  ls_feeder_options from;  // `like`: a step's arguments.
  ls_nest results;         // Results of one step, lent.
  ls_model model;
  int64_t seed;
  int64_t most;    // Steps per run.
  bool by_infeed;  // False: a run's batches are its arguments.
} ls_device_loop_options;

LS_MUST_USE ls_status ls_device_loop_create(
    const ls_device_loop_options *options, ls_device_loop **out_loop);
void ls_device_loop_destroy(ls_device_loop *loop);  // Accepts NULL.
LS_OWNED_POINTER(ls_device_loop, ls_device_loop_destroy)

// Runs `steps` steps, at most `most`; random ops draw as in steps from
// `step_number` on. `out->batches` is the number of steps made; 0 after a
// failure.
LS_MUST_USE ls_status ls_device_loop_run(ls_device_loop *loop, int64_t steps,
                                         uint64_t step_number,
                                         ls_feeder_result *out);
// Returns the numbers of step `k` of the last run.
LS_MUST_USE ls_status ls_device_loop_numbers(const ls_device_loop *loop,
                                             int64_t k, ls_step_numbers *out);

// Returns (lends) the results of the step last asked for, in the form of a
// single step's.
ls_nest ls_device_loop_results(const ls_device_loop *loop);

// ---- Budget ----------------------------------------------------------------
// A time budget of some steps: shares of compute, input and waits.
enum { LS_BUDGET_RANKS = 64 };

// Nanoseconds that a run has spent so far, by its own measurement.
typedef struct ls_spent {
  int64_t input, run, save;
} ls_spent;

// Counters at the time a budget was begun.
typedef struct ls_budget {
  int64_t began;
  ls_spent spent;
  int64_t waited[LS_WAITS];  // The runtime's waits at that time.
  // Waits for the first LS_BUDGET_RANKS ranks at that time.
  int64_t waited_for[LS_BUDGET_RANKS];
} ls_budget;

void ls_budget_begin(const ls_runtime *runtime, const ls_spent *spent,
                     ls_budget *budget);
// Returns the budget since `budget` was begun; asks `input` which of its stages
// takes most time.
ls_train_budget ls_budget_of(const ls_runtime *runtime, const ls_spent *spent,
                             const ls_budget *budget, ls_iterator *input);

// Prints the largest parts that fit, "compute 97% input 2% (map)". Returns
// `buffer`.
const char *ls_budget_print(const ls_train_budget *budget, char *buffer,
                            size_t size);

// Means over the examples of some steps.
typedef struct ls_run_means {
  int64_t steps, examples;
  double loss, accuracy;  // Sums over examples.
  ls_budget budget;       // Begun with the means.
} ls_run_means;

// Steps that a run sends to a device before it reads the loss of the first.
enum { LS_STEPS_AHEAD = 16 };

typedef struct ls_loop {
  ls_runtime *runtime;
  ls_run_plan plan;
  ls_run_ranks ranks;
  ls_function *function;  // The function of a step.
  bool is_checked;        // The first step was checked.
  bool is_guarded;        // One of the caller's hooks checks the loss.
  ls_dataset *batches;
  ls_iterator *input;
  bool stalls;                     // The input is making an element.
  ls_device_loop *device_loop;     // NULL: each run is one step.
  ls_nest args, results;           // `args`: a batch, sharded over replicas.
  ls_named_result loss, accuracy;  // `accuracy`: the task's metric.
  bool is_late;  // A device computes results after a step's call has returned.
  ls_nest ahead[LS_STEPS_AHEAD];  // Results of steps not waited for one by one.
  ls_hook_list hooks;  // The context counts the steps of the whole run.

  // Results of the last run: numbers of each step, number of steps, examples
  // per step.
  ls_step_numbers *numbers;
  size_t numbers_capacity;
  int64_t made, examples;
  // The variables have the values of a later step than those that count: only
  // means are reported from here on.
  bool is_ahead;
  ls_spent spent;

  int64_t began;  // Start by the clock, as if the run had never paused.
  // The epoch, counted from 0; steps before it; its first step in this process;
  // steps per epoch.
  int64_t epoch, epoch_begin, epoch_first, steps_per_epoch;
  bool was_asked;   // A stop was requested on this rank,
  bool is_stopped;  // and all ranks have stopped.
  ls_status unmet;  // Failure of the ranks to agree on a stop.

  ls_run_folder folder;
  // The folder has metrics of steps after the resumed one.
  bool continues;
  int64_t resumed;
  bool replaces;  // On rank 0: a former run is in place until the first step.
  // Resumed at the end of an epoch, whose evaluation is repeated.
  bool is_again;

  // State of lines and reports (own_hooks.c).
  ls_run_events events;
  ls_run_means lines;    // Since the last line.
  ls_run_means reports;  // Means of this epoch.
  ls_train_report report;
  int64_t logged_test;  // Step of the last evaluation with a line; -1: none.

  // State of saves and evaluations (own_hooks.c).
  ls_saves saves;
  ls_chain chain;
  bool begins_chain;        // The first step begins it.
  ls_run_means saved;       // Since the last save, in this epoch.
  bool save_is_due;         // A save is due by rank 0's clock.
  bool save_has_failed;     // On some rank.
  ls_evaluator *evaluator;  // NULL: no test set.
  ls_evaluation test;       // The last evaluation,
  int64_t tested;           // and its step; -1: none.
  uint64_t tested_from;     // Calls of its function before the evaluation.
} ls_loop;

// ---- Position --------------------------------------------------------------
static inline int64_t ls_loop_steps(const ls_loop *loop) {
  return loop->hooks.context.steps;
}
// Returns the number of the epoch's steps so far.
static inline int64_t ls_loop_epoch_steps(const ls_loop *loop) {
  return ls_loop_steps(loop) - loop->epoch_begin;
}
// Returns true if this process has made a step of the epoch.
static inline bool ls_loop_epoch_has_steps(const ls_loop *loop) {
  return ls_loop_epoch_steps(loop) > loop->epoch_first;
}
static inline bool ls_loop_epoch_is_over(const ls_loop *loop) {
  return ls_loop_epoch_steps(loop) >= loop->steps_per_epoch;
}
// Returns true if the run stops here. Collective: all ranks call it.
bool ls_loop_stops(ls_loop *loop);
// Returns true if the trace of the first step is to end: a stop is asked for,
// and there is nothing to save.
bool ls_loop_ends_trace(const ls_loop *loop);
// Waits for a batch or a stop.
void ls_loop_wait_for_input(ls_loop *loop);

// examples.c: gets the examples of the last step; see ls_run_context_examples.
ls_status ls_loop_examples(void *loop, int64_t *examples, size_t capacity,
                           size_t *out_count);
// Adds the examples of the next step to its failure, and the one with the NaN
// that was found last.
ls_status ls_loop_name_examples(const ls_loop *loop, ls_status status);
// Describes the first NaN or infinite number in the examples of `batch`, that
// of the next step. Returns false if they have none.
bool ls_loop_find_infinite(const ls_loop *loop, ls_nest batch, char *buffer,
                           size_t size);

static inline double ls_loop_seconds(const ls_loop *loop, int64_t began) {
  return (double)(ls_runtime_now(loop->runtime) - began) * 1e-9;
}
// Ends the span of a step, which began at `began`.
static inline void ls_loop_end_span(const ls_loop *loop, const char *kind,
                                    int64_t began, int64_t step) {
  if (began != LS_NO_SPAN)
    ls_span_end(loop->runtime, &(ls_span){.kind = kind,
                                          .began = began,
                                          .of = LS_SPAN_OF_STEP,
                                          .number = step});
}

// ---- Its steps (steps.c) ---------------------------------------------------
// Checks the options of loops of steps.
LS_MUST_USE ls_status ls_loop_check_options(const ls_loop *loop);
// Makes a run of one or several steps: see ls_hooked_run.
LS_MUST_USE ls_status ls_loop_make_run(void *loop, bool *out_has_run);

// Commits the run in its folder, which moves a former run aside (loop.c).
LS_MUST_USE ls_status ls_loop_settle(ls_loop *loop);

// Lets the steps store their gradients, if their norm is wanted
// (own_hooks.c). Called before the first step is traced.
LS_MUST_USE ls_status ls_loop_keep_gradients(const ls_loop *loop);

// ---- Its own hooks (own_hooks.c): see the README ---------------------------
// Adds the run's own hooks (see the README) and the caller's to the loop's
// list.
LS_MUST_USE ls_status ls_loop_add_hooks(ls_loop *loop);
// Ends lines and events, also of a failed run: writes a line for the steps
// since the last line, and closes files.
LS_MUST_USE ls_status ls_loop_close_lines(ls_loop *loop);

#endif  // LS_TRAIN_LOOP_H_
