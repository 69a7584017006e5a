// SPDX-License-Identifier: Apache-2.0
#include "train/chain/chain.h"

#include <stdio.h>

#include "base/files.h"
#include "io/crc32c.h"

enum { BUFFER = 1 << 18, LEAST_BLOCK = 64 };

// ---- Bytes -----------------------------------------------------------------
void ls_part_begin(ls_part *part) {
  *part = (ls_part){.block = UINT64_MAX};
  ls_sha256_init(&part->sha);
}

// Begins a part of `size` units of `unit` bytes; a block has a power of two of
// units.
static void begin_blocks(ls_part *part, int64_t size, uint64_t unit) {
  int64_t units = 1;
  while (units * LS_PART_BLOCKS < size)
    units *= 2;
  ls_part_begin(part);
  part->block = (uint64_t)units * unit;
}

static void part_add(ls_part *part, const char *data, size_t size) {
  ls_sha256_add(&part->sha, data, size);
  while (size > 0) {
    const uint64_t left = part->block - part->bytes % part->block;
    const size_t piece = size < left ? size : (size_t)left;
    uint64_t block = part->bytes / part->block;
    // The last one takes what a file has grown by meanwhile.
    if (block >= LS_PART_BLOCKS) block = LS_PART_BLOCKS - 1;
    part->crcs[block] = ls_crc32c(part->crcs[block], data, piece);
    part->bytes += piece;
    data += piece;
    size -= piece;
  }
}

// ---- Files -----------------------------------------------------------------
void ls_part_reader_deinit(ls_part_reader *self) {
  if (self->buffer == NULL) return;
  ls_release(ls_runtime_allocator(self->runtime), self->buffer);
  self->buffer = NULL;
}

static ls_status check_worker(const ls_part_reader *self) {
  return self->worker != NULL && ls_worker_is_stopped(self->worker)
             ? LS_STATUS(LS_CANCELLED, "hashing was stopped")
             : ls_ok();
}

ls_status ls_part_add_file(ls_part_reader *self, const char *path, int64_t from,
                           int64_t to, ls_part *part) {
  LS_OWN(ls_file, file) = NULL;
  LS_RETURN_IF_ERROR(ls_file_open(self->runtime, path, &file));
  if (to < 0) to = file->size;
  if (part->block == 0)
    begin_blocks(part, (to + LEAST_BLOCK - 1) / LEAST_BLOCK, LEAST_BLOCK);
  if (self->buffer == NULL)
    self->buffer = ls_allocate(ls_runtime_allocator(self->runtime), BUFFER);
  LS_RETURN_IF_NO_MEMORY(self->buffer);
  while (from < to) {
    const size_t size = to - from < BUFFER ? (size_t)(to - from) : BUFFER;
    LS_RETURN_IF_ERROR(check_worker(self));
    LS_RETURN_IF_ERROR(ls_file_read(file, from, self->buffer, size));
    part_add(part, self->buffer, size);
    from += (int64_t)size;
  }
  return ls_ok();
}

// ---- Data sets -------------------------------------------------------------
typedef struct walk {
  ls_part_reader *reader;
  ls_part_taker take;
  void *user;
  const ls_dataset **sources;  // Sources so far.
  size_t count, capacity;
  ls_text name;
  ls_part part;
} walk;

static void walk_deinit(walk *self) {
  ls_release(ls_runtime_allocator(self->reader->runtime), self->sources);
  ls_text_deinit(&self->name);
}
LS_OWNED_STRUCT(walk, walk_deinit)

static ls_status take_part(walk *self) {
  LS_RETURN_IF_ERROR(ls_text_status(&self->name));
  LS_RETURN_IF_ERROR(
      self->take(self->user, ls_text_data(&self->name), &self->part));
  self->part = (ls_part){0};
  ls_text_clear(&self->name);
  return ls_ok();
}

static ls_status name_file(const ls_dataset *source, int64_t i, ls_text *path) {
  ls_text_clear(path);
  if (source->kind->num_files != NULL)
    ls_text_append(path, source->kind->file(source, (size_t)i));
  else
    source->kind->file_of(source, i, path);
  return ls_text_status(path);
}

