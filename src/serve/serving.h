// SPDX-License-Identifier: Apache-2.0
//
// A loaded export.
#ifndef LS_SERVE_SERVING_H_
#define LS_SERVE_SERVING_H_

#include "serve/signature.h"

// Files of an export's folder.
#define LS_SERVE_VALUES_NAME "variables.safetensors"

struct ls_serving {
  ls_runtime *runtime;
  ls_arena memory;
  ls_graph *graph;
  ls_session *session;
  ls_variable **variables;
  size_t num_variables;
  ls_serve_signatures signatures;
  ls_serving_info *infos;  // Of each signature.
};

#endif  // LS_SERVE_SERVING_H_
