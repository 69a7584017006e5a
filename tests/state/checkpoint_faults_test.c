// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints beside power cuts, full and broken disks, and files that somebody
// has damaged: the newest whole one is used, always, and nothing stays behind.
//
// A normal run tries a part of the damages; LS_TEST_DAMAGE=all: all of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/checkpoint.h"
#include "lockstep/eager.h"
#include "support/crash_files.h"
#include "support/expect.h"
#include "support/sanitizer.h"
#include "support/values.h"

enum { ELEMENTS = 700, SAVES = 6, KEEP = 2 };

// What is saved, one after another: a step twice, too.
static const int64_t step_of[SAVES] = {1, 2, 3, 3, 4, 4};

typedef struct world {
  crash_files files;
  ls_file_system system;
  ls_runtime *runtime, *before;
  ls_variable *variable;
  ls_saver saver;
  int64_t version;  // A state of our own.
  ls_saveable state;
  ls_checkpoints_options options;
  ls_checkpoints *checkpoints;
} world;

static ls_status save_version(void *self, ls_record *record) {
  return ls_record_set_i64(record, "version", *(int64_t *)self);
}

static ls_status restore_version(void *self, const ls_record *record) {
  return ls_record_get_i64(record, "version", self);
}

static void begin(world *w, bool background) {
  memset(w, 0, sizeof(*w));
  w->system = crash_files_system(&w->files);
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.file_system = &w->system, .threads = 1},
      &w->runtime));
  w->before = ls_runtime_make_current(w->runtime);
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ELEMENTS), &array));
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "weights", .initial_array = array},
      &w->variable));
  w->saver = (ls_saver){.variables = &w->variable, .num_variables = 1};
  w->state = (ls_saveable){.name = "own",
                           .self = &w->version,
                           .save = save_version,
                           .restore = restore_version};
  w->options = (ls_checkpoints_options){.folder = "run",
                                        .values = &w->saver,
                                        .states = &w->state,
                                        .num_states = 1,
                                        .keep = LS_SOME(KEEP),
                                        .background = background ? LS_FLAG_ON
                                                                 : LS_FLAG_OFF};
}

static void end(world *w) {
  ls_variable_release(w->variable);
  ls_runtime_make_current(w->before);
  expect_ok(ls_runtime_destroy(w->runtime));
  crash_files_clear(&w->files);
}
LS_OWNED_STRUCT(world, end)

static void set_version(world *w, int64_t version) {
  LS_OWN(ls_array, array) = NULL;
  w->version = version;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ELEMENTS), &array));
  for (int64_t i = 0; i < ELEMENTS; ++i)
    ls_array_set_f64(array, i, (double)(version * 1000 + i));
  expect_ok(ls_variable_set_value(w->variable, array));
}

// All is of one version.
static void expect_version(world *w) {
  LS_OWN(ls_array, array) = variable_array(w->variable);
  for (int64_t i = 0; i < ELEMENTS; ++i)
    if (ls_array_f64(array, i) != (double)(w->version * 1000 + i))
      fail_msg("element %d is not of version %d", (int)i, (int)w->version);
}

static ls_status save(world *w, int64_t step, int64_t version) {
  set_version(w, version);
  ls_status status = ls_checkpoints_save(w->checkpoints, step, NULL, 0);
  set_version(w, -1);
  if (ls_status_is_ok(status)) status = ls_checkpoints_wait(w->checkpoints);
  return status;
}

static bool ends_with(const char *text, const char *end) {
  const size_t size = strlen(text), more = strlen(end);
  return size >= more && strcmp(text + size - more, end) == 0;
}

// Pairs, the list, and the lock of the open folder.
static void expect_nothing_else(world *w, const char *what, int nth) {
  for (size_t i = 0; i < crash_files_count(&w->files); ++i) {
    const char *path = crash_files_path(&w->files, i);
    char other[140];
    snprintf(other, sizeof(other), "%s", path);
    char *dot = strrchr(other, '.');
    bool good = strcmp(path, "run/checkpoint") == 0 ||
                strcmp(path, "run/checkpoint.lock") == 0;
    if (ends_with(path, ".json")) {
      strcpy(dot, ".safetensors");
      good = crash_files_find(&w->files, other) != NULL;
    } else if (ends_with(path, ".safetensors")) {
      strcpy(dot, ".json");
      good = crash_files_find(&w->files, other) != NULL;
    }
    if (!good) fail_msg("%s at %d: '%s' is left", what, nth, path);
  }
}

