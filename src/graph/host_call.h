// SPDX-License-Identifier: Apache-2.0
//
// Calls of host kernels, as engines make them.
#ifndef LS_GRAPH_HOST_CALL_H_
#define LS_GRAPH_HOST_CALL_H_

#include "lockstep/host.h"

// What `ls_host_call.engine` points to: what ls_host_done and ls_host_give
// call, so that every engine can have its own.
typedef struct ls_host_engine {
  void (*done)(ls_host_call *call, ls_status status);
  ls_status (*give)(ls_host_call *call, size_t output, const void *data);
} ls_host_engine;

#endif  // LS_GRAPH_HOST_CALL_H_
