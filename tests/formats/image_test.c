// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "formats/images/image.h"
#include "support/counted.h"
#include "support/image_files.h"

#define IMAGES LS_TESTS_DIR "/images"

// Files of tests/images, and the channels of each.
typedef struct image_case {
  const char *name;
  int channels, width, height, bits;
} image_case;

static const image_case cases[] = {
    {"gray.png", 1, 11, 13, 8},
    {"gray_interlaced.png", 1, 11, 13, 8},
    {"gray_16.png", 1, 11, 13, 16},
    {"gray_1.png", 1, 11, 13, 1},
    {"gray_2.png", 1, 11, 13, 2},
    {"gray_4.png", 1, 11, 13, 4},
    {"gray_alpha.png", 2, 11, 13, 8},
    {"gray_alpha_interlaced.png", 2, 11, 13, 8},
    {"gray_alpha_16.png", 2, 11, 13, 16},
    {"gray_clear.png", 1, 11, 13, 8},
    {"rgb.png", 3, 11, 13, 8},
    {"rgb_interlaced.png", 3, 11, 13, 8},
    {"rgb_16.png", 3, 11, 13, 16},
    {"rgb_clear.png", 3, 11, 13, 8},
    {"rgb_gamma.png", 3, 11, 13, 8},
    {"rgba.png", 4, 11, 13, 8},
    {"rgba_interlaced.png", 4, 11, 13, 8},
    {"rgba_16.png", 4, 11, 13, 16},
    {"palette_1.png", 3, 11, 13, 8},
    {"palette_2.png", 3, 11, 13, 8},
    {"palette_4.png", 3, 11, 13, 8},
    {"palette_8.png", 3, 11, 13, 8},
    {"palette_clear.png", 4, 11, 13, 8},
    {"one_pixel.png", 3, 1, 1, 8},
    {"gray.jpg", 1, 19, 21, 8},
    {"gray_progressive.jpg", 1, 19, 21, 8},
    {"444.jpg", 3, 19, 21, 8},
    {"422.jpg", 3, 19, 21, 8},
    {"420.jpg", 3, 19, 21, 8},
    {"420_restart.jpg", 3, 19, 21, 8},
    {"progressive.jpg", 3, 19, 21, 8},
    {"rgb.jpg", 3, 19, 21, 8},
    {"cmyk.jpg", 3, 19, 21, 8},
    {"one_pixel.jpg", 3, 1, 1, 8},
};

// Decodes into rows with room behind them, which stays as it was; the caller
// frees the pixels.
static ls_pixels decode(const ls_image_file *file, int channels, int bits) {
  ls_image_header header;
  expect_ok(ls_image_parse(file, &header));
  ls_pixels out = {.width = header.width,
                   .height = header.height,
                   .channels = channels,
                   .dtype = bits == 8 ? LS_DTYPE_U8 : LS_DTYPE_U16};
  const size_t row = (size_t)(header.width * channels * bits / 8);
  out.stride = row + 6;
  unsigned char *data = test_malloc(out.stride * (size_t)out.height);
  memset(data, 0xa5, out.stride * (size_t)out.height);
  out.data = data;
  expect_ok(ls_image_decode(ls_allocator_system(), file, &out));
  for (int64_t y = 0; y < out.height; ++y) {
    for (size_t i = row; i < out.stride; ++i)
      assert_int_equal(data[(size_t)y * out.stride + i], 0xa5);
  }
  return out;
}

static const unsigned char *row_of(const ls_pixels *pixels, int64_t y) {
  return (const unsigned char *)pixels->data + (size_t)y * pixels->stride;
}

static void expect_same_pixels(const char *name, const ls_pixels *got,
                               const unsigned char *wanted) {
  for (int64_t y = 0; y < got->height; ++y) {
    for (int64_t i = 0; i < got->width * got->channels; ++i, ++wanted) {
      if (row_of(got, y)[i] != *wanted) {
        fail_msg("%s: row %d, sample %d is %d, wanted %d", name, (int)y, (int)i,
                 row_of(got, y)[i], *wanted);
      }
    }
  }
}

