// SPDX-License-Identifier: Apache-2.0
// Sources of the elements that a host feeds to its replicas, and data sets that
// cut batches of any size to one size.
#include <string.h>

#include "base/runtime_internal.h"
#include "data/dataset.h"
#include "distribute/input/feed.h"
#include "lockstep/element_spec.h"
#include "lockstep/streams.h"

// State of the functions that make batches equal in size.
typedef struct evening {
  ls_allocator *allocator;
  ls_even_options options;
  bool stops;       // SIGNALLED: true for elements after the end.
  bool was_logged;  // DROPPED: true once a dropped batch was logged. Atomic.
  ls_nest padding;  // MASKED: an element of padding, or none.
  int64_t axes[];
} evening;

static void release_evening(void *user) {
  evening *self = user;
  ls_nest_release(self->padding);
  ls_release(self->allocator, self);
}

// Makes the state; NULL without memory.
static evening *make_evening(const ls_even_options *options) {
  ls_allocator *allocator = ls_current_allocator();
  const ls_row_shares *shares = &options->shares;
  const size_t num_bytes = shares->num_axes * sizeof(*shares->axes);
  evening *self = ls_allocate(allocator, sizeof(evening) + num_bytes);
  if (self == NULL) return NULL;
  *self = (evening){.allocator = allocator, .options = *options};
  if (num_bytes > 0) memcpy(self->axes, shares->axes, num_bytes);
  self->options.shares.axes = self->axes;
  return self;
}

// ---- Full batches -----------------------------------------------------------
static void log_left_out(int64_t count, int64_t rows) {
  ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "distribute",
                 "a last batch of %lld examples is left out: steps take %lld "
                 "(any_batch would pad it)",
                 (long long)count, (long long)rows);
}

static ls_status check_full(evening *self, size_t leaf, ls_nest value,
                            bool *out_is_full) {
  const ls_row_shares *shares = &self->options.shares;
  const int64_t room = ls_shares_room(shares);
  const ls_array *array = ls_nest_as_array(value);
  const int axis = ls_shares_axis(shares, leaf);
  if (array == NULL || !ls_has_axis(ls_array_shape(array), axis))
    return ls_ok();
  const int64_t rows = ls_array_shape(array).dim[axis];
  if (rows > room)
    return ls_invalid_argument(
        "The real batch size should not be greater than batch_size: leaf %zu "
        "has %lld examples, a batch %lld",
        leaf, (long long)rows, (long long)room);
  *out_is_full = rows == room;
  if (!*out_is_full &&
      !__atomic_exchange_n(&self->was_logged, true, __ATOMIC_RELAXED))
    log_left_out(rows, room);
  return ls_ok();
}

static ls_status keep_full(ls_nest element, const ls_map_call *call, void *user,
                           bool *out_keep) {
  evening *self = user;
  (void)call;
  *out_keep = true;
  const size_t count = ls_nest_num_leaves(element);
  LS_OWN_ARRAY_OR_RETURN(self->allocator, ls_nest, leaves, count + 1);
  ls_nest_flatten(element, leaves, count);
  for (size_t i = 0; i < count && *out_keep; ++i)
    LS_RETURN_IF_ERROR(check_full(self, i, leaves[i], out_keep));
  return ls_ok();
}

static ls_nest keep_element(ls_nest element, const ls_map_call *call,
                            void *user) {
  (void)call, (void)user;
  return ls_nest_retain(element);
}

// Makes the specs of full batches; `*out_same` is true if the elements have
// these specs already.
static ls_nest full_specs(const ls_dataset *dataset,
                          const ls_row_shares *shares, bool *out_same) {
  const size_t count = dataset->num_leaves;
  LS_OWN_ARRAY(dataset->allocator, ls_nest, leaves, count + 1);
  *out_same = leaves != NULL;
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i) {
    ls_leaf_spec spec = dataset->leaves[i];
    const int axis = ls_shares_axis(shares, i);
    if (ls_has_axis(spec.type.shape, axis) &&
        spec.type.shape.dim[axis] == LS_UNKNOWN_DIM) {
      spec.type.shape.dim[axis] = ls_shares_room(shares);
      *out_same = false;
    }
    leaves[i] = ls_nest_spec_of(&spec);
  }
  return ls_nest_pack(dataset->structure, leaves, count);
}

