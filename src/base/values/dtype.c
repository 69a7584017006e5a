// SPDX-License-Identifier: Apache-2.0
// Data types: one row each.
#include "base/require.h"
#include "lockstep/array.h"
#include "lockstep/shape_rules.h"

typedef enum dtype_class {
  CLASS_OTHER,
  CLASS_FLOAT,
  CLASS_SIGNED,
  CLASS_UNSIGNED,
  CLASS_COMPLEX,
  CLASS_HANDLE,
} dtype_class;

static const struct {
  const char *name;
  size_t size;
  dtype_class kind;
} rows[LS_DTYPE_COUNT] = {
    [LS_DTYPE_NONE] = {"none", 0, CLASS_OTHER},
    [LS_DTYPE_F64] = {"f64", 8, CLASS_FLOAT},
    [LS_DTYPE_F32] = {"f32", 4, CLASS_FLOAT},
    [LS_DTYPE_F16] = {"f16", 2, CLASS_FLOAT},
    [LS_DTYPE_BF16] = {"bf16", 2, CLASS_FLOAT},
    [LS_DTYPE_I8] = {"i8", 1, CLASS_SIGNED},
    [LS_DTYPE_I16] = {"i16", 2, CLASS_SIGNED},
    [LS_DTYPE_I32] = {"i32", 4, CLASS_SIGNED},
    [LS_DTYPE_I64] = {"i64", 8, CLASS_SIGNED},
    [LS_DTYPE_U8] = {"u8", 1, CLASS_UNSIGNED},
    [LS_DTYPE_U16] = {"u16", 2, CLASS_UNSIGNED},
    [LS_DTYPE_U32] = {"u32", 4, CLASS_UNSIGNED},
    [LS_DTYPE_U64] = {"u64", 8, CLASS_UNSIGNED},
    [LS_DTYPE_BOOL] = {"bool", 1, CLASS_OTHER},
    [LS_DTYPE_STRING] = {"string", sizeof(ls_bytes), CLASS_OTHER},
    [LS_DTYPE_C64] = {"c64", 8, CLASS_COMPLEX},
    [LS_DTYPE_C128] = {"c128", 16, CLASS_COMPLEX},
    [LS_DTYPE_RESOURCE] = {"resource", sizeof(void *), CLASS_HANDLE},
    [LS_DTYPE_VARIANT] = {"variant", sizeof(void *), CLASS_HANDLE},
};

static dtype_class class_of(ls_dtype dtype) {
  return (size_t)dtype < LS_DTYPE_COUNT ? rows[dtype].kind : CLASS_OTHER;
}

size_t ls_dtype_size(ls_dtype dtype) {
  return (size_t)dtype < LS_DTYPE_COUNT ? rows[dtype].size : 0;
}

const char *ls_dtype_name(ls_dtype dtype) {
  return (size_t)dtype < LS_DTYPE_COUNT ? rows[dtype].name : "?";
}

bool ls_dtype_is_float(ls_dtype dtype) {
  return class_of(dtype) == CLASS_FLOAT;
}

bool ls_dtype_is_integer(ls_dtype dtype) {
  return class_of(dtype) == CLASS_SIGNED || class_of(dtype) == CLASS_UNSIGNED;
}

bool ls_dtype_is_unsigned(ls_dtype dtype) {
  return class_of(dtype) == CLASS_UNSIGNED;
}

bool ls_dtype_is_complex(ls_dtype dtype) {
  return class_of(dtype) == CLASS_COMPLEX;
}

bool ls_dtype_is_trainable(ls_dtype dtype) {
  const dtype_class kind = class_of(dtype);
  return kind == CLASS_FLOAT || kind == CLASS_COMPLEX || kind == CLASS_HANDLE;
}

ls_status ls_dtype_parse(const char *text, ls_dtype *out_dtype) {
  LS_REQUIRE_OUT(out_dtype, text);
  for (size_t i = 0; i < LS_DTYPE_COUNT; ++i) {
    if (strcmp(rows[i].name, text) == 0) {
      *out_dtype = (ls_dtype)i;
      return ls_ok();
    }
  }
  char names[200] = "";
  size_t used = 0;
  for (size_t i = 0; i < LS_DTYPE_COUNT; ++i) {
    const size_t size = strlen(rows[i].name);
    if (used + size + 2 > sizeof(names)) break;
    if (i > 0) names[used++] = ' ';
    memcpy(names + used, rows[i].name, size + 1);
    used += size;
  }
  return ls_invalid_argument("there is no dtype '%.40s'; the dtypes are %s",
                             text, names);
}
