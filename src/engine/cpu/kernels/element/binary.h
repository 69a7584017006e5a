// SPDX-License-Identifier: Apache-2.0
//
// Binary operations on two elements of type T, shared by spans and scatters: W
// is the type in which integers wrap around.
#ifndef LS_ENGINE_CPU_KERNELS_ELEMENT_BINARY_H_
#define LS_ENGINE_CPU_KERNELS_ELEMENT_BINARY_H_

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
// comparison false.
#define LS_MAX_FLOAT(T, W, x, y) ((((x) > (y)) | ((x) != (x))) ? (x) : (y))
#define LS_MIN_FLOAT(T, W, x, y) ((((x) < (y)) | ((x) != (x))) ? (x) : (y))

// ---- Bits ------------------------------------------------------------------
// Numbers as unsigned integers of the same bits.

// The number of bits of a T, and x's bits in W.
#define LS_WIDTH(T) ((unsigned)(8 * sizeof(T)))
#define LS_BITS(T, W, x) ((W)(x) & (W)(~(W)0 >> (8 * sizeof(W) - LS_WIDTH(T))))

#endif  // LS_ENGINE_CPU_KERNELS_ELEMENT_BINARY_H_
