// SPDX-License-Identifier: Apache-2.0
//
// What a replica starts with, and that what it changes is its own.
#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/handles.h"
#include "lockstep/summary.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/variables.h"

typedef struct starts {
  ls_graph *graph;  // Where ops go.
  bool eager;
  ls_op control;
  int creations;
  const char *names[2], *wanted_names[2];
  size_t controls[2];
  bool caching[2], recording;
} starts;

// Notes what it finds, changes all it can and, while that is changed, lets the
// other replicas look.
static ls_nest look_and_change(ls_nest args, void *user) {
  starts *s = user;
  (void)args;
  const int r = ls_replica_number();
  assert_ptr_equal(ls_graph_current(), s->graph);
  assert_int_equal(ls_graph_is_eager(ls_graph_current()), s->eager);
  s->names[r] = ls_name_scope_current();
  s->caching[r] = ls_in_caching_scope();
  s->controls[r] = ls_op_num_control_inputs(ls_tensor_op(scalar_of(1)));
  // The creators of the caller are asked, the replica's own come first.
  int own = 0;
  ls_variable *v = NULL;
  {
    LS_CREATOR_SCOPE(count_creation, &own);
    LS_NAME_SCOPE("mine");
    LS_CONTROL_SCOPE(NULL, 0);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32}, &v));
    const ls_nest merged = ls_replica_merge_call(ls_replica_context(),
                                                 merge_none, ls_none(), NULL);
    expect_ok(ls_nest_status(merged));
    assert_int_equal(own, 1);
  }
  ls_variable_release(v);
  // As it was found, whatever others have changed meanwhile.
  assert_string_equal(ls_name_scope_current(), s->names[r]);
  assert_int_equal(ls_op_num_control_inputs(ls_tensor_op(scalar_of(1))),
                   s->controls[r]);
  return ls_none();
}

static void run_starts(ls_strategy *strategy, starts *s) {
  s->graph = ls_graph_current();
  s->creations = 0;
  {
    LS_CREATOR_SCOPE(count_creation, &s->creations);
    const char *names = ls_name_scope_current();
    ls_nest_release(run_on(strategy, look_and_change, ls_none(), s));
    assert_string_equal(ls_name_scope_current(), names);
    assert_int_equal(ls_in_caching_scope(), s->caching[0]);
  }
  // Replica 0 makes the variable: a component for each device.
  assert_int_equal(s->creations, 2);
}

TEST(a_replica_starts_with_what_the_caller_has) {
  LS_SPEC("M158");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  starts s = {.eager = true};
  {
    LS_CACHING_SCOPE;
    run_starts(strategy, &s);
  }
  assert_true(s.caching[0] && s.caching[1]);
  run_starts(strategy, &s);
  assert_false(s.caching[0] || s.caching[1]);
  // In a graph with names and control dependencies.
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_NAME_SCOPE("outer");
    const ls_op first = ls_tensor_op(ls_scalar(LS_DTYPE_F32, 0));
    {
      LS_CONTROL_SCOPE(&first, 1);
      s = (starts){.eager = false};
      run_starts(strategy, &s);
      assert_string_equal(s.names[0], "outer/");
      assert_string_equal(s.names[1], "outer/replica_1/");
      assert_int_equal(s.controls[0], 1);
      assert_int_equal(s.controls[1], 1);
    }
  }
}

static ls_nest read_variable(ls_nest args, void *user) {
  (void)args;
  expect_ok(ls_tensor_status(ls_variable_read(user)));
  return ls_none();
}

static void count_record(void *user, const ls_summary_record *record) {
  (void)record;
  ++*(int *)user;
}

static ls_nest summarize(ls_nest args, void *user) {
  (void)args;
  (void)user;
  ls_summary("x", scalar_of(1));
  return ls_none();
}

TEST(recording_and_summaries_are_as_the_callers) {
  LS_SPEC("M158");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){0}), *read[4];
  ls_tape *tape = NULL;
  expect_ok(ls_tape_begin(&tape));
  {
    LS_STOP_RECORDING_SCOPE;
    ls_nest_release(run_on(strategy, read_variable, ls_none(), v));
  }
  assert_int_equal(ls_tape_variables(tape, read, 4), 0);
  ls_nest_release(run_on(strategy, read_variable, ls_none(), v));
  assert_int_equal(ls_tape_variables(tape, read, 4), 2);
  expect_ok(ls_tape_end(tape));
  ls_tape_release(tape);
  int records = 0;
  LS_OWN(ls_summary_writer, writer) = NULL;
  expect_ok(ls_summary_writer_create(count_record, &records, &writer));
  ls_nest_release(run_on(strategy, summarize, ls_none(), NULL));
  assert_int_equal(records, 0);
  {
    LS_SUMMARY_SCOPE(writer);
    ls_nest_release(run_on(strategy, summarize, ls_none(), NULL));
  }
  assert_int_equal(records, 1);
  ls_variable_release(v);
}
