// SPDX-License-Identifier: Apache-2.0
//
// Reducing and broadcasting: across replicas and in them.
#include "lockstep/cross_device.h"
#include "lockstep/graph_ops.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"

#include <math.h>
#include <string.h>

#include "distribute/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

#define LOCAL "/job:localhost/replica:0/task:0/device:"

static ls_nest reduced(ls_strategy *strategy, ls_reduce_op op, ls_nest value,
                       const ls_reduce_options *options) {
  ls_nest made = ls_none();
  expect_ok(ls_strategy_reduce_with(strategy, op, value, options, &made));
  return made;
}

static ls_nest per_replica(ls_tensor a, ls_tensor b) {
  const ls_nest items[] = {ls_leaf(a), ls_leaf(b)};
  return ls_nest_distributed(LS_PER_REPLICA, items, 2);
}

// ---- Operations ------------------------------------------------------------
TEST(operations_have_names_in_any_case) {
  LS_SPEC("V184 M72");
  ls_reduce_op op = LS_REDUCE_MAX;
  expect_ok(ls_reduce_op_parse("sum", &op));
  assert_int_equal(op, LS_REDUCE_SUM);
  expect_ok(ls_reduce_op_parse("mEaN", &op));
  assert_int_equal(op, LS_REDUCE_MEAN);
  expect_ok(ls_reduce_op_parse("SUM", &op));
  assert_int_equal(op, LS_REDUCE_SUM);
  expect_status(ls_reduce_op_parse("max", &op), LS_INVALID_ARGUMENT, "'max'");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, value) = per_replica(scalar_of(1), scalar_of(2));
  const ls_destinations here = {.device = "/cpu:0"};
  ls_nest made = ls_none();
  for (int wrong = LS_REDUCE_MAX; wrong <= 9; wrong += 7) {
    const ls_reduce_op no = (ls_reduce_op)wrong;
    const char *says = wrong == 9 ? "reduce op 9 is" : "MAX is neither";
    expect_status(ls_strategy_reduce(strategy, no, value, &made),
                  LS_INVALID_ARGUMENT, says);
    expect_status(ls_strategy_reduce_to(strategy, no, value, here, &made),
                  LS_INVALID_ARGUMENT, says);
    expect_status(
        ls_strategy_batch_reduce_to(strategy, no, &value, &here, 1, &made),
        LS_INVALID_ARGUMENT, says);
  }
}

TEST(replicas_are_added_element_by_element) {
  LS_SPEC("V185 M77 M131");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_tensor a = eager_vector(LS_DTYPE_F32, (double[]){1, 2}, 2);
  const ls_tensor b = eager_vector(LS_DTYPE_F32, (double[]){3, 5}, 2);
  const ls_nest nest = LS_LIST(per_replica(a, b), per_replica(b, a));
  ls_nest made = reduced(strategy, LS_REDUCE_SUM, nest, NULL);
  expect_eager_vector(ls_nest_item(made, 0), (double[]){4, 7}, 2);
  expect_eager_vector(ls_nest_item(made, 1), (double[]){4, 7}, 2);
  // On the current device, else on the first CPU.
  const ls_op op = ls_tensor_op(ls_nest_tensor(made, 0));
  assert_string_equal(ls_op_device(op), LOCAL "CPU:0");
  ls_nest_release(made);
  {
    LS_DEVICE_SCOPE("/cpu:1");
    made = reduced(strategy, LS_REDUCE_MEAN, nest, NULL);
    expect_eager_vector(ls_nest_item(made, 0), (double[]){2, 3.5}, 2);
    assert_string_equal(ls_op_device(ls_tensor_op(ls_nest_tensor(made, 0))),
                        LOCAL "CPU:1");
    ls_nest_release(made);
  }
  ls_nest_release(nest);
  LS_OWN(ls_nest, uneven) = per_replica(a, scalar_of(1));
  const ls_status status =
      ls_strategy_reduce(strategy, LS_REDUCE_SUM, uneven, &made);
  expect_contains(ls_status_message(status), "f32[2]");
  expect_status(status, LS_INVALID_ARGUMENT, "f32[]");
}