// Versions are numbers of saves, from 0 on; that of `sure` is on the disk (-1:
// none), perhaps the one behind it, too.
static void expect_newest(world *w, int sure, const char *what, int nth) {
  ls_restore_report report = {0};
  ls_status status = ls_checkpoints_restore(w->checkpoints, NULL, &report);
  if (ls_status_code(status) == LS_UNAVAILABLE) {
    // The disk has failed only now, and only once.
    expect_status(status, LS_UNAVAILABLE, "Input/output error");
    status = ls_checkpoints_restore(w->checkpoints, NULL, &report);
  }
  if (ls_status_code(status) == LS_NOT_FOUND && sure < 0) {
    ls_status_free(status);
    return;
  }
  if (!ls_status_is_ok(status))
    fail_msg("%s at %d: %s", what, nth, ls_status_message(status));
  if (report.damaged != 0) fail_msg("%s at %d: one is damaged", what, nth);
  if (w->version != sure && w->version != sure + 1)
    fail_msg("%s at %d: version %d instead of %d", what, nth, (int)w->version,
             sure);
  if (w->version < SAVES) assert_int_equal(report.step, step_of[w->version]);
  expect_version(w);
}

static void go_on(world *w) {
  expect_ok(save(w, 100, 1000));
  ls_restore_report report = {0};
  expect_ok(ls_checkpoints_restore(w->checkpoints, NULL, &report));
  assert_int_equal(report.step, 100);
  assert_int_equal(w->version, 1000);
  expect_version(w);
}

// A life until something goes wrong; the number of the last save that went
// well, or -1.
static int live(world *w) {
  int sure = -1;
  ls_status status = ls_checkpoints_open(&w->options, &w->checkpoints);
  for (int i = 0; i < SAVES && ls_status_is_ok(status); ++i) {
    status = save(w, step_of[i], i);
    if (ls_status_is_ok(status)) sure = i;
  }
  ls_status_free(status);
  ls_status_free(ls_checkpoints_close(w->checkpoints));
  w->checkpoints = NULL;
  return sure;
}

static int count_steps(void) {
  LS_OWN_BEGUN(world, w, begin, false);
  assert_int_equal(live(&w), SAVES - 1);
  return w.files.steps;
}

TEST(the_newest_survives_a_power_cut_after_any_step) {
  static const char *const names[] = {"cut, nothing", "cut, all", "cut, some"};
  const int steps = count_steps();
  assert_true(steps > 60);
  for (int cut = 1; cut <= steps; ++cut) {
    for (int way = 0; way < (LS_SANITIZED ? 4 : 12); ++way) {
      LS_OWN_BEGUN(world, w, begin, way % 2 == 1);
      w.files.cut_at = cut;
      const int sure = live(&w);
      const ls_disk_kept kept = way < 2 ? (ls_disk_kept)way : LS_DISK_SOME;
      crash_files_restart(&w.files, kept, (uint64_t)(cut * 100 + way));
      set_version(&w, -1);
      expect_ok(ls_checkpoints_open(&w.options, &w.checkpoints));
      expect_nothing_else(&w, names[kept], cut);
      expect_newest(&w, sure, names[kept], cut);
      go_on(&w);
      expect_ok(ls_checkpoints_close(w.checkpoints));
    }
  }
}

// `full`: nothing can be written any more, until a save has failed; else one
// call fails.
static void try_fault(int nth, bool full, bool background) {
  const char *what = full ? "full" : "broken";
  LS_OWN_BEGUN(world, w, begin, background);
  *(full ? &w.files.full_at : &w.files.fail_at) = nth;
  int sure = -1;
  ls_status status = ls_checkpoints_open(&w.options, &w.checkpoints);
  if (!ls_status_is_ok(status)) {
    expect_status(status, LS_UNAVAILABLE, "");
    w.files.full_at = 0;
    expect_ok(ls_checkpoints_open(&w.options, &w.checkpoints));
  }
  for (int i = 0; i < SAVES; ++i) {
    status = save(&w, step_of[i], i);
    if (!ls_status_is_ok(status)) {
      expect_status(status, LS_UNAVAILABLE,
                    full ? "No space left" : "Input/output error");
      const int full_at = w.files.full_at;
      w.files.full_at = 0;
      expect_newest(&w, sure, what, nth);
      w.files.full_at = full_at;
      if (full) break;
      // Once more, as only one call failed.
      expect_ok(save(&w, step_of[i], i));
    }
    sure = i;
    expect_newest(&w, sure, what, nth);
  }
  ls_status_free(ls_checkpoints_close(w.checkpoints));
  w.files.full_at = 0;
  set_version(&w, -1);
  expect_ok(ls_checkpoints_open(&w.options, &w.checkpoints));
  expect_nothing_else(&w, what, nth);
  expect_newest(&w, sure, what, nth);
  go_on(&w);
  expect_ok(ls_checkpoints_close(w.checkpoints));
}

