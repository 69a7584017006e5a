// SPDX-License-Identifier: Apache-2.0
// Prints any graph but the eager one as text. README.md has the grammar.
#include "graph/text/text.h"

#include <stdio.h>

#include "base/require.h"
#include "base/values/array_internal.h"
#include "graph/layers.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"

typedef struct printer {
  ls_text *out;
  const ls_graph *root;
  ls_map variables;  // Address -> number among variables of one name.
  int depth;
} printer;

// ---- Texts with their allocator --------------------------------------------
// Size of the text's prefix, which holds the allocator's address. With it the
// text stays aligned and can be released without other data.
enum { LS_PRINT_PREFIX = 16 };

void ls_print_begin(ls_text *out, ls_allocator *allocator) {
  char prefix[LS_PRINT_PREFIX] = {0};
  memcpy(prefix, &allocator, sizeof(allocator));
  ls_text_init(out, allocator);
  ls_text_append_bytes(out, prefix, sizeof(prefix));
}

ls_status ls_print_end(ls_text *out, char **out_text) {
  char *text = ls_text_finish(out);
  *out_text = text == NULL ? NULL : text + LS_PRINT_PREFIX;
  return text == NULL ? ls_out_of_memory() : ls_ok();
}

ls_status ls_print_copy(ls_allocator *allocator, const char *text,
                        char **out_text) {
  ls_text copy;
  ls_print_begin(&copy, allocator);
  ls_text_append(&copy, text);
  return ls_print_end(&copy, out_text);
}

void *ls_print_array(ls_allocator *allocator, size_t count, size_t size) {
  char *memory =
      ls_allocate_zeroed(allocator, 1, LS_PRINT_PREFIX + count * size);
  if (memory == NULL) return NULL;
  memcpy(memory, &allocator, sizeof(allocator));
  return memory + LS_PRINT_PREFIX;
}

void ls_print_array_release(void *array) {
  ls_allocator *allocator = NULL;
  if (array == NULL) return;
  char *memory = (char *)array - LS_PRINT_PREFIX;
  memcpy(&allocator, memory, sizeof(allocator));
  ls_release(allocator, memory);
}

void ls_text_release(char *text) { ls_print_array_release(text); }

// ---- Variables -------------------------------------------------------------
static const ls_variable *as_variable(const ls_object *object) {
  if (object == NULL || object->type != &ls_variable_object_type) return NULL;
  return (const ls_variable *)(const void *)object;
}

// Gives a variable a number among variables of its name, from 1 on.
static bool print_add_variable(printer *p, const ls_object *object) {
  const ls_variable *variable = as_variable(object);
  if (variable == NULL || ls_map_has(&p->variables, &object, sizeof(object)))
    return true;
  uintptr_t number = 1;
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&p->variables, &at, &item);) {
    const ls_variable *other = NULL;
    memcpy(&other, item.key, sizeof(other));
    if (strcmp(other->name, variable->name) == 0) ++number;
  }
  return ls_map_insert(&p->variables, &object, sizeof(object), (void *)number);
}

// Returns the variable as which a collection's leaf is printed, NULL if the
// leaf is not a variable. A distributed variable is printed as its first
// component, because the text has no containers.
static const ls_variable *collected(ls_nest leaf) {
  if (leaf.kind != LS_KIND_VARIABLE) return NULL;
  const ls_variable *variable = leaf.as.ref;
  return variable->num_components > 0 ? variable->components[0] : variable;
}

static bool find_collected(printer *p) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&p->root->collections, &at, &item);) {
    size_t count = 0;
    const ls_nest *leaves = ls_collection_leaves(item.value, &count);
    for (size_t i = 0; i < count; ++i) {
      const ls_variable *variable = collected(leaves[i]);
      if (variable != NULL &&
          !print_add_variable(p, (const ls_object *)(const void *)variable))
        return false;
    }
  }
  return true;
}

