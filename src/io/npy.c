// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"

#include "base/memory/own.h"
#include "base/status_cause.h"
#include "base/values/array_internal.h"
#include "io/bytes.h"
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
    return LS_NO_MEMORY("no memory for %zu bytes of '%s'", size, file->path);
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

// ---- Headers ---------------------------------------------------------------
enum { PREFIX = 10, MOST_HEADER = 1 << 20 };
static const char magic[] = "\x93NUMPY";

// ---- Words -----------------------------------------------------------------
typedef struct words {
  const char *name;
  const char *text, *at, *end;
  int64_t offset;  // Position of `text` in the file.
} words;

static ls_status fail_expecting(const words *in, const char *wanted) {
  return ls_invalid_argument(
      "'%s' is no npy file: in its header, at byte %lld, %s should be",
      in->name, (long long)(in->offset + (in->at - in->text)), wanted);
}

static void skip_spaces(words *in) {
  while (in->at < in->end &&
         (*in->at == ' ' || *in->at == '\n' || *in->at == '\t'))
    ++in->at;
}

static bool take_character(words *in, char c) {
  skip_spaces(in);
  if (in->at == in->end || *in->at != c) return false;
  ++in->at;
  return true;
}

static ls_status take_text(words *in, ls_bytes *out) {
  skip_spaces(in);
  const char quote = in->at < in->end ? *in->at : '\0';
  if (quote != '\'' && quote != '"') return fail_expecting(in, "a text");
  const char *begin = in->at + 1;
  const char *end = memchr(begin, quote, (size_t)(in->end - begin));
  if (end == NULL) return fail_expecting(in, "a text with an end");
  *out = (ls_bytes){begin, (size_t)(end - begin)};
  in->at = end + 1;
  return ls_ok();
}

static bool text_equals(ls_bytes text, const char *word) {
  return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

static ls_status take_bool(words *in, bool *out) {
  skip_spaces(in);
  const size_t left = (size_t)(in->end - in->at);
  *out = left >= 4 && memcmp(in->at, "True", 4) == 0;
  if (!*out && (left < 5 || memcmp(in->at, "False", 5) != 0))
    return fail_expecting(in, "True or False");
  in->at += *out ? 4 : 5;
  return ls_ok();
}

static ls_status take_size(words *in, int64_t *out) {
  skip_spaces(in);
  const char *begin = in->at;
  int64_t value = 0;
  for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; ++in->at) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, *in->at - '0', &value))
      return fail_expecting(in, "a size that can be");
  }
  if (in->at == begin) return fail_expecting(in, "a size");
  // Suffix of Python 2's long integers.
  if (in->at < in->end && *in->at == 'L') ++in->at;
  *out = value;
  return ls_ok();
}

static ls_status take_shape(words *in, ls_shape *out) {
  *out = (ls_shape){0};
  if (!take_character(in, '(')) return fail_expecting(in, "a shape");
  while (!take_character(in, ')')) {
    int64_t size = 0;
    LS_RETURN_IF_ERROR(take_size(in, &size));
    if (out->rank == LS_MAX_RANK) {
      return ls_invalid_argument(
          "'%s' has more than %d dimensions, which are the most", in->name,
          LS_MAX_RANK);
    }
    out->dim[out->rank++] = size;
    if (take_character(in, ',')) continue;
    if (take_character(in, ')')) break;
    return fail_expecting(in, "a comma or the end of the shape");
  }
  const ls_status status = ls_shape_check(*out);
  return ls_status_annotate(status, "while reading '%s'", in->name);
}

// ---- Types -----------------------------------------------------------------
static const struct {
  char kind;
  size_t width;
  ls_dtype dtype;
} types[] = {
    {'f', 2, LS_DTYPE_F16}, {'f', 4, LS_DTYPE_F32},   {'f', 8, LS_DTYPE_F64},
    {'i', 1, LS_DTYPE_I8},  {'i', 2, LS_DTYPE_I16},   {'i', 4, LS_DTYPE_I32},
    {'i', 8, LS_DTYPE_I64}, {'u', 1, LS_DTYPE_U8},    {'u', 2, LS_DTYPE_U16},
    {'u', 4, LS_DTYPE_U32}, {'u', 8, LS_DTYPE_U64},   {'b', 1, LS_DTYPE_BOOL},
    {'c', 8, LS_DTYPE_C64}, {'c', 16, LS_DTYPE_C128},
};

