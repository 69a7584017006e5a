// SPDX-License-Identifier: Apache-2.0
//
// Lowers ops without regions, one function each.
#include "lower/ops.h"

#include <float.h>
#include <math.h>

#include "base/memory/own.h"
#include "base/values/numbers.h"
#include "graph/gather/gather.h"

// ---- Constants --------------------------------------------------------------
// Folds arithmetic and comparisons of scalar constants while lowering, such as
// counts, factors, the ones with which gradients start, and tests for examples.
//
// The bits equal those of running the op: +, -, *, / of f32 computed in f64 and
// rounded once equal the f32 ops; f64 and integer ops are the same ops.

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

static bool is_comparison(uint16_t type) {
  return type >= LS_OP_EQUAL && type <= LS_OP_GREATER_EQUAL;
}

static bool fold_numbers(uint16_t type, double x, double y, double *out) {
  const struct {
    uint16_t type;
    double value;
  } results[] = {{LS_OP_ADD, x + y},
                 {LS_OP_SUB, x - y},
                 {LS_OP_MUL, x * y},
                 {LS_OP_DIV, x / y},
                 {LS_OP_NEG, -x},
                 {LS_OP_EQUAL, x == y},
                 {LS_OP_NOT_EQUAL, x != y},
                 {LS_OP_LESS, x < y},
                 {LS_OP_LESS_EQUAL, x <= y},
                 {LS_OP_GREATER, x > y},
                 {LS_OP_GREATER_EQUAL, x >= y}};
  for (size_t i = 0; i < LS_COUNT_OF(results); ++i) {
    if (results[i].type != type) continue;
    *out = results[i].value;
    return true;
  }
  return false;
}

// Returns true for values that are not folded: denormals, which running flushes
// to zero, and NaNs, whose bits conversions change.
static bool is_unusual(ls_dtype dtype, double value) {
  const double least = dtype == LS_DTYPE_F32 ? FLT_MIN : DBL_MIN;
  return isnan(value) || (value != 0 && fabs(value) < least);
}

static bool fits_double(const ls_array *array) {
  const int64_t limit = (int64_t)1 << 53;
  if (ls_array_dtype(array) != LS_DTYPE_I64) return true;
  const int64_t value = ls_array_i64(array, 0);
  return value >= -limit && value <= limit;
}

// Folds arithmetic on scalar constants to a constant with the bits of running
// the op; the ref is 0 if that is not possible.
static ls_status fold_constants(ls_lower_scope *scope, const ls_node *node,
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
  if (is_unusual(dtype, value) || is_unusual(dtype, other)) return ls_ok();
  if (is_comparison(node->type)) {
    (void)fold_numbers(node->type, value, other, &value);
    return ls_lower_scalar(scope, LS_DTYPE_BOOL, value, node, out_ref);
  }
  if (dtype == LS_DTYPE_BOOL) return ls_ok();
  if (node->type == LS_OP_CONVERT) {
    dtype = ls_node_attr(node, LS_ATTR_ID_DTYPE)->as.dtype;
    if (dtype != LS_DTYPE_F32 && dtype != LS_DTYPE_F64) return ls_ok();
  } else if (dtype == LS_DTYPE_I64 ||
             !fold_numbers(node->type, value, other, &value)) {
    return ls_ok();
  }
  if (is_unusual(dtype, value)) return ls_ok();
  return ls_lower_scalar(scope, dtype, value, node, out_ref);
}

// Returns true and the value if a ref is a known bool scalar.
static bool is_known(const ls_lower_scope *scope, uint64_t ref,
                     bool *out_value) {
  const ls_array *array = constant_scalar(scope, ref);
  if (array == NULL || ls_array_dtype(array) != LS_DTYPE_BOOL) return false;
  *out_value = ls_array_f64(array, 0) != 0;
  return true;
}

ls_status ls_lower_scalar(ls_lower_scope *scope, ls_dtype dtype, double value,
                          const ls_node *origin, uint64_t *out_ref) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(dtype, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, value);
  const ls_attr attr = LS_OWN_A(VALUE, array);
  return ls_lower_make(scope, LS_OP_CONSTANT, NULL, 0, &attr, 1, origin,
                       out_ref);
}

static ls_attr sizes_of(ls_shape shape, ls_size sizes[LS_MAX_RANK]) {
  for (int i = 0; i < shape.rank; ++i)
    sizes[i] = (ls_size){LS_SIZE_CONSTANT, shape.dim[i]};
  return LS_OWN_SZ(SIZES, sizes, (size_t)shape.rank);
}

