// SPDX-License-Identifier: Apache-2.0
//
// TPU systems whose cores are the devices of a plug-in.
#include <math.h>
#include <stdio.h>

#include "estimator/own.h"
#include "lockstep/full.h"
#include "lockstep/lockstep.h"
#include "lockstep/steps.h"
#include "support/assignments.h"
#include "support/computation.h"
#include "support/estimators.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/mlp.h"
#include "support/replicas.h"
#include "support/shim.h"
#include "support/values.h"
#include "tpu/own.h"

enum { DEVICES = 8, STEPS = 3, BATCH = 24 };

// ---- What a system tells ---------------------------------------------------
static ls_tpu_resolver *local_system(void) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(NULL, &resolver));
  return resolver;
}

static void expect_metadata(int32_t cores, int32_t hosts,
                            const int32_t mesh[4]) {
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_tpu_metadata, metadata) = NULL;
  int32_t each = 0;
  expect_ok(ls_tpu_metadata_query(resolver, true, &metadata));
  assert_int_equal(metadata->num_cores, cores);
  assert_int_equal(metadata->num_hosts, hosts);
  assert_int_equal(metadata->num_of_cores_per_host, cores / hosts);
  assert_int_equal(metadata->num_devices, cores + 2 * hosts);
  assert_memory_equal(ls_topology_mesh(metadata->topology), mesh,
                      4 * sizeof(*mesh));
  expect_ok(ls_tpu_resolver_num_accelerators(resolver, &each));
  assert_int_equal(each, cores / hosts);
}

static void expect_core(const ls_topology *topology, int32_t host,
                        int32_t ordinal, const int32_t at[4]) {
  ls_coordinate at_core;
  expect_ok(ls_topology_place_of(topology, host, ordinal, &at_core));
  assert_memory_equal(at_core.at, at, sizeof(at_core.at));
}

static void release_memory(void *memory) {
  ls_allocator *allocator = ls_runtime_allocator(ls_runtime_current());
  allocator->release(allocator, memory);
}

static void expect_picture(const ls_tpu_resolver *resolver, const char *part) {
  LS_OWN(ls_pod, pod) = NULL;
  char *text = NULL;
  expect_ok(ls_tpu_pod(resolver, &pod));
  expect_ok(ls_pod_print(pod, &text));
  assert_non_null(strstr(text, part));
  release_memory(text);
}

TEST(devices_without_coordinates_are_a_line_of_one_host) {
  LS_OWN(open_place, here) = plugin_runtime(DEVICES);
  expect_metadata(DEVICES, 1, (const int32_t[]){DEVICES, 1, 1, 1});
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  ls_device_name *names = NULL;
  size_t count = 0, cores = 0;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  for (int32_t i = 0; i < DEVICES; ++i)
    expect_core(topology, 0, i, (const int32_t[]){i, 0, 0, 0});
  expect_ok(ls_runtime_devices(here.runtime, &names, &count));
  for (size_t i = 0; i < count; ++i)
    if (strstr(names[i].text, "/device:TPU:") != NULL) {
      char name[80];
      snprintf(name, sizeof(name),
               "/job:localhost/replica:0/task:0/device:TPU:%zu", cores++);
      assert_string_equal(names[i].text, name);
    }
  assert_int_equal(cores, DEVICES);
  release_memory(names);
}

TEST(coordinates_of_devices_begin_at_the_origin) {
  shim_state *shim = shim_begin();
  shim->mesh_x = 4;
  shim->num_hosts = 2;
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  expect_metadata(DEVICES, 2, (const int32_t[]){4, 2, 1, 1});
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  expect_core(topology, 0, 1, (const int32_t[]){2, 0, 0, 0});
  expect_core(topology, 1, 3, (const int32_t[]){3, 1, 0, 0});
  expect_picture(resolver, "y 0  0:0  |  1:0  |  0:1  |  1:1\n"
                           "y 1  0:2  |  1:2  |  0:3  |  1:3\n");
}

TEST(some_devices_of_a_mesh_leave_the_rest_of_it_missing) {
  shim_state *shim = shim_begin();
  shim->mesh_x = 4;
  LS_OWN(open_place, here) = shim_runtime(6);
  expect_metadata(6, 1, (const int32_t[]){4, 2, 1, 1});
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  assert_int_equal(ls_topology_missing(topology, NULL, 0), 2);
  expect_picture(resolver, "y 1  0:4  0:5  -    -\n");
}

