// SPDX-License-Identifier: Apache-2.0
//
// Feeds of cores: the enqueue functions of all hosts, in loops if they read
// data sets, and the program's infeed queue.
#include "estimator/input/input.h"

#include <stdio.h>

#include "base/values/nest_internal.h"
#include "data/iterator.h"
#include "estimator/config/config.h"
#include "graph/make/make.h"
#include "tpu/feeds/feed.h"

// A feed being made.
typedef struct making {
  const ls_estimator_calls *calls;
  const ls_plan *plan;
  const ls_input_feed_options *options;
  ls_input_feed feed;
  ls_recorder recorder;
  size_t num_enqueues;
  bool goes_on;  // True if hosts feed padding after the end of their data.
  ls_enqueue *enqueues;
  ls_nest_builder ops, all_ops;
  ls_allocator *allocator;
} making;

static void making_deinit(making *m) {
  for (size_t i = 0; m->enqueues != NULL && i < m->num_enqueues; ++i)
    ls_enqueue_deinit(&m->enqueues[i]);
  ls_release(m->allocator, m->enqueues);
  ls_nest_builder_deinit(&m->ops);
  ls_nest_builder_deinit(&m->all_ops);
  ls_recorder_deinit(&m->recorder);
  ls_input_feed_drop(&m->feed);
}
LS_OWNED_STRUCT(making, making_deinit)

ls_status ls_input_feed_set_loops(bool on) {
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_runtime_lock(runtime);
  ls_estimator_state *state = ls_estimator_state_get(runtime);
  if (state != NULL) state->wraps_input = on;
  ls_runtime_unlock(runtime);
  return state != NULL ? ls_ok() : ls_out_of_memory();
}

static bool wraps_input(void) {
  ls_runtime *runtime = ls_runtime_current();
  ls_runtime_lock(runtime);
  const ls_estimator_state *state = ls_runtime_slot(runtime, LS_SLOT_ESTIMATOR);
  const bool wraps = state != NULL && state->wraps_input;
  ls_runtime_unlock(runtime);
  return wraps;
}

// ---- Hosts -----------------------------------------------------------------
static bool is_own(const making *m, const ls_enqueue *enqueue) {
  return ls_plan_feeder_rank(m->plan, enqueue->options.feeder) ==
         ls_plan_rank(m->plan);
}

static bool has_data(const ls_enqueue *enqueue) {
  return enqueue->source.iterator != NULL;
}

// Appends the ops of `count` enqueue functions. Each rank runs those of its own
// hosts, though the graph has those of all, and all ranks a loop in which they
// agree on the end.
static void append_ops(making *m, const ls_enqueue *enqueues, size_t count,
                       ls_nest ops) {
  bool is_run = m->goes_on;
  for (size_t i = 0; i < count; ++i)
    is_run = is_run || is_own(m, &enqueues[i]);
  if (is_run) ls_append_ops(&m->ops, ops);
  ls_append_ops(&m->all_ops, ops);
}

// Builds one loop for `count` enqueue functions, on the first one's host.
static ls_status build_loop(making *m, ls_enqueue *enqueues, size_t count) {
  ls_tensor last;
  LS_NAME_SCOPE(enqueues->names);
  LS_DEVICE_SCOPE(enqueues->place.text);
  LS_RETURN_IF_ERROR(ls_enqueue_loop(enqueues, count, &last));
  LS_OWN(ls_nest, ops) = LS_LIST(ls_nest_op(ls_tensor_op(last)));
  append_ops(m, enqueues, count, ops);
  return ls_ok();
}

// Builds the ops of one enqueue function without a loop.
static ls_status build_ops(making *m, ls_enqueue *enqueue) {
  LS_OWN(ls_nest, ops) = ls_none();
  LS_OWN(ls_nest, signals) = ls_none();
  LS_NAME_SCOPE(enqueue->names);
  LS_DEVICE_SCOPE(enqueue->place.text);
  LS_RETURN_IF_ERROR(ls_enqueue_build(enqueue, &ops, &signals));
  append_ops(m, enqueue, 1, ops);
  return ls_ok();
}

static ls_status make_enqueue(making *m, size_t index) {
  const int64_t feeder = (int64_t)index;
  const ls_enqueue_options options = {.calls = m->calls,
                                      .feed = m->options,
                                      .recorder = &m->recorder,
                                      .feeder = feeder,
                                      .goes_on = m->goes_on};
  char name[48];
  snprintf(name, sizeof(name), "input_pipeline_task%lld",
           (long long)ls_plan_feeder_host(m->plan, feeder));
  LS_NAME_SCOPE(m->plan->input.broadcast ? NULL : name);
  return ls_enqueue_init(&m->enqueues[index], &options);
}

