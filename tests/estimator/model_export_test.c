// SPDX-License-Identifier: Apache-2.0
// Exports of an estimator's model, on every path.
#include "lockstep/estimator_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/ops.h"
#include "lockstep/training_parts.h"
#include "support/estimators.h"
#include "support/fault.h"

typedef struct receiving {
  int calls;
  bool bare;  // Features are the placeholder, and inputs are not said.
} receiving;

static ls_status receive(void *user, ls_serving_receiver *out) {
  receiving *r = user;
  ++r->calls;
  const ls_tensor x = ls_placeholder(
      LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, ESTIMATOR_WIDTH), "x");
  out->features = ls_leaf(x);
  if (!r->bare)
    out->inputs = ls_nest_dict("", (const char *const[]){"pixels"},
                               (ls_nest[]){ls_leaf(x)}, 1);
  return ls_ok();
}

static void clear(const char *folder) {
  char command[200];
  snprintf(command, sizeof(command), "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
}

static bool is_there(const char *folder, const char *name) {
  char command[400];
  snprintf(command, sizeof(command), "test -e '%s/%s'", folder, name);
  return system(command) == 0;
}

// ---- What is served is what is predicted -----------------------------------
enum { ROWS = 24 };

static ls_array *features_of(void) {
  ls_array *x = NULL;
  float *at = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ROWS, ESTIMATOR_WIDTH), &x));
  at = ls_array_mutable_data(x);
  for (int i = 0; i < ROWS * ESTIMATOR_WIDTH; ++i)
    at[i] = (float)(i % 17) / 17.0f;
  return x;
}

static ls_nest rows(void *user, ls_input_call *call) {
  (void)user;
  ls_dataset *data = ls_dataset_from_arrays(ls_nest_array(features_of()));
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", ROWS)}));
}

static ls_nest predict_all(estimator_case *c) {
  ls_predictions *predictions = NULL;
  ls_nest row = ls_none();
  expect_ok(ls_estimator_predict(
      c->estimator,
      &(ls_estimator_prediction){.input = {.call = rows}, .batches = true},
      &predictions));
  expect_ok(ls_predictions_next(predictions, &row));
  expect_ok(ls_predictions_close(predictions));
  return row;
}

static void expect_serves(const char *folder, const char *const *tags,
                          size_t num_tags, const char *input,
                          ls_nest predicted) {
  ls_serving *serving = NULL;
  ls_nest outputs = ls_none();
  expect_ok(ls_serving_load(
      folder, &(ls_serving_load_options){.tags = tags, .num_tags = num_tags},
      &serving));
  const ls_nest inputs =
      ls_nest_dict("", &input, (ls_nest[]){ls_nest_array(features_of())}, 1);
  expect_ok(ls_serving_run(serving, NULL, inputs, &outputs));
  const ls_array *got =
                     ls_nest_as_array(ls_nest_find(outputs, "probabilities")),
                 *want =
                     ls_nest_as_array(ls_nest_find(predicted, "probabilities"));
  assert_int_equal(ls_array_size(got), ls_array_size(want));
  assert_memory_equal(ls_array_data(got), ls_array_data(want),
                      ls_array_size(got));
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_serving_destroy(serving);
}

TEST(exports_predict_what_the_estimator_does) {
  LS_SPEC("E151 E194 E195 E196");
  static const char *const tpu[] = {LS_SERVING_TAG, LS_SERVING_TPU_TAG};
  for (int way = 0; way < 3; ++way) {
    for (int replicas = 1; replicas <= 3; replicas += 2) {
      if (way == ON_CPU && replicas > 1) continue;
      LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                   .replicas = replicas,
                                   .folder = "exported",
                                   .repeats = true};
      receiving r = {.bare = replicas == 3};
      LS_OWN(printed, path) = NULL;
      estimator_case_begin(&c);
      estimator_case_train(&c, 6);
      clear("exports");
      const int before = c.model_calls;
      expect_ok(ls_estimator_export(
          c.estimator,
          &(ls_estimator_exporting){
              .base = "exports",
              .receiver = {.call = receive, .user = &r},
              .assets =
                  (ls_serving_asset[]){{"words/graph.ls", "exported/graph.ls"}},
              .num_assets = 1},
          &path));
      // The model is called once for each graph.
      assert_int_equal(r.calls, way == ON_TPU ? 2 : 1);
      assert_int_equal(c.model_calls - before, r.calls);
      assert_true(is_there(path, "serve.ls"));
      assert_int_equal(is_there(path, "serve+tpu.ls"), way == ON_TPU);
      assert_true(is_there(path, "assets.extra/words/graph.ls"));
      assert_false(is_there(path, "model.onnx"));
      LS_OWN(ls_nest, predicted) = predict_all(&c);
      const char *input = r.bare ? "input" : "pixels";
      expect_serves(path, NULL, 0, input, predicted);
      if (way == ON_TPU) expect_serves(path, tpu, 2, input, predicted);
    }
  }
}

