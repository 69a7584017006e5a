// SPDX-License-Identifier: Apache-2.0
//
// The event files of a run, read back.
#include "lockstep/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "support/counted.h"
#include "support/event_records.h"
#include "support/expect.h"
#include "support/memory_files.h"
#include "support/values.h"

enum { EXAMPLES = 40, BATCH = 8, EPOCH = 5, MOST_EVENTS = 400 };

// Runs of tiny on made-up data, over files in memory.
typedef struct setup {
  memory_files files;
  ls_file_system system;
  counted memory;
  ls_strategy *strategy;
  ls_model model;
  ls_dataset *train, *test;
  ls_train_options options;
  ls_train_result result;
  ls_bytes events[MOST_EVENTS];
  size_t count;
} setup;

static void begin_run(setup *s) {
  const ls_model_type *type = ls_model_find("tiny");
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &s->strategy));
  expect_ok(ls_model_create(
      type, &(ls_model_options){.metrics = true, .decay_steps = 20},
      &s->model));
  ls_synthetic_options data = {.size = EXAMPLES,
                               .shape = type->example_shape,
                               .num_classes = type->num_classes};
  s->train = ls_dataset_synthetic(&data);
  data.sample = 1;
  s->test = ls_dataset_synthetic(&data);
  s->options = (ls_train_options){.model = &s->model,
                                  .strategy = s->strategy,
                                  .train = s->train,
                                  .test = s->test,
                                  .batch_size = BATCH,
                                  .epochs = 2,
                                  .run_folder = "run",
                                  .save_background = LS_FLAG_OFF,
                                  .events = "",
                                  .log_every = 2};
}

static void end_run(setup *s) {
  ls_model_destroy(&s->model);
  ls_strategy_release(s->strategy);
  ls_dataset_release(s->train);
  ls_dataset_release(s->test);
}

static void begin(setup *s) {
  *s = (setup){0};
  s->system = memory_files_system(&s->files);
  s->memory = counted_begin_with(
      (ls_runtime_options){.file_system = &s->system, .threads = 1});
  begin_run(s);
}

static void end(setup *s) {
  end_run(s);
  counted_end(&s->memory);
  memory_files_clear(&s->files);
}
LS_OWNED_STRUCT(setup, end)

// The files in a folder; with their events if `nth` is one's number, in the
// order in which they were written.
static size_t event_files(setup *s, const char *folder, size_t nth) {
  size_t count = 0;
  for (size_t i = 0; i < s->files.count; ++i) {
    const memory_file *file = &s->files.items[i];
    if (file->folder || strstr(file->path, "events.out.tfevents.") == NULL ||
        strncmp(file->path, folder, strlen(folder)) != 0)
      continue;
    if (count++ == nth)
      s->count = event_records(file->data, file->size, s->events, MOST_EVENTS);
  }
  return count;
}

static double scalar_at(const setup *s, const char *tag, int64_t step) {
  const ls_bytes value = event_value(s->events, s->count, tag, step);
  if (value.size == 0) fail_msg("no '%s' at %lld", tag, (long long)step);
  return proto_f64(value, 2);
}

static size_t events_with(const setup *s, unsigned field) {
  size_t count = 0;
  proto_field found;
  for (size_t i = 0; i < s->count; ++i)
    count += proto_find(s->events[i], field, 0, &found);
  return count;
}

static bool has(const setup *s, const char *tag, int64_t step) {
  return event_value(s->events, s->count, tag, step).size > 0;
}

TEST(a_run_writes_what_it_logs) {
  LS_OWN_BEGUN(setup, s, begin);
  expect_ok(ls_train(&s.options, &s.result));
  assert_int_equal(event_files(&s, "run/events/train", 0), 1);
  static const int64_t logged[] = {2, 4, 5, 7, 9, 10};
  for (size_t i = 0; i < 6; ++i) {
    assert_true(scalar_at(&s, "loss", logged[i]) > 0);
    assert_true(scalar_at(&s, "accuracy", logged[i]) >= 0);
    assert_true(scalar_at(&s, "examples_per_second", logged[i]) > 0);
    static const char *const parts[] = {"compute", "input", "collective",
                                        "host",    "save",  "rest"};
    double sum = 0;
    for (size_t k = 0; k < 6; ++k) {
      char tag[32];
      snprintf(tag, sizeof(tag), "budget/%s", parts[k]);
      sum += scalar_at(&s, tag, logged[i]);
    }
    assert_true(fabs(sum - 1) < 0.05);
    // That of the step itself, which is the one before counted from 0.
    const double rate = s.model.type->learning_rate;
    const double want = rate * (1 - (double)(logged[i] - 1) / 20);
    assert_true(fabs(scalar_at(&s, "learning_rate", logged[i]) - want) < 1e-6);
  }
  assert_false(has(&s, "loss", 1));
  for (int64_t step = 1; step <= 10; ++step)
    assert_int_equal(has(&s, "hidden1/kernel", step), step % EPOCH == 0);
  const ls_bytes weights = event_value(s.events, s.count, "logits/bias", 10);
  assert_true(proto_f64(PROTO_AT(weights, 5), 3) ==
              (double)s.model.type->num_classes);
  assert_int_equal(events_with(&s, 4), 1);  // The graph.
  assert_int_equal(event_files(&s, "run/events/test", 0), 1);
  assert_true(scalar_at(&s, "loss", 5) > 0);
  assert_true(fabs(scalar_at(&s, "accuracy", 10) - s.result.test.accuracy) <
              1e-6);
}

