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
