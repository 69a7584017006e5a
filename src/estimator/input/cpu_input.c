// SPDX-License-Identifier: Apache-2.0
//
// Input on CPUs. A program is compiled for certain sizes. Batches whose size is
// not known when building, and the replicas' shares of batches, are fed to
// placeholders, so that each size gets a program. A hook feeds them from a data
// set of whole batches.
#include "estimator/input/input.h"

#include <string.h>

#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "distribute/input/feed.h"
#include "estimator/spec/calls.h"
#include "graph/region.h"
#include "lockstep/distributed.h"
#include "lockstep/element_spec.h"
#include "lockstep/ops.h"
#include "train/hooks/hook.h"

// ---- The feeder ------------------------------------------------------------
// State of the feeding hook. The feeds are ordered leaf by leaf, with one feed
// per replica for each leaf. If shares may differ, feeds for the replicas'
// numbers of examples follow.
typedef struct feeder {
  ls_allocator *allocator;
  ls_hook *begin;  // Starts the iterator.
  ls_iterator *iterator;
  ls_row_shares shares;  // One part per replica.
  int64_t *axes;
  bool has_strategy;
  size_t num_leaves, num_replicas;
  ls_nest element;
  ls_nest *leaves;  // Leaves of the element, borrowed.
  ls_nest *parts;   // Parts of each leaf, one per replica.
  // Number of examples of each replica; NULL: replicas have equal numbers.
  ls_array **examples;
  ls_feed *feeds;
  size_t num_feeds;
  int64_t rows;  // Number of rows of the latest batch.
} feeder;

static void destroy_feeder(void *state) {
  feeder *self = state;
  const size_t num_parts = self->num_leaves * self->num_replicas;
  for (size_t i = 0; self->parts != NULL && i < num_parts; ++i)
    ls_nest_release(self->parts[i]);
  for (size_t r = 0; self->examples != NULL && r < self->num_replicas; ++r)
    ls_array_release(self->examples[r]);
  ls_hook_release(self->begin);
  ls_iterator_release(self->iterator);
  ls_nest_release(self->element);
  ls_release(self->allocator, self->axes);
  ls_release(self->allocator, self->leaves);
  ls_release(self->allocator, self->parts);
  ls_release(self->allocator, self->examples);
  ls_release(self->allocator, self->feeds);
}
LS_OWNED_STRUCT(feeder, destroy_feeder)

static ls_status begin_feeder(void *state, ls_run_context *context) {
  const ls_hook *begin = ((feeder *)state)->begin;
  return begin->type->after_create_session(begin->state, context);
}

// Counts examples along an axis; -1: not known.
static int64_t count_examples(ls_nest features, int64_t axis) {
  const ls_row_shares whole = {
      .parts = 1, .room = INT64_MAX, .axes = &axis, .num_axes = 1};
  int64_t rows = 0;
  const ls_status status = ls_shares_count(&whole, features, &rows);
  const bool is_known = ls_status_is_ok(status);
  ls_status_free(status);
  return is_known ? rows : -1;
}

static ls_status share_leaf(feeder *self, size_t leaf, int64_t rows) {
  const int axis = ls_shares_axis(&self->shares, leaf);
  for (size_t r = 0; r < self->num_replicas; ++r) {
    ls_nest *part = &self->parts[leaf * self->num_replicas + r];
    ls_nest_release(*part);
    *part = ls_none();
    LS_RETURN_IF_ERROR(
        ls_rows_take(self->leaves[leaf], axis,
                     ls_shares_begin(&self->shares, rows, (int64_t)r),
                     ls_shares_rows(&self->shares, rows, (int64_t)r), part));
    self->feeds[leaf * self->num_replicas + r].value = ls_nest_as_array(*part);
  }
  return ls_ok();
}

static ls_status feed_leaf(feeder *self, size_t leaf) {
  const int axis = ls_shares_axis(&self->shares, leaf);
  ls_array *whole = ls_nest_as_array(self->leaves[leaf]);
  self->feeds[leaf * self->num_replicas].value = whole;
  if (!self->has_strategy) return ls_ok();
  if (whole == NULL || !ls_has_axis(ls_array_shape(whole), axis))
    return ls_invalid_argument("element %zu of the input has no rows along "
                               "axis %d to be shared out among %zu replicas",
                               leaf, axis, self->num_replicas);
  return share_leaf(self, leaf, ls_array_shape(whole).dim[axis]);
}

static ls_status feed_next(void *state, ls_run_context *context,
                           ls_run_wish *wish) {
  feeder *self = state;
  ls_nest features, labels;
  (void)context;
  LS_RETURN_IF_ERROR(ls_iterator_next(self->iterator, &self->element));
  LS_RETURN_IF_ERROR(ls_features_split(self->element, &features, &labels));
  ls_nest_flatten(self->element, self->leaves, self->num_leaves);
  for (size_t i = 0; i < self->num_leaves; ++i)
    LS_RETURN_IF_ERROR(feed_leaf(self, i));
  self->rows = count_examples(features, self->axes[0]);
  for (size_t r = 0; self->examples != NULL && r < self->num_replicas; ++r)
    ls_array_set_i64(self->examples[r], 0,
                     ls_array_shape(self->feeds[r].value).dim[self->axes[0]]);
  wish->feeds = self->feeds;
  wish->num_feeds = self->num_feeds;
  return ls_ok();
}

