// SPDX-License-Identifier: Apache-2.0
// Layer: engine
//
// Devices: the CPU's kernels.
//
// Threads: any thread may call this at any time.
#ifndef LOCKSTEP_DEVICE_H_
#define LOCKSTEP_DEVICE_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the instruction set of the CPU kernels under this runtime: "base"
// (any machine), "v3" (AVX2 and FMA) or "v4" (AVX-512). All give the same bits.
// Static text.
LS_API LS_MUST_USE ls_status ls_device_kernels(ls_runtime *runtime,
                                               const char **out_name);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DEVICE_H_
