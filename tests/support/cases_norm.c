// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: normalizations and attention.
#include <math.h>

#include "lockstep/ops.h"
#include "support/expect.h"
#include "support/op_case.h"

static const double epsilon = 0.1;

static int64_t last_of(const ref_tensor *x) {
  return x->type.shape.dim[x->type.shape.rank - 1];
}

static void add(ref_number *to, double x) {
  to->real += x;
  to->terms += fabs(x);
}

// ---- Normalization ---------------------------------------------------------
// The mean and variance of channel `c` of x.
static void moments(const ref_tensor *x, int64_t c, ref_number *mean,
                    ref_number *variance) {
  const int64_t channels = last_of(x), rows = x->count / channels;
  for (int64_t i = 0; i < rows; ++i)
    add(mean, x->at[i * channels + c].real / (double)rows);
  for (int64_t i = 0; i < rows; ++i) {
    const double rest = x->at[i * channels + c].real - mean->real;
    add(variance, rest * rest / (double)rows);
  }
}

// r scale + offset with these moments, and its activation.
static ref_number normalized(const ref_op *op, double x, double scale,
                             double offset, double mean, double variance) {
  const double inverse = 1 / sqrt(variance + ref_real(op, "epsilon", 0));
  ref_number y = {0};
  add(&y, x * inverse * scale);
  add(&y, -mean * inverse * scale);
  add(&y, offset);
  if (ref_is(op, "activation", "relu")) y.real = fmax(y.real, 0);
  return y;
}

static void compute_batch_norm(const ref_op *op, const ref_tensor *in,
                               ref_tensor *out) {
  const int64_t channels = last_of(in);
  for (int64_t c = 0; c < channels && in->count > 0; ++c)
    moments(in, c, &out[1].at[c], &out[2].at[c]);
  for (int64_t k = 0; k < in->count; ++k) {
    const int64_t c = k % channels;
    out->at[k] =
        normalized(op, in->at[k].real, in[1].at[c].real, in[2].at[c].real,
                   out[1].at[c].real, out[2].at[c].real);
  }
}

static void compute_batch_norm_inference(const ref_op *op, const ref_tensor *in,
                                         ref_tensor *out) {
  for (int64_t k = 0; k < in->count; ++k) {
    const int64_t c = k % last_of(in);
    out->at[k] =
        normalized(op, in->at[k].real, in[1].at[c].real, in[2].at[c].real,
                   in[3].at[c].real, in[4].at[c].real);
  }
}

// Operands: dy, x, scale, offset, mean, variance. With r = (x - mean) / s the
// gradient is scale / s (dy - mean(dy) - r mean(dy r)).
static void compute_batch_norm_grad(const ref_op *op, const ref_tensor *in,
                                    ref_tensor *out) {
  const int64_t channels = last_of(in), rows = in->count / channels;
  const double n = (double)rows;
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = in[2].at[c].real, mean = in[4].at[c].real;
    const double s = sqrt(in[5].at[c].real + ref_real(op, "epsilon", 0));
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t k = i * channels + c;
        const double r = (in[1].at[k].real - mean) / s;
        const double y = r * scale + in[3].at[c].real;
        const bool relu = ref_is(op, "activation", "relu");
        const double dy = !relu || y > 0 ? in->at[k].real : 0;
        // x and the mean are rounded, each by itself.
        const double rough = (fabs(in[1].at[k].real) + fabs(mean)) / s;
        if (pass == 0) {
          add(&out[1].at[c], dy * r);
          add(&out[2].at[c], dy);
          out[1].at[c].terms += fabs(dy) * rough;
        } else {
          add(&out->at[k], scale / s * dy);
          add(&out->at[k], -scale / s * out[2].at[c].real / n);
          add(&out->at[k], -scale / s * r * out[1].at[c].real / n);
          out->at[k].terms +=
              fabs(scale / s) *
              (out[2].at[c].terms + rough * out[1].at[c].terms) / n;
          // On the edge either is right.
          if (relu && fabs(y) < 1e-5) out->at[k].terms = (double)INFINITY;
        }
      }
  }
}

