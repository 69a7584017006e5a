// SPDX-License-Identifier: Apache-2.0
// Parses the collections that follow a build graph.
#include "graph/text/parse.h"

// Parses @"w", op %3, or a value.
static ls_status parse_entry(ls_parser *parser, ls_graph *graph,
                             ls_nest *out_leaf) {
  ls_lexer *lexer = &parser->lexer;
  const int line = lexer->token.line;
  uint64_t ref = 0;
  if (ls_lexer_at(lexer, "@")) {
    ls_variable *variable = NULL;
    LS_RETURN_IF_ERROR(ls_parse_variable(parser, &variable));
    *out_leaf = (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = variable};
    return variable != NULL
               ? ls_ok()
               : ls_invalid_argument("line %d: a collection has a variable "
                                     "that is not declared before the graph",
                                     line);
  }
  if (!ls_lexer_accept(lexer, "op")) {
    LS_RETURN_IF_ERROR(ls_parse_ref(parser, graph, &ref));
    *out_leaf = ls_leaf((ls_tensor){graph, ref});
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_parse_ref(parser, NULL, &ref));
  const ls_op op = {graph, ls_ref_id(ref)};
  *out_leaf = ls_nest_op(op);
  return ls_ref_output(ref) == 0 && ls_graph_node(graph, op.id) != NULL
             ? ls_ok()
             : ls_invalid_argument(
                   "line %d: op %%%llu of a collection is no op of graph "
                   "'%.80s'",
                   line, (unsigned long long)op.id, graph->name);
}

static ls_status parse_entries(ls_parser *parser, ls_graph *graph,
                               const char *name) {
  ls_lexer *lexer = &parser->lexer;
  size_t count = 0;
  do {
    const int line = lexer->token.line;
    ls_nest leaf = ls_none();
    LS_RETURN_IF_ERROR(parse_entry(parser, graph, &leaf));
    LS_RETURN_IF_ERROR(ls_graph_add_to_collection(graph, name, leaf));
    if (ls_graph_collection(graph, name, NULL, 0) != ++count)
      return ls_invalid_argument(
          "line %d: entry %zu of collection \"%.80s\" is one before it", line,
          count, name);
  } while (ls_lexer_accept(lexer, ","));
  return ls_ok();
}

ls_status ls_parse_collections(ls_parser *parser, ls_graph *graph) {
  ls_lexer *lexer = &parser->lexer;
  while (ls_lexer_at(lexer, "collection")) {
    const int line = lexer->token.line;
    char *name = NULL;
    LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "collection"));
    LS_RETURN_IF_ERROR(ls_lexer_string(lexer, "a collection's name",
                                       &parser->scratch, &name, NULL));
    if (graph->kind != LS_GRAPH_BUILD)
      return ls_invalid_argument("line %d: collection \"%.80s\" of a graph "
                                 "that is no build graph",
                                 line, name);
    if (ls_graph_collection(graph, name, NULL, 0) > 0)
      return ls_invalid_argument("line %d: collection \"%.80s\" is there twice",
                                 line, name);
    LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "="));
    LS_RETURN_IF_ERROR(parse_entries(parser, graph, name));
  }
  return ls_ok();
}
