// SPDX-License-Identifier: Apache-2.0
//
// Reading what one replica gave, whatever its results have become.
#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/variables.h"

// (own, same number, same tensor, one of the strategy, nothing)
static ls_nest give_all_kinds(ls_nest args, void *user) {
  const ls_tensor own = ls_nest_tensor(args, 0);
  ls_variable *v = user;
  return LS_TUPLE(ls_leaf(ls_add(own, own)), ls_nest_f64(7),
                  ls_leaf(ls_all_reduce(LS_REDUCE_SUM, own)),
                  ls_leaf(ls_variable_read(v)), ls_none());
}

static double value_of(ls_nest leaf) {
  double number = -1;
  expect_ok(ls_nest_to_number(leaf, &number));
  return number;
}

static ls_variable *variable_with_parts(ls_strategy *strategy) {
  return variable_in(strategy, (variable_kind){.initial = 5});
}

static ls_nest numbers_of(int replicas) {
  ls_nest parts[3];
  for (int r = 0; r < replicas; ++r) {
    parts[r] = ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR);
    ls_array_set_f64(ls_nest_as_array(parts[r]), 0, r + 1);
  }
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, (size_t)replicas));
}

static ls_nest as_tensors(ls_nest leaf, void *user) {
  (void)user;
  return ls_leaf(ls_tensor_from_array(ls_nest_as_array(leaf)));
}

static void expect_results(ls_strategy *strategy, ls_nest results) {
  const int replicas = ls_strategy_num_replicas(strategy);
  for (int r = 0; r < replicas; ++r) {
    LS_OWN(ls_nest, own) = ls_none();
    expect_ok(ls_strategy_replica_result(strategy, results, r, &own));
    assert_int_equal(own.kind, LS_KIND_TUPLE);
    assert_true(value_of(ls_nest_item(own, 0)) == 2 * (r + 1));
    assert_true(value_of(ls_nest_item(own, 1)) == 7);
    assert_true(value_of(ls_nest_item(own, 2)) ==
                replicas * (replicas + 1) / 2);
    assert_true(value_of(ls_nest_item(own, 3)) == 5);
    assert_int_equal(ls_nest_item(own, 4).kind, LS_KIND_NONE);
  }
}

static void run_called(ls_strategy *strategy, bool traced) {
  LS_OWN(ls_variable, v) = variable_with_parts(strategy);
  expect_ok(ls_frame_begin());
  ls_function *function = unnamed_function(give_all_kinds, v);
  const ls_nest arrays = numbers_of(ls_strategy_num_replicas(strategy));
  ls_nest args = ls_nest_retain(arrays);
  if (!traced) {
    ls_nest_release(args);
    expect_ok(ls_distributed_map(arrays, as_tensors, NULL, &args));
  }
  ls_nest results = strategy_results(
      strategy, traced ? ls_traced(function) : ls_plain(give_all_kinds, v),
      args);
  expect_results(strategy, results);
  ls_nest_release(results);
  ls_nest_release(args);
  ls_nest_release(arrays);
  ls_function_release(function);
  expect_ok(ls_frame_end(NULL));
}

// In a graph there are no numbers yet, but the tensors are the replicas' own.
static void run_in_graph(ls_strategy *strategy) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  const int replicas = ls_strategy_num_replicas(strategy);
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_variable, v) = variable_with_parts(strategy);
    LS_OWN(ls_nest, arrays) = numbers_of(replicas);
    LS_OWN(ls_nest, args) = ls_none();
    expect_ok(ls_distributed_map(arrays, as_tensors, NULL, &args));
    LS_OWN(ls_nest, results) =
        strategy_results(strategy, ls_plain(give_all_kinds, v), args);
    for (int r = 0; r < replicas; ++r) {
      LS_OWN(ls_nest, own) = ls_none();
      expect_ok(ls_strategy_replica_result(strategy, results, r, &own));
      const ls_tensor doubled = ls_nest_tensor(own, 0);
      const ls_nest given =
          ls_distributed_component(ls_nest_item(args, 0), (size_t)r);
      assert_true(ls_tensor_equal(ls_op_input(ls_tensor_op(doubled), 0),
                                  given.as.tensor));
      assert_true(value_of(ls_nest_item(own, 1)) == 7);
      double number = 0;
      expect_status(ls_nest_to_number(ls_nest_item(own, 0), &number),
                    LS_FAILED_PRECONDITION, "has no value yet");
    }
  }
}

TEST(every_kind_of_result_is_read_in_one_way) {
  LS_SPEC("V168 V12");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    run_called(strategy, false);
    run_called(strategy, true);
    run_in_graph(strategy);
  }
}

TEST(a_variable_gives_its_component) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_with_parts(strategy);
  LS_OWN(ls_variable, narrow) = NULL;
  static const char *const one[] = {"CPU:1"};
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&(ls_variable_options){.name = "narrow",
                                                        .dtype = LS_DTYPE_F32,
                                                        .devices = one,
                                                        .num_devices = 1},
                                 &narrow));
  }
  LS_OWN(ls_nest, results) = LS_LIST(ls_nest_variable(v));
  for (int r = 0; r < 2; ++r) {
    LS_OWN(ls_nest, own) = ls_none();
    expect_ok(ls_strategy_replica_result(strategy, results, r, &own));
    assert_ptr_equal(ls_nest_as_variable(ls_nest_item(own, 0)),
                     ls_variable_component(v, (size_t)r));
  }
  // The component on the replica's device, if there is one.
  LS_OWN(ls_nest, leaf) = ls_nest_variable(narrow);
  ls_nest own = ls_none();
  expect_ok(ls_strategy_replica_result(strategy, leaf, 1, &own));
  assert_ptr_equal(ls_nest_as_variable(own), ls_variable_component(narrow, 0));
  ls_nest_release(own);
  own = ls_none();
  expect_status(ls_strategy_replica_result(strategy, leaf, 0, &own),
                LS_INVALID_ARGUMENT, "CPU:0");
  // Of all replicas' results there are as many as that has components.
  LS_OWN(ls_nest, all) = ls_none();
  LS_OWN(ls_nest, both) = LS_LIST(ls_nest_retain(leaf));
  expect_ok(ls_strategy_local_results(strategy, both, &all));
  assert_int_equal(ls_nest_item(ls_nest_item(all, 1), 0).kind, LS_KIND_NONE);
}

TEST(no_other_replica_has_results) {
  LS_SPEC("V13");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_strategy *usual = NULL;
  ls_nest own = ls_none();
  static const int wrong[] = {-1, 2};
  for (size_t i = 0; i < 2; ++i)
    expect_status(
        ls_strategy_replica_result(strategy, ls_nest_f64(1), wrong[i], &own),
        LS_OUT_OF_RANGE, "2 replicas on CPU:0, CPU:1");
  const ls_nest three =
      distributed_numbers(LS_PER_REPLICA, (double[]){1, 2, 3}, 3);
  expect_status(ls_strategy_replica_result(strategy, three, 0, &own),
                LS_INVALID_ARGUMENT, "3 components");
  ls_nest_release(three);
  expect_ok(ls_strategy_default(&usual));
  expect_ok(ls_strategy_replica_result(usual, ls_nest_f64(4), 0, &own));
  assert_true(value_of(own) == 4);
}
