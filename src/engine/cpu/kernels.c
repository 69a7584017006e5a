// SPDX-License-Identifier: Apache-2.0

#include "engine/cpu/kernels.h"

#include <string.h>

static void take_bf16(ls_cpu_kernels *kernels) {
  kernels->product = kernels->product_bf16;
  kernels->product_scratch = kernels->product_bf16_scratch;
  kernels->sparse_input = kernels->sparse_input_bf16;
  kernels->sparse_weights = kernels->sparse_weights_bf16;
  kernels->winograd_planes = kernels->winograd_bf16;
}

// Defined by isa/table.c, once per instruction set.
extern const ls_cpu_kernels ls_cpu_kernels_base;

#if defined(__x86_64__)
extern const ls_cpu_kernels ls_cpu_kernels_v3;
extern const ls_cpu_kernels ls_cpu_kernels_v4;

// These ask the processor and whether the system saves the registers. Not all
// compilers know the levels by name, so the features are asked one by one.
static bool has_v3(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool has_v4(void) {
  return has_v3() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

ls_cpu_product_fn ls_cpu_product_bf16_v4bf16;
ls_cpu_product_scratch_fn ls_cpu_product_bf16_scratch_v4bf16;
extern const ls_cpu_sparse_input ls_cpu_sparse_input_bf16_v4bf16;
extern const ls_cpu_sparse_weights ls_cpu_sparse_weights_bf16_v4bf16;
extern const ls_cpu_winograd_planes ls_cpu_winograd_bf16_v4bf16;

void ls_cpu_kernels_use_bf16(ls_cpu_kernels *kernels) {
  if (strcmp(kernels->name, "v4") == 0 &&
      __builtin_cpu_supports("avx512bf16")) {
    kernels->product_bf16 = ls_cpu_product_bf16_v4bf16;
    kernels->product_bf16_scratch = ls_cpu_product_bf16_scratch_v4bf16;
    kernels->sparse_input_bf16 = &ls_cpu_sparse_input_bf16_v4bf16;
    kernels->sparse_weights_bf16 = &ls_cpu_sparse_weights_bf16_v4bf16;
    kernels->winograd_bf16 = &ls_cpu_winograd_bf16_v4bf16;
  }
  take_bf16(kernels);
}

const ls_cpu_kernels *ls_cpu_kernels_best(void) {
  if (has_v4()) return &ls_cpu_kernels_v4;
  if (has_v3()) return &ls_cpu_kernels_v3;
  return &ls_cpu_kernels_base;
}

const ls_cpu_kernels *ls_cpu_kernels_find(const char *name) {
  if (strcmp(name, "base") == 0) return &ls_cpu_kernels_base;
  if (strcmp(name, "v3") == 0 && has_v3()) return &ls_cpu_kernels_v3;
  if (strcmp(name, "v4") == 0 && has_v4()) return &ls_cpu_kernels_v4;
  return NULL;
}

#else

void ls_cpu_kernels_use_bf16(ls_cpu_kernels *kernels) { take_bf16(kernels); }

const ls_cpu_kernels *ls_cpu_kernels_best(void) { return &ls_cpu_kernels_base; }

const ls_cpu_kernels *ls_cpu_kernels_find(const char *name) {
  return strcmp(name, "base") == 0 ? &ls_cpu_kernels_base : NULL;
}

#endif
