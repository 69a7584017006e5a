// SPDX-License-Identifier: Apache-2.0
#include "lockstep/shape.h"
#include "lockstep/shape_rules.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "support/expect.h"

// "2,?" and the like; "..." for nothing known.
static ls_shape shape_of(const char *dims) {
  char text[100];
  snprintf(text, sizeof(text), "f32[%s]", dims);
  ls_dtype dtype = LS_DTYPE_NONE;
  ls_shape shape = {0};
  expect_ok(ls_shape_parse(text, &dtype, &shape));
  return shape;
}

static void expect_shape(ls_shape got, const char *want) {
  char text[200];
  char wanted[200];
  snprintf(wanted, sizeof(wanted), "f32[%s]", want);
  assert_string_equal(ls_shape_print(LS_DTYPE_F32, got, text, sizeof(text)),
                      wanted);
}

// ---- Dtypes ----------------------------------------------------------------
TEST(every_dtype_reads_back_from_its_name) {
  for (int i = 0; i < LS_DTYPE_COUNT; ++i) {
    ls_dtype dtype = LS_DTYPE_COUNT;
    expect_ok(ls_dtype_parse(ls_dtype_name((ls_dtype)i), &dtype));
    assert_int_equal(dtype, i);
  }
  assert_string_equal(ls_dtype_name(LS_DTYPE_BF16), "bf16");
  assert_string_equal(ls_dtype_name((ls_dtype)77), "?");
}

TEST(an_unknown_dtype_is_refused_with_the_list) {
  ls_dtype dtype = LS_DTYPE_F32;
  expect_status(ls_dtype_parse("float", &dtype), LS_INVALID_ARGUMENT,
                "'float'; the dtypes are none f64 f32");
  assert_int_equal(dtype, LS_DTYPE_NONE);
  expect_status(ls_dtype_parse("", &dtype), LS_INVALID_ARGUMENT, "variant");
}

TEST(dtypes_know_their_size_and_class) {
  static const struct {
    ls_dtype dtype;
    size_t size;
    const char *classes;  // f, i, u, c, t(rainable)
  } rows[] = {
      {LS_DTYPE_NONE, 0, ""},     {LS_DTYPE_F64, 8, "ft"},
      {LS_DTYPE_F32, 4, "ft"},    {LS_DTYPE_F16, 2, "ft"},
      {LS_DTYPE_BF16, 2, "ft"},   {LS_DTYPE_I8, 1, "i"},
      {LS_DTYPE_I64, 8, "i"},     {LS_DTYPE_U8, 1, "iu"},
      {LS_DTYPE_U64, 8, "iu"},    {LS_DTYPE_BOOL, 1, ""},
      {LS_DTYPE_STRING, 16, ""},  {LS_DTYPE_C64, 8, "ct"},
      {LS_DTYPE_C128, 16, "ct"},  {LS_DTYPE_RESOURCE, 8, "t"},
      {LS_DTYPE_VARIANT, 8, "t"}, {LS_DTYPE_COUNT, 0, ""},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    const ls_dtype dtype = rows[i].dtype;
    const char *classes = rows[i].classes;
    assert_int_equal(ls_dtype_size(dtype), rows[i].size);
    assert_int_equal(ls_dtype_is_float(dtype), strchr(classes, 'f') != NULL);
    assert_int_equal(ls_dtype_is_integer(dtype), strchr(classes, 'i') != NULL);
    assert_int_equal(ls_dtype_is_unsigned(dtype), strchr(classes, 'u') != NULL);
    assert_int_equal(ls_dtype_is_complex(dtype), strchr(classes, 'c') != NULL);
    assert_int_equal(ls_dtype_is_trainable(dtype),
                     strchr(classes, 't') != NULL);
  }
}

// ---- Rules -----------------------------------------------------------------
TEST(macros_make_shapes) {
  expect_shape(LS_SHAPE(2, 3), "2,3");
  expect_shape(LS_SCALAR, "");
  expect_shape(LS_SHAPE_UNKNOWN, "...");
  assert_true(ls_shape_is_known(LS_SCALAR));
  assert_true(ls_shape_is_known(LS_SHAPE(0)));
  assert_false(ls_shape_is_known(LS_SHAPE(2, LS_UNKNOWN_DIM)));
  assert_false(ls_shape_is_known(LS_SHAPE_UNKNOWN));
}

