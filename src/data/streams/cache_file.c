// SPDX-License-Identifier: Apache-2.0
#include "data/streams/cache_file.h"

#include "base/status_cause.h"
#include "base/text.h"
#include "base/values/array_internal.h"
#include "data/own.h"
#include "io/crc32c.h"
#include "lockstep/shape_rules.h"

static const char magic[8] = "LSCACHE1";
enum { HEADER = 64, CHECKED = 40, FLUSH = 1 << 20 };

typedef struct header {
  char magic[8];
  uint64_t digest[2];
  int64_t count, index;
  uint32_t crc;
  uint32_t zero;
  uint64_t zeros[2];
} header;
_Static_assert(sizeof(header) == HEADER, "a header has no holes");

// ---- Writing ---------------------------------------------------------------
typedef struct writer {
  const ls_file_system *files;
  void *handle;
  ls_text buffer;  // Bytes not written yet.
  int64_t at;      // Their offset in the file.
  int64_t *offsets;
  size_t count, capacity;
} writer;

static ls_status flush_buffer(writer *self) {
  LS_RETURN_IF_ERROR(ls_text_status(&self->buffer));
  const size_t size = self->buffer.size;
  if (size == 0) return ls_ok();
  LS_RETURN_IF_ERROR(self->files->write_at(self->files->user, self->handle,
                                           self->at, self->buffer.data, size));
  self->at += (int64_t)size;
  ls_text_clear(&self->buffer);
  return ls_ok();
}

static ls_status write_leaf(ls_text *text, ls_nest leaf) {
  const ls_array *array = ls_nest_as_array(leaf);
  if (array == NULL)
    return LS_STATUS(LS_UNIMPLEMENTED, "a cache file of a leaf that is no "
                                       "array; keep it in memory");
  const ls_shape shape = ls_array_shape(array);
  const int32_t head[2] = {(int32_t)ls_array_dtype(array), shape.rank};
  ls_text_append_bytes(text, head, sizeof(head));
  ls_text_append_bytes(text, shape.dim,
                       (size_t)shape.rank * sizeof(*shape.dim));
  if (!ls_dtype_owns_elements(ls_array_dtype(array))) {
    ls_text_append_bytes(text, ls_array_data(array), ls_array_size(array));
    return ls_ok();
  }
  if (ls_array_dtype(array) != LS_DTYPE_STRING)
    return LS_STATUS(LS_UNIMPLEMENTED, "a cache file of %s; keep it in memory",
                     ls_dtype_name(ls_array_dtype(array)));
  const ls_bytes *strings = ls_array_data(array);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
    const int64_t size = (int64_t)strings[i].size;
    ls_text_append_bytes(text, &size, sizeof(size));
    ls_text_append_bytes(text, strings[i].data, strings[i].size);
  }
  return ls_ok();
}

// Writes leaves in flattening order (sorted keys), which the reader uses too.
static ls_status write_element(writer *self, ls_allocator *allocator,
                               ls_nest element) {
  const size_t count = ls_nest_num_leaves(element);
  LS_RETURN_IF_NO_MEMORY(
      LS_GROW(allocator, self->offsets, self->capacity, self->count + 2));
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count);
  ls_nest_flatten(element, leaves, count);
  const size_t start = self->buffer.size;
  self->offsets[self->count++] = self->at + (int64_t)start;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(write_leaf(&self->buffer, leaves[i]));
  LS_RETURN_IF_ERROR(ls_text_status(&self->buffer));
  const uint32_t crc =
      ls_crc32c(0, self->buffer.data + start, self->buffer.size - start);
  ls_text_append_bytes(&self->buffer, &crc, sizeof(crc));
  return self->buffer.size >= FLUSH ? flush_buffer(self) : ls_ok();
}

static ls_status write_elements(writer *self, ls_allocator *allocator,
                                ls_dataset *source) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(source, NULL, &iterator));
  while (true) {
    LS_RETURN_OK_IF(LS_OUT_OF_RANGE, ls_iterator_next(iterator, &element));
    LS_RETURN_IF_ERROR(write_element(self, allocator, element));
  }
}

