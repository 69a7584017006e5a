// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of mathematical functions, bits, random integers, barriers and
// custom gradients.
#include "graph/infer/infer.h"
#include "lockstep/shape_rules.h"

static bool has_bits(ls_dtype dtype) {
  return ls_dtype_is_integer(dtype) || dtype == LS_DTYPE_BOOL;
}

static ls_status check_operand(const ls_infer *infer, bool fits,
                               const char *wanted) {
  if (fits) return ls_ok();
  return ls_invalid_argument("%s takes %s, got %s", infer->op_name, wanted,
                             LS_OPERAND_TEXT(infer, 0));
}

// ---- Functions -------------------------------------------------------------
ls_status infer_float_pair(ls_infer *infer) {
  LS_RETURN_IF_ERROR(
      check_operand(infer, ls_dtype_is_float(infer->in[0].dtype), "floats"));
  return ls_infer_pair(infer, 0, 1);
}

ls_status infer_gelu_again(ls_infer *infer) {
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, 2));
  LS_RETURN_IF_ERROR(infer_float_pair(infer));
  infer->out[1] = infer->in[1];
  if (ls_shape_equal(infer->in[0].shape, infer->in[1].shape)) return ls_ok();
  return ls_invalid_argument("%s of %s and %s: the shapes differ",
                             infer->op_name, LS_OPERAND_TEXT(infer, 0),
                             LS_OPERAND_TEXT(infer, 1));
}

ls_status infer_is_finite(ls_infer *infer) {
  LS_RETURN_IF_ERROR(
      check_operand(infer, ls_dtype_is_float(infer->in[0].dtype), "floats"));
  infer->out[0] = (ls_type){LS_DTYPE_BOOL, infer->in[0].shape};
  return ls_ok();
}

// ---- Bits ------------------------------------------------------------------
ls_status infer_bits(ls_infer *infer) {
  infer->out[0] = infer->in[0];
  return check_operand(infer, has_bits(infer->in[0].dtype),
                       "integers or bools");
}

ls_status infer_bits_pair(ls_infer *infer) {
  LS_RETURN_IF_ERROR(infer_bits(infer));
  return ls_infer_pair(infer, 0, 1);
}

ls_status infer_integer(ls_infer *infer) {
  infer->out[0] = infer->in[0];
  return check_operand(infer, ls_dtype_is_integer(infer->in[0].dtype),
                       "integers");
}

ls_status infer_integer_pair(ls_infer *infer) {
  LS_RETURN_IF_ERROR(infer_integer(infer));
  return ls_infer_pair(infer, 0, 1);
}

ls_status infer_bitcast(ls_infer *infer) {
  infer->out[0].dtype = ls_infer_dtype(infer);
  const ls_dtype from = infer->in[0].dtype, to = infer->out[0].dtype;
  infer->out[0].shape = infer->in[0].shape;
  if (ls_infer_is_number(from) && ls_infer_is_number(to) &&
      ls_dtype_size(from) == ls_dtype_size(to))
    return ls_ok();
  return ls_unimplemented("bitcast from %s to %s: numbers of one size only",
                          ls_dtype_name(from), ls_dtype_name(to));
}

// ---- Random ----------------------------------------------------------------
static ls_status random_type(ls_infer *infer, ls_dtype a, ls_dtype b) {
  infer->out[0].dtype = ls_infer_dtype(infer);
  const ls_dtype dtype = infer->out[0].dtype;
  if (dtype != a && dtype != b)
    return ls_unimplemented("%s returns %s or %s, not %s", infer->op_name,
                            ls_dtype_name(a), ls_dtype_name(b),
                            ls_dtype_name(dtype));
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &infer->out[0].shape));
  return ls_shape_check(infer->out[0].shape);
}

ls_status infer_random_bits(ls_infer *infer) {
  return random_type(infer, LS_DTYPE_U32, LS_DTYPE_U64);
}

ls_status infer_random_permutation(ls_infer *infer) {
  LS_RETURN_IF_ERROR(random_type(infer, LS_DTYPE_I32, LS_DTYPE_I64));
  const ls_type type = infer->out[0];
  if (type.shape.rank != 1)
    return ls_invalid_argument("a permutation has rank 1, not %d",
                               type.shape.rank);
  if (type.dtype == LS_DTYPE_I32 && type.shape.dim[0] > INT32_MAX)
    return ls_invalid_argument("a permutation of %lld does not fit into i32",
                               (long long)type.shape.dim[0]);
  return ls_ok();
}

// ---- Structure -------------------------------------------------------------
ls_status infer_barrier(ls_infer *infer) {
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, infer->num_in));
  for (size_t i = 0; i < infer->num_in; ++i)
    infer->out[i] = infer->in[i];
  return ls_ok();
}

// Operands: the inputs, then the results, which are the outputs.
ls_status infer_custom_gradient(ls_infer *infer) {
  const int64_t inputs = ls_infer_int(infer, LS_ATTR_ID_NUM_INPUTS);
  if ((uint64_t)inputs > infer->num_in)
    return ls_invalid_argument("%s: %lld of %zu operands are inputs",
                               infer->op_name, (long long)inputs,
                               infer->num_in);
  const size_t first = (size_t)inputs, count = infer->num_in - first;
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, count));
  for (size_t i = 0; i < count; ++i)
    infer->out[i] = infer->in[first + i];
  return ls_ok();
}
