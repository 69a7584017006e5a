// SPDX-License-Identifier: Apache-2.0
#include "base/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"

enum { REMOVED = -1, MOVED = -2 };  // In place of a name's node.

struct ls_disk_node {
  ls_text now, synced;
  bool is_folder;
  const ls_disk_user *holder;  // Holds it as a lock, unless it has ended.
};

static ls_disk *disk_of(const void *user) {
  return ((const ls_disk_user *)user)->disk;
}

// Begins a step: returns OK if it is to be done.
static ls_status begin_step(void *context, bool writes, const char *verb,
                            const char *path) {
  static const char *const reasons[] = {NULL, "Input/output error",
                                        "No space left on device", "no power"};
  ls_disk_user *user = context;
  int fate = LS_DISK_DONE;
  if (!user->is_off && user->step != NULL)
    fate = (int)user->step(user->user, writes, verb, path);
  if (user->is_off) fate = 3;
  return fate == LS_DISK_DONE ? ls_ok()
                              : LS_STATUS(LS_UNAVAILABLE, "cannot %s '%s': %s",
                                          verb, path, reasons[fate]);
}

// ---- Names -----------------------------------------------------------------
static int64_t find_name(const ls_disk *self, const char *path) {
  for (size_t i = 0; i < self->now.count; ++i)
    if (strcmp(self->now.items[i].path, path) == 0)
      return self->now.items[i].node;
  return -1;
}

static ls_status append_name(ls_disk *self, ls_disk_names *names,
                             const char *path, int64_t node) {
  const size_t length = strlen(path);
  if (length >= LS_DISK_PATH)
    return ls_invalid_argument(
        "'%s' is longer than the %d bytes of a path on a simulated disk", path,
        LS_DISK_PATH - 1);
  LS_PUSH_OR_RETURN(self->allocator, names->items, names->count,
                    names->capacity, (ls_disk_name){.node = node});
  memcpy(names->items[names->count - 1].path, path, length + 1);
  return ls_ok();
}

// Gives a name to a node, or removes it.
static ls_status set_name(ls_disk *self, ls_disk_names *names, const char *path,
                          int64_t node) {
  for (size_t i = 0; i < names->count; ++i) {
    if (strcmp(names->items[i].path, path) != 0) continue;
    names->items[i] = names->items[--names->count];
    break;
  }
  return node < 0 ? ls_ok() : append_name(self, names, path, node);
}

static ls_status change_name(ls_disk *self, const char *path, int64_t node) {
  LS_RETURN_IF_ERROR(append_name(self, &self->changes, path, node));
  return set_name(self, &self->now, path, node);
}

// Removes a name together with the next change, so that both survive or none.
static ls_status move_name(ls_disk *self, const char *from, const char *to,
                           int64_t node) {
  LS_RETURN_IF_ERROR(change_name(self, from, MOVED));
  return change_name(self, to, node);
}

// Brings the first changes of names to the disk; the others are forgotten.
static ls_status sync_names(ls_disk *self, size_t count) {
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(set_name(self, &self->synced,
                                self->changes.items[i].path,
                                self->changes.items[i].node));
  self->changes.count = 0;
  return ls_ok();
}

// ---- Contents --------------------------------------------------------------
static ls_status assign_text(ls_text *to, const ls_text *from) {
  ls_text_clear(to);
  ls_text_append_bytes(to, ls_text_data(from), from->size);
  return ls_text_status(to);
}

static ls_status write_into(ls_text *to, size_t offset, const void *data,
                            size_t size) {
  while (to->size < offset + size && !to->failed)
    ls_text_append_char(to, '\0');
  if (!to->failed && size > 0) memcpy(to->data + offset, data, size);
  return ls_text_status(to);
}

// Creates an empty file, or a folder.
static ls_status add_node(ls_disk *self, const char *path, bool is_folder,
                          int64_t *out_node) {
  *out_node = (int64_t)self->num_nodes;
  LS_PUSH_OR_RETURN(self->allocator, self->nodes, self->num_nodes,
                    self->capacity, (ls_disk_node){.is_folder = is_folder});
  ls_text_init(&self->nodes[*out_node].now, self->allocator);
  ls_text_init(&self->nodes[*out_node].synced, self->allocator);
  return change_name(self, path, *out_node);
}

