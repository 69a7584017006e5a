// SPDX-License-Identifier: Apache-2.0
//
// Emits random numbers with the bits of the CPU engine (engine/cpu/kernels/
// random): Philox in integers, and normals by the arithmetic of
// base/values/box_muller.h.
//
// Values have a row of blocks for each key: [rows, blocks] words. A compiler
// may fuse a product and a sum into one rounding, which has other bits: a
// product that is added to passes through an xor with a number that is 0, but
// not by what a compiler knows.
#include <math.h>

#include "base/values/box_muller.h"
#include "base/values/random.h"
#include "emit/emit.h"

typedef struct words {
  ls_emitted word[4];
} words;

// Geometry and key of an op's draws.
typedef struct drawing {
  ls_dtype dtype;  // Type of the arithmetic: f32, f64, u32 or u64.
  ls_emitted key[2], id;
  int64_t rows, blocks;
  ls_emitted zero;  // See the head of this file; of the dtype's size.
} drawing;

static ls_emitted shift_right(ls_emitter *e, ls_emitted x, uint64_t bits) {
  return ls_emit_2(e, LS_OP_SHIFT_RIGHT_LOGICAL, x,
                   ls_emit_integer(e, ls_dtype_at(e, x), bits));
}

static ls_emitted low_word(ls_emitter *e, ls_emitted x) {
  return ls_emit_convert(e, x, LS_DTYPE_U32);
}

static ls_emitted high_word(ls_emitter *e, ls_emitted x) {
  return low_word(e, shift_right(e, x, 32));
}

static ls_emitted join_words(ls_emitter *e, ls_emitted high, ls_emitted low) {
  const ls_emitted upper =
      ls_emit_2(e, LS_OP_SHIFT_LEFT, ls_emit_convert(e, high, LS_DTYPE_U64),
                ls_emit_integer(e, LS_DTYPE_U64, 32));
  return ls_emit_2(e, LS_OP_OR, upper, ls_emit_convert(e, low, LS_DTYPE_U64));
}

// ---- Philox ----------------------------------------------------------------
static words philox(ls_emitter *e, words c, const ls_emitted key[2]) {
  ls_emitted k0 = key[0], k1 = key[1];
  const ls_emitted f0 = ls_emit_integer(e, LS_DTYPE_U64, LS_PHILOX_FACTOR_0);
  const ls_emitted f2 = ls_emit_integer(e, LS_DTYPE_U64, LS_PHILOX_FACTOR_2);
  const ls_emitted step0 = ls_emit_integer(e, LS_DTYPE_U32, LS_PHILOX_STEP_0);
  const ls_emitted step1 = ls_emit_integer(e, LS_DTYPE_U32, LS_PHILOX_STEP_1);
  for (int round = 0; round < LS_PHILOX_ROUNDS; ++round) {
    const ls_emitted a =
        ls_emit_mul(e, ls_emit_convert(e, c.word[0], LS_DTYPE_U64), f0);
    const ls_emitted b =
        ls_emit_mul(e, ls_emit_convert(e, c.word[2], LS_DTYPE_U64), f2);
    const ls_emitted x = ls_emit_2(e, LS_OP_XOR, high_word(e, b), c.word[1]);
    const ls_emitted y = ls_emit_2(e, LS_OP_XOR, high_word(e, a), c.word[3]);
    c.word[0] = ls_emit_2(e, LS_OP_XOR, x, k0);
    c.word[1] = low_word(e, b);
    c.word[2] = ls_emit_2(e, LS_OP_XOR, y, k1);
    c.word[3] = low_word(e, a);
    k0 = ls_emit_add(e, k0, step0);
    k1 = ls_emit_add(e, k1, step1);
  }
  return c;
}

static void fold_in(ls_emitter *e, ls_emitted key[2], ls_emitted value,
                    uint64_t place) {
  const words counter = {{low_word(e, value), high_word(e, value),
                          ls_emit_integer(e, LS_DTYPE_U32, place),
                          ls_emit_integer(e, LS_DTYPE_U32, 0x4C6F636BU)}};
  const words out = philox(e, counter, key);
  key[0] = out.word[0];
  key[1] = out.word[1];
}

