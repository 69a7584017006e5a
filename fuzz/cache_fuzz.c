// SPDX-License-Identifier: Apache-2.0
// Any bytes are a cache file or give a status; elements that are read are of
// the types of the data set. The first byte says which data set it is, and
// whether checksums are made right first, for else a fuzzer would hardly get
// behind them.
#include "bytes_files.h"
#include "data/streams/cache_file.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "lockstep/element_spec.h"
#include "lockstep/shape_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER = 64, CHECKED = 40, DATASETS = 3 };

// ---- Data sets -------------------------------------------------------------
static ls_nest make_nothing(void *user, int64_t index) {
  (void)user;
  (void)index;
  return ls_none();
}

static ls_dataset *dataset_number(int which) {
  static ls_dataset *datasets[DATASETS];
  if (datasets[which] != NULL) return datasets[which];
  ls_nest element = ls_none();
  if (which == 0)
    element = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(3));
  else if (which == 1)
    element = LS_TUPLE(ls_nest_spec(LS_DTYPE_STRING, LS_SHAPE(2)),
                       ls_nest_spec(LS_DTYPE_U8, LS_SHAPE(-1, 2)));
  else
    element = ls_nest_spec(LS_DTYPE_BOOL, LS_SHAPE(-1));
  datasets[which] = ls_dataset_from_function(
      &(ls_index_options){.size = 1, .element = element, .make = make_nothing});
  if (!ls_status_is_ok(ls_dataset_status(datasets[which]))) abort();
  return datasets[which];
}

// ---- Checksums -------------------------------------------------------------
static void put_crc(uint8_t *bytes, size_t at, size_t end) {
  ls_store_le32(bytes + end, ls_crc32c(0, bytes + at, end - at));
}

static void make_right(uint8_t *bytes, size_t size) {
  if (size < HEADER) return;
  memcpy(bytes, "LSCACHE1", 8);
  memset(bytes + 8, 0, 16);
  const uint64_t count = ls_load_le64(bytes + 24);
  const uint64_t index = ls_load_le64(bytes + 32);
  put_crc(bytes, 0, CHECKED);
  if (index < HEADER || index > size || count > (size - index) / 8) return;
  const size_t room = size - (size_t)index;
  if (room < (count + 1) * 8 + 4) return;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t at = ls_load_le64(bytes + index + 8 * i);
    const uint64_t end = ls_load_le64(bytes + index + 8 * (i + 1));
    if (at >= HEADER && end <= index && end >= 4 && at <= end - 4)
      put_crc(bytes, (size_t)at, (size_t)end - 4);
  }
  put_crc(bytes, (size_t)index, (size_t)(index + (count + 1) * 8));
}

// ---- Reading ---------------------------------------------------------------
static void look_at(const ls_dataset *dataset, ls_nest element) {
  ls_nest leaves[2] = {{0}};
  unsigned sum = 0;
  if (ls_nest_flatten(element, leaves, 2) != dataset->num_leaves) abort();
  for (size_t l = 0; l < dataset->num_leaves; ++l) {
    const ls_type *type = &dataset->leaves[l].type;
    const ls_array *array = ls_nest_as_array(leaves[l]);
    if (array == NULL || ls_array_dtype(array) != type->dtype ||
        !ls_shape_compatible(ls_array_shape(array), type->shape))
      abort();
    const bool texts = type->dtype == LS_DTYPE_STRING;
    const ls_bytes *strings = ls_array_data(array);
    const ls_bytes all = {(const char *)strings, ls_array_size(array)};
    const int64_t count = texts ? ls_array_num_elements(array) : 1;
    for (int64_t i = 0; i < count; ++i) {
      const ls_bytes *one = texts ? &strings[i] : &all;
      for (size_t k = 0; k < one->size; ++k)
        sum += ((const unsigned char *)one->data)[k];
    }
  }
  if (sum == 12345678) abort();  // So that they are looked at.
}

static void read_file(int which, const void *data, size_t size) {
  static const uint64_t digest[2];
  ls_runtime *runtime = bytes_files_runtime();
  const ls_dataset *dataset = dataset_number(which);
  ls_cache_file *file = NULL;
  bytes_files[0] = (bytes_file){"fuzz", data, size};
  ls_status status =
      ls_cache_file_open(runtime, "fuzz", digest, ls_allocator_system(), &file);
  if (ls_status_is_ok(status) != (file != NULL)) abort();
  ls_nest element = ls_none();
  for (int64_t i = 0; file != NULL && i < file->count; ++i) {
    ls_status read = ls_cache_file_read(file, i, dataset, &element);
    if (ls_status_is_ok(read)) look_at(dataset, element);
    ls_status_free(read);
  }
  ls_nest_release(element);
  ls_status_free(status);
  ls_cache_file_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const int which = data[0] / 2 % DATASETS;
  uint8_t *bytes = malloc(size);
  if (bytes == NULL) abort();
  memcpy(bytes, data + 1, size - 1);
  if (data[0] % 2 == 1) make_right(bytes, size - 1);
  read_file(which, bytes, size - 1);
  free(bytes);
  return 0;
}
