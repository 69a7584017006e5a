// SPDX-License-Identifier: Apache-2.0
//
// Numbers of event files read again, also of damaged ones.
#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/events.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/memory_files.h"
#include "train/own.h"

typedef struct setup {
  memory_files files;
  ls_file_system system;
  counted memory;
  int warnings;
  char line[400];  // The last.
} setup;

static void keep_line(void *user, const ls_log_line *line) {
  setup *s = user;
  if (line->level == LS_LOG_WARNING) ++s->warnings;
  snprintf(s->line, sizeof(s->line), "%s", line->text);
}

static void begin(setup *s) {
  *s = (setup){.warnings = 0};
  s->system = memory_files_system(&s->files);
  s->memory = counted_begin_with((ls_runtime_options){.file_system = &s->system,
                                                      .log = keep_line,
                                                      .log_user = s,
                                                      .threads = 1});
}

static void end(setup *s) {
  counted_end(&s->memory);
  memory_files_clear(&s->files);
}
LS_OWNED_STRUCT(setup, end)

static ls_event_writer *writer_from(int64_t first_step) {
  ls_event_writer *writer = NULL;
  expect_ok(
      ls_event_writer_open(&(ls_event_writer_options){.folder = "runs/eval",
                                                      .first_step = first_step},
                           &writer));
  return writer;
}

static void write_number(ls_event_writer *writer, const char *tag, int64_t step,
                         double value) {
  expect_ok(ls_event_writer_scalar(writer, tag, step, value));
}

static ls_event_numbers *read_all(const char *tag) {
  ls_event_numbers *numbers = NULL;
  expect_ok(ls_events_read("runs/eval", tag, &numbers));
  assert_non_null(numbers);
  return numbers;
}

static void expect_number(const ls_event_numbers *numbers, size_t i,
                          const char *tag, int64_t step, double value) {
  assert_true(i < numbers->count);
  assert_string_equal(numbers->items[i].tag, tag);
  assert_int_equal(numbers->items[i].step, step);
  assert_true(numbers->items[i].value == value);
}

// ---- What is whole ---------------------------------------------------------
TEST(numbers_come_back_by_step_and_tag) {
  LS_OWN_BEGUN(setup, s, begin);
  ls_event_writer *writer = writer_from(INT64_MAX);
  write_number(writer, "loss", 20, 0.5);
  write_number(writer, "loss", 10, 0.75);
  write_number(writer, "accuracy", 20, 0.125);
  expect_ok(ls_event_writer_text(writer, "note", 20, "no number"));
  expect_ok(ls_event_writer_close(writer));
  writer = writer_from(INT64_MAX);
  write_number(writer, "loss", 20, -4);  // Said once more, in a later file.
  write_number(writer, "loss", INT64_C(1) << 40, 3);
  expect_ok(ls_event_writer_close(writer));
  ls_event_numbers *numbers = read_all(NULL);
  assert_int_equal(numbers->count, 4);
  expect_number(numbers, 0, "loss", 10, 0.75);
  expect_number(numbers, 1, "accuracy", 20, 0.125);
  expect_number(numbers, 2, "loss", 20, -4);
  expect_number(numbers, 3, "loss", INT64_C(1) << 40, 3);
  assert_true(numbers->items[0].seconds > 0);
  ls_event_numbers_destroy(numbers);
  numbers = read_all("accuracy");
  assert_int_equal(numbers->count, 1);
  expect_number(numbers, 0, "accuracy", 20, 0.125);
  ls_event_numbers_destroy(numbers);
  assert_int_equal(s.warnings, 0);
}

TEST(a_run_that_begins_again_takes_back_what_was_said) {
  LS_OWN_BEGUN(setup, s, begin);
  for (int i = 0; i < 2; ++i) {
    ls_event_writer *writer = writer_from(i == 0 ? 0 : 20);
    for (int step = i == 0 ? 10 : 20; step <= 40 - 10 * i; step += 10)
      write_number(writer, "loss", step, i);
    expect_ok(ls_event_writer_close(writer));
  }
  LS_OWN(ls_event_numbers, numbers) = read_all(NULL);
  assert_int_equal(numbers->count, 3);
  expect_number(numbers, 0, "loss", 10, 0);
  expect_number(numbers, 1, "loss", 20, 1);
  expect_number(numbers, 2, "loss", 30, 1);
}

TEST(a_folder_that_is_not_there_has_no_numbers) {
  LS_OWN_BEGUN(setup, s, begin);
  ls_event_numbers *numbers = read_all(NULL);
  assert_int_equal(numbers->count, 0);
  ls_event_numbers_destroy(numbers);
  expect_ok(s.system.write(s.system.user, "runs/eval/notes.txt", "hi", 2));
  numbers = read_all("loss");
  assert_int_equal(numbers->count, 0);
  ls_event_numbers_destroy(numbers);
  expect_status(ls_events_read(NULL, NULL, &numbers), LS_INVALID_ARGUMENT,
                "folder is NULL");
  expect_status(ls_events_read("runs", NULL, NULL), LS_INVALID_ARGUMENT,
                "out_numbers is NULL");
  ls_event_numbers_destroy(NULL);
}

TEST(a_folder_on_the_disk_that_is_not_there_has_none) {
  LS_OWN(ls_event_numbers, numbers) = NULL;
  expect_ok(ls_events_read("no/such/folder", NULL, &numbers));
  assert_int_equal(numbers->count, 0);
}

