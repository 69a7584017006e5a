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
// A summary goes only to the writer in whose scope (LS_SUMMARY_SCOPE) its op
// was made. Recording is off unless a scope turns it on.
//
// Threads: as in lockstep/summary.h.
#ifndef LOCKSTEP_SUMMARY_OPS_H_
#define LOCKSTEP_SUMMARY_OPS_H_

#include "lockstep/summary.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Writers of files ------------------------------------------------------
// Names of a build graph's collections: the ops that initialize its writers and
// those that flush them, one op per writer, and the summaries below; those of
// ls_summary are in LS_COLLECTION_SUMMARIES.
#define LS_COLLECTION_SUMMARY_WRITER_INIT "summary_writer_init"
#define LS_COLLECTION_SUMMARY_WRITER_FLUSH "summary_writer_flush"
#define LS_COLLECTION_SUMMARY_OPS "summary_ops"

// Options of a file writer. Zero in a field means its default.
typedef struct ls_file_writer_options {
  const char *folder;  // Required; created with the first file.
  // Summaries held in memory before all are written. Default 10.
  ls_opt max_queue;
  // Longest time that summaries are held: a later one writes all. Default 120.
  ls_opt flush_seconds;
  const char *suffix;  // Suffix of the file's name. Default: none.
} ls_file_writer_options;

// Creates a writer of a file events.out.tfevents.* (lockstep/events.h), with
// two ops in the current graph: one initializes it, and one flushes it; running
// either again is harmless. In eager it is initialized at once. Releasing the
// last reference writes what is left; a failure then is a line in the log. The
// caller owns a reference.
//   LS_INVALID_ARGUMENT  no folder; a number that is too small; a suffix with a
//                        '/'.
LS_API LS_MUST_USE ls_status ls_file_writer_create(
    const ls_file_writer_options *options, ls_summary_writer **out_writer);
// Return those ops, of the graph in which the writer was created, which must
// exist; failed ones in eager, where it is initialized and ls_file_writer_flush
// flushes it, and for other writers.
LS_API ls_op ls_file_writer_initializer(const ls_summary_writer *writer);
LS_API ls_op ls_file_writer_flusher(const ls_summary_writer *writer);
// Writes everything it holds now.
//   LS_INVALID_ARGUMENT  it writes no files.
//   UNAVAILABLE or the file system's error since the last flush.
LS_API LS_MUST_USE ls_status ls_file_writer_flush(ls_summary_writer *writer);
// Returns the ops that initialize the writers of a build graph, and those that
// flush them: two lists, which the caller owns. Either may be NULL.
LS_API LS_MUST_USE ls_status ls_file_writers_of(const ls_graph *graph,
                                                ls_nest *out_initializers,
                                                ls_nest *out_flushers);

// ---- Recording -------------------------------------------------------------
// Records the summaries below at steps that are multiples of `steps`, until
// ls_scope_end: 1 always, 0 never. The summary's own step counts.
//   LS_INVALID_ARGUMENT  below 0.
LS_API void ls_record_summaries_begin(ls_scope *scope, int64_t steps);
#define LS_RECORD_SUMMARIES_SCOPE(steps)                                       \
  LS_SCOPE_(ls_record_summaries_begin, steps)

// ---- Ops -------------------------------------------------------------------
// Makes an op that writes a value under a tag, prefixed with the name scope, at
// a step, an integer scalar; zeroed: the global step of the enclosing build
// graph. If recording is off or there is no writer, the op does nothing (in
// eager a failed op, without an error). Of replicas only replica 0's value is
// recorded. A run in which the writer is not initialized fails with
// LS_FAILED_PRECONDITION; an error of the file fails the next flush.
//
// Writes a scalar of integers, floats or bool.
LS_PLACED ls_op ls_summary_scalar(const char *tag, ls_tensor value,
                                  ls_tensor step);
// Writes the distribution of the elements: integers, floats or bool.
LS_PLACED ls_op ls_summary_histogram(const char *tag, ls_tensor values,
                                     ls_tensor step);
// Writes images, [height, width, channels] or [n, height, width, channels] of 1
// to 4 channels: u8, u16, or floats from 0 to 1.
LS_PLACED ls_op ls_summary_image(const char *tag, ls_tensor image,
                                 ls_tensor step);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SUMMARY_OPS_H_
