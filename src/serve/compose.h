// SPDX-License-Identifier: Apache-2.0
//
// Lowered ops made of what a language has.
#ifndef LS_SERVE_COMPOSE_H_
#define LS_SERVE_COMPOSE_H_

#include "serve/emit.h"

// Operand `i` of the op at hand, and its result.
static inline ls_emitted ls_operand(ls_emitter *e, uint32_t i) {
  return ls_emit_of(e, e->node->inputs[i]);
}
static inline void ls_compose_give(ls_emitter *e, ls_emitted value) {
  ls_emit_bind(e, ls_ref(e->node->id, 0), value);
}
static inline ls_batch_dims ls_result_dims(ls_emitter *e) {
  return ls_lowered_dims(e->program, ls_ref(e->node->id, 0));
}
static inline ls_batch_dims ls_batch_dims_at(const ls_emitter *e,
                                             ls_emitted value) {
  return ls_emit_look(e, value)->dims;
}
static inline ls_dtype ls_dtype_at(const ls_emitter *e, ls_emitted value) {
  return ls_emit_look(e, value)->dtype;
}
// 16-bit floats as f32, in which what has sums of theirs is computed.
ls_emitted ls_emit_wide(ls_emitter *e, ls_emitted x);
// 1 / x, by which our kernels multiply where a row has one divisor.
ls_emitted ls_emit_reciprocal(ls_emitter *e, ls_emitted x);
// Along the last axis; `log`: its logarithm.
ls_emitted ls_emit_softmax(ls_emitter *e, ls_emitted x, bool log);
// a b, where b may be one matrix for all leading dimensions of a.
ls_emitted ls_emit_product(ls_emitter *e, ls_emitted a, ls_emitted b);
// relu(x) if the op at hand says so.
ls_emitted ls_emit_activation(ls_emitter *e, ls_emitted x);
// The size that does not depend on the batch; else it is refused.
int64_t ls_emit_size(ls_emitter *e, ls_dim dim);

// The ops of each file, false: it is none of them.
bool ls_compose_nn(ls_emitter *e);

#endif  // LS_SERVE_COMPOSE_H_
