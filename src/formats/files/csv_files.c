// SPDX-License-Identifier: Apache-2.0
// CSV files as data sets. Types of columns are given or guessed from the first
// rows.
#include <strings.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "formats/bytes/csv.h"
#include "formats/bytes/offsets.h"
#include "formats/files/source.h"
#include "lockstep/element_spec.h"

typedef struct csv_column {
  const char *name;
  ls_dtype dtype;
  const char *missing;    // Value of empty fields; NULL: refuses them.
  size_t field;           // Index of the column in a row.
  bool guessed;           // True if the type is guessed.
  bool stacked;           // One of the columns stacked to one array.
  size_t item, leaf, at;  // Item and leaf of elements; first byte in the leaf.
} csv_column;

typedef struct csv_decoder {
  ls_record_decoder base;
  char delimiter;
  bool header;
  csv_column *columns;
  size_t count;
  const char **keys;              // Names of the elements' items.
  size_t num_items, num_stacked;  // Items; columns stacked to an item,
  char *stack;                    // and the name of that item.
  size_t num_fields;              // Number of fields of every row.
  char *texts;  // Column names and missing values, zero-terminated.
  // The first file's header line, unparsed.
  char *names;
  ls_csv_field *fields;
} csv_decoder;

enum { GUESS_ROWS = 100 };

static void destroy_csv(ls_record_decoder *decoder) {
  csv_decoder *self = (csv_decoder *)decoder;
  ls_release(decoder->allocator, self->columns);
  ls_release(decoder->allocator, self->keys);
  ls_release(decoder->allocator, self->names);
  ls_release(decoder->allocator, self->fields);
  ls_release(decoder->allocator, self->texts);
  ls_release(decoder->allocator, self->stack);
}

static void describe_csv(const ls_record_decoder *decoder, ls_text *text) {
  const csv_decoder *self = (const csv_decoder *)decoder;
  for (size_t i = 0; i < self->count; ++i)
    ls_text_append_format(text, ", %s=%s%s", self->columns[i].name,
                          ls_dtype_name(self->columns[i].dtype),
                          self->columns[i].stacked ? "+" : "");
}

// ---- Rows ------------------------------------------------------------------
// Splits a row into all of its fields, which the caller owns.
static ls_status split_row(const csv_decoder *self, char *row, size_t size,
                           ls_csv_field **out_fields, size_t *out_count) {
  ls_allocator *allocator = self->base.allocator;
  size_t room = 16;
  *out_fields = NULL;
  // Splitting changes the row, so the count uses a copy.
  LS_OWN_MEMORY(allocator, char, copy) = ls_copy_text(allocator, row, size);
  LS_RETURN_IF_NO_MEMORY(copy);
  ls_csv_split(copy, size, self->delimiter, NULL, 0, &room);
  LS_SET_ARRAY_OR_RETURN(allocator, ls_csv_field, *out_fields, room);
  ls_csv_split(row, size, self->delimiter, *out_fields, room, out_count);
  return ls_ok();
}

// Splits a line of names, without the spaces around those that have no quotes.
static ls_status split_names(const csv_decoder *self, const ls_file *file,
                             char *row, size_t size, ls_csv_field **out_fields,
                             size_t *out_count) {
  LS_RETURN_IF_ERROR(split_row(self, row, size, out_fields, out_count));
  for (size_t i = 0; i < *out_count; ++i) {
    ls_csv_field *field = &(*out_fields)[i];
    if (field->quoted) continue;
    if (memchr(field->text, '\r', field->size) != NULL)
      return ls_invalid_argument(
          "'%s' line 1 has a CR without LF: end lines by LF, or CR LF",
          file->path);
    const ls_bytes text = ls_csv_trim(field);
    field->text = text.data;
    field->size = text.size;
  }
  return ls_ok();
}

// Reads the bytes from `from` to `to` of a file; the caller owns them.
static ls_status read_bytes(const csv_decoder *self, const ls_file *file,
                            int64_t from, int64_t to, char **out) {
  const size_t size = (size_t)(to - from);
  *out = ls_allocate(self->base.allocator, size);
  if (*out == NULL) return ls_out_of_memory();
  return ls_file_read(file, from, *out, size);
}

