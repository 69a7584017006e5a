// SPDX-License-Identifier: Apache-2.0
// Blocks of 64 bytes are added by a function for the processor's instructions,
// which is chosen at run time, or by plain C.
#include "io/sha256.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "io/bytes.h"

#if defined(__aarch64__) && defined(__linux__)
#include <arm_neon.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { ROUNDS = 64 };

static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// ---- Any processor ---------------------------------------------------------
static inline uint32_t rotate(uint32_t x, int by) {
  return x >> by | x << (32 - by);
}

// Makes the words of all rounds from a block.
static void schedule_words(const unsigned char *at, uint32_t w[ROUNDS]) {
  for (int i = 0; i < 16; ++i)
    w[i] = ls_load_be32(at + 4 * i);
  for (int i = 16; i < ROUNDS; ++i) {
    const uint32_t x = w[i - 15], y = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) +
           (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
  }
}

// Makes round `i`: what is in s[k] before the first round is in s[(k - i) & 7].
static inline void make_round(uint32_t s[8], int i, uint32_t word) {
  const uint32_t a = s[-i & 7], b = s[(1 - i) & 7], c = s[(2 - i) & 7];
  const uint32_t e = s[(4 - i) & 7], f = s[(5 - i) & 7], g = s[(6 - i) & 7];
  const uint32_t sum = s[(7 - i) & 7] + constants[i] + word +
                       (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                       ((e & f) ^ (~e & g));
  s[(3 - i) & 7] += sum;
  s[(7 - i) & 7] = sum + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                   ((a & b) ^ (a & c) ^ (b & c));
}

static void add_blocks_portable(uint32_t state[8], const unsigned char *at,
                                size_t count) {
  for (; count > 0; --count, at += LS_SHA256_BLOCK) {
    uint32_t w[ROUNDS], s[8];
    schedule_words(at, w);
    memcpy(s, state, sizeof(s));
    for (int i = 0; i < ROUNDS; i += 4)
      for (int k = i; k < i + 4; ++k)
        make_round(s, k, w[k]);
    for (int k = 0; k < 8; ++k)
      state[k] += s[k];
  }
}

// ---- x86 -------------------------------------------------------------------
#if defined(__x86_64__)
#define LS_SHA_TARGET __attribute__((target("sha,sse4.1")))

static bool has_instructions(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("sse4.1") &&
         __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
}

// Makes four rounds, and replaces their words `w0` by those of 16 rounds later.
LS_SHA_TARGET static inline void make_four_rounds(__m128i *abef, __m128i *cdgh,
                                                  const uint32_t *constant,
                                                  __m128i *w0, __m128i w1,
                                                  __m128i w2, __m128i w3) {
  const __m128i sum = _mm_add_epi32(
      *w0, _mm_loadu_si128((const __m128i *)(const void *)constant));
  *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
  *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sum, 0x0e));
  *w0 = _mm_sha256msg2_epu32(
      _mm_add_epi32(_mm_sha256msg1_epu32(*w0, w1), _mm_alignr_epi8(w3, w2, 4)),
      w3);
}

