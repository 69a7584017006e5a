// SPDX-License-Identifier: Apache-2.0
// Compiled steps whose replicas have arguments of other shapes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/map.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/ways_run.h"

static ls_nest rows_of(int replicas, int64_t rows) {
  return LS_TUPLE(
      split_of(replicas, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 3), 5)));
}

static ls_nest run_rows(int replicas, int64_t rows, ls_callback callback,
                        void *user) {
  LS_OWN(ls_nest, args) = rows_of(replicas, rows);
  return call_on(replicas, callback, user, args, 2);
}

static const ls_array *part(ls_nest result, size_t leaf, size_t replica) {
  return ls_nest_as_array(
      ls_distributed_component(ls_nest_item(result, leaf), replica));
}

// ---- Shapes ----------------------------------------------------------------
static ls_nest rows_and_sums(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor sum = ls_reduce_sum(x, LS_AXES(0));
  const ls_tensor all = ls_all_reduce(LS_REDUCE_SUM, sum);
  return LS_TUPLE(ls_leaf(ls_mul_scalar(x, 2)),
                  ls_leaf(ls_add(x, ls_mul_scalar(all, 0.5))), ls_leaf(all),
                  ls_leaf(ls_dim_size(x, 0)),
                  ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_dim_size(x, 0))));
}

TEST(each_replica_has_rows_of_its_own_number) {
  for (int replicas = 1; replicas <= 9; ++replicas)
    for (int64_t rows = 1; rows <= 10; ++rows) {
      LS_OWN(ls_array, x) =
          array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 3), 5);
      LS_OWN(ls_nest, got) = run_rows(replicas, rows, rows_and_sums, NULL);
      double sum[3] = {0};
      for (int64_t i = 0; i < 3 * rows; ++i)
        sum[i % 3] += ls_array_f64(x, i);
      int64_t at = 0;
      for (size_t r = 0; r < (size_t)replicas; ++r) {
        const int64_t own =
            rows / replicas + ((int64_t)r < rows % replicas ? 1 : 0);
        assert_int_equal(ls_array_shape(part(got, 0, r)).dim[0], own);
        assert_int_equal(ls_array_i64(part(got, 3, r), 0), own);
        assert_int_equal(ls_array_i64(part(got, 4, r), 0), rows);
        for (int64_t i = 0; i < 3 * own; ++i, ++at) {
          const double value = ls_array_f64(x, at);
          assert_true(ls_array_f64(part(got, 0, r), i) == 2 * value);
          assert_true(fabs(ls_array_f64(part(got, 1, r), i) - value -
                           sum[i % 3] / 2) < 1e-5);
        }
        for (int64_t i = 0; i < 3; ++i)
          assert_true(fabs(ls_array_f64(part(got, 2, r), i) - sum[i]) < 1e-5);
      }
      assert_int_equal(at, 3 * rows);
    }
}

// A number of rows that is a constant of the step too: in one class it is the
// same value, in others it is not.
static ls_nest count_beside_constants(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor three = ls_scalar_i64(LS_DTYPE_I64, 3);
  const ls_tensor first = ls_all_reduce(LS_REDUCE_SUM, three);
  ls_variable_assign_add(user, first);
  const ls_tensor again =
      ls_all_reduce(LS_REDUCE_SUM, ls_mul(ls_dim_size(x, 0), first));
  const ls_tensor sum = ls_reduce_sum(x, LS_ALL_AXES);
  const ls_tensor mine =
      ls_add(ls_convert(ls_add(again, three), LS_DTYPE_F32), sum);
  const ls_tensor most = ls_all_reduce(LS_REDUCE_MAX, ls_dim_size(x, 0));
  ls_variable_assign_add(user, ls_mul(three, most));
  return LS_TUPLE(ls_leaf(mine), ls_leaf(most), ls_leaf(again), ls_leaf(sum));
}

TEST(sizes_that_equal_constants_are_told_apart) {
  for (int64_t rows = 7; rows <= 9; ++rows) {
    const double zero = 0;
    LS_OWN(ls_variable, v) = variable_of("v", LS_DTYPE_I64, LS_SCALAR, &zero);
    LS_OWN(ls_nest, got) = run_rows(3, rows, count_beside_constants, v);
    for (size_t r = 0; r < 3; ++r) {
      assert_int_equal(ls_array_i64(part(got, 1, r), 0), 3);
      assert_int_equal(ls_array_i64(part(got, 2, r), 0), rows * 9);
      assert_true(fabs(ls_array_f64(part(got, 0, r), 0) -
                       ls_array_f64(part(got, 3, r), 0) -
                       (double)(rows * 9 + 3)) < 1e-4);
    }
    const double twice = 2 * (9 + 9);
    expect_variable(v, &twice, 1, 0);
  }
}

