// SPDX-License-Identifier: Apache-2.0
// Enqueue functions: put the elements of a source into infeed queues, in one of
// five ways: one call per core, one element cut over a host's replicas or over
// all, one element per replica, or the same element for all.
#include "estimator/input/input.h"

#include <stdio.h>
#include <string.h>

#include "base/values/nest_internal.h"
#include "data/iterator.h"
#include "estimator/spec/calls.h"
#include "lockstep/element_spec.h"
#include "tpu/own.h"

// How a feed way reads elements and distributes them.
typedef struct enqueue_way {
  bool calls_each;  // True if each replica calls the input function.
  // True if each replica takes its own element of the data set.
  bool takes_each;
  bool cuts;     // True if one element is cut over the replicas.
  bool by_axes;  // True if batch_axis tells where to cut.
} enqueue_way;

static const enqueue_way *enqueue_way_of(const ls_enqueue *self) {
  static const enqueue_way ways[LS_NUM_FEED_WAYS] = {
      [LS_FEED_CORES] = {.calls_each = true},
      [LS_FEED_HOSTS] = {.cuts = true, .by_axes = true},
      [LS_FEED_REPLICAS] = {.takes_each = true},
      [LS_FEED_SLICES] = {.cuts = true}};
  return &ways[self->plan->input.way];
}

static bool is_prediction(const ls_enqueue *self) {
  return self->plan->mode == LS_MODE_PREDICT;
}

void ls_append_ops(ls_nest_builder *list, ls_nest ops) {
  for (size_t i = 0; i < ls_nest_count(ops); ++i)
    ls_nest_builder_append(list, ls_nest_retain(ls_nest_item(ops, i)));
}

// ---- Input -----------------------------------------------------------------
static ls_status call_input(const ls_enqueue *self, int64_t invocation,
                            ls_nest *out_value) {
  return ls_call_input(
      self->options.calls,
      &(ls_input_place){.host = self->place, .invocation = invocation},
      out_value);
}

// Checks that batches are cut and padded along the same axis, axis 0.
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
  if (is_prediction(self) && !is_dataset)
    return ls_invalid_argument(
        "input_fn must give a Dataset to predict with on TPUs");
  if (is_prediction(self) && way->by_axes &&
      self->options.feed->batch_axis != NULL)
    return ls_invalid_argument(
        "batch_axis is ignored in predictions: leave it unset");
  if (way->takes_each && !is_dataset)
    return ls_invalid_argument("input_fn must give a Dataset with PER_HOST_V2");
  return self->options.feed->any_batch && way->cuts && !way->by_axes
             ? check_axes(self)
             : ls_ok();
}

// Chooses how batches get the shapes that the program was compiled for.
static ls_even_options choose_even(const ls_enqueue *self) {
  const enqueue_way *way = enqueue_way_of(self);
  const ls_input_feed_options *feed = self->options.feed;
  const int64_t parts = way->cuts ? self->num_replicas : 1;
  const int64_t rows = self->plan->model_batch_size.value;
  ls_even_options even = {.rule = LS_END_MASKED,
                          .shares = {.parts = parts,
                                     .room = rows,
                                     .axes = feed->batch_axis,
                                     .num_axes = feed->num_batch_axes},
                          .at_once = way->takes_each ? self->num_replicas : 1,
                          .goes_on = self->options.goes_on};
  if (is_prediction(self)) {
    even.rule = LS_END_SIGNALLED;
    even.shares = (ls_row_shares){.parts = 1, .room = parts * rows};
    even.pads = true;
  } else if (!feed->any_batch) {
    even.rule = LS_END_DROPPED;
    even.shares.parts = 1;
    even.shares.room = self->plan->input_batch_size.value;
  }
  return even;
}

// Checks that shapes are static. An iterator would refuse other shapes, too,
// but could not tell features from labels.
static ls_status check_static(const ls_feed_source *source) {
  LS_OWN(ls_feed_element, specs) = {0};
  if (source->dataset == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_feed_source_specs(source, &specs));
  return ls_returned_check_static(specs.features, specs.labels);
}

