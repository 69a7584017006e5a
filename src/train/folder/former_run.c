// SPDX-License-Identifier: Apache-2.0

#include <string.h>

#include "base/files.h"
#include "base/memory/own.h"
#include "base/text.h"
#include "state/saved.h"
#include "train/events/run_events.h"
#include "train/folder/run_folder.h"

static const char aside_name[] = "/.overwritten";
static const char phase_name[] = "/phase";

typedef enum phase { PHASE_NONE, PHASE_MOVING, PHASE_WHOLE, PHASE_DONE } phase;
static const char *const phase_texts[] = {"", "moving\n", "whole\n", "done\n"};

// Folders of a run's files, each after its parent.
typedef struct run_part {
  const char *path;
  bool (*owns)(const char *name);  // NULL: contains only folders.
} run_part;
static const run_part parts[] = {{"", ls_run_folder_owns},
                                 {"/events", NULL},
                                 {"/events/train", ls_run_events_owns},
                                 {"/events/test", ls_run_events_owns}};

typedef struct mover {
  ls_runtime *runtime;
  const ls_file_system *files;
  const char *folder;
  ls_text from, to;  // Paths being composed.
} mover;

// ---- Paths -----------------------------------------------------------------
static ls_status former_run_print_path(const mover *self, const char *where,
                                       const char *part, ls_text *path) {
  ls_text_clear(path);
  ls_text_append_format(path, "%s%s%s", self->folder, where, part);
  return ls_text_status(path);
}

static ls_status has_path(mover *self, const char *where, const char *part,
                          bool *out_exists) {
  LS_RETURN_IF_ERROR(former_run_print_path(self, where, part, &self->from));
  return self->files->exists(self->files->user, ls_text_data(&self->from),
                             out_exists);
}

static ls_status append_name(ls_text *path, const char *name) {
  ls_text_append_format(path, "/%s", name);
  return ls_text_status(path);
}

// Removes a folder if it is empty; never follows a link.
static void remove_empty(mover *self, const char *where, const char *part) {
  ls_status status = former_run_print_path(self, where, part, &self->from);
  if (ls_status_is_ok(status))
    status = self->files->remove(self->files->user, ls_text_data(&self->from));
  ls_status_free(status);
}

// ---- Files -----------------------------------------------------------------
// Moves or, without `to`, removes a file of a part.
static ls_status move_file(mover *self, const char *name, const char *from,
                           const char *to, const char *part) {
  LS_RETURN_IF_ERROR(former_run_print_path(self, from, part, &self->from));
  LS_RETURN_IF_ERROR(append_name(&self->from, name));
  if (to == NULL)
    return self->files->remove(self->files->user, ls_text_data(&self->from));
  LS_RETURN_IF_ERROR(former_run_print_path(self, to, part, &self->to));
  LS_RETURN_IF_ERROR(append_name(&self->to, name));
  return self->files->rename(self->files->user, ls_text_data(&self->from),
                             ls_text_data(&self->to));
}

// Makes the folder that a part's files are moved to. The run folder itself
// exists, and may be a link.
static ls_status make_part(mover *self, const char *to, const char *part) {
  if (to == NULL || (to[0] == '\0' && part[0] == '\0')) return ls_ok();
  LS_RETURN_IF_ERROR(former_run_print_path(self, to, part, &self->to));
  return ls_folder_make_own(self->runtime, ls_text_data(&self->to));
}

