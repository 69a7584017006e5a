// SPDX-License-Identifier: Apache-2.0
//
// Winograd's convolution and its gradient for the input: the weights' planes
// are computed once, then units of tiles, each small enough for the second
// cache.
#include "engine/cpu/conv/winograd.h"

// Bytes of the planes of a unit's inputs and outputs; least and most tiles of a
// unit.
enum { UNIT_BYTES = 384 << 10, LEAST_TILES = 24, MOST_TILES = 96 };
// Most tiles whose sums fit registers, and the step in which this number
// shrinks.
enum { ROWS = 12, STEP = 4 };
// Channels of a block of U; tiles of a unit that computes U, which costs as
// much as some five of them; and enough blocks to share.
enum { SOME_CHANNELS = 64, COMPUTED_TILES = 48, ENOUGH_BLOCKS = 8 };

// ---- Tiles -----------------------------------------------------------------
ls_winograd_tiles ls_winograd_cut(const ls_conv *conv) {
  const ls_conv_dim *y = &conv->dim[LS_WINDOW_DIMS - 2];
  const ls_conv_dim *x = &conv->dim[LS_WINDOW_DIMS - 1];
  ls_winograd_tiles tiles = {
      .rows = ls_blocks_of(y->out, LS_WINOGRAD_OUT),
      .columns = ls_blocks_of(x->out, LS_WINOGRAD_OUT),
      .in_height = y->in,
      .in_width = x->in,
      .out_height = y->out,
      .out_width = x->out,
      // Steps backwards: the taps are rotated by 180 degrees.
      .top = y->step < 0 ? y->base - 2 : y->base,
      .left = x->step < 0 ? x->base - 2 : x->base,
  };
  tiles.count = conv->images * tiles.rows * tiles.columns;
  return tiles;
}

// The position of a tile.
typedef struct tile_place {
  int64_t image, y, x;  // Position of its first output.
} tile_place;

static tile_place locate_tile(const ls_winograd_tiles *tiles, int64_t tile) {
  const int64_t column = tile % tiles->columns, above = tile / tiles->columns;
  return (tile_place){.image = above / tiles->rows,
                      .y = above % tiles->rows * LS_WINOGRAD_OUT,
                      .x = column * LS_WINOGRAD_OUT};
}

void ls_winograd_inputs(const ls_winograd_tiles *tiles, int64_t tile,
                        const float *x, int64_t channels, const float *outside,
                        const float **out_pixels) {
  const tile_place at = locate_tile(tiles, tile);
  const int64_t y0 = at.y + tiles->top, x0 = at.x + tiles->left;
  const float *image =
      x + at.image * tiles->in_height * tiles->in_width * channels;
  for (int64_t i = 0; i < LS_WINOGRAD_IN; ++i) {
    const bool row_is_there = y0 + i >= 0 && y0 + i < tiles->in_height;
    for (int64_t j = 0; j < LS_WINOGRAD_IN; ++j) {
      const bool is_there =
          row_is_there && x0 + j >= 0 && x0 + j < tiles->in_width;
      *out_pixels++ =
          is_there ? image + ((y0 + i) * tiles->in_width + x0 + j) * channels
                   : outside;
    }
  }
}

void ls_winograd_outputs(const ls_winograd_tiles *tiles, int64_t tile, float *y,
                         int64_t channels, float *outside, float **out_pixels) {
  const tile_place at = locate_tile(tiles, tile);
  float *image = y + at.image * tiles->out_height * tiles->out_width * channels;
  for (int64_t i = 0; i < LS_WINOGRAD_OUT; ++i) {
    for (int64_t j = 0; j < LS_WINOGRAD_OUT; ++j) {
      const bool is_there =
          at.y + i < tiles->out_height && at.x + j < tiles->out_width;
      *out_pixels++ =
          is_there
              ? image + ((at.y + i) * tiles->out_width + at.x + j) * channels
              : outside;
    }
  }
}

// Some of the output channels, and a range of the input channels.
typedef struct channel_range {
  int64_t in0, in1, out0, out1;
} channel_range;

// Destinations of a tile's windows of 2 by 2 outputs.
enum { WINDOWS = LS_WINOGRAD_OUTPUTS / 4 };
typedef struct window_targets {
  float *maxima[WINDOWS];
  uint8_t *places[WINDOWS];
} window_targets;

static window_targets windows_of(const ls_winograd_tiles *tiles, int64_t tile,
                                 const ls_kernel_call *call, int64_t channels,
                                 const channel_range *some, float *outside) {
  const tile_place at = locate_tile(tiles, tile);
  const int64_t height = tiles->out_height / 2, width = tiles->out_width / 2;
  window_targets target;
  for (int64_t i = 0; i < WINDOWS; ++i) {
    const int64_t y = at.y / 2 + i / 2, x = at.x / 2 + i % 2;
    const int64_t pixel =
        ((at.image * height + y) * width + x) * channels + some->out0;
    const bool there = y < height && x < width;
    target.maxima[i] = there ? (float *)call->out[0] + pixel : outside;
    target.places[i] = there ? (uint8_t *)call->out[1] + pixel
                             : (uint8_t *)(outside + (some->out1 - some->out0));
  }
  return target;
}

