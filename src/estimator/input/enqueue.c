// SPDX-License-Identifier: Apache-2.0
// Enqueue functions: what all of them share.
#include "estimator/input/enqueue.h"

#include <stdio.h>
#include <string.h>

#include "base/values/nest_internal.h"
#include "estimator/input/batches.h"
#include "lockstep/element_spec.h"

// ---- Places ----------------------------------------------------------------
// Finds the replica that shard `shard` of the host is for, by its first core.
static ls_status find_replica(const ls_enqueue *self, int64_t shard,
                              int64_t *out_replica) {
  const ls_plan_system *system = self->plan->system;
  const int64_t host = self->options.host;
  int64_t found = 0;
  for (int64_t r = 0; r < system->num_replicas; ++r) {
    if (system->replicas[r].host != host) continue;
    *out_replica = r;
    if (found++ == shard) return ls_ok();
  }
  return ls_invalid_argument("shard %lld of host %lld, which has the first "
                             "cores of %lld replicas",
                             (long long)shard, (long long)host,
                             (long long)found);
}

static ls_status find_ordinals(ls_enqueue *self) {
  const ls_opt one = self->options.replica;
  for (int64_t i = 0; i < self->num_replicas; ++i) {
    int64_t replica = one.set ? one.value : i;
    if (self->hosts != NULL)
      self->hosts[i] = ls_plan_replica_host(self->plan, replica);
    else if (!one.set)
      LS_RETURN_IF_ERROR(find_replica(self, i, &replica));
    self->ordinals[i] = self->plan->system->replicas[replica].ordinal;
  }
  return ls_ok();
}

static ls_status find_places(ls_enqueue *self) {
  const bool broadcast = self->plan->input.broadcast;
  const size_t count = (size_t)self->num_replicas;
  self->place = ls_plan_host(self->plan, self->options.host);
  self->ordinals = ls_new_array(self->allocator, int64_t, count + 1);
  if (broadcast)
    self->hosts = ls_new_array(self->allocator, ls_device_name, count + 1);
  if (self->ordinals == NULL || (broadcast && self->hosts == NULL))
    return ls_out_of_memory();
  return find_ordinals(self);
}

// ---- Input -----------------------------------------------------------------
// What the user's makers failed with comes before what we would say of it.
ls_status ls_enqueue_call_input(const ls_enqueue *self, int64_t invocation,
                                ls_nest *out_made) {
  LS_RETURN_IF_ERROR(ls_call_input(
      self->options.calls,
      &(ls_input_place){.host = self->place, .invocation = invocation},
      out_made));
  const ls_status status = ls_graph_error(ls_graph_current());
  if (ls_status_is_ok(status)) return status;
  ls_nest_release(*out_made);
  *out_made = ls_none();
  return status;
}

static bool predicts(const ls_enqueue *self) {
  return self->plan->mode == LS_MODE_PREDICT;
}

// How the elements of one way are read, and how they are cut.
typedef struct enqueue_way {
  ls_status (*read)(ls_enqueue *self);
  bool cuts;        // One is cut over the replicas,
  bool by_axes;     //   along batch_axis.
  bool takes_each;  // Each replica takes one of a data set.
} enqueue_way;

static const enqueue_way *enqueue_way_of(const ls_enqueue *self) {
  static const enqueue_way ways[LS_NUM_FEED_WAYS] = {
      [LS_FEED_CORES] = {.read = ls_enqueue_of_cores},
      [LS_FEED_HOSTS] = {ls_enqueue_to_cut, .cuts = true, .by_axes = true},
      [LS_FEED_REPLICAS] = {ls_enqueue_of_replicas, .takes_each = true},
      [LS_FEED_SLICES] = {ls_enqueue_to_cut, .cuts = true},
      [LS_FEED_ALL] = {.read = ls_enqueue_to_all}};
  return &ways[self->plan->input.way];
}

