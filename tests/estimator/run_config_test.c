// SPDX-License-Identifier: Apache-2.0
//
// Configurations of estimators: defaults, what is refused, copies, and what the
// environment says of the cluster.
#include "lockstep/estimator_config.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "estimator/own.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/spec.h"

// ---- A world that is ours --------------------------------------------------
typedef struct world {
  const char *tf_config;
  counted runtime;
  char last_line[200];
} world;

static const char *environment(void *user, const char *name) {
  const world *w = user;
  return strcmp(name, "TF_CONFIG") == 0 ? w->tf_config : NULL;
}

static void note(void *user, const ls_log_line *line) {
  world *w = user;
  snprintf(w->last_line, sizeof(w->last_line), "%s", line->text);
}

static void begin(world *w, const char *tf_config) {
  *w = (world){.tf_config = tf_config};
  w->runtime =
      counted_begin_with((ls_runtime_options){.threads = 1,
                                              .environment = environment,
                                              .environment_user = w,
                                              .log = note,
                                              .log_user = w});
}

static ls_run_config *make(const ls_run_config_options *options) {
  ls_run_config *config = NULL;
  expect_ok(ls_run_config_create(options, &config));
  return config;
}

static ls_run_config *make_tpu(const ls_run_config_options *options) {
  ls_run_config *config = NULL;
  expect_ok(ls_tpu_run_config_create(options, &config));
  return config;
}

static void expect_refused(const ls_run_config_options *options,
                           const char *says) {
  ls_run_config *config = NULL;
  expect_status(ls_run_config_create(options, &config), LS_INVALID_ARGUMENT,
                says);
  assert_null(config);
}

static void expect_tpu_refused(const ls_run_config_options *options,
                               const char *says) {
  ls_run_config *config = NULL;
  expect_status(ls_tpu_run_config_create(options, &config), LS_INVALID_ARGUMENT,
                says);
  assert_null(config);
}

static void expect_number(ls_opt number, int64_t wanted) {
  assert_true(number.set);
  assert_int_equal(number.value, wanted);
}

// ---- The base --------------------------------------------------------------
TEST(it_has_its_defaults) {
  LS_SPEC("E17");
  world w;
  begin(&w, NULL);
  ls_run_config *config = make(NULL);
  const ls_run_values *v = ls_run_config_values(config);
  expect_number(v->save_summary_steps, 100);
  expect_number(v->save_checkpoints_secs, 600);
  assert_false(v->save_checkpoints_steps.set);
  expect_number(v->keep_checkpoint_max, 5);
  expect_number(v->keep_checkpoint_every_n_hours, 10000);
  expect_number(v->log_step_count_steps, 100);
  expect_number(v->session_creation_timeout_secs, 7200);
  assert_true(v->checkpoint_save_graph_def);
  assert_false(v->random_seed.set);
  assert_null(v->model_dir);
  assert_null(v->session_config);
  assert_null(v->tpu);
  ls_run_config_release(config);
  // One interval leaves the other unset.
  config = make(&(ls_run_config_options){.save_checkpoints_steps = LS_SOME(7)});
  v = ls_run_config_values(config);
  expect_number(v->save_checkpoints_steps, 7);
  assert_false(v->save_checkpoints_secs.set);
  ls_run_config_release(config);
  config = make(&(ls_run_config_options){.save_checkpoints_secs = LS_SOME(7)});
  v = ls_run_config_values(config);
  expect_number(v->save_checkpoints_secs, 7);
  assert_false(v->save_checkpoints_steps.set);
  ls_run_config_release(config);
  // Both unset: no checkpoints.
  config = make(&(ls_run_config_options){.checkpoints = LS_FLAG_OFF});
  v = ls_run_config_values(config);
  assert_false(v->save_checkpoints_secs.set);
  assert_false(v->save_checkpoints_steps.set);
  ls_run_config_release(config);
  // Nobody tells how fast steps are.
  config = make(&(ls_run_config_options){.log_step_count = LS_FLAG_OFF});
  assert_false(ls_run_config_values(config)->log_step_count_steps.set);
  ls_run_config_release(config);
  counted_end(&w.runtime);
}

