// SPDX-License-Identifier: Apache-2.0
// Sources without files: arrays, ranges, functions of an index.
#include "base/memory/own.h"

#include <string.h>

#include "base/plain.h"
#include "base/require.h"
#include "data/dataset.h"
#include "lockstep/element_spec.h"

static ls_dataset *new_source(const ls_dataset_class *kind, size_t bytes) {
  ls_dataset *self = ls_dataset_new(kind, bytes, NULL, 0, ls_ok());
  if (self != NULL) self->indexed = true;
  return self;
}

// ---- Arrays ----------------------------------------------------------------
typedef struct arrays_dataset {
  ls_dataset base;
  ls_nest arrays;
  const char **data;         // Address of each leaf's data.
  const ls_array **columns;  // The leaves, lent.
  uint64_t hash;             // Hash of the contents; 0: not computed. Atomic.
} arrays_dataset;

static void destroy_arrays(ls_dataset *dataset) {
  arrays_dataset *self = (arrays_dataset *)dataset;
  ls_nest_release(self->arrays);
  ls_release(dataset->allocator, self->data);
  ls_release(dataset->allocator, self->columns);
}

// Returns a hash of the arrays' contents, computed when first needed.
static uint64_t contents_of(const ls_dataset *dataset) {
  const arrays_dataset *self = (const arrays_dataset *)dataset;
  uint64_t hash = __atomic_load_n(&self->hash, __ATOMIC_RELAXED);
  if (hash != 0) return hash;
  for (size_t i = 0; i < dataset->num_leaves; ++i)
    hash = ls_hash_array(self->columns[i], hash);
  hash += hash == 0;
  __atomic_store_n((uint64_t *)(uintptr_t)&self->hash, hash, __ATOMIC_RELAXED);
  return hash;
}

static void describe_arrays(const ls_dataset *dataset, ls_text *text) {
  ls_text_append_format(text, "%lld of ", (long long)dataset->size);
  ls_structure_print(dataset->structure, dataset->leaves, text);
  ls_text_append_format(text, ", %016llx",
                        (unsigned long long)contents_of(dataset));
}

static ls_status read_arrays(const ls_dataset *dataset, ls_fetch *fetch,
                             const int64_t *indices, size_t count,
                             void *const *rows) {
  (void)fetch;
  const arrays_dataset *self = (const arrays_dataset *)dataset;
  for (size_t leaf = 0; leaf < dataset->num_leaves; ++leaf) {
    const size_t size = dataset->row_sizes[leaf];
    char *to = rows[leaf];
    for (size_t i = 0; i < count; ++i, to += size)
      memcpy(to, self->data[leaf] + (size_t)indices[i] * size, size);
  }
  return ls_ok();
}

static ls_status get_arrays(const ls_dataset *dataset, ls_fetch *fetch,
                            int64_t index, ls_nest *element) {
  (void)fetch;
  const arrays_dataset *self = (const arrays_dataset *)dataset;
  return ls_element_replace(ls_nest_map(self->arrays, ls_copy_row, &index),
                            element);
}

static bool array_bounds(const ls_dataset *dataset, size_t leaf,
                         int64_t *out_least, int64_t *out_most) {
  const arrays_dataset *self = (const arrays_dataset *)dataset;
  const ls_array *array = self->columns[leaf];
  const int64_t count = ls_array_num_elements(array);
  if (!ls_dtype_is_integer(ls_array_dtype(array)) || count == 0) return false;
  *out_least = INT64_MAX;
  *out_most = INT64_MIN;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = ls_array_i64(array, i);
    if (value < *out_least) *out_least = value;
    if (value > *out_most) *out_most = value;
  }
  return true;
}

static const ls_dataset_class arrays_class = {
    .name = "arrays",
    .is_quick = true,
    .destroy = destroy_arrays,
    .describe = describe_arrays,
    .get_other = get_arrays,  // Copies a row with strings.
    .read = read_arrays,
    .bounds = array_bounds};

// Makes the spec of a leaf's rows; the first leaf sets the number of rows.
typedef struct row_count {
  int64_t rows;
  int64_t leaf;
} row_count;

