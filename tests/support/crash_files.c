// SPDX-License-Identifier: Apache-2.0
#include "support/crash_files.h"

#include "support/expect.h"

static ls_disk_fate step(void *user, bool writes, const char *verb,
                         const char *path) {
  crash_files *files = user;
  (void)verb, (void)path;
  ++files->steps;
  files->user.is_off = files->cut_at > 0 && files->steps > files->cut_at;
  if (files->steps == files->fail_at) return LS_DISK_FAILS;
  return writes && files->full_at > 0 && files->steps >= files->full_at
             ? LS_DISK_IS_FULL
             : LS_DISK_DONE;
}

ls_file_system crash_files_system(crash_files *files) {
  ls_disk_init(&files->disk, ls_allocator_system());
  files->user =
      (ls_disk_user){.disk = &files->disk, .step = step, .user = files};
  return ls_disk_files(&files->user);
}

void crash_files_restart(crash_files *files, ls_disk_kept kept, uint64_t seed) {
  expect_ok(ls_disk_cut(&files->disk, kept, seed));
  files->steps = files->cut_at = files->fail_at = files->full_at = 0;
  files->user.is_off = false;
}

void crash_files_clear(crash_files *files) {
  ls_disk_deinit(&files->disk);
  (void)crash_files_system(files);
}

// Returns a name by its number among those of files; NULL after the last.
static const char *name_of(const crash_files *files, size_t number) {
  const ls_disk_names *now = &files->disk.now;
  for (size_t i = 0; i < now->count; ++i)
    if (ls_disk_find(&files->disk, now->items[i].path) != NULL && number-- == 0)
      return now->items[i].path;
  return NULL;
}

size_t crash_files_count(const crash_files *files) {
  size_t count = 0;
  while (name_of(files, count) != NULL)
    ++count;
  return count;
}

const char *crash_files_path(const crash_files *files, size_t i) {
  return name_of(files, i);
}

const ls_text *crash_files_find(const crash_files *files, const char *path) {
  return ls_disk_find(&files->disk, path);
}

void crash_files_put(crash_files *files, const char *path, const void *data,
                     size_t size) {
  expect_ok(ls_disk_put(&files->disk, path, data, size));
}
