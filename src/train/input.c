// SPDX-License-Identifier: Apache-2.0
#include "train/input.h"

#include <math.h>

#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/iterator.h"
#include "lockstep/training_parts.h"

// Buffer for shuffling a stream, whose permutation cannot be computed.
enum { SHUFFLE_BUFFER = 10000 };

static bool has_numbers(const ls_model_type *type) {
  return ls_model_type_task(type)->label_dtype == LS_DTYPE_F32;
}

static ls_dtype input_dtype_of(const ls_model_type *type) {
  return type->example_dtype != LS_DTYPE_NONE ? type->example_dtype
                                              : LS_DTYPE_F32;
}

// ---- Checks ----------------------------------------------------------------
// Prints "f32[16] of 4 classes"; for labels that are no scalars, or no classes,
// their type, too.
static void print_data(ls_dtype dtype, ls_shape example, const ls_type *label,
                       int64_t classes, char *buffer, size_t size) {
  char suffix[40] = "";
  const bool are_floats = ls_dtype_is_float(label->dtype);
  const bool is_shown = label->shape.rank > 0 || are_floats;
  const ls_dtype dtype_of_labels = are_floats ? label->dtype : LS_DTYPE_I32;
  if (classes >= 0)
    ls_format(suffix, sizeof(suffix), " of %lld class%s", (long long)classes,
              classes == 1 ? "" : "es");
  ls_format(buffer, size, "%s%s%s%s", LS_SHAPE_TEXT(dtype, example),
            is_shown ? " labelled " : "",
            is_shown ? LS_SHAPE_TEXT(dtype_of_labels, label->shape) : "",
            suffix);
}

static ls_status input_check_pair(const ls_element_spec *spec) {
  if (spec->count == 2 && spec->structure.kind == LS_KIND_TUPLE &&
      ls_nest_count(spec->structure) == 2 &&
      spec->leaves[0].kind == LS_LEAF_DENSE &&
      spec->leaves[1].kind == LS_LEAF_DENSE)
    return ls_ok();
  char elements[256];
  return ls_invalid_argument(
      "the data's elements are %s; a model learns from tuples of an example "
      "and its label",
      ls_element_spec_print(spec, elements, sizeof(elements)));
}

static ls_status check_labels(const ls_model_type *type,
                              const ls_dataset *dataset, const ls_type *labels,
                              int64_t *out_classes) {
  int64_t least = 0, most = 0;
  const bool numbers = has_numbers(type);
  const bool are_floats = ls_dtype_is_float(labels->dtype);
  *out_classes = -1;
  if (!ls_dtype_is_integer(labels->dtype) && !(numbers && are_floats))
    return ls_invalid_argument(
        "labels of %s are %s, these are %s%s", ls_model_type_task(type)->name,
        numbers ? "numbers" : "integers",
        LS_SHAPE_TEXT(labels->dtype, labels->shape),
        are_floats ? ": numbers are learned by regression" : "");
  if (numbers) return ls_ok();
  if (!ls_dataset_bounds(dataset, 1, &least, &most)) return ls_ok();
  if (least < 0)
    return ls_invalid_argument("a label of the data is %lld: labels count "
                               "from 0",
                               (long long)least);
  *out_classes = most + 1;
  return ls_ok();
}

// Returns true if labels have the type's shape; numbers may have another one
// with as many elements, which is converted.
static bool fits_labels(const ls_model_type *type, ls_shape shape) {
  return has_numbers(type) && ls_shape_is_known(shape)
             ? ls_shape_num_elements(shape) ==
                   ls_shape_num_elements(type->label_shape)
             : ls_shape_equal(shape, type->label_shape);
}

// Returns true if all elements together have the shape of one example.
static bool is_single_example(const ls_dataset *dataset, ls_shape element,
                              ls_shape example) {
  if (element.rank + 1 != example.rank ||
      ls_dataset_cardinality(dataset) != example.dim[0])
    return false;
  for (int i = 0; i < element.rank; ++i)
    if (element.dim[i] != example.dim[i + 1]) return false;
  return true;
}

