// SPDX-License-Identifier: Apache-2.0
//
// Logical devices: annotations, their checks, and the scope that says which one
// is meant.
#include "lockstep/logical_device.h"

#include <stdio.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/logical_strategies.h"
#include "support/mlp.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "tpu/own.h"

static ls_strategy *with_cores(int replicas, int cores) {
  return logical_strategy(FLAVOUR_CURRENT, replicas, cores, LS_FLAG_DEFAULT);
}

static ls_tensor zeros_of(ls_shape shape) {
  return ls_broadcast(f32_of(0), shape);
}

static size_t append_attr(ls_op op, const char *name, char *text, size_t size) {
  const ls_attr *attr = NULL;
  const ls_status status = ls_op_attr(op, name, &attr);
  ls_status_free(status);
  if (attr == NULL) return 0;
  size_t at = (size_t)snprintf(text, size, " %s=[", name);
  for (size_t i = 0; i < attr->as.ints.count; ++i)
    at += (size_t)snprintf(text + at, size - at, "%s%lld", i == 0 ? "" : ",",
                           (long long)attr->as.ints.items[i]);
  return at + (size_t)snprintf(text + at, size - at, "]");
}

// Both of an op: its own attributes, and the mark.
static void expect_sharding(ls_tensor x, const char *wanted) {
  const ls_op op = ls_tensor_op(x);
  char own[200];
  assert_string_equal(ls_tensor_sharding(x), wanted);
  assert_string_equal(ls_op_type_name(op), "sharding");
  assert_string_equal(attr_text(op, "_XlaSharding"), wanted);
  size_t at =
      (size_t)snprintf(own, sizeof(own), "%s", attr_text(op, "sharding"));
  at += append_attr(op, "tile", own + at, sizeof(own) - at);
  append_attr(op, "devices", own + at, sizeof(own) - at);
  assert_string_equal(own, wanted);
}

// ---- What they say ---------------------------------------------------------
TEST(an_annotation_is_an_op_of_the_same_value) {
  LS_SPEC("T98 T100 T101 T102");
  LS_OWN(ls_strategy, four) = with_cores(1, 4);
  LS_OWN_BEGUN(computation, c, computation_open);
  ls_array *array =
      array_of(LS_DTYPE_F32, LS_SHAPE(4, 2), (const double[8]){1, 2, 3});
  const ls_tensor x = ls_constant(array);
  ls_array_release(array);
  assert_string_equal(ls_tensor_sharding(x), "");
  const ls_tensor assigned = ls_assign_to_logical_device(four, x, 3);
  expect_sharding(assigned, "maximal tile=[1] devices=[3]");
  const ls_tensor split =
      ls_split_to_logical_devices(four, x, (const int64_t[]){2, 2}, 2);
  expect_sharding(split, "tiled tile=[2,2] devices=[0,1,2,3]");
  const ls_tensor replicated = ls_replicate_to_logical_devices(four, x);
  expect_sharding(replicated, "replicated");
  const ls_tensor made[] = {assigned, split, replicated};
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(ls_tensor_dtype(made[i]), LS_DTYPE_F32);
    assert_int_equal(ls_tensor_shape(made[i]).dim[0], 4);
    assert_int_not_equal(ls_tensor_op(made[i]).id, ls_tensor_op(x).id);
    assert_true(computation_fetch(&c, ls_reduce_sum(made[i], LS_ALL_AXES)) ==
                6);
  }
  // The last one holds for who uses its result; the first stays what it was.
  const ls_tensor again = ls_assign_to_logical_device(four, replicated, 0);
  expect_sharding(again, "maximal tile=[1] devices=[0]");
  expect_sharding(replicated, "replicated");
  // Of a scalar, and of a dimension that is not known.
  const ls_tensor scalar = f32_of(3);
  expect_sharding(ls_assign_to_logical_device(four, scalar, 1),
                  "maximal tile=[1] devices=[1]");
  const ls_tensor fed =
      ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, 4), "fed");
  expect_sharding(
      ls_split_to_logical_devices(four, fed, (const int64_t[]){4, 1}, 2),
      "tiled tile=[4,1] devices=[0,1,2,3]");
}

