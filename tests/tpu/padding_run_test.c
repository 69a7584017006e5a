// SPDX-License-Identifier: Apache-2.0
//
// Runs of a TPU strategy whose batches differ in size: what the options say of
// padding, and what the replicas see.
#include <math.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "lockstep/replicate.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"

enum { MOST = 3, COLUMNS = 3, RESULTS = 4 };

typedef struct batch {
  int replicas;
  int64_t sizes[MOST];
} batch;

static ls_nest rows_of(const batch *b, int r) {
  const ls_nest array =
      ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(b->sizes[r], COLUMNS));
  float *data = ls_nest_data(array, 0);
  for (int64_t i = 0; i < b->sizes[r] * COLUMNS; ++i)
    data[i] = 0.37F * (float)(i % 7) - 0.9F + (float)r;
  return array;
}

// ---- The replicas' part ---------------------------------------------------
static ls_shape seen;

// Size, sum, mean over all replicas, and a value for each row.
static ls_nest look(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  seen = ls_tensor_shape(x);
  const ls_tensor size = ls_convert(ls_dim_size(x, 0), LS_DTYPE_F32);
  const ls_tensor sum = ls_reduce_sum(x, LS_ALL_AXES);
  return LS_LIST(ls_leaf(size), ls_leaf(sum),
                 ls_leaf(ls_div(ls_all_reduce(LS_REDUCE_SUM, sum),
                                ls_all_reduce(LS_REDUCE_SUM, size))),
                 ls_leaf(ls_reduce_sum(x, LS_AXES(1))));
}

static ls_nest component(ls_nest value, int r) {
  return value.kind == LS_KIND_DISTRIBUTED
             ? ls_distributed_component(value, (size_t)r)
             : value;
}

static ls_nest spread(const batch *b, const ls_nest *items) {
  return b->replicas == 1
             ? items[0]
             : ls_nest_distributed(LS_PER_REPLICA, items, (size_t)b->replicas);
}

// `*results` are RESULTS leaves with a component for each replica.
static ls_status run_traced(const batch *b, const ls_run_options *options,
                            ls_nest *results) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(b->replicas);
  LS_OWN(ls_function, f) = function_of(look, NULL);
  ls_nest items[MOST];
  for (int r = 0; r < b->replicas; ++r)
    items[r] = rows_of(b, r);
  LS_OWN(ls_nest, args) = LS_TUPLE(spread(b, items));
  return ls_strategy_run_with(s, ls_traced(f), args, options, results);
}

// In a build graph, where no size is known, of a plain or a traced callback.
static ls_status run_in_session(const batch *b, bool traced,
                                const ls_run_options *options,
                                ls_nest *results) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(b->replicas);
  LS_OWN(ls_function, f) = function_of(look, NULL);
  LS_OWN_BEGUN(computation, g, computation_open);
  ls_nest items[MOST], arrays[MOST];
  ls_feed feeds[MOST];
  for (int r = 0; r < b->replicas; ++r) {
    arrays[r] = rows_of(b, r);
    feeds[r] = (ls_feed){
        ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, COLUMNS), "x"),
        ls_nest_as_array(arrays[r])};
    items[r] = ls_leaf(feeds[r].tensor);
  }
  LS_OWN(ls_nest, args) = LS_TUPLE(spread(b, items));
  ls_status status =
      ls_strategy_run_with(s, traced ? ls_traced(f) : ls_plain(look, NULL),
                           args, options, &g.outputs);
  ls_nest flat[RESULTS * MOST], values = ls_none();
  for (int i = 0; ls_status_is_ok(status) && i < RESULTS * b->replicas; ++i)
    flat[i] = component(ls_nest_item(g.outputs, (size_t)(i / b->replicas)),
                        i % b->replicas);
  if (ls_status_is_ok(status)) {
    LS_OWN(ls_nest, fetches) =
        ls_nest_sequence(LS_KIND_LIST, flat, (size_t)(RESULTS * b->replicas));
    expect_ok(ls_session_create(g.graph, &g.session));
    status =
        ls_session_run(g.session, fetches, feeds, (size_t)b->replicas, &values);
  }
  if (ls_status_is_ok(status)) {
    ls_nest leaves[RESULTS];
    for (int i = 0; i < RESULTS; ++i) {
      for (int r = 0; r < b->replicas; ++r)
        items[r] =
            ls_nest_retain(ls_nest_item(values, (size_t)(i * b->replicas + r)));
      leaves[i] = spread(b, items);
    }
    ls_nest_release(*results);
    *results = ls_nest_sequence(LS_KIND_LIST, leaves, RESULTS);
  }
  ls_nest_release(values);
  for (int r = 0; r < b->replicas; ++r)
    ls_nest_release(arrays[r]);
  return status;
}

