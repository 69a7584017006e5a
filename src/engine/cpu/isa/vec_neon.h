// SPDX-License-Identifier: Apache-2.0
//
// vec.h on AArch64: a vector is four registers, lanes 4 q to 4 q + 3 in at[q].

#ifndef LS_ENGINE_CPU_ISA_VEC_NEON_H_
#define LS_ENGINE_CPU_ISA_VEC_NEON_H_

#include <arm_neon.h>

typedef struct {
  float32x4_t at[4];
} vf;
typedef struct {
  int32x4_t at[4];
} vi;
typedef struct {
  uint32x4_t at[4];
} vm;
typedef struct {
  float64x2_t at[4];
} vd;

#define VF_STREAMS 0
#define VF_CONVERTS_F16 0

// Defines a function whose register q is `expression`.
#define LS_PARTS(type, name, parameters, expression)                           \
  LS_INLINE type name parameters {                                             \
    type r;                                                                    \
    LS_UNROLL                                                                  \
    for (int q = 0; q < 4; ++q)                                                \
      r.at[q] = (expression);                                                  \
    return r;                                                                  \
  }

LS_PARTS(vf, vf_load, (const float *p), vld1q_f32(p + 4 * q))
LS_INLINE void vf_store(float *p, vf v) {
  for (int q = 0; q < 4; ++q)
    vst1q_f32(p + 4 * q, v.at[q]);
}
LS_INLINE void vf_stream(float *p, vf v) { vf_store(p, v); }
LS_INLINE void vf_stream_end(void) {}
LS_INLINE vf vf_load_n(const float *p, size_t n) {
  float lanes[VF_LANES] = {0};
  for (size_t i = 0; i < n; ++i)
    lanes[i] = p[i];
  return vf_load(lanes);
}
LS_INLINE void vf_store_n(float *p, size_t n, vf v) {
  float lanes[VF_LANES];
  vf_store(lanes, v);
  for (size_t i = 0; i < n; ++i)
    p[i] = lanes[i];
}
LS_PARTS(vf, vf_set1, (float x), vdupq_n_f32(x))
LS_PARTS(vf, vf_zero, (void), vdupq_n_f32(0.0f))

LS_PARTS(vf, vf_add, (vf a, vf b), vaddq_f32(a.at[q], b.at[q]))
LS_PARTS(vf, vf_sub, (vf a, vf b), vsubq_f32(a.at[q], b.at[q]))
LS_PARTS(vf, vf_mul, (vf a, vf b), vmulq_f32(a.at[q], b.at[q]))
LS_PARTS(vf, vf_div, (vf a, vf b), vdivq_f32(a.at[q], b.at[q]))
LS_PARTS(vf, vf_sqrt, (vf a), vsqrtq_f32(a.at[q]))
// The machine's own max and min differ for NaNs and zeros.
LS_PARTS(vf, vf_max, (vf a, vf b),
         vbslq_f32(vcgtq_f32(a.at[q], b.at[q]), a.at[q], b.at[q]))
LS_PARTS(vf, vf_min, (vf a, vf b),
         vbslq_f32(vcltq_f32(a.at[q], b.at[q]), a.at[q], b.at[q]))
// a * b + c, rounded once.
LS_PARTS(vf, vf_fma, (vf a, vf b, vf c), vfmaq_f32(c.at[q], a.at[q], b.at[q]))
// c - a * b, rounded once.
LS_PARTS(vf, vf_fnma, (vf a, vf b, vf c), vfmsq_f32(c.at[q], a.at[q], b.at[q]))

LS_PARTS(vm, vf_lt, (vf a, vf b), vcltq_f32(a.at[q], b.at[q]))
LS_PARTS(vm, vf_eq, (vf a, vf b), vceqq_f32(a.at[q], b.at[q]))
LS_PARTS(vm, vf_is_nan, (vf a), vmvnq_u32(vceqq_f32(a.at[q], a.at[q])))
LS_PARTS(vm, vf_above, (vf a, vf b),
         vbicq_u32(vceqq_f32(b.at[q], b.at[q]), vcleq_f32(a.at[q], b.at[q])))
// a where m, else b.
LS_PARTS(vf, vf_select, (vm m, vf a, vf b),
         vbslq_f32(m.at[q], a.at[q], b.at[q]))

LS_PARTS(vi, vi_set1, (int32_t x), vdupq_n_s32(x))
LS_PARTS(vi, vi_add, (vi a, vi b), vaddq_s32(a.at[q], b.at[q]))
LS_PARTS(vi, vi_sub, (vi a, vi b), vsubq_s32(a.at[q], b.at[q]))
LS_PARTS(vi, vi_and, (vi a, vi b), vandq_s32(a.at[q], b.at[q]))
LS_PARTS(vi, vi_or, (vi a, vi b), vorrq_s32(a.at[q], b.at[q]))
LS_PARTS(vi, vi_shl, (vi a, unsigned s),
         vshlq_s32(a.at[q], vdupq_n_s32((int32_t)s)))
