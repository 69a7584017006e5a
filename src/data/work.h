// SPDX-License-Identifier: Apache-2.0
// Work: the state of an iterator shared by all its stages and threads.
#ifndef LS_DATA_WORK_H_
#define LS_DATA_WORK_H_

#include "base/export.h"
#include "base/runtime_internal.h"
#include "base/threads/input_threads.h"
#include "base/threads/thread_state.h"
#include "data/dataset.h"
#include "lockstep/iterator.h"

// ---- Allowances ------------------------------------------------------------
// An allowance is the memory for elements made ahead, counted against the
// runtime's limit for all of them (`input_bytes`). Before an element is made
// its probable size is counted. The owner's lock guards an allowance.
typedef struct ls_allowance {
  ls_runtime *runtime;
  bool is_measured;  // `guess` comes from an element or the spec.
  int64_t guess;     // Upper estimate of an element's bytes.
} ls_allowance;

// Makes an allowance. The size of an element is known at once if the data set's
// spec has it.
ls_allowance ls_allowance_of(ls_runtime *runtime, const ls_dataset *dataset);
// Updates the guess with the size of an element.
void ls_allowance_measure(ls_allowance *allowance, int64_t bytes);
// Counts `bytes` more; returns false beyond the limit, unless `must`.
bool ls_allowance_count(const ls_allowance *allowance, int64_t bytes,
                        bool must);
// Returns true if one more element would fit, judged without counting it. False
// as long as the size of an element is unknown.
bool ls_allowance_has_room(const ls_allowance *allowance);
// Returns true if that many elements take only a small part of the limit.
bool ls_allowance_is_small(const ls_allowance *allowance, int64_t elements);

// Time and elements of one data set of the pipeline.
typedef struct ls_stage_count {
  int64_t elements, nanos;
} ls_stage_count;

typedef struct ls_work {
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_input_threads *threads;  // NULL: the caller does all work.
  uint64_t seed;
  char *name;  // Owned by the iterator.
  // Compute threads that help a program to read between its runs; NULL: none.
  ls_workers *helpers;
  // For streams: the stage at work and since when. Atomic.
  const ls_dataset *at;
  int64_t since;
  bool ends;  // The iterator is being destroyed. Atomic.
  // The pipeline's data sets, inputs first.
  const ls_dataset **stages;
  size_t num_stages;
  ls_mutex lock;                       // Guards the fields below.
  ls_fetch *all, *idle;                // All fetches, and those not in use.
  ls_stage_count *counts;              // One per stage.
  int64_t *buffered, *buffered_bytes;  // One per stage.
} ls_work;

// Lists the data sets of a pipeline. Call deinit even after a failure.
LS_MUST_USE ls_status ls_work_init(ls_work *work, const ls_dataset *dataset,
                                   const ls_iterator_options *options);
void ls_work_deinit(ls_work *work);

// Lends a fetch to a thread, and takes it back and adds up its counts.
LS_PRIVATE_API ls_fetch *ls_work_take_fetch(ls_work *work);  // May be NULL.
LS_PRIVATE_API void ls_work_give_fetch(ls_work *work, ls_fetch *fetch);

// Writes in one line which stage has been at work for longest.
void ls_work_tell(ls_work *work, char *buffer, size_t size);

// Returns the index of a data set among the stages, or -1.
int ls_work_stage(const ls_work *work, const ls_dataset *dataset);
// Count what a stage holds: `elements` and `bytes` more or, if negative, less.
// Elements read ahead (buffer) count against the runtime's `input_bytes`; those
// that a data set holds by its nature (hold) do not.
void ls_work_hold(ls_work *work, const ls_dataset *dataset, int64_t elements,
                  int64_t bytes);
void ls_work_buffer(ls_work *work, const ls_dataset *dataset, int64_t elements,
                    int64_t bytes);

// ---- Makings ---------------------------------------------------------------
// Makings record for which iterators a thread makes elements, and for which it
// waits meanwhile. A function of a data set that uses its own iterator, or one
// whose elements wait for its own, would wait for ever: such uses are refused.
//
// Brackets calls of functions of the work's data set. Leaving returns `status`,
// or FAILED_PRECONDITION if the iterator was released meanwhile.
void ls_making_enter(ls_making *making, const ls_work *work);
LS_MUST_USE ls_status ls_making_leave(ls_making *making, ls_status status);

// Checks that this thread may use the iterator of this work.
//   LS_FAILED_PRECONDITION  the thread makes an element for the iterator, or
//   for
//                           one that waits for it: names the iterator.
LS_MUST_USE ls_status ls_making_check(const ls_work *work);
// Returns true if this thread must not drop the last reference: it could not
// end the iterator's work, as ls_making_check would report. Then the element
// being made fails.
bool ls_making_keeps(const ls_work *work);
// Returns true if an iterator for which this thread makes an element is being
// destroyed: nobody needs the element.
bool ls_making_ends(void);

// Brackets a wait for an element of this work, or for the end of its making. A
// thread that makes no element may wait for anything.
//   LS_FAILED_PRECONDITION  the wait would never end; do not call end_wait.
LS_MUST_USE ls_status ls_making_begin_wait(const ls_work *work);
void ls_making_end_wait(const ls_work *work);

#endif  // LS_DATA_WORK_H_
