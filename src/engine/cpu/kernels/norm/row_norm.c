// SPDX-License-Identifier: Apache-2.0
//
// Layer norm and root-mean-square norm along the last axis, and their
// gradients.
//
// The kernel table computes a row; the gradient computes its moments again,
// which costs less than keeping them. The gradients of scale and offset are
// sums over rows, in two steps: first, beside dx, each chunk of rows adds up
// its part, in the element type along each RUN rows and in double from run to
// run; then the chunks' sums are added in order. Chunks depend on the shape
// alone. A single run's sums are the result.
//
// 16-bit floats are widened, computed as f32 and rounded once.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

enum { RUN = 256, CHUNKS = 64, WIDENED = 2048, COLUMNS = 1024, FEW = 64 };

typedef struct rows_params {
  const ls_cpu_norms *norms;
  ls_dtype dtype;  // Type of x; `wide` is that of scale and offset.
  ls_dtype wide;
  ls_cpu_row_norm norm;  // Arrays are set per call.
  bool again;            // The gradient also recomputes y, as output 1.
  int64_t rows, columns, rows_per_block;
  int64_t group;  // Rows widened at a time.
  // Rows per chunk of the gradient, and number of chunks.
  int64_t chunk, chunks;
  // Elements of a chunk's sums: those of scale, and of offset if there is one.
  int64_t sums;
} rows_params;

// Returns the offset of a row in bytes.
static size_t row_offset(const rows_params *self, int64_t row) {
  return (size_t)(row * self->columns) * ls_dtype_size(self->dtype);
}

// ---- Forward ---------------------------------------------------------------
static void normalize_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const rows_params *self = call->params;
  const size_t columns = (size_t)self->columns;
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->rows);
  ls_cpu_row_norm norm = self->norm;
  norm.scale = call->in[1];
  norm.offset = self->norm.centred ? call->in[2] : NULL;
  int64_t i = begin_block * self->rows_per_block;
  while (i < end) {
    const void *x = (const char *)call->in[0] + row_offset(self, i);
    void *y = (char *)call->out[0] + row_offset(self, i);
    if (!ls_is_half(self->dtype)) {
      self->norms->normalize_rows(y, x, &norm, (size_t)(end - i), columns);
      break;
    }
    const int64_t rows = ls_min_i64(self->group, end - i);
    float *wide = call->scratch;
    ls_widen(self->dtype, wide, x, rows * self->columns);
    self->norms->normalize_rows(wide, wide, &norm, (size_t)rows, columns);
    ls_narrow(self->dtype, y, wide, rows * self->columns);
    i += rows;
  }
}

// ---- Gradient --------------------------------------------------------------
// Operands: dy, x, scale, and the offset if y is computed again. Adds to the
// sums of scale and, unless NULL, of offset; `wide` has room for two groups.
static void gradient_of_rows(const rows_params *self,
                             const ls_kernel_call *call, void *dscale,
                             void *doffset, float *wide, int64_t begin,
                             int64_t end) {
  const size_t columns = (size_t)self->columns;
  ls_cpu_row_norm norm = self->norm;
  norm.scale = call->in[2];
  norm.offset = self->again ? call->in[3] : NULL;
  for (int64_t i = begin; i < end;) {
    const void *from_dy = (const char *)call->in[0] + row_offset(self, i);
    const void *from_x = (const char *)call->in[1] + row_offset(self, i);
    void *target = (char *)call->out[0] + row_offset(self, i);
    void *y = self->again ? (char *)call->out[1] + row_offset(self, i) : NULL;
    if (!ls_is_half(self->dtype)) {
      self->norms->gradient_rows(target, y, dscale, doffset, from_dy, from_x,
                                 &norm, (size_t)(end - i), columns);
      return;
    }
    float *dy = wide, *x = dy + self->group * self->columns;
    const int64_t rows = ls_min_i64(self->group, end - i);
    ls_widen(self->dtype, dy, from_dy, rows * self->columns);
    ls_widen(self->dtype, x, from_x, rows * self->columns);
    self->norms->gradient_rows(dy, y == NULL ? NULL : x, dscale, doffset, dy, x,
                               &norm, (size_t)rows, columns);
    ls_narrow(self->dtype, target, dy, rows * self->columns);
    if (y != NULL) ls_narrow(self->dtype, y, x, rows * self->columns);
    i += rows;
  }
}

// Adds a run's sums, which are not -0, or stores those of the first run.
static void add_run(const rows_params *self, double *target, const void *sums,
                    bool is_first) {
  const int64_t count = self->sums * self->columns;
  const float *f32 = sums;
  const double *f64 = sums;
  if (self->wide == LS_DTYPE_F64)
    for (int64_t j = 0; j < count; ++j)
      target[j] = is_first ? f64[j] : target[j] + f64[j];
  else
    for (int64_t j = 0; j < count; ++j)
      target[j] = is_first ? (double)f32[j] : target[j] + (double)f32[j];
}

static void gradient_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block) {
  const rows_params *self = call->params;
  const size_t count = (size_t)(self->sums * self->columns);
  const size_t element = ls_dtype_size(self->wide);
  char *dscale = call->scratch, *doffset = NULL;
  if (self->sums == 2) doffset = dscale + (size_t)self->columns * element;
  for (int64_t c = begin_block; c < end_block; ++c) {
    double *sums =
        (double *)call->out[self->again ? 2 : 1] + c * (int64_t)count;
    const int64_t begin = c * self->chunk;
    const int64_t end = ls_min_i64(begin + self->chunk, self->rows);
    if (begin == end) memset(sums, 0, count * sizeof(*sums));  // No rows.
    for (int64_t i = begin; i < end; i += RUN) {
      memset(dscale, 0, count * element);
      gradient_of_rows(self, call, dscale, doffset,
                       (float *)(void *)dscale + 2 * self->columns, i,
                       ls_min_i64(i + RUN, end));
      add_run(self, sums, call->scratch, i == begin);
    }
  }
}

