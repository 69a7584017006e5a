// SPDX-License-Identifier: Apache-2.0
//
// Infeed queues: what both ends agree upon, and the ops that they make.
#include <stdio.h>
#include <string.h>

#include "lockstep/function.h"
#include "support/assignments.h"
#include "support/function.h"
#include "support/pod_runs.h"
#include "tpu/own.h"

enum { FEW = 3 };
static const ls_dtype two_types[] = {LS_DTYPE_F32, LS_DTYPE_I32};
static const ls_shape two_shapes[] = {{2, {8, 3}}, {1, {4}}};

static ls_infeed_queue *make(const ls_infeed_options *options) {
  ls_infeed_queue *queue = NULL;
  expect_ok(ls_infeed_queue_create(options, &queue));
  return queue;
}

static ls_infeed_queue *make_two(void) {
  return make(&(ls_infeed_options){.dtypes = two_types,
                                   .num_dtypes = 2,
                                   .shapes = two_shapes,
                                   .num_shapes = 2});
}

static void expect_shape(ls_shape got, const char *wanted) {
  assert_string_equal(LS_SHAPE_TEXT(LS_DTYPE_F32, got), wanted);
}

static void expect_shapes(const ls_infeed_queue *queue, const char *first,
                          const char *second) {
  expect_shape(ls_infeed_queue_type(queue, 0).shape, first);
  expect_shape(ls_infeed_queue_type(queue, 1).shape, second);
}

