// SPDX-License-Identifier: Apache-2.0
// The structure of the tuples that are fed to cores.
#include "estimator/input/input.h"

#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/nest_internal.h"
#include "graph/region.h"

ls_recorder ls_recorder_begin(ls_nest dims) {
  return (ls_recorder){.dims = ls_nest_retain(dims),
                       .allocator = ls_current_allocator()};
}

void ls_recorder_deinit(ls_recorder *self) {
  ls_nest_release(self->dims);
  ls_nest_release(self->structure);
  if (self->parts != NULL) ls_release(self->allocator, self->parts);
  *self = (ls_recorder){0};
}

// ---- Partitions ------------------------------------------------------------
// Returns true for a list of integers, the numbers of parts along the
// dimensions.
static bool are_parts(ls_nest dims) {
  if (dims.kind == LS_KIND_NONE) return true;
  const size_t count = ls_nest_count(dims);
  if (dims.kind != LS_KIND_LIST && dims.kind != LS_KIND_TUPLE) return false;
  for (size_t i = 0; i < count; ++i) {
    const ls_nest item = ls_nest_item(dims, i);
    if (item.kind != LS_KIND_SCALAR || ls_dtype_is_float(item.dtype))
      return false;
  }
  return count > 0 && count <= LS_MAX_RANK;
}

static ls_shape recorder_parts_of(ls_nest dims) {
  if (dims.kind == LS_KIND_NONE) return LS_SHAPE_UNKNOWN;
  ls_shape parts = {.rank = (int32_t)ls_nest_count(dims)};
  for (int k = 0; k < parts.rank; ++k)
    parts.dim[k] = ls_nest_item(dims, (size_t)k).as.i64;
  return parts;
}

typedef struct cutting {
  const char *what;  // "features" or "labels".
  size_t number;     // Index in input_partition_dims.
  ls_shape *parts;
  size_t count;
} cutting;

static void append_keys(ls_text *text, ls_nest value) {
  const size_t count = ls_nest_has_keys(value) ? ls_nest_count(value) : 0;
  ls_text_append(text, "[");
  for (size_t i = 0; i < count; ++i)
    ls_text_append_format(
        text, "%s%s", i == 0 ? "" : ", ",
        ls_nest_key(value, ls_nest_sorted_position(value, i)));
  ls_text_append(text, "]");
}

static ls_status refuse_keys(const cutting *c, ls_nest value, ls_nest dims) {
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  ls_text_append(&text, "Expected ");
  append_keys(&text, value);
  ls_text_append(&text, ", got ");
  append_keys(&text, dims);
  return ls_invalid_argument(
      "TPUConfig.input_partition_dims[%zu] mismatched %s keys. %s", c->number,
      c->number == 0 ? "feature" : "label", ls_text_data(&text));
}

static bool same_keys(ls_nest a, ls_nest b) {
  const bool keys = a.kind == LS_KIND_DICT;
  if (keys != (b.kind == LS_KIND_DICT)) return false;
  if (!keys) return true;
  if (ls_nest_count(a) != ls_nest_count(b)) return false;
  for (size_t i = 0; i < ls_nest_count(a); ++i)
    if (strcmp(ls_nest_key(a, ls_nest_sorted_position(a, i)),
               ls_nest_key(b, ls_nest_sorted_position(b, i))) != 0)
      return false;
  return true;
}

// Walks values and their partitions in parallel, down to the leaves of the
// values.
static ls_status recorder_cut(cutting *c, ls_nest value, ls_nest dims) {
  if (!ls_nest_is_node(value) && are_parts(dims)) {
    c->parts[c->count++] = recorder_parts_of(dims);
    return ls_ok();
  }
  if (!ls_nest_is_node(value) || !ls_nest_is_node(dims) ||
      ls_nest_count(value) != ls_nest_count(dims) || !same_keys(value, dims))
    return ls_invalid_argument(
        "TPUConfig.input_partition_dims[%zu] mismatched the structure of %s",
        c->number, c->what);
  for (size_t i = 0; i < ls_nest_count(value); ++i)
    LS_RETURN_IF_ERROR(recorder_cut(c, ls_nest_item_sorted(value, i),
                                    ls_nest_item_sorted(dims, i)));
  return ls_ok();
}

static ls_status cut_all(cutting *c, ls_nest value, ls_nest dims) {
  return same_keys(value, dims) ? recorder_cut(c, value, dims)
                                : refuse_keys(c, value, dims);
}