static ls_status find_file(ls_disk *self, const char *path, bool may_add,
                           int64_t *out_node) {
  *out_node = find_name(self, path);
  if (*out_node < 0 && may_add) return add_node(self, path, false, out_node);
  if (*out_node < 0)
    return ls_not_found("'%s': No such file or directory", path);
  return self->nodes[*out_node].is_folder
             ? ls_invalid_argument("'%s': Is a directory", path)
             : ls_ok();
}

// Writes data, or half of them if the step fails.
static ls_status write_step(void *user, const char *path, int64_t node,
                            int64_t offset, const void *data, size_t size) {
  const ls_status status = begin_step(user, true, "write", path);
  if (((const ls_disk_user *)user)->is_off) return status;
  ls_text *now = &disk_of(user)->nodes[node].now;
  if (offset < 0) offset = (int64_t)now->size;
  return ls_status_join(status,
                        write_into(now, (size_t)offset, data,
                                   ls_status_is_ok(status) ? size : size / 2));
}

static ls_status sync_step(void *user, const char *path, int64_t node) {
  LS_RETURN_IF_ERROR(begin_step(user, true, "sync", path));
  ls_disk_node *synced = &disk_of(user)->nodes[node];
  return assign_text(&synced->synced, &synced->now);
}

static ls_status sync_folder(void *user, const char *path) {
  LS_RETURN_IF_ERROR(begin_step(user, true, "sync the folder of", path));
  return sync_names(disk_of(user), disk_of(user)->changes.count);
}

// Returns the rest of a path inside of a folder; NULL if it is elsewhere.
static const char *find_inside(const char *path, const char *folder) {
  const size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && path[length] == '/'
             ? path + length + 1
             : NULL;
}

static ls_status disk_remove(void *user, const char *path) {
  LS_RETURN_IF_ERROR(begin_step(user, false, "remove", path));
  const ls_disk_names *now = &disk_of(user)->now;
  if (find_name(disk_of(user), path) < 0)
    return ls_not_found("'%s': No such file or directory", path);
  for (size_t i = 0; i < now->count; ++i)
    if (find_inside(now->items[i].path, path) != NULL)
      return LS_STATUS(LS_UNAVAILABLE, "'%s': Directory not empty", path);
  return change_name(disk_of(user), path, REMOVED);
}

// ---- Files in parts --------------------------------------------------------
typedef struct opened_file {
  int64_t node;
  bool is_joined;
  char path[LS_DISK_PATH], aside[LS_DISK_PATH + 8];
} opened_file;

static ls_status make_opened(const ls_disk *disk, const char *path,
                             void **out_file) {
  LS_NEW_OR_RETURN(disk->allocator, opened_file, made);
  snprintf(made->path, sizeof(made->path), "%s", path);
  snprintf(made->aside, sizeof(made->aside), "%s.tmp", path);
  *out_file = made;
  return ls_ok();
}

static void disk_close(void *user, void *file) {
  ls_release(disk_of(user)->allocator, file);
}

static ls_status close_failed(void *user, ls_status status, void **file) {
  if (ls_status_is_ok(status)) return status;
  disk_close(user, *file);
  *file = NULL;
  return status;
}

static ls_status disk_open(void *user, const char *path, void **out_file,
                           ls_file_info *out_info) {
  int64_t node = 0;
  *out_file = NULL;
  LS_RETURN_IF_ERROR(begin_step(user, false, "read", path));
  LS_RETURN_IF_ERROR(find_file(disk_of(user), path, false, &node));
  *out_info =
      (ls_file_info){.size = (int64_t)disk_of(user)->nodes[node].now.size};
  LS_RETURN_IF_ERROR(make_opened(disk_of(user), path, out_file));
  ((opened_file *)*out_file)->node = node;
  return ls_ok();
}

