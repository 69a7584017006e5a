// SPDX-License-Identifier: Apache-2.0
//
// Slices in replicas, however these run: merge calls, all-reduces, arguments
// and results.
#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/slices.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/merges.h"
#include "support/replicas.h"
#include "support/values.h"

enum { ROWS = 4, WIDTH = 2 };

// Replica r's slices: the row {r + 1, r + 1} at r.
static ls_nest own_slices(ls_nest args) {
  const ls_tensor row = ls_reshape(ls_replica_id(), LS_SHAPE(1));
  const ls_tensor values = ls_broadcast(
      ls_reshape(argument(args, 0), LS_SHAPE(1, 1)), LS_SHAPE(1, WIDTH));
  LS_OWN(ls_array, shape) =
      array_of(LS_DTYPE_I64, LS_SHAPE(2), (double[]){ROWS, WIDTH});
  return ls_nest_slices(ls_leaf(values), row, ls_constant(shape));
}

static ls_nest dense_of(ls_nest slices) {
  ls_slices_parts parts;
  const ls_nest own = slices.kind == LS_KIND_DISTRIBUTED
                          ? ls_distributed_component(slices, 0)
                          : slices;
  const ls_status status = ls_slices_parts_of(own, &parts);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor zeros =
      ls_broadcast(ls_scalar(LS_DTYPE_F32, 0), LS_SHAPE(ROWS, WIDTH));
  return ls_leaf(ls_indexed_slices(parts.indices, parts.values, zeros));
}

// Expects that `leaf` of each replica has row r of replica r, times `factor`.
static void expect_all_rows(const ways *self, size_t leaf, double factor) {
  for (int r = 0; r < self->replicas; ++r)
    for (int i = 0; i < ROWS * WIDTH; ++i) {
      const int row = i / WIDTH;
      ways_expect(self, "an element", ways_result(self, 0, r, leaf, i),
                  row < self->replicas ? (row + 1) * factor : 0, 1e-6);
    }
}

// ---- Merge calls -----------------------------------------------------------
static ls_nest sum_densely(ls_strategy *strategy, ls_nest args, void *user) {
  LS_OWN(ls_nest, sum) = add_up(strategy, args, user);
  return ls_nest_is_failed(sum) ? ls_nest_retain(sum) : dense_of(sum);
}

static ls_nest merged(ls_nest args, ls_merge_function function) {
  LS_OWN(ls_nest, given) = LS_TUPLE(own_slices(args));
  return ls_replica_merge_call(ls_replica_context(), function, given, NULL);
}

static ls_nest merge_slices(ls_nest args, ways *self) {
  (void)self;
  LS_OWN(ls_nest, sparse) = merged(args, add_up);
  if (ls_nest_is_failed(sparse)) return ls_nest_retain(sparse);
  return LS_TUPLE(dense_of(sparse), merged(args, sum_densely));
}

static void all_have_the_sum(const ways *self) {
  expect_all_rows(self, 0, 1);
  expect_all_rows(self, 1, 1);
}

static ls_nest merge_own(ls_nest args, ways *self) {
  (void)self;
  LS_OWN(ls_nest, own) = merged(args, give_back);
  return ls_nest_is_failed(own) ? ls_nest_retain(own) : dense_of(own);
}

static void each_has_its_own(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    for (int i = 0; i < ROWS * WIDTH; ++i)
      ways_expect(self, "an element", ways_result(self, 0, r, 0, i),
                  i / WIDTH == r ? r + 1 : 0, 0);
}

// ---- All-reduces -----------------------------------------------------------
static ls_nest all_reduce_by(ls_nest args, ls_reduce_op op) {
  LS_OWN(ls_nest, own) = own_slices(args);
  LS_OWN(ls_nest, all) = ls_replica_all_reduce(ls_replica_context(), op, own);
  return ls_nest_is_failed(all) ? ls_nest_retain(all) : dense_of(all);
}

static ls_nest all_reduce_slices(ls_nest args, ways *self) {
  (void)self;
  return LS_TUPLE(all_reduce_by(args, LS_REDUCE_SUM),
                  all_reduce_by(args, LS_REDUCE_MEAN));
}

static void all_have_the_sum_and_the_mean(const ways *self) {
  expect_all_rows(self, 0, 1);
  expect_all_rows(self, 1, 1.0 / self->replicas);
}

TEST(replicas_reduce_slices_in_every_way) {
  LS_SPEC("M107 V199");
  static const ways_case cases[] = {{.name = "merged",
                                     .args = number_of_replica,
                                     .step = merge_slices,
                                     .check = all_have_the_sum,
                                     .one_table = true},
                                    {.name = "own",
                                     .args = number_of_replica,
                                     .step = merge_own,
                                     .check = each_has_its_own,
                                     .one_table = true},
                                    {.name = "all_reduce",
                                     .args = number_of_replica,
                                     .step = all_reduce_slices,
                                     .check = all_have_the_sum_and_the_mean,
                                     .one_table = true}};
  ways_hold(cases, LS_COUNT_OF(cases));
}

