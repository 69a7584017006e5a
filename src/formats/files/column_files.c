// SPDX-License-Identifier: Apache-2.0
// Data sets whose elements are rows of arrays in files, one column per array.
// Rows are read from the file when needed, or are loaded if they are few or
// packed.
#include "base/memory/own.h"
#include "base/require.h"
#include "formats/bytes/idx.h"
#include "formats/files/source.h"
#include "io/bytes.h"
#include "io/inflate.h"
#include "io/npy.h"
#include "io/zip.h"

// A column's elements, row by row.
typedef struct column {
  ls_source_file *file;
  ls_npy_header header;
  size_t row_size;
  ls_array *loaded;  // NULL: rows are read from the file.
} column;

typedef struct columns_dataset {
  ls_dataset base;
  const char *format;
  column *columns;  // One per leaf.
  size_t count;
} columns_dataset;

static void drop_column(column *self) {
  ls_object_release(self->file);
  ls_array_release(self->loaded);
  *self = (column){0};
}

static void destroy_columns(ls_dataset *dataset) {
  columns_dataset *self = (columns_dataset *)dataset;
  for (size_t i = 0; i < self->count; ++i)
    drop_column(&self->columns[i]);
  ls_release(dataset->allocator, self->columns);
}

static void describe_columns(const ls_dataset *dataset, ls_text *text) {
  const columns_dataset *self = (const columns_dataset *)dataset;
  ls_text_append(text, self->format);
  for (size_t i = 0; i < self->count; ++i) {
    ls_text_append(text, ", ");
    ls_source_describe(self->columns[i].file->file, text);
    ls_text_append_format(text, "=%s",
                          LS_SHAPE_TEXT(self->columns[i].header.dtype,
                                        self->columns[i].header.shape));
  }
}

// ---- Reading ---------------------------------------------------------------
static ls_status read_rows(const column *self, int64_t from, size_t count,
                           char *to) {
  const size_t size = count * self->row_size;
  const int64_t offset = from * (int64_t)self->row_size;
  if (self->loaded != NULL) {
    if (size > 0)
      memcpy(to, (const char *)ls_array_data(self->loaded) + offset, size);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_file_read(self->file->file,
                                  self->header.data_offset + offset, to, size));
  ls_npy_convert(&self->header, to, size / self->header.width);
  return ls_ok();
}

// Reads neighbouring rows together, directly to their destination.
static ls_status read_columns(const ls_dataset *dataset, ls_fetch *fetch,
                              const int64_t *indices, size_t count,
                              void *const *rows) {
  (void)fetch;
  const columns_dataset *self = (const columns_dataset *)dataset;
  for (size_t k = 0; k < count;) {
    size_t run = 1;
    while (k + run < count && indices[k + run] == indices[k] + (int64_t)run)
      ++run;
    for (size_t leaf = 0; leaf < self->count; ++leaf) {
      const column *from = &self->columns[leaf];
      LS_RETURN_IF_ERROR(read_rows(from, indices[k], run,
                                   (char *)rows[leaf] + k * from->row_size));
    }
    k += run;
  }
  return ls_ok();
}

// ---- Files -----------------------------------------------------------------
static const char *column_path(const columns_dataset *self, size_t index) {
  return self->columns[index].file->file->path;
}

// Returns the column that begins file `i`, or the number of columns: neighbours
// with one path are of one file.
static size_t find_column(const columns_dataset *self, size_t i) {
  size_t index = 0;
  for (; index < self->count; ++index) {
    const bool begins = index == 0 || strcmp(column_path(self, index),
                                             column_path(self, index - 1)) != 0;
    if (begins && i-- == 0) break;
  }
  return index;
}

static size_t count_files(const ls_dataset *dataset) {
  const columns_dataset *self = (const columns_dataset *)dataset;
  size_t count = 0;
  while (find_column(self, count) < self->count)
    ++count;
  return count;
}

static const char *file_path(const ls_dataset *dataset, size_t i) {
  const columns_dataset *self = (const columns_dataset *)dataset;
  return column_path(self, find_column(self, i));
}

// Gives all rows to shard 0, as an element needs a row of each file.
static ls_dataset *shard_columns(const ls_dataset *dataset, int64_t count,
                                 int64_t index) {
  (void)count;
  ls_dataset *all = ls_dataset_retain((ls_dataset *)(uintptr_t)dataset);
  return index == 0 ? all : ls_dataset_take(all, 0);
}

static const ls_dataset_class columns_class = {.name = "columns",
                                               .destroy = destroy_columns,
                                               .describe = describe_columns,
                                               .read = read_columns,
                                               .num_files = count_files,
                                               .file = file_path,
                                               .shard_files = shard_columns};