static ls_status disk_read_at(void *user, void *file, int64_t offset,
                              void *data, size_t size, size_t *out_size) {
  const opened_file *self = file;
  *out_size = 0;
  LS_RETURN_IF_ERROR(begin_step(user, false, "read", self->path));
  const ls_text *now = &disk_of(user)->nodes[self->node].now;
  if ((size_t)offset >= now->size) return ls_ok();
  const size_t left = now->size - (size_t)offset;
  *out_size = size < left ? size : left;
  memcpy(data, now->data + offset, *out_size);
  return ls_ok();
}

// Opens the file aside: empties it, or joins its writer.
static ls_status open_aside(void *user, opened_file *made) {
  LS_RETURN_IF_ERROR(begin_step(user, true, "create", made->aside));
  ls_disk *disk = disk_of(user);
  LS_RETURN_IF_ERROR(
      find_file(disk, made->aside, !made->is_joined, &made->node));
  if (!made->is_joined) ls_text_clear(&disk->nodes[made->node].now);
  return ls_ok();
}

static ls_status disk_create(void *user, const char *path, bool join,
                             void **out_file) {
  *out_file = NULL;
  LS_RETURN_IF_ERROR(make_opened(disk_of(user), path, out_file));
  ((opened_file *)*out_file)->is_joined = join;
  return close_failed(user, open_aside(user, *out_file), out_file);
}

static ls_status disk_write_at(void *user, void *file, int64_t offset,
                               const void *data, size_t size) {
  const opened_file *self = file;
  return write_step(user, self->path, self->node, offset, data, size);
}

static ls_status disk_sync(void *user, void *file) {
  const opened_file *self = file;
  return sync_step(user, self->path, self->node);
}

static ls_status rename_aside(void *user, const opened_file *file) {
  LS_RETURN_IF_ERROR(sync_step(user, file->path, file->node));
  LS_RETURN_IF_ERROR(begin_step(user, true, "rename", file->aside));
  return move_name(disk_of(user), file->aside, file->path, file->node);
}

static ls_status end_writing(void *user, const opened_file *file, bool keep) {
  if (file->is_joined)
    return keep ? sync_step(user, file->path, file->node) : ls_ok();
  const ls_status status = keep ? rename_aside(user, file) : ls_ok();
  if (keep && ls_status_is_ok(status)) return sync_folder(user, file->path);
  return ls_status_join(status, disk_remove(user, file->aside));
}

static ls_status disk_finish(void *user, void *file, bool keep) {
  if (file == NULL) return ls_ok();
  const ls_status status = end_writing(user, file, keep);
  disk_close(user, file);
  return status;
}

// ---- Whole files -----------------------------------------------------------
static ls_status disk_read(void *user, const char *path, size_t most,
                           ls_allocator *allocator, char **out_data,
                           size_t *out_size) {
  int64_t node = 0;
  *out_data = NULL;
  *out_size = 0;
  LS_RETURN_IF_ERROR(begin_step(user, false, "read", path));
  LS_RETURN_IF_ERROR(find_file(disk_of(user), path, false, &node));
  const ls_text *now = &disk_of(user)->nodes[node].now;
  if (now->size > most) return ls_invalid_argument("'%s' is too long", path);
  *out_data = ls_copy_text(allocator, ls_text_data(now), now->size);
  LS_RETURN_IF_NO_MEMORY(*out_data);
  *out_size = now->size;
  return ls_ok();
}

static ls_status disk_exists(void *user, const char *path, bool *out_exists) {
  *out_exists = false;
  LS_RETURN_IF_ERROR(begin_step(user, false, "look for", path));
  *out_exists = find_name(disk_of(user), path) >= 0;
  return ls_ok();
}

static ls_status disk_write(void *user, const char *path, const void *data,
                            size_t size) {
  void *file = NULL;
  LS_RETURN_IF_ERROR(disk_create(user, path, false, &file));
  const ls_status status = disk_write_at(user, file, 0, data, size);
  return ls_status_join(status,
                        disk_finish(user, file, ls_status_is_ok(status)));
}

static ls_status disk_append(void *user, const char *path, const void *data,
                             size_t size) {
  int64_t node = 0;
  LS_RETURN_IF_ERROR(begin_step(user, true, "append to", path));
  LS_RETURN_IF_ERROR(find_file(disk_of(user), path, true, &node));
  return write_step(user, path, node, -1, data, size);
}

