// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array.h"

#include <math.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "lockstep/half.h"
#include "lockstep/object.h"
#include "lockstep/shape_rules.h"
#include "support/counted.h"
#include "support/fault.h"

static ls_array *make(ls_dtype dtype, ls_shape shape) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype, shape, &array));
  return array;
}

// ---- Creation --------------------------------------------------------------
TEST(a_new_array_is_zero_and_aligned) {
  for (int dtype = 1; dtype < LS_DTYPE_COUNT; ++dtype) {
    LS_OWN(ls_array, array) = make((ls_dtype)dtype, LS_SHAPE(3, 5));
    assert_int_equal(ls_array_dtype(array), dtype);
    assert_true(ls_shape_equal(ls_array_shape(array), LS_SHAPE(3, 5)));
    assert_int_equal(ls_array_num_elements(array), 15);
    assert_int_equal(ls_array_size(array), 15 * ls_dtype_size((ls_dtype)dtype));
    const char *data = ls_array_data(array);
    assert_int_equal((uintptr_t)data % 64, 0);
    for (size_t i = 0; i < ls_array_size(array); ++i) {
      assert_int_equal(data[i], 0);
    }
    assert_ptr_equal(ls_array_mutable_data(array), data);
  }
}

TEST(an_empty_array_has_no_elements) {
  LS_OWN(ls_array, array) = make(LS_DTYPE_F32, LS_SHAPE(0, 7));
  assert_int_equal(ls_array_num_elements(array), 0);
  assert_int_equal(ls_array_size(array), 0);
  ls_array_release(array);
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(0), NULL, &array));
}

TEST(absurd_arrays_are_refused) {
  ls_array *array = NULL;
  expect_status(ls_array_create(LS_DTYPE_NONE, LS_SCALAR, &array),
                LS_INVALID_ARGUMENT, "dtype none");
  expect_status(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2, -1), &array),
                LS_INVALID_ARGUMENT, "f32[2,?]");
  expect_status(ls_array_create(LS_DTYPE_F32, LS_SHAPE_UNKNOWN, &array),
                LS_INVALID_ARGUMENT, "f32[...]");
  expect_status(ls_array_create(LS_DTYPE_F32, (ls_shape){.rank = 9}, &array),
                LS_INVALID_ARGUMENT, "rank 9");
  assert_null(array);
}

TEST(too_large_an_array_says_how_many_bytes) {
  LS_OWN(counted, memory) = counted_begin(1);
  ls_counting_allocator_fail_at(memory.memory, 1);
  ls_array *array = NULL;
  expect_status(ls_array_create(LS_DTYPE_F64, LS_SHAPE(10, 100), &array),
                LS_RESOURCE_EXHAUSTED, "f64[10,100]: 8000 bytes");
  assert_null(array);
}

TEST(an_array_goes_back_to_the_allocator_it_came_from) {
  ls_counting_allocator *memory = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &memory));
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){
          .allocator = ls_counting_allocator_allocator(memory), .threads = 1},
      &runtime));
  const uint64_t own = ls_counting_allocator_counts(memory).live_blocks;
  ls_runtime *before = ls_runtime_make_current(runtime);
  ls_array *array = make(LS_DTYPE_F32, LS_SHAPE(8));
  ls_runtime_make_current(before);
  assert_int_equal(ls_counting_allocator_counts(memory).live_blocks, own + 1);
  ls_array_release(array);
  assert_int_equal(ls_counting_allocator_counts(memory).live_blocks, own);
  expect_ok(ls_runtime_destroy(runtime));
  ls_counting_allocator_destroy(memory);
}

TEST(a_copy_is_apart_from_its_source) {
  int32_t source[] = {1, 2, 3, 4, 5, 6};
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(2, 3), source, &array));
  source[4] = 0;
  assert_int_equal(ls_array_i64(array, 4), 5);
}

