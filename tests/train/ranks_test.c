// SPDX-License-Identifier: Apache-2.0
//
// Ranks that train together save together: each writes its part of the same
// files that one would write, at the same steps, and what goes wrong on one is
// told on all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "support/crash_files.h"
#include "support/expect.h"
#include "support/resumable.h"

enum { MOST_RANKS = 4, LARGE = 40000 };

// ---- Files that count ------------------------------------------------------
typedef struct rank_disk {
  int64_t written;  // Bytes of values, in parts. Atomic.
  int refused;      // Writes of values from now on that fail. Atomic.
  int index;
} rank_disk;

static rank_disk disks[MOST_RANKS];
static ls_file_system systems[MOST_RANKS];

static ls_status write_at(void *user, void *file, int64_t offset,
                          const void *data, size_t size) {
  rank_disk *disk = user;
  if (__atomic_load_n(&disk->refused, __ATOMIC_RELAXED) > 0) {
    __atomic_fetch_sub(&disk->refused, 1, __ATOMIC_RELAXED);
    return LS_STATUS(LS_UNAVAILABLE, "the disk of %d is full", disk->index);
  }
  __atomic_fetch_add(&disk->written, (int64_t)size, __ATOMIC_RELAXED);
  return ls_file_system_system()->write_at(NULL, file, offset, data, size);
}

static void prepare_disks(void) {
  for (int k = 0; k < MOST_RANKS; ++k) {
    disks[k] = (rank_disk){.index = k};
    systems[k] = *ls_file_system_system();
    systems[k].write_at = write_at;
    systems[k].user = &disks[k];
  }
}

static ls_status run(resumable r, const char *folder) {
  ls_train_result result;
  if (!r.resume) remove_folder(folder);
  r.folder = folder;
  r.threads = 1;
  return resumable_run(&r, &result);
}

static void expect_same_lists(const char *a, const char *b) {
  const ls_file_system *files = ls_file_system_system();
  ls_file_entry *in[2] = {NULL, NULL};
  size_t counts[2] = {0};
  expect_ok(files->list(NULL, a, ls_allocator_system(), &in[0], &counts[0]));
  expect_ok(files->list(NULL, b, ls_allocator_system(), &in[1], &counts[1]));
  assert_int_equal(counts[0], counts[1]);
  for (size_t i = 0; i < counts[0]; ++i) {
    const char *name = in[0][i].name, *end = strrchr(name, '.');
    assert_string_equal(name, in[1][i].name);
    if (strcmp(name, "checkpoint") == 0 ||
        (end != NULL && strcmp(end, ".safetensors") == 0))
      expect_same_file(a, b, name);
  }
  ls_release(ls_allocator_system(), in[0]);
  ls_release(ls_allocator_system(), in[1]);
}

// ---- Together --------------------------------------------------------------
TEST(each_rank_writes_its_part_of_the_files_of_one) {
  static const int64_t part = 1 << 20;
  resumable r = {.replicas = 4,
                 .units = LARGE,
                 .steps = 6,
                 .save_steps = 2,
                 .keep = LS_SOME(2)};
  expect_ok(run(r, "alone"));
  for (int32_t ranks = 2; ranks <= MOST_RANKS; ranks *= 2) {
    prepare_disks();
    r.ranks = ranks;
    r.rank_files = systems;
    expect_ok(run(r, "together"));
    expect_same_lists("alone", "together");
    // Three saves; the model at the end is rank 0's.
    for (int k = 0; k < ranks; ++k)
      assert_true(disks[k].written >= 3 * part);
    for (int k = ranks; k < MOST_RANKS; ++k)
      assert_int_equal(disks[k].written, 0);
  }
}

TEST(they_save_at_the_steps_of_one) {
  const struct {
    int64_t save_steps;
    ls_opt keep;
    const char *keep_best;
  } rows[] = {{1, LS_SOME(0), NULL},
              {4, LS_SOME(3), NULL},
              {5, LS_SOME(1), "loss"},
              {0, LS_SOME(1), "test_loss"}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    resumable r = {.replicas = 4,
                   .save_steps = rows[i].save_steps,
                   .keep = rows[i].keep,
                   .keep_best = rows[i].keep_best,
                   .with_test = true};
    expect_ok(run(r, "alone"));
    r.ranks = 4;
    expect_ok(run(r, "together"));
    expect_same_lists("alone", "together");
    // And where they go on from a step between two saves.
    r.stop_at = 14;
    r.stops_on_rank = 3;
    expect_ok(run(r, "two"));
    r.stop_at = 0;
    r.resume = true;
    r.ranks = 2;
    expect_ok(run(r, "two"));
    expect_same_file("alone", "two", "model.safetensors");
    expect_same_file("alone", "two", "model.ckpt-33.safetensors");
  }
}

