// SPDX-License-Identifier: Apache-2.0
// CSV files as examples and labels: one column has the label, the others
// numbers.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/data/data.h"

// Columns of a file, guessed from its first rows.
typedef struct csv_table {
  char delimiter;
  bool header;
  size_t count;            // Columns,
  ls_csv_column *columns;  // and their names, in their order in the file.
  char (*names)[24];       // Names for files without a header.
  ls_dataset *guessed;     // A data set with types guessed from the first rows.
} csv_table;

enum { LOOK_AT = 100, LOOK_BYTES = 1 << 20 };

static void close_table(csv_table *table) {
  cli_release(table->columns);
  cli_release(table->names);
  ls_dataset_release(table->guessed);
}
CLI_OWNED_STRUCT(csv_table, close_table)

// ---- The first rows --------------------------------------------------------
// Reads the field at `at`, up to a delimiter; returns true if it is a number.
static const char *skip_field(const char *at, char delimiter,
                              bool *out_number) {
  const bool quoted = *at == '"';
  const char *begin = at;
  if (quoted) {
    for (++at; *at != '\0' && *at != '"'; ++at) {
    }
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

// Detects a header: the first row has no number in a column where the second
// has one. A row that has only texts is a header, too.
static bool is_header(const char *first, const char *second, char delimiter) {
  bool any = false, a = false, b = false;
  while (true) {
    first = skip_field(first, delimiter, &a);
    second = skip_field(second, delimiter, &b);
    if (!a && b) return true;
    any |= a;
    if (*first != delimiter) return !any;
    ++first;
    second += *second == delimiter;
  }
}

// Reads up to two lines from the first bytes of the file.
static ls_status read_lines(const char *path, char *room,
                            const char *lines[2]) {
  CLI_OWN(FILE, file) = NULL;
  LS_RETURN_IF_ERROR(cli_open_file(path, &file));
  room[fread(room, 1, LOOK_BYTES, file)] = '\0';
  lines[0] = room + (strncmp(room, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
  const char *end = strchr(lines[0], '\n');
  if (end != NULL) lines[1] = end + 1;
  return ls_ok();
}

static ls_status look_at_rows(const char *path, csv_table *out) {
  const char *lines[2] = {"", ""};
  CLI_OWN_ARRAY_OR_RETURN(char, room, LOOK_BYTES + 1);
  LS_RETURN_IF_ERROR(read_lines(path, room, lines));
  const char *first = lines[0], *delimiters = ",\t;";
  const size_t length = strcspn(first, "\n");
  while (*delimiters != '\0' && memchr(first, *delimiters, length) == NULL)
    ++delimiters;
  out->delimiter = *delimiters != '\0' ? *delimiters : ',';
  out->header = is_header(first, lines[1], out->delimiter);
  bool number = false;
  for (out->count = 1;
       *(first = skip_field(first, out->delimiter, &number)) == out->delimiter;
       ++first)
    ++out->count;
  return length > 0 ? ls_ok() : ls_invalid_argument("'%s' has no row", path);
}

static ls_dataset *read_as(const cli_files *files, const csv_table *table,
                           const ls_csv_column *columns, size_t count) {
  return ls_dataset_csv(
      files->paths, files->count,
      &(ls_csv_options){.columns = columns,
                        .num_columns = count,
                        .header = table->header ? LS_FLAG_ON : LS_FLAG_OFF,
                        .delimiter = table->delimiter,
                        .stack = "*"});
}

static ls_status open_table(const cli_files *files, csv_table *out) {
  LS_RETURN_IF_ERROR(look_at_rows(files->first, out));
  if (!out->header) {
    out->columns = cli_allocate(out->count * sizeof(*out->columns));
    out->names = cli_allocate(out->count * sizeof(*out->names));
    if (out->columns == NULL || out->names == NULL) return ls_out_of_memory();
    for (size_t i = 0; i < out->count; ++i) {
      snprintf(out->names[i], sizeof(out->names[i]), "%zu", i + 1);
      out->columns[i].name = out->names[i];
    }
  }
  out->guessed =
      read_as(files, out, out->columns, out->header ? 0 : out->count);
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(out->guessed, &spec));
  out->count = ls_nest_count(spec.structure);
  if (out->header)
    out->columns = cli_allocate(out->count * sizeof(*out->columns));
  if (out->columns == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < out->count; ++i) {
    const int64_t leaf = ls_nest_item(spec.structure, i).as.i64;
    if (out->header) out->columns[i].name = ls_nest_key(spec.structure, i);
    out->columns[i].dtype = spec.leaves[leaf].type.dtype;
  }
  return ls_ok();
}

// ---- Choosing columns ------------------------------------------------------
static ls_status find_column(const cli_files *files, const csv_table *table,
                             const char *name, size_t *out) {
  char names[400] = "";
  for (*out = 0; *out < table->count; ++*out) {
    if (strcmp(table->columns[*out].name, name) == 0) return ls_ok();
    const size_t used = strlen(names);
    snprintf(names + used, sizeof(names) - used, "%s%s", *out == 0 ? "" : ", ",
             table->columns[*out].name);
  }
  return ls_invalid_argument("'%s' has no column '%s'; it has %s", files->first,
                             name, names);
}

static const size_t no_label = SIZE_MAX;  // There is no column of labels.

// Guesses the column of labels; without need for labels, all columns may be an
// example.
static size_t guess_label(const csv_table *table,
                          const cli_pair_request *request) {
  static const char *const names[] = {"label", "class"};
  for (size_t k = 0; k < 2; ++k) {
    for (size_t i = 0; i < table->count; ++i) {
      if (strcasecmp(table->columns[i].name, names[k]) == 0) return i;
    }
  }
  const bool fits = request->type != NULL &&
                    (int64_t)table->count ==
                        ls_shape_num_elements(request->type->example_shape);
  return request->no_labels && fits ? no_label : table->count - 1;
}

// Finds the column of labels that --features names; it may be missing if labels
// are not needed.
static ls_status find_label(const cli_files *files, csv_table *table,
                            const cli_pair_request *request, size_t *out) {
  const cli_features *features = request->features;
  const cli_feature *label = &features->items[features->count - 1];
  CLI_OWN(ls_status, status) = find_column(files, table, label->name, out);
  if (!ls_status_is_ok(status) && request->no_labels) {
    *out = no_label;
    return ls_ok();
  }
  if (ls_status_is_ok(status) && label->typed)
    table->columns[*out].dtype = label->dtype;
  return cli_give(&status);
}

// Lists the columns of an example in `items`: those of the flag, or all but the
// label.
static ls_status choose_columns(const cli_files *files,
                                const cli_pair_request *request,
                                csv_table *table, size_t *items,
                                size_t *out_count, size_t *out_label,
                                const cli_feature **out_type) {
  const cli_features *features = request->features;
  const size_t named = features->count;
  *out_count = 0;
  *out_type = NULL;
  if (named == 0)
    *out_label = guess_label(table, request);
  else
    LS_RETURN_IF_ERROR(find_label(files, table, request, out_label));
  const bool rest = named < 2 || strcmp(features->items[0].name, "*") == 0;
  if (rest && named > 2)
    return ls_invalid_argument("--features: only the label may follow *, which "
                               "means all other columns");
  if (named > 1 && features->items[0].typed) *out_type = &features->items[0];
  for (size_t i = 0; rest && i < table->count; ++i) {
    if (i != *out_label) items[(*out_count)++] = i;
  }
  for (size_t i = 0; !rest && i + 1 < named; ++i)
    LS_RETURN_IF_ERROR(find_column(files, table, features->items[i].name,
                                   &items[(*out_count)++]));
  if (*out_count > 0) return ls_ok();
  return ls_invalid_argument(
      "'%s' has one column, '%s'; examples need others besides the label",
      files->first, table->columns[*out_label].name);
}

bool cli_are_pixels(int64_t least, int64_t most) {
  return least >= 0 && most <= 255 && most >= 128;
}

// Finds out if the first rows of integer columns are pixels.
static ls_status look_for_pixels(const csv_table *table, const size_t *items,
                                 size_t count, bool *out) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  int64_t least = INT64_MAX, most = INT64_MIN;
  LS_RETURN_IF_ERROR(ls_iterator_create(
      table->guessed, &(ls_iterator_options){.prefetch = LS_SOME(0)},
      &iterator));
  for (int row = 0; row < LOOK_AT; ++row) {
    CLI_OWN(ls_status, status) = ls_iterator_next(iterator, &element);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) break;
    if (!ls_status_is_ok(status)) return cli_give(&status);
    for (size_t i = 0; i < count; ++i) {
      const int64_t number =
          ls_array_i64(ls_nest_as_array(ls_nest_item(element, items[i])), 0);
      if (number < least) least = number;
      if (number > most) most = number;
    }
  }
  *out = cli_are_pixels(least, most);
  return ls_ok();
}

// Returns the part of a data set's first rows whose text in `item` is a number.
static ls_status find_numbers(const csv_table *table, size_t item,
                              double *out_part) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  int numbers = 0, rows = 0;
  *out_part = 0;
  LS_RETURN_IF_ERROR(ls_iterator_create(
      table->guessed, &(ls_iterator_options){.prefetch = LS_SOME(0)},
      &iterator));
  for (; rows < LOOK_AT; ++rows) {
    CLI_OWN(ls_status, status) = ls_iterator_next(iterator, &element);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) break;
    if (!ls_status_is_ok(status)) return cli_give(&status);
    const ls_bytes *text =
        ls_array_data(ls_nest_as_array(ls_nest_item(element, item)));
    char copy[64], *end = NULL;
    snprintf(copy, sizeof(copy), "%.*s",
             (int)(text->size < 60 ? text->size : 60), text->data);
    (void)strtod(copy, &end);
    numbers += end != copy && *end == '\0';
  }
  *out_part = rows > 0 ? (double)numbers / rows : 0;
  return ls_ok();
}

