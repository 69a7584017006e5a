// SPDX-License-Identifier: Apache-2.0
//
// The weights' gradient. Groups of a few lines of windows are distributed to
// parts, and output channels to bands, both functions of the shapes alone:
// nonzero values are sorted by output channel, and each channel's 9 sums of a
// slice go through its values in registers.
#include "engine/cpu/conv/sparse.h"

#include <math.h>

#include "engine/cpu/kernels/kernel.h"

enum { Y = LS_WINDOW_DIMS - 2, X = LS_WINDOW_DIMS - 1 };
enum { SLICE_WEIGHTS = LS_SPARSE_TAPS * LS_SPARSE_SLICE };
// Output channels of a band; input channels processed together; bytes of their
// input lines under a group, for the first cache; most lines of windows of a
// group.
enum {
  BAND = 64,
  TOGETHER = 2 * LS_SPARSE_SLICE,
  GROUP_BYTES = 24 << 10,
  MOST_LINES = 5
};

typedef struct weights_params {
  ls_conv conv;
  const ls_cpu_sparse *kernels;
  const ls_cpu_sparse_weights *weights;
  const ls_cpu_zeros *zeros;
  int64_t lines;   // Lines of windows in a group.
  int64_t groups;  // Groups of an image.
  int64_t parts, bands;
  size_t line, plane;  // Floats of a slice's line, and of the slice.
  size_t most;         // Most values of a channel, with room after them.
  // Offsets in scratch.
  size_t x, pixels, list_counts, list_places, list_values;
} weights_params;

static int64_t num_weights(const weights_params *self) {
  return LS_SPARSE_TAPS * self->conv.in_channels * self->conv.out_channels;
}

// ---- A group ---------------------------------------------------------------
typedef struct group {
  const weights_params *self;
  int64_t first, channels;  // Channels of the band.
  float *x;                 // Sliced, with zeros in the padding.
  int32_t *pixels;          // Offsets in x of the places of a group's windows.
  ls_cpu_nonzeros lists;
} group;

// Sets `count` pixels of each slice to zero.
static void clear_pixels(const group *g, float *x, int64_t count) {
  const weights_params *self = g->self;
  const size_t channels = (size_t)self->conv.in_channels;
  for (size_t c = 0; c < channels; c += self->weights->channels) {
    memset(x, 0, (size_t)(count * LS_SPARSE_SLICE) * sizeof(float));
    x += self->plane;
  }
}

// Copies the input under the `count` lines of dy from `first` on.
static void slice_input(const group *g, const float *image, int64_t first,
                        int64_t count) {
  const ls_conv *conv = &g->self->conv;
  const ls_conv_dim *y = &conv->dim[Y], *x = &conv->dim[X];
  const int64_t begin = ls_min_i64(x->in, ls_max_i64(0, x->base));
  const int64_t end =
      ls_max_i64(begin, ls_min_i64(x->in, x->base + x->out + 2));
  for (int64_t i = 0; i < count + 2; ++i) {
    const int64_t at = first + i + y->base;
    float *line = g->x + (size_t)i * g->self->line;
    if (at < 0 || at >= y->in || begin == end) {
      clear_pixels(g, line, x->out + 2);
      continue;
    }
    clear_pixels(g, line, begin - x->base);
    g->self->weights->slice(line + (begin - x->base) * LS_SPARSE_SLICE,
                            g->self->plane,
                            image + (at * x->in + begin) * conv->in_channels,
                            (size_t)conv->in_channels, (size_t)(end - begin));
    clear_pixels(g, line + (end - x->base) * LS_SPARSE_SLICE,
                 x->base + x->out + 2 - end);
  }
}

// The lines of windows [first, end) of an image, and the lines of output of the
// group; an image's last group includes lines without windows.
typedef struct stretch {
  // The image's x and d, starting at the band's channels.
  const float *x, *d;
  const uint8_t *places;
  int64_t first, end, end_line;
} stretch;

// Adds a value of x that is not finite: its product with a 0 of dy, which the
// lists leave out, makes the sums NaN.
static void add_infinity(const group *g, const stretch *s, int64_t y, int64_t x,
                         int64_t c, float *sums) {
  const ls_conv *conv = &g->self->conv;
  const int64_t slice = c / LS_SPARSE_SLICE * LS_SPARSE_SLICE;
  for (int64_t t = 0; t < LS_SPARSE_TAPS; ++t) {
    const int64_t to_y = y - conv->dim[Y].base - t / LS_SPARSE_SIDE;
    const int64_t to_x = x - conv->dim[X].base - t % LS_SPARSE_SIDE;
    if (to_y < 2 * s->first || to_y >= s->end_line || to_x < 0 ||
        to_x >= conv->dim[X].out)
      continue;
    for (int64_t o = 0; o < g->channels; ++o)
      if (!ls_conv_has_gradient(conv, s->d, s->places, s->end, to_y, to_x, o))
        sums[((g->first + o) * conv->in_channels + slice) * LS_SPARSE_TAPS +
             t * LS_SPARSE_SLICE + c - slice] = NAN;
  }
}