TEST(what_cannot_be_is_refused_by_field) {
  LS_SPEC("E18");
  world w;
  begin(&w, NULL);
  expect_refused(&(ls_run_config_options){.save_checkpoints_steps = LS_SOME(1),
                                          .save_checkpoints_secs = LS_SOME(1)},
                 "save_checkpoints_steps and save_checkpoints_secs");
  const struct {
    ls_run_config_options options;
    const char *says;
  } rows[] = {
      {{.model_dir = ""}, "model_dir"},
      {{.save_summary_steps = LS_SOME(-1)}, "save_summary_steps"},
      {{.save_checkpoints_steps = LS_SOME(-1)}, "save_checkpoints_steps"},
      {{.save_checkpoints_secs = LS_SOME(-1)}, "save_checkpoints_secs"},
      {{.keep_checkpoint_max = LS_SOME(-1)}, "keep_checkpoint_max"},
      {{.keep_checkpoint_every_n_hours = LS_SOME(0)},
       "keep_checkpoint_every_n_hours"},
      {{.log_step_count_steps = LS_SOME(0)}, "log_step_count_steps"},
      {{.session_creation_timeout_secs = LS_SOME(0)},
       "session_creation_timeout_secs"},
      {{.protocol = "http"}, "protocol"},
      {{.protocol = ""}, "protocol"},
      {{.checkpoints = (ls_flag)5}, "checkpoints 5"},
      {{.checkpoint_save_graph_def = (ls_flag)5}, "checkpoint_save_graph_def"},
      {{.checkpoints = LS_FLAG_OFF, .save_checkpoints_secs = LS_SOME(1)},
       "checkpoints are off"},
      {{.log_step_count = (ls_flag)5}, "log_step_count 5"},
      {{.log_step_count = LS_FLAG_OFF, .log_step_count_steps = LS_SOME(1)},
       "log_step_count is off"},
      {{.master = ""}, "ls_tpu_run_config_create"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_refused(&rows[i].options, rows[i].says);
  // The smallest that can be.
  ls_run_config *config =
      make(&(ls_run_config_options){.model_dir = "m",
                                    .save_summary_steps = LS_SOME(0),
                                    .save_checkpoints_steps = LS_SOME(0),
                                    .keep_checkpoint_max = LS_SOME(0),
                                    .keep_checkpoint_every_n_hours = LS_SOME(1),
                                    .log_step_count_steps = LS_SOME(1),
                                    .session_creation_timeout_secs = LS_SOME(1),
                                    .protocol = "grpc+verbs"});
  ls_run_config_release(config);
  config = make(&(ls_run_config_options){.save_checkpoints_secs = LS_SOME(0),
                                         .protocol = "grpc"});
  ls_run_config_release(config);
  counted_end(&w.runtime);
}

static ls_run_config *replaced(const ls_run_config *config, const char *field,
                               const ls_run_config_options *values) {
  ls_run_config *out = NULL;
  expect_ok(ls_run_config_replace(config, &field, 1, values, &out));
  return out;
}

static void expect_not_replaced(const ls_run_config *config, const char *field,
                                const ls_run_config_options *values,
                                const char *says) {
  ls_run_config *out = NULL;
  expect_status(ls_run_config_replace(config, &field, 1, values, &out),
                LS_INVALID_ARGUMENT, says);
  assert_null(out);
}

TEST(replacing_gives_another_one) {
  LS_SPEC("E19");
  world w;
  begin(&w, "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"]},"
            " \"task\": {\"type\": \"worker\", \"index\": 0}}");
  ls_run_config *first = make(&(ls_run_config_options){
      .model_dir = "m",
      .random_seed = LS_SOME(3),
      .session_config = &(ls_session_config){.soft_placement = LS_FLAG_ON}});
  ls_run_config *second =
      replaced(first, "model_dir", &(ls_run_config_options){.model_dir = "n"});
  ls_run_config *same = replaced(first, "random_seed",
                                 &(ls_run_config_options){.model_dir = "x"});
  assert_string_equal(ls_run_config_values(same)->model_dir, "m");
  assert_ptr_not_equal(ls_run_config_values(same)->model_dir,
                       ls_run_config_values(first)->model_dir);
  ls_run_config_release(same);
  const ls_run_values *a = ls_run_config_values(first),
                      *b = ls_run_config_values(second);
  assert_string_equal(a->model_dir, "m");
  assert_string_equal(b->model_dir, "n");
  expect_number(b->random_seed, 3);
  // It is a deep one.
  assert_ptr_not_equal(a->cluster, b->cluster);
  assert_ptr_not_equal(a->session_config, b->session_config);
  ls_run_config_release(first);
  assert_string_equal(b->cluster->jobs[1].addresses[0], "b:1");
  assert_string_equal(b->task_type, "worker");
  assert_string_equal(b->master, "grpc://b:1");
  assert_int_equal(b->session_config->soft_placement, LS_FLAG_ON);
  // What is not given becomes unset.
  ls_run_config *third =
      replaced(second, "log_step_count_steps", &(ls_run_config_options){0});
  assert_false(ls_run_config_values(third)->log_step_count_steps.set);
  ls_run_config_release(third);
  // One interval unsets the other; both at once cannot be.
  third =
      replaced(second, "save_checkpoints_steps",
               &(ls_run_config_options){.save_checkpoints_steps = LS_SOME(9)});
  expect_number(ls_run_config_values(third)->save_checkpoints_steps, 9);
  assert_false(ls_run_config_values(third)->save_checkpoints_secs.set);
  ls_run_config *fourth =
      replaced(third, "save_checkpoints_secs",
               &(ls_run_config_options){.save_checkpoints_secs = LS_SOME(8)});
  expect_number(ls_run_config_values(fourth)->save_checkpoints_secs, 8);
  assert_false(ls_run_config_values(fourth)->save_checkpoints_steps.set);
  ls_run_config_release(fourth);
  // One that is not given leaves the other.
  fourth =
      replaced(second, "save_checkpoints_steps", &(ls_run_config_options){0});
  expect_number(ls_run_config_values(fourth)->save_checkpoints_secs, 600);
  ls_run_config_release(fourth);
  fourth =
      replaced(third, "save_checkpoints_secs", &(ls_run_config_options){0});
  expect_number(ls_run_config_values(fourth)->save_checkpoints_steps, 9);
  ls_run_config_release(fourth);
  fourth = NULL;
  static const char *const both[] = {"save_checkpoints_steps",
                                     "save_checkpoints_secs"};
  expect_status(ls_run_config_replace(third, both, 2,
                                      &(ls_run_config_options){
                                          .save_checkpoints_steps = LS_SOME(1),
                                          .save_checkpoints_secs = LS_SOME(1)},
                                      &fourth),
                LS_INVALID_ARGUMENT, "both set");
  expect_ok(ls_run_config_replace(third, both, 2, &(ls_run_config_options){0},
                                  &fourth));
  assert_false(ls_run_config_values(fourth)->save_checkpoints_steps.set);
  ls_run_config_release(fourth);
  // Others are refused, and what is replaced is checked.
  expect_not_replaced(third, "master", &(ls_run_config_options){0},
                      "'master' of a run configuration cannot be replaced");
  expect_not_replaced(
      third, "is_chief", &(ls_run_config_options){0},
      "allowed are model_dir, random_seed, save_summary_steps, "
      "save_checkpoints_steps, save_checkpoints_secs, session_config, "
      "keep_checkpoint_max, keep_checkpoint_every_n_hours, "
      "log_step_count_steps, session_creation_timeout_secs, "
      "checkpoint_save_graph_def, protocol, train_distribute, "
      "eval_distribute");
  expect_not_replaced(third, "tpu_config", &(ls_run_config_options){0},
                      "'tpu_config'");
  expect_not_replaced(third, "model_dir",
                      &(ls_run_config_options){.model_dir = ""}, "model_dir");
  expect_not_replaced(
      third, "keep_checkpoint_max",
      &(ls_run_config_options){.keep_checkpoint_max = LS_SOME(-1)},
      "keep_checkpoint_max");
  // Nothing comes of what is not given.
  fourth = third;
  expect_status(ls_run_config_replace(third, both, 2, NULL, &fourth),
                LS_INVALID_ARGUMENT, "values");
  assert_null(fourth);
  ls_run_config_release(third);
  ls_run_config_release(second);
  counted_end(&w.runtime);
}

