// SPDX-License-Identifier: Apache-2.0
//
// Values are looked at whole before any is set, and read again to be set: what
// cannot be read that time leaves no variable with a part of two values.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/checkpoint.h"
#include "lockstep/eager.h"
#include "support/expect.h"
#include "support/resumable.h"
#include "support/values.h"

// Three megabytes, read in pieces.
enum { VARIABLES = 3, ELEMENTS = 1 << 18 };

// ---- A disk that cannot be read --------------------------------------------
typedef struct disk {
  int64_t step;  // Of the checkpoint whose values cannot be read,
  int after;     //   behind so many pieces of them,
  int times;     //   so often. Atomic, both.
  int read;      // Pieces of values of that step.
  char lines[800];
} disk;

typedef struct disk_file {
  void *file;
  bool watched;
} disk_file;

static ls_status open_watched(void *user, const char *path, void **out_file,
                              ls_file_info *out_info) {
  const disk *d = user;
  char name[64];
  snprintf(name, sizeof(name), "model.ckpt-%lld.safetensors",
           (long long)d->step);
  disk_file *opened = calloc(1, sizeof(*opened));
  opened->watched = strstr(path, name) != NULL;
  const ls_status status =
      ls_file_system_system()->open(NULL, path, &opened->file, out_info);
  *out_file = opened;
  if (ls_status_is_ok(status)) return status;
  free(opened);
  *out_file = NULL;
  return status;
}

static ls_status read_watched(void *user, void *file, int64_t offset,
                              void *data, size_t size, size_t *out_size) {
  disk *d = user;
  const disk_file *opened = file;
  if (opened->watched && size > 4096) {
    __atomic_fetch_add(&d->read, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_sub(&d->after, 1, __ATOMIC_RELAXED) <= 0 &&
        __atomic_fetch_sub(&d->times, 1, __ATOMIC_RELAXED) > 0)
      return LS_STATUS(LS_UNAVAILABLE, "the disk cannot be read");
  }
  return ls_file_system_system()->read_at(NULL, opened->file, offset, data,
                                          size, out_size);
}

static void close_watched(void *user, void *file) {
  (void)user;
  disk_file *opened = file;
  if (opened == NULL) return;
  ls_file_system_system()->close(NULL, opened->file);
  free(opened);
}

static void keep_line(void *user, const ls_log_line *line) {
  disk *d = user;
  const size_t size = strlen(d->lines);
  snprintf(d->lines + size, sizeof(d->lines) - size, "%s\n", line->text);
}

// ---- Variables -------------------------------------------------------------
typedef struct world {
  disk disk;
  ls_file_system system;
  ls_runtime *runtime, *before;
  ls_variable *variables[VARIABLES];
  ls_saver saver;
  ls_checkpoints *checkpoints;
} world;

static void set_all(world *w, float value) {
  for (int i = 0; i < VARIABLES; ++i) {
    LS_OWN(ls_array, array) = NULL;
    expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ELEMENTS), &array));
    for (int k = 0; k < ELEMENTS; ++k)
      ((float *)ls_array_mutable_data(array))[k] = value + (float)i;
    expect_ok(ls_variable_set_value(w->variables[i], array));
  }
}

static void expect_all(world *w, float value) {
  for (int i = 0; i < VARIABLES; ++i) {
    LS_OWN(ls_array, array) = variable_array(w->variables[i]);
    for (int k = 0; k < ELEMENTS; ++k)
      if (((const float *)ls_array_data(array))[k] != value + (float)i)
        fail_msg("element %d of variable %d is another", k, i);
  }
}

static void expect_none(world *w) {
  for (int i = 0; i < VARIABLES; ++i) {
    ls_array *array = NULL;
    expect_status(ls_variable_value(w->variables[i], &array),
                  LS_FAILED_PRECONDITION, "has no value here");
  }
}

// With checkpoints of steps 1 and 2 of the values 10 and 20.
static void begin(world *w, const char *folder) {
  memset(w, 0, sizeof(*w));
  remove_folder(folder);
  w->system = *ls_file_system_system();
  w->system.open = open_watched;
  w->system.read_at = read_watched;
  w->system.close = close_watched;
  w->system.user = &w->disk;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.file_system = &w->system,
                                                    .threads = 2,
                                                    .log = keep_line,
                                                    .log_user = &w->disk},
                              &w->runtime));
  w->before = ls_runtime_make_current(w->runtime);
  static const char *const names[VARIABLES] = {"first", "second", "third"};
  for (int i = 0; i < VARIABLES; ++i) {
    LS_OWN(ls_array, array) = NULL;
    expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ELEMENTS), &array));
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = names[i], .initial_array = array},
        &w->variables[i]));
  }
  w->saver = (ls_saver){.variables = w->variables, .num_variables = VARIABLES};
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){
          .folder = folder, .values = &w->saver, .background = LS_FLAG_OFF},
      &w->checkpoints));
  for (int64_t step = 1; step <= 2; ++step) {
    set_all(w, (float)(10 * step));
    expect_ok(ls_checkpoints_save(w->checkpoints, step, NULL, 0));
  }
  set_all(w, 70);
}

