// SPDX-License-Identifier: Apache-2.0
//
// Digests: 128 bits that identify bytes of any length, by SipHash-2-4 with a
// fixed key: equal in every process; collisions are not to be expected.
//
// Thread-compatible.
#ifndef LS_BASE_VALUES_DIGEST_H_
#define LS_BASE_VALUES_DIGEST_H_

#include <stddef.h>
#include <stdint.h>

// State of a digest; see ls_digest_begin.
typedef struct ls_digest {
  uint64_t v[4];
  uint64_t size;
  unsigned char tail[8];  // The last size % 8 bytes, not hashed yet.
} ls_digest;

void ls_digest_begin(ls_digest *digest);
void ls_digest_add(ls_digest *digest, const void *data, size_t size);
// Adds a text and its length, so that "a", "b" differs from "ab".
void ls_digest_add_text(ls_digest *digest, const char *text);
void ls_digest_add_u64(ls_digest *digest, uint64_t number);
void ls_digest_end(ls_digest *digest, uint64_t out[2]);

#endif  // LS_BASE_VALUES_DIGEST_H_