TEST(every_field_can_be_replaced) {
  LS_SPEC("E19");
  static const char *const fields[] = {"random_seed",
                                       "save_summary_steps",
                                       "keep_checkpoint_max",
                                       "keep_checkpoint_every_n_hours",
                                       "log_step_count_steps",
                                       "session_creation_timeout_secs",
                                       "protocol",
                                       "session_config",
                                       "train_distribute",
                                       "eval_distribute",
                                       "checkpoint_save_graph_def"};
  world w;
  begin(&w, NULL);
  ls_strategy *s = NULL;
  expect_ok(ls_mirrored_strategy_create(NULL, &s));
  ls_run_config *config = make(NULL), *other = NULL;
  const ls_run_config_options values = {
      .random_seed = LS_SOME(1),
      .save_summary_steps = LS_SOME(2),
      .keep_checkpoint_max = LS_SOME(3),
      .keep_checkpoint_every_n_hours = LS_SOME(4),
      .log_step_count_steps = LS_SOME(5),
      .session_creation_timeout_secs = LS_SOME(6),
      .protocol = "grpc",
      .session_config = &(ls_session_config){.soft_placement = LS_FLAG_ON},
      .train_distribute = s,
      .eval_distribute = s,
      .checkpoint_save_graph_def = LS_FLAG_OFF};
  expect_ok(ls_run_config_replace(config, fields, LS_COUNT_OF(fields), &values,
                                  &other));
  ls_run_config_release(config);
  const ls_run_values *v = ls_run_config_values(other);
  expect_number(v->random_seed, 1);
  expect_number(v->save_summary_steps, 2);
  expect_number(v->keep_checkpoint_max, 3);
  expect_number(v->keep_checkpoint_every_n_hours, 4);
  expect_number(v->log_step_count_steps, 5);
  expect_number(v->session_creation_timeout_secs, 6);
  expect_number(v->save_checkpoints_secs, 600);
  assert_string_equal(v->protocol, "grpc");
  assert_int_equal(v->session_config->soft_placement, LS_FLAG_ON);
  assert_ptr_equal(v->train_distribute, s);
  assert_ptr_equal(v->eval_distribute, s);
  assert_false(v->checkpoint_save_graph_def);
  ls_run_config_release(other);
  ls_strategy_release(s);
  counted_end(&w.runtime);
}

// ---- The environment -------------------------------------------------------
// "TYPE ID MASTER EVAL_MASTER chief|- PS WORKERS GLOBAL_ID JOBS"
static void describe(const ls_run_values *v, char *text, size_t size) {
  char id[24] = "-";
  if (v->global_id.set)
    snprintf(id, sizeof(id), "%lld", (long long)v->global_id.value);
  snprintf(text, size, "%s %d '%s' '%s' %s %d %d %s %zu", v->task_type,
           v->task_id, v->master, v->evaluation_master,
           v->is_chief ? "chief" : "-", v->num_ps, v->num_workers, id,
           v->cluster->num_jobs);
}

typedef struct cluster_row {
  const char *tf_config;
  const char *wanted;
} cluster_row;

static void expect_clusters(const cluster_row *rows, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    world w;
    char text[300];
    begin(&w, rows[i].tf_config);
    ls_run_config *config = make(NULL);
    describe(ls_run_config_values(config), text, sizeof(text));
    assert_string_equal(text, rows[i].wanted);
    ls_run_config_release(config);
    counted_end(&w.runtime);
  }
}

static void expect_environments_refused(const cluster_row *rows, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    world w;
    begin(&w, rows[i].tf_config);
    expect_refused(NULL, rows[i].wanted);
    counted_end(&w.runtime);
  }
}

