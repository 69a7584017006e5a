// SPDX-License-Identifier: Apache-2.0
// Device loops: many steps in one run, as a loop in the replicas that gets a
// batch for each step.
#ifndef LS_TRAIN_DEVICE_LOOP_H_
#define LS_TRAIN_DEVICE_LOOP_H_

#include "base/memory/own.h"
#include "lockstep/cancel.h"
#include "lockstep/iterator.h"
#include "train/input.h"

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

#endif  // LS_TRAIN_DEVICE_LOOP_H_
