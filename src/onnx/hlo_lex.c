// SPDX-License-Identifier: Apache-2.0
//
// Tokens of MLIR's text, types and constants.
#include <errno.h>
#include <stdlib.h>

#include "base/plain.h"
#include "base/values/numbers.h"
#include "emit/emit.h"
#include "lockstep/shape_rules.h"
#include "onnx/hlo.h"

void ls_hlo_fail(ls_hlo_reader *r, ls_code code, const char *format, ...) {
  char text[400];
  const char *line = r->now.text;
  while (line > r->begin && line[-1] != '\n')
    --line;
  va_list arguments;
  va_start(arguments, format);
  ls_format_v(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (ls_status_is_ok(r->status))
    r->status = LS_STATUS(code, "'%s': line %lld, column %lld: %s",
                          r->onnx.file->path, (long long)r->now.line,
                          (long long)(r->now.text - line) + 1, text);
  r->now.kind = LS_HLO_END;
  r->now.at = r->now.text = r->end;
  r->now.size = 0;
}

static void fail_status(ls_hlo_reader *r, ls_status status) {
  if (ls_status_is_ok(status)) return;
  ls_hlo_fail(r, ls_status_code(status), "%s", ls_status_message(status));
  ls_status_free(status);
}

void ls_hlo_no_memory(ls_hlo_reader *r) {
  ls_hlo_fail(r, LS_RESOURCE_EXHAUSTED, "there is no memory");
}

// ---- Memory ----------------------------------------------------------------
void *ls_hlo_push(ls_hlo_reader *r, void *items, size_t *count, size_t size) {
  void *item = ls_status_is_ok(r->status)
                   ? ls_onnx_push(&r->onnx, items, count, size)
                   : NULL;
  if (item == NULL) ls_hlo_fail(r, LS_RESOURCE_EXHAUSTED, "there is no memory");
  return item;
}

void ls_hlo_add(ls_hlo_reader *r, ls_hlo_list *list, int64_t item) {
  int64_t *place = ls_hlo_push(r, &list->items, &list->count, sizeof(*place));
  if (place != NULL) *place = item;
}

void ls_hlo_own_array(ls_hlo_reader *r, ls_array *array) {
  ls_onnx_file *file = r->onnx.file;
  ls_array **place =
      ls_hlo_push(r, &file->arrays, &file->num_arrays, sizeof(array));
  if (place != NULL)
    *place = array;
  else
    ls_array_release(array);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Replaces escapes by their characters. Returns false if one is damaged.
static bool unescape(char *text) {
  static const char letters[] = "\\\"nt", meanings[] = "\\\"\n\t";
  char *out = text;
  for (const char *at = text; *at != '\0'; ++at, ++out) {
    *out = *at;
    if (*at != '\\') continue;
    const char *letter = *++at != '\0' ? strchr(letters, *at) : NULL;
    if (letter != NULL) {
      *out = meanings[letter - letters];
      continue;
    }
    const int high = hex_digit(at[0]), low = high < 0 ? -1 : hex_digit(at[1]);
    if (low < 0 || high + low == 0) return false;
    *out = (char)(16 * high + low);
    ++at;
  }
  *out = '\0';
  return true;
}

const char *ls_hlo_text(ls_hlo_reader *r) {
  char *text = ls_arena_allocate(&r->onnx.file->memory, r->now.size + 1);
  if (text == NULL) {
    ls_hlo_no_memory(r);
    return "";
  }
  memcpy(text, r->now.text, r->now.size);
  if ((r->now.kind == LS_HLO_STRING || r->now.kind == LS_HLO_SYMBOL) &&
      !unescape(text)) {
    LS_HLO_EXPECTED(r, "\\\\, \\\", \\n, \\t or two digits of a character "
                       "other than \\00 after \\ in a string");
    return "";
  }
  return text;
}

// ---- Tokens ----------------------------------------------------------------
static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
}

static void skip_blanks(ls_hlo_reader *r) {
  const char *at = r->now.at;
  for (; at < r->end; ++at) {
    if (*at == '/' && at + 1 < r->end && at[1] == '/')
      while (at + 1 < r->end && at[1] != '\n')
        ++at;
    else if (*at == '\n')
      ++r->now.line;
    else if (*at != ' ' && *at != '\t' && *at != '\r')
      break;
  }
  r->now.at = at;
}

static const char *words_end(const ls_hlo_reader *r, const char *at,
                             const char *more) {
  while (at < r->end && (is_word(*at) || (*at != '\0' && strchr(more, *at))))
    ++at;
  return at;
}

static void take_token(ls_hlo_reader *r, ls_hlo_kind kind, const char *text,
                       const char *end, const char *at) {
  r->now.kind = kind;
  r->now.text = text;
  r->now.size = (size_t)(end - text);
  r->now.at = at;
}

static void take_string(ls_hlo_reader *r, ls_hlo_kind kind, const char *at) {
  const char *end = at;
  while (end < r->end && *end != '"' && *end != '\n')
    end += *end == '\\' && end + 1 < r->end ? 2 : 1;
  if (end >= r->end || *end != '"') {
    r->now.text = at;
    LS_HLO_EXPECTED(r, "the end of a string");
    return;
  }
  take_token(r, kind, at, end, end + 1);
}

void ls_hlo_next(ls_hlo_reader *r) {
  skip_blanks(r);
  const char *at = r->now.at, *end;
  if (!ls_status_is_ok(r->status) || at >= r->end) {
    take_token(r, LS_HLO_END, r->end, r->end, r->end);
    return;
  }
  const char c = *at, follows = at + 1 < r->end ? at[1] : '\0';
  if (c == '%' || c == '@' || (c == '#' && is_word(follows))) {
    end = words_end(r, at + 1, c == '%' ? "-#" : "-");
    const ls_hlo_kind kind = c == '%'   ? LS_HLO_VALUE
                             : c == '@' ? LS_HLO_SYMBOL
                                        : LS_HLO_ALIAS;
    if (c == '@' && follows == '"')
      take_string(r, kind, at + 2);
    else
      take_token(r, kind, at + 1, end, end);
  } else if (c == '"') {
    take_string(r, LS_HLO_STRING, at + 1);
  } else if (c == '-' && follows == '>') {
    take_token(r, LS_HLO_ARROW, at, at + 2, at + 2);
  } else if (is_digit(c) || (c == '-' && is_digit(follows))) {
    end = words_end(r, at + 1, "");
    if ((end[-1] == 'e' || end[-1] == 'E') && (*end == '+' || *end == '-'))
      end = words_end(r, end + 1, "");
    take_token(r, LS_HLO_NUMBER, at, end, end);
  } else if (is_word(c)) {
    end = words_end(r, at, "");
    take_token(r, LS_HLO_NAME, at, end, end);
  } else {
    take_token(r, LS_HLO_MARK, at, at + 1, at + 1);
  }
}

bool ls_hlo_is(const ls_hlo_reader *r, const char *text) {
  return (r->now.kind == LS_HLO_MARK || r->now.kind == LS_HLO_NAME ||
          r->now.kind == LS_HLO_ARROW) &&
         strlen(text) == r->now.size &&
         memcmp(text, r->now.text, r->now.size) == 0;
}

bool ls_hlo_accept(ls_hlo_reader *r, const char *text) {
  const bool accepts = ls_hlo_is(r, text);
  if (accepts) ls_hlo_next(r);
  return accepts;
}

void ls_hlo_expect(ls_hlo_reader *r, const char *text) {
  if (ls_hlo_accept(r, text)) return;
  if (r->now.kind == LS_HLO_END)
    LS_HLO_EXPECTED(r, "'%s', but the text ends", text);
  else
    LS_HLO_EXPECTED(r, "'%s', got '%.*s'", text,
                    (int)(r->now.size < 40 ? r->now.size : 40), r->now.text);
}

void ls_hlo_skip_brackets(ls_hlo_reader *r) {
  int64_t depth = 0;
  do {
    if (r->now.kind == LS_HLO_END) LS_HLO_EXPECTED(r, "a closing bracket");
    if (r->now.kind == LS_HLO_MARK && strchr("([{<", *r->now.text)) ++depth;
    if (r->now.kind == LS_HLO_MARK && strchr(")]}>", *r->now.text)) --depth;
    ls_hlo_next(r);
  } while (depth > 0 && ls_status_is_ok(r->status));
}

// ---- Types -----------------------------------------------------------------
static ls_dtype dtype_of(const char *text, size_t size) {
  for (int dtype = 0; dtype < LS_DTYPE_COUNT; ++dtype) {
    const char *name = ls_stablehlo_dtype((ls_dtype)dtype);
    if (name != NULL && strlen(name) == size && memcmp(name, text, size) == 0)
      return (ls_dtype)dtype;
  }
  return LS_DTYPE_NONE;
}

// Reads sizes from `at`, which is after "tensor<".
static const char *read_sizes(ls_hlo_reader *r, const char *at, ls_shape *out) {
  const int64_t most = (int64_t)1 << 48;
  int64_t count = 1;
  while (at < r->end && (is_digit(*at) || *at == '?')) {
    int64_t size = 0;
    if (*at == '?') {
      ls_hlo_fail(r, LS_UNIMPLEMENTED,
                  "a size that is not known, '?': export with fixed sizes; the "
                  "batch size may be another one later");
      return at;
    }
    for (; is_digit(*at) && size <= INT32_MAX; ++at)
      size = 10 * size + (*at - '0');
    if (size > 0 && size <= INT32_MAX)
      count = count <= most / size ? count * size : most + 1;
    if (size > INT32_MAX || count > most || out->rank >= LS_MAX_RANK ||
        *at != 'x') {
      ls_hlo_fail(r,
                  size > INT32_MAX || *at == 'x' ? LS_UNIMPLEMENTED
                                                 : LS_INVALID_ARGUMENT,
                  "a type of at most %d sizes below 2^31, each followed by x, "
                  "and 2^48 elements is expected",
                  LS_MAX_RANK);
      return at;
    }
    out->dim[out->rank++] = size;
    ++at;
  }
  return at;
}

ls_type ls_hlo_read_type(ls_hlo_reader *r) {
  ls_type type = {.shape = LS_SCALAR};
  if (!ls_hlo_is(r, "tensor") || *r->now.at != '<') {
    LS_HLO_EXPECTED(r, "a type 'tensor<...>'");
    return type;
  }
  const char *at = read_sizes(r, r->now.at + 1, &type.shape);
  if (!ls_status_is_ok(r->status)) return type;
  const char *end = words_end(r, at, "");
  type.dtype = dtype_of(at, (size_t)(end - at));
  if (type.dtype == LS_DTYPE_NONE || *end != '>')
    ls_hlo_fail(r, LS_UNIMPLEMENTED, "a tensor of elements '%.*s'",
                (int)(end - at < 40 ? end - at + 1 : 40), at);
  else
    r->now.at = end + 1;
  ls_hlo_next(r);
  return type;
}

// ---- Constants -------------------------------------------------------------
// Stores "0xAB...": the bytes of all elements, or of one. Returns false if it
// is damaged.
static bool store_bytes(ls_array *array, const char *at, size_t digits) {
  const size_t size = ls_array_size(array), count = digits / 2;
  const size_t item = ls_dtype_size(ls_array_dtype(array));
  const bool is_bool = ls_array_dtype(array) == LS_DTYPE_BOOL;
  const bool is_packed = is_bool && count == (size + 7) / 8 && count != size;
  unsigned char *data = ls_array_mutable_data(array);
  if (digits % 2 != 0 || (count != size && count != item && !is_packed))
    return false;
  for (size_t i = 0; i < size; ++i) {
    const size_t k = is_packed ? i / 8 : i % count;
    const int high = hex_digit(at[2 * k]), low = hex_digit(at[2 * k + 1]);
    if (high < 0 || low < 0) return false;
    const int byte = 16 * high + low;
    data[i] = (unsigned char)(is_packed ? (byte >> (i % 8)) & 1
                              : is_bool ? byte != 0
                                        : byte);
  }
  return true;
}

// Stores one number, true, false, or 0x and bits. Returns its end, or NULL.
static const char *store_number(ls_array *array, int64_t i, const char *at) {
  const ls_dtype dtype = ls_array_dtype(array);
  const size_t item = ls_dtype_size(dtype);
  const bool is_bool = dtype == LS_DTYPE_BOOL, is_negative = *at == '-';
  const bool is_hex = at[0] == '0' && at[1] == 'x';
  const uint64_t all = UINT64_MAX >> (64 - 8 * item);
  const uint64_t least = ls_dtype_is_unsigned(dtype) ? 0 : all / 2 + 1;
  char *end = NULL;
  uint64_t bits = 0;
  if (is_bool &&
      (strncmp(at, "true", 4) == 0 || strncmp(at, "false", 5) == 0)) {
    bits = *at == 't';
  } else if (!is_digit(at[is_negative])) {
    return NULL;
  } else if (ls_dtype_is_float(dtype) && !is_hex) {
    ls_read_float(dtype, at, &end, &bits);
  } else {
    errno = 0;
    bits = strtoull(at + is_negative, &end, is_hex ? 16 : 10);
    if (errno == ERANGE || bits > (is_negative ? least : all)) return NULL;
    bits = is_bool ? bits != 0 : is_negative ? 0 - bits : bits;
  }
  memcpy((char *)ls_array_mutable_data(array) + (size_t)i * item, &bits, item);
  return end != NULL ? end : at + (*at == 't' ? 4 : 5);
}

static const char *skip_spaces(const char *at) {
  return at + strspn(at, " \t\r\n");
}

// Stores the elements of the dimensions from `axis` on, from number `*next` on.
// Returns their end, or NULL if they are damaged.
static const char *store_list(ls_array *array, int32_t axis, const char *at,
                              int64_t *next) {
  const ls_shape shape = ls_array_shape(array);
  at = skip_spaces(at);
  if (axis == shape.rank) return store_number(array, (*next)++, at);
  for (int64_t i = 0; i < shape.dim[axis]; ++i) {
    if (*at != (i == 0 ? '[' : ',')) return NULL;
    at = store_list(array, axis + 1, at + 1, next);
    if (at == NULL) return NULL;
    at = skip_spaces(at);
  }
  return *at == ']' ? at + 1 : NULL;
}

// Stores lists, or one number for all. Returns false if they are damaged.
static bool store_numbers(ls_array *array, bool is_one, const char *at,
                          const char *end) {
  int64_t next = 0;
  const int32_t axis = is_one ? ls_array_shape(array).rank : 0;
  at = store_list(array, axis, at, &next);
  return at != NULL && skip_spaces(at) == end;
}

// Creates an array for elements from `at` to `end`. One number for all elements
// gives sizes of 1.
static ls_array *make_dense(ls_hlo_reader *r, ls_type type, const char *at,
                            const char *end) {
  LS_OWN(ls_array, array) = NULL;
  const size_t size = (size_t)(end - at);
  const bool is_hex = size > 3 && memcmp(at, "\"0x", 3) == 0 && end[-1] == '"';
  const bool is_one = is_hex ? (size - 4) / 2 == ls_dtype_size(type.dtype)
                             : memchr(at, '[', size) == NULL;
  const int64_t count = ls_shape_num_elements(type.shape);
  ls_shape shape = type.shape;
  for (int32_t i = 0; is_one && i < shape.rank; ++i)
    shape.dim[i] = shape.dim[i] == 0 ? 0 : 1;
  bool is_fine = is_one || (count >= 0 && count <= 8 * (int64_t)size);
  if (is_fine) {
    fail_status(r, ls_array_create(type.dtype, shape, &array));
    if (array == NULL) return NULL;
    is_fine = is_hex ? store_bytes(array, at + 3, size - 4)
                     : count == 0 || store_numbers(array, is_one, at, end);
  }
  if (!is_fine)
    LS_HLO_EXPECTED(r, "the elements of %s",
                    LS_SHAPE_TEXT(type.dtype, type.shape));
  return is_fine ? ls_give(&array) : NULL;
}

ls_array *ls_hlo_read_dense(ls_hlo_reader *r, ls_type *out_type) {
  const ls_hlo_cursor begin = r->now;
  const char *at = begin.at + 1;
  const char *end = *begin.at == '<' && at < r->end
                        ? memchr(at, '>', (size_t)(r->end - at))
                        : NULL;
  if (end == NULL) {
    LS_HLO_EXPECTED(r, "dense<...>");
    return NULL;
  }
  for (const char *k = at; (k = memchr(k, '\n', (size_t)(end - k))) != NULL;
       ++k)
    ++r->now.line;
  r->now.at = end + 1;
  ls_hlo_next(r);
  ls_hlo_expect(r, ":");
  const ls_type type = ls_hlo_read_type(r);
  if (!ls_status_is_ok(r->status)) return NULL;
  const ls_hlo_cursor after = r->now;
  r->now = begin;
  ls_array *array = make_dense(r, type, at, end);
  if (array == NULL) return NULL;
  r->now = after;
  *out_type = type;
  ls_hlo_own_array(r, array);
  return ls_status_is_ok(r->status) ? array : NULL;
}

// Reads a list up to `end`. "0:8" is three numbers: its stride is 1.
static void read_items(ls_hlo_reader *r, ls_hlo_list *out, const char *end,
                       int depth) {
  static const char letters[] = "bfio";
  bool is_range = false;
  while (!ls_hlo_is(r, end) && r->now.kind != LS_HLO_END) {
    const char c = *r->now.text;
    if (depth > LS_HLO_MOST_DEPTH) LS_HLO_EXPECTED(r, "a list of less depth");
    if (ls_hlo_accept(r, "[")) {
      read_items(r, out, "]", depth + 1);
    } else if (r->now.kind == LS_HLO_NUMBER) {
      ls_hlo_add(r, out, strtoll(r->now.text, NULL, 10));
      ls_hlo_next(r);
      is_range |= ls_hlo_is(r, ":");
      if (ls_hlo_accept(r, ":")) continue;
      if (is_range && out->count % 3 == 2) ls_hlo_add(r, out, 1);
    } else if (r->now.kind == LS_HLO_ALIAS) {  // #stablehlo<precision HIGHEST>
      ls_hlo_next(r);
      if (ls_hlo_is(r, "<")) ls_hlo_skip_brackets(r);
    } else if (r->now.kind == LS_HLO_NAME) {
      const char *letter = r->now.size == 1 ? strchr(letters, c) : NULL;
      if (letter != NULL)
        ls_hlo_add(r, out, letters - letter - 1);
      else if (ls_hlo_is(r, "true") || ls_hlo_is(r, "false"))
        ls_hlo_add(r, out, c == 't');
      ls_hlo_next(r);
    } else {
      LS_HLO_EXPECTED(r, "a number");
    }
    if (!ls_hlo_is(r, end)) ls_hlo_expect(r, ",");
  }
  ls_hlo_expect(r, end);
}

void ls_hlo_read_list(ls_hlo_reader *r, ls_hlo_list *out) {
  const bool is_array = ls_hlo_accept(r, "array");
  ls_hlo_expect(r, is_array ? "<" : "[");
  if (is_array) ls_hlo_next(r);
  if (is_array && !ls_hlo_is(r, ">")) ls_hlo_expect(r, ":");
  read_items(r, out, is_array ? ">" : "]", 0);
}
