// SPDX-License-Identifier: Apache-2.0
// Restoring a part of what a file holds: which variables, from which entries,
// and what is said of each. All of it or nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/saved_file.h"
#include "lockstep/variable_parts.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/saving.h"
#include "support/values.h"

#define ON_READ LS_SYNCHRONIZATION_ON_READ
#define SUM LS_AGGREGATION_SUM
#define MAPS(...)                                                              \
  .names = (const ls_name_map[]){__VA_ARGS__},                                 \
  .num_names =                                                                 \
      sizeof((const ls_name_map[]){__VA_ARGS__}) / sizeof(ls_name_map)
#define ONLY(...)                                                              \
  .only = (const char *const[]){__VA_ARGS__},                                  \
  .num_only = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)
#define EXCEPT(...)                                                            \
  .except = (const char *const[]){__VA_ARGS__},                                \
  .num_except = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

// ---- A file and variables --------------------------------------------------
enum { MOST = 4 };

typedef struct variables {
  ls_variable *items[MOST];
  ls_saver saver;
} variables;

static void add(variables *v, ls_variable *variable) {
  v->items[v->saver.num_variables++] = variable;
  v->saver.variables = v->items;
}

static void drop(variables *v) {
  for (size_t i = 0; i < v->saver.num_variables; ++i)
    ls_variable_release(v->items[i]);
  *v = (variables){0};
}
LS_OWNED_STRUCT(variables, drop)

// The file has these scalars.
static void write_file(const char *const *names, const double *values,
                       size_t count) {
  LS_OWN(variables, v) = {0};
  for (size_t i = 0; i < count; ++i)
    add(&v, plain(names[i], values[i]));
  expect_ok(ls_saver_save(&v.saver, path));
}
#define FILE_OF(count, names, ...)                                             \
  write_file((const char *const[])names, (const double[]){__VA_ARGS__}, count)
#define NAMES(...)                                                             \
  { __VA_ARGS__ }

static void expect_values(const variables *v, const double *wanted) {
  for (size_t i = 0; i < v->saver.num_variables; ++i) {
    const double value = value_of(v->items[i]);
    if (value != wanted[i])
      fail_msg("'%s' is %g, wanted %g", ls_variable_name(v->items[i]), value,
               wanted[i]);
  }
}
#define EXPECT_VALUES(v, ...) expect_values(v, (const double[]){__VA_ARGS__})

// What was told, as lines.
typedef struct told {
  char text[600];
} told;

static void tell(void *user, const ls_value_note *note) {
  told *self = user;
  const size_t at = strlen(self->text);
  snprintf(self->text + at, sizeof(self->text) - at, "%s %s<-%s\n",
           ls_value_fate_name(note->fate),
           note->variable != NULL ? note->variable : "", note->entry);
}

