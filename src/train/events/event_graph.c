// SPDX-License-Identifier: Apache-2.0
//
// Prints graphs as GraphDef messages.
//
// Each op is a node: its name with all scopes, its operands by their ops'
// names, and attributes that the text form shows. A graph that an op holds
// becomes a scope of the op's name, "while/while_body/add"; its parameters have
// as inputs the values they stand for, and the op has its results as inputs.
#include <math.h>

#include "graph/graph.h"
#include "graph/text/text.h"
#include "graph/variables/variable.h"
#include "io/protobuf/events.h"
#include "io/protobuf/protobuf.h"
#include "train/events/run_events.h"

enum {
  GRAPH_NODE = 1,
  GRAPH_VERSIONS = 4,
  VERSIONS_PRODUCER = 1,
  NODE_NAME = 1,
  NODE_OP = 2,
  NODE_INPUT = 3,
  NODE_DEVICE = 4,
  NODE_ATTR = 5,
  ATTR_KEY = 1,
  ATTR_VALUE = 2,
  VALUE_LIST = 1,
  VALUE_STRING = 2,
  VALUE_INT = 3,
  VALUE_FLOAT = 4,
  VALUE_BOOL = 5,
  VALUE_TYPE = 6,
  VALUE_SHAPE = 7,
  SHAPE_SIZE = 2,
  SHAPE_RANK_UNKNOWN = 3,
  SIZE_SIZE = 1,
  PRODUCER = 1882,  // A version of 2024, checked by readers.
  LONGEST_VALUE = 512,
};

// Position of a graph: the scope of the op that holds it.
typedef struct place {
  const struct place *outer;  // The enclosing graph's place, or NULL.
  const ls_graph *graph;
  const ls_node *holder;  // The op that holds the graph.
  const char *scope;      // "" or "while/body/".
} place;

typedef struct printer {
  ls_text *out;
  ls_text name;  // Name being composed.
  ls_allocator *allocator;
} printer;

// ---- Attributes ------------------------------------------------------------
static void add_shape(ls_text *out, unsigned field, ls_shape shape) {
  const size_t began = ls_proto_begin(out, field);
  if (shape.rank < 0) ls_proto_i64(out, SHAPE_RANK_UNKNOWN, 1);
  for (int i = 0; i < shape.rank; ++i) {
    const size_t size = ls_proto_begin(out, SHAPE_SIZE);
    ls_proto_i64(out, SIZE_SIZE, shape.dim[i]);
    ls_proto_end(out, size);
  }
  ls_proto_end(out, began);
}

typedef struct attr_place {
  size_t attr, value;
} attr_place;

static attr_place begin_attr(ls_text *out, const char *name) {
  attr_place attr = {.attr = ls_proto_begin(out, NODE_ATTR)};
  ls_proto_string(out, ATTR_KEY, name);
  attr.value = ls_proto_begin(out, ATTR_VALUE);
  return attr;
}

static void end_attr(ls_text *out, attr_place attr) {
  ls_proto_end(out, attr.value);
  ls_proto_end(out, attr.attr);
}

// Appends a variable's name, or the type of another object.
static void append_object(ls_text *out, const ls_object *object) {
  if (object == NULL) return;
  ls_text_append(out, object->type == &ls_variable_object_type
                          ? ((const ls_variable *)object)->name
                          : object->type->name);
}

// Adds the attribute as in the text form, unless long; arrays by type only.
static void add_text_value(printer *p, const ls_attr *attr) {
  ls_text_clear(&p->name);
  if (attr->kind == LS_ATTR_ARRAY) {
    ls_print_type(&p->name, (ls_type){ls_array_dtype(attr->as.array),
                                      ls_array_shape(attr->as.array)});
  } else if (attr->kind == LS_ATTR_OBJECT) {
    append_object(&p->name, attr->as.object);
  } else {
    ls_print_value(&p->name, attr);
  }
  p->out->failed |= p->name.failed;
  if (p->name.size <= LONGEST_VALUE)
    ls_proto_string(p->out, VALUE_STRING, ls_text_data(&p->name));
  else
    ls_proto_string(p->out, VALUE_STRING, "...");
}

