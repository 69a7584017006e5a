// SPDX-License-Identifier: Apache-2.0
//
// Sums of pads that lie side by side, the gradients of slices: one array of
// their operands, with the bits of the sum.
#include <math.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

enum { ROWS = 3, COLUMNS = 7 };

typedef struct cut_case {
  int32_t axis;
  int64_t begins[4], ends[4];  // Of slices; an end of 0: no more.
  bool joins;
} cut_case;

// Returns the gradient for x of slices whose own gradients are those of w.
static ls_nest gradient_of_slices(ls_nest args, void *user) {
  const cut_case *self = user;
  const ls_tensor x = ls_nest_tensor(args, 0), w = ls_nest_tensor(args, 1);
  ls_nest parts[4], weights[4], dx = {0};
  size_t count = 0;
  for (; count < 4 && self->ends[count] > 0; ++count) {
    const int64_t begin = self->begins[count], end = self->ends[count];
    parts[count] = ls_leaf(ls_slice_axis(x, self->axis, begin, end));
    weights[count] = ls_leaf(ls_slice_axis(w, self->axis, begin, end));
  }
  const ls_nest wrt = ls_leaf(x);
  expect_ok(ls_gradients(
      parts, count, &wrt, 1,
      &(ls_gradient_options){.grad_ys = weights, .num_grad_ys = count}, &dx));
  return ls_leaf(dx.as.tensor);
}

TEST(gradients_of_slices_that_divide_an_array_are_joined) {
  static const cut_case cases[] = {
      {.axis = 1, .begins = {0, 2}, .ends = {2, 7}, .joins = true},
      {.axis = 1, .begins = {5, 0, 2}, .ends = {7, 2, 5}, .joins = true},
      {.axis = 0, .begins = {2, 0, 1}, .ends = {3, 1, 2}, .joins = true},
      {.axis = 1, .begins = {0, 3}, .ends = {2, 7}},        // A gap,
      {.axis = 1, .begins = {0, 1}, .ends = {2, 7}},        // an overlap,
      {.axis = 1, .begins = {0, 2}, .ends = {2, 6}},        // an end,
      {.axis = 1, .begins = {0, 2, 2}, .ends = {2, 7, 7}},  // a part twice.
  };
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_BF16};
  for (size_t i = 0; i < LS_COUNT_OF(cases) * LS_COUNT_OF(dtypes); ++i) {
    const cut_case *c = &cases[i / LS_COUNT_OF(dtypes)];
    const ls_dtype dtype = dtypes[i % LS_COUNT_OF(dtypes)];
    const ls_shape shape = LS_SHAPE(ROWS, COLUMNS);
    LS_OWN(ls_array, w) = array_of_numbers(dtype, shape, 5);
    for (int64_t k = 0; k < ROWS * COLUMNS; k += 4)
      ls_array_set_f64(w, k, -0.0);
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_array(array_of_numbers(dtype, shape, 3)),
                 ls_nest_array(ls_array_retain(w)));
    LS_OWN(ls_function, function) =
        unnamed_function(gradient_of_slices, (void *)(uintptr_t)c);
    LS_OWN(ls_nest, dx) = call_results(function, args);
    char *text = NULL;
    expect_ok(ls_function_print_lowered(function, &text));
    assert_int_equal(strstr(text, " pad(") == NULL, c->joins);
    ls_text_release(text);
    for (int64_t k = 0; k < ROWS * COLUMNS; ++k) {
      const int64_t at = c->axis == 0 ? k / COLUMNS : k % COLUMNS;
      double want = -0.0;
      for (int part = 0; part < 4 && c->ends[part] > 0; ++part)
        want += at >= c->begins[part] && at < c->ends[part] ? ls_array_f64(w, k)
                                                            : 0;
      const double got = ls_array_f64(ls_nest_as_array(dx), k);
      assert_true(got == want && signbit(got) == signbit(want));
    }
  }
}
