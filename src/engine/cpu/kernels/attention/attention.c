// SPDX-License-Identifier: Apache-2.0
//
// Attention, and its gradient, head by head.
//
// A head is a range of columns of each token, so its matrices lie in their
// arrays with a pitch. The table's kernels of attention take a whole head of
// floats. f64, and floats with another product than the default, use the
// table's product, which reads the matrices in place: queries in bands whose
// scores stay in the cache; with causal attention a band computes only the keys
// up to its last query. The gradient computes the probabilities again, band
// after band from the last one, and adds up the bands' contributions to keys
// and values in that order: the first one uses all keys. Every product is one
// chain over its inner size; bands and blocks depend on the shape alone.
//
// 16-bit floats are widened, computed as f32 and rounded once.
#include <math.h>

#include "engine/cpu/kernels/attention/heads.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// Most scores of a band, least and most queries in it; multiply-adds of a
// block.
enum { SCORES = 32768, LEAST_BAND = 16, MOST_BAND = 128, BLOCK_WORK = 1 << 19 };
enum { CAUSAL_BAND = 32 };

// ---- Plan ------------------------------------------------------------------
static ls_cpu_head_place find_head_place(uint32_t operand, ls_shape shape,
                                         int64_t offset, int64_t width,
                                         int64_t heads) {
  return (ls_cpu_head_place){operand, offset, shape.dim[1], width / heads,
                             shape.dim[2]};
}

// Finds q, k and v among the operands from number `first` on: three operands,
// or one in which they are concatenated.
static void find_qkv(ls_cpu_attention_params *self, const ls_kernel_plan *plan,
                     uint32_t first) {
  ls_cpu_head_place *const places[] = {&self->q, &self->k, &self->v};
  ls_cpu_head_place *const results[] = {&self->dq, &self->dk, &self->dv};
  const bool packed = plan->num_in == first + 1;
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t number = packed ? 0 : i;
    const ls_shape shape = plan->in[first + number].shape;
    const int64_t width = packed ? shape.dim[2] / 3 : shape.dim[2];
    *places[i] = find_head_place(first + number, shape, packed ? i * width : 0,
                                 width, self->heads);
    *results[i] = *places[i];
    results[i]->operand = number;
  }
}

static int64_t band_of(const ls_cpu_attention_params *self) {
  const int64_t keys = ls_max_i64(1, self->k.rows);
  int64_t band = ls_min_i64(MOST_BAND, ls_max_i64(LEAST_BAND, SCORES / keys));
  if (self->causal) band = ls_min_i64(band, CAUSAL_BAND);
  return ls_min_i64(band, ls_max_i64(1, self->q.rows));
}

// Returns the most scratch that any product of the loops needs.
static size_t product_scratch(const ls_cpu_attention_params *self,
                              ls_cpu_product_scratch_fn *size_of) {
  const size_t queries = (size_t)self->band, keys = (size_t)self->k.rows;
  const size_t depth = (size_t)ls_max_i64(self->q.depth, self->v.depth);
  const ls_cpu_product products[] = {
      {.m = queries, .n = keys, .k = depth, .b_transposed = true},
      {.m = queries, .n = depth, .k = keys},
      {.m = keys,
       .n = depth,
       .k = queries,
       .a_transposed = true,
       .accumulate = true},
  };
  size_t size = 0;
  for (size_t i = 0; i < LS_COUNT_OF(products); ++i) {
    const size_t product_bytes = size_of(&products[i]);
    if (product_bytes > size) size = product_bytes;
  }
  return size;
}

static size_t table_scratch(const ls_cpu_attention_params *self,
                            const ls_cpu_kernels *kernels, bool gradient) {
  if (self->head_kernels == NULL)
    return product_scratch(self, self->dtype == LS_DTYPE_F64
                                     ? kernels->product_f64_scratch
                                     : kernels->product_scratch);
  const ls_cpu_head head = {.queries = (size_t)self->q.rows,
                            .keys = (size_t)self->k.rows,
                            .depth = (size_t)self->q.depth,
                            .value_depth = (size_t)self->v.depth};
  return self->head_kernels->scratch(&head, gradient);
}

