// SPDX-License-Identifier: Apache-2.0
// A strict reader of JSON text that keeps nothing: it checks and finds values,
// which others read into arrays.
#include <string.h>

#include "cli/data/json_text.h"

enum { MOST_NESTING = 64 };

void cli_cursor_space(cli_cursor *c) {
  while (c->at < c->end &&
         (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
    ++c->at;
}

bool cli_cursor_take(cli_cursor *c, char wanted) {
  cli_cursor_space(c);
  if (c->at == c->end || *c->at != wanted) return false;
  ++c->at;
  return true;
}

ls_status cli_cursor_error(const cli_cursor *c, const char *expected) {
  long long line = c->lines + 1;
  const char *begin = c->text;
  for (const char *at = c->text; at < c->at; ++at) {
    if (*at != '\n') continue;
    ++line;
    begin = at + 1;
  }
  const long long byte = (long long)(c->at - begin) + 1;
  if (c->at == c->end)
    return ls_invalid_argument(
        "the JSON ends at line %lld, byte %lld: expected %s", line, byte,
        expected);
  const char found = *c->at;
  if (found <= ' ' || found > '~')
    return ls_invalid_argument(
        "the JSON has the byte 0x%02x at line %lld, byte %lld: expected %s",
        (unsigned)(unsigned char)found, line, byte, expected);
  return ls_invalid_argument(
      "the JSON has '%c' at line %lld, byte %lld: expected %s", found, line,
      byte, expected);
}

// ---- Strings ---------------------------------------------------------------
static bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
         (c >= 'A' && c <= 'F');
}

// Skips what follows a backslash.
static ls_status skip_escape(cli_cursor *c) {
  if (c->at == c->end || strchr("\"\\/bfnrtu", *c->at) == NULL || *c->at == 0)
    return cli_cursor_error(c, "an escape: one of \"\\/bfnrtu");
  if (*c->at++ != 'u') return ls_ok();
  for (int i = 0; i < 4; ++i, ++c->at)
    if (c->at == c->end || !is_hex(*c->at))
      return cli_cursor_error(c, "four hexadecimal digits");
  return ls_ok();
}

ls_status cli_cursor_string(cli_cursor *c, const char **out, size_t *out_size) {
  if (!cli_cursor_take(c, '"')) return cli_cursor_error(c, "a string");
  *out = c->at;
  for (; c->at < c->end && *c->at != '"';) {
    if ((unsigned char)*c->at < ' ')
      return cli_cursor_error(c, "an escape for a control character");
    if (*c->at++ == '\\') LS_RETURN_IF_ERROR(skip_escape(c));
  }
  if (c->at == c->end) return cli_cursor_error(c, "the string's end");
  *out_size = (size_t)(c->at++ - *out);
  return ls_ok();
}

// ---- Values ----------------------------------------------------------------
static bool skip_digits(cli_cursor *c) {
  const char *begin = c->at;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
    ++c->at;
  return c->at > begin;
}

static ls_status skip_number(cli_cursor *c) {
  if (*c->at == '-') ++c->at;
  const bool zero = c->at < c->end && *c->at == '0';
  if (zero)
    ++c->at;
  else if (!skip_digits(c))
    return cli_cursor_error(c, "a value");
  if (c->at < c->end && *c->at == '.') {
    ++c->at;
    if (!skip_digits(c)) return cli_cursor_error(c, "a digit");
  }
  if (c->at < c->end && (*c->at == 'e' || *c->at == 'E')) {
    ++c->at;
    if (c->at < c->end && (*c->at == '+' || *c->at == '-')) ++c->at;
    if (!skip_digits(c)) return cli_cursor_error(c, "a digit");
  }
  return ls_ok();
}

static ls_status skip_word(cli_cursor *c) {
  static const char *const words[] = {"true", "false", "null"};
  for (size_t i = 0; i < sizeof(words) / sizeof(*words); ++i) {
    const size_t size = strlen(words[i]);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, words[i], size) != 0)
      continue;
    c->at += size;
    return ls_ok();
  }
  return cli_cursor_error(c, "a value");
}

static ls_status skip_value(cli_cursor *c, int depth, int64_t *out_count);

// Skips the items of an array or the members of an object after its bracket.
static ls_status skip_items(cli_cursor *c, char end, int depth,
                            int64_t *out_count) {
  const char *key = NULL;
  size_t size = 0;
  int64_t count = 0;
  if (depth == MOST_NESTING) return cli_cursor_error(c, "less nesting");
  if (!cli_cursor_take(c, end)) {
    do {
      if (end == '}') {
        LS_RETURN_IF_ERROR(cli_cursor_string(c, &key, &size));
        if (!cli_cursor_take(c, ':')) return cli_cursor_error(c, "':'");
      }
      LS_RETURN_IF_ERROR(skip_value(c, depth + 1, NULL));
      ++count;
    } while (cli_cursor_take(c, ','));
    if (!cli_cursor_take(c, end))
      return cli_cursor_error(c, end == '}' ? "',' or '}'" : "',' or ']'");
  }
  if (out_count != NULL) *out_count = count;
  return ls_ok();
}

static ls_status skip_value(cli_cursor *c, int depth, int64_t *out_count) {
  const char *text = NULL;
  size_t size = 0;
  cli_cursor_space(c);
  if (c->at == c->end) return cli_cursor_error(c, "a value");
  const char first = *c->at;
  if (first == '"') return cli_cursor_string(c, &text, &size);
  if (first == '-' || (first >= '0' && first <= '9')) return skip_number(c);
  if (first != '{' && first != '[') return skip_word(c);
  ++c->at;
  return skip_items(c, first == '{' ? '}' : ']', depth, out_count);
}

ls_status cli_cursor_skip(cli_cursor *c, int64_t *out_count) {
  if (out_count != NULL) *out_count = 0;
  return skip_value(c, 0, out_count);
}
