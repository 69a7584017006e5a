// SPDX-License-Identifier: Apache-2.0
//
// 28x28x1 - conv 3x3x32 relu - conv 3x3x64 relu - max pool 2x2 - dense 128
// relu - dense 10, batch 128. The rows of the first dense layer's weights
// stand in the order of the pooled activations (nChw16c).

#include "one_replica/convolution.h"
#include "one_replica/dense.h"
#include "one_replica/loops.h"

enum { SIZE = 28, CHANNELS = 64, POOLED = 14 * 14 * CHANNELS };

typedef struct {
  float *y, *dy, *x, *dx;
  size_t images;  // A block.
} pool_params;

#define BEFORE ((size_t)(SIZE * SIZE * CHANNELS))

static void run_pool(const void *params, int64_t begin, int64_t end,
                     const bench_worker *worker) {
  (void)worker;
  const pool_params *p = params;
  const size_t first = (size_t)begin * p->images;
  const size_t images = (size_t)end * p->images - first;
  loop_pool(p->y + first * POOLED, p->x + first * BEFORE,
            images * CHANNELS / 16, SIZE);
}

static void run_pool_grad(const void *params, int64_t begin, int64_t end,
                          const bench_worker *worker) {
  (void)worker;
  const pool_params *p = params;
  const size_t first = (size_t)begin * p->images;
  const size_t images = (size_t)end * p->images - first;
  loop_pool_relu_grad(p->dx + first * BEFORE, p->dy + first * POOLED,
                      p->x + first * BEFORE, p->y + first * POOLED,
                      images * CHANNELS / 16, SIZE);
}

// What oneDNN's own threads get is cut finely all the same.
static void emit_pool(bench_lane *lane, const char *name, instruction_fn *run,
                      pool_params params) {
  params.images = lane->program.vendor ? 1 : convolution_images(lane);
  program_add(&lane->program, name, run, &params, sizeof params,
              (int64_t)(lane->examples / params.images))
      ->chained = true;
}

static void build(bench_lane *lane, bool winograd) {
  const size_t n = lane->examples;
  const float *x = lane_inputs(lane, SIZE * SIZE);
  const int32_t *labels = lane_labels(lane, 1, 10);
  const convolution first = lane_convolution(
      lane, &(convolution_shape){.size = SIZE, .in = 1, .out = 32});
  const convolution second =
      lane_convolution(lane, &(convolution_shape){.size = SIZE,
                                                  .in = 32,
                                                  .out = CHANNELS,
                                                  .winograd = winograd,
                                                  .data = true});
  const bench_dense third = lane_dense(lane, POOLED, 128, true, true);
  const bench_dense fourth = lane_dense(lane, 128, 10, true, false);
  float *h1 = lane_floats(lane, n * SIZE * SIZE * 32);
  float *h2 = lane_floats(lane, n * BEFORE);
  float *dh1 = lane_floats(lane, n * SIZE * SIZE * 32);
  float *dh2 = lane_floats(lane, n * BEFORE);
  const matrix pooled = lane_matrix(lane, n, POOLED);
  const matrix dpooled = lane_matrix(lane, n, POOLED);
  const matrix h3 = lane_matrix(lane, n, 128), dh3 = lane_matrix(lane, n, 128);
  const matrix logits = lane_matrix(lane, n, 10);
  const matrix dlogits = lane_matrix(lane, n, 10);
  const pool_params pool = {
      .y = pooled.data, .dy = dpooled.data, .x = h2, .dx = dh2};

  emit_convolution(lane, &first, x, h1);
  emit_convolution(lane, &second, h1, h2);
  emit_pool(lane, "pool", run_pool, pool);
  emit_dense(lane, &third, pooled, h3);
  emit_dense(lane, &fourth, h3, logits);
  emit_loss(lane, logits, labels, dlogits);
  emit_dense_weights(lane, &fourth, h3, dlogits);
  emit_dense_data(lane, &fourth, dlogits, dh3, &h3);
  emit_dense_weights(lane, &third, pooled, dh3);
  emit_dense_data(lane, &third, dh3, dpooled, NULL);
  emit_pool(lane, "pool grad", run_pool_grad, pool);
  emit_convolution_data(lane, &second, dh2, h1, dh1);
  emit_convolution_weights(lane, &second, h1, dh2);
  emit_convolution_weights(lane, &first, x, dh1);
  emit_convolution_sums(lane, &second);
  emit_convolution_sums(lane, &first);
}

static void build_direct(bench_lane *lane) { build(lane, false); }
static void build_winograd(bench_lane *lane) { build(lane, true); }

#define CNN(title, builder)                                                    \
  {                                                                            \
    .name = title, .examples = 128, .rows = 1, .parameters = 1700000,          \
    .frame = (size_t)256 << 20, .gflops = 12.4474, .adam = true,               \
    .build = builder,                                                          \
  }

const bench_recipe cnn_direct_recipe = CNN("cnn, direct", build_direct);
const bench_recipe cnn_winograd_recipe = CNN("cnn, Winograd", build_winograd);