static ls_status plan_attention(ls_kernel_plan *plan, uint32_t first,
                                ls_cpu_attention_params **out_self) {
  const ls_type type = plan->in[0];
  if (!ls_dtype_is_float(type.dtype))
    return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, ls_cpu_attention_params, self);
  const bool f64 = type.dtype == LS_DTYPE_F64;
  self->kernels = plan->kernels;
  self->norms = f64 ? plan->kernels->norms_f64 : plan->kernels->norms_f32;
  self->product = f64 ? plan->kernels->product_f64 : plan->kernels->product;
  self->dtype = type.dtype;
  self->element = ls_dtype_size(type.dtype);
  self->wide = f64 ? sizeof(double) : sizeof(float);
  self->heads = ls_node_int(plan->node, LS_ATTR_ID_NUM_HEADS);
  self->causal = ls_node_int(plan->node, LS_ATTR_ID_CAUSAL) != 0;
  find_qkv(self, plan, first);
  const ls_attr *scale = ls_node_attr(plan->node, LS_ATTR_ID_SCALE);
  self->scale = scale != NULL
                    ? scale->as.f
                    : 1.0 / sqrt((double)ls_max_i64(1, self->q.depth));
  if (!f64 && self->product == plan->kernels->product_f32)
    self->head_kernels = plan->kernels->attention;
  if (self->head_kernels != NULL)
    self->band = ls_max_i64(1, self->q.rows);
  else
    self->band = band_of(self);
  self->table_scratch = table_scratch(self, plan->kernels, first > 0);
  plan->params = self;
  *out_self = self;
  return ls_ok();
}

// Counts the scores of a head that are actually computed.
static double scores_of(const ls_cpu_attention_params *self) {
  const double rows = (double)self->q.rows, keys = (double)self->k.rows;
  if (!self->causal) return rows * keys;
  // In a band all queries use the keys of the last one; a whole head has no
  // bands.
  const double band = self->head_kernels != NULL ? 1 : (double)self->band;
  return rows * (rows + band) / 2;
}

static void set_blocks(ls_kernel_plan *plan, ls_cpu_attention_params *self,
                       double work, bool gradient) {
  // Without columns there is nothing to compute, whatever the number of heads.
  plan->blocks = 0;
  if (self->q.depth + self->v.depth == 0) return;
  self->units = plan->in[0].shape.dim[0] * self->heads;
  self->units_per_block = (int64_t)fmax(1, BLOCK_WORK / fmax(1, work));
  plan->blocks = ls_blocks_of(self->units, self->units_per_block);
  plan->flops = 2 * work * (double)self->units;
  plan->scratch = ls_cpu_attention_scratch(self, gradient);
}

ls_status kernel_attention(ls_kernel_plan *plan) {
  ls_cpu_attention_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_attention(plan, 0, &self));
  self->out = find_head_place(0, plan->out[0].shape, 0,
                              plan->out[0].shape.dim[2], self->heads);
  set_blocks(plan, self,
             scores_of(self) * (double)(self->q.depth + self->v.depth), false);
  plan->loop = ls_cpu_attend;
  return ls_ok();
}

// Operands: the result's gradient, then the operands of attention.
ls_status kernel_attention_grad(ls_kernel_plan *plan) {
  ls_cpu_attention_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_attention(plan, 1, &self));
  self->out = find_head_place(0, plan->in[0].shape, 0, plan->in[0].shape.dim[2],
                              self->heads);
  set_blocks(plan, self,
             scores_of(self) * (double)(3 * self->q.depth + 2 * self->v.depth),
             true);
  plan->loop = ls_cpu_attend_gradient;
  return ls_ok();
}
