// SPDX-License-Identifier: Apache-2.0

#include "engine/cpu/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <string.h>

#include "base/memory/allocator.h"

// Weak: another definition may replace it, so compilers must read it.
__attribute__((weak)) const float ls_cpu_one = 1;

#if defined(LS_HOLDS_V3) || defined(LS_HOLDS_V4)
// Features that not all compilers know by name; virtual machines may hide each.
static bool has_unnamed(void) {
  enum { LZCNT = 1 << 5 };
  unsigned a = 0, b = 0, c = 0, d = 0, more = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0 &&
         (c & bit_MOVBE) != 0 &&
         __get_cpuid(0x80000001U, &a, &b, &more, &d) != 0 &&
         (more & LZCNT) != 0;
}

// Ask the processor, and the system for saving the registers. Features are
// checked one by one because not all compilers know the levels by name.
static bool has_v3(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         has_unnamed();
}

#if defined(LS_HOLDS_V4)
static bool has_v4(void) {
  return has_v3() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif
#endif

static bool has_base(void) { return true; }

// Tables defined by isa/table.c, once per instruction set.
extern const ls_cpu_kernels ls_cpu_kernels_v4, ls_cpu_kernels_v3,
    ls_cpu_kernels_base;

// Levels in this build (cmake/library.cmake), the fastest first.
static const struct {
  const ls_cpu_kernels *kernels;
  bool (*can_run)(void);
} levels[] = {
#if defined(LS_HOLDS_V4)
    {&ls_cpu_kernels_v4, has_v4},
#endif
#if defined(LS_HOLDS_V3)
    {&ls_cpu_kernels_v3, has_v3},
#endif
    {&ls_cpu_kernels_base, has_base},
};

// Asks once: conversions of a few 16-bit floats call this.
const ls_cpu_kernels *ls_cpu_kernels_best(void) {
  static const ls_cpu_kernels *known = NULL;
  const ls_cpu_kernels *best = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (best != NULL) return best;
  for (size_t i = 0; best == NULL; ++i)
    if (levels[i].can_run()) best = levels[i].kernels;
  __atomic_store_n(&known, best, __ATOMIC_RELAXED);
  return best;
}

const ls_cpu_kernels *ls_cpu_kernels_find(const char *name) {
  for (size_t i = 0; i < LS_COUNT_OF(levels); ++i) {
    const ls_cpu_kernels *kernels = levels[i].kernels;
    if (strcmp(name, kernels->name) == 0 && levels[i].can_run()) return kernels;
  }
  return NULL;
}

// ---- bf16 ------------------------------------------------------------------
#if defined(LS_HOLDS_V4)
ls_cpu_product_fn ls_cpu_product_bf16_v4bf16;
ls_cpu_product_scratch_fn ls_cpu_product_bf16_scratch_v4bf16;
extern const ls_cpu_sparse_input ls_cpu_sparse_input_bf16_v4bf16;
extern const ls_cpu_sparse_weights ls_cpu_sparse_weights_bf16_v4bf16;
extern const ls_cpu_winograd_planes ls_cpu_winograd_bf16_v4bf16;

static bool use_bf16_instruction(ls_cpu_kernels *kernels) {
  if (strcmp(kernels->name, "v4") != 0 || !__builtin_cpu_supports("avx512bf16"))
    return false;
  kernels->product_bf16 = ls_cpu_product_bf16_v4bf16;
  kernels->product_bf16_scratch = ls_cpu_product_bf16_scratch_v4bf16;
  kernels->sparse_input_bf16 = &ls_cpu_sparse_input_bf16_v4bf16;
  kernels->sparse_weights_bf16 = &ls_cpu_sparse_weights_bf16_v4bf16;
  kernels->winograd_bf16 = &ls_cpu_winograd_bf16_v4bf16;
  return true;
}
#else
static bool use_bf16_instruction(ls_cpu_kernels *kernels) {
  (void)kernels;
  return false;
}
#endif

bool ls_cpu_kernels_use_bf16(ls_cpu_kernels *kernels) {
  const bool is_fast = use_bf16_instruction(kernels);
  kernels->product = kernels->product_bf16;
  kernels->product_scratch = kernels->product_bf16_scratch;
  kernels->sparse_input = kernels->sparse_input_bf16;
  kernels->sparse_weights = kernels->sparse_weights_bf16;
  kernels->winograd_planes = kernels->winograd_bf16;
  return is_fast;
}
