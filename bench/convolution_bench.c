// SPDX-License-Identifier: Apache-2.0
//
// Speed of convolutions and pooling on one core, for the layers of the
// reference models: milliseconds of its time and Gflop/s, the best of many
// rounds.
//
// Usage: convolution_bench [fast | bf16] [TABLE]
//   fast   by Winograd where the engine does so; default: sums over the taps
//   bf16   of operands rounded to bf16
//   TABLE  base, v3 or v4; default: the best

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory/arena.h"
#include "engine/cpu/kernels/kernel.h"

#define SECONDS_A_SHAPE 0.4

typedef struct layer {
  int64_t batch, size, in, out, taps, stride;
  bool first;  // Nobody asks for the gradient of its input.
} layer;

static const layer layers[] = {
    {128, 28, 1, 32, 3, 1, true},  {128, 28, 32, 64, 3, 1, false},
    {16, 28, 32, 64, 3, 1, false}, {64, 32, 3, 16, 3, 1, true},
    {64, 32, 16, 16, 3, 1, false}, {8, 32, 16, 16, 3, 1, false},
    {64, 32, 16, 32, 3, 2, false}, {64, 32, 16, 32, 1, 2, false},
    {64, 16, 32, 32, 3, 1, false}, {64, 16, 32, 64, 3, 2, false},
    {64, 16, 32, 64, 1, 2, false}, {64, 8, 64, 64, 3, 1, false},
    {8, 8, 64, 64, 3, 1, false},
};

