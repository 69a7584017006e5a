// SPDX-License-Identifier: Apache-2.0
// Layer: models
//
// The reference models, as a table. Each is written as a user would, with this
// library's public headers only, and any program can make a table row of its
// own.
#ifndef LOCKSTEP_MODELS_H_
#define LOCKSTEP_MODELS_H_

#include "lockstep/function.h"

#ifdef __cplusplus
extern "C" {
#endif

// How to make a model. Zero in a field means its default.
typedef struct ls_model_options {
  int64_t seed;          // Of the first values of its weights.
  double learning_rate;  // Default: the model's.
  int64_t decay_steps;   // The rate falls to 0 over so many. Default: it stays.
  bool metrics;          // A training step also computes the accuracy.
} ls_model_options;

// A kind of model: static data. `self` is what `create` made.
typedef struct ls_model_type {
  const char *name;
  const char *description;
  int64_t batch_size;      // Default of a global batch.
  int64_t epochs;          // Default of a training run.
  double learning_rate;    // Default.
  ls_shape example_shape;  // Of f32 examples; labels are i32 scalars.
  int64_t num_classes;
  // Multiplications and additions of all products in a training step, without
  // the gradient of the examples.
  double flops_per_example;
  ls_status (*create)(const ls_model_options *options, void **out_self);
  void (*destroy)(void *self);  // NULL is fine.
  // One step: args are (examples, labels); the result is a dict of scalars,
  // means over the examples: "loss", and "accuracy" if asked for.
  ls_nest (*train_step)(ls_nest args, void *self);
  // args are (examples, ...); the result is the logits [b, num_classes].
  ls_nest (*logits)(ls_nest args, void *self);
  // What is trained, lent; writes up to `capacity` and returns their number.
  size_t (*variables)(void *self, ls_variable **variables, size_t capacity);
} ls_model_type;

// A model: a value, to be destroyed once.
typedef struct ls_model {
  const ls_model_type *type;
  void *self;
} ls_model;

// The table, in the order of size. Static.
LS_API const ls_model_type *const *ls_model_types(size_t *out_count);
// The type with this name, or NULL.
LS_API const ls_model_type *ls_model_find(const char *name);

// Creates a model with its variables where the init scope leads. `options` may
// be NULL. The caller owns it.
LS_API LS_MUST_USE ls_status ls_model_create(const ls_model_type *type,
                                             const ls_model_options *options,
                                             ls_model *out_model);
LS_API void ls_model_destroy(ls_model *model);  // Zeroed is fine.

// A made-up batch that fits the model: a tuple of examples and labels. The
// caller owns it.
LS_API LS_MUST_USE ls_status ls_model_synthetic_batch(const ls_model_type *type,
                                                      int64_t batch_size,
                                                      ls_nest *out_batch);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_MODELS_H_
