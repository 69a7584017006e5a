// SPDX-License-Identifier: Apache-2.0
// What a run shows in TensorBoard: its event files.
//
// Two folders, so that both have the same tags and are drawn over each other:
// `train` with what steps give, `test` with evaluations.
#ifndef LS_TRAIN_EVENTS_RUN_EVENTS_H_
#define LS_TRAIN_EVENTS_RUN_EVENTS_H_

#include "lockstep/events.h"
#include "lockstep/train.h"

// Zeroed: none are written, and every call does nothing.
typedef struct ls_run_events {
  ls_runtime *runtime;
  const ls_model *model;
  ls_event_writer *train, *test;
  bool has_graph;
} ls_run_events;

// Where the options say, if they do. The run goes on behind `steps`; if
// `tests_again`, it evaluates at that step once more. Nothing is written yet.
//   LS_INVALID_ARGUMENT  they should be in the run folder, but there is none.
LS_MUST_USE ls_status ls_run_events_open(ls_run_events *events,
                                         ls_runtime *runtime,
                                         const ls_train_options *options,
                                         int64_t steps, bool tests_again);
// Writes what is left.
LS_MUST_USE ls_status ls_run_events_close(ls_run_events *events);

// Returns whether a file in a folder of events is an event file.
bool ls_run_events_owns(const char *name);

// What some steps, or an evaluation, have given; the graph of the step, the
// first time.
LS_MUST_USE ls_status ls_run_events_log(ls_run_events *events,
                                        const ls_train_report *report,
                                        const ls_function *step);
// How the weights are spread at the end of an epoch.
LS_MUST_USE ls_status ls_run_events_log_weights(ls_run_events *events,
                                                int64_t step);

#endif  // LS_TRAIN_EVENTS_RUN_EVENTS_H_
