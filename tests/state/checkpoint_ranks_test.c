// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of several ranks: the files of one, written by all; and what goes
// wrong on one rank goes wrong on all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "lockstep/checkpoint.h"
#include "lockstep/communicator.h"
#include "lockstep/eager.h"
#include "lockstep/variable_parts.h"
#include "support/crash_files.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/scratch.h"

// Of some 5 MiB, so that four ranks have a part each.
enum { REPLICAS = 4, MOST_RANKS = 4, ELEMENTS = (5 << 20) / 8 + 3 };

typedef struct job {
  const char *folder;
  const char *others;        // Folder of ranks other than 0; NULL: the same.
  bool background, differs;  // One rank has other variables.
  crash_files *files;  // Each rank has its own folder; NULL: the system's.
  int broken;          // This rank cannot write, once. -1: none.
  ls_file_system systems[MOST_RANKS];
  // What has been written on all ranks, in bytes.
  int64_t written[MOST_RANKS];
} job;

// ---- A rank ----------------------------------------------------------------
typedef struct rank {
  job *work;
  int index;
  ls_strategy *strategy;
  ls_variable *variables[3];
  int64_t counter;
  ls_saver saver;
  ls_saveable state;
  ls_checkpoints *checkpoints;
} rank;

static ls_status save_counter(void *self, ls_record *record) {
  return ls_record_set_i64(record, "counter", *(int64_t *)self);
}

static ls_status restore_counter(void *self, const ls_record *record) {
  return ls_record_get_i64(record, "counter", self);
}

static float element(int64_t i, int64_t version) {
  return (float)((i * 7919 + version * 31) % 65521);
}

static ls_status set_large(ls_variable *variable, int64_t version) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(ls_variable_dtype(variable),
                                     ls_variable_shape(variable), &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ((float *)ls_array_mutable_data(array))[i] = element(i, version);
  return ls_variable_set_value(variable, array);
}

static ls_status check_large(ls_variable *variable, int64_t version) {
  LS_OWN(ls_array, array) = NULL;
  ls_status status = ls_variable_value(variable, &array);
  for (int64_t i = 0;
       ls_status_is_ok(status) && i < ls_array_num_elements(array); ++i)
    if (((const float *)ls_array_data(array))[i] != element(i, version))
      status = ls_internal("element %lld is not of version %lld", (long long)i,
                           (long long)version);
  return status;
}

static ls_status set_part(ls_variable *variable, size_t r, double value) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, value);
  return ls_variable_set_value(ls_variable_component(variable, r), array);
}

static ls_status check_part(ls_variable *variable, size_t r, double value) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(
      ls_variable_value(ls_variable_component(variable, r), &array));
  const double has = ls_array_f64(array, 0);
  return has == value
             ? ls_ok()
             : ls_internal("component %zu is %g, not %g", r, has, value);
}

// Components of other ranks' replicas are nothing that this rank knows.
static ls_status set_version(rank *self, const ls_communicator *communicator,
                             int64_t version) {
  self->counter = version;
  LS_RETURN_IF_ERROR(set_large(self->variables[0], version));
  LS_RETURN_IF_ERROR(set_large(self->variables[1], version + 1));
  for (int r = 0; r < REPLICAS; ++r) {
    const bool own = r >= ls_communicator_first(communicator,
                                                communicator->rank, REPLICAS) &&
                     r < ls_communicator_first(
                             communicator, communicator->rank + 1, REPLICAS);
    LS_RETURN_IF_ERROR(set_part(self->variables[2], (size_t)r,
                                own ? (double)(100 * version + r) : -99));
  }
  return ls_ok();
}

static ls_status check_version(rank *self, int64_t version) {
  if (self->counter != version) return ls_internal("another counter");
  LS_RETURN_IF_ERROR(check_large(self->variables[0], version));
  LS_RETURN_IF_ERROR(check_large(self->variables[1], version + 1));
  for (int r = 0; r < REPLICAS; ++r)
    LS_RETURN_IF_ERROR(
        check_part(self->variables[2], (size_t)r, (double)(100 * version + r)));
  return ls_ok();
}