// ---- Loops -----------------------------------------------------------------
static ls_nest below_four(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, 4)));
}

static ls_nest add_everywhere(ls_nest values, void *user) {
  const ls_tensor x = *(const ls_tensor *)user;
  const ls_tensor sum = ls_all_reduce(
      LS_REDUCE_SUM,
      ls_reduce_sum(ls_add(x, ls_nest_tensor(values, 1)), LS_ALL_AXES));
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(ls_mul_scalar(sum, 0.125)));
}

static ls_nest meet_in_a_loop(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, last) = ls_while(
      below_four, add_everywhere, &x,
      LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
               ls_leaf(ls_reduce_sum(ls_mul_scalar(x, 0), LS_ALL_AXES))),
      0);
  return LS_TUPLE(ls_leaf(ls_nest_tensor(last, 1)));
}

TEST(replicas_of_all_sizes_meet_in_loops) {
  for (int64_t rows = 3; rows <= 8; ++rows) {
    LS_OWN(ls_nest, whole) = run_rows(1, rows, meet_in_a_loop, NULL);
    LS_OWN(ls_nest, parts) = run_rows(5, rows, meet_in_a_loop, NULL);
    for (size_t r = 0; r < 5; ++r)
      assert_true(fabs(ls_array_f64(part(parts, 0, r), 0) -
                       ls_array_f64(part(whole, 0, 0), 0)) < 1e-3);
  }
}

// ---- Waits -----------------------------------------------------------------
// A value that all replicas share, in the shape of x, is one more op for some
// classes and none for others: so they wait for it at other positions of the
// step. Values of a page show if one is overwritten before it is added.
typedef enum shared_flow {
  FLOW_LOOP,
  FLOW_NESTED,
  FLOW_NO_TRIPS,  // A loop with none in each trip of another one.
  FLOW_BRANCH,
  FLOW_GATHER,
  // An equal op before a merge in one class, after it in the others.
  FLOW_EARLIER,
  NUM_FLOWS,
} shared_flow;

typedef struct shared_step {
  shared_flow flow;
  ls_reduce_op op;
  int64_t rows[WAYS_REPLICAS];
} shared_step;

typedef struct shared_loop {
  const shared_step *step;
  ls_tensor x;
  int64_t trips;
  bool is_inner;
} shared_loop;

static ls_tensor page_of(ls_tensor value) {
  LS_OWN(ls_array, numbers) =
      array_of_numbers(LS_DTYPE_F32, LS_SHAPE(16, 16), 3);
  const ls_tensor page = ls_mul(ls_constant(numbers), ls_tanh(value));
  return ls_matmul(page, ls_softmax(page));
}

static ls_tensor number_of_page(ls_tensor page) {
  return ls_reduce_sum(ls_mul(ls_softmax(page), ls_tanh(page)), LS_ALL_AXES);
}

static ls_tensor merge_page(const shared_step *step, ls_tensor value) {
  return number_of_page(ls_all_reduce(step->op, page_of(value)));
}

static ls_nest has_trips(ls_nest values, void *user) {
  const shared_loop *l = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0),
                         ls_scalar_i64(LS_DTYPE_I64, l->trips)));
}

static ls_tensor run_loop(const shared_loop *l, ls_tensor initial);

static ls_nest merge_in_trip(ls_nest values, void *user) {
  const shared_loop *l = user;
  ls_tensor value = ls_reduce_sum(
      ls_mul(ls_tanh(l->x), ls_nest_tensor(values, 1)), LS_ALL_AXES);
  const bool is_nested =
      l->step->flow == FLOW_NESTED || l->step->flow == FLOW_NO_TRIPS;
  if (is_nested && !l->is_inner)
    value = run_loop(&(shared_loop){l->step, l->x,
                                    l->step->flow == FLOW_NESTED ? 2 : 0, true},
                     value);
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(ls_add(value, merge_page(l->step, value))));
}

