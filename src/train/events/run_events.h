// SPDX-License-Identifier: Apache-2.0
// The event files of a run, for TensorBoard.
//
// There are two folders, so that both can have the same tags and are drawn in
// one chart: `train` with values of steps, `test` with evaluations.
#ifndef LS_TRAIN_EVENTS_RUN_EVENTS_H_
#define LS_TRAIN_EVENTS_RUN_EVENTS_H_

#include "base/text.h"
#include "io/protobuf/events.h"
#include "lockstep/events.h"
#include "lockstep/graph.h"
#include "lockstep/session.h"
#include "lockstep/train.h"
#include "train/folder/run_folder.h"

// Zeroed: writes no events; all calls do nothing.
typedef struct ls_run_events {
  ls_runtime *runtime;
  ls_event_writer *train, *test;
  bool has_graph;
} ls_run_events;

// Opens the folders given by the options, if any; writes nothing yet. The run
// continues after step `steps`; if `tests_again`, it first repeats that step's
// evaluation.
//   LS_INVALID_ARGUMENT  events in the run folder, but there is none.
LS_MUST_USE ls_status ls_run_events_open(ls_run_events *events,
                                         ls_runtime *runtime,
                                         const ls_train_options *options,
                                         int64_t steps, bool tests_again);
// Writes what is left and closes the files.
LS_MUST_USE ls_status ls_run_events_close(ls_run_events *events);

// Returns true for the name of an event file.
bool ls_run_events_owns(const char *name);

// Logs values of some steps and of the last one, or of an evaluation; the first
// time also the step's graph.
LS_MUST_USE ls_status ls_run_events_log(ls_run_events *events,
                                        const ls_train_report *report,
                                        const ls_last_step *last,
                                        const ls_graph *graph);
// Logs the numbers among the metrics, a dict, of an estimator's evaluation.
LS_MUST_USE ls_status ls_run_events_log_metrics(ls_run_events *events,
                                                int64_t step, ls_nest metrics);
// Logs histograms of the weights among these variables, of a session or, NULL,
// of functions.
LS_MUST_USE ls_status ls_run_events_log_weights(ls_run_events *events,
                                                ls_session *session,
                                                ls_variable *const *variables,
                                                size_t count, int64_t step);

// ---- Event graph -----------------------------------------------------------
// Prints graphs as TensorFlow's GraphDef, which TensorBoard draws.

// Appends the message. LS_FAILED_PRECONDITION for the eager graph.
LS_MUST_USE ls_status ls_event_graph_print(const ls_graph *graph, ls_text *out);

// ---- Histogram -------------------------------------------------------------
// Histograms of arrays' elements.

// Makes a histogram of floats, integers or bools; leaves out NaN and
// infinities.
void ls_histogram_of(const ls_array *values, ls_histogram *out);

#endif  // LS_TRAIN_EVENTS_RUN_EVENTS_H_
