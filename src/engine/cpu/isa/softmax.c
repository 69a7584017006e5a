// SPDX-License-Identifier: Apache-2.0
//
// Softmax over rows, and the cross-entropy built on it.
//
// A row is read three times at most, from the innermost cache. Sums run in 16
// lanes as ls_cpu_kernels.sum states; the maximum needs no order.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vecmath.h"

// Rows whose logarithms are computed together.
#define GROUP VF_LANES

// ---- The passes over a row -------------------------------------------------
LS_INLINE float row_max(const float *x, size_t n) {
  vf top = vf_set1(-INFINITY);
  size_t j = 0;
  for (; j + VF_LANES <= n; j += VF_LANES) {
    top = vf_max(top, vf_load(x + j));
  }
  if (j < n) {
    const vf tail = vf_load_n(x + j, n - j);
    top = vf_max(top, vf_first_n(n - j, tail, vf_set1(-INFINITY)));
  }
  return vf_max_lane(top);
}

// Returns the sum of e^(x - max) and, unless `dst` is NULL, stores the terms.
LS_INLINE float exp_row(float *dst, const float *x, size_t n, float max) {
  const vf shift = vf_set1(max);
  vf sums = vf_zero();
  size_t j = 0;
  for (; j + VF_LANES <= n; j += VF_LANES) {
    const vf e = ls_vf_exp(vf_sub(vf_load(x + j), shift));
    if (dst != NULL) vf_store(dst + j, e);
    sums = vf_add(sums, e);
  }
  if (j < n) {
    const vf e = ls_vf_exp(vf_sub(vf_load_n(x + j, n - j), shift));
    if (dst != NULL) vf_store_n(dst + j, n - j, e);
    sums = vf_add(sums, vf_first_n(n - j, e, vf_zero()));
  }
  return vf_sum(sums);
}

LS_INLINE void scale_row(float *x, size_t n, float factor, float second) {
  const vf factors = vf_set1(factor), seconds = vf_set1(second);
  size_t j = 0;
  for (; j + VF_LANES <= n; j += VF_LANES) {
    vf_store(x + j, vf_mul(vf_mul(vf_load(x + j), factors), seconds));
  }
  if (j < n) {
    const vf tail = vf_mul(vf_load_n(x + j, n - j), factors);
    vf_store_n(x + j, n - j, vf_mul(tail, seconds));
  }
}

// ---- Softmax ---------------------------------------------------------------
// Computes the softmax of a row of at most VF_LANES columns, followed by zeros:
// the same operations, without leaving the registers.
LS_INLINE vf short_softmax(const float *x, size_t n) {
  const vf v = vf_load_n(x, n);
  const float max = vf_max_lane(vf_first_n(n, v, vf_set1(-INFINITY)));
  vf e = ls_vf_exp(vf_sub(v, vf_set1(max)));
  e = vf_first_n(n, e, vf_zero());
  return vf_mul(e, vf_set1(1.0f / vf_sum(e)));
}

void LS_ISA_NAME(ls_cpu_softmax)(float *dst, const float *src, size_t rows,
                                 size_t columns) {
  if (columns <= VF_LANES) {
    for (size_t i = 0; i < rows; ++i)
      vf_store_n(dst + i * columns, columns,
                 short_softmax(src + i * columns, columns));
    return;
  }
  // Computes a row's maximum before the previous row is finished: neither waits
  // for the other, and the elements are loaded early.
  float next = rows > 0 ? row_max(src, columns) : 0;
  for (size_t i = 0; i < rows; ++i) {
    const float *x = src + i * columns;
    float *y = dst + i * columns;
    const float max = next;
    if (i + 1 < rows) next = row_max(x + columns, columns);
    const float sum = exp_row(y, x, columns, max);
    scale_row(y, columns, 1.0f / sum, 1.0f);
  }
}