// ---- What is refused -------------------------------------------------------
static void expect_refused(ls_tensor made, ls_code code, const char *says) {
  assert_true(ls_tensor_is_failed(made));
  expect_status(ls_graph_take_error(ls_graph_current()), code, says);
}

TEST(what_cannot_be_is_refused_in_order) {
  LS_SPEC("T98 T99 T100");
  LS_OWN(ls_strategy, four) = with_cores(1, 4);
  LS_OWN_BEGUN(computation, c, computation_open);
  const ls_tensor x = zeros_of(LS_SHAPE(4, 6));
  for (int i = 0; i < 2; ++i)
    expect_refused(ls_assign_to_logical_device(four, x, i == 0 ? 4 : -1),
                   LS_INVALID_ARGUMENT,
                   i == 0 ? "logical device 4 of" : "logical device -1 of");
  expect_refused(ls_assign_to_logical_device(four, x, 4), LS_INVALID_ARGUMENT,
                 "has 4 for each replica");
  const struct {
    int64_t parts[3];
    size_t count;
    const char *says;
  } rows[] = {
      // The rank comes first, whatever else is wrong.
      {{3, 5, 7}, 3, "rank 2 and parts for 3 dimensions"},
      {{3}, 1, "rank 2 and parts for 1 dimensions"},
      // Then the first dimension that cannot be cut.
      {{3, 5}, 2, "dimension 0 of size 4 is not divisible into 3"},
      {{2, 5}, 2, "dimension 1 of size 6 is not divisible into 5"},
      // Then the product.
      {{2, 1}, 2, "into 2 parts"},
      {{4, 2}, 2, "into 8 parts"},
      {{2, 1}, 2, "has 4 logical devices"},
      {{0, 2}, 2, "dimension 0 in 0 parts"},
      {{4, -1}, 2, "dimension 1 in -1 parts"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_refused(
        ls_split_to_logical_devices(four, x, rows[i].parts, rows[i].count),
        LS_INVALID_ARGUMENT, rows[i].says);
  // Sizes that are not known are not looked at; a rank is needed.
  const ls_tensor some =
      ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, 6), NULL);
  expect_refused(
      ls_split_to_logical_devices(four, some, (const int64_t[]){5, 4}, 2),
      LS_INVALID_ARGUMENT, "dimension 1 of size 6");
  const ls_tensor any = ls_placeholder(LS_DTYPE_F32, LS_SHAPE_UNKNOWN, NULL);
  expect_refused(
      ls_split_to_logical_devices(four, any, (const int64_t[]){2, 2}, 2),
      LS_INVALID_ARGUMENT, "unknown rank");
}

TEST(other_flavours_have_no_annotations) {
  LS_SPEC("T11");
  LS_OWN_BEGUN(computation, c, computation_open);
  const ls_tensor x = zeros_of(LS_SHAPE(2));
  const int64_t two = 2;
  static const char *const names[] = {"", "experimental TPU strategy",
                                      "V1 TPU strategy"};
  for (strategy_flavour f = FLAVOUR_EXPERIMENTAL; f < NUM_FLAVOURS; ++f) {
    LS_OWN(ls_strategy, s) = logical_strategy(f, 1, 2, LS_FLAG_DEFAULT);
    expect_refused(ls_assign_to_logical_device(s, x, 0), LS_UNIMPLEMENTED,
                   names[f]);
    expect_refused(ls_split_to_logical_devices(s, x, &two, 1), LS_UNIMPLEMENTED,
                   names[f]);
    expect_refused(ls_replicate_to_logical_devices(s, x), LS_UNIMPLEMENTED,
                   names[f]);
    assert_int_equal(ls_num_logical_devices(s), 2);
  }
  // Nor have other strategies; and where cores are one, no value is on one.
  LS_OWN(ls_strategy, other) = NULL;
  expect_ok(ls_mirrored_strategy_create(NULL, &other));
  expect_refused(ls_replicate_to_logical_devices(other, x), LS_INVALID_ARGUMENT,
                 "no TPU strategy");
  assert_int_equal(ls_num_logical_devices(other), 0);
  ls_strategy_release(other);
  other = logical_strategy(FLAVOUR_CURRENT, 1, 2, LS_FLAG_ON);
  expect_refused(ls_assign_to_logical_device(other, x, 1), LS_INVALID_ARGUMENT,
                 "(spmd)");
  expect_sharding(ls_split_to_logical_devices(other, x, &two, 1),
                  "tiled tile=[2] devices=[0,1]");
}

