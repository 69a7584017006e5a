// SPDX-License-Identifier: Apache-2.0
// CSV files as tables: their delimiter, header and columns, by the first rows.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/data/data.h"

enum { LOOK_BYTES = 1 << 20 };

// ---- The first rows --------------------------------------------------------
// Skips the field at `at`, up to a delimiter or the end of the row; finds out
// if it is a number.
static const char *skip_field(const char *at, char delimiter,
                              bool *out_number) {
  const bool quoted = *at == '"';
  const char *begin = at;
  if (quoted) {
    // Two quotes in a row stand for one.
    for (++at; *at != '\0'; ++at)
      if (*at == '"' && *++at != '"') break;
  }
  while (*at != '\0' && *at != delimiter && *at != '\r' && *at != '\n')
    ++at;
  char *end = NULL;
  (void)strtod(begin, &end);
  while (*end == ' ')
    ++end;
  *out_number = !quoted && end != begin && end == at;
  return at;
}

// Detects a header: the first row has a text in a column where the second has a
// number. A row without a number is a header, too. An empty field may be a
// missing value; only that of an index, the first column, is a name. Sets
// *out_guessed if neither row has a number that tells.
static bool is_header(const char *first, const char *second, char delimiter,
                      bool *out_guessed) {
  bool any = false, a = false, b = false;
  for (bool is_index = true;; is_index = false) {
    const char *begin = first + strspn(first, " ");
    first = skip_field(first, delimiter, &a);
    second = skip_field(second, delimiter, &b);
    if (!a && b && (first > begin || is_index)) return true;
    any |= a;
    if (*first != delimiter) return *out_guessed = !any;
    ++first;
    second += *second == delimiter;
  }
}

// Reads the first bytes of the file, without empty lines before the first row.
static ls_status read_first(const char *path, char *room,
                            const char **out_first) {
  CLI_OWN(FILE, file) = NULL;
  LS_RETURN_IF_ERROR(cli_open_file(path, &file));
  const size_t size = fread(room, 1, LOOK_BYTES, file);
  room[size] = '\0';
  if (strncmp(room, "\x1f\x8b", 2) == 0)
    return ls_invalid_argument("'%s' is packed: unpack it by gunzip", path);
  if (strncmp(room, "PK\003\004", 4) == 0)
    return ls_invalid_argument("'%s' is a zip file, no CSV", path);
  if (memchr(room, '\0', size) != NULL)
    return ls_invalid_argument("'%s' is no text: it has bytes of zero, as "
                               "UTF-16 has; iconv -t UTF-8 converts that",
                               path);
  room += strncmp(room, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  *out_first = room + strspn(room, "\r\n");
  return **out_first != '\0' ? ls_ok()
                             : ls_invalid_argument("'%s' has no row", path);
}

// Says once that a first row of texts may be data as well.
static void tell_header(const char *path) {
  static bool is_told;
  if (!is_told)
    ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "data",
                   "'%s': the first row is taken as names of the columns, as "
                   "it has no number; if it is data, put names before it",
                   path);
  is_told = true;
}

static ls_status look_at_rows(const char *path, cli_sheet *out) {
  CLI_OWN_ARRAY_OR_RETURN(char, room, LOOK_BYTES + 1);
  const char *first = NULL, *delimiters = ",\t;";
  bool number = false;
  LS_RETURN_IF_ERROR(read_first(path, room, &first));
  while (*delimiters != '\0' &&
         *skip_field(first, *delimiters, &number) != *delimiters)
    ++delimiters;
  out->delimiter = *delimiters != '\0' ? *delimiters : ',';
  const char *end = first;
  for (out->count = 1;
       *(end = skip_field(end, out->delimiter, &number)) == out->delimiter;
       ++end)
    ++out->count;
  bool guessed = false;
  const char *second = end + strspn(end, "\r\n");
  out->header = is_header(first, second, out->delimiter, &guessed);
  if (out->header && *second == '\0')
    return ls_invalid_argument("'%s' has no row, but a line of names", path);
  if (guessed) tell_header(path);
  return ls_ok();
}

ls_dataset *cli_sheet_read(const cli_files *files, const cli_sheet *table,
                           const ls_csv_column *columns, size_t count) {
  if (table->is_json) return cli_json_rows(files, table, columns, count);
  return ls_dataset_csv(
      files->paths, files->count,
      &(ls_csv_options){.columns = columns,
                        .num_columns = count,
                        .header = table->header ? LS_FLAG_ON : LS_FLAG_OFF,
                        .delimiter = table->delimiter,
                        .stack = "*"});
}

