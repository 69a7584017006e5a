// SPDX-License-Identifier: Apache-2.0
// The launch of a replicated computation on the cores of a pod: the doors of
// compiling and of beginning a run.
#ifndef LS_TPU_POD_LAUNCH_H_
#define LS_TPU_POD_LAUNCH_H_

#include "engine/backend.h"

extern const ls_launch_type ls_tpu_launches;

#endif  // LS_TPU_POD_LAUNCH_H_
