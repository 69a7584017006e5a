// SPDX-License-Identifier: Apache-2.0
#ifndef LS_DISTRIBUTE_REPLICAS_TRACE_MERGE_H_
#define LS_DISTRIBUTE_REPLICAS_TRACE_MERGE_H_

#include "distribute/replicas/rounds.h"

// Merges replicas that are being traced and wait in a merge call: replica 0's
// function is traced once, in cross-replica context, and each replica's graph
// gets a merge op whose body that is.
ls_status ls_trace_merge(ls_rounds *rounds);

#endif  // LS_DISTRIBUTE_REPLICAS_TRACE_MERGE_H_
