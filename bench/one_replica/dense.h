// SPDX-License-Identifier: Apache-2.0
//
// Instructions for products and what goes with them.

#ifndef BENCH_ONE_REPLICA_DENSE_H_
#define BENCH_ONE_REPLICA_DENSE_H_

#include "one_replica/model.h"

// How outputs are cut into blocks: bands of 32 rows or of 32 columns.
typedef enum cut { CUT_ROWS, CUT_COLUMNS } cut;

typedef struct matrix {
  float *data;
  size_t rows, columns;
} matrix;

matrix lane_matrix(bench_lane *lane, size_t rows, size_t columns);

// c = op(a) op(b), where `turned_` says that the operand's transpose is meant.
typedef struct product_options {
  const float *bias;  // Added to each row of c. NULL: none.
  bool turned_a, turned_b;
  bool relu;
  bool accumulate;
} product_options;

void emit_product(bench_lane *lane, const char *name, matrix a, matrix b,
                  matrix c, const product_options *options);

// A dense layer: the parameters of y = relu?(x w + b).
typedef struct bench_dense {
  size_t in, out;
  parameter w, b;
  bool has_bias, relu;
} bench_dense;

bench_dense lane_dense(bench_lane *lane, size_t in, size_t out, bool has_bias,
                       bool relu);
void emit_dense(bench_lane *lane, const bench_dense *dense, matrix x, matrix y);
// The gradients of w and b.
void emit_dense_weights(bench_lane *lane, const bench_dense *dense, matrix x,
                        matrix dy);
// dx = dy w^T, of the relu's output where x is one's.
void emit_dense_data(bench_lane *lane, const bench_dense *dense, matrix dy,
                     matrix dx, const matrix *relu_output);

// Cross-entropy of each row against its label: the lane's losses, and dlogits
// = the gradient of the mean over the whole batch.
void emit_loss(bench_lane *lane, matrix logits, const int32_t *labels,
               matrix dlogits);

// dst = sum of `parts` arrays of n floats each, one after the other, in order.
void emit_sum(bench_lane *lane, float *dst, const float *src, size_t parts,
              size_t n);

#endif  // BENCH_ONE_REPLICA_DENSE_H_
