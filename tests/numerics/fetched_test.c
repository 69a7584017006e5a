// SPDX-License-Identifier: Apache-2.0
//
// Every value of a random program of convolutions, pools, norms and dense
// layers, with its gradients, has the same bytes whatever else is fetched.
//
// LS_TEST_SEED is the first program's number, LS_TEST_PROGRAMS how many there
// are: thousands, by hand.
#include <stdio.h>
#include <string.h>

#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/draw.h"
#include "support/function.h"
#include "support/place.h"
#include "support/sanitizer.h"
#include "support/values.h"

enum { MOST_INPUTS = 40, MOST_TENSORS = 400, SUBSETS = 8 };

typedef struct program {
  uint64_t draws;
  ls_dtype dtype;
  ls_feed feeds[MOST_INPUTS];  // Of placeholders; arrays of the program.
  size_t num_feeds;
  ls_tensor x;
  int64_t sizes[4];               // Of x: a batch of images.
  ls_tensor all[MOST_TENSORS];    // Every result of an op.
  ls_array *whole[MOST_TENSORS];  // Values if all are fetched.
  size_t count;
} program;

static int64_t draw(program *p, int64_t low, int64_t high) {
  return low + (int64_t)draw_below(&p->draws, (uint64_t)(high - low + 1));
}

static bool chance(program *p, int percent) { return draw(p, 0, 99) < percent; }

// ---- Building --------------------------------------------------------------
static ls_tensor input(program *p, ls_dtype dtype, ls_shape shape) {
  assert_true(p->num_feeds < MOST_INPUTS);
  const ls_feed feed = {
      ls_placeholder(dtype, shape, "x"),
      array_of_numbers(dtype, shape, (uint32_t)p->num_feeds + 3)};
  p->feeds[p->num_feeds++] = feed;
  return feed.tensor;
}

// Scales and offsets of norms are f32 for 16-bit floats.
static ls_tensor channels(program *p) {
  return input(p, p->dtype == LS_DTYPE_BF16 ? LS_DTYPE_F32 : p->dtype,
               LS_SHAPE(p->sizes[3]));
}

static void convolve(program *p) {
  const int64_t taps = chance(p, 80) ? 3 : 1;
  const bool same =
      taps == 1 || chance(p, 70) || p->sizes[1] < 4 || p->sizes[2] < 4;
  const ls_convolution_options options = {.padding = same ? LS_PADDING_SAME
                                                          : LS_PADDING_VALID};
  const int64_t out = chance(p, 80) ? 16 * draw(p, 1, 2) : draw(p, 1, 9);
  const ls_tensor w =
      input(p, p->dtype, LS_SHAPE(taps, taps, p->sizes[3], out));
  p->sizes[3] = out;
  for (int i = 1; i < 3 && !same; ++i)
    p->sizes[i] -= 2;
  const int64_t form = draw(p, 0, 3);
  if (form >= 2) {
    const ls_tensor bias = input(p, p->dtype, LS_SHAPE(out));
    p->x = ls_conv_bias_act(p->x, w, bias,
                            form == 2 ? LS_ACTIVATION_NONE : LS_ACTIVATION_RELU,
                            &options);
    return;
  }
  p->x = ls_convolution(p->x, w, &options);
  if (form == 1) p->x = ls_add(p->x, input(p, p->dtype, LS_SHAPE(out)));
}

static void pool(program *p) {
  const int64_t side = chance(p, 80) ? 2 : 3, stride = side == 2 ? 2 : 1;
  if (p->sizes[1] < side || p->sizes[2] < side) return;
  const ls_window_options options = {.strides = LS_SHAPE(stride, stride)};
  for (int i = 1; i < 3; ++i)
    p->sizes[i] = (p->sizes[i] - side) / stride + 1;
  p->x = chance(p, 80) ? ls_max_pool(p->x, LS_SHAPE(side, side), &options)
                       : ls_avg_pool(p->x, LS_SHAPE(side, side), &options);
}

static void add_layer(program *p) {
  const ls_tensor before = p->x;
  switch (draw(p, 0, 6)) {
  case 0:
    p->x = ls_relu(p->x);
    break;
  case 1:
    p->x = ls_gelu(p->x);
    break;
  case 2: {
    const ls_tensor scale = channels(p);
    p->x = ls_op_output(
        ls_batch_norm(p->x, scale, channels(p), 1e-3,
                      chance(p, 50) ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE),
        0);
    break;
  }
  case 3: {
    const ls_tensor scale = channels(p);
    p->x = ls_layer_norm(p->x, scale, channels(p), 1e-3);
    break;
  }
  case 4:
    p->x = ls_add(ls_tanh(p->x), before);
    break;
  default:
    break;
  }
}

// Dense layers; the second weights are used twice.
static void add_dense(program *p) {
  const int64_t rows = p->sizes[0], wide = draw(p, 1, 20);
  const int64_t count = p->sizes[1] * p->sizes[2] * p->sizes[3];
  ls_tensor y = ls_reshape(p->x, LS_SHAPE(rows, count));
  y = ls_dense(y, input(p, p->dtype, LS_SHAPE(count, wide)),
               input(p, p->dtype, LS_SHAPE(wide)), LS_ACTIVATION_NONE);
  const ls_tensor w = input(p, p->dtype, LS_SHAPE(wide, wide));
  for (int i = 0; i < 2; ++i)
    y = chance(p, 50) ? ls_gelu(ls_matmul(y, w)) : ls_tanh(ls_matmul(y, w));
  p->x = y;
}

