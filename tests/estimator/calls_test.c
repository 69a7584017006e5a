// SPDX-License-Identifier: Apache-2.0
//
// Calls of users' functions: what they are given, and what may come back.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "estimator/config/config.h"
#include "estimator/own.h"
#include "support/programs.h"

// ---- Functions that note what they are given -------------------------------
typedef enum gives {
  GIVES_TPU,
  GIVES_PLAIN,
  GIVES_SCAFFOLD,
  GIVES_CHIEF_HOOKS,
  GIVES_NO_SPEC,
  GIVES_OTHER_MODE,
  GIVES_TENSOR,        // Predictions that are no dict,
  GIVES_UNKNOWN_ROWS,  // or have a row for each of an unknown number.
  GIVES_NOTHING,
  FAILS,
} gives;

typedef struct job {
  gives gives;
  bool spoils;  // What it is given.
  int calls;
  char keys[100];  // Of the parameters, each with a blank behind it.
  int64_t batch_size;
  bool use_tpu;
  const ls_user_context *context;
  double rate, first;  // Of the user's own.
  ls_estimator_mode mode;
  const ls_run_config *config;
  char device[LS_MAX_DEVICE_NAME];
  ls_hook *hook;
  ls_estimator_spec *given;  // The spec; lent.
} job;

static void note(job *j, ls_nest *params) {
  static const char *const keys[] = {"rate", "table"};
  ++j->calls;
  j->keys[0] = '\0';
  for (size_t i = 0; i < ls_nest_count(*params); ++i) {
    strcat(j->keys, ls_nest_key(*params, i));
    strcat(j->keys, " ");
  }
  j->batch_size = ls_params_i64(*params, "batch_size", -1);
  j->use_tpu = ls_nest_number(ls_nest_find(*params, "use_tpu")) == 1;
  j->context = ls_params_context(*params);
  j->rate = ls_params_f64(*params, keys[0], -1);
  const ls_nest table = ls_nest_find(*params, keys[1]);
  float *numbers = table.kind == LS_KIND_ARRAY ? ls_nest_data(table, 0) : NULL;
  j->first = numbers != NULL ? (double)numbers[0] : -1;
  if (!j->spoils) return;
  if (numbers != NULL) numbers[0] = 77;
  expect_ok(ls_params_set(params, "rate", ls_nest_f64(99)));
  expect_ok(ls_params_set(params, "more", ls_nest_f64(1)));
}

static ls_nest input_of(void *user, ls_input_call *call) {
  job *j = user;
  note(j, &call->params);
  j->mode = call->mode;
  j->config = call->config;
  const ls_tensor one = ls_scalar(LS_DTYPE_F32, 1);
  snprintf(j->device, sizeof(j->device), "%s", ls_op_device(ls_tensor_op(one)));
  if (j->gives == GIVES_NOTHING) return ls_none();
  return j->gives == FAILS ? LS_FAIL(LS_ABORTED, "out of coffee")
                           : ls_leaf(one);
}

// It is none of an input's.
static void expect_models_context(const ls_user_context *context) {
  int64_t count = 0;
  ls_device_name host;
  if (context == NULL) return;
  expect_ok(ls_user_context_num_replicas(context, &count));
  assert_int_equal(count, 8);
  expect_status(ls_user_context_host(context, &host), LS_FAILED_PRECONDITION,
                "model_fn");
}

static ls_status model_of(void *user, ls_model_call *call,
                          ls_estimator_spec **out_spec) {
  static const char *const key = "out";
  static const ls_scaffold scaffold = {0};
  job *j = user;
  note(j, &call->params);
  expect_models_context(ls_params_context(call->params));
  j->mode = call->mode;
  j->config = call->config;
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1);
  const ls_shape unknown = LS_SHAPE(LS_UNKNOWN_DIM, 2);
  const ls_nest out =
      ls_leaf(j->gives == GIVES_UNKNOWN_ROWS
                  ? ls_placeholder(LS_DTYPE_F32, unknown, "unknown")
                  : ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 2), 1));
  LS_OWN(ls_nest, dict) = ls_nest_dict("", &key, &out, 1);
  ls_estimator_spec_options o = {
      .mode = j->gives == GIVES_OTHER_MODE ? LS_MODE_EVAL : LS_MODE_TRAIN,
      .loss = x,
      .train_op = ls_tensor_op(x),
      .predictions = j->gives == GIVES_TENSOR ? out : dict};
  if (call->mode != LS_MODE_NONE && j->gives != GIVES_OTHER_MODE)
    o.mode = call->mode;
  if (j->gives == GIVES_SCAFFOLD) o.scaffold = &scaffold;
  if (j->gives == GIVES_CHIEF_HOOKS) {
    o.training_chief_hooks = &j->hook;
    o.num_training_chief_hooks = 1;
  }
  ls_status status = ls_ok();
  if (j->gives == FAILS)
    status = LS_STATUS(LS_ABORTED, "out of coffee");
  else if (j->gives == GIVES_PLAIN || j->gives == GIVES_SCAFFOLD ||
           j->gives == GIVES_CHIEF_HOOKS)
    status = ls_estimator_spec_create(&o, out_spec);
  else if (j->gives != GIVES_NO_SPEC)
    status = ls_tpu_estimator_spec_create(&o, out_spec);
  j->given = *out_spec;
  return status;
}

