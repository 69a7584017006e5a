// SPDX-License-Identifier: Apache-2.0
// Variables that start with what a file holds, and its restore behind that.
#include <unistd.h>

#include "base/memory/allocator.h"

#include "distribute/own.h"
#include "lockstep/saved_file.h"
#include "lockstep/variable_parts.h"
#include "state/own.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/saving.h"
#include "support/values.h"

#define ON_READ LS_SYNCHRONIZATION_ON_READ
#define SUM LS_AGGREGATION_SUM

// The file holds 'v' and 'w', scalars.
static ls_saved_file *file_of(double v, double w) {
  ls_variable *const both[] = {plain("v", v), plain("w", w)};
  ls_saved_file *file = NULL;
  const ls_saver saver = {.variables = both, .num_variables = 2};
  expect_ok(ls_saver_save(&saver, path));
  expect_ok(ls_saved_file_open(path, &file));
  ls_variable_release(both[0]);
  ls_variable_release(both[1]);
  return file;
}

static ls_variable *started(const ls_saved_file *file, const char *entry,
                            const ls_variable_options *options) {
  ls_variable *variable = NULL;
  expect_ok(ls_saved_file_create_variable(file, entry, options, &variable));
  return variable;
}

static void set(ls_variable *variable, double value) {
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, &value);
  expect_ok(ls_variable_set_value(variable, array));
}

TEST(a_variable_starts_with_what_the_file_holds) {
  LS_SPEC("V58");
  ls_saved_file *file = file_of(5, 6);
  ls_variable *both[] = {
      started(file, "v", &(ls_variable_options){.name = "v"}), plain("w", 1)};
  const ls_saver saver = {.variables = both, .num_variables = 2};
  assert_true(value_of(both[0]) == 5);
  // The restore loads what has not started with it, and only that.
  set(both[0], 50);
  expect_ok(ls_saved_file_restore(file, &saver));
  assert_true(value_of(both[0]) == 50);
  assert_true(value_of(both[1]) == 6);
  // Another restore of it goes back to the file, as for all others.
  expect_ok(ls_saved_file_restore(file, &saver));
  assert_true(value_of(both[0]) == 5);
  ls_saved_file_close(file);
  ls_variable_release(both[0]);
  ls_variable_release(both[1]);
}

TEST(another_opening_of_the_file_is_another_restore) {
  LS_SPEC("V58");
  LS_OWN(ls_saved_file, file) = file_of(5, 6);
  LS_OWN(ls_saved_file, again) = NULL;
  expect_ok(ls_saved_file_open(path, &again));
  LS_OWN(ls_variable, v) =
      started(file, "v", &(ls_variable_options){.name = "v"});
  set(v, 50);
  const ls_saver saver = saver_of(&v);
  expect_ok(ls_saved_file_restore(again, &saver));
  assert_true(value_of(v) == 5);
  set(v, 50);
  expect_ok(ls_saved_file_restore(file, &saver));
  assert_true(value_of(v) == 5);
  ls_variable_release(v);
  v = started(file, "v", &(ls_variable_options){.name = "v"});
  set(v, 50);
  expect_ok(ls_saver_restore(&saver, path));
  assert_true(value_of(v) == 5);
}

TEST(components_start_with_what_a_restore_gives_them) {
  LS_SPEC("V58");
  static const struct {
    ls_variable_synchronization synchronization;
    ls_variable_aggregation aggregation;
    double each;
  } rows[] = {{0, SUM, 7},
              {ON_READ, SUM, 3.5},
              {ON_READ, LS_AGGREGATION_MEAN, 7},
              {ON_READ, LS_AGGREGATION_NONE, 7}};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_saved_file, file) = file_of(7, 0);
    LS_OWN(ls_variable, v) = NULL;
    const double each = rows[i].each;
    {
      LS_STRATEGY_SCOPE(strategy);
      v = started(
          file, "v",
          &(ls_variable_options){.name = "v",
                                 .dtype = LS_DTYPE_F32,
                                 .synchronization = rows[i].synchronization,
                                 .aggregation = rows[i].aggregation});
    }
    expect_components(v, (double[]){each, each}, 2);
    set_components(v, (double[]){1, 2}, 2);
    const ls_saver saver = saver_of(&v);
    expect_ok(ls_saved_file_restore(file, &saver));
    expect_components(v, (double[]){1, 2}, 2);
    expect_ok(ls_saved_file_restore(file, &saver));
    expect_components(v, (double[]){each, each}, 2);
  }
}