// ---- Making ----------------------------------------------------------------
TEST(the_number_of_elements_is_given_or_inferred) {
  LS_SPEC("O152 E107");
  static const int64_t dimensions[] = {0, 1, 0};
  const struct {
    ls_infeed_options options;
    size_t count;
    const char *says;
  } rows[] = {
      {{.num_elements = LS_SOME(4)}, 4, NULL},
      {{.dtypes = two_types, .num_dtypes = 2}, 2, NULL},
      {{.shapes = two_shapes, .num_shapes = 1}, 1, NULL},
      {{.dimensions = dimensions, .num_dimensions = 3}, 3, NULL},
      {{.num_elements = LS_SOME(2), .dtypes = two_types, .num_dtypes = 2},
       2,
       NULL},
      {{.name = "q"}, 0, "cannot be inferred"},
      {{.num_elements = LS_SOME(0)}, 0, "0"},
      {{.num_elements = LS_SOME(-1)}, 0, "-1"},
      {{.dtypes = two_types, .num_dtypes = 0}, 0, "at least 1"},
      {{.dtypes = two_types,
        .num_dtypes = 2,
        .shapes = two_shapes,
        .num_shapes = 1},
       0,
       "2 elements"},
      {{.num_elements = LS_SOME(3), .dtypes = two_types, .num_dtypes = 2},
       0,
       "3 elements"},
      {{.num_elements = LS_SOME(2),
        .dimensions = dimensions,
        .num_dimensions = 3},
       0,
       "2 elements"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_infeed_queue *queue = NULL;
    if (rows[i].says != NULL) {
      expect_status(ls_infeed_queue_create(&rows[i].options, &queue),
                    LS_INVALID_ARGUMENT, rows[i].says);
      assert_null(queue);
      continue;
    }
    queue = make(&rows[i].options);
    assert_int_equal(ls_infeed_queue_num_elements(queue), rows[i].count);
    assert_string_equal(ls_infeed_queue_name(queue), "InfeedQueue");
    ls_infeed_queue_release(queue);
  }
  LS_OWN(ls_infeed_queue, queue) =
      make(&(ls_infeed_options){.name = "mine",
                                .num_elements = LS_SOME(1),
                                .num_partitions = LS_SOME(4)});
  assert_string_equal(ls_infeed_queue_name(queue), "mine");
  assert_int_equal(
      ls_sharding_policy_num_partitions(ls_infeed_queue_policy(queue, 0)), 4);
}

TEST(a_queue_tells_what_is_set) {
  LS_SPEC("O153");
  LS_OWN(ls_infeed_queue, queue) =
      make(&(ls_infeed_options){.num_elements = LS_SOME(2)});
  for (size_t i = 0; i < 2; ++i) {
    assert_int_equal(ls_infeed_queue_type(queue, i).dtype, LS_DTYPE_NONE);
    assert_int_equal(ls_infeed_queue_type(queue, i).shape.rank, -1);
    assert_false(ls_infeed_queue_dimension(queue, i).set);
    assert_false(ls_sharding_policy_is_set(ls_infeed_queue_policy(queue, i)));
  }
  assert_false(ls_infeed_queue_num_shards(queue).set);
  for (int k = 0; k < 3; ++k) {
    const ls_shape shapes[] = {LS_SHAPE(4 * k, 3), LS_SHAPE(4, 2)};
    const int64_t dimensions[] = {0, k % 2};
    expect_ok(ls_infeed_queue_set_types(queue, two_types, 2));
    expect_ok(ls_infeed_queue_set_shapes(queue, shapes, 2));
    expect_ok(ls_infeed_queue_set_dimensions(queue, dimensions, 2));
    expect_ok(ls_infeed_queue_set_num_shards(queue, 1 + k % 2));
    assert_int_equal(ls_infeed_queue_type(queue, 1).dtype, LS_DTYPE_I32);
    assert_int_equal(ls_infeed_queue_type(queue, 0).shape.dim[0], 4 * k);
    assert_int_equal(ls_infeed_queue_dimension(queue, 1).value, k % 2);
    assert_int_equal(ls_infeed_queue_num_shards(queue).value, 1 + k % 2);
  }
}

TEST(setters_refuse_other_lengths_and_what_is_frozen) {
  LS_SPEC("O154 E108");
  LS_OWN(ls_infeed_queue, queue) = make_two();
  static const ls_dtype none[] = {LS_DTYPE_F32, LS_DTYPE_NONE};
  static const ls_dtype odd[] = {LS_DTYPE_F32, (ls_dtype)77};
  static const ls_dtype other[] = {LS_DTYPE_F32, LS_DTYPE_I64};
  const ls_shape wide[] = {LS_SHAPE(8, 3), LS_SHAPE(5)};
  static const int64_t dimensions[] = {0, 0}, others[] = {0, 1},
                       bad[] = {0, -1};
  expect_status(ls_infeed_queue_set_types(queue, two_types, 1),
                LS_INVALID_ARGUMENT, "2 elements");
  expect_status(ls_infeed_queue_set_shapes(queue, two_shapes, 1),
                LS_INVALID_ARGUMENT, "2 elements");
  expect_status(ls_infeed_queue_set_dimensions(queue, dimensions, 1),
                LS_INVALID_ARGUMENT, "2 elements");
  expect_status(ls_infeed_queue_set_types(queue, none, 2), LS_INVALID_ARGUMENT,
                "element 1");
  expect_status(ls_infeed_queue_set_types(queue, odd, 2), LS_INVALID_ARGUMENT,
                "77");
  expect_status(ls_infeed_queue_set_dimensions(queue, bad, 2),
                LS_INVALID_ARGUMENT, "-1");
  expect_status(ls_infeed_queue_set_num_shards(queue, 0), LS_INVALID_ARGUMENT,
                "0");
  expect_ok(ls_infeed_queue_set_num_shards(queue, 4));
  expect_ok(ls_infeed_queue_freeze(queue));
  expect_ok(ls_infeed_queue_set_types(queue, two_types, 2));
  expect_ok(ls_infeed_queue_set_shapes(queue, two_shapes, 2));
  expect_ok(ls_infeed_queue_set_dimensions(queue, dimensions, 2));
  expect_ok(ls_infeed_queue_set_num_shards(queue, 4));
  static const char *const types[] = {"i32", "i64"};
  static const char *const shapes[] = {"[4]", "[5]"};
  static const char *const counts[] = {"4", "2"};
  for (int i = 0; i < 2; ++i) {
    expect_status(ls_infeed_queue_set_types(queue, other, 2),
                  LS_INVALID_ARGUMENT, types[i]);
    expect_status(ls_infeed_queue_set_shapes(queue, wide, 2),
                  LS_INVALID_ARGUMENT, shapes[i]);
    expect_status(ls_infeed_queue_set_num_shards(queue, 2), LS_INVALID_ARGUMENT,
                  counts[i]);
  }
  expect_status(ls_infeed_queue_set_dimensions(queue, others, 2),
                LS_INVALID_ARGUMENT, "0");
}

TEST(a_refused_change_changes_nothing) {
  LS_SPEC("O155");
  LS_OWN(ls_infeed_queue, queue) = make_two();
  static const int64_t beyond[] = {0, 3}, fine[] = {0, 0};
  // Beyond the rank: noticed once there is something to cut.
  expect_ok(ls_infeed_queue_set_dimensions(queue, beyond, 2));
  expect_ok(ls_infeed_queue_set_num_shards(queue, 1));
  expect_status(ls_infeed_queue_set_num_shards(queue, 2), LS_INVALID_ARGUMENT,
                "dimension 3");
  assert_int_equal(ls_infeed_queue_num_shards(queue).value, 1);
  assert_int_equal(ls_infeed_queue_policy(queue, 1)->num_shards.value, 1);
  expect_ok(ls_infeed_queue_set_dimensions(queue, fine, 2));
  expect_status(ls_infeed_queue_set_num_shards(queue, 8), LS_INVALID_ARGUMENT,
                "element 1");
  assert_int_equal(ls_infeed_queue_policy(queue, 0)->num_shards.value, 1);
  expect_ok(ls_infeed_queue_set_num_shards(queue, 4));
  const ls_shape odd[] = {LS_SHAPE(16, 3), LS_SHAPE(6)};
  expect_status(ls_infeed_queue_set_shapes(queue, odd, 2), LS_INVALID_ARGUMENT,
                "[6]");
  expect_shapes(queue, "f32[8,3]", "f32[4]");
  static const int64_t second[] = {1, 0};
  expect_status(ls_infeed_queue_set_dimensions(queue, second, 2),
                LS_INVALID_ARGUMENT, "[8,3]");
  assert_int_equal(ls_infeed_queue_dimension(queue, 0).value, 0);
  static const ls_dtype half[] = {LS_DTYPE_F64, LS_DTYPE_NONE};
  expect_status(ls_infeed_queue_set_types(queue, half, 2), LS_INVALID_ARGUMENT,
                "element 1");
  assert_int_equal(ls_infeed_queue_type(queue, 0).dtype, LS_DTYPE_F32);
}

// ---- From tensors ----------------------------------------------------------
static ls_nest list_of(const ls_tensor *tensors, size_t count) {
  ls_nest items[8];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_leaf(tensors[i]);
  return ls_nest_sequence(LS_KIND_LIST, items, count);
}

TEST(a_queue_is_configured_from_whole_tensors) {
  LS_SPEC("O156");
  LS_OWN(pod_runs, f) =
      pod_runs_begin(1, 1, (ls_runtime_options){.threads = 1});
  LS_OWN(ls_infeed_queue, queue) =
      make(&(ls_infeed_options){.num_elements = LS_SOME(2)});
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor tensors[] = {ls_fill(LS_DTYPE_F32, LS_SHAPE(8, 3), 1),
                                 ls_fill(LS_DTYPE_I64, LS_SHAPE(4), 1),
                                 pod_number(1)};
    LS_OWN(ls_nest, two) = list_of(tensors, 2);
    LS_OWN(ls_nest, three) = list_of(tensors, 3);
    expect_ok(ls_infeed_queue_set_num_shards(queue, 2));
    expect_ok(ls_infeed_queue_configure_from(queue, two));
    expect_shapes(queue, "f32[8,3]", "f32[4]");
    assert_int_equal(ls_infeed_queue_type(queue, 1).dtype, LS_DTYPE_I64);
    expect_status(ls_infeed_queue_configure_from(queue, three),
                  LS_INVALID_ARGUMENT, "2 elements");
    expect_shapes(queue, "f32[8,3]", "f32[4]");
  }
}

