// SPDX-License-Identifier: Apache-2.0
//
// Calls of updates, fetch and map.
#include "lockstep/strategy.h"

#include <string.h>

#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/replicas.h"

#define LOCAL "/job:localhost/replica:0/task:0/device:"

// What the calls of a function saw.
typedef struct calls {
  int count;
  double args[8];
  const ls_variable *components[8];
  char devices[8][80], names[8][80];
  bool fails;
} calls;

static ls_nest note_call(ls_nest args, void *user) {
  calls *c = user;
  const int i = c->count++;
  const ls_tensor here = ls_scalar(LS_DTYPE_F32, 7);
  c->components[i] = ls_nest_as_variable(ls_nest_item(args, 0));
  const ls_nest last = ls_nest_item(args, ls_nest_count(args) - 1);
  c->args[i] = last.kind == LS_KIND_SCALAR ? ls_nest_number(last) : -1;
  strncpy(c->devices[i], ls_op_device(ls_tensor_op(here)), 79);
  strncpy(c->names[i], ls_name_scope_current(), 79);
  return ls_none();
}

// ---- Calls -----------------------------------------------------------------
TEST(an_update_calls_for_each_component) {
  LS_SPEC("V201 M134");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  static const ls_variable_synchronization kinds[] = {
      LS_SYNCHRONIZATION_ON_WRITE, LS_SYNCHRONIZATION_ON_READ};
  for (size_t k = 0; k < 2; ++k) {
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.synchronization = kinds[k]});
    LS_OWN(ls_nest, args) = LS_TUPLE(
        ls_nest_f64(9), distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2));
    calls c = {0};
    ls_nest made = ls_nest_f64(1);
    {
      LS_NAME_SCOPE("main");
      expect_ok(
          ls_strategy_update(strategy, v, note_call, args, &c, true, &made));
    }
    assert_int_equal(made.kind, LS_KIND_NONE);
    assert_int_equal(c.count, 2);
    for (size_t i = 0; i < 2; ++i) {
      assert_ptr_equal(c.components[i], ls_variable_component(v, i));
      assert_true(c.args[i] == (double)i + 1);
      assert_string_equal(c.devices[i], i == 0 ? LOCAL "CPU:0" : LOCAL "CPU:1");
      assert_string_equal(c.names[i],
                          i == 0 ? "main/update_0/" : "main/update_1/");
    }
  }
}

TEST(only_distributed_variables_are_updated) {
  LS_SPEC("V201");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_strategy, other) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_variable, plain) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "alone", .dtype = LS_DTYPE_F32}, &plain));
  calls c = {0};
  ls_nest made = ls_none();
  expect_status(ls_strategy_update(strategy, plain, note_call, ls_none(), &c,
                                   true, &made),
                LS_INVALID_ARGUMENT, "plain variable");
  expect_status(ls_strategy_update(strategy, ls_variable_component(v, 0),
                                   note_call, ls_none(), &c, true, &made),
                LS_INVALID_ARGUMENT, "component");
  {
    LS_STRATEGY_SCOPE(other);
    expect_status(
        ls_strategy_update(strategy, v, note_call, ls_none(), &c, true, &made),
        LS_FAILED_PRECONDITION, "cannot be mixed");
  }
  assert_int_equal(c.count, 0);
}

TEST(arguments_of_an_update_are_mirrored) {
  LS_SPEC("M136");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  calls c = {0};
  ls_nest made = ls_none();
  LS_OWN(ls_nest, args) = LS_TUPLE(
      LS_LIST(ls_nest_f64(3),
              distributed_numbers(LS_PER_REPLICA, (double[]){4, 4}, 2)));
  const ls_status status =
      ls_strategy_update(strategy, v, note_call, args, &c, true, &made);
  expect_contains(ls_status_message(status), "PerReplica:{\n  0: 4.0,");
  expect_status(status, LS_INVALID_ARGUMENT, "in ([3.0, PerReplica");
  assert_int_equal(c.count, 0);
}

