// SPDX-License-Identifier: Apache-2.0
// An iterator, as its op sees it.
#ifndef LS_DATA_ITERATOR_H_
#define LS_DATA_ITERATOR_H_

#include "data/ahead.h"
#include "data/stage.h"
#include "lockstep/host.h"

// Where a stream was, so that it can be read again from there.
typedef struct ls_anchor {
  int64_t number;  // Of the element that it gives next; -1: none yet.
  ls_record *record;
} ls_anchor;

enum { LS_ANCHORS = 3, LS_RETURNED = 4 };

struct ls_iterator {
  ls_object object;
  ls_dataset *dataset;
  ls_work work;
  ls_ahead *ahead;
  int64_t prefetch;
  bool may_grow;  // It is nobody's wish.
  int64_t epoch;
  int64_t restores;               // How often it was restored.
  ls_stage *stage;                // Of a stream; else NULL.
  ls_anchor anchors[LS_ANCHORS];  // The maker's; read while it pauses.
  int64_t anchor_every;
  int64_t elements, waited_nanos;
  ls_stage_stats *stats;  // One a stage.
  // Calls of its op that wait for an element, first come, first served.
  ls_mutex calls_lock;
  ls_host_call *first_call, *last_call;
  bool wished;  // Somebody will be told of the next element.
  // Elements that runs have read, to be written anew.
  ls_nest returned[LS_RETURNED];
  int num_returned;
  int num_ops;  // Made while graphs are built. Atomic.
};

// Compute threads help who reads, where nothing is made ahead and the data set
// is quick. For a program that reads between its runs, never in one: a run may
// hold them for as long as it waits for the element.
LS_MUST_USE ls_status ls_iterator_let_help(ls_iterator *iterator);

// Waits until `next` has nothing to wait for: false, stops(user), which is
// asked before and every few milliseconds, was true before that. What only the
// caller can make is not waited for.
bool ls_iterator_wait(ls_iterator *iterator, bool (*stops)(void *user),
                      void *user);

#endif  // LS_DATA_ITERATOR_H_
