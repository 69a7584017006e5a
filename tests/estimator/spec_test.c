// SPDX-License-Identifier: Apache-2.0
//
// What a model function gives back.
#include "lockstep/estimator_spec.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "estimator/own.h"
#include "support/function.h"
#include "support/monitored_runs.h"
#include "support/values.h"

static ls_estimator_spec *spec_of(const ls_estimator_spec_options *options,
                                  bool tpu) {
  ls_estimator_spec *spec = NULL;
  expect_ok(tpu ? ls_tpu_estimator_spec_create(options, &spec)
                : ls_estimator_spec_create(options, &spec));
  assert_int_equal(ls_estimator_spec_is_tpu(spec), tpu);
  return spec;
}

// Of both kinds.
static void expect_refused(const ls_estimator_spec_options *options,
                           const char *says) {
  ls_estimator_spec *spec = NULL;
  expect_status(ls_estimator_spec_create(options, &spec), LS_INVALID_ARGUMENT,
                says);
  assert_null(spec);
  expect_status(ls_tpu_estimator_spec_create(options, &spec),
                LS_INVALID_ARGUMENT, says);
  assert_null(spec);
}

TEST(each_mode_needs_its_fields) {
  LS_SPEC("E53");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  ls_estimator_spec_options o = {.mode = LS_MODE_TRAIN, .loss = f.loss};
  expect_refused(&o, "Missing train_op");
  o = (ls_estimator_spec_options){.mode = LS_MODE_TRAIN, .train_op = f.train};
  expect_refused(&o, "Missing loss");
  o = (ls_estimator_spec_options){.mode = LS_MODE_EVAL};
  expect_refused(&o, "Missing loss");
  o = (ls_estimator_spec_options){.mode = LS_MODE_PREDICT, .loss = f.loss};
  expect_refused(&o, "Missing predictions");
  o = (ls_estimator_spec_options){.loss = f.loss};
  expect_refused(&o, "mode");
  o = (ls_estimator_spec_options){.mode = LS_MODE_PREDICT,
                                  .predictions = ls_nest_i64(3)};
  expect_refused(&o, "predictions are neither");
  const char *const key = "y";
  const ls_nest number = ls_nest_i64(3);
  o.predictions = ls_nest_dict("", &key, &number, 1);
  expect_refused(&o, "predictions['y'] is no tensor");
  ls_nest_release(o.predictions);
  for (int tpu = 0; tpu < 2; ++tpu) {
    o = (ls_estimator_spec_options){.mode = LS_MODE_EVAL, .loss = f.loss};
    LS_OWN(ls_estimator_spec, spec) = spec_of(&o, tpu);
    const ls_nest predictions = ls_estimator_spec_values(spec)->predictions;
    assert_int_equal(predictions.kind, LS_KIND_DICT);
    assert_int_equal(ls_nest_count(predictions), 0);
  }
}

TEST(a_loss_has_one_element) {
  LS_SPEC("E54");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_graph, other) = NULL;
  ls_tensor elsewhere;
  ls_op far;
  expect_ok(ls_graph_create("other", &other));
  {
    LS_GRAPH_SCOPE(other);
    elsewhere = ls_scalar(LS_DTYPE_F32, 1);
    far = ls_group(NULL, 0, "far");
  }
  {
    LS_GRAPH_SCOPE(f.graph);
    ls_estimator_spec_options o = {
        .mode = LS_MODE_EVAL, .loss = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 1), 0)};
    expect_refused(&o, "must be scalar");
    o.loss = ls_reshape(f.loss, LS_SHAPE(1));
    ls_estimator_spec *spec = spec_of(&o, true);
    assert_int_equal(ls_tensor_shape(ls_estimator_spec_values(spec)->loss).rank,
                     0);
    ls_estimator_spec_release(spec);
    o.loss = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM), "loss");
    ls_estimator_spec_release(spec_of(&o, true));
    o.loss = elsewhere;
    expect_refused(&o, "loss 'constant:0'");
    o = (ls_estimator_spec_options){
        .mode = LS_MODE_TRAIN, .loss = f.loss, .train_op = far};
    expect_refused(&o, "train_op 'far'");
    const char *const key = "y";
    const ls_nest value = ls_leaf(elsewhere);
    o = (ls_estimator_spec_options){.mode = LS_MODE_PREDICT,
                                    .predictions =
                                        ls_nest_dict("", &key, &value, 1)};
    expect_refused(&o, "predictions 'constant:0'");
    ls_nest_release(o.predictions);
    o.predictions = value;
    expect_refused(&o, "predictions 'constant:0'");
  }
}

