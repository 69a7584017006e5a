// SPDX-License-Identifier: Apache-2.0
//
// Convolutions, with or without bias and activation, and their inputs'
// gradients: the same loop, with the geometry and weights of the gradient
// (conv.h).
//
// Every output is one chain of fused multiply-adds over (position in the input,
// channel), in row order, from +0; then comes the bias, then the activation.
// Positions in the padding count as zeros. 16-bit floats are widened and
// rounded once at the end.
//
// A unit is a band of a phase's pixels for one group, small enough for the
// second cache: it is multiplied by the weights as a view of the input
// (plan.h), or as a panel that is made in scratch. A first step rearranges the
// weights if they need another order.
#include "engine/cpu/conv/plan.h"
#include "engine/cpu/conv/sparse.h"
#include "engine/cpu/conv/winograd.h"
#include "engine/cpu/conv/zeros.h"
#include "engine/cpu/kernels/kernel.h"

// Bytes of a panel, and the least and greatest number of its rows.
enum { PANEL_BYTES = 192 << 10, LEAST_BAND = 48, GREATEST_BAND = 960 };
// Pixels of a view.
enum { VIEW_PIXELS = 256 };

typedef struct conv_params {
  ls_conv conv;
  ls_conv_types types;
  ls_cpu_activation activation;
  bool has_bias;
  bool swaps_channels;  // Gradient: weights are [taps, out, in].
  bool plain;           // The input is the panel.
  bool packs;           // The first step rearranges the weights.
  ls_cpu_transpose_fn *transpose;
  bool scatters;  // Results go to scratch before they are stored.
  // If not NULL, stores only the maxima of the results.
  const ls_cpu_windows *pools;
  int64_t phases, bands, band;
  int64_t columns;  // Columns of the widest panel.
  ls_conv_bands views;
  ls_conv_zeros zeros;
  // Offset of the first step's flag: true if all weights are finite.
  size_t is_finite;
  // Offsets in scratch.
  size_t panel, half_panel, result, bias, product;
} conv_params;

// ---- Weights ---------------------------------------------------------------
// Returns the number of elements of a group's weights before those of `phase`.
static int64_t weights_before(const conv_params *self, int64_t phase) {
  int64_t taps = 0;
  for (int64_t i = 0; i < phase; ++i)
    taps += ls_conv_phase_of(&self->conv, i).taps;
  return taps * self->conv.in_channels * self->conv.out_channels;
}

// Returns the offset of a phase's weights of a group in the output of the first
// step.
static size_t weights_at(const conv_params *self, int64_t phase,
                         int64_t group) {
  const ls_conv *conv = &self->conv;
  const int64_t of_group =
      ls_conv_taps(conv) * conv->in_channels * conv->out_channels;
  return (size_t)(group * of_group + weights_before(self, phase)) *
         self->types.wide;
}

// Writes a tap of a phase of one group as [in channels, out channels]; it is
// stored in that order or as [out channels, in channels].
static void pack_tap(const conv_params *self, const ls_conv_phase *phase,
                     int64_t t, int64_t group, const void *stored,
                     char *weights) {
  const ls_conv *conv = &self->conv;
  const int64_t in = conv->in_channels, out = conv->out_channels;
  const int64_t rows = self->swaps_channels ? out : in,
                columns = self->swaps_channels ? in : out;
  const size_t wide = self->types.wide;
  const int64_t tap = ls_conv_tap_at(phase, t);
  char *target = weights + (size_t)(t * in * out) * wide;
  const char *from = (const char *)stored +
                     (size_t)((tap * rows * conv->groups + group) * columns) *
                         self->types.size;
  const size_t pitch = (size_t)(columns * conv->groups) * self->types.size;
  if (self->swaps_channels && self->types.size == sizeof(float)) {
    self->transpose((float *)(void *)target, (size_t)rows,
                    (const float *)(const void *)from, pitch / sizeof(float),
                    (size_t)columns, (size_t)rows);
    return;
  }
  for (int64_t r = 0; r < rows; ++r, from += pitch) {
    char *row = target + (size_t)(r * columns) * wide;
    if (!self->swaps_channels)
      ls_conv_widen(&self->types, row, from, columns);
    else
      ls_conv_widen_column(&self->types, target + (size_t)r * wide, rows, from,
                           columns);
  }
}