TEST(without_a_cluster_it_is_the_one_worker) {
  LS_SPEC("E20 E22");
  static const char alone[] = "worker 0 '' '' chief 0 1 0 0";
  const cluster_row rows[] = {
      {NULL, alone},
      {"", alone},
      {"{}", alone},
      {"{\"cluster\": {}, \"service\": {}, \"task\": {}}", alone},
      {"{\"task\": {\"type\": \"worker\", \"index\": 0}}", alone},
      {"{\"task\": {\"index\": \"0\"}}", alone},
      {"{\"session_master\": \"m\", \"eval_session_master\": \"e\"}",
       "worker 0 'm' 'e' chief 0 1 0 0"},
      {"{\"session_master\": \"m\"}", "worker 0 'm' 'm' chief 0 1 0 0"},
      {"{\"eval_session_master\": \"e\"}", "worker 0 '' 'e' chief 0 1 0 0"},
  };
  expect_clusters(rows, LS_COUNT_OF(rows));
  const cluster_row refused[] = {
      {"{\"task\": {\"type\": \"ps\"}}", "must be 'worker', got 'ps'"},
      {"{\"task\": {\"type\": \"evaluator\"}}", "must be 'worker'"},
      {"{\"task\": {\"index\": 1}}", "must be 0, got 1"},
      {"{\"task\": {\"index\": \"x\"}}", "no whole number"},
      {"{\"task\": {\"index\": \"\"}}", "no whole number"},
      {"{\"task\": {\"index\": \"+0\"}}", "no whole number"},
      {"{\"task\": {\"index\": \" 0\"}}", "no whole number"},
      {"{\"task\": {\"index\": \"0 \"}}", "no whole number"},
      {"{\"task\": {\"index\": \"-\"}}", "no whole number"},
      {"{\"task\": {\"index\": \"9223372036854775808\"}}", "no whole number"},
      {"{\"task\": {\"index\": \"-1\"}}", "must be 0, got -1"},
      {"{\"task\": 3}", "task is no JSON object"},
      {"[]", "TF_CONFIG is no JSON object"},
      {"{", "TF_CONFIG"},
      {"{\"session_master\": 3}", "session_master is no string"},
  };
  expect_environments_refused(refused, LS_COUNT_OF(refused));
}

#define CLUSTER                                                                \
  "{\"cluster\": {\"ps\": [\"p:0\", \"p:1\"], \"worker\": [\"w:0\", \"w:1\"]," \
  " \"chief\": [\"c:0\"], \"assistant\": [\"a:0\", \"a:1\"]}, "
#define TASK(type, index)                                                      \
  "\"task\": {\"type\": \"" type "\", \"index\": " #index "}"

TEST(a_cluster_says_who_is_who) {
  LS_SPEC("E21 E23");
  const cluster_row rows[] = {
      {CLUSTER TASK("chief", 0) "}", "chief 0 'grpc://c:0' '' chief 2 3 0 4"},
      {CLUSTER TASK("assistant", 0) "}",
       "assistant 0 'grpc://a:0' '' - 2 3 1 4"},
      {CLUSTER TASK("assistant", 1) "}",
       "assistant 1 'grpc://a:1' '' - 2 3 2 4"},
      {CLUSTER TASK("worker", 0) "}", "worker 0 'grpc://w:0' '' - 2 3 3 4"},
      {CLUSTER TASK("worker", 1) "}", "worker 1 'grpc://w:1' '' - 2 3 4 4"},
      {CLUSTER TASK("ps", 0) "}", "ps 0 'grpc://p:0' '' - 2 3 5 4"},
      {CLUSTER TASK("ps", 1) "}", "ps 1 'grpc://p:1' '' - 2 3 6 4"},
      {CLUSTER "\"session_master\": \"s\", " TASK("ps", 1) "}",
       "ps 1 's' '' - 2 3 6 4"},
      // One node does things by itself.
      {"{\"cluster\": {\"chief\": [\"c:0\"]}, " TASK("chief", 0) "}",
       "chief 0 '' '' chief 0 1 0 1"},
      // As it was called once.
      {"{\"cluster\": {\"master\": [\"m:0\"], \"worker\": [\"w:0\"]}, " TASK(
           "master", 0) "}",
       "master 0 'grpc://m:0' '' chief 0 2 0 2"},
      {"{\"cluster\": {\"master\": [\"m:0\"], \"worker\": [\"w:0\"]}, " TASK(
           "worker", 0) "}",
       "worker 0 'grpc://w:0' '' - 0 2 1 2"},
  };
  expect_clusters(rows, LS_COUNT_OF(rows));
  const cluster_row refused[] = {
      {"{\"cluster\": {\"worker\": [\"w:0\"]}, " TASK("worker", 0) "}",
       "0 tasks of job 'chief'"},
      {"{\"cluster\": {\"chief\": [\"c:0\", \"c:1\"]}, " TASK("chief", 0) "}",
       "2 tasks of job 'chief'"},
      {"{\"cluster\": {\"chief\": [\"c:0\"], \"master\": [\"m:0\"]}, " TASK(
           "chief", 0) "}",
       "a 'master' and a 'chief'"},
      {CLUSTER "\"task\": {\"index\": 0}}", "type must be set"},
      {CLUSTER "\"task\": {\"type\": \"worker\"}}", "TF_CONFIG"},
      {CLUSTER "\"task\": {\"type\": \"worker\"}}",
       "index of task 'worker' must be set"},
      {CLUSTER TASK("worker", -1) "}", "index -1 of task 'worker'"},
      {CLUSTER TASK("worker", 4294967296) "}",
       "index 4294967296 of task 'worker' is above 2147483647"},
      {CLUSTER TASK("worker", "4294967296") "}",
       "index 4294967296 of task 'worker' is above 2147483647"},
      {CLUSTER TASK("worker", "-3") "}", "must not be negative"},
      {CLUSTER TASK("worker", 2) "}", "index 2 of task 'worker'"},
      {CLUSTER TASK("nobody", 0) "}", "task 'nobody'"},
      {"{\"cluster\": {\"chief\": 3}, " TASK("chief", 0) "}", "job 'chief'"},
      {"{\"cluster\": {\"chief\": [3]}, " TASK("chief", 0) "}", "no address"},
      {"{\"cluster\": []}", "cluster is no JSON object"},
  };
  expect_environments_refused(refused, LS_COUNT_OF(refused));
}

