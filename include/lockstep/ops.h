// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Op makers: plain calls on tensors. Each adds its ops to the thread's current
// graph and returns the result. A failure returns a failed tensor, which later
// calls pass on, and is reported once: by the function call, session run or
// eager value that needs a result, with the user's source line.
//
// Elementwise ops broadcast like NumPy: shapes are aligned at the last
// dimension; a size of 1 repeats.
//
// The CPU engine takes subnormal floats for 0 where it computes or compares,
// also in a maximum; ops that move elements, sort or take the largest keep
// them.
//
// Threads: a maker adds to the current graph of the thread that calls it.
#ifndef LOCKSTEP_OPS_H_
#define LOCKSTEP_OPS_H_

#include "lockstep/graph.h"

#ifdef __cplusplus
#include <initializer_list>

extern "C" {
#endif

// ---- Sources ---------------------------------------------------------------
// A constant with the array's data. Up to 64 bytes are copied, else the array
// is retained and must not change.
LS_PLACED ls_tensor ls_constant(ls_array *array);
// Scalars and short vectors, converted to `dtype`.
LS_PLACED ls_tensor ls_scalar(ls_dtype dtype, double value);
LS_PLACED ls_tensor ls_scalar_i64(ls_dtype dtype, int64_t value);
// Returns `value`, repeated to `shape`.
LS_PLACED ls_tensor ls_fill(ls_dtype dtype, ls_shape shape, double value);
// A value that each session run feeds. Dimensions may be unknown.
LS_PLACED ls_tensor ls_placeholder(ls_dtype dtype, ls_shape shape,
                                   const char *name);
// 0, 1, 2, ... along `axis` of `shape`.
LS_PLACED ls_tensor ls_iota(ls_dtype dtype, ls_shape shape, int axis);
// The same, with the shape of `like`, whose sizes may be unknown, as they are
// while a step is traced for replicas whose parts of a batch differ.
LS_PLACED ls_tensor ls_iota_like(ls_dtype dtype, ls_tensor like, int axis);

// Options of random ops. Random numbers are a function of (seed; stream, step,
// iteration; replica; element) alone, where stream counts the random ops of a
// function or build graph. Step is the number of a function's calls; in a
// session the graph's global step or the number of runs (session.h); in eager
// the number of random ops. A loop made by ls_step_while adds one per iteration
// to the step; in other loops the iteration is counted separately. Zero in a
// field means its default.
typedef struct ls_random_options {
  int64_t seed;               // Default 0. Combined with ls_graph_set_seed.
  ls_opt stream;              // Default: the op's number in its function.
  bool fixed;                 // Ignores the step: the same numbers each time.
  bool same_on_all_replicas;  // Default: each replica draws its own.
  // For floats: an integer for each slice along dimension 0, its example's
  // number, which replaces the replica in what numbers depend on. So they
  // depend neither on how examples were sharded over replicas nor on their
  // order.
  ls_tensor example_ids;  // [rows]. Default (zeroed): none.
} ls_random_options;
// Floats in [low, high), in which a number of the type must lie; if low = high,
// that one. `options` may be NULL.
LS_PLACED ls_tensor ls_random_uniform(ls_dtype dtype, ls_shape shape,
                                      double low, double high,
                                      const ls_random_options *options);
LS_PLACED ls_tensor ls_random_normal(ls_dtype dtype, ls_shape shape,
                                     double mean, double deviation,
                                     const ls_random_options *options);
// The same, with the shape of `like`, as in ls_iota_like.
LS_PLACED ls_tensor ls_random_uniform_like(ls_dtype dtype, ls_tensor like,
                                           double low, double high,
                                           const ls_random_options *options);
LS_PLACED ls_tensor ls_random_normal_like(ls_dtype dtype, ls_tensor like,
                                          double mean, double deviation,
                                          const ls_random_options *options);

// ---- Structure -------------------------------------------------------------
LS_PLACED ls_tensor ls_identity(ls_tensor x);
// Returns x under a name within the current scope.
LS_PLACED ls_tensor ls_identity_named(ls_tensor x, const char *name);
// Returns x; no gradient passes.
LS_PLACED ls_tensor ls_stop_gradient(ls_tensor x);
// Makes an op that runs after all of `ops`.
LS_PLACED ls_op ls_group(const ls_op *ops, size_t count, const char *name);
// Returns the size of dimension `axis` (negative: from the end) as an i64
// scalar.
LS_PLACED ls_tensor ls_dim_size(ls_tensor x, int axis);

// ---- Elementwise -----------------------------------------------------------
LS_PLACED ls_tensor ls_neg(ls_tensor x);
LS_PLACED ls_tensor ls_abs(ls_tensor x);
LS_PLACED ls_tensor ls_sign(ls_tensor x);
LS_PLACED ls_tensor ls_exp(ls_tensor x);
LS_PLACED ls_tensor ls_log(ls_tensor x);
LS_PLACED ls_tensor ls_sqrt(ls_tensor x);
LS_PLACED ls_tensor ls_rsqrt(ls_tensor x);
LS_PLACED ls_tensor ls_square(ls_tensor x);
LS_PLACED ls_tensor ls_tanh(ls_tensor x);
LS_PLACED ls_tensor ls_sigmoid(ls_tensor x);
LS_PLACED ls_tensor ls_erf(ls_tensor x);
LS_PLACED ls_tensor ls_relu(ls_tensor x);
LS_PLACED ls_tensor ls_not(ls_tensor x);
// Converts numbers to another type; floats to integers round towards zero and
// saturate.
LS_PLACED ls_tensor ls_convert(ls_tensor x, ls_dtype dtype);

LS_PLACED ls_tensor ls_add(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_sub(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_mul(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_div(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_maximum(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_minimum(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_pow(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_and(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_or(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_equal(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_not_equal(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_less(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_less_equal(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_greater(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_greater_equal(ls_tensor x, ls_tensor y);
// Returns y where `condition` is true, else z.
LS_PLACED ls_tensor ls_select(ls_tensor condition, ls_tensor y, ls_tensor z);
// x where y > 0, else 0: the gradient of relu.
LS_PLACED ls_tensor ls_relu_grad(ls_tensor x, ls_tensor y);
// x op value, the value converted to x's type.
LS_PLACED ls_tensor ls_add_scalar(ls_tensor x, double value);
LS_PLACED ls_tensor ls_mul_scalar(ls_tensor x, double value);

// ---- Shape -----------------------------------------------------------------
// One dimension of `shape` may be -1: it is inferred.
LS_PLACED ls_tensor ls_reshape(ls_tensor x, ls_shape shape);
LS_PLACED ls_tensor ls_reshape_like(ls_tensor x, ls_tensor like);
LS_PLACED ls_tensor ls_broadcast(ls_tensor x, ls_shape shape);
LS_PLACED ls_tensor ls_broadcast_like(ls_tensor x, ls_tensor like);
// Sums x down to the shape of `like`, which broadcasts to x's.
LS_PLACED ls_tensor ls_sum_to_like(ls_tensor x, ls_tensor like);
// Dimension i of the result is dimension permutation[i] of x. NULL: reversed.
LS_PLACED ls_tensor ls_transpose(ls_tensor x, const int *permutation);

// Axes for reductions: LS_AXES(0, 1), or all. Negative ones count from the end.
// In C++ the list of LS_AXES lives as long as the expression that contains it.
typedef struct ls_axes {
  const int *items;
  size_t count;
  bool all;
} ls_axes;
#ifdef __cplusplus
inline ls_axes ls_axes_of(std::initializer_list<int> axes) {
  return ls_axes{axes.begin(), axes.size(), false};
}
#define LS_ALL_AXES (ls_axes{nullptr, 0, true})
#define LS_AXES(...) ls_axes_of({__VA_ARGS__})
#else
#define LS_ALL_AXES ((ls_axes){.all = true})
#define LS_AXES(...)                                                           \
  ((ls_axes){.items = (const int[]){__VA_ARGS__},                              \
             .count = sizeof((const int[]){__VA_ARGS__}) / sizeof(int)})
#endif
LS_PLACED ls_tensor ls_reduce_sum(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_mean(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_max(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_min(ls_tensor x, ls_axes axes);
// Reductions that keep reduced dimensions with size 1.
LS_PLACED ls_tensor ls_reduce_sum_keep(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_max_keep(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_argmax(ls_tensor x, int axis);
// Returns the sum of equal shapes along the canonical binary tree. One item:
// itself.
LS_PLACED ls_tensor ls_add_n(const ls_tensor *items, size_t count);

// ---- Products --------------------------------------------------------------
// Matrix products over equal leading dimensions; y may also be one matrix.
LS_PLACED ls_tensor ls_matmul(ls_tensor x, ls_tensor y);
// Returns op(x) op(y), where op transposes the last two dimensions if
// requested. A transposed x of more than 2 dimensions takes no single matrix.
LS_PLACED ls_tensor ls_matmul_transposed(ls_tensor x, bool transpose_x,
                                         ls_tensor y, bool transpose_y);
// Activations of ls_dense; others are ops of its result, such as ls_gelu.
typedef enum ls_activation {
  LS_ACTIVATION_NONE,
  LS_ACTIVATION_RELU,
} ls_activation;
// Returns activation(x w + bias) as one fused op. x is [..., in], w [in, out];
// bias is [out], or a failed (zeroed) tensor for none.
LS_PLACED ls_tensor ls_dense(ls_tensor x, ls_tensor w, ls_tensor bias,
                             ls_activation activation);
LS_PLACED ls_tensor ls_softmax(ls_tensor x);      // Along the last axis.
LS_PLACED ls_tensor ls_log_softmax(ls_tensor x);  // Along the last axis.
// Returns -log_softmax(logits)[label], one per row. Labels are integers, from 0
// to the number of classes - 1: a run with another label fails with
// INVALID_ARGUMENT, naming it.
LS_PLACED ls_tensor ls_softmax_cross_entropy(ls_tensor logits,
                                             ls_tensor labels);
// Returns -sum(log_softmax(logits) probabilities) of each row, for labels that
// are a distribution, of the logits' type and shape.
LS_PLACED ls_tensor ls_softmax_cross_entropy_soft(ls_tensor logits,
                                                  ls_tensor probabilities);
LS_PLACED ls_tensor ls_softmax_cross_entropy_grad(ls_tensor logits,
                                                  ls_tensor labels,
                                                  ls_tensor row_gradients);
LS_PLACED ls_tensor ls_one_hot(ls_tensor indices, int64_t depth,
                               ls_dtype dtype);

// ---- Parts, joins, lookups, scans, orders ----------------------------------
// Returns every strides-th element from starts to limits along each axis;
// shapes serve as lists of numbers. A limit of -1 is the end, strides LS_SCALAR
// all 1.
LS_PLACED ls_tensor ls_slice(ls_tensor x, ls_shape starts, ls_shape limits,
                             ls_shape strides);
// Returns x from start to limit (-1: to the end) along one axis.
LS_PLACED ls_tensor ls_slice_axis(ls_tensor x, int axis, int64_t start,
                                  int64_t limit);
// Returns the part of these sizes from `starts`: one integer scalar for each
// axis, clamped so that the part lies inside x.
LS_PLACED ls_tensor ls_dynamic_slice(ls_tensor x, const ls_tensor *starts,
                                     ls_shape sizes);
// Returns a part as large as `like`.
LS_PLACED ls_tensor ls_dynamic_slice_like(ls_tensor x, const ls_tensor *starts,
                                          ls_tensor like);
// Returns x with `update` in place of the part that ls_dynamic_slice_like would
// return.
LS_PLACED ls_tensor ls_dynamic_update_slice(ls_tensor x, ls_tensor update,
                                            const ls_tensor *starts);
// Pads x with `value`, a scalar: `low` times before, `high` times after and
// `interior` times between the elements along each axis. Negative low and high
// crop, after the interior padding. LS_SCALAR for a list: all 0.
LS_PLACED ls_tensor ls_pad(ls_tensor x, ls_tensor value, ls_shape low,
                           ls_shape high, ls_shape interior);
// Concatenates the items along an axis. One item: itself.
LS_PLACED ls_tensor ls_concatenate(const ls_tensor *items, size_t count,
                                   int axis);
// Cuts x along an axis into `count` pieces, piece i as long as likes[i]. Output
// i is piece i.
LS_PLACED ls_op ls_split_like(ls_tensor x, const ls_tensor *likes, size_t count,
                              int axis);
LS_PLACED ls_tensor ls_reverse(ls_tensor x, ls_axes axes);

// Returns the slices of x at the indices along `axis`: x's shape with the axis
// replaced by the dimensions of the indices. Indices out of range are clamped:
// below 0 is the first slice, beyond the end the last.
LS_PLACED ls_tensor ls_gather(ls_tensor x, ls_tensor indices, int axis);
typedef enum ls_scatter_op {
  LS_SCATTER_UPDATE,  // x = update
  LS_SCATTER_ADD,     // x = x + update
  LS_SCATTER_SUB,
  LS_SCATTER_MUL,
  LS_SCATTER_DIV,
  LS_SCATTER_MIN,
  LS_SCATTER_MAX,
} ls_scatter_op;
// Returns x, with its slices at the indices along axis 0 combined with the
// updates, which are shaped as ls_gather's result. Updates are applied one by
// one in the order of the indices, each result rounded to x's type; so of equal
// indices the last one wins an update. Indices out of range are skipped. The
// gradient of mul, div, min and max is refused.
LS_PLACED ls_tensor ls_scatter(ls_scatter_op op, ls_tensor x, ls_tensor indices,
                               ls_tensor updates);
// The same along any axis.
LS_PLACED ls_tensor ls_scatter_axis(ls_scatter_op op, ls_tensor x,
                                    ls_tensor indices, ls_tensor updates,
                                    int axis);
// Makes sparse slices: zeros as large as `like`, to whose slices at the indices
// along axis 0 the values are added one by one in the order of the indices, as
// ls_scatter does; 16-bit floats are added in f32 and rounded once. The
// gradient of a gather along axis 0 has this form: a tensor as any other, but
// its dense value is computed only if it is used.
LS_PLACED ls_tensor ls_indexed_slices(ls_tensor indices, ls_tensor values,
                                      ls_tensor like);
// Returns true if this value of a function or build graph was made by
// ls_indexed_slices, with its indices and values; otherwise these are failed
// tensors. In eager, slices are dense.
LS_API bool ls_tensor_is_slices(ls_tensor tensor, ls_tensor *out_indices,
                                ls_tensor *out_values);
// Takes elements along an axis: result[.., i, ..] = x[.., indices[.., i, ..],
// ..]. Shapes are equal except along the axis. Indices out of range are
// clamped.
LS_PLACED ls_tensor ls_take_along(ls_tensor x, ls_tensor indices, int axis);
// Returns x with updates[.., i, ..] added at [.., indices[.., i, ..], ..], in
// order of i; indices out of range are skipped.
LS_PLACED ls_tensor ls_add_along(ls_tensor x, ls_tensor indices,
                                 ls_tensor updates, int axis);

// Return sums and products of the elements up to each one along an axis,
// inclusive unless `exclusive`; `reverse`: from the end. Accumulated one after
// another, 16-bit floats in f32, each result rounded once.
LS_PLACED ls_tensor ls_cumsum(ls_tensor x, int axis, bool exclusive,
                              bool reverse);
LS_PLACED ls_tensor ls_cumprod(ls_tensor x, int axis, bool exclusive,
                               bool reverse);
// h[i] = a[i] h[i - 1] + b[i] along an axis, from 0; `reverse`: from the end.
LS_PLACED ls_tensor ls_linear_scan(ls_tensor a, ls_tensor b, int axis,
                                   bool reverse);

// Sorts along an axis, smallest first or largest first. Equal elements keep
// their order; NaN is larger than any number.
LS_PLACED ls_tensor ls_sort(ls_tensor x, int axis, bool descending);
// Returns the positions of the sorted elements in x, i64.
LS_PLACED ls_tensor ls_argsort(ls_tensor x, int axis, bool descending);
// Sorts all items in the order of the first. Output i is items[i], sorted;
// output `count` the original positions, i64.
LS_PLACED ls_op ls_sort_by(const ls_tensor *items, size_t count, int axis,
                           bool descending);
// Finds the k largest along the last axis, largest first, equal ones by index:
// output 0 has the values, output 1 their indices, i32.
LS_PLACED ls_op ls_top_k(ls_tensor x, int64_t k);
// Returns the index of the first minimum along an axis, i64; of the first NaN,
// if there is one.
LS_PLACED ls_tensor ls_argmin(ls_tensor x, int axis);
// min(max(x, low), high); each bound is a scalar or as large as x. Where x lies
// on a bound the gradient passes.
LS_PLACED ls_tensor ls_clamp(ls_tensor low, ls_tensor x, ls_tensor high);

// ---- Mathematics -----------------------------------------------------------
LS_PLACED ls_tensor ls_expm1(ls_tensor x);  // e^x - 1, exact near 0.
LS_PLACED ls_tensor ls_log1p(ls_tensor x);  // log(1 + x), exact near 0.
LS_PLACED ls_tensor ls_ceil(ls_tensor x);
LS_PLACED ls_tensor ls_floor(ls_tensor x);
// Round to the nearest integer; ties go to the even one, or away from zero.
LS_PLACED ls_tensor ls_round(ls_tensor x);
LS_PLACED ls_tensor ls_round_away(ls_tensor x);
LS_PLACED ls_tensor ls_cos(ls_tensor x);
LS_PLACED ls_tensor ls_sin(ls_tensor x);
LS_PLACED ls_tensor ls_tan(ls_tensor x);
LS_PLACED ls_tensor ls_cbrt(ls_tensor x);
LS_PLACED ls_tensor ls_erfc(ls_tensor x);
// Returns bools: true if neither infinite nor NaN.
LS_PLACED ls_tensor ls_is_finite(ls_tensor x);
// Returns the angle of the point (x, y), in [-pi, pi].
LS_PLACED ls_tensor ls_atan2(ls_tensor y, ls_tensor x);
// Returns the remainder of x / y, rounded towards zero: it has x's sign. For
// integers, x if y = 0.
LS_PLACED ls_tensor ls_remainder(ls_tensor x, ls_tensor y);

// Activations. softplus and gelu are ops; the others are composed of ops.
LS_PLACED ls_tensor ls_softplus(ls_tensor x);  // log(1 + e^x)
// Returns the approximation by tanh: x sigmoid(2u) with u = sqrt(2 / pi) (x +
// 0.044715 x^3).
LS_PLACED ls_tensor ls_gelu(ls_tensor x);
// dy gelu'(x): the gradient of gelu.
LS_PLACED ls_tensor ls_gelu_grad(ls_tensor dy, ls_tensor x);
LS_PLACED ls_tensor ls_silu(ls_tensor x);  // x sigmoid(x)
// Returns x where it is positive, else alpha (e^x - 1).
LS_PLACED ls_tensor ls_elu(ls_tensor x, double alpha);
// Returns x where it is positive, else slope x.
LS_PLACED ls_tensor ls_leaky_relu(ls_tensor x, double slope);

// Bitwise ops of integers; ls_not, ls_and, ls_or and ls_xor take bools, too.
// Shifting by the type's width or more, or by a negative number, shifts all
// bits out.
LS_PLACED ls_tensor ls_xor(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_shift_left(ls_tensor x, ls_tensor y);
// Shift in copies of the top bit, whether the type is signed or not; or zeros.
LS_PLACED ls_tensor ls_shift_right_arithmetic(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_shift_right_logical(ls_tensor x, ls_tensor y);
LS_PLACED ls_tensor ls_popcount(ls_tensor x);
LS_PLACED ls_tensor ls_count_leading_zeros(ls_tensor x);
// Reinterprets the bits as a number type of the same size.
LS_PLACED ls_tensor ls_bitcast(ls_tensor x, ls_dtype dtype);

LS_PLACED ls_tensor ls_reduce_product(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_product_keep(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_and(ls_tensor x, ls_axes axes);  // For bools.
LS_PLACED ls_tensor ls_reduce_or(ls_tensor x, ls_axes axes);   // For bools.

// Returns normal numbers, where those beyond two deviations are drawn again. An
// element still depends only on what random numbers depend on: its next attempt
// is the same element of the next set of blocks, whatever its neighbours need.
// 16-bit floats are rounded afterwards.
LS_PLACED ls_tensor
ls_random_truncated_normal(ls_dtype dtype, ls_shape shape, double mean,
                           double deviation, const ls_random_options *options);
// Returns integers of random bits: u32 or u64.
LS_PLACED ls_tensor ls_random_unsigned(ls_dtype dtype, ls_shape shape,
                                       const ls_random_options *options);
// Returns 0 to count - 1 in random order, as i32 or i64: sorted by random
// numbers of 64 bits, equal ones by index.
LS_PLACED ls_tensor ls_random_permutation(ls_dtype dtype, int64_t count,
                                          const ls_random_options *options);

// ---- Convolutions and windows ----------------------------------------------
// Values are [batch, spatial..., channels] with 1 to 3 spatial dimensions.
// Lists of numbers, one for each spatial dimension, are shapes: LS_SHAPE(2, 2).

typedef enum ls_padding {
  LS_PADDING_VALID,  // Pads by `low` and `high` only: every window is full.
  // Gives as many results as the input has strides; of the padding needed,
  // half goes before, the rest after.
  LS_PADDING_SAME,
} ls_padding;

// Positions of a convolution's windows. Zero in a field means its default.
// Output o combines element k of the weights with position o stride + k
// dilation - low of the input, between whose elements are input_dilation - 1
// zeros. Products by these are left out, and those by padding in groups of one
// input and one output channel: there a weight that is not finite adds nothing.
typedef struct ls_convolution_options {
  ls_shape strides;          // Default: all 1.
  ls_shape dilations;        // Dilations of the weights. Default: all 1.
  ls_shape input_dilations;  // Default: all 1.
  ls_padding padding;        // Default: LS_PADDING_VALID.
  // Zeros around the input. Default: none. Must not be negative, nor used with
  // LS_PADDING_SAME.
  ls_shape low, high;
  int64_t groups;  // Default 1. The channels of each group make its
                   // share of the output channels.
} ls_convolution_options;
// Convolves x by weights w, [spatial..., channels / groups, output channels].
// `options` may be NULL: all defaults. A window larger than the padded input is
// refused.
LS_PLACED ls_tensor ls_convolution(ls_tensor x, ls_tensor w,
                                   const ls_convolution_options *options);
// Returns activation(convolution + bias) as one fused op. The bias is [output
// channels].
LS_PLACED ls_tensor ls_conv_bias_act(ls_tensor x, ls_tensor w, ls_tensor bias,
                                     ls_activation activation,
                                     const ls_convolution_options *options);
// Returns the gradient for the input of a convolution by w, whose result has
// gradient dy; it is as large as `x_like`. Also called transposed convolution.
LS_PLACED ls_tensor ls_conv_grad_input(ls_tensor dy, ls_tensor w,
                                       ls_tensor x_like,
                                       const ls_convolution_options *options);
// Returns the gradient for the weights, as large as `w_like`, of a convolution
// of x.
LS_PLACED ls_tensor ls_conv_grad_weights(ls_tensor x, ls_tensor dy,
                                         ls_tensor w_like,
                                         const ls_convolution_options *options);

typedef enum ls_window_op {
  LS_WINDOW_SUM,
  LS_WINDOW_MAX,   // NaN if one element is; -infinity for padding alone.
  LS_WINDOW_MEAN,  // For floats; NaN for padding alone.
} ls_window_op;
// Positions of windows. Zero in a field means its default.
typedef struct ls_window_options {
  ls_shape strides;    // Default: the window's sizes, so that they tile x.
  ls_shape dilations;  // Default: all 1.
  ls_padding padding;  // Default: LS_PADDING_VALID. Padding is ignored...
  ls_shape low, high;
  bool count_padding;  // ... except as zeros in a mean, if this is set.
} ls_window_options;
// Returns the sum, maximum or mean of each window of these sizes. The gradient
// of a maximum goes to the first one in row order. `options` may be NULL.
LS_PLACED ls_tensor ls_reduce_window(ls_window_op op, ls_tensor x,
                                     ls_shape window,
                                     const ls_window_options *options);
LS_PLACED ls_tensor ls_max_pool(ls_tensor x, ls_shape window,
                                const ls_window_options *options);
LS_PLACED ls_tensor ls_avg_pool(ls_tensor x, ls_shape window,
                                const ls_window_options *options);

// ---- Normalization ---------------------------------------------------------
// In all of these, values per channel or column (scale, offset, mean, variance)
// are of x's type, but f32 for x of 16-bit floats. r is x minus its mean,
// divided by sqrt(variance + epsilon).
//
// Normalizes by channel, the last dimension. Output 0 is activation(r scale +
// offset), output 1 the mean and output 2 the biased variance of each channel
// of x. The activation is none or relu.
LS_PLACED ls_op ls_batch_norm(ls_tensor x, ls_tensor scale, ls_tensor offset,
                              double epsilon, ls_activation activation);
// Normalizes with a given mean and variance.
LS_PLACED ls_tensor ls_batch_norm_inference(ls_tensor x, ls_tensor scale,
                                            ls_tensor offset, ls_tensor mean,
                                            ls_tensor variance, double epsilon,
                                            ls_activation activation);
// Returns the gradients of ls_batch_norm's x, scale and offset for a gradient
// dy of its output 0. mean and variance are its outputs 1 and 2.
LS_PLACED ls_op ls_batch_norm_grad(ls_tensor dy, ls_tensor x, ls_tensor scale,
                                   ls_tensor offset, ls_tensor mean,
                                   ls_tensor variance, double epsilon,
                                   ls_activation activation);
// Returns r scale + offset, normalizing each row along the last axis.
LS_PLACED ls_tensor ls_layer_norm(ls_tensor x, ls_tensor scale,
                                  ls_tensor offset, double epsilon);
// Returns the gradients of x, scale and offset.
LS_PLACED ls_op ls_layer_norm_grad(ls_tensor dy, ls_tensor x, ls_tensor scale,
                                   double epsilon);
// Returns x scale / sqrt(mean(x^2) + epsilon), for each row along the last
// axis.
LS_PLACED ls_tensor ls_rms_norm(ls_tensor x, ls_tensor scale, double epsilon);
// Returns the gradients of x and scale.
LS_PLACED ls_op ls_rms_norm_grad(ls_tensor dy, ls_tensor x, ls_tensor scale,
                                 double epsilon);
// Returns r scale + offset of x [n, ..., channels], where mean and variance are
// those of all positions of one example and of one of `groups` groups of
// adjacent channels. Groups of one channel: instance norm.
LS_PLACED ls_tensor ls_group_norm(ls_tensor x, ls_tensor scale,
                                  ls_tensor offset, int64_t groups,
                                  double epsilon);

// ---- Attention -------------------------------------------------------------
// Zero in a field means its default.
typedef struct ls_attention_options {
  int64_t num_heads;  // Default 1.
  bool causal;        // Token i attends to tokens 0 to i.
  double scale;  // Factor of the scores. Default: 1 / sqrt(depth of a head).
} ls_attention_options;
// Returns softmax(scale q k') v for each head. q is [batch, tokens, heads *
// depth]; k and v may have other tokens, v another depth. Unseen tokens count 0
// times: in f64 and with LS_MATH_BF16, infinities and NaN of theirs can make
// NaN. `options` may be NULL.
LS_PLACED ls_tensor ls_attention(ls_tensor q, ls_tensor k, ls_tensor v,
                                 const ls_attention_options *options);
// Attention of q, k and v side by side: [batch, tokens, 3 * heads * depth], as
// one dense layer returns them. Nothing is copied.
LS_PLACED ls_tensor ls_attention_packed(ls_tensor qkv,
                                        const ls_attention_options *options);
// Returns the gradients of q, k and v for a gradient of the result; or of qkv,
// with k and v failed (zeroed) tensors.
LS_PLACED ls_op ls_attention_grad(ls_tensor gradient, ls_tensor q, ls_tensor k,
                                  ls_tensor v,
                                  const ls_attention_options *options);

#ifdef __cplusplus
}
#endif
#include "lockstep/flow.h"

#endif  // LOCKSTEP_OPS_H_
