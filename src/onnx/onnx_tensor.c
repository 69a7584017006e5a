// SPDX-License-Identifier: Apache-2.0
//
// Reads TensorProto: numbers in raw bytes, in lists by type, or in a file
// beside the model's.
#include "onnx/onnx_file.h"

#include <stdlib.h>

#include "base/files.h"
#include "io/protobuf/onnx.h"

// ---- Messages --------------------------------------------------------------
ls_status ls_onnx_damaged(const ls_onnx_reader *r, const char *what) {
  return ls_invalid_argument("'%s' is no ONNX model, or damaged: %s",
                             r->file->path, what);
}

ls_status ls_onnx_read_message(ls_onnx_reader *r, const ls_proto_field *message,
                               ls_onnx_read_field read, void *out) {
  if (message->type != LS_PROTO_BYTES)
    return ls_onnx_damaged(r, "a number stands where a message should");
  ls_proto_input in = ls_proto_message(message);
  ls_proto_field field = {0};
  while (ls_proto_next(&in, &field))
    LS_RETURN_IF_ERROR(read(r, &field, out));
  return field.wrong == NULL ? ls_ok() : ls_onnx_damaged(r, field.wrong);
}

const char *ls_onnx_string(ls_onnx_reader *r, const ls_proto_field *field) {
  if (field->type != LS_PROTO_BYTES ||
      memchr(field->at, '\0', field->value) != NULL)
    return NULL;
  char *text = ls_arena_allocate(&r->file->memory, field->value + 1);
  if (text != NULL) memcpy(text, field->at, field->value);
  return text;
}

void *ls_onnx_push(ls_onnx_reader *r, void *items, size_t *count,
                   size_t item_size) {
  enum { LEAST = 8 };
  const size_t before = *count;
  char *block = NULL;
  memcpy(&block, items, sizeof(block));
  if (before == 0 || (before >= LEAST && (before & (before - 1)) == 0)) {
    char *larger = ls_arena_allocate_array(
        &r->file->memory, before == 0 ? LEAST : 2 * before, item_size);
    if (larger == NULL) return NULL;
    if (before > 0) memcpy(larger, block, before * item_size);
    memcpy(items, &larger, sizeof(larger));
    block = larger;
  }
  ++*count;
  return block + before * item_size;
}

ls_status ls_onnx_add_numbers(ls_onnx_reader *r, const ls_proto_field *field,
                              const int64_t **numbers, size_t *count) {
  if (field->type != LS_PROTO_BYTES) {
    LS_ONNX_PUSH_OR_RETURN(r, int64_t, number, *numbers, *count);
    *number = (int64_t)field->value;
    return ls_ok();
  }
  ls_proto_input in = ls_proto_message(field);
  while (in.at < in.end) {
    uint64_t bits = 0;
    if (!ls_proto_read_varint(&in, &bits))
      return ls_onnx_damaged(r, "a list of numbers is cut off");
    LS_ONNX_PUSH_OR_RETURN(r, int64_t, number, *numbers, *count);
    *number = (int64_t)bits;
  }
  return ls_ok();
}

// ---- Tensors ---------------------------------------------------------------
typedef struct tensor_parts {
  const char *name;
  int64_t type;
  const int64_t *sizes, *numbers;  // Numbers of any list of varints.
  const int64_t *reals;  // Bits of floats or doubles that are not packed.
  size_t num_sizes, num_numbers, num_reals;
  ls_proto_field raw;  // Bytes; also packed floats or doubles.
  const char *location;
  int64_t offset, length;
  bool is_external;
  const char *key, *value;  // The entry being read.
} tensor_parts;

static ls_status read_entry(ls_onnx_reader *r, const ls_proto_field *field,
                            void *out) {
  tensor_parts *parts = out;
  const char *text = ls_onnx_string(r, field);
  if (text == NULL) return ls_onnx_damaged(r, "a file's name is no text");
  if (field->number == ENTRY_KEY) parts->key = text;
  if (field->number == ENTRY_VALUE) parts->value = text;
  return ls_ok();
}

static ls_status read_external(ls_onnx_reader *r, const ls_proto_field *field,
                               tensor_parts *parts) {
  parts->key = parts->value = "";
  LS_RETURN_IF_ERROR(ls_onnx_read_message(r, field, read_entry, parts));
  if (strcmp(parts->key, "location") == 0) parts->location = parts->value;
  if (strcmp(parts->key, "offset") == 0)
    parts->offset = strtoll(parts->value, NULL, 10);
  if (strcmp(parts->key, "length") == 0)
    parts->length = strtoll(parts->value, NULL, 10);
  return ls_ok();
}

