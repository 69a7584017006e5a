// SPDX-License-Identifier: Apache-2.0
//
// Shared parts of the ops' loops: lists of types, spans of elementwise work,
// and 16-bit floats.
//
// A span is a typed loop over a range of elements. Where 16-bit floats have no
// span, a range is widened to f32, computed there and rounded once.
#ifndef LS_ENGINE_CPU_KERNELS_LOOPS_H_
#define LS_ENGINE_CPU_KERNELS_LOOPS_H_

#include "base/values/numbers.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kernels/kernel.h"

// Lists of types: X(..., dtype, C type, the unsigned type that it is computed
// in when it must wrap around).
#define LS_EACH_SIGNED(X, ...)                                                 \
  X(__VA_ARGS__, I8, int8_t, uint32_t)                                         \
  X(__VA_ARGS__, I16, int16_t, uint32_t)                                       \
  X(__VA_ARGS__, I32, int32_t, uint32_t)                                       \
  X(__VA_ARGS__, I64, int64_t, uint64_t)
#define LS_EACH_UNSIGNED(X, ...)                                               \
  X(__VA_ARGS__, U8, uint8_t, uint32_t)                                        \
  X(__VA_ARGS__, U16, uint16_t, uint32_t)                                      \
  X(__VA_ARGS__, U32, uint32_t, uint32_t)                                      \
  X(__VA_ARGS__, U64, uint64_t, uint64_t)
#define LS_EACH_INTEGER(X, ...)                                                \
  LS_EACH_SIGNED(X, __VA_ARGS__)                                               \
  LS_EACH_UNSIGNED(X, __VA_ARGS__)
#define LS_EACH_FLOAT(X, ...)                                                  \
  X(__VA_ARGS__, F32, float, float)                                            \
  X(__VA_ARGS__, F64, double, double)
// The unsigned type of each element size, for ops that only move elements.
#define LS_EACH_SIZE(X, ...)                                                   \
  X(__VA_ARGS__, 1, uint8_t)                                                   \
  X(__VA_ARGS__, 2, uint16_t)                                                  \
  X(__VA_ARGS__, 4, uint32_t)                                                  \
  X(__VA_ARGS__, 8, uint64_t)

// For loops whose output is exactly an input or does not overlap it: no element
// depends on an earlier one.
#if defined(__clang__)
// A body that calls a function cannot be vectorized; no warning is needed.
#pragma clang diagnostic ignored "-Wpass-failed"
#define LS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LS_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Elements in a block of elementwise work.
#define LS_BLOCK ((int64_t)16384)
// Elements widened at a time.
#define LS_CHUNK ((int64_t)512)

static inline int64_t ls_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ls_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
// Returns the number of blocks of `size` that cover `count`; at least 1.
static inline int64_t ls_blocks_of(int64_t count, int64_t size) {
  return ls_max_i64(1, (count + size - 1) / size);
}
// Returns the greatest common divisor; a is above 0.
static inline int64_t ls_common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Returns true for numbers and bools: the types that kernels support.
static inline bool ls_is_plain(ls_dtype dtype) {
  return ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype) ||
         dtype == LS_DTYPE_BOOL;
}

// Returns UNIMPLEMENTED: the op has no kernel for this dtype.
ls_status ls_kernel_unsupported(const ls_kernel_plan *plan, ls_dtype dtype);

// ---- 16-bit floats ---------------------------------------------------------
// Convert `count` elements of f16 or bf16 to f32 and back, to nearest even.
void ls_widen(ls_dtype half, float *out, const uint16_t *in, int64_t count);
void ls_narrow(ls_dtype half, uint16_t *out, const float *in, int64_t count);

// Round to f32, to odd: rounding the result again to fewer bits equals one
// rounding of the original.
float ls_odd_f32_of_i64(int64_t value);
float ls_odd_f32_of_u64(uint64_t value);

// Computes the softmax of n doubles in the steps of ls_cpu_kernels.softmax. `y`
// may be `x`.
void ls_softmax_f64(const ls_cpu_kernels *kernels, double *y, const double *x,
                    int64_t n);

// ---- Elementwise work ------------------------------------------------------
typedef struct ls_elementwise ls_elementwise;

// Computes `count` elements.
typedef void (*ls_span)(const ls_elementwise *self, void *out,
                        const void *const *in, int64_t count);

// Spans of floats, compiled once per instruction set (isa/span.c and
// isa/elementary.c), by op.
struct ls_cpu_spans {
  ls_span f32[LS_OP_COUNT], f64[LS_OP_COUNT];
  ls_span bf16[LS_OP_COUNT], f16[LS_OP_COUNT];
};

// Spans of other types, by op and type (isa/integer_span.c, isa/typed_span.c).
struct ls_cpu_typed_spans {
  ls_span of[LS_OP_COUNT][LS_DTYPE_COUNT];
};

// Spans from one type to another; `to_odd`: to f32 on the way to 16 bits, where
// f32 may not hold the number exactly (isa/convert.c).
struct ls_cpu_conversions {
  ls_span of[LS_DTYPE_COUNT][LS_DTYPE_COUNT], to_odd[LS_DTYPE_COUNT];
};