static ls_tensor run_loop(const shared_loop *l, ls_tensor initial) {
  LS_OWN(ls_nest, last) = ls_while(
      has_trips, merge_in_trip, (void *)(uintptr_t)l,
      LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)), ls_leaf(initial)), 0);
  return ls_nest_tensor(last, 1);
}

static ls_nest merge_in_branch(ls_nest values, void *user) {
  const shared_loop *l = user;
  (void)values;
  const ls_tensor value = ls_reduce_sum(l->x, LS_ALL_AXES);
  return ls_leaf(
      merge_page(l->step, ls_add(value, merge_page(l->step, value))));
}

static ls_nest keep_one(ls_nest values, void *user) {
  (void)values;
  (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
}

// Returns the result of the step's loop or branch.
static ls_tensor run_flow(const shared_step *step, ls_tensor x,
                          ls_tensor shared, ls_tensor like_x) {
  const ls_tensor sum = ls_reduce_sum(x, LS_ALL_AXES);
  shared_loop l = {step, x, 3, false};
  switch (step->flow) {
  case FLOW_BRANCH: {
    const ls_tensor is_met =
        ls_less(ls_scalar(LS_DTYPE_F32, 0), ls_scalar(LS_DTYPE_F32, 1));
    return ls_nest_tensor(ls_cond(is_met, merge_in_branch, keep_one, &l), 0);
  }
  case FLOW_GATHER:
    return number_of_page(ls_all_gather(page_of(run_loop(&l, sum)), 0));
  case FLOW_EARLIER: {
    const ls_tensor merged = merge_page(
        step, ls_reduce_sum(ls_mul(x, ls_tanh(like_x)), LS_ALL_AXES));
    const ls_tensor equal = ls_broadcast_like(ls_tanh(shared), x);
    return ls_add(run_loop(&l, ls_reduce_sum(ls_mul(equal, x), LS_ALL_AXES)),
                  merged);
  }
  default:
    return run_loop(&l, sum);
  }
}

static ls_nest rows_of_replica(const ways *self, int step, int r) {
  const shared_step *s = self->user;
  return LS_TUPLE(ls_nest_array(array_of_numbers(
      LS_DTYPE_F32, LS_SHAPE(s->rows[r]), (uint32_t)(10 * step + r + 2))));
}

static ls_nest share_and_flow(ls_nest args, ways *self) {
  const shared_step *step = self->user;
  const ls_tensor x = constant_argument(args);
  const ls_tensor shared = ls_reshape(
      ls_all_reduce(LS_REDUCE_SUM, ls_reduce_sum(ls_square(x), LS_ALL_AXES)),
      LS_SHAPE(1));
  const ls_tensor like_x = ls_broadcast_like(shared, x);
  const ls_tensor value = run_flow(step, x, shared, like_x);
  return LS_TUPLE(ls_leaf(ls_add(ls_mul(like_x, value), x)), ls_leaf(value));
}

static void expect_same_bytes(const shared_step *step) {
  static const char *const lanes[] = {NULL, "blocks", "threads"};
  for (size_t i = 0; i < LS_COUNT_OF(lanes); ++i) {
    const place where = {.lanes = lanes[i], .threads = 2};
    char name[64];
    snprintf(name, sizeof(name), "flow %d, op %d, LS_LANES=%s", (int)step->flow,
             (int)step->op, lanes[i] == NULL ? "" : lanes[i]);
    open_place here;
    expect_ok(place_open(&where, NULL, &here));
    ways_hold(&(ways_case){.name = name,
                           .user = step,
                           .args = rows_of_replica,
                           .step = share_and_flow,
                           .steps = 2,
                           .without = 1 << WAY_GRAPH,
                           .replicas_only = true},
              1);
    expect_ok(place_close(&here, ls_ok()));
  }
}

TEST(classes_wait_for_values_at_other_positions) {
  static const ls_reduce_op ops[] = {LS_REDUCE_SUM, LS_REDUCE_MAX};
  for (shared_flow flow = FLOW_LOOP; flow < NUM_FLOWS; ++flow)
    for (size_t i = 0; i < LS_COUNT_OF(ops); ++i) {
      expect_same_bytes(&(shared_step){flow, ops[i], {2, 1, 1}});
      expect_same_bytes(&(shared_step){flow, ops[i], {1, 3, 2}});
    }
}

// A step on ranks: a hash of its results on each.
typedef struct shared_job {
  const shared_step *step;
  place where;
  uint64_t hashes[WAYS_REPLICAS];
} shared_job;

static ls_status run_on_rank(ls_communicator *communicator, void *user) {
  shared_job *job = user;
  const ways_case c = {.user = job->step,
                       .args = rows_of_replica,
                       .step = share_and_flow,
                       .steps = 1};
  open_place here;
  LS_RETURN_IF_ERROR(place_open(&job->where, communicator, &here));
  HEAP(ways_run, run) = calloc(1, sizeof(*run));
  *run = (ways_run){.c = &c,
                    .self = {.replicas = WAYS_REPLICAS, .user = job->step}};
  const ls_status status = ways_run_traced(run);
  uint64_t *hash = &job->hashes[communicator == NULL ? 0 : communicator->rank];
  *hash = 0;
  for (size_t i = 0; i < run->self.num_values; ++i)
    *hash = ls_hash(ls_array_data(run->self.values[i]),
                    ls_array_size(run->self.values[i]), *hash);
  ways_tear_down(run);
  return place_close(&here, status);
}

TEST(so_they_do_on_ranks) {
  for (shared_flow flow = FLOW_LOOP; flow < NUM_FLOWS; ++flow) {
    const shared_step step = {flow, LS_REDUCE_SUM, {1, 3, 2}};
    shared_job job = {.step = &step, .where = {.threads = 1}};
    expect_ok(run_on_rank(NULL, &job));
    const uint64_t wanted = job.hashes[0];
    for (int ranks = 2; ranks <= WAYS_REPLICAS; ++ranks) {
      expect_ok(ls_standin_run(ranks, run_on_rank, &job));
      for (int k = 0; k < ranks; ++k)
        assert_true(job.hashes[k] == wanted);
    }
  }
}

// ---- Refusals --------------------------------------------------------------
static ls_nest reduce_rows(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_nest_tensor(args, 0)));
}

