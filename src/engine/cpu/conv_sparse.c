// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/conv_sparse.h"

enum { Y = LS_WINDOW_DIMS - 2, X = LS_WINDOW_DIMS - 1 };
// Blocks there should be, and lines that one has at least: two more are
// computed for each.
enum { WANTED_BLOCKS = 16, LEAST_LINES = 8 };

// ---- Whether it fits -------------------------------------------------------
static bool are_maxima(const ls_kernel_plan *plan, uint64_t ref) {
  const ls_node *node = ls_graph_node_of(plan->graph, ref);
  if (node == NULL || node->type != LS_OP_WINDOW_MAX_GRAD) return false;
  const ls_attr *strides = ls_node_attr(node, "strides");
  int64_t places = 1;
  for (size_t i = 0; strides != NULL && i < strides->as.ints.count; ++i)
    places *= strides->as.ints.items[i];
  return places >= LS_SPARSE_LEAST;
}

bool ls_conv_is_sparse(const ls_kernel_plan *plan, uint32_t dy,
                       const ls_conv *conv) {
  if (plan->in[0].dtype != LS_DTYPE_F32 || conv->groups != 1 ||
      conv->images == 0 || conv->in_channels % LS_SPARSE_SLICE != 0 ||
      conv->out_channels % LS_SPARSE_SLICE != 0)
    return false;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    const ls_conv_dim *dim = &conv->dim[i];
    const bool there = i >= Y;
    if (dim->taps != (there ? LS_SPARSE_SIDE : 1) || dim->stride != 1 ||
        dim->step != 1 || dim->spread != 1)
      return false;
    if (there ? dim->out == 0 : dim->out != 1 || dim->in != 1) return false;
  }
  return are_maxima(plan, plan->node->inputs[dy]);
}

// ---- Slices ----------------------------------------------------------------
static size_t slice_bytes(void) { return LS_SPARSE_SLICE * sizeof(float); }

void ls_conv_slice_line(float *slices, size_t plane, const float *line,
                        int64_t channels, int64_t begin, int64_t end,
                        int64_t before) {
  for (int64_t c = 0; c < channels; c += LS_SPARSE_SLICE, slices += plane)
    for (int64_t i = begin; i < end; ++i)
      memcpy(slices + (i + before) * LS_SPARSE_SLICE, line + i * channels + c,
             slice_bytes());
}

void ls_conv_unslice_line(float *line, const float *slices, size_t plane,
                          int64_t channels, int64_t begin, int64_t end,
                          int64_t before) {
  for (int64_t c = 0; c < channels; c += LS_SPARSE_SLICE, slices += plane)
    for (int64_t i = begin; i < end; ++i)
      memcpy(line + i * channels + c, slices + (i + before) * LS_SPARSE_SLICE,
             slice_bytes());
}

// ---- The input's gradient --------------------------------------------------
typedef struct input_params {
  ls_conv conv;
  const ls_cpu_sparse *kernels;
  int64_t lines, bands;  // Lines of dx of a block; blocks of an image.
  size_t line;           // Floats of a sliced line: all its slices.
} input_params;

// [taps, in, out] to [in / 16, out, taps, 16]. A block is a slice.
static void taps_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const input_params *self = call->params;
  const int64_t in = self->conv.in_channels, out = self->conv.out_channels;
  const int64_t slice = LS_SPARSE_TAPS * LS_SPARSE_SLICE;
  const float *w = call->in[1];
  for (int64_t s = begin_block; s < end_block; ++s) {
    float *taps = (float *)call->out[0] + s * out * slice;
    for (int64_t t = 0; t < LS_SPARSE_TAPS; ++t)
      for (int64_t c = 0; c < LS_SPARSE_SLICE; ++c) {
        const float *from = w + (t * in + s * LS_SPARSE_SLICE + c) * out;
        for (int64_t o = 0; o < out; ++o)
          taps[o * slice + t * LS_SPARSE_SLICE + c] = from[o];
      }
  }
}

// A band of an image: three lines of dx are being added up, line y at y % 3.
typedef struct band {
  const input_params *self;
  const float *dy, *taps;  // dy: the image's.
  float *dx, *lines;
} band;

static float *line_at(const band *b, int64_t y) {
  const int64_t at = (y % LS_SPARSE_SIDE + LS_SPARSE_SIDE) % LS_SPARSE_SIDE;
  return b->lines + (size_t)at * b->self->line;
}