TEST(a_run_that_takes_the_place_of_another_is_saved_together) {
  resumable r = {.replicas = 4, .save_steps = 7, .keep = LS_SOME(0)};
  expect_ok(run(r, "alone"));
  ls_train_result result;
  resumable other = {.folder = "again", .replicas = 4, .save_steps = 1};
  remove_folder("again");
  expect_ok(resumable_run(&other, &result));
  r.folder = "again";
  r.ranks = 3;
  r.overwrite = true;
  expect_ok(resumable_run(&r, &result));
  expect_same_lists("alone", "again");
}

// ---- What goes wrong -------------------------------------------------------
TEST(what_one_cannot_write_ends_the_run_and_names_it) {
  resumable r = {.replicas = 4, .save_steps = 4, .keep = LS_SOME(2)};
  expect_ok(run(r, "alone"));
  for (int background = 0; background < 2; ++background) {
    prepare_disks();
    // Of so little the last one writes all.
    resumable then = r;
    then.ranks = 4;
    then.rank_files = systems;
    then.save_background = background == 1 ? LS_FLAG_ON : LS_FLAG_OFF;
    then.stop_at = 9;
    expect_ok(run(then, "full"));
    assert_true(disks[3].written > 0);
    then.stop_at = 0;
    then.resume = true;
    disks[3].refused = 1;
    int32_t blamed[MOST_RANKS];
    then.blamed = blamed;
    ls_status status = run(then, "full");
    // Those that have heard of it only do not take it for their own.
    for (int k = 0; k < MOST_RANKS; ++k)
      assert_int_equal(blamed[k], 3);
    expect_contains(ls_status_message(status), "the disk of 3 is full");
    expect_contains(ls_status_message(status), "on rank 3 of 4");
    expect_contains(ls_status_message(status), "the checkpoint of step 12");
    expect_status(status, LS_UNAVAILABLE, "the disk of 3 is full");
    // What was there before stands, and no half of a file.
    expect_ok(run(then, "full"));
    expect_same_file("alone", "full", "model.safetensors");
  }
}

static int warnings;
static void count_warnings(void *user, const ls_log_line *line) {
  (void)user;
  if (line->level == LS_LOG_WARNING)
    __atomic_fetch_add(&warnings, 1, __ATOMIC_RELAXED);
}

TEST(where_saves_may_fail_one_line_tells) {
  resumable r = {.replicas = 4, .save_steps = 8, .keep = LS_SOME(0)};
  expect_ok(run(r, "alone"));
  prepare_disks();
  disks[3].refused = 2;
  warnings = 0;
  r.ranks = 4;
  r.rank_files = systems;
  r.save_goes_on = true;
  r.log_line = count_warnings;
  expect_ok(run(r, "told"));
  assert_int_equal(warnings, 2);
  bool exists = true;
  expect_ok(ls_file_system_system()->exists(NULL, "told/model.ckpt-16.json",
                                            &exists));
  assert_false(exists);
  expect_same_file("alone", "told", "model.ckpt-24.safetensors");
  expect_same_file("alone", "told", "model.safetensors");
}

// ---- Folders that others do not see ----------------------------------------
TEST(a_run_in_rank_0s_folder_alone_goes_on) {
  ls_train_result result;
  static crash_files files[MOST_RANKS];
  for (int k = 0; k < MOST_RANKS; ++k)
    systems[k] = crash_files_system(&files[k]);
  resumable r = {.folder = "own",
                 .replicas = 4,
                 .threads = 1,
                 .ranks = 3,
                 .rank_files = systems,
                 .save_steps = 10,
                 .save_background = LS_FLAG_OFF,
                 .stop_at = 17};
  expect_ok(resumable_run(&r, &result));
  assert_true(result.stopped);
  r.stop_at = 0;
  r.resume = true;
  r.ranks = 2;
  expect_ok(resumable_run(&r, &result));
  assert_int_equal(result.steps, RESUMABLE_STEPS);
  for (int k = 1; k < MOST_RANKS; ++k)
    assert_int_equal(crash_files_count(&files[k]), 0);
  expect_ok(run((resumable){.replicas = 4}, "alone"));
  size_t size = 0;
  char *wanted = read_folder_file("alone", "model.safetensors", &size);
  const ls_text *got = crash_files_find(&files[0], "own/model.safetensors");
  assert_non_null(got);
  assert_int_equal(got->size, size);
  assert_memory_equal(got->data, wanted, size);
  ls_release(ls_allocator_system(), wanted);
  for (int k = 0; k < MOST_RANKS; ++k)
    crash_files_clear(&files[k]);
}

