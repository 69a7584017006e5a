// SPDX-License-Identifier: Apache-2.0
//
// Steps, summaries and texts of graphs with every request for memory refused.
#include <string.h>

#include "graph/own.h"
#include "lockstep/cross_replica.h"
#include "lockstep/graph_ops.h"
#include "lockstep/hook.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "lockstep/replicate.h"
#include "lockstep/steps.h"
#include "lockstep/strategy_step.h"
#include "lockstep/summary_ops.h"
#include "support/fault.h"
#include "support/inputs.h"
#include "support/memory_files.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "tpu/steps/steps.h"

typedef struct job {
  ls_graph *graph;
  ls_session *session;
  ls_strategy *strategy;
  ls_variable *w;
  ls_optimizer *optimizer;
  ls_distributed_iterator *iterator;
  ls_strategy_step *step;
  ls_step_monitor *monitor;
  ls_summary_writer *writer;
  double value;
} job;

static ls_status make_weight(job *j) {
  return ls_variable_create(
      &(ls_variable_options){.name = "w",
                             .aggregation = LS_AGGREGATION_MEAN,
                             .initial_value = ls_scalar(LS_DTYPE_F32, 5)},
      &j->w);
}

static ls_status begin(void *self) {
  job *j = self;
  LS_RETURN_IF_ERROR(ls_graph_create("g", &j->graph));
  LS_RETURN_IF_ERROR(ls_session_create(j->graph, &j->session));
  LS_RETURN_IF_ERROR(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 1, .momentum = 0.5}, &j->optimizer));
  LS_GRAPH_SCOPE(j->graph);
  return make_weight(j);
}

static ls_status begin_mirrored(void *self) {
  job *j = self;
  LS_RETURN_IF_ERROR(ls_graph_create("g", &j->graph));
  LS_RETURN_IF_ERROR(ls_session_create(j->graph, &j->session));
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 1}, &j->optimizer));
  j->strategy = mirrored_of(2);
  LS_GRAPH_SCOPE(j->graph);
  LS_STRATEGY_SCOPE(j->strategy);
  return make_weight(j);
}

static void end(void *self) {
  job *j = self;
  ls_step_monitor_destroy(j->monitor);
  ls_strategy_step_release(j->step);
  ls_distributed_iterator_release(j->iterator);
  ls_optimizer_release(j->optimizer);
  ls_variable_release(j->w);
  ls_session_destroy(j->session);
  ls_graph_destroy(j->graph);
  ls_summary_writer_release(j->writer);
  ls_strategy_release(j->strategy);
}

static double outcome(void *self) { return ((job *)self)->value; }

static ls_status run(const job *j, ls_nest fetches, ls_nest *results) {
  ls_nest_release(*results);
  *results = ls_none();
  return ls_session_run(j->session, fetches, NULL, 0, results);
}

// First values, what is fetched, and then the value of the weight.
static ls_status run_all(job *j, ls_nest fetches) {
  LS_OWN(ls_nest, results) = ls_none();
  ls_op first = {0};
  ls_tensor read = {0};
  {
    LS_GRAPH_SCOPE(j->graph);
    first = ls_global_initializer();
    read = ls_variable_read(j->w);
  }
  LS_RETURN_IF_ERROR(ls_graph_take_error(j->graph));
  LS_RETURN_IF_ERROR(run(j, ls_nest_op(first), &results));
  LS_RETURN_IF_ERROR(run(j, fetches, &results));
  LS_RETURN_IF_ERROR(run(j, ls_leaf(read), &results));
  j->value = ls_nest_number(results);
  return ls_ok();
}

// ---- Cross-shard optimizers ------------------------------------------------
static ls_nest compute(ls_nest args, void *user) {
  const job *j = user;
  static const int32_t members[] = {1, 0};
  const ls_replica_groups groups = {members, 2, 1};
  ls_optimizer *around = NULL;
  const ls_status status = ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = j->optimizer, .groups = &groups},
      &around);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor loss = ls_mul(ls_variable_read(j->w), x);
  ls_op op = {0};
  {
    LS_EXAMPLES_SCOPE(x);
    op = ls_optimizer_minimize(around, loss);
  }
  ls_optimizer_release(around);
  return LS_LIST(ls_leaf(loss), ls_nest_op(op));
}

