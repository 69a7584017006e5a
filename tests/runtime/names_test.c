// SPDX-License-Identifier: Apache-2.0
//
// Names are never cut: what is too long is refused, so no two become one.
#include <stdlib.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "support/values.h"

// `count` times the letter; static.
static const char *letters(size_t count, char letter) {
  static char text[4096];
  memset(text, letter, count);
  text[count] = '\0';
  return text;
}

static ls_status make_variable(const char *name) {
  LS_OWN(ls_variable, made) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = name, .dtype = LS_DTYPE_F32}, &made));
  assert_string_equal(ls_variable_name(made), name);
  return ls_ok();
}

TEST(an_eager_variables_name_is_whole_or_refused) {
  expect_ok(make_variable(letters(2047, 'v')));
  expect_status(make_variable(letters(2048, 'v')), LS_INVALID_ARGUMENT,
                "2048 characters");
  {
    LS_NAME_SCOPE("in");
    expect_status(make_variable(letters(2045, 'v')), LS_INVALID_ARGUMENT,
                  "2048 characters");
  }
}

TEST(a_distributed_variables_name_is_whole_or_refused) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  {
    LS_STRATEGY_SCOPE(strategy);
    ls_variable *made = NULL;
    expect_ok(make_variable(letters(2000, 'v')));
    expect_status(
        ls_variable_create(&(ls_variable_options){.name = letters(2040, 'v'),
                                                  .dtype = LS_DTYPE_F32},
                           &made),
        LS_INVALID_ARGUMENT, "characters");
    assert_null(made);
  }
}

TEST(a_name_scope_is_whole_or_refused) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  for (int eager = 0; eager < 2; ++eager) {
    ls_scope around = {0};
    if (!eager) ls_graph_begin(&around, graph);
    {
      LS_NAME_SCOPE(letters(243, 's'));
      expect_ok(ls_scope_status());
    }
    {
      LS_NAME_SCOPE(letters(300, 's'));
      expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "300 characters");
    }
    ls_scope_end(&around);
  }
}

TEST(name_scopes_inside_of_each_other_are_whole_or_refused) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_scope scopes[20] = {{0}};
  ls_scope around = {0};
  ls_graph_begin(&around, graph);
  size_t open = 0;
  ls_status status = ls_ok();
  while (ls_status_is_ok(status) && open < 20) {
    ls_name_scope_begin(&scopes[open++], letters(200, 's'));
    status = ls_scope_status();
  }
  expect_status(status, LS_INVALID_ARGUMENT, "name scopes around");
  ls_scope_end(&scopes[--open]);
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1);
  assert_int_equal(strlen(ls_op_name(ls_tensor_op(x))),
                   open * 201 + strlen("constant"));
  while (open > 0)
    ls_scope_end(&scopes[--open]);
  ls_scope_end(&around);
}

TEST(the_name_of_an_eager_value_outlives_its_frame) {
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1);
  const char *name = ls_tensor_name(x);
  HEAP(char, before) = strdup(name);
  expect_ok(ls_frame_end(NULL));
  expect_ok(ls_frame_begin());
  for (int i = 0; i < 100; ++i)
    (void)ls_tensor_name(ls_fill(LS_DTYPE_F32, LS_SHAPE(3), i));
  assert_string_equal(name, before);
  assert_string_equal(ls_tensor_name(x), "");
  expect_ok(ls_frame_end(NULL));
}