TEST(a_session_starts_with_it_too) {
  LS_SPEC("V58");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (int replicas = 1; replicas <= 2; ++replicas)
    for (int initialized = 0; initialized < 2; ++initialized) {
      LS_OWN(ls_saved_file, file) = file_of(8, 0);
      LS_OWN(ls_graph, graph) = graph_named("g");
      LS_OWN(ls_session, session) = NULL;
      LS_OWN(ls_variable, v) = NULL;
      ls_nest out = ls_none();
      const ls_variable_options options = {
          .name = "v", .synchronization = ON_READ, .aggregation = SUM};
      {
        LS_GRAPH_SCOPE(graph);
        ls_scope scope = {0};
        if (replicas > 1) ls_strategy_scope_begin(&scope, strategy);
        v = started(file, "v", &options);
        ls_scope_end(&scope);
      }
      expect_ok(ls_session_create(graph, &session));
      ls_saver saver = saver_of(&v);
      saver.session = session;
      ls_variable *at = replicas > 1 ? ls_variable_component(v, 1) : v;
      const double each = 8.0 / replicas;
      if (initialized) {
        expect_ok(ls_session_run(
            session, ls_nest_op(ls_variable_initializer(v)), NULL, 0, &out));
        assert_true(session_number(session, at) == each);
        LS_OWN(ls_array, other) =
            array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1});
        expect_ok(ls_session_set_variable_value(session, at, other));
      }
      // One that has no value yet is loaded.
      expect_ok(ls_saved_file_restore(file, &saver));
      assert_true(session_number(session, at) == (initialized ? 1 : each));
    }
}

TEST(what_does_not_fit_is_refused) {
  LS_SPEC("V58");
  ls_saved_file *file = file_of(5, 6), *none = NULL;
  ls_variable *v = NULL;
  ls_array *array = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  expect_status(ls_saved_file_create_variable(file, "u", NULL, &v),
                LS_NOT_FOUND, "no array 'u'");
  expect_status(
      ls_saved_file_create_variable(
          file, "v", &(ls_variable_options){.dtype = LS_DTYPE_I32}, &v),
      LS_INVALID_ARGUMENT, "'v' of f32[]; the variable must be i32[]");
  expect_status(
      ls_saved_file_create_variable(
          file, "v",
          &(ls_variable_options){.dtype = LS_DTYPE_F32, .shape = LS_SHAPE(2)},
          &v),
      LS_INVALID_ARGUMENT, "must be f32[2]");
  expect_status(
      ls_saved_file_create_variable(
          file, "v", &(ls_variable_options){.initial_array = array}, &v),
      LS_INVALID_ARGUMENT, "given an initial value");
  assert_null(v);
  expect_status(ls_saved_file_open("no-such-file", &none), LS_NOT_FOUND,
                "no-such-file");
  assert_null(none);
  // A restore that is refused leaves the mark.
  ls_variable *both[] = {started(file, "v", NULL), plain("u", 1)};
  ls_saver saver = {.variables = both,
                    .num_variables = 2,
                    .names = (const char *const[]){"v", "u"}};
  set(both[0], 50);
  expect_status(ls_saved_file_restore(file, &saver), LS_NOT_FOUND, "'u'");
  saver.num_variables = 1;
  expect_ok(ls_saved_file_restore(file, &saver));
  assert_true(value_of(both[0]) == 50);
  ls_variable_release(both[0]);
  ls_variable_release(both[1]);
  ls_array_release(array);
  ls_saved_file_close(file);
  ls_saved_file_close(NULL);
}

static ls_status start_and_restore(void *user) {
  LS_OWN(ls_saved_file, file) = NULL;
  LS_OWN(ls_variable, v) = NULL;
  (void)user;
  LS_RETURN_IF_ERROR(ls_saved_file_open(path, &file));
  LS_RETURN_IF_ERROR(ls_saved_file_create_variable(file, "v", NULL, &v));
  const ls_saver saver = {
      .variables = &v, .num_variables = 1, .names = (const char *[]){"v"}};
  return ls_saved_file_restore(file, &saver);
}

TEST(failed_allocations_are_survived) {
  ls_saved_file_close(file_of(5, 6));
  REFUSE_EACH(start_and_restore, NULL);
}

TEST_FILE(.leaves = path)
