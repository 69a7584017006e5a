// SPDX-License-Identifier: Apache-2.0
// Partitioned infeed queues: a replica's elements are cut over its logical
// cores.
#include <stdio.h>

#include "base/require.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "tpu/feeds/feed.h"
#include "tpu/own.h"
#include "tpu/pod/topology.h"

static ls_status set_parts(ls_infeed_queue *queue,
                           const ls_partitioned_infeed_options *options) {
  const int64_t cores =
      ls_device_assignment_num_cores_per_replica(options->assignment);
  if (options->parts != NULL && options->num_parts != queue->count)
    return ls_invalid_argument(
        "queue '%s' has %zu elements, and partition dims for %zu", queue->name,
        queue->count, options->num_parts);
  LS_SET_ARRAY_OR_RETURN(queue->allocator, ls_shape, queue->parts,
                         queue->count);
  for (size_t i = 0; i < queue->count; ++i) {
    queue->parts[i] =
        options->parts == NULL ? LS_SHAPE_UNKNOWN : options->parts[i];
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_components_check_count(queue->parts[i], cores),
                           "element %zu of queue '%s'", i, queue->name));
  }
  return ls_ok();
}

ls_status
ls_partitioned_infeed_create(const ls_partitioned_infeed_options *options,
                             ls_infeed_queue **out_queue) {
  LS_REQUIRE_OUT(out_queue, options);
  if (options->assignment == NULL)
    return ls_invalid_argument(
        "a partitioned infeed queue needs a device assignment");
  const int64_t replicas =
      ls_device_assignment_num_replicas(options->assignment);
  if (options->replica.set &&
      (options->replica.value < 0 || options->replica.value >= replicas))
    return ls_invalid_argument(
        "replica %lld does not exist: the assignment has %lld",
        (long long)options->replica.value, (long long)replicas);
  LS_OWN(ls_infeed_queue, queue) = NULL;
  LS_RETURN_IF_ERROR(
      ls_infeed_queue_make(&options->queue, "PartitionedInfeedQueue", &queue));
  queue->assignment = ls_device_assignment_retain(options->assignment);
  queue->host = options->host;
  queue->replica = options->replica;
  LS_RETURN_IF_ERROR(set_parts(queue, options));
  return ls_hand_over(&queue, out_queue);
}

ls_status ls_partitioned_check(const ls_infeed_queue *queue) {
  const int64_t cores =
      ls_device_assignment_num_cores_per_replica(queue->assignment);
  for (size_t i = 0; i < queue->count; ++i) {
    ls_type type;
    LS_RETURN_IF_ERROR(ls_infeed_queue_shard_type(queue, i, &type));
    LS_RETURN_IF_ERROR(ls_status_annotate(
        ls_components_check(type.shape, queue->parts[i], cores),
        "element %zu of queue '%s'", i, queue->name));
  }
  return ls_ok();
}

// ---- Enqueues --------------------------------------------------------------
typedef struct enqueues {
  ls_infeed_queue *queue;
  int32_t num_cores;
  int32_t *replicas;  // Replicas of the host.
  ls_tensor *inputs;  // Inputs of one replica.
  ls_tensor *pieces;  // Pieces for one core of the replica.
  ls_type *types;
  ls_nest_builder ops;
} enqueues;

static ls_status begin_enqueues(enqueues *e, size_t count) {
  const ls_infeed_queue *queue = e->queue;
  ls_allocator *allocator = queue->allocator;
  size_t found = 0;
  e->replicas = ls_new_array(allocator, int32_t, count);
  e->inputs = ls_new_array(allocator, ls_tensor, queue->count);
  e->pieces = ls_new_array(allocator, ls_tensor, queue->count);
  e->types = ls_new_array(allocator, ls_type, queue->count);
  LS_RETURN_IF_NO_MEMORY(e->replicas != NULL && e->inputs != NULL &&
                         e->pieces != NULL && e->types != NULL);
  if (queue->replica.set && count > 0) {
    e->replicas[0] = (int32_t)queue->replica.value;
    found = 1;
  } else {
    LS_RETURN_IF_ERROR(ls_device_assignment_replicas_on(
        queue->assignment, queue->host, 0, e->replicas, count, &found));
  }
  if (found != count && queue->replica.set)
    return ls_invalid_argument(
        "queue '%s' is given inputs of %zu replicas; it feeds replica %lld "
        "alone",
        queue->name, count, (long long)queue->replica.value);
  if (found != count)
    return ls_invalid_argument(
        "queue '%s' is given inputs of %zu replicas; host %d has %zu",
        queue->name, count, queue->host, found);
  return ls_partitioned_check(queue);
}

