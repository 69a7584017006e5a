// SPDX-License-Identifier: Apache-2.0
//
// Reducing, gathering and broadcasting of TPU strategies.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "distribute/base/strategy.h"
#include "distribute/own.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/handles.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "lockstep/slices.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/placed.h"
#include "support/spec.h"
#include "support/tpu_ways.h"

static const double thirds[TPU_RUN_REPLICAS] = {0.1, 0.7, -1.3, 2.9,
                                                3.1, 0.3, -0.9, 5.5};

// Along the canonical tree.
static float tree_sum(const double *x, int count) {
  int half = 1;
  if (count == 1) return (float)x[0];
  while (half * 2 < count)
    half *= 2;
  return tree_sum(x, half) + tree_sum(x + half, count - half);
}

static float tree_mean(const double *x, int count) {
  return tree_sum(x, count) * (1.0f / (float)count);
}

// What a merge function does, in a replica.
typedef ls_status (*across)(ls_strategy *strategy, ls_nest value,
                            ls_nest *out_value);

static ls_nest call_across(ls_strategy *strategy, ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      (*(const across *)user)(strategy, ls_nest_item(args, 0), &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest merge(ls_nest args, void *user) {
  return ls_replica_merge_call(ls_replica_context(), call_across, args, user);
}

// ---- Reducing in a computation ---------------------------------------------
static const ls_destinations nowhere = {.device = "no device//at all"};

static ls_status reduce_both(ls_strategy *s, ls_nest value, ls_nest *out) {
  ls_nest sum = ls_none(), mean = ls_none(), again = ls_none();
  LS_RETURN_IF_ERROR(
      ls_strategy_reduce_to(s, LS_REDUCE_SUM, value, nowhere, &sum));
  LS_RETURN_IF_ERROR(
      ls_strategy_reduce_to(s, LS_REDUCE_MEAN, value, nowhere, &mean));
  LS_RETURN_IF_ERROR(ls_strategy_reduce(s, LS_REDUCE_MEAN, value, &again));
  assert_int_equal(sum.kind, LS_KIND_TENSOR);
  assert_string_equal(ls_op_device(ls_tensor_op(again.as.tensor)),
                      ls_op_device(ls_tensor_op(sum.as.tensor)));
  *out = LS_LIST(sum, mean, again);
  return ls_ok();
}

static void all_have_the_sum(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r) {
    assert_true(tpu_run_number(run, r, 0, 0) == tree_sum(thirds, n));
    assert_true(tpu_run_number(run, r, 1, 0) == tree_mean(thirds, n));
    assert_true(tpu_run_number(run, r, 2, 0) == tree_mean(thirds, n));
  }
  assert_int_equal(count_ops(tpu_run_graph(run), "cross_replica_sum", NULL), 3);
  assert_int_equal(count_ops(tpu_run_graph(run), "add_n", NULL), 0);
}

static void all_have_the_mean_of_integers(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r) {
    assert_int_equal(ls_array_dtype(tpu_run_array(run, r, 0)), LS_DTYPE_I32);
    assert_int_equal(ls_array_dtype(tpu_run_array(run, r, 1)), LS_DTYPE_F64);
    assert_true(tpu_run_number(run, r, 0, 0) == n * (n + 1) / 2);
    assert_true(tpu_run_number(run, r, 1, 0) == (n + 1) / 2.0);
  }
}

// Sums beyond the integers' type do not wrap.
static void all_have_the_mean_of_narrow_integers(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r) {
    assert_int_equal(ls_array_dtype(tpu_run_array(run, r, 1)), LS_DTYPE_F32);
    assert_true(tpu_run_number(run, r, 1, 0) == 100);
    assert_true(tpu_run_number(run, r, 2, 0) == 100);
  }
}

static void all_have_the_mean_of_large_integers(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r) {
    assert_int_equal(ls_array_dtype(tpu_run_array(run, r, 1)), LS_DTYPE_F64);
    assert_true(tpu_run_number(run, r, 1, 0) == 2e9);
    assert_true(tpu_run_number(run, r, 2, 0) == 2e9);
  }
}

static const double counted[] = {1, 2, 3, 4, 5, 6, 7, 8};

// Of 16-bit floats both are rounded once, from f32.
static void all_have_what_is_rounded_once(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  static const double big[] = {256, 257, 1, 2, 3, 4, 5, 6};
  double values[TPU_RUN_REPLICAS];
  for (int r = 0; r < n; ++r)
    values[r] = r == 1 ? 256 : big[r];  // 257 is none of bf16.
  for (int r = 0; r < n; ++r) {
    LS_OWN(ls_array, wide) =
        array_of(LS_DTYPE_F32, LS_SHAPE(2),
                 (const double[]){tree_sum(values, n), tree_mean(values, n)});
    LS_OWN(ls_array, rounded) = array_of(
        LS_DTYPE_BF16, LS_SHAPE(2),
        (const double[]){ls_array_f64(wide, 0), ls_array_f64(wide, 1)});
    for (size_t i = 0; i < 2; ++i)
      assert_true(tpu_run_number(run, r, i, 0) ==
                  ls_array_f64(rounded, (int64_t)i));
  }
}

static ls_status reduce_by_max(ls_strategy *s, ls_nest value, ls_nest *out) {
  return ls_strategy_reduce_to(s, LS_REDUCE_MAX, value, nowhere, out);
}

static ls_status strategy_reduce_by_max(ls_strategy *s, ls_nest value,
                                        ls_nest *out) {
  return ls_strategy_reduce(s, LS_REDUCE_MAX, value, out);
}

