// SPDX-License-Identifier: Apache-2.0
//
// Results of strings and objects are the caller's, whatever they came from.
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/object.h"
#include "lockstep/session.h"
#include "support/function.h"
#include "support/values.h"

static ls_array *strings_of(const char *first, const char *second) {
  const ls_bytes strings[] = {{first, strlen(first)}, {second, strlen(second)}};
  ls_array *array = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(2), strings, &array));
  return array;
}

static ls_tensor constant_strings(const char *first, const char *second) {
  LS_OWN(ls_array, array) = strings_of(first, second);
  return ls_constant(array);
}

static void expect_bytes(const ls_array *array, int64_t index,
                         const char *wanted) {
  const ls_bytes *strings = ls_array_data(array);
  assert_int_equal(strings[index].size, strlen(wanted));
  assert_string_equal(strings[index].data, wanted);
}

TEST(fetched_strings_outlive_graph_and_session) {
  ls_tensor both, fed;
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    both = constant_strings("one", "another one");
    fed = ls_placeholder(LS_DTYPE_STRING, LS_SHAPE(2), "fed");
  }
  ls_session *session = session_of(graph);
  ls_array *array = strings_of("eaten", "");
  const ls_feed feed = {fed, array};
  LS_OWN(ls_nest, fetches) =
      LS_LIST(ls_leaf(both), ls_leaf(fed), ls_leaf(both));
  LS_OWN(ls_nest, results) = ls_none();
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_session_run(session, fetches, &feed, 1, &results));
  ls_array_release(array);
  ls_session_destroy(session);
  ls_graph_destroy(graph);
  expect_bytes(ls_nest_as_array(ls_nest_item(results, 0)), 1, "another one");
  expect_bytes(ls_nest_as_array(ls_nest_item(results, 1)), 0, "eaten");
  expect_bytes(ls_nest_as_array(ls_nest_item(results, 1)), 1, "");
  expect_bytes(ls_nest_as_array(ls_nest_item(results, 2)), 0, "one");
}

static ls_nest give_strings(ls_nest args, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(constant_strings("kept", "in the trace")),
                 ls_leaf(ls_identity(ls_nest_tensor(args, 0))));
}

TEST(returned_strings_outlive_the_function) {
  ls_function *function = unnamed_function(give_strings, NULL);
  ls_nest args = LS_LIST(ls_nest_array(strings_of("first", "argument")));
  LS_OWN(ls_nest, held) = ls_none();
  LS_OWN(ls_nest, results) = call_results(function, args);
  held = ls_nest_retain(results);
  ls_nest_release(args);
  args = LS_LIST(ls_nest_array(strings_of("second", "time")));
  expect_ok(ls_function_call(function, args, &results));
  ls_nest_release(args);
  ls_function_release(function);
  expect_bytes(ls_nest_as_array(ls_nest_item(held, 1)), 1, "argument");
  expect_bytes(ls_nest_as_array(ls_nest_item(results, 0)), 1, "in the trace");
  expect_bytes(ls_nest_as_array(ls_nest_item(results, 1)), 0, "second");
}

static int num_objects;
static void destroy_object(ls_object *object) {
  (void)object;
  --num_objects;
}
static const ls_object_type object_type = {.name = "thing",
                                           .destroy = destroy_object};

TEST(fetched_objects_are_held_by_the_result) {
  ls_object thing;
  ls_tensor x;
  ls_array *array = NULL;
  ls_object_init(&thing, &object_type);
  num_objects = 1;
  expect_ok(ls_array_create_copy(LS_DTYPE_RESOURCE, LS_SCALAR,
                                 &(ls_object *[]){&thing}, &array));
  ls_object_release(&thing);
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_constant(array);
  }
  ls_array_release(array);
  ls_session *session = session_of(graph);
  ls_nest results = ls_none();
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_session_run(session, ls_leaf(x), NULL, 0, &results));
  ls_session_destroy(session);
  ls_graph_destroy(graph);
  assert_int_equal(num_objects, 1);
  assert_ptr_equal(*(ls_object *const *)ls_nest_data(results, 0), &thing);
  ls_nest_release(results);
  assert_int_equal(num_objects, 0);
}

TEST(a_variable_of_strings_is_refused) {
  LS_OWN(ls_array, array) = strings_of("a", "b");
  ls_variable *made = NULL;
  expect_status(
      ls_variable_create(
          &(ls_variable_options){.name = "v", .initial_array = array}, &made),
      LS_UNIMPLEMENTED, "variable 'v' of dtype string");
}
