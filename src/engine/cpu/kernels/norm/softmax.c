// SPDX-License-Identifier: Apache-2.0
//
// Softmax along the last axis, and the cross-entropy built on it.
//
// The kernel table computes f32 rows, and 16-bit ones, widened a group at a
// time. f64 rows follow the same steps and the same order of addition, a group
// at a time. An invalid label makes its row NaN, but a run with one fails
// earlier.
#include <math.h>

#include "engine/cpu/elementary/f64math.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/reduce/short_rows.h"

enum {
  LEAST_ROWS = 16,  // Rows of a group, at least, unless they are long,
  MOST_ROWS = 512,  // and as many as have so many elements.
};

typedef struct rows_params {
  int64_t rows, columns, rows_per_block;
  int64_t group;  // Rows handled at a time.
  const ls_cpu_kernels *kernels;
  uint16_t op;
  ls_dtype dtype, label;
} rows_params;

// ---- f64 -------------------------------------------------------------------
void ls_softmax_f64(const ls_cpu_kernels *kernels, double *y, const double *x,
                    int64_t n) {
  double max = 0;
  kernels->reducers->max[LS_DTYPE_F64].runs(&max, x, 1, n);
  const double sum = kernels->exp_above(y, x, max, (size_t)n);
  const double factor = 1.0 / sum;
  for (int64_t i = 0; i < n; ++i)
    y[i] *= factor;
}

// Finds the maximum of each row and its sum of e^(x - max), whose terms it
// stores in `e`; of longer rows only if `keeps` is set.
static void reduce_f64(const rows_params *self, double *e, bool keeps,
                       double *max, double *sums, const double *x,
                       int64_t rows) {
  const ls_cpu_kernels *kernels = self->kernels;
  const int64_t n = self->columns;
  if (n < 2 || n > LS_SHORT_ROW) {
    kernels->reducers->max[LS_DTYPE_F64].runs(max, x, rows, n);
    for (int64_t i = 0; i < rows; ++i)
      sums[i] = kernels->exp_above(keeps ? e + i * n : NULL, x + i * n, max[i],
                                   (size_t)n);
    return;
  }
  kernels->short_rows->max[LS_DTYPE_F64][n](max, x, rows);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i * n; j < (i + 1) * n; ++j)
      e[j] = x[j] - max[i];
  kernels->exp_above(e, e, 0.0, (size_t)(rows * n));
  // Adds positive numbers in the order of exp_above.
  kernels->short_rows->sum[LS_DTYPE_F64][n](sums, e, rows);
}

// Finds the maximum of each row and the logarithm of its sum.
static void log_sums_f64(const rows_params *self, double *max, double *logs,
                         const double *x, int64_t rows) {
  double e[MOST_ROWS], sums[MOST_ROWS];
  reduce_f64(self, e, false, max, sums, x, rows);
  const ls_elementwise work = {.count = rows};
  self->kernels->elementary->f64[LS_OP_LOG](&work, logs, (const void *[]){sums},
                                            rows);
}

// ---- Rows ------------------------------------------------------------------
// A range of rows: every pointer is at the first one.
typedef struct rows_work {
  void *out;
  const void *logits;
  const int32_t *labels;
  const void *scale;
  int64_t rows;
} rows_work;

// Computes rows of one column, of f32 or f64: the softmax is 1, its logarithm,
// the loss and the gradient 0, or NaN if the element is not finite or the label
// is not 0. Returns false for other rows.
static bool rows_of_one(const rows_params *self, const rows_work *work,
                        ls_dtype dtype, const void *one) {
  if (self->columns != 1) return false;
  const void *same[] = {work->logits, work->logits}, *sum[] = {work->out, one};
  const void *product[] = {work->out, work->scale};
  ls_span_of(LS_OP_SUB, dtype, self->kernels)(&(ls_elementwise){0}, work->out,
                                              same, work->rows);
  if (self->op == LS_OP_SOFTMAX)
    ls_span_of(LS_OP_ADD, dtype, self->kernels)(&(ls_elementwise){.scalars = 2},
                                                work->out, sum, work->rows);
  if (self->op == LS_OP_CROSS_ENTROPY_GRAD)
    ls_span_of(LS_OP_MUL, dtype, self->kernels)(&(ls_elementwise){0}, work->out,
                                                product, work->rows);
  if (self->label == LS_DTYPE_NONE) return true;
  int32_t others = 0;
  for (int64_t i = 0; i < work->rows; ++i)
    others |= work->labels[i];
  for (int64_t i = 0; others != 0 && i < work->rows; ++i) {
    if (work->labels[i] == 0) continue;
    if (dtype == LS_DTYPE_F64)
      ((double *)work->out)[i] = (double)NAN;
    else
      ((float *)work->out)[i] = NAN;
  }
  return true;
}

