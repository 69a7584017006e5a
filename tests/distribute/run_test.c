// SPDX-License-Identifier: Apache-2.0
//
// Running on replicas: options, devices that are there, functions as a whole,
// and the same bits however it is done.
#include <pthread.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/place.h"
#include "support/placed.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- Devices ---------------------------------------------------------------
static void expect_places(const ls_runtime_options *options,
                          const char *const *devices, size_t count) {
  ls_runtime *runtime = NULL;
  ls_strategy *strategy = NULL;
  const char *got[8];
  size_t found = 0;
  expect_ok(ls_runtime_create(options, &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  expect_ok(ls_mirrored_strategy_create(NULL, &strategy));
  expect_ok(ls_strategy_worker_devices(strategy, got, 8, &found));
  assert_int_equal(found, count);
  for (size_t i = 0; i < count; ++i)
    assert_string_equal(got[i] + strlen(LOCAL_DEVICE), devices[i]);
  ls_strategy_release(strategy);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(replicas_are_on_what_there_is) {
  LS_SPEC("M2 M3");
  expect_places(NULL, (const char *[]){"CPU:0"}, 1);
  expect_places(&(ls_runtime_options){.cpus = 3},
                (const char *[]){"CPU:0", "CPU:1", "CPU:2"}, 3);
  expect_places(&(ls_runtime_options){.cpus = 3, .gpus = 2},
                (const char *[]){"GPU:0", "GPU:1"}, 2);
  ls_runtime *runtime = NULL;
  expect_status(ls_runtime_create(&(ls_runtime_options){.gpus = -1}, &runtime),
                LS_INVALID_ARGUMENT, "-1 GPUs");
}

// ---- Options ---------------------------------------------------------------
typedef struct segments {
  char order[64];
  int arguments;
} segments;

static ls_nest nothing_merged(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)args;
  strcat(((segments *)user)->order, "m");
  return ls_none();
}

static ls_nest in_two_segments(ls_nest args, void *user) {
  segments *s = user;
  const char name[2][2] = {{(char)('0' + ls_replica_number())},
                           {(char)('a' + ls_replica_number())}};
  s->arguments = (int)ls_nest_count(args);
  strcat(s->order, name[0]);
  ls_nest_release(ls_replica_merge_call(ls_replica_context(), nothing_merged,
                                        ls_none(), user));
  strcat(s->order, name[1]);
  return ls_leaf(
      ls_all_reduce(LS_REDUCE_SUM, scalar_of(0.1 * ls_replica_number())));
}

TEST(building_takes_turns) {
  LS_SPEC("M150");
  static const ls_flag flags[] = {LS_FLAG_DEFAULT, LS_FLAG_ON, LS_FLAG_OFF};
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_i64(5));
  double sums[3];
  for (size_t i = 0; i < 3; ++i) {
    const ls_run_options options = {.run_concurrently = flags[i]};
    segments s = {0};
    ls_nest made = ls_none();
    expect_ok(ls_strategy_run_with(strategy, ls_plain(in_two_segments, &s),
                                   args, i == 0 ? NULL : &options, &made));
    sums[i] = number_of(ls_distributed_component(made, 2));
    assert_true(sums[i] == sums[0]);
    assert_int_equal(s.arguments, 1);  // The option is not among them.
    ls_nest_release(made);
    // Into a graph.
    LS_OWN(ls_graph, graph) = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      s = (segments){0};
      made = ls_none();
      expect_ok(ls_strategy_run_with(strategy, ls_plain(in_two_segments, &s),
                                     args, &options, &made));
      assert_string_equal(s.order, "012mabc");
      ls_nest_release(made);
    }
  }
  ls_nest made = ls_none();
  expect_status(ls_strategy_run_with(
                    strategy, ls_plain(in_two_segments, NULL), ls_none(),
                    &(ls_run_options){.run_concurrently = (ls_flag)7}, &made),
                LS_INVALID_ARGUMENT, "run_concurrently 7");
}

// ---- Variables -------------------------------------------------------------
enum { NUM_ALIKE = 3 };
typedef struct alike {
  ls_variable *made[3][NUM_ALIKE];
} alike;

