// SPDX-License-Identifier: Apache-2.0
//
// A replicated computation in a graph: the ops around it and their names, and
// what a run of it gives.
#include "lockstep/replicate.h"

#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/values.h"

static const char *mark_of(ls_op op, const char *name) {
  const ls_attr *attr = NULL;
  LS_OWN(ls_status, status) = ls_op_attr(op, name, &attr);
  return attr == NULL ? NULL : attr->as.string;
}

static ls_op op_named(const ls_graph *graph, const char *name) {
  ls_op op = {0};
  expect_ok(ls_graph_lookup_op(graph, name, &op));
  return op;
}

static ls_tensor number(double value) { return ls_scalar(LS_DTYPE_F32, value); }

// Inputs of replica r: x = r + 1.
static ls_nest inputs_of(size_t replicas) {
  ls_nest each[16];
  for (size_t r = 0; r < replicas; ++r)
    each[r] = LS_LIST(ls_leaf(number((double)r + 1)));
  return ls_nest_sequence(LS_KIND_LIST, each, replicas);
}

static ls_nest sum_and_double(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_leaf(ls_all_reduce(LS_REDUCE_SUM, x)),
                 ls_leaf(ls_add(x, x)));
}

static void replicate(ls_callback fn, void *user, ls_nest inputs,
                      ls_nest *outputs) {
  *outputs = ls_none();
  expect_ok(ls_replicate(fn, user, inputs, NULL, outputs));
  ls_nest_release(inputs);
}

static double fetch(ls_session *session, ls_nest outputs, size_t replica,
                    size_t i) {
  LS_OWN(ls_nest, result) =
      session_results(session, ls_nest_item(ls_nest_item(outputs, replica), i));
  return ls_nest_number(result);
}

TEST(every_replica_runs_it_on_its_own_values) {
  for (size_t replicas = 1; replicas <= 8; ++replicas) {
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_OWN(ls_session, session) = NULL;
    LS_OWN(ls_nest, outputs) = ls_none();
    {
      LS_GRAPH_SCOPE(graph);
      replicate(sum_and_double, NULL, inputs_of(replicas), &outputs);
    }
    expect_ok(ls_graph_error(graph));
    expect_ok(ls_graph_verify(graph));
    expect_ok(ls_session_create(graph, &session));
    assert_int_equal(ls_nest_count(outputs), replicas);
    const double sum = (double)(replicas * (replicas + 1)) / 2;
    for (size_t r = 0; r < replicas; ++r) {
      assert_true(fetch(session, outputs, r, 0) == sum);
      assert_true(fetch(session, outputs, r, 1) == 2.0 * ((double)r + 1));
    }
  }
}

static ls_nest replicate_in_function(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(ls_leaf(x)), LS_LIST(ls_leaf(ls_mul(x, number(3)))));
  ls_nest outputs = ls_none();
  const ls_status status =
      ls_replicate(sum_and_double, NULL, inputs, NULL, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

TEST(it_is_part_of_a_traced_function) {
  LS_OWN(ls_function, f) = function_of(replicate_in_function, NULL);
  ls_array *x = array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){5});
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(x));
  LS_OWN(ls_nest, results) = ls_none();
  for (int call = 0; call < 2; ++call) {
    expect_ok(ls_function_call(f, args, &results));
    for (size_t r = 0; r < 2; ++r) {
      const ls_nest own = ls_nest_item(results, r);
      assert_true(ls_nest_number(ls_nest_item(own, 0)) == 20);
      assert_true(ls_nest_number(ls_nest_item(own, 1)) == (r == 0 ? 10 : 30));
    }
  }
  assert_int_equal(ls_function_num_traces(f), 1);
  op_named(ls_function_graph(f), "cluster_f/pivot");
}

static ls_nest count_runs(ls_nest args, void *user) {
  (void)args;
  ls_variable *counter = user;
  return ls_nest_op(ls_tensor_op(ls_variable_assign_add(counter, number(1))));
}