static ls_status move_files(mover *self, const run_part *part, const char *from,
                            const char *to) {
  const char *path = part->path;
  ls_allocator *allocator = ls_runtime_allocator(self->runtime);
  LS_OWN_MEMORY(allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(former_run_print_path(self, from, path, &self->from));
  LS_RETURN_IF_ERROR(self->files->list(self->files->user,
                                       ls_text_data(&self->from), allocator,
                                       &entries, &count));
  for (size_t i = 0; i < count; ++i)
    if (!entries[i].is_folder && part->owns(entries[i].name))
      LS_RETURN_IF_ERROR(move_file(self, entries[i].name, from, to, path));
  return ls_ok();
}

static ls_status move_part(mover *self, const run_part *part, const char *from,
                           const char *to) {
  const char *path = part->path;
  bool exists = true;
  if (path[0] != '\0') {
    LS_RETURN_IF_ERROR(has_path(self, from, path, &exists));
    if (!exists) return ls_ok();
    LS_RETURN_IF_ERROR(
        ls_folder_check_own(self->runtime, ls_text_data(&self->from)));
  }
  LS_RETURN_IF_ERROR(make_part(self, to, path));
  return part->owns == NULL ? ls_ok() : move_files(self, part, from, to);
}

// Moves the event files of an estimator's evaluations, in eval and eval_NAME.
static ls_status move_evaluations(mover *self, const char *from,
                                  const char *to) {
  ls_allocator *allocator = ls_runtime_allocator(self->runtime);
  LS_OWN_MEMORY(allocator, ls_file_entry, entries) = NULL;
  LS_OWN(ls_text, path) = {.allocator = allocator};
  size_t count = 0;
  LS_RETURN_IF_ERROR(former_run_print_path(self, from, "", &self->from));
  LS_RETURN_IF_ERROR(self->files->list(self->files->user,
                                       ls_text_data(&self->from), allocator,
                                       &entries, &count));
  for (size_t i = 0; i < count; ++i) {
    const char *name = entries[i].name;
    if (!entries[i].is_folder ||
        (strcmp(name, "eval") != 0 && strncmp(name, "eval_", 5) != 0))
      continue;
    ls_text_clear(&path);
    LS_RETURN_IF_ERROR(append_name(&path, name));
    LS_RETURN_IF_ERROR(move_part(
        self, &(run_part){ls_text_data(&path), ls_run_events_owns}, from, to));
    remove_empty(self, from, ls_text_data(&path));
  }
  return ls_ok();
}

// Moves the files of a run, or removes them; also removes event folders that
// are empty then.
static ls_status move_run(mover *self, const char *from, const char *to) {
  for (size_t i = 0; i < LS_COUNT_OF(parts); ++i)
    LS_RETURN_IF_ERROR(move_part(self, &parts[i], from, to));
  LS_RETURN_IF_ERROR(move_evaluations(self, from, to));
  for (size_t i = LS_COUNT_OF(parts) - 1; i > 0; --i)
    remove_empty(self, from, parts[i].path);
  return ls_ok();
}

// ---- Phases ----------------------------------------------------------------
static ls_status read_phase(mover *self, phase *out_phase) {
  enum { MOST = 64 };
  ls_allocator *allocator = ls_runtime_allocator(self->runtime);
  bool exists = false;
  LS_OWN_MEMORY(allocator, char, text) = NULL;
  size_t size = 0;
  *out_phase = PHASE_NONE;
  LS_RETURN_IF_ERROR(has_path(self, aside_name, phase_name, &exists));
  if (!exists) return ls_ok();
  LS_RETURN_IF_ERROR(self->files->read(self->files->user,
                                       ls_text_data(&self->from), MOST,
                                       allocator, &text, &size));
  for (int i = PHASE_MOVING; i <= PHASE_DONE; ++i)
    if (strcmp(text, phase_texts[i]) == 0) *out_phase = (phase)i;
  if (*out_phase != PHASE_NONE) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is damaged: it should say moving, whole or done; the "
                   "run that was being overwritten is in the folder next to it",
                   ls_text_data(&self->from));
}

static ls_status write_phase(mover *self, phase next) {
  const char *text = phase_texts[next];
  LS_RETURN_IF_ERROR(
      former_run_print_path(self, aside_name, phase_name, &self->from));
  return self->files->write(self->files->user, ls_text_data(&self->from), text,
                            strlen(text));
}

// Removes the remaining files of the former run. Always writes the phase, which
// also removes the temporary file of an interrupted write.
static ls_status former_run_drop(mover *self) {
  LS_RETURN_IF_ERROR(write_phase(self, PHASE_DONE));
  LS_RETURN_IF_ERROR(move_run(self, aside_name, NULL));
  LS_RETURN_IF_ERROR(
      former_run_print_path(self, aside_name, phase_name, &self->from));
  LS_RETURN_IF_ERROR(
      self->files->remove(self->files->user, ls_text_data(&self->from)));
  LS_RETURN_IF_ERROR(former_run_print_path(self, aside_name, "", &self->from));
  return self->files->remove(self->files->user, ls_text_data(&self->from));
}

