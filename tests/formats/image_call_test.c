// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "formats/images/image.h"
#include "lockstep/image.h"
#include "support/counted.h"
#include "support/image_files.h"

#define IMAGES LS_TESTS_DIR "/images"

static ls_array *array_of(ls_dtype dtype, ls_shape shape) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype, shape, &array));
  return array;
}

static ls_array *decode(const char *name, const ls_image_options *options) {
  LS_OWN(ls_image_file, file) = image_file_open(IMAGES, name);
  ls_array *image = NULL;
  expect_ok(ls_decode_image(file.bytes, file.size, options, &image));
  return image;
}

static void expect_same(const char *name, const ls_array *got,
                        const ls_array *wanted) {
  if (!ls_shape_equal(ls_array_shape(got), ls_array_shape(wanted)) ||
      ls_array_dtype(got) != ls_array_dtype(wanted)) {
    fail_msg("%s: %s, wanted %s", name,
             LS_SHAPE_TEXT(ls_array_dtype(got), ls_array_shape(got)),
             LS_SHAPE_TEXT(ls_array_dtype(wanted), ls_array_shape(wanted)));
  }
  for (int64_t i = 0; i < ls_array_num_elements(got); ++i) {
    if (ls_array_f64(got, i) != ls_array_f64(wanted, i)) {
      fail_msg("%s: element %d is %g, wanted %g", name, (int)i,
               ls_array_f64(got, i), ls_array_f64(wanted, i));
    }
  }
}

// Pixels that are their number.
static ls_array *counted_up(ls_dtype dtype, ls_shape shape) {
  ls_array *array = array_of(dtype, shape);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_i64(array, i, i);
  return array;
}

static void expect_numbers(const ls_array *got, const int *wanted) {
  for (int64_t i = 0; i < ls_array_num_elements(got); ++i)
    assert_int_equal(ls_array_i64(got, i), wanted[i]);
}

// ---- Files -----------------------------------------------------------------
TEST(files_become_arrays_as_they_are_or_as_asked) {
  static const struct {
    const char *file;
    ls_image_options options;
    const char *type, *reference;
  } rows[] = {
      {"rgb.png", {0}, "u8[13,11,3]", "rgb.png:3"},
      {"rgb.png", {.channels = 1}, "u8[13,11,1]", "rgb.png:1"},
      {"palette_clear.png", {0}, "u8[13,11,4]", "palette_clear.png:4"},
      {"gray_alpha.png", {0}, "u8[13,11,2]", NULL},
      {"gray_16.png", {.dtype = LS_DTYPE_U16}, "u16[13,11,1]", NULL},
      {"420.jpg", {0}, "u8[21,19,3]", "420.jpg:3"},
      {"420.jpg", {.channels = 4}, "u8[21,19,4]", "420.jpg:4"},
      {"gray.jpg", {0}, "u8[21,19,1]", "gray.jpg:1"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_image_file, file) = image_file_open(IMAGES, rows[i].file);
    ls_shape shape;
    expect_ok(ls_image_shape(file.bytes, file.size, &rows[i].options, &shape));
    const ls_dtype dtype =
        rows[i].options.dtype == LS_DTYPE_U16 ? LS_DTYPE_U16 : LS_DTYPE_U8;
    assert_string_equal(LS_SHAPE_TEXT(dtype, shape), rows[i].type);
    if (image_is_read(rows[i].file)) {
      LS_OWN(ls_array, image) = decode(rows[i].file, &rows[i].options);
      assert_string_equal(
          LS_SHAPE_TEXT(ls_array_dtype(image), ls_array_shape(image)),
          rows[i].type);
      if (rows[i].reference != NULL) {
        LS_OWN(ls_array, wanted) = image_reference(IMAGES, rows[i].reference);
        expect_same(rows[i].reference, image, wanted);
      }
      LS_OWN(ls_array, into) = array_of(dtype, shape);
      expect_ok(ls_decode_image_into(file.bytes, file.size, NULL, into));
      expect_same(rows[i].file, into, image);
    }
  }
}

