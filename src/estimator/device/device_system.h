// SPDX-License-Identifier: Apache-2.0
//
// Starts, clears and ends an estimator's system, each in a graph and session of
// its own.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_

#include "estimator/config/plan.h"

// Connects to the system and initializes it.
LS_MUST_USE ls_status ls_device_system_begin(const ls_plan *plan);
// Empties and reopens the queues of a system that others initialized.
void ls_device_system_clear(const ls_plan *plan);
// Shuts the system down.
LS_MUST_USE ls_status ls_device_system_end(const ls_plan *plan);
// Closes the system's outfeeds: after the remaining tuples a dequeue fails with
// OUT_OF_RANGE.
LS_MUST_USE ls_status ls_device_system_close_outfeeds(const ls_plan *plan);
// Copies the error text of a compile status; "" if it compiled.
//   LS_INTERNAL  not a compile status
LS_MUST_USE ls_status ls_device_system_compile_error(const ls_array *status,
                                                     char **out_text);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_
