// SPDX-License-Identifier: Apache-2.0
//
// Where a host's ops take what they feed: the next element of a data set each
// time they ask, or the same values of the graph.
//
// It is asked in an order: first the beginning, of a data set; then features
// and labels; then, where there are signals, those, before the next ones.
#ifndef LS_ESTIMATOR_INPUT_FEED_SOURCE_H_
#define LS_ESTIMATOR_INPUT_FEED_SOURCE_H_

#include "lockstep/iterator.h"

// What comes together. Nests are the caller's; what is not there is none.
typedef struct ls_feed_element {
  ls_nest features, labels;
  ls_nest mask;   // A leaf.
  ls_nest ended;  // The same: whether all of it is padding behind the end.
  ls_nest signals;
} ls_feed_element;
void ls_feed_element_drop(ls_feed_element *fed);

// How elements of a data set lie.
typedef enum ls_source_kind {
  LS_SOURCE_PLAIN,      // As an input function makes them.
  LS_SOURCE_MASKED,     // Dicts, as of ls_masked_batches,
  LS_SOURCE_SIGNALLED,  // or ls_signalled_batches.
} ls_source_kind;

typedef struct ls_feed_source {
  ls_source_kind kind;
  ls_dataset *dataset;    // NULL: there is none,
  ls_iterator *iterator;  // or it has not begun.
  ls_nest features, labels;
  ls_nest signals;  // Of the element that was asked for last.
  bool has_signals;
} ls_feed_source;

// Of a data set, retained, or of features and labels.
//   LS_FAILED_PRECONDITION  of both
LS_MUST_USE ls_status ls_feed_source_init(ls_feed_source *self,
                                          ls_dataset *dataset, ls_nest features,
                                          ls_nest labels);
// Of what an input function has given, lent.
LS_MUST_USE ls_status ls_feed_source_of(ls_feed_source *self, ls_nest made);
void ls_feed_source_deinit(ls_feed_source *self);  // Zeroed is fine.

// Elements become those of another data set, made of this one and taken over.
LS_MUST_USE ls_status ls_feed_source_become(ls_feed_source *self,
                                            ls_source_kind kind,
                                            ls_dataset *dataset);
// Begins the data set: its iterator is there from now on. Without one nothing.
LS_MUST_USE ls_status ls_feed_source_begin(ls_feed_source *self,
                                           const char *name, uint64_t seed);
// Features, labels and mask, in the current graph.
//   LS_FAILED_PRECONDITION  the data set has not begun; there are signals that
//                           were not asked for
LS_MUST_USE ls_status ls_feed_source_next(ls_feed_source *self,
                                          ls_feed_element *out_fed);
// The signals that belong to them; none, where there are never any.
//   LS_FAILED_PRECONDITION  features and labels were not asked for
LS_MUST_USE ls_status ls_feed_source_signals(ls_feed_source *self,
                                             ls_nest *out_signals);

#endif  // LS_ESTIMATOR_INPUT_FEED_SOURCE_H_