// Reads a column as numbers up to the first text, whose failure names it.
static ls_status find_text(const cli_files *files, const csv_table *table,
                           size_t item) {
  CLI_OWN_ARRAY_OR_RETURN(ls_csv_column, columns, table->count);
  memcpy(columns, table->columns, table->count * sizeof(*columns));
  columns[item].dtype = LS_DTYPE_F64;
  CLI_OWN(ls_dataset, rows) =
      table->header ? read_as(files, table, &columns[item], 1)
                    : read_as(files, table, columns, table->count);
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(
      rows, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  for (int row = 0; row < LOOK_AT; ++row)
    LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &element));
  return ls_ok();
}

// Refuses a column of texts. If nearly all are numbers, names the others'
// first.
static ls_status refuse_texts(const cli_files *files, const csv_table *table,
                              size_t item) {
  double part = 0;
  LS_RETURN_IF_ERROR(find_numbers(table, item, &part));
  if (part >= 0.9)
    LS_RETURN_IF_ERROR(ls_status_annotate(
        find_text(files, table, item),
        "nearly all of the column are numbers: correct that field, or leave "
        "the column out with --features COLUMN,...,LABEL"));
  return ls_invalid_argument(
      "column '%s' of '%s' has texts, and a model learns from numbers: "
      "leave it out with --features COLUMN,...,LABEL",
      table->columns[item].name, files->first);
}

