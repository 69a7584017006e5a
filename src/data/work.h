// SPDX-License-Identifier: Apache-2.0
// The work of an iterator: what all its stages and threads share.
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
  ls_input_threads *threads;  // NULL: all on the caller's.
  uint64_t seed;
  char *name;  // The iterator's.
  // Compute threads help who reads, where that is a program between its runs;
  // NULL: they do not.
  ls_workers *helpers;
  // Of streams: the stage at work, and since when. Atomic.
  const ls_dataset *at;
  int64_t since;
  // The pipeline's data sets, inputs first.
  const ls_dataset **stages;
  size_t num_stages;
  ls_mutex lock;                       // Of what follows.
  ls_fetch *all, *idle;                // Fetches; those that nobody uses.
  ls_stage_count *counts;              // One a stage.
  int64_t *buffered, *buffered_bytes;  // The same.
} ls_work;

// Counts the data sets of a pipeline. Deinit also after a failure.
LS_MUST_USE ls_status ls_work_init(ls_work *work, const ls_dataset *dataset,
                                   const ls_iterator_options *options);
void ls_work_deinit(ls_work *work);

// A fetch for a thread, and back: its counts are added up.
LS_PRIVATE_API ls_fetch *ls_work_take_fetch(ls_work *work);  // NULL: no memory.
LS_PRIVATE_API void ls_work_give_fetch(ls_work *work, ls_fetch *fetch);

// What it is at, in a line: which stage has been at work for the longest time.
void ls_work_tell(ls_work *work, char *buffer, size_t size);

// The number of a data set among the stages; -1: it is none of them.
int ls_work_stage(const ls_work *work, const ls_dataset *dataset);
// What a stage holds now: `elements` and `bytes` more or, below 0, less. What
// is held ahead of who reads counts against the runtime's `input_bytes`; what
// the data set is there to hold does not.
void ls_work_hold(ls_work *work, const ls_dataset *dataset, int64_t elements,
                  int64_t bytes);
void ls_work_buffer(ls_work *work, const ls_dataset *dataset, int64_t elements,
                    int64_t bytes);

#endif  // LS_DATA_WORK_H_
