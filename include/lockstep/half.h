// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Conversions between floats of 16 bits and f32.
//
// Threads: any number of threads may call these at the same time.
#ifndef LOCKSTEP_HALF_H_
#define LOCKSTEP_HALF_H_

#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Convert f16 and bf16, as bits, rounded to nearest even.
LS_API uint16_t ls_f16_from_f32(float value);
LS_API float ls_f16_to_f32(uint16_t bits);
LS_API uint16_t ls_bf16_from_f32(float value);
LS_API float ls_bf16_to_f32(uint16_t bits);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_HALF_H_
