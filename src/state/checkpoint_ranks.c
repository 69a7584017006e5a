// SPDX-License-Identifier: Apache-2.0
// Checkpoints of several ranks: one folder that all see, or rank 0's.
#include <stdio.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "state/checkpoints.h"

bool ls_checkpoints_leads(const ls_checkpoints *self) {
  return ls_ranks_own(&self->ranks) == 0;
}

// ---- One folder? -----------------------------------------------------------
enum { NONCE_SIZE = 48 };

// Something that is in no other folder.
static void make_nonce(const ls_checkpoints *self, char nonce[NONCE_SIZE]) {
  memset(nonce, 0, NONCE_SIZE);
  snprintf(nonce, NONCE_SIZE, "%llx %lx %llx",
           (unsigned long long)ls_runtime_wall(self->runtime), (long)getpid(),
           (unsigned long long)(uintptr_t)self);
}

static bool sees(const ls_checkpoints *self, const char *path,
                 const char *nonce) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  char *data = NULL;
  size_t size = 0;
  const ls_status status =
      files->read(files->user, path, NONCE_SIZE, self->allocator, &data, &size);
  const bool same = ls_status_is_ok(status) && size == strlen(nonce) &&
                    memcmp(data, nonce, size) == 0;
  ls_status_free(status);
  ls_release(self->allocator, data);
  return same;
}

// Rank 0 puts a file there, and looks who sees it.
static ls_status look_for_others(ls_checkpoints *self, const char *path) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  const size_t count = ls_ranks_count(&self->ranks);
  const bool leads = ls_checkpoints_leads(self);
  char nonce[NONCE_SIZE];
  make_nonce(self, nonce);
  LS_OWN_ARRAY(self->allocator, char, seen, count);
  ls_status status = seen == NULL ? ls_out_of_memory() : ls_ok();
  if (ls_status_is_ok(status) && leads)
    status = files->write(files->user, path, nonce, strlen(nonce));
  status = ls_ranks_agree(&self->ranks, status);
  if (ls_status_is_ok(status))
    status = ls_ranks_send(&self->ranks, nonce, sizeof(nonce));
  if (ls_status_is_ok(status)) {
    seen[ls_ranks_own(&self->ranks)] = (char)sees(self, path, nonce);
    status = ls_ranks_gather(&self->ranks, seen, 1);
  }
  self->shares = true;
  for (size_t k = 0; k < count && ls_status_is_ok(status); ++k)
    self->shares &= seen[k] != 0;
  if (leads) ls_status_free(files->remove(files->user, path));
  return status;
}

// Ranks of one host may have one folder that rank 0 does not see.
static ls_status name_copies(ls_checkpoints *self) {
  const size_t room = strlen(self->folder) + 32;
  if (self->shares || ls_checkpoints_leads(self)) return ls_ok();
  self->copies = ls_allocate(self->allocator, room);
  if (self->copies == NULL) return ls_out_of_memory();
  snprintf(self->copies, room, "%s/rank-%zu", self->folder,
           ls_ranks_own(&self->ranks));
  return ls_ok();
}

ls_status ls_checkpoints_meet(ls_checkpoints *self) {
  if (self->ranks.trunk == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_checkpoints_send_list(self, &self->ranks));
  LS_OWN(ls_text, path) = {0};
  ls_text_init(&path, self->allocator);
  ls_text_append_format(&path, "%s/%s", self->folder, LS_CHECKPOINT_NONCE);
  ls_status status = ls_ranks_agree(&self->ranks, ls_text_status(&path));
  if (ls_status_is_ok(status))
    status = look_for_others(self, ls_text_data(&path));
  return ls_status_is_ok(status)
             ? ls_ranks_agree(&self->ranks, name_copies(self))
             : status;
}

// ---- The list --------------------------------------------------------------
ls_status ls_checkpoints_send_list(ls_checkpoints *self, ls_ranks *ranks) {
  ls_checkpoint_list *list = &self->list;
  uint64_t count = list->count;
  if (ranks->trunk == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_ranks_send(ranks, &count, sizeof(count)));
  ls_status status = ls_ok();
  if (!ls_grow(self->allocator, &list->items, &list->capacity, (size_t)count,
               sizeof(*list->items)))
    status = ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_ranks_agree(ranks, status));
  list->count = (size_t)count;
  return count == 0 ? ls_ok()
                    : ls_ranks_send(ranks, list->items,
                                    list->count * sizeof(*list->items));
}

// ---- Copies ----------------------------------------------------------------
// A file of rank 0's folder that the others copy.
typedef struct copy {
  ls_checkpoints *checkpoints;
  const ls_file_system *files;
  const char *path;
  void *file;  // Open to be read on rank 0, aside on the others.
  int64_t size;
  char *piece;
} copy;

