// SPDX-License-Identifier: Apache-2.0
// Iterators, for their op.
#ifndef LS_DATA_ITERATOR_H_
#define LS_DATA_ITERATOR_H_

#include "data/ahead.h"
#include "data/stage.h"
#include "lockstep/host.h"

// A saved position of a stream, from which it can be read again.
typedef struct ls_anchor {
  int64_t number;  // Number of the next element; -1: empty.
  ls_record *record;
} ls_anchor;

enum { LS_ANCHORS = 3, LS_RETURNED = 4 };

struct ls_iterator {
  ls_object object;
  ls_dataset *dataset;
  ls_work work;
  ls_ahead *ahead;
  int64_t prefetch;
  bool may_grow;  // The user has not fixed `prefetch`.
  int64_t epoch;
  int64_t restores;               // Number of restores.
  ls_stage *stage;                // NULL if the data set is indexed.
  ls_anchor anchors[LS_ANCHORS];  // Written by the maker; read while it pauses.
  int64_t anchor_every;
  int64_t elements, waited_nanos;
  ls_stage_stats *stats;  // One per stage.
  // Calls of the op that wait for an element, first come, first served.
  ls_mutex calls_lock;
  ls_host_call *first_call, *last_call;
  bool wished;  // `ready` of the next element is registered.
  // Elements that runs have read, to be overwritten.
  ls_nest returned[LS_RETURNED];
  int num_returned;
  int num_ops;  // Ops made while graphs are built. Atomic.
  // Another rank reads the elements: the op's are all zero, and true, and
  // nothing is read.
  bool is_elsewhere;
};

// Lets compute threads help to read, if nothing is made ahead and the data set
// is quick. For a program that reads between its runs, not within one: a run
// may occupy the threads while it waits for the element.
LS_MUST_USE ls_status ls_iterator_let_help(ls_iterator *iterator);

// Waits until the next element is ready. Returns false if stops(user), called
// first and then every few milliseconds, returned true before. Does not wait
// for an element that only the caller can make.
bool ls_iterator_wait(ls_iterator *iterator, bool (*stops)(void *user),
                      void *user);

#endif  // LS_DATA_ITERATOR_H_
