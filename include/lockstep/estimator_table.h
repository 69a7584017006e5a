// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Estimators for the command: `lockstep train --model ./mine.so` and its kin
// take them from a shared library, which exports a table of them.
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

#ifdef __cplusplus
extern "C" {
#endif

// What the command makes an estimator of. Zero in a field means its default.
typedef struct ls_estimator_type {
  const char *name;         // Required.
  const char *description;  // Shown by --help.
  // Input to train, to evaluate and to predict with. Without one the command
  // does not do that.
  ls_input_function train, eval, predict;
  ls_receiver_function receiver;  // Of exports; the same.
  // As of ls_estimator_create, with defaults for what flags may say: batch
  // sizes. Refused, since it is the command's: `config`, `model_dir`, `params`,
  // `use_tpu` and `warm_start`.
  ls_estimator_options options;
  ls_tpu_config tpu;  // Of runs with --tpu.
  // Default of --steps: of a training in all, of an evaluation. Default: up to
  // the end of the input.
  int64_t train_steps, eval_steps;
} ls_estimator_type;

// What a shared library of estimators exports. It begins with what never
// changes: its own size and version, as the library was compiled with.
typedef struct ls_estimator_table {
  uint32_t size;
  uint32_t version;    // LS_ESTIMATOR_TABLE_VERSION.
  uint32_t type_size;  // Of an ls_estimator_type.
  uint32_t count;
  const ls_estimator_type *const *types;
} ls_estimator_table;

// Grows when a field of the structs changes its meaning or place.
#define LS_ESTIMATOR_TABLE_VERSION 1

// The one symbol of such a library, defined by LS_EXPORT_ESTIMATORS.
LS_API extern const ls_estimator_table ls_exported_estimators;

// Makes a shared library one that the command takes; it may export models
// (LS_EXPORT_MODELS) too.
#define LS_EXPORT_ESTIMATORS(...)                                              \
  static const ls_estimator_type *const ls_exported_kinds[] = {__VA_ARGS__};   \
  const ls_estimator_table ls_exported_estimators = {                          \
      sizeof(ls_estimator_table), LS_ESTIMATOR_TABLE_VERSION,                  \
      sizeof(ls_estimator_type),                                               \
      sizeof(ls_exported_kinds) / sizeof(ls_exported_kinds[0]),                \
      ls_exported_kinds}

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_TABLE_H_
