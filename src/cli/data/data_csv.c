// SPDX-License-Identifier: Apache-2.0
// Rows of named columns as examples and labels: one column has the label, the
// others numbers, or texts that become numbers.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data.h"

// ---- Labels ----------------------------------------------------------------
// Refuses a label of a test set that is none of the classes.
static ls_status check_classes(const cli_files *files, const cli_sheet *table,
                               size_t label, const cli_classes *classes,
                               bool are_lists, ls_dataset *rows) {
  CLI_OWN_MEMORY(char, names) = NULL;
  CLI_OWN(cli_class_list, list) = NULL;
  int64_t number = 0;
  LS_RETURN_IF_ERROR(cli_classes_find(rows, table->header ? 0 : label,
                                      are_lists, table->columns[label].name,
                                      files->first, NULL, &names));
  LS_RETURN_IF_ERROR(cli_class_list_make(classes->names, &list));
  for (int64_t i = 0; i < cli_classes_count(names); ++i)
    LS_RETURN_IF_ERROR(ls_status_annotate(
        cli_class_number(list, cli_class_name(names, i), &number),
        "column '%s' of '%s'", table->columns[label].name, files->first));
  return ls_ok();
}

// Returns the classes of a text column: the known ones, or all in the column.
static ls_status find_classes(const cli_files *files, const cli_sheet *table,
                              size_t label, cli_classes *classes,
                              bool are_lists, const char *command) {
  const bool are_known = classes->names != NULL && classes->names[0] != '\0';
  if (are_known && (classes->may_find || classes->found == NULL))
    return ls_ok();
  CLI_OWN(ls_dataset, rows) = cli_sheet_read_some(files, table, &label, 1);
  if (are_known)
    return check_classes(files, table, label, classes, are_lists, rows);
  const ls_status status = cli_classes_find(
      rows, table->header ? 0 : label, are_lists, table->columns[label].name,
      files->first, command, &classes->found);
  classes->names = classes->found;
  return status;
}

// Returns true if labels that look like numbers are names of classes: a file
// may have only those of 1, 2 and 3b that do. A whole number is the class of
// this number if no class is called so. In JSON names are no numbers, which are
// refused then.
static bool are_names(const cli_sheet *table, size_t label,
                      const cli_classes *classes) {
  const ls_dtype dtype = table->columns[label].dtype;
  const int64_t count = classes != NULL ? cli_classes_count(classes->names) : 0;
  bool any = false;
  for (int64_t i = 0; i < count && dtype != LS_DTYPE_STRING; ++i) {
    const ls_bytes name = cli_class_name(classes->names, i);
    char *end = NULL;
    if (ls_dtype_is_integer(dtype))
      (void)strtoll(name.data, &end, 10);
    else
      (void)strtod(name.data, &end);
    any |= name.size > 0 && end == (const char *)name.data + name.size;
  }
  return any;
}

