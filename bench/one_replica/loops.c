// SPDX-License-Identifier: Apache-2.0

#include "one_replica/loops.h"

#include "engine/cpu/isa/vecmath.h"

void loop_adam(float *value, float *mean, float *square, const float *gradient,
               float rate, size_t n) {
  const vf keep1 = vf_set1(0.9f), take1 = vf_set1(0.1f);
  const vf keep2 = vf_set1(0.999f), take2 = vf_set1(0.001f);
  const vf rates = vf_set1(rate), epsilon = vf_set1(1e-8f);
  for (size_t i = 0; i < n; i += VF_LANES) {
    const vf g = vf_load(gradient + i);
    const vf m = vf_fma(keep1, vf_load(mean + i), vf_mul(take1, g));
    const vf v =
        vf_fma(keep2, vf_load(square + i), vf_mul(take2, vf_mul(g, g)));
    const vf step = vf_div(vf_mul(rates, m), vf_add(vf_sqrt(v), epsilon));
    vf_store(mean + i, m);
    vf_store(square + i, v);
    vf_store(value + i, vf_sub(vf_load(value + i), step));
  }
}

// ---- GELU: x * sigmoid(2 u), u = c (x + d x^3) -----------------------------
#define GELU_C 0.7978845608f
#define GELU_D 0.044715f

// sigmoid(2 u); normal at both ends.
LS_INLINE vf gelu_gate(vf x, vf x2) {
  const vf inner = vf_fma(vf_set1(GELU_D), x2, vf_set1(1.0f));
  const vf u = vf_mul(vf_mul(vf_set1(-2.0f * GELU_C), x), inner);
  const vf bounded = vf_max(vf_set1(-80.0f), vf_min(vf_set1(80.0f), u));
  const vf one = vf_set1(1.0f);
  return vf_div(one, vf_add(one, ls_vf_exp(bounded)));
}

void loop_gelu(float *dst, const float *x, size_t n) {
  for (size_t i = 0; i < n; i += VF_LANES) {
    const vf v = vf_load(x + i);
    vf_store(dst + i, vf_mul(v, gelu_gate(v, vf_mul(v, v))));
  }
}

void loop_gelu_grad(float *grad, const float *x, size_t n) {
  const vf one = vf_set1(1.0f), c2 = vf_set1(2.0f * GELU_C);
  for (size_t i = 0; i < n; i += VF_LANES) {
    const vf v = vf_load(x + i), v2 = vf_mul(v, v);
    const vf s = gelu_gate(v, v2);
    const vf slope = vf_mul(c2, vf_fma(vf_set1(3.0f * GELU_D), v2, one));
    const vf inner = vf_fma(vf_mul(v, vf_sub(one, s)), slope, one);
    vf_store(grad + i, vf_mul(vf_load(grad + i), vf_mul(s, inner)));
  }
}

// ---- Layer norm ------------------------------------------------------------
void loop_layer_norm(float *dst, float *copy, float *moments, const float *x,
                     const float *gain, const float *bias, size_t rows,
                     size_t width) {
  const float over = 1.0f / (float)width;
  for (size_t r = 0; r < rows; ++r, x += width, dst += width) {
    vf sum = vf_zero();
    for (size_t j = 0; j < width; j += VF_LANES) {
      sum = vf_add(sum, vf_load(x + j));
    }
    const float mean = vf_sum(sum) * over;
    const vf means = vf_set1(mean);
    vf squares = vf_zero();
    for (size_t j = 0; j < width; j += VF_LANES) {
      const vf d = vf_sub(vf_load(x + j), means);
      squares = vf_fma(d, d, squares);
    }
    const float variance = vf_sum(squares) * over;
    const float scale = 1.0f / sqrtf(variance + 1e-5f);
    const vf scales = vf_set1(scale);
    for (size_t j = 0; j < width; j += VF_LANES) {
      const vf v = vf_load(x + j);
      if (copy != NULL) vf_store(copy + r * width + j, v);
      const vf hat = vf_mul(vf_sub(v, means), scales);
      vf_store(dst + j, vf_fma(hat, vf_load(gain + j), vf_load(bias + j)));
    }
    moments[2 * r] = mean;
    moments[2 * r + 1] = scale;
  }
}

