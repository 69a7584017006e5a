// SPDX-License-Identifier: Apache-2.0
//
// Convert: every pair of number types against one number at a time.
#include "support/pipelines.h"

#include <math.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "data/own.h"
#include "lockstep/element_spec.h"

static const ls_dtype numbers[] = {
    LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16, LS_DTYPE_BF16, LS_DTYPE_I8,
    LS_DTYPE_I16, LS_DTYPE_I32, LS_DTYPE_I64, LS_DTYPE_U8,   LS_DTYPE_U16,
    LS_DTYPE_U32, LS_DTYPE_U64, LS_DTYPE_BOOL};

static const double values[] = {
    0,     -0.0,  1,      -1,     0.5,      -0.5,     1.5,    2.5,      127,
    128,   -128,  -129,   255,    256,      300,      32767,  32768,    65535,
    65536, 1e5,   -1e5,   2049,   3e9,      -3e9,     1e10,   1e19,     1.8e19,
    -1e19, 1e300, -1e300, 1e-300, 1.0001,   0.1,      1 / 3., 16777217, 65520,
    65519, 2.9,   -2.9,   NAN,    INFINITY, -INFINITY};
// Enough to go beyond a block, and not a multiple of one.
enum { ROWS = 7, WIDTH = 61 };

static bool is_wide(ls_dtype dtype) {
  return dtype == LS_DTYPE_F64 ||
         (ls_dtype_is_integer(dtype) && ls_dtype_size(dtype) >= 4);
}

// As the header says it, one number at a time.
static void convert_plainly(const ls_array *from, ls_array *to, int64_t i,
                            double scale, double offset) {
  const ls_dtype a = ls_array_dtype(from), b = ls_array_dtype(to);
  if (scale == 1 && offset == 0 && ls_dtype_is_integer(a) &&
      ls_dtype_is_integer(b)) {
    ls_array_set_i64(to, i, ls_array_i64(from, i));
    return;
  }
  const double x = ls_array_f64(from, i);
  if (is_wide(a) || is_wide(b)) {
    ls_array_set_f64(to, i, x * scale + offset);
  } else {
    const float scaled = (float)x * (float)scale;
    ls_array_set_f64(to, i, (double)(scaled + (float)offset));
  }
}

static bool is_nan_there(const ls_array *a, const ls_array *b, int64_t i) {
  return isnan(ls_array_f64(a, i)) && isnan(ls_array_f64(b, i));
}

static void expect_row(const ls_array *converted, const ls_array *source,
                       int64_t row, double scale, double offset) {
  LS_OWN(ls_array, wanted) = NULL;
  LS_OWN(ls_array, from) = NULL;
  const size_t from_size = ls_dtype_size(ls_array_dtype(source));
  expect_ok(
      ls_array_create(ls_array_dtype(converted), LS_SHAPE(WIDTH), &wanted));
  expect_ok(ls_array_create_copy(ls_array_dtype(source), LS_SHAPE(WIDTH),
                                 (const char *)ls_array_data(source) +
                                     (size_t)row * WIDTH * from_size,
                                 &from));
  const size_t size = ls_dtype_size(ls_array_dtype(converted));
  for (int64_t i = 0; i < WIDTH; ++i) {
    convert_plainly(from, wanted, i, scale, offset);
    if (memcmp((const char *)ls_array_data(converted) + (size_t)i * size,
               (const char *)ls_array_data(wanted) + (size_t)i * size,
               size) != 0 &&
        !is_nan_there(converted, wanted, i))
      fail_msg("%s %.17g as %s is %.17g, not %.17g (scale %g, offset %g)",
               ls_dtype_name(ls_array_dtype(from)), ls_array_f64(from, i),
               ls_dtype_name(ls_array_dtype(converted)),
               ls_array_f64(converted, i), ls_array_f64(wanted, i), scale,
               offset);
  }
}

static ls_nest rows_of(ls_dtype dtype) {
  const ls_nest made = ls_nest_zeros(dtype, LS_SHAPE(ROWS, WIDTH));
  for (int64_t i = 0; i < ROWS * WIDTH; ++i)
    ls_array_set_f64(ls_nest_as_array(made), i,
                     values[i % (int64_t)LS_COUNT_OF(values)] +
                         (i < (int64_t)LS_COUNT_OF(values) ? 0 : (double)i));
  return made;
}

