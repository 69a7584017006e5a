// SPDX-License-Identifier: Apache-2.0
// What is known of each kind of fault.
#ifndef LS_TPU_POD_POD_FAULT_KINDS_H_
#define LS_TPU_POD_POD_FAULT_KINDS_H_

#include "tpu/pod/pod_fault.h"

typedef struct ls_pod_fault_row {
  const char *name;  // In names of pods.
  unsigned doors;    // Where it stands and counts steps: bits.
  unsigned felt;     // Where it is met, too, once it has happened.
  bool of_host;      // Of any core of its host.
  bool stays;        // Until the system begins anew.
  bool needs_nanos, needs_bytes;
} ls_pod_fault_row;

enum { LS_POD_FAULT_KINDS = LS_POD_NO_HEARTBEAT + 1 };
extern const ls_pod_fault_row ls_pod_fault_rows[LS_POD_FAULT_KINDS];

#endif  // LS_TPU_POD_POD_FAULT_KINDS_H_