TEST(the_newest_survives_a_disk_that_is_full_or_fails) {
  const int steps = count_steps();
  for (int nth = 1; nth <= steps; ++nth)
    for (int way = 0; way < 4; ++way)
      try_fault(nth, way % 2 == 1, way / 2 == 1);
}

static size_t count_texts(const char *text, const char *part) {
  size_t count = 0;
  for (; (text = strstr(text, part)) != NULL; ++text)
    ++count;
  return count;
}

// Replacing one step fails again and again, at one call and then the next.
TEST(an_unfinished_replacement_keeps_one_older_root) {
  LS_OWN_BEGUN(world, w, begin, false);
  const int steps = count_steps();
  size_t unfinished = 0;
  int64_t sure = 0;
  expect_ok(ls_checkpoints_open(&w.options, &w.checkpoints));
  expect_ok(save(&w, 100, sure));
  for (int version = 1; version <= steps; ++version) {
    w.files.fail_at = w.files.steps + version / 2 % 12 + 1;
    const ls_status status = save(&w, 100, version);
    w.files.fail_at = 0;
    if (ls_status_is_ok(status)) sure = version;
    ls_status_free(status);
    const ls_text *notes =
        crash_files_find(&w.files, "run/model.ckpt-100.json");
    const size_t older = count_texts(ls_text_data(notes), "\"before\"");
    unfinished += older;
    assert_true(older < 2);
    ls_restore_report report = {0};
    set_version(&w, -1);
    expect_ok(ls_checkpoints_restore(w.checkpoints, NULL, &report));
    assert_true(w.version == sure || w.version == version);
    sure = w.version;
    expect_version(&w);
  }
  assert_true(unfinished > 10);
  ls_status_free(ls_checkpoints_close(w.checkpoints));
}

// ---- Damages ---------------------------------------------------------------
enum { CHECKPOINTS = 3, FILES = 2 * CHECKPOINTS + 1 };

// Three checkpoints, of steps 1 to 3 and versions as these.
typedef struct folder {
  world w;
  struct {
    char path[120];
    char *data;
    size_t size;
  } files[FILES];
} folder;

static void begin_folder(folder *f) {
  begin(&f->w, false);
  f->w.options.keep = LS_SOME(CHECKPOINTS);
  expect_ok(ls_checkpoints_open(&f->w.options, &f->w.checkpoints));
  for (int i = 1; i <= CHECKPOINTS; ++i)
    expect_ok(save(&f->w, i, i));
  expect_ok(ls_checkpoints_close(f->w.checkpoints));
  assert_int_equal(crash_files_count(&f->w.files), FILES);
  for (size_t i = 0; i < FILES; ++i) {
    const char *path = crash_files_path(&f->w.files, i);
    const ls_text *has = crash_files_find(&f->w.files, path);
    snprintf(f->files[i].path, sizeof(f->files[i].path), "%s", path);
    f->files[i].size = has->size;
    f->files[i].data = malloc(has->size + 1);
    assert_non_null(f->files[i].data);
    memcpy(f->files[i].data, has->data, has->size + 1);
  }
}

static void end_folder(folder *f) {
  for (size_t i = 0; i < FILES; ++i)
    free(f->files[i].data);
  end(&f->w);
}
LS_OWNED_STRUCT(folder, end_folder)

// All files as they were.
static void repair(folder *f) {
  crash_files_clear(&f->w.files);
  for (size_t i = 0; i < FILES; ++i)
    crash_files_put(&f->w.files, f->files[i].path, f->files[i].data,
                    f->files[i].size);
}

// The newest counts, unless file `i`, which is damaged, is one of its.
static void expect_the_newest_but(folder *f, size_t i, const char *what,
                                  size_t at) {
  const bool hit = strstr(f->files[i].path, "ckpt-3.") != NULL;
  world *w = &f->w;
  ls_restore_report report = {0};
  set_version(w, -1);
  expect_ok(ls_checkpoints_open(&w->options, &w->checkpoints));
  const ls_status status =
      ls_checkpoints_restore(w->checkpoints, NULL, &report);
  if (!ls_status_is_ok(status) || report.step != (hit ? 2 : 3) ||
      report.damaged != (hit ? 1u : 0u) || w->version != report.step)
    fail_msg("%s, '%s' at %zu: step %d, version %d, %zu damaged, %s", what,
             f->files[i].path, at, (int)report.step, (int)w->version,
             report.damaged, ls_status_message(status));
  expect_version(w);
  expect_ok(ls_checkpoints_close(w->checkpoints));
}

// One file, damaged: of another size, with another tail or with other bits.
static void damage(folder *f, size_t i, const char *what, size_t at,
                   const char *data, size_t size) {
  repair(f);
  crash_files_put(&f->w.files, f->files[i].path, data, size);
  expect_the_newest_but(f, i, what, at);
}

