// SPDX-License-Identifier: Apache-2.0
// Axes: round numbers that cover a range, and their labels.
#ifndef LS_CLI_LOOK_SCALE_H_
#define LS_CLI_LOOK_SCALE_H_

#include "cli/look/history.h"

// An axis from `low` to `high`, with marks at multiples of `step`. That of a
// logarithmic one are powers of ten.
typedef struct cli_scale {
  double low, high, step;
  bool log;  // The fields above are logarithms to base 10.
} cli_scale;

// Returns a scale that begins and ends at a mark, with about `marks` intervals
// at most, for values from `low` to `high`; both may be NaN (no values).
cli_scale cli_scale_round(double low, double high, int marks);
// The same, but from `low` to `high` exactly: marks lie inside.
cli_scale cli_scale_exact(double low, double high, int marks);
// The same as round, but logarithmic if `log` is set and all values are above
// 0.
cli_scale cli_scale_values(double low, double high, int marks, bool log);

// Returns the number of marks; the position of one, and of a value, as a part
// of the axis from 0 to 1; and writes the label of a mark.
int cli_scale_count(const cli_scale *scale);
double cli_scale_mark(const cli_scale *scale, int index);
double cli_scale_place(const cli_scale *scale, double value);
void cli_scale_label(const cli_scale *scale, int index, char *text,
                     size_t size);
// Writes a value for people, with about 4 digits; "nan" if it is none.
void cli_print_value(double value, char *text, size_t size);

// Range of values; both NaN for none.
typedef struct cli_range {
  double low, high;
} cli_range;
// Widens the range by the finite values of an array.
void cli_range_add(cli_range *range, const double *values, size_t count);

#endif  // LS_CLI_LOOK_SCALE_H_
