// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions for their weights.
//
// The gradient is the transposed panel times dy. Every element is a sum over
// (image, position of the output) in row order: chains of fused multiply-adds,
// each from +0, added up in order. A chain is CHAIN outputs long or, if the
// panel is a view of the input (plan.h), a band of lines of about that many.
// 16-bit floats are widened and rounded once at the end.
//
// With views the bands are distributed to parts, a function of the shapes
// alone, each of which adds up a gradient of its own; a second step adds these
// in order.
//
// The outputs are cut into units of rows, (tap, channel), of one group; each
// goes over all pixels. Adjacent units are joined, so that one panel and one
// reading of dy serve them. If not every tap is used by every output (a dilated
// input), a unit is a tap, with the pixels of its phase.
#include "engine/cpu/conv/plan.h"
#include "engine/cpu/conv/winograd.h"
#include "engine/cpu/conv/zeros.h"
#include "engine/cpu/kernels/kernel.h"

// Pixels of a chain; rows of a unit; most rows of joined units.
enum { CHAIN = 256, UNIT_ROWS = 24, JOINED_ROWS = 480 };
// Weights of a block of the second step.
enum { STRETCH = 4096 };

typedef struct weights_params {
  ls_conv conv;
  ls_conv_types types;
  bool dense, plain;
  bool gathers;   // dy is gathered in scratch.
  int64_t units;  // Units of a group.
  ls_conv_bands views;
  ls_conv_zeros_weights zeros;
  int64_t parts;  // Parts of the bands; 0: the rows of weights are cut instead.
  // Offsets of the buffers in scratch.
  size_t panel, half_panel, dy, result, product;
} weights_params;

// Rows [r0, r1) of a group's weights, and their panel.
typedef struct part {
  int64_t group, r0, r1;
  ls_conv_phase phase;
  int64_t k0, k1;  // Columns of the phase's panel.
} part;

// Returns dy of the pixels [m0, m1), and its row pitch.
static const void *dy_of(const weights_params *self, const part *p,
                         const ls_kernel_call *call, int64_t m0, int64_t m1,
                         size_t *out_pitch) {
  const ls_conv *conv = &self->conv;
  const int64_t channels = conv->out_channels,
                num_channels = channels * conv->groups;
  const char *in = (const char *)call->in[1] +
                   (size_t)(p->group * channels) * self->types.size;
  *out_pitch = (size_t)(self->gathers ? channels : num_channels);
  if (!self->gathers)
    return in + (size_t)(m0 * num_channels) * self->types.size;
  char *dy = (char *)call->scratch + self->dy, *target = dy;
  for (int64_t m = m0; m < m1;) {
    const ls_conv_line line = ls_conv_line_at(&p->phase, m, m1);
    const int64_t at = ls_conv_output_at(&p->phase, &line);
    const int64_t period = p->phase.axis[LS_WINDOW_DIMS - 1].period;
    const int64_t pixel = num_channels * (int64_t)self->types.size;
    ls_conv_widen_rows(&self->types, target, in + at * pixel, period * pixel,
                       channels, line.count);
    target += (size_t)(line.count * channels) * self->types.wide;
    m += line.count;
  }
  return dy;
}

static const void *panel_of(const weights_params *self, const part *p,
                            const ls_kernel_call *call, int64_t m0, int64_t m1,
                            size_t *out_pitch) {
  const ls_conv *conv = &self->conv;
  const int64_t num_channels = conv->in_channels * conv->groups;
  const size_t size = self->types.size;
  char *scratch = call->scratch;
  const char *in =
      (const char *)call->in[0] + (size_t)(p->group * conv->in_channels) * size;
  *out_pitch = (size_t)(self->plain ? num_channels : p->k1 - p->k0);
  if (self->plain) return in + (size_t)(m0 * num_channels + p->k0) * size;
  const bool half = self->types.half != LS_DTYPE_NONE;
  char *target = scratch + (half ? self->half_panel : self->panel);
  ls_conv_panel(&p->phase, &(ls_conv_source){in, size}, m0, m1, p->k0, p->k1,
                target);
  if (half)
    ls_conv_widen(&self->types, scratch + self->panel, target,
                  (m1 - m0) * (p->k1 - p->k0));
  return scratch + self->panel;
}