// Adds all values of x under the output's lines that are not finite.
static void add_infinities(const group *g, const stretch *s, float *sums) {
  const ls_conv *conv = &g->self->conv;
  const ls_conv_dim *y = &conv->dim[Y];
  const int64_t begin = ls_max_i64(0, 2 * s->first + y->base);
  const int64_t end = ls_min_i64(y->in, s->end_line + y->base + 2);
  const int64_t in = conv->in_channels, line = conv->dim[X].in * in;
  if (begin >= end || g->self->zeros->are_finite(
                          s->x + begin * line, (size_t)((end - begin) * line)))
    return;
  for (int64_t i = begin * line; i < end * line; ++i)
    if (!isfinite(s->x[i]))
      add_infinity(g, s, i / line, i % line / in, i % in, sums);
}

static void add_group(const group *g, const ls_kernel_call *call, int64_t index,
                      float *sums) {
  const weights_params *self = g->self;
  const ls_conv *conv = &self->conv;
  const int64_t in = conv->in_channels, out = conv->out_channels;
  const int64_t image = index / self->groups, width = conv->dim[X].out / 2;
  const int64_t height = conv->dim[Y].out / 2;
  const int64_t first = index % self->groups * self->lines;
  const int64_t count = ls_min_i64(self->lines, height - first);
  const float *x = (const float *)call->in[0] +
                   image * conv->dim[Y].in * conv->dim[X].in * in;
  const int64_t from = (image * height + first) * width * out + g->first;
  const int64_t of_image = image * height * width * out + g->first;
  const stretch lines = {
      .x = x,
      .d = (const float *)call->in[1] + of_image,
      .places = (const uint8_t *)call->in[2] + of_image,
      .first = first,
      .end = first + count,
      .end_line =
          first + count == height ? conv->dim[Y].out : 2 * (first + count),
  };
  add_infinities(g, &lines, sums);
  slice_input(g, x, 2 * first, 2 * count);
  memset(g->lists.counts, 0, (size_t)g->channels * sizeof(*g->lists.counts));
  self->kernels->collect(&g->lists, (const float *)call->in[1] + from,
                         (const uint8_t *)call->in[2] + from, (size_t)out,
                         (size_t)g->channels, g->pixels,
                         (size_t)(count * width));
  for (int64_t c = 0; c < in; c += TOGETHER)
    for (int64_t o = 0; o < g->channels; ++o) {
      const size_t list = (size_t)o * self->most;
      self->weights->add(
          sums + ((g->first + o) * in + c) * LS_SPARSE_TAPS,
          g->x + (size_t)c / self->weights->channels * self->plane, self->line,
          self->plane, (size_t)ls_min_i64(TOGETHER, in - c),
          g->lists.places + list, g->lists.values + list, g->lists.counts[o]);
    }
}

// First step: a block is a band of a part.
static void sum_groups_loop(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block) {
  const weights_params *self = call->params;
  const int64_t width = self->conv.dim[X].out / 2;
  const int64_t groups = self->conv.images * self->groups;
  char *scratch = call->scratch;
  group g = {
      .self = self,
      .x = (float *)(scratch + self->x),
      .pixels = (int32_t *)(scratch + self->pixels),
      .lists = {.counts = (uint32_t *)(scratch + self->list_counts),
                .places = (int32_t *)(scratch + self->list_places),
                .values = (float *)(scratch + self->list_values),
                .pitch = self->most},
  };
  for (int64_t i = 0; i < self->lines * width * LS_SPARSE_PLACES; ++i) {
    const int64_t window = i / LS_SPARSE_PLACES, place = i % LS_SPARSE_PLACES;
    const int64_t y = window / width * 2 + place / 2;
    const int64_t pixel = window % width * 2 + place % 2;
    g.pixels[i] = (int32_t)(y * (int64_t)self->line + pixel * LS_SPARSE_SLICE);
  }
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t part = b / self->bands,
                  of_channel = LS_SPARSE_TAPS * self->conv.in_channels;
    g.first = b % self->bands * BAND;
    g.channels = ls_min_i64(BAND, self->conv.out_channels - g.first);
    float *sums = (float *)call->out[0] + part * num_weights(self);
    memset(sums + g.first * of_channel, 0,
           (size_t)(g.channels * of_channel) * sizeof(float));
    const int64_t end = (part + 1) * groups / self->parts;
    for (int64_t i = part * groups / self->parts; i < end; ++i)
      add_group(&g, call, i, sums);
  }
}