// The parameters of an elementwise loop.
struct ls_elementwise {
  int64_t count;
  ls_span span;
  uint32_t num_in;
  uint32_t scalars;     // Bit i: input i is a scalar for all elements.
  uint32_t in_size[3];  // Bytes per element.
  uint32_t out_size;
  uint16_t f32_op;   // The op, if the span is that of ls_cpu_spans for f32.
  ls_dtype half;     // f16 or bf16 of the inputs (computed in f32), or NONE.
  bool out_is_half;  // True if the output has type `half`, too.
  // True if there is no span: `ls_move` repeats elements of the input, which
  // counts as a scalar.
  bool moves;
  // Not NULL: writes the result with this table's streaming stores
  // (see below).
  const ls_cpu_kernels *streams;
};

// Defines the span name_D of one operand, or of two: elements of type O from
// those of type T by the macro E, which also gets W. One of two operands may be
// a scalar, which is read first, so that the output may be on the other.
#define LS_SPAN_OF_ONE(name, E, D, O, T, W)                                    \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    (void)self;                                                                \
    O *o = out;                                                                \
    const T *a = in[0];                                                        \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const T x = a[i];                                                        \
      o[i] = E(T, W, x);                                                       \
    }                                                                          \
  }
#define LS_SPAN_OF_TWO(name, E, D, O, T, W)                                    \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    O *o = out;                                                                \
    const T *a = in[0], *b = in[1];                                            \
    if (self->scalars == 0) {                                                  \
      LS_INDEPENDENT                                                           \
      for (int64_t i = 0; i < count; ++i)                                      \
        o[i] = E(T, W, a[i], b[i]);                                            \
    } else if (self->scalars == 1) {                                           \
      const T x = a[0];                                                        \
      LS_INDEPENDENT                                                           \
      for (int64_t i = 0; i < count; ++i)                                      \
        o[i] = E(T, W, x, b[i]);                                               \
    } else {                                                                   \
      const T y = b[0];                                                        \
      LS_INDEPENDENT                                                           \
      for (int64_t i = 0; i < count; ++i)                                      \
        o[i] = E(T, W, a[i], y);                                               \
    }                                                                          \
  }

// Copies bytes between arrays that do not overlap; and bytes of operand 0 to
// the same position of result 0, unless it is in place.
void ls_copy(void *out, const void *in, size_t bytes);
void ls_copy_operand(const ls_kernel_call *call, size_t begin, size_t bytes);

// Runs elementwise work; its params are a ls_elementwise.
void ls_elementwise_loop(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block);
// Does so for 16-bit floats. A chunk of at most LS_CHUNK elements needs
// LS_HALF_SCRATCH bytes.
void ls_half_loop(const ls_kernel_call *call, int64_t begin_block,
                  int64_t end_block);
#define LS_HALF_SCRATCH ((size_t)(4 * LS_CHUNK) * sizeof(float))
void ls_half_chunk(const ls_elementwise *self, void *out, const void *const *in,
                   int64_t count, void *scratch);
// Moves elements: its params begin with a ls_elementwise. Single elements are
// moved by ls_move: those of the result from `at` on.
void ls_move_loop(const ls_kernel_call *call, int64_t begin_block,
                  int64_t end_block);
void ls_move(const ls_elementwise *work, void *out, const void *in, int64_t at,
             int64_t count);
// Views of a move: a row of the result is `columns` adjacent elements of the
// operand `in`, or one element for all columns. The second function returns the
// first element of those from `at` on, and limits `count` to the row's end.
typedef enum ls_move_view {
  LS_VIEW_NONE,
  LS_VIEW_ARRAY,
  LS_VIEW_NUMBER
} ls_move_view;
ls_move_view ls_move_view_of(const ls_elementwise *work, int64_t *out_columns);
char *ls_move_view_at(const ls_elementwise *work, char *in, int64_t at,
                      int64_t *count);
// Fills the plan: applies `span` to all elements. Derives sizes, scalars and
// in-place operands from the plan's types; with `half` it computes in f32.
ls_status ls_elementwise_plan(ls_kernel_plan *plan, ls_elementwise work);

// Returns the span of the kernel table for an op on numbers of `dtype`, its
// operand's type; NULL: there is none.
ls_span ls_span_of(uint16_t op, ls_dtype dtype, const ls_cpu_kernels *kernels);

// ---- Lines along an axis ---------------------------------------------------
// Work on whole lines along an axis, each line separately.
//
// An array is [outer, size, inner]; a line is [o, all, i]. Adjacent lines are
// handled together, as columns, so that memory is used row by row. A unit is
// some columns of one o; units are grouped into blocks.

typedef struct ls_lines {
  int64_t outer, size, inner;
  int64_t columns;  // Columns per unit; the last unit of each o may have fewer.
  int64_t units_across, units, units_per_block;
} ls_lines;

// The lines of a unit.
typedef struct ls_lines_unit {
  int64_t outer, column, columns;
} ls_lines_unit;