static ls_status disk_sync_appended(void *user, const char *path) {
  int64_t node = 0;
  LS_RETURN_IF_ERROR(find_file(disk_of(user), path, false, &node));
  return sync_step(user, path, node);
}

// ---- Folders ---------------------------------------------------------------
static ls_status disk_make_directories(void *user, const char *path) {
  char part[LS_DISK_PATH];
  LS_RETURN_IF_ERROR(begin_step(user, true, "make folder", path));
  for (size_t i = 1; i < sizeof(part) && path[i - 1] != '\0'; ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    int64_t node = 0;
    snprintf(part, i + 1, "%s", path);
    if (find_name(disk_of(user), part) < 0)
      LS_RETURN_IF_ERROR(add_node(disk_of(user), part, true, &node));
  }
  return ls_ok();
}

static int order_entries(const void *a, const void *b) {
  return strcmp(((const ls_file_entry *)a)->name,
                ((const ls_file_entry *)b)->name);
}

static ls_status disk_list(void *user, const char *path,
                           ls_allocator *allocator, ls_file_entry **out_entries,
                           size_t *out_count) {
  *out_entries = NULL;
  *out_count = 0;
  LS_RETURN_IF_ERROR(begin_step(user, false, "list", path));
  const ls_disk *disk = disk_of(user);
  const size_t most = disk->now.count;
  ls_file_entry *entries =
      ls_allocate(allocator, (most + 1) * (sizeof(*entries) + LS_DISK_PATH));
  LS_RETURN_IF_NO_MEMORY(entries);
  char *at = (char *)(entries + most + 1);
  for (size_t i = 0; i < most; ++i) {
    const ls_disk_name *found = &disk->now.items[i];
    const char *name = find_inside(found->path, path);
    if (name == NULL || strchr(name, '/') != NULL) continue;
    entries[(*out_count)++] =
        (ls_file_entry){at, disk->nodes[found->node].is_folder};
    memcpy(at, name, strlen(name) + 1);
    at += strlen(at) + 1;
  }
  qsort(entries, *out_count, sizeof(*entries), order_entries);
  *out_entries = entries;
  return ls_ok();
}

static ls_status disk_rename(void *user, const char *from, const char *to) {
  int64_t node = 0;
  LS_RETURN_IF_ERROR(begin_step(user, true, "move", from));
  LS_RETURN_IF_ERROR(find_file(disk_of(user), from, false, &node));
  LS_RETURN_IF_ERROR(move_name(disk_of(user), from, to, node));
  return sync_folder(user, to);
}

// ---- Locks -----------------------------------------------------------------
static ls_status hold_lock(void *user, opened_file *lock) {
  ls_disk *disk = disk_of(user);
  LS_RETURN_IF_ERROR(find_file(disk, lock->path, true, &lock->node));
  ls_disk_node *node = &disk->nodes[lock->node];
  if (node->holder != NULL && !node->holder->is_off)
    return ls_failed_precondition("'%s' is locked", lock->path);
  node->holder = user;
  return ls_ok();
}

static ls_status disk_lock(void *user, const char *path, void **out_lock) {
  *out_lock = NULL;
  LS_RETURN_IF_ERROR(begin_step(user, true, "lock", path));
  LS_RETURN_IF_ERROR(make_opened(disk_of(user), path, out_lock));
  return close_failed(user, hold_lock(user, *out_lock), out_lock);
}

static void disk_unlock(void *user, void *lock) {
  const opened_file *self = lock;
  if (self == NULL) return;
  ls_disk_node *node = &disk_of(user)->nodes[self->node];
  if (node->holder == user) node->holder = NULL;
  ls_status_free(disk_remove(user, self->path));
  disk_close(user, lock);
}

