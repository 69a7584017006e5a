// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "state/checkpoint_file.h"
#include "state/checkpoints.h"
#include "state/saver_file.h"

// ---- Components ------------------------------------------------------------
// Components that are not shared, concatenated.
typedef struct parts {
  ls_allocator *allocator;
  ls_store *store;
  ls_variable **components;
  ls_array **values;
  ls_exchange_piece *pieces;
  size_t count;
} parts;

static ls_status read_parts(const ls_communicator *communicator,
                            const ls_variable *variable, parts *all) {
  const size_t count = ls_state_parts(all->store, variable);
  for (size_t r = 0; r < count; ++r, ++all->count) {
    ls_array **value = &all->values[all->count];
    all->components[all->count] = variable->components[r];
    LS_RETURN_IF_ERROR(
        ls_store_read(all->store, variable->components[r], value));
    all->pieces[all->count] = (ls_exchange_piece){
        ls_array_mutable_data(*value), ls_array_size(*value),
        ls_communicator_find(communicator, (int32_t)r, (int32_t)count),
        LS_EACH_RANK};
  }
  return ls_ok();
}

static ls_status find_parts(const ls_ranks *ranks, const ls_saver *values,
                            parts *all) {
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_saver_open(values, &all->store));
  for (size_t i = 0; i < values->num_variables; ++i)
    count += ls_state_parts(all->store, values->variables[i]);
  all->components = ls_new_array(ranks->allocator, ls_variable *, count + 1);
  all->values = ls_new_array(ranks->allocator, ls_array *, count + 1);
  all->pieces = ls_new_array(ranks->allocator, ls_exchange_piece, count + 1);
  if (all->components == NULL || all->values == NULL || all->pieces == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < values->num_variables; ++i)
    LS_RETURN_IF_ERROR(
        read_parts(ranks->communicator, values->variables[i], all));
  return ls_ok();
}

static ls_status take_parts(const ls_ranks *ranks, const parts *all) {
  for (size_t i = 0; i < all->count; ++i)
    if (all->pieces[i].from != ranks->communicator->rank)
      LS_RETURN_IF_ERROR(
          ls_store_write(all->store, all->components[i], all->values[i]));
  return ls_ok();
}

static void parts_deinit(parts *all) {
  for (size_t i = 0; all->values != NULL && i < all->count; ++i)
    ls_array_release(all->values[i]);
  ls_release(all->allocator, all->components);
  ls_release(all->allocator, all->values);
  ls_release(all->allocator, all->pieces);
}
LS_OWNED_STRUCT(parts, parts_deinit)

ls_status ls_ranks_gather_parts(ls_ranks *ranks, const ls_saver *values) {
  if (ranks->communicator == NULL) return ls_ok();
  LS_OWN(parts, all) = {.allocator = ranks->allocator};
  // Agrees first: after a failure the other ranks would wait for this one.
  LS_RETURN_IF_ERROR(ls_ranks_agree(ranks, find_parts(ranks, values, &all)));
  LS_RETURN_IF_ERROR(ls_ranks_exchange(ranks, all.pieces, all.count));
  return take_parts(ranks, &all);
}

bool ls_checkpoints_leads(const ls_checkpoints *self) {
  return ls_ranks_own(&self->ranks) == 0;
}

// ---- Is the folder shared? -------------------------------------------------
enum { NONCE_SIZE = 48 };

// Makes a text that no other folder has.
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

// Finds out if all ranks see a file that rank 0 writes.
static ls_status look_for_others(ls_checkpoints *self, const char *path) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  ls_ranks *ranks = &self->ranks;
  char nonce[NONCE_SIZE];
  make_nonce(self, nonce);
  LS_OWN_ARRAY(self->allocator, char, seen, ls_ranks_count(ranks));
  ls_status status = seen == NULL ? ls_out_of_memory() : ls_ok();
  if (seen != NULL && ls_checkpoints_leads(self))
    status = files->write(files->user, path, nonce, strlen(nonce));
  LS_RETURN_IF_ERROR(ls_ranks_agree(ranks, status));
  LS_RETURN_IF_ERROR(ls_ranks_send(ranks, nonce, sizeof(nonce)));
  seen[ls_ranks_own(ranks)] = (char)sees(self, path, nonce);
  LS_RETURN_IF_ERROR(ls_ranks_gather(ranks, seen, 1));
  self->shares = memchr(seen, 0, ls_ranks_count(ranks)) == NULL;
  return ls_ok();
}

