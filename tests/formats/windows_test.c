// SPDX-License-Identifier: Apache-2.0
#include "formats/files/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fault.h"
#include "support/memory_files.h"
#include "support/read_all.h"
#include "support/scratch.h"

enum { RECORDS = 1000, SIZE = 8, BLOCK = 500 };

static void fill(char *records, int from) {
  for (int i = 0; i < RECORDS; ++i)
    snprintf(records + i * SIZE, SIZE, "%07d", from + i);
}

// Both files' records by blocks, in batches.
static ls_dataset *shuffled(ls_flag load) {
  ls_dataset *d =
      ls_dataset_records(LS_PATHS("in/a", "in/b"),
                         &(ls_records_options){.size = SIZE, .load = load});
  d = ls_dataset_shuffle(d, &(ls_shuffle_options){.seed = 7, .buffer = BLOCK});
  return ls_dataset_batch(d, &(ls_batch_options){.size = 64});
}

static void expect_same(void) {
  LS_OWN_BEGUN(ls_text, want, ls_text_init, ls_allocator_system());
  LS_OWN_BEGUN(ls_text, got, ls_text_init, ls_allocator_system());
  expect_ok(read_all(shuffled(LS_FLAG_ON), &want));
  expect_ok(read_all(shuffled(LS_FLAG_OFF), &got));
  assert_string_equal(want.data, got.data);
}

// ---- Files in memory, whose reads are counted ------------------------------
typedef struct counted {
  memory_files files;
  ls_file_system under;
  int reads;
  int64_t most;  // Bytes at once.
} counted;
static counted counts;

static ls_status read_at(void *user, void *file, int64_t offset, void *data,
                         size_t size, size_t *out_size) {
  ++counts.reads;
  if ((int64_t)size > counts.most) counts.most = (int64_t)size;
  return counts.under.read_at(user, file, offset, data, size, out_size);
}

static ls_runtime *outside;

static ls_runtime *begin(void) {
  char records[RECORDS * SIZE];
  counts = (counted){0};
  counts.under = memory_files_system(&counts.files);
  ls_file_system system = counts.under;
  system.read_at = read_at;
  ls_runtime *runtime = NULL;
  expect_ok(
      ls_runtime_create(&(ls_runtime_options){.file_system = &system,
                                              .input_threads = LS_SOME(0)},
                        &runtime));
  outside = ls_runtime_make_current(runtime);
  fill(records, 0);
  expect_ok(system.write(system.user, "in/a", records, sizeof(records)));
  fill(records, RECORDS);
  expect_ok(system.write(system.user, "in/b", records, sizeof(records)));
  return runtime;
}

static void end(ls_runtime *runtime) {
  memory_files_clear(&counts.files);
  ls_runtime_make_current(outside);
  expect_ok(ls_runtime_destroy(runtime));
}
LS_OWNED_POINTER(ls_runtime, end)

TEST(blocks_of_a_shuffle_are_read_at_once) {
  LS_OWN(ls_runtime, runtime) = begin();
  expect_same();
  ls_text got;
  ls_text_init(&got, ls_allocator_system());
  ls_dataset *d = shuffled(LS_FLAG_OFF);
  counts.reads = 0;
  counts.most = 0;
  expect_ok(read_all(d, &got));
  ls_text_deinit(&got);
  assert_int_equal(counts.reads, 2 * RECORDS / BLOCK);
  assert_int_equal(counts.most, BLOCK * SIZE);
}

TEST(records_are_read_alone_where_a_window_fails) {
  LS_OWN(ls_runtime, runtime) = begin();
  LS_OWN_BEGUN(ls_text, want, ls_text_init, ls_allocator_system());
  LS_OWN_BEGUN(ls_text, got, ls_text_init, ls_allocator_system());
  expect_ok(read_all(shuffled(LS_FLAG_ON), &want));
  ls_dataset *d = shuffled(LS_FLAG_OFF);
  counts.reads = 0;
  counts.files.fail_at = 1;
  expect_ok(read_all(d, &got));
  assert_string_equal(want.data, got.data);
  // Those of the first batch; the next one tries again.
  assert_int_equal(counts.reads, 1 + 64 + 2 * RECORDS / BLOCK);
}

// ---- Files on the disk -----------------------------------------------------
TEST(threads_share_windows) {
  char records[RECORDS * SIZE];
  const ls_file_system *system = ls_file_system_system();
  expect_ok(system->make_directories(NULL, "in"));
  fill(records, 0);
  expect_ok(system->write(NULL, "in/a", records, sizeof(records)));
  fill(records, RECORDS);
  expect_ok(system->write(NULL, "in/b", records, sizeof(records)));
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.input_threads = LS_SOME(3)}, &runtime));
  outside = ls_runtime_make_current(runtime);
  for (int i = 0; i < 4; ++i)
    expect_same();
  ls_runtime_make_current(outside);
  expect_ok(ls_runtime_destroy(runtime));
  unlink("in/a");
  unlink("in/b");
  rmdir("in");
}

// ---- Which windows there are -----------------------------------------------
static ls_source_file *open_records(void) {
  ls_source_file *file = NULL;
  expect_ok(ls_source_file_open("in/a", NULL, &file));
  for (int64_t i = 0; i <= RECORDS; ++i)
    expect_ok(ls_offsets_add(&file->offsets, i * SIZE));
  file->count = RECORDS;
  return file;
}

