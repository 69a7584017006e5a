// SPDX-License-Identifier: Apache-2.0
//
// Convolutions whose groups have few output channels, and both gradients: sums
// over taps with the output channels of all groups side by side, each with a
// weight of its own.
//
// A tap of a group with several input channels counts as one tap for each. The
// lines of the input are copied with each value repeated for the outputs that
// use it, and 16-bit floats widened; of groups of one channel they are read in
// place.
//
// Sums have the order of convolution.c and weights.c. In groups of one input
// and one output channel each product is rounded before it is added, and
// positions in the padding are skipped.
#include "engine/cpu/conv/plan.h"

enum { Z, Y, X };
// Pixels of a chain of the weights' gradient, and channels of a unit of it.
enum { CHAIN = 256, UNIT_CHANNELS = 32 };
// Multiply-adds of a block, and most floats of a copied position.
enum { BLOCK_WORK = 1 << 17, COPIED = 128 };
// Positions of a line that is kept whole.
enum { MOST_KEPT = 1024 };
// Most input channels of a group.
enum { MOST_IN = 64 };

typedef struct depthwise_params {
  ls_conv conv;
  ls_conv_types types;
  const ls_cpu_tap_sums *kernels;
  ls_cpu_activation activation;
  bool has_bias, swaps_channels, packs;
  bool fused;    // Groups of several channels.
  bool copies;   // Lines are copied.
  int64_t some;  // Output channels of a block or unit; `chunks` of them.
  int64_t chunks, phases;
  // Outputs of a block along X and Y, and blocks of a plane along both.
  int64_t columns, lines, segments, bands;
  int64_t width;    // Most positions of a copied line.
  int64_t slots_y;  // Lines that are kept of each plane,
  int64_t slots;    // and of all planes under the taps.
  size_t line;      // Bytes of a copied line.
  // Offsets in scratch.
  size_t kept, slot_lines, zeros, channels, x, w, taps, rows, y, sums, total;
} depthwise_params;

// State of a range of blocks.
typedef struct work {
  const depthwise_params *self;
  const ls_kernel_call *call;
  ls_conv_phase phase;
  int64_t c0, c1;  // Output channels.
  int64_t left;    // First position of the copied lines.
  int64_t step;    // Elements from position to position of a line.
  // Targets of the rows [r0, r1) of weights, one per tap and input channel.
  int64_t r0, r1;
  char *targets;
  size_t target_pitch;  // Bytes.
} work;

static char *scratch_at(const work *w, size_t offset) {
  return (char *)w->call->scratch + offset;
}

static int64_t all_channels(const ls_conv *conv) {
  return conv->groups * conv->out_channels;
}

// ---- Lines of the input ----------------------------------------------------
// Copies positions of a line of the input: at each, for each input channel of a
// group, a row of the output channels [c0, c1).
static void copy_line(const work *w, int64_t row, char *target) {
  const depthwise_params *self = w->self;
  const ls_conv *conv = &self->conv;
  const int64_t in = conv->in_channels, out = conv->out_channels;
  const int64_t channels = conv->groups * in, first = w->c0 / out * in;
  const int64_t groups = (w->c1 - w->c0) / out;
  const int64_t begin =
      ls_min_i64(ls_max_i64(0, w->left), w->left + self->width);
  const int64_t end =
      ls_max_i64(begin, ls_min_i64(conv->dim[X].in, w->left + self->width));
  const size_t position = (size_t)w->step * self->types.wide;
  const size_t before = (size_t)(begin - w->left) * position;
  if (self->fused) memset(target, 0, before);
  target += before;
  const char *from =
      (const char *)w->call->in[0] +
      (size_t)((row * conv->dim[X].in + begin) * channels + first) *
          self->types.size;
  if (!self->fused && w->step == channels) {
    ls_conv_widen(&self->types, target, from, (end - begin) * channels);
    return;
  }
  char *wide = scratch_at(w, self->channels);
  for (int64_t i = begin; i < end; ++i) {
    const char *values = from;
    if (self->types.half != LS_DTYPE_NONE) {
      ls_conv_widen(&self->types, wide, from, groups * in);
      values = wide;
    }
    self->kernels->spread(target, values, (size_t)groups, (size_t)in,
                          (size_t)out);
    target += position;
    from += (size_t)channels * self->types.size;
  }
  if (self->fused)
    memset(target, 0, (size_t)(w->left + self->width - end) * position);
}

