// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "io/json.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"

// Longer headers are damage: so says the format.
static const uint64_t header_limit = 100 * 1000 * 1000;

// Where an array's elements are.
typedef struct span {
  size_t from, to;
  const char *name;
} span;

// A file's bytes while they are read.
typedef struct reader {
  const char *name;
  const unsigned char *data;  // The elements.
  size_t data_size;
  size_t covered;  // Bytes of arrays so far.
  ls_safetensors *file;
  size_t tensors_capacity;
  span *spans;  // One for each array.
  size_t spans_capacity;
} reader;

// ---- One array -------------------------------------------------------------
static ls_status bad_entry(const reader *r, const ls_json *entry,
                           const char *what) {
  return ls_invalid_argument("'%s': array '%s' %s", r->name, entry->key, what);
}

static ls_status parse_dtype(const reader *r, const ls_json *entry,
                             ls_dtype *out_dtype) {
  const ls_json *dtype = ls_json_find(entry, "dtype");
  if (dtype == NULL || dtype->kind != LS_JSON_STRING)
    return bad_entry(r, entry, "has no dtype");
  for (int i = 0; i < LS_DTYPE_COUNT; ++i) {
    const char *name = ls_safetensors_dtype_name((ls_dtype)i);
    if (name != NULL && strcmp(name, dtype->string) == 0) {
      *out_dtype = (ls_dtype)i;
      return ls_ok();
    }
  }
  return LS_STATUS(LS_UNIMPLEMENTED,
                   "'%s': array '%s' has dtype '%s', which is not read",
                   r->name, entry->key, dtype->string);
}

static ls_status parse_shape(const reader *r, const ls_json *entry,
                             ls_shape *out_shape) {
  const ls_json *shape = ls_json_find(entry, "shape");
  if (shape == NULL || shape->kind != LS_JSON_ARRAY)
    return bad_entry(r, entry, "has no shape");
  *out_shape = LS_SCALAR;
  for (const ls_json *dim = shape->first; dim != NULL; dim = dim->next) {
    if (!dim->is_integer || dim->integer < 0)
      return bad_entry(r, entry, "has a size that is no count");
    if (out_shape->rank == LS_MAX_RANK)
      return bad_entry(r, entry, "has more than 8 dimensions");
    out_shape->dim[out_shape->rank++] = dim->integer;
  }
  return ls_status_annotate(ls_shape_check(*out_shape), "array '%s' of '%s'",
                            entry->key, r->name);
}

static ls_status parse_span(const reader *r, const ls_json *entry,
                            ls_dtype dtype, ls_shape shape, span *out_span) {
  const ls_json *offsets = ls_json_find(entry, "data_offsets");
  const ls_json *from =
      offsets != NULL && offsets->kind == LS_JSON_ARRAY ? offsets->first : NULL;
  const ls_json *to = from != NULL ? from->next : NULL;
  if (to == NULL || to->next != NULL || !from->is_integer || !to->is_integer)
    return bad_entry(r, entry, "has no two data_offsets");
  const uint64_t wanted =
      (uint64_t)ls_shape_num_elements(shape) * ls_dtype_size(dtype);
  if (from->integer < 0 || to->integer < from->integer ||
      (uint64_t)(to->integer - from->integer) != wanted)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s': array '%s' is %s, which is %llu bytes; its "
                     "data_offsets are %lld and %lld",
                     r->name, entry->key, LS_SHAPE_TEXT(dtype, shape),
                     (unsigned long long)wanted, (long long)from->integer,
                     (long long)to->integer);
  if ((uint64_t)to->integer > r->data_size)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is cut off: array '%s' ends at byte %lld of the "
                     "elements, which are %zu",
                     r->name, entry->key, (long long)to->integer, r->data_size);
  // No more is given out than there is; where they overlap is found at the end.
  if (wanted > r->data_size - r->covered)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s': array '%s' overlaps others: with it they have more "
                     "than the %zu bytes of elements",
                     r->name, entry->key, r->data_size);
  *out_span = (span){(size_t)from->integer, (size_t)to->integer, entry->key};
  return ls_ok();
}

static ls_status parse_entry(reader *r, const ls_json *entry) {
  ls_safetensors *file = r->file;
  ls_dtype dtype = LS_DTYPE_NONE;
  ls_shape shape;
  span at;
  LS_RETURN_IF_ERROR(parse_dtype(r, entry, &dtype));
  LS_RETURN_IF_ERROR(parse_shape(r, entry, &shape));
  LS_RETURN_IF_ERROR(parse_span(r, entry, dtype, shape, &at));
  const size_t count = file->num_tensors + 1;
  if (!ls_grow(file->allocator, &file->tensors, &r->tensors_capacity, count,
               sizeof(*file->tensors)) ||
      !ls_grow(file->allocator, &r->spans, &r->spans_capacity, count,
               sizeof(*r->spans)))
    return ls_out_of_memory();
  ls_safetensor *tensor = &file->tensors[file->num_tensors];
  tensor->name = entry->key;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(dtype, shape, r->data + at.from, &tensor->array));
  r->spans[file->num_tensors++] = at;
  r->covered += at.to - at.from;
  return ls_ok();
}