TEST(strings_are_copied_with_their_bytes) {
  char word[] = "alpha";
  const ls_bytes source[] = {{word, 5}, {"", 0}, {"b\0c", 3}, {NULL, 0}};
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(4), source, &array));
  word[0] = 'X';
  const ls_bytes *strings = ls_array_data(array);
  assert_string_equal(strings[0].data, "alpha");
  assert_int_equal(strings[1].size, 0);
  assert_string_equal(strings[1].data, "");
  assert_int_equal(strings[2].size, 3);
  assert_memory_equal(strings[2].data, "b\0c", 4);
  assert_int_equal(strings[3].size, 0);
  assert_int_equal(ls_array_f64(array, 0), 0);
  ls_array_release(array);
  const ls_bytes absurd = {word, SIZE_MAX - 10};
  expect_status(
      ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &absurd, &array),
      LS_RESOURCE_EXHAUSTED, "string[]");
}

static void count_release(void *user) { ++*(int *)user; }

TEST(a_view_lends_and_tells_when_it_ends) {
  float data[4] = {1, 2, 3, 4};
  int released = 0;
  ls_array *view = NULL;
  expect_ok(ls_array_create_view(LS_DTYPE_F32, LS_SHAPE(2, 2), data,
                                 count_release, &released, &view));
  assert_ptr_equal(ls_array_data(view), data);
  ls_array_set_f64(view, 3, 9);
  assert_true(data[3] == 9);
  ls_array_retain(view);
  ls_array_release(view);
  assert_int_equal(released, 0);
  ls_array_release(view);
  assert_int_equal(released, 1);
  expect_ok(
      ls_array_create_view(LS_DTYPE_F32, LS_SHAPE(4), data, NULL, NULL, &view));
  ls_array_release(view);
  expect_status(ls_array_create_view(LS_DTYPE_STRING, LS_SHAPE(1), data, NULL,
                                     NULL, &view),
                LS_INVALID_ARGUMENT, "view of strings");
  assert_null(view);
}

static int destroyed;
static void count_destroyed(ls_object *object) {
  (void)object;
  ++destroyed;
}
static const ls_object_type counted_type = {.name = "counted",
                                            .destroy = count_destroyed};

TEST(arrays_of_resources_own_references) {
  ls_object object;
  ls_object_init(&object, &counted_type);
  ls_object *const source[] = {&object, NULL, &object};
  ls_array *array = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_RESOURCE, LS_SHAPE(3), source, &array));
  assert_int_equal(object.references, 3);
  destroyed = 0;
  ls_array_release(array);
  assert_int_equal(object.references, 1);
  assert_int_equal(destroyed, 0);
  ls_object_release(&object);
  assert_int_equal(destroyed, 1);
}

TEST(references_are_counted) {
  ls_array *array = make(LS_DTYPE_F32, LS_SCALAR);
  assert_true(ls_array_is_unique(array));
  assert_ptr_equal(ls_array_retain(array), array);
  assert_false(ls_array_is_unique(array));
  ls_array_release(array);
  assert_true(ls_array_is_unique(array));
  ls_array_release(array);
  ls_array_release(NULL);
  assert_null(ls_array_retain(NULL));
  assert_false(ls_array_is_unique(NULL));
}

// ---- Conversion ------------------------------------------------------------
TEST(small_numbers_survive_in_every_dtype) {
  for (int d = LS_DTYPE_F64; d <= LS_DTYPE_U64; ++d) {
    LS_OWN(ls_array, array) = make((ls_dtype)d, LS_SHAPE(2));
    const bool is_signed = !ls_dtype_is_unsigned((ls_dtype)d);
    for (int64_t value = is_signed ? -128 : 0; value <= 127; ++value) {
      ls_array_set_i64(array, 1, value);
      assert_int_equal(ls_array_i64(array, 1), value);
      assert_true(ls_array_f64(array, 1) == (double)value);
      ls_array_set_f64(array, 0, (double)value);
      assert_int_equal(ls_array_i64(array, 0), value);
    }
  }
}

TEST(floats_become_integers_towards_zero_and_saturate) {
  static const struct {
    ls_dtype dtype;
    double value;
    int64_t want;
  } rows[] = {
      {LS_DTYPE_I32, 2.9, 2},
      {LS_DTYPE_I32, -2.9, -2},
      {LS_DTYPE_I8, 300, 127},
      {LS_DTYPE_I8, -300, -128},
      {LS_DTYPE_U8, -1, 0},
      {LS_DTYPE_U8, 256, 255},
      {LS_DTYPE_I64, 1e30, INT64_MAX},
      {LS_DTYPE_I64, -1e30, INT64_MIN},
      {LS_DTYPE_U64, 1e30, -1},
      {LS_DTYPE_U64, -5, 0},
      {LS_DTYPE_U32, 4294967295.5, 4294967295},
      {LS_DTYPE_I16, NAN, 0},
      {LS_DTYPE_U64, NAN, 0},
      {LS_DTYPE_BOOL, 0.1, 1},
      {LS_DTYPE_BOOL, 0, 0},
      {LS_DTYPE_F64, 3.7, 3},
      {LS_DTYPE_F32, -INFINITY, INT64_MIN},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_array, array) = make(rows[i].dtype, LS_SCALAR);
    ls_array_set_f64(array, 0, rows[i].value);
    assert_int_equal(ls_array_i64(array, 0), rows[i].want);
  }
}

