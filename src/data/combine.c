// SPDX-License-Identifier: Apache-2.0
// Combines data sets: one after another, or side by side.
#include "base/memory/own.h"
#include "data/dataset.h"
#include "data/streams.h"
#include "lockstep/element_spec.h"

// ---- Concatenate -----------------------------------------------------------
static int64_t combine_sum(int64_t a, int64_t b) {
  int64_t all = 0;
  if (a == LS_INFINITE) return a;
  if (a < 0 || b < 0) return a < 0 ? a : b;
  return __builtin_add_overflow(a, b, &all) ? INT64_MAX : all;
}

// Returns which input has an index, and stores the index in that input.
static size_t side_of(const ls_dataset *dataset, int64_t index,
                      int64_t *out_inner) {
  const int64_t first = dataset->inputs[0]->size;
  const bool second = first >= 0 && index >= first;
  *out_inner = second ? index - first : index;
  return second;
}

static ls_status get_concatenated(const ls_dataset *dataset, ls_fetch *fetch,
                                  int64_t index, ls_nest *element) {
  int64_t inner = 0;
  const size_t side = side_of(dataset, index, &inner);
  return ls_dataset_get(dataset->inputs[side], fetch, inner, element);
}

// Reads neighbours from one input together.
static ls_status read_concatenated(const ls_dataset *dataset, ls_fetch *fetch,
                                   const int64_t *indices, size_t count,
                                   void *const *rows) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, int64_t, inner, count);
  LS_ROOM_OR_RETURN(fetch, void *, at, dataset->num_leaves);
  for (size_t begin = 0, end; begin < count; begin = end) {
    const size_t side = side_of(dataset, indices[begin], &inner[begin]);
    for (end = begin + 1; end < count; ++end) {
      if (side_of(dataset, indices[end], &inner[end]) != side) break;
    }
    ls_rows_at(dataset, rows, begin, at);
    LS_RETURN_IF_ERROR(ls_dataset_read(dataset->inputs[side], fetch,
                                       inner + begin, end - begin, at));
  }
  return ls_ok();
}

// Finds ids of neighbours from one input together.
static void find_concatenated_ids(const ls_dataset *dataset,
                                  const ls_fetch *fetch, const int64_t *indices,
                                  size_t count, int64_t *out) {
  for (size_t begin = 0, end; begin < count; begin = end) {
    int64_t inner = 0;
    const size_t side = side_of(dataset, indices[begin], &inner);
    for (end = begin; end < count; ++end) {
      if (side_of(dataset, indices[end], &inner) != side) break;
      out[end] = inner;
    }
    ls_dataset_find_ids(dataset->inputs[side], fetch, out + begin, end - begin,
                        out + begin);
    for (size_t i = begin; side == 1 && i < end; ++i)
      out[i] += dataset->inputs[0]->size;
  }
}

static ls_dataset *remake_concatenate(const ls_dataset *dataset,
                                      ls_dataset **inputs) {
  (void)dataset;
  return ls_dataset_concatenate(inputs[0], inputs[1]);
}

static const ls_dataset_class concatenate_class = {
    .name = "concatenate",
    .is_quick = true,
    .remake = remake_concatenate,
    .get_other = get_concatenated,
    .read = read_concatenated,
    .find_ids = find_concatenated_ids,
    .stage = &ls_concatenate_stage};

// Merges leaf `at` of `other` into `leaf`: the result describes both.
static ls_status merge_leaf(ls_leaf_spec *leaf, const ls_leaf_spec *other,
                            size_t at, const char *name) {
  ls_shape *shape = &leaf->type.shape;
  const ls_shape *other_shape = &other->type.shape;
  const bool ranks = shape->rank >= 0 && other_shape->rank >= 0;
  if (leaf->type.dtype != other->type.dtype || leaf->kind != other->kind ||
      (ranks && shape->rank != other_shape->rank))
    return ls_invalid_argument(
        "%s needs data sets of one kind: leaf %zu is %s in the first and %s in "
        "another",
        name, at, LS_SHAPE_TEXT(leaf->type.dtype, *shape),
        LS_SHAPE_TEXT(other->type.dtype, *other_shape));
  if (!ranks) *shape = (ls_shape){.rank = LS_UNKNOWN_RANK};
  for (int k = 0; k < shape->rank; ++k) {
    if (shape->dim[k] != other_shape->dim[k]) shape->dim[k] = LS_UNKNOWN_DIM;
  }
  return ls_ok();
}

