// SPDX-License-Identifier: Apache-2.0
//
// Chains of ONNX's nodes in build graphs whose sizes are unknown.
#include <math.h>
#include <stdio.h>

#include "graph/own.h"
#include "lockstep/full.h"
#include "lockstep/onnx.h"
#include "onnx/onnx_load.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/onnx_files.h"
#include "support/values.h"

typedef struct open_chain {
  const char *nodes;
  ls_shape open, shape;  // Of the placeholder, and of what is fed: 1, 2, ...
  ls_shape result;
  double wanted[12];
  int64_t opset;
} open_chain;

static void add_numbers(ls_text *graph) {
  static const float mask[] = {0, -INFINITY};
  static const float floats[] = {2, 1, 0.7F}, line[] = {1, 2, 3, 4, 5, 6, 7, 8},
                     square[] = {1, 2, 3, 4};
  static const int64_t ints[] = {0, 2, 1, -1, 4, -100, -200, 512};
  static const char *const names[] = {"zero", "two", "one",     "minus",
                                      "four", "far", "farther", "most"};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    onnx_add_integers(graph, names[i], 1, ints + i);
  onnx_add_integers(graph, "swap", 3, ints);
  onnx_add_integers_of(graph, "one_of_i32", 6, 1, ints + 2);
  onnx_add_integers_of(graph, "none_of_i32", 6, 1, ints);
  onnx_add_floats(graph, "real", 1, 0, floats);
  onnx_add_floats(graph, "scales", 2, 0, floats + 1);
  onnx_add_floats(graph, "pair", 2, 0, line);
  onnx_add_floats(graph, "line", 8, 0, line);
  onnx_add_floats(graph, "mask", 2, 0, mask);
  onnx_add_floats(graph, "square", 2, 2, square);
}

// Returns a shape of that rank whose sizes are open.
static ls_shape open_shape(int32_t rank) {
  ls_shape shape = {.rank = rank};
  for (int32_t i = 0; i < rank; ++i)
    shape.dim[i] = -1;
  return shape;
}

// Applies a chain, whose last output is "y", to a placeholder of the graph.
static ls_status apply_open(const open_chain *row, ls_onnx **onnx, ls_tensor *x,
                            ls_tensor *y) {
  LS_OWN(ls_text, file) = onnx_text();
  onnx_add_chain(&file, row->nodes);
  add_numbers(&file);
  onnx_add_port(&file, 11, "x", row->open);
  onnx_add_port(&file, 12, "y", open_shape(row->result.rank));
  expect_ok(onnx_decode(&file, row->opset > 0 ? row->opset : ONNX_OPSET, onnx));
  *x = ls_placeholder(LS_DTYPE_F32, row->open, "x");
  LS_OWN(ls_nest, outputs) = ls_onnx_apply(*onnx, ls_leaf(*x), false);
  *y = ls_nest_tensor(outputs, 0);
  return ls_nest_status(outputs);
}

static void expect_run(ls_graph *graph, ls_op init, ls_tensor x, ls_tensor y,
                       const open_chain *row) {
  double numbers[24];
  for (int i = 0; i < 24; ++i)
    numbers[i] = i + 1;
  LS_OWN(ls_array, fed) = array_of(LS_DTYPE_F32, row->shape, numbers);
  ls_session *session = session_of(graph);
  LS_OWN(ls_nest, begun) = session_results(session, ls_nest_op(init));
  LS_OWN(ls_nest, got) = ls_none();
  expect_ok(ls_session_run(session, ls_leaf(y),
                           &(ls_feed){.tensor = x, .value = fed}, 1, &got));
  const ls_array *array = ls_nest_as_array(got);
  if (!ls_shape_equal(ls_array_shape(array), row->result))
    fail_msg("%s: %s", row->nodes,
             LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    if (!(fabs(ls_array_f64(array, i) - row->wanted[i]) < 1e-5))
      fail_msg("%s: element %d is %g", row->nodes, (int)i,
               ls_array_f64(array, i));
  ls_session_destroy(session);
}

static void expect_open(const open_chain *row) {
  LS_OWN(ls_onnx, onnx) = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_tensor x = ls_failed_tensor(), y = x;
  ls_op init = {NULL, 0};
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(apply_open(row, &onnx, &x, &y));
    init = ls_global_initializer();
  }
  expect_run(graph, init, x, y, row);
}

