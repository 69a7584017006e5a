// SPDX-License-Identifier: Apache-2.0
// A thread that feeds the cores of a strategy with batches, while a loop on
// them takes them.
#ifndef LS_TRAIN_FEEDER_H_
#define LS_TRAIN_FEEDER_H_

#include "base/memory/own.h"
#include "lockstep/cancel.h"
#include "lockstep/iterator.h"
#include "train/input.h"

typedef struct ls_feeder ls_feeder;

// Lent, but for `like`: a batch that is sharded over replicas, whose parts have
// the shapes of all that will be fed.
typedef struct ls_feeder_options {
  ls_runtime *runtime;
  ls_strategy *strategy;
  const ls_model_type *type;
  ls_iterator *input;
  const ls_train_stop *stop;
  ls_nest like;
} ls_feeder_options;

// The result of a job.
typedef struct ls_feeder_result {
  int64_t batches;
  bool asked;        // To stop; then there are fewer than were wanted.
  bool stalls;       // And while it waited for a batch.
  ls_status status;  // Of the next batch. The caller's.
} ls_feeder_result;

// Returns whether a batch has parts of one shape, as a loop takes them.
bool ls_batch_is_even(ls_nest args);

LS_MUST_USE ls_status ls_feeder_create(const ls_feeder_options *options,
                                       ls_feeder **out_feeder);
void ls_feeder_destroy(ls_feeder *feeder);  // NULL is fine.
LS_OWNED_POINTER(ls_feeder, ls_feeder_destroy)

// Begins to feed so many batches. Where it ends earlier, the first core's
// infeed is closed, so that a loop ends, too.
LS_MUST_USE ls_status ls_feeder_begin(ls_feeder *feeder, int64_t batches);
// Waits for the end of that. `fails`: nobody takes any more.
void ls_feeder_end(ls_feeder *feeder, bool fails, ls_feeder_result *out_fed);

// Takes the next batch, as a loop needs it, into `*args`; false: a stop was
// requested or, as `out` says, it went wrong.
bool ls_feed_next(const ls_feeder_options *from, const ls_cancel *cancel,
                  ls_nest *args, ls_feeder_result *out);

#endif  // LS_TRAIN_FEEDER_H_
