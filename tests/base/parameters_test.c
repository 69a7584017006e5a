// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parameters.h"

#include "support/expect.h"
#include "support/spec.h"

static const char *const xy[] = {"x", "y"};

static ls_nest one_named(const char *name, ls_nest item) {
  return ls_nest_dict("", &name, &item, 1);
}

// Binds, expects the text of what comes, and releases the arguments.
static void expect_bound(const ls_parameters *p, ls_nest args, ls_nest named,
                         const char *text) {
  ls_nest bound = {0};
  char printed[300];
  expect_ok(ls_parameters_bind(p, "f", args, named, &bound));
  assert_string_equal(ls_nest_print(bound, printed, sizeof(printed)), text);
  ls_nest_release(bound);
  ls_nest_release(args);
  ls_nest_release(named);
}

static void expect_refused(const ls_parameters *p, ls_nest args, ls_nest named,
                           const char *says) {
  ls_nest bound = {0};
  expect_status(ls_parameters_bind(p, "f", args, named, &bound),
                LS_INVALID_ARGUMENT, says);
  assert_int_equal(bound.kind, LS_KIND_NONE);
  ls_nest_release(args);
  ls_nest_release(named);
}

TEST(arguments_come_in_the_order_of_parameters) {
  const ls_parameters p = {.names = xy, .count = 2};
  expect_bound(&p, LS_TUPLE(ls_nest_i64(1), ls_nest_i64(2)), ls_none(),
               "(1, 2)");
  expect_bound(&p, LS_LIST(ls_nest_i64(1)), one_named("y", ls_nest_i64(2)),
               "(1, 2)");
  const ls_nest both[] = {ls_nest_i64(2), ls_nest_i64(1)};
  expect_bound(&p, ls_none(),
               ls_nest_dict("", (const char *const[]){"y", "x"}, both, 2),
               "(1, 2)");
}

TEST(what_may_be_left_out_comes_as_none) {
  const ls_parameters p = {.names = xy, .count = 2, .num_optional = 1};
  expect_bound(&p, LS_TUPLE(ls_nest_i64(1)), ls_none(), "(1, none)");
  expect_refused(&p, ls_none(), one_named("y", ls_nest_i64(2)),
                 "f takes (x, y): 'x' is not given");
}

TEST(more_arguments_come_as_a_list_and_other_names_as_a_dict) {
  const ls_parameters p = {
      .names = xy, .count = 1, .variadic = true, .any_names = true};
  expect_bound(&p, LS_TUPLE(ls_nest_i64(1), ls_nest_i64(2), ls_nest_i64(3)),
               one_named("z", ls_nest_i64(4)), "(1, [2, 3], {'z': 4})");
  expect_bound(&p, LS_TUPLE(ls_nest_i64(1)), ls_none(), "(1, [], {})");
}

TEST(what_declares_nothing_gets_names_behind_the_others) {
  expect_bound(NULL, LS_LIST(ls_nest_i64(1)), ls_none(), "[1]");
  expect_bound(NULL, LS_LIST(ls_nest_i64(1)), one_named("z", ls_nest_i64(4)),
               "(1, {'z': 4})");
  expect_bound(NULL, ls_none(), one_named("z", ls_nest_i64(4)), "({'z': 4},)");
}

TEST(arguments_that_do_not_fit_are_refused_by_name) {
  LS_SPEC("T64 T68");
  const ls_parameters p = {.names = xy, .count = 2};
  expect_refused(&p, LS_TUPLE(ls_nest_i64(1), ls_nest_i64(2), ls_nest_i64(3)),
                 ls_none(), "too many positional arguments for f");
  expect_refused(&p, LS_TUPLE(ls_nest_i64(1), ls_nest_i64(2)),
                 one_named("y", ls_nest_i64(3)),
                 "'y' is given by position and by name");
  expect_refused(&p, LS_TUPLE(ls_nest_i64(1)), one_named("z", ls_nest_i64(3)),
                 "f takes (x, y): 'z' is not the name of a parameter");
  const ls_parameters only = {
      .names = xy, .count = 2, .num_positional_only = 1};
  expect_refused(&only, ls_none(), one_named("x", ls_nest_i64(3)),
                 "f takes (x, /, y): 'x' is not");
  expect_refused(&p, ls_nest_i64(3), ls_none(), "a list or a tuple");
  expect_refused(&p, ls_none(), LS_LIST(ls_nest_i64(3)), "a dict");
}
