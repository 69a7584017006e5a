// SPDX-License-Identifier: Apache-2.0
//
// Values of an export's variables.
#ifndef LS_SERVE_VALUES_H_
#define LS_SERVE_VALUES_H_

#include "base/memory/arena.h"
#include "lockstep/serving.h"

// Writes the values of these variables to a safetensors file at `path`: those
// of options->checkpoint, else of options->session.
LS_MUST_USE ls_status ls_serve_write_values(const ls_serving_options *options,
                                            ls_variable *const *variables,
                                            size_t count, ls_arena *memory,
                                            const char *path);

#endif  // LS_SERVE_VALUES_H_
