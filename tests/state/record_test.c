// SPDX-License-Identifier: Apache-2.0
#include "lockstep/record.h"

#include <stdio.h>
#include <string.h>

#include "lockstep/graph.h"
#include "state/own.h"
#include "support/fault.h"

static ls_record *new_record(void) {
  ls_record *record = NULL;
  expect_ok(ls_record_create(&record));
  return record;
}

static void expect_text(const ls_record *record, const char *wanted) {
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  expect_ok(ls_record_to_text(record, &text, &size));
  assert_string_equal(text, wanted);
  assert_int_equal(size, strlen(wanted));
}

static ls_status fill(ls_record *record) {
  ls_record *inner = NULL;
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "least", INT64_MIN));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "file", "a \"b\"\n\xc3\xa4"));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "odd", "a\xff"));
  LS_RETURN_IF_ERROR(ls_record_set_bytes(record, "bytes", "\0\1\2\3", 4));
  LS_RETURN_IF_ERROR(ls_record_set_bytes(record, "none", NULL, 0));
  LS_RETURN_IF_ERROR(ls_record_add(record, "input0", &inner));
  LS_RETURN_IF_ERROR(ls_record_set_i64(inner, "index", 7));
  return ls_record_add(inner, "empty", &inner);
}

static const char filled[] =
    "{\"least\":-9223372036854775808,\"file\":\"a \\\"b\\\"\\n\xc3\xa4\","
    "\"odd\":{\"base64 text\":\"Yf8=\"},\"bytes\":{\"base64\":\"AAECAw==\"},"
    "\"none\":{\"base64\":\"\"},\"input0\":{\"index\":7,\"empty\":{}}}";

static void expect_filled(const ls_record *record) {
  int64_t number = 0;
  const char *text = NULL;
  const void *data = NULL;
  size_t size = 1;
  const ls_record *inner = NULL;
  expect_ok(ls_record_get_i64(record, "least", &number));
  assert_true(number == INT64_MIN);
  expect_ok(ls_record_get_text(record, "file", &text));
  assert_string_equal(text, "a \"b\"\n\xc3\xa4");
  expect_ok(ls_record_get_text(record, "odd", &text));
  assert_string_equal(text, "a\xff");
  expect_ok(ls_record_get_bytes(record, "bytes", &data, &size));
  assert_int_equal(size, 4);
  assert_memory_equal(data, "\0\1\2\3", 4);
  expect_ok(ls_record_get_bytes(record, "none", &data, &size));
  assert_int_equal(size, 0);
  assert_non_null(data);
  expect_ok(ls_record_find(record, "input0", &inner));
  expect_ok(ls_record_get_i64(inner, "index", &number));
  assert_int_equal(number, 7);
  expect_ok(ls_record_find(inner, "empty", &inner));
}

TEST(what_is_set_is_found) {
  LS_OWN(ls_record, record) = new_record();
  expect_text(record, "{}");
  expect_ok(fill(record));
  expect_filled(record);
  expect_text(record, filled);
  ls_record_clear(record);
  expect_text(record, "{}");
  ls_record_destroy(NULL);
}

TEST(a_text_gives_the_same_record) {
  ls_record *record = NULL;
  expect_ok(ls_record_from_text("t", filled, strlen(filled), &record));
  expect_filled(record);
  expect_text(record, filled);
  ls_record_destroy(record);
  expect_ok(ls_record_from_text("t", " { } ", 5, &record));
  expect_text(record, "{}");
  ls_record_destroy(record);
}

TEST(a_name_set_twice_has_the_last_value_at_its_first_place) {
  LS_OWN(ls_record, record) = new_record();
  ls_record *inner = NULL;
  expect_ok(ls_record_add(record, "a", &inner));
  expect_ok(ls_record_set_i64(inner, "x", 1));
  expect_ok(ls_record_set_i64(record, "b", 2));
  expect_ok(ls_record_set_text(record, "a", "text"));
  expect_text(record, "{\"a\":\"text\",\"b\":2}");
  expect_ok(ls_record_set_i64(record, "a", 3));
  expect_ok(ls_record_add(record, "b", &inner));
  expect_text(record, "{\"a\":3,\"b\":{}}");
}

