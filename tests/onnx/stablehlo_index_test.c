// SPDX-License-Identifier: Apache-2.0
//
// StableHLO's updates at positions, sorts and choices, as JAX writes them, for
// the batch of the text and for another one.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/full.h"
#include "nn/own.h"
#include "onnx/onnx_load.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/values.h"

enum { TEXT_SIZE = 4000, COUNT = 6 };
#define LINE(text) "    " text "\n"
#define T23 "tensor<2x3xf32>"

// A text that makes %y of %x, both 2x3.
typedef struct row {
  const char *body;
  double wanted[COUNT];
  const char *refused;  // Part of the message for another batch size, or NULL.
} row;

static ls_status read_text(const char *body, ls_onnx **out) {
  char text[TEXT_SIZE];
  *out = NULL;
  snprintf(text, sizeof(text),
           "module {\n  func.func public @main(%%x: " T23 ") -> " T23
           " {\n%s    return %%y : " T23 "\n  }\n"
           "  func.func private @negate(%%a: " T23 ") -> " T23 " {\n"
           "    %%0 = stablehlo.negate %%a : " T23 "\n"
           "    return %%0 : " T23 "\n  }\n}\n",
           body);
  return ls_onnx_decode("net.mlir", text, strlen(text), out);
}

// Applies a text to the batch that it is of, and to three in a row.
static void expect_of(const row *r, const double numbers[COUNT]) {
  LS_OWN(ls_onnx, onnx) = NULL;
  expect_ok(read_text(r->body, &onnx));
  for (int copies = 1; copies <= 3; copies += 2) {
    double all[3 * COUNT], wanted[3 * COUNT];
    for (int i = 0; i < copies * COUNT; ++i) {
      all[i] = numbers[i % COUNT];
      wanted[i] = r->wanted[i % COUNT];
    }
    expect_ok(ls_frame_begin());
    const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SHAPE(2 * copies, 3), all);
    LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
    if (copies > 1 && r->refused != NULL) {
      expect_status(ls_nest_status(y), LS_UNIMPLEMENTED, r->refused);
    } else {
      expect_ok(ls_nest_status(y));
      expect_tensor_of(ls_nest_tensor(y, 0), LS_SHAPE(2 * copies, 3), wanted,
                       0);
    }
    expect_ok(ls_frame_end(NULL));
  }
}

#define EXPECT_ROWS(rows, ...)                                                 \
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)                  \
  expect_of(&(rows)[i], (const double[COUNT]){__VA_ARGS__})

// ---- Updates ---------------------------------------------------------------
#define UPDATES(list, list_type, updates, updates_type, numbers, region)       \
  LINE("%i = stablehlo.constant dense<" list "> : tensor<" list_type ">")      \
  LINE("%u = stablehlo.constant dense<" updates "> : tensor<" updates_type     \
       ">")                                                                    \
  LINE("%y = \"stablehlo.scatter\"(%x, %i, %u) <{indices_are_sorted = true, "  \
       "scatter_dimension_numbers = #stablehlo.scatter<" numbers               \
       ">, unique_indices = true}> ({")                                        \
  LINE("^bb0(%a: tensor<f32>, %b: tensor<f32>):")                              \
  LINE(region "}) : (" T23 ", tensor<" list_type ">, tensor<" updates_type     \
              ">) -> " T23)
#define SET "  stablehlo.return %b : tensor<f32> "
#define BY(op)                                                                 \
  "  %s = stablehlo." op " %a, %b : tensor<f32>\n"                             \
  "  stablehlo.return %s : tensor<f32> "
// x[:, i], x[:, i:i + 2] and x[i, k].
#define COLUMN                                                                 \
  "update_window_dims = [0], inserted_window_dims = [1], "                     \
  "scatter_dims_to_operand_dims = [1]"
#define COLUMNS COLUMN ", index_vector_dim = 1"
#define PART "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [1]"
#define ELEMENTS                                                               \
  "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], "     \
  "index_vector_dim = 1"
#define OF_BATCH "positions in the batch"

