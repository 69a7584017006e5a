// SPDX-License-Identifier: Apache-2.0
//
// The parser, upper half: variables, graphs and ops. README.md has the grammar.
//
// For any bytes the result is a graph that passes the verifier, or one status;
// memory is bounded by a multiple of the text's length.
#include "graph/text/text.h"

#include "base/require.h"
#include "graph/gather/gather.h"
#include "graph/verify/verify.h"
#include "lockstep/device_name.h"

// Source file of ops read from a text, next to their line.
static const char place[] = "graph text";

typedef struct op_text {
  int line;
  int64_t id, num_outputs;
  uint16_t type;
  ls_parse_list inputs;   // List of uint64_t refs.
  ls_parse_list control;  // List of ls_op.
  ls_parse_list attrs;    // List of ls_attr.
  ls_parse_list regions;  // List of ls_graph *.
  ls_parse_list types;    // List of ls_type.
  char *name, *device;
  bool varying;
  // The captured value; its graph is NULL for `captures (outer ...)`.
  ls_tensor captured;
  bool captures;
} op_text;

static ls_status parse_graph(ls_parser *parser, ls_graph *parent,
                             ls_graph **out_graph);

// Adds the line to an error that another module returned.
static ls_status at_line(int line, ls_status status) {
  return ls_status_annotate(status, "line %d of the graph text", line);
}

// ---- Variables -------------------------------------------------------------
// Parses a variable's name, @"name" or @"name"#2; `out_key` is its key in the
// parser's table.
static ls_status parse_variable_key(ls_parser *parser, char **out_name,
                                    const char **out_key) {
  ls_lexer *lexer = &parser->lexer;
  int64_t number = 1;
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "@"));
  LS_RETURN_IF_ERROR(ls_lexer_string(lexer, "a variable's name",
                                     &parser->scratch, out_name, NULL));
  if (ls_lexer_accept(lexer, "#"))
    LS_RETURN_IF_ERROR(ls_lexer_integer(
        lexer, "the number after a variable's name", 1, INT32_MAX, &number));
  *out_key = ls_arena_format(&parser->scratch, "%s#%d", *out_name, (int)number);
  return *out_key == NULL ? ls_out_of_memory() : ls_ok();
}

ls_status ls_parse_variable(ls_parser *parser, ls_variable **out_variable) {
  char *name = NULL;
  const char *key = NULL;
  LS_RETURN_IF_ERROR(parse_variable_key(parser, &name, &key));
  *out_variable = ls_map_find_text(&parser->variables, key);
  return ls_ok();
}

// Parses a declaration: variable @"w" : f32[2] trainable initializer %4, after
// its first word. The initializer's op is resolved when the graph is complete.
static ls_status parse_declaration(ls_parser *parser) {
  ls_lexer *lexer = &parser->lexer;
  const int line = lexer->token.line;
  char *name = NULL;
  const char *key = NULL;
  ls_type type;
  int64_t initializer = 0;
  LS_RETURN_IF_ERROR(parse_variable_key(parser, &name, &key));
  if (ls_map_find_text(&parser->variables, key) != NULL)
    return ls_invalid_argument("line %d: variable @\"%.80s\" is declared "
                               "twice; a second one of this name is @\"...\"#2",
                               line, name);
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, ":"));
  LS_RETURN_IF_ERROR(ls_parse_type(parser, &type));
  if (type.dtype == LS_DTYPE_NONE || !ls_shape_is_known(type.shape))
    return ls_invalid_argument("line %d: variable @\"%.80s\" is %s; dtype and "
                               "shape of a variable are known",
                               line, name,
                               LS_SHAPE_TEXT(type.dtype, type.shape));
  const bool trainable = ls_lexer_accept(lexer, "trainable");
  if (ls_lexer_accept(lexer, "initializer")) {
    LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "%"));
    LS_RETURN_IF_ERROR(ls_lexer_integer(lexer, "an op's number", 1,
                                        LS_MAX_OP_ID, &initializer));
  }
  ls_variable *variable = NULL;
  if (ls_in_strategy_scope())
    return ls_unimplemented(
        "line %d: variable @\"%.80s\" from its definition in the scope of a "
        "strategy, which makes its variables itself",
        line, name);
  LS_RETURN_IF_ERROR(at_line(line, ls_variable_make(parser->runtime, name, type,
                                                    trainable, &variable)));
  variable->initializer.id = (uint64_t)initializer;
  if (ls_map_insert_text(&parser->variables, key, variable)) return ls_ok();
  ls_variable_release(variable);
  return ls_out_of_memory();
}

