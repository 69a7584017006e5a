// SPDX-License-Identifier: Apache-2.0
//
// Infeed queues whose values are cut over the logical cores of a replica.
#include <string.h>

#include "support/assignments.h"
#include "support/pod_runs.h"
#include "tpu/feeds/feed.h"
#include "tpu/own.h"

// ---- Pieces ----------------------------------------------------------------
TEST(uneven_pieces_are_greedy) {
  LS_SPEC("O165 E113");
  const struct {
    int64_t size, parts, sizes[4];
  } rows[] = {{5, 4, {2, 2, 1, 0}}, {14, 4, {4, 4, 4, 2}},
              {8, 4, {2, 2, 2, 2}}, {1, 4, {1, 0, 0, 0}},
              {0, 2, {0, 0}},       {9, 4, {3, 3, 3, 0}}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    int64_t start = 0;
    for (int64_t k = 0; k < rows[i].parts; ++k) {
      ls_piece piece;
      assert_true(ls_piece_of(LS_SHAPE(rows[i].size), LS_SHAPE(rows[i].parts),
                              k, &piece));
      assert_int_equal(piece.shape.dim[0], rows[i].sizes[k]);
      assert_int_equal(piece.start.dim[0], start);
      start += rows[i].sizes[k];
    }
    assert_int_equal(start, rows[i].size);
  }
  // Row by row.
  for (int64_t k = 0; k < 6; ++k) {
    ls_piece piece;
    assert_true(ls_piece_of(LS_SHAPE(4, 5), LS_SHAPE(2, 3), k, &piece));
    assert_int_equal(piece.start.dim[0], k / 3 * 2);
    assert_int_equal(piece.start.dim[1], k % 3 * 2);
    assert_int_equal(piece.shape.dim[1], k % 3 == 2 ? 1 : 2);
  }
}

// Each element is the number of its place in the whole.
TEST(pieces_are_copied_to_where_they_were_cut) {
  const ls_shape shape = LS_SHAPE(3, 4, 5), parts = LS_SHAPE(2, 2, 2);
  char whole[3 * 4 * 5] = {0};
  for (int64_t k = 0; k < 8; ++k) {
    ls_piece piece;
    char elements[sizeof(whole)];
    size_t count = 0;
    assert_true(ls_piece_of(shape, parts, k, &piece));
    const int64_t *start = piece.start.dim, *size = piece.shape.dim;
    for (int64_t x = start[0]; x < start[0] + size[0]; ++x)
      for (int64_t y = start[1]; y < start[1] + size[1]; ++y)
        for (int64_t z = start[2]; z < start[2] + size[2]; ++z)
          elements[count++] = (char)(20 * x + 5 * y + z);
    ls_piece_copy(&piece, shape, 1, elements, whole);
  }
  for (size_t i = 0; i < sizeof(whole); ++i)
    assert_int_equal(whole[i], i);
}

// ---- Queues ----------------------------------------------------------------
// Two replicas of four cores on two hosts: one is on host 0, the other begins
// on host 1 and has two cores on host 0.
static const int places[][2] = {{0, 3}, {0, 2}, {0, 1}, {0, 0},
                                {1, 0}, {1, 1}, {0, 4}, {0, 5}};

typedef struct fixture {
  pod_runs f;
  ls_topology *topology;
  ls_device_assignment *assignment;
} fixture;

static fixture begin(void) {
  fixture x = {.f = pod_runs_begin(2, 6, (ls_runtime_options){.threads = 1})};
  x.topology = make_topology(2, 6);
  x.assignment = make_assignment(x.topology, 2, 4, places);
  return x;
}

static void end(fixture *x) {
  ls_device_assignment_release(x->assignment);
  ls_topology_release(x->topology);
  pod_runs_end(&x->f);
}
LS_OWNED_STRUCT(fixture, end)

