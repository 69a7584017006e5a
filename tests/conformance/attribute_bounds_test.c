// SPDX-License-Identifier: Apache-2.0
//
// The table of attributes, row by row: each attribute of each op at its bounds
// and beyond, of another kind, and not there, given to ls_op_add and written in
// a text. What is beyond is refused by one status that names it; what is within
// is answered by the shape rule, whatever its operands.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/make/make.h"
#include "graph/own.h"
#include "support/attr_values.h"
#include "support/attrs.h"
#include "support/expect.h"

enum { MOST_ATTRS = 24, TEXT = 1 << 16 };

// ---- An op -----------------------------------------------------------------
// As the table has it: all that it needs, each within its bounds, but for the
// attribute under test.
typedef struct subject {
  uint16_t type;
  ls_attr attrs[MOST_ATTRS];
  size_t count;
} subject;

static void need_all(subject *s, uint16_t type) {
  const ls_op_info *info = &ls_op_table[type];
  for (uint32_t i = 0; i < info->num_attrs; ++i) {
    if (!info->attrs[i].needed) continue;
    const attr_values v = attr_values_within(&ls_attr_table[info->attrs[i].id]);
    s->attrs[s->count++] = v.items[0];
  }
}

// A meeting stands for the first op that there is a word for.
static subject subject_of(uint16_t type) {
  subject s = {.type = type};
  need_all(&s, type);
  const uint16_t met_as = ls_attrs_met_as(type, s.attrs, s.count);
  if (met_as != LS_OP_NONE) need_all(&s, met_as);
  assert_true(s.count < MOST_ATTRS);
  return s;
}

// In place of the one with its name, or besides.
static subject with(const subject *s, const ls_attr *attr) {
  subject other = *s;
  size_t at = 0;
  while (at < s->count && strcmp(s->attrs[at].name, attr->name) != 0)
    ++at;
  other.attrs[at] = *attr;
  if (at == s->count) ++other.count;
  return other;
}

static subject without(const subject *s, const char *name) {
  subject other = *s;
  other.count = 0;
  for (size_t i = 0; i < s->count; ++i)
    if (strcmp(s->attrs[i].name, name) != 0)
      other.attrs[other.count++] = s->attrs[i];
  return other;
}

// ---- ls_op_add -------------------------------------------------------------
static ls_graph *graph;
static ls_tensor operand;

static ls_status add_op(const subject *s) {
  ls_tensor inputs[ATTR_OPERANDS];
  for (size_t i = 0; i < ATTR_OPERANDS; ++i)
    inputs[i] = operand;
  ls_op_add(&(ls_op_spec){.type = s->type,
                          .inputs = inputs,
                          .num_inputs = ls_op_least(&ls_op_table[s->type]),
                          .attrs = s->attrs,
                          .num_attrs = s->count});
  return ls_graph_take_error(graph);
}

// ---- Text ------------------------------------------------------------------
typedef struct text {
  char bytes[TEXT];
  size_t size;
  bool possible;  // Text can say it.
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t,
                                                      const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  t->size +=
      (size_t)vsnprintf(t->bytes + t->size, TEXT - t->size, format, arguments);
  va_end(arguments);
  assert_true(t->size < TEXT);
}