// ---- The world -------------------------------------------------------------
static void begin_with(programs *p, job *j, programs_options options) {
  static const char *const keys[] = {"rate", "table"};
  const double numbers[] = {5, 6};
  if (options.replicas == 0) options.replicas = 8;
  options.model = model_of;
  options.user = j;
  programs_begin(p, options);
  p->input = (ls_input_function){.call = input_of, .user = j};
  const ls_nest values[] = {
      ls_nest_f64(0.5),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(2), numbers))};
  p->calls.params = ls_nest_dict("", keys, values, 2);
  expect_ok(ls_hook_create(&(ls_hook_options){.name = "h"}, &j->hook));
}

static void begin(programs *p, job *j, ls_estimator_mode mode) {
  *j = (job){.gives = GIVES_TPU};
  begin_with(p, j, (programs_options){.mode = mode});
}

static void end(programs *p, job *j) {
  ls_hook_release(j->hook);
  ls_nest_release(p->calls.params);
  programs_end(p);
}

static ls_status call_model(programs *p, ls_nest labels, ls_nest cache) {
  LS_OWN(ls_estimator_spec, spec) = NULL;
  LS_GRAPH_SCOPE(p->graph);
  const ls_nest features = ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 3), 1));
  const ls_status status =
      ls_call_model(&p->calls,
                    &(ls_model_inputs){
                        .features = features, .labels = labels, .cache = cache},
                    &spec);
  assert_int_equal(spec != NULL, ls_status_is_ok(status));
  return status;
}

static ls_status call_input(programs *p, const ls_input_place *place) {
  LS_OWN(ls_nest, made) = ls_none();
  LS_GRAPH_SCOPE(p->graph);
  return ls_call_input(&p->calls, place, &made);
}

static const ls_input_place a_place = {
    .host = {"/job:worker/task:1/device:CPU:0"}, .invocation = 1};

// ---- Parameters ------------------------------------------------------------
TEST(a_parameter_is_set_or_added) {
  LS_SPEC("E7");
  ls_nest params = ls_none();
  expect_ok(ls_params_set(&params, "a", ls_nest_i64(1)));
  expect_ok(ls_params_set(&params, "b", ls_nest_i64(2)));
  expect_ok(ls_params_set(&params, "a", ls_nest_f64(0.5)));
  expect_ok(ls_params_set(&params, "c", ls_nest_i64(5)));
  expect_ok(ls_params_set(&params, "a", ls_nest_i64(3)));
  assert_int_equal(ls_nest_count(params), 3);
  assert_int_equal(ls_params_i64(params, "a", 0), 3);
  assert_int_equal(ls_params_i64(params, "b", 0), 2);
  assert_int_equal(ls_params_i64(params, "c", 0), 5);
  assert_true(ls_params_f64(params, "d", 4.5) == 4.5);
  // Whole to the last digit, and no more than there is room for.
  assert_true(ls_params_i64(params, "d", INT64_MAX) == INT64_MAX);
  assert_true(ls_params_i64(params, "d", (1LL << 53) + 1) == (1LL << 53) + 1);
  expect_ok(ls_params_set(&params, "b", ls_nest_f64(1e30)));
  assert_true(ls_params_i64(params, "b", 0) == INT64_MAX);
  expect_ok(ls_params_set(&params, "b", ls_nest_f64((double)NAN)));
  assert_int_equal(ls_params_i64(params, "b", 7), 7);
  ls_nest_release(params);
  params = ls_nest_i64(1);
  expect_status(ls_params_set(&params, "a", ls_nest_i64(1)),
                LS_INVALID_ARGUMENT, "a dict");
  expect_status(ls_params_set(NULL, "a", ls_nest_i64(1)), LS_INVALID_ARGUMENT,
                "params");
}

