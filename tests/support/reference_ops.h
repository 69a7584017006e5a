// SPDX-License-Identifier: Apache-2.0
//
// What the functions that compute single ops share. Those of one op, or a few,
// stand with its cases.
#ifndef LS_TESTS_SUPPORT_REFERENCE_OPS_H_
#define LS_TESTS_SUPPORT_REFERENCE_OPS_H_

#include "support/reference.h"

// One node to compute.
typedef struct ref_op {
  ref_run *run;
  const ls_node *node;
  uint16_t type;
  size_t num_in, num_out;
} ref_op;
typedef void (*ref_function)(const ref_op *op, const ref_tensor *in,
                             ref_tensor *out);

// ---- Attributes ------------------------------------------------------------
int64_t ref_int(const ref_op *op, const char *name, int64_t fallback);
double ref_real(const ref_op *op, const char *name, double fallback);
bool ref_is(const ref_op *op, const char *name, const char *text);
// Number `index` of a list; `fallback` if there is no such list.
int64_t ref_item(const ref_op *op, const char *name, int32_t index,
                 int64_t fallback);
// Whether a list of numbers holds `value`.
bool ref_lists(const ref_op *op, const char *name, int64_t value);

// ---- Places ----------------------------------------------------------------
// The place of element `index` in row order, and back.
void ref_place(ls_shape shape, int64_t index, int64_t place[LS_MAX_RANK]);
int64_t ref_index(ls_shape shape, const int64_t place[LS_MAX_RANK]);
// The element of x, which broadcasts to `to`, for element `index` of that.
int64_t ref_aligned(const ref_tensor *x, ls_shape to, int64_t index);
// The size of one step along an axis, and of what lies before it.
int64_t ref_inner(ls_shape shape, int32_t axis);
int64_t ref_outer(ls_shape shape, int32_t axis);

// ---- Numbers ---------------------------------------------------------------
ref_number ref_real_number(double value);
// `value` as the type holds it: floats rounded, integers wrapped around.
ref_number ref_stored(ls_dtype dtype, ref_number value);
double ref_double(ls_dtype dtype, ref_number value);  // Of any type.
// The order of two numbers, -1, 0 or 1; a nan is larger than any number.
int ref_order(ls_dtype dtype, ref_number a, ref_number b);
ref_number ref_sum(ls_dtype dtype, ref_number a, ref_number b);
ref_number ref_product(ls_dtype dtype, ref_number a, ref_number b);
// 1, and the least number of the type.
ref_number ref_one(ls_dtype dtype);
ref_number ref_limit(ls_dtype dtype, bool largest);

void ref_copy(const ref_tensor *from, ref_tensor *to);
// Elementwise op `type` of two numbers.
ref_number ref_binary_number(uint16_t type, ls_dtype dtype, ref_number a,
                             ref_number b);

// ---- What several ops are computed by --------------------------------------
#define REF_DECLARE(name)                                                      \
  void ref_##name(const ref_op *op, const ref_tensor *in, ref_tensor *out)
// Elementwise ops, number by number.
REF_DECLARE(unary);
REF_DECLARE(binary);
REF_DECLARE(compare);
// Outputs that are the operands; none, or one that is zero.
REF_DECLARE(copies);
REF_DECLARE(nothing);
// Of slices, which variables are updated by too.
REF_DECLARE(scatter);
#undef REF_DECLARE

// ---- Memory ----------------------------------------------------------------
// Room for `count` items that lives as long as the run.
void *ref_allocate(ref_run *run, size_t count, size_t size);
// Stacks of a run, by number.
int64_t ref_stack_create(ref_run *run, bool endless);
void ref_stack_add(ref_run *run, int64_t stack, ref_tensor value);
// False if nothing is left and the stack is not endless; then zeros come.
bool ref_stack_take(ref_run *run, int64_t stack, ref_tensor *out);

#endif  // LS_TESTS_SUPPORT_REFERENCE_OPS_H_
