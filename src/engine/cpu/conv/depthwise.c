// SPDX-License-Identifier: Apache-2.0
//
// Convolutions whose groups have few output channels, their input's gradient,
// sums and means of windows with their gradient, and maxima of windows.
#include "engine/cpu/conv/taps.h"

// Multiply-adds of a block, and most input channels of a group.
enum { BLOCK_WORK = 1 << 17, MOST_IN = 64 };
// Most taps of a window.
enum { MOST_TAPS = 1 << 24 };

// ---- Outputs ---------------------------------------------------------------
// Computes `line.count` outputs of a line. Windows have one weight for all
// channels: pixels whose inputs are side by side are like one with more.
static void sum_line(const ls_tap_work *w, const ls_conv_line *line) {
  const ls_tap_params *self = w->self;
  const ls_conv *conv = &self->conv;
  const bool half = self->types.half != LS_DTYPE_NONE;
  const int64_t period = w->phase.axis[X].period,
                channels = ls_taps_channels(conv);
  const int64_t n = w->c1 - w->c0, end = line->at[X] + line->count;
  const int64_t output = ls_conv_output_at(&w->phase, line);
  char *out = (char *)w->call->out[0] +
              (size_t)(output * channels + w->c0) * self->types.size;
  const size_t step = (size_t)(period * channels) * self->types.size;
  ls_cpu_taps taps = ls_taps_new(w);
  const bool joins = self->windows != NULL && taps.step == (size_t)n;
  const bool direct = !half && (!joins || step == (size_t)n * self->types.size);
  taps.pitch = (size_t)(direct ? period * channels : n);
  taps.takes_largest = self->windows != NULL && self->windows->takes_largest;
  taps.relu = self->activation == LS_CPU_ACTIVATION_RELU;
  if (self->has_bias) {
    taps.bias = (const char *)w->call->in[2] + (size_t)w->c0 * self->types.size;
    if (half) {
      ls_conv_widen(&self->types, ls_taps_scratch(w, self->total), taps.bias,
                    n);
      taps.bias = ls_taps_scratch(w, self->total);
    }
  }
  ls_taps_find_lines(w, line);
  for (int64_t at = line->at[X], next; at < end; at = next) {
    next = ls_taps_same(w, at, end);
    ls_taps_list(w, at, &taps);
    taps.pixels = joins ? 1 : (size_t)(next - at);
    taps.channels = (size_t)(joins ? n * (next - at) : n);
    taps.y = direct ? out : ls_taps_scratch(w, self->y);
    if (self->windows != NULL && self->windows->divides)
      taps.scale = ls_taps_factor(self, self->windows->counts_padding
                                            ? ls_conv_taps(conv)
                                            : (int64_t)taps.count);
    if (taps.takes_largest) taps.scale = 1;  // Makes subnormals zeros.
    self->kernels->multiply(&taps);
    if (!direct)
      ls_conv_narrow_rows(&self->types, out, (int64_t)step, taps.y, n,
                          next - at);
    out += (size_t)(next - at) * step;
  }
}

// Fills scratch with the weight of windows.
static void begin_windows(ls_tap_work *w) {
  const ls_tap_params *self = w->self;
  w->targets = ls_taps_scratch(w, self->total);
  for (int64_t i = 0; i < self->columns * self->some; ++i)
    if (self->types.wide == sizeof(double))
      ((double *)(void *)w->targets)[i] = self->windows->weight;
    else
      ((float *)(void *)w->targets)[i] = (float)self->windows->weight;
}

static void depthwise_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const ls_tap_params *self = call->params;
  const ls_conv *conv = &self->conv;
  const int64_t planes = conv->images * conv->dim[Z].out;
  if (planes == 0) return;
  ls_tap_work w = {.self = self, .call = call, .c1 = -1, .r1 = INT64_MAX};
  if (self->fused) memset(ls_taps_scratch(&w, self->zeros), 0, self->line);
  if (self->windows != NULL) begin_windows(&w);
  for (int64_t b = begin_block; b < end_block; ++b) {
    int64_t rest = b;
    const int64_t band = rest % self->bands;
    rest /= self->bands;
    const int64_t plane = rest % planes;
    rest /= planes;
    const int64_t x0 = rest % self->segments * self->columns;
    rest /= self->segments;
    ls_taps_begin_phase(&w, rest % self->phases);
    const int64_t c0 = rest / self->phases * self->some;
    const int64_t c1 = ls_min_i64(c0 + self->some, ls_taps_channels(conv));
    const ls_conv_axis *axis = w.phase.axis;
    ls_conv_line line = {.image = plane / conv->dim[Z].out,
                         .at = {plane % conv->dim[Z].out, 0, x0}};
    line.count = ls_min_i64(self->columns, axis[X].count - x0);
    if (line.at[Z] >= axis[Z].count || line.count <= 0) continue;
    ls_taps_place_lines(&w, c0, c1, axis[X].start + x0 * axis[X].move);
    if (self->windows == NULL) {
      w.targets =
          (char *)(uintptr_t)call->in[self->packs ? 2 + self->has_bias : 1] +
          (size_t)c0 * self->types.wide;
      w.target_pitch = (size_t)ls_taps_channels(conv) * self->types.wide;
    }
    const int64_t end = ls_min_i64((band + 1) * self->lines, axis[Y].count);
    for (line.at[Y] = band * self->lines; line.at[Y] < end; ++line.at[Y])
      sum_line(&w, &line);
  }
}

