// SPDX-License-Identifier: Apache-2.0
//
// The passes of attention over rows of scores, four at a time, so that no row
// waits for its own maximum or sums. They also write the rest of a row's last
// vector, past its columns.

#ifndef LS_ENGINE_CPU_ISA_ATTENTION_ROWS_H_
#define LS_ENGINE_CPU_ISA_ATTENTION_ROWS_H_

#include "engine/cpu/isa/vecmath.h"

#define QUAD ((size_t)4)

// Four rows. Row i has `columns` + i * `step` columns; all end in the same
// vector.
typedef struct {
  float *data;
  size_t pitch, columns, step;
} quad;

LS_INLINE float *quad_at(const quad *q, size_t row, size_t column) {
  return q->data + row * q->pitch + column;
}

// Replaces the lanes of row i's vector at column j that are not columns by
// `rest`.
LS_INLINE vf quad_end(const quad *q, size_t i, size_t j, vf v, vf rest) {
  return vf_first_n(q->columns + i * q->step - j, v, rest);
}

LS_INLINE void quad_max(const quad *q, float max[QUAD]) {
  const vf least = vf_set1(-INFINITY);
  vf top[QUAD] = {least, least, least, least};
  size_t j = 0;
  for (; j + VF_LANES <= q->columns; j += VF_LANES) {
    LS_UNROLL
    for (size_t i = 0; i < QUAD; ++i)
      top[i] = vf_max(top[i], vf_load(quad_at(q, i, j)));
  }
  LS_UNROLL
  for (size_t i = 0; i < QUAD; ++i) {
    if (j < q->columns)
      top[i] =
          vf_max(top[i], quad_end(q, i, j, vf_load(quad_at(q, i, j)), least));
    max[i] = vf_max_lane(top[i]);
  }
}

// Replaces x by e^(x - max).
LS_INLINE void quad_exp(const quad *q, const float max[QUAD], float sum[QUAD]) {
  vf sums[QUAD] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
  for (size_t j = 0; j < q->columns; j += VF_LANES) {
    const bool ends = j + VF_LANES > q->columns;
    LS_UNROLL
    for (size_t i = 0; i < QUAD; ++i) {
      float *x = quad_at(q, i, j);
      vf e = ls_vf_exp(vf_sub(vf_load(x), vf_set1(max[i])));
      vf_store(x, e);
      if (ends) e = quad_end(q, i, j, e, vf_zero());
      sums[i] = vf_add(sums[i], e);
    }
  }
  LS_UNROLL
  for (size_t i = 0; i < QUAD; ++i)
    sum[i] = vf_sum(sums[i]);
}

LS_INLINE void quad_scale(const quad *q, const float factor[QUAD]) {
  for (size_t j = 0; j < q->columns; j += VF_LANES) {
    LS_UNROLL
    for (size_t i = 0; i < QUAD; ++i) {
      float *x = quad_at(q, i, j);
      vf_store(x, vf_mul(vf_load(x), vf_set1(factor[i])));
    }
  }
}

LS_INLINE void quad_softmax(const quad *q) {
  float max[QUAD], sum[QUAD];
  quad_max(q, max);
  quad_exp(q, max, sum);
  LS_UNROLL
  for (size_t i = 0; i < QUAD; ++i)
    sum[i] = 1.0f / sum[i];
  quad_scale(q, sum);
}

// Replaces ds by factor p (ds - sum(p ds)).
LS_INLINE void quad_differentiate(const quad *ds, const quad *p, float factor) {
  vf sums[QUAD] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
  for (size_t j = 0; j < p->columns; j += VF_LANES) {
    const bool ends = j + VF_LANES > p->columns;
    LS_UNROLL
    for (size_t i = 0; i < QUAD; ++i) {
      vf a = vf_load(quad_at(p, i, j)), b = vf_load(quad_at(ds, i, j));
      if (ends) {
        a = quad_end(p, i, j, a, vf_zero());
        b = quad_end(p, i, j, b, vf_zero());
      }
      sums[i] = vf_fma(a, b, sums[i]);
    }
  }
  LS_UNROLL
  for (size_t i = 0; i < QUAD; ++i)
    sums[i] = vf_set1(vf_sum(sums[i]));
  const vf factors = vf_set1(factor);
  for (size_t j = 0; j < p->columns; j += VF_LANES) {
    LS_UNROLL
    for (size_t i = 0; i < QUAD; ++i) {
      float *x = quad_at(ds, i, j);
      const vf weight = vf_mul(vf_load(quad_at(p, i, j)), factors);
      vf_store(x, vf_mul(weight, vf_sub(vf_load(x), sums[i])));
    }
  }
}

#endif  // LS_ENGINE_CPU_ISA_ATTENTION_ROWS_H_
