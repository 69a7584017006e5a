// SPDX-License-Identifier: Apache-2.0
#include "support/crash_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"

// ---- Steps -----------------------------------------------------------------
static bool is_off(const crash_files *files) {
  return files->cut_at > 0 && files->steps > files->cut_at;
}

// A step begins: whether it is done, fails, or the power is off.
static ls_status step(crash_files *files, bool writes, const char *path) {
  ++files->steps;
  if (is_off(files)) return LS_STATUS(LS_UNAVAILABLE, "'%s': no power", path);
  if (files->steps == files->fail_at)
    return LS_STATUS(LS_UNAVAILABLE, "'%s': Input/output error", path);
  if (writes && files->full_at > 0 && files->steps >= files->full_at)
    return LS_STATUS(LS_UNAVAILABLE, "'%s': No space left on device", path);
  return ls_ok();
}

// ---- Contents --------------------------------------------------------------
static void assign(crash_bytes *to, const void *data, size_t size) {
  char *copy = malloc(size + 1);
  if (copy == NULL) abort();
  if (size > 0) memcpy(copy, data, size);
  copy[size] = '\0';
  free(to->data);
  *to = (crash_bytes){copy, size};
}

static void write_into(crash_bytes *to, size_t offset, const void *data,
                       size_t size) {
  const size_t end = offset + size;
  if (end > to->size) {
    to->data = realloc(to->data, end + 1);
    if (to->data == NULL) abort();
    memset(to->data + to->size, 0, end + 1 - to->size);
    to->size = end;
  }
  if (size > 0) memcpy(to->data + offset, data, size);
}

static int new_inode(crash_files *files) {
  crash_inode *grown =
      realloc(files->inodes, (files->num_inodes + 1) * sizeof(*grown));
  if (grown == NULL) abort();
  files->inodes = grown;
  crash_inode *added = &grown[files->num_inodes];
  *added = (crash_inode){0};
  assign(&added->now, "", 0);
  assign(&added->synced, "", 0);
  return (int)files->num_inodes++;
}

static void sync_inode(crash_inode *inode) {
  assign(&inode->synced, inode->now.data, inode->now.size);
}

// ---- Names -----------------------------------------------------------------
static crash_names *names(const crash_files *files) {
  return (crash_names *)&files->history[files->newest];
}

static int find(const crash_files *files, const char *path) {
  const crash_names *now = names(files);
  for (size_t i = 0; i < now->count; ++i)
    if (strcmp(now->items[i].path, path) == 0) return now->items[i].inode;
  return -1;
}

// The names, to be changed: those before stay known.
static crash_names *change_names(crash_files *files) {
  if (files->newest + 1 == CRASH_HISTORY_MOST) abort();
  files->history[files->newest + 1] = files->history[files->newest];
  return &files->history[++files->newest];
}

static void sync_names(crash_files *files) {
  files->history[0] = files->history[files->newest];
  files->newest = 0;
}

static void unlink_name(crash_names *all, const char *path) {
  for (size_t i = 0; i < all->count; ++i) {
    if (strcmp(all->items[i].path, path) == 0) {
      all->items[i] = all->items[--all->count];
      return;
    }
  }
}

static void link_name(crash_names *all, const char *path, int inode) {
  unlink_name(all, path);
  if (all->count == CRASH_NAMES_MOST) abort();
  struct crash_name *added = &all->items[all->count++];
  snprintf(added->path, sizeof(added->path), "%s", path);
  added->inode = inode;
}

static void rename_one(crash_files *files, const char *from, const char *to) {
  const int inode = find(files, from);
  crash_names *all = change_names(files);
  unlink_name(all, from);
  link_name(all, to, inode);
}

// ---- Whole files -----------------------------------------------------------
static ls_status read(void *user, const char *path, size_t most,
                      ls_allocator *allocator, char **out_data,
                      size_t *out_size) {
  crash_files *files = user;
  *out_data = NULL;
  *out_size = 0;
  LS_RETURN_IF_ERROR(step(files, false, path));
  const int inode = find(files, path);
  if (inode < 0) return ls_not_found("there is no '%s'", path);
  const crash_bytes *now = &files->inodes[inode].now;
  if (now->size > most) return ls_invalid_argument("'%s' is too long", path);
  *out_data = ls_copy_text(allocator, now->data, now->size);
  if (*out_data == NULL) return ls_out_of_memory();
  *out_size = now->size;
  return ls_ok();
}

static ls_status exists(void *user, const char *path, bool *out_exists) {
  LS_RETURN_IF_ERROR(step(user, false, path));
  *out_exists = find(user, path) >= 0;
  return ls_ok();
}

static void aside_of(const char *path, char aside[160]) {
  snprintf(aside, 160, "%s.tmp", path);
}

