// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nest.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "base/values/nest_internal.h"
#include "support/fault.h"

static ls_nest array_leaf(void) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &array));
  return ls_nest_array(array);
}

static ls_nest tensor_leaf(uint64_t ref) {
  return ls_leaf((ls_tensor){.graph = NULL, .ref = ref});
}

// {'b': (1, 2.5), 'a': [true, none]}
static ls_nest sample(void) {
  const char *keys[] = {"b", "a"};
  const ls_nest items[] = {LS_TUPLE(ls_nest_i64(1), ls_nest_f64(2.5)),
                           LS_LIST(ls_nest_bool(true), ls_none())};
  return ls_nest_dict("", keys, items, 2);
}

static void expect_print(ls_nest nest, const char *want) {
  char text[300];
  assert_string_equal(ls_nest_print(nest, text, sizeof(text)), want);
}

// Expects a failed nest, and releases it.
static void expect_failed(ls_nest nest, ls_code code, const char *part) {
  assert_true(ls_nest_is_failed(nest));
  expect_status(ls_nest_status(nest), code, part);
  ls_nest_release(nest);
}

// ---- Leaves ----------------------------------------------------------------
TEST(a_nest_is_24_bytes) {
  assert_int_equal(sizeof(ls_nest), 24);
  const ls_nest zero = {0};
  assert_int_equal(zero.kind, LS_KIND_NONE);
}

TEST(leaves_hold_what_they_are_given) {
  assert_int_equal(ls_nest_i64(-7).as.i64, -7);
  assert_int_equal(ls_nest_i64(-7).dtype, LS_DTYPE_I64);
  assert_true(ls_nest_f64(0.5).as.f64 == 0.5);
  assert_int_equal(ls_nest_bool(true).dtype, LS_DTYPE_BOOL);
  assert_int_equal(ls_nest_bool(true).as.bits, 1);
  const ls_nest op = ls_nest_op((ls_op){.id = 3});
  assert_int_equal(op.kind, LS_KIND_OP);
  LS_OWN(ls_nest, array) = array_leaf();
  assert_int_equal(ls_array_num_elements(ls_nest_as_array(array)), 2);
  assert_null(ls_nest_as_array(op));
}

TEST(nothing_is_no_leaf) {
  expect_failed(ls_nest_array(NULL), LS_INVALID_ARGUMENT, "no array");
  expect_failed(ls_nest_object(LS_KIND_OBJECT, NULL), LS_INVALID_ARGUMENT,
                "no object");
  const ls_nest array = array_leaf();
  expect_failed(ls_nest_object(LS_KIND_LIST, array.as.ref), LS_INVALID_ARGUMENT,
                "array");  // Taken over all the same.
}

TEST(the_tensor_of_a_leaf_or_item_is_found) {
  LS_OWN(ls_nest, nest) = LS_TUPLE(ls_none(), tensor_leaf(5));
  assert_int_equal(ls_nest_tensor(nest, 1).ref, 5);
  assert_int_equal(ls_nest_tensor(nest, 0).ref, 0);
  assert_int_equal(ls_nest_tensor(nest, 9).ref, 0);
  assert_int_equal(ls_nest_tensor(tensor_leaf(6), 0).ref, 6);
  assert_int_equal(ls_nest_tensor(tensor_leaf(6), 1).ref, 0);
}

TEST(failing_carries_a_status) {
  const ls_nest failed = LS_FAIL(LS_NOT_FOUND, "no %s", "loss");
  assert_true(ls_nest_is_failed(failed));
  expect_status(ls_nest_status(failed), LS_NOT_FOUND, "no loss");
  expect_status(ls_nest_status(failed), LS_NOT_FOUND, "no loss");
  const ls_nest second = ls_nest_retain(failed);
  ls_nest_release(failed);
  expect_failed(second, LS_NOT_FOUND, "no loss");
  expect_ok(ls_nest_status(ls_none()));
  expect_failed(ls_fail(ls_ok()), LS_INTERNAL, "without a status");
  // Without memory there is no holder; this is what is left.
  const ls_nest bare = {.kind = LS_KIND_FAILED};
  expect_failed(ls_nest_retain(bare), LS_RESOURCE_EXHAUSTED, "");
}