// First step: writes the weights of a tap as [in channels, all out channels].
static void pack_taps_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const ls_tap_params *self = call->params;
  const ls_conv *conv = &self->conv;
  const int64_t in = conv->in_channels, out = conv->out_channels;
  const int64_t all = ls_taps_channels(conv);
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

// ---- Plans -----------------------------------------------------------------
bool ls_conv_fits_depthwise(const ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types) {
  return conv->groups > 1 &&
         ((conv->in_channels == 1 && conv->out_channels == 1) ||
          (conv->out_channels > 0 && conv->out_channels < 8 &&
           conv->in_channels > 0 && conv->in_channels <= MOST_IN &&
           (types->wide == sizeof(double) ||
            types->product == plan->kernels->product_f32)));
}

// Cuts the work into blocks and reserves scratch.
static void plan_outputs(ls_kernel_plan *plan, ls_tap_params *self) {
  const ls_conv *conv = &self->conv;
  const int64_t in = conv->in_channels;
  ls_taps_cut_channels(self, self->copies ? COPIED / in : INT64_MAX / 32);
  const ls_conv_phase first = ls_conv_phase_of(conv, 0);
  const int64_t width = first.axis[X].count, height = first.axis[Y].count;
  const int64_t work = ls_conv_taps(conv) * in * self->some;
  const int64_t pixels = ls_max_i64(16, BLOCK_WORK / ls_max_i64(1, work));
  self->segments = ls_max_i64(1, ls_blocks_of(width, pixels));
  self->columns = ls_max_i64(1, ls_blocks_of(width, self->segments));
  self->lines = ls_max_i64(1, pixels / self->columns);
  self->bands = ls_max_i64(1, ls_blocks_of(height, self->lines));
  plan->scratch = ls_taps_place_scratch(self, self->columns);
  const size_t row = (size_t)self->some * self->types.wide;
  const size_t rows = (size_t)self->columns * row;
  const bool windows = self->windows != NULL;
  self->total = ls_conv_place(&plan->scratch, windows ? rows : row);
  plan->blocks =
      ls_max_i64(1, self->chunks * self->phases * self->segments *
                        conv->images * conv->dim[Z].out * self->bands);
  plan->loop = depthwise_loop;
}

ls_status ls_conv_depthwise(ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types,
                            ls_cpu_activation activation) {
  ls_tap_params *self = ls_taps_new_params(plan, conv, types);
  if (self == NULL) return ls_out_of_memory();
  self->activation = activation;
  self->has_bias = plan->num_in > 2;
  self->swaps_channels = plan->node->type == LS_OP_CONV_GRAD_INPUT;
  self->packs =
      types->half != LS_DTYPE_NONE || (self->fused && self->swaps_channels);
  if (self->packs) {
    plan->first = pack_taps_loop;
    plan->first_blocks = ls_conv_taps(conv);
    plan->shared = (size_t)(ls_conv_taps(conv) * conv->in_channels *
                            ls_taps_channels(conv)) *
                   types->wide;
  }
  plan_outputs(plan, self);
  return ls_ok();
}

// Returns true if no window has elements in the padding.
static bool all_inside(const ls_conv *windows) {
  bool inside = true;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    const ls_conv_dim *dim = &windows->dim[i];
    inside =
        inside && dim->base == 0 &&
        (dim->out - 1) * dim->stride + (dim->taps - 1) * dim->step < dim->in;
  }
  return inside;
}

ls_status ls_conv_window_sums(ls_kernel_plan *plan, bool gradient) {
  const char *reduce =
      ls_node_attr(plan->node, LS_ATTR_ID_WINDOW_REDUCE)->as.string;
  const bool is_mean = strcmp(reduce, "mean") == 0;
  ls_conv_types types;
  LS_RETURN_IF_ERROR(ls_conv_types_of(plan, 0, &types));
  const ls_shape x = (gradient ? plan->out : plan->in)[0].shape;
  const ls_shape y = (gradient ? plan->in : plan->out)[0].shape;
  LS_ARENA_NEW_OR_RETURN(plan->arena, ls_tap_windows, windows);
  ls_conv *counted = &windows->counted;
  LS_RETURN_IF_ERROR(ls_conv_read_window(plan, x, y, counted));
  const int64_t taps = ls_conv_taps(counted);
  if (taps > MOST_TAPS)
    return ls_unimplemented("op '%s' has no CPU kernel for windows of %lld",
                            ls_node_info(plan->node)->name, (long long)taps);
  counted->groups = x.dim[x.rank - 1];
  counted->in_channels = counted->out_channels = 1;
  const ls_conv conv = gradient ? ls_conv_input_gradient(counted) : *counted;
  ls_tap_params *self = ls_taps_new_params(plan, &conv, &types);
  if (self == NULL) return ls_out_of_memory();
  windows->counts_padding =
      ls_node_int(plan->node, LS_ATTR_ID_COUNT_PADDING) != 0 ||
      all_inside(counted);
  windows->divides = is_mean && !gradient;
  windows->takes_largest = strcmp(reduce, "max") == 0;
  windows->weight = 1;
  self->windows = windows;
  if (is_mean && gradient && windows->counts_padding)
    windows->weight = ls_taps_factor(self, taps);
  else if (is_mean && gradient)
    self->scales = self->copies = true;
  plan_outputs(plan, self);
  return ls_ok();
}
