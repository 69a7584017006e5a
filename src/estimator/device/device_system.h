// SPDX-License-Identifier: Apache-2.0
//
// What is done to the system of an estimator beside its programs: each in a
// graph and a session of its own.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_

#include "estimator/config/plan.h"

// Connects to it, and initializes it anew.
LS_MUST_USE ls_status ls_device_system_begin(const ls_plan *plan);
// One that others have initialized: its queues are empty and open.
void ls_device_system_clear(const ls_plan *plan);
// Shuts it down.
LS_MUST_USE ls_status ls_device_system_end(const ls_plan *plan);
// Nothing more comes from its cores: who takes is told OUT_OF_RANGE behind what
// is there.
LS_MUST_USE ls_status ls_device_system_close_outfeeds(const ls_plan *plan);
// What a compile status says went wrong, an own copy; "": nothing.
//   LS_INTERNAL  it is none.
LS_MUST_USE ls_status ls_device_system_compile_error(const ls_array *told,
                                                     char **out_text);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_
