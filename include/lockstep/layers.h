// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Layers: weights and the ops that use them.
//
// Every kind has four calls. `create` makes the variables, "<name>/kernel" and
// so on, within the current name scope; the caller owns the layer, and `name`
// is copied. `apply` adds the ops of one use; a layer may be used many times.
// `variables` lists the variables to save, lent: it writes up to `capacity` and
// returns their number. `destroy` accepts NULL. Layers without weights, such as
// pooling and most activations, are plain ops: see ops.h.
//
// Options: zero in a field means its default; sizes called "required" must be 1
// or more, else `create` fails with INVALID_ARGUMENT. `seed` and the variables'
// full names determine the initial values.
//
// Threads: a layer never changes after creation: any number of threads may use
// it at the same time, each in a graph of its own.
#ifndef LOCKSTEP_LAYERS_H_
#define LOCKSTEP_LAYERS_H_

#include "lockstep/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Dense -----------------------------------------------------------------
// Dense layer: activation(x kernel + bias).
typedef struct ls_dense_layer ls_dense_layer;

typedef struct ls_dense_options {
  const char *name;  // Default "dense".
  int64_t inputs;    // Required: size of x's last dimension.
  int64_t units;     // Required: size of the result's last dimension.
  ls_activation activation;
  bool no_bias;
  ls_dtype dtype;                     // Default f32.
  ls_initializer kernel_initializer;  // Default ls_init_glorot_uniform.
  ls_initializer bias_initializer;    // Default zeros.
  int64_t seed;
} ls_dense_options;

// Creates the variables kernel [inputs, units] and bias [units].
LS_API LS_MUST_USE ls_status ls_dense_layer_create(
    const ls_dense_options *options, ls_dense_layer **out_layer);
LS_API void ls_dense_layer_destroy(ls_dense_layer *layer);
// x is [..., inputs], the result [..., units].
LS_PLACED ls_tensor ls_dense_layer_apply(const ls_dense_layer *layer,
                                         ls_tensor x);
LS_API size_t ls_dense_layer_variables(const ls_dense_layer *layer,
                                       ls_variable **variables,
                                       size_t capacity);
// Lent; the bias is NULL without one.
LS_API ls_variable *ls_dense_layer_kernel(const ls_dense_layer *layer);
LS_API ls_variable *ls_dense_layer_bias(const ls_dense_layer *layer);

// ---- Convolution -----------------------------------------------------------
// Convolution layer: activation(convolution of x by kernel + bias), in 1 to 3
// dimensions.
typedef struct ls_conv_layer ls_conv_layer;

typedef struct ls_conv_options {
  const char *name;  // Default "conv".
  int64_t channels;  // Required: size of x's last dimension.
  int64_t filters;   // Required: size of the result's last dimension.
  // Required, such as LS_SHAPE(3, 3); its rank is the number of spatial
  // dimensions.
  ls_shape window;
  // Strides, padding and groups; with as many groups as channels it is a
  // depthwise convolution.
  ls_convolution_options how;
  // Makes it a transposed convolution: the gradient of such a convolution for
  // its input, which enlarges. A size n becomes n stride with "same" padding,
  // else (n - 1) stride + dilated window - low - high.
  bool transposed;
  ls_activation activation;
  bool no_bias;
  ls_dtype dtype;                     // Default f32.
  ls_initializer kernel_initializer;  // Default ls_init_glorot_uniform.
  ls_initializer bias_initializer;    // Default zeros.
  int64_t seed;
} ls_conv_options;

// Creates the variables kernel [window..., channels / groups, filters], of a
// transposed layer [window..., filters / groups, channels]; and bias [filters].
//   LS_INVALID_ARGUMENT  also: the number of groups does not divide channels or
//                        filters.
LS_API LS_MUST_USE ls_status
ls_conv_layer_create(const ls_conv_options *options, ls_conv_layer **out_layer);
LS_API void ls_conv_layer_destroy(ls_conv_layer *layer);
// x is [batch, space..., channels], the result [batch, space..., filters]. For
// a transposed layer the spatial sizes must be known while building.
LS_PLACED ls_tensor ls_conv_layer_apply(const ls_conv_layer *layer,
                                        ls_tensor x);
LS_API size_t ls_conv_layer_variables(const ls_conv_layer *layer,
                                      ls_variable **variables, size_t capacity);

// ---- Normalization ---------------------------------------------------------
// Batch normalization by channel, with the mean and variance of the batch while
// training and their moving averages otherwise.
typedef struct ls_batch_norm_layer ls_batch_norm_layer;

