// SPDX-License-Identifier: Apache-2.0
// A strict reader of JSON text that keeps nothing: it checks and finds values,
// which others read into arrays.
#define _GNU_SOURCE
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/json_text.h"
#include "cli/words.h"

enum { MOST_NESTING = 64 };

// Returns the character at the position; 0 at the end, which is none of JSON.
static char next_of(const cli_cursor *c) {
  return c->at == c->end ? '\0' : *c->at;
}

void cli_cursor_space(cli_cursor *c) {
  for (;; ++c->at) {
    const char found = next_of(c);
    if (found != ' ' && found != '\n' && found != '\r' && found != '\t') return;
  }
}

bool cli_cursor_take(cli_cursor *c, char wanted) {
  cli_cursor_space(c);
  if (next_of(c) != wanted) return false;
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
// Skips what follows a backslash.
static ls_status skip_escape(cli_cursor *c) {
  if (next_of(c) == '\0' || strchr("\"\\/bfnrtu", *c->at) == NULL)
    return cli_cursor_error(c, "an escape: one of \"\\/bfnrtu");
  if (*c->at++ != 'u') return ls_ok();
  for (int i = 0; i < 4; ++i, ++c->at)
    if (!isxdigit((unsigned char)next_of(c)))
      return cli_cursor_error(c, "four hexadecimal digits");
  return ls_ok();
}

ls_status cli_cursor_string(cli_cursor *c, const char **out, size_t *out_size) {
  if (!cli_cursor_take(c, '"')) return cli_cursor_error(c, "a string");
  *out = c->at;
  while (c->at != c->end && *c->at != '"') {
    if ((unsigned char)*c->at < ' ')
      return cli_cursor_error(c, "an escape for a control character");
    if (*c->at++ == '\\') LS_RETURN_IF_ERROR(skip_escape(c));
  }
  if (c->at == c->end) return cli_cursor_error(c, "the string's end");
  *out_size = (size_t)(c->at++ - *out);
  return ls_ok();
}

ls_status cli_cursor_name(cli_cursor *c, char **out_name) {
  const char *text = NULL;
  size_t size = 0;
  *out_name = NULL;
  LS_RETURN_IF_ERROR(cli_cursor_string(c, &text, &size));
  CLI_OWN_ARRAY_OR_RETURN(char, name, size + 1);
  const cli_member quoted = {.value = text - 1, .value_size = size + 2};
  if (!cli_json_copy(&quoted, name, size + 1))
    return cli_cursor_error(c, "a name of UTF-8");
  return cli_hand_over(&name, out_name);
}

// ---- Values ----------------------------------------------------------------
static bool skip_digits(cli_cursor *c) {
  const char *begin = c->at;
  while (next_of(c) >= '0' && next_of(c) <= '9')
    ++c->at;
  return c->at > begin;
}

static ls_status skip_number(cli_cursor *c) {
  if (*c->at == '-') ++c->at;
  if (next_of(c) == '0')
    ++c->at;
  else if (!skip_digits(c))
    return cli_cursor_error(c, "a value");
  if (next_of(c) == '.') {
    ++c->at;
    if (!skip_digits(c)) return cli_cursor_error(c, "a digit");
  }
  if (next_of(c) == 'e' || next_of(c) == 'E') {
    ++c->at;
    if (next_of(c) == '+' || next_of(c) == '-') ++c->at;
    if (!skip_digits(c)) return cli_cursor_error(c, "a digit");
  }
  return ls_ok();
}

static ls_status skip_word(cli_cursor *c) {
  static const char *const words[] = {"true", "false", "null"};
  for (size_t i = 0; i < sizeof(words) / sizeof(*words); ++i) {
    const char *word = words[i];
    cli_cursor after = *c;
    for (; *word != '\0' && next_of(&after) == *word; ++word)
      ++after.at;
    if (*word != '\0') continue;
    *c = after;
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
  const char first = next_of(c);
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

// ---- Values as arrays ------------------------------------------------------
// Makes an error that names the input, the indices of the element up to
// `depth`, what was found and what would do.
static ls_status fill_error(const cli_filler *f, int depth, const char *found) {
  char place[LS_MAX_RANK * 24] = "";
  size_t size = 0;
  for (int i = 0; i < depth; ++i)
    size += (size_t)snprintf(place + size, sizeof(place) - size, "[%lld]",
                             (long long)f->place[i]);
  const char *noun = f->noun != NULL ? f->noun : "input";
  return ls_invalid_argument("%s '%s'%s %s; the %s is %s", noun, f->name, place,
                             found, noun, LS_SHAPE_TEXT(f->dtype, f->shape));
}

// ---- Numbers ---------------------------------------------------------------
// Reads a number of at most 19 digits as mantissa * 10^exponent. Returns false
// for any other. Moves past it.
static bool read_decimal(const char **at, bool *negative, uint64_t *mantissa,
                         int *exponent) {
  const char *text = *at;
  int digits = 0;
  *negative = *text == '-';
  if (*negative) ++text;
  *mantissa = 0;
  *exponent = 0;
  for (; *text >= '0' && *text <= '9'; ++text, ++digits)
    *mantissa = *mantissa * 10 + (uint64_t)(*text - '0');
  if (*text == '.')
    for (++text; *text >= '0' && *text <= '9'; ++text, ++digits, --*exponent)
      *mantissa = *mantissa * 10 + (uint64_t)(*text - '0');
  if (digits > 19 || *text == 'e' || *text == 'E') return false;
  *at = text;
  return true;
}

// Returns the double nearest to a number: one operation on exact operands
// rounds once.
static double read_double(const char **at) {
  static const double powers[] = {
      1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  bool negative;
  uint64_t mantissa;
  int exponent;
  const char *begin = *at;
  if (read_decimal(at, &negative, &mantissa, &exponent) &&
      mantissa <= UINT64_C(1) << 53 && exponent >= -22) {
    const double value = (double)mantissa / powers[-exponent];
    return negative ? -value : value;
  }
  char *end = NULL;
  const double value = strtod(begin, &end);
  *at = end;
  return value;
}

// Rounds once: a double halfway between two floats may have been rounded to
// there, and one below the normal floats loses digits of its own.
static float read_float(const char **at) {
  const char *begin = *at;
  const double value = read_double(at);
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const bool halfway = (bits & 0x1fffffff) == 0x10000000;
  if (!halfway && (fabs(value) >= 1e-37 || value == 0)) return (float)value;
  return strtof(begin, NULL);
}

static ls_status fill_float(cli_filler *f, cli_cursor *c) {
  const int rank = f->shape.rank;
  const char first = *c->at;
  if (first != '-' && (first < '0' || first > '9'))
    return fill_error(f, rank, "is no number");
  double value = 0;
  if (f->dtype == LS_DTYPE_F32) {
    const float narrow = read_float(&c->at);
    memcpy((float *)f->data + f->filled, &narrow, sizeof(narrow));
    value = (double)narrow;
  } else {
    value = read_double(&c->at);
    if (f->dtype == LS_DTYPE_F64) {
      ((double *)f->data)[f->filled] = value;
    } else {
      ls_array_set_f64(f->array, f->filled, value);
      value = ls_array_f64(f->array, f->filled);
    }
  }
  return isfinite(value) ? ls_ok()
                         : fill_error(f, rank, "is too large for its type");
}

static ls_status fill_integer(cli_filler *f, cli_cursor *c) {
  bool negative;
  uint64_t mantissa;
  int exponent;
  const int rank = f->shape.rank;
  const char *at = c->at;
  if (*at != '-' && (*at < '0' || *at > '9'))
    return fill_error(f, rank, "is no number");
  if (!read_decimal(&at, &negative, &mantissa, &exponent) || exponent < 0)
    return fill_error(f, rank, "is no whole number of up to 19 digits");
  const size_t size = ls_dtype_size(f->dtype);
  const bool is_unsigned = ls_dtype_is_unsigned(f->dtype);
  const uint64_t all = UINT64_MAX >> (64 - 8 * size);
  const uint64_t most =
      is_unsigned ? (negative ? 0 : all) : all / 2 + (negative ? 1 : 0);
  if (mantissa > most)
    return fill_error(f, rank, "is out of the range of its type");
  const uint64_t bits = negative ? 0 - mantissa : mantissa;
  c->at = at;
  memcpy((char *)f->data + (size_t)f->filled * size, &bits, size);
  return ls_ok();
}

static ls_status fill_bool(cli_filler *f, cli_cursor *c) {
  const bool value = *c->at == 't';
  if (*c->at != 't' && *c->at != 'f')
    return fill_error(f, f->shape.rank, "is neither true nor false");
  c->at += value ? 4 : 5;
  ((uint8_t *)f->data)[f->filled] = value;
  return ls_ok();
}

// ---- Arrays ----------------------------------------------------------------
static ls_status fill_element(cli_filler *f, cli_cursor *c) {
  cli_cursor_space(c);
  ls_status status = ls_ok();
  if (f->data == NULL)
    status = cli_cursor_skip(c, NULL);
  else if (f->dtype == LS_DTYPE_BOOL)
    status = fill_bool(f, c);
  else if (ls_dtype_is_float(f->dtype))
    status = fill_float(f, c);
  else
    status = fill_integer(f, c);
  ++f->filled;
  return status;
}

// Returns true if the first list that is missing is that around all examples.
static bool is_one_example(const cli_filler *f, const cli_cursor *c,
                           int depth) {
  for (int i = 0; i < depth; ++i)
    if (f->place[i] != 0) return false;
  return f->noun == NULL && depth > 0 && depth + 1 == f->shape.rank &&
         c->at < c->end && (*c->at == '-' || (*c->at >= '0' && *c->at <= '9'));
}

static ls_status one_example_error(const cli_filler *f) {
  ls_shape shape = f->shape;
  shape.dim[0] = LS_UNKNOWN_DIM;
  return ls_invalid_argument(
      "input '%s' has %d dimension%s, expected a list of examples: put one "
      "example in [ ]; the input is %s",
      f->name, shape.rank - 1, shape.rank == 2 ? "" : "s",
      LS_SHAPE_TEXT(f->dtype, shape));
}

static ls_status fill_items(cli_filler *f, cli_cursor *c, int depth) {
  if (depth == f->shape.rank) return fill_element(f, c);
  const int64_t count = f->shape.dim[depth];
  char found[96];
  if (!cli_cursor_take(c, '['))
    return is_one_example(f, c, depth) ? one_example_error(f)
                                       : fill_error(f, depth, "is no list");
  for (int64_t i = 0; i < count; ++i) {
    f->place[depth] = i;
    cli_cursor_space(c);
    if (*c->at == ']' || (i > 0 && !cli_cursor_take(c, ','))) {
      snprintf(found, sizeof(found), "has %lld items, expected %lld",
               (long long)i, (long long)count);
      return fill_error(f, depth, found);
    }
    LS_RETURN_IF_ERROR(fill_items(f, c, depth + 1));
  }
  if (cli_cursor_take(c, ']')) return ls_ok();
  snprintf(found, sizeof(found), "has more than the %lld items expected",
           (long long)count);
  return fill_error(f, depth, found);
}

ls_status cli_filler_read(cli_filler *f, cli_cursor *c, int64_t row) {
  if (row < 0) return fill_items(f, c, 0);
  f->place[0] = row;
  return fill_items(f, c, 1);
}
