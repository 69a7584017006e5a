// SPDX-License-Identifier: Apache-2.0
//
// Reads a StableHLO module: its main function, with calls and branches inlined
// and loops unrolled. Weights are constants, or arguments whose values are in a
// file beside the text.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "lockstep/saved_file.h"
#include "onnx/hlo.h"

enum {
  MOST_NODES = 1 << 18,
  MOST_CALLS = 64,
  MOST_TRIPS = 4096,
  MOST_COPIES = 1 << 24,
  KEY_SIZE = 200,
};

// Names of values inside a function or region.
typedef struct scope {
  uint64_t id;
  const struct scope *outer;  // NULL: a function's.
  int depth;                  // Number of calls and regions around it.
} scope;
static const scope functions = {0};  // Names of functions.

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
  bool is_sorting;  // Reads the region of a sort.
  size_t num_read;  // Bytes of ops and heads, with those of calls and loops.
} module;

static ls_onnx_file *file_of(module *m) { return m->r.onnx.file; }
static void *arena_array(module *m, size_t count, size_t size) {
  void *block = ls_arena_allocate_array(&file_of(m)->memory, count, size);
  if (block == NULL) ls_hlo_no_memory(&m->r);
  return block;
}

// Counts what was read from `begin` on. Texts of calls and loops are read again
// and again.
static void count_text(module *m, const char *begin) {
  ls_hlo_reader *r = &m->r;
  if (!ls_status_is_ok(r->status)) return;
  m->num_read += (size_t)(r->now.text - begin);
  if (m->num_read > MOST_COPIES + (size_t)(r->end - r->begin))
    ls_hlo_fail(r, LS_UNIMPLEMENTED,
                "a text of more than %d bytes in addition to its own, with "
                "calls inlined and loops unrolled",
                MOST_COPIES);
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
  if (ls_map_has(&m->r.onnx.values, key, size))
    LS_HLO_EXPECTED(&m->r, "each name once, got a second '%s' before", name);
  if (!ls_map_insert(&m->r.onnx.values, key, size, (void *)(uintptr_t)value))
    ls_hlo_no_memory(&m->r);
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
// Computes an op of known integers of a type; returns false for another op.
static bool fold(const ls_hlo_op *o, ls_dtype dtype, const scalar *x,
                 int64_t *out) {
  static const char *const names[] = {"add", "subtract", "multiply", "convert",
                                      "select"};
  const int64_t a = x[0].value, b = x[1].value;
  const int64_t values[] = {(int64_t)((uint64_t)a + (uint64_t)b),
                            (int64_t)((uint64_t)a - (uint64_t)b),
                            (int64_t)((uint64_t)a * (uint64_t)b), a,
                            a != 0 ? b : x[2].value};
  // Orders integers of ui64 as signed ones.
  const int64_t flip = dtype == LS_DTYPE_U64 ? INT64_MIN : 0;
  const int64_t c = a ^ flip, d = b ^ flip;
  const bool truths[] = {c == d, c != d, c<d, c <= d, c> d, c >= d};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
    if (strcmp(o->type, names[i]) == 0) {
      *out = values[i];
      return true;
    }
  for (size_t i = 0; o->direction != NULL && i < 6; ++i)
    if (strcmp(o->type, "compare") == 0 &&
        strcmp(o->direction, ls_hlo_directions[i]) == 0) {
      *out = truths[i];
      return true;
    }
  return false;
}

// Makes a constant of an op whose operands are known integers; returns 0 for
// another op.
static uint32_t fold_op(module *m, const ls_hlo_op *o) {
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
  const ls_dtype dtype = file_of(m)->types[o->inputs.items[0]].dtype;
  if (!fold(o, dtype, x, &value)) return 0;
  const ls_status status = ls_array_create(type.dtype, LS_SCALAR, &array);
  if (array == NULL) ls_hlo_no_memory(&m->r);
  ls_status_free(status);
  if (array == NULL) return 0;
  ls_array_set_i64(array, 0, type.dtype == LS_DTYPE_BOOL ? value != 0 : value);
  ls_array *kept = ls_give(&array);
  ls_hlo_own_array(&m->r, kept);
  return ls_status_is_ok(m->r.status) ? add_initializer(m, "%", type, kept) : 0;
}

// Makes a node of an op, and the values of its results.
static void add_node(module *m, const ls_hlo_op *o, int64_t *results,
                     size_t count) {
  ls_onnx_file *file = file_of(m);
  ls_onnx_node *node =
      ls_hlo_push(&m->r, &file->nodes, &file->num_nodes, sizeof(*node));
  uint32_t *ids = arena_array(m, o->inputs.count + count + 1, sizeof(*ids));
  ls_onnx_attr *attrs = arena_array(m, o->num_attrs + 2, sizeof(*attrs));
  char *type = ls_arena_string(&file->memory, o->type),
       *domain = ls_arena_string(&file->memory, o->domain),
       *name = ls_arena_format(&file->memory, "line %lld",
                               (long long)o->begin.line);
  if (node == NULL || ids == NULL || attrs == NULL || type == NULL ||
      domain == NULL || name == NULL || !ls_status_is_ok(m->r.status))
    return;
  if (file->num_nodes > MOST_NODES) {
    ls_hlo_fail(&m->r, LS_UNIMPLEMENTED,
                "more than %d ops, with those of calls and loops", MOST_NODES);
    return;
  }
  memcpy(attrs, o->attrs, o->num_attrs * sizeof(*attrs));
  if (o->direction != NULL)
    attrs[o->num_attrs] = (ls_onnx_attr){
        .name = "word", .kind = LS_ONNX_STRING, .text = o->direction};
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
                         .num_attrs = o->num_attrs + (o->direction != NULL)};
}

