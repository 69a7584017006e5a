// SPDX-License-Identifier: Apache-2.0
// SHA-256, as FIPS 180-4 says and sha256sum prints: for bytes that tests write
// down as one line.
#ifndef LS_TESTS_SUPPORT_SHA256_H_
#define LS_TESTS_SUPPORT_SHA256_H_

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
  uint32_t state[8];
  uint64_t size;  // Bytes so far.
  unsigned char block[64];
} sha256;

enum { SHA256_TEXT = 65 };
void sha256_begin(sha256 *self);
void sha256_add(sha256 *self, const void *data, size_t size);
// In hexadecimal digits.
void sha256_end(sha256 *self, char text[SHA256_TEXT]);

#endif  // LS_TESTS_SUPPORT_SHA256_H_