static ls_status write_file(writer *self, const uint64_t digest[2],
                            ls_allocator *allocator, ls_dataset *source) {
  header head = {.digest = {digest[0], digest[1]}};
  memcpy(head.magic, magic, sizeof(magic));
  self->at = HEADER;
  LS_RETURN_IF_ERROR(write_elements(self, allocator, source));
  LS_RETURN_IF_NO_MEMORY(
      LS_GROW(allocator, self->offsets, self->capacity, self->count + 1));
  head.count = (int64_t)self->count;
  head.index = self->at + (int64_t)self->buffer.size;
  self->offsets[self->count] = head.index;
  const size_t size = (self->count + 1) * sizeof(*self->offsets);
  const uint32_t crc = ls_crc32c(0, self->offsets, size);
  ls_text_append_bytes(&self->buffer, self->offsets, size);
  ls_text_append_bytes(&self->buffer, &crc, sizeof(crc));
  LS_RETURN_IF_ERROR(flush_buffer(self));
  head.crc = ls_crc32c(0, &head, CHECKED);
  return self->files->write_at(self->files->user, self->handle, 0, &head,
                               sizeof(head));
}

ls_status ls_cache_file_build(ls_runtime *runtime, const char *path,
                              const uint64_t digest[2], ls_allocator *allocator,
                              ls_dataset *source, bool *out_is_busy) {
  writer self = {.files = ls_runtime_files(runtime)};
  if (self.files->create == NULL || self.files->write_at == NULL ||
      self.files->finish == NULL)
    return LS_STATUS(LS_UNIMPLEMENTED,
                     "'%s' cannot be written: the runtime's file system does "
                     "not write in parts",
                     path);
  ls_status status =
      self.files->create(self.files->user, path, false, &self.handle);
  *out_is_busy = ls_status_code(status) == LS_FAILED_PRECONDITION;
  LS_RETURN_OK_IF(LS_FAILED_PRECONDITION, status);
  ls_text_init(&self.buffer, allocator);
  status = write_file(&self, digest, allocator, source);
  status =
      ls_status_join(status, self.files->finish(self.files->user, self.handle,
                                                ls_status_is_ok(status)));
  ls_text_deinit(&self.buffer);
  ls_release(allocator, self.offsets);
  return ls_status_annotate(status, "writing the cache file '%s'", path);
}

// ---- Opening ---------------------------------------------------------------
static ls_status damaged(const char *path, const char *problem) {
  return LS_STATUS(LS_DATA_LOSS,
                   "the cache file '%s' is damaged: %s; remove it, and it is "
                   "made again",
                   path, problem);
}

static ls_status read_index(ls_cache_file *self, const header *head) {
  const char *path = self->file->path;
  const int64_t file_size = self->file->size;
  const bool within = head->index >= HEADER && head->index <= file_size - 12;
  const int64_t rest = within ? file_size - head->index - 12 : 0;
  if (!within || rest % 8 != 0 || head->count != rest / 8)
    return damaged(path, "its size differs from its header");
  const size_t size = (size_t)(head->count + 1) * sizeof(int64_t);
  uint32_t crc = 0;
  self->count = head->count;
  LS_SET_ARRAY_OR_RETURN(self->allocator, int64_t, self->offsets,
                         (size_t)head->count + 1);
  LS_RETURN_IF_ERROR(
      ls_file_read(self->file, head->index, self->offsets, size));
  LS_RETURN_IF_ERROR(
      ls_file_read(self->file, head->index + (int64_t)size, &crc, sizeof(crc)));
  if (crc != ls_crc32c(0, self->offsets, size))
    return damaged(path, "the checksum of its index does not match");
  for (int64_t i = 0; i <= self->count; ++i) {
    const int64_t before = i == 0 ? HEADER : self->offsets[i - 1] + 4;
    if (self->offsets[i] < before || self->offsets[i] > head->index)
      return damaged(path, "its index does not rise");
  }
  return ls_ok();
}

static ls_status read_header(ls_cache_file *self, const uint64_t digest[2]) {
  const char *path = self->file->path;
  header head;
  if (self->file->size < HEADER)
    return damaged(path, "it is shorter than its header");
  LS_RETURN_IF_ERROR(ls_file_read(self->file, 0, &head, sizeof(head)));
  if (memcmp(head.magic, magic, sizeof(magic)) != 0)
    return ls_invalid_argument("'%s' is no cache file; give another name",
                               path);
  if (head.crc != ls_crc32c(0, &head, CHECKED))
    return damaged(path, "the checksum of its header does not match");
  if (head.digest[0] != digest[0] || head.digest[1] != digest[1])
    return ls_invalid_argument("'%s' is the cache file of another pipeline; "
                               "remove it, or give another "
                               "name",
                               path);
  return read_index(self, &head);
}

ls_status ls_cache_file_open(ls_runtime *runtime, const char *path,
                             const uint64_t digest[2], ls_allocator *allocator,
                             ls_cache_file **out_file) {
  *out_file = NULL;
  LS_OWN_NEW_OR_RETURN(allocator, ls_cache_file, self);
  self->allocator = allocator;
  LS_RETURN_IF_ERROR(ls_file_open(runtime, path, &self->file));
  LS_RETURN_IF_ERROR(read_header(self, digest));
  return ls_hand_over(&self, out_file);
}

