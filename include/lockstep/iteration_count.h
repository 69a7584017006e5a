// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Estimate of the number of steps that fit into a time, from measured
// durations.
//
// Threads: an estimator belongs to one thread at a time.
#ifndef LOCKSTEP_ITERATION_COUNT_H_
#define LOCKSTEP_ITERATION_COUNT_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_iteration_count ls_iteration_count;

// Creates an estimator that keeps the last `capacity` samples. Default 20.
//   LS_INVALID_ARGUMENT  below 1.
LS_API LS_MUST_USE ls_status
ls_iteration_count_create(ls_opt capacity, ls_iteration_count **out);
LS_API void ls_iteration_count_destroy(ls_iteration_count *self);

// Adds a sample: this many steps took this long. Ignores 0 steps or 0 seconds.
LS_API void ls_iteration_count_update(ls_iteration_count *self, double seconds,
                                      int64_t steps);
// Estimates the number of steps that take about `seconds`: 1 while there are no
// samples; the previous result once steps have a steady duration and runs about
// the wanted one.
//   LS_INVALID_ARGUMENT  `seconds` is not above 0.
LS_API LS_MUST_USE ls_status ls_iteration_count_get(ls_iteration_count *self,
                                                    double seconds,
                                                    int64_t *out_steps);

// Sets `*out_within` to true if |actual - target| is at most this percentage of
// the target.
//   LS_INVALID_ARGUMENT  one of them is 0.
LS_API LS_MUST_USE ls_status ls_within_percent(double actual, double target,
                                               double percent,
                                               bool *out_within);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ITERATION_COUNT_H_
