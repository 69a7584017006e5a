// SPDX-License-Identifier: Apache-2.0
//
// A distributed data set in its making.
#ifndef LS_DISTRIBUTE_INPUT_MAKING_H_
#define LS_DISTRIBUTE_INPUT_MAKING_H_

#include "distribute/input/input.h"

typedef struct ls_input_making {
  ls_strategy *strategy;
  const ls_input_request *request;
  const ls_input_options *options;
  const ls_trunk *trunk;  // NULL: this process has all replicas.
  ls_distributed_dataset *data;
} ls_input_making;

// Room for pipelines, of which there are none yet.
LS_MUST_USE ls_status ls_input_add_pipelines(ls_distributed_dataset *data,
                                             size_t count);
// What positions are of.
LS_MUST_USE ls_status ls_input_set_text(ls_distributed_dataset *data,
                                        const ls_dataset *dataset);
// Where values go. With a trunk, hosts are ranks.
LS_MUST_USE ls_status ls_input_set_map(ls_distributed_dataset *data,
                                       const ls_trunk *trunk, bool to_hosts);
// This rank reads its own replicas' values alone.
void ls_input_keep_own(ls_distributed_dataset *data, const ls_trunk *trunk);

// Calls the request's function for each pipeline.
LS_MUST_USE ls_status ls_input_from_function(ls_input_making *m);

#endif  // LS_DISTRIBUTE_INPUT_MAKING_H_