// Forgets the copied lines if they are of other channels or positions.
static void place_lines(work *w, int64_t c0, int64_t c1, int64_t left) {
  const depthwise_params *self = w->self;
  if (w->c0 == c0 && w->c1 == c1 && w->left == left) return;
  w->c0 = c0;
  w->c1 = c1;
  w->left = left;
  w->step = self->copies ? (c1 - c0) * self->conv.in_channels
                         : all_channels(&self->conv);
  memset(scratch_at(w, self->kept), 0, (size_t)self->slots * sizeof(int64_t));
}

// Returns the line (z, y) of an image, from position 0 on, which may be before
// the memory of the line.
static uintptr_t find_line(const work *w, int64_t image, int64_t z, int64_t y) {
  const depthwise_params *self = w->self;
  const ls_conv_dim *dim = self->conv.dim;
  const int64_t row = (image * dim[Z].in + z) * dim[Y].in + y;
  if (!self->copies)
    return (uintptr_t)((const char *)w->call->in[0] +
                       (size_t)(row * dim[X].in * w->step + w->c0) *
                           self->types.size);
  const int64_t slot =
      z % (self->slots / self->slots_y) * self->slots_y + y % self->slots_y;
  int64_t *kept = (int64_t *)(void *)scratch_at(w, self->kept) + slot;
  const size_t position = (size_t)w->step * self->types.wide;
  char *line = scratch_at(w, self->slot_lines) + (size_t)slot * self->line;
  if (*kept != row + 1) copy_line(w, row, line);
  *kept = row + 1;
  return (uintptr_t)line - (uintptr_t)w->left * position;
}

// ---- Taps ------------------------------------------------------------------
// Finds the lines under the taps (z, y) of an output line; 0: in the padding.
static void find_lines(const work *w, const ls_conv_line *line) {
  const ls_conv_axis *axis = w->phase.axis;
  uintptr_t *rows = (uintptr_t *)(void *)scratch_at(w, w->self->rows);
  for (int64_t i = 0; i < axis[Z].taps; ++i)
    for (int64_t j = 0; j < axis[Y].taps; ++j) {
      const int64_t z =
          axis[Z].start + i * axis[Z].start_step + line->at[Z] * axis[Z].move;
      const int64_t y =
          axis[Y].start + j * axis[Y].start_step + line->at[Y] * axis[Y].move;
      const bool inside = z >= 0 && z < w->self->conv.dim[Z].in && y >= 0 &&
                          y < w->self->conv.dim[Y].in;
      *rows++ = inside ? find_line(w, line->image, z, y) : 0;
    }
}

// Lists the taps for output `at` of a line and those after it that have the
// same ones.
static void list_taps(const work *w, int64_t at, ls_cpu_taps *taps) {
  const depthwise_params *self = w->self;
  const ls_conv_axis *axis = w->phase.axis;
  const int64_t in = self->conv.in_channels, count = axis[X].taps;
  const uintptr_t *rows = (const uintptr_t *)(void *)scratch_at(w, self->rows);
  const int64_t *numbers = (const int64_t *)(void *)scratch_at(w, self->taps);
  const void **x = (const void **)(void *)scratch_at(w, self->x);
  void **targets = (void **)(void *)scratch_at(w, self->w);
  const size_t wide = self->types.wide;
  const size_t channels = (size_t)(w->c1 - w->c0) * wide;
  size_t n = 0;
  for (int64_t t = 0; t < w->phase.taps; ++t) {
    const int64_t place =
        axis[X].start + t % count * axis[X].start_step + at * axis[X].move;
    const uintptr_t row = rows[t / count];
    const bool inside =
        row != 0 &&
        (self->fused || (place >= 0 && place < self->conv.dim[X].in));
    if (!inside && !self->fused) continue;
    const uintptr_t from = inside ? row + (uintptr_t)(place * w->step) * wide
                                  : (uintptr_t)scratch_at(w, self->zeros);
    for (int64_t i = 0; i < in; ++i) {
      const int64_t r = numbers[t] * in + i;
      if (r < w->r0 || r >= w->r1) continue;
      x[n] = (const void *)(from + (uintptr_t)i * channels);
      targets[n++] = w->targets + (size_t)(r - w->r0) * w->target_pitch;
    }
  }
  taps->count = n;
  taps->x = x;
  taps->w = targets;
}