// Adds line `y` of dy to the three lines that it meets, of which the last is
// new.
static void add_line(const band *b, int64_t y) {
  const input_params *self = b->self;
  const ls_conv *conv = &self->conv;
  const int64_t first = y + conv->dim[Y].base, width = conv->dim[X].out;
  memset(line_at(b, first + 2), 0, self->line * sizeof(float));
  float *lines[] = {line_at(b, first), line_at(b, first + 1),
                    line_at(b, first + 2)};
  self->kernels->input(lines, (size_t)((width + 2) * LS_SPARSE_SLICE),
                       b->dy + y * width * conv->out_channels, b->taps,
                       (size_t)width, (size_t)conv->in_channels,
                       (size_t)conv->out_channels);
}

// Line y of dx, to which all has been added.
static void store_line(const band *b, int64_t y) {
  const ls_conv *conv = &b->self->conv;
  const ls_conv_dim *x = &conv->dim[X];
  const int64_t begin = ls_min_i64(x->in, ls_max_i64(0, x->base));
  const int64_t end =
      ls_max_i64(begin, ls_min_i64(x->in, x->base + x->out + 2));
  float *to = b->dx + y * x->in * conv->in_channels;
  memset(to, 0, (size_t)(begin * conv->in_channels) * sizeof(float));
  ls_conv_unslice_line(to, line_at(b, y),
                       (size_t)((x->out + 2) * LS_SPARSE_SLICE),
                       conv->in_channels, begin, end, -x->base);
  memset(to + end * conv->in_channels, 0,
         (size_t)((x->in - end) * conv->in_channels) * sizeof(float));
}

// Lines [begin, end) of dx. Line y meets the lines y - base - 2 to y - base of
// dy.
static void run_band(const band *b, int64_t begin, int64_t end) {
  const input_params *self = b->self;
  const ls_conv_dim *dim = &self->conv.dim[Y];
  memset(b->lines, 0, LS_SPARSE_SIDE * self->line * sizeof(float));
  int64_t next = ls_max_i64(0, begin - dim->base - 2);
  for (int64_t y = begin; y < end; ++y) {
    for (; next <= ls_min_i64(y - dim->base, dim->out - 1); ++next)
      add_line(b, next);
    const int64_t meets = ls_max_i64(0, y - dim->base - 2);
    if (y - dim->base >= 0 && meets < dim->out)
      store_line(b, y);
    else
      memset(b->dx + y * self->conv.dim[X].in * self->conv.in_channels, 0,
             (size_t)(self->conv.dim[X].in * self->conv.in_channels) *
                 sizeof(float));
  }
}

static void input_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const input_params *self = call->params;
  const ls_conv *conv = &self->conv;
  const int64_t height = conv->dim[Y].in;
  for (int64_t i = begin_block; i < end_block; ++i) {
    const int64_t image = i / self->bands;
    const int64_t begin = i % self->bands * self->lines;
    const band b = {
        .self = self,
        .dy = (const float *)call->in[0] +
              image * ls_conv_outputs(conv) * conv->out_channels,
        .taps = call->in[2],
        .dx = (float *)call->out[0] +
              image * height * conv->dim[X].in * conv->in_channels,
        .lines = call->scratch,
    };
    run_band(&b, begin, ls_min_i64(begin + self->lines, height));
  }
}

ls_status ls_conv_sparse_input(ls_kernel_plan *plan, const ls_conv *conv) {
  input_params *self = ls_arena_new(plan->arena, input_params);
  if (self == NULL) return ls_out_of_memory();
  const int64_t height = ls_max_i64(1, conv->dim[Y].in);
  const int64_t wanted = ls_blocks_of(WANTED_BLOCKS, conv->images);
  *self = (input_params){
      .conv = *conv,
      .kernels = plan->kernels->sparse,
      .lines = ls_max_i64(LEAST_LINES, ls_blocks_of(height, wanted)),
      .line = (size_t)((conv->dim[X].out + 2) * conv->in_channels),
  };
  self->bands = ls_blocks_of(height, self->lines);
  plan->first = taps_loop;
  plan->first_blocks = conv->in_channels / LS_SPARSE_SLICE;
  plan->shared =
      (size_t)(LS_SPARSE_TAPS * conv->in_channels * conv->out_channels) *
      sizeof(float);
  plan->scratch = LS_SPARSE_SIDE * self->line * sizeof(float);
  plan->flops /= LS_SPARSE_LEAST;
  plan->loop = input_loop;
  plan->params = self;
  plan->blocks = conv->images * self->bands;
  return ls_ok();
}