TEST(what_a_call_changes_is_gone_at_the_next) {
  LS_SPEC("E124 E64");
  for (int which = 0; which < 2; ++which) {
    programs p;
    job j;
    begin(&p, &j, LS_MODE_TRAIN);
    j.spoils = true;
    for (int i = 0; i < 3; ++i) {
      expect_ok(which == 0 ? call_model(&p, ls_none(), ls_none())
                           : call_input(&p, &a_place));
      assert_int_equal(j.calls, i + 1);
      assert_true(j.rate == 0.5);
      assert_true(j.first == 5);
      assert_null(strstr(j.keys, "more"));
    }
    end(&p, &j);
  }
}

TEST(what_users_say_of_use_tpu_is_overwritten) {
  LS_SPEC("E2");
  for (int on_cpu = 0; on_cpu < 2; ++on_cpu) {
    programs p;
    job j = {.gives = GIVES_TPU};
    begin_with(&p, &j,
               (programs_options){.mode = LS_MODE_TRAIN, .on_cpu = on_cpu});
    expect_ok(ls_params_set(&p.calls.params, "use_tpu", ls_nest_bool(on_cpu)));
    const int warnings = p.warnings;
    expect_ok(call_model(&p, ls_none(), ls_none()));
    assert_true(j.use_tpu == !on_cpu);
    assert_int_equal(p.warnings, warnings);
    end(&p, &j);
  }
}

// ---- Models ----------------------------------------------------------------
TEST(models_are_given_what_their_mode_has) {
  LS_SPEC("E126 E131 E48");
  const struct {
    ls_estimator_mode mode;
    bool on_cpu, exports, no_batch, cache;
    const char *keys;
    int64_t batch_size;
  } rows[] = {
      {LS_MODE_TRAIN, false, false, false, false,
       "rate table batch_size use_tpu context ", 2},
      {LS_MODE_TRAIN, false, false, false, true,
       "rate table batch_size use_tpu cache context ", 2},
      {LS_MODE_EVAL, false, false, false, true,
       "rate table batch_size use_tpu cache context ", 2},
      {LS_MODE_PREDICT, false, false, false, false,
       "rate table batch_size use_tpu context ", 2},
      {LS_MODE_PREDICT, false, true, false, false, "rate table use_tpu ", -1},
      {LS_MODE_TRAIN, true, false, false, true,
       "rate table batch_size use_tpu ", 16},
      {LS_MODE_EVAL, true, false, true, false, "rate table use_tpu ", -1},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    for (int empty = 0; empty < 2; ++empty) {
      programs p;
      job j = {.gives = GIVES_TPU};
      begin_with(&p, &j,
                 (programs_options){.mode = rows[i].mode,
                                    .on_cpu = rows[i].on_cpu,
                                    .no_batch = rows[i].no_batch});
      expect_ok(
          ls_plans_get(p.plans, rows[i].mode, rows[i].exports, &p.calls.plan));
      const ls_nest item = ls_nest_i64(1);
      const ls_nest cache =
          rows[i].cache ? ls_nest_sequence(LS_KIND_LIST, &item, empty ? 0 : 1)
                        : ls_none();
      expect_ok(call_model(&p, ls_none(), cache));
      assert_string_equal(j.keys, rows[i].keys);
      assert_int_equal(j.batch_size, rows[i].batch_size);
      assert_true(j.use_tpu == (!rows[i].on_cpu && !rows[i].exports));
      assert_true((j.context != NULL) == (!rows[i].on_cpu && !rows[i].exports));
      assert_int_equal(j.mode, rows[i].mode);
      assert_ptr_equal(j.config, p.config);
      ls_nest_release(cache);
      end(&p, &j);
    }
}

TEST(models_are_given_what_they_take) {
  LS_SPEC("E123 E125");
  static const char *const names[] = {"features", "params", "labels", "mode",
                                      "config"};
  const ls_parameters few = {.names = names, .count = 2};
  const ls_parameters no_params = {.names = names, .count = 1};
  programs p;
  job j;
  begin(&p, &j, LS_MODE_TRAIN);
  p.model.arguments = &few;
  expect_ok(call_model(&p, ls_none(), ls_none()));
  assert_int_equal(j.mode, LS_MODE_NONE);  // Neither mode nor configuration.
  assert_null(j.config);
  const ls_nest label = ls_nest_i64(1);
  expect_status(call_model(&p, label, ls_none()), LS_INVALID_ARGUMENT,
                "model_fn does not take labels, but input_fn returns labels");
  p.model.arguments = &no_params;
  expect_status(call_model(&p, ls_none(), ls_none()), LS_INVALID_ARGUMENT,
                "does not declare params");
  expect_status(call_model(&p, ls_none(), ls_none()), LS_INVALID_ARGUMENT,
                "batch_size");
  assert_int_equal(j.calls, 1);
  end(&p, &j);
}

TEST(shapes_are_static_on_tpus) {
  LS_SPEC("E122");
  static const char *const key = "x";
  for (int where = 0; where < 3; ++where)  // TPU, CPU, export.
    for (int of_labels = 0; of_labels < 2; ++of_labels) {
      programs p;
      job j = {.gives = GIVES_TPU};
      begin_with(
          &p, &j,
          (programs_options){.mode = LS_MODE_PREDICT, .on_cpu = where == 1});
      expect_ok(
          ls_plans_get(p.plans, LS_MODE_PREDICT, where == 2, &p.calls.plan));
      {
        LS_GRAPH_SCOPE(p.graph);
        const ls_nest known = ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 1), 1));
        const ls_nest unknown = ls_leaf(
            ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, 3), "batch"));
        LS_OWN(ls_nest, dict) = ls_nest_dict("", &key, &unknown, 1);
        const ls_model_inputs inputs = {.features = of_labels ? known : dict,
                                        .labels = of_labels ? unknown : known};
        const char *const says[] = {
            of_labels
                ? "The labels to the model returned by input_fn must have "
                  "static shape"
                : "The features to the model returned by input_fn must "
                  "have static shape",
            "batch"};
        for (size_t k = 0; k < LS_COUNT_OF(says); ++k) {
          LS_OWN(ls_estimator_spec, spec) = NULL;
          const ls_status status = ls_call_model(&p.calls, &inputs, &spec);
          if (where == 0)
            expect_status(status, LS_INVALID_ARGUMENT, says[k]);
          else
            expect_ok(status);
        }
        assert_int_equal(j.calls, where == 0 ? 0 : 2);
      }
      end(&p, &j);
    }
}

