// SPDX-License-Identifier: Apache-2.0
//
// The parser's lower half: types, attributes and arrays.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/parse.h"
#include "lockstep/host.h"

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

// [2,?] or [...], behind the word before it.
static ls_status parse_dimensions(ls_parser *parser, ls_shape *out_shape) {
  ls_lexer *lexer = &parser->lexer;
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
  return ls_lexer_expect(lexer, "]");
}

static ls_status check_shape(const ls_parser *parser, ls_shape shape) {
  const ls_status status = ls_shape_check(shape);
  if (ls_status_is_ok(status)) return status;
  return ls_status_annotate(status, "line %d: in this shape",
                            parser->lexer.token.line);
}

ls_status ls_parse_type(ls_parser *parser, ls_type *out_type) {
  if (!find_dtype(&parser->lexer.token, &out_type->dtype))
    return ls_lexer_wanted(&parser->lexer, "a type like f32[2,?]");
  ls_lexer_next(&parser->lexer);
  LS_RETURN_IF_ERROR(parse_dimensions(parser, &out_type->shape));
  return check_shape(parser, out_type->shape);
}

// ---- Numbers ---------------------------------------------------------------
// The token as a zero-terminated text, or NULL when it is too long for one.
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

static ls_status bits_to_number(ls_dtype dtype, uint64_t bits, void *out) {
  switch (dtype) {
  case LS_DTYPE_F64:
    memcpy(out, &bits, 8);
    break;
  case LS_DTYPE_F32: {
    const uint32_t word = (uint32_t)bits;
    memcpy(out, &word, 4);
    break;
  }
  default: {
    const uint16_t half = (uint16_t)bits;
    memcpy(out, &half, 2);
  }
  }
  return ls_ok();
}

// nan, or nan(0x7fc00001): the bits of one that is not the usual one.
static ls_status parse_nan(ls_parser *parser, ls_dtype dtype, void *out) {
  const size_t width = ls_dtype_size(dtype) * 8;
  uint64_t bits = dtype == LS_DTYPE_F64   ? 0x7ff8000000000000u
                  : dtype == LS_DTYPE_F32 ? 0x7fc00000u
                  : dtype == LS_DTYPE_F16 ? 0x7e00u
                                          : 0x7fc0u;
  ls_lexer_next(&parser->lexer);
  if (ls_lexer_accept(&parser->lexer, "(")) {
    LS_RETURN_IF_ERROR(parse_unsigned(parser, "the bits of a nan, like 0x7e01,",
                                      16, UINT64_MAX >> (64 - width), &bits));
    LS_RETURN_IF_ERROR(ls_lexer_expect(&parser->lexer, ")"));
  }
  return bits_to_number(dtype, bits, out);
}

// A float of `dtype` into `out`.
static ls_status parse_float(ls_parser *parser, ls_dtype dtype, void *out) {
  char buffer[64];
  char *end = NULL;
  if (ls_lexer_at(&parser->lexer, "nan")) return parse_nan(parser, dtype, out);
  const char *text = number_text(&parser->lexer.token, buffer);
  if (text == NULL || strpbrk(text, "xXpP") != NULL)
    return ls_lexer_wanted(&parser->lexer, "a number");
  if (dtype == LS_DTYPE_F64) {
    const double value = strtod(text, &end);
    memcpy(out, &value, sizeof(value));
  } else {
    const float value = strtof(text, &end);
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(value));
    if (dtype == LS_DTYPE_F16) bits = ls_f16_from_f32(value);
    if (dtype == LS_DTYPE_BF16) bits = ls_bf16_from_f32(value);
    LS_RETURN_IF_ERROR(bits_to_number(dtype, bits, out));
  }
  if (end == text || *end != '\0')
    return ls_lexer_wanted(&parser->lexer, "a number");
  ls_lexer_next(&parser->lexer);
  return ls_ok();
}

static ls_status parse_bool(ls_parser *parser, bool *out_value) {
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
    memcpy(out, &value, (size_t)bits / 8);  // Little-endian machines only.
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
    LS_RETURN_IF_ERROR(parse_bool(parser, &value));
    *(uint8_t *)out = value;
    return ls_ok();
  }
  if (ls_dtype_is_float(dtype)) return parse_float(parser, dtype, out);
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

