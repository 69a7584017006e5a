// SPDX-License-Identifier: Apache-2.0
// Nests as whole trees: flattening, packing, comparing.

#include "base/memory/own.h"
#include "base/text.h"
#include "base/values/nest_internal.h"

// ---- Flattening and packing ------------------------------------------------
// Writes the leaves of `nest` after the first `count` ones; returns the new
// count.
static size_t flatten(ls_nest nest, ls_nest *leaves, size_t capacity,
                      size_t count) {
  if (!ls_nest_is_node(nest)) {
    if (count < capacity) leaves[count] = nest;
    return count + 1;
  }
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    count = flatten(ls_nest_item_sorted(nest, i), leaves, capacity, count);
  return count;
}

size_t ls_nest_num_leaves(ls_nest nest) { return flatten(nest, NULL, 0, 0); }

size_t ls_nest_flatten(ls_nest nest, ls_nest *leaves, size_t capacity) {
  return flatten(nest, leaves, capacity, 0);
}

typedef struct leaf_cursor {
  const ls_nest *next;
  const ls_nest *end;
} leaf_cursor;

static ls_nest take_next(ls_nest leaf, void *user) {
  (void)leaf;
  leaf_cursor *cursor = user;
  LS_ASSERT(cursor->next < cursor->end);
  return *cursor->next++;
}

ls_nest ls_nest_pack(ls_nest like, const ls_nest *leaves, size_t count) {
  if (leaves == NULL && count > 0)
    return LS_FAIL(LS_INVALID_ARGUMENT, "a nest of %zu leaves at NULL", count);
  leaf_cursor cursor = {leaves, leaves + count};
  const size_t wanted = ls_nest_num_leaves(like);
  ls_nest result = ls_none();
  if (wanted == count) {
    result = ls_nest_map(like, take_next, &cursor);
  } else {
    result = LS_FAIL(LS_INVALID_ARGUMENT, "%zu leaves for a nest that has %zu",
                     count, wanted);
  }
  // After a failure, releases the leaves that remain.
  while (cursor.next < cursor.end)
    ls_nest_release(*cursor.next++);
  return result;
}

// ---- Comparing -------------------------------------------------------------
bool ls_nest_is_same(ls_nest a, ls_nest b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
  case LS_KIND_NONE:
    return true;
  case LS_KIND_SCALAR:
    return a.dtype == b.dtype && a.as.bits == b.as.bits;
  case LS_KIND_TENSOR:
    return a.as.tensor.graph == b.as.tensor.graph &&
           a.as.tensor.ref == b.as.tensor.ref;
  case LS_KIND_OP:
    return a.as.op.graph == b.as.op.graph && a.as.op.id == b.as.op.id;
  default:
    return a.as.ref == b.as.ref;
  }
}

// The path from the root to a node, the innermost step first.
typedef struct path {
  const struct path *up;
  ls_nest node;
  size_t position;
} path;

static void append_path(ls_text *text, const path *step) {
  if (step == NULL) return;
  append_path(text, step->up);
  const char *key = ls_nest_key(step->node, step->position);
  if (key == NULL) {
    ls_text_append_format(text, "[%zu]", step->position);
  } else if (step->node.kind == LS_KIND_DICT) {
    ls_text_append_format(text, "['%s']", key);
  } else {
    ls_text_append_format(text, ".%s", key);
  }
}

// Appends "a list of 2", "a dict with keys a, b", or "a leaf".
static void append_structure(ls_text *text, ls_nest nest) {
  if (!ls_nest_is_node(nest)) {
    ls_text_append(text, "a leaf");
    return;
  }
  const size_t count = ls_nest_count(nest);
  if (!ls_nest_has_keys(nest)) {
    ls_text_append_format(text, "a %s of %zu",
                          nest.kind == LS_KIND_LIST ? "list" : "tuple", count);
    return;
  }
  ls_text_append(text, nest.kind == LS_KIND_DICT ? "a dict with keys"
                                                 : "a named tuple with fields");
  for (size_t i = 0; i < count; ++i) {
    ls_text_append(text, i == 0 ? " " : ", ");
    ls_text_append(text, ls_nest_key(nest, ls_nest_sorted_position(nest, i)));
  }
  if (count == 0) ls_text_append(text, " none");
}

static ls_status differ(const path *at, ls_nest a, ls_nest b) {
  LS_OWN(ls_text, text) = {.allocator = ls_allocator_system()};
  if (at == NULL) ls_text_append(&text, " the root");
  if (at != NULL) ls_text_append_char(&text, ' ');
  append_path(&text, at);
  ls_text_append(&text, ": ");
  append_structure(&text, a);
  ls_text_append(&text, " against ");
  append_structure(&text, b);
  return text.failed ? ls_out_of_memory()
                     : ls_invalid_argument("two nests differ in structure at%s",
                                           ls_text_data(&text));
}

// Returns true if two nodes have the same kind, tag and keys; ignores their
// items.
static bool same_node(ls_nest a, ls_nest b) {
  if (a.kind != b.kind || ls_nest_count(a) != ls_nest_count(b) ||
      ls_nest_has_keys(a) != ls_nest_has_keys(b)) {
    return false;
  }
  for (size_t i = 0; ls_nest_has_keys(a) && i < ls_nest_count(a); ++i) {
    const char *key_a = ls_nest_key(a, ls_nest_sorted_position(a, i));
    const char *key_b = ls_nest_key(b, ls_nest_sorted_position(b, i));
    if (strcmp(key_a, key_b) != 0) return false;
  }
  return true;
}

static ls_status nest_tree_compare(const path *at, ls_nest a, ls_nest b) {
  if (!ls_nest_is_node(a) && !ls_nest_is_node(b)) return ls_ok();
  if (!same_node(a, b)) return differ(at, a, b);
  for (size_t i = 0; i < ls_nest_count(a); ++i) {
    const path step = {at, a, ls_nest_sorted_position(a, i)};
    LS_RETURN_IF_ERROR(nest_tree_compare(&step, ls_nest_item_sorted(a, i),
                                         ls_nest_item_sorted(b, i)));
  }
  return ls_ok();
}

ls_status ls_nest_same_structure(ls_nest a, ls_nest b) {
  return nest_tree_compare(NULL, a, b);
}