static ls_hook *hook_of(const char *name) {
  ls_hook *hook = NULL;
  expect_ok(ls_hook_create(&(ls_hook_options){.name = name}, &hook));
  return hook;
}

static ls_hook *any_hook(void) { return hook_of("any"); }

// Three lists of two hooks, called by their place; of a plain spec four.
enum { LISTS = 4, HOOKS = 2 * LISTS };
static void expect_hooks(const ls_estimator_spec_options *spec_options,
                         int lists) {
  ls_hook *const *const items[] = {
      spec_options->training_hooks, spec_options->evaluation_hooks,
      spec_options->prediction_hooks, spec_options->training_chief_hooks};
  const size_t counts[] = {spec_options->num_training_hooks,
                           spec_options->num_evaluation_hooks,
                           spec_options->num_prediction_hooks,
                           spec_options->num_training_chief_hooks};
  for (int i = 0; i < LISTS; ++i) {
    assert_int_equal(counts[i], i < lists ? 2 : 0);
    for (size_t k = 0; k < counts[i]; ++k) {
      const char name[] = {(char)('0' + i), k == 0 ? 'a' : 'b', '\0'};
      assert_string_equal(ls_hook_name(items[i][k]), name);
    }
  }
}

static ls_nest nothing_at_all(ls_nest tensors, void *user) {
  (void)tensors, (void)user;
  return ls_none();
}

TEST(every_list_is_kept_in_its_order) {
  LS_SPEC("E51 E55");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  for (int tpu = 0; tpu < 2; ++tpu) {
    ls_hook *hooks[HOOKS];
    for (int i = 0; i < HOOKS; ++i) {
      const char name[] = {(char)('0' + i / 2), i % 2 == 0 ? 'a' : 'b', '\0'};
      hooks[i] = hook_of(name);
    }
    ls_tensor cache[] = {f.loss, f.input};
    const ls_nest tensors[] = {LS_LIST(ls_leaf(f.loss)),
                               LS_LIST(ls_leaf(f.input))};
    ls_estimator_spec_options o = {.mode = LS_MODE_TRAIN,
                                   .loss = f.loss,
                                   .train_op = f.train,
                                   .training_hooks = hooks,
                                   .num_training_hooks = 2,
                                   .evaluation_hooks = hooks + 2,
                                   .num_evaluation_hooks = 2,
                                   .prediction_hooks = hooks + 4,
                                   .num_prediction_hooks = 2};
    if (tpu) {
      o.cache = cache;
      o.cache_size = 2;
      o.eval_metrics = (ls_host_function){nothing_at_all, &f, tensors[0], {0}};
      o.host_call = (ls_host_function){nothing_at_all, &o, tensors[1], {0}};
    } else {
      o.training_chief_hooks = hooks + 6;
      o.num_training_chief_hooks = 2;
    }
    LS_OWN(ls_estimator_spec, spec) = spec_of(&o, tpu);
    const ls_estimator_spec_options *spec_options =
        ls_estimator_spec_values(spec);
    for (int i = 0; i < HOOKS; ++i) {
      ls_hook_release(hooks[i]);  // The spec has what it was given.
      hooks[i] = NULL;
    }
    expect_hooks(spec_options, tpu ? LISTS - 1 : LISTS);
    assert_int_equal(spec_options->mode, LS_MODE_TRAIN);
    assert_true(ls_tensor_equal(spec_options->loss, f.loss));
    assert_true(spec_options->train_op.id == f.train.id);
    if (tpu) {
      cache[0] = cache[1] = ls_scalar(LS_DTYPE_F32, 0);
      assert_int_equal(spec_options->cache_size, 2);
      assert_true(ls_tensor_equal(spec_options->cache[0], f.loss));
      assert_true(ls_tensor_equal(spec_options->cache[1], f.input));
      assert_ptr_equal(spec_options->eval_metrics.tensors.as.ref,
                       tensors[0].as.ref);
      assert_ptr_equal(spec_options->eval_metrics.user, &f);
      assert_ptr_equal(spec_options->host_call.tensors.as.ref,
                       tensors[1].as.ref);
      assert_ptr_equal(spec_options->host_call.user, &o);
    }
    ls_nest_release(tensors[0]);
    ls_nest_release(tensors[1]);
  }
}

