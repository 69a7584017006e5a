// SPDX-License-Identifier: Apache-2.0
#include "io/crc32c.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "support/expect.h"

// RFC 3720, B.4, and the check value of the catalogues.
TEST(known_sums_come_out) {
  unsigned char bytes[32] = {0};
  assert_int_equal(ls_crc32c(0, "123456789", 9), 0xe3069283);
  assert_int_equal(ls_crc32c(0, "", 0), 0);
  assert_int_equal(ls_crc32c(0, bytes, 32), 0x8a9136aa);
  memset(bytes, 0xff, 32);
  assert_int_equal(ls_crc32c(0, bytes, 32), 0x62a8ab43);
  for (unsigned i = 0; i < 32; ++i)
    bytes[i] = (unsigned char)i;
  assert_int_equal(ls_crc32c(0, bytes, 32), 0x46dd794e);
  assert_int_equal(ls_crc32c_portable(0, bytes, 32), 0x46dd794e);
}

// TensorFlow's masked sum of the 8 bytes of the length 0.
TEST(masked_sums_are_tensorflows) {
  static const unsigned char zero[8];
  static const unsigned char masked[] = {0x29, 0x03, 0x98, 0x07};
  uint32_t want = 0;
  memcpy(&want, masked, 4);
  assert_int_equal(ls_crc32c_mask(ls_crc32c(0, zero, 8)), want);
}

TEST(every_length_and_place_agrees_with_the_table) {
  enum { MOST = 3072 * 2 + 500 };
  static unsigned char bytes[MOST + 8];
  uint32_t random = 1;
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    random = random * 1664525 + 1013904223;
    bytes[i] = (unsigned char)(random >> 24);
  }
  for (size_t size = 0; size <= MOST; size += size < 1000 ? 1 : 37) {
    for (size_t from = 0; from < 8; from += 3) {
      const uint32_t want = ls_crc32c_portable(77, bytes + from, size);
      if (ls_crc32c(77, bytes + from, size) != want)
        fail_msg("%zu bytes from %zu", size, from);
    }
  }
}

TEST(a_sum_goes_on_where_another_ended) {
  static unsigned char bytes[5000];
  for (size_t i = 0; i < sizeof(bytes); ++i)
    bytes[i] = (unsigned char)(i * 7);
  const uint32_t whole = ls_crc32c(0, bytes, sizeof(bytes));
  for (size_t cut = 0; cut <= sizeof(bytes); cut += 123) {
    const uint32_t head = ls_crc32c(0, bytes, cut);
    assert_int_equal(ls_crc32c(head, bytes + cut, sizeof(bytes) - cut), whole);
  }
}

TEST(sums_of_two_parts_make_that_of_the_whole) {
  static unsigned char bytes[5000];
  for (size_t i = 0; i < sizeof(bytes); ++i)
    bytes[i] = (unsigned char)(i * 11);
  const uint32_t whole = ls_crc32c(0, bytes, sizeof(bytes));
  for (size_t cut = 0; cut <= sizeof(bytes); cut += 125) {
    const size_t rest = sizeof(bytes) - cut;
    const uint32_t head = ls_crc32c(0, bytes, cut);
    const uint32_t tail = ls_crc32c(0, bytes + cut, rest);
    assert_int_equal(ls_crc32c_join(head, tail, rest), whole);
  }
  assert_int_equal(ls_crc32c_join(0, 0xe3069283, 9), 0xe3069283);
}
