// SPDX-License-Identifier: Apache-2.0
// Run folder: what a run leaves behind.
//
// config.json is written first and says that the folder holds a run. Files are
// replaced as a whole; metrics.jsonl grows line by line. While a run writes to
// it, a file `lock` names the process and keeps others out.
#ifndef LS_TRAIN_FOLDER_RUN_FOLDER_H_
#define LS_TRAIN_FOLDER_RUN_FOLDER_H_

#include "base/runtime_internal.h"
#include "base/text.h"
#include "lockstep/train.h"

// Zeroed: no folder; writing to it does nothing.
typedef struct ls_run_folder {
  ls_runtime *runtime;
  const char *path;  // Lent; NULL: none.
  ls_text file;      // The path of the file in hand.
  ls_text text;      // What is being written.
  bool held;         // Others are kept out, by
  void *lock;        //   this, where files can be locked.
  bool replaces;     // A former run is there still; see ls_run_folder_commit.
  bool keeps;        // It lies aside, or some of it.
} ls_run_folder;

// Sets it up; makes nothing yet. `path` may be NULL.
void ls_run_folder_init(ls_run_folder *folder, ls_runtime *runtime,
                        const char *path);
void ls_run_folder_deinit(ls_run_folder *folder);

// Makes the folder, takes it for this run and writes config.json, unless a run
// is there that is to be overwritten: it stays until the commit.
//   LS_ALREADY_EXISTS       a run is there.
//   LS_FAILED_PRECONDITION  another one is writing to it.
LS_MUST_USE ls_status ls_run_folder_start(ls_run_folder *folder,
                                          const ls_train_config *config,
                                          bool overwrite);
// The new run has done a step: a former one is moved aside (former_run.h), and
// config.json written. Does nothing the next time.
LS_MUST_USE ls_status ls_run_folder_commit(ls_run_folder *folder,
                                           const ls_train_config *config);
// The new run has a checkpoint: removes the former one.
LS_MUST_USE ls_status ls_run_folder_drop_former(ls_run_folder *folder);
// The new run has ended, with `status`, and writes nothing more: if it has no
// checkpoint, the former one is put back, and the returned status says so. What
// cannot be done is logged, and done by whoever opens the folder next.
LS_MUST_USE ls_status ls_run_folder_settle(ls_run_folder *folder,
                                           ls_status status);
// Does so for a run whose process was killed. Does nothing while a run is at
// work there, nor where files cannot be locked.
LS_MUST_USE ls_status ls_run_folder_recover(ls_runtime *runtime,
                                            const char *path);
// Returns whether a file in a run folder is a run's.
bool ls_run_folder_owns(const char *name);
// Takes away a run that has just been started and has written nothing more, as
// far as that can be done; one that it was to overwrite is kept.
void ls_run_folder_abandon(ls_run_folder *folder);
// Takes the folder of the run that is there. LS_FAILED_PRECONDITION where
// another one is writing to it, LS_NOT_FOUND where there is none.
LS_MUST_USE ls_status ls_run_folder_enter(ls_run_folder *folder);
// Goes on from `step`: cuts off what metrics.jsonl says about later ones and
// replaces config.json.
LS_MUST_USE ls_status ls_run_folder_continue(ls_run_folder *folder,
                                             const ls_train_config *config,
                                             int64_t step);

// Appends a line to metrics.jsonl: of steps, or of an evaluation. Does nothing
// before a commit, when the file is a former run's.
LS_MUST_USE ls_status ls_run_folder_log(ls_run_folder *folder,
                                        const ls_train_report *report);
// Writes model.safetensors: the model at a step.
LS_MUST_USE ls_status ls_run_folder_save_model(ls_run_folder *folder,
                                               const ls_model *model,
                                               int64_t step);

// ---- Former run ------------------------------------------------------------
// A run that is being overwritten: kept until the new one has a checkpoint.
// The new run writes at the usual places of the folder, the files of the former
// one lie in `.overwritten` meanwhile, under their own names. A file `phase`
// beside them says how far it is:
//   moving  on their way there or back: all of the run folder is the former's
//   whole   the former run is in there, the new one outside
//   done    one of them is in its place: what is in there is left over
// `phase` is replaced at once and before what it announces. So whenever a
// process is killed, one of the two runs is whole, and ls_former_run_settle
// puts it in its place.

// Returns whether a run folder has such a run, or files left over of one.
LS_MUST_USE ls_status ls_former_run_exists(ls_runtime *runtime,
                                           const char *run_folder,
                                           bool *out_exists);
// Whoever calls these holds the lock of the run folder.
//
// Moves the run of the folder aside. After a failure it is for settle.
LS_MUST_USE ls_status ls_former_run_keep(ls_runtime *runtime,
                                         const char *run_folder);
// Removes it: the new run has a checkpoint. After a failure it is for settle.
LS_MUST_USE ls_status ls_former_run_remove(ls_runtime *runtime,
                                           const char *run_folder);
// Removes it if the new run has a whole checkpoint, or a model at its end, else
// removes the new run and puts the former one back. Does nothing where there is
// none.
LS_MUST_USE ls_status ls_former_run_settle(ls_runtime *runtime,
                                           const char *run_folder,
                                           bool *out_is_back);

#endif  // LS_TRAIN_FOLDER_RUN_FOLDER_H_
