// SPDX-License-Identifier: Apache-2.0
//
// vec.h in plain C: a vector is an array. The reference for the others, and the
// implementation on machines without FMA: slow there, as fmaf is then a call.
// So the functions are calls too, and their callers are neither expanded in
// place nor unrolled (vec.h), which took compilers minutes and made nothing
// faster.

#ifndef LS_ENGINE_CPU_ISA_VEC_PLAIN_H_
#define LS_ENGINE_CPU_ISA_VEC_PLAIN_H_

#include <math.h>
#include <string.h>

typedef struct {
  float at[VF_LANES];
} vf;
typedef struct {
  int32_t at[VF_LANES];
} vi;
typedef struct {
  bool at[VF_LANES];
} vm;
typedef struct {
  double at[VD_LANES];
} vd;

#define VF_STREAMS 0
#define VF_CONVERTS_F16 0

#define LS_PLAIN static __attribute__((noinline, unused))

// Defines a function whose lane i is `expression`.
#define LS_LANES(type, count, name, parameters, expression)                    \
  LS_PLAIN type name parameters {                                              \
    type r;                                                                    \
    for (int i = 0; i < (count); ++i)                                          \
      r.at[i] = (expression);                                                  \
    return r;                                                                  \
  }
#define LS_VF(name, parameters, expression)                                    \
  LS_LANES(vf, VF_LANES, name, parameters, expression)
#define LS_VI(name, parameters, expression)                                    \
  LS_LANES(vi, VF_LANES, name, parameters, expression)
#define LS_VM(name, parameters, expression)                                    \
  LS_LANES(vm, VF_LANES, name, parameters, expression)
#define LS_VD(name, parameters, expression)                                    \
  LS_LANES(vd, VD_LANES, name, parameters, expression)

LS_VF(vf_load, (const float *p), p[i])
LS_VF(vf_load_n, (const float *p, size_t n), (size_t)i < n ? p[i] : 0.0f)
LS_VF(vf_set1, (float x), x)
LS_VF(vf_zero, (void), 0.0f)
LS_PLAIN void vf_store(float *p, vf v) { memcpy(p, v.at, sizeof v.at); }
LS_PLAIN void vf_stream(float *p, vf v) { vf_store(p, v); }
LS_PLAIN void vf_stream_end(void) {}
LS_PLAIN void vf_store_n(float *p, size_t n, vf v) {
  for (size_t i = 0; i < n; ++i)
    p[i] = v.at[i];
}

LS_VF(vf_add, (vf a, vf b), a.at[i] + b.at[i])
LS_VF(vf_sub, (vf a, vf b), a.at[i] - b.at[i])
LS_VF(vf_mul, (vf a, vf b), a.at[i] * b.at[i])
LS_VF(vf_div, (vf a, vf b), a.at[i] / b.at[i])
LS_VF(vf_sqrt, (vf a), sqrtf(a.at[i]))
LS_VF(vf_max, (vf a, vf b), a.at[i] > b.at[i] ? a.at[i] : b.at[i])
LS_VF(vf_min, (vf a, vf b), a.at[i] < b.at[i] ? a.at[i] : b.at[i])
// a * b + c, rounded once.
LS_VF(vf_fma, (vf a, vf b, vf c), fmaf(a.at[i], b.at[i], c.at[i]))
// c - a * b, rounded once. A NaN keeps its sign, as it does in a vector.
LS_VF(vf_fnma, (vf a, vf b, vf c),
      fmaf(a.at[i] != a.at[i] ? a.at[i] : -a.at[i], b.at[i], c.at[i]))

LS_VM(vf_lt, (vf a, vf b), a.at[i] < b.at[i])
LS_VM(vf_eq, (vf a, vf b), a.at[i] == b.at[i])
LS_VM(vf_is_nan, (vf a), a.at[i] != a.at[i])
LS_VM(vf_above, (vf a, vf b), !(a.at[i] <= b.at[i]) && b.at[i] == b.at[i])
// a where m, else b.
LS_VF(vf_select, (vm m, vf a, vf b), m.at[i] ? a.at[i] : b.at[i])
// v in the first n lanes, `rest` in the others.
LS_VF(vf_first_n, (size_t n, vf v, vf rest),
      (size_t)i < n ? v.at[i] : rest.at[i])