TEST(an_evaluator_is_in_no_cluster) {
  LS_SPEC("E22");
  const cluster_row rows[] = {
      {CLUSTER TASK("evaluator", 0) "}", "evaluator 0 '' '' - 0 0 - 0"},
      {CLUSTER
       "\"session_master\": \"s\", \"eval_session_master\": \"e\", " TASK(
           "evaluator", 9) "}",
       "evaluator 9 '' 'e' - 0 0 - 0"},
      // Nobody else has another master for evaluation.
      {CLUSTER "\"eval_session_master\": \"e\", " TASK("chief", 0) "}",
       "chief 0 'grpc://c:0' '' chief 2 3 0 4"},
  };
  expect_clusters(rows, LS_COUNT_OF(rows));
  const cluster_row refused[] = {
      {"{\"cluster\": {\"master\": [\"m:0\"]}, " TASK("evaluator", 0) "}",
       "no task 'evaluator'"},
  };
  expect_environments_refused(refused, LS_COUNT_OF(refused));
}

TEST(a_folder_is_given_once_or_twice_the_same) {
  LS_SPEC("E24");
  world w;
  begin(&w, "{\"model_dir\": \"here\"}");
  ls_run_config *config = make(NULL);
  assert_string_equal(ls_run_config_values(config)->model_dir, "here");
  ls_run_config_release(config);
  config = make(&(ls_run_config_options){.model_dir = "here"});
  assert_string_equal(ls_run_config_values(config)->model_dir, "here");
  ls_run_config_release(config);
  expect_refused(&(ls_run_config_options){.model_dir = "there"},
                 "'there' in the configuration and 'here' in TF_CONFIG");
  expect_refused(&(ls_run_config_options){.model_dir = ""}, "model_dir");
  counted_end(&w.runtime);
  const cluster_row refused[] = {
      {"{\"model_dir\": \"\"}", "model_dir should be non-empty"},
      {"{\"service\": [1]}", "service is no JSON object"},
      {"{\"service\": \"s\"}", "service is no JSON object"},
  };
  expect_environments_refused(refused, LS_COUNT_OF(refused));
}

// ---- TPU runs --------------------------------------------------------------
static ls_tpu_resolver *resolver_of(const char *name) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = name, .job = "w"}, &resolver));
  return resolver;
}

static void expect_masters(const ls_run_config_options *options,
                           const char *master, const char *evaluation_master) {
  LS_OWN(ls_run_config, config) = make_tpu(options);
  const ls_run_values *v = ls_run_config_values(config);
  assert_string_equal(v->master, master);
  assert_string_equal(v->evaluation_master, evaluation_master);
  assert_non_null(v->tpu);
  assert_ptr_equal(v->resolver, options->resolver);
}

TEST(masters_come_from_the_resolver_or_are_given) {
  LS_SPEC("E25 E26");
  world w;
  begin(&w, NULL);
  ls_tpu_resolver *resolver = resolver_of("grpc://10.0.0.1,10.0.0.2");
  expect_masters(&(ls_run_config_options){0}, "", "");
  expect_masters(&(ls_run_config_options){.master = "m"}, "m", "m");
  expect_masters(
      &(ls_run_config_options){.master = "m", .evaluation_master = "e"}, "m",
      "e");
  expect_masters(
      &(ls_run_config_options){.master = "m", .evaluation_master = ""}, "m",
      "");
  expect_masters(&(ls_run_config_options){.resolver = resolver},
                 "grpc://10.0.0.1:8470", "grpc://10.0.0.1:8470");
  expect_masters(
      &(ls_run_config_options){.resolver = resolver, .evaluation_master = "e"},
      "grpc://10.0.0.1:8470", "e");
  expect_tpu_refused(
      &(ls_run_config_options){.resolver = resolver, .master = ""},
      "master and resolver are both given");
  ls_tpu_resolver_release(resolver);
  counted_end(&w.runtime);
  begin(&w, "{\"session_master\": \"s\", \"eval_session_master\": \"v\"}");
  expect_masters(&(ls_run_config_options){0}, "s", "v");
  expect_masters(&(ls_run_config_options){.master = "m"}, "m", "v");
  expect_masters(&(ls_run_config_options){.evaluation_master = "e"}, "s", "e");
  counted_end(&w.runtime);
  // An evaluator keeps what the environment says.
  begin(&w, CLUSTER TASK("evaluator", 0) "}");
  expect_masters(&(ls_run_config_options){.master = "m"}, "m", "");
  counted_end(&w.runtime);
  begin(&w,
        CLUSTER "\"eval_session_master\": \"e\", " TASK("evaluator", 0) "}");
  expect_masters(&(ls_run_config_options){.master = "m"}, "m", "e");
  expect_masters(&(ls_run_config_options){.evaluation_master = "f"}, "", "f");
  counted_end(&w.runtime);
}