static ls_status make_source(ls_enqueue *self) {
  LS_OWN(ls_nest, value) = ls_none();
  const ls_even_options even = choose_even(self);
  const ls_opt seed = self->plan->config->random_seed;
  char name[48];
  LS_RETURN_IF_ERROR(call_input(self, self->options.feeder, &value));
  LS_RETURN_IF_ERROR(check_source(self, ls_nest_as_dataset(value) != NULL));
  LS_RETURN_IF_ERROR(ls_feed_source_of(&self->source, value));
  LS_RETURN_IF_ERROR(ls_feed_source_make_even(&self->source, &even));
  LS_RETURN_IF_ERROR(check_static(&self->source));
  snprintf(name, sizeof(name), "input of host %lld", (long long)self->host);
  return ls_feed_source_begin(&self->source, name,
                              seed.set ? (uint64_t)seed.value : 0);
}

// ---- Making ----------------------------------------------------------------
static ls_status check_replicas(const ls_enqueue *self) {
  int64_t count = 0;
  while (count < self->num_replicas &&
         ls_plan_fed_replica(self->plan, self->options.feeder, count) >= 0)
    ++count;
  return count == self->num_replicas
             ? ls_ok()
             : ls_invalid_argument("shard %lld of host %lld, which has the "
                                   "first cores of %lld replicas",
                                   (long long)count, (long long)self->host,
                                   (long long)count);
}

ls_status ls_enqueue_init(ls_enqueue *self, const ls_enqueue_options *options) {
  const char *names = ls_name_scope_current();
  const ls_plan *plan = options->calls->plan;
  const int64_t host = ls_plan_feeder_host(plan, options->feeder);
  *self = (ls_enqueue){.options = *options,
                       .plan = plan,
                       .host = host,
                       .place = ls_plan_host(plan, host),
                       .num_replicas = plan->input.replicas_per_feeder,
                       .allocator = ls_current_allocator()};
  LS_RETURN_IF_ERROR(ls_keep_text(self->allocator, names, &self->names));
  LS_RETURN_IF_ERROR(check_replicas(self));
  return enqueue_way_of(self)->calls_each ? ls_ok() : make_source(self);
}

void ls_enqueue_deinit(ls_enqueue *self) {
  ls_nest_release(self->read.values);
  ls_nest_release(self->read.signals);
  ls_nest_release(self->read.ended);
  ls_feed_source_deinit(&self->source);
  ls_infeed_queue_release(self->queue);
  if (self->allocator == NULL) return;
  ls_release(self->allocator, self->read.givers);
  ls_release(self->allocator, self->names);
  *self = (ls_enqueue){0};
}

// ---- Reading ---------------------------------------------------------------
// Values collected while reading: elements, and bool scalars `ended`.
typedef struct reading {
  ls_nest_builder elements, ended;
} reading;

static void reading_deinit(reading *self) {
  ls_nest_builder_deinit(&self->elements);
  ls_nest_builder_deinit(&self->ended);
}
LS_OWNED_STRUCT(reading, reading_deinit)

// Makes a replica stop when the first one stops: replaces its stop signal by
// the first replica's.
static ls_status share_stopping(ls_feed_element *fed, ls_nest first) {
  static const char *const keys[] = {LS_SIGNAL_STOPPING, LS_SIGNAL_PADDING};
  if (fed->signals.kind == LS_KIND_NONE || first.kind == LS_KIND_NONE)
    return ls_ok();
  const ls_nest mask = ls_nest_find(fed->signals, LS_SIGNAL_PADDING);
  const ls_nest items[] = {
      ls_nest_retain(ls_nest_find(first, LS_SIGNAL_STOPPING)),
      ls_nest_retain(mask)};
  return ls_nest_give(
      ls_nest_dict("", keys, items, mask.kind == LS_KIND_NONE ? 1 : 2),
      &fed->signals);
}

// Reads the next element of a source, as a list of tensors.
static ls_status read_element(ls_enqueue *self, ls_feed_source *source,
                              reading *r, ls_nest *out_list) {
  LS_OWN(ls_feed_element, fed) = {0};
  ls_nest *signals = &self->read.signals;
  ls_recorder *recorder = self->options.recorder;
  LS_RETURN_IF_ERROR(ls_feed_source_next(source, &fed));
  LS_RETURN_IF_ERROR(ls_feed_source_signals(source, &fed.signals));
  if (fed.ended.kind != LS_KIND_NONE)
    ls_nest_builder_append(&r->ended, ls_give(&fed.ended));
  LS_RETURN_IF_ERROR(share_stopping(&fed, *signals));
  LS_RETURN_IF_ERROR(ls_recorder_note(recorder, &fed));
  LS_RETURN_IF_ERROR(ls_recorder_flatten(recorder, &fed, out_list));
  if (signals->kind == LS_KIND_NONE) *signals = ls_nest_retain(fed.signals);
  return ls_ok();
}

