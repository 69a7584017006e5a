// SPDX-License-Identifier: Apache-2.0
// Files of JSON objects, one a line, as tables: members are columns, of
// numbers, arrays of numbers or texts.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data.h"
#include "cli/data/json_text.h"
#include "cli/words.h"

// ---- Lines -----------------------------------------------------------------
static const char whole_text[] =
    "a text without \\u0000 and without half of a surrogate pair";

// A member of a line, whose value has been checked.
typedef struct member {
  const char *key;
  size_t key_size;
  cli_cursor value;
  int64_t items;  // Number of items of an array.
} member;

// Finds a name, first at `from`: members mostly come in the same order. Returns
// `count` if there is none.
static size_t find_name(char *const *names, size_t count, size_t from,
                        const char *key, size_t size) {
  for (size_t i = 0; i < count; ++i) {
    const size_t at = from + i < count ? from + i : from + i - count;
    if (strncmp(names[at], key, size) == 0 && names[at][size] == '\0')
      return at;
  }
  return count;
}

// Takes a member's name. One with escapes is decoded in its place, which is a
// copy's.
static ls_status take_name(cli_cursor *c, member *out) {
  cli_cursor_space(c);
  const cli_cursor start = *c;
  LS_RETURN_IF_ERROR(cli_cursor_string(c, &out->key, &out->key_size));
  if (memchr(out->key, '\\', out->key_size) == NULL) return ls_ok();
  char *name = (char *)(uintptr_t)out->key;
  const cli_member quoted = {.value = name - 1,
                             .value_size = out->key_size + 2};
  if (!cli_json_copy(&quoted, name, out->key_size + 1))
    return cli_cursor_error(&start, whole_text);
  out->key_size = strlen(name);
  return ls_ok();
}

// Takes the next member of a line; `*out_more` is false after the last one.
static ls_status next_member(cli_cursor *c, bool is_first, member *out,
                             bool *out_more) {
  *out_more = true;
  if (is_first && !cli_cursor_take(c, '{')) return cli_cursor_error(c, "'{'");
  if (is_first || cli_cursor_take(c, ',')) {
    LS_RETURN_IF_ERROR(take_name(c, out));
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

// Copies a line, since numbers are read up to a terminating zero, and skips a
// byte order mark.
static ls_status copy_line(ls_nest element, int64_t number, char **out_text,
                           cli_cursor *out) {
  const ls_bytes *line = ls_array_data(ls_nest_as_array(element));
  char *text = cli_copy_text(line->data, line->size);
  if (text == NULL) return ls_out_of_memory();
  *out_text = text;
  *out = (cli_cursor){
      .text = text, .at = text, .end = text + line->size, .lines = number};
  if (strncmp(text, "\xef\xbb\xbf", 3) == 0) out->at += 3;
  return ls_ok();
}

// ---- Rows ------------------------------------------------------------------
typedef struct json_rows {
  char *file;
  size_t count;
  char **names;
  ls_type *types;
  bool *are_lists;  // Columns of lists of texts.
  char **missing;   // Values of columns that a line lacks; NULL: refused.
} json_rows;

static void release_rows(void *user) {
  json_rows *self = user;
  for (size_t i = 0; self->names != NULL && i < self->count; ++i)
    cli_release(self->names[i]);
  for (size_t i = 0; self->missing != NULL && i < self->count; ++i)
    cli_release(self->missing[i]);
  cli_release(self->missing);
  cli_release(self->names);
  cli_release(self->types);
  cli_release(self->are_lists);
  cli_release(self->file);
  cli_release(self);
}

// Takes a text, or any value as it is written.
static ls_status take_text(const char *name, const cli_cursor *value,
                           bool is_any, ls_array **out) {
  const size_t size = (size_t)(value->end - value->at);
  if (*value->at != '"' && !is_any)
    return ls_invalid_argument("column '%s' is %.*s, expected a text", name,
                               size < 80 ? (int)size : 80, value->at);
  CLI_OWN_ARRAY_OR_RETURN(char, text, size + 1);
  if (!cli_json_copy(&(cli_member){.value = value->at, .value_size = size},
                     text, size + 1))
    return cli_cursor_error(value, whole_text);
  const ls_bytes bytes = {text, strlen(text)};
  return ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &bytes, out);
}

// Takes a list of texts as one text: "big;tall;".
static ls_status take_list(const char *name, cli_cursor c, ls_array **out) {
  const cli_cursor value = c;
  const size_t size = (size_t)(c.end - c.at);
  CLI_OWN_ARRAY_OR_RETURN(char, text, size + 1);
  char *to = text;
  bool good = cli_cursor_take(&c, '[');
  while (good && !cli_cursor_take(&c, ']')) {
    cli_cursor_take(&c, ',');
    cli_cursor_space(&c);
    cli_member item = {.value = c.at};
    LS_RETURN_IF_ERROR(cli_cursor_skip(&c, NULL));
    item.value_size = (size_t)(c.at - item.value);
    good = *item.value == '"' && cli_json_copy(&item, to, item.value_size) &&
           strchr(to, ';') == NULL;
    to += strlen(to);
    *to++ = ';';
  }
  if (!good)
    return ls_invalid_argument(
        "column '%s' is %.*s, expected a list of texts without ';'", name,
        size < 80 ? (int)size : 80, value.at);
  const ls_bytes bytes = {text, (size_t)(to - text)};
  return ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &bytes, out);
}

