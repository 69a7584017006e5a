// SPDX-License-Identifier: Apache-2.0
//
// Prints a graph as a DOT drawing: ops are boxes and variables cylinders, in
// frames of their name scopes; values are arrows with their types, control
// inputs are dashed arrows, and regions are frames beside their op.
#include "graph/text/text.h"

#include "base/require.h"
#include "graph/walk.h"

// Scopes deeper than this are not framed.
enum { DEEPEST_SCOPE = 32 };

typedef struct drawing {
  ls_text *out;
  ls_allocator *allocator;
  size_t graphs, clusters;  // Numbers of graphs and frames drawn so far.
  ls_map *variables;        // Address -> number, from 1 on.
} drawing;

// A variable, or an op of a graph.
typedef struct dot_item {
  const char *name;
  const ls_variable *variable;  // NULL: an op.
  uintptr_t number;             // The variable's.
  ls_node *node;
} dot_item;

// Writes text between the quotes of a label.
static void put_label_bytes(ls_text *out, const char *text, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (text[i] == '"' || text[i] == '\\') ls_text_append_char(out, '\\');
    ls_text_append_char(out, text[i]);
  }
}

static void put_label(ls_text *out, const char *text) {
  put_label_bytes(out, text, strlen(text));
}

static void indent(ls_text *out, int depth) {
  for (int i = 0; i < depth; ++i)
    ls_text_append(out, "  ");
}

// Writes an op's identifier in the drawing: graph number and id.
static void put_id(ls_text *out, size_t graph, uint64_t id) {
  ls_text_append_format(out, "n%zu_%llu", graph, (unsigned long long)id);
}

// ---- Variables -------------------------------------------------------------
// Numbers the variables that ops of the graph and its regions use.
static ls_status find_variables(drawing *d, const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_variable *variable = ls_node_named_variable(walk.node);
    if (variable == NULL ||
        ls_map_has(d->variables, &variable, sizeof(variable)))
      continue;
    const uintptr_t number = ls_map_count(d->variables) + 1;
    if (!ls_map_insert(d->variables, &variable, sizeof(variable),
                       (void *)number))
      return ls_out_of_memory();
  }
  return ls_ok();
}

static uintptr_t number_of(const drawing *d, const ls_variable *variable) {
  return (uintptr_t)ls_map_find(d->variables, &variable, sizeof(variable));
}

static void draw_variable(drawing *d, const dot_item *item, int depth) {
  indent(d->out, depth);
  ls_text_append_format(d->out, "v%zu [label=\"", (size_t)item->number);
  put_label(d->out, item->name);
  ls_text_append(d->out, "\\n");
  ls_print_type(d->out, item->variable->type);
  ls_text_append(d->out, "\", shape=cylinder];\n");
}

// Draws an arrow between an op and the variable that it reads or writes.
static void draw_use(drawing *d, size_t number, const ls_node *node,
                     int depth) {
  const ls_variable *variable = ls_node_named_variable(node);
  if (variable == NULL) return;
  const size_t variable_number = (size_t)number_of(d, variable);
  indent(d->out, depth);
  if (ls_node_assigns(node)) {
    put_id(d->out, number, node->id);
    ls_text_append_format(d->out, " -> v%zu", variable_number);
  } else {
    ls_text_append_format(d->out, "v%zu -> ", variable_number);
    put_id(d->out, number, node->id);
  }
  ls_text_append(d->out, " [label=\"");
  ls_print_type(d->out, variable->type);
  ls_text_append(d->out, "\"];\n");
}

// ---- Ops -------------------------------------------------------------------
static void draw_box(drawing *d, const ls_graph *graph, size_t number,
                     ls_node *node, int depth) {
  const char *name = ls_node_name((ls_graph *)(uintptr_t)graph, node);
  indent(d->out, depth);
  put_id(d->out, number, node->id);
  ls_text_append_format(d->out, " [label=\"%s", ls_node_info(node)->name);
  if (name[0] != '\0') {
    ls_text_append(d->out, "\\n");
    put_label(d->out, name);
  }
  if (node->device != NULL) {
    ls_text_append(d->out, "\\n");
    put_label(d->out, node->device);
  }
  ls_text_append_format(d->out, "\"%s];\n",
                        node->num_regions > 0 ? ", shape=doubleoctagon" : "");
}