TEST(a_queue_is_configured_from_shards) {
  LS_SPEC("O157 E109");
  LS_OWN(pod_runs, f) =
      pod_runs_begin(1, 1, (ls_runtime_options){.threads = 1});
  LS_OWN(ls_infeed_queue, queue) = make_two();
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor shard[] = {ls_fill(LS_DTYPE_F32, LS_SHAPE(5, 3), 1),
                               ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 1)};
    const ls_tensor other[] = {shard[0], ls_fill(LS_DTYPE_I64, LS_SHAPE(2), 1)};
    const ls_tensor longer[] = {shard[0],
                                ls_fill(LS_DTYPE_I32, LS_SHAPE(3), 1)};
    LS_OWN(ls_nest, three) =
        LS_LIST(list_of(shard, 2), list_of(shard, 2), list_of(shard, 2));
    LS_OWN(ls_nest, mixed) = LS_LIST(list_of(shard, 2), list_of(other, 2));
    LS_OWN(ls_nest, uneven) = LS_LIST(list_of(shard, 2), list_of(longer, 2));
    const ls_tensor deeper[] = {shard[0],
                                ls_fill(LS_DTYPE_I32, LS_SHAPE(2, 1), 1)};
    LS_OWN(ls_nest, other_rank) =
        LS_LIST(list_of(shard, 2), list_of(deeper, 2));
    LS_OWN(ls_nest, ragged) = LS_LIST(list_of(shard, 2), list_of(shard, 1));
    LS_OWN(ls_nest, four) = LS_LIST(list_of(shard, 2), list_of(shard, 2),
                                    list_of(shard, 2), list_of(shard, 2));
    expect_ok(ls_infeed_queue_configure_from_shards(queue, three));
    assert_int_equal(ls_infeed_queue_num_shards(queue).value, 3);
    assert_int_equal(ls_infeed_queue_dimension(queue, 0).value, 0);
    assert_true(ls_infeed_queue_dimension(queue, 1).set);
    expect_shapes(queue, "f32[15,3]", "f32[6]");
    expect_status(ls_infeed_queue_configure_from_shards(queue, mixed),
                  LS_INVALID_ARGUMENT, "not consistent");
    expect_status(ls_infeed_queue_configure_from_shards(queue, uneven),
                  LS_INVALID_ARGUMENT, "element 1");
    expect_status(ls_infeed_queue_configure_from_shards(queue, other_rank),
                  LS_INVALID_ARGUMENT, "element 1");
    expect_status(ls_infeed_queue_configure_from_shards(queue, ragged),
                  LS_INVALID_ARGUMENT, "2 elements");
    assert_int_equal(ls_infeed_queue_num_shards(queue).value, 3);
    expect_shapes(queue, "f32[15,3]", "f32[6]");
    // What was there is forgotten.
    expect_ok(ls_infeed_queue_configure_from_shards(queue, four));
    expect_shapes(queue, "f32[20,3]", "f32[8]");
    expect_ok(ls_infeed_queue_freeze(queue));
    expect_ok(ls_infeed_queue_configure_from_shards(queue, four));
    expect_status(ls_infeed_queue_configure_from_shards(queue, three),
                  LS_INVALID_ARGUMENT, "4");
  }
}

