// SPDX-License-Identifier: Apache-2.0
//
// What a caller asks for, checked.
#ifndef LS_DISTRIBUTE_INPUT_REQUEST_H_
#define LS_DISTRIBUTE_INPUT_REQUEST_H_

#include "distribute/input/input.h"

// That options go together, with each other and with what is distributed.
LS_MUST_USE ls_status ls_input_check_options(const ls_strategy *strategy,
                                             const ls_input_request *request,
                                             const ls_input_rules *rules);
// How many values are ahead of each replica.
LS_MUST_USE ls_status ls_input_choose_buffer(const ls_strategy *strategy,
                                             const ls_input_options *options,
                                             int64_t *out_buffer);

#endif  // LS_DISTRIBUTE_INPUT_REQUEST_H_