static size_t tries(size_t all) {
  const char *wanted = getenv("LS_TEST_DAMAGE");
  if (wanted != NULL && strcmp(wanted, "all") == 0) return all;
  return LS_SANITIZED ? all / 50 : all / 10;
}

static uint64_t draw(uint64_t *seed, size_t below) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (*seed >> 33) % below;
}

TEST(no_flipped_bit_is_taken_for_a_value) {
  uint64_t seed = 7;
  size_t sum = 0;
  LS_OWN_BEGUN(folder, f, begin_folder);
  for (size_t i = 0; i < FILES; ++i)
    sum += f.files[i].size;
  for (size_t n = 0; n < tries(2000); ++n) {
    // Any bit of all files.
    size_t bit = draw(&seed, sum * 8), i = 0;
    for (; bit >= f.files[i].size * 8; ++i)
      bit -= f.files[i].size * 8;
    char *byte = &f.files[i].data[bit / 8];
    *byte = (char)(*byte ^ (1 << bit % 8));
    repair(&f);
    *byte = (char)(*byte ^ (1 << bit % 8));
    expect_the_newest_but(&f, i, "a bit", bit);
  }
}

TEST(no_part_of_a_file_is_taken_for_the_whole) {
  uint64_t seed = 11;
  LS_OWN_BEGUN(folder, f, begin_folder);
  for (size_t i = 0; i < FILES; ++i) {
    const size_t size = f.files[i].size;
    HEAP(char, zeroed) = malloc(size + 1);
    assert_non_null(zeroed);
    damage(&f, i, "emptied", 0, "", 0);
    for (size_t n = 0; n < tries(200); ++n) {
      const size_t at = draw(&seed, size);
      damage(&f, i, "cut off", at, f.files[i].data, at);
      memcpy(zeroed, f.files[i].data, size);
      memset(zeroed + at, 0, size - at);
      if (memcmp(zeroed, f.files[i].data, size) != 0)
        damage(&f, i, "a zeroed tail", at, zeroed, size);
    }
    memset(zeroed, 0, size);
    damage(&f, i, "zeros", 0, zeroed, size);
    memcpy(zeroed, f.files[i].data, size);
    zeroed[size] = ' ';
    damage(&f, i, "more behind", size, zeroed, size + 1);
  }
}

TEST(files_of_others_beside_change_nothing) {
  static const struct {
    const char *path;
    bool stays;
  } rows[] = {{"run/model.ckpt-9.safetensors", false},
              {"run/model.ckpt-9.safetensors.tmp", false},
              {"run/model.ckpt-3.json.tmp", false},
              {"run/checkpoint.tmp", false},
              {"run/model.ckpt-.json", true},
              {"run/model.ckpt-03.json", true},
              {"run/model.ckpt-99999999999999999999.json", true},
              {"run/model.ckpt-3.json.old", true},
              {"run/notes.txt", true}};
  uint64_t seed = 3;
  LS_OWN_BEGUN(folder, f, begin_folder);
  size_t list = 0;
  while (strcmp(f.files[list].path, "run/checkpoint") != 0)
    ++list;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    char garbage[333];
    for (size_t k = 0; k < sizeof(garbage); ++k)
      garbage[k] = (char)draw(&seed, 256);
    repair(&f);
    crash_files_put(&f.w.files, rows[i].path, garbage, sizeof(garbage));
    expect_the_newest_but(&f, list, rows[i].path, 0);
    const bool is_there = crash_files_find(&f.w.files, rows[i].path) != NULL;
    if (is_there != rows[i].stays) fail_msg("'%s'", rows[i].path);
  }
}

// Neither what is damaged, nor garbage by a later name, keeps a save from
// staying.
TEST(what_is_damaged_pushes_nothing_out) {
  LS_OWN_BEGUN(folder, f, begin_folder);
  f.w.options.keep = LS_SOME(1);
  repair(&f);
  crash_files_put(&f.w.files, "run/model.ckpt-3.safetensors", "cut", 3);
  crash_files_put(&f.w.files, "run/model.ckpt-50.json", "{}", 2);
  expect_ok(ls_checkpoints_open(&f.w.options, &f.w.checkpoints));
  ls_restore_report report = {0};
  expect_ok(ls_checkpoints_restore(f.w.checkpoints, NULL, &report));
  assert_int_equal(report.step, 2);
  assert_int_equal(report.damaged, 2);
  for (int64_t step = 3; step < 6; ++step) {
    expect_ok(save(&f.w, step, step));
    expect_ok(ls_checkpoints_restore(f.w.checkpoints, NULL, &report));
    assert_int_equal(report.step, step);
    expect_version(&f.w);
  }
  expect_ok(ls_checkpoints_close(f.w.checkpoints));
}