// Chooses the type of labels: numbers, or texts of classes.
static ls_status choose_labels(const cli_files *files, const cli_sheet *table,
                               size_t label, cli_classes *classes,
                               const char *command, cli_pairing *pairing,
                               cli_class_list **out_list) {
  ls_dtype *out_dtype = &pairing->labels.dtype;
  *out_dtype = table->columns[label].dtype;
  if (ls_dtype_is_integer(*out_dtype)) return ls_ok();
  if (ls_dtype_is_float(*out_dtype) && pairing->task != NULL) {
    CLI_OWN(ls_dataset, rows) = cli_sheet_read_some(files, table, &label, 1);
    LS_RETURN_IF_ERROR(
        cli_take_whole(rows, table->header ? 0 : label, pairing));
    if (pairing->are_whole) return ls_ok();
  }
  const char *column = table->columns[label].name;
  if (*out_dtype != LS_DTYPE_STRING)
    return ls_invalid_argument(
        "column '%s' of '%s' is read as labels and has %s: labels of "
        "classification are whole numbers from 0 on, or texts; learn numbers "
        "by --task regression, or give another column by --label",
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
  LS_RETURN_IF_ERROR(
      find_classes(files, table, label, classes, false, command));
  return cli_class_list_make(classes->names, out_list);
}

// Returns the names of the columns of labels, one per line; NULL: no memory.
static char *join_labels(const cli_sheet *table, const cli_choice *choice) {
  size_t size = 1;
  for (size_t k = 0; k < choice->num_labels; ++k)
    size += strlen(table->columns[choice->labels[k]].name) + 1;
  char *names = cli_allocate(size);
  for (size_t k = 0; k < choice->num_labels && names != NULL; ++k)
    snprintf(names + strlen(names), size - strlen(names), "%s%s",
             k > 0 ? "\n" : "", table->columns[choice->labels[k]].name);
  return names;
}

// Reads columns of labels that are numbers. Their names become those of the
// classes, if none are known.
static ls_status choose_numbers(const cli_files *files, cli_sheet *table,
                                const cli_pair_request *request,
                                const cli_choice *choice) {
  cli_classes *classes = request->classes;
  const bool finds =
      classes != NULL && classes->may_find && classes->names == NULL;
  for (size_t k = 0; k < choice->num_labels; ++k) {
    ls_csv_column *column = &table->columns[choice->labels[k]];
    if (column->dtype == LS_DTYPE_STRING)
      LS_RETURN_IF_ERROR(ls_status_annotate(
          cli_sheet_find_text(files, table, choice->labels[k]),
          "labels of %s are numbers", request->task->name));
    column->dtype = LS_DTYPE_F32;
  }
  if (!finds) return ls_ok();
  classes->names = classes->found = join_labels(table, choice);
  return classes->names != NULL ? ls_ok() : ls_out_of_memory();
}

// Chooses labels that are lists of texts, such as "funny;sad": a number of 0 or
// 1 for each text of the training set.
static ls_status choose_lists(const cli_files *files, const cli_sheet *table,
                              size_t label, const cli_pair_request *request,
                              cli_pairing *pairing, cli_class_list **out_list) {
  cli_classes *classes = request->classes;
  LS_RETURN_IF_ERROR(
      find_classes(files, table, label, classes, true, request->command));
  LS_RETURN_IF_ERROR(cli_class_list_make(classes->names, out_list));
  const int64_t count = (int64_t)cli_class_list_count(*out_list);
  if (count == 0)
    return ls_invalid_argument("column '%s' of '%s' has no labels",
                               table->columns[label].name, files->first);
  pairing->are_lists = true;
  pairing->labels.shape = LS_SHAPE(count);
  return ls_ok();
}

// Chooses the labels' type, and their classes if they are texts.
static ls_status pair_labels(const cli_files *files, cli_sheet *table,
                             const cli_pair_request *request,
                             const cli_choice *choice, cli_pairing *pairing,
                             cli_class_list **out_list) {
  pairing->labels = (ls_type){LS_DTYPE_F32, LS_SCALAR};
  const size_t label = choice->labels[0];
  ls_csv_column *first = &table->columns[label];
  if (cli_has_numbers(request) && choice->num_labels == 1 &&
      request->task->is_binary && request->classes != NULL) {
    // Classes are names of columns where those have numbers.
    if (table->widths[label] < 0 ||
        (are_names(table, label, request->classes) &&
         strcmp(request->classes->names, first->name) != 0))
      first->dtype = LS_DTYPE_STRING;
    if (first->dtype == LS_DTYPE_STRING)
      return choose_lists(files, table, label, request, pairing, out_list);
  }
  for (size_t k = 0; k < choice->num_labels; ++k) {
    LS_RETURN_IF_ERROR(cli_sheet_check(files, table, choice->labels[k],
                                       "labels are numbers or texts"));
    if (table->widths[choice->labels[k]] > 0)
      return ls_invalid_argument("'%s' has arrays as labels in '%s': labels "
                                 "are numbers or texts",
                                 files->first,
                                 table->columns[choice->labels[k]].name);
  }
  if (!cli_has_numbers(request)) {
    if (choice->num_labels > 1)
      return ls_invalid_argument(
          "%zu columns of '%s' are labels: classification has one; learn "
          "several by --task multi-label or regression",
          choice->num_labels, files->first);
    if (are_names(table, label, request->classes))
      first->dtype = LS_DTYPE_STRING;
    return choose_labels(files, table, label, request->classes,
                         request->command, pairing, out_list);
  }
  pairing->num_labels = choice->num_labels;
  pairing->labels.shape = LS_SHAPE((int64_t)choice->num_labels);
  return choose_numbers(files, table, request, choice);
}

// ---- Pairs -----------------------------------------------------------------
// Stacks the columns of an example that are numbers.
static ls_status stack_columns(const cli_files *files, cli_sheet *table,
                               const size_t *items, size_t count,
                               ls_dtype dtype) {
  for (size_t i = 0; i < count; ++i) {
    if (table->categories[items[i]] == NULL) {
      table->columns[items[i]].dtype = dtype;
      table->columns[items[i]].stacked = !table->is_json;
    }
    if (table->header || i == 0 || items[i] > items[i - 1]) continue;
    return ls_invalid_argument(
        "--features: '%s' has no names; columns are selected by their order",
        files->first);
  }
  return ls_ok();
}

// Returns the item of a column in rows of these columns: stacked ones share
// one.
static size_t item_of(const ls_csv_column *columns, size_t at) {
  size_t items = 0, stack = SIZE_MAX;
  for (size_t i = 0;; ++i) {
    const bool joins = columns[i].stacked && stack != SIZE_MAX;
    const size_t item = joins ? stack : items++;
    if (columns[i].stacked) stack = item;
    if (i == at) return item;
  }
}

// Makes the parts of an example with texts. `columns` are those read, of which
// number `places[i]` is the table's number `items[i]`.
static ls_status make_parts(const cli_files *files, cli_sheet *table,
                            const size_t *items, const size_t *places,
                            size_t count, const ls_csv_column *columns,
                            cli_pairing *pairing) {
  int64_t stacked = 0;
  pairing->parts = cli_allocate(count * sizeof(*pairing->parts));
  pairing->file = cli_copy_text(files->text, strlen(files->text));
  if (pairing->parts == NULL || pairing->file == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) {
    const char *name = table->columns[items[i]].name;
    cli_part *part = &pairing->parts[pairing->num_parts++];
    part->item = item_of(columns, places[i]);
    part->count = cli_sheet_width(table, items[i]);
    part->categories = cli_give(&table->categories[items[i]]);
    part->column = cli_copy_text(name, strlen(name));
    if (part->column == NULL) return ls_out_of_memory();
    if (!columns[places[i]].stacked) continue;
    part->from = stacked;
    stacked += part->count;
  }
  return ls_ok();
}

// Returns true if examples are put together of parts.
static bool has_parts(const cli_sheet *table) {
  if (table->is_json) return true;
  for (size_t i = 0; i < table->count; ++i)
    if (table->categories[i] != NULL) return true;
  return false;
}

// Opens rows with an example and labels, and stores the items of both.
static ls_status read_pairs(const cli_files *files, cli_sheet *table,
                            const cli_choice *choice, ls_dataset **out,
                            cli_pairing *pairing) {
  const size_t *items = choice->items, count = choice->count;
  CLI_OWN_ARRAY_OR_RETURN(size_t, places, count);
  CLI_OWN_ARRAY_OR_RETURN(ls_csv_column, chosen, count + choice->num_labels);
  const ls_csv_column *columns = table->header ? chosen : table->columns;
  const size_t num_columns =
      table->header ? count + choice->num_labels : table->count;
  // Reads only the chosen columns, since others may be malformed; where they
  // have no names, the others as texts.
  for (size_t i = 0; !table->header && i < table->count; ++i)
    if (!cli_is_among(items, count, i) &&
        !cli_is_among(choice->labels, choice->num_labels, i))
      table->columns[i].dtype = LS_DTYPE_STRING;
  for (size_t i = 0; i < count; ++i) {
    places[i] = table->header ? i : items[i];
    chosen[i] = table->columns[items[i]];
  }
  for (size_t k = 0; k < choice->num_labels; ++k)
    chosen[count + k] = table->columns[choice->labels[k]];
  for (size_t k = 0; k < choice->num_labels; ++k)
    pairing->label_items[k] =
        item_of(columns, table->header ? count + k : choice->labels[k]);
  pairing->label = pairing->label_items[0];
  *out = cli_sheet_read(files, table, columns, num_columns);
  pairing->first = item_of(columns, places[0]);
  return has_parts(table)
             ? make_parts(files, table, items, places, count, columns, pairing)
             : ls_ok();
}

static ls_status check_count(const cli_files *files, const cli_feature *type,
                             ls_dtype dtype, int64_t numbers) {
  if (type == NULL || !type->shaped ||
      ls_shape_num_elements(type->shape) == numbers)
    return ls_ok();
  return ls_invalid_argument("--features: %s are %lld numbers, '%s' has %lld "
                             "columns for them",
                             LS_SHAPE_TEXT(dtype, type->shape),
                             (long long)ls_shape_num_elements(type->shape),
                             files->first, (long long)numbers);
}

// Checks that the model takes as many numbers as there are columns; a failure
// lists them.
static ls_status check_type(const cli_files *files, const cli_sheet *table,
                            const cli_choice *choice, const ls_model_type *type,
                            int64_t numbers, ls_dataset *pairs) {
  const size_t count = choice->count;
  if (type == NULL || ls_shape_num_elements(type->example_shape) == numbers)
    return ls_ok();
  char names[300] = "";
  for (size_t i = 0; i < count && i < 12; ++i) {
    const size_t used = strlen(names);
    snprintf(names + used, sizeof(names) - used, "%s%.40s", i == 0 ? "" : ", ",
             table->columns[choice->items[i]].name);
  }
  return ls_status_annotate(
      ls_train_check_data(type, pairs),
      "of '%s', where the features are columns %s%s and the label is %s; "
      "--features COLUMN,...,LABEL gives others",
      files->first, names, count > 12 ? ", ..." : "",
      choice->num_labels == 0 ? "none"
                              : table->columns[choice->labels[0]].name);
}

static ls_status pair_columns(const cli_files *files,
                              const cli_pair_request *request, cli_sheet *table,
                              ls_dataset **out) {
  ls_dtype dtype = LS_DTYPE_NONE;
  ls_convert_options scaling = {0};
  CLI_OWN_ARRAY_OR_RETURN(size_t, items, table->count + CLI_MOST_FEATURES);
  cli_choice found = {.items = items};
  LS_RETURN_IF_ERROR(cli_sheet_missing(files, table));
  LS_RETURN_IF_ERROR(cli_sheet_one_hot(files, request, table));
  LS_RETURN_IF_ERROR(cli_choose_columns(files, request, table, &found));
  cli_choice choice = found;
  if (request->no_labels) choice.num_labels = 0;
  const size_t count = choice.count;
  const cli_feature *type = choice.type;
  LS_RETURN_IF_ERROR(cli_choose_dtype(files, table, &choice, request->classes,
                                      &scaling, &dtype));
  const int64_t numbers = cli_sheet_numbers(table, items, count);
  LS_RETURN_IF_ERROR(check_count(files, type, dtype, numbers));
  CLI_OWN(cli_class_list, list) = NULL;
  cli_pairing pairing = {.example = {dtype, type != NULL && type->shaped
                                                ? type->shape
                                                : LS_SHAPE(numbers)},
                         .no_label = choice.num_labels == 0,
                         .labels = cli_missing_labels(request),
                         .task = request->task};
  if (choice.num_labels > 0)
    LS_RETURN_IF_ERROR(
        pair_labels(files, table, request, &choice, &pairing, &list));
  LS_RETURN_IF_ERROR(stack_columns(files, table, items, count, dtype));
  pairing.columns = join_labels(table, &choice);
  if (pairing.columns == NULL) return ls_out_of_memory();
  ls_dataset *rows = NULL;
  pairing.classes = cli_give(&list);
  const ls_status status = read_pairs(files, table, &choice, &rows, &pairing);
  *out = cli_pair(rows, &pairing);
  if (scaling.scale != 0) *out = ls_dataset_convert(*out, 0, &scaling);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_dataset_status(*out));
  // Examples of a given shape may be images, which are resized.
  return type != NULL && type->shaped
             ? ls_ok()
             : check_type(files, table, &found, request->type, numbers, *out);
}