// ---- No result depends on them ---------------------------------------------
typedef struct step {
  ls_strategy *strategy;  // NULL: nothing is annotated.
  ls_variable *weights;
} step;

// A small model's loss and gradients, with annotations on nearly everything.
static ls_nest annotated(ls_nest args, void *user) {
  const step *s = user;
  static const int64_t halves[] = {1, 2};
  ls_tensor x = ls_nest_tensor(args, 0), w = ls_variable_read(s->weights);
  if (s->strategy != NULL) {
    x = ls_split_to_logical_devices(s->strategy, x, halves, 2);
    w = ls_replicate_to_logical_devices(s->strategy, w);
  }
  ls_tensor y = ls_tanh(ls_mul(x, w));
  if (s->strategy != NULL) y = ls_assign_to_logical_device(s->strategy, y, 1);
  const ls_tensor loss =
      ls_all_reduce(LS_REDUCE_SUM, ls_reduce_sum(y, LS_ALL_AXES));
  return LS_LIST(ls_leaf(loss), ls_leaf(y));
}

static ls_nest batch_of(int replicas) {
  ls_nest each[4];
  for (int r = 0; r < replicas; ++r) {
    const double values[] = {0.1 * r, 1, -2, 0.3};
    each[r] = ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1, 4), values));
  }
  return ls_nest_distributed(LS_PER_REPLICA, each, (size_t)replicas);
}

static ls_variable *weights_in(ls_strategy *strategy) {
  ls_variable *v = NULL;
  LS_OWN(ls_array, initial) = array_of(LS_DTYPE_F32, LS_SHAPE(1, 4),
                                       (const double[]){0.5, -0.25, 3, 0.125});
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w", .initial_array = initial}, &v));
  }
  return v;
}

// What a run gave: loss and y of the last replica, and the program.
typedef struct outcome {
  float numbers[5];
  char *program;
} outcome;

static void take(ls_nest results, int replicas, outcome *out) {
  for (size_t i = 0; i < 2; ++i) {
    ls_nest leaf = ls_nest_item(results, i);
    if (ls_distributed_count(leaf) > 0)
      leaf = ls_distributed_component(leaf, (size_t)replicas - 1);
    memcpy(out->numbers + i, ls_array_data(leaf.as.ref),
           (i == 0 ? 1 : 4) * sizeof(float));
  }
}

static void run_traced(ls_strategy *strategy, bool annotates, outcome *out) {
  const int replicas = ls_strategy_num_replicas(strategy);
  step s = {annotates ? strategy : NULL, weights_in(strategy)};
  LS_OWN(ls_function, f) = function_of(annotated, &s);
  LS_OWN(ls_nest, args) = LS_TUPLE(batch_of(replicas));
  LS_OWN(ls_nest, results) = strategy_results(strategy, ls_traced(f), args);
  expect_ok(ls_function_print_lowered(f, &out->program));
  take(results, replicas, out);
  ls_variable_release(s.weights);
}

static void run_in_session(ls_strategy *strategy, bool annotates,
                           outcome *out) {
  const int replicas = ls_strategy_num_replicas(strategy);
  LS_OWN_BEGUN(computation, c, computation_open);
  step s = {annotates ? strategy : NULL, weights_in(strategy)};
  computation_initialize(&c, s.weights);
  LS_OWN(ls_nest, data) = batch_of(replicas);
  ls_nest each[4];
  for (size_t r = 0; r < (size_t)replicas; ++r)
    each[r] = ls_leaf(ls_constant(ls_distributed_component(data, r).as.ref));
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, each, (size_t)replicas));
  expect_ok(
      ls_strategy_run(strategy, ls_plain(annotated, &s), args, &c.outputs));
  ls_nest fetches[2], results = ls_none();
  for (size_t i = 0; i < 2; ++i) {
    const ls_nest leaf = ls_nest_item(c.outputs, i);
    fetches[i] = replicas == 1
                     ? leaf
                     : ls_distributed_component(leaf, (size_t)replicas - 1);
  }
  LS_OWN(ls_nest, fetched) = LS_LIST(fetches[0], fetches[1]);
  expect_ok(ls_session_run(c.session, fetched, NULL, 0, &results));
  take(results, 1, out);
  ls_nest_release(results);
  ls_variable_release(s.weights);
}

