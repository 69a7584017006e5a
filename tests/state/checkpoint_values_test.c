// SPDX-License-Identifier: Apache-2.0
// What checkpoints hold of variables in strategies, and what comes back: as a
// saver's file does, and to go on from.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/checkpoint.h"
#include "runtime/eager/eager.h"
#include "support/replicas.h"
#include "support/saving.h"
#include "support/values.h"

#define ON_READ LS_SYNCHRONIZATION_ON_READ
#define SUM LS_AGGREGATION_SUM

// ---- A folder --------------------------------------------------------------
static const char folder[] = "values";
static int64_t counters[2];

static ls_status save_counter(void *self, ls_record *record) {
  return ls_record_set_i64(record, "counter", *(int64_t *)self);
}
static ls_status restore_counter(void *self, const ls_record *record) {
  return ls_record_get_i64(record, "counter", self);
}
static const ls_saveable states[] = {
    {"train/one", &counters[0], save_counter, restore_counter},
    {"train/two", &counters[1], save_counter, restore_counter}};

static void clear(void) {
  char command[40];
  snprintf(command, sizeof(command), "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
}

static ls_checkpoints *folder_of(const ls_saver *saver) {
  ls_checkpoints *checkpoints = NULL;
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){
          .folder = folder, .values = saver, .states = states, .num_states = 2},
      &checkpoints));
  return checkpoints;
}

static ls_status save_it(ls_variable *variable, bool exact) {
  ls_saver saver = saver_of(&variable);
  saver.exact = exact;
  ls_checkpoints *checkpoints = folder_of(&saver);
  const ls_status status = ls_checkpoints_save(checkpoints, 1, NULL, 0);
  expect_ok(ls_checkpoints_close(checkpoints));
  return status;
}

static void save_one(ls_variable *variable, bool exact) {
  clear();
  expect_ok(save_it(variable, exact));
}

static void restore_one(ls_variable *variable, bool exact) {
  ls_saver saver = saver_of(&variable);
  saver.exact = exact;
  ls_checkpoints *checkpoints = folder_of(&saver);
  expect_ok(ls_checkpoints_restore(checkpoints, NULL, NULL));
  expect_ok(ls_checkpoints_close(checkpoints));
}

// The names of all entries, and the value of the first.
static void expect_saved(const char *wanted, double value) {
  LS_OWN(ls_saved_file, file) = NULL;
  ls_saved_info info;
  char names[80] = "";
  expect_ok(ls_saved_file_open(folder, &file));
  ls_saved_file_describe(file, &info);
  for (size_t i = 0; i < info.num_entries; ++i) {
    ls_saved_entry entry;
    const size_t at = strlen(names);
    expect_ok(ls_saved_file_entry(file, i, &entry));
    snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? " " : "",
             entry.name);
  }
  assert_string_equal(names, wanted);
  LS_OWN(ls_array, array) = NULL;
  if (info.num_entries > 0) {
    expect_ok(ls_saved_file_read(file, 0, &array));
    assert_true(ls_array_f64(array, 0) == value);
  }
}

// ---- What is in it ---------------------------------------------------------
TEST(a_mirrored_variable_is_one_entry_of_a_checkpoint) {
  LS_SPEC("V122 V123 M52");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  LS_OWN(ls_variable, v) = variable_in(two, (variable_kind){0});
  LS_OWN(ls_variable, wide) = variable_in(three, (variable_kind){.initial = 9});
  LS_OWN(ls_variable, alone) = plain("v", 8);
  set_components(v, (double[]){3, 4}, 2);
  {
    LS_STRATEGY_SCOPE(two);
    LS_DEVICE_SCOPE("/cpu:1");
    save_one(v, false);
  }
  expect_saved("v", 3);
  restore_one(v, false);
  expect_components(v, (double[]){3, 3}, 2);
  restore_one(wide, false);
  expect_components(wide, (double[]){3, 3, 3}, 3);
  restore_one(alone, false);
  assert_true(value_of(alone) == 3);
  set_variable(alone, (double[]){5});
  save_one(alone, false);
  restore_one(v, false);
  expect_components(v, (double[]){5, 5}, 2);
  ls_variable *component = ls_variable_component(v, 1);
  expect_status(save_it(component, false), LS_INVALID_ARGUMENT,
                "component 1 of variable 'v'");
  // One without a value is left out.
  LS_SPEC("V124");
  LS_OWN(ls_variable, fresh) = variable_in(two, (variable_kind){0});
  ls_eager_forget(fresh);
  save_one(fresh, true);
  expect_saved("", 0);
}

