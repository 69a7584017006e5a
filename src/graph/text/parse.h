// SPDX-License-Identifier: Apache-2.0
//
// Declarations shared by the parts of the parser. README.md has the grammar.
#ifndef LS_GRAPH_TEXT_PARSE_H_
#define LS_GRAPH_TEXT_PARSE_H_

#include "base/memory/arena.h"
#include "base/memory/map.h"
#include "graph/graph.h"
#include "graph/text/lexer.h"
#include "graph/variables/variable.h"

typedef struct ls_parser {
  ls_lexer lexer;
  ls_arena scratch;  // Parts of an op until it is made.
  ls_runtime *runtime;
  const ls_host_kernel *const *kernels;
  size_t num_kernels;
  ls_map variables;  // Declared variables: name + '#' + number -> ls_variable.
  int depth;         // Depth of regions.
} ls_parser;

// A growing list in the parser's scratch memory.
typedef struct ls_parse_list {
  void *items;
  size_t count, capacity;
} ls_parse_list;
// Returns room for one more item at the end, NULL without memory.
void *ls_parse_push(ls_parser *parser, ls_parse_list *list, size_t item_size);

// Parses a type such as f32[2,?].
ls_status ls_parse_type(ls_parser *parser, ls_type *out_type);
// Parses a float of `dtype` into `out`.
ls_status ls_parse_float(ls_parser *parser, ls_dtype dtype, void *out);
ls_status ls_parse_bool(ls_parser *parser, bool *out_value);
// Parses the elements after an array's type: [1, 2.5] or base64 "...". The
// caller owns the array.
ls_status ls_parse_array(ls_parser *parser, ls_type type, ls_array **out_array);
// Parses {name = value, ...} or nothing. The attributes are in scratch memory;
// their arrays and objects hold references, released by ls_parse_release_attrs.
ls_status ls_parse_attrs(ls_parser *parser, ls_parse_list *out_attrs);
void ls_parse_release_attrs(const ls_parse_list *attrs);
// Parses %3 or %3:1. If `graph` is given it must have that value.
ls_status ls_parse_ref(ls_parser *parser, const ls_graph *graph,
                       uint64_t *out_ref);
// Parses the collections that follow a graph, and adds them to it.
ls_status ls_parse_collections(ls_parser *parser, ls_graph *graph);
// Parses @"name" or @"name"#2, borrowed; NULL if it was not declared.
ls_status ls_parse_variable(ls_parser *parser, ls_variable **out_variable);

#endif  // LS_GRAPH_TEXT_PARSE_H_
