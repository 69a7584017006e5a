// SPDX-License-Identifier: Apache-2.0

#include "one_replica/dense.h"

#include <math.h>
#include <string.h>

#define BAND ((size_t)32)

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static int64_t bands(size_t n) { return (int64_t)((n + BAND - 1) / BAND); }

matrix lane_matrix(bench_lane *lane, size_t rows, size_t columns) {
  return (matrix){lane_floats(lane, rows * columns), rows, columns};
}

// ---- Blocks ----------------------------------------------------------------
// Rows, so that a thread finds the rows that it wrote before; columns where the
// rows are few and long, as each block of rows rearranges its right operand.
static cut cut_of(size_t rows, size_t columns) {
  const bool is_wide = rows < 2 * BAND || 4 * rows < columns;
  return is_wide && columns > BAND ? CUT_COLUMNS : CUT_ROWS;
}

static int64_t blocks_of(size_t rows, size_t columns) {
  return bands(cut_of(rows, columns) == CUT_ROWS ? rows : columns);
}

static ls_cpu_block block_of(size_t rows, size_t columns, int64_t begin,
                             int64_t end) {
  const size_t first = (size_t)begin * BAND, last = (size_t)end * BAND;
  ls_cpu_block block = {0, rows, 0, columns};
  if (cut_of(rows, columns) == CUT_ROWS) {
    block.m0 = first;
    block.m1 = smaller(rows, last);
  } else {
    block.n0 = first;
    block.n1 = smaller(columns, last);
  }
  return block;
}

// ---- Products --------------------------------------------------------------
typedef struct {
  ls_cpu_product product;
  const ls_cpu_kernels *kernels;
} product_params;

static void run_product(const void *params, int64_t begin, int64_t end,
                        const bench_worker *worker) {
  const product_params *p = params;
  const ls_cpu_block block = block_of(p->product.m, p->product.n, begin, end);
  p->kernels->product_f32(&p->product, &block, worker->scratch);
}

static void run_sgemm(const void *params, int64_t begin, int64_t end,
                      const bench_worker *worker) {
  (void)begin, (void)end, (void)worker;
  const ls_cpu_product *p = &((const product_params *)params)->product;
  if (dnnl_sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N',
                 (dnnl_dim_t)p->m, (dnnl_dim_t)p->n, (dnnl_dim_t)p->k, 1.0f,
                 p->a, (dnnl_dim_t)p->lda, p->b, (dnnl_dim_t)p->ldb,
                 p->accumulate ? 1.0f : 0.0f, p->c,
                 (dnnl_dim_t)p->ldc) != dnnl_success) {
    die("dnnl_sgemm failed");
  }
}

// The bias and the relu that sgemm lacks.
static void run_bias(const void *params, int64_t begin, int64_t end,
                     const bench_worker *worker) {
  (void)worker;
  const ls_cpu_product *p = &((const product_params *)params)->product;
  const float *bias = p->bias;
  const bool relu = p->activation == LS_CPU_ACTIVATION_RELU;
  const size_t last = smaller(p->m, (size_t)end * BAND);
  for (size_t i = (size_t)begin * BAND; i < last; ++i) {
    float *row = (float *)p->c + i * p->ldc;
    for (size_t j = 0; j < p->n; ++j) {
      const float x = row[j] + bias[j];
      row[j] = relu && x < 0.0f ? 0.0f : x;
    }
  }
}

void emit_product(bench_lane *lane, const char *name, matrix a, matrix b,
                  matrix c, const product_options *options) {
  bench_program *program = &lane->program;
  const size_t k = options->turned_a ? a.rows : a.columns;
  const product_params params = {
      .kernels = program->kernels,
      .product =
          {
              .m = c.rows,
              .n = c.columns,
              .k = k,
              .a = a.data,
              .b = b.data,
              .c = c.data,
              .lda = a.columns,
              .ldb = b.columns,
              .ldc = c.columns,
              .bias = options->bias,
              .activation = options->relu ? LS_CPU_ACTIVATION_RELU
                                          : LS_CPU_ACTIVATION_NONE,
              .a_transposed = options->turned_a,
              .b_transposed = options->turned_b,
              .accumulate = options->accumulate,
          },
  };
  program->flops += 2.0 * (double)c.rows * (double)c.columns * (double)k;
  if (program->vendor) {
    program_add(program, name, run_sgemm, &params, sizeof params, 1)->whole =
        true;
    if (options->bias != NULL) {
      program_add(program, "bias", run_bias, &params, sizeof params,
                  bands(c.rows));
    }
    return;
  }
  program_want_scratch(program,
                       program->kernels->product_f32_scratch(&params.product));
  program_add(program, name, run_product, &params, sizeof params,
              blocks_of(c.rows, c.columns));
}

// ---- Relu's gradient, column sums ------------------------------------------
typedef struct {
  const ls_cpu_kernels *kernels;
  float *dst;
  const float *src;
  size_t rows, columns;
} loop_params;

static void run_relu_grad(const void *params, int64_t begin, int64_t end,
                          const bench_worker *worker) {
  (void)worker;
  const loop_params *p = params;
  const ls_cpu_block at = block_of(p->rows, p->columns, begin, end);
  if (at.n1 - at.n0 == p->columns) {
    const size_t first = at.m0 * p->columns;
    p->kernels->relu_grad(p->dst + first, p->dst + first, p->src + first,
                          at.m1 * p->columns - first);
    return;
  }
  for (size_t i = at.m0; i < at.m1; ++i) {
    float *row = p->dst + i * p->columns + at.n0;
    p->kernels->relu_grad(row, row, p->src + i * p->columns + at.n0,
                          at.n1 - at.n0);
  }
}

