// SPDX-License-Identifier: Apache-2.0
#include "support/estimators.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/metrics.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "support/bystander.h"

// ---- Input -----------------------------------------------------------------
// Example i: a pattern of its class, i % 3, with some noise.
static ls_status make_example(void *user, int64_t index, ls_nest out) {
  (void)user;
  float *x = ls_nest_data(out, 0);
  int32_t *y = ls_nest_data(out, 1);
  uint64_t state = (uint64_t)index * 0x9e3779b97f4a7c15u + 12345;
  *y = (int32_t)(index % ESTIMATOR_CLASSES);
  for (int i = 0; i < ESTIMATOR_WIDTH; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = (float)(state >> 40) / (float)(1 << 24) * 0.5f +
           (i % ESTIMATOR_CLASSES == *y ? 0.5f : 0.0f);
  }
  return ls_ok();
}

static ls_nest input(void *user, ls_input_call *call) {
  estimator_case *c = user;
  const int64_t batch = ls_params_i64(call->params, "batch_size", c->batch);
  ++c->input_calls;
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = c->examples,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(ESTIMATOR_WIDTH)),
                          ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)),
      .get = make_example,
      .user = c,
  });
  if (c->repeats) data = ls_dataset_repeat(data, LS_INFINITE);
  return ls_nest_dataset(
      ls_dataset_batch(data, &(ls_batch_options){.size = batch}));
}

ls_input_function estimator_input(estimator_case *c) {
  return (ls_input_function){.call = input, .user = c};
}

// ---- The model -------------------------------------------------------------
static ls_tensor logits_of(ls_tensor x, ls_status *status) {
  ls_weight_options hidden = {.name = "hidden",
                              .shape = LS_SHAPE(ESTIMATOR_WIDTH, 8)};
  ls_weight_options out = {.name = "out",
                           .shape = LS_SHAPE(8, ESTIMATOR_CLASSES)};
  LS_OWN(ls_variable, w1) = NULL;
  LS_OWN(ls_variable, w2) = NULL;
  *status = ls_weight_create(&hidden, &w1);
  if (ls_status_is_ok(*status)) *status = ls_weight_create(&out, &w2);
  ls_tensor logits = ls_failed_tensor();
  if (ls_status_is_ok(*status))
    logits = ls_matmul(ls_relu(ls_matmul(x, ls_variable_read(w1))),
                       ls_variable_read(w2));
  return logits;
}

// With any_batch the count is the sum of the mask.
static ls_nest metrics(ls_nest tensors, void *user) {
  const estimator_case *c = user;
  const ls_tensor mask =
      c->any_batch ? ls_nest_tensor(tensors, 3) : ls_no_weights();
  const ls_tensor one =
      c->any_batch
          ? mask
          : ls_add_scalar(ls_mul_scalar(ls_nest_tensor(tensors, 2), 0), 1);
  return ls_nest_dict(
      "", (const char *const[]){"accuracy", "mean", "count"},
      (ls_nest[]){ls_metric_accuracy(ls_nest_tensor(tensors, 0),
                                     ls_nest_tensor(tensors, 1), mask,
                                     "accuracy"),
                  ls_metric_mean(ls_nest_tensor(tensors, 2), mask, "mean"),
                  ls_metric_sum(one, ls_no_weights(), "count")},
      3);
}

ls_status cross_shard_train_op(ls_tensor loss, ls_op *out) {
  ls_optimizer *inner = NULL, *outer = NULL;
  LS_RETURN_IF_ERROR(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.1, .momentum = 0.9}, &inner));
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
  estimator_case *c = user;
  ls_status status = ls_ok();
  ++c->model_calls;
  const ls_tensor x = call->features.kind == LS_KIND_TENSOR
                          ? call->features.as.tensor
                          : ls_nest_tensor(call->features, 0);
  const ls_tensor logits = logits_of(x, &status);
  LS_RETURN_IF_ERROR(status);
  const ls_tensor classes = ls_argmax(logits, 1);
  ls_estimator_spec_options o = {.mode = call->mode};
  LS_OWN(ls_nest, made) = ls_none();
  if (call->mode == LS_MODE_PREDICT) {
    made = ls_nest_dict(
        "", (const char *const[]){"probabilities", "classes"},
        (ls_nest[]){ls_leaf(ls_softmax(logits)), ls_leaf(classes)}, 2);
    o.predictions = made;
  } else {
    const ls_tensor labels = call->labels.as.tensor;
    const ls_tensor losses =
        ls_cross_entropy_loss(logits, labels, 0, LS_REDUCTION_NONE);
    o.loss = ls_tensor_is_failed(call->mask)
                 ? ls_reduce_loss(losses, LS_REDUCTION_MEAN)
                 : ls_weighted_mean(losses, call->mask);
    if (call->mode == LS_MODE_TRAIN)
      LS_RETURN_IF_ERROR(cross_shard_train_op(o.loss, &o.train_op));
    made = LS_LIST(ls_leaf(ls_convert(labels, LS_DTYPE_I32)),
                   ls_leaf(ls_convert(classes, LS_DTYPE_I32)), ls_leaf(losses));
    if (call->mode == LS_MODE_TRAIN && c->host_call != NULL)
      o.host_call = (ls_host_function){
          .call = c->host_call, .user = c->host_user, .tensors = made};
    if (call->mode == LS_MODE_EVAL)
      o.eval_metrics = (ls_host_function){
          .call = metrics, .user = c, .tensors = made};
  }
  status = ls_tpu_estimator_spec_create(&o, out);
  return status;
}