TEST(parts_are_checked) {
  LS_SPEC("O164 E112");
  LS_OWN(fixture, x) = begin();
  const struct {
    ls_shape parts, shape;
    const char *says[2];  // NULL: accepted.
  } rows[] = {
      {LS_SHAPE_UNKNOWN, LS_SHAPE(5, 3), {0}},
      {LS_SHAPE(1, 1), LS_SHAPE(5, 3), {0}},
      {LS_SHAPE(4, 1), LS_SHAPE(5, 3), {0}},
      {LS_SHAPE(2, 2), LS_SHAPE(5, 3), {0}},
      {LS_SHAPE(0, 4), LS_SHAPE(5, 3), {"[0,4]", "at least 1"}},
      {LS_SHAPE(2, 3), LS_SHAPE(5, 3), {"[2,3]", "4 cores"}},
      {LS_SHAPE(2, 1), LS_SHAPE(5, 3), {"[2,1]", "4 cores"}},
      {LS_SHAPE(4), LS_SHAPE(5, 3), {"[5,3]", "[4]"}},
      {LS_SHAPE(2, 2), LS_SHAPE(5, -1), {"[5,?]", "[2,2]"}},
  };
  LS_GRAPH_SCOPE(x.f.graph);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    for (int k = 0; k < 2; ++k) {
      LS_OWN(ls_infeed_queue, queue) = NULL;
      LS_OWN(ls_nest, tuple) = ls_none();
      const ls_dtype dtype = LS_DTYPE_F32;
      const ls_partitioned_infeed_options options = {
          .queue = {.dtypes = &dtype,
                    .num_dtypes = 1,
                    .shapes = &rows[i].shape,
                    .num_shapes = 1},
          .assignment = x.assignment,
          .parts = &rows[i].parts,
          .num_parts = 1};
      ls_status status = ls_partitioned_infeed_create(&options, &queue);
      if (ls_status_is_ok(status))
        status = ls_infeed_queue_dequeue(queue, 0, &tuple);
      if (rows[i].says[k] != NULL)
        expect_status(status, LS_INVALID_ARGUMENT, rows[i].says[k]);
      else
        expect_ok(status);
    }
}

enum { ELEMENTS = 3 };

// A tiled element, one that all cores have, one on core 0 alone.
static ls_infeed_queue *make_queue(const fixture *x, int host) {
  static const ls_shape parts[ELEMENTS] = {
      {2, {2, 2}}, {LS_UNKNOWN_RANK, {0}}, {1, {1}}};
  ls_infeed_queue *queue = NULL;
  expect_ok(ls_partitioned_infeed_create(
      &(ls_partitioned_infeed_options){
          .queue = {.num_elements = LS_SOME(ELEMENTS)},
          .assignment = x->assignment,
          .host = host,
          .parts = parts,
          .num_parts = ELEMENTS},
      &queue));
  return queue;
}

// Makes a queue of one element that feeds a single replica.
static ls_status queue_of_replica(const fixture *x, int64_t replica,
                                  ls_infeed_queue **out_queue) {
  return ls_partitioned_infeed_create(
      &(ls_partitioned_infeed_options){.queue = {.num_elements = LS_SOME(1)},
                                       .assignment = x->assignment,
                                       .replica = LS_SOME(replica)},
      out_queue);
}

TEST(a_queue_of_one_replica_feeds_that_one_alone) {
  static const int64_t wrong[] = {-1, 2, INT64_C(1) << 32};
  LS_OWN(fixture, x) = begin();
  LS_OWN(ls_infeed_queue, queue) = NULL;
  for (size_t i = 0; i < LS_COUNT_OF(wrong); ++i)
    expect_status(queue_of_replica(&x, wrong[i], &queue), LS_INVALID_ARGUMENT,
                  "the assignment has 2");
  expect_ok(queue_of_replica(&x, 1, &queue));
  LS_GRAPH_SCOPE(x.f.graph);
  const ls_nest value = ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(4), 1));
  LS_OWN(ls_nest, two) = LS_LIST(LS_LIST(value), LS_LIST(value));
  ls_nest ops = ls_none();
  expect_status(ls_infeed_queue_enqueue(queue, two, NULL, &ops),
                LS_INVALID_ARGUMENT, "it feeds replica 1 alone");
}

