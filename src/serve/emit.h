// SPDX-License-Identifier: Apache-2.0
//
// Lowered programs in other languages.
//
// A language (ONNX, StableHLO) is a table of what all of them have: elementwise
// ops, shapes, reductions, products, convolutions, windows, lookups. What is
// made of these, such as attention or norms, is written once (compose.c), so
// that a language is small, and all of them compute the same.
#ifndef LS_SERVE_EMIT_H_
#define LS_SERVE_EMIT_H_

#include "base/memory/own.h"
#include "base/text.h"
#include "graph/window.h"
#include "lower/lower.h"
#include "serve/serving.h"

// ---- Signatures as lowered programs (lowered.c) ----------------------------
// A signature is lowered for several batch sizes, three side by side and one
// far off, without anything for a back end; where these programs differ in
// nothing but sizes that are `scale` times the batch size and `offset` more,
// they are one for all sizes.
//
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

// ---- Values ----------------------------------------------------------------
// A value of the program that is written, from 1; 0: there is none, and the
// emitter's status says why.
typedef uint32_t ls_emitted;

typedef struct ls_emitted_value {
  ls_dtype dtype;
  ls_batch_dims dims;
  const char *name;  // NULL: the language's prefix and its number.
} ls_emitted_value;

typedef struct ls_emitter ls_emitter;
typedef struct ls_emit_language {
  const char *name;
  const char *prefix;  // Of names.
  // Operands of elementwise ops must have the result's shape, rather than 1
  // where they repeat.
  bool equal_shapes;
  // Elementwise ops by their LS_OP_...; false: it has none such.
  bool (*element)(ls_emitter *e, uint16_t op, const ls_emitted *in,
                  size_t count, ls_emitted out);
  void (*constant)(ls_emitter *e, const ls_array *array, ls_emitted out);
  void (*reshape)(ls_emitter *e, ls_emitted x, ls_emitted out);
  // Ranks are equal; sizes are, or are 1.
  void (*broadcast)(ls_emitter *e, ls_emitted x, ls_emitted out);
  void (*transpose)(ls_emitter *e, ls_emitted x, const int64_t *permutation,
                    ls_emitted out);
  // REDUCE_SUM, _MAX, _MIN, _PRODUCT, of numbers; AND, OR of bools. The axes
  // go.
  bool (*reduce)(ls_emitter *e, uint16_t op, ls_emitted x, const int64_t *axes,
                 size_t count, ls_emitted out);
  // Matrices over equal leading dimensions.
  void (*dot)(ls_emitter *e, ls_emitted a, ls_emitted b, ls_emitted out);
  // [batch, spatial..., channels] by [spatial..., channels, output channels].
  bool (*convolve)(ls_emitter *e, ls_emitted x, ls_emitted w,
                   const ls_window *window, int64_t groups, ls_emitted out);
  // REDUCE_SUM or REDUCE_MAX of windows; padding counts as nothing.
  bool (*slide)(ls_emitter *e, uint16_t op, ls_emitted x,
                const ls_window *window, ls_emitted out);
  void (*slice)(ls_emitter *e, ls_emitted x, const int64_t *starts,
                const int64_t *strides, ls_emitted out);
  bool (*pad)(ls_emitter *e, ls_emitted x, ls_emitted value, const int64_t *low,
              const int64_t *high, const int64_t *interior, ls_emitted out);
  void (*concatenate)(ls_emitter *e, const ls_emitted *in, size_t count,
                      int64_t axis, ls_emitted out);
  void (*reverse)(ls_emitter *e, ls_emitted x, const int64_t *axes,
                  size_t count, ls_emitted out);
  // Slices of x along an axis; all indices are there.
  void (*gather)(ls_emitter *e, ls_emitted x, ls_emitted indices, int64_t axis,
                 ls_emitted out);
  // 0, 1, 2, ... along an axis.
  void (*iota)(ls_emitter *e, int64_t axis, ls_emitted out);
  // The k largest of the last axis, equal ones by index, and their i32 indices.
  void (*top_k)(ls_emitter *e, ls_emitted x, int64_t k, ls_emitted values,
                ls_emitted indices);
} ls_emit_language;

struct ls_emitter {
  const ls_emit_language *language;
  const ls_lowered_signature *program;
  ls_arena *memory;
  ls_status status;  // The first that went wrong.
  ls_emitted_value *values;
  size_t num_values, capacity;
  ls_map refs;          // Of the lowered body -> what it is here.
  const ls_node *node;  // At hand, for messages.
  void *self;           // The language's.
};

