// SPDX-License-Identifier: Apache-2.0
// Files of JSON objects, one a line, as tables: members are columns, of
// numbers, arrays of numbers or texts.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cli/data/data_sheet.h"
#include "cli/data/json_text.h"
#include "cli/words.h"

// ---- Lines -----------------------------------------------------------------
// A member of a line, whose value has been checked.
typedef struct member {
  const char *key;
  size_t key_size;
  cli_cursor value;
  int64_t items;  // Number of items of an array.
} member;

static bool is_named(const member *found, const char *name) {
  return found->key_size == strlen(name) &&
         memcmp(found->key, name, found->key_size) == 0;
}

// Takes the next member of a line; `*out_more` is false after the last one.
static ls_status next_member(cli_cursor *c, bool is_first, member *out,
                             bool *out_more) {
  *out_more = true;
  if (is_first && !cli_cursor_take(c, '{')) return cli_cursor_error(c, "'{'");
  if (is_first || cli_cursor_take(c, ',')) {
    LS_RETURN_IF_ERROR(cli_cursor_string(c, &out->key, &out->key_size));
    if (!cli_cursor_take(c, ':')) return cli_cursor_error(c, "':'");
    cli_cursor_space(c);
    out->value = *c;
    LS_RETURN_IF_ERROR(cli_cursor_skip(c, &out->items));
    out->value.end = c->at;
    return ls_ok();
  }
  *out_more = false;
  if (!cli_cursor_take(c, '}')) return cli_cursor_error(c, "',' or '}'");
  cli_cursor_space(c);
  return c->at == c->end ? ls_ok() : cli_cursor_error(c, "the line's end");
}

// Copies a line, since numbers are read up to a terminating zero.
static ls_status copy_line(ls_nest element, int64_t number, char **out_text,
                           cli_cursor *out) {
  const ls_bytes *line = ls_array_data(ls_nest_as_array(element));
  char *text = cli_copy_text(line->data, line->size);
  if (text == NULL) return ls_out_of_memory();
  *out_text = text;
  *out = (cli_cursor){
      .text = text, .at = text, .end = text + line->size, .lines = number};
  return ls_ok();
}

// ---- Rows ------------------------------------------------------------------
typedef struct json_column {
  char *name;
  ls_dtype dtype;
  ls_shape shape;
  size_t item;   // Item of a row that has the column,
  int64_t from;  // from this element on.
} json_column;

typedef struct json_rows {
  char *file;
  json_column *columns;
  size_t count, num_items;
  const char **keys;  // Keys and types of the items.
  ls_type *types;
} json_rows;

static void release_rows(void *user) {
  json_rows *self = user;
  for (size_t i = 0; self->columns != NULL && i < self->count; ++i)
    cli_release(self->columns[i].name);
  cli_release(self->columns);
  cli_release(self->keys);
  cli_release(self->types);
  cli_release(self->file);
  cli_release(self);
}

static ls_status take_text(const json_column *column, const cli_cursor *value,
                           ls_array **out) {
  if (*value->at != '"')
    return ls_invalid_argument("line %lld: column '%s' is %.*s, expected a "
                               "text",
                               (long long)value->lines + 1, column->name,
                               (int)(value->end - value->at), value->at);
  const size_t size = (size_t)(value->end - value->at);
  CLI_OWN_ARRAY_OR_RETURN(char, text, size + 1);
  cli_json_copy(&(cli_member){.value = value->at, .value_size = size}, text,
                size + 1);
  const ls_bytes bytes = {text, strlen(text)};
  return ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &bytes, out);
}

static ls_status take_value(const json_column *column, const cli_cursor *value,
                            ls_array **item) {
  if (column->dtype == LS_DTYPE_STRING) return take_text(column, value, item);
  cli_cursor c = *value;
  cli_filler filler = {.noun = "column",
                       .name = column->name,
                       .dtype = column->dtype,
                       .shape = column->shape,
                       .array = *item,
                       .data = (void *)(uintptr_t)ls_array_data(*item),
                       .filled = column->from};
  return ls_status_annotate(cli_filler_read(&filler, &c, -1), "at line %lld",
                            (long long)value->lines + 1);
}

