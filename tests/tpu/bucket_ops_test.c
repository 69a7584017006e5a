// SPDX-License-Identifier: Apache-2.0
//
// Buckets, op by op: which have a rule for rows that are padding, and the bits
// that they compute; and that the log names the others.
#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/flow.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "lockstep/runtime_settings.h"
#include "support/buckets.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

// ---- Ops ------------------------------------------------------------------
// Of x f32[n,4], y i32[n] and z f32[m,4]: a value, with a rule or without.
typedef struct body {
  const char *name;
  ls_tensor (*make)(ls_tensor x, ls_tensor y, ls_tensor z);
  const char *refused;  // What the log says; NULL: there is one program.
} body;

static ls_tensor sum(ls_tensor x) { return ls_reduce_sum(x, LS_ALL_AXES); }
#define BODY(name) static ls_tensor name(ls_tensor x, ls_tensor y, ls_tensor z)
#define UNUSED ((void)x, (void)y, (void)z)
BODY(chain) {
  UNUSED;
  return sum(ls_mul(ls_relu(ls_sub(x, f32_of(0.1))), ls_exp(x)));
}
BODY(garbage) {  // log 0 and 1 / 0 where there is padding.
  UNUSED;
  const ls_tensor squares = ls_square(x);
  return ls_add(sum(ls_log(squares)), sum(ls_div(f32_of(1), squares)));
}
BODY(mean_of_rows) {
  UNUSED;
  const ls_tensor mean = ls_reduce_mean(x, LS_AXES(0));
  return sum(
      ls_mul(mean, ls_reduce_mean(ls_square(ls_sub(x, mean)), LS_AXES(0))));
}
BODY(lines) {
  UNUSED;
  return ls_reduce_sum(ls_mul(ls_softmax(x), ls_log_softmax(x)), LS_AXES(0));
}
BODY(product_over_rows) {
  UNUSED;
  return ls_matmul_transposed(ls_div(f32_of(1), ls_square(x)), true, x, false);
}
BODY(product_of_rows) {
  UNUSED;
  return sum(ls_matmul_transposed(x, false, buckets_table(), true));
}
BODY(count) {
  UNUSED;
  return ls_mul(ls_convert(ls_dim_size(x, 0), LS_DTYPE_F32), sum(x));
}
BODY(bias) {
  UNUSED;
  return sum(ls_square(ls_add(x, ls_reduce_sum(buckets_table(), LS_AXES(0)))));
}
BODY(reshaped) {
  UNUSED;
  const ls_tensor parts = ls_reshape(x, LS_SHAPE(-1, 2, 2));
  return sum(ls_square(ls_reduce_sum(parts, LS_AXES(1))));
}
BODY(kept_maxima) {
  UNUSED;
  return ls_add(sum(ls_reduce_max(x, LS_AXES(1))),
                sum(ls_sub(x, ls_reduce_max_keep(x, LS_AXES(1)))));
}
BODY(looked_up) {
  UNUSED;
  return sum(ls_mul(ls_gather(buckets_table(), y, 0), x));
}
BODY(two_sizes) {
  UNUSED;
  return ls_add(sum(ls_exp(x)), ls_reduce_mean(ls_exp(z), LS_ALL_AXES));
}
// Numbers below 0 that are too small for the result: -0.
BODY(vanishing_sum) {
  UNUSED;
  const ls_tensor at = ls_iota_like(LS_DTYPE_F32, y, 0);
  const ls_tensor least = f32_of(2e-38);
  const ls_tensor rows =
      ls_select(ls_equal(at, f32_of(1)), f32_of(-1.5),
                ls_select(ls_equal(at, f32_of(0)), f32_of(1), f32_of(-0.0)));
  const ls_tensor column = ls_reshape(ls_mul(rows, least), LS_SHAPE(-1, 1));
  const ls_tensor all = ls_add(ls_mul(ls_abs(x), f32_of(-0.0)), column);
  return ls_div(f32_of(1), ls_reduce_sum(all, LS_AXES(0)));
}
BODY(vanishing_product) {
  UNUSED;
  const ls_tensor small = ls_add(ls_mul(x, f32_of(0)), f32_of(1e-30));
  return ls_div(f32_of(1),
                ls_matmul_transposed(small, true, ls_neg(small), false));
}
BODY(integers) {
  UNUSED;
  return ls_convert(sum(ls_add(y, ls_scalar(LS_DTYPE_I32, 7))), LS_DTYPE_F32);
}
BODY(halves) {
  UNUSED;
  return ls_convert(ls_reduce_mean(ls_convert(x, LS_DTYPE_BF16), LS_ALL_AXES),
                    LS_DTYPE_F32);
}
BODY(doubles) {
  UNUSED;
  return ls_convert(ls_reduce_mean(ls_convert(x, LS_DTYPE_F64), LS_AXES(0)),
                    LS_DTYPE_F32);
}
BODY(gradient) {
  UNUSED;
  const ls_tensor weights = buckets_table();
  const ls_nest loss = ls_leaf(ls_reduce_mean(
      ls_tanh(ls_matmul_transposed(x, false, weights, true)), LS_ALL_AXES));
  const ls_nest by = ls_leaf(weights);
  ls_nest made = ls_none();
  expect_ok(ls_gradients(&loss, 1, &by, 1, NULL, &made));
  return made.as.tensor;
}
BODY(over_replicas) {
  UNUSED;
  return ls_all_reduce(LS_REDUCE_SUM, ls_reduce_sum(x, LS_AXES(0)));
}
BODY(largest) {
  UNUSED;
  return ls_reduce_max(x, LS_ALL_AXES);
}
BODY(selected) {
  UNUSED;
  const ls_tensor even = ls_equal(y, ls_scalar(LS_DTYPE_I32, 0));
  return sum(ls_mul(
      ls_reduce_sum(ls_select(ls_less(x, f32_of(0)), x, f32_of(2)), LS_AXES(1)),
      ls_convert(even, LS_DTYPE_F32)));
}
BODY(normed) {
  UNUSED;
  const ls_tensor scale = ls_reduce_sum(buckets_table(), LS_AXES(0));
  return sum(ls_square(ls_layer_norm(x, scale, scale, 1e-3)));
}
BODY(convolved) {
  UNUSED;
  const ls_tensor weights = ls_reshape(buckets_table(), LS_SHAPE(2, 2, 1, 3));
  return sum(ls_square(
      ls_convolution(ls_reshape(x, LS_SHAPE(-1, 2, 2, 1)), weights, NULL)));
}
BODY(like) {
  UNUSED;
  const ls_tensor row = ls_reduce_sum(buckets_table(), LS_AXES(0));
  return ls_sum_to_like(ls_mul(ls_broadcast_like(row, x), x), row);
}
BODY(smallest) {
  UNUSED;
  return ls_reduce_min(ls_add(x, f32_of(5)), LS_AXES(0));
}
BODY(largest_of_integers) {
  UNUSED;
  return ls_convert(ls_reduce_max(y, LS_ALL_AXES), LS_DTYPE_F32);
}
BODY(gradient_of_largest) {
  UNUSED;
  const ls_tensor w = ls_reduce_sum(buckets_table(), LS_AXES(0));
  const ls_nest loss = ls_leaf(sum(ls_reduce_max(ls_mul(x, w), LS_AXES(0))));
  const ls_nest by = ls_leaf(w);
  ls_nest made = ls_none();
  expect_ok(ls_gradients(&loss, 1, &by, 1, NULL, &made));
  return made.as.tensor;
}
BODY(running) {
  UNUSED;
  return sum(ls_square(ls_cumsum(x, 0, false, false)));
}
BODY(turned) {
  UNUSED;
  return sum(ls_square(
      ls_matmul(buckets_table(), ls_transpose(x, (const int[]){1, 0}))));
}
BODY(rows) {
  UNUSED;
  return ls_mul(x, f32_of(2));
}
BODY(one_hot) {
  UNUSED;
  return sum(ls_mul(ls_one_hot(y, 4, LS_DTYPE_F32), x));
}
// The numbers of y, computed: -1 where there is padding.
static ls_tensor numbers_like(ls_tensor y, ls_tensor x) {
  const ls_tensor above =
      ls_less(f32_of(0), ls_reduce_sum(ls_square(x), LS_AXES(1)));
  return ls_sub(ls_add(y, ls_convert(above, LS_DTYPE_I32)),
                ls_scalar(LS_DTYPE_I32, 1));
}
BODY(computed_labels) {
  UNUSED;
  return sum(ls_softmax_cross_entropy(x, numbers_like(y, x)));
}
BODY(gradient_of_labels) {
  UNUSED;
  const ls_tensor w = ls_reduce_sum(buckets_table(), LS_AXES(0));
  const ls_nest loss = ls_leaf(ls_reduce_mean(
      ls_softmax_cross_entropy(ls_mul(x, w), numbers_like(y, x)), LS_AXES(0)));
  const ls_nest by = ls_leaf(w);
  ls_nest made = ls_none();
  expect_ok(ls_gradients(&loss, 1, &by, 1, NULL, &made));
  return made.as.tensor;
}
BODY(labels_of_lines) {
  UNUSED;
  const ls_tensor column = ls_reshape(numbers_like(y, x), LS_SHAPE(-1, 1));
  const ls_tensor labels =
      ls_minimum(column, ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 1));
  return sum(
      ls_softmax_cross_entropy(ls_reshape(x, LS_SHAPE(-1, 2, 2)), labels));
}
BODY(computed_indices) {
  UNUSED;
  return sum(ls_mul(ls_gather(buckets_table(), numbers_like(y, x), 0), x));
}
BODY(taken) {
  UNUSED;
  return sum(
      ls_take_along(x, ls_reshape(numbers_like(y, x), LS_SHAPE(-1, 1)), 1));
}
BODY(scattered) {
  UNUSED;
  return sum(ls_square(
      ls_scatter(LS_SCATTER_ADD, buckets_table(), numbers_like(y, x), x)));
}
static ls_nest twice(ls_nest args, void *user) {
  return ls_leaf(ls_mul(*(ls_tensor *)user, f32_of(args.kind == LS_KIND_NONE)));
}
BODY(branch) {
  UNUSED;
  const ls_nest made = ls_cond(ls_less(sum(x), f32_of(1e9)), twice, twice, &x);
  return sum(ls_nest_tensor(made, 0));
}
#undef UNUSED

