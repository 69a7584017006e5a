// SPDX-License-Identifier: Apache-2.0
//
// Signatures as lowered programs, and as files in other languages.
//
// A signature is lowered for several batch sizes, three close together and one
// far away, without a back end's passes; if these programs differ only in sizes
// that are linear in the batch size, they represent all sizes.
#ifndef LS_SERVE_LOWERED_H_
#define LS_SERVE_LOWERED_H_

#include "base/memory/own.h"
#include "emit/emit.h"
#include "lower/lower.h"
#include "serve/serving.h"

enum { LS_LOWERED_SIZES = 4 };

typedef struct ls_lowered_signature {
  const ls_serve_signature *signature;
  ls_graph *gathered;  // NULL: there is nothing to gather.
  ls_program *programs[LS_LOWERED_SIZES];
  int64_t batch[LS_LOWERED_SIZES];
  size_t count;       // Number of programs; 1: sizes are constant.
  uint32_t *outputs;  // The program's output for each output of the signature.
} ls_lowered_signature;

// Lowers a signature. `batch` replaces an unknown first dimension of inputs; 0:
// any size. Call deinit even after a failure.
//   LS_UNIMPLEMENTED  other unknown dimensions of inputs; an op whose size is
//                     not linear in the batch size; variables that are written.
LS_MUST_USE ls_status ls_lower_signature(ls_graph *graph,
                                         const ls_serve_signature *signature,
                                         int64_t batch, ls_arena *memory,
                                         ls_lowered_signature *out);
void ls_lowered_signature_deinit(ls_lowered_signature *self);
LS_OWNED_STRUCT(ls_lowered_signature, ls_lowered_signature_deinit)

// Returns the first program's graph.
static inline ls_graph *ls_lowered_body(const ls_lowered_signature *self) {
  return self->programs[0]->body;
}
// Returns it for an emitter, with sizes in terms of the batch size.
ls_emit_source ls_lowered_source(const ls_lowered_signature *self);

// ---- Files -----------------------------------------------------------------
// Write a whole file for a signature. `values` are those of the variables it
// uses.
LS_MUST_USE ls_status ls_write_onnx(const ls_lowered_signature *program,
                                    ls_array *const *values, ls_arena *memory,
                                    ls_text *out);
LS_MUST_USE ls_status ls_write_stablehlo(const ls_lowered_signature *program,
                                         ls_arena *memory, ls_text *out);

#endif  // LS_SERVE_LOWERED_H_
