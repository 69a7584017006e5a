// SPDX-License-Identifier: Apache-2.0
//
// The reference models mlp and tiny, written with public calls alone: dense
// layers with relu between, the mean softmax cross-entropy, SGD at 0.1.
//
// First values and batches come from a generator that any language can repeat
// exactly (tools/make-goldens.py does): hashed integers times powers of two.
#ifndef LS_TESTS_SUPPORT_MLP_H_
#define LS_TESTS_SUPPORT_MLP_H_

#include "base/memory/own.h"
#include "lockstep/function.h"

enum { MLP_MAX_LAYERS = 3, MLP_MAX_VARIABLES = 2 * MLP_MAX_LAYERS };

// The sizes of the input and of each layer's result.
typedef struct mlp_shape {
  const char *name;
  size_t num_layers;
  int64_t size[MLP_MAX_LAYERS + 1];
} mlp_shape;
extern const mlp_shape mlp_large;  // 784, 512, 512, 10
extern const mlp_shape mlp_tiny;   // 16, 16, 4

// A model. Zeroed: nothing to destroy.
typedef struct mlp {
  const mlp_shape *shape;
  ls_dtype dtype;
  // A kernel [in, out] and a bias [out] for each layer.
  ls_variable *variables[MLP_MAX_VARIABLES];
  size_t num_variables;
  bool returns_hidden;  // The callbacks' results hold activations too.
} mlp;

// Creates the variables where the init scope leads. Destroy it also after a
// failure.
ls_status mlp_create(const mlp_shape *shape, ls_dtype dtype, mlp *out);
void mlp_destroy(mlp *self);
LS_OWNED_STRUCT(mlp, mlp_destroy)

// ---- Data ------------------------------------------------------------------
// Element `index` of stream `stream` of the generator.
uint32_t mlp_hash(uint32_t stream, uint32_t index);
// The first value of variable `index`: multiples of 2^-15 or larger.
ls_status mlp_initial_value(const mlp_shape *shape, ls_dtype dtype,
                            size_t index, ls_array **out_array);
// Examples `first` to `first + count`: multiples of 1/256 in [0, 1), and i32
// labels.
ls_status mlp_batch(const mlp_shape *shape, ls_dtype dtype, int64_t first,
                    int64_t count, ls_array **out_examples,
                    ls_array **out_labels);

// ---- Steps -----------------------------------------------------------------
// A training step as ops of the current graph. The gradients are averaged over
// the replicas.
typedef struct mlp_ops {
  ls_tensor loss;
  ls_tensor hidden;  // The first layer's activations.
  ls_op update;      // To be fetched in a session.
} mlp_ops;
ls_status mlp_add_step(const mlp *self, ls_tensor examples, ls_tensor labels,
                       mlp_ops *out_ops);

// Callbacks: args are (examples, labels), `self` is an mlp.
// A training step: gives the loss, or a tuple of it and the first layer's
// activations if `returns_hidden`.
ls_nest mlp_step(ls_nest args, void *self);
// No update: a tuple of the loss and each variable's gradient.
ls_nest mlp_gradients(ls_nest args, void *self);

// A training step in eager, op by op with a tape, in a frame of its own.
ls_status mlp_step_eager(const mlp *self, ls_array *examples, ls_array *labels,
                         ls_array **out_loss);

#endif  // LS_TESTS_SUPPORT_MLP_H_
