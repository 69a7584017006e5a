// SPDX-License-Identifier: Apache-2.0
//
// Maximum shapes of a replicated computation: finds the inputs to pad, pads
// them, and gives the computation their real sizes.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "graph/make/make.h"
#include "tpu/replicate/replicate.h"

ls_nest ls_maximum_shape(ls_shape shape) {
  if (shape.rank < 0 || shape.rank > LS_MAX_RANK)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "a maximum shape of rank %d: 0 to %d are possible",
                   shape.rank, LS_MAX_RANK);
  const ls_nest made = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(shape.rank));
  int64_t *sizes = ls_nest_data(made, 0);
  for (int32_t i = 0; i < shape.rank && sizes != NULL; ++i)
    sizes[i] = shape.dim[i];
  return made;
}

// ---- Shapes of a run's inputs ---------------------------------------------
// Returns true if a leaf becomes a tensor, with its shape; rank 0 has none.
static bool has_shape(ls_nest leaf, ls_shape *out_shape) {
  *out_shape = LS_SCALAR;
  if ((leaf.kind == LS_KIND_ARRAY || leaf.kind == LS_KIND_VARIABLE) &&
      leaf.as.ref == NULL)
    return false;
  switch (leaf.kind) {
  case LS_KIND_TENSOR:
    *out_shape = ls_tensor_shape(leaf.as.tensor);
    return true;
  case LS_KIND_ARRAY:
    *out_shape = ls_array_shape(leaf.as.ref);
    return true;
  case LS_KIND_VARIABLE:
    *out_shape = ls_variable_shape(leaf.as.ref);
    return true;
  default:
    return leaf.kind == LS_KIND_NONE || leaf.kind == LS_KIND_SCALAR;
  }
}

static ls_nest maximum_of(ls_nest leaf, void *user) {
  ls_shape shape;
  (void)user;
  if (!has_shape(leaf, &shape)) return ls_none();
  if (shape.rank < 0)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "input %s has no known rank: inputs of a run with a dynamic "
                   "batch size need one",
                   LS_NEST_TEXT(leaf));
  for (int32_t i = 0; i < shape.rank; ++i)
    shape.dim[i] = LS_UNKNOWN_DIM;
  return ls_maximum_shape(shape);
}

ls_status ls_maximum_shapes_of(ls_nest inputs, ls_nest *out_maxima) {
  return ls_take_nest(ls_nest_map(ls_nest_item(inputs, 0), maximum_of, NULL),
                      out_maxima);
}

static ls_status padding_check_static(ls_nest leaf, ls_nest first, size_t i,
                                      size_t replica) {
  ls_shape own, wanted;
  if (!has_shape(leaf, &own) || !has_shape(first, &wanted)) return ls_ok();
  if (!ls_shape_is_known(own))
    return ls_invalid_argument(
        "input %zu of replica %zu, %s, has unknown sizes: a run whose batch "
        "size is not dynamic needs known ones",
        i, replica, LS_NEST_TEXT(leaf));
  if (ls_shape_equal(own, wanted)) return ls_ok();
  return ls_invalid_argument(
      "input %zu of replica %zu, %s, has another shape than replica 0's: a run "
      "whose batch size is not dynamic needs equal ones",
      i, replica, LS_NEST_TEXT(leaf));
}

ls_status ls_check_static_shapes(ls_nest inputs) {
  const ls_nest first = ls_nest_item(inputs, 0);
  const size_t count = ls_nest_num_leaves(first);
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_nest, leaves,
                         2 * count + 1);
  ls_nest_flatten(first, leaves, count);
  for (size_t r = 0; r < ls_nest_count(inputs); ++r) {
    const ls_nest own = ls_nest_item(inputs, r);
    // Skips a replica with another structure, which a later check refuses.
    if (ls_nest_num_leaves(own) != count) continue;
    ls_nest_flatten(own, leaves + count, count);
    for (size_t i = 0; i < count; ++i)
      LS_RETURN_IF_ERROR(
          padding_check_static(leaves[count + i], leaves[i], i, r));
  }
  return ls_ok();
}

