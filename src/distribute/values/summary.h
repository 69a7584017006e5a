// SPDX-License-Identifier: Apache-2.0
// Summary writers, private part: for ops and writers of the layers above.
#ifndef LS_DISTRIBUTE_VALUES_SUMMARY_H_
#define LS_DISTRIBUTE_VALUES_SUMMARY_H_

#include "base/runtime_internal.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "lockstep/summary.h"

// A kind of writer: what it does besides recording.
typedef struct ls_summary_writer_kind {
  const char *name;
  ls_status (*ready)(void *user);  // Reports if it takes records now.
  void (*destroy)(void *user);
  // Called instead of making an ls_summary op; fails, or returns OK to leave
  // the summary out. NULL: ops are made.
  ls_status (*instead)(void *user, const char *tag);
} ls_summary_writer_kind;

struct ls_summary_writer {
  ls_object object;
  ls_allocator *allocator;
  const ls_summary_writer_kind *kind;  // NULL: just a function.
  ls_summary_function function;
  void *user;
  int64_t step, every;
  ls_mutex lock;  // Held while recording.
};

// Makes a writer, which owns `user` from then on.
LS_MUST_USE ls_status ls_summary_writer_make(const ls_summary_writer_kind *kind,
                                             ls_summary_function function,
                                             void *user,
                                             ls_summary_writer **out_writer);
// Returns true if ops that record to the writer are made; false for NULL.
static inline bool ls_summary_writer_records(const ls_summary_writer *writer) {
  return writer != NULL &&
         (writer->kind == NULL || writer->kind->instead == NULL);
}
// Records the first value of a host call.
LS_MUST_USE ls_status ls_summary_record_call(const ls_host_call *call,
                                             ls_summary_writer *writer,
                                             ls_summary_kind kind,
                                             const char *tag, int64_t step);
// Returns true if the current replica makes its own ops and is not the first:
// only the first one's values are recorded.
bool ls_summary_is_left_out(void);
// Returns the tag of an ls_summary op; NULL for other ops.
const char *ls_summary_tag(ls_op op);

#endif  // LS_DISTRIBUTE_VALUES_SUMMARY_H_
