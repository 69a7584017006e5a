// SPDX-License-Identifier: Apache-2.0
//
// Replicas, functions and sessions on the devices of a plug-in that a user
// names.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/full.h"
#include "lockstep/lockstep.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/shim.h"
#include "support/trainer.h"
#include "support/values.h"
#include "tpu/own.h"

enum { DEVICES = 8, STEPS = 6 };

static ls_strategy *strategy_on(const char *const *devices, size_t count) {
  ls_strategy *strategy = NULL;
  expect_ok(mirrored_with(
      (ls_mirrored_options){.devices = devices, .num_devices = count},
      &strategy));
  return strategy;
}

static void expect_devices(const shim_state *shim, const int *devices,
                           int count) {
  assert_int_equal(shim->num_devices, count);
  assert_memory_equal(shim->devices, devices, (size_t)count * sizeof(*devices));
}

// Adds the mean over the replicas of `x` times the variable to the variable;
// returns the replica's id.
static ls_nest take_step(ls_nest args, void *user) {
  ls_variable *variable = user;
  const ls_tensor x = ls_reshape(ls_nest_tensor(args, 0), LS_SCALAR);
  ls_variable_assign_add(
      variable,
      ls_all_reduce(LS_REDUCE_MEAN, ls_mul(x, ls_variable_read(variable))));
  return ls_leaf(ls_add(x, ls_convert(ls_replica_id(), LS_DTYPE_F32)));
}

// A step of a variable, whose replicas have the numbers 1, 2, ...
typedef struct stepping {
  ls_strategy *strategy;
  ls_variable *variable;
  ls_function *function;
  ls_nest args, results;
  double want;
} stepping;

static void stepping_begin(stepping *s, const char *const *devices,
                           size_t count) {
  double numbers[DEVICES];
  for (size_t i = 0; i < count; ++i)
    numbers[i] = (double)i + 1;
  *s = (stepping){.strategy = strategy_on(devices, count), .want = 2};
  s->variable = variable_in(
      s->strategy,
      (variable_kind){.initial = 2, .aggregation = LS_AGGREGATION_MEAN});
  s->function = function_of(take_step, s->variable);
  s->args = LS_TUPLE(split_of(
      (int)count, array_of(LS_DTYPE_F32, LS_SHAPE((int64_t)count), numbers)));
}

static ls_status stepping_try(stepping *s) {
  return ls_strategy_run(s->strategy, ls_traced(s->function), s->args,
                         &s->results);
}

// Takes a step and expects what it gives.
static void stepping_run(stepping *s) {
  const int32_t count = ls_strategy_num_replicas(s->strategy);
  double got = 0;
  expect_ok(stepping_try(s));
  s->want *= 1 + (count + 1) / 2.0;
  for (int32_t r = 0; r < count; ++r)
    assert_true(nest_element(count == 1 ? s->results
                                        : ls_distributed_component(s->results,
                                                                   (size_t)r),
                             0) == 2 * r + 1);
  read_variable(s->variable, &got, 1);
  assert_true(fabs(got - s->want) < 1e-5 * s->want);
}

static void stepping_end(stepping *s) {
  ls_nest_release(s->args);
  ls_nest_release(s->results);
  ls_function_release(s->function);
  ls_variable_release(s->variable);
  ls_strategy_release(s->strategy);
}
LS_OWNED_STRUCT(stepping, stepping_end)

// ---- Strategies ------------------------------------------------------------
TEST(replicas_run_on_the_devices_that_a_user_names) {
  LS_SPEC("M14");
  static const struct {
    const char *names[4];
    int count, devices[4];
  } cases[] = {
      {{"CPU:2", "/device:CPU:0"}, 2, {2, 0}},
      {{"/cpu:7", "/job:localhost/replica:0/task:0/device:CPU:1", "CPU:4"},
       3,
       {7, 1, 4}},
      {{"CPU:5"}, 1, {5}}};
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN_BEGUN(stepping, s, stepping_begin, cases[i].names,
                 (size_t)cases[i].count);
    stepping_run(&s);
    stepping_run(&s);
    expect_devices(shim, cases[i].devices, cases[i].count);
  }
  assert_int_equal(shim->misuses, 0);
}

TEST(strategies_of_one_size_have_devices_of_their_own) {
  static const char *const names[] = {"CPU:0", "CPU:3", "CPU:1"};
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN_BEGUN(stepping, a, stepping_begin, names, 2);
  LS_OWN_BEGUN(stepping, b, stepping_begin, names + 1, 2);
  for (int i = 0; i < 3; ++i) {
    stepping_run(&a);
    expect_devices(shim, (const int[]){0, 3}, 2);
    stepping_run(&b);
    expect_devices(shim, (const int[]){3, 1}, 2);
  }
}