// What is cut along the first axis is not filled up along another one.
static ls_status check_axes(const ls_enqueue *self) {
  const ls_input_feed_options *options = self->options.feed;
  for (size_t i = 0; i < options->num_batch_axes; ++i)
    if (options->batch_axis[i] != 0)
      return ls_invalid_argument(
          "batch_axis is %lld for tensor %zu, and eval_training_input is "
          "SLICED, which cuts along axis 0: any_batch needs the same axis for "
          "both",
          (long long)options->batch_axis[i], i);
  return ls_ok();
}

static ls_status check_source(const ls_enqueue *self, bool is_dataset) {
  const enqueue_way *way = enqueue_way_of(self);
  if (predicts(self) && !is_dataset)
    return ls_invalid_argument("input_fn must give a Dataset to predict with "
                               "on TPUs");
  if (predicts(self) && way->by_axes && self->options.feed->batch_axis != NULL)
    return ls_invalid_argument("batch_axis is not looked at when predicting: "
                               "leave it unset");
  if (way->takes_each && !is_dataset)
    return ls_invalid_argument("input_fn must give a Dataset with PER_HOST_V2");
  return self->options.feed->any_batch && way->cuts && !way->by_axes
             ? check_axes(self)
             : ls_ok();
}

ls_batch_padding ls_enqueue_padding(const ls_enqueue *self, int64_t parts) {
  return (ls_batch_padding){.parts = parts,
                            .rows = self->model_rows,
                            .axes = self->options.feed->batch_axis,
                            .num_axes = self->options.feed->num_batch_axes};
}

// Elements of the shapes that the program is made for.
static ls_status enqueue_prepare(ls_enqueue *self) {
  ls_feed_source *source = &self->source;
  const enqueue_way *way = enqueue_way_of(self);
  const ls_batch_padding padding =
      ls_enqueue_padding(self, way->cuts ? self->num_replicas : 1);
  const int64_t at_once = way->takes_each ? self->num_replicas : 1;
  if (source->dataset == NULL) return ls_ok();
  ls_dataset *dataset = ls_dataset_retain(source->dataset);
  if (predicts(self))
    return ls_feed_source_become(
        source, LS_SOURCE_SIGNALLED,
        ls_signalled_batches(
            dataset,
            &(ls_signal_options){
                .padding = {.parts = 1, .rows = ls_padding_size(padding)},
                .pads = true,
                .at_once = at_once}));
  if (self->options.feed->any_batch)
    return ls_feed_source_become(
        source, LS_SOURCE_MASKED,
        ls_masked_batches(dataset, padding,
                          self->options.meets ? LS_INFINITE : at_once - 1));
  return ls_feed_source_become(
      source, LS_SOURCE_PLAIN,
      ls_full_batches(dataset, self->rows, self->options.feed->batch_axis,
                      self->options.feed->num_batch_axes));
}

static ls_status make_source(ls_enqueue *self) {
  const ls_opt replica = self->options.replica;
  ls_nest made = ls_none();
  char name[48];
  LS_RETURN_IF_ERROR(ls_enqueue_call_input(
      self, replica.set ? replica.value : self->options.host, &made));
  ls_status status = check_source(self, ls_nest_as_dataset(made) != NULL);
  if (ls_status_is_ok(status)) status = ls_feed_source_of(&self->source, made);
  ls_nest_release(made);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(enqueue_prepare(self));
  snprintf(name, sizeof(name), "input of host %lld",
           (long long)self->options.host);
  const ls_opt seed = self->plan->config->random_seed;
  return ls_feed_source_begin(&self->source, name,
                              seed.set ? (uint64_t)seed.value : 0);
}

