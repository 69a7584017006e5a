// SPDX-License-Identifier: Apache-2.0
#include "lockstep/regroup.h"
#include "lockstep/variable_parts.h"

#include <string.h>

#include "distribute/own.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_nest number(double value) { return ls_nest_f64(value); }

// Regroups two nests, which are taken over.
static ls_nest regroup2(ls_nest a, ls_nest b, const ls_regroup_options *how) {
  ls_nest made = ls_none();
  const ls_nest both[] = {a, b};
  expect_ok(ls_regroup(both, 2, how, &made));
  ls_nest_release(a);
  ls_nest_release(b);
  return made;
}

static void expect_refused2(ls_nest a, ls_nest b, const char *says) {
  ls_nest made = ls_nest_f64(7);
  const ls_nest both[] = {a, b};
  expect_status(ls_regroup(both, 2, NULL, &made), LS_INVALID_ARGUMENT, says);
  assert_int_equal(made.kind, LS_KIND_NONE);
  ls_nest_release(a);
  ls_nest_release(b);
}

static ls_nest sum_all(const ls_nest *components, size_t count, void *user) {
  double sum = *(const double *)user;
  for (size_t i = 0; i < count; ++i)
    sum += ls_nest_number(components[i]);
  return ls_nest_f64(sum);
}

TEST(leaves_are_wrapped_as_asked) {
  LS_SPEC("V1");
  ls_nest made = regroup2(number(1), number(2), NULL);
  assert_int_equal(ls_distributed_kind_of(made), LS_PER_REPLICA);
  expect_numbers(made, (double[]){1, 2}, 2);
  ls_nest_release(made);
  made = regroup2(number(1), number(2),
                  &(ls_regroup_options){.kind = LS_MIRRORED});
  assert_int_equal(ls_distributed_kind_of(made), LS_MIRRORED);
  expect_numbers(made, (double[]){1, 2}, 2);
  ls_nest_release(made);
  double start = 10;
  made = regroup2(number(1), number(2),
                  &(ls_regroup_options){.wrap = sum_all, .wrap_user = &start});
  assert_true(ls_nest_number(made) == 13);
}

TEST(lists_are_regrouped_element_by_element) {
  LS_SPEC("V2");
  LS_OWN(ls_nest, made) = regroup2(LS_LIST(number(1), number(2)),
                                   LS_LIST(number(3), number(4)), NULL);
  assert_int_equal(made.kind, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(made), 2);
  expect_numbers(ls_nest_item(made, 0), (double[]){1, 3}, 2);
  expect_numbers(ls_nest_item(made, 1), (double[]){2, 4}, 2);
  expect_refused2(LS_LIST(number(1), number(2)), LS_LIST(number(3)),
                  "a list of 2: [1.0, 2.0]; replica 1 has a list of 1: [3.0]");
  expect_refused2(LS_LIST(number(1)), number(3), "a leaf");
}

TEST(tuples_match_tuples_only) {
  LS_SPEC("V3");
  expect_refused2(LS_LIST(number(1)), LS_TUPLE(number(2)), "a tuple of 1");
  expect_refused2(LS_TUPLE(number(1)), LS_LIST(number(2)), "a list of 1");
  expect_refused2(LS_TUPLE(number(1)), LS_TUPLE(number(2), number(3)),
                  "a tuple of 2");
  static const char *const names[] = {"x", "y"};
  static const char *const others[] = {"a", "b"};
  const ls_nest items[] = {number(1), number(2)};
  LS_OWN(ls_nest, made) =
      regroup2(ls_nest_named_tuple("point", names, items, 2),
               LS_TUPLE(number(3), number(4)), NULL);
  assert_string_equal(ls_nest_tag(made), "point");
  assert_string_equal(ls_nest_key(made, 1), "y");
  expect_numbers(ls_nest_item(made, 1), (double[]){2, 4}, 2);
  ls_nest_release(made);
  made = regroup2(ls_nest_named_tuple("point", names, items, 2),
                  ls_nest_named_tuple("pair", others, items, 2), NULL);
  assert_string_equal(ls_nest_tag(made), "point");
  assert_string_equal(ls_nest_key(made, 0), "x");
}