static ls_status take_value(const char *name, ls_type type, bool is_list,
                            cli_cursor value, ls_array **out) {
  if (*out != NULL)
    return ls_invalid_argument("column '%s' is there twice", name);
  if (is_list) return take_list(name, value, out);
  const bool is_any = type.dtype == LS_DTYPE_NONE;
  if (is_any || type.dtype == LS_DTYPE_STRING)
    return take_text(name, &value, is_any, out);
  LS_RETURN_IF_ERROR(ls_array_create(type.dtype, type.shape, out));
  return cli_filler_read(
      &(cli_filler){.noun = "column",
                    .name = name,
                    .dtype = type.dtype,
                    .shape = type.shape,
                    .array = *out,
                    .data = (void *)(uintptr_t)ls_array_data(*out)},
      &value, -1);
}

// Makes the value of a column that a line lacks; leaves `*out` NULL if there is
// none.
static ls_status fill_missing(const json_rows *self, size_t column,
                              ls_array **out) {
  const char *value = self->missing[column];
  const ls_type type = self->types[column];
  if (value == NULL || self->are_lists[column]) return ls_ok();
  if (type.dtype == LS_DTYPE_STRING)
    return ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR,
                                &(ls_bytes){value, strlen(value)}, out);
  char *end = NULL;
  const double number = strtod(value, &end);
  if (end == value || *end != '\0') return ls_ok();
  LS_RETURN_IF_ERROR(ls_array_create(type.dtype, type.shape, out));
  for (int64_t i = 0; i < ls_array_num_elements(*out); ++i)
    ls_array_set_f64(*out, i, number);
  return ls_ok();
}

static ls_status read_line(const json_rows *self, ls_nest element,
                           int64_t number, ls_array **items) {
  cli_cursor c;
  member found = {0};
  CLI_OWN_MEMORY(char, text) = NULL;
  LS_RETURN_IF_ERROR(copy_line(element, number, &text, &c));
  size_t next = 0;
  for (bool first = true, more = true;; first = false) {
    LS_RETURN_IF_ERROR(next_member(&c, first, &found, &more));
    if (!more) break;
    const size_t i =
        find_name(self->names, self->count, next, found.key, found.key_size);
    if (i == self->count ||
        (self->missing[i] != NULL && *found.value.at == 'n'))
      continue;
    LS_RETURN_IF_ERROR(ls_status_annotate(
        take_value(self->names[i], self->types[i], self->are_lists[i],
                   found.value, &items[i]),
        "at line %lld", (long long)number + 1));
    next = i + 1 < self->count ? i + 1 : 0;
  }
  for (size_t i = 0; i < self->count; ++i) {
    if (items[i] == NULL) LS_RETURN_IF_ERROR(fill_missing(self, i, &items[i]));
    if (items[i] == NULL)
      return ls_invalid_argument("line %lld has no '%s'", (long long)number + 1,
                                 self->names[i]);
  }
  return ls_ok();
}

static void release_items(const json_rows *self, ls_array **items) {
  for (size_t i = 0; items != NULL && i < self->count; ++i)
    ls_array_release(items[i]);
}