static void put_value(text *t, const ls_attr *attr) {
  switch (attr->kind) {
  case LS_ATTR_INT:
    put(t, "%lld", (long long)attr->as.i);
    return;
  case LS_ATTR_BOOL:
    t->possible = t->possible && (attr->as.i == 0 || attr->as.i == 1);
    put(t, "%s", attr->as.i != 0 ? "true" : "false");
    return;
  case LS_ATTR_FLOAT:
    put(t,
        isnan(attr->as.f)   ? "nan"
        : isinf(attr->as.f) ? "inf"
                            : "%.17e",
        attr->as.f);
    return;
  case LS_ATTR_STRING:
    put(t, "\"%s\"", attr->as.string);
    return;
  case LS_ATTR_DTYPE:
    put(t, "%s", ls_dtype_name(attr->as.dtype));
    t->possible = t->possible && attr->as.dtype > LS_DTYPE_NONE &&
                  attr->as.dtype < LS_DTYPE_COUNT;
    return;
  case LS_ATTR_SHAPE:
    t->possible = t->possible && attr->as.shape.rank == 0;
    put(t, "shape[]");
    return;
  case LS_ATTR_INTS:
    put(t, "[");
    t->possible = t->possible && attr->as.ints.count <= ATTR_VALUES;
    for (size_t i = 0; t->possible && i < attr->as.ints.count; ++i)
      put(t, "%s%lld", i > 0 ? ", " : "", (long long)attr->as.ints.items[i]);
    put(t, "]");
    return;
  case LS_ATTR_SIZES:
    put(t, "sizes[");
    for (size_t i = 0; i < attr->as.sizes.count; ++i) {
      const ls_size size = attr->as.sizes.items[i];
      t->possible = t->possible && size.operand == LS_SIZE_CONSTANT;
      put(t, "%s%lld", i > 0 ? ", " : "", (long long)size.value);
    }
    put(t, "]");
    return;
  case LS_ATTR_ARRAY:
    t->possible = t->possible && attr->as.array != NULL;
    put(t, "f32[] [1]");
    return;
  default:
    t->possible = t->possible && attr->kind == LS_ATTR_OBJECT &&
                  attr->as.object == attr_values_held.variable;
    put(t, "@\"w\"");
    return;
  }
}

// OK, and *out_possible is false, of what text cannot say.
static ls_status parse_op(const subject *s, bool *out_possible) {
  static text t;
  const ls_op_info *info = &ls_op_table[s->type];
  const size_t inputs = ls_op_least(info);
  const char *kind = s->type >= LS_OP_COUNT ? "lowered" : "function";
  t = (text){.possible = true};
  put(&t, "variable @\"w\" : f32[]\ngraph %s \"g\" {\n", kind);
  put(&t, "  %%1 = constant() {value = f32[] [1]} : f32[]\n  %%2 = %s(",
      info->name);
  for (size_t i = 0; i < inputs; ++i)
    put(&t, "%s%%1", i > 0 ? ", " : "");
  put(&t, ") {");
  for (size_t i = 0; i < s->count; ++i) {
    put(&t, "%s%s = ", i > 0 ? ", " : "", s->attrs[i].name);
    put_value(&t, &s->attrs[i]);
  }
  put(&t, "%s : f32[]\n}\n", s->count > 0 ? "}" : "mark = 1}");
  *out_possible = t.possible;
  if (!t.possible) return ls_ok();
  LS_OWN(ls_graph, parsed) = NULL;
  return ls_graph_parse(t.bytes, NULL, 0, &parsed);
}

// ---- Expectations ----------------------------------------------------------
static void expect_refused(const subject *s, const char *part) {
  if (s->type < LS_OP_COUNT)
    expect_status(add_op(s), LS_INVALID_ARGUMENT, part);
  bool possible = false;
  const ls_status status = parse_op(s, &possible);
  if (possible) expect_status(status, LS_INVALID_ARGUMENT, part);
}

// Refused perhaps, by the shape rule.
static void expect_not_refused_for(const subject *s, const char *name) {
  char must[80], none[80];
  snprintf(must, sizeof(must), "'%s' is ", name);
  snprintf(none, sizeof(none), "attribute '%s'", name);
  bool possible = false;
  ls_status statuses[] = {s->type < LS_OP_COUNT ? add_op(s) : ls_ok(),
                          parse_op(s, &possible)};
  for (size_t i = 0; i < LS_COUNT_OF(statuses); ++i) {
    const char *message = ls_status_message(statuses[i]);
    if (statuses[i] != NULL && ((strstr(message, must) != NULL &&
                                 strstr(message, "must be") != NULL) ||
                                strstr(message, none) != NULL))
      fail_msg("%s", message);
    ls_status_free(statuses[i]);
  }
}

static const char *other_text = "of another kind";

