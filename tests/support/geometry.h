// SPDX-License-Identifier: Apache-2.0
//
// Where windows lie: drawn for a case, and as an op's attributes say it.
#ifndef LS_TESTS_SUPPORT_GEOMETRY_H_
#define LS_TESTS_SUPPORT_GEOMETRY_H_

#include "support/op_case.h"

// ---- Drawing ---------------------------------------------------------------
// What the lists of a trial hold, a number for each spatial dimension.
enum { STRIDES, DILATIONS, SPREADS, LOW, HIGH, TAPS };

// How windows are drawn: over elements that are apart, and so that each sees at
// least one element.
typedef enum manner { ANY, SPREAD, SEEING } manner;

// Draws where windows lie; gives the input's spatial sizes, and the result's.
ls_shape draw_geometry(trial *t, manner how, ls_shape *outputs);
// [first, spatial..., last].
ls_shape around(int64_t first, ls_shape spatial, int64_t last);

// ---- Reading ---------------------------------------------------------------
// Where windows lie along each spatial dimension: output o sees with tap k
// place o stride + k dilation - low of the input, whose elements are `spread`
// apart.
typedef struct geometry {
  int32_t rank;
  ls_shape places, taps, outputs;
  int64_t stride[3], dilation[3], spread[3], low[3];
} geometry;

// Without the first and the last of `shape`, or the last two: from `first` on.
ls_shape spatial(ls_shape shape, int32_t first);
geometry geometry_of(const ref_op *op, ls_shape x, ls_shape y, ls_shape taps);
// The place that output `o` sees with tap `k`; -1: none, padding.
int64_t seen(const geometry *g, int64_t o, int64_t k);

#endif  // LS_TESTS_SUPPORT_GEOMETRY_H_