TEST(hosts_with_different_numbers_of_devices_are_refused) {
  shim_state *shim = shim_begin();
  shim->num_hosts = 2;
  LS_OWN(open_place, here) = shim_runtime(5);
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  expect_status(ls_tpu_connect(resolver), LS_FAILED_PRECONDITION,
                "host 0 has 3 of them, host 1 has 2");
}

TEST(a_topology_of_libtpu_has_its_hosts_and_coordinates) {
  static const struct {
    const char *name;
    int32_t cores, hosts, mesh[4];
  } cases[] = {{"v5e:2x2", 4, 1, {2, 2, 1, 1}},
               {"v4:2x2x1", 8, 1, {2, 2, 1, 2}},
               {"v5e:4x4", 16, 4, {4, 4, 1, 1}},
               {"v5p:2x2x2", 8, 2, {2, 2, 2, 1}}};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(open_place, here) = runtime_begin((ls_runtime_options){
        .device = tpu_device(), .topology = cases[i].name});
    expect_metadata(cases[i].cores, cases[i].hosts, cases[i].mesh);
    LS_OWN(ls_tpu_resolver, resolver) = local_system();
    LS_OWN(ls_topology, topology) = NULL;
    LS_OWN(ls_device_assignment, ring) = NULL;
    expect_ok(ls_tpu_initialize(resolver, &topology));
    assert_int_equal(ls_topology_missing(topology, NULL, 0), 0);
    if (i == 1) expect_core(topology, 0, 5, (const int32_t[]){0, 1, 0, 1});
    if (i == 2) expect_core(topology, 1, 3, (const int32_t[]){3, 1, 0, 0});
    if (i == 3) expect_core(topology, 1, 2, (const int32_t[]){0, 1, 1, 0});
    const int32_t shape[4] = {1, 1, 1, cases[i].mesh[3]};
    expect_ok(ls_device_assignment_build(
        topology,
        &(ls_device_assignment_options){.shape = shape,
                                        .shape_rank = 4,
                                        .num_replicas =
                                            LS_SOME(cases[i].cores / shape[3]),
                                        .order = LS_DEVICE_ORDER_RING},
        &ring));
  }
}

// ---- Where replicas run ----------------------------------------------------
// Losses of each replica in steps of mlp, and its last variables.
typedef struct outcome {
  double losses[STEPS * DEVICES], variables[400];
} outcome;

static void train_mlp(ls_strategy *strategy, outcome *out) {
  LS_OWN(mlp, model) = {0};
  LS_OWN(ls_array, examples) = NULL;
  LS_OWN(ls_array, labels) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  const int32_t replicas = ls_strategy_num_replicas(strategy);
  ls_nest split[2];
  *out = (outcome){0};
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(mlp_create(&mlp_tiny, LS_DTYPE_F32, &model));
  }
  expect_ok(mlp_batch(&mlp_tiny, LS_DTYPE_F32, 0, BATCH, &examples, &labels));
  expect_ok(ls_strategy_split(strategy, examples, &split[0]));
  expect_ok(ls_strategy_split(strategy, labels, &split[1]));
  LS_OWN(ls_function, f) = function_of(mlp_step, &model);
  LS_OWN(ls_nest, args) = ls_nest_sequence(LS_KIND_TUPLE, split, 2);
  for (int step = 0; step < STEPS; ++step) {
    expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &results));
    for (int32_t r = 0; r < replicas; ++r)
      out->losses[step * DEVICES + r] = nest_element(
          replicas == 1 ? results
                        : ls_distributed_component(results, (size_t)r),
          0);
  }
  for (size_t i = 0; i < model.num_variables; ++i)
    read_variable(model.variables[i], out->variables + 100 * i, 100);
}

static void expect_near(const double *got, const double *want, size_t count) {
  for (size_t i = 0; i < count; ++i)
    assert_true(fabs(got[i] - want[i]) < 1e-5);
}

// Expects the losses of the CPU engine.
static void expect_training(ls_strategy *strategy) {
  static outcome want, got;
  {
    LS_OWN(open_place, cpu) = runtime_begin((ls_runtime_options){0});
    LS_OWN(ls_strategy, mirrored) =
        mirrored_of(ls_strategy_num_replicas(strategy));
    train_mlp(mirrored, &want);
  }
  train_mlp(strategy, &got);
  expect_near(got.losses, want.losses, LS_COUNT_OF(got.losses));
  expect_near(got.variables, want.variables, LS_COUNT_OF(got.variables));
}

