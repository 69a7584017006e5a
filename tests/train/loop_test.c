// SPDX-License-Identifier: Apache-2.0
#include "support/counted.h"
#include "support/expect.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "data/own.h"
#include "io/json.h"
#include "lockstep/eager.h"
#include "lockstep/train.h"
#include "support/safetensors.h"
#include "support/values.h"

// A run of tiny on made-up data.
typedef struct setup {
  ls_strategy *strategy;
  ls_model model;
  ls_dataset *train, *test;
  ls_train_options options;
  ls_train_result result;
} setup;

static void begin(setup *s, int64_t replicas, double learning_rate) {
  *s = (setup){0};
  const ls_model_type *type = ls_model_find("tiny");
  ls_synthetic_options data = {.size = 202,
                               .shape = type->example_shape,
                               .num_classes = type->num_classes};
  s->train = ls_dataset_synthetic(&data);
  data.sample = 1;
  s->test = ls_dataset_synthetic(&data);
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &s->strategy));
  expect_ok(ls_model_create(
      type,
      &(ls_model_options){.metrics = true, .learning_rate = learning_rate},
      &s->model));
  s->options = (ls_train_options){.model = &s->model,
                                  .strategy = s->strategy,
                                  .train = s->train,
                                  .test = s->test,
                                  .epochs = 4,
                                  .log_every = 10};
}

static void end(setup *s) {
  ls_model_destroy(&s->model);
  ls_strategy_release(s->strategy);
  ls_dataset_release(s->train);
  ls_dataset_release(s->test);
}
LS_OWNED_STRUCT(setup, end)

static ls_array *first_variable(const setup *s) {
  ls_variable *variable = NULL;
  s->model.type->variables(s->model.self, &variable, 1);
  return variable_array(variable);
}

TEST(training_learns_and_evaluates) {
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.epochs = 8;
  expect_ok(ls_train(&s.options, &s.result));
  assert_int_equal(s.result.steps, 8 * 26);  // The last with two examples.
  assert_true(s.result.tested && !s.result.stopped);
  assert_int_equal(s.result.test.examples, 202);
  assert_true(s.result.test.accuracy > 0.8);
}

TEST(replicas_learn_what_one_learns) {
  ls_array *values[2];
  for (int i = 0; i < 2; ++i) {
    LS_OWN_BEGUN(setup, s, begin, i == 0 ? 1 : 4, 0);
    expect_ok(ls_train(&s.options, &s.result));
    values[i] = first_variable(&s);
  }
  for (int64_t i = 0; i < ls_array_num_elements(values[0]); ++i)
    assert_float_equal(ls_array_f64(values[0], i), ls_array_f64(values[1], i),
                       1e-4);
  ls_array_release(values[0]);
  ls_array_release(values[1]);
}

// Every batch and the last of each epoch: 10 and 2 of 202 examples.
TEST(no_example_is_dropped_for_replicas) {
  for (int64_t size = 10; size <= 400; size *= 40) {
    ls_array *values[4];
    for (int i = 0; i < 4; ++i) {
      LS_OWN_BEGUN(setup, s, begin, (const int64_t[]){1, 3, 4, 7}[i], 0);
      s.options.batch_size = size;
      expect_ok(ls_train(&s.options, &s.result));
      assert_int_equal(s.result.steps, 4 * ((202 + size - 1) / size));
      assert_int_equal(s.result.test.examples, 202);
      values[i] = first_variable(&s);
    }
    for (int i = 1; i < 4; ++i)
      for (int64_t k = 0; k < ls_array_num_elements(values[0]); ++k)
        assert_float_equal(ls_array_f64(values[0], k),
                           ls_array_f64(values[i], k), 1e-4);
    for (int i = 0; i < 4; ++i)
      ls_array_release(values[i]);
  }
}