// Adds the declared variables to the build graph.
static ls_status give_variables(ls_parser *parser, ls_graph *graph) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&parser->variables, &at, &item);) {
    ls_variable *variable = item.value;
    const uint64_t initializer = variable->initializer.id;
    variable->initializer.id = 0;
    if (graph->kind != LS_GRAPH_BUILD && initializer == 0) continue;
    if (graph->kind != LS_GRAPH_BUILD ||
        (initializer != 0 && ls_graph_node(graph, initializer) == NULL))
      return ls_invalid_argument("variable @\"%.80s\": its initializer %%%llu "
                                 "is no op of a build graph",
                                 variable->name,
                                 (unsigned long long)initializer);
    LS_PUSH_OR_RETURN(graph->allocator, graph->variables, graph->num_variables,
                      graph->variables_capacity,
                      (ls_object *)ls_variable_retain(variable));
    variable->graph = graph;
    if (initializer != 0) variable->initializer = (ls_op){graph, initializer};
  }
  return ls_ok();
}

// ---- References ------------------------------------------------------------
ls_status ls_parse_ref(ls_parser *parser, const ls_graph *graph,
                       uint64_t *out_ref) {
  ls_lexer *lexer = &parser->lexer;
  const int line = lexer->token.line;
  int64_t id = 0, output = 0;
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "%"));
  LS_RETURN_IF_ERROR(
      ls_lexer_integer(lexer, "an op's number", 1, LS_MAX_OP_ID, &id));
  if (ls_lexer_accept(lexer, ":"))
    LS_RETURN_IF_ERROR(ls_lexer_integer(lexer, "an output's number", 0,
                                        LS_MAX_OUTPUTS - 1, &output));
  *out_ref = ls_ref((uint64_t)id, (unsigned)output);
  if (graph == NULL) return ls_ok();
  const ls_node *node = ls_graph_node(graph, (uint64_t)id);
  if (node != NULL && output < node->num_outputs) return ls_ok();
  return ls_invalid_argument("line %d: %%%lld:%lld is no output of an op "
                             "before this place in graph '%.80s'",
                             line, (long long)id, (long long)output,
                             graph->name);
}

static ls_status parse_refs(ls_parser *parser, const ls_graph *graph,
                            ls_parse_list *list) {
  do {
    uint64_t *ref = ls_parse_push(parser, list, sizeof(*ref));
    if (ref == NULL) return ls_out_of_memory();
    LS_RETURN_IF_ERROR(ls_parse_ref(parser, graph, ref));
  } while (ls_lexer_accept(&parser->lexer, ","));
  return ls_ok();
}

static ls_status parse_control(ls_parser *parser, ls_graph *graph,
                               ls_parse_list *list) {
  ls_lexer *lexer = &parser->lexer;
  while (ls_lexer_accept(lexer, "^")) {
    const int line = lexer->token.line;
    int64_t id = 0;
    ls_op *op = ls_parse_push(parser, list, sizeof(*op));
    if (op == NULL) return ls_out_of_memory();
    LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "%"));
    LS_RETURN_IF_ERROR(
        ls_lexer_integer(lexer, "an op's number", 1, LS_MAX_OP_ID, &id));
    if (ls_graph_node(graph, (uint64_t)id) == NULL)
      return ls_invalid_argument(
          "line %d: control input ^%%%lld is no op before this one", line,
          (long long)id);
    *op = (ls_op){graph, (uint64_t)id};
  }
  return ls_ok();
}

// ---- Ops -------------------------------------------------------------------
static ls_status parse_type_name(ls_parser *parser, uint16_t *out_type) {
  const ls_token token = parser->lexer.token;
  char name[64];
  if (token.kind != LS_TOKEN_WORD || token.size >= sizeof(name))
    return ls_lexer_wanted(&parser->lexer, "the name of an op");
  memcpy(name, token.text, token.size);
  name[token.size] = '\0';
  *out_type = ls_op_type_find(name);
  if (*out_type == LS_OP_NONE || *out_type >= LS_OP_TABLE_COUNT)
    return ls_lexer_wanted(&parser->lexer, "the name of an op");
  ls_lexer_next(&parser->lexer);
  return ls_ok();
}

