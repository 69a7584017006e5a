// SPDX-License-Identifier: Apache-2.0
// Batches that are full, or padded.
#include "estimator/input/batches.h"

#include "base/runtime_internal.h"
#include "data/dataset.h"
#include "estimator/spec/returned.h"
#include "lockstep/element_spec.h"
#include "lockstep/streams.h"

static ls_dataset *batches_refuse(ls_dataset *dataset, ls_status status) {
  return ls_dataset_fail(dataset, status);
}

// ---- Full ones -------------------------------------------------------------
typedef struct full {
  ls_allocator *allocator;
  int64_t rows;
  size_t num_axes;
  int64_t *axes;
  bool told;  // Atomic: that one was left out.
} full;

static void release_full(void *user) {
  full *self = user;
  ls_release(self->allocator, self->axes);
  ls_release(self->allocator, self);
}

static full *new_full(int64_t rows, const int64_t *axes, size_t num_axes) {
  ls_allocator *allocator = ls_current_allocator();
  full *self = ls_new(allocator, full);
  if (self == NULL) return NULL;
  *self = (full){.allocator = allocator, .rows = rows, .num_axes = num_axes};
  self->axes = ls_new_array(allocator, int64_t, num_axes + 1);
  if (self->axes == NULL) {
    ls_release(allocator, self);
    return NULL;
  }
  if (num_axes > 0) memcpy(self->axes, axes, num_axes * sizeof(*axes));
  return self;
}

static void tell_left_out(int64_t count, int64_t rows) {
  ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "estimator",
                 "a last batch of %lld examples is left out: steps take %lld "
                 "(any_batch would pad it)",
                 (long long)count, (long long)rows);
}

// Leaves that are not full, in one of an element.
static ls_status keep_full(ls_nest element, const ls_map_call *call, void *user,
                           bool *out_keep) {
  full *self = user;
  (void)call;
  *out_keep = true;
  const size_t count = ls_nest_num_leaves(element);
  ls_nest *leaves = ls_new_array(self->allocator, ls_nest, count + 1);
  if (leaves == NULL) return ls_out_of_memory();
  ls_nest_flatten(element, leaves, count);
  ls_status status = ls_ok();
  for (size_t i = 0; i < count && *out_keep && ls_status_is_ok(status); ++i) {
    const ls_array *array = ls_nest_as_array(leaves[i]);
    const int axis = ls_batch_axis(self->axes, self->num_axes, i);
    if (array == NULL || !ls_has_axis(ls_array_shape(array), axis)) continue;
    const int64_t rows = ls_array_shape(array).dim[axis];
    if (rows > self->rows)
      status = ls_invalid_argument(
          "The real batch size should not be greater than batch_size: leaf %zu "
          "has %lld examples, a batch %lld",
          i, (long long)rows, (long long)self->rows);
    *out_keep = rows == self->rows;
    if (!*out_keep && ls_status_is_ok(status) &&
        !__atomic_exchange_n(&self->told, true, __ATOMIC_RELAXED))
      tell_left_out(rows, self->rows);
  }
  ls_release(self->allocator, leaves);
  return status;
}

static ls_nest as_it_is(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  return ls_nest_retain(element);
}

// What elements are with full batches; `*is_same`: they are that already.
static ls_nest full_specs(const ls_dataset *dataset, int64_t rows,
                          const int64_t *axes, size_t num_axes, bool *is_same) {
  const size_t count = dataset->num_leaves;
  ls_nest *leaves = ls_new_array(dataset->allocator, ls_nest, count + 1);
  *is_same = leaves != NULL;
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i) {
    ls_leaf_spec spec = dataset->leaves[i];
    const int axis = ls_batch_axis(axes, num_axes, i);
    if (ls_has_axis(spec.type.shape, axis) &&
        spec.type.shape.dim[axis] == LS_UNKNOWN_DIM) {
      spec.type.shape.dim[axis] = rows;
      *is_same = false;
    }
    leaves[i] = ls_nest_spec_of(&spec);
  }
  const ls_nest made = ls_nest_pack(dataset->structure, leaves, count);
  ls_release(dataset->allocator, leaves);
  return made;
}