static ls_status push_packed(ls_onnx_reader *r, const ls_proto_field *field,
                             tensor_parts *parts) {
  const size_t width =
      field->number == TENSOR_FLOATS ? sizeof(float) : sizeof(double);
  if (field->value % width != 0)
    return ls_onnx_damaged(r, "a list of numbers is cut off");
  for (size_t i = 0; i < field->value; i += width) {
    LS_ONNX_PUSH_OR_RETURN(r, int64_t, real, parts->reals, parts->num_reals);
    memcpy(real, field->at + i, width);  // Little-endian.
  }
  return ls_ok();
}

// Adds floats or doubles, packed or not. One packed list stays in the file.
static ls_status add_reals(ls_onnx_reader *r, const ls_proto_field *field,
                           tensor_parts *parts) {
  const bool is_packed = field->type == LS_PROTO_BYTES;
  const ls_proto_field first = parts->raw;
  if (first.at != NULL && first.number != field->number)
    return ls_onnx_damaged(r, "a tensor has numbers of two kinds");
  parts->raw = (ls_proto_field){0};
  if (is_packed && first.at == NULL && parts->num_reals == 0) {
    parts->raw = *field;
    return ls_ok();
  }
  if (first.at != NULL) LS_RETURN_IF_ERROR(push_packed(r, &first, parts));
  return is_packed
             ? push_packed(r, field, parts)
             : ls_onnx_add_numbers(r, field, &parts->reals, &parts->num_reals);
}

static ls_status read_tensor_field(ls_onnx_reader *r,
                                   const ls_proto_field *field, void *out) {
  tensor_parts *parts = out;
  switch (field->number) {
  case TENSOR_DIM:
    return ls_onnx_add_numbers(r, field, &parts->sizes, &parts->num_sizes);
  case TENSOR_TYPE:
    parts->type = (int64_t)field->value;
    return ls_ok();
  case TENSOR_INT32S:
  case TENSOR_INT64S:
  case TENSOR_UINT64S:
    return ls_onnx_add_numbers(r, field, &parts->numbers, &parts->num_numbers);
  case TENSOR_FLOATS:
  case TENSOR_DOUBLES:
    return add_reals(r, field, parts);
  case TENSOR_RAW:
    if (field->type != LS_PROTO_BYTES)
      return ls_onnx_damaged(r, "a tensor's bytes are a number");
    parts->raw = *field;
    return ls_ok();
  case TENSOR_NAME:
    parts->name = ls_onnx_string(r, field);
    return parts->name != NULL ? ls_ok()
                               : ls_onnx_damaged(r, "a tensor has no name");
  case TENSOR_EXTERNAL:
    return read_external(r, field, parts);
  case TENSOR_LOCATION:
    parts->is_external = field->value == 1;
    return ls_ok();
  default:
    return ls_ok();
  }
}

// Opens a file in the folder of the model's that has these bytes of a tensor.
static ls_status open_beside(ls_onnx_reader *r, const tensor_parts *parts,
                             int64_t size, ls_file **out_file) {
  const char *slash = strrchr(r->file->path, '/');
  const size_t folder = slash != NULL ? (size_t)(slash + 1 - r->file->path) : 0;
  if (parts->location == NULL)
    return ls_onnx_damaged(r, "a tensor in a file of its own names no file");
  LS_RETURN_IF_ERROR(
      ls_inner_path_check("file of tensors", r->file->path, parts->location));
  const char *path = ls_arena_format(&r->file->memory, "%.*s%s", (int)folder,
                                     r->file->path, parts->location);
  LS_RETURN_IF_NO_MEMORY(path);
  LS_RETURN_IF_ERROR(ls_file_open(r->runtime, path, out_file));
  const int64_t has = (*out_file)->size;
  if (parts->offset < 0 || parts->offset > has || size > has - parts->offset)
    return ls_invalid_argument(
        "'%s' has %lld bytes; tensor '%s' of '%s' has %lld from byte %lld on",
        path, (long long)has, parts->name, r->file->path, (long long)size,
        (long long)parts->offset);
  if (parts->length == 0 || parts->length == size) return ls_ok();
  return ls_invalid_argument(
      "tensor '%s' of '%s' has %lld bytes, not the %lld of its length in '%s'",
      parts->name, r->file->path, (long long)size, (long long)parts->length,
      path);
}

