// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on constants is done while lowering; it gives what running gives.
// Single elements become scalars.
#include <math.h>
#include <string.h>

#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/values.h"

enum { NUM_NUMBERS = 7 };
static const double numbers[NUM_NUMBERS] = {-1, 0, 0.1, 1, 3, -0.0, 1e-310};
static const double integers[NUM_NUMBERS] = {-1, 0, 1, 3, -7, 1LL << 40, 2};

static const struct {
  const char *name;
  ls_tensor (*make)(ls_tensor x, ls_tensor y);
  bool compares;
} ops[] = {
    {"add", ls_add, false},        {"sub", ls_sub, false},
    {"mul", ls_mul, false},        {"div", ls_div, false},
    {"equal", ls_equal, true},     {"not_equal", ls_not_equal, true},
    {"less", ls_less, true},       {"less_equal", ls_less_equal, true},
    {"greater", ls_greater, true}, {"greater_equal", ls_greater_equal, true}};
enum { NUM_OPS = sizeof(ops) / sizeof(ops[0]) };

typedef struct all_ops {
  ls_dtype dtype;
  bool constant;
} all_ops;

static double number(ls_dtype dtype, size_t i) {
  return dtype == LS_DTYPE_I64 ? integers[i] : numbers[i];
}

static bool is_there(ls_dtype dtype, size_t op) {
  return dtype != LS_DTYPE_I64 || ops[op].compares;
}

// Each op of each two numbers, which are constants or arguments.
static ls_nest results_of(ls_nest args, void *user) {
  const all_ops *a = user;
  ls_nest items[NUM_NUMBERS * NUM_NUMBERS * NUM_OPS];
  ls_tensor xs[NUM_NUMBERS];
  size_t count = 0;
  for (size_t i = 0; i < NUM_NUMBERS; ++i)
    xs[i] = a->constant ? ls_scalar(a->dtype, number(a->dtype, i))
                        : ls_nest_tensor(args, i);
  for (size_t op = 0; op < NUM_OPS; ++op)
    for (size_t i = 0; i < NUM_NUMBERS * NUM_NUMBERS; ++i)
      if (is_there(a->dtype, op))
        items[count++] =
            ls_leaf(ops[op].make(xs[i / NUM_NUMBERS], xs[i % NUM_NUMBERS]));
  return ls_nest_sequence(LS_KIND_LIST, items, count);
}

static bool is_same(const ls_array *a, const ls_array *b) {
  return (isnan(ls_array_f64(a, 0)) && isnan(ls_array_f64(b, 0))) ||
         memcmp(ls_array_data(a), ls_array_data(b), ls_array_size(a)) == 0;
}

TEST(constants_give_what_arguments_give) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_I64};
  for (size_t d = 0; d < 3; ++d) {
    all_ops folded = {dtypes[d], true}, run = {dtypes[d], false};
    ls_nest items[NUM_NUMBERS];
    for (size_t i = 0; i < NUM_NUMBERS; ++i) {
      const double x = number(dtypes[d], i);
      items[i] = ls_nest_array(array_of(dtypes[d], LS_SCALAR, &x));
    }
    LS_OWN(ls_nest, args) = ls_nest_sequence(LS_KIND_LIST, items, NUM_NUMBERS);
    LS_OWN(ls_nest, got) = call_on(1, results_of, &folded, ls_none(), 1);
    LS_OWN(ls_nest, wanted) = call_on(1, results_of, &run, args, 1);
    size_t at = 0;
    for (size_t op = 0; op < NUM_OPS; ++op)
      for (size_t i = 0; i < NUM_NUMBERS * NUM_NUMBERS; ++i) {
        if (!is_there(dtypes[d], op)) continue;
        const ls_array *have = ls_nest_as_array(ls_nest_item(got, at));
        const ls_array *want = ls_nest_as_array(ls_nest_item(wanted, at++));
        if (!is_same(have, want))
          fail_msg("%s of %g and %g as %s is %g, wanted %g", ops[op].name,
                   number(dtypes[d], i / NUM_NUMBERS),
                   number(dtypes[d], i % NUM_NUMBERS), ls_dtype_name(dtypes[d]),
                   ls_array_f64(have, 0), ls_array_f64(want, 0));
      }
  }
}

// x, chosen by numbers that are known.
static ls_nest chosen(ls_nest args, void *user) {
  const bool *first = user;
  const ls_tensor x = ls_nest_tensor(args, 0), one = ls_scalar(LS_DTYPE_F32, 1);
  const ls_tensor holds =
      ls_greater(*first ? ls_add(one, one) : one, ls_mul_scalar(one, 1.5));
  return ls_leaf(*first ? ls_select(holds, x, ls_exp(x))
                        : ls_select(holds, ls_exp(x), x));
}

TEST(a_choice_that_is_known_is_made) {
  for (int first = 0; first < 2; ++first) {
    bool user = first == 1;
    LS_OWN(printed, text) = NULL;
    LS_OWN(ls_nest, args) = LS_TUPLE(
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){3, 5})));
    LS_OWN(ls_function, function) = unnamed_function(chosen, &user);
    LS_OWN(ls_nest, made) = call_results(function, args);
    assert_true(ls_array_f64(ls_nest_as_array(made), 1) == 5);
    expect_ok(ls_function_print_lowered(function, &text));
    assert_null(strstr(text, "select"));
    assert_null(strstr(text, "exp"));
  }
}

// Sums of x and single elements of ranks 0 to 3, of which one has x's shape.
static ls_nest sums_of(ls_nest args, void *user) {
  (void)user;
  ls_tensor sum = ls_nest_tensor(args, 0);
  for (size_t i = 1; i < 4; ++i)
    sum = ls_add(ls_nest_tensor(args, i), sum);
  return ls_leaf(ls_sub(sum, ls_nest_tensor(args, 3)));
}

TEST(single_elements_are_scalars_of_elementwise_ops) {
  for (int64_t columns = 0; columns < 4; ++columns) {
    const double row[] = {1, 2, 3}, number = 5;
    LS_OWN(printed, text) = NULL;
    LS_OWN(ls_nest, args) = LS_TUPLE(
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1, columns), row)),
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &number)),
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1), &number)),
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1, 1), &number)));
    LS_OWN(ls_function, function) = unnamed_function(sums_of, NULL);
    LS_OWN(ls_nest, made) = call_results(function, args);
    const ls_array *sums = ls_nest_as_array(made);
    assert_true(ls_shape_equal(ls_array_shape(sums), LS_SHAPE(1, columns)));
    for (int64_t i = 0; i < columns; ++i)
      assert_true(ls_array_f64(sums, i) == row[i] + 10);
    expect_ok(ls_function_print_lowered(function, &text));
    assert_int_equal(strstr(text, "broadcast") == NULL, columns != 1);
  }
}
