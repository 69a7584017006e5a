// SPDX-License-Identifier: Apache-2.0
// What an estimator is made with, and what is refused.
#include <string.h>
#include <unistd.h>

#include "distribute/own.h"
#include "estimator/calls/estimator.h"
#include "support/counted.h"
#include "support/estimators.h"
#include "support/replicas.h"

typedef struct made {
  estimator_case setup;
  ls_run_config *config;
  ls_estimator_options options;
} made;

static void begin(made *m, ls_flag use_tpu, ls_run_config_options config) {
  *m = (made){.setup = {.replicas = 1}};
  if (config.master == NULL) config.master = "virtual:1x1,cores=1";
  expect_ok(ls_tpu_run_config_create(&config, &m->config));
  m->options = (ls_estimator_options){.model_fn = estimator_model(&m->setup),
                                      .config = m->config,
                                      .use_tpu = use_tpu,
                                      .model_dir = "construction",
                                      .train_batch_size = LS_SOME(8)};
}

static void expect_refused(made *m, const char *part) {
  ls_estimator *estimator = NULL;
  expect_status(ls_estimator_create(&m->options, &estimator),
                LS_INVALID_ARGUMENT, part);
  assert_null(estimator);
}

static void expect_made(made *m) {
  LS_OWN(ls_estimator, estimator) = NULL;
  expect_ok(ls_estimator_create(&m->options, &estimator));
}

static void end(made *m) { ls_run_config_release(m->config); }
LS_OWNED_STRUCT(made, end)

TEST(a_configuration_of_a_tpu_run_is_needed) {
  LS_SPEC("E60");
  for (int flag = LS_FLAG_DEFAULT; flag <= LS_FLAG_OFF; ++flag) {
    ls_run_config *plain = NULL;
    LS_OWN_BEGUN(made, m, begin, (ls_flag)flag, (ls_run_config_options){0});
    m.options.config = NULL;
    expect_refused(&m, "config");
    expect_ok(ls_run_config_create(NULL, &plain));
    m.options.config = plain;
    expect_refused(&m, "config");
    ls_run_config_release(plain);
    m.options.config = m.config;
    const char *const reserved[] = {"batch_size", "context"};
    for (int i = 0; i < 2; ++i) {
      const ls_nest one = ls_nest_i64(1);
      m.options.params = ls_nest_dict("", &reserved[i], &one, 1);
      expect_refused(&m, "batch_size and context are reserved");
      ls_nest_release(m.options.params);
      // Wherever it stands.
      const char *const keys[] = {"rate", reserved[i]};
      const ls_nest two[] = {one, one};
      m.options.params = ls_nest_dict("", keys, two, 2);
      expect_refused(&m, reserved[i]);
      ls_nest_release(m.options.params);
    }
  }
}

TEST(batch_sizes_are_checked_where_cores_are_used) {
  LS_SPEC("E61");
  const ls_tpu_config parallel = {.num_cores_per_replica = LS_SOME(2),
                                  .per_host_input = LS_INPUT_PER_SHARD_V1};
  made m;
  begin(&m, LS_FLAG_ON, (ls_run_config_options){0});
  m.options.train_batch_size = (ls_opt){0};
  expect_refused(&m, "`train_batch_size` cannot be");
  m.options.use_tpu = LS_FLAG_OFF;
  expect_made(&m);
  for (int i = 0; i < 3; ++i) {
    ls_opt *const sizes[] = {&m.options.train_batch_size,
                             &m.options.eval_batch_size,
                             &m.options.predict_batch_size};
    const char *const names[] = {"train_batch_size", "eval_batch_size",
                                 "predict_batch_size"};
    m.options.train_batch_size = LS_SOME(8);
    *sizes[i] = LS_SOME(i - 1);
    if (i == 2) *sizes[i] = LS_SOME(0);
    m.options.use_tpu = LS_FLAG_ON;
    expect_refused(&m, names[i]);
    m.options.use_tpu = LS_FLAG_OFF;
    expect_made(&m);
    *sizes[i] = (ls_opt){0};
  }
  end(&m);
  begin(&m, LS_FLAG_ON, (ls_run_config_options){.tpu = &parallel});
  expect_refused(&m, "Model parallelism only supports per host input");
  m.options.use_tpu = LS_FLAG_OFF;
  expect_made(&m);
  end(&m);
  // Each of the two alone can be.
  for (int i = 0; i < 2; ++i) {
    ls_tpu_config one = parallel;
    if (i == 0) one.num_cores_per_replica = (ls_opt){0};
    if (i == 1) one.per_host_input = LS_INPUT_PER_HOST_V1;
    begin(&m, LS_FLAG_ON, (ls_run_config_options){.tpu = &one});
    expect_made(&m);
    end(&m);
  }
}

