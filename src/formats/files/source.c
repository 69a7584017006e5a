// SPDX-License-Identifier: Apache-2.0
#include "formats/files/source.h"

#include "base/status_cause.h"
#include "base/values/numbers.h"

// ---- Files -----------------------------------------------------------------
static void destroy_file(ls_object *object) {
  ls_source_file *self = (ls_source_file *)object;
  ls_file_close(self->file);
  ls_release(self->allocator, self->bytes);
  ls_offsets_deinit(&self->offsets);
  ls_release(self->allocator, self);
}

static const ls_object_type file_type = {.name = "file",
                                         .destroy = destroy_file};

ls_status ls_source_file_open(const char *path, ls_file_pool *pool,
                              ls_source_file **out_file) {
  *out_file = NULL;
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_source_file, self);
  ls_object_init(&self->object, &file_type);
  self->allocator = allocator;
  ls_offsets_init(&self->offsets, allocator);
  LS_RETURN_IF_ERROR(
      ls_file_open_in(pool, ls_runtime_current(), path, &self->file));
  return ls_hand_over(&self, out_file);
}

static ls_status no_memory(size_t size, const ls_file *file) {
  return LS_NO_MEMORY("no memory for %zu bytes of '%s'", size, file->path);
}

// Loads the whole file, so that later reads need no disk.
static ls_status source_file_load(ls_source_file *self) {
  ls_file *file = self->file, *loaded = NULL;
  const size_t size = (size_t)file->size;
  if (self->bytes != NULL) return ls_ok();
  LS_OWN_MEMORY(self->allocator, char, bytes) =
      ls_allocate(self->allocator, size);
  if (bytes == NULL) return no_memory(size, file);
  LS_RETURN_IF_ERROR(ls_file_read(file, 0, bytes, size));
  LS_RETURN_IF_ERROR(
      ls_file_open_bytes(self->allocator, file->path, bytes, size, &loaded));
  loaded->modified = file->modified;
  self->file = loaded;
  self->bytes = ls_give(&bytes);
  ls_file_close(file);
  return ls_ok();
}

bool ls_source_loads(ls_flag load, int64_t size, int64_t *loaded) {
  enum { LOAD_MOST = 64 << 20 };
  const bool loads = load == LS_FLAG_ON ||
                     (load != LS_FLAG_OFF && size <= LOAD_MOST - *loaded);
  if (loads) *loaded += size;
  return loads;
}

// Appends the files that a path names to `text`, zero-terminated.
static ls_status add_paths(const char *path, ls_allocator *allocator,
                           ls_text *text, size_t *count) {
  LS_OWN_MEMORY(allocator, const char *, found) = NULL;
  size_t num_found = 0;
  if (path == NULL) return ls_invalid_argument("a path that is NULL");
  LS_RETURN_IF_ERROR(ls_files_match(ls_runtime_current(), path, allocator,
                                    &found, &num_found));
  for (size_t i = 0; i < num_found; ++i)
    ls_text_append_bytes(text, found[i], strlen(found[i]) + 1);
  *count += num_found;
  return ls_text_status(text);
}

ls_status ls_source_paths(const char *const *paths, size_t count,
                          ls_allocator *allocator, const char ***out_paths,
                          size_t *out_count) {
  *out_paths = NULL;
  *out_count = 0;
  if (paths == NULL || count == 0)
    return ls_invalid_argument("a data set of no files");
  LS_OWN(ls_text, text) = {.allocator = allocator};
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(add_paths(paths[i], allocator, &text, out_count));
  const size_t table = *out_count * sizeof(char *);
  const char **block = ls_allocate(allocator, table + text.size);
  LS_RETURN_IF_NO_MEMORY(block);
  char *at = (char *)block + table;
  memcpy(at, text.data, text.size);
  for (size_t i = 0; i < *out_count; ++i, at += strlen(at) + 1)
    block[i] = at;
  *out_paths = block;
  return ls_ok();
}

void ls_source_describe(const ls_file *file, ls_text *text) {
  const char *slash = strrchr(file->path, '/');
  ls_text_append_format(text, "%s:%lld", slash == NULL ? file->path : slash + 1,
                        (long long)file->size);
}

