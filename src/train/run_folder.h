// SPDX-License-Identifier: Apache-2.0
// Run folder: what a run leaves behind.
//
// config.json is written first and says that the folder holds a run.
#ifndef LS_TRAIN_RUN_FOLDER_H_
#define LS_TRAIN_RUN_FOLDER_H_

#include "base/runtime_internal.h"
#include "base/text.h"
#include "lockstep/train.h"

// Zeroed: no folder; writing to it does nothing.
typedef struct ls_run_folder {
  ls_runtime *runtime;
  const char *path;  // Lent; NULL: none.
  ls_text file;      // The path of the file in hand.
  ls_text text;      // What is being written.
} ls_run_folder;

// Makes the folder and writes config.json. `options` has its defaults filled
// in. ALREADY_EXISTS unless a run that is there may be overwritten.
LS_MUST_USE ls_status ls_run_folder_open(ls_run_folder *folder,
                                         ls_runtime *runtime,
                                         const ls_train_options *options);
void ls_run_folder_close(ls_run_folder *folder);

// Appends a line to metrics.jsonl: of steps, or of an evaluation.
LS_MUST_USE ls_status ls_run_folder_log(ls_run_folder *folder,
                                        const ls_train_report *report);
// Writes model.safetensors.
LS_MUST_USE ls_status ls_run_folder_save(ls_run_folder *folder,
                                         const ls_model *model, int64_t step);

#endif  // LS_TRAIN_RUN_FOLDER_H_
