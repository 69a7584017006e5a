// SPDX-License-Identifier: Apache-2.0
//
// No op is missing from exports without a word: each one that can stand in what
// serves is written as ONNX and StableHLO, or refused by name, and the table
// below says which it is. A text of StableHLO is read back as the same op, or
// is refused by name.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/own.h"
#include "lockstep/onnx.h"
#include "lockstep/serving.h"
#include "onnx/onnx_load.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/memory_files.h"
#include "support/op_case.h"

enum { ONNX = 1, STABLEHLO = 2, BOTH = 3, MOST_RESULTS = 16, TRIALS = 2 };

// ---- What is not written ---------------------------------------------------
// A language counts as soon as one of the cases has no form in it, such as one
// of integers.
typedef struct missing {
  uint16_t op;
  int languages;
} missing;

static const missing table[] = {
    {LS_OP_SORT, ONNX},
    {LS_OP_NOT, ONNX},
    {LS_OP_AND, ONNX},
    {LS_OP_OR, ONNX},
    {LS_OP_SLICE_GRAD, ONNX},
    {LS_OP_DYNAMIC_SLICE, ONNX},
    {LS_OP_DYNAMIC_UPDATE_SLICE, ONNX},
    {LS_OP_PAD, ONNX},
    {LS_OP_SCATTER, ONNX},
    {LS_OP_INDEXED_SLICES, ONNX},
    {LS_OP_ADD_ALONG, ONNX},
    {LS_OP_ROUND_AWAY, ONNX},
    {LS_OP_CBRT, ONNX},
    {LS_OP_IS_FINITE, ONNX},
    {LS_OP_ATAN2, ONNX},
    {LS_OP_XOR, ONNX},
    {LS_OP_SHIFT_LEFT, ONNX},
    {LS_OP_SHIFT_RIGHT_ARITHMETIC, ONNX},
    {LS_OP_SHIFT_RIGHT_LOGICAL, ONNX},
    {LS_OP_POPCOUNT, ONNX},
    {LS_OP_COUNT_LEADING_ZEROS, ONNX},
    {LS_OP_BITCAST, ONNX},
    {LS_OP_CONVOLUTION, ONNX},
    {LS_OP_CONV_BIAS_ACT, ONNX},
    {LS_OP_CONV_GRAD_INPUT, ONNX},
    {LS_OP_CONV_GRAD_WEIGHTS, ONNX},
    {LS_OP_REDUCE_WINDOW, ONNX},
    {LS_OP_WINDOW_SUM_GRAD, ONNX},
    {LS_OP_WHILE, ONNX},
    {LS_OP_COND, ONNX},
    {LS_OP_STACK_NEW, ONNX},
    {LS_OP_STACK_PUSH, ONNX},
    {LS_OP_STACK_POP, ONNX},
};

static int missing_in(uint16_t op) {
  for (size_t i = 0; i < sizeof(table) / sizeof(*table); ++i)
    if (table[i].op == op) return table[i].languages;
  return 0;
}

// What writes, or runs beside a program, is no part of one that serves.
static bool can_serve(uint16_t op) {
  const unsigned never =
      LS_OP_EFFECT | LS_OP_MERGE | LS_OP_VARYING | LS_OP_ON_HOST | LS_OP_RANDOM;
  return op < LS_OP_COUNT && (ls_op_table[op].traits & never) == 0;
}

static memory_files files;
static int num_read;  // Number of exports that were read back.

// ---- Exporting a case ------------------------------------------------------
static ls_nest numbered(const ls_tensor *tensors, size_t count, char prefix) {
  static char names[MOST_RESULTS][24];
  const char *keys[MOST_RESULTS];
  ls_nest leaves[MOST_RESULTS];
  for (size_t i = 0; i < count; ++i) {
    snprintf(names[i], sizeof(names[i]), "%c%zu", prefix, i);
    keys[i] = names[i];
    leaves[i] = ls_leaf(tensors[i]);
  }
  return ls_nest_dict("", keys, leaves, count);
}

