// SPDX-License-Identifier: Apache-2.0
// Anchors: saved positions of the input, for a stage that reads ahead.
//
// The input's state is kept every so many elements. A position is saved as the
// last anchor before it and the number of elements to read again from there.
#ifndef LS_DATA_STREAMS_ANCHORS_H_
#define LS_DATA_STREAMS_ANCHORS_H_

#include "data/stage.h"

typedef struct ls_anchor_place {
  int64_t at;         // Number of elements read up to the anchor.
  int64_t uses;       // Number of later elements in use, by ls_anchors_use.
  ls_record *record;  // The input's state.
} ls_anchor_place;

typedef struct ls_anchors {
  ls_allocator *allocator;
  ls_stage *input;
  int64_t every;  // Elements between anchors.
  int64_t read;   // Elements read since the start or the restore.
  bool ended;     // The input has ended.
  ls_anchor_place *items;
  size_t count, capacity;
} ls_anchors;

// Initializes anchors for `input`, which is lent.
void ls_anchors_init(ls_anchors *anchors, ls_stage *input, int64_t every);
void ls_anchors_deinit(ls_anchors *anchors);
// Drops all anchors, after the input was restarted or restored.
void ls_anchors_reset(ls_anchors *anchors);

// Keeps the input's state if it is time to. Call before each read; fails only
// before the first.
LS_MUST_USE ls_status ls_anchors_keep(ls_anchors *anchors);
// Reads the input's next element, and counts it even if reading fails.
LS_MUST_USE ls_status ls_anchors_read(ls_anchors *anchors, ls_nest *element);
// Drops anchors needed only for elements before number `at`.
void ls_anchors_drop(ls_anchors *anchors, int64_t at);

// For a stage that holds elements for long: notes that element number `at` will
// (`uses` 1) or will not (-1) be read again, and drops anchors without uses.
void ls_anchors_use(ls_anchors *anchors, int64_t at, int64_t uses);
void ls_anchors_sweep(ls_anchors *anchors);

// Save and restore the input's position after `at` elements: its state under
// "input0" and the number of elements to read from there under "again".
LS_MUST_USE ls_status ls_anchors_save(ls_anchors *anchors, int64_t at,
                                      ls_record *record);
LS_MUST_USE ls_status ls_anchors_restore(ls_anchors *anchors,
                                         const ls_record *record);

// Saves all anchors without their uses. To restore: begin, go to each element
// to be read again in rising order and read it, end.
LS_MUST_USE ls_status ls_anchors_save_all(ls_anchors *anchors,
                                          ls_record *record);
LS_MUST_USE ls_status ls_anchors_begin_all(ls_anchors *anchors,
                                           const ls_record *record);
LS_MUST_USE ls_status ls_anchors_go_to(ls_anchors *anchors, int64_t at);
LS_MUST_USE ls_status ls_anchors_end_all(ls_anchors *anchors,
                                         const ls_record *record);

#endif  // LS_DATA_STREAMS_ANCHORS_H_
