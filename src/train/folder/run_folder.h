// SPDX-License-Identifier: Apache-2.0
// Run folder: the files of a run.
//
// config.json is written first and marks the folder as a run's. Files are
// replaced as a whole; metrics.jsonl grows line by line. While a run writes, a
// file `lock` names its process and excludes others.
#ifndef LS_TRAIN_FOLDER_RUN_FOLDER_H_
#define LS_TRAIN_FOLDER_RUN_FOLDER_H_

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "io/sha256.h"
#include "lockstep/train.h"
#include "train/run_plan.h"

// Zeroed: no folder; all writes do nothing.
typedef struct ls_run_folder {
  ls_runtime *runtime;
  const char *path;   // Lent; NULL: no folder.
  ls_text file;       // Path of the current file.
  ls_text text;       // Text being written.
  bool held;          // The folder is locked, if files can be locked:
  void *lock;         // NULL: they cannot.
  bool replaces;      // A former run is in place; see ls_run_folder_commit.
  bool keeps;         // The former run has been moved aside, at least partly.
  bool has_unsynced;  // Lines were added since they were last synced.
  ls_train_log log;   // Gets each line of metrics, with or without a folder.
  ls_sha256 metrics;  // Hash of the lines of metrics.jsonl.
} ls_run_folder;

// Initializes `folder`; makes nothing yet. `path` may be NULL.
void ls_run_folder_init(ls_run_folder *folder, ls_runtime *runtime,
                        const char *path);
void ls_run_folder_deinit(ls_run_folder *folder);
LS_OWNED_STRUCT(ls_run_folder, ls_run_folder_deinit)

// Makes and locks the folder, and writes config.json, unless there is a run
// that is to be overwritten: that stays until the commit.
//   LS_ALREADY_EXISTS       there is a run.
//   LS_FAILED_PRECONDITION  another process is writing to it.
LS_MUST_USE ls_status ls_run_folder_start(ls_run_folder *folder,
                                          const ls_train_config *config,
                                          bool overwrite);
// Called after the new run's first step: moves a former run aside
// (former_run.h), and writes config.json. Later calls do nothing.
LS_MUST_USE ls_status ls_run_folder_commit(ls_run_folder *folder,
                                           const ls_train_config *config);
// Removes the former run; called when the new run has a checkpoint.
LS_MUST_USE ls_status ls_run_folder_drop_former(ls_run_folder *folder);
// Called at the end of the new run, which ended with `status`: if it has no
// checkpoint, puts the former run back, and says so in the returned status. A
// failure to do so is logged, and retried by whoever opens the folder next.
LS_MUST_USE ls_status ls_run_folder_settle(ls_run_folder *folder,
                                           ls_status status);
// Settles the folder of a run whose process was killed. Does nothing while a
// run is writing there, or if files cannot be locked.
LS_MUST_USE ls_status ls_run_folder_recover(ls_runtime *runtime,
                                            const char *path);
// Makes and locks the folder of an estimator's run, which has other files, and
// moves a former run aside if it is to be overwritten. Whatever it returns,
// call ls_run_folder_settle at the end.
LS_MUST_USE ls_status ls_run_folder_claim(ls_run_folder *folder,
                                          bool overwrite);
// Returns true for the name of a run's file, also of an estimator's.
bool ls_run_folder_owns(const char *name);
// Removes, as far as possible, a run that was started and has written only its
// config; keeps a run that it was to overwrite.
void ls_run_folder_abandon(ls_run_folder *folder);
// Locks the folder of an existing run. LS_FAILED_PRECONDITION if another
// process is writing to it, LS_NOT_FOUND if there is none.
LS_MUST_USE ls_status ls_run_folder_enter(ls_run_folder *folder);
// Hashes the lines of metrics.jsonl that the run keeps if it resumes at `step`:
// without those of later steps and, with `tests_again`, of an evaluation there,
// which it removes if `cuts`. `*out_seconds` is the time up to the last one.
LS_MUST_USE ls_status ls_run_folder_look_back(ls_run_folder *folder,
                                              int64_t step, bool cuts,
                                              bool tests_again,
                                              double *out_seconds);
// Resumes at `step`: cuts the lines of later steps off metrics.jsonl and
// replaces config.json.
LS_MUST_USE ls_status ls_run_folder_continue(ls_run_folder *folder,
                                             const ls_train_config *config,
                                             int64_t step);

// Numbers of the last step alone; NaN: unknown.
typedef struct ls_last_step {
  double rate, gradient_norm;
} ls_last_step;
// Adds the squares of a gradient's elements to a sum, the norm's square.
void ls_add_squares(const ls_array *gradient, double *sum);
// Appends a line to metrics.jsonl, for steps or an evaluation, unless the file
// is still the former run's; also passes it to the log.
LS_MUST_USE ls_status ls_run_folder_log(ls_run_folder *folder,
                                        const ls_train_report *report,
                                        const ls_last_step *last);
// Does so with a line for the metrics, a dict, of an estimator's evaluation;
// `early` is the state of its rule, or NULL.
LS_MUST_USE ls_status ls_run_folder_log_metrics(ls_run_folder *folder,
                                                int64_t step, ls_nest metrics,
                                                const ls_early_stop *early);
// Does so with a line for a checksum of the variables.
LS_MUST_USE ls_status ls_run_folder_log_sum(ls_run_folder *folder, int64_t step,
                                            uint64_t sum);
// Brings these lines to the disk, so that a checkpoint saved afterwards, which
// resumed runs keep lines up to, has them.
LS_MUST_USE ls_status ls_run_folder_sync_lines(ls_run_folder *folder);
// Returns true if these lines go anywhere.
bool ls_run_folder_has_lines(const ls_run_folder *folder);
// Writes the model at a step to model.safetensors.
LS_MUST_USE ls_status ls_run_folder_save_model(ls_run_folder *folder,
                                               const ls_model *model,
                                               int64_t step);

// ---- Former run ------------------------------------------------------------
// Keeps a run that is being overwritten until the new one has a checkpoint. The
// new run's files have their usual names; the former run's files are moved to
// `.overwritten`, under their own names. A file `phase` there says how far this
// is:
//   moving  files are being moved there or back: all files are the former run's
//   whole   the former run is in there, the new one outside
//   done    one of them is in place: remaining files in there can be removed
// `phase` is replaced atomically and before the work that it announces. So
// whenever a process is killed, one of the two runs is complete, and
// ls_former_run_settle puts it in place.

// Finds out if a run folder has a former run, or its remaining files.
LS_MUST_USE ls_status ls_former_run_exists(ls_runtime *runtime,
                                           const char *run_folder,
                                           bool *out_exists);
// Callers of the functions below hold the lock of the run folder.
//
// Moves the run aside. After a failure call settle.
LS_MUST_USE ls_status ls_former_run_keep(ls_runtime *runtime,
                                         const char *run_folder);
// Removes the former run, once the new run has a checkpoint. After a failure
// call settle.
LS_MUST_USE ls_status ls_former_run_remove(ls_runtime *runtime,
                                           const char *run_folder);
// Removes the former run if the new run has an undamaged checkpoint, or a final
// model, else removes the new run and puts the former one back. Does nothing if
// there is none.
LS_MUST_USE ls_status ls_former_run_settle(ls_runtime *runtime,
                                           const char *run_folder,
                                           bool *out_is_back);

#endif  // LS_TRAIN_FOLDER_RUN_FOLDER_H_
