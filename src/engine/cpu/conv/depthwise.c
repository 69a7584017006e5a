// SPDX-License-Identifier: Apache-2.0
//
// Convolutions whose groups have one input and one output channel, and both
// gradients: direct loops over taps, with all channels side by side.
//
// Sums have the order of convolution.c and weights.c, but each product is
// rounded before it is added, and positions in the padding are skipped.
#include "engine/cpu/conv/plan.h"

// Channels of a unit of the weights' gradient; pixels of a chain.
enum { UNIT_CHANNELS = 256, CHAIN = 256 };
// Least multiply-adds of a block.
enum { BLOCK_WORK = 1 << 15 };

typedef struct rows {
  // Computes acc[i] += x[i] y[i].
  void (*add_products)(void *acc, const void *x, const void *y, int64_t count);
  // Computes acc[i] += x[i].
  void (*add)(void *acc, const void *x, int64_t count);
  void (*relu)(void *acc, int64_t count);
} rows;

#define ROWS(name, D, T, W)                                                    \
  static void add_products_##D(void *out, const void *in, const void *by,      \
                               int64_t count) {                                \
    T *restrict acc = out;                                                     \
    const T *restrict x = in, *restrict y = by;                                \
    for (int64_t i = 0; i < count; ++i)                                        \
      acc[i] += x[i] * y[i];                                                   \
  }                                                                            \
  static void add_##D(void *out, const void *in, int64_t count) {              \
    T *restrict acc = out;                                                     \
    const T *restrict x = in;                                                  \
    for (int64_t i = 0; i < count; ++i)                                        \
      acc[i] += x[i];                                                          \
  }                                                                            \
  static void relu_##D(void *out, int64_t count) {                             \
    T *acc = out;                                                              \
    for (int64_t i = 0; i < count; ++i)                                        \
      acc[i] = 0 > acc[i] ? 0 : acc[i];                                        \
  }                                                                            \
  static const rows rows_##D = {add_products_##D, add_##D, relu_##D};
LS_EACH_FLOAT(ROWS, rows)

typedef struct depthwise_params {
  ls_conv conv;
  ls_conv_types types;
  rows rows;
  ls_cpu_activation activation;
  bool has_bias;
  int64_t per_block;  // Outputs per block.
  int64_t units;      // Chunks of channels in the weights' gradient.
  // Offsets in scratch.
  size_t weights, bias, acc, x, y;
} depthwise_params;

// Returns `count` elements in the type of the computation: in place, or
// widened.
static const void *load_channels(const depthwise_params *self, const void *in,
                                 int64_t index, char *buffer, int64_t count) {
  const char *from = (const char *)in + (size_t)index * self->types.size;
  if (self->types.half == LS_DTYPE_NONE) return from;
  ls_widen(self->types.half, (float *)(void *)buffer,
           (const uint16_t *)(const void *)from, count);
  return buffer;
}

// ---- Outputs ---------------------------------------------------------------
typedef struct output_work {
  const depthwise_params *self;
  const ls_kernel_call *call;
  const char *weights;
  void *acc;
  int64_t channels;
} output_work;

// Adds the taps (z, y, all) whose positions are in the row that starts at
// `row`.
static void add_tap_row(const output_work *w, int64_t row, int64_t tap,
                        int64_t at) {
  const ls_conv_dim *dim = &w->self->conv.dim[2];
  for (int64_t i = 0; i < dim->taps; ++i) {
    const int64_t k = ls_conv_tap_in_order(dim, i);
    int64_t place;
    if (!ls_conv_meets(dim, at, k, &place)) continue;
    const void *x =
        load_channels(w->self, w->call->in[0], (row + place) * w->channels,
                      (char *)w->call->scratch + w->self->x, w->channels);
    const size_t by = (size_t)((tap + k) * w->channels) * w->self->types.wide;
    w->self->rows.add_products(w->acc, x, w->weights + by, w->channels);
  }
}

