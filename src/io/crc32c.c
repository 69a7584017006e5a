// SPDX-License-Identifier: Apache-2.0
// CRC-32C by the processor's instruction, which has a latency of 3 cycles and a
// throughput of one: three parts of the data are summed in parallel. Parts are
// joined by multiplying the checksum of earlier bytes by x^(8n) for n later
// bytes: one carry-less multiplication.
#include "io/crc32c.h"

#include <stdbool.h>
#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

static const uint32_t table[256] = {
    0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c,
    0x26a1e7e8, 0xd4ca64eb, 0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b,
    0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24, 0x105ec76f, 0xe235446c,
    0xf165b798, 0x030e349b, 0xd7c45070, 0x25afd373, 0x36ff2087, 0xc494a384,
    0x9a879fa0, 0x68ec1ca3, 0x7bbcef57, 0x89d76c54, 0x5d1d08bf, 0xaf768bbc,
    0xbc267848, 0x4e4dfb4b, 0x20bd8ede, 0xd2d60ddd, 0xc186fe29, 0x33ed7d2a,
    0xe72719c1, 0x154c9ac2, 0x061c6936, 0xf477ea35, 0xaa64d611, 0x580f5512,
    0x4b5fa6e6, 0xb93425e5, 0x6dfe410e, 0x9f95c20d, 0x8cc531f9, 0x7eaeb2fa,
    0x30e349b1, 0xc288cab2, 0xd1d83946, 0x23b3ba45, 0xf779deae, 0x05125dad,
    0x1642ae59, 0xe4292d5a, 0xba3a117e, 0x4851927d, 0x5b016189, 0xa96ae28a,
    0x7da08661, 0x8fcb0562, 0x9c9bf696, 0x6ef07595, 0x417b1dbc, 0xb3109ebf,
    0xa0406d4b, 0x522bee48, 0x86e18aa3, 0x748a09a0, 0x67dafa54, 0x95b17957,
    0xcba24573, 0x39c9c670, 0x2a993584, 0xd8f2b687, 0x0c38d26c, 0xfe53516f,
    0xed03a29b, 0x1f682198, 0x5125dad3, 0xa34e59d0, 0xb01eaa24, 0x42752927,
    0x96bf4dcc, 0x64d4cecf, 0x77843d3b, 0x85efbe38, 0xdbfc821c, 0x2997011f,
    0x3ac7f2eb, 0xc8ac71e8, 0x1c661503, 0xee0d9600, 0xfd5d65f4, 0x0f36e6f7,
    0x61c69362, 0x93ad1061, 0x80fde395, 0x72966096, 0xa65c047d, 0x5437877e,
    0x4767748a, 0xb50cf789, 0xeb1fcbad, 0x197448ae, 0x0a24bb5a, 0xf84f3859,
    0x2c855cb2, 0xdeeedfb1, 0xcdbe2c45, 0x3fd5af46, 0x7198540d, 0x83f3d70e,
    0x90a324fa, 0x62c8a7f9, 0xb602c312, 0x44694011, 0x5739b3e5, 0xa55230e6,
    0xfb410cc2, 0x092a8fc1, 0x1a7a7c35, 0xe811ff36, 0x3cdb9bdd, 0xceb018de,
    0xdde0eb2a, 0x2f8b6829, 0x82f63b78, 0x709db87b, 0x63cd4b8f, 0x91a6c88c,
    0x456cac67, 0xb7072f64, 0xa457dc90, 0x563c5f93, 0x082f63b7, 0xfa44e0b4,
    0xe9141340, 0x1b7f9043, 0xcfb5f4a8, 0x3dde77ab, 0x2e8e845f, 0xdce5075c,
    0x92a8fc17, 0x60c37f14, 0x73938ce0, 0x81f80fe3, 0x55326b08, 0xa759e80b,
    0xb4091bff, 0x466298fc, 0x1871a4d8, 0xea1a27db, 0xf94ad42f, 0x0b21572c,
    0xdfeb33c7, 0x2d80b0c4, 0x3ed04330, 0xccbbc033, 0xa24bb5a6, 0x502036a5,
    0x4370c551, 0xb11b4652, 0x65d122b9, 0x97baa1ba, 0x84ea524e, 0x7681d14d,
    0x2892ed69, 0xdaf96e6a, 0xc9a99d9e, 0x3bc21e9d, 0xef087a76, 0x1d63f975,
    0x0e330a81, 0xfc588982, 0xb21572c9, 0x407ef1ca, 0x532e023e, 0xa145813d,
    0x758fe5d6, 0x87e466d5, 0x94b49521, 0x66df1622, 0x38cc2a06, 0xcaa7a905,
    0xd9f75af1, 0x2b9cd9f2, 0xff56bd19, 0x0d3d3e1a, 0x1e6dcdee, 0xec064eed,
    0xc38d26c4, 0x31e6a5c7, 0x22b65633, 0xd0ddd530, 0x0417b1db, 0xf67c32d8,
    0xe52cc12c, 0x1747422f, 0x49547e0b, 0xbb3ffd08, 0xa86f0efc, 0x5a048dff,
    0x8ecee914, 0x7ca56a17, 0x6ff599e3, 0x9d9e1ae0, 0xd3d3e1ab, 0x21b862a8,
    0x32e8915c, 0xc083125f, 0x144976b4, 0xe622f5b7, 0xf5720643, 0x07198540,
    0x590ab964, 0xab613a67, 0xb831c993, 0x4a5a4a90, 0x9e902e7b, 0x6cfbad78,
    0x7fab5e8c, 0x8dc0dd8f, 0xe330a81a, 0x115b2b19, 0x020bd8ed, 0xf0605bee,
    0x24aa3f05, 0xd6c1bc06, 0xc5914ff2, 0x37faccf1, 0x69e9f0d5, 0x9b8273d6,
    0x88d28022, 0x7ab90321, 0xae7367ca, 0x5c18e4c9, 0x4f48173d, 0xbd23943e,
    0xf36e6f75, 0x0105ec76, 0x12551f82, 0xe03e9c81, 0x34f4f86a, 0xc69f7b69,
    0xd5cf889d, 0x27a40b9e, 0x79b737ba, 0x8bdcb4b9, 0x988c474d, 0x6ae7c44e,
    0xbe2da0a5, 0x4c4623a6, 0x5f16d052, 0xad7d5351,
};