static bool find_variables(printer *p, const ls_graph *graph) {
  for (size_t i = 0; i < graph->num_variables; ++i) {
    const ls_variable *variable = as_variable(graph->variables[i]);
    if (variable != NULL && variable->num_components > 0) continue;
    if (!print_add_variable(p, graph->variables[i])) return false;
  }
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);)
    for (uint32_t k = 0; k < walk.node->num_attrs; ++k)
      if (walk.node->attrs[k].kind == LS_ATTR_OBJECT &&
          !print_add_variable(p, walk.node->attrs[k].as.object))
        return false;
  return true;
}

static void print_variable(printer *p, const ls_variable *variable) {
  const uintptr_t number =
      (uintptr_t)ls_map_find(&p->variables, &variable, sizeof(variable));
  ls_text_append_char(p->out, '@');
  ls_print_string(p->out, variable->name, strlen(variable->name));
  if (number > 1)
    ls_text_append_format(p->out, "#%llu", (unsigned long long)number);
}

static void print_declarations(printer *p) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&p->variables, &at, &item);) {
    const ls_variable *variable = NULL;
    memcpy(&variable, item.key, sizeof(variable));
    ls_text_append(p->out, "variable ");
    print_variable(p, variable);
    ls_text_append(p->out, " : ");
    ls_print_type(p->out, variable->type);
    if (variable->trainable) ls_text_append(p->out, " trainable");
    if (variable->graph == p->root && variable->initializer.id != 0)
      ls_text_append_format(p->out, " initializer %%%llu",
                            (unsigned long long)variable->initializer.id);
    ls_text_append_char(p->out, '\n');
  }
}

// ---- Ops -------------------------------------------------------------------
static void print_graph(printer *p, const ls_graph *graph,
                        const ls_graph *holder);

static void indent(printer *p) {
  for (int i = 0; i < p->depth; ++i)
    ls_text_append(p->out, "  ");
}

static void print_refs(printer *p, const ls_graph *graph, const uint64_t *refs,
                       size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(p->out, ", ");
    ls_print_ref(p->out, graph, refs[i]);
  }
}

static void print_object(printer *p, const ls_object *object) {
  const ls_variable *variable = as_variable(object);
  if (variable != NULL) {
    print_variable(p, variable);
    return;
  }
  ls_text_append(p->out, "object ");
  const char *name = object == NULL ? "" : object->type->name;
  ls_print_string(p->out, name, strlen(name));
}

static void print_attrs(printer *p, const ls_node *node) {
  if (node->num_attrs == 0) return;
  ls_text_append(p->out, " {");
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    const ls_attr *attr = &node->attrs[i];
    if (i > 0) ls_text_append(p->out, ", ");
    if (ls_print_is_word(attr->name))
      ls_text_append(p->out, attr->name);
    else
      ls_print_string(p->out, attr->name, strlen(attr->name));
    ls_text_append(p->out, " = ");
    if (attr->kind == LS_ATTR_OBJECT)
      print_object(p, attr->as.object);
    else
      ls_print_value(p->out, attr);
  }
  ls_text_append_char(p->out, '}');
}

static void print_name(printer *p, const ls_graph *graph, ls_node *node) {
  if (node->base == NULL) return;
  const char *name = ls_node_name((ls_graph *)(uintptr_t)graph, node);
  // The full name could not be composed.
  if (node->rendered == NULL) p->out->failed = true;
  ls_text_append(p->out, " # ");
  ls_print_string(p->out, name, strlen(name));
}

// Prints the captured value of a parameter. Without the word `outer`, the value
// is one of the enclosing graph in the same text.
static void print_capture(printer *p, const ls_graph *graph,
                          const ls_graph *holder, const ls_node *node) {
  if (node->type != LS_OP_PARAMETER) return;
  for (size_t i = 0; i < graph->num_captures; ++i) {
    const ls_capture *capture = &graph->captures[i];
    if (ls_ref_id(capture->inner) != node->id) continue;
    ls_text_append(p->out, " captures (");
    const ls_graph *outer = ls_graph_resolve(capture->outer.graph);
    if (holder != NULL && outer != holder) ls_text_append(p->out, "outer ");
    ls_print_ref(p->out, outer, capture->outer.ref);
    ls_text_append_char(p->out, ')');
    return;
  }
}

