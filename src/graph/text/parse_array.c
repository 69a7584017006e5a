// SPDX-License-Identifier: Apache-2.0
// Parses numbers and arrays of them.
#include <errno.h>
#include <stdlib.h>

#include "base/values/numbers.h"
#include "graph/text/text.h"
#include "io/bytes.h"
#include "lockstep/shape_rules.h"

// ---- Numbers ---------------------------------------------------------------
// Copies the token as a zero-terminated text; NULL if it is too long for a
// number.
static const char *number_text(const ls_token *token, char buffer[64]) {
  if ((token->kind != LS_TOKEN_NUMBER && token->kind != LS_TOKEN_WORD) ||
      token->size >= 64)
    return NULL;
  memcpy(buffer, token->text, token->size);
  buffer[token->size] = '\0';
  return buffer;
}

static ls_status parse_unsigned(ls_parser *parser, const char *what, int base,
                                uint64_t most, uint64_t *out_value) {
  char buffer[64];
  char *end = NULL;
  const ls_token *token = &parser->lexer.token;
  const char *text = number_text(token, buffer);
  if (text == NULL || token->kind != LS_TOKEN_NUMBER || *text == '-')
    return ls_lexer_wanted(&parser->lexer, what);
  errno = 0;
  *out_value = strtoull(text, &end, base);
  if (*end != '\0' || errno == ERANGE || *out_value > most)
    return ls_lexer_wanted(&parser->lexer, what);
  ls_lexer_next(&parser->lexer);
  return ls_ok();
}

// Parses nan, or nan(0x7fc00001) with the bits of an unusual one.
static ls_status parse_nan(ls_parser *parser, ls_dtype dtype, void *out) {
  static const char what[] = "the bits of a nan, like 0x7e01,";
  const size_t width = ls_dtype_size(dtype) * 8;
  const uint64_t exponent = dtype == LS_DTYPE_F64   ? 0x7ff0000000000000u
                            : dtype == LS_DTYPE_F32 ? 0x7f800000u
                            : dtype == LS_DTYPE_F16 ? 0x7c00u
                                                    : 0x7f80u;
  const uint64_t mantissa = (exponent & (~exponent + 1)) - 1;
  uint64_t bits = exponent | (mantissa ^ (mantissa >> 1));
  ls_lexer_next(&parser->lexer);
  if (ls_lexer_accept(&parser->lexer, "(")) {
    const ls_lexer before = parser->lexer;
    LS_RETURN_IF_ERROR(
        parse_unsigned(parser, what, 16, UINT64_MAX >> (64 - width), &bits));
    if ((bits & exponent) != exponent || (bits & mantissa) == 0)
      return ls_lexer_wanted(&before, what);
    LS_RETURN_IF_ERROR(ls_lexer_expect(&parser->lexer, ")"));
  }
  memcpy(out, &bits, width / 8);  // The machine is little-endian.
  return ls_ok();
}

ls_status ls_parse_float(ls_parser *parser, ls_dtype dtype, void *out) {
  char buffer[64];
  char *end = NULL;
  if (ls_lexer_at(&parser->lexer, "nan")) return parse_nan(parser, dtype, out);
  const char *text = number_text(&parser->lexer.token, buffer);
  if (text == NULL || strpbrk(text, "xXpP") != NULL)
    return ls_lexer_wanted(&parser->lexer, "a number");
  ls_read_float(dtype, text, &end, out);
  if (end == text || *end != '\0')
    return ls_lexer_wanted(&parser->lexer, "a number");
  ls_lexer_next(&parser->lexer);
  return ls_ok();
}

ls_status ls_parse_bool(ls_parser *parser, bool *out_value) {
  *out_value = ls_lexer_at(&parser->lexer, "true");
  if (!*out_value && !ls_lexer_at(&parser->lexer, "false"))
    return ls_lexer_wanted(&parser->lexer, "true or false");
  ls_lexer_next(&parser->lexer);
  return ls_ok();
}

// ---- Arrays ----------------------------------------------------------------
static ls_status parse_integer(ls_parser *parser, ls_dtype dtype, void *out) {
  const int bits = (int)ls_dtype_size(dtype) * 8;
  if (ls_dtype_is_unsigned(dtype)) {
    uint64_t value = 0;
    LS_RETURN_IF_ERROR(parse_unsigned(parser, "an unsigned integer", 10,
                                      UINT64_MAX >> (64 - bits), &value));
    memcpy(out, &value, (size_t)bits / 8);  // The machine is little-endian.
    return ls_ok();
  }
  int64_t value = 0;
  const int64_t most = INT64_MAX >> (64 - bits);
  LS_RETURN_IF_ERROR(
      ls_lexer_integer(&parser->lexer, "an integer", -most - 1, most, &value));
  memcpy(out, &value, (size_t)bits / 8);
  return ls_ok();
}