static int compare_spans(const void *a, const void *b) {
  const span *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->to < y->to ? -1 : x->to > y->to;
}

// Every byte of the elements belongs to one array.
static ls_status check_spans(reader *r) {
  const size_t count = r->file->num_tensors;
  if (count > 0) qsort(r->spans, count, sizeof(*r->spans), compare_spans);
  size_t next = 0;
  for (size_t i = 0; i < count; next = r->spans[i++].to) {
    if (r->spans[i].from != next)
      return LS_STATUS(LS_DATA_LOSS,
                       "'%s': array '%s' begins at byte %zu of the elements, "
                       "where byte %zu is the next",
                       r->name, r->spans[i].name, r->spans[i].from, next);
  }
  if (next == r->data_size) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' has %zu bytes of elements, its arrays have %zu",
                   r->name, r->data_size, next);
}

// ---- The whole -------------------------------------------------------------
static ls_status parse_notes(const reader *r, const ls_json *notes) {
  ls_safetensors *file = r->file;
  size_t count = 0;
  for (const ls_json *it = notes->first; it != NULL; it = it->next) {
    if (it->key == NULL || it->kind != LS_JSON_STRING)
      return ls_invalid_argument("'%s': __metadata__ holds more than texts",
                                 r->name);
    ++count;
  }
  file->notes = ls_arena_new_array(file->arena, ls_safetensors_note, count + 1);
  if (file->notes == NULL) return ls_out_of_memory();
  for (const ls_json *it = notes->first; it != NULL; it = it->next) {
    ls_safetensors_note *note = &file->notes[file->num_notes];
    note->key = ls_arena_string(file->arena, it->key);
    note->value = ls_arena_string(file->arena, it->string);
    if (note->key == NULL || note->value == NULL) return ls_out_of_memory();
    ++file->num_notes;
  }
  return ls_ok();
}

static ls_status parse_member(void *user, const ls_json *member) {
  reader *r = user;
  return strcmp(member->key, "__metadata__") == 0 ? parse_notes(r, member)
                                                  : parse_entry(r, member);
}

ls_status ls_safetensors_decode(ls_allocator *allocator, const char *name,
                                const void *bytes, size_t size,
                                ls_safetensors *out_file) {
  *out_file = (ls_safetensors){.allocator = allocator};
  const unsigned char *at = bytes;
  uint64_t header_size = 0;
  for (int i = 7; i >= 0 && size >= 8; --i)
    header_size = header_size << 8 | at[i];
  if (size < 8 || header_size > header_limit || header_size > size - 8)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is cut off or no safetensors file: %zu bytes, with "
                     "a header of %llu",
                     name, size, (unsigned long long)header_size);
  ls_arena *arena = ls_new(allocator, ls_arena);
  if (arena == NULL) return ls_out_of_memory();
  ls_arena_init(arena, allocator);
  out_file->arena = arena;
  reader r = {.name = name,
              .data = at + 8 + header_size,
              .data_size = size - 8 - (size_t)header_size,
              .file = out_file};
  ls_status status = ls_json_visit(arena, name, (const char *)at + 8,
                                   (size_t)header_size, parse_member, &r);
  if (ls_status_is_ok(status)) status = check_spans(&r);
  ls_release(allocator, r.spans);
  if (!ls_status_is_ok(status)) ls_safetensors_deinit(out_file);
  return status;
}

ls_status ls_safetensors_read(ls_runtime *runtime, const char *path,
                              ls_safetensors *out_file) {
  *out_file = (ls_safetensors){0};
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  char *bytes = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(
      files->read(files->user, path, SIZE_MAX, allocator, &bytes, &size));
  ls_status status =
      ls_safetensors_decode(allocator, path, bytes, size, out_file);
  ls_release(allocator, bytes);
  return status;
}

void ls_safetensors_deinit(ls_safetensors *file) {
  for (size_t i = 0; i < file->num_tensors; ++i)
    ls_array_release(file->tensors[i].array);
  ls_release(file->allocator, file->tensors);
  if (file->arena != NULL) {
    ls_arena_deinit(file->arena);
    ls_release(file->allocator, file->arena);
  }
  *file = (ls_safetensors){0};
}

ls_array *ls_safetensors_find(const ls_safetensors *file, const char *name) {
  for (size_t i = 0; i < file->num_tensors; ++i) {
    if (strcmp(file->tensors[i].name, name) == 0) return file->tensors[i].array;
  }
  return NULL;
}
