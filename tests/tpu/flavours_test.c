// SPDX-License-Identifier: Apache-2.0
//
// How TPU strategies are made, and what they are right after.
#include <stdio.h>
#include <string.h>

#include "lockstep/distribute_input.h"
#include "lockstep/function_plan.h"
#include "lockstep/gauge.h"
#include "lockstep/graph_ops.h"
#include "lockstep/handles.h"
#include "lockstep/regroup.h"
#include "lockstep/replicate.h"
#include "lockstep/strategy_extended.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/logical_strategies.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "tpu/own.h"

// ---- A world that is ours --------------------------------------------------
typedef struct world {
  int warnings;
  char last_warning[512];
} world;

static void note(void *user, const ls_log_line *line) {
  world *w = user;
  if (line->level != LS_LOG_WARNING) return;
  ++w->warnings;
  snprintf(w->last_warning, sizeof(w->last_warning), "%s", line->text);
}

static const char *no_environment(void *user, const char *name) {
  (void)user;
  (void)name;
  return NULL;
}

static counted begin(world *w) {
  *w = (world){0};
  return counted_begin_with((ls_runtime_options){
      .threads = 1, .log = note, .log_user = w, .environment = no_environment});
}

static void initialize(ls_tpu_resolver *resolver) {
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
}

static ls_tpu_resolver *resolver_of(const char *name) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(&(ls_tpu_resolver_options){.name = name},
                                   &resolver));
  return resolver;
}

static void expect_number(const counted *c, const char *gauge, int64_t wanted) {
  ls_gauge_value value;
  assert_true(ls_gauge_read(c->runtime, gauge, "", &value));
  assert_int_equal(value.number, wanted);
}

static void expect_gauges(const counted *c, const char *cell, int64_t workers,
                          int64_t replicas) {
  ls_gauge_value value;
  const char *other = strcmp(cell, "V1") == 0 ? "V2" : "V1";
  assert_true(ls_gauge_read(c->runtime, "strategy", cell, &value));
  assert_string_equal(value.text, "TPUStrategy");
  assert_false(ls_gauge_read(c->runtime, "strategy", other, &value));
  expect_number(c, "num_workers", workers);
  expect_number(c, "num_replicas_per_worker", replicas);
}

// ---- Making ----------------------------------------------------------------
TEST(it_is_made_of_nothing_and_publishes_what_it_is) {
  LS_SPEC("T1");
  world w;
  ls_strategy *strategy = NULL;
  LS_OWN(counted, c) = begin(&w);
  ls_gauge_value value;
  // Not before one is made, nor of one that could not be.
  ls_tpu_resolver *nobody = resolver_of("grpc://nobody");
  expect_status(
      ls_tpu_strategy_create(&(ls_tpu_options){.resolver = nobody}, &strategy),
      LS_UNIMPLEMENTED, "nobody");
  ls_tpu_resolver_release(nobody);
  assert_false(ls_gauge_read(c.runtime, "strategy", "V2", &value));
  assert_false(ls_gauge_read(c.runtime, "num_workers", "", &value));
  expect_ok(ls_tpu_strategy_create(NULL, &strategy));
  expect_gauges(&c, "V2", 1, 8);
  assert_int_equal(w.warnings, 0);
  ls_strategy_release(strategy);
  // The last one counts.
  LS_OWN(ls_tpu_resolver, pod) = resolver_of("virtual:4x1,hosts=2");
  expect_ok(
      ls_tpu_strategy_create(&(ls_tpu_options){.resolver = pod}, &strategy));
  expect_gauges(&c, "V2", 2, 4);
  ls_strategy_release(strategy);
  LS_OWN(ls_device_assignment, three) = logical_assignment(3, 1);
  expect_ok(ls_tpu_strategy_create(
      &(ls_tpu_options){.resolver = pod, .assignment = three}, &strategy));
  expect_gauges(&c, "V2", 1, 3);
  ls_strategy_release(strategy);
}