// Second step: rearranges [out, in / 16, taps, 16] to [taps, in, out]. A block
// is an output channel's slice.
static void add_group_parts_loop(const ls_kernel_call *call,
                                 int64_t begin_block, int64_t end_block) {
  const weights_params *self = call->params;
  const int64_t in = self->conv.in_channels, out = self->conv.out_channels;
  const int64_t slices = in / LS_SPARSE_SLICE;
  for (int64_t b = begin_block; b < end_block; ++b) {
    float sum[SLICE_WEIGHTS];
    const float *from = (const float *)call->in[0] + b * SLICE_WEIGHTS;
    memcpy(sum, from, sizeof(sum));
    for (int64_t p = 1; p < self->parts; ++p) {
      from += num_weights(self);
      for (int64_t i = 0; i < SLICE_WEIGHTS; ++i)
        sum[i] += from[i];
    }
    float *to =
        (float *)call->out[0] + b % slices * LS_SPARSE_SLICE * out + b / slices;
    for (int64_t i = 0; i < SLICE_WEIGHTS; ++i)
      to[(i / LS_SPARSE_SLICE * in + i % LS_SPARSE_SLICE) * out] = sum[i];
  }
}

// ---- Plan ------------------------------------------------------------------
// Chooses the lines of windows of a group: as many as fit.
static void cut_groups(weights_params *self) {
  const ls_conv *conv = &self->conv;
  const int64_t width = conv->dim[X].out, height = conv->dim[Y].out / 2;
  const int64_t line = (width + 2) * LS_SPARSE_SLICE;
  const int64_t fit = GROUP_BYTES / (line * conv->in_channels /
                                     LS_SPARSE_SLICE * self->weights->bytes);
  self->lines =
      ls_min_i64(height, ls_max_i64(1, ls_min_i64(MOST_LINES, (fit - 2) / 2)));
  self->groups = ls_blocks_of(height, self->lines);
  self->line = (size_t)line;
  self->plane = (size_t)((2 * self->lines + 2) * line);
  self->most =
      (size_t)(ls_blocks_of(self->lines * width / 2, LS_SPARSE_SLICE) + 1) *
      LS_SPARSE_SLICE;
}

static void place_group_scratch(ls_kernel_plan *plan, weights_params *self) {
  const ls_conv *conv = &self->conv;
  const size_t band = (size_t)ls_min_i64(BAND, conv->out_channels);
  const size_t pixels = (size_t)(self->lines * 2 * conv->dim[X].out);
  size_t end = 0;
  self->x = ls_conv_place(&end, self->plane * (size_t)conv->in_channels /
                                    LS_SPARSE_SLICE * sizeof(float));
  self->pixels = ls_conv_place(&end, pixels * sizeof(int32_t));
  self->list_counts = ls_conv_place(&end, band * sizeof(uint32_t));
  self->list_places = ls_conv_place(&end, band * self->most * sizeof(int32_t));
  self->list_values = ls_conv_place(&end, band * self->most * sizeof(float));
  plan->scratch = end;
}

ls_status kernel_conv_pool_grad_weights(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, weights_params, self);
  const ls_conv *conv = &self->conv;
  LS_RETURN_IF_ERROR(ls_conv_read_pooled(plan, plan->in[0].shape,
                                         plan->out[0].shape, &self->conv));
  self->kernels = plan->kernels->sparse;
  self->weights = plan->kernels->sparse_weights;
  self->zeros = plan->kernels->zeros;
  cut_groups(self);
  place_group_scratch(plan, self);
  const int64_t windows = conv->images * ls_conv_windows(conv);
  self->parts = ls_max_i64(1, ls_conv_parts(conv, conv->images * self->groups,
                                            windows, sizeof(float)));
  self->bands = ls_blocks_of(conv->out_channels, BAND);
  plan->first = sum_groups_loop;
  plan->first_blocks = self->parts * self->bands;
  plan->shared = (size_t)(self->parts * num_weights(self)) * sizeof(float);
  plan->only_shared = true;
  plan->flops = ls_conv_flops(conv) / LS_SPARSE_PLACES;
  return ls_kernel_runs(plan, add_group_parts_loop, self,
                        conv->out_channels * conv->in_channels /
                            LS_SPARSE_SLICE);
}
