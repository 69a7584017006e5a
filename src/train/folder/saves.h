// SPDX-License-Identifier: Apache-2.0
// A run's checkpoints: contents, when one is due, and resuming.
//
// Besides variables a checkpoint holds the number of calls of the functions, on
// which random draws depend; the iterator's position in the input; and what the
// caller's options add.
#ifndef LS_TRAIN_FOLDER_SAVES_H_
#define LS_TRAIN_FOLDER_SAVES_H_

#include "base/runtime_internal.h"
#include "lockstep/checkpoint.h"
#include "lockstep/iterator.h"
#include "lockstep/saver.h"
#include "lockstep/train.h"
#include "train/hooks/saving.h"
#include "train/ranks.h"
#include "train/run_plan.h"

// ---- Identity --------------------------------------------------------------
// Identity of runs that may resume each other: their data, and the step's
// program.
// Hashes the contents of a data set as far as that is cheap: its description,
// which covers arrays in memory, and the bytes of files (parts of large ones).
LS_MUST_USE ls_status ls_train_identify_data(ls_runtime *runtime,
                                             const ls_dataset *dataset,
                                             uint64_t *out_contents);

// Identity of a function's newest trace, as built and as lowered: strategies of
// different kinds build different graphs that lower to the same program.
typedef struct ls_program_identity {
  char all[33];  // Hexadecimal; "": unknown.
  char ops[33];  // Digest without numeric constants, such as rates.
  char lowered[33], lowered_ops[33];
} ls_program_identity;
LS_MUST_USE ls_status ls_train_identify_program(const ls_function *function,
                                                ls_program_identity *out);

// ---- Checkpoints -----------------------------------------------------------
enum { LS_RUN_STATES = 3, LS_RUN_METRICS = 4 };

// Zeroed: saves nothing.
typedef struct ls_saves {
  ls_runtime *runtime;
  const ls_run_plan *plan;  // Lent.
  const char *folder;
  // Objects whose state is saved, lent.
  ls_function *step, *evaluate;  // `evaluate` NULL: no evaluations.
  ls_iterator *input;
  ls_variable **variables;
  ls_saver values;
  ls_record *identity;
  ls_saveable *states;
  ls_saving saving;
  // The input is making an element, so that only its position can be saved.
  bool input_stalls;
  double seconds;  // Time that the run has taken so far, saved with it.
  // Calls of `evaluate` before the evaluation of the saved step, whether that
  // was made or not: a resumed run makes it.
  uint64_t evaluated;
  ls_program_identity program;
  // The program that a resumed run must have, as its checkpoint says.
  ls_program_identity wanted;
  int64_t wanted_steps;
  ls_early_stop early;
  char test_hash[17];  // Hash of the test set; "": there is none.
} ls_saves;

// Sets what is saved, and the folder, which is lent; NULL: no folder. Touches
// no file.
LS_MUST_USE ls_status ls_saves_init(ls_saves *saves, ls_runtime *runtime,
                                    const ls_run_plan *plan, const char *folder,
                                    ls_function *step, ls_function *evaluate,
                                    ls_iterator *input);
// Waits for a save in progress; returns the status of the last save.
LS_MUST_USE ls_status ls_saves_deinit(ls_saves *saves);

// Begins saving, in a folder without checkpoints of another run. Each of
// several ranks writes its part: from now on all ranks must take part in each
// save, and in functions that begin one or wait for one.
LS_MUST_USE ls_status ls_saves_open(ls_saves *saves, const ls_run_ranks *ranks);
// Returns true for the name of a checkpoint's file or the list.
bool ls_saves_owns(const char *name);

// Opens the checkpoints and restores the newest undamaged one. Sets
// `*out_steps` to its step: 0 if the run has saved none and has no
// model.safetensors.
LS_MUST_USE ls_status ls_saves_resume(ls_saves *saves, ls_run_ranks *ranks,
                                      int64_t *out_steps);
// Restores a checkpoint of the run that the options go on from; sets
// `*out_steps` to its step. Saves are not open afterwards.
LS_MUST_USE ls_status ls_saves_go_on(ls_saves *saves, ls_run_ranks *ranks,
                                     int64_t *out_steps);

// Checks, after the step's function has run on a batch of `examples` examples,
// that its program is that of the resumed run.
LS_MUST_USE ls_status ls_saves_check_program(ls_saves *saves, int64_t examples);

// Returns true once a resumed run's program is verified, so that the run may be
// saved.
bool ls_saves_are_known(const ls_saves *saves);

// ---- The model alone --------------------------------------------------------
// Saved variables of a run other than checkpoints: the model, and the
// checkpoint file of earlier versions.
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

#endif  // LS_TRAIN_FOLDER_SAVES_H_