// ---- Slices ----------------------------------------------------------------
static ls_nest all_reduce_slices(ls_nest args, void *user) {
  const ls_tensor x = ls_reshape(ls_nest_tensor(args, 0), LS_SHAPE(1));
  LS_OWN(ls_nest, own) = ls_nest_slices(
      ls_leaf(x), ls_reshape(ls_replica_id(), LS_SHAPE(1)), (ls_tensor){0});
  LS_OWN(ls_nest, all) = ls_replica_all_reduce(
      ls_replica_context(), *(const ls_reduce_op *)user, own);
  ls_slices_parts parts;
  const ls_status status = ls_slices_parts_of(all, &parts);
  return ls_status_is_ok(status)
             ? LS_TUPLE(ls_leaf(parts.indices), ls_leaf(parts.values))
             : ls_fail(status);
}

static void all_have_all_rows(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    for (int i = 0; i < n; ++i) {
      assert_true(tpu_run_number(run, r, 0, i) == i);
      assert_true(tpu_run_number(run, r, 1, i) == i + 1);
    }
}

TEST(replicas_all_reduce_slices) {
  static const ls_reduce_op sum = LS_REDUCE_SUM;
  const tpu_step step = {.fn = all_reduce_slices,
                         .user = (void *)(uintptr_t)&sum,
                         .numbers = counted};
  tpu_run_all(&step, all_have_all_rows);
}

TEST(replicas_reduce_together) {
  LS_SPEC("T173 T176");
  static const double halves[] = {256, 257, 1, 2, 3, 4, 5, 6};
  static const double hundreds[] = {100, 100, 100, 100, 100, 100, 100, 100};
  static const double large[] = {2e9, 2e9, 2e9, 2e9, 2e9, 2e9, 2e9, 2e9};
  static const across both = reduce_both, by_max = reduce_by_max,
                      strategy_by_max = strategy_reduce_by_max;
  tpu_step step = {
      .fn = merge, .user = (void *)(uintptr_t)&both, .numbers = thirds};
  tpu_run_all(&step, all_have_the_sum);
  step.numbers = counted;
  step.dtype = LS_DTYPE_I32;
  tpu_run_all(&step, all_have_the_mean_of_integers);
  step.numbers = large;
  tpu_run_all(&step, all_have_the_mean_of_large_integers);
  step.numbers = hundreds;
  step.dtype = LS_DTYPE_I8;
  tpu_run_all(&step, all_have_the_mean_of_narrow_integers);
  step.numbers = halves;
  step.dtype = LS_DTYPE_BF16;
  tpu_run_all(&step, all_have_what_is_rounded_once);
  step.user = (void *)(uintptr_t)&by_max;
  tpu_run_refused(&step, 2, LS_UNIMPLEMENTED, "reduce_to by MAX");
  step.user = (void *)(uintptr_t)&strategy_by_max;
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "MAX");
}

// ---- Slices ----------------------------------------------------------------
// Rows 0 and r of a [5, 2], each of this replica's number; twice the same row
// on replica 0.
static ls_nest slices_of(ls_nest value, bool has_shape) {
  const ls_tensor x = ls_nest_tensor(value, 0);
  const ls_tensor rows = ls_broadcast(x, LS_SHAPE(2, 2));
  const ls_tensor at[] = {
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1)),
      ls_reshape(ls_replica_id(), LS_SHAPE(1))};
  LS_OWN(ls_array, sizes) =
      array_of(LS_DTYPE_I64, LS_SHAPE(2), (const double[]){5, 2});
  return ls_nest_slices(ls_leaf(rows), ls_concatenate(at, 2, 0),
                        has_shape ? ls_constant(sizes) : ls_failed_tensor());
}

static ls_status reduce_slices(ls_strategy *s, ls_nest value, bool has_shape,
                               ls_nest *out) {
  LS_OWN(ls_nest, slices) = slices_of(value, has_shape);
  ls_nest sum = ls_none(), mean = ls_none();
  ls_status status =
      ls_strategy_reduce_to(s, LS_REDUCE_SUM, slices, nowhere, &sum);
  if (ls_status_is_ok(status))
    status = ls_strategy_reduce_to(s, LS_REDUCE_MEAN, slices, nowhere, &mean);
  LS_RETURN_IF_ERROR(status);
  *out = LS_LIST(sum, mean);
  return ls_ok();
}

static ls_status reduce_known(ls_strategy *s, ls_nest value, ls_nest *out) {
  return reduce_slices(s, value, true, out);
}

static ls_status reduce_unknown(ls_strategy *s, ls_nest value, ls_nest *out) {
  return reduce_slices(s, value, false, out);
}

static void all_have_dense_rows(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    for (int row = 0; row < 5; ++row) {
      double own[TPU_RUN_REPLICAS];
      for (int k = 0; k < n; ++k)
        own[k] = (row == 0 ? 1 : 0) * counted[k] + (row == k ? counted[k] : 0);
      assert_true(tpu_run_number(run, r, 0, 2 * row) == tree_sum(own, n));
      assert_true(tpu_run_number(run, r, 1, 2 * row + 1) == tree_mean(own, n));
    }
}

TEST(slices_are_made_dense) {
  LS_SPEC("T173");
  static const across known = reduce_known, unknown = reduce_unknown;
  tpu_step step = {
      .fn = merge, .user = (void *)(uintptr_t)&known, .numbers = counted};
  tpu_run_all(&step, all_have_dense_rows);
  step.user = (void *)(uintptr_t)&unknown;
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "dense shape");
}

// ---- Along axes ------------------------------------------------------------
static ls_status reduce_along(ls_strategy *s, ls_nest value, ls_nest *out) {
  static const int axis = -1;
  static const double weights[TPU_RUN_REPLICAS] = {1, 1, 1, 1, 1, 1, 1, 1};
  const ls_reduce_options options = {.axes = &axis, .num_axes = 1};
  const ls_reduce_options weighted = {
      .weights = weights, .num_weights = (size_t)ls_strategy_num_replicas(s)};
  ls_nest sum = ls_none(), mean = ls_none(), none = ls_none();
  expect_status(
      ls_strategy_reduce_with(s, LS_REDUCE_MEAN, value, &weighted, &none),
      LS_UNIMPLEMENTED, "ls_replica_weighted_mean");
  LS_RETURN_IF_ERROR(
      ls_strategy_reduce_with(s, LS_REDUCE_SUM, value, &options, &sum));
  LS_RETURN_IF_ERROR(
      ls_strategy_reduce_with(s, LS_REDUCE_MEAN, value, &options, &mean));
  *out = LS_LIST(sum, mean);
  return ls_ok();
}