static ls_tensor loss_of(program *p) {
  if (chance(p, 70)) add_dense(p);
  // A linear loss needs no value of the top for its gradient.
  if (chance(p, 50)) p->x = ls_square(p->x);
  return ls_reduce_sum(p->x, LS_ALL_AXES);
}

static void build(program *p) {
  for (int i = 0; i < 3; ++i)
    p->sizes[i] = i == 0 ? draw(p, 1, 3) : draw(p, 4, 13);
  p->sizes[3] = chance(p, 80) ? 16 : 3;
  p->x = input(p, p->dtype,
               LS_SHAPE(p->sizes[0], p->sizes[1], p->sizes[2], p->sizes[3]));
  ls_tensor penalty = ls_scalar(p->dtype, 0);
  for (int64_t i = draw(p, 1, 3); i > 0; --i) {
    convolve(p);
    if (chance(p, 40)) add_layer(p);
    if (chance(p, 15)) penalty = ls_reduce_sum(ls_square(p->x), LS_ALL_AXES);
    if (chance(p, 75)) pool(p);
    if (chance(p, 30)) add_layer(p);
  }
  const ls_nest loss = ls_leaf(ls_add(loss_of(p), penalty));
  ls_nest xs[MOST_INPUTS], gradients[MOST_INPUTS];
  for (size_t i = 0; i < p->num_feeds; ++i)
    xs[i] = ls_leaf(p->feeds[i].tensor);
  expect_ok(ls_gradients(&loss, 1, xs, p->num_feeds, NULL, gradients));
}

static void list_tensors(program *p, const ls_graph *graph) {
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    if (strcmp(ls_op_type_name(op), "placeholder") == 0) continue;
    for (uint32_t k = 0; k < ls_op_num_outputs(op); ++k) {
      assert_true(p->count < MOST_TENSORS);
      p->all[p->count++] = ls_op_output(op, k);
    }
  }
}

// ---- Running ---------------------------------------------------------------
// Fetches the tensors whose flags are set, and compares them with those of the
// run that fetches all, which comes first. Returns how many differ.
static size_t run(program *p, ls_session *session, const bool *fetched,
                  const char *what) {
  ls_nest leaves[MOST_TENSORS];
  size_t count = 0, differ = 0;
  for (size_t i = 0; i < p->count; ++i)
    if (fetched[i]) leaves[count++] = ls_leaf(p->all[i]);
  LS_OWN(ls_nest, fetches) = ls_nest_sequence(LS_KIND_LIST, leaves, count);
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_session_run(session, fetches, p->feeds, p->num_feeds, &results));
  for (size_t i = 0, at = 0; i < p->count; ++i) {
    if (!fetched[i]) continue;
    ls_array *got = ls_nest_as_array(ls_nest_item(results, at++));
    if (p->whole[i] == NULL) {
      p->whole[i] = ls_array_retain(got);
      continue;
    }
    if (memcmp(ls_array_data(got), ls_array_data(p->whole[i]),
               ls_array_size(got)) == 0)
      continue;
    if (differ++ == 0)
      printf("%s: %s differs\n", what, ls_op_name(ls_tensor_op(p->all[i])));
  }
  return differ;
}

static size_t check(uint64_t seed) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F32, LS_DTYPE_F32,
                                    LS_DTYPE_F64, LS_DTYPE_BF16};
  program p = {.draws = seed};
  p.dtype = dtypes[draw(&p, 0, LS_COUNT_OF(dtypes) - 1)];
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .math = (ls_math)draw(&p, LS_MATH_FAST, LS_MATH_BF16_DIRECT)});
  LS_OWN(ls_graph, graph) = graph_named("program");
  {
    LS_GRAPH_SCOPE(graph);
    build(&p);
  }
  list_tensors(&p, graph);
  LS_OWN(ls_session, session) = session_of(graph);
  size_t differ = 0;
  for (int k = -1; k < SUBSETS; ++k) {
    char what[80];
    bool fetched[MOST_TENSORS];
    // All; each alone in turn; some.
    const size_t one = (size_t)draw(&p, 0, (int64_t)p.count - 1);
    for (size_t i = 0; i < p.count; ++i)
      fetched[i] = k < 0 || i == one || (k % 2 == 0 && chance(&p, 20));
    snprintf(what, sizeof(what), "program %llu, fetches %d",
             (unsigned long long)seed, k);
    differ += run(&p, session, fetched, what);
  }
  for (size_t i = 0; i < p.count; ++i)
    ls_array_release(p.whole[i]);
  for (size_t i = 0; i < p.num_feeds; ++i)
    ls_array_release((ls_array *)(uintptr_t)p.feeds[i].value);
  return differ;
}

TEST(a_value_has_the_same_bytes_whatever_else_is_fetched) {
  const uint64_t first = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t programs =
      number_from_environment("LS_TEST_PROGRAMS", LS_SANITIZED ? 4 : 25);
  size_t differ = 0;
  for (uint64_t i = 0; i < programs; ++i)
    differ += check(first + i);
  assert_int_equal(differ, 0);
}
