// SPDX-License-Identifier: Apache-2.0
#include "graph/compare/compare.h"

#include "base/memory/own.h"
#include "base/values/digest.h"
#include "graph/gather/gather.h"
#include "graph/variables/variable.h"
#include "lockstep/host.h"

// Adds a type. In the functions below, `numbers` is true if the numbers in
// arrays count, false if only the arrays' types count.
static void add_type(ls_digest *d, ls_dtype dtype, ls_shape shape) {
  ls_digest_add_u64(d, (uint64_t)dtype);
  ls_digest_add_u64(d, (uint64_t)(int64_t)shape.rank);
  for (int32_t i = 0; i < shape.rank; ++i)
    ls_digest_add_u64(d, (uint64_t)shape.dim[i]);
}

static void add_array(ls_digest *d, const ls_array *array, bool numbers) {
  const ls_dtype dtype = ls_array_dtype(array);
  add_type(d, dtype, ls_array_shape(array));
  if (!numbers) return;
  if (dtype == LS_DTYPE_RESOURCE || dtype == LS_DTYPE_VARIANT) return;
  if (dtype != LS_DTYPE_STRING) {
    ls_digest_add(d, ls_array_data(array), ls_array_size(array));
    return;
  }
  const ls_bytes *strings = ls_array_data(array);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
    ls_digest_add_u64(d, strings[i].size);
    ls_digest_add(d, strings[i].data, strings[i].size);
  }
}

static void add_object(ls_digest *d, const ls_object *object) {
  ls_digest_add_text(d, object == NULL ? "" : object->type->name);
  if (object != NULL && object->type == &ls_variable_object_type)
    ls_digest_add_text(d, ((const ls_variable *)object)->name);
}

static void identity_add_attr(ls_digest *d, const ls_attr *attr, bool numbers) {
  ls_digest_add_text(d, attr->name);
  ls_digest_add_u64(d, (uint64_t)attr->kind);
  switch (attr->kind) {
  case LS_ATTR_STRING:
    ls_digest_add_text(d, attr->as.string);
    break;
  case LS_ATTR_DTYPE:
    ls_digest_add_u64(d, (uint64_t)attr->as.dtype);
    break;
  case LS_ATTR_SHAPE:
    add_type(d, LS_DTYPE_NONE, attr->as.shape);
    break;
  case LS_ATTR_INTS:
    ls_digest_add_u64(d, attr->as.ints.count);
    for (size_t i = 0; i < attr->as.ints.count; ++i)
      ls_digest_add_u64(d, (uint64_t)attr->as.ints.items[i]);
    break;
  case LS_ATTR_SIZES:
    ls_digest_add_u64(d, attr->as.sizes.count);
    for (size_t i = 0; i < attr->as.sizes.count; ++i) {
      const ls_size size = attr->as.sizes.items[i];
      ls_digest_add_u64(d, (uint64_t)(int64_t)size.operand);
      ls_digest_add_u64(d, (uint64_t)size.value);
    }
    break;
  case LS_ATTR_STRINGS:
    ls_digest_add_u64(d, attr->as.strings.count);
    for (size_t i = 0; i < attr->as.strings.count; ++i)
      ls_digest_add_text(d, attr->as.strings.items[i]);
    break;
  case LS_ATTR_ARRAY:
    add_array(d, attr->as.array, numbers);
    break;
  case LS_ATTR_OBJECT:
    add_object(d, attr->as.object);
    break;
  case LS_ATTR_KERNEL:
    ls_digest_add_text(d, attr->as.kernel->name);
    break;
  default:  // Numbers have eight bytes.
    ls_digest_add_u64(d, (uint64_t)attr->as.i);
  }
}

static void add_refs(ls_digest *d, const uint64_t *refs, size_t count) {
  ls_digest_add_u64(d, count);
  for (size_t i = 0; i < count; ++i)
    ls_digest_add_u64(d, refs[i]);
}

// Adds a node without its operands and regions.
static void add_op(ls_digest *d, const ls_node *node, bool numbers) {
  ls_digest_add_u64(d, (uint64_t)node->type << 2 |
                           (uint64_t)node->varying << 1 | (uint64_t)node->once);
  ls_digest_add_u64(d, node->num_outputs);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    add_type(d, node->outputs[i].dtype, node->outputs[i].shape);
  // Excludes marks about the TPU system of a computation.
  uint64_t num_attrs = 0;
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    num_attrs += !ls_attr_is_of_system(&node->attrs[i]);
  ls_digest_add_u64(d, num_attrs);
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (!ls_attr_is_of_system(&node->attrs[i]))
      identity_add_attr(d, &node->attrs[i], numbers);
  ls_digest_add_u64(d, node->num_regions);
}

