// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/loops.h"

#include <math.h>

ls_status ls_kernel_unsupported(const ls_kernel_plan *plan, ls_dtype dtype) {
  return ls_unimplemented("op '%s' has no CPU kernel for %s",
                          ls_node_info(plan->node)->name, ls_dtype_name(dtype));
}

// ---- 16-bit floats ---------------------------------------------------------
// Uses the best table, whatever table the engine uses: the bits are the same.
void ls_widen(ls_dtype half, float *out, const uint16_t *in, int64_t count) {
  const ls_cpu_kernels *kernels = ls_cpu_kernels_best();
  (half == LS_DTYPE_F16 ? kernels->widen_f16
                        : kernels->widen_bf16)(out, in, (size_t)count);
}

void ls_narrow(ls_dtype half, uint16_t *out, const float *in, int64_t count) {
  const ls_cpu_kernels *kernels = ls_cpu_kernels_best();
  (half == LS_DTYPE_F16 ? kernels->narrow_f16
                        : kernels->narrow_bf16)(out, in, (size_t)count);
}

void ls_copy(void *out, const void *in, size_t bytes) {
  const ls_cpu_move row = {1, (int64_t)bytes, 0, 1, 0, 1};
  ls_cpu_kernels_best()->moves->of_size[1](out, in, &row);
}

void ls_copy_operand(const ls_kernel_call *call, size_t begin, size_t bytes) {
  const char *in = call->in[0];
  char *out = call->out[0];
  if (out != in) ls_copy(out + begin, in + begin, bytes);
}

float ls_odd_f32_of_u64(uint64_t value) {
  // Folds the last bits of more than 53 into one, so that a double holds the
  // rest exactly.
  if (value >> 53 != 0) value = (value >> 11 | ((value & 2047U) != 0)) << 11;
  return ls_odd_f32_of_f64((double)value);
}

float ls_odd_f32_of_i64(int64_t value) {
  if (value >= 0) return ls_odd_f32_of_u64((uint64_t)value);
  return -ls_odd_f32_of_u64(0 - (uint64_t)value);
}

// ---- Elementwise work ------------------------------------------------------
static inline const void *element_at(const void *base, int64_t index,
                                     uint32_t size) {
  return (const char *)base + (size_t)index * size;
}

static bool is_in_place(const ls_kernel_call *call, uint32_t num_in) {
  for (uint32_t i = 0; i < num_in; ++i)
    if (call->in[i] == call->out[0]) return true;
  return false;
}

void ls_elementwise_loop(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block) {
  const ls_elementwise *self = call->params;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  const bool streams =
      self->streams != NULL && !is_in_place(call, self->num_in);
  const int64_t tile = LS_STREAM_TILE / self->out_size;
  int64_t count = 0;
  for (int64_t k = begin_block * LS_BLOCK; k < end; k += count) {
    count = streams ? ls_min_i64(tile, end - k) : end - k;
    const void *in[3];
    for (uint32_t i = 0; i < self->num_in; ++i) {
      const bool scalar = (self->scalars >> i & 1U) != 0;
      in[i] = element_at(call->in[i], scalar ? 0 : k, self->in_size[i]);
    }
    void *out = (char *)call->out[0] + (size_t)k * self->out_size;
    self->span(self, streams ? call->scratch : out, in, count);
    if (streams)
      self->streams->stream(out, call->scratch, (size_t)count * self->out_size);
  }
  if (streams) self->streams->stream_end();
}

void ls_half_chunk(const ls_elementwise *self, void *out, const void *const *in,
                   int64_t count, void *scratch) {
  float *chunks = scratch, *result = chunks + self->num_in * LS_CHUNK;
  const void *wide[3];
  for (uint32_t i = 0; i < self->num_in; ++i) {
    float *chunk = chunks + i * LS_CHUNK;
    const bool scalar = (self->scalars >> i & 1U) != 0;
    ls_widen(self->half, chunk, in[i], scalar ? 1 : count);
    wide[i] = chunk;
  }
  self->span(self, self->out_is_half ? result : out, wide, count);
  if (self->out_is_half) ls_narrow(self->half, out, result, count);
}

void ls_half_loop(const ls_kernel_call *call, int64_t begin_block,
                  int64_t end_block) {
  const ls_elementwise *self = call->params;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  for (int64_t k = begin_block * LS_BLOCK; k < end; k += LS_CHUNK) {
    const void *in[3];
    for (uint32_t i = 0; i < self->num_in; ++i)
      in[i] = element_at(call->in[i], (self->scalars >> i & 1U) != 0 ? 0 : k,
                         self->in_size[i]);
    ls_half_chunk(self, (char *)call->out[0] + (size_t)k * self->out_size, in,
                  ls_min_i64(LS_CHUNK, end - k), call->scratch);
  }
}