enum { TRACED, GRAPH, GRAPH_TRACED, NUM_WAYS };

static ls_status run_in(int way, const batch *b, const ls_run_options *options,
                        ls_nest *results) {
  return way == TRACED
             ? run_traced(b, options, results)
             : run_in_session(b, way == GRAPH_TRACED, options, results);
}

static const ls_array *result_of(ls_nest results, size_t i, int r) {
  return ls_nest_as_array(component(ls_nest_item(results, i), r));
}

static void expect_same(const ls_array *got, const ls_array *wanted) {
  assert_true(ls_shape_equal(ls_array_shape(got), ls_array_shape(wanted)));
  assert_memory_equal(ls_array_data(got), ls_array_data(wanted),
                      ls_array_size(wanted));
}

static const batch batches[] = {{1, {5}},       {1, {0}},       {2, {5, 6}},
                                {2, {1, 0}},    {2, {4, 4}},    {3, {7, 2, 3}},
                                {3, {0, 0, 3}}, {3, {8, 1, 8}}, {2, {0, 0}}};
enum { NUM_BATCHES = sizeof(batches) / sizeof(*batches) };

static void expect_about(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-4))
    fail_msg("%g is not about %g", got, wanted);
}

// What each replica has by itself, without any padding.
static void expect_real(const batch *b, ls_nest results) {
  double all = 0, examples = 0;
  for (int r = 0; r < b->replicas; ++r) {
    LS_OWN(ls_nest, rows) = rows_of(b, r);
    const float *x = ls_nest_data(rows, 0);
    double sum = 0;
    const ls_array *sums = result_of(results, 3, r);
    assert_true(ls_shape_equal(ls_array_shape(sums), LS_SHAPE(b->sizes[r])));
    for (int64_t i = 0; i < b->sizes[r] * COLUMNS; ++i)
      sum += (double)x[i];
    for (int64_t i = 0; i < b->sizes[r]; ++i) {
      const double wanted =
          (double)x[3 * i] + (double)x[3 * i + 1] + (double)x[3 * i + 2];
      expect_about(ls_array_f64(sums, i), wanted);
    }
    assert_true(ls_array_f64(result_of(results, 0, r), 0) ==
                (double)b->sizes[r]);
    expect_about(ls_array_f64(result_of(results, 1, r), 0), sum);
    all += sum;
    examples += (double)b->sizes[r];
  }
  for (int r = 0; examples > 0 && r < b->replicas; ++r)
    expect_about(ls_array_f64(result_of(results, 2, r), 0), all / examples);
}

TEST(replicas_see_the_real_sizes) {
  LS_SPEC("T93 T94");
  for (size_t n = 0; n < NUM_BATCHES; ++n)
    for (int way = 0; way < NUM_WAYS; ++way) {
      const batch *b = &batches[n];
      LS_OWN(ls_nest, plain) = ls_none();
      LS_OWN(ls_nest, buckets) = ls_none();
      expect_ok(run_in(way, b, NULL, &plain));
      expect_real(b, plain);
      // While building, sizes that differ are not known.
      if (way != TRACED || b->sizes[0] != b->sizes[1])
        if (b->replicas > 1) assert_int_equal(seen.dim[0], LS_UNKNOWN_DIM);
      // Buckets change no bit.
      expect_ok(
          run_in(way, b, &(ls_run_options){.bucketize = LS_FLAG_ON}, &buckets));
      for (size_t i = 0; i < RESULTS; ++i)
        for (int r = 0; r < b->replicas; ++r)
          expect_same(result_of(buckets, i, r), result_of(plain, i, r));
    }
}

// Without the padder: the sizes that a replica sees, of its own and all rows.
static void expect_padded(const batch *b, const ls_run_options *options,
                          int way, int64_t size) {
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(run_in(way, b, options, &results));
  for (int r = 0; r < b->replicas; ++r) {
    const ls_array *sums = result_of(results, 3, r);
    assert_true(ls_array_f64(result_of(results, 0, r), 0) == (double)size);
    assert_true(ls_shape_equal(ls_array_shape(sums), LS_SHAPE(size)));
    for (int64_t i = b->sizes[r]; i < size; ++i)
      assert_true(ls_array_f64(sums, i) == 0);
  }
}

