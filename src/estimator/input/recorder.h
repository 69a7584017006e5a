// SPDX-License-Identifier: Apache-2.0
//
// The structure of the tuples that are fed to cores: that of the input
// function's first element.
#ifndef LS_ESTIMATOR_INPUT_RECORDER_H_
#define LS_ESTIMATOR_INPUT_RECORDER_H_

#include "distribute/input/feed.h"

typedef struct ls_recorder {
  ls_nest dims;  // Partitions of features and labels; none: not partitioned.
  ls_nest structure;  // Dict of features, labels, mask, signals; none at first.
  ls_shape *parts;    // One per leaf; an unknown shape if not partitioned.
  ls_allocator *allocator;
} ls_recorder;

// Begins with partitions `dims` (ls_tpu_config.input_partition_dims); holds a
// reference.
ls_recorder ls_recorder_begin(ls_nest dims);
void ls_recorder_deinit(ls_recorder *self);  // May be zeroed.
LS_OWNED_STRUCT(ls_recorder, ls_recorder_deinit)

// Records the structure of the first element; all others must have the same.
//   LS_INVALID_ARGUMENT  the partitions have another structure
LS_MUST_USE ls_status ls_recorder_note(ls_recorder *self,
                                       const ls_feed_element *fed);
// Lists the leaves as tensors of the current graph, in order of flattening.
//   LS_INVALID_ARGUMENT  another structure than was recorded
LS_MUST_USE ls_status ls_recorder_flatten(const ls_recorder *self,
                                          const ls_feed_element *fed,
                                          ls_nest *out_list);
// Returns the partition of each leaf over a replica's cores, borrowed; NULL:
// none is partitioned.
//   LS_FAILED_PRECONDITION  nothing was recorded
LS_MUST_USE ls_status ls_recorder_parts(const ls_recorder *self,
                                        const ls_shape **out_parts,
                                        size_t *out_count);

// Restores an element from its flat list and a recorded structure. The caller
// releases the nests.
//   LS_INVALID_ARGUMENT  another number of elements
LS_MUST_USE ls_status ls_recorder_unflatten(ls_nest structure, ls_nest elements,
                                            ls_feed_element *out_fed);

#endif  // LS_ESTIMATOR_INPUT_RECORDER_H_
