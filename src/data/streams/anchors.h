// SPDX-License-Identifier: Apache-2.0
// Anchors: where the input of a stage was, for one that reads ahead of what it
// has given.
//
// Every so many elements the input's state is kept. To save a place is to name
// the last anchor before it and how many elements to read again from there.
#ifndef LS_DATA_STREAMS_ANCHORS_H_
#define LS_DATA_STREAMS_ANCHORS_H_

#include "data/stage.h"

typedef struct ls_anchor_place {
  int64_t at;         // Elements that had been read.
  int64_t uses;       // Of elements behind it, by ls_anchors_use.
  ls_record *record;  // Of the input.
} ls_anchor_place;

typedef struct ls_anchors {
  ls_allocator *allocator;
  ls_stage *input;
  int64_t every;  // Elements between anchors.
  int64_t read;   // Elements since the start, or since it was restored.
  bool ended;     // The input has.
  ls_anchor_place *items;
  size_t count, capacity;
} ls_anchors;

// The input is lent.
void ls_anchors_init(ls_anchors *anchors, ls_stage *input, int64_t every);
void ls_anchors_deinit(ls_anchors *anchors);
// Forgets all, as of one whose input was just restarted or restored.
void ls_anchors_reset(ls_anchors *anchors);

// Keeps the input's state, if it is time to. Call it before each read; it fails
// only before the first.
LS_MUST_USE ls_status ls_anchors_keep(ls_anchors *anchors);
// The input's next element, counted whether it fails or not.
LS_MUST_USE ls_status ls_anchors_read(ls_anchors *anchors, ls_nest *element);
// Elements before number `at` will not be read again.
void ls_anchors_drop(ls_anchors *anchors, int64_t at);

// For a stage that holds elements for long: element number `at` will be read
// again (1), or not any more (-1); and what has no use goes.
void ls_anchors_use(ls_anchors *anchors, int64_t at, int64_t uses);
void ls_anchors_sweep(ls_anchors *anchors);

// Where the input was behind `at` elements: its state under "input0" and how
// many elements to read from there under "again"; and back.
LS_MUST_USE ls_status ls_anchors_save(ls_anchors *anchors, int64_t at,
                                      ls_record *record);
LS_MUST_USE ls_status ls_anchors_restore(ls_anchors *anchors,
                                         const ls_record *record);

// All anchors, with their uses not counted. Back in steps: begin, go to each
// element that is to be read again, in rising order, and read it; end.
LS_MUST_USE ls_status ls_anchors_save_all(ls_anchors *anchors,
                                          ls_record *record);
LS_MUST_USE ls_status ls_anchors_begin_all(ls_anchors *anchors,
                                           const ls_record *record);
LS_MUST_USE ls_status ls_anchors_go_to(ls_anchors *anchors, int64_t at);
LS_MUST_USE ls_status ls_anchors_end_all(ls_anchors *anchors,
                                         const ls_record *record);

#endif  // LS_DATA_STREAMS_ANCHORS_H_