static const body bodies[] = {
    {"chain", chain, NULL},
    {"garbage", garbage, NULL},
    {"mean of rows", mean_of_rows, NULL},
    {"lines", lines, NULL},
    {"product over rows", product_over_rows, NULL},
    {"product of rows", product_of_rows, NULL},
    {"count", count, NULL},
    {"bias", bias, NULL},
    {"reshaped", reshaped, NULL},
    {"kept maxima", kept_maxima, NULL},
    {"looked up", looked_up, NULL},
    {"two sizes", two_sizes, NULL},
    {"vanishing sum", vanishing_sum, NULL},
    {"vanishing product", vanishing_product, NULL},
    {"integers", integers, NULL},
    {"halves", halves, NULL},
    {"doubles", doubles, NULL},
    {"gradient", gradient, NULL},
    {"over replicas", over_replicas, NULL},
    {"selected", selected, NULL},
    {"normed", normed, NULL},
    {"convolved", convolved, NULL},
    {"like", like, NULL},
    {"largest", largest, NULL},
    {"smallest", smallest, NULL},
    {"gradient of largest", gradient_of_largest, NULL},
    {"computed labels", computed_labels, NULL},
    {"gradient of labels", gradient_of_labels, NULL},
    {"labels of lines", labels_of_lines, NULL},
    {"computed indices", computed_indices, NULL},
    {"taken", taken, "take_along has no rule"},
    {"scattered", scattered, "scatter has no rule"},
    {"largest of integers", largest_of_integers,
     "reduce_max has no rule for rows that are padding"},
    {"running", running, "cumsum has no rule"},
    {"turned", turned, "transpose has no rule"},
    {"rows", rows, "a result with a row for each example has no rule"},
    {"one hot", one_hot, "one_hot has no rule"},
    {"branch", branch, "cond has no rule"},
};
enum { NUM_BODIES = sizeof(bodies) / sizeof(*bodies) };

