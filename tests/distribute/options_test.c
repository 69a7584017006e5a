// SPDX-License-Identifier: Apache-2.0
//
// How strategies are made, and what they say of themselves.
#include "lockstep/strategy.h"

#include "distribute/own.h"
#include "lockstep/cross_device.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
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

TEST(nothing_given_is_the_one_cpu) {
  LS_SPEC("M3");
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(ls_mirrored_strategy_create(NULL, &strategy));
  expect_devices(strategy, (const char *[]){LOCAL "CPU:0"}, 1);
}

TEST(a_number_of_gpus_is_their_names) {
  LS_SPEC("M4");
  ls_strategy *strategy = NULL;
  expect_ok(
      mirrored_with((ls_mirrored_options){.num_gpus = LS_SOME(3)}, &strategy));
  expect_devices(strategy,
                 (const char *[]){LOCAL "GPU:0", LOCAL "GPU:1", LOCAL "GPU:2"},
                 3);
  // Names only: nothing runs there yet.
  ls_nest results = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain((ls_callback)NULL, NULL),
                                ls_none(), &results),
                LS_INVALID_ARGUMENT, "nothing to run");
  ls_strategy_release(strategy);
  expect_status(
      mirrored_with((ls_mirrored_options){.num_gpus = LS_SOME(0)}, &strategy),
      LS_INVALID_ARGUMENT, "at least one device");
  assert_null(strategy);
}

static ls_nest nothing(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_none();
}

TEST(nothing_runs_on_gpus) {
  LS_OWN(ls_strategy, strategy) = NULL;
  ls_nest results = ls_none();
  expect_ok(
      mirrored_with((ls_mirrored_options){.num_gpus = LS_SOME(2)}, &strategy));
  expect_status(
      ls_strategy_run(strategy, ls_plain(nothing, NULL), ls_none(), &results),
      LS_UNIMPLEMENTED, "GPU:0");
}

TEST(two_ways_of_saying_where_are_refused) {
  LS_SPEC("M5");
  static const char *const devices[] = {"/cpu:0", "/cpu:0"};
  ls_strategy *strategy = NULL;
  // Before anything else that is wrong, and with an empty list.
  for (size_t count = 0; count < 3; ++count) {
    const ls_status status = mirrored_with(
        (ls_mirrored_options){
            .devices = devices, .num_devices = count, .num_gpus = LS_SOME(0)},
        &strategy);
    expect_contains(ls_status_message(status), "devices");
    expect_status(status, LS_INVALID_ARGUMENT, "num_gpus");
  }
}

TEST(an_empty_list_of_devices_is_refused) {
  LS_SPEC("M6");
  static const char *const none[] = {NULL};
  ls_strategy *strategy = NULL;
  expect_status(
      mirrored_with((ls_mirrored_options){.devices = none}, &strategy),
      LS_INVALID_ARGUMENT, "at least one device must be given");
}

TEST(a_device_can_be_there_once) {
  LS_SPEC("M7");
  static const char *const devices[] = {"/gpu:0", "CPU:0", "/cpu:0"};
  ls_strategy *strategy = NULL;
  const ls_status status = mirrored_with(
      (ls_mirrored_options){.devices = devices, .num_devices = 3}, &strategy);
  expect_contains(ls_status_message(status), "devices");
  expect_status(status, LS_INVALID_ARGUMENT,
                LOCAL "GPU:0, " LOCAL "CPU:0, " LOCAL "CPU:0");
}

TEST(one_device_is_enough) {
  LS_SPEC("M8 M19");
  LS_OWN(ls_strategy, one) = NULL;
  LS_OWN(ls_strategy, listed) = NULL;
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  static const char *const device[] = {"/cpu:2"};
  expect_ok(ls_one_device_strategy_create("/cpu:2", &one));
  expect_ok(mirrored_with(
      (ls_mirrored_options){.devices = device, .num_devices = 1}, &listed));
  expect_devices(one, (const char *[]){LOCAL "CPU:2"}, 1);
  expect_devices(listed, (const char *[]){LOCAL "CPU:2"}, 1);
  assert_true(ls_strategy_is_single_replica(one));
  assert_int_equal(ls_strategy_num_replicas(one), 1);
  assert_false(ls_strategy_is_single_replica(two));
  assert_int_equal(ls_strategy_num_replicas(two), 2);
}

TEST(the_order_given_is_kept_and_copied) {
  LS_SPEC("M14 M16 M20 M22");
  char first[] = "/gpu:1";
  const char *devices[] = {first, "/gpu:0", "/cpu:0"};
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(mirrored_with(
      (ls_mirrored_options){.devices = devices, .num_devices = 3}, &strategy));
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
  LS_OWN(ls_nest, index) = ls_none();
  expect_ok(ls_strategy_worker_device_index(strategy, &index));
  expect_numbers(index, (double[]){0, 1, 2}, 3);
  assert_string_equal(ls_distributed_device(index, 1), LOCAL "GPU:0");
  ls_nest_release(index);
  ls_strategy_release(strategy);
  strategy = mirrored_of(1);
  expect_ok(ls_strategy_worker_device_index(strategy, &index));
  expect_numbers(index, (double[]){0}, 1);
}