uint32_t ls_crc32c_portable(uint32_t crc, const void *data, size_t size) {
  const unsigned char *at = data;
  crc = ~crc;
  for (size_t i = 0; i < size; ++i)
    crc = crc >> 8 ^ table[(crc ^ at[i]) & 0xff];
  return ~crc;
}

static inline uint64_t word_at(const unsigned char *at) {
  uint64_t word = 0;
  memcpy(&word, at, sizeof(word));
  return word;
}

// ---- x86 -------------------------------------------------------------------
#if defined(__x86_64__)
#define LS_CRC_TARGET __attribute__((target("sse4.2,pclmul")))

typedef long long pair __attribute__((vector_size(16)));

static bool has_instruction(void) {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

LS_CRC_TARGET static inline uint64_t next(uint64_t crc, uint64_t word) {
  return __builtin_ia32_crc32di(crc, word);
}

LS_CRC_TARGET static inline uint32_t next_byte(uint32_t crc,
                                               unsigned char byte) {
  return __builtin_ia32_crc32qi(crc, byte);
}

// Returns `crc` times x^(8n); `power` is x^(8n - 33), as the product is one
// position too high and the instruction multiplies by x^32.
LS_CRC_TARGET static inline uint64_t shift_crc(uint64_t crc, uint32_t power) {
  const pair product = __builtin_ia32_pclmulqdq128((pair){(long long)crc, 0},
                                                   (pair){power, 0}, 0);
  return next(0, (uint64_t)product[0]);
}

// Sums three parts of `part` bytes each; the powers are for one part and for
// two.
LS_CRC_TARGET static inline uint64_t
three_parts(uint64_t crc, const unsigned char *at, size_t part,
            uint32_t one_power, uint32_t two_power) {
  uint64_t second = 0, third = 0;
  for (size_t i = 0; i < part; i += 8) {
    crc = next(crc, word_at(at + i));
    second = next(second, word_at(at + part + i));
    third = next(third, word_at(at + 2 * part + i));
  }
  return shift_crc(crc, two_power) ^ shift_crc(second, one_power) ^ third;
}

LS_CRC_TARGET static inline uint64_t
many_parts(uint64_t crc, const unsigned char **at, size_t *size) {
  for (; *size >= 3072; *at += 3072, *size -= 3072)
    crc = three_parts(crc, *at, 1024, 0x170076fa, 0xa51b6135);
  for (; *size >= 384; *at += 384, *size -= 384)
    crc = three_parts(crc, *at, 128, 0x0d3b6092, 0xb9e02b86);
  return crc;
}

// Folds four vectors of 64 bytes over the bytes 256 further on, one carry-less
// product per 16 bytes: some 20 ms per gibibyte on machines with the
// instruction. Pairs of powers are x^(D + 32) and x^(D - 32) for a distance of
// D bits.
#define LS_CRC_WIDE_TARGET                                                     \
  __attribute__((target("avx512f,vpclmulqdq,sse4.2,pclmul")))
enum { WIDE_LEAST = 1024 };

static bool has_wide_vectors(void) {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("vpclmulqdq") && has_instruction();
}

LS_CRC_WIDE_TARGET static inline __m512i fold(__m512i before, __m512i powers,
                                              __m512i next) {
  const __m512i low = _mm512_clmulepi64_epi128(before, powers, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(before, powers, 0x11);
  return _mm512_xor_si512(_mm512_xor_si512(low, high), next);
}

LS_CRC_WIDE_TARGET static inline __m512i powers_of(uint32_t high_power,
                                                   uint32_t low_power) {
  return _mm512_set_epi64(low_power, high_power, low_power, high_power,
                          low_power, high_power, low_power, high_power);
}

LS_CRC_WIDE_TARGET static uint64_t
many_vectors(uint64_t crc, const unsigned char **at, size_t *size) {
  const __m512i far = powers_of(0xdcb17aa4, 0xb9e02b86);   // For 256 bytes.
  const __m512i near = powers_of(0x740eef02, 0x9e4addf8);  // For 64 bytes.
  __m512i sums[4];
  for (int i = 0; i < 4; ++i)
    sums[i] = _mm512_loadu_si512(*at + 64 * i);
  sums[0] = _mm512_xor_si512(
      sums[0], _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, (long long)crc));
  for (*at += 256, *size -= 256; *size >= 256; *at += 256, *size -= 256)
    for (int i = 0; i < 4; ++i)
      sums[i] = fold(sums[i], far, _mm512_loadu_si512(*at + 64 * i));
  for (int i = 1; i < 4; ++i)
    sums[i] = fold(sums[i - 1], near, sums[i]);
  unsigned char rest[64];
  _mm512_storeu_si512(rest, sums[3]);
  crc = 0;
  for (int i = 0; i < 64; i += 8)
    crc = next(crc, word_at(rest + i));
  return crc;
}
#define LS_CRC_WIDE

// ---- ARM -------------------------------------------------------------------
#elif defined(__aarch64__) && defined(__linux__)
#define LS_CRC_TARGET __attribute__((target("+crc")))

static bool has_instruction(void) {
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

LS_CRC_TARGET static inline uint64_t next(uint64_t crc, uint64_t word) {
  uint32_t sum = (uint32_t)crc;
  __asm__("crc32cx %w0, %w0, %x1" : "+r"(sum) : "r"(word));
  return sum;
}

LS_CRC_TARGET static inline uint32_t next_byte(uint32_t crc,
                                               unsigned char byte) {
  __asm__("crc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
  return crc;
}

LS_CRC_TARGET static inline uint64_t
many_parts(uint64_t crc, const unsigned char **at, size_t *size) {
  (void)at;
  (void)size;
  return crc;
}
#endif

// ---- Any -------------------------------------------------------------------
#ifdef LS_CRC_TARGET
LS_CRC_TARGET static uint32_t
by_instruction(uint32_t start, const unsigned char *at, size_t size) {
  uint64_t crc = ~start;
  crc = many_parts(crc, &at, &size);
  for (; size >= 8; at += 8, size -= 8)
    crc = next(crc, word_at(at));
  uint32_t last = (uint32_t)crc;
  for (; size > 0; ++at, --size)
    last = next_byte(last, *at);
  return ~last;
}
#endif

#ifdef LS_CRC_WIDE
LS_CRC_WIDE_TARGET static uint32_t
by_vectors(uint32_t start, const unsigned char *at, size_t size) {
  const uint64_t crc = many_vectors(~start, &at, &size);
  return by_instruction(~(uint32_t)crc, at, size);
}
#endif

uint32_t ls_crc32c(uint32_t crc, const void *data, size_t size) {
#ifdef LS_CRC_WIDE
  if (size >= WIDE_LEAST && has_wide_vectors())
    return by_vectors(crc, data, size);
#endif
#ifdef LS_CRC_TARGET
  if (has_instruction()) return by_instruction(crc, data, size);
#endif
  return ls_crc32c_portable(crc, data, size);
}

// ---- Two in a row ----------------------------------------------------------
// Returns a b modulo the polynomial; x^0 is the highest bit.
static uint32_t multiply_polynomials(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & UINT32_C(0x80000000)) != 0) product ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
  }
  return product;
}

uint32_t ls_crc32c_join(uint32_t first, uint32_t second, uint64_t second_size) {
  // Starts with x^8; each round squares the power.
  uint32_t power = UINT32_C(1) << 23;
  for (; second_size != 0; second_size >>= 1) {
    if ((second_size & 1) != 0) first = multiply_polynomials(power, first);
    power = multiply_polynomials(power, power);
  }
  return first ^ second;
}
