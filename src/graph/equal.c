// SPDX-License-Identifier: Apache-2.0
#include "graph/equal.h"

#include <stdio.h>

static bool same_array(const ls_array *a, const ls_array *b) {
  return a == b ||
         (ls_array_dtype(a) == ls_array_dtype(b) &&
          ls_array_dtype(a) != LS_DTYPE_STRING &&
          ls_shape_equal(ls_array_shape(a), ls_array_shape(b)) &&
          memcmp(ls_array_data(a), ls_array_data(b), ls_array_size(a)) == 0);
}

static bool same_sizes(const ls_attr *a, const ls_attr *b) {
  if (a->as.sizes.count != b->as.sizes.count) return false;
  for (size_t i = 0; i < a->as.sizes.count; ++i)
    if (a->as.sizes.items[i].operand != b->as.sizes.items[i].operand ||
        a->as.sizes.items[i].value != b->as.sizes.items[i].value)
      return false;
  return true;
}

static bool same_strings(const ls_attr *a, const ls_attr *b) {
  if (a->as.strings.count != b->as.strings.count) return false;
  for (size_t i = 0; i < a->as.strings.count; ++i)
    if (strcmp(a->as.strings.items[i], b->as.strings.items[i]) != 0)
      return false;
  return true;
}

bool ls_attr_equal(const ls_attr *a, const ls_attr *b) {
  if (a->kind != b->kind || strcmp(a->name, b->name) != 0) return false;
  switch (a->kind) {
  case LS_ATTR_STRING:
    return strcmp(a->as.string, b->as.string) == 0;
  case LS_ATTR_DTYPE:
    return a->as.dtype == b->as.dtype;
  case LS_ATTR_SHAPE:
    return ls_shape_equal(a->as.shape, b->as.shape);
  case LS_ATTR_INTS:
    return a->as.ints.count == b->as.ints.count &&
           memcmp(a->as.ints.items, b->as.ints.items,
                  a->as.ints.count * sizeof(int64_t)) == 0;
  case LS_ATTR_SIZES:
    return same_sizes(a, b);
  case LS_ATTR_STRINGS:
    return same_strings(a, b);
  case LS_ATTR_ARRAY:
    return same_array(a->as.array, b->as.array);
  case LS_ATTR_OBJECT:
    return ls_object_equal(a->as.object, b->as.object);
  default:  // Numbers and pointers: eight bytes.
    return a->as.i == b->as.i;
  }
}

static bool same_node(const ls_node *a, const ls_node *b, char *difference,
                      size_t size) {
  if (a->type != b->type || a->num_inputs != b->num_inputs ||
      a->num_outputs != b->num_outputs || a->num_attrs != b->num_attrs ||
      a->num_regions != b->num_regions || a->num_control != b->num_control ||
      memcmp(a->inputs, b->inputs, a->num_inputs * sizeof(*a->inputs)) != 0 ||
      memcmp(a->control, b->control, a->num_control * sizeof(*a->control)) != 0)
    return false;
  for (uint32_t i = 0; i < a->num_outputs; ++i)
    if (a->outputs[i].dtype != b->outputs[i].dtype ||
        !ls_shape_equal(a->outputs[i].shape, b->outputs[i].shape))
      return false;
  for (uint32_t i = 0; i < a->num_attrs; ++i)
    if (!ls_attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  for (uint32_t i = 0; i < a->num_regions; ++i)
    if (!ls_graph_equal(ls_graph_resolve(a->regions[i]),
                        ls_graph_resolve(b->regions[i]), difference, size))
      return false;
  return true;
}

// A capture's outer value: the same, or in regions of two equal graphs the
// same place.
static bool same_captures(const ls_graph *a, const ls_graph *b) {
  if (a->num_captures != b->num_captures) return false;
  for (size_t i = 0; i < a->num_captures; ++i)
    if (a->captures[i].inner != b->captures[i].inner ||
        a->captures[i].outer.ref != b->captures[i].outer.ref)
      return false;
  return true;
}

bool ls_graph_equal_inside(ls_graph *a, ls_graph *b, char *difference,
                           size_t size) {
  char x[160], y[160];
  difference[0] = '\0';
  if (a == b) return true;
  const size_t common =
      a->num_nodes < b->num_nodes ? a->num_nodes : b->num_nodes;
  for (size_t i = 0; i < common; ++i) {
    if (same_node(a->nodes[i], b->nodes[i], difference, size)) continue;
    if (difference[0] == '\0')
      snprintf(difference, size, "%s against %s",
               ls_node_describe(a, a->nodes[i], x, sizeof(x)),
               ls_node_describe(b, b->nodes[i], y, sizeof(y)));
    return false;
  }
  if (a->num_nodes != b->num_nodes) {
    snprintf(difference, size, "%zu ops against %zu", a->num_nodes,
             b->num_nodes);
    return false;
  }
  if (a->num_results != b->num_results ||
      memcmp(a->results, b->results, a->num_results * sizeof(*a->results)) !=
          0) {
    snprintf(difference, size, "other results");
    return false;
  }
  return true;
}

bool ls_graph_equal(ls_graph *a, ls_graph *b, char *difference, size_t size) {
  if (!ls_graph_equal_inside(a, b, difference, size)) return false;
  if (same_captures(a, b)) return true;
  snprintf(difference, size, "other captured values");
  return false;
}
