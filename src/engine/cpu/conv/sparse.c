// SPDX-License-Identifier: Apache-2.0
//
// The input's gradient. A block is a band of dx's lines of an image. It goes
// through the lines of windows that it needs in groups, which are added to
// sliced lines in scratch; lines that no later group changes are then stored.
#include "engine/cpu/conv/sparse.h"

#include <math.h>

#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- Pools ------------------------------------------------------------------
// The maxima of adjacent windows of 2 by 2, and the position of each in its
// window. A block is a line of windows.

typedef struct pool_params {
  const ls_cpu_windows *rows;
  int64_t height, width, channels;  // Sizes of the input.
} pool_params;

void ls_pool_lines(const ls_cpu_windows *rows, const float *x, int64_t width,
                   int64_t channels, int64_t count, float *max,
                   uint8_t *places) {
  for (int64_t k = 0; k < count; ++k, x += 2 * width * channels)
    for (int64_t i = 1; i < width; i += 2) {
      const float *pixel = x + (i - 1) * channels;
      const float *below = pixel + width * channels;
      rows->place_of_four(max, places,
                          (const float *const[]){pixel, pixel + channels, below,
                                                 below + channels},
                          (size_t)channels);
      max += channels;
      places += channels;
    }
}

// Returns UNIMPLEMENTED unless the number of channels is a multiple.
static ls_status pool_check(const ls_kernel_plan *plan, int64_t channels) {
  if (channels % LS_POOL_CHANNELS == 0) return ls_ok();
  return ls_unimplemented("the CPU engine runs %s of channels in multiples of "
                          "%d only, not of %lld",
                          ls_node_info(plan->node)->name, LS_POOL_CHANNELS,
                          (long long)channels);
}

static void pool_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const pool_params *self = call->params;
  const int64_t lines = self->height / 2;
  const int64_t line = self->width * self->channels;
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t first = b / lines * self->height + b % lines * 2;
    const int64_t target = b * (self->width / 2) * self->channels;
    ls_pool_lines(self->rows, (const float *)call->in[0] + first * line,
                  self->width, self->channels, 1,
                  (float *)call->out[0] + target,
                  (uint8_t *)call->out[1] + target);
  }
}

ls_status kernel_pool_max(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, pool_params, self);
  const ls_shape x = plan->in[0].shape;
  LS_RETURN_IF_ERROR(pool_check(plan, x.dim[3]));
  *self = (pool_params){.rows = plan->kernels->windows,
                        .height = x.dim[1],
                        .width = x.dim[2],
                        .channels = x.dim[3]};
  return ls_kernel_runs(plan, pool_loop, self, x.dim[0] * (x.dim[1] / 2));
}

enum { Y = LS_WINDOW_DIMS - 2, X = LS_WINDOW_DIMS - 1 };
// Number of blocks to aim at; least lines of a block, as it computes up to four
// more; lines of windows of a group, which use the taps while they are in the
// first cache.
enum { WANTED_BLOCKS = 16, LEAST_LINES = 8, GROUP = 4 };
// Lines of dx changed by one line of windows, and by a group.
enum { NEAR = LS_SPARSE_SIDE + 1, GROUP_LINES = 2 * GROUP + 2 };

// ---- Shared with the weights' gradient -------------------------------------
ls_status ls_conv_read_pooled(const ls_kernel_plan *plan, ls_shape x,
                              ls_shape w, ls_conv *out_conv) {
  const ls_node *node = plan->node;
  ls_shape y = x;
  ls_window window;
  for (int32_t i = 2; i < 4; ++i)
    LS_RETURN_IF_ERROR(pool_check(plan, w.dim[i]));
  LS_RETURN_IF_ERROR(ls_window_read(ls_node_info(node)->name, node->attrs,
                                    node->num_attrs, x.rank - 2, &window));
  for (int32_t i = 0; i < window.rank; ++i) {
    window.taps[i] = w.dim[i];
    LS_RETURN_IF_ERROR(
        ls_window_slide(&window, i, x.dim[i + 1], &y.dim[i + 1]));
  }
  y.dim[y.rank - 1] = w.dim[w.rank - 1];
  return ls_conv_read(plan, x, w, y, out_conv);
}

int64_t ls_conv_windows(const ls_conv *conv) {
  return conv->dim[Y].out / 2 * (conv->dim[X].out / 2);
}

// ---- Weights ---------------------------------------------------------------
typedef struct input_params {
  ls_conv conv;
  const ls_cpu_sparse *kernels;
  const ls_cpu_sparse_input *input;
  const ls_cpu_zeros *zeros;
  int64_t lines, bands;  // Lines of dx per block; blocks per image.
  // Floats of a slice of a line, and of the whole sliced line.
  size_t slice, line;
  bool masks;  // The gradient is masked by a relu's result.
} input_params;

static size_t num_blocks(const input_params *self) {
  return (size_t)ls_blocks_of(self->conv.out_channels,
                              (int64_t)self->input->block);
}

