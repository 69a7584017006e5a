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
  ls_trial making;  // While it is made.
} ls_layer;

// A zeroed layer struct of this size, named; NULL without memory. Its variables
// are made between this and ls_layer_finish.
void *ls_layer_make(size_t size, const char *name);
// NULL is fine.
void ls_layer_free(ls_layer *layer);
// Creates a weight in the current name scope, the layer's. `*out_variable` is
// lent.
LS_MUST_USE ls_status ls_layer_weight(ls_layer *layer,
                                      const ls_weight_options *options,
                                      ls_variable **out_variable);
// The weights of a layer that multiplies and adds.
typedef struct ls_product_weights {
  const char *scope;  // The name scope they are made in.
  ls_shape kernel;
  int64_t outputs;  // Of the bias.
  bool no_bias;
  ls_dtype dtype;
  ls_initializer kernel_initializer;
  ls_initializer bias_initializer;  // Default zeros.
  int64_t seed;
} ls_product_weights;
// Creates "kernel" and "bias", which is left alone if there is none. Both are
// lent.
LS_MUST_USE ls_status
ls_layer_product_weights(ls_layer *layer, const ls_product_weights *weights,
                         ls_variable **out_kernel, ls_variable **out_bias);
// The end of a `create`: hands the layer out, or frees it and says what (a
// "dense layer") could not be made.
LS_MUST_USE ls_status ls_layer_finish(ls_layer *layer, const char *what,
                                      ls_status status, void *out_layer);
size_t ls_layer_list(const ls_layer *layer, ls_variable **variables,
                     size_t capacity);

// The value of a variable; a failed tensor, which makers take for none, of
// NULL.
ls_tensor ls_layer_read(ls_variable *variable);
// The value of a variable, or `value` in its place, [size], of NULL.
ls_tensor ls_layer_read_or(ls_variable *variable, ls_dtype dtype, int64_t size,
                           double value);
// Zeros of x's type. A size may be a dimension of x, as operand 1.
ls_tensor ls_layer_zeros(ls_tensor x, const ls_size *sizes, size_t rank);
// The initializer, or the default in its place.
ls_initializer ls_init_or(ls_initializer given, ls_initializer fallback);

// ---- update_ops.c -----------------------------------------------------------
// Updates that a layer makes by the way, such as of moving averages. Where
// effects run by themselves, in eager and in functions, there is nothing to do;
// in a build graph nobody fetches them, so they go along with a step.

// The value of a write: in a build graph its op joins LS_COLLECTION_UPDATE_OPS.
void ls_update_ops_add(ls_tensor written);
// An op that runs after the step and after all updates so far that ask for
// nothing the step does not need too: what is fed or comes from the host. The
// step itself where there are none. `name` is that of a new op.
LS_MUST_USE ls_status ls_update_ops_join(const char *name, ls_op *step);

#endif  // LS_NN_LAYER_H_
