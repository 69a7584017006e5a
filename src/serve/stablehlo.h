// SPDX-License-Identifier: Apache-2.0
//
// StableHLO as text: one module with a function "main", whose arguments are a
// signature's inputs and then its variables.
#ifndef LS_SERVE_STABLEHLO_H_
#define LS_SERVE_STABLEHLO_H_

#include "serve/emit.h"

typedef struct ls_hlo {
  ls_emitter e;
  ls_text body;
} ls_hlo;

extern const ls_emit_language ls_stablehlo_language;

// tensor<8x10xf32>
void ls_hlo_type(ls_hlo *h, ls_emitted value);
void ls_hlo_type_of(ls_text *out, ls_dtype dtype, const ls_dims *dims);
// %v3
void ls_hlo_name(ls_hlo *h, ls_emitted value);
// "a\22b"
void ls_hlo_string(ls_text *out, const char *text);

#endif  // LS_SERVE_STABLEHLO_H_
