// SPDX-License-Identifier: Apache-2.0
//
// Updates, reads across replicas and what replicas make of given values are the
// same in every way to run, and what is refused leaves variables as they were.
// (Fetch and map: fetch_ways_test.c.)
#include "runtime/eager/eager.h"
#include "support/ways.h"

#include <stdlib.h>

#include "base/memory/allocator.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/own.h"
#include "support/merges.h"
#include "support/values.h"
#include "support/variables.h"

static const ls_variable_aggregation aggregations[] = {NONE, SUM, MEAN, FIRST};

typedef struct updating {
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  ls_reduce_op op;
} updating;

static void make_variable(ways *self) {
  const updating *u = self->user;
  LS_OWN(ls_array, initial) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){10});
  ways_variable(self,
                &(ls_variable_options){.name = "v",
                                       .initial_array = initial,
                                       .synchronization = u->synchronization,
                                       .aggregation = u->aggregation});
}

static void hold(const ways_case *as, ls_variable_synchronization s,
                 ls_variable_aggregation a, ls_code refused, const char *says) {
  const updating u = {.synchronization = s, .aggregation = a};
  ways_case c = *as;
  c.user = &u;
  if (c.make == NULL) c.make = make_variable;
  c.args = number_of_replica;
  c.refused = refused;
  c.says = says;
  if (refused != LS_OK) c.check = NULL;
  ways_hold(&c, 1);
}

static const ls_variable_synchronization synchronizations[] = {
    LS_SYNCHRONIZATION_ON_WRITE, ON_READ};

static void hold_all(const ways_case *as) {
  for (size_t s = 0; s < 2; ++s)
    for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
      hold(as, synchronizations[s], aggregations[a], LS_OK, NULL);
}

// ---- Updates across replicas -----------------------------------------------
// The container stands for the component that is updated.
static ls_nest add_ten_times(ls_nest args, void *user) {
  ways *self = user;
  const double u = (double)ls_update_replica_id().value;
  assert_true(ls_in_cross_replica_context());
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 0)),
                   ls_variable_component(self->variables[0], (size_t)u));
  const ls_tensor after = ls_variable_assign_add(
      self->variables[0], ls_add_scalar(argument(args, 1), 10 * (u + 1)));
  return LS_TUPLE(ls_leaf(after),
                  ls_leaf(ls_variable_read(self->variables[0])));
}

static ls_nest update_all(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_nest sum = ls_none(), made = ls_none();
  ls_status status = ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, args,
                                           (ls_destinations){0}, &sum);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_OWN(ls_nest, given) = LS_TUPLE(sum);
  status = ls_strategy_update(strategy, self->variables[0], add_ten_times,
                              given, self, true, &made);
  return taken(status, &made);
}

static ls_nest merge_update(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), update_all,
                               ls_leaf(argument(args, 0)), self);
}

static void components_are_updated(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r) {
    const double wanted = 10 + n * (n + 1) / 2.0 + 10 * (r + 1);
    ways_expect(self, "a component", ways_value(self, 0, r, 0), wanted, 0);
    for (size_t leaf = 0; leaf < 2; ++leaf)
      ways_expect(self, "what an update gives",
                  ways_result(self, 0, r, leaf, 0), wanted, 0);
  }
}

TEST(updates_across_replicas_in_every_way) {
  LS_SPEC("V101 V201 M134 M137 M140");
  hold_all(&(ways_case){
      .name = "update", .step = merge_update, .check = components_are_updated});
}

static ls_nest update_with_what_differs(ls_strategy *strategy, ls_nest args,
                                        void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_nest_retain(args));
  const ls_status status = ls_strategy_update(
      strategy, self->variables[0], add_ten_times, given, self, true, &made);
  return taken(status, &made);
}

static ls_nest merge_what_differs(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), update_with_what_differs,
                               ls_leaf(argument(args, 0)), self);
}

TEST(what_differs_updates_nothing_in_any_way) {
  LS_SPEC("M136");
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    hold(&(ways_case){.name = "what differs",
                      .step = merge_what_differs,
                      .replicas_only = true},
         LS_SYNCHRONIZATION_ON_WRITE, aggregations[a], LS_INVALID_ARGUMENT,
         "PerReplica");
}

