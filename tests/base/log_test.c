// SPDX-License-Identifier: Apache-2.0
// Log lines of a runtime without a sink go to standard error (ruling 58).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/lockstep.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"

// ---- Standard error --------------------------------------------------------
// What is written to standard error goes to a file meanwhile. The file of the
// test's own descriptor is given back at the end.
typedef struct capture {
  FILE *file;
  int before;
  char text[16384];
} capture;

static void capture_begin(capture *self) {
  fflush(stderr);
  self->file = tmpfile();
  assert_non_null(self->file);
  self->before = dup(STDERR_FILENO);
  assert_true(dup2(fileno(self->file), STDERR_FILENO) >= 0);
}

static const char *capture_end(capture *self) {
  fflush(stderr);
  dup2(self->before, STDERR_FILENO);
  close(self->before);
  rewind(self->file);
  const size_t size = fread(self->text, 1, sizeof(self->text) - 1, self->file);
  self->text[size] = '\0';
  fclose(self->file);
  return self->text;
}

// ---- Runtimes --------------------------------------------------------------
// The environment has one variable: its name and value.
static const char *look_up(void *user, const char *name) {
  const char *const *variable = user;
  return variable != NULL && strcmp(variable[0], name) == 0 ? variable[1]
                                                            : NULL;
}

static ls_runtime *runtime_with(const char *const *variable) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.environment = look_up,
                            .environment_user = (void *)(uintptr_t)variable,
                            .threads = 1,
                            .stall_ms = -1},
      &runtime));
  return runtime;
}

static void log_one_of_each(ls_runtime *runtime) {
  for (int i = 0; i < 2; ++i) {
    ls_runtime_log(runtime, LS_LOG_ERROR, "test", "broken %d", 1);
    ls_runtime_log(runtime, LS_LOG_WARNING, "test", "odd %d", 1);
    ls_runtime_log(runtime, LS_LOG_INFO, "test", "fine %d", 1);
    ls_runtime_log(runtime, LS_LOG_DEBUG, "test", "step %d", 1);
  }
}

TEST(warnings_come_once_and_information_each_time) {
  capture captured = {0};
  capture_begin(&captured);
  ls_runtime *runtime = runtime_with(NULL);
  log_one_of_each(runtime);
  // Another text, and another source.
  ls_runtime_log(runtime, LS_LOG_WARNING, "test", "odd %d", 2);
  ls_runtime_log(runtime, LS_LOG_WARNING, "other", "odd %d", 1);
  expect_ok(ls_runtime_destroy(runtime));
  assert_string_equal(capture_end(&captured),
                      "lockstep: error: test: broken 1\n"
                      "lockstep: warning: test: odd 1\n"
                      "lockstep: info: test: fine 1\n"
                      "lockstep: info: test: fine 1\n"
                      "lockstep: warning: test: odd 2\n"
                      "lockstep: warning: other: odd 1\n");
}

TEST(the_environment_chooses_the_level) {
  static const struct {
    const char *variable[2];
    const char *wanted;
  } rows[] = {
      {{"LS_LOG", "off"}, ""},
      {{"LS_LOG", "error"}, "lockstep: error: test: broken 1\n"},
      {{"LS_LOG", "warning"},
       "lockstep: error: test: broken 1\nlockstep: warning: test: odd 1\n"},
      {{"LS_LOG", "debug"},
       "lockstep: error: test: broken 1\nlockstep: warning: test: odd 1\n"
       "lockstep: info: test: fine 1\nlockstep: debug: test: step 1\n"
       "lockstep: info: test: fine 1\nlockstep: debug: test: step 1\n"},
      {{"LS_DEBUG", "graph"},
       "lockstep: error: test: broken 1\nlockstep: warning: test: odd 1\n"
       "lockstep: info: test: fine 1\nlockstep: debug: test: step 1\n"
       "lockstep: info: test: fine 1\nlockstep: debug: test: step 1\n"},
      {{"LS_LOG", "loud"},
       "lockstep: warning: debug: LS_LOG=loud is ignored: it should be "
       "off|error|warning|info|debug\n"
       "lockstep: error: test: broken 1\nlockstep: warning: test: odd 1\n"
       "lockstep: info: test: fine 1\nlockstep: info: test: fine 1\n"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    capture captured = {0};
    capture_begin(&captured);
    ls_runtime *runtime = runtime_with(rows[i].variable);
    log_one_of_each(runtime);
    expect_ok(ls_runtime_destroy(runtime));
    assert_string_equal(capture_end(&captured), rows[i].wanted);
  }
}

static void count_line(void *user, const ls_log_line *line) {
  (void)line;
  ++*(int *)user;
}

TEST(a_sink_takes_every_line) {
  int lines = 0;
  capture captured = {0};
  capture_begin(&captured);
  static const char *const off[] = {"LS_LOG", "off"};
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.log = count_line,
                            .log_user = &lines,
                            .environment = look_up,
                            .environment_user = (void *)(uintptr_t)off},
      &runtime));
  log_one_of_each(runtime);
  expect_ok(ls_runtime_destroy(runtime));
  assert_string_equal(capture_end(&captured), "");
  assert_int_equal(lines, 8);
}

TEST(names_do_not_rule_the_terminal) {
  char name[3000], wanted[3100];
  memset(name, 'x', sizeof(name) - 1);
  name[sizeof(name) - 1] = '\0';
  name[7] = '\x1b';
  snprintf(wanted, sizeof(wanted), "lockstep: warning: test: %.7s?%s\n", name,
           name + 8);
  capture captured = {0};
  capture_begin(&captured);
  ls_runtime *runtime = runtime_with(NULL);
  ls_runtime_log(runtime, LS_LOG_WARNING, "test", "%s", name);
  expect_ok(ls_runtime_destroy(runtime));
  assert_string_equal(capture_end(&captured), wanted);
}

