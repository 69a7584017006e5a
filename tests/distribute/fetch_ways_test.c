// SPDX-License-Identifier: Apache-2.0
//
// Fetch and map give the same in every way to run; what they refuse leaves
// variables as they were.
#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "distribute/cross_device/cross_device.h"
#include "support/merges.h"
#include "support/values.h"
#include "support/variables.h"
#include "support/ways.h"

static const ls_variable_aggregation aggregations[] = {NONE, SUM, MEAN, FIRST};

// What a step of a case does, in a merge call.
typedef struct place {
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  const char *destination;
  bool times_ten;
  size_t items;
} place;

static void make_variable(ways *self) {
  const place *p = self->user;
  LS_OWN(ls_array, initial) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){10});
  ways_variable(self,
                &(ls_variable_options){.name = "v",
                                       .initial_array = initial,
                                       .synchronization = p->synchronization,
                                       .aggregation = p->aggregation});
}

static ls_tensor tensor_of(ls_nest leaf) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(leaf, &x));
  return x;
}

static void hold(const ways_case *as, const place *p) {
  ways_case c = *as;
  c.user = p;
  c.make = make_variable;
  c.args = number_of_replica;
  ways_hold(&c, 1);
}

// ---- Fetch -----------------------------------------------------------------
static ls_nest times_ten(ls_nest value, void *user) {
  const place *p = user;
  const ls_tensor made = ls_mul_scalar(tensor_of(value), 10);
  // One value for all is worked on where it is asked for.
  if (p->synchronization == ON_READ && p->destination != NULL) {
    ls_device_name device;
    expect_ok(ls_device_canonical(p->destination, NULL, &device));
    assert_string_equal(ls_op_device(ls_tensor_op(made)), device.text);
  }
  return ls_leaf(made);
}

static ls_status fetch_leaf(ls_strategy *strategy, ls_nest leaf, const place *p,
                            ls_nest *out) {
  return ls_strategy_fetch(strategy, leaf, p->destination,
                           p->times_ten ? times_ten : NULL,
                           (void *)(uintptr_t)p, out);
}

static ls_nest fetch_variable(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  (void)args;
  LS_OWN(ls_nest, leaf) = ls_nest_variable(self->variables[0]);
  const ls_status status = fetch_leaf(strategy, leaf, self->user, &made);
  return taken(status, &made);
}

// Each replica writes its own first: components are 1, 2, 3.
static ls_nest write_and_fetch(ls_nest args, ways *self) {
  ls_nest after = ls_none();
  ls_status status = ls_variable_write(self->variables[0], LS_WRITE_ASSIGN,
                                       ls_nest_item(args, 0), NULL, &after);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_op first = {0};
  const bool waits = self->way == WAY_GRAPH;
  if (waits) first = ls_tensor_op(after.as.tensor);
  ls_nest made = ls_none();
  {
    LS_CONTROL_SCOPE(&first, waits ? 1 : 0);
    made = ls_replica_merge_call(ls_replica_context(), fetch_variable, after,
                                 self);
  }
  ls_nest_release(after);
  return made;
}

// The component that a destination means.
static int component_on(const ways *self, const char *destination) {
  return destination != NULL && strcmp(destination, "/cpu:1") == 0 &&
                 self->replicas > 1
             ? 1
             : 0;
}

static void it_is_fetched(const ways *self) {
  const place *p = self->user;
  const int n = self->replicas;
  const double sum = n * (n + 1) / 2.0;
  const double value = p->synchronization != ON_READ
                           ? component_on(self, p->destination) + 1
                       : p->aggregation == SUM  ? sum
                       : p->aggregation == MEAN ? sum / n
                                                : 1;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "what is fetched", ways_result(self, 0, r, 0, 0),
                value * (p->times_ten ? 10 : 1), 1e-5);
}

static const char *const destinations[] = {NULL, "/cpu:1", "/cpu:7"};

TEST(variables_are_fetched_in_every_way) {
  LS_SPEC("M141 M142 M143 M144");
  const ways_case c = {
      .name = "fetch", .step = write_and_fetch, .check = it_is_fetched};
  for (size_t d = 0; d < LS_COUNT_OF(destinations); ++d)
    for (int ten = 0; ten < 2; ++ten) {
      place p = {.destination = destinations[d], .times_ten = ten == 1};
      hold(&c, &p);
      p.synchronization = ON_READ;
      for (size_t a = 1; a < LS_COUNT_OF(aggregations); ++a) {
        p.aggregation = aggregations[a];
        hold(&c, &p);
      }
    }
}

