// SPDX-License-Identifier: Apache-2.0
//
// Folders of checkpoints: what is written is found again, whole or not at all,
// and the newest that is whole counts.
#include "lockstep/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/eager.h"
#include "lockstep/variable.h"
#include "support/fault.h"
#include "support/place.h"
#include "support/placed.h"
#include "support/sanitizer.h"
#include "support/saving.h"
#include "support/scratch.h"

// ---- A folder --------------------------------------------------------------
enum { VARIABLES = 2 };

typedef struct world {
  ls_variable *variables[VARIABLES];
  ls_saver saver;
  ls_record *identity;
  int64_t counter;  // A state of our own.
  ls_saveable state;
  ls_checkpoints_options options;
  ls_checkpoints *checkpoints;
} world;

static ls_status save_counter(void *self, ls_record *record) {
  return ls_record_set_i64(record, "counter", *(int64_t *)self);
}

static ls_status restore_counter(void *self, const ls_record *record) {
  return ls_record_get_i64(record, "counter", self);
}

static void begin(world *w, const char *folder) {
  memset(w, 0, sizeof(*w));
  remove_tree(folder);
  w->variables[0] = plain("weights", 1);
  w->variables[1] = plain("bias", 2);
  w->saver = (ls_saver){.variables = w->variables, .num_variables = VARIABLES};
  w->state = (ls_saveable){.name = "counters/own",
                           .self = &w->counter,
                           .save = save_counter,
                           .restore = restore_counter};
  expect_ok(ls_record_create(&w->identity));
  expect_ok(ls_record_set_text(w->identity, "model", "mlp"));
  expect_ok(ls_record_set_i64(w->identity, "replicas", 8));
  w->options = (ls_checkpoints_options){.folder = folder,
                                        .values = &w->saver,
                                        .states = &w->state,
                                        .num_states = 1,
                                        .identity = w->identity};
}

static void open_it(world *w) {
  expect_ok(ls_checkpoints_open(&w->options, &w->checkpoints));
}

static void close_it(world *w) {
  expect_ok(ls_checkpoints_close(w->checkpoints));
  w->checkpoints = NULL;
}

static void end(world *w) {
  if (w->checkpoints != NULL) close_it(w);
  ls_record_destroy(w->identity);
  for (int i = 0; i < VARIABLES; ++i)
    ls_variable_release(w->variables[i]);
}
LS_OWNED_STRUCT(world, end)

static void set_value(ls_variable *variable, double value) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, value);
  expect_ok(ls_variable_set_value(variable, array));
}

// What a run is at a step.
static void go_to(world *w, int64_t step) {
  set_value(w->variables[0], (double)step + 0.25);
  set_value(w->variables[1], (double)-step);
  w->counter = 1000 + step;
}

static void expect_at(world *w, int64_t step) {
  assert_true(value_of(w->variables[0]) == (double)step + 0.25);
  assert_true(value_of(w->variables[1]) == (double)-step);
  assert_int_equal(w->counter, 1000 + step);
}

static void save_at(world *w, int64_t step, double metric) {
  go_to(w, step);
  expect_ok(ls_checkpoints_save(
      w->checkpoints, step,
      &(ls_checkpoint_metric){.name = "loss", .value = metric}, 1));
  go_to(w, -7);  // The save has its own copies.
}

static void expect_steps(world *w, const int64_t *wanted, size_t count) {
  int64_t steps[16];
  size_t has = 0;
  expect_ok(ls_checkpoints_wait(w->checkpoints));
  expect_ok(ls_checkpoints_list(w->checkpoints, steps, 16, &has));
  assert_int_equal(has, count);
  for (size_t i = 0; i < count; ++i)
    assert_int_equal(steps[i], wanted[i]);
}
#define STEPS(...)                                                             \
  (const int64_t[]){__VA_ARGS__},                                              \
      sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