static ls_nest as_it_is(void *user, int64_t index) {
  const ls_array *source = user;
  const size_t size = WIDTH * ls_dtype_size(ls_array_dtype(source));
  ls_array *row = NULL;
  expect_ok(ls_array_create_copy(
      ls_array_dtype(source), LS_SHAPE(WIDTH),
      (const char *)ls_array_data(source) + (size_t)index * size, &row));
  return ls_nest_array(row);
}

// Rows at once, and elements of shapes that are not known.
static void expect_conversion(ls_dtype from, ls_dtype to, double scale,
                              double offset) {
  LS_OWN(ls_nest, rows) = rows_of(from);
  for (int way = 0; way < 2; ++way) {
    ls_dataset *d = way == 0 ? ls_dataset_from_arrays(ls_nest_retain(rows))
                             : ls_dataset_from_function(&(ls_index_options){
                                   .size = ROWS,
                                   .element = ls_nest_spec(from, LS_SHAPE(-1)),
                                   .make = as_it_is,
                                   .user = ls_nest_as_array(rows)});
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(
        ls_dataset_convert(d, 0,
                           &(ls_convert_options){
                               .dtype = to, .scale = scale, .offset = offset}),
        LS_SOME(0));
    LS_OWN(ls_nest, element) = ls_none();
    for (int64_t row = 0; row < ROWS; ++row) {
      expect_ok(ls_iterator_next(iterator, &element));
      expect_row(ls_nest_as_array(element), ls_nest_as_array(rows), row,
                 scale == 0 ? 1 : scale, offset);
    }
  }
}

TEST(all_pairs_are_as_said) {
  for (size_t a = 0; a < LS_COUNT_OF(numbers); ++a)
    for (size_t b = 0; b < LS_COUNT_OF(numbers); ++b) {
      expect_conversion(numbers[a], numbers[b], 0, 0);
      expect_conversion(numbers[a], numbers[b], 1.0 / 255, 0);
      expect_conversion(numbers[a], numbers[b], -1.5, 3.25);
    }
}

TEST(other_leaves_stay_and_shapes_change) {
  const ls_nest x = ls_nest_zeros(LS_DTYPE_U8, LS_SHAPE(50, 4, 6));
  const ls_nest y = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(50));
  for (int i = 0; i < 50 * 24; ++i)
    ((uint8_t *)ls_nest_data(x, 0))[i] = (uint8_t)i;
  for (int i = 0; i < 50; ++i)
    ((int64_t *)ls_nest_data(y, 0))[i] = i;
  const ls_shape flat = LS_SHAPE(24);
  ls_dataset *d = ls_dataset_from_arrays(LS_TUPLE(x, y));
  d = ls_dataset_convert(ls_dataset_shuffle(d, NULL), 0,
                         &(ls_convert_options){.dtype = LS_DTYPE_F32,
                                               .scale = 0.5,
                                               .shape = &flat});
  d = ls_dataset_convert(d, 1, &(ls_convert_options){.dtype = LS_DTYPE_I32});
  d = ls_dataset_batch(d, &(ls_batch_options){.size = 7});
  char text[64];
  ls_element_spec spec;
  expect_ok(ls_dataset_spec(d, &spec));
  assert_string_equal(ls_element_spec_print(&spec, text, sizeof(text)),
                      "(f32[?,24], i32[?])");
  LS_OWN(ls_iterator, iterator) = pipeline_iterator(d, LS_SOME(1));
  LS_OWN(ls_nest, batch) = ls_none();
  for (int b = 0; b < 8; ++b) {
    expect_ok(ls_iterator_next(iterator, &batch));
    const float *images = ls_nest_data(batch, 0);
    const int32_t *labels = ls_nest_data(batch, 1);
    for (int i = 0; i < (b < 7 ? 7 : 1); ++i)
      for (int k = 0; k < 24; ++k)
        assert_true(images[i * 24 + k] ==
                    0.5F * (float)(uint8_t)(labels[i] * 24 + k));
  }
}