// Chooses a phase: numbers its taps.
static void begin_phase(work *w, int64_t phase) {
  w->phase = ls_conv_phase_of(&w->self->conv, phase);
  int64_t *numbers = (int64_t *)(void *)scratch_at(w, w->self->taps);
  for (int64_t t = 0; t < w->phase.taps; ++t)
    numbers[t] = ls_conv_tap_at(&w->phase, t);
}

// Returns the end of the outputs from `at` on, before `end`, that have the same
// taps: one at the edges, else all whose taps are inside. Copied lines have
// zeros in place of the padding.
static int64_t same_taps(const work *w, int64_t at, int64_t end) {
  const ls_conv_axis *axis = &w->phase.axis[X];
  const int64_t first = axis->start + at * axis->move;
  const int64_t last = first + (axis->taps - 1) * axis->start_step;
  const int64_t in = w->self->conv.dim[X].in;
  if (w->phase.taps == 0 || w->self->fused) return end;
  if (first < 0 || last >= in) return at + 1;
  return ls_min_i64(end, at + (in - 1 - last) / axis->move + 1);
}

static ls_cpu_taps new_taps(const work *w) {
  return (ls_cpu_taps){.channels = (size_t)(w->c1 - w->c0),
                       .step = (size_t)(w->step * w->phase.axis[X].move),
                       .fused = w->self->fused};
}

// Converts the rows of pixels between scratch, where they are side by side,
// and 16-bit floats that are `step` bytes apart.
static void convert_rows(const work *w, char *half, char *wide, size_t step,
                         int64_t pixels, bool narrows) {
  const ls_conv_types *types = &w->self->types;
  int64_t n = w->c1 - w->c0;
  if (step == (size_t)n * types->size) {
    n *= pixels;
    pixels = 1;
  }
  for (; pixels > 0; --pixels) {
    if (narrows)
      ls_conv_narrow(types, half, wide, n);
    else
      ls_conv_widen(types, wide, half, n);
    half += step;
    wide += (size_t)n * types->wide;
  }
}

// ---- Outputs ---------------------------------------------------------------
// Computes `line.count` outputs of a line.
static void sum_line(const work *w, const ls_conv_line *line) {
  const depthwise_params *self = w->self;
  const ls_conv *conv = &self->conv;
  const bool half = self->types.half != LS_DTYPE_NONE;
  const int64_t period = w->phase.axis[X].period, channels = all_channels(conv);
  const int64_t n = w->c1 - w->c0, end = line->at[X] + line->count;
  const int64_t output = ls_conv_output_at(&w->phase, line);
  char *out = (char *)w->call->out[0] +
              (size_t)(output * channels + w->c0) * self->types.size;
  const size_t step = (size_t)(period * channels) * self->types.size;
  ls_cpu_taps taps = new_taps(w);
  taps.pitch = (size_t)(half ? n : period * channels);
  taps.relu = self->activation == LS_CPU_ACTIVATION_RELU;
  if (self->has_bias) {
    taps.bias = (const char *)w->call->in[2] + (size_t)w->c0 * self->types.size;
    if (half) {
      ls_conv_widen(&self->types, scratch_at(w, self->total), taps.bias, n);
      taps.bias = scratch_at(w, self->total);
    }
  }
  find_lines(w, line);
  for (int64_t at = line->at[X], next; at < end; at = next) {
    next = same_taps(w, at, end);
    list_taps(w, at, &taps);
    taps.pixels = (size_t)(next - at);
    taps.y = half ? scratch_at(w, self->y) : out;
    self->kernels->multiply(&taps);
    if (half) convert_rows(w, out, taps.y, step, next - at, true);
    out += (size_t)(next - at) * step;
  }
}

static void depthwise_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const depthwise_params *self = call->params;
  const ls_conv *conv = &self->conv;
  const int64_t planes = conv->images * conv->dim[Z].out;
  if (planes == 0) return;
  work w = {.self = self, .call = call, .c1 = -1, .r1 = INT64_MAX};
  if (self->fused) memset(scratch_at(&w, self->zeros), 0, self->line);
  for (int64_t b = begin_block; b < end_block; ++b) {
    int64_t rest = b;
    const int64_t band = rest % self->bands;
    rest /= self->bands;
    const int64_t plane = rest % planes;
    rest /= planes;
    const int64_t x0 = rest % self->segments * self->columns;
    rest /= self->segments;
    begin_phase(&w, rest % self->phases);
    const int64_t c0 = rest / self->phases * self->some;
    const int64_t c1 = ls_min_i64(c0 + self->some, all_channels(conv));
    const ls_conv_axis *axis = w.phase.axis;
    ls_conv_line line = {.image = plane / conv->dim[Z].out,
                         .at = {plane % conv->dim[Z].out, 0, x0}};
    line.count = ls_min_i64(self->columns, axis[X].count - x0);
    if (line.at[Z] >= axis[Z].count || line.count <= 0) continue;
    place_lines(&w, c0, c1, axis[X].start + x0 * axis[X].move);
    w.targets =
        (char *)(uintptr_t)call->in[self->packs ? 2 + self->has_bias : 1] +
        (size_t)c0 * self->types.wide;
    w.target_pitch = (size_t)all_channels(conv) * self->types.wide;
    const int64_t end = ls_min_i64((band + 1) * self->lines, axis[Y].count);
    for (line.at[Y] = band * self->lines; line.at[Y] < end; ++line.at[Y])
      sum_line(&w, &line);
  }
}

