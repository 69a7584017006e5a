// SPDX-License-Identifier: Apache-2.0
//
// The CPU engine as a row of engine/backends.c.
#ifndef LS_ENGINE_CPU_CPU_H_
#define LS_ENGINE_CPU_CPU_H_

#include "engine/backend.h"

// Creates the back end of a runtime.
ls_status ls_cpu_backend_create(ls_runtime *runtime, ls_backend **out_backend);
ls_status ls_cpu_backend_destroy(void *backend);

#endif  // LS_ENGINE_CPU_CPU_H_
