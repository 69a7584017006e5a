// SPDX-License-Identifier: Apache-2.0
// Many steps in one run: a loop in the replicas, which get a batch for each
// step.
#ifndef LS_TRAIN_DEVICE_LOOP_H_
#define LS_TRAIN_DEVICE_LOOP_H_

#include "base/memory/own.h"
#include "train/feeder.h"

// The means over the examples of a step.
typedef struct ls_step_numbers {
  double loss, accuracy;
} ls_step_numbers;

typedef struct ls_device_loop ls_device_loop;

// Zero in a field means its default.
typedef struct ls_device_loop_options {
  ls_feeder_options from;  // `like`: the arguments of a step.
  ls_nest results;         // Of that step, lent.
  ls_model model;
  int64_t seed;
  int64_t most;    // Steps in a run.
  bool by_infeed;  // Else a run's batches are arguments, all of them.
} ls_device_loop_options;

LS_MUST_USE ls_status ls_device_loop_create(
    const ls_device_loop_options *options, ls_device_loop **out_loop);
void ls_device_loop_destroy(ls_device_loop *loop);  // NULL is fine.
LS_OWNED_POINTER(ls_device_loop, ls_device_loop_destroy)

// Makes so many steps, at most as many as a run has; random ops draw as in
// steps from `step_number` on. `out->batches` is how many were made: after a
// failure, none is known to have been.
LS_MUST_USE ls_status ls_device_loop_run(ls_device_loop *loop, int64_t steps,
                                         uint64_t step_number,
                                         ls_feeder_result *out);
// Gives the numbers of step `k` of that run.
LS_MUST_USE ls_status ls_device_loop_numbers(const ls_device_loop *loop,
                                             int64_t k, ls_step_numbers *out);

// Returns those that were asked for last, a dict as a step gives it; lent.
ls_nest ls_device_loop_results(const ls_device_loop *loop);

#endif  // LS_TRAIN_DEVICE_LOOP_H_
