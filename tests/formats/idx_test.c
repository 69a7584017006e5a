// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <string.h>
#include <zlib.h>

#include "formats/bytes/idx.h"
#include "support/counted.h"

#define BYTES(...)                                                             \
  (const unsigned char[]){__VA_ARGS__}, sizeof((unsigned char[]){__VA_ARGS__})

typedef struct bad_file {
  const char *name;
  const unsigned char *bytes;
  size_t size;
  ls_code code;
  const char *part;
} bad_file;

static ls_array *decode(const unsigned char *bytes, size_t size) {
  ls_array *array = NULL;
  expect_ok(ls_idx_decode(ls_allocator_system(), "a.idx", bytes, size, &array));
  assert_non_null(array);
  return array;
}

TEST(bytes_come_back_with_their_shape) {
  LS_OWN(ls_array, array) =
      decode(BYTES(0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255));
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_U8);
  assert_true(ls_shape_equal(ls_array_shape(array), LS_SHAPE(2, 3)));
  assert_int_equal(ls_array_i64(array, 0), 1);
  assert_int_equal(ls_array_i64(array, 5), 255);
}

TEST(wide_elements_are_big_endian) {
  LS_OWN(ls_array, array) =
      decode(BYTES(0, 0, 11, 1, 0, 0, 0, 2, 1, 2, 255, 254));
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_I16);
  assert_int_equal(ls_array_i64(array, 0), 258);
  assert_int_equal(ls_array_i64(array, 1), -2);
  ls_array_release(array);
  array = decode(BYTES(0, 0, 12, 1, 0, 0, 0, 1, 0, 1, 0, 0));
  assert_int_equal(ls_array_i64(array, 0), 65536);
  ls_array_release(array);
  array = decode(BYTES(0, 0, 13, 1, 0, 0, 0, 1, 0xbf, 0x80, 0, 0));
  assert_true(ls_array_f64(array, 0) == -1.0);
  ls_array_release(array);
  array = decode(BYTES(0, 0, 14, 1, 0, 0, 0, 1, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0));
  assert_true(ls_array_f64(array, 0) == 0.5);
}

TEST(scalars_and_empty_files_are_fine) {
  LS_OWN(ls_array, array) = decode(BYTES(0, 0, 8, 0, 7));
  assert_int_equal(ls_array_shape(array).rank, 0);
  assert_int_equal(ls_array_i64(array, 0), 7);
  ls_array_release(array);
  array = decode(BYTES(0, 0, 8, 1, 0, 0, 0, 0));
  assert_int_equal(ls_array_num_elements(array), 0);
}