static void leave_whole(cutting *c, ls_nest value) {
  const size_t count = ls_nest_num_leaves(value);
  for (size_t i = 0; i < count && value.kind != LS_KIND_NONE; ++i)
    c->parts[c->count++] = LS_SHAPE_UNKNOWN;
}

// Finds the partition of each leaf of a fed element.
static ls_status cut_fed(const ls_recorder *self, const ls_feed_element *fed,
                         ls_shape *parts) {
  const ls_nest features = ls_nest_item(self->dims, 0);
  const ls_nest labels = ls_nest_item(self->dims, 1);
  if (features.kind == LS_KIND_NONE)
    return ls_invalid_argument("TPUConfig.input_partition_dims[0] must not be "
                               "none: it partitions features");
  cutting c = {.what = "features", .parts = parts};
  LS_RETURN_IF_ERROR(cut_all(&c, fed->features, features));
  c.what = "labels";
  c.number = 1;
  if (labels.kind == LS_KIND_NONE)
    leave_whole(&c, fed->labels);
  else
    LS_RETURN_IF_ERROR(cut_all(&c, fed->labels, labels));
  leave_whole(&c, fed->mask);
  leave_whole(&c, fed->signals);
  return ls_ok();
}

// ---- Recording -------------------------------------------------------------
static ls_nest empty_leaf(ls_nest leaf, void *user) {
  (void)leaf, (void)user;
  return ls_none();
}

ls_status ls_recorder_note(ls_recorder *self, const ls_feed_element *fed) {
  if (self->structure.kind != LS_KIND_NONE) return ls_ok();
  LS_OWN(ls_nest, all) = ls_feed_element_dict(fed);
  LS_RETURN_IF_ERROR(ls_nest_status(all));
  LS_OWN_MEMORY(self->allocator, ls_shape, parts) = NULL;
  if (self->dims.kind != LS_KIND_NONE) {
    LS_SET_ARRAY_OR_RETURN(self->allocator, ls_shape, parts,
                           ls_nest_num_leaves(all) + 1);
    LS_RETURN_IF_ERROR(cut_fed(self, fed, parts));
  }
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_nest_map(all, empty_leaf, NULL), &self->structure));
  return ls_hand_over(&parts, &self->parts);
}

ls_status ls_recorder_flatten(const ls_recorder *self,
                              const ls_feed_element *fed, ls_nest *out_list) {
  *out_list = ls_none();
  LS_OWN(ls_nest, all) = ls_feed_element_dict(fed);
  LS_RETURN_IF_ERROR(ls_nest_status(all));
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_nest_same_structure(self->structure, all),
                         "the results of input functions differ"));
  const size_t count = ls_nest_num_leaves(all);
  LS_OWN_ARRAY_OR_RETURN(self->allocator, ls_nest, leaves, count + 1);
  ls_nest_flatten(all, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    ls_tensor value;
    LS_RETURN_IF_ERROR(ls_region_tensor(leaves[i], &value));
    leaves[i] = ls_leaf(value);
  }
  return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, leaves, count), out_list);
}

ls_status ls_recorder_parts(const ls_recorder *self, const ls_shape **out_parts,
                            size_t *out_count) {
  *out_parts = NULL;
  *out_count = 0;
  if (self->structure.kind == LS_KIND_NONE)
    return ls_failed_precondition("the partition of input is requested before "
                                  "its structure was recorded");
  *out_parts = self->parts;
  *out_count = ls_nest_num_leaves(self->structure);
  return ls_ok();
}

// ---- Restore the structure -------------------------------------------------
ls_status ls_recorder_unflatten(ls_nest structure, ls_nest elements,
                                ls_feed_element *out_fed) {
  *out_fed = (ls_feed_element){0};
  const size_t count = ls_nest_num_leaves(structure);
  if (structure.kind == LS_KIND_NONE)
    return ls_failed_precondition(
        "values are to get a structure before one was recorded");
  if (!ls_nest_is_node(elements) || ls_nest_count(elements) != count)
    return ls_invalid_argument("a tuple of %zu elements; the input has %zu",
                               ls_nest_count(elements), count);
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_nest, leaves, count + 1);
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_nest_retain(ls_nest_item(elements, i));
  LS_OWN(ls_nest, all) = ls_nest_pack(structure, leaves, count);
  LS_RETURN_IF_ERROR(ls_nest_status(all));
  ls_feed_element_take(all, out_fed);
  return ls_ok();
}