static ls_nest make_alike(ls_nest args, void *user) {
  alike *a = user;
  (void)args;
  for (int i = 0; i < NUM_ALIKE; ++i)
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32},
        &a->made[ls_replica_number()][i]));
  return ls_none();
}

TEST(variables_of_one_name_are_told_apart_by_their_order) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  alike a;
  ls_nest_release(run_on(strategy, make_alike, ls_none(), &a));
  for (int i = 0; i < NUM_ALIKE; ++i)
    for (int r = 0; r < 3; ++r) {
      assert_ptr_equal(a.made[r][i], a.made[0][i]);
      assert_ptr_not_equal(a.made[r][i], a.made[0][(i + 1) % NUM_ALIKE]);
    }
  for (int i = 0; i < NUM_ALIKE * 3; ++i)
    ls_variable_release(a.made[i / NUM_ALIKE][i % NUM_ALIKE]);
}

// ---- Functions and threads -------------------------------------------------
static ls_nest count_trace(ls_nest args, void *user) {
  ++*(int *)user;
  return ls_leaf(ls_add_scalar(ls_nest_tensor(args, 0), 1));
}

TEST(a_whole_function_is_traced_once_a_replica) {
  LS_SPEC("M157");
  int traces = 0;
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_function, function) = unnamed_function(count_trace, &traces);
  for (int i = 0; i < 3; ++i) {
    LS_OWN(ls_nest, args) =
        LS_TUPLE(per_replica_scalars((double[]){1, 2, (double)i}, 3));
    LS_OWN(ls_nest, made) =
        strategy_results(strategy, ls_traced(function), args);
    assert_int_equal(traces, 3);
  }
}

TEST(a_trace_belongs_to_the_ops_in_force) {
  LS_SPEC("M175");
  static const ls_cross_device_table table = {.name = "own"};
  int traces = 0;
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_cross_device *sets[4] = {NULL};
  static const int wanted[] = {2, 2, 4, 6};
  LS_OWN(ls_function, function) = unnamed_function(count_trace, &traces);
  expect_ok(ls_nccl_all_reduce_create((ls_opt){0}, &sets[1]));
  expect_ok(ls_cross_device_create(&table, NULL, &sets[2]));
  for (size_t i = 0; i < 4; ++i) {
    // Built-in sets are one to a trace: they lower to the same.
    expect_ok(ls_strategy_set_cross_device(strategy, sets[i]));
    LS_OWN(ls_nest, args) = LS_TUPLE(per_replica_scalars((double[]){1, 2}, 2));
    LS_OWN(ls_nest, made) =
        strategy_results(strategy, ls_traced(function), args);
    assert_int_equal(traces, wanted[i]);
    ls_cross_device_release(sets[i]);
  }
}

TEST(only_cpus_compute) {
  LS_OWN(ls_strategy, strategy) = NULL;
  int calls = 0;
  ls_nest made = ls_none();
  static const char *const devices[] = {"/cpu:0", "/gpu:3"};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = devices, .num_devices = 2}, &strategy));
  expect_status(ls_strategy_run(strategy, ls_plain(count_trace, &calls),
                                ls_none(), &made),
                LS_UNIMPLEMENTED, "device:GPU:3");
  assert_int_equal(calls, 0);
}

typedef struct visit {
  ls_replica *replica;
  ls_status status;
} visit;

static void *merge_from_elsewhere(void *user) {
  visit *v = user;
  segments s = {0};
  LS_OWN(ls_nest, made) =
      ls_replica_merge_call(v->replica, nothing_merged, ls_none(), &s);
  v->status = ls_nest_status(made);
  return NULL;
}

static ls_nest visit_thread(ls_nest args, void *user) {
  (void)args;
  (void)user;
  visit v = {.replica = ls_replica_context()};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, merge_from_elsewhere, &v), 0);
  pthread_join(thread, NULL);
  expect_status(v.status, LS_FAILED_PRECONDITION, "strategy");
  return ls_none();
}