TEST(no_result_depends_on_an_annotation) {
  LS_SPEC("T102");
  for (int replicas = 1; replicas <= 4; ++replicas) {
    LS_OWN(ls_strategy, strategy) = with_cores(replicas, 2);
    outcome plain = {0}, with = {0}, session = {0};
    run_traced(strategy, false, &plain);
    run_traced(strategy, true, &with);
    assert_memory_equal(plain.numbers, with.numbers, sizeof(plain.numbers));
    assert_string_equal(plain.program, with.program);
    run_in_session(strategy, true, &session);
    assert_memory_equal(plain.numbers, session.numbers, sizeof(plain.numbers));
    run_in_session(strategy, false, &session);
    assert_memory_equal(plain.numbers, session.numbers, sizeof(plain.numbers));
    ls_text_release(plain.program);
    ls_text_release(with.program);
  }
}

TEST(in_eager_it_is_its_operand) {
  LS_SPEC("T98 T99 T100 T101 T102");
  LS_OWN(ls_strategy, two) = with_cores(2, 2);
  expect_ok(ls_frame_begin());
  const ls_tensor x =
      eager_of(LS_DTYPE_F32, LS_SHAPE(2), (const double[]){3, 5});
  const int64_t halves = 2, thirds = 3;
  const ls_tensor made[] = {ls_assign_to_logical_device(two, x, 1),
                            ls_split_to_logical_devices(two, x, &halves, 1),
                            ls_replicate_to_logical_devices(two, x)};
  for (size_t i = 0; i < 3; ++i)
    expect_tensor(made[i], (const double[]){3, 5}, 2, 0);
  assert_true(ls_tensor_is_failed(ls_assign_to_logical_device(two, x, 2)));
  assert_true(
      ls_tensor_is_failed(ls_split_to_logical_devices(two, x, &thirds, 1)));
  expect_ok(ls_frame_end(NULL));
}

TEST(a_gradient_lies_where_its_value_does) {
  LS_OWN(ls_strategy, two) = with_cores(1, 2);
  LS_OWN_BEGUN(computation, c, computation_open);
  const ls_tensor x = f32_of(3);
  const ls_tensor y = ls_assign_to_logical_device(two, x, 1);
  const ls_nest xs = ls_leaf(x), ys = ls_leaf(ls_mul(y, y));
  ls_nest gradient = ls_none();
  expect_ok(ls_gradients(&ys, 1, &xs, 1, NULL, &gradient));
  const ls_tensor dx = gradient.as.tensor;
  expect_sharding(dx, "maximal tile=[1] devices=[1]");
  assert_true(computation_fetch(&c, dx) == 6);
  // And the gradient's own, which is that of x * x.
  ls_nest second = ls_none();
  expect_ok(ls_gradients(&gradient, 1, &xs, 1, NULL, &second));
  assert_true(computation_fetch(&c, second.as.tensor) == 2);
}

TEST(a_text_reads_back_with_its_annotations) {
  LS_OWN(ls_strategy, two) = with_cores(1, 2);
  LS_OWN_BEGUN(computation, c, computation_open);
  const int64_t halves[] = {2};
  ls_split_to_logical_devices(two, zeros_of(LS_SHAPE(4)), halves, 1);
  LS_OWN(ls_graph, read) = NULL;
  LS_OWN(printed, text) = graph_text(c.graph);
  expect_contains(text, "_XlaSharding");
  expect_ok(ls_graph_parse(text, NULL, 0, &read));
  LS_OWN(printed, again) = graph_text(read);
  assert_string_equal(text, again);
}

