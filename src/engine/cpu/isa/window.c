// SPDX-License-Identifier: Apache-2.0
//
// Rows of windows: maxima and their positions.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/pool.h"
#include "engine/cpu/kernels/loops.h"

// Runs BODY(i, LOAD, STORE) for each vector of n floats, which begins at i:
// whole ones, then the last one, of `left` lanes.
#define LS_ROW(n, BODY)                                                        \
  do {                                                                         \
    size_t at_ = 0;                                                            \
    for (; at_ + VF_LANES <= (n); at_ += VF_LANES)                             \
      BODY(at_, WHOLE_LOAD, WHOLE_STORE);                                      \
    left = (n)-at_;                                                            \
    if (left > 0) BODY(at_, PART_LOAD, PART_STORE);                            \
  } while (0)
#define WHOLE_LOAD(p) vf_load(p)
#define WHOLE_STORE(p, v) vf_store(p, v)
#define PART_LOAD(p) vf_load_n(p, left)
#define PART_STORE(p, v) vf_store_n(p, left, v)

static void compare_row(void *best, void *at, const void *in, int64_t tap,
                        int64_t count) {
  float *max = best, *where = at;
  const float *x = in;
  const vf number = vf_set1((float)tap);
  const size_t n = (size_t)count;
  size_t left = 0;
#define BODY(i, LOAD, STORE)                                                   \
  do {                                                                         \
    const vf old = LOAD(max + i), new = LOAD(x + i);                           \
    STORE(where + i, where_larger(old, new, number, LOAD(where + i)));         \
    STORE(max + i, where_larger(old, new, new, old));                          \
  } while (0)
  LS_ROW(n, BODY);
#undef BODY
}

static void give_row(void *out, const void *at, int64_t tap, const void *from,
                     int64_t count) {
  float *dx = out;
  const float *where = at, *dy = from;
  const vf number = vf_set1((float)tap);
  const size_t n = (size_t)count;
  size_t left = 0;
#define BODY(i, LOAD, STORE)                                                   \
  STORE(dx + i, vf_add(LOAD(dx + i), vf_select(vf_eq(LOAD(where + i), number), \
                                               LOAD(dy + i), vf_zero())))
  LS_ROW(n, BODY);
#undef BODY
}

static void give_four(void *const *out, const void *const *in, const void *from,
                      int64_t count) {
  const float *a = in[0], *b = in[1], *c = in[2], *d = in[3], *dy = from;
  float *da = out[0], *db = out[1], *dc = out[2], *dd = out[3];
  const vf zero = vf_zero();
  const size_t n = (size_t)count;
  size_t left = 0;
#define BODY(i, LOAD, STORE)                                                   \
  do {                                                                         \
    const vf va = LOAD(a + i), vb = LOAD(b + i), vc = LOAD(c + i);             \
    const vf vd_ = LOAD(d + i), g = LOAD(dy + i);                              \
    const vf top = where_larger(va, vb, vb, va);                               \
    const vf bottom = where_larger(vc, vd_, vd_, vc);                          \
    const vf above = where_larger(top, bottom, zero, g);                       \
    const vf below = where_larger(top, bottom, g, zero);                       \
    STORE(da + i, where_larger(va, vb, zero, above));                          \
    STORE(db + i, where_larger(va, vb, above, zero));                          \
    STORE(dc + i, where_larger(vc, vd_, zero, below));                         \
    STORE(dd + i, where_larger(vc, vd_, below, zero));                         \
  } while (0)
  LS_ROW(n, BODY);
#undef BODY
}

static void place_of_four(float *max, uint8_t *place, const float *const *in,
                          size_t n) {
  for (size_t i = 0; i < n; i += VF_LANES) {
    const vf x[4] = {vf_load(in[0] + i), vf_load(in[1] + i), vf_load(in[2] + i),
                     vf_load(in[3] + i)};
    pool_four(max + i, place + i, x);
  }
}

// ---- Doubles ---------------------------------------------------------------
// Loops that the compiler vectorizes.
#define IS_LARGER(old, new) (!((new) <= (old)) & ((old) == (old)))

static void compare_f64(void *best, void *at, const void *in, int64_t tap,
                        int64_t count) {
  double *restrict max = best, *restrict where = at;
  const double *restrict x = in;
  for (int64_t i = 0; i < count; ++i) {
    const bool larger = IS_LARGER(max[i], x[i]);
    max[i] = larger ? x[i] : max[i];
    where[i] = larger ? (double)tap : where[i];
  }
}

static void give_f64(void *out, const void *at, int64_t tap, const void *from,
                     int64_t count) {
  double *restrict dx = out;
  const double *restrict where = at, *restrict dy = from;
  for (int64_t i = 0; i < count; ++i)
    dx[i] += where[i] == (double)tap ? dy[i] : 0;
}

// Chunk by chunk, since an output may be on an operand.
static void give_four_f64(void *const *out, const void *const *in,
                          const void *from, int64_t count) {
  enum { CHUNK = 128 };
  double best[CHUNK], where[CHUNK];
  for (int64_t at = 0, n; at < count; at += n) {
    n = ls_min_i64(CHUNK, count - at);
    const double *restrict dy = (const double *)from + at;
    memcpy(best, (const double *)in[0] + at, (size_t)n * sizeof(double));
    memset(where, 0, sizeof(where));
    for (int k = 1; k < 4; ++k)
      compare_f64(best, where, (const double *)in[k] + at, k, n);
    for (int k = 0; k < 4; ++k) {
      double *restrict dx = (double *)out[k] + at;
      for (int64_t i = 0; i < n; ++i)
        dx[i] = where[i] == (double)k ? dy[i] : 0;
    }
  }
}

const ls_cpu_windows LS_ISA_NAME(ls_cpu_windows)[2] = {
    {.compare = compare_row,
     .give = give_row,
     .give_four = give_four,
     .place_of_four = place_of_four},
    {.compare = compare_f64, .give = give_f64, .give_four = give_four_f64},
};