// ---- Whole ones ------------------------------------------------------------
TEST(what_was_saved_is_restored) {
  LS_OWN_BEGUN(world, w, begin, "folder");
  open_it(&w);
  expect_status(ls_checkpoints_restore(w.checkpoints, NULL, NULL), LS_NOT_FOUND,
                "'folder' has no checkpoint");
  for (int64_t step = 10; step <= 30; step += 10)
    save_at(&w, step, 1);
  for (int again = 0; again < 2; ++again) {
    ls_restore_report report;
    expect_ok(ls_checkpoints_restore(w.checkpoints, NULL, &report));
    assert_int_equal(report.step, 30);
    assert_int_equal(report.variables, VARIABLES);
    assert_int_equal(report.states, 1);
    assert_int_equal(report.damaged, 0);
    expect_at(&w, 30);
    expect_ok(ls_checkpoints_restore(
        w.checkpoints, &(ls_restore_options){.step = LS_SOME(10)}, &report));
    assert_int_equal(report.step, 10);
    expect_at(&w, 10);
    expect_status(
        ls_checkpoints_restore(
            w.checkpoints, &(ls_restore_options){.step = LS_SOME(11)}, NULL),
        LS_NOT_FOUND, "no checkpoint of step 11");
    close_it(&w);
    open_it(&w);
  }
  expect_steps(&w, STEPS(10, 20, 30));
}

static char *read_all(const char *file, size_t *size) {
  const ls_file_system *files = ls_file_system_system();
  char *data = NULL;
  expect_ok(
      files->read(NULL, file, SIZE_MAX, ls_allocator_system(), &data, size));
  return data;
}

// Not synced: some thousands are written.
static void write_all(const char *file, const char *data, size_t size) {
  FILE *out = fopen(file, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(data, 1, size, out), size);
  assert_int_equal(fclose(out), 0);
}

TEST(variables_of_one_name_are_told_apart_by_names_of_the_saver) {
  LS_OWN_BEGUN(world, w, begin, "names");
  ls_variable_release(w.variables[1]);
  w.variables[1] = plain("weights", 2);
  open_it(&w);
  expect_status(ls_checkpoints_save(w.checkpoints, 1, NULL, 0),
                LS_INVALID_ARGUMENT,
                "give one of their layers or optimizers another .name");
  close_it(&w);
  static const char *const names[] = {"x", "y"};
  w.saver.names = names;
  open_it(&w);
  save_at(&w, 1, 1);
  expect_steps(&w, (int64_t[]){1}, 1);
}

TEST(the_list_names_them_the_newest_last) {
  LS_OWN_BEGUN(world, w, begin, "listed");
  open_it(&w);
  save_at(&w, 1, 1);
  save_at(&w, 20, 1);
  close_it(&w);
  size_t size = 0;
  char *text = read_all("listed/checkpoint", &size);
  assert_string_equal(text, "model_checkpoint_path: \"model.ckpt-20\"\n"
                            "all_model_checkpoint_paths: \"model.ckpt-1\"\n"
                            "all_model_checkpoint_paths: \"model.ckpt-20\"\n");
  ls_release(ls_allocator_system(), text);
}

// ---- Damaged ones ----------------------------------------------------------
static void expect_previous(world *w, const char *what, size_t at) {
  ls_restore_report report;
  open_it(w);
  go_to(w, -7);
  const ls_status status =
      ls_checkpoints_restore(w->checkpoints, NULL, &report);
  if (!ls_status_is_ok(status) || report.step != 1 || report.damaged != 1)
    fail_msg("%s at %zu: step %lld, %s", what, at, (long long)report.step,
             ls_status_message(status));
  expect_at(w, 1);
  close_it(w);
}

static const char *const files_of_2[] = {"damaged/model.ckpt-2.safetensors",
                                         "damaged/model.ckpt-2.json"};

static void begin_damaged(world *w) {
  begin(w, "damaged");
  w->options.background = LS_FLAG_OFF;
  open_it(w);
  save_at(w, 1, 1);
  save_at(w, 2, 1);
  close_it(w);
}

TEST(no_flipped_bit_is_accepted) {
  LS_OWN_BEGUN(world, w, begin_damaged);
  for (size_t f = 0; f < 2; ++f) {
    size_t size = 0;
    char *data = read_all(files_of_2[f], &size);
    for (size_t i = 0; i < size; i += LS_SANITIZED ? 7 : 1) {
      data[i] = (char)(data[i] ^ (1 << (i % 8)));
      write_all(files_of_2[f], data, size);
      expect_previous(&w, files_of_2[f], i);
      data[i] = (char)(data[i] ^ (1 << (i % 8)));
    }
    write_all(files_of_2[f], data, size);
    ls_release(ls_allocator_system(), data);
  }
}

