// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of collectives. The number of replicas is an attribute, because
// types do not contain it.
#include "graph/graph.h"
#include "graph/infer/infer.h"

// Checks that the groups have equal sizes and hold each replica once. Without
// the attribute all replicas are one group.
static ls_status check_groups(const ls_infer *infer, int64_t size) {
  const ls_attr *groups = ls_infer_attr(infer, LS_ATTR_ID_GROUPS);
  if (groups == NULL) return ls_ok();
  const size_t count = groups->as.ints.count;
  LS_ARENA_ARRAY_OR_RETURN(infer->arena, uint64_t, seen, count / 64 + 1);
  bool fits = count >= 1 && (int64_t)count % size == 0;
  for (size_t i = 0; fits && i < count; ++i) {
    const int64_t member = groups->as.ints.items[i];
    fits = (size_t)member < count && !(seen[member / 64] >> member % 64 & 1);
    if (fits) seen[member / 64] |= UINT64_C(1) << member % 64;
  }
  return fits ? ls_ok()
              : ls_invalid_argument("%s: 'groups' must be groups of %lld with "
                                    "each of %zu replicas once",
                                    infer->op_name, (long long)size, count);
}

// Returns the number of replicas in a group.
static ls_status group_size(const ls_infer *infer, int64_t *out_size) {
  const ls_attr *size = ls_infer_attr(infer, LS_ATTR_ID_GROUP_SIZE);
  *out_size =
      size != NULL ? size->as.i : ls_infer_int(infer, LS_ATTR_ID_REPLICAS);
  return check_groups(infer, *out_size);
}

// Multiplies `*dim` by `count`, unless it is unknown.
static ls_status multiply(const ls_infer *infer, int64_t count, int64_t *dim) {
  if (*dim < 0 || !__builtin_mul_overflow(*dim, count, dim)) return ls_ok();
  return ls_invalid_argument("%s of %s: %lld of them are more than is possible",
                             infer->op_name, LS_OPERAND_TEXT(infer, 0),
                             (long long)count);
}

static ls_status add_rows(const ls_infer *infer, const ls_attr *rows,
                          int64_t *out_sum) {
  *out_sum = 0;
  for (size_t r = 0; r < rows->as.ints.count; ++r) {
    const int64_t count = rows->as.ints.items[r];
    if (__builtin_add_overflow(*out_sum, count, out_sum))
      return ls_invalid_argument("%s: %lld rows of replica %zu", infer->op_name,
                                 (long long)count, r);
  }
  return ls_ok();
}

ls_status infer_all_reduce(ls_infer *infer) {
  int64_t size = 0;
  LS_RETURN_IF_ERROR(group_size(infer, &size));
  return infer_number(infer);
}

// Infers an all-gather. Each replica's number of rows is known only when
// lowered; until then one replica's sizes, if known, count for all.
ls_status infer_all_gather(ls_infer *infer) {
  const ls_attr *rows = ls_infer_attr(infer, LS_ATTR_ID_ROWS);
  int32_t axis = 0;
  int64_t size = 0;
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  LS_RETURN_IF_ERROR(group_size(infer, &size));
  infer->out[0] = infer->in[0];
  if (infer->in[0].shape.rank < 0) return ls_ok();
  int64_t *dim = &infer->out[0].shape.dim[axis];
  return rows == NULL ? multiply(infer, size, dim) : add_rows(infer, rows, dim);
}