// Returns the first column with another name; `count` if all are the same.
static size_t other_name(const csv_decoder *self, const ls_csv_field *fields,
                         size_t count) {
  size_t i = 0;
  while (i < count && fields[i].size == self->fields[i].size &&
         memcmp(fields[i].text, self->fields[i].text, fields[i].size) == 0)
    ++i;
  return i;
}

// Checks that a file has the first file's header line.
static ls_status check_csv(const ls_record_decoder *decoder,
                           const ls_source_file *source) {
  const csv_decoder *self = (const csv_decoder *)decoder;
  if (!self->header) return ls_ok();
  LS_OWN_MEMORY(decoder->allocator, char, row) = NULL;
  size_t count = 0;
  LS_OWN_MEMORY(decoder->allocator, ls_csv_field, fields) = NULL;
  const int64_t end = source->offsets.items[0];
  LS_RETURN_IF_ERROR(read_bytes(self, source->file, 0, end, &row));
  const size_t lead = ls_csv_lead(row, (size_t)end);
  if (lead == (size_t)end)
    return ls_invalid_argument("'%s' is empty: it has no names of columns",
                               source->file->path);
  LS_RETURN_IF_ERROR(split_names(self, source->file, row + lead,
                                 (size_t)end - lead, &fields, &count));
  if (count != self->num_fields)
    return ls_invalid_argument(
        "'%s' has %zu columns, the files before it have %zu",
        source->file->path, count, self->num_fields);
  const size_t i = other_name(self, fields, count);
  if (i < count)
    return ls_invalid_argument(
        "'%s' has '%.*s' as column %zu, the files before it have '%.*s': all "
        "need the same columns in the same order",
        source->file->path, (int)fields[i].size, fields[i].text, i + 1,
        (int)self->fields[i].size, self->fields[i].text);
  return ls_ok();
}

static ls_status scan_csv(const ls_record_decoder *decoder,
                          ls_source_file *file) {
  const csv_decoder *self = (const csv_decoder *)decoder;
  ls_offsets *offsets = &file->offsets;
  LS_RETURN_IF_ERROR(ls_csv_scan(file->file, self->delimiter, 0, offsets));
  if (self->header && ls_offsets_count(offsets) > 0) {
    // Does not count the header line.
    --offsets->size;
    memmove(offsets->items, offsets->items + 1,
            offsets->size * sizeof(*offsets->items));
  }
  file->count = ls_offsets_count(offsets);
  return ls_ok();
}

// ---- Values ----------------------------------------------------------------
// Returns true for a missing value: an empty field, or one of spaces; in a
// column that has a value for them also a word for none.
static bool is_missing(const csv_column *column, const ls_csv_field *field) {
  static const char *const words[] = {"na", "n/a", "nan", "null", "none"};
  if (field->size == 0 || ls_csv_kind(field) == LS_DTYPE_NONE) return true;
  const ls_bytes text = ls_csv_trim(field);
  for (size_t i = 0; column->missing != NULL && i < LS_COUNT_OF(words); ++i)
    if (!field->quoted && text.size == strlen(words[i]) &&
        strncasecmp(text.data, words[i], text.size) == 0)
      return true;
  return false;
}

// Returns the value of missing fields as a field.
static ls_csv_field missing_field(const csv_column *column) {
  return (ls_csv_field){
      .text = column->missing,
      .size = column->missing != NULL ? strlen(column->missing) : 0};
}

static ls_status bad_field(const csv_column *column, const ls_record_at *at,
                           const ls_csv_field *field) {
  const int64_t line =
      ls_lines_number(at->file, at->offset + (int64_t)field->at);
  const bool gap = is_missing(column, field);
  return ls_invalid_argument(
      "'%s' line %lld, byte %lld, column '%s': '%.*s' is no %s%s%s%s",
      at->file->path, (long long)line,
      (long long)(at->offset + (int64_t)field->at), column->name,
      (int)(field->size < 60 ? field->size : 60), field->text,
      ls_dtype_name(column->dtype),
      gap               ? "; fill it in, give the column a value of missing "
                          "fields (from the command: --missing "
      : column->guessed ? ", as in the first rows; set the type of the column"
      : column->dtype == LS_DTYPE_U8 ? LS_BYTES_HINT "*=f32,LABEL'"
                                     : "",
      gap ? column->name : "", gap ? "=0), or leave it out (--features)" : "");
}