// First step: a block is a tap of a group, counted over all phases.
static void pack_weights_loop(const ls_kernel_call *call, int64_t begin_block,
                              int64_t end_block) {
  const conv_params *self = call->params;
  const int64_t taps = ls_conv_taps(&self->conv);
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t group = b / taps;
    int64_t t = b % taps;
    for (int64_t i = 0; i < self->phases; ++i) {
      const ls_conv_phase phase = ls_conv_phase_of(&self->conv, i);
      if (t < phase.taps) {
        pack_tap(self, &phase, t, group, call->in[1],
                 (char *)call->out[0] + weights_at(self, i, group));
        break;
      }
      t -= phase.taps;
    }
  }
  if (begin_block > 0 || self->zeros.kernels == NULL) return;
  char *finite = (char *)call->out[0] + self->is_finite;
  *finite = self->zeros.kernels->are_finite(
      call->in[1], (size_t)(self->columns * self->conv.out_channels));
}

// ---- Results ---------------------------------------------------------------
// Stores the results of the pixels [m0, m1), which are in scratch.
static void scatter_results(const conv_params *self, const ls_conv_phase *phase,
                            int64_t group, int64_t m0, int64_t m1,
                            const char *from, void *out) {
  const ls_conv *conv = &self->conv;
  const int64_t size = (int64_t)self->types.size;
  const int64_t channels = conv->out_channels,
                num_channels = channels * conv->groups;
  const int64_t row = channels * (int64_t)self->types.wide;
  const int64_t pitch =
      phase->axis[LS_WINDOW_DIMS - 1].period * num_channels * size;
  for (int64_t m = m0; m < m1;) {
    const ls_conv_line line = ls_conv_line_at(phase, m, m1);
    char *target =
        (char *)out +
        (ls_conv_output_at(phase, &line) * num_channels + group * channels) *
            size;
    ls_conv_narrow_rows(&self->types, target, pitch, from, channels,
                        line.count);
    from += line.count * row;
    m += line.count;
  }
}

// Stores the maxima of the pixels [m0, m1), which are whole lines of one image
// starting at an even line.
static void pool_results(const conv_params *self, int64_t m0, int64_t m1,
                         const ls_kernel_call *call) {
  const ls_conv *conv = &self->conv;
  const int64_t channels = conv->out_channels;
  const int64_t width = conv->dim[LS_WINDOW_DIMS - 1].out;
  const int64_t pixels = ls_conv_outputs(conv);
  const int64_t line = m0 % pixels / width;
  const int64_t target =
      (m0 / pixels * ls_conv_windows(conv) + line / 2 * (width / 2)) * channels;
  const char *from = (const char *)call->scratch + self->result;
  ls_pool_lines(self->pools, (const float *)(const void *)from, width, channels,
                (m1 - m0) / (2 * width), (float *)call->out[0] + target,
                (uint8_t *)call->out[1] + target);
}

// ---- Loop ------------------------------------------------------------------
// State that does not change from unit to unit.
typedef struct conv_state {
  const ls_kernel_call *call;
  ls_conv_phase phase;
  int64_t phase_number, group;
  const char *weights;  // Weights of the phase and group.
} conv_state;

static void begin_phase(const conv_params *self, conv_state *s, int64_t phase,
                        int64_t group) {
  if (s->phase_number == phase && s->group == group) return;
  s->phase = ls_conv_phase_of(&self->conv, phase);
  s->phase_number = phase;
  s->group = group;
  const size_t size = self->types.size;
  s->weights = self->packs
                   ? (const char *)s->call->in[self->has_bias ? 3 : 2] +
                         weights_at(self, phase, group)
                   : (const char *)s->call->in[1] +
                         (size_t)(group * self->conv.out_channels) * size;
}

// Returns the first element of the group's input.
static const char *group_input(const conv_params *self, const conv_state *s) {
  return (const char *)s->call->in[0] +
         (size_t)(s->group * self->conv.in_channels) * self->types.size;
}

// Returns the panel of the pixels [m0, m1).
static const void *panel_of(const conv_params *self, const conv_state *s,
                            int64_t m0, int64_t m1) {
  char *scratch = s->call->scratch;
  const int64_t columns = s->phase.taps * self->conv.in_channels;
  const size_t size = self->types.size;
  const char *in = group_input(self, s);
  if (self->plain)
    return in + (size_t)(m0 * columns * self->conv.groups) * size;
  const bool half = self->types.half != LS_DTYPE_NONE;
  char *target = scratch + (half ? self->half_panel : self->panel);
  ls_conv_panel(&s->phase, &(ls_conv_source){in, size}, m0, m1, 0, columns,
                target);
  if (half)
    ls_conv_widen(&self->types, scratch + self->panel, target,
                  (m1 - m0) * columns);
  return scratch + self->panel;
}

