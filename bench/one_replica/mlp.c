// SPDX-License-Identifier: Apache-2.0
//
// 784 - dense 512 relu - dense 512 relu - dense 10, batch 256.

#include "one_replica/dense.h"

static void build(bench_lane *lane) {
  const size_t n = lane->examples;
  const matrix x = {(float *)lane_inputs(lane, 784), n, 784};
  const int32_t *labels = lane_labels(lane, 1, 10);
  const bench_dense first = lane_dense(lane, 784, 512, true, true);
  const bench_dense second = lane_dense(lane, 512, 512, true, true);
  const bench_dense third = lane_dense(lane, 512, 10, true, false);
  const matrix h1 = lane_matrix(lane, n, 512), h2 = lane_matrix(lane, n, 512);
  const matrix dh1 = lane_matrix(lane, n, 512);
  const matrix dh2 = lane_matrix(lane, n, 512);
  const matrix logits = lane_matrix(lane, n, 10);
  const matrix dlogits = lane_matrix(lane, n, 10);

  emit_dense(lane, &first, x, h1);
  emit_dense(lane, &second, h1, h2);
  emit_dense(lane, &third, h2, logits);
  emit_loss(lane, logits, labels, dlogits);
  emit_dense_weights(lane, &third, h2, dlogits);
  emit_dense_data(lane, &third, dlogits, dh2, &h2);
  emit_dense_weights(lane, &second, h1, dh2);
  emit_dense_data(lane, &second, dh2, dh1, &h1);
  emit_dense_weights(lane, &first, x, dh1);
}

const bench_recipe mlp_recipe = {
    .name = "mlp",
    .examples = 256,
    .rows = 1,
    .parameters = 700000,
    .frame = (size_t)64 << 20,
    .gflops = 0.8216,
    .build = build,
};
