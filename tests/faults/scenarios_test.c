// SPDX-License-Identifier: Apache-2.0
//
// What a program does, with every single request for memory refused in turn:
// there is a status, nothing is lost, and what is tried again works and ends
// with the same number.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "lockstep/layers.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "lockstep/saver.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/fault.h"

// ---- A small world ---------------------------------------------------------
// A line y = w x + b that goes down by Adam, on some replicas.
typedef struct world {
  int replicas;
  ls_strategy *strategy;
  ls_variable *w, *b;
  ls_optimizer *optimizer;
  ls_function *function;
  ls_callback step;
  ls_graph *graph;
  ls_session *session;
  ls_nest fetches, results, args;
} world;

static ls_status vector_of(int64_t count, double first, ls_array **out_array) {
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SHAPE(count), out_array));
  for (int64_t i = 0; i < count; ++i)
    ls_array_set_f64(*out_array, i, first + 0.25 * (double)i);
  return ls_ok();
}

static ls_status make_variable(const char *name, ls_variable **out_variable) {
  LS_OWN(ls_array, initial) = NULL;
  LS_RETURN_IF_ERROR(vector_of(4, 0.5, &initial));
  return ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = initial},
      out_variable);
}

static ls_status make_variables(world *self) {
  LS_RETURN_IF_ERROR(make_variable("w", &self->w));
  LS_RETURN_IF_ERROR(make_variable("b", &self->b));
  return ls_adam_create(NULL, &self->optimizer);
}

// Variables, the optimizer, the function and a batch of two rows a replica.
static ls_status make(world *self) {
  ls_status status = ls_mirrored_strategy_create(
      &(ls_mirrored_options){
          .num_replicas = LS_SOME(self->replicas == 0 ? 1 : self->replicas)},
      &self->strategy);
  LS_RETURN_IF_ERROR(status);
  {
    LS_STRATEGY_SCOPE(self->strategy);
    status = ls_scope_status();
    if (ls_status_is_ok(status)) status = make_variables(self);
  }
  LS_RETURN_IF_ERROR(status);
  if (self->step != NULL)
    LS_RETURN_IF_ERROR(ls_function_create(
        &(ls_function_options){.call = self->step, .user = self},
        &self->function));
  LS_OWN(ls_array, x) = NULL;
  ls_nest split = ls_none();
  LS_RETURN_IF_ERROR(ls_array_create(
      LS_DTYPE_F32, LS_SHAPE(2 * ls_strategy_num_replicas(self->strategy), 4),
      &x));
  for (int64_t i = 0; i < ls_array_num_elements(x); ++i)
    ls_array_set_f64(x, i, 0.125 * (double)(i % 7) - 0.25);
  status = ls_strategy_split(self->strategy, x, &split);
  LS_RETURN_IF_ERROR(status);
  self->args = LS_TUPLE(split);
  return ls_nest_status(self->args);
}

static void drop(void *user) {
  world *self = user;
  ls_nest_release(self->fetches);
  ls_nest_release(self->results);
  ls_nest_release(self->args);
  ls_function_release(self->function);
  ls_optimizer_release(self->optimizer);
  ls_session_destroy(self->session);
  ls_variable_release(self->w);
  ls_variable_release(self->b);
  if (self->graph != NULL) ls_graph_destroy(self->graph);
  if (self->strategy != NULL) ls_strategy_release(self->strategy);
  *self = (world){.replicas = self->replicas, .step = self->step};
}

// The sum of a variable's values, in eager or in the session.
static double sum_of(world *self, ls_variable *variable) {
  LS_OWN(ls_array, value) = NULL;
  ls_variable *part = ls_variable_num_components(variable) > 0
                          ? ls_variable_component(variable, 0)
                          : variable;
  if (self->session != NULL)
    expect_ok(ls_session_variable_value(self->session, part, &value));
  else
    expect_ok(ls_variable_value(part, &value));
  double sum = 0;
  for (int64_t i = 0; i < ls_array_num_elements(value); ++i)
    sum = sum * 3 + ls_array_f64(value, i);
  return sum;
}

static double weights(void *user) {
  world *self = user;
  return sum_of(self, self->w) + 10 * sum_of(self, self->b);
}

