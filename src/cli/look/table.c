// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "cli/look/table.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { GAP = 2, LEAST_NAME = 8, MOST_COLUMNS = 32 };

int cli_output_columns(void) { return cli_window_of(STDOUT_FILENO).columns; }

// ---- Filling ---------------------------------------------------------------
// Makes room for one more row; returns false without memory.
static bool grow(cli_table *table) {
  const size_t row = table->num_columns * sizeof(*table->cells);
  if (table->num_rows < table->capacity) return true;
  const size_t capacity = table->capacity == 0 ? 16 : 2 * table->capacity;
  void *cells = cli_allocate(capacity * row);
  if (cells == NULL) return false;
  if (table->num_rows > 0) memcpy(cells, table->cells, table->num_rows * row);
  cli_release(table->cells);
  table->cells = cells;
  table->capacity = capacity;
  return true;
}

void cli_table_add(cli_table *table) {
  table->failed |= !grow(table);
  if (!table->failed) ++table->num_rows;
}

void cli_table_set(cli_table *table, size_t column, const char *format, ...) {
  va_list args;
  if (table->failed || table->num_rows == 0) return;
  va_start(args, format);
  (void)vsnprintf(
      table->cells[(table->num_rows - 1) * table->num_columns + column],
      CLI_CELL, format, args);
  va_end(args);
}

void cli_table_close(cli_table *table) {
  cli_release(table->cells);
  *table = (cli_table){0};
}

// ---- Layout ----------------------------------------------------------------
typedef struct layout {
  int widths[MOST_COLUMNS];  // -1: left out.
} layout;

static int total_width(const cli_table *table, const layout *l) {
  int total = -GAP;
  for (size_t c = 0; c < table->num_columns; ++c)
    if (l->widths[c] >= 0) total += GAP + l->widths[c];
  return total;
}

// Returns the column to leave out next; `num_columns` if all have to stay.
static size_t find_expendable(const cli_table *table, const layout *l) {
  size_t found = table->num_columns;
  int most = 0;
  for (size_t c = 0; c < table->num_columns; ++c) {
    if (l->widths[c] < 0 || table->columns[c].expendable <= most) continue;
    most = table->columns[c].expendable;
    found = c;
  }
  return found;
}

static layout lay_out(const cli_table *table, int width) {
  layout l = {{0}};
  for (size_t c = 0; c < table->num_columns; ++c) {
    l.widths[c] = (int)strlen(table->columns[c].title);
    for (size_t r = 0; r < table->num_rows; ++r) {
      const int size = (int)strlen(table->cells[r * table->num_columns + c]);
      if (size > l.widths[c]) l.widths[c] = size;
    }
  }
  size_t column = 0;
  while (width > 0 && total_width(table, &l) > width &&
         (column = find_expendable(table, &l)) < table->num_columns)
    l.widths[column] = -1;
  const int over = width > 0 ? total_width(table, &l) - width : 0;
  if (over > 0) l.widths[0] -= over;
  if (l.widths[0] < LEAST_NAME && over > 0) l.widths[0] = LEAST_NAME;
  return l;
}

// ---- Printing --------------------------------------------------------------
static void print_cells(const cli_table *table, const layout *l,
                        const char *(*text_of)(const cli_table *table,
                                               size_t row, size_t column),
                        size_t row) {
  char line[MOST_COLUMNS * (CLI_CELL + GAP)] = "";
  size_t size = 0;
  for (size_t c = 0; c < table->num_columns; ++c) {
    const int width = l->widths[c];
    const char *text = text_of(table, row, c);
    if (width < 0) continue;
    const int length = (int)strlen(text);
    const bool is_cut = length > width;
    size += (size_t)snprintf(line + size, sizeof(line) - size, "%*s%s%*s",
                             c > 0 ? GAP : 0, "", is_cut ? ".." : "",
                             table->columns[c].at_right ? width : -width,
                             is_cut ? text + length - width + 2 : text);
    if (is_cut) size -= 2;
    line[size] = '\0';
  }
  while (size > 0 && line[size - 1] == ' ')
    line[--size] = '\0';
  puts(line);
}

static const char *title_of(const cli_table *table, size_t row, size_t column) {
  (void)row;
  return table->columns[column].title;
}

static const char *cell_of(const cli_table *table, size_t row, size_t column) {
  return table->cells[row * table->num_columns + column];
}

// Prints which columns were left out, in as many lines as it takes.
static void print_left_out(const cli_table *table, const layout *l, int width) {
  int size = 0;
  for (size_t c = 0; c < table->num_columns; ++c) {
    const char *title = table->columns[c].title;
    if (l->widths[c] >= 0 || title[0] == '\0') continue;
    size += printf("%s", size == 0 ? "not shown:" : ",");
    if (size + 2 + (int)strlen(title) > width) size = printf("\n ") - 1;
    size += printf(" %s", title);
  }
  if (size > 0) putchar('\n');
}

ls_status cli_table_print(const cli_table *table, int width) {
  if (table->failed) return ls_out_of_memory();
  const layout l = lay_out(table, width);
  if (table->columns[0].title[0] != '\0') print_cells(table, &l, title_of, 0);
  for (size_t r = 0; r < table->num_rows; ++r)
    print_cells(table, &l, cell_of, r);
  print_left_out(table, &l, width);
  return ls_ok();
}

// ---- Numbers ---------------------------------------------------------------
const char *cli_format_count(int64_t count, char *text) {
  char digits[32];
  const int length = snprintf(digits, sizeof(digits), "%lld", (long long)count);
  size_t size = 0;
  for (int i = 0; i < length; ++i) {
    const bool begins = i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-';
    if (begins) text[size++] = ',';
    text[size++] = digits[i];
  }
  text[size] = '\0';
  return text;
}

// Formats with three digits and the greatest unit that leaves at least 1.
static const char *format_unit(double value, double step,
                               const char *const *units, size_t count,
                               char *text) {
  size_t unit = 0;
  while (unit + 1 < count && value >= step) {
    value /= step;
    ++unit;
  }
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  snprintf(text, CLI_CELL, "%.*f %s", digits, value, units[unit]);
  return text;
}

const char *cli_format_flops(double flops, char *text) {
  static const char *const units[] = {"flop",  "kflop", "Mflop",
                                      "Gflop", "Tflop", "Pflop"};
  return format_unit(flops, 1000, units, sizeof(units) / sizeof(*units), text);
}

const char *cli_format_bytes(double bytes, char *text) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return format_unit(bytes, 1024, units, sizeof(units) / sizeof(*units), text);
}

const char *cli_format_seconds(double seconds, char *text) {
  if (seconds < 0.9995)
    snprintf(text, CLI_CELL, "%.3g ms", seconds * 1e3);
  else if (seconds < 60)
    snprintf(text, CLI_CELL, "%.3g s", seconds);
  else if (seconds < 3600)
    snprintf(text, CLI_CELL, "%d:%02d min", (int)(seconds / 60),
             (int)fmod(seconds, 60));
  else
    snprintf(text, CLI_CELL, "%.0f:%02d h", floor(seconds / 3600),
             (int)fmod(seconds / 60, 60));
  return text;
}
