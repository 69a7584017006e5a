// SPDX-License-Identifier: Apache-2.0
// Private state of a folder of checkpoints: the list, and the writer thread.
#ifndef LS_STATE_CHECKPOINTS_H_
#define LS_STATE_CHECKPOINTS_H_

#include "base/threads/worker.h"
#include "state/checkpoint_file.h"

// A checkpoint in the folder.
typedef struct ls_checkpoint_info {
  int64_t step;
  int64_t wall;     // Nanoseconds since 1970.
  double metric;    // For choosing the best; NaN: has none.
  bool is_damaged;  // Known to be damaged.
} ls_checkpoint_info;

typedef struct ls_checkpoint_list {
  ls_checkpoint_info *items;  // Sorted by step.
  size_t count, capacity;
  int64_t written;  // Step of the last one written; -1: none yet.
  // Checkpoints of later steps are of a future that the run has left: a restore
  // of this step was asked for.
  int64_t future_of;
} ls_checkpoint_list;

struct ls_checkpoints {
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_checkpoints_options options;  // Completed with defaults.
  char *folder;
  int64_t saved_step, saved_nanos;  // Last save, or the opening.
  ls_checkpoint_list list;          // The writer's while it writes.
  ls_ranks ranks, writers;          // For callers; for writer threads.
  bool shares;                      // True if all ranks see the same folder.
  bool only_reads;  // Saves nothing, and removes nothing from the folder.
  // States that a checkpoint lacks are restored from an empty record.
  bool allows_missing;
  void *lock;       // Lock of the folder; NULL: not held by these checkpoints.
  int64_t asked_nanos;  // Time when the lock was last asked for.
  // Folder for copies of rank 0's files during a restore, on a rank that does
  // not see them. NULL: not needed.
  char *copies;
  // The newest checkpoint was restored: the next save first removes what killed
  // writers have left.
  bool tidies;
  bool busy;  // A save or restore, which may call user functions, is running.
  ls_worker worker;  // The writer thread, to which steps are posted.
  // Used by the writer thread until it is idle.
  ls_checkpoint_content content;  // Contents to write.
  ls_status failure;  // Last background save's failure, until reported.
  struct {
    ls_status (*call)(void *user, int64_t step);
    void *user;
  } written;
};

// Opens a folder as ls_checkpoints_open does, to restore from it only. Another
// process may be writing there: leaves temporary files where they are.
LS_MUST_USE ls_status ls_checkpoints_open_to_read(
    const ls_checkpoints_options *options, ls_checkpoints **out_checkpoints);

// Lets the leading rank call `call` on the thread that writes, after each
// checkpoint is in place; its failure is the save's. No save is running.
void ls_checkpoints_on_written(ls_checkpoints *self,
                               ls_status (*call)(void *user, int64_t step),
                               void *user);

// Begin and end a save or restore. `call` is its name.
//   LS_FAILED_PRECONDITION  one is running: a state or a callback for values
//   has
//                           made the call.
LS_MUST_USE ls_status ls_checkpoints_begin(ls_checkpoints *self,
                                           const char *call);
void ls_checkpoints_end(ls_checkpoints *self);
// Returns true while a save is running, for which another one would wait.
bool ls_checkpoints_are_writing(ls_checkpoints *self);
// Returns true if the last save has failed and the failure is not reported yet.
bool ls_checkpoints_have_failed(ls_checkpoints *self);
// Returns true if a save is due on this rank, without asking the other ranks.
bool ls_checkpoints_are_due(const ls_checkpoints *self, int64_t step);

// Removes a file of a checkpoint in the folder, or among the copies, if it is
// there.
LS_MUST_USE ls_status ls_checkpoint_remove_file(ls_checkpoints *self,
                                                const char *folder,
                                                int64_t step,
                                                const char *extension);
// Returns the checkpoint of a step; NULL: there is none.
const ls_checkpoint_info *
ls_checkpoint_list_find(const ls_checkpoint_list *list, int64_t step);

// ---- Several ranks (ranks.c) -----------------------------------------------
// Returns true on the rank that writes the list and all that is not divided
// among ranks.
bool ls_checkpoints_leads(const ls_checkpoints *self);
// Shares the list among all ranks, and finds out if they see the same folder.
LS_MUST_USE ls_status ls_checkpoints_meet(ls_checkpoints *self);
// Sends rank 0's list to all ranks.
LS_MUST_USE ls_status ls_checkpoints_send_list(ls_checkpoints *self,
                                               ls_ranks *ranks);
// Copy a checkpoint to ranks that do not see rank 0's folder, and remove the
// copy again.
const char *ls_checkpoints_reads_from(const ls_checkpoints *self);
LS_MUST_USE ls_status ls_checkpoints_bring(ls_checkpoints *self, int64_t step);
void ls_checkpoints_take_back(ls_checkpoints *self, int64_t step);

#endif  // LS_STATE_CHECKPOINTS_H_