// Fills max[] and logs[] (of the sums of e^(x - max)) for up to GROUP rows.
LS_INLINE void reduce_rows(float *max, float *logs, const float *src,
                           size_t rows, size_t columns) {
  float sums[GROUP] = {0};
  for (size_t i = 0; i < rows; ++i) {
    const float *x = src + i * columns;
    max[i] = row_max(x, columns);
    sums[i] = exp_row(NULL, x, columns, max[i]);
  }
  vf_store(logs, ls_vf_log(vf_load(sums)));
}

void LS_ISA_NAME(ls_cpu_log_softmax)(float *dst, const float *src, size_t rows,
                                     size_t columns) {
  for (size_t first = 0; first < rows; first += GROUP) {
    const size_t count = rows - first < GROUP ? rows - first : GROUP;
    float max[GROUP], logs[GROUP];
    reduce_rows(max, logs, src + first * columns, count, columns);
    for (size_t i = 0; i < count; ++i) {
      const float *x = src + (first + i) * columns;
      float *y = dst + (first + i) * columns;
      const vf shift = vf_set1(max[i]), log = vf_set1(logs[i]);
      size_t j = 0;
      for (; j + VF_LANES <= columns; j += VF_LANES) {
        vf_store(y + j, vf_sub(vf_sub(vf_load(x + j), shift), log));
      }
      const size_t left = columns - j;
      if (left > 0) {
        const vf tail = vf_sub(vf_load_n(x + j, left), shift);
        vf_store_n(y + j, left, vf_sub(tail, log));
      }
    }
  }
}

LS_INLINE bool label_is_valid(int32_t label, size_t columns) {
  return label >= 0 && (size_t)label < columns;
}

void LS_ISA_NAME(ls_cpu_label_loss)(float *loss, const float *logits,
                                    const int32_t *labels, size_t rows,
                                    size_t columns) {
  for (size_t first = 0; first < rows; first += GROUP) {
    const size_t count = rows - first < GROUP ? rows - first : GROUP;
    float max[GROUP], logs[GROUP];
    reduce_rows(max, logs, logits + first * columns, count, columns);
    for (size_t i = 0; i < count; ++i) {
      const int32_t label = labels[first + i];
      const float *x = logits + (first + i) * columns;
      loss[first + i] =
          label_is_valid(label, columns) ? logs[i] - (x[label] - max[i]) : NAN;
    }
  }
}

// Handles a row of at most VF_LANES columns.
LS_INLINE void short_grad_row(float *y, const float *x, size_t n, int32_t label,
                              float scale) {
  static const float lanes[VF_LANES] = {0, 1, 2,  3,  4,  5,  6,  7,
                                        8, 9, 10, 11, 12, 13, 14, 15};
  const vm is_label = vf_eq(vf_load(lanes), vf_set1((float)label));
  const vf p = short_softmax(x, n);
  const vf own = vf_sub(p, vf_set1(1.0f));
  vf_store_n(y, n, vf_mul(vf_select(is_label, own, p), vf_set1(scale)));
}

LS_INLINE void long_grad_row(float *y, const float *x, size_t n, int32_t label,
                             float scale) {
  const float sum = exp_row(y, x, n, row_max(x, n));
  const float factor = 1.0f / sum;
  const float own = y[label] * factor - 1.0f;
  scale_row(y, n, factor, scale);
  y[label] = own * scale;
}

void LS_ISA_NAME(ls_cpu_label_loss_grad)(float *grad, const float *logits,
                                         const int32_t *labels,
                                         const float *scale,
                                         size_t scale_stride, size_t rows,
                                         size_t columns) {
  for (size_t i = 0; i < rows; ++i) {
    const float *x = logits + i * columns;
    float *y = grad + i * columns;
    const float row_scale = scale[i * scale_stride];
    if (!label_is_valid(labels[i], columns)) {
      for (size_t j = 0; j < columns; ++j)
        y[j] = NAN;
    } else if (columns <= VF_LANES) {
      short_grad_row(y, x, columns, labels[i], row_scale);
    } else {
      long_grad_row(y, x, columns, labels[i], row_scale);
    }
  }
}