// ---- Loading ---------------------------------------------------------------
static ls_status load_column(column *self) {
  if (self->loaded != NULL) return ls_ok();
  return ls_npy_read_elements(self->file->file, &self->header, &self->loaded);
}

// Loads the column if the options say so; `*loaded` counts the bytes loaded for
// the data set.
static ls_status load_if(column *self, const ls_columns_options *options,
                         int64_t *loaded) {
  const int64_t size =
      ls_shape_num_elements(self->header.shape) * (int64_t)self->header.width;
  if (ls_source_loads(options != NULL ? options->load : LS_FLAG_DEFAULT, size,
                      loaded))
    return load_column(self);
  if (self->header.fortran && self->loaded == NULL) {
    return ls_unimplemented(
        "'%s' is in Fortran order, where rows are not contiguous; load it "
        "(`load` on), or save it by numpy.ascontiguousarray",
        self->file->file->path);
  }
  return ls_ok();
}

// ---- Making ----------------------------------------------------------------
// Columns under construction, from the current allocator.
typedef struct column_list {
  const char *format;
  ls_allocator *allocator;
  column *items;
  size_t count;
  ls_nest like;    // A nest with one leaf per column, in column order.
  int64_t loaded;  // Bytes loaded for the data set so far.
} column_list;

static void drop_columns(column_list *list) {
  for (size_t i = 0; i < list->count; ++i)
    drop_column(&list->items[i]);
  ls_release(list->allocator, list->items);
  ls_nest_release(list->like);
}
LS_OWNED_STRUCT(column_list, drop_columns)

static ls_status add_columns(column_list *list, size_t count) {
  LS_SET_ARRAY_OR_RETURN(list->allocator, column, list->items, count);
  list->count = count;
  return ls_ok();
}

// Computes the spec of a column's rows.
static ls_status describe_rows(const columns_dataset *self, size_t i,
                               ls_type *out) {
  column *described = &self->columns[i];
  const ls_shape shape = described->header.shape;
  const int64_t rows = self->columns[0].header.shape.dim[0];
  const char *path = described->file->file->path;
  if (shape.rank < 1)
    return ls_invalid_argument("'%s' has a scalar: it has no rows", path);
  if (shape.dim[0] != rows)
    return ls_invalid_argument(
        "column %zu, in '%s', has %lld rows, column 0, in '%s', has %lld", i,
        path, (long long)shape.dim[0], self->columns[0].file->file->path,
        (long long)rows);
  *out = (ls_type){described->header.dtype, ls_row_shape(shape)};
  described->row_size =
      (size_t)ls_shape_num_elements(out->shape) * described->header.width;
  return ls_ok();
}

// Completes the data set from its columns; takes `like` over.
static ls_status begin_columns(columns_dataset *self, ls_nest like) {
  LS_OWN(ls_nest, owned) = like;
  ls_dataset *base = &self->base;
  LS_RETURN_IF_ERROR(ls_nest_status(like));
  LS_OWN_ARRAY_OR_RETURN(base->allocator, ls_leaf_spec, leaves, self->count);
  for (size_t i = 0; i < self->count; ++i)
    LS_RETURN_IF_ERROR(describe_rows(self, i, &leaves[i].type));
  base->size = self->columns[0].header.shape.dim[0];
  base->indexed = true;
  return ls_dataset_set_leaves(base, ls_give(&owned), leaves, self->count);
}

static bool has_strings(const column_list *list) {
  for (size_t i = 0; i < list->count; ++i)
    if (list->items[i].header.dtype == LS_DTYPE_STRING) return true;
  return false;
}

// Makes a nest of all columns' arrays, which are loaded.
static ls_nest load_columns(const column_list *list) {
  LS_OWN_ARRAY(list->allocator, ls_nest, items, list->count);
  ls_status status = items == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < list->count && ls_status_is_ok(status); ++i)
    status = load_column(&list->items[i]);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  for (size_t i = 0; i < list->count; ++i)
    items[i] = ls_nest_array(ls_array_retain(list->items[i].loaded));
  return ls_nest_pack(list->like, items, list->count);
}

// Makes the data set of the list's columns, which it takes. `status`, taken
// over, is the failure of making them, if any.
static ls_dataset *make_columns(column_list *list, ls_status status) {
  // Columns of strings are read by the array source.
  if (ls_status_is_ok(status) && has_strings(list))
    return ls_dataset_from_arrays(load_columns(list));
  columns_dataset *self = (columns_dataset *)ls_dataset_new(
      &columns_class, sizeof(*self), NULL, 0, status);
  if (self == NULL || !ls_status_is_ok(self->base.failure))
    return (ls_dataset *)self;
  self->format = list->format;
  self->columns = ls_give(&list->items);
  self->count = list->count;
  list->count = 0;
  return ls_dataset_fail(&self->base,
                         begin_columns(self, ls_give(&list->like)));
}

