// SPDX-License-Identifier: Apache-2.0
//
// Shared plans of convolution kernels: element types, and the depthwise loops.
#ifndef LS_ENGINE_CPU_CONV_PLAN_H_
#define LS_ENGINE_CPU_CONV_PLAN_H_

#include "engine/cpu/conv/conv.h"
#include "engine/cpu/kernels/loops.h"

// Types of stored and of computed elements.
typedef struct ls_conv_types {
  ls_dtype half;  // NONE unless elements are widened to f32.
  size_t size;    // Bytes of a stored element.
  size_t wide;    // Bytes of a computed one: float or double.
  ls_cpu_product_fn *product;
  ls_cpu_product_scratch_fn *product_scratch;
} ls_conv_types;

// Finds the types. `run`: adjacent values along the sums of the products; bf16
// takes them in pairs. Returns UNIMPLEMENTED for types that are not floats.
ls_status ls_conv_types_of(const ls_kernel_plan *plan, int64_t run,
                           ls_conv_types *out);

// Convert `count` stored elements to the type of the computation, and back.
void ls_conv_widen(const ls_conv_types *types, void *target, const void *from,
                   int64_t count);
void ls_conv_narrow(const ls_conv_types *types, void *target, const void *from,
                    int64_t count);
// Does the same to elements that are `pitch` apart.
void ls_conv_widen_column(const ls_conv_types *types, void *target,
                          int64_t pitch, const void *from, int64_t count);

// Reserves `size` bytes of scratch at `*end`; returns their offset.
static inline size_t ls_conv_place(size_t *end, size_t size) {
  const size_t begin = *end;
  *end += (size + 63) / 64 * 64;
  return begin;
}

// Returns 2 x the multiply-adds of all outputs, including those with the
// padding, but not those between elements of a dilated input.
double ls_conv_flops(const ls_conv *conv);

// Returns the number of parts, each with sums of its own, to which `pieces` of
// a weights' gradient are distributed: at least 1. `pixels` is the size of the
// work.
int64_t ls_conv_parts(const ls_conv *conv, int64_t pieces, int64_t pixels,
                      size_t element_size);

// Plan groups of one input and one output channel; ls_conv_depthwise for a
// convolution or its input's gradient, the other for the weights' gradient.
ls_status ls_conv_depthwise(ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types,
                            ls_cpu_activation activation);
ls_status ls_conv_depthwise_weights(ls_kernel_plan *plan, const ls_conv *conv,
                                    const ls_conv_types *types);

#endif  // LS_ENGINE_CPU_CONV_PLAN_H_