// ---- Decoders --------------------------------------------------------------
static void destroy_decoder(ls_object *object) {
  ls_record_decoder *self = (ls_record_decoder *)object;
  if (self->format->destroy != NULL) self->format->destroy(self);
  ls_nest_release(self->spec);
  ls_release(self->allocator, self);
}

static const ls_object_type decoder_type = {.name = "decoder",
                                            .destroy = destroy_decoder};

ls_record_decoder *ls_record_decoder_new(const ls_record_format *format,
                                         size_t bytes) {
  ls_allocator *allocator = ls_current_allocator();
  ls_record_decoder *self = ls_allocate_zeroed(allocator, 1, bytes);
  if (self == NULL) return NULL;
  ls_object_init(&self->object, &decoder_type);
  self->allocator = allocator;
  self->format = format;
  return self;
}

// ---- Elements --------------------------------------------------------------
ls_status ls_element_of_bytes(const void *data, size_t size, ls_nest *element) {
  ls_array *array = NULL;
  const ls_bytes bytes = {data, size};
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &bytes, &array));
  return ls_element_replace(ls_nest_array(array), element);
}

// Writes a record as the only row of a new element.
static ls_status fill_element(const ls_record_source *self, ls_fetch *fetch,
                              const ls_record_at *at, char *bytes, size_t size,
                              ls_nest *element) {
  const ls_dataset *base = &self->base;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  const size_t count = base->num_leaves;
  LS_ROOM_OR_RETURN(fetch, ls_type, types, count);
  LS_ROOM_OR_RETURN(fetch, ls_nest, leaves, count);
  LS_ROOM_OR_RETURN(fetch, void *, rows, count);
  for (size_t i = 0; i < count; ++i)
    types[i] = base->leaves[i].type;
  LS_RETURN_IF_ERROR(ls_element_reuse(base->structure, types, count, element));
  ls_nest_flatten(*element, leaves, count);
  for (size_t i = 0; i < count; ++i)
    rows[i] = ls_array_mutable_data(ls_nest_as_array(leaves[i]));
  return self->decoder->format->read(self->decoder, fetch, at, bytes, size,
                                     base->row_sizes, rows, 0);
}

ls_status ls_record_source_element(const ls_record_source *self,
                                   ls_fetch *fetch, const ls_record_at *at,
                                   char *bytes, size_t size, ls_nest *element) {
  if (self->base.rows)
    return fill_element(self, fetch, at, bytes, size, element);
  return self->decoder->format->make(self->decoder, fetch, at, bytes, size,
                                     element);
}

// Returns the file that has element `index`.
static size_t file_of(const ls_record_source *self, int64_t index) {
  return ls_count_up_to(self->first, sizeof(*self->first), self->num_files,
                        index) -
         1;
}

// The most bytes of neighbouring elements that are read together.
enum { READ_MOST = 1 << 20 };

// Counts the indices that are consecutive in a file, from record `record` on.
static size_t run_of(const ls_source_file *file, int64_t record,
                     const int64_t *indices, size_t count) {
  const ls_offsets *at = &file->offsets;
  const int64_t most = ls_offsets_at(at, record) + READ_MOST;
  size_t run = 1;
  while (run < count && indices[run] == indices[0] + (int64_t)run &&
         record + (int64_t)run < file->count &&
         ls_offsets_at(at, record + (int64_t)run + 1) <= most)
    ++run;
  return run;
}

// Returns bytes of a file from memory: the loaded file or a window. NULL if
// they are not in memory.
static char *bytes_at(const ls_source_file *file, const ls_file_window *window,
                      int64_t offset, size_t size) {
  return file->bytes != NULL ? file->bytes + offset
                             : ls_file_window_find(window, offset, size);
}