TEST(devices_that_a_plugin_does_not_have_are_refused) {
  static const char *const names[] = {"CPU:1", "CPU:2", "GPU:0"};
  LS_OWN(open_place, here) = plugin_runtime(2);
  LS_OWN_BEGUN(stepping, beyond, stepping_begin, names, 2);
  LS_OWN_BEGUN(stepping, other, stepping_begin, names + 2, 1);
  expect_status(stepping_try(&beyond), LS_NOT_FOUND,
                "device:CPU:2': the devices of this runtime are of type CPU, "
                "CPU:0 to CPU:1");
  expect_status(stepping_try(&other), LS_UNIMPLEMENTED,
                "device:GPU:0': the devices of this runtime are of type CPU");
  // Replicas that nobody has placed share the devices.
  LS_OWN(ls_strategy, many) = mirrored_of(4);
  LS_OWN(ls_variable, v) =
      variable_in(many, (variable_kind){.aggregation = LS_AGGREGATION_MEAN});
  LS_OWN(ls_function, f) = function_of(take_step, v);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(split_of(4, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(4), 1)));
  LS_OWN(ls_nest, results) = strategy_results(many, ls_traced(f), args);
}

// The shim calls the CPU devices GPUs.
TEST(gpus_are_named_by_their_numbers_and_cpus_beside_them_are_the_host) {
  static const char *const names[] = {"GPU:2", "GPU:0", "CPU:0", "CPU:1"};
  shim_state *shim = shim_begin();
  shim->platform = "cuda";
  setenv("LS_PJRT_CACHE", "off", 1);
  {
    LS_OWN(open_place, here) = shim_runtime(3);
    LS_OWN_BEGUN(stepping, gpus, stepping_begin, names, 2);
    stepping_run(&gpus);
    expect_devices(shim, (const int[]){2, 0}, 2);
    assert_int_equal(shim->executes, 1);
    LS_OWN_BEGUN(stepping, cpus, stepping_begin, names + 2, 2);
    LS_OWN_BEGUN(stepping, cpu, stepping_begin, names + 3, 1);
    stepping_run(&cpus);
    stepping_run(&cpu);
    assert_int_equal(shim->executes, 1);
    LS_OWN_BEGUN(stepping, both, stepping_begin, names + 1, 2);
    expect_status(stepping_try(&both), LS_UNIMPLEMENTED,
                  "on the CPU and on other devices");
    LS_OWN(ls_strategy, counted) = NULL;
    expect_ok(
        mirrored_with((ls_mirrored_options){.num_gpus = LS_SOME(4)}, &counted));
    LS_OWN(ls_function, f) = function_of(take_step, gpus.variable);
    LS_OWN(ls_nest, args) =
        LS_TUPLE(split_of(4, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(4), 1)));
    LS_OWN(ls_nest, results) = ls_none();
    expect_status(ls_strategy_run(counted, ls_traced(f), args, &results),
                  LS_NOT_FOUND, "GPU:0 to GPU:2");
  }
  unsetenv("LS_PJRT_CACHE");
}

// A strategy of cores that a TPU system has made of the devices.
TEST(cores_of_the_local_system_are_its_devices) {
  static const char *const names[] = {"/device:TPU:6", "/device:TPU:1"};
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_create(NULL, &resolver));
  LS_OWN_BEGUN(stepping, s, stepping_begin, names, 2);
  expect_status(stepping_try(&s), LS_UNIMPLEMENTED, "TPU:6");
  expect_ok(ls_tpu_connect(resolver));
  expect_ok(ls_tpu_initialize(resolver, NULL));
  stepping_run(&s);
  expect_devices(shim, (const int[]){6, 1}, 2);
}

// ---- Functions and sessions ------------------------------------------------
static ls_nest triple(ls_nest args, void *user) {
  const char *device = user;
  LS_DEVICE_SCOPE(device);
  return ls_leaf(ls_mul_scalar(ls_nest_tensor(args, 0), 3));
}

TEST(a_function_runs_on_the_device_that_its_ops_name) {
  static const struct {
    char name[40];
    int device;
  } cases[] = {{"", 0}, {"/cpu:3", 3}, {"GPU:1", 0}, {"CPU:9", 0}};
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(4);
  LS_OWN(ls_nest, args) = LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1), (double[]){5})));
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(ls_function, f) = function_of(triple, (void *)cases[i].name);
    LS_OWN(ls_nest, result) = call_results(f, args);
    assert_true(nest_element(result, 0) == 15);
    expect_devices(shim, &cases[i].device, 1);
  }
}

