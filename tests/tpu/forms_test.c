// SPDX-License-Identifier: Apache-2.0
//
// Computations over parts of their inputs, and of one replica.
#include "lockstep/shard.h"

#include <string.h>

#include "base/memory/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/values.h"

// ---- Sharding --------------------------------------------------------------
typedef struct sharded {
  ls_graph *graph;
  ls_session *session;
  ls_nest inputs;
} sharded;

static int set_up(void **state) {
  static sharded s;
  s = (sharded){0};
  expect_ok(ls_graph_create("g", &s.graph));
  LS_GRAPH_SCOPE(s.graph);
  LS_OWN(ls_array, x) = array_of(LS_DTYPE_F32, LS_SHAPE(4, 2),
                                 (const double[]){0, 1, 2, 3, 4, 5, 6, 7});
  LS_OWN(ls_array, y) =
      array_of(LS_DTYPE_F32, LS_SHAPE(1, 4), (const double[]){10, 20, 30, 40});
  s.inputs = LS_LIST(ls_leaf(ls_constant(x)), ls_leaf(ls_constant(y)));
  *state = &s;
  return 0;
}

static int tear_down(void **state) {
  sharded *s = *state;
  ls_nest_release(s->inputs);
  ls_session_destroy(s->session);
  ls_graph_destroy(s->graph);
  return 0;
}

static ls_nest fetch(sharded *s, ls_nest fetches) {
  expect_ok(ls_graph_verify(s->graph));
  if (s->session == NULL) expect_ok(ls_session_create(s->graph, &s->session));
  return session_results(s->session, fetches);
}

static void expect_array(ls_nest item, ls_shape shape, const double *wanted) {
  const ls_array *array = ls_nest_as_array(item);
  assert_true(ls_shape_equal(ls_array_shape(array), shape));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    assert_true(ls_array_f64(array, i) == wanted[i]);
}

// 2x, the sum of x, y + the replica's id.
static ls_nest three(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  return LS_LIST(ls_leaf(ls_add(x, x)), ls_leaf(ls_reduce_sum(x, LS_ALL_AXES)),
                 ls_leaf(ls_add(y, ls_convert(ls_replica_id(), LS_DTYPE_F32))));
}

TEST(each_shard_gets_its_part_and_outputs_are_joined) {
  LS_SPEC("O121 O122 O123 O124");
  sharded *s = *state;
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(s->graph);
    expect_ok(
        ls_shard(three, NULL, s->inputs,
                 &(ls_shard_options){.num_shards = LS_SOME(2),
                                     .input_axes = (const int[]){0, 1},
                                     .num_input_axes = 2,
                                     .output_axes = (const int[]){0, 0, 1},
                                     .num_output_axes = 3},
                 &outputs));
  }
  LS_OWN(ls_nest, results) = fetch(s, outputs);
  assert_int_equal(ls_nest_count(results), 3);
  expect_array(ls_nest_item(results, 0), LS_SHAPE(4, 2),
               (const double[]){0, 2, 4, 6, 8, 10, 12, 14});
  expect_array(ls_nest_item(results, 1), LS_SHAPE(2), (const double[]){6, 22});
  expect_array(ls_nest_item(results, 2), LS_SHAPE(1, 4),
               (const double[]){10, 20, 31, 41});
}

TEST(negative_axes_count_from_the_end) {
  LS_SPEC("O122");
  sharded *s = *state;
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(s->graph);
    expect_ok(
        ls_shard(three, NULL, s->inputs,
                 &(ls_shard_options){.num_shards = LS_SOME(2),
                                     .input_axes = (const int[]){-2, -1},
                                     .num_input_axes = 2,
                                     .output_axes = (const int[]){-2, 0, -1},
                                     .num_output_axes = 3},
                 &outputs));
  }
  LS_OWN(ls_nest, results) = fetch(s, outputs);
  expect_array(ls_nest_item(results, 0), LS_SHAPE(4, 2),
               (const double[]){0, 2, 4, 6, 8, 10, 12, 14});
  expect_array(ls_nest_item(results, 2), LS_SHAPE(1, 4),
               (const double[]){10, 20, 31, 41});
}

