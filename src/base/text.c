// SPDX-License-Identifier: Apache-2.0
// Text: a growable string.
#include "base/text.h"

#include "base/plain.h"

void ls_text_init(ls_text *text, ls_allocator *allocator) {
  *text = (ls_text){.allocator = allocator};
}

void ls_text_deinit(ls_text *text) {
  ls_release(text->allocator, text->data);
  *text = (ls_text){.allocator = text->allocator};
}

void ls_text_clear(ls_text *text) {
  text->size = 0;
  text->failed = false;
  if (text->data != NULL) text->data[0] = '\0';
}

// Returns true if there is room for `more` bytes and a zero.
static bool text_make_room(ls_text *text, size_t more) {
  size_t needed = 0;
  if (text->failed || __builtin_add_overflow(text->size, more, &needed) ||
      __builtin_add_overflow(needed, (size_t)1, &needed) ||
      !ls_grow(text->allocator, &text->data, &text->capacity, needed, 1)) {
    text->failed = true;
    return false;
  }
  return true;
}

void ls_text_append_bytes(ls_text *text, const void *data, size_t size) {
  if (!text_make_room(text, size)) return;
  if (size > 0) memcpy(text->data + text->size, data, size);
  text->size += size;
  text->data[text->size] = '\0';
}

void ls_text_append(ls_text *text, const char *piece) {
  ls_text_append_bytes(text, piece, strlen(piece));
}

void ls_text_append_char(ls_text *text, char c) {
  ls_text_append_bytes(text, &c, 1);
}

void ls_text_append_format_v(ls_text *text, const char *format,
                             va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  // First tries the room there is, which is usually enough.
  const size_t room = text->failed ? 0 : text->capacity - text->size;
  char *end = room > 0 ? text->data + text->size : NULL;
  const int length = ls_format_v(end, room, format, arguments);
  LS_ASSERT(length >= 0);
  if ((size_t)length < room) {
    text->size += (size_t)length;
  } else if (text_make_room(text, (size_t)length)) {
    ls_format_v(text->data + text->size, (size_t)length + 1, format, again);
    text->size += (size_t)length;
  } else if (room > 0) {
    *end = '\0';  // Drops the part that fit.
  }
  va_end(again);
}

const char *ls_print_i64(int64_t number, char buffer[24]) {
  char *at = buffer + 23;
  uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  *at = '\0';
  do {
    *--at = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest > 0);
  if (number < 0) *--at = '-';
  return at;
}

void ls_text_append_i64(ls_text *text, int64_t number) {
  char buffer[24];
  ls_text_append(text, ls_print_i64(number, buffer));
}

void ls_text_append_format(ls_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_text_append_format_v(text, format, arguments);
  va_end(arguments);
}

const char *ls_text_data(const ls_text *text) {
  return text->data == NULL ? "" : text->data;
}

ls_status ls_text_status(const ls_text *text) {
  return text->failed ? ls_out_of_memory() : ls_ok();
}

char *ls_text_finish(ls_text *text) {
  ls_text_append_bytes(text, "", 0);  // Makes the final zero.
  char *result = NULL;
  if (!text->failed) {
    result = text->data;
    text->data = NULL;
  }
  ls_text_deinit(text);
  return result;
}
