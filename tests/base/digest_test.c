// SPDX-License-Identifier: Apache-2.0
//
// Digests: the reference's numbers, and pieces as the whole.
#include "base/values/digest.h"

#include "base/memory/allocator.h"

#include "support/expect.h"

// Of the bytes 0, 1, ... `size` - 1.
static void digest_of(size_t size, size_t piece, uint64_t out[2]) {
  unsigned char bytes[64];
  for (size_t i = 0; i < size; ++i)
    bytes[i] = (unsigned char)i;
  ls_digest digest;
  ls_digest_begin(&digest);
  for (size_t at = 0; at < size; at += piece)
    ls_digest_add(&digest, bytes + at, size - at < piece ? size - at : piece);
  ls_digest_end(&digest, out);
}

// vectors_sip128 of the reference implementation.
TEST(it_gives_the_numbers_of_the_reference) {
  static const struct {
    size_t size;
    uint64_t want[2];
  } rows[] = {
      {0, {UINT64_C(0xe6a825ba047f81a3), UINT64_C(0x930255c71472f66d)}},
      {1, {UINT64_C(0x44af996bd8c187da), UINT64_C(0x45fc229b11597634)}},
      {15, {UINT64_C(0x11a8b03399e99354), UINT64_C(0xd9c3cf970fec087e)}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    uint64_t got[2];
    digest_of(rows[i].size, 64, got);
    if (got[0] != rows[i].want[0] || got[1] != rows[i].want[1])
      fail_msg("%zu bytes: %016llx %016llx", rows[i].size,
               (unsigned long long)got[0], (unsigned long long)got[1]);
  }
}

TEST(pieces_give_what_the_whole_does) {
  for (size_t size = 0; size <= 64; ++size) {
    uint64_t whole[2];
    digest_of(size, 64, whole);
    for (size_t piece = 1; piece < 20; ++piece) {
      uint64_t got[2];
      digest_of(size, piece, got);
      assert_memory_equal(got, whole, sizeof(whole));
    }
  }
}