static ls_strategy *strategy_on(ls_device_assignment *assignment) {
  ls_strategy *strategy = NULL;
  expect_ok(ls_tpu_strategy_create(&(ls_tpu_options){.assignment = assignment},
                                   &strategy));
  return strategy;
}

// Assigns a core of the topology, in the order of its devices, to each replica.
static ls_device_assignment *assign(const ls_topology *topology,
                                    const int *cores, int count) {
  ls_device_assignment *made = NULL;
  LS_OWN(ls_array, places) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(count, 1, 4), &places));
  for (int r = 0; r < count; ++r) {
    ls_coordinate at_core;
    expect_ok(ls_topology_place_of(topology, 0, cores[r], &at_core));
    for (int k = 0; k < 4; ++k)
      ls_array_set_i64(places, 4 * r + k, at_core.at[k]);
  }
  expect_ok(ls_device_assignment_create((ls_topology *)(uintptr_t)topology,
                                        places, &made));
  return made;
}

static void expect_devices(const shim_state *shim, const int *devices,
                           int count) {
  assert_int_equal(shim->num_devices, count);
  assert_memory_equal(shim->devices, devices, (size_t)count * sizeof(*devices));
}

TEST(replicas_run_on_the_devices_of_their_cores) {
  static const struct {
    int count, devices[DEVICES];
  } cases[] = {{DEVICES, {7, 0, 6, 1, 5, 2, 4, 3}}, {3, {6, 0, 3}}, {1, {5}}};
  shim_state *shim = shim_begin();
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(open_place, here) = shim_runtime(DEVICES);
    LS_OWN(ls_tpu_resolver, resolver) = local_system();
    LS_OWN(ls_topology, topology) = NULL;
    expect_ok(ls_tpu_initialize(resolver, &topology));
    LS_OWN(ls_device_assignment, assignment) =
        assign(topology, cases[i].devices, cases[i].count);
    LS_OWN(ls_strategy, strategy) = strategy_on(assignment);
    expect_training(strategy);
    expect_devices(shim, cases[i].devices, cases[i].count);
    assert_int_equal(shim->misuses, 0);
  }
}

TEST(a_ring_follows_the_coordinates_of_the_devices) {
  shim_state *shim = shim_begin();
  shim->mesh_x = 4;
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_device_assignment, ring) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  expect_ok(ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.num_replicas = LS_SOME(DEVICES),
                                      .order = LS_DEVICE_ORDER_RING},
      &ring));
  LS_OWN(ls_strategy, strategy) = strategy_on(ring);
  expect_training(strategy);
  expect_devices(shim, (const int[]){0, 1, 2, 3, 7, 6, 5, 4}, DEVICES);
}

TEST(a_strategy_without_an_assignment_takes_all_devices_host_by_host) {
  shim_state *shim = shim_begin();
  shim->num_hosts = 2;
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN(ls_strategy, strategy) = strategy_on(NULL);
  assert_int_equal(ls_strategy_num_replicas(strategy), DEVICES);
  assert_int_equal(ls_tpu_strategy_num_hosts(strategy), 2);
  ls_device_name name;
  expect_ok(ls_tpu_strategy_device(strategy, 5, 0, &name));
  assert_string_equal(name.text,
                      "/job:localhost/replica:0/task:1/device:TPU:1");
  expect_training(strategy);
  expect_devices(shim, (const int[]){0, 2, 4, 6, 1, 3, 5, 7}, DEVICES);
}

TEST(a_replica_of_several_cores_runs_on_the_first) {
  shim_state *shim = shim_begin();
  shim->mesh_x = 4;
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_device_assignment, pairs) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  expect_ok(ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.shape = (const int32_t[]){2, 1, 1, 1},
                                      .shape_rank = 4,
                                      .num_replicas = LS_SOME(4),
                                      .order = LS_DEVICE_ORDER_MESH},
      &pairs));
  LS_OWN(ls_strategy, strategy) = strategy_on(pairs);
  expect_training(strategy);
  expect_devices(shim, (const int[]){0, 2, 4, 6}, 4);
}

TEST(replicas_of_a_virtual_system_share_the_devices) {
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(2);
  LS_OWN(ls_tpu_resolver, pod) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = "virtual:2x2"}, &pod));
  expect_ok(
      ls_tpu_strategy_create(&(ls_tpu_options){.resolver = pod}, &strategy));
  assert_int_equal(ls_strategy_num_replicas(strategy), DEVICES);
  expect_training(strategy);
  expect_devices(shim, (const int[]){0, 1}, 2);
}

