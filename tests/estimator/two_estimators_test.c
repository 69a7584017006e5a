// SPDX-License-Identifier: Apache-2.0
//
// Two estimators in one runtime, on a system each: each trains on its own data,
// whichever system was initialized last, one after the other and at once.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory/allocator.h"
#include "lockstep/estimator.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/spec.h"

// One learns w with w x = y, x = 1.
typedef struct fitted {
  const char *pod, *job, *folder;
  bool by_name;  // The job is tpu_job_name's, and the system the master.
  double y;
  ls_tpu_resolver *resolver;
  ls_run_config *config;
  ls_estimator *estimator;
  counted *world;  // Of its thread.
  ls_status status;
} fitted;

static ls_status make_example(void *user, int64_t index, ls_nest out) {
  (void)index;
  *(float *)ls_nest_data(out, 0) = 1;
  *(float *)ls_nest_data(out, 1) = (float)((const fitted *)user)->y;
  return ls_ok();
}

static ls_nest input(void *user, ls_input_call *call) {
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = 64,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(1)),
                          ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(1))),
      .get = make_example,
      .user = user});
  if (call->mode != LS_MODE_PREDICT)
    data = ls_dataset_repeat(data, LS_INFINITE);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", 8)}));
}

static ls_input_function input_of(fitted *f) {
  return (ls_input_function){.call = input, .user = f};
}

static ls_status train_op(ls_tensor loss, ls_op *out) {
  ls_optimizer *inner = NULL, *outer = NULL;
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.2}, &inner));
  const ls_status status = ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = inner}, &outer);
  ls_optimizer_release(inner);
  LS_RETURN_IF_ERROR(status);
  *out = ls_train_op(outer, loss);
  ls_optimizer_release(outer);
  return ls_ok();
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  (void)user;
  ls_variable *w = NULL;
  LS_RETURN_IF_ERROR(ls_weight_create(
      &(ls_weight_options){.name = "w", .shape = LS_SHAPE(1)}, &w));
  const ls_tensor x = call->features.kind == LS_KIND_TENSOR
                          ? call->features.as.tensor
                          : ls_nest_tensor(call->features, 0);
  const ls_tensor guess = ls_mul(x, ls_variable_read(w));
  ls_variable_release(w);
  ls_estimator_spec_options o = {.mode = call->mode};
  if (call->mode == LS_MODE_PREDICT) {
    o.predictions = ls_nest_dict("", (const char *const[]){"guess"},
                                 (ls_nest[]){ls_leaf(guess)}, 1);
  } else {
    const ls_tensor d = ls_sub(guess, call->labels.as.tensor);
    o.loss = ls_reduce_mean(ls_mul(d, d), LS_ALL_AXES);
    if (call->mode == LS_MODE_TRAIN)
      LS_RETURN_IF_ERROR(train_op(o.loss, &o.train_op));
  }
  const ls_status status = ls_tpu_estimator_spec_create(&o, out);
  ls_nest_release(o.predictions);
  return status;
}

static void begin(fitted *f) {
  char command[100];
  snprintf(command, sizeof(command), "rm -rf '%s'", f->folder);
  assert_int_equal(system(command), 0);
  ls_tpu_config tpu = {.iterations_per_loop = "4"};
  ls_run_config_options o = {.tpu = &tpu};
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = f->pod, .job = f->job}, &f->resolver));
  if (f->by_name) {
    tpu.tpu_job_name = f->job;
    o.master = f->pod;
  } else {
    o.resolver = f->resolver;
  }
  expect_ok(ls_tpu_run_config_create(&o, &f->config));
  expect_ok(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = model},
                              .config = f->config,
                              .model_dir = f->folder,
                              .use_tpu = LS_FLAG_ON,
                              .train_batch_size = LS_SOME(8),
                              .eval_batch_size = LS_SOME(8),
                              .predict_batch_size = LS_SOME(8)},
      &f->estimator));
}

static void end(fitted *f) {
  ls_estimator_destroy(f->estimator);
  ls_run_config_release(f->config);
  ls_tpu_resolver_release(f->resolver);
}

static ls_status train(fitted *f, int64_t steps) {
  ls_training_end how;
  return ls_estimator_train(
      f->estimator,
      &(ls_estimator_training){.input = input_of(f), .steps = LS_SOME(steps)},
      &how);
}

static void expect_fitted(const fitted *f) {
  ls_array *w = NULL;
  expect_ok(ls_estimator_variable_value(f->estimator, "w", &w));
  const double value = ls_array_f64(w, 0);
  if (fabs(value - f->y) > 0.01)
    print_message("'%s' has learnt %g, not %g\n", f->folder, value, f->y);
  assert_true(fabs(value - f->y) <= 0.01);
  ls_array_release(w);
}

static ls_predictions *open_predictions(fitted *f) {
  ls_predictions *made = NULL;
  expect_ok(ls_estimator_predict(
      f->estimator, &(ls_estimator_prediction){.input = input_of(f)}, &made));
  return made;
}

static void expect_prediction(const fitted *f, ls_predictions *predictions) {
  ls_nest row = ls_none();
  expect_ok(ls_predictions_next(predictions, &row));
  assert_true(
      fabs(ls_array_f64(ls_nest_as_array(ls_nest_find(row, "guess")), 0) -
           f->y) <= 0.01);
  ls_nest_release(row);
}