TEST(wrong_options_and_arrays_are_named) {
  LS_OWN(ls_image_file, file) = image_file_open(IMAGES, "rgb.png");
  ls_array *image = NULL;
  ls_shape shape;
#define DECODE(...)                                                            \
  ls_decode_image(file.bytes, file.size, &(ls_image_options){__VA_ARGS__},     \
                  &image)
  expect_status(DECODE(.channels = 5, .name = "a.png"), LS_INVALID_ARGUMENT,
                "ls_decode_image: 'a.png' with 5 channels");
  expect_status(DECODE(.dtype = LS_DTYPE_F32), LS_INVALID_ARGUMENT,
                "ls_decode_image: 'image' is to be f32; images are read as u8");
  expect_status(DECODE(.most_pixels = -1), LS_INVALID_ARGUMENT,
                "most_pixels is -1");
  expect_status(DECODE(.most_pixels = 142, .name = "a.png"),
                LS_INVALID_ARGUMENT,
                "'a.png' is a PNG of 11 x 13 pixels, in 505 bytes; at most 142 "
                "pixels are allowed (most_pixels)");
  assert_null(image);
  expect_status(ls_decode_image(NULL, 3, NULL, &image), LS_INVALID_ARGUMENT,
                "ls_decode_image: bytes is NULL");
  expect_status(ls_decode_image(NULL, 0, NULL, &image), LS_DATA_LOSS,
                "'image' is empty");
  expect_status(ls_image_shape("GIF89a", 6, NULL, &shape), LS_INVALID_ARGUMENT,
                "'image' is no image that is read");
  assert_int_equal(shape.rank, LS_UNKNOWN_RANK);
  LS_OWN(ls_array, small) = array_of(LS_DTYPE_U8, LS_SHAPE(13, 10, 3));
  expect_status(ls_decode_image_into(file.bytes, file.size, NULL, small),
                LS_INVALID_ARGUMENT,
                "'image' is u8[13,11,3], the array for it u8[13,10,3]");
  ls_array_release(small);
  small = array_of(LS_DTYPE_F32, LS_SHAPE(13, 11, 3));
  expect_status(ls_decode_image_into(file.bytes, file.size, NULL, small),
                LS_INVALID_ARGUMENT, "image is f32[13,11,3]; it has to be u8");
}

TEST(indices_are_the_numbers_that_a_png_stores) {
  static const struct {
    const char *file;
    int scale;  // Gray is its number times this.
  } rows[] = {{"gray_1.png", 255}, {"gray_2.png", 85}, {"gray_4.png", 17}};
  if (!image_is_read(".png")) skip();
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_array, gray) = decode(rows[i].file, NULL);
    LS_OWN(ls_array, numbers) =
        decode(rows[i].file, &(ls_image_options){.indices = true});
    for (int64_t k = 0; k < ls_array_num_elements(gray); ++k)
      assert_int_equal(ls_array_i64(gray, k),
                       rows[i].scale * ls_array_i64(numbers, k));
  }
  LS_OWN(ls_array, colors) = decode("palette_4.png", NULL);
  LS_OWN(ls_array, indices) =
      decode("palette_4.png", &(ls_image_options){.indices = true});
  int64_t palette[16];
  memset(palette, -1, sizeof(palette));
  assert_int_equal(ls_array_shape(indices).dim[2], 1);
  for (int64_t k = 0; k < ls_array_num_elements(indices); ++k) {
    const int64_t index = ls_array_i64(indices, k);
    const int64_t color = ls_array_i64(colors, 3 * k) << 16 |
                          ls_array_i64(colors, 3 * k + 1) << 8 |
                          ls_array_i64(colors, 3 * k + 2);
    assert_in_range(index, 0, 15);
    if (palette[index] < 0) palette[index] = color;
    assert_int_equal(palette[index], color);
  }
}