TEST(none_that_was_cut_off_is_accepted) {
  LS_OWN_BEGUN(world, w, begin_damaged);
  for (size_t f = 0; f < 2; ++f) {
    size_t size = 0;
    char *data = read_all(files_of_2[f], &size);
    HEAP(char, zeroed) = calloc(1, size + 1);
    for (size_t i = 0; i < size; i += LS_SANITIZED ? 13 : 1) {
      write_all(files_of_2[f], data, i);
      expect_previous(&w, "cut off", i);
      memcpy(zeroed, data, size);
      if (data[i] == 0) continue;
      memset(zeroed + i, 0, size - i);
      write_all(files_of_2[f], zeroed, size);
      expect_previous(&w, "zeroed tail", i);
    }
    memcpy(zeroed, data, size);
    zeroed[size] = ' ';
    write_all(files_of_2[f], zeroed, size + 1);
    expect_previous(&w, "garbage behind", size);
    write_all(files_of_2[f], data, size);
    ls_release(ls_allocator_system(), data);
  }
}

TEST(without_a_whole_one_the_file_and_the_entry_are_named) {
  LS_OWN_BEGUN(world, w, begin_damaged);
  expect_ok(ls_file_system_system()->remove(NULL, "damaged/model.ckpt-1.json"));
  size_t size = 0;
  char *data = read_all(files_of_2[0], &size);
  data[size - 1] ^= 1;
  write_all(files_of_2[0], data, size);
  ls_release(ls_allocator_system(), data);
  open_it(&w);
  go_to(&w, -7);
  expect_status(ls_checkpoints_restore(w.checkpoints, NULL, NULL), LS_DATA_LOSS,
                "'damaged/model.ckpt-2.safetensors' is damaged: the checksum "
                "of array 'bias' does");
  expect_at(&w, -7);
}

static bool is_there(const char *file) {
  bool exists = false;
  expect_ok(ls_file_system_system()->exists(NULL, file, &exists));
  return exists;
}

TEST(what_a_killed_writer_has_left_goes) {
  static const char *const left[] = {
      "damaged/model.ckpt-1.safetensors",  // Without its .json.
      "damaged/model.ckpt-3.safetensors.tmp",
      "damaged/model.ckpt-3.json.tmp",
      "damaged/checkpoint.tmp",
      "damaged/checkpoint.ranks",
      "damaged/checkpoint.ranks.tmp"};
  LS_OWN_BEGUN(world, w, begin_damaged);
  expect_ok(ls_file_system_system()->remove(NULL, "damaged/model.ckpt-1.json"));
  for (size_t i = 1; i < LS_COUNT_OF(left); ++i)
    write_all(left[i], "left", 4);
  open_it(&w);
  for (size_t i = 0; i < LS_COUNT_OF(left); ++i)
    if (is_there(left[i])) fail_msg("'%s' is there", left[i]);
  expect_steps(&w, STEPS(2));
}

TEST(what_a_writer_at_work_has_begun_stays) {
  static const char *const begun[] = {"damaged/model.ckpt-3.safetensors",
                                      "damaged/model.ckpt-4.safetensors.tmp"};
  LS_OWN_BEGUN(logged_runtime, logged, logged_runtime_begin);
  LS_OWN_BEGUN(world, w, begin_damaged);
  world second = w, third = w;
  open_it(&w);
  for (size_t i = 0; i < LS_COUNT_OF(begun); ++i)
    write_all(begun[i], "begun", 5);
  open_it(&second);
  assert_int_equal(count_logged(&logged, "are not removed"), 1);
  expect_steps(&second, STEPS(1, 2));
  close_it(&w);
  // Protects its files in place of the first writer.
  save_at(&second, 5, 0);
  open_it(&third);
  assert_int_equal(count_logged(&logged, "are not removed"), 2);
  close_it(&third);
  for (size_t i = 0; i < LS_COUNT_OF(begun); ++i)
    assert_true(is_there(begun[i]));
  close_it(&second);
  open_it(&third);
  for (size_t i = 0; i < LS_COUNT_OF(begun); ++i)
    assert_false(is_there(begun[i]));
  close_it(&third);
  assert_false(is_there("damaged/checkpoint.lock"));
}