// ---- Functions and loops ---------------------------------------------------
static void read_block(module *m, const scope *s, ls_hlo_list *out);

// Names values by the arguments in brackets: "(%a: tensor<f32>, ...)".
static void bind_arguments(module *m, const scope *s,
                           const ls_hlo_list *values) {
  ls_hlo_reader *r = &m->r;
  size_t count = 0;
  int64_t depth = 0;
  do {
    depth += ls_hlo_is(r, "(") - ls_hlo_is(r, ")");
    if (r->now.kind == LS_HLO_VALUE && count++ < values->count)
      define(m, s, ls_hlo_text(r), values->items[count - 1]);
    ls_hlo_next(r);
  } while (depth > 0 && r->now.kind != LS_HLO_END);
  if (count != values->count)
    LS_HLO_EXPECTED(r, "%zu arguments before", values->count);
}

static void inline_call(module *m, const ls_hlo_op *o, const scope *outer,
                        ls_hlo_list *out) {
  const ls_hlo_cursor after = m->r.now;
  ls_hlo_reader *r = &m->r;
  char key[KEY_SIZE];
  const char *callee = o->callee != NULL ? o->callee : "";
  const size_t size = make_key(m, &functions, callee, key);
  const ls_hlo_cursor *function = ls_map_find(&r->onnx.values, key, size);
  const scope s = inner_scope(m, outer, false);
  if (function == NULL)
    LS_HLO_EXPECTED(r, "a function of the text, got @%s", callee);
  if (!ls_status_is_ok(r->status)) return;
  r->now = *function;
  bind_arguments(m, &s, &o->inputs);
  if (ls_hlo_accept(r, "->"))
    ls_hlo_is(r, "(") ? ls_hlo_skip_brackets(r) : (void)ls_hlo_read_type(r);
  if (ls_hlo_accept(r, "attributes")) ls_hlo_skip_brackets(r);
  ls_hlo_expect(r, "{");
  count_text(m, function->text);
  read_block(m, &s, out);
  if (ls_status_is_ok(r->status)) r->now = after;
}

// Reads a region with these values of its arguments.
static void inline_region(module *m, const ls_hlo_op *o, const scope *outer,
                          size_t region, const ls_hlo_list *values,
                          ls_hlo_list *out) {
  ls_hlo_reader *r = &m->r;
  const scope s = inner_scope(m, outer, true);
  const ls_hlo_cursor after = r->now;
  if (!ls_status_is_ok(r->status)) return;
  r->now = o->regions[region];
  ls_hlo_expect(r, "{");
  if (ls_hlo_accept(r, "^")) {
    ls_hlo_next(r);
    bind_arguments(m, &s, values);
    ls_hlo_expect(r, ":");
  } else {
    for (size_t i = 0; i < values->count && i < o->carried.count; ++i)
      define(m, &s, o->carried.items[i], values->items[i]);
  }
  count_text(m, o->regions[region].text);
  read_block(m, &s, out);
  if (ls_status_is_ok(r->status)) r->now = after;
}

