// SPDX-License-Identifier: Apache-2.0
//
// How strategies are made, and what they say of themselves.
#include "lockstep/strategy.h"

#include <stdio.h>
#include <string.h>

#include "lockstep/device_name.h"
#include "lockstep/graph.h"
#include "support/replicas.h"

#define LOCAL "/job:localhost/replica:0/task:0/device:"

static void expect_devices(const ls_strategy *strategy,
                           const char *const *wanted, size_t count) {
  const char *devices[8];
  size_t have = 0;
  expect_ok(ls_strategy_worker_devices(strategy, devices, 8, &have));
  assert_int_equal(have, count);
  for (size_t i = 0; i < count; ++i)
    assert_string_equal(devices[i], wanted[i]);
}

static ls_status make(ls_mirrored_options options, ls_strategy **out) {
  return ls_mirrored_strategy_create(&options, out);
}

static void nothing_given_is_the_one_cpu(void **state) {
  (void)state;
  LS_SPEC("M3");
  ls_strategy *strategy = NULL;
  expect_ok(ls_mirrored_strategy_create(NULL, &strategy));
  expect_devices(strategy, (const char *[]){LOCAL "CPU:0"}, 1);
  ls_strategy_release(strategy);
}

static void a_number_of_gpus_is_their_names(void **state) {
  (void)state;
  LS_SPEC("M4");
  ls_strategy *strategy = NULL;
  expect_ok(make((ls_mirrored_options){.num_gpus = LS_SOME(3)}, &strategy));
  expect_devices(strategy,
                 (const char *[]){LOCAL "GPU:0", LOCAL "GPU:1", LOCAL "GPU:2"},
                 3);
  // Names only: nothing runs there yet.
  ls_nest results = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain((ls_callback)NULL, NULL),
                                ls_none(), &results),
                LS_INVALID_ARGUMENT, "nothing to run");
  ls_strategy_release(strategy);
  expect_status(make((ls_mirrored_options){.num_gpus = LS_SOME(0)}, &strategy),
                LS_INVALID_ARGUMENT, "at least one device");
  assert_null(strategy);
}

static ls_nest nothing(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_none();
}

static void nothing_runs_on_gpus(void **state) {
  (void)state;
  ls_strategy *strategy = NULL;
  ls_nest results = ls_none();
  expect_ok(make((ls_mirrored_options){.num_gpus = LS_SOME(2)}, &strategy));
  expect_status(
      ls_strategy_run(strategy, ls_plain(nothing, NULL), ls_none(), &results),
      LS_UNIMPLEMENTED, "GPU:0");
  ls_strategy_release(strategy);
}

static void two_ways_of_saying_where_are_refused(void **state) {
  (void)state;
  LS_SPEC("M5");
  static const char *const devices[] = {"/cpu:0", "/cpu:0"};
  ls_strategy *strategy = NULL;
  // Before anything else that is wrong, and with an empty list.
  for (size_t count = 0; count < 3; ++count) {
    const ls_status status = make((ls_mirrored_options){.devices = devices,
                                                        .num_devices = count,
                                                        .num_gpus = LS_SOME(0)},
                                  &strategy);
    expect_contains(ls_status_message(status), "devices");
    expect_status(status, LS_INVALID_ARGUMENT, "num_gpus");
  }
}

static void an_empty_list_of_devices_is_refused(void **state) {
  (void)state;
  LS_SPEC("M6");
  static const char *const none[] = {NULL};
  ls_strategy *strategy = NULL;
  expect_status(make((ls_mirrored_options){.devices = none}, &strategy),
                LS_INVALID_ARGUMENT, "at least one device must be given");
}

static void a_device_can_be_there_once(void **state) {
  (void)state;
  LS_SPEC("M7");
  static const char *const devices[] = {"/gpu:0", "CPU:0", "/cpu:0"};
  ls_strategy *strategy = NULL;
  const ls_status status = make(
      (ls_mirrored_options){.devices = devices, .num_devices = 3}, &strategy);
  expect_contains(ls_status_message(status), "devices");
  expect_status(status, LS_INVALID_ARGUMENT,
                LOCAL "GPU:0, " LOCAL "CPU:0, " LOCAL "CPU:0");
}