static ls_status train(void *self) {
  job *j = self;
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_status status = ls_ok();
  {
    LS_GRAPH_SCOPE(j->graph);
    const ls_tensor x = ls_scalar(LS_DTYPE_F32, 3);
    LS_OWN(ls_nest, inputs) =
        LS_LIST(LS_LIST(ls_leaf(x)), LS_LIST(ls_leaf(ls_square(x))));
    status = ls_nest_status(inputs);
    if (ls_status_is_ok(status))
      status = ls_replicate(compute, j, inputs, NULL, &outputs);
  }
  status = ls_status_join(status, ls_graph_take_error(j->graph));
  if (ls_status_is_ok(status)) status = run_all(j, outputs);
  return status;
}

TEST(cross_shard_steps_survive_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "cross shard",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = train,
                                .outcome = outcome,
                                .end = end});
}

// ---- Summaries -------------------------------------------------------------
static ls_status write_summaries(job *j, ls_op *op) {
  LS_GRAPH_SCOPE(j->graph);
  ls_summary_writer_release(j->writer);
  j->writer = NULL;
  LS_RETURN_IF_ERROR(ls_file_writer_create(
      &(ls_file_writer_options){.folder = "events", .suffix = ".x"},
      &j->writer));
  LS_SUMMARY_SCOPE(j->writer);
  LS_RECORD_SUMMARIES_SCOPE(1);
  *op = ls_summary_scalar("w", ls_scalar(LS_DTYPE_F32, 2),
                          ls_scalar_i64(LS_DTYPE_I64, 3));
  return ls_graph_take_error(j->graph);
}

static ls_status summarize(void *self) {
  job *j = self;
  ls_op op = {0};
  LS_OWN(ls_nest, starts) = ls_none();
  LS_OWN(ls_nest, flushes) = ls_none();
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(write_summaries(j, &op));
  LS_RETURN_IF_ERROR(ls_file_writers_of(j->graph, &starts, &flushes));
  LS_RETURN_IF_ERROR(run(j, starts, &results));
  LS_RETURN_IF_ERROR(run(j, ls_nest_op(op), &results));
  LS_RETURN_IF_ERROR(run(j, flushes, &results));
  j->value = 1;
  return ls_ok();
}

static memory_files files;

static void end_summaries(void *self) {
  end(self);
  memory_files_clear(&files);
}

TEST(summaries_survive_any_failed_request) {
  const ls_file_system system = memory_files_system(&files);
  refuse_each(&(fault_scenario){.name = "summaries",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = summarize,
                                .outcome = outcome,
                                .end = end_summaries,
                                .options = {.file_system = &system}});
}

// ---- Texts -----------------------------------------------------------------
static ls_status load(void *self) {
  job *j = self;
  LS_OWN(printed, text) = NULL;
  LS_OWN(ls_graph, copy) = NULL;
  ls_status status = ls_graph_print(j->graph, &text);
  if (ls_status_is_ok(status)) status = ls_graph_parse(text, NULL, 0, &copy);
  if (ls_status_is_ok(status)) {
    const size_t count =
        ls_graph_collection(copy, LS_COLLECTION_GLOBAL_VARIABLES, NULL, 0);
    j->value = (double)(100 * count + strlen(text));
  }
  return status;
}

TEST(texts_survive_any_failed_request) {
  LS_SPEC("E12");
  refuse_each(&(fault_scenario){.name = "collections in texts",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = load,
                                .outcome = outcome,
                                .end = end});
}

// ---- Steps on an iterator --------------------------------------------------
static ls_nest in_replica(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_convert(ls_nest_tensor(args, 0), LS_DTYPE_F32);
  return ls_leaf(ls_reshape(x, LS_SCALAR));
}