static void all_have_divided_once(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r) {
    assert_int_equal(ls_array_dtype(tpu_run_array(run, r, 1)), LS_DTYPE_F64);
    for (int row = 0; row < 2; ++row) {
      double total = 0;
      for (int k = 0; k < n; ++k)
        for (int i = 0; i < 3; ++i)
          total += 6 * k + 3 * row + i;
      assert_true(tpu_run_number(run, r, 0, row) == total);
      assert_true(tpu_run_number(run, r, 1, row) == total / (3 * n));
    }
  }
}

TEST(a_mean_along_an_axis_divides_once) {
  LS_SPEC("T176");
  static const across along = reduce_along;
  double numbers[6 * TPU_RUN_REPLICAS];
  for (int i = 0; i < 6 * TPU_RUN_REPLICAS; ++i)
    numbers[i] = i;
  const tpu_step step = {.fn = merge,
                         .user = (void *)(uintptr_t)&along,
                         .numbers = numbers,
                         .shape = LS_SHAPE(2, 3),
                         .dtype = LS_DTYPE_I32};
  tpu_run_all(&step, all_have_divided_once);
}

// ---- What has no components ------------------------------------------------
static ls_status reduce_numbers(ls_strategy *s, ls_nest value, ls_nest *out) {
  const int n = ls_strategy_num_replicas(s);
  ls_nest made = ls_none();
  (void)value;
  for (int mean = 0; mean < 2; ++mean) {
    const ls_reduce_op op = mean ? LS_REDUCE_MEAN : LS_REDUCE_SUM;
    LS_RETURN_IF_ERROR(
        ls_strategy_reduce_to(s, op, ls_nest_i64(0), nowhere, &made));
    assert_int_equal(made.kind, LS_KIND_SCALAR);
    assert_true(ls_nest_number(made) == 0);
  }
  LS_RETURN_IF_ERROR(ls_strategy_reduce_to(s, LS_REDUCE_MEAN, ls_nest_f64(2.5),
                                           nowhere, &made));
  assert_int_equal(made.kind, LS_KIND_SCALAR);
  assert_true(ls_nest_number(made) == 2.5);
  const ls_destinations here = {.device = "/device:CPU:0"};
  const ls_status status =
      ls_strategy_reduce_to(s, LS_REDUCE_SUM, ls_nest_f64(2.5), here, &made);
  if (n > 1) {
    expect_status(status, LS_INVALID_ARGUMENT, "SUM of 2.5");
    *out = ls_leaf(f32_of(2.5));
    return ls_ok();
  }
  *out = made;
  return status;
}

static void a_number_is_what_it_is(tpu_run *run) {
  assert_true(tpu_run_number(run, 0, 0, 0) == 2.5);
}

static void a_tensor_is_what_it_is(ls_strategy *s, ls_tensor x) {
  const int n = ls_strategy_num_replicas(s);
  const ls_destinations there = {.device = "/device:CPU:1"};
  ls_nest made = ls_none();
  expect_ok(ls_strategy_reduce_to(s, LS_REDUCE_MEAN, ls_leaf(x), there, &made));
  assert_true(made.kind == LS_KIND_TENSOR && made.as.tensor.ref == x.ref);
  const ls_status status =
      ls_strategy_reduce_to(s, LS_REDUCE_SUM, ls_leaf(x), there, &made);
  if (n > 1) {
    expect_status(status, LS_INVALID_ARGUMENT, "SUM of ");
    return;
  }
  expect_ok(status);
  assert_true(made.as.tensor.ref != x.ref);
  assert_string_equal(ls_op_device(ls_tensor_op(made.as.tensor)),
                      LOCAL_DEVICE "CPU:1");
}

TEST(one_value_is_the_same_on_all) {
  LS_SPEC("T174");
  static const across numbers = reduce_numbers;
  const tpu_step step = {
      .fn = merge, .user = (void *)(uintptr_t)&numbers, .numbers = NULL};
  tpu_run_all(&step, a_number_is_what_it_is);
  for (int n = 1; n <= 3; n += 2) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
    ls_nest made = ls_none();
    a_tensor_is_what_it_is(s, f32_of(3));  // In eager.
    expect_ok(reduce_numbers(s, ls_none(), &made));
    expect_status(
        ls_strategy_reduce_to(s, LS_REDUCE_MAX, ls_nest_i64(0), nowhere, &made),
        LS_INVALID_ARGUMENT, "MAX");
    LS_OWN_BEGUN(computation, c, computation_open);
    a_tensor_is_what_it_is(s, f32_of(3));
    expect_ok(reduce_numbers(s, ls_none(), &made));
    assert_true(computation_fetch(&c, ls_nest_tensor(made, 0)) == 2.5);
  }
}

// ---- Components ------------------------------------------------------------
enum { MANY = 450 };

static double number_at(size_t i) { return 0.1 + 0.37 * (double)(i * i % 91); }

// So many numbers, as a value of a device or none each.
static ls_nest components(ls_dtype dtype, size_t count) {
  ls_nest items[MANY];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_leaf(ls_reshape(ls_scalar(dtype, number_at(i)), LS_SHAPE(1)));
  return ls_nest_distributed(LS_PER_REPLICA, items, count);
}

// The numbers of operands of ops of a type, as text.
static void list_inputs(const ls_graph *graph, const char *type, char *text) {
  text[0] = '\0';
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    if (strcmp(ls_op_type_name(op), type) == 0)
      sprintf(text + strlen(text), "%zu ", ls_op_num_inputs(op));
  }
}

