// SPDX-License-Identifier: Apache-2.0
//
// What feeds, queues and loops are not given is refused by name.
#include "lockstep/training_loop.h"
#include "support/pod_runs.h"

TEST(what_is_missing_is_named) {
  LS_OWN(pod_runs, f) =
      pod_runs_begin(1, 1, (ls_runtime_options){.threads = 1});
  ls_infeed_queue *queue = NULL, *other = NULL;
  ls_nest nest = ls_none();
  ls_sharding_policy policy = {0};
  ls_shape shape = LS_SCALAR;
  const ls_training_loop loop = {0};
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){.num_elements = LS_SOME(1)}, &queue));
  LS_GRAPH_SCOPE(f.graph);
  const struct {
    ls_status status;
    const char *says;
  } rows[] = {
      {ls_infeed_queue_create(NULL, &other), "cannot be inferred"},
      {ls_infeed_queue_create(NULL, NULL), "out_queue is NULL"},
      {ls_infeed_queue_set_types(NULL, NULL, 0), "queue is NULL"},
      {ls_infeed_queue_set_types(queue, NULL, 1), "dtypes is NULL"},
      {ls_infeed_queue_set_shapes(NULL, NULL, 0), "queue is NULL"},
      {ls_infeed_queue_set_shapes(queue, NULL, 1), "shapes is NULL"},
      {ls_infeed_queue_set_dimensions(NULL, NULL, 0), "queue is NULL"},
      {ls_infeed_queue_set_dimensions(queue, NULL, 1), "dimensions is NULL"},
      {ls_infeed_queue_set_num_shards(NULL, 1), "queue is NULL"},
      {ls_infeed_queue_configure_from(NULL, nest), "queue is NULL"},
      {ls_infeed_queue_configure_from(queue, nest), "no tensors"},
      {ls_infeed_queue_configure_from_shards(NULL, nest), "queue is NULL"},
      {ls_infeed_queue_configure_from_shards(queue, nest), "none"},
      {ls_infeed_queue_freeze(NULL), "queue is NULL"},
      {ls_infeed_queue_dequeue(NULL, 0, &nest), "queue is NULL"},
      {ls_infeed_queue_dequeue(queue, 0, NULL), "out_tuple is NULL"},
      {ls_infeed_queue_enqueue(NULL, nest, NULL, &nest), "queue is NULL"},
      {ls_infeed_queue_enqueue(queue, nest, NULL, NULL), "out_ops is NULL"},
      {ls_infeed_queue_split_and_enqueue(NULL, nest, NULL, &nest),
       "queue is NULL"},
      {ls_infeed_queue_split_and_enqueue(queue, nest, NULL, NULL),
       "out_ops is NULL"},
      {ls_partitioned_infeed_create(NULL, &other), "options is NULL"},
      {ls_partitioned_infeed_create(&(ls_partitioned_infeed_options){.host = 0},
                                    NULL),
       "out_queue is NULL"},
      {ls_partitioned_infeed_create(&(ls_partitioned_infeed_options){.host = 0},
                                    &other),
       "device assignment"},
      {ls_sharding_policy_set_num_shards(NULL, 1), "policy is NULL"},
      {ls_sharding_policy_set_dimension(NULL, 1), "policy is NULL"},
      {ls_sharding_policy_set_num_partitions(NULL, 1), "policy is NULL"},
      {ls_sharding_policy_merge(NULL, &policy), "policy is NULL"},
      {ls_sharding_policy_merge(&policy, NULL), "other is NULL"},
      {ls_sharding_policy_shard_shape(NULL, shape, (ls_opt){0}, &shape),
       "policy is NULL"},
      {ls_sharding_policy_shard_shape(&policy, shape, (ls_opt){0}, NULL),
       "out_shape is NULL"},
      {ls_sharding_policy_unshard_shape(&policy, NULL, 1, &shape),
       "shapes is NULL"},
      {ls_sharding_policy_unpartition_shape(&policy, shape, NULL),
       "out_shape is NULL"},
      {ls_infeed_put(NULL, nest), "device is NULL"},
      {ls_outfeed_take(NULL, &nest), "device is NULL"},
      {ls_outfeed_take("/device:TPU:0", NULL), "out_tuple is NULL"},
      {ls_training_while(NULL, nest, &nest), "loop is NULL"},
      {ls_training_while(&loop, nest, &nest), "condition is NULL"},
      {ls_training_while(&loop, nest, NULL), "outputs is NULL"},
      {ls_training_repeat(1, NULL, nest, &nest), "loop is NULL"},
      {ls_training_repeat(1, &loop, nest, &nest), "body is NULL"},
      {ls_training_repeat(1, &loop, nest, NULL), "outputs is NULL"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_status(rows[i].status, LS_INVALID_ARGUMENT, rows[i].says);
  // Ops of nothing.
  static const char *const says[] = {"types is NULL", "values is NULL"};
  assert_true(ls_op_is_failed(ls_infeed_dequeue_tuple(NULL, 2)));
  expect_status(ls_graph_take_error(f.graph), LS_INVALID_ARGUMENT, says[0]);
  assert_true(ls_op_is_failed(ls_infeed_enqueue_tuple(NULL, 2, NULL, 0, 0)));
  expect_status(ls_graph_take_error(f.graph), LS_INVALID_ARGUMENT, says[1]);
  assert_true(ls_op_is_failed(ls_outfeed_enqueue_tuple(NULL, 2)));
  expect_status(ls_graph_take_error(f.graph), LS_INVALID_ARGUMENT, says[1]);
  ls_infeed_queue_release(queue);
  ls_infeed_queue_release(NULL);
}
