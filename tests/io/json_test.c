// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "support/comma.h"

TEST(a_writer_puts_commas_and_quotes) {
  LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
  ls_json_writer json = {.text = &text};
  ls_json_begin(&json, '{');
  ls_json_key(&json, "a \"b\"\n");
  ls_json_string(&json, "\\ \x01 \xc3\xa4");
  ls_json_key(&json, "list");
  ls_json_begin(&json, '[');
  ls_json_i64(&json, INT64_MIN);
  ls_json_bool(&json, true);
  ls_json_begin(&json, '[');
  ls_json_end(&json, ']');
  ls_json_f64(&json, 0.1);
  ls_json_f64(&json, (double)NAN);
  ls_json_f64(&json, 1e300);
  ls_json_end(&json, ']');
  ls_json_end(&json, '}');
  assert_string_equal(ls_text_data(&text),
                      "{\"a \\\"b\\\"\\n\":\"\\\\ \\u0001 \xc3\xa4\",\"list\":"
                      "[-9223372036854775808,true,[],0.1,null,1e+300]}");
}

TEST(a_number_of_thousandths_has_a_point) {
  LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
  ls_json_writer json = {.text = &text};
  static const int64_t values[] = {0,  7,     -7,        12345,
                                   -1, -1500, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < LS_COUNT_OF(values); ++i)
    ls_json_thousandths(&json, values[i]);
  assert_string_equal(ls_text_data(&text),
                      "0.000,0.007,-0.007,12.345,-0.001,-1.500,"
                      "9223372036854775.807,-9223372036854775.808");
}

TEST(what_is_no_utf8_is_written_as_such) {
  static const struct {
    const char *text, *written;
  } cases[] = {
      {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf",
       "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\""},
      {"a\xff \n\"\x80", "\"a\\ufffd \\n\\\"\\ufffd\""},
      {"\xc3", "\"\\ufffd\""},                        // Cut off.
      {"\xe2\x82", "\"\\ufffd\\ufffd\""},             // The same.
      {"\xc0\xaf", "\"\\ufffd\\ufffd\""},             // Too long a form.
      {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},  // Half of a pair.
      {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
    ls_json_any_string(&(ls_json_writer){.text = &text}, cases[i].text);
    assert_string_equal(ls_text_data(&text), cases[i].written);
  }
}

static const ls_json *parse(ls_arena *arena, const char *text) {
  const ls_json *value = NULL;
  expect_ok(ls_json_parse(arena, "t", text, strlen(text), &value));
  assert_non_null(value);
  return value;
}

TEST(values_of_every_kind_are_read) {
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  const ls_json *value =
      parse(&arena, " { \"n\" : [ -12 , 2.5e-1, 12345678901234567890 ] , "
                    "\"s\":\"\\u00e4\\ud83d\\ude00\\t\", \"t\":true,\"f\":"
                    "false, \"z\": null, \"o\":{} }\n");
  assert_int_equal(value->kind, LS_JSON_OBJECT);
  const ls_json *n = ls_json_find(value, "n")->first;
  assert_true(n->is_integer && n->integer == -12 && n->number == -12);
  assert_true(!n->next->is_integer && n->next->number == 0.25);
  assert_true(!n->next->next->is_integer &&
              n->next->next->number == 12345678901234567890.0);
  assert_string_equal(ls_json_find(value, "s")->string,
                      "\xc3\xa4\xf0\x9f\x98\x80\t");
  assert_true(ls_json_find(value, "t")->boolean);
  assert_int_equal(ls_json_find(value, "f")->kind, LS_JSON_BOOL);
  assert_int_equal(ls_json_find(value, "z")->kind, LS_JSON_NULL);
  assert_null(ls_json_find(value, "o")->first);
  assert_null(ls_json_find(value, "none"));
}

TEST(what_is_wrong_is_named_with_its_line) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"", "t:1: found the end, expected a value"},
      {"[1,\n2,\n]", "t:3: found ']', expected a value"},
      {"{\"a\" 1}", "found '1', expected ':'"},
      {"{a:1}", "expected a key in quotes"},
      {"{\"a\":1,\"a\":2}", "expected every key once"},
      {"{\"a\\u0000b\":1}", "expected a key without \\u0000"},
      {"[1 2]", "found '2', expected ',' or ']'"},
      {"\"abc", "expected '\"' at the string's end"},
      {"\"\\x\"", "found 'x', expected one of"},
      {"\"\\ud800x\"", "the pair's second half"},
      {"\"\\udc00\"", "surrogate pair"},
      {"\"\n\"", "no control byte"},
      {"01", "expected a value"},
      {"1.", "digits after the point"},
      {"1e", "digits of the exponent"},
      {"nul", "expected a value"},
      {"1 1", "expected nothing after the value"},
  };
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    const ls_json *value = NULL;
    expect_status(ls_json_parse(&arena, "t", cases[i].text,
                                strlen(cases[i].text), &value),
                  LS_INVALID_ARGUMENT, cases[i].part);
    assert_null(value);
  }
}

TEST(deep_nesting_is_refused) {
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  char text[100000];
  memset(text, '[', sizeof(text));
  const ls_json *value = NULL;
  expect_status(ls_json_parse(&arena, "t", text, sizeof(text), &value),
                LS_INVALID_ARGUMENT, "at most 64 levels");
}

// Also where the program has a language of decimal commas.
TEST(numbers_have_a_point_in_every_language) {
  if (!comma_begin()) skip();
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  const ls_json *value = parse(&arena, "[0.1,-2.5e-1,1e300]");
  const double numbers[] = {value->first->number, value->first->next->number,
                            value->first->next->next->number};
  LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
  ls_json_writer json = {.text = &text};
  ls_json_begin(&json, '[');
  ls_json_f64(&json, 0.1);
  ls_json_f64(&json, 1.0 / 3);
  ls_json_end(&json, ']');
  comma_end();
  assert_true(numbers[0] == 0.1 && numbers[1] == -0.25 && numbers[2] == 1e300);
  assert_string_equal(ls_text_data(&text), "[0.1,0.3333333333333333]");
}

// A text that is small takes little memory, whatever is in it.
TEST(many_values_are_refused) {
  enum { SIZE = 4000001 };
  HEAP(char, text) = malloc(SIZE);
  for (size_t i = 0; i < SIZE; ++i)
    text[i] = i % 2 == 0 ? '1' : ',';
  text[0] = '[';
  text[1] = '1';
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  const ls_json *value = NULL;
  expect_status(ls_json_parse(&arena, "t", text, SIZE, &value),
                LS_INVALID_ARGUMENT, "fewer values in a text of its size");
  assert_null(value);
  assert_true(ls_arena_bytes(&arena) < 5 * (size_t)SIZE);
}

// As a checkpoint of so many arrays has.
TEST(a_long_text_has_as_many_values_as_it_needs) {
  enum { COUNT = 200000, EACH = 40 };
  HEAP(char, text) = malloc(COUNT * EACH + 3);
  size_t size = 0;
  text[size++] = '{';
  for (int i = 0; i < COUNT; ++i)
    size += (size_t)snprintf(text + size, EACH, "%s\"w%06d\":4294967295",
                             i > 0 ? "," : "", i);
  text[size++] = '}';
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  const ls_json *value = NULL;
  expect_ok(ls_json_parse(&arena, "t", text, size, &value));
}
