// SPDX-License-Identifier: Apache-2.0
//
// Every op on the devices of a plug-in: the conformance cases against the
// reference, and random numbers against the CPU engine's bits. An op of the
// table that may stand in a lowered program has a case that runs, or a row in
// the table below with the reason why there is none.
#include <stdio.h>

#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/op_case.h"
#include "support/plugin.h"
#include "support/values.h"

enum { ROUNDS = 1, MOST_RESULTS = 16, MOST_TEXT = 200 };

// ---- Ops without a case that runs ------------------------------------------
typedef struct reason {
  uint16_t op;
  const char *why;
} reason;

static const char drawn[] = "random_numbers_are_those_of_the_cpu below";
static const char held[] = "it is the module itself: tests/pjrt";

static const reason reasons[] = {
    {LS_OP_RANDOM_UNIFORM, drawn},
    {LS_OP_RANDOM_NORMAL, drawn},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, drawn},
    {LS_OP_RANDOM_BITS, drawn},
    {LS_OP_RANDOM_PERMUTATION, drawn},
    {LS_OP_RANDOM_BY_EXAMPLE, drawn},
    {LS_OP_REPLICATE, held},
    {LS_OP_HOST, "refused: a program on a device calls no host function"},
};

static const char *reason_of(uint16_t op) {
  for (size_t i = 0; i < LS_COUNT_OF(reasons); ++i)
    if (reasons[i].op == op) return reasons[i].why;
  return NULL;
}

// Whether the op may stand in a program that a back end is given.
static bool is_lowered(uint16_t op) {
  return op < LS_OP_COUNT && strcmp(ls_op_table[op].name, "") != 0 &&
         (ls_op_table[op].traits & LS_OP_BUILD_ONLY) == 0;
}

static bool any_row(const op_case *row) {
  (void)row;
  return true;
}

TEST(every_op_has_a_case_or_a_reason) {
  int missing = 0;
  for (uint16_t op = LS_OP_NONE + 1; op < LS_OP_COUNT; ++op) {
    if (!is_lowered(op) || any_case(op, any_row) || reason_of(op) != NULL)
      continue;
    print_error("op %s has neither a case nor a reason\n",
                ls_op_table[op].name);
    ++missing;
  }
  assert_int_equal(missing, 0);
}

// ---- Cases -----------------------------------------------------------------
static ls_nest trace(ls_nest args, void *user) {
  ls_tensor xs[TRIAL_OPERANDS];
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    xs[i] = ls_nest_tensor(args, i);
  return trial_make(user, xs);
}

static ls_nest operands_of(const trial *t) {
  ls_nest leaves[TRIAL_OPERANDS];
  for (size_t i = 0; i < t->count; ++i)
    leaves[i] = ls_nest_array(ls_array_retain(t->operand[i]));
  return ls_nest_sequence(LS_KIND_LIST, leaves, t->count);
}

static void expect_results(const trial *t, ls_nest results,
                           const ref_tensor *want) {
  // A plug-in's functions and orders of sums are its own. It rounds a product
  // of 16-bit floats before the bias is added; f16 has 13 bits fewer than f32,
  // bf16 16.
  double slack = 4 * (t->row->slack == 0 ? 1 : t->row->slack);
  if (t->row->op == LS_OP_DENSE || t->row->op == LS_OP_CONV_BIAS_ACT)
    slack *= t->dtype == LS_DTYPE_F16    ? 0x1p13
             : t->dtype == LS_DTYPE_BF16 ? 0x1p16
                                         : 1;
  ls_nest leaves[MOST_RESULTS];
  const size_t count = ls_nest_flatten(results, leaves, MOST_RESULTS);
  for (size_t i = 0; i < count; ++i) {
    char what[MOST_TEXT];
    snprintf(what, sizeof(what), "%s of %s, result %zu",
             ls_op_table[t->row->op].name, ls_dtype_name(t->dtype), i);
    LS_OWN(ls_array, array) = NULL;
    if (leaves[i].kind == LS_KIND_TENSOR)
      expect_ok(ls_tensor_value(leaves[i].as.tensor, &array));
    else
      array = ls_array_retain(ls_nest_as_array(leaves[i]));
    ref_expect(what, &want[i], ls_array_data(array), slack);
  }
}

static void check_trial(trial *t) {
  const char *name = ls_op_table[t->row->op].name;
  LS_OWN(ls_array, before) = NULL;
  if (t->variable != NULL) expect_ok(ls_variable_value(t->variable, &before));
  LS_OWN(ls_function, function) = unnamed_function(trace, t);
  LS_OWN(ls_nest, operands) = operands_of(t);
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_status, status) = ls_function_call(function, operands, &results);
  if (!ls_status_is_ok(status))
    fail_msg("%s of %s: %s; seed %llu", name, ls_dtype_name(t->dtype),
             ls_status_message(status), (unsigned long long)loop_random_seed());
  ref_run *run = ref_run_create();
  ref_tensor arguments[TRIAL_OPERANDS], want[MOST_RESULTS];
  for (size_t i = 0; i < t->count; ++i)
    arguments[i] = ref_tensor_load(
        run,
        (ls_type){ls_array_dtype(t->operand[i]), ls_array_shape(t->operand[i])},
        ls_array_data(t->operand[i]));
  if (t->variable != NULL)
    ref_set_variable(run, t->variable,
                     ref_tensor_load(run,
                                     (ls_type){ls_array_dtype(before),
                                               ls_array_shape(before)},
                                     ls_array_data(before)));
  ref_evaluate_graph(run, ls_function_graph(function), arguments, want);
  expect_results(t, results, want);
  ref_run_destroy(run);
}