ls_status ls_train_check_data(const ls_model_type *type,
                              const ls_dataset *dataset) {
  LS_REQUIRE(type, dataset);
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(dataset, &spec));
  LS_RETURN_IF_ERROR(input_check_pair(&spec));
  const ls_type *example = &spec.leaves[0].type, *label = &spec.leaves[1].type;
  int64_t classes = 0;
  LS_RETURN_IF_ERROR(check_labels(type, dataset, label, &classes));
  if (ls_dataset_cardinality(dataset) == 0)
    return ls_invalid_argument("the data have no example");
  const ls_dtype wanted = input_dtype_of(type);
  // u8 is converted.
  if ((example->dtype == wanted || example->dtype == LS_DTYPE_U8) &&
      ls_shape_is_known(example->shape) &&
      ls_shape_num_elements(example->shape) ==
          ls_shape_num_elements(type->example_shape) &&
      fits_labels(type, label->shape) &&
      (classes <= type->num_classes ||
       (classes == LS_VOID_LABEL + 1 && ls_model_type_task(type)->has_void)))
    return ls_ok();
  char takes[480], are[480];
  print_data(
      wanted, type->example_shape,
      &(ls_type){ls_model_type_task(type)->label_dtype, type->label_shape},
      has_numbers(type) ? -1 : type->num_classes, takes, sizeof(takes));
  print_data(example->dtype == LS_DTYPE_U8 ? wanted : example->dtype,
             example->shape, label, classes, are, sizeof(are));
  return ls_invalid_argument(
      "model '%s' takes examples %s; these are %s%s", type->name, takes, are,
      is_single_example(dataset, example->shape, type->example_shape)
          ? "; if all of them are one example, give it a first dimension of 1"
          : "");
}

// Returns the first part of a leaf, in memory before its other parts, and the
// number of rows of all parts. A leaf that is not sharded is one part.
static const ls_array *input_first_part(ls_nest leaf, int64_t *out_rows) {
  const size_t parts = ls_distributed_count(leaf);
  *out_rows = 0;
  for (size_t i = 0; i < parts; ++i)
    *out_rows +=
        ls_array_shape(ls_nest_as_array(ls_distributed_component(leaf, i)))
            .dim[0];
  const ls_array *array = ls_nest_as_array(ls_distributed_component(leaf, 0));
  if (parts == 0) *out_rows = ls_array_shape(array).dim[0];
  return array;
}

// Checks the labels of a task whose labels are numbers.
static ls_status check_numbers(const ls_model_type *type, const float *data,
                               int64_t count, int64_t *out_row) {
  const bool is_binary = ls_model_type_task(type)->is_binary;
  const int64_t per_row = ls_shape_num_elements(type->label_shape);
  for (int64_t i = 0; i < count; ++i) {
    if (is_binary ? data[i] == 0 || data[i] == 1 : isfinite(data[i])) continue;
    char place[48] = "";
    if (out_row != NULL) *out_row = i / per_row;
    if (per_row > 1)
      ls_format(place, sizeof(place), " %lld of %lld",
                (long long)(i % per_row + 1), (long long)per_row);
    return ls_invalid_argument(
        "label%s of row %lld of a batch is %g: labels of %s are %s", place,
        (long long)(i / per_row), (double)data[i],
        ls_model_type_task(type)->name,
        is_binary ? "0 or 1" : "finite numbers");
  }
  return ls_ok();
}

