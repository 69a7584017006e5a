// SPDX-License-Identifier: Apache-2.0
// Columns of examples and of labels: chosen by --features, by the training or
// by their names; and the type of examples of numbers.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/data/data.h"

// ---- Choosing columns ------------------------------------------------------
ls_status cli_sheet_find(const cli_files *files, const cli_sheet *table,
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

int64_t cli_sheet_numbers(const cli_sheet *table, const size_t *items,
                          size_t count) {
  int64_t numbers = 0;
  for (size_t i = 0; i < count; ++i)
    numbers += cli_sheet_width(table, items != NULL ? items[i] : i);
  return numbers;
}

bool cli_is_among(const size_t *items, size_t count, size_t column) {
  for (size_t i = 0; i < count; ++i)
    if (items[i] == column) return true;
  return false;
}

static const size_t no_label = SIZE_MAX;  // There is no column of labels.

// Guesses the column of labels, none of the training's examples; without need
// for labels, all columns may be an example.
static ls_status guess_label(const cli_files *files, const cli_sheet *table,
                             const cli_pair_request *request,
                             cli_choice *choice) {
  static const char *const names[] = {"label", "class"};
  const size_t known = choice->count;
  size_t label = no_label, named = 2, left = 0;
  for (size_t i = 0; i < table->count; ++i) {
    if (cli_is_among(choice->items, known, i)) continue;
    size_t k = 0;
    while (k < 2 && strcasecmp(table->columns[i].name, names[k]) != 0)
      ++k;
    if (k > named || (k == named && k < 2)) continue;
    named = k;
    label = i;
    ++left;
  }
  const bool fits = request->type != NULL &&
                    cli_sheet_numbers(table, NULL, table->count) ==
                        ls_shape_num_elements(request->type->example_shape);
  if (request->no_labels && (known > 0 || (fits && named == 2))) return ls_ok();
  if (known > 0 && (left == 0 || (left > 1 && named == 2)))
    return ls_invalid_argument(
        "'%s' has %s column besides the training's examples: name the label "
        "by --features LABEL",
        files->first, left == 0 ? "no" : "more than one");
  choice->labels[choice->num_labels++] = label;
  return ls_ok();
}

// Finds the columns of labels that --features names; they may be missing if
// labels are not needed.
static ls_status find_labels(const cli_files *files, cli_sheet *table,
                             const cli_pair_request *request,
                             cli_choice *choice) {
  const cli_features *features = request->features;
  for (size_t i = features->count - features->num_labels; i < features->count;
       ++i) {
    const cli_feature *label = &features->items[i];
    size_t column = 0;
    CLI_OWN(ls_status, status) =
        cli_sheet_find(files, table, label->name, &column);
    if (!ls_status_is_ok(status) && request->no_labels) continue;
    if (!ls_status_is_ok(status)) return cli_give(&status);
    if (label->typed) table->columns[column].dtype = label->dtype;
    choice->labels[choice->num_labels++] = column;
  }
  return ls_ok();
}

// Chooses the columns of the training's examples by their names, in its order;
// none if it had no names, or the file has none.
static ls_status choose_known(const cli_files *files, const cli_sheet *table,
                              const cli_classes *classes, cli_choice *choice) {
  const int64_t count = classes != NULL && table->header
                            ? cli_classes_count(classes->columns)
                            : 0;
  for (int64_t i = 0; i < count; ++i) {
    const ls_bytes bytes = cli_class_name(classes->columns, i);
    CLI_OWN_MEMORY(char, name) = cli_copy_text(bytes.data, bytes.size);
    size_t column = 0;
    if (name == NULL) return ls_out_of_memory();
    char *tab = strchr(name, '\t');
    const int64_t width = tab != NULL ? strtoll(tab + 1, NULL, 10) : 1;
    if (tab != NULL) *tab = '\0';
    LS_RETURN_IF_ERROR(
        ls_status_annotate(cli_sheet_find(files, table, name, &column),
                           "the training's examples have it"));
    const ls_dtype dtype = table->columns[column].dtype;
    const int64_t found = cli_sheet_width(table, column);
    if ((ls_dtype_is_integer(dtype) || ls_dtype_is_float(dtype)) &&
        found != width)
      return ls_invalid_argument(
          "column '%s' of '%s' has %lld number%s a row; in the training's "
          "examples it has %lld",
          name, files->first, (long long)found, found == 1 ? "" : "s",
          (long long)width);
    if (cli_is_among(choice->items, choice->count, column)) continue;
    choice->items[choice->count++] = column;
  }
  return ls_ok();
}

// Keeps the columns of the training's examples, names that are all others, and
// the widths of arrays.
static ls_status keep_columns(const cli_sheet *table, const cli_choice *choice,
                              cli_classes *classes) {
  enum { MOST = 1 << 15 };
  size_t size = 1;
  if (classes == NULL || !classes->may_find || !table->header ||
      cli_classes_count(classes->columns) > 0)
    return ls_ok();
  for (size_t i = 0; i < choice->count; ++i) {
    const char *name = table->columns[choice->items[i]].name;
    for (size_t k = 0; k < i; ++k)
      if (strcmp(name, table->columns[choice->items[k]].name) == 0)
        return ls_ok();
    const bool is_array = table->widths[choice->items[i]] > 0;
    size += strlen(name) + 1 + (is_array ? sizeof("\t9223372036854775807") : 0);
    if (name[0] == '\0' || strpbrk(name, "\t\n") != NULL ||
        !cli_is_utf8(name, strlen(name)) || size > MOST)
      return ls_ok();
  }
  char *names = cli_allocate(size), *at = names;
  if (names == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < choice->count; ++i) {
    const size_t item = choice->items[i];
    at += sprintf(at, "%s%s", i > 0 ? "\n" : "", table->columns[item].name);
    if (table->widths[item] > 0)
      at += sprintf(at, "\t%lld", (long long)table->widths[item]);
  }
  cli_release(classes->found_columns);
  classes->columns = classes->found_columns = names;
  return ls_ok();
}

// Chooses the columns: those of the flag; examples are all but the labels if it
// names none.
static ls_status choose_columns(const cli_files *files,
                                const cli_pair_request *request,
                                cli_sheet *table, cli_choice *choice) {
  const cli_features *features = request->features;
  const size_t named =
      features->count > 0 ? features->count - features->num_labels : 0;
  const bool rest = named < 1 || strcmp(features->items[0].name, "*") == 0;
  if (rest && named > 1)
    return ls_invalid_argument("--features: only the label may follow *, which "
                               "means all other columns");
  if (rest)
    LS_RETURN_IF_ERROR(choose_known(files, table, request->classes, choice));
  if (features->count == 0) {
    LS_RETURN_IF_ERROR(guess_label(files, table, request, choice));
  } else {
    LS_RETURN_IF_ERROR(find_labels(files, table, request, choice));
  }
  if (named > 0 && features->items[0].typed) choice->type = &features->items[0];
  const bool is_known = choice->count > 0;
  for (size_t i = 0; rest && !is_known && i < table->count; ++i) {
    if (!cli_is_among(choice->labels, choice->num_labels, i))
      choice->items[choice->count++] = i;
  }
  for (size_t i = 0; !rest && i < named; ++i)
    LS_RETURN_IF_ERROR(cli_sheet_find(files, table, features->items[i].name,
                                      &choice->items[choice->count++]));
  if (choice->count > 0) return keep_columns(table, choice, request->classes);
  return ls_invalid_argument(
      "'%s' has one column, '%s'; examples need others besides the label",
      files->first, table->columns[choice->labels[0]].name);
}

// Checks that no label is also an example's column or another label: columns of
// an example are stacked, so that a label would be read from among them.
static ls_status check_labels(const cli_sheet *table,
                              const cli_choice *choice) {
  for (size_t k = 0; k < choice->num_labels; ++k) {
    const size_t label = choice->labels[k];
    if (cli_is_among(choice->items, choice->count, label))
      return ls_invalid_argument("--features: column '%s' is both a part of "
                                 "the examples and a label",
                                 table->columns[label].name);
    if (cli_is_among(choice->labels, k, label))
      return ls_invalid_argument("--features: column '%s' is a label twice",
                                 table->columns[label].name);
  }
  return ls_ok();
}

ls_status cli_choose_columns(const cli_files *files,
                             const cli_pair_request *request, cli_sheet *table,
                             cli_choice *out) {
  LS_RETURN_IF_ERROR(choose_columns(files, request, table, out));
  if (!request->no_labels) LS_RETURN_IF_ERROR(check_labels(table, out));
  // Checks that columns that are one-hot are those of the examples.
  for (size_t i = 0; i < table->count; ++i)
    if (table->categories[i] != NULL &&
        !cli_is_among(out->items, out->count, i))
      return ls_invalid_argument("--one-hot: '%s' is no column of the examples",
                                 table->columns[i].name);
  return ls_ok();
}

enum { LEAST_PIXELS = 64 };

// ---- Types of examples ------------------------------------------------------
bool cli_are_pixels(int64_t least, int64_t most) {
  return least >= 0 && most <= 255 && most >= 128;
}

bool cli_are_bytes(cli_classes *classes, bool found) {
  if (classes == NULL) return found;
  if (classes->bytes != NULL && classes->bytes[0] != '\0')
    return strcmp(classes->bytes, "yes") == 0;
  if (!classes->may_find) return found;
  classes->bytes = found && !classes->normalizes ? "yes" : "no";
  return found && !classes->normalizes;
}

// Finds out if the first rows of integer columns are pixels.
static ls_status look_for_pixels(const cli_files *files, const cli_sheet *table,
                                 const size_t *items, size_t count, bool *out) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  int64_t least = INT64_MAX, most = INT64_MIN;
  CLI_OWN(ls_dataset, rows) = cli_sheet_read_some(files, table, items, count);
  LS_RETURN_IF_ERROR(cli_begin_rows(rows, &iterator));
  for (int row = 0; row < CLI_LOOK_AT; ++row) {
    CLI_NEXT_OR(break, iterator, &element);
    for (size_t i = 0; i < ls_nest_count(element); ++i) {
      const ls_array *item = ls_nest_as_array(ls_nest_item(element, i));
      const bool is_other = ls_array_dtype(item) == LS_DTYPE_STRING;
      for (int64_t k = 0; !is_other && k < ls_array_num_elements(item); ++k) {
        const int64_t number = ls_array_i64(item, k);
        if (number < least) least = number;
        if (number > most) most = number;
      }
    }
  }
  *out = cli_are_pixels(least, most);
  return ls_ok();
}

