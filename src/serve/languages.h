// SPDX-License-Identifier: Apache-2.0
//
// Signatures as files for others.
#ifndef LS_SERVE_LANGUAGES_H_
#define LS_SERVE_LANGUAGES_H_

#include "serve/signature.h"

// Where values of variables are.
typedef struct ls_serve_source {
  ls_status (*get)(void *user, ls_variable *variable, ls_array **out_array);
  void *user;
} ls_serve_source;

LS_MUST_USE ls_status ls_serve_write_onnx(ls_graph *graph,
                                          const ls_serve_signature *signature,
                                          const ls_serve_source *source,
                                          const char *path);
LS_MUST_USE ls_status
ls_serve_write_stablehlo(ls_graph *graph, const ls_serve_signature *signature,
                         int64_t batch_size, const char *path);

#endif  // LS_SERVE_LANGUAGES_H_
