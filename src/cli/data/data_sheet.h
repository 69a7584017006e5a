// SPDX-License-Identifier: Apache-2.0
// Files of rows with named columns: CSV, and JSON objects, one a line.
#ifndef LS_CLI_DATA_DATA_SHEET_H_
#define LS_CLI_DATA_DATA_SHEET_H_

#include "cli/data/data.h"

enum { CLI_LOOK_AT = 100 };  // First rows by which types are guessed.

// Columns of a file, guessed from its first rows.
typedef struct cli_sheet {
  bool is_json;
  char delimiter;
  bool header;
  size_t count;            // Columns,
  ls_csv_column *columns;  // and their names, in their order in the file.
  // Elements of each column that is an array, in JSON; 0: a number or a text.
  int64_t *widths;
  // Texts of the columns that are one-hot; NULL: others.
  cli_class_list **categories;
  char **names;         // Storage of names that a file has not by itself.
  ls_dataset *guessed;  // A data set with types guessed from the first rows.
} cli_sheet;
void cli_sheet_close(cli_sheet *table);
CLI_OWNED_STRUCT(cli_sheet, cli_sheet_close)

// Copies a text, with a terminating zero; NULL if there is no memory.
char *cli_copy_text(const char *data, size_t size);
// Makes room for `count` columns.
ls_status cli_sheet_make(cli_sheet *table, size_t count);
// Open a table by its first rows.
ls_status cli_sheet_open_csv(const cli_files *files, cli_sheet *out);
ls_status cli_sheet_open_json(const cli_files *files, cli_sheet *out);
// Reads these columns as dicts: of CSV one array "*" of all that are stacked,
// in the place of the first of them, and one item for each of the others.
ls_dataset *cli_sheet_read(const cli_files *files, const cli_sheet *table,
                           const ls_csv_column *columns, size_t count);
ls_dataset *cli_json_rows(const cli_files *files, const cli_sheet *table,
                          const ls_csv_column *columns, size_t count);
// Finds a column by its name.
ls_status cli_sheet_find(const cli_files *files, const cli_sheet *table,
                         const char *name, size_t *out);
// Finds the texts of the columns that are one-hot.
ls_status cli_sheet_one_hot(const cli_files *files,
                            const cli_pair_request *request, cli_sheet *table);
// Returns the number of elements of a column in an example.
int64_t cli_sheet_width(const cli_sheet *table, size_t column);

#endif  // LS_CLI_DATA_DATA_SHEET_H_
