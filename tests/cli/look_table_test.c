// SPDX-License-Identifier: Apache-2.0
//
// Tables that fit their terminal.
#define _GNU_SOURCE
#include "support/expect.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

// The program's own, which is not in the library.
#include "cli/look/table.c"

static const cli_column columns[] = {
    {"name", false, 0}, {"first", true, 1}, {"second", true, 2}};

static void fill_table(cli_table *table) {
  static const char *const rows[][3] = {{"a/long/name/of/a/layer", "1", "2"},
                                        {"b", "1,234", ""}};
  *table = (cli_table){.columns = columns, .num_columns = 3};
  for (size_t r = 0; r < 2; ++r) {
    cli_table_add(table);
    for (size_t c = 0; c < 3; ++c)
      cli_table_set(table, c, "%s", rows[r][c]);
  }
}

// Returns what the table prints in this width.
static char *printed_in(const cli_table *table, int width) {
  char *text = NULL;
  size_t size = 0;
  const int kept = dup(STDOUT_FILENO);
  FILE *file = tmpfile();
  assert_non_null(file);
  fflush(stdout);
  assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
  const ls_status status = cli_table_print(table, width);
  fflush(stdout);
  assert_true(dup2(kept, STDOUT_FILENO) >= 0);
  close(kept);
  expect_ok(status);
  rewind(file);
  assert_true(getdelim(&text, &size, '\0', file) > 0);
  fclose(file);
  return text;
}

TEST(a_table_leaves_out_columns_then_beginnings_of_names) {
  static const struct {
    int width;
    const char *text;
  } rows[] = {
      {0, "name                    first  second\n"
          "a/long/name/of/a/layer      1       2\n"
          "b                       1,234\n"},
      {37, "name                    first  second\n"
           "a/long/name/of/a/layer      1       2\n"
           "b                       1,234\n"},
      {36, "name                    first\n"
           "a/long/name/of/a/layer      1\n"
           "b                       1,234\n"
           "not shown: second\n"},
      {22, "name\n"
           "a/long/name/of/a/layer\n"
           "b\n"
           "not shown: first,\n"
           "  second\n"},
      {12, "name\n"
           "..of/a/layer\n"
           "b\n"
           "not shown:\n"
           "  first,\n"
           "  second\n"},
      {3, "name\n"
          "../layer\n"
          "b\n"},
  };
  cli_table table;
  fill_table(&table);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    HEAP(char, text) = printed_in(&table, rows[i].width);
    if (rows[i].width != 3)
      assert_string_equal(text, rows[i].text);
    else
      assert_memory_equal(text, "name\n../layer\n", 14);
  }
  cli_table_close(&table);
}

TEST(cells_are_cut_and_rows_grow) {
  cli_table table = {.columns = columns, .num_columns = 3};
  char text[2 * CLI_CELL];
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  cli_table_set(&table, 0, "ignored without a row");
  for (int i = 0; i < 100; ++i) {
    cli_table_add(&table);
    cli_table_set(&table, 0, "%d%s", i, text);
  }
  HEAP(char, all) = printed_in(&table, 0);
  expect_contains(all, "\n99x");
  const char *line = strchr(all, '\n') + 1;
  assert_int_equal(strchr(line, '\n') - line, CLI_CELL - 1);
  cli_table_close(&table);
  assert_null(table.cells);
}

TEST(numbers_have_units_and_three_digits) {
  char text[CLI_CELL];
  assert_string_equal(cli_format_count(0, text), "0");
  assert_string_equal(cli_format_count(999, text), "999");
  assert_string_equal(cli_format_count(1234567, text), "1,234,567");
  assert_string_equal(cli_format_count(-123456, text), "-123,456");
  assert_string_equal(cli_format_flops(0, text), "0 flop");
  assert_string_equal(cli_format_flops(999, text), "999 flop");
  assert_string_equal(cli_format_flops(1000, text), "1.00 kflop");
  assert_string_equal(cli_format_flops(12.3456e9, text), "12.3 Gflop");
  assert_string_equal(cli_format_flops(9.999e6, text), "10.0 Mflop");
  assert_string_equal(cli_format_bytes(1023, text), "1023 B");
  assert_string_equal(cli_format_bytes(1 << 20, text), "1.00 MiB");
  assert_string_equal(cli_format_bytes(3e15, text), "2728 TiB");
  assert_string_equal(cli_format_seconds(0.01234, text), "12.3 ms");
  assert_string_equal(cli_format_seconds(0.9996, text), "1 s");
  assert_string_equal(cli_format_seconds(1.2345, text), "1.23 s");
  assert_string_equal(cli_format_seconds(2000, text), "33:20 min");
}