TEST(outputs_can_be_those_of_shard_0) {
  LS_SPEC("O123 O124");
  sharded *s = *state;
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, none) = ls_none();
  const bool no = false, some[] = {true, false, true};
  {
    LS_GRAPH_SCOPE(s->graph);
    ls_shard_options o = {.num_shards = LS_SOME(2),
                          .input_axes = (const int[]){0, 1},
                          .num_input_axes = 2,
                          .outputs_from_all = some,
                          .num_outputs_from_all = 3};
    expect_ok(ls_shard(three, NULL, s->inputs, &o, &outputs));
    o.outputs_from_all = &no;
    o.num_outputs_from_all = 1;
    expect_ok(ls_shard(three, NULL, s->inputs, &o, &none));
  }
  LS_OWN(ls_nest, results) = fetch(s, outputs);
  expect_array(ls_nest_item(results, 1), LS_SCALAR, (const double[]){6});
  expect_array(ls_nest_item(results, 2), LS_SHAPE(2, 2),
               (const double[]){10, 20, 31, 41});
  ls_nest_release(results);
  results = fetch(s, none);
  expect_array(ls_nest_item(results, 0), LS_SHAPE(2, 2),
               (const double[]){0, 2, 4, 6});
  expect_array(ls_nest_item(results, 2), LS_SHAPE(1, 2),
               (const double[]){10, 20});
}

TEST(without_outputs_there_is_one_op) {
  LS_SPEC("O124");
  sharded *s = *state;
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(s->graph);
    expect_ok(ls_shard(give_none, NULL, ls_none(),
                       &(ls_shard_options){.num_shards = LS_SOME(3)},
                       &outputs));
  }
  assert_int_equal(outputs.kind, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(outputs), 1);
  assert_string_equal(ls_op_name(ls_nest_item(outputs, 0).as.op), "shard_0");
  ls_nest_release(fetch(s, outputs));
}

TEST(one_shard_is_the_default) {
  LS_SPEC("O121");
  sharded *s = *state;
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(s->graph);
    expect_ok(ls_shard(three, NULL, s->inputs, NULL, &outputs));
  }
  LS_OWN(ls_nest, results) = fetch(s, outputs);
  expect_array(ls_nest_item(results, 1), LS_SHAPE(1), (const double[]){28});
}

TEST(shards_that_cannot_be_are_refused_with_their_numbers) {
  LS_SPEC("O121 O122 O123");
  sharded *s = *state;
  const struct {
    ls_shard_options options;
    const char *says;
  } cases[] = {
      {{.num_shards = LS_SOME(0)}, "num_shards must be a positive integer"},
      {{.num_shards = LS_SOME(-2)}, "is -2"},
      {{.input_axes = (const int[]){0}, .num_input_axes = 1},
       "1 axes for 2 inputs"},
      {{.num_shards = LS_SOME(2)},
       "input 1: dimension 0 of size 1 cannot be cut into 2 shards"},
      {{.input_axes = (const int[]){0, 2}, .num_input_axes = 2},
       "cannot be cut along axis 2"},
      {{.input_axes = (const int[]){0, -3}, .num_input_axes = 2},
       "cannot be cut along axis -3"},
      {{.output_axes = (const int[]){0}, .num_output_axes = 1},
       "1 axes for 3 outputs"},
      {{.outputs_from_all = (const bool[]){true, false},
        .num_outputs_from_all = 2},
       "outputs_from_all has 2 entries for 3 outputs"},
  };
  LS_GRAPH_SCOPE(s->graph);
  ls_nest outputs = ls_none();
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i)
    expect_status(ls_shard(three, NULL, s->inputs, &cases[i].options, &outputs),
                  LS_INVALID_ARGUMENT, cases[i].says);
  expect_status(ls_shard(three, NULL, ls_nest_i64(3), NULL, &outputs),
                LS_INVALID_ARGUMENT, "a list of tensors or none");
  expect_ok(ls_graph_error(s->graph));
}