static int64_t start_of(const setup *s) {
  proto_field session;
  for (size_t i = 0; i < s->count; ++i)
    if (proto_find(s->events[i], 7, 0, &session))
      return proto_i64(s->events[i], 2);
  return -1;
}

TEST(a_resumed_run_goes_on_in_new_files) {
  LS_OWN_BEGUN(setup, s, begin);
  s.options.epochs = 1;
  expect_ok(ls_train(&s.options, &s.result));
  end_run(&s);
  begin_run(&s);
  s.options.resume = true;
  expect_ok(ls_train(&s.options, &s.result));
  assert_int_equal(s.result.steps, 10);
  assert_int_equal(event_files(&s, "run/events/train", 0), 2);
  assert_int_equal(start_of(&s), 0);
  event_files(&s, "run/events/train", 1);
  assert_int_equal(start_of(&s), 6);  // What is of step 5 is shown still.
  assert_true(has(&s, "loss", 7) && !has(&s, "loss", 5));
  assert_int_equal(events_with(&s, 4), 0);  // The graph is there.
  assert_int_equal(event_files(&s, "run/events/test", 1), 2);
  assert_int_equal(start_of(&s), 5);  // The evaluation was done again.
  assert_true(has(&s, "loss", 5) && has(&s, "loss", 10));
}

TEST(a_run_that_replaces_another_takes_its_events_away) {
  LS_OWN_BEGUN(setup, s, begin);
  expect_ok(ls_train(&s.options, &s.result));
  char old[160] = "";
  for (size_t i = 0; i < s.files.count; ++i)
    if (strstr(s.files.items[i].path, "train/events.out") != NULL)
      strcpy(old, s.files.items[i].path);
  assert_non_null(memory_files_find(&s.files, old));
  s.options.overwrite = true;
  expect_ok(ls_train(&s.options, &s.result));
  assert_null(memory_files_find(&s.files, old));
  assert_int_equal(event_files(&s, "run/events/train", 0), 1);
  assert_int_equal(event_files(&s, "run/events/test", 0), 1);
  // Also one that writes none of its own.
  s.options.events = NULL;
  expect_ok(ls_train(&s.options, &s.result));
  assert_int_equal(event_files(&s, "run/events", 0), 0);
}

TEST(events_may_be_anywhere_but_must_be_somewhere) {
  LS_OWN_BEGUN(setup, s, begin);
  s.options.run_folder = NULL;
  expect_status(ls_train(&s.options, &s.result), LS_INVALID_ARGUMENT,
                "name a folder");
  assert_int_equal(s.files.count, 0);
  s.options.events = "there";
  expect_ok(ls_train(&s.options, &s.result));
  assert_int_equal(event_files(&s, "there/train", 0), 1);
  assert_int_equal(event_files(&s, "there/test", 0), 1);
}

TEST(a_run_has_the_same_bits_with_events) {
  ls_array *values[2];
  for (int i = 0; i < 2; ++i) {
    LS_OWN_BEGUN(setup, s, begin);
    s.options.events = i == 0 ? NULL : "";
    expect_ok(ls_train(&s.options, &s.result));
    ls_variable *variable = NULL;
    s.model.type->variables(s.model.self, &variable, 1);
    LS_OWN(ls_array, value) = variable_array(variable);
    ls_runtime *const inside = ls_runtime_make_current(s.memory.outside);
    expect_ok(ls_array_create_copy(ls_array_dtype(value), ls_array_shape(value),
                                   ls_array_data(value), &values[i]));
    ls_runtime_make_current(inside);
  }
  assert_memory_equal(ls_array_data(values[0]), ls_array_data(values[1]),
                      ls_array_size(values[0]));
  ls_array_release(values[0]);
  ls_array_release(values[1]);
}

TEST(a_file_that_cannot_be_written_ends_the_run) {
  int failed = 0;
  for (int at = 1; at < 80; ++at) {
    LS_OWN_BEGUN(setup, s, begin);
    s.files.fail_at = at;
    const ls_status status = ls_train(&s.options, &s.result);
    if (!ls_status_is_ok(status)) ++failed;
    ls_status_free(status);
    // What is there can be read, and the run goes on, or begins.
    s.files.fail_at = 0;
    s.options.resume = memory_files_find(&s.files, "run/config.json") != NULL;
    expect_ok(ls_train(&s.options, &s.result));
    assert_int_equal(s.result.steps, 10);
    const size_t files = event_files(&s, "run/events/train", SIZE_MAX);
    assert_true(files >= 1);
    for (size_t i = 0; i < files; ++i)
      event_files(&s, "run/events/train", i);
  }
  assert_true(failed > 20);
}
