// SPDX-License-Identifier: Apache-2.0
// Attention layers against plain loops.
#include <math.h>

#include "lockstep/layers.h"
#include "support/values.h"

enum { BATCH = 2, TOKENS = 4, MEMORY = 3, WIDTH = 6, HEADS = 2 };
enum { DEPTH = WIDTH / HEADS };

// [rows, in] by columns [first, first + WIDTH) of a kernel with `wide` columns.
static void project(const double *x, int rows, const double *kernel,
                    const double *bias, int first, int wide, double *y) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < WIDTH; ++c) {
      double sum = bias != NULL ? bias[first + c] : 0;
      for (int k = 0; k < WIDTH; ++k)
        sum += x[r * WIDTH + k] * kernel[k * wide + first + c];
      y[r * WIDTH + c] = sum;
    }
}

// Row `i` of one head.
static void attend_row(const double *q, const double *k, const double *v,
                       int seen, double *y) {
  double scores[TOKENS], most = -INFINITY, sum = 0;
  for (int j = 0; j < seen; ++j) {
    scores[j] = 0;
    for (int d = 0; d < DEPTH; ++d)
      scores[j] += q[d] * k[j * WIDTH + d] / sqrt(DEPTH);
    most = fmax(most, scores[j]);
  }
  for (int j = 0; j < seen; ++j)
    sum += scores[j] = exp(scores[j] - most);
  for (int d = 0; d < DEPTH; ++d) {
    y[d] = 0;
    for (int j = 0; j < seen; ++j)
      y[d] += scores[j] / sum * v[j * WIDTH + d];
  }
}

typedef struct weights {
  double qkv[WIDTH * 3 * WIDTH], qkv_bias[3 * WIDTH];
  double out[WIDTH * WIDTH], out_bias[WIDTH];
} weights;

static void plain(const weights *w, const double *x, const double *memory,
                  int seen_tokens, bool causal, double *y) {
  double q[TOKENS * WIDTH], k[TOKENS * WIDTH], v[TOKENS * WIDTH];
  double heads[TOKENS * WIDTH];
  for (int b = 0; b < BATCH; ++b) {
    const double *m = memory + b * seen_tokens * WIDTH;
    project(x + b * TOKENS * WIDTH, TOKENS, w->qkv, w->qkv_bias, 0, 3 * WIDTH,
            q);
    project(m, seen_tokens, w->qkv, w->qkv_bias, WIDTH, 3 * WIDTH, k);
    project(m, seen_tokens, w->qkv, w->qkv_bias, 2 * WIDTH, 3 * WIDTH, v);
    for (int i = 0; i < TOKENS; ++i)
      for (int h = 0; h < HEADS; ++h)
        attend_row(q + i * WIDTH + h * DEPTH, k + h * DEPTH, v + h * DEPTH,
                   causal ? i + 1 : seen_tokens, heads + i * WIDTH + h * DEPTH);
    project(heads, TOKENS, w->out, w->out_bias, 0, WIDTH,
            y + b * TOKENS * WIDTH);
  }
}

static ls_attention_layer *make(bool causal, weights *w,
                                ls_variable **variables) {
  ls_attention_layer *layer = NULL;
  expect_ok(ls_attention_layer_create(
      &(ls_attention_layer_options){.width = WIDTH,
                                    .num_heads = HEADS,
                                    .causal = causal,
                                    .dtype = LS_DTYPE_F64},
      &layer));
  assert_int_equal(ls_attention_layer_variables(layer, variables, 4), 4);
  static const char *const names[] = {
      "attention/qkv/kernel", "attention/qkv/bias", "attention/out/kernel",
      "attention/out/bias"};
  for (size_t i = 0; i < 4; ++i)
    assert_string_equal(ls_variable_name(variables[i]), names[i]);
  fill_numbers((double *)w, sizeof(*w) / sizeof(double), 21);
  set_variable(variables[0], w->qkv);
  set_variable(variables[1], w->qkv_bias);
  set_variable(variables[2], w->out);
  set_variable(variables[3], w->out_bias);
  return layer;
}

TEST(heads_attend_as_plain_loops_do) {
  double x[BATCH * TOKENS * WIDTH], memory[BATCH * MEMORY * WIDTH];
  double wanted[BATCH * TOKENS * WIDTH];
  const size_t count = BATCH * TOKENS * WIDTH;
  fill_numbers(x, count, 1);
  fill_numbers(memory, BATCH * MEMORY * WIDTH, 2);
  for (int causal = 0; causal < 2; ++causal) {
    weights w;
    ls_variable *variables[4];
    ls_attention_layer *layer = make(causal == 1, &w, variables);
    expect_ok(ls_frame_begin());
    const ls_tensor tokens =
        eager_of(LS_DTYPE_F64, LS_SHAPE(BATCH, TOKENS, WIDTH), x);
    plain(&w, x, x, TOKENS, causal == 1, wanted);
    expect_tensor(ls_attention_layer_apply(layer, tokens), wanted, count,
                  1e-12);
    expect_tensor(ls_attention_layer_apply_to(layer, tokens, tokens), wanted,
                  count, 1e-12);
    if (causal == 0) {
      plain(&w, x, memory, MEMORY, false, wanted);
      expect_tensor(
          ls_attention_layer_apply_to(
              layer, tokens,
              eager_of(LS_DTYPE_F64, LS_SHAPE(BATCH, MEMORY, WIDTH), memory)),
          wanted, count, 1e-12);
    }
    expect_ok(ls_frame_end(NULL));
    ls_attention_layer_destroy(layer);
  }
}

static ls_nest loss_of(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor y = ls_attention_layer_apply(user, x);
  const ls_tensor z = ls_attention_layer_apply_to(user, y, x);
  return ls_leaf(ls_reduce_sum(ls_mul(z, ls_square(z)), LS_ALL_AXES));
}

TEST(gradients_flow_to_all_weights) {
  weights w;
  ls_variable *variables[4];
  ls_attention_layer *layer = make(true, &w, variables);
  const ls_nest args = LS_TUPLE(ls_nest_array(
      array_of_numbers(LS_DTYPE_F64, LS_SHAPE(BATCH, TOKENS, WIDTH), 5)));
  expect_variable_gradients(loss_of, layer, args, variables, 4, 1e-5);
  ls_nest_release(args);
  ls_attention_layer_destroy(layer);
}

TEST(layers_that_cannot_be_are_refused) {
  ls_attention_layer *layer = NULL;
  expect_status(
      ls_attention_layer_create(
          &(ls_attention_layer_options){.width = 6, .num_heads = 4}, &layer),
      LS_INVALID_ARGUMENT, "4 heads cannot share a width of 6");
  assert_null(layer);
}