static ls_status no_such_type(const words *in, ls_bytes descr) {
  const char kind = descr.size > 1 ? descr.data[1] : '\0';
  return ls_unimplemented(
      "'%s' has elements of NumPy's type '%.*s'%s; floats of 16 to 64 bits, "
      "integers, bool, complex and bytes ('S') are read",
      in->name, (int)(descr.size < 40 ? descr.size : 40), descr.data,
      kind == 'U'
          ? ", texts of UTF-32: save them as bytes, or labels as whole numbers"
      : kind == 'O' ? ", Python's objects"
                    : "");
}

// Reads a type such as "<f4": byte order, kind, width.
static ls_status read_type(const words *in, ls_bytes descr,
                           ls_npy_header *header) {
  size_t width = 0;
  if (descr.size < 3 || descr.size > 10 ||
      memchr("<>|=", descr.data[0], 4) == NULL)
    return no_such_type(in, descr);
  for (size_t i = 2; i < descr.size; ++i) {
    if (descr.data[i] < '0' || descr.data[i] > '9')
      return no_such_type(in, descr);
    width = width * 10 + (size_t)(descr.data[i] - '0');
  }
  const char kind = descr.data[1];
  header->width = width;
  if (kind == 'S' && width > 0) header->dtype = LS_DTYPE_STRING;
  for (size_t i = 0; i < LS_COUNT_OF(types); ++i) {
    if (types[i].kind == kind && types[i].width == width)
      header->dtype = types[i].dtype;
  }
  if (header->dtype == LS_DTYPE_NONE) return no_such_type(in, descr);
  header->swapped = width > 1 && kind != 'S' &&
                    descr.data[0] == (ls_is_little_endian() ? '>' : '<');
  return ls_ok();
}

// ---- The dict --------------------------------------------------------------
static bool goes_both_ways(ls_shape shape) {
  int wide = 0;
  for (int i = 0; i < shape.rank; ++i)
    wide += shape.dim[i] != 1;
  return wide < 2 || ls_shape_num_elements(shape) == 0;
}

static ls_status read_dict(words *in, ls_npy_header *header) {
  ls_bytes descr = {0};
  bool has_order = false, has_shape = false;
  if (!take_character(in, '{')) return fail_expecting(in, "a dict");
  while (!take_character(in, '}')) {
    ls_bytes key;
    LS_RETURN_IF_ERROR(take_text(in, &key));
    if (!take_character(in, ':')) return fail_expecting(in, "a colon");
    if (text_equals(key, "descr")) {
      skip_spaces(in);
      if (in->at < in->end && *in->at == '[') {
        return ls_unimplemented("'%s' has elements of several fields; save "
                                "each field as an array of its own",
                                in->name);
      }
      LS_RETURN_IF_ERROR(take_text(in, &descr));
    } else if (text_equals(key, "fortran_order")) {
      LS_RETURN_IF_ERROR(take_bool(in, &header->fortran));
      has_order = true;
    } else if (text_equals(key, "shape")) {
      LS_RETURN_IF_ERROR(take_shape(in, &header->shape));
      has_shape = true;
    } else {
      return fail_expecting(in, "one of 'descr', 'fortran_order' and 'shape'");
    }
    if (take_character(in, ',')) continue;
    if (take_character(in, '}')) break;
    return fail_expecting(in, "a comma or the end of the dict");
  }
  skip_spaces(in);
  if (in->at != in->end) return fail_expecting(in, "nothing");
  if (descr.data == NULL || !has_order || !has_shape)
    return fail_expecting(in, "'descr', 'fortran_order' and 'shape'");
  if (goes_both_ways(header->shape)) header->fortran = false;
  return read_type(in, descr, header);
}

static ls_status check_npy_size(const char *name, const ls_npy_header *header,
                                int64_t found) {
  int64_t wanted = 0;
  const int64_t count = ls_shape_num_elements(header->shape);
  if (__builtin_mul_overflow(count, (int64_t)header->width, &wanted))
    wanted = INT64_MAX;
  if (found == wanted) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is %s: its header has %s of %zu bytes each, which is "
                   "%lld bytes of elements; it has %lld",
                   name, found < wanted ? "cut off" : "too long",
                   LS_SHAPE_TEXT(header->dtype, header->shape), header->width,
                   (long long)wanted, (long long)found);
}

