// SPDX-License-Identifier: Apache-2.0
//
// Batches whose examples lie along other axes than the first.
#include <math.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/element_spec.h"
#include "support/estimators.h"
#include "support/fed.h"

// ---- An estimator ----------------------------------------------------------
// The usual examples, as features [width, n] and labels [n].
static ls_nest transpose_element(ls_nest element, const ls_map_call *call,
                                 void *user) {
  const ls_array *x = ls_nest_as_array(ls_nest_item(element, 0));
  const int64_t rows = ls_array_shape(x).dim[0];
  (void)call, (void)user;
  const ls_nest made =
      ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(ESTIMATOR_WIDTH, rows));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < ESTIMATOR_WIDTH; ++k)
      ls_array_set_f64(ls_nest_as_array(made), k * rows + i,
                       ls_array_f64(x, i * ESTIMATOR_WIDTH + k));
  return LS_TUPLE(made, ls_nest_retain(ls_nest_item(element, 1)));
}

static ls_nest input(void *user, ls_input_call *call) {
  const ls_input_function rows = estimator_input(user);
  LS_OWN(ls_nest, made) = rows.call(rows.user, call);
  ls_dataset *turned = ls_dataset_map(
      ls_dataset_retain(ls_nest_as_dataset(made)),
      &(ls_map_options){
          .name = "transpose",
          .call = transpose_element,
          .result =
              LS_TUPLE(ls_nest_spec(LS_DTYPE_F32,
                                    LS_SHAPE(ESTIMATOR_WIDTH, LS_UNKNOWN_DIM)),
                       ls_nest_spec(LS_DTYPE_I32, LS_SHAPE(LS_UNKNOWN_DIM)))});
  return ls_nest_dataset(turned);
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  const ls_model_function rows = estimator_model(user);
  ls_model_call turned = *call;
  turned.features = ls_leaf(
      ls_transpose(ls_nest_tensor(call->features, 0), (const int[]){1, 0}));
  return rows.call(rows.user, &turned, out);
}

static const int64_t axes[] = {1, 0};

static ls_estimator_options turned(estimator_case *c) {
  return (ls_estimator_options){.model_fn = {.call = model, .user = c},
                                .batch_axis = axes,
                                .num_batch_axes = 2};
}

typedef struct numbers {
  double loss, mean, accuracy, count;
} numbers;

static numbers run(estimator_case *c, ls_input_function from, bool evaluates) {
  numbers n = {0};
  ls_nest metrics = ls_none();
  ls_training_end end = {0};
  estimator_case_begin(c);
  if (evaluates) {
    expect_ok(ls_estimator_evaluate(
        c->estimator, &(ls_estimator_evaluation){.input = from}, &metrics));
    n = (numbers){.loss = estimator_metric(metrics, "loss"),
                  .mean = estimator_metric(metrics, "mean"),
                  .accuracy = estimator_metric(metrics, "accuracy"),
                  .count = estimator_metric(metrics, "count")};
    ls_nest_release(metrics);
    return n;
  }
  expect_ok(ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){.input = from, .max_steps = LS_SOME(30)}, &end));
  // The last batch has 7 examples.
  assert_int_equal(end.step, 7);
  return n;
}

static estimator_case case_of(estimator_way way, int replicas) {
  return (estimator_case){.way = way,
                          .replicas = replicas,
                          .batch = 24,
                          .examples = 151,
                          .any_batch = true};
}

// The same model and examples on a CPU, with examples in rows.
static numbers wanted_of(estimator_case *c) {
  *c = case_of(ON_CPU, 1);
  c->folder = "axis-rows";
  (void)run(c, estimator_input(c), false);
  estimator_case_end(c);
  *c = case_of(ON_CPU, 1);
  c->folder = "axis-rows";
  c->goes_on = true;
  c->batch = 1000;
  return run(c, estimator_input(c), true);
}

TEST(examples_along_another_axis_count_once) {
  LS_SPEC("E214");
  static const struct {
    estimator_way way;
    int replicas;
    ls_tpu_config tpu;
  } ways[] = {
      {ON_CPU, 1, {.num_shards = {0}}},
      {ON_TPU, 1, {.num_shards = {0}}},
      {ON_TPU, 3, {.num_shards = {0}}},
      {ON_TPU, 8, {.num_shards = {0}}},
      {ON_TPU, 3, {.per_host_input = LS_INPUT_PER_HOST_V2}},
      {IN_STRATEGY, 1, {.num_shards = {0}}},
      {IN_STRATEGY, 3, {.num_shards = {0}}},
      {IN_STRATEGY, 8, {.num_shards = {0}}},
  };
  LS_OWN(estimator_case, rows) = {0};
  const numbers wanted = wanted_of(&rows);
  assert_true(wanted.count == 151);
  for (size_t w = 0; w < LS_COUNT_OF(ways); ++w) {
    LS_OWN(estimator_case, c) = {0};
    numbers got = {0};
    for (int evaluates = 0; evaluates < 2; ++evaluates) {
      c = case_of(ways[w].way, ways[w].replicas);
      c.folder = "axis";
      c.goes_on = evaluates == 1;
      c.config.tpu = &ways[w].tpu;
      c.more = turned(&c);
      got = run(&c, (ls_input_function){.call = input, .user = &c},
                evaluates == 1);
      if (evaluates == 0) estimator_case_end(&c);
    }
    assert_true(got.count == 151);
    assert_true(fabs(got.loss - wanted.loss) < 1e-5);
    assert_true(fabs(got.mean - wanted.mean) < 1e-5);
    assert_true(got.accuracy == wanted.accuracy);
    estimator_cases_expect_equal(&rows, &c, 1e-5);
  }
}