static void add_taps(const output_work *w, int64_t image, const int64_t *at) {
  const ls_conv_dim *dim = w->self->conv.dim;
  for (int64_t i = 0; i < dim[0].taps; ++i) {
    const int64_t z = ls_conv_tap_in_order(&dim[0], i);
    int64_t place_z, place_y;
    if (!ls_conv_meets(&dim[0], at[0], z, &place_z)) continue;
    for (int64_t j = 0; j < dim[1].taps; ++j) {
      const int64_t y = ls_conv_tap_in_order(&dim[1], j);
      if (!ls_conv_meets(&dim[1], at[1], y, &place_y)) continue;
      const int64_t row =
          ((image * dim[0].in + place_z) * dim[1].in + place_y) * dim[2].in;
      add_tap_row(w, row, (z * dim[1].taps + y) * dim[2].taps, at[2]);
    }
  }
}

static void depthwise_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const depthwise_params *self = call->params;
  const ls_conv *conv = &self->conv;
  const ls_conv_dim *dim = conv->dim;
  const int64_t channels = conv->groups;
  const int64_t num_outputs = conv->images * ls_conv_outputs(conv);
  const int64_t end = ls_min_i64(end_block * self->per_block, num_outputs);
  const bool half = self->types.half != LS_DTYPE_NONE;
  char *scratch = call->scratch;
  output_work w = {.self = self, .call = call, .channels = channels};
  w.weights = load_channels(self, call->in[1], 0, scratch + self->weights,
                            ls_conv_taps(conv) * channels);
  const void *bias =
      self->has_bias
          ? load_channels(self, call->in[2], 0, scratch + self->bias, channels)
          : NULL;
  for (int64_t o = begin_block * self->per_block; o < end; ++o) {
    char *out =
        (char *)call->out[0] + (size_t)(o * channels) * self->types.size;
    const int64_t line = o / dim[2].out, plane = line / dim[1].out;
    const int64_t at[] = {plane % dim[0].out, line % dim[1].out,
                          o % dim[2].out};
    w.acc = half ? scratch + self->acc : out;
    memset(w.acc, 0, (size_t)channels * self->types.wide);
    add_taps(&w, plane / dim[0].out, at);
    if (bias != NULL) self->rows.add(w.acc, bias, channels);
    if (self->activation == LS_CPU_ACTIVATION_RELU)
      self->rows.relu(w.acc, channels);
    if (half) ls_conv_narrow(&self->types, out, w.acc, channels);
  }
}

static depthwise_params *new_params(ls_kernel_plan *plan, const ls_conv *conv,
                                    const ls_conv_types *types) {
  depthwise_params *self = ls_arena_new(plan->arena, depthwise_params);
  if (self == NULL) return NULL;
  *self = (depthwise_params){
      .conv = *conv,
      .types = *types,
      .rows = types->wide == sizeof(double) ? rows_F64 : rows_F32,
  };
  if (types->wide == sizeof(float))
    self->rows.add_products = plan->kernels->windows->add_products;
  plan->params = self;
  return self;
}

ls_status ls_conv_depthwise(ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types,
                            ls_cpu_activation activation) {
  depthwise_params *self = new_params(plan, conv, types);
  if (self == NULL) return ls_out_of_memory();
  self->activation = activation;
  self->has_bias = plan->num_in > 2;
  const int64_t taps = ls_conv_taps(conv);
  const size_t row = (size_t)conv->groups * types->wide;
  if (types->half != LS_DTYPE_NONE) {
    size_t end = 0;
    self->weights = ls_conv_place(&end, (size_t)taps * row);
    self->bias = ls_conv_place(&end, row);
    self->acc = ls_conv_place(&end, row);
    self->x = ls_conv_place(&end, row);
    plan->scratch = end;
  }
  self->per_block = ls_max_i64(1, BLOCK_WORK / (taps * conv->groups));
  plan->blocks =
      ls_blocks_of(conv->images * ls_conv_outputs(conv), self->per_block);
  plan->loop = depthwise_loop;
  return ls_ok();
}