// ---- Computations ----------------------------------------------------------
static ls_nest sum_squares(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_square(x))),
                 ls_leaf(ls_square(x)));
}

// Builds a computation on these cores of one host; the outputs are the
// caller's.
static ls_nest replicate_by(ls_callback body, void *user,
                            const ls_topology *topology, const int *cores,
                            int count) {
  LS_OWN(ls_device_assignment, assignment) = assign(topology, cores, count);
  LS_OWN(ls_nest, inputs) = computation_inputs((size_t)count);
  ls_nest outputs = ls_none();
  expect_ok(ls_replicate(body, user, inputs,
                         &(ls_replicate_options){.assignment = assignment},
                         &outputs));
  return outputs;
}

static ls_nest replicate_on(const ls_topology *topology, const int *cores,
                            int count) {
  return replicate_by(sum_squares, NULL, topology, cores, count);
}

TEST(a_computation_runs_on_the_devices_of_its_cores) {
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, two) = replicate_on(topology, (const int[]){4, 2}, 2);
  LS_OWN(ls_nest, same) = replicate_on(topology, (const int[]){4, 2, 7}, 3);
  LS_OWN(ls_nest, turned) = replicate_on(topology, (const int[]){2, 4}, 2);
  c.outputs = ls_nest_retain(two);
  assert_true(computation_output(&c, 1, 0) == 5);
  assert_true(computation_output(&c, 1, 1) == 4);
  expect_devices(shim, (const int[]){4, 2}, 2);
  // Computations of one program may be on the same devices.
  LS_OWN(ls_nest, both) = LS_LIST(ls_nest_retain(two), ls_nest_retain(same));
  expect_ok(computation_run(&c, both));
  expect_devices(shim, (const int[]){4, 2, 7}, 3);
  LS_OWN(ls_nest, apart) = LS_LIST(ls_nest_retain(two), ls_nest_retain(turned));
  expect_status(computation_run(&c, apart), LS_UNIMPLEMENTED,
                "replica 0 of a computation on device 2");
}

// Takes a number from the core's infeed and adds the sum of all replicas' to a
// variable.
static ls_nest add_taken(ls_nest args, void *user) {
  (void)args;
  const ls_tensor x = ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR);
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, x);
  return LS_LIST(ls_leaf(ls_variable_assign_add(user, sum)),
                 ls_leaf(ls_square(x)));
}

static void put_number(int core, double number) {
  char device[80];
  snprintf(device, sizeof(device), "/job:localhost/task:0/device:TPU:%d", core);
  LS_OWN(ls_nest, tuple) =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &number)));
  expect_ok(ls_infeed_put(device, tuple));
}

TEST(computations_on_other_devices_share_a_variable) {
  static const int cores[2][2] = {{4, 2}, {1, 4}};
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_variable, total) = f32_variable("total", 0.5);
  LS_OWN(ls_nest, first) =
      replicate_by(add_taken, total, topology, cores[0], 2);
  LS_OWN(ls_nest, second) =
      replicate_by(add_taken, total, topology, cores[1], 2);
  computation_initialize(&c, total);
  double want = 0.5;
  for (int i = 0; i < 4; ++i) {
    put_number(cores[i % 2][0], 3);
    put_number(cores[i % 2][1], i);
    want += 3 + i;
    LS_OWN(ls_nest, results) =
        session_results(c.session, i % 2 == 0 ? first : second);
    expect_devices(shim, cores[i % 2], 2);
    for (size_t r = 0; r < 2; ++r) {
      const ls_nest each = ls_nest_item(results, r);
      assert_true(nest_element(ls_nest_item(each, 0), 0) == want);
      assert_true(nest_element(ls_nest_item(each, 1), 0) ==
                  (r == 0 ? 9 : i * i));
    }
  }
}

TEST(cores_that_the_devices_do_not_have_are_refused) {
  LS_OWN(open_place, here) = plugin_runtime(2);
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  expect_status(ls_device_assignment_build(
                    topology,
                    &(ls_device_assignment_options){.num_replicas = LS_SOME(3)},
                    &assignment),
                LS_INVALID_ARGUMENT, "1 to 2 fit in the mesh [2, 1, 1, 1]");
  // Devices in a line, of a system that nobody knows.
  LS_OWN(ls_topology, line) =
      mesh_topology((const int32_t[]){3, 1, 1, 1}, 1, 3);
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, outputs) = replicate_on(line, (const int[]){1, 0, 2}, 3);
  expect_status(computation_run(&c, outputs), LS_FAILED_PRECONDITION,
                "core 2 of the computation is not one of TPU system 'local', "
                "which has 2 cores");
}