// ---- Updates of replicas ---------------------------------------------------
static ls_nest add_argument(ls_nest args, void *user) {
  ways *self = user;
  return LS_TUPLE(
      ls_leaf(ls_variable_assign_add(self->variables[0], argument(args, 1))));
}

static ls_nest update_in_replica(ls_nest args, ways *self, ls_tensor x) {
  ls_nest made = ls_none();
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_leaf(x));
  (void)args;
  const ls_status status =
      ls_strategy_update(self->strategy, self->variables[0], add_argument,
                         given, self, true, &made);
  return taken(status, &made);
}

static ls_nest update_with_own(ls_nest args, ways *self) {
  return update_in_replica(args, self, argument(args, 0));
}

static ls_nest update_with_sum(ls_nest args, ways *self) {
  return update_in_replica(args, self,
                           ls_all_reduce(LS_REDUCE_SUM, argument(args, 0)));
}

static void own_is_added(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    ways_expect(self, "a component", ways_value(self, 0, r, 0), 11 + r, 0);
    ways_expect(self, "what is given", ways_result(self, 0, r, 0, 0), 11 + r,
                0);
  }
}

static void sum_is_added(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "a component", ways_value(self, 0, r, 0),
                10 + n * (n + 1) / 2.0, 0);
}

TEST(updates_of_replicas_in_every_way) {
  LS_SPEC("V182 V205 M134");
  const ways_case own = {.name = "each with its own",
                         .step = update_with_own,
                         .check = own_is_added};
  const ways_case sum = {
      .name = "with a sum", .step = update_with_sum, .check = sum_is_added};
  for (size_t s = 0; s < 2; ++s)
    for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
      if (s == 1 || aggregations[a] == NONE) {
        hold(&own, synchronizations[s], aggregations[a], LS_OK, NULL);
        hold(&sum, synchronizations[s], aggregations[a], LS_OK, NULL);
      }
  ways_case refused = own;
  refused.replicas_only = true;
  for (size_t a = 1; a < LS_COUNT_OF(aggregations); ++a)
    hold(&refused, synchronizations[0], aggregations[a], LS_INVALID_ARGUMENT,
         NULL);
}

// ---- Without a variable ----------------------------------------------------
static ls_nest own_device(ls_nest args, void *user) {
  (void)user;
  const double u = (double)ls_update_replica_id().value;
  return LS_TUPLE(ls_leaf(ls_add_scalar(argument(args, 0), 100 * (u + 1))));
}

static ls_nest update_devices(ls_strategy *strategy, ls_nest args, void *user) {
  const char *devices[WAYS_MOST_REPLICAS];
  size_t count = 0;
  ls_nest everywhere = ls_none(), made = ls_none();
  (void)args, (void)user;
  ls_status status = ls_strategy_non_slot_devices(strategy, NULL, 0, devices,
                                                  LS_COUNT_OF(devices), &count);
  if (ls_status_is_ok(status))
    status =
        ls_strategy_broadcast_to(strategy, ls_leaf(ls_scalar(LS_DTYPE_F32, 5)),
                                 (ls_destinations){0}, &everywhere);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_OWN(ls_nest, given) = LS_TUPLE(everywhere);
  status = ls_strategy_update_non_slot(strategy, devices, count, own_device,
                                       given, NULL, true, &made);
  return taken(status, &made);
}

static ls_nest merge_devices(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), update_devices,
                               ls_leaf(argument(args, 0)), self);
}

static void each_device_gives_its_own(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    ways_expect(self, "a device", ways_result(self, 0, r, 0, 0),
                5 + 100 * (r + 1), 0);
}

TEST(devices_are_updated_in_every_way) {
  LS_SPEC("V206 M139");
  hold(&(ways_case){.name = "devices",
                    .step = merge_devices,
                    .check = each_device_gives_its_own},
       LS_SYNCHRONIZATION_ON_WRITE, NONE, LS_OK, NULL);
}

