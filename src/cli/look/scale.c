// SPDX-License-Identifier: Apache-2.0
#include "cli/look/canvas.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void cli_range_add(cli_range *range, const double *values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!isfinite(values[i])) continue;
    if (!(range->low <= values[i])) range->low = values[i];
    if (!(range->high >= values[i])) range->high = values[i];
  }
}

// Returns the least of 1, 2, 5 times a power of ten that is at least `width`.
static double round_step(double width) {
  const double power = pow(10, floor(log10(width)));
  const double digit = width / power;
  const double rounded = digit <= 1.0000001   ? 1
                         : digit <= 2.0000001 ? 2
                         : digit <= 5.0000001 ? 5
                                              : 10;
  return rounded * power;
}

cli_scale cli_scale_exact(double low, double high, int marks) {
  if (isnan(low) || isnan(high)) return (cli_scale){.high = 1, .step = 1};
  // Halves before the difference, which may be infinite.
  const double width = high / 2 - low / 2;
  const double least = 1e-9 * fmax(fabs(low), fabs(high));
  if (!(width > least) || width < 1e-300) {
    const double about = fabs(low) > 0 ? fabs(low) / 10 : 0.5;
    low -= about;
    high += about;
  }
  return (cli_scale){.low = low,
                     .high = high,
                     .step =
                         round_step(2 * (high / 2 - low / 2) / (double)marks)};
}

cli_scale cli_scale_round(double low, double high, int marks) {
  cli_scale scale = cli_scale_exact(low, high, marks);
  if (!isfinite(scale.step))
    return (cli_scale){.low = low, .high = high, .step = high / 2 - low / 2};
  scale.low = floor(scale.low / scale.step + 1e-6) * scale.step;
  scale.high = ceil(scale.high / scale.step - 1e-6) * scale.step;
  return scale;
}

cli_scale cli_scale_values(double low, double high, int marks, bool log) {
  if (!log || !(low > 0)) return cli_scale_round(low, high, marks);
  cli_scale scale = cli_scale_round(log10(low), log10(high), marks);
  scale.log = true;
  return scale;
}

// Returns the first mark.
static double find_first(const cli_scale *scale) {
  const double first = ceil(scale->low / scale->step - 1e-6) * scale->step;
  return isfinite(first) ? first : scale->low;
}

int cli_scale_count(const cli_scale *scale) {
  const double count = (scale->high - find_first(scale)) / scale->step;
  return count >= 0 && count < 1000 ? (int)(count + 1.000001) : 1;
}

// Returns the part of a value, or of its logarithm. Halves, since a difference
// may be infinite.
static double find_part(const cli_scale *scale, double value) {
  const double part =
      (value / 2 - scale->low / 2) / (scale->high / 2 - scale->low / 2);
  return fmin(fmax(part, 0), 1);
}

double cli_scale_mark(const cli_scale *scale, int index) {
  return find_part(scale, find_first(scale) + index * scale->step);
}

double cli_scale_place(const cli_scale *scale, double value) {
  return find_part(scale, scale->log ? log10(value) : value);
}

// Returns the digits, at least `least`, of a value that tell it from those
// `gap` away.
static int count_digits(double value, double gap, int least) {
  const double digits =
      floor(log10(fabs(value))) - floor(log10(gap) + 1e-6) + 1;
  return digits > least ? (int)fmin(digits, 12) : least;
}

// Writes a number as an axis has it: 0.25, 12k, 1e-05.
static void print_mark(double value, double gap, char *text, size_t size) {
  static const struct {
    double unit;
    const char *letter;
  } units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (size_t i = 0; i < sizeof(units) / sizeof(*units); ++i) {
    const double scaled = value / units[i].unit;
    if (fabs(value) < 1e4 || fabs(scaled) < 1 || fabs(scaled) >= 1e4) continue;
    snprintf(text, size, "%.*g%s", count_digits(value, gap, 4), scaled,
             units[i].letter);
    return;
  }
  snprintf(text, size, "%.*g", count_digits(value, gap, 5),
           value == 0 ? 0.0 : value);
}

void cli_scale_label(const cli_scale *scale, int index, char *text,
                     size_t size) {
  const double value = find_first(scale) + index * scale->step;
  const double power = pow(10, value);
  if (scale->log)
    snprintf(text, size, "%.*g",
             count_digits(power, power * (pow(10, scale->step) - 1), 3), power);
  else
    print_mark(value, scale->step, text, size);
}

int cli_scale_widest(const cli_scale *scale) {
  int widest = 1;
  for (int k = 0; k < cli_scale_count(scale); ++k) {
    char label[32];
    cli_scale_label(scale, k, label, sizeof(label));
    if ((int)strlen(label) > widest) widest = (int)strlen(label);
  }
  return widest;
}

void cli_print_value(double value, char *text, size_t size) {
  const double whole = fabs(value);
  if (isnan(value))
    snprintf(text, size, "nan");
  else if (whole >= 1000 && whole < 1e7)
    snprintf(text, size, "%.0f", value);
  else
    snprintf(text, size, "%.4g", value);
}
