// SPDX-License-Identifier: Apache-2.0
//
// The product of integers of 32 bits.

#include <stdint.h>

#define ELEM uint32_t
#define SIGNED int32_t
#define PRODUCT LS_ISA_NAME(ls_cpu_product_i32)
#define PRODUCT_SCRATCH LS_ISA_NAME(ls_cpu_product_i32_scratch)

#include "engine/cpu/isa/product/product_int.h"
