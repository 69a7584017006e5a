// SPDX-License-Identifier: Apache-2.0
// Two arrays, or two files of saved values, side by side.
#ifndef LS_CLI_COMPARE_H_
#define LS_CLI_COMPARE_H_

#include "cli/words.h"

// How two arrays of one dtype and shape differ: bit by bit, so that 0 and -0
// do, and not a number is equal to itself.
typedef struct cli_difference {
  int64_t count, first;  // Elements, and the first of them.
  // The largest, over elements that are numbers on both sides.
  double absolute;
  double relative;  // To the larger of the two.
  uint64_t ulp;     // Numbers of the type in between, and one.
  int64_t nans;     // Where one side at least is no number.
} cli_difference;
cli_difference cli_compare(const ls_array *a, const ls_array *b);

// "0.5 (0x3f000000)": an element and its bits.
void cli_print_element(const ls_array *array, int64_t index, char *text,
                       size_t size);
// "[2,7]"; "" for a scalar.
void cli_print_index(ls_shape shape, int64_t index, char *text, size_t size);

typedef struct cli_compare_options {
  const cli_words *only;  // Arrays by these patterns.
  const char *heading;    // A line before, if any differs. NULL: none.
  size_t most;            // Arrays that are named.
  bool json;              // A line of JSON each.
} cli_compare_options;
// Prints how two files differ, and tells how many arrays do.
ls_status cli_compare_files(const ls_saved_file *a, const ls_saved_file *b,
                            const cli_compare_options *options,
                            size_t *out_different);

// Prints a line for each member in which two JSON objects differ, with `json`
// one of JSON: in, member, values, where null is none.
void cli_compare_members(const char *what, const char *a, const char *b,
                         bool json);
// The same of what two checkpoints say of their runs and, with `states`, of the
// states in them.
ls_status cli_compare_notes(const ls_saved_file *a, const ls_saved_file *b,
                            bool states, bool json);

#endif  // LS_CLI_COMPARE_H_