// What each replica has, reduced to all devices.
static ls_nest fetch_sum(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  LS_OWN(ls_nest, sum) = ls_none();
  LS_OWN(ls_nest, all) = ls_none();
  ls_nest made = ls_none();
  ls_status status = ls_strategy_reduce(strategy, LS_REDUCE_SUM, args, &sum);
  if (ls_status_is_ok(status))
    status =
        ls_strategy_broadcast_to(strategy, sum, (ls_destinations){0}, &all);
  // On one device it is a plain tensor.
  if (ls_status_is_ok(status) && all.kind == LS_KIND_TENSOR)
    all = ls_nest_distributed(LS_MIRRORED, &all, 1);
  if (ls_status_is_ok(status))
    status = fetch_leaf(strategy, all, self->user, &made);
  return taken(status, &made);
}

static ls_nest merge_fetch_sum(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), fetch_sum,
                               ls_leaf(tensor_of(ls_nest_item(args, 0))), self);
}

static void sum_is_fetched(const ways *self) {
  const place *p = self->user;
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "a sum", ways_result(self, 0, r, 0, 0),
                n * (n + 1) / 2.0 * (p->times_ten ? 10 : 1), 0);
}

TEST(mirrored_values_are_fetched_in_every_way) {
  LS_SPEC("M143 M144");
  for (size_t d = 0; d < LS_COUNT_OF(destinations); ++d)
    for (int ten = 0; ten < 2; ++ten)
      hold(&(ways_case){.name = "a sum",
                        .step = merge_fetch_sum,
                        .check = sum_is_fetched},
           &(place){.destination = destinations[d], .times_ten = ten == 1});
}

// ---- Fetch, refused --------------------------------------------------------
static ls_nest fetch_args(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  return taken(fetch_leaf(strategy, args, self->user, &made), &made);
}

static ls_nest merge_fetch_args(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), fetch_args,
                               ls_leaf(tensor_of(ls_nest_item(args, 0))), self);
}

static ls_nest fetch_constant(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  (void)args;
  return taken(fetch_leaf(strategy, ls_leaf(ls_scalar(LS_DTYPE_F32, 1)),
                          self->user, &made),
               &made);
}

static ls_nest merge_fetch_constant(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), fetch_constant,
                               ls_leaf(tensor_of(ls_nest_item(args, 0))), self);
}

static ls_nest fetch_far(ls_strategy *strategy, ls_nest args, void *user) {
  static const char *const far[] = {"/job:localhost/replica:0/task:0/"
                                    "device:GPU:0"};
  ways *self = user;
  const ls_nest item = ls_nest_f64(1);
  ls_nest made = ls_none();
  (void)args;
  LS_OWN(ls_nest, value) = ls_nest_distributed_on(LS_MIRRORED, &item, far, 1);
  const ls_status status = fetch_leaf(strategy, value, self->user, &made);
  return taken(status, &made);
}

static ls_nest merge_fetch_far(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), fetch_far,
                               ls_leaf(tensor_of(ls_nest_item(args, 0))), self);
}

static ls_nest fetch_in_replica(ls_nest args, ways *self) {
  ls_nest made = ls_none();
  return taken(
      fetch_leaf(self->strategy, ls_nest_item(args, 0), self->user, &made),
      &made);
}

TEST(what_cannot_be_fetched_is_refused_in_every_way) {
  LS_SPEC("M31 M141 M142 M144 M145");
  const place p = {0}, nowhere = {.destination = ""},
              apart = {.synchronization = ON_READ};
  const ways_case cases[] = {
      {.name = "a PerReplica",
       .step = merge_fetch_args,
       .replicas_only = true,
       .refused = LS_INVALID_ARGUMENT,
       .says = "PerReplica"},
      {.name = "a tensor",
       .step = merge_fetch_constant,
       .refused = LS_INVALID_ARGUMENT,
       .says = "tensor"},
      {.name = "a value elsewhere",
       .step = merge_fetch_far,
       .refused = LS_INVALID_ARGUMENT,
       .says = "GPU:0"},
      {.name = "in a replica",
       .step = fetch_in_replica,
       .refused = LS_FAILED_PRECONDITION,
       .says = "merge_call"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    hold(&cases[i], &p);
  hold(&(ways_case){.name = "no destination",
                    .step = merge_fetch_constant,
                    .refused = LS_INVALID_ARGUMENT,
                    .says = "one device"},
       &nowhere);
  hold(&(ways_case){.name = "what is not aggregated",
                    .step = write_and_fetch,
                    .refused = LS_INVALID_ARGUMENT,
                    .says = "NONE",
                    .writes_before = true},
       &apart);
}

// ---- Map -------------------------------------------------------------------
// item^2 + the argument of its device.
static ls_nest square_and_add(ls_nest args, void *user) {
  const ls_tensor item = tensor_of(ls_nest_item(args, 0));
  (void)user;
  assert_true(ls_in_cross_replica_context());
  return ls_leaf(ls_add(ls_mul(item, item), tensor_of(ls_nest_item(args, 1))));
}

static ls_status map_items(ls_strategy *strategy, const place *p, ls_nest sum,
                           ls_nest *out) {
  ls_nest items[8];
  for (size_t k = 0; k < p->items; ++k)
    items[k] = ls_leaf(ls_scalar(LS_DTYPE_F32, (double)k + 1));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(sum));
  return ls_strategy_map(strategy, items, p->items, square_and_add, args, NULL,
                         out);
}

static ls_nest map_with_sum(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_nest sum = ls_none(), mapped = ls_none(), made[2] = {0};
  ls_status status = ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, args,
                                           (ls_destinations){0}, &sum);
  if (ls_status_is_ok(status))
    status = map_items(strategy, self->user, sum, &mapped);
  const size_t count = ls_distributed_count(mapped);
  if (ls_status_is_ok(status))
    status = ls_strategy_reduce(strategy, LS_REDUCE_SUM, mapped, &made[0]);
  if (ls_status_is_ok(status))
    status = ls_strategy_reduce(strategy, LS_REDUCE_MEAN, mapped, &made[1]);
  ls_nest_release(mapped);
  ls_nest_release(sum);
  return ls_status_is_ok(status)
             ? LS_TUPLE(made[0], made[1], ls_nest_i64((int64_t)count))
             : ls_fail(status);
}