static ls_status read_field(const csv_column *column, const ls_record_at *at,
                            const ls_csv_field *field, void *out) {
  const ls_csv_field missing = missing_field(column);
  if (column->missing != NULL && is_missing(column, field) &&
      ls_csv_read(&missing, column->dtype, out))
    return ls_ok();
  return ls_csv_read(field, column->dtype, out) ? ls_ok()
                                                : bad_field(column, at, field);
}

// Splits a row into its fields, in the fetch's room.
static ls_status split_fields(const csv_decoder *self, ls_fetch *fetch,
                              const ls_record_at *at, char *bytes, size_t size,
                              ls_csv_field **out) {
  size_t count = 0;
  *out = ls_fetch_room(fetch, self->num_fields * sizeof(**out));
  if (*out == NULL) return ls_out_of_memory();
  ls_csv_split(bytes, size, self->delimiter, *out, self->num_fields, &count);
  if (count == self->num_fields) return ls_ok();
  return ls_invalid_argument(
      "'%s' line %lld, byte %lld has %zu fields, the file has %zu columns",
      at->file->path, (long long)ls_lines_number(at->file, at->offset),
      (long long)at->offset, count, self->num_fields);
}

static ls_status read_csv(const ls_record_decoder *decoder, ls_fetch *fetch,
                          const ls_record_at *at, char *bytes, size_t size,
                          const size_t *row_sizes, void *const *rows,
                          size_t k) {
  const csv_decoder *self = (const csv_decoder *)decoder;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  ls_csv_field *fields = NULL;
  LS_RETURN_IF_ERROR(split_fields(self, fetch, at, bytes, size, &fields));
  for (size_t i = 0; i < self->count; ++i) {
    const csv_column *column = &self->columns[i];
    char *row = (char *)rows[column->leaf] + k * row_sizes[column->leaf];
    LS_RETURN_IF_ERROR(
        read_field(column, at, &fields[column->field], row + column->at));
  }
  return ls_ok();
}

static ls_status make_value(const csv_column *column, const ls_record_at *at,
                            const ls_csv_field *field, ls_array **out) {
  if (column->dtype == LS_DTYPE_STRING) {
    ls_bytes text = {field->text, field->size};
    if (!field->quoted && column->missing != NULL && is_missing(column, field))
      text = (ls_bytes){column->missing, strlen(column->missing)};
    return ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &text, out);
  }
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_unwritten(column->dtype, LS_SCALAR, &value));
  LS_RETURN_IF_ERROR(
      read_field(column, at, field, ls_array_mutable_data(value)));
  return ls_hand_over(&value, out);
}

static ls_status make_csv(const ls_record_decoder *decoder, ls_fetch *fetch,
                          const ls_record_at *at, char *bytes, size_t size,
                          ls_nest *element) {
  const csv_decoder *self = (const csv_decoder *)decoder;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_OWN(ls_nests, items) = {0};
  LS_RETURN_IF_ERROR(ls_nests_init(&items, &fetch->stack, self->num_items));
  ls_csv_field *fields = NULL;
  LS_RETURN_IF_ERROR(split_fields(self, fetch, at, bytes, size, &fields));
  for (size_t i = 0; i < self->count; ++i) {
    const csv_column *column = &self->columns[i];
    const ls_csv_field *field = &fields[column->field];
    ls_nest *item = &items.items[column->item];
    ls_array *array = NULL;
    if (!column->stacked) {
      LS_RETURN_IF_ERROR(make_value(column, at, field, &array));
      *item = ls_nest_array(array);
      continue;
    }
    if (column->at == 0) {  // The first stacked column makes the array for all.
      LS_RETURN_IF_ERROR(ls_array_create(
          column->dtype, LS_SHAPE((int64_t)self->num_stacked), &array));
      *item = ls_nest_array(array);
    }
    LS_RETURN_IF_ERROR(read_field(column, at, field,
                                  (char *)ls_nest_data(*item, 0) + column->at));
  }
  items.count = 0;  // The dict owns the items.
  return ls_element_replace(
      ls_nest_dict("", self->keys, items.items, self->num_items), element);
}

