// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Gauges: what a runtime is used for, as values that anyone may look at.
//
// A gauge has cells, each with a short text or a number; who sets a cell
// replaces what it held. There are
//   "strategy"                 cell "V1" or "V2": the kind of the last TPU
//                              strategy that was made, a text
//   "num_workers"              cell "": its hosts
//   "num_replicas_per_worker"  cell "": its replicas on a host
//
// Threads: any number of threads look at the same time.
#ifndef LOCKSTEP_GAUGE_H_
#define LOCKSTEP_GAUGE_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_MAX_GAUGE_TEXT = 64 };

// What a cell holds, by value.
typedef struct ls_gauge_value {
  char text[LS_MAX_GAUGE_TEXT];  // "" of a number.
  int64_t number;                // 0 of a text.
} ls_gauge_value;

// Whether the cell was ever set; `*out_value` is what it holds, else zero.
LS_API bool ls_gauge_read(ls_runtime *runtime, const char *gauge,
                          const char *cell, ls_gauge_value *out_value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_GAUGE_H_