static int64_t ticks, asked;
static bool is_refused;

static int64_t read_ticks(void *user) {
  (void)user;
  return ticks;
}

static void sleep_ticks(void *user, int64_t nanos) {
  (void)user;
  ticks += nanos;
}

static ls_status count_locks(void *user, const char *file, void **out_lock) {
  ++asked;
  if (is_refused)
    return LS_STATUS(LS_UNAVAILABLE, "cannot lock '%s': No space left", file);
  return ls_file_system_system()->lock(user, file, out_lock);
}

// To ask for a lock that others hold takes a while.
TEST(a_lock_that_others_hold_is_asked_for_at_times) {
  ls_file_system files = *ls_file_system_system();
  files.lock = count_locks;
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .file_system = &files,
      .clock = &(ls_clock){
          .now = read_ticks, .wall = read_ticks, .sleep = sleep_ticks}});
  LS_OWN_BEGUN(world, w, begin, "beside");
  world second = w;
  asked = 0;
  open_it(&w);
  open_it(&second);
  assert_int_equal(asked, 2);
  for (int64_t step = 1; step < 5; ++step)
    save_at(&second, step, 1);
  expect_ok(ls_checkpoints_wait(second.checkpoints));
  assert_int_equal(asked, 2);
  ticks += 11000000000;  // A killed holder would have left the file.
  for (int64_t step = 5; step < 8; ++step)
    save_at(&second, step, 1);
  expect_ok(ls_checkpoints_wait(second.checkpoints));
  assert_int_equal(asked, 3);
  close_it(&w);
  // What is written is saved, whatever the lock says.
  is_refused = true;
  save_at(&second, 8, 1);
  expect_ok(ls_checkpoints_wait(second.checkpoints));
  assert_int_equal(asked, 4);
  is_refused = false;
  save_at(&second, 9, 1);
  expect_ok(ls_checkpoints_wait(second.checkpoints));
  assert_true(is_there("beside/checkpoint.lock"));
  close_it(&second);
  assert_int_equal(asked, 5);
}

// ---- What is kept ----------------------------------------------------------
TEST(the_newest_and_the_best_are_kept) {
  LS_OWN_BEGUN(world, w, begin, "kept");
  w.options.keep = LS_SOME(2);
  w.options.best_metric = "loss";
  open_it(&w);
  const double losses[] = {5, 1, 4, 0.5, 3, 2};
  for (int64_t i = 0; i < 6; ++i)
    save_at(&w, i, losses[i]);
  expect_steps(&w, STEPS(3, 4, 5));
  close_it(&w);
  open_it(&w);  // The metrics of old ones are read again.
  save_at(&w, 6, 9);
  expect_steps(&w, STEPS(3, 5, 6));
  save_at(&w, 7, 0.25);
  expect_steps(&w, STEPS(6, 7));
}

static int64_t wall;

static int64_t read_wall(void *user) {
  (void)user;
  return wall;
}

static void sleep_not(void *user, int64_t nanos) { (void)user, (void)nanos; }

TEST(one_of_some_hours_is_kept) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .clock = &(ls_clock){
          .now = read_wall, .wall = read_wall, .sleep = sleep_not}});
  wall = 0;
  LS_OWN_BEGUN(world, w, begin, "hours");
  w.options.keep = LS_SOME(1);
  w.options.keep_every_hours = 2;
  w.options.every_seconds = LS_SOME(3600);
  open_it(&w);
  for (int64_t hour = 0; hour < 7; ++hour) {
    assert_false(ls_checkpoints_due(w.checkpoints, hour));
    wall = hour * 3600000000000 + 1;
    assert_int_equal(ls_checkpoints_due(w.checkpoints, hour), hour > 0);
    if (hour == 0) continue;
    save_at(&w, hour, 1);
  }
  // Hours 0 and 1 have the first of theirs in 1, hours 2 and 3 in 2, ...
  expect_steps(&w, STEPS(1, 2, 4, 6));
}

// ---- Failures --------------------------------------------------------------
static bool is_full;