enum { PIECE = 1 << 20 };

static ls_status open_copy(copy *c) {
  ls_file_info info = {0};
  ls_checkpoints *self = c->checkpoints;
  c->piece = ls_allocate(self->allocator, PIECE);
  if (c->piece == NULL) return ls_out_of_memory();
  if (c->files->open == NULL || c->files->create == NULL)
    return ls_unimplemented("'%s': the file system has no files in parts",
                            c->path);
  if (!ls_checkpoints_leads(self))
    return c->files->create(c->files->user, c->path, false, &c->file);
  LS_RETURN_IF_ERROR(c->files->open(c->files->user, c->path, &c->file, &info));
  c->size = info.size;
  return ls_ok();
}

// What fails is told at the end: all come to all pieces.
static ls_status copy_piece(copy *c, int64_t at, size_t size, ls_status own) {
  ls_checkpoints *self = c->checkpoints;
  const bool leads = ls_checkpoints_leads(self);
  size_t got = size;
  if (leads && ls_status_is_ok(own))
    own = c->files->read_at(c->files->user, c->file, at, c->piece, size, &got);
  if (ls_status_is_ok(own) && got < size)
    own = LS_STATUS(LS_DATA_LOSS, "'%s' is cut off", c->path);
  const ls_status sent = ls_ranks_send(&self->ranks, c->piece, size);
  if (!ls_status_is_ok(sent)) return ls_status_join(own, sent);
  if (!leads && ls_status_is_ok(own))
    own = c->files->write_at(c->files->user, c->file, at, c->piece, size);
  return own;
}

static ls_status copy_file(copy *c) {
  ls_ranks *ranks = &c->checkpoints->ranks;
  LS_RETURN_IF_ERROR(ls_ranks_agree(ranks, open_copy(c)));
  LS_RETURN_IF_ERROR(ls_ranks_send(ranks, &c->size, sizeof(c->size)));
  ls_status status = ls_ok();
  for (int64_t at = 0; at < c->size; at += PIECE) {
    const int64_t left = c->size - at;
    status = copy_piece(c, at, left < PIECE ? (size_t)left : PIECE, status);
  }
  return ls_ranks_agree(ranks, status);
}

static ls_status bring_file(ls_checkpoints *self, int64_t step,
                            const char *extension) {
  LS_OWN(ls_text, path) = {0};
  ls_text_init(&path, self->allocator);
  ls_checkpoint_path(&path, ls_checkpoints_reads_from(self), step, extension);
  copy c = {.checkpoints = self, .files = ls_runtime_files(self->runtime)};
  ls_status status = ls_ranks_agree(&self->ranks, ls_text_status(&path));
  c.path = ls_text_data(&path);
  if (ls_status_is_ok(status)) status = copy_file(&c);
  const bool keep = ls_status_is_ok(status);
  if (ls_checkpoints_leads(self)) {
    if (c.file != NULL) c.files->close(c.files->user, c.file);
  } else if (c.file != NULL) {
    status =
        ls_status_join(status, c.files->finish(c.files->user, c.file, keep));
  }
  ls_release(self->allocator, c.piece);
  return ls_ranks_agree(&self->ranks, status);
}

const char *ls_checkpoints_reads_from(const ls_checkpoints *self) {
  return self->copies != NULL ? self->copies : self->folder;
}

ls_status ls_checkpoints_bring(ls_checkpoints *self, int64_t step) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  if (self->ranks.trunk == NULL || self->shares) return ls_ok();
  LS_RETURN_IF_ERROR(ls_ranks_agree(
      &self->ranks, self->copies != NULL
                        ? files->make_directories(files->user, self->copies)
                        : ls_ok()));
  LS_RETURN_IF_ERROR(bring_file(self, step, "safetensors"));
  return bring_file(self, step, "json");
}

// Folders too, if nothing else is in them.
void ls_checkpoints_take_back(ls_checkpoints *self, int64_t step) {
  static const char *const extensions[] = {"json", "safetensors"};
  const ls_file_system *files = ls_runtime_files(self->runtime);
  if (self->copies == NULL) return;
  ls_text path;
  ls_text_init(&path, self->allocator);
  for (size_t i = 0; i < LS_COUNT_OF(extensions); ++i) {
    ls_checkpoint_path(&path, self->copies, step, extensions[i]);
    ls_status_free(files->remove(files->user, ls_text_data(&path)));
  }
  ls_text_deinit(&path);
  ls_status_free(files->remove(files->user, self->copies));
  ls_status_free(files->remove(files->user, self->folder));
}