// ---- Reads across replicas -------------------------------------------------
// What the components 1, 2, 3 are together.
static ls_nest read_across(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  (void)strategy, (void)args;
  const ls_tensor x = ls_variable_read(self->variables[0]);
  const ls_status status = ls_made_status(x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_TUPLE(ls_leaf(x),
                  ls_leaf(ls_variable_as_tensor(self->variables[0])));
}

static ls_nest write_then(ls_nest args, ways *self, ls_merge_function then) {
  ls_nest after = ls_none();
  const ls_status status =
      ls_variable_write(self->variables[0], LS_WRITE_ASSIGN,
                        ls_leaf(argument(args, 0)), NULL, &after);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_op first = {0};
  if (self->way == WAY_GRAPH) first = ls_tensor_op(after.as.tensor);
  ls_nest made = ls_none();
  {
    LS_CONTROL_SCOPE(&first, self->way == WAY_GRAPH ? 1 : 0);
    made = ls_replica_merge_call(ls_replica_context(), then, after, self);
  }
  ls_nest_release(after);
  return made;
}

static ls_nest write_and_read_across(ls_nest args, ways *self) {
  return write_then(args, self, read_across);
}

static void components_are_together(const ways *self) {
  const updating *u = self->user;
  const int n = self->replicas;
  const double sum = n * (n + 1) / 2.0;
  const double wanted = u->aggregation == SUM    ? sum
                        : u->aggregation == MEAN ? sum / n
                                                 : 1;
  for (int r = 0; r < n; ++r)
    for (size_t leaf = 0; leaf < 2; ++leaf)
      ways_expect(self, "what is read", ways_result(self, 0, r, leaf, 0),
                  wanted, 1e-6);
}

TEST(on_read_variables_are_read_together_in_every_way) {
  LS_SPEC("V106");
  const ways_case c = {.name = "reads",
                       .step = write_and_read_across,
                       .check = components_are_together};
  for (size_t a = 1; a < LS_COUNT_OF(aggregations); ++a)
    hold(&c, ON_READ, aggregations[a], LS_OK, NULL);
  ways_case refused = c;
  refused.writes_before = true;
  hold(&refused, ON_READ, NONE, LS_INVALID_ARGUMENT, "NONE");
}

static ls_nest reduce_across(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_nest made[2] = {0};
  (void)args;
  LS_OWN(ls_nest, v) = ls_nest_variable(self->variables[0]);
  ls_status status = ls_strategy_reduce(strategy, LS_REDUCE_SUM, v, &made[0]);
  if (ls_status_is_ok(status))
    status = ls_strategy_reduce(strategy, LS_REDUCE_MEAN, v, &made[1]);
  return taken(status, (ls_nest[]){LS_TUPLE(made[0], made[1])});
}

static ls_nest write_and_reduce(ls_nest args, ways *self) {
  return write_then(args, self, reduce_across);
}

static void op_is_obeyed(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r) {
    ways_expect(self, "a sum", ways_result(self, 0, r, 0, 0), n * (n + 1) / 2.0,
                0);
    ways_expect(self, "a mean", ways_result(self, 0, r, 1, 0), (n + 1) / 2.0,
                1e-6);
  }
}

TEST(on_read_variables_are_reduced_in_every_way) {
  LS_SPEC("V107 M128");
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    hold(&(ways_case){.name = "reduce",
                      .step = write_and_reduce,
                      .check = op_is_obeyed},
         ON_READ, aggregations[a], LS_OK, NULL);
}

// ---- Used in replicas ------------------------------------------------------
static ls_nest use_together(ls_nest args, ways *self) {
  ls_nest after = ls_none();
  ls_tensor all = ls_failed_tensor();
  (void)args;
  ls_status status =
      ls_variable_write(self->variables[0], LS_WRITE_ASSIGN,
                        ls_leaf(argument(args, 0)), NULL, &after);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_op first = {0};
  if (self->way == WAY_GRAPH) first = ls_tensor_op(after.as.tensor);
  {
    LS_CONTROL_SCOPE(&first, self->way == WAY_GRAPH ? 1 : 0);
    {
      LS_SYNC_ON_READ_SCOPE;
      all = ls_variable_as_tensor(self->variables[0]);
    }
  }
  return LS_TUPLE(ls_leaf(all), ls_leaf(ls_identity(all)));
}

