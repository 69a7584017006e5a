// SPDX-License-Identifier: Apache-2.0
//
// ls_cpu_tap_sums for one element type: a template, included by taps_f32.c and
// taps_f64.c. It needs ELEM (the type), VEC and LANES (its vector), V(op) (the
// operation's name) and TAP_SUMS (the table's name).
//
// Registers hold the sums of a few pixels, or of a few taps, for a vector of
// channels, so that each number is loaded once for several products.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"

#if defined(__AVX512F__)
#define EACH_PIXELS(X) X(8) X(4) X(2) X(1)
#define EACH_TAPS(X) X(9) X(6) X(3) X(2) X(1)
#else
#define EACH_PIXELS(X) X(4) X(2) X(1)
#define EACH_TAPS(X) X(6) X(3) X(2) X(1)
#endif
enum { MOST_PIXELS = 8, MOST_TAPS = 9 };

LS_INLINE VEC load_part(const ELEM *p, bool partial, size_t lanes) {
  return partial ? V(load_n)(p, lanes) : V(load)(p);
}

LS_INLINE void store_part(ELEM *p, bool partial, size_t lanes, VEC v) {
  if (partial)
    V(store_n)(p, lanes, v);
  else
    V(store)(p, v);
}

// Ways to combine the values under taps: a product is rounded before it is
// added, or not, or the largest value is taken, where NaN is larger than any
// number.
enum { ROUND, FUSE, TAKE_LARGEST };

LS_INLINE VEC combine(VEC x, VEC w, VEC sum, int how) {
  if (how == TAKE_LARGEST) return V(nan_or)(x, V(max)(x, sum));
  return how == FUSE ? V(fma)(x, w, sum) : V(add)(sum, V(mul)(x, w));
}

// Sums of `pixels` pixels for the channels from c on.
LS_EXPAND void sum_pixels(const ls_cpu_taps *t, size_t pixel, size_t c,
                          size_t lanes, const size_t pixels, const bool partial,
                          const int how) {
  VEC sum[MOST_PIXELS];
  LS_UNROLL
  for (size_t i = 0; i < pixels; ++i)
    sum[i] = how == TAKE_LARGEST ? V(set1)(-(ELEM)__builtin_inf()) : V(zero)();
  for (size_t k = 0; k < t->count; ++k) {
    const ELEM *x = (const ELEM *)t->x[k] + pixel * t->step + c;
    const VEC w = how == TAKE_LARGEST
                      ? V(zero)()
                      : load_part((const ELEM *)t->w[k] + c, partial, lanes);
    LS_UNROLL
    for (size_t i = 0; i < pixels; ++i)
      sum[i] =
          combine(load_part(x + i * t->step, partial, lanes), w, sum[i], how);
  }
  ELEM *y = (ELEM *)t->y + pixel * t->pitch + c;
  LS_UNROLL
  for (size_t i = 0; i < pixels; ++i) {
    if (t->scale != 0) sum[i] = V(mul)(sum[i], V(set1)((ELEM)t->scale));
    if (t->bias != NULL)
      sum[i] =
          V(add)(sum[i], load_part((const ELEM *)t->bias + c, partial, lanes));
    if (t->relu) sum[i] = V(max)(V(zero)(), sum[i]);
    store_part(y + i * t->pitch, partial, lanes, sum[i]);
  }
}

LS_EXPAND void sum_line(const ls_cpu_taps *t, size_t c, size_t lanes,
                        const bool partial, const int how) {
  size_t i = 0;
#define SUM(number)                                                            \
  for (; i + number <= t->pixels; i += number)                                 \
    sum_pixels(t, i, c, lanes, number, partial, how);
  EACH_PIXELS(SUM)
#undef SUM
}

// Adds to the sums of `taps` taps for the channels from c on.
LS_EXPAND void add_taps(const ls_cpu_taps *t, size_t k, size_t c, size_t lanes,
                        const size_t taps, const bool partial, const int how) {
  const ELEM *x[MOST_TAPS], *y = (const ELEM *)t->y + c;
  VEC sum[MOST_TAPS];
  LS_UNROLL
  for (size_t i = 0; i < taps; ++i) {
    x[i] = (const ELEM *)t->x[k + i] + c;
    sum[i] = load_part((const ELEM *)t->w[k + i] + c, partial, lanes);
  }
  for (size_t p = 0; p < t->pixels; ++p) {
    const VEC dy = load_part(y + p * t->pitch, partial, lanes);
    LS_UNROLL
    for (size_t i = 0; i < taps; ++i)
      sum[i] = combine(load_part(x[i] + p * t->step, partial, lanes), dy,
                       sum[i], how);
  }
  LS_UNROLL
  for (size_t i = 0; i < taps; ++i)
    store_part((ELEM *)t->w[k + i] + c, partial, lanes, sum[i]);
}

LS_EXPAND void add_line(const ls_cpu_taps *t, size_t c, size_t lanes,
                        const bool partial, const int how) {
  size_t k = 0;
#define ADD(number)                                                            \
  for (; k + number <= t->count; k += number)                                  \
    add_taps(t, k, c, lanes, number, partial, how);
  EACH_TAPS(ADD)
#undef ADD
}

#define EACH_VECTOR(name, line)                                                \
  LS_EXPAND void name(const ls_cpu_taps *t, const int how) {                   \
    size_t c = 0;                                                              \
    for (; c + LANES <= t->channels; c += LANES)                               \
      line(t, c, LANES, false, how);                                           \
    if (c < t->channels) line(t, c, t->channels - c, true, how);               \
  }
EACH_VECTOR(sum_channels, sum_line)
EACH_VECTOR(add_channels, add_line)

static void multiply_all(const ls_cpu_taps *t) {
  if (t->takes_largest)
    sum_channels(t, TAKE_LARGEST);
  else if (t->fused)
    sum_channels(t, FUSE);
  else
    sum_channels(t, ROUND);
}

static void add_all(const ls_cpu_taps *t) {
  if (t->fused)
    add_channels(t, FUSE);
  else
    add_channels(t, ROUND);
}

// Whole vectors overlap: each is followed by the next group's.
static void spread(void *target, const void *source, size_t groups, size_t in,
                   size_t out) {
  ELEM *to = target;
  for (size_t i = 0; i < in; ++i) {
    const ELEM *from = (const ELEM *)source + i;
    for (size_t g = 0; g < groups; ++g, to += out) {
      const VEC x = V(set1)(from[g * in]);
      for (size_t j = 0; j < out; j += LANES)
        V(store)(to + j, x);
    }
  }
}

const ls_cpu_tap_sums TAP_SUMS = {
    .multiply = multiply_all, .add = add_all, .spread = spread};
