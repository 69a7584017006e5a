// SPDX-License-Identifier: Apache-2.0
#include "io/json.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"

static const char reserved_name[] = "__metadata__";

static ls_status check(ls_allocator *allocator, const ls_safetensor *tensors,
                       size_t count) {
  ls_map names;
  ls_map_init(&names, allocator);
  ls_status status = ls_ok();
  for (size_t i = 0; ls_status_is_ok(status) && i < count; ++i) {
    const ls_dtype dtype = ls_array_dtype(tensors[i].array);
    if (strcmp(tensors[i].name, reserved_name) == 0) {
      status = ls_invalid_argument(
          "an array cannot be called '%s' in a safetensors file",
          reserved_name);
    } else if (ls_map_find_text(&names, tensors[i].name) != NULL) {
      status = ls_invalid_argument(
          "two arrays for a safetensors file are called '%s'", tensors[i].name);
    } else if (ls_safetensors_dtype_name(dtype) == NULL) {
      status = ls_invalid_argument(
          "array '%s' is %s, which safetensors files cannot hold",
          tensors[i].name, ls_dtype_name(dtype));
    } else if (!ls_map_insert_text(&names, tensors[i].name, &names)) {
      status = ls_out_of_memory();
    }
  }
  ls_map_deinit(&names);
  return status;
}

// Calls for each array in the order of the file: widest elements first.
typedef struct order {
  const ls_safetensor *tensors;
  size_t count;
  size_t width, next;
} order;

static const ls_safetensor *order_next(order *o) {
  for (; o->width > 0; o->width /= 2, o->next = 0) {
    while (o->next < o->count) {
      const ls_safetensor *tensor = &o->tensors[o->next++];
      if (ls_dtype_size(ls_array_dtype(tensor->array)) == o->width)
        return tensor;
    }
  }
  return NULL;
}

static order order_of(const ls_safetensor *tensors, size_t count) {
  return (order){.tensors = tensors, .count = count, .width = 8};
}

static void write_header(ls_text *text, const ls_safetensor *tensors,
                         size_t count, const ls_safetensors_note *notes,
                         size_t num_notes) {
  ls_json_writer json = {.text = text};
  ls_json_begin(&json, '{');
  if (num_notes > 0) {
    ls_json_key(&json, reserved_name);
    ls_json_begin(&json, '{');
    for (size_t i = 0; i < num_notes; ++i) {
      ls_json_key(&json, notes[i].key);
      ls_json_string(&json, notes[i].value);
    }
    ls_json_end(&json, '}');
  }
  int64_t offset = 0;
  order o = order_of(tensors, count);
  for (const ls_safetensor *it; (it = order_next(&o)) != NULL;) {
    const ls_shape shape = ls_array_shape(it->array);
    ls_json_key(&json, it->name);
    ls_json_begin(&json, '{');
    ls_json_key(&json, "dtype");
    ls_json_string(&json, ls_safetensors_dtype_name(ls_array_dtype(it->array)));
    ls_json_key(&json, "shape");
    ls_json_begin(&json, '[');
    for (int i = 0; i < shape.rank; ++i)
      ls_json_i64(&json, shape.dim[i]);
    ls_json_end(&json, ']');
    ls_json_key(&json, "data_offsets");
    ls_json_begin(&json, '[');
    ls_json_i64(&json, offset);
    offset += (int64_t)ls_array_size(it->array);
    ls_json_i64(&json, offset);
    ls_json_end(&json, ']');
    ls_json_end(&json, '}');
  }
  ls_json_end(&json, '}');
  while (text->size % 8 != 0 && !text->failed)
    ls_text_append_char(text, ' ');
}

ls_status
ls_safetensors_encode(ls_allocator *allocator, const ls_safetensor *tensors,
                      size_t num_tensors, const ls_safetensors_note *notes,
                      size_t num_notes, char **out_bytes, size_t *out_size) {
  *out_bytes = NULL;
  *out_size = 0;
  LS_RETURN_IF_ERROR(check(allocator, tensors, num_tensors));
  ls_text header;
  ls_text_init(&header, allocator);
  write_header(&header, tensors, num_tensors, notes, num_notes);
  ls_status status = ls_text_status(&header);
  size_t size = 8 + header.size;
  for (size_t i = 0; i < num_tensors; ++i)
    size += ls_array_size(tensors[i].array);
  char *bytes = ls_status_is_ok(status) ? ls_allocate(allocator, size) : NULL;
  if (bytes != NULL) {
    for (int i = 0; i < 8; ++i)
      bytes[i] = (char)((uint64_t)header.size >> (8 * i) & 0xff);
    memcpy(bytes + 8, header.data, header.size);
    size_t at = 8 + header.size;
    order o = order_of(tensors, num_tensors);
    for (const ls_safetensor *it; (it = order_next(&o)) != NULL;) {
      const size_t part = ls_array_size(it->array);
      if (part > 0) memcpy(bytes + at, ls_array_data(it->array), part);
      at += part;
    }
    *out_bytes = bytes;
    *out_size = size;
  } else if (ls_status_is_ok(status)) {
    status = ls_out_of_memory();
  }
  ls_text_deinit(&header);
  return status;
}

ls_status ls_safetensors_write(ls_runtime *runtime, const char *path,
                               const ls_safetensor *tensors, size_t num_tensors,
                               const ls_safetensors_note *notes,
                               size_t num_notes) {
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  char *bytes = NULL;
  size_t size = 0;
  ls_status status = ls_safetensors_encode(allocator, tensors, num_tensors,
                                           notes, num_notes, &bytes, &size);
  if (ls_status_is_ok(status))
    status = files->write(files->user, path, bytes, size);
  ls_release(allocator, bytes);
  return ls_status_annotate(status, "while saving '%s'", path);
}
