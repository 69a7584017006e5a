// SPDX-License-Identifier: Apache-2.0
//
// How many examples a replica has: what its step or a scope says, else what its
// arguments say.
#ifndef LS_DISTRIBUTE_REPLICAS_EXAMPLES_H_
#define LS_DISTRIBUTE_REPLICAS_EXAMPLES_H_

#include "distribute/base/strategy.h"

// Finds this replica's number of examples, a scalar made here; false if none is
// known. `*out_alike`: all replicas have that many. ls_replica_examples is this
// where they may differ.
//
// Where no strategy has split arguments, its examples are the rows of the first
// argument that has any: of one replica's run, a function that is called, or a
// replicated computation.
bool ls_examples_find(ls_tensor *out_count, bool *out_alike);

// The first leaf of a run's arguments with rows that has a part for each
// replica, lent; of one replica, that has rows at all. None: there is none.
ls_nest ls_examples_argument(const ls_strategy *strategy, ls_nest args);

// Dimension 0 of a component, -1 if it has none or it is not known.
int64_t ls_rows_of(ls_nest value, size_t index);

#endif  // LS_DISTRIBUTE_REPLICAS_EXAMPLES_H_
