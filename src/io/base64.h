// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, section 4): bytes as text, and back. Bytes have one text:
// padded, without spaces, unused bits zero.
#ifndef LS_IO_BASE64_H_
#define LS_IO_BASE64_H_

#include "base/text.h"

void ls_base64_append(ls_text *text, const void *data, size_t size);
// The bytes that `length` characters stand for, as their number and their
// padding say; SIZE_MAX: they cannot be base64.
size_t ls_base64_size(const char *text, size_t length);
// Decodes into `size` bytes a text of the length that belongs to them; false:
// it is none.
bool ls_base64_decode(const char *text, void *out, size_t size);

#endif  // LS_IO_BASE64_H_