static ls_status read_line(const json_rows *self, cli_cursor *c,
                           ls_array **items, bool *is_found) {
  bool more = true;
  member found = {0};
  for (bool first = true;; first = false) {
    LS_RETURN_IF_ERROR(next_member(c, first, &found, &more));
    if (!more) break;
    for (size_t i = 0; i < self->count; ++i) {
      const json_column *column = &self->columns[i];
      if (!is_named(&found, column->name)) continue;
      if (is_found[i])
        return ls_invalid_argument("line %lld has '%s' twice",
                                   (long long)c->lines + 1, column->name);
      is_found[i] = true;
      LS_RETURN_IF_ERROR(
          take_value(column, &found.value, &items[column->item]));
    }
  }
  for (size_t i = 0; i < self->count; ++i)
    if (!is_found[i])
      return ls_invalid_argument("line %lld has no '%s'",
                                 (long long)c->lines + 1,
                                 self->columns[i].name);
  return ls_ok();
}

static ls_status make_row(const json_rows *self, ls_nest element,
                          int64_t number, ls_array **items) {
  cli_cursor c;
  CLI_OWN_MEMORY(char, text) = NULL;
  CLI_OWN_ARRAY_OR_RETURN(bool, is_found, self->count);
  LS_RETURN_IF_ERROR(copy_line(element, number, &text, &c));
  for (size_t i = 0; i < self->num_items; ++i)
    if (self->types[i].dtype != LS_DTYPE_STRING)
      LS_RETURN_IF_ERROR(ls_array_create(self->types[i].dtype,
                                         self->types[i].shape, &items[i]));
  return read_line(self, &c, items, is_found);
}

static ls_nest read_row(ls_nest element, const ls_map_call *call, void *user) {
  const json_rows *self = user;
  CLI_OWN_MEMORY(ls_array *, items) =
      cli_allocate(self->num_items * sizeof(*items));
  CLI_OWN_MEMORY(ls_nest, leaves) =
      cli_allocate(self->num_items * sizeof(*leaves));
  if (items == NULL || leaves == NULL) return ls_fail(ls_out_of_memory());
  const ls_status status = make_row(self, element, call->id, items);
  if (ls_status_is_ok(status)) {
    for (size_t i = 0; i < self->num_items; ++i)
      leaves[i] = ls_nest_array(items[i]);
    return ls_nest_dict("", self->keys, leaves, self->num_items);
  }
  for (size_t i = 0; i < self->num_items; ++i)
    ls_array_release(items[i]);
  return ls_fail(ls_status_annotate(status, "of '%s'", self->file));
}

// Gives each column its item: stacked ones share one, where the first is.
static ls_status place_columns(json_rows *self, const cli_sheet *table,
                               const ls_csv_column *columns) {
  size_t stack = SIZE_MAX;
  int64_t stacked = 0;
  for (size_t i = 0; i < self->count; ++i) {
    json_column *column = &self->columns[i];
    size_t at = 0;
    while (strcmp(table->columns[at].name, columns[i].name) != 0)
      ++at;
    const int64_t width = table->widths[at];
    *column = (json_column){
        .name = cli_copy_text(columns[i].name, strlen(columns[i].name)),
        .dtype = columns[i].dtype,
        .shape = width > 0 ? LS_SHAPE(width) : LS_SCALAR,
    };
    if (column->name == NULL) return ls_out_of_memory();
    const bool joins = columns[i].stacked && stack != SIZE_MAX;
    column->item = joins ? stack : self->num_items++;
    if (columns[i].stacked) {
      stack = column->item;
      column->from = stacked;
      stacked += width > 0 ? width : 1;
    }
    self->keys[column->item] = columns[i].stacked ? "*" : column->name;
    self->types[column->item] = (ls_type){
        column->dtype, columns[i].stacked ? LS_SHAPE(stacked) : column->shape};
  }
  return ls_ok();
}

static ls_status make_rows(const cli_files *files, const cli_sheet *table,
                           const ls_csv_column *columns, json_rows *self) {
  self->columns = cli_allocate(self->count * sizeof(*self->columns));
  self->keys = cli_allocate(self->count * sizeof(*self->keys));
  self->types = cli_allocate(self->count * sizeof(*self->types));
  self->file = cli_copy_text(files->text, strlen(files->text));
  if (self->columns == NULL || self->keys == NULL || self->types == NULL ||
      self->file == NULL)
    return ls_out_of_memory();
  return place_columns(self, table, columns);
}

static ls_nest spec_of(const json_rows *self) {
  CLI_OWN_MEMORY(ls_nest, leaves) =
      cli_allocate(self->num_items * sizeof(*leaves));
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < self->num_items; ++i)
    leaves[i] = ls_nest_spec(self->types[i].dtype, self->types[i].shape);
  return ls_nest_dict("", self->keys, leaves, self->num_items);
}

