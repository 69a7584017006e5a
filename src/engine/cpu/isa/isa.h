// SPDX-License-Identifier: Apache-2.0
//
// Names of functions that are compiled once per instruction set.
//
// The build compiles each .c file of this folder with -DLS_ISA=base, v3 or v4
// and the compiler flags of that instruction set. LS_ISA_NAME(ls_cpu_exp) then
// is ls_cpu_exp_v4. table.c collects the functions declared here;
// engine/cpu/kernels.h documents them.

#ifndef LS_ENGINE_CPU_ISA_ISA_H_
#define LS_ENGINE_CPU_ISA_ISA_H_

#include "engine/cpu/kernels.h"

#define LS_ISA_PASTE_EXPANDED(name, isa) name##_##isa
#define LS_ISA_PASTE(name, isa) LS_ISA_PASTE_EXPANDED(name, isa)
#define LS_ISA_NAME(name) LS_ISA_PASTE(name, LS_ISA)
#define LS_ISA_STRING_EXPANDED(isa) #isa
#define LS_ISA_STRING(isa) LS_ISA_STRING_EXPANDED(isa)

void LS_ISA_NAME(ls_cpu_product_f32)(const ls_cpu_product *product,
                                     const ls_cpu_block *block, void *scratch);
size_t LS_ISA_NAME(ls_cpu_product_f32_scratch)(const ls_cpu_product *product);
void LS_ISA_NAME(ls_cpu_product_bf16)(const ls_cpu_product *product,
                                      const ls_cpu_block *block, void *scratch);
size_t LS_ISA_NAME(ls_cpu_product_bf16_scratch)(const ls_cpu_product *product);
void LS_ISA_NAME(ls_cpu_product_f64)(const ls_cpu_product *product,
                                     const ls_cpu_block *block, void *scratch);
size_t LS_ISA_NAME(ls_cpu_product_f64_scratch)(const ls_cpu_product *product);
void LS_ISA_NAME(ls_cpu_product_i16)(const ls_cpu_product *product,
                                     const ls_cpu_block *block, void *scratch);
size_t LS_ISA_NAME(ls_cpu_product_i16_scratch)(const ls_cpu_product *product);
void LS_ISA_NAME(ls_cpu_product_i32)(const ls_cpu_product *product,
                                     const ls_cpu_block *block, void *scratch);
size_t LS_ISA_NAME(ls_cpu_product_i32_scratch)(const ls_cpu_product *product);
void LS_ISA_NAME(ls_cpu_product_i64)(const ls_cpu_product *product,
                                     const ls_cpu_block *block, void *scratch);
size_t LS_ISA_NAME(ls_cpu_product_i64_scratch)(const ls_cpu_product *product);
void LS_ISA_NAME(ls_cpu_turn)(float *dst, size_t width, const float *src,
                              size_t stride, size_t k, size_t columns);

void LS_ISA_NAME(ls_cpu_exp)(float *dst, const float *src, size_t n);
void LS_ISA_NAME(ls_cpu_log)(float *dst, const float *src, size_t n);
void LS_ISA_NAME(ls_cpu_erf)(float *dst, const float *src, size_t n);
void LS_ISA_NAME(ls_cpu_sigmoid)(float *dst, const float *src, size_t n);
void LS_ISA_NAME(ls_cpu_rsqrt)(float *dst, const float *src, size_t n);

void LS_ISA_NAME(ls_cpu_gelu)(float *dst, const float *src, size_t n);
void LS_ISA_NAME(ls_cpu_gelu_grad)(float *dst, const float *dy, const float *x,
                                   size_t n);
void LS_ISA_NAME(ls_cpu_gelu_again)(float *dx, float *y, const float *dy,
                                    const float *x, size_t n);

void LS_ISA_NAME(ls_cpu_gelu_again_f64)(double *dx, double *y, const double *dy,
                                        const double *x, size_t n);
double LS_ISA_NAME(ls_cpu_exp_above)(double *dst, const double *src, double max,
                                     size_t n);

void LS_ISA_NAME(ls_cpu_widen_f16)(float *dst, const uint16_t *src, size_t n);
void LS_ISA_NAME(ls_cpu_widen_bf16)(float *dst, const uint16_t *src, size_t n);
void LS_ISA_NAME(ls_cpu_narrow_f16)(uint16_t *dst, const float *src, size_t n);
void LS_ISA_NAME(ls_cpu_narrow_bf16)(uint16_t *dst, const float *src, size_t n);