TEST(a_session_runs_steps_on_the_devices_of_their_strategies) {
  static const char *const names[] = {"CPU:3", "CPU:1", "CPU:2"};
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(4);
  LS_OWN(ls_strategy, a) = strategy_on(names, 2);
  LS_OWN(ls_strategy, b) = strategy_on(names + 1, 2);
  LS_OWN(ls_graph, graph) = graph_named("steps");
  LS_OWN(ls_function, f) = function_of(triple, "");
  LS_OWN(ls_nest, of_a) = ls_none();
  LS_OWN(ls_nest, of_b) = ls_none();
  ls_tensor alone;
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor five =
        ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(2), 5, 6, NULL);
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(five));
    expect_ok(ls_strategy_run(a, ls_traced(f), args, &of_a));
    expect_ok(ls_strategy_run(b, ls_traced(f), args, &of_b));
    LS_DEVICE_SCOPE("CPU:2");
    alone = ls_mul(five, five);
  }
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, first) = session_results(session, of_a);
  expect_devices(shim, (const int[]){3, 1}, 2);
  LS_OWN(ls_nest, second) = session_results(session, of_b);
  expect_devices(shim, (const int[]){1, 2}, 2);
  LS_OWN(ls_nest, third) = session_results(session, ls_leaf(alone));
  expect_devices(shim, (const int[]){2}, 1);
  LS_OWN(ls_nest, both) = LS_LIST(ls_nest_retain(of_a), ls_nest_retain(of_b));
  LS_OWN(ls_nest, results) = ls_none();
  expect_status(ls_session_run(session, both, NULL, 0, &results),
                LS_UNIMPLEMENTED, "replica 0 of a computation on device 1");
}

static void keep_warning(void *user, const ls_log_line *line) {
  if (line->level == LS_LOG_WARNING) snprintf(user, 200, "%s", line->text);
}

static ls_nest multiply(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_mul(x, x)));
}

// Replicas whose ops a plain callback has made one by one.
TEST(replicas_that_are_not_traced_run_on_one_device_with_a_warning) {
  static const char *const names[] = {"CPU:3", "CPU:1"};
  char warning[200] = "";
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) =
      runtime_begin((ls_runtime_options){.device = shim_device(),
                                         .num_devices = 4,
                                         .log = keep_warning,
                                         .log_user = warning});
  LS_OWN(ls_strategy, s) = strategy_on(names, 2);
  LS_OWN(ls_graph, graph) = graph_named("steps");
  LS_OWN(ls_nest, made) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, args) = LS_TUPLE(
        ls_leaf(ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(2), 5, 6, NULL)));
    expect_ok(ls_strategy_run(s, ls_plain(multiply, NULL), args, &made));
  }
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, results) = session_results(session, made);
  expect_devices(shim, (const int[]){3}, 1);
  expect_contains(warning, "device 3 computes all");
}

// A variable is read on its device.
static ls_nest read_twice(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_mul_scalar(ls_variable_read(user), 2));
}

TEST(a_function_runs_on_the_device_of_the_variable_that_it_reads) {
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(4);
  ls_variable *made = NULL;
  {
    LS_DEVICE_SCOPE("CPU:2");
    made = f32_variable("v", 4);
  }
  LS_OWN(ls_variable, v) = made;
  LS_OWN(ls_function, f) = function_of(read_twice, v);
  LS_OWN(ls_nest, result) = call_results(f, ls_none());
  assert_true(nest_element(result, 0) == 8);
  expect_devices(shim, (const int[]){2}, 1);
}

// ---- Values that move ------------------------------------------------------
static ls_nest add_to(ls_nest args, void *user) {
  return ls_leaf(ls_variable_assign_add(
      user, ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES)));
}

// A variable that two strategies, functions elsewhere and eager ops use in
// turn.
TEST(a_variable_goes_where_it_is_used) {
  static const char *const names[] = {"CPU:1", "CPU:3", "CPU:0", "CPU:2"};
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(4);
  LS_OWN(ls_variable, v) = f32_variable("v", 2);
  LS_OWN(ls_strategy, a) = strategy_on(names, 2);
  LS_OWN(ls_strategy, b) = strategy_on(names + 2, 2);
  LS_OWN(ls_function, step) = function_of(take_step, v);
  LS_OWN(ls_function, add) = function_of(add_to, v);
  LS_OWN(ls_nest, args) = LS_TUPLE(
      split_of(2, array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){1, 3})));
  LS_OWN(ls_nest, one) = LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1), (double[]){1})));
  double want = 2, got = 0;
  for (int i = 0; i < 4; ++i) {
    LS_OWN(ls_nest, first) = strategy_results(a, ls_traced(step), args);
    want *= 3;
    if (i > 0) {
      LS_OWN(ls_nest, added) = call_results(add, one);
      want += 1;
    }
    if (i > 1) {
      set_variable(v, (const double[]){want - 5});
      want -= 5;
    }
    LS_OWN(ls_nest, second) = strategy_results(b, ls_traced(step), args);
    want *= 3;
    if (i != 2) read_variable(v, &got, 1);
    if (i != 2) assert_true(got == want);
  }
  assert_int_equal(shim->misuses, 0);
}

