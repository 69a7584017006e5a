// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "io/inflate.h"

// Room for whatever comes out here.
static char inflated[1 << 18];

static ls_status inflate_into(const unsigned char *data, size_t size,
                              size_t room, size_t *out_size) {
  memset(inflated, '?', sizeof(inflated));
  return ls_gzip_inflate(ls_allocator_system(), "x.gz", data, size, inflated,
                         room, out_size);
}

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
  size_t out_size = 0;
  expect_ok(inflate_into(data, size, sizeof(inflated), &out_size));
  assert_int_equal(out_size, strlen(text));
  assert_memory_equal(inflated, text, out_size);
}

static void expect_refused(const unsigned char *data, size_t size,
                           const char *part) {
  size_t out_size = 1;
  expect_status(inflate_into(data, size, sizeof(inflated), &out_size),
                LS_DATA_LOSS, part);
  assert_int_equal(out_size, 0);
}

TEST(what_was_compressed_comes_back) {
  unsigned char data[4096];
  expect_inflated(data, compress_text("", data), "");
  expect_inflated(data, compress_text("hello", data), "hello");
  static char text[100000];
  memset(text, 'a', sizeof(text) - 1);
  expect_inflated(data, compress_text(text, data), text);
}

TEST(members_are_joined) {
  unsigned char data[8192];
  const size_t first = compress_text("one, ", data);
  expect_inflated(data, first + compress_text("two", data + first), "one, two");
}

TEST(padding_with_zeros_is_skipped) {
  unsigned char data[8192];
  const size_t first = compress_text("one, ", data);
  memset(data + first, 0, 512);
  expect_inflated(data, first + 512, "one, ");
  const size_t next = compress_text("two", data + first + 512);
  expect_inflated(data, first + 512 + next, "one, two");
}

TEST(every_cut_is_data_loss) {
  unsigned char data[4096];
  const size_t size = compress_text("some text that is cut off", data);
  for (size_t cut = 2; cut < size; ++cut)
    expect_refused(data, cut, "'x.gz'");
  expect_refused(data, size / 2, "cut off");
}

TEST(damage_is_data_loss) {
  unsigned char data[4096];
  const size_t size = compress_text("some text that is damaged", data);
  data[size - 6] ^= 1;  // In the checksum.
  expect_refused(data, size, "damaged gzip data");
  data[size - 6] ^= 1;
  data[size] = 'x';
  expect_refused(data, size + 1, "other data after its gzip data");
  expect_refused((const unsigned char *)"plain", 5, "no gzip file");
  expect_refused(data, 0, "no gzip file");
}

TEST(no_more_comes_out_than_there_is_room_for) {
  static char text[100000];
  memset(text, 'a', sizeof(text) - 1);
  unsigned char data[4096];
  const size_t size = compress_text(text, data);
  size_t out_size = 0;
  for (size_t room = 0; room < sizeof(text); room += 33333) {
    expect_ok(inflate_into(data, size, room, &out_size));
    assert_int_equal(out_size, room);
    assert_memory_equal(inflated, text, room);
    assert_int_equal(inflated[room], '?');
  }
  // One byte more shows that it was all.
  expect_ok(inflate_into(data, size, sizeof(text), &out_size));
  assert_int_equal(out_size, sizeof(text) - 1);
  assert_true(ls_gzip_most(size) >= sizeof(text) - 1);
  assert_int_equal(ls_gzip_most(SIZE_MAX), SIZE_MAX);
}

static ls_status inflate_once(void *user) {
  const unsigned char *data = user;
  size_t out_size = 0;
  return ls_gzip_inflate(ls_runtime_allocator(ls_runtime_current()), "x.gz",
                         data + 8, *(const size_t *)user, inflated,
                         sizeof(inflated), &out_size);
}

TEST(no_memory_is_a_status) {
  _Alignas(size_t) unsigned char data[8192];
  const size_t size = compress_text("some text", data + 8);
  memcpy(data, &size, sizeof(size));
  REFUSE_EACH(inflate_once, data);
}