// Functions on the host, hooks, then what the mode needs.
TEST(what_is_wrong_is_found_in_order) {
  LS_SPEC("E52");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  ls_hook *nothing = NULL;
  LS_OWN(ls_nest, one) = LS_LIST(ls_leaf(f.loss));
  const ls_host_function bad = {.tensors = one};
  ls_estimator_spec_options o = {.mode = LS_MODE_TRAIN,
                                 .eval_metrics = bad,
                                 .host_call = bad,
                                 .training_hooks = &nothing,
                                 .num_training_hooks = 1,
                                 .evaluation_hooks = &nothing,
                                 .num_evaluation_hooks = 1,
                                 .prediction_hooks = &nothing,
                                 .num_prediction_hooks = 1};
  expect_refused(&o, "eval_metrics[0]");
  o.eval_metrics = (ls_host_function){0};
  expect_refused(&o, "host_call[0]");
  o.host_call = (ls_host_function){0};
  expect_refused(&o, "All hooks must be hooks: training_hooks[0]");
  o.num_training_hooks = 0;
  expect_refused(&o, "All hooks must be hooks: evaluation_hooks[0]");
  o.num_evaluation_hooks = 0;
  expect_refused(&o, "All hooks must be hooks: prediction_hooks[0]");
  o.num_prediction_hooks = 0;
  expect_refused(&o, "Missing train_op");
}

static ls_status no_scaffold(void *user, ls_scaffold *scaffold) {
  (void)user, (void)scaffold;
  return ls_ok();
}

TEST(fields_are_of_one_kind_of_spec) {
  LS_SPEC("E51 E55");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  ls_estimator_spec *spec = NULL;
  ls_estimator_spec_options o;
  LS_OWN(ls_hook, chief) = any_hook();
  LS_OWN(ls_nest, one) = LS_LIST(ls_leaf(f.loss));
  const char *const key = "mean";
  const ls_nest pair = LS_TUPLE(ls_leaf(f.loss), ls_nest_op(f.train));
  LS_OWN(ls_nest, pairs) = ls_nest_dict("", &key, &pair, 1);
  const struct {
    ls_estimator_spec_options options;
    const char *says;
    bool tpu;
  } rows[] = {
      {{.training_chief_hooks = &chief, .num_training_chief_hooks = 1},
       "training_chief_hooks is no field of a spec for TPUs",
       true},
      {{.eval_metric_ops = pairs}, "eval_metric_ops is no field of a", true},
      {{.eval_metrics = {nothing_at_all, NULL, one, {0}}},
       "eval_metrics is no field of a plain spec",
       false},
      {{.host_call = {nothing_at_all, NULL, one, {0}}},
       "host_call is no field of a plain spec",
       false},
      {{.scaffold_fn = no_scaffold}, "scaffold_fn is no field of a", false},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    o = rows[i].options;
    o.mode = LS_MODE_EVAL;
    o.loss = f.loss;
    spec = NULL;
    expect_status(rows[i].tpu ? ls_tpu_estimator_spec_create(&o, &spec)
                              : ls_estimator_spec_create(&o, &spec),
                  LS_INVALID_ARGUMENT, rows[i].says);
    if (rows[i].options.scaffold_fn == NULL)
      ls_estimator_spec_release(spec_of(&o, !rows[i].tpu));
  }
}

