// SPDX-License-Identifier: Apache-2.0
//
// Comparisons, which return bools, and select by a bool. A bool is a byte: 0 or
// not.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- Compare ---------------------------------------------------------------
#define COMPARE(name, E, D, T, W) LS_SPAN_OF_TWO(name, E, D, uint8_t, T, W)

#define EQUAL(T, W, x, y) ((x) == (y))
#define NOT_EQUAL(T, W, x, y) ((x) != (y))
#define LESS(T, W, x, y) ((x) < (y))
#define LESS_EQUAL(T, W, x, y) ((x) <= (y))
#define EACH_TYPE(X, ...)                                                      \
  LS_EACH_INTEGER(X, __VA_ARGS__)                                              \
  LS_EACH_FLOAT(X, __VA_ARGS__)
EACH_TYPE(COMPARE, equal, EQUAL)
EACH_TYPE(COMPARE, not_equal, NOT_EQUAL)
EACH_TYPE(COMPARE, less, LESS)
EACH_TYPE(COMPARE, less_equal, LESS_EQUAL)
#define GREATER(T, W, x, y) ((x) > (y))
#define GREATER_EQUAL(T, W, x, y) ((x) >= (y))
EACH_TYPE(COMPARE, greater, GREATER)
EACH_TYPE(COMPARE, greater_equal, GREATER_EQUAL)

#define AS_BOOLS(E, x, y) E(, , (x) != 0, (y) != 0)
#define EQUAL_BOOL(T, W, x, y) AS_BOOLS(EQUAL, x, y)
#define NOT_EQUAL_BOOL(T, W, x, y) AS_BOOLS(NOT_EQUAL, x, y)
#define LESS_BOOL(T, W, x, y) AS_BOOLS(LESS, x, y)
#define LESS_EQUAL_BOOL(T, W, x, y) AS_BOOLS(LESS_EQUAL, x, y)
#define GREATER_BOOL(T, W, x, y) AS_BOOLS(GREATER, x, y)
#define GREATER_EQUAL_BOOL(T, W, x, y) AS_BOOLS(GREATER_EQUAL, x, y)
COMPARE(equal, EQUAL_BOOL, BOOL, uint8_t, )
COMPARE(not_equal, NOT_EQUAL_BOOL, BOOL, uint8_t, )
COMPARE(less, LESS_BOOL, BOOL, uint8_t, )
COMPARE(less_equal, LESS_EQUAL_BOOL, BOOL, uint8_t, )
COMPARE(greater, GREATER_BOOL, BOOL, uint8_t, )
COMPARE(greater_equal, GREATER_EQUAL_BOOL, BOOL, uint8_t, )

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define ROW(name)                                                              \
  { EACH_TYPE(ENTRY, name) ENTRY(name, BOOL, , ) }

static const ls_span compare_spans[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_EQUAL] = ROW(equal),     [LS_OP_NOT_EQUAL] = ROW(not_equal),
    [LS_OP_LESS] = ROW(less),       [LS_OP_LESS_EQUAL] = ROW(less_equal),
    [LS_OP_GREATER] = ROW(greater), [LS_OP_GREATER_EQUAL] = ROW(greater_equal),
};

ls_status kernel_compare(ls_kernel_plan *plan) {
  return ls_elementwise_plan_by_dtype(plan, compare_spans[plan->node->type],
                                      (ls_elementwise){0});
}

// ---- Select ----------------------------------------------------------------
// `cs`, `ys` and `zs` are constants at every expansion: 0 for a scalar.
#define SELECT(name, size, T)                                                  \
  static inline __attribute__((always_inline)) void steps_##size(              \
      T *o, const uint8_t *c, const T *y, const T *z, int64_t count,           \
      int64_t cs, int64_t ys, int64_t zs) {                                    \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const T yes = y[i * ys], no = z[i * zs];                                 \
      o[i] = c[i * cs] != 0 ? yes : no;                                        \
    }                                                                          \
  }                                                                            \
  static void name##_##size(const ls_elementwise *self, void *out,             \
                            const void *const *in, int64_t count) {            \
    const uint8_t *c = in[0];                                                  \
    const T *y = in[1], *z = in[2];                                            \
    T *o = out;                                                                \
    switch (self->scalars) {                                                   \
    case 0:                                                                    \
      steps_##size(o, c, y, z, count, 1, 1, 1);                                \
      break;                                                                   \
    case 1:                                                                    \
      steps_##size(o, c, y, z, count, 0, 1, 1);                                \
      break;                                                                   \
    case 2:                                                                    \
      steps_##size(o, c, y, z, count, 1, 0, 1);                                \
      break;                                                                   \
    case 3:                                                                    \
      steps_##size(o, c, y, z, count, 0, 0, 1);                                \
      break;                                                                   \
    case 4:                                                                    \
      steps_##size(o, c, y, z, count, 1, 1, 0);                                \
      break;                                                                   \
    case 5:                                                                    \
      steps_##size(o, c, y, z, count, 0, 1, 0);                                \
      break;                                                                   \
    case 6:                                                                    \
      steps_##size(o, c, y, z, count, 1, 0, 0);                                \
      break;                                                                   \
    default:                                                                   \
      break;                                                                   \
    }                                                                          \
  }
LS_EACH_SIZE(SELECT, select)

static ls_span select_span(size_t size) {
  switch (size) {
#define CASE(name, bytes, T)                                                   \
  case bytes:                                                                  \
    return name##_##bytes;
    LS_EACH_SIZE(CASE, select)
#undef CASE
  default:
    return NULL;
  }
}

ls_status kernel_select(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->out[0].dtype;
  if (!ls_is_plain(dtype)) return ls_kernel_unsupported(plan, dtype);
  return ls_elementwise_plan(
      plan, (ls_elementwise){.span = select_span(ls_dtype_size(dtype))});
}
