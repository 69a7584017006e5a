// SPDX-License-Identifier: Apache-2.0
#include "io/idx.h"

#include "io/gzip.h"

// What a file may inflate to: 16 GiB, far above any that is in use.
static const size_t inflated_limit = (size_t)1 << 34;

static const struct {
  unsigned char code;
  ls_dtype dtype;
} types[] = {
    {0x08, LS_DTYPE_U8},  {0x09, LS_DTYPE_I8},  {0x0b, LS_DTYPE_I16},
    {0x0c, LS_DTYPE_I32}, {0x0d, LS_DTYPE_F32}, {0x0e, LS_DTYPE_F64},
};

static uint32_t big_endian_32(const unsigned char *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 |
         (uint32_t)at[3];
}

// ---- Header ----------------------------------------------------------------
static ls_status parse_type(const char *name, const unsigned char *bytes,
                            size_t size, ls_idx_header *header) {
  if (size < 4) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' has %zu bytes; an IDX file begins with 4 that tell "
                     "its type and rank",
                     name, size);
  }
  if (bytes[0] != 0 || bytes[1] != 0) {
    return ls_invalid_argument(
        "'%s' is no IDX file: it begins with bytes %02x %02x instead of 00 00",
        name, bytes[0], bytes[1]);
  }
  for (size_t i = 0; i < LS_COUNT_OF(types); ++i) {
    if (types[i].code == bytes[2]) header->dtype = types[i].dtype;
  }
  if (header->dtype == LS_DTYPE_NONE) {
    return ls_invalid_argument(
        "'%s' is no IDX file: its element type is %02x; there are 08 (u8), 09 "
        "(i8), 0b (i16), 0c (i32), 0d (f32), 0e (f64)",
        name, bytes[2]);
  }
  if (bytes[3] > LS_MAX_RANK) {
    return ls_invalid_argument("'%s' has %d dimensions; at most %d are read",
                               name, bytes[3], LS_MAX_RANK);
  }
  header->shape.rank = bytes[3];
  return ls_ok();
}

ls_status ls_idx_parse(const char *name, const void *bytes, size_t size,
                       ls_idx_header *out_header) {
  const unsigned char *at = bytes;
  ls_idx_header header = {0};
  *out_header = header;
  LS_RETURN_IF_ERROR(parse_type(name, at, size, &header));
  header.data_offset = 4 + 4 * (size_t)header.shape.rank;
  if (size < header.data_offset) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is cut off in its header: %d dimensions need %zu "
                     "bytes, it has %zu",
                     name, header.shape.rank, header.data_offset, size);
  }
  for (int i = 0; i < header.shape.rank; ++i)
    header.shape.dim[i] = big_endian_32(at + 4 + 4 * i);
  ls_status status = ls_shape_check(header.shape);
  if (!ls_status_is_ok(status))
    return ls_status_annotate(status, "while reading '%s'", name);
  const size_t wanted =
      (size_t)ls_shape_num_elements(header.shape) * ls_dtype_size(header.dtype);
  const size_t found = size - header.data_offset;
  if (found != wanted) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is %s: its header says %s, which is %zu bytes of "
                     "elements; it has %zu",
                     name, found < wanted ? "cut off" : "too long",
                     LS_SHAPE_TEXT(header.dtype, header.shape), wanted, found);
  }
  *out_header = header;
  return ls_ok();
}

// ---- Elements --------------------------------------------------------------
// Copies big-endian elements of `width` bytes in the machine's order.
static void copy_elements(void *to, const unsigned char *from, size_t count,
                          size_t width) {
  if (width == 1) {
    if (count > 0) memcpy(to, from, count);
    return;
  }
  unsigned char *out = to;
  for (size_t i = 0; i < count; ++i) {
    uint64_t value = 0;
    for (size_t k = 0; k < width; ++k)
      value = value << 8 | from[i * width + k];
    if (width == 2) {
      const uint16_t narrow = (uint16_t)value;
      memcpy(out + i * width, &narrow, sizeof(narrow));
    } else if (width == 4) {
      const uint32_t narrow = (uint32_t)value;
      memcpy(out + i * width, &narrow, sizeof(narrow));
    } else {
      memcpy(out + i * width, &value, sizeof(value));
    }
  }
}

static ls_status decode_plain(const char *name, const void *bytes, size_t size,
                              ls_array **out_array) {
  ls_idx_header header;
  LS_RETURN_IF_ERROR(ls_idx_parse(name, bytes, size, &header));
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(header.dtype, header.shape, &array));
  copy_elements(ls_array_mutable_data(array),
                (const unsigned char *)bytes + header.data_offset,
                (size_t)ls_array_num_elements(array),
                ls_dtype_size(header.dtype));
  *out_array = array;
  return ls_ok();
}

ls_status ls_idx_decode(ls_allocator *allocator, const char *name,
                        const void *bytes, size_t size, ls_array **out_array) {
  *out_array = NULL;
  if (!ls_gzip_is(bytes, size))
    return decode_plain(name, bytes, size, out_array);
  char *inflated = NULL;
  size_t inflated_size = 0;
  LS_RETURN_IF_ERROR(ls_gzip_inflate(
      allocator, name, bytes, size, inflated_limit, &inflated, &inflated_size));
  ls_status status = decode_plain(name, inflated, inflated_size, out_array);
  ls_release(allocator, inflated);
  return status;
}

ls_status ls_idx_read(ls_runtime *runtime, const char *path,
                      ls_array **out_array) {
  *out_array = NULL;
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  char *bytes = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(files->read(files->user, path, allocator, &bytes, &size));
  ls_status status = ls_idx_decode(allocator, path, bytes, size, out_array);
  ls_release(allocator, bytes);
  return status;
}
