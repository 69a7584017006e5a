// SPDX-License-Identifier: Apache-2.0
// Tables of texts that fit the terminal.
#ifndef LS_CLI_LOOK_TABLE_H_
#define LS_CLI_LOOK_TABLE_H_

#include "cli/cli.h"

enum { CLI_CELL = 256 };  // Bytes of a cell's text, with the NUL.

typedef struct cli_column {
  const char *title;  // "" for all: the table has no line of titles.
  bool at_right;      // Aligns at the right: numbers.
  // Columns with the highest number are left out first if the table is too
  // wide; those with 0 stay.
  int expendable;
} cli_column;

// A table, filled row by row. Initialize with `columns` and `num_columns`.
typedef struct cli_table {
  const cli_column *columns;
  size_t num_columns;
  char (*cells)[CLI_CELL];  // Row by row.
  size_t num_rows, capacity;
  bool failed;  // No memory.
} cli_table;

// Returns the columns of the terminal to which standard output goes; 0 for
// files and pipes, whose lines are as long as needed.
int cli_output_columns(void);

// Appends a row of empty cells.
void cli_table_add(cli_table *table);
// Sets a cell of the last row; a text that is too long is cut.
void cli_table_set(cli_table *table, size_t column, const char *format, ...)
    LS_PRINTF(3, 4);
// Prints the table in at most `width` columns (0: any number): leaves columns
// out, says so in a last line, and cuts the first column's texts at their
// beginnings.
//   LS_RESOURCE_EXHAUSTED  there was no memory for a row.
ls_status cli_table_print(const cli_table *table, int width);
void cli_table_close(cli_table *table);
CLI_OWNED_STRUCT(cli_table, cli_table_close)

// Format "1,234,567", "1.23 Gflop", "4.56 MiB" and "7.89 ms", into CLI_CELL
// bytes, which they return.
const char *cli_format_count(int64_t count, char *text);
const char *cli_format_flops(double flops, char *text);
const char *cli_format_bytes(double bytes, char *text);
const char *cli_format_seconds(double seconds, char *text);

#endif  // LS_CLI_LOOK_TABLE_H_