// Returns the part of a data set's first rows whose text in `item` is a number.
static ls_status find_numbers(const cli_files *files, const cli_sheet *table,
                              size_t item, double *out_part) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  int numbers = 0, rows = 0;
  *out_part = 0;
  CLI_OWN(ls_dataset, column) = cli_sheet_read_some(files, table, &item, 1);
  LS_RETURN_IF_ERROR(cli_begin_rows(column, &iterator));
  for (; rows < CLI_LOOK_AT; ++rows) {
    CLI_NEXT_OR(break, iterator, &element);
    const ls_bytes *text = ls_array_data(
        ls_nest_as_array(ls_nest_item(element, table->header ? 0 : item)));
    char copy[64], *end = NULL;
    snprintf(copy, sizeof(copy), "%.*s",
             (int)(text->size < 60 ? text->size : 60), text->data);
    (void)strtod(copy, &end);
    numbers += end != copy && *end == '\0';
  }
  *out_part = rows > 0 ? (double)numbers / rows : 0;
  return ls_ok();
}

ls_status cli_read_first_rows(ls_dataset *rows) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(cli_begin_rows(rows, &iterator));
  for (int row = 0; row < CLI_LOOK_AT; ++row) {
    CLI_NEXT_OR(break, iterator, &element);
  }
  return ls_ok();
}