static void one_device_is_enough(void **state) {
  (void)state;
  LS_SPEC("M8 M19");
  ls_strategy *one = NULL, *listed = NULL, *two = mirrored_of(2);
  static const char *const device[] = {"/cpu:2"};
  expect_ok(ls_one_device_strategy_create("/cpu:2", &one));
  expect_ok(make((ls_mirrored_options){.devices = device, .num_devices = 1},
                 &listed));
  expect_devices(one, (const char *[]){LOCAL "CPU:2"}, 1);
  expect_devices(listed, (const char *[]){LOCAL "CPU:2"}, 1);
  assert_true(ls_strategy_is_single_replica(one));
  assert_int_equal(ls_strategy_num_replicas(one), 1);
  assert_false(ls_strategy_is_single_replica(two));
  assert_int_equal(ls_strategy_num_replicas(two), 2);
  ls_strategy_release(one);
  ls_strategy_release(listed);
  ls_strategy_release(two);
}

static void the_order_given_is_kept_and_copied(void **state) {
  (void)state;
  LS_SPEC("M14 M16 M20 M22");
  char first[] = "/gpu:1";
  const char *devices[] = {first, "/gpu:0", "/cpu:0"};
  ls_strategy *strategy = NULL;
  expect_ok(make((ls_mirrored_options){.devices = devices, .num_devices = 3},
                 &strategy));
  first[5] = '7';
  devices[1] = NULL;
  static const char *const wanted[] = {LOCAL "GPU:1", LOCAL "GPU:0",
                                       LOCAL "CPU:0"};
  expect_devices(strategy, wanted, 3);
  // What is given out is a list of the caller's.
  const char *out[3];
  size_t count = 0;
  expect_ok(ls_strategy_parameter_devices(strategy, out, 3, &count));
  assert_int_equal(count, 3);
  assert_string_equal(out[2], wanted[2]);
  out[0] = "changed";
  expect_devices(strategy, wanted, 3);
  ls_nest index = ls_none();
  expect_ok(ls_strategy_worker_device_index(strategy, &index));
  expect_numbers(index, (double[]){0, 1, 2}, 3);
  assert_string_equal(ls_distributed_device(index, 1), LOCAL "GPU:0");
  ls_nest_release(index);
  ls_strategy_release(strategy);
  strategy = mirrored_of(1);
  expect_ok(ls_strategy_worker_device_index(strategy, &index));
  expect_numbers(index, (double[]){0}, 1);
  ls_nest_release(index);
  ls_strategy_release(strategy);
}

static void devices_of_one_worker_only(void **state) {
  (void)state;
  LS_SPEC("M17 M18");
  static const char *const mixed[] = {"/cpu:0", "/job:worker/task:0/gpu:0"};
  static const char *const vague[] = {"/job:worker/gpu:0"};
  static const char *const two[] = {"/job:worker/task:0/gpu:0",
                                    "/job:worker/task:1/gpu:0"};
  ls_strategy *strategy = NULL;
  expect_status(make((ls_mirrored_options){.devices = mixed, .num_devices = 2},
                     &strategy),
                LS_INVALID_ARGUMENT, "localhost");
  expect_status(make((ls_mirrored_options){.devices = vague, .num_devices = 1},
                     &strategy),
                LS_INVALID_ARGUMENT, "task");
  const ls_mirrored_options several = {.devices = two, .num_devices = 2};
  expect_status(make(several, &strategy), LS_FAILED_PRECONDITION,
                "a mirrored strategy on devices of several workers does not "
                "work in eager mode");
  ls_graph *graph = NULL;
  expect_ok(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(make(several, &strategy), LS_UNIMPLEMENTED,
                  "in-graph multi-worker");
  }
  ls_graph_destroy(graph);
}