TEST(devices_are_updated_without_a_variable) {
  LS_SPEC("M139");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  static const char *const devices[] = {"/cpu:1", "/cpu:0"};
  static const char *const foreign[] = {"/cpu:5"};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2));
  calls c = {0};
  ls_nest made = ls_nest_f64(1);
  expect_ok(ls_strategy_update_non_slot(strategy, devices, 2, note_call, args,
                                        &c, true, &made));
  assert_int_equal(made.kind, LS_KIND_NONE);
  assert_int_equal(c.count, 2);
  assert_string_equal(c.devices[0], LOCAL "CPU:1");
  assert_string_equal(c.names[0], "update_1/");
  assert_string_equal(c.names[1], "update_0/");
  assert_null(c.components[0]);
  expect_status(ls_strategy_update_non_slot(strategy, NULL, 0, note_call, args,
                                            &c, true, &made),
                LS_INVALID_ARGUMENT, "list of devices");
  expect_status(ls_strategy_update_non_slot(strategy, foreign, 1, note_call,
                                            args, &c, true, &made),
                LS_INVALID_ARGUMENT, "'/cpu:5'");
  assert_int_equal(c.count, 2);
}

TEST(an_update_finds_parts_by_their_devices) {
  LS_SPEC("V201 M149");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  static const char *const devices[] = {"cpu:1", "cpu:0"};
  const ls_nest items[] = {ls_nest_f64(2), ls_nest_f64(1)};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed_on(LS_MIRRORED, items, devices, 2));
  calls c = {0};
  ls_nest made = ls_none();
  expect_ok(ls_strategy_update(strategy, v, note_call, args, &c, true, &made));
  assert_true(c.args[0] == 1 && c.args[1] == 2);
  // On devices without a variable, of which there may be fewer than parts.
  for (size_t first = 0; first < 2; ++first)
    for (size_t count = 1; first + count <= 2; ++count) {
      c = (calls){0};
      expect_ok(ls_strategy_update_non_slot(strategy, devices + first, count,
                                            note_call, args, &c, true, &made));
      for (size_t i = 0; i < count; ++i)
        assert_true(c.args[i] == (first + i == 0 ? 2 : 1));
    }
  c = (calls){0};
  expect_ok(ls_strategy_map(strategy, items, 2, note_call, args, &c, &made));
  ls_nest_release(made);
  assert_true(c.args[0] == 1 && c.args[1] == 2);
}

TEST(parts_without_devices_are_those_of_the_first_devices) {
  LS_SPEC("M139");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  static const char *const device[] = {"cpu:1"};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2));
  calls c = {0};
  ls_nest made = ls_none();
  expect_ok(ls_strategy_update_non_slot(strategy, device, 1, note_call, args,
                                        &c, true, &made));
  assert_int_equal(c.count, 1);
  assert_true(c.args[0] == 1);
}

TEST(a_part_for_each_is_found_before_anything_is_updated) {
  LS_SPEC("V201 M139 M147");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  static const char *const devices[] = {"/cpu:1", "/cpu:0"};
  static const char *const half[] = {"/cpu:1", "/cpu:5"};
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2), ls_nest_f64(3)};
  calls c = {0};
  ls_nest made = ls_none();
  for (size_t count = 1; count <= 3; count += 2) {
    LS_OWN(ls_nest, args) = LS_TUPLE(
        LS_LIST(distributed_numbers(LS_MIRRORED, (double[]){1, 2, 3}, count)));
    expect_status(
        ls_strategy_update(strategy, v, note_call, args, &c, true, &made),
        LS_INVALID_ARGUMENT, "in the update of 'v'");
    if (count == 1)
      expect_status(ls_strategy_update_non_slot(strategy, devices, 2, note_call,
                                                args, &c, true, &made),
                    LS_INVALID_ARGUMENT, "it lacks one on '" LOCAL "CPU:0'");
    expect_status(
        ls_strategy_map(strategy, items, 3, note_call, args, &c, &made),
        LS_INVALID_ARGUMENT, "components");
  }
  expect_status(ls_strategy_update_non_slot(strategy, half, 2, note_call,
                                            ls_none(), &c, true, &made),
                LS_INVALID_ARGUMENT, "'/cpu:5'");
  assert_int_equal(c.count, 0);
}

