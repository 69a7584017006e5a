// SPDX-License-Identifier: Apache-2.0
// Systems that are initialized, by name and job: the table of them.
#ifndef LS_TPU_SYSTEM_SYSTEM_H_
#define LS_TPU_SYSTEM_SYSTEM_H_

#include "lockstep/tpu_system.h"
#include "tpu/pod/pod.h"

// Initializes a pod and puts it into the table; `*out_again`: it was there.
LS_MUST_USE ls_status ls_pod_start(ls_pod *pod, bool *out_again);
// Takes a pod out of the table and out of the runtime; `*out_was`: it was in.
LS_MUST_USE ls_status ls_pod_stop(ls_pod *pod, bool *out_was);

#endif  // LS_TPU_SYSTEM_SYSTEM_H_
