// SPDX-License-Identifier: Apache-2.0
//
// The prepare functions that the kernel column of ops.def names.
#ifndef LS_ENGINE_CPU_KERNEL_LIST_H_
#define LS_ENGINE_CPU_KERNEL_LIST_H_

#include "engine/cpu/kernel.h"

ls_status kernel_iota(ls_kernel_plan *plan);
ls_status kernel_random(ls_kernel_plan *plan);
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
ls_status kernel_replica_id(ls_kernel_plan *plan);

#endif  // LS_ENGINE_CPU_KERNEL_LIST_H_
