// SPDX-License-Identifier: Apache-2.0
//
// Reads a StableHLO module: its main function, with calls inlined and loops
// unrolled. Weights are constants, or arguments whose values are in a file
// beside the text.
#include <stdio.h>
#include <stdlib.h>

#include "base/runtime_internal.h"
#include "lockstep/saved_file.h"
#include "onnx/hlo.h"

enum {
  MOST_NODES = 1 << 18,
  MOST_CALLS = 64,
  MOST_TRIPS = 4096,
  MOST_ATTRS = 24,
  KEY_SIZE = 200,
};

static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};

// Names of values inside a function or region.
typedef struct scope {
  uint64_t id;
  const struct scope *outer;  // NULL: a function's.
  int depth;                  // Number of calls and regions around it.
} scope;

// Per value: the number that a scalar integer is, if it is known.
typedef struct scalar {
  bool is_known;
  int64_t value;
} scalar;

typedef struct module {
  ls_hlo_reader r;
  ls_saved_file *weights;  // NULL: no file beside the text.
  uint64_t num_scopes;
  scalar *scalars;
  const ls_hlo_cursor *main;
} module;

typedef struct name_list {
  const char **items;
  size_t count;
} name_list;

// An op as it is read.
typedef struct op {
  char domain[16], type[48];
  const char *callee;      // Function of a call.
  const char *first_word;  // Such as the direction of a comparison, or NULL.
  int64_t line;
  ls_hlo_list inputs;
  ls_onnx_attr attrs[MOST_ATTRS];
  size_t num_attrs;
  ls_array *array;  // The last constant.
  ls_type *types;   // Types of the results.
  size_t num_types;
  name_list carried;  // Names in a loop's regions.
  ls_hlo_cursor regions[2];
  size_t num_regions;
} op;

static ls_onnx_file *file_of(module *m) { return m->r.onnx.file; }
static void no_memory(module *m) {
  ls_hlo_fail(&m->r, LS_RESOURCE_EXHAUSTED, "there is no memory");
}

static void *arena_array(module *m, size_t count, size_t size) {
  void *block = ls_arena_allocate_array(&file_of(m)->memory, count, size);
  if (block == NULL) no_memory(m);
  return block;
}

static void add_name(module *m, name_list *list, const char *name) {
  const char **place =
      ls_hlo_push(&m->r, &list->items, &list->count, sizeof(*place));
  if (name == NULL) no_memory(m);
  if (place != NULL) *place = name;
}

// ---- Values ----------------------------------------------------------------
static uint32_t new_value(module *m, const char *name, ls_type type) {
  ls_onnx_file *file = file_of(m);
  size_t counts[] = {file->num_values, file->num_values};
  const char **names =
      ls_hlo_push(&m->r, &file->names, &counts[0], sizeof(*names));
  ls_type *types = ls_hlo_push(&m->r, &file->types, &counts[1], sizeof(*types));
  if (names == NULL || types == NULL ||
      ls_hlo_push(&m->r, &m->scalars, &file->num_values, sizeof(scalar)) ==
          NULL)
    return 0;
  *names = name;
  *types = type;
  return (uint32_t)file->num_values - 1;
}

static size_t make_key(module *m, const scope *s, const char *name, char *key) {
  const int size =
      snprintf(key, KEY_SIZE, "%llu:%s", (unsigned long long)s->id, name);
  if (size >= KEY_SIZE) LS_HLO_EXPECTED(&m->r, "a shorter name");
  return size < KEY_SIZE ? (size_t)size : 0;
}

static void define(module *m, const scope *s, const char *name, int64_t value) {
  char key[KEY_SIZE];
  const size_t size = make_key(m, s, name, key);
  if (!ls_map_insert(&m->r.onnx.values, key, size, (void *)(uintptr_t)value))
    no_memory(m);
}

static uint32_t find_value(module *m, const scope *s, const char *name) {
  char key[KEY_SIZE];
  for (; s != NULL; s = s->outer) {
    const size_t size = make_key(m, s, name, key);
    const void *found = ls_map_find(&m->r.onnx.values, key, size);
    if (found != NULL) return (uint32_t)(uintptr_t)found;
  }
  LS_HLO_EXPECTED(&m->r, "a value that was made before; nothing makes %%%s",
                  name);
  return 0;
}

static scope inner_scope(module *m, const scope *outer, bool is_region) {
  const scope s = {.id = ++m->num_scopes,
                   .outer = is_region ? outer : NULL,
                   .depth = outer != NULL ? outer->depth + 1 : 0};
  if (s.depth > MOST_CALLS)
    ls_hlo_fail(&m->r, LS_UNIMPLEMENTED, "calls more than %d deep", MOST_CALLS);
  return s;
}

// Adds a constant. One that no weight can be has a name that begins with '%'.
static uint32_t add_initializer(module *m, const char *name, ls_type type,
                                ls_array *array) {
  ls_onnx_file *file = file_of(m);
  ls_onnx_initializer *place = ls_hlo_push(
      &m->r, &file->initializers, &file->num_initializers, sizeof(*place));
  const uint32_t value = new_value(m, name, type);
  if (place == NULL || value == 0) return 0;
  *place = (ls_onnx_initializer){.value = value, .array = array};
  if (type.shape.rank == 0 &&
      (ls_dtype_is_integer(type.dtype) || type.dtype == LS_DTYPE_BOOL))
    m->scalars[value] = (scalar){true, ls_array_i64(array, 0)};
  return value;
}