TEST(headers_tell_size_channels_and_bits) {
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(ls_image_file, file) = image_file_open(IMAGES, cases[i].name);
    ls_image_header header;
    expect_ok(ls_image_parse(&file, &header));
    assert_int_equal(header.width, cases[i].width);
    assert_int_equal(header.height, cases[i].height);
    assert_int_equal(header.channels, cases[i].channels);
    assert_int_equal(header.bits, cases[i].bits);
  }
}

TEST(pixels_are_those_that_pillow_reads) {
  static const int channels[] = {1, 3, 4};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    if (!image_is_read(cases[i].name)) continue;
    LS_OWN(ls_image_file, file) = image_file_open(IMAGES, cases[i].name);
    for (size_t k = 0; k < LS_COUNT_OF(channels); ++k) {
      char name[64];
      snprintf(name, sizeof(name), "%s:%d", cases[i].name, channels[k]);
      LS_OWN(ls_array, wanted) = image_reference(IMAGES, name);
      const ls_pixels got = decode(&file, channels[k], 8);
      expect_same_pixels(name, &got, ls_array_data(wanted));
      test_free(got.data);
    }
  }
}

TEST(two_channels_are_gray_and_alpha) {
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    if (!image_is_read(cases[i].name)) continue;
    LS_OWN(ls_image_file, file) = image_file_open(IMAGES, cases[i].name);
    const ls_pixels both = decode(&file, 2, 8), gray = decode(&file, 1, 8);
    const ls_pixels full = decode(&file, 4, 8);
    for (int64_t y = 0; y < both.height; ++y) {
      for (int64_t x = 0; x < both.width; ++x) {
        assert_int_equal(row_of(&both, y)[2 * x], row_of(&gray, y)[x]);
        assert_int_equal(row_of(&both, y)[2 * x + 1],
                         row_of(&full, y)[4 * x + 3]);
      }
    }
    test_free(both.data);
    test_free(gray.data);
    test_free(full.data);
  }
}

// 8 bits become 257 times as much; of 16 the high byte is what 8 have.
TEST(sixteen_bits_are_kept) {
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    if (!image_is_read(cases[i].name)) continue;
    LS_OWN(ls_image_file, file) = image_file_open(IMAGES, cases[i].name);
    const int channels = cases[i].channels;
    const ls_pixels wide = decode(&file, channels, 16);
    const ls_pixels narrow = decode(&file, channels, 8);
    bool has_low_bytes = false;
    for (int64_t y = 0; y < wide.height; ++y) {
      for (int64_t k = 0; k < wide.width * channels; ++k) {
        uint16_t sample;
        memcpy(&sample, row_of(&wide, y) + 2 * k, sizeof(sample));
        assert_int_equal(sample >> 8, row_of(&narrow, y)[k]);
        if ((sample & 0xff) != sample >> 8) has_low_bytes = true;
      }
    }
    assert_int_equal(has_low_bytes, cases[i].bits == 16);
    test_free(wide.data);
    test_free(narrow.data);
  }
}

// ---- What is refused -------------------------------------------------------
static void expect_refused(const ls_image_file *file, ls_code code,
                           const char *part) {
  ls_image_header header;
  expect_status(ls_image_parse(file, &header), code, part);
  assert_int_equal(header.width, 0);
}

// A copy with some bytes changed, which the caller frees.
static ls_image_file changed(const ls_image_file *file, size_t at,
                             const char *bytes, size_t size) {
  ls_image_file copy = *file;
  unsigned char *data = test_malloc(file->size);
  memcpy(data, file->bytes, file->size);
  memcpy(data + at, bytes, size);
  copy.bytes = data;
  return copy;
}

static size_t frame_of(const ls_image_file *jpeg) {
  for (size_t i = 0; i + 1 < jpeg->size; ++i) {
    const int marker = jpeg->bytes[i] == 0xff ? jpeg->bytes[i + 1] : 0;
    if (marker >= 0xc0 && marker <= 0xc2) return i;
  }
  fail_msg("no frame");
  return 0;
}