// ---- Steps -----------------------------------------------------------------
static ls_tensor loss_of(world *self, ls_tensor x) {
  const ls_tensor y =
      ls_add(ls_mul(x, ls_variable_read(self->w)), ls_variable_read(self->b));
  return ls_reduce_mean(ls_square(ls_tanh(y)), LS_ALL_AXES);
}

static ls_status own(ls_nest args, ls_tensor *out_x) {
  return ls_distributed_as_tensor(ls_nest_item(args, 0), out_x);
}

static ls_nest down(ls_nest args, void *user) {
  world *self = user;
  ls_tensor x;
  const ls_status status = own(args, &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor loss = loss_of(self, x);
  ls_optimizer_minimize(self->optimizer, loss);
  return ls_leaf(loss);
}

static ls_nest down_by_tape(ls_nest args, void *user) {
  world *self = user;
  ls_tape *tape = NULL;
  ls_tensor x;
  ls_status status = own(args, &x);
  if (ls_status_is_ok(status)) status = ls_tape_begin(&tape);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor loss = loss_of(self, x);
  status = ls_optimizer_minimize_tape(self->optimizer, tape, loss);
  ls_tape_release(tape);
  return ls_status_is_ok(status) ? ls_leaf(loss) : ls_fail(status);
}

// Rows 0 and 2 of w alone move.
static ls_nest down_some(ls_nest args, void *user) {
  world *self = user;
  const int32_t rows[] = {2, 0, 2};
  ls_array *indices = NULL;
  ls_tensor x;
  ls_status status = own(args, &x);
  if (ls_status_is_ok(status))
    status = ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(3), rows, &indices);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor some =
      ls_gather(ls_variable_read(self->w), ls_constant(indices), 0);
  ls_array_release(indices);
  const ls_tensor loss = ls_reduce_mean(
      ls_mul(ls_square(some), ls_reduce_mean(x, LS_ALL_AXES)), LS_ALL_AXES);
  ls_optimizer_minimize(self->optimizer, loss);
  return ls_leaf(loss);
}

static ls_nest sum_over_all(ls_strategy *strategy, ls_nest args, void *user) {
  world *self = user;
  ls_nest sum = ls_none();
  LS_OWN(ls_nest, written) = ls_none();
  ls_status status = ls_strategy_reduce(strategy, LS_REDUCE_SUM, args, &sum);
  if (ls_status_is_ok(status))
    status = ls_variable_write(self->b, LS_WRITE_ADD, sum, NULL, &written);
  if (ls_status_is_ok(status)) return sum;
  ls_nest_release(sum);
  return ls_fail(status);
}

static ls_nest merge(ls_nest args, void *user) {
  ls_tensor x;
  const ls_status status = own(args, &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_replica_merge_call(ls_replica_context(), sum_over_all,
                               ls_leaf(ls_reduce_mean(ls_exp(x), LS_AXES(0))),
                               user);
}

static ls_status run(world *self, ls_callable callable) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_nest results = ls_none();
  ls_status status =
      ls_strategy_run(self->strategy, callable, self->args, &results);
  ls_nest_release(results);
  const ls_status ended = ls_frame_end(NULL);
  if (ls_status_is_ok(status)) return ended;
  ls_status_free(ended);
  return status;
}

static ls_status run_function(void *user) {
  world *self = user;
  return run(self, ls_traced(self->function));
}

static ls_status run_plain(void *user) {
  world *self = user;
  return run(self, ls_plain(self->step, self));
}

// ---- Scenarios -------------------------------------------------------------
static ls_status begin_of(world *self, int replicas, ls_callback step) {
  *self = (world){.replicas = replicas, .step = step};
  return make(self);
}

static ls_status make_and_step(void *user) {
  world *self = user;
  drop(self);
  self->step = down;
  LS_RETURN_IF_ERROR(make(self));
  return run_function(self);
}

static ls_status begin_alone(void *user) { return begin_of(user, 1, down); }
static ls_status begin_three(void *user) { return begin_of(user, 3, down); }
static ls_status begin_rows(void *user) { return begin_of(user, 2, down_some); }
static ls_status begin_merge(void *user) { return begin_of(user, 3, merge); }
static ls_status begin_tape(void *user) {
  return begin_of(user, 2, down_by_tape);
}

