// SPDX-License-Identifier: Apache-2.0
//
// The prepare functions that the kernel column of ops.def names.
#ifndef LS_ENGINE_CPU_KERNELS_LIST_H_
#define LS_ENGINE_CPU_KERNELS_LIST_H_

#include "engine/cpu/kernels/kernel.h"

ls_status kernel_iota(ls_kernel_plan *plan);
ls_status kernel_random(ls_kernel_plan *plan);
ls_status kernel_permutation(ls_kernel_plan *plan);
ls_status kernel_math(ls_kernel_plan *plan);
ls_status kernel_gelu_again(ls_kernel_plan *plan);
ls_status kernel_bits(ls_kernel_plan *plan);
ls_status kernel_unary(ls_kernel_plan *plan);
ls_status kernel_binary(ls_kernel_plan *plan);
ls_status kernel_compare(ls_kernel_plan *plan);
ls_status kernel_select(ls_kernel_plan *plan);
ls_status kernel_convert(ls_kernel_plan *plan);
ls_status kernel_copy(ls_kernel_plan *plan);
ls_status kernel_broadcast(ls_kernel_plan *plan);
ls_status kernel_transpose(ls_kernel_plan *plan);
ls_status kernel_reduce(ls_kernel_plan *plan);
ls_status kernel_argmax(ls_kernel_plan *plan);
ls_status kernel_add_n(ls_kernel_plan *plan);
ls_status kernel_matmul(ls_kernel_plan *plan);
ls_status kernel_softmax(ls_kernel_plan *plan);
ls_status kernel_cross_entropy(ls_kernel_plan *plan);
ls_status kernel_one_hot(ls_kernel_plan *plan);
ls_status kernel_convolution(ls_kernel_plan *plan);
ls_status kernel_conv_grad_weights(ls_kernel_plan *plan);
ls_status kernel_pool_max(ls_kernel_plan *plan);
ls_status kernel_conv_pool_grad_input(ls_kernel_plan *plan);
ls_status kernel_conv_pool_grad_weights(ls_kernel_plan *plan);
ls_status kernel_reduce_window(ls_kernel_plan *plan);
ls_status kernel_window_sum_grad(ls_kernel_plan *plan);
ls_status kernel_window_max(ls_kernel_plan *plan);
ls_status kernel_replica_id(ls_kernel_plan *plan);
ls_status kernel_slice(ls_kernel_plan *plan);
ls_status kernel_dynamic_slice(ls_kernel_plan *plan);
ls_status kernel_dynamic_update_slice(ls_kernel_plan *plan);
ls_status kernel_pad(ls_kernel_plan *plan);
ls_status kernel_concatenate(ls_kernel_plan *plan);
ls_status kernel_reverse(ls_kernel_plan *plan);
ls_status kernel_gather(ls_kernel_plan *plan);
ls_status kernel_scatter(ls_kernel_plan *plan);
ls_status kernel_take_along(ls_kernel_plan *plan);
ls_status kernel_add_along(ls_kernel_plan *plan);
ls_status kernel_scan(ls_kernel_plan *plan);
ls_status kernel_sort(ls_kernel_plan *plan);
ls_status kernel_top_k(ls_kernel_plan *plan);
ls_status kernel_clamp(ls_kernel_plan *plan);
ls_status kernel_batch_norm(ls_kernel_plan *plan);
ls_status kernel_batch_norm_grad(ls_kernel_plan *plan);
ls_status kernel_batch_norm_inference(ls_kernel_plan *plan);
ls_status kernel_layer_norm(ls_kernel_plan *plan);
ls_status kernel_layer_norm_grad(ls_kernel_plan *plan);
ls_status kernel_layer_norm_again(ls_kernel_plan *plan);
ls_status kernel_rms_norm(ls_kernel_plan *plan);
ls_status kernel_rms_norm_grad(ls_kernel_plan *plan);
ls_status kernel_attention(ls_kernel_plan *plan);
ls_status kernel_attention_grad(ls_kernel_plan *plan);

#endif  // LS_ENGINE_CPU_KERNELS_LIST_H_
