// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Estimators for the command: `lockstep train --model ./mine.so` and its kin
// load them from a shared library, which exports a table of them.
//
//   static const ls_estimator_type mine = {
//       .name = "mine",
//       .train = {.call = my_input},
//       .eval = {.call = my_test_input},
//       .options = {.model_fn = {.call = my_model},
//                   .train_batch_size = LS_SOME(256)},
//       .train_steps = 10000};
//   LS_EXPORT_ESTIMATORS(&mine);
//
// Threads: all of it is static data.
#ifndef LOCKSTEP_ESTIMATOR_TABLE_H_
#define LOCKSTEP_ESTIMATOR_TABLE_H_

#include "lockstep/estimator_export.h"
#include "lockstep/models.h"

#ifdef __cplusplus
extern "C" {
#endif

// Description of an estimator, from which the command creates it. Zero in a
// field means its default.
typedef struct ls_estimator_type {
  const char *name;         // Required.
  const char *description;  // Shown by --help.
  // Input for training, evaluation and prediction. Without one the command does
  // not offer that call.
  ls_input_function train, eval, predict;
  // Receiver of exports; without it the command does not export.
  ls_receiver_function receiver;
  // Options as for ls_estimator_create, with defaults for what flags can set:
  // batch sizes. The command sets `config`, `model_dir`, `params`, `use_tpu`
  // and `warm_start` itself and refuses values here.
  ls_estimator_options options;
  ls_tpu_config tpu;  // For runs with --tpu.
  // Default of --steps, in all, of a training and of an evaluation. Default: up
  // to the end of the input.
  int64_t train_steps, eval_steps;
} ls_estimator_type;

// Table that a shared library of estimators exports. It begins with fields that
// never change: its own size and version, as the library was compiled with.
typedef struct ls_estimator_table {
  uint32_t size;
  uint32_t version;    // LS_ESTIMATOR_TABLE_VERSION.
  uint32_t type_size;  // Size of an ls_estimator_type.
  uint32_t count;
  const ls_estimator_type *const *types;
} ls_estimator_table;

// Incremented when a field of the structs changes its meaning or position.
#define LS_ESTIMATOR_TABLE_VERSION 1

// The one symbol of such a library, defined by LS_EXPORT_ESTIMATORS.
LS_API extern const ls_estimator_table ls_exported_estimators;

// Exports estimators from a shared library, for the command; it may export
// models (LS_EXPORT_MODELS) too.
#define LS_EXPORT_ESTIMATORS(...)                                              \
  static const ls_estimator_type *const ls_exported_kinds[] = {__VA_ARGS__};   \
  const ls_estimator_table ls_exported_estimators = {                          \
      sizeof(ls_estimator_table), LS_ESTIMATOR_TABLE_VERSION,                  \
      sizeof(ls_estimator_type),                                               \
      sizeof(ls_exported_kinds) / sizeof(ls_exported_kinds[0]),                \
      ls_exported_kinds}

// Finds the estimators of a library that is loaded (ls_model_library_open in
// lockstep/models.h); none if it exports models only. They last as long as the
// library.
//   LS_INVALID_ARGUMENT  a table of another version or of an older Lockstep; an
//                        estimator without a model function, or with a field
//                        that the command sets.
LS_API LS_MUST_USE ls_status ls_model_library_estimators(
    const ls_model_library *library, const ls_estimator_type *const **out_types,
    size_t *out_count);

// ---- Steps -----------------------------------------------------------------
// A training's step outside of a training, for function_plan.h to print and
// measure.

// Reads the first batch of a training's input: a tuple of features and labels,
// which the caller owns.
//   LS_UNIMPLEMENTED  an input without a data set; an estimator with another
//                     axis of examples than 0, or on a TPU system.
LS_API LS_MUST_USE ls_status
ls_estimator_first_batch(ls_estimator *estimator,
                         const ls_input_function *input, ls_nest *out_batch);

// Calls the model function on a batch, or a replica's part of one: a callback
// of a function (`user` is the estimator) that a strategy runs. The function's
// graph has a global step of its own, and all variables of the step are in its
// collection LS_COLLECTION_GLOBAL_VARIABLES. Returns a dict with "loss".
LS_API ls_nest ls_estimator_step(ls_nest batch, void *estimator);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_TABLE_H_