static ls_status begin_later(void *user) {
  LS_RETURN_IF_ERROR(begin_three(user));
  return run_function(user);
}

// ---- Sessions --------------------------------------------------------------
static ls_status build_step(world *self) {
  LS_RETURN_IF_ERROR(make(self));
  LS_OWN(ls_nest, results) = ls_none();
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 0.75);
  LS_RETURN_IF_ERROR(ls_graph_error(self->graph));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(x));
  ls_op op = {0};
  ls_status status = ls_strategy_run(self->strategy, ls_plain(self->step, self),
                                     args, &results);
  if (ls_status_is_ok(status))
    status = ls_strategy_group(self->strategy, results, "step", &op);
  LS_RETURN_IF_ERROR(status);
  self->fetches = LS_TUPLE(ls_nest_op(op), ls_nest_op(ls_global_initializer()));
  LS_RETURN_IF_ERROR(ls_nest_status(self->fetches));
  return ls_graph_error(self->graph);
}

static ls_nest build_down(ls_nest args, void *user) {
  world *self = user;
  ls_tensor x;
  const ls_status status = own(args, &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_nest_op(ls_optimizer_minimize(self->optimizer, loss_of(self, x)));
}

static ls_status build(void *user) {
  world *self = user;
  drop(self);
  self->replicas = 2;
  self->step = build_down;
  ls_status status = ls_graph_create("built", &self->graph);
  LS_RETURN_IF_ERROR(status);
  {
    LS_GRAPH_SCOPE(self->graph);
    status = ls_scope_status();
    if (ls_status_is_ok(status)) status = build_step(self);
  }
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_session_create(self->graph, &self->session));
  return ls_session_run(self->session, ls_nest_item(self->fetches, 1), NULL, 0,
                        &self->results);
}

static ls_status run_session(void *user) {
  world *self = user;
  return ls_session_run(self->session, ls_nest_item(self->fetches, 0), NULL, 0,
                        &self->results);
}

// ---- Files -----------------------------------------------------------------
static ls_saver saver_of(world *self, ls_variable **variables) {
  variables[0] = self->w;
  variables[1] = self->b;
  const size_t more = ls_optimizer_variables(self->optimizer, variables + 2, 8);
  return (ls_saver){
      .variables = variables, .num_variables = 2 + more, .exact = true};
}

static ls_status save(void *user) {
  ls_variable *variables[10];
  const ls_saver saver = saver_of(user, variables);
  return ls_saver_save(&saver, "faults.safetensors");
}

static ls_status restore(void *user) {
  ls_variable *variables[10];
  const ls_saver saver = saver_of(user, variables);
  return ls_saver_restore(&saver, "faults.safetensors");
}

static ls_status begin_restore(void *user) {
  LS_RETURN_IF_ERROR(begin_later(user));
  LS_RETURN_IF_ERROR(save(user));
  return run_function(user);
}

// What is in the file, by way of another reading.
static double saved(void *user) {
  expect_ok(restore(user));
  return weights(user);
}

// ---- The table -------------------------------------------------------------
#define ROW(name_, begin_, act_, outcome_)                                     \
  {                                                                            \
    .name = (name_), .size = sizeof(world), .begin = (begin_), .act = (act_),  \
    .outcome = (outcome_), .end = drop                                         \
  }

static const fault_scenario rows[] = {
    ROW("made and stepped", NULL, make_and_step, weights),
    ROW("a first step", begin_alone, run_function, weights),
    ROW("on replicas", begin_three, run_function, weights),
    ROW("a later step", begin_later, run_function, weights),
    ROW("sparse rows", begin_rows, run_function, weights),
    ROW("merges, traced", begin_merge, run_function, weights),
    ROW("merges, op by op", begin_merge, run_plain, NULL),
    ROW("by a tape", begin_tape, run_plain, NULL),
    ROW("a graph is built", NULL, build, weights),
    ROW("a session runs", build, run_session, weights),
    ROW("saved", begin_later, save, saved),
    ROW("restored", begin_restore, restore, weights),
};

TEST(what_a_program_does_survives_refused_memory) {
  REFUSE_ROWS(rows);
  unlink("faults.safetensors");
}
