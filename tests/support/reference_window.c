// SPDX-License-Identifier: Apache-2.0
//
// The reference: convolutions and reductions over windows.
#include <math.h>

#include "support/expect.h"
#include "support/reference_ops.h"

// Where windows lie along each spatial dimension: output o sees with tap k
// place o stride + k dilation - low of the input, whose elements are `spread`
// apart.
typedef struct geometry {
  int32_t rank;
  ls_shape places, taps, outputs;
  int64_t stride[3], dilation[3], spread[3], low[3];
} geometry;

static ls_shape spatial(ls_shape shape, int32_t first) {
  ls_shape s = {.rank = shape.rank - 2};
  for (int32_t i = 0; i < s.rank; ++i)
    s.dim[i] = shape.dim[first + i];
  return s;
}

static geometry geometry_of(const ref_op *op, ls_shape x, ls_shape y,
                            ls_shape taps) {
  geometry g = {
      .rank = x.rank - 2,
      .places = spatial(x, 1),
      .taps = taps,
      .outputs = spatial(y, 1),
  };
  for (int32_t i = 0; i < g.rank; ++i) {
    g.stride[i] = ref_item(op, "strides", i, 1);
    g.dilation[i] = ref_item(op, "dilations", i, 1);
    g.spread[i] = ref_item(op, "input_dilations", i, 1);
    g.low[i] = ref_item(op, "padding", 2 * i, 0);
    if (ref_int(op, "same", 0) != 0) {
      const int64_t have = (g.places.dim[i] - 1) * g.spread[i] + 1;
      const int64_t want = (g.outputs.dim[i] - 1) * g.stride[i] +
                           (g.taps.dim[i] - 1) * g.dilation[i] + 1;
      g.low[i] = want > have ? (want - have) / 2 : 0;
    }
  }
  return g;
}

// The place that output `o` sees with tap `k`; -1: none, padding.
static int64_t seen(const geometry *g, int64_t o, int64_t k) {
  int64_t output[LS_MAX_RANK], tap[LS_MAX_RANK], place[LS_MAX_RANK];
  ref_place(g->outputs, o, output);
  ref_place(g->taps, k, tap);
  for (int32_t i = 0; i < g->rank; ++i) {
    const int64_t at =
        output[i] * g->stride[i] + tap[i] * g->dilation[i] - g->low[i];
    if (at < 0 || at % g->spread[i] != 0) return -1;
    place[i] = at / g->spread[i];
    if (place[i] >= g->places.dim[i]) return -1;
  }
  return ref_index(g->places, place);
}

// ---- Convolutions ----------------------------------------------------------
// Of input, weights and result the one that is computed.
typedef enum role { INPUT, WEIGHTS, RESULT } role;

// The three values by role: two are operands, one is the output.
typedef struct roles {
  const ref_tensor *of[3];
  role computed;
  ref_tensor *out;
} roles;

static roles roles_of(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  if (op->type == LS_OP_CONV_GRAD_INPUT)  // Of dy and w.
    return (roles){{out, &in[1], &in[0]}, INPUT, out};
  if (op->type == LS_OP_CONV_GRAD_WEIGHTS)  // Of x and dy.
    return (roles){{&in[0], out, &in[1]}, WEIGHTS, out};
  return (roles){{&in[0], &in[1], out}, RESULT, out};
}

static void add_products(const roles *r, const geometry *g, int64_t groups,
                         int64_t image, int64_t o, int64_t k) {
  const int64_t place = seen(g, o, k);
  if (place < 0) return;
  const ls_shape x = r->of[INPUT]->type.shape, w = r->of[WEIGHTS]->type.shape;
  const int64_t channels = x.dim[x.rank - 1], some = w.dim[w.rank - 2];
  const int64_t outs = w.dim[w.rank - 1];
  const int64_t places = ls_shape_num_elements(g->places);
  const int64_t outputs = ls_shape_num_elements(g->outputs);
  for (int64_t to = 0; to < outs; ++to)
    for (int64_t c = 0; c < some; ++c) {
      const int64_t channel = to / (outs / groups) * some + c;
      const int64_t at[] = {
          (image * places + place) * channels + channel,
          (k * some + c) * outs + to,
          (image * outputs + o) * outs + to,
      };
      const role a = r->computed == INPUT ? WEIGHTS : INPUT;
      const role b = r->computed == RESULT ? WEIGHTS : RESULT;
      const ls_dtype dtype = r->out->type.dtype;
      ref_number *sum = &r->out->at[at[r->computed]];
      *sum =
          ref_sum(dtype, *sum,
                  ref_product(dtype, r->of[a]->at[at[a]], r->of[b]->at[at[b]]));
    }
}

