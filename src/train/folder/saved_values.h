// SPDX-License-Identifier: Apache-2.0
// Saved variables of a run other than checkpoints: the model, and the
// checkpoint file of earlier versions.
#ifndef LS_TRAIN_FOLDER_SAVED_VALUES_H_
#define LS_TRAIN_FOLDER_SAVED_VALUES_H_

#include "base/runtime_internal.h"
#include "lockstep/saver.h"
#include "lockstep/train.h"

// Lists the model's variables and, with `all`, its optimizer's. The caller
// frees the list with the runtime's allocator.
LS_MUST_USE ls_status ls_train_variables(ls_runtime *runtime,
                                         const ls_model *model, bool all,
                                         ls_variable ***out_variables,
                                         size_t *out_count);

// Makes the optimizer's variables, as the first step would, so that they can be
// restored or saved.
LS_MUST_USE ls_status ls_train_prepare_optimizer(ls_runtime *runtime,
                                                 const ls_model *model);

// Writes the model's variables after `steps` steps to a file like
// model.safetensors.
LS_MUST_USE ls_status ls_model_file_write(ls_runtime *runtime, const char *path,
                                          const ls_model *model, int64_t steps);
// Sets the model's variables from such a file.
//   LS_DATA_LOSS         damaged.
//   LS_NOT_FOUND         no such file, or a variable is missing.
//   LS_INVALID_ARGUMENT  another model's.
LS_MUST_USE ls_status ls_model_file_read(ls_runtime *runtime, const char *path,
                                         const ls_model *model);
// Sets the model's variables from the newest undamaged checkpoint in a folder,
// to which a run may be writing.
//   LS_NOT_FOUND  there is none, or a variable is missing.
//   other errors as of ls_model_file_read
LS_MUST_USE ls_status ls_model_checkpoint_read(ls_runtime *runtime,
                                               const char *folder,
                                               const ls_model *model);

// Notes in the header of a checkpoint.safetensors.
typedef struct ls_former_notes {
  // Must agree with the run, unless it is `inexact`.
  int64_t replicas, batch_size, seed, examples;
  bool inexact;
  // Position of the run.
  int64_t steps;
  double seconds;
} ls_former_notes;
// Sets all variables from the file. `notes` has the values that must agree; the
// other notes are filled in.
LS_MUST_USE ls_status ls_former_checkpoint_read(ls_runtime *runtime,
                                                const char *path,
                                                const ls_model *model,
                                                ls_former_notes *notes);

// ---- Warm starts -----------------------------------------------------------
// Sets the model's variables, not the optimizer's, and logs it. NULL does
// nothing.
LS_MUST_USE ls_status ls_warm_start_apply(ls_runtime *runtime,
                                          const ls_model *model,
                                          const ls_warm_start *warm_start);

#endif  // LS_TRAIN_FOLDER_SAVED_VALUES_H_