// ---- Threads ---------------------------------------------------------------
static void *warn_often(void *user) {
  for (int i = 0; i < 50; ++i)
    ls_runtime_log(user, LS_LOG_WARNING, "test", "odd %d", i % 25);
  return NULL;
}

TEST(threads_write_whole_lines_once) {
  capture captured = {0};
  capture_begin(&captured);
  ls_runtime *runtime = runtime_with(NULL);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, warn_often, runtime), 0);
  for (int i = 0; i < 4; ++i)
    pthread_join(threads[i], NULL);
  expect_ok(ls_runtime_destroy(runtime));
  const char *text = capture_end(&captured);
  size_t lines = 0;
  for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
    assert_memory_equal(at, "lockstep: warning: test: odd ", 29);
    ++lines;
  }
  assert_int_equal(lines, 25);
  for (int i = 0; i < 25; ++i) {
    char line[64];
    snprintf(line, sizeof(line), "odd %d\n", i);
    expect_contains(text, line);
  }
}

// ---- Programs --------------------------------------------------------------
static ls_nest print_value(ls_nest args, void *user) {
  (void)user;
  ls_print("value", ls_nest_tensor(args, 0));
  return ls_none();
}

// Prints a value once.
static void print_once(ls_dtype dtype, const void *data, int64_t count) {
  LS_OWN(ls_function, function) = NULL;
  ls_array *array = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = print_value, .name = "shows"}, &function));
  expect_ok(ls_array_create_copy(dtype, LS_SHAPE(count), data, &array));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(array));
  LS_OWN(ls_nest, results) = call_results(function, args);
}

// Runs a function that prints, once in each of two runs.
static void print_twice(void) {
  LS_OWN(ls_function, function) = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = print_value, .name = "shows"}, &function));
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &array));
  ls_array_set_f64(array, 1, 1.5);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(array));
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, results) = call_results(function, args);
  }
}

TEST(a_printed_value_is_seen_in_each_run) {
  capture captured = {0};
  capture_begin(&captured);
  ls_runtime *runtime = runtime_with(NULL);
  ls_runtime *before = ls_runtime_make_current(runtime);
  print_twice();
  print_once(LS_DTYPE_I64, (int64_t[]){1234567890123, -7}, 2);
  print_once(LS_DTYPE_F64, (double[]){0.1234567890123456}, 1);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
  assert_string_equal(
      capture_end(&captured),
      "lockstep: info: print: value f32[2] [0 1.5]\n"
      "lockstep: info: print: value f32[2] [0 1.5]\n"
      "lockstep: info: print: value i64[2] [1234567890123 -7]\n"
      "lockstep: info: print: value f64[1] [0.1234567890123456]\n");
}

TEST(a_debug_switch_is_heard_without_a_sink) {
  static const char *const graph[] = {"LS_DEBUG", "graph"};
  capture captured = {0};
  capture_begin(&captured);
  ls_runtime *runtime = runtime_with(graph);
  ls_runtime *before = ls_runtime_make_current(runtime);
  print_twice();
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
  expect_contains(capture_end(&captured), "lockstep: debug: graph: 'shows'");
}

// ---- A batch that was not split --------------------------------------------
typedef struct net {
  ls_bag bag;
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} net;

static ls_nest train_step(ls_nest args, void *user) {
  const net *self = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor loss = ls_reduce_mean(
      ls_square(ls_dense_layer_apply(self->layer, x)), LS_ALL_AXES);
  ls_optimizer_minimize(self->optimizer, loss);
  return ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, loss));
}

// As README.md's program, without ls_dataset_parts.
static void train_on_whole_batches(void) {
  net self = {{0}, NULL, NULL};
  ls_bag *bag = &self.bag;
  self.layer = ls_dense_layer_in(bag, .inputs = 3, .units = 2);
  self.optimizer = ls_sgd_in(bag, .learning_rate = 0.1);
  ls_function *function =
      ls_function_in(bag, .call = train_step, .user = &self, .name = "step");
  ls_strategy *strategy =
      ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(8));
  ls_dataset *data = ls_dataset_in(
      bag,
      ls_dataset_batch(ls_dataset_synthetic(&(ls_synthetic_options){
                           .size = 32, .shape = LS_SHAPE(3), .num_classes = 2}),
                       &(ls_batch_options){.size = 16}));
  ls_iterator *batches = ls_iterator_in(bag, data);
  ls_nest *batch = ls_nest_in(bag, ls_none()),
          *loss = ls_nest_in(bag, ls_none());
  expect_ok(ls_bag_take_error(bag));
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_iterator_next(batches, batch));
    expect_ok(ls_strategy_run(strategy, ls_traced(function), *batch, loss));
  }
  ls_bag_empty(bag);
}

TEST(eight_times_the_work_is_warned_of) {
  capture captured = {0};
  capture_begin(&captured);
  ls_runtime *runtime = runtime_with(NULL);
  ls_runtime *before = ls_runtime_make_current(runtime);
  train_on_whole_batches();
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
  const char *text = capture_end(&captured);
  expect_contains(text, "lockstep: warning: distribute: 'step' trains on the "
                        "same examples on each of 8 replicas");
  expect_contains(text, "8 times the work");
  expect_contains(text, "ls_dataset_parts(data, 8)");
  // Sanitizers may have a line of their own.
  const char *line = strstr(text, "lockstep: ");
  assert_null(strstr(line + 1, "lockstep: "));
  assert_ptr_equal(strchr(line, '\n') + 1, line + strlen(line));
}
