// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a loop uses the values that a variable had in the loop,
// whoever writes it in the loop or after it.
#include "support/ways.h"

#include <math.h>

#include "distribute/own.h"
#include "graph/own.h"
#include "lockstep/flow.h"
#include "lockstep/function.h"
#include "lockstep/handles.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/merges.h"
#include "support/values.h"
#include "support/variables.h"

enum { TRIPS = 3, MOVED = 10 };

static ls_tensor f32_of(double value) { return ls_scalar(LS_DTYPE_F32, value); }

// ---- Who writes ------------------------------------------------------------
// Each adds MOVED and returns what it has written.
static ls_nest add_in_merge(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy, (void)args;
  return ls_leaf(ls_variable_assign_add(user, f32_of(MOVED)));
}

static ls_nest assign_in_merge(ls_strategy *strategy, ls_nest args,
                               void *user) {
  (void)strategy, (void)args;
  return ls_leaf(
      ls_variable_assign(user, ls_add_scalar(ls_variable_read(user), MOVED)));
}

static ls_nest add_to_component(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_variable_assign_add(
      ls_nest_as_variable(ls_nest_item(args, 0)), f32_of(MOVED)));
}

static ls_nest update_in_merge(ls_strategy *strategy, ls_nest args,
                               void *user) {
  LS_OWN(ls_nest, given) = ls_none();
  ls_tensor sum = f32_of(0);
  (void)args;
  const ls_status status = ls_strategy_update(strategy, user, add_to_component,
                                              ls_none(), NULL, false, &given);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  for (size_t i = 0; i < ls_nest_count(given); ++i)
    sum = ls_add(sum, ls_nest_tensor(given, i));
  return ls_leaf(sum);
}

// The sum of what all components have become depends on all writes.
static ls_nest write_components(ls_variable *w, bool by_handle) {
  ls_tensor sum = f32_of(0);
  for (size_t i = 0; i < ls_variable_num_components(w); ++i) {
    ls_variable *component = ls_variable_component(w, i);
    LS_OWN(ls_variable, handle) = NULL;
    expect_ok(ls_caching_variable_create(component, &handle));
    sum = ls_add(sum, ls_variable_assign_add(by_handle ? handle : component,
                                             f32_of(MOVED)));
  }
  return ls_leaf(sum);
}

static ls_nest components_in_merge(ls_strategy *strategy, ls_nest args,
                                   void *user) {
  (void)strategy, (void)args;
  return write_components(user, false);
}

static ls_nest handles_in_merge(ls_strategy *strategy, ls_nest args,
                                void *user) {
  (void)strategy, (void)args;
  return write_components(user, true);
}

typedef struct writer {
  const char *name;
  ls_merge_function merge;  // NULL: each replica writes.
} writer;
static const writer writers[] = {
    {"add", add_in_merge},         {"assign", assign_in_merge},
    {"update", update_in_merge},   {"components", components_in_merge},
    {"handles", handles_in_merge}, {"replicas", NULL},
};

// ---- From which place ------------------------------------------------------
typedef struct place {
  const writer *writer;
  bool in_branch, in_call, in_loop, loop_in_call, reads_component;
} place;

// Replicas meet in their callback only.
static bool is_inside(const place *at) {
  return at->in_branch || at->in_call || at->in_loop;
}

static void make_weight(ways *self) {
  LS_OWN(ls_array, initial) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){0.75});
  ways_variable(self, &(ls_variable_options){
                          .name = "w",
                          .initial_array = initial,
                          .aggregation = is_inside(self->user) ? NONE : MEAN});
}

static ls_nest write_here(ls_nest none, void *user) {
  ways *self = user;
  const place *at = self->user;
  ls_variable *w = self->variables[0];
  ls_tensor written = ls_failed_tensor();
  (void)none;
  if (at->writer->merge == NULL)
    return ls_leaf(ls_variable_assign_add(w, f32_of(MOVED)));
  LS_OWN(ls_nest, got) = ls_replica_merge_call(ls_replica_context(),
                                               at->writer->merge, ls_none(), w);
  const ls_status status = ls_distributed_as_tensor(got, &written);
  return ls_status_is_ok(status) ? ls_leaf(written) : ls_fail(status);
}

static ls_nest write_nothing(ls_nest none, void *user) {
  (void)none, (void)user;
  return ls_leaf(f32_of(0));
}

// Returns what the writer gives.
static ls_nest write_at(ways *self) {
  const place *at = self->user;
  if (at->in_branch)
    return ls_cond(ls_less(f32_of(1), f32_of(2)), write_here, write_nothing,
                   self);
  if (!at->in_call) return write_here(ls_none(), self);
  LS_OWN(ls_function, function) = NULL;
  ls_nest given = ls_none();
  expect_ok(ls_function_create(
      &(ls_function_options){.call = write_here, .user = self}, &function));
  return taken(ls_function_call(function, ls_none(), &given), &given);
}

