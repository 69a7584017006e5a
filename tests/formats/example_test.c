// SPDX-License-Identifier: Apache-2.0
#include "formats/bytes/example.h"

#include <string.h>

#include "support/fault.h"

static ls_allocator *memory(void) { return ls_current_allocator(); }

#define NAME(text) ((ls_bytes){text, sizeof(text) - 1})
#define LITERAL(...)                                                           \
  (const unsigned char[]){__VA_ARGS__}, sizeof((unsigned char[]){__VA_ARGS__})

static const ls_record_place where = {"f", 7, 100};

// An example with a feature of each kind, built here.
static ls_bytes build(ls_example_builder *builder) {
  const ls_bytes words[] = {NAME("one"), NAME(""), NAME("three")};
  const float floats[] = {1, -0.5f, 3e38f};
  const int64_t ints[] = {0, -1, 300, INT64_MIN, INT64_MAX};
  ls_example_add_bytes(builder, "words", words, 3);
  ls_example_add_floats(builder, "floats", floats, 3);
  ls_example_add_ints(builder, "ints", ints, 5);
  ls_example_add_ints(builder, "none", NULL, 0);
  ls_bytes example;
  expect_ok(ls_example_end(builder, &example));
  return example;
}

static ls_feature_place place_of(ls_bytes example, ls_bytes name) {
  return (ls_feature_place){&where, example.data, name};
}

TEST(features_that_were_built_are_found) {
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init, memory());
  const ls_bytes example = build(&builder);
  const ls_bytes names[] = {NAME("ints"), NAME("absent"), NAME("words"),
                            NAME("floats"), NAME("none")};
  ls_feature found[5];
  expect_ok(
      ls_example_find(&where, example.data, example.size, names, 5, found));
  assert_int_equal(found[1].kind, LS_FEATURE_ABSENT);
  int64_t ints[5];
  size_t count = 0;
  ls_feature_place place = place_of(example, names[0]);
  expect_ok(ls_feature_ints(&place, &found[0], ints, 5, &count));
  assert_int_equal(count, 5);
  assert_true(ints[0] == 0 && ints[1] == -1 && ints[2] == 300 &&
              ints[3] == INT64_MIN && ints[4] == INT64_MAX);
  // Fewer than there are.
  ints[2] = 5;
  expect_ok(ls_feature_ints(&place, &found[0], ints, 2, &count));
  assert_int_equal(count, 5);
  assert_int_equal(ints[2], 5);
  ls_bytes words[3];
  expect_ok(ls_feature_bytes(&place, &found[2], words, 3, &count));
  assert_int_equal(count, 3);
  assert_int_equal(words[1].size, 0);
  assert_int_equal(words[2].size, 5);
  assert_memory_equal(words[2].data, "three", 5);
  float floats[3];
  expect_ok(ls_feature_floats(&place, &found[3], floats, 3, &count));
  assert_int_equal(count, 3);
  assert_true(floats[0] == 1 && floats[1] == -0.5f && floats[2] == 3e38f);
  expect_ok(ls_feature_ints(&place, &found[4], ints, 5, &count));
  assert_int_equal(count, 0);
  expect_status(
      ls_feature_floats(&place, &found[0], floats, 3, &count),
      LS_INVALID_ARGUMENT,
      "'f' record 7 at byte 100: feature 'ints' has integers, expected floats");
  place.name = names[1];
  expect_status(ls_feature_ints(&place, &found[1], ints, 3, &count),
                LS_INVALID_ARGUMENT,
                "feature 'absent' has no values, expected integers");
}

TEST(a_builder_begins_anew) {
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init, memory());
  char first[512];
  ls_bytes example = build(&builder);
  memcpy(first, example.data, example.size);
  const size_t size = example.size;
  example = build(&builder);
  assert_int_equal(example.size, size);
  assert_memory_equal(example.data, first, size);
  expect_ok(ls_example_end(&builder, &example));
  assert_int_equal(example.size, 2);  // A message without features.
}

