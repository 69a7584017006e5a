// SPDX-License-Identifier: Apache-2.0
// Layer: state
//
// Checkpoints: a folder with everything that a run needs to resume, at several
// steps.
//
//   model.ckpt-<step>.safetensors  values of variables, as a saver's file
//   model.ckpt-<step>.json         the rest, with a checksum of each entry of
//                                  the other file and of itself
//   checkpoint                     their names, the newest last
//
// A checkpoint exists once its .json does, which is written last; each file is
// written under a temporary name, synced and renamed. A checkpoint with a
// flipped bit, a truncated file or a missing file is skipped in favour of the
// newest intact one, with one warning that names both. The list `checkpoint` is
// for people and other tools; the library goes by the files that exist.
//
// A save copies the values and returns; a background thread writes them while
// the run continues, and yields to its steps until somebody waits for the save.
// A failure of that write is the status of the next call.
//
// Threads: checkpoints belong to one thread at a time.
#ifndef LOCKSTEP_CHECKPOINT_H_
#define LOCKSTEP_CHECKPOINT_H_

#include "lockstep/saved_file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_checkpoints ls_checkpoints;

// An object besides variables that has state: lockstep/saveables.h makes those
// of iterators and of functions.
typedef struct ls_saveable {
  const char *name;  // Key in the checkpoint, such as "input/train". Lent.
  void *self;
  // Writes the state into an empty record.
  ls_status (*save)(void *self, ls_record *record);
  ls_status (*restore)(void *self, const ls_record *record);
} ls_saveable;

// Zero in a field means its default. Everything that the fields point to is
// lent for the checkpoints' life.
typedef struct ls_checkpoints_options {
  const char *folder;      // Required. Created if missing.
  const ls_saver *values;  // Required.
  const ls_saveable *states;
  size_t num_states;
  // Numbers and texts by name that all runs sharing these checkpoints have in
  // common, such as the model's name. Default: nothing.
  const ls_record *identity;
  // Number of newest checkpoints, by step, to keep; 0: all. Default 5.
  ls_opt keep;
  // Also keeps one per this many hours. Default: none.
  double keep_every_hours;
  // Also keeps the checkpoints that are best by this metric. Default: none.
  const char *best_metric;
  // On: the highest value is best. Default: the lowest is.
  ls_flag best_is_high;
  ls_opt keep_best;  // Number of best checkpoints to keep. Default 1.
  // Also keeps the checkpoint of this step, which may change between saves; 0:
  // none.
  const int64_t *kept_step;
  // Interval between saves: see ls_checkpoints_due. Default: 60 seconds if no
  // number of steps is given.
  ls_opt every_steps;
  ls_opt every_seconds;
  ls_flag background;  // Off: a save returns once it is on the disk.
  // On: all ranks of the runtime's communicator open these checkpoints, several
  // in the same order, and make the same calls at the same steps. Each rank
  // copies and writes its part of the values if all see the same folder;
  // otherwise rank 0 writes into its own, and sends the restored values. A
  // failure on one rank fails on all.
  // Files are the same as those of one rank; states and metrics are rank 0's.
  // Default off: each rank has checkpoints of its own.
  ls_flag ranks;
  // On: a save that fails in the background is only a warning in the log.
  // Default off.
  ls_flag goes_on;
} ls_checkpoints_options;

// Opens a folder and removes what killed writers have left there: temporary
// files, and values without a .json, of which the log tells. Removes nothing,
// with a warning, while other open checkpoints, of any process, hold the
// folder's lock (checkpoint.lock). The caller owns `*out_checkpoints`.
//   LS_INVALID_ARGUMENT  two states have one name, or a number is negative.
// A state's functions may not save, restore or close the checkpoints that call
// them: these calls then fail with LS_FAILED_PRECONDITION.
LS_API LS_MUST_USE ls_status ls_checkpoints_open(
    const ls_checkpoints_options *options, ls_checkpoints **out_checkpoints);
// Waits for the write in progress and frees the checkpoints in any case;
// returns the status of the last save. NULL is fine.
LS_API LS_MUST_USE ls_status ls_checkpoints_close(ls_checkpoints *checkpoints);

// Returns true if a multiple of the given number of steps was reached since the
// last save, or the given seconds have passed since it, or since the
// checkpoints were opened. With ranks, rank 0 decides.
LS_API bool ls_checkpoints_due(const ls_checkpoints *checkpoints, int64_t step);

// Saves the current values as the checkpoint of `step`, replacing one of the
// same step, and deletes others that are no longer kept. The first save after
// all values of a given step (ls_restore_options.step) were restored also
// deletes the checkpoints of later steps: the run has left that future. A step
// that is saved again without metrics keeps its `best_metric`.
//   the failure of the previous save, unless `goes_on` is set
//   LS_INVALID_ARGUMENT  the step is negative, or two metrics have one name.
LS_API LS_MUST_USE ls_status
ls_checkpoints_save(ls_checkpoints *checkpoints, int64_t step,
                    const ls_checkpoint_metric *metrics, size_t num_metrics);
// Returns the failure of the last save, if it is known already: does not wait.
LS_API LS_MUST_USE ls_status ls_checkpoints_check(ls_checkpoints *checkpoints);
// Waits until the last save is on the disk and returns its status.
LS_API LS_MUST_USE ls_status ls_checkpoints_wait(ls_checkpoints *checkpoints);

// Lists the steps of the checkpoints in the folder, in ascending order, intact
// or not: writes up to `capacity` of them and sets their number.
LS_API LS_MUST_USE ls_status ls_checkpoints_list(ls_checkpoints *checkpoints,
                                                 int64_t *steps,
                                                 size_t capacity,
                                                 size_t *out_count);

// Zero in a field means its default.
typedef struct ls_restore_options {
  ls_opt step;  // Default: the newest intact checkpoint.
  // Alternatively a checkpoint file that is already open: variables that
  // started with it are not loaded again.
  const ls_saved_file *file;
  // On: a different identity is only a warning, and values that each replica
  // has of its own are not restored bit for bit, but derived from the one
  // value. Default off.
  ls_flag inexact;
  // Selects variables and the entries they are restored from.
  ls_value_choice values;
  // States to restore, by name or pattern. NULL: all; a list of 0 items: none.
  const char *const *states;
  size_t num_states;
} ls_restore_options;
typedef struct ls_restore_report {
  int64_t step;
  size_t variables, states;  // Numbers of restored variables and states.
  size_t damaged;            // Number of newer checkpoints that were skipped.
  bool inexact;              // The checkpoint has a different identity.
  ls_value_report values;    // Result for each variable.
} ls_restore_report;
// Sets variables and states, or the selected ones, to the values of a
// checkpoint. Nothing is set before all of it has been read and found to fit. If
// a state's own function refuses all the same, the states before it are
// restored, those after it and the variables are not. A checkpoint that becomes
// unreadable while it is being set is skipped too; if there is no earlier one,
// variables that were not read completely have no value. `options` and `report`
// may be NULL.
//   LS_NOT_FOUND         there is no checkpoint, or none of that step.
//   LS_DATA_LOSS         no checkpoint is intact: names the file and the entry.
//   LS_INVALID_ARGUMENT  it belongs to other variables or another run: names
//                        both; a name or pattern matches nothing; both a file
//                        and a step are given, or the file is no checkpoint.
LS_API LS_MUST_USE ls_status ls_checkpoints_restore(
    ls_checkpoints *checkpoints, const ls_restore_options *options,
    ls_restore_report *report);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CHECKPOINT_H_