// What a row is moved by and divided by.
typedef struct row_moments {
  double mean, s;
} row_moments;

static row_moments moments_of_row(const ref_op *op, const ref_number *x,
                                  int64_t size, bool moves) {
  row_moments m = {0, 0};
  for (int64_t i = 0; moves && i < size; ++i)
    m.mean += x[i].real / (double)size;
  for (int64_t i = 0; i < size; ++i)
    m.s += (x[i].real - m.mean) * (x[i].real - m.mean) / (double)size;
  m.s = sqrt(m.s + ref_real(op, "epsilon", 0));
  return m;
}

static void compute_row_norm(const ref_op *op, const ref_tensor *in,
                             ref_tensor *out) {
  const int64_t size = last_of(in);
  const bool moves = op->type == LS_OP_LAYER_NORM;
  row_moments m = {0, 1};
  for (int64_t k = 0; k < in->count; ++k) {
    if (k % size == 0) m = moments_of_row(op, in->at + k, size, moves);
    const double scale = in[1].at[k % size].real;
    add(&out->at[k], in->at[k].real / m.s * scale);
    add(&out->at[k], -m.mean / m.s * scale);
    if (moves) add(&out->at[k], in[2].at[k % size].real);
  }
}

// Operands: dy, x, scale. With g = dy scale the gradient of x is
// (g - mean(g) - r mean(g r)) / s; without mean(g) if rows are not moved.
static void compute_row_norm_grad(const ref_op *op, const ref_tensor *in,
                                  ref_tensor *out) {
  const int64_t size = last_of(in);
  const bool moves = op->type == LS_OP_LAYER_NORM_GRAD;
  for (int64_t row = 0; row < in->count; row += size) {
    const ref_number *dy = in[0].at + row, *x = in[1].at + row;
    const row_moments m = moments_of_row(op, x, size, moves);
    ref_number g_mean = {0}, gr_mean = {0};
    for (int64_t i = 0; i < size; ++i) {
      const double r = (x[i].real - m.mean) / m.s;
      const double g = dy[i].real * in[2].at[i].real;
      if (moves) add(&g_mean, g / (double)size);
      const double rough = (fabs(x[i].real) + fabs(m.mean)) / m.s;
      add(&gr_mean, g * r / (double)size);
      add(&out[1].at[i], dy[i].real * r);
      gr_mean.terms += fabs(g) * rough / (double)size;
      out[1].at[i].terms += fabs(dy[i].real) * rough;
      if (moves) add(&out[2].at[i], dy[i].real);
    }
    for (int64_t i = 0; i < size; ++i) {
      const double r = (x[i].real - m.mean) / m.s;
      ref_number *dx = &out->at[row + i];
      add(dx, dy[i].real * in[2].at[i].real / m.s);
      add(dx, -g_mean.real / m.s);
      add(dx, -r * gr_mean.real / m.s);
      const double rough = (fabs(x[i].real) + fabs(m.mean)) / m.s;
      dx->terms += (g_mean.terms + rough * gr_mean.terms) / m.s;
    }
  }
}

// Of what is one number a channel.
static ls_dtype wide(const trial *t) {
  const bool half = t->dtype == LS_DTYPE_F16 || t->dtype == LS_DTYPE_BF16;
  return half ? LS_DTYPE_F32 : t->dtype;
}

static ls_shape draw_channels(trial *t, int64_t extra) {
  ls_shape shape = trial_shape(t, 1, 3);
  for (int32_t i = 0; i < shape.rank; ++i)
    if (shape.dim[i] == 0) shape.dim[i] = 2;
  t->number[0] = trial_between(t, LS_ACTIVATION_NONE, LS_ACTIVATION_RELU);
  for (int64_t i = 0; i < extra; ++i)
    trial_add(t, shape);
  return LS_SHAPE(shape.dim[shape.rank - 1]);
}

// x, scale and offset; with dy before, for gradients.
static void draw_norm(trial *t) {
  const ls_shape channels = draw_channels(t, 1);
  trial_add_in(t, wide(t), channels, -2, 2);
  trial_add_in(t, wide(t), channels, -2, 2);
}

