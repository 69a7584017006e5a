// SPDX-License-Identifier: Apache-2.0
// Savers, for layers above whose files hold more than variables, and for
// checkpoints.
#ifndef LS_STATE_SAVER_FILE_H_
#define LS_STATE_SAVER_FILE_H_

#include "base/memory/own.h"
#include "io/safetensors.h"
#include "lockstep/saver.h"
#include "runtime/store.h"

// Saves like ls_saver_save, with notes in the file's header.
LS_MUST_USE ls_status ls_saver_save_with(const ls_saver *saver,
                                         const char *path,
                                         const ls_safetensors_note *notes,
                                         size_t num_notes);
// Restores like ls_saver_restore, from an open file.
LS_MUST_USE ls_status ls_saver_restore_from(const ls_saver *saver,
                                            const ls_safetensors_file *file);

// ---- Sources of values -----------------------------------------------------
// A source of values: a safetensors file, or another kind. Everything is lent.
typedef struct ls_value_source {
  ls_runtime *runtime;
  const char *path;                     // For messages.
  const ls_safetensors_entry *entries;  // `offset` is interpreted by `get`.
  size_t num_entries;
  // The entries in the order of their names, for many look-ups; NULL: unknown.
  const ls_safetensors_entry *const *by_name;
  const void *self;
  // Reads entries' elements, each to the `data` of its request, on all workers;
  // without data only finds out if an entry is damaged or unreadable.
  ls_status (*get)(const void *self, ls_workers *workers,
                   ls_safetensors_wish *wishes, size_t count, ls_sums sums);
  bool is_checked;  // All entries were found to be intact.
} ls_value_source;
ls_value_source ls_value_source_of(const ls_safetensors_file *file);
// Sets `by_name`, in the arena.
LS_MUST_USE ls_status ls_value_source_sort(ls_value_source *source,
                                           ls_arena *arena);
// Returns the entry of this name, or NULL.
const ls_safetensors_entry *ls_value_source_find(const ls_value_source *source,
                                                 const char *name);
// Reads one entry's elements.
LS_MUST_USE ls_status ls_value_source_get(const ls_value_source *source,
                                          const ls_safetensors_entry *entry,
                                          void *data);
// Returns the entry "w" for a name such as "w:1"; NULL if there is none, and for
// other names.
const ls_safetensors_entry *ls_value_source_whole(const ls_value_source *source,
                                                  const char *name);
// Restores like ls_saver_restore_part, except for variables that were
// initialized from file number `started`. `report` may be NULL.
LS_MUST_USE ls_status ls_saver_restore_source(const ls_saver *saver,
                                              const ls_value_source *source,
                                              const ls_value_choice *choice,
                                              uint64_t started,
                                              ls_value_report *report);

// ---- Names -----------------------------------------------------------------
const char *ls_saver_name(const ls_saver *saver, size_t index);
// Checks the saver and finds the store of its values. Values that wait for a
// first use are stored.
LS_MUST_USE ls_status ls_saver_open(const ls_saver *saver,
                                    ls_store **out_store);
// Returns the entry name of one component, which no variable has; NULL without
// memory.
const char *ls_saver_part_name(ls_arena *arena, const char *name, size_t part);
// Returns the length of the variable's part of such a name, 0 for another name.
size_t ls_saver_part_of(const char *name);

// Chooses names by patterns and maps them (names.c). Everything is lent.
typedef struct ls_name_choice {
  const char *const *only;  // Patterns; NULL: all names.
  size_t num_only;
  const char *const *except;
  size_t num_except;
  const ls_name_map *maps;
  size_t num_maps;
  bool back;         // Maps names of `to` to those of `from`.
  const char *noun;  // Noun for messages: "variable".
} ls_name_choice;

// Checks that each pattern and each map fits at least one of these names.
//   LS_INVALID_ARGUMENT  names the one that does not, or is malformed
LS_MUST_USE ls_status ls_name_choice_check(const ls_name_choice *choice,
                                           const char *const *names,
                                           size_t count);
// Returns true if a name is chosen.
bool ls_name_is_chosen(const ls_name_choice *choice, const char *name);
// Maps a name by the first map that fits, else to itself. NULL without memory.
const char *ls_name_map_to(const ls_name_choice *choice, ls_arena *arena,
                           const char *name);

// ---- Values of variables in a store ----------------------------------------
// Returns a variable's value as an array that the caller owns; NULL with OK:
// nothing to save. A file holds one value for all components, by the variable's
// rules.
LS_MUST_USE ls_status ls_state_read(ls_store *store, ls_variable *variable,
                                    ls_array **out_value);
// Returns the first target of a handle; other variables unchanged.
ls_variable *ls_state_of(ls_variable *variable);
// Returns true if there is something to save, which eager components without
// values do not have. Not for handles.
bool ls_state_is_saved(const ls_store *store, const ls_variable *variable);
// Sets the variable, or all targets of a handle, to a value of its type.
LS_MUST_USE ls_status ls_state_write(ls_store *store, ls_variable *variable,
                                     const ls_array *value);
// Returns the number of components that have their own values, which may
// differ.
size_t ls_state_parts(const ls_store *store, const ls_variable *variable);

// ---- Plan of a restore -----------------------------------------------------
// An entry's kernel, [outputs, inputs, spatial].
typedef struct ls_kernel_layout {
  int64_t outputs, inputs, spatial;
} ls_kernel_layout;

// Plan of a restore: chooses the entry of each variable before anything is set.
typedef struct ls_restore_plan {
  const ls_saver *saver;
  const ls_value_source *source;  // Sorted.
  uint64_t started;  // Variables initialized from this file are skipped.
  ls_store *store;
  ls_arena arena;
  // Per variable: its name, its entry's name, and the entry, NULL if the
  // variable keeps its value.
  const char **variables, **names;
  const ls_safetensors_entry **entries;
  ls_kernel_layout *layouts;  // Per variable; zero: the variable's own.
  bool *taken;                // Per entry: true if some variable takes it.
  ls_value_report report;
  ls_status fault;  // The first fault.
  size_t num_faults;
} ls_restore_plan;

// Makes a plan. `choice` may be NULL; saver and source are lent for the plan's
// life.
//   errors as of ls_saver_restore_part
LS_MUST_USE ls_status ls_restore_plan_make(const ls_saver *saver,
                                           const ls_value_source *source,
                                           const ls_value_choice *choice,
                                           uint64_t started,
                                           ls_restore_plan *out_plan);
LS_MUST_USE ls_status ls_restore_plan_run(const ls_restore_plan *plan);
void ls_restore_plan_deinit(ls_restore_plan *plan);  // Accepts a zeroed plan.
LS_OWNED_STRUCT(ls_restore_plan, ls_restore_plan_deinit)

// Copies a kernel [outputs, inputs, ...] to [..., inputs, outputs].
void ls_layout_permute(const ls_kernel_layout *layout, size_t element_size,
                       const void *from, void *to);

#endif  // LS_STATE_SAVER_FILE_H_