// ---- Scopes ----------------------------------------------------------------
// The column of worker devices, by the core's number.
static int column_of(const ls_strategy *strategy) {
  const char *devices[4] = {NULL}, *same[4] = {NULL};
  size_t count = 0;
  expect_ok(ls_strategy_worker_devices(strategy, devices, 4, &count));
  expect_ok(ls_strategy_parameter_devices(strategy, same, 4, &count));
  int column = -1;
  for (int32_t k = 0; k < ls_num_logical_devices(strategy); ++k) {
    ls_device_name name;
    expect_ok(ls_tpu_strategy_device(strategy, 0, k, &name));
    if (strcmp(name.text, devices[0]) == 0) column = k;
  }
  for (int32_t r = 0; r < (int32_t)count; ++r) {
    ls_device_name name;
    expect_ok(ls_tpu_strategy_device(strategy, r, column, &name));
    assert_string_equal(devices[r], name.text);
    assert_string_equal(same[r], name.text);
  }
  return column;
}

static bool leaves_early(const ls_strategy *s, int how) {
  for (int i = 0; i < 2; ++i) {
    LS_LOGICAL_DEVICE_SCOPE(s, 1);
    assert_int_equal(column_of(s), 1);
    if (how == 0) return true;
    if (how == 1) break;
    if (how == 2) goto out;
  }
out:
  return false;
}

TEST(the_innermost_scope_wins_and_every_exit_pops) {
  LS_SPEC("T48 T103");
  for (strategy_flavour f = 0; f < NUM_FLAVOURS; ++f) {
    LS_OWN(ls_strategy, s) = logical_strategy(f, 2, 3, LS_FLAG_DEFAULT);
    LS_OWN(ls_strategy, other) = with_cores(2, 3);
    assert_int_equal(column_of(s), 0);
    {
      LS_LOGICAL_DEVICE_SCOPE(s, 2);
      assert_int_equal(column_of(s), 2);
      assert_int_equal(column_of(other), 0);
      {
        LS_LOGICAL_DEVICE_SCOPE(other, 1);
        assert_int_equal(column_of(s), 2);
        assert_int_equal(column_of(other), 1);
        {
          LS_LOGICAL_DEVICE_SCOPE(s, 0);
          assert_int_equal(column_of(s), 0);
        }
        assert_int_equal(column_of(s), 2);
      }
      // A refused one changes nothing.
      static const int32_t none[] = {3, -1};
      for (int i = 0; i < 2; ++i) {
        LS_LOGICAL_DEVICE_SCOPE(s, none[i]);
        expect_status(ls_scope_status(), LS_INVALID_ARGUMENT,
                      i == 0 ? "logical device 3 of" : "logical device -1 of");
        expect_status(ls_scope_status(), LS_INVALID_ARGUMENT,
                      "has 3 for each replica");
      }
      assert_int_equal(column_of(s), 2);
    }
    assert_int_equal(column_of(s), 0);
    for (int how = 0; how < 4; ++how) {
      leaves_early(s, how);
      assert_int_equal(column_of(s), 0);
    }
  }
  LS_OWN(ls_strategy, mirrored) = NULL;
  expect_ok(ls_mirrored_strategy_create(NULL, &mirrored));
  {
    LS_LOGICAL_DEVICE_SCOPE(mirrored, 0);
    expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "no TPU strategy");
  }
}

// A callback that goes with the scope still open, or fails in it.
static ls_nest leave_open(ls_nest args, void *user) {
  static ls_scope open;
  open = (ls_scope){0};
  (void)args;
  ls_logical_device_scope_begin(&open, user, 1);
  return LS_FAIL(LS_ABORTED, "left");
}

TEST(a_failed_run_leaves_no_scope_open) {
  LS_SPEC("T103");
  LS_OWN(ls_strategy, s) = with_cores(2, 2);
  LS_OWN(ls_function, f) = function_of(leave_open, s);
  ls_nest result = ls_none();
  expect_status(ls_strategy_run(s, ls_traced(f), ls_none(), &result),
                LS_ABORTED, "left");
  assert_int_equal(column_of(s), 0);
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_status(ls_strategy_run(s, ls_plain(leave_open, s), ls_none(), &result),
                LS_ABORTED, "left");
  assert_int_equal(column_of(s), 0);
  assert_string_equal(ls_op_device(ls_tensor_op(f32_of(1))), "");
}