static ls_status parse_element(ls_parser *parser, ls_dtype dtype, void *out) {
  if (dtype == LS_DTYPE_STRING) {
    ls_bytes *bytes = out;
    char *text = NULL;
    LS_RETURN_IF_ERROR(ls_lexer_string(&parser->lexer, "a string",
                                       &parser->scratch, &text, &bytes->size));
    bytes->data = text;
    return ls_ok();
  }
  if (dtype == LS_DTYPE_BOOL) {
    bool value = false;
    LS_RETURN_IF_ERROR(ls_parse_bool(parser, &value));
    *(uint8_t *)out = value;
    return ls_ok();
  }
  if (ls_dtype_is_float(dtype)) return ls_parse_float(parser, dtype, out);
  return parse_integer(parser, dtype, out);
}

static ls_status parse_elements(ls_parser *parser, ls_dtype dtype,
                                int64_t count, void *data) {
  LS_RETURN_IF_ERROR(ls_lexer_expect(&parser->lexer, "["));
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) LS_RETURN_IF_ERROR(ls_lexer_expect(&parser->lexer, ","));
    LS_RETURN_IF_ERROR(parse_element(
        parser, dtype, (char *)data + (size_t)i * ls_dtype_size(dtype)));
  }
  return ls_lexer_expect(&parser->lexer, "]");
}

static ls_status parse_base64(ls_parser *parser, size_t size, void *data) {
  const ls_token token = parser->lexer.token;
  if (token.kind != LS_TOKEN_STRING)
    return ls_lexer_wanted(&parser->lexer, "a string of base64 digits");
  if (token.size != (size + 2) / 3 * 4 ||
      !ls_base64_decode(token.text, data, size))
    return ls_invalid_argument(
        "line %d: %zu characters are not the base64 digits of %zu bytes",
        token.line, token.size, size);
  ls_lexer_next(&parser->lexer);
  return ls_ok();
}

ls_status ls_parse_array(ls_parser *parser, ls_type type,
                         ls_array **out_array) {
  ls_lexer *lexer = &parser->lexer;
  *out_array = NULL;
  const int64_t count = ls_shape_num_elements(type.shape);
  if (ls_lexer_at(lexer, "opaque") || type.dtype == LS_DTYPE_NONE ||
      type.dtype == LS_DTYPE_RESOURCE || type.dtype == LS_DTYPE_VARIANT)
    return ls_unimplemented("line %d: an array of %s cannot be made from text",
                            lexer->token.line, ls_dtype_name(type.dtype));
  // Each element takes at least one character, so the text's length bounds the
  // memory.
  if (!ls_shape_is_known(type.shape) || count > lexer->end - lexer->at)
    return ls_invalid_argument("line %d: invalid array %s: the shape must be "
                               "known and every element given",
                               lexer->token.line,
                               LS_SHAPE_TEXT(type.dtype, type.shape));
  const size_t size = (size_t)count * ls_dtype_size(type.dtype);
  const bool packed = ls_lexer_accept(lexer, "base64");
  if ((packed && type.dtype == LS_DTYPE_STRING) ||
      (!packed && ls_dtype_is_complex(type.dtype)))
    return ls_lexer_wanted(lexer, packed ? "strings in [ ]" : "base64");
  void *data = ls_arena_allocate(&parser->scratch, size);
  if (data == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(packed ? parse_base64(parser, size, data)
                            : parse_elements(parser, type.dtype, count, data));
  return ls_array_create_copy(type.dtype, type.shape, data, out_array);
}

// ---- Collections -----------------------------------------------------------
// Parses the collections that follow a build graph.

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
             : ls_invalid_argument("line %d: op %%%llu of a collection is no "
                                   "op of graph '%.80s'",
                                   line, (unsigned long long)op.id,
                                   graph->name);
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
      return ls_invalid_argument(
          "line %d: collection \"%.80s\" of a graph that is no build graph",
          line, name);
    if (ls_graph_collection(graph, name, NULL, 0) > 0)
      return ls_invalid_argument("line %d: collection \"%.80s\" is there twice",
                                 line, name);
    LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "="));
    LS_RETURN_IF_ERROR(parse_entries(parser, graph, name));
  }
  return ls_ok();
}