TEST(chains_with_unknown_sizes_compute_what_onnx_says) {
  const ls_shape open = LS_SHAPE(-1, -1), row = LS_SHAPE(1, 3),
                 line = LS_SHAPE(-1), map = LS_SHAPE(1, 1, -1);
  const open_chain rows[] = {
      {"Gather x minus -> y axis=1", open, row, LS_SHAPE(1, 1), {3}, 0},
      {"Slice x zero most one -> y", open, row, row, {1, 2, 3}, 0},
      {"Slice x zero two one -> y", open, row, LS_SHAPE(1, 2), {1, 2}, 0},
      {"Slice x four most one -> y", open, row, LS_SHAPE(1, 0), {0}, 0},
      {"Shape x -> s start=1;Slice line zero s -> y",
       open,
       row,
       LS_SHAPE(3),
       {1, 2, 3},
       0},
      {"Shape x -> s start=1;Slice line one s -> y",
       open,
       row,
       LS_SHAPE(2),
       {2, 3},
       0},
      {"Shape x -> s start=1;Concat s s -> t axis=0;Expand x t -> y",
       open,
       row,
       LS_SHAPE(3, 3),
       {1, 2, 3, 1, 2, 3, 1, 2, 3},
       0},
      {"Shape x -> s;Cast s -> n to=6;Range none_of_i32 n one_of_i32 -> r;"
       "Add r one_of_i32 -> q;Cast q -> y to=1",
       line,
       LS_SHAPE(3),
       LS_SHAPE(3),
       {1, 2, 3},
       0},
      {"MaxPool x -> y kernel_shape=2, strides=2, ceil_mode=1",
       map,
       LS_SHAPE(1, 1, 5),
       LS_SHAPE(1, 1, 3),
       {2, 4, 5},
       0},
      {"AveragePool x -> y kernel_shape=2, strides=2, ceil_mode=1",
       map,
       LS_SHAPE(1, 1, 4),
       LS_SHAPE(1, 1, 2),
       {1.5, 3.5},
       0},
      {"Shape x -> s;Equal s minus -> e;Where e one s -> t;Reshape x t -> y",
       line,
       LS_SHAPE(2),
       LS_SHAPE(2),
       {1, 2},
       0},
      {"Shape x -> s;Equal s two -> e;Where e four one -> w;Cast w -> y to=1",
       line,
       LS_SHAPE(2),
       LS_SHAPE(1),
       {4},
       0},
      {"Shape x -> s;Mul s s -> m;Sub m one -> n;Cast n -> y to=1",
       line,
       LS_SHAPE(3),
       LS_SHAPE(1),
       {8},
       0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_open(&rows[i]);
}

TEST(numbers_computed_from_unknown_sizes_are_refused) {
  static const char *const chains[] = {
      "Concat s s s s -> p axis=0;Pad x p -> y",
      "Split line s -> y",
      "OneHot swap s pair -> y",
      "CumSum x s -> y",
      "Trilu square s -> y",
      "Squeeze x s -> y",
      "Unsqueeze x s -> y",
      "Slice x zero two s -> y",
      "Slice x zero two one s -> y",
      "Slice swap zero two zero s -> y",
      "ReduceSum x s -> y",
      "TopK line s -> y",
      ("Unsqueeze square zero -> q;Concat s s s -> z axis=0;"
       "Resize q - - z -> y"),
  };
  for (size_t i = 0; i < LS_COUNT_OF(chains); ++i) {
    char nodes[300];
    LS_OWN(ls_onnx, onnx) = NULL;
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_GRAPH_SCOPE(graph);
    ls_tensor x = ls_failed_tensor(), y = x;
    snprintf(nodes, sizeof(nodes), "Shape x -> s end=1;%s", chains[i]);
    const open_chain row = {.nodes = nodes, .open = LS_SHAPE(-1, -1)};
    const ls_status status = apply_open(&row, &onnx, &x, &y);
    if (ls_status_is_ok(status)) fail_msg("%s", nodes);
    expect_contains(ls_status_message(status), "the_node");
    expect_status(status, LS_UNIMPLEMENTED, "known");
  }
}

// A slice up to 2 along an axis of unknown size, which may be shorter.
TEST(slices_that_end_behind_an_axis_have_gradients) {
  const open_chain rows[] = {
      {"Slice x zero two -> y",
       LS_SHAPE(-1),
       LS_SHAPE(3),
       LS_SHAPE(3),
       {2, 4, 0},
       0},
      {"Slice x zero two -> y", LS_SHAPE(-1), LS_SHAPE(1), LS_SHAPE(1), {2}, 0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_onnx, onnx) = NULL;
    LS_OWN(ls_graph, graph) = graph_named("g");
    ls_tensor x = ls_failed_tensor(), y = x;
    ls_op init = {NULL, 0};
    LS_OWN(ls_nest, gradients) = ls_none();
    {
      LS_GRAPH_SCOPE(graph);
      expect_ok(apply_open(&rows[i], &onnx, &x, &y));
      const ls_nest total = ls_leaf(ls_reduce_sum(ls_square(y), LS_ALL_AXES)),
                    wanted = ls_leaf(x);
      expect_ok(ls_gradients(&total, 1, &wanted, 1, NULL, &gradients));
      init = ls_global_initializer();
    }
    expect_run(graph, init, x, ls_nest_tensor(gradients, 0), &rows[i]);
  }
}

// The file leaves the size of "part" open by a description (field 13), or does
// not describe it: then it is known, as the split needs it.
TEST(slices_of_an_unknown_axis_have_a_known_size) {
  for (int described = 0; described < 2; ++described) {
    LS_OWN(ls_onnx, onnx) = NULL;
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_text, file) = onnx_text();
    onnx_add_chain(&file, "Slice x zero four one -> part;"
                          "Split part -> y axis=1");
    add_numbers(&file);
    onnx_add_port(&file, 11, "x", LS_SHAPE(-1, -1));
    onnx_add_port(&file, 12, "y", LS_SHAPE(-1, 4));
    if (described == 1) onnx_add_port(&file, 13, "part", LS_SHAPE(-1, -1));
    expect_ok(onnx_decode(&file, 13, &onnx));
    LS_OWN(ls_nest, outputs) = ls_onnx_apply(
        onnx, ls_leaf(ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, -1), "x")),
        false);
    if (described == 1) {
      expect_status(ls_nest_status(outputs), LS_UNIMPLEMENTED, "split");
      continue;
    }
    expect_ok(ls_nest_status(outputs));
    const ls_shape shape = ls_tensor_shape(ls_nest_tensor(outputs, 0));
    if (!ls_shape_equal(shape, LS_SHAPE(-1, 4))) fail_msg("another shape");
  }
}