TEST(freezing_needs_types_and_shapes) {
  LS_SPEC("O158 E107 E108");
  LS_OWN(ls_infeed_queue, queue) =
      make(&(ls_infeed_options){.num_elements = LS_SOME(2)});
  expect_status(ls_infeed_queue_freeze(queue), LS_FAILED_PRECONDITION,
                "without setting all tuple types");
  expect_ok(ls_infeed_queue_set_types(queue, two_types, 2));
  expect_status(ls_infeed_queue_freeze(queue), LS_FAILED_PRECONDITION,
                "without setting all tuple shapes");
  const ls_shape unknown[] = {LS_SHAPE(8, -1), LS_SHAPE_UNKNOWN};
  expect_ok(ls_infeed_queue_set_shapes(queue, unknown, 2));
  expect_status(ls_infeed_queue_freeze(queue), LS_FAILED_PRECONDITION, "rank");
  assert_false(ls_infeed_queue_is_frozen(queue));
  assert_false(ls_infeed_queue_policy(queue, 0)->frozen);
  assert_false(ls_infeed_queue_num_shards(queue).set);
  const ls_shape known[] = {LS_SHAPE(8, -1), LS_SHAPE(4)};
  expect_ok(ls_infeed_queue_set_shapes(queue, known, 2));
  expect_ok(ls_infeed_queue_freeze(queue));
  assert_true(ls_infeed_queue_is_frozen(queue));
  for (size_t i = 0; i < 2; ++i) {
    assert_true(ls_infeed_queue_policy(queue, i)->frozen);
    assert_int_equal(ls_infeed_queue_dimension(queue, i).value, 0);
  }
  assert_int_equal(ls_infeed_queue_num_shards(queue).value, 1);
}

