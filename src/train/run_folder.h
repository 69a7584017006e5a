// SPDX-License-Identifier: Apache-2.0
// Run folder: what a run leaves behind.
//
// config.json is written first and says that the folder holds a run. Files are
// replaced as a whole; metrics.jsonl grows line by line.
#ifndef LS_TRAIN_RUN_FOLDER_H_
#define LS_TRAIN_RUN_FOLDER_H_

#include "base/text.h"
#include "train/checkpoint.h"

// Zeroed: no folder; writing to it does nothing.
typedef struct ls_run_folder {
  ls_runtime *runtime;
  const char *path;  // Lent; NULL: none.
  ls_text file;      // The path of the file in hand.
  ls_text text;      // What is being written.
} ls_run_folder;

// Sets it up; makes nothing yet. `path` may be NULL.
void ls_run_folder_init(ls_run_folder *folder, ls_runtime *runtime,
                        const char *path);
void ls_run_folder_deinit(ls_run_folder *folder);

// Makes the folder and writes config.json. ALREADY_EXISTS unless a run that is
// there may be overwritten.
LS_MUST_USE ls_status ls_run_folder_start(ls_run_folder *folder,
                                          const ls_train_config *config,
                                          bool overwrite);
// Takes away a run that has just been started, as far as that can be done.
void ls_run_folder_abandon(ls_run_folder *folder);
// Sets the model to the checkpoint of the run that is there and fills in the
// notes (see ls_checkpoint_read). A run that has saved nothing is at step 0.
LS_MUST_USE ls_status ls_run_folder_restore(ls_run_folder *folder,
                                            const ls_model *model,
                                            ls_checkpoint_notes *notes);
// Goes on from there: cuts off what metrics.jsonl says about later steps and
// replaces config.json.
LS_MUST_USE ls_status ls_run_folder_continue(ls_run_folder *folder,
                                             const ls_train_config *config,
                                             int64_t step);

// Appends a line to metrics.jsonl: of steps, or of an evaluation.
LS_MUST_USE ls_status ls_run_folder_log(ls_run_folder *folder,
                                        const ls_train_report *report);
// Writes checkpoint.safetensors, then model.safetensors.
LS_MUST_USE ls_status ls_run_folder_save(ls_run_folder *folder,
                                         const ls_model *model,
                                         const ls_checkpoint_notes *notes);

#endif  // LS_TRAIN_RUN_FOLDER_H_