static void event_graph_add_attr(printer *p, const ls_attr *attr) {
  ls_text *out = p->out;
  const attr_place begun = begin_attr(out, attr->name);
  switch (attr->kind) {
  case LS_ATTR_INT:
    ls_proto_i64(out, VALUE_INT, attr->as.i);
    break;
  case LS_ATTR_BOOL:
    ls_proto_i64(out, VALUE_BOOL, attr->as.i != 0);
    break;
  case LS_ATTR_FLOAT:
    ls_proto_f32(out, VALUE_FLOAT, (float)attr->as.f);
    break;
  case LS_ATTR_STRING:
    ls_proto_string(out, VALUE_STRING, attr->as.string);
    break;
  case LS_ATTR_DTYPE:
    ls_proto_i64(out, VALUE_TYPE, ls_events_type_of(attr->as.dtype));
    break;
  case LS_ATTR_SHAPE:
    add_shape(out, VALUE_SHAPE, attr->as.shape);
    break;
  default:
    add_text_value(p, attr);
  }
  end_attr(out, begun);
}

static void add_attrs(printer *p, const ls_node *node) {
  ls_text *out = p->out;
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    event_graph_add_attr(p, &node->attrs[i]);
  if (node->file != NULL) {
    const attr_place begun = begin_attr(out, "_place");
    ls_text_clear(&p->name);
    ls_text_append_format(&p->name, "%s:%d", node->file, node->line);
    p->out->failed |= p->name.failed;
    ls_proto_string(out, VALUE_STRING, ls_text_data(&p->name));
    end_attr(out, begun);
  }
  if (node->num_outputs == 0) return;
  attr_place begun = begin_attr(out, "T");
  ls_proto_i64(out, VALUE_TYPE, ls_events_type_of(node->outputs[0].dtype));
  end_attr(out, begun);
  // _output_shapes: TensorBoard labels edges with them.
  begun = begin_attr(out, "_output_shapes");
  const size_t list = ls_proto_begin(out, VALUE_LIST);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    add_shape(out, VALUE_SHAPE, node->outputs[i].shape);
  ls_proto_end(out, list);
  end_attr(out, begun);
}

// ---- Names -----------------------------------------------------------------
// Appends "scope/op" to p->name; an op without a name has its number. Does not
// use the graph's cached name, which lacks the scope if memory ran out.
static void append_name(printer *p, const place *at, const ls_node *node) {
  char scope[LS_MAX_FULL_NAME];
  ls_text_append(&p->name, at->scope);
  if (node->base == NULL) {
    ls_text_append_format(&p->name, "%s_%llu", ls_node_info(node)->name,
                          (unsigned long long)node->id);
    return;
  }
  ls_name_scope_print(node->scope, scope, sizeof(scope));
  ls_text_append(&p->name, scope);
  ls_text_append(&p->name, node->base);
  if (node->number > 0)
    ls_text_append_format(&p->name, "_%u", (unsigned)node->number);
}

static void add_name(printer *p, unsigned field) {
  p->out->failed |= p->name.failed;
  ls_proto_string(p->out, field, ls_text_data(&p->name));
}

static void event_graph_add_input(printer *p, const place *at, uint64_t ref) {
  const ls_node *node = ls_graph_node_of(at->graph, ref);
  if (node == NULL) return;
  ls_text_clear(&p->name);
  append_name(p, at, node);
  if (ls_ref_output(ref) > 0)
    ls_text_append_format(&p->name, ":%u", ls_ref_output(ref));
  add_name(p, NODE_INPUT);
}

