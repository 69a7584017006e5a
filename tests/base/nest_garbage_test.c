// SPDX-License-Identifier: Apache-2.0
//
// Nests of nothing are failed nests.
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/distributed.h"
#include "support/expect.h"

static void expect_failed(ls_nest nest, const char *part) {
  expect_status(ls_nest_status(nest), LS_INVALID_ARGUMENT, part);
  ls_nest_release(nest);
}

static ls_nest fail_leaf(ls_nest leaf, void *user) {
  (void)user;
  return ls_nest_retain(leaf);
}

TEST(a_nest_of_null_items_or_keys_is_failed) {
  const ls_nest items[] = {ls_nest_i64(1), ls_nest_i64(2)};
  const char *const keys[] = {"a", NULL};
  expect_failed(ls_nest_sequence(LS_KIND_LIST, NULL, 2), "2 items at NULL");
  expect_failed(ls_nest_sequence((ls_kind)99, NULL, 2), "kind 99");
  expect_failed(ls_nest_dict("", NULL, items, 2), "the key of item 0 of 2");
  expect_failed(ls_nest_dict("", keys, items, 2), "the key of item 1 of 2");
  expect_failed(ls_nest_dict("", keys, NULL, 1), "1 items at NULL");
  expect_failed(ls_nest_named_tuple("t", keys, items, 2),
                "the name of field 1 of 2");
  expect_failed(ls_nest_named_tuple("t", NULL, items, 1),
                "the name of field 0 of 1");
  expect_failed(ls_nest_distributed(LS_PER_REPLICA, NULL, 2),
                "2 components at NULL");
  expect_failed(ls_nest_array(NULL), "no array");
  expect_failed(ls_nest_object(LS_KIND_OBJECT, NULL), "no object");
}

TEST(walks_without_a_function_or_leaves_are_failed) {
  LS_OWN(ls_nest, list) = LS_LIST(ls_nest_i64(1), ls_nest_i64(2));
  expect_failed(ls_nest_map(list, NULL, NULL), "function of leaves is NULL");
  expect_failed(ls_nest_pack(list, NULL, 2), "2 leaves at NULL");
  LS_OWN(ls_nest, same) = ls_nest_map(list, fail_leaf, NULL);
  assert_true(ls_nest_number(ls_nest_item(same, 1)) == 2);
  assert_string_equal(ls_nest_print(list, NULL, 0), "");
  assert_int_equal(ls_nest_flatten(list, NULL, 0), 2);
}

TEST(a_key_at_null_is_not_found) {
  const char *const keys[] = {"a"};
  const ls_nest item = ls_nest_i64(1);
  LS_OWN(ls_nest, dict) = ls_nest_dict(NULL, keys, &item, 1);
  assert_int_equal(ls_nest_find(dict, NULL).kind, LS_KIND_NONE);
}