// ---- Settling --------------------------------------------------------------
// Finds out if the new run has a checkpoint of a step, or a final model without
// one, if its saves failed.
static ls_status has_result(mover *self, bool *out_has) {
  ls_saved_file *file = NULL;
  *out_has = false;
  const ls_status status = ls_saved_newest_open(self->folder, false, &file);
  if (ls_status_is_ok(status) && file != NULL) {
    ls_saved_info info;
    ls_saved_file_describe(file, &info);
    *out_has = info.step > 0;  // An estimator saves initial values, too.
  }
  ls_saved_file_close(file);
  if (!ls_status_is_ok(status) && ls_status_code(status) != LS_DATA_LOSS)
    return status;
  ls_status_free(status);
  return *out_has ? ls_ok() : has_path(self, "", "/model.safetensors", out_has);
}

// Decides which of the two runs to keep, and stores the decision.
static ls_status former_run_choose(mover *self, phase *out_phase) {
  bool stands = false;
  LS_RETURN_IF_ERROR(has_result(self, &stands));
  *out_phase = stands ? PHASE_DONE : PHASE_MOVING;
  if (stands) return ls_ok();
  LS_RETURN_IF_ERROR(move_run(self, "", NULL));
  return write_phase(self, *out_phase);
}

static ls_status check_aside(mover *self) {
  LS_RETURN_IF_ERROR(former_run_print_path(self, aside_name, "", &self->from));
  return ls_folder_check_own(self->runtime, ls_text_data(&self->from));
}

static ls_status former_run_settle(mover *self, bool *out_is_back) {
  phase current = PHASE_NONE;
  bool exists = true;
  LS_RETURN_IF_ERROR(check_aside(self));
  LS_RETURN_IF_ERROR(read_phase(self, &current));
  if (current == PHASE_NONE)
    LS_RETURN_IF_ERROR(has_path(self, aside_name, "", &exists));
  if (!exists) return ls_ok();
  if (current == PHASE_WHOLE)
    LS_RETURN_IF_ERROR(former_run_choose(self, &current));
  if (current == PHASE_MOVING)
    LS_RETURN_IF_ERROR(move_run(self, aside_name, ""));
  *out_is_back = current == PHASE_MOVING;
  return former_run_drop(self);
}

// ---- Moving aside ----------------------------------------------------------
static ls_status former_run_keep(mover *self) {
  if (self->files->rename == NULL || self->files->list == NULL)
    return ls_unimplemented("the run in '%s' cannot be overwritten: the file "
                            "system cannot list folders and move files",
                            self->folder);
  LS_RETURN_IF_ERROR(former_run_print_path(self, aside_name, "", &self->from));
  LS_RETURN_IF_ERROR(
      ls_folder_make_own(self->runtime, ls_text_data(&self->from)));
  LS_RETURN_IF_ERROR(write_phase(self, PHASE_MOVING));
  LS_RETURN_IF_ERROR(move_run(self, "", aside_name));
  return write_phase(self, PHASE_WHOLE);
}

static void former_run_begin(mover *self, ls_runtime *runtime,
                             const char *run_folder) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  *self = (mover){.runtime = runtime,
                  .files = ls_runtime_files(runtime),
                  .folder = run_folder};
  ls_text_init(&self->from, allocator);
  ls_text_init(&self->to, allocator);
}

static ls_status former_run_end(mover *self, ls_status status) {
  ls_text_deinit(&self->from);
  ls_text_deinit(&self->to);
  return status;
}

ls_status ls_former_run_exists(ls_runtime *runtime, const char *run_folder,
                               bool *out_exists) {
  mover self;
  *out_exists = false;
  former_run_begin(&self, runtime, run_folder);
  return former_run_end(&self,
                        has_path(&self, aside_name, phase_name, out_exists));
}

ls_status ls_former_run_keep(ls_runtime *runtime, const char *run_folder) {
  mover self;
  former_run_begin(&self, runtime, run_folder);
  return former_run_end(&self, former_run_keep(&self));
}

ls_status ls_former_run_remove(ls_runtime *runtime, const char *run_folder) {
  mover self;
  former_run_begin(&self, runtime, run_folder);
  const ls_status status = check_aside(&self);
  return former_run_end(&self, ls_status_is_ok(status) ? former_run_drop(&self)
                                                       : status);
}

ls_status ls_former_run_settle(ls_runtime *runtime, const char *run_folder,
                               bool *out_is_back) {
  mover self;
  *out_is_back = false;
  former_run_begin(&self, runtime, run_folder);
  return former_run_end(&self, former_run_settle(&self, out_is_back));
}
