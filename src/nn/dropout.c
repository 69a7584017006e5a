// SPDX-License-Identifier: Apache-2.0
#include "graph/make/make.h"
#include "lockstep/layers.h"

// Numbers in [0, 1), as many as x has elements. They are a function of what
// random numbers depend on (see ls_random_options): replicas draw their own,
// unless the caller tells the ids of the examples.
static ls_tensor draw_like(ls_tensor x, const ls_random_options *random) {
  const ls_attr range[] = {LS_OWN_F(PAD_LOW, 0), LS_OWN_F(PAD_HIGH, 1)};
  return ls_make_random_like(LS_OP_RANDOM_UNIFORM, LS_DTYPE_F32, x, range, 2,
                             random);
}

ls_tensor ls_dropout(ls_tensor x, double rate, bool training,
                     const ls_random_options *random) {
  if (!(rate >= 0 && rate < 1))
    return ls_make_failed(
        "dropout", ls_invalid_argument("the rate must be from 0 to below 1, "
                                       "got %g",
                                       rate));
  if (!training || rate == 0 || ls_tensor_is_failed(x)) return x;
  ls_tensor result = ls_failed_tensor();
  {
    LS_NAME_SCOPE("dropout");
    const ls_tensor dropped =
        ls_less(draw_like(x, random), ls_scalar(LS_DTYPE_F32, rate));
    const ls_tensor zero = ls_scalar(ls_tensor_dtype(x), 0);
    result = ls_select(dropped, zero, ls_mul_scalar(x, 1 / (1 - rate)));
  }
  return result;
}