static ls_nest row_spec(ls_nest leaf, void *user) {
  row_count *count = user;
  const ls_array *array = ls_nest_as_array(leaf);
  const int64_t number = count->leaf++;
  if (array == NULL || ls_array_shape(array).rank < 1)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "leaf %lld of a data set of arrays is %s: rows are the "
                   "first dimension of an array",
                   (long long)number, array == NULL ? "no array" : "a scalar");
  ls_shape shape = ls_array_shape(array);
  if (number == 0) count->rows = shape.dim[0];
  if (shape.dim[0] != count->rows)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "leaf %lld of a data set of arrays has %lld rows, leaf 0 "
                   "has %lld",
                   (long long)number, (long long)shape.dim[0],
                   (long long)count->rows);
  return ls_nest_spec(ls_array_dtype(array), ls_row_shape(shape));
}

// Finds the elements' spec and the address of each leaf's data.
static ls_status find_data(arrays_dataset *self) {
  ls_dataset *base = &self->base;
  row_count count = {0};
  LS_RETURN_IF_ERROR(ls_nest_status(self->arrays));
  LS_RETURN_IF_ERROR(
      ls_dataset_set_spec(base, ls_nest_map(self->arrays, row_spec, &count)));
  base->size = count.rows;
  LS_OWN_ARRAY(base->allocator, ls_nest, leaves, base->num_leaves);
  self->data = ls_new_array(base->allocator, const char *, base->num_leaves);
  self->columns =
      ls_new_array(base->allocator, const ls_array *, base->num_leaves);
  if (leaves == NULL || self->data == NULL || self->columns == NULL)
    return ls_out_of_memory();
  ls_nest_flatten(self->arrays, leaves, base->num_leaves);
  for (size_t i = 0; i < base->num_leaves; ++i) {
    self->columns[i] = ls_nest_as_array(leaves[i]);
    self->data[i] = ls_array_data(self->columns[i]);
  }
  return ls_ok();
}

ls_dataset *ls_dataset_from_arrays(ls_nest arrays) {
  arrays_dataset *self =
      (arrays_dataset *)new_source(&arrays_class, sizeof(*self));
  if (self == NULL) {
    ls_nest_release(arrays);
    return NULL;
  }
  self->arrays = arrays;
  return ls_dataset_fail(&self->base, find_data(self));
}

// ---- Ranges ----------------------------------------------------------------
typedef struct range_dataset {
  ls_dataset base;
  int64_t start, stop, step;
} range_dataset;

static void describe_range(const ls_dataset *dataset, ls_text *text) {
  const range_dataset *self = (const range_dataset *)dataset;
  ls_text_append_format(text, "%lld, %lld, %lld", (long long)self->start,
                        (long long)self->stop, (long long)self->step);
}

static ls_status read_range(const ls_dataset *dataset, ls_fetch *fetch,
                            const int64_t *indices, size_t count,
                            void *const *rows) {
  (void)fetch;
  const range_dataset *self = (const range_dataset *)dataset;
  int64_t *to = rows[0];
  for (size_t i = 0; i < count; ++i)
    to[i] = (int64_t)((uint64_t)self->start +
                      (uint64_t)indices[i] * (uint64_t)self->step);
  return ls_ok();
}

static const ls_dataset_class range_class = {.name = "range",
                                             .is_quick = true,
                                             .describe = describe_range,
                                             .read = read_range};

ls_dataset *ls_dataset_range(int64_t start, int64_t stop, int64_t step) {
  range_dataset *self =
      (range_dataset *)new_source(&range_class, sizeof(*self));
  if (self == NULL) return NULL;
  self->start = start;
  self->stop = stop;
  self->step = step;
  if (step == 0)
    return ls_dataset_fail(&self->base,
                           ls_invalid_argument("a range with a step of 0"));
  const bool up = step > 0;
  if (up ? start < stop : start > stop) {
    const uint64_t span = up ? (uint64_t)stop - (uint64_t)start
                             : (uint64_t)start - (uint64_t)stop;
    const uint64_t by = up ? (uint64_t)step : -(uint64_t)step;
    const uint64_t size = (span - 1) / by + 1;
    if (size > INT64_MAX)
      return ls_dataset_fail(
          &self->base,
          ls_invalid_argument("a range of %llu elements: %lld are possible",
                              (unsigned long long)size, (long long)INT64_MAX));
    self->base.size = (int64_t)size;
  }
  return ls_dataset_fail(
      &self->base,
      ls_dataset_set_spec(&self->base, ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)));
}

// ---- Functions -------------------------------------------------------------
typedef struct function_dataset {
  ls_dataset base;
  ls_index_options options;
  char name[64];
} function_dataset;

static void describe_function(const ls_dataset *dataset, ls_text *text) {
  const function_dataset *self = (const function_dataset *)dataset;
  ls_text_append_format(text, "%s, %lld of ", self->name,
                        (long long)dataset->size);
  ls_structure_print(dataset->structure, dataset->leaves, text);
}

