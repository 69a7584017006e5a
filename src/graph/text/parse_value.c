// SPDX-License-Identifier: Apache-2.0
//
// Parses types, attributes and their values.
#include "graph/text/text.h"
#include "lockstep/host.h"
#include "lockstep/shape_rules.h"

void *ls_parse_push(ls_parser *parser, ls_parse_list *list, size_t item_size) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
    void *items =
        ls_arena_allocate_array(&parser->scratch, capacity, item_size);
    if (items == NULL) return NULL;
    if (list->count > 0) memcpy(items, list->items, list->count * item_size);
    list->items = items;
    list->capacity = capacity;
  }
  return (char *)list->items + list->count++ * item_size;
}

// ---- Types -----------------------------------------------------------------
static bool find_dtype(const ls_token *token, ls_dtype *out_dtype) {
  if (token->kind != LS_TOKEN_WORD) return false;
  for (int i = LS_DTYPE_NONE; i < LS_DTYPE_COUNT; ++i) {
    const char *name = ls_dtype_name((ls_dtype)i);
    if (strlen(name) != token->size ||
        memcmp(name, token->text, token->size) != 0)
      continue;
    *out_dtype = (ls_dtype)i;
    return true;
  }
  return false;
}

// Parses the dimensions [2,?] or [...] after a dtype.
static ls_status parse_dimensions(ls_parser *parser, ls_shape *out_shape) {
  ls_lexer *lexer = &parser->lexer;
  const int line = lexer->token.line;
  *out_shape = LS_SCALAR;
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "["));
  if (ls_lexer_accept(lexer, "...")) {
    out_shape->rank = LS_UNKNOWN_RANK;
    return ls_lexer_expect(lexer, "]");
  }
  if (ls_lexer_accept(lexer, "]")) return ls_ok();
  do {
    if (out_shape->rank == LS_MAX_RANK)
      return ls_invalid_argument("line %d: a shape has at most %d dimensions",
                                 lexer->token.line, LS_MAX_RANK);
    int64_t size = LS_UNKNOWN_DIM;
    if (!ls_lexer_accept(lexer, "?"))
      LS_RETURN_IF_ERROR(
          ls_lexer_integer(lexer, "a dimension", 0, INT64_MAX, &size));
    out_shape->dim[out_shape->rank++] = size;
  } while (ls_lexer_accept(lexer, ","));
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "]"));
  return ls_status_annotate(ls_shape_check(*out_shape),
                            "line %d: in this shape", line);
}

ls_status ls_parse_type(ls_parser *parser, ls_type *out_type) {
  if (!find_dtype(&parser->lexer.token, &out_type->dtype))
    return ls_lexer_wanted(&parser->lexer, "a type like f32[2,?]");
  ls_lexer_next(&parser->lexer);
  return parse_dimensions(parser, &out_type->shape);
}

// ---- Attributes ------------------------------------------------------------
// Parses one item of [item, item, ...].
typedef ls_status (*item_parser)(ls_parser *parser, void *out);

static ls_status parse_list(ls_parser *parser, item_parser parse_item,
                            size_t item_size, ls_parse_list *list) {
  LS_RETURN_IF_ERROR(ls_lexer_expect(&parser->lexer, "["));
  if (ls_lexer_accept(&parser->lexer, "]")) return ls_ok();
  do {
    void *item = ls_parse_push(parser, list, item_size);
    if (item == NULL) return ls_out_of_memory();
    LS_RETURN_IF_ERROR(parse_item(parser, item));
  } while (ls_lexer_accept(&parser->lexer, ","));
  return ls_lexer_expect(&parser->lexer, "]");
}

static ls_status parse_int_item(ls_parser *parser, void *out) {
  return ls_lexer_integer(&parser->lexer, "an integer", INT64_MIN, INT64_MAX,
                          out);
}

static ls_status parse_string_item(ls_parser *parser, void *out) {
  return ls_lexer_string(&parser->lexer, "a string", &parser->scratch, out,
                         NULL);
}

