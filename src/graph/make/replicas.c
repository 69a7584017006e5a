// SPDX-License-Identifier: Apache-2.0
//
// Op makers: collectives. In a trace they are ops of the replica's graph.
// Replicas that run op by op exchange values at once, through the context.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "graph/compare/compare.h"
#include "graph/make/make.h"
#include "lockstep/shape_rules.h"

static const char *const reduce_names[] = {"sum", "mean", "max", "min"};

const char *ls_reduce_op_name(ls_reduce_op op) {
  static const char *const names[] = {"SUM", "MEAN", "MAX", "MIN"};
  return (unsigned)op < LS_COUNT_OF(names) ? names[op] : NULL;
}

const char *ls_reduce_op_print(ls_reduce_op op, char *buffer, size_t size) {
  const char *name = ls_reduce_op_name(op);
  if (name == NULL)
    snprintf(buffer, size, "reduce op %d", (int)op);
  else
    snprintf(buffer, size, "%s", name);
  return buffer;
}

static bool replicas_check_reduce(const char *op_name, ls_reduce_op op,
                                  ls_tensor *out_failed) {
  if ((unsigned)op < LS_COUNT_OF(reduce_names)) return true;
  *out_failed = ls_make_failed(
      op_name, ls_invalid_argument("%s is none of SUM, MEAN, MAX, MIN",
                                   LS_REDUCE_OP_TEXT(op)));
  return false;
}

// ---- Records of results ----------------------------------------------------
ls_op ls_add_meeting(uint16_t op, const ls_tensor *given, size_t num_given,
                     const ls_attr *attrs, size_t num_attrs,
                     const ls_tensor *got, size_t num_got) {
  enum { MOST = 8 };
  LS_ASSERT(num_attrs <= MOST - 2);
  ls_tensor few[MOST], *operands = few;
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = num_given + num_got;
  if (count > MOST) operands = ls_new_array(allocator, ls_tensor, count);
  if (operands == NULL) {
    ls_make_failed("meeting", ls_out_of_memory());
    return (ls_op){0};
  }
  const char *name = ls_op_table[op].name;
  ls_attr all[MOST] = {LS_OWN_I(NUM_INPUTS, (int64_t)num_given),
                       LS_OWN_S(OP, name)};
  if (num_attrs > 0) memcpy(all + 2, attrs, num_attrs * sizeof(*attrs));
  memcpy(operands, given, num_given * sizeof(*given));
  memcpy(operands + num_given, got, num_got * sizeof(*got));
  const ls_op made =
      ls_make_op(LS_OP_MEETING, name, operands, count, all, num_attrs + 2);
  if (operands != few) ls_release(allocator, operands);
  return made;
}

ls_tensor ls_make_meeting(uint16_t op, ls_tensor given, const ls_attr *attrs,
                          size_t num_attrs, ls_tensor got) {
  if (got.ref == 0 || !ls_dtype_is_trainable(ls_tensor_dtype(given)))
    return got;
  return ls_op_output(ls_add_meeting(op, &given, 1, attrs, num_attrs, &got, 1),
                      0);
}

ls_tensor ls_make_reduced(ls_reduce_op op, ls_tensor given, ls_tensor got) {
  const ls_attr attr = LS_OWN_S(REDUCE, reduce_names[op]);
  return ls_make_meeting(LS_OP_ALL_REDUCE, given, &attr, 1, got);
}

// ---- Means of integers -----------------------------------------------------
ls_dtype ls_mean_dtype(ls_dtype dtype) {
  switch (dtype) {
  case LS_DTYPE_I32:
  case LS_DTYPE_I64:
  case LS_DTYPE_U32:
  case LS_DTYPE_U64:
    return LS_DTYPE_F64;
  case LS_DTYPE_I8:
  case LS_DTYPE_I16:
  case LS_DTYPE_U8:
  case LS_DTYPE_U16:
    return LS_DTYPE_F32;
  default:
    return dtype;
  }
}

ls_tensor ls_widen_integers(ls_tensor x) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  return ls_mean_dtype(dtype) == dtype || ls_dtype_size(dtype) == 8
             ? x
             : ls_convert(x, LS_DTYPE_I64);
}

bool ls_divides_integers(ls_reduce_op op, ls_tensor x) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  return op == LS_REDUCE_MEAN && ls_context_replicas_here() > 0 &&
         ls_mean_dtype(dtype) != dtype;
}

ls_tensor ls_divide_integers(ls_tensor sum, ls_dtype mean, int64_t count) {
  if (ls_tensor_is_failed(sum)) return sum;
  const ls_tensor divisor = ls_scalar(mean, (double)count);
  return ls_div(ls_convert(sum, mean), divisor);
}

// ---- Collectives -----------------------------------------------------------
ls_tensor ls_all_reduce_met(ls_reduce_op op, ls_tensor x) {
  const ls_context *context = ls_context_current();
  return context->table_reduce == NULL
             ? ls_all_reduce(op, x)
             : ls_make_reduced(op, x, context->table_reduce(op, x));
}