// ---- Arguments and results -------------------------------------------------
// Doubles the rows.
static ls_nest twice(ls_nest args, void *user) {
  ls_slices_parts parts;
  (void)user;
  expect_ok(ls_slices_parts_of(ls_nest_item(args, 0), &parts));
  return LS_TUPLE(ls_nest_slices(ls_leaf(ls_add(parts.values, parts.values)),
                                 parts.indices, parts.dense_shape));
}

static ls_tensor constant_of(ls_dtype dtype, ls_shape shape,
                             const double *values) {
  LS_OWN(ls_array, array) = array_of(dtype, shape, values);
  return ls_constant(array);
}

// In the current graph.
static ls_nest rows_for(int r, bool has_shape) {
  return ls_nest_slices(ls_leaf(constant_of(LS_DTYPE_F32, LS_SHAPE(1, WIDTH),
                                            (double[]){r + 1, r + 2})),
                        constant_of(LS_DTYPE_I32, LS_SHAPE(1), (double[]){r}),
                        has_shape ? constant_of(LS_DTYPE_I64, LS_SHAPE(2),
                                                (double[]){ROWS, WIDTH})
                                  : (ls_tensor){0});
}

static void hold_in_graph(int replicas, bool has_shape) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
  LS_OWN(ls_function, function) = unnamed_function(twice, NULL);
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  ls_nest each[3];
  for (int r = 0; r < replicas; ++r)
    each[r] = rows_for(r, has_shape);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, each, (size_t)replicas));
  LS_OWN(ls_nest, made) = strategy_results(strategy, ls_traced(function), args);
  const ls_nest leaf = ls_nest_item(made, 0);
  LS_OWN(ls_session, session) = session_of(graph);
  for (int r = 0; r < replicas; ++r) {
    ls_slices_parts parts;
    expect_ok(ls_slices_parts_of(
        replicas == 1 ? leaf : ls_distributed_component(leaf, (size_t)r),
        &parts));
    assert_int_equal(parts.dense_shape.ref != 0, has_shape);
    LS_OWN(ls_nest, fetched) =
        LS_TUPLE(ls_leaf(parts.indices), ls_leaf(parts.values));
    LS_OWN(ls_nest, got) = session_results(session, fetched);
    assert_true(nest_element(ls_nest_item(got, 0), 0) == r);
    assert_true(nest_element(ls_nest_item(got, 1), 1) == 2 * (r + 2));
  }
}

TEST(a_traced_function_takes_and_gives_slices_in_a_graph) {
  for (int replicas = 1; replicas <= 3; ++replicas)
    for (int has_shape = 0; has_shape < 2; ++has_shape)
      hold_in_graph(replicas, has_shape);
}

static ls_nest give_slices(ls_nest args, void *user) {
  (void)args, (void)user;
  return rows_for(0, true);
}

TEST(slices_as_results_are_refused_where_results_are_arrays) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, function) = unnamed_function(give_slices, NULL);
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_run(strategy, ls_traced(function), ls_none(), &made),
      LS_UNIMPLEMENTED, "return their indices and values");
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_distributed(
      LS_PER_REPLICA, (ls_nest[]){rows_for(0, true), rows_for(1, true)}, 2));
  expect_status(ls_strategy_run(strategy, ls_traced(function), args, &made),
                LS_INVALID_ARGUMENT, "slices");
}

// ---- Memory ----------------------------------------------------------------
static ls_nest merge_in_trace(ls_nest args, void *user) {
  (void)user;
  ls_slices_parts parts;
  const ls_tensor rows = ls_reshape(ls_nest_tensor(args, 0), LS_SHAPE(1));
  LS_OWN(ls_nest, own) = LS_TUPLE(ls_nest_slices(
      ls_leaf(rows), ls_reshape(ls_replica_id(), LS_SHAPE(1)), rows));
  LS_OWN(ls_nest, merged) =
      ls_replica_merge_call(ls_replica_context(), give_back, own, NULL);
  const ls_status status = ls_slices_parts_of(merged, &parts);
  return ls_status_is_ok(status) ? ls_leaf(parts.values)
         : ls_nest_is_failed(merged)
             ? (ls_status_free(status), ls_nest_retain(merged))
             : ls_fail(status);
}

MEMORY_TEST(merge_slices_in_a_trace) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, args) =
      LS_TUPLE(distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2));
  LS_OWN(ls_nest, result) = ls_none();
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  LS_RETURN_IF_ERROR(mirrored_with(
      (ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = merge_in_trace}, &function));
  return ls_strategy_run(strategy, ls_traced(function), args, &result);
}
