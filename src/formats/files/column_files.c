// SPDX-License-Identifier: Apache-2.0
// Arrays in files, whose rows are elements: a column of each. Elements lie in a
// file as they are needed, or are in memory because they are few, or packed.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "formats/bytes/idx.h"
#include "formats/files/source.h"
#include "io/gzip.h"
#include "io/npy.h"
#include "io/zip.h"

// A column's elements, row by row.
typedef struct column {
  ls_source_file *file;
  ls_npy_header header;
  size_t row_size;
  ls_array *loaded;  // NULL: they are in the file.
} column;

typedef struct columns_dataset {
  ls_dataset base;
  const char *format;
  column *columns;  // By leaf.
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
static ls_status column_files_read_rows(const column *self, int64_t from,
                                        size_t count, char *to) {
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

// Rows that follow one another are read at once, to where they are wanted.
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
      LS_RETURN_IF_ERROR(column_files_read_rows(
          from, indices[k], run, (char *)rows[leaf] + k * from->row_size));
    }
    k += run;
  }
  return ls_ok();
}

// ---- Files -----------------------------------------------------------------
// All columns are of the same rows: for who deals files, they are one.
static size_t one_file(const ls_dataset *dataset) {
  (void)dataset;
  return 1;
}

static const char *first_path(const ls_dataset *dataset, size_t i) {
  (void)i;
  return ((const columns_dataset *)dataset)->columns[0].file->file->path;
}

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
                                               .num_files = one_file,
                                               .file = first_path,
                                               .shard_files = shard_columns};

// ---- Making ----------------------------------------------------------------
// The data set of these columns, taken over with their list, which is from the
// current allocator; `like` is a nest of as many leaves, in the order of the
// columns, taken over; `status` too.
static ls_status column_files_begin(columns_dataset *self, ls_nest like) {
  ls_dataset *base = &self->base;
  ls_allocator *allocator = base->allocator;
  ls_leaf_spec *leaves = ls_new_array(allocator, ls_leaf_spec, self->count);
  ls_status status = ls_nest_status(like);
  if (leaves == NULL) status = ls_status_join(status, ls_out_of_memory());
  for (size_t i = 0; i < self->count && ls_status_is_ok(status); ++i) {
    column *one = &self->columns[i];
    ls_shape shape = one->header.shape;
    const char *path = one->file->file->path;
    if (shape.rank < 1) {
      status = ls_invalid_argument("'%s' has a scalar: it has no rows", path);
      break;
    }
    if (shape.dim[0] != self->columns[0].header.shape.dim[0])
      status = ls_invalid_argument(
          "column %zu, in '%s', has %lld rows, column 0, in '%s', has %lld", i,
          path, (long long)shape.dim[0], self->columns[0].file->file->path,
          (long long)self->columns[0].header.shape.dim[0]);
    shape.rank -= 1;
    for (int k = 0; k < shape.rank; ++k)
      shape.dim[k] = shape.dim[k + 1];
    shape.dim[shape.rank] = 0;
    leaves[i].type = (ls_type){one->header.dtype, shape};
    one->row_size = (size_t)ls_shape_num_elements(shape) * one->header.width;
  }
  if (ls_status_is_ok(status)) {
    status = ls_dataset_set_leaves(base, like, leaves, self->count);
    like = ls_none();
    base->size = self->columns[0].header.shape.dim[0];
    base->indexed = true;
  }
  ls_nest_release(like);
  ls_release(allocator, leaves);
  return status;
}

// Strings are arrays of their own.
static ls_dataset *of_arrays(column *columns, size_t count, ls_nest like) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  ls_nest arrays = ls_fail(ls_out_of_memory());
  if (items != NULL) {
    for (size_t i = 0; i < count; ++i)
      items[i] = ls_nest_array(ls_array_retain(columns[i].loaded));
    ls_nest_release(arrays);
    arrays = ls_nest_pack(like, items, count);
  }
  return ls_dataset_from_arrays(arrays);
}

static bool any_strings(const column *columns, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (columns[i].header.dtype == LS_DTYPE_STRING) return true;
  return false;
}

static ls_status column_files_load(column *self);

