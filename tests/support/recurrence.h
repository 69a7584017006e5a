// SPDX-License-Identifier: Apache-2.0
// A loop with weights, h = tanh(h w + b), for tests of what loops have.
#ifndef LS_TESTS_SUPPORT_RECURRENCE_H_
#define LS_TESTS_SUPPORT_RECURRENCE_H_

#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"

// Arrays of f64: first, first + step, ...; and a scalar.
ls_array *steps_array(ls_shape shape, double first, double step);
ls_array *scalar_array(ls_dtype dtype, double value);
// Expects two numbers to be equal but for rounding.
void expect_near(double have, double want);

// The weights, and the number of trips, an i32 scalar.
typedef struct recurrence {
  ls_tensor w, b, trips;
} recurrence;

// The last h, by a loop, and by that many steps without one.
ls_tensor recur(ls_tensor h, recurrence r);
ls_tensor unrolled(ls_tensor h, recurrence r, int trips);
// A loop's condition: (i, ...) with i below `trips` of a recurrence.
ls_nest is_below(ls_nest values, void *recurrence);
// The sum of squares.
ls_tensor loss_of(ls_tensor h);

// The callback of a function (h, w, b, trips) that gives the gradients of the
// loss with respect to the first three. `user`: NULL, or the number of trips
// (an int) for the unrolled loop.
ls_nest gradients_of_recurrence(ls_nest args, void *user);
// Arguments for it: h is [rows,3].
ls_nest recurrence_args(int64_t rows, int trips);

#endif  // LS_TESTS_SUPPORT_RECURRENCE_H_
