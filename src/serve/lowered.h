// SPDX-License-Identifier: Apache-2.0
//
// A signature as a lowered program, in terms of its batch size.
//
// It is lowered for several sizes, three side by side and one far off, with
// nothing a back end wants; where these programs differ in nothing but sizes
// that are `scale` times the batch size and `offset` more, they are one for all
// sizes.
#ifndef LS_SERVE_LOWERED_H_
#define LS_SERVE_LOWERED_H_

#include "base/memory/own.h"
#include "lower/lower.h"
#include "serve/signature.h"

// A size: scale * batch + offset.
typedef struct ls_dim {
  int64_t scale, offset;
} ls_dim;
typedef struct ls_batch_dims {
  int32_t rank;
  ls_dim dim[LS_MAX_RANK];
} ls_batch_dims;

enum { LS_LOWERED_SIZES = 4 };

typedef struct ls_lowered_signature {
  const ls_serve_signature *signature;
  ls_graph *gathered;  // NULL: there is nothing to gather.
  ls_program *programs[LS_LOWERED_SIZES];
  int64_t batch[LS_LOWERED_SIZES];
  size_t count;       // Of programs; 1: sizes are what they are.
  uint32_t *outputs;  // Of each output of the signature: the program's.
} ls_lowered_signature;

// `batch`: the first dimension of inputs wherever it is not known; 0: any.
// Deinit it also after a failure.
//   LS_UNIMPLEMENTED  inputs of other unknown dimensions; an op that depends on
//                     the batch size otherwise; variables that are written.
LS_MUST_USE ls_status ls_lower_signature(ls_graph *graph,
                                         const ls_serve_signature *signature,
                                         int64_t batch, ls_arena *memory,
                                         ls_lowered_signature *out);
void ls_lowered_signature_deinit(ls_lowered_signature *self);
LS_OWNED_STRUCT(ls_lowered_signature, ls_lowered_signature_deinit)

// The first program's graph, and sizes in it, which stand at the same places in
// the others.
static inline ls_graph *ls_lowered_body(const ls_lowered_signature *self) {
  return self->programs[0]->body;
}
ls_batch_dims ls_lowered_dims(const ls_lowered_signature *self, uint64_t ref);
// "op 'name' (type)" and " (at file:line)", as the user made it, for messages.
const char *ls_lowered_describe(const ls_lowered_signature *self,
                                const ls_node *node, char *buffer, size_t size);
const char *ls_lowered_place(const ls_lowered_signature *self,
                             const ls_node *node, char *buffer, size_t size);

#endif  // LS_SERVE_LOWERED_H_
