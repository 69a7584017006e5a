// SPDX-License-Identifier: Apache-2.0
//
// Every op, as a user calls it, against the reference: over random shapes,
// attributes and operands, for every dtype that it takes, in a traced function
// and in eager. LS_TEST_SEED repeats a failure.
#include <stdio.h>

#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/op_case.h"
#include "support/sanitizer.h"
#include "support/values.h"

enum {
  ROUNDS = LS_SANITIZED ? 4 : 12,
  MOST_ROWS = 200,
  MOST_RESULTS = 16,
  MOST_TEXT = 200
};

static ls_nest trace(ls_nest args, void *user) {
  ls_tensor xs[TRIAL_OPERANDS];
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    xs[i] = ls_nest_tensor(args, i);
  return trial_make(user, xs);
}

static ls_nest operands_of(const trial *t) {
  ls_nest leaves[TRIAL_OPERANDS];
  for (size_t i = 0; i < t->count; ++i)
    leaves[i] = ls_nest_array(ls_array_retain(t->operand[i]));
  return ls_nest_sequence(LS_KIND_LIST, leaves, t->count);
}

static bool holds_op(const ls_graph *graph, uint16_t op) {
  for (size_t n = 0; n < graph->num_nodes; ++n) {
    const ls_node *node = graph->nodes[n];
    if (node->type == op) return true;
    for (uint32_t r = 0; r < node->num_regions; ++r)
      if (holds_op(ls_graph_resolve(node->regions[r]), op)) return true;
  }
  return false;
}

// The results that the reference gives, and the value that it leaves in the
// trial's variable.
typedef struct wanted {
  ref_run *run;
  ref_tensor results[MOST_RESULTS];
  ref_tensor variable;
  const char *name;
} wanted;

static void expect_results(const wanted *w, const trial *t, ls_nest results,
                           const char *how) {
  ls_nest leaves[MOST_RESULTS];
  const size_t count = ls_nest_flatten(results, leaves, MOST_RESULTS);
  const double slack = t->row->slack == 0 ? 1 : t->row->slack;
  for (size_t i = 0; i < count; ++i) {
    char what[MOST_TEXT];
    snprintf(what, sizeof(what), "%s of %s, result %zu, %s", w->name,
             ls_dtype_name(t->dtype), i, how);
    LS_OWN(ls_array, array) = NULL;
    if (leaves[i].kind == LS_KIND_TENSOR)
      expect_ok(ls_tensor_value(leaves[i].as.tensor, &array));
    else
      array = ls_array_retain(ls_nest_as_array(leaves[i]));
    assert_true(ls_array_dtype(array) == w->results[i].type.dtype);
    assert_true(
        ls_shape_equal(ls_array_shape(array), w->results[i].type.shape));
    ref_expect(what, &w->results[i], ls_array_data(array), slack);
  }
  if (t->variable == NULL) return;
  LS_OWN(ls_array, value) = variable_array(t->variable);
  ref_expect(w->name, &w->variable, ls_array_data(value), slack);
}

// What the reference says about the graph that was traced.
static void evaluate(wanted *w, const trial *t, const ls_graph *graph,
                     const ls_array *before) {
  ref_tensor arguments[TRIAL_OPERANDS];
  assert_int_equal(graph->num_parameters, t->count);
  assert_true(graph->num_results <= MOST_RESULTS);
  for (size_t i = 0; i < t->count; ++i)
    arguments[i] = ref_tensor_load(
        w->run,
        (ls_type){ls_array_dtype(t->operand[i]), ls_array_shape(t->operand[i])},
        ls_array_data(t->operand[i]));
  if (t->variable != NULL)
    ref_set_variable(w->run, t->variable,
                     ref_tensor_load(w->run,
                                     (ls_type){ls_array_dtype(before),
                                               ls_array_shape(before)},
                                     ls_array_data(before)));
  ref_evaluate_graph(w->run, graph, arguments, w->results);
  if (t->variable != NULL) w->variable = ref_variable(w->run, t->variable);
}

static void check_eager(const wanted *w, const trial *t) {
  ls_tensor xs[TRIAL_OPERANDS];
  expect_ok(ls_frame_begin());
  for (size_t i = 0; i < t->count; ++i)
    xs[i] = ls_tensor_from_array(t->operand[i]);
  const ls_nest results = trial_make(t, xs);
  expect_ok(ls_nest_status(results));
  expect_results(w, t, results, "eager");
  ls_nest_release(results);
  expect_ok(ls_frame_end(NULL));
}

static void check_trial(trial *t) {
  const char *name = ls_op_table[t->row->op].name;
  wanted w = {.run = ref_run_create(), .name = name};
  ls_array *before = NULL;
  if (t->variable != NULL) expect_ok(ls_variable_value(t->variable, &before));
  ls_function *function = unnamed_function(trace, t);
  const ls_nest operands = operands_of(t);
  ls_nest results = ls_none();
  ls_status status = ls_function_call(function, operands, &results);
  if (!ls_status_is_ok(status))
    fail_msg("%s of %s: %s; seed %llu", name, ls_dtype_name(t->dtype),
             ls_status_message(status), (unsigned long long)loop_random_seed());
  const ls_graph *graph = ls_function_graph(function);
  if (!holds_op(graph, t->row->op))
    fail_msg("a case of %s does not use it", name);
  evaluate(&w, t, graph, before);
  expect_results(&w, t, results, "traced");
  if (t->round == 0 && !t->row->in_graphs) {
    if (t->variable != NULL)
      expect_ok(ls_variable_set_value(t->variable, before));
    check_eager(&w, t);
  }
  ls_nest_release(results);
  ls_nest_release(operands);
  ls_function_release(function);
  ls_array_release(before);
  ref_run_destroy(w.run);
}

static void expect_refused(trial *t) {
  const char *name = ls_op_table[t->row->op].name;
  LS_OWN(ls_function, function) = unnamed_function(trace, t);
  LS_OWN(ls_nest, operands) = operands_of(t);
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_status, status) = ls_function_call(function, operands, &results);
  if (ls_status_code(status) != LS_UNIMPLEMENTED &&
      ls_status_code(status) != LS_INVALID_ARGUMENT)
    fail_msg("%s of %s is not refused", name, ls_dtype_name(t->dtype));
}

// Draws the same for a row, whatever rows stand before it.
static void check_row(void **state) {
  const op_case *row = *state;
  loop_random random = {loop_random_seed()};
  for (ls_dtype dtype = LS_DTYPE_F64; dtype <= LS_DTYPE_BOOL; ++dtype) {
    const bool takes = (row->dtypes >> dtype & 1U) != 0;
    for (int round = 0; round < (takes ? ROUNDS : 1); ++round) {
      trial t;
      trial_init(&t, row, dtype, round, &random);
      if (takes)
        check_trial(&t);
      else
        expect_refused(&t);
      trial_deinit(&t);
    }
  }
}

static int run_rows(const unit_tests *tests) {
  return op_case_tests_run(tests, NULL, check_row,
                           "gives what the reference gives");
}
TEST_FILE(.run = run_rows)