// Adds up the chunks' sums: COLUMNS of them per block, a few at a time.
static void sums_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const rows_params *self = call->params;
  const int64_t count = self->sums * self->columns;
  const int64_t end = ls_min_i64(end_block * COLUMNS, count);
  for (int64_t j = begin_block * COLUMNS, few = 0; j < end; j += few) {
    double sums[FEW] = {0};
    const int64_t which = j / self->columns, column = j % self->columns;
    few = ls_min_i64(ls_min_i64(FEW, end - j), self->columns - column);
    for (int64_t c = 0; c < self->chunks; ++c) {
      const double *from = (const double *)call->in[0] + c * count + j;
      for (int64_t k = 0; k < few; ++k)
        sums[k] += from[k];
    }
    if (self->wide == LS_DTYPE_F64)
      for (int64_t k = 0; k < few; ++k)
        ((double *)call->out[which])[column + k] = sums[k];
    else
      for (int64_t k = 0; k < few; ++k)
        ((float *)call->out[which])[column + k] = (float)sums[k];
  }
}

// Adds up a single run where its results are.
static void single_run_loop(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block) {
  const rows_params *self = call->params;
  void *const *sums = call->out + (self->again ? 2 : 1);
  if (begin_block == end_block) return;
  for (int64_t i = 0; i < self->sums; ++i)
    memset(sums[i], 0, (size_t)self->columns * ls_dtype_size(self->wide));
  gradient_of_rows(self, call, sums[0], self->sums == 2 ? sums[1] : NULL,
                   call->scratch, 0, self->rows);
}

// ---- Plan ------------------------------------------------------------------
static ls_status plan_rows(ls_kernel_plan *plan, size_t x, bool centred,
                           rows_params **out_self) {
  const ls_type type = plan->in[x];
  if (!ls_dtype_is_float(type.dtype))
    return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, rows_params, self);
  self->dtype = type.dtype;
  self->wide = type.dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  self->norms = type.dtype == LS_DTYPE_F64 ? plan->kernels->norms_f64
                                           : plan->kernels->norms_f32;
  self->norm.epsilon = ls_node_attr(plan->node, LS_ATTR_ID_EPSILON)->as.f;
  self->norm.centred = centred;
  self->sums = centred ? 2 : 1;
  self->columns = type.shape.dim[type.shape.rank - 1];
  self->rows = 1;
  for (int32_t i = 0; i + 1 < type.shape.rank; ++i)
    self->rows *= type.shape.dim[i];
  const int64_t columns = ls_max_i64(1, self->columns);
  self->group = ls_max_i64(1, WIDENED / columns);
  self->rows_per_block = ls_max_i64(1, LS_BLOCK / columns);
  self->chunk =
      ls_max_i64(self->rows_per_block, ls_blocks_of(self->rows, CHUNKS));
  self->chunks = ls_blocks_of(self->rows, self->chunk);
  plan->params = self;
  *out_self = self;
  return ls_ok();
}

static ls_status plan_normalize(ls_kernel_plan *plan, bool centred) {
  rows_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_rows(plan, 0, centred, &self));
  plan->loop = normalize_loop;
  plan->blocks = ls_blocks_of(self->rows, self->rows_per_block);
  plan->in_place = 1;
  if (ls_is_half(self->dtype))
    plan->scratch = (size_t)(self->group * self->columns) * sizeof(float);
  return ls_ok();
}

static ls_status plan_gradient(ls_kernel_plan *plan, bool centred, bool again) {
  rows_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_rows(plan, 1, centred, &self));
  self->again = again;
  const int64_t count = self->sums * self->columns;
  if (self->chunks == 1 && self->rows <= RUN) {
    plan->loop = single_run_loop;
    plan->blocks = 1;
  } else {
    plan->first = gradient_loop;
    plan->first_blocks = self->chunks;
    plan->first_outputs = again ? 2 : 1;
    plan->shared = (size_t)(self->chunks * count) * sizeof(double);
    plan->loop = sums_loop;
    plan->only_shared = true;
    plan->blocks = ls_blocks_of(count, COLUMNS);
  }
  plan->in_place = again ? 1 : 1 | 2;
  plan->next_in_place = again ? 2 : 0;
  plan->scratch = (size_t)(2 * self->columns) * ls_dtype_size(self->wide);
  if (ls_is_half(self->dtype))
    plan->scratch += (size_t)(2 * self->group * self->columns) * sizeof(float);
  return ls_ok();
}

ls_status kernel_layer_norm(ls_kernel_plan *plan) {
  return plan_normalize(plan, true);
}
ls_status kernel_rms_norm(ls_kernel_plan *plan) {
  return plan_normalize(plan, false);
}
ls_status kernel_layer_norm_grad(ls_kernel_plan *plan) {
  return plan_gradient(plan, true, false);
}
ls_status kernel_layer_norm_again(ls_kernel_plan *plan) {
  return plan_gradient(plan, true, true);
}
ls_status kernel_rms_norm_grad(ls_kernel_plan *plan) {
  return plan_gradient(plan, false, false);
}
