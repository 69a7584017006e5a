// SPDX-License-Identifier: Apache-2.0
//
// The product of integers of 64 bits.

#include <stdint.h>

#define ELEM uint64_t
#define SIGNED int64_t
#define PRODUCT LS_ISA_NAME(ls_cpu_product_i64)
#define PRODUCT_SCRATCH LS_ISA_NAME(ls_cpu_product_i64_scratch)

#include "engine/cpu/isa/product/product_int.h"