TEST(the_number_of_threads_changes_no_bit) {
  ls_array *values[3];
  for (int i = 0; i < 3; ++i) {
    ls_runtime *runtime = NULL;
    expect_ok(
        ls_runtime_create(&(ls_runtime_options){.threads = 1 << i}, &runtime));
    ls_runtime_make_current(runtime);
    setup s;
    begin(&s, 8, 0);
    expect_ok(ls_train(&s.options, &s.result));
    ls_array *value = first_variable(&s);
    ls_runtime_make_current(NULL);
    expect_ok(ls_array_create_copy(ls_array_dtype(value), ls_array_shape(value),
                                   ls_array_data(value), &values[i]));
    ls_runtime_make_current(runtime);
    ls_array_release(value);
    end(&s);
    ls_runtime_make_current(NULL);
    expect_ok(ls_runtime_destroy(runtime));
  }
  for (int i = 1; i < 3; ++i)
    assert_memory_equal(ls_array_data(values[0]), ls_array_data(values[i]),
                        ls_array_size(values[0]));
  for (int i = 0; i < 3; ++i)
    ls_array_release(values[i]);
}

typedef struct watch {
  const counted *memory;
  uint64_t settled;
  int64_t compared;
} watch;

// Within an epoch, from the third step on and while batches are full: dealing,
// splitting and running it.
static void watch_memory(void *user, const ls_train_report *report) {
  watch *w = user;
  if (report->epoch_end) return;
  const uint64_t now = counted_now(w->memory).allocations;
  if (report->epoch_step > 3 && report->epoch_step <= 25) {
    assert_int_equal(now, w->settled);
    ++w->compared;
  }
  w->settled = now;
}

TEST(a_steady_step_takes_no_memory) {
  for (int64_t replicas = 1; replicas <= 8; replicas *= 8) {
    LS_OWN(counted, memory) = counted_begin(0);
    watch w = {.memory = &memory};
    LS_OWN_BEGUN(setup, s, begin, replicas, 0);
    s.options.report = watch_memory;
    s.options.report_user = &w;
    expect_ok(ls_train(&s.options, &s.result));
    assert_int_equal(w.compared, 4 * 22);
  }
}

TEST(steps_end_a_run_within_an_epoch) {
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.steps = 30;
  expect_ok(ls_train(&s.options, &s.result));
  assert_int_equal(s.result.steps, 30);
  s.options.epochs = 0;
  s.options.steps = 120;  // As many epochs as they need.
  expect_ok(ls_train(&s.options, &s.result));
  assert_int_equal(s.result.steps, 120);
}

// ---- Stopping --------------------------------------------------------------
static void stop_at_step_7(void *user, const ls_train_report *report) {
  if (report->step == 7) ls_train_stop_request(user);
}

TEST(a_request_ends_the_run_and_saves) {
  ls_train_stop stop = {0};
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.stop = &stop;
  s.options.report = stop_at_step_7;
  s.options.report_user = &stop;
  s.options.run_folder = "stopped";
  s.options.overwrite = true;
  assert_false(ls_train_stop_requested(&stop));
  expect_ok(ls_train(&s.options, &s.result));
  assert_true(s.result.stopped && !s.result.tested);
  assert_int_equal(s.result.steps, 7);
  LS_OWN(ls_safetensors_file, file) = {0};
  expect_ok(safetensors_open_whole("stopped/model.safetensors", &file));
  assert_int_equal(file.num_entries, 4);
}

// ---- The run folder --------------------------------------------------------
static char *read_text(const char *path) {
  char *text = NULL;
  size_t size = 0;
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->read(files->user, path, SIZE_MAX, ls_allocator_system(),
                        &text, &size));
  return text;
}

static const ls_json *parse(ls_arena *arena, const char *text, size_t size) {
  const ls_json *value = NULL;
  expect_ok(ls_json_parse(arena, "file", text, size, &value));
  return value;
}

