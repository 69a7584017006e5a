// SPDX-License-Identifier: Apache-2.0
//
// The product of integers of 16 bits.

#include <stdint.h>

#define ELEM uint16_t
#define SIGNED int16_t
#define PRODUCT LS_ISA_NAME(ls_cpu_product_i16)
#define PRODUCT_SCRATCH LS_ISA_NAME(ls_cpu_product_i16_scratch)

#include "engine/cpu/isa/product/product_int.h"
