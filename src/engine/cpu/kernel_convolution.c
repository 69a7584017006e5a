// SPDX-License-Identifier: Apache-2.0
//
// Convolutions, with bias and activation or without, and their inputs'
// gradients: the same loop, on turned geometry and weights (conv.h).
//
// Every output is one chain of fused multiply-adds over (place in the input,
// channel), in row order, from +0; then comes the bias, then the activation.
// Places in the padding count as zeros. 16-bit floats are widened and rounded
// once at the end.
//
// A unit is a band of a phase's pixels for one group: its panel is made in
// scratch, small enough for the second cache, and multiplied by the weights.
#include "engine/cpu/kernel_list.h"
#include "engine/cpu/winograd.h"

// Bytes of a panel, and the least and greatest number of its rows.
enum { PANEL_BYTES = 192 << 10, LEAST_BAND = 48, GREATEST_BAND = 960 };

typedef struct conv_params {
  ls_conv conv;
  ls_conv_types types;
  ls_cpu_activation activation;
  bool has_bias;
  bool turned;    // Inputs and outputs have changed places in the weights.
  bool plain;     // The input is the panel.
  bool packs;     // Weights are brought in order, in scratch.
  bool scatters;  // Results go to scratch before they are put in place.
  int64_t phases, bands, band;
  int64_t columns;  // Of the widest panel.
  // Where things lie in scratch.
  size_t panel, half_panel, weights, result, bias, product;
} conv_params;

// ---- Weights ---------------------------------------------------------------
// The rows of a phase's weights, [taps, in channels, out channels], from what
// is stored: the same, or [taps, out channels, in channels]; of one group.
static void pack_weights(const conv_params *self, const ls_conv_phase *phase,
                         int64_t group, const void *stored, char *scratch) {
  const ls_conv *conv = &self->conv;
  const int64_t in = conv->in_channels, out = conv->out_channels;
  const int64_t rows = self->turned ? out : in,
                columns = self->turned ? in : out;
  const size_t wide = self->types.wide;
  for (int64_t t = 0; t < phase->taps; ++t) {
    const int64_t tap = ls_conv_tap_at(phase, t);
    char *to = scratch + self->weights + (size_t)(t * in * out) * wide;
    const char *from = (const char *)stored +
                       (size_t)((tap * rows * conv->groups + group) * columns) *
                           self->types.size;
    const size_t pitch = (size_t)(columns * conv->groups) * self->types.size;
    for (int64_t r = 0; r < rows; ++r, from += pitch) {
      char *row = to + (size_t)(r * columns) * wide;
      if (!self->turned)
        ls_conv_widen(&self->types, row, from, columns);
      else
        ls_conv_widen_column(&self->types, to + (size_t)r * wide, rows, from,
                             columns);
    }
  }
}

// ---- Results ---------------------------------------------------------------
// Puts the results of the pixels [m0, m1), which lie in scratch, in place.
static void scatter(const conv_params *self, const ls_conv_phase *phase,
                    int64_t group, int64_t m0, int64_t m1, const char *from,
                    void *out) {
  const ls_conv *conv = &self->conv;
  const bool half = self->types.half != LS_DTYPE_NONE;
  const int64_t size = (int64_t)self->types.size;
  const int64_t channels = conv->out_channels, all = channels * conv->groups;
  const int64_t row = channels * (int64_t)self->types.wide;
  const int64_t pitch = phase->axis[LS_WINDOW_DIMS - 1].period * all * size;
  for (int64_t m = m0; m < m1;) {
    const ls_conv_line line = ls_conv_line_at(phase, m, m1);
    char *to =
        (char *)out +
        (ls_conv_output_at(phase, &line) * all + group * channels) * size;
    if (!half) ls_conv_copy_rows(to, pitch, from, row, row, line.count);
    for (int64_t i = 0; half && i < line.count; ++i)
      ls_conv_narrow(&self->types, to + i * pitch, from + i * row, channels);
    from += line.count * row;
    m += line.count;
  }
}

// ---- Loop ------------------------------------------------------------------
// What stays the same from unit to unit.
typedef struct conv_state {
  const ls_kernel_call *call;
  ls_conv_phase phase;
  int64_t phase_number, group;
} conv_state;

static void begin_phase(const conv_params *self, conv_state *s, int64_t phase,
                        int64_t group) {
  if (s->phase_number == phase && s->group == group) return;
  s->phase = ls_conv_phase_of(&self->conv, phase);
  s->phase_number = phase;
  s->group = group;
  if (self->packs)
    pack_weights(self, &s->phase, group, s->call->in[1], s->call->scratch);
}

// The panel of the pixels [m0, m1).
static const void *panel_of(const conv_params *self, const conv_state *s,
                            int64_t m0, int64_t m1) {
  char *scratch = s->call->scratch;
  const int64_t columns = s->phase.taps * self->conv.in_channels;
  const size_t size = self->types.size;
  const char *in = (const char *)s->call->in[0] +
                   (size_t)(s->group * self->conv.in_channels) * size;
  if (self->plain)
    return in + (size_t)(m0 * columns * self->conv.groups) * size;
  const bool half = self->types.half != LS_DTYPE_NONE;
  char *to = scratch + (half ? self->half_panel : self->panel);
  ls_conv_panel(&s->phase, &(ls_conv_source){in, size}, m0, m1, 0, columns, to);
  if (half)
    ls_conv_widen(&self->types, scratch + self->panel, to, (m1 - m0) * columns);
  return scratch + self->panel;
}