TEST(devices_of_one_worker_only) {
  LS_SPEC("M17 M18");
  static const char *const mixed[] = {"/cpu:0", "/job:worker/task:0/gpu:0"};
  static const char *const vague[] = {"/job:worker/gpu:0"};
  static const char *const two[] = {"/job:worker/task:0/gpu:0",
                                    "/job:worker/task:1/gpu:0"};
  ls_strategy *strategy = NULL;
  expect_status(
      mirrored_with((ls_mirrored_options){.devices = mixed, .num_devices = 2},
                    &strategy),
      LS_INVALID_ARGUMENT, "localhost");
  expect_status(
      mirrored_with((ls_mirrored_options){.devices = vague, .num_devices = 1},
                    &strategy),
      LS_INVALID_ARGUMENT, "task");
  const ls_mirrored_options several = {.devices = two, .num_devices = 2};
  expect_status(mirrored_with(several, &strategy), LS_FAILED_PRECONDITION,
                "a mirrored strategy on devices of several workers does not "
                "work in eager mode");
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_cross_device, nccl) = NULL;
    expect_ok(ls_nccl_all_reduce_create((ls_opt){0}, &nccl));
    expect_status(mirrored_with((ls_mirrored_options){.devices = two,
                                                      .num_devices = 2,
                                                      .cross_device = nccl},
                                &strategy),
                  LS_UNIMPLEMENTED, "in-graph multi-worker");
  }
}

static void expect_workers_refused(const char *const *devices, size_t count,
                                   const char *part) {
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_status(mirrored_with((ls_mirrored_options){.devices = devices,
                                                    .num_devices = count},
                              &strategy),
                LS_INVALID_ARGUMENT, part);
}

TEST(workers_in_one_graph_have_equal_gpus) {
  LS_SPEC("M163");
  static const char *const fewer[] = {"/job:worker/task:0/gpu:0",
                                      "/job:worker/task:0/gpu:1",
                                      "/job:worker/task:1/gpu:0"};
  static const char *const gap[] = {
      "/job:worker/task:0/gpu:0", "/job:worker/task:0/gpu:2",
      "/job:worker/task:1/gpu:0", "/job:worker/task:1/gpu:1"};
  static const char *const late[] = {"/job:worker/task:0/gpu:1",
                                     "/job:worker/task:1/gpu:1"};
  static const char *const equal[] = {
      "/job:worker/task:0/gpu:0", "/job:worker/task:0/gpu:1",
      "/job:worker/task:1/gpu:1", "/job:worker/task:1/gpu:0"};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    expect_workers_refused(fewer, 3, "has 1 GPUs");
    expect_workers_refused(gap, 4, "without gaps");
    expect_workers_refused(late, 2, "without gaps");
    LS_OWN(ls_strategy, strategy) = NULL;
    expect_ok(mirrored_with(
        (ls_mirrored_options){.devices = equal, .num_devices = 4}, &strategy));
    assert_string_equal(
        ls_cross_device_name(ls_strategy_cross_device(strategy)),
        "reduce_to_one");
    LS_STRATEGY_SCOPE(strategy);
    LS_DEVICE_SCOPE("/cpu:0");
    const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1);
    assert_string_equal(ls_op_device(ls_tensor_op(x)),
                        "/job:worker/replica:0/task:0/device:CPU:0");
  }
}

TEST(replicas_stand_on_logical_cpus) {
  LS_SPEC("M179");
  static const char *const devices[] = {"/cpu:0"};
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  expect_devices(strategy,
                 (const char *[]){LOCAL "CPU:0", LOCAL "CPU:1", LOCAL "CPU:2"},
                 3);
  ls_strategy_release(strategy);
  expect_status(mirrored_with((ls_mirrored_options){.num_replicas = LS_SOME(0)},
                              &strategy),
                LS_INVALID_ARGUMENT, "0 replicas");
  const ls_status listed = mirrored_with(
      (ls_mirrored_options){
          .num_replicas = LS_SOME(2), .devices = devices, .num_devices = 1},
      &strategy);
  expect_contains(ls_status_message(listed), "num_replicas");
  expect_status(listed, LS_INVALID_ARGUMENT, "devices");
  const ls_status gpus = mirrored_with(
      (ls_mirrored_options){.num_replicas = LS_SOME(2), .num_gpus = LS_SOME(2)},
      &strategy);
  expect_contains(ls_status_message(gpus), "num_replicas");
  expect_status(gpus, LS_INVALID_ARGUMENT, "num_gpus");
  strategy = mirrored_of(1024);
  ls_nest made = run_on(strategy, nothing, ls_none(), NULL);
  assert_int_equal(made.kind, LS_KIND_NONE);
}

TEST(non_slot_devices_are_all) {
  LS_SPEC("M21");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const char *devices[4] = {NULL};
  size_t count = 0;
  expect_ok(
      ls_strategy_non_slot_devices(strategy, NULL, 0, devices, 4, &count));
  assert_int_equal(count, 2);
  assert_string_equal(devices[1], LOCAL "CPU:1");
}

TEST(fixed_answers) {
  LS_SPEC("M28");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  assert_false(ls_strategy_between_graph(strategy));
  assert_true(ls_strategy_should_init(strategy));
  assert_true(ls_strategy_should_checkpoint(strategy));
  assert_true(ls_strategy_should_save_summary(strategy));
  assert_true(ls_strategy_has_global_batches(strategy));
  assert_false(ls_strategy_is_multi_worker(strategy));
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

TEST(the_default_strategy_runs_once) {
  LS_SPEC("V207");
  ls_strategy *usual = NULL;
  int calls = 0;
  expect_ok(ls_strategy_default(&usual));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(1), ls_nest_f64(2));
  LS_OWN(ls_nest, made) = run_on(usual, look_default, args, &calls);
  assert_int_equal(calls, 1);
  expect_printed(made, "(1.0, 2.0)");
}

static ls_nest update_default(ls_nest args, void *user) {
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 0)), user);
  assert_true(ls_update_replica_id().set);
  assert_int_equal(ls_update_replica_id().value, 0);
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 1)), ls_nest_f64(3));
}

TEST(the_default_strategy_gives_values_as_they_are) {
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
  LS_OWN(ls_variable, w) = NULL;
  LS_OWN(ls_variable, v) = NULL;
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
}