TEST(what_components_make_is_in_it_and_shared_out_again) {
  LS_SPEC("V125 V126 M52");
  static const struct {
    ls_variable_aggregation aggregation;
    double saved, two, four;
  } rows[] = {{SUM, 7, 3.5, 1.75},
              {LS_AGGREGATION_MEAN, 3.5, 3.5, 3.5},
              {LS_AGGREGATION_ONLY_FIRST_REPLICA, 3, 3, 3}};
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, four) = mirrored_of(4);
  LS_OWN(ls_variable, none) =
      variable_in(two, (variable_kind){.synchronization = ON_READ});
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    const variable_kind kind = {.synchronization = ON_READ,
                                .aggregation = rows[i].aggregation};
    LS_OWN(ls_variable, v) = variable_in(two, kind);
    LS_OWN(ls_variable, wide) = variable_in(four, kind);
    LS_OWN(ls_variable, alone) = plain("v", 0);
    const double x = rows[i].two, y = rows[i].four;
    set_components(v, (double[]){3, 4}, 2);
    save_one(v, false);
    expect_saved("v", rows[i].saved);
    restore_one(v, false);
    expect_components(v, (double[]){x, x}, 2);
    restore_one(wide, false);
    expect_components(wide, (double[]){y, y, y, y}, 4);
    restore_one(alone, false);
    assert_true(value_of(alone) == rows[i].saved);
    save_one(alone, false);
    restore_one(v, false);
    expect_components(v, (double[]){x, x}, 2);
    restore_one(none, false);
    expect_components(none, (double[]){rows[i].saved, rows[i].saved}, 2);
  }
  clear();
  expect_status(save_it(none, false), LS_INVALID_ARGUMENT, "aggregation NONE");
}

TEST(components_come_back_bit_for_bit_to_go_on_from) {
  LS_SPEC("V212 V126");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  const variable_kind kind = {
      .dtype = LS_DTYPE_I32, .synchronization = ON_READ, .aggregation = SUM};
  LS_OWN(ls_variable, v) = variable_in(two, kind);
  ls_variable *wide = variable_in(three, kind);
  set_components(v, (double[]){3, 4}, 2);
  save_one(v, true);
  expect_saved("v v:0 v:1", 7);
  set_components(v, (double[]){0, 0}, 2);
  restore_one(v, true);
  expect_components(v, (double[]){3, 4}, 2);
  restore_one(v, false);
  expect_components(v, (double[]){3, 3}, 2);
  restore_one(wide, true);
  expect_components(wide, (double[]){2, 2, 2}, 3);
  ls_variable_release(wide);
  // Another run's are shared out, too.
  ls_record *identity = NULL;
  ls_checkpoints *checkpoints = NULL;
  ls_saver saver = saver_of(&v);
  saver.exact = true;
  expect_ok(ls_record_create(&identity));
  expect_ok(ls_record_set_text(identity, "program", "another"));
  expect_ok(ls_checkpoints_open(&(ls_checkpoints_options){.folder = folder,
                                                          .values = &saver,
                                                          .states = states,
                                                          .num_states = 2,
                                                          .identity = identity},
                                &checkpoints));
  ls_restore_report report;
  expect_ok(ls_checkpoints_restore(
      checkpoints, &(ls_restore_options){.inexact = LS_FLAG_ON}, &report));
  assert_true(report.inexact);
  expect_components(v, (double[]){3, 3}, 2);
  expect_ok(ls_checkpoints_close(checkpoints));
  ls_record_destroy(identity);
  ls_variable_release(v);
  // By what was written, never by comparing values.
  v = variable_in(two, (variable_kind){.initial = 5});
  save_one(v, true);
  expect_saved("v", 5);
  set_components(v, (double[]){5, 5}, 2);
  save_one(v, true);
  expect_saved("v v:0 v:1", 5);
}