// Parses %4:2 = while(%1, %2).
static ls_status parse_head(ls_parser *parser, const ls_graph *graph,
                            op_text *op) {
  ls_lexer *lexer = &parser->lexer;
  op->line = lexer->token.line;
  op->num_outputs = -1;
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "%"));
  // Ids ascend, but not without gaps: ids of refused ops are missing.
  LS_RETURN_IF_ERROR(ls_lexer_integer(
      lexer, "an op's number", (int64_t)graph->next_id, LS_MAX_OP_ID, &op->id));
  if (ls_lexer_accept(lexer, ":"))
    LS_RETURN_IF_ERROR(ls_lexer_integer(lexer, "a number of outputs", 0,
                                        LS_MAX_OUTPUTS, &op->num_outputs));
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "="));
  LS_RETURN_IF_ERROR(parse_type_name(parser, &op->type));
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "("));
  if (ls_lexer_accept(lexer, ")")) return ls_ok();
  LS_RETURN_IF_ERROR(parse_refs(parser, graph, &op->inputs));
  return ls_lexer_expect(lexer, ")");
}

// Parses captures (%7), values of the enclosing graph, or captures (outer %7),
// values of a graph that is not shown.
static ls_status parse_captures(ls_parser *parser, const ls_graph *graph,
                                op_text *op) {
  ls_lexer *lexer = &parser->lexer;
  if (!ls_lexer_accept(lexer, "captures")) return ls_ok();
  op->captures = true;
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "("));
  if (!ls_lexer_accept(lexer, "outer")) op->captured.graph = graph->parent;
  LS_RETURN_IF_ERROR(
      ls_parse_ref(parser, op->captured.graph, &op->captured.ref));
  return ls_lexer_expect(lexer, ")");
}

static ls_status parse_regions(ls_parser *parser, ls_graph *graph,
                               op_text *op) {
  if (!ls_lexer_accept(&parser->lexer, "(")) return ls_ok();
  if (parser->depth == LS_MAX_GRAPH_DEPTH)
    return ls_invalid_argument(
        "line %d: regions in regions, deeper than the %d that are possible",
        parser->lexer.token.line, LS_MAX_GRAPH_DEPTH);
  ++parser->depth;
  do {
    ls_graph **region = ls_parse_push(parser, &op->regions, sizeof(*region));
    if (region == NULL) return ls_out_of_memory();
    LS_RETURN_IF_ERROR(parse_graph(parser, graph, region));
  } while (ls_lexer_accept(&parser->lexer, ","));
  --parser->depth;
  return ls_lexer_expect(&parser->lexer, ")");
}

static ls_status parse_types(ls_parser *parser, op_text *op) {
  if (ls_lexer_accept(&parser->lexer, ":")) do {
      ls_type *type = ls_parse_push(parser, &op->types, sizeof(*type));
      if (type == NULL) return ls_out_of_memory();
      LS_RETURN_IF_ERROR(ls_parse_type(parser, type));
    } while (ls_lexer_accept(&parser->lexer, ","));
  const size_t wanted =
      op->num_outputs >= 0 ? (size_t)op->num_outputs : op->types.count;
  if (op->types.count == wanted && (op->num_outputs >= 0 || wanted <= 1))
    return ls_ok();
  return ls_invalid_argument(
      "line %d: op %%%lld has %zu types, but '%%%lld%s' is left of its '='",
      op->line, (long long)op->id, op->types.count, (long long)op->id,
      op->num_outputs >= 0 ? ":n' with another n" : "");
}

static ls_status parse_op_text(ls_parser *parser, ls_graph *graph,
                               op_text *op) {
  ls_lexer *lexer = &parser->lexer;
  LS_RETURN_IF_ERROR(parse_head(parser, graph, op));
  LS_RETURN_IF_ERROR(parse_control(parser, graph, &op->control));
  LS_RETURN_IF_ERROR(ls_parse_attrs(parser, &op->attrs));
  if (ls_lexer_accept(lexer, "#"))
    LS_RETURN_IF_ERROR(ls_lexer_string(lexer, "an op's name", &parser->scratch,
                                       &op->name, NULL));
  if (ls_lexer_accept(lexer, "@")) {
    ls_device_name whole;
    LS_RETURN_IF_ERROR(ls_lexer_string(lexer, "a device's name",
                                       &parser->scratch, &op->device, NULL));
    LS_RETURN_IF_ERROR(
        at_line(op->line, ls_device_merge(op->device, NULL, &whole)));
  }
  op->varying = ls_lexer_accept(lexer, "varying");
  LS_RETURN_IF_ERROR(parse_captures(parser, graph, op));
  LS_RETURN_IF_ERROR(parse_regions(parser, graph, op));
  return parse_types(parser, op);
}

