// SPDX-License-Identifier: Apache-2.0
//
// Normalizations of floats.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"

#define ELEM float
#define FMA fmaf
#define VEC vf
#define LANES ((size_t)VF_LANES)
#define V(op) vf_##op
#define TABLE LS_ISA_NAME(ls_cpu_norms_f32)

#include "engine/cpu/isa/norm_body.h"
