// SPDX-License-Identifier: Apache-2.0
//
// A step of an optimizer that one of its gradients spoils moves no variable, in
// every way to run.
#include <stdio.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/strategy_extended.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/ways.h"

// What is wrong with the gradient of the last of two variables.
typedef enum fault {
  OTHER_SHAPE,
  OTHER_DTYPE,
  FAILED,
  LAST_SHAPE,  // On the last replica alone.
  LAST_DTYPE,
  NUM_FAULTS,
} fault;

static const char *const faults[NUM_FAULTS] = {
    "another shape", "another dtype", "a failed tensor",
    "another shape of the last", "another dtype of the last"};

typedef struct stepping {
  const char *kind;
  ls_optimizer_options options;
  fault fault;
} stepping;

static void make(ways *self) {
  const stepping *s = self->user;
  ways_vector(self, "a", 2, (double[]){10, 20});
  ways_vector(self, "b", 2, (double[]){30, 40});
  expect_ok(ls_optimizer_create(s->kind, &s->options, &self->optimizer));
}

static ls_nest own_vector(const ways *self, int step, int r) {
  (void)self, (void)step;
  return LS_TUPLE(ls_nest_array(
      array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){r + 1, r + 1})));
}

static ls_tensor spoiled(const stepping *s, ls_tensor x, bool last) {
  if (s->fault == OTHER_SHAPE || (s->fault == LAST_SHAPE && last))
    return ls_concatenate((const ls_tensor[]){x, x}, 2, 0);
  if (s->fault == OTHER_DTYPE || (s->fault == LAST_DTYPE && last))
    return ls_convert(x, LS_DTYPE_F64);
  return s->fault == FAILED ? ls_reshape(x, LS_SHAPE(3)) : x;
}

static ls_nest of_op(ls_op op) {
  if (!ls_graph_is_eager(ls_graph_current()) || op.id == 0)
    return LS_TUPLE(ls_nest_op(op));
  const ls_status status = ls_tensor_status(ls_op_output(op, 0));
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static ls_nest apply(ls_nest args, ways *self) {
  const ls_tensor x = first_argument(args);
  const bool last = ls_replica_number() + 1 == self->replicas;
  return of_op(ls_optimizer_apply(
      self->optimizer, self->variables,
      (const ls_nest[]){ls_leaf(x), ls_leaf(spoiled(self->user, x, last))}, 2));
}

static ls_nest apply_across(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_op op = {0};
  const ls_nest gradients[] = {ls_nest_item(args, 0), ls_nest_item(args, 1)};
  (void)strategy;
  const ls_status status = ls_optimizer_apply_across(
      self->optimizer, self->variables, gradients, 2, NULL, &op);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static ls_nest merge_apply(ls_nest args, ways *self) {
  const ls_tensor x = first_argument(args);
  const bool last = ls_replica_number() + 1 == self->replicas;
  LS_OWN(ls_nest, given) =
      LS_TUPLE(ls_leaf(x), ls_leaf(spoiled(self->user, x, last)));
  return ls_replica_merge_call(ls_replica_context(), apply_across, given, self);
}

static void hold(ls_nest (*step)(ls_nest args, ways *self),
                 const stepping *as) {
  for (int f = 0; f < NUM_FAULTS; ++f) {
    stepping s = *as;
    char name[100];
    s.fault = (fault)f;
    snprintf(name, sizeof(name), "%s, %s", s.kind, faults[f]);
    ways_hold(&(ways_case){.name = name,
                           .user = &s,
                           .make = make,
                           .args = own_vector,
                           .step = step,
                           .refused = LS_INVALID_ARGUMENT},
              1);
  }
}

static const stepping steps[] = {
    {.kind = "sgd"},
    {.kind = "adagrad"},
    {.kind = "adam"},
    {.kind = "sgd", .options = {.clip = {.global_norm = 1}}},
    {.kind = "sgd", .options = {.accumulate = 2}},
};

TEST(a_spoiled_gradient_moves_no_variable) {
  for (size_t i = 0; i < LS_COUNT_OF(steps); ++i)
    hold(apply, &steps[i]);
}

TEST(a_spoiled_gradient_moves_nothing_across_replicas) {
  for (size_t i = 0; i < LS_COUNT_OF(steps); ++i)
    hold(merge_apply, &steps[i]);
}