// ---- The dequeue -----------------------------------------------------------
static ls_nest dequeue_in_function(ls_nest args, void *user) {
  (void)args;
  ls_nest first = ls_none();
  LS_OWN(ls_nest, second) = ls_none();
  expect_ok(ls_infeed_queue_dequeue(user, -1, &first));
  expect_ok(ls_infeed_queue_dequeue(user, -1, &second));
  return first;
}

TEST(a_queue_makes_one_dequeue) {
  LS_SPEC("O159 E110");
  LS_OWN(pod_runs, f) =
      pod_runs_begin(1, 1, (ls_runtime_options){.threads = 1});
  LS_OWN(ls_infeed_queue, queue) = make_two();
  LS_OWN(ls_infeed_queue, other) = make_two();
  LS_OWN(ls_infeed_queue, unset) =
      make(&(ls_infeed_options){.num_elements = LS_SOME(1)});
  ls_nest tuple = ls_none(), again = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    LS_NAME_SCOPE("s");
    expect_ok(ls_infeed_queue_set_num_shards(queue, 4));
    expect_ok(ls_infeed_queue_dequeue(queue, 0, &tuple));
    assert_true(ls_infeed_queue_is_frozen(queue));
    assert_int_equal(ls_nest_count(tuple), 2);
    const ls_tensor first = ls_nest_tensor(tuple, 0);
    const ls_op op = ls_tensor_op(first);
    assert_string_equal(ls_op_name(op), "s/InfeedQueue/dequeue");
    assert_string_equal(ls_op_device(op), "/device:TPU_REPLICATED_CORE:0");
    assert_int_equal(ls_op_num_outputs(op), 2);
    assert_int_equal(ls_tensor_dtype(ls_nest_tensor(tuple, 1)), LS_DTYPE_I32);
    expect_shape(ls_tensor_shape(first), "f32[2,3]");
    expect_shape(ls_tensor_shape(ls_nest_tensor(tuple, 1)), "f32[1]");
    expect_status(ls_infeed_queue_dequeue(queue, 0, &again),
                  LS_FAILED_PRECONDITION,
                  "two dequeue Ops from the same queue");
    expect_status(ls_infeed_queue_dequeue(unset, 0, &again),
                  LS_FAILED_PRECONDITION, "types");
    ls_nest_release(tuple);
    LS_DEVICE_SCOPE("/device:TPU:3");
    expect_ok(ls_infeed_queue_dequeue(other, -1, &tuple));
    assert_string_equal(ls_op_device(ls_tensor_op(ls_nest_tensor(tuple, 0))),
                        "/device:TPU:3");
    ls_nest_release(tuple);
  }
  LS_OWN(ls_function, function) = unnamed_function(dequeue_in_function, other);
  const size_t before = ls_graph_num_ops(f.graph);
  {
    LS_GRAPH_SCOPE(f.graph);
    LS_OWN(ls_nest, results) = call_results(function, ls_none());
  }
  assert_true(ls_graph_num_ops(f.graph) > before);
}

static const char *tag_of(ls_nest tuple, size_t i) {
  const ls_attr *attr = NULL;
  expect_ok(
      ls_op_attr(ls_tensor_op(ls_nest_tensor(tuple, i)), "_sharding", &attr));
  return attr->as.string;
}

