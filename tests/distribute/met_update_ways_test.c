// SPDX-License-Identifier: Apache-2.0
//
// A replica updates an aggregated variable with what it has got by meeting the
// others: that is the same on all, in every way to run. What else differs is
// refused.
#include "base/memory/allocator.h"
#include "lockstep/cross_device.h"
#include "lockstep/strategy_extended.h"
#include "support/merges.h"
#include "support/values.h"
#include "support/ways.h"

typedef ls_nest (*making)(ls_nest x, ways *self);

// How a replica makes the value, and what that is on n replicas.
typedef struct value_case {
  const char *name;
  making make;
  double (*wanted)(int n);
} value_case;

typedef struct updating {
  const value_case *value;
  ls_variable_aggregation aggregation;
} updating;

static double sum_of(int n) { return n * (n + 1) / 2.0; }
static double mean_of(int n) { return (n + 1) / 2.0; }
static double first_of(int n) { return n > 0 ? 1 : 0; }

// ---- Values that are the same on all ---------------------------------------
static ls_nest all_reduced(ls_nest x, ways *self) {
  (void)self;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, x.as.tensor));
}

static ls_nest all_reduced_mean(ls_nest x, ways *self) {
  (void)self;
  return ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, x.as.tensor));
}

static ls_nest replica_reduced(ls_nest x, ways *self) {
  (void)self;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, x);
}

static ls_nest weighted(ls_nest x, ways *self) {
  static const double weights[WAYS_MOST_REPLICAS] = {1, 1, 1};
  return ls_replica_weighted_mean(ls_replica_context(), x, weights,
                                  (size_t)self->replicas);
}

// The update adds its elements.
static ls_nest gathered(ls_nest x, ways *self) {
  (void)self;
  return ls_leaf(ls_all_gather(ls_reshape(x.as.tensor, LS_SHAPE(1)), 0));
}

static ls_nest broadcast(ls_nest x, ways *self) {
  (void)self;
  return ls_leaf(ls_collective_broadcast(x.as.tensor, 0));
}

static ls_nest reduce_to_all(ls_strategy *strategy, ls_nest x, void *user) {
  ls_nest sum = ls_none();
  (void)user;
  return taken(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, x,
                                     (ls_destinations){0}, &sum),
               &sum);
}

static ls_nest merged(ls_nest x, ways *self) {
  (void)self;
  return ls_replica_merge_call(ls_replica_context(), reduce_to_all, x, NULL);
}

static ls_nest reduce_to_one(ls_strategy *strategy, ls_nest x, void *user) {
  ls_nest sum = ls_none();
  (void)user;
  return taken(ls_strategy_reduce(strategy, LS_REDUCE_SUM, x, &sum), &sum);
}

static ls_nest merged_to_one(ls_nest x, ways *self) {
  (void)self;
  return ls_replica_merge_call(ls_replica_context(), reduce_to_one, x, NULL);
}

// What an aggregated write gives.
static ls_nest written(ls_nest x, ways *self) {
  ls_nest after = ls_none();
  return taken(
      ls_variable_write(self->variables[1], LS_WRITE_ASSIGN, x, NULL, &after),
      &after);
}

static const value_case same[] = {
    {"a sum", all_reduced, sum_of},
    {"a mean", all_reduced_mean, mean_of},
    {"a replica's sum", replica_reduced, sum_of},
    {"a weighted mean", weighted, mean_of},
    {"what is gathered", gathered, sum_of},
    {"what is broadcast", broadcast, first_of},
    {"what a merge call gives all", merged, sum_of},
    {"what a merge call gives as one", merged_to_one, sum_of},
    {"what a write gives", written, mean_of},
};

// ---- Values that differ ----------------------------------------------------
static ls_nest own(ls_nest x, ways *self) {
  (void)self;
  return ls_nest_retain(x);
}

static ls_nest scattered(ls_nest x, ways *self) {
  const int64_t n = self->replicas;
  const ls_tensor wide =
      ls_broadcast(ls_reshape(x.as.tensor, LS_SHAPE(1)), LS_SHAPE(n));
  return ls_leaf(ls_reduce_scatter(LS_REDUCE_SUM, wide, 0));
}

