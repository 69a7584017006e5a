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
    .softmax = LS_ISA_NAME(ls_cpu_softmax),
    .log_softmax = LS_ISA_NAME(ls_cpu_log_softmax),
    .label_loss = LS_ISA_NAME(ls_cpu_label_loss),
    .label_loss_grad = LS_ISA_NAME(ls_cpu_label_loss_grad),
    .add = LS_ISA_NAME(ls_cpu_add),
    .sgd = LS_ISA_NAME(ls_cpu_sgd),
    .relu_grad = LS_ISA_NAME(ls_cpu_relu_grad),
    .column_sums = LS_ISA_NAME(ls_cpu_column_sums),
    .sum = LS_ISA_NAME(ls_cpu_sum),
};
