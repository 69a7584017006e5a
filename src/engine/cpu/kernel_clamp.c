// SPDX-License-Identifier: Apache-2.0
//
// Clamp: min(max(x, low), high), nan if one is.
#include "engine/cpu/kernel_list.h"
#include "engine/cpu/loops.h"

#define MAX_INTEGER(x, y) ((x) > (y) ? (x) : (y))
#define MIN_INTEGER(x, y) ((x) < (y) ? (x) : (y))
// A nan on the left is asked for; one on the right fails the comparison.
#define MAX_FLOAT(x, y) ((((x) > (y)) | ((x) != (x))) ? (x) : (y))
#define MIN_FLOAT(x, y) ((((x) < (y)) | ((x) != (x))) ? (x) : (y))

// `ls` and `hs` are constants where this is expanded: 0 for a scalar bound. A
// scalar is read first, so that the output may lie on another operand.
#define CLAMP(name, MAX, MIN, D, T, W)                                         \
  static inline __attribute__((always_inline)) void steps_##D(                 \
      T *o, const T *low, const T *x, const T *high, int64_t count,            \
      int64_t ls, int64_t hs) {                                                \
    const T first_low = low[0], first_high = high[0];                          \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const T least = ls == 0 ? first_low : low[i];                            \
      const T most = hs == 0 ? first_high : high[i];                           \
      const T above = MAX(x[i], least);                                        \
      o[i] = MIN(above, most);                                                 \
    }                                                                          \
  }                                                                            \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    const T *low = in[0], *x = in[1], *high = in[2];                           \
    switch (self->scalars) {                                                   \
    case 0:                                                                    \
      steps_##D(out, low, x, high, count, 1, 1);                               \
      break;                                                                   \
    case 1:                                                                    \
      steps_##D(out, low, x, high, count, 0, 1);                               \
      break;                                                                   \
    case 4:                                                                    \
      steps_##D(out, low, x, high, count, 1, 0);                               \
      break;                                                                   \
    case 5:                                                                    \
      steps_##D(out, low, x, high, count, 0, 0);                               \
      break;                                                                   \
    default:                                                                   \
      break;                                                                   \
    }                                                                          \
  }
LS_EACH_INTEGER(CLAMP, clamp, MAX_INTEGER, MIN_INTEGER)
LS_EACH_FLOAT(CLAMP, clamp, MAX_FLOAT, MIN_FLOAT)

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
static const ls_span spans[LS_DTYPE_COUNT] = {LS_EACH_INTEGER(ENTRY, clamp)
                                                  LS_EACH_FLOAT(ENTRY, clamp)};

ls_status kernel_clamp(ls_kernel_plan *plan) {
  return ls_elementwise_plan_by_dtype(plan, spans, (ls_elementwise){0});
}