TEST(specs_keep_what_they_are_given) {
  LS_SPEC("E51 E52 E55");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  ls_hook *hook = any_hook(), *nothing = NULL;
  ls_estimator_spec_options o = {.mode = LS_MODE_TRAIN,
                                 .loss = f.loss,
                                 .train_op = f.train,
                                 .training_hooks = &nothing,
                                 .num_training_hooks = 1};
  expect_refused(&o, "All hooks must be hooks: training_hooks[0]");
  o.training_hooks = &hook;
  o.cache = &f.loss;
  o.cache_size = 1;
  ls_estimator_spec *spec = spec_of(&o, true);
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(spec);
  ls_hook *kept = hook;
  hook = NULL;  // The list is a copy.
  assert_ptr_equal(spec_options->training_hooks[0], kept);
  assert_int_equal(spec_options->num_evaluation_hooks +
                       spec_options->num_prediction_hooks,
                   0);
  assert_true(ls_tensor_equal(spec_options->cache[0], f.loss));
  ls_hook_release(kept);  // The spec has it still.
  assert_string_equal(ls_hook_name(spec_options->training_hooks[0]), "any");
  ls_estimator_spec_release(spec);
  // Fields of the other kind.
  o = (ls_estimator_spec_options){
      .mode = LS_MODE_EVAL, .loss = f.loss, .cache = &f.loss, .cache_size = 1};
  spec = NULL;
  expect_status(ls_estimator_spec_create(&o, &spec), LS_INVALID_ARGUMENT,
                "cache is no field of a plain spec");
  ls_scaffold scaffold = {.init_user = &f};
  o = (ls_estimator_spec_options){
      .mode = LS_MODE_EVAL, .loss = f.loss, .scaffold = &scaffold};
  expect_status(ls_tpu_estimator_spec_create(&o, &spec), LS_INVALID_ARGUMENT,
                "scaffold is no field of a spec for TPUs");
  spec = spec_of(&o, false);
  assert_ptr_equal(ls_estimator_spec_values(spec)->scaffold->init_user, &f);
  ls_estimator_spec_release(spec);
  o.scaffold = NULL;  // A fresh one.
  spec = spec_of(&o, false);
  assert_null(ls_estimator_spec_values(spec)->scaffold->init_user);
  ls_estimator_spec_release(spec);
}

TEST(metrics_are_pairs) {
  LS_SPEC("E55");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  const char *const key = "mean";
  const ls_nest good = LS_TUPLE(ls_leaf(f.loss), ls_nest_op(f.train));
  const ls_nest bad[] = {
      LS_TUPLE(ls_leaf(f.loss)),
      LS_TUPLE(ls_leaf(f.loss), ls_nest_op(f.train), ls_nest_op(f.train)),
      LS_TUPLE(ls_nest_op(f.train), ls_nest_op(f.train)),
      LS_TUPLE(ls_leaf(f.loss), ls_nest_i64(1)), ls_leaf(f.loss)};
  ls_estimator_spec_options o = {.mode = LS_MODE_EVAL, .loss = f.loss};
  ls_estimator_spec *spec = NULL;
  for (size_t i = 0; i < LS_COUNT_OF(bad); ++i) {
    o.eval_metric_ops = ls_nest_dict("", &key, &bad[i], 1);
    expect_status(ls_estimator_spec_create(&o, &spec), LS_INVALID_ARGUMENT,
                  "eval_metric_ops['mean']");
    ls_nest_release(o.eval_metric_ops);
  }
  o.eval_metric_ops = ls_leaf(f.loss);
  expect_status(ls_estimator_spec_create(&o, &spec), LS_INVALID_ARGUMENT,
                "eval_metric_ops are no dict");
  o.eval_metric_ops = ls_nest_dict("", &key, &good, 1);
  ls_estimator_spec_release(spec_of(&o, false));
  ls_nest_release(o.eval_metric_ops);
}