static ls_nest give_whole(ls_strategy *strategy, ls_nest x, void *user) {
  (void)strategy, (void)user;
  return ls_nest_retain(x);
}

static ls_nest merged_apart(ls_nest x, ways *self) {
  (void)self;
  return ls_replica_merge_call(ls_replica_context(), give_whole, x, NULL);
}

static ls_nest host_number(ls_nest x, ways *self) {
  (void)x, (void)self;
  return ls_nest_f64(ls_replica_number() + 1);
}

static const value_case differing[] = {
    {"its own", own, NULL},
    {"its part of a sum", scattered, NULL},
    {"what a merge call gives each", merged_apart, NULL},
    {"its own number", host_number, NULL},
};

// ---- The step --------------------------------------------------------------
static void make_variables(ways *self) {
  const updating *u = self->user;
  LS_OWN(ls_array, initial) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){10});
  ways_variable(self, &(ls_variable_options){.name = "v",
                                             .initial_array = initial,
                                             .aggregation = u->aggregation});
  ways_variable(self,
                &(ls_variable_options){.name = "w",
                                       .initial_array = initial,
                                       .aggregation = LS_AGGREGATION_MEAN});
}

static ls_nest add_all_of(ls_nest args, void *user) {
  ls_tensor x = ls_failed_tensor();
  ways *self = user;
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 1), &x));
  return ls_leaf(ls_variable_assign_add(self->variables[0],
                                        ls_reduce_sum(x, LS_ALL_AXES)));
}

static ls_nest update_with(ls_nest args, ways *self) {
  const updating *u = self->user;
  ls_tensor x = ls_failed_tensor();
  ls_nest made = ls_none();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  LS_OWN(ls_nest, given) = LS_TUPLE(u->value->make(ls_leaf(x), self));
  ls_status status = ls_nest_status(given);
  if (ls_status_is_ok(status))
    status = ls_strategy_update(self->strategy, self->variables[0], add_all_of,
                                given, self, true, &made);
  return taken(status, &made);
}

static void all_is_added(const ways *self) {
  const updating *u = self->user;
  const double wanted = 10 + u->value->wanted(self->replicas);
  for (int r = 0; r < self->replicas; ++r) {
    ways_expect(self, u->value->name, ways_value(self, 0, r, 0), wanted, 0);
    ways_expect(self, u->value->name, ways_result(self, 0, r, 0, 0), wanted, 0);
  }
}

static const ls_variable_aggregation aggregated[] = {
    LS_AGGREGATION_SUM, LS_AGGREGATION_MEAN, LS_AGGREGATION_ONLY_FIRST_REPLICA};

TEST(what_replicas_have_met_for_updates_aggregated_ones) {
  LS_SPEC("V182 V205");
  for (size_t i = 0; i < LS_COUNT_OF(same); ++i)
    for (size_t a = 0; a < LS_COUNT_OF(aggregated); ++a) {
      const updating u = {&same[i], aggregated[a]};
      ways_hold(&(ways_case){.name = same[i].name,
                             .user = &u,
                             .make = make_variables,
                             .args = number_of_replica,
                             .step = update_with,
                             .check = all_is_added},
                1);
    }
}

TEST(what_differs_updates_no_aggregated_one) {
  LS_SPEC("V182 V205 M136");
  for (size_t i = 0; i < LS_COUNT_OF(differing); ++i)
    for (size_t a = 0; a < LS_COUNT_OF(aggregated); ++a) {
      const updating u = {&differing[i], aggregated[a]};
      ways_hold(
          &(ways_case){
              .name = differing[i].name,
              .user = &u,
              .make = make_variables,
              .args = number_of_replica,
              .step = update_with,
              .replicas_only = true,
              .refused = LS_INVALID_ARGUMENT,
              .says = "replicas must update 'v' with a value equal on all"},
          1);
    }
}
