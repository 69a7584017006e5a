// SPDX-License-Identifier: Apache-2.0
#include "lockstep/strings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "support/expect.h"
#include "support/values.h"
#include "support/ways.h"

// ---- Values ----------------------------------------------------------------
static ls_tensor texts(size_t count, const ls_bytes *bytes) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE((int64_t)count),
                                 bytes, &array));
  return ls_constant(array);
}

static ls_tensor text(const char *bytes) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR,
                                 &(ls_bytes){bytes, strlen(bytes)}, &array));
  return ls_constant(array);
}

static ls_tensor floats(size_t count, const float *values) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE((int64_t)count), values,
                                 &array));
  return ls_constant(array);
}

static void expect_text(const ways *self, int r, size_t leaf, int64_t index,
                        const char *wanted) {
  const ls_array *array = self->values[self->values_of[0][r] + leaf];
  const ls_bytes got = ((const ls_bytes *)ls_array_data(array))[index];
  assert_int_equal(got.size, strlen(wanted));
  assert_memory_equal(got.data, wanted, got.size);
}

// ---- In every way ----------------------------------------------------------
static ls_nest tell(ls_nest args, ways *self) {
  (void)args, (void)self;
  const ls_tensor id = ls_as_string(ls_replica_id());
  const ls_tensor all[] = {text("Step"), id,
                           ls_as_string(floats(2, (float[]){0.1F, -3}))};
  const ls_tensor joined = ls_string_join(all, 3, "|");
  return LS_TUPLE(ls_leaf(joined), ls_leaf(ls_string_upper(joined)),
                  ls_leaf(ls_string_lower(joined)),
                  ls_leaf(ls_string_length(joined)),
                  ls_leaf(ls_string_equal(joined, text("Step|1|0.1"))),
                  ls_leaf(ls_string_to_number(
                      ls_as_string(floats(1, (float[]){0.1F})), LS_DTYPE_F32)));
}

static void expect_told(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    char wanted[40];
    snprintf(wanted, sizeof(wanted), "Step|%d|0.1", r);
    expect_text(self, r, 0, 0, wanted);
    snprintf(wanted, sizeof(wanted), "Step|%d|-3", r);
    expect_text(self, r, 0, 1, wanted);
    snprintf(wanted, sizeof(wanted), "STEP|%d|-3", r);
    expect_text(self, r, 1, 1, wanted);
    snprintf(wanted, sizeof(wanted), "step|%d|-3", r);
    expect_text(self, r, 2, 1, wanted);
    assert_true(ways_result(self, 0, r, 3, 0) == 10);
    assert_true(ways_result(self, 0, r, 3, 1) == 9);
    assert_true(ways_result(self, 0, r, 4, 0) == (r == 1));
    assert_true(ways_result(self, 0, r, 4, 1) == 0);
    assert_true(ways_result(self, 0, r, 5, 0) == (double)0.1F);
  }
}

static ls_nest no_number(ls_nest args, ways *self) {
  (void)args, (void)self;
  return ls_leaf(ls_string_to_number(text("12 apples"), LS_DTYPE_I32));
}

static ls_nest too_large(ls_nest args, ways *self) {
  (void)args, (void)self;
  return ls_leaf(ls_string_to_number(text("300"), LS_DTYPE_U8));
}

static ls_nest other_shapes(ls_nest args, ways *self) {
  (void)args, (void)self;
  const ls_bytes two[] = {{"a", 1}, {"b", 1}},
                 three[] = {{"", 0}, {"", 0}, {"", 0}};
  return ls_leaf(ls_string_equal(texts(2, two), texts(3, three)));
}

static ls_nest no_strings(ls_nest args, ways *self) {
  (void)args, (void)self;
  return ls_leaf(ls_string_length(floats(1, (float[]){1})));
}

static ls_nest below_zero(ls_nest args, ways *self) {
  (void)args, (void)self;
  return ls_leaf(ls_string_to_number(text("-1"), LS_DTYPE_U64));
}

static ls_nest beyond_all(ls_nest args, ways *self) {
  (void)args, (void)self;
  return ls_leaf(
      ls_string_to_number(text("18446744073709551616"), LS_DTYPE_U64));
}

static ls_nest largest(ls_nest args, ways *self) {
  (void)args, (void)self;
  const ls_tensor most =
      ls_string_to_number(text("18446744073709551615"), LS_DTYPE_U64);
  return ls_leaf(ls_as_string(most));
}

static void expect_largest(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    expect_text(self, r, 0, 0, "18446744073709551615");
}

TEST(numbers_are_rounded_once) {
  // The first is above the middle of 1 and the next number, by less than f64
  // tells; the others are above that of 16-bit floats, by less than f32 tells.
  assert_true(
      item_of(ls_string_to_number(text("1.00000005960464477539062500001"),
                                  LS_DTYPE_F32)) == 0x1.000002p0);
  assert_true(item_of(ls_string_to_number(text("1.000488281250001"),
                                          LS_DTYPE_F16)) == 0x1.004p0);
  assert_true(item_of(ls_string_to_number(text("-1.003906250000001"),
                                          LS_DTYPE_BF16)) == -0x1.02p0);
  assert_true(item_of(ls_string_to_number(text("1e-60"), LS_DTYPE_F16)) == 0);
  assert_true(isinf(item_of(ls_string_to_number(text("1e60"), LS_DTYPE_BF16))));
}

TEST(strings_are_the_same_in_every_way) {
  const ways_case cases[] = {
      {.name = "all of them", .step = tell, .check = expect_told},
      {.name = "no number",
       .step = no_number,
       .refused = LS_INVALID_ARGUMENT,
       .says = "element 0, '12 apples', is no i32"},
      {.name = "too large",
       .step = too_large,
       .refused = LS_INVALID_ARGUMENT,
       .says = "element 0, '300', is no u8"},
      {.name = "largest", .step = largest, .check = expect_largest},
      {.name = "below zero",
       .step = below_zero,
       .refused = LS_INVALID_ARGUMENT,
       .says = "element 0, '-1', is no u64"},
      {.name = "beyond all",
       .step = beyond_all,
       .refused = LS_INVALID_ARGUMENT,
       .says = "'18446744073709551616', is no u64"},
      {.name = "other shapes",
       .step = other_shapes,
       .refused = LS_INVALID_ARGUMENT,
       .says = "operands of one shape or scalars are needed"},
      {.name = "numbers",
       .step = no_strings,
       .refused = LS_INVALID_ARGUMENT,
       .says = "operand 0 must be strings, is f32[1]"},
  };
  ways_hold(cases, sizeof(cases) / sizeof(*cases));
}
