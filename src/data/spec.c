// SPDX-License-Identifier: Apache-2.0
// Specs: the types common to all elements of a data set.
#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "data/composite.h"
#include "lockstep/element_spec.h"
#include "lockstep/shape_rules.h"

// ---- Leaves that are types -------------------------------------------------
typedef struct spec_leaf {
  ls_object object;
  ls_allocator *allocator;
  ls_leaf_spec spec;
} spec_leaf;

static void destroy_spec(ls_object *object) {
  spec_leaf *self = (spec_leaf *)object;
  ls_release(self->allocator, self);
}

static const char *kind_prefix(ls_leaf_kind kind) {
  return kind == LS_LEAF_SPARSE   ? "sparse "
         : kind == LS_LEAF_RAGGED ? "ragged "
                                  : "";
}

static const char *print_leaf(const ls_leaf_spec *spec, char *buffer,
                              size_t size) {
  ls_format(buffer, size, "%s%s", kind_prefix(spec->kind),
            LS_SHAPE_TEXT(spec->type.dtype, spec->type.shape));
  return buffer;
}

static void print_spec(const ls_object *object, char *buffer, size_t size) {
  print_leaf(&((const spec_leaf *)object)->spec, buffer, size);
}

static const ls_object_type spec_type = {
    .name = "spec", .destroy = destroy_spec, .print = print_spec};

ls_nest ls_nest_spec_of(const ls_leaf_spec *spec) {
  if (spec == NULL) return ls_fail(ls_null_argument("ls_nest_spec_of", "spec"));
  if ((unsigned)spec->kind > LS_LEAF_RAGGED)
    return LS_FAIL(LS_INVALID_ARGUMENT, "there is no leaf of kind %d",
                   (int)spec->kind);
  if (spec->type.dtype <= LS_DTYPE_NONE || spec->type.dtype >= LS_DTYPE_COUNT)
    return LS_FAIL(LS_INVALID_ARGUMENT, "a leaf of a data set without a type");
  LS_RETURN_FAILED_IF_ERROR(ls_shape_check(spec->type.shape));
  ls_allocator *allocator = ls_current_allocator();
  spec_leaf *self = ls_new(allocator, spec_leaf);
  if (self == NULL) return ls_fail(ls_out_of_memory());
  ls_object_init(&self->object, &spec_type);
  self->allocator = allocator;
  self->spec = *spec;
  return ls_nest_object(LS_KIND_OBJECT, &self->object);
}

ls_nest ls_nest_spec(ls_dtype dtype, ls_shape shape) {
  return ls_nest_spec_of(&(ls_leaf_spec){.type = {dtype, shape}});
}

const ls_leaf_spec *ls_nest_as_spec(ls_nest leaf) {
  if (leaf.kind != LS_KIND_OBJECT || leaf.as.ref == NULL) return NULL;
  const ls_object *object = leaf.as.ref;
  return object->type == &spec_type ? &((const spec_leaf *)object)->spec : NULL;
}

// ---- Spec of a data set ----------------------------------------------------

// Replaces a structure's leaves by their numbers in flattening order.
static ls_nest number_leaves(ls_nest structure) {
  const size_t count = ls_nest_num_leaves(structure);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_nest, numbers, count);
  if (numbers == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    numbers[i] = ls_nest_i64((int64_t)i);
  return ls_nest_pack(structure, numbers, count);
}

static bool is_plain(const ls_leaf_spec *leaf) {
  return leaf->kind == LS_LEAF_DENSE && ls_shape_is_known(leaf->type.shape) &&
         !ls_dtype_owns_elements(leaf->type.dtype);
}

// Finds out if elements are rows, and their sizes.
static ls_status measure_rows(ls_dataset *self) {
  ls_release(self->allocator, self->row_sizes);
  self->rows = false;
  LS_SET_ARRAY_OR_RETURN(self->allocator, size_t, self->row_sizes,
                         self->num_leaves);
  for (size_t i = 0; i < self->num_leaves; ++i) {
    const ls_type *type = &self->leaves[i].type;
    if (!is_plain(&self->leaves[i])) return ls_ok();
    self->row_sizes[i] =
        (size_t)ls_shape_num_elements(type->shape) * ls_dtype_size(type->dtype);
  }
  self->rows = true;
  return ls_ok();
}

ls_status ls_dataset_set_leaves(ls_dataset *dataset, ls_nest structure,
                                const ls_leaf_spec *leaves, size_t count) {
  LS_OWN(ls_nest, given) = structure;
  LS_OWN_ARRAY_OR_RETURN(dataset->allocator, ls_leaf_spec, copy, count);
  if (count > 0) memcpy(copy, leaves, count * sizeof(*copy));
  LS_OWN(ls_nest, numbered) = number_leaves(given);
  LS_RETURN_IF_ERROR(ls_nest_status(numbered));
  ls_nest_release(dataset->structure);
  ls_release(dataset->allocator, dataset->leaves);
  dataset->structure = ls_give(&numbered);
  dataset->leaves = ls_give(&copy);
  dataset->num_leaves = count;
  return measure_rows(dataset);
}

