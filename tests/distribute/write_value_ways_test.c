// SPDX-License-Identifier: Apache-2.0
//
// What a replica may give as the value of a write: a variable is worth its
// components, a distributed value from around the replicas its parts, in every
// way to run. A distributed value of the replica's own making is refused.
#include <stdio.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "distribute/variables/variable.h"
#include "support/merges.h"
#include "support/values.h"
#include "support/variables.h"
#include "support/ways.h"

static const ls_variable_aggregation aggregations[] = {NONE, SUM, MEAN, FIRST};
static const ls_variable_synchronization synchronizations[] = {
    LS_SYNCHRONIZATION_ON_WRITE, ON_READ};

// "v" is written, "w" the value where that is a variable.
typedef struct writing {
  ls_variable_aggregation v, w;
  ls_variable_synchronization v_synchronization, w_synchronization;
  ls_write_op op;
  ls_distributed_kind kind;
  bool tensors;  // Parts are; else host numbers.
} writing;

static void make_scalar(ways *self, const char *name, double initial,
                        ls_variable_synchronization synchronization,
                        ls_variable_aggregation aggregation) {
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, &initial);
  ways_variable(self, &(ls_variable_options){.name = name,
                                             .initial_array = array,
                                             .synchronization = synchronization,
                                             .aggregation = aggregation});
}

static void make_both(ways *self) {
  const writing *w = self->user;
  make_scalar(self, "v", 10, w->v_synchronization, w->v);
  make_scalar(self, "w", 6, w->w_synchronization, w->w);
}

static void hold(const ways_case *as, const writing *w, const char *name) {
  static const char *const ops[] = {"assign", "add", "sub"};
  char text[160];
  ways_case c = *as;
  snprintf(text, sizeof(text), "%s %s: %s %s, %s %s", ops[w->op], name,
           w->v_synchronization == ON_READ ? "ON_READ" : "ON_WRITE",
           ls_aggregation_name(w->v),
           w->w_synchronization == ON_READ ? "ON_READ" : "ON_WRITE",
           ls_aggregation_name(w->w));
  c.name = text;
  c.user = w;
  c.args = number_of_replica;
  ways_hold(&c, 1);
}

static ls_nest written(ways *self, ls_nest value) {
  const writing *w = self->user;
  ls_nest made = ls_none();
  const ls_status status =
      ls_variable_write(self->variables[0], w->op, value, NULL, &made);
  return ls_status_is_ok(status) ? LS_TUPLE(made) : ls_fail(status);
}

// ---- Variables -------------------------------------------------------------
static bool may_differ(const writing *w) {
  return w->w == NONE || w->w_synchronization == ON_READ;
}

// First w gets what is the replicas' own, where it may: 7, 8, 9.
static ls_nest write_variable(ls_nest args, ways *self) {
  ls_op first = {0};
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  if (may_differ(self->user)) {
    const ls_tensor added = ls_variable_assign_add(self->variables[1], x);
    if (self->way == WAY_GRAPH) first = ls_tensor_op(added);
  }
  LS_OWN(ls_nest, value) = ls_nest_variable(self->variables[1]);
  ls_nest made = ls_none();
  {
    LS_CONTROL_SCOPE(&first, first.id != 0 ? 1 : 0);
    made = written(self, value);
  }
  return made;
}

static void variable_is_put(const ways *self) {
  const writing *w = self->user;
  const int n = self->replicas;
  const double sum = 6 * n + n * (n + 1) / 2.0;
  const double value = !may_differ(w) ? 6
                       : w->v == SUM  ? sum
                       : w->v == MEAN ? sum / n
                                      : 7;
  const double wanted = w->op == LS_WRITE_ASSIGN ? value
                        : w->op == LS_WRITE_ADD  ? 10 + value
                                                 : 10 - value;
  for (int r = 0; r < n; ++r) {
    ways_expect(self, "a component", ways_value(self, 0, r, 0), wanted, 1e-5);
    ways_expect(self, "what is given", ways_result(self, 0, r, 0, 0), wanted,
                1e-5);
  }
}

TEST(a_variable_is_worth_its_components_in_every_way) {
  LS_SPEC("V99 V100");
  static const ls_write_op ops[] = {LS_WRITE_ASSIGN, LS_WRITE_ADD,
                                    LS_WRITE_SUB};
  for (size_t o = 0; o < LS_COUNT_OF(ops); ++o)
    for (size_t v = 1; v < LS_COUNT_OF(aggregations); ++v)
      for (size_t s = 0; s < 2; ++s)
        for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a) {
          const writing w = {.v = aggregations[v],
                             .w = aggregations[a],
                             .w_synchronization = synchronizations[s],
                             .op = ops[o]};
          ways_case c = {.make = make_both,
                         .step = write_variable,
                         .check = variable_is_put};
          // What is the same on all has no sum.
          const bool refused = w.v == SUM && !may_differ(&w);
          c.one_replica = refused;
          hold(&c, &w, "a variable");
          if (!refused) continue;
          hold(&(ways_case){.make = make_both,
                            .step = write_variable,
                            .replicas_only = true,
                            .refused = LS_INVALID_ARGUMENT,
                            .says = "SUM"},
               &w, "a variable");
        }
}