// ---- Making ----------------------------------------------------------------
ls_status ls_enqueue_init(ls_enqueue *self, const ls_enqueue_options *options) {
  const char *names = ls_name_scope_current();
  const ls_plan *plan = options->calls->plan;
  *self = (ls_enqueue){.options = *options,
                       .plan = plan,
                       .num_replicas = plan->input.replicas_per_feeder,
                       .rows = plan->input_batch_size.value,
                       .model_rows = plan->model_batch_size.value,
                       .allocator = ls_current_allocator()};
  self->names = ls_copy_text(self->allocator, names, strlen(names));
  if (self->names == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(find_places(self));
  return self->plan->input.way == LS_FEED_CORES ? ls_ok() : make_source(self);
}

static void drop_values(ls_enqueue_values *values) {
  ls_nest_release(values->values);
  ls_nest_release(values->givers);
  ls_nest_release(values->signals);
  ls_nest_release(values->ended);
  *values = (ls_enqueue_values){0};
}

void ls_enqueue_deinit(ls_enqueue *self) {
  drop_values(&self->read);
  ls_feed_source_deinit(&self->source);
  ls_infeed_queue_release(self->queue);
  if (self->allocator == NULL) return;
  ls_release(self->allocator, self->names);
  ls_release(self->allocator, self->ordinals);
  ls_release(self->allocator, self->hosts);
  *self = (ls_enqueue){0};
}

ls_status ls_enqueue_read(ls_enqueue *self) {
  if (self->queue != NULL || self->read.values.kind != LS_KIND_NONE)
    return ls_failed_precondition("InternalError: the ops that feed host %lld "
                                  "are built twice",
                                  (long long)self->options.host);
  return enqueue_way_of(self)->read(self);
}

ls_status ls_enqueue_build(ls_enqueue *self, ls_nest *out_ops,
                           ls_nest *out_signals) {
  *out_ops = *out_signals = ls_none();
  LS_RETURN_IF_ERROR(ls_enqueue_read(self));
  LS_RETURN_IF_ERROR(ls_enqueue_feed(self, out_ops));
  *out_signals = ls_nest_retain(self->read.signals);
  return ls_ok();
}

// ---- Values ----------------------------------------------------------------
// Values of the graph, padded; a data set's elements are already.
static ls_status enqueue_pad(ls_batch_padding padding, ls_feed_element *fed) {
  int64_t count = 0;
  LS_RETURN_IF_ERROR(ls_padding_count(padding, fed->features, &count));
  const size_t leaves = ls_nest_num_leaves(fed->features);
  const ls_feed_element padded = {
      .features = ls_pad_tensors(padding, fed->features, count),
      .labels = ls_pad_tensors(ls_padding_behind(padding, leaves), fed->labels,
                               count),
      .mask = ls_padding_real(padding, count)};
  ls_feed_element_drop(fed);
  *fed = padded;
  return ls_status_join(ls_nest_status(padded.features),
                        ls_status_join(ls_nest_status(padded.labels),
                                       ls_nest_status(padded.mask)));
}

ls_status ls_enqueue_next(ls_enqueue *self, ls_feed_source *source,
                          ls_batch_padding padding, ls_feed_element *out_fed) {
  ls_status status = ls_feed_source_next(source, out_fed);
  if (ls_status_is_ok(status))
    status = ls_feed_source_signals(source, &out_fed->signals);
  if (ls_status_is_ok(status) && self->options.feed->any_batch &&
      source->dataset == NULL)
    status = enqueue_pad(padding, out_fed);
  if (ls_status_is_ok(status))
    status = ls_recorder_note(self->options.recorder, out_fed);
  if (!ls_status_is_ok(status)) ls_feed_element_drop(out_fed);
  return status;
}

// ---- Queues ----------------------------------------------------------------
static int64_t ordinal_of(void *user, int64_t shard) {
  return ((const ls_enqueue *)user)->ordinals[shard];
}

static ls_status enqueue_place_of(void *user, int64_t shard,
                                  ls_device_name *out_name) {
  const ls_enqueue *self = user;
  *out_name = self->hosts != NULL ? self->hosts[shard] : self->place;
  return ls_ok();
}

ls_status ls_enqueue_make_queue(const ls_enqueue *self,
                                ls_infeed_queue **out_queue) {
  const ls_shape *parts = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_recorder_parts(self->options.recorder, &parts, &count));
  const ls_infeed_options options = {.num_elements = LS_SOME((int64_t)count)};
  if (parts == NULL) return ls_infeed_queue_create(&options, out_queue);
  return ls_partitioned_infeed_create(
      &(ls_partitioned_infeed_options){.queue = options,
                                       .assignment =
                                           self->plan->system->assignment,
                                       .host = (int32_t)self->options.host,
                                       .parts = parts,
                                       .num_parts = count},
      out_queue);
}

