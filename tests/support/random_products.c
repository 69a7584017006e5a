// SPDX-License-Identifier: Apache-2.0
//
// Random programs: products, shapes, rows, lookups, losses.
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "support/expect.h"
#include "support/random_build.h"

// A value with these two dimensions: one that has them, if there is one, more
// often than not a variable.
static ls_tensor matrix_of(random_build *b, int64_t rows, int64_t columns) {
  const random_values *values = b->values;
  for (size_t i = values->count; i-- > 0;) {
    const ls_tensor x = values->items[i];
    const ls_shape shape = ls_tensor_shape(x);
    if (ls_tensor_dtype(x) == b->program->dtype && shape.rank == 2 &&
        shape.dim[0] == rows && shape.dim[1] == columns && !random_one_in(b, 3))
      return x;
  }
  const int64_t at = random_between(b, 0, RANDOM_VARIABLES - 1);
  const ls_tensor x =
      random_one_in(b, 3) ? random_pick(b) : values->items[RANDOM_ARGS + at];
  return random_fit(x, LS_SHAPE(rows, columns));
}

// ---- Products --------------------------------------------------------------
static ls_tensor scaled(ls_tensor x, int64_t terms) {
  return terms > 8 ? ls_mul_scalar(x, 0.125) : x;
}

static void add_matmul(random_build *b) {
  const ls_tensor x = random_matrix(random_pick(b));
  const bool turn_x = random_one_in(b, 3), turn_y = random_one_in(b, 2);
  const int64_t sum = ls_tensor_shape(x).dim[turn_x ? 0 : 1];
  const int64_t rows = ls_tensor_shape(x).dim[turn_x ? 1 : 0];
  const int64_t columns = random_size(b, rows > sum ? rows : sum);
  const ls_tensor y =
      turn_y ? matrix_of(b, columns, sum) : matrix_of(b, sum, columns);
  ls_tensor product;
  if (random_one_in(b, 4))  // Transposed by an op of its own.
    product = ls_matmul(turn_x ? ls_transpose(x, NULL) : x,
                        turn_y ? ls_transpose(y, NULL) : y);
  else
    product = ls_matmul_transposed(x, turn_x, y, turn_y);
  random_add(b, "matmul", scaled(product, sum));
}

static void add_batched(random_build *b) {
  const int64_t batch = random_between(b, 1, 4), sum = random_size(b, batch);
  const bool turn_x = random_one_in(b, 2), turn_y = random_one_in(b, 2);
  const int64_t rows = random_size(b, batch * sum);
  const int64_t columns = random_size(b, batch * (rows > sum ? rows : sum));
  const ls_tensor x =
      random_fit(random_pick(b), turn_x ? LS_SHAPE(batch, sum, rows)
                                        : LS_SHAPE(batch, rows, sum));
  const ls_shape one = turn_y ? LS_SHAPE(columns, sum) : LS_SHAPE(sum, columns);
  const ls_shape many = LS_SHAPE(batch, one.dim[0], one.dim[1]);
  const ls_tensor y =
      random_fit(random_pick(b), !turn_x && random_one_in(b, 3) ? one : many);
  random_add(b, "batched matmul",
             scaled(ls_matmul_transposed(x, turn_x, y, turn_y), sum));
}

static void add_dense(random_build *b) {
  ls_tensor x = random_pick(b);
  if (ls_tensor_shape(x).rank == 0) x = random_matrix(x);
  const ls_shape shape = ls_tensor_shape(x);
  const int64_t sum = shape.dim[shape.rank - 1];
  const int64_t rows = sum > 0 ? random_count_of(x) / sum : 1;
  const int64_t columns = random_size(b, rows > sum ? rows : sum);
  const ls_tensor none = {0};
  const ls_tensor bias = random_one_in(b, 3)
                             ? none
                             : random_fit(random_pick(b), LS_SHAPE(columns));
  const ls_tensor y =
      ls_dense(x, matrix_of(b, sum, columns), bias,
               random_one_in(b, 2) ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE);
  random_add(b, "dense", scaled(y, sum));
}