// ---- Life ------------------------------------------------------------------
ls_file_system ls_disk_files(ls_disk_user *user) {
  return (ls_file_system){.read = disk_read,
                          .exists = disk_exists,
                          .write = disk_write,
                          .append = disk_append,
                          .make_directories = disk_make_directories,
                          .remove = disk_remove,
                          .lock = disk_lock,
                          .unlock = disk_unlock,
                          .user = user,
                          .open = disk_open,
                          .read_at = disk_read_at,
                          .close = disk_close,
                          .list = disk_list,
                          .rename = disk_rename,
                          .create = disk_create,
                          .write_at = disk_write_at,
                          .sync = disk_sync,
                          .finish = disk_finish,
                          .sync_appended = disk_sync_appended};
}

void ls_disk_init(ls_disk *self, ls_allocator *allocator) {
  *self = (ls_disk){.allocator = allocator};
}

void ls_disk_deinit(ls_disk *self) {
  for (size_t i = 0; i < self->num_nodes; ++i) {
    ls_text_deinit(&self->nodes[i].now);
    ls_text_deinit(&self->nodes[i].synced);
  }
  ls_release(self->allocator, self->nodes);
  ls_release(self->allocator, self->now.items);
  ls_release(self->allocator, self->synced.items);
  ls_release(self->allocator, self->changes.items);
}

const ls_text *ls_disk_find(const ls_disk *self, const char *path) {
  const int64_t node = find_name(self, path);
  return node < 0 || self->nodes[node].is_folder ? NULL
                                                 : &self->nodes[node].now;
}

ls_status ls_disk_put(ls_disk *self, const char *path, const void *data,
                      size_t size) {
  int64_t node = 0;
  LS_RETURN_IF_ERROR(add_node(self, path, false, &node));
  LS_RETURN_IF_ERROR(write_into(&self->nodes[node].now, 0, data, size));
  LS_RETURN_IF_ERROR(
      assign_text(&self->nodes[node].synced, &self->nodes[node].now));
  return sync_names(self, self->changes.count);
}

// ---- Power -----------------------------------------------------------------
static uint64_t draw_number(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *seed >> 33;
}

// Mixes blocks: each is that written last, or that synced, if there is one.
static ls_status mix_node(ls_disk_node *node, uint64_t *seed) {
  enum { BLOCK = 64 };
  static const char zeros[BLOCK];
  const size_t size =
      draw_number(seed) % 2 ? node->now.size : node->synced.size;
  LS_OWN(ls_text, mixed) = {.allocator = node->now.allocator};
  for (size_t at = 0; at < size; at += BLOCK) {
    const ls_text *from = draw_number(seed) % 2 ? &node->now : &node->synced;
    const size_t most = size - at < BLOCK ? size - at : BLOCK;
    const size_t left = from->size > at ? from->size - at : 0;
    const size_t used = left < most ? left : most;
    if (used > 0) ls_text_append_bytes(&mixed, from->data + at, used);
    ls_text_append_bytes(&mixed, zeros, most - used);
  }
  LS_RETURN_IF_ERROR(ls_text_status(&mixed));
  return assign_text(&node->now, &mixed);
}

// Sets what there is to what is on the disk.
static ls_status restart_names(ls_disk *self) {
  self->now.count = 0;
  for (size_t i = 0; i < self->synced.count; ++i)
    LS_RETURN_IF_ERROR(append_name(self, &self->now, self->synced.items[i].path,
                                   self->synced.items[i].node));
  return ls_ok();
}

ls_status ls_disk_cut(ls_disk *self, ls_disk_kept kept, uint64_t seed) {
  size_t names = self->changes.count;
  if (kept == LS_DISK_NOTHING) names = 0;
  if (kept == LS_DISK_SOME) names = draw_number(&seed) % (names + 1);
  if (names > 0 && self->changes.items[names - 1].node == MOVED) ++names;
  LS_RETURN_IF_ERROR(sync_names(self, names));
  LS_RETURN_IF_ERROR(restart_names(self));
  for (size_t i = 0; i < self->num_nodes; ++i) {
    ls_disk_node *node = &self->nodes[i];
    if (kept == LS_DISK_NOTHING)
      LS_RETURN_IF_ERROR(assign_text(&node->now, &node->synced));
    if (kept == LS_DISK_SOME) LS_RETURN_IF_ERROR(mix_node(node, &seed));
    LS_RETURN_IF_ERROR(assign_text(&node->synced, &node->now));
  }
  return ls_ok();
}