TEST(attributes_and_types_are_looked_at) {
  const ls_shape row = LS_SHAPE(1, 3), open = LS_SHAPE(-1, 3);
  const open_chain rows[] = {
      {"Sub x real -> d;Sub real real -> z;Div d z -> i;"
       "IsInf i -> f detect_negative=0;Cast f -> y to=1",
       open,
       row,
       row,
       {0, 0, 1},
       0},
      {"Cast x -> i to=6;Slice scales one two -> part;Pow i part -> p;"
       "Cast p -> y to=1",
       open,
       row,
       row,
       {1, 1, 2},
       0},
      {"Slice x far farther one minus -> y", open, row, LS_SHAPE(1, 1), {1}, 0},
      {"Cast x -> i to=6;Pow i i -> p;ReduceMean p -> m axes=1,;"
       "Cast m -> y to=1",
       open,
       row,
       LS_SHAPE(1, 1),
       {10},
       0},
      {"Greater x real -> g;ReduceMax g -> m axes=1,;Cast m -> y to=1",
       open,
       row,
       LS_SHAPE(1, 1),
       {1},
       0},
      {"Resize x - scales -> y coordinate_transformation_mode=asymmetric "
       "nearest_mode=floor",
       LS_SHAPE(-1, 10),
       LS_SHAPE(1, 10),
       LS_SHAPE(1, 7),
       {1, 2, 3, 5, 6, 8, 9},
       0},
      {"Upsample x -> y scales=1.,2.,",
       open,
       row,
       LS_SHAPE(1, 6),
       {1, 1, 2, 2, 3, 3},
       7},
      {"Resize x - - four -> y axes=1,",
       open,
       row,
       LS_SHAPE(1, 4),
       {1, 2, 2, 3},
       18},
      {"Unsqueeze pair zero -> k;Unsqueeze k zero -> q;Unsqueeze x one -> z;"
       "ConvTranspose z q -> y auto_pad=VALID",
       open,
       row,
       LS_SHAPE(1, 1, 4),
       {1, 4, 7, 6},
       0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_open(&rows[i]);
}

TEST(codes_may_have_values_that_are_infinite) {
  const ls_shape line = LS_SHAPE(-1), one = LS_SHAPE(1);
  const open_chain rows[] = {
      {"OneHot x two mask -> h;Exp h -> y",
       line,
       one,
       LS_SHAPE(1, 2),
       {1, 0},
       0},
      {"OneHot x real mask -> h;Exp h -> y",
       line,
       one,
       LS_SHAPE(1, 2),
       {1, 0},
       0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_open(&rows[i]);
}

TEST(transposed_convolutions_that_have_no_form_are_refused) {
  static const struct {
    const char *attrs, *part;
  } rows[] = {
      {"dilations=2, output_padding=1,", "output_padding"},
      {"group=4611686018427387904", "channels"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    char nodes[300];
    LS_OWN(ls_onnx, onnx) = NULL;
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_GRAPH_SCOPE(graph);
    ls_tensor x = ls_failed_tensor(), y = x;
    snprintf(nodes, sizeof(nodes),
             "Unsqueeze pair zero -> k;Unsqueeze k zero -> q;"
             "Unsqueeze x one -> z;ConvTranspose z q -> y %s",
             rows[i].attrs);
    const open_chain row = {.nodes = nodes, .open = LS_SHAPE(-1, 3)};
    expect_status(apply_open(&row, &onnx, &x, &y), LS_UNIMPLEMENTED,
                  rows[i].part);
  }
}

TEST(optional_outputs_that_are_not_made_are_refused_by_name) {
  for (int is_output = 0; is_output < 2; ++is_output) {
    LS_OWN(ls_text, graph) = onnx_text();
    LS_OWN(ls_onnx, onnx) = NULL;
    add_numbers(&graph);
    onnx_add_node(&graph, "LayerNormalization", "x pair", "n mean", "");
    onnx_add_node(&graph, "Add", "n mean", "y", "");
    onnx_add_port(&graph, 11, "x", LS_SHAPE(-1, 2));
    onnx_add_port(&graph, 12, is_output ? "mean" : "y", LS_SHAPE(-1, -1));
    expect_ok(onnx_decode(&graph, ONNX_OPSET, &onnx));
    expect_ok(ls_frame_begin());
    const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 2), 1);
    LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
    const ls_status made = ls_nest_status(y);
    expect_contains(ls_status_message(made), "net.onnx");
    expect_status(made, LS_UNIMPLEMENTED, "'mean', an optional output");
    expect_ok(ls_frame_end(NULL));
  }
}