// ---- One after the other ---------------------------------------------------
static const fitted pairs[][2] = {
    {{.pod = "virtual:2x1,cores=1", .job = "red"},
     {.pod = "virtual:2x1,cores=1", .job = "blue"}},
    {{.pod = "virtual:2x1,cores=1", .job = "red", .by_name = true},
     {.pod = "virtual:2x1,cores=1", .job = "blue", .by_name = true}},
    {{.pod = "local", .job = "red"},
     {.pod = "virtual:4x1,cores=1", .job = "blue"}},
    {{.pod = "virtual:2x1,cores=1,hosts=2", .job = "red"},
     {.pod = "virtual:2x2,cores=2,hosts=2", .job = "blue"}},
};
enum { ON_ONE_HOST = 3 };  // The first: there predictions are possible.

static void begin_pair(fitted two[2], size_t row) {
  for (int k = 0; k < 2; ++k) {
    two[k] = pairs[row][k];
    two[k].y = k == 0 ? 2 : -2;
    two[k].folder = k == 0 ? "red" : "blue";
    begin(&two[k]);
  }
}

// One's first run comes after the other's system was initialized: by a training
// that has open predictions behind it, or by hand.
TEST(each_trains_on_its_own_data) {
  for (size_t i = 0; i < ON_ONE_HOST; ++i) {
    counted c = counted_begin(0);
    fitted two[2];
    begin_pair(two, i);
    expect_ok(train(&two[1], 40));
    ls_predictions *open = open_predictions(&two[1]);
    expect_prediction(&two[1], open);
    expect_ok(train(&two[0], 40));
    expect_fitted(&two[0]);
    expect_fitted(&two[1]);
    for (int n = 0; n < 20; ++n)
      expect_prediction(&two[1], open);
    ls_predictions *other = open_predictions(&two[0]);
    for (int n = 0; n < 20; ++n) {
      expect_prediction(&two[0], other);
      expect_prediction(&two[1], open);
    }
    expect_ok(ls_predictions_close(open));
    expect_ok(train(&two[1], 8));
    expect_prediction(&two[0], other);
    expect_ok(ls_predictions_close(other));
    expect_ok(ls_tpu_initialize(two[1].resolver, NULL));
    expect_ok(train(&two[0], 8));
    for (int k = 0; k < 2; ++k) {
      expect_fitted(&two[k]);
      end(&two[k]);
    }
    counted_end(&c);
  }
}

// ---- At once ---------------------------------------------------------------
static void *train_there(void *user) {
  fitted *f = user;
  ls_runtime_make_current(f->world->runtime);
  for (int i = 0; i < 3 && ls_status_is_ok(f->status); ++i)
    f->status = train(f, 16);
  ls_runtime_make_current(NULL);
  return NULL;
}

TEST(two_train_at_once) {
  for (size_t i = 0; i < LS_COUNT_OF(pairs); ++i) {
    counted c = counted_begin(0);
    fitted two[2];
    pthread_t threads[2];
    begin_pair(two, i);
    for (int k = 0; k < 2; ++k) {
      two[k].world = &c;
      assert_int_equal(pthread_create(&threads[k], NULL, train_there, &two[k]),
                       0);
    }
    for (int k = 0; k < 2; ++k)
      assert_int_equal(pthread_join(threads[k], NULL), 0);
    for (int k = 0; k < 2; ++k) {
      expect_ok(two[k].status);
      expect_fitted(&two[k]);
      end(&two[k]);
    }
    counted_end(&c);
  }
}

// ---- In one job ------------------------------------------------------------
// Its devices would be the other's: it is refused by name, and waits for
// nobody.
TEST(a_second_system_of_a_job_in_use_is_refused) {
  counted c = counted_begin(0);
  fitted first = {.pod = "virtual:2x1,cores=1", .folder = "first", .y = 2};
  fitted second = {.pod = "virtual:4x1,cores=1", .folder = "second", .y = -2};
  begin(&first);
  begin(&second);
  expect_ok(train(&first, 40));
  expect_ok(train(&second, 40));
  ls_predictions *open = open_predictions(&first);
  expect_prediction(&first, open);
  expect_status(train(&second, 4), LS_FAILED_PRECONDITION,
                "TPU system 'virtual:4x1,cores=1' cannot be initialized: its "
                "job worker is that of TPU system 'virtual:2x1,cores=1'");
  for (int n = 0; n < 20; ++n)
    expect_prediction(&first, open);
  expect_ok(ls_predictions_close(open));
  expect_ok(train(&second, 4));
  expect_fitted(&first);
  expect_fitted(&second);
  end(&first);
  end(&second);
  counted_end(&c);
}

// The system of evaluations is of the job that its devices are named by.
TEST(a_system_to_evaluate_on_is_of_the_same_job) {
  counted c = counted_begin(0);
  fitted f = {
      .pod = "virtual:2x1,cores=1", .job = "red", .folder = "eval", .y = 2};
  ls_nest metrics = ls_none();
  begin(&f);
  ls_estimator_destroy(f.estimator);
  ls_run_config_release(f.config);
  expect_ok(ls_tpu_run_config_create(
      &(ls_run_config_options){
          .resolver = f.resolver,
          .evaluation_master = "virtual:4x1,cores=1",
          .tpu = &(ls_tpu_config){.iterations_per_loop = "4"}},
      &f.config));
  expect_ok(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = model},
                              .config = f.config,
                              .model_dir = f.folder,
                              .use_tpu = LS_FLAG_ON,
                              .train_batch_size = LS_SOME(8),
                              .eval_batch_size = LS_SOME(8)},
      &f.estimator));
  expect_ok(train(&f, 40));
  expect_ok(ls_estimator_evaluate(
      f.estimator,
      &(ls_estimator_evaluation){.input = input_of(&f), .steps = LS_SOME(4)},
      &metrics));
  assert_true(ls_nest_number(ls_nest_find(metrics, "loss")) < 0.01);
  ls_nest_release(metrics);
  end(&f);
  counted_end(&c);
}