// Chooses the type of examples: the flag's, u8 for pixels, else f32.
static ls_status choose_dtype(const cli_files *files, const csv_table *table,
                              const size_t *items, size_t count,
                              const cli_feature *type, ls_dtype *out) {
  *out = type != NULL ? type->dtype : LS_DTYPE_F32;
  if (type != NULL && type->image)
    return ls_invalid_argument("--features: a column of a CSV file holds no "
                               "image");
  bool whole = true;
  for (size_t i = 0; i < count; ++i) {
    const ls_csv_column *column = &table->columns[items[i]];
    if (column->dtype == LS_DTYPE_STRING)
      return refuse_texts(files, table, items[i]);
    whole &= column->dtype == LS_DTYPE_I64;
  }
  if (type != NULL || !whole) return ls_ok();
  bool pixels = false;
  LS_RETURN_IF_ERROR(look_for_pixels(table, items, count, &pixels));
  if (pixels) *out = LS_DTYPE_U8;
  return ls_ok();
}

// ---- Labels ----------------------------------------------------------------
// Returns the classes of a text column: the known ones, or all in the column.
static ls_status find_classes(const cli_files *files, const csv_table *table,
                              size_t label, cli_classes *classes,
                              const char *command) {
  if (classes->names != NULL && classes->names[0] != '\0') return ls_ok();
  CLI_OWN(ls_dataset, rows) =
      table->header ? read_as(files, table, &table->columns[label], 1)
                    : read_as(files, table, table->columns, table->count);
  const ls_status status = cli_classes_find(
      rows, table->header ? 0 : label, table->columns[label].name, files->first,
      command, &classes->found);
  classes->names = classes->found;
  return status;
}