TEST(dicts_match_by_key) {
  LS_SPEC("V4");
  static const char *const ba[] = {"b", "a"}, *const ab[] = {"a", "b"};
  static const char *const ac[] = {"a", "c"};
  const ls_nest first[] = {number(1), number(2)};
  const ls_nest other[] = {number(3), number(4)};
  LS_OWN(ls_nest, made) = regroup2(ls_nest_dict("tag", ba, first, 2),
                                   ls_nest_dict("", ab, other, 2), NULL);
  assert_string_equal(ls_nest_tag(made), "tag");
  assert_string_equal(ls_nest_key(made, 0), "b");
  expect_numbers(ls_nest_find(made, "b"), (double[]){1, 4}, 2);
  expect_numbers(ls_nest_find(made, "a"), (double[]){2, 3}, 2);
  expect_refused2(ls_nest_dict("", ab, first, 2),
                  ls_nest_dict("", ac, other, 2),
                  "keys {'a', 'b'}, replica 1 one with keys {'a', 'c'}");
  expect_refused2(ls_nest_dict("", ab, first, 2), LS_LIST(number(1)),
                  "a list of 1");
}

TEST(structure_is_kept_at_any_depth) {
  LS_SPEC("V5");
  static const char *const k[] = {"k"};
  const ls_nest empty = ls_nest_sequence(LS_KIND_LIST, NULL, 0);
  const ls_nest a[] = {LS_TUPLE(number(1), ls_nest_retain(empty))};
  const ls_nest b[] = {LS_TUPLE(number(1), ls_nest_retain(empty))};
  ls_nest made =
      regroup2(ls_nest_dict("", k, a, 1), ls_nest_dict("", k, b, 1),
               &(ls_regroup_options){.kind = LS_MIRRORED, .always_wrap = true});
  const ls_nest inner = ls_nest_find(made, "k");
  expect_numbers(ls_nest_item(inner, 0), (double[]){1, 1}, 2);
  assert_int_equal(ls_distributed_kind_of(ls_nest_item(inner, 0)), LS_MIRRORED);
  assert_int_equal(ls_nest_item(inner, 1).kind, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(ls_nest_item(inner, 1)), 0);
  ls_nest_release(made);
  ls_nest_release(empty);
  expect_status(ls_regroup(NULL, 0, NULL, &made), LS_INVALID_ARGUMENT,
                "no replicas");
}

TEST(the_same_object_comes_back_unwrapped) {
  LS_SPEC("V6");
  const ls_tensor x = scalar_of(3), y = scalar_of(3);
  LS_OWN(ls_nest, made) = regroup2(ls_leaf(x), ls_leaf(x), NULL);
  assert_true(ls_nest_is_same(made, ls_leaf(x)));
  // Equal host scalars are one object, equal tensors two.
  made = regroup2(number(2), number(2), NULL);
  assert_int_equal(made.kind, LS_KIND_SCALAR);
  made = regroup2(number(0.0), number(-0.0), NULL);
  assert_int_equal(ls_distributed_count(made), 2);
  ls_nest_release(made);
  made = regroup2(ls_leaf(x), ls_leaf(y), NULL);
  assert_int_equal(ls_distributed_count(made), 2);
  ls_nest_release(made);
  LS_OWN(ls_nest, one) = LS_LIST(ls_leaf(x), number(1), ls_none());
  expect_ok(ls_regroup(&one, 1, NULL, &made));
  for (size_t i = 0; i < 3; ++i)
    assert_true(ls_nest_is_same(ls_nest_item(made, i), ls_nest_item(one, i)));
}