// ---- Which -----------------------------------------------------------------
TEST(only_what_is_wanted_is_restored) {
  FILE_OF(3, NAMES("dense/kernel", "dense/bias", "head/kernel"), 1, 2, 3);
  LS_OWN(variables, v) = {0};
  add(&v, plain("dense/kernel", -1));
  add(&v, plain("dense/bias", -2));
  add(&v, plain("head/kernel", -3));
  told said = {""};
  ls_value_report report;
  expect_ok(ls_saver_restore_part(
      &v.saver, path,
      &(ls_value_choice){ONLY("dense/*"), .tell = tell, .user = &said},
      &report));
  EXPECT_VALUES(&v, 1, 2, -3);
  assert_string_equal(said.text, "restored dense/kernel<-dense/kernel\n"
                                 "restored dense/bias<-dense/bias\n"
                                 "left out head/kernel<-head/kernel\n");
  assert_int_equal(report.count[LS_VALUE_RESTORED], 2);
  assert_int_equal(report.count[LS_VALUE_LEFT_OUT], 1);
  assert_int_equal(report.count[LS_VALUE_EXTRA], 0);
  set_variable(v.items[0], (double[]){-1});
  expect_ok(ls_saver_restore_part(
      &v.saver, path, &(ls_value_choice){EXCEPT("*/kernel")}, NULL));
  EXPECT_VALUES(&v, -1, 2, -3);
  expect_ok(ls_saver_restore_part(
      &v.saver, path,
      &(ls_value_choice){ONLY("head/?ernel", "dense/*"), EXCEPT("*/bias")},
      NULL));
  EXPECT_VALUES(&v, 1, 2, 3);
  // None of them.
  set_variable(v.items[0], (double[]){-1});
  expect_ok(ls_saver_restore_part(
      &v.saver, path, &(ls_value_choice){.only = (const char *const[]){""}},
      &report));
  EXPECT_VALUES(&v, -1, 2, 3);
  assert_int_equal(report.count[LS_VALUE_LEFT_OUT], 3);
  // What fits nothing is a slip of the pen.
  expect_status(ls_saver_restore_part(
                    &v.saver, path, &(ls_value_choice){ONLY("desne/*")}, NULL),
                LS_INVALID_ARGUMENT,
                "'desne/*' fits no variable of 3: 'dense/kernel', ");
  expect_status(ls_saver_restore_part(&v.saver, path,
                                      &(ls_value_choice){EXCEPT("bias")}, NULL),
                LS_INVALID_ARGUMENT, "'bias' fits no variable");
}

TEST(names_are_mapped_one_by_one_and_by_what_they_begin_with) {
  FILE_OF(4, NAMES("old/a", "old/in/b", "c", "d"), 1, 2, 3, 4);
  const struct {
    ls_value_choice choice;
    double values[3];
  } rows[] = {
      {{MAPS({"old/", "new/"}, {"c", "z"})}, {1, 2, 3}},
      {{MAPS({"old/", "new/"}, {"d", "z"})}, {1, 2, 4}},
      // The first that fits.
      {{MAPS({"d", "new/a"}, {"old/", "new/"}, {"c", "z"})}, {4, 2, 3}},
      {{MAPS({"old/in/b", "new/a"}, {"old/a", "new/in/b"}, {"c", "z"})},
       {2, 1, 3}},
      // One entry for several.
      {{MAPS({"c", "z"}, {"c", "new/a"}, {"c", "new/in/b"})}, {3, 3, 3}},
  };
  variables v = {0};
  add(&v, plain("new/a", -1));
  add(&v, plain("new/in/b", -2));
  add(&v, plain("z", -3));
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_value_report report;
    expect_ok(ls_saver_restore_part(&v.saver, path, &rows[i].choice, &report));
    expect_values(&v, rows[i].values);
    assert_int_equal(report.count[LS_VALUE_RENAMED], 3);
    assert_int_equal(report.count[LS_VALUE_RESTORED], 0);
  }
  drop(&v);
  // From the root, and into it.
  add(&v, plain("a", -1));
  expect_ok(ls_saver_restore_part(
      &v.saver, path, &(ls_value_choice){MAPS({"old/", "/"})}, NULL));
  EXPECT_VALUES(&v, 1);
  drop(&v);
  add(&v, plain("mine/old/in/b", -1));
  expect_ok(ls_saver_restore_part(
      &v.saver, path, &(ls_value_choice){MAPS({"/", "mine/"})}, NULL));
  EXPECT_VALUES(&v, 2);
  drop(&v);
}

