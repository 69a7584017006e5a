// SPDX-License-Identifier: Apache-2.0
// The launch of a replicated computation on the cores of a pod: the doors of
// compiling and of beginning a run.
#ifndef LS_TPU_LAUNCH_H_
#define LS_TPU_LAUNCH_H_

#include "engine/launch.h"
#include "lockstep/topology.h"

extern const ls_launch_type ls_tpu_launches;

// Says of metadata for which job's system it is, where that is not the local
// one.
#define LS_MARK_JOB "_tpu_job"
// The job of the system that an assignment is of; without one (NULL) of the one
// that feeds mean. "" is the local one; lent by the pod.
const char *ls_launch_job(ls_runtime *runtime,
                          const ls_device_assignment *assignment);

#endif  // LS_TPU_LAUNCH_H_
