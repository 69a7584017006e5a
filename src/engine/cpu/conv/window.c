// SPDX-License-Identifier: Apache-2.0
//
// Sums, means and maxima of windows, and the gradient of sums and means.
//
// The elements of a window are taken one after another, in row order, from +0
// or the least number; a mean is the sum times 1 / count. The gradient adds,
// for each element, the windows that have it in row order. Integers wrap
// around; 16-bit floats are widened and rounded once at the end. Sums of floats
// are those of depthwise.c; here are the others, which handle all channels of a
// position together, a row.
#include "engine/cpu/conv/plan.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- Rows ------------------------------------------------------------------
typedef struct window_rows {
  // Sets the initial values of a window.
  void (*begin)(void *acc, int64_t count);
  void (*combine)(void *acc, const void *x, int64_t count);
  // Combines a whole window of four.
  void (*four)(void *acc, const void *const *x, int64_t count);
} window_rows;

// A NaN is larger than any number; among equals the first is kept.
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define SUM(T, W, a, b) ((T)((W)(a) + (W)(b)))
#define MAX(T, W, a, b) LARGER(a, b)

#define ROWS(name, combined, least, D, T, W)                                   \
  static void name##_begin_##D(void *out, int64_t count) {                     \
    T *acc = out;                                                              \
    for (int64_t i = 0; i < count; ++i)                                        \
      acc[i] = least;                                                          \
  }                                                                            \
  static void name##_combine_##D(void *out, const void *in, int64_t count) {   \
    T *restrict acc = out;                                                     \
    const T *restrict x = in;                                                  \
    for (int64_t i = 0; i < count; ++i)                                        \
      acc[i] = combined(T, W, acc[i], x[i]);                                   \
  }                                                                            \
  static void name##_four_##D(void *out, const void *const *in,                \
                              int64_t count) {                                 \
    T *restrict acc = out;                                                     \
    const T *restrict a = in[0], *restrict b = in[1];                          \
    const T *restrict c = in[2], *restrict d = in[3];                          \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const T first = least;                                                   \
      const T p = combined(T, W, first, a[i]), q = combined(T, W, p, b[i]);    \
      const T r = combined(T, W, q, c[i]);                                     \
      acc[i] = combined(T, W, r, d[i]);                                        \
    }                                                                          \
  }
#define SUM_ROWS(name, D, T, W) ROWS(name, SUM, 0, D, T, W)
#define FLOAT_MAX_ROWS(name, D, T, W)                                          \
  ROWS(name, MAX, -(T)__builtin_inf(), D, T, W)
// The least number of a signed type has only the sign bit.
#define SIGNED_MAX_ROWS(name, D, T, W)                                         \
  ROWS(name, MAX, (T)(UINT64_C(1) << (8 * sizeof(T) - 1)), D, T, W)
#define UNSIGNED_MAX_ROWS(name, D, T, W) ROWS(name, MAX, 0, D, T, W)
LS_EACH_INTEGER(SUM_ROWS, sum)
LS_EACH_FLOAT(FLOAT_MAX_ROWS, max)
LS_EACH_SIGNED(SIGNED_MAX_ROWS, max)
LS_EACH_UNSIGNED(UNSIGNED_MAX_ROWS, max)