TEST(images_without_indices_are_refused) {
  static const struct {
    const char *file;
    ls_image_options options;
    const char *part;
  } rows[] = {
      {"rgb.png", {.indices = true}, "a PNG of 3 channels of 8 bits"},
      {"gray_16.png", {.indices = true}, "a PNG of 1 channel of 16 bits"},
      {"420.jpg", {.indices = true}, "a JPEG, whose pixels are colors"},
      {"palette_4.png", {.indices = true, .channels = 3}, "with 3 channels"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_image_file, file) = image_file_open(IMAGES, rows[i].file);
    ls_array *image = NULL;
    expect_status(
        ls_decode_image(file.bytes, file.size, &rows[i].options, &image),
        LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(image);
  }
}

TEST(a_png_is_written_and_read_again) {
  LS_OWN(ls_array, image) = counted_up(LS_DTYPE_U8, LS_SHAPE(7, 5, 1));
  expect_ok(ls_png_write("written.png", image));
  LS_OWN(ls_image_file, file) = image_file_open(".", "written.png");
  if (image_is_read(".png")) {
    ls_array *again = NULL;
    expect_ok(ls_decode_image(file.bytes, file.size, NULL, &again));
    expect_same("written.png", again, image);
    ls_array_release(again);
  }
  remove("written.png");
  LS_OWN(ls_array, flat) = array_of(LS_DTYPE_U8, LS_SHAPE(7, 5));
  LS_OWN(ls_array, real) = array_of(LS_DTYPE_F32, LS_SHAPE(7, 5, 1));
  expect_status(ls_png_write("written.png", flat), LS_INVALID_ARGUMENT,
                "[height, width, 1 to 4], got u8[7,5]");
  expect_status(ls_png_write("written.png", real), LS_INVALID_ARGUMENT,
                "u8 or u16 [height, width, 1 to 4], got f32[7,5,1]");
  expect_status(ls_png_write("missing/written.png", image), LS_NOT_FOUND,
                "while writing 'missing/written.png'");
}

// ---- Resize ----------------------------------------------------------------
static const int sizes[][2] = {{8, 8},  {40, 33}, {21, 7},
                               {5, 30}, {1, 1},   {20, 19}};

TEST(resized_bytes_are_those_of_pillow) {
  static const char *const names[] = {"420.jpg", "gray.jpg"};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    char name[64];
    snprintf(name, sizeof(name), "%s:%d", names[i], i == 0 ? 3 : 1);
    LS_OWN(ls_array, image) = image_reference(IMAGES, name);
    for (size_t k = 0; k < LS_COUNT_OF(sizes); ++k) {
      for (int part = 0; part < 2; ++part) {
        snprintf(name, sizeof(name), "%s:%s%dx%d", names[i], part ? "box:" : "",
                 sizes[k][0], sizes[k][1]);
        LS_OWN(ls_array, wanted) = image_reference(IMAGES, name);
        LS_OWN(ls_array, got) = array_of(LS_DTYPE_U8, ls_array_shape(wanted));
        const ls_resize_options box = {2, 3, 11, 14, LS_FLAG_DEFAULT};
        expect_ok(ls_resize_image(image, part ? &box : NULL, got));
        expect_same(name, got, wanted);
      }
    }
  }
}

// The formula of the header, in doubles, in the plainest way.
static double mean_at(const ls_array *image, int axis, int64_t to, int64_t i,
                      int64_t other, int64_t channel, bool antialias) {
  const ls_shape shape = ls_array_shape(image);
  const double n = (double)shape.dim[axis], m = (double)to;
  const double s = antialias && n > m ? n / m : 1;
  double sum = 0, weights = 0;
  for (int64_t j = 0; j < shape.dim[axis]; ++j) {
    const double distance =
        fabs((double)j + 0.5 - ((double)i + 0.5) * n / m) / s;
    const double weight = distance < 1 ? 1 - distance : 0;
    const int64_t y = axis == 0 ? j : other, x = axis == 0 ? other : j;
    weights += weight;
    sum += weight *
           ls_array_f64(image, (y * shape.dim[1] + x) * shape.dim[2] + channel);
  }
  return sum / weights;
}

