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

// Destinations of a tile's windows of 2 by 2 outputs.
enum { WINDOWS = LS_WINOGRAD_OUTPUTS / 4 };
typedef struct window_targets {
  float *maxima[WINDOWS];
  uint8_t *places[WINDOWS];
} window_targets;

static window_targets windows_of(const ls_winograd_tiles *tiles, int64_t tile,
                                 const ls_kernel_call *call, int64_t channels,
                                 float *outside) {
  const tile_place at = locate_tile(tiles, tile);
  const int64_t height = tiles->out_height / 2, width = tiles->out_width / 2;
  window_targets target;
  for (int64_t i = 0; i < WINDOWS; ++i) {
    const int64_t y = at.y / 2 + i / 2, x = at.x / 2 + i % 2;
    const int64_t pixel = ((at.image * height + y) * width + x) * channels;
    const bool there = y < height && x < width;
    target.maxima[i] = there ? (float *)call->out[0] + pixel : outside;
    target.places[i] = there ? (uint8_t *)call->out[1] + pixel
                             : (uint8_t *)(outside + channels);
  }
  return target;
}

// ---- Loops -----------------------------------------------------------------
typedef struct winograd_params {
  ls_winograd_tiles tiles;
  int64_t in_channels, out_channels;
  int64_t unit;  // Tiles of a unit.
  const ls_cpu_winograd *transform;
  const ls_cpu_winograd_planes *planes;
  ls_cpu_activation activation;
  bool has_bias, turned, pools;
  // Offsets in scratch.
  size_t inputs, outputs, outside;
} winograd_params;

// First step: computes U.
static void transform_weights_loop(const ls_kernel_call *call,
                                   int64_t begin_block, int64_t end_block) {
  const winograd_params *self = call->params;
  const float *taps = call->in[1];
  float *planes = call->out[0];
  const size_t in = (size_t)self->in_channels, out = (size_t)self->out_channels;
  for (int64_t b = begin_block; b < end_block; ++b) {
    if (self->turned)
      self->planes->turned_weights(planes, taps, out, in, (size_t)b * 16);
    else
      self->planes->weights(planes, taps, in, out, (size_t)b * 16);
  }
}

// Returns the floats of a tile's input channels in a plane.
static int64_t floats_of(const winograd_params *self) {
  return self->in_channels / (int64_t)self->planes->values;
}

// Stores the outputs of `count` tiles, computed from their planes.
static void put_outputs(const winograd_params *self, const ls_kernel_call *call,
                        int64_t first, int64_t count, const float *planes,
                        float *outside) {
  const int64_t out = self->out_channels;
  const float *bias = self->has_bias ? call->in[2] : NULL;
  float *targets[LS_WINOGRAD_OUTPUTS];
  for (int64_t t = 0; t < count; ++t, planes += ls_winograd_pitch(out)) {
    ls_winograd_outputs(&self->tiles, first + t, call->out[0], out, outside,
                        targets);
    self->transform->output(targets, planes, (size_t)out, bias,
                            self->activation == LS_CPU_ACTIVATION_RELU);
  }
}

// Stores the maxima of the outputs.
static void put_maxima(const winograd_params *self, const ls_kernel_call *call,
                       int64_t first, int64_t count, const float *planes,
                       float *outside) {
  const int64_t out = self->out_channels;
  const float *bias = self->has_bias ? call->in[2] : NULL;
  for (int64_t t = 0; t < count; ++t, planes += ls_winograd_pitch(out)) {
    const window_targets target =
        windows_of(&self->tiles, first + t, call, out, outside);
    self->transform->output_pooled(target.maxima, target.places, planes,
                                   (size_t)out, bias,
                                   self->activation == LS_CPU_ACTIVATION_RELU);
  }
}

static void tiles_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const winograd_params *self = call->params;
  const int64_t in = self->in_channels, out = self->out_channels;
  const int64_t pitch = ls_winograd_pitch(floats_of(self));
  char *scratch = call->scratch;
  float *inputs = (float *)(scratch + self->inputs);
  float *outputs = (float *)(scratch + self->outputs);
  float *outside = (float *)(scratch + self->outside);
  const float *weights = call->in[self->has_bias ? 3 : 2];
  const float *sources[LS_WINOGRAD_PLANES];
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t first = b * self->unit;
    const int64_t count = ls_min_i64(self->unit, self->tiles.count - first);
    memset(outside, 0, (size_t)in * sizeof(float));
    for (int64_t t = 0; t < count; ++t) {
      ls_winograd_inputs(&self->tiles, first + t, call->in[0], in, outside,
                         sources);
      self->planes->input(inputs + t * pitch, sources, (size_t)in);
    }
    self->planes->multiply(outputs, (size_t)ls_winograd_pitch(out), inputs,
                           (size_t)pitch, weights, (size_t)count,
                           (size_t)floats_of(self), (size_t)out);
    (self->pools ? put_maxima : put_outputs)(self, call, first, count, outputs,
                                             outside);
  }
}

// ---- Plan ------------------------------------------------------------------
bool ls_winograd_fits(const ls_kernel_plan *plan, const ls_conv *conv) {
  if (!plan->fast || plan->in[0].dtype != LS_DTYPE_F32) return false;
  if (conv->groups != 1 || conv->images == 0) return false;
  if (conv->in_channels % 16 != 0 || conv->out_channels % 16 != 0) return false;
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

static void place_tile_scratch(ls_kernel_plan *plan, winograd_params *self) {
  const int64_t in = floats_of(self), out = self->out_channels;
  const size_t tile = (size_t)self->unit * sizeof(float);
  size_t end = 0;
  self->inputs = ls_conv_place(&end, tile * (size_t)ls_winograd_pitch(in));
  self->outputs = ls_conv_place(&end, tile * (size_t)ls_winograd_pitch(out));
  // Room for a pixel, and the places of a window.
  self->outside = ls_conv_place(
      &end, (size_t)ls_max_i64(self->in_channels, out) * (sizeof(float) + 1));
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
  self->unit = unit_of(self->tiles.count, floats_of(self) + conv->out_channels);
  place_tile_scratch(plan, self);
  plan->first = transform_weights_loop;
  plan->first_blocks = (turned ? conv->out_channels : conv->in_channels) / 16;
  plan->shared = LS_WINOGRAD_PLANES * sizeof(float) *
                 (size_t)(floats_of(self) * conv->out_channels);
  plan->loop = tiles_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->tiles.count, self->unit);
  return ls_ok();
}
