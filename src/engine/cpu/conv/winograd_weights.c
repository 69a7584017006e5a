// SPDX-License-Identifier: Apache-2.0
//
// Winograd's gradient of the weights. The tiles are cut into parts, a function
// of the shapes alone; each adds up its dU, unit by unit in order: a chain of
// fused multiply-adds over the tiles of a unit, added to the previous sum. The
// second step adds the parts in order.
#include "engine/cpu/conv/winograd.h"

// Most and least parts, and bytes of their sums; least tiles of a part that
// make its sums worth writing; bytes of a unit's planes.
enum { MOST_PARTS = 8, LEAST_PARTS = 2, SUM_BYTES = 24 << 20, PART_TILES = 64 };
enum { UNIT_BYTES = 640 << 10, LEAST_TILES = 16, MOST_TILES = 128 };

typedef struct weights_params {
  ls_winograd_tiles tiles;
  int64_t in_channels, out_channels;
  int64_t unit, parts;
  size_t part;  // Floats of a part's sums.
  const ls_cpu_winograd *transform;
  const ls_cpu_winograd_planes *planes;
  ls_cpu_product_fn *product;
  // Offsets in scratch.
  size_t inputs, gradients, outside, product_scratch;
} weights_params;

static void transform_unit(const weights_params *self,
                           const ls_kernel_call *call, int64_t first,
                           int64_t count) {
  const int64_t in = self->in_channels, out = self->out_channels;
  char *scratch = call->scratch;
  float *inputs = (float *)(scratch + self->inputs);
  float *gradients = (float *)(scratch + self->gradients);
  float *outside = (float *)(scratch + self->outside);
  const float *sources[LS_WINOGRAD_PLANES];
  float *targets[LS_WINOGRAD_OUTPUTS];
  // Casts const away: inputs are only read.
  float *dy = (float *)(uintptr_t)call->in[1];
  for (int64_t t = 0; t < count; ++t) {
    ls_winograd_inputs(&self->tiles, first + t, call->in[0], in, outside,
                       sources);
    self->planes->input(inputs + t * ls_winograd_pitch(in), sources, (size_t)in,
                        (size_t)in);
    ls_winograd_outputs(&self->tiles, first + t, dy, out, outside, targets);
    self->transform->gradient(gradients + t * ls_winograd_pitch(out),
                              (const float *const *)targets, (size_t)out);
  }
}

static void add_unit(const weights_params *self, const ls_kernel_call *call,
                     float *sums, int64_t count, bool accumulate) {
  const int64_t in = self->in_channels, out = self->out_channels;
  char *scratch = call->scratch;
  const float *inputs = (const float *)(scratch + self->inputs);
  const float *gradients = (const float *)(scratch + self->gradients);
  ls_cpu_product product = {.m = (size_t)in,
                            .n = (size_t)out,
                            .k = (size_t)count,
                            .lda = (size_t)ls_winograd_pitch(in),
                            .ldb = (size_t)ls_winograd_pitch(out),
                            .ldc = (size_t)out,
                            .a_transposed = true,
                            .accumulate = accumulate};
  const ls_cpu_block block = {0, product.m, 0, product.n};
  for (int64_t plane = 0; plane < LS_WINOGRAD_PLANES; ++plane) {
    product.a = inputs + plane * in;
    product.b = gradients + plane * out;
    product.c = sums + plane * in * out;
    self->product(&product, &block, scratch + self->product_scratch);
  }
}

// First step: a block is a part.
static void sum_tiles_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const weights_params *self = call->params;
  memset((char *)call->scratch + self->outside, 0,
         (size_t)ls_max_i64(self->in_channels, self->out_channels) *
             sizeof(float));
  for (int64_t part = begin_block; part < end_block; ++part) {
    const int64_t begin = part * self->tiles.count / self->parts;
    const int64_t end = (part + 1) * self->tiles.count / self->parts;
    float *sums = (float *)call->out[0] + (size_t)part * self->part;
    for (int64_t t = begin; t < end; t += self->unit) {
      const int64_t count = ls_min_i64(self->unit, end - t);
      transform_unit(self, call, t, count);
      add_unit(self, call, sums, count, t > begin);
    }
  }
}

// Second step: a block is an input channel.
static void taps_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const weights_params *self = call->params;
  const size_t out = (size_t)self->out_channels;
  const size_t begin = (size_t)begin_block * out;
  self->transform->weights_gradient(
      (float *)call->out[0] + begin, (const float *)call->in[0] + begin,
      (size_t)self->parts, self->part, (size_t)self->in_channels * out,
      (size_t)(end_block - begin_block) * out);
}

// ---- Plan ------------------------------------------------------------------
static size_t part_size(const ls_conv *conv) {
  return LS_WINOGRAD_PLANES * (size_t)(conv->in_channels * conv->out_channels) +
         16;
}

static int64_t count_parts(const ls_conv *conv) {
  const size_t bytes = part_size(conv) * sizeof(float);
  const int64_t most = ls_min_i64(MOST_PARTS, (int64_t)(SUM_BYTES / bytes));
  return ls_min_i64(most, ls_winograd_cut(conv).count / PART_TILES);
}

bool ls_winograd_weights_fit(const ls_kernel_plan *plan, const ls_conv *conv) {
  return ls_winograd_fits(plan, conv) && count_parts(conv) >= LEAST_PARTS;
}

ls_status ls_winograd_weights(ls_kernel_plan *plan, const ls_conv *conv) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, weights_params, self);
  const int64_t in = conv->in_channels, out = conv->out_channels;
  *self = (weights_params){.tiles = ls_winograd_cut(conv),
                           .in_channels = in,
                           .out_channels = out,
                           .parts = count_parts(conv),
                           .part = part_size(conv),
                           .transform = plan->kernels->winograd,
                           .planes = plan->kernels->winograd_f32,
                           .product = plan->kernels->product_f32};
  // Units have as many tiles as fit, equally many in each unit of a part.
  const int64_t fit =
      UNIT_BYTES / (LS_WINOGRAD_PLANES * (in + out) * (int64_t)sizeof(float));
  const int64_t most = ls_max_i64(LEAST_TILES, ls_min_i64(MOST_TILES, fit));
  const int64_t tiles = ls_blocks_of(self->tiles.count, self->parts);
  self->unit = ls_blocks_of(tiles, ls_blocks_of(tiles, most));
  const ls_cpu_product largest = {.m = (size_t)in,
                                  .n = (size_t)out,
                                  .k = (size_t)self->unit,
                                  .a_transposed = true,
                                  .accumulate = true};
  const size_t unit = (size_t)self->unit * sizeof(float);
  size_t end = 0;
  self->inputs = ls_conv_place(&end, unit * (size_t)ls_winograd_pitch(in));
  self->gradients = ls_conv_place(&end, unit * (size_t)ls_winograd_pitch(out));
  self->outside =
      ls_conv_place(&end, (size_t)ls_max_i64(in, out) * sizeof(float));
  self->product_scratch =
      ls_conv_place(&end, plan->kernels->product_f32_scratch(&largest));
  plan->scratch = end;
  plan->first = sum_tiles_loop;
  plan->first_blocks = self->parts;
  plan->shared = (size_t)self->parts * self->part * sizeof(float);
  plan->only_shared = true;
  return ls_kernel_runs(plan, taps_loop, self, in);
}