static ls_tensor with_write(ls_tensor y, ways *self) {
  LS_OWN(ls_nest, written) = write_at(self);
  expect_ok(ls_nest_status(written));
  const ls_op op = ls_tensor_op(written.as.tensor);
  LS_CONTROL_SCOPE(&op, 1);
  return ls_identity(y);
}

// ---- The loop --------------------------------------------------------------
static ls_nest is_below(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), f32_of(TRIPS)));
}

static ls_nest multiply_sine(ls_nest values, void *user) {
  ways *self = user;
  const place *at = self->user;
  ls_variable *w = self->variables[0];
  const ls_tensor factor =
      ls_variable_read(at->reads_component ? ls_variable_component(w, 0) : w);
  ls_tensor y = ls_mul(ls_sin(ls_nest_tensor(values, 1)), factor);
  if (at->in_loop) y = with_write(y, self);
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 ls_leaf(y));
}

static ls_nest call_loop(ls_nest args, void *user) {
  return ls_while(is_below, multiply_sine, user,
                  LS_LIST(ls_leaf(f32_of(0)), ls_leaf(argument(args, 0))), 0);
}

static ls_tensor through_loop(ls_nest args, ways *self) {
  const place *at = self->user;
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, last) = ls_none();
  expect_ok(ls_function_create(
      &(ls_function_options){.call = call_loop, .user = self}, &function));
  if (at->loop_in_call)
    expect_ok(ls_function_call(function, args, &last));
  else
    last = call_loop(args, self);
  expect_ok(ls_nest_status(last));
  const ls_tensor y = ls_nest_tensor(last, 1);
  return at->in_loop ? y : with_write(y, self);
}

static ls_nest gradients_of_loop(ls_nest args, ways *self) {
  LS_OWN(ls_nest, w) = ls_nest_variable(self->variables[0]);
  const ls_nest xs[] = {ls_leaf(argument(args, 0)), w};
  ls_tensor y = ls_failed_tensor();
  ls_nest gradients[2] = {0};
  const ls_status status =
      ways_gradients(self, through_loop, args, xs, 2, &y, gradients);
  return ls_status_is_ok(status)
             ? LS_TUPLE(ls_leaf(y), gradients[0], gradients[1])
             : ls_fail(status);
}

// Works it out by hand. The variable's gradient counts what the loop has read.
static void gradients_are_of_the_loop(const ways *self) {
  const place *at = self->user;
  for (int r = 0; r < self->replicas; ++r) {
    double y = r + 1, dx = 1, dw = 0, w = 0.75;
    for (int i = 0; i < TRIPS; ++i) {
      dw = dw * w * cos(y) + sin(y);
      dx *= w * cos(y);
      y = w * sin(y);
      w += at->in_loop ? MOVED : 0;
    }
    ways_expect(self, at->writer->name, ways_result(self, 0, r, 0, 0), y, 1e-4);
    ways_expect(self, at->writer->name, ways_result(self, 0, r, 1, 0), dx,
                1e-3);
    if (!at->reads_component)
      ways_expect(self, at->writer->name, ways_result(self, 0, r, 2, 0), dw,
                  1e-3);
    ways_expect(self, at->writer->name, ways_value(self, 0, r, 0),
                0.75 + MOVED * (at->in_loop ? TRIPS : 1), 1e-6);
  }
}

// Several replicas, and those of a graph, meet in their callback only.
static void hold_place(place at) {
  for (size_t i = 0; i < LS_COUNT_OF(writers); ++i) {
    const bool meets = is_inside(&at) && writers[i].merge != NULL;
    at.writer = &writers[i];
    const ways_case c = {
        .name = writers[i].name,
        .user = &at,
        .make = make_weight,
        .args = number_of_replica,
        .step = gradients_of_loop,
        .check = gradients_are_of_the_loop,
        .without = meets ? 1U << WAY_GRAPH | 1U << WAY_GRAPH_TRACED : 0,
        .one_replica = meets,
        .tolerance = 1e-6,
        .one_table = true};
    ways_hold(&c, 1);
  }
}

TEST(a_write_after_a_loop_does_not_change_its_gradient) {
  hold_place((place){0});
}

TEST(nor_does_one_in_a_branch_or_beside_a_called_function) {
  hold_place((place){.in_branch = true});
  hold_place((place){.in_call = true});
  hold_place((place){.loop_in_call = true});
}

TEST(the_gradient_of_a_loop_uses_what_each_trip_has_read) {
  hold_place((place){.in_loop = true});
}

TEST(a_component_is_read_as_its_variable_is) {
  hold_place((place){.reads_component = true});
}