TEST(updates_at_positions_compute_what_the_text_says) {
  static const row rows[] = {
      {UPDATES("1", "1xi32", "[7.0, 8.0]", "2xf32", COLUMN, SET),
       {1, 7, 3, 4, 8, 6},
       "an operand with the batch in its sizes"},
      {LINE("%z = stablehlo.constant dense<7.0> : tensor<f32>") LINE(
           "%w = stablehlo.broadcast_in_dim %z, dims = [] : "
           "(tensor<f32>) -> tensor<2xf32>")
           LINE("%i = stablehlo.constant dense<1> : tensor<1xi32>")
               LINE("%y = \"stablehlo.scatter\"(%x, %i, %w) <{"
                    "scatter_dimension_numbers = #stablehlo.scatter<" COLUMN
                    ">}> ({") LINE("^bb0(%a: tensor<f32>, %b: tensor<f32>):")
                   LINE(SET "}) : (" T23 ", tensor<1xi32>, tensor<2xf32>) -> "
                            "" T23),
       {1, 7, 3, 4, 7, 6},
       NULL},
      {UPDATES("[[2], [0], [2], [9], [-1]]", "5x1xi32", "1.0", "2x5xf32",
               COLUMNS, BY("add")),
       {2, 2, 5, 5, 5, 8},
       "an operand with the batch in its sizes"},
      {UPDATES("[[2], [2]]", "2x1xi32", "[[2.0, 3.0], [4.0, 5.0]]", "2x2xf32",
               COLUMNS, BY("multiply")),
       {1, 2, 18, 4, 5, 120},
       "an operand with the batch in its sizes"},
      {UPDATES("1", "1xi32", "[[9.0, 2.0], [0.0, 9.0]]", "2x2xf32", PART,
               BY("maximum")),
       {1, 9, 3, 4, 5, 9},
       "an operand with the batch in its sizes"},
      {UPDATES("0", "1xi32", "2.0", "2x2xf32", PART, BY("minimum")),
       {1, 2, 3, 2, 2, 6},
       "an operand with the batch in its sizes"},
      // A window that reaches out of the operand is skipped.
      {UPDATES("2", "1xi32", "9.0", "2x2xf32", PART, SET),
       {1, 2, 3, 4, 5, 6},
       "an operand with the batch in its sizes"},
      {UPDATES("-1", "1xi32", "9.0", "2x2xf32", PART, SET),
       {1, 2, 3, 4, 5, 6},
       "an operand with the batch in its sizes"},
      // The second and third are outside, though not as one number.
      {UPDATES("[[0, 2], [0, 3], [2, -1], [1, 0]]", "4x2xi32",
               "[1.0, 2.0, 3.0, 4.0]", "4xf32", ELEMENTS, BY("add")),
       {1, 2, 4, 8, 5, 6},
       "positions in the batch"},
      {UPDATES("[1, 1]", "2xi32", "[8.0, 9.0]", "2xf32",
               "update_window_dims = [0], inserted_window_dims = [0], "
               "scatter_dims_to_operand_dims = [0, 1]",
               SET),
       {1, 2, 3, 4, 8, 9},
       "positions in the batch"},
      {UPDATES("[1, 1]", "2xi32", "[8.0, 9.0]", "2xf32",
               "update_window_dims = [0], inserted_window_dims = [0], "
               "scatter_dims_to_operand_dims = [1, 0]",
               SET),
       {1, 2, 3, 4, 8, 9},
       "positions in the batch"},
  };
  EXPECT_ROWS(rows, 1, 2, 3, 4, 5, 6);
}

#define GATHER(list, list_type, numbers, sizes, to, result)                    \
  LINE("%i = stablehlo.constant dense<" list "> : tensor<" list_type ">")      \
  LINE("%" to " = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = "         \
       "#stablehlo.gather<" numbers ">, slice_sizes = array<i64: " sizes       \
       ">}> : (" T23 ", tensor<" list_type ">) -> " result)