typedef struct ls_batch_norm_options {
  const char *name;  // Default "batch_norm".
  int64_t channels;  // Required: size of x's last dimension.
  double momentum;   // average' = momentum average + (1 - momentum) value.
                     // Default 0.99.
  double epsilon;    // Default 1e-5.
  bool no_scale, no_offset;  // Fixes them at 1 and 0.
  ls_activation activation;
  // Normalizes, while training, by the mean and mean of squares over all
  // replicas. Default: each replica by those of its own part. Gradients through
  // them are means over all examples, for optimizers that average gradients by
  // examples; with LS_GRADIENTS_SUM they are right for equal parts only.
  bool over_replicas;
  ls_dtype dtype;  // Dtype of the variables. Default f32, also for 16-bit x; or
                   // f64.
} ls_batch_norm_options;

// Creates the variables scale, offset, moving_mean and moving_variance,
// [channels] each; the moving ones are not trainable.
LS_API LS_MUST_USE ls_status ls_batch_norm_layer_create(
    const ls_batch_norm_options *options, ls_batch_norm_layer **out_layer);
LS_API void ls_batch_norm_layer_destroy(ls_batch_norm_layer *layer);
// While training this also updates the moving averages, on many replicas by the
// mean of the replicas' means and variances. In a build graph the update ops
// are in LS_COLLECTION_UPDATE_OPS: they run with a step of an optimizer created
// after them, or when they are fetched. Replicas that run op by op all make the
// call, in their callbacks themselves.
LS_PLACED ls_tensor ls_batch_norm_layer_apply(const ls_batch_norm_layer *layer,
                                              ls_tensor x, bool training);
LS_API size_t ls_batch_norm_layer_variables(const ls_batch_norm_layer *layer,
                                            ls_variable **variables,
                                            size_t capacity);

// Normalization by example: see the ops of the same names.
typedef struct ls_norm_layer ls_norm_layer;

typedef enum ls_norm_kind {
  LS_NORM_LAYER,  // ls_layer_norm
  LS_NORM_RMS,    // ls_rms_norm: no offset.
  LS_NORM_GROUP,  // ls_group_norm
} ls_norm_kind;

typedef struct ls_norm_options {
  const char *name;  // Default "norm".
  ls_norm_kind kind;
  int64_t channels;          // Required: size of x's last dimension.
  int64_t groups;            // Required for LS_NORM_GROUP.
  double epsilon;            // Default 1e-5.
  bool no_scale, no_offset;  // Fixes them at 1 and 0.
  ls_dtype dtype;  // Dtype of the variables. Default f32, also for 16-bit x; or
                   // f64. Groups take 16 bits, too.
} ls_norm_options;

// Creates the variables scale and offset, [channels] each.
LS_API LS_MUST_USE ls_status
ls_norm_layer_create(const ls_norm_options *options, ls_norm_layer **out_layer);
LS_API void ls_norm_layer_destroy(ls_norm_layer *layer);
LS_PLACED ls_tensor ls_norm_layer_apply(const ls_norm_layer *layer,
                                        ls_tensor x);
LS_API size_t ls_norm_layer_variables(const ls_norm_layer *layer,
                                      ls_variable **variables, size_t capacity);

// ---- Embedding -------------------------------------------------------------
// Embedding layer: looks up a row of a table for each index.
typedef struct ls_embedding_layer ls_embedding_layer;

typedef struct ls_embedding_options {
  const char *name;            // Default "embedding".
  int64_t rows;                // Required: number of rows of the table.
  int64_t width;               // Required: numbers per row.
  ls_dtype dtype;              // Default f32.
  ls_initializer initializer;  // Default ls_init_normal(0, 0.02).
  int64_t seed;
} ls_embedding_options;

// Creates the variable table [rows, width].
LS_API LS_MUST_USE ls_status ls_embedding_layer_create(
    const ls_embedding_options *options, ls_embedding_layer **out_layer);
LS_API void ls_embedding_layer_destroy(ls_embedding_layer *layer);
// indices is [...] of integers, the result [..., width]. Indices out of range
// are clamped, as ls_gather does.
LS_PLACED ls_tensor ls_embedding_layer_apply(const ls_embedding_layer *layer,
                                             ls_tensor indices);
// Multiplies x by the transposed table: [..., width] to [..., rows]. These are
// the logits of a model whose output is tied to its embedding.
LS_PLACED ls_tensor ls_embedding_layer_logits(const ls_embedding_layer *layer,
                                              ls_tensor x);
LS_API size_t ls_embedding_layer_variables(const ls_embedding_layer *layer,
                                           ls_variable **variables,
                                           size_t capacity);

// ---- Dropout ---------------------------------------------------------------
// Drops out elements while training: each is 0 with probability `rate`, else
// divided by 1 - rate; otherwise returns x. `random` (NULL: defaults) selects
// the random numbers; with example ids in it, an example loses the same
// elements on any replica.
//   LS_INVALID_ARGUMENT  a rate outside [0, 1).
LS_PLACED ls_tensor ls_dropout(ls_tensor x, double rate, bool training,
                               const ls_random_options *random);