static void unroll_loop(module *m, const ls_hlo_op *o, const scope *outer,
                        ls_hlo_list *out) {
  ls_hlo_reader *r = &m->r;
  *out = o->inputs;
  if (o->num_regions != 2) LS_HLO_EXPECTED(r, "two regions of a loop");
  for (int trip = 0; ls_status_is_ok(r->status); ++trip) {
    ls_hlo_list condition = {0}, values = {0};
    inline_region(m, o, outer, 0, out, &condition);
    if (!ls_status_is_ok(r->status)) return;
    const scalar truth =
        condition.count == 1 ? m->scalars[condition.items[0]] : (scalar){0};
    if (!truth.is_known || trip >= MOST_TRIPS) {
      r->now = o->begin;
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
}

// Reads the branches of a choice: the one that is known to be taken, or all,
// among whose results a node for each selects.
static void inline_branches(module *m, const ls_hlo_op *o, const scope *outer,
                            ls_hlo_list *out) {
  ls_hlo_reader *r = &m->r;
  const size_t count = o->num_regions;
  const bool is_if = o->type[0] == 'i';
  ls_hlo_list results = {0};
  const ls_hlo_list none = {0};
  const int64_t input = o->inputs.count == 1 ? o->inputs.items[0] : 0;
  const ls_type type = file_of(m)->types[input];
  if (input == 0 || type.shape.rank != 0 || count == 0 ||
      is_if != (type.dtype == LS_DTYPE_BOOL) || (is_if && count != 2))
    LS_HLO_EXPECTED(r, "one operand and the branches of op %s", o->type);
  if (!ls_status_is_ok(r->status)) return;
  const scalar choice = m->scalars[input];
  const uint64_t index = (uint64_t)(is_if ? choice.value == 0 : choice.value);
  for (size_t i = 0; i < count && ls_status_is_ok(r->status); ++i) {
    ls_hlo_list values = {0};
    if (choice.is_known && i != (index < count ? index : count - 1)) continue;
    inline_region(m, o, outer, i, &none, &values);
    if (values.count != o->num_types)
      LS_HLO_EXPECTED(r, "%zu results of a branch", o->num_types);
    for (size_t k = 0; k < values.count; ++k)
      ls_hlo_add(r, choice.is_known ? out : &results, values.items[k]);
  }
  if (choice.is_known || !ls_status_is_ok(r->status)) return;
  for (size_t k = 0; k < o->num_types; ++k) {
    ls_hlo_op one = *o;
    one.inputs = (ls_hlo_list){0};
    one.types += k;
    ls_hlo_add(r, &one.inputs, input);
    for (size_t i = 0; i < count; ++i)
      ls_hlo_add(r, &one.inputs, results.items[i * o->num_types + k]);
    ls_hlo_add(r, out, 0);
    if (!ls_status_is_ok(r->status)) return;
    add_node(m, &one, &out->items[k], 1);
  }
}

// Finds the order of a sort by the ops of its region, which are left out then.
static void find_order(module *m, ls_hlo_op *o, const scope *outer) {
  ls_hlo_reader *r = &m->r;
  ls_onnx_file *file = file_of(m);
  const size_t first = file->num_nodes, count = o->inputs.count;
  ls_hlo_list items = {0}, results = {0};
  if (o->num_regions != 1 || count == 0 || o->num_attrs == LS_HLO_MOST_ATTRS)
    LS_HLO_EXPECTED(r, "operands and one region of op sort");
  for (size_t i = 0; i < 2 * count && ls_status_is_ok(r->status); ++i) {
    const ls_dtype dtype = file->types[o->inputs.items[i / 2]].dtype;
    ls_hlo_add(r, &items, new_value(m, "%", (ls_type){dtype, LS_SCALAR}));
  }
  m->is_sorting = true;
  if (ls_status_is_ok(r->status))
    inline_region(m, o, outer, 0, &items, &results);
  m->is_sorting = false;
  if (results.count != 1) LS_HLO_EXPECTED(r, "one result of a region");
  if (!ls_status_is_ok(r->status)) return;
  o->attrs[o->num_attrs++] = (ls_onnx_attr){
      .name = "order",
      .kind = LS_ONNX_INT,
      .number = ls_hlo_order(file, first, (uint32_t)items.items[0], count,
                             (uint32_t)results.items[0])};
  file->num_nodes = first;
}

// Adds a constant once, however often its function is called.
static uint32_t add_constant(module *m, const ls_hlo_op *o, const char *name) {
  ls_hlo_reader *r = &m->r;
  ls_map *values = &r->onnx.values;
  char key[KEY_SIZE];
  if (o->array == NULL || o->types[0].dtype != o->array_type.dtype ||
      !ls_shape_equal(o->types[0].shape, o->array_type.shape)) {
    r->now = o->begin;
    LS_HLO_EXPECTED(r, "a constant dense<...> of the type %s",
                    LS_SHAPE_TEXT(o->types[0].dtype, o->types[0].shape));
    return 0;
  }
  const size_t offset = (size_t)(o->begin.text - r->begin);
  const size_t size = (size_t)snprintf(key, sizeof(key), "const %zu", offset);
  const void *found = ls_map_find(values, key, size);
  if (found != NULL) return (uint32_t)(uintptr_t)found;
  ls_arena *memory = &file_of(m)->memory;
  const char *text =
      ls_arena_format(memory, "%s_line_%lld", name, (long long)o->begin.line);
  if (text != NULL && ls_map_find(values, text, strlen(text)) != NULL)
    text = ls_arena_format(memory, "%s_byte_%zu", text, offset);
  if (text == NULL) ls_hlo_no_memory(r);
  const uint32_t value =
      text != NULL ? add_initializer(m, text, o->types[0], o->array) : 0;
  if (value == 0) return 0;
  if (!ls_map_insert(values, key, size, (void *)(uintptr_t)value) ||
      !ls_map_insert(values, text, strlen(text), (void *)(uintptr_t)value))
    ls_hlo_no_memory(r);
  return value;
}

// Finds the values of an op's operands.
static void find_operands(module *m, const scope *s, ls_hlo_op *o) {
  const ls_hlo_cursor after = m->r.now;
  for (size_t i = 0; i < o->num_operands; ++i) {
    m->r.now = o->operands[i];
    ls_hlo_add(&m->r, &o->inputs, find_value(m, s, ls_hlo_text(&m->r)));
    if (!ls_status_is_ok(m->r.status)) return;
  }
  m->r.now = after;
}

// Requires the type of a result of an op or a function.
static void expect_type(module *m, const char *name, const ls_hlo_list *values,
                        size_t index, ls_type wanted) {
  const ls_type got = file_of(m)->types[values->items[index]];
  if (got.dtype != wanted.dtype || !ls_shape_equal(got.shape, wanted.shape))
    LS_HLO_EXPECTED(&m->r, "%s as result %zu of %s before, got %s",
                    LS_SHAPE_TEXT(wanted.dtype, wanted.shape), index, name,
                    LS_SHAPE_TEXT(got.dtype, got.shape));
}

// Reads an op; returns true after a return, whose operands are `out`.
static bool read_op(module *m, const scope *s, ls_hlo_list *out) {
  ls_hlo_reader *r = &m->r;
  ls_hlo_list results = {0};
  ls_hlo_op o = {0};
  const char *begin = r->now.text;
  ls_hlo_read_op(r, &o);
  count_text(m, begin);
  if (ls_status_is_ok(r->status)) find_operands(m, s, &o);
  if (!ls_status_is_ok(r->status)) return true;
  const bool is_total =
      o.is_total && o.inputs.count > 0 &&
      ls_dtype_is_float(file_of(m)->types[o.inputs.items[0]].dtype);
  if (is_total && m->is_sorting && o.num_attrs < LS_HLO_MOST_ATTRS) {
    o.attrs[o.num_attrs++] = (ls_onnx_attr){.name = "total"};
  } else if (is_total) {
    r->now = o.begin;
    ls_hlo_fail(r, LS_UNIMPLEMENTED, "op %s of floats in order TOTALORDER",
                o.type);
    return true;
  }
  if (strcmp(o.type, "return") == 0) {
    *out = o.inputs;
    return true;
  }
  if (strcmp(o.type, "sort") == 0) find_order(m, &o, s);
  const size_t count = o.results.count;
  const bool is_choice =
                 strcmp(o.type, "case") == 0 || strcmp(o.type, "if") == 0,
             is_call = strcmp(o.type, "call") == 0;
  if (is_choice || is_call || strcmp(o.type, "while") == 0) {
    (is_choice ? inline_branches
     : is_call ? inline_call
               : unroll_loop)(m, &o, s, &results);
    if (results.count != count)
      LS_HLO_EXPECTED(r, "%zu results of op %s", count, o.type);
    for (size_t i = 0; ls_status_is_ok(r->status) && i < count; ++i)
      expect_type(m, o.type, &results, i, o.types[i]);
  } else if (count > 0) {
    for (size_t i = 0; i < count; ++i)
      ls_hlo_add(r, &results, 0);
    if (!ls_status_is_ok(r->status)) return true;
    results.items[0] = strcmp(o.type, "constant") == 0
                           ? add_constant(m, &o, o.results.items[0])
                           : fold_op(m, &o);
    if (results.items[0] == 0) add_node(m, &o, results.items, count);
  }
  for (size_t i = 0; i < count && ls_status_is_ok(r->status); ++i)
    define(m, s, o.results.items[i], results.items[i]);
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

static const char *attr_text(const ls_hlo_op *o, const char *name) {
  for (size_t i = 0; i < o->num_attrs; ++i)
    if (strcmp(o->attrs[i].name, name) == 0) return o->attrs[i].text;
  return NULL;
}

// Reads "{ls.input = "x"} loc("x")" after an argument or a result.
static void read_marks(module *m, ls_hlo_op *marks, const char **out_location) {
  ls_hlo_reader *r = &m->r;
  if (ls_hlo_accept(r, "{")) ls_hlo_read_attrs(r, marks, "}", 0);
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
  ls_hlo_op marks = {0};
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
    const char *trains = attr_text(&marks, "ls.trainable");
    take_weight(m, name, type, entry,
                trains != NULL && strcmp(trains, "false") == 0, &value);
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
  ls_hlo_op marks = {0};
  const char *location = NULL;
  const ls_type type = ls_hlo_read_type(r);
  if (has_marks) read_marks(m, &marks, &location);
  const char *name = attr_text(&marks, "ls.output");
  if (name == NULL) name = attr_text(&marks, "jax.result_info");
  if (name == NULL || name[0] == '\0')
    name = ls_arena_format(&file_of(m)->memory, "output%zu", index);
  if (name == NULL) ls_hlo_no_memory(r);
  if (ls_status_is_ok(r->status)) add_port(m, false, 0, name, type);
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
  for (size_t i = 0; ls_status_is_ok(r->status) && i < results.count; ++i) {
    expect_type(m, "main", &results, i, file->outputs[i].type);
    file->outputs[i].value = (uint32_t)results.items[i];
  }
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
    if (r->now.kind != LS_HLO_SYMBOL) LS_HLO_EXPECTED(r, "a function's name");
    ls_hlo_next(r);
    ls_hlo_cursor *cursor = arena_array(m, 1, sizeof(*cursor));
    if (cursor == NULL || r->now.kind == LS_HLO_END) return;
    *cursor = r->now;
    define(m, &functions, name, (int64_t)(uintptr_t)cursor);
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
    m.r.status =
        ls_invalid_argument("'%s' is no StableHLO text%s", file->path,
                            strstr(text, "\"func.func\"") == NULL
                                ? ": it has no function (func.func)"
                                : " in its short form: print functions without "
                                  "--mlir-print-op-generic");
  if (ls_status_is_ok(m.r.status)) read_main(&m);
  ls_saved_file_close(m.weights);
  ls_map_deinit(&m.r.onnx.values);
  return m.r.status;
}

bool ls_hlo_is_path(const char *path) {
  const size_t size = strlen(path);
  return size > 5 && strcmp(path + size - 5, ".mlir") == 0;
}