static const ls_record_format csv_format = {.name = "csv",
                                            .scan = scan_csv,
                                            .check = check_csv,
                                            .writes = true,
                                            .read = read_csv,
                                            .make = make_csv,
                                            .describe = describe_csv,
                                            .destroy = destroy_csv};

// ---- Columns ---------------------------------------------------------------
// Adds a column; `name` need not be zero-terminated.
static void add_column(csv_decoder *self, const char *name, size_t size,
                       const ls_csv_column *wanted, size_t place, char **room) {
  csv_column *column = &self->columns[self->count];
  *column = (csv_column){.name = *room, .field = place};
  memcpy(*room, name, size);
  (*room)[size] = '\0';
  ++self->count;
  *room += size + 1;
  if (wanted == NULL) return;
  column->dtype = wanted->dtype;
  column->stacked = wanted->stacked;
  if (wanted->missing == NULL) return;
  const size_t length = strlen(wanted->missing) + 1;
  column->missing = memcpy(*room, wanted->missing, length);
  *room += length;
}

// Maps names to column numbers, counted from 1; a repeated name to its first
// column.
static ls_status map_fields(const csv_decoder *self, ls_map *places) {
  for (size_t i = 0; i < self->num_fields; ++i) {
    const ls_csv_field *field = &self->fields[i];
    if (ls_map_find(places, field->text, field->size) != NULL) continue;
    if (!ls_map_insert(places, field->text, field->size, (void *)(i + 1)))
      return ls_out_of_memory();
  }
  return ls_ok();
}

static ls_status find_field(const csv_decoder *self, const ls_map *places,
                            const char *path, const char *name,
                            size_t *out_place) {
  const uintptr_t place = (uintptr_t)ls_map_find_text(places, name);
  *out_place = place - 1;
  if (place > 0) return ls_ok();
  LS_OWN(ls_text, names) = {.allocator = self->base.allocator};
  for (size_t i = 0; i < self->num_fields && i < 20; ++i)
    ls_text_append_format(&names, "%s'%.*s'", i == 0 ? "" : ", ",
                          (int)self->fields[i].size, self->fields[i].text);
  return ls_not_found("'%s' has no column '%s'; it has %s", path, name,
                      ls_text_data(&names));
}

static ls_status check_column(const ls_csv_column *column) {
  if (column->name == NULL)
    return ls_invalid_argument("a column of CSV without a name");
  const ls_dtype dtype = column->dtype;
  if (dtype == LS_DTYPE_NONE || dtype == LS_DTYPE_STRING ||
      dtype == LS_DTYPE_BOOL || ls_dtype_is_float(dtype) ||
      ls_dtype_is_integer(dtype))
    return ls_ok();
  return ls_invalid_argument("column '%s' as %s: floats, integers, bool and "
                             "string are read",
                             column->name, ls_dtype_name(dtype));
}

// Adds the requested columns, by default all.
static ls_status choose_columns(csv_decoder *self, const ls_map *places,
                                const char *path,
                                const ls_csv_options *options) {
  ls_allocator *allocator = self->base.allocator;
  const size_t count =
      options->num_columns > 0 ? options->num_columns : self->num_fields;
  size_t size = 0;
  for (size_t i = 0; i < options->num_columns; ++i) {
    LS_RETURN_IF_ERROR(check_column(&options->columns[i]));
    const char *missing = options->columns[i].missing;
    size += strlen(options->columns[i].name) + 1 +
            (missing != NULL ? strlen(missing) + 1 : 0);
  }
  for (size_t i = 0; options->num_columns == 0 && i < count; ++i)
    size += self->fields[i].size + 1;
  self->columns = ls_new_array(allocator, csv_column, count);
  self->keys = ls_new_array(allocator, const char *, count);
  self->texts = ls_allocate(allocator, size);
  if (self->columns == NULL || self->keys == NULL || self->texts == NULL)
    return ls_out_of_memory();
  char *room = self->texts;
  for (size_t i = 0; i < count; ++i) {
    size_t place = i;
    if (options->num_columns == 0) {
      const ls_csv_field *field = &self->fields[i];
      const size_t first =
          (uintptr_t)ls_map_find(places, field->text, field->size);
      if (first != i + 1)
        return ls_invalid_argument(
            "columns %zu and %zu of '%s' have the same name, '%.*s'", first,
            i + 1, path, (int)(field->size < 60 ? field->size : 60),
            field->text);
      add_column(self, field->text, field->size, NULL, i, &room);
      continue;
    }
    const ls_csv_column *wanted = &options->columns[i];
    if (self->header)
      LS_RETURN_IF_ERROR(find_field(self, places, path, wanted->name, &place));
    add_column(self, wanted->name, strlen(wanted->name), wanted, place, &room);
  }
  return ls_ok();
}