static void draw_edges(drawing *d, const ls_graph *graph, size_t number,
                       const ls_node *node, int depth) {
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const ls_type type = ls_graph_type(graph, node->inputs[i]);
    indent(d->out, depth);
    put_id(d->out, number, ls_ref_id(node->inputs[i]));
    ls_text_append(d->out, " -> ");
    put_id(d->out, number, node->id);
    ls_text_append(d->out, " [label=\"");
    ls_print_type(d->out, type);
    ls_text_append(d->out, "\"];\n");
  }
  for (uint32_t i = 0; i < node->num_control; ++i) {
    indent(d->out, depth);
    put_id(d->out, number, node->control[i]);
    ls_text_append(d->out, " -> ");
    put_id(d->out, number, node->id);
    ls_text_append(d->out, " [style=dashed];\n");
  }
  draw_use(d, number, node, depth);
}

static void draw_results(drawing *d, const ls_graph *graph, size_t number,
                         int depth) {
  for (size_t i = 0; i < graph->num_results; ++i) {
    indent(d->out, depth);
    ls_text_append_format(d->out,
                          "r%zu_%zu [label=\"result %zu\", shape=ellipse];\n",
                          number, i, i);
    indent(d->out, depth);
    put_id(d->out, number, ls_ref_id(graph->results[i]));
    ls_text_append_format(d->out, " -> r%zu_%zu;\n", number, i);
  }
}

static ls_status draw_graph(drawing *d, const ls_graph *graph, int depth);

static void begin_frame(drawing *d, int depth) {
  indent(d->out, depth);
  ls_text_append_format(d->out, "subgraph cluster_%zu {\n", ++d->clusters);
  indent(d->out, depth + 1);
  ls_text_append(d->out, "label=\"");
}

static void end_frame(drawing *d, int depth) {
  indent(d->out, depth);
  ls_text_append(d->out, "}\n");
}

static ls_status draw_regions(drawing *d, const ls_node *node, int depth) {
  for (uint32_t k = 0; k < node->num_regions; ++k) {
    const ls_graph *region = ls_graph_resolve(node->regions[k]);
    begin_frame(d, depth);
    ls_text_append_format(d->out, "%s %llu: ", ls_node_info(node)->name,
                          (unsigned long long)node->id);
    put_label(d->out, region->name);
    ls_text_append(d->out, "\";\n");
    LS_RETURN_IF_ERROR(draw_graph(d, region, depth + 1));
    end_frame(d, depth);
  }
  return ls_ok();
}

// ---- Scopes ----------------------------------------------------------------
// Items of one graph to draw, and as much room to sort them.
typedef struct dot_items {
  const ls_graph *graph;
  size_t number;  // The graph's.
  dot_item *items, *room;
} dot_items;

// Returns the length of the first scope in a name; SIZE_MAX if it is in none.
static size_t scope_size(const char *name) {
  const char *slash = strchr(name, '/');
  return slash == NULL ? SIZE_MAX : (size_t)(slash - name);
}

// Moves the items of the first item's scope to the front, in their order.
// `skip` is the length of the names' common prefix. Returns their number.
static size_t gather_scope(const dot_items *all, size_t first, size_t count,
                           size_t skip) {
  dot_item *items = all->items + first;
  const char *name = items[0].name + skip;
  const size_t size = scope_size(name);
  size_t found = 0, others = 0;
  for (size_t i = 0; i < count; ++i) {
    const char *other = items[i].name + skip;
    if (strncmp(other, name, size + 1) == 0)
      items[found++] = items[i];
    else
      all->room[others++] = items[i];
  }
  if (others > 0) memcpy(items + found, all->room, others * sizeof(*all->room));
  return found;
}