// Writes all ops. The language has declared the body's parameters by
// ls_emit_bind. Deinit it also after a failure.
void ls_emitter_init(ls_emitter *e, const ls_emit_language *language,
                     const ls_lowered_signature *program, ls_arena *memory,
                     void *self);
void ls_emitter_deinit(ls_emitter *e);
LS_OWNED_STRUCT(ls_emitter, ls_emitter_deinit)
ls_status ls_emit_program(ls_emitter *e);

// Returns the emitted value of a value of the body, 0 if none.
ls_emitted ls_emit_of(ls_emitter *e, uint64_t ref);
void ls_emit_bind(ls_emitter *e, uint64_t ref, ls_emitted value);
// A new value, to be written by the language.
ls_emitted ls_emit_value(ls_emitter *e, ls_dtype dtype, ls_batch_dims dims,
                         const char *name);
static inline const ls_emitted_value *ls_emit_look(const ls_emitter *e,
                                                   ls_emitted value) {
  return &e->values[value];  // Number 0 is one of no type.
}
// Its name.
void ls_emit_name(const ls_emitter *e, ls_emitted value, ls_text *out);
// Takes over what went wrong, unless something did before.
void ls_emit_fail(ls_emitter *e, ls_status status);
// The op at hand cannot be written: says which, and why.
void ls_emit_refuse(ls_emitter *e, const char *why);

// ---- Building --------------------------------------------------------------
// Elementwise; operands are aligned from the last dimension, as NumPy's.
ls_emitted ls_emit_element(ls_emitter *e, uint16_t op, const ls_emitted *in,
                           size_t count);
ls_emitted ls_emit_1(ls_emitter *e, uint16_t op, ls_emitted x);
ls_emitted ls_emit_2(ls_emitter *e, uint16_t op, ls_emitted x, ls_emitted y);
ls_emitted ls_emit_convert(ls_emitter *e, ls_emitted x, ls_dtype dtype);
ls_emitted ls_emit_constant(ls_emitter *e, const ls_array *array);
ls_emitted ls_emit_scalar(ls_emitter *e, ls_dtype dtype, double value);
ls_emitted ls_emit_reshape(ls_emitter *e, ls_emitted x, ls_batch_dims dims);
ls_emitted ls_emit_broadcast(ls_emitter *e, ls_emitted x, ls_batch_dims dims);
ls_emitted ls_emit_transpose(ls_emitter *e, ls_emitted x,
                             const int64_t *permutation);
ls_emitted ls_emit_reduce(ls_emitter *e, uint16_t op, ls_emitted x,
                          const int64_t *axes, size_t count, bool keep);
ls_emitted ls_emit_dot(ls_emitter *e, ls_emitted a, ls_emitted b);
ls_emitted ls_emit_iota(ls_emitter *e, ls_dtype dtype, ls_batch_dims dims,
                        int64_t axis);

// Writes the op at hand (compose.c), false where it is none that this knows.
bool ls_emit_composed(ls_emitter *e);

static inline ls_dim ls_dim_of(int64_t size) {
  const ls_dim dim = {.offset = size};
  return dim;
}
static inline bool ls_dim_equal(ls_dim a, ls_dim b) {
  return a.scale == b.scale && a.offset == b.offset;
}
static inline bool ls_dim_is(ls_dim a, int64_t size) {
  return a.scale == 0 && a.offset == size;
}

// ---- Languages -------------------------------------------------------------
// A whole file of a signature. `values` are those of the program's uses.
LS_MUST_USE ls_status ls_write_onnx(const ls_lowered_signature *program,
                                    ls_array *const *values, ls_arena *memory,
                                    ls_text *out);
LS_MUST_USE ls_status ls_write_stablehlo(const ls_lowered_signature *program,
                                         ls_arena *memory, ls_text *out);

// ---- Lowered ops made of what a language has (compose.c) -------------------
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
// relu(x) if the op at hand says so.
ls_emitted ls_emit_activation(ls_emitter *e, ls_emitted x);
// The size that does not depend on the batch; else it is refused.
int64_t ls_emit_size(ls_emitter *e, ls_dim dim);

// The ops of each file, false: it is none of them.
bool ls_compose_nn(ls_emitter *e);

#endif  // LS_SERVE_EMIT_H_