static int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// Decodes into `size` bytes; the text has the length that belongs to them.
static bool decode_base64(const char *text, uint8_t *out, size_t size) {
  for (size_t i = 0; i < size; i += 3, text += 4) {
    const size_t left = size - i;
    uint32_t word = 0;
    for (size_t k = 0; k < 4; ++k) {
      const bool padding = k > left;
      const int digit = padding ? 0 : base64_digit(text[k]);
      if (digit < 0 || (padding && text[k] != '=')) return false;
      word = word << 6 | (uint32_t)digit;
    }
    for (size_t k = 0; k < 3 && k < left; ++k)
      out[i + k] = (uint8_t)(word >> (16 - 8 * k));
    // Bits behind the last byte must be zero, so that bytes have one text.
    if (left < 3 && (word & (left == 1 ? 0xffffu : 0xffu)) != 0) return false;
  }
  return true;
}

static ls_status parse_base64(ls_parser *parser, size_t size, void *data) {
  const ls_token token = parser->lexer.token;
  if (token.kind != LS_TOKEN_STRING)
    return ls_lexer_wanted(&parser->lexer, "a string of base64 digits");
  if (token.size != (size + 2) / 3 * 4 ||
      !decode_base64(token.text, data, size))
    return ls_invalid_argument("line %d: %zu characters are not the base64 "
                               "digits of %zu bytes",
                               token.line, token.size, size);
  ls_lexer_next(&parser->lexer);
  return ls_ok();
}

// f32[2] [1, 2.5], or f32[1000] base64 "...". The caller owns the array.
static ls_status parse_array(ls_parser *parser, ls_type type,
                             ls_array **out_array) {
  ls_lexer *lexer = &parser->lexer;
  *out_array = NULL;
  const int64_t count = ls_shape_num_elements(type.shape);
  if (ls_lexer_at(lexer, "opaque") || type.dtype == LS_DTYPE_NONE ||
      type.dtype == LS_DTYPE_RESOURCE || type.dtype == LS_DTYPE_VARIANT)
    return ls_unimplemented("line %d: an array of %s cannot be made from text",
                            lexer->token.line, ls_dtype_name(type.dtype));
  // Each element takes a character at least: the text bounds the memory.
  if (!ls_shape_is_known(type.shape) || count > lexer->end - lexer->at)
    return ls_invalid_argument(
        "line %d: an array %s does not stand here: the shape must be known "
        "and every element given",
        lexer->token.line, LS_SHAPE_TEXT(type.dtype, type.shape));
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

// ---- Attributes ------------------------------------------------------------
// [item, item, ...] by a function for one item.
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

// 10, or dim(0, 1): dimension 1 of operand 0.
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
    return parse_float(parser, LS_DTYPE_F64, &attr->as.f);
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
    return ls_invalid_argument("line %d: this variable is not declared; a line "
                               "'variable @\"name\" : type' before the graph "
                               "does it",
                               line);
  attr->kind = LS_ATTR_OBJECT;
  attr->as.object = (ls_object *)ls_variable_retain(variable);
  return ls_ok();
}

// Others than variables are printed by their kind alone.
static ls_status refuse_object(ls_parser *parser) {
  const int line = parser->lexer.token.line;
  char *kind = NULL;
  LS_RETURN_IF_ERROR(ls_lexer_string(&parser->lexer, "an object's kind",
                                     &parser->scratch, &kind, NULL));
  return ls_unimplemented(
      "line %d: this '%.80s' lived in the process that printed the text, which "
      "does not hold it: of all objects only variables can be read back",
      line, kind);
}

// A value that begins with a dtype: that dtype, or an array.
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
  LS_RETURN_IF_ERROR(check_shape(parser, type.shape));
  LS_RETURN_IF_ERROR(parse_array(parser, type, &array));
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
    LS_RETURN_IF_ERROR(parse_bool(parser, &value));
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