static void note(void *user, const ls_log_line *line) {
  if (line->level == LS_LOG_WARNING &&
      strstr(line->text, "model_fn takes params") != NULL)
    ++*(int *)user;
}

TEST(a_models_arguments_are_checked) {
  LS_SPEC("E62");
  int warnings = 0;
  LS_OWN(counted, runtime) = counted_begin_with(
      (ls_runtime_options){.threads = 1, .log = note, .log_user = &warnings});
  LS_OWN_BEGUN(made, m, begin, LS_FLAG_ON, (ls_run_config_options){0});
  const struct {
    const char *names[5];
    size_t count;
    const char *refused;
  } cases[] = {
      {{"labels", "params"}, 2, "must take features"},
      {{"features", "params", "weights"}, 3, "weights"},
      {{"features", "labels"}, 2, "does not take params"},
      {{"features", "params"}, 2, NULL},
      {{"features", "labels", "mode", "params", "config"}, 5, NULL},
  };
  const char *const key = "rate";
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    const ls_nest one = ls_nest_i64(1);
    const ls_parameters takes = {.names = cases[i].names,
                                 .count = cases[i].count};
    m.options.model_fn.arguments = &takes;
    m.options.params = ls_nest_dict("", &key, &one, 1);
    if (cases[i].refused != NULL)
      expect_refused(&m, cases[i].refused);
    else
      expect_made(&m);
    ls_nest_release(m.options.params);
    m.options.params = ls_none();
  }
  // Even one that is empty is given.
  const ls_parameters none = {.names = cases[2].names, .count = 2};
  m.options.model_fn.arguments = &none;
  m.options.params = ls_nest_dict("", NULL, NULL, 0);
  expect_refused(&m, "does not take params");
  ls_nest_release(m.options.params);
  m.options.params = ls_none();
  // Without params: a warning if they are taken, and nothing if they are not.
  assert_int_equal(warnings, 0);
  const ls_parameters takes = {.names = cases[3].names, .count = 2};
  const ls_parameters does_not = {.names = cases[2].names, .count = 2};
  m.options.model_fn.arguments = &takes;
  expect_made(&m);
  assert_int_equal(warnings, 1);
  m.options.model_fn.arguments = &does_not;
  expect_made(&m);
  assert_int_equal(warnings, 1);
}

TEST(what_is_handed_out_is_a_copy) {
  LS_SPEC("E64");
  ls_estimator *estimator = NULL;
  const char *const key = "rate";
  const ls_nest one = ls_nest_i64(1);
  LS_OWN_BEGUN(made, m, begin, LS_FLAG_ON, (ls_run_config_options){0});
  expect_ok(ls_estimator_create(&m.options, &estimator));
  ls_nest params = ls_estimator_params(estimator);
  assert_int_equal(params.kind, LS_KIND_DICT);
  assert_int_equal(ls_nest_count(params), 0);
  ls_nest_release(params);
  ls_estimator_destroy(estimator);
  m.options.params = ls_nest_dict("", &key, &one, 1);
  expect_ok(ls_estimator_create(&m.options, &estimator));
  expect_ok(ls_params_set(&m.options.params, "rate", ls_nest_i64(2)));
  params = ls_estimator_params(estimator);
  assert_int_equal(ls_params_i64(params, "rate", 0), 1);
  expect_ok(ls_params_set(&params, "rate", ls_nest_i64(3)));
  ls_nest_release(params);
  params = ls_estimator_params(estimator);
  assert_int_equal(ls_params_i64(params, "rate", 0), 1);
  ls_nest_release(params);
  ls_nest_release(m.options.params);
  ls_estimator_destroy(estimator);
}

