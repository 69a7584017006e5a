// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Data types and shapes: plain values.
//
// Threads: types and shapes are plain values.
#ifndef LOCKSTEP_SHAPE_H_
#define LOCKSTEP_SHAPE_H_

#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Element types. String and the later ones take part in shape rules, text form
// and host kernels; no compute kernel supports them.
typedef enum ls_dtype {
  LS_DTYPE_NONE,
  LS_DTYPE_F64,
  LS_DTYPE_F32,
  LS_DTYPE_F16,
  LS_DTYPE_BF16,
  LS_DTYPE_I8,
  LS_DTYPE_I16,
  LS_DTYPE_I32,
  LS_DTYPE_I64,
  LS_DTYPE_U8,
  LS_DTYPE_U16,
  LS_DTYPE_U32,
  LS_DTYPE_U64,
  LS_DTYPE_BOOL,
  LS_DTYPE_STRING,
  LS_DTYPE_C64,
  LS_DTYPE_C128,
  LS_DTYPE_RESOURCE,
  LS_DTYPE_VARIANT,
  LS_DTYPE_COUNT,
} ls_dtype;

// Returns the bytes of one element in an array; strings are an `ls_bytes`,
// resources and variants a pointer. 0 for LS_DTYPE_NONE.
LS_API size_t ls_dtype_size(ls_dtype dtype);
// Returns "f32", "bool", "none", ...: static text.
LS_API const char *ls_dtype_name(ls_dtype dtype);
LS_API bool ls_dtype_is_float(ls_dtype dtype);    // f64 f32 f16 bf16
LS_API bool ls_dtype_is_integer(ls_dtype dtype);  // i8..i64, u8..u64

#define LS_MAX_RANK 8
#define LS_UNKNOWN_RANK (-1)
#define LS_UNKNOWN_DIM (-1)

// A shape: a plain value. rank -1: unknown rank; dim -1: unknown size. Zeroed:
// a scalar. Dimensions beyond the rank are 0.
typedef struct ls_shape {
  int32_t rank;
  int64_t dim[LS_MAX_RANK];
} ls_shape;

// LS_SHAPE(2, 3) is the 2 by 3 matrix, LS_SCALAR the scalar.
#ifdef __cplusplus
extern "C++" {
template <typename... Sizes> inline ls_shape ls_shape_of(Sizes... sizes) {
  static_assert(sizeof...(sizes) <= LS_MAX_RANK, "more than LS_MAX_RANK sizes");
  return ls_shape{sizeof...(sizes), {static_cast<int64_t>(sizes)...}};
}
}
#define LS_SHAPE(...) ls_shape_of(__VA_ARGS__)
#define LS_SCALAR (ls_shape{0, {}})
#define LS_SHAPE_UNKNOWN (ls_shape{LS_UNKNOWN_RANK, {}})
#else
#define LS_SHAPE(...)                                                          \
  ((ls_shape){                                                                 \
      .rank = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),   \
      .dim = {__VA_ARGS__}})
#define LS_SCALAR ((ls_shape){0})
#define LS_SHAPE_UNKNOWN ((ls_shape){.rank = LS_UNKNOWN_RANK})
#endif

// Rank and all dimensions are known.
LS_API bool ls_shape_is_known(ls_shape shape);
LS_API bool ls_shape_equal(ls_shape a, ls_shape b);
// Computes the shape of an elementwise op of both, by NumPy's rules; unknown
// where it depends on an unknown. LS_INVALID_ARGUMENT names both when they
// don't fit.
LS_API LS_MUST_USE ls_status ls_shape_broadcast(ls_shape a, ls_shape b,
                                                ls_shape *out_shape);
// Returns the number of elements, -1 while not known. Saturates at INT64_MAX.
LS_API int64_t ls_shape_num_elements(ls_shape shape);

// Prints "f32[2,?]", "i32[]", "f32[...]" for an unknown rank, into `buffer`,
// cut to `size`; returns `buffer`. 200 bytes suffice.
LS_API const char *ls_shape_print(ls_dtype dtype, ls_shape shape, char *buffer,
                                  size_t size);
// A short-lived buffer for messages: LS_SHAPE_TEXT(dtype, shape).
#ifdef __cplusplus
struct ls_shape_room {
  char text[200];
  char *data() { return text; }
};
#define LS_SHAPE_TEXT(dtype, shape)                                            \
  ls_shape_print((dtype), (shape), ls_shape_room().data(), 200)
#else
#define LS_SHAPE_TEXT(dtype, shape)                                            \
  ls_shape_print((dtype), (shape), (char[200]){0}, 200)
#endif

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SHAPE_H_