TEST(an_axis_counts_elements) {
  LS_SPEC("V186 V187 M131");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_nest value =
      per_replica(eager_vector(LS_DTYPE_F32, (double[]){1, 2, 3, 4}, 4),
                  eager_vector(LS_DTYPE_F32, (double[]){5, 6}, 2));
  for (int axis = -1; axis < 1; ++axis) {
    const ls_reduce_options along = {.axes = &axis, .num_axes = 1};
    assert_true(number_of(reduced(strategy, LS_REDUCE_SUM, value, &along)) ==
                21);
    assert_true(number_of(reduced(strategy, LS_REDUCE_MEAN, value, &along)) ==
                3.5);
  }
  ls_nest made = ls_none();
  for (int axis = -2; axis < 2; axis += 3) {
    const ls_reduce_options along = {.axes = &axis, .num_axes = 1};
    const ls_status status =
        ls_strategy_reduce_with(strategy, LS_REDUCE_MEAN, value, &along, &made);
    expect_contains(ls_status_message(status), axis < 0 ? "axis -2" : "axis 1");
    expect_status(status, LS_INVALID_ARGUMENT, "rank 1");
  }
  ls_nest_release(value);
  // An empty tuple of axes: no reduction within a replica.
  const int none = 0;
  LS_OWN(ls_nest, even) =
      per_replica(eager_vector(LS_DTYPE_F32, (double[]){1, 2}, 2),
                  eager_vector(LS_DTYPE_F32, (double[]){3, 6}, 2));
  made = reduced(strategy, LS_REDUCE_MEAN, even,
                 &(ls_reduce_options){.axes = &none, .num_axes = 0});
  expect_eager_vector(made, (double[]){2, 4}, 2);
  // Several at once.
  const ls_tensor square = ls_reshape(
      eager_vector(LS_DTYPE_F32, (double[]){1, 2, 3, 4}, 4), LS_SHAPE(2, 2));
  LS_OWN(ls_nest, squares) = per_replica(square, square);
  static const int both[] = {0, -1};
  made = reduced(strategy, LS_REDUCE_MEAN, squares,
                 &(ls_reduce_options){.axes = both, .num_axes = 2});
  assert_true(number_of(made) == 2.5);
}

TEST(an_axis_is_reduced_in_every_item_of_a_map) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_nest items[] = {
      ls_leaf(eager_vector(LS_DTYPE_F32, (double[]){1, 2}, 2)),
      ls_leaf(eager_vector(LS_DTYPE_F32, (double[]){3, 4, 5}, 3)),
      ls_leaf(eager_vector(LS_DTYPE_F32, (double[]){6}, 1))};
  const ls_nest outputs[] = {ls_nest_distributed(LS_MAP_OUTPUT, items, 2),
                             ls_nest_distributed(LS_MAP_OUTPUT, items + 2, 1)};
  LS_OWN(ls_nest, value) = ls_nest_distributed(LS_PER_REPLICA, outputs, 2);
  const ls_reduce_options along = {.axes = (int[]){0}, .num_axes = 1};
  assert_true(number_of(reduced(strategy, LS_REDUCE_SUM, value, &along)) == 21);
  assert_true(number_of(reduced(strategy, LS_REDUCE_MEAN, value, &along)) ==
              3.5);
}

TEST(a_value_of_no_device_is_reduced_where_the_caller_is) {
  ls_strategy *strategy = NULL;
  size_t sums = 0;
  expect_ok(ls_strategy_default(&strategy));
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_nest row = ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1));
    {
      LS_DEVICE_SCOPE("/cpu:1");
      ls_nest_release(
          reduced(strategy, LS_REDUCE_SUM, row,
                  &(ls_reduce_options){.axes = (int[]){0}, .num_axes = 1}));
    }
    for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
      const ls_op op = ls_graph_op(graph, i);
      if (strcmp(ls_op_type_name(op), "reduce_sum") != 0) continue;
      assert_string_equal(ls_op_device(op), "/device:CPU:1");
      ++sums;
    }
  }
  assert_int_equal(sums, 1);
}

