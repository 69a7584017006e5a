// SPDX-License-Identifier: Apache-2.0
// The event files of a run, for TensorBoard.
//
// Two folders, so that both have the same tags and are drawn over each other:
// `train` with values of steps, `test` with evaluations.
#ifndef LS_TRAIN_EVENTS_RUN_EVENTS_H_
#define LS_TRAIN_EVENTS_RUN_EVENTS_H_

#include "base/text.h"
#include "io/protobuf/events.h"
#include "lockstep/events.h"
#include "lockstep/graph.h"
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

// Logs values of some steps, or of an evaluation; the graph of the step, the
// first time.
LS_MUST_USE ls_status ls_run_events_log(ls_run_events *events,
                                        const ls_train_report *report,
                                        const ls_function *step);
// How the weights are spread at the end of an epoch.
LS_MUST_USE ls_status ls_run_events_log_weights(ls_run_events *events,
                                                int64_t step);

// ---- Event graph -----------------------------------------------------------
// A graph as TensorFlow's GraphDef, for TensorBoard to draw.

// Appends the message. LS_FAILED_PRECONDITION: the eager graph.
LS_MUST_USE ls_status ls_event_graph_print(const ls_graph *graph, ls_text *out);

// ---- Histogram -------------------------------------------------------------
// How the elements of an array are spread.

// Makes a histogram of floats, integers or bool; leaves out numbers that are
// not finite.
void ls_histogram_of(const ls_array *values, ls_histogram *out);

#endif  // LS_TRAIN_EVENTS_RUN_EVENTS_H_