// First step: writes the weights of a tap as [in channels, all out channels].
static void pack_taps_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const depthwise_params *self = call->params;
  const ls_conv *conv = &self->conv;
  const int64_t in = conv->in_channels, out = conv->out_channels;
  const int64_t all = all_channels(conv);
  const size_t size = self->types.size, wide = self->types.wide;
  for (int64_t tap = begin_block; tap < end_block; ++tap) {
    char *target = (char *)call->out[0] + (size_t)(tap * in * all) * wide;
    const char *from =
        (const char *)call->in[1] + (size_t)(tap * in * all) * size;
    if (!self->swaps_channels) {
      ls_conv_widen(&self->types, target, from, in * all);
      continue;
    }
    for (int64_t o = 0; o < out; ++o)
      for (int64_t g = 0; g < conv->groups; ++g)
        ls_conv_widen_column(
            &self->types, target + (size_t)(g * out + o) * wide, all,
            from + (size_t)((o * conv->groups + g) * in) * size, in);
  }
}

// ---- Plan ------------------------------------------------------------------
bool ls_conv_fits_depthwise(const ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types) {
  return conv->groups > 1 &&
         ((conv->in_channels == 1 && conv->out_channels == 1) ||
          (conv->out_channels > 0 && conv->out_channels < 16 &&
           conv->in_channels > 0 && conv->in_channels <= MOST_IN &&
           (types->wide == sizeof(double) ||
            types->product == plan->kernels->product_f32)));
}

// Reserves scratch for lines of which `outputs` outputs are computed at a time.
static size_t place_scratch(depthwise_params *self, int64_t outputs) {
  const ls_conv *conv = &self->conv;
  const size_t wide = self->types.wide, in = (size_t)conv->in_channels;
  const size_t taps = (size_t)ls_conv_taps(conv);
  int64_t slots_z = 1;
  self->slots_y = 1;
  for (int64_t i = 0; i < self->phases; ++i) {
    const ls_conv_phase phase = ls_conv_phase_of(conv, i);
    const ls_conv_axis *axis = phase.axis;
    slots_z = ls_max_i64(slots_z, (axis[Z].taps - 1) * axis[Z].start_step + 1);
    self->slots_y =
        ls_max_i64(self->slots_y, (axis[Y].taps - 1) * axis[Y].start_step + 1);
    self->width = ls_max_i64(self->width,
                             (outputs - 1) * axis[X].move +
                                 (axis[X].taps - 1) * axis[X].start_step + 1);
  }
  self->slots = slots_z * self->slots_y;
  const size_t some = (size_t)self->some;
  self->line = ((size_t)self->width * some * in + LS_TAP_SLACK) * wide;
  size_t end = 0;
  self->kept = ls_conv_place(&end, (size_t)self->slots * sizeof(int64_t));
  self->slot_lines =
      ls_conv_place(&end, self->copies ? (size_t)self->slots * self->line : 0);
  self->zeros = ls_conv_place(&end, self->fused ? self->line : 0);
  self->channels = ls_conv_place(&end, some * in * wide);
  self->x = ls_conv_place(&end, taps * in * sizeof(void *));
  self->w = ls_conv_place(&end, taps * in * sizeof(void *));
  self->taps = ls_conv_place(&end, taps * sizeof(int64_t));
  self->rows = ls_conv_place(&end, taps * sizeof(uintptr_t));
  self->y = ls_conv_place(&end, (size_t)outputs * some * wide);
  return end;
}

