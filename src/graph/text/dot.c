// SPDX-License-Identifier: Apache-2.0
//
// Prints a graph as a DOT drawing: ops are boxes, values are arrows with their
// types, control inputs are dashed arrows, and regions are frames inside their
// op's frame.
#include "graph/text/text.h"

#include "base/require.h"

typedef struct drawing {
  ls_text *out;
  size_t graphs;  // Number of graphs drawn so far.
} drawing;

// Writes text between the quotes of a label.
static void put_label(ls_text *out, const char *text) {
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') ls_text_append_char(out, '\\');
    ls_text_append_char(out, *text);
  }
}

static void indent(ls_text *out, int depth) {
  for (int i = 0; i < depth; ++i)
    ls_text_append(out, "  ");
}

// Writes an op's identifier in the drawing: graph number and id.
static void put_id(ls_text *out, size_t graph, uint64_t id) {
  ls_text_append_format(out, "n%zu_%llu", graph, (unsigned long long)id);
}

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
}

static void draw_results(drawing *d, const ls_graph *graph, size_t number,
                         int depth) {
  for (size_t i = 0; i < graph->num_results; ++i) {
    indent(d->out, depth);
    ls_text_append_format(d->out,
                          "r%zu_%zu [label=\"result %zu\", "
                          "shape=ellipse];\n",
                          number, i, i);
    indent(d->out, depth);
    put_id(d->out, number, ls_ref_id(graph->results[i]));
    ls_text_append_format(d->out, " -> r%zu_%zu;\n", number, i);
  }
}

static void dot_draw(drawing *d, const ls_graph *graph, int depth) {
  const size_t number = d->graphs++;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_node *node = graph->nodes[i];
    draw_box(d, graph, number, node, depth);
    for (uint32_t k = 0; k < node->num_regions; ++k) {
      const ls_graph *region = ls_graph_resolve(node->regions[k]);
      indent(d->out, depth);
      ls_text_append_format(d->out, "subgraph cluster_%zu {\n", d->graphs);
      indent(d->out, depth + 1);
      ls_text_append_format(d->out,
                            "label=\"%s %llu: ", ls_node_info(node)->name,
                            (unsigned long long)node->id);
      put_label(d->out, region->name);
      ls_text_append(d->out, "\";\n");
      dot_draw(d, region, depth + 1);
      indent(d->out, depth);
      ls_text_append(d->out, "}\n");
    }
  }
  for (size_t i = 0; i < graph->num_nodes; ++i)
    draw_edges(d, graph, number, graph->nodes[i], depth);
  draw_results(d, graph, number, depth);
}

ls_status ls_graph_print_dot(const ls_graph *graph, char **out_text) {
  LS_REQUIRE_OUT(out_text);
  LS_REQUIRE(graph);
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_failed_precondition("the eager graph cannot be drawn: its ops "
                                  "run as they are added");
  ls_text text;
  ls_print_begin(&text, graph->allocator);
  ls_text_append(&text, "digraph \"");
  put_label(&text, graph->name);
  ls_text_append(&text, "\" {\n  node [shape=box];\n");
  dot_draw(&(drawing){.out = &text}, graph, 1);
  ls_text_append(&text, "}\n");
  return ls_print_end(&text, out_text);
}