// ---- What is fed -----------------------------------------------------------
// Elements [2, n]: 1 to n, and 11 to 10 + n; and labels [n, 2] of pairs.
typedef struct columns {
  int64_t count;
  bool values;
} columns;

static ls_nest make_columns(void *user, int64_t index) {
  const columns *c = user;
  (void)index;
  const ls_nest made =
      LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2, c->count)),
               ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(c->count, 2)));
  for (int64_t i = 0; i < 2 * c->count; ++i) {
    const int64_t row = i / c->count, column = i % c->count;
    ls_array_set_f64(ls_nest_as_array(ls_nest_item(made, 0)), i,
                     (double)(10 * row + column + 1));
    ls_array_set_f64(ls_nest_as_array(ls_nest_item(made, 1)), i,
                     (double)(i + 1));
  }
  return made;
}

static ls_nest columns_input(void *user, ls_input_call *call) {
  const columns *c = user;
  (void)call;
  if (c->values) {
    LS_OWN(ls_nest, made) = make_columns(user, 0);
    return LS_TUPLE(
        ls_leaf(ls_constant(ls_nest_as_array(ls_nest_item(made, 0)))),
        ls_leaf(ls_constant(ls_nest_as_array(ls_nest_item(made, 1)))));
  }
  return ls_nest_dataset(ls_dataset_from_function(&(ls_index_options){
      .size = 1,
      .element =
          LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(2, LS_UNKNOWN_DIM)),
                   ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, 2))),
      .make = make_columns,
      .user = user}));
}

static fed_facts facts_of(columns *c, ls_estimator_mode mode) {
  return (fed_facts){
      .pod = "virtual:3x1,cores=1",
      .mode = mode,
      .batch = 9,
      .options = {.batch_axis = axes, .num_batch_axes = 2, .any_batch = true},
      .input = columns_input,
      .user = c};
}

static void expect_array(const ls_array *got, const double *wanted,
                         int64_t count) {
  assert_int_equal(ls_array_num_elements(got), count);
  for (int64_t i = 0; i < count; ++i)
    assert_true(ls_array_f64(got, i) == wanted[i]);
}

// Five examples on three cores: 2, 2, 1, each in room for three.
TEST(each_core_is_fed_its_share_of_columns) {
  static const double features[3][6] = {
      {1, 2, 0, 11, 12, 0}, {3, 4, 0, 13, 14, 0}, {5, 0, 0, 15, 0, 0}};
  static const double labels[3][6] = {
      {1, 2, 3, 4, 0, 0}, {5, 6, 7, 8, 0, 0}, {9, 10, 0, 0, 0, 0}};
  static const double masks[3][3] = {{1, 1, 0}, {1, 1, 0}, {1, 0, 0}};
  for (int values = 0; values < 2; ++values) {
    columns c = {.count = 5, .values = values == 1};
    LS_OWN_BEGUN(fed, f, fed_begin, facts_of(&c, LS_MODE_TRAIN));
    expect_ok(fed_run(&f, 1));
    for (int i = 0; i < 3; ++i) {
      LS_OWN(ls_nest, tuple) = fed_take(&f, 0, i);
      expect_array(ls_nest_as_array(ls_nest_item(tuple, 0)), features[i], 6);
      expect_array(ls_nest_as_array(ls_nest_item(tuple, 1)), labels[i], 6);
      expect_array(ls_nest_as_array(ls_nest_item(tuple, 2)), masks[i], 3);
    }
  }
}

TEST(axes_that_do_not_fit_are_refused) {
  static const int64_t too_high[] = {2, 0}, one[] = {1};
  columns c = {.count = 5, .values = true};
  fed_facts facts = facts_of(&c, LS_MODE_TRAIN);
  facts.options.batch_axis = too_high;
  fed_refused(facts, LS_INVALID_ARGUMENT, "batch_axis, here 2");
  c.values = false;
  fed_refused(facts, LS_INVALID_ARGUMENT, "along axis 2");
  // Of each tensor one.
  facts.options.batch_axis = one;
  facts.options.num_batch_axes = 1;
  fed_refused(facts, LS_INVALID_ARGUMENT, "axes for 1 tensors");
  // Slices are along the first axis.
  facts = facts_of(&c, LS_MODE_EVAL);
  facts.tpu.eval_training_input = LS_INPUT_SLICED;
  fed_refused(facts, LS_INVALID_ARGUMENT, "which cuts along axis 0");
}
