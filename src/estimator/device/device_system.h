// SPDX-License-Identifier: Apache-2.0
//
// What is done to the system of an estimator beside its programs: each in a
// graph and a session of its own.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_

#include "estimator/config/systems.h"

// Connects to it, and initializes it anew.
LS_MUST_USE ls_status ls_device_system_begin(ls_estimator_context context);
// One that others have initialized: its queues are empty and open.
LS_MUST_USE ls_status ls_device_system_clear(ls_estimator_context context);
// Shuts it down.
LS_MUST_USE ls_status ls_device_system_end(ls_estimator_context context);
// Begins to ask its hosts how they are, where the environment says so.
LS_MUST_USE ls_status ls_device_system_watch(ls_estimator_context context);
// Nothing more comes from its cores: who takes is told OUT_OF_RANGE behind what
// is there.
LS_MUST_USE ls_status
ls_device_system_close_outfeeds(ls_estimator_context context);
// What a compile status says went wrong, an own copy; "": nothing.
//   LS_INTERNAL  it is none.
LS_MUST_USE ls_status ls_device_system_compile_error(const ls_array *told,
                                                     char **out_text);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_SYSTEM_H_
