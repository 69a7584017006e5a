// SPDX-License-Identifier: Apache-2.0
//
// A write that is refused leaves every component as it was, in every way to
// run, and the step goes on where it is told so.
#include <stdio.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "distribute/variables/variable.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/variables.h"
#include "support/ways.h"

// What is wrong with a value for a vector of two f32.
typedef enum fault {
  OTHER_SHAPE,
  OTHER_DTYPE,
  LAST_SHAPE,  // The last component alone.
  LAST_DTYPE,
  TOO_MANY,
  NUM_FAULTS,
} fault;

typedef struct writing {
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  ls_write_op op;
  fault fault;
  ls_distributed_kind kind;
} writing;

static const ls_variable_aggregation aggregations[] = {NONE, SUM, MEAN, FIRST};
static const ls_variable_synchronization synchronizations[] = {
    LS_SYNCHRONIZATION_ON_WRITE, ON_READ};

static void make_vector(ways *self) {
  const writing *w = self->user;
  LS_OWN(ls_array, initial) =
      array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){10, 20});
  ways_variable(self,
                &(ls_variable_options){.name = "v",
                                       .initial_array = initial,
                                       .synchronization = w->synchronization,
                                       .aggregation = w->aggregation});
}

static ls_nest vector_of_replica(const ways *self, int step, int r) {
  (void)self, (void)step;
  return LS_TUPLE(ls_nest_array(
      array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){r + 1, r + 1})));
}

static ls_tensor part(const writing *w, bool last) {
  const bool shape =
      w->fault == OTHER_SHAPE || (w->fault == LAST_SHAPE && last);
  const bool dtype =
      w->fault == OTHER_DTYPE || (w->fault == LAST_DTYPE && last);
  return ls_fill(dtype ? LS_DTYPE_I32 : LS_DTYPE_F32, LS_SHAPE(shape ? 3 : 2),
                 1);
}

static ls_status write_it(ways *self, ls_nest value) {
  const writing *w = self->user;
  LS_OWN(ls_nest, after) = ls_none();
  return ls_variable_write(self->variables[0], w->op, value, NULL, &after);
}

// ---- Across replicas -------------------------------------------------------
static ls_status assign_parts(ways *self) {
  const writing *w = self->user;
  ls_nest items[WAYS_MOST_REPLICAS + 1];
  const int count = self->replicas + (w->fault == TOO_MANY);
  for (int i = 0; i < count; ++i)
    items[i] = ls_leaf(part(w, i + 1 == count));
  LS_OWN(ls_nest, value) = ls_nest_distributed(w->kind, items, (size_t)count);
  return write_it(self, value);
}

static ls_nest give_parts(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy, (void)args;
  const ls_status status = assign_parts(user);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static ls_nest merge_write(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), give_parts,
                               ls_leaf(first_argument(args)), self);
}

static ls_nest write_in_replica(ls_nest args, ways *self) {
  const bool last = ls_replica_number() + 1 == self->replicas;
  (void)args;
  const ls_status status = write_it(self, ls_leaf(part(self->user, last)));
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static void hold(const char *name, ls_nest (*step)(ls_nest args, ways *self),
                 const writing *w, bool writes_before) {
  static const char *const faults[NUM_FAULTS] = {
      "other shapes", "other dtypes", "another shape of the last",
      "another dtype of the last", "a part too many"};
  char text[120];
  snprintf(text, sizeof(text), "%s: %s, %s, aggregation %s, of %s", name,
           faults[w->fault],
           w->synchronization == ON_READ ? "ON_READ" : "ON_WRITE",
           ls_aggregation_name(w->aggregation),
           w->kind == LS_MIRRORED ? "Mirrored" : "PerReplica");
  const ways_case c = {.name = text,
                       .user = w,
                       .make = make_vector,
                       .args = vector_of_replica,
                       .step = step,
                       .refused = LS_INVALID_ARGUMENT,
                       .writes_before = writes_before};
  ways_hold(&c, 1);
}

static void hold_ops(const writing *as, bool across) {
  static const ls_write_op ops[] = {LS_WRITE_ASSIGN, LS_WRITE_ADD,
                                    LS_WRITE_SUB};
  writing w = *as;
  const bool on_read = w.synchronization == ON_READ;
  // In a replica what is not aggregated is written at once, in eager.
  const bool own = on_read || w.aggregation == NONE;
  for (size_t o = 0; o < LS_COUNT_OF(ops); ++o) {
    w.op = ops[o];
    // (Its sum's shares are open: that is refused by another code.)
    if (across && on_read && w.aggregation == SUM && w.op != LS_WRITE_ASSIGN)
      continue;
    if (across)
      hold("across", merge_write, &w, false);
    else
      hold("in a replica", write_in_replica, &w, own);
  }
}

TEST(refused_writes_across_replicas_write_nothing) {
  LS_SPEC("V94 V95 V109");
  for (size_t s = 0; s < 2; ++s)
    for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
      for (int f = 0; f < NUM_FAULTS; ++f) {
        writing w = {.synchronization = synchronizations[s],
                     .aggregation = aggregations[a],
                     .fault = (fault)f,
                     .kind = LS_MIRRORED};
        hold_ops(&w, true);
        w.kind = LS_PER_REPLICA;
        hold_ops(&w, true);
      }
}

TEST(refused_writes_in_replicas_write_nothing) {
  LS_SPEC("V96 V97 V105");
  for (size_t s = 0; s < 2; ++s)
    for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
      for (int f = 0; f < TOO_MANY; ++f)
        hold_ops(&(writing){.synchronization = synchronizations[s],
                            .aggregation = aggregations[a],
                            .fault = (fault)f},
                 false);
}

// ---- Going on --------------------------------------------------------------
static ls_nest refused_then_written(ls_strategy *strategy, ls_nest args,
                                    void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  (void)strategy, (void)args;
  expect_status(assign_parts(self), LS_INVALID_ARGUMENT, "");
  const ls_status status = ls_variable_write(
      self->variables[0], LS_WRITE_ADD,
      ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 5)), NULL, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest merge_both(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), refused_then_written,
                               ls_leaf(first_argument(args)), self);
}

static void second_is_written(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    for (int i = 0; i < 2; ++i) {
      ways_expect(self, "a component", ways_value(self, 0, r, i),
                  10 * (i + 1) + 5, 0);
      ways_expect(self, "what a write gives", ways_result(self, 0, r, 0, i),
                  10 * (i + 1) + 5, 0);
    }
}

TEST(a_step_goes_on_behind_a_refused_write) {
  LS_SPEC("V94");
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    for (int f = 0; f < NUM_FAULTS; ++f) {
      const writing w = {.aggregation = aggregations[a],
                         .fault = (fault)f,
                         .kind = LS_MIRRORED};
      ways_hold(&(ways_case){.name = "a refused write, and one behind it",
                             .user = &w,
                             .make = make_vector,
                             .args = vector_of_replica,
                             .step = merge_both,
                             .check = second_is_written},
                1);
    }
}