TEST(a_copy_is_made_also_of_what_is_inside) {
  LS_OWN(ls_record, record) = new_record();
  ls_record *inner = NULL, *other = new_record();
  expect_ok(fill(other));
  expect_ok(ls_record_set_i64(record, "gone", 1));
  expect_ok(ls_record_copy(record, other));
  ls_record_destroy(other);
  expect_text(record, filled);
  ls_record_clear(record);
  expect_ok(ls_record_set_i64(record, "n", 1));
  expect_ok(ls_record_add(record, "in", &inner));
  expect_ok(ls_record_set_i64(inner, "m", 2));
  expect_ok(ls_record_copy(inner, record));
  expect_text(record, "{\"n\":1,\"in\":{\"n\":1,\"in\":{\"m\":2}}}");
  const ls_record *found = NULL;
  expect_ok(ls_record_find(inner, "in", &found));
  expect_ok(ls_record_copy(record, found));
  expect_text(record, "{\"m\":2}");
}

TEST(what_is_not_there_is_told_with_what_is) {
  LS_OWN(ls_record, record) = new_record();
  int64_t number = 5;
  const char *text = "";
  const ls_record *inner = NULL;
  expect_ok(fill(record));
  expect_status(ls_record_get_i64(record, "epoch", &number), LS_NOT_FOUND,
                "the record has no 'epoch'; its 6 entries are: 'least', "
                "'file', 'odd', 'bytes', 'none', 'input0'");
  assert_int_equal(number, 0);
  expect_status(ls_record_get_i64(record, "file", &number), LS_INVALID_ARGUMENT,
                "'file' of the record is a text, not a "
                "number");
  expect_status(ls_record_get_text(record, "bytes", &text), LS_INVALID_ARGUMENT,
                "'bytes' of the record is bytes, not a "
                "text");
  expect_status(ls_record_find(record, "least", &inner), LS_INVALID_ARGUMENT,
                "'least' of the record is a number, not a record");
  assert_null(inner);
}

TEST(names_that_a_file_cannot_have_are_refused) {
  LS_OWN(ls_record, record) = new_record();
  ls_record *inner = NULL;
  expect_status(ls_record_set_i64(record, "", 1), LS_INVALID_ARGUMENT,
                "needs a name");
  expect_status(ls_record_set_i64(record, "\xff", 1), LS_INVALID_ARGUMENT,
                "must be UTF-8");
  expect_status(ls_record_set_text(record, "base64", ""), LS_INVALID_ARGUMENT,
                "can be called 'base64'");
  expect_status(ls_record_add(record, "base64 text", &inner),
                LS_INVALID_ARGUMENT, "can be called 'base64 text'");
  expect_text(record, "{}");
  inner = record;
  for (int i = 1; i < 1080; ++i)
    expect_ok(ls_record_add(inner, "in", &inner));
  ls_record *deepest = inner;
  expect_status(ls_record_add(inner, "in", &inner), LS_INVALID_ARGUMENT,
                "can be inside each other 1080 times");
  expect_ok(ls_record_set_bytes(deepest, "b", "x", 1));
  // The deepest reads back; nothing deeper can be copied together.
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  LS_OWN(ls_record, again) = NULL;
  expect_ok(ls_record_to_text(record, &text, &size));
  expect_ok(ls_record_from_text("t", text, size, &again));
  expect_text(again, text);
  expect_status(ls_record_copy(deepest, record), LS_INVALID_ARGUMENT,
                "1080 times");
  expect_text(record, text);
}