static void add_convolution(random_build *b) {
  const int64_t in = random_one_in(b, 3) ? 16 : random_between(b, 1, 5);
  const int64_t out = random_one_in(b, 3) ? 16 : random_between(b, 1, 6);
  const int64_t taps = random_one_in(b, 2) ? 3 : random_between(b, 1, 3);
  const int64_t height = random_between(b, 3, 9),
                width = random_between(b, 3, 9);
  const ls_tensor x = random_fit(
      random_pick(b), LS_SHAPE(random_between(b, 1, 3), height, width, in));
  const ls_tensor w = random_fit(
      b->values
          ->items[RANDOM_ARGS + random_between(b, 0, RANDOM_VARIABLES - 1)],
      LS_SHAPE(taps, taps, in, out));
  ls_convolution_options options = {
      .padding = random_one_in(b, 2) ? LS_PADDING_SAME : LS_PADDING_VALID};
  if (random_one_in(b, 3)) options.strides = LS_SHAPE(2, 2);
  ls_tensor y =
      random_one_in(b, 2)
          ? ls_convolution(x, w, &options)
          : ls_conv_bias_act(x, w, random_fit(random_pick(b), LS_SHAPE(out)),
                             LS_ACTIVATION_RELU, &options);
  y = random_add(b, "convolution", scaled(y, taps * taps * in));
  const ls_shape shape = ls_tensor_shape(y);
  if (shape.dim[1] < 2 || shape.dim[2] < 2 || random_one_in(b, 2)) return;
  if (random_one_in(b, 2))
    random_add(b, "max_pool", ls_max_pool(y, LS_SHAPE(2, 2), NULL));
  else
    random_add(b, "avg_pool", ls_avg_pool(y, LS_SHAPE(2, 2), NULL));
}

static void add_attention(random_build *b) {
  const int64_t heads = random_between(b, 1, 3);
  const int64_t depth = heads * random_between(b, 1, 9);
  const int64_t tokens = random_between(b, 1, 17);
  const ls_attention_options options = {.num_heads = heads,
                                        .causal = random_one_in(b, 2)};
  const ls_tensor qkv = random_fit(
      random_pick(b), LS_SHAPE(random_between(b, 1, 3), tokens, 3 * depth));
  random_add(b, "attention", ls_attention_packed(qkv, &options));
}

void random_add_product(random_build *b) {
  switch (random_between(b, 0, 9)) {
  case 0:
  case 1:
  case 2:
  case 3:
    add_matmul(b);
    break;
  case 4:
    add_batched(b);
    break;
  case 5:
  case 6:
    add_dense(b);
    break;
  case 7:
  case 8:
    add_convolution(b);
    break;
  default:
    add_attention(b);
    break;
  }
}

// ---- Shapes ----------------------------------------------------------------
static ls_tensor transposed(random_build *b, ls_tensor x) {
  const int32_t rank = ls_tensor_shape(x).rank;
  int order[LS_MAX_RANK];
  for (int32_t i = 0; i < rank; ++i) {
    const int64_t at = random_between(b, 0, i);
    order[i] = order[at];
    order[at] = i;
  }
  return ls_transpose(x, order);
}

static ls_tensor reduced(random_build *b, ls_tensor x) {
  const int32_t rank = ls_tensor_shape(x).rank;
  int items[LS_MAX_RANK];
  ls_axes axes = {.items = items};
  for (int32_t i = 0; i < rank; ++i)
    if (random_one_in(b, 2)) items[axes.count++] = i;
  for (size_t i = 0; i < axes.count; ++i)  // None: maxima are -infinity.
    if (ls_tensor_shape(x).dim[items[i]] == 0) return ls_reduce_sum(x, axes);
  switch (random_between(b, 0, 6)) {
  case 0:
    return ls_reduce_max(x, axes);
  case 1:
    return ls_reduce_min(x, axes);
  case 2:
    return ls_reduce_product(ls_tanh(x), axes);
  case 3:
  case 4:
    return ls_reduce_mean(x, axes);
  default:
    return ls_reduce_sum(x, axes);
  }
}

