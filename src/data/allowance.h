// SPDX-License-Identifier: Apache-2.0
// Allowance: the memory for elements made ahead, counted against the runtime's
// limit for all of them (`input_bytes`). Before an element is made its probable
// size is counted. The owner's lock guards an allowance.
#ifndef LS_DATA_ALLOWANCE_H_
#define LS_DATA_ALLOWANCE_H_

#include "data/work.h"

typedef struct ls_allowance {
  ls_runtime *runtime;
  bool is_measured;  // `guess` comes from an element or the spec.
  int64_t guess;     // Upper estimate of an element's bytes.
} ls_allowance;

// Makes an allowance. The size of an element is known at once if the data set's
// spec has it.
ls_allowance ls_allowance_of(ls_runtime *runtime, const ls_dataset *dataset);
// Updates the guess with the size of an element.
void ls_allowance_measure(ls_allowance *allowance, int64_t bytes);
// Counts `bytes` more; returns false beyond the limit, unless `must`.
bool ls_allowance_count(const ls_allowance *allowance, int64_t bytes,
                        bool must);
// Returns true if one more element would fit, judged without counting it. False
// as long as the size of an element is unknown.
bool ls_allowance_has_room(const ls_allowance *allowance);
// Returns true if that many elements take only a small part of the limit.
bool ls_allowance_is_small(const ls_allowance *allowance, int64_t elements);

#endif  // LS_DATA_ALLOWANCE_H_