static ls_nest doubled(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), ls_nest_tensor(args, 0)));
}

TEST(a_batch_is_cut_and_joined_along_dimension_0) {
  LS_SPEC("O125");
  sharded *s = *state;
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(s->graph);
    LS_OWN(ls_nest, x) = LS_LIST(ls_nest_item(s->inputs, 0));
    expect_ok(ls_batch_parallel(doubled, NULL, x, 4, NULL, &outputs));
  }
  LS_OWN(ls_nest, results) = fetch(s, outputs);
  expect_array(ls_nest_item(results, 0), LS_SHAPE(4, 2),
               (const double[]){0, 2, 4, 6, 8, 10, 12, 14});
}

TEST(the_compile_status_is_given_besides) {
  LS_SPEC("O127");
  sharded *s = *state;
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_tensor compile_status = {0};
  {
    LS_GRAPH_SCOPE(s->graph);
    LS_OWN(ls_nest, x) = LS_LIST(ls_nest_item(s->inputs, 0));
    expect_ok(ls_split_compile_and_shard(
        doubled, NULL, x, &(ls_shard_options){.num_shards = LS_SOME(2)},
        &compile_status, &outputs));
  }
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(ls_tensor_op(compile_status), "_tpu_compilation_status",
                       &attr));
  assert_string_equal(attr->as.string, "cluster");
  LS_OWN(ls_nest, told) = fetch(s, ls_leaf(compile_status));
  const ls_bytes *bytes = ls_array_data(ls_nest_as_array(told));
  assert_int_equal(bytes->size, 0);
  LS_OWN(ls_nest, results) = fetch(s, outputs);
  expect_array(ls_nest_item(results, 0), LS_SHAPE(4, 2),
               (const double[]){0, 2, 4, 6, 8, 10, 12, 14});
}

// ---- One replica -----------------------------------------------------------
static ls_nest named(ls_nest args, void *user) {
  (void)user;
  const ls_nest x = ls_leaf(ls_nest_tensor(args, 0));
  return ls_nest_dict("", (const char *const[]){"x"}, &x, 1);
}

TEST(a_rewritten_computation_gives_what_its_one_replica_has) {
  LS_SPEC("O126");
  sharded *s = *state;
  LS_OWN(ls_nest, list) = ls_none();
  LS_OWN(ls_nest, dict) = ls_none();
  ls_nest op = ls_none();
  ls_nest refused = ls_nest_i64(7);
  {
    LS_GRAPH_SCOPE(s->graph);
    LS_OWN(ls_nest, x) = LS_TUPLE(ls_nest_item(s->inputs, 0));
    expect_ok(ls_rewrite(doubled, NULL, x, NULL, &list));
    expect_ok(ls_rewrite(named, NULL, x, NULL, &dict));
    expect_ok(ls_rewrite(give_none, NULL, ls_none(), NULL, &op));
    expect_status(ls_rewrite(doubled, NULL, ls_nest_i64(1), NULL, &refused),
                  LS_INVALID_ARGUMENT, "a list or a tuple or none, got 1");
    assert_int_equal(refused.kind, LS_KIND_NONE);
  }
  assert_int_equal(list.kind, LS_KIND_LIST);
  assert_int_equal(dict.kind, LS_KIND_DICT);
  assert_int_equal(op.kind, LS_KIND_OP);
  assert_string_equal(ls_op_name(op.as.op), "shard_0");
  LS_OWN(ls_nest, results) = fetch(s, list);
  expect_array(ls_nest_item(results, 0), LS_SHAPE(4, 2),
               (const double[]){0, 2, 4, 6, 8, 10, 12, 14});
}

TEST_FILE(.before_each = set_up, .after_each = tear_down)