static ls_tensor joined(random_build *b, ls_tensor x) {
  const ls_shape shape = ls_tensor_shape(x);
  if (shape.rank == 0) return ls_reshape(x, LS_SHAPE(1));
  const int axis = (int)random_between(b, 0, shape.rank - 1);
  const ls_tensor y = random_fit(random_pick(b), shape);
  const ls_tensor both = ls_concatenate((const ls_tensor[]){x, y}, 2, axis);
  const int64_t size = shape.dim[axis];
  return ls_slice_axis(both, axis, size / 2, size / 2 + size);
}

static ls_tensor padded(random_build *b, ls_tensor x) {
  const ls_shape shape = ls_tensor_shape(x);
  ls_shape low = {.rank = shape.rank}, high = {.rank = shape.rank};
  for (int32_t i = 0; i < shape.rank; ++i) {
    low.dim[i] = random_between(b, shape.dim[i] > 1 ? -1 : 0, 2);
    high.dim[i] = random_between(b, 0, 1);
  }
  return ls_pad(x, random_scalar(b, 0.5), low, high, LS_SCALAR);
}

static ls_tensor drawn(random_build *b, ls_tensor x) {
  ls_random_options options = b->program->random;
  options.stream = LS_SOME(random_between(b, 0, 1000));
  const ls_shape shape = ls_tensor_shape(x);
  const ls_dtype dtype = b->program->dtype;
  switch (random_between(b, 0, 3)) {
  case 0:
    return ls_dropout(x, 0.4, true, &options);
  case 1:
    return ls_add(x, ls_random_normal(dtype, shape, 0, 0.5, &options));
  case 2:
    return ls_mul(x,
                  ls_random_truncated_normal(dtype, shape, 0.5, 1, &options));
  default:
    return ls_sub(x, ls_random_uniform(dtype, shape, -1, 1, &options));
  }
}

void random_add_shape(random_build *b) {
  const ls_tensor x = random_pick(b);
  switch (random_between(b, 0, 9)) {
  case 0:
  case 1:
    random_add(b, "transpose", transposed(b, x));
    break;
  case 2:
  case 3:
    random_add(b, "reduce", reduced(b, x));
    break;
  case 4:
    random_add(b, "concatenate", joined(b, x));
    break;
  case 5:
    random_add(b, "pad", padded(b, x));
    break;
  case 6:
    random_add(b, "random", drawn(b, x));
    break;
  case 7: {
    static const ls_dtype to[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_F16,
                                  LS_DTYPE_BF16, LS_DTYPE_I32};
    const ls_tensor y = ls_convert(x, to[random_between(b, 0, 4)]);
    random_add(b, "convert", y);
    random_add(b, "convert back", ls_convert(y, b->program->dtype));
    break;
  }
  case 8: {
    const int64_t rows = random_size(b, 1);
    random_add(b, "fit", random_fit(x, LS_SHAPE(rows, random_size(b, rows))));
    break;
  }
  default: {
    const ls_tensor y = random_pick_any(b);
    random_add(b, "convert any", ls_tanh(ls_convert(y, b->program->dtype)));
    break;
  }
  }
}

// ---- Rows ------------------------------------------------------------------
static ls_tensor indices_of(random_build *b, int64_t count, int64_t limit) {
  const ls_tensor any = b->values->items[RANDOM_ARGS - 1];
  const ls_tensor whole =
      ls_convert(random_fit(any, LS_SHAPE(count)), LS_DTYPE_I32);
  return ls_remainder(ls_abs(whole),
                      ls_scalar(LS_DTYPE_I32, (double)(limit > 0 ? limit : 1)));
}

static void add_lookup(random_build *b) {
  const int64_t rows = random_size(b, 1), columns = random_size(b, rows);
  const ls_tensor table = matrix_of(b, rows, columns);
  const int64_t count = random_between(b, 1, 12);
  const ls_tensor at = indices_of(b, count, rows);
  if (random_one_in(b, 2)) {
    random_add(b, "gather", ls_gather(table, at, 0));
    return;
  }
  const ls_tensor updates =
      random_fit(random_pick(b), LS_SHAPE(count, columns));
  random_add(b, "scatter",
             ls_scatter(random_one_in(b, 2) ? LS_SCATTER_ADD : LS_SCATTER_SUB,
                        table, at, updates));
}

