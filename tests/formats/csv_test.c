// SPDX-License-Identifier: Apache-2.0
#include "formats/bytes/csv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/bytes/offsets.h"
#include "support/fault.h"

static ls_allocator *memory(void) { return ls_current_allocator(); }

static ls_file *file_of(const char *text) {
  ls_file *file = NULL;
  expect_ok(ls_file_open_bytes(memory(), "t", text, strlen(text), &file));
  return file;
}

// The fields of all rows: "a|b;c|d;".
static void print_rows(const char *text, char delimiter, char *out) {
  LS_OWN(ls_file, file) = file_of(text);
  LS_OWN_BEGUN(ls_offsets, offsets, ls_offsets_init, memory());
  expect_ok(ls_csv_scan(file, delimiter, 0, &offsets));
  for (int64_t i = 0; i < ls_offsets_count(&offsets); ++i) {
    char row[256];
    ls_csv_field fields[8];
    size_t count = 0;
    const int64_t from = offsets.items[i];
    const size_t size = (size_t)(offsets.items[i + 1] - from);
    expect_ok(ls_file_read(file, from, row, size));
    ls_csv_split(row, size, delimiter, fields, 8, &count);
    for (size_t k = 0; k < count; ++k) {
      memcpy(out, fields[k].text, fields[k].size);
      out += fields[k].size;
      *out++ = k + 1 < count ? '|' : ';';
    }
  }
  *out = '\0';
}

