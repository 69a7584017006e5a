// SPDX-License-Identifier: Apache-2.0
//
// The table of rules, and helpers of rules.
#include "grad/rules.h"
#include "graph/make/make.h"

const ls_gradient_function ls_gradient_table[LS_OP_COUNT] = {
    [LS_OP_NONE] = gradient_none,
#define LS_OP(id, name, inputs, traits, shape, gradient, ...)                  \
  [LS_OP_##id] = gradient_##gradient,
#include "lockstep/ops.def"
#undef LS_OP
};

// The rule of ops that are not differentiable: sets no gradients.
ls_status gradient_none(ls_backward *g) {
  (void)g;
  return ls_ok();
}

ls_status gradient_refused(ls_backward *g) {
  const uint16_t type = g->node->type;
  if (type == LS_OP_REPLICATE || type == LS_OP_TPU_REPLICATED_OUTPUT)
    return ls_not_found(
        "op %s gives results of replicas that are traced, and has no gradient "
        "outside of them: take the gradient in the replicas' callback, or run "
        "them under a tape (ls_tape_begin)",
        LS_OP_TEXT(g->op));
  return ls_not_found(
      "op %s has no gradient; wrap its operand in ls_stop_gradient, or name it "
      "in stop_gradients, to stop the gradient",
      LS_OP_TEXT(g->op));
}

ls_status ls_gradient_needs(const ls_backward *g, const char *what) {
  return ls_unimplemented("op %s: its gradient needs %s known while building",
                          LS_OP_TEXT(g->op), what);
}

// The rule of reads, which has no effect: the walk adds up the gradients of
// variables at reads.
ls_status gradient_read(ls_backward *g) {
  (void)g;
  return ls_ok();
}

// ---- Helpers of rules ------------------------------------------------------
// Returns true if no dimension of `x` can have been broadcast to `other`.
static bool kept_its_shape(ls_shape x, ls_shape other) {
  if (x.rank < 0 || other.rank < 0 || other.rank > x.rank) return false;
  for (int i = 1; i <= other.rank; ++i) {
    const int64_t size = x.dim[x.rank - i];
    if (other.dim[other.rank - i] != 1 && size <= 1) return false;
  }
  return true;
}

ls_tensor ls_gradient_sum_to(ls_backward *g, ls_tensor term, size_t index,
                             size_t other) {
  const ls_tensor x = ls_op_input(g->op, index);
  const ls_tensor y = ls_op_input(g->op, other);
  if (ls_tensor_equal(x, y) ||
      kept_its_shape(ls_tensor_shape(x), ls_tensor_shape(y)))
    return term;
  return ls_sum_to_like(term, ls_gradient_input(g, index));
}

// Reshapes `x` to `sizes`, which may take dimensions from `like`.
static ls_tensor reshape_to(ls_tensor x, ls_tensor like, const ls_size *sizes,
                            size_t count) {
  const ls_attr attr = LS_OWN_SZ(SIZES, sizes, count);
  return ls_make(LS_OP_RESHAPE, (const ls_tensor[]){x, like},
                 like.ref != 0 ? 2 : 1, &attr, 1);
}

ls_tensor ls_gradient_plus(ls_tensor a, ls_tensor b) {
  if (a.ref == 0 || b.ref == 0) return a.ref == 0 ? b : a;
  return ls_add(a, b);
}

void ls_gradient_give(ls_backward *g, size_t i, ls_tensor value) {
  if (g->wanted[i] && value.ref != 0)
    g->din[i] = ls_convert(value, ls_tensor_dtype(ls_op_input(g->op, i)));
}

ls_tensor ls_gradient_keep_axes(ls_backward *g, ls_tensor term) {
  if (ls_node_int(g->node, LS_ATTR_ID_KEEP_DIMS) != 0) return term;
  const ls_tensor x = ls_gradient_input(g, 0);
  const ls_attr *axes = ls_node_attr(g->node, LS_ATTR_ID_AXES);
  // The rank is known, because the axes are.
  const int32_t rank = ls_tensor_shape(x).rank;
  ls_size sizes[LS_MAX_RANK];
  for (int32_t i = 0; i < rank; ++i)
    sizes[i] = (ls_size){1, i};
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    sizes[axes->as.ints.items[i]] = (ls_size){LS_SIZE_CONSTANT, 1};
  return reshape_to(term, x, sizes, rank < 0 ? 0 : (size_t)rank);
}

int64_t ls_gradient_product(ls_shape shape, int32_t first, int32_t end) {
  int64_t product = 1;
  for (int32_t i = first; i < end; ++i) {
    if (shape.dim[i] < 0) return -1;
    product *= shape.dim[i];
  }
  return product;
}

ls_tensor ls_gradient_as_matrix(ls_tensor x) {
  const ls_shape shape = ls_tensor_shape(x);
  const int32_t rank = shape.rank;
  if (rank == 2) return x;
  // Uses the number of elements if it is known: with 0 elements a reshape could
  // not infer it.
  const ls_size sizes[2] = {
      {LS_SIZE_CONSTANT, ls_gradient_product(shape, 0, rank - 1)},
      {0, rank - 1}};
  return reshape_to(x, ls_failed_tensor(), sizes, 2);
}

ls_tensor ls_gradient_with_last(ls_tensor x) {
  const int32_t rank = ls_tensor_shape(x).rank;
  ls_size sizes[LS_MAX_RANK + 1];
  for (int32_t i = 0; i < rank; ++i)
    sizes[i] = (ls_size){0, i};
  sizes[rank < 0 ? 0 : rank] = (ls_size){LS_SIZE_CONSTANT, 1};
  return reshape_to(x, ls_failed_tensor(), sizes, (size_t)(rank + 1));
}

ls_tensor ls_gradient_number(ls_tensor x, double value) {
  return ls_scalar(ls_tensor_dtype(x), value);
}

ls_tensor ls_gradient_zeros(ls_tensor x) {
  if (ls_tensor_dtype(x) == LS_DTYPE_VARIANT) return ls_stack_zeros();
  return ls_broadcast_like(ls_gradient_number(x, 0), x);
}