TEST(the_policy_is_by_the_options) {
  LS_SPEC("T89 T91 T93");
  static const struct {
    batch b;
    int64_t largest, power;
  } cases[] = {{{2, {5, 3}}, 5, 8}, {{2, {3, 2}}, 3, 4},
               {{2, {8, 7}}, 8, 8}, {{3, {0, 1, 0}}, 2, 2},
               {{1, {5}}, 5, 5},    {{2, {9, 1}}, 9, 16}};
  const ls_xla_options padded = {.dynamic_padder = LS_FLAG_OFF};
  for (size_t n = 0; n < sizeof(cases) / sizeof(*cases); ++n)
    for (int way = 0; way < NUM_WAYS; ++way) {
      expect_padded(&cases[n].b, &(ls_run_options){.xla = &padded}, way,
                    cases[n].largest);
      expect_padded(&cases[n].b,
                    &(ls_run_options){.xla = &padded, .bucketize = LS_FLAG_ON},
                    way, cases[n].power);
    }
}

// ---- Maximum shapes -------------------------------------------------------
static size_t count_ops(const ls_graph *graph, const char *type) {
  size_t count = 0;
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i)
    count += strcmp(ls_op_type_name(ls_graph_op(graph, i)), type) == 0;
  return count;
}

// A run of two replicas on placeholders of these shapes, with other inputs
// beside them.
static ls_status build(computation *g, ls_shape first, ls_shape second,
                       const ls_run_options *options) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  const ls_nest items[] = {
      ls_leaf(ls_placeholder(LS_DTYPE_F32, first, "first")),
      ls_leaf(ls_placeholder(LS_DTYPE_F32, second, "second"))};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, 2), ls_none(),
               ls_nest_f64(3), ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2, 2)));
  return ls_strategy_run_with(s, ls_plain(give_first, NULL), args, options,
                              &g->outputs);
}

TEST(all_inputs_have_maximum_shapes) {
  LS_SPEC("T87");
  const ls_shape unknown = LS_SHAPE(LS_UNKNOWN_DIM, 4);
  for (int bucketize = 0; bucketize < 2; ++bucketize) {
    LS_OWN_BEGUN(computation, g, computation_open);
    const ls_run_options options = {.bucketize =
                                        bucketize ? LS_FLAG_ON : LS_FLAG_OFF};
    expect_ok(build(&g, unknown, unknown, &options));
    // Of all of them the first dimension of one is not known.
    assert_int_equal(count_ops(g.graph, "tpu_padded_input"), 1);
    const ls_op op = op_named(g.graph, "padded_input1");
    const ls_attr *maxima = NULL, *power = NULL;
    expect_ok(ls_op_attr(op, "maxima", &maxima));
    expect_ok(ls_op_attr(op, "power_of_two", &power));
    assert_int_equal(maxima->as.ints.count, 1);
    assert_int_equal(maxima->as.ints.items[0], LS_UNKNOWN_DIM);
    assert_int_equal(power->as.i, bucketize);
  }
  LS_OWN_BEGUN(computation, g, computation_open);
  expect_status(build(&g, LS_SHAPE_UNKNOWN, unknown, NULL), LS_INVALID_ARGUMENT,
                "'first:0' f32[...] has no known rank");
}

TEST(without_a_dynamic_batch_shapes_are_static) {
  LS_SPEC("T88 T89");
  static const ls_run_options of_buckets[] = {
      {.dynamic_batch = LS_FLAG_OFF},
      {.dynamic_batch = LS_FLAG_OFF, .bucketize = LS_FLAG_ON}};
  const ls_shape unknown = LS_SHAPE(LS_UNKNOWN_DIM, 4);
  for (size_t i = 0; i < 2; ++i) {
    const ls_run_options *options = &of_buckets[i];
    computation g;
    computation_open(&g);
    expect_status(build(&g, unknown, unknown, options), LS_INVALID_ARGUMENT,
                  "input 1 of replica 0, tensor 'first:0'");
    expect_status(build(&g, LS_SHAPE(3, 4), LS_SHAPE(2, 4), options),
                  LS_INVALID_ARGUMENT, "input 1 of replica 1, tensor 'second");
    expect_ok(build(&g, LS_SHAPE(3, 4), LS_SHAPE(3, 4), options));
    assert_int_equal(count_ops(g.graph, "tpu_padded_input"), 0);
    computation_close(&g);
    // Traced: the strategy and the function stay usable.
    LS_OWN(ls_nest, results) = ls_none();
    expect_status(run_traced(&(batch){2, {3, 2}}, options, &results),
                  LS_INVALID_ARGUMENT, "has another shape than replica 0's");
    expect_ok(run_traced(&(batch){2, {3, 3}}, options, &results));
    expect_real(&(batch){2, {3, 3}}, results);
    expect_ok(run_traced(&(batch){1, {3}}, options, &results));
  }
}
