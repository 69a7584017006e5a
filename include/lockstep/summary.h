// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Summaries: values of a step for people to look at, such as a loss.
//
// A summary is an op for its effect: when it runs, its value goes to the writer
// that was in force when it was made. Of a step's replicas only replica 0's
// value is recorded.
//
// Threads: any number of threads may use a writer at the same time; any of them
// calls its function, one call at a time.
#ifndef LOCKSTEP_SUMMARY_H_
#define LOCKSTEP_SUMMARY_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// Destination of summaries. Reference-counted; the ops that write to it retain
// it.
typedef struct ls_summary_writer ls_summary_writer;

// Presentation of a value.
typedef enum ls_summary_kind {
  LS_SUMMARY_BY_VALUE,  // By its type and shape: for ls_summary.
  LS_SUMMARY_SCALAR,    // These are for lockstep/summary_ops.h.
  LS_SUMMARY_HISTOGRAM,
  LS_SUMMARY_IMAGE,
} ls_summary_kind;

// One recorded value, lent for the call.
typedef struct ls_summary_record {
  const char *tag;  // Tag with the name scope of the op: "train/loss".
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
// Records only at steps that are multiples of `steps`; less than 1 counts as 1,
// the initial value. A summary that is not due costs almost nothing.
LS_API void ls_summary_writer_set_every(ls_summary_writer *writer,
                                        int64_t steps);

// Sends summaries to the writer (NULL: discards them) until ls_scope_end.
LS_API void ls_summary_scope_begin(ls_scope *scope, ls_summary_writer *writer);
#define LS_SUMMARY_SCOPE(writer) LS_SCOPE_(ls_summary_scope_begin, writer)

// Name of the collection of a build graph's summaries.
#define LS_COLLECTION_SUMMARIES "summaries"

// Makes an op that records a value of any numeric type and shape. Without a
// writer, and on other replicas than 0, it makes none: it returns a failed op,
// without an error.
LS_PLACED ls_op ls_summary(const char *tag, ls_tensor value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SUMMARY_H_
