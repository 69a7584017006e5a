// SPDX-License-Identifier: Apache-2.0
//
// SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012).
#include "base/values/digest.h"

#include <string.h>

static uint64_t turned(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static void round_once(uint64_t v[4]) {
  v[0] += v[1];
  v[1] = turned(v[1], 13) ^ v[0];
  v[0] = turned(v[0], 32);
  v[2] += v[3];
  v[3] = turned(v[3], 16) ^ v[2];
  v[0] += v[3];
  v[3] = turned(v[3], 21) ^ v[0];
  v[2] += v[1];
  v[1] = turned(v[1], 17) ^ v[2];
  v[2] = turned(v[2], 32);
}

static void absorb(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  round_once(v);
  round_once(v);
  v[0] ^= word;
}

// Loads 8 bytes as a little-endian number on every machine.
static uint64_t digest_load(const unsigned char *bytes) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i)
    word |= (uint64_t)bytes[i] << (8 * i);
  return word;
}

void ls_digest_begin(ls_digest *digest) {
  // The key 00 01 .. 0f of the reference's test vectors.
  const uint64_t k0 = UINT64_C(0x0706050403020100);
  const uint64_t k1 = UINT64_C(0x0f0e0d0c0b0a0908);
  *digest = (ls_digest){.v = {k0 ^ UINT64_C(0x736f6d6570736575),
                              k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                              k0 ^ UINT64_C(0x6c7967656e657261),
                              k1 ^ UINT64_C(0x7465646279746573)}};
}

void ls_digest_add(ls_digest *digest, const void *data, size_t size) {
  const unsigned char *bytes = data;
  const size_t waiting = digest->size % 8;
  digest->size += size;
  if (waiting != 0) {
    const size_t taken = size < 8 - waiting ? size : 8 - waiting;
    if (taken != 0) memcpy(digest->tail + waiting, bytes, taken);
    if (waiting + taken < 8) return;
    absorb(digest->v, digest_load(digest->tail));
    bytes += taken;
    size -= taken;
  }
  uint64_t v[4];
  memcpy(v, digest->v, sizeof(v));  // Works on a copy, which fits registers.
  for (; size >= 8; size -= 8, bytes += 8)
    absorb(v, digest_load(bytes));
  memcpy(digest->v, v, sizeof(v));
  if (size != 0) memcpy(digest->tail, bytes, size);
}

void ls_digest_add_text(ls_digest *digest, const char *text) {
  ls_digest_add(digest, text, strlen(text) + 1);
}

void ls_digest_add_u64(ls_digest *digest, uint64_t number) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i)
    bytes[i] = (unsigned char)(number >> (8 * i));
  ls_digest_add(digest, bytes, sizeof(bytes));
}

void ls_digest_end(ls_digest *digest, uint64_t out[2]) {
  const size_t waiting = digest->size % 8;
  memset(digest->tail + waiting, 0, 8 - waiting);
  digest->tail[7] = (unsigned char)digest->size;
  absorb(digest->v, digest_load(digest->tail));
  for (int half = 0; half < 2; ++half) {
    if (half == 0)
      digest->v[2] ^= 0xee;
    else
      digest->v[1] ^= 0xdd;
    for (int i = 0; i < 4; ++i)
      round_once(digest->v);
    out[half] = digest->v[0] ^ digest->v[1] ^ digest->v[2] ^ digest->v[3];
  }
}