TEST(resized_floats_follow_the_formula) {
  for (int64_t channels = 1; channels <= 5; ++channels) {
    LS_OWN(ls_array, image) =
        array_of(LS_DTYPE_F32, LS_SHAPE(9, 300, channels));
    for (int64_t i = 0; i < ls_array_num_elements(image); ++i)
      ls_array_set_f64(image, i, sin((double)(i * i)));
    for (int antialias = 0; antialias < 2; ++antialias) {
      const ls_resize_options options = {
          .antialias = antialias ? LS_FLAG_DEFAULT : LS_FLAG_OFF};
      LS_OWN(ls_array, wide) =
          array_of(LS_DTYPE_F32, LS_SHAPE(9, 70, channels));
      LS_OWN(ls_array, high) =
          array_of(LS_DTYPE_F32, LS_SHAPE(4, 300, channels));
      LS_OWN(ls_array, both) =
          array_of(LS_DTYPE_F32, LS_SHAPE(20, 70, channels));
      expect_ok(ls_resize_image(image, &options, wide));
      expect_ok(ls_resize_image(image, &options, high));
      expect_ok(ls_resize_image(image, &options, both));
      for (int64_t y = 0; y < 9; ++y) {
        for (int64_t i = 0; i < 70 * channels; ++i) {
          assert_true(fabs(ls_array_f64(wide, y * 70 * channels + i) -
                           mean_at(image, 1, 70, i / channels, y, i % channels,
                                   antialias)) < 1e-6);
        }
      }
      for (int64_t y = 0; y < 4; ++y) {
        for (int64_t i = 0; i < 300 * channels; ++i) {
          assert_true(fabs(ls_array_f64(high, y * 300 * channels + i) -
                           mean_at(image, 0, 4, y, i / channels, i % channels,
                                   antialias)) < 1e-6);
        }
      }
      for (int64_t y = 0; y < 20; ++y) {  // Rows first, then columns.
        for (int64_t i = 0; i < 70 * channels; ++i) {
          assert_true(fabs(ls_array_f64(both, y * 70 * channels + i) -
                           mean_at(wide, 0, 20, y, i / channels, i % channels,
                                   antialias)) < 1e-6);
        }
      }
    }
  }
}

TEST(wide_vectors_give_the_same_bytes) {
  enum { PLACES = 40, WIDTH = 60, MOST = 5 };
  unsigned char from[WIDTH * MOST], plain[PLACES * MOST], wide[PLACES * MOST];
  int32_t weights[PLACES][8];
  ls_tap taps[PLACES];
  uint32_t random = 1;
  for (size_t i = 0; i < sizeof(from); ++i)
    from[i] = (unsigned char)((random = random * 1664525 + 1013904223) >> 24);
  for (int i = 0; i < PLACES; ++i) {
    const int count = 1 + i % 8;
    taps[i] = (ls_tap){(WIDTH - count) * i / (PLACES - 1), count, weights[i]};
    for (int j = 0; j < count; ++j)
      weights[i][j] = ((1 << LS_TAP_BITS) + i * j) / count;
  }
  for (int64_t channels = 1; channels <= MOST; ++channels) {
    const size_t row = (size_t)(WIDTH * channels);
    // A row of exactly its size, as the last one of an image is.
    unsigned char *last = test_malloc(row);
    memcpy(last, from, row);
    ls_taps_row_u8_portable(taps, PLACES, last, WIDTH, channels, plain);
    ls_taps_row_u8(taps, PLACES, last, WIDTH, channels, wide);
    assert_memory_equal(plain, wide, (size_t)(PLACES * channels));
    test_free(last);
  }
  const ls_tap down = {1, 7, weights[30]};
  for (size_t count = 0; count < 30; ++count) {
    ls_taps_column_u8_portable(&down, from, 30, count, plain);
    ls_taps_column_u8(&down, from, 30, count, wide);
    assert_memory_equal(plain, wide, count);
  }
}

