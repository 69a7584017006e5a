// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// How many steps fit into a time, by what steps have taken.
//
// Threads: an estimator belongs to one thread at a time.
#ifndef LOCKSTEP_ITERATION_COUNT_H_
#define LOCKSTEP_ITERATION_COUNT_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_iteration_count ls_iteration_count;

// Remembers the last `capacity` samples. Default 20.
//   LS_INVALID_ARGUMENT  less than 1.
LS_API LS_MUST_USE ls_status
ls_iteration_count_create(ls_opt capacity, ls_iteration_count **out);
LS_API void ls_iteration_count_destroy(ls_iteration_count *self);

// So many steps have taken so long. Nothing is learnt from none, or no time.
LS_API void ls_iteration_count_update(ls_iteration_count *self, double seconds,
                                      int64_t steps);
// How many steps to make in about so many seconds: 1 while nothing is known;
// what it was before once steps take about equally long and the runs about as
// long as wanted.
//   LS_INVALID_ARGUMENT  no time.
LS_API LS_MUST_USE ls_status ls_iteration_count_get(ls_iteration_count *self,
                                                    double seconds,
                                                    int64_t *out_steps);

// Whether |actual - target| is at most so many percent of the target.
//   LS_INVALID_ARGUMENT  one of them is 0.
LS_API LS_MUST_USE ls_status ls_within_percent(double actual, double target,
                                               double percent, bool *out_is);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ITERATION_COUNT_H_