ls_status ls_dataset_merge_leaves(ls_dataset *self) {
  const ls_dataset *a = self->inputs[0];
  LS_OWN_ARRAY_OR_RETURN(self->allocator, ls_leaf_spec, leaves, a->num_leaves);
  memcpy(leaves, a->leaves, a->num_leaves * sizeof(*leaves));
  for (size_t n = 1; n < self->num_inputs; ++n) {
    const ls_dataset *b = self->inputs[n];
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_nest_same_structure(a->structure, b->structure),
                           "%s of data sets", self->kind->name));
    for (size_t i = 0; i < a->num_leaves; ++i)
      LS_RETURN_IF_ERROR(
          merge_leaf(&leaves[i], &b->leaves[i], i, self->kind->name));
  }
  return ls_dataset_set_leaves(self, ls_nest_retain(a->structure), leaves,
                               a->num_leaves);
}

ls_dataset *ls_dataset_concatenate(ls_dataset *first, ls_dataset *second) {
  ls_dataset *inputs[2] = {first, second};
  ls_dataset *self =
      LS_DATASET_NEW(ls_dataset, &concatenate_class, inputs, 2, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->failure)) return self;
  self->size = combine_sum(first->size, second->size);
  self->most =
      first->size >= 0 ? combine_sum(second->most, first->size) : first->most;
  self->indexed =
      first->indexed && second->indexed && first->size != LS_UNKNOWN_SIZE;
  return ls_dataset_fail(self, ls_dataset_merge_leaves(self));
}

// ---- Zip -------------------------------------------------------------------
typedef ls_zip_dataset zip_dataset;

static void destroy_zip(ls_dataset *dataset) {
  ls_nest_release(((zip_dataset *)dataset)->shape);
}

ls_nest ls_zip_pack(const zip_dataset *self, const ls_nest *elements) {
  return ls_nest_pack(self->shape, elements, self->base.num_inputs);
}

static ls_status get_zipped(const ls_dataset *dataset, ls_fetch *fetch,
                            int64_t index, ls_nest *element) {
  const zip_dataset *self = (const zip_dataset *)dataset;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_OWN(ls_nests, parts) = {0};
  LS_RETURN_IF_ERROR(ls_nests_init(&parts, &fetch->stack, dataset->num_inputs));
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    LS_RETURN_IF_ERROR(
        ls_dataset_get(dataset->inputs[i], fetch, index, &parts.items[i]));
  parts.count = 0;  // The packed nest owns the parts.
  return ls_element_replace(ls_zip_pack(self, parts.items), element);
}

static ls_status read_zipped(const ls_dataset *dataset, ls_fetch *fetch,
                             const int64_t *indices, size_t count,
                             void *const *rows) {
  for (size_t i = 0; i < dataset->num_inputs; ++i) {
    LS_RETURN_IF_ERROR(
        ls_dataset_read(dataset->inputs[i], fetch, indices, count, rows));
    rows += dataset->inputs[i]->num_leaves;
  }
  return ls_ok();
}

// Appends the structure only; the inputs' descriptions contain the rest.
static void describe_zip(const ls_dataset *dataset, ls_text *text) {
  ls_structure_print(dataset->structure, NULL, text);
}

static ls_dataset *make_zip(ls_nest shape, ls_dataset *const *inputs,
                            size_t count);