TEST(a_distributed_variable_is_never_wrapped_by_itself) {
  LS_SPEC("V7");
  static const ls_regroup_options always = {.always_wrap = true};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_nest, made) =
      regroup2(ls_nest_variable(v), ls_nest_variable(v), &always);
  assert_ptr_equal(ls_nest_as_variable(made), v);
  ls_nest_release(made);
  made = regroup2(number(4), number(4), &always);
  expect_numbers(made, (double[]){4, 4}, 2);
  ls_nest_release(made);
  const ls_nest one = number(5);
  expect_ok(ls_regroup(&one, 1, &always, &made));
  expect_numbers(made, (double[]){5}, 1);
}

static ls_nest component(ls_variable *v, size_t index) {
  return ls_nest_variable(ls_variable_component(v, index));
}

TEST(components_become_their_container) {
  LS_SPEC("V8 V9 V23");
  static const ls_regroup_options mirrored = {.kind = LS_MIRRORED,
                                              .always_wrap = true};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_variable, w) = variable_in(strategy, (variable_kind){.name = "w"});
  ls_nest made = regroup2(component(v, 0), component(v, 1), NULL);
  assert_ptr_equal(ls_nest_as_variable(made), v);
  ls_nest_release(made);
  // Whatever the wrapping, whichever components, and for one replica too.
  made = regroup2(component(v, 1), component(v, 1), &mirrored);
  assert_ptr_equal(ls_nest_as_variable(made), v);
  ls_nest_release(made);
  const ls_nest one = component(v, 1);
  expect_ok(ls_regroup(&one, 1, NULL, &made));
  assert_ptr_equal(ls_nest_as_variable(made), v);
  ls_nest_release(made);
  ls_nest_release(one);
  expect_refused2(component(v, 0), component(w, 1), "component of 'v'");
  expect_refused2(component(v, 0), number(1), "1.0 on replica 1");
  // Containers, and what is no component on replica 0, are wrapped.
  made = regroup2(ls_nest_variable(v), ls_nest_variable(w), NULL);
  assert_int_equal(ls_distributed_count(made), 2);
  assert_ptr_equal(ls_nest_as_variable(ls_distributed_component(made, 1)), w);
  ls_nest_release(made);
  made = regroup2(number(1), component(v, 1), NULL);
  assert_int_equal(ls_distributed_count(made), 2);
  ls_nest_release(made);
  // The link is there as long as the container is.
  LS_OWN(ls_nest, kept) = component(v, 0);
  assert_ptr_equal(ls_nest_as_variable(ls_value_container(kept)), v);
  const ls_nest whole = {.kind = LS_KIND_VARIABLE, .as.ref = v};
  assert_true(ls_nest_is_same(ls_value_container(whole), whole));
  assert_true(ls_nest_is_same(ls_value_container(number(1)), number(1)));
  ls_variable_release(v);
  assert_true(ls_nest_is_same(ls_value_container(kept), kept));
}

TEST(the_link_to_the_container_is_weak) {
  LS_SPEC("V24");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){.initial = 6});
  const ls_nest nest = LS_LIST(component(v, 1), number(1));
  ls_nest leaves[2];
  assert_int_equal(ls_nest_flatten(nest, leaves, 2), 2);
  ls_nest_retain(leaves[0]);
  LS_OWN(ls_nest, packed) = ls_nest_pack(nest, leaves, 2);
  assert_ptr_equal(
      ls_nest_as_variable(ls_value_container(ls_nest_item(packed, 0))), v);
  ls_nest_release(nest);
  ls_variable_release(v);  // The last reference, though a component lives on.
  const ls_nest alone = ls_nest_item(packed, 0);
  assert_true(ls_nest_is_same(ls_value_container(alone), alone));
  LS_OWN(ls_array, value) = variable_array(ls_nest_as_variable(alone));
  assert_true(ls_array_f64(value, 0) == 6);
}

