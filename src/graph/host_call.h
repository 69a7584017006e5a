// SPDX-License-Identifier: Apache-2.0
//
// Calls of host kernels, as engines make them.
#ifndef LS_GRAPH_HOST_CALL_H_
#define LS_GRAPH_HOST_CALL_H_

#include "lockstep/host.h"

// `ls_host_call.engine` points to a struct whose first member is one of these:
// what ls_host_done calls, so that every engine can have its own.
typedef void (*ls_host_done_function)(ls_host_call *call, ls_status status);

#endif  // LS_GRAPH_HOST_CALL_H_