// Chooses a folder for copies. Ranks of one host may share a folder that rank 0
// does not see.
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
  const ls_file_system *files = ls_runtime_files(self->runtime);
  if (self->ranks.communicator == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_checkpoints_send_list(self, &self->ranks));
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  ls_text_append_format(&path, "%s/%s", self->folder, LS_CHECKPOINT_NONCE);
  LS_RETURN_IF_ERROR(ls_ranks_agree(&self->ranks, ls_text_status(&path)));
  const ls_status status = look_for_others(self, ls_text_data(&path));
  if (ls_checkpoints_leads(self))
    ls_status_free(files->remove(files->user, ls_text_data(&path)));
  LS_RETURN_IF_ERROR(status);
  return ls_ranks_agree(&self->ranks, name_copies(self));
}

// ---- The list --------------------------------------------------------------
ls_status ls_checkpoints_send_list(ls_checkpoints *self, ls_ranks *ranks) {
  ls_checkpoint_list *list = &self->list;
  uint64_t count = list->count;
  if (ranks->communicator == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_ranks_send(ranks, &count, sizeof(count)));
  ls_status status = ls_ok();
  if (!LS_GROW(self->allocator, list->items, list->capacity, (size_t)count))
    status = ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_ranks_agree(ranks, status));
  list->count = (size_t)count;
  return count == 0 ? ls_ok()
                    : ls_ranks_send(ranks, list->items,
                                    list->count * sizeof(*list->items));
}

// ---- Copies ----------------------------------------------------------------
// A file of rank 0's folder, which other ranks copy.
typedef struct copy {
  ls_checkpoints *checkpoints;
  const ls_file_system *files;
  const char *path;
  void *file;  // Rank 0: the file to read; others: a temporary file.
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

// Copies a piece. Reports a failure at the end only, since all ranks must take
// part in all pieces.
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
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  ls_checkpoint_path(&path, ls_checkpoints_reads_from(self), step, extension);
  LS_RETURN_IF_ERROR(ls_ranks_agree(&self->ranks, ls_text_status(&path)));
  copy c = {.checkpoints = self,
            .files = ls_runtime_files(self->runtime),
            .path = ls_text_data(&path)};
  ls_status status = copy_file(&c);
  const bool keep = ls_status_is_ok(status);
  if (c.file != NULL && ls_checkpoints_leads(self))
    c.files->close(c.files->user, c.file);
  else if (c.file != NULL)
    status =
        ls_status_join(status, c.files->finish(c.files->user, c.file, keep));
  ls_release(self->allocator, c.piece);
  return ls_ranks_agree(&self->ranks, status);
}

const char *ls_checkpoints_reads_from(const ls_checkpoints *self) {
  return self->copies != NULL ? self->copies : self->folder;
}

ls_status ls_checkpoints_bring(ls_checkpoints *self, int64_t step) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  if (self->ranks.communicator == NULL || self->shares) return ls_ok();
  LS_RETURN_IF_ERROR(ls_ranks_agree(
      &self->ranks, self->copies != NULL
                        ? files->make_directories(files->user, self->copies)
                        : ls_ok()));
  LS_RETURN_IF_ERROR(bring_file(self, step, "safetensors"));
  return bring_file(self, step, "json");
}

// Removes the copies of a checkpoint, and folders that become empty.
void ls_checkpoints_take_back(ls_checkpoints *self, int64_t step) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  if (self->copies == NULL) return;
  static const char *const extensions[] = {"json", "safetensors"};
  for (size_t i = 0; i < LS_COUNT_OF(extensions); ++i)
    ls_status_free(
        ls_checkpoint_remove_file(self, self->copies, step, extensions[i]));
  ls_status_free(files->remove(files->user, self->copies));
  ls_status_free(files->remove(files->user, self->folder));
}
