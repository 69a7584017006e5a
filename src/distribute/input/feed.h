// SPDX-License-Identifier: Apache-2.0
//
// Feeds: where a host takes what its replicas are fed. A source gives the next
// element of a data set each time it is asked, or the same values of the graph;
// its elements are features and labels whose batches all have one size.
#ifndef LS_DISTRIBUTE_INPUT_FEED_H_
#define LS_DISTRIBUTE_INPUT_FEED_H_

#include "distribute/input/rows.h"
#include "distribute/own.h"

// ---- Elements ---------------------------------------------------------------
// One batch. Nests are the owner's; what is missing is none.
typedef struct ls_feed_element {
  ls_nest features, labels;
  ls_nest mask;     // f32, 1 for each real row.
  ls_nest ended;    // A bool scalar: all of it is padding after the end.
  ls_nest signals;  // A dict of the keys below.
} ls_feed_element;
#define LS_SIGNAL_STOPPING "stopping"     // bool [batch, 1], all the same.
#define LS_SIGNAL_PADDING "padding_mask"  // i32 [batch], 1 for what is no row.

void ls_feed_element_drop(ls_feed_element *fed);
LS_OWNED_STRUCT(ls_feed_element, ls_feed_element_drop)

// Splits what an input function gives: a tuple of two is features and labels, a
// list is features. Both are lent.
//   LS_INVALID_ARGUMENT  a tuple of another length
LS_MUST_USE ls_status ls_features_split(ls_nest value, ls_nest *out_features,
                                        ls_nest *out_labels);
// Pads both, of `count` rows a leaf, or of -1 for specs.
LS_MUST_USE ls_status ls_features_pad(const ls_row_shares *shares,
                                      ls_nest features, ls_nest labels,
                                      int64_t count, ls_feed_element *out_fed);
// A dict of what there is, with the names of the fields as keys; and back.
ls_nest ls_feed_element_dict(const ls_feed_element *fed);
void ls_feed_element_take(ls_nest dict, ls_feed_element *out_fed);

// ---- Uneven ends ------------------------------------------------------------
// Batches of a data set may be short, the last one at least.
typedef enum ls_end_rule {
  LS_END_DROPPED,    // Short ones are left out, with a line in the log.
  LS_END_MASKED,     // They are padded; elements have a mask.
  LS_END_SIGNALLED,  // Elements have signals, and the last ones say stop.
} ls_end_rule;
typedef struct ls_even_options {
  ls_end_rule rule;
  ls_row_shares shares;  // What a batch becomes. Of all rules.
  int64_t at_once;       // Batches that one step takes.
  // MASKED: after the end padding goes on, and elements say `ended`. Default:
  // as many as fill a step.
  bool goes_on;
  // SIGNALLED: batches of any size are padded, and signals have a mask.
  bool pads;
} ls_even_options;

// Makes batches of a data set, taken over, even.
// DROPPED gives elements as they are; one whose batches are known to be of one
// size stays. The others give dicts of elements. After the last element follow:
//   MASKED     padding, `at_once` - 1 elements or, if it `goes_on`, no end
//   SIGNALLED  copies of the first that say stop: one, or 2 `at_once` - 1 whose
//              rows are marked as padding. Of nothing there are none.
ls_dataset *ls_even_batches(ls_dataset *dataset,
                            const ls_even_options *options);

// ---- Sources ----------------------------------------------------------------
// Asked in this order: the beginning, of a data set; then features and labels;
// then, where there are signals, those, before the next ones.
typedef struct ls_feed_source {
  ls_even_options even;   // Axes are lent.
  bool is_even;           // Elements are as `even` says.
  ls_dataset *dataset;    // NULL: there is none.
  ls_iterator *iterator;  // NULL: it has not begun.
  ls_nest features, labels;
  ls_nest signals;  // Of the latest element.
  bool has_signals;
} ls_feed_source;

// Makes one of a data set, retained, or of features and labels.
//   LS_FAILED_PRECONDITION  of both
LS_MUST_USE ls_status ls_feed_source_init(ls_feed_source *self,
                                          ls_dataset *dataset, ls_nest features,
                                          ls_nest labels);
// Makes one of the result of an input function, lent.
LS_MUST_USE ls_status ls_feed_source_of(ls_feed_source *self, ls_nest value);
void ls_feed_source_deinit(ls_feed_source *self);  // Zeroed is fine.
LS_OWNED_STRUCT(ls_feed_source, ls_feed_source_deinit)

// Makes batches even from here on. Values of the graph are padded, if masked.
LS_MUST_USE ls_status ls_feed_source_make_even(ls_feed_source *self,
                                               const ls_even_options *options);
// Gives specs of features and labels, of a data set.
LS_MUST_USE ls_status ls_feed_source_specs(const ls_feed_source *self,
                                           ls_feed_element *out_specs);
// Begins the data set, if there is one: its iterator is there from now on.
LS_MUST_USE ls_status ls_feed_source_begin(ls_feed_source *self,
                                           const char *name, uint64_t seed);
// Gives all but the signals, in the current graph.
//   LS_FAILED_PRECONDITION  the data set has not begun; there are signals that
//                           were not asked for
LS_MUST_USE ls_status ls_feed_source_next(ls_feed_source *self,
                                          ls_feed_element *out_fed);
// Gives the signals that belong to them; none, where there are never any.
//   LS_FAILED_PRECONDITION  features and labels were not asked for
LS_MUST_USE ls_status ls_feed_source_signals(ls_feed_source *self,
                                             ls_nest *out_signals);

#endif  // LS_DISTRIBUTE_INPUT_FEED_H_