// Chooses the type of labels: numbers, or texts of classes.
static ls_status choose_labels(const cli_files *files, const csv_table *table,
                               size_t label, cli_classes *classes,
                               const char *command, ls_dtype *out_dtype,
                               cli_class_list **out_list) {
  *out_dtype = table->columns[label].dtype;
  if (ls_dtype_is_integer(*out_dtype)) return ls_ok();
  const char *column = table->columns[label].name;
  if (*out_dtype != LS_DTYPE_STRING)
    return ls_invalid_argument(
        "column '%s' of '%s' is read as labels and has %s: labels are whole "
        "numbers from 0 on, or texts, because the command's models classify; "
        "give another column by --features LABEL",
        column, files->first, ls_dtype_name(*out_dtype));
  if (classes == NULL)
    return ls_invalid_argument(
        "column '%s' of '%s' has texts, which become classes in a training",
        column, files->first);
  if (!classes->may_find && cli_classes_count(classes->names) == 0)
    return ls_invalid_argument("column '%s' of '%s' is read as labels and has "
                               "texts; the run was trained on numbers",
                               column, files->first);
  *out_dtype = LS_DTYPE_I64;
  LS_RETURN_IF_ERROR(find_classes(files, table, label, classes, command));
  return cli_class_list_make(classes->names, out_list);
}

// ---- Pairs -----------------------------------------------------------------
// Stacks the columns of an example.
static ls_status stack_columns(const cli_files *files, csv_table *table,
                               const size_t *items, size_t count,
                               ls_dtype dtype) {
  for (size_t i = 0; i < count; ++i) {
    table->columns[items[i]].dtype = dtype;
    table->columns[items[i]].stacked = true;
    if (table->header || i == 0 || items[i] > items[i - 1]) continue;
    return ls_invalid_argument(
        "--features: '%s' has no names; columns are selected by their order",
        files->first);
  }
  return ls_ok();
}

// Opens rows with an example and a label, and stores the items of both.
static ls_status read_pairs(const cli_files *files, const csv_table *table,
                            const size_t *items, size_t count, size_t label,
                            ls_dataset **out, size_t *out_example,
                            size_t *out_label) {
  *out_example = 0;
  *out_label = 1;
  if (!table->header) {
    *out = read_as(files, table, table->columns, table->count);
    // The options of the stacked columns are in the first.
    *out_example = items[0];
    *out_label = label;
    for (size_t i = 1; i < count; ++i)
      *out_label -= items[i] < label;
    return ls_ok();
  }
  // Reads only the chosen columns, since others may be malformed.
  CLI_OWN_ARRAY_OR_RETURN(ls_csv_column, chosen, count + 1);
  for (size_t i = 0; i < count; ++i)
    chosen[i] = table->columns[items[i]];
  if (label != no_label) chosen[count] = table->columns[label];
  *out = read_as(files, table, chosen, count + (label != no_label));
  return ls_ok();
}

static ls_status check_count(const cli_files *files, const cli_feature *type,
                             ls_dtype dtype, size_t count) {
  if (type == NULL || !type->shaped ||
      ls_shape_num_elements(type->shape) == (int64_t)count)
    return ls_ok();
  return ls_invalid_argument("--features: %s are %lld numbers, '%s' has %zu "
                             "columns for them",
                             LS_SHAPE_TEXT(dtype, type->shape),
                             (long long)ls_shape_num_elements(type->shape),
                             files->first, count);
}

