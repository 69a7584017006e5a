// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_CALLS_EVAL_EVENTS_H_
#define LS_ESTIMATOR_CALLS_EVAL_EVENTS_H_

#include "estimator/calls/estimator.h"

// Checks that the name of an evaluation, NULL or "" for none, can be a part of
// the path of its events.
LS_MUST_USE ls_status ls_check_evaluation_name(const char *name);
// Writes the results of an evaluation to event files in the model's eval, or
// eval_NAME. `checkpoint` NULL: there was none.
LS_MUST_USE ls_status ls_write_eval_events(const ls_estimator *self,
                                           const char *name,
                                           const char *checkpoint,
                                           ls_nest metrics);

#endif  // LS_ESTIMATOR_CALLS_EVAL_EVENTS_H_
