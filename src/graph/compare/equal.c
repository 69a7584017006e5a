// SPDX-License-Identifier: Apache-2.0
#include "graph/compare/compare.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/plain.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/array_internal.h"
#include "graph/make/make.h"
#include "graph/text/text.h"
#include "graph/variables/variable.h"

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
    return ls_array_is_same(a->as.array, b->as.array);
  case LS_ATTR_OBJECT:
    return ls_object_equal(a->as.object, b->as.object);
  default:  // Numbers and pointers have eight bytes.
    return a->as.i == b->as.i;
  }
}

// ---- Differences -----------------------------------------------------------
// Two graphs to compare, and a buffer for the first difference.
typedef struct comparison {
  ls_graph *a, *b;
  char *text;
  size_t size;
} comparison;

LS_PRINTF(2, 3)
static bool report_difference(const comparison *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ls_format_v(c->text, c->size, format, args);
  va_end(args);
  return false;
}

// Describes the difference between two nodes in the buffer.
static bool differ_in(const comparison *c, ls_node *a, ls_node *b,
                      const char *what) {
  char x[160], y[160];
  return report_difference(c, "%s against %s%s%s",
                           ls_node_describe(c->a, a, x, sizeof(x)),
                           ls_node_describe(c->b, b, y, sizeof(y)),
                           what[0] == '\0' ? "" : ": ", what);
}

static void value_text(const ls_attr *attr, char *buffer, size_t size) {
  if (attr->kind == LS_ATTR_OBJECT) {
    const ls_object *object = attr->as.object;
    if (object != NULL && object->type == &ls_variable_object_type)
      snprintf(buffer, size, "variable '%s'",
               ((const ls_variable *)(const void *)object)->name);
    else
      snprintf(buffer, size, "object '%s'",
               object == NULL ? "" : object->type->name);
    return;
  }
  ls_text text = {.allocator = ls_current_allocator()};
  ls_print_value(&text, attr);
  snprintf(buffer, size, "%s", ls_text_data(&text));
  ls_text_deinit(&text);
}

// Returns the first element in which two arrays of one type differ; -1 for
// arrays of different types and for strings.
static int64_t first_difference(const ls_array *a, const ls_array *b) {
  const size_t size = ls_dtype_size(ls_array_dtype(a));
  if (ls_array_dtype(a) != ls_array_dtype(b) ||
      ls_array_dtype(a) == LS_DTYPE_STRING ||
      !ls_shape_equal(ls_array_shape(a), ls_array_shape(b)))
    return -1;
  const char *x = ls_array_data(a), *y = ls_array_data(b);
  const int64_t count = ls_array_num_elements(a);
  int64_t i = 0;
  while (i < count &&
         memcmp(x + (size_t)i * size, y + (size_t)i * size, size) == 0)
    ++i;
  return i < count ? i : -1;
}

// Describes two different attributes so that their texts differ.
static void attr_difference(const ls_attr *a, const ls_attr *b, char *buffer,
                            size_t size) {
  char x[60], y[60];
  const int64_t at = a->kind == LS_ATTR_ARRAY
                         ? first_difference(a->as.array, b->as.array)
                         : -1;
  value_text(a, x, sizeof(x));
  value_text(b, y, sizeof(y));
  if (at >= 0)
    snprintf(buffer, size, "element %lld of its %s is %.9g against %.9g",
             (long long)at, a->name, ls_array_f64(a->as.array, at),
             ls_array_f64(b->as.array, at));
  else
    snprintf(buffer, size, "its %s is %s against %s%s", a->name, x,
             strcmp(x, y) == 0 ? "another " : "", y);
}

// ---- Nodes -----------------------------------------------------------------
static bool same_operands(const comparison *c, ls_node *a, ls_node *b) {
  char what[120];
  if (a->num_inputs != b->num_inputs) {
    snprintf(what, sizeof(what), "%u operands against %u", a->num_inputs,
             b->num_inputs);
    return differ_in(c, a, b, what);
  }
  for (uint32_t i = 0; i < a->num_inputs; ++i) {
    if (a->inputs[i] == b->inputs[i]) continue;
    snprintf(what, sizeof(what), "operand %u is '%.40s' against '%.40s'", i,
             ls_tensor_name((ls_tensor){c->a, a->inputs[i]}),
             ls_tensor_name((ls_tensor){c->b, b->inputs[i]}));
    return differ_in(c, a, b, what);
  }
  if (a->num_control == b->num_control &&
      memcmp(a->control, b->control, a->num_control * sizeof(*a->control)) == 0)
    return true;
  return differ_in(c, a, b, "other control inputs");
}