// Where the size of the last batch is known without reading it, all others stay
// as they are; `*out_known` is whether it is.
static ls_dataset *take_full(ls_dataset *dataset, int64_t rows, bool has_axes,
                             bool *out_known) {
  const ls_dataset_class *kind = dataset->kind;
  *out_known = dataset->indexed && dataset->size > 0 && kind->measure != NULL &&
               dataset->num_leaves > 0 && !has_axes;
  if (!*out_known) return dataset;
  ls_type *types =
      ls_new_array(dataset->allocator, ls_type, dataset->num_leaves);
  if (types == NULL) return batches_refuse(dataset, ls_out_of_memory());
  kind->measure(dataset, 0, types);
  const int64_t first = types[0].shape.dim[0];
  kind->measure(dataset, dataset->size - 1, types);
  const int64_t last = types[0].shape.dim[0];
  ls_release(dataset->allocator, types);
  *out_known = first == rows || (dataset->size == 1 && first < rows);
  if (!*out_known || last == rows) return dataset;
  tell_left_out(last, rows);
  return ls_dataset_take(dataset, dataset->size - 1);
}

ls_dataset *ls_full_batches(ls_dataset *dataset, int64_t rows,
                            const int64_t *axes, size_t num_axes) {
  bool is_same = false, is_known = false;
  if (dataset == NULL || !ls_status_is_ok(dataset->failure)) return dataset;
  const ls_nest specs = full_specs(dataset, rows, axes, num_axes, &is_same);
  if (is_same) {
    ls_nest_release(specs);
    return dataset;
  }
  dataset = take_full(dataset, rows, num_axes > 0, &is_known);
  if (!is_known) {
    full *self = new_full(rows, axes, num_axes);
    if (self == NULL) {
      ls_nest_release(specs);
      return batches_refuse(dataset, ls_out_of_memory());
    }
    dataset = ls_dataset_filter(dataset,
                                &(ls_filter_options){.name = "full_batches",
                                                     .call = keep_full,
                                                     .user = self,
                                                     .release = release_full});
  }
  return ls_dataset_map(dataset, &(ls_map_options){.name = "full_batches",
                                                   .call = as_it_is,
                                                   .result = specs});
}

// ---- Padded ones -----------------------------------------------------------
typedef struct masked {
  ls_allocator *allocator;
  ls_batch_padding padding;
  bool tells_end;   // Elements say whether they are behind it.
  ls_nest element;  // Of padding alone: what it is made of.
  int64_t axes[];
} masked;

static void release_masked(void *user) {
  masked *self = user;
  ls_nest_release(self->element);
  ls_release(self->allocator, self);
}

// Takes `element` over.
static masked *new_masked(ls_batch_padding padding, bool tells_end,
                          ls_nest element) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t bytes = padding.num_axes * sizeof(*padding.axes);
  masked *self = ls_allocate(allocator, sizeof(masked) + bytes);
  if (self == NULL) {
    ls_nest_release(element);
    return NULL;
  }
  *self = (masked){.allocator = allocator,
                   .padding = padding,
                   .tells_end = tells_end,
                   .element = element};
  if (bytes > 0) memcpy(self->axes, padding.axes, bytes);
  self->padding.axes = self->axes;
  return self;
}

// Takes all of it over; no `ended`: none.
static ls_nest masked_dict(ls_nest features, ls_nest labels, ls_nest mask,
                           ls_nest ended) {
  const char *keys[4] = {"features"};
  ls_nest items[4] = {features};
  const ls_nest more[] = {labels, mask, ended};
  static const char *const names[] = {"labels", "mask", "ended"};
  size_t count = 1;
  for (size_t i = 0; i < LS_COUNT_OF(more); ++i) {
    if (more[i].kind == LS_KIND_NONE) continue;
    keys[count] = names[i];
    items[count++] = more[i];
  }
  return ls_nest_dict("", keys, items, count);
}