static const struct {
  size_t count;
  const char *adds, *concatenations;
} chunk_cases[] = {{2, "2 ", "2 "},
                   {200, "200 ", "200 "},
                   {201, "128 73 2 ", "200 2 "},
                   {450, "128 128 128 66 4 ", "200 200 52 "}};

TEST(many_components_are_added_in_chunks) {
  LS_SPEC("T175");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  for (size_t i = 0; i < sizeof(chunk_cases) / sizeof(*chunk_cases); ++i) {
    const size_t count = chunk_cases[i].count;
    double x[MANY];
    char text[200];
    for (size_t k = 0; k < count; ++k)
      x[k] = (float)number_at(k);
    for (int mean = 0; mean < 2; ++mean) {
      const ls_reduce_op op = mean ? LS_REDUCE_MEAN : LS_REDUCE_SUM;
      const float wanted =
          mean ? tree_mean(x, (int)count) : tree_sum(x, (int)count);
      computation c;
      computation_open(&c);
      ls_nest made = ls_none(), value = components(LS_DTYPE_F32, count);
      const ls_destinations host = {.device = "/device:CPU:0"};
      expect_ok(ls_strategy_reduce_to(s, op, value, host, &made));
      assert_true((float)computation_fetch(&c, made.as.tensor) == wanted);
      list_inputs(c.graph, "add_n", text);
      assert_string_equal(text, chunk_cases[i].adds);
      assert_int_equal(count_ops(c.graph, "mul", NULL), mean);
      ls_nest_release(value);
      computation_close(&c);
      // In eager.
      value = components(LS_DTYPE_F32, count);
      expect_ok(ls_strategy_reduce(s, op, value, &made));
      assert_true((float)item_of(made.as.tensor) == wanted);
      ls_nest_release(value);
    }
  }
}

TEST(halves_are_rounded_behind_the_last_chunk) {
  LS_SPEC("T175");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  double x[MANY];
  for (size_t k = 0; k < 201; ++k) {
    LS_OWN(ls_array, half) =
        array_of(LS_DTYPE_BF16, LS_SCALAR, (const double[]){number_at(k)});
    x[k] = ls_array_f64(half, 0);
  }
  LS_OWN(ls_array, wanted) =
      array_of(LS_DTYPE_BF16, LS_SCALAR, (const double[]){tree_sum(x, 201)});
  LS_OWN_BEGUN(computation, c, computation_open);
  ls_nest made = ls_none();
  LS_OWN(ls_nest, value) = components(LS_DTYPE_BF16, 201);
  expect_ok(ls_strategy_reduce_to(s, LS_REDUCE_SUM, value,
                                  (ls_destinations){.device = "/device:CPU:0"},
                                  &made));
  assert_string_equal(ls_op_type_name(ls_tensor_op(made.as.tensor)), "convert");
  assert_true(computation_fetch(&c, made.as.tensor) == ls_array_f64(wanted, 0));
  for (size_t i = 0; i < ls_graph_num_ops(c.graph); ++i) {
    const ls_op op = ls_graph_op(c.graph, i);
    if (strcmp(ls_op_type_name(op), "add_n") == 0)
      assert_int_equal(ls_tensor_dtype(ls_op_output(op, 0)), LS_DTYPE_F32);
  }
}

// What is mirrored has components, too.
TEST(components_of_all_kinds_are_added) {
  LS_SPEC("T175 T176");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(3);
  LS_OWN(ls_variable, v) = NULL;
  ls_nest made = ls_none();
  {
    LS_STRATEGY_SCOPE(s);
    v = variable_of("v", LS_DTYPE_F32, LS_SCALAR, (const double[]){2});
  }
  const ls_nest leaf =
      ls_nest_object(LS_KIND_VARIABLE, (ls_object *)ls_variable_retain(v));
  expect_ok(ls_strategy_reduce(s, LS_REDUCE_SUM, leaf, &made));
  assert_true(item_of(made.as.tensor) == 6);
  expect_ok(ls_strategy_reduce(s, LS_REDUCE_MEAN, leaf, &made));
  assert_true(item_of(made.as.tensor) == 2);
  ls_nest_release(leaf);
  LS_OWN(ls_nest, integers) = ls_nest_distributed(
      LS_PER_REPLICA,
      (const ls_nest[]){ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 1)),
                        ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 2))},
      2);
  expect_ok(ls_strategy_reduce(s, LS_REDUCE_MEAN, integers, &made));
  assert_int_equal(ls_tensor_dtype(made.as.tensor), LS_DTYPE_F64);
  assert_true(item_of(made.as.tensor) == 1.5);
}

// ---- Gathering -------------------------------------------------------------
TEST(many_components_are_gathered_in_chunks) {
  LS_SPEC("T178");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  for (size_t i = 0; i < sizeof(chunk_cases) / sizeof(*chunk_cases); ++i) {
    const size_t count = chunk_cases[i].count;
    char text[200];
    for (int eager = 0; eager < 2; ++eager) {
      computation c;
      ls_nest made = ls_none(), result = ls_none();
      if (!eager) computation_open(&c);
      const ls_nest value = components(LS_DTYPE_F32, count);
      expect_ok(ls_strategy_gather(s, value, 0, &made));
      ls_array *array = NULL;
      if (eager) {
        expect_ok(ls_tensor_value(made.as.tensor, &array));
      } else {
        expect_ok(ls_session_create(c.graph, &c.session));
        expect_ok(ls_session_run(c.session, made, NULL, 0, &result));
        array =
            ls_array_retain((ls_array *)(uintptr_t)ls_nest_as_array(result));
        list_inputs(c.graph, "concatenate", text);
        assert_string_equal(text, chunk_cases[i].concatenations);
      }
      assert_int_equal(ls_array_num_elements(array), count);
      for (size_t k = 0; k < count; ++k)
        assert_true((float)ls_array_f64(array, (int64_t)k) ==
                    (float)number_at(k));
      ls_array_release(array);
      ls_nest_release(result);
      ls_nest_release(value);
      if (!eager) computation_close(&c);
    }
  }
  const ls_tensor x = f32_of(1);
  ls_nest made = ls_none();
  expect_ok(ls_strategy_gather(s, ls_leaf(x), 0, &made));
  assert_true(made.as.tensor.ref == x.ref);
  expect_ok(ls_strategy_gather(s, ls_nest_i64(4), 0, &made));
  assert_true(made.kind == LS_KIND_SCALAR && ls_nest_number(made) == 4);
}

