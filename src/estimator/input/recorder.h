// SPDX-License-Identifier: Apache-2.0
//
// The structure of the tuples that go to cores: that of the first element which
// an input function gives.
#ifndef LS_ESTIMATOR_INPUT_RECORDER_H_
#define LS_ESTIMATOR_INPUT_RECORDER_H_

#include "distribute/input/feed.h"

typedef struct ls_recorder {
  ls_nest dims;       // How features, and labels, are cut. None: they are not.
  ls_nest structure;  // A dict of features, labels, mask, signals; none at
                      // first.
  ls_shape *parts;  // One a leaf, of an unknown shape for one that is not cut.
  ls_allocator *allocator;
} ls_recorder;

// `dims`: see ls_tpu_config.input_partition_dims; retained.
ls_recorder ls_recorder_begin(ls_nest dims);
void ls_recorder_deinit(ls_recorder *self);  // Zeroed is fine.
LS_OWNED_STRUCT(ls_recorder, ls_recorder_deinit)

// Notes the structure of the first, which all others must have.
//   LS_INVALID_ARGUMENT  the way in which they are cut is of another structure
LS_MUST_USE ls_status ls_recorder_note(ls_recorder *self,
                                       const ls_feed_element *fed);
// The leaves as tensors of the current graph, in a list, in the order of
// flattening.
//   LS_INVALID_ARGUMENT  another structure than was recorded
LS_MUST_USE ls_status ls_recorder_flatten(const ls_recorder *self,
                                          const ls_feed_element *fed,
                                          ls_nest *out_list);
// How each leaf is cut over a replica's cores; lent, NULL: none is.
//   LS_FAILED_PRECONDITION  nothing was recorded
LS_MUST_USE ls_status ls_recorder_parts(const ls_recorder *self,
                                        const ls_shape **out_parts,
                                        size_t *out_count);

// The way back, from a structure that was recorded. Nests are the caller's.
//   LS_INVALID_ARGUMENT  another number of elements
LS_MUST_USE ls_status ls_recorder_unflatten(ls_nest structure, ls_nest elements,
                                            ls_feed_element *out_fed);

#endif  // LS_ESTIMATOR_INPUT_RECORDER_H_
