// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "support/expect.h"


// The program's own, which is not in the library.
#include "cli/terminal.c"

// A line of the log or a message between those of a run stands alone.
TEST(other_lines_do_not_break_the_progress) {
  char text[64] = "";
  const int kept = dup(STDERR_FILENO);
  FILE *file = tmpfile();
  assert_non_null(file);
  fflush(stderr);
  assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
  cli_show_progress("\rabc");
  cli_clear_progress();
  fputs("warning\n", stderr);
  cli_show_progress("\n");  // The line that it was to end is gone.
  cli_clear_progress();
  cli_show_progress("\rabcd");
  cli_show_progress("\n");
  fputs("end\n", stderr);
  fflush(stderr);
  assert_true(dup2(kept, STDERR_FILENO) >= 0);
  close(kept);
  rewind(file);
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  assert_string_equal(text, "\rabc\r\033[Kwarning\n\rabcd\nend\n");
}

TEST(a_duration_may_have_any_number_of_hours) {
  static const struct {
    double seconds;
    const char *text;
  } rows[] = {{-1, "0:00"},
              {59.7, "1:00"},
              {3600, "1:00:00"},
              {1e6, "277:46:40"},
              {1e300, "277777:46:40"}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    char text[24];
    cli_print_duration(rows[i].seconds, text, sizeof(text));
    assert_string_equal(text, rows[i].text);
  }
}