static void rows_f64(const rows_params *self, const rows_work *work) {
  const int64_t n = self->columns;
  if (rows_of_one(self, work, LS_DTYPE_F64, &(double){1.0})) return;
  const double *x = work->logits, *scale = work->scale;
  double max[MOST_ROWS], sums[MOST_ROWS], *out = work->out;
  if (self->op == LS_OP_LOG_SOFTMAX || self->op == LS_OP_CROSS_ENTROPY)
    log_sums_f64(self, max, sums, x, work->rows);
  else
    reduce_f64(self, out, true, max, sums, x, work->rows);
  for (int64_t i = 0; i < work->rows; ++i, x += n) {
    const int64_t label = self->label == LS_DTYPE_NONE ? -1 : work->labels[i];
    const bool is_class = label >= 0 && label < n;
    const double factor = 1.0 / sums[i];
    double *y = out + i * n;
    switch (self->op) {
    case LS_OP_SOFTMAX:
      for (int64_t j = 0; j < n; ++j)
        y[j] *= factor;
      break;
    case LS_OP_LOG_SOFTMAX:
      for (int64_t j = 0; j < n; ++j)
        y[j] = x[j] - max[i] - sums[i];
      break;
    case LS_OP_CROSS_ENTROPY:
      out[i] = is_class ? sums[i] - (x[label] - max[i]) : (double)NAN;
      break;
    default:
      for (int64_t j = 0; j < n; ++j) {
        const double p = is_class ? y[j] * factor : (double)NAN;
        y[j] = (j == label ? p - 1.0 : p) * scale[i];
      }
      break;
    }
  }
}

static void rows_f32(const rows_params *self, const rows_work *work) {
  const ls_cpu_kernels *kernels = self->kernels;
  const size_t rows = (size_t)work->rows, columns = (size_t)self->columns;
  if (rows_of_one(self, work, LS_DTYPE_F32, &(float){1.0F})) return;
  switch (self->op) {
  case LS_OP_SOFTMAX:
    kernels->softmax(work->out, work->logits, rows, columns);
    break;
  case LS_OP_LOG_SOFTMAX:
    kernels->log_softmax(work->out, work->logits, rows, columns);
    break;
  case LS_OP_CROSS_ENTROPY:
    kernels->label_loss(work->out, work->logits, work->labels, rows, columns);
    break;
  default:
    kernels->label_loss_grad(work->out, work->logits, work->labels, work->scale,
                             1, rows, columns);
    break;
  }
}

// Computes a group of rows, as f32 in the scratch.
static void rows_half(const rows_params *self, const rows_work *work,
                      float *scratch) {
  float scale[MOST_ROWS];
  const int64_t columns = self->columns;
  float *results = scratch + self->group * columns;
  ls_widen(self->dtype, scratch, work->logits, work->rows * columns);
  if (work->scale != NULL)
    ls_widen(self->dtype, scale, work->scale, work->rows);
  rows_f32(self,
           &(rows_work){results, scratch, work->labels, scale, work->rows});
  const int64_t width = self->op == LS_OP_CROSS_ENTROPY ? 1 : columns;
  ls_narrow(self->dtype, work->out, results, work->rows * width);
}

