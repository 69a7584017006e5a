// SPDX-License-Identifier: Apache-2.0
// JSON (RFC 8259): pieces to write it with, and a reader into an arena.
//
// A writer adds commas and quotes by itself:
//
//   ls_json_begin(&json, '{');
//   ls_json_key(&json, "loss");
//   ls_json_f64(&json, 0.5);
//   ls_json_end(&json, '}');
//
// Running out of memory is sticky and said by the text (base/text.h).
#ifndef LS_IO_JSON_H_
#define LS_IO_JSON_H_

#include "base/memory/arena.h"
#include "base/text.h"

// ---- Writing ---------------------------------------------------------------
typedef struct ls_json_writer {
  ls_text *text;
  bool comma;  // The next value or key needs one before it.
} ls_json_writer;

void ls_json_begin(ls_json_writer *json, char bracket);  // '{' or '['.
void ls_json_end(ls_json_writer *json, char bracket);    // '}' or ']'.
void ls_json_key(ls_json_writer *json, const char *key);
void ls_json_string(ls_json_writer *json, const char *value);
// The same for any bytes: those that are no UTF-8 become U+FFFD.
void ls_json_any_string(ls_json_writer *json, const char *value);
bool ls_json_is_utf8(const char *value);
// The bytes of the character that a text, which is not at its end, begins with;
// 0: they are none of UTF-8.
size_t ls_json_character_size(const char *at);
// Any bytes, as a string of base64 digits.
void ls_json_base64(ls_json_writer *json, const void *data, size_t size);
void ls_json_bool(ls_json_writer *json, bool value);
void ls_json_i64(ls_json_writer *json, int64_t value);
// A number of thousandths, with three digits behind the point.
void ls_json_thousandths(ls_json_writer *json, int64_t value);
// The shortest digits that read back as the same number; null for what JSON
// has no number for (nan, infinities).
void ls_json_f64(ls_json_writer *json, double value);

// ---- Reading ---------------------------------------------------------------
typedef enum ls_json_kind {
  LS_JSON_NULL,
  LS_JSON_BOOL,
  LS_JSON_NUMBER,
  LS_JSON_STRING,
  LS_JSON_ARRAY,
  LS_JSON_OBJECT,
} ls_json_kind;

typedef struct ls_json ls_json;
struct ls_json {
  ls_json_kind kind;
  bool is_integer;  // Of a number: `integer` is its exact value.
  bool boolean;
  double number;
  int64_t integer;
  const char *string;  // UTF-8; `string_size` bytes and a zero.
  size_t string_size;
  const char *key;  // Of an object's member.
  ls_json *first;   // Item or member of an array or object.
  ls_json *next;    // Beside it.
};

// Reads the whole of `size` bytes. The value lives in the arena. `name` is what
// messages call the text.
//   LS_INVALID_ARGUMENT  names the line, what stands there and what would be
//                        right; also a key given twice, deeper nesting than 64
//                        and more values than 65536 and one for each 24
//                        bytes.
LS_MUST_USE ls_status ls_json_parse(ls_arena *arena, const char *name,
                                    const char *text, size_t size,
                                    const ls_json **out_value);

// Reads a text that is one object, for which the number of members has no
// limit, and hands over each as it comes. Values are lent until the visitor
// returns, so that there is memory for one member at a time, which may have as
// many values as above; keys are in the arena. Stops at the visitor's error.
typedef ls_status (*ls_json_visitor)(void *user, const ls_json *member);
LS_MUST_USE ls_status ls_json_visit(ls_arena *arena, const char *name,
                                    const char *text, size_t size,
                                    ls_json_visitor visit, void *user);

// The member of an object, NULL without one.
const ls_json *ls_json_find(const ls_json *object, const char *key);

#endif  // LS_IO_JSON_H_
