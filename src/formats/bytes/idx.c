// SPDX-License-Identifier: Apache-2.0
#include "formats/bytes/idx.h"

#include "base/memory/own.h"
#include "base/status_cause.h"
#include "io/bytes.h"
#include "io/inflate.h"
#include "io/npy.h"
#include "lockstep/shape_rules.h"

static const struct {
  unsigned char code;
  ls_dtype dtype;
} types[] = {
    {0x08, LS_DTYPE_U8},  {0x09, LS_DTYPE_I8},  {0x0b, LS_DTYPE_I16},
    {0x0c, LS_DTYPE_I32}, {0x0d, LS_DTYPE_F32}, {0x0e, LS_DTYPE_F64},
};

// ---- Header ----------------------------------------------------------------
static ls_status parse_type(const char *name, const unsigned char *bytes,
                            size_t size, ls_idx_header *header) {
  if (size < 4) {
    return LS_STATUS(
        LS_DATA_LOSS,
        "'%s' has %zu bytes; an IDX file begins with 4 for its type and rank",
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
        "'%s' is no IDX file: its element type is %02x; the types are 08 (u8), "
        "09 (i8), 0b (i16), 0c (i32), 0d (f32), 0e (f64)",
        name, bytes[2]);
  }
  if (bytes[3] > LS_MAX_RANK) {
    return ls_invalid_argument("'%s' has %d dimensions; at most %d are read",
                               name, bytes[3], LS_MAX_RANK);
  }
  header->shape.rank = bytes[3];
  return ls_ok();
}

// Reads everything before the elements.
static ls_status parse_header(const char *name, const void *bytes, size_t size,
                              ls_idx_header *header) {
  const unsigned char *at = bytes;
  LS_RETURN_IF_ERROR(parse_type(name, at, size, header));
  header->data_offset = 4 + 4 * (size_t)header->shape.rank;
  if (size < header->data_offset) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is cut off in its header: %d dimensions need %zu "
                     "bytes, it has %zu",
                     name, header->shape.rank, header->data_offset, size);
  }
  for (int i = 0; i < header->shape.rank; ++i)
    header->shape.dim[i] = ls_load_be32(at + 4 + 4 * i);
  const ls_status status = ls_shape_check(header->shape);
  return ls_status_annotate(status, "while reading '%s'", name);
}

static size_t elements_size(const ls_idx_header *header) {
  return (size_t)ls_shape_num_elements(header->shape) *
         ls_dtype_size(header->dtype);
}

// Checks the size of the elements; `found` is their number of bytes or, if
// there are too many, a lower bound of it.
static ls_status check_idx_size(const char *name, const ls_idx_header *header,
                                size_t found) {
  const size_t wanted = elements_size(header);
  if (found == wanted) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is %s: its header says %s, which is %zu bytes of "
                   "elements; it has %s%zu",
                   name, found < wanted ? "cut off" : "too long",
                   LS_SHAPE_TEXT(header->dtype, header->shape), wanted,
                   found < wanted ? "" : "at least ", found);
}

ls_status ls_idx_parse_head(const char *name, const void *bytes, size_t size,
                            int64_t file_size, ls_idx_header *out_header) {
  ls_idx_header header = {0};
  *out_header = header;
  LS_RETURN_IF_ERROR(parse_header(name, bytes, size, &header));
  LS_RETURN_IF_ERROR(
      check_idx_size(name, &header, (size_t)file_size - header.data_offset));
  *out_header = header;
  return ls_ok();
}

ls_status ls_idx_parse(const char *name, const void *bytes, size_t size,
                       ls_idx_header *out_header) {
  return ls_idx_parse_head(name, bytes, size, (int64_t)size, out_header);
}

// ---- Elements --------------------------------------------------------------
static ls_status decode_plain(const char *name, const void *bytes, size_t size,
                              ls_array **out_array) {
  ls_idx_header header;
  LS_RETURN_IF_ERROR(ls_idx_parse(name, bytes, size, &header));
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(header.dtype, header.shape, &array));
  void *elements = ls_array_mutable_data(array);
  const size_t width = ls_dtype_size(header.dtype);
  if (ls_array_size(array) > 0)
    memcpy(elements, (const char *)bytes + header.data_offset,
           ls_array_size(array));
  ls_npy_convert(
      &(ls_npy_header){.dtype = header.dtype,
                       .width = width,
                       .swapped = width > 1 && ls_is_little_endian()},
      elements, (size_t)ls_array_num_elements(array));
  *out_array = array;
  return ls_ok();
}

// Unpacks the bytes that the header promises and one more, which detects a
// longer file.
static ls_status inflate_file(ls_allocator *allocator, const char *name,
                              const void *bytes, size_t size, size_t wanted,
                              ls_array **out_array) {
  LS_OWN_MEMORY(allocator, char, inflated) = ls_allocate(allocator, wanted + 1);
  if (inflated == NULL)
    return LS_NO_MEMORY("no memory for %zu bytes of '%s', inflated", wanted,
                        name);
  size_t got = 0;
  LS_RETURN_IF_ERROR(ls_gzip_inflate(allocator, name, bytes, size, inflated,
                                     wanted + 1, &got));
  return decode_plain(name, inflated, got, out_array);
}

// Reads the header first, which gives the size to unpack.
static ls_status decode_gzip(ls_allocator *allocator, const char *name,
                             const void *bytes, size_t size,
                             ls_array **out_array) {
  unsigned char head[4 + 4 * LS_MAX_RANK];
  size_t got = 0;
  ls_idx_header header = {0};
  LS_RETURN_IF_ERROR(
      ls_gzip_inflate(allocator, name, bytes, size, head, sizeof(head), &got));
  LS_RETURN_IF_ERROR(parse_header(name, head, got, &header));
  const size_t wanted = header.data_offset + elements_size(&header);
  const size_t most = ls_gzip_most(size);
  if (wanted > most)
    return check_idx_size(name, &header, most - header.data_offset);
  LS_RETURN_IF_ERROR(
      ls_gzip_check_proportion(name, size, wanted, "unpack it by gunzip"));
  return inflate_file(allocator, name, bytes, size, wanted, out_array);
}

ls_status ls_idx_decode(ls_allocator *allocator, const char *name,
                        const void *bytes, size_t size, ls_array **out_array) {
  *out_array = NULL;
  return ls_gzip_is(bytes, size)
             ? decode_gzip(allocator, name, bytes, size, out_array)
             : decode_plain(name, bytes, size, out_array);
}

ls_status ls_idx_read(ls_runtime *runtime, const char *path,
                      ls_array **out_array) {
  *out_array = NULL;
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_MEMORY(allocator, char, bytes) = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(
      files->read(files->user, path, SIZE_MAX, allocator, &bytes, &size));
  return ls_idx_decode(allocator, path, bytes, size, out_array);
}