// Makes a dict of the columns, whose arrays it takes over; without arrays, of
// their types.
static ls_nest make_dict(const json_rows *self, ls_array **items) {
  CLI_OWN_MEMORY(ls_nest, leaves) = cli_allocate(self->count * sizeof(*leaves));
  if (leaves == NULL) {
    release_items(self, items);
    return ls_fail(ls_out_of_memory());
  }
  for (size_t i = 0; i < self->count; ++i) {
    const ls_dtype dtype = self->types[i].dtype;
    leaves[i] =
        items != NULL
            ? ls_nest_array(items[i])
            : ls_nest_spec(dtype != LS_DTYPE_NONE ? dtype : LS_DTYPE_STRING,
                           self->types[i].shape);
  }
  return ls_nest_dict("", (const char *const *)self->names, leaves,
                      self->count);
}

static ls_nest read_row(ls_nest element, const ls_map_call *call, void *user) {
  const json_rows *self = user;
  CLI_OWN_MEMORY(ls_array *, items) =
      cli_allocate(self->count * sizeof(*items));
  if (items == NULL) return ls_fail(ls_out_of_memory());
  const ls_status status = read_line(self, element, call->id, items);
  if (ls_status_is_ok(status)) return make_dict(self, items);
  release_items(self, items);
  return ls_fail(ls_status_annotate(status, "of '%s'", self->file));
}

static bool rows_fill(const cli_files *files, const cli_sheet *table,
                      const ls_csv_column *columns, json_rows *self) {
  self->names = cli_allocate(self->count * sizeof(*self->names));
  self->types = cli_allocate(self->count * sizeof(*self->types));
  self->are_lists = cli_allocate(self->count * sizeof(*self->are_lists));
  self->missing = cli_allocate(self->count * sizeof(*self->missing));
  self->file = cli_copy_text(files->text, strlen(files->text));
  if (self->missing == NULL || self->are_lists == NULL || self->names == NULL ||
      self->types == NULL || self->file == NULL)
    return false;
  for (size_t i = 0, at = 0; i < self->count; ++i) {
    const char *name = columns[i].name;
    at = find_name(table->names, table->count, at, name, strlen(name));
    const int64_t width = table->widths[at];
    self->types[i] =
        (ls_type){columns[i].dtype, width > 0 ? LS_SHAPE(width) : LS_SCALAR};
    self->are_lists[i] = width < 0 && columns[i].dtype == LS_DTYPE_STRING;
    self->names[i] = cli_copy_text(name, strlen(name));
    if (columns[i].missing != NULL)
      self->missing[i] =
          cli_copy_text(columns[i].missing, strlen(columns[i].missing));
    if (self->names[i] == NULL ||
        (columns[i].missing != NULL && self->missing[i] == NULL))
      return false;
    at = at + 1 < table->count ? at + 1 : 0;
  }
  return true;
}

ls_dataset *cli_json_rows(const cli_files *files, const cli_sheet *table,
                          const ls_csv_column *columns, size_t count) {
  json_rows *self = cli_allocate(sizeof(*self));
  if (self == NULL) return NULL;
  self->count = count;
  if (!rows_fill(files, table, columns, self)) {
    release_rows(self);
    return NULL;
  }
  return ls_dataset_map(ls_dataset_lines(files->paths, files->count, NULL),
                        &(ls_map_options){.name = "json",
                                          .call = read_row,
                                          .user = self,
                                          .release = release_rows,
                                          .result = make_dict(self, NULL)});
}

// ---- The first lines -------------------------------------------------------
// Guesses the type of a value; NONE: neither number, numbers nor text.
static ls_dtype guess_type(const member *found) {
  const char *at = found->value.at;
  if (*at == '"') return LS_DTYPE_STRING;
  const char *first = at + (*at == '[');
  if (strchr("-0123456789", first[strspn(first, " \t")]) == NULL)
    return LS_DTYPE_NONE;
  for (; at < found->value.end; ++at)
    if (strchr(".eE", *at) != NULL) return LS_DTYPE_F32;
  return LS_DTYPE_I64;
}

// Returns true if --missing names a column.
static bool is_named(const cli_sheet *table, const char *name, size_t size) {
  bool found = false;
  for (size_t i = 0; i < table->missing.count; ++i) {
    const char *from = table->missing.maps[i].from;
    found |= strncmp(from, name, size) == 0 && from[size] == '\0';
  }
  return found;
}

// Adds the column of a member.
static ls_status add_column(const member *found, cli_sheet *out) {
  const size_t at = out->count;
  const char *value = found->value.at;
  const ls_dtype dtype = guess_type(found);
  out->columns[at].name = out->names[at] =
      cli_copy_text(found->key, found->key_size);
  if (out->names[at] == NULL) return ls_out_of_memory();
  ++out->count;
  out->columns[at].dtype = dtype;
  if (*value != '[') return ls_ok();
  const char first = value[1 + strspn(value + 1, " \t")];
  if (dtype != LS_DTYPE_NONE)
    out->widths[at] = found->items;
  else if (first == '"' || first == ']')
    out->widths[at] = -1;
  return ls_ok();
}