// ---- Build the ops ---------------------------------------------------------
static ls_status set_name(ls_graph *graph, ls_node *node, char *name) {
  char *slash = strrchr(name, '/');
  const char *base = slash == NULL ? name : slash + 1;
  const ls_name_scope *scope = NULL;
  char *path = ls_arena_string(&graph->arena, name);
  if (path == NULL) return ls_out_of_memory();
  path[base - name] = '\0';
  LS_RETURN_IF_ERROR(ls_graph_name_scope_path(graph, path, &scope));
  LS_RETURN_IF_ERROR(ls_graph_name_node(graph, node, scope, base));
  if (node->number == 0) return ls_ok();
  return ls_invalid_argument("the name '%.80s' is taken by an op before", name);
}

static ls_status add_capture(ls_graph *graph, const op_text *op) {
  if (ls_graph_find_capture(graph, op->captured) != NULL)
    return ls_invalid_argument("another parameter captures this value already");
  LS_RETURN_IF_ERROR(ls_graph_index_capture(graph, op->captured));
  graph->captures[graph->num_captures++] =
      (ls_capture){op->captured, ls_ref((uint64_t)op->id, 0)};
  return ls_ok();
}

static ls_status add_parameter(ls_graph *graph, const op_text *op) {
  LS_PUSH_OR_RETURN(graph->allocator, graph->parameters, graph->num_parameters,
                    graph->parameters_capacity, ls_ref((uint64_t)op->id, 0));
  if (op->captures) return add_capture(graph, op);
  if (graph->num_captures > 0)
    return ls_invalid_argument("a declared parameter after one that captures");
  graph->num_declared = graph->num_parameters;
  return ls_ok();
}

// Counts the node's random stream, so that random ops added later get other
// streams.
static void count_random(ls_graph *graph, const ls_node *node) {
  ls_graph *whole = graph;
  while (whole->parent != NULL)
    whole = whole->parent;
  const int64_t stream = ls_node_int(node, LS_ATTR_ID_STREAM);
  if (stream >= whole->num_random && stream < UINT32_MAX)
    whole->num_random = (uint32_t)stream + 1;
}

// Appends the node, which then owns the regions.
static ls_status parse_append(ls_graph *graph, op_text *op) {
  const ls_op_spec spec = {.type = op->type,
                           .num_inputs = op->inputs.count,
                           .control = op->control.items,
                           .num_control = op->control.count,
                           .attrs = op->attrs.items,
                           .num_attrs = op->attrs.count,
                           .regions = op->regions.items,
                           .num_regions = op->regions.count};
  const uint64_t next_id = graph->next_id;
  graph->next_id = (uint64_t)op->id;
  ls_node *node =
      ls_graph_append(graph, &spec, op->inputs.items, op->types.count);
  if (node == NULL) {
    graph->next_id = next_id;
    return ls_out_of_memory();
  }
  op->regions.count = 0;
  if (op->types.count > 0)
    memcpy(node->outputs, op->types.items, op->types.count * sizeof(ls_type));
  node->varying = op->varying;
  node->file = place;
  node->line = op->line;
  if (ls_node_info(node)->traits & LS_OP_RANDOM) count_random(graph, node);
  if (op->device != NULL) {
    node->device = ls_arena_string(&graph->arena, op->device);
    if (node->device == NULL) return ls_out_of_memory();
  }
  if (op->name != NULL) LS_RETURN_IF_ERROR(set_name(graph, node, op->name));
  if (op->type == LS_OP_PARAMETER) return add_parameter(graph, op);
  if (op->captures)
    return ls_invalid_argument("only an op 'parameter' captures");
  return ls_ok();
}

static ls_status parse_op(ls_parser *parser, ls_graph *graph) {
  op_text op = {0};
  const ls_arena_mark_point mark = ls_arena_mark(&parser->scratch);
  ls_status status = parse_op_text(parser, graph, &op);
  if (ls_status_is_ok(status))
    status = at_line(op.line, parse_append(graph, &op));
  ls_parse_release_attrs(&op.attrs);
  for (size_t i = 0; i < op.regions.count; ++i)
    ls_graph_free(((ls_graph **)op.regions.items)[i]);
  ls_arena_rollback(&parser->scratch, mark);
  return status;
}