static ls_dtype wide(const random_build *b) {
  const ls_dtype dtype = b->program->dtype;
  return dtype == LS_DTYPE_F64 ? dtype : LS_DTYPE_F32;
}

static ls_tensor channels_of(random_build *b, int64_t count) {
  return ls_convert(random_fit(random_pick(b), LS_SHAPE(count)), wide(b));
}

static void add_norm(random_build *b) {
  const ls_tensor x = random_matrix(random_pick(b));
  const int64_t columns = ls_tensor_shape(x).dim[1];
  if (random_count_of(x) == 0) return;
  const ls_tensor scale = channels_of(b, columns);
  const ls_tensor offset = channels_of(b, columns);
  switch (random_between(b, 0, 2)) {
  case 0:
    random_add(b, "layer norm", ls_layer_norm(x, scale, offset, 0.1));
    break;
  case 1:
    random_add(b, "rms norm", ls_rms_norm(x, scale, 0.1));
    break;
  default:
    random_add(
        b, "batch norm",
        ls_op_output(ls_batch_norm(x, scale, offset, 0.1, LS_ACTIVATION_RELU),
                     0));
    break;
  }
}

static void add_loss(random_build *b) {
  const ls_tensor x = random_matrix(random_pick(b));
  const ls_shape shape = ls_tensor_shape(x);
  const int64_t rows = shape.dim[0], classes = shape.dim[1];
  if (rows * classes == 0) return;
  const ls_tensor y = random_fit(random_pick(b), shape);
  const ls_reduction reduction =
      (ls_reduction)random_between(b, LS_REDUCTION_MEAN, LS_REDUCTION_NONE);
  switch (random_between(b, 0, 7)) {
  case 0:
    random_add(
        b, "cross entropy",
        ls_cross_entropy_loss(x, indices_of(b, rows, classes), 0.1, reduction));
    break;
  case 1:
    random_add(b, "cross entropy",
               ls_softmax_cross_entropy(x, indices_of(b, rows, classes)));
    break;
  case 2:
    random_add(b, "soft cross entropy",
               ls_soft_cross_entropy_loss(x, ls_softmax(y), reduction));
    break;
  case 3:
    random_add(
        b, "divergence",
        ls_kl_divergence_loss(ls_log_softmax(x), ls_softmax(y), reduction));
    break;
  case 4:
    random_add(b, "sigmoid cross entropy",
               ls_sigmoid_cross_entropy_loss(x, ls_sigmoid(y), reduction));
    break;
  case 5:
    random_add(b, "squared error", ls_mean_squared_error(x, y, reduction));
    break;
  case 6:
    random_add(b, "huber", ls_huber_loss(x, y, 0.7, reduction));
    break;
  default:
    random_add(b, "absolute error", ls_mean_absolute_error(x, y, reduction));
    break;
  }
}

void random_add_rows(random_build *b) {
  switch (random_between(b, 0, 5)) {
  case 0:
    add_lookup(b);
    break;
  case 1:
    add_norm(b);
    break;
  case 2:
    add_loss(b);
    break;
  case 3: {
    const ls_tensor x = random_pick(b);
    if (ls_tensor_shape(x).rank == 0) break;
    random_add(b, "softmax",
               random_one_in(b, 2) ? ls_softmax(x) : ls_log_softmax(x));
    break;
  }
  case 4: {
    const ls_tensor x = random_matrix(random_pick(b));
    random_add(
        b, "cumsum",
        ls_mul_scalar(ls_cumsum(x, (int)random_between(b, 0, 1),
                                random_one_in(b, 2), random_one_in(b, 2)),
                      0.125));
    break;
  }
  default: {
    const ls_tensor x = random_matrix(random_pick(b));
    random_add(b, "sort",
               ls_sort(x, (int)random_between(b, 0, 1), random_one_in(b, 2)));
    break;
  }
  }
}