// ---- Specs -----------------------------------------------------------------
TEST(specs_on_cpus_are_plain) {
  LS_SPEC("E127");
  static const gives all[] = {GIVES_TPU, GIVES_PLAIN};
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i) {
    programs p;
    job j = {.gives = all[i]};
    begin_with(&p, &j,
               (programs_options){.mode = LS_MODE_TRAIN, .on_cpu = true});
    ls_estimator_spec *spec = NULL;
    {
      LS_GRAPH_SCOPE(p.graph);
      expect_ok(ls_call_model(
          &p.calls, &(ls_model_inputs){.features = ls_nest_i64(1)}, &spec));
    }
    assert_false(ls_estimator_spec_is_tpu(spec));
    if (all[i] == GIVES_PLAIN) assert_ptr_equal(spec, j.given);
    ls_estimator_spec_release(spec);
    end(&p, &j);
  }
}

TEST(specs_of_trainings_may_be_plain) {
  LS_SPEC("E128");
  programs p;
  job j;
  begin(&p, &j, LS_MODE_TRAIN);
  j.gives = GIVES_PLAIN;
  const int warnings = p.warnings;
  expect_ok(call_model(&p, ls_none(), ls_none()));
  assert_int_equal(p.warnings, warnings);
  j.gives = GIVES_SCAFFOLD;
  expect_ok(call_model(&p, ls_none(), ls_none()));
  assert_int_equal(p.warnings, warnings + 1);
  assert_non_null(strstr(p.last_warning, "scaffold"));
  j.gives = GIVES_CHIEF_HOOKS;
  expect_status(call_model(&p, ls_none(), ls_none()), LS_INVALID_ARGUMENT,
                "training_chief_hooks");
  end(&p, &j);
}

TEST(specs_of_evaluations_and_predictions_are_for_tpus) {
  LS_SPEC("E129");
  static const struct {
    ls_estimator_mode mode;
    const char *says;
  } rows[] = {
      {LS_MODE_EVAL, "TPU evaluation must have type TPUEstimatorSpec"},
      {LS_MODE_PREDICT, "TPU prediction must have type TPUEstimatorSpec"}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    programs p;
    job j;
    begin(&p, &j, rows[i].mode);
    expect_ok(call_model(&p, ls_none(), ls_none()));
    j.gives = GIVES_PLAIN;
    expect_status(call_model(&p, ls_none(), ls_none()), LS_FAILED_PRECONDITION,
                  rows[i].says);
    end(&p, &j);
  }
}

TEST(predictions_on_tpus_are_a_dict_of_known_rows) {
  LS_SPEC("E130");
  programs p;
  job j;
  begin(&p, &j, LS_MODE_PREDICT);
  j.gives = GIVES_TENSOR;
  expect_status(call_model(&p, ls_none(), ls_none()), LS_INVALID_ARGUMENT,
                "must be a dict");
  j.gives = GIVES_UNKNOWN_ROWS;
  expect_status(call_model(&p, ls_none(), ls_none()), LS_INVALID_ARGUMENT,
                "'out' should be static");
  end(&p, &j);
}