TEST(a_small_file_promises_no_large_image) {
  LS_OWN(ls_image_file, png) = image_file_open(IMAGES, "rgb.png");
  LS_OWN(ls_image_file, jpeg) = image_file_open(IMAGES, "420.jpg");
  ls_image_file large = changed(&png, 16, "\0\0\x40\0\0\0\x40\0", 8);
  expect_refused(&large, LS_INVALID_ARGUMENT,
                 "'rgb.png' is a PNG of 16384 x 16384 pixels, in 505 bytes; at "
                 "most 1048576 pixels are allowed");
  large.most_pixels = INT64_C(1) << 40;
  expect_refused(&large, LS_DATA_LOSS,
                 "'rgb.png' is cut off: it is a PNG of 16384 x 16384 pixels, "
                 "which take 780335 bytes at least, and has 505");
  test_free((void *)(uintptr_t)large.bytes);
  large = changed(&jpeg, frame_of(&jpeg) + 5, "\x40\0\x40\0", 4);
  expect_refused(&large, LS_INVALID_ARGUMENT,
                 "'420.jpg' is a JPEG of 16384 x 16384 pixels, in 808 bytes");
  large.most_pixels = INT64_C(1) << 40;
  expect_refused(&large, LS_DATA_LOSS,
                 "which take 524288 bytes at least, and has 808");
  test_free((void *)(uintptr_t)large.bytes);
}

typedef struct bad_file {
  const char *bytes;
  size_t size;
  ls_code code;
  const char *part;
} bad_file;

#define BYTES(text) text, sizeof(text) - 1
#define PNG "\x89PNG\r\n\x1a\n"
#define HEADER(kind) "\0\0\0\x0dIHDR\0\0\0\1\0\0\0\1" kind "\0\0\0\0\0\0\0"
#define JPEG "\xff\xd8"