ls_status cli_sheet_find_text(const cli_files *files, const cli_sheet *table,
                              size_t item) {
  const ls_dtype dtype = table->columns[item].dtype;
  table->columns[item].dtype = LS_DTYPE_F64;
  CLI_OWN(ls_dataset, rows) = cli_sheet_read_some(files, table, &item, 1);
  table->columns[item].dtype = dtype;
  return cli_read_first_rows(rows);
}

// Refuses a column of texts. If nearly all are numbers, names the others'
// first.
static ls_status refuse_texts(const cli_files *files, const cli_sheet *table,
                              size_t item) {
  double part = 0;
  LS_RETURN_IF_ERROR(find_numbers(files, table, item, &part));
  if (part >= 0.9)
    LS_RETURN_IF_ERROR(ls_status_annotate(
        cli_sheet_find_text(files, table, item),
        "nearly all of the column are numbers: correct that field, leave the "
        "column out with --features COLUMN,...,LABEL, or, if NA or null is no "
        "value, give one with --missing %s=0",
        table->columns[item].name));
  return ls_invalid_argument(
      "column '%s' of '%s' has texts, and a model learns from numbers, such as "
      "1.5 with a point: leave it out with --features COLUMN,...,LABEL, or "
      "give each text a "
      "number with --one-hot %s",
      table->columns[item].name, files->first, table->columns[item].name);
}

ls_status cli_choose_dtype(const cli_files *files, const cli_sheet *table,
                           const cli_choice *choice, cli_classes *classes,
                           ls_convert_options *out_scaling, ls_dtype *out) {
  const cli_feature *type = choice->type;
  *out = type != NULL ? type->dtype : LS_DTYPE_F32;
  if (type != NULL && type->image)
    return ls_invalid_argument("--features: a column of a CSV file holds no "
                               "image");
  bool whole = true;
  for (size_t i = 0; i < choice->count; ++i) {
    const size_t item = choice->items[i];
    const ls_csv_column *column = &table->columns[item];
    whole &= table->categories[item] == NULL;
    if (table->categories[item] != NULL) continue;
    if (column->dtype == LS_DTYPE_STRING)
      return refuse_texts(files, table, item);
    LS_RETURN_IF_ERROR(cli_sheet_check(
        files, table, item, "leave it out with --features COLUMN,...,LABEL"));
    whole &= column->dtype == LS_DTYPE_I64;
  }
  bool pixels = type != NULL && type->dtype == LS_DTYPE_U8;
  // Few columns with names are no picture; a run may have taken them so.
  const bool may_be_picture =
      !table->header || (classes != NULL && !classes->may_find) ||
      cli_sheet_numbers(table, choice->items, choice->count) >= LEAST_PIXELS;
  if (type == NULL && whole && may_be_picture)
    LS_RETURN_IF_ERROR(
        look_for_pixels(files, table, choice->items, choice->count, &pixels));
  pixels = cli_are_bytes(classes, pixels);
  if (type == NULL && whole && pixels) *out = LS_DTYPE_U8;
  // The training scales bytes so.
  if (type == NULL && !whole && pixels) out_scaling->scale = 1.0 / 255;
  return ls_ok();
}