// Reads files. Each of many parts has several, and the names of the first and
// the last.
static ls_status walk_files(walk *self, const ls_dataset *source,
                            int64_t count) {
  enum { PARTS = 1024 };
  const int64_t each = (count + PARTS - 1) / PARTS;
  LS_OWN(ls_text, path) = {.allocator = source->allocator};
  for (int64_t i = 0; i < count; ++i) {
    const bool is_first = i % each == 0;
    const bool is_last = (i + 1) % each == 0 || i + 1 == count;
    LS_RETURN_IF_ERROR(name_file(source, i, &path));
    if (is_first && !is_last) ls_part_begin(&self->part);
    if (is_first || is_last)
      ls_text_append_format(&self->name, "%s%s", is_first ? "" : " to ",
                            ls_text_data(&path));
    LS_RETURN_IF_ERROR(ls_part_add_file(self->reader, ls_text_data(&path), 0,
                                        -1, &self->part));
    if (is_last) LS_RETURN_IF_ERROR(take_part(self));
  }
  return ls_ok();
}

// Adds `count` elements from `first` on, leaf by leaf.
static ls_status add_rows(walk *self, const ls_dataset *source, ls_fetch *fetch,
                          int64_t first, int64_t count) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, int64_t, indices, (size_t)count);
  LS_ROOM_OR_RETURN(fetch, void *, rows, source->num_leaves);
  for (int64_t i = 0; i < count; ++i)
    indices[i] = first + i;
  for (size_t i = 0; i < source->num_leaves; ++i) {
    rows[i] = ls_fetch_room(fetch, (size_t)count * source->row_sizes[i]);
    LS_RETURN_IF_NO_MEMORY(rows[i]);
  }
  LS_RETURN_IF_ERROR(check_worker(self->reader));
  LS_RETURN_IF_ERROR(
      ls_dataset_read(source, fetch, indices, (size_t)count, rows));
  for (size_t i = 0; i < source->num_leaves; ++i)
    part_add(&self->part, rows[i], (size_t)count * source->row_sizes[i]);
  return ls_ok();
}

// Reads elements that have no files, some at a time.
static ls_status walk_rows(walk *self, const ls_dataset *source) {
  uint64_t element = 0;
  int64_t chunk = 1;
  for (size_t i = 0; i < source->num_leaves; ++i)
    element += source->row_sizes[i];
  if (element == 0) return ls_ok();
  begin_blocks(&self->part, source->size, element);
  self->part.element = element;
  while ((uint64_t)chunk * 2 * element <= BUFFER &&
         (uint64_t)chunk * element < self->part.block)
    chunk *= 2;
  LS_OWN(ls_fetch, fetch) = {0};
  ls_fetch_init(&fetch, source->allocator, 0);
  for (int64_t i = 0; i < source->size; i += chunk) {
    const int64_t left = source->size - i;
    LS_RETURN_IF_ERROR(
        add_rows(self, source, &fetch, i, left < chunk ? left : chunk));
  }
  return ls_ok();
}

static ls_status walk_source(walk *self, const ls_dataset *source) {
  const ls_dataset_class *kind = source->kind;
  for (size_t i = 0; i < self->count; ++i)
    if (self->sources[i] == source) return ls_ok();
  LS_PUSH_OR_RETURN(ls_runtime_allocator(self->reader->runtime), self->sources,
                    self->count, self->capacity, source);
  if (kind->num_files != NULL)
    return walk_files(self, source, (int64_t)kind->num_files(source));
  if (kind->file_of != NULL && source->size >= 0)
    return walk_files(self, source, source->size);
  if (source->indexed && source->rows && source->size >= 0)
    LS_RETURN_IF_ERROR(walk_rows(self, source));
  ls_text_append_format(&self->name, "source %zu of the data (%s)", self->count,
                        source->title != NULL ? source->title : kind->name);
  return take_part(self);
}

