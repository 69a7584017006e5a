// SPDX-License-Identifier: Apache-2.0
// A run's saved variables except checkpoints: the model alone, and the one file
// from which former versions went on.
#ifndef LS_TRAIN_FOLDER_SAVED_VALUES_H_
#define LS_TRAIN_FOLDER_SAVED_VALUES_H_

#include "base/runtime_internal.h"
#include "lockstep/saver.h"
#include "lockstep/train.h"

// The model's variables and, with `all`, its optimizer's. The caller releases
// them with the runtime's allocator.
LS_MUST_USE ls_status ls_train_variables(ls_runtime *runtime,
                                         const ls_model *model, bool all,
                                         ls_variable ***out_variables,
                                         size_t *out_count);

// The optimizer's are made, so that there is something to set or save; the
// first step would have made the same ones.
LS_MUST_USE ls_status ls_train_prepare_optimizer(ls_runtime *runtime,
                                                 const ls_model *model);

// Writes the model's variables at `steps`, as model.safetensors has them.
LS_MUST_USE ls_status ls_model_file_write(ls_runtime *runtime, const char *path,
                                          const ls_model *model, int64_t steps);
// Sets them to what such a file holds.
//   LS_DATA_LOSS         damaged.
//   LS_NOT_FOUND         no such file, or a variable is missing.
//   LS_INVALID_ARGUMENT  of another model.
LS_MUST_USE ls_status ls_model_file_read(ls_runtime *runtime, const char *path,
                                         const ls_model *model);
// Sets them to what the newest whole checkpoint in a folder holds, which a run
// may be writing to.
//   LS_NOT_FOUND  there is none, or a variable is missing.
//   as above
LS_MUST_USE ls_status ls_model_checkpoint_read(ls_runtime *runtime,
                                               const char *folder,
                                               const ls_model *model);

// The notes of a checkpoint.safetensors.
typedef struct ls_former_notes {
  // Must agree, unless `inexact`.
  int64_t replicas, batch_size, seed, examples;
  bool inexact;
  // Where the run is.
  int64_t steps;
  double seconds;
} ls_former_notes;
// Sets all variables to what it holds. What the notes must agree in is given,
// the rest is filled in.
LS_MUST_USE ls_status ls_former_checkpoint_read(ls_runtime *runtime,
                                                const char *path,
                                                const ls_model *model,
                                                ls_former_notes *notes);

#endif  // LS_TRAIN_FOLDER_SAVED_VALUES_H_