static void print_regions(printer *p, const ls_graph *graph,
                          const ls_node *node) {
  if (node->num_regions == 0) return;
  ls_text_append(p->out, " (");
  for (uint32_t i = 0; i < node->num_regions; ++i) {
    if (i > 0) ls_text_append(p->out, ", ");
    print_graph(p, ls_graph_resolve(node->regions[i]), graph);
  }
  ls_text_append_char(p->out, ')');
}

static void print_node(printer *p, const ls_graph *graph,
                       const ls_graph *holder, ls_node *node) {
  indent(p);
  ls_text_append_char(p->out, '%');
  ls_text_append_i64(p->out, (int64_t)node->id);
  if (node->num_outputs > 1) {
    ls_text_append_char(p->out, ':');
    ls_text_append_i64(p->out, node->num_outputs);
  }
  ls_text_append(p->out, " = ");
  ls_text_append(p->out, ls_node_info(node)->name);
  ls_text_append_char(p->out, '(');
  print_refs(p, graph, node->inputs, node->num_inputs);
  ls_text_append_char(p->out, ')');
  for (uint32_t i = 0; i < node->num_control; ++i)
    ls_text_append_format(p->out, " ^%%%llu",
                          (unsigned long long)node->control[i]);
  print_attrs(p, node);
  print_name(p, graph, node);
  if (node->device != NULL) {
    ls_text_append(p->out, " @");
    ls_print_string(p->out, node->device, strlen(node->device));
  }
  if (node->varying) ls_text_append(p->out, " varying");
  print_capture(p, graph, holder, node);
  print_regions(p, graph, node);
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    ls_text_append(p->out, i == 0 ? " : " : ", ");
    ls_print_type(p->out, node->outputs[i]);
  }
  ls_text_append_char(p->out, '\n');
}

static const char *kind_name(ls_graph_kind kind) {
  switch (kind) {
  case LS_GRAPH_BUILD:
    return "build";
  case LS_GRAPH_FUNCTION:
    return "function";
  case LS_GRAPH_REGION:
    return "region";
  case LS_GRAPH_EAGER:
    return "eager";
  case LS_GRAPH_LOWERED:
    return "lowered";
  }
  return "";
}

// Prints a graph; `holder` is the graph whose op has it as a region, NULL for
// the outermost.
static void print_graph(printer *p, const ls_graph *graph,
                        const ls_graph *holder) {
  ls_text_append_format(p->out, "graph %s ", kind_name(graph->kind));
  ls_print_string(p->out, graph->name, strlen(graph->name));
  if (graph->seed != 0)
    ls_text_append_format(p->out, " seed %lld", (long long)graph->seed);
  ls_text_append(p->out, graph->is_while_body ? " loop {\n" : " {\n");
  ++p->depth;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    print_node(p, graph, holder, graph->nodes[i]);
  if (graph->num_results > 0) {
    indent(p);
    ls_text_append(p->out, "return ");
    print_refs(p, graph, graph->results, graph->num_results);
    ls_text_append_char(p->out, '\n');
  }
  --p->depth;
  indent(p);
  ls_text_append_char(p->out, '}');
}

// ---- Collections -----------------------------------------------------------
// Returns true if a text can contain the leaf: variables, and ops and values of
// the graph itself.
static bool has_text(const printer *p, ls_nest leaf) {
  return collected(leaf) != NULL ||
         (leaf.kind == LS_KIND_TENSOR && leaf.as.tensor.graph == p->root) ||
         (leaf.kind == LS_KIND_OP && leaf.as.op.graph == p->root);
}

static void print_leaf(printer *p, ls_nest leaf) {
  if (leaf.kind == LS_KIND_TENSOR)
    ls_print_ref(p->out, p->root, leaf.as.tensor.ref);
  else if (leaf.kind == LS_KIND_OP)
    ls_text_append_format(p->out, "op %%%llu",
                          (unsigned long long)leaf.as.op.id);
  else
    print_variable(p, collected(leaf));
}