// Removes a last batch that is not full, if the batches' sizes are known
// without reading; `*out_known` is true then.
static ls_dataset *take_full(ls_dataset *dataset, const ls_row_shares *shares,
                             bool *out_known) {
  const ls_dataset_class *kind = dataset->kind;
  const int64_t room = ls_shares_room(shares);
  *out_known = dataset->indexed && dataset->size > 0 && kind->measure != NULL &&
               dataset->num_leaves > 0 && shares->num_axes == 0;
  if (!*out_known) return dataset;
  LS_OWN_ARRAY(dataset->allocator, ls_type, types, dataset->num_leaves);
  if (types == NULL) return ls_dataset_fail(dataset, ls_out_of_memory());
  kind->measure(dataset, 0, types);
  const int64_t first = types[0].shape.dim[0];
  kind->measure(dataset, dataset->size - 1, types);
  const int64_t last = types[0].shape.dim[0];
  *out_known = first == room || (dataset->size == 1 && first < room);
  if (!*out_known || last == room) return dataset;
  log_left_out(last, room);
  return ls_dataset_take(dataset, dataset->size - 1);
}

static ls_dataset *filter_full(ls_dataset *dataset,
                               const ls_even_options *options) {
  evening *self = make_evening(options);
  if (self == NULL) return ls_dataset_fail(dataset, ls_out_of_memory());
  return ls_dataset_filter(dataset,
                           &(ls_filter_options){.name = "full_batches",
                                                .call = keep_full,
                                                .user = self,
                                                .release = release_evening});
}

static ls_dataset *full_batches(ls_dataset *dataset,
                                const ls_even_options *options) {
  bool is_same = false, is_known = false;
  const ls_nest specs = full_specs(dataset, &options->shares, &is_same);
  if (is_same) {
    ls_nest_release(specs);
    return dataset;
  }
  dataset = take_full(dataset, &options->shares, &is_known);
  if (!is_known) dataset = filter_full(dataset, options);
  return ls_dataset_map(dataset, &(ls_map_options){.name = "full_batches",
                                                   .call = keep_element,
                                                   .result = specs});
}

// ---- Padded batches ---------------------------------------------------------
static ls_nest make_signals(const evening *self, int64_t count) {
  static const char *const keys[] = {LS_SIGNAL_STOPPING, LS_SIGNAL_PADDING};
  const ls_even_options *options = &self->options;
  const int64_t room = ls_shares_room(&options->shares);
  const bool hides = self->stops && options->at_once > 1;
  const ls_nest stopping = ls_nest_zeros(LS_DTYPE_BOOL, LS_SHAPE(room, 1));
  if (!ls_nest_is_failed(stopping))
    memset(ls_nest_data(stopping, 0), self->stops, (size_t)room);
  const ls_nest items[] = {stopping, options->pads
                                         ? ls_shares_mask(&options->shares,
                                                          hides ? 0 : count,
                                                          LS_DTYPE_I32, false)
                                         : ls_none()};
  return ls_nest_dict("", keys, items, options->pads ? 2 : 1);
}

static bool pads_rows(const ls_even_options *options) {
  return options->rule == LS_END_MASKED || options->pads;
}

// Pads features and labels, if the rule demands it; `count` -1: they are specs.
static ls_status pad_element(const evening *self, ls_nest features,
                             ls_nest labels, int64_t count,
                             ls_feed_element *out_fed) {
  if (pads_rows(&self->options))
    return ls_features_pad(&self->options.shares, features, labels, count,
                           out_fed);
  out_fed->features = ls_nest_retain(features);
  out_fed->labels = ls_nest_retain(labels);
  return ls_ok();
}

