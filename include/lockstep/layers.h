// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Layers: weights and how they are used.
//
// Every kind has four calls. `create` makes the variables, "<name>/kernel" and
// so on, within the current name scope; the layer is the caller's, and `name`
// is copied. `apply` adds the ops of one use; a layer may be used many times.
// `variables` lists what there is to save, lent: it writes up to `capacity` and
// returns their number. `destroy` accepts NULL. What has no weights, such as
// pooling and most activations, is a plain op: see ops.h.
//
// Options: zero in a field means its default; sizes called "required" must be
// 1 or more, else `create` gives INVALID_ARGUMENT. `seed` and the variables'
// full names choose the first values.
//
// Threads: a layer never changes once made: any number of threads may use it at
// the same time, each in a graph of its own.
#ifndef LOCKSTEP_LAYERS_H_
#define LOCKSTEP_LAYERS_H_

#include "lockstep/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Dense -----------------------------------------------------------------
// activation(x kernel + bias).
typedef struct ls_dense_layer ls_dense_layer;

typedef struct ls_dense_options {
  const char *name;  // Default "dense".
  int64_t inputs;    // Required: the size of x's last dimension.
  int64_t units;     // Required: the size of the result's.
  ls_activation activation;
  bool no_bias;
  ls_dtype dtype;                     // Default f32.
  ls_initializer kernel_initializer;  // Default ls_init_glorot_uniform.
  ls_initializer bias_initializer;    // Default zeros.
  int64_t seed;
} ls_dense_options;

// Variables: kernel [inputs, units] and bias [units].
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
// activation(convolution of x by kernel + bias), in 1 to 3 dimensions.
typedef struct ls_conv_layer ls_conv_layer;

typedef struct ls_conv_options {
  const char *name;  // Default "conv".
  int64_t channels;  // Required: the size of x's last dimension.
  int64_t filters;   // Required: the size of the result's.
  ls_shape window;   // Required: LS_SHAPE(3, 3). Its rank is that of space.
  // Strides, padding and groups; with as many groups as channels it is
  // depthwise.
  ls_convolution_options how;
  // The gradient of such a convolution for its input: from few places to many.
  // A size n becomes n stride if padded to be the same, else (n - 1) stride +
  // dilated window - low - high.
  bool transposed;
  ls_activation activation;
  bool no_bias;
  ls_dtype dtype;                     // Default f32.
  ls_initializer kernel_initializer;  // Default ls_init_glorot_uniform.
  ls_initializer bias_initializer;    // Default zeros.
  int64_t seed;
} ls_conv_options;

// Variables: kernel [window..., channels / groups, filters], of a transposed
// one [window..., filters / groups, channels]; and bias [filters].
//   LS_INVALID_ARGUMENT  also channels or filters that the groups cannot share.
LS_API LS_MUST_USE ls_status
ls_conv_layer_create(const ls_conv_options *options, ls_conv_layer **out_layer);
LS_API void ls_conv_layer_destroy(ls_conv_layer *layer);
// x is [batch, space..., channels], the result [batch, space..., filters]. Of a
// transposed one the sizes in space must be known while building.
LS_PLACED ls_tensor ls_conv_layer_apply(const ls_conv_layer *layer,
                                        ls_tensor x);
LS_API size_t ls_conv_layer_variables(const ls_conv_layer *layer,
                                      ls_variable **variables, size_t capacity);

// ---- Normalization ---------------------------------------------------------
// By channel, with the mean and variance of the batch while training and with
// moving averages of those else.
typedef struct ls_batch_norm_layer ls_batch_norm_layer;

typedef struct ls_batch_norm_options {
  const char *name;  // Default "batch_norm".
  int64_t channels;  // Required: the size of x's last dimension.
  double momentum;   // average' = momentum average + (1 - momentum) value.
                     // Default 0.99.
  double epsilon;    // Default 1e-5.
  bool no_scale, no_offset;  // They are 1 and 0.
  ls_activation activation;
  // While training, normalize by the mean and mean of squares over all
  // replicas. Default: each replica by those of its own part.
  bool over_replicas;
  ls_dtype dtype;  // Of the variables. Default f32, also beside 16-bit x.
} ls_batch_norm_options;

