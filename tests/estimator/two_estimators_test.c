// SPDX-License-Identifier: Apache-2.0
//
// Two estimators in one runtime, on a system each: each trains on its own data,
// whichever system was initialized last, one after the other and at once.
#include <pthread.h>

#include "base/memory/allocator.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/fitted.h"
#include "support/spec.h"
#include "train/own.h"

LS_OWNED_STRUCT(fitted, fitted_end)

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
    fitted_begin(&two[k]);
  }
}

// One's first run comes after the other's system was initialized: by a training
// that has open predictions behind it, or by hand.
TEST(each_trains_on_its_own_data) {
  for (size_t i = 0; i < ON_ONE_HOST; ++i) {
    LS_OWN(counted, c) = counted_begin(0);
    fitted two[2];
    begin_pair(two, i);
    expect_ok(fitted_train(&two[1], 40));
    ls_predictions *open = fitted_predict(&two[1]);
    expect_prediction(&two[1], open);
    expect_ok(fitted_train(&two[0], 40));
    expect_fitted(&two[0]);
    expect_fitted(&two[1]);
    for (int n = 0; n < 20; ++n)
      expect_prediction(&two[1], open);
    ls_predictions *other = fitted_predict(&two[0]);
    for (int n = 0; n < 20; ++n) {
      expect_prediction(&two[0], other);
      expect_prediction(&two[1], open);
    }
    expect_ok(ls_predictions_close(open));
    expect_ok(fitted_train(&two[1], 8));
    expect_prediction(&two[0], other);
    expect_ok(ls_predictions_close(other));
    expect_ok(ls_tpu_initialize(two[1].resolver, NULL));
    expect_ok(fitted_train(&two[0], 8));
    for (int k = 0; k < 2; ++k) {
      expect_fitted(&two[k]);
      fitted_end(&two[k]);
    }
  }
}

// ---- At once ---------------------------------------------------------------
typedef struct training {
  fitted *fitted;
  const counted *world;  // Of its thread.
  ls_status status;
} training;

static void *train_there(void *user) {
  training *t = user;
  ls_runtime_make_current(t->world->runtime);
  for (int i = 0; i < 3 && ls_status_is_ok(t->status); ++i)
    t->status = fitted_train(t->fitted, 16);
  ls_runtime_make_current(NULL);
  return NULL;
}

static void train_both(fitted two[2], const counted *world) {
  training trainings[2];
  pthread_t threads[2];
  for (int k = 0; k < 2; ++k) {
    trainings[k] = (training){&two[k], world, ls_ok()};
    assert_int_equal(
        pthread_create(&threads[k], NULL, train_there, &trainings[k]), 0);
  }
  for (int k = 0; k < 2; ++k)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  for (int k = 0; k < 2; ++k)
    expect_ok(trainings[k].status);
}

TEST(two_train_at_once) {
  for (size_t i = 0; i < LS_COUNT_OF(pairs); ++i) {
    LS_OWN(counted, c) = counted_begin(0);
    fitted two[2];
    begin_pair(two, i);
    train_both(two, &c);
    for (int k = 0; k < 2; ++k) {
      expect_fitted(&two[k]);
      fitted_end(&two[k]);
    }
  }
}

// ---- In one job ------------------------------------------------------------
// Its devices would be the other's: it is refused by name, and waits for
// nobody.
TEST(a_second_system_of_a_job_in_use_is_refused) {
  LS_OWN(counted, c) = counted_begin(0);
  LS_OWN(fitted,
         first) = {.pod = "virtual:2x1,cores=1", .folder = "first", .y = 2};
  LS_OWN(fitted,
         second) = {.pod = "virtual:4x1,cores=1", .folder = "second", .y = -2};
  fitted_begin(&first);
  fitted_begin(&second);
  expect_ok(fitted_train(&first, 40));
  expect_ok(fitted_train(&second, 40));
  ls_predictions *open = fitted_predict(&first);
  expect_prediction(&first, open);
  expect_status(fitted_train(&second, 4), LS_FAILED_PRECONDITION,
                "TPU system 'virtual:4x1,cores=1' cannot be initialized: its "
                "job worker belongs to TPU system 'virtual:2x1,cores=1'");
  for (int n = 0; n < 20; ++n)
    expect_prediction(&first, open);
  expect_ok(ls_predictions_close(open));
  expect_ok(fitted_train(&second, 4));
  expect_fitted(&first);
  expect_fitted(&second);
}