static void draw_norm_grad(trial *t) {
  const ls_shape channels = draw_channels(t, 2);
  trial_add_in(t, wide(t), channels, -2, 2);
  trial_add_in(t, wide(t), channels, -2, 2);
}

static void draw_inference(trial *t) {
  draw_norm(t);
  const ls_shape channels = ls_array_shape(t->operand[1]);
  trial_add_in(t, wide(t), channels, -2, 2);
  trial_add_in(t, wide(t), channels, 0.1, 2);
}

static ls_nest outputs_of(ls_op op, unsigned count) {
  ls_nest leaves[4];
  for (unsigned i = 0; i < count; ++i)
    leaves[i] = ls_leaf(ls_op_output(op, i));
  return ls_nest_sequence(LS_KIND_TUPLE, leaves, count);
}

static ls_nest make_batch_norm(const trial *t, const ls_tensor *xs) {
  return outputs_of(
      ls_batch_norm(xs[0], xs[1], xs[2], epsilon, (ls_activation)t->number[0]),
      3);
}

// Mean and variance must be those of x.
static ls_nest make_batch_norm_grad(const trial *t, const ls_tensor *xs) {
  const ls_activation activation = (ls_activation)t->number[0];
  const ls_op norm = ls_batch_norm(xs[1], xs[2], xs[3], epsilon, activation);
  return outputs_of(
      ls_batch_norm_grad(xs[0], xs[1], xs[2], xs[3], ls_op_output(norm, 1),
                         ls_op_output(norm, 2), epsilon, activation),
      3);
}

static ls_nest make_inference(const trial *t, const ls_tensor *xs) {
  // The variance is positive whatever is drawn for it.
  return ls_leaf(ls_batch_norm_inference(xs[0], xs[1], xs[2], xs[3],
                                         ls_square(xs[4]), epsilon,
                                         (ls_activation)t->number[0]));
}

static ls_nest make_layer_norm(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_layer_norm(xs[0], xs[1], xs[2], epsilon));
}

static ls_nest make_layer_norm_grad(const trial *t, const ls_tensor *xs) {
  (void)t;
  return outputs_of(ls_layer_norm_grad(xs[0], xs[1], xs[2], epsilon), 3);
}

static ls_nest make_rms_norm(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_rms_norm(xs[0], xs[1], epsilon));
}

static ls_nest make_rms_norm_grad(const trial *t, const ls_tensor *xs) {
  (void)t;
  return outputs_of(ls_rms_norm_grad(xs[0], xs[1], xs[2], epsilon), 2);
}

// ---- Attention -------------------------------------------------------------
// One of q, k and v (0, 1, 2), alone or side by side with the others.
typedef struct part {
  const ref_tensor *in;
  int64_t tokens, width;  // Of all heads.
  int64_t pitch, start;   // In the operand.
} part;

typedef struct attended {
  part of[3];
  int64_t batch, heads;
  bool causal;
  double scale;
  double *weights;  // [queries, keys] of one head.
} attended;

static attended attended_of(const ref_op *op, const ref_tensor *in,
                            size_t count) {
  attended a = {
      .batch = in->type.shape.dim[0],
      .heads = ref_int(op, "num_heads", 1),
      .causal = ref_int(op, "causal", 0) != 0,
  };
  for (int i = 0; i < 3; ++i) {
    const ref_tensor *x = count == 1 ? in : &in[i];
    const int64_t pitch = last_of(x), width = count == 1 ? pitch / 3 : pitch;
    a.of[i] = (part){x, x->type.shape.dim[1], width, pitch,
                     count == 1 ? i * width : 0};
  }
  a.scale =
      ref_real(op, "scale", 1 / sqrt((double)a.of[0].width / (double)a.heads));
  a.weights = ref_allocate(op->run, (size_t)(a.of[0].tokens * a.of[1].tokens),
                           sizeof(double));
  return a;
}