TEST(a_system_of_devices_is_shut_down_and_initialized_again) {
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN(ls_tpu_resolver, resolver) = local_system();
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, outputs) = replicate_on(topology, (const int[]){4, 2}, 2);
  expect_ok(ls_tpu_shutdown(resolver));
  expect_status(computation_run(&c, outputs), LS_FAILED_PRECONDITION,
                "'local' is not initialized");
  expect_ok(ls_tpu_initialize(resolver, NULL));
  expect_ok(computation_run(&c, outputs));
  expect_devices(shim, (const int[]){4, 2}, 2);
  LS_OWN(ls_tpu_resolver, other) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.local = "2x2", .name = "local"}, &other));
  expect_status(ls_tpu_connect(other), LS_FAILED_PRECONDITION,
                "is a mesh of [8, 1, 1, 1] on 1 hosts, not of [2, 2, 1, 2]");
  ls_tpu_resolver_release(other);
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "nowhere"}, &other));
  expect_status(ls_tpu_connect(other), LS_INVALID_ARGUMENT, "nowhere");
}

// ---- Loops -----------------------------------------------------------------
// Adds the mean of squares of what replicas see to a variable.
static ls_nest add_squares(ls_step_context *context, ls_nest inputs,
                           void *user) {
  (void)context;
  const ls_tensor x = ls_convert(ls_nest_tensor(inputs, 0), LS_DTYPE_F32);
  const ls_tensor mean =
      ls_all_reduce(LS_REDUCE_MEAN, ls_reduce_sum(ls_square(x), LS_ALL_AXES));
  return ls_nest_op(ls_tensor_op(
      ls_variable_assign_add(user, ls_mul_scalar(mean, 1.0 / 64))));
}

static double run_steps(void) {
  enum { ITERATIONS = 5 };
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  expect_ok(ls_tpu_strategy_v1_create(
      &(ls_tpu_v1_options){.steps_per_run = LS_SOME(ITERATIONS)}, &strategy));
  ls_step_context *context = NULL;
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_variable, total) =
      variable_in(strategy, (variable_kind){.initial = 0.5});
  LS_OWN(ls_nest, data) = distributed(
      strategy, whole_batches((int64_t)ITERATIONS * DEVICES, DEVICES), NULL);
  expect_ok(ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
      &iterator));
  expect_ok(
      ls_strategy_run_steps(strategy,
                            &(ls_steps){.fn = add_squares,
                                        .user = total,
                                        .iterator = iterator,
                                        .iterations = LS_SOME(ITERATIONS)},
                            &context));
  computation_initialize(&c, total);
  LS_OWN(ls_nest, run) = ls_nest_op(ls_step_context_run_op(context));
  expect_ok(computation_run(&c, run));
  ls_step_context_release(context);
  return computation_fetch(&c, ls_variable_read(total));
}

TEST(a_loop_makes_steps_on_the_devices) {
  const double want = run_steps();
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  const double got = run_steps();
  assert_true(fabs(got - want) < 1e-5 * want);
  assert_int_equal(shim->num_devices, DEVICES);
}

static void use_estimator(const char *folder, const shim_state *shim,
                          double out[3]) {
  LS_OWN(estimator_case, c) = {.way = ON_TPU,
                               .replicas = DEVICES,
                               .folder = folder,
                               .iterations = "4",
                               .repeats = true,
                               .config.master = "local"};
  estimator_case_begin(&c);
  out[0] = estimator_case_train(&c, 12).loss;
  if (shim != NULL) assert_int_equal(shim->num_devices, DEVICES);
  LS_OWN(ls_nest, metrics) = estimator_evaluate(&c, (ls_opt)LS_SOME(4));
  out[1] = estimator_metric(metrics, "accuracy");
  out[2] = estimator_metric(metrics, "mean");
}

TEST(an_estimator_of_the_local_system_trains_on_its_devices) {
  double want[3], got[3];
  shim_state *shim = shim_begin();
  use_estimator("on-cpu", NULL, want);
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  use_estimator("on-devices", shim, got);
  expect_near(got, want, 3);
}