static ls_nest mask_element(ls_nest element, const ls_map_call *call,
                            void *user) {
  const masked *self = user;
  const ls_batch_padding padding = self->padding;
  ls_nest features, labels;
  int64_t count = 0;
  (void)call;
  ls_status status = ls_returned_split(element, &features, &labels);
  if (ls_status_is_ok(status))
    status = ls_padding_count(padding, features, &count);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const size_t leaves = ls_nest_num_leaves(features);
  return masked_dict(
      ls_pad_arrays(padding, features, count),
      ls_pad_arrays(ls_padding_behind(padding, leaves), labels, count),
      ls_padding_real(padding, count),
      self->tells_end ? ls_nest_zeros(LS_DTYPE_BOOL, LS_SCALAR) : ls_none());
}

// What padded elements are.
static ls_nest masked_specs(const ls_dataset *dataset, ls_batch_padding padding,
                            bool tells_end) {
  const ls_nest all = ls_dataset_spec_nest(dataset);
  ls_nest features, labels;
  ls_status status = ls_nest_status(all);
  if (ls_status_is_ok(status))
    status = ls_returned_split(all, &features, &labels);
  if (!ls_status_is_ok(status)) {
    ls_nest_release(all);
    return ls_fail(status);
  }
  const size_t leaves = ls_nest_num_leaves(features);
  const ls_nest made = masked_dict(
      ls_pad_specs(padding, features),
      ls_pad_specs(ls_padding_behind(padding, leaves), labels),
      ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(ls_padding_size(padding))),
      tells_end ? ls_nest_spec(LS_DTYPE_BOOL, LS_SCALAR) : ls_none());
  ls_nest_release(all);
  return made;
}

static ls_nest zeros_of(ls_nest leaf, void *user) {
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  (void)user;
  return ls_nest_zeros(spec->type.dtype, spec->type.shape);
}

static ls_nest make_nothing(void *user, int64_t index) {
  (void)index;
  return ls_nest_retain(((const masked *)user)->element);
}

// What padding alone is, of such specs.
static ls_nest nothing_of(ls_nest specs) {
  const ls_nest zeros = ls_nest_map(specs, zeros_of, NULL);
  ls_array *ended = ls_nest_as_array(ls_nest_find(zeros, "ended"));
  if (ended != NULL) ls_array_set_i64(ended, 0, 1);
  return zeros;
}

static ls_dataset *nothing(ls_nest specs, ls_batch_padding padding,
                           int64_t count) {
  masked *self = new_masked(padding, false, nothing_of(specs));
  if (self == NULL) {
    ls_nest_release(specs);
    return NULL;
  }
  return ls_dataset_from_function(
      &(ls_index_options){.name = "padding",
                          .size = count,
                          .element = specs,
                          .make = make_nothing,
                          .user = self,
                          .release = release_masked});
}

ls_dataset *ls_masked_batches(ls_dataset *dataset, ls_batch_padding padding,
                              int64_t more) {
  if (dataset == NULL || !ls_status_is_ok(dataset->failure)) return dataset;
  const bool tells_end = more == LS_INFINITE, pads = more > 0 || tells_end;
  const ls_nest specs = masked_specs(dataset, padding, tells_end);
  ls_status status = ls_nest_status(specs);
  if (ls_status_is_ok(status))
    status = ls_returned_check_static(ls_nest_find(specs, "features"),
                                      ls_nest_find(specs, "labels"));
  if (!ls_status_is_ok(status)) {
    ls_nest_release(specs);
    return batches_refuse(dataset, status);
  }
  ls_dataset *behind =
      pads ? nothing(ls_nest_retain(specs), padding, more) : NULL;
  masked *self = new_masked(padding, tells_end, ls_none());
  if (self == NULL) {
    ls_nest_release(specs);
    ls_dataset_release(behind);
    return batches_refuse(dataset, ls_out_of_memory());
  }
  dataset = ls_dataset_map(dataset, &(ls_map_options){.name = "mask_batches",
                                                      .call = mask_element,
                                                      .user = self,
                                                      .release = release_masked,
                                                      .result = specs});
  return pads ? ls_dataset_concatenate(dataset, behind) : dataset;
}