// The element of `p`'s operand for a place of one head.
static int64_t at(const attended *a, const part *p, int64_t image,
                  int64_t token, int64_t head, int64_t i) {
  return (image * p->tokens + token) * p->pitch + p->start +
         head * (p->width / a->heads) + i;
}

static double value(const attended *a, int which, int64_t image, int64_t token,
                    int64_t head, int64_t i) {
  const part *p = &a->of[which];
  return p->in->at[at(a, p, image, token, head, i)].real;
}

// softmax(scale q k') of one head.
static void weigh(const attended *a, int64_t image, int64_t head) {
  const int64_t keys = a->of[1].tokens, depth = a->of[0].width / a->heads;
  for (int64_t q = 0; q < a->of[0].tokens; ++q) {
    double *row = a->weights + q * keys, most = -(double)INFINITY, sum = 0;
    for (int64_t k = 0; k < keys; ++k) {
      row[k] = a->causal && k > q ? -(double)INFINITY : 0;
      for (int64_t i = 0; i < depth; ++i)
        row[k] += a->scale * value(a, 0, image, q, head, i) *
                  value(a, 1, image, k, head, i);
      most = fmax(most, row[k]);
    }
    for (int64_t k = 0; k < keys; ++k)
      sum += exp(row[k] - most);
    for (int64_t k = 0; k < keys; ++k)
      row[k] = exp(row[k] - most) / sum;
  }
}

static void compute_attention(const ref_op *op, const ref_tensor *in,
                              ref_tensor *out) {
  const attended a = attended_of(op, in, op->num_in);
  const int64_t keys = a.of[1].tokens, depth = a.of[2].width / a.heads;
  const part to = {out, a.of[0].tokens, last_of(out), last_of(out), 0};
  for (int64_t image = 0; image < a.batch; ++image)
    for (int64_t head = 0; head < a.heads; ++head) {
      weigh(&a, image, head);
      for (int64_t q = 0; q < a.of[0].tokens; ++q)
        for (int64_t i = 0; i < depth; ++i)
          for (int64_t k = 0; k < keys; ++k)
            add(&out->at[at(&a, &to, image, q, head, i)],
                a.weights[q * keys + k] * value(&a, 2, image, k, head, i));
    }
}

// Of one query: with dp = dy v', ds = p (dp - sum(p dp)) the gradients are
// ds k, ds' q and p' dy.
static void add_query(const attended *a, const ref_tensor *dy, ref_tensor *out,
                      size_t parts, int64_t image, int64_t head, int64_t q) {
  const int64_t keys = a->of[1].tokens, width = last_of(dy);
  const int64_t depth = a->of[0].width / a->heads;
  const int64_t wide = a->of[2].width / a->heads;
  const part from = {dy, a->of[0].tokens, width, width, 0};
  const double *p = a->weights + q * keys;
  double sum = 0;
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t k = 0; k < keys; ++k) {
      double dp = 0;
      for (int64_t i = 0; i < wide; ++i) {
        const double d = dy->at[at(a, &from, image, q, head, i)].real;
        dp += d * value(a, 2, image, k, head, i);
        if (pass == 1)
          add(&out[parts == 1 ? 0 : 2].at[at(a, &a->of[2], image, k, head, i)],
              p[k] * d);
      }
      if (pass == 0) {
        sum += p[k] * dp;
        continue;
      }
      const double ds = a->scale * p[k] * (dp - sum);
      const double most = a->scale * p[k] * (fabs(dp) + fabs(sum));
      for (int64_t i = 0; i < depth; ++i) {
        const double x = value(a, 0, image, q, head, i);
        const double y = value(a, 1, image, k, head, i);
        ref_number *dq = &out->at[at(a, &a->of[0], image, q, head, i)];
        ref_number *dk =
            &out[parts == 1 ? 0 : 1].at[at(a, &a->of[1], image, k, head, i)];
        add(dq, ds * y);
        add(dk, ds * x);
        dq->terms += most * fabs(y);
        dk->terms += most * fabs(x);
      }
    }
}

