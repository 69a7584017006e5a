// SPDX-License-Identifier: Apache-2.0
// Columns of texts that are one-hot (--one-hot): their texts, found in a
// training set and stored in config.json.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cli/data/data_sheet.h"

// Finds the column's texts in ls_train_config.categories; returns their size, 0
// if there are none.
static size_t find_texts(const char *categories, const char *column,
                         const char **out) {
  const char *at = categories;
  while (at != NULL && *at != '\0') {
    const size_t size = strcspn(at, "\n");
    const bool same = size == strlen(column) && memcmp(at, column, size) == 0;
    at += size + (at[size] == '\n');
    const char *end = strstr(at, "\n\n");
    const size_t texts = end != NULL ? (size_t)(end - at) + 1 : strlen(at);
    *out = at;
    if (same) return texts;
    at += texts + (at[texts] == '\n');
  }
  return 0;
}

// Adds the texts of a column to those found.
static ls_status add_texts(cli_classes *classes, const char *column,
                           const char *texts) {
  const char *before =
      classes->found_categories != NULL ? classes->found_categories : "";
  const size_t size = strlen(before) + strlen(column) + strlen(texts) + 4;
  char *all = cli_allocate(size);
  if (all == NULL) return ls_out_of_memory();
  snprintf(all, size, "%s%s\n%s\n\n", before, column, texts);
  cli_release(classes->found_categories);
  classes->categories = classes->found_categories = all;
  return ls_ok();
}

static ls_status find_categories(const cli_files *files,
                                 const cli_pair_request *request,
                                 cli_sheet *table, size_t at) {
  cli_classes *classes = request->classes;
  const char *name = table->columns[at].name, *known = NULL;
  CLI_OWN_MEMORY(char, texts) = NULL;
  const size_t size = find_texts(classes->categories, name, &known);
  if (size > 0) {
    texts = cli_copy_text(known, size);
    return texts != NULL ? cli_class_list_make(texts, &table->categories[at])
                         : ls_out_of_memory();
  }
  if (!classes->may_find)
    return ls_invalid_argument(
        "config.json: \"categories\" has no texts of column '%s'", name);
  CLI_OWN(ls_dataset, rows) =
      table->header
          ? cli_sheet_read(files, table, &table->columns[at], 1)
          : cli_sheet_read(files, table, table->columns, table->count);
  LS_RETURN_IF_ERROR(cli_classes_find(rows, table->header ? 0 : at, name,
                                      files->first, NULL, &texts));
  LS_RETURN_IF_ERROR(add_texts(classes, name, texts));
  return cli_class_list_make(texts, &table->categories[at]);
}

ls_status cli_sheet_one_hot(const cli_files *files,
                            const cli_pair_request *request, cli_sheet *table) {
  const char *names = request->classes != NULL ? request->classes->one_hot : "";
  for (const char *at = names; at != NULL && *at != '\0';) {
    const size_t size = strcspn(at, ",");
    CLI_OWN_MEMORY(char, name) = cli_copy_text(at, size);
    if (name == NULL) return ls_out_of_memory();
    size_t column = 0;
    LS_RETURN_IF_ERROR(ls_status_annotate(
        cli_sheet_find(files, table, name, &column), "--one-hot"));
    if (table->categories[column] != NULL)
      return ls_invalid_argument("--one-hot names '%s' twice", name);
    if (table->is_json && table->columns[column].dtype != LS_DTYPE_STRING)
      return ls_invalid_argument(
          "--one-hot: '%s' has numbers in '%s', not texts", name, files->first);
    table->columns[column].dtype = LS_DTYPE_STRING;
    LS_RETURN_IF_ERROR(find_categories(files, request, table, column));
    at += size + (at[size] == ',');
  }
  return ls_ok();
}