TEST(what_a_write_gives_is_no_component) {
  LS_SPEC("V10");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  ls_tensor after[2];
  for (size_t i = 0; i < 2; ++i)
    after[i] = ls_variable_assign(ls_variable_component(v, i), scalar_of(2));
  LS_OWN(ls_nest, made) = regroup2(ls_leaf(after[0]), ls_leaf(after[1]),
                                   &(ls_regroup_options){.kind = LS_MIRRORED});
  assert_int_equal(ls_distributed_kind_of(made), LS_MIRRORED);
  expect_numbers(made, (double[]){2, 2}, 2);
}

TEST(none_on_some_replicas_is_a_leaf_that_differs) {
  LS_SPEC("V11");
  expect_refused2(number(1), LS_LIST(number(2)), "a list of 1");
  expect_refused2(ls_none(), LS_TUPLE(number(2)), "a tuple of 1");
  LS_OWN(ls_nest, made) = regroup2(ls_none(), number(2), NULL);
  assert_int_equal(ls_distributed_count(made), 2);
  assert_int_equal(ls_distributed_component(made, 0).kind, LS_KIND_NONE);
  assert_true(ls_nest_number(ls_distributed_component(made, 1)) == 2);
}

// ---- Selecting -------------------------------------------------------------
TEST(selecting_undoes_regrouping) {
  LS_SPEC("V12");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  const ls_nest parts[] = {LS_TUPLE(number(1), number(5), ls_nest_variable(v)),
                           LS_TUPLE(number(2), number(5), ls_nest_variable(v))};
  LS_OWN(ls_nest, together) = ls_none();
  expect_ok(ls_regroup(parts, 2, NULL, &together));
  for (int64_t r = 0; r < 2; ++r) {
    LS_OWN(ls_nest, selected) = ls_none();
    expect_ok(ls_select_replica(r, together, &selected));
    for (size_t i = 0; i < 3; ++i)
      assert_true(ls_nest_is_same(ls_nest_item(selected, i),
                                  ls_nest_item(parts[r], i)));
    ls_nest_release(parts[r]);
  }
  LS_OWN(ls_nest, mirrored) =
      distributed_numbers(LS_MIRRORED, (double[]){7, 8}, 2);
  ls_nest selected = ls_none();
  expect_ok(ls_select_replica(1, mirrored, &selected));
  assert_true(ls_nest_number(selected) == 8);
}

TEST(a_replica_that_is_not_there_is_out_of_range) {
  LS_SPEC("V13");
  LS_OWN(ls_nest, value) =
      LS_LIST(distributed_numbers(LS_PER_REPLICA, (double[]){7, 8}, 2));
  ls_nest selected = ls_none();
  expect_status(ls_select_replica(2, value, &selected), LS_OUT_OF_RANGE,
                "replica 2 of a distributed value with 2 components");
  expect_status(ls_select_replica(-1, value, &selected), LS_OUT_OF_RANGE,
                "replica -1");
}

TEST(only_mirrored_values_are_mirrored) {
  LS_SPEC("V14 V15");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_variable, sums) = variable_in(
      strategy, (variable_kind){.name = "sums",
                                .synchronization = LS_SYNCHRONIZATION_ON_READ});
  ls_nest good = LS_TUPLE(distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2),
                          number(3), ls_nest_variable(v));
  expect_ok(ls_assert_mirrored(good));
  ls_nest selected = ls_none();
  expect_ok(ls_select_replica_mirrored(1, good, &selected));
  assert_true(ls_nest_number(ls_nest_item(selected, 0)) == 2);
  ls_nest_release(selected);
  ls_nest_release(good);
  const ls_nest bad = LS_TUPLE(
      number(3), distributed_numbers(LS_PER_REPLICA, (double[]){1, 1}, 2));
  expect_status(ls_assert_mirrored(bad), LS_INVALID_ARGUMENT,
                "1: 1.0\n} is not mirrored, in (3.0, PerReplica:{");
  expect_status(ls_select_replica_mirrored(0, bad, &selected),
                LS_INVALID_ARGUMENT, "not mirrored");
  ls_nest_release(bad);
  LS_OWN(ls_nest, on_read) = ls_nest_variable(sums);
  expect_status(ls_assert_mirrored(on_read), LS_INVALID_ARGUMENT, "'sums'");
}