TEST(sessions_have_the_systems_cluster) {
  LS_SPEC("E27");
  world w;
  begin(&w, CLUSTER TASK("chief", 0) "}");
  // Without a resolver there is none, whatever the environment says.
  ls_run_config *config = make_tpu(NULL);
  assert_null(ls_run_config_values(config)->session_config);
  ls_run_config_release(config);
  ls_tpu_resolver *resolver = resolver_of("grpc://10.0.0.1");
  config = make_tpu(&(ls_run_config_options){.resolver = resolver});
  const ls_session_config *session =
      ls_run_config_values(config)->session_config;
  assert_int_equal(session->soft_placement, LS_FLAG_ON);
  assert_int_equal(session->isolate_session_state, LS_FLAG_ON);
  assert_int_equal(session->cluster->num_jobs, 1);
  assert_string_equal(session->cluster->jobs[0].name, "w");
  assert_string_equal(session->cluster->jobs[0].addresses[0], "10.0.0.1:8470");
  ls_run_config_release(config);
  // One that is given is kept, and joined.
  ls_session_config given = {.soft_placement = LS_FLAG_OFF};
  config = make_tpu(
      &(ls_run_config_options){.resolver = resolver, .session_config = &given});
  session = ls_run_config_values(config)->session_config;
  assert_int_equal(session->soft_placement, LS_FLAG_OFF);
  assert_int_equal(session->isolate_session_state, LS_FLAG_DEFAULT);
  assert_string_equal(session->cluster->jobs[0].name, "w");
  expect_ok(ls_cluster_spec_copy(session->cluster, &given.cluster));
  ls_run_config_release(config);
  expect_tpu_refused(
      &(ls_run_config_options){.resolver = resolver, .session_config = &given},
      "session_config has a cluster");
  ls_session_config_deinit(&given);
  ls_tpu_resolver_release(resolver);
  // A virtual system has no addresses.
  resolver = resolver_of("virtual:2x1");
  config = make_tpu(&(ls_run_config_options){.resolver = resolver});
  session = ls_run_config_values(config)->session_config;
  assert_int_equal(session->isolate_session_state, LS_FLAG_ON);
  assert_null(session->cluster);
  ls_run_config_release(config);
  ls_tpu_resolver_release(resolver);
  counted_end(&w.runtime);
}

TEST(a_tpu_runs_configuration_can_be_replaced) {
  LS_SPEC("E28");
  world w;
  begin(&w, NULL);
  ls_tpu_resolver *resolver = resolver_of("grpc://10.0.0.1");
  ls_run_config *first = make_tpu(&(ls_run_config_options){
      .resolver = resolver,
      .tpu = &(ls_tpu_config){.iterations_per_loop = "5"}});
  ls_run_config *second =
      replaced(first, "tpu_config",
               &(ls_run_config_options){
                   .tpu = &(ls_tpu_config){.num_shards = LS_SOME(8)}});
  assert_string_equal(ls_run_config_values(first)->tpu->iterations_per_loop,
                      "5");
  const ls_run_values *v = ls_run_config_values(second);
  assert_string_equal(v->tpu->iterations_per_loop, "2");
  expect_number(v->tpu->num_shards, 8);
  assert_ptr_equal(v->resolver, resolver);
  assert_string_equal(v->master, "grpc://10.0.0.1:8470");
  ls_run_config_release(second);
  second =
      replaced(first, "model_dir", &(ls_run_config_options){.model_dir = "m"});
  assert_string_equal(ls_run_config_values(second)->tpu->iterations_per_loop,
                      "5");
  ls_run_config_release(second);
  expect_not_replaced(first, "tpu_config",
                      &(ls_run_config_options){
                          .tpu = &(ls_tpu_config){.num_shards = LS_SOME(0)}},
                      "num_shards");
  expect_not_replaced(first, "cluster", &(ls_run_config_options){0},
                      "eval_distribute, tpu_config");
  ls_run_config_release(first);
  ls_tpu_resolver_release(resolver);
  counted_end(&w.runtime);
}

TEST(use_of_a_system_has_its_defaults) {
  LS_SPEC("E29");
  world w;
  begin(&w, NULL);
  assert_int_equal(LS_INPUT_PER_SHARD_V1, 1);
  assert_int_equal(LS_INPUT_PER_HOST_V1, 2);
  assert_int_equal(LS_INPUT_PER_HOST_V2, 3);
  assert_int_equal(LS_INPUT_BROADCAST, 4);
  assert_int_equal(LS_INPUT_SLICED, 5);
  ls_run_config *config = make_tpu(NULL);
  const ls_tpu_config *tpu = ls_run_config_values(config)->tpu;
  assert_string_equal(tpu->iterations_per_loop, "2");
  assert_false(tpu->num_shards.set);
  assert_false(tpu->num_cores_per_replica.set);
  assert_null(tpu->tpu_job_name);
  assert_false(tpu->initial_infeed_sleep_secs.set);
  assert_int_equal(tpu->input_partition_dims.kind, LS_KIND_NONE);
  assert_int_equal(tpu->per_host_input, LS_INPUT_PER_HOST_V1);
  assert_int_equal(tpu->eval_training_input, LS_INPUT_PER_HOST_V1);
  expect_number(tpu->host_call_every_n_steps, 1);
  assert_int_equal(tpu->parallel_get_next, LS_FLAG_OFF);
  ls_run_config_release(config);
  for (int yes = 0; yes < 2; ++yes) {
    config = make_tpu(&(ls_run_config_options){
        .tpu = &(ls_tpu_config){.per_host_input = ls_input_per_host(yes)}});
    assert_int_equal(ls_run_config_values(config)->tpu->per_host_input,
                     yes ? LS_INPUT_PER_HOST_V1 : LS_INPUT_PER_SHARD_V1);
    ls_run_config_release(config);
  }
  counted_end(&w.runtime);
}

