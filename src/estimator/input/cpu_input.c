// SPDX-License-Identifier: Apache-2.0
//
// Input on CPUs. Programs of the graph are made for sizes: those of a data set
// that are not known are placeholders, of which each size is a program.
#include "estimator/input/cpu_input.h"

#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "estimator/input/begin_hook.h"
#include "estimator/input/padding.h"
#include "estimator/spec/returned.h"
#include "graph/region.h"
#include "lockstep/element_spec.h"
#include "lockstep/ops.h"
#include "train/hooks/hook.h"

// ---- Batches of several sizes ----------------------------------------------
typedef struct feeder {
  ls_hook *begin;  // Its iterator.
  ls_iterator *iterator;
  ls_nest element;
  ls_nest *leaves;  // Room for those.
  ls_feed *feeds;
  size_t count;
  int64_t axis;  // Of the first feature's examples,
  int64_t rows;  // and how many the last one has.
  ls_allocator *allocator;
} feeder;

static void destroy_feeder(void *user) {
  feeder *self = user;
  ls_hook_release(self->begin);
  ls_iterator_release(self->iterator);
  ls_nest_release(self->element);
  ls_release(self->allocator, self->leaves);
  ls_release(self->allocator, self->feeds);
  ls_hook_free(self);
}

static ls_status begin_feeder(void *user, ls_run_context *context) {
  const ls_hook *begin = ((feeder *)user)->begin;
  return begin->type->after_create_session(begin->state, context);
}

// -1: it is not known.
static int64_t cpu_input_count_rows(ls_nest features, const int64_t *axis) {
  const ls_batch_padding all = {
      .parts = 1, .rows = INT64_MAX, .axes = axis, .num_axes = 1};
  int64_t rows = 0;
  const ls_status status = ls_padding_count(all, features, &rows);
  const bool is_known = ls_status_is_ok(status);
  ls_status_free(status);
  return is_known ? rows : -1;
}

static ls_status feed_next(void *user, ls_run_context *context,
                           ls_run_wish *wish) {
  feeder *self = user;
  ls_nest features, labels;
  (void)context;
  LS_RETURN_IF_ERROR(ls_iterator_next(self->iterator, &self->element));
  LS_RETURN_IF_ERROR(ls_returned_split(self->element, &features, &labels));
  ls_nest_flatten(self->element, self->leaves, self->count);
  for (size_t i = 0; i < self->count; ++i)
    self->feeds[i].value = ls_nest_as_array(self->leaves[i]);
  self->rows = cpu_input_count_rows(features, &self->axis);
  wish->feeds = self->feeds;
  wish->num_feeds = self->count;
  return ls_ok();
}

static ls_status new_feeder(ls_iterator *iterator, ls_hook *begin, size_t count,
                            int64_t axis, feeder **out_feeder) {
  feeder *self = ls_hook_state(sizeof(*self));
  *out_feeder = NULL;
  if (self == NULL) return ls_out_of_memory();
  *self = (feeder){.begin = ls_hook_retain(begin),
                   .iterator = ls_iterator_retain(iterator),
                   .count = count,
                   .axis = axis,
                   .allocator = ls_current_allocator()};
  self->leaves = ls_new_array(self->allocator, ls_nest, count + 1);
  self->feeds = ls_new_array(self->allocator, ls_feed, count + 1);
  if (self->leaves == NULL || self->feeds == NULL) {
    destroy_feeder(self);
    return ls_out_of_memory();
  }
  *out_feeder = self;
  return ls_ok();
}

static ls_status feeder_hook(feeder *self, ls_hook **out_hook) {
  return ls_hook_of_state(
      &(ls_hook_options){.name = "data set of the input",
                         .user = self,
                         .after_create_session = begin_feeder,
                         .before_run = feed_next,
                         .destroy = destroy_feeder},
      out_hook);
}

typedef struct placing {
  feeder *feeder;
  size_t count;
} placing;

static ls_nest place_leaf(ls_nest leaf, void *user) {
  placing *p = user;
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  const ls_status status = ls_returned_check_leaf(spec);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor made =
      ls_placeholder(spec->type.dtype, spec->type.shape, "input");
  p->feeder->feeds[p->count++].tensor = made;
  return ls_leaf(made);
}

static ls_status make_fed(ls_cpu_input *input, ls_nest *out_element) {
  ls_dataset *dataset = ls_iterator_dataset(input->iterator);
  ls_hook *begin = NULL;
  feeder *made = NULL;
  LS_RETURN_IF_ERROR(ls_begin_hook(&input->iterator, 1, &begin));
  ls_status status = new_feeder(input->iterator, begin, dataset->num_leaves,
                                input->axis, &made);
  ls_hook_release(begin);
  LS_RETURN_IF_ERROR(status);
  placing p = {made, 0};
  const ls_nest specs = ls_dataset_spec_nest(dataset);
  status = ls_nest_status(specs);
  if (ls_status_is_ok(status))
    status = ls_take_nest(ls_nest_map(specs, place_leaf, &p), out_element);
  ls_nest_release(specs);
  if (!ls_status_is_ok(status)) {
    destroy_feeder(made);
    return status;
  }
  return feeder_hook(made, &input->hook);
}