// Checks that all hosts have data sets or no host has: a run of the ops then
// feeds a loop's steps, or one step.
static ls_status check_alike(const making *m) {
  for (size_t i = 1; i < m->num_enqueues; ++i)
    if (has_data(&m->enqueues[i]) != has_data(&m->enqueues[0]))
      return ls_invalid_argument("input_fn returns a Dataset for one host, and "
                                 "none for another: return one for all");
  return ls_ok();
}

// Builds one loop for all hosts with data sets. Plain values never end, so that
// their hosts need no loop.
static ls_status build_all(making *m) {
  if (has_data(&m->enqueues[0]))
    return build_loop(m, m->enqueues, m->num_enqueues);
  m->feed.each_step = !wraps_input();
  for (size_t i = 0; i < m->num_enqueues; ++i)
    LS_RETURN_IF_ERROR(m->feed.each_step ? build_ops(m, &m->enqueues[i])
                                         : build_loop(m, &m->enqueues[i], 1));
  return ls_ok();
}

static ls_status make_all(making *m) {
  m->num_enqueues = (size_t)m->plan->input.num_feeders;
  m->goes_on = m->num_enqueues > 1 && m->options->any_batch &&
               m->plan->input.way != LS_FEED_CORES &&
               m->plan->mode != LS_MODE_PREDICT;
  LS_SET_ARRAY_OR_RETURN(m->allocator, ls_enqueue, m->enqueues,
                         m->num_enqueues);
  for (size_t i = 0; i < m->num_enqueues; ++i)
    LS_RETURN_IF_ERROR(make_enqueue(m, i));
  LS_RETURN_IF_ERROR(check_alike(m));
  return build_all(m);
}

// ---- Common parts ----------------------------------------------------------
static ls_status take_iterators(making *m) {
  ls_input_feed *feed = &m->feed;
  size_t num_own = 0;
  LS_OWN_ARRAY_OR_RETURN(m->allocator, ls_iterator *, own, m->num_enqueues);
  feed->iterators = ls_new_array(m->allocator, ls_iterator *, m->num_enqueues);
  feed->ranks = ls_new_array(m->allocator, int32_t, m->num_enqueues);
  LS_RETURN_IF_NO_MEMORY(feed->iterators != NULL && feed->ranks != NULL);
  for (size_t i = 0; i < m->num_enqueues; ++i) {
    ls_iterator *iterator = m->enqueues[i].source.iterator;
    if (iterator == NULL) continue;
    if (is_own(m, &m->enqueues[i])) own[num_own++] = iterator;
    iterator->is_elsewhere = !is_own(m, &m->enqueues[i]);
    feed->ranks[feed->num_iterators] =
        ls_plan_feeder_rank(m->plan, m->enqueues[i].options.feeder);
    feed->iterators[feed->num_iterators++] = ls_iterator_retain(iterator);
  }
  return feed->num_iterators == 0 ? ls_ok()
                                  : ls_begin_hook(own, num_own, &feed->hook);
}

// Returns the type of element `i` for one replica.
static ls_status shard_type(const ls_infeed_queue *queue, size_t i,
                            ls_type *out_type) {
  *out_type = ls_infeed_queue_type(queue, i);
  return ls_sharding_policy_shard_shape(ls_infeed_queue_policy(queue, i),
                                        out_type->shape, (ls_opt){0},
                                        &out_type->shape);
}

static ls_status check_queues(const making *m) {
  const ls_infeed_queue *first = m->enqueues[0].queue;
  const size_t count = ls_infeed_queue_num_elements(first);
  for (size_t h = 1; h < m->num_enqueues; ++h) {
    const ls_infeed_queue *other = m->enqueues[h].queue;
    for (size_t i = 0; i < count; ++i) {
      ls_type a, b;
      LS_RETURN_IF_ERROR(shard_type(first, i, &a));
      LS_RETURN_IF_ERROR(shard_type(other, i, &b));
      if (a.dtype == b.dtype && ls_shape_equal(a.shape, b.shape)) continue;
      return ls_invalid_argument(
          "element %zu of input_fn is %s for a replica of the first host, and "
          "%s on host %lld: all hosts must feed the same types",
          i, LS_SHAPE_TEXT(a.dtype, a.shape), LS_SHAPE_TEXT(b.dtype, b.shape),
          (long long)m->enqueues[h].host);
    }
  }
  return ls_ok();
}

