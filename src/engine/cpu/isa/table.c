// SPDX-License-Identifier: Apache-2.0
//
// The table of one instruction set's kernels.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/product_tile.h"

const ls_cpu_kernels LS_ISA_NAME(ls_cpu_kernels) = {
    .name = LS_ISA_STRING(LS_ISA),
    .product_f32_rows = LS_TILE_ROWS,
    .product_f32_columns = LS_TILE_VECTORS * VF_LANES,
    .product_f32 = LS_ISA_NAME(ls_cpu_product_f32),
    .product_f32_scratch = LS_ISA_NAME(ls_cpu_product_f32_scratch),
    .product_f64 = LS_ISA_NAME(ls_cpu_product_f64),
    .product_f64_scratch = LS_ISA_NAME(ls_cpu_product_f64_scratch),
    .exp = LS_ISA_NAME(ls_cpu_exp),
    .log = LS_ISA_NAME(ls_cpu_log),
    .tanh = LS_ISA_NAME(ls_cpu_tanh),
    .erf = LS_ISA_NAME(ls_cpu_erf),
    .sigmoid = LS_ISA_NAME(ls_cpu_sigmoid),
    .rsqrt = LS_ISA_NAME(ls_cpu_rsqrt),
    .expm1 = LS_ISA_NAME(ls_cpu_expm1),
    .log1p = LS_ISA_NAME(ls_cpu_log1p),
    .sin = LS_ISA_NAME(ls_cpu_sin),
    .cos = LS_ISA_NAME(ls_cpu_cos),
    .tan = LS_ISA_NAME(ls_cpu_tan),
    .softplus = LS_ISA_NAME(ls_cpu_softplus),
    .gelu = LS_ISA_NAME(ls_cpu_gelu),
    .gelu_grad = LS_ISA_NAME(ls_cpu_gelu_grad),
    .widen_f16 = LS_ISA_NAME(ls_cpu_widen_f16),
    .widen_bf16 = LS_ISA_NAME(ls_cpu_widen_bf16),
    .narrow_f16 = LS_ISA_NAME(ls_cpu_narrow_f16),
    .narrow_bf16 = LS_ISA_NAME(ls_cpu_narrow_bf16),
    .softmax = LS_ISA_NAME(ls_cpu_softmax),
    .log_softmax = LS_ISA_NAME(ls_cpu_log_softmax),
    .label_loss = LS_ISA_NAME(ls_cpu_label_loss),
    .label_loss_grad = LS_ISA_NAME(ls_cpu_label_loss_grad),
    .add = LS_ISA_NAME(ls_cpu_add),
    .sgd = LS_ISA_NAME(ls_cpu_sgd),
    .relu_grad = LS_ISA_NAME(ls_cpu_relu_grad),
    .column_sums = LS_ISA_NAME(ls_cpu_column_sums),
    .sum = LS_ISA_NAME(ls_cpu_sum),
    .max = LS_ISA_NAME(ls_cpu_max),
    .norms_f32 = &LS_ISA_NAME(ls_cpu_norms_f32),
    .norms_f64 = &LS_ISA_NAME(ls_cpu_norms_f64),
    .windows = &LS_ISA_NAME(ls_cpu_windows),
    .winograd = &LS_ISA_NAME(ls_cpu_winograd),
};