// The file aside, empty.
static int make_aside(crash_files *files, const char *aside) {
  int inode = find(files, aside);
  if (inode < 0) {
    inode = new_inode(files);
    link_name(change_names(files), aside, inode);
  }
  assign(&files->inodes[inode].now, "", 0);
  return inode;
}

// Syncs a file, moves it to its place and syncs the folder. One that cannot be
// moved is taken away.
static ls_status move_to_place(crash_files *files, int inode, const char *aside,
                               const char *path) {
  ls_status status = step(files, true, path);
  if (ls_status_is_ok(status)) {
    sync_inode(&files->inodes[inode]);
    status = step(files, true, path);
  }
  if (!ls_status_is_ok(status)) {
    if (!is_off(files)) unlink_name(change_names(files), aside);
    return status;
  }
  rename_one(files, aside, path);
  LS_RETURN_IF_ERROR(step(files, false, path));
  sync_names(files);
  return ls_ok();
}

static ls_status write(void *user, const char *path, const void *data,
                       size_t size) {
  crash_files *files = user;
  char aside[160];
  aside_of(path, aside);
  LS_RETURN_IF_ERROR(step(files, true, path));
  const int inode = make_aside(files, aside);
  const ls_status status = step(files, true, path);
  write_into(&files->inodes[inode].now, 0, data,
             ls_status_is_ok(status) ? size : size / 2);
  if (ls_status_is_ok(status)) return move_to_place(files, inode, aside, path);
  if (!is_off(files)) unlink_name(change_names(files), aside);
  return status;
}

static ls_status make_directories(void *user, const char *path) {
  return step(user, true, path);
}

static ls_status remove_one(void *user, const char *path) {
  crash_files *files = user;
  LS_RETURN_IF_ERROR(step(files, false, path));
  if (find(files, path) < 0) return ls_not_found("there is no '%s'", path);
  unlink_name(change_names(files), path);
  // A system syncs by itself from time to time.
  if (files->newest > CRASH_HISTORY_MOST / 2) sync_names(files);
  return ls_ok();
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const ls_file_entry *)a)->name,
                ((const ls_file_entry *)b)->name);
}

static ls_status list(void *user, const char *path, ls_allocator *allocator,
                      ls_file_entry **out_entries, size_t *out_count) {
  crash_files *files = user;
  const size_t length = strlen(path);
  *out_count = 0;
  LS_RETURN_IF_ERROR(step(files, false, path));
  ls_file_entry *entries = ls_allocate(
      allocator,
      CRASH_NAMES_MOST * (sizeof(*entries) + sizeof(*files->history->items)));
  if (entries == NULL) return ls_out_of_memory();
  char *at = (char *)(entries + CRASH_NAMES_MOST);
  const crash_names *now = names(files);
  for (size_t i = 0; i < now->count; ++i) {
    const char *name = now->items[i].path;
    if (strncmp(name, path, length) != 0 || name[length] != '/') continue;
    strcpy(at, name + length + 1);
    entries[(*out_count)++] = (ls_file_entry){at, false};
    at += strlen(at) + 1;
  }
  qsort(entries, *out_count, sizeof(*entries), by_name);
  *out_entries = entries;
  return ls_ok();
}

// ---- In parts --------------------------------------------------------------
typedef struct opened {
  char path[120];
  int inode;
  bool joined;
} opened;

static opened *open_inode(const char *path, int inode, bool joined) {
  opened *made = malloc(sizeof(*made));
  if (made == NULL) abort();
  *made = (opened){.inode = inode, .joined = joined};
  snprintf(made->path, sizeof(made->path), "%s", path);
  return made;
}

static ls_status open_parts(void *user, const char *path, void **out_file,
                            ls_file_info *out_info) {
  crash_files *files = user;
  *out_file = NULL;
  LS_RETURN_IF_ERROR(step(files, false, path));
  const int inode = find(files, path);
  if (inode < 0) return ls_not_found("there is no '%s'", path);
  out_info->size = (int64_t)files->inodes[inode].now.size;
  *out_file = open_inode(path, inode, false);
  return ls_ok();
}

static ls_status read_at(void *user, void *file, int64_t offset, void *data,
                         size_t size, size_t *out_size) {
  crash_files *files = user;
  const opened *self = file;
  *out_size = 0;
  LS_RETURN_IF_ERROR(step(files, false, self->path));
  const crash_bytes *now = &files->inodes[self->inode].now;
  if ((size_t)offset >= now->size) return ls_ok();
  const size_t left = now->size - (size_t)offset;
  *out_size = size < left ? size : left;
  memcpy(data, now->data + offset, *out_size);
  return ls_ok();
}

static void close_file(void *user, void *file) {
  (void)user;
  free(file);
}