void ref_convolution(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const roles r = roles_of(op, in, out);
  const ls_shape x = r.of[INPUT]->type.shape;
  const geometry g = geometry_of(op, x, r.of[RESULT]->type.shape,
                                 spatial(r.of[WEIGHTS]->type.shape, 0));
  for (int64_t image = 0; image < x.dim[0]; ++image)
    for (int64_t o = 0; o < ls_shape_num_elements(g.outputs); ++o)
      for (int64_t k = 0; k < ls_shape_num_elements(g.taps); ++k)
        add_products(&r, &g, ref_int(op, "groups", 1), image, o, k);
  if (op->type != LS_OP_CONV_BIAS_ACT) return;
  for (int64_t k = 0; k < out->count; ++k) {
    out->at[k] =
        ref_sum(out->type.dtype, out->at[k], in[2].at[k % in[2].count]);
    if (ref_is(op, "activation", "relu"))
      out->at[k].real = fmax(out->at[k].real, 0);
  }
}

// ---- Windows ---------------------------------------------------------------
typedef struct windows {
  geometry g;
  int64_t places, outputs, taps, channels;
} windows;

static windows windows_of(const ref_op *op, ls_shape x, ls_shape y) {
  ls_shape taps = {.rank = x.rank - 2};
  for (int32_t i = 0; i < taps.rank; ++i)
    taps.dim[i] = ref_item(op, "window", i, 1);
  windows w = {.g = geometry_of(op, x, y, taps)};
  w.places = ls_shape_num_elements(w.g.places);
  w.outputs = ls_shape_num_elements(w.g.outputs);
  w.taps = ls_shape_num_elements(taps);
  w.channels = x.dim[x.rank - 1];
  return w;
}

// The element of x that element `k` of the result sees with a tap; -1: none.
static int64_t element(const windows *w, int64_t k, int64_t tap) {
  const int64_t channel = k % w->channels, o = k / w->channels % w->outputs;
  const int64_t image = k / w->channels / w->outputs;
  const int64_t place = seen(&w->g, o, tap);
  if (place < 0) return -1;
  return (image * w->places + place) * w->channels + channel;
}

// What a mean divides by; 1 for others.
static double divisor(const ref_op *op, const windows *w, int64_t k) {
  if (!ref_is(op, "reduce", "mean")) return 1;
  if (ref_int(op, "count_padding", 0) != 0) return (double)w->taps;
  int64_t count = 0;
  for (int64_t tap = 0; tap < w->taps; ++tap)
    count += element(w, k, tap) >= 0;
  return (double)count;
}

// The first maximum of what element `k` sees; -1: padding alone.
static int64_t maximum_at(const windows *w, const ref_tensor *x, int64_t k) {
  int64_t best = -1;
  for (int64_t tap = 0; tap < w->taps; ++tap) {
    const int64_t at = element(w, k, tap);
    if (at >= 0 &&
        (best < 0 || ref_order(x->type.dtype, x->at[at], x->at[best]) > 0))
      best = at;
  }
  return best;
}

void ref_reduce_window(const ref_op *op, const ref_tensor *in,
                       ref_tensor *out) {
  const windows w = windows_of(op, in->type.shape, out->type.shape);
  const ls_dtype dtype = out->type.dtype;
  for (int64_t k = 0; k < out->count; ++k) {
    if (ref_is(op, "reduce", "max")) {
      const int64_t at = maximum_at(&w, in, k);
      out->at[k] = at < 0 ? ref_limit(dtype, false) : in->at[at];
      continue;
    }
    for (int64_t tap = 0; tap < w.taps; ++tap) {
      const int64_t at = element(&w, k, tap);
      if (at >= 0) out->at[k] = ref_sum(dtype, out->at[k], in->at[at]);
    }
    const double count = divisor(op, &w, k);
    out->at[k].real /= count;
    if (count > 0) out->at[k].terms /= count;
  }
}

void ref_window_sum_grad(const ref_op *op, const ref_tensor *in,
                         ref_tensor *out) {
  const windows w = windows_of(op, out->type.shape, in->type.shape);
  for (int64_t k = 0; k < in->count; ++k)
    for (int64_t tap = 0; tap < w.taps; ++tap) {
      const int64_t at = element(&w, k, tap);
      if (at < 0) continue;
      const double part = in->at[k].real / divisor(op, &w, k);
      out->at[at] =
          ref_sum(out->type.dtype, out->at[at], ref_real_number(part));
    }
}

// Of x and the gradient of its maxima, that of x; or of x and what is as
// large, its elements at the maxima.
void ref_window_max(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const bool picks = op->type == LS_OP_WINDOW_MAX_PICK;
  const ls_shape y = picks ? out->type.shape : in[1].type.shape;
  const windows w = windows_of(op, in->type.shape, y);
  for (int64_t k = 0; k < ls_shape_num_elements(y); ++k) {
    const int64_t at = maximum_at(&w, in, k);
    if (at >= 0 && picks) out->at[k] = in[1].at[at];
    if (at >= 0 && !picks)
      out->at[at] = ref_sum(out->type.dtype, out->at[at], in[1].at[k]);
  }
}
