// SPDX-License-Identifier: Apache-2.0
// Prints arrays, and nests of them, as JSON, and copies its texts.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/words.h"

void cli_write_real(FILE *to, double value, int digits) {
  if (isfinite(value))
    fprintf(to, "%.*g", digits, value);
  else
    fputs("null", to);
}

void cli_print_real(double value, int digits) {
  cli_write_real(stdout, value, digits);
}

void cli_print_member(char before, const char *name, double value, int digits) {
  printf("%c\"%s\":", before, name);
  cli_print_real(value, digits);
}

// ---- Texts -----------------------------------------------------------------
size_t cli_utf8_size(const char *text, size_t size) {
  const unsigned char *at = (const unsigned char *)text;
  const unsigned char head = at[0];
  if (head < 0x80) return 1;
  const size_t width = head < 0xc2   ? 0
                       : head < 0xe0 ? 2
                       : head < 0xf0 ? 3
                       : head < 0xf5 ? 4
                                     : 0;
  if (width > size) return 0;
  for (size_t i = 1; i < width; ++i)
    if ((at[i] & 0xc0) != 0x80) return 0;
  // No overlong forms, halves of pairs, or values beyond the last character.
  if ((head == 0xe0 && at[1] < 0xa0) || (head == 0xed && at[1] >= 0xa0) ||
      (head == 0xf0 && at[1] < 0x90) || (head == 0xf4 && at[1] >= 0x90))
    return 0;
  return width;
}

bool cli_is_utf8(const char *text, size_t size) {
  while (size > 0) {
    const size_t width = cli_utf8_size(text, size);
    if (width == 0) return false;
    text += width;
    size -= width;
  }
  return true;
}

void cli_write_json(FILE *to, const char *bytes, size_t size) {
  putc('"', to);
  for (const char *at = bytes, *end = bytes + size; at < end; ++at) {
    const size_t width = cli_utf8_size(at, (size_t)(end - at));
    if (width == 0) {
      fputs("\\ufffd", to);
    } else if (width > 1) {
      fwrite(at, 1, width, to);
      at += width - 1;
    } else if (*at == '"' || *at == '\\') {
      fprintf(to, "\\%c", *at);
    } else if ((unsigned char)*at < 0x20) {
      fprintf(to, "\\u%04x", (unsigned)*at);
    } else {
      putc(*at, to);
    }
  }
  putc('"', to);
}

void cli_print_json_bytes(const char *bytes, size_t size) {
  cli_write_json(stdout, bytes, size);
}

void cli_print_json(const char *text) {
  cli_write_json(stdout, text, strlen(text));
}

void cli_print_text(char before, const char *name, const char *text) {
  printf("%c\"%s\":", before, name);
  cli_print_json(text);
}

// ---- Arrays ----------------------------------------------------------------
static void write_text(FILE *to, const ls_bytes *text) {
  cli_write_json(to, text->data, text->size);
}

double cli_array_part(const ls_array *array, int64_t index, int part) {
  const size_t size = ls_dtype_size(ls_array_dtype(array)) / 2;
  const char *at = (const char *)ls_array_data(array) +
                   (2 * (size_t)index + (size_t)part) * size;
  double value = 0;
  float narrow = 0;
  if (size == sizeof(value)) {
    memcpy(&value, at, size);
    return value;
  }
  memcpy(&narrow, at, sizeof(narrow));
  return (double)narrow;
}

// Writes a complex number as a list of its two parts.
static void write_complex(FILE *to, const ls_array *array, int64_t index) {
  const int digits = ls_array_dtype(array) == LS_DTYPE_C64 ? 9 : 17;
  putc('[', to);
  cli_write_real(to, cli_array_part(array, index, 0), digits);
  putc(',', to);
  cli_write_real(to, cli_array_part(array, index, 1), digits);
  putc(']', to);
}

static void json_write_element(FILE *to, const ls_array *array, int64_t index) {
  const ls_dtype dtype = ls_array_dtype(array);
  if (dtype == LS_DTYPE_STRING)
    write_text(to, &((const ls_bytes *)ls_array_data(array))[index]);
  else if (ls_dtype_is_complex(dtype))
    write_complex(to, array, index);
  else if (dtype == LS_DTYPE_BOOL)
    fputs(ls_array_i64(array, index) != 0 ? "true" : "false", to);
  else if (ls_dtype_is_float(dtype))
    cli_write_real(to, ls_array_f64(array, index),
                   dtype == LS_DTYPE_F64 ? 17 : 9);
  else if (ls_dtype_is_unsigned(dtype))
    fprintf(to, "%llu", (unsigned long long)ls_array_i64(array, index));
  else
    fprintf(to, "%lld", (long long)ls_array_i64(array, index));
}