static void end_enqueues(enqueues *e) {
  ls_allocator *allocator = e->queue->allocator;
  ls_release(allocator, e->replicas);
  ls_release(allocator, e->inputs);
  ls_release(allocator, e->pieces);
  ls_release(allocator, e->types);
  ls_nest_builder_deinit(&e->ops);
}
LS_OWNED_STRUCT(enqueues, end_enqueues)

static ls_tensor partitioned_cut(ls_tensor value, ls_shape parts,
                                 const ls_piece *piece) {
  if (ls_components_are_whole(parts) || ls_components_count(parts) == 1)
    return value;
  ls_shape limits = piece->start;
  for (int32_t k = 0; k < limits.rank; ++k)
    limits.dim[k] += piece->shape.dim[k];
  return ls_slice(value, piece->start, limits, LS_SCALAR);
}

static ls_status enqueue(enqueues *e, int32_t r, int32_t core) {
  const ls_infeed_queue *queue = e->queue;
  char name[64];
  ls_device_name host;
  int32_t ordinal = 0;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_device_assignment_host(
      queue->assignment, e->replicas[r], core, NULL, &host));
  LS_RETURN_IF_ERROR(ls_device_assignment_ordinal(
      queue->assignment, e->replicas[r], core, &ordinal));
  LS_DEVICE_SCOPE(host.text);
  for (size_t i = 0; i < queue->count; ++i) {
    const ls_shape parts = queue->parts[i];
    ls_piece piece;
    ls_type type;
    LS_RETURN_IF_ERROR(ls_infeed_queue_shard_type(queue, i, &type));
    if (!ls_piece_of(type.shape, parts, core, &piece)) continue;
    e->types[count] = (ls_type){type.dtype, piece.shape};
    e->pieces[count++] = partitioned_cut(e->inputs[i], parts, &piece);
  }
  if (count == 0) return ls_ok();
  char scope[LS_MAX_FULL_NAME];
  snprintf(scope, sizeof(scope), "%senqueue/replica_%d/",
           ls_name_scope_current(), r);
  snprintf(name, sizeof(name), "input_%d", core);
  LS_NAME_SCOPE(scope);
  ls_nest_builder_append(&e->ops, ls_nest_op(ls_feed_enqueue(
                                      queue->assignment->topology->system, name,
                                      e->pieces, e->types, count, ordinal)));
  return ls_ok();
}

ls_status ls_partitioned_enqueue(ls_infeed_queue *queue, ls_nest shards,
                                 ls_nest *out_ops) {
  const size_t count = ls_nest_count(shards);
  LS_OWN(enqueues, e) = {
      .queue = queue,
      .num_cores =
          ls_device_assignment_num_cores_per_replica(queue->assignment)};
  LS_RETURN_IF_ERROR(begin_enqueues(&e, count));
  for (size_t r = 0; r < count; ++r) {
    LS_RETURN_IF_ERROR(
        ls_infeed_queue_tensors(queue, ls_nest_item(shards, r), e.inputs));
    for (int32_t core = 0; core < e.num_cores; ++core)
      LS_RETURN_IF_ERROR(enqueue(&e, (int32_t)r, core));
  }
  return ls_take_nest(ls_nest_builder_finish(&e.ops, LS_KIND_LIST), out_ops);
}