// ---- Damage ----------------------------------------------------------------
enum { STEPS = 8, FILE_SIZE = 2000 };
// Two files: steps of 1 to STEPS, and one more in the second.
static size_t write_two(setup *s, char *path, size_t room, char *bytes) {
  ls_event_writer *writer = writer_from(INT64_MAX);
  for (int step = 1; step <= STEPS; ++step)
    write_number(writer, "loss", step, 1.0 / step);
  expect_ok(ls_event_writer_close(writer));
  const memory_file *file = NULL;
  for (size_t i = 0; i < s->files.count; ++i)
    if (strstr(s->files.items[i].path, "tfevents") != NULL)
      file = &s->files.items[i];
  assert_non_null(file);
  snprintf(path, room, "%s", file->path);
  assert_true(file->size <= FILE_SIZE);
  memcpy(bytes, file->data, file->size);
  const size_t size = file->size;
  writer = writer_from(INT64_MAX);
  write_number(writer, "loss", STEPS + 1, 7);
  expect_ok(ls_event_writer_close(writer));
  return size;
}

// The first file's numbers up to some, then the second's.
static void expect_a_beginning(const ls_event_numbers *numbers) {
  assert_true(numbers->count >= 1 && numbers->count <= STEPS + 1);
  for (size_t i = 0; i + 1 < numbers->count; ++i)
    expect_number(numbers, i, "loss", (int64_t)i + 1,
                  (double)(float)(1.0 / (double)(i + 1)));
  expect_number(numbers, numbers->count - 1, "loss", STEPS + 1, 7);
}

static void put(setup *s, const char *path, const char *bytes, size_t size) {
  expect_ok(s->system.write(s->system.user, path, bytes, size));
}

TEST(the_rest_of_a_damaged_file_is_passed_over) {
  LS_OWN_BEGUN(setup, s, begin);
  char path[200], bytes[FILE_SIZE], changed[FILE_SIZE];
  const size_t size = write_two(&s, path, sizeof(path), bytes);
  size_t least = STEPS + 1;
  for (size_t at = 0; at < size; ++at) {
    memcpy(changed, bytes, size);
    changed[at] = (char)(changed[at] ^ (1 << at % 8));
    put(&s, path, changed, size);
    LS_OWN(ls_event_numbers, numbers) = read_all(NULL);
    expect_a_beginning(numbers);
    assert_true(numbers->count <= STEPS);  // Each bit counts.
    if (numbers->count < least) least = numbers->count;
  }
  assert_int_equal(least, 1);
  assert_int_equal(s.warnings, 1);  // Of one file one.
  expect_contains(s.line, path);
  expect_contains(s.line, "skipping the rest");
}

TEST(a_file_that_is_cut_off_is_read_as_far_as_it_is_whole) {
  LS_OWN_BEGUN(setup, s, begin);
  char path[200], bytes[FILE_SIZE];
  const size_t size = write_two(&s, path, sizeof(path), bytes);
  size_t before = 1;
  for (size_t cut = 0; cut <= size; ++cut) {
    put(&s, path, bytes, cut);
    LS_OWN(ls_event_numbers, numbers) = read_all("loss");
    expect_a_beginning(numbers);
    assert_true(numbers->count >= before);
    before = numbers->count;
  }
  assert_int_equal(before, STEPS + 1);
}

TEST(garbage_is_no_number) {
  LS_OWN_BEGUN(setup, s, begin);
  char path[200], bytes[FILE_SIZE], changed[FILE_SIZE];
  const size_t size = write_two(&s, path, sizeof(path), bytes);
  uint64_t drawn = 88172645463325252u;
  for (int round = 0; round < 500; ++round) {
    memcpy(changed, bytes, size);
    // From some place on, or all of it.
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    for (size_t at = (size_t)(drawn >> 33) % size; at < size; ++at) {
      drawn = drawn * 6364136223846793005u + 1442695040888963407u;
      changed[at] = (char)(drawn >> 56);
    }
    put(&s, path, changed, size);
    LS_OWN(ls_event_numbers, numbers) = read_all(NULL);
    expect_a_beginning(numbers);
  }
}

// ---- What fails ------------------------------------------------------------
TEST(a_file_system_that_fails_is_told) {
  LS_OWN_BEGUN(setup, s, begin);
  char path[200], bytes[FILE_SIZE];
  (void)write_two(&s, path, sizeof(path), bytes);
  for (int call = 1;; ++call) {
    ls_event_numbers *numbers = NULL;
    s.files.fail_at = call;
    const ls_status status = ls_events_read("runs/eval", NULL, &numbers);
    if (ls_status_is_ok(status)) {
      assert_int_equal(numbers->count, STEPS + 1);
      ls_event_numbers_destroy(numbers);
      assert_true(call > 3);
      break;
    }
    assert_null(numbers);
    expect_status(status, LS_UNAVAILABLE, "");
  }
}

static ls_status read_the_folder(void *user) {
  (void)user;
  LS_OWN(ls_event_numbers, numbers) = NULL;
  LS_RETURN_IF_ERROR(ls_events_read("events", NULL, &numbers));
  assert_int_equal(numbers->count, 1);
  return ls_ok();
}

TEST(failed_requests_for_memory_are_survived) {
  ls_event_writer *writer = NULL;
  expect_ok(ls_event_writer_open(&(ls_event_writer_options){.folder = "events"},
                                 &writer));
  write_number(writer, "loss", 1, 2);
  expect_ok(ls_event_writer_close(writer));
  REFUSE_EACH(read_the_folder, NULL);
}