static const ls_cpu_kernels *kernels;
static bool fast;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *floats(ls_type type) {
  const size_t count = (size_t)ls_shape_num_elements(type.shape);
  float *p = aligned_alloc(64, (count * sizeof *p + 127) / 64 * 64);
  if (p == NULL) exit(EXIT_FAILURE);
  for (size_t i = 0; i < count; ++i)
    p[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
  return p;
}

static void time_op(const char *what, uint16_t op, const ls_attr *attrs,
                    uint32_t num_attrs, const ls_type *in, uint32_t num_in,
                    ls_type out) {
  ls_arena arena;
  ls_arena_init(&arena, ls_allocator_system());
  ls_attr copies[8];
  memcpy(copies, attrs, num_attrs * sizeof *attrs);
  uint64_t inputs[2] = {ls_ref(1, 0), ls_ref(2, 0)};
  ls_node node = {.id = 3,
                  .type = op,
                  .num_outputs = 1,
                  .num_inputs = num_in,
                  .num_attrs = num_attrs,
                  .inputs = inputs,
                  .outputs = &out,
                  .attrs = copies};
  ls_kernel_plan plan = {.node = &node,
                         .in = in,
                         .num_in = num_in,
                         .out = &out,
                         .num_out = 1,
                         .kernels = kernels,
                         .fast = fast,
                         .arena = &arena};
  if (ls_kernel_prepare_of(op)(&plan) != NULL) exit(EXIT_FAILURE);
  float *data[3] = {floats(in[0]), floats(in[num_in - 1]), floats(out)};
  void *scratch = aligned_alloc(64, (plan.scratch + 127) / 64 * 64);
  void *shared = aligned_alloc(64, (plan.shared + 127) / 64 * 64);
  void *const outs[1] = {data[2]}, *const between[1] = {shared};
  const void *const ins[] = {data[0], data[1], shared};
  const ls_kernel_call first = {
      .in = ins, .out = between, .scratch = scratch, .params = plan.params};
  const ls_kernel_call call = {.in = plan.only_shared ? ins + 2 : ins,
                               .out = outs,
                               .scratch = scratch,
                               .params = plan.params};
  double best = 1e9;
  const double start = now();
  for (int i = 0; i < 5 || now() - start < SECONDS_A_SHAPE; ++i) {
    const double before = now();
    if (plan.first != NULL) plan.first(&first, 0, plan.first_blocks);
    plan.loop(&call, 0, plan.blocks);
    const double took = now() - before;
    if (took < best) best = took;
  }
  printf("  %s %7.3f ms", what, best * 1e3);
  if (plan.flops > 0) printf(" %5.1f", (double)plan.flops / best * 1e-9);
  for (int i = 0; i < 3; ++i)
    free(data[i]);
  free(scratch);
  free(shared);
  ls_arena_deinit(&arena);
}

static void time_layer(const layer *l) {
  const int64_t out = (l->size + l->stride - 1) / l->stride;
  const int64_t strides[] = {l->stride, l->stride};
  const ls_type x = {LS_DTYPE_F32, LS_SHAPE(l->batch, l->size, l->size, l->in)};
  const ls_type w = {LS_DTYPE_F32, LS_SHAPE(l->taps, l->taps, l->in, l->out)};
  const ls_type y = {LS_DTYPE_F32, LS_SHAPE(l->batch, out, out, l->out)};
  const ls_attr attrs[] = {LS_OWN_IS(WINDOW_STRIDES, strides, 2),
                           LS_OWN_B(SAME, true)};
  printf("%3lld x %2lld x %2lld x %2lld to %2lld, %lldx%lld / %lld:",
         (long long)l->batch, (long long)l->size, (long long)l->size,
         (long long)l->in, (long long)l->out, (long long)l->taps,
         (long long)l->taps, (long long)l->stride);
  time_op("y", LS_OP_CONVOLUTION, attrs, 2, (const ls_type[]){x, w}, 2, y);
  time_op("dw", LS_OP_CONV_GRAD_WEIGHTS, attrs, 2, (const ls_type[]){x, y}, 2,
          w);
  if (!l->first)
    time_op("dx", LS_OP_CONV_GRAD_INPUT, attrs, 2, (const ls_type[]){y, w}, 2,
            x);
  printf("\n");
}

static void time_pool(int64_t batch, int64_t size, int64_t channels,
                      int64_t taps) {
  const int64_t window[] = {taps, taps}, strides[] = {2, 2};
  const int64_t out = size / 2;
  const ls_type x = {LS_DTYPE_F32, LS_SHAPE(batch, size, size, channels)};
  const ls_type y = {LS_DTYPE_F32, LS_SHAPE(batch, out, out, channels)};
  const ls_attr attrs[] = {
      LS_OWN_IS(WINDOW, window, 2), LS_OWN_IS(WINDOW_STRIDES, strides, 2),
      LS_OWN_B(SAME, true), LS_OWN_S(WINDOW_REDUCE, "max")};
  printf("%3lld x %2lld x %2lld x %2lld, max pool %lldx%lld / 2:",
         (long long)batch, (long long)size, (long long)size,
         (long long)channels, (long long)taps, (long long)taps);
  time_op("y", LS_OP_REDUCE_WINDOW, attrs, 4, &x, 1, y);
  time_op("dx", LS_OP_WINDOW_MAX_GRAD, attrs, 3, (const ls_type[]){x, y}, 2, x);
  printf("\n");
}

int main(int argc, char **argv) {
  fast = argc > 1 && strcmp(argv[1], "fast") == 0;
  const bool bf16 = argc > 1 && strcmp(argv[1], "bf16") == 0;
  argc -= fast || bf16;
  argv += fast || bf16;
  kernels = argc > 1 ? ls_cpu_kernels_find(argv[1]) : ls_cpu_kernels_best();
  if (kernels == NULL) {
    fprintf(stderr, "convolution_bench: this machine has no table '%s'\n",
            argv[1]);
    return EXIT_FAILURE;
  }
  ls_cpu_kernels rounding = *kernels;
  if (bf16) {
    ls_cpu_kernels_use_bf16(&rounding);
    kernels = &rounding;
  }
  for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i)
    time_layer(&layers[i]);
  time_pool(128, 28, 64, 2);
  time_pool(16, 28, 64, 2);
  time_pool(16, 56, 64, 3);
  return EXIT_SUCCESS;
}
