// SPDX-License-Identifier: Apache-2.0
// What a restore is going to do: which entry each variable takes. It is made
// before anything is set.
#ifndef LS_STATE_RESTORE_PLAN_H_
#define LS_STATE_RESTORE_PLAN_H_

#include "base/memory/own.h"
#include "state/saver_file.h"

typedef struct ls_restore_plan {
  const ls_saver *saver;
  const ls_value_source *source;
  uint64_t started;  // Variables that started with this one are let be.
  ls_store *store;
  ls_arena arena;
  // Of each variable: its name, its entry's, and that; NULL: it keeps its
  // value.
  const char **variables, **names;
  const ls_safetensors_entry **entries;
  bool *taken;  // Of each entry.
  ls_value_report report;
  ls_status fault;  // The first,
  size_t faults;    // of so many.
} ls_restore_plan;

// `choice` may be NULL; saver and source are lent for the plan's life.
//   as ls_saver_restore_part says
LS_MUST_USE ls_status ls_restore_plan_make(const ls_saver *saver,
                                           const ls_value_source *source,
                                           const ls_value_choice *choice,
                                           uint64_t started,
                                           ls_restore_plan *out_plan);
LS_MUST_USE ls_status ls_restore_plan_run(const ls_restore_plan *plan);
void ls_restore_plan_deinit(ls_restore_plan *plan);  // Zeroed is fine.
LS_OWNED_STRUCT(ls_restore_plan, ls_restore_plan_deinit)

// Whether an entry can be the variable's value.
bool ls_restore_fits(const ls_variable *variable,
                     const ls_safetensors_entry *entry);

#endif  // LS_STATE_RESTORE_PLAN_H_