static void replicas_stand_on_logical_cpus(void **state) {
  (void)state;
  LS_SPEC("M179");
  static const char *const devices[] = {"/cpu:0"};
  ls_strategy *strategy = mirrored_of(3);
  expect_devices(strategy,
                 (const char *[]){LOCAL "CPU:0", LOCAL "CPU:1", LOCAL "CPU:2"},
                 3);
  ls_strategy_release(strategy);
  expect_status(
      make((ls_mirrored_options){.num_replicas = LS_SOME(0)}, &strategy),
      LS_INVALID_ARGUMENT, "0 replicas");
  const ls_status listed = make(
      (ls_mirrored_options){
          .num_replicas = LS_SOME(2), .devices = devices, .num_devices = 1},
      &strategy);
  expect_contains(ls_status_message(listed), "num_replicas");
  expect_status(listed, LS_INVALID_ARGUMENT, "devices");
  const ls_status gpus = make(
      (ls_mirrored_options){.num_replicas = LS_SOME(2), .num_gpus = LS_SOME(2)},
      &strategy);
  expect_contains(ls_status_message(gpus), "num_replicas");
  expect_status(gpus, LS_INVALID_ARGUMENT, "num_gpus");
  strategy = mirrored_of(1024);
  ls_nest made = run_on(strategy, nothing, ls_none(), NULL);
  assert_int_equal(made.kind, LS_KIND_NONE);
  ls_strategy_release(strategy);
}

static void non_slot_devices_are_all(void **state) {
  (void)state;
  LS_SPEC("M21");
  ls_strategy *strategy = mirrored_of(2);
  const char *devices[4] = {NULL};
  size_t count = 0;
  expect_ok(
      ls_strategy_non_slot_devices(strategy, NULL, 0, devices, 4, &count));
  assert_int_equal(count, 2);
  assert_string_equal(devices[1], LOCAL "CPU:1");
  ls_strategy_release(strategy);
}

static void fixed_answers(void **state) {
  (void)state;
  LS_SPEC("M28");
  ls_strategy *strategy = mirrored_of(2);
  assert_false(ls_strategy_between_graph(strategy));
  assert_true(ls_strategy_should_init(strategy));
  assert_true(ls_strategy_should_checkpoint(strategy));
  assert_true(ls_strategy_should_save_summary(strategy));
  assert_true(ls_strategy_has_global_batches(strategy));
  assert_false(ls_strategy_is_multi_worker(strategy));
  ls_strategy_release(strategy);
}

// ---- The default strategy --------------------------------------------------
static ls_nest look_default(ls_nest args, void *user) {
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  assert_ptr_equal(ls_strategy_current(), usual);
  assert_non_null(ls_replica_context());
  assert_int_equal(ls_replica_number(), 0);
  assert_int_equal(ls_num_replicas(), 1);
  ++*(int *)user;
  return ls_nest_retain(args);
}

static void the_default_strategy_runs_once(void **state) {
  (void)state;
  LS_SPEC("V207");
  ls_strategy *usual = NULL;
  int calls = 0;
  expect_ok(ls_strategy_default(&usual));
  const ls_nest args = LS_TUPLE(ls_nest_f64(1), ls_nest_f64(2));
  const ls_nest made = run_on(usual, look_default, args, &calls);
  assert_int_equal(calls, 1);
  expect_printed(made, "(1.0, 2.0)");
  ls_nest_release(made);
  ls_nest_release(args);
}

static ls_nest update_default(ls_nest args, void *user) {
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 0)), user);
  assert_true(ls_update_replica_id().set);
  assert_int_equal(ls_update_replica_id().value, 0);
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 1)), ls_nest_f64(3));
}

