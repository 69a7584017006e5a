// SPDX-License-Identifier: Apache-2.0
// Layer: models
//
// The reference models, as a table. Each is written as a user would write it,
// with the public headers only, and any program can add types of its own.
//
// Threads: a type is static data; a model is used as its layers and its
// optimizer are.
#ifndef LOCKSTEP_MODELS_H_
#define LOCKSTEP_MODELS_H_

#include "lockstep/function.h"
#include "lockstep/optimizers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_task ls_task;  // lockstep/tasks.h

// Options of a model. Zero in a field means its default; ls_model_create calls
// a type's `create` with dtype, rate and type filled in.
typedef struct ls_model_options {
  int64_t seed;    // Seed of its weights' initial values.
  ls_dtype dtype;  // Dtype of its weights and arithmetic. Default f32.
  // Lent; the model retains it. Default: an optimizer of its own, with the rate
  // and the decay below.
  ls_optimizer *optimizer;
  double learning_rate;  // Default: the model's.
  // Number of steps over which the rate falls to 0. Default: it is constant.
  int64_t decay_steps;
  bool metrics;  // A training step also computes the metric of its task.
  const struct ls_model_type *type;  // The type itself; set by ls_model_create.
  // Schedule of an optimizer of its own, instead of `decay_steps`. Zeroed:
  // none.
  ls_schedule schedule;
  // Normalization of examples, which become (x - mean) / deviation: two arrays
  // of floats that broadcast to an example's shape, retained. A part of the
  // model: of its logits and exports, too. Default: none.
  ls_array *mean, *deviation;
  // Number of elements of an example, for a type with `any_inputs`. Default:
  // that of its `example_shape`.
  int64_t inputs;
} ls_model_options;

// A kind of model: static data. `self` is the object that `create` made.
typedef struct ls_model_type {
  const char *name;
  const char *description;
  int64_t batch_size;      // Default global batch size.
  int64_t epochs;          // Default number of epochs of a training run.
  double learning_rate;    // Default learning rate.
  ls_dtype example_dtype;  // f32, or i32 for tokens. Default f32.
  ls_shape example_shape;  // Shape of one example.
  // Shape of its labels, which are i32, or what its task says; of a task whose
  // labels are f32 that of its outputs, too. Default: a scalar.
  ls_shape label_shape;
  // Labels are 0 to num_classes - 1; of another task: the number of outputs.
  int64_t num_classes;
  // Multiplications and additions of all products in a training step, without
  // the gradient of the examples. 0: unknown.
  double flops_per_example;
  ls_status (*create)(const ls_model_options *options, void **out_self);
  void (*destroy)(void *self);  // NULL is fine.
  // Makes one step: args are (examples, labels); the result is a dict of
  // scalars, means over the examples: "loss", and, if requested, the task's
  // metric: "accuracy".
  ls_nest (*train_step)(ls_nest args, void *self);
  // Returns the outputs for args (examples, ...): of a classifier logits, with
  // a dimension of `num_classes` after the batch and the label's shape. Runs in
  // inference mode: no dropout, and with moving statistics.
  ls_nest (*logits)(ls_nest args, void *self);
  // Lists all variables the model needs, lent, those trained and those averaged
  // during training; writes up to `capacity` and returns their number.
  size_t (*variables)(void *self, ls_variable **variables, size_t capacity);
  // Lent.
  ls_optimizer *(*optimizer)(void *self);
  // Makes models for examples of any number of elements: `inputs` of their
  // options. A copy of the type with that `example_shape` is their type.
  bool any_inputs;
  const ls_task *task;  // Default: classification.
  // Makes models of any task, and with any number of outputs: those of the type
  // in their options. See lockstep/tasks.h.
  bool any_task, any_outputs;
  const void *user;  // The type's own.
} ls_model_type;

// A model: a value, to be destroyed once.
typedef struct ls_model {
  const ls_model_type *type;
  void *self;
} ls_model;

// Returns the table, in order of size. Static.
LS_API const ls_model_type *const *ls_model_types(size_t *out_count);
// Returns the type with this name, or NULL.
LS_API const ls_model_type *ls_model_find(const char *name);

// Creates a model, with its variables in the graph of the init scope. `options`
// may be NULL. The caller owns it.
//   LS_INVALID_ARGUMENT  a dtype that is no float; a learning rate together
//                        with an optimizer, which has its own; a mean without a
//                        deviation, or one that does not fit the examples.
//   LS_NOT_FOUND         the type is NULL: lists those of the table.
LS_API LS_MUST_USE ls_status ls_model_create(const ls_model_type *type,
                                             const ls_model_options *options,
                                             ls_model *out_model);
LS_API void ls_model_destroy(ls_model *model);  // Zeroed is fine.

// Makes a synthetic batch that fits the model, by ls_dataset_synthetic: a tuple
// of examples and labels. The caller owns it.
//   LS_UNIMPLEMENTED  labels of a shape that such data do not have.
//   LS_NOT_FOUND      as ls_model_create.
LS_API LS_MUST_USE ls_status ls_model_synthetic_batch(const ls_model_type *type,
                                                      int64_t batch_size,
                                                      ls_nest *out_batch);

// ---- Models in a shared library --------------------------------------------
// Table that a shared library of models exports. It begins with fields that
// never change: its own size and version, as the library was compiled with.
typedef struct ls_model_table {
  uint32_t size;
  uint32_t version;    // LS_MODEL_TABLE_VERSION.
  uint32_t type_size;  // Size of an ls_model_type.
  uint32_t count;
  const ls_model_type *const *types;
} ls_model_table;

// Incremented when a field of the two structs changes its meaning or position.
#define LS_MODEL_TABLE_VERSION 1

// The one symbol of such a library, defined by LS_EXPORT_MODELS.
LS_API extern const ls_model_table ls_exported_models;

// Exports models from a shared library, for `lockstep train --model ./mine.so`:
//   LS_EXPORT_MODELS(&my_model, &my_other_model);
#define LS_EXPORT_MODELS(...)                                                  \
  static const ls_model_type *const ls_exported_types[] = {__VA_ARGS__};       \
  const ls_model_table ls_exported_models = {                                  \
      sizeof(ls_model_table), LS_MODEL_TABLE_VERSION, sizeof(ls_model_type),   \
      sizeof(ls_exported_types) / sizeof(ls_exported_types[0]),                \
      ls_exported_types}

// A shared library of models that is loaded: a value, to be closed once.
typedef struct ls_model_library {
  const char *path;  // As passed to ls_model_library_open; lent.
  void *handle;      // The loaded library's, by dlopen.
  const ls_model_type *const *types;  // Models, whose fields are checked.
  size_t count;     // Number of models; 0: it exports other rows only.
  char sha256[65];  // Hash of the file, in hexadecimal.
} ls_model_library;

// Loads a shared library, as `lockstep train --model ./mine.so` does; its
// estimators are found by ls_model_library_estimators
// (lockstep/estimator_table.h), its optimizers by ls_model_library_optimizers
// (lockstep/optimizer_table.h). Its code runs: load no file that you would not
// run.
//   LS_NOT_FOUND         there is no such file.
//   LS_INVALID_ARGUMENT  it is no shared library, exports no table, or one of
//                        another version or of an older Lockstep; a model lacks
//                        a field: names it.
LS_API LS_MUST_USE ls_status
ls_model_library_open(const char *path, ls_model_library *out_library);
// Unloads it and zeroes the value. Destroy its models first, with all functions
// and optimizers that call their code. Zeroed is fine.
LS_API void ls_model_library_close(ls_model_library *library);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_MODELS_H_
