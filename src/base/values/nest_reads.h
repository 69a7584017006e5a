// SPDX-License-Identifier: Apache-2.0
// Marks of the items of a dict that were read, so that those that nobody reads
// can be named. A dict has marks for its first 64 items; later ones count as
// read. Any threads may read at the same time.
#ifndef LS_BASE_VALUES_NEST_READS_H_
#define LS_BASE_VALUES_NEST_READS_H_

#include "lockstep/nest.h"

// Lets ls_nest_find and ls_nest_item mark what they return from now on. No
// other thread has the dict yet.
void ls_nest_mark_reads(ls_nest dict);
bool ls_nest_was_read(ls_nest dict, size_t index);
// Marks those items of a dict that were read in `copy`, by their keys.
void ls_nest_add_reads(ls_nest dict, ls_nest copy);

#endif  // LS_BASE_VALUES_NEST_READS_H_