TEST(integers_keep_their_low_bits) {
  LS_OWN(ls_array, array) = make(LS_DTYPE_U8, LS_SCALAR);
  ls_array_set_i64(array, 0, 513);
  assert_int_equal(ls_array_i64(array, 0), 1);
  ls_array_release(array);
  array = make(LS_DTYPE_U64, LS_SCALAR);
  ls_array_set_i64(array, 0, -1);
  assert_int_equal(ls_array_i64(array, 0), -1);
  assert_true(ls_array_f64(array, 0) == 0x1p64);
}

TEST(an_index_or_dtype_without_number_gives_zero) {
  LS_OWN(ls_array, array) = make(LS_DTYPE_F32, LS_SHAPE(2));
  ls_array_set_f64(array, 2, 5);
  ls_array_set_i64(array, -1, 5);
  assert_true(ls_array_f64(array, 2) == 0);
  assert_int_equal(ls_array_i64(array, -1), 0);
  ls_array_release(array);
  array = make(LS_DTYPE_C64, LS_SCALAR);
  ls_array_set_f64(array, 0, 5);
  ls_array_set_i64(array, 0, 5);
  assert_true(ls_array_f64(array, 0) == 0);
  assert_int_equal(ls_array_i64(array, 0), 0);
}

// ---- 16 bits ---------------------------------------------------------------
TEST(f16_goes_through_f32_and_back) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = ls_f16_to_f32((uint16_t)bits);
    const uint16_t back = ls_f16_from_f32(value);
    if (isnan(value)) {
      assert_true((back & 0x7C00) == 0x7C00 && (back & 0x3FF) != 0);
    } else {
      assert_int_equal(back, bits);
    }
    const float wide = ls_bf16_to_f32((uint16_t)bits);
    const uint16_t again = ls_bf16_from_f32(wide);
    assert_true(isnan(wide) ? isnan(ls_bf16_to_f32(again)) : again == bits);
  }
  assert_true(ls_f16_to_f32(0x3C00) == 1.0F);
  assert_true(ls_f16_to_f32(0x7BFF) == 65504.0F);
  assert_true(ls_f16_to_f32(0x0001) == 0x1p-24F);
  assert_true(ls_bf16_to_f32(0x3F80) == 1.0F);
}

// The 16-bit number nearest to `value`, by trying them all; ties to even.
static uint16_t nearest_f16(double value) {
  uint16_t best = 0;
  double distance = INFINITY;
  for (uint32_t bits = 0; bits <= 0x7C00; ++bits) {
    // Infinity stands where the next number would.
    const double at =
        bits == 0x7C00 ? 65536 : (double)ls_f16_to_f32((uint16_t)bits);
    const double d = fabs(at - fabs(value));
    if (d < distance || (d == distance && bits % 2 == 0)) {
      best = (uint16_t)bits;
      distance = d;
    }
  }
  return (uint16_t)(best | (signbit(value) ? 0x8000 : 0));
}

TEST(rounding_to_f16_is_to_nearest_even) {
  static const double values[] = {
      0.0,
      -0.0,
      1.0,
      1.0009765625,
      1.00048828125,
      1.0004882813,
      1.00146484375,
      65504,
      65519.99,
      65520,
      1e6,
      0x1p-24,
      0x1p-25,
      0x1.000002p-25,
      0x1.8p-24,
      0x1.ffcp-15,
      0x1.ffep-15,
      0x1.fffp-15,
      -3.14159,
      1e-30,
      // Rounding to f32 first would end on the other side.
      1.0 + 0x1p-11 + 0x1p-40,
      1.0 + 0x1p-11 - 0x1p-40,
      0x1p-25 + 0x1p-60,
  };
  LS_OWN(ls_array, array) = make(LS_DTYPE_F16, LS_SCALAR);
  for (size_t i = 0; i < LS_COUNT_OF(values); ++i) {
    ls_array_set_f64(array, 0, values[i]);
    const uint16_t got = *(const uint16_t *)ls_array_data(array);
    assert_int_equal(got, nearest_f16(values[i]));
    if ((double)(float)values[i] == values[i]) {
      assert_int_equal(ls_f16_from_f32((float)values[i]), got);
    }
  }
}

