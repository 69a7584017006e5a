// SPDX-License-Identifier: Apache-2.0
//
// Reads the text of an op, in its short form or in quotes: operands,
// attributes, regions and types.
#include <stdio.h>
#include <stdlib.h>

#include "onnx/hlo.h"

enum { MOST_RESULTS = 200 };

const char *const ls_hlo_directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};

static void add_name(ls_hlo_reader *r, ls_hlo_names *list, const char *name) {
  const char **place =
      ls_hlo_push(r, &list->items, &list->count, sizeof(*place));
  if (name == NULL) ls_hlo_no_memory(r);
  if (place != NULL) *place = name;
}

// ---- Attributes ------------------------------------------------------------
// Returns the name that the short form of an op has for an attribute.
static const char *short_name(const char *name) {
  static const char *const pairs[][2] = {
      {"broadcast_dimensions", "dims"},
      {"permutation", "dims"},
      {"dimensions", "dims"},
      {"dimension", "dim"},
      {"iota_dimension", "dim"},
      {"edge_padding_low", "low"},
      {"edge_padding_high", "high"},
      {"interior_padding", "interior"},
      {"slice_sizes", "sizes"},
      {"padding", "pad"},
      {"window_strides", "stride"},
      {"lhs_dilation", "lhs_dilate"},
      {"rhs_dilation", "rhs_dilate"},
      {"window_reversal", "reverse"},
      {"dimension_numbers", "dim_numbers"},
      {"lhs_batching_dimensions", "batching_dims"},
      {"rhs_batching_dimensions", "batching_dims2"},
      {"lhs_contracting_dimensions", "contracting_dims"},
      {"rhs_contracting_dimensions", "contracting_dims2"}};
  for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); ++i)
    if (strcmp(name, pairs[i][0]) == 0) return pairs[i][1];
  return name;
}

static ls_onnx_attr *add_attr(ls_hlo_reader *r, ls_hlo_op *o, const char *name,
                              ls_onnx_attr_kind kind) {
  if (o->num_attrs == LS_HLO_MOST_ATTRS) {
    ls_hlo_fail(r, LS_UNIMPLEMENTED, "an op of more than %d attributes",
                LS_HLO_MOST_ATTRS);
    return o->attrs;
  }
  ls_onnx_attr *attr = &o->attrs[o->num_attrs++];
  *attr = (ls_onnx_attr){.name = short_name(name), .kind = kind};
  return attr;
}

// Reads lists: "[1] x [0]" are two, the second with a 2 after its name.
static void read_lists(ls_hlo_reader *r, ls_hlo_op *o, const char *name) {
  for (int k = 1; k < 4 && (k == 1 || ls_hlo_is(r, "[")); ++k) {
    ls_hlo_list list = {0};
    ls_hlo_read_list(r, &list);
    const char *full = k == 1 ? name
                              : ls_arena_format(&r->onnx.file->memory, "%s%d",
                                                short_name(name), k);
    if (full == NULL) ls_hlo_no_memory(r);
    if (!ls_status_is_ok(r->status)) return;
    ls_onnx_attr *attr = add_attr(r, o, full, LS_ONNX_INTS);
    attr->numbers = list.items;
    attr->count = list.count;
    if (!ls_hlo_accept(r, "x") && !ls_hlo_accept(r, "->")) break;
  }
}

// Reads the value of an attribute. Those in dictionaries and in
// "#stablehlo.gather<...>" become attributes of the op.
static void read_value(ls_hlo_reader *r, ls_hlo_op *o, const char *name,
                       int depth) {
  if (depth > LS_HLO_MOST_DEPTH)
    LS_HLO_EXPECTED(r, "an attribute of less depth");
  static const char *const own[] = {"region", "word", "order", "total", NULL};
  if (ls_onnx_is_one_of(name, own)) LS_HLO_EXPECTED(r, "no attribute %s", name);
  if (ls_hlo_is(r, "[") || ls_hlo_is(r, "array")) {
    read_lists(r, o, name);
  } else if (r->now.kind == LS_HLO_NUMBER) {
    add_attr(r, o, name, LS_ONNX_INT)->number = strtoll(r->now.text, NULL, 10);
    ls_hlo_next(r);
    const ls_hlo_cursor colon = r->now;
    if (ls_hlo_accept(r, ":")) {
      // A type of the number, or the types of the op.
      if (r->now.kind == LS_HLO_NAME && !ls_hlo_is(r, "tensor"))
        ls_hlo_next(r);
      else if (ls_status_is_ok(r->status))
        r->now = colon;
    }
  } else if (ls_hlo_is(r, "dense")) {
    o->array = ls_hlo_read_dense(r, &o->array_type);
    add_attr(r, o, name, LS_ONNX_TENSOR)->array = o->array;
  } else if (ls_hlo_is(r, "{")) {
    ls_hlo_next(r);
    ls_hlo_read_attrs(r, o, "}", depth + 1);
  } else if (r->now.kind == LS_HLO_ALIAS) {
    ls_hlo_next(r);
    ls_hlo_expect(r, "<");
    if (ls_hlo_is(r, "[")) read_lists(r, o, name);
    ls_hlo_read_attrs(r, o, ">", depth + 1);
  } else if (r->now.kind == LS_HLO_NAME || r->now.kind == LS_HLO_STRING ||
             r->now.kind == LS_HLO_SYMBOL) {
    const char *text = ls_hlo_text(r);
    add_attr(r, o, name, LS_ONNX_STRING)->text = text;
    if (r->now.kind == LS_HLO_SYMBOL) o->callee = text;
    ls_hlo_next(r);
  } else {
    LS_HLO_EXPECTED(r, "the value of attribute %s", name);
  }
}

