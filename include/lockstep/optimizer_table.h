// SPDX-License-Identifier: Apache-2.0
// Layer: models
//
// Optimizers for the command: `lockstep train --optimizer ./mine.so` loads them
// from a shared library, which exports a table of their rules.
//
//   static const ls_optimizer_rule sign = {.name = "sign",
//                                          .learning_rate = 0.01,
//                                          .slots = {{.name = "momentum"}},
//                                          .update = sign_update};
//   LS_EXPORT_OPTIMIZERS(&sign);
//
// Threads: all of it is static data.
#ifndef LOCKSTEP_OPTIMIZER_TABLE_H_
#define LOCKSTEP_OPTIMIZER_TABLE_H_

#include "lockstep/models.h"

#ifdef __cplusplus
extern "C" {
#endif

// Table that a shared library of optimizers exports. It begins with fields that
// never change: its own size and version, as the library was compiled with.
typedef struct ls_optimizer_table {
  uint32_t size;
  uint32_t version;    // LS_OPTIMIZER_TABLE_VERSION.
  uint32_t type_size;  // Size of an ls_optimizer_rule.
  uint32_t count;
  const ls_optimizer_rule *const *types;
} ls_optimizer_table;

// Incremented when a field of the structs changes its meaning or position.
#define LS_OPTIMIZER_TABLE_VERSION 1

// The one symbol of such a library, defined by LS_EXPORT_OPTIMIZERS.
LS_API extern const ls_optimizer_table ls_exported_optimizers;

// Exports optimizers from a shared library, for the command; it may export
// models (LS_EXPORT_MODELS) and estimators too. Each rule is that of
// ls_optimizer_create_own, whose `user` is NULL.
#define LS_EXPORT_OPTIMIZERS(...)                                              \
  static const ls_optimizer_rule *const ls_exported_rules[] = {__VA_ARGS__};   \
  const ls_optimizer_table ls_exported_optimizers = {                          \
      sizeof(ls_optimizer_table), LS_OPTIMIZER_TABLE_VERSION,                  \
      sizeof(ls_optimizer_rule),                                               \
      sizeof(ls_exported_rules) / sizeof(ls_exported_rules[0]),                \
      ls_exported_rules}

// Finds the optimizers of a library that is loaded (ls_model_library_open in
// lockstep/models.h); none if it exports other rows only. They last as long as
// the library, and optimizers that are made of them must end before it.
//   LS_INVALID_ARGUMENT  a table of another version or of an older Lockstep; a
//                        rule without a name.
LS_API LS_MUST_USE ls_status ls_model_library_optimizers(
    const ls_model_library *library, const ls_optimizer_rule *const **out_rules,
    size_t *out_count);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_OPTIMIZER_TABLE_H_
