// SPDX-License-Identifier: Apache-2.0
// Lines of the log about tensors: an op on the host.
#ifndef LS_ESTIMATOR_SPEC_TRACE_LINE_H_
#define LS_ESTIMATOR_SPEC_TRACE_LINE_H_

#include "estimator/spec/tracer_flags.h"
#include "lockstep/object.h"

// What such an op knows: the mode, and the names of some tensors. `*out` is
// counted.
LS_MUST_USE ls_status ls_trace_lines_create(ls_trace_mode mode,
                                            const ls_tensor *tensors,
                                            size_t count, ls_object **out);
// Adds the op, which says what is found of each tensor; as many as names. Id 0:
// it failed, as its graph says.
ls_op ls_trace_lines_add(ls_object *lines, const ls_tensor *found,
                         size_t count);

#endif  // LS_ESTIMATOR_SPEC_TRACE_LINE_H_
