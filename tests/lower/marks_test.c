// SPDX-License-Identifier: Apache-2.0
//
// Marks: attributes that are not the op's own. They are the build graph's, are
// no part of a program and keep nothing apart.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "graph/context.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/session.h"
#include "runtime/program.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static void mark(ls_tensor t, const char *name, const char *text) {
  expect_ok(ls_op_set_attr(
      ls_tensor_op(t),
      &(ls_attr){.name = name, .kind = LS_ATTR_STRING, .as.string = text}));
}

static size_t count_of(const char *text, const char *part) {
  size_t count = 0;
  for (; (text = strstr(text, part)) != NULL; text += strlen(part))
    ++count;
  return count;
}

static size_t num_programs(void) {
  ls_runtime_state *state = NULL;
  expect_ok(ls_runtime_state_get(ls_runtime_current(), &state));
  return ls_map_count(&state->programs);
}

// ---- Programs --------------------------------------------------------------
static ls_nest keep_on(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 100)));
}

static ls_nest double_it(ls_nest values, void *user) {
  const ls_tensor x = ls_nest_tensor(values, 0);
  const ls_tensor y = ls_add(x, x);
  if (user != NULL) mark(y, "_inside", user);
  return ls_leaf(y);
}

static ls_tensor beside(ls_tensor x) {
  LS_COLOCATE_SCOPE(ls_tensor_op(x));
  return ls_tanh(x);
}

// tanh(x) twice, marked as the user says, then a loop.
static ls_nest work(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor a = ls_tanh(x);
  const ls_tensor b = user != NULL ? beside(x) : ls_tanh(x);
  if (user != NULL) mark(a, "_computation", user);
  const ls_nest y =
      ls_while(keep_on, double_it, user, ls_leaf(ls_add(a, b)), 0);
  if (user != NULL) mark(ls_nest_tensor(y, 0), "_outside", user);
  return y;
}

TEST(functions_that_differ_in_marks_share_a_program) {
  static const char *const marks[] = {NULL, "cluster", "another"};
  ls_function *functions[3];
  char *texts[3];
  LS_OWN(ls_nest, args) = LS_LIST(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){0.5})));
  const size_t before = num_programs();
  for (int i = 0; i < 3; ++i) {
    expect_ok(ls_function_create(
        &(ls_function_options){.call = work,
                               .user = (void *)(uintptr_t)marks[i]},
        &functions[i]));
    LS_OWN(ls_nest, result) = call_results(functions[i], args);
    expect_ok(ls_function_print_lowered(functions[i], &texts[i]));
    assert_string_equal(texts[i], texts[0]);
    assert_int_equal(count_of(texts[i], "tanh("), 1);
    assert_null(strstr(texts[i], "_class"));
    assert_null(strstr(texts[i], "cluster"));
    assert_int_equal(num_programs(), before + 1);
  }
  for (int i = 0; i < 3; ++i)
    ls_text_release(texts[i]);
  expect_ok(ls_graph_print(ls_function_graph(functions[1]), &texts[1]));
  expect_contains(texts[1], "_computation = \"cluster\"");
  expect_contains(texts[1], "_inside = \"cluster\"");
  expect_contains(texts[1], "_outside = \"cluster\"");
  expect_contains(texts[1], "_class = strings[\"loc:@");
  ls_text_release(texts[1]);
  for (int i = 0; i < 3; ++i)
    ls_function_release(functions[i]);
}

TEST(sessions_that_differ_in_marks_share_a_program) {
  ls_graph *graphs[2];
  ls_session *sessions[2];
  const size_t before = num_programs();
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, y) = ls_none();
    expect_ok(ls_graph_create("g", &graphs[i]));
    {
      LS_GRAPH_SCOPE(graphs[i]);
      const ls_nest x = ls_leaf(ls_scalar(LS_DTYPE_F32, 0.5));
      y = work(x, i == 0 ? NULL : "cluster");
    }
    expect_ok(ls_session_create(graphs[i], &sessions[i]));
    LS_OWN(ls_nest, result) = session_results(sessions[i], y);
    assert_int_equal(num_programs(), before + 1);
  }
  for (int i = 0; i < 2; ++i) {
    ls_session_destroy(sessions[i]);
    ls_graph_destroy(graphs[i]);
  }
}