TEST(what_is_predicted_is_served) {
  LS_SPEC("E56");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  const char *const key = "y";
  const ls_nest value = ls_leaf(f.loss);
  LS_OWN(ls_nest, y) = ls_nest_dict("", &key, &value, 1);
  ls_estimator_spec_options o = {.mode = LS_MODE_PREDICT, .predictions = y};
  ls_estimator_spec *spec = spec_of(&o, true);
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(spec);
  assert_int_equal(spec_options->num_export_outputs, 1);
  assert_string_equal(spec_options->export_outputs[0].key, "serving_default");
  assert_int_equal(spec_options->export_outputs[0].kind, LS_EXPORT_PREDICT);
  assert_ptr_equal(spec_options->export_outputs[0].tensors.as.ref, y.as.ref);
  ls_estimator_spec_release(spec);
  // One under another key is served too.
  const ls_export_output two[] = {{"a", LS_EXPORT_PREDICT, y},
                                  {"b", LS_EXPORT_PREDICT, y}};
  o.export_outputs = two;
  o.num_export_outputs = 1;
  spec = spec_of(&o, false);
  spec_options = ls_estimator_spec_values(spec);
  assert_int_equal(spec_options->num_export_outputs, 2);
  assert_string_equal(spec_options->export_outputs[0].key, "a");
  assert_string_equal(spec_options->export_outputs[1].key, "serving_default");
  ls_estimator_spec_release(spec);
  o.num_export_outputs = 2;
  expect_refused(&o, "serving_default");
  // One that is under it already is alone. Other modes serve nothing.
  const ls_export_output served = {"serving_default", LS_EXPORT_PREDICT, y};
  o.export_outputs = &served;
  o.num_export_outputs = 1;
  spec = spec_of(&o, true);
  assert_int_equal(ls_estimator_spec_values(spec)->num_export_outputs, 1);
  ls_estimator_spec_release(spec);
  for (size_t count = 0; count < 3; ++count) {
    const ls_estimator_spec_options other = {.mode = LS_MODE_EVAL,
                                             .loss = f.loss,
                                             .export_outputs = two,
                                             .num_export_outputs = count};
    spec = spec_of(&other, true);
    assert_int_equal(ls_estimator_spec_values(spec)->num_export_outputs, count);
    ls_estimator_spec_release(spec);
  }
  const ls_export_output none = {"a", LS_EXPORT_PREDICT, ls_none()};
  o.export_outputs = &none;
  o.num_export_outputs = 1;
  expect_refused(&o, "no export output");
}

// ---- Functions on the host -------------------------------------------------
static ls_nest metrics(ls_nest tensors, void *user) {
  static const char *const key = "mean";
  ++*(int *)user;
  const ls_nest pair = LS_TUPLE(ls_leaf(ls_nest_tensor(tensors, 0)),
                                ls_nest_op(ls_group(NULL, 0, "update")));
  return ls_nest_dict("", &key, &pair, 1);
}

static ls_nest count_steps(ls_nest tensors, void *user) {
  ls_variable *counter = user;
  (void)tensors;
  return ls_leaf(ls_variable_assign_add(counter, ls_scalar(LS_DTYPE_F32, 1)));
}

static ls_nest look_for(ls_nest tensors, void *user) {
  const ls_nest found = ls_nest_find(tensors, user);
  return found.kind == LS_KIND_TENSOR
             ? found
             : LS_FAIL(LS_NOT_FOUND, "no '%s'", (const char *)user);
}

TEST(lists_that_are_not_there_are_refused) {
  ls_estimator_spec *spec = NULL;
  LS_OWN(ls_graph, graph) = graph_named("lists");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_nest predictions = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
    expect_status(ls_estimator_spec_create(
                      &(ls_estimator_spec_options){.mode = LS_MODE_PREDICT,
                                                   .predictions = predictions,
                                                   .num_export_outputs = 2},
                      &spec),
                  LS_INVALID_ARGUMENT, "export_outputs");
    expect_status(ls_tpu_estimator_spec_create(
                      &(ls_estimator_spec_options){.mode = LS_MODE_PREDICT,
                                                   .predictions = predictions,
                                                   .cache_size = 1},
                      &spec),
                  LS_INVALID_ARGUMENT, "cache");
    assert_null(spec);
  }
}

