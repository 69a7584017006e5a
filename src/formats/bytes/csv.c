// SPDX-License-Identifier: Apache-2.0
#include "formats/bytes/csv.h"

#include <ctype.h>
#include <math.h>

#include "base/plain.h"
#include "base/values/numbers.h"
#include "lockstep/half.h"
#include "lockstep/shape_rules.h"

// ---- Rows ------------------------------------------------------------------
typedef enum csv_state {
  ROW_START,
  FIELD_START,
  PLAIN,
  QUOTED,
  BEHIND_QUOTE,   // After a quote: it ends the field or is the first of two.
  BEHIND_RETURN,  // After a closing quote and CR: LF must follow.
} csv_state;

typedef struct csv_scan {
  const ls_file *file;
  ls_offsets *offsets;
  char delimiter;
  size_t most;  // Number of offsets wanted.
  csv_state state;
  int64_t quote;  // Start of the last field with quotes.
} csv_scan;

static ls_status bad_quote(const csv_scan *scan, int64_t at,
                           const char *problem, ls_code code) {
  return LS_STATUS(code, "'%s' line %lld, byte %lld: %s", scan->file->path,
                   (long long)ls_lines_number(scan->file, at), (long long)at,
                   problem);
}

// Returns the state after the first character of a field.
static csv_state begin_field(csv_scan *scan, char c, int64_t at) {
  if (c == '\n') return ROW_START;
  if (c == scan->delimiter) return FIELD_START;
  if (c != '"') return PLAIN;
  scan->quote = at;
  return QUOTED;
}

static ls_status scan_character(csv_scan *scan, char c, int64_t at) {
  switch (scan->state) {
  case ROW_START:
    // Counts empty lines to the previous row.
    if (c == '\n' || c == '\r') return ls_ok();
    LS_RETURN_IF_ERROR(ls_offsets_add(scan->offsets, at));
    scan->state = begin_field(scan, c, at);
    return ls_ok();
  case FIELD_START:
    scan->state = begin_field(scan, c, at);
    return ls_ok();
  case PLAIN:
    if (c == scan->delimiter) scan->state = FIELD_START;
    if (c == '\n') scan->state = ROW_START;
    return ls_ok();
  case QUOTED:
    if (c == '"') scan->state = BEHIND_QUOTE;
    return ls_ok();
  case BEHIND_QUOTE:
    if (c == '"')
      scan->state = QUOTED;
    else if (c == scan->delimiter)
      scan->state = FIELD_START;
    else if (c == '\n')
      scan->state = ROW_START;
    else if (c == '\r')
      scan->state = BEHIND_RETURN;
    else
      return bad_quote(
          scan, at,
          "text after a closing quote; a quote within quotes is written twice",
          LS_INVALID_ARGUMENT);
    return ls_ok();
  default:
    scan->state = ROW_START;
    if (c == '\n') return ls_ok();
    return bad_quote(scan, at, "text after a closing quote and CR",
                     LS_INVALID_ARGUMENT);
  }
}

static bool has_enough(const csv_scan *scan) {
  return scan->offsets->size > scan->most;
}

static ls_status scan_window(csv_scan *scan, const ls_reader *reader) {
  const char *data = reader->data;
  const char delimiter = scan->delimiter;
  for (size_t i = 0; i < reader->size && !has_enough(scan); ++i) {
    // Fast path: most characters end neither field nor row.
    if (scan->state == PLAIN) {
      while (i < reader->size && data[i] != delimiter && data[i] != '\n')
        ++i;
    } else if (scan->state == QUOTED) {
      const char *quote = memchr(data + i, '"', reader->size - i);
      i = quote != NULL ? (size_t)(quote - data) : reader->size;
    }
    if (i == reader->size) break;
    LS_RETURN_IF_ERROR(
        scan_character(scan, data[i], reader->position + (int64_t)i));
  }
  return ls_ok();
}

size_t ls_csv_lead(const char *data, size_t size) {
  size_t lead = size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  while (lead < size && (data[lead] == '\n' || data[lead] == '\r'))
    ++lead;
  return lead;
}