TEST(texts_that_are_no_record_are_refused_by_place) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "t:1: found the end"},
      {"{\"a\":1,\n\"a\":2}", "t:2: "},
      {"[1]", "t: a record is a JSON object"},
      {"{\"a\":{\"b\":1.5}}", "t: 'b' is no value of a record: an integer"},
      {"{\"a\":{\"b\":1.5}}", "in 'a' of t"},
      {"{\"a\":9223372036854775808}", "'a' is no value of"},
      {"{\"a\":null}", "'a' is no value of"},
      {"{\"a\":true}", "'a' is no value of"},
      {"{\"a\":[]}", "'a' is no value of"},
      {"{\"a\":\"x\\u0000y\"}", "'a' is no value of a record: a text wit"},
      {"{\"a\":{\"base64\":\"A\"}}", "base64 digits, by fours"},
      {"{\"a\":{\"base64\":\"A===\"}}", "base64 digits"},
      {"{\"a\":{\"base64\":\"AB==\"}}", "base64 digits"},
      {"{\"a\":{\"base64 text\":\"AA==\"}}", "a text without zero bytes"},
      {"{\"base64\":\"AA==\"}", "can be called 'base64'"},
      {"{\"\":1}", "needs a name"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    ls_record *record = NULL;
    expect_status(
        ls_record_from_text("t", cases[i].text, strlen(cases[i].text), &record),
        LS_INVALID_ARGUMENT, cases[i].message);
    assert_null(record);
  }
}

TEST(what_no_reader_would_take_is_not_written) {
  LS_OWN(ls_record, record) = new_record();
  char name[24], *text = NULL;
  size_t size = 0;
  for (int i = 0; i < 65000; ++i) {
    snprintf(name, sizeof(name), "n%d", i);
    expect_ok(ls_record_set_i64(record, name, i));
  }
  expect_ok(ls_record_to_text(record, &text, &size));
  LS_OWN(ls_record, again) = NULL;
  expect_ok(ls_record_from_text("t", text, size, &again));
  expect_text(again, text);
  ls_text_release(text);
  expect_ok(ls_record_set_i64(record, "more", 1));
  expect_status(ls_record_to_text(record, &text, &size), LS_INVALID_ARGUMENT,
                "a record of 65001 entries is too large");
  assert_null(text);
}

MEMORY_TEST(copy_a_record) {
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(ls_record, other) = NULL;
  LS_OWN(ls_record, again) = NULL;
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(ls_record_create(&record));
  LS_RETURN_IF_ERROR(fill(record));
  LS_RETURN_IF_ERROR(ls_record_create(&other));
  LS_RETURN_IF_ERROR(ls_record_copy(other, record));
  LS_RETURN_IF_ERROR(ls_record_to_text(other, &text, &size));
  return ls_record_from_text("t", text, size, &again);
}

// Something that is not NULL; nobody looks at it before all are there.
static char place[64];
static void *const some = place;

TEST(calls_of_records_refuse_null) {
  expect_null_argument(out_record, ls_record_create, NULL);
  expect_null(ls_record_set_i64(NULL, some, 0), "record is NULL");
  expect_null(ls_record_set_i64(some, NULL, 0), "name is NULL");
  expect_null(ls_record_set_text(some, some, NULL), "value is NULL");
  expect_null(ls_record_set_bytes(some, some, NULL, 1), "data is NULL");
  expect_null(ls_record_add(some, some, NULL), "out_inner is NULL");
  expect_null(ls_record_copy(NULL, some), "to is NULL");
  expect_null(ls_record_copy(some, NULL), "from is NULL");
  expect_null(ls_record_get_i64(some, some, NULL), "out_value is NULL");
  expect_null(ls_record_get_text(some, NULL, some), "name is NULL");
  expect_null(ls_record_get_bytes(some, some, NULL, some), "out_data is NULL");
  expect_null(ls_record_get_bytes(some, some, some, NULL), "out_size is NULL");
  expect_null(ls_record_find(some, some, NULL), "out_inner is NULL");
  expect_null(ls_record_to_text(NULL, some, some), "record is NULL");
  expect_null(ls_record_to_text(some, NULL, some), "out_text is NULL");
  expect_null(ls_record_to_text(some, some, NULL), "out_size is NULL");
  expect_null(ls_record_from_text(NULL, some, 1, some), "name is NULL");
  expect_null(ls_record_from_text(some, NULL, 1, some), "text is NULL");
  expect_null(ls_record_from_text(some, some, 1, NULL), "out_record is NULL");
}
