// SPDX-License-Identifier: Apache-2.0
//
// Softmax along the last axis, and the cross-entropy built on it.
//
// The kernel table computes f32 rows, and 16-bit ones, widened a group at a
// time. f64 rows follow the same steps and the same order of addition. An
// invalid label makes its row NaN, but a run with one fails earlier.
#include <math.h>

#include "engine/cpu/elementary/f64math.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// Rows passed to the kernel table at a time.
enum { GROUP = 16 };

typedef struct rows_params {
  int64_t rows, columns, rows_per_block;
  const ls_cpu_kernels *kernels;
  uint16_t op;
  ls_dtype dtype, label;
} rows_params;

// ---- f64 -------------------------------------------------------------------
static double max_f64(const double *x, int64_t n) {
  double top = -(double)INFINITY;
  for (int64_t i = 0; i < n; ++i)
    top = x[i] > top ? x[i] : top;
  return top;
}

void ls_softmax_f64(const ls_cpu_kernels *kernels, double *y, const double *x,
                    int64_t n) {
  const double sum = kernels->exp_above(y, x, max_f64(x, n), (size_t)n);
  const double factor = 1.0 / sum;
  for (int64_t i = 0; i < n; ++i)
    y[i] *= factor;
}

static double log_sum_f64(const ls_cpu_kernels *kernels, const double *x,
                          int64_t n, double max) {
  return ls_f64_log(kernels->exp_above(NULL, x, max, (size_t)n));
}

static void log_softmax_f64(const ls_cpu_kernels *kernels, double *y,
                            const double *x, int64_t n) {
  const double max = max_f64(x, n), log_sum = log_sum_f64(kernels, x, n, max);
  for (int64_t i = 0; i < n; ++i)
    y[i] = x[i] - max - log_sum;
}

static double loss_f64(const ls_cpu_kernels *kernels, const double *x,
                       int64_t n, int32_t label) {
  if (label < 0 || label >= n) return (double)NAN;
  const double max = max_f64(x, n);
  return log_sum_f64(kernels, x, n, max) - (x[label] - max);
}

static void loss_grad_f64(const ls_cpu_kernels *kernels, double *y,
                          const double *x, int64_t n, int32_t label,
                          double scale) {
  const bool is_class = label >= 0 && label < n;
  const double sum = kernels->exp_above(y, x, max_f64(x, n), (size_t)n);
  const double factor = is_class ? 1.0 / sum : (double)NAN;
  for (int64_t i = 0; i < n; ++i) {
    const double p = y[i] * factor;
    y[i] = (i == label ? p - 1.0 : p) * scale;
  }
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

static void rows_f64(const rows_params *self, const rows_work *work) {
  const int64_t n = self->columns;
  const double *scale = work->scale;
  for (int64_t i = 0; i < work->rows; ++i) {
    double *out = work->out;
    const double *x = (const double *)work->logits + i * n;
    switch (self->op) {
    case LS_OP_SOFTMAX:
      ls_softmax_f64(self->kernels, out + i * n, x, n);
      break;
    case LS_OP_LOG_SOFTMAX:
      log_softmax_f64(self->kernels, out + i * n, x, n);
      break;
    case LS_OP_CROSS_ENTROPY:
      out[i] = loss_f64(self->kernels, x, n, work->labels[i]);
      break;
    default:
      loss_grad_f64(self->kernels, out + i * n, x, n, work->labels[i],
                    scale[i]);
      break;
    }
  }
}

static void rows_f32(const rows_params *self, const rows_work *work) {
  const ls_cpu_kernels *kernels = self->kernels;
  const size_t rows = (size_t)work->rows, columns = (size_t)self->columns;
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

// Computes at most GROUP rows, as f32 in the scratch.
static void rows_half(const rows_params *self, const rows_work *work,
                      float *scratch) {
  float scale[GROUP];
  const int64_t columns = self->columns;
  float *results = scratch + GROUP * columns;
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
  for (int64_t i = begin_block * self->rows_per_block; i < end; i += GROUP) {
    int32_t labels[GROUP];
    const size_t row = (size_t)i;
    rows_work work = {
        .out = (char *)call->out[0] + row * width * element,
        .logits =
            (const char *)call->in[0] + row * (size_t)self->columns * element,
        .labels = labels,
        .rows = ls_min_i64(GROUP, end - i),
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
  const int64_t group = GROUP * ls_max_i64(1, self->columns);
  self->rows_per_block = GROUP * ls_max_i64(1, LS_BLOCK / group);
  plan->loop = rows_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->rows, self->rows_per_block);
  if (ls_is_half(type.dtype)) plan->scratch = 2 * (size_t)group * sizeof(float);
  return ls_ok();
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
