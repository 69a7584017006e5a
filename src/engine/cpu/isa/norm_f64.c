// SPDX-License-Identifier: Apache-2.0
//
// Normalizations of doubles.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"

#define ELEM double
#define FMA fma
#define VEC vd
#define LANES ((size_t)VD_LANES)
#define V(op) vd_##op
#define TABLE LS_ISA_NAME(ls_cpu_norms_f64)

#include "engine/cpu/isa/norm_body.h"