typedef struct in_replica {
  ls_strategy *strategy;
  ls_variable *variable;
} in_replica;

static ls_nest add_argument(ls_nest args, void *user) {
  (void)user;
  ls_nest made = ls_none();
  const ls_status status =
      ls_variable_write(ls_nest_as_variable(ls_nest_item(args, 0)),
                        LS_WRITE_ADD, ls_nest_item(args, 1), NULL, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest update_from_replica(ls_nest args, void *user) {
  const in_replica *u = user;
  (void)args;
  ls_nest made = ls_none();
  LS_OWN(ls_nest, given) =
      LS_TUPLE(ls_leaf(scalar_of(ls_replica_number() + 1)));
  const ls_status status = ls_strategy_update(
      u->strategy, u->variable, add_argument, given, NULL, true, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

TEST(a_replica_updates_in_a_merge_call) {
  LS_SPEC("V182 V205");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  in_replica u = {strategy,
                  variable_in(strategy, (variable_kind){.initial = 10})};
  LS_OWN(ls_nest, made) = run_on(strategy, update_from_replica, ls_none(), &u);
  // Nothing is aggregated.
  expect_components(u.variable, (double[]){11, 12}, 2);
  expect_numbers(made, (double[]){11, 12}, 2);
  ls_variable_release(u.variable);
  u.variable =
      variable_in(strategy, (variable_kind){.aggregation = LS_AGGREGATION_SUM});
  ls_nest refused = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain(update_from_replica, &u),
                                ls_none(), &refused),
                LS_INVALID_ARGUMENT, "not mirrored");
  expect_components(u.variable, (double[]){0, 0}, 2);
  ls_variable_release(u.variable);
}

// ---- Fetch -----------------------------------------------------------------
static ls_nest times_ten(ls_nest args, void *user) {
  int *times = user;
  ls_tensor x;
  ++*times;
  expect_ok(ls_distributed_as_tensor(args, &x));
  return ls_leaf(ls_mul_scalar(x, 10));
}

TEST(fetched_values_are_tensors) {
  LS_SPEC("M141 M142 M143 M144 M145");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_variable, sums) = variable_in(
      strategy, (variable_kind){.name = "sums",
                                .synchronization = LS_SYNCHRONIZATION_ON_READ,
                                .aggregation = LS_AGGREGATION_SUM});
  set_components(v, (double[]){3, 4}, 2);
  set_components(sums, (double[]){3, 4}, 2);
  const struct {
    ls_variable *variable;
    const char *to;
    double wanted;
    const char *device;
  } cases[] = {
      {v, NULL, 3, LOCAL "CPU:0"},  // There is a component.
      {v, "/cpu:1", 4, LOCAL "CPU:1"},
      {v, "/cpu:7", 3, LOCAL "CPU:7"},  // The first that has one.
      {sums, NULL, 7, LOCAL "CPU:0"},   // Reduced.
      {sums, "/cpu:1", 7, LOCAL "CPU:1"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    LS_OWN(ls_nest, leaf) = ls_nest_variable(cases[i].variable);
    ls_nest made = ls_none();
    int times = 0;
    expect_ok(
        ls_strategy_fetch(strategy, leaf, cases[i].to, NULL, NULL, &made));
    assert_int_equal(made.kind, LS_KIND_TENSOR);
    assert_true(number_of(made) == cases[i].wanted);
    assert_string_equal(ls_op_device(ls_tensor_op(made.as.tensor)),
                        cases[i].device);
    expect_ok(ls_strategy_fetch(strategy, leaf, cases[i].to, times_ten, &times,
                                &made));
    assert_int_equal(times, 1);
    assert_true(number_of(made) == 10 * cases[i].wanted);
  }
  ls_nest made = ls_none();
  LS_OWN(ls_nest, differing) =
      distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2);
  expect_status(ls_strategy_fetch(strategy, differing, NULL, NULL, NULL, &made),
                LS_INVALID_ARGUMENT, "PerReplica");
  expect_status(ls_strategy_fetch(strategy, ls_leaf(scalar_of(1)), NULL, NULL,
                                  NULL, &made),
                LS_INVALID_ARGUMENT, "tensor");
  static const char *const elsewhere[] = {LOCAL "GPU:0", LOCAL "GPU:1"};
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2)};
  LS_OWN(ls_nest, away) =
      ls_nest_distributed_on(LS_MIRRORED, items, elsewhere, 2);
  const ls_status status =
      ls_strategy_fetch(strategy, away, NULL, NULL, NULL, &made);
  expect_contains(ls_status_message(status), LOCAL "CPU:0");
  expect_status(status, LS_INVALID_ARGUMENT, LOCAL "GPU:1");
  expect_status(ls_strategy_fetch(strategy, away, "", NULL, NULL, &made),
                LS_INVALID_ARGUMENT, "one device");
}

