// SPDX-License-Identifier: Apache-2.0
//
// Reductions of short rows: by the kernel table where it has a loop for the
// type and length; otherwise some rows are transposed, so that elements of one
// position are adjacent and are reduced together.
#include "engine/cpu/kernels/reduce/short_rows.h"

// Rows transposed at a time.
enum { TURNED = 128 };

typedef struct short_params {
  const ls_reducer *reduce;
  size_t element;  // Bytes of an element of the arrays.
  ls_dtype half;   // f16 or bf16 (reduced in f32 by the table), or NONE.
  int64_t run, rows, rows_per_block;
  ls_cpu_rows_of_fn *of_table;
  // t[j][i] = rows[i][j].
  void (*transpose)(void *t, const void *rows, int64_t num_rows, int64_t run);
} short_params;

static void table_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const short_params *self = call->params;
  const int64_t begin = begin_block * self->rows_per_block;
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->rows);
  if (begin >= end) return;
  const char *rows =
      (const char *)call->in[0] + (size_t)(begin * self->run) * self->element;
  char *out = (char *)call->out[0] + (size_t)begin * self->element;
  if (self->half == LS_DTYPE_NONE) {
    self->of_table(out, rows, end - begin);
    return;
  }
  float sums[TURNED], *wide = call->scratch;
  int64_t n = 0;
  for (int64_t i = 0; i < end - begin; i += n) {
    n = ls_min_i64(TURNED, end - begin - i);
    ls_widen(self->half, wide,
             (const uint16_t *)(const void *)rows + i * self->run,
             n * self->run);
    self->of_table(sums, wide, n);
    ls_narrow(self->half, (uint16_t *)(void *)out + i, sums, n);
  }
}

#define TURN(name, bytes, T)                                                   \
  static void name##_##bytes(void *t, const void *rows, int64_t num_rows,      \
                             int64_t run) {                                    \
    T *to = t;                                                                 \
    const T *from = rows;                                                      \
    for (int64_t j = 0; j < run; ++j)                                          \
      for (int64_t i = 0; i < num_rows; ++i)                                   \
        *to++ = from[i * run + j];                                             \
  }
LS_EACH_SIZE(TURN, transpose)

// Reduces n transposed rows to n sums: element j takes in element j + 8, j + 4,
// j + 2, j + 1.
static void reduce_turned(const short_params *self, char *sums,
                          const char *turned, int64_t n) {
  const size_t step = (size_t)n * self->reduce->size;
  int64_t lanes = self->run;
  self->reduce->fill(sums, lanes * n);
  self->reduce->rows(sums, turned, 1, 0, lanes * n);
  for (int64_t half = LS_SHORT_ROW / 2; half > 0; half /= 2) {
    if (lanes <= half) continue;
    self->reduce->rows(sums, sums + (size_t)half * step, 1, 0,
                       (lanes - half) * n);
    lanes = half;
  }
}

// Scratch: sums and the transposed rows.
static void turned_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const short_params *self = call->params;
  const size_t part = (size_t)(TURNED * self->run) * self->reduce->size;
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->rows);
  char *sums = call->scratch, *turned = sums + part;
  int64_t n = 0;
  for (int64_t i = begin_block * self->rows_per_block; i < end; i += n) {
    n = ls_min_i64(TURNED, end - i);
    const void *rows =
        (const char *)call->in[0] + (size_t)(i * self->run) * self->element;
    void *out = (char *)call->out[0] + (size_t)i * self->element;
    self->transpose(turned, rows, n, self->run);
    reduce_turned(self, sums, turned, n);
    memcpy(out, sums, (size_t)n * self->element);
  }
}

static void choose_turn(short_params *self) {
  switch (self->reduce->size) {
#define CASE(unused, size, T)                                                  \
  case size:                                                                   \
    self->transpose = transpose_##size;                                        \
    break;
    LS_EACH_SIZE(CASE, )
#undef CASE
  default:
    break;
  }
}

static ls_cpu_rows_of_fn *find_in_table(const ls_kernel_plan *plan,
                                        int64_t run) {
  const ls_cpu_short_rows *table = plan->kernels->short_rows;
  const ls_dtype dtype = ls_wide_dtype(plan->in[0].dtype);
  switch (plan->node->type) {
  case LS_OP_REDUCE_MAX:
    return table->max[dtype][run];
  case LS_OP_REDUCE_MIN:
    return table->min[dtype][run];
  case LS_OP_REDUCE_SUM:
    return table->sum[dtype][run];
  case LS_OP_REDUCE_PRODUCT:
    return table->product[dtype][run];
  default:
    return NULL;
  }
}

ls_status ls_short_rows_plan(ls_kernel_plan *plan, const ls_reducer *reduce,
                             int64_t run) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, short_params, self);
  const ls_dtype dtype = plan->in[0].dtype;
  *self = (short_params){
      .reduce = reduce,
      .element = ls_dtype_size(dtype),
      .half = ls_is_half(dtype) ? dtype : LS_DTYPE_NONE,
      .run = run,
      .rows = ls_shape_num_elements(plan->out[0].shape),
      .rows_per_block = ls_max_i64(1, LS_BLOCK / run),
      .of_table = find_in_table(plan, run),
  };
  plan->params = self;
  plan->blocks = ls_blocks_of(self->rows, self->rows_per_block);
  plan->loop = self->of_table != NULL ? table_loop : turned_loop;
  plan->scratch = 2 * (size_t)(TURNED * run) * reduce->size;
  if (self->of_table == NULL) choose_turn(self);
  return ls_ok();
}
