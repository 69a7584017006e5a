// SPDX-License-Identifier: Apache-2.0
// JSON (RFC 8259): a writer, and a reader into an arena.
//
// The writer adds commas and quotes by itself:
//
//   ls_json_begin(&json, '{');
//   ls_json_key(&json, "loss");
//   ls_json_f64(&json, 0.5);
//   ls_json_end(&json, '}');
//
// The first lack of memory sticks, and the text (base/text.h) reports it.
#ifndef LS_IO_JSON_H_
#define LS_IO_JSON_H_

#include "base/memory/arena.h"
#include "base/text.h"

// ---- Writing ---------------------------------------------------------------
typedef struct ls_json_writer {
  ls_text *text;
  bool comma;  // A comma must precede the next value or key.
} ls_json_writer;

void ls_json_begin(ls_json_writer *json, char bracket);  // '{' or '['.
void ls_json_end(ls_json_writer *json, char bracket);    // '}' or ']'.
void ls_json_key(ls_json_writer *json, const char *key);
void ls_json_string(ls_json_writer *json, const char *value);
// Writes any bytes as a string: invalid UTF-8 becomes U+FFFD.
void ls_json_any_string(ls_json_writer *json, const char *value);
bool ls_json_is_utf8(const char *value);
// Returns the number of bytes of the character at the start of a text, which is
// not at its end; 0 for invalid UTF-8.
size_t ls_json_character_size(const char *at);
// Writes any bytes as a string of base64 digits.
void ls_json_base64(ls_json_writer *json, const void *data, size_t size);
void ls_json_bool(ls_json_writer *json, bool value);
void ls_json_i64(ls_json_writer *json, int64_t value);
// Writes a number given in thousandths, with three digits after the point.
void ls_json_thousandths(ls_json_writer *json, int64_t value);
// Writes the shortest digits that read back as the same number; null for values
// without a JSON number (NaN, infinities).
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
  bool is_integer;  // Number: true if `integer` is its exact value.
  bool boolean;
  double number;
  int64_t integer;
  const char *string;  // `string_size` bytes, checked by nobody, and a zero.
  union {
    size_t string_size;
    size_t at;  // Object: offset of its first character in the text.
  };
  const char *key;  // Key of an object's member.
  ls_json *first;   // First item or member of an array or object.
  ls_json *next;    // Next sibling in the same array or object.
};

// Reads all of `size` bytes. The value lives in the arena. `name` names the
// text in messages.
//   LS_INVALID_ARGUMENT  names the line, the text there and what was expected;
//                        also for a key given twice, nesting deeper than 64 and
//                        more values than 65536 and one for each 24 bytes.
LS_MUST_USE ls_status ls_json_parse(ls_arena *arena, const char *name,
                                    const char *text, size_t size,
                                    const ls_json **out_value);
// Reads a text with other limits: `values` in place of 65536, and `depth` in
// place of 64. 0: the usual one.
typedef struct ls_json_limits {
  size_t values;
  int depth;
} ls_json_limits;
LS_MUST_USE ls_status ls_json_parse_up_to(ls_arena *arena, const char *name,
                                          const char *text, size_t size,
                                          ls_json_limits limits,
                                          const ls_json **out_value);

// Reads a text that is one object with any number of members, and passes each
// to the visitor as it is read. Values are valid until the visitor returns, so
// that memory is needed for one member at a time, to which the limits above
// apply; keys are in the arena. Stops at the visitor's error.
typedef ls_status (*ls_json_visitor)(void *user, const ls_json *member);
LS_MUST_USE ls_status ls_json_visit(ls_arena *arena, const char *name,
                                    const char *text, size_t size,
                                    ls_json_visitor visit, void *user);

// Returns the member of an object, NULL if there is none.
const ls_json *ls_json_find(const ls_json *object, const char *key);

#endif  // LS_IO_JSON_H_