static ls_status make_even(const evening *self, ls_nest element,
                           ls_feed_element *out_fed) {
  const ls_even_options *options = &self->options;
  const ls_row_shares *shares = &options->shares;
  ls_nest features, labels;
  int64_t count = 0;
  LS_RETURN_IF_ERROR(ls_features_split(element, &features, &labels));
  if (pads_rows(options))
    LS_RETURN_IF_ERROR(ls_shares_count(shares, features, &count));
  LS_RETURN_IF_ERROR(pad_element(self, features, labels, count, out_fed));
  if (options->rule == LS_END_SIGNALLED)
    return ls_take_nest(make_signals(self, count), &out_fed->signals);
  if (options->goes_on)
    LS_RETURN_IF_ERROR(
        ls_take_nest(ls_nest_zeros(LS_DTYPE_BOOL, LS_SCALAR), &out_fed->ended));
  return ls_take_nest(ls_shares_mask(shares, count, LS_DTYPE_F32, true),
                      &out_fed->mask);
}

static ls_nest even_element(ls_nest element, const ls_map_call *call,
                            void *user) {
  LS_OWN(ls_feed_element, fed) = {0};
  (void)call;
  LS_RETURN_FAILED_IF_ERROR(make_even(user, element, &fed));
  return ls_feed_element_dict(&fed);
}

static ls_status make_specs(const evening *self, ls_nest specs,
                            ls_feed_element *out_fed) {
  const ls_even_options *options = &self->options;
  const int64_t room = ls_shares_room(&options->shares);
  ls_nest features, labels;
  LS_RETURN_IF_ERROR(ls_features_split(specs, &features, &labels));
  if (pads_rows(options) && ls_nest_num_leaves(features) == 0)
    return ls_invalid_argument("Cannot find any Tensor in the features, whose "
                               "first dimension would be the batch size");
  LS_RETURN_IF_ERROR(pad_element(self, features, labels, -1, out_fed));
  if (options->rule == LS_END_SIGNALLED) {
    LS_OWN(ls_nest, signals) = make_signals(self, 0);
    LS_RETURN_IF_ERROR(ls_nest_status(signals));
    return ls_take_nest(ls_spec_of_element(signals), &out_fed->signals);
  }
  out_fed->mask = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(room));
  if (options->goes_on) out_fed->ended = ls_nest_spec(LS_DTYPE_BOOL, LS_SCALAR);
  return ls_nest_status(out_fed->mask);
}

// Makes the specs of the elements of equal size.
static ls_nest even_specs(const evening *self, const ls_dataset *dataset) {
  LS_OWN(ls_feed_element, fed) = {0};
  LS_OWN(ls_nest, specs) = ls_dataset_spec_nest(dataset);
  LS_RETURN_FAILED_IF_ERROR(ls_nest_status(specs));
  LS_RETURN_FAILED_IF_ERROR(make_specs(self, specs, &fed));
  return ls_feed_element_dict(&fed);
}

static ls_dataset *map_even(ls_dataset *dataset, const ls_even_options *options,
                            bool stops) {
  if (dataset == NULL || !ls_status_is_ok(dataset->failure)) return dataset;
  evening *self = make_evening(options);
  if (self == NULL) return ls_dataset_fail(dataset, ls_out_of_memory());
  self->stops = stops;
  const char *name = options->rule == LS_END_MASKED ? "mask_batches"
                     : stops                        ? "stop"
                                                    : "go_on";
  const ls_nest specs = even_specs(self, dataset);
  return ls_dataset_map(dataset, &(ls_map_options){.name = name,
                                                   .call = even_element,
                                                   .user = self,
                                                   .release = release_evening,
                                                   .result = specs});
}