static void expect_refused(ls_callback callback, void *user, ls_code code,
                           const char *part_of_message) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_function, function) = unnamed_function(callback, user);
  LS_OWN(ls_nest, args) = rows_of(3, 8);
  ls_nest result = {0};
  expect_status(ls_strategy_run(strategy, ls_traced(function), args, &result),
                code, part_of_message);
}

TEST(other_shapes_cannot_be_reduced) {
  expect_refused(reduce_rows, NULL, LS_INVALID_ARGUMENT,
                 "f32[3,3] on replica 0 and f32[2,3] on replica 2");
}

static ls_nest write_own_count(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_variable_assign(user, ls_dim_size(x, 0)));
}

TEST(what_differs_between_classes_is_not_one_value) {
  const double zero = 0;
  LS_OWN(ls_variable, v) = variable_of("v", LS_DTYPE_I64, LS_SCALAR, &zero);
  expect_refused(write_own_count, v, LS_UNIMPLEMENTED, "'v'");
}

// ---- Counts ----------------------------------------------------------------
static ls_nest give_count(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_tensor count;
  const bool differ = ls_replica_examples(&count);
  ls_tensor own;
  expect_status(ls_replica_set_examples(ls_replica_context(), x),
                LS_INVALID_ARGUMENT, "a scalar");
  expect_ok(ls_replica_set_examples(ls_replica_context(),
                                    ls_scalar(LS_DTYPE_F32, 4)));
  assert_true(ls_replica_examples(&own));
  return LS_TUPLE(ls_leaf(differ ? count : ls_scalar_i64(LS_DTYPE_I64, -1)),
                  ls_leaf(own));
}

TEST(a_replica_knows_its_examples) {
  for (int compiled = 0; compiled < 2; ++compiled)
    for (int64_t rows = 4; rows <= 5; ++rows) {
      expect_ok(ls_frame_begin());
      ls_strategy *strategy = mirrored_of(2);
      const ls_nest args = rows_of(2, rows);
      ls_nest got = compiled ? call_on(2, give_count, NULL, args, 1)
                             : run_on(strategy, give_count, args, NULL);
      for (size_t r = 0; r < 2; ++r) {
        const ls_nest own = ls_distributed_component(ls_nest_item(got, 0), r);
        assert_true(number_of(own) == (rows == 4 ? -1 : r == 0 ? 3 : 2));
      }
      ls_nest_release(got);
      ls_nest_release(args);
      ls_strategy_release(strategy);
      expect_ok(ls_frame_end(NULL));
    }
}