TEST(equality_ignores_what_is_beyond_the_rank) {
  ls_shape other = LS_SHAPE(2, 3);
  other.dim[5] = 9;
  assert_true(ls_shape_equal(LS_SHAPE(2, 3), other));
  assert_false(ls_shape_equal(LS_SHAPE(2, 3), LS_SHAPE(2, 4)));
  assert_false(ls_shape_equal(LS_SHAPE(2), LS_SHAPE(2, 1)));
  assert_true(ls_shape_equal(LS_SHAPE_UNKNOWN, LS_SHAPE_UNKNOWN));
  assert_false(ls_shape_equal(LS_SHAPE_UNKNOWN, LS_SCALAR));
}

// Two shapes, and what comes of them: a shape, or part of the message.
typedef struct pair_case {
  const char *a;
  const char *b;
  const char *want;  // Starts with '!': part of the message.
} pair_case;

static void run_pairs(const pair_case *rows, size_t count,
                      ls_status (*fn)(ls_shape, ls_shape, ls_shape *)) {
  for (size_t i = 0; i < 2 * count; ++i) {
    const pair_case *row = &rows[i / 2];
    // Both ways around.
    const ls_shape a = shape_of(i % 2 == 0 ? row->a : row->b);
    const ls_shape b = shape_of(i % 2 == 0 ? row->b : row->a);
    ls_shape got = {0};
    ls_status status = fn(a, b, &got);
    if (row->want[0] == '!') {
      expect_status(status, LS_INVALID_ARGUMENT, row->want + 1);
    } else {
      expect_ok(status);
      expect_shape(got, row->want);
    }
  }
}

TEST(merging_keeps_what_either_knows) {
  static const pair_case rows[] = {
      {"2,3", "2,3", "2,3"},  {"2,?", "?,3", "2,3"}, {"?,?", "?,3", "?,3"},
      {"...", "2,?", "2,?"},  {"...", "...", "..."}, {"", "", ""},
      {"2,3", "2,4", "![2,"}, {"2", "2,3", "![2]"},  {"?", "", "![?]"},
      {"0", "?", "0"},
  };
  run_pairs(rows, LS_COUNT_OF(rows), ls_shape_merge);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    assert_int_equal(
        ls_shape_compatible(shape_of(rows[i].a), shape_of(rows[i].b)),
        rows[i].want[0] != '!');
  }
}

TEST(broadcasting_follows_numpy) {
  static const pair_case rows[] = {
      {"2,3", "3", "2,3"},
      {"2,3", "", "2,3"},
      {"0,3", "1,3", "0,3"},
      {"4,1,3", "5,1", "4,5,3"},
      {"?,3", "1,3", "?,3"},
      {"?,3", "4,3", "4,3"},
      {"?", "0", "0"},
      {"?", "?", "?"},
      {"...", "2", "..."},
      {"2,3", "4", "!against"},
      {"2,3", "2", "!counted 1 from the end"},
      {"0", "2", "!against"},
  };
  run_pairs(rows, LS_COUNT_OF(rows), ls_shape_broadcast);
}

TEST(elements_are_counted_or_unknown) {
  assert_int_equal(ls_shape_num_elements(LS_SHAPE(2, 3, 4)), 24);
  assert_int_equal(ls_shape_num_elements(LS_SCALAR), 1);
  assert_int_equal(ls_shape_num_elements(LS_SHAPE(5, 0)), 0);
  assert_int_equal(ls_shape_num_elements(LS_SHAPE(5, -1)), -1);
  assert_int_equal(ls_shape_num_elements(LS_SHAPE_UNKNOWN), -1);
  const int64_t large = INT64_C(1) << 40;
  assert_int_equal(ls_shape_num_elements(LS_SHAPE(large, large)), INT64_MAX);
  assert_int_equal(ls_shape_num_elements(LS_SHAPE(large, large, 0)), 0);
}

