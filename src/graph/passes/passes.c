// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/passes.h"

#include <ctype.h>

#include "base/debug.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "graph/compare/compare.h"

// ---- Twins -----------------------------------------------------------------
typedef struct search {
  ls_graph *first, *body;
  const uint32_t *twins;
} search;

// Returns true if two parameters capture the same outer value.
static bool same_capture(const search *s, const ls_node *a, const ls_node *b) {
  const size_t i = (size_t)ls_node_int(a, LS_ATTR_ID_INDEX);
  const size_t k = (size_t)ls_node_int(b, LS_ATTR_ID_INDEX);
  return i >= s->first->num_declared && k >= s->body->num_declared &&
         s->first->captures[i - s->first->num_declared].outer.ref ==
             s->body->captures[k - s->body->num_declared].outer.ref;
}

static bool same_operands(const search *s, const ls_node *a, const ls_node *b) {
  if (a->num_inputs != b->num_inputs) return false;
  for (uint32_t i = 0; i < a->num_inputs; ++i) {
    const uint32_t twin =
        s->twins[ls_graph_position(s->body, ls_ref_id(b->inputs[i]))];
    if (twin == LS_NO_TWIN ||
        s->first->nodes[twin]->id != ls_ref_id(a->inputs[i]) ||
        ls_ref_output(a->inputs[i]) != ls_ref_output(b->inputs[i]))
      return false;
  }
  return true;
}

static bool same_types(const ls_node *a, const ls_node *b) {
  if (a->num_outputs != b->num_outputs) return false;
  for (uint32_t i = 0; i < a->num_outputs; ++i)
    if (a->outputs[i].dtype != b->outputs[i].dtype ||
        !ls_shape_equal(a->outputs[i].shape, b->outputs[i].shape))
      return false;
  return true;
}

static bool are_twins(const search *s, const ls_node *a, const ls_node *b) {
  char difference[400];
  if (a->varying || a->type != b->type || ls_node_is_merge(a) ||
      !same_types(a, b))
    return false;
  if (a->type == LS_OP_PARAMETER) return same_capture(s, a, b);
  // A merge draws once for all, replicas draw their own numbers.
  if ((ls_node_info(a)->traits & LS_OP_RANDOM) && a->once != b->once)
    return false;
  // Ops whose values must be used once cannot be shared.
  if (ls_node_info(a)->traits & LS_OP_LINEAR) return false;
  if (a->num_attrs != b->num_attrs || a->num_regions != b->num_regions ||
      !same_operands(s, a, b))
    return false;
  for (uint32_t i = 0; i < a->num_attrs; ++i)
    if (!ls_attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  // Captures of regions are operands, compared above.
  for (uint32_t i = 0; i < a->num_regions; ++i)
    if (!ls_graph_equal_inside(a->regions[i], b->regions[i], difference,
                               sizeof(difference)))
      return false;
  return true;
}

// Returns the graph's next merge from `*at` on, NULL if there is none.
static const ls_node *next_merge(const ls_graph *graph, size_t *at) {
  while (*at < graph->num_nodes) {
    const ls_node *node = graph->nodes[(*at)++];
    if (ls_node_is_merge(node)) return node;
  }
  return NULL;
}

static ls_status other_merges(const ls_node *a, const ls_node *b) {
  return ls_internal(
      "bodies of one replicate op have different merge calls: '%s' and '%s'",
      a == NULL ? "none" : ls_node_info(a)->name,
      b == NULL ? "none" : ls_node_info(b)->name);
}

ls_status ls_find_twins(ls_graph *first, ls_graph *body, uint32_t *twins) {
  const search s = {first, body, twins};
  const size_t count = first->num_nodes;
  size_t merge = 0, at = 0;
  for (size_t i = 0; i < body->num_nodes; ++i) {
    const ls_node *node = body->nodes[i];
    twins[i] = LS_NO_TWIN;
    if (ls_node_is_merge(node)) {
      const ls_node *other = next_merge(first, &merge);
      if (other == NULL || other->type != node->type ||
          !same_types(other, node))
        return other_merges(other, node);
      twins[i] = (uint32_t)merge - 1;
      continue;
    }
    // The search starts after the last match, because both bodies have nearly
    // the same order.
    for (size_t k = 0; k < count; ++k) {
      const size_t place = at + k < count ? at + k : at + k - count;
      if (!are_twins(&s, first->nodes[place], node)) continue;
      twins[i] = (uint32_t)place;
      at = place + 1 < count ? place + 1 : 0;
      break;
    }
  }
  const ls_node *left = next_merge(first, &merge);
  return left == NULL ? ls_ok() : other_merges(left, NULL);
}

// ---- Debug switches --------------------------------------------------------
// Implements the debug switches for passes: after each pass over a program's
// graph logs a line, verifies the graph, or writes it to a file.

static const char *name_of(const ls_graph *graph) {
  return graph->name != NULL ? graph->name : "";
}

// Prints the path of a file: "<folder>/<number>-<graph>-<pass>.ls", with '_'
// for characters that are unfit for file names.
static void print_path(ls_text *path, ls_runtime *runtime, const char *folder,
                       const ls_graph *graph, const char *pass) {
  ls_text_append_format(path, "%s/%04llu-", folder,
                        (unsigned long long)ls_debug_count_dump(runtime));
  for (const char *name = name_of(graph); *name != '\0'; ++name)
    ls_text_append_char(path, isalnum((unsigned char)*name) ? *name : '_');
  ls_text_append_format(path, "-%s.ls", pass);
}

static ls_status dump(ls_runtime *runtime, const char *folder,
                      const ls_graph *graph, const char *pass) {
  const ls_file_system *files = ls_runtime_files(runtime);
  LS_OWN(ls_text, path) = {.allocator = ls_runtime_allocator(runtime)};
  print_path(&path, runtime, folder, graph, pass);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  LS_RETURN_IF_ERROR(files->make_directories(files->user, folder));
  char *content = NULL;
  LS_RETURN_IF_ERROR(ls_graph_print(graph, &content));
  const ls_status status =
      files->write(files->user, ls_text_data(&path), content, strlen(content));
  ls_text_release(content);
  return status;
}

ls_status ls_watch_pass(ls_runtime *runtime, const ls_graph *graph,
                        const char *pass, bool is_last) {
  if (ls_debug_level(runtime, LS_DEBUG_GRAPH) >= (is_last ? 1 : 2))
    ls_runtime_log(runtime, LS_LOG_DEBUG, "graph", "'%s' after %s: %zu ops",
                   name_of(graph), pass, graph->num_nodes);
  const char *folder = ls_debug_dump_directory(runtime);
  if (folder != NULL)
    LS_RETURN_IF_ERROR(ls_status_annotate(dump(runtime, folder, graph, pass),
                                          "while writing a graph for LS_DUMP"));
  return ls_debug_verify(runtime)
             ? ls_status_annotate(ls_graph_verify(graph), "after %s", pass)
             : ls_ok();
}