// ---- Eager -----------------------------------------------------------------
TEST(eager_ops_that_differ_in_marks_share_a_program) {
  ls_runtime_state *all = NULL;
  expect_ok(ls_runtime_state_get(ls_runtime_current(), &all));
  expect_ok(ls_frame_begin());
  const ls_tensor x = scalar_of(3);
  (void)item_of(ls_erf(x));
  const size_t before = ls_map_count(&all->eager_ops);
  const ls_attr attr = {
      .name = "_computation", .kind = LS_ATTR_STRING, .as.string = "cluster"};
  const ls_op op = ls_op_add(&(ls_op_spec){.type = LS_OP_ERF,
                                           .inputs = &x,
                                           .num_inputs = 1,
                                           .attrs = &attr,
                                           .num_attrs = 1});
  (void)item_of(ls_op_output(op, 0));
  assert_int_equal(ls_map_count(&all->eager_ops), before);
  expect_ok(ls_frame_end(NULL));
}

// ---- Replicas --------------------------------------------------------------
// Each replica marks its ops in its own way, inside of a loop too.
static ls_nest mark_own(ls_nest args, void *user) {
  char name[32];
  (void)user;
  snprintf(name, sizeof(name), "replica_%d", ls_replica_number());
  LS_NAME_SCOPE(name);
  const ls_tensor y = beside(ls_abs(ls_nest_tensor(args, 0)));
  mark(y, "_xla_replica_id", name);
  return ls_while(keep_on, double_it, name, ls_leaf(y), 0);
}

// Adds the replica's id to a variable.
static ls_tensor add_id(ls_variable *variable) {
  return ls_variable_assign_add(variable,
                                ls_convert(ls_replica_id(), LS_DTYPE_F32));
}

// Marks a write with cores that there are not, as many as there are replicas.
static ls_nest write_marked(ls_nest args, void *user) {
  (void)args;
  static const int64_t cores[] = {1 << 30, -1, 77};
  const ls_tensor value = add_id(user);
  expect_ok(ls_op_set_attr(
      ls_tensor_op(value),
      &(ls_attr){.name = "_core_copies",
                 .kind = LS_ATTR_INTS,
                 .as.ints = {cores, (size_t)ls_context_replicas()}}));
  return ls_leaf(value);
}

static ls_nest write_marked_by_text(ls_nest args, void *user) {
  (void)args;
  const ls_tensor value = add_id(user);
  mark(value, "_core_copies", "0");
  return ls_leaf(value);
}

TEST(cores_that_there_are_not_are_ignored) {
  static const ls_callback callbacks[] = {write_marked, write_marked_by_text};
  for (int replicas = 2; replicas <= 3; ++replicas)
    for (size_t i = 0; i < 2; ++i) {
      LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
      LS_OWN(ls_variable, variable) = variable_in(
          strategy,
          (variable_kind){.initial = 3,
                          .synchronization = LS_SYNCHRONIZATION_ON_READ});
      LS_OWN(ls_function, function) = unnamed_function(callbacks[i], variable);
      LS_OWN(ls_nest, made) =
          strategy_results(strategy, ls_traced(function), ls_none());
      expect_numbers(made, (double[]){3, 4, 5}, (size_t)replicas);
    }
}

TEST(replicas_may_mark_their_ops_differently) {
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    LS_OWN(ls_nest, args) =
        LS_TUPLE(per_replica_scalars((double[]){1, 2, 3}, (size_t)replicas));
    LS_OWN(ls_function, function) = unnamed_function(mark_own, NULL);
    LS_OWN(ls_nest, made) =
        strategy_results(strategy, ls_traced(function), args);
    LS_OWN(printed, text) = graph_text(ls_function_graph(function));
    expect_contains(text, "_xla_replica_id = \"replica_0\"");
  }
}
