// SPDX-License-Identifier: Apache-2.0
#include "graph/op_table.h"

#include "graph/infer.h"

const ls_op_info ls_op_table[LS_OP_TABLE_COUNT] = {
    [LS_OP_NONE] = {"none", 0, LS_OP_PLAIN, NULL},
#define LS_OP(id, name, inputs, traits, shape, ...)                            \
  [LS_OP_##id] = {name, inputs, traits, infer_##shape},
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
  ls_type *out = ls_arena_new_array(infer->arena, ls_type, count);
  if (out == NULL) return ls_out_of_memory();
  infer->out = out;
  infer->num_out = count;
  return ls_ok();
}

bool ls_op_takes(const ls_op_info *info, size_t count) {
  if (info->data_inputs == LS_VARIADIC) return true;
  const size_t least = (size_t)info->data_inputs;
  const size_t more = info->traits & LS_OP_SIZED ? LS_MAX_RANK : 0;
  return count >= least && count <= least + more;
}

ls_status ls_infer_run(ls_infer *infer) {
  LS_RETURN_IF_ERROR(ls_op_table[infer->spec->type].infer(infer));
  for (size_t i = 0; i < infer->num_out; ++i) {
    const ls_status status = ls_shape_check(infer->out[i].shape);
    if (!ls_status_is_ok(status))
      return ls_status_annotate(status, "result %zu of %s", i, infer->op_name);
  }
  return ls_ok();
}

const ls_attr *ls_infer_attr(const ls_infer *infer, const char *name) {
  for (size_t i = 0; i < infer->spec->num_attrs; ++i)
    if (strcmp(infer->spec->attrs[i].name, name) == 0)
      return &infer->spec->attrs[i];
  return NULL;
}

int64_t ls_infer_int(const ls_infer *infer, const char *name,
                     int64_t fallback) {
  const ls_attr *attr = ls_infer_attr(infer, name);
  return attr == NULL ? fallback : attr->as.i;
}

ls_status ls_infer_sizes(const ls_infer *infer, const char *name,
                         ls_shape *out_shape) {
  const ls_attr *attr = ls_infer_attr(infer, name);
  if (attr == NULL || attr->kind != LS_ATTR_SIZES)
    return ls_invalid_argument("%s needs the attribute '%s'", infer->op_name,
                               name);
  if (attr->as.sizes.count > LS_MAX_RANK)
    return ls_invalid_argument("%s: %zu sizes, at most %d are possible",
                               infer->op_name, attr->as.sizes.count,
                               LS_MAX_RANK);
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
