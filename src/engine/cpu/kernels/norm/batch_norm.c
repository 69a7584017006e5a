// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization: training, its gradient, and inference.
//
// The two sums of training and of its gradient are two steps: first every chunk
// of lines adds up its part; then the chunks' sums are added and the same
// chunks are written.
//
// The squares are of x minus the channel's first element, so that a variance
// that is small beside the mean is not lost.
#include <math.h>

#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/norm/batch_lines.h"

// ---- Training --------------------------------------------------------------
static void find_centers(const ls_batch_work *work, const void *x,
                         double *centers) {
  const ls_batch_lines *self = work->self;
  const ls_batch_stretch first = {work->column, {1, (size_t)work->distinct, 0}};
  const void *from =
      self->rows > 0 ? ls_batch_load(self, x, &first, work->x) : work->mean;
  for (int64_t j = 0; j < work->distinct; ++j) {
    const double center = self->rows > 0 ? ls_batch_get(self, from, j) : 0;
    ls_batch_set(self, work->mean, j, center);
    if (centers != NULL) centers[work->column + j] = center;
  }
  ls_batch_repeat(work, work->mean);
}

static void moments_loop(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block) {
  const ls_batch_lines *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  ls_batch_work work = ls_batch_open(self, call->scratch);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    if (ls_batch_enter(&work, u, &chunk))
      find_centers(&work, call->in[0], chunk == 0 ? call->out[0] : NULL);
    ls_batch_clear_sums(&work);
    ls_batch_stretch at;
    for (int64_t i = 0; ls_batch_stretch_of(&work, chunk, i, &at); ++i)
      self->norms->moments(work.sums, work.products,
                           ls_batch_load(self, call->in[0], &at, work.x),
                           work.mean, ls_batch_size(self, &at));
    ls_batch_store_sums(&work, call->out[0], chunk);
  }
}

// Finds factor and shift of a channel, z = x factor + shift, equally for
// training, its gradient and inference: from the mean and variance as stored.
static double set_line(const ls_batch_work *work, int64_t j, double scale,
                       double offset, double mean, double variance) {
  const double inverse = 1.0 / sqrt(variance + work->self->epsilon);
  ls_batch_set(work->self, work->mean, j, mean);
  ls_batch_set(work->self, work->factor, j, scale * inverse);
  ls_batch_set(work->self, work->shift, j, offset - mean * (scale * inverse));
  return inverse;
}

// Computes the moments from the sums; writes them if `wanted`.
static void find_moments(const ls_batch_work *work, const ls_kernel_call *call,
                         bool wanted) {
  const ls_batch_lines *self = work->self;
  const double *centers = call->in[3];
  const double count = (double)ls_max_i64(1, self->rows);
  ls_batch_add_chunks(work, call->in[3]);
  for (int64_t j = 0; j < work->distinct; ++j) {
    const int64_t channel = work->column + j;
    const double mean = work->sums[j] / count;
    double variance = work->products[j] / count - mean * mean;
    if (variance < 0) variance = 0;
    const double center = ls_batch_stored(self, centers[channel] + mean);
    variance = ls_batch_stored(self, variance);
    set_line(work, j, ls_batch_get(self, call->in[1], channel),
             ls_batch_get(self, call->in[2], channel), center, variance);
    if (!wanted) continue;
    ls_batch_set(self, call->out[1], channel, center);
    ls_batch_set(self, call->out[2], channel, variance);
  }
  ls_batch_repeat(work, work->factor);
  ls_batch_repeat(work, work->shift);
}

static void normalize_unit(const ls_batch_work *work,
                           const ls_kernel_call *call, int64_t chunk) {
  const ls_batch_lines *self = work->self;
  const ls_cpu_batch_norm norm = {
      .factor = work->factor, .shift = work->shift, .relu = self->relu};
  ls_batch_stretch at;
  for (int64_t i = 0; ls_batch_stretch_of(work, chunk, i, &at); ++i) {
    self->norms->normalize(ls_batch_place(self, call->out[0], &at, work->x),
                           ls_batch_load(self, call->in[0], &at, work->x),
                           &norm, ls_batch_size(self, &at));
    ls_batch_keep(self, call->out[0], &at, work->x);
  }
}

static void normalize_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const ls_batch_lines *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  ls_batch_work work = ls_batch_open(self, call->scratch);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    if (ls_batch_enter(&work, u, &chunk)) find_moments(&work, call, chunk == 0);
    normalize_unit(&work, call, chunk);
  }
}

// ---- Inference -------------------------------------------------------------
static void inference_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const ls_batch_lines *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  ls_batch_work work = ls_batch_open(self, call->scratch);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    const bool entered = ls_batch_enter(&work, u, &chunk);
    for (int64_t j = 0; entered && j < work.distinct; ++j) {
      const int64_t channel = work.column + j;
      set_line(&work, j, ls_batch_get(self, call->in[1], channel),
               ls_batch_get(self, call->in[2], channel),
               ls_batch_get(self, call->in[3], channel),
               ls_batch_get(self, call->in[4], channel));
    }
    if (entered) {
      ls_batch_repeat(&work, work.factor);
      ls_batch_repeat(&work, work.shift);
    }
    normalize_unit(&work, call, chunk);
  }
}

// ---- Gradient --------------------------------------------------------------
// Operands: dy, x, scale, offset, mean, variance.
static double gradient_line(const ls_batch_work *work,
                            const ls_kernel_call *call, int64_t j) {
  const int64_t channel = work->column + j;
  return set_line(work, j, ls_batch_get(work->self, call->in[2], channel),
                  ls_batch_get(work->self, call->in[3], channel),
                  ls_batch_get(work->self, call->in[4], channel),
                  ls_batch_get(work->self, call->in[5], channel));
}