// Adds the value that a parameter stands for: a captured value of an enclosing
// graph, or an operand of the op that holds this graph.
static void add_source(printer *p, const place *at, const ls_node *node) {
  const ls_graph *graph = at->graph;
  const uint64_t ref = ls_ref(node->id, 0);
  for (size_t i = 0; at->outer != NULL && i < graph->num_captures; ++i) {
    if (graph->captures[i].inner != ref) continue;
    for (const place *outer = at->outer; outer != NULL; outer = outer->outer) {
      if (outer->graph == ls_graph_resolve(graph->captures[i].outer.graph))
        event_graph_add_input(p, outer, graph->captures[i].outer.ref);
    }
    return;
  }
  if (at->holder == NULL) return;
  for (size_t i = 0;
       i < graph->num_declared && i < (size_t)at->holder->num_inputs; ++i) {
    if (graph->parameters[i] == ref)
      event_graph_add_input(p, at->outer, at->holder->inputs[i]);
  }
}

// ---- Nodes -----------------------------------------------------------------
static ls_status print_graph(printer *p, const place *at);

// Sets p->name to the scope of a graph that an op holds.
static ls_status name_scope(printer *p, const place *at, const ls_node *node,
                            uint32_t index) {
  const char *name = ls_graph_resolve(node->regions[index])->name;
  bool again = false;
  for (uint32_t i = 0; i < index; ++i)
    again |= strcmp(ls_graph_resolve(node->regions[i])->name, name) == 0;
  ls_text_clear(&p->name);
  append_name(p, at, node);
  ls_text_append_format(&p->name, "/%s", name[0] != '\0' ? name : "body");
  if (again) ls_text_append_format(&p->name, "_%u", (unsigned)index);
  ls_text_append_char(&p->name, '/');
  return ls_text_status(&p->name);
}

// Calls `run` for each graph that an op holds, with its scope.
static ls_status for_regions(printer *p, const place *at, const ls_node *node,
                             ls_status (*run)(printer *p, const place *inner)) {
  for (uint32_t i = 0; i < node->num_regions; ++i) {
    LS_RETURN_IF_ERROR(name_scope(p, at, node, i));
    const char *scope = ls_copy_text(p->allocator, p->name.data, p->name.size);
    if (scope == NULL) return ls_out_of_memory();
    const ls_status status =
        run(p, &(place){.outer = at,
                        .graph = ls_graph_resolve(node->regions[i]),
                        .holder = node,
                        .scope = scope});
    ls_release(p->allocator, scope);
    LS_RETURN_IF_ERROR(status);
  }
  return ls_ok();
}

static ls_status add_results(printer *p, const place *inner) {
  for (size_t i = 0; i < inner->graph->num_results; ++i)
    event_graph_add_input(p, inner, inner->graph->results[i]);
  return ls_ok();
}

static ls_status print_node(printer *p, const place *at, const ls_node *node) {
  LS_RETURN_IF_ERROR(for_regions(p, at, node, print_graph));
  const size_t began = ls_proto_begin(p->out, GRAPH_NODE);
  ls_text_clear(&p->name);
  append_name(p, at, node);
  add_name(p, NODE_NAME);
  ls_proto_string(p->out, NODE_OP, ls_node_info(node)->name);
  if (node->num_inputs == 0) add_source(p, at, node);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    event_graph_add_input(p, at, node->inputs[i]);
  LS_RETURN_IF_ERROR(for_regions(p, at, node, add_results));
  for (uint32_t i = 0; i < node->num_control; ++i) {
    const ls_node *before = ls_graph_node(at->graph, node->control[i]);
    if (before == NULL) continue;
    ls_text_clear(&p->name);
    ls_text_append_char(&p->name, '^');
    append_name(p, at, before);
    add_name(p, NODE_INPUT);
  }
  if (node->device != NULL) ls_proto_string(p->out, NODE_DEVICE, node->device);
  add_attrs(p, node);
  ls_proto_end(p->out, began);
  return ls_ok();
}

