// SPDX-License-Identifier: Apache-2.0
#include "graph/compare/compare.h"

#include "base/values/digest.h"
#include "graph/gather/gather.h"
#include "graph/variables/variable.h"
#include "lockstep/host.h"

// Adds a type. In the functions below, `numbers` tells whether arrays count
// with their numbers or their types only.
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

static void add_graph(ls_digest *d, const ls_graph *graph, bool numbers);

static void add_node(ls_digest *d, const ls_node *node, bool numbers) {
  ls_digest_add_u64(d, node->id);
  ls_digest_add_u64(d, (uint64_t)node->type << 2 |
                           (uint64_t)node->varying << 1 | (uint64_t)node->once);
  add_refs(d, node->inputs, node->num_inputs);
  ls_digest_add_u64(d, node->num_outputs);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    add_type(d, node->outputs[i].dtype, node->outputs[i].shape);
  // Excludes marks of the system that a computation runs on.
  uint64_t num_attrs = 0;
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    num_attrs += !ls_attr_is_of_system(&node->attrs[i]);
  ls_digest_add_u64(d, num_attrs);
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (!ls_attr_is_of_system(&node->attrs[i]))
      identity_add_attr(d, &node->attrs[i], numbers);
  ls_digest_add_u64(d, node->num_regions);
  for (uint32_t i = 0; i < node->num_regions; ++i)
    add_graph(d, ls_graph_resolve(node->regions[i]), numbers);
}

static void add_graph(ls_digest *d, const ls_graph *graph, bool numbers) {
  ls_digest_add_text(d, graph->name);
  ls_digest_add_u64(d, graph->is_while_body);
  ls_digest_add_u64(d, graph->num_nodes);
  for (size_t i = 0; i < graph->num_nodes; ++i)
    add_node(d, graph->nodes[i], numbers);
  ls_digest_add_u64(d, graph->num_declared);
  ls_digest_add_u64(d, graph->num_captures);
  for (size_t i = 0; i < graph->num_captures; ++i) {
    ls_digest_add_u64(d, graph->captures[i].inner);
    ls_digest_add_u64(d, graph->captures[i].outer.ref);
  }
  add_refs(d, graph->results, graph->num_results);
}

void ls_graph_identify(const ls_graph *graph, uint64_t out_identity[2]) {
  ls_digest d;
  ls_digest_begin(&d);
  add_graph(&d, graph, true);
  ls_digest_end(&d, out_identity);
}

void ls_graph_identify_ops(const ls_graph *graph, uint64_t out_identity[2]) {
  ls_digest d;
  ls_digest_begin(&d);
  add_graph(&d, graph, false);
  ls_digest_end(&d, out_identity);
}