static const ls_hook_type feeder_type = {.name = "data set of the input",
                                         .size = sizeof(feeder),
                                         .needs_session = true,
                                         .after_create_session = begin_feeder,
                                         .before_run = feed_next,
                                         .destroy = destroy_feeder};

// ---- Placeholders ----------------------------------------------------------
// Returns a share's shape: its size along the axis is known only if shares are
// equal.
static ls_shape share_shape(const feeder *self, ls_shape whole, int axis) {
  if (self->has_strategy && ls_has_axis(whole, axis))
    whole.dim[axis] = self->examples != NULL
                          ? LS_UNKNOWN_DIM
                          : whole.dim[axis] / (int64_t)self->num_replicas;
  return whole;
}

// Makes a placeholder for each replica and adds it to the feeds.
static ls_nest place_replicas(feeder *self, ls_dtype dtype, ls_shape shape,
                              const char *name) {
  LS_OWN_ARRAY(self->allocator, ls_nest, values, self->num_replicas);
  if (values == NULL) return ls_fail(ls_out_of_memory());
  for (size_t r = 0; r < self->num_replicas; ++r) {
    const ls_tensor tensor = ls_placeholder(dtype, shape, name);
    self->feeds[self->num_feeds++].tensor = tensor;
    values[r] = ls_leaf(tensor);
  }
  return self->num_replicas == 1
             ? values[0]
             : ls_nest_distributed(LS_PER_REPLICA, values, self->num_replicas);
}

static ls_nest place_leaf(ls_nest leaf, void *user) {
  feeder *self = user;
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  LS_RETURN_FAILED_IF_ERROR(ls_returned_check_leaf(spec));
  const int axis = (int)self->axes[self->num_feeds / self->num_replicas];
  return place_replicas(self, spec->type.dtype,
                        share_shape(self, spec->type.shape, axis), "input");
}

static ls_status place_examples(feeder *self, ls_nest *out_examples) {
  if (self->examples == NULL) return ls_ok();
  for (size_t r = 0; r < self->num_replicas; ++r) {
    LS_RETURN_IF_ERROR(
        ls_array_create(LS_DTYPE_I64, LS_SCALAR, &self->examples[r]));
    self->feeds[self->num_feeds + r].value = self->examples[r];
  }
  return ls_take_nest(place_replicas(self, LS_DTYPE_I64, LS_SCALAR, "examples"),
                      out_examples);
}

// ---- Making a feeder -------------------------------------------------------
static bool is_even(const feeder *self, const ls_dataset *dataset) {
  for (size_t i = 0; i < dataset->num_leaves; ++i) {
    const ls_shape shape = dataset->leaves[i].type.shape;
    const int axis = (int)self->axes[i];
    if (!ls_shape_is_known(shape) || !ls_has_axis(shape, axis) ||
        shape.dim[axis] % (int64_t)self->num_replicas != 0)
      return false;
  }
  return true;
}

static ls_status init_feeder(feeder *self, const ls_estimator_calls *calls,
                             const ls_dataset *dataset) {
  const ls_row_shares axes = {.axes = calls->batch_axis,
                              .num_axes = calls->num_batch_axes};
  const size_t num_parts = self->num_leaves * self->num_replicas;
  self->axes = ls_new_array(self->allocator, int64_t, self->num_leaves + 1);
  self->leaves = ls_new_array(self->allocator, ls_nest, self->num_leaves + 1);
  self->parts = ls_new_array(self->allocator, ls_nest, num_parts + 1);
  self->feeds =
      ls_new_array(self->allocator, ls_feed, num_parts + self->num_replicas);
  LS_RETURN_IF_NO_MEMORY(self->axes != NULL && self->leaves != NULL &&
                         self->parts != NULL && self->feeds != NULL);
  for (size_t i = 0; i <= self->num_leaves; ++i)
    self->axes[i] = ls_shares_axis(&axes, i);
  self->shares = (ls_row_shares){.parts = (int64_t)self->num_replicas,
                                 .axes = self->axes,
                                 .num_axes = self->num_leaves};
  if (!self->has_strategy || is_even(self, dataset)) return ls_ok();
  self->examples =
      ls_new_array(self->allocator, ls_array *, self->num_replicas);
  return self->examples != NULL ? ls_ok() : ls_out_of_memory();
}

