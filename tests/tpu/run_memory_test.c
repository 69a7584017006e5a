// SPDX-License-Identifier: Apache-2.0
//
// Runs of TPU strategies, and computations that are compiled before they run,
// survive any refused request for memory.
#include "lockstep/object.h"
#include "lockstep/regroup.h"
#include "lockstep/slices.h"
#include "runtime/own.h"
#include "support/computation.h"
#include "support/fault.h"
#include "support/tpu_strategies.h"

// ---- A run ------------------------------------------------------------------
typedef struct job {
  ls_strategy *strategy;
  ls_variable *variable;
  ls_graph *graph;
  ls_session *session;
  ls_nest args, named, result;
} job;

static const char *const names[] = {"v", "x"};

static ls_nest add_names(ls_nest args, void *user) {
  (void)user;
  const ls_nest named = ls_nest_item(args, 1);
  const ls_nest v = ls_nest_find(named, "v");
  const ls_tensor sum =
      ls_add(ls_nest_tensor(args, 0),
             ls_add(ls_nest_find(named, "x").as.tensor,
                    ls_variable_read(ls_nest_as_variable(v))));
  return LS_TUPLE(ls_leaf(sum), ls_none());
}

static ls_nest per_replica(double first) {
  const ls_nest items[] = {
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){first})),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){first + 1}))};
  return ls_nest_distributed(LS_PER_REPLICA, items, 2);
}

static ls_status begin_run(void *self) {
  job *j = self;
  j->strategy = tpu_strategy_of(2);
  LS_STRATEGY_SCOPE(j->strategy);
  j->variable =
      variable_of("v", LS_DTYPE_F32, LS_SCALAR, (const double[]){100});
  j->args = LS_TUPLE(per_replica(1));
  j->named = ls_nest_dict(
      "", names,
      (const ls_nest[]){
          ls_nest_object(LS_KIND_VARIABLE,
                         (ls_object *)ls_variable_retain(j->variable)),
          per_replica(10)},
      2);
  return ls_ok();
}

static ls_status act_run(void *self) {
  job *j = self;
  LS_OWN(ls_function, f) = NULL;
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = add_names, .name = "f"}, &f));
  return ls_strategy_run_with(j->strategy, ls_traced(f), j->args,
                              &(ls_run_options){.named = j->named}, &j->result);
}

static double outcome_of_run(void *self) {
  const ls_nest leaf = ls_nest_item(((job *)self)->result, 0);
  return ls_nest_number(ls_distributed_component(leaf, 0)) +
         1000 * ls_nest_number(ls_distributed_component(leaf, 1));
}

static void end_job(void *self) {
  job *j = self;
  ls_nest_release(j->result);
  ls_nest_release(j->args);
  ls_nest_release(j->named);
  ls_session_destroy(j->session);
  ls_graph_destroy(j->graph);
  ls_variable_release(j->variable);
  ls_strategy_release(j->strategy);
}

TEST(a_run_survives_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "run on a TPU strategy",
                                .size = sizeof(job),
                                .begin = begin_run,
                                .act = act_run,
                                .outcome = outcome_of_run,
                                .end = end_job});
}

// ---- Compiled before it runs ----------------------------------------------
static ls_nest square(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_leaf(ls_mul(x, x)), ls_leaf(ls_neg(x)));
}

static ls_status begin_graph(void *self) {
  return ls_graph_create("g", &((job *)self)->graph);
}

static ls_status build(job *j, ls_tensor *told, ls_nest *outputs) {
  LS_GRAPH_SCOPE(j->graph);
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  ls_status status = ls_nest_status(inputs);
  if (ls_status_is_ok(status))
    status = ls_split_compile_and_replicate(square, NULL, inputs, NULL, told,
                                            outputs);
  const ls_status error = ls_graph_take_error(j->graph);
  return ls_status_join(status, error);
}

static ls_status act_compile(void *self) {
  job *j = self;
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, told_now) = ls_none();
  ls_tensor told;
  ls_status status = build(j, &told, &outputs);
  if (ls_status_is_ok(status) && j->session == NULL)
    status = ls_session_create(j->graph, &j->session);
  if (ls_status_is_ok(status))
    status = ls_session_run(j->session, ls_leaf(told), NULL, 0, &told_now);
  if (ls_status_is_ok(status))
    assert_int_equal(
        ((const ls_bytes *)ls_array_data(ls_nest_as_array(told_now)))->size, 0);
  if (ls_status_is_ok(status))
    status =
        ls_session_run(j->session, ls_nest_item(ls_nest_item(outputs, 1), 0),
                       NULL, 0, &j->result);
  return status;
}

static double outcome_of_compile(void *self) {
  return ls_nest_number(((job *)self)->result);
}

TEST(asking_before_survives_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "compile status",
                                .size = sizeof(job),
                                .begin = begin_graph,
                                .act = act_compile,
                                .outcome = outcome_of_compile,
                                .end = end_job});
}