// ---- After the end ----------------------------------------------------------
static ls_nest zeros_of(ls_nest leaf, void *user) {
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  (void)user;
  if (spec == NULL) return ls_nest_retain(leaf);  // A failure.
  return ls_nest_zeros(spec->type.dtype, spec->type.shape);
}

static ls_nest give_padding(void *user, int64_t index) {
  (void)index;
  return ls_nest_retain(((const evening *)user)->padding);
}

// Makes a data set of padding elements with the types of `dataset`.
static ls_dataset *only_padding(const ls_dataset *dataset,
                                const ls_even_options *options) {
  evening *self = make_evening(options);
  if (self == NULL) return NULL;
  const ls_nest specs = ls_dataset_spec_nest(dataset);
  self->padding = ls_nest_map(specs, zeros_of, NULL);
  ls_array *ended = ls_nest_as_array(ls_nest_find(self->padding, "ended"));
  if (ended != NULL) ls_array_set_i64(ended, 0, 1);
  return ls_dataset_from_function(&(ls_index_options){
      .name = "padding",
      .size = options->goes_on ? LS_INFINITE : options->at_once - 1,
      .element = specs,
      .make = give_padding,
      .user = self,
      .release = release_evening});
}

static ls_dataset *masked_batches(ls_dataset *dataset,
                                  const ls_even_options *options) {
  dataset = map_even(dataset, options, false);
  if (dataset == NULL || !ls_status_is_ok(dataset->failure)) return dataset;
  return options->goes_on || options->at_once > 1
             ? ls_dataset_concatenate(dataset, only_padding(dataset, options))
             : dataset;
}

static ls_dataset *signalled_batches(ls_dataset *dataset,
                                     const ls_even_options *options) {
  ls_dataset *first = ls_dataset_take(ls_dataset_retain(dataset), 1);
  ls_dataset *end = map_even(first, options, true);
  if (options->at_once > 1)
    end = ls_dataset_repeat(end, 2 * options->at_once - 1);
  return ls_dataset_prefetch(
      ls_dataset_concatenate(map_even(dataset, options, false), end), 2);
}

ls_dataset *ls_even_batches(ls_dataset *dataset,
                            const ls_even_options *options) {
  static ls_dataset *(*const rules[])(ls_dataset * dataset,
                                      const ls_even_options *options) = {
      [LS_END_DROPPED] = full_batches,
      [LS_END_MASKED] = masked_batches,
      [LS_END_SIGNALLED] = signalled_batches};
  if (dataset == NULL || !ls_status_is_ok(dataset->failure)) return dataset;
  return rules[options->rule](dataset, options);
}

// ---- Sources ---------------------------------------------------------------
// Sources: the elements that a host feeds to its replicas, from a data set or
// from graph values.

ls_status ls_feed_source_init(ls_feed_source *self, ls_dataset *dataset,
                              ls_nest features, ls_nest labels) {
  *self = (ls_feed_source){0};
  if (dataset != NULL &&
      (features.kind != LS_KIND_NONE || labels.kind != LS_KIND_NONE))
    return ls_failed_precondition("internal error: input comes both from a "
                                  "data set and from features and labels");
  if (dataset != NULL) LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  self->dataset = dataset != NULL ? ls_dataset_retain(dataset) : NULL;
  self->features = ls_nest_retain(features);
  self->labels = ls_nest_retain(labels);
  return ls_ok();
}

ls_status ls_feed_source_of(ls_feed_source *self, ls_nest value) {
  ls_dataset *dataset = ls_nest_as_dataset(value);
  ls_nest features = ls_none(), labels = ls_none();
  *self = (ls_feed_source){0};
  if (dataset == NULL)
    LS_RETURN_IF_ERROR(ls_features_split(value, &features, &labels));
  return ls_feed_source_init(self, dataset, features, labels);
}

void ls_feed_source_deinit(ls_feed_source *self) {
  ls_dataset_release(self->dataset);
  ls_iterator_release(self->iterator);
  ls_nest_release(self->features);
  ls_nest_release(self->labels);
  ls_nest_release(self->signals);
  *self = (ls_feed_source){0};
}