// What TensorFlow 2.21 made of the same features.
static const unsigned char of_tensorflow[] = {
    10,  71,  10,  22,  10,  6,   102, 108, 111, 97,  116, 115, 18,  12,  18,
    10,  10,  8,   0,   0,   128, 63,  0,   0,   0,   191, 10,  25,  10,  4,
    105, 110, 116, 115, 18,  17,  26,  15,  10,  13,  3,   255, 255, 255, 255,
    255, 255, 255, 255, 255, 1,   172, 2,   10,  18,  10,  5,   119, 111, 114,
    100, 115, 18,  9,   10,  7,   10,  3,   111, 110, 101, 10,  0};

TEST(examples_are_built_as_tensorflow_does) {
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init, memory());
  const ls_bytes words[] = {NAME("one"), NAME("")};
  const float floats[] = {1, -0.5f};
  const int64_t ints[] = {3, -1, 300};
  ls_example_add_floats(&builder, "floats", floats, 2);
  ls_example_add_ints(&builder, "ints", ints, 3);
  ls_example_add_bytes(&builder, "words", words, 2);
  ls_bytes example;
  expect_ok(ls_example_end(&builder, &example));
  assert_int_equal(example.size, sizeof(of_tensorflow));
  assert_memory_equal(example.data, of_tensorflow, sizeof(of_tensorflow));
}

// ---- Other ways to write it ------------------------------------------------
static ls_feature find_one(const unsigned char *data, size_t size) {
  const ls_bytes name = NAME("a");
  ls_feature found;
  expect_ok(ls_example_find(&where, data, size, &name, 1, &found));
  return found;
}

TEST(numbers_need_not_be_packed) {
  const ls_feature_place place = {&where, "", NAME("a")};
  int64_t ints[4];
  float floats[2];
  size_t count = 0;
  // 5, then 6 and 7 packed.
  ls_feature found = {LS_FEATURE_INTS, LITERAL(8, 5, 10, 2, 6, 7)};
  expect_ok(ls_feature_ints(&place, &found, ints, 4, &count));
  assert_int_equal(count, 3);
  assert_true(ints[0] == 5 && ints[1] == 6 && ints[2] == 7);
  found = (ls_feature){LS_FEATURE_FLOATS,
                       LITERAL(13, 0, 0, 128, 63, 13, 0, 0, 0, 64)};
  expect_ok(ls_feature_floats(&place, &found, floats, 2, &count));
  assert_int_equal(count, 2);
  assert_true(floats[0] == 1 && floats[1] == 2);
}

TEST(fields_that_nobody_knows_are_passed_over) {
  // Field 5 of each type, around and inside an entry.
  const ls_feature found =
      find_one(LITERAL(42, 1, 0, 40, 1,                     //
                       10, 25, 41, 0, 0, 0, 0, 0, 0, 0, 0,  // 9 bytes of 25.
                       10, 14, 45, 0, 0, 0, 0, 10, 1, 'a',  // 8 of 14.
                       18, 4, 26, 2, 8, 9));
  assert_int_equal(found.kind, LS_FEATURE_INTS);
  assert_int_equal(found.size, 2);
}

TEST(the_last_of_a_name_counts) {
  const ls_feature found =
      find_one(LITERAL(10, 11, 10, 9, 10, 1, 'a', 18, 4, 26, 2, 8, 9,  //
                       10, 9, 10, 7, 10, 1, 'a', 18, 2, 10, 0));
  assert_int_equal(found.kind, LS_FEATURE_BYTES);
  assert_int_equal(found.size, 0);
  // A feature without a list is no feature.
  assert_int_equal(find_one(LITERAL(10, 7, 10, 5, 10, 1, 'a', 18, 0)).kind,
                   LS_FEATURE_ABSENT);
  assert_int_equal(find_one(LITERAL(10, 5, 10, 3, 10, 1, 'a')).kind,
                   LS_FEATURE_ABSENT);
  assert_int_equal(find_one(NULL, 0).kind, LS_FEATURE_ABSENT);
}

