// SPDX-License-Identifier: Apache-2.0
#include "train/folder/folder_lock.h"

#include "base/text.h"

ls_status ls_folder_lock_take(ls_folder_lock *lock, ls_runtime *runtime,
                              const char *folder) {
  const ls_file_system *files = ls_runtime_files(runtime);
  if (files->lock == NULL) return ls_ok();
  LS_OWN(ls_text, path) = {.allocator = ls_runtime_allocator(runtime)};
  ls_text_append_format(&path, "%s/lock", folder);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  LS_RETURN_IF_ERROR(ls_status_annotate(
      files->lock(files->user, ls_text_data(&path), &lock->handle),
      "a run folder has one writer at a time"));
  lock->files = files;
  return ls_ok();
}

void ls_folder_lock_release(ls_folder_lock *lock) {
  if (lock->files != NULL) lock->files->unlock(lock->files->user, lock->handle);
  *lock = (ls_folder_lock){0};
}