TEST(what_is_wrong_is_named) {
  const bad_file files[] = {
      {"empty", BYTES(0), LS_DATA_LOSS, "'empty' has 1 bytes"},
      {"text", BYTES('h', 'e', 'l', 'l', 'o'), LS_INVALID_ARGUMENT,
       "'text' is no IDX file: it begins with bytes 68 65"},
      {"type", BYTES(0, 0, 10, 1, 0, 0, 0, 0), LS_INVALID_ARGUMENT,
       "'type' is no IDX file: its element type is 0a"},
      {"rank", BYTES(0, 0, 8, 9), LS_INVALID_ARGUMENT,
       "'rank' has 9 dimensions; at most 8"},
      {"header", BYTES(0, 0, 8, 2, 0, 0, 0, 1), LS_DATA_LOSS,
       "'header' is cut off in its header"},
      {"short", BYTES(0, 0, 8, 1, 0, 0, 0, 3, 1, 2), LS_DATA_LOSS,
       "'short' is cut off: its header says u8[3], which is 3 bytes of "
       "elements; it has 2"},
      {"long", BYTES(0, 0, 8, 1, 0, 0, 0, 1, 1, 2), LS_DATA_LOSS,
       "'long' is too long"},
      {"absurd",
       BYTES(0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
             255),
       LS_INVALID_ARGUMENT, "'absurd'"},
      {"cut.gz", BYTES(0x1f, 0x8b, 8, 0, 0), LS_DATA_LOSS,
       "'cut.gz' is cut off"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(files); ++i) {
    ls_array *array = NULL;
    expect_status(ls_idx_decode(ls_allocator_system(), files[i].name,
                                files[i].bytes, files[i].size, &array),
                  files[i].code, files[i].part);
    assert_null(array);
  }
}

// ---- Bombs -----------------------------------------------------------------
// `head` and many zeros, compressed, into `out` of this size; returns the size.
static size_t compress_bomb(const unsigned char *head, size_t head_size,
                            size_t zeros, unsigned char *out, size_t size) {
  static unsigned char nothing[1 << 16];
  z_stream stream = {.next_out = out, .avail_out = (unsigned)size};
  assert_int_equal(
      deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  stream.next_in = (unsigned char *)(uintptr_t)head;
  stream.avail_in = (unsigned)head_size;
  assert_int_equal(deflate(&stream, Z_NO_FLUSH), Z_OK);
  for (size_t i = 0; i < zeros / sizeof(nothing); ++i) {
    stream.next_in = nothing;
    stream.avail_in = sizeof(nothing);
    assert_int_equal(deflate(&stream, Z_NO_FLUSH), Z_OK);
  }
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflateEnd(&stream);
  return (size_t)(stream.next_out - out);
}

// What is refused is refused by its first bytes: 64 MiB never come out.
TEST(a_small_file_does_not_become_a_large_one) {
  static const struct {
    unsigned char head[8];
    ls_code code;
    const char *part;
    size_t size;  // Of the file, whatever follows; 0: nothing.
  } bombs[] = {
      {{0, 0, 0, 0}, LS_INVALID_ARGUMENT, "its element type is 00", 0},
      {{0, 0, 8, 1, 0, 0, 0, 9}, LS_DATA_LOSS, "'bomb' is too long", 0},
      {{0, 0, 8, 1, 255, 255, 255, 255}, LS_DATA_LOSS, "'bomb' is cut off", 0},
      {{0, 0, 8, 9}, LS_INVALID_ARGUMENT, "'bomb' has 9 dimensions", 0},
      // Not beyond what deflate can do, yet out of proportion.
      {{0, 0, 8, 1, 20, 0, 0, 0},
       LS_RESOURCE_EXHAUSTED,
       "'bomb' compresses 335544328 bytes to 400000",
       400000},
  };
  static unsigned char data[400000];
  for (size_t i = 0; i < LS_COUNT_OF(bombs); ++i) {
    size_t size = compress_bomb(bombs[i].head, sizeof(bombs[i].head),
                                (size_t)1 << 26, data, sizeof(data));
    if (bombs[i].size > 0) size = bombs[i].size;
    LS_OWN(counted, memory) = counted_begin(1);
    ls_array *array = NULL;
    expect_status(ls_idx_decode(ls_runtime_allocator(memory.runtime), "bomb",
                                data, size, &array),
                  bombs[i].code, bombs[i].part);
    assert_true(counted_now(&memory).peak_bytes < 1 << 20);
  }
}

TEST(compressed_files_are_as_large_as_they_say) {
  unsigned char data[512];
  static const unsigned char head[] = {0, 0, 8, 1, 0, 1, 0, 0};
  size_t size = compress_bomb(head, sizeof(head), 1 << 16, data, sizeof(data));
  ls_array *array = decode(data, size);
  assert_int_equal(ls_array_num_elements(array), 1 << 16);
  ls_array_release(array);
  static const unsigned char small[] = {0, 0, 8, 1, 0, 0, 0, 2, 5, 6};
  size = compress_bomb(small, sizeof(small), 0, data, sizeof(data));
  array = decode(data, size);
  assert_int_equal(ls_array_i64(array, 1), 6);
  ls_array_release(array);
  size = compress_bomb(small, sizeof(small) - 1, 0, data, sizeof(data));
  expect_status(
      ls_idx_decode(ls_allocator_system(), "a.gz", data, size, &array),
      LS_DATA_LOSS,
      "'a.gz' is cut off: its header says u8[2], which is 2 bytes of "
      "elements; it has 1");
}

TEST(a_file_that_is_not_there_is_named) {
  ls_array *array = NULL;
  expect_status(ls_idx_read(ls_runtime_current(), "no/such/file", &array),
                LS_NOT_FOUND, "no/such/file");
  assert_null(array);
}