// ---- Nodes -----------------------------------------------------------------
TEST(nodes_own_their_items) {
  LS_OWN(ls_nest, array) = ls_nest_retain(array_leaf());
  const ls_nest list = LS_LIST(array, ls_nest_i64(1));
  assert_false(ls_array_is_unique(ls_nest_as_array(array)));
  const ls_nest again = ls_nest_retain(list);
  ls_nest_release(list);
  assert_false(ls_array_is_unique(ls_nest_as_array(array)));
  ls_nest_release(again);
  assert_true(ls_array_is_unique(ls_nest_as_array(array)));
}

TEST(sequences_have_items_but_no_keys) {
  const ls_nest list = LS_LIST(ls_nest_i64(4), ls_nest_i64(5));
  assert_true(ls_nest_is_node(list));
  assert_int_equal(ls_nest_count(list), 2);
  assert_int_equal(ls_nest_item(list, 1).as.i64, 5);
  assert_int_equal(ls_nest_item(list, 2).kind, LS_KIND_NONE);
  assert_null(ls_nest_key(list, 0));
  assert_string_equal(ls_nest_tag(list), "");
  assert_int_equal(ls_nest_find(list, "x").kind, LS_KIND_NONE);
  ls_nest_release(list);
  const ls_nest empty = ls_nest_sequence(LS_KIND_TUPLE, NULL, 0);
  assert_int_equal(empty.kind, LS_KIND_TUPLE);
  assert_int_equal(ls_nest_count(empty), 0);
  ls_nest_release(empty);
  assert_int_equal(ls_nest_count(ls_nest_i64(1)), 0);
  expect_failed(ls_nest_sequence(LS_KIND_DICT, NULL, 0), LS_INVALID_ARGUMENT,
                "a list or a tuple");
}

TEST(dicts_keep_the_given_order_and_find_by_key) {
  char key[] = "zeta";
  const char *keys[] = {key, "alpha", "mid", ""};
  const ls_nest items[] = {ls_nest_i64(0), ls_nest_i64(1), ls_nest_i64(2),
                           ls_nest_i64(3)};
  LS_OWN(ls_nest, dict) = ls_nest_dict("ordered", keys, items, 4);
  key[0] = 'X';  // Keys are copied.
  assert_string_equal(ls_nest_key(dict, 0), "zeta");
  assert_string_equal(ls_nest_key(dict, 2), "mid");
  assert_null(ls_nest_key(dict, 4));
  assert_string_equal(ls_nest_tag(dict), "ordered");
  assert_int_equal(ls_nest_find(dict, "zeta").as.i64, 0);
  assert_int_equal(ls_nest_find(dict, "alpha").as.i64, 1);
  assert_int_equal(ls_nest_find(dict, "mid").as.i64, 2);
  assert_int_equal(ls_nest_find(dict, "").as.i64, 3);
  assert_int_equal(ls_nest_find(dict, "beta").kind, LS_KIND_NONE);
  assert_int_equal(ls_nest_item_sorted(dict, 0).as.i64, 3);
  assert_int_equal(ls_nest_item_sorted(dict, 3).as.i64, 0);
}

TEST(named_tuples_are_tuples_with_names) {
  const char *names[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2)};
  LS_OWN(ls_nest, tuple) = ls_nest_named_tuple("metrics", names, items, 2);
  assert_int_equal(tuple.kind, LS_KIND_TUPLE);
  assert_string_equal(ls_nest_tag(tuple), "metrics");
  assert_string_equal(ls_nest_key(tuple, 1), "accuracy");
  assert_true(ls_nest_find(tuple, "accuracy").as.f64 == 2);
  // Flattened by position, not by name.
  ls_nest leaves[2];
  assert_int_equal(ls_nest_flatten(tuple, leaves, 2), 2);
  assert_true(leaves[0].as.f64 == 1);
}

TEST(a_key_given_twice_is_refused) {
  const char *keys[] = {"a", "b", "a"};
  const ls_nest items[] = {array_leaf(), array_leaf(), array_leaf()};
  expect_failed(ls_nest_dict("", keys, items, 3), LS_INVALID_ARGUMENT,
                "key 'a' is given twice");
  const ls_nest more[] = {array_leaf(), array_leaf(), array_leaf()};
  expect_failed(ls_nest_named_tuple("", keys, more, 3), LS_INVALID_ARGUMENT,
                "named tuple");
}

TEST(a_failed_item_makes_the_node_failed) {
  const ls_nest nest =
      LS_LIST(array_leaf(), LS_TUPLE(LS_FAIL(LS_ABORTED, "first")),
              LS_FAIL(LS_INTERNAL, "second"));
  expect_failed(nest, LS_ABORTED, "first");
}