// Takes a line's columns: those of the first line, and in others those that
// --missing names; whole numbers may be floats in others.
static ls_status take_columns(cli_cursor c, bool is_first, cli_sheet *out) {
  member found = {0};
  bool more = true;
  for (size_t at = 0, next = 0;; ++at) {
    LS_RETURN_IF_ERROR(next_member(&c, at == 0, &found, &more));
    if (!more) return ls_ok();
    const size_t i = is_first ? out->count
                              : find_name(out->names, out->count, next,
                                          found.key, found.key_size);
    if (i == out->count) {
      if (is_first || is_named(out, found.key, found.key_size))
        LS_RETURN_IF_ERROR(add_column(&found, out));
      continue;
    }
    next = i + 1 < out->count ? i + 1 : 0;
    if (out->columns[i].dtype == LS_DTYPE_I64 &&
        guess_type(&found) == LS_DTYPE_F32)
      out->columns[i].dtype = LS_DTYPE_F32;
  }
}

// Makes room for the columns of the first line, of --missing and of the run.
static ls_status make_columns(cli_cursor c, cli_sheet *out) {
  int64_t count = 0;
  LS_RETURN_IF_ERROR(cli_cursor_skip(&c, &count));
  if (out->classes != NULL) count += cli_classes_count(out->classes->columns);
  LS_RETURN_IF_ERROR(cli_sheet_make(out, (size_t)count + out->missing.count));
  out->count = 0;
  return ls_ok();
}

// Adds the columns of the run that the lines lack and --missing has.
static ls_status add_missing(cli_sheet *out) {
  const cli_classes *classes = out->classes;
  const int64_t count = classes != NULL && !classes->may_find
                            ? cli_classes_count(classes->columns)
                            : 0;
  for (int64_t i = 0; i < count; ++i) {
    const char *texts = NULL, *line = cli_class_name(classes->columns, i).data;
    const size_t size = strcspn(line, "\t\n"), at = out->count;
    CLI_OWN_MEMORY(char, name) = cli_copy_text(line, size);
    if (name == NULL) return ls_out_of_memory();
    if (find_name(out->names, at, 0, line, size) < at ||
        cli_words_value(&out->missing, name) == NULL)
      continue;
    if (line[size] == '\t') out->widths[at] = strtoll(line + size, NULL, 10);
    if (out->widths[at] > 0) out->columns[at].dtype = LS_DTYPE_F32;
    if (cli_column_texts(classes->categories, name, &texts) > 0)
      out->columns[at].dtype = LS_DTYPE_STRING;
    out->columns[at].name = out->names[at] = cli_give(&name);
    ++out->count;
  }
  return ls_ok();
}

static ls_status look_at_lines(const cli_files *files, cli_sheet *out) {
  CLI_OWN(ls_dataset, lines) =
      ls_dataset_lines(files->paths, files->count, NULL);
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(cli_begin_rows(lines, &iterator));
  for (int64_t i = 0; i < CLI_LOOK_AT; ++i) {
    cli_cursor c;
    CLI_OWN_MEMORY(char, text) = NULL;
    CLI_OWN(ls_status, status) = ls_iterator_next(iterator, &element);
    if (ls_status_code(status) == LS_OUT_OF_RANGE)
      return i > 0 ? ls_ok()
                   : ls_invalid_argument("'%s' has no row", files->first);
    if (!ls_status_is_ok(status)) return cli_give(&status);
    LS_RETURN_IF_ERROR(copy_line(element, i, &text, &c));
    if (i == 0) LS_RETURN_IF_ERROR(make_columns(c, out));
    LS_RETURN_IF_ERROR(take_columns(c, i == 0, out));
  }
  return ls_ok();
}

ls_status cli_sheet_open_json(const cli_files *files, cli_sheet *out) {
  out->is_json = true;
  out->header = true;
  LS_RETURN_IF_ERROR(
      ls_status_annotate(look_at_lines(files, out), "of '%s'", files->first));
  LS_RETURN_IF_ERROR(add_missing(out));
  out->guessed = cli_json_rows(files, out, out->columns, out->count);
  return ls_status_annotate(ls_dataset_status(out->guessed), "of '%s'",
                            files->first);
}