ls_model_function estimator_model(estimator_case *c) {
  return (ls_model_function){.call = model, .user = c};
}

// ---- The case --------------------------------------------------------------
static void set_config(estimator_case *c) {
  char name[40];
  ls_run_config_options o = c->config;
  ls_tpu_config tpu = {.iterations_per_loop =
                           c->iterations != NULL ? c->iterations : "2",
                       .host_call_every_n_steps = c->host_call_every};
  if (o.tpu != NULL) tpu = *o.tpu;
  if (o.tpu == NULL) o.tpu = &tpu;
  snprintf(name, sizeof(name), "virtual:%dx1,cores=1", c->replicas);
  if (c->way == ON_TPU && o.master == NULL && o.resolver == NULL)
    o.master = name;
  if (c->save_steps.set) o.save_checkpoints_steps = c->save_steps;
  if (c->way == IN_STRATEGY) {
    expect_ok(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(c->replicas)},
        &c->strategy));
    o.train_distribute = o.eval_distribute = c->strategy;
  }
  expect_ok(ls_tpu_run_config_create(&o, &c->made_config));
}

static void clear_folder(const char *folder) {
  char command[200];
  snprintf(command, sizeof(command), "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
}

void estimator_case_begin(estimator_case *c) {
  if (c->folder != NULL && !c->goes_on) clear_folder(c->folder);
  if (c->replicas == 0) c->replicas = 1;
  if (c->batch == 0) c->batch = 24;
  if (c->examples == 0) c->examples = 96;
  set_config(c);
  ls_estimator_options o = c->more;
  if (o.model_fn.call == NULL) o.model_fn = estimator_model(c);
  o.config = c->made_config;
  o.model_dir = c->folder;
  o.use_tpu = c->way == ON_TPU ? LS_FLAG_ON : LS_FLAG_OFF;
  o.any_batch = c->any_batch;
  if (!o.train_batch_size.set) o.train_batch_size = LS_SOME(c->batch);
  if (!o.eval_batch_size.set) o.eval_batch_size = LS_SOME(c->batch);
  if (!o.predict_batch_size.set) o.predict_batch_size = LS_SOME(c->batch);
  expect_ok(ls_estimator_create(&o, &c->estimator));
  if (c->way == ON_TPU) {
    char name[40];
    snprintf(name, sizeof(name), "virtual:%dx1,cores=1", c->replicas);
    bystander_begin(name);
  }
}

void estimator_case_end(estimator_case *c) {
  bystander_end(ls_runtime_current());
  ls_estimator_destroy(c->estimator);
  ls_run_config_release(c->made_config);
  ls_strategy_release(c->strategy);
}

ls_training_end estimator_case_train(estimator_case *c, int64_t max_steps) {
  ls_training_end end;
  expect_ok(ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){.input = estimator_input(c),
                               .max_steps = LS_SOME(max_steps)},
      &end));
  return end;
}

double estimator_metric(ls_nest metric_values, const char *name) {
  return ls_nest_number(ls_nest_find(metric_values, name));
}

static void expect_equal(const ls_array *a, const ls_array *b,
                         double tolerance) {
  assert_int_equal(ls_array_size(a), ls_array_size(b));
  if (tolerance == 0) {
    assert_memory_equal(ls_array_data(a), ls_array_data(b), ls_array_size(a));
    return;
  }
  for (int64_t i = 0; i < ls_array_num_elements(a); ++i)
    assert_true(fabs(ls_array_f64(a, i) - ls_array_f64(b, i)) <= tolerance);
}

void estimator_cases_expect_equal(const estimator_case *a,
                                  const estimator_case *b, double tolerance) {
  char **names = NULL;
  size_t count = 0;
  expect_ok(ls_estimator_variable_names(a->estimator, &names, &count));
  assert_true(count > 0);
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_array, x) = NULL;
    LS_OWN(ls_array, y) = NULL;
    expect_ok(ls_estimator_variable_value(a->estimator, names[i], &x));
    expect_ok(ls_estimator_variable_value(b->estimator, names[i], &y));
    expect_equal(x, y, tolerance);
  }
  ls_estimator_free_names(names, count);
}

ls_status estimator_receive(void *user, ls_serving_receiver *out) {
  (void)user;
  out->features = ls_leaf(ls_placeholder(
      LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, ESTIMATOR_WIDTH), "x"));
  return ls_ok();
}

ls_nest estimator_evaluate(estimator_case *c, ls_opt steps) {
  ls_nest metrics = ls_none();
  expect_ok(ls_estimator_evaluate(
      c->estimator,
      &(ls_estimator_evaluation){.input = estimator_input(c), .steps = steps},
      &metrics));
  return metrics;
}

ls_predictions *estimator_predict(estimator_case *c,
                                  ls_estimator_prediction prediction) {
  ls_predictions *made = NULL;
  prediction.input = estimator_input(c);
  expect_ok(ls_estimator_predict(c->estimator, &prediction, &made));
  return made;
}
