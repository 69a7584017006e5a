// SPDX-License-Identifier: Apache-2.0
// Text: a string that is built piece by piece.
//
// Running out of memory is sticky: later pieces are dropped and the end,
// ls_text_finish or ls_text_status, says so, so pieces need no check.
//
// Thread-compatible.
#ifndef LS_BASE_TEXT_H_
#define LS_BASE_TEXT_H_

#include "base/export.h"
#include "base/memory/allocator.h"

typedef struct ls_text {
  ls_allocator *allocator;
  char *data;       // Zero-terminated once there is a piece; else NULL.
  size_t size;      // Without the zero.
  size_t capacity;  // With it.
  bool failed;      // There was no memory for a piece.
} ls_text;

// Takes no memory yet. The allocator outlives the text.
LS_PRIVATE_API void ls_text_init(ls_text *text, ls_allocator *allocator);
LS_PRIVATE_API void ls_text_deinit(ls_text *text);
// Empties it, keeps its memory and forgets a failure.
LS_PRIVATE_API void ls_text_clear(ls_text *text);

LS_PRIVATE_API void ls_text_append(ls_text *text, const char *piece);
LS_PRIVATE_API void ls_text_append_bytes(ls_text *text, const void *data,
                                         size_t size);
LS_PRIVATE_API void ls_text_append_char(ls_text *text, char c);
// In decimal digits. As each program's text is compared, this is no printf.
void ls_text_append_i64(ls_text *text, int64_t number);
LS_PRIVATE_API void ls_text_append_format(ls_text *text, const char *format,
                                          ...) LS_PRINTF(2, 3);
void ls_text_append_format_v(ls_text *text, const char *format,
                             va_list arguments);

// The decimal digits of a number; they end where `buffer` does.
const char *ls_print_i64(int64_t number, char buffer[24]);

// The text so far, "" at first. Valid until the next change.
LS_PRIVATE_API const char *ls_text_data(const ls_text *text);
// OK, or out of memory.
LS_PRIVATE_API LS_MUST_USE ls_status ls_text_status(const ls_text *text);
// Hands the string over; the caller gives it back with ls_release and the
// text's allocator. NULL when memory ran out on the way. The text is empty
// afterwards and can be used again.
char *ls_text_finish(ls_text *text);

#endif  // LS_BASE_TEXT_H_
