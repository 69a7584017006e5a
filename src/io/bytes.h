// SPDX-License-Identifier: Apache-2.0
// Reads and writes numbers in either byte order, at any alignment.
#ifndef LS_IO_BYTES_H_
#define LS_IO_BYTES_H_

#include <stdint.h>

#include "base/text.h"

static inline uint16_t ls_load_le16(const void *at) {
  const unsigned char *b = at;
  return (uint16_t)(b[0] | b[1] << 8);
}
static inline uint32_t ls_load_le32(const void *at) {
  const unsigned char *b = at;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
         (uint32_t)b[3] << 24;
}
static inline uint64_t ls_load_le64(const void *at) {
  const unsigned char *b = at;
  return ls_load_le32(b) | (uint64_t)ls_load_le32(b + 4) << 32;
}

static inline uint16_t ls_load_be16(const void *at) {
  const unsigned char *b = at;
  return (uint16_t)(b[0] << 8 | b[1]);
}
static inline uint32_t ls_load_be32(const void *at) {
  const unsigned char *b = at;
  return (uint32_t)ls_load_be16(b) << 16 | ls_load_be16(b + 2);
}

static inline void ls_store_le16(void *at, uint16_t value) {
  unsigned char *b = at;
  b[0] = (unsigned char)value;
  b[1] = (unsigned char)(value >> 8);
}
static inline void ls_store_le32(void *at, uint32_t value) {
  unsigned char *b = at;
  for (int i = 0; i < 4; ++i)
    b[i] = (unsigned char)(value >> (8 * i));
}
static inline void ls_store_le64(void *at, uint64_t value) {
  unsigned char *b = at;
  for (int i = 0; i < 8; ++i)
    b[i] = (unsigned char)(value >> (8 * i));
}

// Returns true if this machine stores a number's lowest byte first.
static inline bool ls_is_little_endian(void) {
  return ls_load_le16(&(uint16_t){1}) == 1;
}

// ---- Base64 ----------------------------------------------------------------
// Base64 (RFC 4648, section 4). Bytes have one text: padded, without spaces,
// unused bits zero.
void ls_base64_append(ls_text *text, const void *data, size_t size);
// Returns the number of bytes that `length` characters encode, from their
// number and padding; SIZE_MAX: they cannot be base64.
size_t ls_base64_size(const char *text, size_t length);
// Decodes a text into the number of bytes that ls_base64_size returns; returns
// false if it is not base64.
bool ls_base64_decode(const char *text, void *out, size_t size);

#endif  // LS_IO_BYTES_H_