TEST(rows_come_apart) {
  static const struct {
    const char *text, *want;
  } rows[] = {
      {"", ""},
      {"a,b\nc,d\n", "a|b;c|d;"},
      {"a,b\r\nc,d", "a|b;c|d;"},
      {"a,,\n,b,", "a||;|b|;"},
      {",\n", "|;"},
      {"\n\na\n\r\n\nb\n\n", "a;b;"},
      {"\"a,b\",\"c\nd\"\n\"\"\"\",\"\"\n", "a,b|c\nd;\"|;"},
      {"\"a\"\r\nb\r\n", "a;b;"},
      {"a\"b,c\"\n", "a\"b|c\";"},
      {"a\rb\n", "a\rb;"},
      {"\xef\xbb\xbf"
       "a\nb",
       "a;b;"},
      {" a , b \n", " a | b ;"},
      {"\"a\"\"\"\"b\"", "a\"\"b;"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    char out[256];
    print_rows(rows[i].text, ',', out);
    assert_string_equal(out, rows[i].want);
  }
  char out[256];
  print_rows("a\tb,c\n", '\t', out);
  assert_string_equal(out, "a|b,c;");
}

TEST(quotes_that_are_wrong_are_told_with_their_line) {
  static const struct {
    const char *text;
    ls_code code;
    const char *part;
  } rows[] = {
      {"a\nb,\"c\nd\n", LS_DATA_LOSS,
       "'t' line 2, byte 4: this quote is not closed"},
      {"a\n\"b\" ,c\n", LS_INVALID_ARGUMENT,
       "'t' line 2, byte 5: text after a closing quote"},
      {"\"b\"\rc\n", LS_INVALID_ARGUMENT,
       "'t' line 1, byte 4: text after a closing quote and CR"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_file, file) = file_of(rows[i].text);
    LS_OWN_BEGUN(ls_offsets, offsets, ls_offsets_init, memory());
    expect_status(ls_csv_scan(file, ',', 0, &offsets), rows[i].code,
                  rows[i].part);
  }
}

// Rows of all lengths across the borders of what is read at once.
TEST(long_files_are_scanned_piece_by_piece) {
  enum { SIZE = 700000 };
  static char text[SIZE + 64];
  size_t size = 0, count = 0;
  while (size < SIZE) {
    size += (size_t)snprintf(text + size, 64, "%zu,\"%.*s\"\"\n,\",x\n", count,
                             (int)(count % 17), "aaaaaaaaaaaaaaaaaaaaaaaaaa");
    ++count;
  }
  LS_OWN(ls_file, file) = file_of(text);
  LS_OWN_BEGUN(ls_offsets, offsets, ls_offsets_init, memory());
  expect_ok(ls_csv_scan(file, ',', 0, &offsets));
  assert_int_equal(ls_offsets_count(&offsets), count);
  for (size_t i = 0; i < count; ++i) {
    char row[100];
    ls_csv_field fields[3];
    size_t found = 0;
    const size_t length = (size_t)(offsets.items[i + 1] - offsets.items[i]);
    memcpy(row, text + offsets.items[i], length);
    ls_csv_split(row, length, ',', fields, 3, &found);
    assert_int_equal(found, 3);
    int64_t number = 0;
    assert_true(ls_csv_read(&fields[0], LS_DTYPE_I64, &number));
    assert_int_equal(number, i);
    assert_int_equal(fields[1].size, i % 17 + 3);
  }
}

// ---- Values ----------------------------------------------------------------
static ls_csv_field field_of(const char *text) {
  return (ls_csv_field){.text = text, .size = strlen(text)};
}

TEST(integers_are_read_within_their_bounds) {
  static const struct {
    const char *text;
    ls_dtype dtype;
    bool reads;
    int64_t want;
  } rows[] = {
      {"0", LS_DTYPE_I8, true, 0},
      {" +127\t", LS_DTYPE_I8, true, 127},
      {"128", LS_DTYPE_I8, false, 0},
      {"-128", LS_DTYPE_I8, true, -128},
      {"-129", LS_DTYPE_I8, false, 0},
      {"255", LS_DTYPE_U8, true, 255},
      {"256", LS_DTYPE_U8, false, 0},
      {"-0", LS_DTYPE_U8, true, 0},
      {"-1", LS_DTYPE_U8, false, 0},
      {"-32768", LS_DTYPE_I16, true, -32768},
      {"65535", LS_DTYPE_U16, true, 65535},
      {"2147483648", LS_DTYPE_I32, false, 0},
      {"4294967295", LS_DTYPE_U32, true, 4294967295},
      {"9223372036854775807", LS_DTYPE_I64, true, INT64_MAX},
      {"-9223372036854775808", LS_DTYPE_I64, true, INT64_MIN},
      {"9223372036854775808", LS_DTYPE_I64, false, 0},
      {"18446744073709551615", LS_DTYPE_U64, true, -1},
      {"18446744073709551616", LS_DTYPE_U64, false, 0},
      {"", LS_DTYPE_I32, false, 0},
      {"-", LS_DTYPE_I32, false, 0},
      {"1.0", LS_DTYPE_I32, false, 0},
      {"1 2", LS_DTYPE_I32, false, 0},
      {"true", LS_DTYPE_BOOL, true, 1},
      {"FALSE", LS_DTYPE_BOOL, true, 0},
      {"1", LS_DTYPE_BOOL, true, 1},
      {"2", LS_DTYPE_BOOL, false, 0},
      {"", LS_DTYPE_BOOL, false, 0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_array, array) = NULL;
    expect_ok(ls_array_create(rows[i].dtype, LS_SCALAR, &array));
    const ls_csv_field field = field_of(rows[i].text);
    if (ls_csv_read(&field, rows[i].dtype, ls_array_mutable_data(array)) !=
            rows[i].reads ||
        (rows[i].reads && ls_array_i64(array, 0) != rows[i].want))
      fail_msg("'%s'", rows[i].text);
  }
}

TEST(floats_are_read) {
  static const struct {
    const char *text;
    bool reads;
    double want;
  } rows[] = {
      {"0", true, 0},
      {"1.5", true, 1.5},
      {"-.25", true, -0.25},
      {"3.", true, 3},
      {"1e3", true, 1000},
      {"-1.25E-2", true, -0.0125},
      {"0.1", true, 0.1},
      {"123456789.987654321", true, 123456789.987654321},
      {"9007199254740993", true, 9007199254740992.0},
      {"3.14159265358979323846", true, 3.14159265358979323846},
      {"1e400", false, 0},
      {"inf", true, INFINITY},
      {" 7 ", true, 7},
      {"", false, 0},
      {".", false, 0},
      {"-", false, 0},
      {"1.2.3", false, 0},
      {"1,5", false, 0},
      {"0x10", false, 0},
      {"nan(1)", false, 0},
      {"word", false, 0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    double found = 0;
    float narrow = 0;
    const ls_csv_field field = field_of(rows[i].text);
    if (ls_csv_read(&field, LS_DTYPE_F64, &found) != rows[i].reads ||
        (rows[i].reads && found != rows[i].want))
      fail_msg("'%s' is %.17g", rows[i].text, found);
    if (ls_csv_read(&field, LS_DTYPE_F32, &narrow) != rows[i].reads ||
        (rows[i].reads && narrow != (float)rows[i].want))
      fail_msg("'%s' is %.9g", rows[i].text, (double)narrow);
  }
  // A number beyond its type is none of that type.
  const ls_csv_field large = field_of("-4e38"), half = field_of("7e4");
  const ls_csv_field edge = field_of("3.4e38");
  double room = 0;
  assert_true(ls_csv_read(&large, LS_DTYPE_F64, &room));
  assert_false(ls_csv_read(&large, LS_DTYPE_F32, &room));
  assert_true(ls_csv_read(&edge, LS_DTYPE_F32, &room));
  assert_false(ls_csv_read(&edge, LS_DTYPE_BF16, &room));
  assert_false(ls_csv_read(&half, LS_DTYPE_F16, &room));
  // Halfway between two floats, or near zero, a double would round twice.
  static const struct {
    const char *text;
    float want;
  } narrow[] = {
      {"1.00000005960464477539062500001", 0x1.000002p0F},
      {"1.000000059604644775390625", 1},
      {"0.00000000000000000000000000000000000000000000070064923216240853", 0},
      {"0.00000000000000000000000000000000000000000000070064923216240854",
       0x1p-149F},
  };
  for (size_t i = 0; i < LS_COUNT_OF(narrow); ++i) {
    float found = -1;
    const ls_csv_field field = field_of(narrow[i].text);
    assert_true(ls_csv_read(&field, LS_DTYPE_F32, &found));
    if (found != narrow[i].want) fail_msg("'%s' is %a", narrow[i].text, found);
  }
  // Near the middle of two floats of 16 bits, an f32 would round twice.
  static const struct {
    const char *text;
    uint16_t half, brain;  // 0: none.
  } halves[] = {
      {"1.000488281250001", 0x3c01, 0x3f80},
      {"1.00048828125", 0x3c00, 0x3f80},
      {"1.0004882812500000000000001", 0x3c00, 0x3f80},  // The same double.
      {"-1.003906250000001", 0xbc04, 0xbf81},
      {"1.00390625", 0x3c04, 0x3f80},
      {"65519.99999", 0x7bff, 0x4780},
      {"65520", 0, 0x4780},
      {"3.4e38", 0, 0},
      {"inf", 0x7c00, 0x7f80},
  };
  for (size_t i = 0; i < LS_COUNT_OF(halves); ++i) {
    const ls_csv_field field = field_of(halves[i].text);
    uint16_t f16 = 0, bf16 = 0;
    if (ls_csv_read(&field, LS_DTYPE_F16, &f16) != (halves[i].half != 0) ||
        ls_csv_read(&field, LS_DTYPE_BF16, &bf16) != (halves[i].brain != 0))
      fail_msg("'%s' is read, or not", halves[i].text);
    if ((halves[i].half != 0 && f16 != halves[i].half) ||
        (halves[i].brain != 0 && bf16 != halves[i].brain))
      fail_msg("'%s' is %x, %x", halves[i].text, f16, bf16);
  }
  double found = 0;
  const ls_csv_field field = field_of("nan");
  assert_true(ls_csv_read(&field, LS_DTYPE_F64, &found));
  assert_true(isnan(found));
}

TEST(the_kind_of_a_text_is_found) {
  ls_csv_field field = field_of("12");
  assert_int_equal(ls_csv_kind(&field), LS_DTYPE_I64);
  field = field_of("1e5");
  assert_int_equal(ls_csv_kind(&field), LS_DTYPE_F32);
  field = field_of("word");
  assert_int_equal(ls_csv_kind(&field), LS_DTYPE_STRING);
  field = field_of(" ");
  assert_int_equal(ls_csv_kind(&field), LS_DTYPE_NONE);
  field.quoted = true;
  assert_int_equal(ls_csv_kind(&field), LS_DTYPE_STRING);
}

// ---- Lines -----------------------------------------------------------------
TEST(lines_are_found) {
  static const struct {
    const char *text, *want;
  } rows[] = {
      {"", ""},           {"a", "a;"},           {"a\n", "a;"},
      {"a\nb", "a;b;"},   {"a\r\n\nb", "a;;b;"}, {"\n", ";"},
      {"\r\n\r\n", ";;"}, {"a\r", "a\r;"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_file, file) = file_of(rows[i].text);
    LS_OWN_BEGUN(ls_offsets, offsets, ls_offsets_init, memory());
    expect_ok(ls_lines_scan(file, &offsets));
    char out[64] = "", streamed[64] = "";
    for (int64_t k = 0; k < ls_offsets_count(&offsets); ++k) {
      const int64_t from = offsets.items[k];
      const ls_bytes line = ls_line_trim(rows[i].text + from,
                                         (size_t)(offsets.items[k + 1] - from));
      strncat(out, line.data, line.size);
      strcat(out, ";");
    }
    assert_string_equal(out, rows[i].want);
    LS_OWN(ls_reader, reader) = {0};
    expect_ok(ls_reader_open(file, memory(), &(ls_reader_options){.chunk = 2},
                             &reader));
    ls_bytes line;
    ls_status status;
    while (ls_status_is_ok(status = ls_lines_next(&reader, &line))) {
      strncat(streamed, line.data, line.size);
      strcat(streamed, ";");
    }
    expect_status(status, LS_OUT_OF_RANGE, "'t' has ended");
    assert_string_equal(streamed, rows[i].want);
  }
}

static ls_status scan_under_failures(void *user) {
  ls_offsets offsets;
  ls_offsets_init(&offsets, memory());
  ls_status status = ls_csv_scan(user, ',', 0, &offsets);
  ls_offsets_deinit(&offsets);
  if (ls_status_is_ok(status)) status = ls_lines_scan(user, &offsets);
  ls_offsets_deinit(&offsets);
  return status;
}

TEST(failures_of_memory_are_survived) {
  LS_OWN(ls_file, file) = file_of("a,b\nc,d\n");
  REFUSE_EACH(scan_under_failures, file);
}