// Not only the dict, but what is in it.
TEST(arrays_that_are_handed_out_are_copies) {
  LS_SPEC("E64");
  LS_OWN(made, m) = {0};
  LS_OWN(ls_estimator, estimator) = NULL;
  const char *const key = "table";
  begin(&m, LS_FLAG_ON, (ls_run_config_options){0});
  const ls_nest table = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2));
  ls_array_set_f64(ls_nest_as_array(table), 1, 5);
  m.options.params = ls_nest_dict("", &key, &table, 1);
  expect_ok(ls_estimator_create(&m.options, &estimator));
  ls_array *given = ls_nest_as_array(ls_nest_find(m.options.params, key));
  ls_array_set_f64(given, 1, 6);
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, params) = ls_estimator_params(estimator);
    ls_array *mine = ls_nest_as_array(ls_nest_find(params, key));
    assert_true(ls_array_f64(mine, 1) == 5);
    ls_array_set_f64(mine, 1, 7);
  }
  ls_nest_release(m.options.params);
}

static void note_folder(void *user, const ls_log_line *line) {
  if (line->level == LS_LOG_WARNING && strstr(line->text, "temporary") != NULL)
    ++*(int *)user;
}

TEST(a_models_folder_is_one_that_is_given_or_a_new_one) {
  LS_SPEC("E63 E65");
  int warnings = 0;
  made m;
  ls_estimator *estimator = NULL, *other = NULL;
  LS_OWN(counted, runtime) = counted_begin_with((ls_runtime_options){
      .threads = 1, .log = note_folder, .log_user = &warnings});
  begin(&m, LS_FLAG_ON, (ls_run_config_options){.model_dir = "other"});
  expect_refused(&m, "construction");
  expect_refused(&m, "other");
  m.options.model_dir = "other";
  expect_made(&m);
  m.options.model_dir = NULL;
  expect_ok(ls_estimator_create(&m.options, &estimator));
  assert_string_equal(ls_estimator_model_dir(estimator), "other");
  // The base logs nothing by itself: its interval is not the configuration's.
  assert_false(ls_run_config_values(ls_estimator_run_config(estimator))
                   ->log_step_count_steps.set);
  assert_true(ls_run_config_values(m.config)->log_step_count_steps.set);
  // It is remembered for the estimator's own.
  assert_int_equal(estimator->log_steps.value, 100);
  ls_estimator_destroy(estimator);
  end(&m);
  assert_int_equal(warnings, 0);
  begin(&m, LS_FLAG_ON, (ls_run_config_options){0});
  m.options.model_dir = NULL;
  expect_ok(ls_estimator_create(&m.options, &estimator));
  assert_int_equal(access(ls_estimator_model_dir(estimator), W_OK), 0);
  assert_int_equal(warnings, 1);
  expect_ok(ls_estimator_create(&m.options, &other));
  assert_string_not_equal(ls_estimator_model_dir(estimator),
                          ls_estimator_model_dir(other));
  assert_int_equal(warnings, 2);
  ls_estimator_destroy(other);
  ls_estimator_destroy(estimator);
  end(&m);
}

TEST(cores_and_a_strategy_together_are_refused) {
  LS_SPEC("E210");
  for (int i = 0; i < 2; ++i) {
    LS_OWN(made, m) = {0};
    LS_OWN(ls_strategy, strategy) = mirrored_of(2);
    begin(&m, LS_FLAG_ON,
          (ls_run_config_options){.train_distribute = i == 0 ? strategy : NULL,
                                  .eval_distribute = i == 1 ? strategy : NULL});
    expect_refused(&m, i == 0 ? "train_distribute" : "eval_distribute");
    expect_refused(&m, "use_tpu");
    m.options.use_tpu = LS_FLAG_OFF;
    expect_made(&m);
  }
}

TEST(a_warm_start_needs_a_path) {
  LS_OWN_BEGUN(made, m, begin, LS_FLAG_ON, (ls_run_config_options){0});
  m.options.warm_start = &(ls_warm_start){.path = ""};
  expect_refused(&m, "checkpoint");
}