// The trial's op between placeholders of its operands' types.
static ls_status make_op(const trial *t, ls_tensor *xs, ls_nest *out_outputs) {
  ls_nest leaves[MOST_RESULTS];
  ls_tensor ys[MOST_RESULTS];
  size_t num_ys = 0;
  for (size_t i = 0; i < t->count; ++i)
    xs[i] = ls_placeholder(ls_array_dtype(t->operand[i]),
                           ls_array_shape(t->operand[i]), "x");
  LS_OWN(ls_nest, made) = trial_make(t, xs);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  const size_t count = ls_nest_flatten(made, leaves, MOST_RESULTS);
  for (size_t i = 0; i < count; ++i)
    if (leaves[i].kind == LS_KIND_TENSOR) ys[num_ys++] = leaves[i].as.tensor;
  *out_outputs = numbered(ys, num_ys, 'y');
  return ls_ok();
}

// ---- Reading back ----------------------------------------------------------
static bool is_same(const ls_array *a, const ls_array *b) {
  if (!ls_shape_equal(ls_array_shape(a), ls_array_shape(b)) ||
      ls_array_dtype(a) != ls_array_dtype(b))
    return false;
  for (int64_t i = 0; i < ls_array_num_elements(a); ++i) {
    const double x = ls_array_f64(a, i), y = ls_array_f64(b, i);
    const double off = fabs(x - y);
    if (!(off <= 1e-5 * (1 + fabs(x))) && x != y && (x == x || y == y))
      return false;
  }
  return true;
}

static void expect_same(const trial *t, ls_nest wanted, ls_nest got) {
  for (size_t i = 0, k = 0; k < ls_nest_count(got); ++i) {
    LS_OWN(ls_array, a) = NULL;
    LS_OWN(ls_array, b) = NULL;
    const ls_nest leaf =
        ls_nest_is_node(wanted) ? ls_nest_item(wanted, i) : wanted;
    if (leaf.kind != LS_KIND_TENSOR) continue;
    char name[24];
    snprintf(name, sizeof(name), "y%zu", k++);
    expect_ok(ls_tensor_value(leaf.as.tensor, &a));
    expect_ok(ls_tensor_value(ls_nest_tensor(ls_nest_find(got, name), 0), &b));
    if (!is_same(a, b))
      fail_msg("%s is read as another op", ls_op_table[t->row->op].name);
  }
}

// Reads an export as StableHLO, and computes what the op itself does; returns
// false if the text has an op that is refused by name.
static bool reads_back(const trial *t) {
  LS_OWN(ls_onnx, onnx) = NULL;
  const memory_file *text = NULL;
  ls_tensor xs[TRIAL_OPERANDS];
  for (size_t i = 0; i < files.count; ++i)
    if (strstr(files.items[i].path, ".mlir") != NULL) text = &files.items[i];
  assert_non_null(text);
  LS_OWN(ls_status, status) =
      ls_onnx_decode("net.mlir", text->data, text->size, &onnx);
  if (!ls_status_is_ok(status)) {
    assert_int_equal(ls_status_code(status), LS_UNIMPLEMENTED);
    assert_non_null(strstr(ls_status_message(status), "stablehlo."));
    return false;
  }
  expect_ok(ls_frame_begin());
  for (size_t i = 0; i < t->count; ++i)
    xs[i] = ls_constant(t->operand[i]);
  LS_OWN(ls_nest, inputs) = numbered(xs, t->count, 'x');
  LS_OWN(ls_nest, wanted) = trial_make(t, xs);
  LS_OWN(ls_nest, got) = ls_onnx_apply(onnx, inputs, false);
  LS_OWN(ls_status, applied) = ls_nest_status(got);
  const bool is_read = ls_status_is_ok(applied);
  if (is_read)
    expect_same(t, wanted, got);
  else
    assert_non_null(strstr(ls_status_message(applied), "a negative padding"));
  expect_ok(ls_frame_end(NULL));
  return is_read;
}

