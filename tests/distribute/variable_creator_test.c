// SPDX-License-Identifier: Apache-2.0
//
// Creators: functions around the making of distributed variables.
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"

#include <stdio.h>

#include "distribute/own.h"
#include "support/place.h"
#include "support/variables.h"

// ---- Creators --------------------------------------------------------------
typedef struct creations {
  char names[6][40];
  size_t count;
  ls_variable *instead;
} creations;

static ls_status note_creation(const ls_creator *next,
                               const ls_variable_options *options, void *user,
                               ls_variable **out_variable) {
  creations *c = user;
  snprintf(c->names[c->count++], sizeof(c->names[0]), "%s", options->name);
  if (c->instead != NULL) {
    *out_variable = ls_variable_retain(c->instead);
    return ls_ok();
  }
  return ls_creator_create(next, options, out_variable);
}

TEST(creators_outside_see_components) {
  LS_SPEC("M50");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  creations outside = {.count = 0}, inside = {.count = 0};
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_CREATOR_SCOPE(note_creation, &outside);
    {
      LS_STRATEGY_SCOPE(strategy);
      {
        LS_CREATOR_SCOPE(note_creation, &inside);
        expect_ok(ls_variable_create(
            &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &v));
      }
    }
  }
  assert_int_equal(inside.count, 1);
  assert_string_equal(inside.names[0], "w");
  assert_int_equal(outside.count, 2);
  assert_string_equal(outside.names[0], "w");
  assert_string_equal(outside.names[1], "w/replica_1");
  assert_int_equal(ls_variable_num_components(v), 2);
}

TEST(a_creator_must_return_plain_variables) {
  LS_SPEC("M48");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  creations wrong = {
      .instead = variable_in(strategy, (variable_kind){.name = "whole"})};
  ls_variable *v = NULL;
  {
    LS_CREATOR_SCOPE(note_creation, &wrong);
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_status(
          ls_variable_create(
              &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &v),
          LS_FAILED_PRECONDITION, "'whole'");
    }
  }
  assert_null(v);
  ls_variable_release(wrong.instead);
}

TEST(every_creation_in_a_scope_goes_through_the_strategy) {
  LS_SPEC("V56");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_strategy *usual = NULL;
  const ls_variable_options options = {.name = "w", .dtype = LS_DTYPE_F32};
  ls_variable *v = NULL;
  expect_ok(ls_strategy_default(&usual));
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&options, &v));
    assert_ptr_equal(ls_variable_strategy(v), strategy);
    assert_ptr_equal(ls_variable_strategy(ls_variable_component(v, 1)),
                     strategy);
    ls_variable_release(v);
  }
  // The default strategy's scope around it has a say, too.
  {
    LS_STRATEGY_SCOPE(usual);
    expect_ok(ls_variable_create(&options, &v));
    assert_null(ls_variable_strategy(v));
    ls_variable_release(v);
    {
      LS_STRATEGY_SCOPE(strategy);
      const ls_status status = ls_variable_create(&options, &v);
      expect_contains(ls_status_message(status), "the default strategy");
      expect_status(status, LS_FAILED_PRECONDITION, "cannot be mixed");
      assert_null(v);
    }
  }
}

static ls_status in_two(ls_dtype dtype, ls_shape shape, int64_t *parts) {
  (void)dtype;
  for (int i = 0; i < shape.rank; ++i)
    parts[i] = i == 0 ? 2 : 1;
  return ls_ok();
}

static void count_warnings(void *user, const ls_log_line *line) {
  if (line->level != LS_LOG_WARNING) return;
  ++*(int *)user;
  expect_contains(line->text, "variables are not partitioned");
}

TEST(partitioners_and_caching_devices_are_dropped) {
  LS_SPEC("V57 V44");
  int warnings = 0;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.log = count_warnings, .log_user = &warnings});
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *v = NULL;
  ls_variable_options options = {.name = "w",
                                 .dtype = LS_DTYPE_F32,
                                 .shape = LS_SHAPE(4),
                                 .partitioner = in_two};
  for (int i = 0; i < 3; ++i) {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&options, &v));
    assert_int_equal(ls_variable_num_components(v), 2);
    assert_int_equal(ls_variable_shape(ls_variable_component(v, 1)).dim[0], 4);
    ls_variable_release(v);
  }
  assert_int_equal(warnings, 1);
  // Without a strategy nobody drops them.
  expect_status(ls_variable_create(&options, &v), LS_UNIMPLEMENTED,
                "partitioned");
  options.partitioner = NULL;
  options.caching_device = "/cpu:0";
  expect_status(ls_variable_create(&options, &v), LS_UNIMPLEMENTED, "caching");
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&options, &v));
    ls_variable_release(v);
  }
  assert_int_equal(warnings, 1);
}
