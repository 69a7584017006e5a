// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Summaries: values of a step that somebody wants to see, such as a loss.
//
// A summary is an op for its effect: wherever it runs, its value goes to the
// writer that was in force where it was made. Of a step's replicas replica 0's
// alone is recorded.
//
// Threads: a writer is used by any number of threads at the same time; its
// function is called by any of them, one call at a time.
#ifndef LOCKSTEP_SUMMARY_H_
#define LOCKSTEP_SUMMARY_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// Where summaries go. Counted; the ops that write to it keep it.
typedef struct ls_summary_writer ls_summary_writer;

// What a value is to be shown as.
typedef enum ls_summary_kind {
  LS_SUMMARY_BY_VALUE,  // By its type and shape: of ls_summary.
  LS_SUMMARY_SCALAR,    // The others are of lockstep/summary_ops.h.
  LS_SUMMARY_HISTOGRAM,
  LS_SUMMARY_IMAGE,
} ls_summary_kind;

// One recorded value, lent for the call.
typedef struct ls_summary_record {
  const char *tag;  // With the name scope of the op: "train/loss".
  int64_t step;     // The writer's, or the op's own.
  const ls_array *value;
  ls_summary_kind kind;
} ls_summary_record;
// Called from any thread, one call at a time.
typedef void (*ls_summary_function)(void *user,
                                    const ls_summary_record *record);

// Creates a writer at step 0. The caller owns a reference.
LS_API LS_MUST_USE ls_status ls_summary_writer_create(
    ls_summary_function function, void *user, ls_summary_writer **out_writer);
LS_API ls_summary_writer *ls_summary_writer_retain(ls_summary_writer *writer);
LS_API void ls_summary_writer_release(ls_summary_writer *writer);
LS_API void ls_summary_writer_set_step(ls_summary_writer *writer, int64_t step);
// Records only at steps that are multiples of `steps`; less than 1 is 1, as is
// a new writer's. What is not due costs next to nothing.
LS_API void ls_summary_writer_set_every(ls_summary_writer *writer,
                                        int64_t steps);

// Inside, summaries go to the writer (NULL: nowhere); the pair of ls_scope_end.
LS_API void ls_summary_scope_begin(ls_scope *scope, ls_summary_writer *writer);
#define LS_SUMMARY_SCOPE(writer) LS_SCOPE_(ls_summary_scope_begin, writer)

// Where a build graph lists the summaries that are made in it.
#define LS_COLLECTION_SUMMARIES "summaries"

// Records a value of any numeric type and shape. Without a writer, and on other
// replicas than 0, nothing is done: a failed op then, and no error.
LS_PLACED ls_op ls_summary(const char *tag, ls_tensor value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SUMMARY_H_