static ls_status export_as(const trial *t, bool onnx) {
  LS_OWN(ls_graph, graph) = NULL;
  ls_tensor xs[TRIAL_OPERANDS];
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(printed, path) = NULL;
  expect_ok(ls_graph_create("g", &graph));
  ls_status status = ls_ok();
  {
    LS_GRAPH_SCOPE(graph);
    status = make_op(t, xs, &outputs);
  }
  expect_ok(status);
  expect_ok(ls_graph_take_error(graph));
  LS_OWN(ls_nest, inputs) = numbered(xs, t->count, 'x');
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph one = {
      .graph = graph, .signatures = &signature, .num_signatures = 1};
  status = ls_serving_export(
      &(ls_serving_options){.base = "exports",
                            .graphs = &one,
                            .num_graphs = 1,
                            .onnx = onnx ? LS_FLAG_ON : LS_FLAG_OFF,
                            .stablehlo = onnx ? LS_FLAG_OFF : LS_FLAG_ON},
      &path);
  const bool is_eager = t->row->op != LS_OP_CALL &&
                        strncmp(ls_op_table[t->row->op].name, "stack", 5) != 0;
  if (!onnx && is_eager && ls_status_is_ok(status)) num_read += reads_back(t);
  memory_files_clear(&files);
  return status;
}

// Whether the language has a form of the case; another answer fails.
static bool is_written(const trial *t, bool onnx) {
  const char *name = ls_op_table[t->row->op].name;
  LS_OWN(ls_status, status) = export_as(t, onnx);
  const bool written = ls_status_is_ok(status);
  if (!written && (ls_status_code(status) != LS_UNIMPLEMENTED ||
                   strstr(ls_status_message(status), " of op '") == NULL))
    fail_msg("%s of %s: %s", onnx ? "ONNX" : "StableHLO", name,
             ls_status_message(status));
  return written;
}

static ls_dtype dtype_of(const op_case *row) {
  static const ls_dtype wanted[] = {LS_DTYPE_F32, LS_DTYPE_I32, LS_DTYPE_BOOL};
  for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); ++i)
    if (row->dtypes & 1U << wanted[i]) return wanted[i];
  return LS_DTYPE_NONE;
}

// The languages in which some trial of the row is not written.
static int try_row(const op_case *row) {
  loop_random random = {1};
  int found = 0;
  for (int round = 0; round < TRIALS; ++round) {
    trial t;
    trial_init(&t, row, dtype_of(row), 2 * round, &random);
    if (t.variable == NULL && t.count > 0) {
      if (!is_written(&t, true)) found |= ONNX;
      if (!is_written(&t, false)) found |= STABLEHLO;
    }
    trial_deinit(&t);
  }
  return found;
}

TEST(every_op_is_written_or_named) {
  int wrong = 0, ops = 0;
  const ls_file_system in_memory = memory_files_system(&files);
  counted memory = counted_begin_with(
      (ls_runtime_options){.threads = 1, .file_system = &in_memory});
  for (uint16_t op = LS_OP_NONE + 1; op < LS_OP_COUNT; ++op) {
    int found = 0;
    for (size_t i = 0; can_serve(op) && op_case_tables[i] != NULL; ++i)
      for (const op_case *row = op_case_tables[i]; row->dtypes != 0; ++row)
        if (row->op == op && dtype_of(row) != LS_DTYPE_NONE) {
          found |= try_row(row);
          ++ops;
        }
    if (found == missing_in(op)) continue;
    print_error("{LS_OP_%s, %d}, the table says %d\n", ls_op_table[op].name,
                found, missing_in(op));
    ++wrong;
  }
  counted_end(&memory);
  assert_true(ops > 100);
  assert_true(num_read > 100);
  assert_int_equal(wrong, 0);
}
