// SPDX-License-Identifier: Apache-2.0
//
// Writes StableHLO's ops as text.
#ifndef LS_EMIT_STABLEHLO_H_
#define LS_EMIT_STABLEHLO_H_

#include "emit/emit.h"

typedef struct ls_hlo {
  ls_emitter e;
  ls_text body;
  bool highest, bf16;  // See ls_hlo_program.
} ls_hlo;

extern const ls_emit_language ls_stablehlo_language;
extern const ls_emit_flow ls_stablehlo_flow;  // stablehlo_flow.c

// Append a type: tensor<8x10xf32>; refuse one that StableHLO lacks.
void ls_hlo_append_type(ls_hlo *h, ls_text *out, ls_dtype dtype,
                        const ls_batch_dims *dims);
void ls_hlo_type(ls_hlo *h, ls_emitted value);
// Appends a name: %v3.
void ls_hlo_name(ls_hlo *h, ls_emitted value);

// ---- Lines -----------------------------------------------------------------
static inline ls_hlo *ls_hlo_of(ls_emitter *e) { return (ls_hlo *)e->self; }
// Begins a line: " %v3 = OP %v1, %v2".
ls_text *ls_hlo_begin(ls_emitter *e, const char *op, const ls_emitted *in,
                      size_t count, ls_emitted out);
// Appends names: " %v1, %v2".
void ls_hlo_names(ls_emitter *e, const ls_emitted *in, size_t count);
// Appends types: "tensor<2xf32>, tensor<i1>".
void ls_hlo_types(ls_emitter *e, const ls_emitted *in, size_t count);
// Ends a line: " : type", or " : (types) -> type".
void ls_hlo_end(ls_emitter *e, ls_emitted out);
void ls_hlo_finish(ls_emitter *e, const ls_emitted *in, size_t count,
                   ls_emitted out);

// Appends a region that combines two scalars by an elementwise op, or returns
// the second one, and ends the op that has it: "> ({ ... })".
void ls_hlo_combine(ls_emitter *e, uint16_t op, ls_dtype dtype);

// Functions of the language's table.
void ls_hlo_scatter(ls_emitter *e, uint16_t op, ls_emitted x,
                    ls_emitted indices, ls_emitted updates, ls_emitted out);
void ls_hlo_sort(ls_emitter *e, const ls_emitted *in, size_t count,
                 int64_t axis, bool descending, const ls_emitted *out);

#endif  // LS_EMIT_STABLEHLO_H_