// Gives a value this shape by an op with sizes, unless it has it.
static ls_status give_shape(ls_lower_scope *scope, uint16_t type, uint64_t ref,
                            ls_shape shape, const ls_node *origin,
                            uint64_t *out_ref) {
  *out_ref = ref;
  if (ls_shape_equal(ls_lowered_type(scope, ref).shape, shape)) return ls_ok();
  ls_size sizes[LS_MAX_RANK];
  const ls_attr attr = sizes_of(shape, sizes);
  return ls_lower_make(scope, type, &ref, 1, &attr, 1, origin, out_ref);
}

ls_status ls_lower_broadcast(ls_lower_scope *scope, uint64_t ref,
                             ls_shape shape, const ls_node *origin,
                             uint64_t *out_ref) {
  return give_shape(scope, LS_OP_BROADCAST, ref, shape, origin, out_ref);
}

ls_status ls_lower_reshape(ls_lower_scope *scope, uint64_t ref, ls_shape shape,
                           const ls_node *origin, uint64_t *out_ref) {
  return give_shape(scope, LS_OP_RESHAPE, ref, shape, origin, out_ref);
}

// ---- Copied ----------------------------------------------------------------
// Lists the node's lowered operands, in the target graph's arena.
static ls_status lowered_inputs(ls_lower_scope *scope, const ls_node *node,
                                uint64_t **out_inputs) {
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, uint64_t, inputs,
                           node->num_inputs);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    inputs[i] = ls_lowered(scope, node->inputs[i]);
  *out_inputs = inputs;
  return ls_ok();
}

// Replaces sizes that come from operands by numbers, and drops the operands.
static ls_status make_sized(ls_lower_scope *scope, ls_node *node,
                            const uint64_t *inputs, uint64_t *out_ref) {
  ls_type type;
  LS_RETURN_IF_ERROR(ls_lower_infer(scope, node, &type));
  const bool reshapes =
      node->type == LS_OP_RESHAPE || node->type == LS_OP_BROADCAST;
  if (reshapes &&
      ls_shape_equal(type.shape, ls_lowered_type(scope, inputs[0]).shape)) {
    *out_ref = inputs[0];
    return ls_mask_check_same(scope, inputs[0]);
  }
  ls_size sizes[LS_MAX_RANK];
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, ls_attr, attrs, node->num_attrs);
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    attrs[i] = node->attrs[i].id == LS_ATTR_ID_SIZES
                   ? sizes_of(type.shape, sizes)
                   : node->attrs[i];
  return ls_lower_make(scope, node->type, inputs,
                       ls_op_most(ls_node_info(node)), attrs, node->num_attrs,
                       node, out_ref);
}

static ls_status lower_sized(ls_lower_scope *scope, ls_node *node,
                             const uint64_t *inputs, uint64_t *out_ref) {
  LS_RETURN_IF_ERROR(ls_mask_begin_sizes(scope, node));
  const ls_status status = make_sized(scope, node, inputs, out_ref);
  ls_mask_end_sizes(scope);
  return status;
}

// Broadcasts operands of elementwise ops to the result's shape, except single
// elements, which become scalars.
static ls_status broadcast_operands(ls_lower_scope *scope, ls_node *node,
                                    uint64_t *inputs) {
  ls_type type;
  if (node->num_inputs < 2 || node->type == LS_OP_ADD_N) return ls_ok();
  LS_RETURN_IF_ERROR(ls_lower_infer(scope, node, &type));
  const bool has_many = ls_shape_num_elements(type.shape) != 1;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const ls_shape shape = ls_lowered_type(scope, inputs[i]).shape;
    if (has_many && ls_shape_num_elements(shape) == 1 &&
        ls_mask_of(scope, inputs[i]) == NULL)
      LS_RETURN_IF_ERROR(
          ls_lower_reshape(scope, inputs[i], LS_SCALAR, node, &inputs[i]));
    else if (shape.rank != 0)
      LS_RETURN_IF_ERROR(
          ls_lower_broadcast(scope, inputs[i], type.shape, node, &inputs[i]));
  }
  return ls_ok();
}

// Replaces a select with a known condition by one of its operands.
static ls_status fold_select(ls_lower_scope *scope, const ls_node *node,
                             const uint64_t *inputs, uint64_t *out_ref) {
  bool holds = false;
  ls_type type;
  if (node->type != LS_OP_SELECT || !is_known(scope, inputs[0], &holds))
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_lower_infer(scope, node, &type));
  return ls_lower_broadcast(scope, inputs[holds ? 1 : 2], type.shape, node,
                            out_ref);
}