typedef struct visited {
  double order[4];
  size_t count;
} visited;

static ls_nest note(ls_nest leaf, void *user) {
  visited *v = user;
  v->order[v->count++] =
      leaf.kind == LS_KIND_DISTRIBUTED ? -1 : ls_nest_number(leaf);
  return ls_nest_retain(leaf);
}

TEST(mapping_keeps_kinds_and_visits_sorted_keys) {
  LS_SPEC("V16");
  static const char *const keys[] = {"b", "a"};
  static const char *const fields[] = {"x"};
  const ls_nest one[] = {number(2)};
  const ls_nest items[] = {
      LS_LIST(number(1)),
      LS_TUPLE(ls_nest_named_tuple("t", fields, one, 1),
               distributed_numbers(LS_PER_REPLICA, (double[]){8, 9}, 2))};
  LS_OWN(ls_nest, nest) = ls_nest_dict("", keys, items, 2);
  visited v = {0};
  LS_OWN(ls_nest, made) = ls_nest_map(nest, note, &v);
  assert_int_equal(v.count, 3);
  assert_true(v.order[0] == 2 && v.order[1] == -1 && v.order[2] == 1);
  expect_printed(made,
                 "{'b': [1.0], 'a': (t(x=2.0), PerReplica:{\n  0: 8.0,\n  1: "
                 "9.0\n})}");
}

// ---- Predicates ------------------------------------------------------------
TEST(predicates_are_about_rules) {
  LS_SPEC("V26 V28 V29");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_variable, sums) = variable_in(
      strategy, (variable_kind){.name = "sums",
                                .synchronization = LS_SYNCHRONIZATION_ON_READ});
  LS_OWN(ls_variable, plain) = NULL;
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32},
                               &plain));
  const struct {
    ls_nest leaf;
    bool distributed, mirrored;
  } cases[] = {
      {ls_nest_variable(v), true, true},
      {ls_nest_variable(sums), true, false},
      {ls_nest_variable(plain), false, false},
      {component(v, 0), false, false},
      {ls_leaf(scalar_of(1)), false, false},
      {number(1), false, false},
      {ls_none(), false, false},
      {distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2), false, true},
      {distributed_numbers(LS_PER_REPLICA, (double[]){1, 1}, 2), false, false},
  };
  // Of what they hold they say nothing.
  set_components(v, (double[]){1, 2}, 2);
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    assert_int_equal(ls_is_distributed_variable(cases[i].leaf),
                     cases[i].distributed);
    assert_int_equal(ls_is_mirrored(cases[i].leaf), cases[i].mirrored);
    assert_int_equal(ls_is_sync_on_read(cases[i].leaf), !cases[i].mirrored);
    ls_nest_release(cases[i].leaf);
  }
}

TEST(values_print_a_line_a_component) {
  LS_SPEC("V72");
  LS_OWN(ls_nest, value) =
      distributed_numbers(LS_PER_REPLICA, (double[]){1, 2.5}, 2);
  expect_printed(value, "PerReplica:{\n  0: 1.0,\n  1: 2.5\n}");
  LS_OWN(ls_nest, one) = distributed_numbers(LS_MIRRORED, (double[]){3}, 1);
  expect_printed(one, "Mirrored:{\n  0: 3.0\n}");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_nest, leaf) = ls_nest_variable(v);
  expect_printed(leaf, "MirroredVariable:{\n  0: variable 'v' f32[],\n  1: "
                       "variable 'v/replica_1' f32[]\n}");
}
