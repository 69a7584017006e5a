// SPDX-License-Identifier: Apache-2.0
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/data.h"

struct ls_examples {
  ls_object object;
  ls_allocator *allocator;
  ls_array *examples;  // [n, ...] of u8, i32 or f32.
  ls_array *labels;    // [n, ...] of i32.
  int64_t num_classes;
};

static void destroy_dataset(ls_object *object) {
  ls_examples *dataset = (ls_examples *)object;
  ls_array_release(dataset->examples);
  ls_array_release(dataset->labels);
  ls_release(dataset->allocator, dataset);
}

static const ls_object_type dataset_type = {.name = "dataset",
                                            .destroy = destroy_dataset};

static ls_status check(const ls_array *examples, const ls_array *labels) {
  const ls_shape e = ls_array_shape(examples), l = ls_array_shape(labels);
  const ls_dtype type = ls_array_dtype(examples);
  if ((type != LS_DTYPE_U8 && type != LS_DTYPE_I32 && type != LS_DTYPE_F32) ||
      e.rank < 1)
    return ls_invalid_argument("the examples of a dataset must be u8[n,...], "
                               "i32[n,...] or f32[n,...], got %s",
                               LS_SHAPE_TEXT(type, e));
  if (!ls_dtype_is_integer(ls_array_dtype(labels)) || l.rank < 1)
    return ls_invalid_argument(
        "the labels of a dataset must be integers of shape [n,...], got %s",
        LS_SHAPE_TEXT(ls_array_dtype(labels), l));
  if (ls_shape_num_elements(l) == 0 && l.dim[0] != 0)
    return ls_invalid_argument(
        "a dataset needs at least one label for each example, got %s",
        LS_SHAPE_TEXT(ls_array_dtype(labels), l));
  if (e.dim[0] != l.dim[0] || e.dim[0] == 0)
    return ls_invalid_argument(
        "a dataset needs labels for each example: there are %lld examples and "
        "%lld labels",
        (long long)e.dim[0], (long long)l.dim[0]);
  return ls_ok();
}

// Labels as i32, and the largest plus one.
static ls_status convert_labels(const ls_array *labels, ls_array **out_labels,
                                int64_t *out_num_classes) {
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_I32, ls_array_shape(labels), out_labels));
  int32_t *to = ls_array_mutable_data(*out_labels);
  const int64_t count = ls_array_num_elements(labels);
  int64_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = ls_array_i64(labels, i);
    if (label < 0 || label > INT32_MAX - 1)
      return ls_invalid_argument(
          "label %lld of the dataset is %lld: labels count from 0",
          (long long)i, (long long)label);
    if (label > largest) largest = label;
    to[i] = (int32_t)label;
  }
  *out_num_classes = largest + 1;
  return ls_ok();
}

ls_status ls_examples_create(ls_array *examples, ls_array *labels,
                             ls_examples **out_dataset) {
  LS_REQUIRE(examples);
  LS_REQUIRE(labels);
  LS_REQUIRE(out_dataset);
  *out_dataset = NULL;
  LS_RETURN_IF_ERROR(check(examples, labels));
  ls_allocator *allocator = ls_current_allocator();
  ls_examples *dataset = ls_new(allocator, ls_examples);
  if (dataset == NULL) return ls_out_of_memory();
  ls_object_init(&dataset->object, &dataset_type);
  dataset->allocator = allocator;
  ls_status status =
      convert_labels(labels, &dataset->labels, &dataset->num_classes);
  if (!ls_status_is_ok(status)) {
    ls_examples_release(dataset);
    return status;
  }
  dataset->examples = ls_array_retain(examples);
  *out_dataset = dataset;
  return ls_ok();
}

ls_examples *ls_examples_retain(ls_examples *dataset) {
  return ls_object_retain(dataset);
}

void ls_examples_release(ls_examples *dataset) { ls_object_release(dataset); }

int64_t ls_examples_size(const ls_examples *dataset) {
  return ls_array_shape(dataset->labels).dim[0];
}

// The shape of one row of [n, ...].
static ls_shape row_shape(const ls_array *array) {
  const ls_shape whole = ls_array_shape(array);
  ls_shape shape = {.rank = whole.rank - 1};
  for (int i = 0; i < shape.rank; ++i)
    shape.dim[i] = whole.dim[i + 1];
  return shape;
}

ls_shape ls_examples_example_shape(const ls_examples *dataset) {
  return row_shape(dataset->examples);
}

ls_shape ls_examples_label_shape(const ls_examples *dataset) {
  return row_shape(dataset->labels);
}

int64_t ls_examples_num_classes(const ls_examples *dataset) {
  return dataset->num_classes;
}

ls_array *ls_examples_examples(const ls_examples *dataset) {
  return dataset->examples;
}

ls_array *ls_examples_labels(const ls_examples *dataset) {
  return dataset->labels;
}
