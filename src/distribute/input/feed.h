// SPDX-License-Identifier: Apache-2.0
//
// Feeds: sources of the elements that a host feeds to its replicas. A source
// returns the next element of a data set, or the same graph values each time;
// its elements are features and labels in batches of equal size.
#ifndef LS_DISTRIBUTE_INPUT_FEED_H_
#define LS_DISTRIBUTE_INPUT_FEED_H_

#include "base/values/nest_internal.h"
#include "distribute/own.h"

// ---- Rows -------------------------------------------------------------------
// Rows of a batch: how many rows each part gets, where they are, and padding
// for missing rows. All arithmetic with such rows is here.

// How the rows of a batch are shared among parts. A zero field has its default.
typedef struct ls_row_shares {
  int64_t parts;
  // True: parts have ceil(rows / parts) rows, the last ones fewer or none.
  // False: parts differ by at most one row, larger ones first.
  bool round_up;
  // In padded batches: size of each part, with the padding at the part's end.
  int64_t room;
  // Axis of the rows in each leaf, borrowed; 0 for further leaves.
  const int64_t *axes;
  size_t num_axes;
} ls_row_shares;

// Returns the first row of a part; for `part` = `parts` the number of rows.
static inline int64_t ls_shares_begin(const ls_row_shares *shares, int64_t rows,
                                      int64_t part) {
  const int64_t least = rows / shares->parts, rest = rows % shares->parts;
  const int64_t begin = part * (least + (shares->round_up && rest > 0));
  if (!shares->round_up) return begin + (part < rest ? part : rest);
  return begin < rows ? begin : rows;
}
static inline int64_t ls_shares_rows(const ls_row_shares *shares, int64_t rows,
                                     int64_t part) {
  return ls_shares_begin(shares, rows, part + 1) -
         ls_shares_begin(shares, rows, part);
}

// Returns the number of rows of piece `index` of a host that reads its own
// rows. Pieces are the shares of a batch of `rows`, from part `first` on,
// repeated, so that all hosts together use `rows` in each step.
static inline int64_t ls_cyclic_rows(const ls_row_shares *shares, int64_t rows,
                                     int64_t first, int64_t index) {
  return ls_shares_rows(shares, rows, (first + index) % shares->parts);
}

// Returns the part of a batch that value `index` of host `host` gets, where
// hosts take parts in turn.
static inline size_t ls_sharded_part(size_t hosts, size_t host, size_t index) {
  return host + index * hosts;
}

// Returns the number of rows of a slice of at least `bytes` bytes.
static inline int64_t ls_slice_rows(int64_t bytes, int64_t bytes_of_row) {
  return bytes_of_row > 0 ? bytes / bytes_of_row + (bytes % bytes_of_row > 0)
                          : bytes;
}

// ---- Axes -------------------------------------------------------------------
static inline int ls_shares_axis(const ls_row_shares *shares, size_t leaf) {
  return leaf < shares->num_axes ? (int)shares->axes[leaf] : 0;
}
static inline bool ls_has_axis(ls_shape shape, int axis) {
  return axis >= 0 && axis < shape.rank;
}

// ---- Parts ------------------------------------------------------------------
// Takes rows of a leaf along an axis: a view, or a copy if they are not
// contiguous.
//   LS_INVALID_ARGUMENT  strings along an axis other than 0
LS_MUST_USE ls_status ls_rows_take(ls_nest leaf, int axis, int64_t first,
                                   int64_t rows, ls_nest *out_part);

// ---- Padded batches ---------------------------------------------------------
static inline int64_t ls_shares_room(const ls_row_shares *shares) {
  return shares->parts * shares->room;
}

// Counts the examples of a batch: the rows of the first leaf of its features,
// arrays or tensors.
//   LS_INVALID_ARGUMENT  no leaf, no such dimension, or more rows than fit
LS_MUST_USE ls_status ls_shares_count(const ls_row_shares *shares,
                                      ls_nest features, int64_t *out_count);

// Pads a nest with `count` rows per leaf: arrays, tensors (in the current
// graph), or specs of batches of any size. The axes are those of leaves
// `first_leaf` and later. Failed if a leaf does not have `count` rows.
ls_nest ls_shares_pad(const ls_row_shares *shares, size_t first_leaf,
                      ls_nest values, int64_t count);

// Makes a mask with 1 for rows of data (`marks_real`) or else for rows of
// padding.
ls_nest ls_shares_mask(const ls_row_shares *shares, int64_t count,
                       ls_dtype dtype, bool marks_real);

// ---- Elements ---------------------------------------------------------------
// One batch that is fed. The owner releases the nests; missing parts are none.
typedef struct ls_feed_element {
  ls_nest features, labels;
  ls_nest mask;     // f32: 1 for each row that is not padding.
  ls_nest ended;    // Bool scalar: true for padding after the end of the data.
  ls_nest signals;  // A dict with the keys LS_SIGNAL_STOPPING and so on.
} ls_feed_element;
#define LS_SIGNAL_STOPPING "stopping"     // bool [batch, 1], all equal.
#define LS_SIGNAL_PADDING "padding_mask"  // i32 [batch], 1 for rows of padding.