// ---- Variables that start with it ------------------------------------------
TEST(a_variable_starts_with_what_a_checkpoint_holds) {
  LS_SPEC("V58");
  static const struct {
    ls_variable_synchronization synchronization;
    ls_variable_aggregation aggregation;
    double each;
  } rows[] = {{0, SUM, 7},
              {ON_READ, SUM, 3.5},
              {ON_READ, LS_AGGREGATION_MEAN, 7},
              {ON_READ, LS_AGGREGATION_NONE, 7}};
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_variable, alone) = plain("v", 7);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_saved_file, file) = NULL;
    LS_OWN(ls_variable, v) = NULL;
    const double each = rows[i].each;
    counters[0] = 11;
    save_one(alone, false);
    expect_ok(ls_saved_file_open(folder, &file));
    {
      LS_STRATEGY_SCOPE(two);
      expect_ok(ls_saved_file_create_variable(
          file, "v",
          &(ls_variable_options){.name = "v",
                                 .synchronization = rows[i].synchronization,
                                 .aggregation = rows[i].aggregation},
          &v));
    }
    expect_components(v, (double[]){each, each}, 2);
    set_components(v, (double[]){1, 2}, 2);
    counters[0] = 0;
    // The restore of that checkpoint has its states, and loads it not again.
    const ls_saver saver = saver_of(&v);
    ls_checkpoints *checkpoints = folder_of(&saver);
    const ls_restore_options from = {.file = file};
    ls_restore_report report;
    expect_ok(ls_checkpoints_restore(checkpoints, &from, &report));
    assert_int_equal(report.step, 1);
    assert_int_equal(counters[0], 11);
    expect_components(v, (double[]){1, 2}, 2);
    // The next one does, and so does one of another opening.
    expect_ok(ls_checkpoints_restore(checkpoints, &from, NULL));
    expect_components(v, (double[]){each, each}, 2);
    set_components(v, (double[]){1, 2}, 2);
    expect_ok(ls_checkpoints_restore(checkpoints, NULL, NULL));
    expect_components(v, (double[]){each, each}, 2);
    expect_ok(ls_checkpoints_close(checkpoints));
  }
}

// ---- A part of it ----------------------------------------------------------
TEST(states_and_variables_of_it_can_be_chosen) {
  clear();
  ls_variable *all[] = {plain("a", 1), plain("b", 2)};
  const ls_saver saver = {.variables = all, .num_variables = 2};
  ls_checkpoints *checkpoints = folder_of(&saver);
  counters[0] = 10;
  counters[1] = 20;
  expect_ok(ls_checkpoints_save(checkpoints, 5, NULL, 0));
  static const struct {
    const char *states[2], *only[2];
    size_t num_states, num_only;
    double a, b;
    int64_t one, two;
  } rows[] = {
      {{"train/one"}, {"b"}, 1, 1, -1, 2, 10, -2},
      {{"train/*"}, {"a"}, 1, 1, 1, -2, 10, 20},
      {{NULL}, {"*"}, 0, 1, 1, 2, -1, -2},
      {{"train/two"}, {NULL}, 1, 0, -1, -2, -1, 20},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_restore_report report;
    set_variable(all[0], (double[]){-1});
    set_variable(all[1], (double[]){-2});
    counters[0] = -1;
    counters[1] = -2;
    expect_ok(ls_checkpoints_restore(
        checkpoints,
        &(ls_restore_options){
            .states = rows[i].states,
            .num_states = rows[i].num_states,
            .values = {.only = rows[i].only, .num_only = rows[i].num_only}},
        &report));
    assert_true(value_of(all[0]) == rows[i].a);
    assert_true(value_of(all[1]) == rows[i].b);
    assert_int_equal(counters[0], rows[i].one);
    assert_int_equal(counters[1], rows[i].two);
    assert_int_equal(report.variables + report.values.count[LS_VALUE_LEFT_OUT],
                     2);
  }
  static const char *const wrong[] = {"train/three"};
  expect_status(
      ls_checkpoints_restore(
          checkpoints, &(ls_restore_options){.states = wrong, .num_states = 1},
          NULL),
      LS_INVALID_ARGUMENT, "'train/three' fits no state of 2: 'train/one'");
  expect_status(
      ls_checkpoints_restore(
          checkpoints,
          &(ls_restore_options){
              .values = {.names = &(ls_name_map){"c", "a"}, .num_names = 1}},
          NULL),
      LS_NOT_FOUND, "no array 'c'");
  // A variable that does not fit lets no state be set.
  assert_int_equal(counters[0], -1);
  expect_ok(ls_checkpoints_close(checkpoints));
  // A file that is none, and one too many.
  save(all[0]);
  ls_saved_file *file = NULL;
  checkpoints = folder_of(&saver);
  expect_ok(ls_saved_file_open(path, &file));
  expect_status(ls_checkpoints_restore(
                    checkpoints, &(ls_restore_options){.file = file}, NULL),
                LS_INVALID_ARGUMENT, "is no checkpoint");
  expect_status(ls_checkpoints_restore(
                    checkpoints,
                    &(ls_restore_options){.file = file, .step = LS_SOME(5)},
                    NULL),
                LS_INVALID_ARGUMENT, "step 5, not of both");
  ls_saved_file_close(file);
  expect_ok(ls_checkpoints_close(checkpoints));
  ls_variable_release(all[0]);
  ls_variable_release(all[1]);
}