// Draws the words of all blocks, each [rows, blocks], of an attempt.
static words draw_blocks(ls_emitter *e, const drawing *d, ls_emitted attempt) {
  const ls_batch_dims dims = {
      .rank = 2, .dim = {ls_dim_of(d->rows), ls_dim_of(d->blocks)}};
  ls_emitted block = ls_emit_iota(e, LS_DTYPE_U64, dims, 1);
  if (attempt != 0)
    block = ls_emit_add(e, block,
                        ls_emit_2(e, LS_OP_SHIFT_LEFT, attempt,
                                  ls_emit_integer(e, LS_DTYPE_U64, 48)));
  const words counter = {{low_word(e, block), high_word(e, block),
                          low_word(e, d->id), high_word(e, d->id)}};
  return philox(e, counter, d->key);
}

// Interleaves values of all blocks: [rows, blocks] to [rows, blocks, count].
static ls_emitted interleave(ls_emitter *e, const ls_emitted *in,
                             size_t count) {
  ls_emitted columns[4] = {0};
  for (size_t i = 0; i < count; ++i) {
    ls_batch_dims dims = ls_batch_dims_at(e, in[i]);
    dims.dim[dims.rank++] = ls_dim_of(1);
    columns[i] = ls_emit_reshape(e, in[i], dims);
  }
  return ls_emit_concatenate(e, columns, count,
                             ls_batch_dims_at(e, columns[0]).rank - 1);
}

// ---- Arithmetic ------------------------------------------------------------
// Emits a product that no sum is fused with.
static ls_emitted rounded_product(ls_emitter *e, const drawing *d, ls_emitted x,
                                  ls_emitted y) {
  const ls_emitted product = ls_emit_mul(e, x, y);
  const ls_dtype bits = ls_dtype_at(e, d->zero);
  return ls_emit_bitcast(
      e, ls_emit_2(e, LS_OP_XOR, ls_emit_bitcast(e, product, bits), d->zero),
      d->dtype);
}

// Computes c[0] + c[1] z + ... by Horner's rule.
static ls_emitted series(ls_emitter *e, const drawing *d, ls_emitted z,
                         const double *c, size_t count) {
  ls_emitted sum = ls_emit_number(e, z, c[count - 1]);
  for (size_t i = count - 1; i-- > 0;)
    sum = ls_emit_add(e, rounded_product(e, d, sum, z),
                      ls_emit_number(e, z, c[i]));
  return sum;
}

static ls_emitted scaled(ls_emitter *e, ls_emitted x, double factor) {
  return ls_emit_mul(e, x, ls_emit_number(e, x, factor));
}

// Returns numbers uniform in [0, 1), from words or from pairs of words.
static ls_emitted uniform_f32(ls_emitter *e, ls_emitted word) {
  return scaled(e, ls_emit_convert(e, shift_right(e, word, 8), LS_DTYPE_F32),
                0x1p-24);
}
static ls_emitted uniform_f64(ls_emitter *e, ls_emitted high, ls_emitted low) {
  const ls_emitted bits = shift_right(e, join_words(e, high, low), 11);
  return scaled(e, ls_emit_convert(e, bits, LS_DTYPE_F64), 0x1p-53);
}

// Computes e ln(2) + log((1 + s) / (1 - s)).
static ls_emitted log_of(ls_emitter *e, const drawing *d, ls_emitted s,
                         ls_emitted exponent) {
  static const double odd[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,
                               1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                               1.0 / 19, 1.0 / 21};
  const size_t count = d->dtype == LS_DTYPE_F64 ? 10 : 4;
  const ls_emitted z = ls_emit_mul(e, s, s);
  const ls_emitted sum = series(e, d, z, odd, count);
  const ls_emitted twice = scaled(e, s, 2);
  const ls_emitted rest = rounded_product(e, d, twice, ls_emit_mul(e, z, sum));
  const double log_2 = d->dtype == LS_DTYPE_F64
                           ? 0.693147180559945309417232121458
                           : (double)0.693147181F;
  const ls_emitted whole =
      rounded_product(e, d, exponent, ls_emit_number(e, s, log_2));
  return ls_emit_add(e, whole, ls_emit_add(e, twice, rest));
}

// Splits u into a mantissa between sqrt(1/2) and sqrt(2) and an exponent, whose
// bits begin at `low`.
static ls_emitted split(ls_emitter *e, ls_emitted u, ls_dtype integers,
                        uint64_t low, uint64_t cut, uint64_t bias,
                        ls_emitted *out_exponent) {
  const ls_emitted bits = ls_emit_bitcast(e, u, integers);
  const ls_emitted exponent = shift_right(
      e,
      ls_emit_sub(e, bits, ls_emit_integer(e, integers, cut - (bias << low))),
      low);
  *out_exponent = ls_emit_sub(e, exponent, ls_emit_integer(e, integers, bias));
  const ls_emitted moved = ls_emit_2(e, LS_OP_SHIFT_LEFT, *out_exponent,
                                     ls_emit_integer(e, integers, low));
  return ls_emit_bitcast(e, ls_emit_sub(e, bits, moved), ls_dtype_at(e, u));
}

