// SPDX-License-Identifier: Apache-2.0
//
// Which checkpoints of a folder stay: never is the one just saved deleted, nor
// all that can be read, nor a file in silence.
#include "lockstep/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "io/crc32c.h"
#include "state/own.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/memory_files.h"
#include "support/saving.h"

// ---- A folder in memory ----------------------------------------------------
typedef struct world {
  memory_files files;
  ls_file_system system;
  counted memory;
  ls_variable *variable;
  ls_saver saver;
  ls_checkpoints_options options;
  ls_checkpoints *checkpoints;
  char warning[256];  // The last one.
} world;

static void note_warning(void *user, const ls_log_line *line) {
  world *w = user;
  if (line->level == LS_LOG_WARNING)
    snprintf(w->warning, sizeof(w->warning), "%s", line->text);
}

static world *written;

static void save_step(world *w, int64_t step, double metric);

// Lists, and then saves step 2 if asked to.
static ls_status list_and_save(void *user, const char *folder,
                               ls_allocator *allocator,
                               ls_file_entry **out_entries, size_t *out_count) {
  world *w = written;
  written = NULL;
  const ls_status status = memory_files_system(user).list(
      user, folder, allocator, out_entries, out_count);
  if (w != NULL) save_step(w, 2, 0);
  return status;
}

static void begin(world *w) {
  memset(w, 0, sizeof(*w));
  w->system = memory_files_system(&w->files);
  w->system.list = list_and_save;
  w->memory = counted_begin_with((ls_runtime_options){
      .file_system = &w->system, .log = note_warning, .log_user = w});
  w->variable = plain("w", 0);
  w->saver = saver_of(&w->variable);
  w->options = (ls_checkpoints_options){
      .folder = "f", .values = &w->saver, .background = LS_FLAG_OFF};
}

static void close_it(world *w) {
  expect_ok(ls_checkpoints_close(w->checkpoints));
  w->checkpoints = NULL;
}

// Opens the folder, again if it is open.
static void open_it(world *w) {
  close_it(w);
  expect_ok(ls_checkpoints_open(&w->options, &w->checkpoints));
}

static void end(world *w) {
  close_it(w);
  ls_variable_release(w->variable);
  counted_end(&w->memory);
  memory_files_clear(&w->files);
}
LS_OWNED_STRUCT(world, end)

static void set_to(world *w, double value) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, value);
  expect_ok(ls_variable_set_value(w->variable, array));
}

// Saves the last digit of the step as the value.
static void save_step(world *w, int64_t step, double metric) {
  const ls_checkpoint_metric loss = {"loss", metric};
  set_to(w, (double)(step % 10));
  expect_ok(ls_checkpoints_save(w->checkpoints, step, &loss, 1));
}

static void restore_step(world *w, ls_opt step, int64_t wanted) {
  ls_restore_report report;
  set_to(w, -1);
  expect_ok(ls_checkpoints_restore(
      w->checkpoints, &(ls_restore_options){.step = step}, &report));
  assert_int_equal(report.step, wanted);
  assert_true(value_of(w->variable) == (double)(wanted % 10));
}

static void expect_steps(world *w, const int64_t *wanted, size_t count) {
  int64_t steps[16];
  size_t has = 0;
  expect_ok(ls_checkpoints_list(w->checkpoints, steps, 16, &has));
  assert_int_equal(has, count);
  for (size_t i = 0; i < count; ++i)
    assert_int_equal(steps[i], wanted[i]);
}
#define STEPS(...)                                                             \
  (const int64_t[]){__VA_ARGS__},                                              \
      sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

// ---- Steps that go back ----------------------------------------------------
TEST(the_one_just_saved_stays) {
  LS_OWN_BEGUN(world, w, begin);
  w.options.keep = LS_SOME(1);
  open_it(&w);
  save_step(&w, 100, 0);
  save_step(&w, 50, 0);
  expect_steps(&w, STEPS(50, 100));
  save_step(&w, 51, 0);
  expect_steps(&w, STEPS(51, 100));
  restore_step(&w, LS_SOME(51), 51);
}