// Adds the chain of a part from pixel m0 on, with a panel; returns its end.
static int64_t add_panel(const weights_params *self, const part *p,
                         const ls_kernel_call *call, int64_t m0,
                         ls_cpu_product *product) {
  const int64_t m1 = ls_min_i64(m0 + CHAIN, p->phase.pixels);
  product->k = (size_t)(m1 - m0);
  product->a = panel_of(self, p, call, m0, m1, &product->lda);
  product->b = dy_of(self, p, call, m0, m1, &product->ldb);
  self->types.product(product, &(ls_cpu_block){0, product->m, 0, product->n},
                      (char *)call->scratch + self->product);
  return m1;
}

// Adds the chain of a part from pixel m0 on with a view, whose rows are those
// of all parts; returns its end. `product` is the part's.
static int64_t add_view(const weights_params *self, const part *p,
                        const ls_kernel_call *call, int64_t m0,
                        const ls_cpu_product *of_part) {
  const ls_conv_axis *axis = p->phase.axis;
  const int64_t lines = axis[LS_WINDOW_DIMS - 2].count;
  const int64_t width = axis[LS_WINDOW_DIMS - 1].count;
  const int64_t line = m0 / width, begin = line % lines;
  const int64_t end = ls_min_i64(begin + self->views.lines, lines);
  const ls_conv_view view =
      ls_conv_view_band(&p->phase, &self->types, call->in[0], line / lines,
                        begin, end, false, (char *)call->scratch + self->panel);
  ls_cpu_product product = *of_part;
  product.a = view.start;
  product.lda = view.pixel;
  product.m_line = view.run;
  product.m_skip = view.run_skip;
  product.k_line = view.line;
  product.k_skip = view.line_skip;
  product.m = (size_t)p->r1;
  product.c = (char *)of_part->c -
              (size_t)(p->r0 * (int64_t)of_part->ldc) * self->types.wide;
  product.k = (size_t)((end - begin) * width);
  product.b = dy_of(self, p, call, m0, m0 + (int64_t)product.k, &product.ldb);
  self->types.product(&product,
                      &(ls_cpu_block){(size_t)p->r0, product.m, 0, product.n},
                      (char *)call->scratch + self->product);
  return m0 + (int64_t)product.k;
}

static void run_part(const weights_params *self, const part *p,
                     const ls_kernel_call *call) {
  const ls_conv *conv = &self->conv;
  const int64_t channels = conv->out_channels,
                num_channels = channels * conv->groups;
  const bool half = self->types.half != LS_DTYPE_NONE;
  char *scratch = call->scratch;
  char *out =
      (char *)call->out[0] +
      (size_t)(p->r0 * num_channels + p->group * channels) * self->types.size;
  ls_cpu_product product = {
      .m = (size_t)(p->r1 - p->r0),
      .n = (size_t)channels,
      .c = half ? scratch + self->result : out,
      .ldc = (size_t)(half ? channels : num_channels),
      .a_transposed = true,
  };
  const bool is_view = self->views.lines > 0 && p->phase.pixels > 0;
  int64_t m0 = 0;
  do {  // Runs once even without pixels: the gradient is zero.
    product.accumulate = m0 > 0;
    m0 = is_view ? add_view(self, p, call, m0, &product)
                 : add_panel(self, p, call, m0, &product);
  } while (m0 < p->phase.pixels);
  if (half)
    ls_conv_narrow_rows(&self->types, out,
                        num_channels * (int64_t)self->types.size, product.c,
                        channels, p->r1 - p->r0);
}