static ls_nest replicas_sum(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(
      ls_all_reduce(LS_REDUCE_SUM, ls_convert(ls_replica_id(), LS_DTYPE_F32)));
}

static double run_sum(ls_strategy *strategy) {
  LS_OWN(ls_function, f) = function_of(replicas_sum, NULL);
  LS_OWN(ls_nest, result) = strategy_results(strategy, ls_traced(f), ls_none());
  const ls_nest first = ls_distributed_count(result) > 0
                            ? ls_distributed_component(result, 0)
                            : result;
  return ls_nest_number(first);
}

TEST(each_deprecated_one_warns_once) {
  LS_SPEC("T2");
  world w;
  ls_strategy *strategy = NULL;
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, pod) = resolver_of("virtual:4x1,hosts=2");
  initialize(pod);
  LS_OWN(ls_device_assignment, three) = logical_assignment(3, 1);
  for (int i = 1; i <= 3; ++i) {
    expect_ok(ls_tpu_strategy_experimental_create(
        &(ls_tpu_options){.resolver = pod, .assignment = i < 3 ? NULL : three},
        &strategy));
    assert_int_equal(w.warnings, i);
    assert_non_null(
        strstr(w.last_warning, "ls_tpu_strategy_experimental_create"));
    assert_non_null(strstr(w.last_warning, "use ls_tpu_strategy_create"));
    expect_gauges(&c, "V2", i < 3 ? 2 : 1, i < 3 ? 4 : 3);
    assert_true(run_sum(strategy) == (i < 3 ? 28 : 3));
    assert_int_equal(w.warnings, i);
    assert_ptr_equal(ls_tpu_strategy_resolver(strategy), pod);
    ls_strategy_release(strategy);
  }
}

TEST(version_1_takes_steps_per_run) {
  LS_SPEC("T3 T4");
  world w;
  ls_strategy *strategy = NULL;
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, pod) = resolver_of("virtual:2x1");
  initialize(pod);
  ls_device_assignment *two = logical_assignment(2, 1);
  // By position: resolver, steps, assignment.
  expect_ok(ls_tpu_strategy_v1_create(
      &(ls_tpu_v1_options){NULL, pod, LS_SOME(5), two}, &strategy));
  expect_gauges(&c, "V1", 1, 2);
  assert_int_equal(ls_tpu_strategy_steps_per_run(strategy), 5);
  assert_int_equal(ls_strategy_num_replicas(strategy), 2);
  // What runs is one step.
  assert_true(run_sum(strategy) == 1);
  ls_strategy_release(strategy);
  ls_device_assignment_release(two);
  for (strategy_flavour f = 0; f < NUM_FLAVOURS; ++f) {
    strategy = logical_strategy(f, 1, 1, LS_FLAG_DEFAULT);
    assert_int_equal(ls_tpu_strategy_steps_per_run(strategy), 1);
    ls_strategy_release(strategy);
  }
  expect_status(
      ls_tpu_strategy_v1_create(
          &(ls_tpu_v1_options){.steps_per_run = LS_SOME(0)}, &strategy),
      LS_INVALID_ARGUMENT, "0 steps per run");
  assert_null(strategy);
  expect_ok(ls_mirrored_strategy_create(NULL, &strategy));
  assert_int_equal(ls_tpu_strategy_steps_per_run(strategy), 0);
  ls_strategy_release(strategy);
}