// ---- Attention -------------------------------------------------------------
// Multi-head attention between two dense layers.
typedef struct ls_attention_layer ls_attention_layer;

typedef struct ls_attention_layer_options {
  const char *name;   // Default "attention".
  int64_t width;      // Required: width of tokens, in and out.
  int64_t num_heads;  // Default 1; must divide the width.
  bool causal;        // Token i sees tokens 0 to i.
  bool no_bias;
  ls_dtype dtype;                     // Default f32.
  ls_initializer kernel_initializer;  // Default ls_init_glorot_uniform.
  int64_t seed;
} ls_attention_layer_options;

// Creates the variables qkv/kernel [width, 3 width], qkv/bias [3 width],
// out/kernel [width, width] and out/bias [width].
LS_API LS_MUST_USE ls_status ls_attention_layer_create(
    const ls_attention_layer_options *options, ls_attention_layer **out_layer);
LS_API void ls_attention_layer_destroy(ls_attention_layer *layer);
// Self-attention of tokens x, [batch, tokens, width].
LS_PLACED ls_tensor ls_attention_layer_apply(const ls_attention_layer *layer,
                                             ls_tensor x);
// Cross-attention of tokens x to those of `memory`, [batch, its tokens, width].
LS_PLACED ls_tensor ls_attention_layer_apply_to(const ls_attention_layer *layer,
                                                ls_tensor x, ls_tensor memory);
LS_API size_t ls_attention_layer_variables(const ls_attention_layer *layer,
                                           ls_variable **variables,
                                           size_t capacity);

// ---- Recurrent -------------------------------------------------------------
// Recurrent layer. sigma is the logistic function; in the kernels and biases
// the gates are concatenated in the order given.
typedef struct ls_recurrent_layer ls_recurrent_layer;

typedef enum ls_recurrent_kind {
  // i, f, g, o:  z = x kernel + h recurrent_kernel + bias
  //   c' = sigma(zf) c + sigma(zi) tanh(zg)
  //   h' = sigma(zo) tanh(c')
  LS_RECURRENT_LSTM,
  // r, z, n:  a = x kernel + bias, b = h recurrent_kernel + recurrent_bias
  //   r = sigma(ar + br), z = sigma(az + bz), n = tanh(an + r bn)
  //   h' = (1 - z) n + z h
  LS_RECURRENT_GRU,
} ls_recurrent_kind;

typedef struct ls_recurrent_options {
  const char *name;  // Default "lstm" or "gru".
  ls_recurrent_kind kind;
  int64_t inputs;  // Required: size of x's last dimension.
  int64_t units;   // Required: size of the state.
  bool no_bias;
  ls_dtype dtype;                        // Default f32.
  ls_initializer kernel_initializer;     // Default ls_init_glorot_uniform.
  ls_initializer recurrent_initializer;  // Default ls_init_orthogonal(1).
  int64_t seed;
  // Largest number of steps that are unrolled, each into ops of its own; longer
  // sequences run in a loop, in functions and build graphs. Values have the
  // same bits; gradients agree to rounding, as a loop adds the contributions of
  // its iterations from the last to the first. Default 32.
  int64_t unrolled;
} ls_recurrent_options;

// Creates the variables kernel [inputs, gates units], recurrent_kernel [units,
// gates units], bias [gates units] and, for a GRU, recurrent_bias. Initial
// biases are 0, except 1 for the LSTM's f.
LS_API LS_MUST_USE ls_status ls_recurrent_layer_create(
    const ls_recurrent_options *options, ls_recurrent_layer **out_layer);
LS_API void ls_recurrent_layer_destroy(ls_recurrent_layer *layer);

// A state, [batch, units] each; c for the LSTM only.
typedef struct ls_recurrent_state {
  ls_tensor h, c;
} ls_recurrent_state;
// Runs over the steps of x, [batch, steps, inputs], whose number must be known
// while building. Returns h after each step, [batch, steps, units]. `initial`
// NULL: zeros. `out_final` may be NULL.
LS_PLACED ls_tensor ls_recurrent_layer_apply(const ls_recurrent_layer *layer,
                                             ls_tensor x,
                                             const ls_recurrent_state *initial,
                                             ls_recurrent_state *out_final);
// Runs one step: x is [batch, inputs]. Returns the state after it.
LS_API ls_recurrent_state ls_recurrent_layer_step(
    const ls_recurrent_layer *layer, ls_tensor x, ls_recurrent_state state);
LS_API size_t ls_recurrent_layer_variables(const ls_recurrent_layer *layer,
                                           ls_variable **variables,
                                           size_t capacity);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_LAYERS_H_