static void end(world *w) {
  expect_ok(ls_checkpoints_close(w->checkpoints));
  for (int i = 0; i < VARIABLES; ++i)
    ls_variable_release(w->variables[i]);
  ls_runtime_make_current(w->before);
  expect_ok(ls_runtime_destroy(w->runtime));
}
LS_OWNED_STRUCT(world, end)

// How many pieces of a checkpoint are read, of which half to look at them.
static int count_pieces(world *w, int64_t step) {
  w->disk.step = step;
  w->disk.read = 0;
  w->disk.after = 1 << 20;
  expect_ok(ls_checkpoints_restore(
      w->checkpoints, &(ls_restore_options){.step = LS_SOME(step)}, NULL));
  return w->disk.read;
}

// ---- Tests -----------------------------------------------------------------
TEST(what_cannot_be_read_once_is_read_again) {
  LS_OWN_BEGUN(world, w, begin, "again");
  const int pieces = count_pieces(&w, 2);
  assert_true(pieces >= 6);
  for (int nth = 0; nth < pieces; ++nth) {
    set_all(&w, 70);
    w.disk.after = nth;
    w.disk.times = 1;
    ls_restore_report report;
    expect_ok(ls_checkpoints_restore(w.checkpoints, NULL, &report));
    assert_int_equal(report.step, 2);
    assert_int_equal(report.damaged, 0);
    expect_all(&w, 20);
  }
  assert_string_equal(w.disk.lines, "");
}

TEST(what_cannot_be_set_is_passed_over) {
  LS_OWN_BEGUN(world, w, begin, "passed");
  const int pieces = count_pieces(&w, 2);
  for (int nth = 0; nth < pieces; ++nth) {
    set_all(&w, 70);
    w.disk.lines[0] = '\0';
    w.disk.after = nth;
    w.disk.times = 1 << 20;
    ls_restore_report report;
    expect_ok(ls_checkpoints_restore(w.checkpoints, NULL, &report));
    assert_int_equal(report.step, 1);
    assert_int_equal(report.damaged, 1);
    assert_int_equal(report.variables, VARIABLES);
    expect_all(&w, 10);
    expect_contains(
        w.disk.lines,
        "'passed/model.ckpt-2' is skipped for 'passed/model.ckpt-1'");
    expect_contains(w.disk.lines, "the disk cannot be read");
  }
}

TEST(no_variable_has_a_part_of_two_values) {
  LS_OWN_BEGUN(world, w, begin, "parts");
  const int pieces = count_pieces(&w, 2);
  const ls_restore_options only = {.step = LS_SOME(2)};
  for (int nth = 0; nth < pieces; ++nth) {
    set_all(&w, 70);
    w.disk.after = nth;
    w.disk.times = 1 << 20;
    expect_status(ls_checkpoints_restore(w.checkpoints, &only, NULL),
                  LS_UNAVAILABLE, "the disk cannot be read");
    if (nth < pieces / 2)
      expect_all(&w, 70);
    else
      expect_none(&w);
    // Whoever reads it later has it.
    w.disk.times = 0;
    expect_ok(ls_checkpoints_restore(w.checkpoints, &only, NULL));
    expect_all(&w, 20);
  }
}

TEST(a_file_of_values_is_all_or_nothing_too) {
  LS_OWN_BEGUN(world, w, begin, "file");
  const char *path = "file/model.ckpt-2.safetensors";
  w.disk.step = 2;
  w.disk.read = 0;
  w.disk.after = 1 << 20;
  expect_ok(ls_saver_restore(&w.saver, path));
  const int pieces = w.disk.read;
  for (int nth = 0; nth < pieces; ++nth) {
    set_all(&w, 70);
    w.disk.after = nth;
    w.disk.times = 1 << 20;
    expect_status(ls_saver_restore(&w.saver, path), LS_UNAVAILABLE,
                  "the disk cannot be read");
    if (nth < pieces / 2)
      expect_all(&w, 70);
    else
      expect_none(&w);
  }
}
