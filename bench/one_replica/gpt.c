// SPDX-License-Identifier: Apache-2.0
//
// A decoder of 4 layers, width 256, 4 heads, on 16 sequences of 128 tokens of
// a vocabulary of 256: learned positions, layer norm first, causal attention,
// tanh-GELU, no biases in products, the output embedding tied to the input's.

#include <string.h>

#include "one_replica/dense.h"
#include "one_replica/loops.h"

enum { TOKENS = 128, WIDTH = 256, HEADS = 4, HEAD = WIDTH / HEADS, LAYERS = 4 };
enum { VOCABULARY = 256, QKV = 3 * WIDTH, INNER = 4 * WIDTH };

// Rows of a block of elementwise work.
#define ROWS ((size_t)32)

typedef struct {
  parameter gain, bias;
  matrix x;  // What is normalized.
  float *moments, *sums;
} bench_norm;

// What a layer keeps for its backward pass.
typedef struct {
  bench_norm norm1, norm2;
  bench_dense qkv, join, widen, narrow;
  matrix h1, projected, attended, h2, u, a;
  float *softmax;  // One square of tokens for each head of each sequence.
} bench_layer;

// ---- Attention, one block for each head of each sequence -------------------
typedef struct {
  const ls_cpu_kernels *kernels;
  const float *qkv;
  float *softmax;
  float *out;  // Backward: the gradient of the output.
  float *dqkv;
} attention_params;

#define SQUARE ((size_t)(TOKENS * TOKENS))

// Element 0 of a head's part of an array of `width` columns.
static size_t head_at(int64_t block, size_t width) {
  const size_t sequence = (size_t)block / HEADS, head = (size_t)block % HEADS;
  return sequence * TOKENS * width + head * HEAD;
}

static void multiply(const ls_cpu_kernels *kernels, ls_cpu_product product,
                     void *scratch) {
  const ls_cpu_block whole = {0, product.m, 0, product.n};
  kernels->product_f32(&product, &whole, scratch);
}

static void run_attention(const void *params, int64_t begin, int64_t end,
                          const bench_worker *worker) {
  const attention_params *p = params;
  for (int64_t i = begin; i < end; ++i) {
    const float *q = p->qkv + head_at(i, QKV);
    float *softmax = p->softmax + (size_t)i * SQUARE;
    multiply(p->kernels,
             (ls_cpu_product){.m = TOKENS,
                              .n = TOKENS,
                              .k = HEAD,
                              .a = q,
                              .lda = QKV,
                              .b = q + WIDTH,
                              .ldb = QKV,
                              .b_transposed = true,
                              .c = softmax,
                              .ldc = TOKENS},
             worker->scratch);
    loop_causal_softmax(softmax, TOKENS, 0.125f);
    multiply(p->kernels,
             (ls_cpu_product){.m = TOKENS,
                              .n = HEAD,
                              .k = TOKENS,
                              .a = softmax,
                              .lda = TOKENS,
                              .b = q + 2 * WIDTH,
                              .ldb = QKV,
                              .c = p->out + head_at(i, WIDTH),
                              .ldc = WIDTH},
             worker->scratch);
  }
}

static void run_attention_grad(const void *params, int64_t begin, int64_t end,
                               const bench_worker *worker) {
  const attention_params *p = params;
  float *ds = worker->scratch;
  float *scratch = ds + SQUARE;
  for (int64_t i = begin; i < end; ++i) {
    const float *q = p->qkv + head_at(i, QKV);
    const float *dout = p->out + head_at(i, WIDTH);
    const float *softmax = p->softmax + (size_t)i * SQUARE;
    float *dq = p->dqkv + head_at(i, QKV);
    multiply(p->kernels,
             (ls_cpu_product){.m = TOKENS,
                              .n = TOKENS,
                              .k = HEAD,
                              .a = dout,
                              .lda = WIDTH,
                              .b = q + 2 * WIDTH,
                              .ldb = QKV,
                              .b_transposed = true,
                              .c = ds,
                              .ldc = TOKENS},
             scratch);
    ls_cpu_product square = {.m = TOKENS,
                             .n = HEAD,
                             .k = TOKENS,
                             .a = softmax,
                             .lda = TOKENS,
                             .a_transposed = true,
                             .b = dout,
                             .ldb = WIDTH,
                             .c = dq + 2 * WIDTH,
                             .ldc = QKV};
    multiply(p->kernels, square, scratch);
    loop_causal_softmax_grad(ds, softmax, TOKENS, 0.125f);
    square.a = ds;
    square.b = q;
    square.ldb = QKV;
    square.c = dq + WIDTH;
    multiply(p->kernels, square, scratch);
    square.a_transposed = false;
    square.b = q + WIDTH;
    square.c = dq;
    multiply(p->kernels, square, scratch);
  }
}