// Appends the op as one of this type, with lowered inputs.
static ls_status append_as(ls_lower_scope *scope, uint16_t type, ls_node *node,
                           const uint64_t *inputs, ls_node **out_made) {
  ls_op_spec spec = ls_node_spec(node);
  spec.type = type;
  LS_RETURN_IF_ERROR(ls_lower_append(scope, &spec, inputs, node, out_made));
  for (unsigned i = 0; i < (*out_made)->num_outputs; ++i)
    LS_RETURN_IF_ERROR(
        ls_lower_map(scope, ls_ref(node->id, i), ls_ref((*out_made)->id, i)));
  return ls_ok();
}

ls_status lower_copy(ls_lower_scope *scope, ls_node *node) {
  uint64_t *inputs = NULL;
  LS_RETURN_IF_ERROR(lowered_inputs(scope, node, &inputs));
  const unsigned traits = ls_node_info(node)->traits;
  uint64_t ref = 0;
  if (traits & LS_OP_SIZED) {
    LS_RETURN_IF_ERROR(lower_sized(scope, node, inputs, &ref));
    return ls_lower_map(scope, ls_ref(node->id, 0), ref);
  }
  if (traits & LS_OP_ELEMENTWISE)
    LS_RETURN_IF_ERROR(fold_constants(scope, node, inputs, &ref));
  if (ref == 0) LS_RETURN_IF_ERROR(fold_select(scope, node, inputs, &ref));
  if (ref != 0) return ls_lower_map(scope, ls_ref(node->id, 0), ref);
  if (traits & LS_OP_ELEMENTWISE)
    LS_RETURN_IF_ERROR(broadcast_operands(scope, node, inputs));
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(append_as(scope, node->type, node, inputs, &made));
  if (node->type != LS_OP_BARRIER) return ls_ok();
  for (unsigned i = 0; i < made->num_outputs; ++i)
    // A stack passes through a barrier.
    LS_RETURN_IF_ERROR(ls_lower_stack_set(
        scope->all, scope->to, ls_ref(made->id, i),
        ls_lower_stack_of(scope->all, scope->to, inputs[i])));
  return ls_ok();
}

// Lowers a host call, whose result types are attributes.
ls_status lower_host(ls_lower_scope *scope, ls_node *node) {
  uint64_t *inputs = NULL;
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(lowered_inputs(scope, node, &inputs));
  return append_as(scope, LS_OP_HOST, node, inputs, &made);
}

// ---- Removed ---------------------------------------------------------------
ls_status lower_forward(ls_lower_scope *scope, ls_node *node) {
  return ls_lower_map(scope, ls_ref(node->id, 0),
                      ls_lowered(scope, node->inputs[0]));
}