static ls_dtype join_dtypes(ls_dtype a, ls_dtype b) {
  if (a == LS_DTYPE_NONE || a == b) return b;
  if (b == LS_DTYPE_NONE) return a;
  return a == LS_DTYPE_STRING || b == LS_DTYPE_STRING ? LS_DTYPE_STRING
                                                      : LS_DTYPE_F32;
}

// Widens the guessed types to fit a row.
static ls_status guess_by_row(csv_decoder *self, const ls_file *file,
                              int64_t from, int64_t end) {
  ls_allocator *allocator = self->base.allocator;
  LS_OWN_MEMORY(allocator, char, bytes) = NULL;
  LS_OWN_MEMORY(allocator, ls_csv_field, fields) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(read_bytes(self, file, from, end, &bytes));
  LS_RETURN_IF_ERROR(
      split_row(self, bytes, (size_t)(end - from), &fields, &count));
  for (size_t i = 0; i < self->count; ++i) {
    csv_column *column = &self->columns[i];
    if (column->guessed && column->field < count &&
        !is_missing(column, &fields[column->field]))
      column->dtype =
          join_dtypes(column->dtype, ls_csv_kind(&fields[column->field]));
  }
  return ls_ok();
}

// Guesses the types that are not given from the first rows.
static ls_status guess_types(csv_decoder *self, const ls_file *file,
                             const ls_offsets *offsets) {
  for (size_t i = 0; i < self->count; ++i) {
    csv_column *column = &self->columns[i];
    const ls_csv_field missing = missing_field(column);
    column->guessed = column->dtype == LS_DTYPE_NONE;
    if (column->guessed && column->missing != NULL)
      column->dtype = ls_csv_kind(&missing);
  }
  for (int64_t row = self->header; row < ls_offsets_count(offsets); ++row)
    LS_RETURN_IF_ERROR(
        guess_by_row(self, file, offsets->items[row], offsets->items[row + 1]));
  for (size_t i = 0; i < self->count; ++i)
    if (self->columns[i].dtype == LS_DTYPE_NONE)
      self->columns[i].dtype = LS_DTYPE_STRING;
  return ls_ok();
}

// Reads the header line, to which the fields point.
static ls_status read_names(csv_decoder *self, const ls_file *file,
                            const ls_offsets *offsets) {
  if (ls_offsets_count(offsets) == 0)
    return ls_invalid_argument("'%s' is empty: it has no line of names",
                               file->path);
  const int64_t from = offsets->items[0], to = offsets->items[1];
  LS_RETURN_IF_ERROR(read_bytes(self, file, from, to, &self->names));
  return split_names(self, file, self->names, (size_t)(to - from),
                     &self->fields, &self->num_fields);
}

// Numbers the items: one per column, and one for all stacked columns.
static ls_status number_items(csv_decoder *self) {
  const csv_column *first = NULL;
  for (size_t i = 0; i < self->count; ++i) {
    csv_column *column = &self->columns[i];
    column->item =
        column->stacked && first != NULL ? first->item : self->num_items++;
    self->keys[column->item] = column->stacked ? self->stack : column->name;
    if (!column->stacked) continue;
    if (first == NULL) first = column;
    column->at = self->num_stacked++ * ls_dtype_size(column->dtype);
    if (column->dtype != first->dtype || column->dtype == LS_DTYPE_STRING)
      return ls_invalid_argument(
          "columns '%s' of %s and '%s' of %s cannot be stacked: give one type",
          first->name, ls_dtype_name(first->dtype), column->name,
          ls_dtype_name(column->dtype));
  }
  return ls_ok();
}

