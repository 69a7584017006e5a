// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>

#include "support/draw.h"
#include "support/expect.h"

// The program's own, which is not in the library.
#include "cli/look/scale.c"

// Checks that an axis covers its values and has a few marks inside.
static void expect_scale(const cli_scale *scale, double low, double high,
                         int most) {
  const int count = cli_scale_count(scale);
  assert_in_range(count, 1, most);
  assert_true(cli_scale_place(scale, low) >= 0);
  assert_true(cli_scale_place(scale, high) <= 1);
  assert_true(cli_scale_place(scale, low) <= cli_scale_place(scale, high));
  for (int k = 0; k < count; ++k) {
    char label[32];
    const double part = cli_scale_mark(scale, k);
    assert_true(part >= 0 && part <= 1);
    cli_scale_label(scale, k, label, sizeof(label));
    assert_true(label[0] != '\0' && strlen(label) < 20);
  }
}

TEST(axes_cover_any_range_with_few_marks) {
  static const double ends[] = {0,     1,       -1,     0.3,     1e-300,
                                1e300, -1e300,  1e-5,   123456,  1.0000000001,
                                -0.0,  1.7e308, 1e-310, -1.7e308};
  const size_t count = sizeof(ends) / sizeof(*ends);
  for (size_t i = 0; i < count * count; ++i) {
    const double low = fmin(ends[i / count], ends[i % count]);
    const double high = fmax(ends[i / count], ends[i % count]);
    for (int marks = 1; marks <= 6; ++marks) {
      const cli_scale round = cli_scale_round(low, high, marks);
      const cli_scale exact = cli_scale_exact(low, high, marks);
      const cli_scale log = cli_scale_values(low, high, marks, true);
      expect_scale(&round, low, high, marks + 3);
      expect_scale(&exact, low, high, marks + 3);
      expect_scale(&log, low, high, marks + 3);
      assert_int_equal(log.log, low > 0);
    }
  }
  const cli_scale none = cli_scale_round(NAN, NAN, 4);
  assert_int_equal(cli_scale_count(&none), 2);
}

static void expect_labels(const cli_scale *scale, const char *wanted) {
  char all[256] = "";
  for (int k = 0; k < cli_scale_count(scale); ++k) {
    char label[32];
    cli_scale_label(scale, k, label, sizeof(label));
    snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s",
             k > 0 ? " " : "", label);
  }
  assert_string_equal(all, wanted);
}

TEST(marks_are_round_numbers) {
  cli_scale scale = cli_scale_round(0.13, 0.97, 5);
  expect_labels(&scale, "0 0.2 0.4 0.6 0.8 1");
  scale = cli_scale_exact(0, 96, 4);
  expect_labels(&scale, "0 50");
  scale = cli_scale_round(-3, 12, 4);
  expect_labels(&scale, "-5 0 5 10 15");
  scale = cli_scale_round(0, 40000, 2);
  expect_labels(&scale, "0 20k 40k");
  scale = cli_scale_round(5, 5, 2);
  expect_labels(&scale, "4.5 5 5.5");
  scale = cli_scale_values(0.002, 30, 5, true);
  expect_labels(&scale, "0.001 0.01 0.1 1 10 100");
  // As many digits as tell marks apart.
  scale = cli_scale_round(0.693147, 0.693148, 4);
  expect_labels(&scale, "0.693147 0.6931475 0.693148");
  scale = cli_scale_exact(123456000, 123456100, 5);
  expect_labels(&scale, "123.456M 123.45602M 123.45604M 123.45606M 123.45608M "
                        "123.4561M");
  scale = cli_scale_values(1000, 1010, 4, true);
  expect_labels(&scale, "1000 1005 1009 1014");
}