// ---- Parts of the bands ----------------------------------------------------
static int64_t num_bands(const weights_params *self) {
  return self->conv.images * self->views.per_image;
}

static int64_t num_weights(const weights_params *self) {
  return ls_conv_taps(&self->conv) * self->conv.in_channels *
         self->conv.out_channels;
}

// First step: a block is a part.
static void sum_bands_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const weights_params *self = call->params;
  const ls_conv *conv = &self->conv;
  const part all_rows = {.r1 = ls_conv_taps(conv) * conv->in_channels,
                         .phase = ls_conv_phase_of(conv, 0)};
  const int64_t lines = all_rows.phase.axis[LS_WINDOW_DIMS - 2].count;
  const int64_t width = all_rows.phase.axis[LS_WINDOW_DIMS - 1].count;
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t first = b * num_bands(self) / self->parts;
    const int64_t end = (b + 1) * num_bands(self) / self->parts;
    ls_cpu_product product = {
        .m = (size_t)all_rows.r1,
        .n = (size_t)conv->out_channels,
        .c = (char *)call->out[0] +
             (size_t)(b * num_weights(self)) * self->types.wide,
        .ldc = (size_t)conv->out_channels,
        .a_transposed = true,
    };
    if (self->zeros.kernels != NULL &&
        ls_conv_zeros_sum(&self->zeros, call->in[0], call->in[1], first, end,
                          product.c, call->scratch))
      continue;
    for (int64_t band = first; band < end; ++band) {
      const int64_t line = band / self->views.per_image * lines +
                           band % self->views.per_image * self->views.lines;
      product.accumulate = band > first;
      add_view(self, &all_rows, call, line * width, &product);
    }
  }
}

#define ADD_PARTS(name, T)                                                     \
  static void name(T *out, const T *parts, int64_t count, int64_t size,        \
                   int64_t begin, int64_t end) {                               \
    for (int64_t i = begin; i < end; ++i)                                      \
      out[i] = parts[i];                                                       \
    for (int64_t p = 1; p < count; ++p)                                        \
      for (int64_t i = begin; i < end; ++i)                                    \
        out[i] += parts[p * size + i];                                         \
  }
ADD_PARTS(add_parts_f32, float)
ADD_PARTS(add_parts_f64, double)

// Second step: a block is a range of weights.
static void add_parts_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const weights_params *self = call->params;
  const int64_t size = num_weights(self), begin = begin_block * STRETCH;
  const int64_t end = ls_min_i64(end_block * STRETCH, size);
  if (self->types.wide == sizeof(double))
    add_parts_f64(call->out[0], call->in[0], self->parts, size, begin, end);
  else
    add_parts_f32(call->out[0], call->in[0], self->parts, size, begin, end);
}

// Divides the bands into parts; returns false if that is slower.
static bool cut_parts(weights_params *self) {
  const ls_conv *conv = &self->conv;
  self->parts =
      ls_conv_parts(conv, num_bands(self), conv->images * ls_conv_outputs(conv),
                    self->types.wide);
  if (self->parts == 1 || num_weights(self) == 0) self->parts = 0;
  return self->parts > 0;
}

// ---- Parts of the rows -----------------------------------------------------
static void weight_rows_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const weights_params *self = call->params;
  const int64_t rows = ls_conv_taps(&self->conv) * self->conv.in_channels;
  const int64_t most = JOINED_ROWS / UNIT_ROWS;
  for (int64_t b = begin_block; b < end_block;) {
    part p = {.group = b / self->units};
    const int64_t unit = b % self->units;
    int64_t joined = 1;
    if (self->dense) {
      // Joins units evenly: as many calls as necessary, equally long.
      const int64_t left = ls_min_i64(self->units - unit, end_block - b);
      joined = ls_blocks_of(left, ls_blocks_of(left, most));
      p.phase = ls_conv_phase_of(&self->conv, 0);
      p.r0 = p.k0 = unit * UNIT_ROWS;
      p.r1 = p.k1 = ls_min_i64((unit + joined) * UNIT_ROWS, rows);
    } else {
      p.r0 = unit * self->conv.in_channels;
      p.r1 = p.r0 + self->conv.in_channels;
      p.k1 = self->conv.in_channels;
      if (!ls_conv_phase_of_tap(&self->conv, unit, &p.phase))
        p.phase.pixels = 0;
    }
    run_part(self, &p, call);
    b += joined;
  }
}

