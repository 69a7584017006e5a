// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "io/gzip.h"

static const size_t no_limit = (size_t)1 << 30;

// Compresses into `out` (room for 4096); returns the size.
static size_t compress_text(const char *text, unsigned char *out) {
  z_stream stream = {.next_in = (unsigned char *)(uintptr_t)text,
                     .avail_in = (unsigned)strlen(text),
                     .next_out = out,
                     .avail_out = 4096};
  assert_int_equal(
      deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflateEnd(&stream);
  return (size_t)(stream.next_out - out);
}

static void expect_inflated(const unsigned char *data, size_t size,
                            const char *text) {
  char *out = NULL;
  size_t out_size = 0;
  expect_ok(ls_gzip_inflate(ls_allocator_system(), "x.gz", data, size, no_limit,
                            &out, &out_size));
  assert_int_equal(out_size, strlen(text));
  assert_string_equal(out, text);
  ls_release(ls_allocator_system(), out);
}

static void expect_refused(const unsigned char *data, size_t size, size_t limit,
                           ls_code code, const char *part) {
  char *out = NULL;
  size_t out_size = 0;
  expect_status(ls_gzip_inflate(ls_allocator_system(), "x.gz", data, size,
                                limit, &out, &out_size),
                code, part);
  assert_null(out);
}

static void what_was_compressed_comes_back(void **state) {
  (void)state;
  unsigned char data[4096];
  expect_inflated(data, compress_text("", data), "");
  expect_inflated(data, compress_text("hello", data), "hello");
  static char text[100000];
  memset(text, 'a', sizeof(text) - 1);
  expect_inflated(data, compress_text(text, data), text);
}

static void members_are_joined(void **state) {
  (void)state;
  unsigned char data[8192];
  const size_t first = compress_text("one, ", data);
  expect_inflated(data, first + compress_text("two", data + first), "one, two");
}

static void every_cut_is_data_loss(void **state) {
  (void)state;
  unsigned char data[4096];
  const size_t size = compress_text("some text that is cut off", data);
  for (size_t cut = 2; cut < size; ++cut)
    expect_refused(data, cut, no_limit, LS_DATA_LOSS, "'x.gz'");
  expect_refused(data, size / 2, no_limit, LS_DATA_LOSS, "cut off");
}

static void damage_is_data_loss(void **state) {
  (void)state;
  unsigned char data[4096];
  const size_t size = compress_text("some text that is damaged", data);
  data[size - 6] ^= 1;  // In the checksum.
  expect_refused(data, size, no_limit, LS_DATA_LOSS, "damaged gzip data");
  data[size - 6] ^= 1;
  data[size] = 'x';
  expect_refused(data, size + 1, no_limit, LS_DATA_LOSS,
                 "1 bytes behind its gzip data");
  expect_refused((const unsigned char *)"plain", 5, no_limit, LS_DATA_LOSS,
                 "no gzip file");
  expect_refused(data, 0, no_limit, LS_DATA_LOSS, "no gzip file");
}

static void output_above_the_limit_is_refused(void **state) {
  (void)state;
  static char text[100000];
  memset(text, 'a', sizeof(text) - 1);
  unsigned char data[4096];
  const size_t size = compress_text(text, data);
  expect_refused(data, size, 1000, LS_RESOURCE_EXHAUSTED,
                 "more than 1000 bytes");
  expect_refused(data, size, sizeof(text) - 2, LS_RESOURCE_EXHAUSTED,
                 "more than");
  char *out = NULL;
  size_t out_size = 0;
  expect_ok(ls_gzip_inflate(ls_allocator_system(), "x.gz", data, size,
                            sizeof(text) - 1, &out, &out_size));
  assert_int_equal(out_size, sizeof(text) - 1);
  ls_release(ls_allocator_system(), out);
}

static ls_status inflate_once(void *user) {
  const unsigned char *data = user;
  char *out = NULL;
  size_t out_size = 0;
  ls_allocator *allocator = ls_runtime_allocator(ls_runtime_current());
  ls_status status =
      ls_gzip_inflate(allocator, "x.gz", data + 8, *(const size_t *)user,
                      no_limit, &out, &out_size);
  ls_release(allocator, out);
  return status;
}

static void no_memory_is_a_status(void **state) {
  (void)state;
  _Alignas(size_t) unsigned char data[8192];
  const size_t size = compress_text("some text", data + 8);
  memcpy(data, &size, sizeof(size));
  expect_memory_failures_survived(inflate_once, data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_compressed_comes_back),
      cmocka_unit_test(members_are_joined),
      cmocka_unit_test(every_cut_is_data_loss),
      cmocka_unit_test(damage_is_data_loss),
      cmocka_unit_test(output_above_the_limit_is_refused),
      cmocka_unit_test(no_memory_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
