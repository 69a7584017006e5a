// SPDX-License-Identifier: Apache-2.0
#include "support/inputs.h"

#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "distribute/base/strategy.h"
#include "distribute/input/input.h"
#include "distribute/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/strategy_extended.h"

// ---- Data sets --------------------------------------------------------------
ls_dataset *number_batches(int64_t count, int64_t size) {
  return ls_dataset_batch(ls_dataset_range(0, count, 1),
                          &(ls_batch_options){.size = size});
}

ls_dataset *whole_batches(int64_t count, int64_t size) {
  return ls_dataset_batch(
      ls_dataset_range(0, count, 1),
      &(ls_batch_options){.size = size, .remainder = LS_REMAINDER_DROP});
}

// Files `first`, `first` + `stride`, ...
typedef struct file_dataset {
  ls_dataset base;
  int64_t files, rows, first, stride;
} file_dataset;

static ls_status get_number(const ls_dataset *dataset, ls_fetch *fetch,
                            int64_t index, ls_nest *element) {
  (void)fetch;
  const file_dataset *self = (const file_dataset *)dataset;
  const ls_type type = {LS_DTYPE_I64, LS_SCALAR};
  const int64_t file = self->first + index / self->rows * self->stride;
  LS_RETURN_IF_ERROR(ls_element_reuse(dataset->structure, &type, 1, element));
  ls_array_set_i64(ls_nest_as_array(*element), 0,
                   10 * file + index % self->rows);
  return ls_ok();
}

static size_t count_files(const ls_dataset *dataset) {
  const file_dataset *self = (const file_dataset *)dataset;
  return (size_t)((self->files - self->first + self->stride - 1) /
                  self->stride);
}

static const char *name_file(const ls_dataset *dataset, size_t i) {
  (void)dataset;
  (void)i;
  return "made up";
}

static ls_dataset *make_files(int64_t files, int64_t rows, int64_t first,
                              int64_t stride);

static ls_dataset *shard_files(const ls_dataset *dataset, int64_t count,
                               int64_t index) {
  const file_dataset *self = (const file_dataset *)dataset;
  return make_files(self->files, self->rows, index, count);
}

static const ls_dataset_class file_class = {.name = "numbers_in_files",
                                            .get = get_number,
                                            .num_files = count_files,
                                            .file = name_file,
                                            .shard_files = shard_files};

static ls_dataset *make_files(int64_t files, int64_t rows, int64_t first,
                              int64_t stride) {
  file_dataset *self =
      LS_DATASET_NEW(file_dataset, &file_class, NULL, 0, ls_ok());
  assert_non_null(self);
  self->files = files;
  self->rows = rows;
  self->first = first;
  self->stride = stride;
  self->base.indexed = true;
  self->base.size = (int64_t)count_files(&self->base) * rows;
  return ls_dataset_fail(
      &self->base,
      ls_dataset_set_spec(&self->base, ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)));
}

ls_dataset *numbers_in_files(int64_t files, int64_t rows) {
  return make_files(files, rows, 0, 1);
}

// ---- A strategy on many hosts -----------------------------------------------
ls_strategy *pod_of(const char *const *devices, int32_t count) {
  static ls_strategy_class kind;
  ls_strategy *strategy = NULL;
  kind = ls_mirrored_strategy_class;
  kind.name = "pod strategy";
  kind.has_host_pipelines = true;
  expect_ok(ls_strategy_make(&kind, ls_runtime_current(), count, &strategy));
  for (int32_t i = 0; i < count; ++i)
    expect_ok(ls_strategy_place(strategy, i, devices[i]));
  expect_ok(ls_strategy_set_label(strategy, NULL));
  expect_ok(ls_strategy_set_cross_device(strategy, NULL));
  return strategy;
}

ls_strategy *pod_of_tasks(int32_t replicas, int32_t each) {
  enum { MOST = 16 };
  char texts[MOST][64];
  const char *devices[MOST];
  assert_true(replicas <= MOST);
  for (int32_t i = 0; i < replicas; ++i) {
    snprintf(texts[i], sizeof(texts[i]), "/job:worker/task:%d/device:TPU:%d",
             i / each, i % each);
    devices[i] = texts[i];
  }
  return pod_of(devices, replicas);
}

// ---- Distributing -----------------------------------------------------------
ls_nest distributed(ls_strategy *strategy, ls_dataset *dataset,
                    const ls_input_options *options) {
  ls_nest data = ls_none();
  LS_OWN(ls_nest, leaf) = ls_nest_dataset(dataset);
  expect_ok(
      ls_strategy_distribute_dataset_with(strategy, leaf, options, &data));
  return data;
}

void expect_refused(ls_strategy *strategy, ls_dataset *dataset,
                    const ls_input_options *options, ls_code code,
                    const char *says) {
  ls_nest data = ls_none();
  LS_OWN(ls_nest, leaf) = ls_nest_dataset(dataset);
  expect_status(
      ls_strategy_distribute_dataset_with(strategy, leaf, options, &data), code,
      says);
  assert_int_equal(data.kind, LS_KIND_NONE);
}

ls_distributed_iterator *iterator_on(ls_nest data) {
  ls_distributed_iterator *iterator = NULL;
  expect_ok(ls_distributed_iterator_create(data, NULL, &iterator));
  ls_nest_release(data);
  return iterator;
}

// ---- What came out ----------------------------------------------------------
static size_t print_numbers(ls_nest leaf, char *buffer, size_t size) {
  size_t at = 0;
  const ls_array *array = ls_nest_as_array(leaf);
  if (array == NULL) return (size_t)snprintf(buffer, size, "none");
  const bool rows = ls_array_shape(array).rank > 0;
  if (rows) at += (size_t)snprintf(buffer + at, size - at, "[");
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    at += (size_t)snprintf(buffer + at, size - at, "%s%lld", i == 0 ? "" : " ",
                           (long long)ls_array_i64(array, i));
  if (rows) at += (size_t)snprintf(buffer + at, size - at, "]");
  return at;
}

const char *print_dealt(ls_nest element, char *buffer, size_t size) {
  ls_nest leaf = ls_none();
  size_t at = 0;
  ls_nest_flatten(element, &leaf, 1);
  const size_t count = ls_distributed_count(leaf);
  buffer[0] = '\0';
  if (count == 0) print_numbers(leaf, buffer, size);
  for (size_t r = 0; r < count; ++r) {
    if (r > 0) at += (size_t)snprintf(buffer + at, size - at, " ");
    at += print_numbers(ls_distributed_component(leaf, r), buffer + at,
                        size - at);
  }
  return buffer;
}

void expect_dealt(ls_distributed_iterator *iterator,
                  const char *const *elements, size_t count) {
  char text[400];
  LS_OWN(ls_nest, element) = ls_none();
  for (size_t i = 0; i < count; ++i) {
    expect_ok(ls_distributed_iterator_next(iterator, &element));
    print_dealt(element, text, sizeof(text));
    if (strcmp(text, elements[i]) != 0)
      fail_msg("element %zu is %s, not %s", i, text, elements[i]);
  }
  for (int i = 0; i < 2; ++i)
    expect_status(ls_distributed_iterator_next(iterator, &element),
                  LS_OUT_OF_RANGE, "is at the end");
}

void expect_dealt_on(ls_strategy *strategy, ls_dataset *dataset,
                     const ls_input_options *options,
                     const char *const *elements, size_t count) {
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(strategy, dataset, options));
  expect_dealt(iterator, elements, count);
}
