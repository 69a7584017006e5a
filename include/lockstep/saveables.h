// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// States of iterators and functions for checkpoints, which a loop of your own
// saves beside its variables to resume with the same bits:
//
//   const ls_saveable states[] = {ls_saveable_iterator("input", batches),
//                                 ls_saveable_function("step", function)};
//
// Threads: as for the object that is saved.
#ifndef LOCKSTEP_SAVEABLES_H_
#define LOCKSTEP_SAVEABLES_H_

#include "lockstep/checkpoint.h"
#include "lockstep/function.h"
#include "lockstep/iterator.h"

#ifdef __cplusplus
extern "C" {
#endif

// Makes a state of an iterator: its position (ls_iterator_save). The name and
// the iterator are lent.
LS_API ls_saveable ls_saveable_iterator(const char *name,
                                        ls_iterator *iterator);
// Makes a state of a function: the number of its calls (ls_function_steps), by
// which its random ops draw. Needed by a function with dropout or noise. The
// name and the function are lent.
LS_API ls_saveable ls_saveable_function(const char *name,
                                        ls_function *function);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SAVEABLES_H_
