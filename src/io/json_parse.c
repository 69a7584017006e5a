// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/plain.h"
#include "io/json.h"

// Limits: nesting, and the number of values: MAX_VALUES plus one per
// BYTES_A_VALUE bytes, so that a text needs memory in proportion to its length.
enum { MAX_DEPTH = 64, MAX_VALUES = 65536, BYTES_A_VALUE = 24 };

typedef struct parser {
  ls_arena *arena;
  const char *name;
  const char *text, *at, *end;
  size_t num_values;  // Values in arrays and objects so far.
  size_t most_values;
  int most_depth;
} parser;

// ---- Messages --------------------------------------------------------------
static ls_status fail_expecting(const parser *p, const char *wanted) {
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

static bool accept_character(parser *p, char c) {
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
      return fail_expecting(p, "four hexadecimal digits");
    }
    *out = *out << 4 | digit;
  }
  return ls_ok();
}

static char *put_utf8(char *out, uint32_t c) {
  if (c < 0x80) {
    *out++ = (char)c;
  } else if (c < 0x800) {
    *out++ = (char)(0xc0 | c >> 6);
    *out++ = (char)(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    *out++ = (char)(0xe0 | c >> 12);
    *out++ = (char)(0x80 | (c >> 6 & 0x3f));
    *out++ = (char)(0x80 | (c & 0x3f));
  } else {
    *out++ = (char)(0xf0 | c >> 18);
    *out++ = (char)(0x80 | (c >> 12 & 0x3f));
    *out++ = (char)(0x80 | (c >> 6 & 0x3f));
    *out++ = (char)(0x80 | (c & 0x3f));
  }
  return out;
}

// Reads the digits after "\u": one unit, or two that are a surrogate pair.
static ls_status parse_unit(parser *p, char **out) {
  uint32_t c = 0;
  LS_RETURN_IF_ERROR(parse_hex4(p, &c));
  if (c >= 0xdc00 && c < 0xe000)
    return fail_expecting(
        p, "no second half of a surrogate pair before its first");
  if (c >= 0xd800 && c < 0xdc00) {
    uint32_t low = 0;
    if (!accept_word(p, "\\u"))
      return fail_expecting(p, "the pair's second half");
    LS_RETURN_IF_ERROR(parse_hex4(p, &low));
    if (low < 0xdc00 || low >= 0xe000)
      return fail_expecting(p, "the pair's second half before this");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  *out = put_utf8(*out, c);
  return ls_ok();
}

static ls_status parse_escape(parser *p, char **out) {
  static const char from[] = "\"\\/bfnrt";
  static const char into[] = "\"\\/\b\f\n\r\t";
  const char c = p->at < p->end ? *p->at : '\0';
  if (c == 'u') {
    ++p->at;
    return parse_unit(p, out);
  }
  const char *found = c == '\0' ? NULL : strchr(from, c);
  if (found == NULL) return fail_expecting(p, "one of \"\\/bfnrtu after \\");
  ++p->at;
  *(*out)++ = into[found - from];
  return ls_ok();
}

// Reads a string whose first quote is read already.
static ls_status parse_string(parser *p, const char **out, size_t *out_size) {
  const char *quote = p->at;
  while (quote < p->end && *quote != '"')
    quote += *quote == '\\' && quote + 1 < p->end ? 2 : 1;
  // The result is never longer than the text.
  char *text = ls_arena_allocate(p->arena, (size_t)(quote - p->at) + 1);
  if (text == NULL) return ls_out_of_memory();
  char *end = text;
  for (;;) {
    if (p->at >= p->end) return fail_expecting(p, "'\"' at the string's end");
    const char c = *p->at;
    if (c == '"') break;
    if ((unsigned char)c < 0x20)
      return fail_expecting(p, "no control byte in a string");
    ++p->at;
    if (c == '\\') {
      LS_RETURN_IF_ERROR(parse_escape(p, &end));
    } else {
      *end++ = c;
    }
  }
  ++p->at;
  *end = '\0';
  *out = text;
  *out_size = (size_t)(end - text);
  return ls_ok();
}

// ---- Numbers ---------------------------------------------------------------
static size_t skip_digits(parser *p) {
  const char *start = p->at;
  while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
    ++p->at;
  return (size_t)(p->at - start);
}

// Reads the number from `start` to here; the text need not end with a zero.
static ls_status read_json_number(const parser *p, const char *start,
                                  double *out_value) {
  const size_t size = (size_t)(p->at - start);
  const ls_arena_mark_point mark = ls_arena_mark(p->arena);
  char near[64];
  char *copy =
      size < sizeof(near) ? near : ls_arena_allocate(p->arena, size + 1);
  if (copy == NULL) return ls_out_of_memory();
  memcpy(copy, start, size);
  copy[size] = '\0';
  *out_value = ls_read_f64(copy, NULL);
  ls_arena_rollback(p->arena, mark);
  return ls_ok();
}

static ls_status parse_number(parser *p, ls_json *value) {
  const char *start = p->at;
  const bool negative = accept_word(p, "-");
  const char *digits = p->at;
  const size_t count = skip_digits(p);
  if (count == 0 || (count > 1 && *digits == '0'))
    return fail_expecting(p, "a value");
  value->kind = LS_JSON_NUMBER;
  value->is_integer = true;
  for (const char *at = digits; at < p->at; ++at) {
    const int64_t digit = negative ? -(*at - '0') : *at - '0';
    if (__builtin_mul_overflow(value->integer, 10, &value->integer) ||
        __builtin_add_overflow(value->integer, digit, &value->integer))
      value->is_integer = false;
  }
  // -0 is not an integer.
  if (negative && value->integer == 0) value->is_integer = false;
  if (accept_word(p, ".")) {
    value->is_integer = false;
    if (skip_digits(p) == 0) return fail_expecting(p, "digits after the point");
  }
  if (accept_word(p, "e") || accept_word(p, "E")) {
    value->is_integer = false;
    if (!accept_word(p, "+")) (void)accept_word(p, "-");
    if (skip_digits(p) == 0) return fail_expecting(p, "digits of the exponent");
  }
  if (value->is_integer) {
    value->number = (double)value->integer;
    return ls_ok();
  }
  value->integer = 0;
  return read_json_number(p, start, &value->number);
}

// ---- Values ----------------------------------------------------------------
static ls_status parse_value(parser *p, int depth, ls_json *value);

// Reads the key of a member and the colon; `keys` has the earlier keys.
static ls_status parse_key(parser *p, ls_map *keys, const char **out_key) {
  size_t size = 0;
  if (!accept_character(p, '"')) return fail_expecting(p, "a key in quotes");
  LS_RETURN_IF_ERROR(parse_string(p, out_key, &size));
  if (strlen(*out_key) != size)  // Compares sizes, since keys may contain
                                 // zeros.
    return fail_expecting(p, "a key without \\u0000 before this");
  if (ls_map_has(keys, *out_key, size))
    return ls_status_annotate(fail_expecting(p, "every key once"),
                              "'%s' was there already", *out_key);
  if (!ls_map_insert(keys, *out_key, size, keys)) return ls_out_of_memory();
  return accept_character(p, ':') ? ls_ok() : fail_expecting(p, "':'");
}

// Reads an item or, with keys, a member.
static ls_status parse_item(parser *p, int depth, ls_map *keys,
                            ls_json **out_item) {
  if (++p->num_values > p->most_values)
    return fail_expecting(p, "fewer values in a text of its size");
  ls_json *item = *out_item = ls_arena_new(p->arena, ls_json);
  if (item == NULL) return ls_out_of_memory();
  if (keys != NULL) LS_RETURN_IF_ERROR(parse_key(p, keys, &item->key));
  return parse_value(p, depth, item);
}

static ls_status parse_items(parser *p, int depth, ls_json *value) {
  const bool object = value->kind == LS_JSON_OBJECT;
  const char close = object ? '}' : ']';
  if (accept_character(p, close)) return ls_ok();
  LS_OWN(ls_map, keys) = {0};  // Detects duplicate keys.
  ls_map_init(&keys, p->arena->allocator);
  ls_json **out = &value->first;
  do {
    LS_RETURN_IF_ERROR(parse_item(p, depth + 1, object ? &keys : NULL, out));
    out = &(*out)->next;
  } while (accept_character(p, ','));
  if (accept_character(p, close)) return ls_ok();
  return fail_expecting(p, object ? "',' or '}'" : "',' or ']'");
}

static ls_status parse_value(parser *p, int depth, ls_json *value) {
  if (depth > p->most_depth) {
    char wanted[40];
    snprintf(wanted, sizeof(wanted), "at most %d levels", p->most_depth);
    return fail_expecting(p, wanted);
  }
  if (accept_character(p, '{')) {
    value->kind = LS_JSON_OBJECT;
    value->at = (size_t)(p->at - p->text) - 1;
    return parse_items(p, depth, value);
  }
  if (accept_character(p, '[')) {
    value->kind = LS_JSON_ARRAY;
    return parse_items(p, depth, value);
  }
  if (accept_character(p, '"')) {
    value->kind = LS_JSON_STRING;
    return parse_string(p, &value->string, &value->string_size);
  }
  if (accept_word(p, "null")) return ls_ok();
  value->kind = LS_JSON_BOOL;
  value->boolean = accept_word(p, "true");
  if (value->boolean || accept_word(p, "false")) return ls_ok();
  return parse_number(p, value);
}

static parser parser_of(ls_arena *arena, const char *name, const char *text,
                        size_t size) {
  return (parser){.arena = arena,
                  .name = name,
                  .text = text,
                  .at = text,
                  .end = text + size,
                  .most_values = MAX_VALUES + size / BYTES_A_VALUE,
                  .most_depth = MAX_DEPTH};
}

static ls_status parse_end(parser *p) {
  skip_space(p);
  return p->at < p->end ? fail_expecting(p, "nothing after the value")
                        : ls_ok();
}

ls_status ls_json_parse_up_to(ls_arena *arena, const char *name,
                              const char *text, size_t size,
                              ls_json_limits limits,
                              const ls_json **out_value) {
  *out_value = NULL;
  parser p = parser_of(arena, name, text, size);
  if (limits.values > 0) p.most_values = limits.values;
  if (limits.depth > 0) p.most_depth = limits.depth;
  LS_ARENA_NEW_OR_RETURN(arena, ls_json, value);
  LS_RETURN_IF_ERROR(parse_value(&p, 0, value));
  LS_RETURN_IF_ERROR(parse_end(&p));
  *out_value = value;
  return ls_ok();
}

ls_status ls_json_parse(ls_arena *arena, const char *name, const char *text,
                        size_t size, const ls_json **out_value) {
  return ls_json_parse_up_to(arena, name, text, size, (ls_json_limits){0},
                             out_value);
}

// ---- Members one by one ----------------------------------------------------
// Reads one member: its key into `arena`, its value into the parser's arena.
static ls_status visit_next(parser *p, ls_arena *arena, ls_map *keys,
                            ls_json_visitor visit, void *user) {
  ls_json member = {0};
  ls_arena *scratch = p->arena;
  p->arena = arena;
  const ls_status status = parse_key(p, keys, &member.key);
  p->arena = scratch;
  p->num_values = 0;
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(parse_value(p, 1, &member));
  return visit(user, &member);
}

static ls_status visit_all(parser *p, ls_arena *arena, ls_map *keys,
                           ls_json_visitor visit, void *user) {
  if (!accept_character(p, '{'))
    return ls_invalid_argument("'%s' has no JSON object", p->name);
  if (accept_character(p, '}')) return parse_end(p);
  do {
    LS_RETURN_IF_ERROR(visit_next(p, arena, keys, visit, user));
    ls_arena_reset(p->arena);
  } while (accept_character(p, ','));
  return accept_character(p, '}') ? parse_end(p)
                                  : fail_expecting(p, "',' or '}'");
}

ls_status ls_json_visit(ls_arena *arena, const char *name, const char *text,
                        size_t size, ls_json_visitor visit, void *user) {
  LS_OWN(ls_map, keys) = {0};
  LS_OWN(ls_arena, scratch) = {.allocator = arena->allocator};
  ls_map_init(&keys, arena->allocator);
  parser p = parser_of(&scratch, name, text, size);
  return visit_all(&p, arena, &keys, visit, user);
}

const ls_json *ls_json_find(const ls_json *object, const char *key) {
  if (object == NULL || object->kind != LS_JSON_OBJECT) return NULL;
  const ls_json *item = object->first;
  while (item != NULL && strcmp(item->key, key) != 0)
    item = item->next;
  return item;
}
