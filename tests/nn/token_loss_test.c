// SPDX-License-Identifier: Apache-2.0
// Losses and metrics of many tokens an example: logits [batch, tokens, classes]
// and labels [batch, tokens] are as batch tokens rows.
#include "support/expect.h"

#include <math.h>

#include "base/memory/own.h"
#include "lockstep/gradients.h"
#include "lockstep/losses.h"
#include "support/values.h"

enum { BATCH = 2, TOKENS = 128, CLASSES = 256, ROWS = BATCH * TOKENS };

// The loss, its gradient, and the metrics.
static ls_nest measure(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  const ls_nest loss = ls_leaf(ls_mean_softmax_cross_entropy(x, y));
  const ls_nest from = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&loss, 1, &from, 1, NULL, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_TUPLE(loss, gradient, ls_leaf(ls_accuracy(x, y)),
                  ls_leaf(ls_count_correct(x, y)),
                  ls_leaf(ls_top_k_accuracy(x, y, 3)));
}

// Logits, and the label of every third row is its largest.
static ls_nest make_args(ls_shape logits, ls_shape labels) {
  ls_array *x = array_of_numbers(LS_DTYPE_F64, logits, 3);
  ls_array *y = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, labels, &y));
  for (int64_t r = 0; r < ROWS; ++r) {
    ls_array_set_i64(y, r, 7 * r % CLASSES);
    if (r % 3 == 0) ls_array_set_f64(x, r * CLASSES + 7 * r % CLASSES, 2);
  }
  return LS_TUPLE(ls_nest_array(x), ls_nest_array(y));
}

static const ls_array *item(ls_nest nest, size_t index) {
  return ls_nest_as_array(ls_nest_item(nest, index));
}

TEST(tokens_of_examples_count_as_rows_do) {
  LS_OWN(ls_nest, apart) =
      make_args(LS_SHAPE(BATCH, TOKENS, CLASSES), LS_SHAPE(BATCH, TOKENS));
  LS_OWN(ls_nest, flat) = make_args(LS_SHAPE(ROWS, CLASSES), LS_SHAPE(ROWS));
  LS_OWN(ls_nest, got) = call_on(1, measure, NULL, apart, 1);
  LS_OWN(ls_nest, want) = call_on(1, measure, NULL, flat, 1);
  for (size_t i = 0; i < 5; ++i) {
    const int64_t count = ls_array_num_elements(item(want, i));
    assert_int_equal(ls_array_num_elements(item(got, i)), count);
    for (int64_t k = 0; k < count; ++k)
      assert_true(ls_array_f64(item(got, i), k) ==
                  ls_array_f64(item(want, i), k));
  }
  assert_true(ls_shape_equal(ls_array_shape(item(got, 1)),
                             LS_SHAPE(BATCH, TOKENS, CLASSES)));
}

TEST(the_numbers_are_those_of_plain_c) {
  LS_OWN(ls_nest, args) =
      make_args(LS_SHAPE(BATCH, TOKENS, CLASSES), LS_SHAPE(BATCH, TOKENS));
  const ls_array *x = item(args, 0), *y = item(args, 1);
  double loss = 0;
  int64_t correct = 0;
  for (int64_t r = 0; r < ROWS; ++r) {
    double sum = 0;
    int64_t best = 0;
    for (int64_t c = 0; c < CLASSES; ++c) {
      const double value = ls_array_f64(x, r * CLASSES + c);
      sum += exp(value);
      if (value > ls_array_f64(x, r * CLASSES + best)) best = c;
    }
    const int64_t label = ls_array_i64(y, r);
    loss += log(sum) - ls_array_f64(x, r * CLASSES + label);
    correct += best == label;
  }
  assert_true(correct >= ROWS / 3);
  LS_OWN(ls_nest, got) = call_on(1, measure, NULL, args, 1);
  assert_true(fabs(ls_array_f64(item(got, 0), 0) - loss / ROWS) < 1e-12);
  assert_true(fabs(ls_array_f64(item(got, 2), 0) - (double)correct / ROWS) <
              1e-6);
  assert_true(ls_array_f64(item(got, 3), 0) == (double)correct);
}
