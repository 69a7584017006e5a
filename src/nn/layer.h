// SPDX-License-Identifier: Apache-2.0
// The base of all layers: a name and variables. A layer's struct begins with an
// ls_layer.
#ifndef LS_NN_LAYER_H_
#define LS_NN_LAYER_H_

#include "base/runtime_internal.h"
#include "graph/trial.h"
#include "lockstep/graph.h"
#include "lockstep/layers.h"

enum { LS_MAX_LAYER_VARIABLES = 4 };

typedef struct ls_layer {
  ls_allocator *allocator;
  char *name;
  ls_variable *variables[LS_MAX_LAYER_VARIABLES];  // In order of creation.
  size_t num_variables;
  ls_trial making;  // Undoes a refused `create`. Open until that ends.
} ls_layer;

// Allocates a zeroed layer struct of this size, with a name; NULL without
// memory. The caller makes the variables, then calls ls_layer_finish.
void *ls_layer_make(size_t size, const char *name);
// Frees a layer; NULL is allowed.
void ls_layer_free(ls_layer *layer);
// Creates a weight in the current name scope, which is the layer's.
// `*out_variable` is borrowed.
LS_MUST_USE ls_status ls_layer_weight(ls_layer *layer,
                                      const ls_weight_options *options,
                                      ls_variable **out_variable);
// The weights of a layer that multiplies by a kernel and adds a bias.
typedef struct ls_product_weights {
  const char *scope;  // Name scope of the weights.
  ls_shape kernel;
  int64_t outputs;  // Size of the bias.
  bool no_bias;
  ls_dtype dtype;
  ls_initializer kernel_initializer;
  ls_initializer bias_initializer;  // Default zeros.
  int64_t seed;
} ls_product_weights;
// Creates the variables "kernel" and, unless disabled, "bias". They are
// borrowed.
LS_MUST_USE ls_status
ls_layer_product_weights(ls_layer *layer, const ls_product_weights *weights,
                         ls_variable **out_kernel, ls_variable **out_bias);
// Ends a `create`: returns the layer, or frees it and returns an error with
// `what`, such as "dense layer".
LS_MUST_USE ls_status ls_layer_finish(ls_layer *layer, const char *what,
                                      ls_status status, void *out_layer);
size_t ls_layer_list(const ls_layer *layer, ls_variable **variables,
                     size_t capacity);
// Defines the functions that are the same for all kinds of layers.
#define LS_LAYER(kind)                                                         \
  void kind##_destroy(kind *layer) { ls_layer_free((ls_layer *)layer); }       \
  size_t kind##_variables(const kind *layer, ls_variable **variables,          \
                          size_t capacity) {                                   \
    return ls_layer_list(&layer->base, variables, capacity);                   \
  }

// Reads a variable; for NULL returns a failed tensor, which op makers treat as
// an operand that is not given.
ls_tensor ls_layer_read(ls_variable *variable);
// Reads a variable; for NULL returns a tensor of `size` elements `value`.
ls_tensor ls_layer_read_or(ls_variable *variable, ls_dtype dtype, int64_t size,
                           double value);
// Makes zeros of x's type. A size may be a dimension of x, which is operand 1
// for that.
ls_tensor ls_layer_zeros(ls_tensor x, const ls_size *sizes, size_t rank);
// Returns the initializer, or the default if it is not set.
ls_initializer ls_init_or(ls_initializer given, ls_initializer fallback);

// ---- layer.c ----------------------------------------------------------------
// Updates that a layer makes beside its result, such as moving averages. In
// eager mode and in functions all effects run by themselves. In a build graph
// nobody fetches these updates, so that they run with a training step.

// Adds an update, by the written value: in a build graph its op joins
// LS_COLLECTION_UPDATE_OPS.
void ls_update_ops_add(ls_tensor written);
// Replaces `*step` by an op, named `name`, that runs after the step and after
// the updates made so far. Updates that need a feed or a host call which the
// step does not need are left out. Without updates the step is kept.
LS_MUST_USE ls_status ls_update_ops_join(const char *name, ls_op *step);

#endif  // LS_NN_LAYER_H_