TEST(means_of_integers_are_true_divisions) {
  LS_SPEC("V188 M76");
  static const struct {
    ls_dtype from, to;
  } cases[] = {
      {LS_DTYPE_I32, LS_DTYPE_F64},   {LS_DTYPE_I64, LS_DTYPE_F64},
      {LS_DTYPE_I8, LS_DTYPE_F32},    {LS_DTYPE_I16, LS_DTYPE_F32},
      {LS_DTYPE_U8, LS_DTYPE_F32},    {LS_DTYPE_U16, LS_DTYPE_F32},
      {LS_DTYPE_F32, LS_DTYPE_F32},   {LS_DTYPE_F64, LS_DTYPE_F64},
      {LS_DTYPE_BF16, LS_DTYPE_BF16},
  };
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c) {
    LS_OWN(ls_nest, value) =
        per_replica(eager_vector(cases[c].from, (double[]){1, 2}, 2),
                    eager_vector(cases[c].from, (double[]){2, 4}, 2));
    const ls_nest made = reduced(strategy, LS_REDUCE_MEAN, value, NULL);
    assert_int_equal(ls_tensor_dtype(made.as.tensor), cases[c].to);
    expect_eager_vector(made, (double[]){1.5, 3}, 2);
  }
}

// The value of the only replica needs no wrapper.
TEST(the_only_replicas_mean_of_integers_is_a_float) {
  LS_SPEC("V188 M76");
  static const double weight = 3;
  const ls_reduce_options weighted = {.weights = &weight, .num_weights = 1};
  for (int tpu = 0; tpu < 2; ++tpu) {
    LS_OWN(ls_strategy, strategy) = tpu ? tpu_strategy_of(1) : mirrored_of(1);
    LS_OWN(ls_array, array) =
        array_of(LS_DTYPE_I32, LS_SHAPE(2), (const double[]){1, 2});
    const ls_nest values[] = {
        ls_leaf(eager_vector(LS_DTYPE_I32, (double[]){1, 2}, 2)),
        ls_nest_array(array)};
    for (size_t i = 0; i < 2; ++i) {
      LS_OWN(ls_nest, made) =
          reduced(strategy, LS_REDUCE_MEAN, values[i], NULL);
      LS_OWN(ls_nest, scaled) =
          reduced(strategy, LS_REDUCE_MEAN, values[i], &weighted);
      if (i == 1) {
        assert_int_equal(ls_array_dtype(ls_nest_as_array(made)), LS_DTYPE_F64);
        assert_true(nest_element(scaled, 1) == 2);
        continue;
      }
      assert_int_equal(ls_tensor_dtype(made.as.tensor), LS_DTYPE_F64);
      assert_int_equal(ls_tensor_dtype(scaled.as.tensor), LS_DTYPE_F64);
      expect_eager_vector(made, (double[]){1, 2}, 2);
      expect_eager_vector(scaled, (double[]){1, 2}, 2);
    }
    ls_nest copied = ls_none();
    expect_ok(ls_strategy_reduce_to(strategy, LS_REDUCE_MEAN, values[0],
                                    (ls_destinations){.device = "/cpu:0"},
                                    &copied));
    assert_int_equal(ls_tensor_dtype(copied.as.tensor), LS_DTYPE_F64);
    // A number of the host stays one.
    assert_true(number_of(reduced(strategy, LS_REDUCE_MEAN, ls_nest_i64(3),
                                  NULL)) == 3);
  }
}

TEST(the_mean_of_small_integers_is_one_of_them) {
  static const ls_dtype dtypes[] = {LS_DTYPE_I8, LS_DTYPE_U8, LS_DTYPE_I16};
  const ls_reduce_options all = {.axes = (int[]){0}, .num_axes = 1};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t i = 0; i < LS_COUNT_OF(dtypes); ++i) {
    const double most = dtypes[i] == LS_DTYPE_I16 ? 32766 : 126;
    LS_OWN(ls_nest, value) =
        per_replica(eager_vector(dtypes[i], (double[]){most, most}, 2),
                    eager_vector(dtypes[i], (double[]){most, 100}, 2));
    expect_eager_vector(reduced(strategy, LS_REDUCE_MEAN, value, NULL),
                        (double[]){most, (most + 100) / 2}, 2);
    assert_true(number_of(reduced(strategy, LS_REDUCE_MEAN, value, &all)) ==
                (3 * most + 100) / 4);
  }
}

TEST(a_mirrored_value_has_no_sum) {
  LS_SPEC("M129");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 6});
  const ls_nest values[] = {
      distributed_numbers(LS_MIRRORED, (double[]){6, 6}, 2),
      ls_nest_variable(v)};
  for (size_t i = 0; i < 2; ++i) {
    assert_true(number_of(reduced(strategy, LS_REDUCE_MEAN, values[i], NULL)) ==
                6);
    ls_nest made = ls_none();
    expect_status(ls_strategy_reduce(strategy, LS_REDUCE_SUM, values[i], &made),
                  LS_INVALID_ARGUMENT, "mirrored");
    ls_nest_release(values[i]);
  }
}