static ls_status create_or_refuse(void *user, const char *file, bool join,
                                  void **out_file) {
  if (is_full)
    return LS_STATUS(LS_UNAVAILABLE, "cannot create '%s': No space left", file);
  return ls_file_system_system()->create(user, file, join, out_file);
}

TEST(a_save_that_fails_in_the_background_is_told_at_the_next) {
  for (int goes_on = 0; goes_on < 2; ++goes_on) {
    ls_file_system files = *ls_file_system_system();
    files.create = create_or_refuse;
    LS_OWN(open_place, home) =
        runtime_begin((ls_runtime_options){.file_system = &files});
    LS_OWN_BEGUN(world, w, begin, "full");
    w.options.goes_on = goes_on ? LS_FLAG_ON : LS_FLAG_OFF;
    open_it(&w);
    save_at(&w, 1, 1);
    expect_ok(ls_checkpoints_wait(w.checkpoints));
    is_full = true;
    save_at(&w, 2, 1);
    if (goes_on)
      expect_ok(ls_checkpoints_wait(w.checkpoints));
    else
      expect_status(ls_checkpoints_save(w.checkpoints, 3, NULL, 0),
                    LS_UNAVAILABLE, "No space left");
    is_full = false;
    expect_steps(&w, STEPS(1));
    save_at(&w, 4, 1);
    expect_steps(&w, STEPS(1, 4));
  }
}

static ls_status write_or_refuse(void *user, const char *file, const void *data,
                                 size_t size) {
  if (is_full && strstr(file, ".json") != NULL)
    return LS_STATUS(LS_UNAVAILABLE, "cannot write '%s': No space left", file);
  return ls_file_system_system()->write(user, file, data, size);
}

TEST(a_save_that_fails_keeps_no_room) {
  ls_file_system files = *ls_file_system_system();
  files.write = write_or_refuse;
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.file_system = &files});
  LS_OWN_BEGUN(world, w, begin_damaged);
  open_it(&w);
  is_full = true;
  expect_status(ls_checkpoints_save(w.checkpoints, 3, NULL, 0), LS_UNAVAILABLE,
                "No space left");
  is_full = false;
  assert_false(is_there("damaged/model.ckpt-3.safetensors"));
  expect_steps(&w, STEPS(1, 2));
}

TEST(another_run_is_refused_by_name) {
  LS_OWN_BEGUN(world, w, begin, "other");
  open_it(&w);
  save_at(&w, 3, 1);
  expect_ok(ls_record_set_i64(w.identity, "replicas", 4));
  expect_status(ls_checkpoints_restore(w.checkpoints, NULL, NULL),
                LS_INVALID_ARGUMENT, "its replicas is 8, here it is 4");
  expect_at(&w, -7);
  ls_restore_report report;
  expect_ok(ls_checkpoints_restore(
      w.checkpoints, &(ls_restore_options){.inexact = LS_FLAG_ON}, &report));
  assert_true(report.inexact);
  expect_at(&w, 3);
  expect_ok(ls_record_set_i64(w.identity, "replicas", 8));
  expect_ok(ls_record_set_text(w.identity, "model", "cnn"));
  expect_status(ls_checkpoints_restore(w.checkpoints, NULL, NULL),
                LS_INVALID_ARGUMENT, "its model is 'mlp', here it is 'cnn'");
}

TEST(a_state_that_is_not_there_changes_nothing) {
  LS_OWN_BEGUN(world, w, begin, "states");
  open_it(&w);
  save_at(&w, 3, 1);
  close_it(&w);
  w.state.name = "counters/other";
  open_it(&w);
  expect_status(ls_checkpoints_restore(w.checkpoints, NULL, NULL), LS_NOT_FOUND,
                "does not have the state 'counters/other'");
  expect_at(&w, -7);
  const ls_saveable two[] = {w.state, w.state};
  ls_checkpoints_options options = w.options;
  ls_checkpoints *none = NULL;
  options.states = two;
  options.num_states = 2;
  expect_status(ls_checkpoints_open(&options, &none), LS_INVALID_ARGUMENT,
                "two states of checkpoints are called 'counters/other'");
  assert_null(none);
}

