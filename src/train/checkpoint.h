// SPDX-License-Identifier: Apache-2.0
// Checkpoint: all that a run goes on from, as one file.
//
// It holds the model's variables and the optimizer's, and in notes the number
// of steps and what a run must have in common with the one that wrote it. The
// place in the data and in the random streams follow from the steps. Because it
// is one file that is replaced as a whole, no two parts of it are of different
// steps.
#ifndef LS_TRAIN_CHECKPOINT_H_
#define LS_TRAIN_CHECKPOINT_H_

#include "base/runtime_internal.h"
#include "lockstep/train.h"

// What the notes say.
typedef struct ls_checkpoint_notes {
  // Must agree.
  int64_t replicas, batch_size, seed, examples;
  // Where the run is.
  int64_t steps;
  double seconds;
} ls_checkpoint_notes;

// Writes all, or with `notes` NULL what the model alone has, at `steps`.
LS_MUST_USE ls_status ls_checkpoint_write(ls_runtime *runtime, const char *path,
                                          const ls_model *model, int64_t steps,
                                          const ls_checkpoint_notes *notes);

// Sets the variables to what a file holds. With `notes` all of them; what the
// notes must agree in is given, the rest is filled in. With NULL the model's.
//   LS_DATA_LOSS         damaged.
//   LS_NOT_FOUND         no such file, or a variable is missing.
//   LS_INVALID_ARGUMENT  of another model or run.
LS_MUST_USE ls_status ls_checkpoint_read(ls_runtime *runtime, const char *path,
                                         const ls_model *model,
                                         ls_checkpoint_notes *notes);

#endif  // LS_TRAIN_CHECKPOINT_H_