TEST(slices_at_positions_are_read) {
  static const row rows[] = {
      // Slices that reach out of the operand are moved back.
      {GATHER("[[2], [-5], [1]]", "3x1xi32",
              "offset_dims = [0], collapsed_slice_dims = [1], "
              "start_index_map = [1], index_vector_dim = 1",
              "2, 1", "y", T23),
       {3, 1, 2, 6, 4, 5},
       NULL},
      {GATHER("9", "1xi32", "offset_dims = [0, 1], start_index_map = [1]",
              "2, 3", "y", T23),
       {1, 2, 3, 4, 5, 6},
       NULL},
      {GATHER("[[0, 7], [1, 1], [9, 0]]", "3x2xi32",
              "collapsed_slice_dims = [0, 1], start_index_map = [0, 1], "
              "index_vector_dim = 1",
              "1, 1", "g", "tensor<3xf32>")
           LINE("%y = stablehlo.broadcast_in_dim %g, dims = [1] : "
                "(tensor<3xf32>) -> " T23),
       {3, 5, 4, 3, 5, 4},
       "positions in the batch"},
  };
  EXPECT_ROWS(rows, 1, 2, 3, 4, 5, 6);
}

// ---- Sorts -----------------------------------------------------------------
#define SORT(axis, names, arguments, region, type, result)                     \
  LINE("%n = stablehlo.negate %x : " T23)                                      \
  LINE("%nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>")            \
  LINE("%zero = stablehlo.constant dense<0.0> : tensor<f32>")                  \
  LINE("%r" result " = \"stablehlo.sort\"(" names ") <{dimension = " axis      \
       " : i64, is_stable = true}> ({")                                        \
  LINE("^bb0(" arguments "):")                                                 \
  LINE(region)                                                                 \
  LINE("  stablehlo.return %p : tensor<i1>")                                   \
  LINE("}) : (" type ") -> (" type ")")
#define AB "%a: tensor<f32>, %b: tensor<f32>"
#define ABCD AB ", %c: tensor<f32>, %d: tensor<f32>"
#define PLAIN(way, a, b)                                                       \
  "%p = stablehlo.compare " way ", " a ", " b                                  \
  ", FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>"
#define COMPARE(to, way, a, b, order)                                          \
  "%" to " = stablehlo.compare " way ", " a ", " b ", " order                  \
  " : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
#define SELECT(to, by, a, b)                                                   \
  "%" to " = stablehlo.select " by ", " a ", " b " : tensor<i1>, "             \
  "tensor<f32>\n"
#define LIKE_JAX(zero, nan)                                                    \
  COMPARE("1", "EQ", "%a", "%zero", "FLOAT")                                   \
  SELECT("2", "%1", zero, "%a")                                                \
  COMPARE("3", "NE", "%a", "%a", "FLOAT")                                      \
  SELECT("4", "%3", nan, "%2")                                                 \
  COMPARE("5", "EQ", "%b", "%zero", "FLOAT")                                   \
  SELECT("6", "%5", zero, "%b")                                                \
  COMPARE("7", "NE", "%b", "%b", "FLOAT")                                      \
  SELECT("8", "%7", nan, "%6")                                                 \
  COMPARE("p", "LT", "%4", "%8", "TOTALORDER")

TEST(sorts_compute_what_the_text_says) {
  static const row rows[] = {
      {SORT("1", "%x", AB, PLAIN("LT", "%a", "%b"), T23, "")
           LINE("%y = stablehlo.negate %r : " T23),
       {-1, -2, -3, -4, -5, -6},
       NULL},
      {SORT("1", "%x", AB, PLAIN("GT", "%a", "%b"), T23, "")
           LINE("%y = stablehlo.negate %r : " T23),
       {-3, -2, -1, -6, -5, -4},
       NULL},
      {SORT("0", "%x", AB, PLAIN("GT", "%a", "%b"), T23, "")
           LINE("%y = stablehlo.negate %r : " T23),
       {-5, -4, -6, -3, -1, -2},
       "a sorted batch"},
      // By the second operand: the first comes along.
      {SORT("1", "%x, %n", ABCD, PLAIN("LT", "%c", "%d"), T23 ", " T23, ":2")
           LINE("%s = stablehlo.add %r#0, %r#0 : " T23)
               LINE("%y = stablehlo.add %s, %r#1 : " T23),
       {3, 2, 1, 6, 5, 4},
       NULL},
  };
  EXPECT_ROWS(rows, 3, 1, 2, 5, 4, 6);
}