void LS_ISA_NAME(ls_cpu_softmax)(float *dst, const float *src, size_t rows,
                                 size_t columns);
void LS_ISA_NAME(ls_cpu_log_softmax)(float *dst, const float *src, size_t rows,
                                     size_t columns);
void LS_ISA_NAME(ls_cpu_label_loss)(float *loss, const float *logits,
                                    const int32_t *labels, size_t rows,
                                    size_t columns);
void LS_ISA_NAME(ls_cpu_label_loss_grad)(float *grad, const float *logits,
                                         const int32_t *labels,
                                         const float *scale,
                                         size_t scale_stride, size_t rows,
                                         size_t columns);

extern const ls_cpu_spans LS_ISA_NAME(ls_cpu_spans);
extern const ls_cpu_spans LS_ISA_NAME(ls_cpu_elementary);
extern const ls_cpu_typed_spans LS_ISA_NAME(ls_cpu_integer_spans);
extern const ls_cpu_typed_spans LS_ISA_NAME(ls_cpu_typed_spans);
extern const ls_cpu_conversions LS_ISA_NAME(ls_cpu_conversions);
extern const ls_cpu_reducers LS_ISA_NAME(ls_cpu_reducers);
extern const ls_cpu_extremes LS_ISA_NAME(ls_cpu_extremes);
extern const ls_cpu_indices LS_ISA_NAME(ls_cpu_indices);
extern const ls_cpu_moves LS_ISA_NAME(ls_cpu_moves);
extern const ls_cpu_short_rows LS_ISA_NAME(ls_cpu_short_rows);
extern const ls_cpu_chains LS_ISA_NAME(ls_cpu_chains);
void LS_ISA_NAME(ls_cpu_random_bits)(uint32_t *restrict dst,
                                     const ls_random_source *source,
                                     uint64_t first, size_t blocks);
void LS_ISA_NAME(ls_cpu_normals)(float *restrict dst,
                                 const uint32_t *restrict bits, size_t pairs);
void LS_ISA_NAME(ls_cpu_normals_f64)(double *restrict dst,
                                     const uint32_t *restrict bits,
                                     size_t pairs);
void LS_ISA_NAME(ls_cpu_stream)(void *dst, const void *src, size_t bytes);
void LS_ISA_NAME(ls_cpu_stream_end)(void);
void LS_ISA_NAME(ls_cpu_add4)(float *dst, const void *const *in, size_t n,
                              bool far);
void LS_ISA_NAME(ls_cpu_add8)(float *dst, const void *const *in, size_t n,
                              bool far);
void LS_ISA_NAME(ls_cpu_add)(float *dst, const float *a, const float *b,
                             size_t n);
void LS_ISA_NAME(ls_cpu_sgd)(float *dst, const float *parameter,
                             const float *grad, float rate, size_t n);

extern const ls_cpu_norms LS_ISA_NAME(ls_cpu_norms_f32);
extern const ls_cpu_norms LS_ISA_NAME(ls_cpu_norms_f64);
extern const ls_cpu_attention LS_ISA_NAME(ls_cpu_attention);

extern const ls_cpu_windows LS_ISA_NAME(ls_cpu_windows)[2];
extern const ls_cpu_tap_sums LS_ISA_NAME(ls_cpu_taps_f32);
extern const ls_cpu_tap_sums LS_ISA_NAME(ls_cpu_taps_f64);
extern const ls_cpu_winograd LS_ISA_NAME(ls_cpu_winograd);
extern const ls_cpu_winograd_planes LS_ISA_NAME(ls_cpu_winograd_f32);
extern const ls_cpu_winograd_planes LS_ISA_NAME(ls_cpu_winograd_bf16);
extern const ls_cpu_zeros LS_ISA_NAME(ls_cpu_zeros);
extern const ls_cpu_sparse LS_ISA_NAME(ls_cpu_sparse);
extern const ls_cpu_sparse_input LS_ISA_NAME(ls_cpu_sparse_input);
extern const ls_cpu_sparse_input LS_ISA_NAME(ls_cpu_sparse_input_bf16);
extern const ls_cpu_sparse_weights LS_ISA_NAME(ls_cpu_sparse_weights);
extern const ls_cpu_sparse_weights LS_ISA_NAME(ls_cpu_sparse_weights_bf16);
extern const ls_cpu_kernels LS_ISA_NAME(ls_cpu_kernels);

#endif  // LS_ENGINE_CPU_ISA_ISA_H_
