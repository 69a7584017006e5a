// SPDX-License-Identifier: Apache-2.0
// Clipping of gradients. Norms are f64 scalars: sums of squares are taken in
// the gradient's type, 16-bit floats in f32, and added up in f64.
#include "base/values/numbers.h"
#include "nn/optimizer.h"

static ls_tensor square_sum(ls_tensor x) {
  if (ls_is_half(ls_tensor_dtype(x))) x = ls_convert(x, LS_DTYPE_F32);
  return ls_convert(ls_reduce_sum(ls_square(x), LS_ALL_AXES), LS_DTYPE_F64);
}

// limit / max(sqrt(squares), limit): exactly 1 within the limit.
static ls_tensor factor_for(double limit, ls_tensor squares) {
  const ls_tensor bound = ls_scalar(LS_DTYPE_F64, limit);
  return ls_div(bound, ls_maximum(ls_sqrt(squares), bound));
}

ls_tensor ls_clip_one(const ls_clip *clip, ls_tensor gradient) {
  if (clip->value > 0) {
    const ls_dtype dtype = ls_tensor_dtype(gradient);
    gradient = ls_maximum(ls_minimum(gradient, ls_scalar(dtype, clip->value)),
                          ls_scalar(dtype, -clip->value));
  }
  if (clip->norm > 0)
    gradient =
        ls_update_scale(gradient, factor_for(clip->norm, square_sum(gradient)));
  return gradient;
}

void ls_clip_all(const ls_clip *clip, ls_tensor *gradients, size_t count,
                 ls_tensor *squares) {
  if (clip->global_norm == 0 || count == 0) return;
  for (size_t i = 0; i < count; ++i)
    squares[i] = square_sum(gradients[i]);
  const ls_tensor factor =
      factor_for(clip->global_norm, ls_add_n(squares, count));
  for (size_t i = 0; i < count; ++i)
    gradients[i] = ls_update_scale(gradients[i], factor);
}