// Maps the outputs to the callback's results. Gradients were taken before
// lowering.
ls_status lower_custom_gradient(ls_lower_scope *scope, ls_node *node) {
  const uint32_t first = (uint32_t)ls_node_int(node, LS_ATTR_ID_NUM_INPUTS);
  for (unsigned i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(
        ls_lower_map(scope, ls_ref(node->id, i),
                     ls_lowered(scope, node->inputs[first + i])));
  return ls_ok();
}

ls_status lower_nothing(ls_lower_scope *scope, ls_node *node) {
  (void)scope;
  (void)node;
  return ls_ok();
}

ls_status lower_placeholder(ls_lower_scope *scope, ls_node *node) {
  if (ls_lowered(scope, ls_ref(node->id, 0)) != 0) return ls_ok();  // A feed.
  return ls_invalid_argument(
      "placeholder '%s' %s is needed but was not fed",
      ls_node_name(scope->from, node),
      LS_SHAPE_TEXT(node->outputs[0].dtype, node->outputs[0].shape));
}

ls_status lower_dim_size(ls_lower_scope *scope, ls_node *node) {
  const ls_shape shape =
      ls_lowered_type(scope, ls_lowered(scope, node->inputs[0])).shape;
  const int64_t axis = ls_node_int(node, LS_ATTR_ID_AXIS);
  uint64_t ref = 0;
  if (axis < 0 || axis >= shape.rank)
    return ls_invalid_argument("dim_size: axis %lld of rank %d",
                               (long long)axis, shape.rank);
  const ls_mask *mask = ls_mask_of(scope, ls_lowered(scope, node->inputs[0]));
  LS_RETURN_IF_ERROR(mask != NULL && axis == 0
                         ? ls_mask_rows(scope, mask, node, &ref)
                         : ls_lower_scalar(scope, LS_DTYPE_I64,
                                           (double)shape.dim[axis], node,
                                           &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// ---- Expanded --------------------------------------------------------------
ls_status lower_expand_sum_to(ls_lower_scope *scope, ls_node *node) {
  uint64_t *inputs = NULL;
  ls_type want;
  LS_RETURN_IF_ERROR(lowered_inputs(scope, node, &inputs));
  LS_RETURN_IF_ERROR(ls_lower_infer(scope, node, &want));
  const ls_shape have = ls_lowered_type(scope, inputs[0]).shape;
  if (!ls_shape_is_known(want.shape))
    return ls_invalid_argument("sum_to %s: its sizes are not known",
                               LS_SHAPE_TEXT(want.dtype, want.shape));
  const int extra = have.rank - want.shape.rank;
  int64_t axes[LS_MAX_RANK];
  size_t count = 0;
  for (int i = 0; i < have.rank; ++i)
    if (i < extra || (have.dim[i] != want.shape.dim[i - extra]))
      axes[count++] = i;
  uint64_t ref = inputs[0];
  if (count != 0) {
    const ls_attr attrs[] = {LS_OWN_IS(AXES, axes, count),
                             LS_OWN_B(KEEP_DIMS, false)};
    LS_RETURN_IF_ERROR(
        ls_lower_make(scope, LS_OP_REDUCE_SUM, &ref, 1, attrs, 2, node, &ref));
  }
  LS_RETURN_IF_ERROR(ls_lower_reshape(scope, ref, want.shape, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

ls_status ls_lower_convert(ls_lower_scope *scope, uint64_t ref, ls_dtype dtype,
                           const ls_node *origin, uint64_t *out_ref) {
  *out_ref = ref;
  if (ls_lowered_type(scope, ref).dtype == dtype) return ls_ok();
  const ls_attr attr = LS_OWN_T(DTYPE, dtype);
  return ls_lower_make(scope, LS_OP_CONVERT, &ref, 1, &attr, 1, origin,
                       out_ref);
}

// Scatters into zeros; 16-bit floats are added in f32.
ls_status lower_expand_indexed_slices(ls_lower_scope *scope, ls_node *node) {
  uint64_t *inputs = NULL, ref = 0;
  ls_type type;
  LS_RETURN_IF_ERROR(lowered_inputs(scope, node, &inputs));
  LS_RETURN_IF_ERROR(ls_lower_infer(scope, node, &type));
  const ls_dtype wide = ls_wide_dtype(type.dtype);
  uint64_t operands[3] = {0, inputs[0]};
  LS_RETURN_IF_ERROR(ls_lower_scalar(scope, wide, 0, node, &operands[0]));
  LS_RETURN_IF_ERROR(
      ls_lower_broadcast(scope, operands[0], type.shape, node, &operands[0]));
  LS_RETURN_IF_ERROR(
      ls_lower_convert(scope, inputs[1], wide, node, &operands[2]));
  const ls_attr attrs[] = {LS_OWN_S(COMBINE, "add"), LS_OWN_I(AXIS, 0)};
  LS_RETURN_IF_ERROR(
      ls_lower_make(scope, LS_OP_SCATTER, operands, 3, attrs, 2, node, &ref));
  LS_RETURN_IF_ERROR(ls_lower_convert(scope, ref, type.dtype, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// Computes 1 / n, where n elements are combined by a sum from `before` to
// `after`.
static ls_status make_factor(ls_lower_scope *scope, ls_node *node,
                             uint64_t before, uint64_t after, ls_dtype wide,
                             uint64_t *out_ref) {
  const ls_shape from = ls_lowered_type(scope, before).shape;
  const int64_t all = ls_shape_num_elements(from);
  const int64_t left =
      ls_shape_num_elements(ls_lowered_type(scope, after).shape);
  const ls_mask *mask = ls_mask_of(scope, before);
  if (mask != NULL && ls_mask_of(scope, after) == NULL && left > 0)
    return ls_mask_one_over(scope, mask, all / left / from.dim[0], wide, node,
                            out_ref);
  const double count = left == 0 ? 1 : (double)all / (double)left;
  return ls_lower_scalar(scope, wide,
                         wide == LS_DTYPE_F64 ? 1.0 / count
                                              : (double)(1.0f / (float)count),
                         node, out_ref);
}

// Computes a mean: the sum, then one product with 1 / count. Sums and scales
// 16-bit floats in f32, because the sum may overflow even if the mean does not.
ls_status lower_expand_reduce_mean(ls_lower_scope *scope, ls_node *node) {
  uint64_t x = ls_lowered(scope, node->inputs[0]);
  const ls_type type = ls_lowered_type(scope, x);
  if (!ls_dtype_is_float(type.dtype))
    return ls_unimplemented("reduce_mean of %s: convert it to a float first",
                            ls_dtype_name(type.dtype));
  const ls_dtype wide =
      type.dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  uint64_t sum = 0, factor = 0, mean = 0;
  LS_RETURN_IF_ERROR(ls_lower_convert(scope, x, wide, node, &x));
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_REDUCE_SUM, &x, 1, node->attrs,
                                   node->num_attrs, node, &sum));
  LS_RETURN_IF_ERROR(make_factor(scope, node, x, sum, wide, &factor));
  const uint64_t operands[] = {sum, factor};
  LS_RETURN_IF_ERROR(
      ls_lower_make(scope, LS_OP_MUL, operands, 2, NULL, 0, node, &mean));
  LS_RETURN_IF_ERROR(ls_lower_convert(scope, mean, type.dtype, node, &mean));
  return ls_lower_map(scope, ls_ref(node->id, 0), mean);
}

// ---- Variables -------------------------------------------------------------
ls_status lower_read(ls_lower_scope *scope, ls_node *node) {
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_lower_read(scope, ls_node_variable(node), &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

ls_status lower_assign_scatter(ls_lower_scope *scope, ls_node *node) {
  ls_variable *variable = ls_node_variable(node);
  uint64_t operands[] = {0, ls_lowered(scope, node->inputs[0]),
                         ls_lowered(scope, node->inputs[1])};
  uint64_t value = 0;
  LS_RETURN_IF_ERROR(ls_lower_read(scope, variable, &operands[0]));
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_SCATTER, operands, 3,
                                   ls_node_attr(node, LS_ATTR_ID_COMBINE), 1,
                                   node, &value));
  LS_RETURN_IF_ERROR(ls_lower_write(scope, variable, value));
  return ls_lower_map(scope, ls_ref(node->id, 0), value);
}

ls_status lower_assign(ls_lower_scope *scope, ls_node *node) {
  ls_variable *variable = ls_node_variable(node);
  uint64_t value = ls_lowered(scope, node->inputs[0]);
  const ls_type type = ls_lowered_type(scope, value);
  if (!ls_shape_equal(type.shape, variable->type.shape))
    return ls_invalid_argument(
        "variable '%s' is %s, the value %s", variable->name,
        LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
        LS_SHAPE_TEXT(type.dtype, type.shape));
  if (node->type != LS_OP_ASSIGN) {
    uint64_t before = 0;
    LS_RETURN_IF_ERROR(ls_lower_read(scope, variable, &before));
    const uint64_t operands[] = {before, value};
    LS_RETURN_IF_ERROR(ls_lower_make(
        scope, node->type == LS_OP_ASSIGN_ADD ? LS_OP_ADD : LS_OP_SUB, operands,
        2, NULL, 0, node, &value));
  }
  LS_RETURN_IF_ERROR(ls_lower_write(scope, variable, value));
  return ls_lower_map(scope, ls_ref(node->id, 0), value);
}

// ---- Replicated computations ------------------------------------------------
// Replaces an op that only marks values of a replica by its operand.
ls_status lower_of_cluster(ls_lower_scope *scope, ls_node *node) {
  (void)scope;
  if (node->type == LS_OP_TPU_REPLICATED_INPUT)
    return ls_invalid_argument("it has values of %u replicas: only a "
                               "replicated computation can use it",
                               node->num_inputs);
  return ls_invalid_argument("%s belongs to no replicated computation",
                             ls_node_info(node)->name);
}

// Returns the compilation report. It is empty, because a program that returns
// it has compiled.
ls_status lower_compilation_result(ls_lower_scope *scope, ls_node *node) {
  const ls_attr *told = ls_node_attr_named(node, LS_MARK_TOLD);
  const bool is_report = told != NULL && told->kind == LS_ATTR_ARRAY &&
                         ls_array_dtype(told->as.array) == LS_DTYPE_STRING &&
                         ls_array_shape(told->as.array).rank == 0;
  LS_OWN(ls_array, array) = is_report ? ls_array_retain(told->as.array) : NULL;
  uint64_t ref = 0;
  if (array == NULL)
    LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_STRING, LS_SCALAR, &array));
  const ls_attr attr = LS_OWN_A(VALUE, array);
  LS_RETURN_IF_ERROR(
      ls_lower_make(scope, LS_OP_CONSTANT, NULL, 0, &attr, 1, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}