TEST(nests_too_deep_for_a_fiber_are_refused) {
  ls_nest nest = array_leaf();
  for (int i = 0; i < LS_NEST_MAX_DEPTH; ++i) {
    nest = i % 2 == 0 ? LS_LIST(nest) : LS_TUPLE(ls_none(), nest);
    assert_false(ls_nest_is_failed(nest));
  }
  expect_failed(LS_LIST(nest), LS_INVALID_ARGUMENT, "more than 256 levels");
}

TEST(a_value_that_is_not_distributed_is_every_replicas) {
  LS_OWN(ls_nest, list) = LS_LIST(ls_nest_i64(3), ls_none());
  for (size_t r = 0; r < 3; ++r) {
    assert_true(ls_nest_number(ls_distributed_component(ls_nest_i64(7), r)) ==
                7);
    assert_true(ls_nest_is_same(ls_distributed_component(list, r), list));
    assert_true(ls_distributed_component(ls_none(), r).kind == LS_KIND_NONE);
  }
  ls_nest two[] = {ls_nest_i64(1), ls_nest_i64(2)};
  LS_OWN(ls_nest, parts) = ls_nest_distributed(LS_PER_REPLICA, two, 2);
  assert_true(ls_nest_number(ls_distributed_component(parts, 1)) == 2);
  assert_true(ls_distributed_component(parts, 2).kind == LS_KIND_NONE);
}

TEST(distributed_values_are_levels_too) {
  ls_nest nest = array_leaf();
  for (int i = 0; i < LS_NEST_MAX_DEPTH; ++i) {
    nest = i % 2 == 0 ? ls_nest_distributed(LS_PER_REPLICA, &nest, 1)
                      : LS_TUPLE(ls_none(), nest);
    assert_false(ls_nest_is_failed(nest));
  }
  expect_failed(LS_LIST(ls_nest_retain(nest)), LS_INVALID_ARGUMENT,
                "more than 256 levels");
  expect_failed(ls_nest_distributed(LS_MIRRORED, &nest, 1), LS_INVALID_ARGUMENT,
                "more than 256 levels");
}

// ---- Whole trees -----------------------------------------------------------
TEST(flattening_visits_sorted_keys) {
  LS_OWN(ls_nest, nest) = sample();
  assert_int_equal(ls_nest_num_leaves(nest), 4);
  ls_nest leaves[4];
  assert_int_equal(ls_nest_flatten(nest, leaves, 4), 4);
  assert_true(leaves[0].dtype == LS_DTYPE_BOOL);
  assert_int_equal(leaves[1].kind, LS_KIND_NONE);
  assert_int_equal(leaves[2].as.i64, 1);
  assert_true(leaves[3].as.f64 == 2.5);
  // Short of room: as many as fit, and still the number there is.
  ls_nest few[2] = {{0}};
  assert_int_equal(ls_nest_flatten(nest, few, 1), 4);
  assert_true(few[0].dtype == LS_DTYPE_BOOL);
  assert_int_equal(few[1].kind, LS_KIND_NONE);
  assert_int_equal(ls_nest_flatten(ls_nest_i64(9), leaves, 4), 1);
  assert_int_equal(leaves[0].as.i64, 9);
}

TEST(packing_undoes_flattening) {
  LS_OWN(ls_nest, nest) = sample();
  ls_nest leaves[4];
  for (int i = 0; i < 4; ++i)
    leaves[i] = ls_nest_i64(i);
  const ls_nest packed = ls_nest_pack(nest, leaves, 4);
  expect_print(packed, "{'b': (2, 3), 'a': [0, 1]}");
  expect_ok(ls_nest_same_structure(nest, packed));
  ls_nest_release(packed);
  expect_failed(ls_nest_pack(nest, leaves, 3), LS_INVALID_ARGUMENT,
                "3 leaves for a nest that has 4");
  const ls_nest bad[] = {array_leaf(), LS_FAIL(LS_ABORTED, "stop"),
                         array_leaf(), array_leaf()};
  expect_failed(ls_nest_pack(nest, bad, 4), LS_ABORTED, "stop");
  const ls_nest lone = ls_nest_pack(ls_none(), leaves + 2, 1);
  assert_int_equal(lone.as.i64, 2);
}

static ls_nest twice(ls_nest leaf, void *user) {
  ++*(int *)user;
  if (leaf.kind == LS_KIND_NONE) return ls_none();
  if (leaf.dtype == LS_DTYPE_F64) return LS_FAIL(LS_UNIMPLEMENTED, "f64");
  return LS_LIST(ls_nest_retain(leaf), ls_nest_retain(leaf));
}