static void print_collections(printer *p) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&p->root->collections, &at, &item);) {
    size_t count = 0, printed = 0;
    const ls_nest *leaves = ls_collection_leaves(item.value, &count);
    for (size_t i = 0; i < count; ++i) {
      if (!has_text(p, leaves[i])) continue;
      if (printed++ == 0) {
        ls_text_append(p->out, "collection ");
        ls_print_string(p->out, item.key, item.size);
        ls_text_append(p->out, " = ");
      } else {
        ls_text_append(p->out, ", ");
      }
      print_leaf(p, leaves[i]);
    }
    if (printed > 0) ls_text_append_char(p->out, '\n');
  }
}

ls_status ls_graph_print(const ls_graph *graph, char **out_text) {
  LS_REQUIRE_OUT(out_text, graph);
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_failed_precondition(
        "the eager graph has no text: its ops run as they are added; print a "
        "build graph or a function");
  ls_text text;
  printer p = {.out = &text, .root = graph};
  ls_print_begin(&text, graph->allocator);
  ls_map_init(&p.variables, graph->allocator);
  const bool found = find_variables(&p, graph) && find_collected(&p);
  if (found) {
    print_declarations(&p);
    print_graph(&p, graph, NULL);
    ls_text_append_char(&text, '\n');
    print_collections(&p);
  } else {
    text.failed = true;
  }
  ls_map_deinit(&p.variables);
  return ls_print_end(&text, out_text);
}

// ---- Tensors and ops in nests ----------------------------------------------
// Prints tensors and ops for nests.

static ls_node *tensor_print_node_of(ls_graph *graph, uint64_t id) {
  return ls_graph_node(ls_graph_resolve(graph), id);
}

static ls_array *known_value(ls_tensor tensor) {
  ls_node *node = tensor_print_node_of(tensor.graph, ls_ref_id(tensor.ref));
  if (node == NULL || ls_ref_output(tensor.ref) >= node->num_outputs)
    return NULL;
  if (node->type == LS_OP_CONSTANT && node->values == NULL) {
    const ls_attr *value = ls_node_attr(node, LS_ATTR_ID_VALUE);
    return value != NULL ? value->as.array : NULL;
  }
  ls_graph *graph = ls_graph_resolve(tensor.graph);
  if (graph->kind != LS_GRAPH_EAGER) return NULL;
  ls_library_layers.eager->catch_up(graph, node);
  return node->values == NULL ? NULL : node->values[ls_ref_output(tensor.ref)];
}

static void print_tensor(ls_tensor tensor, char *buffer, size_t size) {
  ls_node *node = tensor_print_node_of(tensor.graph, ls_ref_id(tensor.ref));
  const unsigned output = ls_ref_output(tensor.ref);
  if (node == NULL || output >= node->num_outputs) {
    snprintf(buffer, size, "stale tensor %llu:%u",
             (unsigned long long)(ls_ref_id(tensor.ref)), output);
    return;
  }
  ls_graph *graph = ls_graph_resolve(tensor.graph);
  const ls_array *value = known_value(tensor);
  if (node->failure != NULL) {
    snprintf(buffer, size, "failed tensor");
    return;
  }
  char text[160];
  const ls_type type = node->outputs[output];
  if (value != NULL)
    ls_array_print(value, text, sizeof(text));
  else
    ls_shape_print(type.dtype, type.shape, text, sizeof(text));
  const char *name = ls_node_name(graph, node);
  if (graph->kind == LS_GRAPH_EAGER || name[0] == '\0')
    snprintf(buffer, size, "tensor %s", text);
  else
    snprintf(buffer, size, "tensor '%s:%u' %s", name, output, text);
}

static void print_op(ls_op op, char *buffer, size_t size) {
  ls_node *node = tensor_print_node_of(op.graph, op.id);
  if (node == NULL)
    snprintf(buffer, size, "stale op %llu", (unsigned long long)op.id);
  else
    ls_node_describe(ls_graph_resolve(op.graph), node, buffer, size);
}

const ls_tensor_vtable ls_graph_tensors = {
    .print = print_tensor, .print_op = print_op, .known_value = known_value};