TEST(half_unread_windows_stay_for_a_while) {
  LS_OWN(ls_runtime, runtime) = begin();
  LS_OWN(ls_source_file, file) = open_records();
  ls_windows windows = {0};
  expect_ok(ls_windows_init(&windows, ls_runtime_allocator(runtime)));
  for (int64_t i = 0; i < LS_WINDOWS; ++i) {
    ls_file_window *it = ls_windows_enter(&windows, file, i * 200, 200, 40);
    assert_non_null(it);
    assert_memory_equal(it->bytes + SIZE - 2, "0", 1);
    assert_int_equal(atoi(it->bytes), i * 200);
    ls_windows_leave(&windows, it);
  }
  // The fifth one waits until others could have read half of one.
  assert_null(ls_windows_enter(&windows, file, 800, 200, 40));
  assert_null(ls_windows_enter(&windows, file, 800, 200, 40));
  ls_file_window *it = ls_windows_enter(&windows, file, 800, 200, 40);
  assert_non_null(it);
  assert_int_equal(atoi(it->bytes), 800);
  // One that is in use is not taken away, and few records need none.
  ls_windows_leave(&windows, it);
  assert_null(ls_windows_enter(&windows, file, 0, 100, 40));
  ls_file_window *used[LS_WINDOWS];
  for (int64_t i = 0; i < LS_WINDOWS; ++i) {
    used[i] = ls_windows_enter(&windows, file, (i + 1) * 200, 200, 200);
    assert_non_null(used[i]);
  }
  assert_null(ls_windows_enter(&windows, file, 0, 200, 200));
  for (int64_t i = 0; i < LS_WINDOWS; ++i)
    ls_windows_leave(&windows, used[i]);
  it = ls_windows_enter(&windows, file, 0, 200, 200);
  assert_non_null(it);
  ls_windows_leave(&windows, it);
  ls_windows_deinit(&windows);
}

TEST(a_window_that_had_no_memory_is_begun_again) {
  LS_OWN(ls_runtime, runtime) = begin();
  LS_OWN(ls_source_file, file) = open_records();
  ls_counting_allocator *memory = NULL;
  ls_windows windows = {0};
  expect_ok(ls_counting_allocator_create(NULL, &memory));
  expect_ok(ls_windows_init(&windows, ls_counting_allocator_allocator(memory)));
  ls_counting_allocator_fail_at(memory, 1);
  assert_null(ls_windows_enter(&windows, file, 200, 200, 40));
  ls_file_window *it = ls_windows_enter(&windows, file, 200, 200, 40);
  assert_non_null(it);
  assert_int_equal(atoi(it->bytes), 200);
  ls_windows_leave(&windows, it);
  ls_windows_deinit(&windows);
  ls_counting_allocator_destroy(memory);
}

static void expect_record(const ls_file_window *it, int64_t offset, size_t size,
                          const char *bytes, bool there) {
  const char *found = ls_file_window_find(it, offset, size);
  assert_int_equal(found != NULL, there);
  if (there) assert_memory_equal(found, bytes + offset, size);
}

TEST(large_windows_are_read_in_parts) {
  enum { LONG = 4000, COUNT = 300 };
  LS_OWN(ls_runtime, runtime) = begin();
  HEAP(char, bytes) = malloc(LONG * COUNT);
  assert_non_null(bytes);
  for (size_t i = 0; i < LONG * COUNT; ++i)
    bytes[i] = (char)(i * 31 >> 7);
  expect_ok(counts.under.write(counts.under.user, "in/c", bytes, LONG * COUNT));
  LS_OWN(ls_source_file, file) = NULL;
  expect_ok(ls_source_file_open("in/c", NULL, &file));
  for (int64_t i = 0; i <= COUNT; ++i)
    expect_ok(ls_offsets_add(&file->offsets, i * LONG));
  file->count = COUNT;
  ls_windows windows = {0};
  expect_ok(ls_windows_init(&windows, ls_runtime_allocator(runtime)));
  for (int64_t first = 0; first < 2; ++first) {
    // The second part of the second window cannot be read: what is in it, if
    // only in part, is not there, and the next one who comes tries again.
    const int64_t begins = first * LONG, bad = begins + LS_FILE_WINDOW_PART;
    counts.reads = 0;
    counts.files.fail_at = first == 0 ? 0 : 2;
    ls_file_window *it =
        ls_windows_enter(&windows, file, first, COUNT - first, COUNT);
    assert_non_null(it);
    assert_int_equal(counts.reads, 5);
    for (int64_t at = begins; at < COUNT * LONG; at += LONG)
      expect_record(it, at, LONG, bytes,
                    first == 0 || at + LONG <= bad ||
                        at >= bad + LS_FILE_WINDOW_PART);
    expect_record(it, begins, LS_FILE_WINDOW_PART, bytes, true);
    ls_windows_leave(&windows, it);
    counts.reads = 0;
    it = ls_windows_enter(&windows, file, first, COUNT - first, COUNT);
    assert_int_equal(counts.reads, first == 0 ? 0 : 5);
    expect_record(it, begins, (size_t)(COUNT - first) * LONG, bytes, true);
    ls_windows_leave(&windows, it);
  }
  ls_windows_deinit(&windows);
}

static ls_status read_shuffled(void *user) {
  (void)user;
  LS_OWN_BEGUN(ls_text, out, ls_text_init, ls_allocator_system());
  return read_all(shuffled(LS_FLAG_OFF), &out);
}

TEST(a_window_without_memory_is_none) {
  const ls_file_system *system = ls_file_system_system();
  char records[RECORDS * SIZE];
  expect_ok(system->make_directories(NULL, "in"));
  fill(records, 0);
  expect_ok(system->write(NULL, "in/a", records, sizeof(records)));
  expect_ok(system->write(NULL, "in/b", records, sizeof(records)));
  REFUSE_EACH(read_shuffled, NULL);
  unlink("in/a");
  unlink("in/b");
  rmdir("in");
}

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave)
