// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Op makers: plain calls on tensors. Each adds its ops to the thread's current
// graph and returns the result. A failure gives a failed tensor, is passed on
// by later calls, and surfaces once: from the function call, session run or
// eager value that wants a result, with the user's source line.
//
// Elementwise ops broadcast like NumPy: shapes are aligned at the last
// dimension; a size of 1 repeats.
#ifndef LOCKSTEP_OPS_H_
#define LOCKSTEP_OPS_H_

#include "lockstep/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Sources ---------------------------------------------------------------
// A constant with the array's data. Up to 64 bytes are copied, else the array
// is retained and must not change.
LS_PLACED ls_tensor ls_constant(ls_array *array);
// Scalars and short vectors, converted to `dtype`.
LS_PLACED ls_tensor ls_scalar(ls_dtype dtype, double value);
LS_PLACED ls_tensor ls_scalar_i64(ls_dtype dtype, int64_t value);
// `value`, repeated to `shape`.
LS_PLACED ls_tensor ls_fill(ls_dtype dtype, ls_shape shape, double value);
// A value that each session run feeds. Dimensions may be unknown.
LS_PLACED ls_tensor ls_placeholder(ls_dtype dtype, ls_shape shape,
                                   const char *name);
// 0, 1, 2, ... along `axis` of `shape`.
LS_PLACED ls_tensor ls_iota(ls_dtype dtype, ls_shape shape, int axis);

// How random numbers are drawn. They are a function of (seed; stream, step,
// iteration; replica; element) alone, where stream counts the random ops of a
// function and step its calls. Zero in a field means its default.
typedef struct ls_random_options {
  int64_t seed;              // Default 0.
  ls_opt stream;             // Default: the op's number in its function.
  bool fixed;                // The step does not count: the same each time.
  bool same_on_all_replicas; // Default: each replica draws its own.
} ls_random_options;
// Floats in [low, high); `options` may be NULL.
LS_PLACED ls_tensor ls_random_uniform(ls_dtype dtype, ls_shape shape,
                                      double low, double high,
                                      const ls_random_options *options);
LS_PLACED ls_tensor ls_random_normal(ls_dtype dtype, ls_shape shape,
                                     double mean, double deviation,
                                     const ls_random_options *options);

// ---- Structure -------------------------------------------------------------
LS_PLACED ls_tensor ls_identity(ls_tensor x);
// As ls_identity, with a name within the current scope.
LS_PLACED ls_tensor ls_identity_named(ls_tensor x, const char *name);
// x; no gradient passes.
LS_PLACED ls_tensor ls_stop_gradient(ls_tensor x);
// One op that runs after all of `ops`.
LS_PLACED ls_op ls_group(const ls_op *ops, size_t count, const char *name);
// The size of dimension `axis` (negative: from the end) as an i64 scalar.
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
// The same numbers in another type; floats to integers round towards zero and
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
// y where `condition` holds, else z.
LS_PLACED ls_tensor ls_select(ls_tensor condition, ls_tensor y, ls_tensor z);
// x where y > 0, else 0: the gradient of relu.
LS_PLACED ls_tensor ls_relu_grad(ls_tensor x, ls_tensor y);
// x op value, the value converted to x's type.
LS_PLACED ls_tensor ls_add_scalar(ls_tensor x, double value);
LS_PLACED ls_tensor ls_mul_scalar(ls_tensor x, double value);

// ---- Shape -----------------------------------------------------------------
// One dimension of `shape` may be -1: what is left.
LS_PLACED ls_tensor ls_reshape(ls_tensor x, ls_shape shape);
LS_PLACED ls_tensor ls_reshape_like(ls_tensor x, ls_tensor like);
LS_PLACED ls_tensor ls_broadcast(ls_tensor x, ls_shape shape);
LS_PLACED ls_tensor ls_broadcast_like(ls_tensor x, ls_tensor like);
// Summed down to the shape of `like`, which broadcasts to x's.
LS_PLACED ls_tensor ls_sum_to_like(ls_tensor x, ls_tensor like);
// Dimension i of the result is dimension permutation[i] of x. NULL: reversed.
LS_PLACED ls_tensor ls_transpose(ls_tensor x, const int *permutation);

