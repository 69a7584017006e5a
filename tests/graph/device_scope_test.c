// SPDX-License-Identifier: Apache-2.0
//
// Device scopes merge: what a name leaves out comes from the scopes around.
#include <stdio.h>
#include <string.h>

#include "lockstep/device_name.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"
#include "support/ways.h"

static ls_op op_here(void) { return ls_tensor_op(ls_scalar(LS_DTYPE_F32, 1)); }

static void expect_device_here(const char *device) {
  assert_string_equal(ls_op_device(op_here()), device);
}

// ---- Everywhere ------------------------------------------------------------
static ls_nest look_around(ls_nest args, ways *self) {
  (void)args;
  (void)self;
  ls_device_name there, merged;
  snprintf(there.text, sizeof(there.text), "%s", ls_op_device(op_here()));
  {
    LS_DEVICE_SCOPE("/device:FOO:3");
    expect_ok(ls_device_merge("/device:FOO:3", there.text, &merged));
    expect_device_here(merged.text);
    {
      LS_DEVICE_SCOPE("/job:w/task:1");
      expect_ok(ls_device_merge("/job:w/task:1", merged.text, &merged));
      expect_device_here(merged.text);
    }
    {
      LS_DEVICE_SCOPE(NULL);
      expect_device_here("");
      LS_DEVICE_SCOPE("/job:w/task:1");
      LS_DEVICE_SCOPE("");
      LS_DEVICE_SCOPE("/device:FOO:3");
      expect_device_here("/job:w/task:1/device:FOO:3");
      LS_DEVICE_SCOPE("/task:2");
      expect_device_here("/job:w/task:2/device:FOO:3");
    }
  }
  expect_device_here(there.text);
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
}

TEST(scopes_merge_in_every_way_to_run) {
  LS_SPEC("O34");
  LS_SPEC("O5");
  ways_hold(&(ways_case){.name = "devices", .step = look_around}, 1);
}

// ---- In a graph ------------------------------------------------------------
static ls_nest one_on_foo(ls_nest args, void *user) {
  (void)args;
  (void)user;
  LS_DEVICE_SCOPE("/device:FOO:3");
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
}

// What a function's own scopes leave out comes from where it is called.
TEST(a_functions_ops_are_placed_where_it_is_called) {
  LS_SPEC("O69");
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_nest made = ls_none();
  LS_OWN(ls_function, function) = function_of(one_on_foo, NULL);
  for (int task = 1; task <= 2; ++task) {
    LS_GRAPH_SCOPE(graph);
    LS_DEVICE_SCOPE(task == 1 ? "/job:w/task:1" : "/job:w/task:2");
    expect_ok(ls_function_call(function, ls_none(), &made));
    assert_string_equal(ls_op_device(ls_tensor_op(made.as.tensor)),
                        task == 1 ? "/job:w/task:1/device:FOO:3"
                                  : "/job:w/task:2/device:FOO:3");
    ls_nest_release(made);
    made = ls_none();
  }
}

TEST(a_name_that_is_none_is_refused) {
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_DEVICE_SCOPE("/foo:1");
      expect_status(ls_scope_status(), LS_INVALID_ARGUMENT,
                    "device '/foo:1': there is no attribute 'foo'");
      assert_true(ls_op_is_failed(op_here()));
    }
    expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT, "'/foo:1'");
    expect_device_here("");
  }
  ls_graph_destroy(graph);
  expect_status(ls_graph_parse("graph build \"g\" {\n"
                               "  %1 = constant() {value = i32[] [0]} @\"/foo\""
                               " : i32[]\n}\n",
                               NULL, 0, &graph),
                LS_INVALID_ARGUMENT, "line 2");
}

// A name of more characters than are kept merges as any other.
TEST(a_long_name_merges) {
  char name[1000];
  memset(name, '/', sizeof(name));
  snprintf(name + 900, sizeof(name) - 900, "/cpu:1");
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_DEVICE_SCOPE("/job:w/task:1");
    LS_DEVICE_SCOPE(name);
    expect_device_here("/job:w/task:1/device:CPU:1");
  }
}

// ---- Beside other scopes ---------------------------------------------------
TEST(a_colocation_leaves_device_scopes) {
  LS_SPEC("O48");
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_op nowhere = op_here();
    ls_op placed = {0};
    {
      LS_DEVICE_SCOPE("/job:w");
      LS_DEVICE_SCOPE("/cpu:1");
      placed = op_here();
    }
    {
      LS_DEVICE_SCOPE("/task:5");
      {
        LS_COLOCATE_SCOPE(nowhere);
        expect_device_here("");
        LS_COLOCATE_SCOPE(placed);
        expect_device_here("/job:w/device:CPU:1");
        // That of the nearest that has one.
        LS_COLOCATE_SCOPE(nowhere);
        expect_device_here("/job:w/device:CPU:1");
      }
      expect_device_here("/task:5");
    }
  }
}

static ls_nest make_variable(ls_nest args, void *user) {
  (void)args;
  LS_DEVICE_SCOPE("/job:worker");
  LS_DEVICE_SCOPE("/cpu:1");
  expect_ok(ls_variable_create(&(ls_variable_options){.name = "v",
                                                      .dtype = LS_DTYPE_F32,
                                                      .trainable = LS_FLAG_OFF},
                               user));
  return ls_leaf(ls_variable_read(*(ls_variable **)user));
}

// The variable is outside of the function, in the same place.
TEST(what_leaves_a_function_keeps_the_device) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_nest, made) = ls_none();
  ls_function *function = function_of(make_variable, &v);
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_function_call(function, ls_none(), &made));
  }
  ls_function_release(function);  // And its graph.
  assert_string_equal(ls_variable_device(v),
                      "/job:worker/replica:0/task:0/device:CPU:1");
  assert_string_equal(ls_op_device(ls_variable_initializer(v)),
                      "/job:worker/device:CPU:1");
}

static ls_nest make_outside(ls_nest args, void *user) {
  (void)args;
  LS_DEVICE_SCOPE("/job:w");
  LS_DEVICE_SCOPE("/cpu:1");
  LS_INIT_SCOPE;
  *(ls_op *)user = op_here();
  return ls_leaf(ls_op_output(*(ls_op *)user, 0));
}

// The name was a text of the function's graph.
TEST(a_device_outlives_the_graph_that_was_left) {
  ls_op made = {0};
  ls_function *function = function_of(make_outside, &made);
  LS_OWN(ls_nest, result) = call_results(function, ls_none());
  ls_function_release(function);
  assert_string_equal(ls_op_device(made), "/job:w/device:CPU:1");
}

// A variable beside one without a place has none.
TEST(a_variable_is_beside_another_wherever_that_is) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ls_variable *made[4] = {NULL};
    ls_variable_options options = {.name = "v", .dtype = LS_DTYPE_F32};
    expect_ok(ls_variable_create(&options, &made[0]));
    {
      LS_DEVICE_SCOPE("");
      expect_ok(ls_variable_create(&options, &made[3]));
      assert_string_equal(ls_variable_device(made[3]), "");
    }
    LS_DEVICE_SCOPE("/task:2");
    expect_ok(ls_variable_create(&options, &made[1]));
    options.colocate_with = made[0];
    expect_ok(ls_variable_create(&options, &made[2]));
    assert_string_equal(ls_variable_device(made[1]),
                        "/job:localhost/replica:0/task:2/device:CPU:0");
    assert_string_equal(ls_variable_device(made[2]), "");
    for (int i = 0; i < 4; ++i)
      ls_variable_release(made[i]);
  }
}
