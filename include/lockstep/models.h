// SPDX-License-Identifier: Apache-2.0
// Layer: models
//
// The reference models, as a table. Each is written as a user would, with this
// library's public headers only, and any program can make a table row of its
// own.
//
// Threads: a table row is static data; a model is used as the layers and the
// optimizer that it is made of.
#ifndef LOCKSTEP_MODELS_H_
#define LOCKSTEP_MODELS_H_

#include "lockstep/function.h"
#include "lockstep/optimizers.h"

#ifdef __cplusplus
extern "C" {
#endif

// How to make a model. Zero in a field means its default; ls_model_create calls
// a type's `create` with dtype and rate filled in.
typedef struct ls_model_options {
  int64_t seed;             // Of the first values of its weights.
  ls_dtype dtype;           // Of its weights and arithmetic. Default f32.
  ls_optimizer *optimizer;  // Lent; the model retains it. Default: its own,
  double learning_rate;     //   with this rate (default: the model's) that
  int64_t decay_steps;      //   falls to 0 over so many. Default: it stays.
  bool metrics;             // A training step also computes the accuracy.
} ls_model_options;

// A kind of model: static data. `self` is what `create` made.
typedef struct ls_model_type {
  const char *name;
  const char *description;
  int64_t batch_size;      // Default of a global batch.
  int64_t epochs;          // Default of a training run.
  double learning_rate;    // Default.
  ls_dtype example_dtype;  // f32, or i32 for numbers of tokens. Default f32.
  ls_shape example_shape;  // Of one example.
  ls_shape label_shape;    // Of its labels, which are i32. Default: a scalar.
  int64_t num_classes;     // Labels are 0 to this minus one.
  // Multiplications and additions of all products in a training step, without
  // the gradient of the examples.
  double flops_per_example;
  ls_status (*create)(const ls_model_options *options, void **out_self);
  void (*destroy)(void *self);  // NULL is fine.
  // One step: args are (examples, labels); the result is a dict of scalars,
  // means over the examples: "loss", and "accuracy" if asked for.
  ls_nest (*train_step)(ls_nest args, void *self);
  // args are (examples, ...); the result is the logits: a dimension of
  // `num_classes` behind the batch and the label's shape. As in use: no
  // dropout, and statistics as they were averaged.
  ls_nest (*logits)(ls_nest args, void *self);
  // All that it computes from, lent, what is trained and what is averaged
  // along the way; writes up to `capacity` and returns their number.
  size_t (*variables)(void *self, ls_variable **variables, size_t capacity);
  // Lent.
  ls_optimizer *(*optimizer)(void *self);
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
//   LS_INVALID_ARGUMENT  a dtype that is no float, or a rate beside an
//                        optimizer, which has its own.
//   LS_NOT_FOUND         the type is NULL: lists those of the table.
LS_API LS_MUST_USE ls_status ls_model_create(const ls_model_type *type,
                                             const ls_model_options *options,
                                             ls_model *out_model);
LS_API void ls_model_destroy(ls_model *model);  // Zeroed is fine.

// A made-up batch that fits the model, of ls_dataset_synthetic: a tuple of
// examples and labels. The caller owns it.
//   LS_UNIMPLEMENTED  labels of a shape that such data do not have.
//   LS_NOT_FOUND      as ls_model_create.
LS_API LS_MUST_USE ls_status ls_model_synthetic_batch(const ls_model_type *type,
                                                      int64_t batch_size,
                                                      ls_nest *out_batch);

// ---- Models in a shared library --------------------------------------------
// What a shared library of models exports. It begins with what never changes:
// its own size and version, as the library was compiled with.
typedef struct ls_model_table {
  uint32_t size;
  uint32_t version;    // LS_MODEL_TABLE_VERSION.
  uint32_t type_size;  // Of an ls_model_type.
  uint32_t count;
  const ls_model_type *const *types;
} ls_model_table;

// Grows when a field of the two structs changes its meaning or place.
#define LS_MODEL_TABLE_VERSION 1

// The one symbol of such a library, defined by LS_EXPORT_MODELS.
LS_API extern const ls_model_table ls_exported_models;

// Makes a shared library one that `lockstep train --model ./mine.so` takes:
//   LS_EXPORT_MODELS(&my_model, &my_other_model);
#define LS_EXPORT_MODELS(...)                                                  \
  static const ls_model_type *const ls_exported_types[] = {__VA_ARGS__};       \
  const ls_model_table ls_exported_models = {                                  \
      sizeof(ls_model_table), LS_MODEL_TABLE_VERSION, sizeof(ls_model_type),   \
      sizeof(ls_exported_types) / sizeof(ls_exported_types[0]),                \
      ls_exported_types}

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_MODELS_H_