TEST(rounding_to_bf16_is_to_nearest_even) {
  static const struct {
    double value;
    uint16_t want;
  } rows[] = {
      {1.0, 0x3F80},
      {1.0 + 0x1p-8, 0x3F80},
      {1.0 + 0x1p-7 + 0x1p-8, 0x3F82},
      {1.0 + 0x1p-8 + 0x1p-40, 0x3F81},
      {1.0 + 0x1p-8 - 0x1p-40, 0x3F80},
      {-(1.0 + 0x1p-8 + 0x1p-40), 0xBF81},
      {0x1.ffp127 - 0x1p100, 0x7F7F},
      {0x1.ffp127, 0x7F80},
      {1e300, 0x7F80},
      {-INFINITY, 0xFF80},
  };
  LS_OWN(ls_array, array) = make(LS_DTYPE_BF16, LS_SCALAR);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_array_set_f64(array, 0, rows[i].value);
    assert_int_equal(*(const uint16_t *)ls_array_data(array), rows[i].want);
  }
  // 2^62 + 2^54 is halfway between two; one more is not.
  ls_array_set_i64(array, 0, (INT64_C(1) << 62) + (INT64_C(1) << 54));
  assert_int_equal(*(const uint16_t *)ls_array_data(array), 0x5E80);
  ls_array_set_i64(array, 0, (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1);
  assert_int_equal(*(const uint16_t *)ls_array_data(array), 0x5E81);
  ls_array_set_i64(array, 0, INT64_MIN);
  assert_int_equal(*(const uint16_t *)ls_array_data(array), 0xDF00);
}

// ---- Failing memory --------------------------------------------------------
MEMORY_TEST(make_arrays) {
  float data[2] = {1, 2};
  const ls_bytes text = {"abc", 3};
  LS_OWN(ls_array, plain) = NULL;
  LS_OWN(ls_array, copy) = NULL;
  LS_OWN(ls_array, view) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SHAPE(4), &plain));
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &text, &copy));
  return ls_array_create_view(LS_DTYPE_F32, LS_SHAPE(2), data, NULL, NULL,
                              &view);
}

// ---- Arrivals --------------------------------------------------------------
// An arrival whose elements come when somebody asks for them.
typedef struct late_copy {
  ls_arrival arrival;
  ls_array *array;
  int ends, destroys;
  bool fails;
} late_copy;

static void late_copy_end(ls_arrival *arrival) {
  late_copy *self = (late_copy *)arrival;
  if (self->ends++ == 0) memset(ls_array_place(self->array), 0, 8);
}
static ls_status late_copy_status(ls_arrival *arrival) {
  return ((late_copy *)arrival)->fails ? LS_STATUS(LS_UNAVAILABLE, "no device")
                                       : ls_ok();
}
static void late_copy_destroy(ls_arrival *arrival) {
  ++((late_copy *)arrival)->destroys;
}

TEST(elements_are_waited_for_when_they_are_asked_for) {
  ls_array *array = NULL;
  const float values[] = {1, 2};
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(2), values, &array));
  late_copy copy = {
      .arrival = {late_copy_end, late_copy_status, late_copy_destroy},
      .array = array};
  ls_array_expect(array, &copy.arrival);
  assert_float_equal(((float *)ls_array_place(array))[1], 2, 0);
  assert_int_equal(copy.ends, 0);
  assert_float_equal(ls_array_f64(array, 1), 0, 0);
  assert_true(copy.ends > 0);
  expect_ok(ls_array_wait(array));
  copy.fails = true;
  expect_status(ls_array_wait(array), LS_UNAVAILABLE, "no device");
  ls_array_release(array);
  assert_int_equal(copy.destroys, 1);
}