// Variables: scale, offset, moving_mean and moving_variance, [channels] each;
// the moving ones are not trainable.
LS_API LS_MUST_USE ls_status ls_batch_norm_layer_create(
    const ls_batch_norm_options *options, ls_batch_norm_layer **out_layer);
LS_API void ls_batch_norm_layer_destroy(ls_batch_norm_layer *layer);
// While training this also moves the averages, on many replicas by the mean of
// the replicas' means and variances. In a build graph the ops that do it are in
// LS_COLLECTION_UPDATE_OPS: they run with a step of an optimizer that is made
// behind them, or when they are fetched.
LS_PLACED ls_tensor ls_batch_norm_layer_apply(const ls_batch_norm_layer *layer,
                                              ls_tensor x, bool training);
LS_API size_t ls_batch_norm_layer_variables(const ls_batch_norm_layer *layer,
                                            ls_variable **variables,
                                            size_t capacity);

// By example: see the ops of the same names.
typedef struct ls_norm_layer ls_norm_layer;

typedef enum ls_norm_kind {
  LS_NORM_LAYER,  // ls_layer_norm
  LS_NORM_RMS,    // ls_rms_norm: no offset.
  LS_NORM_GROUP,  // ls_group_norm
} ls_norm_kind;

typedef struct ls_norm_options {
  const char *name;  // Default "norm".
  ls_norm_kind kind;
  int64_t channels;          // Required: the size of x's last dimension.
  int64_t groups;            // Required for LS_NORM_GROUP.
  double epsilon;            // Default 1e-5.
  bool no_scale, no_offset;  // They are 1 and 0.
  ls_dtype dtype;  // Of the variables. Default f32, also beside 16-bit x.
} ls_norm_options;

// Variables: scale and offset, [channels] each.
LS_API LS_MUST_USE ls_status
ls_norm_layer_create(const ls_norm_options *options, ls_norm_layer **out_layer);
LS_API void ls_norm_layer_destroy(ls_norm_layer *layer);
LS_PLACED ls_tensor ls_norm_layer_apply(const ls_norm_layer *layer,
                                        ls_tensor x);
LS_API size_t ls_norm_layer_variables(const ls_norm_layer *layer,
                                      ls_variable **variables, size_t capacity);

// ---- Embedding -------------------------------------------------------------
// A row of a table for each index.
typedef struct ls_embedding_layer ls_embedding_layer;

typedef struct ls_embedding_options {
  const char *name;            // Default "embedding".
  int64_t rows;                // Required: how many things there are.
  int64_t width;               // Required: numbers for each.
  ls_dtype dtype;              // Default f32.
  ls_initializer initializer;  // Default ls_init_normal(0, 0.02).
  int64_t seed;
} ls_embedding_options;

// Variables: table [rows, width].
LS_API LS_MUST_USE ls_status ls_embedding_layer_create(
    const ls_embedding_options *options, ls_embedding_layer **out_layer);
LS_API void ls_embedding_layer_destroy(ls_embedding_layer *layer);
// indices is [...] of integers, the result [..., width]. Indices out of range
// are clamped, as ls_gather does.
LS_PLACED ls_tensor ls_embedding_layer_apply(const ls_embedding_layer *layer,
                                             ls_tensor indices);
// x by the transposed table: [..., width] to [..., rows]. Logits of a model
// whose output is tied to its embedding.
LS_PLACED ls_tensor ls_embedding_layer_logits(const ls_embedding_layer *layer,
                                              ls_tensor x);
LS_API size_t ls_embedding_layer_variables(const ls_embedding_layer *layer,
                                           ls_variable **variables,
                                           size_t capacity);