TEST(one_value_is_its_own_mean) {
  LS_SPEC("V190 M129");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, one) = mirrored_of(1);
  const ls_nest x = ls_leaf(scalar_of(4));
  assert_true(ls_nest_is_same(reduced(two, LS_REDUCE_MEAN, x, NULL), x));
  assert_true(number_of(reduced(one, LS_REDUCE_SUM, x, NULL)) == 4);
  ls_nest made = ls_none();
  expect_status(ls_strategy_reduce(two, LS_REDUCE_SUM, ls_nest_f64(2.5), &made),
                LS_INVALID_ARGUMENT, "SUM of 2.5");
  expect_status(ls_strategy_reduce(two, LS_REDUCE_SUM, x, &made),
                LS_INVALID_ARGUMENT, "tensor");
  assert_true(number_of(reduced(two, LS_REDUCE_SUM, ls_nest_i64(0), NULL)) ==
              0);
}

TEST(weights_weigh) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_nest, value) =
      per_replica_scalars((double[]){0.1f, 0.7f, (double)NAN}, 3);
  LS_OWN(ls_nest, numbers) =
      per_replica_scalars((double[]){0.1f, 0.7f, 0.3f}, 3);
  static const double some[] = {1, 3, 0}, ones[] = {1, 1, 1}, none[3] = {0};
  static const double negative[] = {1, -1, 1};
  static const double unknown[] = {1, (double)NAN, 1};
  const double got = number_of(
      reduced(strategy, LS_REDUCE_MEAN, value,
              &(ls_reduce_options){.weights = some, .num_weights = 3}));
  assert_true(got == (double)((0.1f + 3 * 0.7f) * (1.0f / 4)));
  // Ones give the bits of the plain mean.
  assert_true(number_of(reduced(
                  strategy, LS_REDUCE_MEAN, numbers,
                  &(ls_reduce_options){.weights = ones, .num_weights = 3})) ==
              number_of(reduced(strategy, LS_REDUCE_MEAN, numbers, NULL)));
  assert_true(isnan(number_of(
      reduced(strategy, LS_REDUCE_MEAN, numbers,
              &(ls_reduce_options){.weights = none, .num_weights = 3}))));
  ls_nest made = ls_none();
  static const struct {
    const double *weights;
    size_t count;
    const char *says;
  } wrong[] = {{negative, 3, "weight 1 is -1"},
               {unknown, 3, "weight 1"},
               {ones, 2, "2 weights for 3"}};
  for (size_t i = 0; i < 3; ++i)
    expect_status(ls_strategy_reduce_with(
                      strategy, LS_REDUCE_MEAN, numbers,
                      &(ls_reduce_options){.weights = wrong[i].weights,
                                           .num_weights = wrong[i].count},
                      &made),
                  LS_INVALID_ARGUMENT, wrong[i].says);
}

TEST(weights_are_checked_for_one_value_too) {
  LS_SPEC("M183");
  static const double ones[] = {1, 1, 1}, some[] = {0, 3, 1}, none[3] = {0};
  static const double negative[] = {1, -1, 1};
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  const ls_nest x = ls_leaf(scalar_of(4));
  assert_true(number_of(reduced(strategy, LS_REDUCE_MEAN, x,
                                &(ls_reduce_options){.weights = some,
                                                     .num_weights = 3})) == 4);
  assert_true(isnan(number_of(
      reduced(strategy, LS_REDUCE_MEAN, x,
              &(ls_reduce_options){.weights = none, .num_weights = 3}))));
  ls_nest made = ls_none();
  expect_status(ls_strategy_reduce_with(
                    strategy, LS_REDUCE_MEAN, x,
                    &(ls_reduce_options){.weights = ones, .num_weights = 2},
                    &made),
                LS_INVALID_ARGUMENT, "2 weights for 3");
  expect_status(ls_strategy_reduce_with(
                    strategy, LS_REDUCE_MEAN, x,
                    &(ls_reduce_options){.weights = negative, .num_weights = 3},
                    &made),
                LS_INVALID_ARGUMENT, "weight 1 is -1");
}

// ---- Destinations ----------------------------------------------------------
static const char *device_of(ls_nest leaf) {
  return ls_op_device(ls_tensor_op(ls_nest_tensor(leaf, 0)));
}