static ls_nest run_body(ls_nest args, void *user) {
  const body *b = user;
  return ls_leaf(b->make(ls_nest_tensor(args, 0), ls_nest_tensor(args, 1),
                         ls_nest_tensor(args, 2)));
}

static char said[1000];
static void listen(void *user, const ls_log_line *line) {
  (void)user;
  if (line->level == LS_LOG_INFO && strcmp(line->source, "lower") == 0)
    snprintf(said, sizeof(said), "%s", line->text);
}

TEST(ops_with_a_rule_share_and_others_are_named) {
  LS_SPEC("T96");
  static const int64_t sizes[][2] = {{5, 6}, {8, 7}, {0, 8}, {6, 0}};
  enum { TIMES = sizeof(sizes) / sizeof(*sizes) };
  ls_runtime *runtime = NULL, *outside = ls_runtime_current();
  expect_ok(ls_runtime_create(&(ls_runtime_options){.log = listen}, &runtime));
  ls_runtime_make_current(runtime);
  for (size_t n = 0; n < NUM_BODIES; ++n) {
    const body *b = &bodies[n];
    LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
    LS_OWN(ls_function, f) = function_of(run_body, (void *)(uintptr_t)b);
    said[0] = '\0';
    size_t programs[2];
    ls_nest results[2][TIMES] = {0};
    for (int on = 0; on < 2; ++on) {
      const size_t before = buckets_num_programs();
      for (size_t i = 0; i < TIMES; ++i) {
        LS_OWN(ls_nest, args) = buckets_values(sizes[i]);
        expect_ok(ls_strategy_run_with(
            s, ls_traced(f), args,
            &(ls_run_options){.bucketize = on ? LS_FLAG_ON : LS_FLAG_OFF},
            &results[on][i]));
      }
      programs[on] = buckets_num_programs() - before;
    }
    // Without a rule the programs of before are found again.
    if (programs[1] != (b->refused == NULL ? 1 : 0) || programs[0] != TIMES)
      fail_msg("'%s': %zu programs in buckets, %zu without; %s", b->name,
               programs[1], programs[0], said);
    if (b->refused == NULL)
      assert_string_equal(said, "");
    else
      expect_contains(said, b->refused);
    assert_null(strchr(said, '\n'));
    for (size_t i = 0; i < TIMES; ++i)
      for (int r = 0; r < 2; ++r)
        buckets_expect_same(
            b->name, ls_nest_as_array(buckets_component(results[1][i], r)),
            ls_nest_as_array(buckets_component(results[0][i], r)), "result", i);
    for (size_t i = 0; i < 2 * TIMES; ++i)
      ls_nest_release(results[i / TIMES][i % TIMES]);
  }
  ls_runtime_make_current(outside);
  expect_ok(ls_runtime_destroy(runtime));
}