TEST(partitions_are_put_together_and_tagged) {
  LS_SPEC("O160");
  LS_OWN(pod_runs, f) =
      pod_runs_begin(1, 1, (ls_runtime_options){.threads = 1});
  static const ls_dtype types[] = {LS_DTYPE_F32, LS_DTYPE_F32, LS_DTYPE_I32};
  const ls_shape shapes[] = {LS_SHAPE(8, 6), LS_SHAPE(8, 6), LS_SCALAR};
  static const int64_t dimensions[] = {1, 0, 0};
  LS_OWN(ls_infeed_queue, queue) =
      make(&(ls_infeed_options){.dtypes = types,
                                .num_dtypes = 3,
                                .shapes = shapes,
                                .num_shapes = 3,
                                .dimensions = dimensions,
                                .num_dimensions = 3,
                                .num_partitions = LS_SOME(4)});
  LS_OWN(ls_nest, tuple) = ls_none();
  LS_GRAPH_SCOPE(f.graph);
  expect_ok(ls_infeed_queue_dequeue(queue, 0, &tuple));
  expect_shape(ls_tensor_shape(ls_nest_tensor(tuple, 0)), "f32[8,24]");
  expect_shape(ls_tensor_shape(ls_nest_tensor(tuple, 1)), "f32[32,6]");
  expect_shape(ls_tensor_shape(ls_nest_tensor(tuple, 2)), "f32[]");
  assert_string_equal(tag_of(tuple, 0), "tiled [1,4] on 0..3");
  assert_string_equal(tag_of(tuple, 1), "tiled [4,1] on 0..3");
  assert_string_equal(tag_of(tuple, 2), "replicated");
}

// ---- Enqueues --------------------------------------------------------------
static int64_t as_counted(void *user, int64_t shard) {
  (void)user;
  return shard;
}

static int64_t twice(void *user, int64_t shard) {
  (void)user;
  return 2 * shard;
}

static ls_status far_away(void *user, int64_t shard, ls_device_name *out_name) {
  (void)user;
  if (shard < 0) return ls_internal("no shard");
  snprintf(out_name->text, sizeof(out_name->text), "/task:%lld/device:CPU:0",
           (long long)shard + 4);
  return ls_ok();
}

static void expect_op(ls_nest ops, size_t i, const char *name,
                      const char *device) {
  const ls_op op = ls_nest_item(ops, i).as.op;
  assert_string_equal(ls_op_name(op), name);
  assert_string_equal(ls_op_device(op), device);
}

TEST(a_queue_makes_an_enqueue_for_each_shard) {
  LS_SPEC("O161 E110 E111");
  LS_OWN(pod_runs, f) =
      pod_runs_begin(1, 4, (ls_runtime_options){.threads = 1});
  LS_OWN(ls_infeed_queue, queue) = make_two();
  LS_OWN(ls_infeed_queue, placed) = make_two();
  LS_OWN(ls_infeed_queue, torn) = make_two();
  ls_nest ops = ls_none(), run = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    ls_tensor a[2], b[2];
    {
      LS_DEVICE_SCOPE("/task:1/device:CPU:0");
      a[0] = ls_fill(LS_DTYPE_F32, LS_SHAPE(4, 3), 1);
      a[1] = ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 1);
    }
    b[0] = ls_fill(LS_DTYPE_F32, LS_SHAPE(4, 3), 2);
    b[1] = ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 2);
    const ls_tensor mixed[] = {a[0], b[1]};
    LS_OWN(ls_nest, shards) = LS_LIST(list_of(a, 2), list_of(b, 2));
    LS_OWN(ls_nest, several) = LS_LIST(list_of(b, 2), list_of(mixed, 2));
    const size_t before = ls_graph_num_ops(f.graph);
    static const char *const says[] = {"shard 1", "task:1", "''"};
    for (int i = 0; i < 3; ++i)
      expect_status(ls_infeed_queue_enqueue(torn, several, NULL, &ops),
                    LS_INVALID_ARGUMENT, says[i]);
    assert_int_equal(ls_graph_num_ops(f.graph), before);
    assert_false(ls_infeed_queue_is_frozen(torn));
    expect_ok(ls_infeed_queue_enqueue(queue, shards, NULL, &ops));
    assert_true(ls_infeed_queue_is_frozen(queue));
    expect_shapes(queue, "f32[8,3]", "f32[4]");
    assert_int_equal(ls_nest_count(ops), 2);
    expect_op(ops, 0, "InfeedQueue/enqueue/0", "/task:1/device:CPU:0");
    expect_op(ops, 1, "InfeedQueue/enqueue/1", "");
    run = ls_nest_op(ls_nest_item(ops, 1).as.op);
    ls_nest_release(ops);
    expect_status(ls_infeed_queue_enqueue(queue, shards, NULL, &ops),
                  LS_FAILED_PRECONDITION,
                  "two enqueue Ops from the same queue");
    const ls_infeed_places places = {.ordinal_of = twice, .place_of = far_away};
    expect_ok(ls_infeed_queue_enqueue(placed, several, &places, &ops));
    expect_op(ops, 0, "InfeedQueue/enqueue/0_1", "/task:4/device:CPU:0");
    expect_op(ops, 1, "InfeedQueue/enqueue/1_1", "/task:5/device:CPU:0");
    ls_nest_release(ops);
  }
  // Its ordinal is -1.
  expect_status(pod_runs_try(&f, run), LS_INVALID_ARGUMENT,
                "must specify a device_ordinal");
}