// ---- Labels ----------------------------------------------------------------
// Reads labels [at, at + count) as i32; labels that i32 cannot hold become
// invalid ones.
static void read_labels(int32_t *out, const void *labels, ls_dtype dtype,
                        int64_t at, int64_t count) {
  switch (dtype) {
#define CASE(unused, D, T, W)                                                  \
  case LS_DTYPE_##D: {                                                         \
    const T *in = (const T *)labels + at;                                      \
    for (int64_t i = 0; i < count; ++i)                                        \
      out[i] = (W)in[i] > INT32_MAX ? -1 : (int32_t)in[i];                     \
    break;                                                                     \
  }
    LS_EACH_INTEGER(CASE, )
#undef CASE
  default:
    break;
  }
}

// ---- Loop and plan ---------------------------------------------------------
static void rows_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const rows_params *self = call->params;
  const size_t element = ls_dtype_size(self->dtype);
  const size_t width =
      self->op == LS_OP_CROSS_ENTROPY ? 1 : (size_t)self->columns;
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->rows);
  for (int64_t i = begin_block * self->rows_per_block; i < end;
       i += self->group) {
    int32_t labels[MOST_ROWS];
    const size_t row = (size_t)i;
    rows_work work = {
        .out = (char *)call->out[0] + row * width * element,
        .logits =
            (const char *)call->in[0] + row * (size_t)self->columns * element,
        .labels = labels,
        .rows = ls_min_i64(self->group, end - i),
    };
    if (self->label != LS_DTYPE_NONE)
      read_labels(labels, call->in[1], self->label, i, work.rows);
    if (self->op == LS_OP_CROSS_ENTROPY_GRAD)
      work.scale = (const char *)call->in[2] + row * element;
    if (self->dtype == LS_DTYPE_F64)
      rows_f64(self, &work);
    else if (self->dtype == LS_DTYPE_F32)
      rows_f32(self, &work);
    else
      rows_half(self, &work, call->scratch);
  }
}

static ls_status plan_rows(ls_kernel_plan *plan, ls_dtype label) {
  const ls_type type = plan->in[0];
  if (!ls_dtype_is_float(type.dtype))
    return ls_kernel_unsupported(plan, type.dtype);
  if (type.shape.rank == 0)
    return ls_invalid_argument("op '%s' of a scalar: it needs a last axis",
                               ls_node_info(plan->node)->name);
  LS_ARENA_NEW_OR_RETURN(plan->arena, rows_params, self);
  self->label = label;
  self->op = plan->node->type;
  self->dtype = type.dtype;
  self->kernels = plan->kernels;
  self->columns = type.shape.dim[type.shape.rank - 1];
  self->rows = 1;
  for (int32_t i = 0; i + 1 < type.shape.rank; ++i)
    self->rows *= type.shape.dim[i];
  // Blocks have whole groups, so that groups are the same in every division
  // into blocks.
  const int64_t columns = ls_max_i64(1, self->columns);
  // Four rows of f64 have their maxima found together.
  const bool is_alone =
      columns > LS_BLOCK &&
      (type.dtype != LS_DTYPE_F64 || self->rows < LS_REDUCE_STREAMS);
  self->group = ls_max_i64(is_alone ? 1 : LEAST_ROWS, MOST_ROWS / columns);
  const int64_t group = self->group * columns;
  self->rows_per_block = self->group * ls_max_i64(1, LS_BLOCK / group);
  if (ls_is_half(type.dtype)) plan->scratch = 2 * (size_t)group * sizeof(float);
  return ls_kernel_runs(plan, rows_loop, self,
                        ls_blocks_of(self->rows, self->rows_per_block));
}

ls_status kernel_softmax(ls_kernel_plan *plan) {
  plan->in_place = 1;
  return plan_rows(plan, LS_DTYPE_NONE);
}

ls_status kernel_cross_entropy(ls_kernel_plan *plan) {
  const ls_dtype label = plan->in[1].dtype;
  if (!ls_dtype_is_integer(label)) return ls_kernel_unsupported(plan, label);
  if (plan->node->type == LS_OP_CROSS_ENTROPY_GRAD) plan->in_place = 1;
  const ls_shape logits = plan->in[0].shape;
  plan->labels = 1;
  plan->num_classes = logits.rank > 0 ? logits.dim[logits.rank - 1] : 0;
  return plan_rows(plan, label);
}