static ls_dataset *remake_zip(const ls_dataset *dataset, ls_dataset **inputs) {
  return make_zip(ls_nest_retain(((const zip_dataset *)dataset)->shape), inputs,
                  dataset->num_inputs);
}

static const ls_dataset_class zip_class = {.name = "zip",
                                           .is_quick = true,
                                           .describe = describe_zip,
                                           .destroy = destroy_zip,
                                           .remake = remake_zip,
                                           .get_other = get_zipped,
                                           .read = read_zipped,
                                           .stage = &ls_zip_stage};

static int64_t smaller(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == LS_INFINITE) return b;
  if (b == LS_INFINITE) return a;
  if (a == LS_UNKNOWN_SIZE || b == LS_UNKNOWN_SIZE) return LS_UNKNOWN_SIZE;
  return a < b ? a : b;
}

// Makes the spec: the zipped structure with each leaf replaced by its input's
// spec.
static ls_status join_specs(zip_dataset *self) {
  ls_dataset *base = &self->base;
  LS_OWN_ARRAY_OR_RETURN(base->allocator, ls_nest, specs, base->num_inputs);
  for (size_t i = 0; i < base->num_inputs; ++i) {
    const ls_dataset *input = base->inputs[i];
    specs[i] = ls_dataset_spec_nest(input);
    if (input->most < base->most) base->most = input->most;
    base->size = i == 0 ? input->size : smaller(base->size, input->size);
    if (!input->indexed) base->indexed = false;
  }
  if (base->size > base->most) base->size = base->most;
  const ls_nest spec = ls_nest_pack(self->shape, specs, base->num_inputs);
  return ls_dataset_set_spec(base, spec);
}

static ls_dataset *make_zip(ls_nest shape, ls_dataset *const *inputs,
                            size_t count) {
  zip_dataset *self = LS_DATASET_NEW(zip_dataset, &zip_class, inputs, count,
                                     ls_nest_status(shape));
  if (self == NULL) {
    ls_nest_release(shape);
    return NULL;
  }
  self->shape = shape;
  if (!ls_status_is_ok(self->base.failure)) return &self->base;
  return ls_dataset_fail(&self->base, join_specs(self));
}

static ls_nest drop_leaf(ls_nest leaf, void *user) {
  (void)leaf, (void)user;
  return ls_none();
}

// Collects the data sets in a nest's leaves, retained.
static ls_status find_inputs(ls_nest datasets, ls_nest *leaves,
                             ls_dataset **inputs, size_t count) {
  ls_nest_flatten(datasets, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    ls_dataset *dataset = ls_nest_as_dataset(leaves[i]);
    if (dataset == NULL)
      return ls_invalid_argument(
          "leaf %zu to zip is no data set (ls_nest_dataset)", i);
    inputs[i] = dataset;
  }
  for (size_t i = 0; i < count; ++i)
    ls_dataset_retain(inputs[i]);
  return count > 0 ? ls_ok() : ls_invalid_argument("zip of no data set");
}

// Makes the array of inputs, retained, from a nest of data sets.
static ls_status open_inputs(ls_nest datasets, ls_allocator *allocator,
                             size_t count, ls_dataset ***out_inputs) {
  LS_RETURN_IF_ERROR(ls_nest_status(datasets));
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_dataset *, inputs, count);
  LS_RETURN_IF_ERROR(find_inputs(datasets, leaves, inputs, count));
  return ls_hand_over(&inputs, out_inputs);
}

ls_dataset *ls_dataset_zip(ls_nest datasets) {
  LS_OWN(ls_nest, owned) = datasets;
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = ls_nest_num_leaves(datasets);
  LS_OWN_MEMORY(allocator, ls_dataset *, inputs) = NULL;
  const ls_status status = open_inputs(datasets, allocator, count, &inputs);
  return ls_status_is_ok(status)
             ? make_zip(ls_nest_map(datasets, drop_leaf, NULL), inputs, count)
             : ls_dataset_new(&zip_class, sizeof(zip_dataset), NULL, 0, status);
}