// What replica r gets: numbers from 100 r on.
static ls_nest inputs_of(int r) {
  const ls_tensor tile = ls_add_scalar(
      ls_reshape(ls_iota(LS_DTYPE_F32, LS_SHAPE(15), 0), LS_SHAPE(5, 3)),
      100 * r);
  return LS_LIST(ls_leaf(tile),
                 ls_leaf(ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 10 + r)),
                 ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(4), 20 + r)));
}

static void expect_op(ls_nest ops, size_t i, const char *name,
                      const char *device, size_t inputs) {
  const ls_op op = ls_nest_item(ops, i).as.op;
  assert_string_equal(ls_op_name(op), name);
  assert_string_equal(ls_op_device(op), device);
  assert_int_equal(ls_op_num_inputs(op), inputs);
}

TEST(each_core_gets_an_enqueue_of_its_pieces) {
  LS_SPEC("O166 E112 E114");
  LS_OWN(fixture, x) = begin();
  LS_OWN(ls_infeed_queue, queue) = make_queue(&x, 1);
  assert_string_equal(ls_infeed_queue_name(queue), "PartitionedInfeedQueue");
  ls_nest ops = ls_none();
  LS_GRAPH_SCOPE(x.f.graph);
  const ls_nest shards = LS_LIST(inputs_of(1));
  expect_ok(ls_infeed_queue_enqueue(queue, shards, NULL, &ops));
  // Replica 1 is the first of host 1.
  assert_int_equal(ls_nest_count(ops), 4);
  expect_op(ops, 0, "enqueue/replica_0/input_0", "/task:1/device:CPU:0", 3);
  expect_op(ops, 1, "enqueue/replica_0/input_1", "/task:1/device:CPU:0", 2);
  expect_op(ops, 2, "enqueue/replica_0/input_2", "/task:0/device:CPU:0", 2);
  expect_op(ops, 3, "enqueue/replica_0/input_3", "/task:0/device:CPU:0", 2);
  const ls_shape sizes[] = {LS_SHAPE(3, 2), LS_SHAPE(3, 1), LS_SHAPE(2, 2),
                            LS_SHAPE(2, 1)};
  for (size_t i = 0; i < 4; ++i)
    assert_true(ls_shape_equal(
        ls_tensor_shape(ls_op_input(ls_nest_item(ops, i).as.op, 0)), sizes[i]));
  ls_nest_release(ops);
  ls_nest_release(shards);
  const ls_nest two = LS_LIST(inputs_of(0), inputs_of(1));
  LS_OWN(ls_infeed_queue, other) = make_queue(&x, 1);
  expect_status(ls_infeed_queue_enqueue(other, two, NULL, &ops),
                LS_INVALID_ARGUMENT, "host 1 has 1");
  ls_nest_release(two);
  // A core that gets nothing has no op.
  const ls_shape one = LS_SHAPE(1);
  LS_OWN(ls_infeed_queue, small) = NULL;
  expect_ok(ls_partitioned_infeed_create(
      &(ls_partitioned_infeed_options){
          .queue = {.num_elements = LS_SOME(1), .name = "small"},
          .assignment = x.assignment,
          .parts = &one,
          .num_parts = 1},
      &small));
  LS_OWN(ls_nest, alone) =
      LS_LIST(LS_LIST(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(4), 1))));
  expect_ok(ls_infeed_queue_enqueue(small, alone, NULL, &ops));
  assert_int_equal(ls_nest_count(ops), 1);
  expect_op(ops, 0, "enqueue/replica_0/input_0_1", "/task:0/device:CPU:0", 1);
  ls_nest_release(ops);
}

