// SPDX-License-Identifier: Apache-2.0
//
// Values of data sets that are not fetched to devices: they say their hosts,
// and each replica still gets its own.
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/cross_device.h"
#include "lockstep/device_name.h"
#include "lockstep/function.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"

static const ls_input_options on_hosts = {.fetch_to_device = LS_FLAG_OFF};

static ls_strategy *mirrored_on(const char *const *devices, size_t count) {
  ls_strategy *strategy = NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = devices, .num_devices = count},
      &strategy));
  return strategy;
}

// Several replicas on one host; host 0's CPU is a replica's device, the first's
// or another's; hosts whose replicas come in turns.
enum { STRATEGIES = 6, FIRST_TO_RUN = 2 };
static ls_strategy *strategy_of(int number) {
  static const char *const in_turns[] = {
      "/job:worker/task:0/device:TPU:0", "/job:worker/task:1/device:TPU:0",
      "/job:worker/task:0/device:TPU:1", "/job:worker/task:1/device:TPU:1"};
  static const char *const last[] = {"/cpu:2", "/cpu:1", "/cpu:0"};
  switch (number) {
  case 0:
    return pod_of_tasks(4, 2);
  case 1:
    return pod_of(in_turns, 4);
  case 2:
    return mirrored_of(3);
  case 3:
    return mirrored_on(last, 3);
  case 4:
    return tpu_strategy_of(3);
  default:
    return tpu_strategy_on(2, 2);
  }
}

enum { MOST = 4 };  // Replicas.
static const char *device_of(const ls_strategy *strategy, int32_t replica) {
  const char *devices[MOST];
  size_t count = 0;
  expect_ok(ls_strategy_worker_devices(strategy, devices, MOST, &count));
  assert_true(count <= MOST && (size_t)replica < count);
  return devices[replica];
}

static void host_of(const ls_strategy *strategy, int32_t replica,
                    ls_device_name *out_name) {
  expect_ok(ls_device_host(device_of(strategy, replica), out_name));
}

// A batch of one row a replica, of the replica's number.
static ls_nest one_batch(ls_strategy *strategy) {
  const int32_t count = ls_strategy_num_replicas(strategy);
  return distributed(strategy, whole_batches(count, count), &on_hosts);
}

static ls_nest element_of(ls_strategy *strategy) {
  LS_OWN(ls_nest, element) = ls_none();
  ls_nest leaf = ls_none();
  ls_distributed_iterator *iterator = iterator_on(one_batch(strategy));
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  ls_distributed_iterator_release(iterator);
  ls_nest_flatten(element, &leaf, 1);
  leaf = ls_nest_retain(leaf);
  return leaf;
}

static void expect_row(ls_nest component, int64_t value) {
  const ls_array *array = ls_nest_as_array(component);
  assert_non_null(array);
  assert_int_equal(ls_array_i64(array, 0), value);
}

// ---- Where they are ---------------------------------------------------------
TEST(a_value_says_its_host) {
  LS_SPEC("T136 T151");
  for (int i = 0; i < STRATEGIES; ++i) {
    LS_OWN(ls_strategy, strategy) = strategy_of(i);
    LS_OWN(ls_nest, data) = one_batch(strategy);
    LS_OWN(ls_nest, leaf) = element_of(strategy);
    for (int32_t r = 0; r < ls_strategy_num_replicas(strategy); ++r) {
      ls_device_name host;
      host_of(strategy, r, &host);
      assert_string_equal(ls_distributed_device(leaf, (size_t)r), host.text);
      assert_string_equal(ls_distributed_dataset_placement(data, r), host.text);
    }
  }
}

static ls_nest make_numbers(ls_input_context context, void *user) {
  (void)user;
  return ls_nest_dataset(ls_dataset_range(context.pipeline, 8, 1));
}

TEST(what_is_made_on_a_device_is_there) {
  LS_SPEC("M180");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  for (int on_device = 0; on_device < 2; ++on_device) {
    ls_nest data = ls_none();
    LS_OWN(ls_nest, element) = ls_none();
    expect_ok(ls_strategy_distribute_datasets_from_function_with(
        two, make_numbers, NULL,
        &(ls_input_options){.replication = LS_PIPELINE_PER_REPLICA,
                            .fetch_to_device = LS_FLAG_OFF,
                            .place_dataset_on_device = on_device == 1},
        &data));
    LS_OWN(ls_distributed_iterator, iterator) = iterator_on(data);
    expect_ok(ls_distributed_iterator_next(iterator, &element));
    expect_contains(ls_distributed_device(element, 1),
                    on_device == 1 ? "CPU:1" : "CPU:0");
  }
}

// ---- Whose they are ---------------------------------------------------------
// In the strategy's scope.
static void expect_own_rows(ls_strategy *strategy, ls_nest leaf) {
  LS_OWN(ls_nest, list) = ls_none();
  ls_nest own = ls_none();
  LS_STRATEGY_SCOPE(strategy);
  expect_ok(ls_strategy_unwrap(strategy, leaf, &list));
  for (int32_t r = 0; r < ls_strategy_num_replicas(strategy); ++r) {
    const char *device = device_of(strategy, r);
    assert_true(ls_distributed_is_on(leaf, device));
    expect_ok(ls_distributed_get(leaf, device, &own));
    expect_row(own, r);
    ls_nest_release(own);
    expect_ok(ls_strategy_replica_result(strategy, leaf, r, &own));
    expect_row(own, r);
    ls_nest_release(own);
    expect_row(ls_nest_item(list, (size_t)r), r);
  }
  assert_false(ls_distributed_is_on(leaf, "/job:none/device:CPU:7"));
}

