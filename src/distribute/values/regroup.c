// SPDX-License-Identifier: Apache-2.0
//
// Regroups the nests of all replicas: walks them together, and gives the result
// replica 0's structure.
#include "lockstep/regroup.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "graph/variables/variable.h"

typedef struct regrouping {
  const ls_regroup_options *options;
  ls_allocator *allocator;
  size_t count;
} regrouping;

static ls_nest regroup(const regrouping *how, const ls_nest *values);

// ---- Refusals --------------------------------------------------------------
static const char *kind_of(ls_nest nest) {
  switch (nest.kind) {
  case LS_KIND_LIST:
    return "a list";
  case LS_KIND_TUPLE:
    return "a tuple";
  case LS_KIND_DICT:
    return "a dict";
  default:
    return "a leaf";
  }
}

static ls_nest refuse_kinds(ls_nest first, ls_nest other, size_t replica) {
  return LS_FAIL(LS_INVALID_ARGUMENT,
                 "replica 0 has %s of %zu: %s; replica %zu has %s of %zu: %s",
                 kind_of(first), ls_nest_count(first), LS_NEST_TEXT(first),
                 replica, kind_of(other), ls_nest_count(other),
                 LS_NEST_TEXT(other));
}

static void print_keys(ls_nest dict, char *buffer, size_t size) {
  int at = snprintf(buffer, size, "{");
  for (size_t i = 0; i < ls_nest_count(dict) && (size_t)at < size; ++i)
    at += snprintf(buffer + at, size - (size_t)at, "%s'%s'", i == 0 ? "" : ", ",
                   ls_nest_key(dict, ls_nest_sorted_position(dict, i)));
  if ((size_t)at < size) snprintf(buffer + at, size - (size_t)at, "}");
}

static ls_nest refuse_keys(ls_nest first, ls_nest other, size_t replica) {
  char a[160], b[160];
  print_keys(first, a, sizeof(a));
  print_keys(other, b, sizeof(b));
  return LS_FAIL(
      LS_INVALID_ARGUMENT,
      "replica 0 has a dict with keys %s, replica %zu one with keys %s", a,
      replica, b);
}

// ---- Leaves ----------------------------------------------------------------
static ls_variable *container_of(ls_nest leaf) {
  const ls_variable *variable = ls_nest_as_variable(leaf);
  return variable == NULL ? NULL : variable->container;
}

static ls_nest components(const regrouping *how, const ls_nest *leaves,
                          ls_variable *container) {
  for (size_t i = 1; i < how->count; ++i) {
    if (container_of(leaves[i]) == container) continue;
    return LS_FAIL(
        LS_INVALID_ARGUMENT,
        "%s on replica 0 is a component of '%s', %s on replica %zu is not",
        LS_NEST_TEXT(leaves[0]), container->name, LS_NEST_TEXT(leaves[i]), i);
  }
  return ls_nest_variable(container);
}

static ls_nest regroup_leaf(const regrouping *how, const ls_nest *leaves) {
  bool same = true;
  for (size_t i = 1; i < how->count; ++i) {
    if (ls_nest_is_node(leaves[i]))
      return refuse_kinds(leaves[0], leaves[i], i);
    same = same && ls_nest_is_same(leaves[0], leaves[i]);
  }
  ls_variable *container = container_of(leaves[0]);
  if (container != NULL) return components(how, leaves, container);
  if (same &&
      (!how->options->always_wrap || ls_is_distributed_variable(leaves[0])))
    return ls_nest_retain(leaves[0]);
  if (how->options->wrap != NULL)
    return how->options->wrap(leaves, how->count, how->options->wrap_user);
  for (size_t i = 0; i < how->count; ++i)
    ls_nest_retain(leaves[i]);
  return ls_nest_distributed(how->options->kind, leaves, how->count);
}

// ---- Nodes -----------------------------------------------------------------
static bool same_keys(ls_nest a, ls_nest b) {
  if (ls_nest_count(a) != ls_nest_count(b)) return false;
  for (size_t i = 0; i < ls_nest_count(a); ++i)
    if (strcmp(ls_nest_key(a, ls_nest_sorted_position(a, i)),
               ls_nest_key(b, ls_nest_sorted_position(b, i))) != 0)
      return false;
  return true;
}

static ls_nest check_nodes(const regrouping *how, const ls_nest *values) {
  const ls_nest first = values[0];
  for (size_t r = 1; r < how->count; ++r) {
    if (values[r].kind != first.kind) return refuse_kinds(first, values[r], r);
    if (first.kind == LS_KIND_DICT && !same_keys(first, values[r]))
      return refuse_keys(first, values[r], r);
    if (ls_nest_count(values[r]) != ls_nest_count(first))
      return refuse_kinds(first, values[r], r);
  }
  return ls_none();
}

// Makes a nest like replica 0's: with the same tag, names and order.
static ls_nest like_first(const regrouping *how, ls_nest first,
                          const ls_nest *items) {
  const size_t count = ls_nest_count(first);
  if (!ls_nest_has_keys(first))
    return ls_nest_sequence(first.kind, items, count);
  LS_OWN_ARRAY(how->allocator, const char *, keys, count);
  if (keys == NULL) {
    for (size_t i = 0; i < count; ++i)
      ls_nest_release(items[i]);
    return ls_fail(ls_out_of_memory());
  }
  for (size_t i = 0; i < count; ++i)
    keys[i] = ls_nest_key(first, i);
  return first.kind == LS_KIND_DICT
             ? ls_nest_dict(ls_nest_tag(first), keys, items, count)
             : ls_nest_named_tuple(ls_nest_tag(first), keys, items, count);
}

static ls_nest regroup_items(const regrouping *how, const ls_nest *values,
                             ls_nest *items, ls_nest *row) {
  const ls_nest first = values[0];
  const size_t count = ls_nest_count(first);
  for (size_t i = 0; i < count; ++i) {
    for (size_t r = 0; r < how->count; ++r)
      row[r] = first.kind == LS_KIND_DICT
                   ? ls_nest_find(values[r], ls_nest_key(first, i))
                   : ls_nest_item(values[r], i);
    items[i] = regroup(how, row);
    if (!ls_nest_is_failed(items[i])) continue;
    for (size_t k = 0; k < i; ++k)
      ls_nest_release(items[k]);
    return items[i];
  }
  return like_first(how, first, items);
}

static ls_nest regroup(const regrouping *how, const ls_nest *values) {
  if (!ls_nest_is_node(values[0])) return regroup_leaf(how, values);
  const ls_nest refused = check_nodes(how, values);
  if (ls_nest_is_failed(refused)) return refused;
  LS_OWN_ARRAY(how->allocator, ls_nest, items, ls_nest_count(values[0]));
  LS_OWN_ARRAY(how->allocator, ls_nest, row, how->count);
  return items == NULL || row == NULL ? ls_fail(ls_out_of_memory())
                                      : regroup_items(how, values, items, row);
}

ls_status ls_regroup(const ls_nest *values, size_t count,
                     const ls_regroup_options *options, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_REQUIRE_ITEMS(values, count);
  static const ls_regroup_options defaults;
  if (count == 0)
    return ls_invalid_argument("there are no replicas to regroup values of");
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_nest_status(values[i]));
  const regrouping how = {.options = options != NULL ? options : &defaults,
                          .allocator = ls_current_allocator(),
                          .count = count};
  return ls_take_nest(regroup(&how, values), out_value);
}