// ---- Right after -----------------------------------------------------------
TEST(a_new_one_has_its_flags_set) {
  LS_SPEC("T8");
  for (strategy_flavour f = 0; f < NUM_FLAVOURS; ++f) {
    LS_OWN(ls_strategy, strategy) = logical_strategy(f, 2, 2, LS_FLAG_DEFAULT);
    assert_true(ls_strategy_needs_static_shapes(strategy));
    assert_true(ls_strategy_allows_partial_batches(strategy));
    assert_true(ls_strategy_uses_policies(strategy));
    assert_false(ls_tpu_strategy_spmd(strategy));
    // The stack of logical devices: [0].
    const char *devices[2] = {NULL};
    size_t count = 0;
    expect_ok(ls_strategy_worker_devices(strategy, devices, 2, &count));
    assert_int_equal(count, 2);
    for (int32_t r = 0; r < 2; ++r) {
      ls_device_name name;
      expect_ok(ls_tpu_strategy_device(strategy, r, 0, &name));
      assert_string_equal(devices[r], name.text);
    }
  }
  ls_strategy *spmd = logical_strategy(FLAVOUR_CURRENT, 2, 2, LS_FLAG_ON);
  assert_true(ls_tpu_strategy_spmd(spmd));
  assert_false(ls_strategy_uses_policies(spmd));
  ls_strategy_release(spmd);
  ls_strategy *none = NULL;
  expect_status(
      ls_tpu_strategy_create(&(ls_tpu_options){.spmd = (ls_flag)7}, &none),
      LS_INVALID_ARGUMENT, "spmd 7");
}

static ls_nest count_up(ls_nest args, void *user) {
  ls_variable *v = user;
  (void)args;
  ls_variable_assign_add(v, f32_of(2));
  return ls_leaf(ls_variable_read(v));
}

// A variable, and what two steps of it give.
static double count_twice(ls_strategy *strategy, bool packed) {
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w",
                               .dtype = LS_DTYPE_F32,
                               .shape = LS_SCALAR,
                               .aggregation = LS_AGGREGATION_MEAN},
        &v));
  }
  assert_true((ls_variable_packed(v) != NULL) == packed);
  LS_OWN(ls_function, f) = function_of(count_up, v);
  LS_OWN(ls_nest, result) = ls_none();
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &result));
  // One handle is captured, not one a replica.
  LS_OWN(printed, text) = NULL;
  expect_ok(ls_function_print_lowered(f, &text));
  assert_null(strstr(text, "replica_1"));
  return ls_nest_number(ls_distributed_component(result, 1));
}

TEST(variables_are_packed_unless_told_otherwise) {
  LS_SPEC("T7");
  for (strategy_flavour f = 0; f < NUM_FLAVOURS; ++f) {
    LS_OWN(ls_strategy, strategy) = logical_strategy(f, 2, 1, LS_FLAG_DEFAULT);
    assert_true(ls_strategy_packs_variables(strategy));
    assert_true(count_twice(strategy, true) == 4);
    ls_strategy_set_packs_variables(strategy, false);
    assert_false(ls_strategy_packs_variables(strategy));
    assert_true(count_twice(strategy, false) == 4);
    ls_strategy_set_packs_variables(strategy, true);
    assert_true(count_twice(strategy, true) == 4);
  }
  // It is each strategy's own.
  LS_OWN(ls_strategy, mirrored) = NULL;
  expect_ok(ls_mirrored_strategy_create(NULL, &mirrored));
  assert_false(ls_strategy_packs_variables(mirrored));
}

TEST(each_says_which_resolver_it_has) {
  LS_SPEC("T10 V157");
  ls_tpu_resolver *pod = resolver_of("virtual:2x1");
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(ls_tpu_strategy_experimental_create(
      &(ls_tpu_options){.resolver = pod}, &strategy));
  assert_ptr_equal(ls_tpu_strategy_resolver(strategy), pod);
  ls_strategy_release(strategy);
  expect_ok(ls_tpu_strategy_experimental_create(NULL, &strategy));
  assert_string_equal(ls_tpu_resolver_name(ls_tpu_strategy_resolver(strategy)),
                      "");
  ls_strategy_release(strategy);
  ls_tpu_resolver_release(pod);
  expect_ok(ls_mirrored_strategy_create(NULL, &strategy));
  assert_null(ls_tpu_strategy_resolver(strategy));
  assert_false(ls_strategy_needs_static_shapes(strategy));
  assert_false(ls_strategy_between_graph(strategy));
  assert_true(ls_strategy_should_init(strategy));
  assert_true(ls_strategy_should_checkpoint(strategy));
  assert_true(ls_strategy_should_save_summary(strategy));
  assert_true(ls_strategy_has_global_batches(strategy));
  assert_false(ls_strategy_is_multi_worker(strategy));
}

