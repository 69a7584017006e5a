// SPDX-License-Identifier: Apache-2.0
//
// Reduction of large angles, where a float times 2 / pi needs more bits of 2 /
// pi than floats hold.
#ifndef LS_ENGINE_CPU_ELEMENTARY_LARGE_ANGLE_H_
#define LS_ENGINE_CPU_ELEMENTARY_LARGE_ANGLE_H_

#include <stdint.h>

// Splits x into quarter * pi / 2 + r with |r| <= pi / 4, where the quarter is
// modulo 4: 0, 1, 2 or 3. Exact integer work and one rounding of r, so every
// machine gives the same bits. For |x| >= 2^16; an infinity gives NaN.
float ls_turn_reduce(float x, float *out_quarter);

// Does so for a double with |x| >= 2^20: returns r, which `*out_low` adds to.
double ls_turn_reduce_f64(double x, double *out_low, uint64_t *out_quarter);

#endif  // LS_ENGINE_CPU_ELEMENTARY_LARGE_ANGLE_H_
