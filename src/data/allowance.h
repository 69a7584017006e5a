// SPDX-License-Identifier: Apache-2.0
// An allowance: what elements that are made ahead take of the memory that the
// runtime gives to all of them (`input_bytes`). Before one is made it counts
// for what it will probably take. Its owner's lock guards it.
#ifndef LS_DATA_ALLOWANCE_H_
#define LS_DATA_ALLOWANCE_H_

#include "data/work.h"

typedef struct ls_allowance {
  ls_runtime *runtime;
  bool is_measured;  // Some element was made: what one takes is, in bytes, ...
  int64_t guess;     // ... at most about this.
} ls_allowance;

// What an element takes is known at once where the data set's spec says so.
ls_allowance ls_allowance_of(ls_runtime *runtime, const ls_dataset *dataset);
// An element was made.
void ls_allowance_measure(ls_allowance *allowance, int64_t bytes);
// Counts `bytes` more; `must`: even if it is too much, else false.
bool ls_allowance_count(const ls_allowance *allowance, int64_t bytes,
                        bool must);
// Whether there is room for one more, as far as can be said without counting.
// Before it is known what an element takes there is one at a time.
bool ls_allowance_has_room(const ls_allowance *allowance);
// Whether so many may be there at once without taking all there is.
bool ls_allowance_is_small(const ls_allowance *allowance, int64_t elements);

#endif  // LS_DATA_ALLOWANCE_H_