static void compute_attention_grad(const ref_op *op, const ref_tensor *in,
                                   ref_tensor *out) {
  const size_t parts = op->num_in - 1;
  const attended a = attended_of(op, in + 1, parts);
  for (int64_t image = 0; image < a.batch; ++image)
    for (int64_t head = 0; head < a.heads; ++head) {
      weigh(&a, image, head);
      for (int64_t q = 0; q < a.of[0].tokens; ++q)
        add_query(&a, in, out, parts, image, head, q);
    }
}

static ls_attention_options options_of(const trial *t) {
  return (ls_attention_options){
      .num_heads = t->number[0],
      .causal = t->number[1] != 0,
      .scale = t->number[2] == 0 ? 0 : 0.7,
  };
}

// The result's gradient, and q, k and v alone or side by side.
static void draw_attention(trial *t) {
  const int64_t heads = trial_between(t, 1, 3), batch = trial_between(t, 0, 2);
  const int64_t depth = heads * trial_between(t, 1, 4);
  const bool causal = trial_between(t, 0, 1) == 1;
  const bool packed = trial_between(t, 0, 1) == 1;
  const int64_t tokens = trial_between(t, 1, 5);
  const int64_t keys = causal ? tokens : trial_between(t, 1, 5);
  const int64_t values = packed ? depth : heads * trial_between(t, 1, 4);
  t->number[0] = heads;
  t->number[1] = causal;
  t->number[2] = trial_between(t, 0, 1);
  trial_add(t, LS_SHAPE(batch, tokens, values));
  if (packed) {
    trial_add(t, LS_SHAPE(batch, tokens, 3 * depth));
    return;
  }
  trial_add(t, LS_SHAPE(batch, tokens, depth));
  trial_add(t, LS_SHAPE(batch, keys, depth));
  trial_add(t, LS_SHAPE(batch, keys, values));
}

static ls_nest make_attention(const trial *t, const ls_tensor *xs) {
  const ls_attention_options options = options_of(t);
  return ls_leaf(t->count == 2 ? ls_attention_packed(xs[1], &options)
                               : ls_attention(xs[1], xs[2], xs[3], &options));
}

static ls_nest make_attention_grad(const trial *t, const ls_tensor *xs) {
  const ls_attention_options options = options_of(t);
  const ls_tensor none = {0};
  if (t->count == 2)
    return outputs_of(ls_attention_grad(xs[0], xs[1], none, none, &options), 1);
  return outputs_of(ls_attention_grad(xs[0], xs[1], xs[2], xs[3], &options), 3);
}

#define CASE(id, computed, maker, drawer, ...)                                 \
  {                                                                            \
    .op = LS_OP_##id, .compute = (computed), .dtypes = FLOATS, .make = maker,  \
    .draw = drawer, __VA_ARGS__                                                \
  }

const op_case norm_cases[] = {
    CASE(BATCH_NORM, compute_batch_norm, make_batch_norm, draw_norm, .slack = 4,
         .gradient = 2),
    CASE(BATCH_NORM_GRAD, compute_batch_norm_grad, make_batch_norm_grad,
         draw_norm_grad, .slack = 8, .gradient = 1),
    CASE(BATCH_NORM_INFERENCE, compute_batch_norm_inference, make_inference,
         draw_inference, .slack = 4, .gradient = 2),
    CASE(LAYER_NORM, compute_row_norm, make_layer_norm, draw_norm, .slack = 4,
         .gradient = 2),
    CASE(LAYER_NORM_GRAD, compute_row_norm_grad, make_layer_norm_grad,
         draw_norm_grad, .slack = 8, .gradient = 1),
    CASE(RMS_NORM, compute_row_norm, make_rms_norm, draw_norm, .slack = 4,
         .gradient = 2),
    CASE(RMS_NORM_GRAD, compute_row_norm_grad, make_rms_norm_grad,
         draw_norm_grad, .slack = 8, .gradient = 1),
    CASE(ATTENTION, compute_attention, make_attention, draw_attention,
         .slack = 4, .gradient = 2),
    CASE(ATTENTION_GRAD, compute_attention_grad, make_attention_grad,
         draw_attention, .slack = 8, .gradient = 1),
    {0},
};