static ls_emitted signed_number(ls_emitter *e, ls_emitted x, ls_dtype integers,
                                ls_dtype floats) {
  return ls_emit_convert(e, ls_emit_bitcast(e, x, integers), floats);
}

// Computes log((word + 1) / 2^32).
static ls_emitted log_f32(ls_emitter *e, const drawing *d, ls_emitted word) {
  const ls_emitted one = ls_emit_scalar(e, LS_DTYPE_F32, 1);
  const ls_emitted upper =
      ls_emit_2(e, LS_OP_NOT_EQUAL, shift_right(e, word, 31),
                ls_emit_integer(e, LS_DTYPE_U32, 0));
  const ls_emitted number =
      ls_emit_select(e, upper, ls_emit_1(e, LS_OP_NOT, word), word);
  const ls_emitted more =
      ls_emit_select(e, upper, ls_emit_scalar(e, LS_DTYPE_F32, 0), one);
  const ls_emitted least =
      scaled(e,
             ls_emit_add(
                 e, signed_number(e, number, LS_DTYPE_I32, LS_DTYPE_F32), more),
             0x1p-32);
  const ls_emitted u =
      ls_emit_select(e, upper, ls_emit_sub(e, one, least), least);
  ls_emitted exponent = 0;
  const ls_emitted m =
      split(e, u, LS_DTYPE_U32, 23, 0x3F3504F3U, 256, &exponent);
  const ls_emitted is_near =
      ls_emit_2(e, LS_OP_EQUAL, exponent, ls_emit_integer(e, LS_DTYPE_U32, 0));
  const ls_emitted f = ls_emit_select(
      e, is_near, ls_emit_1(e, LS_OP_NEG, least), ls_emit_sub(e, m, one));
  const ls_emitted s =
      ls_emit_2(e, LS_OP_DIV, f, ls_emit_add(e, f, ls_emit_number(e, f, 2)));
  return log_of(e, d, s,
                signed_number(e, exponent, LS_DTYPE_I32, LS_DTYPE_F32));
}

static ls_emitted log_f64(ls_emitter *e, const drawing *d, ls_emitted u) {
  const ls_emitted one = ls_emit_scalar(e, LS_DTYPE_F64, 1);
  ls_emitted exponent = 0;
  const ls_emitted m = split(e, u, LS_DTYPE_U64, 52,
                             UINT64_C(0x3FE6A09E667F3BCD), 2048, &exponent);
  const ls_emitted s =
      ls_emit_2(e, LS_OP_DIV, ls_emit_sub(e, m, one), ls_emit_add(e, m, one));
  return log_of(e, d, s,
                signed_number(e, exponent, LS_DTYPE_I64, LS_DTYPE_F64));
}

// Gives cosine and sine of x radians plus `quarter` quarters of a turn.
static void circle_of(ls_emitter *e, const drawing *d, ls_emitted x,
                      ls_emitted quarter, ls_emitted out[2]) {
  static const double cosine[] = {LS_COSINE_SERIES};
  static const double sine[] = {LS_SINE_SERIES};
  const bool wide = d->dtype == LS_DTYPE_F64;
  const ls_emitted z = ls_emit_mul(e, x, x);
  const ls_emitted c = series(e, d, z, cosine, wide ? 10 : 6);
  const ls_emitted s = ls_emit_mul(e, series(e, d, z, sine, wide ? 9 : 5), x);
  const ls_emitted zero = ls_emit_integer(e, LS_DTYPE_U32, 0);
  const ls_emitted one = ls_emit_integer(e, LS_DTYPE_U32, 1);
  const ls_emitted two = ls_emit_integer(e, LS_DTYPE_U32, 2);
  const ls_emitted is_odd = ls_emit_2(
      e, LS_OP_NOT_EQUAL, ls_emit_2(e, LS_OP_AND, quarter, one), zero);
  for (int i = 0; i < 2; ++i) {
    const ls_emitted at = i == 0 ? ls_emit_add(e, quarter, one) : quarter;
    const ls_emitted is_minus =
        ls_emit_2(e, LS_OP_NOT_EQUAL, ls_emit_2(e, LS_OP_AND, at, two), zero);
    const ls_emitted size =
        ls_emit_select(e, is_odd, i == 0 ? s : c, i == 0 ? c : s);
    out[i] = ls_emit_select(e, is_minus, ls_emit_1(e, LS_OP_NEG, size), size);
  }
}