TEST(what_is_no_image_is_named) {
  const bad_file files[] = {
      {BYTES(""), LS_DATA_LOSS, "'x' is empty"},
      {BYTES("GIF89a"), LS_INVALID_ARGUMENT,
       "'x' is no image that is read: it begins with 47 49, a PNG with 89 50"},
      {BYTES(PNG), LS_DATA_LOSS, "'x' is cut off: a PNG of 8 bytes"},
      {BYTES(PNG "\0\0\0\x0dIDAT                     "), LS_DATA_LOSS,
       "'x' is a damaged PNG: it does not begin with a header"},
      {BYTES(PNG HEADER("\x8\1")), LS_DATA_LOSS, "color type 1 with 8 bits"},
      {BYTES(PNG HEADER("\x4\2")), LS_DATA_LOSS, "color type 2 with 4 bits"},
      {BYTES(PNG HEADER("\x10\3")), LS_DATA_LOSS, "color type 3 with 16 bits"},
      {BYTES(PNG HEADER("\xff\xff")), LS_DATA_LOSS, "color type 255 with 255"},
      {BYTES(PNG HEADER("\x8\2")), LS_DATA_LOSS, "'x' is cut off: a PNG of 33"},
      {BYTES(PNG HEADER("\x8\2") "\xff\xff\xff\xfftEXt    "), LS_DATA_LOSS,
       "'x' is cut off"},
      {BYTES(PNG "\0\0\0\x0dIHDR\0\0\0\0\0\0\0\1\x8\2\0\0\0    \0\0\0\0IDAT"
                 "    "),
       LS_DATA_LOSS, "'x' is a PNG of 0 x 1 pixels; it has to have some"},
      {BYTES(JPEG "\xff"), LS_DATA_LOSS, "'x' is cut off: a JPEG of 3 bytes"},
      {BYTES(JPEG "\xff\xd9"), LS_DATA_LOSS, "'x' is cut off"},
      {BYTES(JPEG "\xff\xe0\1\0"), LS_DATA_LOSS, "'x' is cut off"},
      {BYTES(JPEG "\xff\xc0\0\7     "), LS_DATA_LOSS,
       "its header is too short"},
      {BYTES(JPEG "\xff\xda\0\2"), LS_DATA_LOSS, "it has no header"},
      {BYTES(JPEG "\xff\xc0\0\x8\x8\0\1\0\1\3\xff\xc0\0\x8\x8\0\1\0\1\3"),
       LS_DATA_LOSS, "it has two headers"},
      {BYTES(JPEG "\xff\xc3\0\x8\x8\0\1\0\1\3\xff\xda\0\2"), LS_UNIMPLEMENTED,
       "'x' is a lossless JPEG (SOF3); baseline and progressive"},
      {BYTES(JPEG "\xff\xc5\0\x8\x8\0\1\0\1\3\xff\xda\0\2"), LS_UNIMPLEMENTED,
       "'x' is a hierarchical JPEG (SOF5)"},
      {BYTES(JPEG "\xff\xc1\0\x8\xc\0\1\0\1\3\xff\xda\0\2"), LS_UNIMPLEMENTED,
       "'x' is a JPEG of 12 bits; those of 8"},
      {BYTES(JPEG "\xff\xc0\0\x8\x8\0\1\0\1\2\xff\xda\0\2"), LS_UNIMPLEMENTED,
       "'x' is a JPEG of 2 components"},
      {BYTES(JPEG "\xff\xc0\0\x8\x8\0\0\0\1\3\xff\xda\0\2"), LS_DATA_LOSS,
       "'x' is a JPEG of 1 x 0 pixels"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(files); ++i) {
    const ls_image_file file = {.name = "x",
                                .bytes = (const unsigned char *)files[i].bytes,
                                .size = files[i].size,
                                .most_pixels = 100};
    expect_refused(&file, files[i].code, files[i].part);
    unsigned char pixel[4];
    const ls_pixels out = {pixel, 4, 1, 1, 3, LS_DTYPE_U8};
    expect_status(ls_image_decode(ls_allocator_system(), &file, &out),
                  files[i].code, files[i].part);
  }
}

static ls_status try_to_decode(const ls_image_file *file) {
  unsigned char pixels[21 * 19 * 3];
  ls_image_header header;
  LS_RETURN_IF_ERROR(ls_image_parse(file, &header));
  const ls_pixels out = {
      pixels,     (size_t)header.width * 3, header.width, header.height, 3,
      LS_DTYPE_U8};
  return ls_image_decode(ls_allocator_system(), file, &out);
}

TEST(damage_is_named_and_nothing_is_made_up) {
  if (image_is_read(".png")) {
    LS_OWN(ls_image_file, png) = image_file_open(IMAGES, "rgb.png");
    ls_image_file bad = png;
    // In the last bytes of pixels, after them, and in the end's chunk.
    for (--bad.size; bad.size >= png.size - 20; --bad.size) {
      char says[90];
      snprintf(says, sizeof(says),
               "'rgb.png' is cut off: a PNG that continues after its end at "
               "byte %zu",
               bad.size);
      expect_status(try_to_decode(&bad), LS_DATA_LOSS, says);
    }
    bad = changed(&png, png.size / 2, "\x12\x34\x56", 3);
    expect_status(try_to_decode(&bad), LS_DATA_LOSS,
                  "'rgb.png' is a damaged PNG near byte");
    test_free((void *)(uintptr_t)bad.bytes);
  }
  if (image_is_read(".jpg")) {
    LS_OWN(ls_image_file, jpeg) = image_file_open(IMAGES, "420.jpg");
    ls_image_file bad = jpeg;
    bad.size -= 20;
    expect_status(try_to_decode(&bad), LS_DATA_LOSS,
                  "'420.jpg' is cut off: a JPEG of 788 bytes without its end's "
                  "marker");
    bad.allow_damaged = true;
    expect_ok(try_to_decode(&bad));
    bad = changed(&jpeg, jpeg.size - 60, "\xff\xd9", 2);
    expect_status(try_to_decode(&bad), LS_DATA_LOSS,
                  "'420.jpg' is a damaged JPEG: Corrupt JPEG data");
    bad.allow_damaged = true;
    expect_ok(try_to_decode(&bad));
    test_free((void *)(uintptr_t)bad.bytes);
    // No guess is made about what stands before a marker and is none.
    const size_t frame = frame_of(&jpeg);
    unsigned char *longer = test_malloc(jpeg.size + 2);
    memcpy(longer, jpeg.bytes, frame);
    memset(longer + frame, 7, 2);
    memcpy(longer + frame + 2, jpeg.bytes + frame, jpeg.size - frame);
    bad = (ls_image_file){"longer", longer, jpeg.size + 2, 1000, false, false};
    expect_ok(try_to_decode(&bad));
    test_free(longer);
  }
}

TEST(a_library_that_was_missing_is_named) {
  static const char *const missing[][2] = {{"rgb.png", "libpng (libpng-dev)"},
                                           {"420.jpg", "(libturbojpeg0-dev)"}};
  for (size_t i = 0; i < LS_COUNT_OF(missing); ++i) {
    if (image_is_read(missing[i][0])) continue;
    LS_OWN(ls_image_file, file) = image_file_open(IMAGES, missing[i][0]);
    expect_status(try_to_decode(&file), LS_UNIMPLEMENTED, missing[i][1]);
  }
}

// ---- Memory ----------------------------------------------------------------
static ls_status decode_with_little_memory(void *user) {
  const ls_image_file *file = user;
  unsigned char pixels[21 * 19 * 3];
  ls_image_header header;
  LS_RETURN_IF_ERROR(ls_image_parse(file, &header));
  const ls_pixels out = {
      pixels, (size_t)header.width, header.width, header.height,
      1,      LS_DTYPE_U8};
  return ls_image_decode(ls_current_allocator(), file, &out);
}

TEST(no_memory_is_survived) {
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    // Other JPEGs need none but the library's own.
    if (!image_is_read(cases[i].name) ||
        (strstr(cases[i].name, ".jpg") != NULL &&
         strcmp(cases[i].name, "cmyk.jpg") != 0))
      continue;
    LS_OWN(ls_image_file, file) = image_file_open(IMAGES, cases[i].name);
    REFUSE_EACH(decode_with_little_memory, &file);
  }
}

