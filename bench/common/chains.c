// SPDX-License-Identifier: Apache-2.0
#include "common/chains.h"

#include "engine/cpu/isa/vec.h"

#include "engine/cpu/isa/vecmath.h"

#define CHAIN(name, expression)                                                \
  void name(float *out, const float *x, const float *y, size_t count) {        \
    for (size_t i = 0; i < count; i += VF_LANES) {                             \
      const vf a = vf_load(x + i), b = vf_load(y + i);                         \
      vf_store(out + i, (expression));                                         \
    }                                                                          \
  }

LS_INLINE vf relu(vf v) { return vf_where_positive(v, v); }

LS_INLINE vf six_times(vf a, vf b) {
  vf t = a;
  LS_UNROLL
  for (int i = 0; i < 6; ++i)
    t = vf_add(vf_mul(t, a), b);
  return t;
}

CHAIN(chain_short, vf_sub(relu(vf_add(vf_mul(a, b), a)), b))
CHAIN(chain_cheap, six_times(a, b))
CHAIN(chain_scaled,
      vf_sub(a, vf_mul(vf_add(vf_mul(b, vf_set1(0.9f)), a), vf_set1(0.1f))))
CHAIN(chain_dear, vf_add(ls_vf_erf(vf_mul(a, b)), vf_mul(ls_vf_exp(b), a)))