ls_status ls_dataset_set_spec(ls_dataset *dataset, ls_nest spec) {
  LS_OWN(ls_nest, given) = spec;
  LS_RETURN_IF_ERROR(ls_nest_status(given));
  const size_t count = ls_nest_num_leaves(given);
  if (count == 0) return ls_invalid_argument("elements without a leaf");
  LS_OWN_ARRAY_OR_RETURN(dataset->allocator, ls_nest, items, count);
  LS_OWN_ARRAY_OR_RETURN(dataset->allocator, ls_leaf_spec, leaves, count);
  ls_nest_flatten(given, items, count);
  for (size_t i = 0; i < count; ++i) {
    const ls_leaf_spec *leaf = ls_nest_as_spec(items[i]);
    if (leaf == NULL)
      return ls_invalid_argument(
          "leaf %zu of the element's types is no ls_nest_spec", i);
    leaves[i] = *leaf;
  }
  return ls_dataset_set_leaves(dataset, ls_give(&given), leaves, count);
}

static ls_nest leaf_spec_nest(ls_nest leaf, void *user) {
  const ls_dataset *self = user;
  return ls_nest_spec_of(&self->leaves[leaf.as.i64]);
}

ls_nest ls_dataset_spec_nest(const ls_dataset *dataset) {
  return ls_nest_map(dataset->structure, leaf_spec_nest,
                     (void *)(uintptr_t)dataset);
}

static ls_nest spec_of_leaf(ls_nest leaf, void *user) {
  (void)user;
  ls_leaf_spec spec;
  const ls_status status = ls_nest_leaf_spec(leaf, &spec);
  return ls_status_is_ok(status) ? ls_nest_spec_of(&spec) : ls_fail(status);
}

ls_nest ls_spec_of_element(ls_nest element) {
  return ls_nest_map(element, spec_of_leaf, NULL);
}

// ---- Getters ---------------------------------------------------------------
ls_status ls_dataset_spec(const ls_dataset *dataset,
                          ls_element_spec *out_spec) {
  LS_REQUIRE_OUT(out_spec);
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  *out_spec = (ls_element_spec){.structure = dataset->structure,
                                .leaves = dataset->leaves,
                                .count = dataset->num_leaves};
  return ls_ok();
}

void ls_structure_print(ls_nest node, const ls_leaf_spec *leaves,
                        ls_text *text) {
  char leaf[256];
  if (!ls_nest_is_node(node)) {
    if (leaves == NULL)
      ls_text_append_i64(text, node.as.i64);
    else
      ls_text_append(text,
                     print_leaf(&leaves[node.as.i64], leaf, sizeof(leaf)));
    return;
  }
  const char *brackets = node.kind == LS_KIND_LIST   ? "[]"
                         : node.kind == LS_KIND_DICT ? "{}"
                                                     : "()";
  ls_text_append_char(text, brackets[0]);
  for (size_t i = 0; i < ls_nest_count(node); ++i) {
    const char *key = ls_nest_key(node, i);
    if (i > 0) ls_text_append(text, ", ");
    if (key != NULL) ls_text_append_format(text, "%s: ", key);
    ls_structure_print(ls_nest_item(node, i), leaves, text);
  }
  ls_text_append_char(text, brackets[1]);
}

const char *ls_element_spec_print(const ls_element_spec *spec, char *buffer,
                                  size_t size) {
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  if (spec != NULL && spec->count > 0)
    ls_structure_print(spec->structure, spec->leaves, &text);
  ls_format(buffer, size, "%s", ls_text_data(&text));
  return buffer;
}

static bool leaf_fits(const ls_leaf_spec *spec, ls_nest leaf) {
  const ls_array *array = ls_nest_as_array(leaf);
  const ls_composite *composite = ls_nest_as_composite(leaf);
  if (array != NULL)
    return spec->kind == LS_LEAF_DENSE &&
           ls_array_dtype(array) == spec->type.dtype &&
           ls_shape_compatible(ls_array_shape(array), spec->type.shape);
  return composite != NULL && spec->kind == composite->spec.kind &&
         spec->type.dtype == composite->spec.type.dtype &&
         ls_shape_compatible(composite->spec.type.shape, spec->type.shape);
}

ls_status ls_element_check(const ls_element_spec *spec, ls_allocator *allocator,
                           ls_nest element) {
  ls_nest room[16];
  ls_nest *leaves = room;
  const size_t count = ls_nest_num_leaves(element);
  LS_OWN_MEMORY(allocator, ls_nest, many) = NULL;
  LS_RETURN_IF_ERROR(ls_nest_same_structure(spec->structure, element));
  if (count > LS_COUNT_OF(room)) {
    leaves = many = ls_new_array(allocator, ls_nest, count);
    LS_RETURN_IF_NO_MEMORY(many);
  }
  ls_nest_flatten(element, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    if (leaf_fits(&spec->leaves[i], leaves[i])) continue;
    char found[256], wanted[256];
    ls_nest_print(leaves[i], found, sizeof(found));
    print_leaf(&spec->leaves[i], wanted, sizeof(wanted));
    return ls_invalid_argument("leaf %zu of an element is %s, where all are "
                               "%s; give the elements' types if they differ",
                               i, found, wanted);
  }
  return ls_ok();
}

ls_status ls_dataset_check_element(const ls_dataset *dataset, ls_nest element) {
  const ls_element_spec spec = {dataset->structure, dataset->leaves,
                                dataset->num_leaves};
  return ls_status_annotate(
      ls_element_check(&spec, dataset->allocator, element), "in data set '%s'",
      dataset->kind->name);
}