LS_SHA_TARGET static void
add_blocks_fast(uint32_t state[8], const unsigned char *at, size_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i *to = (__m128i *)(void *)state;
  // From ABCD and EFGH to the instructions' order, and back.
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(to), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(to + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; count > 0; --count, at += LS_SHA256_BLOCK) {
    const __m128i before[2] = {abef, cdgh};
    __m128i w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(
          _mm_loadu_si128((const __m128i *)(const void *)at + i), swap);
    for (int i = 0; i < ROUNDS; i += 16) {
      make_four_rounds(&abef, &cdgh, constants + i, &w[0], w[1], w[2], w[3]);
      make_four_rounds(&abef, &cdgh, constants + i + 4, &w[1], w[2], w[3],
                       w[0]);
      make_four_rounds(&abef, &cdgh, constants + i + 8, &w[2], w[3], w[0],
                       w[1]);
      make_four_rounds(&abef, &cdgh, constants + i + 12, &w[3], w[0], w[1],
                       w[2]);
    }
    abef = _mm_add_epi32(abef, before[0]);
    cdgh = _mm_add_epi32(cdgh, before[1]);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(to, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(to + 1, _mm_alignr_epi8(dchg, feba, 8));
}

// ---- ARM -------------------------------------------------------------------
#elif defined(__aarch64__) && defined(__linux__)
#define LS_SHA_TARGET __attribute__((target("+crypto")))

static bool has_instructions(void) {
  return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0;
}

LS_SHA_TARGET static void
add_blocks_fast(uint32_t state[8], const unsigned char *at, size_t count) {
  uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
  for (; count > 0; --count, at += LS_SHA256_BLOCK) {
    const uint32x4_t before[2] = {abcd, efgh};
    uint32x4_t w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(at + 16 * i)));
    for (int i = 0; i < ROUNDS / 4; ++i) {
      const uint32x4_t sum = vaddq_u32(w[i & 3], vld1q_u32(constants + 4 * i));
      const uint32x4_t first = abcd;
      abcd = vsha256hq_u32(abcd, efgh, sum);
      efgh = vsha256h2q_u32(efgh, first, sum);
      // Replaces the words by those of 16 rounds later.
      w[i & 3] = vsha256su1q_u32(vsha256su0q_u32(w[i & 3], w[(i + 1) & 3]),
                                 w[(i + 2) & 3], w[(i + 3) & 3]);
    }
    abcd = vaddq_u32(abcd, before[0]);
    efgh = vaddq_u32(efgh, before[1]);
  }
  vst1q_u32(state, abcd);
  vst1q_u32(state + 4, efgh);
}
#endif

// ---- Hashes ----------------------------------------------------------------
void ls_sha256_init_portable(ls_sha256 *sha) {
  *sha = (ls_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                     .add_blocks = add_blocks_portable};
}

void ls_sha256_init(ls_sha256 *sha) {
  ls_sha256_init_portable(sha);
#ifdef LS_SHA_TARGET
  // Asking the processor may take microseconds in a virtual machine.
  enum { UNKNOWN, FAST, PORTABLE };
  static int way;
  int found = __atomic_load_n(&way, __ATOMIC_RELAXED);
  if (found == UNKNOWN) found = has_instructions() ? FAST : PORTABLE;
  __atomic_store_n(&way, found, __ATOMIC_RELAXED);
  if (found == FAST) sha->add_blocks = add_blocks_fast;
#endif
}

void ls_sha256_add(ls_sha256 *sha, const void *data, size_t size) {
  const unsigned char *at = data;
  const size_t used = (size_t)(sha->size % LS_SHA256_BLOCK);
  if (size == 0) return;
  sha->size += size;
  if (used > 0) {
    const size_t room = LS_SHA256_BLOCK - used;
    const size_t part = size < room ? size : room;
    memcpy(sha->rest + used, at, part);
    if (part < room) return;
    sha->add_blocks(sha->state, sha->rest, 1);
    at += part;
    size -= part;
  }
  sha->add_blocks(sha->state, at, size / LS_SHA256_BLOCK);
  memcpy(sha->rest, at + size / LS_SHA256_BLOCK * LS_SHA256_BLOCK,
         size % LS_SHA256_BLOCK);
}

void ls_sha256_print(const ls_sha256 *sha, char text[LS_SHA256_TEXT]) {
  ls_sha256 end = *sha;
  const size_t used = (size_t)(sha->size % LS_SHA256_BLOCK);
  // A one bit, and zeros up to the size in bits at the end of a block.
  unsigned char tail[2 * LS_SHA256_BLOCK] = {0x80};
  const size_t size = (used < 56 ? 56 : 120) - used;
  for (int i = 0; i < 8; ++i)
    tail[size + (size_t)i] = (unsigned char)(sha->size * 8 >> (56 - 8 * i));
  ls_sha256_add(&end, tail, size + 8);
  for (int i = 0; i < 8; ++i)
    snprintf(text + 8 * i, 9, "%08x", end.state[i]);
}