static ls_status live(void *user) {
  ls_checkpoints_options *options = user;
  ls_checkpoints *checkpoints = NULL;
  LS_RETURN_IF_ERROR(ls_checkpoints_open(options, &checkpoints));
  ls_status status = ls_checkpoints_save(checkpoints, 5, NULL, 0);
  if (ls_status_is_ok(status))
    status = ls_checkpoints_restore(checkpoints, NULL, NULL);
  return ls_status_join(status, ls_checkpoints_close(checkpoints));
}

// Without variables: these are another runtime's.
TEST(no_memory_is_a_status) {
  static const ls_saver none;
  int64_t counter = 3;
  const ls_saveable own = {.name = "own",
                           .self = &counter,
                           .save = save_counter,
                           .restore = restore_counter};
  ls_checkpoints_options options = {.folder = "memory",
                                    .values = &none,
                                    .states = &own,
                                    .num_states = 1,
                                    .background = LS_FLAG_OFF};
  remove_tree("memory");
  REFUSE_EACH(live, &options);
}

// ---- States that call back -------------------------------------------------
static ls_status save_again(void *self, ls_record *record) {
  world *w = self;
  (void)record;
  expect_status(ls_checkpoints_close(w->checkpoints), LS_FAILED_PRECONDITION,
                "ls_checkpoints_close is called by a state");
  expect_status(ls_checkpoints_restore(w->checkpoints, NULL, NULL),
                LS_FAILED_PRECONDITION, "ls_checkpoints_restore is called");
  return ls_checkpoints_save(w->checkpoints, 2, NULL, 0);
}

static ls_status restore_again(void *self, const ls_record *record) {
  (void)record;
  return ls_checkpoints_restore(((world *)self)->checkpoints, NULL, NULL);
}

// Some hundred thousand numbers in few bytes, more than a JSON text of others
// may have.
enum { PARTS = 2, NUMBERS = 60000 };
static ls_status save_many(void *self, ls_record *record) {
  (void)self;
  for (int part = 0; part < PARTS; ++part) {
    ls_record *inner = NULL;
    LS_RETURN_IF_ERROR(ls_record_add(record, part == 0 ? "a" : "b", &inner));
    for (int i = 0; i < NUMBERS; ++i) {
      const char name[] = {(char)('0' + i % 64), (char)('0' + i / 64 % 64),
                           (char)('0' + i / 4096), '\0'};
      if (strchr(name, '\\') == NULL)
        LS_RETURN_IF_ERROR(ls_record_set_i64(inner, name, i % 10));
    }
  }
  return ls_ok();
}

static ls_status restore_many(void *self, const ls_record *record) {
  const ls_record *inner = NULL;
  LS_RETURN_IF_ERROR(ls_record_find(record, "b", &inner));
  return ls_record_get_i64(inner, "700", self);
}

TEST(a_state_of_many_numbers_is_restored) {
  LS_OWN_BEGUN(world, w, begin, "checkpoints_test.tmp.many");
  w.state.save = save_many;
  w.state.restore = restore_many;
  open_it(&w);
  expect_ok(ls_checkpoints_save(w.checkpoints, 1, NULL, 0));
  expect_ok(ls_checkpoints_wait(w.checkpoints));
  expect_ok(ls_checkpoints_restore(w.checkpoints, NULL, NULL));
  assert_int_equal(w.counter, 7);
}

TEST(a_state_cannot_save_or_restore_its_own_checkpoints) {
  LS_OWN_BEGUN(world, w, begin, "checkpoints_test.tmp.again");
  w.state.self = &w;
  w.state.save = save_again;
  w.options.background = LS_FLAG_OFF;
  expect_ok(ls_checkpoints_open(&w.options, &w.checkpoints));
  expect_status(ls_checkpoints_save(w.checkpoints, 1, NULL, 0),
                LS_FAILED_PRECONDITION, "ls_checkpoints_save is called by");
  w.state.save = save_counter;
  w.state.self = &w.counter;
  expect_ok(ls_checkpoints_save(w.checkpoints, 1, NULL, 0));
  w.state.self = &w;
  w.state.restore = restore_again;
  expect_status(ls_checkpoints_restore(w.checkpoints, NULL, NULL),
                LS_FAILED_PRECONDITION, "ls_checkpoints_restore is called by");
  w.state.self = &w.counter;
  w.state.restore = restore_counter;
  expect_ok(ls_checkpoints_restore(w.checkpoints, NULL, NULL));
}