ls_dataset *cli_sheet_read_some(const cli_files *files, const cli_sheet *table,
                                const size_t *items, size_t count) {
  const size_t num_columns = table->header ? count : table->count;
  CLI_OWN_MEMORY(ls_csv_column, columns) =
      cli_allocate(num_columns * sizeof(*columns));
  if (columns == NULL) return NULL;
  for (size_t i = 0; i < num_columns; ++i) {
    columns[i] = table->columns[table->header ? items[i] : i];
    columns[i].stacked = table->header && !table->is_json && count > 1;
    if (!table->header && !cli_is_among(items, count, i))
      columns[i].dtype = LS_DTYPE_STRING;
  }
  return cli_sheet_read(files, table, columns, num_columns);
}

// Names the columns of a file without a header by their numbers.
static ls_status number_columns(cli_sheet *table) {
  LS_RETURN_IF_ERROR(cli_sheet_make(table, table->count));
  for (size_t i = 0; i < table->count; ++i) {
    char text[24];
    const int size = snprintf(text, sizeof(text), "%zu", i + 1);
    table->columns[i].name = table->names[i] =
        cli_copy_text(text, (size_t)size);
    if (table->names[i] == NULL) return ls_out_of_memory();
  }
  return ls_ok();
}

// Takes the types of rows of all columns.
static ls_status take_types(const ls_dataset *rows, cli_sheet *out) {
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(rows, &spec));
  for (size_t i = 0; i < out->count; ++i) {
    const int64_t leaf = ls_nest_item(spec.structure, i).as.i64;
    out->columns[i].dtype = spec.leaves[leaf].type.dtype;
  }
  return ls_ok();
}

ls_status cli_sheet_open_csv(const cli_files *files, cli_sheet *out) {
  LS_RETURN_IF_ERROR(look_at_rows(files->first, out));
  if (!out->header) LS_RETURN_IF_ERROR(number_columns(out));
  out->guessed =
      cli_sheet_read(files, out, out->columns, out->header ? 0 : out->count);
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(out->guessed, &spec));
  if (out->header)
    LS_RETURN_IF_ERROR(cli_sheet_make(out, ls_nest_count(spec.structure)));
  for (size_t i = 0; out->header && i < out->count; ++i)
    out->columns[i].name = ls_nest_key(spec.structure, i);
  return take_types(out->guessed, out);
}

// ---- Tables ----------------------------------------------------------------
ls_status cli_sheet_make(cli_sheet *table, size_t count) {
  table->count = count;
  table->columns = cli_allocate(count * sizeof(*table->columns));
  table->widths = cli_allocate(count * sizeof(*table->widths));
  table->categories = cli_allocate(count * sizeof(*table->categories));
  table->names = cli_allocate(count * sizeof(*table->names));
  return table->columns != NULL && table->widths != NULL &&
                 table->categories != NULL && table->names != NULL
             ? ls_ok()
             : ls_out_of_memory();
}

void cli_sheet_close(cli_sheet *table) {
  for (size_t i = 0; i < table->count; ++i) {
    if (table->names != NULL) cli_release(table->names[i]);
    if (table->categories != NULL) cli_class_list_release(table->categories[i]);
  }
  cli_words_close(&table->missing);
  cli_release(table->columns);
  cli_release(table->widths);
  cli_release(table->categories);
  cli_release(table->names);
  ls_dataset_release(table->guessed);
  *table = (cli_sheet){0};
}

int64_t cli_sheet_width(const cli_sheet *table, size_t column) {
  if (table->categories[column] != NULL)
    return (int64_t)cli_class_list_count(table->categories[column]);
  return table->widths[column] > 0 ? table->widths[column] : 1;
}

ls_status cli_sheet_check(const cli_files *files, const cli_sheet *table,
                          size_t column, const char *advice) {
  if (table->columns[column].dtype != LS_DTYPE_NONE) return ls_ok();
  return ls_invalid_argument("column '%s' of '%s' has neither numbers nor a "
                             "text in the first line: %s",
                             table->columns[column].name, files->first, advice);
}

// ---- Missing fields --------------------------------------------------------
ls_status cli_sheet_open_missing(cli_sheet *table) {
  const cli_classes *classes = table->classes;
  return classes == NULL || classes->missing == NULL ||
                 classes->missing[0] == '\0' ||
                 cli_words_open("data", "missing", classes->missing,
                                "COLUMN=VALUE", &table->missing)
             ? ls_ok()
             : ls_invalid_argument("--missing is '%s'", classes->missing);
}

ls_status cli_sheet_missing(const cli_files *files, cli_sheet *table) {
  size_t at = 0;
  if (table->missing.count == 0) return ls_ok();
  for (size_t i = 0; table->classes->may_find && i < table->missing.count; ++i)
    if (strcmp(table->missing.maps[i].from, "*") != 0)
      LS_RETURN_IF_ERROR(ls_status_annotate(
          cli_sheet_find(files, table, table->missing.maps[i].from, &at),
          "--missing"));
  for (size_t i = 0; i < table->count; ++i) {
    ls_csv_column *column = &table->columns[i];
    column->missing = cli_words_value(&table->missing, column->name);
    if (column->missing == NULL) continue;
    char *end = NULL;
    (void)strtod(column->missing, &end);
    if (!table->is_json)
      column->dtype = LS_DTYPE_NONE;
    else if (column->dtype == LS_DTYPE_NONE && table->widths[i] == 0)
      column->dtype = end == column->missing || *end != '\0' ? LS_DTYPE_STRING
                                                             : LS_DTYPE_F32;
  }
  if (table->is_json) return ls_ok();
  CLI_OWN(ls_dataset, rows) =
      cli_sheet_read(files, table, table->columns, table->count);
  return take_types(rows, table);
}