TEST(an_image_of_one_color_keeps_it) {
  LS_OWN(ls_array, image) = array_of(LS_DTYPE_U8, LS_SHAPE(37, 41, 2));
  memset(ls_array_mutable_data(image), 255, ls_array_size(image));
  for (int64_t size = 1; size < 90; size += 4) {
    LS_OWN(ls_array, out) = array_of(LS_DTYPE_U8, LS_SHAPE(size, 90 - size, 2));
    expect_ok(ls_resize_image(image, NULL, out));
    for (int64_t i = 0; i < ls_array_num_elements(out); ++i)
      assert_int_equal(ls_array_i64(out, i), 255);
  }
}

TEST(what_cannot_be_resized_is_named) {
  LS_OWN(ls_array, image) = array_of(LS_DTYPE_U8, LS_SHAPE(4, 6, 3));
  LS_OWN(ls_array, out) = array_of(LS_DTYPE_U8, LS_SHAPE(2, 2, 3));
  LS_OWN(ls_array, gray) = array_of(LS_DTYPE_U8, LS_SHAPE(2, 2, 1));
  LS_OWN(ls_array, whole) = array_of(LS_DTYPE_I32, LS_SHAPE(2, 2, 1));
  LS_OWN(ls_array, none) = array_of(LS_DTYPE_U8, LS_SHAPE(0, 2, 3));
  expect_status(ls_resize_image(image, NULL, gray), LS_INVALID_ARGUMENT,
                "ls_resize_image: image is u8[4,6,3] and out u8[2,2,1]");
  expect_status(ls_resize_image(image, NULL, NULL), LS_INVALID_ARGUMENT,
                "ls_resize_image: out is NULL");
  expect_status(ls_resize_image(image, NULL, image), LS_INVALID_ARGUMENT,
                "ls_resize_image: image and out are the same");
  LS_OWN(ls_array, other) = array_of(LS_DTYPE_I32, LS_SHAPE(2, 2, 1));
  expect_status(ls_resize_image(whole, NULL, other), LS_INVALID_ARGUMENT,
                "image is i32[2,2,1]; u8 and f32 are resized");
  expect_status(ls_resize_image(none, NULL, out), LS_INVALID_ARGUMENT,
                "image is u8[0,2,3], from which no pixels can be made");
  expect_ok(ls_resize_image(image, NULL, none));
  static const ls_resize_options parts[] = {
      {.top = -1, .height = 2, .width = 2},
      {.top = 1},
      {.top = 3, .height = 2, .width = 2},
      {.left = 5, .height = 1, .width = 2},
      {.height = 2},
      {.top = INT64_MAX, .height = 1, .width = 1}};
  for (size_t i = 0; i < LS_COUNT_OF(parts); ++i) {
    expect_status(ls_resize_image(image, &parts[i], out), LS_INVALID_ARGUMENT,
                  "it has to be inside of an image of 4 x 6");
  }
}

static ls_status resize_with_little_memory(void *unused) {
  (void)unused;
  LS_OWN(ls_array, image) = NULL;
  LS_OWN(ls_array, out) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SHAPE(5, 6, 3), &image));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SHAPE(3, 9, 3), &out));
  return ls_resize_image(image, NULL, out);
}

static ls_status decode_with_little_memory(void *user) {
  const ls_image_file *file = user;
  LS_OWN(ls_array, image) = NULL;
  LS_RETURN_IF_ERROR(ls_decode_image(file->bytes, file->size, NULL, &image));
  return ls_ok();
}

TEST(no_memory_is_survived) {
  REFUSE_EACH(resize_with_little_memory, NULL);
  if (!image_is_read(".png")) return;
  LS_OWN(ls_image_file, file) = image_file_open(IMAGES, "rgba_interlaced.png");
  REFUSE_EACH(decode_with_little_memory, &file);
}