static depthwise_params *new_params(ls_kernel_plan *plan, const ls_conv *conv,
                                    const ls_conv_types *types) {
  depthwise_params *self = ls_arena_new(plan->arena, depthwise_params);
  if (self == NULL) return NULL;
  const bool f64 = types->wide == sizeof(double);
  *self = (depthwise_params){
      .conv = *conv,
      .types = *types,
      .kernels = f64 ? plan->kernels->taps_f64 : plan->kernels->taps_f32,
      .fused = conv->in_channels > 1 || conv->out_channels > 1,
      .phases = ls_conv_phases(conv),
  };
  self->copies = self->fused || types->half != LS_DTYPE_NONE;
  plan->params = self;
  return self;
}

// Cuts the channels into chunks of about `most`, of whole groups.
static void cut_channels(depthwise_params *self, int64_t most) {
  const int64_t out = self->conv.out_channels, all = all_channels(&self->conv);
  const int64_t least = out * 16 / ls_common_divisor(out, 16);
  self->some = ls_min_i64(all, ls_max_i64(1, most / least) * least);
  self->chunks = ls_blocks_of(all, self->some);
}

ls_status ls_conv_depthwise(ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types,
                            ls_cpu_activation activation) {
  depthwise_params *self = new_params(plan, conv, types);
  if (self == NULL) return ls_out_of_memory();
  const int64_t in = conv->in_channels, taps = ls_conv_taps(conv);
  self->activation = activation;
  self->has_bias = plan->num_in > 2;
  self->swaps_channels = plan->node->type == LS_OP_CONV_GRAD_INPUT;
  self->packs =
      types->half != LS_DTYPE_NONE || (self->fused && self->swaps_channels);
  cut_channels(self, self->copies ? COPIED / in : INT64_MAX / 32);
  const ls_conv_phase first = ls_conv_phase_of(conv, 0);
  const int64_t width = first.axis[X].count, height = first.axis[Y].count;
  const int64_t pixels =
      ls_max_i64(16, BLOCK_WORK / ls_max_i64(1, taps * in * self->some));
  self->segments = ls_max_i64(1, ls_blocks_of(width, pixels));
  self->columns = ls_max_i64(1, ls_blocks_of(width, self->segments));
  self->lines = ls_max_i64(1, pixels / self->columns);
  self->bands = ls_max_i64(1, ls_blocks_of(height, self->lines));
  plan->scratch = place_scratch(self, self->columns);
  self->total = ls_conv_place(&plan->scratch, (size_t)self->some * types->wide);
  if (self->packs) {
    plan->first = pack_taps_loop;
    plan->first_blocks = taps;
    plan->shared = (size_t)(taps * in * all_channels(conv)) * types->wide;
  }
  plan->blocks =
      ls_max_i64(1, self->chunks * self->phases * self->segments *
                        conv->images * conv->dim[Z].out * self->bands);
  plan->loop = depthwise_loop;
  return ls_ok();
}

// ---- Weights ---------------------------------------------------------------
#define ADD_ROW(name, D, T, W)                                                 \
  static void name##_##D(void *target, const void *row, int64_t n) {           \
    T *restrict total = target;                                                \
    const T *restrict x = row;                                                 \
    for (int64_t i = 0; i < n; ++i)                                            \
      total[i] += x[i];                                                        \
  }
LS_EACH_FLOAT(ADD_ROW, add_row)

// Ends the chains of the phase's taps: adds them to their sums, or begins
// these.
static void end_chains(const work *w, bool begins) {
  const int64_t in = w->self->conv.in_channels, n = w->c1 - w->c0;
  const int64_t *numbers =
      (const int64_t *)(const void *)scratch_at(w, w->self->taps);
  for (int64_t t = 0; t < w->phase.taps * in; ++t) {
    const int64_t r = numbers[t / in] * in + t % in;
    if (r < w->r0 || r >= w->r1) continue;
    const size_t at = (size_t)(r - w->r0) * w->target_pitch;
    char *sum = w->targets + at, *total = scratch_at(w, w->self->total) + at;
    if (begins)
      memcpy(total, sum, w->target_pitch);
    else if (w->self->types.wide == sizeof(double))
      add_row_F64(total, sum, n);
    else
      add_row_F32(total, sum, n);
    memset(sum, 0, w->target_pitch);
  }
}