TEST(results_go_to_their_destinations) {
  LS_SPEC("V192");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 9});
  LS_OWN(ls_nest, value) = per_replica(scalar_of(1), scalar_of(2));
  LS_OWN(ls_nest, whole) = ls_nest_variable(v);
  ls_nest made = ls_none();
  expect_ok(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, value,
                                  (ls_destinations){.device = "/cpu:1"},
                                  &made));
  assert_int_equal(made.kind, LS_KIND_TENSOR);
  assert_true(number_of(made) == 3);
  assert_string_equal(device_of(made), LOCAL "CPU:1");
  expect_ok(ls_strategy_reduce_to(strategy, LS_REDUCE_MEAN, value,
                                  (ls_destinations){.value = whole}, &made));
  assert_true(ls_is_mirrored(made));
  expect_numbers(made, (double[]){1.5, 1.5}, 2);
  assert_string_equal(ls_distributed_device(made, 1), LOCAL "CPU:1");
  assert_string_equal(device_of(ls_distributed_component(made, 1)),
                      LOCAL "CPU:1");
  expect_components(v, (double[]){9, 9}, 2);  // Not written.
  const ls_nest mirrored = made;
  expect_ok(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, value,
                                  (ls_destinations){.value = mirrored}, &made));
  expect_numbers(made, (double[]){3, 3}, 2);
  ls_nest_release(made);
  ls_nest_release(mirrored);
  ls_tensor there = ls_failed_tensor();
  {
    LS_DEVICE_SCOPE("/cpu:1");
    there = scalar_of(0);
  }
  expect_ok(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, value,
                                  (ls_destinations){.value = ls_leaf(there)},
                                  &made));
  assert_string_equal(device_of(made), LOCAL "CPU:1");
  static const struct {
    ls_destinations where;
    const char *says;
  } wrong[] = {
      {{.device = ""}, "destinations can not be empty"},
      {{.device = "/foo:1"}, "'foo'"},
      {{.value = {.kind = LS_KIND_SCALAR, .dtype = LS_DTYPE_I64}},
       "destinations"},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); ++i)
    expect_status(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, value,
                                        wrong[i].where, &made),
                  LS_INVALID_ARGUMENT, wrong[i].says);
  expect_status(ls_strategy_reduce_to(
                    strategy, LS_REDUCE_SUM, value,
                    (ls_destinations){.value = ls_leaf(scalar_of(1))}, &made),
                LS_INVALID_ARGUMENT, "destinations can not be empty");
}

TEST(a_batch_gives_a_result_a_pair) {
  LS_SPEC("V193 M130");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_nest values[] = {per_replica(scalar_of(1), scalar_of(2)),
                            per_replica(scalar_of(30), scalar_of(40))};
  const ls_destinations to[] = {{.device = "/cpu:1"}, {.device = "/cpu:0"}};
  ls_nest made = ls_none();
  expect_ok(ls_strategy_batch_reduce_to(strategy, LS_REDUCE_SUM, values, to, 2,
                                        &made));
  assert_int_equal(made.kind, LS_KIND_LIST);
  assert_true(number_of(ls_nest_item(made, 0)) == 3);
  assert_true(number_of(ls_nest_item(made, 1)) == 70);
  assert_string_equal(device_of(ls_nest_item(made, 0)), LOCAL "CPU:1");
  assert_string_equal(device_of(ls_nest_item(made, 1)), LOCAL "CPU:0");
  ls_nest_release(made);
  expect_ok(ls_strategy_batch_reduce_to(strategy, LS_REDUCE_SUM, NULL, NULL, 0,
                                        &made));
  expect_printed(made, "[]");
  ls_nest_release(made);
  ls_nest_release(values[0]);
  ls_nest_release(values[1]);
}