TEST(absurd_shapes_are_refused) {
  const int64_t large = INT64_C(1) << 46;
  expect_ok(ls_shape_check(LS_SHAPE(large)));
  expect_ok(ls_shape_check(LS_SHAPE(-1, 0, 3)));
  expect_ok(ls_shape_check(LS_SHAPE_UNKNOWN));
  expect_status(ls_shape_check(LS_SHAPE(large, 2)), LS_INVALID_ARGUMENT,
                "more than");
  expect_ok(ls_shape_check(LS_SHAPE(0, large)));
  expect_status(ls_shape_check(LS_SHAPE(0, large, 2)), LS_INVALID_ARGUMENT,
                "more than");
  expect_status(ls_shape_check(LS_SHAPE(large + 1)), LS_INVALID_ARGUMENT,
                "dimension 0");
  expect_status(ls_shape_check(LS_SHAPE(large, large, large)),
                LS_INVALID_ARGUMENT, "more than");
  expect_status(ls_shape_check(LS_SHAPE(3, -2)), LS_INVALID_ARGUMENT,
                "dimension 1 of [3,-2]");
  expect_status(ls_shape_check((ls_shape){.rank = 9}), LS_INVALID_ARGUMENT,
                "rank 9");
  expect_status(ls_shape_check((ls_shape){.rank = -2}), LS_INVALID_ARGUMENT,
                "rank -2");
}

// ---- Text ------------------------------------------------------------------
TEST(what_parses_prints_back_the_same) {
  static const char *const texts[] = {"f32[]",
                                      "f32[2,?]",
                                      "i32[...]",
                                      "bool[0]",
                                      "none[7]",
                                      "string[1,2,3]",
                                      "resource[]",
                                      "u8[1,1,1,1,1,1,1,1]",
                                      "bf16[70368744177664]",
                                      "c128[?,?,?,?,?,?,?,?]"};
  for (size_t i = 0; i < LS_COUNT_OF(texts); ++i) {
    ls_dtype dtype = LS_DTYPE_NONE;
    ls_shape shape = {0};
    expect_ok(ls_shape_parse(texts[i], &dtype, &shape));
    assert_string_equal(LS_SHAPE_TEXT(dtype, shape), texts[i]);
  }
}

TEST(wrong_texts_are_refused_at_the_first_wrong_place) {
  static const struct {
    const char *text;
    const char *part;
  } rows[] = {
      {"", "no dtype"},
      {"[2]", "no dtype"},
      {"f32", "'[' expected at character 4"},
      {"f33[2]", "'f33'"},
      {"f32[", "a number or ? expected at character 5"},
      {"f32[2", "',' or ']' expected at character 6"},
      {"f32[2,", "a number or ? expected at character 7"},
      {"f32[2,]", "character 7"},
      {"f32[,2]", "character 5"},
      {"f32[2]x", "the end expected at character 7"},
      {"f32[2]]", "the end"},
      {"f32 [2]", "no dtype"},
      {"f32[ 2]", "character 5"},
      {"f32[-1]", "character 5"},
      {"f32[+1]", "character 5"},
      {"f32[02]", "leading zero expected at character 5"},
      {"f32[??]", "character 6"},
      {"f32[..]", "character 5"},
      {"f32[...,2]", "character 8"},
      {"f32[1,1,1,1,1,1,1,1,1]", "ninth"},
      {"f32[99999999999999999999]", "smaller"},
      {"f32[9223372036854775807]", "dimension 0"},
      {"f32[70368744177664,2]", "more than"},
      {"a_name_longer_than_any_dtype[2]", "character 1"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_dtype dtype = LS_DTYPE_F32;
    ls_shape shape = LS_SHAPE(5);
    expect_status(ls_shape_parse(rows[i].text, &dtype, &shape),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_int_equal(dtype, LS_DTYPE_NONE);
    assert_int_equal(shape.rank, 0);
  }
}

TEST(printing_cuts_to_the_buffer) {
  char text[8];
  assert_string_equal(ls_shape_print(LS_DTYPE_F32, LS_SHAPE(10, 20), text, 8),
                      "f32[10,");
  assert_string_equal(ls_shape_print(LS_DTYPE_F32, LS_SHAPE(10, 20), text, 1),
                      "");
  text[0] = 'x';
  ls_shape_print(LS_DTYPE_F32, LS_SCALAR, text, 0);
  assert_int_equal(text[0], 'x');
  // The longest there is.
  ls_shape longest = {.rank = 8};
  for (int i = 0; i < 8; ++i)
    longest.dim[i] = INT64_MIN;
  const char *printed = LS_SHAPE_TEXT(LS_DTYPE_RESOURCE, longest);
  assert_int_equal(printed[strlen(printed) - 1], ']');
}