static ls_nest pair_of(ls_tensor a, ls_tensor b) {
  return ls_nest_distributed(LS_PER_REPLICA,
                             (const ls_nest[]){ls_leaf(a), ls_leaf(b)}, 2);
}

static ls_tensor zeros_of(ls_shape shape) {
  return ls_broadcast(f32_of(0), shape);
}

static void gathers_are_refused(ls_strategy *s) {
  ls_nest made = ls_none();
  const struct {
    ls_shape a, b;
    int axis;
    const char *says;
  } cases[] = {{LS_SHAPE(2, 3), LS_SHAPE(2, 4), 0, "axis 0"},
               {LS_SHAPE(2, 3), LS_SHAPE(3), 0, "axis 0"},
               {LS_SHAPE(2, 3), LS_SHAPE(2, 3), 2, "axis 2"},
               {LS_SHAPE(2, 3), LS_SHAPE(2, 3), -1, "axis -1"},
               {LS_SCALAR, LS_SCALAR, 0, "scalars"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    LS_OWN(ls_nest, value) =
        pair_of(zeros_of(cases[i].a), zeros_of(cases[i].b));
    expect_status(ls_strategy_gather(s, value, cases[i].axis, &made),
                  LS_INVALID_ARGUMENT, cases[i].says);
  }
  LS_OWN(ls_nest, slices) =
      ls_nest_slices(ls_leaf(zeros_of(LS_SHAPE(1, 2))),
                     ls_broadcast(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1)),
                     ls_failed_tensor());
  expect_status(ls_strategy_gather(s, slices, 0, &made), LS_UNIMPLEMENTED,
                "gather of IndexedSlices");
}

static ls_nest gather_in_replica(ls_nest args, void *user) {
  ls_nest made = ls_none();
  (void)user;
  const ls_status status = ls_strategy_gather(ls_strategy_current(),
                                              ls_nest_item(args, 0), 0, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// Gathers a value, its sum over the replicas, and the gathered value.
static ls_status gather_values(ls_strategy *s, ls_nest value, ls_nest *out) {
  ls_nest sum = ls_none(), values = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_reduce(s, LS_REDUCE_SUM, value, &sum));
  LS_RETURN_IF_ERROR(ls_strategy_gather(s, value, 0, &values));
  LS_OWN(ls_nest, all) = LS_TUPLE(ls_nest_retain(value), sum, values);
  return ls_strategy_gather(s, all, 0, out);
}

static void all_have_all_values(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    for (size_t leaf = 0; leaf < 3; ++leaf) {
      const ls_array *array = tpu_run_array(run, r, leaf);
      assert_int_equal(ls_array_num_elements(array), leaf == 1 ? 1 : n);
      for (int i = 0; i < (leaf == 1 ? 1 : n); ++i)
        assert_true(ls_array_f64(array, i) ==
                    (leaf == 1 ? n * (n + 1) / 2 : counted[i]));
    }
}

static ls_nest merge_the_sum(ls_nest args, void *user) {
  LS_OWN(ls_nest, sums) =
      ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, args);
  return merge(sums, user);
}

static void all_have_all_sums(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r) {
    const ls_array *array = tpu_run_array(run, r, 0);
    assert_int_equal(ls_array_num_elements(array), n);
    for (int i = 0; i < n; ++i)
      assert_true(ls_array_f64(array, i) == n * (n + 1) / 2);
  }
}

static ls_status gather_rows(ls_strategy *s, ls_nest value, ls_nest *out) {
  return ls_strategy_gather(s, value, 0, out);
}

static ls_status gather_columns(ls_strategy *s, ls_nest value, ls_nest *out) {
  return ls_strategy_gather(s, value, 1, out);
}

TEST(a_merge_call_gathers_the_values_of_all_replicas) {
  static const across values = gather_values, rows = gather_rows,
                      columns = gather_columns;
  tpu_step step = {.fn = merge,
                   .user = (void *)(uintptr_t)&values,
                   .numbers = counted,
                   .shape = LS_SHAPE(1)};
  tpu_run_all(&step, all_have_all_values);
  // A sum that the replicas have made is a value of each.
  step.fn = merge_the_sum;
  step.user = (void *)(uintptr_t)&rows;
  tpu_run_all(&step, all_have_all_sums);
  step.user = (void *)(uintptr_t)&columns;
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "axis 1 of rank 1");
  step.shape = LS_SCALAR;
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "scalars");
}

// ---- Gathering in a branch and in a loop -----------------------------------
// Adds the rows that are gathered of a value, and those of its sum over the
// replicas. A scope in the merge call changes nothing.
static ls_status add_gathered(ls_strategy *s, ls_nest value, ls_nest *out) {
  ls_nest sum = ls_none(), values = ls_none(), sums = ls_none();
  LS_STRATEGY_SCOPE(s);
  LS_RETURN_IF_ERROR(ls_strategy_reduce(s, LS_REDUCE_SUM, value, &sum));
  LS_RETURN_IF_ERROR(ls_strategy_gather(s, value, 0, &values));
  LS_RETURN_IF_ERROR(ls_strategy_gather(s, sum, 0, &sums));
  *out = LS_TUPLE(ls_leaf(ls_reduce_sum(values.as.tensor, LS_AXES(0))),
                  ls_leaf(ls_reduce_sum(sums.as.tensor, LS_AXES(0))));
  return ls_ok();
}

static ls_nest merge_gathered(ls_nest args, void *user) {
  static const across gathered = add_gathered;
  (void)user;
  return merge(args, (void *)(uintptr_t)&gathered);
}