static void repeat_lines(const ls_batch_work *work) {
  ls_batch_repeat(work, work->mean);
  ls_batch_repeat(work, work->factor);
  ls_batch_repeat(work, work->shift);
}

static ls_cpu_batch_norm norm_of(const ls_batch_work *work) {
  return (ls_cpu_batch_norm){.mean = work->mean,
                             .factor = work->factor,
                             .shift = work->shift,
                             .slope = work->slope,
                             .base = work->base,
                             .relu = work->self->relu};
}

static void gradient_sum_loop(const ls_kernel_call *call, int64_t begin_block,
                              int64_t end_block) {
  const ls_batch_lines *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  ls_batch_work work = ls_batch_open(self, call->scratch);
  const ls_cpu_batch_norm norm = norm_of(&work);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    if (ls_batch_enter(&work, u, &chunk)) {
      for (int64_t j = 0; j < work.distinct; ++j)
        gradient_line(&work, call, j);
      repeat_lines(&work);
    }
    ls_batch_clear_sums(&work);
    ls_batch_stretch at;
    for (int64_t i = 0; ls_batch_stretch_of(&work, chunk, i, &at); ++i)
      self->norms->gradient_moments(
          work.sums, work.products,
          ls_batch_load(self, call->in[0], &at, work.dy),
          ls_batch_load(self, call->in[1], &at, work.x), &norm,
          ls_batch_size(self, &at));
    ls_batch_store_sums(&work, call->out[0], chunk);
  }
}

// Computes, with d the gradient of z, n rows and r = (x - mean) inverse: dscale
// = sum(d r), doffset = sum(d), dx = factor (d - doffset / n - r dscale / n).
static void find_slopes(const ls_batch_work *work, const ls_kernel_call *call,
                        bool wanted) {
  const ls_batch_lines *self = work->self;
  const double count = (double)ls_max_i64(1, self->rows);
  ls_batch_add_chunks(work, call->in[6]);
  for (int64_t j = 0; j < work->distinct; ++j) {
    const int64_t channel = work->column + j;
    const double inverse = gradient_line(work, call, j);
    const double factor = ls_batch_get(self, call->in[2], channel) * inverse;
    const double dscale = work->products[j] * inverse;
    ls_batch_set(self, work->slope, j, -factor * inverse * (dscale / count));
    ls_batch_set(self, work->base, j, -factor * (work->sums[j] / count));
    if (!wanted) continue;
    ls_batch_set(self, call->out[1], channel, dscale);
    ls_batch_set(self, call->out[2], channel, work->sums[j]);
  }
  repeat_lines(work);
  ls_batch_repeat(work, work->slope);
  ls_batch_repeat(work, work->base);
}

static void gradient_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block) {
  const ls_batch_lines *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  ls_batch_work work = ls_batch_open(self, call->scratch);
  const ls_cpu_batch_norm norm = norm_of(&work);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    if (ls_batch_enter(&work, u, &chunk)) find_slopes(&work, call, chunk == 0);
    ls_batch_stretch at;
    for (int64_t i = 0; ls_batch_stretch_of(&work, chunk, i, &at); ++i) {
      self->norms->gradient(ls_batch_place(self, call->out[0], &at, work.dy),
                            ls_batch_load(self, call->in[0], &at, work.dy),
                            ls_batch_load(self, call->in[1], &at, work.x),
                            &norm, ls_batch_size(self, &at));
      ls_batch_keep(self, call->out[0], &at, work.dy);
    }
  }
}

// ---- Plan ------------------------------------------------------------------
// `x` is the number of the operand that is normalized.
static ls_status plan_batch_norm(ls_kernel_plan *plan, size_t x,
                                 ls_batch_lines **out_self) {
  const ls_type type = plan->in[x];
  if (!ls_dtype_is_float(type.dtype))
    return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, ls_batch_lines, self);
  self->dtype = type.dtype;
  self->wide = type.dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  self->norms = type.dtype == LS_DTYPE_F64 ? plan->kernels->norms_f64
                                           : plan->kernels->norms_f32;
  self->relu = ls_node_attr(plan->node, LS_ATTR_ID_ACTIVATION) != NULL;
  self->epsilon = ls_node_attr(plan->node, LS_ATTR_ID_EPSILON)->as.f;
  ls_batch_measure(self, type.shape);
  plan->params = self;
  plan->blocks = ls_blocks_of(self->units, self->units_per_block);
  plan->first_blocks = plan->blocks;
  plan->shared =
      (size_t)(self->channels * (1 + 2 * self->chunks)) * sizeof(double);
  plan->scratch = ls_batch_scratch(self);
  *out_self = self;
  return ls_ok();
}

ls_status kernel_batch_norm(ls_kernel_plan *plan) {
  ls_batch_lines *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 0, &self));
  plan->first = moments_loop;
  plan->loop = normalize_loop;
  plan->in_place = 1;
  return ls_ok();
}

ls_status kernel_batch_norm_grad(ls_kernel_plan *plan) {
  ls_batch_lines *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 1, &self));
  plan->first = gradient_sum_loop;
  plan->loop = gradient_loop;
  plan->in_place = 1 | 2;
  return ls_ok();
}

ls_status kernel_batch_norm_inference(ls_kernel_plan *plan) {
  ls_batch_lines *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 0, &self));
  plan->loop = inference_loop;
  plan->in_place = 1;
  plan->shared = 0;
  return ls_ok();
}