static void emit_attention(bench_lane *lane, const char *name,
                           instruction_fn *run, attention_params params,
                           int products) {
  bench_program *program = &lane->program;
  params.kernels = program->kernels;
  const int64_t blocks = (int64_t)lane->examples * HEADS;
  program->flops += 2.0 * products * (double)(SQUARE * HEAD) * (double)blocks;
  const ls_cpu_product largest = {.m = TOKENS, .n = TOKENS, .k = TOKENS};
  program_want_scratch(program,
                       SQUARE * sizeof(float) +
                           program->kernels->product_f32_scratch(&largest));
  program_add(program, name, run, &params, sizeof params, blocks);
}

// ---- Layer norm ------------------------------------------------------------
typedef struct {
  bench_norm norm;
  float *y, *copy;  // Backward: the gradients of y and x.
} norm_params;

static void run_norm(const void *params, int64_t begin, int64_t end,
                     const bench_worker *worker) {
  (void)worker;
  const norm_params *p = params;
  const size_t first = (size_t)begin * ROWS, at = first * WIDTH;
  loop_layer_norm(p->y + at, p->copy != NULL ? p->copy + at : NULL,
                  p->norm.moments + 2 * first, p->norm.x.data + at,
                  p->norm.gain.value, p->norm.bias.value,
                  (size_t)(end - begin) * ROWS, WIDTH);
}

static void run_norm_grad(const void *params, int64_t begin, int64_t end,
                          const bench_worker *worker) {
  (void)worker;
  const norm_params *p = params;
  for (int64_t block = begin; block < end; ++block) {
    const size_t first = (size_t)block * ROWS, at = first * WIDTH;
    loop_layer_norm_grad(p->copy + at, p->norm.sums + (size_t)block * 2 * WIDTH,
                         p->y + at, p->norm.x.data + at,
                         p->norm.moments + 2 * first, p->norm.gain.value, ROWS,
                         WIDTH);
  }
}

static bench_norm make_norm(bench_lane *lane, matrix x) {
  bench_norm made = {.x = x};
  // Both gradients come as one sum, so they stand side by side.
  made.gain = lane_parameter(lane, 2 * WIDTH, 0.0f);
  made.bias = (parameter){made.gain.value + WIDTH, made.gain.gradient + WIDTH};
  if (lane->index == 0) {
    for (size_t i = 0; i < WIDTH; ++i)
      made.gain.value[i] = 1.0f;
  }
  made.moments = lane_floats(lane, 2 * x.rows);
  made.sums = lane_floats(lane, x.rows / ROWS * 2 * WIDTH);
  return made;
}

static int64_t row_blocks(matrix x) { return (int64_t)(x.rows / ROWS); }

// y = norm(x), and x is copied to `copy` unless that is NULL.
static void emit_norm(bench_lane *lane, const bench_norm *norm, matrix y,
                      float *copy) {
  const norm_params params = {*norm, y.data, copy};
  program_add(&lane->program, "norm", run_norm, &params, sizeof params,
              row_blocks(y));
}

static void emit_norm_grad(bench_lane *lane, const bench_norm *norm, matrix dy,
                           matrix dx) {
  const norm_params params = {*norm, dy.data, dx.data};
  program_add(&lane->program, "norm grad", run_norm_grad, &params,
              sizeof params, row_blocks(dy));
  emit_sum(lane, norm->gain.gradient, norm->sums, dy.rows / ROWS, 2 * WIDTH);
}

// ---- Embedding -------------------------------------------------------------
typedef struct {
  const int32_t *tokens;
  parameter embedding, positions;
  float *x;  // Backward: its gradient.
  size_t rows;
  const ls_cpu_kernels *kernels;
} embed_params;

static void run_embed(const void *params, int64_t begin, int64_t end,
                      const bench_worker *worker) {
  (void)worker;
  const embed_params *p = params;
  const size_t last = (size_t)end * ROWS;
  for (size_t i = (size_t)begin * ROWS; i < last; ++i) {
    p->kernels->add(p->x + i * WIDTH,
                    p->embedding.value + (size_t)p->tokens[i] * WIDTH,
                    p->positions.value + i % TOKENS * WIDTH, WIDTH);
  }
}