// Finds the start and the length of the dict.
static ls_status read_prefix(const ls_file *file, const char *name,
                             int64_t from, int64_t size, int64_t *out_begin,
                             size_t *out_size) {
  unsigned char prefix[PREFIX + 2] = {0};
  const size_t there =
      size < (int64_t)sizeof(prefix) ? (size_t)size : sizeof(prefix);
  LS_RETURN_IF_ERROR(ls_file_read(file, from, prefix, there));
  if (there < PREFIX || memcmp(prefix, magic, 6) != 0)
    return ls_invalid_argument(
        "'%s' is no npy file: it does not begin with \\x93NUMPY", name);
  const int version = prefix[6];
  if (version < 1 || version > 3 || (version > 1 && there < sizeof(prefix))) {
    return ls_invalid_argument("'%s' is an npy file of version %d.%d; 1.0, 2.0 "
                               "and 3.0 are read",
                               name, version, prefix[7]);
  }
  *out_begin = version == 1 ? PREFIX : PREFIX + 2;
  *out_size =
      version == 1 ? ls_load_le16(prefix + 8) : ls_load_le32(prefix + 8);
  if (*out_size > MOST_HEADER)
    return ls_invalid_argument("'%s' has a header of %zu bytes; at most %d are "
                               "read",
                               name, *out_size, MOST_HEADER);
  if ((int64_t)*out_size > size - *out_begin)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is cut off in its header: that has %zu bytes from "
                     "byte %lld on, the file %lld",
                     name, *out_size, (long long)*out_begin, (long long)size);
  return ls_ok();
}

ls_status ls_npy_open(const ls_file *file, const char *name, int64_t from,
                      int64_t size, ls_npy_header *out_header) {
  *out_header = (ls_npy_header){0};
  int64_t begin = 0;
  size_t dict = 0;
  LS_RETURN_IF_ERROR(read_prefix(file, name, from, size, &begin, &dict));
  LS_OWN_MEMORY(file->allocator, char, text) =
      ls_allocate(file->allocator, dict);
  LS_RETURN_IF_NO_MEMORY(text);
  ls_npy_header header = {.data_offset = from + begin + (int64_t)dict};
  LS_RETURN_IF_ERROR(ls_file_read(file, from + begin, text, dict));
  words in = {name, text, text, text + dict, from + begin};
  LS_RETURN_IF_ERROR(read_dict(&in, &header));
  LS_RETURN_IF_ERROR(
      check_npy_size(name, &header, size - begin - (int64_t)dict));
  *out_header = header;
  return ls_ok();
}

// ---- Writing ---------------------------------------------------------------
ls_status ls_npy_print_header(ls_dtype dtype, ls_shape shape, ls_text *out) {
  const char *descr = NULL;
  char buffer[8];
  for (size_t i = 0; i < LS_COUNT_OF(types); ++i) {
    if (types[i].dtype != dtype) continue;
    buffer[0] = types[i].width == 1 ? '|' : ls_is_little_endian() ? '<' : '>';
    buffer[1] = types[i].kind;
    const char *digits = ls_print_i64((int64_t)types[i].width, (char[24]){0});
    memcpy(buffer + 2, digits, strlen(digits) + 1);
    descr = buffer;
  }
  if (descr == NULL)
    return ls_unimplemented("NumPy has no type for %s: it cannot be written as "
                            "npy",
                            ls_dtype_name(dtype));
  char dict[320];
  LS_OWN(ls_text, text) = {.allocator = out->allocator};
  ls_text_append_format(&text,
                        "{'descr': '%s', 'fortran_order': False, "
                        "'shape': (",
                        descr);
  for (int i = 0; i < shape.rank; ++i) {
    ls_text_append_i64(&text, shape.dim[i]);
    if (i + 1 < shape.rank || shape.rank == 1) ls_text_append(&text, ",");
    if (i + 1 < shape.rank) ls_text_append(&text, " ");
  }
  ls_text_append(&text, "), }");
  // Pads so that elements begin at a multiple of 64, after a line end.
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  const size_t padded_size = (PREFIX + text.size + 1 + 63) / 64 * 64;
  memset(dict, ' ', sizeof(dict));
  memcpy(dict, text.data, text.size);
  dict[padded_size - PREFIX - 1] = '\n';
  unsigned char prefix[PREFIX];
  memcpy(prefix, magic, 6);
  prefix[6] = 1;
  prefix[7] = 0;
  ls_store_le16(prefix + 8, (uint16_t)(padded_size - PREFIX));
  ls_text_append_bytes(out, prefix, PREFIX);
  ls_text_append_bytes(out, dict, padded_size - PREFIX);
  return ls_ok();
}
