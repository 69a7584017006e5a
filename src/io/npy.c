// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"

#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "lockstep/shape_rules.h"

// ---- Elements --------------------------------------------------------------
// Reverses the bytes of each of `count` numbers of `width` bytes.
static void swap_bytes(unsigned char *data, size_t count, size_t width) {
  for (size_t i = 0; i < count; ++i, data += width) {
    for (size_t k = 0; k < width / 2; ++k) {
      const unsigned char byte = data[k];
      data[k] = data[width - 1 - k];
      data[width - 1 - k] = byte;
    }
  }
}

void ls_npy_convert(const ls_npy_header *header, void *data, size_t count) {
  unsigned char *bytes = data;
  if (header->dtype == LS_DTYPE_BOOL)
    for (size_t i = 0; i < count; ++i)
      bytes[i] = bytes[i] != 0;
  // A complex number is two numbers.
  const size_t numbers = ls_dtype_is_complex(header->dtype) ? 2 : 1;
  if (header->swapped)
    swap_bytes(bytes, count * numbers, header->width / numbers);
}

// Returns the bytes of an element of type "S8", without the zeros at its end.
static ls_bytes npy_bytes(const ls_npy_header *header, const char *element) {
  size_t size = header->width;
  while (size > 0 && element[size - 1] == '\0')
    --size;
  return (ls_bytes){element, size};
}

// Transposes from the file's order, the first index fastest, to row order.
static void transpose_elements(ls_shape shape, size_t width, const char *from,
                               char *target) {
  const int64_t count = ls_shape_num_elements(shape);
  int64_t index[LS_MAX_RANK] = {0};
  int64_t strides[LS_MAX_RANK];
  int64_t stride = 1;
  for (int i = 0; i < shape.rank; ++i) {
    strides[i] = stride;
    stride *= shape.dim[i];
  }
  int64_t at = 0;
  for (int64_t k = 0; k < count; ++k) {
    memcpy(target + (size_t)k * width, from + (size_t)at * width, width);
    for (int i = shape.rank - 1; i >= 0; --i) {
      at += strides[i];
      if (++index[i] < shape.dim[i]) break;
      at -= strides[i] * shape.dim[i];
      index[i] = 0;
    }
  }
}

// ---- Arrays ----------------------------------------------------------------
static ls_status make_strings(const ls_npy_header *header, const char *data,
                              ls_allocator *allocator, ls_array **out_array) {
  const size_t count = (size_t)ls_shape_num_elements(header->shape);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_bytes, texts, count);
  for (size_t i = 0; i < count; ++i)
    texts[i] = npy_bytes(header, data + i * header->width);
  return ls_array_create_copy(LS_DTYPE_STRING, header->shape, texts, out_array);
}

// Reads all elements, in row order and the file's width.
static ls_status read_elements(const ls_file *file, const ls_npy_header *header,
                               void *out) {
  const size_t size =
      (size_t)ls_shape_num_elements(header->shape) * header->width;
  if (!header->fortran)
    return ls_file_read(file, header->data_offset, out, size);
  LS_OWN_MEMORY(file->allocator, char, data) =
      ls_allocate(file->allocator, size);
  if (data == NULL)
    return LS_STATUS(LS_RESOURCE_EXHAUSTED, "no memory for %zu bytes of '%s'",
                     size, file->path);
  LS_RETURN_IF_ERROR(ls_file_read(file, header->data_offset, data, size));
  transpose_elements(header->shape, header->width, data, out);
  return ls_ok();
}

static ls_status read_strings(const ls_file *file, const ls_npy_header *header,
                              ls_array **out_array) {
  const size_t size =
      (size_t)ls_shape_num_elements(header->shape) * header->width;
  LS_OWN_MEMORY(file->allocator, char, data) =
      ls_allocate(file->allocator, size);
  LS_RETURN_IF_NO_MEMORY(data);
  LS_RETURN_IF_ERROR(read_elements(file, header, data));
  return make_strings(header, data, file->allocator, out_array);
}

ls_status ls_npy_read_elements(const ls_file *file, const ls_npy_header *header,
                               ls_array **out_array) {
  *out_array = NULL;
  if (header->dtype == LS_DTYPE_STRING)
    return read_strings(file, header, out_array);
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_unwritten(header->dtype, header->shape, &array));
  void *data = ls_array_mutable_data(array);
  const ls_status status = read_elements(file, header, data);
  if (!ls_status_is_ok(status)) {
    ls_array_release(array);
    return status;
  }
  ls_npy_convert(header, data, (size_t)ls_array_num_elements(array));
  *out_array = array;
  return ls_ok();
}

ls_status ls_npy_read(const ls_file *file, const char *name, int64_t from,
                      int64_t size, ls_array **out_array) {
  *out_array = NULL;
  ls_npy_header header;
  LS_RETURN_IF_ERROR(ls_npy_open(file, name, from, size, &header));
  return ls_npy_read_elements(file, &header, out_array);
}