static bool same_outputs(const comparison *c, ls_node *a, ls_node *b) {
  char what[200];
  if (a->num_outputs != b->num_outputs) {
    snprintf(what, sizeof(what), "%u results against %u", a->num_outputs,
             b->num_outputs);
    return differ_in(c, a, b, what);
  }
  for (uint32_t i = 0; i < a->num_outputs; ++i) {
    const ls_type x = a->outputs[i], y = b->outputs[i];
    if (x.dtype == y.dtype && ls_shape_equal(x.shape, y.shape)) continue;
    snprintf(what, sizeof(what), "result %u is %s against %s", i,
             LS_SHAPE_TEXT(x.dtype, x.shape), LS_SHAPE_TEXT(y.dtype, y.shape));
    return differ_in(c, a, b, what);
  }
  return true;
}

// Returns the node's next own attribute from `*at` on, NULL if there is none.
static const ls_attr *next_own(const ls_node *node, uint32_t *at) {
  while (*at < node->num_attrs && ls_attr_is_mark(&node->attrs[*at]))
    ++*at;
  return *at < node->num_attrs ? &node->attrs[(*at)++] : NULL;
}

static bool same_attrs(const comparison *c, ls_node *a, ls_node *b) {
  char what[200];
  for (uint32_t i = 0, k = 0;;) {
    const ls_attr *own = next_own(a, &i), *other = next_own(b, &k);
    if (own == NULL && other == NULL) return true;
    if (own == NULL || other == NULL || own->kind != other->kind ||
        strcmp(own->name, other->name) != 0)
      return differ_in(c, a, b, "other attributes");
    if (ls_attr_equal(own, other)) continue;
    attr_difference(own, other, what, sizeof(what));
    return differ_in(c, a, b, what);
  }
}

static bool same_node(const comparison *c, ls_node *a, ls_node *b) {
  if (a->type != b->type || a->num_regions != b->num_regions)
    return differ_in(c, a, b, "");
  if (!same_operands(c, a, b) || !same_outputs(c, a, b) || !same_attrs(c, a, b))
    return false;
  for (uint32_t i = 0; i < a->num_regions; ++i)
    if (!ls_graph_equal(ls_graph_resolve(a->regions[i]),
                        ls_graph_resolve(b->regions[i]), c->text, c->size))
      return false;
  return true;
}

// ---- Graphs ----------------------------------------------------------------
// Describes two different captures; if both are constants, such as eager
// values, names the first different element.
static bool differ_in_capture(const comparison *c, ls_tensor a, ls_tensor b) {
  char what[200] = "";
  const ls_node *x = ls_graph_node_of(a.graph, a.ref);
  const ls_node *y = ls_graph_node_of(b.graph, b.ref);
  if (x->type == LS_OP_CONSTANT && y->type == LS_OP_CONSTANT)
    attr_difference(ls_node_attr(x, LS_ATTR_ID_VALUE),
                    ls_node_attr(y, LS_ATTR_ID_VALUE), what, sizeof(what));
  return report_difference(c, "it captures '%s' against '%s'%s%s",
                           ls_tensor_name(a), ls_tensor_name(b),
                           what[0] == '\0' ? "" : ": ", what);
}

// Compares the refs of the captured values, for regions of one graph or of two
// equal graphs.
static bool same_captures(const comparison *c) {
  const ls_graph *a = c->a, *b = c->b;
  if (a->num_captures != b->num_captures)
    return report_difference(c, "%zu captured values against %zu",
                             a->num_captures, b->num_captures);
  for (size_t i = 0; i < a->num_captures; ++i)
    if (a->captures[i].inner != b->captures[i].inner ||
        a->captures[i].outer.ref != b->captures[i].outer.ref)
      return differ_in_capture(c, a->captures[i].outer, b->captures[i].outer);
  return true;
}

// Compares control inputs from enclosing graphs.
static bool same_waits(const comparison *c) {
  const ls_graph *a = c->a, *b = c->b;
  bool same = a->num_waits_outside == b->num_waits_outside;
  for (size_t i = 0; same && i < a->num_waits_outside; ++i)
    same = a->waits_outside[i].id == b->waits_outside[i].id &&
           a->waits_outside[i].outer.id == b->waits_outside[i].outer.id;
  return same || report_difference(c, "other control inputs from around");
}

static bool same_results(const comparison *c) {
  const ls_graph *a = c->a, *b = c->b;
  if (a->num_results != b->num_results)
    return report_difference(c, "%zu results against %zu", a->num_results,
                             b->num_results);
  for (size_t i = 0; i < a->num_results; ++i)
    if (a->results[i] != b->results[i])
      return report_difference(
          c, "result %zu is '%s' against '%s'", i,
          ls_tensor_name((ls_tensor){c->a, a->results[i]}),
          ls_tensor_name((ls_tensor){c->b, b->results[i]}));
  return true;
}

bool ls_graph_equal_inside(ls_graph *a, ls_graph *b, char *difference,
                           size_t size) {
  const comparison c = {a, b, difference, size};
  difference[0] = '\0';
  if (a == b) return true;
  const size_t common =
      a->num_nodes < b->num_nodes ? a->num_nodes : b->num_nodes;
  for (size_t i = 0; i < common; ++i)
    if (!same_node(&c, a->nodes[i], b->nodes[i])) return false;
  if (a->num_nodes != b->num_nodes) {
    ls_graph *longer = a->num_nodes > common ? a : b;
    char more[160];
    return report_difference(
        &c, "%zu ops against %zu: only one has %s", a->num_nodes, b->num_nodes,
        ls_node_describe(longer, longer->nodes[common], more, sizeof(more)));
  }
  return same_waits(&c) && same_results(&c);
}

