// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/plain.h"
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

static void append_quoted(ls_text *text, const char *value) {
  ls_text_append_char(text, '"');
  for (const char *at = value; *at != '\0'; ++at) {
    const unsigned char c = (unsigned char)*at;
    if (c == '"' || c == '\\') {
      ls_text_append_char(text, '\\');
      ls_text_append_char(text, *at);
    } else if (c == '\n') {
      ls_text_append(text, "\\n");
    } else if (c < 0x20) {
      ls_text_append_format(text, "\\u%04x", c);
    } else {
      ls_text_append_char(text, *at);
    }
  }
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

void ls_json_bool(ls_json_writer *json, bool value) {
  before_value(json);
  ls_text_append(json->text, value ? "true" : "false");
}

void ls_json_i64(ls_json_writer *json, int64_t value) {
  before_value(json);
  ls_text_append_format(json->text, "%lld", (long long)value);
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