// A block is a band of 32 columns: each sum runs over the rows in order.
static void run_embed_grad(const void *params, int64_t begin, int64_t end,
                           const bench_worker *worker) {
  (void)worker;
  const embed_params *p = params;
  const size_t first = (size_t)begin * 32, n = (size_t)(end - begin) * 32;
  for (size_t i = 0; i < TOKENS; ++i) {
    memset(p->positions.gradient + i * WIDTH + first, 0, n * sizeof(float));
  }
  for (size_t i = 0; i < p->rows; ++i) {
    const float *dx = p->x + i * WIDTH + first;
    float *token = p->embedding.gradient + (size_t)p->tokens[i] * WIDTH + first;
    float *position = p->positions.gradient + i % TOKENS * WIDTH + first;
    p->kernels->add(token, token, dx, n);
    p->kernels->add(position, position, dx, n);
  }
}

static void run_zero(const void *params, int64_t begin, int64_t end,
                     const bench_worker *worker) {
  (void)worker;
  const matrix *p = params;
  memset(p->data + (size_t)begin * ROWS * WIDTH, 0,
         (size_t)(end - begin) * ROWS * WIDTH * sizeof(float));
}

// ---- GELU ------------------------------------------------------------------
typedef struct {
  const float *u;
  float *a;  // Backward: the gradient, in place.
} gelu_params;

static void run_gelu(const void *params, int64_t begin, int64_t end,
                     const bench_worker *worker) {
  (void)worker;
  const gelu_params *p = params;
  const size_t first = (size_t)begin * ROWS * INNER;
  loop_gelu(p->a + first, p->u + first, (size_t)(end - begin) * ROWS * INNER);
}

static void run_gelu_grad(const void *params, int64_t begin, int64_t end,
                          const bench_worker *worker) {
  (void)worker;
  const gelu_params *p = params;
  const size_t first = (size_t)begin * ROWS * INNER;
  loop_gelu_grad(p->a + first, p->u + first,
                 (size_t)(end - begin) * ROWS * INNER);
}

static void emit_gelu(bench_lane *lane, const char *name, instruction_fn *run,
                      matrix u, matrix a) {
  const gelu_params params = {u.data, a.data};
  program_add(&lane->program, name, run, &params, sizeof params, row_blocks(u));
}

// ---- Layers ----------------------------------------------------------------
static bench_layer make_layer(bench_lane *lane, matrix x, matrix middle) {
  const size_t rows = x.rows;
  bench_layer made = {.norm1 = make_norm(lane, x)};
  made.norm2 = make_norm(lane, middle);
  made.qkv = lane_dense(lane, WIDTH, QKV, false, false);
  made.join = lane_dense(lane, WIDTH, WIDTH, false, false);
  made.widen = lane_dense(lane, WIDTH, INNER, false, false);
  made.narrow = lane_dense(lane, INNER, WIDTH, false, false);
  made.h1 = lane_matrix(lane, rows, WIDTH);
  made.projected = lane_matrix(lane, rows, QKV);
  made.attended = lane_matrix(lane, rows, WIDTH);
  made.h2 = lane_matrix(lane, rows, WIDTH);
  made.u = lane_matrix(lane, rows, INNER);
  made.a = lane_matrix(lane, rows, INNER);
  made.softmax = lane_floats(lane, lane->examples * HEADS * SQUARE);
  return made;
}

// y += x w, for the residual stream.
static void emit_residual(bench_lane *lane, const bench_dense *dense, matrix x,
                          matrix y) {
  const matrix w = {dense->w.value, dense->in, dense->out};
  emit_product(lane, "residual", x, w, y,
               &(product_options){.accumulate = true});
}

static void emit_layer(bench_lane *lane, const bench_layer *layer, matrix out) {
  const matrix middle = layer->norm2.x;
  emit_norm(lane, &layer->norm1, layer->h1, middle.data);
  emit_dense(lane, &layer->qkv, layer->h1, layer->projected);
  emit_attention(lane, "attention", run_attention,
                 (attention_params){.qkv = layer->projected.data,
                                    .softmax = layer->softmax,
                                    .out = layer->attended.data},
                 2);
  emit_residual(lane, &layer->join, layer->attended, middle);
  emit_norm(lane, &layer->norm2, layer->h2, out.data);
  emit_dense(lane, &layer->widen, layer->h2, layer->u);
  emit_gelu(lane, "gelu", run_gelu, layer->u, layer->a);
  emit_residual(lane, &layer->narrow, layer->a, out);
}

