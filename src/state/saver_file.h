// SPDX-License-Identifier: Apache-2.0
//
// Savers for the layers above, whose files hold more than variables, and for
// checkpoints.
#ifndef LS_STATE_SAVER_FILE_H_
#define LS_STATE_SAVER_FILE_H_

#include "io/safetensors.h"
#include "lockstep/saver.h"
#include "runtime/store.h"

// ls_saver_save, with notes in the file's header.
LS_MUST_USE ls_status ls_saver_save_with(const ls_saver *saver,
                                         const char *path,
                                         const ls_safetensors_note *notes,
                                         size_t num_notes);
// ls_saver_restore from a file that was opened already.
LS_MUST_USE ls_status ls_saver_restore_from(const ls_saver *saver,
                                            const ls_safetensors_file *file);

// ---- Where values come from ------------------------------------------------
// A safetensors file, or another kind. All is lent.
typedef struct ls_value_source {
  ls_runtime *runtime;
  const char *path;                     // For messages.
  const ls_safetensors_entry *entries;  // Their offsets are `get`'s.
  size_t num_entries;
  const void *self;
  // Reads entries' elements, each to its wish's `data`, on all workers.
  ls_status (*get)(const void *self, ls_workers *workers,
                   ls_safetensors_wish *wishes, size_t count);
  // Reads them and keeps nothing: what cannot be read, or is damaged, is found.
  // NULL: that has been done.
  ls_status (*check)(const void *self, ls_workers *workers,
                     ls_safetensors_wish *wishes, size_t count);
  // Reads as `get` does, without computing the checksums that `check` has just
  // compared.
  ls_status (*get_checked)(const void *self, ls_workers *workers,
                           ls_safetensors_wish *wishes, size_t count);
} ls_value_source;
ls_value_source ls_value_source_of(const ls_safetensors_file *file);
// The entry of this name; NULL without one.
const ls_safetensors_entry *ls_value_source_find(const ls_value_source *source,
                                                 const char *name);
// Reads one entry's elements.
LS_MUST_USE ls_status ls_value_source_get(const ls_value_source *source,
                                          const ls_safetensors_entry *entry,
                                          void *data);
// Whether "w:1" belongs to an entry 'w'.
bool ls_value_source_is_part(const ls_value_source *source, const char *name);
// ls_saver_restore_part from it, but for variables that have started with what
// the file of this number holds. `report` may be NULL.
LS_MUST_USE ls_status ls_saver_restore_source(const ls_saver *saver,
                                              const ls_value_source *source,
                                              const ls_value_choice *choice,
                                              uint64_t started,
                                              ls_value_report *report);

// ---- What both do ----------------------------------------------------------
const char *ls_saver_name(const ls_saver *saver, size_t index);
// Checks the saver and finds whose values are meant.
LS_MUST_USE ls_status ls_saver_open(const ls_saver *saver,
                                    ls_store **out_store);
// The entry of one component: a name that no variable has. NULL: no memory.
const char *ls_saver_part_name(ls_arena *arena, const char *name, size_t part);
// How much of such a name is the variable's; 0: it is another name.
size_t ls_saver_part_of(const char *name);

#endif  // LS_STATE_SAVER_FILE_H_
