// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/plain.h"
#include "io/bytes.h"
#include "io/json.h"

static void before_value(ls_json_writer *json) {
  if (json->comma) ls_text_append_char(json->text, ',');
  json->comma = true;
}

void ls_json_begin(ls_json_writer *json, char bracket) {
  before_value(json);
  ls_text_append_char(json->text, bracket);
  json->comma = false;
}

void ls_json_end(ls_json_writer *json, char bracket) {
  ls_text_append_char(json->text, bracket);
  json->comma = true;
}

static void append_escaped(ls_text *text, char byte) {
  const unsigned char c = (unsigned char)byte;
  if (c == '"' || c == '\\') {
    ls_text_append_char(text, '\\');
    ls_text_append_char(text, byte);
  } else if (c == '\n') {
    ls_text_append(text, "\\n");
  } else if (c < 0x20) {
    ls_text_append_format(text, "\\u%04x", c);
  } else {
    ls_text_append_char(text, byte);
  }
}

static void append_quoted(ls_text *text, const char *value) {
  ls_text_append_char(text, '"');
  for (const char *at = value; *at != '\0'; ++at)
    append_escaped(text, *at);
  ls_text_append_char(text, '"');
}

void ls_json_key(ls_json_writer *json, const char *key) {
  before_value(json);
  append_quoted(json->text, key);
  ls_text_append_char(json->text, ':');
  json->comma = false;
}

void ls_json_string(ls_json_writer *json, const char *value) {
  before_value(json);
  append_quoted(json->text, value);
}

size_t ls_json_character_size(const char *at) {
  const unsigned char c = (unsigned char)at[0];
  if (c < 0x80) return 1;
  const size_t size = c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
  if (size == 0 || c > 0xf4) return 0;
  for (size_t i = 1; i < size; ++i)
    if (((unsigned char)at[i] & 0xc0) != 0x80) return 0;
  // Rejects overlong forms, half surrogate pairs, and values beyond the last
  // character.
  const unsigned char d = (unsigned char)at[1];
  if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d >= 0xa0) ||
      (c == 0xf0 && d < 0x90) || (c == 0xf4 && d >= 0x90))
    return 0;
  return size;
}

void ls_json_any_string(ls_json_writer *json, const char *value) {
  before_value(json);
  ls_text_append_char(json->text, '"');
  for (const char *at = value; *at != '\0';) {
    const size_t size = ls_json_character_size(at);
    if (size == 1)
      append_escaped(json->text, *at);
    else if (size > 1)
      ls_text_append_bytes(json->text, at, size);
    else
      ls_text_append(json->text, "\\ufffd");
    at += size > 0 ? size : 1;
  }
  ls_text_append_char(json->text, '"');
}

bool ls_json_is_utf8(const char *value) {
  while (*value != '\0') {
    const size_t size = ls_json_character_size(value);
    if (size == 0) return false;
    value += size;
  }
  return true;
}

void ls_json_base64(ls_json_writer *json, const void *data, size_t size) {
  before_value(json);
  ls_text_append_char(json->text, '"');
  ls_base64_append(json->text, data, size);
  ls_text_append_char(json->text, '"');
}

void ls_json_bool(ls_json_writer *json, bool value) {
  before_value(json);
  ls_text_append(json->text, value ? "true" : "false");
}

void ls_json_i64(ls_json_writer *json, int64_t value) {
  before_value(json);
  ls_text_append_format(json->text, "%lld", (long long)value);
}

void ls_json_thousandths(ls_json_writer *json, int64_t value) {
  before_value(json);
  const int64_t integer_part = value / 1000, rest = value % 1000;
  if (value < 0 && integer_part == 0) ls_text_append_char(json->text, '-');
  ls_text_append_i64(json->text, integer_part);
  const int64_t digits = rest < 0 ? -rest : rest;
  const char text[4] = {'.', (char)('0' + digits / 100),
                        (char)('0' + digits / 10 % 10),
                        (char)('0' + digits % 10)};
  ls_text_append_bytes(json->text, text, sizeof(text));
}

void ls_json_f64(ls_json_writer *json, double value) {
  before_value(json);
  if (!isfinite(value)) {
    ls_text_append(json->text, "null");
    return;
  }
  char digits[40] = "";
  for (int precision = 1; precision <= 17; ++precision) {
    ls_format(digits, sizeof(digits), "%.*g", precision, value);
    if (ls_read_f64(digits, NULL) == value) break;
  }
  ls_text_append(json->text, digits);
}
