// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of what replicas do together. How many there are is an attribute,
// as a value does not know it.
#include "graph/graph.h"
#include "graph/infer.h"

ls_status infer_all_reduce(ls_infer *infer) {
  const ls_attr *reduce = ls_infer_attr(infer, "reduce");
  static const char *const names[] = {"sum", "mean", "max", "min"};
  bool known = false;
  for (size_t i = 0; reduce != NULL && i < LS_COUNT_OF(names); ++i)
    known = known || strcmp(reduce->as.string, names[i]) == 0;
  if (!known)
    return ls_invalid_argument(
        "all_reduce: '%s' is none of sum, mean, max, min",
        reduce == NULL ? "" : reduce->as.string);
  return infer_number(infer);
}

// The attribute `axis`, one of operand 0's.
static ls_status own_axis(const ls_infer *infer, int64_t *out_axis) {
  *out_axis = ls_infer_int(infer, "axis", 0);
  const int32_t rank = infer->in[0].shape.rank;
  if (*out_axis >= 0 && (rank < 0 || *out_axis < rank)) return ls_ok();
  return ls_invalid_argument("%s along axis %lld of %s: there are axes 0 to %d",
                             infer->op_name, (long long)*out_axis,
                             LS_OPERAND_TEXT(infer, 0), rank - 1);
}

// How many replicas put something together.
static int64_t group_size(const ls_infer *infer) {
  return ls_infer_int(infer, "group_size", ls_infer_int(infer, "replicas", 1));
}

// The rows of each replica are known when it is lowered. Before, what is known
// of the rows of one holds for all.
ls_status infer_all_gather(ls_infer *infer) {
  const ls_attr *rows = ls_infer_attr(infer, "rows");
  int64_t axis = 0;
  LS_RETURN_IF_ERROR(own_axis(infer, &axis));
  infer->out[0] = infer->in[0];
  if (infer->in[0].shape.rank < 0) return ls_ok();
  int64_t *dim = &infer->out[0].shape.dim[axis];
  if (rows == NULL && *dim >= 0) *dim *= group_size(infer);
  if (rows == NULL) return ls_ok();
  *dim = 0;
  for (size_t r = 0; r < rows->as.ints.count; ++r)
    *dim += rows->as.ints.items[r];
  return ls_ok();
}

// With a second operand the part is as long as that.
ls_status infer_reduce_scatter(ls_infer *infer) {
  const int64_t replicas = group_size(infer);
  int64_t axis = 0;
  if (infer->num_in < 1 || infer->num_in > 2)
    return ls_invalid_argument("reduce_scatter takes a value and, where parts "
                               "differ, one that is as long as the part; got "
                               "%zu",
                               infer->num_in);
  LS_RETURN_IF_ERROR(infer_all_reduce(infer));
  LS_RETURN_IF_ERROR(own_axis(infer, &axis));
  if (infer->in[0].shape.rank < 0) return ls_ok();
  int64_t *dim = &infer->out[0].shape.dim[axis];
  if (infer->num_in == 2) {
    const ls_shape like = infer->in[1].shape;
    *dim = axis < like.rank ? like.dim[axis] : LS_UNKNOWN_DIM;
    return ls_ok();
  }
  if (*dim >= 0 && *dim % replicas != 0)
    return ls_invalid_argument("reduce_scatter: axis %lld of %s cannot be cut "
                               "into %lld equal parts",
                               (long long)axis, LS_OPERAND_TEXT(infer, 0),
                               (long long)replicas);
  if (*dim >= 0) *dim /= replicas;
  return ls_ok();
}

// Results that differ between replicas are R of the body's, one after another;
// of their shapes is known what they have in common.
ls_status infer_merge_call(ls_infer *infer) {
  if (infer->spec->num_regions != 1)
    return ls_invalid_argument("merge holds one child graph, got %zu",
                               infer->spec->num_regions);
  const ls_graph *body = ls_graph_resolve(infer->spec->regions[0]);
  const size_t replicas = (size_t)ls_infer_int(infer, "replicas", 1);
  const size_t args = (size_t)ls_infer_int(infer, "num_args", 0);
  const size_t gathered = (size_t)ls_infer_int(infer, "num_gathered", 0);
  if (infer->num_in != args + body->num_captures ||
      body->num_declared != args * replicas ||
      body->num_results < gathered * replicas)
    return ls_invalid_argument(
        "merge of %zu replicas: %zu arguments and %zu captures against %zu "
        "operands",
        replicas, args, body->num_captures, infer->num_in);
  const size_t uniform = body->num_results - gathered * replicas;
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, gathered + uniform));
  for (size_t i = 0; i < gathered + uniform; ++i) {
    const size_t at =
        i < gathered ? i * replicas : gathered * replicas + (i - gathered);
    ls_type type = ls_graph_type(body, body->results[at]);
    for (size_t r = 1; i < gathered && r < replicas; ++r) {
      const ls_type other = ls_graph_type(body, body->results[at + r]);
      if (other.dtype != type.dtype || other.shape.rank != type.shape.rank)
        return ls_invalid_argument("merge: result %zu is %s on replica 0 and "
                                   "%s on replica %zu",
                                   i, LS_SHAPE_TEXT(type.dtype, type.shape),
                                   LS_SHAPE_TEXT(other.dtype, other.shape), r);
      for (int32_t d = 0; d < type.shape.rank; ++d)
        if (other.shape.dim[d] != type.shape.dim[d])
          type.shape.dim[d] = LS_UNKNOWN_DIM;
    }
    infer->out[i] = type;
  }
  return ls_ok();
}

ls_status infer_all_to_all(ls_infer *infer) {
  const int64_t split = ls_infer_int(infer, "split_axis", 0);
  const int64_t concat = ls_infer_int(infer, "concat_axis", 0);
  const int64_t parts = group_size(infer);
  const int32_t rank = infer->in[0].shape.rank;
  infer->out[0] = infer->in[0];
  if (rank < 0) return ls_ok();
  if (split < 0 || split >= rank || concat < 0 || concat >= rank)
    return ls_invalid_argument("all_to_all: split axis %lld and concat axis "
                               "%lld of %s: there are axes 0 to %d",
                               (long long)split, (long long)concat,
                               LS_OPERAND_TEXT(infer, 0), rank - 1);
  int64_t *dim = infer->out[0].shape.dim;
  if (dim[split] >= 0 && dim[split] % parts != 0)
    return ls_invalid_argument("all_to_all: axis %lld of %s cannot be cut into "
                               "%lld equal parts",
                               (long long)split, LS_OPERAND_TEXT(infer, 0),
                               (long long)parts);
  if (dim[split] >= 0) dim[split] /= parts;
  if (dim[concat] >= 0) dim[concat] *= parts;
  return ls_ok();
}

ls_status infer_permute(ls_infer *infer) {
  infer->out[0] = infer->in[0];
  return ls_ok();
}
