// SPDX-License-Identifier: Apache-2.0
//
// A reference model against what JAX makes of the same numbers: see
// tools/make-goldens.py, which writes the golden files and says what is in
// them.
#ifndef LS_TESTS_SUPPORT_GOLDEN_H_
#define LS_TESTS_SUPPORT_GOLDEN_H_

#include <stdbool.h>

#include "lockstep/shape.h"

// How near the model must stay: errors relative to the loss or, of a variable,
// to its norm.
typedef struct golden_limits {
  ls_dtype dtype;
  double first;  // Of the losses of the first 3 steps.
  // Of all 20 losses and of the variables behind them. 0: no limit but that
  // the loss falls.
  double all;
} golden_limits;

// Takes the steps of the golden file at `path` with the model of this name, and
// prints by how much it was off at most. Where a sanitizer makes it slow, 3
// steps only.
void expect_golden(const char *model, const char *path,
                   const golden_limits *limits);

#endif  // LS_TESTS_SUPPORT_GOLDEN_H_