// ---- Weights ---------------------------------------------------------------
// Adds the products of the line's pixels for one tap to `acc`, and adds that to
// `sum` where a chain ends.
static void add_line(const depthwise_params *self, const ls_kernel_call *call,
                     const ls_conv_phase *phase, const ls_conv_line *line,
                     int64_t first, int64_t pixel, int64_t count, char *sum) {
  const ls_conv *conv = phase->conv;
  char *scratch = call->scratch;
  int64_t row = line->image;
  bool inside = true;
  for (int i = 0; i < 2; ++i) {
    const ls_conv_axis *axis = &phase->axis[i];
    const int64_t place = axis->start + line->at[i] * axis->move;
    inside = inside && place >= 0 && place < conv->dim[i].in;
    row = row * conv->dim[i].in + place;
  }
  const ls_conv_axis *axis = &phase->axis[2];
  const int64_t output = ls_conv_output_at(phase, line);
  for (int64_t i = 0; i < line->count; ++i, ++pixel) {
    const int64_t place = axis->start + (line->at[2] + i) * axis->move;
    if (inside && place >= 0 && place < conv->dim[2].in) {
      const int64_t in = (row * conv->dim[2].in + place) * conv->groups;
      const int64_t out = (output + i * axis->period) * conv->groups;
      self->rows.add_products(scratch + self->acc,
                              load_channels(self, call->in[0], in + first,
                                            scratch + self->x, count),
                              load_channels(self, call->in[1], out + first,
                                            scratch + self->y, count),
                              count);
    }
    if ((pixel + 1) % CHAIN != 0 && pixel + 1 < phase->pixels) continue;
    self->rows.add(sum, scratch + self->acc, count);
    memset(scratch + self->acc, 0, (size_t)count * self->types.wide);
  }
}

static void depthwise_weights_loop(const ls_kernel_call *call,
                                   int64_t begin_block, int64_t end_block) {
  const depthwise_params *self = call->params;
  const int64_t channels = self->conv.groups;
  char *acc = (char *)call->scratch + self->acc;
  char *sum = (char *)call->scratch + self->weights;
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t tap = b / self->units,
                  first = b % self->units * UNIT_CHANNELS;
    const int64_t count = ls_min_i64(UNIT_CHANNELS, channels - first);
    ls_conv_phase phase;
    if (!ls_conv_phase_of_tap(&self->conv, tap, &phase)) phase.pixels = 0;
    memset(acc, 0, (size_t)count * self->types.wide);
    memset(sum, 0, (size_t)count * self->types.wide);
    for (int64_t m = 0; m < phase.pixels;) {
      const ls_conv_line line = ls_conv_line_at(&phase, m, phase.pixels);
      add_line(self, call, &phase, &line, first, m, count, sum);
      m += line.count;
    }
    ls_conv_narrow(&self->types,
                   (char *)call->out[0] +
                       (size_t)(tap * channels + first) * self->types.size,
                   sum, count);
  }
}

ls_status ls_conv_depthwise_weights(ls_kernel_plan *plan, const ls_conv *conv,
                                    const ls_conv_types *types) {
  depthwise_params *self = new_params(plan, conv, types);
  if (self == NULL) return ls_out_of_memory();
  const size_t row =
      (size_t)ls_min_i64(UNIT_CHANNELS, conv->groups) * types->wide;
  size_t end = 0;
  self->weights = ls_conv_place(&end, row);
  self->acc = ls_conv_place(&end, row);
  self->x = ls_conv_place(&end, row);
  self->y = ls_conv_place(&end, row);
  plan->scratch = end;
  self->units = ls_blocks_of(conv->groups, UNIT_CHANNELS);
  plan->blocks = ls_conv_taps(conv) * self->units;
  plan->loop = depthwise_weights_loop;
  return ls_ok();
}