// Opens pairs of a table that `open` opens.
static ls_status
table_pairs(const cli_files *files, const cli_pair_request *request,
            ls_status (*open)(const cli_files *files, cli_sheet *out),
            ls_dataset **out) {
  CLI_OWN(cli_sheet, table) = {.classes = request->classes};
  *out = NULL;
  LS_RETURN_IF_ERROR(cli_sheet_open_missing(&table));
  LS_RETURN_IF_ERROR(open(files, &table));
  LS_RETURN_IF_ERROR(pair_columns(files, request, &table, out));
  const ls_model_type *type = request->type;
  const int64_t count =
      request->classes != NULL ? cli_classes_count(request->classes->names) : 0;
  if (type == NULL || cli_has_numbers(request) || count <= type->num_classes)
    return ls_ok();
  return ls_invalid_argument(
      "model '%s' has %lld classes, the labels of '%s' are %lld texts",
      type->name, (long long)type->num_classes, files->first, (long long)count);
}

ls_status cli_csv_pairs(const cli_files *files, const cli_pair_request *request,
                        ls_dataset **out) {
  return table_pairs(files, request, cli_sheet_open_csv, out);
}

ls_status cli_json_pairs(const cli_files *files,
                         const cli_pair_request *request, ls_dataset **out) {
  return table_pairs(files, request, cli_sheet_open_json, out);
}