// ---- Loops -----------------------------------------------------------------
typedef struct winograd_params {
  ls_winograd_tiles tiles;
  int64_t in_channels, out_channels;
  int64_t unit;     // Tiles of a unit.
  int64_t some_in;  // Channels of a block of U, which stays in a cache,
  int64_t some_out, chunks;  // ... and the blocks of all output channels.
  bool stores_weights;       // The first step computes U: one block.
  const ls_cpu_winograd *transform;
  const ls_cpu_winograd_planes *planes;
  ls_cpu_activation activation;
  bool has_bias, turned, pools;
  // Offsets in scratch.
  size_t inputs, outputs, weights, outside;
} winograd_params;

static void transform_weights(const winograd_params *self, const float *taps,
                              const channel_range *some, float *planes) {
  const size_t in = (size_t)self->in_channels, out = (size_t)self->out_channels;
  const size_t in0 = (size_t)some->in0, in1 = (size_t)some->in1;
  const size_t out0 = (size_t)some->out0, out1 = (size_t)some->out1;
  if (self->turned)
    self->planes->turned_weights(planes, taps, out, in,
                                 &(ls_cpu_block){out0, out1, in0, in1});
  else
    self->planes->weights(planes, taps, in, out,
                          &(ls_cpu_block){in0, in1, out0, out1});
}

// First step: computes all of U.
static void transform_weights_loop(const ls_kernel_call *call,
                                   int64_t begin_block, int64_t end_block) {
  const winograd_params *self = call->params;
  if (begin_block < end_block)
    transform_weights(
        self, call->in[1],
        &(channel_range){0, self->in_channels, 0, self->out_channels},
        call->out[0]);
}

// Returns the floats of `channels` input channels of a tile in a plane.
static int64_t floats_of(const winograd_params *self, int64_t channels) {
  return channels / (int64_t)self->planes->values;
}

// Stores the outputs of `count` tiles, computed from their planes, or the
// maxima of these outputs.
static void put_outputs(const winograd_params *self, const ls_kernel_call *call,
                        int64_t first, int64_t count, const channel_range *some,
                        const float *planes) {
  float *outside = (float *)((char *)call->scratch + self->outside);
  const int64_t out = some->out1 - some->out0;
  const float *bias =
      self->has_bias ? (const float *)call->in[2] + some->out0 : NULL;
  const bool relu = self->activation == LS_CPU_ACTIVATION_RELU;
  for (int64_t t = 0; t < count; ++t, planes += ls_winograd_pitch(out)) {
    if (self->pools) {
      const window_targets target = windows_of(
          &self->tiles, first + t, call, self->out_channels, some, outside);
      self->transform->output_pooled(target.maxima, target.places, planes,
                                     (size_t)out, bias, relu);
      continue;
    }
    float *targets[LS_WINOGRAD_OUTPUTS];
    ls_winograd_outputs(&self->tiles, first + t,
                        (float *)call->out[0] + some->out0, self->out_channels,
                        outside, targets);
    self->transform->output(targets, planes, (size_t)out, bias, relu);
  }
}

// Adds to the planes of `count` tiles' outputs what a range of the input
// channels contributes.
static void add_inputs(const winograd_params *self, const ls_kernel_call *call,
                       int64_t first, int64_t count,
                       const channel_range *some) {
  char *scratch = call->scratch;
  const int64_t in = some->in1 - some->in0, out = some->out1 - some->out0;
  const int64_t pitch = ls_winograd_pitch(floats_of(self, in));
  float *inputs = (float *)(scratch + self->inputs);
  const float *weights = call->in[self->has_bias ? 3 : 2];
  const float *sources[LS_WINOGRAD_PLANES];
  if (!self->stores_weights) {
    transform_weights(self, call->in[1], some,
                      (float *)(scratch + self->weights));
    weights = (const float *)(scratch + self->weights);
  }
  memset(scratch + self->outside, 0, (size_t)in * sizeof(float));
  for (int64_t t = 0; t < count; ++t) {
    ls_winograd_inputs(
        &self->tiles, first + t, (const float *)call->in[0] + some->in0,
        self->in_channels, (const float *)(scratch + self->outside), sources);
    self->planes->input(inputs + t * pitch, sources, (size_t)in,
                        (size_t)self->in_channels);
  }
  self->planes->multiply((float *)(scratch + self->outputs),
                         (size_t)ls_winograd_pitch(out), inputs, (size_t)pitch,
                         weights, (size_t)count, (size_t)floats_of(self, in),
                         (size_t)out, some->in0 > 0);
}