// Makes placeholders for features and labels, which a hook feeds.
static ls_status make_fed(const ls_estimator_calls *calls,
                          const ls_feed_source *source, ls_cpu_input *input,
                          ls_feed_element *out_fed) {
  const ls_strategy *strategy = calls->plan->strategy;
  LS_OWN(ls_feed_element, specs) = {0};
  LS_OWN(feeder, self) = {
      .allocator = ls_current_allocator(),
      .iterator = ls_iterator_retain(source->iterator),
      .has_strategy = strategy != NULL,
      .num_leaves = source->dataset->num_leaves,
      .num_replicas =
          strategy != NULL ? (size_t)ls_strategy_num_replicas(strategy) : 1};
  LS_RETURN_IF_ERROR(ls_feed_source_specs(source, &specs));
  LS_RETURN_IF_ERROR(init_feeder(&self, calls, source->dataset));
  LS_RETURN_IF_ERROR(ls_begin_hook(&self.iterator, 1, &self.begin));
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_nest_map(specs.features, place_leaf, &self), &out_fed->features));
  if (specs.labels.kind != LS_KIND_NONE)
    LS_RETURN_IF_ERROR(ls_take_nest(
        ls_nest_map(specs.labels, place_leaf, &self), &out_fed->labels));
  LS_RETURN_IF_ERROR(place_examples(&self, &input->examples));
  const feeder initial = ls_give(&self);
  return ls_hook_make(&feeder_type, &initial, &input->hook);
}

int64_t ls_cpu_input_rows(const ls_cpu_input *input) {
  if (input->hook != NULL && input->hook->type == &feeder_type)
    return ((const feeder *)input->hook->state)->rows;
  return count_examples(input->features, input->axis);
}

// ---- Making ----------------------------------------------------------------
static bool is_static(const ls_dataset *dataset) {
  for (size_t i = 0; i < dataset->num_leaves; ++i)
    if (!ls_shape_is_known(dataset->leaves[i].type.shape)) return false;
  return true;
}

// Makes the features and labels: in the graph, which reads them itself, or as
// placeholders, which a hook feeds.
static ls_status make_element(const ls_estimator_calls *calls,
                              ls_feed_source *source, ls_cpu_input *input,
                              ls_feed_element *out_fed) {
  if (source->dataset == NULL) return ls_feed_source_next(source, out_fed);
  if (calls->plan->strategy != NULL)
    return make_fed(calls, source, input, out_fed);
  LS_DEVICE_SCOPE("/device:CPU:0");
  if (!is_static(source->dataset))
    return make_fed(calls, source, input, out_fed);
  LS_RETURN_IF_ERROR(ls_feed_source_next(source, out_fed));
  return ls_begin_hook(&source->iterator, 1, &input->hook);
}

static ls_nest cpu_input_as_tensor(ls_nest leaf, void *user) {
  (void)user;
  ls_tensor value;
  if (leaf.kind == LS_KIND_NONE) return leaf;
  if (leaf.kind == LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  LS_RETURN_FAILED_IF_ERROR(ls_region_tensor(leaf, &value));
  return ls_leaf(value);
}

static ls_status call_input(const ls_estimator_calls *calls,
                            ls_nest *out_value) {
  if (calls->plan->input.way == LS_FEED_SLICES)
    return ls_invalid_argument(
        "eval_training_input_configuration is SLICED, which is for replicas on "
        "TPUs: leave it unset where CPUs evaluate or predict");
  return ls_call_input(calls, NULL, out_value);
}

static ls_status cpu_input_make(const ls_estimator_calls *calls,
                                ls_cpu_input *input) {
  const ls_opt seed = ls_run_config_values(calls->config)->random_seed;
  LS_OWN(ls_nest, value) = ls_none();
  LS_OWN(ls_feed_source, source) = {0};
  LS_OWN(ls_feed_element, fed) = {0};
  LS_RETURN_IF_ERROR(call_input(calls, &value));
  if (ls_nest_as_dataset(value) == NULL && calls->plan->strategy != NULL)
    return ls_invalid_argument("input_fn must give a Dataset (ls_nest_dataset) "
                               "where a strategy trains or evaluates");
  LS_RETURN_IF_ERROR(ls_feed_source_of(&source, value));
  LS_RETURN_IF_ERROR(ls_feed_source_begin(&source, "input",
                                          seed.set ? (uint64_t)seed.value : 0));
  input->iterator = ls_iterator_retain(source.iterator);
  LS_RETURN_IF_ERROR(make_element(calls, &source, input, &fed));
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_nest_map(fed.features, cpu_input_as_tensor, NULL), &input->features));
  return ls_take_nest(ls_nest_map(fed.labels, cpu_input_as_tensor, NULL),
                      &input->labels);
}

ls_status ls_cpu_input_make(const ls_estimator_calls *calls,
                            ls_cpu_input *out_input) {
  *out_input = (ls_cpu_input){
      .axis = calls->num_batch_axes > 0 ? calls->batch_axis[0] : 0};
  const ls_status status = cpu_input_make(calls, out_input);
  if (!ls_status_is_ok(status)) ls_cpu_input_drop(out_input);
  return status;
}

void ls_cpu_input_drop(ls_cpu_input *input) {
  ls_nest_release(input->features);
  ls_nest_release(input->labels);
  ls_nest_release(input->examples);
  ls_hook_release(input->hook);
  ls_iterator_release(input->iterator);
  *input = (ls_cpu_input){0};
}