static void the_default_strategy_gives_values_as_they_are(void **state) {
  (void)state;
  LS_SPEC("V208 V210 M34");
  ls_strategy *usual = NULL;
  ls_nest made = ls_none();
  expect_ok(ls_strategy_default(&usual));
  const ls_tensor x = ls_reshape(
      ls_concatenate((ls_tensor[]){ls_reshape(scalar_of(1), LS_SHAPE(1)),
                                   ls_reshape(scalar_of(5), LS_SHAPE(1))},
                     2, 0),
      LS_SHAPE(2));
  for (int op = LS_REDUCE_SUM; op <= LS_REDUCE_MEAN; ++op) {
    expect_ok(ls_strategy_reduce(usual, (ls_reduce_op)op, ls_leaf(x), &made));
    assert_true(ls_nest_is_same(made, ls_leaf(x)));
    static const int axes[] = {0};
    expect_ok(ls_strategy_reduce_with(
        usual, (ls_reduce_op)op, ls_leaf(x),
        &(ls_reduce_options){.axes = axes, .num_axes = 1}, &made));
    assert_true(number_of(made) == (op == LS_REDUCE_SUM ? 6 : 3));
  }
  expect_ok(ls_strategy_gather(usual, ls_leaf(x), 0, &made));
  assert_true(ls_nest_is_same(made, ls_leaf(x)));
  expect_ok(ls_strategy_unwrap(usual, ls_leaf(x), &made));
  assert_int_equal(ls_nest_count(made), 1);
  assert_true(ls_nest_is_same(ls_nest_item(made, 0), ls_leaf(x)));
  ls_nest_release(made);
  made = ls_none();
  expect_ok(
      ls_strategy_broadcast_to(usual, ls_leaf(x), (ls_destinations){0}, &made));
  assert_true(ls_nest_is_same(made, ls_leaf(x)));
  expect_status(ls_strategy_broadcast_to(usual, ls_leaf(x),
                                         (ls_destinations){.device = "/cpu:0"},
                                         &made),
                LS_UNIMPLEMENTED, "destinations");
  // Updates: once, with the variable itself.
  ls_variable *w = NULL, *v = NULL;
  {
    LS_DEVICE_SCOPE("/cpu:3");
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32}, &v));
  }
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &w));
  const ls_nest args = LS_TUPLE(ls_nest_f64(8));
  expect_ok(ls_strategy_update(usual, v, update_default, args, v, true, &made));
  expect_printed(made, "[8.0, 3.0]");
  ls_nest_release(made);
  expect_ok(
      ls_strategy_update(usual, v, update_default, args, v, false, &made));
  expect_printed(made, "[(8.0,), (3.0,)]");
  ls_nest_release(made);
  ls_nest_release(args);
  const char *device = NULL;
  size_t count = 0;
  ls_variable *const both[] = {w, v};
  expect_ok(ls_strategy_non_slot_devices(usual, both, 2, &device, 1, &count));
  assert_int_equal(count, 1);
  assert_string_equal(device, LOCAL "CPU:3");
  expect_status(ls_strategy_worker_devices(usual, &device, 1, &count),
                LS_FAILED_PRECONDITION, "worker_devices");
  expect_status(ls_strategy_parameter_devices(usual, &device, 1, &count),
                LS_FAILED_PRECONDITION, "parameter_devices");
  expect_status(ls_strategy_worker_device_index(usual, &made),
                LS_FAILED_PRECONDITION, "worker_device_index");
  ls_variable_release(w);
  ls_variable_release(v);
}

// ---- Taking apart ----------------------------------------------------------
static ls_nest on_devices(const double *values, const char *const *devices,
                          size_t count) {
  ls_nest items[8];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_f64(values[i]);
  return ls_nest_distributed_on(LS_PER_REPLICA, items, devices, count);
}

static void expect_unwrapped(ls_strategy *strategy, ls_nest value,
                             const char *text) {
  ls_nest made = ls_none();
  expect_ok(ls_strategy_unwrap(strategy, value, &made));
  expect_printed(made, text);
  ls_nest_release(made);
  ls_nest_release(value);
}

static void unwrapping_goes_by_device(void **state) {
  (void)state;
  LS_SPEC("M23 M24 M25");
  static const char *const order[] = {"/gpu:2", "/gpu:10"};
  static const char *const turned[] = {"/gpu:10", "/gpu:2"};
  static const char *const more[] = {"/gpu:2", "/gpu:10", "/gpu:1"};
  ls_strategy *strategy = NULL;
  expect_ok(make((ls_mirrored_options){.devices = order, .num_devices = 2},
                 &strategy));
  expect_unwrapped(strategy, on_devices((double[]){1, 2}, order, 2),
                   "[1.0, 2.0]");
  expect_unwrapped(strategy, on_devices((double[]){1, 2}, turned, 2),
                   "[2.0, 1.0]");
  // Other devices: by name, GPU:10 before GPU:2.
  expect_unwrapped(strategy, on_devices((double[]){1, 2, 3}, more, 3),
                   "[3.0, 2.0, 1.0]");
  expect_unwrapped(strategy, ls_nest_f64(4), "[4.0]");
  expect_unwrapped(strategy, ls_none(), "[none]");
  expect_unwrapped(strategy, LS_TUPLE(ls_nest_f64(4), ls_nest_f64(5)),
                   "[(4.0, 5.0)]");
  ls_strategy_release(strategy);
}