static ls_status create(void *user, const char *path, bool join,
                        void **out_file) {
  crash_files *files = user;
  char aside[160];
  *out_file = NULL;
  aside_of(path, aside);
  LS_RETURN_IF_ERROR(step(files, true, path));
  if (join && find(files, aside) < 0)
    return ls_not_found("nobody writes '%s'", path);
  const int inode = join ? find(files, aside) : make_aside(files, aside);
  *out_file = open_inode(path, inode, join);
  return ls_ok();
}

static ls_status write_at(void *user, void *file, int64_t offset,
                          const void *data, size_t size) {
  crash_files *files = user;
  const opened *self = file;
  const ls_status status = step(files, true, self->path);
  if (is_off(files)) return status;
  write_into(&files->inodes[self->inode].now, (size_t)offset, data,
             ls_status_is_ok(status) ? size : size / 2);
  return status;
}

static ls_status sync_file(void *user, void *file) {
  crash_files *files = user;
  const opened *self = file;
  LS_RETURN_IF_ERROR(step(files, true, self->path));
  sync_inode(&files->inodes[self->inode]);
  return ls_ok();
}

static ls_status finish(void *user, void *file, bool keep) {
  crash_files *files = user;
  opened *self = file;
  ls_status status = ls_ok();
  if (self == NULL) return status;
  char aside[160];
  aside_of(self->path, aside);
  if (self->joined) {
    if (keep) status = sync_file(files, self);
  } else if (keep) {
    status = move_to_place(files, self->inode, aside, self->path);
  } else {
    ls_status_free(step(files, false, self->path));
    if (!is_off(files)) unlink_name(change_names(files), aside);
  }
  free(self);
  return status;
}

ls_file_system crash_files_system(crash_files *files) {
  return (ls_file_system){.read = read,
                          .exists = exists,
                          .write = write,
                          .make_directories = make_directories,
                          .remove = remove_one,
                          .user = files,
                          .open = open_parts,
                          .read_at = read_at,
                          .close = close_file,
                          .list = list,
                          .create = create,
                          .write_at = write_at,
                          .sync = sync_file,
                          .finish = finish};
}

// ---- Power -----------------------------------------------------------------
static uint64_t draw(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

// Some blocks are what was written last, some what was synced or nothing.
static void mix(crash_inode *inode, uint64_t *seed) {
  enum { BLOCK = 64 };
  const crash_bytes *as = draw(seed) % 2 ? &inode->now : &inode->synced;
  const size_t size = as->size;
  char *mixed = calloc(1, size + 1);
  if (mixed == NULL) abort();
  for (size_t at = 0; at < size; at += BLOCK) {
    const crash_bytes *from = draw(seed) % 2 ? &inode->now : &inode->synced;
    const size_t left = from->size > at ? from->size - at : 0;
    const size_t some = size - at < BLOCK ? size - at : BLOCK;
    memcpy(mixed + at, from->data + at, left < some ? left : some);
  }
  free(inode->now.data);
  inode->now = (crash_bytes){mixed, size};
}

void crash_files_restart(crash_files *files, crash_kept kept, uint64_t seed) {
  size_t names_kept = 0;
  if (kept == CRASH_ALL) names_kept = files->newest;
  if (kept == CRASH_SOME) names_kept = draw(&seed) % (files->newest + 1);
  files->newest = names_kept;
  sync_names(files);
  for (size_t i = 0; i < files->num_inodes; ++i) {
    crash_inode *it = &files->inodes[i];
    if (kept == CRASH_NOTHING)
      assign(&it->now, it->synced.data, it->synced.size);
    if (kept == CRASH_SOME) mix(it, &seed);
    sync_inode(it);
  }
  files->steps = files->cut_at = files->fail_at = files->full_at = 0;
}

void crash_files_clear(crash_files *files) {
  for (size_t i = 0; i < files->num_inodes; ++i) {
    free(files->inodes[i].now.data);
    free(files->inodes[i].synced.data);
  }
  free(files->inodes);
  *files = (crash_files){0};
}

// ---- What is there ---------------------------------------------------------
size_t crash_files_count(const crash_files *files) {
  return names(files)->count;
}

const char *crash_files_path(const crash_files *files, size_t i) {
  return names(files)->items[i].path;
}

const crash_bytes *crash_files_find(const crash_files *files,
                                    const char *path) {
  const int inode = find(files, path);
  return inode < 0 ? NULL : &files->inodes[inode].now;
}

void crash_files_put(crash_files *files, const char *path, const void *data,
                     size_t size) {
  const int inode = new_inode(files);
  assign(&files->inodes[inode].now, data, size);
  sync_inode(&files->inodes[inode]);
  link_name(change_names(files), path, inode);
  sync_names(files);
}