// ---- Maximum shapes -------------------------------------------------------
static ls_status check_structure(const ls_replication *r) {
  const ls_nest maxima = r->options->maximum_shapes;
  LS_RETURN_IF_ERROR(ls_nest_status(maxima));
  if (r->options->infeed != NULL)
    return ls_invalid_argument(
        "Dynamic input shapes are not supported with infeed queues: the "
        "computation has maximum_shapes and an infeed");
  if (r->first.kind == LS_KIND_NONE)
    return ls_invalid_argument(
        "maximum_shapes for a computation without inputs");
  if (!ls_replicate_is_sequence(maxima) ||
      ls_nest_count(maxima) != ls_nest_count(r->first))
    return ls_invalid_argument("maximum_shapes are a list of one for each of "
                               "the %zu inputs of a replica, got %s",
                               ls_nest_count(r->first), LS_NEST_TEXT(maxima));
  for (size_t i = 0; i < ls_nest_count(maxima); ++i)
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_nest_same_structure(ls_nest_item(r->first, i),
                                                  ls_nest_item(maxima, i)),
                           "in the maximum shape of input %zu, which has "
                           "another structure than the input",
                           i));
  return ls_ok();
}

// Reads the maximum shape of a leaf; rank -1 means that it is not padded.
static ls_status read_shape(ls_nest leaf, size_t i, ls_shape *out_shape) {
  *out_shape = (ls_shape){.rank = -1};
  if (leaf.kind == LS_KIND_NONE) return ls_ok();
  const ls_array *array = ls_nest_as_array(leaf);
  if (array == NULL || ls_array_dtype(array) != LS_DTYPE_I64 ||
      ls_array_shape(array).rank != 1 ||
      ls_array_shape(array).dim[0] > LS_MAX_RANK)
    return ls_invalid_argument("the maximum shape of input %zu is %s: must be "
                               "none or an ls_maximum_shape",
                               i, LS_NEST_TEXT(leaf));
  out_shape->rank = (int32_t)ls_array_shape(array).dim[0];
  for (int32_t k = 0; k < out_shape->rank; ++k) {
    const int64_t size = ls_array_i64(array, k);
    if (size < LS_UNKNOWN_DIM || size > LS_MAX_SIZE)
      return ls_invalid_argument(
          "the maximum shape of input %zu has size %lld in dimension %d", i,
          (long long)size, k);
    out_shape->dim[k] = size;
  }
  return ls_ok();
}

static ls_status check_fits(const ls_replication *r, size_t i,
                            ls_shape maximum) {
  for (size_t replica = 0; replica < r->replicas; ++replica) {
    const ls_tensor value = r->values[i * r->replicas + replica];
    const ls_shape own = ls_tensor_shape(value);
    bool fits = own.rank == maximum.rank;
    for (int32_t k = 0; k < maximum.rank && fits; ++k)
      fits = maximum.dim[k] == LS_UNKNOWN_DIM || own.dim[k] <= maximum.dim[k];
    if (fits) continue;
    return ls_invalid_argument(
        "input %zu, '%s', is %s on replica %zu, which does not fit its maximum "
        "shape, %s",
        i, ls_tensor_name(value), LS_SHAPE_TEXT(ls_tensor_dtype(value), own),
        replica, LS_SHAPE_TEXT(ls_tensor_dtype(value), maximum));
  }
  return ls_ok();
}

// ---- Padding --------------------------------------------------------------
// Finds the dimensions to pad: those with unknown or different sizes on the
// replicas. With one replica there are none.
static void find_axes(const ls_replication *r, size_t i, ls_padded *out) {
  const ls_tensor *values = &r->values[i * r->replicas];
  const ls_shape first = ls_tensor_shape(values[0]);
  for (int32_t k = 0; k < first.rank; ++k) {
    bool differs = false;
    for (size_t replica = 1; replica < r->replicas && !differs; ++replica) {
      const int64_t own = ls_tensor_shape(values[replica]).dim[k];
      differs = own == LS_UNKNOWN_DIM || own != first.dim[k];
    }
    if (differs) out->axes[out->count++] = k;
  }
}

// Finds the padded inputs, and counts the inputs that hold real sizes.
static ls_status find_padding(ls_replication *r, ls_shape *maxima) {
  LS_ARENA_ARRAY_OR_RETURN(&r->memory, ls_nest, leaves, r->num_leaves + 1);
  ls_nest_flatten(r->options->maximum_shapes, leaves, r->num_leaves);
  for (size_t i = 0; i < r->num_leaves; ++i) {
    if (leaves[i].kind == LS_KIND_NONE) continue;
    LS_RETURN_IF_ERROR(read_shape(leaves[i], i, &maxima[i]));
    if (r->values[i * r->replicas].ref == 0) continue;
    LS_RETURN_IF_ERROR(check_fits(r, i, maxima[i]));
    find_axes(r, i, &r->padding[i]);
    r->padding[i].first_size = r->num_inputs;
    r->num_inputs += r->padding[i].count;
  }
  return ls_ok();
}

