// SPDX-License-Identifier: Apache-2.0
// What a run leaves in its folder when all does not go well.
#include "support/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "train/folder/run_folder.h"

enum { EXAMPLES = 64, INPUTS = 16 };

// A run of tiny on zeros, of which one example may be no number.
typedef struct setup {
  ls_strategy *strategy;
  ls_model model;
  ls_dataset *train;
  ls_train_options options;
  ls_train_result result;
} setup;

static ls_dataset *zeros(int nan_at) {
  static float examples[EXAMPLES * INPUTS];
  static const int32_t labels[EXAMPLES];
  memset(examples, 0, sizeof(examples));
  if (nan_at >= 0) examples[nan_at * INPUTS] = NAN;
  ls_array *x = NULL, *y = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(EXAMPLES, INPUTS),
                                 examples, &x));
  expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(EXAMPLES), labels, &y));
  return ls_dataset_from_arrays(LS_TUPLE(ls_nest_array(x), ls_nest_array(y)));
}

static void begin(setup *s, const char *folder, int nan_at) {
  *s = (setup){.train = zeros(nan_at)};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(1)}, &s->strategy));
  expect_ok(ls_model_create(ls_model_find("tiny"),
                            &(ls_model_options){.metrics = true}, &s->model));
  s->options = (ls_train_options){.model = &s->model,
                                  .strategy = s->strategy,
                                  .train = s->train,
                                  .batch_size = 8,
                                  .epochs = 1,
                                  .run_folder = folder,
                                  .overwrite = true};
}

static void end(setup *s) {
  ls_model_destroy(&s->model);
  ls_strategy_release(s->strategy);
  ls_dataset_release(s->train);
}
LS_OWNED_STRUCT(setup, end)

// NULL: there is no such file.
static char *read_text(const char *path) {
  const ls_file_system *files = ls_file_system_system();
  char *text = NULL;
  size_t size = 0;
  bool exists = false;
  expect_ok(files->exists(files->user, path, &exists));
  if (exists)
    expect_ok(files->read(files->user, path, SIZE_MAX, ls_allocator_system(),
                          &text, &size));
  return text;
}

static void expect_text(const char *path, const char *want) {
  char *text = read_text(path);
  if (want == NULL)
    assert_null(text);
  else
    assert_string_equal(text, want);
  ls_release(ls_allocator_system(), text);
}

// ---- Losses that are no number ---------------------------------------------
TEST(the_steps_before_a_loss_that_is_no_number_are_logged) {
  int late = 0;
  for (int at = 0; at < EXAMPLES; at += 7) {
    char folder[32], path[64];
    snprintf(folder, sizeof(folder), "nan-%d", at);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    // What an earlier run of this test has left would be put back.
    const ls_file_system *files = ls_runtime_files(ls_runtime_current());
    char config[64];
    snprintf(config, sizeof(config), "%s/config.json", folder);
    ls_status_free(files->remove(files->user, config));
    ls_status_free(files->remove(files->user, path));
    LS_OWN_BEGUN(setup, s, begin, folder, at);
    expect_status(ls_train(&s.options, &s.result), LS_OUT_OF_RANGE,
                  "the loss is");
    char *text = read_text(path);
    if (s.result.steps == 0) {
      assert_null(text);
    } else {
      // One line of the steps that went well, and their loss.
      char head[64];
      snprintf(head, sizeof(head), "{\"step\":%lld,\"epoch\":1,\"loss\":",
               (long long)s.result.steps);
      assert_non_null(text);
      assert_int_equal(strncmp(text, head, strlen(head)), 0);
      assert_true(isfinite(strtod(text + strlen(head), NULL)));
      assert_true(text[strlen(head)] != 'n');
      assert_string_equal(strchr(text, '\n'), "\n");
      ++late;
    }
    ls_release(ls_allocator_system(), text);
  }
  assert_true(late > 0);
}

// Each time read is a second later: a save is due after each run.
static int64_t next_second(void *user) {
  // Threads that save read it, too.
  return __atomic_add_fetch((int64_t *)user, 1000000000, __ATOMIC_RELAXED);
}

// In a loop the variables are those of its end.
TEST(steps_before_a_loss_that_is_no_number_in_a_loop_are_not_saved) {
  int64_t now = 0;
  int late = 0;
  const ls_clock clock = {
      .now = next_second, .wall = next_second, .user = &now};
  ls_runtime *before = ls_runtime_current(), *runtime = NULL;
  expect_ok(
      ls_runtime_create(&(ls_runtime_options){.clock = &clock}, &runtime));
  ls_runtime_make_current(runtime);
  for (int at = 3; at < EXAMPLES; at += 20) {
    char folder[32], path[64];
    snprintf(folder, sizeof(folder), "loop-%d", at);
    LS_OWN_BEGUN(setup, s, begin, folder, at);
    s.options.save_seconds = 1;
    s.options.save_background = LS_FLAG_OFF;
    s.options.iterations_per_loop = 100;
    expect_status(ls_train(&s.options, &s.result), LS_OUT_OF_RANGE,
                  "the loss is");
    if (s.result.steps < 2) continue;  // The first step is made by itself.
    ++late;
    snprintf(path, sizeof(path), "%s/model.ckpt-1.json", folder);
    LS_OWN_MEMORY(ls_allocator_system(), char, first) = read_text(path);
    assert_non_null(first);
    snprintf(path, sizeof(path), "%s/model.ckpt-%lld.json", folder,
             (long long)s.result.steps);
    expect_text(path, NULL);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    LS_OWN_MEMORY(ls_allocator_system(), char, text) = read_text(path);
    assert_non_null(text);
    assert_null(strstr(text, "learning_rate"));
  }
  assert_true(late > 0);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
}