TEST(a_run_that_goes_back_leaves_its_future) {
  LS_OWN_BEGUN(world, w, begin);
  w.options.keep = LS_SOME(2);
  open_it(&w);
  for (int64_t step = 10; step <= 40; step += 10)
    save_step(&w, step, 0);
  restore_step(&w, LS_SOME(30), 30);
  expect_steps(&w, STEPS(30, 40));
  save_step(&w, 31, 0);
  expect_steps(&w, STEPS(30, 31));
  save_step(&w, 32, 0);
  expect_steps(&w, STEPS(31, 32));
  assert_non_null(strstr(memory_files_find(&w.files, "f/checkpoint")->data,
                         "model_checkpoint_path: \"model.ckpt-32\""));
  restore_step(&w, (ls_opt){0}, 32);
  // It may also go on where it was.
  restore_step(&w, LS_SOME(31), 31);
  restore_step(&w, (ls_opt){0}, 32);
  save_step(&w, 33, 0);
  expect_steps(&w, STEPS(32, 33));
}

TEST(the_last_step_there_is_can_be_restored) {
  LS_OWN_BEGUN(world, w, begin);
  open_it(&w);
  save_step(&w, INT64_MAX, 0);
  restore_step(&w, (ls_opt){0}, INT64_MAX);
}

// ---- Metrics ---------------------------------------------------------------
TEST(an_infinite_metric_counts_when_it_is_read_again) {
  for (int low = 0; low < 2; ++low) {
    LS_OWN_BEGUN(world, w, begin);
    w.options.keep = LS_SOME(1);
    w.options.best_metric = "loss";
    w.options.best_is_high = low ? LS_FLAG_OFF : LS_FLAG_ON;
    open_it(&w);
    save_step(&w, 1, low ? -(double)INFINITY : (double)INFINITY);
    save_step(&w, 2, 3);
    open_it(&w);
    save_step(&w, 3, 2);
    expect_steps(&w, STEPS(1, 3));
    LS_OWN(ls_saved_file, file) = NULL;
    ls_saved_info info;
    expect_ok(ls_saved_file_open("f/model.ckpt-1", &file));
    ls_saved_file_describe(file, &info);
    assert_true(isinf(info.metrics[0].value));
  }
}

TEST(two_metrics_of_one_name_are_refused) {
  LS_OWN_BEGUN(world, w, begin);
  const ls_checkpoint_metric both[] = {{"a", 1}, {"a", 2}};
  open_it(&w);
  expect_status(ls_checkpoints_save(w.checkpoints, 1, both, 2),
                LS_INVALID_ARGUMENT,
                "two metrics of the checkpoint of step 1 are called 'a'");
}

// ---- What cannot be read ---------------------------------------------------
// Counts as damaged, so that it never takes the place of one that can be read.
TEST(a_json_of_another_version_takes_no_place) {
  LS_OWN_BEGUN(world, w, begin);
  w.options.keep = LS_SOME(1);
  open_it(&w);
  save_step(&w, 1, 0);
  close_it(&w);
  static const char body[] = "{\"format\":9,\"step\":2";
  char text[64];
  snprintf(text, sizeof(text), "%s,\"crc32c\":\"%08x\"}", body,
           ls_crc32c(0, body, strlen(body)));
  const ls_file_system *files = &w.system;
  expect_ok(
      files->write(files->user, "f/model.ckpt-2.json", text, strlen(text)));
  w.options.keep = LS_SOME(2);
  open_it(&w);
  save_step(&w, 3, 0);
  restore_step(&w, LS_SOME(1), 1);
}

TEST(values_alone_go_with_a_warning) {
  LS_OWN_BEGUN(world, w, begin);
  open_it(&w);
  expect_ok(ls_saver_save(&w.saver, "f/model.ckpt-77.safetensors"));
  open_it(&w);
  assert_null(memory_files_find(&w.files, "f/model.ckpt-77.safetensors"));
  assert_non_null(strstr(w.warning, "removing 'f/model.ckpt-77.safetensors'"));
}

// ---- A reader beside a writer ----------------------------------------------
TEST(a_reader_lists_again_if_all_that_it_listed_is_gone) {
  LS_OWN_BEGUN(world, w, begin);
  w.options.keep = LS_SOME(1);
  open_it(&w);
  save_step(&w, 1, 0);
  written = &w;
  LS_OWN(ls_saved_file, file) = NULL;
  ls_saved_info info;
  expect_ok(ls_saved_file_open("f", &file));
  ls_saved_file_describe(file, &info);
  assert_int_equal(info.step, 2);
}