// ---- How the model is called -----------------------------------------------
typedef struct seeing {
  estimator_case *c;
  bool has_batch[8], has_context[8], is_tpu[8];
  int calls;
} seeing;

static ls_status see(void *user, ls_model_call *call,
                     ls_estimator_spec **out_spec) {
  seeing *s = user;
  assert_true(s->calls < 8);
  s->has_batch[s->calls] = ls_params_i64(call->params, "batch_size", -1) >= 0;
  s->has_context[s->calls] = ls_params_context(call->params) != NULL;
  s->is_tpu[s->calls++] = ls_params_i64(call->params, "use_tpu", -1) == 1;
  const ls_model_function model = estimator_model(s->c);
  return model.call(model.user, call, out_spec);
}

TEST(a_model_is_exported_without_a_batch_size) {
  LS_SPEC("E151 E194");
  // 25 is no multiple of the cores, which a prediction refuses.
  LS_OWN(estimator_case, c) = {.way = ON_TPU,
                               .replicas = 3,
                               .folder = "seen",
                               .repeats = true,
                               .more = {.predict_batch_size = LS_SOME(25)}};
  seeing s = {.c = &c};
  receiving r = {0};
  LS_OWN(printed, path) = NULL;
  c.more.model_fn = (ls_model_function){.call = see, .user = &s};
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  assert_true(s.has_batch[0] && s.has_context[0] && s.is_tpu[0]);
  const int first = s.calls;
  expect_ok(ls_estimator_export(
      c.estimator,
      &(ls_estimator_exporting){.base = "exports",
                                .receiver = {.call = receive, .user = &r}},
      &path));
  assert_int_equal(s.calls, first + 2);
  for (int i = first; i < s.calls; ++i)
    assert_false(s.has_batch[i] || s.has_context[i] || s.is_tpu[i]);
  // What comes behind it is no export.
  const int again = s.calls;
  estimator_case_train(&c, 4);
  assert_true(s.calls > again && s.has_batch[again] && s.has_context[again]);
}

// ---- Others ----------------------------------------------------------------
TEST(a_model_of_cpus_is_exported_for_tpus) {
  LS_SPEC("E196");
  static const char *const tpu[] = {LS_SERVING_TAG, LS_SERVING_TPU_TAG};
  for (int way = 0; way < 3; way += 2) {
    LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                 .replicas = 2,
                                 .folder = "wrapped",
                                 .repeats = true};
    receiving r = {0};
    LS_OWN(printed, path) = NULL;
    if (way == ON_CPU) c.replicas = 1;
    estimator_case_begin(&c);
    estimator_case_train(&c, 4);
    expect_ok(ls_estimator_export_for_tpu(
        c.estimator,
        &(ls_estimator_exporting){.base = "exports",
                                  .receiver = {.call = receive, .user = &r}},
        &path));
    assert_true(is_there(path, "serve+tpu.ls"));
    LS_OWN(ls_nest, predicted) = predict_all(&c);
    expect_serves(path, tpu, 2, "pixels", predicted);
  }
}

TEST(files_for_others_are_written_where_asked_for) {
  LS_OWN(estimator_case, c) = {.folder = "others", .repeats = true};
  receiving r = {0};
  LS_OWN(printed, path) = NULL;
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  expect_ok(ls_estimator_export(
      c.estimator,
      &(ls_estimator_exporting){.base = "exports",
                                .receiver = {.call = receive, .user = &r},
                                .onnx = LS_FLAG_ON,
                                .stablehlo = LS_FLAG_ON,
                                .batch_size = 5},
      &path));
  assert_true(is_there(path, "model.onnx"));
  assert_true(is_there(path, "serve.stablehlo.mlir"));
  char command[400];
  snprintf(command, sizeof(command),
           "grep -q 'tensor<5x6xf32>' '%s/serve.stablehlo.mlir'", path);
  assert_int_equal(system(command), 0);
}