// Infers a reduce-scatter; a second operand gives the length of the part.
ls_status infer_reduce_scatter(ls_infer *infer) {
  int32_t axis = 0;
  int64_t replicas = 0;
  LS_RETURN_IF_ERROR(group_size(infer, &replicas));
  LS_RETURN_IF_ERROR(infer_all_reduce(infer));
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  if (infer->in[0].shape.rank < 0) return ls_ok();
  int64_t *dim = &infer->out[0].shape.dim[axis];
  if (infer->num_in == 2) {
    const ls_shape like = infer->in[1].shape;
    *dim = axis < like.rank ? like.dim[axis] : LS_UNKNOWN_DIM;
    return ls_ok();
  }
  if (*dim >= 0 && *dim % replicas != 0)
    return ls_invalid_argument(
        "reduce_scatter: axis %d of %s cannot be cut into %lld equal parts",
        axis, LS_OPERAND_TEXT(infer, 0), (long long)replicas);
  if (*dim >= 0) *dim /= replicas;
  return ls_ok();
}

// Infers a merge call. A result that differs between replicas has one output
// per replica; the types of these outputs have the same known sizes.
ls_status infer_merge_call(ls_infer *infer) {
  if (infer->spec->num_regions != 1)
    return ls_invalid_argument("merge needs one child graph, got %zu",
                               infer->spec->num_regions);
  const ls_graph *body = ls_graph_resolve(infer->spec->regions[0]);
  const size_t replicas = (size_t)ls_infer_int(infer, LS_ATTR_ID_REPLICAS);
  const size_t args = (size_t)ls_infer_int(infer, LS_ATTR_ID_NUM_ARGS);
  const size_t gathered = (size_t)ls_infer_int(infer, LS_ATTR_ID_NUM_GATHERED);
  if (args > infer->num_in || gathered > body->num_results ||
      infer->num_in != args + body->num_captures ||
      body->num_declared != args * replicas ||
      body->num_results < gathered * replicas)
    return ls_invalid_argument("merge of %zu replicas: %zu arguments and %zu "
                               "captures against %zu operands",
                               replicas, args, body->num_captures,
                               infer->num_in);
  const size_t uniform = body->num_results - gathered * replicas;
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, gathered + uniform));
  for (size_t i = 0; i < gathered + uniform; ++i) {
    const size_t at =
        i < gathered ? i * replicas : gathered * replicas + (i - gathered);
    ls_type type = ls_graph_type(body, body->results[at]);
    for (size_t r = 1; i < gathered && r < replicas; ++r) {
      const ls_type other = ls_graph_type(body, body->results[at + r]);
      if (other.dtype != type.dtype || other.shape.rank != type.shape.rank)
        return ls_invalid_argument(
            "merge: result %zu is %s on replica 0 and %s on replica %zu", i,
            LS_SHAPE_TEXT(type.dtype, type.shape),
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
  const int64_t split = ls_infer_int(infer, LS_ATTR_ID_SPLIT_AXIS);
  const int64_t concat = ls_infer_int(infer, LS_ATTR_ID_CONCAT_AXIS);
  int64_t parts = 0;
  LS_RETURN_IF_ERROR(group_size(infer, &parts));
  const int32_t rank = infer->in[0].shape.rank;
  infer->out[0] = infer->in[0];
  if (rank < 0) return ls_ok();
  if (split >= rank || concat >= rank)
    return ls_invalid_argument("all_to_all: split axis %lld and concat axis "
                               "%lld of %s: the axes are 0 to %d",
                               (long long)split, (long long)concat,
                               LS_OPERAND_TEXT(infer, 0), rank - 1);
  int64_t *dim = infer->out[0].shape.dim;
  if (dim[split] >= 0 && dim[split] % parts != 0)
    return ls_invalid_argument(
        "all_to_all: axis %lld of %s cannot be cut into %lld equal parts",
        (long long)split, LS_OPERAND_TEXT(infer, 0), (long long)parts);
  if (dim[split] >= 0) dim[split] /= parts;
  return multiply(infer, parts, &dim[concat]);
}

// Infers a permute: a replica receives a value of the type that it sends.
ls_status infer_permute(ls_infer *infer) {
  const ls_attr *sources = ls_infer_attr(infer, LS_ATTR_ID_SOURCES);
  const size_t count = sources->as.ints.count;
  if (count == 0)
    return ls_invalid_argument(
        "%s: 'sources' is empty; it has a number for each replica",
        infer->op_name);
  for (size_t i = 0; i < count; ++i)
    if (sources->as.ints.items[i] >= (int64_t)count)
      return ls_invalid_argument("%s: source %lld is not one of %zu replicas",
                                 infer->op_name,
                                 (long long)sources->as.ints.items[i], count);
  return infer_same(infer);
}

// ---- Replicated computations ------------------------------------------------
// Infers a replicated input: merges the known sizes of all replicas' values.
// The input of a variable's handle has no operands.
static ls_status infer_handle(ls_infer *infer) {
  ls_variable *variable = NULL;
  LS_RETURN_IF_ERROR(ls_infer_variable(infer, &variable));
  infer->out[0] = (ls_type){LS_DTYPE_RESOURCE, LS_SCALAR};
  return infer->num_in == 0
             ? ls_ok()
             : ls_invalid_argument(
                   "%s: the handle of variable '%s' has no operands, got %zu",
                   infer->op_name, ls_variable_name(variable), infer->num_in);
}

ls_status infer_replicated_input(ls_infer *infer) {
  if (ls_attr_find(infer->spec->attrs, infer->spec->num_attrs,
                   LS_ATTR_ID_VARIABLE) != NULL)
    return infer_handle(infer);
  if (infer->num_in == 0)
    return ls_invalid_argument(
        "%s: a value for each replica, or a variable, is needed",
        infer->op_name);
  ls_type type = infer->in[0];
  for (size_t r = 1; r < infer->num_in; ++r) {
    const ls_type other = infer->in[r];
    if (other.dtype != type.dtype ||
        (other.shape.rank >= 0 && type.shape.rank >= 0 &&
         other.shape.rank != type.shape.rank))
      return ls_invalid_argument(
          "%s: the value is %s on replica 0 and %s on replica %zu",
          infer->op_name, LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, r),
          r);
    if (other.shape.rank < 0) type.shape = other.shape;
    for (int32_t d = 0; d < type.shape.rank; ++d)
      if (other.shape.dim[d] != type.shape.dim[d])
        type.shape.dim[d] = LS_UNKNOWN_DIM;
  }
  infer->out[0] = type;
  return ls_ok();
}

// Finds the largest size of the operands along an axis; unknown if one is
// unknown.
static ls_status largest(const ls_infer *infer, int64_t axis, int64_t most,
                         int64_t *out_size) {
  int64_t size = 0;
  bool is_known = true;
  for (size_t r = 0; r < infer->num_in; ++r) {
    const int64_t own = infer->in[r].shape.dim[axis];
    is_known &= own != LS_UNKNOWN_DIM;
    if (own > size) size = own;
    if (most >= 0 && own > most)
      return ls_invalid_argument("%s: axis %lld of %s on replica %zu is longer "
                                 "than the maximum that was given, %lld",
                                 infer->op_name, (long long)axis,
                                 LS_OPERAND_TEXT(infer, r), r, (long long)most);
  }
  *out_size = is_known ? size : LS_UNKNOWN_DIM;
  return ls_ok();
}

static int64_t padded_size(int64_t size, int64_t most, bool power_of_two) {
  enum { LEAST = 2 };
  if (most >= 0) size = most;
  if (size == LS_UNKNOWN_DIM) return size;
  if (most >= 0 || !power_of_two) return size < LEAST ? LEAST : size;
  int64_t power = LEAST;
  while (power < size)
    power *= 2;
  return power;
}

static ls_status check_padded(const ls_infer *infer, const ls_attr *axes,
                              const ls_attr *maxima) {
  if (axes->as.ints.count != maxima->as.ints.count)
    return ls_invalid_argument("%s: %zu axes and %zu maxima", infer->op_name,
                               axes->as.ints.count, maxima->as.ints.count);
  for (size_t r = 0; r < infer->num_in; ++r) {
    const ls_type own = infer->in[r], first = infer->in[0];
    if (own.dtype != first.dtype || own.shape.rank < 0 ||
        own.shape.rank != first.shape.rank)
      return ls_invalid_argument("%s: the value is %s on replica 0 and %s on "
                                 "replica %zu: one rank is needed",
                                 infer->op_name, LS_OPERAND_TEXT(infer, 0),
                                 LS_OPERAND_TEXT(infer, r), r);
  }
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    if (axes->as.ints.items[i] >= infer->in[0].shape.rank)
      return ls_invalid_argument("%s: axis %lld of %s", infer->op_name,
                                 (long long)axes->as.ints.items[i],
                                 LS_OPERAND_TEXT(infer, 0));
  return ls_ok();
}

// Sets the output types: the padded values, then the real sizes for each axis.
ls_status infer_padded_input(ls_infer *infer) {
  const ls_attr *axes = ls_infer_attr(infer, LS_ATTR_ID_AXES);
  const ls_attr *maxima = ls_infer_attr(infer, LS_ATTR_ID_MAXIMA);
  const size_t replicas = infer->num_in, count = axes->as.ints.count;
  LS_RETURN_IF_ERROR(check_padded(infer, axes, maxima));
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, replicas * (1 + count)));
  for (size_t r = 0; r < replicas; ++r)
    infer->out[r] = infer->in[r];
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = axes->as.ints.items[i];
    const int64_t most = maxima->as.ints.items[i];
    int64_t size = 0;
    LS_RETURN_IF_ERROR(largest(infer, axis, most, &size));
    size = padded_size(size, most,
                       ls_infer_int(infer, LS_ATTR_ID_POWER_OF_TWO) != 0);
    for (size_t r = 0; r < replicas; ++r) {
      infer->out[r].shape.dim[axis] = size;
      infer->out[(1 + i) * replicas + r] = (ls_type){LS_DTYPE_I32, LS_SCALAR};
    }
  }
  return ls_ok();
}