ls_status ls_csv_scan(const ls_file *file, char delimiter, int64_t most,
                      ls_offsets *offsets) {
  LS_OWN(ls_reader, reader) = {0};
  LS_RETURN_IF_ERROR(ls_reader_open(file, offsets->allocator, NULL, &reader));
  csv_scan scan = {.file = file,
                   .offsets = offsets,
                   .delimiter = delimiter,
                   .most = most > 0 ? (size_t)most : SIZE_MAX};
  LS_RETURN_IF_ERROR(ls_reader_need(&reader, 3));
  ls_reader_take(&reader, ls_csv_lead(reader.data, reader.size));
  while (!has_enough(&scan)) {
    LS_RETURN_IF_ERROR(ls_reader_need(&reader, 1));
    if (reader.size == 0) break;
    LS_RETURN_IF_ERROR(scan_window(&scan, &reader));
    ls_reader_take(&reader, reader.size);
  }
  if (has_enough(&scan)) return ls_ok();
  if (scan.state == QUOTED)
    return bad_quote(&scan, scan.quote,
                     "this quote is not closed: the file ends within it",
                     LS_DATA_LOSS);
  return ls_offsets_add(offsets, file->size);
}

// ---- Fields ----------------------------------------------------------------
// Removes the quotes from the field at `at`; returns the field's end in the
// row.
static size_t take_quoted(char *row, size_t size, size_t at,
                          ls_csv_field *out) {
  char *out_text = row + at;
  out->text = out_text;
  out->quoted = true;
  for (++at; at < size; ++at) {
    if (row[at] != '"') {
      *out_text++ = row[at];
    } else if (at + 1 < size && row[at + 1] == '"') {
      *out_text++ = row[at++];
    } else {
      ++at;
      break;
    }
  }
  out->size = (size_t)(out_text - out->text);
  return at;
}

void ls_csv_split(char *row, size_t size, char delimiter, ls_csv_field *fields,
                  size_t room, size_t *out_count) {
  size_t at = 0;
  for (*out_count = 0;;) {
    ls_csv_field field = {.text = row + at, .at = at};
    if (at < size && row[at] == '"') at = take_quoted(row, size, at, &field);
    const size_t begin = at;
    while (at < size && row[at] != delimiter && row[at] != '\n')
      ++at;
    if (!field.quoted) {
      field.size = at - begin;
      const bool ends = at == size || row[at] == '\n';
      if (ends && field.size > 0 && row[at - 1] == '\r') --field.size;
    }
    if (*out_count < room) fields[*out_count] = field;
    ++*out_count;
    if (at >= size || row[at] == '\n') return;
    ++at;
  }
}

// ---- Values ----------------------------------------------------------------
static bool is_space(char c) { return c == ' ' || c == '\t'; }

ls_bytes ls_csv_trim(const ls_csv_field *field) {
  const char *at = field->text, *end = at + field->size;
  while (at < end && is_space(*at))
    ++at;
  while (at < end && is_space(end[-1]))
    --end;
  return (ls_bytes){at, (size_t)(end - at)};
}

// Reads digits with a sign. `*out` is the magnitude.
static bool read_digits(ls_bytes text, bool *out_negative, uint64_t *out) {
  size_t at = 0;
  *out_negative = text.size > 0 && text.data[0] == '-';
  if (text.size > 0 && (text.data[0] == '-' || text.data[0] == '+')) ++at;
  if (at == text.size) return false;
  uint64_t value = 0;
  for (; at < text.size; ++at) {
    const unsigned digit = (unsigned)(text.data[at] - '0');
    if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, digit, &value))
      return false;
  }
  *out = value;
  return true;
}

static bool read_integer(ls_bytes text, ls_dtype dtype, void *out) {
  bool negative = false;
  uint64_t value = 0;
  return read_digits(text, &negative, &value) &&
         ls_store_integer(dtype, negative, value, out);
}