TEST(mapping_puts_new_leaves_and_stops_at_a_failure) {
  int calls = 0;
  const ls_nest list = LS_LIST(ls_nest_i64(1), LS_TUPLE(array_leaf()));
  const ls_nest mapped = ls_nest_map(list, twice, &calls);
  expect_print(mapped, "[[1, 1], ([f32[2] [0, 0], f32[2] [0, 0]],)]");
  assert_int_equal(calls, 2);
  ls_nest_release(mapped);
  ls_nest_release(list);
  calls = 0;
  LS_OWN(ls_nest, bad) = LS_LIST(array_leaf(), ls_nest_f64(1), array_leaf());
  expect_failed(ls_nest_map(bad, twice, &calls), LS_UNIMPLEMENTED, "f64");
  assert_int_equal(calls, 2);
}

static void expect_differ(ls_nest a, ls_nest b, const char *part) {
  expect_status(ls_nest_same_structure(a, b), LS_INVALID_ARGUMENT, part);
  ls_nest_release(a);
  ls_nest_release(b);
}

TEST(structures_are_compared_with_the_place_named) {
  const char *ab[] = {"a", "b"};
  const char *ba[] = {"b", "a"};
  const char *ac[] = {"a", "c"};
  const ls_nest two[] = {ls_nest_i64(1), ls_nest_i64(2)};
  const ls_nest nested[] = {ls_nest_i64(1), LS_TUPLE(ls_none())};
  const ls_nest listed[] = {ls_nest_i64(1), LS_LIST(ls_none())};
  expect_differ(LS_LIST(ls_none()), LS_TUPLE(ls_none()),
                "at the root: a list of 1 against a tuple of 1");
  expect_differ(LS_LIST(ls_none()), LS_LIST(ls_none(), ls_none()),
                "a list of 1 against a list of 2");
  expect_differ(LS_LIST(ls_none(), LS_TUPLE(ls_none())),
                LS_LIST(ls_none(), ls_none()),
                "at [1]: a tuple of 1 against a leaf");
  expect_differ(ls_nest_dict("", ab, nested, 2),
                ls_nest_dict("", ab, listed, 2), "at ['b']: a tuple");
  expect_differ(ls_nest_dict("", ab, two, 2), ls_nest_dict("", ac, two, 2),
                "keys a, b against a dict with keys a, c");
  expect_differ(ls_nest_named_tuple("", ab, two, 2),
                ls_nest_sequence(LS_KIND_TUPLE, two, 2),
                "a named tuple with fields a, b against a tuple of 2");
  expect_differ(LS_LIST(ls_nest_named_tuple("", ab, two, 2)),
                LS_LIST(ls_nest_named_tuple("", ac, two, 2)), "at [0]");
  expect_differ(ls_nest_dict("", NULL, NULL, 0), ls_none(),
                "with keys none against a leaf");
  // The order in which a dict was given does not count, leaves neither.
  const ls_nest a = ls_nest_dict("", ab, two, 2);
  const ls_nest b = ls_nest_dict("tagged", ba, two, 2);
  expect_ok(ls_nest_same_structure(a, b));
  ls_nest_release(a);
  ls_nest_release(b);
  expect_ok(ls_nest_same_structure(ls_none(), tensor_leaf(3)));
}

TEST(sameness_is_identity) {
  assert_true(ls_nest_is_same(ls_none(), ls_none()));
  assert_true(ls_nest_is_same(ls_nest_i64(1), ls_nest_i64(1)));
  assert_false(ls_nest_is_same(ls_nest_i64(1), ls_nest_bool(true)));
  assert_false(ls_nest_is_same(ls_nest_f64(0.0), ls_nest_f64(-0.0)));
  assert_true(ls_nest_is_same(tensor_leaf(3), tensor_leaf(3)));
  assert_false(ls_nest_is_same(tensor_leaf(3), tensor_leaf(4)));
  assert_false(ls_nest_is_same(ls_nest_op((ls_op){.id = 1}),
                               ls_nest_op((ls_op){.id = 2})));
  LS_OWN(ls_nest, a) = array_leaf();
  LS_OWN(ls_nest, b) = array_leaf();
  assert_true(ls_nest_is_same(a, a));
  assert_false(ls_nest_is_same(a, b));
}

// ---- Printing --------------------------------------------------------------
static const ls_object_type silent_type = {.name = "iterator"};