// Multiplies the panel of the pixels [m0, m1), which is A of `product`.
static void multiply_panel(const conv_params *self, const conv_state *s,
                           int64_t m0, int64_t m1, ls_cpu_product *product) {
  const ls_conv *conv = &self->conv;
  char *scratch = s->call->scratch;
  const int64_t num_channels = conv->out_channels * conv->groups;
  const int64_t first = s->group * conv->out_channels;
  const size_t size = self->types.size, wide = self->types.wide;
  product->m = (size_t)(m1 - m0);
  product->n = (size_t)conv->out_channels;
  product->k = (size_t)(s->phase.taps * conv->in_channels);
  product->b = s->weights;
  product->c = self->scatters ? scratch + self->result
                              : (char *)s->call->out[0] +
                                    (size_t)(m0 * num_channels + first) * size;
  product->ldb = (size_t)(self->packs ? conv->out_channels : num_channels);
  product->ldc = (size_t)(self->scatters ? conv->out_channels : num_channels);
  product->activation = self->activation;
  if (self->has_bias)
    product->bias =
        (self->types.half != LS_DTYPE_NONE ? scratch + self->bias
                                           : (const char *)s->call->in[2]) +
        (size_t)first * wide;
  self->types.product(product, &(ls_cpu_block){0, product->m, 0, product->n},
                      scratch + self->product);
  if (self->pools != NULL)
    pool_results(self, m0, m1, s->call);
  else if (self->scatters)
    scatter_results(self, &s->phase, s->group, m0, m1, product->c,
                    s->call->out[0]);
}

// Runs unit `band` of the phase's pixels with a panel.
static void run_panel(const conv_params *self, const conv_state *s,
                      int64_t band) {
  const int64_t m0 = band * self->band;
  const int64_t m1 = ls_min_i64(m0 + self->band, s->phase.pixels);
  if (m0 >= m1) return;
  ls_cpu_product product = {
      .a = panel_of(self, s, m0, m1),
      .lda = (size_t)(s->phase.taps * self->conv.in_channels *
                      (self->plain ? self->conv.groups : 1)),
  };
  multiply_panel(self, s, m0, m1, &product);
}

// Returns true if products with zeros of dy may be skipped without changing a
// result.
static bool may_leave_out(const conv_params *self, const conv_state *s) {
  return self->zeros.kernels != NULL && s->weights[self->is_finite] != 0;
}

// Runs unit `band` of the lines of all images with a view.
static void run_view(const conv_params *self, const conv_state *s,
                     int64_t band) {
  const ls_conv_axis *axis = s->phase.axis;
  const int64_t lines = axis[LS_WINDOW_DIMS - 2].count;
  const int64_t width = axis[LS_WINDOW_DIMS - 1].count;
  const int64_t image = band / self->views.per_image;
  const int64_t begin = band % self->views.per_image * self->views.lines;
  const int64_t end = ls_min_i64(begin + self->views.lines, lines);
  if (image >= self->conv.images || begin >= end || width == 0) return;
  ls_cpu_product product = {0};
  ls_conv_view view = {0};
  if (s->phase.taps > 0) {
    view = ls_conv_view_band(&s->phase, &self->types, group_input(self, s),
                             image, begin, end, false,
                             (char *)s->call->scratch + self->panel);
    product = (ls_cpu_product){.a = view.start,
                               .lda = view.pixel,
                               .m_line = view.line,
                               .m_skip = view.line_skip,
                               .k_line = view.run,
                               .k_skip = view.run_skip};
  }
  const int64_t before = image * lines * width;
  if (may_leave_out(self, s) &&
      ls_conv_zeros_multiply(
          &self->zeros, &view, end - begin, (const float *)s->weights,
          (float *)s->call->out[0] +
              (before + begin * width) * self->conv.out_channels,
          s->call->scratch))
    return;
  multiply_panel(self, s, before + begin * width, before + end * width,
                 &product);
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
    (self->views.lines > 0 ? run_view : run_panel)(self, &s, b % self->bands);
  }
}

// ---- Plan ------------------------------------------------------------------
static void place_band_scratch(ls_kernel_plan *plan, conv_params *self) {
  const ls_conv *conv = &self->conv;
  const size_t wide = self->types.wide, band = (size_t)self->band;
  const size_t columns = (size_t)self->columns;
  const size_t out = (size_t)conv->out_channels;
  const bool half = self->types.half != LS_DTYPE_NONE;
  const ls_cpu_product largest = {.m = band, .n = out, .k = columns};
  const bool is_view = self->views.lines > 0;
  size_t end = 0;
  self->panel = ls_conv_place(&end, is_view       ? self->views.bytes
                                    : self->plain ? 0
                                                  : band * columns * wide);
  self->half_panel = ls_conv_place(
      &end, half && !is_view ? band * columns * self->types.size : 0);
  self->result = ls_conv_place(&end, self->scatters ? band * out * wide : 0);
  self->bias = ls_conv_place(
      &end, half && self->has_bias ? out * (size_t)conv->groups * wide : 0);
  self->product = ls_conv_place(&end, self->types.product_scratch(&largest));
  if (self->swaps_channels && is_view && self->phases == 1 &&
      conv->groups == 1 && !half &&
      self->types.product == plan->kernels->product_f32)
    ls_conv_zeros_plan(&self->zeros, plan->kernels->zeros, conv, &self->types,
                       &self->views, &end);
  plan->scratch = end;
}