static ls_nest give_zeros(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return LS_TUPLE(ls_leaf(f32_of(0)), ls_leaf(f32_of(0)));
}

static ls_nest merge_outer(ls_nest values, void *user) {
  (void)values;
  return merge_gathered(*(const ls_nest *)user, NULL);
}

static ls_nest sum_and_merge_outer(ls_nest values, void *user) {
  (void)values;
  LS_OWN(ls_nest, sums) = ls_replica_all_reduce(
      ls_replica_context(), LS_REDUCE_SUM, *(const ls_nest *)user);
  return merge_gathered(sums, NULL);
}

static ls_nest merge_in_branch(ls_nest args, void *user) {
  (void)user;
  return ls_cond(ls_less(f32_of(0), f32_of(1)), merge_outer, give_zeros, &args);
}

static ls_nest sum_and_merge_in_branch(ls_nest args, void *user) {
  (void)user;
  return ls_cond(ls_less(f32_of(0), f32_of(1)), sum_and_merge_outer, give_zeros,
                 &args);
}

static ls_nest is_zero(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_equal(ls_nest_tensor(values, 0), f32_of(0)));
}

static ls_nest merge_in_loop(ls_nest args, void *user) {
  LS_OWN(ls_nest, zeros) = give_zeros(args, user);
  return ls_while(is_zero, merge_outer, &args, ls_nest_retain(zeros), 0);
}

// Calls a step with the replicas' sum.
static ls_nest call_with_sum(ls_nest args, void *user) {
  LS_OWN(ls_nest, sums) =
      ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, args);
  return (*(const ls_callback *)user)(sums, NULL);
}

static void all_rows_make_the_sum(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    for (size_t leaf = 0; leaf < 2; ++leaf)
      assert_true(tpu_run_number(run, r, leaf, 0) == n * (n + 1) / 2);
}

static void all_rows_make_each_ones_sum(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    for (size_t leaf = 0; leaf < 2; ++leaf)
      assert_true(tpu_run_number(run, r, leaf, 0) == n * n * (n + 1) / 2);
}

TEST(a_merge_call_in_a_branch_or_loop_gathers_the_same) {
  static const ls_callback all[] = {merge_gathered, merge_in_branch,
                                    merge_in_loop};
  tpu_step step = {.numbers = counted, .shape = LS_SHAPE(1)};
  for (size_t i = 0; i < 3; ++i) {
    step.fn = all[i];
    tpu_run_all(&step, all_rows_make_the_sum);
    step.fn = call_with_sum;
    step.user = (void *)(uintptr_t)&all[i];
    tpu_run_all(&step, all_rows_make_each_ones_sum);
  }
  step.fn = sum_and_merge_in_branch;
  tpu_run_all(&step, all_rows_make_each_ones_sum);
}

