// SPDX-License-Identifier: Apache-2.0
//
// Input of replicas in a graph: placeholders for the parts of a batch, which a
// hook feeds from a data set of whole batches.
#include "estimator/input/strategy_input.h"

#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "estimator/input/begin_hook.h"
#include "estimator/input/padding.h"
#include "estimator/spec/returned.h"
#include "lockstep/distributed.h"
#include "lockstep/element_spec.h"
#include "lockstep/ops.h"
#include "train/hooks/hook.h"

// Feeds stand leaf by leaf, each with all replicas; behind them, where parts
// may differ, how many examples each replica has.
typedef struct feeder {
  ls_hook *begin;  // Its iterator.
  ls_iterator *iterator;
  ls_strategy *strategy;
  size_t num_leaves, num_replicas;
  bool counts;
  ls_nest element;
  ls_nest *leaves;  // Of the element, lent,
  ls_nest *parts;   //   and each split.
  ls_array **numbers;
  int64_t *axes;  // Of the leaves' examples.
  ls_feed *feeds;
  size_t num_feeds;
  ls_allocator *allocator;
} feeder;

static void strategy_input_destroy(void *user) {
  feeder *self = user;
  for (size_t i = 0; self->parts != NULL && i < self->num_leaves; ++i)
    ls_nest_release(self->parts[i]);
  for (size_t r = 0; self->numbers != NULL && r < self->num_replicas; ++r)
    ls_array_release(self->numbers[r]);
  ls_hook_release(self->begin);
  ls_iterator_release(self->iterator);
  ls_strategy_release(self->strategy);
  ls_nest_release(self->element);
  ls_release(self->allocator, self->leaves);
  ls_release(self->allocator, self->parts);
  ls_release(self->allocator, self->numbers);
  ls_release(self->allocator, self->axes);
  ls_release(self->allocator, self->feeds);
  ls_hook_free(self);
}

static ls_status strategy_input_begin(void *user, ls_run_context *context) {
  const ls_hook *first = ((feeder *)user)->begin;
  return first->type->after_create_session(first->state, context);
}

static ls_nest strategy_input_part_of(const feeder *self, ls_nest split,
                                      size_t replica) {
  return self->num_replicas == 1 && ls_distributed_count(split) == 0
             ? split
             : ls_distributed_component(split, replica);
}

// A copy of so many examples behind `first`.
static ls_nest copy_part(const ls_array *whole, int axis, int64_t first,
                         int64_t count) {
  ls_shape shape = ls_array_shape(whole);
  const int64_t all = shape.dim[axis];
  size_t before = 1;
  for (int i = 0; i < axis; ++i)
    before *= (size_t)shape.dim[i];
  shape.dim[axis] = count;
  const ls_nest made = ls_nest_zeros(ls_array_dtype(whole), shape);
  if (ls_nest_is_failed(made) || ls_array_size(ls_nest_as_array(made)) == 0)
    return made;
  const size_t row = ls_array_size(whole) / before / (size_t)all;
  const char *from = (const char *)ls_array_data(whole) + (size_t)first * row;
  char *to = ls_nest_data(made, 0);
  for (size_t i = 0; i < before; ++i)
    memcpy(to + i * (size_t)count * row, from + i * (size_t)all * row,
           (size_t)count * row);
  return made;
}

static ls_status split_along(const feeder *self, const ls_array *whole,
                             int axis, ls_nest *out_split) {
  const int64_t parts = (int64_t)self->num_replicas;
  if (ls_dtype_owns_elements(ls_array_dtype(whole)))
    return ls_invalid_argument("only arrays of numbers are shared out along "
                               "axis %d (batch_axis)",
                               axis);
  ls_nest *items = ls_new_array(self->allocator, ls_nest, self->num_replicas);
  if (items == NULL) return ls_out_of_memory();
  int64_t first = 0;
  for (int64_t r = 0; r < parts; ++r) {
    const int64_t count =
        ls_part_rows(ls_array_shape(whole).dim[axis], parts, r);
    items[r] = copy_part(whole, axis, first, count);
    first += count;
  }
  const ls_nest made =
      ls_nest_distributed(LS_PER_REPLICA, items, self->num_replicas);
  ls_release(self->allocator, items);
  return ls_take_nest(made, out_split);
}