static ls_status pad_input(ls_replication *r, size_t i, ls_shape maximum) {
  const ls_padded *padding = &r->padding[i];
  ls_tensor *values = &r->values[i * r->replicas];
  int64_t maxima[LS_MAX_RANK];
  char name[40];
  for (size_t k = 0; k < padding->count; ++k)
    maxima[k] = maximum.dim[padding->axes[k]];
  const ls_attr attrs[] = {
      LS_OWN_IS(AXES, padding->axes, padding->count),
      LS_OWN_IS(MAXIMA, maxima, padding->count),
      LS_OWN_B(POWER_OF_TWO, r->options->padding == LS_PADDING_POWER_OF_TWO),
      LS_OWN_B(DYNAMIC_PADDER, r->options->xla.dynamic_padder != LS_FLAG_OFF)};
  snprintf(name, sizeof(name), "padded_input%zu", i);
  const ls_op op = ls_make_op(LS_OP_TPU_PADDED_INPUT, name, values, r->replicas,
                              attrs, LS_COUNT_OF(attrs));
  if (ls_op_is_failed(op)) return ls_graph_error(r->graph);
  if (ls_pads_unseen(ls_graph_node(op.graph, op.id))) {
    // The padded value is never materialized: nothing can feed or fetch it.
    ls_op_prevent_feeding(op);
    ls_op_prevent_fetching(op);
  }
  for (size_t replica = 0; replica < r->replicas; ++replica)
    values[replica] = ls_op_output(op, (unsigned)replica);
  ls_tensor *sizes = &r->values[padding->first_size * r->replicas];
  for (size_t k = 0; k < padding->count * r->replicas; ++k)
    sizes[k] = ls_op_output(op, (unsigned)(r->replicas + k));
  return ls_ok();
}

ls_status ls_replication_pad(ls_replication *r) {
  if (r->options->maximum_shapes.kind == LS_KIND_NONE) return ls_ok();
  LS_RETURN_IF_ERROR(check_structure(r));
  ls_shape *maxima =
      ls_arena_new_array(&r->memory, ls_shape, r->num_leaves + 1);
  r->padding = ls_arena_new_array(&r->memory, ls_padded, r->num_leaves + 1);
  if (maxima == NULL || r->padding == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(find_padding(r, maxima));
  if (r->num_inputs == r->num_leaves) return ls_ok();
  // Adds the inputs that hold real sizes to the table of values.
  LS_ARENA_ARRAY_OR_RETURN(&r->memory, ls_tensor, values,
                           r->num_inputs * r->replicas + 1);
  memcpy(values, r->values, r->num_leaves * r->replicas * sizeof(*values));
  r->values = values;
  for (size_t i = 0; i < r->num_leaves; ++i)
    if (r->padding[i].count > 0) LS_RETURN_IF_ERROR(pad_input(r, i, maxima[i]));
  return ls_ok();
}

ls_status ls_replication_padding_map(ls_replication *r, int64_t **out_numbers,
                                     size_t *out_count) {
  *out_count = 0;
  *out_numbers = NULL;
  if (r->num_inputs == r->num_leaves) return ls_ok();
  LS_ARENA_ARRAY_OR_RETURN(&r->memory, int64_t, numbers,
                           3 * (r->num_inputs - r->num_leaves));
  for (size_t i = 0; i < r->num_leaves; ++i)
    for (size_t k = 0; k < r->padding[i].count; ++k) {
      numbers[(*out_count)++] = (int64_t)i;
      numbers[(*out_count)++] = r->padding[i].axes[k];
      numbers[(*out_count)++] = (int64_t)(r->padding[i].first_size + k);
    }
  *out_numbers = numbers;
  return ls_ok();
}

// ---- Inside the computation -----------------------------------------------
ls_status ls_replication_unpad(const ls_replication *r, ls_tensor *values) {
  if (r->options->xla.dynamic_padder == LS_FLAG_OFF) return ls_ok();
  for (size_t i = 0; r->padding != NULL && i < r->num_leaves; ++i) {
    const ls_padded *padding = &r->padding[i];
    if (padding->count == 0) continue;
    ls_tensor inputs[LS_MAX_RANK + 1] = {values[i]};
    memcpy(inputs + 1, &values[padding->first_size],
           padding->count * sizeof(*inputs));
    const ls_attr attr = LS_OWN_IS(AXES, padding->axes, padding->count);
    values[i] =
        ls_make(LS_OP_TPU_REAL_PART, inputs, 1 + padding->count, &attr, 1);
    if (ls_tensor_is_failed(values[i])) return ls_graph_error(r->graph);
  }
  return ls_ok();
}
