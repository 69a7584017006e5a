// SPDX-License-Identifier: Apache-2.0
//
// Maxima of windows of 2 by 2, and their positions.
#ifndef LS_ENGINE_CPU_CONV_POOL_H_
#define LS_ENGINE_CPU_CONV_POOL_H_

#include "engine/cpu/kernels/kernel.h"

// Numbers of channels must be multiples of this.
enum { LS_POOL_CHANNELS = 16 };

// Returns UNIMPLEMENTED unless the number of channels is a multiple.
ls_status ls_pool_check(const ls_kernel_plan *plan, int64_t channels);

// Computes `count` lines of windows from 2 * count lines of `width` pixels at
// x.
void ls_pool_lines(const ls_cpu_windows *rows, const float *x, int64_t width,
                   int64_t channels, int64_t count, float *max,
                   uint8_t *places);

#endif  // LS_ENGINE_CPU_CONV_POOL_H_