// Returns the output channels of the block that begins with `o`.
static size_t block_at(const input_params *self, size_t o) {
  const size_t left = (size_t)self->conv.out_channels - o;
  return left < self->input->block ? left : self->input->block;
}

// Arranges the taps as [in / 16, blocks of out]. A block is a slice.
static void taps_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const input_params *self = call->params;
  const size_t in = (size_t)self->conv.in_channels;
  const size_t out = (size_t)self->conv.out_channels;
  const size_t slice = num_blocks(self) * self->input->taps;
  const float *w = call->in[self->masks ? 3 : 2];
  for (int64_t s = begin_block; s < end_block; ++s) {
    float *taps = (float *)call->out[0] + (size_t)s * slice;
    const float *from = w + (size_t)s * LS_SPARSE_SLICE * out;
    for (size_t o = 0; o < out; o += self->input->block) {
      self->input->pack(taps, from + o, in, out, block_at(self, o));
      taps += self->input->taps;
    }
  }
}

// ---- A band ----------------------------------------------------------------
// Lines [begin, end) of an image's dx. GROUP_LINES lines are being summed; the
// first of them is line `first` of dx.
typedef struct band {
  const input_params *self;
  const float *d, *taps;  // `d` and `places` are those of the image.
  const uint8_t *places;
  const float *relu;  // The relu's result, in the layout of dx, or NULL.
  const float *w;     // The weights if any is not finite, otherwise NULL.
  float *dx, *lines;
  int64_t begin, end, first;
} band;

// Adds the lines of windows [k0, k1) to the lines of dx.
static void add_group(const band *b, int64_t k0, int64_t k1) {
  const input_params *self = b->self;
  const ls_conv *conv = &self->conv;
  const size_t in = (size_t)conv->in_channels;
  const size_t out = (size_t)conv->out_channels;
  const size_t windows = (size_t)conv->dim[X].out / 2;
  const float *taps = b->taps;
  for (size_t s = 0; s < in / LS_SPARSE_SLICE; ++s)
    for (size_t o = 0; o < out; o += self->input->block) {
      const size_t block = block_at(self, o);
      for (int64_t k = k0; k < k1; ++k) {
        float *to[NEAR];
        for (int64_t r = 0; r < NEAR; ++r)
          to[r] = b->lines + (size_t)(2 * (k - k0) + r) * self->line +
                  s * self->slice;
        const size_t from = (size_t)k * windows * out + o;
        self->input->add(to, b->d + from, b->places + from, taps, windows, out,
                         block);
      }
      taps += self->input->taps;
    }
}

// Returns true if a skipped product is 0 times a value that is not finite: a
// weight of dx's channel, by some tap.
static bool meets_infinity(const band *b, int64_t y, int64_t x, int64_t c) {
  const ls_conv *conv = &b->self->conv;
  const int64_t in = conv->in_channels, out = conv->out_channels;
  for (int64_t t = 0; t < LS_SPARSE_TAPS; ++t) {
    const int64_t from_y = y - conv->dim[Y].base - t / LS_SPARSE_SIDE;
    const int64_t from_x = x - conv->dim[X].base - t % LS_SPARSE_SIDE;
    const float *w = b->w + (t * in + c) * out;
    for (int64_t o = 0; o < out; ++o)
      if (!isfinite(w[o]) &&
          !ls_conv_has_gradient(conv, b->d, b->places, conv->dim[Y].out / 2,
                                from_y, from_x, o))
        return true;
  }
  return false;
}

// Writes NaN to the elements of line y of dx (sliced) that meet an infinity.
// Slow, and rare.
static void add_infinities(const band *b, int64_t y, float *line) {
  const ls_conv *conv = &b->self->conv;
  for (int64_t k = 0; k < conv->dim[X].out + 2; ++k)
    for (int64_t c = 0; c < conv->in_channels; ++c)
      if (meets_infinity(b, y, k + conv->dim[X].base, c))
        line[(size_t)(c / LS_SPARSE_SLICE) * b->self->slice +
             (size_t)(k * LS_SPARSE_SLICE + c % LS_SPARSE_SLICE)] = NAN;
}

// Sets the positions [begin, end) of dx to zero.
static void clear_positions(const band *b, int64_t begin, int64_t end) {
  const int64_t channels = b->self->conv.in_channels;
  memset(b->dx + begin * channels, 0,
         (size_t)((end - begin) * channels) * sizeof(float));
}

// Stores line y of dx from `from`, sliced, or zeros.
static void store_line(const band *b, int64_t y, float *from) {
  if (y < b->begin || y >= b->end) return;
  const ls_conv *conv = &b->self->conv;
  const ls_conv_dim *x = &conv->dim[X];
  const int64_t line = y * x->in;
  if (b->w != NULL) {
    if (from == NULL) {  // No window changes this line.
      from = b->lines + 2 * b->self->line;
      memset(from, 0, b->self->line * sizeof(float));
    }
    add_infinities(b, y, from);
  }
  if (from == NULL) {
    clear_positions(b, line, line + x->in);
    return;
  }
  const int64_t begin = ls_min_i64(x->in, ls_max_i64(0, x->base));
  const int64_t end =
      ls_max_i64(begin, ls_min_i64(x->in, x->base + x->out + 2));
  const int64_t at = (line + begin) * conv->in_channels;
  clear_positions(b, line, line + begin);
  clear_positions(b, line + end, line + x->in);
  b->self->kernels->unslice(
      b->dx + at, from + (begin - x->base) * LS_SPARSE_SLICE, b->self->slice,
      b->relu == NULL ? NULL : b->relu + at, (size_t)conv->in_channels,
      (size_t)(end - begin));
}