static void local_results_are_a_tuple(void **state) {
  (void)state;
  LS_SPEC("V196");
  ls_strategy *strategy = mirrored_of(2), *usual = NULL;
  ls_variable *v = variable_in(strategy, (variable_kind){0});
  ls_nest made = ls_none();
  expect_ok(ls_strategy_default(&usual));
  const ls_nest value =
      distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2);
  expect_ok(ls_strategy_local_results(strategy, value, &made));
  expect_printed(made, "(1.0, 2.0)");
  ls_nest_release(made);
  const ls_nest nest = LS_LIST(ls_nest_retain(value), ls_nest_f64(7));
  expect_ok(ls_strategy_local_results(strategy, nest, &made));
  expect_printed(made, "([1.0, 7.0], [2.0, 7.0])");
  ls_nest_release(made);
  ls_nest_release(nest);
  const ls_nest leaf = ls_nest_variable(v);
  expect_ok(ls_strategy_local_results(strategy, leaf, &made));
  assert_int_equal(ls_nest_count(made), 2);
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(made, 1)),
                   ls_variable_component(v, 1));
  ls_nest_release(made);
  ls_nest_release(leaf);
  expect_ok(ls_strategy_local_results(strategy, ls_nest_f64(3), &made));
  expect_printed(made, "(3.0,)");
  ls_nest_release(made);
  expect_ok(ls_strategy_local_results(usual, value, &made));
  assert_int_equal(ls_nest_count(made), 1);
  ls_nest_release(made);
  ls_nest_release(value);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

static ls_nest number_for(int32_t replica, int32_t replicas, void *user) {
  int *calls = user;
  assert_int_equal(replica, (*calls)++);
  return LS_TUPLE(ls_nest_i64(10 * replica + replicas), ls_nest_f64(5));
}

static void values_come_from_a_function(void **state) {
  (void)state;
  LS_SPEC("V198");
  ls_strategy *strategy = mirrored_of(3), *usual = NULL;
  int calls = 0;
  ls_nest made = ls_none();
  expect_ok(
      ls_strategy_values_from_function(strategy, number_for, &calls, &made));
  assert_int_equal(calls, 3);
  expect_numbers(ls_nest_item(made, 0), (double[]){3, 13, 23}, 3);
  expect_numbers(ls_nest_item(made, 1), (double[]){5, 5, 5}, 3);
  ls_nest_release(made);
  expect_ok(ls_strategy_default(&usual));
  calls = 0;
  expect_ok(ls_strategy_values_from_function(usual, number_for, &calls, &made));
  expect_printed(made, "(1, 5.0)");
  ls_nest_release(made);
  ls_strategy_release(strategy);
}

// ---- One of them -----------------------------------------------------------
typedef struct values {
  ls_nest per_replica, mirrored;
  int count;
} values;

static ls_nest use_values(ls_nest args, void *user) {
  values *v = user;
  const int r = ls_replica_number();
  const ls_nest both[] = {v->per_replica, v->mirrored};
  for (int i = 0; i < 2; ++i) {
    ls_tensor tensor;
    ls_nest got = ls_none();
    expect_ok(ls_distributed_as_tensor(both[i], &tensor));
    assert_true(number_of(ls_leaf(tensor)) == r + 1);
    expect_ok(ls_distributed_get(both[i], NULL, &got));
    assert_true(number_of(got) == r + 1);
  }
  ++v->count;
  (void)args;
  return ls_none();
}

static ls_nest use_in_update(ls_nest args, void *user) {
  values *v = user;
  const ls_nest both[] = {v->per_replica, v->mirrored};
  const double wanted = (double)ls_update_replica_id().value + 1;
  (void)args;
  for (int i = 0; i < 2; ++i) {
    ls_tensor tensor;
    ls_nest got = ls_none();
    expect_ok(ls_distributed_as_tensor(both[i], &tensor));
    assert_true(number_of(ls_leaf(tensor)) == wanted);
    expect_ok(ls_distributed_get(both[i], NULL, &got));
    assert_true(number_of(got) == wanted);
  }
  ++v->count;
  return ls_none();
}