// ---- Two strategies at a time ----------------------------------------------
static const char *const halves[] = {"CPU:3", "CPU:1", "CPU:0", "CPU:2",
                                     "CPU:4", "CPU:5", "CPU:7", "CPU:6"};

typedef struct training_thread {
  ls_runtime *runtime;
  trainer model;
  double losses[STEPS];
  pthread_t thread;
} training_thread;

static void training_begin(training_thread *self, const char *const *devices,
                           int replicas, int64_t batch) {
  *self = (training_thread){.runtime = ls_runtime_current()};
  expect_ok(trainer_create_on(&(trainer_options){.shape = &mlp_tiny,
                                                 .way = TRAINER_STRATEGY,
                                                 .batch = batch,
                                                 .replicas = replicas},
                              devices, &self->model));
}

static void training_end(training_thread *self) {
  trainer_destroy(&self->model);
}
LS_OWNED_STRUCT(training_thread, training_end)

static void training_step(training_thread *self, int step) {
  expect_ok(trainer_step(&self->model));
  self->losses[step] = trainer_loss(&self->model);
}

static void *train_on_thread(void *user) {
  training_thread *self = user;
  ls_runtime_make_current(self->runtime);
  for (int step = 0; step < STEPS; ++step)
    training_step(self, step);
  ls_runtime_make_current(NULL);
  return NULL;
}

static void train_together(training_thread *a, training_thread *b) {
  assert_int_equal(pthread_create(&a->thread, NULL, train_on_thread, a), 0);
  assert_int_equal(pthread_create(&b->thread, NULL, train_on_thread, b), 0);
  pthread_join(a->thread, NULL);
  pthread_join(b->thread, NULL);
}

static void expect_same(const training_thread *got,
                        const training_thread *want) {
  for (int step = 0; step < STEPS; ++step)
    assert_true(fabs(got->losses[step] - want->losses[step]) < 1e-5);
}

TEST(strategies_on_halves_of_the_devices_train_in_turns_and_at_a_time) {
  training_thread want[2];
  {
    LS_OWN(open_place, cpu) = runtime_begin((ls_runtime_options){0});
    for (int i = 0; i < 2; ++i) {
      LS_OWN_BEGUN(training_thread, t, training_begin, NULL, 4, 8 + 4 * i);
      train_on_thread(&t);
      ls_runtime_make_current(cpu.runtime);
      want[i] = t;
    }
  }
  LS_OWN(open_place, here) = plugin_runtime(DEVICES);
  LS_OWN_BEGUN(training_thread, a, training_begin, halves, 4, 8);
  LS_OWN_BEGUN(training_thread, b, training_begin, halves + 4, 4, 12);
  for (int step = 0; step < STEPS; ++step) {
    training_step(&a, step);
    training_step(&b, step);
  }
  expect_same(&a, &want[0]);
  expect_same(&b, &want[1]);
  LS_OWN_BEGUN(training_thread, c, training_begin, halves, 4, 8);
  LS_OWN_BEGUN(training_thread, d, training_begin, halves + 4, 4, 12);
  train_together(&c, &d);
  expect_same(&c, &want[0]);
  expect_same(&d, &want[1]);
}

// Each launch would wait on a device for the other one.
TEST(launches_come_to_devices_in_one_order) {
  static const char *const turned[] = {"CPU:2", "CPU:1", "CPU:6", "CPU:7"};
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(DEVICES);
  LS_OWN_BEGUN(training_thread, a, training_begin, halves, 4, 8);
  LS_OWN_BEGUN(training_thread, b, training_begin, turned, 4, 8);
  training_step(&a, 0);  // Compiles.
  training_step(&b, 0);
  shim->launch_micros = 2000;
  train_together(&a, &b);
  assert_int_equal(shim->executes, 2 * STEPS + 2);
  assert_int_equal(shim->crossings, 0);
  assert_memory_equal(a.losses, b.losses, sizeof(a.losses));
}