// Shifts arithmetically: the sign fills in from the left.
LS_PARTS(vi, vi_shr, (vi a, unsigned s),
         vshlq_s32(a.at[q], vdupq_n_s32(-(int32_t)s)))
LS_PARTS(vf, vi_to_float, (vi a), vcvtq_f32_s32(a.at[q]))
LS_PARTS(vi, vf_bits, (vf a), vreinterpretq_s32_f32(a.at[q]))
LS_PARTS(vf, vi_as_float, (vi a), vreinterpretq_f32_s32(a.at[q]))

// v in the first n lanes, `rest` in the others.
LS_INLINE vf vf_first_n(size_t n, vf v, vf rest) {
  float lanes[VF_LANES];
  vf_store(lanes, rest);
  vf_store_n(lanes, n, v);
  return vf_load(lanes);
}
LS_PARTS(vf, vf_abs, (vf a), vabsq_f32(a.at[q]))
LS_PARTS(vf, vf_copysign, (vf magnitude, vf sign),
         vbslq_f32(vdupq_n_u32(0x80000000u), sign.at[q], magnitude.at[q]))

LS_INLINE float vf_sum(vf a) {
  const float32x4_t s4 =
      vaddq_f32(vaddq_f32(a.at[0], a.at[2]), vaddq_f32(a.at[1], a.at[3]));
  const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
  return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}
LS_INLINE float vf_max_lane(vf a) {
  float lanes[VF_LANES];
  vf_store(lanes, a);
  for (int w = VF_LANES / 2; w > 0; w /= 2) {
    for (int i = 0; i < w; ++i) {
      lanes[i] = lanes[i] > lanes[i + w] ? lanes[i] : lanes[i + w];
    }
  }
  return lanes[0];
}

LS_PARTS(vd, vd_load, (const double *p), vld1q_f64(p + 2 * q))
LS_INLINE void vd_store(double *p, vd v) {
  for (int q = 0; q < 4; ++q)
    vst1q_f64(p + 2 * q, v.at[q]);
}
LS_INLINE vd vd_load_n(const double *p, size_t n) {
  double lanes[VD_LANES] = {0};
  for (size_t i = 0; i < n; ++i)
    lanes[i] = p[i];
  return vd_load(lanes);
}
LS_INLINE void vd_store_n(double *p, size_t n, vd v) {
  double lanes[VD_LANES];
  vd_store(lanes, v);
  for (size_t i = 0; i < n; ++i)
    p[i] = lanes[i];
}
LS_PARTS(vd, vd_set1, (double x), vdupq_n_f64(x))
LS_PARTS(vd, vd_zero, (void), vdupq_n_f64(0.0))
LS_PARTS(vd, vd_add, (vd a, vd b), vaddq_f64(a.at[q], b.at[q]))
LS_PARTS(vd, vd_sub, (vd a, vd b), vsubq_f64(a.at[q], b.at[q]))
LS_PARTS(vd, vd_mul, (vd a, vd b), vmulq_f64(a.at[q], b.at[q]))
LS_PARTS(vd, vd_max, (vd a, vd b),
         vbslq_f64(vcgtq_f64(a.at[q], b.at[q]), a.at[q], b.at[q]))
// a where it is a NaN, else b.
LS_PARTS(vd, vd_nan_or, (vd a, vd b),
         vbslq_f64(vceqq_f64(a.at[q], a.at[q]), b.at[q], a.at[q]))
LS_PARTS(vd, vd_fma, (vd a, vd b, vd c), vfmaq_f64(c.at[q], a.at[q], b.at[q]))
// v where `by` is above 0, else 0.
LS_PARTS(vd, vd_where_positive, (vd v, vd by),
         vbslq_f64(vcgtq_f64(by.at[q], vdupq_n_f64(0.0)), v.at[q],
                   vdupq_n_f64(0.0)))
LS_INLINE vd vd_first_n(size_t n, vd v, vd rest) {
  double lanes[VD_LANES];
  vd_store(lanes, rest);
  vd_store_n(lanes, n, v);
  return vd_load(lanes);
}
LS_INLINE double vd_sum(vd a) {
  const float64x2_t s2 =
      vaddq_f64(vaddq_f64(a.at[0], a.at[2]), vaddq_f64(a.at[1], a.at[3]));
  return vgetq_lane_f64(s2, 0) + vgetq_lane_f64(s2, 1);
}

#undef LS_PARTS

#endif  // LS_ENGINE_CPU_ISA_VEC_NEON_H_
