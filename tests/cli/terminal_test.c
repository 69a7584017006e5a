// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "support/expect.h"

#include <math.h>
#include <stdlib.h>

// The program's own, which is not in the library.
#include "cli/terminal.c"

// What is said on standard error when a run of this loss is shown.
static char *shown(double loss) {
  cli_ticker ticker = {0};
  char *text = NULL;
  size_t size = 0;
  const int kept = dup(STDERR_FILENO);
  FILE *file = tmpfile();
  assert_non_null(file);
  cli_ticker_begin(&ticker);
  fflush(stderr);
  assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
  cli_ticker_show(&ticker, &(cli_place){.step = 7, .all = 9, .loss = loss});
  fflush(stderr);
  assert_true(dup2(kept, STDERR_FILENO) >= 0);
  close(kept);
  rewind(file);
  assert_true(getline(&text, &size, file) > 0);
  fclose(file);
  return text;
}

TEST(a_loss_that_runs_away_is_told_in_one_line) {
  static const struct {
    double loss;
    const char *text;
  } rows[] = {{0.5, "step 7/9, loss 0.5000, "},
              {-1e300, "step 7/9, loss -1e+300, "},
              {INFINITY, "step 7/9, loss inf, "}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    HEAP(char, text) = shown(rows[i].loss);
    expect_contains(text, rows[i].text);
    expect_contains(text, ", eta 0:0");
  }
}

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