// Finds the size of input `i`, and if it is a scalar beside an output of rank 1
// or more. The only operand may have other dimensions of one element.
static ls_status place_operand(const ls_kernel_plan *plan, uint32_t i,
                               ls_elementwise *work) {
  const ls_shape shape = plan->in[i].shape;
  work->in_size[i] = (uint32_t)ls_dtype_size(plan->in[i].dtype);
  if (plan->num_in == 1 ? ls_shape_num_elements(shape) == work->count
                        : ls_shape_equal(shape, plan->out[0].shape))
    return ls_ok();
  work->scalars |= 1U << i;
  if (shape.rank == 0) return ls_ok();
  return ls_internal("lowered op '%s': operand %u is %s, the result %s",
                     ls_node_info(plan->node)->name, i,
                     LS_SHAPE_TEXT(plan->in[i].dtype, shape),
                     LS_SHAPE_TEXT(plan->out[0].dtype, plan->out[0].shape));
}

ls_status ls_elementwise_plan(ls_kernel_plan *plan, ls_elementwise work) {
  work.count = ls_shape_num_elements(plan->out[0].shape);
  work.num_in = (uint32_t)plan->num_in;
  work.out_size = (uint32_t)ls_dtype_size(plan->out[0].dtype);
  if (work.half == LS_DTYPE_NONE &&
      work.span == plan->kernels->spans->f32[plan->node->type])
    work.f32_op = plan->node->type;
  size_t bytes = (size_t)work.count * work.out_size;
  for (uint32_t i = 0; i < work.num_in; ++i) {
    LS_RETURN_IF_ERROR(place_operand(plan, i, &work));
    if ((work.scalars >> i & 1U) != 0) continue;
    bytes += (size_t)work.count * work.in_size[i];
    if (work.in_size[i] == work.out_size) plan->in_place |= 1U << i;
  }
  if (work.scalars == (1U << work.num_in) - 1)
    return ls_internal("lowered op '%s' repeats scalars to %s",
                       ls_node_info(plan->node)->name,
                       LS_SHAPE_TEXT(plan->out[0].dtype, plan->out[0].shape));
  plan->loop = ls_elementwise_loop;
  if (work.half != LS_DTYPE_NONE) {
    plan->loop = ls_half_loop;
    plan->scratch = LS_HALF_SCRATCH;
  } else if (ls_cpu_streams(plan->kernels, bytes)) {
    work.streams = plan->kernels;
    plan->scratch = LS_STREAM_TILE;
  }
  plan->blocks = ls_blocks_of(work.count, LS_BLOCK);
  plan->params = ls_arena_copy(plan->arena, &work, sizeof(work));
  return plan->params == NULL ? ls_out_of_memory() : ls_ok();
}

static ls_span float_span_of(const ls_cpu_spans *spans, uint16_t op,
                             ls_dtype dtype) {
  switch (dtype) {
  case LS_DTYPE_F32:
    return spans->f32[op];
  case LS_DTYPE_F64:
    return spans->f64[op];
  case LS_DTYPE_BF16:
    return spans->bf16[op];
  case LS_DTYPE_F16:
    return spans->f16[op];
  default:
    return NULL;
  }
}

ls_span ls_span_of(uint16_t op, ls_dtype dtype, const ls_cpu_kernels *kernels) {
  ls_span span = float_span_of(kernels->spans, op, dtype);
  if (span == NULL) span = float_span_of(kernels->elementary, op, dtype);
  if (span == NULL) span = kernels->integer_spans->of[op][dtype];
  return span != NULL ? span : kernels->typed_spans->of[op][dtype];
}

ls_status kernel_elementwise(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[plan->num_in == 3 ? 1 : 0].dtype;
  const uint16_t op = plan->node->type;
  ls_elementwise work = {.span = ls_span_of(op, dtype, plan->kernels)};
  if (work.span == NULL && ls_is_half(dtype))
    work = (ls_elementwise){
        .span = ls_span_of(op, LS_DTYPE_F32, plan->kernels),
        .half = dtype,
        .out_is_half = ls_is_half(plan->out[0].dtype),
    };
  return work.span == NULL ? ls_kernel_unsupported(plan, dtype)
                           : ls_elementwise_plan(plan, work);
}

// ---- The column `kernel` of ops.def ----------------------------------------
// Ops that the compiler handles itself, and ops that lowering replaces.
#define kernel_engine NULL
#define kernel_none NULL

static const ls_kernel_prepare prepare_of[LS_OP_TABLE_COUNT] = {
#define LS_OP(id, name, inputs, traits, shape, gradient, lower, kernel, ...)   \
  [LS_OP_##id] = kernel_##kernel,
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP
};

ls_kernel_prepare ls_kernel_prepare_of(uint16_t op_type) {
  return op_type < LS_OP_TABLE_COUNT ? prepare_of[op_type] : NULL;
}