static ls_status make_large(const char *name, ls_variable **out) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ELEMENTS), &array));
  return ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = array}, out);
}

static ls_status make(rank *self) {
  const job *work = self->work;
  const bool other = work->differs && self->index == 1;
  self->strategy = mirrored_of(REPLICAS);
  LS_RETURN_IF_ERROR(make_large("first", &self->variables[0]));
  LS_RETURN_IF_ERROR(
      make_large(other ? "other" : "second", &self->variables[1]));
  self->variables[2] =
      variable_in(self->strategy,
                  (variable_kind){.synchronization = LS_SYNCHRONIZATION_ON_READ,
                                  .aggregation = LS_AGGREGATION_SUM});
  self->saver = (ls_saver){
      .variables = self->variables, .num_variables = 3, .exact = true};
  self->state = (ls_saveable){.name = "own",
                              .self = &self->counter,
                              .save = save_counter,
                              .restore = restore_counter};
  return ls_checkpoints_open(
      &(ls_checkpoints_options){
          .folder = work->others != NULL && self->index > 0 ? work->others
                                                            : work->folder,
          .values = &self->saver,
          .states = &self->state,
          .num_states = 1,
          .keep = LS_SOME(2),
          .every_steps = LS_SOME(0),
          .every_seconds = LS_SOME(self->index == 0 ? 0 : 1000000),
          .background = work->background ? LS_FLAG_ON : LS_FLAG_OFF,
          .ranks = LS_FLAG_ON},
      &self->checkpoints);
}

// Saves three versions, and goes on from the last one and from the one before.
static ls_status live(rank *self, const ls_communicator *communicator) {
  LS_RETURN_IF_ERROR(make(self));
  for (int64_t version = 1; version <= 3; ++version) {
    LS_RETURN_IF_ERROR(set_version(self, communicator, version));
    // By rank 0's clock.
    if (!ls_checkpoints_due(self->checkpoints, version))
      return ls_internal("none is due");
    LS_RETURN_IF_ERROR(
        ls_checkpoints_save(self->checkpoints, version, NULL, 0));
  }
  LS_RETURN_IF_ERROR(ls_checkpoints_wait(self->checkpoints));
  int64_t steps[4];
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_checkpoints_list(self->checkpoints, steps, 4, &count));
  if (count != 2 || steps[0] != 2 || steps[1] != 3)
    return ls_internal("the list is another");
  LS_RETURN_IF_ERROR(set_version(self, communicator, 77));
  LS_RETURN_IF_ERROR(ls_checkpoints_restore(self->checkpoints, NULL, NULL));
  LS_RETURN_IF_ERROR(check_version(self, 3));
  LS_RETURN_IF_ERROR(ls_checkpoints_restore(
      self->checkpoints, &(ls_restore_options){.step = LS_SOME(2)}, NULL));
  return check_version(self, 2);
}

static ls_status drop(rank *self, ls_status status) {
  status = ls_status_join(status, ls_checkpoints_close(self->checkpoints));
  for (int i = 0; i < 3; ++i)
    if (self->variables[i] != NULL) ls_variable_release(self->variables[i]);
  if (self->strategy != NULL) ls_strategy_release(self->strategy);
  return status;
}

// ---- Its runtime -----------------------------------------------------------
static int64_t no_time(void *user) {
  (void)user;
  return 5;
}
static void no_sleep(void *user, int64_t nanos) { (void)user, (void)nanos; }

static job *counted;

// Writing counts, and fails once where it should.
static ls_status write_at(void *user, void *file, int64_t offset,
                          const void *data, size_t size) {
  const int index = *(const int *)user;
  __atomic_fetch_add(&counted->written[index], (int64_t)size, __ATOMIC_RELAXED);
  if (__atomic_load_n(&counted->broken, __ATOMIC_RELAXED) == index) {
    __atomic_store_n(&counted->broken, -1, __ATOMIC_RELAXED);
    return LS_STATUS(LS_UNAVAILABLE, "the disk of %d is full", index);
  }
  return ls_file_system_system()->write_at(NULL, file, offset, data, size);
}