// Gradients that no layer needs longer than its own backward pass.
typedef struct {
  matrix x, h, projected, inner;
} gradients;

static void emit_layer_grad(bench_lane *lane, const bench_layer *layer,
                            const gradients *d) {
  emit_dense_weights(lane, &layer->narrow, layer->a, d->x);
  emit_dense_data(lane, &layer->narrow, d->x, d->inner, NULL);
  emit_gelu(lane, "gelu grad", run_gelu_grad, layer->u, d->inner);
  emit_dense_weights(lane, &layer->widen, layer->h2, d->inner);
  emit_dense_data(lane, &layer->widen, d->inner, d->h, NULL);
  emit_norm_grad(lane, &layer->norm2, d->h, d->x);
  emit_dense_weights(lane, &layer->join, layer->attended, d->x);
  emit_dense_data(lane, &layer->join, d->x, d->h, NULL);
  emit_attention(lane, "attention grad", run_attention_grad,
                 (attention_params){.qkv = layer->projected.data,
                                    .softmax = layer->softmax,
                                    .out = d->h.data,
                                    .dqkv = d->projected.data},
                 4);
  emit_dense_weights(lane, &layer->qkv, layer->h1, d->projected);
  emit_dense_data(lane, &layer->qkv, d->projected, d->h, NULL);
  emit_norm_grad(lane, &layer->norm1, d->h, d->x);
}

static void build(bench_lane *lane) {
  const size_t rows = lane->examples * TOKENS;
  const int32_t *tokens = lane_labels(lane, TOKENS, VOCABULARY);
  // Each token is to name itself: any labels cost the same.
  const int32_t *labels = tokens;
  const bench_dense embedding =
      lane_dense(lane, VOCABULARY, WIDTH, false, false);
  matrix stream[2 * LAYERS + 1];
  for (int i = 0; i <= 2 * LAYERS; ++i) {
    stream[i] = lane_matrix(lane, rows, WIDTH);
  }
  const embed_params embed = {.tokens = tokens,
                              .embedding = embedding.w,
                              .positions =
                                  lane_parameter(lane, TOKENS * WIDTH, 0.02f),
                              .x = stream[0].data,
                              .rows = rows,
                              .kernels = lane->program.kernels};
  bench_layer layers[LAYERS];
  for (int i = 0; i < LAYERS; ++i) {
    layers[i] = make_layer(lane, stream[2 * i], stream[2 * i + 1]);
  }
  const bench_norm last = make_norm(lane, stream[2 * LAYERS]);
  const matrix h = lane_matrix(lane, rows, WIDTH);
  const matrix logits = lane_matrix(lane, rows, VOCABULARY);
  const matrix dlogits = lane_matrix(lane, rows, VOCABULARY);
  const gradients d = {.x = lane_matrix(lane, rows, WIDTH),
                       .h = lane_matrix(lane, rows, WIDTH),
                       .projected = lane_matrix(lane, rows, QKV),
                       .inner = lane_matrix(lane, rows, INNER)};
  const matrix e = {embedding.w.value, VOCABULARY, WIDTH};
  const matrix de = {embedding.w.gradient, VOCABULARY, WIDTH};

  program_add(&lane->program, "embed", run_embed, &embed, sizeof embed,
              row_blocks(stream[0]));
  for (int i = 0; i < LAYERS; ++i) {
    emit_layer(lane, &layers[i], stream[2 * i + 2]);
  }
  emit_norm(lane, &last, h, NULL);
  emit_product(lane, "logits", h, e, logits,
               &(product_options){.turned_b = true});
  emit_loss(lane, logits, labels, dlogits);

  emit_product(lane, "weights", dlogits, h, de,
               &(product_options){.turned_a = true});
  emit_product(lane, "data", dlogits, e, d.h, &(product_options){0});
  program_add(&lane->program, "zero", run_zero, &d.x, sizeof d.x,
              row_blocks(d.x));
  emit_norm_grad(lane, &last, d.h, d.x);
  for (int i = LAYERS - 1; i >= 0; --i)
    emit_layer_grad(lane, &layers[i], &d);
  embed_params embed_grad = embed;
  embed_grad.x = d.x.data;
  program_add(&lane->program, "embed grad", run_embed_grad, &embed_grad,
              sizeof embed_grad, WIDTH / 32);
}

const bench_recipe gpt_recipe = {
    .name = "gpt",
    .examples = 16,
    .rows = TOKENS,
    .parameters = 3300000,
    .frame = (size_t)512 << 20,
    .gflops = 42.68,
    .adam = true,
    .build = build,
};