TEST(a_loop_is_a_count_or_a_time) {
  LS_SPEC("E30");
  const struct {
    const char *text;
    int64_t steps, seconds;
  } good[] = {{"1", 1, 0},    {"100", 100, 0}, {"1s", 0, 1},     {"30s", 0, 30},
              {"5m", 0, 300}, {"1h", 0, 3600}, {"20h", 0, 72000}};
  static const char *const bad[] = {"0",
                                    "012",
                                    "-1h",
                                    "5d",
                                    "",
                                    "0s",
                                    "+1",
                                    "1.5",
                                    "s",
                                    "1hs",
                                    "01s",
                                    " 1",
                                    "1 ",
                                    "-1",
                                    "1 s",
                                    "1H",
                                    "99999999999999999999",
                                    "9223372036854775807h"};
  world w;
  begin(&w, NULL);
  for (size_t i = 0; i < LS_COUNT_OF(good); ++i) {
    ls_loop_length length;
    expect_ok(ls_loop_length_parse(good[i].text, &length));
    assert_int_equal(length.steps, good[i].steps);
    assert_int_equal(length.seconds, good[i].seconds);
    LS_OWN(ls_run_config, config) = make_tpu(&(ls_run_config_options){
        .tpu = &(ls_tpu_config){.iterations_per_loop = good[i].text}});
    assert_string_equal(ls_run_config_values(config)->tpu->iterations_per_loop,
                        good[i].text);
  }
  for (size_t i = 0; i < LS_COUNT_OF(bad); ++i) {
    const ls_run_config_options options = {
        .tpu = &(ls_tpu_config){.iterations_per_loop = bad[i]}};
    expect_tpu_refused(&options, "must be positive");
    expect_tpu_refused(&options, "iterations_per_loop");
  }
  counted_end(&w.runtime);
}

TEST(uses_that_cannot_be_are_refused) {
  LS_SPEC("E31");
  const struct {
    ls_tpu_config tpu;
    const char *says;
  } rows[] = {
      {{.num_shards = LS_SOME(0)}, "num_shards must be positive, got 0"},
      {{.num_shards = LS_SOME(-2)}, "num_shards must be positive, got -2"},
      {{.num_cores_per_replica = LS_SOME(3)},
       "num_cores_per_replica is 3, must be one of 1, 2, 4, 8, 16, 32, 64, "
       "128"},
      {{.num_cores_per_replica = LS_SOME(256)}, "is 256"},
      {{.num_cores_per_replica = LS_SOME(0)}, "is 0"},
      {{.initial_infeed_sleep_secs = LS_SOME(-1)}, "initial_infeed_sleep_secs"},
      {{.eval_training_input = LS_INPUT_PER_SHARD_V1}, "eval_training_input"},
      {{.eval_training_input = LS_INPUT_PER_HOST_V2}, "eval_training_input"},
      {{.eval_training_input = LS_INPUT_BROADCAST}, "eval_training_input"},
      {{.per_host_input = (ls_input_pipeline)9}, "per_host_input 9"},
      {{.per_host_input = LS_INPUT_SLICED}, "set eval_training_input"},
      {{.host_call_every_n_steps = LS_SOME(0)}, "host_call_every_n_steps"},
      {{.parallel_get_next = (ls_flag)9}, "parallel_get_next 9"},
  };
  world w;
  begin(&w, NULL);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_tpu_refused(&(ls_run_config_options){.tpu = &rows[i].tpu},
                       rows[i].says);
  for (int64_t cores = 1; cores <= 128; cores *= 2) {
    LS_OWN(ls_run_config, config) = make_tpu(&(ls_run_config_options){
        .tpu = &(ls_tpu_config){.num_cores_per_replica = LS_SOME(cores),
                                .initial_infeed_sleep_secs = LS_SOME(0),
                                .eval_training_input = LS_INPUT_SLICED}});
  }
  counted_end(&w.runtime);
}

static ls_nest dims_of(size_t count) {
  const ls_nest two[] = {ls_nest_i64(2), ls_nest_i64(1)};
  ls_nest items[4];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_sequence(LS_KIND_LIST, two, 2);
  return ls_nest_sequence(LS_KIND_LIST, items, count);
}

TEST(partitions_of_input_are_checked_in_order) {
  LS_SPEC("E32");
  world w;
  begin(&w, NULL);
  for (size_t count = 0; count <= 3; ++count) {
    LS_OWN(ls_nest, dims) = dims_of(count);
    ls_tpu_config tpu = {.input_partition_dims = dims};
    const ls_run_config_options options = {.tpu = &tpu};
    if (count == 0 || count == 3) {
      // The number comes first.
      expect_tpu_refused(&options, "must be a list of one or two");
    } else {
      // Then the way of input, then the cores.
      expect_tpu_refused(&options, "needs PER_HOST_V2");
      tpu.num_cores_per_replica = (ls_opt)LS_SOME(2);
      expect_tpu_refused(&options, "needs PER_HOST_V2");
      tpu.num_cores_per_replica = (ls_opt){0};
      tpu.per_host_input = LS_INPUT_PER_HOST_V2;
      expect_tpu_refused(&options, "needs num_cores_per_replica");
      tpu.num_cores_per_replica = (ls_opt)LS_SOME(2);
      LS_OWN(ls_run_config, config) = make_tpu(&options);
      assert_int_equal(
          ls_nest_count(
              ls_run_config_values(config)->tpu->input_partition_dims),
          count);
    }
  }
  counted_end(&w.runtime);
}