// Reads up to 19 digits with a point. They are exact in f64 if they make less
// than 2^53; multiplying or dividing by an exact power of ten then rounds once.
static bool read_short(ls_bytes text, double *out) {
  static const double powers[] = {
      1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  uint64_t digits = 0;
  int count = 0, behind = 0;
  bool point = false;
  size_t at = text.size > 0 && (text.data[0] == '-' || text.data[0] == '+');
  for (; at < text.size; ++at) {
    const unsigned digit = (unsigned)(text.data[at] - '0');
    if (digit <= 9) {
      digits = digits * 10 + digit;
      ++count;
      behind += point;
    } else if (text.data[at] == '.' && !point) {
      point = true;
    } else {
      return false;
    }
  }
  if (count == 0 || count > 19 || digits >> 53 != 0) return false;
  const double value = (double)digits / powers[behind];
  *out = text.data[0] == '-' ? -value : value;
  return true;
}

// Returns true if the float nearest to a number, of which `value` is the
// nearest double, is (float)value: a double halfway between two floats may have
// been rounded to there, and one below the normal floats loses digits of its
// own.
static bool rounds_once(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const bool is_halfway = (bits & 0x1fffffff) == 0x10000000;
  return value == 0 || (!is_halfway && fabs(value) >= 1e-37);
}

static bool read_float(ls_bytes text, double *out, float *out_narrow) {
  char buffer[128];
  const bool is_short = read_short(text, out);
  *out_narrow = (float)*out;
  if (is_short && rounds_once(*out)) return true;
  // Limits: numbers of this length do not occur; hexadecimal ones are not
  // allowed.
  if (text.size == 0 || text.size >= sizeof(buffer) ||
      memchr(text.data, 'x', text.size) != NULL ||
      memchr(text.data, 'X', text.size) != NULL ||
      memchr(text.data, '(', text.size) != NULL ||
      isspace((unsigned char)text.data[0]))
    return false;
  memcpy(buffer, text.data, text.size);
  buffer[text.size] = '\0';
  char *end = NULL;
  *out = ls_read_f64(buffer, &end);
  *out_narrow = rounds_once(*out) ? (float)*out : ls_read_f32(buffer, NULL);
  return end == buffer + text.size;
}

static bool is_word(ls_bytes text, const char *word) {
  if (text.size != strlen(word)) return false;
  for (size_t i = 0; i < text.size; ++i)
    if (tolower((unsigned char)text.data[i]) != word[i]) return false;
  return true;
}

static bool read_bool(ls_bytes text, void *out) {
  const bool yes = is_word(text, "1") || is_word(text, "true");
  if (!yes && !is_word(text, "0") && !is_word(text, "false")) return false;
  memcpy(out, &yes, sizeof(yes));
  return true;
}

// Returns an odd f32 next to a number that is no f32: it rounds to 16 bits as
// the double does, which is the text's nearest.
static float odd_of(double value, float narrow) {
  uint32_t bits = ls_float_bits(narrow);
  if ((double)narrow == value) return narrow;
  if (fabs((double)narrow) > fabs(value)) --bits;
  return ls_float_of_bits(bits | 1);
}

bool ls_csv_read(const ls_csv_field *field, ls_dtype dtype, void *out) {
  const ls_bytes text = ls_csv_trim(field);
  double value = 0;
  float narrow = 0;
  if (dtype == LS_DTYPE_BOOL) return read_bool(text, out);
  if (ls_dtype_is_integer(dtype)) return read_integer(text, dtype, out);
  if (!read_float(text, &value, &narrow)) return false;
  // A number that its type rounds to infinity is none of that type.
  const bool is_infinity = isalpha(text.data[text.size - 1]) != 0;
  uint16_t half = 0;
  switch (dtype) {
  case LS_DTYPE_F64:
    memcpy(out, &value, 8);
    return is_infinity || !isinf(value);
  case LS_DTYPE_F32:
    memcpy(out, &narrow, 4);
    return is_infinity || !isinf(narrow);
  case LS_DTYPE_F16:
    half = ls_f16_from_f32(odd_of(value, narrow));
    memcpy(out, &half, 2);
    return is_infinity || !isinf(ls_f16_to_f32(half));
  case LS_DTYPE_BF16:
    half = ls_bf16_from_f32(odd_of(value, narrow));
    memcpy(out, &half, 2);
    return is_infinity || !isinf(ls_bf16_to_f32(half));
  default:
    return false;
  }
}

ls_dtype ls_csv_kind(const ls_csv_field *field) {
  const ls_bytes text = ls_csv_trim(field);
  int64_t integer = 0;
  double number = 0;
  float narrow = 0;
  if (text.size == 0) return field->quoted ? LS_DTYPE_STRING : LS_DTYPE_NONE;
  if (read_integer(text, LS_DTYPE_I64, &integer)) return LS_DTYPE_I64;
  return read_float(text, &number, &narrow) ? LS_DTYPE_F32 : LS_DTYPE_STRING;
}
