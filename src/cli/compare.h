// SPDX-License-Identifier: Apache-2.0
// Comparison of two arrays, or of two files of saved values.
#ifndef LS_CLI_COMPARE_H_
#define LS_CLI_COMPARE_H_

#include "cli/words.h"

// Difference of two arrays of one dtype and shape, bit by bit: 0 and -0 differ,
// and NaN equals itself.
typedef struct cli_difference {
  int64_t count, first;  // Elements that differ, and the first.
  // Largest differences, over elements that are numbers in both arrays.
  double absolute;
  double relative;  // Relative to the larger of the two.
  uint64_t ulp;     // Distance in representable numbers.
  int64_t nans;     // Elements that are NaN in an array or both.
} cli_difference;
cli_difference cli_compare(const ls_array *a, const ls_array *b);

// Formats an element and its bits: "0.5 (0x3f000000)".
void cli_print_element(const ls_array *array, int64_t index, char *text,
                       size_t size);
// Formats an index: "[2,7]"; "" for a scalar.
void cli_print_index(ls_shape shape, int64_t index, char *text, size_t size);

typedef struct cli_compare_options {
  const cli_words *only;  // Patterns of arrays.
  const char *heading;    // Printed before the first difference. NULL: none.
  size_t most;            // Number of arrays to list.
  bool json;              // One line of JSON per array.
} cli_compare_options;
// Prints the differences of two files, and counts the arrays that differ.
ls_status cli_compare_files(const ls_saved_file *a, const ls_saved_file *b,
                            const cli_compare_options *options,
                            size_t *out_different);

// Prints a line for each member in which two JSON objects differ; with `json` a
// line of JSON: the object, the member, both values, null for a missing one.
void cli_compare_members(const char *what, const char *a, const char *b,
                         bool json);
// Prints differences of the run identities of two checkpoints and, with
// `states`, of their states.
ls_status cli_compare_notes(const ls_saved_file *a, const ls_saved_file *b,
                            bool states, bool json);

#endif  // LS_CLI_COMPARE_H_