static ls_nest step(ls_step_context *context, ls_nest inputs, void *user) {
  const job *j = user;
  ls_nest made = ls_none();
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(inputs));
  ls_status status = ls_nest_status(args);
  if (ls_status_is_ok(status))
    status =
        ls_strategy_run(j->strategy, ls_plain(in_replica, user), args, &made);
  if (ls_status_is_ok(status))
    status =
        ls_step_context_set_output(context, "x", made, LS_SOME(LS_REDUCE_MEAN));
  if (ls_status_is_ok(status)) return made;
  ls_nest_release(made);
  return ls_fail(status);
}

static ls_status begin_steps(void *self) {
  job *j = self;
  LS_RETURN_IF_ERROR(begin_mirrored(self));
  LS_OWN(ls_nest, data) = distributed(j->strategy, whole_batches(40, 2), NULL);
  return ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
      &j->iterator);
}

// Where it is differs, so what it gives is not looked at.
static ls_status run_steps(void *self) {
  job *j = self;
  LS_OWN(ls_step_context, context) = NULL;
  ls_status status = ls_ok();
  {
    LS_GRAPH_SCOPE(j->graph);
    const ls_nest initial = ls_leaf(ls_scalar(LS_DTYPE_F32, 0));
    status = ls_strategy_run_steps(j->strategy,
                                   &(ls_steps){.fn = step,
                                               .user = j,
                                               .iterator = j->iterator,
                                               .iterations = LS_SOME(3),
                                               .initial = initial},
                                   &context);
  }
  status = ls_status_join(status, ls_graph_take_error(j->graph));
  if (ls_status_is_ok(status)) {
    status = run_all(j, ls_nest_op(ls_step_context_run_op(context)));
    j->value = 1;
  }
  return status;
}

TEST(runs_of_steps_survive_any_failed_request) {
  LS_SPEC("M171");
  refuse_each(&(fault_scenario){.name = "steps on an iterator",
                                .size = sizeof(job),
                                .begin = begin_steps,
                                .act = run_steps,
                                .outcome = outcome,
                                .end = end});
}

// ---- Steps as objects ------------------------------------------------------
static ls_nest make_elements(ls_input_context context, void *user) {
  (void)context;
  (void)user;
  return ls_nest_dataset(whole_batches(40, 1));
}

static ls_tensor loss_of(ls_nest args, void *user) {
  const ls_tensor x = ls_convert(args.as.tensor, LS_DTYPE_F32);
  return ls_reduce_sum(ls_mul(ls_variable_read(((const job *)user)->w), x),
                       LS_ALL_AXES);
}

static ls_status monitor(void *self) {
  job *j = self;
  int64_t done = 0;
  LS_GRAPH_SCOPE(j->graph);
  ls_strategy_step_release(j->step);
  j->step = NULL;
  ls_status status = ls_single_loss_step_create(
      &(ls_single_loss_step_options){.strategy = j->strategy,
                                     .dataset = make_elements,
                                     .loss = loss_of,
                                     .loss_user = j,
                                     .optimizer = j->optimizer,
                                     .iterations_per_step = LS_SOME(2)},
      &j->step);
  if (ls_status_is_ok(status))
    status = ls_step_monitor_create(j->step, j->session, &j->monitor);
  status = ls_status_join(status, ls_graph_take_error(j->graph));
  if (ls_status_is_ok(status))
    status = ls_step_monitor_run_steps(j->monitor, LS_SOME(2), &done);
  if (!ls_status_is_ok(status)) {
    ls_step_monitor_destroy(j->monitor);
    j->monitor = NULL;
  }
  j->value = (double)done;
  return status;
}

TEST(monitors_survive_any_failed_request) {
  LS_SPEC("M170");
  // An element that is read ahead may fail for the run behind the last one.
  refuse_each(&(fault_scenario){.name = "monitored steps",
                                .size = sizeof(job),
                                .begin = begin_mirrored,
                                .act = monitor,
                                .end = end});
}