static ls_status wrong_count(const ls_onnx_reader *r, const tensor_parts *parts,
                             const ls_array *array) {
  return ls_invalid_argument(
      "'%s' is damaged: tensor '%s' is %s, but its data have another size",
      r->file->path, parts->name,
      LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)));
}

// Stores numbers of lists: 16-bit floats are there as their bits.
static ls_status store_list(const ls_onnx_reader *r, const tensor_parts *parts,
                            ls_array *array) {
  const ls_dtype dtype = ls_array_dtype(array);
  const size_t item = ls_dtype_size(dtype);
  const bool reals = dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64;
  const int64_t *items = reals ? parts->reals : parts->numbers;
  const size_t count = reals ? parts->num_reals : parts->num_numbers;
  if ((int64_t)count != ls_array_num_elements(array))
    return wrong_count(r, parts, array);
  unsigned char *data = ls_array_mutable_data(array);
  for (size_t i = 0; i < count; ++i) {
    if (dtype == LS_DTYPE_BOOL)
      data[i] = items[i] != 0;
    else
      memcpy(data + i * item, &items[i], item);  // Little-endian.
  }
  return ls_ok();
}

static ls_status store_data(ls_onnx_reader *r, const tensor_parts *parts,
                            ls_file *file, ls_array *array) {
  const size_t size = ls_array_size(array);
  if (file != NULL)
    return ls_file_read(file, parts->offset, ls_array_mutable_data(array),
                        size);
  if (size == 0) return ls_ok();
  if (parts->raw.at == NULL) return store_list(r, parts, array);
  if (parts->raw.value != size) return wrong_count(r, parts, array);
  memcpy(ls_array_mutable_data(array), parts->raw.at, size);
  if (ls_array_dtype(array) == LS_DTYPE_BOOL)
    for (size_t i = 0; i < size; ++i)
      ((unsigned char *)ls_array_mutable_data(array))[i] =
          parts->raw.at[i] != 0;
  return ls_ok();
}

// Refuses a tensor that has more elements than bytes of its data could give.
// Opens the file of its own that has the data.
static ls_status make_array(ls_onnx_reader *r, const tensor_parts *parts,
                            ls_file **out_file, ls_array **out_array) {
  ls_shape shape = {.rank = (int32_t)parts->num_sizes};
  const ls_dtype dtype = ls_onnx_dtype_of(parts->type);
  if (dtype == LS_DTYPE_NONE)
    return ls_unimplemented("'%s': tensor '%s' of ONNX's type %lld",
                            r->file->path, parts->name, (long long)parts->type);
  if (parts->num_sizes > LS_MAX_RANK)
    return ls_unimplemented("'%s': tensor '%s' of %zu dimensions, more than %d",
                            r->file->path, parts->name, parts->num_sizes,
                            LS_MAX_RANK);
  for (int32_t i = 0; i < shape.rank; ++i) {
    shape.dim[i] = parts->sizes[i];
    if (shape.dim[i] < 0)
      return ls_onnx_damaged(r, "a tensor has a negative size");
  }
  const int64_t count = ls_shape_num_elements(shape);
  int64_t size = 0;
  const size_t has = parts->raw.at != NULL
                         ? parts->raw.value / ls_dtype_size(dtype)
                         : parts->num_numbers + parts->num_reals;
  if (parts->is_external &&
      !__builtin_mul_overflow(count, (int64_t)ls_dtype_size(dtype), &size))
    LS_RETURN_IF_ERROR(open_beside(r, parts, size, out_file));
  else if ((uint64_t)count > has)
    return ls_invalid_argument(
        "'%s' is damaged: tensor '%s' is %s, but its data end earlier",
        r->file->path, parts->name, LS_SHAPE_TEXT(dtype, shape));
  return ls_array_create(dtype, shape, out_array);
}

ls_status ls_onnx_read_tensor(ls_onnx_reader *r, const ls_proto_field *message,
                              const char **out_name, ls_array **out_array) {
  tensor_parts parts = {.name = ""};
  LS_OWN(ls_array, array) = NULL;
  LS_OWN(ls_file, file) = NULL;
  LS_RETURN_IF_ERROR(
      ls_onnx_read_message(r, message, read_tensor_field, &parts));
  LS_RETURN_IF_ERROR(make_array(r, &parts, &file, &array));
  LS_RETURN_IF_ERROR(store_data(r, &parts, file, array));
  LS_ONNX_PUSH_OR_RETURN(r, ls_array *, kept, r->file->arrays,
                         r->file->num_arrays);
  *out_name = parts.name;
  *out_array = *kept = ls_give(&array);
  return ls_ok();
}