static void cut_bands(conv_params *self) {
  const ls_conv *conv = &self->conv;
  const ls_conv_phase first = ls_conv_phase_of(conv, 0);
  self->columns = ls_conv_taps(conv) * conv->in_channels;
  const int64_t row = ls_max_i64(1, self->columns) * (int64_t)self->types.wide;
  const int64_t band = ls_max_i64(
      LEAST_BAND, ls_min_i64(GREATEST_BAND, PANEL_BYTES / row / 24 * 24));
  const int64_t pair = 2 * conv->dim[LS_WINDOW_DIMS - 1].out;
  const bool is_odd = conv->dim[LS_WINDOW_DIMS - 2].out % 2 != 0;
  const bool pools = self->pools != NULL;
  // The first phase has the most pixels.
  self->band = pools ? (is_odd ? ls_conv_outputs(conv) : pair)
                     : ls_max_i64(1, ls_min_i64(band, first.pixels));
  self->bands = ls_blocks_of(first.pixels, self->band);
  const int64_t pixels =
      pools ? ls_max_i64(1, VIEW_PIXELS / pair) * pair : VIEW_PIXELS;
  if (self->plain ||
      !ls_conv_cut_bands(conv, &self->types, pixels, &self->views))
    return;
  self->band = self->views.lines * first.axis[LS_WINDOW_DIMS - 1].count;
  self->bands = ls_max_i64(1, conv->images * self->views.per_image);
}

// Reads the geometry of the convolution, or of its input's gradient.
static ls_status read_geometry(ls_kernel_plan *plan, conv_params *self) {
  const ls_shape y = plan->in[0].shape, w = plan->in[1].shape;
  self->swaps_channels = plan->node->type == LS_OP_CONV_GRAD_INPUT;
  if (plan->node->type == LS_OP_CONV_POOL_MAX) {
    self->pools = plan->kernels->windows;
    return ls_conv_read_pooled(plan, y, w, &self->conv);
  }
  if (!self->swaps_channels)
    return ls_conv_read(plan, y, w, plan->out[0].shape, &self->conv);
  ls_conv forward;
  LS_RETURN_IF_ERROR(ls_conv_read(plan, plan->out[0].shape, w, y, &forward));
  self->conv = ls_conv_input_gradient(&forward);
  return ls_ok();
}

ls_status kernel_convolution(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, conv_params, self);
  LS_RETURN_IF_ERROR(read_geometry(plan, self));
  LS_RETURN_IF_ERROR(
      ls_conv_types_of(plan, self->conv.in_channels, &self->types));
  if (ls_node_attr(plan->node, LS_ATTR_ID_ACTIVATION) != NULL)
    self->activation = LS_CPU_ACTIVATION_RELU;
  self->has_bias = plan->num_in > 2;
  const ls_conv *conv = &self->conv;
  plan->flops = ls_conv_flops(conv);
  if (ls_conv_fits_depthwise(plan, conv, &self->types))
    return ls_conv_depthwise(plan, conv, &self->types, self->activation);
  if (ls_winograd_fits(plan, conv))
    return ls_winograd_convolution(plan, conv, self->swaps_channels,
                                   self->activation);
  const bool half = self->types.half != LS_DTYPE_NONE;
  const bool dense = ls_conv_is_dense(conv);
  self->plain = ls_conv_is_plain(conv) && !half;
  self->packs = self->swaps_channels || !dense || half;
  self->phases = ls_conv_phases(conv);
  self->scatters = self->phases > 1 || half || self->pools != NULL;
  cut_bands(self);
  place_band_scratch(plan, self);
  if (self->packs) {
    plan->first = pack_weights_loop;
    plan->first_blocks = ls_max_i64(1, conv->groups * ls_conv_taps(conv));
    self->transpose = plan->kernels->transpose;
    plan->shared = self->types.wide * (size_t)(conv->groups * self->columns) *
                   (size_t)conv->out_channels;
  }
  if (self->zeros.kernels != NULL) {
    self->is_finite = plan->shared + LS_ZEROS_ROOM;
    plan->shared = self->is_finite + 1;
  }
  return ls_kernel_runs(plan, convolution_loop, self,
                        conv->groups * self->phases * self->bands);
}