static const char *tag_of(ls_nest tuple, size_t i) {
  const ls_attr *attr = NULL;
  expect_ok(
      ls_op_attr(ls_tensor_op(ls_nest_tensor(tuple, i)), "_sharding", &attr));
  return attr->as.string;
}

// In replica 0, which is what a plain graph is.
TEST(the_dequeue_gives_whole_values) {
  LS_SPEC("O167 E114");
  LS_OWN(fixture, x) = begin();
  LS_OWN(ls_infeed_queue, queue) = make_queue(&x, 0);
  LS_OWN(ls_nest, ops) = ls_none();
  LS_OWN(ls_nest, tuple) = ls_none();
  {
    LS_GRAPH_SCOPE(x.f.graph);
    LS_OWN(ls_nest, shards) = LS_LIST(inputs_of(0));
    expect_ok(ls_infeed_queue_enqueue(queue, shards, NULL, &ops));
    expect_ok(ls_infeed_queue_dequeue(queue, 0, &tuple));
  }
  static const char *const tags[] = {"tiled [2,2] on 0..3", "replicated",
                                     "maximal [0]"};
  const ls_shape shapes[] = {LS_SHAPE(5, 3), LS_SHAPE(2), LS_SHAPE(4)};
  for (size_t i = 0; i < ELEMENTS; ++i) {
    assert_string_equal(tag_of(tuple, i), tags[i]);
    assert_true(
        ls_shape_equal(ls_tensor_shape(ls_nest_tensor(tuple, i)), shapes[i]));
  }
  const ls_op op =
      ls_op_input(ls_tensor_op(ls_nest_tensor(tuple, 0)), 0).graph
          ? ls_tensor_op(ls_op_input(ls_tensor_op(ls_nest_tensor(tuple, 0)), 0))
          : (ls_op){0};
  assert_string_equal(ls_op_name(op), "PartitionedInfeedQueue/dequeue");
  assert_string_equal(ls_op_device(op), "/device:TPU_REPLICATED_CORE:0");
  for (int k = 0; k < 2; ++k) {
    pod_runs_do(&x.f, ls_nest_retain(ops));
    pod_runs_do(&x.f, ls_nest_retain(tuple));
    const ls_array *tile = ls_nest_as_array(ls_nest_item(x.f.results, 0));
    for (int64_t i = 0; i < 15; ++i)
      assert_true(ls_array_f64(tile, i) == (double)i);
    assert_true(pod_runs_number(&x.f, 1) == 10);
    assert_true(pod_runs_number(&x.f, 2) == 20);
  }
}

TEST(a_tag_says_how_often_each_dimension_is_cut) {
  LS_SPEC("E114");
  static const ls_shape parts[] = {{2, {4, 1}}, {2, {1, 4}}};
  static const char *const tags[] = {"tiled [4,1] on 0..3",
                                     "tiled [1,4] on 0..3"};
  const ls_shape shapes[] = {LS_SHAPE(4, 4), LS_SHAPE(4, 4)};
  const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F32};
  LS_OWN(fixture, x) = begin();
  LS_OWN(ls_infeed_queue, queue) = NULL;
  LS_OWN(ls_nest, tuple) = ls_none();
  expect_ok(ls_partitioned_infeed_create(
      &(ls_partitioned_infeed_options){.queue = {.dtypes = dtypes,
                                                 .num_dtypes = 2,
                                                 .shapes = shapes,
                                                 .num_shapes = 2},
                                       .assignment = x.assignment,
                                       .parts = parts,
                                       .num_parts = 2},
      &queue));
  {
    LS_GRAPH_SCOPE(x.f.graph);
    expect_ok(ls_infeed_queue_dequeue(queue, 0, &tuple));
    for (size_t i = 0; i < 2; ++i)
      assert_string_equal(tag_of(tuple, i), tags[i]);
  }
}