void loop_layer_norm_grad(float *dx, float *sums, const float *dy,
                          const float *x, const float *moments,
                          const float *gain, size_t rows, size_t width) {
  const float over = 1.0f / (float)width;
  for (size_t j = 0; j < 2 * width; ++j)
    sums[j] = 0.0f;
  for (size_t r = 0; r < rows; ++r, x += width, dx += width, dy += width) {
    const vf means = vf_set1(moments[2 * r]);
    const vf scales = vf_set1(moments[2 * r + 1]);
    vf first = vf_zero(), second = vf_zero();
    for (size_t j = 0; j < width; j += VF_LANES) {
      const vf hat = vf_mul(vf_sub(vf_load(x + j), means), scales);
      const vf d = vf_load(dy + j), dhat = vf_mul(d, vf_load(gain + j));
      first = vf_add(first, dhat);
      second = vf_fma(dhat, hat, second);
      vf_store(sums + j, vf_fma(d, hat, vf_load(sums + j)));
      vf_store(sums + width + j, vf_add(d, vf_load(sums + width + j)));
    }
    const vf m1 = vf_set1(vf_sum(first) * over);
    const vf m2 = vf_set1(vf_sum(second) * over);
    for (size_t j = 0; j < width; j += VF_LANES) {
      const vf hat = vf_mul(vf_sub(vf_load(x + j), means), scales);
      const vf dhat = vf_mul(vf_load(dy + j), vf_load(gain + j));
      const vf part = vf_sub(vf_sub(dhat, m1), vf_mul(hat, m2));
      vf_store(dx + j, vf_fma(scales, part, vf_load(dx + j)));
    }
  }
}

// ---- Causal softmax --------------------------------------------------------
// The vector at column j of a row whose first n columns count.
LS_INLINE vf load_until(const float *x, size_t j, size_t n, vf rest) {
  const vf v = vf_load(x + j);
  return j + VF_LANES <= n ? v : vf_first_n(n - j, v, rest);
}

void loop_causal_softmax(float *x, size_t rows, float scale) {
  const vf zero = vf_zero(), lowest = vf_set1(-INFINITY);
  const vf scales = vf_set1(scale);
  for (size_t i = 0; i < rows; ++i, x += rows) {
    const size_t n = i + 1;
    vf top = lowest;
    for (size_t j = 0; j < n; j += VF_LANES) {
      top = vf_max(top, load_until(x, j, n, lowest));
    }
    const vf shift = vf_set1(vf_max_lane(top));
    vf sum = zero;
    for (size_t j = 0; j < n; j += VF_LANES) {
      const vf v = vf_sub(load_until(x, j, n, lowest), shift);
      const vf e = ls_vf_exp(vf_mul(v, scales));
      vf_store(x + j, e);
      sum = vf_add(sum, load_until(x, j, n, zero));
    }
    const vf factor = vf_set1(1.0f / vf_sum(sum));
    for (size_t j = 0; j < rows; j += VF_LANES) {
      const vf e = j < n ? load_until(x, j, n, zero) : zero;
      vf_store(x + j, vf_mul(e, factor));
    }
  }
}

void loop_causal_softmax_grad(float *grad, const float *softmax, size_t rows,
                              float scale) {
  const vf scales = vf_set1(scale);
  for (size_t i = 0; i < rows; ++i, grad += rows, softmax += rows) {
    vf sum = vf_zero();
    for (size_t j = 0; j <= i; j += VF_LANES) {
      sum = vf_fma(vf_load(grad + j), vf_load(softmax + j), sum);
    }
    const vf mean = vf_set1(vf_sum(sum));
    for (size_t j = 0; j < rows; j += VF_LANES) {
      const vf p = vf_mul(vf_load(softmax + j), scales);
      vf_store(grad + j, vf_mul(vf_sub(vf_load(grad + j), mean), p));
    }
  }
}

// ---- Pooling ---------------------------------------------------------------
void loop_pool(float *dst, const float *x, size_t planes, size_t size) {
  const size_t row = size * VF_LANES;
  for (size_t i = 0; i < planes * (size / 2); ++i, x += 2 * row) {
    for (size_t j = 0; j < row; j += 2 * VF_LANES, dst += VF_LANES) {
      const float *at = x + j;
      const vf top = vf_max(vf_load(at), vf_load(at + VF_LANES));
      at += row;
      const vf low = vf_max(vf_load(at), vf_load(at + VF_LANES));
      vf_store(dst, vf_max(top, low));
    }
  }
}

// Stores what this input takes of `left` and returns the rest.
LS_INLINE vf pass_back(float *dx, const float *x, vf y, vf left) {
  const vm taken = vf_eq(vf_load(x), y);
  vf_store(dx, vf_select(taken, left, vf_zero()));
  return vf_select(taken, vf_zero(), left);
}

void loop_pool_relu_grad(float *dx, const float *dy, const float *x,
                         const float *y, size_t planes, size_t size) {
  const size_t row = size * VF_LANES;
  for (size_t i = 0; i < planes * (size / 2); ++i) {
    for (size_t j = 0; j < row; j += 2 * VF_LANES) {
      const vf top = vf_load(y);
      vf left = vf_select(vf_lt(vf_zero(), top), vf_load(dy), vf_zero());
      left = pass_back(dx + j, x + j, top, left);
      left = pass_back(dx + j + VF_LANES, x + j + VF_LANES, top, left);
      const size_t k = j + row;
      left = pass_back(dx + k, x + k, top, left);
      (void)pass_back(dx + k + VF_LANES, x + k + VF_LANES, top, left);
      y += VF_LANES;
      dy += VF_LANES;
    }
    x += 2 * row;
    dx += 2 * row;
  }
}