// A block is a unit of tiles with some of the output channels.
static void tiles_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const winograd_params *self = call->params;
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t first = b / self->chunks * self->unit;
    const int64_t count = ls_min_i64(self->unit, self->tiles.count - first);
    channel_range some = {.out0 = b % self->chunks * self->some_out};
    some.out1 = ls_min_i64(some.out0 + self->some_out, self->out_channels);
    for (; some.in0 < self->in_channels; some.in0 = some.in1) {
      some.in1 = ls_min_i64(some.in0 + self->some_in, self->in_channels);
      add_inputs(self, call, first, count, &some);
    }
    put_outputs(self, call, first, count, &some,
                (const float *)((const char *)call->scratch + self->outputs));
  }
}

// ---- Plan ------------------------------------------------------------------
bool ls_winograd_fits(const ls_kernel_plan *plan, const ls_conv *conv) {
  if (!plan->fast || plan->in[0].dtype != LS_DTYPE_F32) return false;
  if (conv->groups != 1 || conv->images == 0) return false;
  if (conv->in_channels == 0 || conv->in_channels % 16 != 0 ||
      conv->out_channels == 0 || conv->out_channels % 16 != 0)
    return false;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    const ls_conv_dim *dim = &conv->dim[i];
    const bool there = i >= LS_WINDOW_DIMS - 2;
    if (dim->taps != (there ? 3 : 1) || dim->stride != 1 || dim->spread != 1 ||
        (dim->step != 1 && dim->step != -1))
      return false;
    // With few outputs most of a tile would be empty.
    if (there ? dim->out < LS_WINOGRAD_OUT : dim->out != 1 || dim->in != 1)
      return false;
  }
  return true;
}

// Returns the tiles of a unit: as many as fit, equally many in each.
static int64_t unit_of(int64_t tiles, int64_t channels) {
  const int64_t bytes = LS_WINOGRAD_PLANES * channels * (int64_t)sizeof(float);
  const int64_t fit = ls_min_i64(MOST_TILES, UNIT_BYTES / bytes) / ROWS * ROWS;
  const int64_t most = ls_max_i64(LEAST_TILES, fit);
  const int64_t units = ls_blocks_of(ls_blocks_of(tiles, most), 4) * 4;
  return ls_blocks_of(ls_blocks_of(tiles, units), STEP) * STEP;
}

// Cuts tiles and channels. Weights that are larger than a block are computed
// where they are used, as their planes would leave the caches.
static void cut_blocks(winograd_params *self) {
  const int64_t in = self->in_channels, out = self->out_channels;
  const int64_t tiles = self->tiles.count;
  self->some_in = ls_min_i64(in, SOME_CHANNELS);
  self->some_out = ls_min_i64(out, SOME_CHANNELS);
  self->stores_weights = self->some_in == in && self->some_out == out;
  self->unit = self->stores_weights
                   ? unit_of(tiles, floats_of(self, in) + out)
                   : ls_blocks_of(tiles, ls_blocks_of(tiles, COMPUTED_TILES));
  const int64_t units = ls_blocks_of(tiles, self->unit);
  if (!self->stores_weights && units * out < ENOUGH_BLOCKS * SOME_CHANNELS)
    self->some_out = ls_min_i64(out, SOME_CHANNELS / 2);
  self->chunks = ls_blocks_of(out, self->some_out);
}

static void place_tile_scratch(ls_kernel_plan *plan, winograd_params *self) {
  const int64_t in = floats_of(self, self->some_in), out = self->some_out;
  const size_t tile = (size_t)self->unit * sizeof(float);
  const size_t weights =
      LS_WINOGRAD_PLANES * sizeof(float) * (size_t)(in * out);
  size_t end = 0;
  self->inputs = ls_conv_place(&end, tile * (size_t)ls_winograd_pitch(in));
  self->outputs = ls_conv_place(&end, tile * (size_t)ls_winograd_pitch(out));
  if (self->stores_weights)
    plan->shared = weights;
  else
    self->weights = ls_conv_place(&end, weights);
  // Room for a pixel, and the places of a window.
  self->outside = ls_conv_place(&end, (size_t)ls_max_i64(self->some_in, out) *
                                          (sizeof(float) + 1));
  plan->scratch = end;
}

ls_status ls_winograd_convolution(ls_kernel_plan *plan, const ls_conv *conv,
                                  bool turned, ls_cpu_activation activation) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, winograd_params, self);
  *self = (winograd_params){
      .tiles = ls_winograd_cut(conv),
      .in_channels = conv->in_channels,
      .out_channels = conv->out_channels,
      .transform = plan->kernels->winograd,
      .planes = plan->kernels->winograd_planes,
      .activation = activation,
      .has_bias = plan->num_in > 2,
      .turned = turned,
      .pools = plan->node->type == LS_OP_CONV_POOL_MAX,
  };
  cut_blocks(self);
  place_tile_scratch(plan, self);
  if (self->stores_weights) {
    plan->first = transform_weights_loop;
    plan->first_blocks = 1;
  }
  return ls_kernel_runs(plan, tiles_loop, self,
                        ls_blocks_of(self->tiles.count, self->unit) *
                            self->chunks);
}