TEST(without_a_checkpoint_a_warm_start_is_exported) {
  LS_SPEC("E196");
  LS_OWN(estimator_case, from) = {.folder = "warm-from", .repeats = true};
  estimator_case_begin(&from);
  estimator_case_train(&from, 4);
  const ls_warm_start warm = {.path = "warm-from"};
  LS_OWN(estimator_case, c) = {
      .folder = "warm-to", .repeats = true, .more = {.warm_start = &warm}};
  receiving r = {0};
  LS_OWN(printed, path) = NULL;
  estimator_case_begin(&c);
  expect_ok(ls_estimator_export(
      c.estimator,
      &(ls_estimator_exporting){.base = "exports",
                                .receiver = {.call = receive, .user = &r}},
      &path));
  LS_OWN(ls_nest, predicted) = predict_all(&from);
  expect_serves(path, NULL, 0, "pixels", predicted);
}

// ---- What is refused -------------------------------------------------------
static ls_status fails(void *user, ls_serving_receiver *out) {
  (void)user;
  (void)out;
  return ls_invalid_argument("this receiver is tired");
}

TEST(what_cannot_be_exported_is_refused) {
  LS_SPEC("E194 E196");
  LS_OWN(estimator_case,
         c) = {.way = ON_TPU, .folder = "refused", .repeats = true};
  receiving r = {0};
  char *path = NULL;
  estimator_case_begin(&c);
  ls_estimator_exporting e = {.base = "refused-exports",
                              .receiver = {.call = receive, .user = &r}};
  clear("refused-exports");
  expect_status(ls_estimator_export(c.estimator, &e, &path),
                LS_FAILED_PRECONDITION, "model_dir: refused");
  estimator_case_train(&c, 2);
  ls_estimator_exporting other = e;
  other.receiver.call = NULL;
  expect_status(ls_estimator_export(c.estimator, &other, &path),
                LS_INVALID_ARGUMENT, "receiver_fn");
  other = e;
  other.receiver.call = fails;
  expect_status(ls_estimator_export(c.estimator, &other, &path),
                LS_INVALID_ARGUMENT, "tired");
  other = e;
  other.mode = LS_MODE_EVAL;
  expect_status(ls_estimator_export(c.estimator, &other, &path),
                LS_UNIMPLEMENTED, "'eval'");
  other = e;
  other.checkpoint = "refused/model.ckpt-99";
  expect_status(ls_estimator_export(c.estimator, &other, &path), LS_NOT_FOUND,
                "model.ckpt-99");
  other = e;
  other.base = NULL;
  expect_status(ls_estimator_export(c.estimator, &other, &path),
                LS_INVALID_ARGUMENT, "base folder");
  assert_null(path);
  assert_int_equal(r.calls, 0);
  assert_false(is_there("refused-exports", "*"));
}

static ls_status more_variables(void *user, ls_model_call *call,
                                ls_estimator_spec **out_spec) {
  ls_variable *w = NULL;
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = "unsaved", .dtype = LS_DTYPE_F32}, &w));
  LS_OWN(ls_nest, predictions) =
      ls_nest_dict("", (const char *const[]){"y"},
                   (ls_nest[]){ls_leaf(
                       ls_mul(call->features.as.tensor, ls_variable_read(w)))},
                   1);
  ls_variable_release(w);
  (void)user;
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = call->mode,
                                   .predictions = predictions},
      out_spec);
}

TEST(a_variable_that_was_not_saved_is_named) {
  LS_SPEC("E196");
  estimator_case c = {.folder = "missing", .repeats = true};
  receiving r = {0};
  char *path = NULL;
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  estimator_case_end(&c);
  LS_OWN(estimator_case, d) = {.folder = "missing",
                               .goes_on = true,
                               .more = {.model_fn = {.call = more_variables}}};
  estimator_case_begin(&d);
  const ls_estimator_exporting e = {.base = "exports",
                                    .receiver = {.call = receive, .user = &r}};
  ls_status status = ls_estimator_export(d.estimator, &e, &path);
  expect_contains(ls_status_message(status), "unsaved");
  expect_contains(ls_status_message(status), "missing/model.ckpt-2");
  expect_status(status, LS_FAILED_PRECONDITION, "predict");
}

