// SPDX-License-Identifier: Apache-2.0
//
// The reference: normalizations and attention.
#include <math.h>

#include "support/expect.h"
#include "support/reference_ops.h"

static int64_t last_of(const ref_tensor *x) {
  return x->type.shape.dim[x->type.shape.rank - 1];
}

static void add(ref_number *to, double x) {
  to->real += x;
  to->terms += fabs(x);
}

// ---- By channel ------------------------------------------------------------
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

void ref_batch_norm(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
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

void ref_batch_norm_inference(const ref_op *op, const ref_tensor *in,
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
void ref_batch_norm_grad(const ref_op *op, const ref_tensor *in,
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

// ---- By row ----------------------------------------------------------------
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

void ref_row_norm(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
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
void ref_row_norm_grad(const ref_op *op, const ref_tensor *in,
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

void ref_attention(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
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

void ref_attention_grad(const ref_op *op, const ref_tensor *in,
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