// What core `core` of task `task` takes next.
static void expect_taken(pod_runs *f, int task, int core, ls_shape shape,
                         double first, double label) {
  ls_nest fetches = ls_none();
  {
    LS_GRAPH_SCOPE(f->graph);
    char device[60];
    snprintf(device, sizeof(device), "/task:%d/device:TPU:%d", task, core);
    LS_DEVICE_SCOPE(device);
    const ls_type types[] = {{LS_DTYPE_F32, shape},
                             {LS_DTYPE_I32, LS_SHAPE(1)}};
    const ls_op op = ls_infeed_dequeue_tuple(types, 2);
    fetches =
        LS_LIST(ls_leaf(ls_op_output(op, 0)), ls_leaf(ls_op_output(op, 1)));
  }
  pod_runs_do(f, fetches);
  assert_true(pod_runs_number(f, 0) == first);
  assert_true(pod_runs_number(f, 1) == label);
}

static ls_tensor counted_to(ls_dtype dtype, ls_shape shape) {
  const int64_t count = ls_shape_num_elements(shape);
  return ls_reshape(ls_iota(dtype, LS_SHAPE(count), 0), shape);
}

// A second call for the same end is refused, and the first one's ops, which the
// caller's variable still holds, feed the cores. Another variable is none.
TEST(a_second_refused_enqueue_keeps_the_list_of_the_first) {
  LS_SPEC("O161 O163");
  for (int whole = 0; whole < 2; ++whole) {
    LS_OWN(pod_runs, f) =
        pod_runs_begin(1, 2, (ls_runtime_options){.threads = 1});
    LS_OWN(ls_infeed_queue, queue) = make_two();
    ls_nest ops = ls_none(), other = ls_nest_i64(7);
    {
      LS_GRAPH_SCOPE(f.graph);
      ls_tensor x[2][2];
      for (int s = 0; s < 2; ++s) {
        x[s][0] = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 3), 10 + s);
        x[s][1] = ls_fill(LS_DTYPE_I32, LS_SHAPE(1), s);
      }
      const ls_tensor first[] = {x[0][0], x[1][0]};
      const ls_tensor second[] = {x[0][1], x[1][1]};
      const ls_tensor all[] = {ls_concatenate(first, 2, 0),
                               ls_concatenate(second, 2, 0)};
      LS_OWN(ls_nest, shards) = LS_LIST(list_of(x[0], 2), list_of(x[1], 2));
      LS_OWN(ls_nest, inputs) = list_of(all, 2);
      expect_ok(ls_infeed_queue_set_num_shards(queue, 2));
      for (int again = 0; again < 3; ++again) {
        ls_nest *out = again < 2 ? &ops : &other;
        const ls_infeed_places host = {.ordinal_of = as_counted};
        const ls_status status =
            whole ? ls_infeed_queue_split_and_enqueue(queue, inputs, NULL, out)
                  : ls_infeed_queue_enqueue(queue, shards, &host, out);
        expect_status(status, again == 0 ? LS_OK : LS_FAILED_PRECONDITION,
                      again == 0 ? "" : "two enqueue Ops from the same queue");
        assert_int_equal(ls_nest_count(ops), 2);
      }
      assert_int_equal(other.kind, LS_KIND_NONE);
    }
    pod_runs_do(&f, ops);
    for (int core = 1; core >= 0; --core)
      expect_taken(&f, 0, core, LS_SHAPE(2, 3), 10 + core, core);
    // It went with the run: nobody holds it.
    LS_GRAPH_SCOPE(f.graph);
    expect_status(ls_infeed_queue_enqueue(queue, ls_none(), NULL, &ops),
                  LS_FAILED_PRECONDITION, "two enqueue Ops");
    assert_int_equal(ops.kind, LS_KIND_NONE);
  }
}

