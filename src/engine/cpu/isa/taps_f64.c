// SPDX-License-Identifier: Apache-2.0
//
// Sums of the products under taps, of doubles.

#define ELEM double
#define VEC vd
#define LANES VD_LANES
#define V(op) vd_##op
#define TAP_SUMS LS_ISA_NAME(ls_cpu_taps_f64)

#include "engine/cpu/isa/taps_body.h"
