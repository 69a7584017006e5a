// SPDX-License-Identifier: Apache-2.0
//
// The gradient of every op that has one against finite differences in f64,
// and the gradient of that, with operands and attributes drawn at random.
#include "lockstep/function.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/gradient_check.h"
#include "support/op_case.h"

enum { ROUNDS = 3, MOST_ROWS = 200, MOST_RESULTS = 16 };

// The trial's operands: the floats are given, the others are constants.
static void take_operands(const trial *t, const ls_tensor *given,
                          ls_tensor *xs) {
  for (size_t i = 0; i < t->count; ++i)
    xs[i] = ls_array_dtype(t->operand[i]) == LS_DTYPE_F64
                ? *given++
                : ls_constant(t->operand[i]);
}

// All results that are floats, as one vector. Squared, so that a gradient
// depends on what it is of.
static ls_tensor results_of(const ls_tensor *given, size_t count,
                            const void *user) {
  const trial *t = user;
  ls_tensor xs[TRIAL_OPERANDS], parts[MOST_RESULTS];
  ls_nest leaves[MOST_RESULTS];
  (void)count;
  take_operands(t, given, xs);
  LS_OWN(ls_nest, results) = trial_make(t, xs);
  const size_t total = ls_nest_flatten(results, leaves, MOST_RESULTS);
  size_t floats = 0;
  for (size_t i = 0; i < total; ++i)
    if (ls_tensor_dtype(leaves[i].as.tensor) == LS_DTYPE_F64)
      parts[floats++] = ls_reshape(leaves[i].as.tensor,
                                   LS_SHAPE(ls_shape_num_elements(
                                       ls_tensor_shape(leaves[i].as.tensor))));
  return ls_square(ls_concatenate(parts, floats, 0));
}

static void check_trial(const trial *t) {
  gradient_case check = {
      .name = ls_op_table[t->row->op].name,
      .function = results_of,
      .user = t,
      .low = t->row->from,
      .high = t->row->to,
  };
  for (size_t i = 0; i < t->count; ++i)
    if (ls_array_dtype(t->operand[i]) == LS_DTYPE_F64) {
      assert_true(check.count < CHECK_MAX_INPUTS);
      check.shapes[check.count++] = ls_array_shape(t->operand[i]);
    }
  expect_gradients(&check, t->row->gradient);
}

static bool has_gradient(const op_case *row) { return row->gradient > 0; }

static void check_row(void **state) {
  const op_case *row = *state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < ROUNDS; ++round) {
    trial t;
    // An even round: of ordinary numbers.
    trial_init(&t, row, LS_DTYPE_F64, 2 * round, &random);
    check_trial(&t);
    trial_deinit(&t);
  }
}

// ---- Conversions -----------------------------------------------------------
// Rounding hides differences as small as those that are taken above.
typedef struct pair {
  ls_dtype from, to;
} pair;

// The gradient of x, and what it should be: the weights in x's type.
static ls_nest convert_body(ls_nest args, void *user) {
  const pair *p = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor weights = ls_convert(ls_sin(x), p->to);
  const ls_nest y =
      ls_leaf(ls_mul(ls_convert(x, p->to), ls_stop_gradient(weights)));
  const ls_nest xs = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status =
      ls_gradients(&y, 1, &xs, 1,
                   &(ls_gradient_options){.unconnected_zero = true}, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor want = ls_dtype_is_float(p->to) ? ls_convert(weights, p->from)
                                                  : ls_mul_scalar(x, 0);
  return LS_TUPLE(gradient, ls_leaf(want));
}

static void check_pair(pair p) {
  ls_array *x = NULL;
  expect_ok(ls_array_create(p.from, LS_SHAPE(40), &x));
  for (int64_t i = 0; i < 40; ++i)
    ls_array_set_f64(x, i, (double)i / 8 - 2);
  LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(x));
  LS_OWN(ls_function, f) = unnamed_function(convert_body, &p);
  LS_OWN(ls_nest, results) = call_results(f, args);
  const ls_array *got = ls_nest_as_array(ls_nest_item(results, 0));
  const ls_array *want = ls_nest_as_array(ls_nest_item(results, 1));
  assert_true(ls_array_dtype(got) == p.from);
  for (int64_t i = 0; i < 40; ++i)
    if (ls_array_f64(got, i) != ls_array_f64(want, i))
      fail_msg("%s to %s: element %lld is %.9g, wanted %.9g",
               ls_dtype_name(p.from), ls_dtype_name(p.to), (long long)i,
               ls_array_f64(got, i), ls_array_f64(want, i));
}

TEST(conversions_pass_gradients_on_between_floats) {
  static const ls_dtype types[] = {LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16,
                                   LS_DTYPE_BF16, LS_DTYPE_I32};
  for (size_t i = 0; i < LS_COUNT_OF(types) - 1; ++i)
    for (size_t k = 0; k < LS_COUNT_OF(types); ++k)
      check_pair((pair){types[i], types[k]});
}

static int run_rows(const unit_tests *tests) {
  return op_case_tests_run(tests, has_gradient, check_row,
                           "has the gradient of finite differences");
}
TEST_FILE(.run = run_rows)