// ---- Op by op --------------------------------------------------------------
static void add_graph(ls_digest *d, const ls_graph *graph) {
  ls_digest_add_text(d, graph->name);
  ls_digest_add_u64(d, graph->is_while_body);
  ls_digest_add_u64(d, graph->num_nodes);
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    ls_digest_add_u64(d, node->id);
    add_op(d, node, true);
    add_refs(d, node->inputs, node->num_inputs);
    for (uint32_t k = 0; k < node->num_regions; ++k)
      add_graph(d, ls_graph_resolve(node->regions[k]));
  }
  ls_digest_add_u64(d, graph->num_declared);
  ls_digest_add_u64(d, graph->num_captures);
  for (size_t i = 0; i < graph->num_captures; ++i) {
    ls_digest_add_u64(d, graph->captures[i].inner);
    ls_digest_add_u64(d, graph->captures[i].outer.ref);
  }
  add_refs(d, graph->results, graph->num_results);
}

uint64_t ls_node_identify(const ls_node *node) {
  ls_digest d;
  uint64_t identity[2];
  ls_digest_begin(&d);
  ls_digest_add_u64(&d, node->id);
  add_op(&d, node, true);
  add_refs(&d, node->inputs, node->num_inputs);
  ls_digest_end(&d, identity);
  return identity[0];
}

void ls_graph_identify(const ls_graph *graph, uint64_t out_identity[2]) {
  ls_digest d;
  ls_digest_begin(&d);
  add_graph(&d, graph);
  ls_digest_end(&d, out_identity);
}

// ---- By what is computed ---------------------------------------------------
typedef struct digest_pair {
  uint64_t half[2];
} digest_pair;

// A graph on the way through it: digests of its nodes, by position.
typedef struct value_level {
  const ls_graph *graph;
  digest_pair *nodes;
  // The op that holds the graph as its region `region`, and the level of that
  // op's graph; NULL at the top.
  const struct value_level *parent;
  const ls_node *holder;
  uint32_t region;
  bool numbers;
  uint64_t num_effects;  // Ops with effects so far, those around included.
} value_level;

static void add_value(ls_digest *d, const value_level *level, uint64_t ref) {
  const size_t at = ls_graph_position(level->graph, ls_ref_id(ref));
  ls_digest_add(d, &level->nodes[at], sizeof(level->nodes[at]));
  ls_digest_add_u64(d, ls_ref_output(ref));
}

// Adds a captured value's parameter as the value. False: it is another node.
static bool add_captured(ls_digest *d, const value_level *level,
                         const ls_node *node) {
  if (node->type != LS_OP_PARAMETER || level->parent == NULL) return false;
  const size_t index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  const size_t num_declared = level->graph->num_declared;
  if (index < num_declared) return false;
  const size_t first = ls_node_captures(level->holder, level->region);
  add_value(d, level->parent,
            level->holder->inputs[first + index - num_declared]);
  return true;
}

// Returns true if the value depends on the effects before it.
static bool reads_state(const ls_node *node) {
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (node->attrs[i].kind == LS_ATTR_OBJECT) return true;
  return false;
}

static ls_status add_values(ls_digest *d, value_level *level);

static ls_status add_value_node(ls_digest *d, value_level *level,
                                const ls_node *node) {
  if (add_captured(d, level, node)) return ls_ok();
  add_op(d, node, level->numbers);
  const uint32_t num_own = ls_node_captures(node, 0);
  ls_digest_add_u64(d, num_own);
  for (uint32_t i = 0; i < num_own; ++i)
    add_value(d, level, node->inputs[i]);
  const bool has_effects = ls_node_has_effects(node);
  if (has_effects || reads_state(node))
    ls_digest_add_u64(d, level->num_effects);
  for (uint32_t i = 0; i < node->num_regions; ++i) {
    value_level inner = {.graph = ls_graph_resolve(node->regions[i]),
                         .parent = level,
                         .holder = node,
                         .region = i,
                         .numbers = level->numbers,
                         .num_effects = level->num_effects};
    LS_RETURN_IF_ERROR(add_values(d, &inner));
  }
  level->num_effects += has_effects;
  return ls_ok();
}

// Adds a graph as its results and its ops with effects, in their order.
static ls_status add_values(ls_digest *d, value_level *level) {
  const ls_graph *graph = level->graph;
  LS_OWN_ARRAY_OR_RETURN(graph->allocator, digest_pair, nodes,
                         graph->num_nodes + 1);
  level->nodes = nodes;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_digest node;
    ls_digest_begin(&node);
    LS_RETURN_IF_ERROR(add_value_node(&node, level, graph->nodes[i]));
    ls_digest_end(&node, nodes[i].half);
    if (ls_node_has_effects(graph->nodes[i]))
      ls_digest_add(d, &nodes[i], sizeof(nodes[i]));
  }
  ls_digest_add_u64(d, graph->is_while_body);
  ls_digest_add_u64(d, graph->num_declared);
  ls_digest_add_u64(d, graph->num_results);
  for (size_t i = 0; i < graph->num_results; ++i)
    add_value(d, level, graph->results[i]);
  return ls_ok();
}

ls_status ls_graph_identify_values(const ls_graph *graph, bool with_constants,
                                   uint64_t out_identity[2]) {
  ls_digest d;
  ls_digest_begin(&d);
  value_level level = {.graph = graph, .numbers = with_constants};
  const ls_status status = add_values(&d, &level);
  ls_digest_end(&d, out_identity);
  return status;
}