TEST(a_sort_orders_zeros_and_nans_as_jax_does) {
  static const row rows[] = {
      {LINE("%i = stablehlo.iota dim = 1 : tensor<2x3xf32>")
           SORT("1", "%x, %i", ABCD, LIKE_JAX("%zero", "%nan"), T23 ", " T23,
                ":2") LINE("%y = stablehlo.add %r#1, %r#1 : " T23),
       {2, 4, 0, 0, 2, 4},
       NULL},
  };
  EXPECT_ROWS(rows, NAN, 1, 2, 0.0, -0.0, 5);
}

TEST(sorts_in_other_orders_are_refused) {
  static const char message[] =
      "a sort by other than one of its operands, smallest or largest first";
  static const row rows[] = {
      {SORT("1", "%x", AB, PLAIN("LT", "%b", "%a"), T23, ""), {0}, message},
      {SORT("1", "%x", AB, PLAIN("LE", "%a", "%b"), T23, ""), {0}, message},
      {SORT("1", "%x, %n", ABCD, PLAIN("LT", "%a", "%c"), T23 ", " T23, ":2"),
       {0},
       message},
      {SORT("1", "%x, %n", ABCD, PLAIN("LT", "%b", "%c"), T23 ", " T23, ":2"),
       {0},
       message},
      {SORT("1", "%x", AB, COMPARE("p", "LT", "%a", "%b", "TOTALORDER"), T23,
            ""),
       {0},
       message},
      {SORT("1", "%x", AB, LIKE_JAX("%nan", "%nan"), T23, ""), {0}, message},
      {SORT("1", "%x", AB, LIKE_JAX("%zero", "%zero"), T23, ""), {0}, message},
      {SORT("1", "%x", AB, LIKE_JAX("%a", "%nan"), T23, ""), {0}, message},
      {SORT("1", "%x", AB,
            "%q = stablehlo.negate %a : tensor<f32>\n" PLAIN("LT", "%q", "%b"),
            T23, ""),
       {0},
       message},
  };
  static const double numbers[COUNT] = {1, 2, 3, 4, 5, 6};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    char body[3000];
    LS_OWN(ls_onnx, onnx) = NULL;
    snprintf(body, sizeof(body),
             "%s    %%y = stablehlo.negate %%r%s : " T23 "\n", rows[i].body,
             strstr(rows[i].body, "%r:2") != NULL ? "#0" : "");
    expect_ok(read_text(body, &onnx));
    expect_ok(ls_frame_begin());
    const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SHAPE(2, 3), numbers);
    LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
    expect_status(ls_nest_status(y), LS_UNIMPLEMENTED, rows[i].refused);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(the_largest_are_read) {
  static const row rows[] = {
      {LINE("%v, %p = chlo.top_k(%x, k = 3) : " T23 " -> (" T23
            ", tensor<2x3xi32>)")
           LINE("%f = stablehlo.convert %p : (tensor<2x3xi32>) -> " T23)
               LINE("%y = stablehlo.subtract %v, %f : " T23),
       {3, 0, 0, 4, 5, 3},
       NULL},
      {LINE("%v:2 = stablehlo.composite \"chlo.top_k\" %x "
            "{composite_attributes = {k = 3 : i64}, decomposition = @none, "
            "version = 1 : i32} : (" T23 ") -> (" T23 ", tensor<2x3xi32>)")
           LINE("%y = stablehlo.negate %v#0 : " T23),
       {-3, -2, -1, -6, -5, -4},
       NULL},
      {LINE("%y = stablehlo.composite \"mine.op\" %x {decomposition = @negate, "
            "version = 1 : i32} : (" T23 ") -> " T23),
       {-3, -1, -2, -5, -4, -6},
       NULL},
      {LINE("%y = stablehlo.composite \"a_company.a_rather_long_name_of_an_"
            "operation_that_is_composed\" %x {decomposition = @negate, "
            "version = 1 : i32} : (" T23 ") -> " T23),
       {-3, -1, -2, -5, -4, -6},
       NULL},
  };
  EXPECT_ROWS(rows, 3, 1, 2, 5, 4, 6);
}