// Integers wrap around, so the arithmetic is unsigned.
LS_VI(vi_set1, (int32_t x), x)
LS_VI(vi_add, (vi a, vi b), (int32_t)((uint32_t)a.at[i] + (uint32_t)b.at[i]))
LS_VI(vi_sub, (vi a, vi b), (int32_t)((uint32_t)a.at[i] - (uint32_t)b.at[i]))
LS_VI(vi_and, (vi a, vi b), a.at[i] & b.at[i])
LS_VI(vi_or, (vi a, vi b), a.at[i] | b.at[i])
LS_VI(vi_shl, (vi a, unsigned s), (int32_t)((uint32_t)a.at[i] << s))
// Shifts arithmetically: the sign fills in from the left.
LS_VI(vi_shr, (vi a, unsigned s), a.at[i] >> s)
LS_VF(vi_to_float, (vi a), (float)a.at[i])

LS_PLAIN vi vf_bits(vf a) {
  vi r;
  memcpy(r.at, a.at, sizeof r.at);
  return r;
}
LS_PLAIN vf vi_as_float(vi a) {
  vf r;
  memcpy(r.at, a.at, sizeof r.at);
  return r;
}

LS_VF(vf_abs, (vf a), fabsf(a.at[i]))
LS_VF(vf_copysign, (vf magnitude, vf sign),
      copysignf(magnitude.at[i], sign.at[i]))

LS_PLAIN float vf_sum(vf a) {
  for (int w = VF_LANES / 2; w > 0; w /= 2) {
    for (int i = 0; i < w; ++i)
      a.at[i] += a.at[i + w];
  }
  return a.at[0];
}
LS_PLAIN float vf_max_lane(vf a) {
  for (int w = VF_LANES / 2; w > 0; w /= 2) {
    for (int i = 0; i < w; ++i) {
      a.at[i] = a.at[i] > a.at[i + w] ? a.at[i] : a.at[i + w];
    }
  }
  return a.at[0];
}

LS_VD(vd_load, (const double *p), p[i])
LS_VD(vd_load_n, (const double *p, size_t n), (size_t)i < n ? p[i] : 0.0)
LS_VD(vd_set1, (double x), x)
LS_VD(vd_zero, (void), 0.0)
LS_PLAIN void vd_store(double *p, vd v) { memcpy(p, v.at, sizeof v.at); }
LS_PLAIN void vd_store_n(double *p, size_t n, vd v) {
  for (size_t i = 0; i < n; ++i)
    p[i] = v.at[i];
}
LS_VD(vd_add, (vd a, vd b), a.at[i] + b.at[i])
LS_VD(vd_sub, (vd a, vd b), a.at[i] - b.at[i])
LS_VD(vd_mul, (vd a, vd b), a.at[i] * b.at[i])
LS_VD(vd_max, (vd a, vd b), a.at[i] > b.at[i] ? a.at[i] : b.at[i])
// a where it is a NaN, else b.
LS_VD(vd_nan_or, (vd a, vd b), a.at[i] != a.at[i] ? a.at[i] : b.at[i])
LS_VD(vd_fma, (vd a, vd b, vd c), fma(a.at[i], b.at[i], c.at[i]))
// v where `by` is above 0, else 0.
LS_VD(vd_where_positive, (vd v, vd by), by.at[i] > 0.0 ? v.at[i] : 0.0)
LS_VD(vd_first_n, (size_t n, vd v, vd rest),
      (size_t)i < n ? v.at[i] : rest.at[i])
LS_PLAIN double vd_sum(vd a) {
  for (int w = VD_LANES / 2; w > 0; w /= 2) {
    for (int i = 0; i < w; ++i)
      a.at[i] += a.at[i + w];
  }
  return a.at[0];
}

#undef LS_PLAIN
#undef LS_LANES
#undef LS_VF
#undef LS_VI
#undef LS_VM
#undef LS_VD

#endif  // LS_ENGINE_CPU_ISA_VEC_PLAIN_H_