static ls_status print_graph(printer *p, const place *at) {
  for (size_t i = 0; i < at->graph->num_nodes; ++i)
    LS_RETURN_IF_ERROR(print_node(p, at, at->graph->nodes[i]));
  return ls_ok();
}

ls_status ls_event_graph_print(const ls_graph *graph, ls_text *out) {
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_failed_precondition("the eager graph cannot be drawn: its ops "
                                  "run as they are added");
  printer p = {.out = out, .allocator = out->allocator};
  ls_text_init(&p.name, out->allocator);
  ls_status status = print_graph(&p, &(place){.graph = graph, .scope = ""});
  ls_text_deinit(&p.name);
  const size_t versions = ls_proto_begin(out, GRAPH_VERSIONS);
  ls_proto_i64(out, VERSIONS_PRODUCER, PRODUCER);
  ls_proto_end(out, versions);
  return ls_status_join(status, ls_text_status(out));
}

// Number of elements converted at once.
enum { CHUNK = 1024 };

static size_t histogram_load(const ls_array *values, int64_t from,
                             double *out) {
  const int64_t left = ls_array_num_elements(values) - from;
  const size_t count = left < CHUNK ? (size_t)left : CHUNK;
  if (ls_array_dtype(values) == LS_DTYPE_F32) {
    const float *at = (const float *)ls_array_data(values) + from;
    for (size_t i = 0; i < count; ++i)
      out[i] = (double)at[i];
  } else {
    for (size_t i = 0; i < count; ++i)
      out[i] = ls_array_f64(values, from + (int64_t)i);
  }
  return count;
}

static void histogram_measure(const ls_array *values, ls_histogram *out) {
  double chunk[CHUNK];
  double least = INFINITY, most = -INFINITY, sum = 0, squares = 0;
  int64_t finite = 0;
  for (int64_t from = 0; from < ls_array_num_elements(values); from += CHUNK) {
    const size_t count = histogram_load(values, from, chunk);
    for (size_t i = 0; i < count; ++i) {
      const double x = chunk[i];
      if (!isfinite(x)) continue;
      if (x < least) least = x;
      if (x > most) most = x;
      sum += x;
      squares += x * x;
      ++finite;
    }
  }
  *out = (ls_histogram){.values = (double)finite, .count = 1};
  if (finite == 0) return;
  out->least = least;
  out->most = most;
  out->sum = sum;
  out->sum_squares = squares;
}

static void histogram_deal(const ls_array *values, ls_histogram *out) {
  double chunk[CHUNK];
  const double least = out->least;
  const double scale = LS_HISTOGRAM_RANGES / (out->most - least);
  int64_t counts[LS_HISTOGRAM_RANGES] = {0};
  for (int64_t from = 0; from < ls_array_num_elements(values); from += CHUNK) {
    const size_t count = histogram_load(values, from, chunk);
    for (size_t i = 0; i < count; ++i) {
      if (!isfinite(chunk[i])) continue;
      const int at = (int)((chunk[i] - least) * scale);
      ++counts[at < LS_HISTOGRAM_RANGES ? at : LS_HISTOGRAM_RANGES - 1];
    }
  }
  out->count = LS_HISTOGRAM_RANGES;
  for (int i = 0; i < LS_HISTOGRAM_RANGES; ++i) {
    out->limits[i] = least + (i + 1) / scale;
    out->counts[i] = (double)counts[i];
  }
  out->limits[LS_HISTOGRAM_RANGES - 1] = out->most;
}

void ls_histogram_of(const ls_array *values, ls_histogram *out) {
  histogram_measure(values, out);
  // A scale that is not finite puts everything in one range.
  const double scale = LS_HISTOGRAM_RANGES / (out->most - out->least);
  if (isfinite(scale) && scale > 0) {
    histogram_deal(values, out);
  } else {
    out->limits[0] = out->most;
    out->counts[0] = out->values;
  }
}
