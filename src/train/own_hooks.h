// SPDX-License-Identifier: Apache-2.0
// The hooks that make a run what it is: lines and events, reports, saves,
// evaluations. What a run does around its steps is theirs, each in its place in
// the list; see src/train/README.md.
#ifndef LS_TRAIN_OWN_HOOKS_H_
#define LS_TRAIN_OWN_HOOKS_H_

#include "lockstep/training_parts.h"
#include "train/events/run_events.h"
#include "train/folder/run_folder.h"
#include "train/folder/saves.h"
#include "train/hooks/list.h"
#include "train/ranks.h"
#include "train/run_place.h"

// Lines of metrics.jsonl, and event files. (own_lines.c)
typedef struct ls_own_lines {
  const ls_run_place *place;
  ls_run_folder *folder;
  ls_run_events events;
  ls_run_means window;  // Since the last line.
  int64_t tested;       // The step of the last evaluation that was told; -1.
} ls_own_lines;

// What the caller hears. (own_reports.c)
typedef struct ls_own_reports {
  const ls_run_place *place;
  ls_run_means window;  // Of this epoch.
  ls_train_report report;
} ls_own_reports;

// Checkpoints, and the model at the end. (own_saver.c)
typedef struct ls_own_saver {
  ls_run_place *place;
  ls_saves *saves;
  ls_run_folder *folder;
  ls_run_ranks *ranks;
  ls_run_means kept;  // Since the last save.
  bool is_due;        // As rank 0 sees it.
  bool has_failed;    // Some rank knows of a save that failed.
} ls_own_saver;

// What is tested behind an epoch. (own_tests.c)
typedef struct ls_own_tests {
  ls_run_place *place;
  ls_evaluator *evaluator;  // NULL: no test set.
} ls_own_tests;

typedef struct ls_own_hooks {
  ls_own_lines lines;
  ls_own_reports reports;
  ls_own_saver saver;
  ls_own_tests tests;
} ls_own_hooks;

// Adds them all and those of the caller to an empty list, in the order of the
// README. `own` has been filled in, and outlives the list.
LS_MUST_USE ls_status ls_own_hooks_list(ls_own_hooks *own,
                                        ls_hook *const *hooks, size_t count,
                                        ls_hook_list *list);
// Ends the run, also one that fails: writes a line of the steps after the last
// line, and closes files.
LS_MUST_USE ls_status ls_own_lines_close(ls_own_lines *lines);

// ---- Their types: each has a part of ls_own_hooks as its state -------------
extern const ls_hook_type ls_own_lines_of_steps;
extern const ls_hook_type ls_own_lines_of_rest;  // After an epoch.
extern const ls_hook_type ls_own_lines_of_tests;
extern const ls_hook_type ls_own_reports_of_steps;
extern const ls_hook_type ls_own_reports_at_end;     // Of an epoch,
extern const ls_hook_type ls_own_reports_of_epochs;  //   and reported.
extern const ls_hook_type ls_own_reports_of_stop;
extern const ls_hook_type ls_own_saver_of_steps;
extern const ls_hook_type ls_own_saver_of_tests;  // And the end.
extern const ls_hook_type ls_own_tests_of_epochs;

#endif  // LS_TRAIN_OWN_HOOKS_H_