bool ls_graph_equal(ls_graph *a, ls_graph *b, char *difference, size_t size) {
  const comparison c = {a, b, difference, size};
  return ls_graph_equal_inside(a, b, difference, size) && same_captures(&c);
}

// ---- Keys ------------------------------------------------------------------
static void key_array(ls_text *key, const ls_array *array) {
  const size_t size = ls_array_size(array);
  const ls_dtype dtype = ls_array_dtype(array);
  if (size > 64 || dtype == LS_DTYPE_STRING) {
    ls_text_append_bytes(key, &array, sizeof(array));
    return;
  }
  const ls_shape shape = ls_array_shape(array);
  ls_text_append_bytes(key, &dtype, sizeof(dtype));
  ls_text_append_bytes(key, &shape, sizeof(shape));
  ls_text_append_bytes(key, ls_array_data(array), size);
}

void ls_attr_append_key(ls_text *key, const ls_attr *attr) {
  ls_text_append_bytes(key, attr->name, strlen(attr->name) + 1);
  switch (attr->kind) {
  case LS_ATTR_STRING:
    ls_text_append_bytes(key, attr->as.string, strlen(attr->as.string) + 1);
    break;
  case LS_ATTR_INTS:
    ls_text_append_bytes(key, attr->as.ints.items,
                         attr->as.ints.count * sizeof(int64_t));
    break;
  case LS_ATTR_SIZES:
    for (size_t i = 0; i < attr->as.sizes.count; ++i) {
      ls_text_append_bytes(key, &attr->as.sizes.items[i].operand,
                           sizeof(int32_t));
      ls_text_append_bytes(key, &attr->as.sizes.items[i].value,
                           sizeof(int64_t));
    }
    break;
  case LS_ATTR_STRINGS:
    for (size_t i = 0; i < attr->as.strings.count; ++i)
      ls_text_append_bytes(key, attr->as.strings.items[i],
                           strlen(attr->as.strings.items[i]) + 1);
    break;
  case LS_ATTR_ARRAY:
    key_array(key, attr->as.array);
    break;
  case LS_ATTR_SHAPE:
    ls_text_append_bytes(key, &attr->as.shape, sizeof(ls_shape));
    break;
  case LS_ATTR_DTYPE:
    ls_text_append_bytes(key, &attr->as.dtype, sizeof(ls_dtype));
    break;
  default:  // Numbers and pointers have eight bytes.
    ls_text_append_bytes(key, &attr->as.i, sizeof(int64_t));
  }
  ls_text_append_char(key, '\n');
}

// ---- Values that are the same on all replicas -------------------------------
void ls_same_values_deinit(ls_same_values *values) {
  ls_release(values->allocator, values->items);
}

bool ls_same_values_cover(const ls_same_values *values, const ls_graph *graph) {
  while (values != NULL && graph != NULL && graph != values->graph)
    graph = ls_graph_resolve(graph->parent);
  return values != NULL && graph != NULL;
}

// Removes eager values from the list that were freed with their frame.
static void drop_stale(ls_same_values *values) {
  size_t kept = 0;
  for (size_t i = 0; i < values->count; ++i)
    if (values->items[i].graph != values->graph->id ||
        ls_graph_node_of(values->graph, values->items[i].ref) != NULL)
      values->items[kept++] = values->items[i];
  values->count = kept;
}

bool ls_same_values_add(ls_same_values *values, ls_tensor value) {
  const ls_graph *graph = ls_graph_resolve(value.graph);
  if (value.ref == 0 || !ls_same_values_cover(values, graph)) return true;
  if (values->count == values->capacity) drop_stale(values);
  // Grows to twice the number of valid entries, so that scans for freed values
  // stay rare.
  if (values->count >= values->capacity / 2 &&
      !LS_GROW(values->allocator, values->items, values->capacity,
               2 * values->count + 1))
    return false;
  values->items[values->count++] = (ls_same_value){graph->id, value.ref};
  return true;
}

ls_tensor ls_same_note(ls_tensor value) {
  return ls_same_values_add(ls_context_current()->same, value)
             ? value
             : ls_make_failed("all_reduce", ls_out_of_memory());
}

bool ls_same_is_noted(ls_tensor value) {
  const ls_same_values *values = ls_context_current()->same;
  const ls_graph *graph = ls_graph_resolve(value.graph);
  if (value.ref == 0 || values == NULL) return false;
  for (size_t i = values->count; i > 0; --i)
    if (values->items[i - 1].ref == value.ref &&
        values->items[i - 1].graph == graph->id)
      return true;
  return false;
}
