// SPDX-License-Identifier: Apache-2.0
// Rows of batches: parts along any axis, and padding of parts.
#include "base/memory/own.h"
#include "distribute/input/feed.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/spec.h"

static ls_nest numbers(ls_shape shape) {
  const ls_nest made = ls_nest_zeros(LS_DTYPE_I32, shape);
  ls_array *array = ls_nest_as_array(made);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_i64(array, i, i + 1);
  return made;
}

static void expect_numbers(ls_nest nest, const int *expected, int64_t count) {
  const ls_array *array = ls_nest_as_array(nest);
  assert_non_null(array);
  assert_int_equal(ls_array_num_elements(array), count);
  for (int64_t i = 0; i < count; ++i)
    assert_int_equal(ls_array_i64(array, i), expected[i]);
  ls_nest_release(nest);
}
#define EXPECT_NUMBERS(nest, ...)                                              \
  expect_numbers((nest), (const int[]){__VA_ARGS__},                           \
                 (int64_t)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

TEST(parts_begin_where_the_earlier_ones_end) {
  for (int up = 0; up < 2; ++up)
    for (int64_t parts = 1; parts <= 7; ++parts)
      for (int64_t rows = 0; rows <= 20; ++rows) {
        const ls_row_shares shares = {.parts = parts, .round_up = up == 1};
        int64_t begin = 0;
        for (int64_t p = 0; p < parts; ++p) {
          const int64_t count = ls_shares_rows(&shares, rows, p);
          assert_int_equal(ls_shares_begin(&shares, rows, p), begin);
          assert_true(count >= 0);
          if (up == 0) assert_int_equal(count, ls_part_rows(rows, parts, p));
          begin += count;
        }
        assert_int_equal(begin, rows);
      }
}

TEST(rows_are_taken_along_an_axis) {
  LS_OWN(counted, c) = counted_begin(1);
  const ls_nest whole = numbers(LS_SHAPE(2, 3));
  ls_nest part = ls_none();
  expect_ok(ls_rows_take(whole, 0, 1, 1, &part));
  EXPECT_NUMBERS(part, 4, 5, 6);
  expect_ok(ls_rows_take(whole, 1, 1, 2, &part));
  EXPECT_NUMBERS(part, 2, 3, 5, 6);
  expect_ok(ls_rows_take(whole, 1, 3, 0, &part));
  assert_int_equal(ls_array_num_elements(ls_nest_as_array(part)), 0);
  ls_nest_release(part);
  ls_nest_release(whole);
  LS_OWN(ls_nest, words) = ls_nest_zeros(LS_DTYPE_STRING, LS_SHAPE(2, 3));
  part = ls_none();
  expect_status(ls_rows_take(words, 1, 0, 1, &part), LS_INVALID_ARGUMENT,
                "only arrays of numbers");
}

// Five rows in two parts with room for four each.
TEST(real_rows_begin_each_padded_part) {
  LS_SPEC("E96");
  LS_OWN(counted, c) = counted_begin(1);
  const int64_t axes[] = {0, 1};
  const ls_row_shares shares = {
      .parts = 2, .room = 4, .axes = axes, .num_axes = 2};
  LS_OWN(ls_nest, batch) =
      LS_LIST(numbers(LS_SHAPE(5)), numbers(LS_SHAPE(1, 5)));
  LS_OWN(ls_nest, padded) = ls_shares_pad(&shares, 0, batch, 5);
  expect_ok(ls_nest_status(padded));
  EXPECT_NUMBERS(ls_nest_retain(ls_nest_item(padded, 0)), 1, 2, 3, 0, 4, 5, 0,
                 0);
  EXPECT_NUMBERS(ls_nest_retain(ls_nest_item(padded, 1)), 1, 2, 3, 0, 4, 5, 0,
                 0);
  EXPECT_NUMBERS(ls_shares_mask(&shares, 5, LS_DTYPE_I32, true), 1, 1, 1, 0, 1,
                 1, 0, 0);
  EXPECT_NUMBERS(ls_shares_mask(&shares, 5, LS_DTYPE_I32, false), 0, 0, 0, 1, 0,
                 0, 1, 1);
}
