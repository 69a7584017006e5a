// SPDX-License-Identifier: Apache-2.0
// Comparison of two arrays, or of two files of saved values.
#ifndef LS_CLI_COMPARE_H_
#define LS_CLI_COMPARE_H_

#include "cli/cli.h"
#include "cli/words.h"

// Difference of two arrays, bit by bit: 0 and -0 differ, and NaN equals itself.
// Arrays of two types, dtype or shape, count as one element, without a first.
typedef struct cli_difference {
  int64_t count, first;  // Elements that differ, and the first; -1: none.
  // Largest differences, over elements that are numbers in both arrays; of
  // complex ones over their parts.
  double absolute;
  double relative;  // Relative to the larger of the two.
  uint64_t ulp;     // Distance in representable numbers.
  int64_t nans;     // Elements that are NaN in one or both arrays.
} cli_difference;
cli_difference cli_compare(const ls_array *a, const ls_array *b);

// Prints a line about two arrays that differ.
void cli_print_difference(const char *indent, const char *name,
                          const ls_array *a, const ls_array *b,
                          const cli_difference *difference);

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
void cli_compare_members(const char *title, const char *a, const char *b,
                         bool json);
// Prints differences of the run identities of two checkpoints and, with
// `states`, of their states.
ls_status cli_compare_notes(const ls_saved_file *a, const ls_saved_file *b,
                            bool states, bool json);

// ---- Lines of metrics.jsonl ------------------------------------------------
// Reads a whole file of a folder; NULL if it does not exist. A zero follows
// its bytes, whose number `*out_size` gets if it is not NULL: else zeros among
// them become '?'. Free the text with cli_release.
ls_status cli_read_text(const char *folder, const char *name, char **out_text,
                        size_t *out_size);

// Kinds of lines, in the order of those of one step.
typedef enum cli_line_kind {
  CLI_LINE_OF_SUM,
  CLI_LINE_OF_STEPS,
  CLI_LINE_OF_TEST,
} cli_line_kind;
// A line; zeroed before the first.
typedef struct cli_line {
  const char *text;  // NULL: there are no more lines.
  int64_t step;
  int64_t before;  // In a line of steps: the step before the first of them.
  cli_line_kind kind;
  int64_t damaged;  // Lines that were passed over.
} cli_line;
// Reads the next line at `at` (NULL: there is none) that is an object with a
// step; lends the text.
void cli_line_next(const char **at, cli_line *line);
// Orders lines by step, then by kind.
int cli_line_order(const cli_line *a, const cli_line *b);
// Returns true if two lines are of the same step and kind and, if they hold
// means, of the same steps.
bool cli_lines_match(const cli_line *a, const cli_line *b);
// Reads on to the line of the step and kind of `wanted`, or past their place.
// Returns true if that line matches it.
bool cli_line_seek(const char **at, cli_line *line, const cli_line *wanted);
// Returns the last step of lines (NULL: none); 0 if there is none.
int64_t cli_last_step(const char *text);
// Finds the step before the first one that a run has made: 0, or the step of
// another run from which it goes on. A model's run lacks that checkpoint.
ls_status cli_find_first_step(const char *folder, bool is_estimator,
                              int64_t *out_step);
// Compares two such lines but for times, and prints the first member that
// differs.
bool cli_lines_are_equal(const cli_line *a, const cli_line *b, bool json);

// ---- op_diff.c -------------------------------------------------------------
// Two runs that differ between two steps: equal after `from`, not after `to`.
typedef struct cli_op_diff {
  const char *folders[2];
  int64_t from, to;
  int64_t saved[2];   // Steps of their first checkpoints after `from`; 0: none.
  const char *model, *optimizer;  // The user's shared libraries; NULL: none.
  const cli_syntax *syntax;
} cli_op_diff;
// Makes both again and prints the first step, op and element that differ.
// Returns an exit code.
int cli_diff_ops(const cli_op_diff *diff);

// ---- Commands of `lockstep checkpoint` -------------------------------------
enum { LS_CLI_CHECKPOINT_COMMANDS = 5 };
int cli_checkpoint_list(int argc, char **argv);
int cli_checkpoint_show(int argc, char **argv);
int cli_checkpoint_diff(int argc, char **argv);
int cli_checkpoint_verify(int argc, char **argv);
int cli_checkpoint_convert(int argc, char **argv);

#endif  // LS_CLI_COMPARE_H_
