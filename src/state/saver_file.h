// SPDX-License-Identifier: Apache-2.0
//
// Savers for the layers above, whose files hold notes as well.
#ifndef LS_STATE_SAVER_FILE_H_
#define LS_STATE_SAVER_FILE_H_

#include "io/safetensors.h"
#include "lockstep/saver.h"

// ls_saver_save, with notes in the file's header.
LS_MUST_USE ls_status ls_saver_save_with(const ls_saver *saver,
                                         const char *path,
                                         const ls_safetensors_note *notes,
                                         size_t num_notes);
// ls_saver_restore from a file that was read already; `path` is what messages
// call it.
LS_MUST_USE ls_status ls_saver_restore_from(const ls_saver *saver,
                                            const ls_safetensors *file,
                                            const char *path);

#endif  // LS_STATE_SAVER_FILE_H_