// ---- IDX -------------------------------------------------------------------
static ls_status open_idx(const char *path, const ls_columns_options *options,
                          int64_t *loaded, column *out) {
  LS_RETURN_IF_ERROR(ls_source_file_open(path, NULL, &out->file));
  const ls_file *file = out->file->file;
  unsigned char head[4 + 4 * LS_MAX_RANK];
  const size_t size =
      file->size < (int64_t)sizeof(head) ? (size_t)file->size : sizeof(head);
  LS_RETURN_IF_ERROR(ls_file_read(file, 0, head, size));
  if (ls_gzip_is(head, size)) {
    LS_RETURN_IF_ERROR(ls_idx_read(ls_runtime_current(), path, &out->loaded));
    out->header.dtype = ls_array_dtype(out->loaded);
    out->header.shape = ls_array_shape(out->loaded);
    out->header.width = ls_dtype_size(out->header.dtype);
    return ls_ok();
  }
  ls_idx_header header;
  LS_RETURN_IF_ERROR(ls_idx_parse_head(path, head, size, file->size, &header));
  out->header = (ls_npy_header){.dtype = header.dtype,
                                .shape = header.shape,
                                .width = ls_dtype_size(header.dtype),
                                .data_offset = (int64_t)header.data_offset};
  out->header.swapped = out->header.width > 1 && ls_is_little_endian();
  return load_if(out, options, loaded);
}

static ls_status open_all_idx(const char *const *paths, size_t num_paths,
                              const ls_columns_options *options,
                              column_list *list) {
  ls_allocator *allocator = list->allocator;
  LS_OWN_MEMORY(allocator, const char *, found) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_source_paths(paths, num_paths, allocator, &found, &count));
  LS_RETURN_IF_ERROR(add_columns(list, count));
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, items, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        open_idx(found[i], options, &list->loaded, &list->items[i]));
  if (count > 1) list->like = ls_nest_sequence(LS_KIND_TUPLE, items, count);
  return ls_ok();
}

ls_dataset *ls_dataset_idx(const char *const *paths, size_t num_paths,
                           const ls_columns_options *options) {
  LS_OWN(column_list, list) = {.format = "idx",
                               .allocator = ls_current_allocator()};
  return make_columns(&list, open_all_idx(paths, num_paths, options, &list));
}

// ---- npy and npz -----------------------------------------------------------
static ls_status open_npy(const char *path, const ls_columns_options *options,
                          column_list *list) {
  if (path == NULL) return ls_null_argument("ls_dataset_npy", "path");
  LS_RETURN_IF_ERROR(add_columns(list, 1));
  column *opened = &list->items[0];
  LS_RETURN_IF_ERROR(ls_source_file_open(path, NULL, &opened->file));
  const ls_file *file = opened->file->file;
  LS_RETURN_IF_ERROR(ls_npy_open(file, path, 0, file->size, &opened->header));
  return load_if(opened, options, &list->loaded);
}

ls_dataset *ls_dataset_npy(const char *path,
                           const ls_columns_options *options) {
  LS_OWN(column_list, list) = {.format = "npy",
                               .allocator = ls_current_allocator()};
  return make_columns(&list, open_npy(path, options, &list));
}

// Loads a packed member whole.
static ls_status unpack_member(const ls_zip *zip, const ls_zip_entry *entry,
                               const char *name, column *out) {
  ls_allocator *allocator = zip->allocator;
  LS_OWN_MEMORY(allocator, char, data) = NULL;
  LS_OWN(ls_file, file) = NULL;
  LS_RETURN_IF_ERROR(ls_zip_read(zip, entry, allocator, &data));
  LS_RETURN_IF_ERROR(
      ls_file_open_bytes(allocator, name, data, (size_t)entry->size, &file));
  LS_RETURN_IF_ERROR(ls_npy_open(file, name, 0, file->size, &out->header));
  return ls_npy_read(file, name, 0, file->size, &out->loaded);
}

static ls_status open_member(const ls_zip *zip, const ls_zip_entry *entry,
                             ls_source_file *file,
                             const ls_columns_options *options, int64_t *loaded,
                             column *out) {
  out->file = ls_object_retain(file);
  LS_OWN(ls_text, name) = {.allocator = zip->allocator};
  ls_text_append_format(&name, "%s/%s", file->file->path, entry->name);
  LS_RETURN_IF_ERROR(ls_text_status(&name));
  if (entry->deflated) return unpack_member(zip, entry, name.data, out);
  int64_t from = 0;
  LS_RETURN_IF_ERROR(ls_zip_locate(zip, entry, &from));
  LS_RETURN_IF_ERROR(
      ls_npy_open(file->file, name.data, from, entry->size, &out->header));
  return load_if(out, options, loaded);
}