// ---- Plan ------------------------------------------------------------------
ls_status kernel_conv_grad_weights(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, weights_params, self);
  LS_RETURN_IF_ERROR(ls_conv_read(plan, plan->in[0].shape, plan->out[0].shape,
                                  plan->in[1].shape, &self->conv));
  const ls_conv *conv = &self->conv;
  LS_RETURN_IF_ERROR(
      ls_conv_types_of(plan, conv->dim[LS_WINDOW_DIMS - 1].out, &self->types));
  plan->flops = ls_conv_flops(conv);
  if (ls_conv_fits_depthwise(plan, conv, &self->types))
    return ls_conv_depthwise_weights(plan, conv, &self->types);
  if (ls_winograd_weights_fit(plan, conv))
    return ls_winograd_weights(plan, conv);
  const int64_t taps = ls_conv_taps(conv);
  const bool half = self->types.half != LS_DTYPE_NONE;
  const size_t wide = self->types.wide;
  self->dense = ls_conv_is_dense(conv);
  self->plain = ls_conv_is_plain(conv) && !half;
  self->gathers = half || ls_conv_phases(conv) > 1;
  const int64_t all_rows = taps * conv->in_channels;
  self->units = self->dense ? ls_blocks_of(all_rows, UNIT_ROWS) : taps;
  const size_t rows = (size_t)(self->dense ? ls_min_i64(JOINED_ROWS, all_rows)
                                           : conv->in_channels);
  const size_t out = (size_t)conv->out_channels;
  const bool is_view =
      self->dense && !self->plain && conv->groups == 1 && !half &&
      ls_conv_cut_bands(conv, &self->types, CHAIN, &self->views);
  const bool by_parts = is_view && cut_parts(self);
  // The product of a view has all rows, whichever of them a unit computes.
  const ls_cpu_product largest = {
      .m = is_view ? (size_t)all_rows : rows,
      .n = out,
      .k = (size_t)ls_max_i64(CHAIN, self->views.lines *
                                         conv->dim[LS_WINDOW_DIMS - 1].out),
      .a_transposed = true,
      .accumulate = true};
  size_t end = 0;
  self->panel = ls_conv_place(&end, is_view       ? self->views.bytes
                                    : self->plain ? 0
                                                  : CHAIN * rows * wide);
  self->half_panel =
      ls_conv_place(&end, half ? CHAIN * rows * self->types.size : 0);
  self->dy = ls_conv_place(&end, self->gathers ? CHAIN * out * wide : 0);
  self->result = ls_conv_place(&end, half ? rows * out * wide : 0);
  self->product = ls_conv_place(&end, self->types.product_scratch(&largest));
  if (by_parts && self->types.product == plan->kernels->product_f32)
    ls_conv_zeros_plan_weights(&self->zeros, plan->kernels->zeros, conv,
                               &self->types, &self->views, &end);
  plan->scratch = end;
  plan->params = self;
  plan->loop = weight_rows_loop;
  plan->blocks = conv->groups * self->units;
  if (!by_parts) return ls_ok();
  plan->first = sum_bands_loop;
  plan->first_blocks = self->parts;
  plan->shared = (size_t)(self->parts * num_weights(self)) * wide;
  plan->only_shared = true;
  plan->loop = add_parts_loop;
  plan->blocks = ls_blocks_of(num_weights(self), STRETCH);
  return ls_ok();
}