static ls_status receive_labels(void *user, ls_serving_receiver *out) {
  receiving *r = user;
  r->bare = true;
  LS_RETURN_IF_ERROR(receive(r, out));
  const ls_tensor y =
      ls_placeholder(LS_DTYPE_I32, LS_SHAPE(LS_UNKNOWN_DIM), "y");
  out->labels = ls_leaf(y);
  out->inputs =
      ls_nest_dict("", (const char *const[]){"x", "y"},
                   (ls_nest[]){ls_nest_retain(out->features), ls_leaf(y)}, 2);
  return ls_ok();
}

TEST(an_evaluation_is_exported_where_no_tpu_is) {
  LS_OWN(estimator_case, c) = {.folder = "evaluations", .repeats = true};
  receiving r = {0};
  LS_OWN(printed, path) = NULL;
  ls_serving *serving = NULL;
  ls_serving_info info;
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  expect_ok(ls_estimator_export(
      c.estimator,
      &(ls_estimator_exporting){.base = "exports",
                                .receiver = {receive_labels, &r},
                                .mode = LS_MODE_EVAL},
      &path));
  expect_ok(ls_serving_load(path, NULL, &serving));
  assert_int_equal(ls_serving_num_signatures(serving), 1);
  expect_ok(ls_serving_signature_info(serving, 0, &info));
  assert_string_equal(info.key, "eval");
  assert_int_equal(info.num_inputs, 2);
  assert_string_equal(info.outputs[0].name, "loss");
  ls_serving_destroy(serving);
}

// ---- Memory ----------------------------------------------------------------
// The first layer of the model alone.
static ls_status hidden(void *user, ls_model_call *call,
                        ls_estimator_spec **out_spec) {
  ls_variable *w = NULL;
  (void)user;
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = "hidden",
                             .dtype = LS_DTYPE_F32,
                             .shape = LS_SHAPE(ESTIMATOR_WIDTH, 8)},
      &w));
  LS_OWN(ls_nest, predictions) =
      ls_nest_dict("", (const char *const[]){"y"},
                   (ls_nest[]){ls_leaf(ls_matmul(call->features.as.tensor,
                                                 ls_variable_read(w)))},
                   1);
  ls_variable_release(w);
  ls_status status = ls_nest_status(predictions);
  if (ls_status_is_ok(status))
    status = ls_tpu_estimator_spec_create(
        &(ls_estimator_spec_options){.mode = call->mode,
                                     .predictions = predictions},
        out_spec);
  return status;
}

// With a warm start there is no checkpoint.
static ls_status export_both(ls_run_config *config, const ls_warm_start *warm) {
  ls_estimator *estimator = NULL;
  receiving r = {0};
  char *path = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = hidden},
                              .model_dir = warm != NULL ? "none" : "scarce",
                              .warm_start = warm,
                              .config = config,
                              .train_batch_size = LS_SOME(24)},
      &estimator));
  const ls_status status = ls_estimator_export(
      estimator,
      &(ls_estimator_exporting){.base = "scarce-exports",
                                .receiver = {.call = receive, .user = &r}},
      &path);
  ls_text_release(path);
  ls_estimator_destroy(estimator);
  clear("scarce-exports");
  return status;
}

static ls_status export_anew(void *user) {
  ls_run_config *config = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(
      &(ls_run_config_options){.master = "virtual:1x1,cores=1"}, &config));
  const ls_status status = export_both(config, user);
  ls_run_config_release(config);
  return status;
}

TEST(exports_survive_memory_that_fails) {
  LS_OWN(estimator_case, c) = {.folder = "scarce", .repeats = true};
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  REFUSE_EACH(export_anew, NULL);
  // From the values alone that an export has.
  receiving r = {0};
  LS_OWN(printed, path) = NULL;
  expect_ok(ls_estimator_export(
      c.estimator,
      &(ls_estimator_exporting){.base = "scarce-first",
                                .receiver = {.call = receive, .user = &r}},
      &path));
  ls_warm_start warm = {.path = path};
  clear("none");
  REFUSE_EACH(export_anew, &warm);
  clear("scarce-first");
}