TEST(whole_inputs_are_split_over_the_cores) {
  LS_SPEC("O162 O163 E110 E111");
  LS_OWN(pod_runs, f) =
      pod_runs_begin(2, 2, (ls_runtime_options){.threads = 1});
  LS_OWN(ls_infeed_queue, queue) = make_two();
  LS_OWN(ls_infeed_queue, one) = make_two();
  LS_OWN(ls_nest, ops) = ls_none();
  LS_OWN(ls_nest, one_op) = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor whole[] = {counted_to(LS_DTYPE_F32, LS_SHAPE(8, 3)),
                               counted_to(LS_DTYPE_I32, LS_SHAPE(4))};
    LS_OWN(ls_nest, inputs) = list_of(whole, 2);
    expect_ok(ls_infeed_queue_set_num_shards(queue, 4));
    expect_ok(ls_infeed_queue_split_and_enqueue(queue, inputs, NULL, &ops));
    assert_int_equal(ls_nest_count(ops), 4);
    expect_op(ops, 0, "InfeedQueue/enqueue/0", "/task:0/device:CPU:0");
    expect_op(ops, 1, "InfeedQueue/enqueue/1", "/task:0/device:CPU:0");
    expect_op(ops, 3, "InfeedQueue/enqueue/3", "/task:1/device:CPU:0");
    ls_op split = {0};
    expect_ok(ls_graph_lookup_op(f.graph, "InfeedQueue/split/0", &split));
    assert_int_equal(ls_op_num_outputs(split), 4);
    expect_ok(ls_graph_lookup_op(f.graph, "InfeedQueue/split/1", &split));
    // One shard needs no split.
    const ls_infeed_places places = {.ordinal_of = twice, .place_of = far_away};
    expect_ok(ls_infeed_queue_split_and_enqueue(one, inputs, &places, &one_op));
    expect_op(one_op, 0, "InfeedQueue/enqueue/0_1", "/task:4/device:CPU:0");
    expect_status(ls_graph_lookup_op(f.graph, "InfeedQueue/split/0_1", &split),
                  LS_NOT_FOUND, "split");
  }
  // Each core gets one tuple: slice s of each element.
  for (int k = 0; k < 2; ++k)
    pod_runs_do(&f, ls_nest_retain(ops));
  for (int core = 3; core >= 0; --core)
    for (int k = 0; k < 2; ++k)
      expect_taken(&f, core / 2, core % 2, LS_SHAPE(2, 3), 6 * core, core);
}

TEST(shards_go_where_the_assignment_has_replicas) {
  LS_SPEC("O162");
  LS_OWN(pod_runs, f) =
      pod_runs_begin(2, 2, (ls_runtime_options){.threads = 1});
  static const int at[][2] = {{1, 1}, {0, 1}, {1, 0}, {0, 0}};
  LS_OWN(ls_topology, topology) = make_topology(2, 2);
  LS_OWN(ls_device_assignment, assignment) =
      make_assignment(topology, 4, 1, at);
  LS_OWN(ls_infeed_queue, queue) = make_two();
  ls_nest ops = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor whole[] = {counted_to(LS_DTYPE_F32, LS_SHAPE(8, 3)),
                               counted_to(LS_DTYPE_I32, LS_SHAPE(4))};
    LS_OWN(ls_nest, inputs) = list_of(whole, 2);
    expect_ok(ls_infeed_queue_set_num_shards(queue, 4));
    expect_ok(ls_infeed_queue_split_and_enqueue(
        queue, inputs, &(ls_infeed_places){.assignment = assignment}, &ops));
    expect_op(ops, 0, "InfeedQueue/enqueue/0", "/task:1/device:CPU:0");
    expect_op(ops, 1, "InfeedQueue/enqueue/1", "/task:0/device:CPU:0");
  }
  pod_runs_do(&f, ops);
  for (int r = 0; r < 4; ++r)
    expect_taken(&f, at[r][0], at[r][1], LS_SHAPE(2, 3), 6 * r, r);
}