TEST(functions_fit_their_tensors) {
  LS_SPEC("E139 E140");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  LS_OWN(ls_nest, one) = LS_LIST(ls_leaf(f.loss));
  LS_OWN(ls_nest, tuple) = LS_TUPLE(ls_leaf(f.loss));
  for (int k = 0; k < 2; ++k) {
    const char *name = k == 0 ? "eval_metrics" : "host_call";
    int calls = 0;
    ls_estimator_spec_options o = {.mode = LS_MODE_EVAL, .loss = f.loss};
    ls_host_function *function = k == 0 ? &o.eval_metrics : &o.host_call;
    ls_estimator_spec *spec = NULL;
    *function = (ls_host_function){.tensors = one};
    ls_status status = ls_tpu_estimator_spec_create(&o, &spec);
    expect_contains(ls_status_message(status), name);
    expect_status(status, LS_INVALID_ARGUMENT, "[0] should be callable");
    *function = (ls_host_function){.call = metrics, .tensors = tuple};
    status = ls_tpu_estimator_spec_create(&o, &spec);
    expect_contains(ls_status_message(status), name);
    expect_status(status, LS_INVALID_ARGUMENT, "[1] should be a list or");
    *function = (ls_host_function){metrics, &calls, one, LS_SOME(3)};
    status = ls_tpu_estimator_spec_create(&o, &spec);
    expect_contains(ls_status_message(status), name);
    expect_status(status, LS_FAILED_PRECONDITION,
                  "takes 3 arguments but gets 1");
    function->num_arguments = LS_SOME(1);
    ls_estimator_spec_release(spec_of(&o, true));
    function->num_arguments = (ls_opt){0};  // Any number.
    ls_estimator_spec_release(spec_of(&o, true));
    assert_int_equal(calls, 0);
  }
}

// Of a nest that could not be made its cause is told, not that it is no dict.
TEST(nests_that_have_failed_say_why) {
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  LS_OWN(ls_nest, failed) = LS_FAIL(LS_DATA_LOSS, "it is gone");
  const ls_estimator_spec_options bad[] = {
      {.mode = LS_MODE_EVAL,
       .loss = f.loss,
       .eval_metrics = {.call = metrics, .tensors = failed}},
      {.mode = LS_MODE_EVAL,
       .loss = f.loss,
       .host_call = {.call = metrics, .tensors = failed}},
      {.mode = LS_MODE_EVAL, .loss = f.loss, .eval_metric_ops = failed},
      {.mode = LS_MODE_PREDICT, .predictions = failed},
  };
  for (size_t i = 0; i < LS_COUNT_OF(bad); ++i) {
    ls_estimator_spec *spec = NULL;
    expect_status(i == 2 ? ls_estimator_spec_create(&bad[i], &spec)
                         : ls_tpu_estimator_spec_create(&bad[i], &spec),
                  LS_DATA_LOSS, "it is gone");
    assert_null(spec);
  }
}

TEST(names_that_do_not_fit_are_found_at_the_call) {
  LS_SPEC("E141");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_GRAPH_SCOPE(f.graph);
  const char *const key = "loss";
  const ls_nest value = ls_leaf(f.loss);
  LS_OWN(ls_nest, named) = ls_nest_dict("", &key, &value, 1);
  ls_estimator_spec_options o = {
      .mode = LS_MODE_EVAL,
      .loss = f.loss,
      .host_call = {look_for, (void *)(uintptr_t) "other", named,
                    LS_SOME(7)}};  // Its number is not looked at.
  ls_estimator_spec *spec = spec_of(&o, true);
  LS_OWN(ls_estimator_spec, plain) = NULL;
  expect_status(ls_estimator_spec_as_plain(spec, &plain), LS_NOT_FOUND,
                "other");
  expect_contains(monitored_runs_log(), "host_call[1]");
  ls_estimator_spec_release(spec);
  o.host_call.user = (void *)(uintptr_t) "loss";
  spec = spec_of(&o, true);
  expect_ok(ls_estimator_spec_as_plain(spec, &plain));
  ls_estimator_spec_release(spec);
}