// ---- Choices ---------------------------------------------------------------
#define CASE(index)                                                            \
  LINE("%y, %o = \"stablehlo.case\"(" index ") ({")                            \
  LINE("  stablehlo.return %x, %x : " T23 ", " T23 "}, {")                     \
  LINE("  %n = stablehlo.negate %x : " T23)                                    \
  LINE("  stablehlo.return %n, %x : " T23 ", " T23 "}, {")                     \
  LINE("  %n = stablehlo.add %x, %x : " T23)                                   \
  LINE("  stablehlo.return %n, %x : " T23 ", " T23)                            \
  LINE("}) : (tensor<i32>) -> (" T23 ", " T23 ")")
// An index that is a constant, and one that is computed.
#define KNOWN(index)                                                           \
  LINE("%i = stablehlo.constant dense<" index "> : tensor<i32>") CASE("%i")
#define UNKNOWN(index)                                                         \
  LINE("%c = stablehlo.constant dense<" index "> : tensor<f32>")               \
  LINE("%i = stablehlo.convert %c : (tensor<f32>) -> tensor<i32>") CASE("%i")
#define IF(truth)                                                              \
  LINE("%i = stablehlo.constant dense<" truth "> : tensor<f32>")               \
  LINE("%z = stablehlo.constant dense<0.0> : tensor<f32>")                     \
  LINE("%p = stablehlo.compare NE, %i, %z, FLOAT : (tensor<f32>, "             \
       "tensor<f32>) -> tensor<i1>")                                           \
  LINE("%y = \"stablehlo.if\"(%p) ({")                                         \
  LINE("  stablehlo.return %x : " T23 "}, {")                                  \
  LINE("  %n = stablehlo.negate %x : " T23)                                    \
  LINE("  stablehlo.return %n : " T23 "}) : (tensor<i1>) -> " T23)

TEST(choices_compute_what_the_text_says) {
  static const row rows[] = {
      {KNOWN("0"), {1, 2, 3, 4, 5, 6}, NULL},
      {KNOWN("1"), {-1, -2, -3, -4, -5, -6}, NULL},
      {KNOWN("7"), {2, 4, 6, 8, 10, 12}, NULL},
      {KNOWN("-1"), {2, 4, 6, 8, 10, 12}, NULL},
      {UNKNOWN("0.0"), {1, 2, 3, 4, 5, 6}, NULL},
      {UNKNOWN("1.0"), {-1, -2, -3, -4, -5, -6}, NULL},
      {UNKNOWN("2.0"), {2, 4, 6, 8, 10, 12}, NULL},
      {UNKNOWN("3.0"), {2, 4, 6, 8, 10, 12}, NULL},
      {UNKNOWN("-1.0"), {2, 4, 6, 8, 10, 12}, NULL},
      {IF("1.0"), {1, 2, 3, 4, 5, 6}, NULL},
      {IF("0.0"), {-1, -2, -3, -4, -5, -6}, NULL},
  };
  EXPECT_ROWS(rows, 1, 2, 3, 4, 5, 6);
}

