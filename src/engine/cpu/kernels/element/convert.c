// SPDX-License-Identifier: Apache-2.0
//
// Conversions between types.
//
// Floats to integers: towards zero, saturating, NaN to 0. Integers to integers
// wrap around. To bool: true if not 0. To floats: to nearest even, rounded
// once, also where a 16-bit float is reached by way of f32.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// The integer types as targets: X(..., target, C type, least number, greatest
// number + 1). Both bounds are exact in any float.
#define EACH_TARGET(X, ...)                                                    \
  X(__VA_ARGS__, I8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)                        \
  X(__VA_ARGS__, I16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)                   \
  X(__VA_ARGS__, I32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)                   \
  X(__VA_ARGS__, I64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)                   \
  X(__VA_ARGS__, U8, uint8_t, 0, UINT8_MAX, 0x1p8)                             \
  X(__VA_ARGS__, U16, uint16_t, 0, UINT16_MAX, 0x1p16)                         \
  X(__VA_ARGS__, U32, uint32_t, 0, UINT32_MAX, 0x1p32)                         \
  X(__VA_ARGS__, U64, uint64_t, 0, UINT64_MAX, 0x1p64)

#define LOOP(name, S, T, expression)                                           \
  static void name(const ls_elementwise *self, void *out,                      \
                   const void *const *in, int64_t count) {                     \
    (void)self;                                                                \
    T *o = out;                                                                \
    const S *a = in[0];                                                        \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const S x = a[i];                                                        \
      o[i] = expression;                                                       \
    }                                                                          \
  }

#define FLOAT_TO_INTEGER(from, S, to, T, least, greatest, bound)               \
  LOOP(from##_to_##to, S, T,                                                   \
       x != x            ? (T)0                                                \
       : x >= (S)(bound) ? (T)(greatest)                                       \
       : x <= (S)(least) ? (T)(least)                                          \
                         : (T)x)
EACH_TARGET(FLOAT_TO_INTEGER, F32, float)
EACH_TARGET(FLOAT_TO_INTEGER, F64, double)

#define INTEGER_TO_INTEGER(from, S, to, T, least, greatest, bound)             \
  LOOP(from##_to_##to, S, T, (T)x)
#define BOOL_TO_INTEGER(from, S, to, T, least, greatest, bound)                \
  LOOP(from##_to_##to, S, T, (T)(x != 0))
// Defines the conversions of an integer to all targets and to bool.
#define FROM_INTEGER(unused, from, S, W)                                       \
  EACH_TARGET(INTEGER_TO_INTEGER, from, S)                                     \
  LOOP(from##_to_F32, S, float, (float)x)                                      \
  LOOP(from##_to_F64, S, double, (double)x)                                    \
  LOOP(from##_to_BOOL, S, uint8_t, x != 0)
LS_EACH_INTEGER(FROM_INTEGER, )
EACH_TARGET(BOOL_TO_INTEGER, BOOL, uint8_t)
LOOP(BOOL_to_F32, uint8_t, float, x != 0 ? 1.0F : 0.0F)
LOOP(BOOL_to_F64, uint8_t, double, x != 0 ? 1.0 : 0.0)
LOOP(F32_to_BOOL, float, uint8_t, x != 0)
LOOP(F64_to_BOOL, double, uint8_t, x != 0)
LOOP(F32_to_F64, float, double, (double)x)
LOOP(F64_to_F32, double, float, (float)x)

// Convert to f32 on the way to 16 bits, where f32 may not hold the number
// exactly.
LOOP(F64_to_odd, double, float, ls_odd_f32(x))
LOOP(I32_to_odd, int32_t, float, ls_odd_f32_of_i64(x))
LOOP(I64_to_odd, int64_t, float, ls_odd_f32_of_i64(x))
LOOP(U32_to_odd, uint32_t, float, ls_odd_f32_of_u64(x))
LOOP(U64_to_odd, uint64_t, float, ls_odd_f32_of_u64(x))

#define TO_INTEGER(from, to, ...) [LS_DTYPE_##to] = from##_to_##to,
#define INTEGERS(from) EACH_TARGET(TO_INTEGER, from)
#define FROM_INTEGER_ROW(unused, from, S, W)                                   \
  [LS_DTYPE_##from] = {                                                        \
      INTEGERS(from)[LS_DTYPE_F32] = from##_to_F32,                            \
      [LS_DTYPE_F64] = from##_to_F64, [LS_DTYPE_BOOL] = from##_to_BOOL},

static const ls_span spans[LS_DTYPE_COUNT][LS_DTYPE_COUNT] = {
    LS_EACH_INTEGER(FROM_INTEGER_ROW, )[LS_DTYPE_BOOL] =
        {INTEGERS(BOOL)[LS_DTYPE_F32] = BOOL_to_F32, [LS_DTYPE_F64] =
                                                         BOOL_to_F64},
    [LS_DTYPE_F32] =
        {INTEGERS(F32)[LS_DTYPE_F64] = F32_to_F64, [LS_DTYPE_BOOL] =
                                                       F32_to_BOOL},
    [LS_DTYPE_F64] =
        {INTEGERS(F64)[LS_DTYPE_F32] = F64_to_F32, [LS_DTYPE_BOOL] =
                                                       F64_to_BOOL},
};

static ls_span span_to_half(ls_dtype from) {
  switch (from) {
  case LS_DTYPE_F64:
    return F64_to_odd;
  case LS_DTYPE_I32:
    return I32_to_odd;
  case LS_DTYPE_I64:
    return I64_to_odd;
  case LS_DTYPE_U32:
    return U32_to_odd;
  case LS_DTYPE_U64:
    return U64_to_odd;
  default:
    return spans[from][LS_DTYPE_F32];
  }
}

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
  *self = (half_convert){
      .count = ls_shape_num_elements(plan->out[0].shape),
      .from = from,
      .to = to,
      .from_size = ls_dtype_size(from),
      .to_size = ls_dtype_size(to),
      .before = ls_is_half(from) ? NULL : span_to_half(from),
      .after = ls_is_half(to) ? NULL : spans[LS_DTYPE_F32][to],
  };
  plan->loop = half_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->count, LS_BLOCK);
  plan->scratch = (size_t)LS_CHUNK * sizeof(float);
  if (self->from_size == self->to_size) plan->in_place = 1;
  return ls_ok();
}

ls_status kernel_convert(ls_kernel_plan *plan) {
  const ls_dtype from = plan->in[0].dtype, to = plan->out[0].dtype;
  if (!ls_is_plain(from)) return ls_kernel_unsupported(plan, from);
  if (!ls_is_plain(to)) return ls_kernel_unsupported(plan, to);
  if (from == to) return kernel_copy(plan);
  if (ls_is_half(from) || ls_is_half(to)) return plan_half(plan, from, to);
  return ls_elementwise_plan(plan, (ls_elementwise){.span = spans[from][to]});
}