// ---- Dropout ---------------------------------------------------------------
// While training, each element is 0 with probability `rate`, else divided by
// 1 - rate; otherwise x. `random` (NULL: defaults) is what to draw with; with
// example ids in it, an example loses the same elements on any replica.
//   LS_INVALID_ARGUMENT  a rate outside of [0, 1).
LS_PLACED ls_tensor ls_dropout(ls_tensor x, double rate, bool training,
                               const ls_random_options *random);

// ---- Attention -------------------------------------------------------------
// Many heads of attention between two dense layers.
typedef struct ls_attention_layer ls_attention_layer;

typedef struct ls_attention_layer_options {
  const char *name;   // Default "attention".
  int64_t width;      // Required: of tokens, in and out.
  int64_t num_heads;  // Default 1; they share the width evenly.
  bool causal;        // Token i sees tokens 0 to i.
  bool no_bias;
  ls_dtype dtype;                     // Default f32.
  ls_initializer kernel_initializer;  // Default ls_init_glorot_uniform.
  int64_t seed;
} ls_attention_layer_options;

// Variables: qkv/kernel [width, 3 width], qkv/bias [3 width], out/kernel
// [width, width] and out/bias [width].
LS_API LS_MUST_USE ls_status ls_attention_layer_create(
    const ls_attention_layer_options *options, ls_attention_layer **out_layer);
LS_API void ls_attention_layer_destroy(ls_attention_layer *layer);
// Of tokens x, [batch, tokens, width], to each other.
LS_PLACED ls_tensor ls_attention_layer_apply(const ls_attention_layer *layer,
                                             ls_tensor x);
// Of tokens x to those of `memory`, [batch, its tokens, width].
LS_PLACED ls_tensor ls_attention_layer_apply_to(const ls_attention_layer *layer,
                                                ls_tensor x, ls_tensor memory);
LS_API size_t ls_attention_layer_variables(const ls_attention_layer *layer,
                                           ls_variable **variables,
                                           size_t capacity);

// ---- Recurrent -------------------------------------------------------------
// A state that goes from step to step. sigma is the logistic function; in the
// kernels and biases the gates stand side by side in the order given.
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
  int64_t inputs;  // Required: the size of x's last dimension.
  int64_t units;   // Required: the size of the state.
  bool no_bias;
  ls_dtype dtype;                        // Default f32.
  ls_initializer kernel_initializer;     // Default ls_init_glorot_uniform.
  ls_initializer recurrent_initializer;  // Default ls_init_orthogonal(1).
  int64_t seed;
  // Up to so many steps each has ops of its own; more go round in a loop, in
  // functions and build graphs. Values are the same bits; gradients agree to
  // rounding, as a loop adds what its trips contribute from the last to the
  // first. Default 32.
  int64_t unrolled;
} ls_recurrent_options;

// Variables: kernel [inputs, gates units], recurrent_kernel [units, gates
// units], bias [gates units] and, of a GRU, recurrent_bias. Biases are 0 at
// first, but the LSTM's f is 1.
LS_API LS_MUST_USE ls_status ls_recurrent_layer_create(
    const ls_recurrent_options *options, ls_recurrent_layer **out_layer);
LS_API void ls_recurrent_layer_destroy(ls_recurrent_layer *layer);

// A state, [batch, units] each; c is the LSTM's alone.
typedef struct ls_recurrent_state {
  ls_tensor h, c;
} ls_recurrent_state;
// Goes over the steps of x, [batch, steps, inputs], whose number must be known
// while building. Gives h after each, [batch, steps, units]. `initial` NULL:
// zeros. `out_final` NULL: not wanted.
LS_PLACED ls_tensor ls_recurrent_layer_apply(const ls_recurrent_layer *layer,
                                             ls_tensor x,
                                             const ls_recurrent_state *initial,
                                             ls_recurrent_state *out_final);
// One step: x is [batch, inputs]; the state after it.
LS_API ls_recurrent_state ls_recurrent_layer_step(
    const ls_recurrent_layer *layer, ls_tensor x, ls_recurrent_state state);
LS_API size_t ls_recurrent_layer_variables(const ls_recurrent_layer *layer,
                                           ls_variable **variables,
                                           size_t capacity);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_LAYERS_H_