static void a_thread_sees_its_component(void **state) {
  (void)state;
  LS_SPEC("V71 V76 M37");
  ls_strategy *strategy = mirrored_of(2);
  values v = {
      .per_replica = distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2),
      .mirrored = distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2)};
  ls_nest_release(run_on(strategy, use_values, ls_none(), &v));
  assert_int_equal(v.count, 2);
  ls_variable *w = variable_in(strategy, (variable_kind){0});
  ls_nest made = ls_none();
  expect_ok(ls_strategy_update(strategy, w, use_in_update, ls_none(), &v, true,
                               &made));
  assert_int_equal(v.count, 4);
  ls_variable_release(w);
  ls_tensor tensor;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_distributed_as_tensor(v.mirrored, &tensor));
    assert_true(number_of(ls_leaf(tensor)) == 1);
    {
      LS_DEVICE_SCOPE("/cpu:1");
      expect_ok(ls_distributed_as_tensor(v.mirrored, &tensor));
      assert_true(number_of(ls_leaf(tensor)) == 2);
    }
    {
      LS_DEVICE_SCOPE("/cpu:5");
      expect_ok(ls_distributed_as_tensor(v.mirrored, &tensor));
      assert_true(number_of(ls_leaf(tensor)) == 1);
    }
    const ls_status status = ls_distributed_as_tensor(v.per_replica, &tensor);
    expect_contains(ls_status_message(status), "PerReplica");
    expect_status(status, LS_FAILED_PRECONDITION, "run");
  }
  {
    LS_DEVICE_SCOPE("/cpu:1");  // The default context: the primary.
    expect_ok(ls_distributed_as_tensor(v.mirrored, &tensor));
    assert_true(number_of(ls_leaf(tensor)) == 1);
  }
  ls_nest_release(v.per_replica);
  ls_nest_release(v.mirrored);
  ls_strategy_release(strategy);
}

static void a_component_is_got_by_device(void **state) {
  (void)state;
  LS_SPEC("M37");
  static const char *const devices[] = {LOCAL "CPU:0", LOCAL "CPU:1"};
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2)};
  const ls_nest value = ls_nest_distributed_on(LS_MIRRORED, items, devices, 2);
  ls_nest got = ls_none();
  expect_ok(ls_distributed_get(value, "cpu:1", &got));
  assert_true(ls_nest_number(got) == 2);
  {
    LS_DEVICE_SCOPE("/cpu:1");
    expect_ok(ls_distributed_get(value, NULL, &got));
    assert_true(ls_nest_number(got) == 2);
    const ls_status status = ls_distributed_get(value, "/gpu:3", &got);
    expect_contains(ls_status_message(status), "GPU:3");
    expect_contains(ls_status_message(status), LOCAL "CPU:0, " LOCAL "CPU:1");
    expect_status(status, LS_INVALID_ARGUMENT,
                  "the current device is '/cpu:1'");
  }
  assert_true(ls_distributed_is_on(value, "CPU:1"));
  assert_false(ls_distributed_is_on(value, "/gpu:1"));
  assert_false(ls_distributed_is_on(value, "/nonsense:1"));
  ls_nest_release(value);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_given_is_the_one_cpu),
      cmocka_unit_test(a_number_of_gpus_is_their_names),
      cmocka_unit_test(nothing_runs_on_gpus),
      cmocka_unit_test(two_ways_of_saying_where_are_refused),
      cmocka_unit_test(an_empty_list_of_devices_is_refused),
      cmocka_unit_test(a_device_can_be_there_once),
      cmocka_unit_test(one_device_is_enough),
      cmocka_unit_test(the_order_given_is_kept_and_copied),
      cmocka_unit_test(devices_of_one_worker_only),
      cmocka_unit_test(replicas_stand_on_logical_cpus),
      cmocka_unit_test(non_slot_devices_are_all),
      cmocka_unit_test(fixed_answers),
      cmocka_unit_test(the_default_strategy_runs_once),
      cmocka_unit_test(the_default_strategy_gives_values_as_they_are),
      cmocka_unit_test(unwrapping_goes_by_device),
      cmocka_unit_test(local_results_are_a_tuple),
      cmocka_unit_test(values_come_from_a_function),
      cmocka_unit_test(a_thread_sees_its_component),
      cmocka_unit_test(a_component_is_got_by_device),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}