// Returns the bytes of `run` records from memory, or reads them into the
// fetch's room.
static ls_status read_run(const ls_record_source *self,
                          const ls_source_file *file,
                          const ls_file_window *window, ls_fetch *fetch,
                          int64_t record, size_t run, char **out) {
  const int64_t first = ls_offsets_at(&file->offsets, record);
  const int64_t end = ls_offsets_at(&file->offsets, record + (int64_t)run);
  const size_t size = (size_t)(end - first);
  char *bytes = bytes_at(file, window, first, size);
  if (bytes != NULL && !self->decoder->format->writes) {
    *out = bytes;
    return ls_ok();
  }
  *out = ls_fetch_room(fetch, size);
  if (*out == NULL) return no_memory(size, file->file);
  if (bytes == NULL) return ls_file_read(file->file, first, *out, size);
  memcpy(*out, bytes, size);
  return ls_ok();
}

// Prefetches into the processor's cache a record that is in memory and will be
// read next.
static void look_ahead(const ls_record_source *self,
                       const ls_file_window *window, int64_t index) {
  const size_t number = file_of(self, index);
  const ls_source_file *file = self->files[number];
  if (window != NULL && window->file != file) return;
  const int64_t record = index - self->first[number];
  const int64_t first = ls_offsets_at(&file->offsets, record);
  const int64_t end = ls_offsets_at(&file->offsets, record + 1);
  const size_t size = end - first < 4096 ? (size_t)(end - first) : 4096;
  const char *bytes = bytes_at(file, window, first, size);
  if (bytes == NULL) return;
  for (size_t byte = 0; byte < size; byte += LS_CACHE_LINE)
    __builtin_prefetch(bytes + byte);
}

// Returns the window for records that will be read soon; NULL: none.
static ls_file_window *enter_window(const ls_record_source *self, size_t number,
                                    const ls_fetch *fetch, size_t count) {
  const ls_fetch_soon *soon = &fetch->soon;
  const ls_source_file *file = self->files[number];
  if (soon->dataset != &self->base || file->bytes != NULL) return NULL;
  int64_t first = soon->first - self->first[number];
  int64_t end = first + soon->count;
  if (first < 0) first = 0;
  if (end > file->count) end = file->count;
  return ls_windows_enter(self->windows, file, first, end - first,
                          (int64_t)count);
}

// Reads `run` neighbouring elements to rows `k` and up; `next` is the index
// that follows, -1 for none.
static ls_status read_neighbours(const ls_record_source *self, size_t number,
                                 const ls_file_window *window, ls_fetch *fetch,
                                 int64_t record, size_t run, int64_t next,
                                 void *const *rows, size_t k) {
  const ls_source_file *file = self->files[number];
  const ls_offsets *offsets = &file->offsets;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  char *bytes = NULL;
  const ls_status status =
      read_run(self, file, window, fetch, record, run, &bytes);
  if (next >= 0) look_ahead(self, window, next);
  LS_RETURN_IF_ERROR(status);
  const int64_t first = ls_offsets_at(offsets, record);
  for (size_t i = 0; i < run; ++i) {
    const int64_t number_of = record + (int64_t)i;
    const int64_t begin = ls_offsets_at(offsets, number_of);
    const int64_t end = ls_offsets_at(offsets, number_of + 1);
    const ls_record_at at = {file->file, number_of, begin, false};
    LS_RETURN_IF_ERROR(self->decoder->format->read(
        self->decoder, fetch, &at, bytes + (begin - first),
        (size_t)(end - begin), self->base.row_sizes, rows, k + i));
  }
  return ls_ok();
}

static ls_status read_records(const ls_dataset *dataset, ls_fetch *fetch,
                              const int64_t *indices, size_t count,
                              void *const *rows) {
  const ls_record_source *self = (const ls_record_source *)dataset;
  const ls_source_file *last = NULL;
  ls_file_window *window = NULL;
  ls_status status = ls_ok();
  for (size_t k = 0, run; k < count && ls_status_is_ok(status); k += run) {
    const size_t number = file_of(self, indices[k]);
    const ls_source_file *file = self->files[number];
    const int64_t record = indices[k] - self->first[number];
    run = run_of(file, record, indices + k, count - k);
    if (file != last) {
      ls_windows_leave(self->windows, window);
      window = enter_window(self, number, fetch, count - k);
      last = file;
    }
    status = read_neighbours(self, number, window, fetch, record, run,
                             k + run < count ? indices[k + run] : -1, rows, k);
  }
  ls_windows_leave(self->windows, window);
  return status;
}

