// SPDX-License-Identifier: Apache-2.0
// A run's checkpoints: what is in them, when one is due, and going on from
// them.
//
// Besides variables a checkpoint holds how often the functions were called,
// which random ops draw by; the place in the input, as the iterator tells it;
// and what the caller's options add.
#ifndef LS_TRAIN_FOLDER_SAVES_H_
#define LS_TRAIN_FOLDER_SAVES_H_

#include "lockstep/checkpoint.h"
#include "lockstep/iterator.h"
#include "train/hooks/saving.h"
#include "train/identity.h"
#include "train/ranks.h"
#include "train/run_plan.h"

enum { LS_RUN_STATES = 3, LS_RUN_METRICS = 4 };

// Zeroed: nothing is saved.
typedef struct ls_saves {
  ls_runtime *runtime;
  const ls_run_plan *plan;  // Lent.
  const char *folder;
  // Lent: what has a state.
  ls_function *step, *evaluate;  // NULL: nothing is evaluated.
  ls_iterator *input;
  ls_variable **variables;
  ls_saver values;
  ls_record *identity;
  ls_saveable *states;
  ls_saving saving;
  // While the input makes an element that is waited for, only where it is can
  // be told.
  bool input_stalls;
  double seconds;  // That the run has taken, as it is saved.
  // How often `evaluate` was called before the evaluation of the step that is
  // saved, whether that was made or not: whoever goes on from there makes it.
  uint64_t evaluated;
  ls_program_identity program;
  // The program that a resumed run has to have, until it is known.
  ls_program_identity wanted;
  int64_t wanted_steps;
} ls_saves;

// Sets the contents of saves and the folder, which is lent; NULL: nowhere. No
// file is touched.
LS_MUST_USE ls_status ls_saves_init(ls_saves *saves, ls_runtime *runtime,
                                    const ls_run_plan *plan, const char *folder,
                                    ls_function *step, ls_function *evaluate,
                                    ls_iterator *input);
// Waits for what is being written; the status is that of the last save.
LS_MUST_USE ls_status ls_saves_deinit(ls_saves *saves);

// Begins to save, in a folder without checkpoints of another run. Of several
// ranks each writes its part from now on: all come to each save, and to what
// begins and waits for them.
LS_MUST_USE ls_status ls_saves_open(ls_saves *saves, const ls_run_ranks *ranks);
// Returns whether a file of a run folder is of checkpoints, the list too.
bool ls_saves_owns(const char *name);

// Opens them and sets all to the newest that is whole, and `*out_steps` to its
// step: 0 where the run has saved none, and has a model.safetensors nowhere.
LS_MUST_USE ls_status ls_saves_resume(ls_saves *saves, ls_run_ranks *ranks,
                                      int64_t *out_steps);

// The step's function has run on a batch of so many examples: whether it is
// what the run had before.
LS_MUST_USE ls_status ls_saves_check_program(ls_saves *saves, int64_t examples);

// Returns whether the run is known to be the one that goes on, so that it may
// be saved.
bool ls_saves_are_known(const ls_saves *saves);

#endif  // LS_TRAIN_FOLDER_SAVES_H_
