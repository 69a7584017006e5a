// SPDX-License-Identifier: Apache-2.0
//
// Attributes of every op: one of the wrong kind is refused, whoever sets it,
// and what an op carries besides its own is refused or changes nothing,
// whatever its name and kind.
#include <stdio.h>

#include "graph/graph.h"
#include "lockstep/host.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/op_case.h"

enum { MOST_ROWS = 200, MOST_ATTRS = 16, MOST_MADE = 4000, KINDS = 12 };

// All that any op has.
static const char *const names[] = {"activation",   "axes",
                                    "axis",         "causal",
                                    "classes",      "combine",
                                    "concat_axis",  "count_padding",
                                    "depth",        "descending",
                                    "deviation",    "dilations",
                                    "distribution", "dtype",
                                    "endless",      "epsilon",
                                    "exclusive",    "fixed",
                                    "gradient",     "group_size",
                                    "groups",       "high",
                                    "index",        "input_dilations",
                                    "interior",     "k",
                                    "keep_dims",    "kernel",
                                    "limits",       "low",
                                    "max_trips",    "mean",
                                    "num_args",     "num_carried",
                                    "num_gathered", "num_heads",
                                    "num_inputs",   "num_saved",
                                    "num_split",    "op",
                                    "padding",      "permutation",
                                    "reduce",       "replica",
                                    "replicas",     "reverse",
                                    "root",         "rows",
                                    "same",         "same_on_all_replicas",
                                    "scale",        "seed",
                                    "shape",        "sizes",
                                    "sources",      "split_axis",
                                    "starts",       "state",
                                    "stream",       "strides",
                                    "transpose_a",  "transpose_b",
                                    "value",        "variable",
                                    "window"};

static const ls_host_kernel kernel = {.name = "nothing",
                                      .start = finish_at_once};

// One of each kind.
static ls_attr attr_of(const char *name, int kind, ls_array *array) {
  static const int64_t ints[] = {1, 2};
  static const ls_size sizes[] = {{LS_SIZE_CONSTANT, 2}};
  static const char *const strings[] = {"relu"};
  const ls_attr attrs[KINDS] = {
      {.kind = LS_ATTR_INT, .as.i = 3},
      {.kind = LS_ATTR_FLOAT, .as.f = 0.5},
      {.kind = LS_ATTR_BOOL, .as.i = 1},
      {.kind = LS_ATTR_STRING, .as.string = "relu"},
      {.kind = LS_ATTR_DTYPE, .as.dtype = LS_DTYPE_I32},
      {.kind = LS_ATTR_SHAPE, .as.shape = LS_SHAPE(2)},
      {.kind = LS_ATTR_INTS, .as.ints = {ints, 2}},
      {.kind = LS_ATTR_SIZES, .as.sizes = {sizes, 1}},
      {.kind = LS_ATTR_STRINGS, .as.strings = {strings, 1}},
      {.kind = LS_ATTR_ARRAY, .as.array = array},
      {.kind = LS_ATTR_OBJECT, .as.object = (ls_object *)(void *)array},
      {.kind = LS_ATTR_KERNEL, .as.kernel = &kernel}};
  ls_attr attr = attrs[kind];
  attr.name = name;
  return attr;
}

// ---- One op ----------------------------------------------------------------
typedef struct subject {
  ls_graph *graph;
  ls_node *node;
  ls_tensor inputs[TRIAL_OPERANDS];
  ls_array *array;
  ls_op made[MOST_MADE];  // With a mark each.
  size_t num_made;
} subject;

// The op again, with `attr` in place of its own or besides.
static ls_op add_with(const subject *s, const ls_attr *attr) {
  ls_attr attrs[MOST_ATTRS];
  size_t count = 0;
  assert_true(s->node->num_attrs < MOST_ATTRS);
  for (uint32_t i = 0; i < s->node->num_attrs; ++i)
    if (strcmp(s->node->attrs[i].name, attr->name) != 0)
      attrs[count++] = s->node->attrs[i];
  attrs[count++] = *attr;
  return ls_op_add(&(ls_op_spec){.type = s->node->type,
                                 .inputs = s->inputs,
                                 .num_inputs = s->node->num_inputs,
                                 .attrs = attrs,
                                 .num_attrs = count});
}

static void check_own(const subject *s, const ls_attr *own) {
  const ls_op op = {s->graph, s->node->id};
  char part[200];
  snprintf(part, sizeof(part), "attribute '%s' is ", own->name);
  for (int kind = 0; kind < KINDS; ++kind) {
    const ls_attr attr = attr_of(own->name, kind, s->array);
    if (attr.kind == own->kind) continue;
    expect_status(ls_op_set_attr(op, &attr), LS_INVALID_ARGUMENT, part);
    if (s->node->num_regions > 0) continue;
    assert_true(ls_op_is_failed(add_with(s, &attr)));
    expect_status(ls_graph_take_error(s->graph), LS_INVALID_ARGUMENT, part);
  }
}

