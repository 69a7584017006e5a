// SPDX-License-Identifier: Apache-2.0
#include "io/sha256.h"

#include <stdlib.h>
#include <string.h>

#include "support/expect.h"

typedef void (*beginning)(ls_sha256 *sha);
static const beginning beginnings[] = {ls_sha256_init, ls_sha256_init_portable};

static void hash_is(const char *text, size_t size, const char *want) {
  for (size_t k = 0; k < 2; ++k) {
    ls_sha256 sha;
    char hash[LS_SHA256_TEXT];
    beginnings[k](&sha);
    ls_sha256_add(&sha, text, size);
    ls_sha256_print(&sha, hash);
    assert_string_equal(hash, want);
  }
}

// FIPS 180-4's examples, and NIST's long one.
TEST(known_hashes_come_out) {
  enum { MANY = 1000000 };
  hash_is("", 0,
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash_is("abc", 3,
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  hash_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  hash_is("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
          "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
          112,
          "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  char *many = malloc(MANY);
  assert_non_null(many);
  memset(many, 'a', MANY);
  // Sizes at which the padding needs a block more.
  hash_is(many, 55,
          "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  hash_is(many, 56,
          "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  hash_is(many, 64,
          "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  hash_is(many, MANY,
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(many);
}

// Hashes `size` bytes in pieces whose sizes are drawn, up to `most`.
static void hash_pieces(beginning begin, const unsigned char *bytes,
                        size_t size, size_t most, char text[LS_SHA256_TEXT]) {
  ls_sha256 sha;
  begin(&sha);
  for (size_t at = 0; at < size;) {
    size_t piece = (size_t)rand() % (most + 1);
    if (piece > size - at) piece = size - at;
    ls_sha256_add(&sha, bytes + at, piece);
    at += piece;
  }
  ls_sha256_print(&sha, text);
}

TEST(instructions_and_plain_c_agree_however_bytes_are_cut) {
  enum { MOST = 1000 };
  static unsigned char bytes[MOST + 8];
  srand(7);
  for (size_t i = 0; i < sizeof(bytes); ++i)
    bytes[i] = (unsigned char)(rand() >> 7);
  for (size_t size = 0; size <= MOST; ++size) {
    const size_t from = size % 8;
    char want[LS_SHA256_TEXT], hash[LS_SHA256_TEXT];
    hash_pieces(ls_sha256_init_portable, bytes + from, size, 2 * size, want);
    for (size_t k = 0; k < 2; ++k) {
      hash_pieces(beginnings[k], bytes + from, size, 1 + size % 150, hash);
      if (strcmp(hash, want) != 0) fail_msg("%zu bytes, way %zu", size, k);
    }
  }
}

TEST(a_hash_goes_on_after_it_was_printed) {
  char text[LS_SHA256_TEXT], want[LS_SHA256_TEXT];
  ls_sha256 sha, copy;
  ls_sha256_init(&sha);
  ls_sha256_add(&sha, "ab", 2);
  copy = sha;
  ls_sha256_print(&sha, text);
  ls_sha256_add(&sha, "c", 1);
  ls_sha256_print(&sha, text);
  assert_string_equal(
      text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  ls_sha256_add(&copy, "c", 1);
  ls_sha256_print(&copy, want);
  assert_string_equal(text, want);
}