// Makes normals of the words: [rows, blocks, 4], or 2 of f64.
static ls_emitted normals(ls_emitter *e, const drawing *d, words w) {
  ls_emitted log = 0, x = 0, quarter = 0, pair[2];
  if (d->dtype == LS_DTYPE_F64) {
    const ls_emitted u = uniform_f64(e, w.word[0], w.word[1]);
    log = log_f64(e, d, ls_emit_add(e, u, ls_emit_number(e, u, 0x1p-53)));
    const ls_emitted turn = uniform_f64(e, w.word[2], w.word[3]);
    const ls_emitted four = scaled(e, turn, 4);
    quarter = ls_emit_convert(
        e, ls_emit_add(e, four, ls_emit_number(e, four, 0.5)), LS_DTYPE_U32);
    const ls_emitted nearest =
        scaled(e, ls_emit_convert(e, quarter, LS_DTYPE_F64), 0.25);
    x = scaled(e, ls_emit_sub(e, turn, nearest),
               6.28318530717958647692528676656);
  } else {
    const ls_emitted odd[] = {w.word[1], w.word[3]};
    const ls_emitted even[] = {w.word[0], w.word[2]};
    const ls_emitted turn = interleave(e, odd, 2);
    log = log_f32(e, d, interleave(e, even, 2));
    quarter = shift_right(
        e, ls_emit_add(e, turn, ls_emit_integer(e, LS_DTYPE_U32, 1U << 29)),
        30);
    const ls_emitted rest = ls_emit_2(e, LS_OP_SHIFT_LEFT, turn,
                                      ls_emit_integer(e, LS_DTYPE_U32, 2));
    x = scaled(e, signed_number(e, rest, LS_DTYPE_I32, LS_DTYPE_F32),
               (double)(1.57079633F * 0x1p-32F));
  }
  const ls_emitted radius = ls_emit_1(e, LS_OP_SQRT, scaled(e, log, -2));
  circle_of(e, d, x, quarter, pair);
  for (int i = 0; i < 2; ++i)
    pair[i] = ls_emit_mul(e, radius, pair[i]);
  return interleave(e, pair, 2);
}

// ---- Truncated normals -----------------------------------------------------
static ls_emitted is_outside(ls_emitter *e, ls_emitted x) {
  return ls_emit_2(e, LS_OP_GREATER, ls_emit_1(e, LS_OP_ABS, x),
                   ls_emit_number(e, x, 2));
}

// Draws again, in a loop of up to 64 attempts, what is beyond two deviations.
static ls_emitted truncated(ls_emitter *e, const drawing *d, ls_emitted x) {
  const ls_emit_flow *flow = e->language->flow;
  static const int64_t axes[] = {0, 1, 2, 3};
  ls_emitted initial[] = {x, ls_emit_integer(e, LS_DTYPE_U64, 1)};
  ls_emitted lists[3][2];
  for (int i = 0; i < 6; ++i)
    lists[i / 2][i % 2] =
        ls_emit_value(e, ls_dtype_at(e, initial[i % 2]),
                      ls_batch_dims_at(e, initial[i % 2]), NULL);
  if (!ls_emit_is_ok(e)) return 0;
  ls_emitted *parameters = lists[0], *body = lists[1];
  flow->while_begin(e, (ls_emitted_list){initial, 2},
                    (ls_emitted_list){parameters, 2},
                    (ls_emitted_list){lists[2], 2});
  const ls_emitted any =
      ls_emit_reduce(e, LS_OP_REDUCE_OR, is_outside(e, parameters[0]), axes,
                     (size_t)ls_batch_dims_at(e, x).rank, false);
  const ls_emitted goes_on =
      ls_emit_2(e, LS_OP_AND, any,
                ls_emit_2(e, LS_OP_LESS, parameters[1],
                          ls_emit_integer(e, LS_DTYPE_U64, 64)));
  flow->while_next(e, goes_on, (ls_emitted_list){body, 2});
  const ls_emitted again = normals(e, d, draw_blocks(e, d, body[1]));
  ls_emitted values[] = {
      ls_emit_select(e, is_outside(e, body[0]),
                     ls_emit_reshape(e, again, ls_batch_dims_at(e, x)),
                     body[0]),
      ls_emit_add(e, body[1], ls_emit_integer(e, LS_DTYPE_U64, 1))};
  if (!ls_emit_is_ok(e)) return 0;
  flow->while_end(e, (ls_emitted_list){values, 2},
                  (ls_emitted_list){initial, 2});
  const ls_emitted above =
      ls_emit_2(e, LS_OP_MAXIMUM, lists[2][0], ls_emit_number(e, x, -2));
  return ls_emit_2(e, LS_OP_MINIMUM, above, ls_emit_number(e, x, 2));
}