static bool is_comparison(ls_hlo_reader *r) {
  for (size_t i = 0;
       i < sizeof(ls_hlo_directions) / sizeof(ls_hlo_directions[0]); ++i)
    if (ls_hlo_is(r, ls_hlo_directions[i])) return true;
  return ls_hlo_is(r, "TOTALORDER");
}

// Takes the direction or the order of a comparison.
static void take_comparison(ls_hlo_op *o, const char *text) {
  for (size_t i = 0;
       i < sizeof(ls_hlo_directions) / sizeof(ls_hlo_directions[0]); ++i)
    if (strcmp(ls_hlo_directions[i], text) == 0) o->direction = text;
  o->is_total |= strcmp(text, "TOTALORDER") == 0;
}

void ls_hlo_read_attrs(ls_hlo_reader *r, ls_hlo_op *o, const char *end,
                       int depth) {
  while (!ls_hlo_is(r, end) && r->now.kind != LS_HLO_END) {
    const char *name = ls_hlo_text(r);
    if (r->now.kind != LS_HLO_NAME && r->now.kind != LS_HLO_STRING)
      LS_HLO_EXPECTED(r, "an attribute");
    ls_hlo_next(r);
    if (ls_hlo_accept(r, "="))
      read_value(r, o, name, depth);
    else
      take_comparison(o, name);
    if (!ls_hlo_is(r, end)) ls_hlo_accept(r, ",");
  }
  ls_hlo_expect(r, end);
}

static void skip_location(ls_hlo_reader *r) {
  if (!ls_hlo_accept(r, "loc")) return;
  if (!ls_hlo_is(r, "(")) LS_HLO_EXPECTED(r, "loc(...)");
  ls_hlo_skip_brackets(r);
}