static ls_nest merge_in_body(ls_nest args, void *user) {
  const ls_nest made = ls_replica_merge_call(user, nothing_merged, args, user);
  return ls_nest_is_failed(made) ? made : ls_nest_retain(args);
}

static ls_nest below_two(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(args, 0), ls_scalar(LS_DTYPE_F32, 2)));
}

static ls_nest merge_in_branch_or_loop(ls_nest args, void *user) {
  (void)args;
  ls_replica *replica = ls_replica_context();
  if (*(int *)user == 0) {
    const ls_nest start = LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)));
    return ls_while(below_two, merge_in_body, replica, start, 3);
  }
  const ls_tensor yes =
      ls_less(ls_scalar(LS_DTYPE_F32, 0), ls_scalar(LS_DTYPE_F32, 2));
  return ls_cond(yes, merge_in_body, merge_in_body, replica);
}

TEST(merge_calls_are_for_the_replica_itself) {
  LS_SPEC("M157");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_nest_release(run_on(strategy, visit_thread, ls_none(), NULL));
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    for (int branch = 0; branch < 2; ++branch) {
      ls_nest made = ls_none();
      expect_status(ls_strategy_run(strategy,
                                    ls_plain(merge_in_branch_or_loop, &branch),
                                    ls_none(), &made),
                    LS_FAILED_PRECONDITION, "merge_call");
    }
  }
}

// ---- Values, tapes, the default strategy -----------------------------------
static ls_nest same_object(int32_t replica, int32_t replicas, void *user) {
  assert_int_equal(replicas, 3);
  assert_int_equal(replica, (*(int *)user)++);
  return LS_TUPLE(ls_nest_f64(4));
}

TEST(values_of_a_function_are_always_wrapped) {
  LS_SPEC("M177");
  int calls = 0;
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(
      ls_strategy_values_from_function(strategy, same_object, &calls, &made));
  assert_int_equal(calls, 3);
  expect_numbers(ls_nest_item(made, 0), (double[]){4, 4, 4}, 3);
  assert_int_equal(ls_distributed_kind_of(ls_nest_item(made, 0)),
                   LS_PER_REPLICA);
}

static ls_nest number_of_replica(int32_t replica, int32_t replicas,
                                 void *user) {
  (void)replicas, (void)user;
  return ls_nest_f64(replica + 0.5);
}

static ls_nest double_each(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul_scalar(ls_nest_tensor(args, 0), 2));
}

static ls_nest run_doubled(ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_run(user, ls_plain(double_each, NULL), args, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

TEST(values_of_a_function_are_arguments_of_a_call) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, values) = ls_none();
  expect_ok(ls_strategy_values_from_function(strategy, number_of_replica, NULL,
                                             &values));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(values));
  LS_OWN(ls_function, function) = function_of(run_doubled, strategy);
  for (int taped = 0; taped < 2; ++taped) {
    LS_OWN(ls_tape, tape) = NULL;
    if (taped) expect_ok(ls_tape_begin(&tape));
    LS_OWN(ls_nest, made) = call_results(function, args);
    expect_numbers(made, (double[]){1, 3}, 2);
    if (taped) expect_ok(ls_tape_end(tape));
  }
}

TEST(no_gradient_flows_into_an_initial_value) {
  LS_SPEC("M49");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_tape, tape) = NULL;
  const ls_tensor x = scalar_of(3);
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x));
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v", .initial_value = ls_mul(x, x)},
        &v));
  }
  assert_int_equal(ls_tape_variables(tape, NULL, 0), 0);
  const ls_tensor y =
      ls_mul(ls_variable_read(ls_variable_component(v, 1)), scalar_of(2));
  expect_ok(ls_tape_end(tape));
  assert_true(number_of(ls_leaf(y)) == 18);
  const ls_nest of[] = {ls_leaf(x)};
  ls_nest gradient = ls_none();
  expect_ok(ls_tape_gradients(tape, ls_leaf(y), of, 1, &gradient));
  assert_int_equal(gradient.kind, LS_KIND_NONE);
}

typedef struct updated {
  const ls_variable *variable;
  int calls;
} updated;