void ls_feed_element_drop(ls_feed_element *fed);
LS_OWNED_STRUCT(ls_feed_element, ls_feed_element_drop)

// Splits the result of an input function, borrowed: a tuple of two is features
// and labels, a list is features.
//   LS_INVALID_ARGUMENT  a tuple of another length
LS_MUST_USE ls_status ls_features_split(ls_nest value, ls_nest *out_features,
                                        ls_nest *out_labels);
// Pads features and labels with `count` rows per leaf; `count` -1: specs.
LS_MUST_USE ls_status ls_features_pad(const ls_row_shares *shares,
                                      ls_nest features, ls_nest labels,
                                      int64_t count, ls_feed_element *out_fed);
// Makes a dict of the fields that are set, by field name. ls_feed_element_take
// converts it back.
ls_nest ls_feed_element_dict(const ls_feed_element *fed);
void ls_feed_element_take(ls_nest dict, ls_feed_element *out_fed);

// ---- Uneven ends ------------------------------------------------------------
// Treatment of the short batches of a data set, such as the last one.
typedef enum ls_end_rule {
  LS_END_DROPPED,    // Short batches are left out, which is logged.
  LS_END_MASKED,     // Short batches are padded, and elements have a mask.
  LS_END_SIGNALLED,  // Elements have signals; the last elements say stop.
} ls_end_rule;
typedef struct ls_even_options {
  ls_end_rule rule;
  ls_row_shares shares;  // Size of the resulting batches, for all rules.
  int64_t at_once;       // Number of batches that one step takes.
  // MASKED: true if padding elements go on forever after the end, with `ended`
  // true. Default: as many padding elements as fill a step.
  bool goes_on;
  // SIGNALLED: true to pad batches of any size; signals then have a mask.
  bool pads;
} ls_even_options;

// Makes all batches of a data set equal in size; takes the data set over.
// DROPPED keeps elements as they are, and the data set itself if all its
// batches are known to be full. The other rules make dicts of elements. After
// the last element they append:
//   MASKED     padding, `at_once` - 1 elements or, if it `goes_on`, no end
//   SIGNALLED  copies of the first that say stop: one, or 2 `at_once` - 1 whose
//              rows are marked as padding. Nothing for an empty data set.
ls_dataset *ls_even_batches(ls_dataset *dataset,
                            const ls_even_options *options);

// ---- Sources ----------------------------------------------------------------
// A source of elements. Order of calls: begin, if it is a data set; next, for
// features and labels; then signals, if it has any, before the next element.
typedef struct ls_feed_source {
  ls_even_options even;   // Axes are borrowed.
  bool is_even;           // True if `even` makes elements equal in size.
  ls_dataset *dataset;    // NULL: values of the graph.
  ls_iterator *iterator;  // NULL: not begun.
  ls_nest features, labels;
  ls_nest signals;  // Signals of the latest element.
  bool has_signals;
} ls_feed_source;

// Makes a source from a data set, which it retains, or from features and
// labels.
//   LS_FAILED_PRECONDITION  both are given
LS_MUST_USE ls_status ls_feed_source_init(ls_feed_source *self,
                                          ls_dataset *dataset, ls_nest features,
                                          ls_nest labels);
// Makes a source from the result of an input function, borrowed.
LS_MUST_USE ls_status ls_feed_source_of(ls_feed_source *self, ls_nest value);
void ls_feed_source_deinit(ls_feed_source *self);  // May be zeroed.
LS_OWNED_STRUCT(ls_feed_source, ls_feed_source_deinit)

// Makes batches equal in size from now on. Graph values are padded if the rule
// is MASKED.
LS_MUST_USE ls_status ls_feed_source_make_even(ls_feed_source *self,
                                               const ls_even_options *options);
// Returns the specs of the features and labels of a source's data set.
LS_MUST_USE ls_status ls_feed_source_specs(const ls_feed_source *self,
                                           ls_feed_element *out_specs);
// Begins the data set, if the source has one, by making its iterator.
LS_MUST_USE ls_status ls_feed_source_begin(ls_feed_source *self,
                                           const char *name, uint64_t seed);
// Returns the next element without its signals, in the current graph.
//   LS_FAILED_PRECONDITION  the data set has not begun, or the signals of the
//                           previous element were not taken
LS_MUST_USE ls_status ls_feed_source_next(ls_feed_source *self,
                                          ls_feed_element *out_fed);
// Returns the signals of the last element; none if the source never has any.
//   LS_FAILED_PRECONDITION  features and labels were not taken first
LS_MUST_USE ls_status ls_feed_source_signals(ls_feed_source *self,
                                             ls_nest *out_signals);

#endif  // LS_DISTRIBUTE_INPUT_FEED_H_