static ls_tensor all_reduce(ls_reduce_op op, ls_tensor x) {
  const ls_replica_hooks *hooks = ls_context_current()->hooks;
  if (hooks != NULL) return ls_make_reduced(op, x, hooks->all_reduce(op, x));
  if (ls_divides_integers(op, x))
    return ls_divide_integers(all_reduce(LS_REDUCE_SUM, ls_widen_integers(x)),
                              ls_mean_dtype(ls_tensor_dtype(x)),
                              ls_context_replicas());
  const ls_attr attr = LS_OWN_S(REDUCE, reduce_names[op]);
  return ls_make(LS_OP_ALL_REDUCE, &x, 1, &attr, 1);
}

ls_tensor ls_all_reduce(ls_reduce_op op, ls_tensor x) {
  ls_tensor failed;
  return replicas_check_reduce("all_reduce", op, &failed)
             ? ls_same_note(all_reduce(op, x))
             : failed;
}

ls_tensor ls_replica_id(void) {
  const ls_replica_hooks *hooks = ls_context_current()->hooks;
  if (hooks != NULL) return hooks->replica_id();
  return ls_make(LS_OP_REPLICA_ID, NULL, 0, NULL, 0);
}

ls_tensor ls_all_gather(ls_tensor x, int axis) {
  const ls_context *context = ls_context_current();
  const ls_attr attrs[] = {LS_OWN_I(AXIS, axis),
                           LS_OWN_I(REPLICAS, ls_context_replicas())};
  if (context->hooks != NULL)
    return ls_same_note(ls_make_meeting(LS_OP_ALL_GATHER, x, attrs, 2,
                                        context->hooks->all_gather(x, axis)));
  return ls_same_note(ls_make(LS_OP_ALL_GATHER, &x, 1, attrs, 2));
}

// ---- Parts -----------------------------------------------------------------
// Computes how many rows of the total a replica gets: those of `like`, or an
// equal part.
static ls_status part_rows(ls_type total, int axis, ls_tensor like,
                           int64_t *out_rows) {
  const ls_shape part = like.ref != 0 ? ls_tensor_shape(like) : total.shape;
  if (axis < 0 || axis >= total.shape.rank || axis >= part.rank)
    return ls_invalid_argument("axis %d of rank %d", axis,
                               axis < total.shape.rank ? part.rank
                                                       : total.shape.rank);
  *out_rows = part.dim[axis];
  if (*out_rows < 0)
    return ls_unimplemented("axis %d of %s, which is not known while building",
                            axis, LS_SHAPE_TEXT(total.dtype, part));
  if (like.ref != 0) return ls_ok();
  const int32_t replicas = ls_context_replicas();
  if (*out_rows % replicas != 0)
    return ls_invalid_argument(
        "axis %d of %s cannot be cut into %d equal parts", axis,
        LS_SHAPE_TEXT(total.dtype, part), replicas);
  *out_rows /= replicas;
  return ls_ok();
}

// Slices a replica's part of the total. Where replicas run op by op, the number
// of replicas and the replica's id are plain numbers.
static ls_tensor own_part(const ls_replica_hooks *hooks, ls_tensor total,
                          int axis, ls_tensor like) {
  const ls_type type = {ls_tensor_dtype(total), ls_tensor_shape(total)};
  int64_t rows = 0, start = 0;
  ls_status status = part_rows(type, axis, like, &rows);
  if (ls_status_is_ok(status)) {
    start = hooks->rows_before(rows, type.shape.dim[axis]);
    if (start >= 0) return ls_slice_axis(total, axis, start, start + rows);
    status = ls_invalid_argument("the replicas' parts of axis %d of %s are not "
                                 "its %lld rows together",
                                 axis, LS_SHAPE_TEXT(type.dtype, type.shape),
                                 (long long)type.shape.dim[axis]);
  }
  return ls_make_failed("reduce_scatter", status);
}

static ls_tensor reduce_scatter(ls_reduce_op op, ls_tensor x, int axis,
                                ls_tensor like) {
  ls_tensor failed;
  if (!replicas_check_reduce("reduce_scatter", op, &failed)) return failed;
  const ls_replica_hooks *hooks = ls_context_current()->hooks;
  const ls_attr attrs[] = {LS_OWN_S(REDUCE, reduce_names[op]),
                           LS_OWN_I(AXIS, axis),
                           LS_OWN_I(REPLICAS, ls_context_replicas())};
  if (hooks != NULL)
    return ls_make_meeting(
        LS_OP_REDUCE_SCATTER, x, attrs, 3,
        own_part(hooks, hooks->all_reduce(op, x), axis, like));
  if (ls_divides_integers(op, x))
    return ls_divide_integers(
        reduce_scatter(LS_REDUCE_SUM, ls_widen_integers(x), axis, like),
        ls_mean_dtype(ls_tensor_dtype(x)), ls_context_replicas());
  return ls_make(LS_OP_REDUCE_SCATTER, (const ls_tensor[]){x, like},
                 like.ref != 0 ? 2 : 1, attrs, 3);
}

ls_tensor ls_reduce_scatter(ls_reduce_op op, ls_tensor x, int axis) {
  return reduce_scatter(op, x, axis, (ls_tensor){0});
}

ls_tensor ls_reduce_scatter_like(ls_reduce_op op, ls_tensor x, int axis,
                                 ls_tensor like) {
  return reduce_scatter(op, x, axis, like);
}