// Checks that the model takes as many numbers as there are columns; a failure
// lists them.
static ls_status check_type(const cli_files *files, const csv_table *table,
                            const size_t *items, size_t count, size_t label,
                            const ls_model_type *type, ls_dataset *pairs) {
  if (type == NULL ||
      ls_shape_num_elements(type->example_shape) == (int64_t)count)
    return ls_ok();
  char names[300] = "";
  for (size_t i = 0; i < count && i < 12; ++i) {
    const size_t used = strlen(names);
    snprintf(names + used, sizeof(names) - used, "%s%.40s", i == 0 ? "" : ", ",
             table->columns[items[i]].name);
  }
  return ls_status_annotate(
      ls_train_check_data(type, pairs),
      "of '%s', where the features are columns %s%s and the label is %s; "
      "--features COLUMN,...,LABEL gives others",
      files->first, names, count > 12 ? ", ..." : "",
      label == no_label ? "none" : table->columns[label].name);
}

static ls_status pair_columns(const cli_files *files,
                              const cli_pair_request *request, csv_table *table,
                              ls_dataset **out) {
  size_t count = 0, label = 0;
  const cli_feature *type = NULL;
  ls_dtype dtype = LS_DTYPE_NONE, labels = LS_DTYPE_I64;
  CLI_OWN_ARRAY_OR_RETURN(size_t, items, table->count + CLI_MOST_FEATURES);
  LS_RETURN_IF_ERROR(
      choose_columns(files, request, table, items, &count, &label, &type));
  const size_t found = label;
  if (request->no_labels) label = no_label;
  LS_RETURN_IF_ERROR(choose_dtype(files, table, items, count, type, &dtype));
  LS_RETURN_IF_ERROR(check_count(files, type, dtype, count));
  CLI_OWN(cli_class_list, list) = NULL;
  if (label != no_label)
    LS_RETURN_IF_ERROR(choose_labels(files, table, label, request->classes,
                                     request->command, &labels, &list));
  cli_pairing pairing = {.example = {dtype, type != NULL && type->shaped
                                                ? type->shape
                                                : LS_SHAPE((int64_t)count)},
                         .no_label = label == no_label,
                         .labels = {labels, LS_SCALAR}};
  LS_RETURN_IF_ERROR(stack_columns(files, table, items, count, dtype));
  ls_dataset *rows = NULL;
  LS_RETURN_IF_ERROR(read_pairs(files, table, items, count, label, &rows,
                                &pairing.first, &pairing.label));
  pairing.classes = cli_give(&list);
  *out = cli_pair(rows, &pairing);
  LS_RETURN_IF_ERROR(ls_dataset_status(*out));
  // Examples of a given shape may be images, which are resized.
  return type != NULL && type->shaped ? ls_ok()
                                      : check_type(files, table, items, count,
                                                   found, request->type, *out);
}

ls_status cli_csv_pairs(const cli_files *files, const cli_pair_request *request,
                        ls_dataset **out) {
  CLI_OWN(csv_table, table) = {0};
  *out = NULL;
  LS_RETURN_IF_ERROR(open_table(files, &table));
  LS_RETURN_IF_ERROR(pair_columns(files, request, &table, out));
  const ls_model_type *type = request->type;
  const int64_t count =
      request->classes != NULL ? cli_classes_count(request->classes->names) : 0;
  if (type == NULL || count <= type->num_classes) return ls_ok();
  return ls_invalid_argument(
      "model '%s' has %lld classes, the labels of '%s' are %lld texts",
      type->name, (long long)type->num_classes, files->first, (long long)count);
}

ls_status cli_csv_rows(const cli_files *files, ls_dataset **out) {
  CLI_OWN(csv_table, table) = {0};
  const ls_status status = open_table(files, &table);
  *out = ls_dataset_retain(table.guessed);
  return status;
}