// Reads columns of numbers whose first rows have missing values as floats, NaN
// there.
static ls_status mark_missing(const cli_files *files, cli_sheet *table,
                              ls_dataset **out) {
  CLI_OWN(ls_status, whole) = cli_read_first_rows(table->guessed);
  if (ls_status_is_ok(whole)) {
    *out = ls_dataset_retain(table->guessed);
    return ls_ok();
  }
  for (size_t i = 0; i < table->count; ++i) {
    CLI_OWN(ls_dataset, rows) = cli_sheet_read_some(files, table, &i, 1);
    CLI_OWN(ls_status, column) = cli_read_first_rows(rows);
    if (!ls_status_is_ok(column))
      table->columns[i] =
          (ls_csv_column){.name = table->columns[i].name, .missing = "nan"};
  }
  *out = cli_sheet_read(files, table, table->columns, table->count);
  return ls_dataset_status(*out);
}

ls_status cli_csv_rows(const cli_files *files, ls_dataset **out) {
  CLI_OWN(cli_sheet, table) = {0};
  LS_RETURN_IF_ERROR(cli_sheet_open_csv(files, &table));
  return mark_missing(files, &table, out);
}

ls_status cli_json_lines(const cli_files *files, ls_dataset **out) {
  CLI_OWN(cli_sheet, table) = {0};
  const ls_status status = cli_sheet_open_json(files, &table);
  *out = ls_dataset_retain(table.guessed);
  return status;
}