TEST(other_texts_of_regions_are_refused) {
  static const struct {
    const char *body;
    ls_code code;
    const char *message;
  } rows[] = {
      {LINE("%i = stablehlo.constant dense<1> : tensor<i32>")
           LINE("%y = \"stablehlo.case\"(%i) : (tensor<i32>) -> " T23),
       LS_INVALID_ARGUMENT, "expected one operand and the branches of op case"},
      {LINE("%c = stablehlo.constant dense<1.0> : tensor<f32>")
           LINE("%i = stablehlo.convert %c : (tensor<f32>) -> tensor<i32>")
               LINE("%y = \"stablehlo.case\"(%i) ({")
                   LINE("  %n = stablehlo.fft %x : " T23)
                       LINE("  stablehlo.return %n : " T23)
                           LINE("}) : (tensor<i32>) -> " T23),
       LS_UNIMPLEMENTED, "op stablehlo.fft"},
      {LINE("%i = stablehlo.constant dense<1> : tensor<i1>") LINE(
           "%y = \"stablehlo.if\"(%i) ({") LINE("  stablehlo.return %x : " T23)
           LINE("}) : (tensor<i1>) -> " T23),
       LS_INVALID_ARGUMENT, "expected one operand and the branches of op if"},
      {LINE("%i = stablehlo.constant dense<0> : tensor<i32>")
           LINE("%y = \"stablehlo.case\"(%i) ({")
               LINE("  stablehlo.return %x, %x : " T23 ", " T23)
                   LINE("}) : (tensor<i32>) -> " T23),
       LS_INVALID_ARGUMENT, "expected 1 results of a branch"},
      {LINE("%i = stablehlo.constant dense<0> : tensor<i32>")
           LINE("%y = \"stablehlo.case\"(%i) ({")
               LINE("  stablehlo.return %i : tensor<i32>")
                   LINE("}) : (tensor<i32>) -> " T23),
       LS_INVALID_ARGUMENT, "expected f32[2,3] as result 0 of case"},
      {LINE("%y = stablehlo.sort %x {order = 0 : i64} : " T23),
       LS_INVALID_ARGUMENT, "expected no attribute order"},
      {LINE("%y = \"stablehlo.sort\"(%x) <{dimension = 1 : i64}> : (" T23
            ") -> " T23),
       LS_INVALID_ARGUMENT, "expected operands and one region of op sort"},
      {LINE("%y = \"stablehlo.sort\"() <{dimension = 1 : i64}> ({")
           LINE("  %p = stablehlo.constant dense<true> : tensor<i1>") LINE(
               "  stablehlo.return %p : tensor<i1>") LINE("}) : () -> " T23),
       LS_INVALID_ARGUMENT, "expected operands and one region of op sort"},
      {LINE("%i = stablehlo.constant dense<1> : tensor<2xi32>")
           LINE("%y = \"stablehlo.case\"(%i) ({")
               LINE("  stablehlo.return %x : " T23)
                   LINE("}) : (tensor<2xi32>) -> " T23),
       LS_INVALID_ARGUMENT, "expected one operand and the branches of op case"},
      {LINE("%i = stablehlo.constant dense<1> : tensor<i32>")
           LINE("%y = \"stablehlo.if\"(%i) ({")
               LINE("  stablehlo.return %x : " T23 "}, {")
                   LINE("  stablehlo.return %x : " T23)
                       LINE("}) : (tensor<i32>) -> " T23),
       LS_INVALID_ARGUMENT, "expected one operand and the branches of op if"},
      {LINE("%y = stablehlo.composite \"mine.op\" %x {version = 1 : i32} : "
            "(" T23 ") -> " T23),
       LS_INVALID_ARGUMENT, "expected a function of the text, got @"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    ls_onnx *onnx = NULL;
    expect_status(read_text(rows[i].body, &onnx), rows[i].code,
                  rows[i].message);
    assert_null(onnx);
  }
}

TEST(updates_of_other_kinds_are_refused) {
  static const row rows[] = {
      {UPDATES("1", "1xi32", "1.0", "2xf32", COLUMN, BY("power")),
       {0},
       "updates by 'power'"},
      {UPDATES("1", "1xi32", "1.0", "2xf32", COLUMN,
               "  %s = stablehlo.subtract %b, %a : tensor<f32>\n"
               "  stablehlo.return %s : tensor<f32> "),
       {0},
       "updates by 'subtract of other values'"},
      {UPDATES("[[1], [1]]", "2x1xi32", "1.0", "2xf32",
               "inserted_window_dims = [1], input_batching_dims = [0], "
               "scatter_indices_batching_dims = [0], "
               "scatter_dims_to_operand_dims = [1], index_vector_dim = 1",
               SET),
       {0},
       "other than slices at positions, whole along other axes"},
      {UPDATES("1", "1xi32", "1.0", "1xf32", COLUMN, SET),
       {0},
       "other than slices at positions, whole along other axes"},
      {UPDATES("1", "1xi32", "1.0", "2x4xf32", PART, SET),
       {0},
       "other than slices at positions, whole along other axes"},
      {UPDATES("1", "1xi32", "1.0", "2xf32", COLUMN ", index_vector_dim = -1",
               SET),
       {0},
       "other than slices at positions, whole along other axes"},
  };
  static const double numbers[COUNT] = {1, 2, 3, 4, 5, 6};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    LS_OWN(ls_onnx, onnx) = NULL;
    expect_ok(read_text(rows[i].body, &onnx));
    expect_ok(ls_frame_begin());
    const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SHAPE(2, 3), numbers);
    LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
    expect_status(ls_nest_status(y), LS_UNIMPLEMENTED, rows[i].refused);
    expect_ok(ls_frame_end(NULL));
  }
}