TEST(maps_that_mean_nothing_are_refused) {
  FILE_OF(2, NAMES("a", "b"), 1, 2);
  static const struct {
    ls_name_map map;
    const char *wanted;
  } rows[] = {
      {{"old/", "v"}, "from 'old/' to 'v': both or neither must end in '/'"},
      {{"a", "other"}, "'other' fits no variable of 1: 'v'"},
      {{"old/", "new/"}, "'new/' fits no variable"},
      {{"", "v"}, "empty side"},
      {{"a", NULL}, "empty side"},
  };
  LS_OWN(variables, v) = {0};
  add(&v, plain("v", -1));
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_status(ls_saver_restore_part(
                      &v.saver, path,
                      &(ls_value_choice){.names = &rows[i].map, .num_names = 1},
                      NULL),
                  LS_INVALID_ARGUMENT, rows[i].wanted);
  expect_status(ls_saver_restore_part(
                    &v.saver, path, &(ls_value_choice){MAPS({"c", "v"})}, NULL),
                LS_NOT_FOUND, "has no array 'c', which variable 'v'");
  EXPECT_VALUES(&v, -1);
}

// ---- What does not fit -----------------------------------------------------
TEST(what_is_missing_or_extra_is_refused_or_allowed) {
  FILE_OF(3, NAMES("a", "extra", "wide"), 1, 2, 3);
  variables v = {0};
  add(&v, plain("a", -1));
  add(&v, plain("gone", -2));
  add(&v, variable_of("wide", LS_DTYPE_F32, LS_SHAPE(1), (double[]){-3}));
  told said = {""};
  const char *all = "restored a<-a\n"
                    "missing gone<-gone\n"
                    "other type wide<-wide\n"
                    "extra <-extra\n";
  static const struct {
    ls_flag missing, other_types, extra;
    ls_code code;
    const char *wanted;
  } rows[] = {
      {0, 0, 0, LS_NOT_FOUND, "2 of 3 variables cannot be restored"},
      {LS_FLAG_ON, 0, 0, LS_INVALID_ARGUMENT,
       "'wide' of f32[]; variable 'wide' needs f32[1]"},
      {0, LS_FLAG_ON, 0, LS_NOT_FOUND, "no array 'gone'"},
      {LS_FLAG_ON, LS_FLAG_ON, LS_FLAG_OFF, LS_INVALID_ARGUMENT,
       "has array 'extra' of f32[], which no variable uses"},
      {LS_FLAG_ON, LS_FLAG_ON, 0, LS_OK, NULL},
      {LS_FLAG_ON, LS_FLAG_ON, LS_FLAG_ON, LS_OK, NULL},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_value_report report;
    set_variable(v.items[0], (double[]){-1});
    said.text[0] = '\0';
    const ls_status status = ls_saver_restore_part(
        &v.saver, path,
        &(ls_value_choice){.missing = rows[i].missing,
                           .other_types = rows[i].other_types,
                           .extra = rows[i].extra,
                           .tell = tell,
                           .user = &said},
        &report);
    if (rows[i].code == LS_OK)
      expect_ok(status);
    else
      expect_status(status, rows[i].code, rows[i].wanted);
    // What it is told of does not depend on what is allowed, and a refused
    // restore has set nothing.
    assert_string_equal(said.text, all);
    assert_int_equal(report.count[LS_VALUE_EXTRA], 1);
    EXPECT_VALUES(&v, rows[i].code == LS_OK ? 1 : -1, -2, -3);
  }
  // An entry of a variable that is not wanted is no extra one.
  drop(&v);
  add(&v, plain("a", -1));
  add(&v, plain("extra", -2));
  add(&v, plain("wide", -3));
  expect_ok(ls_saver_restore_part(
      &v.saver, path, &(ls_value_choice){ONLY("wide"), .extra = LS_FLAG_OFF},
      NULL));
  EXPECT_VALUES(&v, -1, -2, 3);
  drop(&v);
}

