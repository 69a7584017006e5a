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
// The same, but for variables that have started with what the file of this
// number holds.
LS_MUST_USE ls_status ls_saver_restore_but(const ls_saver *saver,
                                           const ls_safetensors_file *file,
                                           uint64_t started);
// Whether that would find all it needs, of the right types.
LS_MUST_USE ls_status ls_saver_check(const ls_saver *saver,
                                     const ls_safetensors_file *file);

// ---- What both do ----------------------------------------------------------
const char *ls_saver_name(const ls_saver *saver, size_t index);
// Checks the saver and finds whose values are meant.
LS_MUST_USE ls_status ls_saver_open(const ls_saver *saver,
                                    ls_store **out_store);
// The entry of one component: a name that no variable has. NULL: no memory.
const char *ls_saver_part_name(ls_arena *arena, const char *name, size_t part);

#endif  // LS_STATE_SAVER_FILE_H_