// A shape that only the padding has.
BODY(as_long_as_the_bucket) {
  (void)y;
  (void)z;
  return sum(ls_add(x, ls_fill(LS_DTYPE_F32, LS_SHAPE(8, 4), 1)));
}

TEST(shapes_that_do_not_fit_are_refused_all_the_same) {
  static const body of_eight = {"as long as the bucket", as_long_as_the_bucket,
                                NULL};
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) = function_of(run_body, (void *)(uintptr_t)&of_eight);
  for (int on = 0; on < 2; ++on) {
    LS_OWN(ls_nest, args) = buckets_values((const int64_t[]){5, 6});
    ls_nest result = ls_none();
    expect_status(
        ls_strategy_run_with(
            s, ls_traced(f), args,
            &(ls_run_options){.bucketize = on ? LS_FLAG_ON : LS_FLAG_OFF},
            &result),
        LS_INVALID_ARGUMENT, "f32[5,4]");
  }
}

// ---- Sizes that are set ----------------------------------------------------
// x as rows of another argument's number, which have other real rows.
BODY(rows_of_another) {
  (void)y;
  const ls_size sizes[] = {{1, 0}, {LS_SIZE_CONSTANT, -1}};
  const ls_tensor factors = ls_reduce_sum(buckets_table(), LS_AXES(1));
  const ls_tensor wide = ls_mul(ls_reshape(x, LS_SHAPE(-1, 4, 1)), factors);
  const ls_tensor made = ls_reshape_like(ls_reshape(wide, LS_SHAPE(-1, 12)), z);
  expect_ok(
      ls_op_set_attr(ls_tensor_op(made), &(ls_attr){.name = "sizes",
                                                    .kind = LS_ATTR_SIZES,
                                                    .as.sizes = {sizes, 2}}));
  return ls_convert(ls_dim_size(made, 1), LS_DTYPE_F32);
}