// ---- Writing ---------------------------------------------------------------
TEST(a_png_reads_back_as_it_was_written) {
  for (int channels = 1; channels <= 4; ++channels) {
    for (int bits = 8; bits <= 16; bits += 8) {
      uint16_t pixels[7 * 30];
      for (size_t i = 0; i < LS_COUNT_OF(pixels); ++i)
        pixels[i] = (uint16_t)(i * i * 31 + i * 900);
      const ls_pixels image = {
          pixels, 60, 6, 7, channels, bits == 8 ? LS_DTYPE_U8 : LS_DTYPE_U16};
      unsigned char *bytes = NULL;
      size_t size = 0;
      expect_ok(ls_png_encode(ls_allocator_system(), &image, &bytes, &size));
      const ls_image_file file = {"made", bytes, size, 100, false, false};
      ls_image_header header;
      expect_ok(ls_image_parse(&file, &header));
      assert_int_equal(header.width, 6);
      assert_int_equal(header.height, 7);
      assert_int_equal(header.channels, channels);
      assert_int_equal(header.bits, bits);
      if (image_is_read(".png")) {
        const ls_pixels got = decode(&file, channels, bits);
        for (int64_t y = 0; y < 7; ++y) {
          assert_memory_equal(row_of(&got, y), row_of(&image, y),
                              (size_t)(6 * channels * bits / 8));
        }
        test_free(got.data);
      }
      ls_release(ls_allocator_system(), bytes);
    }
  }
}

static ls_status encode_with_little_memory(void *user) {
  unsigned char *bytes = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(
      ls_png_encode(ls_current_allocator(), user, &bytes, &size));
  ls_release(ls_current_allocator(), bytes);
  return ls_ok();
}

TEST(no_memory_for_a_png_is_survived) {
  unsigned char pixels[12] = {1, 2, 3};
  ls_pixels image = {pixels, 6, 2, 2, 3, LS_DTYPE_U8};
  REFUSE_EACH(encode_with_little_memory, &image);
}