// Writes nested lists, starting at dimension `at`; advances `*index`.
static void json_write_array(FILE *to, const ls_array *array, int at,
                             int64_t *index) {
  const ls_shape shape = ls_array_shape(array);
  if (at == shape.rank) {
    json_write_element(to, array, (*index)++);
    return;
  }
  putc('[', to);
  for (int64_t i = 0; i < shape.dim[at]; ++i) {
    if (i > 0) putc(',', to);
    json_write_array(to, array, at + 1, index);
  }
  putc(']', to);
}

void cli_write_values(FILE *to, ls_nest values) {
  const ls_array *array = ls_nest_as_array(values);
  const bool is_dict = values.kind == LS_KIND_DICT;
  int64_t index = 0;
  if (array != NULL) {
    json_write_array(to, array, 0, &index);
  } else if (values.kind == LS_KIND_SCALAR) {
    if (ls_dtype_is_float(values.dtype))
      cli_write_real(to, values.as.f64, 17);
    else if (values.dtype == LS_DTYPE_BOOL)
      fputs(values.as.i64 != 0 ? "true" : "false", to);
    else
      fprintf(to, "%lld", (long long)values.as.i64);
  } else if (is_dict || values.kind == LS_KIND_LIST ||
             values.kind == LS_KIND_TUPLE) {
    putc(is_dict ? '{' : '[', to);
    for (size_t i = 0; i < ls_nest_count(values); ++i) {
      if (i > 0) putc(',', to);
      if (is_dict) {
        const char *key = ls_nest_key(values, i);
        cli_write_json(to, key, strlen(key));
        putc(':', to);
      }
      cli_write_values(to, ls_nest_item(values, i));
    }
    putc(is_dict ? '}' : ']', to);
  } else {
    fputs("null", to);
  }
}

void cli_write_row(FILE *to, const ls_array *array, int64_t row) {
  const ls_shape shape = ls_array_shape(array);
  int64_t index = row * (ls_array_num_elements(array) / shape.dim[0]);
  json_write_array(to, array, 1, &index);
}

void cli_print_values(ls_nest values) { cli_write_values(stdout, values); }

void cli_print_row(ls_nest values, int64_t row) {
  for (size_t i = 0; i < ls_nest_count(values); ++i) {
    putchar(i == 0 ? '{' : ',');
    cli_print_json(ls_nest_key(values, i));
    putchar(':');
    cli_write_row(stdout, ls_nest_as_array(ls_nest_item(values, i)), row);
  }
}

// ---- Values as texts -------------------------------------------------------
// Reads four hexadecimal digits; returns false if there are other letters.
static bool read_hex(const char *at, const char *end, uint32_t *out) {
  char digits[5] = "";
  if (end - at < 4 || strspn(at, "0123456789abcdefABCDEF") < 4) return false;
  memcpy(digits, at, 4);
  *out = (uint32_t)strtoul(digits, NULL, 16);
  return true;
}

// Reads "XXXX" after "\u", or a pair of them.
static bool read_code(const char **at, const char *end, uint32_t *out) {
  uint32_t low = 0;
  if (!read_hex(*at, end, out) || *out == 0) return false;
  *at += 4;
  if (*out < 0xd800 || *out >= 0xe000) return true;
  if (*out >= 0xdc00 || end - *at < 6 || strncmp(*at, "\\u", 2) != 0 ||
      !read_hex(*at + 2, end, &low) || low < 0xdc00 || low >= 0xe000)
    return false;
  *at += 6;
  *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
  return true;
}

// Writes a character as UTF-8, if there is room; returns its end.
static char *put_utf8(char *to, const char *room, uint32_t code) {
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const unsigned char heads[] = {0, 0xc0, 0xe0, 0xf0};
  if (room - to <= more) return to;
  *to++ = (char)(heads[more] | (code >> (6 * more)));
  for (int k = more - 1; k >= 0; --k)
    *to++ = (char)(0x80 | ((code >> (6 * k)) & 0x3f));
  return to;
}

bool cli_json_copy(const cli_member *member, char *text, size_t size) {
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  const bool quoted = member->value_size >= 2 && member->value[0] == '"';
  const char *at = member->value + quoted;
  const char *end = member->value + member->value_size - quoted;
  char *to = text;
  const char *room = text + size - 1;
  bool good = true;
  while (good && at < end && to < room) {
    if (*at != '\\' || !quoted) {
      good = !quoted || (unsigned char)*at >= 0x20;
      *to++ = *at++;
      continue;
    }
    uint32_t code = 0;
    const char *letter = strchr(letters, at[1]);  // The string has an end.
    at += 2;
    if (letter != NULL) code = (unsigned char)meanings[letter - letters];
    good = letter != NULL || (at[-1] == 'u' && read_code(&at, end, &code));
    if (good) to = put_utf8(to, room, code);
  }
  *to = '\0';
  return good;
}