TEST(rows_of_one_source_are_none_of_another) {
  static const body by_another = {"rows of another", rows_of_another, NULL};
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) =
      function_of(run_body, (void *)(uintptr_t)&by_another);
  for (int on = 0; on < 2; ++on) {
    LS_OWN(ls_nest, args) = buckets_values((const int64_t[]){6, 8});
    LS_OWN(ls_nest, result) = ls_none();
    expect_ok(ls_strategy_run_with(
        s, ls_traced(f), args,
        &(ls_run_options){.bucketize = on ? LS_FLAG_ON : LS_FLAG_OFF},
        &result));
    // 6 rows of 12 as 8 rows, 8 as 6.
    assert_true(nest_element(buckets_component(result, 0), 0) == 9);
    assert_true(nest_element(buckets_component(result, 1), 0) == 16);
  }
}

// ---- Labels and NaN that are the caller's own ------------------------------
BODY(labels_from_one) {
  (void)z;
  return sum(
      ls_softmax_cross_entropy(x, ls_sub(y, ls_scalar(LS_DTYPE_I32, 1))));
}

TEST(a_wrong_label_of_an_example_is_refused) {
  static const body from_one = {"labels from one", labels_from_one, NULL};
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) = function_of(run_body, (void *)(uintptr_t)&from_one);
  LS_OWN(ls_nest, args) = buckets_values((const int64_t[]){5, 6});
  ls_nest result = ls_none();
  expect_status(ls_strategy_run_with(s, ls_traced(f), args,
                                     &(ls_run_options){.bucketize = LS_FLAG_ON},
                                     &result),
                LS_INVALID_ARGUMENT, "label -1 is none of the 4 classes");
}

// 0 / 0 where there is padding, and a logarithm below 0 where there is none.
BODY(log_of_less) {
  (void)y;
  (void)z;
  const ls_tensor count = sum(ls_div(x, x));
  return ls_add(count, ls_log(ls_neg(sum(ls_square(x)))));
}

TEST(a_nan_is_looked_for_without_padding) {
  static const body of_less = {"log of less", log_of_less, NULL};
  ls_runtime *runtime = NULL, *outside = ls_runtime_current();
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.log = listen, .find_nan = true}, &runtime));
  ls_runtime_make_current(runtime);
  {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
    LS_OWN(ls_function, f) = function_of(run_body, (void *)(uintptr_t)&of_less);
    LS_OWN(ls_nest, args) = buckets_values((const int64_t[]){5, 6});
    LS_OWN(ls_nest, result) = ls_none();
    char text[LS_NAN_TEXT] = "";
    said[0] = '\0';
    expect_ok(ls_strategy_run_with(s, ls_traced(f), args,
                                   &(ls_run_options){.bucketize = LS_FLAG_ON},
                                   &result));
    assert_true(ls_runtime_take_nan(runtime, text, sizeof(text)));
    expect_contains(text, "(log)");
    expect_contains(said, "find_nan is on");
  }
  ls_runtime_make_current(outside);
  expect_ok(ls_runtime_destroy(runtime));
}