ls_status ls_train_check_labels(const ls_model_type *type, ls_nest batch,
                                int64_t *out_row) {
  int64_t rows = 0;
  const ls_array *labels = input_first_part(ls_nest_item(batch, 1), &rows);
  const int32_t *data = ls_array_data(labels);
  const int64_t per_row = ls_shape_num_elements(type->label_shape);
  const int64_t count = rows * per_row;
  if (has_numbers(type))
    return check_numbers(type, ls_array_data(labels), count, out_row);
  const uint32_t classes = (uint32_t)type->num_classes;
  const bool has_void = ls_model_type_task(type)->has_void;
  for (int64_t i = 0; i < count; ++i) {
    if ((uint32_t)data[i] < classes || (has_void && data[i] == LS_VOID_LABEL))
      continue;
    if (out_row != NULL) *out_row = i / per_row;
    char more[80] = "";
    if (type->any_outputs && data[i] > 0 && data[i] < INT32_MAX)
      ls_format(more, sizeof(more),
                "; from the command: --outputs %d, or more, has it",
                (int)data[i] + 1);
    // Wider labels have been clamped.
    return ls_invalid_argument(
        "label %lld of a batch is %d%s: model '%s' has %lld classes, which "
        "count from 0%s",
        (long long)i, (int)data[i],
        data[i] == INT32_MAX   ? " or more"
        : data[i] == INT32_MIN ? " or less"
                               : "",
        type->name, (long long)type->num_classes, more);
  }
  return ls_ok();
}

// ---- Number of examples ----------------------------------------------------
static ls_status no_example(void) {
  return ls_invalid_argument("the data have no example");
}

ls_status ls_train_count_examples(const ls_dataset *dataset,
                                  int64_t *out_count) {
  LS_REQUIRE_OUT(out_count);
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  *out_count = ls_dataset_cardinality(dataset);
  if (*out_count > 0) return ls_ok();
  if (*out_count == 0) return no_example();
  if (*out_count == LS_INFINITE)
    return ls_invalid_argument("the data are infinite, so there is no epoch: "
                               "limit them by ls_dataset_take");
  ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "train",
                 "counting the examples by reading all");
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_RETURN_IF_ERROR(
      ls_iterator_create((ls_dataset *)(uintptr_t)dataset, NULL, &iterator));
  LS_OWN(ls_nest, element) = ls_none();
  ls_status status = ls_ok();
  for (*out_count = 0; ls_status_is_ok(status); ++*out_count)
    status = ls_iterator_next(iterator, &element);
  --*out_count;
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);
  return *out_count > 0 ? ls_ok() : no_example();
}

// ---- Batches ---------------------------------------------------------------
ls_dataset *ls_train_examples(const ls_model_type *type, ls_dataset *dataset,
                              bool shuffle) {
  ls_element_spec spec;
  ls_status status = ls_dataset_spec(dataset, &spec);
  const bool bytes =
      ls_status_is_ok(status) && spec.leaves[0].type.dtype == LS_DTYPE_U8;
  ls_status_free(status);
  const ls_dtype wanted = input_dtype_of(type);
  ls_dataset *made = ls_dataset_retain(dataset);
  if (shuffle)
    made = ls_dataset_shuffle(
        made, &(ls_shuffle_options){
                  .buffer = ls_dataset_is_indexed(made) ? 0 : SHUFFLE_BUFFER});
  // Tokens become none that there are, like labels.
  made = ls_dataset_convert_labels(
      made, 0,
      &(ls_convert_options){.dtype = wanted,
                            .scale =
                                bytes && wanted != LS_DTYPE_I32 ? 1.0 / 255 : 0,
                            .shape = &type->example_shape});
  return ls_dataset_convert_labels(
      made, 1,
      &(ls_convert_options){.dtype = ls_model_type_task(type)->label_dtype,
                            .shape =
                                has_numbers(type) ? &type->label_shape : NULL});
}

ls_dataset *ls_train_batches(const ls_model_type *type, ls_dataset *dataset,
                             int64_t batch_size, bool shuffle) {
  return ls_dataset_batch(ls_train_examples(type, dataset, shuffle),
                          &(ls_batch_options){.size = batch_size});
}

