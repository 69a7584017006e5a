// SPDX-License-Identifier: Apache-2.0
//
// Data sets of batches, as they come from an input function, as data sets whose
// elements have the shapes that programs are made for.
#ifndef LS_ESTIMATOR_INPUT_BATCHES_H_
#define LS_ESTIMATOR_INPUT_BATCHES_H_

#include "estimator/input/padding.h"

// The full batches, of `rows` examples along each leaf's axis (NULL: 0): one
// that is smaller is left out, with one line in the log. A data set whose
// batches are known to be of one size stays as it is. Takes the data set over.
ls_dataset *ls_full_batches(ls_dataset *dataset, int64_t rows,
                            const int64_t *axes, size_t num_axes);

// Batches of any size, padded, as dicts of "features", "labels" and "mask",
// f32, which is 1 for real examples. Behind the last one come `more`, of
// padding alone; LS_INFINITE: without an end, and each element has "ended" too,
// a bool scalar, whether it is one of those. Takes the data set over.
ls_dataset *ls_masked_batches(ls_dataset *dataset, ls_batch_padding padding,
                              int64_t more);

// How batches of a prediction are told from its end.
typedef struct ls_signal_options {
  ls_batch_padding padding;
  bool pads;        // Batches of any size up to that, with a mask.
  int64_t at_once;  // Batches that one step takes.
} ls_signal_options;
// Dicts of "features", "labels" and "signals": a dict of "stopping", bool
// [batch, 1], and, where they are padded, "padding_mask", i32 [batch], 1 for
// what is not real. Behind the last one come copies of the first that say stop:
// one, or as many as two steps take but one. Of nothing there is nothing. Takes
// the data set over.
ls_dataset *ls_signalled_batches(ls_dataset *dataset,
                                 const ls_signal_options *options);

#endif  // LS_ESTIMATOR_INPUT_BATCHES_H_