// ---- Ops -------------------------------------------------------------------
// Reads the op's key (engine/cpu/kernels/random/draw.h) and its geometry:
// `count` numbers in each of so many rows.
static drawing begin(ls_emitter *e, ls_dtype dtype, int64_t rows,
                     int64_t count) {
  const ls_node *node = e->node;
  const int64_t each = ls_dtype_size(dtype) == 8 ? 2 : 4;
  drawing d = {
      .dtype = dtype, .rows = rows, .blocks = (count + each - 1) / each};
  const ls_emitted zero = ls_emit_integer(e, LS_DTYPE_U64, 0);
  const ls_emitted run = ls_emit_mul(
      e, e->seed,
      ls_emit_integer(e, LS_DTYPE_U64, UINT64_C(0x9E3779B97F4A7C15)));
  const ls_emitted seed =
      ls_emit_add(e,
                  ls_emit_integer(e, LS_DTYPE_U64,
                                  (uint64_t)ls_node_int(node, LS_ATTR_ID_SEED)),
                  run);
  const bool fixed = ls_node_int(node, LS_ATTR_ID_FIXED) != 0;
  d.key[0] = low_word(e, seed);
  d.key[1] = high_word(e, seed);
  fold_in(e, d.key,
          ls_emit_integer(e, LS_DTYPE_U64,
                          (uint64_t)ls_node_int(node, LS_ATTR_ID_STREAM)),
          1);
  fold_in(e, d.key, fixed ? zero : e->step, 2);
  fold_in(e, d.key, e->iteration != 0 ? e->iteration : zero, 3);
  d.id = zero;
  if (node->type == LS_OP_RANDOM_BY_EXAMPLE)
    d.id = ls_emit_reshape(
        e, ls_emit_convert(e, ls_operand(e, 0), LS_DTYPE_U64),
        (ls_batch_dims){.rank = 2, .dim = {ls_dim_of(rows), ls_dim_of(1)}});
  else if (ls_node_int(node, LS_ATTR_ID_SAME_ON_ALL_REPLICAS) == 0)
    d.id = ls_emit_add(
        e,
        ls_emit_integer(e, LS_DTYPE_U64,
                        (uint64_t)ls_node_int(node, LS_ATTR_ID_REPLICA)),
        ls_emit_replica(e));
  d.zero = shift_right(e, e->step, 63);
  if (ls_dtype_size(dtype) == 4) d.zero = low_word(e, d.zero);
  return d;
}

// Cuts [rows, blocks, each] to the op's result.
static ls_emitted cut(ls_emitter *e, const drawing *d, ls_emitted x,
                      int64_t count, ls_batch_dims dims) {
  const int64_t each = ls_dtype_size(d->dtype) == 8 ? 2 : 4;
  ls_batch_dims flat = {
      .rank = 2, .dim = {ls_dim_of(d->rows), ls_dim_of(d->blocks * each)}};
  x = ls_emit_reshape(e, x, flat);
  flat.dim[1] = ls_dim_of(count);
  if (count != d->blocks * each) x = ls_emit_slice(e, x, NULL, NULL, flat);
  return ls_emit_reshape(e, x, dims);
}

static ls_emitted draw_bits(ls_emitter *e, const drawing *d) {
  const words w = draw_blocks(e, d, 0);
  if (d->dtype == LS_DTYPE_U32) return interleave(e, w.word, 4);
  const ls_emitted pairs[] = {join_words(e, w.word[0], w.word[1]),
                              join_words(e, w.word[2], w.word[3])};
  return interleave(e, pairs, 2);
}