// Adds the products of `line.count` pixels of a line to the chains.
static void add_line(const work *w, const ls_conv_line *line) {
  const depthwise_params *self = w->self;
  const int64_t channels = all_channels(&self->conv), n = w->c1 - w->c0;
  const int64_t period = w->phase.axis[X].period;
  const int64_t end = line->at[X] + line->count;
  const int64_t output = ls_conv_output_at(&w->phase, line);
  const size_t step = (size_t)(period * channels) * self->types.size;
  char *dy = (char *)(uintptr_t)w->call->in[1] +
             (size_t)(output * channels + w->c0) * self->types.size;
  ls_cpu_taps taps = new_taps(w);
  taps.pitch = (size_t)(period * channels);
  if (self->types.half != LS_DTYPE_NONE) {
    char *wide = scratch_at(w, self->y);
    convert_rows(w, dy, wide, step, line->count, false);
    dy = wide;
    taps.pitch = (size_t)n;
  }
  find_lines(w, line);
  for (int64_t at = line->at[X], next; at < end; at = next) {
    next = same_taps(w, at, end);
    list_taps(w, at, &taps);
    taps.pixels = (size_t)(next - at);
    taps.y = dy;
    self->kernels->add(&taps);
    dy += taps.pixels * taps.pitch * self->types.wide;
  }
}

// Computes the rows [r0, r1) of the weights' gradient for a unit of channels.
static void sum_rows(work *w, int64_t unit) {
  const depthwise_params *self = w->self;
  const ls_conv *conv = &self->conv;
  const int64_t c0 = unit * self->some, channels = all_channels(conv);
  const int64_t c1 = ls_min_i64(c0 + self->some, channels), n = c1 - c0;
  const bool keeps = conv->dim[X].out <= MOST_KEPT;
  w->targets = scratch_at(w, self->sums);
  w->target_pitch = (size_t)n * self->types.wide;
  memset(w->targets, 0, (size_t)(w->r1 - w->r0) * w->target_pitch);
  memset(scratch_at(w, self->total), 0,
         (size_t)(w->r1 - w->r0) * w->target_pitch);
  for (int64_t phase = 0; phase < self->phases; ++phase) {
    begin_phase(w, phase);
    const int64_t pixels = w->phase.taps > 0 ? w->phase.pixels : 0;
    bool begins = self->fused;
    for (int64_t m = 0; m < pixels;) {
      const ls_conv_axis *axis = &w->phase.axis[X];
      const int64_t chain_end = ls_min_i64((m / CHAIN + 1) * CHAIN, pixels);
      const ls_conv_line line = ls_conv_line_at(&w->phase, m, chain_end);
      place_lines(w, c0, c1,
                  axis->start + (keeps ? 0 : line.at[X] * axis->move));
      add_line(w, &line);
      m += line.count;
      if (m < chain_end) continue;
      end_chains(w, begins);
      begins = false;
    }
  }
  const char *total = scratch_at(w, self->total);
  for (int64_t r = w->r0; r < w->r1; ++r, total += w->target_pitch)
    ls_conv_narrow(&self->types,
                   (char *)w->call->out[0] +
                       (size_t)(r * channels + c0) * self->types.size,
                   total, n);
}

static void depthwise_weights_loop(const ls_kernel_call *call,
                                   int64_t begin_block, int64_t end_block) {
  const depthwise_params *self = call->params;
  const int64_t rows = ls_conv_taps(&self->conv) * self->conv.in_channels;
  work w = {.self = self, .call = call, .c1 = -1};
  if (self->fused) memset(scratch_at(&w, self->zeros), 0, self->line);
  for (int64_t b = begin_block; b < end_block; b += w.r1 - w.r0) {
    w.r0 = b % rows;
    w.r1 = ls_min_i64(rows, w.r0 + (end_block - b));
    sum_rows(&w, b / rows);
  }
}

ls_status ls_conv_depthwise_weights(ls_kernel_plan *plan, const ls_conv *conv,
                                    const ls_conv_types *types) {
  depthwise_params *self = new_params(plan, conv, types);
  if (self == NULL) return ls_out_of_memory();
  const int64_t rows = ls_conv_taps(conv) * conv->in_channels;
  const int64_t width = conv->dim[X].out;
  cut_channels(self, self->copies ? COPIED / conv->in_channels : UNIT_CHANNELS);
  plan->scratch = place_scratch(self, width <= MOST_KEPT ? width : CHAIN);
  const size_t bytes = (size_t)(rows * self->some) * types->wide;
  self->sums = ls_conv_place(&plan->scratch, bytes);
  self->total = ls_conv_place(&plan->scratch, bytes);
  plan->blocks = ls_max_i64(1, self->chunks * rows);
  plan->loop = depthwise_weights_loop;
  return ls_ok();
}
