// SPDX-License-Identifier: Apache-2.0
//
// Reduction of large angles, for which a number times 2 / pi needs more bits of
// 2 / pi than a few doubles hold.
#ifndef LS_ENGINE_CPU_ELEMENTARY_LARGE_ANGLE_H_
#define LS_ENGINE_CPU_ELEMENTARY_LARGE_ANGLE_H_

#include <stdint.h>

// Splits x into quarter * pi / 2 + r with |r| <= pi / 4, of which the low two
// bits of the quarter count. Returns r, which `*out_low` adds to. Exact integer
// work and a product of pairs, so every machine gives the same bits. For |x| >=
// 2^20; an infinity gives NaN.
double ls_turn_reduce(double x, double *out_low, uint64_t *out_quarter);

#endif  // LS_ENGINE_CPU_ELEMENTARY_LARGE_ANGLE_H_