// Stores the first `count` lines and moves the two others to the front.
static void store_lines(band *b, int64_t count) {
  const size_t line = b->self->line;
  for (int64_t i = 0; i < count; ++i)
    store_line(b, b->first + i, b->lines + (size_t)i * line);
  b->first += count;
  memcpy(b->lines, b->lines + (size_t)count * line, 2 * line * sizeof(float));
  memset(b->lines + 2 * line, 0, (GROUP_LINES - 2) * line * sizeof(float));
}

// Line y of dx depends on the lines y - base - 2 to y - base of dy.
static void run_band(band *b) {
  const ls_conv_dim *dim = &b->self->conv.dim[Y];
  const int64_t all = dim->out / 2;
  const int64_t from = ls_max_i64(0, b->begin - dim->base - 2) / 2;
  const int64_t end = ls_min_i64(all, (b->end - 1 - dim->base) / 2 + 1);
  b->first = 2 * from + dim->base;
  for (int64_t y = b->begin; y < b->first; ++y)
    store_line(b, y, NULL);
  memset(b->lines, 0, GROUP_LINES * b->self->line * sizeof(float));
  for (int64_t k = from, next; k < end; k = next) {
    // Groups start at fixed lines, independent of the band.
    next = ls_min_i64((k / GROUP + 1) * GROUP, end);
    add_group(b, k, next);
    store_lines(b, 2 * (next - k));
  }
  store_line(b, b->first, b->lines);
  store_line(b, b->first + 1, b->lines + b->self->line);
  for (int64_t y = b->first + 2; y < b->end; ++y)
    store_line(b, y, NULL);
}

static void input_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const input_params *self = call->params;
  const ls_conv *conv = &self->conv;
  const int64_t height = conv->dim[Y].in;
  const int64_t windows = ls_conv_windows(conv) * conv->out_channels;
  const int64_t pixels = height * conv->dim[X].in * conv->in_channels;
  const float *w = call->in[self->masks ? 3 : 2];
  const bool is_finite = self->zeros->are_finite(
      w, (size_t)(LS_SPARSE_TAPS * conv->in_channels * conv->out_channels));
  for (int64_t i = begin_block; i < end_block; ++i) {
    const int64_t image = i / self->bands;
    const int64_t begin = i % self->bands * self->lines;
    band b = {
        .self = self,
        .d = (const float *)call->in[0] + image * windows,
        .places = (const uint8_t *)call->in[1] + image * windows,
        .relu =
            self->masks ? (const float *)call->in[2] + image * pixels : NULL,
        .w = is_finite ? NULL : w,
        .taps = call->in[self->masks ? 4 : 3],
        .dx = (float *)call->out[0] + image * pixels,
        .lines = call->scratch,
        .begin = begin,
        .end = ls_min_i64(begin + self->lines, height),
    };
    run_band(&b);
  }
}

// ---- Plan ------------------------------------------------------------------
ls_status kernel_conv_pool_grad_input(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, input_params, self);
  ls_conv *conv = &self->conv;
  self->masks = plan->num_in == 4;
  LS_RETURN_IF_ERROR(ls_conv_read_pooled(
      plan, plan->out[0].shape, plan->in[plan->num_in - 1].shape, conv));
  const int64_t height = ls_max_i64(1, conv->dim[Y].in);
  const int64_t wanted =
      ls_blocks_of(WANTED_BLOCKS, ls_max_i64(1, conv->images));
  self->kernels = plan->kernels->sparse;
  self->input = plan->kernels->sparse_input;
  self->zeros = plan->kernels->zeros;
  self->lines = ls_max_i64(LEAST_LINES, ls_blocks_of(height, wanted));
  self->bands = ls_blocks_of(height, self->lines);
  self->slice = (size_t)((conv->dim[X].out + 2) * LS_SPARSE_SLICE);
  self->line = self->slice * (size_t)conv->in_channels / LS_SPARSE_SLICE;
  plan->first = taps_loop;
  plan->first_blocks = conv->in_channels / LS_SPARSE_SLICE;
  plan->shared = (size_t)plan->first_blocks * num_blocks(self) *
                 self->input->taps * sizeof(float);
  plan->scratch = GROUP_LINES * self->line * sizeof(float);
  plan->flops = ls_conv_flops(conv) / LS_SPARSE_PLACES;
  // Each element is read at the position where dx is then written.
  if (self->masks) plan->in_place = 1 << 2;
  return ls_kernel_runs(plan, input_loop, self,
                        ls_max_i64(1, conv->images * self->bands));
}