TEST(a_tensor_is_broadcast_as_copies) {
  LS_SPEC("M127");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_nest x = ls_leaf(scalar_of(4));
  ls_nest made = ls_none();
  expect_ok(ls_strategy_broadcast_to(strategy, x, (ls_destinations){0}, &made));
  assert_true(ls_is_mirrored(made));
  expect_numbers(made, (double[]){4, 4}, 2);
  for (size_t i = 0; i < 2; ++i) {
    const ls_nest copy = ls_distributed_component(made, i);
    assert_false(ls_nest_is_same(copy, x));
    assert_string_equal(device_of(copy),
                        i == 0 ? LOCAL "CPU:0" : LOCAL "CPU:1");
  }
  ls_nest_release(made);
  expect_ok(ls_strategy_broadcast_to(
      strategy, x, (ls_destinations){.device = "/cpu:1"}, &made));
  assert_int_equal(made.kind, LS_KIND_TENSOR);
  assert_string_equal(device_of(made), LOCAL "CPU:1");
  expect_ok(ls_strategy_broadcast_to(strategy, ls_nest_f64(2.5),
                                     (ls_destinations){0}, &made));
  assert_true(ls_nest_is_same(made, ls_nest_f64(2.5)));
  expect_status(ls_strategy_broadcast_to(
                    strategy, x, (ls_destinations){.device = ""}, &made),
                LS_INVALID_ARGUMENT, "can not be empty");
}

// ---- In replicas -----------------------------------------------------------
static ls_nest reduce_in_replicas(ls_nest args, void *user) {
  (void)args;
  (void)user;
  const double r = ls_replica_number();
  ls_replica *replica = ls_replica_context();
  LS_OWN(ls_nest, given) = LS_LIST(ls_leaf(scalar_of(r + 1)),
                                   LS_TUPLE(ls_leaf(scalar_of(10 * (r + 1)))));
  LS_OWN(ls_nest, sums) = ls_replica_all_reduce(replica, LS_REDUCE_SUM, given);
  LS_OWN(ls_nest, means) =
      ls_replica_all_reduce(replica, LS_REDUCE_MEAN, given);
  assert_int_equal(sums.kind, LS_KIND_LIST);
  assert_true(number_of(ls_nest_item(sums, 0)) == 6);
  assert_true(number_of(ls_nest_item(ls_nest_item(sums, 1), 0)) == 60);
  assert_true(number_of(ls_nest_item(means, 0)) == 2);
  // Also as the op that a traced step would use.
  assert_true(
      number_of(ls_leaf(ls_all_reduce(LS_REDUCE_MAX, scalar_of(r + 1)))) == 3);
  assert_true(number_of(ls_leaf(ls_replica_id())) == r);
  LS_OWN(ls_nest, wrong) = ls_replica_all_reduce(replica, LS_REDUCE_MAX, given);
  expect_status(ls_nest_status(wrong), LS_INVALID_ARGUMENT,
                "by MAX, which is neither");
  return ls_none();
}

static ls_nest gather_in_replicas(ls_nest args, void *user) {
  (void)args;
  (void)user;
  const int r = ls_replica_number();
  const ls_tensor mine = eager_vector(LS_DTYPE_F32, (double[]){r, 5, 6}, r + 1);
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_leaf(mine));
  LS_OWN(ls_nest, all) = ls_replica_all_gather(ls_replica_context(), given, 0);
  expect_eager_vector(ls_nest_item(all, 0), (double[]){0, 1, 5, 2, 5, 6}, 6);
  return ls_none();
}

TEST(every_replica_gets_the_same) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  ls_nest_release(run_on(strategy, reduce_in_replicas, ls_none(), NULL));
  ls_nest_release(run_on(strategy, gather_in_replicas, ls_none(), NULL));
}

TEST(the_default_strategy_weighs_its_one_value) {
  LS_SPEC("M183");
  ls_strategy *strategy = NULL;
  expect_ok(ls_strategy_default(&strategy));
  static const double two[] = {2, 2}, none[] = {0}, negative[] = {-3};
  const ls_nest x = ls_leaf(scalar_of(4));
  assert_true(number_of(reduced(strategy, LS_REDUCE_MEAN, x,
                                &(ls_reduce_options){.weights = two,
                                                     .num_weights = 1})) == 4);
  assert_true(isnan(number_of(
      reduced(strategy, LS_REDUCE_MEAN, x,
              &(ls_reduce_options){.weights = none, .num_weights = 1}))));
  ls_nest made = ls_none();
  expect_status(ls_strategy_reduce_with(
                    strategy, LS_REDUCE_MEAN, x,
                    &(ls_reduce_options){.weights = two, .num_weights = 2},
                    &made),
                LS_INVALID_ARGUMENT, "2 weights for 1");
  expect_status(ls_strategy_reduce_with(
                    strategy, LS_REDUCE_MEAN, x,
                    &(ls_reduce_options){.weights = negative, .num_weights = 1},
                    &made),
                LS_INVALID_ARGUMENT, "weight 0 is -3");
}