// ---- In every way ----------------------------------------------------------
TEST(replicas_are_restored_from_any_number_of_them) {
  LS_SPEC("V122 V126 M52");
  for (int from = 1; from <= 3; ++from)
    for (int to = 1; to <= 3; ++to) {
      LS_OWN(ls_strategy, a) = mirrored_of(from);
      LS_OWN(ls_strategy, b) = mirrored_of(to);
      LS_OWN(variables, old) = {0};
      LS_OWN(variables, new) = {0};
      add(&old, variable_in(a, (variable_kind){.name = "old/m", .initial = 6}));
      add(&old, variable_in(a, (variable_kind){.name = "old/s",
                                               .initial = 12.0 / from,
                                               .synchronization = ON_READ,
                                               .aggregation = SUM}));
      add(&new, variable_in(b, (variable_kind){.name = "new/m"}));
      add(&new, variable_in(b, (variable_kind){.name = "new/s",
                                               .synchronization = ON_READ,
                                               .aggregation = SUM}));
      add(&new,
          variable_in(b, (variable_kind){.name = "new/k", .initial = -1}));
      expect_ok(ls_saver_save(&old.saver, path));
      expect_ok(ls_saver_restore_part(
          &new.saver, path,
          &(ls_value_choice){EXCEPT("*/k"), MAPS({"old/", "new/"})}, NULL));
      for (int i = 0; i < to && to > 1; ++i) {
        assert_true(value_of(ls_variable_component(new.items[0], (size_t)i)) ==
                    6);
        assert_true(value_of(ls_variable_component(new.items[1], (size_t)i)) ==
                    12.0 / to);
        assert_true(value_of(ls_variable_component(new.items[2], (size_t)i)) ==
                    -1);
      }
      if (to == 1) {
        assert_true(value_of(new.items[0]) == 6);
        assert_true(value_of(new.items[1]) == 12);
      }
    }
}

TEST(components_come_back_under_another_name) {
  LS_SPEC("V212");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(variables, v) = {0};
  LS_OWN(variables, w) = {0};
  const variable_kind kind = {
      .dtype = LS_DTYPE_I32, .synchronization = ON_READ, .aggregation = SUM};
  variable_kind other = kind;
  other.name = "w";
  add(&v, variable_in(two, kind));
  add(&w, variable_in(two, other));
  v.saver.exact = w.saver.exact = true;
  set_components(v.items[0], (double[]){3, 4}, 2);
  expect_ok(ls_saver_save(&v.saver, path));
  ls_value_report report;
  const ls_value_choice choice = {MAPS({"v", "w"}), .extra = LS_FLAG_OFF};
  expect_ok(ls_saver_restore_part(&w.saver, path, &choice, &report));
  expect_components(w.items[0], (double[]){3, 4}, 2);
  assert_int_equal(report.count[LS_VALUE_EXTRA], 0);
  w.saver.exact = false;
  expect_ok(ls_saver_restore_part(&w.saver, path, &choice, NULL));
  expect_components(w.items[0], (double[]){3, 3}, 2);
}

static ls_nest double_it(ls_nest args, void *user) {
  ls_variable *v = user;
  (void)args;
  return ls_leaf(ls_mul(ls_variable_read(v), ls_scalar(LS_DTYPE_F32, 2)));
}

TEST(functions_and_sessions_see_what_was_restored) {
  FILE_OF(2, NAMES("old/a", "old/b"), 8, 9);
  const ls_value_choice choice = {ONLY("a"), MAPS({"old/", "/"})};
  variables v = {0};
  add(&v, plain("a", 1));
  add(&v, plain("b", 2));
  ls_function *function = unnamed_function(double_it, v.items[0]);
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, out) = call_results(function, ls_none());
    assert_true(number_of(out) == (i == 0 ? 2 : 16));
    expect_ok(ls_saver_restore_part(&v.saver, path, &choice, NULL));
  }
  EXPECT_VALUES(&v, 8, 2);
  ls_function_release(function);
  drop(&v);

  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    add(&v, plain("a", 1));
    add(&v, plain("b", 2));
  }
  ls_session *session = session_of(graph);
  v.saver.session = session;
  expect_ok(ls_saver_restore_part(&v.saver, path, &choice, NULL));
  ls_array *value = session_array(session, v.items[0]);
  assert_true(ls_array_f64(value, 0) == 8);
  ls_array_release(value);
  expect_status(ls_session_variable_value(session, v.items[1], &value),
                LS_FAILED_PRECONDITION, "'b' has no value");
  ls_session_destroy(session);
  drop(&v);
}