// Divides `shape` into lines along `axis`, each of as much work as `work`
// elements.
static inline ls_lines ls_lines_of(ls_shape shape, int32_t axis, int64_t work) {
  ls_lines lines = {.outer = 1, .size = shape.dim[axis], .inner = 1};
  for (int32_t i = 0; i < axis; ++i)
    lines.outer *= shape.dim[i];
  for (int32_t i = axis + 1; i < shape.rank; ++i)
    lines.inner *= shape.dim[i];
  work = ls_max_i64(work, 1);
  // A unit has at least 64 columns, which is some cache lines of each row.
  lines.columns = ls_min_i64(lines.inner, ls_max_i64(64, LS_BLOCK / work));
  lines.columns = ls_max_i64(lines.columns, 1);
  lines.units_across = (lines.inner + lines.columns - 1) / lines.columns;
  lines.units = lines.outer * lines.units_across;
  lines.units_per_block = ls_max_i64(1, LS_BLOCK / (work * lines.columns));
  return lines;
}

static inline int64_t ls_lines_blocks(const ls_lines *lines) {
  return ls_blocks_of(lines->units, lines->units_per_block);
}

static inline ls_lines_unit ls_lines_at(const ls_lines *lines, int64_t unit) {
  const int64_t column = unit % lines->units_across * lines->columns;
  return (ls_lines_unit){unit / lines->units_across, column,
                         ls_min_i64(lines->columns, lines->inner - column)};
}

// ---- Streaming stores ------------------------------------------------------
// Streaming stores: for results that leave the caches before anything reads
// them.
//
// A store to a line that is in no cache reads the line from memory first, so a
// result in memory costs two transfers. A store past the caches costs one, but
// the next reader finds the result in memory only. So a kernel with operands
// larger than the caches computes tiles in its scratch, which stays in the
// first cache, and streams them to the result (ls_cpu_kernels.stream), unless
// it works in place, where the lines were read anyway.

// Bytes that exceed the last cache of most machines; and bytes of a tile.
enum { LS_STREAM_BYTES = 32 << 20, LS_STREAM_TILE = 1024 };

// Returns true if a kernel that reads and writes `bytes` is so large that the
// beginning of its result has left the caches when it ends.
static inline bool ls_cpu_is_streamed(size_t bytes) {
  return bytes > LS_STREAM_BYTES;
}

// Returns true if streaming stores make a kernel faster that writes so much.
static inline bool ls_cpu_streams(const ls_cpu_kernels *kernels, size_t bytes) {
  return kernels->stream != NULL && ls_cpu_is_streamed(bytes);
}

// ---- Binary operations -----------------------------------------------------
// Operations on two elements of type T, shared by spans and scatters: W is the
// type in which integers wrap around.
#define LS_ADD_INTEGER(T, W, x, y) ((T)((W)(x) + (W)(y)))
#define LS_SUB_INTEGER(T, W, x, y) ((T)((W)(x) - (W)(y)))
#define LS_MUL_INTEGER(T, W, x, y) ((T)((W)(x) * (W)(y)))
// Division: x / 0 has all bits set (-1 if signed), and the least number / -1 is
// itself.
#define LS_DIV_SIGNED(T, W, x, y)                                              \
  ((T)((y) == 0 ? (T)-1 : (y) == -1 ? (T)(0 - (W)(x)) : (T)((x) / (y))))
#define LS_DIV_UNSIGNED(T, W, x, y) ((T)((y) == 0 ? (T) ~(W)0 : (T)((x) / (y))))
#define LS_MAX_INTEGER(T, W, x, y) ((x) > (y) ? (x) : (y))
#define LS_MIN_INTEGER(T, W, x, y) ((x) < (y) ? (x) : (y))

#define LS_ADD_FLOAT(T, W, x, y) ((x) + (y))
#define LS_SUB_FLOAT(T, W, x, y) ((x) - (y))
#define LS_MUL_FLOAT(T, W, x, y) ((x) * (y))
#define LS_DIV_FLOAT(T, W, x, y) ((x) / (y))
// Maxima and minima: a NaN on the left is tested; one on the right makes the
// comparison false. Of subnormals ls_larger and ls_smaller give the number or a
// zero, as the compiler has it.
#define LS_DEFINE_EXTREMES(unused, D, T, W)                                    \
  static inline T ls_larger_##T(T x, T y) {                                    \
    const T most = x > y ? x : y;                                              \
    return x != x ? x : most;                                                  \
  }                                                                            \
  static inline T ls_smaller_##T(T x, T y) {                                   \
    const T least = x < y ? x : y;                                             \
    return x != x ? x : least;                                                 \
  }
LS_EACH_FLOAT(LS_DEFINE_EXTREMES, )
#define LS_MAX_FLOAT(T, W, x, y) LS_FLUSHED(T, ls_larger_##T(x, y))
#define LS_MIN_FLOAT(T, W, x, y) LS_FLUSHED(T, ls_smaller_##T(x, y))

// ---- Bits ------------------------------------------------------------------
// The number of bits of a T.
#define LS_WIDTH(T) ((unsigned)(8 * sizeof(T)))

#endif  // LS_ENGINE_CPU_KERNELS_LOOPS_H_
