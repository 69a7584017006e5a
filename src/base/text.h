// SPDX-License-Identifier: Apache-2.0
// Text: a string that is built piece by piece.
//
// The first lack of memory sticks: later pieces are dropped, and ls_text_finish
// or ls_text_status reports it, so that pieces need no check.
//
// Thread-compatible.
#ifndef LS_BASE_TEXT_H_
#define LS_BASE_TEXT_H_

#include "base/export.h"
#include "base/memory/allocator.h"

typedef struct ls_text {
  ls_allocator *allocator;
  char *data;       // Zero-terminated; NULL before the first piece.
  size_t size;      // Size without the final zero.
  size_t capacity;  // Including the zero.
  bool failed;      // A piece was dropped for lack of memory.
} ls_text;

// Initializes a text; allocates nothing yet. The allocator outlives the text.
LS_PRIVATE_API void ls_text_init(ls_text *text, ls_allocator *allocator);
LS_PRIVATE_API void ls_text_deinit(ls_text *text);
// Empties the text, keeps its memory and forgets a failure.
LS_PRIVATE_API void ls_text_clear(ls_text *text);

LS_PRIVATE_API void ls_text_append(ls_text *text, const char *piece);
LS_PRIVATE_API void ls_text_append_bytes(ls_text *text, const void *data,
                                         size_t size);
void ls_text_append_char(ls_text *text, char c);
// Appends decimal digits. Does without printf, because each program's text is
// built this way to be compared.
void ls_text_append_i64(ls_text *text, int64_t number);
LS_PRIVATE_API void ls_text_append_format(ls_text *text, const char *format,
                                          ...) LS_PRINTF(2, 3);
void ls_text_append_format_v(ls_text *text, const char *format,
                             va_list arguments);

// Writes the decimal digits of a number to the end of `buffer`; returns the
// first.
const char *ls_print_i64(int64_t number, char buffer[24]);

// Returns the text so far, "" at first. Valid until the next change.
LS_PRIVATE_API const char *ls_text_data(const ls_text *text);
// Returns OK, or out-of-memory if a piece was dropped.
LS_PRIVATE_API LS_MUST_USE ls_status ls_text_status(const ls_text *text);
// Hands the string over; the caller frees it with ls_release and the text's
// allocator. Returns NULL if a piece was dropped. The text is empty afterwards
// and can be used again.
char *ls_text_finish(ls_text *text);

#endif  // LS_BASE_TEXT_H_
