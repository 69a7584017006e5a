// SPDX-License-Identifier: Apache-2.0
// Work: the state of an iterator shared by all its stages and threads.
#ifndef LS_DATA_WORK_H_
#define LS_DATA_WORK_H_

#include "base/export.h"
#include "base/runtime_internal.h"
#include "base/threads/input_threads.h"
#include "data/dataset.h"
#include "lockstep/iterator.h"

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
  // The pipeline's data sets, inputs first.
  const ls_dataset **stages;
  size_t num_stages;
  ls_mutex lock;                       // Guards the fields below.
  ls_fetch *all, *idle;                // All fetches; those not in use.
  ls_stage_count *counts;              // One per stage.
  int64_t *buffered, *buffered_bytes;  // One per stage.
} ls_work;

// Lists the data sets of a pipeline. Call deinit even after a failure.
LS_MUST_USE ls_status ls_work_init(ls_work *work, const ls_dataset *dataset,
                                   const ls_iterator_options *options);
void ls_work_deinit(ls_work *work);

// Lends a fetch to a thread, and takes it back and adds up its counts.
LS_PRIVATE_API ls_fetch *ls_work_take_fetch(ls_work *work);  // NULL without
                                                             // memory.
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

#endif  // LS_DATA_WORK_H_