TEST(a_missing_value_has_no_weight) {
  LS_SPEC("M183");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  static const double weights[] = {1, 4, 3}, of_none[] = {0, 5, 0};
  const ls_nest items[] = {ls_leaf(scalar_of(2)), ls_none(),
                           ls_leaf(scalar_of(6))};
  LS_OWN(ls_nest, value) = ls_nest_distributed(LS_PER_REPLICA, items, 3);
  assert_true(number_of(reduced(strategy, LS_REDUCE_MEAN, value,
                                &(ls_reduce_options){.weights = weights,
                                                     .num_weights = 3})) == 5);
  assert_true(isnan(number_of(
      reduced(strategy, LS_REDUCE_MEAN, value,
              &(ls_reduce_options){.weights = of_none, .num_weights = 3}))));
  const ls_nest missing[] = {ls_none(), ls_none(), ls_none()};
  LS_OWN(ls_nest, nothing) = ls_nest_distributed(LS_PER_REPLICA, missing, 3);
  ls_nest made = ls_none();
  expect_status(ls_strategy_reduce_with(
                    strategy, LS_REDUCE_MEAN, nothing,
                    &(ls_reduce_options){.weights = weights, .num_weights = 3},
                    &made),
                LS_INVALID_ARGUMENT, "must be non-empty");
}

static ls_nest weigh_in_replica(ls_nest args, void *user) {
  return ls_replica_weighted_mean(ls_replica_context(), ls_nest_item(args, 0),
                                  user, 2);
}

TEST(weights_are_finite_and_so_is_their_sum) {
  LS_SPEC("M183");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_strategy *plain = NULL;
  expect_ok(ls_strategy_default(&plain));
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica_scalars((double[]){3, 5}, 2));
  double wrong[][2] = {{(double)INFINITY, 1}, {1e38 * 3, 1e38 * 3}, {1e300, 0}};
  for (size_t i = 0; i < LS_COUNT_OF(wrong); ++i) {
    const ls_reduce_options options = {.weights = wrong[i], .num_weights = 2};
    const ls_reduce_options one = {.weights = wrong[i], .num_weights = 1};
    LS_OWN(ls_function, function) = function_of(weigh_in_replica, wrong[i]);
    ls_nest made = ls_none();
    expect_status(ls_strategy_reduce_with(strategy, LS_REDUCE_MEAN,
                                          ls_nest_item(args, 0), &options,
                                          &made),
                  LS_INVALID_ARGUMENT, "weight");
    for (int traced = 0; traced < 2; ++traced)
      expect_status(ls_strategy_run(strategy,
                                    traced
                                        ? ls_traced(function)
                                        : ls_plain(weigh_in_replica, wrong[i]),
                                    args, &made),
                    LS_INVALID_ARGUMENT, "weight");
    if (i != 1)
      expect_status(ls_strategy_reduce_with(plain, LS_REDUCE_MEAN,
                                            ls_leaf(scalar_of(4)), &one, &made),
                    LS_INVALID_ARGUMENT, "weight");
  }
}

TEST(weights_may_be_tiny_or_huge) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica_scalars((double[]){3, 5}, 2));
  double weights[][2] = {{1e-40, 1e-40}, {1e-60, 3e-60}, {0, 1e-300},
                         {5e-324, 0},    {3e38, 1e37},   {1e30, 3e30}};
  const double means[] = {4, 4.5, 5, 3, 95.0 / 31, 4.5};
  for (size_t i = 0; i < LS_COUNT_OF(weights); ++i) {
    LS_OWN(ls_function, function) = function_of(weigh_in_replica, weights[i]);
    const double mean = number_of(
        reduced(strategy, LS_REDUCE_MEAN, ls_nest_item(args, 0),
                &(ls_reduce_options){.weights = weights[i], .num_weights = 2}));
    assert_true(fabs(mean - means[i]) < 1e-6);
    for (int traced = 0; traced < 2; ++traced) {
      LS_OWN(ls_nest, made) = ls_none();
      expect_ok(ls_strategy_run(strategy,
                                traced ? ls_traced(function)
                                       : ls_plain(weigh_in_replica, weights[i]),
                                args, &made));
      assert_true(
          fabs(number_of(ls_distributed_component(made, 1)) - means[i]) < 1e-6);
    }
  }
}