// ---- Hosts -----------------------------------------------------------------
// A host's files are in a folder of its name.
static const char *on_host(const char *host, const char *path,
                           char place[256]) {
  snprintf(place, 256, "%s/%s", host, path);
  return place;
}

#define ON_HOST(call, ...)                                                     \
  char place[256];                                                             \
  return ls_file_system_system()->call(NULL, on_host(user, path, place),       \
                                       ##__VA_ARGS__)

static ls_status host_read(void *user, const char *path, size_t most,
                           ls_allocator *allocator, char **out_data,
                           size_t *out_size) {
  ON_HOST(read, most, allocator, out_data, out_size);
}
static ls_status host_exists(void *user, const char *path, bool *out_exists) {
  ON_HOST(exists, out_exists);
}
static ls_status host_write(void *user, const char *path, const void *data,
                            size_t size) {
  ON_HOST(write, data, size);
}
static ls_status host_append(void *user, const char *path, const void *data,
                             size_t size) {
  ON_HOST(append, data, size);
}
static ls_status host_sync(void *user, const char *path) {
  ON_HOST(sync_appended);
}
static ls_status host_make(void *user, const char *path) {
  ON_HOST(make_directories);
}
static ls_status host_remove(void *user, const char *path) { ON_HOST(remove); }
static ls_status host_open(void *user, const char *path, void **out_file,
                           ls_file_info *out_info) {
  ON_HOST(open, out_file, out_info);
}
static ls_status host_list(void *user, const char *path,
                           ls_allocator *allocator, ls_file_entry **out_entries,
                           size_t *out_count) {
  ON_HOST(list, allocator, out_entries, out_count);
}
static ls_status host_create(void *user, const char *path, bool join,
                             void **out_file) {
  ON_HOST(create, join, out_file);
}

static ls_file_system files_of_host(const char *host) {
  ls_file_system files = *ls_file_system_system();
  files.read = host_read;
  files.exists = host_exists;
  files.write = host_write;
  files.append = host_append;
  files.sync_appended = host_sync;
  files.make_directories = host_make;
  files.remove = host_remove;
  files.open = host_open;
  files.list = host_list;
  files.create = host_create;
  files.lock = NULL;
  files.unlock = NULL;
  files.user = (void *)(uintptr_t)host;
  return files;
}

// Ranks 2 and 3 have one folder, which is not that of ranks 0 and 1.
TEST(ranks_of_another_host_go_on_side_by_side) {
  ls_train_result result;
  const ls_file_system *files = ls_file_system_system();
  remove_folder("host-0/own");
  for (int k = 0; k < MOST_RANKS; ++k)
    systems[k] = files_of_host(k < 2 ? "host-0" : "host-1");
  expect_ok(files->make_directories(NULL, "host-1"));
  resumable r = {.folder = "own",
                 .replicas = 4,
                 .threads = 1,
                 .ranks = 4,
                 .rank_files = systems,
                 .save_steps = 10,
                 .stop_at = 17};
  expect_ok(resumable_run(&r, &result));
  r.stop_at = 0;
  r.resume = true;
  expect_ok(resumable_run(&r, &result));
  assert_int_equal(result.steps, RESUMABLE_STEPS);
  expect_ok(run((resumable){.replicas = 4}, "alone"));
  expect_same_file("alone", "host-0/own", "model.safetensors");
  // What was copied is gone.
  ls_file_entry *entries = NULL;
  size_t count = 0;
  expect_ok(
      files->list(NULL, "host-1", ls_allocator_system(), &entries, &count));
  assert_int_equal(count, 0);
  ls_release(ls_allocator_system(), entries);
}