static ls_status walk_data(walk *self, const ls_dataset *dataset) {
  if (dataset->num_inputs == 0) return walk_source(self, dataset);
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    LS_RETURN_IF_ERROR(walk_data(self, dataset->inputs[i]));
  return ls_ok();
}

ls_status ls_parts_of_data(ls_part_reader *self,
                           const ls_dataset *const *datasets, size_t count,
                           ls_part_taker take, void *user) {
  LS_OWN(walk, w) = {.reader = self, .take = take, .user = user};
  ls_text_init(&w.name, ls_runtime_allocator(self->runtime));
  for (size_t i = 0; i < count; ++i)
    if (datasets[i] != NULL) LS_RETURN_IF_ERROR(walk_data(&w, datasets[i]));
  return ls_ok();
}

// ---- JSON ------------------------------------------------------------------
static uint64_t count_blocks(const ls_part *part) {
  const uint64_t blocks =
      part->bytes / part->block + (part->bytes % part->block != 0);
  return blocks < LS_PART_BLOCKS ? blocks : LS_PART_BLOCKS;
}

void ls_part_write(ls_json_writer *json, const char *name,
                   const ls_part *part) {
  char text[LS_SHA256_TEXT], crcs[8 * LS_PART_BLOCKS + 1] = "";
  ls_json_begin(json, '{');
  ls_json_key(json, "name");
  ls_json_any_string(json, name);
  if (part->block > 0) {
    const uint64_t blocks = count_blocks(part);
    ls_sha256_print(&part->sha, text);
    for (uint64_t i = 0; i < blocks; ++i)
      snprintf(crcs + 8 * i, 9, "%08x", part->crcs[i]);
    ls_json_key(json, "bytes");
    ls_json_i64(json, (int64_t)part->bytes);
    ls_json_key(json, "sha256");
    ls_json_string(json, text);
    ls_json_key(json, "crc32c");
    ls_json_string(json, crcs);
  }
  ls_json_end(json, '}');
}

// Appends the range of bytes, or of elements, from the first to the last block
// whose CRC differs.
static void append_range(const char *crcs, const ls_part *part, ls_text *text) {
  const uint64_t blocks = count_blocks(part);
  uint64_t first = blocks, end = 0;
  for (uint64_t i = 0; i < blocks; ++i) {
    char crc[9];
    snprintf(crc, sizeof(crc), "%08x", part->crcs[i]);
    if (strncmp(crcs + 8 * i, crc, 8) == 0) continue;
    if (first == blocks) first = i;
    end = i + 1 < blocks ? (i + 1) * part->block : part->bytes;
  }
  if (blocks < 2 || end == 0) return;
  const uint64_t unit = part->element > 0 ? part->element : 1;
  ls_text_append_format(text, " in %s %llu to %llu of %llu",
                        part->element > 0 ? "elements" : "bytes",
                        (unsigned long long)(first * part->block / unit),
                        (unsigned long long)(end / unit - 1),
                        (unsigned long long)(part->bytes / unit));
}

bool ls_part_matches(const ls_json *written, const ls_part *part,
                     ls_text *difference) {
  char sha[LS_SHA256_TEXT];
  const ls_json *bytes = ls_json_find(written, "bytes");
  const ls_json *hash = ls_json_find(written, "sha256");
  const ls_json *crcs = ls_json_find(written, "crc32c");
  // Data that could not be read have no hash.
  if (part->block == 0 || hash == NULL || bytes == NULL || crcs == NULL) {
    if (part->block == 0 && hash == NULL) return true;
    ls_text_append(difference, "is of another kind");
    return false;
  }
  ls_sha256_print(&part->sha, sha);
  if (hash->kind == LS_JSON_STRING && strcmp(hash->string, sha) == 0)
    return true;
  if (bytes->integer != (int64_t)part->bytes) {
    ls_text_append_format(difference, "has %llu bytes, it had %lld",
                          (unsigned long long)part->bytes,
                          (long long)bytes->integer);
    return false;
  }
  ls_text_append(difference, "differs");
  if (crcs->kind == LS_JSON_STRING &&
      crcs->string_size == 8 * count_blocks(part))
    append_range(crcs->string, part, difference);
  return false;
}
