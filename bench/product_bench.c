// SPDX-License-Identifier: Apache-2.0
//
// Speed of the f32 product on one core, in Gflop/s, for the shapes of the
// reference models: the median of many rounds.
//
// Usage: product_bench [bf16] [TABLE]
//   bf16   of operands that are rounded to bf16
//   TABLE  base, v3 or v4; default: the best

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/kernels.h"

#define MAX_ROUNDS 400
#define SECONDS_A_SHAPE 0.3

typedef struct {
  const char *kind;  // NN, TN, NT: which of A and B is stored transposed.
  size_t m, n, k;
} shape;

static const shape shapes[] = {
    {"NN", 256, 512, 784},   {"NN", 32, 512, 784},    {"TN", 784, 512, 256},
    {"TN", 784, 512, 32},    {"NT", 256, 512, 512},   {"NT", 32, 512, 512},
    {"NT", 16, 512, 512},    {"NN", 8, 512, 784},     {"NN", 256, 10, 512},
    {"TN", 512, 10, 256},    {"NT", 256, 512, 10},    {"NN", 128, 128, 12544},
    {"NT", 16, 12544, 128},  {"TN", 12544, 128, 16},  {"NN", 2048, 1024, 256},
    {"NT", 2048, 256, 1024}, {"TN", 256, 1024, 2048}, {"NN", 2048, 256, 1024},
    {"NT", 2048, 1024, 256}, {"TN", 1024, 256, 2048}, {"NN", 2048, 768, 256},
    {"NT", 2048, 256, 768},  {"NT", 128, 128, 64},    {"NN", 128, 64, 128},
    {"TN", 128, 64, 128},    {"NN", 8, 16, 16},       {"NN", 32, 32, 32},
    {"NN", 64, 64, 64},      {"NT", 64, 64, 64},      {"TN", 64, 64, 64},
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static float *aligned_floats(size_t n) {
  float *p = aligned_alloc(64, (n * sizeof *p + 4096) / 64 * 64);
  if (p == NULL) exit(EXIT_FAILURE);
  for (size_t i = 0; i < n; ++i)
    p[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
  return p;
}

static void time_shape(const ls_cpu_kernels *kernels, const shape *s) {
  const bool a_transposed = s->kind[0] == 'T', b_transposed = s->kind[1] == 'T';
  float *a = aligned_floats(s->m * s->k), *b = aligned_floats(s->k * s->n);
  float *c = aligned_floats(s->m * s->n);
  const ls_cpu_product product = {
      .m = s->m,
      .n = s->n,
      .k = s->k,
      .a = a,
      .b = b,
      .c = c,
      .lda = a_transposed ? s->m : s->k,
      .ldb = b_transposed ? s->k : s->n,
      .ldc = s->n,
      .a_transposed = a_transposed,
      .b_transposed = b_transposed,
  };
  const ls_cpu_block whole = {0, s->m, 0, s->n};
  void *scratch = aligned_floats(kernels->product_scratch(&product) / 4);
  const double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
  const int calls = flops < 1e6 ? (int)(1e6 / flops) + 1 : 1;

  static double times[MAX_ROUNDS];
  int rounds = 0;
  const double start = now();
  while (rounds < MAX_ROUNDS &&
         (rounds < 5 || now() - start < SECONDS_A_SHAPE)) {
    const double before = now();
    for (int i = 0; i < calls; ++i) {
      kernels->product(&product, &whole, scratch);
    }
    times[rounds++] = (now() - before) / calls;
  }
  qsort(times, (size_t)rounds, sizeof *times, compare);
  const double median = times[rounds / 2];
  printf("%s %s %5zu x %5zu x %5zu  %10.0f ns  %6.1f Gflop/s (best %6.1f)\n",
         kernels->name, s->kind, s->m, s->n, s->k, median * 1e9,
         flops / median * 1e-9, flops / times[0] * 1e-9);
  free(a);
  free(b);
  free(c);
  free(scratch);
}

int main(int argc, char **argv) {
  const bool bf16 = argc > 1 && strcmp(argv[1], "bf16") == 0;
  const char *name = argc > 1 + bf16 ? argv[1 + bf16] : NULL;
  const ls_cpu_kernels *table =
      name != NULL ? ls_cpu_kernels_find(name) : ls_cpu_kernels_best();
  if (table == NULL) {
    fprintf(stderr, "product_bench: this machine has no table '%s'\n", name);
    return EXIT_FAILURE;
  }
  ls_cpu_kernels kernels = *table;
  if (bf16) ls_cpu_kernels_use_bf16(&kernels);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    time_shape(&kernels, &shapes[i]);
  }
  return EXIT_SUCCESS;
}