// ---- Graphs ----------------------------------------------------------------
static ls_status parse_kind(ls_parser *parser, const ls_graph *parent,
                            ls_graph_kind *out_kind) {
  static const struct {
    const char *word;
    ls_graph_kind kind;
  } kinds[] = {{"build", LS_GRAPH_BUILD},
               {"function", LS_GRAPH_FUNCTION},
               {"region", LS_GRAPH_REGION},
               {"lowered", LS_GRAPH_LOWERED}};
  for (size_t i = parent != NULL; i < LS_COUNT_OF(kinds); ++i) {
    if (!ls_lexer_accept(&parser->lexer, kinds[i].word)) continue;
    *out_kind = kinds[i].kind;
    return ls_ok();
  }
  return ls_lexer_wanted(&parser->lexer,
                         parent == NULL ? "build, function, region or lowered"
                                        : "function, region or lowered");
}

static ls_status parse_results(ls_parser *parser, ls_graph *graph) {
  ls_parse_list list = {0};
  if (!ls_lexer_accept(&parser->lexer, "return")) return ls_ok();
  LS_RETURN_IF_ERROR(parse_refs(parser, graph, &list));
  return ls_graph_set_results(graph, list.items, list.count);
}

static ls_status parse_body(ls_parser *parser, ls_graph *graph) {
  ls_lexer *lexer = &parser->lexer;
  if (ls_lexer_accept(lexer, "seed"))
    LS_RETURN_IF_ERROR(ls_lexer_integer(lexer, "a graph's seed", INT64_MIN,
                                        INT64_MAX, &graph->seed));
  graph->is_while_body = ls_lexer_accept(lexer, "loop");
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "{"));
  while (ls_lexer_at(lexer, "%"))
    LS_RETURN_IF_ERROR(parse_op(parser, graph));
  LS_RETURN_IF_ERROR(parse_results(parser, graph));
  // Ops that were read have a source position, their line in the text.
  graph->placed = graph->next_id - 1;
  if (ls_lexer_accept(lexer, "}")) return ls_ok();
  return ls_lexer_wanted(lexer, "'%', 'return' or '}'");
}

static ls_status parse_graph(ls_parser *parser, ls_graph *parent,
                             ls_graph **out_graph) {
  ls_lexer *lexer = &parser->lexer;
  ls_graph_kind kind = LS_GRAPH_BUILD;
  char *name = NULL;
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "graph"));
  LS_RETURN_IF_ERROR(parse_kind(parser, parent, &kind));
  LS_RETURN_IF_ERROR(
      ls_lexer_string(lexer, "a graph's name", &parser->scratch, &name, NULL));
  LS_OWN(ls_held_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(
      ls_graph_make(kind, name, parser->runtime, parent, &graph));
  LS_RETURN_IF_ERROR(parse_body(parser, graph));
  return ls_hand_over(&graph, out_graph);
}

static ls_status parse(ls_parser *parser, ls_graph **out_graph) {
  LS_OWN(ls_held_graph, graph) = NULL;
  while (ls_lexer_accept(&parser->lexer, "variable"))
    LS_RETURN_IF_ERROR(parse_declaration(parser));
  LS_RETURN_IF_ERROR(parse_graph(parser, NULL, &graph));
  LS_RETURN_IF_ERROR(ls_parse_collections(parser, graph));
  if (parser->lexer.token.kind != LS_TOKEN_END)
    return ls_lexer_wanted(&parser->lexer, "the end of the text");
  LS_RETURN_IF_ERROR(give_variables(parser, graph));
  LS_RETURN_IF_ERROR(ls_graph_ban_by_marks(graph));
  LS_RETURN_IF_ERROR(ls_verify_refused("the graph text breaks a rule",
                                       ls_graph_verify(graph)));
  ls_graph_give_to_user(graph);
  return ls_hand_over(&graph, out_graph);
}

static void deinit_parser(ls_parser *parser) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&parser->variables, &at, &item);)
    ls_variable_release(item.value);
  ls_map_deinit(&parser->variables);
  ls_arena_deinit(&parser->scratch);
}
LS_OWNED_STRUCT(ls_parser, deinit_parser)

ls_status ls_graph_parse(const char *text, const ls_host_kernel *const *kernels,
                         size_t num_kernels, ls_graph **out_graph) {
  LS_REQUIRE_OUT(out_graph, text);
  LS_REQUIRE_ITEMS(kernels, num_kernels);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_OWN(ls_parser, parser) = {
      .runtime = runtime, .kernels = kernels, .num_kernels = num_kernels};
  ls_arena_init(&parser.scratch, ls_runtime_allocator(runtime));
  ls_map_init(&parser.variables, ls_runtime_allocator(runtime));
  ls_lexer_init(&parser.lexer, text, strlen(text));
  return parse(&parser, out_graph);
}