static ls_dataset *make_columns(const char *format, column *columns,
                                size_t count, ls_nest like, ls_status status) {
  ls_allocator *allocator = ls_current_allocator();
  const bool strings = ls_status_is_ok(status) && any_strings(columns, count);
  for (size_t i = 0; i < count && strings && ls_status_is_ok(status); ++i)
    status = column_files_load(&columns[i]);
  columns_dataset *self = NULL;
  ls_dataset *made = NULL;
  if (strings && ls_status_is_ok(status)) {
    made = of_arrays(columns, count, like);
  } else {
    self = (columns_dataset *)ls_dataset_new(&columns_class, sizeof(*self),
                                             NULL, 0, status);
    made = (ls_dataset *)self;
  }
  if (self == NULL) {
    for (size_t i = 0; i < count; ++i)
      drop_column(&columns[i]);
    ls_release(allocator, columns);
    ls_nest_release(like);
    return made;
  }
  self->format = format;
  self->columns = columns;
  self->count = count;
  if (ls_status_is_ok(made->failure))
    return ls_dataset_fail(made, column_files_begin(self, like));
  ls_nest_release(like);
  return made;
}

// ---- Loading ---------------------------------------------------------------
// The array of an npy file or member.
static ls_status column_files_load(column *self) {
  if (self->loaded != NULL) return ls_ok();
  return ls_npy_read_elements(self->file->file, &self->header, &self->loaded);
}

// `*loaded` is what has been loaded for the data set.
static ls_status load_if(column *self, const ls_columns_options *options,
                         int64_t *loaded) {
  const int64_t size =
      ls_shape_num_elements(self->header.shape) * (int64_t)self->header.width;
  if (ls_source_loads(options != NULL ? options->load : LS_FLAG_DEFAULT, size,
                      loaded))
    return column_files_load(self);
  if (self->header.fortran && self->loaded == NULL) {
    return ls_unimplemented(
        "'%s' is in Fortran's order, in which no row lies in one place; load "
        "it (`load` on), or save it by numpy.ascontiguousarray",
        self->file->file->path);
  }
  return ls_ok();
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
  const uint16_t one = 1;
  out->header = (ls_npy_header){.dtype = header.dtype,
                                .shape = header.shape,
                                .width = ls_dtype_size(header.dtype),
                                .data_offset = (int64_t)header.data_offset};
  out->header.swapped =
      out->header.width > 1 && *(const unsigned char *)&one == 1;
  return load_if(out, options, loaded);
}

ls_dataset *ls_dataset_idx(const char *const *paths, size_t num_paths,
                           const ls_columns_options *options) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_MEMORY(allocator, const char *, found) = NULL;
  size_t count = 0;
  ls_status status =
      ls_source_paths(paths, num_paths, allocator, &found, &count);
  column *columns = ls_new_array(allocator, column, count);
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  ls_nest like = ls_none();
  int64_t loaded = 0;
  if (columns == NULL || items == NULL)
    status = ls_status_join(status, ls_out_of_memory());
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    status = open_idx(found[i], options, &loaded, &columns[i]);
    items[i] = ls_nest_i64((int64_t)i);
  }
  if (ls_status_is_ok(status))
    like =
        count == 1 ? items[0] : ls_nest_sequence(LS_KIND_TUPLE, items, count);
  return make_columns("idx", columns, columns != NULL ? count : 0, like,
                      status);
}

// ---- npy and npz -----------------------------------------------------------
ls_dataset *ls_dataset_npy(const char *path,
                           const ls_columns_options *options) {
  int64_t loaded = 0;
  column *one = ls_new_array(ls_current_allocator(), column, 1);
  if (one == NULL) return NULL;
  ls_status status = path == NULL ? ls_null_argument("ls_dataset_npy", "path")
                                  : ls_source_file_open(path, NULL, &one->file);
  if (ls_status_is_ok(status))
    status = ls_npy_open(one->file->file, path, 0, one->file->file->size,
                         &one->header);
  if (ls_status_is_ok(status)) status = load_if(one, options, &loaded);
  return make_columns("npy", one, 1, ls_nest_i64(0), status);
}

// A packed member is loaded whole.
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
  LS_OWN(ls_text, name) = {0};
  ls_text_init(&name, zip->allocator);
  ls_text_append_format(&name, "%s/%s", file->file->path, entry->name);
  ls_status status = ls_text_status(&name);
  if (ls_status_is_ok(status) && entry->deflated) {
    status = unpack_member(zip, entry, name.data, out);
  } else if (ls_status_is_ok(status)) {
    int64_t from = 0;
    status = ls_zip_locate(zip, entry, &from);
    if (ls_status_is_ok(status))
      status =
          ls_npy_open(file->file, name.data, from, entry->size, &out->header);
    if (ls_status_is_ok(status)) status = load_if(out, options, loaded);
  }
  return status;
}