static void check_rule(const subject *s, const ls_attr_rule *rule) {
  const ls_attr_info *info = &ls_attr_table[rule->id];
  char part[100];
  snprintf(part, sizeof(part), "'%s'", info->name);
  const attr_values good = attr_values_within(info);
  const attr_values bad = attr_values_beyond(info);
  for (size_t i = 0; i < bad.count; ++i) {
    const subject other = with(s, &bad.items[i]);
    expect_refused(&other, part);
  }
  for (size_t i = 0; i < good.count; ++i) {
    const subject other = with(s, &good.items[i]);
    expect_not_refused_for(&other, info->name);
  }
  const subject missing = without(s, info->name);
  if (rule->needed)
    expect_refused(&missing, "needs the attribute '");
  else
    expect_not_refused_for(&missing, info->name);
  const ls_attr wrong = info->kind == LS_ATTR_STRINGS
                            ? (ls_attr)LS_ATTR_I(info->name, 1)
                            : (ls_attr){.name = info->name,
                                        .kind = LS_ATTR_STRINGS,
                                        .as.strings = {&other_text, 1}};
  const subject other = with(s, &wrong);
  if (s->type < LS_OP_COUNT)
    expect_status(add_op(&other), LS_INVALID_ARGUMENT, part);
}

TEST(every_attribute_has_its_bounds) {
  size_t rules = 0;
  for (uint16_t type = LS_OP_NONE + 1; type < LS_OP_TABLE_COUNT; ++type) {
    const ls_op_info *info = &ls_op_table[type];
    const subject s = subject_of(type);
    for (uint32_t i = 0; i < info->num_attrs; ++i, ++rules)
      check_rule(&s, &info->attrs[i]);
  }
  assert_true(rules > 180);
}

// A meeting has the attributes of what it stands for besides its own.
TEST(a_meeting_has_the_bounds_of_what_is_met) {
  static const uint16_t met[] = {LS_OP_ALL_REDUCE,     LS_OP_ALL_GATHER,
                                 LS_OP_REDUCE_SCATTER, LS_OP_ALL_TO_ALL,
                                 LS_OP_PERMUTE,        LS_OP_REPLICA_BROADCAST};
  for (size_t m = 0; m < LS_COUNT_OF(met); ++m) {
    const ls_op_info *info = &ls_op_table[met[m]];
    subject s = {.type = LS_OP_MEETING};
    s.attrs[s.count++] = LS_ATTR_S("op", info->name);
    s.attrs[s.count++] = LS_ATTR_I("num_inputs", 0);
    need_all(&s, met[m]);
    for (uint32_t i = 0; i < info->num_attrs; ++i)
      check_rule(&s, &info->attrs[i]);
  }
}

// ---- Operands --------------------------------------------------------------
static ls_status add_with_operands(uint16_t type, size_t count) {
  const subject s = subject_of(type);
  HEAP(ls_tensor, inputs) = calloc(count + 1, sizeof(*inputs));
  assert_non_null(inputs);
  for (size_t i = 0; i < count; ++i)
    inputs[i] = operand;
  ls_op_add(&(ls_op_spec){.type = type,
                          .inputs = inputs,
                          .num_inputs = count,
                          .attrs = s.attrs,
                          .num_attrs = s.count});
  return ls_graph_take_error(graph);
}

TEST(every_op_has_so_many_operands) {
  for (uint16_t type = LS_OP_NONE + 1; type < LS_OP_COUNT; ++type) {
    const ls_op_info *info = &ls_op_table[type];
    const size_t least = ls_op_least(info);
    const size_t most =
        ls_op_most(info) + (info->traits & LS_OP_SIZED ? LS_MAX_RANK : 0);
    char part[80];
    snprintf(part, sizeof(part), "%s takes ", info->name);
    if (least > 0)
      expect_status(add_with_operands(type, least - 1), LS_INVALID_ARGUMENT,
                    part);
    if (most < LS_MAX_OPERANDS)
      expect_status(add_with_operands(type, most + 1), LS_INVALID_ARGUMENT,
                    part);
  }
  expect_status(add_with_operands(LS_OP_ADD_N, LS_MAX_OPERANDS + 1),
                LS_INVALID_ARGUMENT, "add_n takes at most 1048576 operands");
}

static int set_up(void **state) {
  static ls_scope scope;
  expect_ok(ls_graph_create("g", &graph));
  attr_values_hold(graph->runtime);
  ls_graph_begin(&scope, graph);
  operand = ls_constant(attr_values_held.array);
  *state = &scope;
  return 0;
}

static int tear_down(void **state) {
  ls_scope_end(*state);
  ls_graph_destroy(graph);
  attr_values_release();
  expect_ok(ls_runtime_destroy(NULL));
  return 0;
}

TEST_FILE(.set_up = set_up, .tear_down = tear_down)
