// SPDX-License-Identifier: Apache-2.0
#include "support/fitted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "support/expect.h"

enum { BATCH = 8, EXAMPLES = 64 };

// ---- Input -----------------------------------------------------------------
static ls_status make_example(void *user, int64_t index, ls_nest out) {
  (void)index;
  *(float *)ls_nest_data(out, 0) = 1;
  *(float *)ls_nest_data(out, 1) = (float)((const fitted *)user)->y;
  return ls_ok();
}

static ls_nest input(void *user, ls_input_call *call) {
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = EXAMPLES,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(1)),
                          ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(1))),
      .get = make_example,
      .user = user});
  if (call->mode != LS_MODE_PREDICT)
    data = ls_dataset_repeat(data, LS_INFINITE);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", BATCH)}));
}

ls_input_function fitted_input(fitted *f) {
  return (ls_input_function){.call = input, .user = f};
}

// ---- Model -----------------------------------------------------------------
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

// ---- The estimator ---------------------------------------------------------
ls_status fitted_open_with(fitted *f, const ls_run_config_options *options) {
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(options, &f->config));
  return ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = model},
                              .config = f->config,
                              .model_dir = f->folder,
                              .use_tpu = LS_FLAG_ON,
                              .train_batch_size = LS_SOME(BATCH),
                              .eval_batch_size = LS_SOME(BATCH),
                              .predict_batch_size = LS_SOME(BATCH)},
      &f->estimator);
}

ls_status fitted_open(fitted *f) {
  ls_tpu_config tpu = {.iterations_per_loop = "4"};
  ls_run_config_options o = {.tpu = &tpu};
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = f->pod, .job = f->job, .local = f->local},
      &f->resolver));
  if (f->by_name) {
    tpu.tpu_job_name = f->job;
    o.master = f->pod;
  } else {
    o.resolver = f->resolver;
  }
  return fitted_open_with(f, &o);
}

void fitted_begin(fitted *f) {
  char command[100];
  snprintf(command, sizeof(command), "rm -rf '%s'", f->folder);
  assert_int_equal(system(command), 0);
  expect_ok(fitted_open(f));
}

void fitted_end(fitted *f) {
  ls_estimator_destroy(f->estimator);
  ls_run_config_release(f->config);
  ls_tpu_resolver_release(f->resolver);
  f->estimator = NULL;
  f->config = NULL;
  f->resolver = NULL;
}

ls_status fitted_train(fitted *f, int64_t steps) {
  ls_training_end how;
  return ls_estimator_train(f->estimator,
                            &(ls_estimator_training){.input = fitted_input(f),
                                                     .steps = LS_SOME(steps)},
                            &how);
}

ls_status fitted_weight(const fitted *f, double *out_weight) {
  LS_OWN(ls_array, w) = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_variable_value(f->estimator, "w", &w));
  *out_weight = ls_array_f64(w, 0);
  return ls_ok();
}

void expect_fitted(const fitted *f) {
  double w = 0;
  expect_ok(fitted_weight(f, &w));
  if (fabs(w - f->y) > 0.01)
    print_message("'%s' has learnt %g, not %g\n", f->folder, w, f->y);
  assert_true(fabs(w - f->y) <= 0.01);
}

// ---- Predictions -----------------------------------------------------------
ls_predictions *fitted_predict(fitted *f) {
  ls_predictions *made = NULL;
  expect_ok(ls_estimator_predict(
      f->estimator, &(ls_estimator_prediction){.input = fitted_input(f)},
      &made));
  return made;
}

void expect_prediction(const fitted *f, ls_predictions *predictions) {
  LS_OWN(ls_nest, row) = ls_none();
  expect_ok(ls_predictions_next(predictions, &row));
  assert_true(
      fabs(ls_array_f64(ls_nest_as_array(ls_nest_find(row, "guess")), 0) -
           f->y) <= 0.01);
}