static ls_status on_runtime(ls_communicator *communicator, job *work,
                            ls_status (*act)(rank *, const ls_communicator *)) {
  static const int indices[MOST_RANKS] = {0, 1, 2, 3};
  const ls_clock clock = {.now = no_time, .wall = no_time, .sleep = no_sleep};
  rank self = {.work = work, .index = communicator->rank};
  ls_file_system *system = &work->systems[self.index];
  *system = work->files != NULL ? crash_files_system(&work->files[self.index])
                                : *ls_file_system_system();
  if (work->files == NULL) {
    system->write_at = write_at;
    system->user = (void *)(uintptr_t)&indices[self.index];
  }
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      // The files of tests count calls, by one thread at a time.
      .threads = work->files != NULL ? 1 : 2,
      .communicator = communicator,
      .clock = &clock,
      .file_system = system});
  return drop(&self, act(&self, communicator));
}

static ls_status live_on(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, user, live);
}

static void run(job *work, int ranks,
                ls_status (*function)(ls_communicator *, void *)) {
  counted = work;
  expect_ok(ls_standin_run(ranks, function, work));
}

// ---- Tests -----------------------------------------------------------------
static char *read_all(const char *folder, const char *name, size_t *size) {
  char path[120], *data = NULL;
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  expect_ok(ls_file_system_system()->read(NULL, path, SIZE_MAX,
                                          ls_allocator_system(), &data, size));
  return data;
}

static void expect_same_folders(const char *a, const char *b) {
  const ls_file_system *files = ls_file_system_system();
  ls_file_entry *in_a = NULL, *in_b = NULL;
  size_t count_a = 0, count_b = 0;
  expect_ok(files->list(NULL, a, ls_allocator_system(), &in_a, &count_a));
  expect_ok(files->list(NULL, b, ls_allocator_system(), &in_b, &count_b));
  assert_int_equal(count_a, 5);
  assert_int_equal(count_b, 5);
  for (size_t i = 0; i < count_a; ++i) {
    size_t size_a = 0, size_b = 0;
    assert_string_equal(in_a[i].name, in_b[i].name);
    char *data_a = read_all(a, in_a[i].name, &size_a);
    char *data_b = read_all(b, in_b[i].name, &size_b);
    assert_int_equal(size_a, size_b);
    if (memcmp(data_a, data_b, size_a) != 0)
      fail_msg("'%s' of '%s' is another", in_a[i].name, b);
    ls_release(ls_allocator_system(), data_a);
    ls_release(ls_allocator_system(), data_b);
  }
  ls_release(ls_allocator_system(), in_a);
  ls_release(ls_allocator_system(), in_b);
}

TEST(files_are_those_of_one_rank_and_all_write_them) {
  const int counts[] = {1, 2, 4, 2};
  char names[4][16];
  for (int i = 0; i < 4; ++i) {
    snprintf(names[i], sizeof(names[i]), "ranks-%d", i);
    remove_tree(names[i]);
    job work = {.folder = names[i], .background = i < 3, .broken = -1};
    run(&work, counts[i], live_on);
    if (i > 0) expect_same_folders(names[0], names[i]);
    for (int k = 0; k < counts[i]; ++k)
      assert_true(work.written[k] >= 3 * (int64_t)(1 << 20));
  }
}

TEST(a_folder_that_others_do_not_see_is_rank_0s) {
  crash_files files[MOST_RANKS] = {0};
  job work = {
      .folder = "run", .background = true, .files = files, .broken = -1};
  run(&work, 3, live_on);
  assert_int_equal(crash_files_count(&files[0]), 5);
  assert_int_equal(crash_files_count(&files[1]), 0);
  assert_int_equal(crash_files_count(&files[2]), 0);
  for (int k = 0; k < MOST_RANKS; ++k)
    crash_files_clear(&files[k]);
}