// A mask, behind what the user gives, has one axis.
static ls_status set_axes(const ls_enqueue *self, ls_infeed_queue *queue) {
  const ls_input_feed_options *options = self->options.feed;
  const size_t count = options->num_batch_axes, all = count + 1;
  if (!options->any_batch)
    return ls_infeed_queue_set_dimensions(queue, options->batch_axis, count);
  if (all != ls_infeed_queue_num_elements(queue))
    return ls_invalid_argument("axes for %zu tensors, where input_fn gives %zu",
                               count, ls_infeed_queue_num_elements(queue) - 1);
  int64_t *axes = ls_new_array(self->allocator, int64_t, all);
  if (axes == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    axes[i] = options->batch_axis[i];
  const ls_status status = ls_infeed_queue_set_dimensions(queue, axes, all);
  ls_release(self->allocator, axes);
  return status;
}

static ls_status enqueue_split(ls_enqueue *self, ls_infeed_queue *queue,
                               ls_nest values, const ls_infeed_places *places,
                               ls_nest *out_ops) {
  if (self->options.feed->batch_axis != NULL && enqueue_way_of(self)->by_axes)
    LS_RETURN_IF_ERROR(ls_status_annotate(set_axes(self, queue), "batch_axis"));
  LS_RETURN_IF_ERROR(ls_infeed_queue_set_num_shards(queue, self->num_replicas));
  return ls_infeed_queue_split_and_enqueue(queue, values, places, out_ops);
}

static ls_status enqueue_put(ls_enqueue *self, ls_nest *out_ops) {
  const ls_nest values = self->read.values;
  const ls_infeed_places places = {.ordinal_of = ordinal_of,
                                   .place_of = enqueue_place_of,
                                   .user = self,
                                   .cores_per_host =
                                       LS_SOME(self->num_replicas)};
  ls_infeed_queue *queue = NULL;
  LS_RETURN_IF_ERROR(ls_enqueue_make_queue(self, &queue));
  const ls_status status =
      self->read.splits
          ? enqueue_split(self, queue, values, &places, out_ops)
          : ls_infeed_queue_enqueue(queue, values, &places, out_ops);
  if (ls_status_is_ok(status))
    self->queue = queue;
  else
    ls_infeed_queue_release(queue);
  return status;
}

// Nobody is fed before all have something.
ls_status ls_enqueue_feed(ls_enqueue *self, ls_nest *out_ops) {
  const ls_nest givers = self->read.givers;
  const size_t count = ls_nest_count(givers);
  *out_ops = ls_none();
  ls_op *ops = ls_new_array(self->allocator, ls_op, count + 1);
  if (ops == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    ops[i] = ls_nest_item(givers, i).as.op;
  ls_status status;
  {
    LS_CONTROL_SCOPE(ops, count);
    status = enqueue_put(self, out_ops);
  }
  ls_release(self->allocator, ops);
  return status;
}

ls_status ls_join_op_lists(const ls_nest *lists, size_t count,
                           ls_nest *out_list) {
  ls_allocator *allocator = ls_current_allocator();
  size_t all = 0;
  for (size_t i = 0; i < count; ++i)
    all += ls_nest_count(lists[i]);
  ls_nest *items = ls_new_array(allocator, ls_nest, all + 1);
  if (items == NULL) return ls_out_of_memory();
  all = 0;
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < ls_nest_count(lists[i]); ++k)
      items[all++] = ls_nest_retain(ls_nest_item(lists[i], k));
  const ls_status status =
      ls_take_nest(ls_nest_sequence(LS_KIND_LIST, items, all), out_list);
  ls_release(allocator, items);
  return status;
}
