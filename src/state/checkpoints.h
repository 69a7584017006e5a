// SPDX-License-Identifier: Apache-2.0
// A folder of checkpoints, inside: what is there, and the thread that writes.
#ifndef LS_STATE_CHECKPOINTS_H_
#define LS_STATE_CHECKPOINTS_H_

#include "base/threads/worker.h"
#include "state/checkpoint_file.h"

// A checkpoint that is there.
typedef struct ls_checkpoint_info {
  int64_t step;
  int64_t wall;     // Nanoseconds since 1970.
  double metric;    // That best ones are chosen by; nan: it has none.
  bool is_damaged;  // As far as is known.
} ls_checkpoint_info;

typedef struct ls_checkpoint_list {
  ls_checkpoint_info *items;  // In ascending order of steps.
  size_t count, capacity;
} ls_checkpoint_list;

struct ls_checkpoints {
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_checkpoints_options options;  // With defaults.
  char *folder;
  int64_t saved_step, saved_nanos;  // Of the last save, or from opening.
  ls_checkpoint_list list;          // The writer's while it writes.
  ls_ranks ranks, writers;          // Those of callers, and of writers.
  bool shares;                      // All ranks see this folder.
  // Folder of copies of rank 0's files while they are restored, on another rank
  // that does not see them. NULL: they are in the folder.
  char *copies;
  // The newest was restored: what writers that were killed have left of others
  // goes before the next save.
  bool tidies;
  bool busy;  // A save or restore is under way, which calls users' functions.
  ls_worker worker;  // Writes in the background, a step a number.
  // The worker's until it is idle.
  ls_checkpoint_content content;  // To be written.
  ls_status failure;  // Of the last save in the background, until reported.
};

// A save or restore begins, and ends. `call` is its name.
//   LS_FAILED_PRECONDITION  one is under way: a state, or what is told of
//                           values, has made the call.
LS_MUST_USE ls_status ls_checkpoints_begin(ls_checkpoints *self,
                                           const char *call);
void ls_checkpoints_end(ls_checkpoints *self);
// Returns true while a save is under way, which another one would wait for.
bool ls_checkpoints_are_writing(ls_checkpoints *self);
// Returns true if the last save is known to have failed and nobody was told.
bool ls_checkpoints_have_failed(ls_checkpoints *self);
// Returns true if one is due on this rank, without asking the others.
bool ls_checkpoints_are_due(const ls_checkpoints *self, int64_t step);

// ---- What is there (checkpoint_list.c) -------------------------------------
// Reads the folder, and clears it of what is no whole pair of files.
LS_MUST_USE ls_status ls_checkpoint_list_open(ls_checkpoints *self);
bool ls_checkpoint_list_has(const ls_checkpoint_list *list, int64_t step);
// Drops what is not kept any more. The newest one is known to be whole.
LS_MUST_USE ls_status ls_checkpoint_list_tidy(ls_checkpoints *self);
// Adds what has just been written, drops what is not kept any more, and writes
// the list.
LS_MUST_USE ls_status ls_checkpoint_list_add(
    ls_checkpoints *self, const ls_checkpoint_content *content);

// ---- Several ranks (checkpoint_ranks.c) ------------------------------------
// Returns true on the rank that writes the list and all that is not shared out.
bool ls_checkpoints_leads(const ls_checkpoints *self);
// All learn what is there, and whether they see the same folder.
LS_MUST_USE ls_status ls_checkpoints_meet(ls_checkpoints *self);
// All have rank 0's list.
LS_MUST_USE ls_status ls_checkpoints_send_list(ls_checkpoints *self,
                                               ls_ranks *ranks);
// On ranks that do not see rank 0's folder gets a copy of a checkpoint, and
// removes it again.
const char *ls_checkpoints_reads_from(const ls_checkpoints *self);
LS_MUST_USE ls_status ls_checkpoints_bring(ls_checkpoints *self, int64_t step);
void ls_checkpoints_take_back(ls_checkpoints *self, int64_t step);

#endif  // LS_STATE_CHECKPOINTS_H_