static ls_emitted draw_uniform(ls_emitter *e, const drawing *d) {
  const words w = draw_blocks(e, d, 0);
  if (d->dtype == LS_DTYPE_F32) return uniform_f32(e, interleave(e, w.word, 4));
  const ls_emitted pairs[] = {uniform_f64(e, w.word[0], w.word[1]),
                              uniform_f64(e, w.word[2], w.word[3])};
  return interleave(e, pairs, 2);
}

// Computes x factor + offset.
static ls_emitted placed(ls_emitter *e, const drawing *d, ls_emitted x,
                         double factor, double offset) {
  x = rounded_product(e, d, x, ls_emit_number(e, x, factor));
  return ls_emit_add(e, x, ls_emit_number(e, x, offset));
}

static ls_emitted draw_floats(ls_emitter *e, const drawing *d, ls_dtype to) {
  const ls_node *node = e->node;
  const ls_attr *given = ls_node_attr(node, LS_ATTR_ID_DISTRIBUTION);
  const char *kind = node->type == LS_OP_RANDOM_UNIFORM  ? "uniform"
                     : node->type == LS_OP_RANDOM_NORMAL ? "normal"
                     : given != NULL                     ? given->as.string
                                                         : "truncated";
  if (strcmp(kind, "uniform") == 0) {
    const double low = ls_node_real(node, LS_ATTR_ID_LOW);
    const double high = ls_node_real(node, LS_ATTR_ID_HIGH);
    const ls_random_range range = ls_random_range_of(to, low, high);
    ls_emitted x = placed(e, d, draw_uniform(e, d), range.factor, range.offset);
    if (range.scale != 1) x = scaled(e, x, range.scale);
    x = ls_emit_2(e, LS_OP_MINIMUM, x, ls_emit_number(e, x, range.most));
    return range.least > low ? ls_emit_2(e, LS_OP_MAXIMUM, x,
                                         ls_emit_number(e, x, range.least))
                             : x;
  }
  ls_emitted x = normals(e, d, draw_blocks(e, d, 0));
  if (strcmp(kind, "normal") != 0) x = truncated(e, d, x);
  return placed(e, d, x, ls_node_real(node, LS_ATTR_ID_DEVIATION),
                ls_node_real(node, LS_ATTR_ID_MEAN));
}

static ls_emitted permute(ls_emitter *e, int64_t count) {
  const drawing d = begin(e, LS_DTYPE_U64, 1, count);
  const ls_batch_dims dims = ls_result_dims(e);
  const ls_emitted in[] = {cut(e, &d, draw_bits(e, &d), count, dims),
                           ls_emit_iota(e, ls_result_dtype(e), dims, 0)};
  ls_emitted sorted[2];
  ls_emit_sort(e, in, 2, 0, false, sorted);
  return sorted[1];
}

static ls_emitted emit_draws(ls_emitter *e) {
  const uint16_t op = e->node->type;
  const ls_dtype to = ls_result_dtype(e);
  const ls_batch_dims dims = ls_result_dims(e);
  int64_t count = 1, rows = 1;
  if (e->seed == 0) ls_emit_refuse(e, "there is no form of this op");
  for (int32_t i = 0; i < dims.rank; ++i)
    count *= ls_emit_size(e, dims.dim[i]);
  if (!ls_emit_is_ok(e)) return 0;
  if (count == 0) return ls_emit_broadcast(e, ls_emit_scalar(e, to, 0), dims);
  if (op == LS_OP_RANDOM_PERMUTATION) return permute(e, count);
  if (op == LS_OP_RANDOM_BY_EXAMPLE) rows = ls_emit_size(e, dims.dim[0]);
  const bool is_half = to == LS_DTYPE_F16 || to == LS_DTYPE_BF16;
  const drawing d = begin(e, is_half ? LS_DTYPE_F32 : to, rows, count / rows);
  const ls_emitted x =
      op == LS_OP_RANDOM_BITS ? draw_bits(e, &d) : draw_floats(e, &d, to);
  return cut(e, &d, x, count / rows, dims);
}

static const ls_emit_rule rules[] = {
    {LS_OP_RANDOM_UNIFORM, emit_draws, true},
    {LS_OP_RANDOM_NORMAL, emit_draws, true},
    {LS_OP_RANDOM_BITS, emit_draws, true},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, emit_draws, false},
    {LS_OP_RANDOM_BY_EXAMPLE, emit_draws, false},
    {LS_OP_RANDOM_PERMUTATION, emit_draws, false}};
const ls_emit_rules ls_emit_random_rules = {rules, LS_COUNT_OF(rules)};