// ---- Crop and flip ---------------------------------------------------------
TEST(images_are_cut_and_padded_around_their_middle) {
  LS_OWN(ls_array, image) = counted_up(LS_DTYPE_I16, LS_SHAPE(3, 4, 1));
  LS_OWN(ls_array, cut) = array_of(LS_DTYPE_I16, LS_SHAPE(2, 3, 1));
  LS_OWN(ls_array, padded) = array_of(LS_DTYPE_I16, LS_SHAPE(6, 5, 1));
  expect_ok(ls_crop_image(image, NULL, cut));
  expect_numbers(cut, (const int[]){0, 1, 2, 4, 5, 6});
  expect_ok(ls_crop_image(image, &(ls_crop_options){.fill = -1}, padded));
  expect_numbers(padded, (const int[]){-1, -1, -1, -1, -1, 0,  1,  2,  3,  -1,
                                       4,  5,  6,  7,  -1, 8,  9,  10, 11, -1,
                                       -1, -1, -1, -1, -1, -1, -1, -1, -1, -1});
}

TEST(a_crop_may_reach_beyond_the_image) {
  LS_OWN(ls_array, image) = counted_up(LS_DTYPE_F32, LS_SHAPE(3, 4, 1));
  LS_OWN(ls_array, out) = array_of(LS_DTYPE_F32, LS_SHAPE(2, 2, 1));
  const struct {
    long long top, left;
    int wanted[4];
  } rows[] = {
      {0, 0, {0, 1, 4, 5}},         {1, 2, {6, 7, 10, 11}},
      {-1, -1, {9, 9, 9, 0}},       {2, 3, {11, 9, 9, 9}},
      {-2, 0, {9, 9, 9, 9}},        {0, 4, {9, 9, 9, 9}},
      {3, 0, {9, 9, 9, 9}},         {LLONG_MIN, 0, {9, 9, 9, 9}},
      {0, LLONG_MAX, {9, 9, 9, 9}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    expect_ok(ls_crop_image(image,
                            &(ls_crop_options){.top = LS_SOME(rows[i].top),
                                               .left = LS_SOME(rows[i].left),
                                               .fill = 9},
                            out));
    expect_numbers(out, rows[i].wanted);
  }
  LS_OWN(ls_array, color) = array_of(LS_DTYPE_F32, LS_SHAPE(2, 2, 3));
  expect_status(ls_crop_image(image, NULL, color), LS_INVALID_ARGUMENT,
                "ls_crop_image: image is f32[3,4,1] and out f32[2,2,3]; both "
                "have to be [height, width, channels], of one type");
}

TEST(left_and_right_are_swapped_also_in_place) {
  for (int64_t channels = 1; channels <= 5; ++channels) {
    LS_OWN(ls_array, image) = counted_up(LS_DTYPE_U8, LS_SHAPE(3, 5, channels));
    LS_OWN(ls_array, out) = array_of(LS_DTYPE_U8, LS_SHAPE(3, 5, channels));
    expect_ok(ls_flip_image(image, out));
    for (int64_t i = 0; i < ls_array_num_elements(out); ++i) {
      const int64_t c = i % channels, x = i / channels % 5;
      const int64_t y = i / channels / 5;
      assert_int_equal(ls_array_i64(out, i), (y * 5 + (4 - x)) * channels + c);
    }
    expect_ok(ls_flip_image(out, out));
    expect_same("twice", out, image);
  }
  LS_OWN(ls_array, image) = array_of(LS_DTYPE_U8, LS_SHAPE(3, 5, 1));
  LS_OWN(ls_array, out) = array_of(LS_DTYPE_U8, LS_SHAPE(5, 3, 1));
  expect_status(ls_flip_image(image, out), LS_INVALID_ARGUMENT,
                "ls_flip_image: image is u8[3,5,1] and out u8[5,3,1]; they "
                "have to be of one size");
}