int64_t ls_train_batch_size(ls_nest batch) {
  int64_t rows = 0;
  (void)input_first_part(ls_nest_item(batch, 0), &rows);
  return rows;
}

// ---- Parts of replicas -----------------------------------------------------
static ls_nest split_leaf(ls_nest leaf, void *user) {
  ls_nest parts = {0};
  if (leaf.kind != LS_KIND_ARRAY) return ls_nest_retain(leaf);
  return ls_made_nest(ls_strategy_split(user, ls_nest_as_array(leaf), &parts),
                      &parts);
}

ls_status ls_train_split(ls_strategy *strategy, ls_nest batch,
                         ls_nest *out_args) {
  LS_REQUIRE_OUT(out_args, strategy);
  *out_args = ls_none();
  return ls_take_nest(ls_strategy_num_replicas(strategy) == 1
                          ? ls_nest_retain(batch)
                          : ls_nest_map(batch, split_leaf, strategy),
                      out_args);
}

// ---- Means -----------------------------------------------------------------
// Returns the first leaf with a component per replica, or an empty nest.
static ls_nest find_distributed(ls_nest nest) {
  if (nest.kind == LS_KIND_DISTRIBUTED) return nest;
  ls_nest found = ls_none();
  for (size_t i = 0; i < ls_nest_count(nest) && found.kind == LS_KIND_NONE; ++i)
    found = find_distributed(ls_nest_item(nest, i));
  return found;
}

static ls_status split_number(ls_nest leaf, double *out_number) {
  const ls_array *array = ls_nest_as_array(leaf);
  *out_number = (double)NAN;
  if (array == NULL || ls_array_num_elements(array) != 1)
    return ls_invalid_argument(
        "a mean over examples of a value that is no number");
  LS_RETURN_IF_ERROR(ls_array_wait(array));
  *out_number = ls_array_f64(array, 0);
  return ls_ok();
}

// Returns the number of examples of replica `r`; 1 if unknown.
static int64_t count_examples(ls_nest parts, size_t r) {
  if (parts.kind == LS_KIND_NONE) return 1;
  const ls_array *array = ls_nest_as_array(ls_distributed_component(parts, r));
  const ls_shape shape = array == NULL ? LS_SCALAR : ls_array_shape(array);
  return shape.rank < 1 ? 1 : shape.dim[0];
}

ls_status ls_train_mean(ls_nest args, ls_nest value, double *out_mean) {
  LS_REQUIRE_OUT(out_mean);
  const ls_nest parts = find_distributed(args);
  const size_t count = ls_distributed_count(value);
  if (count == 0) return split_number(value, out_mean);
  *out_mean = (double)NAN;
  if (parts.kind != LS_KIND_NONE && ls_distributed_count(parts) != count)
    return ls_invalid_argument("a mean of %zu numbers over the examples of %zu "
                               "replicas",
                               count, ls_distributed_count(parts));
  double sum = 0;
  int64_t all = 0;
  for (size_t r = 0; r < count; ++r) {
    const int64_t examples = count_examples(parts, r);
    double mean = 0;
    LS_RETURN_IF_ERROR(split_number(ls_distributed_component(value, r), &mean));
    if (examples > 0) sum += mean * (double)examples;
    all += examples;
  }
  *out_mean = sum / (double)all;
  return ls_ok();
}

// ---- Stop requests ---------------------------------------------------------
// Sets one lock-free flag, so that a signal handler may call this.
void ls_train_stop_request(ls_train_stop *stop) {
  __atomic_store_n(&stop->requested, 1, __ATOMIC_RELAXED);
}

bool ls_train_stop_requested(const ls_train_stop *stop) {
  return stop != NULL && __atomic_load_n(&stop->requested, __ATOMIC_RELAXED);
}

bool ls_train_stop_asked(void *stop) { return ls_train_stop_requested(stop); }
