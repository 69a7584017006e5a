// SPDX-License-Identifier: Apache-2.0
#include "graph/op_table.h"

#include <stdio.h>

#include "graph/infer/infer.h"
#include "lockstep/shape_rules.h"

// Attributes that several rows of ops.def share.
#define LS_ATTRS_RANDOM                                                        \
  NEEDS(SIZES), NEEDS(DTYPE), HAS(SEED), HAS(STREAM),                          \
      HAS(SAME_ON_ALL_REPLICAS), HAS(REPLICA), HAS(FIXED)
#define LS_ATTRS_WINDOW                                                        \
  HAS(WINDOW_STRIDES), HAS(DILATIONS), HAS(PADDING), HAS(SAME)
#define LS_ATTRS_CONVOLUTION                                                   \
  LS_ATTRS_WINDOW, HAS(INPUT_DILATIONS), HAS(CHANNEL_GROUPS)
#define LS_ATTRS_GROUPS HAS(GROUPS), HAS(GROUP_SIZE)

// The list starts with an empty entry, because a row may have no attribute.
#define NEEDS(id)                                                              \
  { LS_ATTR_ID_##id, true }
#define HAS(id)                                                                \
  { LS_ATTR_ID_##id, false }
#define LS_OP(id, name, inputs, traits, shape, gradient, lower, kernel, doc,   \
              ...)                                                             \
  static const ls_attr_rule attrs_of_##id[] = {{LS_ATTR_ID_NONE, false},       \
                                               __VA_ARGS__};
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP
#undef NEEDS
#undef HAS

const ls_op_info ls_op_table[LS_OP_TABLE_COUNT] = {
    [LS_OP_NONE] = {.name = "none"},
#define LS_OP(id, name, inputs, traits, shape, ...)                            \
  [LS_OP_##id] = {name,                                                        \
                  inputs,                                                      \
                  traits,                                                      \
                  infer_##shape,                                               \
                  attrs_of_##id + 1,                                           \
                  LS_COUNT_OF(attrs_of_##id) - 1},
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP
};

uint16_t ls_op_type_find(const char *name) {
  for (uint16_t i = LS_OP_NONE + 1; i < LS_OP_TABLE_COUNT; ++i)
    if (strcmp(ls_op_table[i].name, name) == 0) return i;
  return LS_OP_TABLE_COUNT;
}

ls_status ls_infer_outputs(ls_infer *infer, size_t count) {
  if (count > LS_MAX_OUTPUTS)
    return ls_unimplemented("%s has %zu results, of at most %d", infer->op_name,
                            count, LS_MAX_OUTPUTS);
  LS_ARENA_ARRAY_OR_RETURN(infer->arena, ls_type, out, count);
  infer->out = out;
  infer->num_out = count;
  return ls_ok();
}

ls_status ls_op_check_count(const ls_op_info *info, size_t count) {
  const bool sized = (info->traits & LS_OP_SIZED) != 0;
  const size_t least = ls_op_least(info), most = ls_op_most(info);
  if (count >= least && count <= most + (sized ? LS_MAX_RANK : 0))
    return ls_ok();
  char range[48];
  if (least == most)
    snprintf(range, sizeof(range), "%zu", least);
  else if (most < LS_MAX_OPERANDS)
    snprintf(range, sizeof(range), "%zu to %zu", least, most);
  else if (count < least)
    snprintf(range, sizeof(range), "at least %zu", least);
  else
    snprintf(range, sizeof(range), "at most %zu", most);
  return ls_invalid_argument("%s takes %s operands%s, got %zu", info->name,
                             range, sized ? ", or one more for each size" : "",
                             count);
}

ls_status ls_infer_run(ls_infer *infer, const ls_op_spec *spec,
                       const ls_type *in, size_t num_in, ls_type *first,
                       ls_arena *arena) {
  const ls_op_info *info = &ls_op_table[spec->type];
  *infer = (ls_infer){spec, info->name, in, num_in, first, 1, arena};
  LS_RETURN_IF_ERROR(info->infer(infer));
  for (size_t i = 0; i < infer->num_out; ++i) {
    const ls_status status = ls_shape_check(infer->out[i].shape);
    if (!ls_status_is_ok(status))
      return ls_status_annotate(status, "result %zu of %s", i, infer->op_name);
  }
  return ls_ok();
}

ls_status ls_infer_sizes(const ls_infer *infer, ls_shape *out_shape) {
  const ls_attr *attr = ls_infer_attr(infer, LS_ATTR_ID_SIZES);
  ls_shape shape = {.rank = (int32_t)attr->as.sizes.count};
  for (int32_t i = 0; i < shape.rank; ++i) {
    const ls_size size = attr->as.sizes.items[i];
    if (size.operand == LS_SIZE_CONSTANT) {
      shape.dim[i] = size.value;
      continue;
    }
    if (size.operand < 0 || (size_t)size.operand >= infer->num_in)
      return ls_invalid_argument("%s: size %d is taken from operand %d of %zu",
                                 infer->op_name, i, size.operand,
                                 infer->num_in);
    const ls_shape from = infer->in[size.operand].shape;
    if (from.rank == LS_UNKNOWN_RANK) {
      shape.dim[i] = LS_UNKNOWN_DIM;
      continue;
    }
    if (size.value < 0 || size.value >= from.rank)
      return ls_invalid_argument(
          "%s: size %d is dimension %lld of operand %d, which has rank %d",
          infer->op_name, i, (long long)size.value, size.operand, from.rank);
    shape.dim[i] = from.dim[size.value];
  }
  *out_shape = shape;
  return ls_ok();
}
