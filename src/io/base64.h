// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, section 4): bytes as text, and back. Bytes have one text:
// padded, without spaces, unused bits zero.
#ifndef LS_IO_BASE64_H_
#define LS_IO_BASE64_H_

#include "base/text.h"

void ls_base64_append(ls_text *text, const void *data, size_t size);
// Returns the number of bytes that `length` characters encode, from their
// number and padding; SIZE_MAX: they cannot be base64.
size_t ls_base64_size(const char *text, size_t length);
// Decodes a text into the number of bytes that ls_base64_size returns; returns
// false if it is not base64.
bool ls_base64_decode(const char *text, void *out, size_t size);

#endif  // LS_IO_BASE64_H_
