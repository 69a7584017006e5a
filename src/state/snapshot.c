// SPDX-License-Identifier: Apache-2.0
#include "state/snapshot.h"

#include "base/status_cause.h"
#include "io/crc32c.h"
#include "runtime/store.h"
#include "state/saver_file.h"

// CHUNK: the least bytes that a worker copies; parts are cut at its multiples.
// Below LEAST_SHARED the caller copies alone.
enum { CHUNK = 1 << 20, LEAST_SHARED = 2 << 20 };
// Bytes written at a time.
enum { PIECE = 4 << 20 };

// Sources of the entries, while a snapshot is taken.
typedef struct sources {
  ls_allocator *allocator;
  ls_store *store;
  ls_variable **variables;  // Variables whose buffers are copied.
  size_t num_variables, variables_capacity;
  // Source of an entry: the number of its variable, or an array.
  struct source {
    size_t variable;
    ls_array *array;
    const void *data;  // NULL: zeros.
  } * items;
  size_t items_capacity;
} sources;

// ---- Entries ---------------------------------------------------------------
static ls_status add_entry(ls_snapshot *self, sources *from, const char *name,
                           ls_type type, struct source source) {
  const size_t count = self->count;
  if (!LS_GROW(self->allocator, self->entries, self->capacity, count + 1) ||
      !LS_GROW(from->allocator, from->items, from->items_capacity, count + 1))
    return ls_out_of_memory();
  self->entries[count] = (ls_safetensors_entry){
      .name = name, .dtype = type.dtype, .shape = type.shape};
  from->items[count] = source;
  ++self->count;
  return ls_ok();
}

// Adds a variable whose value is in a buffer.
static ls_status snapshot_add_variable(ls_snapshot *self, sources *from,
                                       const char *name,
                                       ls_variable *variable) {
  const size_t number = from->num_variables;
  LS_RETURN_IF_NO_MEMORY(LS_GROW(from->allocator, from->variables,
                                 from->variables_capacity, number + 1));
  from->variables[from->num_variables++] = variable;
  return add_entry(self, from, name, variable->type,
                   (struct source){.variable = number});
}

// Adds a variable whose value is computed from components.
static ls_status add_made(ls_snapshot *self, sources *from, const char *name,
                          ls_variable *variable) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_state_read(from->store, variable, &array));
  LS_RETURN_IF_ERROR(add_entry(
      self, from, name, (ls_type){ls_array_dtype(array), ls_array_shape(array)},
      (struct source){.array = array}));
  (void)ls_give(&array);
  return ls_ok();
}

static ls_status add_saved(ls_snapshot *self, sources *from,
                           const ls_saver *saver, size_t index) {
  ls_variable *variable = saver->variables[index];
  const char *name = ls_saver_name(saver, index);
  ls_variable *value = ls_state_of(variable);
  if (!ls_state_is_saved(from->store, value)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_store_makes_value(value)
                         ? add_made(self, from, name, value)
                         : snapshot_add_variable(self, from, name, value));
  const size_t parts = saver->exact ? ls_state_parts(from->store, variable) : 0;
  for (size_t i = 0; i < parts; ++i) {
    const char *entry = ls_saver_part_name(&self->names, name, i);
    if (entry == NULL) return ls_out_of_memory();
    LS_RETURN_IF_ERROR(
        snapshot_add_variable(self, from, entry, variable->components[i]));
  }
  return ls_ok();
}

// ---- Layout of the file ----------------------------------------------------
// Orders entries as in the file: wider elements first.
static ls_status put_in_order(ls_snapshot *self) {
  size_t *order = ls_arena_new_array(&self->names, size_t, self->count + 1);
  size_t done = 0;
  if (order == NULL) return ls_out_of_memory();
  for (size_t width = 8; width > 0; width /= 2)
    for (size_t i = 0; i < self->count; ++i)
      if (ls_dtype_size(self->entries[i].dtype) == width) order[done++] = i;
  self->in_order = order;
  return ls_ok();
}

