// SPDX-License-Identifier: Apache-2.0
//
// Sums of products joined into one op: the same bits as of separate products,
// and no memory for these.
#include <stdlib.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/place.h"
#include "support/values.h"

enum { MOST_PRODUCTS = 24 };

typedef struct sum_case {
  ls_dtype dtype;
  int count;
  int64_t rows, left, right;
  bool is_mixed;     // One operand of the sum is no product.
  bool keeps_parts;  // The products are results, too.
} sum_case;

// Arguments: left and right factors of each product; of `rows`, or one more.
static ls_nest add_products_of(ls_nest args, void *user) {
  const sum_case *self = user;
  ls_tensor products[MOST_PRODUCTS];
  ls_nest results[MOST_PRODUCTS + 1];
  for (int i = 0; i < self->count; ++i) {
    products[i] =
        ls_matmul_transposed(ls_nest_tensor(args, 2 * (size_t)i), true,
                             ls_nest_tensor(args, 2 * (size_t)i + 1), false);
    if (self->is_mixed && i == 1) products[i] = ls_neg(products[i]);
    results[i + 1] = ls_leaf(products[i]);
  }
  results[0] = ls_leaf(ls_add_n(products, (size_t)self->count));
  return ls_nest_sequence(LS_KIND_LIST, results,
                          self->keeps_parts ? 1 + (size_t)self->count : 1);
}

typedef struct outcome {
  ls_nest values;
  char *text;
} outcome;

static void outcome_deinit(outcome *out) {
  ls_nest_release(out->values);
  ls_text_release(out->text);
}
LS_OWNED_STRUCT(outcome, outcome_deinit)

static outcome run_case(const sum_case *self) {
  ls_nest factors[2 * MOST_PRODUCTS];
  for (int i = 0; i < 2 * self->count; ++i)
    factors[i] = ls_nest_array(array_of_numbers(
        self->dtype,
        LS_SHAPE(self->rows + i / 2 % 2, i % 2 == 0 ? self->left : self->right),
        (uint32_t)i));
  LS_OWN(ls_nest, args) =
      ls_nest_sequence(LS_KIND_LIST, factors, 2 * (size_t)self->count);
  LS_OWN(ls_function, function) =
      unnamed_function(add_products_of, (void *)(uintptr_t)self);
  outcome out = {0};
  expect_ok(ls_function_call(function, args, &out.values));
  expect_ok(ls_function_print_lowered(function, &out.text));
  return out;
}

static bool is_joined(const outcome *out) {
  return strstr(out->text, " add_products(") != NULL;
}

TEST(joined_products_have_the_bits_of_separate_ones) {
  static const sum_case cases[] = {
      {LS_DTYPE_F32, .count = 24, .rows = 1, .left = 70, .right = 300},
      {LS_DTYPE_F32, .count = 2, .rows = 2, .left = 7, .right = 9},
      {LS_DTYPE_F32, .count = 7, .rows = 40, .left = 150, .right = 117},
      {LS_DTYPE_F64, .count = 5, .rows = 3, .left = 33, .right = 40},
      {LS_DTYPE_F32, .count = 3, .rows = 0, .left = 5, .right = 6},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    sum_case separate = cases[i];
    separate.keeps_parts = true;
    LS_OWN(outcome, a) = run_case(&cases[i]);
    LS_OWN(outcome, b) = run_case(&separate);
    assert_true(is_joined(&a));
    assert_false(is_joined(&b));
    assert_null(strstr(a.text, " matmul("));
    const ls_array *x = ls_nest_as_array(ls_nest_item(a.values, 0));
    const ls_array *y = ls_nest_as_array(ls_nest_item(b.values, 0));
    assert_int_equal(ls_array_size(x), ls_array_size(y));
    assert_memory_equal(ls_array_data(x), ls_array_data(y), ls_array_size(x));
  }
}

TEST(other_sums_are_not_joined) {
  static const sum_case cases[] = {
      {LS_DTYPE_BF16, .count = 3, .rows = 2, .left = 5, .right = 6},
      {LS_DTYPE_F32, .count = 3, .rows = 2, .left = 5, .right = 6,
       .is_mixed = true},
      // Factors that are larger than the product would have to stay.
      {LS_DTYPE_F32, .count = 7, .rows = 40, .left = 150, .right = 17},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(outcome, out) = run_case(&cases[i]);
    assert_false(is_joined(&out));
  }
}
