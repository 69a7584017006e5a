// SPDX-License-Identifier: Apache-2.0
#include "base/values/nest_builder.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "support/fault.h"

static void expect_print(ls_nest nest, const char *want) {
  char text[300];
  assert_string_equal(ls_nest_print(nest, text, sizeof(text)), want);
  ls_nest_release(nest);
}

TEST(a_builder_makes_lists_and_tuples_of_any_length) {
  LS_OWN(ls_nest_builder, builder) = {0};
  expect_print(ls_nest_builder_finish(&builder, LS_KIND_LIST), "[]");
  assert_true(ls_nest_builder_append(&builder, ls_nest_i64(1)));
  assert_true(ls_nest_builder_append(&builder, ls_none()));
  expect_print(ls_nest_builder_finish(&builder, LS_KIND_TUPLE), "(1, none)");
  for (int64_t i = 0; i < 1000; ++i)
    assert_true(ls_nest_builder_append(&builder, ls_nest_i64(i)));
  LS_OWN(ls_nest, many) = ls_nest_builder_finish(&builder, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(many), 1000);
  assert_int_equal(ls_nest_item(many, 999).as.i64, 999);
}

TEST(names_make_dicts_and_named_tuples) {
  LS_OWN(ls_nest_builder, builder) = {.tag = "pair"};
  char name[8];
  for (int i = 0; i < 2; ++i) {
    snprintf(name, sizeof(name), "x%d", i);
    ls_nest_builder_append_named(&builder, name, ls_nest_i64(i));
  }
  const ls_nest pair = ls_nest_builder_finish(&builder, LS_KIND_TUPLE);
  assert_string_equal(ls_nest_tag(pair), "pair");
  assert_string_equal(ls_nest_key(pair, 1), "x1");
  ls_nest_release(pair);
  ls_nest_builder_append_named(&builder, "b", ls_nest_i64(1));
  ls_nest_builder_append_named(&builder, "a", ls_nest_i64(2));
  const ls_nest dict = ls_nest_builder_finish(&builder, LS_KIND_DICT);
  assert_string_equal(ls_nest_key(dict, 0), "b");
  assert_int_equal(ls_nest_find(dict, "a").as.i64, 2);
  ls_nest_release(dict);
  LS_OWN(ls_nest, empty) = ls_nest_builder_finish(&builder, LS_KIND_DICT);
  assert_int_equal(empty.kind, LS_KIND_DICT);
  assert_int_equal(ls_nest_count(empty), 0);
}

static void expect_failed(ls_nest nest, ls_code code, const char *part) {
  expect_status(ls_nest_status(nest), code, part);
  ls_nest_release(nest);
}

TEST(the_first_failure_sticks_until_the_end) {
  LS_OWN(ls_nest_builder, builder) = {0};
  assert_true(ls_nest_builder_append(&builder, LS_LIST(ls_nest_i64(1))));
  assert_false(
      ls_nest_builder_append(&builder, LS_FAIL(LS_NOT_FOUND, "the first")));
  assert_false(
      ls_nest_builder_append(&builder, LS_FAIL(LS_INTERNAL, "the second")));
  assert_false(ls_nest_builder_append(&builder, LS_LIST(ls_nest_i64(2))));
  expect_failed(ls_nest_builder_finish(&builder, LS_KIND_LIST), LS_NOT_FOUND,
                "the first");
  expect_print(ls_nest_builder_finish(&builder, LS_KIND_LIST), "[]");
}

TEST(what_a_nest_refuses_its_builder_refuses) {
  LS_OWN(ls_nest_builder, builder) = {0};
  ls_nest_builder_append_named(&builder, "a", ls_none());
  ls_nest_builder_append_named(&builder, "a", LS_LIST(ls_nest_i64(1)));
  expect_failed(ls_nest_builder_finish(&builder, LS_KIND_DICT),
                LS_INVALID_ARGUMENT, "key 'a' is given twice");
  ls_nest_builder_append(&builder, LS_LIST(ls_nest_i64(1)));
  ls_nest_builder_append_named(&builder, "a", ls_none());
  expect_failed(ls_nest_builder_finish(&builder, LS_KIND_DICT),
                LS_INVALID_ARGUMENT, "the key of item 0 of 2 is NULL");
  ls_nest_builder_append(&builder, LS_LIST(ls_nest_i64(1)));
  expect_failed(ls_nest_builder_finish(&builder, LS_KIND_SCALAR),
                LS_INVALID_ARGUMENT, "it is a list or a tuple");
}

TEST(an_unfinished_builder_drops_its_items) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &array));
  {
    LS_OWN(ls_nest_builder, builder) = {0};
    ls_nest_builder_append_named(&builder, "x",
                                 ls_nest_array(ls_array_retain(array)));
  }
  assert_true(ls_object_is_unique(array));
}

MEMORY_TEST(build_a_nest) {
  LS_OWN(ls_nest_builder, outer) = {.tag = "outer"};
  for (int i = 0; i < 20; ++i) {
    LS_OWN(ls_nest_builder, inner) = {0};
    ls_nest_builder_append(&inner, ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2)));
    char name[8];
    snprintf(name, sizeof(name), "%d", i);
    ls_nest_builder_append_named(&outer, name,
                                 ls_nest_builder_finish(&inner, LS_KIND_LIST));
  }
  LS_OWN(ls_nest, made) = ls_nest_builder_finish(&outer, LS_KIND_DICT);
  return ls_nest_status(made);
}
