// SPDX-License-Identifier: Apache-2.0
// One more checkpoint of a session, before what it runs on is shut down.
#ifndef LS_TRAIN_HOOKS_LAST_SAVE_H_
#define LS_TRAIN_HOOKS_LAST_SAVE_H_

#include "train/hooks/hook.h"

// A part of a hook for sessions. Zeroed: nothing is saved.
typedef struct ls_last_save {
  bool saves;
  char *folder;  // Where to save without a hook that does; NULL: nowhere.
} ls_last_save;

// `folder` is copied and may be NULL.
LS_MUST_USE ls_status ls_last_save_init(ls_last_save *self, bool saves,
                                        const char *folder);
void ls_last_save_deinit(ls_last_save *self);
// Once there is a session.
//   LS_FAILED_PRECONDITION  something would be saved, and there is no global
//                           step.
LS_MUST_USE ls_status ls_last_save_check(const ls_last_save *self,
                                         const ls_run_context *context);
// Saves by the one hook of the session that does, or in the folder; of several
// hooks none is asked, and the log says so. All is on the disk then.
// `*out_step` is -1 where nothing was saved.
LS_MUST_USE ls_status ls_last_save_now(const ls_last_save *self,
                                       ls_run_context *context,
                                       int64_t *out_step);

#endif  // LS_TRAIN_HOOKS_LAST_SAVE_H_
