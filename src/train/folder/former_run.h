// SPDX-License-Identifier: Apache-2.0
// A run that is being overwritten: kept until the new one has a checkpoint.
//
// The new run writes at the usual places of the folder, the files of the former
// one lie in `.overwritten` meanwhile, under their own names. A file `phase`
// beside them says how far it is:
//
//   moving  on their way there or back: all of the run folder is the former's
//   whole   the former run is in there, the new one outside
//   done    one of them is in its place: what is in there is left over
//
// `phase` is replaced at once and before what it announces. So whenever a
// process is killed, one of the two runs is whole, and ls_former_run_settle
// puts it in its place.
#ifndef LS_TRAIN_FOLDER_FORMER_RUN_H_
#define LS_TRAIN_FOLDER_FORMER_RUN_H_

#include "base/runtime_internal.h"

// Returns whether a run folder has such a run, or files left over of one.
LS_MUST_USE ls_status ls_former_run_exists(ls_runtime *runtime,
                                           const char *run_folder,
                                           bool *out_exists);
// Whoever calls these holds the lock of the run folder.
//
// Moves the run of the folder aside. After a failure it is for settle.
LS_MUST_USE ls_status ls_former_run_keep(ls_runtime *runtime,
                                         const char *run_folder);
// Removes it: the new run has a checkpoint. After a failure it is for settle.
LS_MUST_USE ls_status ls_former_run_remove(ls_runtime *runtime,
                                           const char *run_folder);
// Removes it if the new run has a whole checkpoint, or a model at its end, else
// removes the new run and puts the former one back. Does nothing where there is
// none.
LS_MUST_USE ls_status ls_former_run_settle(ls_runtime *runtime,
                                           const char *run_folder,
                                           bool *out_is_back);

#endif  // LS_TRAIN_FOLDER_FORMER_RUN_H_