// A shape rule that has no use for the name may refuse it.
static void add_marks(subject *s, const char *name) {
  for (int kind = 0; kind < KINDS; ++kind) {
    const ls_attr attr = attr_of(name, kind, s->array);
    const ls_op op = add_with(s, &attr);
    const ls_status status = ls_graph_take_error(s->graph);
    if (!ls_status_is_ok(status)) {
      expect_status(status, LS_INVALID_ARGUMENT, name);
      continue;
    }
    assert_true(s->num_made < MOST_MADE);
    s->made[s->num_made++] = op;
  }
}

// ---- Running ---------------------------------------------------------------
static bool can_run(const subject *s, const trial *t) {
  if (t->variable != NULL || s->node->num_outputs == 0) return false;
  for (uint32_t i = 0; i < s->node->num_inputs; ++i)
    if (ls_tensor_dtype(s->inputs[i]) == LS_DTYPE_VARIANT) return false;
  return s->node->outputs[0].dtype != LS_DTYPE_VARIANT;
}

// All that were made give what the op gives.
static void check_values(const subject *s) {
  static ls_nest leaves[MOST_MADE + 1];
  LS_OWN(ls_session, session) = NULL;
  leaves[0] = ls_leaf((ls_tensor){s->graph, ls_ref(s->node->id, 0)});
  for (size_t i = 0; i < s->num_made; ++i)
    leaves[i + 1] = ls_leaf(ls_op_output(s->made[i], 0));
  LS_OWN(ls_nest, fetches) =
      ls_nest_sequence(LS_KIND_LIST, leaves, s->num_made + 1);
  expect_ok(ls_session_create(s->graph, &session));
  LS_OWN(ls_nest, values) = session_results(session, fetches);
  const ls_array *want = ls_nest_as_array(ls_nest_item(values, 0));
  const size_t size = (size_t)ls_shape_num_elements(ls_array_shape(want)) *
                      ls_dtype_size(ls_array_dtype(want));
  for (size_t i = 1; i <= s->num_made; ++i)
    assert_memory_equal(
        ls_array_data(ls_nest_as_array(ls_nest_item(values, i))),
        ls_array_data(want), size);
}

static bool is_mark(const ls_node *node, const char *name) {
  const ls_attr attr = {.name = name};
  return ls_attr_resolve(node->type, ls_node_met_as(node), &attr) ==
         LS_ATTR_ID_NONE;
}

static void check_node(ls_graph *graph, ls_node *node, const trial *t) {
  static subject s;
  s = (subject){.graph = graph, .node = node};
  assert_true(node->num_inputs <= TRIAL_OPERANDS || node->num_regions > 0);
  for (uint32_t i = 0; i < node->num_inputs && i < TRIAL_OPERANDS; ++i)
    s.inputs[i] = (ls_tensor){graph, node->inputs[i]};
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &s.array));
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (node->attrs[i].id != LS_ATTR_ID_NONE) check_own(&s, &node->attrs[i]);
  for (size_t i = 0; i < LS_COUNT_OF(names) && node->num_regions == 0; ++i)
    if (is_mark(node, names[i])) add_marks(&s, names[i]);
  if (node->num_regions == 0 && can_run(&s, t)) check_values(&s);
  ls_array_release(s.array);
}

static void check_row(void **state) {
  const op_case *row = *state;
  loop_random random = {loop_random_seed()};
  ls_tensor xs[TRIAL_OPERANDS];
  trial t;
  trial_init(&t, row, (ls_dtype)__builtin_ctz(row->dtypes), 0, &random);
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    for (size_t i = 0; i < t.count; ++i)
      xs[i] = ls_constant(t.operand[i]);
    ls_nest_release(trial_make(&t, xs));
    expect_ok(ls_graph_take_error(graph));
    const size_t count = graph->num_nodes;
    for (size_t i = 0; i < count; ++i)
      if (graph->nodes[i]->type == row->op)
        check_node(graph, graph->nodes[i], &t);
  }
  ls_graph_destroy(graph);
  trial_deinit(&t);
}

static int run_rows(const unit_tests *tests) {
  return op_case_tests_run(
      tests, NULL, check_row,
      "takes attributes of their kinds, and marks change nothing");
}
TEST_FILE(.run = run_rows)