TEST(the_workers_job_may_come_from_the_environment) {
  LS_SPEC("E33");
  world w;
  begin(&w, "{\"service\": {\"tpu_worker_job_name\": \"pod\"}}");
  ls_run_config *config = make_tpu(NULL);
  assert_string_equal(ls_run_config_values(config)->tpu->tpu_job_name, "pod");
  assert_non_null(strstr(w.last_line, "'pod'"));
  // A copy has it, too.
  ls_run_config *other =
      replaced(config, "random_seed", &(ls_run_config_options){0});
  assert_string_equal(ls_run_config_values(other)->tpu->tpu_job_name, "pod");
  ls_run_config_release(other);
  other = replaced(
      config, "tpu_config",
      &(ls_run_config_options){.tpu = &(ls_tpu_config){.num_shards = {0}}});
  assert_string_equal(ls_run_config_values(other)->tpu->tpu_job_name, "pod");
  ls_run_config_release(other);
  ls_run_config_release(config);
  config = make_tpu(&(ls_run_config_options){
      .tpu = &(ls_tpu_config){.tpu_job_name = "mine"}});
  assert_string_equal(ls_run_config_values(config)->tpu->tpu_job_name, "mine");
  ls_run_config_release(config);
  counted_end(&w.runtime);
  begin(&w, "{\"service\": {\"other\": 3}}");
  config = make_tpu(NULL);
  assert_null(ls_run_config_values(config)->tpu->tpu_job_name);
  ls_run_config_release(config);
  counted_end(&w.runtime);
}

// A device is named by the one, and the system found by the other.
TEST(the_workers_job_is_that_of_the_resolver) {
  world w;
  static const char *const names[] = {"virtual:2x1", "local"};
  static const char *const says[] = {
      "tpu_job_name is 'blue', and the resolver's TPU system 'virtual:2x1' is "
      "of job red",
      "tpu_job_name is 'blue', and the resolver's TPU system 'local' is of job "
      "localhost"};
  for (int k = 0; k < 2; ++k) {
    ls_tpu_resolver *resolver = NULL;
    ls_run_config *config = NULL, *other = NULL;
    begin(&w, "{\"service\": {\"tpu_worker_job_name\": \"blue\"}}");
    expect_ok(ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = names[k], .job = "red"}, &resolver));
    ls_run_config_options o = {.resolver = resolver,
                               .tpu = &(ls_tpu_config){.tpu_job_name = "blue"}};
    expect_status(ls_tpu_run_config_create(&o, &config), LS_INVALID_ARGUMENT,
                  says[k]);
    // The environment says it, too.
    o.tpu = NULL;
    expect_status(ls_tpu_run_config_create(&o, &config), LS_INVALID_ARGUMENT,
                  says[k]);
    o.tpu = &(ls_tpu_config){.tpu_job_name = k == 0 ? "red" : "localhost"};
    config = make_tpu(&o);
    // Nor can it be replaced.
    o.tpu = &(ls_tpu_config){.tpu_job_name = "blue"};
    expect_status(ls_run_config_replace(config,
                                        (const char *const[]){"tpu_config"}, 1,
                                        &o, &other),
                  LS_INVALID_ARGUMENT, says[k]);
    ls_run_config_release(config);
    ls_tpu_resolver_release(resolver);
    counted_end(&w.runtime);
  }
}

// ---- What goes wrong -------------------------------------------------------
MEMORY_TEST(make_and_replace_a_config) {
  static const char *const fields[] = {"model_dir", "tpu_config"};
  ls_tpu_resolver *resolver = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "grpc://a"}, &resolver));
  ls_run_config *config = NULL, *other = NULL;
  ls_status status = ls_tpu_run_config_create(
      &(ls_run_config_options){.model_dir = "m", .resolver = resolver},
      &config);
  ls_tpu_resolver_release(resolver);
  LS_RETURN_IF_ERROR(status);
  status = ls_run_config_replace(
      config, fields, 2, &(ls_run_config_options){.model_dir = "n"}, &other);
  ls_run_config_release(config);
  if (other != NULL) ls_run_config_release(other);
  return status;
}

TEST(what_is_null_is_refused) {
  LS_OWN(ls_run_config, config) = make(NULL);
  ls_run_config *other = NULL;
  const char *field = "model_dir";
  const ls_run_config_options options = {0};
  ls_loop_length length;
  expect_status(ls_run_config_create(NULL, NULL), LS_INVALID_ARGUMENT,
                "out_config is NULL");
  expect_status(ls_tpu_run_config_create(NULL, NULL), LS_INVALID_ARGUMENT,
                "out_config is NULL");
  expect_status(ls_run_config_replace(NULL, &field, 1, &options, &other),
                LS_INVALID_ARGUMENT, "config is NULL");
  expect_status(ls_run_config_replace(config, NULL, 1, &options, &other),
                LS_INVALID_ARGUMENT, "fields");
  expect_status(ls_run_config_replace(config, &field, 1, NULL, &other),
                LS_INVALID_ARGUMENT, "values is NULL");
  expect_status(ls_run_config_replace(config, &field, 1, &options, NULL),
                LS_INVALID_ARGUMENT, "out_config is NULL");
  expect_status(ls_loop_length_parse(NULL, &length), LS_INVALID_ARGUMENT,
                "text is NULL");
  expect_status(ls_loop_length_parse("1", NULL), LS_INVALID_ARGUMENT,
                "out_length is NULL");
  ls_run_config_release(NULL);
}