static ls_status get_record(const ls_dataset *dataset, ls_fetch *fetch,
                            int64_t index, ls_nest *element) {
  const ls_record_source *self = (const ls_record_source *)dataset;
  const size_t number = file_of(self, index);
  const ls_source_file *file = self->files[number];
  const int64_t record = index - self->first[number];
  const int64_t begin = ls_offsets_at(&file->offsets, record);
  const int64_t end = ls_offsets_at(&file->offsets, record + 1);
  const ls_record_at at = {file->file, record, begin, false};
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  char *bytes = NULL;
  LS_RETURN_IF_ERROR(read_run(self, file, NULL, fetch, record, 1, &bytes));
  return self->decoder->format->make(self->decoder, fetch, &at, bytes,
                                     (size_t)(end - begin), element);
}

// ---- The data set ----------------------------------------------------------
static void destroy_source(ls_dataset *dataset) {
  ls_record_source *self = (ls_record_source *)dataset;
  for (size_t i = 0; i < self->num_files; ++i)
    ls_object_release(self->files[i]);
  ls_release(dataset->allocator, self->files);
  ls_release(dataset->allocator, self->first);
  if (self->windows != NULL) ls_windows_deinit(self->windows);
  ls_release(dataset->allocator, self->windows);
  ls_object_release(self->decoder);
}

static void describe_source(const ls_dataset *dataset, ls_text *text) {
  const ls_record_source *self = (const ls_record_source *)dataset;
  ls_text_append_format(text, "%s", self->decoder->format->name);
  for (size_t i = 0; i < self->num_files; ++i) {
    ls_text_append(text, ", ");
    ls_source_describe(self->files[i]->file, text);
  }
  if (self->decoder->format->describe != NULL)
    self->decoder->format->describe(self->decoder, text);
}

static size_t num_files(const ls_dataset *dataset) {
  return ((const ls_record_source *)dataset)->num_files;
}

static const char *file_path(const ls_dataset *dataset, size_t i) {
  return ((const ls_record_source *)dataset)->files[i]->file->path;
}

// Makes the data set of open files; takes over their list, the decoder and
// `status`, the failure of opening them, if any.
static ls_dataset *new_source(ls_source_file **files, size_t num_files,
                              ls_record_decoder *decoder, ls_status status);

static ls_dataset *shard_files(const ls_dataset *dataset, int64_t count,
                               int64_t index) {
  const ls_record_source *self = (const ls_record_source *)dataset;
  ls_allocator *allocator = ls_current_allocator();
  ls_source_file **files =
      ls_new_array(allocator, ls_source_file *, self->num_files);
  size_t chosen = 0;
  for (size_t i = (size_t)index; files != NULL && i < self->num_files;
       i += (size_t)count)
    files[chosen++] = ls_object_retain(self->files[i]);
  return new_source(files, chosen, ls_object_retain(self->decoder),
                    files != NULL ? ls_ok() : ls_out_of_memory());
}

#define LS_RECORD_CLASS                                                        \
  .name = "records", .destroy = destroy_source, .describe = describe_source,   \
  .num_files = num_files, .file = file_path, .shard_files = shard_files

static const ls_dataset_class indexed_class = {
    LS_RECORD_CLASS, .get_other = get_record, .read = read_records};
static const ls_dataset_class stream_class = {LS_RECORD_CLASS,
                                              .stage = &ls_record_stage};

static ls_status source_begin(ls_record_source *self) {
  ls_dataset *base = &self->base;
  LS_RETURN_IF_ERROR(
      ls_dataset_set_spec(base, ls_nest_retain(self->decoder->spec)));
  self->first = ls_new_array(base->allocator, int64_t, self->num_files + 1);
  self->windows = ls_new(base->allocator, ls_windows);
  if (self->first == NULL || self->windows == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_windows_init(self->windows, base->allocator));
  base->indexed = true;
  for (size_t i = 0; i < self->num_files; ++i) {
    if (self->files[i]->count < 0) base->indexed = false;
    self->first[i + 1] = self->first[i] + self->files[i]->count;
  }
  base->size = base->indexed ? self->first[self->num_files] : LS_UNKNOWN_SIZE;
  base->kind = base->indexed ? &indexed_class : &stream_class;
  return ls_ok();
}