static ls_status read_core(ls_enqueue *self, int64_t core, reading *r,
                           ls_nest *out_list) {
  LS_OWN(ls_nest, value) = ls_none();
  LS_OWN(ls_feed_source, source) = {0};
  const ls_even_options even = choose_even(self);
  char name[40];
  snprintf(name, sizeof(name), "ordinal_%lld", (long long)core);
  LS_NAME_SCOPE(name);
  LS_RETURN_IF_ERROR(
      call_input(self, self->host * self->num_replicas + core, &value));
  if (ls_nest_as_dataset(value) != NULL)
    return ls_invalid_argument(
        "input_fn returns a Dataset, and is called for each core: "
        "TPUConfig.per_host_input_for_training must be PER_HOST_V1 or "
        "PER_HOST_V2 for it");
  LS_RETURN_IF_ERROR(ls_feed_source_of(&source, value));
  LS_RETURN_IF_ERROR(ls_feed_source_make_even(&source, &even));
  return read_element(self, &source, r, out_list);
}

// Reads a replica's element after those of earlier replicas, so that the
// elements' order is that of the replicas.
static ls_status read_replica(ls_enqueue *self, size_t replica, reading *r,
                              ls_nest *out_list) {
  ls_enqueue_values *read = &self->read;
  const bool in_order =
      ls_plan_tpu(self->plan)->parallel_get_next != LS_FLAG_ON;
  LS_CONTROL_SCOPE(read->givers, in_order ? replica : 0);
  LS_RETURN_IF_ERROR(read_element(self, &self->source, r, out_list));
  const ls_nest first = ls_nest_item(*out_list, 0);
  if (first.kind == LS_KIND_TENSOR)
    read->givers[replica] = ls_tensor_op(first.as.tensor);
  return ls_ok();
}

static ls_status read_each(ls_enqueue *self, reading *r) {
  const bool takes_each = enqueue_way_of(self)->takes_each;
  const size_t count = (size_t)self->num_replicas;
  LS_SET_ARRAY_OR_RETURN(self->allocator, ls_op, self->read.givers, count);
  // Takes the ops off the iterator's count, so that the iterator does not warn
  // of many ops.
  if (takes_each) self->source.iterator->num_ops -= (int)count;
  for (size_t i = 0; i < count; ++i) {
    ls_nest list = ls_none();
    LS_RETURN_IF_ERROR(takes_each ? read_replica(self, i, r, &list)
                                  : read_core(self, (int64_t)i, r, &list));
    ls_nest_builder_append(&r->elements, list);
  }
  if (takes_each) self->read.num_givers = count;
  return ls_take_nest(ls_nest_builder_finish(&r->elements, LS_KIND_LIST),
                      &self->read.values);
}

// Reads one element that is cut over the replicas or given to all.
static ls_status read_one(ls_enqueue *self, reading *r) {
  LS_OWN(ls_nest, list) = ls_none();
  LS_RETURN_IF_ERROR(read_element(self, &self->source, r, &list));
  if (enqueue_way_of(self)->cuts) {
    return ls_hand_over(&list, &self->read.values);
  }
  for (int64_t i = 0; i < self->num_replicas; ++i)
    ls_nest_builder_append(&r->elements, ls_nest_retain(list));
  return ls_take_nest(ls_nest_builder_finish(&r->elements, LS_KIND_LIST),
                      &self->read.values);
}

ls_status ls_enqueue_read(ls_enqueue *self) {
  const enqueue_way *way = enqueue_way_of(self);
  LS_OWN(reading, r) = {0};
  if (self->queue != NULL || self->read.values.kind != LS_KIND_NONE)
    return ls_failed_precondition(
        "InternalError: the ops that feed host %lld are built twice",
        (long long)self->host);
  LS_RETURN_IF_ERROR(way->takes_each || way->calls_each ? read_each(self, &r)
                                                        : read_one(self, &r));
  return ls_take_nest(ls_nest_builder_finish(&r.ended, LS_KIND_LIST),
                      &self->read.ended);
}