#define ENTRY(name, D, T, W)                                                   \
  [LS_DTYPE_##D] = {name##_begin_##D, name##_combine_##D, name##_four_##D},
static const window_rows sums[LS_DTYPE_COUNT] = {LS_EACH_INTEGER(ENTRY, sum)};
static const window_rows maxima[LS_DTYPE_COUNT] = {
    LS_EACH_FLOAT(ENTRY, max) LS_EACH_INTEGER(ENTRY, max)};

// ---- Parameters ------------------------------------------------------------
typedef struct window_params {
  ls_conv conv;
  ls_dtype half;  // f16 or bf16 (computed in f32), or NONE.
  size_t size;    // Bytes of an element.
  window_rows rows;
  int64_t channels, per_block;
} window_params;

typedef struct window_work {
  const window_params *self;
  const ls_kernel_call *call;
  void *acc;
  float *buffer;
} window_work;

// Combines the row of position `index`; a 16-bit one is widened first.
static void take_row(const window_work *w, int64_t index) {
  const window_params *self = w->self;
  const void *from = (const char *)w->call->in[0] +
                     (size_t)(index * self->channels) * self->size;
  if (self->half != LS_DTYPE_NONE) {
    ls_widen(self->half, w->buffer, from, self->channels);
    from = w->buffer;
  }
  self->rows.combine(w->acc, from, self->channels);
}

// Combines all positions of window `at`, in row order.
static void take_all(const window_work *w, int64_t image, const int64_t *at) {
  const ls_conv_dim *dim = w->self->conv.dim;
  int64_t place[LS_WINDOW_DIMS];
  for (int64_t i = 0; i < dim[0].taps; ++i) {
    if (!ls_conv_meets(&dim[0], at[0], i, &place[0])) continue;
    for (int64_t j = 0; j < dim[1].taps; ++j) {
      if (!ls_conv_meets(&dim[1], at[1], j, &place[1])) continue;
      const int64_t row =
          ((image * dim[0].in + place[0]) * dim[1].in + place[1]) * dim[2].in;
      for (int64_t k = 0; k < dim[2].taps; ++k)
        if (ls_conv_meets(&dim[2], at[2], k, &place[2]))
          take_row(w, row + place[2]);
    }
  }
}

// Combines the four rows at once if the window is 2 by 2 and inside; returns
// false otherwise.
static bool take_four(const window_work *w, int64_t image, const int64_t *at) {
  const ls_conv_dim *dim = w->self->conv.dim;
  if (dim[0].taps != 1 || dim[1].taps != 2 || dim[2].taps != 2 ||
      w->self->half != LS_DTYPE_NONE)
    return false;
  const int64_t z = at[0] * dim[0].stride + dim[0].base;
  const int64_t y = at[1] * dim[1].stride + dim[1].base;
  const int64_t x = at[2] * dim[2].stride + dim[2].base;
  if (z < 0 || z >= dim[0].in || y < 0 || y + dim[1].step >= dim[1].in ||
      x < 0 || x + dim[2].step >= dim[2].in)
    return false;
  const size_t row = (size_t)w->self->channels * w->self->size;
  const char *from =
      (const char *)w->call->in[0] +
      (size_t)(((image * dim[0].in + z) * dim[1].in + y) * dim[2].in + x) * row;
  const size_t right = (size_t)dim[2].step * row;
  const size_t down = (size_t)(dim[1].step * dim[2].in) * row;
  w->self->rows.four(w->acc,
                     (const void *const[]){from, from + right, from + down,
                                           from + down + right},
                     w->self->channels);
  return true;
}

static void window_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const window_params *self = call->params;
  const ls_conv_dim *dim = self->conv.dim;
  const bool half = self->half != LS_DTYPE_NONE;
  const int64_t num_outputs = self->conv.images * ls_conv_outputs(&self->conv);
  const int64_t end = ls_min_i64(end_block * self->per_block, num_outputs);
  window_work w = {.self = self, .call = call, .buffer = call->scratch};
  for (int64_t o = begin_block * self->per_block; o < end; ++o) {
    char *out =
        (char *)call->out[0] + (size_t)(o * self->channels) * self->size;
    const int64_t line = o / dim[2].out, plane = line / dim[1].out;
    const int64_t image = plane / dim[0].out;
    const int64_t at[] = {plane % dim[0].out, line % dim[1].out,
                          o % dim[2].out};
    w.acc = half ? (void *)(w.buffer + self->channels) : out;
    if (!take_four(&w, image, at)) {
      self->rows.begin(w.acc, self->channels);
      take_all(&w, image, at);
    }
    if (half)
      ls_narrow(self->half, (uint16_t *)(void *)out, w.acc, self->channels);
  }
}

// ---- Plans -----------------------------------------------------------------
ls_status kernel_reduce_window(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[0].dtype;
  const char *reduce =
      ls_node_attr(plan->node, LS_ATTR_ID_WINDOW_REDUCE)->as.string;
  const bool is_max = strcmp(reduce, "max") == 0;
  if (!is_max && ls_dtype_is_float(dtype))
    return ls_conv_window_sums(plan, strcmp(reduce, "mean") == 0, false);
  LS_ARENA_NEW_OR_RETURN(plan->arena, window_params, self);
  const ls_shape x = plan->in[0].shape;
  const ls_dtype wide = ls_is_half(dtype) ? LS_DTYPE_F32 : dtype;
  *self = (window_params){
      .half = ls_is_half(dtype) ? dtype : LS_DTYPE_NONE,
      .size = ls_dtype_size(dtype),
      .rows = (is_max ? maxima : sums)[wide],
      .channels = x.dim[x.rank - 1],
  };
  if (self->rows.combine == max_combine_F32) {
    self->rows.combine = plan->kernels->windows->max;
    self->rows.four = plan->kernels->windows->max_of_four;
  }
  if (self->rows.begin == NULL) return ls_kernel_unsupported(plan, dtype);
  LS_RETURN_IF_ERROR(
      ls_conv_read_window(plan, x, plan->out[0].shape, &self->conv));
  const int64_t work =
      ls_max_i64(1, self->channels * ls_conv_taps(&self->conv));
  self->per_block = ls_max_i64(1, LS_BLOCK / work);
  plan->blocks = ls_blocks_of(self->conv.images * ls_conv_outputs(&self->conv),
                              self->per_block);
  if (self->half != LS_DTYPE_NONE)
    plan->scratch = 2 * (size_t)self->channels * sizeof(float);
  plan->loop = window_loop;
  plan->params = self;
  return ls_ok();
}

ls_status kernel_window_sum_grad(ls_kernel_plan *plan) {
  const char *reduce =
      ls_node_attr(plan->node, LS_ATTR_ID_WINDOW_REDUCE)->as.string;
  return ls_conv_window_sums(plan, strcmp(reduce, "mean") == 0, true);
}
