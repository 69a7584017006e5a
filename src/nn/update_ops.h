// SPDX-License-Identifier: Apache-2.0
// Updates that a layer makes by the way, such as of moving averages. Where
// effects run by themselves, in eager and in functions, there is nothing to do;
// in a build graph nobody fetches them, so they go along with a step.
#ifndef LS_NN_UPDATE_OPS_H_
#define LS_NN_UPDATE_OPS_H_

#include "lockstep/graph.h"

// The value of a write: in a build graph its op joins LS_COLLECTION_UPDATE_OPS.
void ls_update_ops_add(ls_tensor written);
// An op that runs after the step and after all updates so far that ask for
// nothing the step does not need too: what is fed or comes from the host. The
// step itself where there are none. `name` is that of a new op.
LS_MUST_USE ls_status ls_update_ops_join(const char *name, ls_op *step);

#endif  // LS_NN_UPDATE_OPS_H_