static void run_column_sums(const void *params, int64_t begin, int64_t end,
                            const bench_worker *worker) {
  (void)worker;
  const loop_params *p = params;
  const size_t first = (size_t)begin * BAND;
  const size_t last = smaller(p->columns, (size_t)end * BAND);
  p->kernels->column_sums(p->dst + first, p->src + first, p->rows, last - first,
                          p->columns, false);
}

// ---- Dense layers ----------------------------------------------------------
bench_dense lane_dense(bench_lane *lane, size_t in, size_t out, bool has_bias,
                       bool relu) {
  bench_dense made = {.in = in, .out = out, .has_bias = has_bias, .relu = relu};
  made.w = lane_parameter(lane, in * out, sqrtf(3.0f / (float)in));
  if (has_bias) made.b = lane_parameter(lane, out, 0.0f);
  return made;
}

void emit_dense(bench_lane *lane, const bench_dense *dense, matrix x,
                matrix y) {
  const matrix w = {dense->w.value, dense->in, dense->out};
  emit_product(lane, "forward", x, w, y,
               &(product_options){.bias = dense->b.value, .relu = dense->relu});
}

void emit_dense_weights(bench_lane *lane, const bench_dense *dense, matrix x,
                        matrix dy) {
  const matrix dw = {dense->w.gradient, dense->in, dense->out};
  emit_product(lane, "weights", x, dy, dw,
               &(product_options){.turned_a = true});
  if (!dense->has_bias) return;
  const loop_params params = {.kernels = lane->program.kernels,
                              .dst = dense->b.gradient,
                              .src = dy.data,
                              .rows = dy.rows,
                              .columns = dy.columns};
  program_add(&lane->program, "bias sums", run_column_sums, &params,
              sizeof params, bands(dy.columns));
}

void emit_dense_data(bench_lane *lane, const bench_dense *dense, matrix dy,
                     matrix dx, const matrix *relu_output) {
  const matrix w = {dense->w.value, dense->in, dense->out};
  emit_product(lane, "data", dy, w, dx, &(product_options){.turned_b = true});
  if (relu_output == NULL) return;
  const loop_params params = {.kernels = lane->program.kernels,
                              .dst = dx.data,
                              .src = relu_output->data,
                              .rows = dx.rows,
                              .columns = dx.columns};
  program_add(&lane->program, "relu grad", run_relu_grad, &params,
              sizeof params, blocks_of(dx.rows, dx.columns));
}

// ---- Loss ------------------------------------------------------------------
typedef struct {
  const ls_cpu_kernels *kernels;
  const int32_t *labels;
  float *losses;
  matrix logits, gradient;
  float scale;
} loss_params;

static void run_loss(const void *params, int64_t begin, int64_t end,
                     const bench_worker *worker) {
  (void)worker;
  const loss_params *p = params;
  const size_t first = (size_t)begin * BAND, columns = p->logits.columns;
  const size_t rows = smaller(p->logits.rows, (size_t)end * BAND) - first;
  const float *logits = p->logits.data + first * columns;
  p->kernels->label_loss(p->losses + first, logits, p->labels + first, rows,
                         columns);
  p->kernels->label_loss_grad(p->gradient.data + first * columns, logits,
                              p->labels + first, &p->scale, 0, rows, columns);
}

void emit_loss(bench_lane *lane, matrix logits, const int32_t *labels,
               matrix dlogits) {
  const bench_recipe *recipe = lane->model->recipe;
  const loss_params params = {
      .kernels = lane->program.kernels,
      .labels = labels,
      .losses = lane->losses,
      .logits = logits,
      .gradient = dlogits,
      .scale = 1.0f / (float)(recipe->examples * recipe->rows)};
  program_add(&lane->program, "loss", run_loss, &params, sizeof params,
              bands(logits.rows));
}

// ---- Sums of parts ---------------------------------------------------------
#define SUM_BLOCK ((size_t)2048)

typedef struct {
  const ls_cpu_kernels *kernels;
  float *dst;
  const float *src;
  size_t parts, n;
} sum_params;

static void run_sum(const void *params, int64_t begin, int64_t end,
                    const bench_worker *worker) {
  (void)worker;
  const sum_params *p = params;
  const size_t first = (size_t)begin * SUM_BLOCK;
  const size_t count = smaller(p->n, (size_t)end * SUM_BLOCK) - first;
  float *dst = p->dst + first;
  memcpy(dst, p->src + first, count * sizeof *dst);
  for (size_t i = 1; i < p->parts; ++i) {
    p->kernels->add(dst, dst, p->src + i * p->n + first, count);
  }
}

void emit_sum(bench_lane *lane, float *dst, const float *src, size_t parts,
              size_t n) {
  const sum_params params = {.kernels = lane->program.kernels,
                             .dst = dst,
                             .src = src,
                             .parts = parts,
                             .n = n};
  program_add(&lane->program, "sum of parts", run_sum, &params, sizeof params,
              (int64_t)((n + SUM_BLOCK - 1) / SUM_BLOCK));
}
