// SPDX-License-Identifier: Apache-2.0
// Lock of a run folder, which has one writer at a time: its file `lock` names
// the process that holds it.
#ifndef LS_TRAIN_FOLDER_FOLDER_LOCK_H_
#define LS_TRAIN_FOLDER_FOLDER_LOCK_H_

#include "base/memory/own.h"
#include "base/runtime_internal.h"

// Zeroed: not held.
typedef struct ls_folder_lock {
  const ls_file_system *files;  // NULL: not held.
  void *handle;
} ls_folder_lock;

// Locks an existing folder; does nothing if its files cannot be locked.
//   LS_FAILED_PRECONDITION  another one holds it: names the process.
LS_MUST_USE ls_status ls_folder_lock_take(ls_folder_lock *lock,
                                          ls_runtime *runtime,
                                          const char *folder);
void ls_folder_lock_release(ls_folder_lock *lock);  // Accepts zeroed locks.
LS_OWNED_STRUCT(ls_folder_lock, ls_folder_lock_release)

#endif  // LS_TRAIN_FOLDER_FOLDER_LOCK_H_