int64_t ls_cpu_input_rows(const ls_cpu_input *input) {
  if (input->hook != NULL && input->hook->type->before_run == feed_next)
    return ((const feeder *)input->hook->state)->rows;
  return cpu_input_count_rows(input->features, &input->axis);
}

// ---- Data sets -------------------------------------------------------------
static bool is_static(const ls_dataset *dataset) {
  for (size_t i = 0; i < dataset->num_leaves; ++i)
    if (!ls_shape_is_known(dataset->leaves[i].type.shape)) return false;
  return true;
}

static ls_status make_read(ls_cpu_input *input, ls_nest *out_element) {
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_iterator_get_next(input->iterator), out_element));
  return ls_begin_hook(&input->iterator, 1, &input->hook);
}

ls_status ls_input_iterator(const ls_estimator_calls *calls,
                            ls_dataset *dataset, ls_iterator **out_iterator) {
  const ls_opt seed = ls_run_config_values(calls->config)->random_seed;
  return ls_iterator_create(
      dataset,
      &(ls_iterator_options){.name = "input",
                             .seed = seed.set ? (uint64_t)seed.value : 0},
      out_iterator);
}

static ls_status cpu_input_make_element(const ls_estimator_calls *calls,
                                        ls_dataset *dataset,
                                        ls_cpu_input *input,
                                        ls_nest *out_element) {
  LS_RETURN_IF_ERROR(ls_input_iterator(calls, dataset, &input->iterator));
  LS_DEVICE_SCOPE("/device:CPU:0");
  return is_static(dataset) ? make_read(input, out_element)
                            : make_fed(input, out_element);
}

// ---- Making ----------------------------------------------------------------
static ls_nest cpu_input_as_tensor(ls_nest leaf, void *user) {
  (void)user;
  ls_tensor value;
  if (leaf.kind == LS_KIND_NONE) return leaf;
  const ls_status status = ls_region_tensor(leaf, &value);
  return ls_status_is_ok(status) ? ls_leaf(value) : ls_fail(status);
}

static ls_status cpu_input_split(ls_nest element, ls_cpu_input *input) {
  ls_nest features, labels;
  LS_RETURN_IF_ERROR(ls_returned_split(element, &features, &labels));
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_nest_map(features, cpu_input_as_tensor, NULL), &input->features));
  return ls_take_nest(ls_nest_map(labels, cpu_input_as_tensor, NULL),
                      &input->labels);
}

static ls_status cpu_input_make(const ls_estimator_calls *calls, ls_nest made,
                                ls_cpu_input *input) {
  ls_dataset *dataset = ls_nest_as_dataset(made);
  if (dataset == NULL) return cpu_input_split(made, input);
  ls_nest element = ls_none();
  ls_status status = cpu_input_make_element(calls, dataset, input, &element);
  if (ls_status_is_ok(status)) status = cpu_input_split(element, input);
  ls_nest_release(element);
  return status;
}

ls_status ls_cpu_input_call(const ls_estimator_calls *calls,
                            ls_nest *out_made) {
  *out_made = ls_none();
  if (calls->plan->input.way == LS_FEED_SLICES)
    return ls_invalid_argument("eval_training_input_configuration is SLICED, "
                               "which is for replicas on TPUs: leave it unset "
                               "where CPUs evaluate or predict");
  LS_RETURN_IF_ERROR(ls_call_input(calls, NULL, out_made));
  const ls_status status = ls_graph_error(ls_graph_current());
  if (ls_status_is_ok(status)) return status;
  ls_nest_release(*out_made);
  *out_made = ls_none();
  return status;
}

ls_status ls_cpu_input_make(const ls_estimator_calls *calls,
                            ls_cpu_input *out_input) {
  ls_nest made = ls_none();
  *out_input = (ls_cpu_input){
      .axis = ls_batch_axis(calls->batch_axis, calls->num_batch_axes, 0)};
  LS_RETURN_IF_ERROR(ls_cpu_input_call(calls, &made));
  const ls_status status = cpu_input_make(calls, made, out_input);
  ls_nest_release(made);
  if (!ls_status_is_ok(status)) ls_cpu_input_drop(out_input);
  return status;
}

void ls_cpu_input_drop(ls_cpu_input *input) {
  ls_nest_release(input->features);
  ls_nest_release(input->labels);
  ls_hook_release(input->hook);
  ls_iterator_release(input->iterator);
  *input = (ls_cpu_input){0};
}