TEST(a_model_that_gives_no_spec_of_its_mode_is_refused) {
  programs p;
  job j;
  begin(&p, &j, LS_MODE_TRAIN);
  j.gives = GIVES_NO_SPEC;
  expect_status(call_model(&p, ls_none(), ls_none()), LS_INVALID_ARGUMENT,
                "returns no spec");
  j.gives = GIVES_OTHER_MODE;
  expect_status(call_model(&p, ls_none(), ls_none()), LS_INVALID_ARGUMENT,
                "called in mode");
  j.gives = FAILS;
  expect_status(call_model(&p, ls_none(), ls_none()), LS_ABORTED,
                "out of coffee");
  end(&p, &j);
}

// ---- Input -----------------------------------------------------------------
TEST(input_functions_are_called_where_they_feed) {
  LS_SPEC("E131 E48 E99");
  for (int on_cpu = 0; on_cpu < 2; ++on_cpu) {
    programs p;
    job j = {.gives = GIVES_TPU};
    begin_with(&p, &j,
               (programs_options){.mode = LS_MODE_TRAIN, .on_cpu = on_cpu});
    assert_int_equal(j.calls, 0);
    for (int64_t i = 0; i < 3; ++i) {
      ls_input_place place = {.invocation = i};
      if (!on_cpu) place.host = ls_plan_host(p.calls.plan, i % 2);
      LS_OWN(ls_nest, made) = ls_none();
      LS_GRAPH_SCOPE(p.graph);
      expect_ok(ls_call_input(&p.calls, on_cpu ? NULL : &place, &made));
      assert_string_equal(j.device, on_cpu ? "/device:CPU:0" : place.host.text);
      assert_string_equal(j.keys, on_cpu ? "rate table batch_size "
                                         : "rate table batch_size context ");
      // A host's share: there are two.
      assert_int_equal(j.batch_size, on_cpu ? 16 : 8);
      assert_int_equal(j.mode, LS_MODE_TRAIN);
      assert_ptr_equal(j.config, p.config);
      assert_true((j.context != NULL) == !on_cpu);
    }
    end(&p, &j);
  }
}

// What a context says is of its own call.
static ls_nest keeps(void *user, ls_input_call *call) {
  int64_t *invocation = user;
  ls_input_deployment deployment;
  expect_ok(
      ls_user_context_deployment(ls_params_context(call->params), &deployment));
  *invocation = deployment.invocation;
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
}

TEST(each_call_has_a_context_of_its_own) {
  LS_SPEC("E48");
  programs p;
  job j;
  int64_t invocation = -1;
  begin(&p, &j, LS_MODE_TRAIN);
  p.input = (ls_input_function){.call = keeps, .user = &invocation};
  for (int64_t i = 0; i < 3; ++i) {
    ls_input_place place = a_place;
    place.invocation = i;
    expect_ok(call_input(&p, &place));
    assert_int_equal(invocation, i);
  }
  end(&p, &j);
}

TEST(input_functions_are_given_what_they_take) {
  LS_SPEC("E125 E131");
  static const char *const names[] = {"params", "labels"};
  const ls_parameters only_params = {.names = names, .count = 1};
  const ls_parameters none = {.names = names, .count = 0};
  const ls_parameters unknown = {.names = names, .count = 2};
  programs p;
  job j;
  begin(&p, &j, LS_MODE_TRAIN);
  p.input.arguments = &only_params;
  expect_ok(call_input(&p, &a_place));
  assert_int_equal(j.mode, LS_MODE_NONE);
  assert_null(j.config);
  p.input.arguments = &none;
  expect_status(call_input(&p, &a_place), LS_INVALID_ARGUMENT,
                "input_fn does not declare params");
  p.input.arguments = &unknown;
  expect_status(call_input(&p, &a_place), LS_INVALID_ARGUMENT, "labels");
  assert_int_equal(j.calls, 1);
  p.input.arguments = NULL;
  j.gives = FAILS;
  expect_status(call_input(&p, &a_place), LS_ABORTED, "out of coffee");
  j.gives = GIVES_NOTHING;
  expect_status(call_input(&p, &a_place), LS_INVALID_ARGUMENT,
                "input_fn has returned none");
  p.input.call = NULL;
  expect_status(call_input(&p, &a_place), LS_INVALID_ARGUMENT, "no input_fn");
  end(&p, &j);
}