// Parses 10, or dim(0, 1): dimension 1 of operand 0.
static ls_status parse_size_item(ls_parser *parser, void *out) {
  ls_size *size = out;
  ls_lexer *lexer = &parser->lexer;
  size->operand = LS_SIZE_CONSTANT;
  if (!ls_lexer_accept(lexer, "dim"))
    return ls_lexer_integer(lexer, "a size or dim(operand, dimension)",
                            INT64_MIN, INT64_MAX, &size->value);
  int64_t operand = 0;
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, "("));
  LS_RETURN_IF_ERROR(
      ls_lexer_integer(lexer, "an operand", 0, INT32_MAX, &operand));
  LS_RETURN_IF_ERROR(ls_lexer_expect(lexer, ","));
  LS_RETURN_IF_ERROR(
      ls_lexer_integer(lexer, "a dimension", 0, LS_MAX_RANK - 1, &size->value));
  size->operand = (int32_t)operand;
  return ls_lexer_expect(lexer, ")");
}

static ls_status parse_number_attr(ls_parser *parser, ls_attr *attr) {
  const ls_token *token = &parser->lexer.token;
  bool is_float = token->kind == LS_TOKEN_WORD;
  for (size_t i = 0; i < token->size; ++i)
    is_float = is_float || strchr(".eEn", token->text[i]) != NULL;
  if (is_float) {
    attr->kind = LS_ATTR_FLOAT;
    return ls_parse_float(parser, LS_DTYPE_F64, &attr->as.f);
  }
  attr->kind = LS_ATTR_INT;
  return ls_lexer_integer(&parser->lexer, "an integer", INT64_MIN, INT64_MAX,
                          &attr->as.i);
}

static ls_status parse_list_attr(ls_parser *parser, ls_attr_kind kind,
                                 ls_attr *attr) {
  ls_parse_list list = {0};
  attr->kind = kind;
  if (kind == LS_ATTR_SIZES) {
    LS_RETURN_IF_ERROR(
        parse_list(parser, parse_size_item, sizeof(ls_size), &list));
    attr->as.sizes.items = list.items;
    attr->as.sizes.count = list.count;
  } else if (kind == LS_ATTR_STRINGS) {
    LS_RETURN_IF_ERROR(
        parse_list(parser, parse_string_item, sizeof(char *), &list));
    attr->as.strings.items = list.items;
    attr->as.strings.count = list.count;
  } else {
    LS_RETURN_IF_ERROR(
        parse_list(parser, parse_int_item, sizeof(int64_t), &list));
    attr->as.ints.items = list.items;
    attr->as.ints.count = list.count;
  }
  return ls_ok();
}

static ls_status parse_kernel(ls_parser *parser, ls_attr *attr) {
  const int line = parser->lexer.token.line;
  char *name = NULL;
  LS_RETURN_IF_ERROR(ls_lexer_string(&parser->lexer, "a kernel's name",
                                     &parser->scratch, &name, NULL));
  for (size_t i = 0; i < parser->num_kernels; ++i) {
    if (strcmp(parser->kernels[i]->name, name) != 0) continue;
    attr->kind = LS_ATTR_KERNEL;
    attr->as.kernel = parser->kernels[i];
    return ls_ok();
  }
  return ls_invalid_argument(
      "line %d: no host kernel named '%.80s' among the %zu that were given",
      line, name, parser->num_kernels);
}

static ls_status parse_variable(ls_parser *parser, ls_attr *attr) {
  const int line = parser->lexer.token.line;
  ls_variable *variable = NULL;
  LS_RETURN_IF_ERROR(ls_parse_variable(parser, &variable));
  if (variable == NULL)
    return ls_invalid_argument(
        "line %d: this variable is not declared; a line 'variable @\"name\" : "
        "type' before the graph does it",
        line);
  attr->kind = LS_ATTR_OBJECT;
  attr->as.object = (ls_object *)ls_variable_retain(variable);
  return ls_ok();
}

// Refuses an object that is not a variable: the text contains only its kind.
static ls_status refuse_object(ls_parser *parser) {
  const int line = parser->lexer.token.line;
  char *kind = NULL;
  LS_RETURN_IF_ERROR(ls_lexer_string(&parser->lexer, "an object's kind",
                                     &parser->scratch, &kind, NULL));
  return ls_unimplemented("line %d: this '%.80s' was an object of the process "
                          "that printed the text: only variables can be parsed",
                          line, kind);
}