// Axes for reductions: LS_AXES(0, 1), or all. Negative ones count from the
// end.
typedef struct ls_axes {
  const int *items;
  size_t count;
  bool all;
} ls_axes;
#define LS_ALL_AXES ((ls_axes){.all = true})
#define LS_AXES(...)                        \
  ((ls_axes){.items = (const int[]){__VA_ARGS__}, \
             .count = sizeof((const int[]){__VA_ARGS__}) / sizeof(int)})
LS_PLACED ls_tensor ls_reduce_sum(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_mean(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_max(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_min(ls_tensor x, ls_axes axes);
// The same, reduced dimensions kept with size 1.
LS_PLACED ls_tensor ls_reduce_sum_keep(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_reduce_max_keep(ls_tensor x, ls_axes axes);
LS_PLACED ls_tensor ls_argmax(ls_tensor x, int axis);
// The sum of equal shapes along the canonical binary tree. One: itself.
LS_PLACED ls_tensor ls_add_n(const ls_tensor *items, size_t count);

// ---- Products --------------------------------------------------------------
// Matrix products over equal leading dimensions; y may also be one matrix.
LS_PLACED ls_tensor ls_matmul(ls_tensor x, ls_tensor y);
// op(x) op(y), where op transposes the last two dimensions if asked to.
LS_PLACED ls_tensor ls_matmul_transposed(ls_tensor x, bool transpose_x,
                                         ls_tensor y, bool transpose_y);
typedef enum ls_activation {
  LS_ACTIVATION_NONE,
  LS_ACTIVATION_RELU,
} ls_activation;
// activation(x w + bias) as one op: fused is its meaning. x is [..., in], w
// [in, out]; bias is [out], or a failed (zeroed) tensor for none.
LS_PLACED ls_tensor ls_dense(ls_tensor x, ls_tensor w, ls_tensor bias,
                             ls_activation activation);
LS_PLACED ls_tensor ls_softmax(ls_tensor x);      // Along the last axis.
LS_PLACED ls_tensor ls_log_softmax(ls_tensor x);  // Along the last axis.
// -log_softmax(logits)[label], one for each row. Labels are integers.
LS_PLACED ls_tensor ls_softmax_cross_entropy(ls_tensor logits,
                                             ls_tensor labels);
LS_PLACED ls_tensor ls_softmax_cross_entropy_grad(ls_tensor logits,
                                                  ls_tensor labels,
                                                  ls_tensor row_gradients);
LS_PLACED ls_tensor ls_one_hot(ls_tensor indices, int64_t depth,
                               ls_dtype dtype);

// ---- Control flow ----------------------------------------------------------
typedef ls_nest (*ls_flow_callback)(ls_nest values, void *user);
// Repeats values = body(values) while condition(values) holds. `initial` is
// any nest of tensors (scalars become tensors), taken over; the body must keep
// structure, dtypes and shapes. max_trips 0: no bound. Returns the final
// values, or a failed nest.
LS_PLACED ls_nest ls_while(ls_flow_callback condition, ls_flow_callback body,
                           void *user, ls_nest initial, int64_t max_trips);
// then_branch(none) where `predicate`, a bool scalar, holds, else
// else_branch(none). Both must return the same structure and types.
LS_PLACED ls_nest ls_cond(ls_tensor predicate, ls_flow_callback then_branch,
                          ls_flow_callback else_branch, void *user);

// ---- Replicas --------------------------------------------------------------
typedef enum ls_reduce_op {
  LS_REDUCE_SUM,
  LS_REDUCE_MEAN,
  LS_REDUCE_MAX,
  LS_REDUCE_MIN,
} ls_reduce_op;
// The sum (mean, ...) of x over all replicas, on every replica, added along
// the canonical tree on replica ids. Outside replicas: x.
LS_PLACED ls_tensor ls_all_reduce(ls_reduce_op op, ls_tensor x);
// This replica's id, an i32 scalar; 0 outside replicas.
LS_PLACED ls_tensor ls_replica_id(void);

// ---- Host ------------------------------------------------------------------
// Prints `label` and the values through the runtime's log when run, and passes
// `value` on.
LS_PLACED ls_op ls_print(const char *label, ls_tensor value);
// Fails the run with INVALID_ARGUMENT and `message` unless `condition`, a bool
// scalar, holds.
LS_PLACED ls_op ls_assert_true(ls_tensor condition, const char *message);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_OPS_H_