// ---- Map -------------------------------------------------------------------
static ls_nest square(ls_nest args, void *user) {
  calls *c = user;
  const ls_nest item = ls_nest_item(args, 0);
  assert_true(ls_in_cross_replica_context());
  const ls_tensor made = scalar_of(ls_nest_number(item) * ls_nest_number(item));
  strncpy(c->devices[c->count], ls_op_device(ls_tensor_op(made)), 79);
  c->args[c->count++] = ls_nest_number(ls_nest_item(args, 1));
  return ls_leaf(made);
}

TEST(items_are_dealt_to_devices) {
  LS_SPEC("M146 M147 M148 M81");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2), ls_nest_f64(3)};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(distributed_numbers(LS_MIRRORED, (double[]){5, 6}, 2));
  LS_OWN(ls_nest, more) =
      LS_TUPLE(distributed_numbers(LS_MIRRORED, (double[]){5, 6, 7}, 3));
  calls c = {0};
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_strategy_map(strategy, items, 3, square, args, &c, &made));
  assert_int_equal(ls_distributed_kind_of(made), LS_PER_REPLICA);
  assert_int_equal(ls_distributed_count(made), 2);
  const ls_nest first = ls_distributed_component(made, 0);
  assert_int_equal(ls_distributed_kind_of(first), LS_MAP_OUTPUT);
  expect_numbers(first, (double[]){1, 9}, 2);
  expect_numbers(ls_distributed_component(made, 1), (double[]){4}, 1);
  static const double parts[] = {5, 6, 5};
  for (int k = 0; k < 3; ++k) {
    assert_true(c.args[k] == parts[k]);
    assert_string_equal(c.devices[k],
                        k % 2 == 0 ? LOCAL "CPU:0" : LOCAL "CPU:1");
  }
  // A mean is over items, not devices.
  ls_nest mean = ls_none();
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, made, &mean));
  assert_true(number_of(mean) == 14);
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, made, &mean));
  assert_true(number_of(mean) == (double)(14.0f * (1.0f / 3)));
  ls_nest_release(made);
  // What a device has made nothing of is skipped.
  const ls_nest one = ls_nest_f64(8);
  const ls_nest outputs[] = {ls_nest_distributed(LS_MAP_OUTPUT, NULL, 0),
                             ls_nest_distributed(LS_MAP_OUTPUT, &one, 1)};
  const ls_nest uneven = ls_nest_distributed(LS_PER_REPLICA, outputs, 2);
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, uneven, &mean));
  assert_true(number_of(mean) == 8);
  ls_nest_release(uneven);
  // Devices without an item are absent.
  c.count = 0;
  expect_ok(ls_strategy_map(three, items, 2, square, more, &c, &made));
  assert_int_equal(ls_distributed_count(made), 2);
  ls_nest_release(made);
  expect_ok(ls_strategy_map(three, NULL, 0, square, more, &c, &made));
  assert_int_equal(made.kind, LS_KIND_DISTRIBUTED);
  assert_int_equal(ls_distributed_count(made), 0);
  expect_status(ls_strategy_reduce(three, LS_REDUCE_SUM, made, &mean),
                LS_INVALID_ARGUMENT, "must be non-empty");
}