TEST(every_kind_prints) {
  const ls_nest nest = sample();
  expect_print(nest, "{'b': (1, 2.5), 'a': [true, none]}");
  ls_nest_release(nest);
  expect_print(ls_nest_f64(3), "3.0");
  expect_print(ls_nest_f64(0.1), "0.1");
  expect_print(ls_nest_f64(1.0 / 3), "0.3333333333333333");
  expect_print(ls_nest_f64(1e300), "1e+300");
  expect_print((ls_nest){.kind = LS_KIND_SCALAR,
                         .dtype = LS_DTYPE_U64,
                         .as.bits = UINT64_MAX},
               "18446744073709551615");
  expect_print(tensor_leaf(7 << LS_TENSOR_OUTPUT_BITS | 2), "tensor 7:2");
  expect_print(tensor_leaf(0), "failed tensor");
  expect_print(ls_nest_op((ls_op){.id = 12}), "op 12");
  ls_object object;
  ls_object_init(&object, &silent_type);
  expect_print(ls_nest_object(LS_KIND_OBJECT, &object), "iterator");
  const ls_nest failed = LS_FAIL(LS_ABORTED, "why");
  expect_print(failed, "failed ABORTED: why");
  ls_nest_release(failed);
  const char *names[] = {"x"};
  const ls_nest one[] = {ls_nest_i64(1)};
  const ls_nest named = ls_nest_named_tuple("point", names, one, 1);
  expect_print(named, "point(x=1)");
  char text[6];
  assert_string_equal(ls_nest_print(named, text, sizeof(text)), "point");
  ls_nest_release(named);
  LS_OWN(ls_nest, lone) = LS_TUPLE(ls_none());
  expect_print(lone, "(none,)");
}

TEST(many_keys_are_sorted) {
  enum { COUNT = 500 };
  static char names[COUNT][8];
  static const char *keys[COUNT];
  static ls_nest items[COUNT];
  for (int i = 0; i < COUNT; ++i) {
    snprintf(names[i], sizeof(names[i]), "%03d", i * 7 % COUNT);
    keys[i] = names[i];
    items[i] = ls_nest_i64(i * 7 % COUNT);
  }
  LS_OWN(ls_nest, dict) = ls_nest_dict("", keys, items, COUNT);
  for (size_t i = 0; i < COUNT; ++i) {
    assert_int_equal(ls_nest_item_sorted(dict, i).as.i64, i);
    assert_true(ls_nest_find(dict, keys[i]).as.i64 == items[i].as.i64);
  }
}

// ---- Failing memory --------------------------------------------------------
static ls_nest retained(ls_nest leaf, void *user) {
  (void)user;
  return ls_nest_retain(leaf);
}

MEMORY_TEST(map_a_nest) {
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array));
  const char *keys[] = {"b", "a"};
  const ls_nest items[] = {LS_TUPLE(ls_nest_array(array), ls_none()),
                           LS_LIST(ls_nest_i64(1))};
  LS_OWN(ls_nest, nest) = ls_nest_dict("", keys, items, 2);
  LS_OWN(ls_nest, mapped) = ls_nest_map(nest, retained, NULL);
  return ls_nest_status(mapped);
}

TEST(a_new_array_is_filled_where_it_hangs) {
  const ls_nest nest = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2)),
                                ls_nest_zeros(LS_DTYPE_F64, LS_SCALAR),
                                ls_nest_i64(-3), ls_nest_f64(0.5));
  expect_ok(ls_nest_status(nest));
  float *first = ls_nest_data(nest, 0);
  assert_true(first[0] == 0 && first[1] == 0);
  *(double *)ls_nest_data(nest, 1) = 4;
  assert_true(ls_nest_number(ls_nest_item(nest, 1)) == 4);
  assert_true(ls_nest_data(ls_nest_item(nest, 0), 0) == first);
  assert_null(ls_nest_data(nest, 2));
  assert_null(ls_nest_data(nest, 9));
  assert_true(ls_nest_number(ls_nest_item(nest, 2)) == -3);
  assert_true(ls_nest_number(ls_nest_item(nest, 3)) == 0.5);
  const double two = ls_nest_number(ls_nest_item(nest, 0));
  assert_true(two != two);
  ls_nest_release(nest);
  LS_OWN(ls_nest, failed) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(-1)),
                                     ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2)));
  expect_status(ls_nest_status(failed), LS_INVALID_ARGUMENT, "");
}
