// SPDX-License-Identifier: Apache-2.0
//
// Sums, means and maxima of windows, and the gradient of sums and means.
//
// The elements of a window are taken one after another, in row order, from +0
// or the least number; a mean is the sum times 1 / count. The gradient adds,
// for each element, the windows that have it in row order. Integers wrap
// around; 16-bit floats are widened and rounded once at the end. Windows of
// floats are those of depthwise.c; here are those of integers, which handle all
// channels of a position together, a row.
#include "engine/cpu/conv/plan.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- Rows ------------------------------------------------------------------
typedef struct window_rows {
  // Sets the initial values of a window.
  void (*begin)(void *acc, int64_t count);
  void (*combine)(void *acc, const void *x, int64_t count);
} window_rows;

#define SUM(T, W, a, b) ((T)((W)(a) + (W)(b)))
#define MAX(T, W, a, b) ((b) > (a) ? (b) : (a))

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
  }
#define SUM_ROWS(name, D, T, W) ROWS(name, SUM, 0, D, T, W)
// The least number of a signed type has only the sign bit.
#define SIGNED_MAX_ROWS(name, D, T, W)                                         \
  ROWS(name, MAX, (T)(UINT64_C(1) << (8 * sizeof(T) - 1)), D, T, W)
#define UNSIGNED_MAX_ROWS(name, D, T, W) ROWS(name, MAX, 0, D, T, W)
LS_EACH_INTEGER(SUM_ROWS, sum)
LS_EACH_SIGNED(SIGNED_MAX_ROWS, max)
LS_EACH_UNSIGNED(UNSIGNED_MAX_ROWS, max)

#define ENTRY(name, D, T, W)                                                   \
  [LS_DTYPE_##D] = {name##_begin_##D, name##_combine_##D},
static const window_rows sums[LS_DTYPE_COUNT] = {LS_EACH_INTEGER(ENTRY, sum)};
static const window_rows maxima[LS_DTYPE_COUNT] = {LS_EACH_INTEGER(ENTRY, max)};

// ---- Parameters ------------------------------------------------------------
typedef struct window_params {
  ls_conv conv;
  size_t size;  // Bytes of an element.
  window_rows rows;
  int64_t channels, per_block;
} window_params;

typedef struct window_work {
  const window_params *self;
  const ls_kernel_call *call;
  void *acc;
} window_work;

// Combines all positions of window `at`, in row order.
static void take_all(const window_work *w, int64_t image, const int64_t *at) {
  const window_params *self = w->self;
  const ls_conv_dim *dim = self->conv.dim;
  const char *in = w->call->in[0];
  int64_t place[LS_WINDOW_DIMS];
  for (int64_t i = 0; i < dim[0].taps; ++i) {
    if (!ls_conv_meets(&dim[0], at[0], i, &place[0])) continue;
    for (int64_t j = 0; j < dim[1].taps; ++j) {
      if (!ls_conv_meets(&dim[1], at[1], j, &place[1])) continue;
      const int64_t row =
          ((image * dim[0].in + place[0]) * dim[1].in + place[1]) * dim[2].in;
      for (int64_t k = 0; k < dim[2].taps; ++k)
        if (ls_conv_meets(&dim[2], at[2], k, &place[2]))
          self->rows.combine(w->acc,
                             in + (row + place[2]) * self->channels *
                                      (int64_t)self->size,
                             self->channels);
    }
  }
}

static void window_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const window_params *self = call->params;
  const ls_conv_dim *dim = self->conv.dim;
  const int64_t num_outputs = self->conv.images * ls_conv_outputs(&self->conv);
  const int64_t end = ls_min_i64(end_block * self->per_block, num_outputs);
  window_work w = {.self = self, .call = call};
  for (int64_t o = begin_block * self->per_block; o < end; ++o) {
    w.acc = (char *)call->out[0] + (size_t)(o * self->channels) * self->size;
    const int64_t line = o / dim[2].out, plane = line / dim[1].out;
    const int64_t image = plane / dim[0].out;
    const int64_t at[] = {plane % dim[0].out, line % dim[1].out,
                          o % dim[2].out};
    self->rows.begin(w.acc, self->channels);
    take_all(&w, image, at);
  }
}

// ---- Plans -----------------------------------------------------------------
ls_status kernel_reduce_window(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[0].dtype;
  if (ls_dtype_is_float(dtype)) return ls_conv_window_sums(plan, false);
  const char *reduce =
      ls_node_attr(plan->node, LS_ATTR_ID_WINDOW_REDUCE)->as.string;
  LS_ARENA_NEW_OR_RETURN(plan->arena, window_params, self);
  const ls_shape x = plan->in[0].shape;
  *self = (window_params){
      .size = ls_dtype_size(dtype),
      .rows = (strcmp(reduce, "max") == 0 ? maxima : sums)[dtype],
      .channels = x.dim[x.rank - 1],
  };
  if (self->rows.begin == NULL) return ls_kernel_unsupported(plan, dtype);
  LS_RETURN_IF_ERROR(
      ls_conv_read_window(plan, x, plan->out[0].shape, &self->conv));
  const int64_t work =
      ls_max_i64(1, self->channels * ls_conv_taps(&self->conv));
  self->per_block = ls_max_i64(1, LS_BLOCK / work);
  plan->blocks = ls_blocks_of(self->conv.images * ls_conv_outputs(&self->conv),
                              self->per_block);
  plan->loop = window_loop;
  plan->params = self;
  return ls_ok();
}

ls_status kernel_window_sum_grad(ls_kernel_plan *plan) {
  return ls_conv_window_sums(plan, true);
}