TEST(ranks_may_give_their_folders_other_names) {
  remove_tree("apart-ranks");
  remove_tree("no-ranks");
  job work = {.folder = "apart-ranks", .others = "./apart-ranks", .broken = -1};
  run(&work, 2, live_on);
  assert_true(work.written[1] >= 3 * (int64_t)(1 << 20));
  work = (job){.folder = "apart-ranks", .others = "no-ranks", .broken = -1};
  run(&work, 2, live_on);
  bool made = false;
  const ls_file_system *system = ls_file_system_system();
  expect_ok(system->exists(NULL, "no-ranks/checkpoint", &made));
  assert_false(made);
}

static ls_status expect_fails(ls_status status, const char *words) {
  const bool told = strstr(ls_status_message(status), words) != NULL;
  const bool fails = ls_status_code(status) == LS_UNAVAILABLE;
  if (fails && told) {
    ls_status_free(status);
    return ls_ok();
  }
  return ls_status_join(status, ls_internal("'%s' was to be told", words));
}

// The disk of one rank is full at the second save.
static ls_status live_with_a_full_disk(rank *self,
                                       const ls_communicator *communicator) {
  LS_RETURN_IF_ERROR(make(self));
  LS_RETURN_IF_ERROR(set_version(self, communicator, 1));
  LS_RETURN_IF_ERROR(ls_checkpoints_save(self->checkpoints, 1, NULL, 0));
  LS_RETURN_IF_ERROR(ls_checkpoints_wait(self->checkpoints));
  LS_RETURN_IF_ERROR(set_version(self, communicator, 2));
  if (self->index == 0)
    __atomic_store_n(&self->work->broken, 1, __ATOMIC_RELAXED);
  ls_status status = ls_checkpoints_save(self->checkpoints, 2, NULL, 0);
  if (ls_status_is_ok(status)) status = ls_checkpoints_wait(self->checkpoints);
  LS_RETURN_IF_ERROR(expect_fails(status, "the disk of 1 is full"));
  LS_RETURN_IF_ERROR(ls_checkpoints_restore(self->checkpoints, NULL, NULL));
  LS_RETURN_IF_ERROR(check_version(self, 1));
  LS_RETURN_IF_ERROR(set_version(self, communicator, 3));
  LS_RETURN_IF_ERROR(ls_checkpoints_save(self->checkpoints, 3, NULL, 0));
  LS_RETURN_IF_ERROR(ls_checkpoints_restore(self->checkpoints, NULL, NULL));
  return check_version(self, 3);
}

static ls_status full_on(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, user, live_with_a_full_disk);
}

TEST(what_fails_on_one_rank_is_told_on_all) {
  for (int background = 0; background < 2; ++background) {
    remove_tree("full-ranks");
    job work = {
        .folder = "full-ranks", .background = background == 1, .broken = -1};
    run(&work, 3, full_on);
  }
}

TEST(ranks_with_other_variables_do_not_save) {
  remove_tree("other-ranks");
  job work = {.folder = "other-ranks", .differs = true, .broken = -1};
  counted = &work;
  expect_status(ls_standin_run(2, live_on, &work), LS_FAILED_PRECONDITION,
                "ranks 0 and 1 have other variables");
}

// One more rank than had saved goes on, and one less.
static ls_status go_on(rank *self, const ls_communicator *communicator) {
  LS_RETURN_IF_ERROR(make(self));
  LS_RETURN_IF_ERROR(set_version(self, communicator, 77));
  LS_RETURN_IF_ERROR(ls_checkpoints_restore(self->checkpoints, NULL, NULL));
  return check_version(self, 3);
}

static ls_status go_on_on(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, user, go_on);
}

TEST(any_number_of_ranks_goes_on) {
  remove_tree("more-ranks");
  job work = {.folder = "more-ranks", .background = true, .broken = -1};
  run(&work, 2, live_on);
  for (int ranks = 1; ranks <= 4; ++ranks)
    run(&work, ranks, go_on_on);
}