static ls_status feed_leaf(feeder *self, size_t leaf) {
  const int axis = (int)self->axes[leaf];
  ls_array *whole = ls_nest_as_array(self->leaves[leaf]);
  if (whole == NULL || !ls_has_axis(ls_array_shape(whole), axis))
    return ls_invalid_argument("element %zu of the input has no rows along "
                               "axis %d to be shared out among %zu replicas",
                               leaf, axis, self->num_replicas);
  ls_nest split = ls_none();
  LS_RETURN_IF_ERROR(axis == 0
                         ? ls_strategy_split(self->strategy, whole, &split)
                         : split_along(self, whole, axis, &split));
  ls_nest_release(self->parts[leaf]);
  self->parts[leaf] = split;
  for (size_t r = 0; r < self->num_replicas; ++r)
    self->feeds[leaf * self->num_replicas + r].value =
        ls_nest_as_array(strategy_input_part_of(self, split, r));
  return ls_ok();
}

static ls_status feed_next(void *user, ls_run_context *context,
                           ls_run_wish *wish) {
  feeder *self = user;
  (void)context;
  LS_RETURN_IF_ERROR(ls_iterator_next(self->iterator, &self->element));
  ls_nest_flatten(self->element, self->leaves, self->num_leaves);
  for (size_t i = 0; i < self->num_leaves; ++i)
    LS_RETURN_IF_ERROR(feed_leaf(self, i));
  for (size_t r = 0; self->counts && r < self->num_replicas; ++r)
    ls_array_set_i64(self->numbers[r], 0,
                     ls_array_shape(self->feeds[r].value).dim[self->axes[0]]);
  wish->feeds = self->feeds;
  wish->num_feeds = self->num_feeds;
  return ls_ok();
}

static ls_status strategy_input_make_room(feeder *self,
                                          const ls_estimator_calls *calls) {
  const size_t all = (self->num_leaves + 1) * self->num_replicas;
  self->leaves = ls_new_array(self->allocator, ls_nest, self->num_leaves + 1);
  self->parts = ls_new_array(self->allocator, ls_nest, self->num_leaves + 1);
  self->numbers = ls_new_array(self->allocator, ls_array *, self->num_replicas);
  self->axes = ls_new_array(self->allocator, int64_t, self->num_leaves + 1);
  self->feeds = ls_new_array(self->allocator, ls_feed, all);
  if (self->leaves == NULL || self->parts == NULL || self->numbers == NULL ||
      self->axes == NULL || self->feeds == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < self->num_leaves; ++i)
    self->axes[i] = ls_batch_axis(calls->batch_axis, calls->num_batch_axes, i);
  return ls_ok();
}

// ---- Placeholders ----------------------------------------------------------
// Even parts of a known size have it.
static ls_shape part_shape(const feeder *self, ls_shape whole, int axis) {
  const int64_t replicas = (int64_t)self->num_replicas;
  if (ls_has_axis(whole, axis))
    whole.dim[axis] =
        self->counts ? LS_UNKNOWN_DIM : whole.dim[axis] / replicas;
  return whole;
}

// PerReplica, of which the feeds know the tensors.
static ls_nest strategy_input_place(feeder *self, ls_dtype dtype,
                                    ls_shape shape, const char *name) {
  ls_nest *made = ls_new_array(self->allocator, ls_nest, self->num_replicas);
  if (made == NULL) return ls_fail(ls_out_of_memory());
  for (size_t r = 0; r < self->num_replicas; ++r) {
    const ls_tensor tensor = ls_placeholder(dtype, shape, name);
    self->feeds[self->num_feeds++].tensor = tensor;
    made[r] = ls_leaf(tensor);
  }
  const ls_nest all =
      self->num_replicas == 1
          ? made[0]
          : ls_nest_distributed(LS_PER_REPLICA, made, self->num_replicas);
  ls_release(self->allocator, made);
  return all;
}

