// SPDX-License-Identifier: Apache-2.0
//
// Sums of the products under taps, of floats.

#define ELEM float
#define VEC vf
#define LANES VF_LANES
#define V(op) vf_##op
#define TAP_SUMS LS_ISA_NAME(ls_cpu_taps_f32)

#include "engine/cpu/isa/taps_body.h"