// ---- Known integers --------------------------------------------------------
// Computes an op of known integers; returns false for another op.
static bool fold(const op *o, const scalar *x, int64_t *out) {
  static const char *const names[] = {"add", "subtract", "multiply", "convert",
                                      "select"};
  const int64_t a = x[0].value, b = x[1].value;
  const int64_t values[] = {(int64_t)((uint64_t)a + (uint64_t)b),
                            (int64_t)((uint64_t)a - (uint64_t)b),
                            (int64_t)((uint64_t)a * (uint64_t)b), a,
                            a != 0 ? b : x[2].value};
  const bool truths[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
    if (strcmp(o->type, names[i]) == 0) {
      *out = values[i];
      return true;
    }
  for (size_t i = 0; o->first_word != NULL && i < 6; ++i)
    if (strcmp(o->type, "compare") == 0 &&
        strcmp(o->first_word, directions[i]) == 0) {
      *out = truths[i];
      return true;
    }
  return false;
}

// Makes a constant of an op whose operands are known integers; returns 0 for
// another op.
static uint32_t fold_op(module *m, const op *o) {
  scalar x[3] = {{0}};
  int64_t value = 0;
  LS_OWN(ls_array, array) = NULL;
  const ls_type type = o->num_types > 0 ? o->types[0] : (ls_type){0};
  if (o->inputs.count < 1 || o->inputs.count > 3 || type.shape.rank != 0 ||
      (!ls_dtype_is_integer(type.dtype) && type.dtype != LS_DTYPE_BOOL))
    return 0;
  for (size_t i = 0; i < o->inputs.count; ++i) {
    x[i] = m->scalars[o->inputs.items[i]];
    if (!x[i].is_known) return 0;
  }
  if (!fold(o, x, &value)) return 0;
  const ls_status status = ls_array_create(type.dtype, LS_SCALAR, &array);
  if (array == NULL) no_memory(m);
  ls_status_free(status);
  if (array == NULL) return 0;
  ls_array_set_i64(array, 0, value);
  ls_array *kept = ls_give(&array);
  ls_hlo_own_array(&m->r, kept);
  return ls_status_is_ok(m->r.status) ? add_initializer(m, "%", type, kept) : 0;
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

static ls_onnx_attr *add_attr(module *m, op *o, const char *name,
                              ls_onnx_attr_kind kind) {
  static ls_onnx_attr spare;
  if (o->num_attrs == MOST_ATTRS) {
    ls_hlo_fail(&m->r, LS_UNIMPLEMENTED, "an op of more than %d attributes",
                MOST_ATTRS);
    return &spare;
  }
  ls_onnx_attr *attr = &o->attrs[o->num_attrs++];
  *attr = (ls_onnx_attr){.name = short_name(name), .kind = kind};
  return attr;
}

// Reads lists: "[1] x [0]" are two, the second with a 2 after its name.
static void read_lists(module *m, op *o, const char *name) {
  ls_hlo_reader *r = &m->r;
  for (int k = 1; k < 4 && (k == 1 || ls_hlo_is(r, "[")); ++k) {
    ls_hlo_list list = {0};
    ls_hlo_read_list(r, &list);
    const char *full = k == 1 ? name
                              : ls_arena_format(&file_of(m)->memory, "%s%d",
                                                short_name(name), k);
    if (full == NULL) no_memory(m);
    if (!ls_status_is_ok(r->status)) return;
    ls_onnx_attr *attr = add_attr(m, o, full, LS_ONNX_INTS);
    attr->numbers = list.items;
    attr->count = list.count;
    if (!ls_hlo_accept(r, "x") && !ls_hlo_accept(r, "->")) break;
  }
}

static void read_attrs(module *m, op *o, const char *end, int depth);

// Reads the value of an attribute. Those in dictionaries and in
// "#stablehlo.gather<...>" become attributes of the op.
static void read_value(module *m, op *o, const char *name, int depth) {
  ls_hlo_reader *r = &m->r;
  if (depth > MOST_CALLS) LS_HLO_EXPECTED(r, "an attribute of less depth");
  if (ls_hlo_is(r, "[") || ls_hlo_is(r, "array")) {
    read_lists(m, o, name);
  } else if (r->now.kind == LS_HLO_NUMBER) {
    add_attr(m, o, name, LS_ONNX_INT)->number = strtoll(r->now.text, NULL, 10);
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
    ls_type type;
    o->array = ls_hlo_read_dense(r, &type);
    add_attr(m, o, name, LS_ONNX_TENSOR)->array = o->array;
  } else if (ls_hlo_is(r, "{")) {
    ls_hlo_next(r);
    read_attrs(m, o, "}", depth + 1);
  } else if (r->now.kind == LS_HLO_ALIAS) {
    ls_hlo_next(r);
    if (!ls_hlo_accept(r, "<")) return;
    if (ls_hlo_is(r, "[")) read_lists(m, o, name);
    read_attrs(m, o, ">", depth + 1);
  } else if (r->now.kind == LS_HLO_NAME || r->now.kind == LS_HLO_STRING ||
             r->now.kind == LS_HLO_SYMBOL) {
    add_attr(m, o, name, LS_ONNX_STRING)->text = ls_hlo_text(r);
    ls_hlo_next(r);
  } else {
    LS_HLO_EXPECTED(r, "the value of attribute %s", name);
  }
}

// Returns true for the direction of a comparison.
static bool is_direction(const char *text) {
  for (size_t i = 0; i < sizeof(directions) / sizeof(directions[0]); ++i)
    if (strcmp(directions[i], text) == 0) return true;
  return false;
}

// Reads "NAME = VALUE, ..." up to a bracket.
static void read_attrs(module *m, op *o, const char *end, int depth) {
  ls_hlo_reader *r = &m->r;
  while (!ls_hlo_is(r, end) && r->now.kind != LS_HLO_END) {
    const char *name = ls_hlo_text(r);
    if (r->now.kind != LS_HLO_NAME && r->now.kind != LS_HLO_STRING)
      LS_HLO_EXPECTED(r, "an attribute");
    ls_hlo_next(r);
    if (ls_hlo_accept(r, "="))
      read_value(m, o, name, depth);
    else if (is_direction(name))
      o->first_word = name;
    if (!ls_hlo_is(r, end)) ls_hlo_accept(r, ",");
  }
  ls_hlo_expect(r, end);
}

// ---- Regions ---------------------------------------------------------------
// Describes a region by its ops, such as "maximum".
static void read_summary(module *m, op *o) {
  ls_hlo_reader *r = &m->r;
  char text[100] = "";
  int64_t depth = 0;
  do {
    const char *word = r->now.text, *dot = memchr(word, '.', r->now.size);
    const bool is_op =
        dot != NULL &&
        (r->now.kind == LS_HLO_NAME || r->now.kind == LS_HLO_STRING) &&
        strncmp(dot, ".return", 7) != 0;
    const size_t used = strlen(text);
    if (is_op)
      snprintf(text + used, sizeof(text) - used, "%s%.*s", used == 0 ? "" : " ",
               (int)(word + r->now.size - dot) - 1, dot + 1);
    depth += ls_hlo_is(r, "{") - ls_hlo_is(r, "}");
    ls_hlo_next(r);
  } while (depth > 0 && r->now.kind != LS_HLO_END);
  char *copy = ls_arena_string(&file_of(m)->memory, text);
  if (copy == NULL) no_memory(m);
  add_attr(m, o, "region", LS_ONNX_STRING)->text = copy;
}

static void read_region(module *m, op *o) {
  ls_hlo_reader *r = &m->r;
  if (strcmp(o->type, "while") != 0) {
    read_summary(m, o);
    return;
  }
  if (o->num_regions == 2) LS_HLO_EXPECTED(r, "no third region");
  if (ls_status_is_ok(r->status)) o->regions[o->num_regions++] = r->now;
  ls_hlo_skip_brackets(r);
}

// ---- Ops -------------------------------------------------------------------
static void add_type(module *m, op *o, ls_type type) {
  ls_type *place = ls_hlo_push(&m->r, &o->types, &o->num_types, sizeof(*place));
  if (place != NULL) *place = type;
}

static void read_type_list(module *m, op *o) {
  const bool has_brackets = ls_hlo_accept(&m->r, "(");
  if (!has_brackets || !ls_hlo_is(&m->r, ")")) do
      add_type(m, o, ls_hlo_read_type(&m->r));
    while (ls_hlo_accept(&m->r, ","));
  if (has_brackets) ls_hlo_expect(&m->r, ")");
}

// Reads the types at the end of an op. Without an arrow the last ones are those
// of the results.
static void read_types(module *m, op *o, size_t num_results) {
  read_type_list(m, o);
  if (ls_hlo_accept(&m->r, "->")) {
    o->num_types = 0;
    read_type_list(m, o);
  } else if (num_results < o->num_types) {
    o->types += o->num_types - num_results;
    o->num_types = num_results;
  }
}

static void skip_location(module *m) {
  if (!ls_hlo_accept(&m->r, "loc")) return;
  if (!ls_hlo_is(&m->r, "(")) LS_HLO_EXPECTED(&m->r, "loc(...)");
  ls_hlo_skip_brackets(&m->r);
}

// Reads an operand, or a name in a loop's regions: "%i = %0".
static void read_operand(module *m, op *o, const scope *s) {
  ls_hlo_reader *r = &m->r;
  const char *name = ls_hlo_text(r);
  ls_hlo_next(r);
  if (ls_hlo_accept(r, "=")) {
    add_name(m, &o->carried, name);
    name = ls_hlo_text(r);
    if (r->now.kind != LS_HLO_VALUE) LS_HLO_EXPECTED(r, "a value");
    ls_hlo_next(r);
  }
  ls_hlo_add(r, &o->inputs, find_value(m, s, name));
}

// Reads a word, with what belongs to it.
static void read_word(module *m, op *o) {
  ls_hlo_reader *r = &m->r;
  if (ls_hlo_is(r, "reducer"))
    while (!ls_hlo_is(r, "{") && r->now.kind != LS_HLO_END)
      ls_hlo_next(r);
  if (ls_hlo_is(r, "cond") || ls_hlo_is(r, "do")) ls_hlo_next(r);
  if (ls_hlo_is(r, "{")) {
    read_region(m, o);
    return;
  }
  const char *name = ls_hlo_text(r);
  ls_hlo_next(r);
  if (strcmp(name, "applies") == 0) {
    const char *text = ls_hlo_text(r), *dot = strchr(text, '.');
    ls_hlo_next(r);
    add_attr(m, o, "region", LS_ONNX_STRING)->text =
        dot != NULL ? dot + 1 : text;
  } else if (ls_hlo_accept(r, "=")) {
    read_value(m, o, name, 0);
  } else if (strcmp(name, "init") == 0) {
    ls_hlo_expect(r, ":");
  } else if (is_direction(name)) {
    o->first_word = name;
  }
}

// Reads what follows an op's name.
static void read_tail(module *m, op *o, const scope *s, size_t num_results) {
  ls_hlo_reader *r = &m->r;
  int depth = 0;
  bool has_types = false;
  while (r->now.kind != LS_HLO_END) {
    if (has_types && !ls_hlo_is(r, "cond") && !ls_hlo_is(r, "do") &&
        !ls_hlo_is(r, "reducer"))
      break;
    if (r->now.kind == LS_HLO_VALUE) {
      read_operand(m, o, s);
    } else if (ls_hlo_is(r, "dense")) {
      ls_type type = {0};
      o->array = ls_hlo_read_dense(r, &type);
      add_type(m, o, type);
      skip_location(m);
      has_types = true;
    } else if (r->now.kind == LS_HLO_SYMBOL) {
      o->callee = ls_hlo_text(r);
      ls_hlo_next(r);
    } else if (r->now.kind == LS_HLO_NAME || r->now.kind == LS_HLO_STRING) {
      read_word(m, o);
    } else if (ls_hlo_is(r, "[")) {
      read_lists(m, o, "ranges");
    } else if (ls_hlo_is(r, "{") && depth == 1 && o->num_attrs == 0 &&
               r->now.text[-1] == '<') {
      ls_hlo_next(r);  // <{ attributes }>
      read_attrs(m, o, "}", 0);
    } else if (ls_hlo_is(r, "{") && depth == 0) {
      ls_hlo_next(r);
      read_attrs(m, o, "}", 0);
    } else if (ls_hlo_is(r, "{")) {
      read_region(m, o);
    } else if (depth == 0 && ls_hlo_accept(r, ":")) {
      read_types(m, o, num_results);
      skip_location(m);
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
  skip_location(m);
  if (!has_types) LS_HLO_EXPECTED(r, "':' and the types of op %s", o->type);
}

// Makes a node of an op, and the values of its results.
static void add_node(module *m, const op *o, int64_t *results, size_t count) {
  ls_onnx_file *file = file_of(m);
  ls_onnx_node *node =
      ls_hlo_push(&m->r, &file->nodes, &file->num_nodes, sizeof(*node));
  uint32_t *ids = arena_array(m, o->inputs.count + count + 1, sizeof(*ids));
  ls_onnx_attr *attrs = arena_array(m, o->num_attrs + 2, sizeof(*attrs));
  char *type = ls_arena_string(&file->memory, o->type),
       *domain = ls_arena_string(&file->memory, o->domain),
       *name = ls_arena_format(&file->memory, "line %lld", (long long)o->line);
  if (node == NULL || ids == NULL || attrs == NULL || type == NULL ||
      domain == NULL || name == NULL || !ls_status_is_ok(m->r.status))
    return;
  if (file->num_nodes > MOST_NODES) {
    ls_hlo_fail(&m->r, LS_UNIMPLEMENTED,
                "more than %d ops, with those of calls and loops", MOST_NODES);
    return;
  }
  memcpy(attrs, o->attrs, o->num_attrs * sizeof(*attrs));
  if (o->first_word != NULL)
    attrs[o->num_attrs] = (ls_onnx_attr){
        .name = "word", .kind = LS_ONNX_STRING, .text = o->first_word};
  for (size_t i = 0; i < o->inputs.count; ++i)
    ids[i] = (uint32_t)o->inputs.items[i];
  for (size_t i = 0; i < count; ++i) {
    results[i] = new_value(m, "%", o->types[i]);
    ids[o->inputs.count + i] = (uint32_t)results[i];
  }
  *node = (ls_onnx_node){.type = type,
                         .name = name,
                         .domain = domain,
                         .inputs = ids,
                         .outputs = ids + o->inputs.count,
                         .num_inputs = o->inputs.count,
                         .num_outputs = count,
                         .attrs = attrs,
                         .num_attrs = o->num_attrs + (o->first_word != NULL)};
}

// ---- Functions and loops ---------------------------------------------------
static void read_block(module *m, const scope *s, ls_hlo_list *out);

static void inline_call(module *m, const op *o, const scope *outer,
                        ls_hlo_list *out) {
  const ls_hlo_cursor after = m->r.now;
  ls_hlo_reader *r = &m->r;
  char key[KEY_SIZE];
  snprintf(key, sizeof(key), "@%s", o->callee != NULL ? o->callee : "");
  const ls_hlo_cursor *function =
      ls_map_find(&r->onnx.values, key, strlen(key));
  const scope s = inner_scope(m, outer, false);
  if (function == NULL)
    LS_HLO_EXPECTED(r, "a function of the text, got %s", key);
  if (!ls_status_is_ok(r->status)) return;
  r->now = *function;
  ls_hlo_expect(r, "(");
  for (size_t i = 0; i < o->inputs.count; ++i) {
    const char *name = ls_hlo_text(r);
    if (r->now.kind != LS_HLO_VALUE) LS_HLO_EXPECTED(r, "an argument");
    ls_hlo_next(r);
    while (!ls_hlo_is(r, ",") && !ls_hlo_is(r, ")") &&
           r->now.kind != LS_HLO_END)
      ls_hlo_is(r, "{") || ls_hlo_is(r, "(") ? ls_hlo_skip_brackets(r)
      : ls_hlo_is(r, "tensor")               ? (void)ls_hlo_read_type(r)
                                             : ls_hlo_next(r);
    if (i + 1 < o->inputs.count) ls_hlo_expect(r, ",");
    define(m, &s, name, o->inputs.items[i]);
  }
  ls_hlo_expect(r, ")");
  op signature = {.type = "func"};
  if (ls_hlo_accept(r, "->")) {
    if (ls_hlo_is(r, "("))
      ls_hlo_skip_brackets(r);
    else
      read_type_list(m, &signature);
  }
  if (ls_hlo_accept(r, "attributes")) ls_hlo_skip_brackets(r);
  ls_hlo_expect(r, "{");
  read_block(m, &s, out);
  if (ls_status_is_ok(r->status)) r->now = after;
}

// Reads a region of a loop with these values of its arguments.
static void inline_region(module *m, const op *o, const scope *outer,
                          size_t region, const ls_hlo_list *values,
                          ls_hlo_list *out) {
  ls_hlo_reader *r = &m->r;
  const scope s = inner_scope(m, outer, true);
  if (!ls_status_is_ok(r->status)) return;
  r->now = o->regions[region];
  ls_hlo_expect(r, "{");
  const bool has_header = ls_hlo_accept(r, "^");
  if (has_header) {
    ls_hlo_next(r);
    ls_hlo_expect(r, "(");
  }
  for (size_t i = 0; i < values->count && ls_status_is_ok(r->status); ++i) {
    if (has_header) {
      define(m, &s, ls_hlo_text(r), values->items[i]);
      if (r->now.kind != LS_HLO_VALUE) LS_HLO_EXPECTED(r, "an argument");
      ls_hlo_next(r);
      ls_hlo_expect(r, ":");
      ls_hlo_read_type(r);
      skip_location(m);
      if (i + 1 < values->count) ls_hlo_expect(r, ",");
    } else if (i < o->carried.count) {
      define(m, &s, o->carried.items[i], values->items[i]);
    }
  }
  if (has_header) {
    ls_hlo_expect(r, ")");
    ls_hlo_expect(r, ":");
  }
  read_block(m, &s, out);
}

static void unroll_loop(module *m, const op *o, const scope *outer,
                        ls_hlo_list *out) {
  ls_hlo_reader *r = &m->r;
  const ls_hlo_cursor after = r->now;
  *out = o->inputs;
  if (o->num_regions != 2) LS_HLO_EXPECTED(r, "two regions of a loop");
  for (int trip = 0; ls_status_is_ok(r->status); ++trip) {
    ls_hlo_list condition = {0}, values = {0};
    inline_region(m, o, outer, 0, out, &condition);
    if (!ls_status_is_ok(r->status)) return;
    const scalar truth =
        condition.count == 1 ? m->scalars[condition.items[0]] : (scalar){0};
    if (!truth.is_known || trip >= MOST_TRIPS) {
      r->now = after;
      r->now.line = o->line;
      ls_hlo_fail(r, LS_UNIMPLEMENTED,
                  "a loop (stablehlo.while) whose number of steps depends on "
                  "values, or is above %d",
                  MOST_TRIPS);
      return;
    }
    if (truth.value == 0) break;
    inline_region(m, o, outer, 1, out, &values);
    if (values.count != o->inputs.count)
      LS_HLO_EXPECTED(r, "as many results of a loop as it has operands");
    *out = values;
  }
  if (ls_status_is_ok(r->status)) r->now = after;
}

// Reads the name of an op, with or without quotes.
static void read_name(module *m, op *o) {
  ls_hlo_reader *r = &m->r;
  const char *text = ls_hlo_text(r), *dot = strrchr(text, '.');
  o->line = r->now.line;
  if ((r->now.kind != LS_HLO_NAME && r->now.kind != LS_HLO_STRING) ||
      strlen(text) >= sizeof(o->type)) {
    LS_HLO_EXPECTED(r, "an op");
    return;
  }
  snprintf(o->domain, sizeof(o->domain), "%.*s",
           dot != NULL ? (int)(dot - text) : 0, text);
  snprintf(o->type, sizeof(o->type), "%s", dot != NULL ? dot + 1 : text);
  const char *const structure[] = {"call", "return", "constant", "while"};
  bool is_known = ls_hlo_op_find(o->domain, o->type) != NULL;
  for (size_t i = 0; i < 4; ++i)
    is_known = is_known || strcmp(o->type, structure[i]) == 0;
  if (is_known) {
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
static void read_result_names(module *m, name_list *out) {
  ls_hlo_reader *r = &m->r;
  while (r->now.kind == LS_HLO_VALUE) {
    const char *name = ls_hlo_text(r);
    ls_hlo_next(r);
    if (!ls_hlo_accept(r, ":")) {
      add_name(m, out, name);
    } else {
      const long count = strtol(r->now.text, NULL, 10);
      if (r->now.kind != LS_HLO_NUMBER || count < 1 || count > KEY_SIZE)
        LS_HLO_EXPECTED(r, "a number of results");
      for (long k = 0; k < count && ls_status_is_ok(r->status); ++k)
        add_name(m, out,
                 ls_arena_format(&file_of(m)->memory, "%s#%ld", name, k));
      ls_hlo_next(r);
    }
    if (!ls_hlo_accept(r, ","))
      ls_hlo_expect(r, "=");
    else if (r->now.kind != LS_HLO_VALUE)
      LS_HLO_EXPECTED(r, "a value");
  }
}

// Adds a constant once, however often its function is called.
static uint32_t add_constant(module *m, const op *o, const char *name) {
  char key[KEY_SIZE];
  if (o->array == NULL) {
    LS_HLO_EXPECTED(&m->r, "a constant dense<...>");
    return 0;
  }
  const int size =
      snprintf(key, sizeof(key), "const %s %lld", name, (long long)o->line);
  const void *found = ls_map_find(&m->r.onnx.values, key, (size_t)size);
  if (found != NULL) return (uint32_t)(uintptr_t)found;
  const char *text = ls_arena_format(&file_of(m)->memory, "%s_line_%lld", name,
                                     (long long)o->line);
  if (text == NULL) return 0;
  const uint32_t value = add_initializer(m, text, o->types[0], o->array);
  if (!ls_map_insert(&m->r.onnx.values, key, (size_t)size,
                     (void *)(uintptr_t)value))
    no_memory(m);
  return value;
}

// Reads an op; returns true after a return, whose operands are `out`.
static bool read_op(module *m, const scope *s, ls_hlo_list *out) {
  ls_hlo_reader *r = &m->r;
  name_list names = {0};
  read_result_names(m, &names);
  const size_t total = names.count;
  op o = {0};
  read_name(m, &o);
  if (!ls_status_is_ok(r->status)) return true;
  const bool is_return = strcmp(o.type, "return") == 0;
  if (is_return && ls_hlo_is(r, "}")) return true;
  read_tail(m, &o, s, is_return ? SIZE_MAX : total);
  if (strcmp(o.type, "constant") == 0 && o.num_types == 0 && o.array != NULL)
    LS_HLO_EXPECTED(r, "the type of a constant");
  const bool is_inlined =
      strcmp(o.type, "call") == 0 || strcmp(o.type, "while") == 0;
  if (!is_return && o.num_types != total)
    LS_HLO_EXPECTED(r, "%zu results of op %s, got %zu types", total, o.type,
                    o.num_types);
  if (!ls_status_is_ok(r->status)) return true;
  if (is_return) {
    *out = o.inputs;
    return true;
  }
  ls_hlo_list results = {0};
  if (is_inlined) {
    (o.type[0] == 'c' ? inline_call : unroll_loop)(m, &o, s, &results);
    if (results.count != total)
      LS_HLO_EXPECTED(r, "%zu results of op %s", total, o.type);
  } else {
    for (size_t i = 0; i < total; ++i)
      ls_hlo_add(r, &results, 0);
    if (!ls_status_is_ok(r->status) || total == 0) return false;
    results.items[0] = o.type[0] == 'c' && strcmp(o.type, "constant") == 0
                           ? add_constant(m, &o, names.items[0])
                           : fold_op(m, &o);
    if (results.items[0] == 0) add_node(m, &o, results.items, total);
  }
  for (size_t i = 0; i < total && ls_status_is_ok(r->status); ++i)
    define(m, s, names.items[i], results.items[i]);
  return false;
}

// Reads ops up to the end of a function or region.
static void read_block(module *m, const scope *s, ls_hlo_list *out) {
  while (!read_op(m, s, out) && ls_status_is_ok(m->r.status))
    ;
  ls_hlo_expect(&m->r, "}");
}

// ---- The main function -----------------------------------------------------
// Finds an argument's value in the file of weights; -1: it is an input.
static int64_t find_weight(module *m, const char *const *names, size_t count) {
  ls_saved_entry entry;
  for (size_t k = 0; m->weights != NULL && k < count; ++k)
    for (size_t i = 0;; ++i) {
      const ls_status status = ls_saved_file_entry(m->weights, i, &entry);
      const bool is_end = !ls_status_is_ok(status);
      ls_status_free(status);
      if (is_end) break;
      if (names[k] != NULL && strcmp(entry.name, names[k]) == 0)
        return (int64_t)i;
    }
  return -1;
}

static void take_weight(module *m, const char *name, ls_type type,
                        int64_t entry, bool is_fixed, uint32_t *out_value) {
  LS_OWN(ls_array, array) = NULL;
  const ls_status status =
      ls_saved_file_read(m->weights, (size_t)entry, &array);
  if (array == NULL)
    ls_hlo_fail(&m->r, ls_status_code(status), "%s", ls_status_message(status));
  ls_status_free(status);
  if (array == NULL) return;
  if (ls_array_dtype(array) != type.dtype ||
      !ls_shape_equal(ls_array_shape(array), type.shape)) {
    LS_HLO_EXPECTED(
        &m->r, "%s for argument '%s', the weights have %s",
        LS_SHAPE_TEXT(type.dtype, type.shape), name,
        LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)));
    return;
  }
  ls_array *kept = ls_give(&array);
  ls_hlo_own_array(&m->r, kept);
  if (!ls_status_is_ok(m->r.status)) return;
  *out_value = add_initializer(m, name, type, kept);
  if (*out_value == 0) return;
  ls_onnx_initializer *made =
      &file_of(m)->initializers[file_of(m)->num_initializers - 1];
  made->is_variable = true;
  made->is_fixed = is_fixed;
}

static const char *attr_text(const op *o, const char *name) {
  for (size_t i = 0; i < o->num_attrs; ++i)
    if (strcmp(o->attrs[i].name, name) == 0) return o->attrs[i].text;
  return NULL;
}

// Reads "{ls.input = "x"} loc("x")" after an argument or a result.
static void read_marks(module *m, op *marks, const char **out_location) {
  ls_hlo_reader *r = &m->r;
  if (ls_hlo_accept(r, "{")) read_attrs(m, marks, "}", 0);
  if (!ls_hlo_accept(r, "loc")) return;
  ls_hlo_cursor begin = r->now;
  ls_hlo_expect(r, "(");
  if (r->now.kind == LS_HLO_STRING) *out_location = ls_hlo_text(r);
  if (!ls_status_is_ok(r->status)) return;
  r->now = begin;
  ls_hlo_skip_brackets(r);
}

static void add_port(module *m, bool is_input, uint32_t value, const char *name,
                     ls_type type) {
  ls_onnx_file *file = file_of(m);
  ls_onnx_port *place = ls_hlo_push(
      &m->r, is_input ? &file->inputs : &file->outputs,
      is_input ? &file->num_inputs : &file->num_outputs, sizeof(*place));
  if (place != NULL) *place = (ls_onnx_port){value, name, type};
}

static void read_argument(module *m, const scope *s, size_t index) {
  ls_hlo_reader *r = &m->r;
  op marks = {0};
  const char *own = ls_hlo_text(r), *location = NULL;
  char *position = ls_arena_format(&file_of(m)->memory, "arr_%zu", index);
  if (r->now.kind != LS_HLO_VALUE) LS_HLO_EXPECTED(r, "an argument");
  ls_hlo_next(r);
  ls_hlo_expect(r, ":");
  const ls_type type = ls_hlo_read_type(r);
  read_marks(m, &marks, &location);
  if (!ls_status_is_ok(r->status)) return;
  const char *input = attr_text(&marks, "ls.input"),
             *variable = attr_text(&marks, "ls.variable");
  const char *names[] = {variable, location, own, position};
  const int64_t entry = input == NULL ? find_weight(m, names, 4) : -1;
  const char *name = variable != NULL                          ? variable
                     : input != NULL                           ? input
                     : location != NULL && location[0] != '\0' ? location
                                                               : own;
  uint32_t value = 0;
  if (entry >= 0) {
    take_weight(m, name, type, entry, attr_text(&marks, "ls.trainable") != NULL,
                &value);
  } else if (variable != NULL) {
    ls_hlo_fail(r, LS_NOT_FOUND,
                "the values of variable '%s': they are in the export's "
                "variables.safetensors, which must lie beside the text",
                variable);
  } else {
    value = new_value(m, name, type);
    add_port(m, true, value, name, type);
  }
  if (ls_status_is_ok(r->status)) define(m, s, own, value);
}

static void read_output(module *m, size_t index, bool has_marks) {
  ls_hlo_reader *r = &m->r;
  op marks = {0};
  const char *location = NULL;
  const ls_type type = ls_hlo_read_type(r);
  if (has_marks) read_marks(m, &marks, &location);
  const char *name = attr_text(&marks, "ls.output");
  if (name == NULL) name = attr_text(&marks, "jax.result_info");
  if (name == NULL || name[0] == '\0')
    name = ls_arena_format(&file_of(m)->memory, "output%zu", index);
  if (ls_status_is_ok(r->status) && name != NULL)
    add_port(m, false, 0, name, type);
}

static void read_main(module *m) {
  ls_hlo_reader *r = &m->r;
  const scope s = inner_scope(m, NULL, false);
  ls_onnx_file *file = file_of(m);
  ls_hlo_list results = {0};
  r->now = *m->main;
  ls_hlo_expect(r, "(");
  for (size_t i = 0; !ls_hlo_is(r, ")") && r->now.kind != LS_HLO_END; ++i) {
    read_argument(m, &s, i);
    if (!ls_hlo_is(r, ")")) ls_hlo_expect(r, ",");
  }
  ls_hlo_expect(r, ")");
  ls_hlo_expect(r, "->");
  const bool has_brackets = ls_hlo_accept(r, "(");
  do
    read_output(m, file->num_outputs, has_brackets);
  while (has_brackets && ls_hlo_accept(r, ","));
  if (has_brackets) ls_hlo_expect(r, ")");
  if (ls_hlo_accept(r, "attributes")) ls_hlo_skip_brackets(r);
  ls_hlo_expect(r, "{");
  read_block(m, &s, &results);
  if (results.count != file->num_outputs)
    LS_HLO_EXPECTED(r, "%zu results of main", file->num_outputs);
  for (size_t i = 0; ls_status_is_ok(r->status) && i < results.count; ++i)
    file->outputs[i].value = (uint32_t)results.items[i];
}

// Finds all functions; the main one is public, or named "main".
static void find_functions(module *m) {
  ls_hlo_reader *r = &m->r;
  ls_hlo_next(r);
  while (r->now.kind != LS_HLO_END) {
    const bool is_function = ls_hlo_is(r, "func.func");
    ls_hlo_next(r);
    if (!is_function) continue;
    const bool is_private = ls_hlo_accept(r, "private");
    ls_hlo_accept(r, "public");
    const char *name = ls_hlo_text(r);
    char key[KEY_SIZE];
    if (r->now.kind != LS_HLO_SYMBOL || r->now.size > KEY_SIZE - 2)
      LS_HLO_EXPECTED(r, "a function's name");
    ls_hlo_next(r);
    ls_hlo_cursor *cursor = arena_array(m, 1, sizeof(*cursor));
    if (cursor == NULL || r->now.kind == LS_HLO_END) return;
    *cursor = r->now;
    snprintf(key, sizeof(key), "@%s", name);
    if (!ls_map_insert(&r->onnx.values, key, strlen(key), cursor)) no_memory(m);
    if (strcmp(name, "main") == 0 || (m->main == NULL && !is_private))
      m->main = cursor;
  }
}

// Opens weights beside the text: net.safetensors or net.npz for net.mlir, or
// those of an export.
static ls_status open_weights(module *m) {
  static const char *const ends[] = {".safetensors", ".npz"};
  const char *path = file_of(m)->path, *slash = strrchr(path, '/');
  const ls_file_system *files = ls_runtime_files(m->r.onnx.runtime);
  const int base = slash != NULL ? (int)(slash - path) + 1 : 0;
  for (int i = 0; i < 3; ++i) {
    const char *beside =
        i < 2 ? ls_arena_format(&file_of(m)->memory, "%.*s%s",
                                (int)(strlen(path) - strlen(".mlir")), path,
                                ends[i])
              : ls_arena_format(&file_of(m)->memory,
                                "%.*svariables.safetensors", base, path);
    bool exists = false;
    LS_RETURN_IF_NO_MEMORY(beside);
    LS_RETURN_IF_ERROR(files->exists(files->user, beside, &exists));
    if (exists) return ls_saved_file_open(beside, &m->weights);
  }
  return ls_ok();
}

ls_status ls_hlo_decode(ls_runtime *runtime, const void *data, size_t size,
                        ls_onnx_file *file) {
  module m = {.r = {.onnx = {.runtime = runtime,
                             .file = file,
                             .values = {.allocator = file->memory.allocator}}}};
  char *text = ls_arena_allocate(&file->memory, size + 1);
  LS_RETURN_IF_NO_MEMORY(text);
  memcpy(text, data, size);
  m.r.begin = m.r.now.at = m.r.now.text = text;
  m.r.end = text + size;
  m.r.now.line = 1;
  file->num_values = 0;
  new_value(&m, "", (ls_type){0});
  if (ls_status_is_ok(m.r.status)) {
    const ls_status opened = open_weights(&m);
    if (!ls_status_is_ok(opened)) m.r.status = opened;
  }
  find_functions(&m);
  if (ls_status_is_ok(m.r.status) && m.main == NULL)
    m.r.status = ls_invalid_argument(
        "'%s' is no StableHLO text: it has no function (func.func)",
        file->path);
  if (ls_status_is_ok(m.r.status)) read_main(&m);
  ls_saved_file_close(m.weights);
  ls_map_deinit(&m.r.onnx.values);
  return m.r.status;
}

bool ls_hlo_is_path(const char *path) {
  const size_t size = strlen(path);
  return size > 5 && strcmp(path + size - 5, ".mlir") == 0;
}

bool ls_hlo_is_node(const ls_onnx_node *node) {
  return strcmp(node->domain, "stablehlo") == 0 ||
         strcmp(node->domain, "chlo") == 0;
}
