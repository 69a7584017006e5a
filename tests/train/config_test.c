// SPDX-License-Identifier: Apache-2.0
// config.json: what is written reads back, and what is wrong is named.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/training_parts.h"
#include "support/fault.h"
#include "support/place.h"
#include "support/resumable.h"
#include "train/run_plan.h"

LS_OWNED_POINTER(ls_train_config, ls_train_config_destroy)

static void write_config(const char *text) {
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->make_directories(files->user, "configured"));
  expect_ok(
      files->write(files->user, "configured/config.json", text, strlen(text)));
}

TEST(what_is_written_reads_back) {
  const ls_train_config written = {.model = "./mine.so:line",
                                   .data = "a \"quoted\" folder",
                                   .precision = "f64",
                                   .math = "direct",
                                   .optimizer = "lion",
                                   .schedule = "cosine",
                                   .replicas = 3,
                                   .threads = 2,
                                   .batch_size = 12,
                                   .epochs = 4,
                                   .steps = 1000,
                                   .seed = -7,
                                   .warmup = 50,
                                   .learning_rate = 0.1,
                                   .weight_decay = 1e-3,
                                   .accumulate = 4,
                                   .clip_norm = 2.5};
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  ls_train_config_print(&written, &text);
  expect_ok(ls_text_status(&text));
  write_config(ls_text_data(&text));
  LS_OWN(ls_train_config, read) = NULL;
  expect_ok(ls_train_config_read("configured", &read));
  LS_OWN_BEGUN(ls_text, again, ls_text_init, ls_allocator_system());
  ls_train_config_print(read, &again);
  assert_string_equal(ls_text_data(&again), ls_text_data(&text));
  char *printed = NULL;
  expect_ok(ls_train_config_text(read, &printed));
  assert_string_equal(printed, ls_text_data(&text));
  ls_text_release(printed);
  assert_string_equal(read->data, "a \"quoted\" folder");
  assert_int_equal(read->seed, -7);
  assert_true(read->learning_rate == 0.1);
  ls_text_deinit(&text);
}