static ls_nest broadcast_in_replica(ls_nest args, void *user) {
  ls_nest made = ls_none();
  (void)user;
  const ls_status status =
      ls_strategy_broadcast_to(ls_strategy_current(), ls_nest_item(args, 0),
                               (ls_destinations){0}, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

TEST(what_cannot_be_gathered_is_refused) {
  LS_SPEC("T179");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  gathers_are_refused(s);
  computation c;
  computation_open(&c);
  gathers_are_refused(s);
  // Where it goes.
  ls_nest made = ls_none();
  const ls_nest value = pair_of(zeros_of(LS_SHAPE(1)), zeros_of(LS_SHAPE(2)));
  expect_ok(ls_strategy_gather(s, value, 0, &made));
  assert_string_equal(ls_op_device(ls_tensor_op(made.as.tensor)),
                      LOCAL_DEVICE "CPU:0");
  {
    LS_DEVICE_SCOPE("/device:TPU:1");
    expect_ok(ls_strategy_gather(s, value, 0, &made));
  }
  assert_string_equal(ls_op_device(ls_tensor_op(made.as.tensor)),
                      LOCAL_DEVICE "TPU:1");
  ls_nest_release(value);
  computation_close(&c);
  const tpu_step step = {.fn = gather_in_replica, .shape = LS_SHAPE(2)};
  tpu_run_refused(&step, 1, LS_FAILED_PRECONDITION, "all_gather");
  tpu_run_refused(&step, 2, LS_FAILED_PRECONDITION, "all_gather");
}

// ---- Packed variables ------------------------------------------------------
typedef struct packed_sum {
  ls_strategy *strategy;
  ls_variable *variable;
} packed_sum;

static ls_nest reduce_and_gather(ls_nest args, void *user) {
  const packed_sum *p = user;
  ls_nest sum = ls_none(), mean = ls_none(), rows = ls_none();
  (void)args;
  LS_OWN(ls_nest, leaf) = ls_nest_object(
      LS_KIND_VARIABLE, (ls_object *)ls_variable_retain(p->variable));
  expect_ok(ls_strategy_reduce(p->strategy, LS_REDUCE_SUM, leaf, &sum));
  expect_ok(ls_strategy_reduce(p->strategy, LS_REDUCE_MEAN, leaf, &mean));
  expect_ok(ls_strategy_gather(p->strategy, leaf, 0, &rows));
  return LS_LIST(sum, mean, rows);
}

TEST(packed_components_have_their_order) {
  LS_SPEC("T177");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(3);
  s->packs_variables = true;
  packed_sum p = {.strategy = s};
  {
    LS_STRATEGY_SCOPE(s);
    p.variable = variable_of("v", LS_DTYPE_F32, LS_SHAPE(1), thirds);
  }
  assert_non_null(ls_variable_packed(p.variable));
  for (size_t i = 0; i < 3; ++i)
    set_variable(ls_variable_component(p.variable, i), thirds + i);
  for (int traced = 0; traced < 2; ++traced) {
    LS_OWN(ls_nest, made) = ls_none();
    LS_OWN(ls_function, f) = function_of(reduce_and_gather, &p);
    if (traced)
      expect_ok(ls_function_call(f, ls_none(), &made));
    else
      made = reduce_and_gather(ls_none(), &p);
    const float wanted[] = {tree_sum(thirds, 3), tree_mean(thirds, 3)};
    for (size_t k = 0; k < 3; ++k) {
      LS_OWN(ls_array, array) = NULL;
      const ls_nest leaf = ls_nest_item(made, k);
      if (traced)
        array = ls_array_retain((ls_array *)(uintptr_t)ls_nest_as_array(leaf));
      else
        expect_ok(ls_tensor_value(leaf.as.tensor, &array));
      assert_int_equal(ls_array_num_elements(array), k == 2 ? 3 : 1);
      for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
        assert_true((float)ls_array_f64(array, i) ==
                    (k == 2 ? (float)thirds[i] : wanted[k]));
    }
  }
  ls_variable_release(p.variable);
}

// ---- Destinations ----------------------------------------------------------
TEST(results_go_where_they_shall_be) {
  LS_SPEC("T180");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  ls_device_name host;
  expect_ok(ls_tpu_strategy_host(s, &host));
  const char *both[] = {"/device:TPU:1", host.text};
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, value) = pair_of(f32_of(1), f32_of(2));
  ls_nest made = ls_none();
  // The host's name in another way of writing it.
  expect_ok(ls_strategy_reduce_to(s, LS_REDUCE_SUM, value,
                                  (ls_destinations){.device = "cpu:0"}, &made));
  assert_string_equal(ls_op_type_name(ls_tensor_op(made.as.tensor)), "add_n");
  assert_string_equal(ls_op_device(ls_tensor_op(made.as.tensor)), host.text);
  expect_ok(ls_strategy_reduce_to(s, LS_REDUCE_SUM, value,
                                  (ls_destinations){.device = "/device:TPU:1"},
                                  &made));
  const ls_op copy = ls_tensor_op(made.as.tensor);
  assert_string_equal(ls_op_type_name(copy), "identity");
  assert_string_equal(ls_op_device(copy), LOCAL_DEVICE "TPU:1");
  assert_string_equal(ls_op_device(ls_tensor_op(ls_op_input(copy, 0))),
                      host.text);
  assert_true(computation_fetch(&c, made.as.tensor) == 3);
  expect_ok(ls_strategy_reduce_to(
      s, LS_REDUCE_SUM, value,
      (ls_destinations){.devices = both, .num_devices = 2}, &made));
  assert_int_equal(ls_distributed_kind_of(made), LS_MIRRORED);
  assert_string_equal(component_on(made, 0), "TPU:1");
  assert_string_equal(component_on(made, 1), "CPU:0");
  ls_nest_release(made);
  // Another host than the first replica's.
  LS_OWN(ls_nest, rows) = pair_of(zeros_of(LS_SHAPE(1)), zeros_of(LS_SHAPE(2)));
  {
    LS_DEVICE_SCOPE("/task:1/device:CPU:0");
    expect_ok(ls_strategy_gather(s, rows, 0, &made));
  }
  const ls_op moved = ls_tensor_op(made.as.tensor);
  assert_string_equal(ls_op_type_name(moved), "identity");
  assert_non_null(strstr(ls_op_device(moved), "/task:1/"));
  expect_ok(ls_strategy_gather(s, rows, 0, &made));
  assert_string_equal(ls_op_type_name(ls_tensor_op(made.as.tensor)),
                      "concatenate");
  LS_OWN(ls_nest, pairs) = ls_none();
  const ls_nest values[] = {value, ls_nest_i64(0)};
  const ls_destinations where[] = {{.device = "/device:CPU:0"},
                                   {.device = "/device:CPU:0"}};
  expect_ok(
      ls_strategy_batch_reduce_to(s, LS_REDUCE_SUM, values, where, 2, &pairs));
  assert_true(computation_fetch(&c, ls_nest_tensor(pairs, 0)) == 3);
  assert_int_equal(ls_nest_item(pairs, 1).kind, LS_KIND_SCALAR);
}

// ---- Broadcasting ----------------------------------------------------------
static ls_status broadcast_all(ls_strategy *s, ls_nest value, ls_nest *out) {
  ls_nest one = ls_none(), number = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_broadcast_to(s, value, nowhere, &one));
  LS_RETURN_IF_ERROR(
      ls_strategy_broadcast_to(s, ls_nest_i64(7), nowhere, &number));
  assert_int_equal(number.kind, LS_KIND_SCALAR);
  LS_RETURN_IF_ERROR(
      ls_strategy_broadcast_to(s, ls_nest_f64(7.5), nowhere, &number));
  assert_int_equal(number.kind, LS_KIND_SCALAR);
  *out = one;
  return ls_ok();
}

static void all_have_the_first_ones(tpu_run *run) {
  const ls_graph *graph = tpu_run_graph(run);
  for (int r = 0; r < tpu_run_replicas(run); ++r)
    for (int i = 0; i < 2; ++i)
      assert_true((float)tpu_run_number(run, r, 0, i) ==
                  (i == 0 ? 0.5f : -0.0f));
  assert_true(signbit(tpu_run_number(run, tpu_run_replicas(run) - 1, 0, 1)));
  assert_int_equal(count_ops(graph, "all_to_all", NULL), 1);
}

TEST(the_first_replicas_value_is_broadcast) {
  LS_SPEC("T181");
  static const across all = broadcast_all;
  static const double numbers[2 * TPU_RUN_REPLICAS] = {0.5, -0.0, 3, 4, 5,
                                                       6,   7,    8, 9, 10};
  tpu_step step = {.fn = merge,
                   .user = (void *)(uintptr_t)&all,
                   .numbers = numbers,
                   .shape = LS_SHAPE(2)};
  tpu_run_all(&step, all_have_the_first_ones);
  step.fn = broadcast_in_replica;
  tpu_run_refused(&step, 1, LS_FAILED_PRECONDITION, "broadcast_to");
  tpu_run_refused(&step, 2, LS_FAILED_PRECONDITION, "broadcast_to");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  for (int eager = 0; eager < 2; ++eager) {
    computation c;
    if (!eager) computation_open(&c);
    const ls_tensor x = f32_of(4);
    ls_nest made = ls_none();
    expect_ok(ls_strategy_broadcast_to(s, ls_leaf(x), nowhere, &made));
    assert_true(made.kind == LS_KIND_TENSOR && made.as.tensor.ref == x.ref);
    expect_ok(ls_strategy_broadcast_to(s, ls_nest_i64(7), nowhere, &made));
    assert_true(made.kind == LS_KIND_SCALAR && ls_nest_number(made) == 7);
    if (!eager) computation_close(&c);
  }
}