ls_status ls_feed_source_make_even(ls_feed_source *self,
                                   const ls_even_options *options) {
  self->even = *options;
  self->is_even = true;
  if (self->dataset == NULL) return ls_ok();
  self->dataset = ls_even_batches(self->dataset, options);
  return ls_dataset_status(self->dataset);
}

ls_status ls_feed_source_begin(ls_feed_source *self, const char *name,
                               uint64_t seed) {
  if (self->dataset == NULL || self->iterator != NULL) return ls_ok();
  return ls_iterator_create(self->dataset,
                            &(ls_iterator_options){.name = name, .seed = seed},
                            &self->iterator);
}

// Splits an element of the data set, or its specs, into fields.
static ls_status take_element(const ls_feed_source *self, ls_nest element,
                              ls_feed_element *out_fed) {
  ls_nest features, labels;
  if (self->is_even && self->even.rule != LS_END_DROPPED) {
    ls_feed_element_take(element, out_fed);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_features_split(element, &features, &labels));
  out_fed->features = ls_nest_retain(features);
  out_fed->labels = ls_nest_retain(labels);
  return ls_ok();
}

ls_status ls_feed_source_specs(const ls_feed_source *self,
                               ls_feed_element *out_specs) {
  LS_OWN(ls_nest, specs) = ls_dataset_spec_nest(self->dataset);
  LS_RETURN_IF_ERROR(ls_nest_status(specs));
  return take_element(self, specs, out_specs);
}

// ---- The next element -------------------------------------------------------
static ls_status pad_values(const ls_feed_source *self,
                            ls_feed_element *out_fed) {
  const ls_row_shares *shares = &self->even.shares;
  int64_t count = 0;
  LS_RETURN_IF_ERROR(ls_shares_count(shares, self->features, &count));
  LS_RETURN_IF_ERROR(
      ls_features_pad(shares, self->features, self->labels, count, out_fed));
  return ls_take_nest(ls_shares_mask(shares, count, LS_DTYPE_F32, true),
                      &out_fed->mask);
}

static ls_status next_values(const ls_feed_source *self,
                             ls_feed_element *out_fed) {
  if (self->is_even && self->even.rule == LS_END_MASKED)
    return pad_values(self, out_fed);
  out_fed->features = ls_nest_retain(self->features);
  out_fed->labels = ls_nest_retain(self->labels);
  return ls_ok();
}

ls_status ls_feed_source_next(ls_feed_source *self, ls_feed_element *out_fed) {
  *out_fed = (ls_feed_element){0};
  LS_OWN(ls_feed_element, fed) = {0};
  if (self->dataset == NULL) {
    LS_RETURN_IF_ERROR(next_values(self, &fed));
    return ls_hand_over(&fed, out_fed);
  }
  if (self->iterator == NULL)
    return ls_failed_precondition("features and labels of a data set are "
                                  "requested before its initializer");
  if (self->has_signals)
    return ls_failed_precondition("features and labels are requested twice "
                                  "without the signals of the first");
  LS_OWN(ls_nest, element) = ls_iterator_get_next(self->iterator);
  LS_RETURN_IF_ERROR(ls_nest_status(element));
  LS_RETURN_IF_ERROR(take_element(self, element, &fed));
  self->signals = ls_give(&fed.signals);
  self->has_signals = self->signals.kind != LS_KIND_NONE;
  return ls_hand_over(&fed, out_fed);
}

ls_status ls_feed_source_signals(ls_feed_source *self, ls_nest *out_signals) {
  *out_signals = ls_none();
  if (!self->is_even || self->even.rule != LS_END_SIGNALLED) return ls_ok();
  if (!self->has_signals)
    return ls_failed_precondition(
        "signals are requested before their features and labels");
  *out_signals = ls_give(&self->signals);
  self->has_signals = false;
  return ls_ok();
}