// Sets the queue's types for all replicas, from the first host's elements.
static ls_status fill_queue(const making *m, int64_t replicas,
                            ls_infeed_queue *queue) {
  const ls_infeed_queue *first = m->enqueues[0].queue;
  const size_t count = ls_infeed_queue_num_elements(first);
  LS_OWN_ARRAY_OR_RETURN(m->allocator, ls_dtype, dtypes, count);
  LS_OWN_ARRAY_OR_RETURN(m->allocator, ls_shape, shapes, count);
  LS_OWN_ARRAY_OR_RETURN(m->allocator, int64_t, axes, count);
  for (size_t i = 0; i < count; ++i) {
    ls_type type;
    LS_RETURN_IF_ERROR(shard_type(first, i, &type));
    axes[i] = ls_infeed_queue_dimension(first, i).value;
    if (axes[i] < type.shape.rank && replicas > 1)
      type.shape.dim[axes[i]] *= replicas;
    dtypes[i] = type.dtype;
    shapes[i] = type.shape;
  }
  LS_RETURN_IF_ERROR(ls_infeed_queue_set_types(queue, dtypes, count));
  LS_RETURN_IF_ERROR(ls_infeed_queue_set_dimensions(queue, axes, count));
  LS_RETURN_IF_ERROR(ls_infeed_queue_set_shapes(queue, shapes, count));
  return ls_infeed_queue_set_num_shards(queue, replicas);
}

// ---- Closing ---------------------------------------------------------------
static ls_status make_closes(making *m) {
  const ls_plan_system *system = m->plan->system;
  LS_OWN(ls_nest_builder, ops) = {0};
  for (int64_t i = 0; i < system->num_cores; ++i) {
    const ls_device_name host =
        ls_plan_host(m->plan, i / system->cores_per_host);
    LS_DEVICE_SCOPE(host.text);
    const ls_op close = ls_infeed_close(i % system->cores_per_host);
    // Another rank's close comes with its tuples.
    if (ls_plan_ranks(m->plan) == NULL ||
        ls_plan_fed_from(m->plan, i) == ls_plan_rank(m->plan))
      ls_nest_builder_append(&ops, ls_nest_op(close));
  }
  return ls_take_nest(ls_nest_builder_finish(&ops, LS_KIND_LIST),
                      &m->feed.close_ops);
}

// Refuses queue runners, because no thread would run them here.
static ls_status check_runners(void) {
  static const char *const text =
      "input_fn has added to the graph's QueueRunners (collection "
      "'queue_runners'), which feed nothing on TPUs: use a data set";
  ls_nest first;
  if (ls_graph_collection(ls_graph_current(), "queue_runners", &first, 1) == 0)
    return ls_ok();
  if (wraps_input()) return ls_failed_precondition("%s", text);
  ls_runtime_log(ls_runtime_current(), LS_LOG_WARNING, "estimator", "%s", text);
  return ls_ok();
}

static ls_status input_feed_make(making *m) {
  ls_input_feed *feed = &m->feed;
  LS_PLAN_SYSTEM_SCOPE(m->plan);
  LS_RETURN_IF_ERROR(make_all(m));
  LS_RETURN_IF_ERROR(check_runners());
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_nest_builder_finish(&m->ops, LS_KIND_LIST), &feed->ops));
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_nest_builder_finish(&m->all_ops, LS_KIND_LIST), &feed->all_ops));
  LS_RETURN_IF_ERROR(take_iterators(m));
  ls_infeed_queue **queue = &m->feed.queue;
  LS_RETURN_IF_ERROR(check_queues(m));
  LS_RETURN_IF_ERROR(ls_enqueue_make_queue(&m->enqueues[0], queue));
  LS_RETURN_IF_ERROR(fill_queue(m, m->plan->system->num_replicas, *queue));
  (*queue)->enqueue_system = ls_object_retain(ls_system_around());
  LS_RETURN_IF_ERROR(make_closes(m));
  feed->structure = ls_nest_retain(m->recorder.structure);
  return ls_graph_error(ls_graph_current());
}

ls_status ls_input_feed_make(const ls_estimator_calls *calls,
                             const ls_input_feed_options *options,
                             ls_input_feed *out_feed) {
  static const ls_input_feed_options defaults = {0};
  *out_feed = (ls_input_feed){0};
  LS_OWN(making, m) = {
      .calls = calls,
      .plan = calls->plan,
      .options = options != NULL ? options : &defaults,
      .recorder =
          ls_recorder_begin(ls_plan_tpu(calls->plan)->input_partition_dims),
      .allocator = ls_current_allocator(),
  };
  LS_RETURN_IF_ERROR(input_feed_make(&m));
  return ls_hand_over(&m.feed, out_feed);
}

void ls_input_feed_drop(ls_input_feed *feed) {
  ls_infeed_queue_release(feed->queue);
  ls_nest_release(feed->ops);
  ls_nest_release(feed->all_ops);
  ls_nest_release(feed->close_ops);
  ls_nest_release(feed->structure);
  ls_hook_release(feed->hook);
  for (size_t i = 0; i < feed->num_iterators; ++i)
    ls_iterator_release(feed->iterators[i]);
  if (feed->iterators != NULL)
    ls_release(ls_current_allocator(), feed->iterators);
  if (feed->ranks != NULL) ls_release(ls_current_allocator(), feed->ranks);
  *feed = (ls_input_feed){0};
}