static ls_nest note_update(ls_nest args, void *user) {
  updated *u = user;
  ++u->calls;
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 0)), u->variable);
  assert_true(ls_nest_number(ls_nest_item(args, 1)) == 7);
  assert_true(ls_update_replica_id().set);
  assert_int_equal(ls_update_replica_id().value, 0);
  return LS_LIST(ls_nest_f64(2), ls_nest_f64(3));
}

static ls_nest make_dataset(ls_input_context context, void *user) {
  assert_int_equal(context.num_pipelines, 1);
  assert_int_equal(context.pipeline, 0);
  assert_int_equal(context.num_replicas, 1);
  return ls_nest_retain(*(const ls_nest *)user);
}

TEST(the_default_strategy_changes_nothing) {
  LS_SPEC("V209");
  ls_strategy *usual = NULL;
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_variable, v) = NULL;
  expect_ok(ls_strategy_default(&usual));
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_value = scalar_of(5)}, &v));
  updated u = {.variable = v};
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(7));
  ls_nest made = ls_none();
  expect_ok(ls_strategy_update(usual, v, note_update, args, &u, true, &made));
  expect_printed(made, "[2.0, 3.0]");
  ls_nest_release(made);
  expect_ok(ls_strategy_update(usual, v, note_update, args, &u, false, &made));
  expect_printed(made, "[(2.0,), (3.0,)]");
  ls_nest_release(made);
  assert_int_equal(u.calls, 2);
  assert_false(ls_update_replica_id().set);
  assert_true(number_of(ls_leaf(ls_variable_read(v))) == 5);
  // Data sets stay what they are: any object will do here.
  LS_OWN(ls_nest, data) = ls_nest_variable(v);
  expect_ok(ls_strategy_distribute_dataset(usual, data, &made));
  assert_true(ls_nest_is_same(made, data));
  ls_nest_release(made);
  expect_ok(ls_strategy_distribute_datasets_from_function(
      usual, make_dataset, (void *)(uintptr_t)&data, &made));
  assert_true(ls_nest_is_same(made, data));
  ls_nest_release(made);
  expect_status(ls_strategy_distribute_dataset(two, data, &made),
                LS_INVALID_ARGUMENT, "it is no data set");
}

// ---- Bits ------------------------------------------------------------------
enum { MANY = 64 };

static ls_nest meet_often(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(args, 0);
  for (int i = 0; i < 4; ++i)
    x = ls_add(ls_mul_scalar(x, 0.7),
               ls_all_reduce(LS_REDUCE_MEAN, ls_square(x)));
  return ls_leaf(x);
}

// What the step gives on so many threads, traced or op by op.
static void step_on(int threads, bool traced, float *out) {
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = threads});
  double numbers[MANY];
  fill_numbers(numbers, MANY, 5);
  if (traced) {
    ls_array *array = array_of(LS_DTYPE_F32, LS_SHAPE(MANY), numbers);
    LS_OWN(ls_nest, args) = LS_TUPLE(split_of(MANY, array));
    LS_OWN(ls_nest, made) = call_on(MANY, meet_often, NULL, args, 1);
    for (size_t i = 0; i < MANY; ++i)
      out[i] = (float)number_of(ls_distributed_component(made, i));
  } else {
    LS_OWN(ls_strategy, strategy) = mirrored_of(MANY);
    LS_OWN(ls_nest, args) = LS_TUPLE(per_replica_scalars(numbers, MANY));
    LS_OWN(ls_nest, made) = run_on(strategy, meet_often, args, NULL);
    for (size_t i = 0; i < MANY; ++i)
      out[i] = (float)number_of(ls_distributed_component(made, i));
  }
}

TEST(threads_change_no_bit) {
  LS_SPEC("M173 M172");
  float first[MANY], other[MANY];
  step_on(1, true, first);
  for (int threads = 1; threads <= 3; ++threads)
    for (int traced = 0; traced < 2; ++traced) {
      step_on(threads, traced == 1, other);
      assert_memory_equal(first, other, sizeof(first));
    }
}