// ---- Regions ---------------------------------------------------------------
static bool is_same_name(ls_hlo_cursor a, ls_hlo_cursor b) {
  return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

// Describes a region by its ops, such as "maximum", or "compare GT". Its names,
// as letters in the order in which they come first, must be those of (a, b),
// c = op a, b, return c; or of (a, b), return b; or in the short form those of
// a choice between two values with their places.
static void read_summary(ls_hlo_reader *r, ls_hlo_op *o) {
  enum { MOST_LETTERS = 26 };
  static const char *const known[] = {
      "abb", "abcabc", "abcbac", "abcdeabfaagefhabicdjhikgjlgabmkcdlm", NULL};
  const bool is_short = ls_hlo_is(r, "reducer");
  char text[100] = "", letters[48] = "";
  ls_hlo_cursor seen[MOST_LETTERS];
  size_t count = 0, num_seen = 0;
  int64_t depth = 0;
  bool has_begun = false;
  do {
    if (ls_hlo_is(r, "loc")) {
      skip_location(r);
      continue;
    }
    const char *word = r->now.text, *dot = memchr(word, '.', r->now.size);
    const bool is_op =
        dot != NULL &&
        (r->now.kind == LS_HLO_NAME || r->now.kind == LS_HLO_STRING) &&
        strncmp(dot, ".return", 7) != 0;
    const size_t used = strlen(text);
    const char *from = is_op ? dot + 1 : word;
    if (is_op || is_comparison(r))
      snprintf(text + used, sizeof(text) - used, "%s%.*s", used == 0 ? "" : " ",
               (int)(word + r->now.size - from), from);
    if (r->now.kind == LS_HLO_VALUE && count + 1 < sizeof(letters)) {
      size_t letter = 0;
      while (letter < num_seen && !is_same_name(seen[letter], r->now))
        ++letter;
      if (letter == num_seen && letter < MOST_LETTERS)
        seen[num_seen++] = r->now;
      letters[count++] = (char)('a' + letter);
    }
    depth += ls_hlo_is(r, "{") - ls_hlo_is(r, "}");
    has_begun = has_begun || depth > 0;
    ls_hlo_next(r);
  } while ((depth > 0 || !has_begun) && r->now.kind != LS_HLO_END);
  const bool has_order =
      strcmp(text, "subtract") == 0 || strcmp(text, "divide") == 0;
  const bool is_plain = ls_onnx_is_one_of(letters, known) &&
                        (is_short || count <= 6) &&
                        !(has_order && strcmp(letters, "abcbac") == 0);
  char *copy = ls_arena_format(&r->onnx.file->memory, "%s%s", text,
                               is_plain ? "" : " of other values");
  if (copy == NULL) ls_hlo_no_memory(r);
  add_attr(r, o, "region", LS_ONNX_STRING)->text = copy;
}

static void read_region(ls_hlo_reader *r, ls_hlo_op *o) {
  static const char *const kept[] = {"while", "case", "if", "sort", NULL};
  if (!ls_onnx_is_one_of(o->type, kept)) {
    read_summary(r, o);
    return;
  }
  ls_hlo_cursor *place =
      ls_hlo_push(r, &o->regions, &o->num_regions, sizeof(*place));
  if (place != NULL) *place = r->now;
  ls_hlo_skip_brackets(r);
}

// ---- Ops -------------------------------------------------------------------
static void add_type(ls_hlo_reader *r, ls_hlo_op *o, ls_type type) {
  ls_type *place = ls_hlo_push(r, &o->types, &o->num_types, sizeof(*place));
  if (place != NULL) *place = type;
}

static void read_type_list(ls_hlo_reader *r, ls_hlo_op *o) {
  const bool has_brackets = ls_hlo_accept(r, "(");
  if (!has_brackets || !ls_hlo_is(r, ")")) do
      add_type(r, o, ls_hlo_read_type(r));
    while (ls_hlo_accept(r, ","));
  if (has_brackets) ls_hlo_expect(r, ")");
}

// Reads the types at the end of an op. Without an arrow the last ones are those
// of the results.
static void read_types(ls_hlo_reader *r, ls_hlo_op *o, size_t num_results) {
  read_type_list(r, o);
  if (ls_hlo_accept(r, "->")) {
    o->num_types = 0;
    read_type_list(r, o);
  } else if (num_results < o->num_types) {
    o->types += o->num_types - num_results;
    o->num_types = num_results;
  }
}

// Reads an operand, or a name in a loop's regions: "%i = %0".
static void read_operand(ls_hlo_reader *r, ls_hlo_op *o) {
  ls_hlo_cursor name = r->now;
  const char *text = ls_hlo_text(r);
  ls_hlo_next(r);
  if (ls_hlo_accept(r, "=")) {
    add_name(r, &o->carried, text);
    name = r->now;
    if (r->now.kind != LS_HLO_VALUE) LS_HLO_EXPECTED(r, "a value");
    ls_hlo_next(r);
  }
  ls_hlo_cursor *place =
      ls_hlo_push(r, &o->operands, &o->num_operands, sizeof(*place));
  if (place != NULL) *place = name;
}

// Reads a word, with what belongs to it.
static void read_word(ls_hlo_reader *r, ls_hlo_op *o) {
  if (ls_hlo_is(r, "reducer")) {
    read_summary(r, o);
    return;
  }
  if (ls_hlo_is(r, "cond") || ls_hlo_is(r, "do")) ls_hlo_next(r);
  if (ls_hlo_is(r, "{")) {
    read_region(r, o);
    return;
  }
  const char *name = ls_hlo_text(r);
  ls_hlo_next(r);
  if (strcmp(name, "applies") == 0) {
    const char *text = ls_hlo_text(r), *dot = strchr(text, '.');
    ls_hlo_next(r);
    add_attr(r, o, "region", LS_ONNX_STRING)->text =
        dot != NULL ? dot + 1 : text;
  } else if (ls_hlo_accept(r, "=")) {
    read_value(r, o, name, 0);
  } else if (strcmp(name, "init") == 0) {
    ls_hlo_expect(r, ":");
  } else {
    take_comparison(o, name);
  }
}

// Reads what follows an op's name.
static void read_tail(ls_hlo_reader *r, ls_hlo_op *o, size_t num_results) {
  int depth = 0;
  bool has_types = false;
  while (r->now.kind != LS_HLO_END) {
    if (has_types && !ls_hlo_is(r, "cond") && !ls_hlo_is(r, "do") &&
        !ls_hlo_is(r, "reducer"))
      break;
    if (r->now.kind == LS_HLO_VALUE) {
      read_operand(r, o);
    } else if (ls_hlo_is(r, "dense")) {
      o->array = ls_hlo_read_dense(r, &o->array_type);
      add_type(r, o, o->array_type);
      skip_location(r);
      has_types = true;
    } else if (r->now.kind == LS_HLO_SYMBOL) {
      o->callee = ls_hlo_text(r);
      ls_hlo_next(r);
    } else if (r->now.kind == LS_HLO_NAME || r->now.kind == LS_HLO_STRING) {
      read_word(r, o);
    } else if (ls_hlo_is(r, "[")) {
      read_lists(r, o, "ranges");
    } else if (ls_hlo_is(r, "{") &&
               (depth == 0 ||
                (depth == 1 && o->num_attrs == 0 && r->now.text[-1] == '<'))) {
      ls_hlo_next(r);  // { attributes }, or <{ attributes }>
      ls_hlo_read_attrs(r, o, "}", 0);
    } else if (ls_hlo_is(r, "{")) {
      read_region(r, o);
    } else if (depth == 0 && ls_hlo_accept(r, ":")) {
      read_types(r, o, num_results);
      skip_location(r);
      has_types = true;
    } else if (r->now.kind == LS_HLO_MARK && strchr("(<)>,", *r->now.text)) {
      const char mark = *r->now.text;
      depth += (mark == '(' || mark == '<') - (mark == ')' || mark == '>');
      if (depth < 0) LS_HLO_EXPECTED(r, "an opening bracket before");
      ls_hlo_next(r);
    } else {
      LS_HLO_EXPECTED(r, "an operand, an attribute or ':' and types of op %s",
                      o->type);
    }
  }
  skip_location(r);
  if (!has_types) LS_HLO_EXPECTED(r, "':' and the types of op %s", o->type);
}

// Reads the name of an op, with or without quotes. A composite is the op that
// it names, or a call of the function which does the same.
static void read_name(ls_hlo_reader *r, ls_hlo_op *o) {
  o->begin = r->now;
  const bool is_composite = ls_hlo_accept(r, "stablehlo.composite");
  const char *text = ls_hlo_text(r), *dot = strrchr(text, '.');
  if ((r->now.kind != LS_HLO_NAME && r->now.kind != LS_HLO_STRING) ||
      (strlen(text) >= sizeof(o->type) && !is_composite)) {
    LS_HLO_EXPECTED(r, "an op");
    return;
  }
  snprintf(o->domain, sizeof(o->domain), "%.*s",
           dot != NULL ? (int)(dot - text) : 0, text);
  snprintf(o->type, sizeof(o->type), "%s", dot != NULL ? dot + 1 : text);
  static const char *const structure[] = {"call", "return", "constant", "while",
                                          NULL};
  const bool is_known = ls_hlo_op_find(o->domain, o->type) != NULL;
  if (is_composite && !is_known) snprintf(o->type, sizeof(o->type), "call");
  if (is_known || is_composite || ls_onnx_is_one_of(o->type, structure)) {
    ls_hlo_next(r);
    return;
  }
  const ls_hlo_cursor name = r->now;
  ls_hlo_next(r);
  const char *callee = r->now.kind == LS_HLO_SYMBOL ? ls_hlo_text(r) : "";
  r->now = name;
  ls_hlo_fail(r, LS_UNIMPLEMENTED, "op %s%s%s", text,
              callee[0] != '\0' ? " @" : "", callee);
}

// Reads "%0, %1:2 =" as the names 0, 1#0 and 1#1.
static void read_result_names(ls_hlo_reader *r, ls_hlo_names *out) {
  while (r->now.kind == LS_HLO_VALUE) {
    const char *name = ls_hlo_text(r);
    ls_hlo_next(r);
    if (!ls_hlo_accept(r, ":")) {
      add_name(r, out, name);
    } else {
      const long count = strtol(r->now.text, NULL, 10);
      if (r->now.kind != LS_HLO_NUMBER || count < 1 || count > MOST_RESULTS)
        LS_HLO_EXPECTED(r, "a number of results");
      for (long k = 0; k < count && ls_status_is_ok(r->status); ++k)
        add_name(r, out,
                 ls_arena_format(&r->onnx.file->memory, "%s#%ld", name, k));
      ls_hlo_next(r);
    }
    if (!ls_hlo_accept(r, ","))
      ls_hlo_expect(r, "=");
    else if (r->now.kind != LS_HLO_VALUE)
      LS_HLO_EXPECTED(r, "a value");
  }
}

void ls_hlo_read_op(ls_hlo_reader *r, ls_hlo_op *o) {
  read_result_names(r, &o->results);
  read_name(r, o);
  const bool is_return = strcmp(o->type, "return") == 0;
  if (!ls_status_is_ok(r->status) || (is_return && ls_hlo_is(r, "}"))) return;
  read_tail(r, o, is_return ? SIZE_MAX : o->results.count);
  if (!is_return && o->num_types != o->results.count)
    LS_HLO_EXPECTED(r, "%zu results of op %s, got %zu types", o->results.count,
                    o->type, o->num_types);
}