static ls_nest merge_map(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), map_with_sum,
                               ls_leaf(tensor_of(ls_nest_item(args, 0))), self);
}

static void items_are_mapped(const ways *self) {
  const place *p = self->user;
  const int n = self->replicas;
  double sum = 0;
  for (size_t k = 1; k <= p->items; ++k)
    sum += (double)(k * k) + n * (n + 1) / 2.0;
  for (int r = 0; r < n; ++r) {
    ways_expect(self, "a sum", ways_result(self, 0, r, 0, 0), sum, 0);
    ways_expect(self, "a mean", ways_result(self, 0, r, 1, 0),
                sum / (double)p->items, 1e-5);
    ways_expect(self, "devices with items", ways_result(self, 0, r, 2, 0),
                p->items < (size_t)n ? (double)p->items : n, 0);
  }
}

TEST(items_are_mapped_in_every_way) {
  LS_SPEC("M146 M147 M148 M81");
  for (size_t items = 1; items < 6; ++items)
    hold(&(ways_case){.name = "a map",
                      .step = merge_map,
                      .check = items_are_mapped},
         &(place){.items = items});
  hold(&(ways_case){.name = "a map of nothing",
                    .step = merge_map,
                    .refused = LS_INVALID_ARGUMENT,
                    .says = "must be non-empty"},
       &(place){0});
}

// ---- Map, refused ----------------------------------------------------------
static ls_nest map_what_differs(ls_strategy *strategy, ls_nest args,
                                void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  return taken(map_items(strategy, self->user, args, &made), &made);
}

static ls_nest merge_map_what_differs(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), map_what_differs,
                               ls_leaf(tensor_of(ls_nest_item(args, 0))), self);
}

static ls_nest break_at_second(ls_nest args, void *user) {
  int *calls = user;
  return ++*calls == 2 ? LS_FAIL(LS_DATA_LOSS, "the item is broken")
                       : ls_nest_retain(ls_nest_item(args, 0));
}

static ls_nest map_broken(ls_strategy *strategy, ls_nest args, void *user) {
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2), ls_nest_f64(3)};
  int calls = 0;
  ls_nest made = ls_none();
  (void)args, (void)user;
  const ls_status status = ls_strategy_map(strategy, items, 3, break_at_second,
                                           ls_none(), &calls, &made);
  assert_int_equal(calls, 2);
  return taken(status, &made);
}

static ls_nest merge_map_broken(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), map_broken,
                               ls_leaf(tensor_of(ls_nest_item(args, 0))), self);
}

static ls_nest map_in_replica(ls_nest args, ways *self) {
  ls_nest made = ls_none();
  (void)args;
  return taken(ls_strategy_map(self->strategy, NULL, 0, square_and_add,
                               ls_none(), NULL, &made),
               &made);
}

TEST(what_cannot_be_mapped_is_refused_in_every_way) {
  LS_SPEC("M31 M136 M146");
  const ways_case cases[] = {
      {.name = "an argument that differs",
       .step = merge_map_what_differs,
       .replicas_only = true,
       .refused = LS_INVALID_ARGUMENT,
       .says = "not mirrored"},
      {.name = "a function that fails",
       .step = merge_map_broken,
       .refused = LS_DATA_LOSS,
       .says = "the item is broken"},
      {.name = "in a replica",
       .step = map_in_replica,
       .refused = LS_FAILED_PRECONDITION,
       .says = "merge_call"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    hold(&cases[i], &(place){.items = 2});
}
