// SPDX-License-Identifier: Apache-2.0
// Writers of summaries, inside: for ops and writers of the layers above.
#ifndef LS_DISTRIBUTE_VALUES_SUMMARY_H_
#define LS_DISTRIBUTE_VALUES_SUMMARY_H_

#include "base/runtime_internal.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "lockstep/summary.h"

// A kind of writers: what they do beside recording.
typedef struct ls_summary_writer_kind {
  const char *name;
  ls_status (*ready)(void *user);  // Whether it takes records now.
  void (*destroy)(void *user);
  // In place of an op of ls_summary, of which nothing is made: a failure of the
  // graph, or OK where it is left out. NULL: ops are made.
  ls_status (*instead)(void *user, const char *tag);
} ls_summary_writer_kind;

struct ls_summary_writer {
  ls_object object;
  ls_allocator *allocator;
  const ls_summary_writer_kind *kind;  // NULL: a function alone.
  ls_summary_function function;
  void *user;
  int64_t step, every;
  ls_mutex lock;  // One record at a time.
};

// Makes one; `user` is its own from then on.
LS_MUST_USE ls_status ls_summary_writer_make(const ls_summary_writer_kind *kind,
                                             ls_summary_function function,
                                             void *user,
                                             ls_summary_writer **out_writer);
// Returns true if ops that record to it are made; NULL: they are not.
static inline bool ls_summary_writer_records(const ls_summary_writer *writer) {
  return writer != NULL &&
         (writer->kind == NULL || writer->kind->instead == NULL);
}
// Records the first value of a host call.
LS_MUST_USE ls_status ls_summary_record_call(const ls_host_call *call,
                                             ls_summary_writer *writer,
                                             ls_summary_kind kind,
                                             const char *tag, int64_t step);
// Returns true if the current replica has ops of its own and is not the first,
// whose values alone are recorded.
bool ls_summary_is_left_out(void);
// The tag of an op of ls_summary; NULL: it is another op.
const char *ls_summary_tag(ls_op op);

#endif  // LS_DISTRIBUTE_VALUES_SUMMARY_H_