TEST(a_run_keeps_the_highest_of_scores_or_as_its_rule_says) {
  const struct {
    const char *keep_best, *stop_early;
    bool highest;
  } cases[] = {
      {NULL, NULL, false},
      {"", "", false},
      {"loss", NULL, false},
      {"accuracy", "", true},
      {"test_accuracy", "test_loss", true},
      {"test_mae", "test_mae", false},
      {"test_accuracy", "test_accuracy:min", false},
      {"test_loss", "test_loss:max", true},
      {"test_loss", "test_accuracy:max", false},
      {"test_f1", NULL, false},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    assert_int_equal(ls_train_config_keeps_highest(
                         &(ls_train_config){.keep_best = cases[i].keep_best,
                                            .stop_early = cases[i].stop_early}),
                     cases[i].highest);
}

TEST(what_is_not_said_has_its_default) {
  write_config("{\"model\": \"tiny\", \"of another time\": [1, 2]}");
  LS_OWN(ls_train_config, read) = NULL;
  expect_ok(ls_train_config_read("configured", &read));
  assert_string_equal(read->model, "tiny");
  assert_string_equal(read->data, "");
  assert_string_equal(read->precision, "f32");
  assert_string_equal(read->math, "fast");
  assert_string_equal(read->optimizer, "");
  assert_string_equal(read->schedule, "constant");
  assert_int_equal(read->replicas, 0);
}

TEST(what_is_wrong_is_named) {
  static const struct {
    const char *text, *part;
  } rows[] = {
      {"{\"model\":\"tiny\",", "configured/config.json:1"},
      {"", "configured/config.json:1"},
      {"[]", "has no JSON object"},
      {"{}", "names no \"model\""},
      {"{\"model\":3}", "\"model\" is not a text"},
      {"{\"model\":\"tiny\",\"seed\":0.5}", "\"seed\" is not a whole number"},
      {"{\"model\":\"tiny\",\"clip_norm\":\"1\"}",
       "\"clip_norm\" is not a number"},
      // Numbers that no flag takes.
      {"{\"model\":\"tiny\",\"threads\":100000}",
       "config.json': \"threads\" is 100000, expected 4096 at most"},
      {"{\"model\":\"tiny\",\"threads\":-1}",
       "\"threads\" is -1, expected 0 or more"},
      {"{\"model\":\"tiny\",\"replicas\":3000000000}",
       "\"replicas\" is 3e+09, expected 2.14748365e+09 at most"},
      {"{\"model\":\"tiny\",\"batch_size\":-8}", "\"batch_size\" is -8"},
      {"{\"model\":\"tiny\",\"epochs\":-1}", "\"epochs\" is -1"},
      {"{\"model\":\"tiny\",\"steps\":-1}", "\"steps\" is -1"},
      {"{\"model\":\"tiny\",\"warmup\":-1}", "\"warmup\" is -1"},
      {"{\"model\":\"tiny\",\"accumulate\":-1}", "\"accumulate\" is -1"},
      {"{\"model\":\"tiny\",\"keep\":-1}", "\"keep\" is -1"},
      {"{\"model\":\"tiny\",\"split\":1.5}",
       "\"split\" is 1.5, expected 1 at most"},
      {"{\"model\":\"tiny\",\"weight_decay\":-0.5}",
       "\"weight_decay\" is -0.5"},
      {"{\"model\":\"tiny\",\"clip_norm\":-1}", "\"clip_norm\" is -1"},
      {"{\"model\":\"tiny\",\"keep_every_hours\":-1}",
       "\"keep_every_hours\" is -1"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_train_config *read = NULL;
    write_config(rows[i].text);
    expect_status(ls_train_config_read("configured", &read),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(read);
  }
  ls_train_config *read = NULL;
  expect_status(ls_train_config_read("no such folder", &read), LS_NOT_FOUND,
                "'no such folder' is no run folder");
}

// ---- Not as it was written -------------------------------------------------
static void note_line(void *user, const ls_log_line *line) {
  snprintf(user, 400, "%.399s", line->text);
}

// What is read prints as `wanted`; `*out_line`: what was said about it.
static void expect_read(const char *wanted, char line[400]) {
  line[0] = '\0';
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .log = note_line, .log_user = line});
  LS_OWN(ls_train_config, read) = NULL;
  expect_ok(ls_train_config_read("kept", &read));
  LS_OWN_BEGUN(ls_text, again, ls_text_init, ls_allocator_system());
  ls_train_config_print(read, &again);
  assert_string_equal(ls_text_data(&again), wanted);
}

TEST(what_is_damaged_is_what_the_checkpoint_says) {
  const ls_file_system *files = ls_file_system_system();
  ls_train_result result;
  remove_folder("kept");
  expect_ok(resumable_run(&(resumable){.folder = "kept", .steps = 4}, &result));
  size_t size = 0;
  char *text = read_folder_file("kept", "config.json", &size), line[400];
  HEAP(char, other) = malloc(size + 1);
  for (size_t i = 0; i < size; ++i) {
    memcpy(other, text, size);
    other[i] = (char)(other[i] ^ 1 << i % 7);
    expect_ok(files->write(NULL, "kept/config.json", other, size));
    expect_read(text, line);
    // Where the checksum lost its name, all else is right.
    if (line[0] != '\0')
      expect_contains(line, "kept/config.json");
    else
      assert_true(i > size - 22 && i < size - 11);
  }
  for (size_t cut = 0; cut < size; cut += 40) {
    expect_ok(files->write(NULL, "kept/config.json", text, cut));
    expect_read(text, line);
    expect_contains(line, "in the checkpoint of step 4");
  }
  // Without a checkpoint there is nothing to say.
  expect_ok(files->remove(NULL, "kept/model.ckpt-4.json"));
  other[20] = '~';
  memcpy(other + 21, text + 21, size - 21);
  expect_ok(files->write(NULL, "kept/config.json", other, size));
  ls_train_config *read = NULL;
  LS_OWN(ls_status, status) = ls_train_config_read("kept", &read);
  assert_false(ls_status_is_ok(status));
  expect_contains(ls_status_message(status), "kept/config.json");
  ls_release(ls_allocator_system(), text);
}

TEST(a_checkpoint_has_the_one_of_its_time) {
  const ls_file_system *files = ls_file_system_system();
  ls_train_result result;
  remove_folder("kept");
  expect_ok(resumable_run(&(resumable){.folder = "kept", .steps = 4}, &result));
  const char *edited = "{\"model\":\"resumable\",\"steps\":9}\n";
  expect_ok(files->write(NULL, "kept/config.json", edited, strlen(edited)));
  LS_OWN(ls_train_config, read) = NULL;
  expect_ok(ls_train_config_read("kept/model.ckpt-4.json", &read));
  assert_int_equal(read->steps, 4);
  ls_train_config *none = NULL;
  expect_status(ls_train_config_read("kept/model.ckpt-5.json", &none),
                LS_NOT_FOUND, "model.ckpt-5");
}

TEST(who_edits_it_takes_the_checksum_out) {
  const ls_file_system *files = ls_file_system_system();
  ls_train_result result;
  remove_folder("kept");
  expect_ok(resumable_run(&(resumable){.folder = "kept", .steps = 4}, &result));
  const char *edited = "{\"model\":\"resumable\",\"steps\":9}\n";
  expect_ok(files->write(NULL, "kept/config.json", edited, strlen(edited)));
  ls_train_config *read = NULL;
  expect_ok(ls_train_config_read("kept", &read));
  assert_int_equal(read->steps, 9);
  ls_train_config_destroy(read);
  const char *wrong = "{\"model\":\"resumable\",\"steps\":\"9\"}\n";
  expect_ok(files->write(NULL, "kept/config.json", wrong, strlen(wrong)));
  expect_status(ls_train_config_read("kept", &read), LS_INVALID_ARGUMENT,
                "\"steps\" is not a whole number");
}

// A file that is no config is not taken into memory first.
TEST(a_longer_file_is_refused_unread) {
  enum { LIMIT = 1 << 20 };
  static char text[LIMIT + 2];
  memset(text, ' ', LIMIT + 1);
  memcpy(text, "{\"model\":\"tiny\"}", 16);
  ls_counting_allocator *memory = NULL;
  ls_runtime *runtime = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &memory));
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.allocator =
                                ls_counting_allocator_allocator(memory)},
      &runtime));
  ls_runtime *outside = ls_runtime_make_current(runtime);
  write_config(text);
  ls_train_config *read = NULL;
  const uint64_t before = ls_counting_allocator_counts(memory).peak_bytes;
  expect_status(ls_train_config_read("configured", &read), LS_INVALID_ARGUMENT,
                "'configured/config.json' has more than 1048576 bytes");
  assert_null(read);
  assert_true(ls_counting_allocator_counts(memory).peak_bytes < before + LIMIT);
  text[LIMIT] = '\0';
  write_config(text);
  expect_ok(ls_train_config_read("configured", &read));
  assert_string_equal(read->model, "tiny");
  ls_train_config_destroy(read);
  ls_runtime_make_current(outside);
  expect_ok(ls_runtime_destroy(runtime));
  ls_counting_allocator_destroy(memory);
}

static ls_status read_and_drop(void *user) {
  (void)user;
  LS_OWN(ls_train_config, read) = NULL;
  return ls_train_config_read("configured", &read);
}

TEST(no_memory_is_a_status) {
  write_config("{\"model\": \"tiny\", \"seed\": 3}");
  REFUSE_EACH(read_and_drop, NULL);
}