static ls_dataset *new_source(ls_source_file **files, size_t num_files,
                              ls_record_decoder *decoder, ls_status status) {
  ls_allocator *allocator = ls_current_allocator();
  ls_record_source *self = (ls_record_source *)ls_dataset_new(
      &stream_class, sizeof(*self), NULL, 0, status);
  if (self == NULL) {
    for (size_t i = 0; i < num_files; ++i)
      ls_object_release(files[i]);
    ls_release(allocator, files);
    ls_object_release(decoder);
    return NULL;
  }
  self->files = files;
  self->num_files = num_files;
  self->decoder = decoder;
  ls_dataset *base = &self->base;
  return ls_status_is_ok(base->failure)
             ? ls_dataset_fail(base, source_begin(self))
             : base;
}

// ---- Opening ---------------------------------------------------------------
// Finds the records of a file, from the index saved beside the file or by a
// scan.
static ls_status find_records(const ls_record_decoder *decoder,
                              ls_source_file *file) {
  ls_runtime *runtime = ls_runtime_current();
  if (decoder->index_kind == 0) return decoder->format->scan(decoder, file);
  LS_OWN(ls_text, path) = {.allocator = file->allocator};
  ls_text_append_format(&path, "%s.index", file->file->path);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  bool found = false;
  LS_RETURN_IF_ERROR(ls_offsets_load(runtime, path.data, file->file,
                                     decoder->index_kind, &file->offsets,
                                     &found));
  if (found) {
    file->count = ls_offsets_count(&file->offsets);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(decoder->format->scan(decoder, file));
  if (file->count < 0) return ls_ok();
  return ls_offsets_save(runtime, path.data, file->file, decoder->index_kind,
                         &file->offsets);
}

static ls_status open_file(const char *path, const ls_record_decoder *decoder,
                           ls_file_pool *pool, int64_t *loaded,
                           ls_source_file **out_file) {
  LS_OWN(ls_source_file, file) = NULL;
  LS_RETURN_IF_ERROR(ls_source_file_open(path, pool, &file));
  if (ls_source_loads(decoder->load, file->file->size, loaded))
    LS_RETURN_IF_ERROR(source_file_load(file));
  LS_RETURN_IF_ERROR(find_records(decoder, file));
  if (decoder->format->check != NULL)
    LS_RETURN_IF_ERROR(decoder->format->check(decoder, file));
  return ls_hand_over(&file, out_file);
}

// Opens the files that paths name. The caller owns the opened ones, also after
// a failure.
static ls_status open_files(const char *const *paths, size_t num_paths,
                            const ls_record_decoder *decoder,
                            ls_allocator *allocator,
                            ls_source_file ***out_files, size_t *opened) {
  LS_OWN(ls_file_pool, pool) = NULL;
  LS_OWN_MEMORY(allocator, const char *, found) = NULL;
  size_t count = 0;
  int64_t loaded = 0;
  LS_RETURN_IF_ERROR(ls_file_pool_create(allocator, LS_FILES_OPEN, &pool));
  LS_RETURN_IF_ERROR(
      ls_source_paths(paths, num_paths, allocator, &found, &count));
  LS_NEW_ARRAY_OR_RETURN(allocator, ls_source_file *, files, count);
  *out_files = files;
  for (; *opened < count; ++*opened)
    LS_RETURN_IF_ERROR(
        open_file(found[*opened], decoder, pool, &loaded, &files[*opened]));
  return ls_ok();
}

ls_dataset *ls_record_source_new(const char *const *paths, size_t num_paths,
                                 ls_record_decoder *decoder, ls_status status) {
  size_t opened = 0;
  ls_source_file **files = NULL;
  if (ls_status_is_ok(status))
    status = open_files(paths, num_paths, decoder, ls_current_allocator(),
                        &files, &opened);
  return new_source(files, opened, decoder, status);
}