typedef struct bad_example {
  const char *what;
  const unsigned char *data;
  size_t size;
} bad_example;

TEST(what_is_no_example_is_told_with_its_byte) {
  static const char *const is_none = "'f' record 7 is no tf.Example: ";
  const bad_example rows[] = {
      {"a field's number is wrong at byte 100", LITERAL(0)},
      {"a field's number is wrong at byte 100", LITERAL(0x80)},
      {"a number is cut off or too long at byte 100", LITERAL(8, 0x80)},
      {"a number is cut off or too long at byte 100",
       LITERAL(8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2)},
      {"a number is cut off at byte 100", LITERAL(9, 1, 2)},
      {"a number is cut off at byte 100", LITERAL(13, 1, 2)},
      {"a field is longer than its message at byte 100", LITERAL(10, 2, 0)},
      {"a field is longer than its message at byte 102",
       LITERAL(10, 3, 10, 4, 0)},
      {"a field has an unknown wire type at byte 100", LITERAL(11)},
      {"a feature has two lists of one kind at byte 111",
       LITERAL(10, 11, 10, 9, 10, 1, 'a', 18, 4, 26, 0, 26, 0)},
      {"an entry has two features at byte 109",
       LITERAL(10, 9, 10, 7, 10, 1, 'a', 18, 0, 18, 0)},
  };
  const ls_bytes name = NAME("a");
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_feature found;
    ls_status status =
        ls_example_find(&where, rows[i].data, rows[i].size, &name, 1, &found);
    expect_contains(ls_status_message(status), is_none);
    expect_status(status, LS_DATA_LOSS, rows[i].what);
  }
}

TEST(lists_that_are_damaged_are_told) {
  const unsigned char bytes[] = {10, 3, 1, 2, 3, 9, 1};
  const ls_feature_place place = {&where, bytes, NAME("a")};
  ls_feature found = {LS_FEATURE_FLOATS, bytes, 5};
  float one;
  int64_t integer;
  size_t count;
  expect_status(ls_feature_floats(&place, &found, &one, 1, &count),
                LS_DATA_LOSS, "a float has another size at byte 100");
  found = (ls_feature){LS_FEATURE_INTS, bytes, 7};
  expect_status(ls_feature_ints(&place, &found, &integer, 1, &count),
                LS_DATA_LOSS, "a number is cut off at byte 105");
  const unsigned char cut[] = {10, 1, 0x80};
  found = (ls_feature){LS_FEATURE_INTS, cut, 3};
  const ls_feature_place other = {&where, cut, NAME("a")};
  expect_status(ls_feature_ints(&other, &found, &integer, 1, &count),
                LS_DATA_LOSS, "a number is cut off or too long at byte 102");
}

// ---- Visiting --------------------------------------------------------------
static ls_status note(void *user, ls_bytes name, const ls_feature *feature) {
  ls_text_append_bytes(user, name.data, name.size);
  ls_text_append_format(user, ":%s;", ls_feature_kind_name(feature->kind));
  return ls_ok();
}

TEST(all_features_are_visited) {
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init, memory());
  const ls_bytes example = build(&builder);
  LS_OWN_BEGUN(ls_text, seen, ls_text_init, memory());
  expect_ok(ls_example_visit(&where, example.data, example.size, note, &seen));
  assert_string_equal(ls_text_data(&seen),
                      "words:bytes;floats:floats;ints:integers;none:integers;");
}

MEMORY_TEST(build_an_example) {
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init, memory());
  const ls_bytes word = NAME("word");
  ls_example_add_bytes(&builder, "a", &word, 1);
  const float number = 1;
  ls_example_add_floats(&builder, "b", &number, 1);
  ls_bytes example;
  const ls_status status = ls_example_end(&builder, &example);
  if (ls_status_is_ok(status)) assert_int_equal(example.size, 32);
  return status;
}