// ---- What it says of ops and variables -------------------------------------
static ls_nest place(ls_nest args, void *user) {
  ls_strategy *s = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_tensor y = x;
  {
    LS_LOGICAL_DEVICE_SCOPE(s, 1);
    assert_int_equal(column_of(s), 1);
    y = ls_add(y, y);
    assert_non_null(
        strstr(ls_op_device(ls_tensor_op(y)), "/device:TPU_REPLICATED_CORE:1"));
    {
      LS_REPLICA_LOGICAL_DEVICE_SCOPE(ls_replica_context(), 0);
      assert_int_equal(column_of(s), 0);
      y = ls_add(y, x);
      assert_non_null(strstr(ls_op_device(ls_tensor_op(y)),
                             "/device:TPU_REPLICATED_CORE:0"));
    }
    {
      LS_REPLICA_LOGICAL_DEVICE_SCOPE(ls_replica_context(), 2);
      expect_status(ls_scope_status(), LS_INVALID_ARGUMENT,
                    "logical device 2 of");
    }
    assert_int_equal(column_of(s), 1);
  }
  assert_null(strstr(ls_op_device(ls_tensor_op(ls_neg(y))), "CORE:1"));
  return ls_leaf(y);
}

TEST(in_a_computation_ops_are_placed_on_the_core) {
  LS_SPEC("T104 T105");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(ls_strategy, s) = with_cores(replicas, 2);
    ls_function *f = function_of(place, s);
    ls_nest each[3], result = ls_none();
    for (int r = 0; r < replicas; ++r)
      each[r] = ls_nest_array(
          array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){r + 1}));
    const ls_nest args =
        LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, each, (size_t)replicas));
    expect_ok(ls_strategy_run(s, ls_traced(f), args, &result));
    for (int r = 0; r < replicas; ++r)
      assert_true(ls_nest_number(replicas == 1
                                     ? result
                                     : ls_distributed_component(
                                           result, (size_t)r)) == 3 * (r + 1));
    ls_nest_release(result);
    ls_nest_release(args);
    ls_function_release(f);
    LS_OWN_BEGUN(computation, c, computation_open);
    for (int r = 0; r < replicas; ++r)
      each[r] = ls_leaf(f32_of(r + 1));
    const ls_nest given =
        LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, each, (size_t)replicas));
    expect_ok(ls_strategy_run(s, ls_plain(place, s), given, &c.outputs));
    const ls_nest last =
        replicas == 1
            ? c.outputs
            : ls_distributed_component(c.outputs, (size_t)replicas - 1);
    assert_true(computation_fetch(&c, last.as.tensor) == 3 * replicas);
    ls_nest_release(given);
    // Outside the scope says nothing of ops.
    {
      LS_LOGICAL_DEVICE_SCOPE(s, 1);
      assert_string_equal(ls_op_device(ls_tensor_op(f32_of(1))), "");
    }
  }
}

static ls_nest read_and_add(ls_nest args, void *user) {
  (void)args;
  ls_variable_assign_add(user, f32_of(2));
  return ls_leaf(ls_variable_read(user));
}

