// SPDX-License-Identifier: Apache-2.0
//
// Numbers as unsigned integers of the same bits.
#ifndef LS_ENGINE_CPU_KERNELS_ELEMENT_BITS_H_
#define LS_ENGINE_CPU_KERNELS_ELEMENT_BITS_H_

// The number of bits of a T, and x's bits in W.
#define LS_WIDTH(T) ((unsigned)(8 * sizeof(T)))
#define LS_BITS(T, W, x) ((W)(x) & (W)(~(W)0 >> (8 * sizeof(W) - LS_WIDTH(T))))

#endif  // LS_ENGINE_CPU_KERNELS_ELEMENT_BITS_H_