// Finds the member of an array: its name with ".npy" appended, or else the
// plain name.
static ls_status find_member(const ls_zip *zip, const char *name,
                             const ls_zip_entry **out) {
  *out = NULL;
  if (name == NULL)
    return ls_invalid_argument("the name of an array of '%s' is NULL",
                               zip->file->path);
  const size_t length = strlen(name);
  for (size_t i = zip->count; i-- > 0;) {
    const char *entry = zip->entries[i].name;
    if (strncmp(entry, name, length) != 0) continue;
    if (strcmp(entry + length, ".npy") != 0 && entry[length] != '\0') continue;
    *out = &zip->entries[i];
    return ls_ok();
  }
  LS_OWN(ls_text, known) = {.allocator = zip->allocator};
  for (size_t i = 0; i < zip->count && i < 20; ++i)
    ls_text_append_format(&known, "%s'%s'", i == 0 ? "" : ", ",
                          zip->entries[i].name);
  return ls_not_found("'%s' has no array '%s'; it has %s", zip->file->path,
                      name, ls_text_data(&known));
}

// Returns a member's name without ".npy", a copy that the caller owns.
static char *name_of_array(const ls_zip *zip, const char *member) {
  const size_t length = strlen(member);
  const bool is_npy = length > 4 && strcmp(member + length - 4, ".npy") == 0;
  return ls_copy_text(zip->allocator, member, length - (is_npy ? 4 : 0));
}

// A list of owned array names.
typedef struct key_list {
  ls_allocator *allocator;
  char **items;
  size_t count;
} key_list;

static void drop_keys(key_list *keys) {
  for (size_t i = 0; keys->items != NULL && i < keys->count; ++i)
    ls_release(keys->allocator, keys->items[i]);
  ls_release(keys->allocator, keys->items);
}
LS_OWNED_STRUCT(key_list, drop_keys)

// Opens the chosen members and names them. Columns are in the order of the
// dict's leaves, which are sorted by name.
static ls_status open_members(const ls_zip *zip, ls_source_file *file,
                              const char *const *names, size_t count,
                              const ls_columns_options *options,
                              column_list *list) {
  ls_allocator *allocator = list->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, items, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, const ls_zip_entry *, entries, count);
  LS_OWN(key_list, keys) = {allocator, ls_new_array(allocator, char *, count),
                            count};
  LS_RETURN_IF_NO_MEMORY(keys.items);
  for (size_t i = 0; i < count; ++i) {
    items[i] = ls_nest_i64((int64_t)i);
    entries[i] = &zip->entries[i];
    if (names != NULL)
      LS_RETURN_IF_ERROR(find_member(zip, names[i], &entries[i]));
    keys.items[i] = name_of_array(zip, entries[i]->name);
    LS_RETURN_IF_NO_MEMORY(keys.items[i]);
  }
  list->like = ls_nest_dict("", (const char *const *)keys.items, items, count);
  LS_RETURN_IF_ERROR(ls_nest_status(list->like));
  ls_nest_flatten(list->like, items, count);
  LS_RETURN_IF_ERROR(add_columns(list, count));
  for (size_t leaf = 0; leaf < count; ++leaf)
    LS_RETURN_IF_ERROR(open_member(zip, entries[items[leaf].as.i64], file,
                                   options, &list->loaded, &list->items[leaf]));
  return ls_ok();
}

static ls_status open_npz(const char *path, const char *const *names,
                          size_t num_names, const ls_columns_options *options,
                          column_list *list) {
  if (path == NULL) return ls_null_argument("ls_dataset_npz", "path");
  LS_OWN(ls_source_file, file) = NULL;
  LS_OWN(ls_zip, zip) = {0};
  LS_RETURN_IF_ERROR(ls_source_file_open(path, NULL, &file));
  if (names == NULL && num_names > 0)
    return ls_null_argument("ls_dataset_npz", "names");
  LS_RETURN_IF_ERROR(ls_zip_open(file->file, list->allocator, &zip));
  const size_t count = num_names > 0 ? num_names : zip.count;
  if (count == 0) return ls_invalid_argument("'%s' has no arrays", path);
  return open_members(&zip, file, num_names > 0 ? names : NULL, count, options,
                      list);
}

ls_dataset *ls_dataset_npz(const char *path, const char *const *names,
                           size_t num_names,
                           const ls_columns_options *options) {
  LS_OWN(column_list, list) = {.format = "npz",
                               .allocator = ls_current_allocator()};
  return make_columns(&list, open_npz(path, names, num_names, options, &list));
}