// ---- What each flavour offers ----------------------------------------------
static ls_nest value_of(int32_t replica, int32_t replicas, void *user) {
  (void)user;
  return ls_nest_f64((double)(10 * replica + replicas));
}

static ls_nest pair_of(int replicas) {
  ls_nest items[4];
  for (int r = 0; r < replicas; ++r)
    items[r] = ls_nest_array(
        array_of(LS_DTYPE_F32, LS_SHAPE(1), (const double[]){(double)r + 1}));
  return ls_nest_distributed(LS_PER_REPLICA, items, (size_t)replicas);
}

static void expect_array(ls_nest value, const double *wanted, int64_t count) {
  assert_int_equal(value.kind, LS_KIND_ARRAY);
  assert_int_equal(ls_array_num_elements(value.as.ref), count);
  for (int64_t i = 0; i < count; ++i)
    assert_true(ls_array_f64(value.as.ref, i) == wanted[i]);
}

static void expect_newer_calls(ls_strategy *strategy, bool has_them) {
  ls_nest out = ls_none();
  LS_OWN(ls_nest, value) = pair_of(2);
  ls_status gathered = ls_strategy_gather(strategy, value, 0, &out);
  if (has_them) {
    expect_ok(gathered);
    expect_tensor(out.as.tensor, (const double[]){1, 2}, 2, 0);
    ls_nest_release(out);
  } else {
    expect_status(gathered, LS_UNIMPLEMENTED, "it is of version 1");
  }
  gathered = ls_strategy_values_from_function(strategy, value_of, NULL, &out);
  if (has_them) {
    expect_ok(gathered);
    assert_true(ls_nest_number(ls_distributed_component(out, 1)) == 12);
    ls_nest_release(out);
  } else {
    expect_status(gathered, LS_UNIMPLEMENTED, "from_function");
  }
}

static ls_nest make_batches(ls_input_context context, void *user) {
  (void)context;
  (void)user;
  return ls_nest_dataset(ls_dataset_batch(ls_dataset_range(0, 8, 1),
                                          &(ls_batch_options){.size = 4}));
}

static void expect_iterators(ls_strategy *strategy) {
  ls_distributed_iterator *iterator = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, data) = make_batches((ls_input_context){0}, NULL);
    expect_ok(ls_strategy_make_dataset_iterator(strategy, data, &iterator));
    ls_distributed_iterator_release(iterator);
    expect_ok(ls_strategy_make_input_fn_iterator(
        strategy, make_batches, NULL, LS_PIPELINE_PER_WORKER, &iterator));
    ls_distributed_iterator_release(iterator);
  }
}

TEST(version_1_lacks_what_came_later) {
  LS_SPEC("T12");
  for (strategy_flavour f = 0; f < NUM_FLAVOURS; ++f) {
    LS_OWN(ls_strategy, strategy) = logical_strategy(f, 2, 1, LS_FLAG_DEFAULT);
    expect_newer_calls(strategy, f != FLAVOUR_V1);
    expect_iterators(strategy);
    if (f == FLAVOUR_V1) {
      // Reduced without an axis: across replicas alone.
      LS_OWN(ls_nest, out) = ls_none();
      const ls_nest value = pair_of(2);
      expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, value, &out));
      expect_array(out, (const double[]){3}, 1);
      ls_nest_release(value);
      LS_OWN(ls_dataset, dataset) = NULL;
      LS_OWN(ls_nest, rows) = ls_nest_array(
          array_of(LS_DTYPE_F32, LS_SHAPE(3), (const double[]){1, 2, 3}));
      expect_ok(
          ls_strategy_array_dataset(strategy, rows, NULL, NULL, &dataset));
      assert_int_equal(ls_dataset_cardinality(dataset), 3);
    }
  }
}