// ---- On one system ---------------------------------------------------------
static void expect_in_use(fitted *f, const char *says) {
  ls_predictions *predictions = NULL;
  ls_nest metrics = ls_none();
  expect_status(fitted_train(f, 4), LS_FAILED_PRECONDITION, says);
  expect_status(
      ls_estimator_evaluate(f->estimator,
                            &(ls_estimator_evaluation){.input = fitted_input(f),
                                                       .steps = LS_SOME(1)},
                            &metrics),
      LS_FAILED_PRECONDITION, says);
  expect_status(
      ls_estimator_predict(f->estimator,
                           &(ls_estimator_prediction){.input = fitted_input(f)},
                           &predictions),
      LS_FAILED_PRECONDITION, says);
}

// Its end would shut the system down, and its tuples would be the other's.
TEST(a_system_has_one_estimator_at_a_time) {
  LS_OWN(counted, c) = counted_begin(0);
  LS_OWN(fitted,
         first) = {.pod = "virtual:2x1,cores=1", .folder = "first", .y = 2};
  LS_OWN(fitted,
         second) = {.pod = "virtual:2x1,cores=1", .folder = "second", .y = -2};
  LS_OWN(fitted, beside) = {
      .pod = "virtual:2x1,cores=1", .job = "blue", .folder = "beside", .y = -2};
  fitted_begin(&first);
  fitted_begin(&second);
  fitted_begin(&beside);
  expect_ok(fitted_train(&first, 40));
  expect_ok(fitted_train(&second, 40));
  ls_predictions *open = fitted_predict(&first);
  expect_prediction(&first, open);
  expect_in_use(&second,
                "the estimator in 'second' cannot use TPU system "
                "'virtual:2x1,cores=1' of job worker: that in 'first' has "
                "predictions open on it");
  for (int n = 0; n < 20; ++n)
    expect_prediction(&first, open);
  // Another system of that shape is not in use.
  expect_ok(fitted_train(&beside, 40));
  expect_ok(ls_predictions_close(open));
  expect_ok(fitted_train(&second, 4));
  expect_fitted(&first);
  expect_fitted(&second);
  expect_fitted(&beside);
}

// One that trains, while another is asked from a hook of it.
typedef struct asking_hook {
  fitted *other;
  int asked;
} asking_hook;

static ls_status ask_other(void *user, ls_run_context *context,
                           ls_nest results) {
  asking_hook *self = user;
  (void)context, (void)results;
  expect_in_use(self->other, "cannot use TPU system 'virtual:2x1,cores=1' of "
                             "job worker: that in 'first' trains on it");
  ++self->asked;
  return ls_ok();
}

TEST(a_training_keeps_its_system) {
  LS_OWN(counted, c) = counted_begin(0);
  LS_OWN(fitted,
         first) = {.pod = "virtual:2x1,cores=1", .folder = "first", .y = 2};
  LS_OWN(fitted,
         second) = {.pod = "virtual:2x1,cores=1", .folder = "second", .y = -2};
  asking_hook asking = {.other = &second};
  LS_OWN(ls_hook, hook) = NULL;
  ls_training_end how;
  fitted_begin(&first);
  fitted_begin(&second);
  expect_ok(ls_hook_create(
      &(ls_hook_options){.after_run = ask_other, .user = &asking}, &hook));
  expect_ok(
      ls_estimator_train(first.estimator,
                         &(ls_estimator_training){.input = fitted_input(&first),
                                                  .steps = LS_SOME(40),
                                                  .hooks = &hook,
                                                  .num_hooks = 1},
                         &how));
  assert_int_equal(asking.asked, 10);
  expect_fitted(&first);
  expect_ok(fitted_train(&second, 40));
  expect_fitted(&second);
}

// The system of evaluations is of the job that its devices are named by.
TEST(a_system_to_evaluate_on_is_of_the_same_job) {
  LS_OWN(counted, c) = counted_begin(0);
  LS_OWN(fitted, f) = {
      .pod = "virtual:2x1,cores=1", .job = "red", .folder = "eval", .y = 2};
  LS_OWN(ls_nest, metrics) = ls_none();
  fitted_begin(&f);
  ls_estimator_destroy(f.estimator);
  ls_run_config_release(f.config);
  expect_ok(fitted_open_with(
      &f, &(ls_run_config_options){
              .resolver = f.resolver,
              .evaluation_master = "virtual:4x1,cores=1",
              .tpu = &(ls_tpu_config){.iterations_per_loop = "4"}}));
  expect_ok(fitted_train(&f, 40));
  expect_ok(
      ls_estimator_evaluate(f.estimator,
                            &(ls_estimator_evaluation){
                                .input = fitted_input(&f), .steps = LS_SOME(4)},
                            &metrics));
  assert_true(ls_nest_number(ls_nest_find(metrics, "loss")) < 0.01);
}