// The member that holds an array of this name: with ".npy" behind it, or as it
// is.
static ls_status find_member(const ls_zip *zip, const char *name,
                             const ls_zip_entry **out) {
  *out = NULL;
  if (name == NULL)
    return ls_invalid_argument("the name of an array of '%s' is NULL",
                               zip->file->path);
  const size_t length = strlen(name);
  LS_OWN(ls_text, known) = {0};
  for (size_t i = zip->count; i-- > 0;) {
    const char *entry = zip->entries[i].name;
    if (strncmp(entry, name, length) != 0) continue;
    if (strcmp(entry + length, ".npy") != 0 && entry[length] != '\0') continue;
    *out = &zip->entries[i];
    return ls_ok();
  }
  ls_text_init(&known, zip->allocator);
  for (size_t i = 0; i < zip->count && i < 20; ++i)
    ls_text_append_format(&known, "%s'%s'", i == 0 ? "" : ", ",
                          zip->entries[i].name);
  return ls_not_found("'%s' has no array '%s'; it has %s", zip->file->path,
                      name, ls_text_data(&known));
}

// An array's name is its member's without ".npy"; a copy of the caller's.
static char *name_of_array(const ls_zip *zip, const char *member) {
  const size_t length = strlen(member);
  const bool is_npy = length > 4 && strcmp(member + length - 4, ".npy") == 0;
  return ls_copy_text(zip->allocator, member, length - (is_npy ? 4 : 0));
}

// Opens the chosen members and names them. Columns stand by the leaves of the
// dict, which go by sorted name.
static ls_status open_npz(const ls_zip *zip, ls_source_file *file,
                          const char *const *names, size_t count,
                          const ls_columns_options *options, char **keys,
                          column *columns, ls_nest *out_like) {
  ls_allocator *allocator = zip->allocator;
  int64_t loaded = 0;
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  LS_OWN_ARRAY(allocator, const ls_zip_entry *, entries, count);
  ls_status status =
      items == NULL || entries == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    items[i] = ls_nest_i64((int64_t)i);
    entries[i] = &zip->entries[i];
    if (names != NULL) status = find_member(zip, names[i], &entries[i]);
    if (!ls_status_is_ok(status)) break;
    keys[i] = name_of_array(zip, entries[i]->name);
    if (keys[i] == NULL) status = ls_out_of_memory();
  }
  if (ls_status_is_ok(status)) {
    *out_like = ls_nest_dict("", (const char *const *)keys, items, count);
    status = ls_nest_status(*out_like);
  }
  if (ls_status_is_ok(status)) {
    ls_nest_flatten(*out_like, items, count);
    for (size_t leaf = 0; leaf < count && ls_status_is_ok(status); ++leaf)
      status = open_member(zip, entries[items[leaf].as.i64], file, options,
                           &loaded, &columns[leaf]);
  }
  return status;
}

ls_dataset *ls_dataset_npz(const char *path, const char *const *names,
                           size_t num_names,
                           const ls_columns_options *options) {
  ls_allocator *allocator = ls_current_allocator();
  ls_source_file *file = NULL;
  ls_zip zip = {0};
  ls_nest like = ls_none();
  ls_status status = path == NULL ? ls_null_argument("ls_dataset_npz", "path")
                                  : ls_source_file_open(path, NULL, &file);
  if (ls_status_is_ok(status) && names == NULL && num_names > 0)
    status = ls_null_argument("ls_dataset_npz", "names");
  if (ls_status_is_ok(status))
    status = ls_zip_open(file->file, allocator, &zip);
  if (num_names == 0) names = NULL;
  const size_t count = names != NULL ? num_names : zip.count;
  if (ls_status_is_ok(status) && count == 0)
    status = ls_invalid_argument("'%s' has no arrays", path);
  column *columns = ls_new_array(allocator, column, count);
  char **keys = ls_new_array(allocator, char *, count);
  if (ls_status_is_ok(status))
    status =
        columns == NULL || keys == NULL
            ? ls_out_of_memory()
            : open_npz(&zip, file, names, count, options, keys, columns, &like);
  for (size_t i = 0; keys != NULL && i < count; ++i)
    ls_release(allocator, keys[i]);
  ls_release(allocator, keys);
  ls_zip_close(&zip);
  ls_object_release(file);
  return make_columns("npz", columns, columns != NULL ? count : 0, like,
                      status);
}