void ls_cache_file_close(ls_cache_file *file) {
  if (file == NULL) return;
  ls_file_close(file->file);
  ls_release(file->allocator, file->offsets);
  ls_release(file->allocator, file);
}

// ---- Reading ---------------------------------------------------------------
typedef struct reader {
  const char *at, *end;
} reader;

static bool take_bytes(reader *self, void *to, size_t size) {
  if ((size_t)(self->end - self->at) < size) return false;
  memcpy(to, self->at, size);
  self->at += size;
  return true;
}

// Reads the strings of an array, lent from the element's bytes.
static bool take_strings(reader *self, ls_bytes *strings, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t size = 0;
    if (!take_bytes(self, &size, sizeof(size)) || size < 0 ||
        size > self->end - self->at)
      return false;
    strings[i] = (ls_bytes){.data = self->at, .size = (size_t)size};
    self->at += size;
  }
  return true;
}

static ls_status read_leaf(reader *self, const ls_leaf_spec *spec,
                           ls_nest *out) {
  int32_t head[2] = {0};
  ls_shape shape = {0};
  const bool fits = take_bytes(self, head, sizeof(head)) &&
                    head[0] == (int32_t)spec->type.dtype && head[1] >= 0 &&
                    head[1] <= LS_MAX_RANK;
  if (fits) shape.rank = head[1];
  if (!fits ||
      !take_bytes(self, shape.dim, (size_t)shape.rank * sizeof(*shape.dim)) ||
      !ls_shape_compatible(shape, spec->type.shape))
    return LS_STATUS(LS_DATA_LOSS, "a leaf is of another type");
  LS_RETURN_IF_ERROR(ls_shape_check(shape));
  const int64_t count = ls_shape_num_elements(shape);
  // Each element takes at least a byte: the file's size bounds the allocation.
  if (!ls_shape_is_known(shape) || count > self->end - self->at)
    return LS_STATUS(LS_DATA_LOSS, "a leaf is longer than the element");
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(spec->type.dtype, shape, &array));
  void *data = ls_array_mutable_data(array);
  bool whole = true;
  if (ls_dtype_owns_elements(spec->type.dtype)) {
    ls_array_lend(array);
    whole = take_strings(self, data, count);
    if (!whole) memset(data, 0, ls_array_size(array));
    LS_RETURN_IF_ERROR(ls_array_own(array));
  } else {
    whole = take_bytes(self, data, ls_array_size(array));
  }
  if (!whole)
    return LS_STATUS(LS_DATA_LOSS, "a leaf is longer than the element");
  *out = ls_nest_array(ls_give(&array));
  return ls_ok();
}

static ls_status read_element(reader *self, const ls_dataset *like,
                              ls_nest *element) {
  const size_t count = like->num_leaves;
  LS_OWN(ls_nests, leaves) = {0};
  LS_RETURN_IF_ERROR(ls_nests_init(&leaves, like->allocator, count));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(read_leaf(self, &like->leaves[i], &leaves.items[i]));
  if (self->at != self->end)
    return LS_STATUS(LS_DATA_LOSS, "there is more than its leaves");
  leaves.count = 0;  // The packed nest owns the leaves.
  return ls_element_replace(ls_nest_pack(like->structure, leaves.items, count),
                            element);
}

static ls_status read_checked(const ls_cache_file *file, int64_t index,
                              const ls_dataset *like, ls_nest *element) {
  const int64_t offset = file->offsets[index];
  const size_t size = (size_t)(file->offsets[index + 1] - offset);
  uint32_t crc = 0;
  LS_OWN_MEMORY(file->allocator, char, data) =
      ls_allocate(file->allocator, size);
  LS_RETURN_IF_NO_MEMORY(data);
  LS_RETURN_IF_ERROR(ls_file_read(file->file, offset, data, size));
  memcpy(&crc, data + size - sizeof(crc), sizeof(crc));
  if (crc != ls_crc32c(0, data, size - sizeof(crc)))
    return LS_STATUS(LS_DATA_LOSS, "its checksum does not match");
  reader self = {data, data + size - sizeof(crc)};
  return read_element(&self, like, element);
}

ls_status ls_cache_file_read(const ls_cache_file *file, int64_t index,
                             const ls_dataset *like, ls_nest *element) {
  return ls_status_annotate(read_checked(file, index, like, element),
                            "element %lld of the cache file '%s'",
                            (long long)index, file->file->path);
}