// Infers the value without its padding: the real size of a padded axis is known
// only at run time.
ls_status infer_real_part(ls_infer *infer) {
  const ls_attr *axes = ls_infer_attr(infer, LS_ATTR_ID_AXES);
  if (axes->as.ints.count != infer->num_in - 1)
    return ls_invalid_argument("%s: %zu axes and %zu sizes", infer->op_name,
                               axes->as.ints.count, infer->num_in - 1);
  infer->out[0] = infer->in[0];
  for (size_t i = 0; i < axes->as.ints.count; ++i) {
    const int64_t axis = axes->as.ints.items[i];
    const ls_type size = infer->in[1 + i];
    if (size.dtype != LS_DTYPE_I32 || size.shape.rank != 0)
      return ls_invalid_argument("%s: a size is %s, and is to be i32[]",
                                 infer->op_name, LS_OPERAND_TEXT(infer, 1 + i));
    if (infer->in[0].shape.rank >= 0 && axis >= infer->in[0].shape.rank)
      return ls_invalid_argument("%s: axis %lld of %s", infer->op_name,
                                 (long long)axis, LS_OPERAND_TEXT(infer, 0));
    if (infer->in[0].shape.rank >= 0)
      infer->out[0].shape.dim[axis] = LS_UNKNOWN_DIM;
  }
  return ls_ok();
}

// Infers replicated outputs: a size that is unknown when built may differ by
// replica.
ls_status infer_replicated_output(ls_infer *infer) {
  const size_t count = (size_t)ls_infer_int(infer, LS_ATTR_ID_NUM_REPLICAS);
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, count));
  for (size_t r = 0; r < count; ++r)
    infer->out[r] = infer->in[0];
  return ls_ok();
}

ls_status infer_compilation_result(ls_infer *infer) {
  infer->out[0] = (ls_type){LS_DTYPE_STRING, LS_SCALAR};
  return ls_ok();
}
