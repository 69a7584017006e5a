// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Gauges: values about the use of a runtime, for monitoring.
//
// A gauge has cells, each with a short text or a number; setting a cell
// replaces its value. The gauges are
//   "strategy"                 cell "V1" or "V2": the kind of the last TPU
//                              strategy created, a text
//   "num_workers"              cell "": its hosts
//   "num_replicas_per_worker"  cell "": its replicas per host
//
// Threads: any number of threads may read gauges at the same time.
#ifndef LOCKSTEP_GAUGE_H_
#define LOCKSTEP_GAUGE_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_MAX_GAUGE_TEXT = 64 };

// Value of a cell.
typedef struct ls_gauge_value {
  char text[LS_MAX_GAUGE_TEXT];  // "" if the cell holds a number.
  int64_t number;                // 0 if the cell holds a text.
} ls_gauge_value;

// Returns true if the cell was ever set, with its value in `*out_value`;
// otherwise the value is zero.
LS_API bool ls_gauge_read(ls_runtime *runtime, const char *gauge,
                          const char *cell, ls_gauge_value *out_value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_GAUGE_H_