static ls_status draw_item(drawing *d, const dot_items *all,
                           const dot_item *item, int depth) {
  if (item->variable != NULL) {
    draw_variable(d, item, depth);
    return ls_ok();
  }
  draw_box(d, all->graph, all->number, item->node, depth);
  return draw_regions(d, item->node, depth);
}

// Draws items whose names begin with the same `skip` characters: those in no
// further scope, then a frame for each scope.
static ls_status draw_scope(drawing *d, const dot_items *all, size_t first,
                            size_t count, size_t skip, int scopes, int depth) {
  size_t others = 0;
  for (size_t i = 0; i < count; ++i) {
    const dot_item item = all->items[first + i];
    if (scopes < DEEPEST_SCOPE && scope_size(item.name + skip) != SIZE_MAX)
      all->items[first + others++] = item;
    else
      LS_RETURN_IF_ERROR(draw_item(d, all, &item, depth));
  }
  for (size_t done = 0; done < others;) {
    const size_t found = gather_scope(all, first + done, others - done, skip);
    const char *name = all->items[first + done].name + skip;
    const size_t size = scope_size(name);
    begin_frame(d, depth);
    put_label_bytes(d->out, name, size);
    ls_text_append(d->out, "\";\n");
    LS_RETURN_IF_ERROR(draw_scope(d, all, first + done, found, skip + size + 1,
                                  scopes + 1, depth + 1));
    end_frame(d, depth);
    done += found;
  }
  return ls_ok();
}

// ---- Graphs ----------------------------------------------------------------
// Lists the graph's ops, for the outermost graph after all variables.
static size_t list_items(const drawing *d, const ls_graph *graph,
                         bool is_outermost, dot_item *items) {
  size_t count = 0;
  ls_map_item at;
  for (size_t k = 0; is_outermost && ls_map_next(d->variables, &k, &at);) {
    const ls_variable *variable = NULL;
    memcpy(&variable, at.key, sizeof(variable));
    items[count++] = (dot_item){.name = variable->name,
                                .variable = variable,
                                .number = (uintptr_t)at.value};
  }
  for (size_t i = 0; i < graph->num_nodes; ++i)
    items[count++] = (dot_item){
        .name = ls_node_name((ls_graph *)(uintptr_t)graph, graph->nodes[i]),
        .node = graph->nodes[i]};
  return count;
}

static ls_status draw_graph(drawing *d, const ls_graph *graph, int depth) {
  const size_t number = d->graphs++;
  const size_t most = graph->num_nodes + ls_map_count(d->variables) + 1;
  LS_OWN_ARRAY_OR_RETURN(d->allocator, dot_item, items, most);
  LS_OWN_ARRAY_OR_RETURN(d->allocator, dot_item, room, most);
  const size_t count = list_items(d, graph, number == 0, items);
  LS_RETURN_IF_ERROR(draw_scope(d, &(dot_items){graph, number, items, room}, 0,
                                count, 0, 0, depth));
  for (size_t i = 0; i < graph->num_nodes; ++i)
    draw_edges(d, graph, number, graph->nodes[i], depth);
  draw_results(d, graph, number, depth);
  return ls_ok();
}

ls_status ls_graph_print_dot(const ls_graph *graph, char **out_text) {
  LS_REQUIRE_OUT(out_text, graph);
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_failed_precondition(
        "the eager graph cannot be drawn: its ops run as they are added");
  LS_OWN(ls_text, text) = {0};
  LS_OWN(ls_map, variables) = {0};
  ls_map_init(&variables, graph->allocator);
  drawing d = {
      .out = &text, .allocator = graph->allocator, .variables = &variables};
  ls_print_begin(&text, graph->allocator);
  ls_text_append(&text, "digraph \"");
  put_label(&text, graph->name);
  ls_text_append(&text, "\" {\n  node [shape=box];\n");
  LS_RETURN_IF_ERROR(find_variables(&d, graph));
  LS_RETURN_IF_ERROR(draw_graph(&d, graph, 1));
  ls_text_append(&text, "}\n");
  return ls_print_end(&text, out_text);
}