// A string that is empty: it went well.
TEST(how_compiling_went_is_told_without_running) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_variable, counter) = NULL;
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_tensor told;
  {
    LS_GRAPH_SCOPE(graph);
    counter = variable_of("counter", LS_DTYPE_F32, LS_SCALAR, (double[]){0});
    expect_ok(ls_split_compile_and_replicate(count_runs, counter, ls_none(),
                                             NULL, &told, &outputs));
  }
  assert_string_equal(mark_of(ls_tensor_op(told), "_tpu_compilation_status"),
                      "cluster");
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, result) =
      session_results(session, ls_nest_op(ls_variable_initializer(counter)));
  expect_ok(ls_session_run(session, ls_leaf(told), NULL, 0, &result));
  assert_int_equal(ls_array_dtype(ls_nest_as_array(result)), LS_DTYPE_STRING);
  const ls_bytes *text = ls_array_data(ls_nest_as_array(result));
  assert_int_equal(text->size, 0);
  ls_array *value = NULL;
  for (int runs = 0; runs < 2; ++runs) {
    expect_ok(ls_session_variable_value(session, counter, &value));
    assert_true(ls_array_f64(value, 0) == runs);
    ls_array_release(value);
    expect_ok(
        ls_session_run(session, ls_nest_item(outputs, 0), NULL, 0, &result));
  }
}

// ---- What is built ---------------------------------------------------------
TEST(the_ops_of_a_computation_have_their_names_and_marks) {
  LS_SPEC("O1 O3 O99 O100 O112 O115");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, again) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    replicate(sum_and_double, NULL, inputs_of(2), &outputs);
    replicate(sum_and_double, NULL, inputs_of(2), &again);
  }
  expect_ok(ls_graph_error(graph));
  static const struct {
    const char *name, *type, *mark;
  } rows[] = {
      {"input0", "tpu_replicated_input", NULL},
      {"cluster/pivot", "no_op", NULL},
      {"tpu_replicate_metadata", "tpu_replicate_metadata", "cluster"},
      {"replicated_input_0", "identity", "cluster"},
      {"all_reduce", "all_reduce", "cluster"},
      {"add", "add", "cluster"},
      {"identity", "identity", "cluster"},
      {"no_op", "no_op", "cluster"},
      {"output0", "tpu_replicated_output", NULL},
      {"output1", "tpu_replicated_output", NULL},
      {"output_0_shard_0", "identity", NULL},
      {"output_0_shard_1", "identity", NULL},
      {"output_1_shard_1", "identity", NULL},
      {"input0_1", "tpu_replicated_input", NULL},
      {"cluster_1/pivot", "no_op", NULL},
      {"tpu_replicate_metadata_1", "tpu_replicate_metadata", "cluster_1"},
      {"replicated_input_0_1", "identity", "cluster_1"},
      {"all_reduce_1", "all_reduce", "cluster_1"},
      {"output_0_shard_0_1", "identity", NULL},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    const ls_op op = op_named(graph, rows[i].name);
    assert_string_equal(ls_op_type_name(op), rows[i].type);
    const char *mark = mark_of(op, "_tpu_replicate");
    assert_int_equal(mark == NULL, rows[i].mark == NULL);
    if (mark != NULL) assert_string_equal(mark, rows[i].mark);
    assert_int_equal(ls_op_is_replicated(op), mark != NULL);
  }
  assert_string_equal(
      mark_of(op_named(graph, "cluster/pivot"), "_pivot_for_cluster"),
      "cluster");
  const ls_attr *attr = NULL;
  expect_status(ls_op_attr(op_named(graph, "input0"), "_tpu_replicate", &attr),
                LS_NOT_FOUND, "input0");
  LS_OWN(printed, text) = graph_text(graph);
  assert_non_null(strstr(text, "_tpu_replicate = \"cluster_1\""));
}

// The text holds all of it: what is read back runs alike.
TEST(it_is_read_back_from_text) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_graph, parsed) = NULL;
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    replicate(sum_and_double, NULL, inputs_of(3), &outputs);
  }
  LS_OWN(printed, text) = graph_text(graph);
  expect_ok(ls_graph_parse(text, NULL, 0, &parsed));
  LS_OWN(printed, again) = graph_text(parsed);
  assert_string_equal(text, again);
  expect_ok(ls_session_create(parsed, &session));
  const ls_op op = op_named(parsed, "output_0_shard_2");
  LS_OWN(ls_nest, result) =
      session_results(session, ls_leaf(ls_op_output(op, 0)));
  assert_true(ls_nest_number(result) == 6);
}