size_t ls_snapshot_overlap(const ls_safetensors_entry *entry, size_t begin,
                           size_t end) {
  const size_t from = (size_t)entry->offset, to = from + entry->size;
  if (from > begin) begin = from;
  if (to < end) end = to;
  return begin < end ? end - begin : 0;
}

// Returns the index, in file order, of the first entry that ends after byte
// `at`.
static size_t snapshot_find_entry(const ls_snapshot *self, size_t at) {
  size_t low = 0, high = self->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const ls_safetensors_entry *entry = &self->entries[self->in_order[middle]];
    if ((size_t)entry->offset + entry->size <= at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Cuts at a multiple of CHUNK.
size_t ls_snapshot_begin_of(size_t size, size_t part, size_t parts) {
  if (part >= parts) return size;
  return (size_t)((double)size / (double)parts * (double)part) / CHUNK * CHUNK;
}

static ls_status snapshot_make_room(ls_snapshot *self) {
  const size_t wanted = self->end - self->begin;
  if (wanted <= self->room) return ls_ok();
  ls_release(self->allocator, self->bytes);
  self->bytes = NULL;
  self->room = 0;
  self->bytes = ls_allocate_large(self->allocator, wanted);
  if (self->bytes == NULL)
    return LS_NO_MEMORY("no memory for a copy of %zu bytes of variables",
                        wanted);
  self->room = wanted;
  return ls_ok();
}

static ls_status lay_out(ls_snapshot *self, const ls_safetensors_note *notes,
                         size_t num_notes, size_t part, size_t parts) {
  LS_OWN(ls_text, header) = {.allocator = self->allocator};
  LS_RETURN_IF_ERROR(ls_safetensors_lay_out(&header, self->entries, self->count,
                                            notes, num_notes, self->sums,
                                            &self->size));
  self->header = header.size;
  self->header_crc = ls_crc32c(0, header.data, header.size);
  self->begin = ls_snapshot_begin_of(self->size, part, parts);
  self->end = ls_snapshot_begin_of(self->size, part + 1, parts);
  LS_RETURN_IF_ERROR(snapshot_make_room(self));
  if (self->begin < header.size && self->begin < self->end) {
    const size_t left = header.size - self->begin;
    const size_t here = self->end - self->begin;
    memcpy(self->bytes, header.data + self->begin, left < here ? left : here);
  }
  return put_in_order(self);
}

// ---- Copying ---------------------------------------------------------------
typedef struct copying {
  const ls_snapshot *snapshot;
  const sources *from;
  ls_backend *backend;
} copying;

// Copies chunks of the part, each made of pieces of entries.
static void copy_chunks(void *user, int worker, int64_t first, int64_t last) {
  (void)worker;
  const copying *c = user;
  const ls_snapshot *self = c->snapshot;
  size_t begin = self->begin + (size_t)first * CHUNK;
  size_t end = self->begin + (size_t)last * CHUNK;
  if (end > self->end) end = self->end;
  for (size_t i = snapshot_find_entry(self, begin); i < self->count; ++i) {
    const size_t number = self->in_order[i];
    const ls_safetensors_entry *entry = &self->entries[number];
    const size_t size = ls_snapshot_overlap(entry, begin, end);
    if ((size_t)entry->offset >= end) return;
    if (size == 0) continue;
    const size_t at =
        (size_t)entry->offset > begin ? (size_t)entry->offset : begin;
    const char *data = c->from->items[number].data;
    char *target = self->bytes + (at - self->begin);
    if (data == NULL)
      memset(target, 0, size);
    else
      c->backend->vtable->stream_copy(
          c->backend, target, data + (at - (size_t)entry->offset), size);
  }
}

static void copy_all(const ls_snapshot *self, const sources *from,
                     ls_backend *backend, ls_workers *workers) {
  const size_t size = self->end - self->begin;
  const int64_t chunks = (int64_t)((size + CHUNK - 1) / CHUNK);
  copying c = {self, from, backend};
  ls_workers_share_or_run(size >= LEAST_SHARED ? workers : NULL, copy_chunks,
                          &c, chunks);
}

static ls_status copy_values(const ls_snapshot *self, sources *from,
                             ls_runtime *runtime) {
  ls_workers *workers = NULL;
  ls_backend *backend = NULL;
  ls_many many;
  LS_RETURN_IF_ERROR(ls_runtime_workers(runtime, &workers));
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  LS_RETURN_IF_ERROR(ls_many_enter(from->store, from->variables,
                                   from->num_variables, false, &many));
  for (size_t i = 0; i < self->count; ++i) {
    struct source *source = &from->items[i];
    source->data = source->array != NULL ? ls_array_data(source->array)
                                         : many.data[source->variable];
  }
  copy_all(self, from, backend, workers);
  ls_many_leave(&many, false);
  return ls_ok();
}

// ---- Taking a snapshot -----------------------------------------------------
static ls_status snapshot_take(ls_snapshot *self, ls_runtime *runtime,
                               const ls_saver *saver,
                               const ls_safetensors_note *notes,
                               size_t num_notes, size_t part, size_t parts,
                               sources *from) {
  LS_RETURN_IF_ERROR(ls_saver_open(saver, &from->store));
  for (size_t i = 0; i < saver->num_variables; ++i)
    LS_RETURN_IF_ERROR(add_saved(self, from, saver, i));
  LS_RETURN_IF_ERROR(lay_out(self, notes, num_notes, part, parts));
  return copy_values(self, from, runtime);
}

ls_status ls_snapshot_take(ls_snapshot *self, ls_runtime *runtime,
                           const ls_saver *saver,
                           const ls_safetensors_note *notes, size_t num_notes,
                           size_t part, size_t parts) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  if (self->allocator != NULL) ls_arena_deinit(&self->names);
  self->allocator = allocator;
  self->count = 0;
  ls_arena_init(&self->names, allocator);
  sources from = {.allocator = allocator};
  const ls_status status =
      snapshot_take(self, runtime, saver, notes, num_notes, part, parts, &from);
  for (size_t i = 0; i < self->count; ++i)
    ls_array_release(from.items[i].array);
  ls_release(allocator, from.items);
  ls_release(allocator, from.variables);
  return status;
}

void ls_snapshot_deinit(ls_snapshot *self) {
  if (self->allocator != NULL) {
    ls_arena_deinit(&self->names);
    ls_release(self->allocator, self->entries);
    ls_release(self->allocator, self->bytes);
  }
  *self = (ls_snapshot){0};
}

// ---- Sums and writing ------------------------------------------------------
void ls_snapshot_sum(const ls_snapshot *self, uint32_t *crcs) {
  for (size_t i = 0; i < self->count; ++i) {
    const ls_safetensors_entry *entry = &self->entries[i];
    const size_t size = ls_snapshot_overlap(entry, self->begin, self->end);
    const size_t from = (size_t)entry->offset;
    const size_t at = from > self->begin ? from - self->begin : 0;
    crcs[i] = size == 0 ? 0 : ls_crc32c(0, self->bytes + at, size);
  }
}

ls_status ls_snapshot_seal(ls_snapshot *self) {
  LS_OWN_ARRAY_OR_RETURN(self->allocator, uint32_t, crcs, self->count + 1);
  ls_snapshot_sum(self, crcs);
  ls_safetensors_seal(self->bytes, self->header, self->entries, self->count,
                      crcs);
  return ls_ok();
}

ls_status ls_snapshot_write(const ls_snapshot *self,
                            const ls_file_system *files, void *file,
                            ls_pause pause) {
  for (size_t at = self->begin; at < self->end; at += PIECE) {
    const size_t left = self->end - at;
    if (at > self->begin && pause.call != NULL) pause.call(pause.user);
    LS_RETURN_IF_ERROR(files->write_at(files->user, file, (int64_t)at,
                                       self->bytes + (at - self->begin),
                                       left < PIECE ? left : PIECE));
  }
  return ls_ok();
}
