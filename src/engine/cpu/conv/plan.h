// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of convolutions share beyond geometry: element types, and
// the depthwise loops.
#ifndef LS_ENGINE_CPU_CONV_PLAN_H_
#define LS_ENGINE_CPU_CONV_PLAN_H_

#include "engine/cpu/conv/conv.h"
#include "engine/cpu/kernels/loops.h"

// Elements as stored, and as computed with.
typedef struct ls_conv_types {
  ls_dtype half;  // NONE unless they are widened to f32.
  size_t size;    // Bytes stored.
  size_t wide;    // Bytes computed with: float or double.
  ls_cpu_product_fn *product;
  ls_cpu_product_scratch_fn *product_scratch;
} ls_conv_types;

// `run`: values that lie side by side along the sums of the products; bf16
// takes them in pairs.
//   UNIMPLEMENTED  for what is no float.
ls_status ls_conv_types_of(const ls_kernel_plan *plan, int64_t run,
                           ls_conv_types *out);

// `count` stored elements to what is computed with, and back.
void ls_conv_widen(const ls_conv_types *types, void *to, const void *from,
                   int64_t count);
void ls_conv_narrow(const ls_conv_types *types, void *to, const void *from,
                    int64_t count);
// The same to elements that lie `pitch` apart.
void ls_conv_widen_column(const ls_conv_types *types, void *to, int64_t pitch,
                          const void *from, int64_t count);

// Takes `size` bytes of scratch from `*end` on; returns where they begin.
static inline size_t ls_conv_place(size_t *end, size_t size) {
  const size_t begin = *end;
  *end += (size + 63) / 64 * 64;
  return begin;
}

// 2 x the multiply-adds of all outputs: those that meet the padding count, but
// none of those between spread-out inputs.
double ls_conv_flops(const ls_conv *conv);

// Into how many parts, with sums of their own, `pieces` of a weights' gradient
// are dealt: at least 1. `pixels` are those that count.
int64_t ls_conv_parts(const ls_conv *conv, int64_t pieces, int64_t pixels,
                      size_t element_size);

// Plans for groups of one input and one output channel; ls_conv_depthwise for a
// convolution or its input's gradient, the other for the weights' gradient.
ls_status ls_conv_depthwise(ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types,
                            ls_cpu_activation activation);
ls_status ls_conv_depthwise_weights(ls_kernel_plan *plan, const ls_conv *conv,
                                    const ls_conv_types *types);

#endif  // LS_ENGINE_CPU_CONV_PLAN_H_