static ls_status call_function(const function_dataset *self, int64_t index,
                               ls_nest *element) {
  const ls_index_options *options = &self->options;
  if (options->get != NULL) {
    LS_RETURN_IF_ERROR(ls_element_reuse_row(&self->base, element));
    return options->get(options->user, index, *element);
  }
  LS_RETURN_IF_ERROR(
      ls_element_replace(options->make(options->user, index), element));
  return ls_dataset_check_element(&self->base, *element);
}

static ls_status get_function(const ls_dataset *dataset, ls_fetch *fetch,
                              int64_t index, ls_nest *element) {
  (void)fetch;
  const function_dataset *self = (const function_dataset *)dataset;
  return ls_status_annotate(call_function(self, index, element),
                            "element %lld of '%s'", (long long)index,
                            self->name);
}

static const ls_dataset_class function_class = {
    .name = "function", .describe = describe_function, .get = get_function};

static ls_status fill_function(function_dataset *self,
                               const ls_index_options *options) {
  self->options = *options;
  self->base.size = options->size;
  ls_format(self->name, sizeof(self->name), "%s",
            options->name != NULL ? options->name : "function");
  self->base.title = self->name;
  LS_RETURN_IF_ERROR(ls_dataset_set_spec(&self->base, options->element));
  if ((options->get == NULL) == (options->make == NULL))
    return ls_invalid_argument("a data set of a function needs one of `get` "
                               "and `make`");
  if (options->size < 0 && options->size != LS_INFINITE)
    return ls_invalid_argument("a data set of %lld elements",
                               (long long)options->size);
  if (options->get != NULL && !self->base.rows)
    return ls_invalid_argument("`get` of a data set writes into arrays of "
                               "known shapes; give `make` where they differ");
  return ls_ok();
}

ls_dataset *ls_dataset_from_function(const ls_index_options *options) {
  LS_DATASET_REQUIRE(options, function_dataset, &function_class, NULL, 0);
  function_dataset *self = (function_dataset *)ls_dataset_new_with(
      &function_class, sizeof(*self), NULL, 0,
      ls_user_create(options->user, options->release), ls_ok());
  if (self == NULL || !ls_status_is_ok(self->base.failure)) {
    ls_nest_release(options->element);
    return (ls_dataset *)self;
  }
  self->base.indexed = true;
  return ls_dataset_fail(&self->base, fill_function(self, options));
}

// ---- Hashes ----------------------------------------------------------------
// Works in rounds like those of xxHash64, in four lanes.
enum { LANES = 4 };
static const uint64_t first_prime = UINT64_C(0x9E3779B185EBCA87);
static const uint64_t second_prime = UINT64_C(0xC2B2AE3D27D4EB4F);

static inline uint64_t rotated(uint64_t x, int by) {
  return x << by | x >> (64 - by);
}

static inline uint64_t mixed(uint64_t lane, uint64_t word) {
  return rotated(lane + word * second_prime, 31) * first_prime;
}

static uint64_t hash_bytes(const void *data, size_t size, uint64_t before) {
  const char *at = data;
  uint64_t lanes[LANES] = {before, before + first_prime, before + second_prime,
                           before - first_prime};
  size_t left = size;
  for (; left >= sizeof(lanes); left -= sizeof(lanes), at += sizeof(lanes)) {
    uint64_t words[LANES];
    memcpy(words, at, sizeof(words));
    for (int k = 0; k < LANES; ++k)
      lanes[k] = mixed(lanes[k], words[k]);
  }
  uint64_t rest[LANES] = {0};
  if (left > 0) memcpy(rest, at, left);
  uint64_t hash = mixed(before, size);
  for (int k = 0; k < LANES; ++k)
    hash = mixed(mixed(hash, lanes[k]), rest[k]);
  hash = (hash ^ hash >> 33) * second_prime;
  return hash ^ hash >> 29;
}

uint64_t ls_hash_array(const ls_array *array, uint64_t before) {
  const ls_shape shape = ls_array_shape(array);
  uint64_t hash = mixed(before, (uint64_t)ls_array_dtype(array));
  for (int i = 0; i < shape.rank; ++i)
    hash = mixed(hash, (uint64_t)shape.dim[i]);
  if (ls_array_dtype(array) != LS_DTYPE_STRING)
    return hash_bytes(ls_array_data(array), ls_array_size(array), hash);
  const ls_bytes *strings = ls_array_data(array);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    hash = hash_bytes(strings[i].data, strings[i].size, hash);
  return hash;
}