// Returns the dtypes of a row to try: all, or one of them.
static unsigned draw_dtypes(const op_case *row, loop_random *random) {
  if (plugin_tests_all()) return row->dtypes;
  unsigned rest = row->dtypes;
  int64_t skipped =
      loop_random_between(random, 0, __builtin_popcount(rest) - 1);
  for (; skipped > 0; --skipped)
    rest &= rest - 1;
  return rest & -rest;
}

static void check_row(void **state) {
  const op_case *row = *state;
  LS_OWN(open_place, here) = plugin_runtime(1);
  loop_random random = {loop_random_seed() + row->op};
  const unsigned dtypes = draw_dtypes(row, &random);
  for (ls_dtype dtype = LS_DTYPE_F64; dtype <= LS_DTYPE_BOOL; ++dtype)
    for (int round = 0; round < ROUNDS && (dtypes >> dtype & 1U) != 0;
         ++round) {
      trial t;
      trial_init(&t, row, dtype, round, &random);
      check_trial(&t);
      trial_deinit(&t);
    }
}

// ---- Random numbers --------------------------------------------------------
// Draws floats of one type; `ids` are those of examples.
static ls_nest draw_floats(ls_dtype dtype, ls_tensor ids) {
  const ls_random_options options = {.seed = 5};
  const ls_random_options by_example = {.example_ids = ids};
  const ls_shape rows = LS_SHAPE(4, 3, 7);
  return LS_TUPLE(
      ls_leaf(ls_random_uniform(dtype, LS_SHAPE(1003), -0.3, 1.7, &options)),
      ls_leaf(ls_random_uniform(dtype, rows, 0, 1, &by_example)),
      ls_leaf(ls_random_normal(dtype, LS_SHAPE(1003), 0.25, 1.5, &options)),
      ls_leaf(ls_random_normal(dtype, rows, 0, 1, &by_example)),
      ls_leaf(
          ls_random_truncated_normal(dtype, LS_SHAPE(2003), 0.1, 1, &options)),
      ls_leaf(ls_random_truncated_normal(dtype, rows, 0, 0.7, &by_example)));
}

// A function without arguments would draw on the CPU.
static ls_nest draw(ls_nest args, void *user) {
  const ls_random_options options = {0};
  const ls_tensor ids = ls_nest_tensor(args, 0);
  (void)user;
  return LS_TUPLE(
      draw_floats(LS_DTYPE_F32, ids), draw_floats(LS_DTYPE_F64, ids),
      ls_leaf(ls_random_uniform(LS_DTYPE_BF16, LS_SHAPE(999), -2, 1, &options)),
      ls_leaf(ls_random_normal(LS_DTYPE_F16, LS_SHAPE(999), 1, 2, &options)),
      ls_leaf(ls_random_unsigned(LS_DTYPE_U32, LS_SHAPE(5, 3), &options)),
      ls_leaf(ls_random_unsigned(LS_DTYPE_U64, LS_SHAPE(7), &options)),
      ls_leaf(ls_random_permutation(LS_DTYPE_I64, 301, &options)),
      ls_leaf(ls_random_permutation(LS_DTYPE_I32, 1, &options)));
}

enum { MOST_DRAWN = 32, CALLS = 2 };

// Calls the function on the current runtime; gives the arrays of all calls.
static size_t draw_here(ls_array **out) {
  LS_OWN(ls_function, function) = function_of(draw, NULL);
  size_t count = 0;
  for (int call = 0; call < CALLS; ++call) {
    static const int64_t ids[] = {3, 0, -7, INT64_MAX};
    ls_array *array = NULL;
    expect_ok(ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE(4), ids, &array));
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(array));
    LS_OWN(ls_nest, results) = call_results(function, args);
    ls_nest leaves[MOST_DRAWN];
    const size_t drawn_now = ls_nest_flatten(results, leaves, MOST_DRAWN);
    for (size_t i = 0; i < drawn_now; ++i)
      out[count++] = ls_array_retain(ls_nest_as_array(leaves[i]));
  }
  return count;
}

static void expect_same_array(const ls_array *want, const ls_array *got,
                              size_t index) {
  const size_t size = ls_dtype_size(ls_array_dtype(want));
  const char *a = ls_array_data(want), *b = ls_array_data(got);
  assert_int_equal(ls_array_size(want), ls_array_size(got));
  for (int64_t i = 0; i < ls_array_num_elements(want); ++i)
    if (memcmp(a + (size_t)i * size, b + (size_t)i * size, size) != 0)
      fail_msg("result %zu, %s: element %lld is %.17g, wanted %.17g", index,
               ls_dtype_name(ls_array_dtype(want)), (long long)i,
               ls_array_f64(got, i), ls_array_f64(want, i));
}

TEST(random_numbers_are_those_of_the_cpu) {
  ls_array *want[CALLS * MOST_DRAWN], *got[CALLS * MOST_DRAWN];
  size_t count = 0;
  {
    LS_OWN(open_place, here) = plugin_runtime(1);
    count = draw_here(got);
  }
  {
    LS_OWN(open_place, here) =
        runtime_begin((ls_runtime_options){.threads = 1});
    assert_int_equal(draw_here(want), count);
  }
  for (size_t i = 0; i < count; ++i)
    expect_same_array(want[i], got[i], i);
  for (size_t i = 0; i < count; ++i) {
    ls_array_release(want[i]);
    ls_array_release(got[i]);
  }
}

static int run_rows(const unit_tests *tests) {
  return op_case_tests_run(tests, NULL, check_row,
                           "gives on a plug-in what the reference gives");
}
TEST_FILE(.run = run_rows)