static ls_status give_scaffold(void *user, ls_scaffold *scaffold) {
  scaffold->init_user = user;
  return ls_ok();
}

TEST(cpus_use_a_plain_spec) {
  LS_SPEC("E57");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  int calls = 0;
  LS_OWN(ls_variable, counter) = NULL;
  LS_OWN(ls_estimator_spec, plain) = NULL;
  ls_estimator_spec *again = NULL;
  {
    LS_GRAPH_SCOPE(f.graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "counter",
                               .initial_value = ls_scalar(LS_DTYPE_F32, 0)},
        &counter));
    LS_OWN(ls_nest, one) = LS_LIST(ls_leaf(f.loss));
    LS_OWN(ls_hook, hook) = any_hook();
    const char *const key = "y";
    const ls_nest input = ls_leaf(f.input);
    LS_OWN(ls_nest, y) = ls_nest_dict("", &key, &input, 1);
    const ls_export_output output = {"served", LS_EXPORT_PREDICT, y};
    LS_OWN(ls_estimator_spec, spec) = spec_of(
        &(ls_estimator_spec_options){
            .mode = LS_MODE_TRAIN,
            .loss = f.loss,
            .train_op = f.train,
            .predictions = y,
            .export_outputs = &output,
            .num_export_outputs = 1,
            .training_hooks = &hook,
            .num_training_hooks = 1,
            .evaluation_hooks = &hook,
            .num_evaluation_hooks = 1,
            .prediction_hooks = &hook,
            .num_prediction_hooks = 1,
            .eval_metrics = {metrics, &calls, one, {0}},
            .host_call = {count_steps, counter, one, {0}},
            .scaffold_fn = give_scaffold,
            .scaffold_user = &f},
        true);
    expect_ok(ls_estimator_spec_as_plain(spec, &plain));
  }
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(plain);
  assert_false(ls_estimator_spec_is_tpu(plain));
  assert_int_equal(calls, 1);
  assert_true(ls_nest_find(spec_options->eval_metric_ops, "mean").kind ==
              LS_KIND_TUPLE);
  assert_ptr_equal(spec_options->scaffold->init_user, &f);
  // Its own hooks, and behind them the host call's.
  assert_int_equal(spec_options->num_training_hooks, 2);
  assert_int_equal(spec_options->num_evaluation_hooks, 2);
  assert_int_equal(spec_options->num_prediction_hooks, 2);
  ls_hook *const *const lists[] = {spec_options->training_hooks,
                                   spec_options->evaluation_hooks,
                                   spec_options->prediction_hooks};
  for (int i = 0; i < 3; ++i) {
    assert_string_equal(ls_hook_name(lists[i][0]), "any");
    assert_ptr_equal(lists[i][1], spec_options->training_hooks[1]);
  }
  // What else there is goes through.
  assert_int_equal(spec_options->mode, LS_MODE_TRAIN);
  assert_true(ls_tensor_equal(spec_options->loss, f.loss));
  assert_true(
      ls_tensor_equal(ls_nest_tensor(spec_options->predictions, 0), f.input));
  assert_int_equal(spec_options->num_export_outputs, 1);
  assert_string_equal(spec_options->export_outputs[0].key, "served");
  assert_true(spec_options->train_op.id == f.train.id);
  expect_ok(ls_estimator_spec_as_plain(plain, &again));
  assert_ptr_equal(plain, again);
  ls_estimator_spec_release(again);
  // Each run does what the host call gave.
  ls_hook *hooks[] = {ls_hook_retain(spec_options->training_hooks[0]),
                      ls_hook_retain(spec_options->training_hooks[1])};
  monitored_runs_open(&f, hooks, 2, NULL);
  for (int i = 0; i < 3; ++i)
    expect_ok(monitored_runs_try(&f));
  LS_OWN(ls_array, value) =
      session_array(ls_monitored_session_now(f.session), counter);
  assert_true(ls_array_f64(value, 0) == 3);
}