// ---- Gradients -------------------------------------------------------------
static ls_status mean_of(ls_strategy *s, ls_nest value, ls_nest *out) {
  return ls_strategy_reduce_to(s, LS_REDUCE_MEAN, value, nowhere, out);
}

static ls_status first_of(ls_strategy *s, ls_nest value, ls_nest *out) {
  return ls_strategy_broadcast_to(s, value, nowhere, out);
}

// d (r + 1) y / dx, y being what all have made of x.
static ls_nest gradient_through(ls_nest args, void *user) {
  const ls_nest made = merge(args, user);
  if (ls_nest_is_failed(made)) return made;
  const ls_tensor weight = ls_convert(
      ls_add(ls_replica_id(), ls_scalar_i64(LS_DTYPE_I32, 1)), LS_DTYPE_F32);
  const ls_nest xs = ls_nest_item(args, 0);
  const ls_nest ys = ls_leaf(ls_mul(made.as.tensor, weight));
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&ys, 1, &xs, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

static void gradients_are_means(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    assert_true(tpu_run_number(run, r, 0, 0) == tree_mean(counted, n));
}

static void the_first_ones_gradient_is_the_sum(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    assert_true(tpu_run_number(run, r, 0, 0) ==
                (r == 0 ? tree_sum(counted, n) : 0));
}

TEST(gradients_pass_what_replicas_do_together) {
  static const across mean = mean_of, first = first_of;
  tpu_step step = {.fn = gradient_through,
                   .user = (void *)(uintptr_t)&mean,
                   .numbers = thirds};
  tpu_run_all(&step, gradients_are_means);
  step.user = (void *)(uintptr_t)&first;
  tpu_run_all(&step, the_first_ones_gradient_is_the_sum);
}

// Everybody's values are gathered once for all, whoever asks for the first.
TEST(a_broadcast_is_one_value_for_all) {
  static const across first = first_of;
  const tpu_step step = {.fn = merge,
                         .user = (void *)(uintptr_t)&first,
                         .numbers = thirds,
                         .shape = LS_SHAPE(1)};
  size_t sizes[2];
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(2 + 6 * i);
    LS_OWN(tpu_run, run) = {0};
    LS_OWN(printed, text) = NULL;
    expect_ok(tpu_run_begin(&run, TPU_TRACED, s, &step));
    expect_ok(ls_function_print_lowered(run.function, &text));
    expect_contains(text, "all_gather");
    sizes[i] = 0;
    for (const char *at = text; *at != '\0'; ++at)
      sizes[i] += *at == '\n';
  }
  assert_int_equal(sizes[0] + 6, sizes[1]);  // A parameter each.
}

// ---- Local results ---------------------------------------------------------
static void look_at_local_results(ls_strategy *s) {
  const int n = ls_strategy_num_replicas(s);
  ls_tensor x[3];
  ls_nest items[3], tuple = ls_none();
  for (int r = 0; r < n; ++r) {
    x[r] = f32_of(r);
    items[r] = ls_leaf(x[r]);
  }
  const ls_nest value = ls_nest_distributed(LS_PER_REPLICA, items, (size_t)n);
  expect_ok(ls_strategy_local_results(s, value, &tuple));
  assert_int_equal(tuple.kind, LS_KIND_TUPLE);
  assert_int_equal(ls_nest_count(tuple), n);
  for (int r = 0; r < n; ++r)
    assert_true(ls_nest_tensor(tuple, (size_t)r).ref == x[r].ref);
  ls_nest_release(tuple);
  LS_OWN(ls_nest, nest) = LS_LIST(value, ls_nest_i64(9));
  expect_ok(ls_strategy_local_results(s, nest, &tuple));
  assert_int_equal(tuple.kind, LS_KIND_TUPLE);
  assert_int_equal(ls_nest_count(tuple), n);
  for (int r = 0; r < n; ++r) {
    const ls_nest own = ls_nest_item(tuple, (size_t)r);
    assert_int_equal(own.kind, LS_KIND_LIST);
    assert_true(ls_nest_tensor(own, 0).ref == x[r].ref);
    assert_true(ls_nest_number(ls_nest_item(own, 1)) == 9);
  }
  ls_nest_release(tuple);
  expect_ok(ls_strategy_local_results(s, ls_leaf(x[0]), &tuple));
  assert_int_equal(tuple.kind, LS_KIND_TUPLE);
  assert_int_equal(ls_nest_count(tuple), 1);
  assert_true(ls_nest_tensor(tuple, 0).ref == x[0].ref);
  ls_nest_release(tuple);
}

static ls_nest local_results_here(ls_nest args, void *user) {
  (void)user;
  look_at_local_results(ls_strategy_current());
  return ls_nest_retain(ls_nest_item(args, 0));
}

TEST(local_results_are_components) {
  LS_SPEC("T186");
  for (int n = 1; n <= 3; ++n) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
    look_at_local_results(s);
    computation c;
    computation_open(&c);
    look_at_local_results(s);
    computation_close(&c);
    for (int way = 0; way < NUM_TPU_WAYS; ++way) {
      LS_OWN(tpu_run, run) = {0};
      expect_ok(
          tpu_run_begin(&run, way, s, &(tpu_step){.fn = local_results_here}));
    }
  }
}
