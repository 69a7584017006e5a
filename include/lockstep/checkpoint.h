// SPDX-License-Identifier: Apache-2.0
// Layer: state
//
// Checkpoints: a folder with all that a run goes on from, at several steps.
//
//   model.ckpt-<step>.safetensors  values of variables, as a saver's file
//   model.ckpt-<step>.json         the rest, with a checksum of each entry of
//                                  the other file and of itself
//   checkpoint                     their names, the newest last
//
// A checkpoint exists once its .json does, which is written last; each file is
// written aside, synced and renamed. One that a bit was flipped in, that was
// cut off, or of which a file is gone, is passed over for the newest that is
// whole, with one warning that names both. The list is for people and other
// tools; what counts is what is there.
//
// A save copies the values and returns; a thread writes them while the run goes
// on, and gives way to its steps until somebody waits. What goes wrong
// meanwhile is the status of the next call.
//
// Threads: checkpoints belong to one thread at a time.
#ifndef LOCKSTEP_CHECKPOINT_H_
#define LOCKSTEP_CHECKPOINT_H_

#include "lockstep/saved_file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_checkpoints ls_checkpoints;

// Something besides variables that has a state: an iterator, a counter.
typedef struct ls_saveable {
  const char *name;  // In the checkpoint, "input/train". Lent.
  void *self;
  ls_status (*save)(void *self, ls_record *record);  // Into an empty record.
  ls_status (*restore)(void *self, const ls_record *record);
} ls_saveable;

// Zero in a field means its default. All that it points to is lent for the
// checkpoints' life.
typedef struct ls_checkpoints_options {
  const char *folder;      // Required. Made if it is not there.
  const ls_saver *values;  // Required.
  const ls_saveable *states;
  size_t num_states;
  // What runs that go on from each other have in common: numbers and texts by
  // name, such as the model's. Default: nothing.
  const ls_record *identity;
  ls_opt keep;              // The newest so many; 0: all. Default 5.
  double keep_every_hours;  // Also one of each so many hours. Default: none.
  const char *best_metric;  // Also those where this metric is best. Default:
  ls_flag best_is_high;     //   none. Default: low.
  ls_opt keep_best;         // How many of these. Default 1.
  ls_opt every_steps;       // When one is due: see ls_checkpoints_due. Default:
  ls_opt every_seconds;     //   each 60 seconds, if no steps are said.
  ls_flag background;       // Off: a save returns when it is on the disk.
  // On: all ranks of the runtime's trunk open these by the same name, and make
  // the same calls, as they do with steps. Each copies and writes its part of
  // the values, if all see the same folder; else rank 0 writes, and sends what
  // is restored. What goes wrong on one fails on all. Files are the same as of
  // one rank; states and metrics are rank 0's. Default off: a rank has its own.
  ls_flag ranks;
  ls_flag goes_on;  // On: a save that failed in the background is a warning in
                    // the log, no failure. Default off.
} ls_checkpoints_options;

// Opens a folder, and clears it of what killed writers have left.
//   LS_INVALID_ARGUMENT  two states of one name, or a negative number.
// A state's functions may only look at the checkpoints that call them: to save,
// restore or close these there is LS_FAILED_PRECONDITION.
LS_API LS_MUST_USE ls_status ls_checkpoints_open(
    const ls_checkpoints_options *options, ls_checkpoints **out_checkpoints);
// Waits for what is being written, and frees them in any case; the status is
// that of the last save. NULL is fine.
LS_API LS_MUST_USE ls_status ls_checkpoints_close(ls_checkpoints *checkpoints);

// Whether so many steps or seconds have passed since the last save, or since
// they were opened; of ranks, as rank 0 says.
LS_API bool ls_checkpoints_due(const ls_checkpoints *checkpoints, int64_t step);

// Saves what is now as the checkpoint of `step`, in place of one of the same
// step, and takes away those that are not kept any more.
//   what went wrong with the save before, unless it `goes_on`
LS_API LS_MUST_USE ls_status
ls_checkpoints_save(ls_checkpoints *checkpoints, int64_t step,
                    const ls_checkpoint_metric *metrics, size_t num_metrics);
// What went wrong with the last save, if that is known: it does not wait.
LS_API LS_MUST_USE ls_status ls_checkpoints_check(ls_checkpoints *checkpoints);
// Until the last save is on the disk.
LS_API LS_MUST_USE ls_status ls_checkpoints_wait(ls_checkpoints *checkpoints);

// The steps of the checkpoints that are there, in ascending order, whole or
// not; writes up to `capacity` and sets their number.
LS_API LS_MUST_USE ls_status ls_checkpoints_list(ls_checkpoints *checkpoints,
                                                 int64_t *steps,
                                                 size_t capacity,
                                                 size_t *out_count);

// Zero in a field means its default.
typedef struct ls_restore_options {
  ls_opt step;  // Default: the newest that is whole.
  // Or this one, which is open already: variables that started with it are not
  // loaded again.
  const ls_saved_file *file;
  // On: another identity is a warning, and what replicas have each is not
  // restored bit for bit, but shared out from the one value. Default off.
  ls_flag inexact;
  ls_value_choice values;  // Which variables, from which entries.
  // The states that are restored, by name or pattern. NULL: all; none: 0 of
  // them.
  const char *const *states;
  size_t num_states;
} ls_restore_options;
typedef struct ls_restore_report {
  int64_t step;
  size_t variables, states;  // That were restored.
  size_t damaged;            // Newer ones that were passed over.
  bool inexact;              // Its identity is another.
  ls_value_report values;    // What became of each variable.
} ls_restore_report;
// Sets variables and states to what a checkpoint holds, or those that are
// wanted. Nothing is set before all of it has been read and found to fit. What
// cannot be read any more when it is to be set is passed over, too; where there
// is none before it, variables that were not read to their end have no value.
// `options` and `report` may be NULL.
//   LS_NOT_FOUND         there is none, or none of that step.
//   LS_DATA_LOSS         none is whole: names the file and the entry.
//   LS_INVALID_ARGUMENT  of other variables or another run: names both; a name
//                        or pattern that fits nothing; a file and a step, or a
//                        file that is no checkpoint.
LS_API LS_MUST_USE ls_status ls_checkpoints_restore(
    ls_checkpoints *checkpoints, const ls_restore_options *options,
    ls_restore_report *report);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CHECKPOINT_H_
