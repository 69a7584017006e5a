// SPDX-License-Identifier: Apache-2.0
//
// Conversions between types.
//
// Floats to integers: towards zero, saturating, NaN to 0. Integers to integers
// wrap around. To bool: true if not 0. To floats: to nearest even, rounded
// once, also where a 16-bit float is reached by way of f32.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// Conversions by way of f32, in chunks: from a 16-bit float, to one, or both.
typedef struct half_convert {
  int64_t count;
  ls_dtype from, to;
  size_t from_size, to_size;
  // To f32 and from it; NULL: no conversion on that side but that of the 16-bit
  // float.
  ls_span before, after;
} half_convert;

static void convert_chunk(const half_convert *self, void *out, const void *in,
                          float *chunk, int64_t count) {
  const void *numbers = chunk;
  if (ls_is_half(self->from))
    ls_widen(self->from, self->to == LS_DTYPE_F32 ? out : chunk, in, count);
  else if (self->before != NULL)
    self->before(NULL, chunk, &in, count);
  else
    numbers = in;
  if (ls_is_half(self->to))
    ls_narrow(self->to, out, numbers, count);
  else if (self->after != NULL)
    self->after(NULL, out, &numbers, count);
}

static void half_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const half_convert *self = call->params;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  for (int64_t k = begin_block * LS_BLOCK; k < end; k += LS_CHUNK)
    convert_chunk(self, (char *)call->out[0] + (size_t)k * self->to_size,
                  (const char *)call->in[0] + (size_t)k * self->from_size,
                  call->scratch, ls_min_i64(LS_CHUNK, end - k));
}

static ls_status plan_half(ls_kernel_plan *plan, ls_dtype from, ls_dtype to) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, half_convert, self);
  const ls_cpu_conversions *spans = plan->kernels->conversions;
  *self = (half_convert){
      .count = ls_shape_num_elements(plan->out[0].shape),
      .from = from,
      .to = to,
      .from_size = ls_dtype_size(from),
      .to_size = ls_dtype_size(to),
      .before = ls_is_half(from)              ? NULL
                : spans->to_odd[from] != NULL ? spans->to_odd[from]
                                              : spans->of[from][LS_DTYPE_F32],
      .after = ls_is_half(to) ? NULL : spans->of[LS_DTYPE_F32][to],
  };
  plan->scratch = (size_t)LS_CHUNK * sizeof(float);
  if (self->from_size == self->to_size) plan->in_place = 1;
  return ls_kernel_runs(plan, half_loop, self,
                        ls_blocks_of(self->count, LS_BLOCK));
}

ls_status kernel_convert(ls_kernel_plan *plan) {
  const ls_dtype from = plan->in[0].dtype, to = plan->out[0].dtype;
  if (!ls_is_plain(from)) return ls_kernel_unsupported(plan, from);
  if (!ls_is_plain(to)) return ls_kernel_unsupported(plan, to);
  if (from == to) return kernel_copy(plan);
  const ls_span span = plan->kernels->conversions->of[from][to];
  return span == NULL
             ? plan_half(plan, from, to)
             : ls_elementwise_plan(plan, (ls_elementwise){.span = span});
}