TEST(each_replica_has_its_own) {
  LS_SPEC("M37 T78 M25");
  for (int i = 0; i < STRATEGIES; ++i) {
    LS_OWN(ls_strategy, strategy) = strategy_of(i);
    LS_OWN(ls_nest, leaf) = element_of(strategy);
    expect_own_rows(strategy, leaf);
  }
}

static ls_nest add_ten(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  return ls_leaf(ls_add(x, ls_scalar(ls_tensor_dtype(x), 10)));
}

static void expect_ten_more(ls_strategy *strategy, ls_nest results) {
  for (int32_t r = 0; r < ls_strategy_num_replicas(strategy); ++r) {
    LS_OWN(ls_nest, own) = ls_none();
    expect_ok(ls_strategy_replica_result(strategy, results, r, &own));
    assert_true(number_of(own) == r + 10);
  }
}

TEST(runs_give_each_replica_its_own) {
  LS_SPEC("T78 M149");
  for (int i = FIRST_TO_RUN; i < STRATEGIES; ++i) {
    LS_OWN(ls_strategy, strategy) = strategy_of(i);
    LS_OWN(ls_nest, args) = LS_TUPLE(element_of(strategy));
    LS_OWN(ls_function, function) = NULL;
    expect_ok(ls_function_create(
        &(ls_function_options){.call = add_ten, .name = "add_ten"}, &function));
    ls_nest results = strategy_results(strategy, ls_traced(function), args);
    expect_ten_more(strategy, results);
    ls_nest_release(results);
    results = ls_none();
    if (i < 4) {  // Without a trace.
      expect_ok(
          ls_strategy_run(strategy, ls_plain(add_ten, NULL), args, &results));
      expect_ten_more(strategy, results);
      ls_nest_release(results);
    }
  }
}

// ---- In a graph -------------------------------------------------------------
// What `leaf` of the graph is for each replica, in a session.
static void expect_fetched(ls_graph *graph, ls_nest leaf, int64_t first) {
  const size_t count = ls_distributed_count(leaf);
  LS_OWN(ls_session, session) = NULL;
  ls_nest items[MOST], results = ls_none();
  for (size_t r = 0; r < count; ++r)
    items[r] = ls_nest_retain(ls_distributed_component(leaf, r));
  LS_OWN(ls_nest, fetch) = ls_nest_sequence(LS_KIND_LIST, items, count);
  expect_ok(ls_session_create(graph, &session));
  expect_ok(ls_session_run(session, fetch, NULL, 0, &results));
  for (size_t r = 0; r < count; ++r)
    expect_row(ls_nest_item(results, r), first + (int64_t)r);
  ls_nest_release(results);
}

TEST(ops_that_give_values_are_on_hosts) {
  LS_SPEC("T136 T151");
  for (int i = 0; i < STRATEGIES; ++i) {
    LS_OWN(ls_strategy, strategy) = strategy_of(i);
    LS_OWN(ls_graph, graph) = graph_named("input");
    LS_OWN(ls_distributed_iterator, iterator) = NULL;
    LS_OWN(ls_nest, element) = ls_none();
    LS_OWN(ls_nest, results) = ls_none();
    {
      LS_GRAPH_SCOPE(graph);
      const ls_nest data = one_batch(strategy);
      expect_ok(ls_distributed_iterator_create(
          data,
          &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
          &iterator));
      ls_nest_release(data);
      element = ls_distributed_iterator_get_next(iterator);
      expect_ok(ls_nest_status(element));
      if (i >= FIRST_TO_RUN) {
        LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(element));
        expect_ok(
            ls_strategy_run(strategy, ls_plain(add_ten, NULL), args, &results));
      }
    }
    for (int32_t r = 0; r < ls_strategy_num_replicas(strategy); ++r) {
      ls_device_name host;
      const ls_nest own = ls_distributed_component(element, (size_t)r);
      host_of(strategy, r, &host);
      assert_string_equal(ls_distributed_device(element, (size_t)r), host.text);
      assert_string_equal(ls_op_device(ls_tensor_op(own.as.tensor)), host.text);
    }
    if (i >= FIRST_TO_RUN)
      expect_fetched(graph, results, 10);
    else
      expect_fetched(graph, element, 0);
  }
}

// ---- As destinations --------------------------------------------------------
// Each host once, though it has several of the value's components; or to
// devices that are named.
static void reduce_there(ls_strategy *strategy, ls_nest leaf, size_t hosts) {
  const int32_t count = ls_strategy_num_replicas(strategy);
  const char *devices[MOST];
  size_t num_devices = 0;
  ls_nest made = ls_none();
  LS_STRATEGY_SCOPE(strategy);
  expect_ok(ls_strategy_worker_devices(strategy, devices, MOST, &num_devices));
  for (int k = 0; k < 2; ++k) {
    const ls_destinations where =
        k == 0
            ? (ls_destinations){.value = leaf}
            : (ls_destinations){.devices = devices, .num_devices = num_devices};
    const size_t copies = k == 0 ? hosts : num_devices;
    expect_ok(
        ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, leaf, where, &made));
    assert_int_equal(ls_distributed_count(made), copies > 1 ? copies : 0);
    for (size_t i = 0; i < copies; ++i)
      assert_true(number_of(copies > 1 ? ls_distributed_component(made, i)
                                       : made) == count * (count - 1) / 2);
    ls_nest_release(made);
  }
}

TEST(values_on_hosts_are_reduced_there) {
  LS_SPEC("M69 M85 T180");
  for (int i = FIRST_TO_RUN; i < STRATEGIES; ++i) {
    LS_OWN(ls_strategy, strategy) = strategy_of(i);
    LS_OWN(ls_nest, leaf) = element_of(strategy);
    reduce_there(strategy, leaf, i == 5 ? 2 : 1);
  }
}