static ls_nest place_leaf(ls_nest leaf, void *user) {
  feeder *self = user;
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  const ls_status status = ls_returned_check_leaf(spec);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const size_t next = self->num_feeds / self->num_replicas;
  return strategy_input_place(
      self, spec->type.dtype,
      part_shape(self, spec->type.shape, (int)self->axes[next]), "input");
}

static ls_status place_examples(feeder *self, ls_strategy_input *input) {
  if (!self->counts) return ls_ok();
  for (size_t r = 0; r < self->num_replicas; ++r) {
    LS_RETURN_IF_ERROR(
        ls_array_create(LS_DTYPE_I64, LS_SCALAR, &self->numbers[r]));
    self->feeds[self->num_leaves * self->num_replicas + r].value =
        self->numbers[r];
  }
  input->examples =
      strategy_input_place(self, LS_DTYPE_I64, LS_SCALAR, "examples");
  return ls_nest_status(input->examples);
}

// ---- Making ----------------------------------------------------------------
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

static ls_status place_all(feeder *self, ls_strategy_input *input) {
  ls_nest element = ls_none(), features, labels;
  const ls_nest specs =
      ls_dataset_spec_nest(ls_iterator_dataset(self->iterator));
  ls_status status = ls_nest_status(specs);
  if (ls_status_is_ok(status))
    status = ls_take_nest(ls_nest_map(specs, place_leaf, self), &element);
  ls_nest_release(specs);
  if (ls_status_is_ok(status)) status = place_examples(self, input);
  if (ls_status_is_ok(status))
    status = ls_returned_split(element, &features, &labels);
  if (ls_status_is_ok(status)) {
    input->input.features = ls_nest_retain(features);
    input->input.labels = ls_nest_retain(labels);
  }
  ls_nest_release(element);
  return status;
}

static ls_status make_feeder(const ls_estimator_calls *calls,
                             ls_strategy *strategy, ls_strategy_input *input) {
  ls_dataset *dataset = ls_iterator_dataset(input->input.iterator);
  feeder *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  self->allocator = ls_current_allocator();
  self->iterator = ls_iterator_retain(input->input.iterator);
  self->strategy = ls_strategy_retain(strategy);
  self->num_leaves = dataset->num_leaves;
  self->num_replicas = (size_t)ls_strategy_num_replicas(strategy);
  ls_status status = strategy_input_make_room(self, calls);
  self->counts = ls_status_is_ok(status) && !is_even(self, dataset);
  if (ls_status_is_ok(status))
    status = ls_begin_hook(&self->iterator, 1, &self->begin);
  if (ls_status_is_ok(status)) status = place_all(self, input);
  if (!ls_status_is_ok(status)) {
    strategy_input_destroy(self);
    return status;
  }
  return ls_hook_of_state(
      &(ls_hook_options){.name = "data set of the input",
                         .user = self,
                         .after_create_session = strategy_input_begin,
                         .before_run = feed_next,
                         .destroy = strategy_input_destroy},
      &input->input.hook);
}

ls_status ls_strategy_input_make(const ls_estimator_calls *calls,
                                 ls_strategy *strategy,
                                 ls_strategy_input *out_input) {
  ls_nest made = ls_none();
  *out_input = (ls_strategy_input){0};
  LS_RETURN_IF_ERROR(ls_cpu_input_call(calls, &made));
  ls_dataset *dataset = ls_nest_as_dataset(made);
  ls_status status =
      dataset == NULL
          ? ls_invalid_argument("input_fn must give a Dataset (ls_nest_dataset)"
                                " where a strategy trains or evaluates")
          : ls_input_iterator(calls, dataset, &out_input->input.iterator);
  ls_nest_release(made);
  if (ls_status_is_ok(status)) status = make_feeder(calls, strategy, out_input);
  if (!ls_status_is_ok(status)) ls_strategy_input_drop(out_input);
  return status;
}

void ls_strategy_input_drop(ls_strategy_input *input) {
  ls_nest_release(input->examples);
  ls_cpu_input_drop(&input->input);
  *input = (ls_strategy_input){0};
}