// ---- Running ---------------------------------------------------------------
// The variable comes whole, the value is the replica's own.
static ls_nest add_bound(ls_nest args, void *user) {
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 0)), user);
  return ls_leaf(ls_add(ls_variable_read(user), ls_nest_tensor(args, 1)));
}

static ls_variable *three_in(ls_strategy *strategy) {
  ls_variable *v = NULL;
  LS_OWN(ls_array, initial) =
      array_of(LS_DTYPE_F32, LS_SHAPE(1), (const double[]){3});
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.initial_array = initial}, &v));
  }
  return v;
}

static bool flag_of(const computation *c, const char *name) {
  const ls_attr *attr = NULL;
  expect_ok(
      ls_op_attr(op_named(c->graph, "tpu_replicate_metadata"), name, &attr));
  return attr->as.i != 0;
}

static void run_in_eager(ls_strategy *strategy) {
  LS_OWN(ls_variable, v) = three_in(strategy);
  LS_OWN(ls_function, f) = function_of(add_bound, v);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_variable(v), pair_of(2));
  LS_OWN(ls_nest, result) = ls_none();
  expect_status(
      ls_strategy_run(strategy, ls_plain(add_bound, v), args, &result),
      LS_UNIMPLEMENTED, "wrap the callback");
  expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &result));
  for (size_t r = 0; r < 2; ++r)
    assert_true(ls_array_f64(ls_distributed_component(result, r).as.ref, 0) ==
                (double)r + 4);
}

static void run_in_graph(ls_strategy *strategy) {
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_variable, v) = three_in(strategy);
  computation_initialize(&c, v);
  const ls_nest values = ls_nest_distributed(
      LS_PER_REPLICA, (const ls_nest[]){ls_leaf(f32_of(1)), ls_leaf(f32_of(2))},
      2);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_variable(v), values);
  expect_ok(
      ls_strategy_run(strategy, ls_plain(add_bound, v), args, &c.outputs));
  // Without options they are the usual ones.
  assert_false(flag_of(&c, "use_spmd"));
  assert_true(flag_of(&c, "allow_soft_placement"));
  for (size_t r = 0; r < 2; ++r)
    assert_true(computation_fetch(
                    &c, ls_distributed_component(c.outputs, r).as.tensor) ==
                (double)r + 4);
}

TEST(all_flavours_run_alike) {
  LS_SPEC("T59");
  for (strategy_flavour f = 0; f < NUM_FLAVOURS; ++f) {
    LS_OWN(ls_strategy, strategy) = logical_strategy(f, 2, 1, LS_FLAG_DEFAULT);
    run_in_eager(strategy);
    run_in_graph(strategy);
  }
}

TEST(what_is_null_is_refused) {
  ls_session_config config = {0};
  LS_OWN(ls_strategy, strategy) =
      logical_strategy(FLAVOUR_CURRENT, 1, 1, LS_FLAG_DEFAULT);
  expect_status(ls_tpu_strategy_create(NULL, NULL), LS_INVALID_ARGUMENT,
                "out_strategy is NULL");
  expect_status(ls_tpu_strategy_experimental_create(NULL, NULL),
                LS_INVALID_ARGUMENT, "out_strategy is NULL");
  expect_status(ls_tpu_strategy_v1_create(NULL, NULL), LS_INVALID_ARGUMENT,
                "out_strategy is NULL");
  expect_status(ls_tpu_strategy_update_config(NULL, NULL, &config),
                LS_INVALID_ARGUMENT, "strategy is NULL");
  expect_status(ls_tpu_strategy_update_config(strategy, NULL, NULL),
                LS_INVALID_ARGUMENT, "out_config is NULL");
}

MEMORY_TEST(make_strategies_of_all_kinds) {
  ls_strategy *strategy = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_strategy_experimental_create(NULL, &strategy));
  ls_strategy_release(strategy);
  LS_RETURN_IF_ERROR(ls_tpu_strategy_v1_create(NULL, &strategy));
  ls_strategy_release(strategy);
  return ls_ok();
}