// Parses a value that begins with a dtype: the dtype alone, or an array.
static ls_status parse_dtype_or_array(ls_parser *parser, ls_dtype dtype,
                                      ls_attr *attr) {
  ls_lexer_next(&parser->lexer);
  if (!ls_lexer_at(&parser->lexer, "[")) {
    attr->kind = LS_ATTR_DTYPE;
    attr->as.dtype = dtype;
    return ls_ok();
  }
  ls_type type = {.dtype = dtype};
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(parse_dimensions(parser, &type.shape));
  LS_RETURN_IF_ERROR(ls_parse_array(parser, type, &array));
  attr->kind = LS_ATTR_ARRAY;
  attr->as.array = array;
  return ls_ok();
}

static ls_status parse_value(ls_parser *parser, ls_attr *attr) {
  ls_lexer *lexer = &parser->lexer;
  ls_dtype dtype = LS_DTYPE_NONE;
  if (lexer->token.kind == LS_TOKEN_NUMBER || ls_lexer_at(lexer, "inf") ||
      ls_lexer_at(lexer, "nan"))
    return parse_number_attr(parser, attr);
  if (lexer->token.kind == LS_TOKEN_STRING) {
    char *text = NULL;
    LS_RETURN_IF_ERROR(
        ls_lexer_string(lexer, "a string", &parser->scratch, &text, NULL));
    attr->kind = LS_ATTR_STRING;
    attr->as.string = text;
    return ls_ok();
  }
  if (ls_lexer_at(lexer, "true") || ls_lexer_at(lexer, "false")) {
    bool value = false;
    LS_RETURN_IF_ERROR(ls_parse_bool(parser, &value));
    attr->kind = LS_ATTR_BOOL;
    attr->as.i = value;
    return ls_ok();
  }
  if (ls_lexer_accept(lexer, "unset")) return ls_ok();
  if (ls_lexer_at(lexer, "["))
    return parse_list_attr(parser, LS_ATTR_INTS, attr);
  if (ls_lexer_accept(lexer, "sizes"))
    return parse_list_attr(parser, LS_ATTR_SIZES, attr);
  if (ls_lexer_accept(lexer, "strings"))
    return parse_list_attr(parser, LS_ATTR_STRINGS, attr);
  if (ls_lexer_accept(lexer, "shape")) {
    attr->kind = LS_ATTR_SHAPE;
    return parse_dimensions(parser, &attr->as.shape);
  }
  if (ls_lexer_accept(lexer, "kernel")) return parse_kernel(parser, attr);
  if (ls_lexer_at(lexer, "@")) return parse_variable(parser, attr);
  if (ls_lexer_accept(lexer, "object")) return refuse_object(parser);
  if (find_dtype(&lexer->token, &dtype))
    return parse_dtype_or_array(parser, dtype, attr);
  return ls_lexer_wanted(lexer, "an attribute's value");
}

static ls_status parse_attr_name(ls_parser *parser, const char **out_name) {
  const ls_token token = parser->lexer.token;
  char *name = NULL;
  if (token.kind != LS_TOKEN_WORD) {
    LS_RETURN_IF_ERROR(ls_lexer_string(&parser->lexer, "an attribute's name",
                                       &parser->scratch, &name, NULL));
  } else {
    name = ls_arena_allocate(&parser->scratch, token.size + 1);
    if (name == NULL) return ls_out_of_memory();
    memcpy(name, token.text, token.size);
    ls_lexer_next(&parser->lexer);
  }
  *out_name = name;
  return ls_ok();
}

ls_status ls_parse_attrs(ls_parser *parser, ls_parse_list *out_attrs) {
  if (!ls_lexer_accept(&parser->lexer, "{")) return ls_ok();
  do {
    ls_attr *attr = ls_parse_push(parser, out_attrs, sizeof(ls_attr));
    if (attr == NULL) return ls_out_of_memory();
    LS_RETURN_IF_ERROR(parse_attr_name(parser, &attr->name));
    LS_RETURN_IF_ERROR(ls_lexer_expect(&parser->lexer, "="));
    LS_RETURN_IF_ERROR(parse_value(parser, attr));
  } while (ls_lexer_accept(&parser->lexer, ","));
  return ls_lexer_expect(&parser->lexer, "}");
}

void ls_parse_release_attrs(const ls_parse_list *attrs) {
  const ls_attr *items = attrs->items;
  for (size_t i = 0; i < attrs->count; ++i) {
    if (items[i].kind == LS_ATTR_ARRAY) ls_array_release(items[i].as.array);
    if (items[i].kind == LS_ATTR_OBJECT) ls_object_release(items[i].as.object);
  }
}