TEST(on_read_variables_are_used_together_in_every_way) {
  LS_SPEC("V113");
  const ways_case c = {
      .name = "uses", .step = use_together, .check = components_are_together};
  for (size_t a = 1; a < LS_COUNT_OF(aggregations); ++a)
    hold(&c, ON_READ, aggregations[a], LS_OK, NULL);
  ways_case refused = c;
  refused.writes_before = true;
  hold(&refused, ON_READ, NONE, LS_INVALID_ARGUMENT, "NONE");
}

static ls_nest read_in_scope(ls_nest args, ways *self) {
  ls_tensor x = ls_failed_tensor();
  (void)args;
  {
    LS_SYNC_ON_READ_SCOPE;
    x = ls_variable_read(self->variables[0]);
  }
  return LS_TUPLE(ls_leaf(x));
}

TEST(reads_where_uses_are_aggregated_are_refused) {
  LS_SPEC("V114");
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    hold(&(ways_case){.name = "a read", .step = read_in_scope}, ON_READ,
         aggregations[a], LS_UNIMPLEMENTED, "read");
}

// ---- Values given in a replica ---------------------------------------------
typedef struct given {
  ls_nest value;
} given;

static void make_given(ways *self) {
  ls_nest items[WAYS_MOST_REPLICAS];
  given *g = malloc(sizeof(*g));
  assert_non_null(g);
  make_variable(self);
  for (int r = 0; r < self->replicas; ++r)
    items[r] = ls_nest_f64(r + 1);
  g->value = ls_nest_distributed(LS_PER_REPLICA, items, (size_t)self->replicas);
  self->more = g;
}

static void drop_given(ways *self) {
  HEAP(given, g) = self->more;
  ls_nest_release(g->value);
}

static ls_nest write_given(ls_nest args, ways *self) {
  const given *g = self->more;
  ls_nest after = ls_none();
  (void)args;
  const ls_status status = ls_variable_write(
      self->variables[0], LS_WRITE_ASSIGN, g->value, NULL, &after);
  return taken(status, (ls_nest[]){LS_TUPLE(after)});
}

static void given_is_together(const ways *self) {
  const updating *u = self->user;
  const int n = self->replicas;
  const double sum = n * (n + 1) / 2.0;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "a component", ways_value(self, 0, r, 0),
                u->aggregation == SUM    ? sum
                : u->aggregation == MEAN ? sum / n
                                         : 1,
                1e-6);
}

TEST(a_distributed_value_in_a_replica_in_every_way) {
  LS_SPEC("V100 V112");
  const ways_case c = {.name = "a PerReplica",
                       .make = make_given,
                       .step = write_given,
                       .drop = drop_given,
                       .check = given_is_together};
  for (size_t a = 1; a < LS_COUNT_OF(aggregations); ++a)
    hold(&c, LS_SYNCHRONIZATION_ON_WRITE, aggregations[a], LS_OK, NULL);
  hold(&c, LS_SYNCHRONIZATION_ON_WRITE, NONE, LS_INVALID_ARGUMENT, "NONE");
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    hold(&c, ON_READ, aggregations[a], LS_INVALID_ARGUMENT, "distributed");
}

// In eager an op has run when it is there: nothing is left of it to wrap.
static ls_nest op_then_tensor(ls_nest args, void *user) {
  (void)user;
  const ls_tensor written = ls_variable_assign(
      ls_nest_as_variable(ls_nest_item(args, 0)), ls_scalar(LS_DTYPE_F32, 1));
  return ls_update_replica_id().value == 0 ? ls_nest_op(ls_tensor_op(written))
                                           : ls_leaf(written);
}

TEST(ops_leave_nothing_in_eager) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  ls_nest made = ls_none();
  expect_ok(ls_strategy_update(strategy, v, op_then_tensor, ls_none(), NULL,
                               true, &made));
  assert_int_equal(made.kind, LS_KIND_NONE);
  expect_components(v, (double[]){1, 1}, 2);
}
