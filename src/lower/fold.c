// SPDX-License-Identifier: Apache-2.0
//
// Folds arithmetic and comparisons of scalar constants while lowering, such as
// counts, factors, the ones with which gradients start, and tests for examples.
//
// The bits equal those of running the op: +, -, *, / of f32 computed in f64 and
// rounded once equal the f32 ops; f64 and integer ops are the same ops.
#include <float.h>
#include <math.h>

#include "base/runtime_internal.h"
#include "lower/ops.h"

static const ls_array *constant_scalar(const ls_lower_scope *scope,
                                       uint64_t ref) {
  const ls_node *node = ls_graph_node_of(scope->to, ref);
  if (node == NULL || node->type != LS_OP_CONSTANT ||
      node->outputs[0].shape.rank != 0)
    return NULL;
  const ls_dtype dtype = node->outputs[0].dtype;
  const bool folds = dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64 ||
                     dtype == LS_DTYPE_I64 || dtype == LS_DTYPE_BOOL;
  return folds ? ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array : NULL;
}

static bool fold_floats(uint16_t type, double x, double y, double *out) {
  switch (type) {
  case LS_OP_ADD:
    *out = x + y;
    return true;
  case LS_OP_SUB:
    *out = x - y;
    return true;
  case LS_OP_MUL:
    *out = x * y;
    return true;
  case LS_OP_DIV:
    *out = x / y;
    return true;
  case LS_OP_NEG:
    *out = -x;
    return true;
  default:
    return false;
  }
}

static bool fold_compare(uint16_t type, double x, double y, double *out) {
  switch (type) {
  case LS_OP_EQUAL:
    *out = x == y;
    return true;
  case LS_OP_NOT_EQUAL:
    *out = x != y;
    return true;
  case LS_OP_LESS:
    *out = x < y;
    return true;
  case LS_OP_LESS_EQUAL:
    *out = x <= y;
    return true;
  case LS_OP_GREATER:
    *out = x > y;
    return true;
  case LS_OP_GREATER_EQUAL:
    *out = x >= y;
    return true;
  default:
    return false;
  }
}

// Returns true for denormals, which are not folded because running flushes them
// to zero.
static bool is_denormal(ls_dtype dtype, double value) {
  const double least = dtype == LS_DTYPE_F32 ? FLT_MIN : DBL_MIN;
  return value != 0 && fabs(value) < least;
}

static bool fits_double(const ls_array *array) {
  const int64_t limit = (int64_t)1 << 53;
  if (ls_array_dtype(array) != LS_DTYPE_I64) return true;
  const int64_t value = ls_array_i64(array, 0);
  return value >= -limit && value <= limit;
}

ls_status ls_lower_fold(ls_lower_scope *scope, const ls_node *node,
                        const uint64_t *inputs, uint64_t *out_ref) {
  *out_ref = 0;
  if (node->num_inputs == 0 || node->num_inputs > 2) return ls_ok();
  const ls_array *x = constant_scalar(scope, inputs[0]);
  const ls_array *y =
      node->num_inputs == 2 ? constant_scalar(scope, inputs[1]) : x;
  if (x == NULL || y == NULL || !fits_double(x) || !fits_double(y))
    return ls_ok();
  ls_dtype dtype = ls_array_dtype(x);
  double value = ls_array_f64(x, 0);
  const double other = ls_array_f64(y, 0);
  if (is_denormal(dtype, value) || is_denormal(dtype, other)) return ls_ok();
  if (node->num_inputs == 2 && fold_compare(node->type, value, other, &value))
    return ls_lower_scalar(scope, LS_DTYPE_BOOL, value, node, out_ref);
  if (dtype == LS_DTYPE_BOOL) return ls_ok();
  if (node->type == LS_OP_CONVERT) {
    dtype = ls_node_attr(node, LS_ATTR_ID_DTYPE)->as.dtype;
    if (dtype != LS_DTYPE_F32 && dtype != LS_DTYPE_F64) return ls_ok();
  } else if (dtype == LS_DTYPE_I64 ||
             !fold_floats(node->type, value, other, &value)) {
    return ls_ok();
  }
  if (is_denormal(dtype, value)) return ls_ok();
  return ls_lower_scalar(scope, dtype, value, node, out_ref);
}

bool ls_lower_is_known(const ls_lower_scope *scope, uint64_t ref,
                       bool *out_value) {
  const ls_array *array = constant_scalar(scope, ref);
  if (array == NULL || ls_array_dtype(array) != LS_DTYPE_BOOL) return false;
  *out_value = ls_array_f64(array, 0) != 0;
  return true;
}