// ---- What cannot be read ---------------------------------------------------
static int64_t unreadable;  // From this byte on.

static ls_status read_or_fail(void *user, void *file, int64_t offset,
                              void *data, size_t size, size_t *out_size) {
  if (offset + (int64_t)size > unreadable)
    return LS_STATUS(LS_UNAVAILABLE, "a bad sector");
  return ls_file_system_system()->read_at(user, file, offset, data, size,
                                          out_size);
}

// The last array of a file cannot be read; those before it are not set either.
TEST(nothing_is_set_before_all_has_been_read) {
  ls_file_system files = *ls_file_system_system();
  files.read_at = read_or_fail;
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.file_system = &files});
  unreadable = INT64_MAX;
  FILE_OF(2, NAMES("a", "b"), 1, 2);
  LS_OWN(variables, v) = {0};
  add(&v, plain("a", -1));
  add(&v, plain("b", -2));
  ls_saved_file *file = NULL;
  ls_saved_entry entry;
  ls_file_info info = {0};
  void *handle = NULL;
  expect_ok(files.open(files.user, path, &handle, &info));
  files.close(files.user, handle);
  expect_ok(ls_saved_file_open(path, &file));
  expect_ok(ls_saved_file_entry(file, 1, &entry));
  assert_string_equal(entry.name, "b");
  unreadable = info.size - 1;
  expect_status(ls_saved_file_restore(file, &v.saver), LS_UNAVAILABLE,
                "a bad sector");
  EXPECT_VALUES(&v, -1, -2);
  // Who does not want it is not disturbed.
  expect_ok(ls_saved_file_restore_part(file, &v.saver,
                                       &(ls_value_choice){ONLY("a")}, NULL));
  EXPECT_VALUES(&v, 1, -2);
  unreadable = INT64_MAX;
  // The same of a member of npz with another checksum.
  expect_ok(ls_saved_file_write(file, "part.npz", NULL, NULL));
  ls_saved_file_close(file);
  char *data = NULL;
  size_t size = 0;
  expect_ok(files.read(files.user, "part.npz", SIZE_MAX, ls_allocator_system(),
                       &data, &size));
  for (size_t i = size - 6; i > 0; --i) {  // The last element of 'b', 2.0f.
    if (memcmp(data + i, "\0\0\0\x40PK", 6) != 0) continue;
    data[i] ^= 1;
    break;
  }
  expect_ok(files.write(files.user, "part.npz", data, size));
  ls_release(ls_allocator_system(), data);
  set_variable(v.items[0], (double[]){-1});
  expect_status(ls_saver_restore_part(&v.saver, "part.npz", NULL, NULL),
                LS_DATA_LOSS,
                "'part.npz' is damaged: the checksum of array 'b' does not");
  EXPECT_VALUES(&v, -1, -2);
}

// ---- Memory ----------------------------------------------------------------
static ls_status restore_mapped(void *user) {
  variables v = {0};
  (void)user;
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array));
  ls_status status = ls_variable_create(
      &(ls_variable_options){.name = "a", .initial_array = array}, &v.items[0]);
  v.saver = (ls_saver){.variables = v.items, .num_variables = 1};
  if (ls_status_is_ok(status))
    status = ls_saver_restore_part(
        &v.saver, path, &(ls_value_choice){ONLY("a"), MAPS({"old/", "/"})},
        NULL);
  ls_variable_release(v.items[0]);
  return status;
}

TEST(failed_allocations_are_survived) {
  FILE_OF(2, NAMES("old/a", "old/b"), 8, 9);
  REFUSE_EACH(restore_mapped, NULL);
}

TEST_FILE(.leaves = path)