// Makes the spec, a dict of all items, and finds each item's leaf: a dict's
// leaves are sorted by key.
static ls_status make_spec(csv_decoder *self) {
  LS_RETURN_IF_ERROR(number_items(self));
  const size_t count = self->num_items;
  ls_allocator *allocator = self->base.allocator;
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  LS_OWN_ARRAY(allocator, size_t, leaves, count);  // Leaf of each item.
  if (items == NULL || leaves == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_i64((int64_t)i);
  LS_OWN(ls_nest, numbers) = ls_nest_dict("", self->keys, items, count);
  LS_RETURN_IF_ERROR(ls_nest_status(numbers));
  ls_nest_flatten(numbers, items, count);
  for (size_t leaf = 0; leaf < count; ++leaf)
    leaves[items[leaf].as.i64] = leaf;
  for (size_t i = 0; i < self->count; ++i)
    self->columns[i].leaf = leaves[self->columns[i].item];
  for (size_t i = 0; i < self->count; ++i) {
    const csv_column *column = &self->columns[i];
    const ls_shape all = LS_SHAPE((int64_t)self->num_stacked);
    if (column->at == 0)  // Only the first stacked column has an item.
      items[column->item] =
          ls_nest_spec(column->dtype, column->stacked ? all : LS_SCALAR);
  }
  self->base.spec = ls_nest_dict("", self->keys, items, count);
  return ls_nest_status(self->base.spec);
}

static ls_status learn_columns(csv_decoder *self, const ls_file *file,
                               const ls_csv_options *options) {
  LS_OWN(ls_offsets, offsets) = {0};
  ls_offsets_init(&offsets, self->base.allocator);
  LS_OWN(ls_map, places) = {0};
  ls_map_init(&places, self->base.allocator);
  LS_RETURN_IF_ERROR(
      ls_csv_scan(file, self->delimiter, GUESS_ROWS + 1, &offsets));
  self->num_fields = options->num_columns;
  if (self->header) {
    LS_RETURN_IF_ERROR(read_names(self, file, &offsets));
    LS_RETURN_IF_ERROR(map_fields(self, &places));
  }
  LS_RETURN_IF_ERROR(choose_columns(self, &places, file->path, options));
  LS_RETURN_IF_ERROR(guess_types(self, file, &offsets));
  return make_spec(self);
}

// ---- Making ----------------------------------------------------------------
static ls_status begin_csv(csv_decoder *self, const char *const *paths,
                           size_t num_paths, const ls_csv_options *options) {
  ls_allocator *allocator = self->base.allocator;
  self->delimiter = options->delimiter != '\0' ? options->delimiter : ',';
  self->header = options->header != LS_FLAG_OFF;
  self->base.load = options->load;
  if (self->delimiter == '"' || self->delimiter == '\n' ||
      self->delimiter == '\r')
    return ls_invalid_argument("a delimiter of CSV that is a quote or ends "
                               "lines");
  if (options->columns == NULL && options->num_columns > 0)
    return ls_null_argument("ls_dataset_csv", "columns");
  if (!self->header && options->num_columns == 0)
    return ls_invalid_argument(
        "CSV without a line of names: give its columns, in order");
  const char *stack = options->stack != NULL ? options->stack : "values";
  LS_RETURN_IF_ERROR(ls_keep_text(allocator, stack, &self->stack));
  if (options->keep_index == LS_FLAG_ON)
    self->base.index_kind = 3 | (uint32_t)self->header << 8 |
                            (uint32_t)(unsigned char)self->delimiter << 16;
  LS_OWN_MEMORY(allocator, const char *, found) = NULL;
  size_t count = 0;
  LS_OWN(ls_source_file, first) = NULL;
  LS_RETURN_IF_ERROR(
      ls_source_paths(paths, num_paths, allocator, &found, &count));
  LS_RETURN_IF_ERROR(ls_source_file_open(found[0], NULL, &first));
  return learn_columns(self, first->file, options);
}

ls_dataset *ls_dataset_csv(const char *const *paths, size_t num_paths,
                           const ls_csv_options *options) {
  const ls_csv_options opts = options != NULL ? *options : (ls_csv_options){0};
  csv_decoder *decoder =
      (csv_decoder *)ls_record_decoder_new(&csv_format, sizeof(*decoder));
  if (decoder == NULL) return NULL;
  const ls_status status = begin_csv(decoder, paths, num_paths, &opts);
  return ls_record_source_new(paths, num_paths, &decoder->base, status);
}
