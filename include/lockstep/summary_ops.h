// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Summaries with steps of their own, and writers of event files in graphs.
//
//   ls_summary_writer *writer = NULL;
//   ls_status status = ls_file_writer_create(
//       &(ls_file_writer_options){.folder = "events"}, &writer);
//   ...
//   LS_SUMMARY_SCOPE(writer);
//   LS_RECORD_SUMMARIES_SCOPE(100);
//   ls_summary_scalar("loss", loss, step);
//
// What is recorded goes to the writer in whose scope (LS_SUMMARY_SCOPE) its op
// was made, and to no other. Recording is off where no scope has opened it.
//
// Threads: as of lockstep/summary.h.
#ifndef LOCKSTEP_SUMMARY_OPS_H_
#define LOCKSTEP_SUMMARY_OPS_H_

#include "lockstep/summary.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Writers of files ------------------------------------------------------
// Where build graphs list what initializes their writers and what flushes them,
// an op for each writer, and the summaries below; those of ls_summary are in
// LS_COLLECTION_SUMMARIES.
#define LS_COLLECTION_SUMMARY_WRITER_INIT "summary_writer_init"
#define LS_COLLECTION_SUMMARY_WRITER_FLUSH "summary_writer_flush"
#define LS_COLLECTION_SUMMARY_OPS "summary_ops"

// How to make one. Zero in a field means its default.
typedef struct ls_file_writer_options {
  const char *folder;  // Required; made with the first file.
  ls_opt max_queue;    // Summaries that are held before all are written. 10.
  // How long they are held: what comes later than that writes all. Default 120.
  ls_opt flush_seconds;
  const char *suffix;  // Of the file's name. Default: none.
} ls_file_writer_options;

// Creates a writer of a file events.out.tfevents.* (lockstep/events.h) with two
// ops where the thread builds: one that initializes it, and one that writes all
// that it holds, both of which do no harm when run again. In eager it is
// initialized at once. With its last reference it writes what is left; what
// fails then is said in the log.
//   LS_INVALID_ARGUMENT  no folder; a number that is too small; a suffix with a
//                        '/'.
LS_API LS_MUST_USE ls_status ls_file_writer_create(
    const ls_file_writer_options *options, ls_summary_writer **out_writer);
// Those ops, of the graph in which it was made, which must be there; failed
// ones in eager, where it is initialized and ls_file_writer_flush flushes it,
// and of other writers.
LS_API ls_op ls_file_writer_initializer(const ls_summary_writer *writer);
LS_API ls_op ls_file_writer_flusher(const ls_summary_writer *writer);
// Writes all that it holds now.
//   LS_INVALID_ARGUMENT  it writes no files.
//   UNAVAILABLE or what else the file system says since the last flush.
LS_API LS_MUST_USE ls_status ls_file_writer_flush(ls_summary_writer *writer);
// What initializes the writers of a build graph, and what flushes them: two
// lists of ops, of the caller's. Either may be NULL.
LS_API LS_MUST_USE ls_status ls_file_writers_of(const ls_graph *graph,
                                                ls_nest *out_initializers,
                                                ls_nest *out_flushers);

// ---- Recording -------------------------------------------------------------
// Inside, the summaries below are recorded at steps that are multiples of
// `steps`: 1 is always, 0 never. It is the steps that are written that count.
// The pair of ls_scope_end.
//   LS_INVALID_ARGUMENT  less than 0.
LS_API void ls_record_summaries_begin(ls_scope *scope, int64_t steps);
#define LS_RECORD_SUMMARIES_SCOPE(steps)                                       \
  LS_SCOPE_(ls_record_summaries_begin, steps)

// ---- Ops -------------------------------------------------------------------
// An op that writes a value under a tag, which has the name scope before it, at
// a step, an integer scalar; zeroed: the global step of the build graph around.
// Where nobody records or wants it, an op that does nothing (a failed one in
// eager, and no error). Of replicas replica 0's is recorded. A run in which the
// writer is not initialized fails with LS_FAILED_PRECONDITION; what a file does
// not take fails the next flush.
//
// A scalar of integers, floats or bool.
LS_PLACED ls_op ls_summary_scalar(const char *tag, ls_tensor value,
                                  ls_tensor step);
// How the elements are spread: of integers, floats or bool.
LS_PLACED ls_op ls_summary_histogram(const char *tag, ls_tensor values,
                                     ls_tensor step);
// [height, width, channels] or [n, height, width, channels] of 1 to 4 channels:
// u8, u16, or floats from 0 to 1.
LS_PLACED ls_op ls_summary_image(const char *tag, ls_tensor image,
                                 ls_tensor step);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SUMMARY_OPS_H_