TEST(a_variable_is_refused_where_nothing_says_what_it_makes) {
  LS_SPEC("V100 V112");
  for (size_t v = 0; v < LS_COUNT_OF(aggregations); ++v)
    for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a) {
      writing w = {.v = NONE,
                   .v_synchronization =
                       v == 0 ? LS_SYNCHRONIZATION_ON_WRITE : ON_READ,
                   .w = aggregations[a]};
      if (v > 0) w.v = aggregations[v];
      hold(&(ways_case){.make = make_both,
                        .step = write_variable,
                        .refused = LS_INVALID_ARGUMENT,
                        .says = "distributed",
                        .writes_before = true},
           &w, "a variable");
    }
}

// ---- Across replicas -------------------------------------------------------
static ls_nest give_variable(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  (void)strategy, (void)args;
  LS_OWN(ls_nest, value) = ls_nest_variable(self->variables[1]);
  return written(self, value);
}

static ls_nest merge_variable(ls_nest args, ways *self) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  return ls_replica_merge_call(ls_replica_context(), give_variable, ls_leaf(x),
                               self);
}

TEST(an_on_read_variable_is_no_value_across_replicas) {
  LS_SPEC("V95 V112");
  for (size_t s = 0; s < 2; ++s)
    for (size_t v = 1; v < LS_COUNT_OF(aggregations); ++v)
      for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
        hold(&(ways_case){.make = make_both,
                          .step = merge_variable,
                          .refused = LS_INVALID_ARGUMENT,
                          .says = "distributed"},
             &(writing){.v = aggregations[v],
                        .v_synchronization = synchronizations[s],
                        .w = aggregations[a],
                        .w_synchronization = ON_READ},
             "a variable across");
}

// ---- Plain variables -------------------------------------------------------
static void make_plain(ways *self) {
  const writing *w = self->user;
  make_scalar(self, "v", 10, w->v_synchronization, w->v);
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){6});
  ways_variable(self, &(ls_variable_options){.name = "w",
                                             .initial_array = array,
                                             .single_device = "/cpu:0"});
}

static ls_nest write_plain(ls_nest args, ways *self) {
  (void)args;
  LS_OWN(ls_nest, value) = ls_nest_variable(self->variables[1]);
  return written(self, value);
}

static void six_is_put(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    ways_expect(self, "a component", ways_value(self, 0, r, 0), 6, 0);
}

TEST(a_plain_variable_is_one_value_in_every_way) {
  LS_SPEC("V99");
  for (size_t v = 0; v < LS_COUNT_OF(aggregations); ++v)
    for (size_t s = 0; s < 2; ++s) {
      const writing w = {.v = aggregations[v],
                         .v_synchronization = synchronizations[s]};
      const bool refused = w.v == SUM && s == 0;
      hold(&(ways_case){.make = make_plain,
                        .step = write_plain,
                        .check = six_is_put,
                        .one_replica = refused},
           &w, "a plain variable");
      if (!refused) continue;
      hold(&(ways_case){.make = make_plain,
                        .step = write_plain,
                        .replicas_only = true,
                        .refused = LS_INVALID_ARGUMENT,
                        .says = "SUM"},
           &w, "a plain variable");
    }
}

// ---- Parts of a replica's own making ---------------------------------------
static void make_one(ways *self) {
  const writing *w = self->user;
  make_scalar(self, "v", 10, w->v_synchronization, w->v);
}

static ls_nest write_own_parts(ls_nest args, ways *self) {
  const writing *w = self->user;
  ls_tensor x = ls_failed_tensor();
  ls_nest items[WAYS_MOST_REPLICAS];
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  for (int i = 0; i < self->replicas; ++i)
    items[i] =
        w->tensors ? ls_leaf(ls_mul_scalar(x, i + 1)) : ls_nest_f64(i + 1);
  LS_OWN(ls_nest, value) =
      ls_nest_distributed(w->kind, items, (size_t)self->replicas);
  return written(self, value);
}

static void parts_are_together(const ways *self) {
  const writing *w = self->user;
  const int n = self->replicas;
  const double sum = n * (n + 1) / 2.0;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "a component", ways_value(self, 0, r, 0),
                w->v == SUM    ? sum
                : w->v == MEAN ? sum / n
                               : 1,
                1e-6);
}

TEST(parts_of_a_replicas_own_are_refused_in_every_way) {
  LS_SPEC("V100");
  for (int kind = 0; kind < 2; ++kind)
    for (size_t v = 1; v < LS_COUNT_OF(aggregations); ++v) {
      const writing w = {.v = aggregations[v],
                         .kind = kind == 0 ? LS_PER_REPLICA : LS_MIRRORED,
                         .tensors = true};
      // One replica has all parts there are.
      hold(&(ways_case){.make = make_one,
                        .step = write_own_parts,
                        .check = parts_are_together,
                        .one_replica = true},
           &w, "parts");
      hold(&(ways_case){.make = make_one,
                        .step = write_own_parts,
                        .replicas_only = true,
                        .refused = LS_INVALID_ARGUMENT,
                        .says = "give its own part alone"},
           &w, "parts");
    }
}

TEST(the_same_parts_made_by_each_are_one_value_in_every_way) {
  LS_SPEC("V100");
  for (int kind = 0; kind < 2; ++kind)
    for (size_t v = 1; v < LS_COUNT_OF(aggregations); ++v)
      hold(&(ways_case){.make = make_one,
                        .step = write_own_parts,
                        .check = parts_are_together},
           &(writing){.v = aggregations[v],
                      .kind = kind == 0 ? LS_PER_REPLICA : LS_MIRRORED},
           "numbers");
}
