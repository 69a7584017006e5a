// SPDX-License-Identifier: Apache-2.0
//
// Random bits and normal numbers, as many side by side as the instruction set
// has room for: the compiler's work, for there is no branch in them.
#include "base/box_muller.h"
#include "engine/cpu/isa/isa.h"

void LS_ISA_NAME(ls_cpu_random_bits)(uint32_t *restrict dst,
                                     const ls_random_source *source,
                                     uint64_t first, size_t blocks) {
  const ls_random_source copy = *source;
  for (size_t i = 0; i < blocks; ++i)
    ls_random_source_bits(&copy, first + i, dst + 4 * i);
}

void LS_ISA_NAME(ls_cpu_normals)(float *restrict dst,
                                 const uint32_t *restrict bits, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i)
    ls_box_muller_f32(bits + 2 * i, dst + 2 * i);
}