static void unit(const conv_params *self, const conv_state *s, int64_t m0,
                 int64_t m1) {
  const ls_conv *conv = &self->conv;
  char *scratch = s->call->scratch;
  const int64_t all = conv->out_channels * conv->groups;
  const int64_t first = s->group * conv->out_channels;
  const size_t size = self->types.size, wide = self->types.wide;
  ls_cpu_product product = {
      .m = (size_t)(m1 - m0),
      .n = (size_t)conv->out_channels,
      .k = (size_t)(s->phase.taps * conv->in_channels),
      .a = panel_of(self, s, m0, m1),
      .b = self->packs ? scratch + self->weights
                       : (const char *)s->call->in[1] + (size_t)first * size,
      .c = self->scatters
               ? scratch + self->result
               : (char *)s->call->out[0] + (size_t)(m0 * all + first) * size,
      .ldb = (size_t)(self->packs ? conv->out_channels : all),
      .ldc = (size_t)(self->scatters ? conv->out_channels : all),
      .activation = self->activation,
  };
  product.lda = product.k * (size_t)(self->plain ? conv->groups : 1);
  if (self->has_bias)
    product.bias =
        (self->types.half != LS_DTYPE_NONE ? scratch + self->bias
                                           : (const char *)s->call->in[2]) +
        (size_t)first * wide;
  self->types.product(&product, &(ls_cpu_block){0, product.m, 0, product.n},
                      scratch + self->product);
  if (self->scatters)
    scatter(self, &s->phase, s->group, m0, m1, product.c, s->call->out[0]);
}

static void convolution_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const conv_params *self = call->params;
  conv_state s = {.call = call, .phase_number = -1, .group = -1};
  if (self->has_bias && self->types.half != LS_DTYPE_NONE)
    ls_conv_widen(&self->types, (char *)call->scratch + self->bias, call->in[2],
                  self->conv.out_channels * self->conv.groups);
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t phase = b / self->bands;
    begin_phase(self, &s, phase % self->phases, phase / self->phases);
    const int64_t m0 = b % self->bands * self->band;
    const int64_t m1 = ls_min_i64(m0 + self->band, s.phase.pixels);
    if (m0 < m1) unit(self, &s, m0, m1);
  }
}

// ---- Plan ------------------------------------------------------------------
static void place_scratch(ls_kernel_plan *plan, conv_params *self) {
  const ls_conv *conv = &self->conv;
  const size_t wide = self->types.wide, band = (size_t)self->band;
  const size_t columns = (size_t)self->columns;
  const size_t out = (size_t)conv->out_channels;
  const bool half = self->types.half != LS_DTYPE_NONE;
  const ls_cpu_product largest = {.m = band, .n = out, .k = columns};
  size_t end = 0;
  self->panel = ls_conv_place(&end, self->plain ? 0 : band * columns * wide);
  self->half_panel =
      ls_conv_place(&end, half ? band * columns * self->types.size : 0);
  self->weights = ls_conv_place(&end, self->packs ? columns * out * wide : 0);
  self->result = ls_conv_place(&end, self->scatters ? band * out * wide : 0);
  self->bias = ls_conv_place(
      &end, half && self->has_bias ? out * (size_t)conv->groups * wide : 0);
  self->product = ls_conv_place(&end, self->types.product_scratch(&largest));
  plan->scratch = end;
}

static void cut_bands(conv_params *self) {
  const ls_conv *conv = &self->conv;
  const ls_conv_phase first = ls_conv_phase_of(conv, 0);
  self->columns = ls_conv_taps(conv) * conv->in_channels;
  const int64_t row = ls_max_i64(1, self->columns) * (int64_t)self->types.wide;
  const int64_t band = ls_max_i64(
      LEAST_BAND, ls_min_i64(GREATEST_BAND, PANEL_BYTES / row / 24 * 24));
  // Of the phases the first has the most pixels.
  self->band = ls_max_i64(1, ls_min_i64(band, first.pixels));
  self->bands = ls_blocks_of(first.pixels, self->band);
}

// Reads the geometry: of the convolution, or of its input's gradient.
static ls_status read_geometry(ls_kernel_plan *plan, conv_params *self) {
  const ls_shape y = plan->in[0].shape, w = plan->in[1].shape;
  self->turned = plan->node->type == LS_OP_CONV_GRAD_INPUT;
  if (!self->turned)
    return ls_conv_read(plan, y, w, plan->out[0].shape, &self->conv);
  ls_conv forward;
  LS_RETURN_IF_ERROR(ls_conv_read(plan, plan->out[0].shape, w, y, &forward));
  self->conv = ls_conv_turned(&forward);
  return ls_ok();
}

ls_status kernel_convolution(ls_kernel_plan *plan) {
  conv_params *self = ls_arena_new(plan->arena, conv_params);
  if (self == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_conv_types_of(plan, &self->types));
  LS_RETURN_IF_ERROR(read_geometry(plan, self));
  if (ls_node_attr(plan->node, "activation") != NULL)
    self->activation = LS_CPU_ACTIVATION_RELU;
  self->has_bias = plan->num_in > 2;
  const ls_conv *conv = &self->conv;
  plan->flops = ls_conv_flops(conv);
  if (conv->groups > 1 && conv->in_channels == 1 && conv->out_channels == 1)
    return ls_conv_depthwise(plan, conv, &self->types, self->activation);
  if (ls_winograd_fits(plan, conv))
    return ls_winograd_convolution(plan, conv, self->turned, self->activation);
  const bool half = self->types.half != LS_DTYPE_NONE;
  const bool dense = ls_conv_is_dense(conv);
  self->plain = ls_conv_is_plain(conv) && !half;
  self->packs = self->turned || !dense || half;
  self->phases = ls_conv_phases(conv);
  self->scatters = self->phases > 1 || half;
  cut_bands(self);
  place_scratch(plan, self);
  plan->loop = convolution_loop;
  plan->params = self;
  plan->blocks = conv->groups * self->phases * self->bands;
  return ls_ok();
}