// ---- Queues ----------------------------------------------------------------
static int64_t find_ordinal(void *user, int64_t shard) {
  const ls_enqueue *self = user;
  const int64_t replica =
      ls_plan_fed_replica(self->plan, self->options.feeder, shard);
  return self->plan->system->replicas[replica].ordinal;
}

static ls_status find_place(void *user, int64_t shard,
                            ls_device_name *out_name) {
  const ls_enqueue *self = user;
  *out_name = self->plan->input.broadcast
                  ? ls_plan_replica_host(self->plan, shard)
                  : self->place;
  return ls_ok();
}

ls_status ls_enqueue_make_queue(const ls_enqueue *self,
                                ls_infeed_queue **out_queue) {
  const ls_shape *parts = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_recorder_parts(self->options.recorder, &parts, &count));
  const ls_infeed_options options = {.num_elements = LS_SOME((int64_t)count)};
  const bool is_one = self->plan->input.per_replica;
  if (parts == NULL) return ls_infeed_queue_create(&options, out_queue);
  return ls_partitioned_infeed_create(
      &(ls_partitioned_infeed_options){
          .queue = options,
          .assignment = self->plan->system->assignment,
          .host = (int32_t)self->host,
          .parts = parts,
          .num_parts = count,
          .replica = {.set = is_one, .value = self->options.feeder}},
      out_queue);
}

// Sets the axis along which each element is cut. With any_batch the last
// element is the mask, whose axis is 0.
static ls_status set_axes(const ls_enqueue *self, ls_infeed_queue *queue) {
  const ls_input_feed_options *options = self->options.feed;
  const size_t count = options->num_batch_axes, all = count + 1;
  if (!options->any_batch)
    return ls_infeed_queue_set_dimensions(queue, options->batch_axis, count);
  if (all != ls_infeed_queue_num_elements(queue))
    return ls_invalid_argument("axes for %zu tensors, but input_fn returns %zu",
                               count, ls_infeed_queue_num_elements(queue) - 1);
  LS_OWN_ARRAY_OR_RETURN(self->allocator, int64_t, axes, all);
  memcpy(axes, options->batch_axis, count * sizeof(*axes));
  return ls_infeed_queue_set_dimensions(queue, axes, all);
}

static ls_status enqueue_split(ls_enqueue *self, ls_infeed_queue *queue,
                               const ls_infeed_places *places,
                               ls_nest *out_ops) {
  if (self->options.feed->batch_axis != NULL && enqueue_way_of(self)->by_axes)
    LS_RETURN_IF_ERROR(ls_status_annotate(set_axes(self, queue), "batch_axis"));
  LS_RETURN_IF_ERROR(ls_infeed_queue_set_num_shards(queue, self->num_replicas));
  return ls_infeed_queue_split_and_enqueue(queue, self->read.values, places,
                                           out_ops);
}

// Feeds the replicas, after all their elements were read.
ls_status ls_enqueue_feed(ls_enqueue *self, ls_nest *out_ops) {
  const ls_infeed_places places = {.ordinal_of = find_ordinal,
                                   .place_of = find_place,
                                   .user = self,
                                   .cores_per_host =
                                       LS_SOME(self->num_replicas)};
  LS_OWN(ls_infeed_queue, queue) = NULL;
  *out_ops = ls_none();
  // An empty list of ops: a control scope of NULL would leave the outer scopes.
  const ls_op none = {0};
  LS_CONTROL_SCOPE(self->read.num_givers > 0 ? self->read.givers : &none,
                   self->read.num_givers);
  LS_RETURN_IF_ERROR(ls_enqueue_make_queue(self, &queue));
  LS_RETURN_IF_ERROR(enqueue_way_of(self)->cuts
                         ? enqueue_split(self, queue, &places, out_ops)
                         : ls_infeed_queue_enqueue(queue, self->read.values,
                                                   &places, out_ops));
  return ls_hand_over(&queue, &self->queue);
}

ls_status ls_enqueue_build(ls_enqueue *self, ls_nest *out_ops,
                           ls_nest *out_signals) {
  *out_ops = *out_signals = ls_none();
  LS_RETURN_IF_ERROR(ls_enqueue_read(self));
  LS_RETURN_IF_ERROR(ls_enqueue_feed(self, out_ops));
  *out_signals = ls_nest_retain(self->read.signals);
  return ls_ok();
}