// ---- Overwriting -----------------------------------------------------------
TEST(a_run_that_does_no_step_overwrites_nothing) {
  static const char *const names[] = {
      "config.json", "metrics.jsonl",     "model.safetensors",
      "checkpoint",  "model.ckpt-8.json", "model.ckpt-8.safetensors"};
  enum { FILES = 6 };
  setup s;
  begin(&s, "old", -1);
  expect_ok(ls_train(&s.options, &s.result));
  end(&s);
  char *before[FILES], path[64];
  for (size_t i = 0; i < FILES; ++i) {
    snprintf(path, sizeof(path), "old/%s", names[i]);
    before[i] = read_text(path);
    assert_non_null(before[i]);
  }
  // All examples in the first batch.
  begin(&s, "old", 5);
  s.options.batch_size = EXAMPLES;
  expect_status(ls_train(&s.options, &s.result), LS_OUT_OF_RANGE, "step 1");
  assert_int_equal(s.result.steps, 0);
  end(&s);
  for (size_t i = 0; i < FILES; ++i) {
    snprintf(path, sizeof(path), "old/%s", names[i]);
    expect_text(path, before[i]);
  }
  expect_text("old/lock", NULL);
  // Nor does one that fails after a step, without a checkpoint.
  begin(&s, "old", 20);
  for (int seed = 1; seed < 20 && s.result.steps == 0; ++seed) {
    s.options.seed = seed;
    expect_status(ls_train(&s.options, &s.result), LS_OUT_OF_RANGE,
                  "the loss is");
  }
  assert_true(s.result.steps > 0);
  end(&s);
  for (size_t i = 0; i < FILES; ++i) {
    snprintf(path, sizeof(path), "old/%s", names[i]);
    expect_text(path, before[i]);
    ls_release(ls_allocator_system(), before[i]);
  }
  expect_text("old/.overwritten/phase", NULL);
  // Once the new one is saved, nothing of the old run is left.
  begin(&s, "old", -1);
  s.options.steps = 1;
  s.options.seed = 7;
  expect_ok(ls_train(&s.options, &s.result));
  end(&s);
  char *text = read_text("old/metrics.jsonl");
  assert_int_equal(strncmp(text, "{\"step\":1,", 10), 0);
  ls_release(ls_allocator_system(), text);
  text = read_text("old/config.json");
  expect_contains(text, "\"seed\":7");
  ls_release(ls_allocator_system(), text);
  expect_text("old/model.ckpt-8.json", NULL);
  expect_text("old/model.ckpt-8.safetensors", NULL);
  expect_text("old/checkpoint",
              "model_checkpoint_path: \"model.ckpt-1\"\n"
              "all_model_checkpoint_paths: \"model.ckpt-1\"\n");
}

// ---- Two at once -----------------------------------------------------------
typedef struct intruder {
  int64_t refused;
  bool resume;
} intruder;

// While a run goes on, another one comes to the same folder.
static void intrude(void *user, const ls_train_report *report) {
  intruder *it = user;
  (void)report;
  LS_OWN_BEGUN(setup, s, begin, "busy", -1);
  s.options.resume = it->resume;
  s.options.overwrite = !it->resume;
  expect_status(ls_train(&s.options, &s.result), LS_FAILED_PRECONDITION,
                "'busy/lock' is locked by process ");
  ++it->refused;
}

TEST(a_run_has_its_folder_to_itself) {
  for (int resume = 0; resume < 2; ++resume) {
    setup s;
    intruder user = {.resume = resume == 1};
    begin(&s, "busy", -1);
    s.options.report = intrude;
    s.options.report_user = &user;
    expect_ok(ls_train(&s.options, &s.result));
    assert_int_equal(user.refused, 8 + 1);  // Steps and the epoch's end.
    end(&s);
    expect_text("busy/lock", NULL);
  }
  LS_OWN_BEGUN(setup, s, begin, "busy", -1);
  s.options.resume = true;
  expect_ok(ls_train(&s.options, &s.result));
}

// ---- Long runs -------------------------------------------------------------
// Each line is looked at once: a run that never tested anything has many lines
// and the word that is looked for in none.
TEST(long_metrics_are_cut_in_no_time) {
  enum { LINES = 40000, KEPT = 30000 };
  const ls_file_system *files = ls_file_system_system();
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  size_t kept = 0;
  for (int step = 1; step <= LINES; ++step) {
    ls_text_append_format(&text,
                          "{\"step\":%d,\"epoch\":1,\"loss\":0.123456789,"
                          "\"accuracy\":0.5,\"seconds\":12.25}\n",
                          step);
    if (step == KEPT) kept = text.size;
  }
  expect_ok(ls_text_status(&text));
  expect_ok(files->make_directories(files->user, "long"));
  expect_ok(files->write(files->user, "long/metrics.jsonl", ls_text_data(&text),
                         text.size));
  ls_text_deinit(&text);
  ls_run_folder folder;
  ls_run_folder_init(&folder, ls_runtime_current(), "long");
  const clock_t before = clock();
  expect_ok(ls_run_folder_continue(&folder, &(ls_train_config){0}, KEPT));
  assert_true(clock() - before < 2 * CLOCKS_PER_SEC);
  ls_run_folder_deinit(&folder);
  char *cut = read_text("long/metrics.jsonl");
  assert_int_equal(strlen(cut), kept);
  ls_release(ls_allocator_system(), cut);
}
