// SPDX-License-Identifier: Apache-2.0
#include "io/bytes.h"

void ls_base64_append(ls_text *text, const void *data, size_t size) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const uint8_t *bytes = data;
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = size - i;
    const uint32_t word = (uint32_t)bytes[i] << 16 |
                          (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                          (left > 2 ? (uint32_t)bytes[i + 2] : 0);
    const char group[4] = {digits[word >> 18], digits[word >> 12 & 63],
                           left > 1 ? digits[word >> 6 & 63] : '=',
                           left > 2 ? digits[word & 63] : '='};
    ls_text_append_bytes(text, group, sizeof(group));
  }
}

size_t ls_base64_size(const char *text, size_t length) {
  if (length % 4 != 0) return SIZE_MAX;
  if (length == 0) return 0;
  const size_t padding = text[length - 1] != '='   ? 0
                         : text[length - 2] != '=' ? 1
                                                   : 2;
  return length / 4 * 3 - padding;
}

static int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

bool ls_base64_decode(const char *text, void *out, size_t size) {
  uint8_t *bytes = out;
  for (size_t i = 0; i < size; i += 3, text += 4) {
    const size_t left = size - i;
    uint32_t word = 0;
    for (size_t k = 0; k < 4; ++k) {
      const bool padding = k > left;
      const int digit = padding ? 0 : digit_of(text[k]);
      if (digit < 0 || (padding && text[k] != '=')) return false;
      word = word << 6 | (uint32_t)digit;
    }
    for (size_t k = 0; k < 3 && k < left; ++k)
      bytes[i + k] = (uint8_t)(word >> (16 - 8 * k));
    // Bits after the last byte must be zero, so that bytes have only one text.
    if (left < 3 && (word & (left == 1 ? 0xffffu : 0xffu)) != 0) return false;
  }
  return true;
}