// ---- One-hot columns -------------------------------------------------------
// Adds the texts of a column to those found.
static ls_status add_texts(cli_classes *classes, const char *column,
                           const char *texts) {
  const char *before =
      classes->found_categories != NULL ? classes->found_categories : "";
  const size_t size = strlen(before) + strlen(column) + strlen(texts) + 4;
  CLI_NEW_ARRAY_OR_RETURN(char, all, size);
  snprintf(all, size, "%s%s\n%s\n\n", before, column, texts);
  cli_release(classes->found_categories);
  classes->categories = classes->found_categories = all;
  return ls_ok();
}

// Refuses words for a missing value among the texts of a column, unless it has
// a value for them. "None" is a category as good as others.
static ls_status check_present(const cli_files *files,
                               const ls_csv_column *column, const char *texts) {
  static const char *const words[] = {"na", "n/a", "nan", "null"};
  for (int64_t i = 0; i < cli_classes_count(texts); ++i) {
    const ls_bytes text = cli_class_name(texts, i);
    for (size_t k = 0;
         column->missing == NULL && k < sizeof(words) / sizeof(words[0]); ++k)
      if (text.size == strlen(words[k]) &&
          strncasecmp(text.data, words[k], text.size) == 0)
        return ls_invalid_argument(
            "column '%s' of '%s' has '%.*s', a missing value: --missing "
            "%s=TEXT takes a text for it, also this one",
            column->name, files->first, (int)text.size, (const char *)text.data,
            column->name);
  }
  return ls_ok();
}

static ls_status find_categories(const cli_files *files,
                                 const cli_pair_request *request,
                                 cli_sheet *table, size_t at) {
  cli_classes *classes = request->classes;
  const char *name = table->columns[at].name, *known = NULL;
  CLI_OWN_MEMORY(char, texts) = NULL;
  const size_t size = cli_column_texts(classes->categories, name, &known);
  if (size > 0) {
    texts = cli_copy_text(known, size);
    return texts != NULL ? cli_class_list_make(texts, &table->categories[at])
                         : ls_out_of_memory();
  }
  if (!classes->may_find)
    return ls_invalid_argument(
        "config.json: \"categories\" has no texts of column '%s'", name);
  CLI_OWN(ls_dataset, rows) = cli_sheet_read_some(files, table, &at, 1);
  LS_RETURN_IF_ERROR(cli_classes_find(rows, table->header ? 0 : at, false, name,
                                      files->first, NULL, &texts));
  if (!table->is_json)
    LS_RETURN_IF_ERROR(check_present(files, &table->columns[at], texts));
  LS_RETURN_IF_ERROR(add_texts(classes, name, texts));
  return cli_class_list_make(texts, &table->categories[at]);
}

// Returns the size of the first name in a list: up to a comma, unless a column
// has one in its name.
static size_t name_size(const cli_sheet *table, const char *names) {
  for (size_t end = 0;; ++end) {
    end += strcspn(names + end, ",");
    for (size_t i = 0; i < table->count; ++i)
      if (strlen(table->columns[i].name) == end &&
          memcmp(table->columns[i].name, names, end) == 0)
        return end;
    if (names[end] == '\0') return strcspn(names, ",");
  }
}

ls_status cli_sheet_one_hot(const cli_files *files,
                            const cli_pair_request *request, cli_sheet *table) {
  const char *names = request->classes != NULL ? request->classes->one_hot : "";
  for (const char *at = names; at != NULL && *at != '\0';) {
    const size_t size = name_size(table, at);
    CLI_OWN_MEMORY(char, name) = cli_copy_text(at, size);
    if (name == NULL) return ls_out_of_memory();
    size_t column = 0;
    LS_RETURN_IF_ERROR(ls_status_annotate(
        cli_sheet_find(files, table, name, &column), "--one-hot"));
    if (table->categories[column] != NULL)
      return ls_invalid_argument("--one-hot names '%s' twice", name);
    LS_RETURN_IF_ERROR(
        cli_sheet_check(files, table, column, "--one-hot takes texts"));
    if (table->is_json && table->columns[column].dtype != LS_DTYPE_STRING)
      return ls_invalid_argument(
          "--one-hot: '%s' has numbers in '%s', not texts", name, files->first);
    table->columns[column].dtype = LS_DTYPE_STRING;
    LS_RETURN_IF_ERROR(find_categories(files, request, table, column));
    at += size + (at[size] == ',');
  }
  return ls_ok();
}