TEST(the_run_folder_says_what_happened) {
  LS_OWN_BEGUN(setup, s, begin, 2, 0.25);
  s.options.run_folder = "some/run";
  s.options.overwrite = true;
  const ls_train_config made_with = {.data = "made up", .learning_rate = 0.25};
  s.options.config = &made_with;
  expect_ok(ls_train(&s.options, &s.result));
  ls_arena arena;
  ls_arena_init(&arena, ls_allocator_system());
  char *text = read_text("some/run/config.json");
  const ls_json *config = parse(&arena, text, strlen(text));
  ls_release(ls_allocator_system(), text);
  assert_string_equal(ls_json_find(config, "model")->string, "tiny");
  assert_string_equal(ls_json_find(config, "data")->string, "made up");
  assert_int_equal(ls_json_find(config, "replicas")->integer, 2);
  assert_int_equal(ls_json_find(config, "batch_size")->integer, 8);
  assert_true(ls_json_find(config, "learning_rate")->number == 0.25);

  text = read_text("some/run/metrics.jsonl");
  int64_t lines = 0, tests = 0, last = 0;
  for (const char *at = text; *at != '\0';) {
    const size_t size = strcspn(at, "\n");
    const ls_json *line = parse(&arena, at, size);
    ++lines;
    tests += ls_json_find(line, "test_accuracy") != NULL;
    last = ls_json_find(line, "step")->integer;
    at += size + 1;
  }
  // Of 26 steps: after 10, 20 and 26, and the test.
  assert_int_equal(lines, 4 * 4);
  assert_int_equal(tests, 4);
  assert_int_equal(last, 104);
  ls_release(ls_allocator_system(), text);
  ls_arena_deinit(&arena);

  LS_OWN(ls_safetensors_file, file) = {0};
  expect_ok(safetensors_open_whole("some/run/model.safetensors", &file));
  LS_OWN(ls_array, value) = first_variable(&s);
  LS_OWN(ls_array, saved) = safetensors_array(&file, "hidden1/kernel");
  assert_non_null(saved);
  assert_memory_equal(ls_array_data(saved), ls_array_data(value),
                      ls_array_size(value));
}

TEST(a_folder_with_a_run_is_kept) {
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.run_folder = "kept";
  s.options.overwrite = true;
  s.options.steps = 1;
  expect_ok(ls_train(&s.options, &s.result));
  s.options.overwrite = false;
  expect_status(ls_train(&s.options, &s.result), LS_ALREADY_EXISTS,
                "the run folder 'kept' already holds a run");
  assert_int_equal(s.result.steps, 0);
  s.options.run_folder = "/dev/null/run";
  expect_status(ls_train(&s.options, &s.result), LS_NOT_FOUND,
                "'/dev/null/run'");
}

// ---- What is refused -------------------------------------------------------
static void expect_refused(setup *s, ls_code code, const char *part) {
  expect_status(ls_train(&s->options, &s->result), code, part);
}

TEST(what_cannot_be_trained_is_refused) {
  LS_OWN_BEGUN(setup, s, begin, 4, 0);
  s.options.epochs = -1;
  expect_refused(&s, LS_INVALID_ARGUMENT, "cannot be negative");
  s.options.epochs = 1;
  LS_OWN(ls_dataset, wide) = NULL;
  wide = ls_dataset_synthetic(&(ls_synthetic_options){.shape = LS_SHAPE(17)});
  s.options.test = wide;
  expect_refused(&s, LS_INVALID_ARGUMENT,
                 "model 'tiny' takes examples f32[16] of 4 classes; these are "
                 "f32[17] of 2");
}

TEST(a_loss_that_is_no_number_ends_the_run) {
  LS_OWN_BEGUN(setup, s, begin, 1, 1e30);
  s.options.config = &(ls_train_config){.learning_rate = 1e30};
  expect_refused(&s, LS_OUT_OF_RANGE,
                 "the learning rate 1e+30 may be too high");
}
