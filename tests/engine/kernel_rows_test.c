// SPDX-License-Identifier: Apache-2.0
//
// Softmax of rows and losses by label, of every table: against doubles, and the
// tables against each other.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/floats.h"
#include "support/kernel_tables.h"

#define MAX_COLUMNS 100

static const size_t row_shapes[][2] = {
    {0, 3}, {1, 1}, {5, 10}, {17, 10}, {33, 16}, {3, 37}, {2, MAX_COLUMNS},
};

static double log_sum(const float *x, size_t n, double *out_max) {
  double max = -INFINITY, sum = 0.0;
  for (size_t j = 0; j < n; ++j)
    max = fmax(max, (double)x[j]);
  for (size_t j = 0; j < n; ++j)
    sum += exp((double)x[j] - max);
  *out_max = max;
  return log(sum);
}

static float *new_logits(size_t n) {
  float *x = floats_create(n);
  for (size_t i = 0; i < n; ++i)
    x[i] = 8.0f * x[i] + 20.0f;
  return x;
}

TEST(softmax_and_its_log_are_close_to_doubles) {
  for (size_t s = 0; s < LS_COUNT_OF(row_shapes); ++s) {
    const size_t rows = row_shapes[s][0], columns = row_shapes[s][1];
    const size_t n = rows * columns;
    HEAP(float, x) = new_logits(n);
    HEAP(float, base) = floats_allocate(n * sizeof *base);
    for (size_t i = 0; i < kernel_tables_here.count; ++i) {
      HEAP(float, y) = floats_copy(x, n);
      HEAP(float, z) = floats_allocate(n * sizeof *z);
      kernel_tables_here.at[i]->softmax(y, y, rows, columns);  // In place.
      kernel_tables_here.at[i]->log_softmax(z, x, rows, columns);
      for (size_t r = 0; r < rows; ++r) {
        double want[MAX_COLUMNS], want_log[MAX_COLUMNS], max;
        const double log_of_sum = log_sum(x + r * columns, columns, &max);
        for (size_t j = 0; j < columns; ++j) {
          want_log[j] = (double)x[r * columns + j] - max - log_of_sum;
          want[j] = exp(want_log[j]);
        }
        expect_near_floats("softmax", kernel_tables_here.at[i]->name,
                           y + r * columns, want, 1e-6, columns);
        expect_near_floats("log_softmax", kernel_tables_here.at[i]->name,
                           z + r * columns, want_log, 4e-6, columns);
      }
      if (i == 0) memcpy(base, y, n * sizeof *base);
      expect_same_floats("softmax", kernel_tables_here.at[i]->name, y, base, n);
      // In place gives what apart gives.
      kernel_tables_here.at[i]->log_softmax(y, x, rows, columns);
      expect_same_floats("log_softmax", kernel_tables_here.at[i]->name, y, z,
                         n);
    }
  }
}

static int32_t *new_labels(size_t rows, size_t columns) {
  int32_t *labels = floats_allocate(rows * sizeof *labels);
  for (size_t i = 0; i < rows; ++i)
    labels[i] = (int32_t)floats_random_below(columns);
  return labels;
}

TEST(label_loss_is_close_to_doubles_and_equal_in_tables) {
  for (size_t s = 0; s < LS_COUNT_OF(row_shapes); ++s) {
    const size_t rows = row_shapes[s][0], columns = row_shapes[s][1];
    HEAP(float, x) = new_logits(rows * columns);
    HEAP(float, first) = floats_create(rows);
    HEAP(int32_t, labels) = new_labels(rows, columns);
    for (size_t i = 0; i < kernel_tables_here.count; ++i) {
      HEAP(float, loss) = floats_create(rows);
      kernel_tables_here.at[i]->label_loss(loss, x, labels, rows, columns);
      for (size_t r = 0; r < rows; ++r) {
        double max;
        const double log_of_sum = log_sum(x + r * columns, columns, &max);
        const double own = (double)x[r * columns + (size_t)labels[r]];
        const double want = log_of_sum - (own - max);
        expect_near_floats("loss", kernel_tables_here.at[i]->name, &loss[r],
                           &want, 4e-6, 1);
      }
      if (i == 0) memcpy(first, loss, rows * sizeof *first);
      expect_same_floats("loss", kernel_tables_here.at[i]->name, loss, first,
                         rows);
    }
  }
}

TEST(label_loss_grad_is_scaled_softmax_minus_onehot) {
  for (size_t s = 0; s < LS_COUNT_OF(row_shapes); ++s) {
    const size_t rows = row_shapes[s][0], columns = row_shapes[s][1];
    const size_t n = rows * columns;
    HEAP(float, x) = new_logits(n);
    HEAP(float, scale) = floats_create(rows + 1);
    HEAP(float, softmax) = floats_allocate(n * sizeof *softmax);
    HEAP(int32_t, labels) = new_labels(rows, columns);
    for (size_t i = 0; i < kernel_tables_here.count; ++i) {
      for (size_t stride = 0; stride < 2; ++stride) {
        kernel_tables_here.at[i]->softmax(softmax, x, rows, columns);
        for (size_t r = 0; r < rows; ++r) {
          for (size_t j = 0; j < columns; ++j) {
            float *y = &softmax[r * columns + j];
            if (j == (size_t)labels[r]) *y -= 1.0f;
            *y *= scale[r * stride];
          }
        }
        HEAP(float, grad) = floats_copy(x, n);
        kernel_tables_here.at[i]->label_loss_grad(grad, grad, labels, scale,
                                                  stride, rows,
                                                  columns);  // In place.
        expect_same_floats("grad", kernel_tables_here.at[i]->name, grad,
                           softmax, n);
      }
    }
  }
}

TEST(label_outside_the_classes_gives_nan_in_its_row_alone) {
  const float x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, scale = 1.0f;
  const int32_t labels[3] = {-1, 1, 3};
  for (size_t i = 0; i < kernel_tables_here.count; ++i) {
    float loss[3], grad[9];
    kernel_tables_here.at[i]->label_loss(loss, x, labels, 3, 3);
    kernel_tables_here.at[i]->label_loss_grad(grad, x, labels, &scale, 0, 3, 3);
    for (size_t r = 0; r < 3; ++r) {
      assert_int_equal(isnan(loss[r]) != 0, r != 1);
      for (size_t j = 0; j < 3; ++j) {
        assert_int_equal(isnan(grad[3 * r + j]) != 0, r != 1);
      }
    }
  }
}

TEST_FILE(.set_up = kernel_tables_set_up)