TEST(new_variables_are_on_the_column) {
  LS_SPEC("T104");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN(ls_strategy, s) = with_cores(2, 2);
    computation c = {0};
    if (in_graph) computation_open(&c);
    ls_variable *v = NULL;
    {
      LS_STRATEGY_SCOPE(s);
      LS_LOGICAL_DEVICE_SCOPE(s, 1);
      expect_ok(ls_variable_create(
          &(ls_variable_options){.dtype = LS_DTYPE_F32,
                                 .shape = LS_SCALAR,
                                 .aggregation = LS_AGGREGATION_MEAN},
          &v));
    }
    assert_int_equal(ls_variable_num_components(v), 2);
    for (int32_t r = 0; r < 2; ++r) {
      ls_device_name name;
      expect_ok(ls_tpu_strategy_device(s, r, 1, &name));
      assert_string_equal(
          ls_variable_device(ls_variable_component(v, (size_t)r)), name.text);
    }
    // It is used as any other.
    if (in_graph) {
      computation_initialize(&c, v);
      expect_ok(
          ls_strategy_run(s, ls_plain(read_and_add, v), ls_none(), &c.outputs));
      assert_true(computation_fetch(
                      &c, ls_distributed_component(c.outputs, 1).as.tensor) ==
                  2);
      ls_variable_release(v);
      computation_close(&c);
    } else {
      LS_OWN(ls_function, f) = function_of(read_and_add, v);
      LS_OWN(ls_nest, result) = ls_none();
      for (int i = 1; i <= 2; ++i) {
        expect_ok(ls_strategy_run(s, ls_traced(f), ls_none(), &result));
        assert_true(ls_nest_number(ls_distributed_component(result, 1)) ==
                    2 * i);
      }
      ls_variable_release(v);
    }
  }
}

// ---- Cores as one ----------------------------------------------------------
static ls_nest give_back(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_tensor placed;
  {
    LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:1");
    placed = ls_neg(x);
  }
  return LS_LIST(ls_leaf(x), ls_leaf(placed));
}

// The identity within the computation that result i goes through.
static const char *device_of_output(computation *c, size_t i) {
  const ls_tensor shard =
      ls_nest_item(ls_nest_item(c->outputs, 0), i).as.tensor;
  const ls_op output = ls_tensor_op(ls_op_input(ls_tensor_op(shard), 0));
  assert_string_equal(ls_op_type_name(output), "tpu_replicated_output");
  return ls_op_device(ls_tensor_op(ls_op_input(output, 0)));
}

TEST(outputs_are_pinned_unless_cores_are_one) {
  LS_SPEC("T107");
  for (int spmd = 0; spmd < 2; ++spmd)
    for (int cores = 0; cores <= 2; ++cores)
      for (int replicas = 1; replicas <= (cores == 0 ? 1 : 3); ++replicas) {
        LS_OWN(ls_device_assignment, assignment) =
            cores == 0 ? NULL : logical_assignment(replicas, cores);
        LS_OWN_BEGUN(computation, c, computation_open);
        const ls_nest inputs = computation_inputs((size_t)replicas);
        expect_ok(ls_replicate(give_back, NULL, inputs,
                               &(ls_replicate_options){
                                   .assignment = assignment,
                                   .xla.spmd = spmd ? LS_FLAG_ON : LS_FLAG_OFF},
                               &c.outputs));
        ls_nest_release(inputs);
        const bool partitioned = spmd && cores > 1;
        assert_string_equal(device_of_output(&c, 0),
                            partitioned ? "" : "/device:TPU_REPLICATED_CORE:0");
        assert_string_equal(device_of_output(&c, 1),
                            partitioned ? "" : "/device:TPU_REPLICATED_CORE:1");
        for (int r = 0; r < replicas; ++r) {
          assert_true(computation_output(&c, (size_t)r, 0) == r + 1);
          assert_true(computation_output(&c, (size_t)r, 1) == -r - 1);
        }
      }
}

static ls_nest same(ls_nest args, void *user) {
  (void)user;
  (void)args;
  return ls_leaf(ls_replica_id());
}

TEST(a_run_passes_the_strategys_flag) {
  for (int spmd = 0; spmd < 2; ++spmd) {
    LS_OWN(ls_strategy, s) = logical_strategy(
        FLAVOUR_CURRENT, 2, 2, spmd ? LS_FLAG_ON : LS_FLAG_DEFAULT);
    LS_OWN_BEGUN(computation, c, computation_open);
    expect_ok(ls_strategy_run(s, ls_plain(same, NULL), ls_none(), &c.outputs));
    const ls_attr *attr = NULL;
    expect_ok(ls_op_attr(op_named(c.graph, "tpu_replicate_metadata"),
                         "use_spmd", &attr));
    assert_int_equal(attr->as.i, spmd);
    assert_true(computation_fetch(
                    &c, ls_distributed_component(c.outputs, 1).as.tensor) == 1);
  }
}
