// SPDX-License-Identifier: Apache-2.0
//
// Starting, clearing and ending the system of an estimator beside its programs:
// each in a graph and a session of its own.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_

#include "estimator/config/plan.h"

// Connects to it, and initializes it again.
LS_MUST_USE ls_status ls_device_system_begin(const ls_plan *plan);
// Empties and opens the queues of one that others have initialized.
void ls_device_system_clear(const ls_plan *plan);
// Shuts it down.
LS_MUST_USE ls_status ls_device_system_end(const ls_plan *plan);
// Closes its outfeeds: a dequeue gets OUT_OF_RANGE after what is there.
LS_MUST_USE ls_status ls_device_system_close_outfeeds(const ls_plan *plan);
// Gives the error in a compile status, an own copy; "": there is none.
//   LS_INTERNAL  it is no compile status.
LS_MUST_USE ls_status ls_device_system_compile_error(const ls_array *status,
                                                     char **out_text);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_