ls_dataset *cli_json_rows(const cli_files *files, const cli_sheet *table,
                          const ls_csv_column *columns, size_t count) {
  json_rows *self = cli_allocate(sizeof(*self));
  if (self == NULL) return NULL;
  self->count = count;
  CLI_OWN(ls_status, status) = make_rows(files, table, columns, self);
  if (!ls_status_is_ok(status)) {
    release_rows(self);
    return NULL;
  }
  return ls_dataset_map(ls_dataset_lines(files->paths, files->count, NULL),
                        &(ls_map_options){.name = "json",
                                          .call = read_row,
                                          .user = self,
                                          .release = release_rows,
                                          .result = spec_of(self)});
}

// ---- The first lines -------------------------------------------------------
// Guesses the type of a value.
static ls_status guess_type(const member *found, ls_dtype *out) {
  const char *at = found->value.at;
  const size_t size = (size_t)(found->value.end - at);
  *out = LS_DTYPE_STRING;
  if (*at == '"') return ls_ok();
  if (strchr("tfn{", *at) != NULL || (*at == '[' && found->items == 0))
    return cli_cursor_error(&found->value,
                            "a number, numbers in an array, or a text");
  *out = LS_DTYPE_I64;
  for (size_t i = 0; i < size; ++i)
    if (strchr(".eE", at[i]) != NULL) *out = LS_DTYPE_F32;
  return ls_ok();
}

// Takes the columns from the first line: twice, to count them first.
static ls_status find_columns(const cli_cursor *line, cli_sheet *out) {
  for (int pass = 0; pass < 2; ++pass) {
    cli_cursor c = *line;
    member found = {0};
    bool more = true;
    size_t count = 0;
    for (;; ++count) {
      LS_RETURN_IF_ERROR(next_member(&c, count == 0, &found, &more));
      if (!more) break;
      if (pass == 0) continue;
      out->columns[count].name = out->names[count] =
          cli_copy_text(found.key, found.key_size);
      if (out->names[count] == NULL) return ls_out_of_memory();
      LS_RETURN_IF_ERROR(guess_type(&found, &out->columns[count].dtype));
      out->widths[count] = *found.value.at == '[' ? found.items : 0;
    }
    if (pass == 0) LS_RETURN_IF_ERROR(cli_sheet_make(out, count));
  }
  return ls_ok();
}

// Makes whole numbers floats if another line has some there.
static ls_status widen_columns(cli_cursor *c, cli_sheet *table) {
  member found = {0};
  bool more = true;
  for (bool first = true;; first = false) {
    LS_RETURN_IF_ERROR(next_member(c, first, &found, &more));
    if (!more) return ls_ok();
    for (size_t i = 0; i < table->count; ++i) {
      ls_dtype dtype = LS_DTYPE_NONE;
      if (!is_named(&found, table->names[i])) continue;
      LS_RETURN_IF_ERROR(guess_type(&found, &dtype));
      if (table->columns[i].dtype == LS_DTYPE_I64 && dtype == LS_DTYPE_F32)
        table->columns[i].dtype = dtype;
    }
  }
}

static ls_status look_at_lines(const cli_files *files, cli_sheet *out) {
  CLI_OWN(ls_dataset, lines) =
      ls_dataset_lines(files->paths, files->count, NULL);
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(
      lines, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  for (int64_t i = 0; i < CLI_LOOK_AT; ++i) {
    cli_cursor c;
    CLI_OWN_MEMORY(char, text) = NULL;
    CLI_OWN(ls_status, status) = ls_iterator_next(iterator, &element);
    if (ls_status_code(status) == LS_OUT_OF_RANGE)
      return i > 0 ? ls_ok()
                   : ls_invalid_argument("'%s' has no row", files->first);
    if (!ls_status_is_ok(status)) return cli_give(&status);
    LS_RETURN_IF_ERROR(copy_line(element, i, &text, &c));
    if (i == 0) LS_RETURN_IF_ERROR(find_columns(&c, out));
    LS_RETURN_IF_ERROR(widen_columns(&c, out));
  }
  return ls_ok();
}

ls_status cli_sheet_open_json(const cli_files *files, cli_sheet *out) {
  out->is_json = true;
  out->header = true;
  LS_RETURN_IF_ERROR(
      ls_status_annotate(look_at_lines(files, out), "of '%s'", files->first));
  out->guessed = cli_json_rows(files, out, out->columns, out->count);
  return ls_dataset_status(out->guessed);
}
