// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/map.h"
#include "io/json.h"

enum { LS_JSON_MAX_DEPTH = 64 };

typedef struct parser {
  ls_arena *arena;
  const char *name;
  const char *text, *at, *end;
} parser;

// ---- Messages --------------------------------------------------------------
static ls_status wrong(const parser *p, const char *wanted) {
  int line = 1;
  for (const char *at = p->text; at < p->at; ++at)
    line += *at == '\n';
  char found[16];
  const unsigned char c = p->at < p->end ? (unsigned char)*p->at : 0;
  if (p->at >= p->end) {
    snprintf(found, sizeof(found), "the end");
  } else if (c > 0x20 && c < 0x7f) {
    snprintf(found, sizeof(found), "'%c'", c);
  } else {
    snprintf(found, sizeof(found), "byte %02x", c);
  }
  return ls_invalid_argument("%s:%d: found %s, expected %s", p->name, line,
                             found, wanted);
}

static void skip_space(parser *p) {
  while (p->at < p->end &&
         (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
    ++p->at;
}

static bool accept(parser *p, char c) {
  skip_space(p);
  if (p->at >= p->end || *p->at != c) return false;
  ++p->at;
  return true;
}

static bool accept_word(parser *p, const char *word) {
  const size_t size = strlen(word);
  if ((size_t)(p->end - p->at) < size || memcmp(p->at, word, size) != 0)
    return false;
  p->at += size;
  return true;
}

// ---- Strings ---------------------------------------------------------------
static ls_status parse_hex4(parser *p, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; ++i, ++p->at) {
    const char c = p->at < p->end ? *p->at : '\0';
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = (uint32_t)(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      digit = (uint32_t)((c | 0x20) - 'a') + 10;
    } else {
      return wrong(p, "four hexadecimal digits");
    }
    *out = *out << 4 | digit;
  }
  return ls_ok();
}

static char *put_utf8(char *to, uint32_t c) {
  if (c < 0x80) {
    *to++ = (char)c;
  } else if (c < 0x800) {
    *to++ = (char)(0xc0 | c >> 6);
    *to++ = (char)(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    *to++ = (char)(0xe0 | c >> 12);
    *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    *to++ = (char)(0x80 | (c & 0x3f));
  } else {
    *to++ = (char)(0xf0 | c >> 18);
    *to++ = (char)(0x80 | (c >> 12 & 0x3f));
    *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    *to++ = (char)(0x80 | (c & 0x3f));
  }
  return to;
}

// What follows "\u": one unit, or two that are a surrogate pair.
static ls_status parse_unit(parser *p, char **to) {
  uint32_t c = 0;
  LS_RETURN_IF_ERROR(parse_hex4(p, &c));
  if (c >= 0xdc00 && c < 0xe000)
    return wrong(p, "no second half of a surrogate pair before its first");
  if (c >= 0xd800 && c < 0xdc00) {
    uint32_t low = 0;
    if (!accept_word(p, "\\u")) return wrong(p, "the pair's second half");
    LS_RETURN_IF_ERROR(parse_hex4(p, &low));
    if (low < 0xdc00 || low >= 0xe000)
      return wrong(p, "the pair's second half before this");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  *to = put_utf8(*to, c);
  return ls_ok();
}

static ls_status parse_escape(parser *p, char **to) {
  static const char from[] = "\"\\/bfnrt";
  static const char into[] = "\"\\/\b\f\n\r\t";
  const char c = p->at < p->end ? *p->at : '\0';
  if (c == 'u') {
    ++p->at;
    return parse_unit(p, to);
  }
  const char *found = c == '\0' ? NULL : strchr(from, c);
  if (found == NULL) return wrong(p, "one of \"\\/bfnrtu after \\");
  ++p->at;
  *(*to)++ = into[found - from];
  return ls_ok();
}

// A string, its first quote read already.
static ls_status parse_string(parser *p, const char **out, size_t *out_size) {
  const char *quote = p->at;
  while (quote < p->end && *quote != '"')
    quote += *quote == '\\' && quote + 1 < p->end ? 2 : 1;
  // What comes out is never longer than what stands there.
  char *text = ls_arena_allocate(p->arena, (size_t)(quote - p->at) + 1);
  if (text == NULL) return ls_out_of_memory();
  char *to = text;
  for (;;) {
    if (p->at >= p->end) return wrong(p, "'\"' at the string's end");
    const char c = *p->at;
    if (c == '"') break;
    if ((unsigned char)c < 0x20) return wrong(p, "no control byte in a string");
    ++p->at;
    if (c == '\\') {
      LS_RETURN_IF_ERROR(parse_escape(p, &to));
    } else {
      *to++ = c;
    }
  }
  ++p->at;
  *to = '\0';
  *out = text;
  *out_size = (size_t)(to - text);
  return ls_ok();
}

// ---- Numbers ---------------------------------------------------------------
static size_t skip_digits(parser *p) {
  const char *start = p->at;
  while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
    ++p->at;
  return (size_t)(p->at - start);
}

static ls_status parse_number(parser *p, ls_json *value) {
  const char *start = p->at;
  const bool negative = accept_word(p, "-");
  const char *digits = p->at;
  const size_t count = skip_digits(p);
  if (count == 0 || (count > 1 && *digits == '0')) return wrong(p, "a value");
  value->kind = LS_JSON_NUMBER;
  value->is_integer = true;
  for (const char *at = digits; at < p->at; ++at) {
    const int64_t digit = negative ? -(*at - '0') : *at - '0';
    if (__builtin_mul_overflow(value->integer, 10, &value->integer) ||
        __builtin_add_overflow(value->integer, digit, &value->integer))
      value->is_integer = false;
  }
  if (negative && value->integer == 0) value->is_integer = false;  // -0.
  if (accept_word(p, ".")) {
    value->is_integer = false;
    if (skip_digits(p) == 0) return wrong(p, "digits behind the point");
  }
  if (accept_word(p, "e") || accept_word(p, "E")) {
    value->is_integer = false;
    if (!accept_word(p, "+")) (void)accept_word(p, "-");
    if (skip_digits(p) == 0) return wrong(p, "digits of the exponent");
  }
  char *copy = ls_arena_allocate(p->arena, (size_t)(p->at - start) + 1);
  if (copy == NULL) return ls_out_of_memory();
  memcpy(copy, start, (size_t)(p->at - start));
  value->number = value->is_integer ? (double)value->integer : 0;
  if (!value->is_integer && sscanf(copy, "%lf", &value->number) != 1)
    return wrong(p, "a number before this");
  if (!value->is_integer) value->integer = 0;
  return ls_ok();
}

// ---- Values ----------------------------------------------------------------
static ls_status parse_value(parser *p, int depth, ls_json *value);

static ls_status parse_items(parser *p, int depth, ls_json *value) {
  const bool object = value->kind == LS_JSON_OBJECT;
  const char close = object ? '}' : ']';
  ls_map keys;  // Against keys given twice.
  ls_map_init(&keys, p->arena->allocator);
  ls_status status = ls_ok();
  ls_json **to = &value->first;
  if (accept(p, close)) goto done;
  do {
    ls_json *item = ls_arena_new(p->arena, ls_json);
    LS_GOTO_IF_ERROR(done, status, item ? ls_ok() : ls_out_of_memory());
    if (object) {
      size_t size = 0;
      LS_GOTO_IF_ERROR(done, status,
                       accept(p, '"') ? ls_ok() : wrong(p, "a key in quotes"));
      LS_GOTO_IF_ERROR(done, status, parse_string(p, &item->key, &size));
      if (ls_map_has(&keys, item->key, size)) {
        status = wrong(p, "every key once");
        status =
            ls_status_annotate(status, "'%s' was there already", item->key);
        goto done;
      }
      LS_GOTO_IF_ERROR(done, status,
                       ls_map_insert(&keys, item->key, size, item)
                           ? ls_ok()
                           : ls_out_of_memory());
      LS_GOTO_IF_ERROR(done, status,
                       accept(p, ':') ? ls_ok() : wrong(p, "':'"));
    }
    LS_GOTO_IF_ERROR(done, status, parse_value(p, depth + 1, item));
    *to = item;
    to = &item->next;
  } while (accept(p, ','));
  if (!accept(p, close))
    status = wrong(p, object ? "',' or '}'" : "',' or ']'");
done:
  ls_map_deinit(&keys);
  return status;
}

static ls_status parse_value(parser *p, int depth, ls_json *value) {
  if (depth > LS_JSON_MAX_DEPTH) return wrong(p, "at most 64 levels");
  if (accept(p, '{')) {
    value->kind = LS_JSON_OBJECT;
    return parse_items(p, depth, value);
  }
  if (accept(p, '[')) {
    value->kind = LS_JSON_ARRAY;
    return parse_items(p, depth, value);
  }
  if (accept(p, '"')) {
    value->kind = LS_JSON_STRING;
    return parse_string(p, &value->string, &value->string_size);
  }
  if (accept_word(p, "null")) return ls_ok();
  value->kind = LS_JSON_BOOL;
  value->boolean = accept_word(p, "true");
  if (value->boolean || accept_word(p, "false")) return ls_ok();
  return parse_number(p, value);
}

ls_status ls_json_parse(ls_arena *arena, const char *name, const char *text,
                        size_t size, const ls_json **out_value) {
  *out_value = NULL;
  parser p = {.arena = arena,
              .name = name,
              .text = text,
              .at = text,
              .end = text + size};
  ls_json *value = ls_arena_new(arena, ls_json);
  if (value == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(parse_value(&p, 0, value));
  skip_space(&p);
  if (p.at < p.end) return wrong(&p, "nothing behind the value");
  *out_value = value;
  return ls_ok();
}

const ls_json *ls_json_find(const ls_json *object, const char *key) {
  if (object == NULL || object->kind != LS_JSON_OBJECT) return NULL;
  const ls_json *item = object->first;
  while (item != NULL && strcmp(item->key, key) != 0)
    item = item->next;
  return item;
}
