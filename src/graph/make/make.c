// SPDX-License-Identifier: Apache-2.0
//
// Op makers: sources, structure and elementwise ops.
#include "graph/make/make.h"

#include "base/values/array_internal.h"
#include "graph/region.h"

ls_op ls_make_op(uint16_t type, const char *name, const ls_tensor *inputs,
                 size_t num_inputs, const ls_attr *attrs, size_t num_attrs) {
  return ls_op_add(&(ls_op_spec){.type = type,
                                 .name = name,
                                 .inputs = inputs,
                                 .num_inputs = num_inputs,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs});
}

ls_tensor ls_make(uint16_t type, const ls_tensor *inputs, size_t num_inputs,
                  const ls_attr *attrs, size_t num_attrs) {
  return ls_op_output(
      ls_make_op(type, NULL, inputs, num_inputs, attrs, num_attrs), 0);
}

int ls_make_axis(ls_tensor x, int axis) {
  const int32_t rank = ls_tensor_shape(x).rank;
  if (rank == LS_UNKNOWN_RANK) return axis;
  return axis < 0 && axis + rank >= 0 ? axis + rank : axis;
}

// ---- Sources ---------------------------------------------------------------
static ls_tensor constant_of(ls_status status, ls_array *array) {
  if (!ls_status_is_ok(status)) return ls_make_failed("constant", status);
  const ls_attr attr = LS_OWN_A(VALUE, array);
  const ls_tensor made = ls_make(LS_OP_CONSTANT, NULL, 0, &attr, 1);
  ls_array_release(array);
  return made;
}

ls_tensor ls_make_constant_copy(const ls_array *array) {
  ls_array *copy = NULL;
  const ls_status status =
      ls_array_create_copy(ls_array_dtype(array), ls_array_shape(array),
                           ls_array_data(array), &copy);
  return constant_of(status, copy);
}

// Constants up to this size are copied, so that the caller may change the
// array; larger arrays are shared.
enum { COPIED_BYTES = 64 };

ls_tensor ls_constant(ls_array *array) {
  if (array == NULL)
    return ls_make_failed("constant", ls_invalid_argument("the array is NULL"));
  if (ls_array_is_absent(array))
    return ls_make_failed(
        "constant",
        ls_failed_precondition(
            "the array, %s, belongs to a replica on another rank, which alone "
            "has its value: with ranks, replicas must run a traced function",
            LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array))));
  if (ls_array_size(array) <= COPIED_BYTES) return ls_make_constant_copy(array);
  const ls_attr attr = LS_OWN_A(VALUE, array);
  return ls_make(LS_OP_CONSTANT, NULL, 0, &attr, 1);
}

ls_tensor ls_scalar(ls_dtype dtype, double value) {
  ls_array *array = NULL;
  const ls_status status = ls_array_create(dtype, LS_SCALAR, &array);
  if (ls_status_is_ok(status)) ls_array_set_f64(array, 0, value);
  return constant_of(status, array);
}

ls_tensor ls_scalar_i64(ls_dtype dtype, int64_t value) {
  ls_array *array = NULL;
  const ls_status status = ls_array_create(dtype, LS_SCALAR, &array);
  if (ls_status_is_ok(status)) ls_array_set_i64(array, 0, value);
  return constant_of(status, array);
}

ls_tensor ls_fill(ls_dtype dtype, ls_shape shape, double value) {
  return ls_broadcast(ls_scalar(dtype, value), shape);
}

ls_tensor ls_placeholder(ls_dtype dtype, ls_shape shape, const char *name) {
  ls_graph *graph = ls_graph_current();
  if (graph != NULL && graph->kind == LS_GRAPH_EAGER)
    return ls_make_failed(
        "placeholder",
        ls_failed_precondition("a placeholder needs a build graph to be fed "
                               "in; open one with LS_GRAPH_SCOPE"));
  const ls_attr attrs[] = {LS_OWN_T(DTYPE, dtype), LS_OWN_SH(SHAPE, shape)};
  return ls_op_output(ls_make_op(LS_OP_PLACEHOLDER, name, NULL, 0, attrs, 2),
                      0);
}

ls_attr ls_make_sizes(ls_shape shape, int32_t like,
                      ls_size items[LS_MAX_RANK]) {
  for (int i = 0; i < shape.rank && i < LS_MAX_RANK; ++i)
    items[i] = shape.dim[i] >= 0 || like == LS_SIZE_CONSTANT
                   ? (ls_size){LS_SIZE_CONSTANT, shape.dim[i]}
                   : (ls_size){like, i};
  return LS_OWN_SZ(SIZES, items, (size_t)shape.rank);
}

ls_tensor ls_make_unknown_rank(const char *op_name, ls_tensor x) {
  if (ls_tensor_is_failed(x)) return ls_identity(x);
  return ls_make_failed(
      op_name, ls_unimplemented("the rank of '%s' is not known while building",
                                ls_tensor_name(x)));
}

// Makes an iota of this shape, whose unknown sizes are those of `like` (NULL:
// none).
static ls_tensor make_iota(ls_dtype dtype, ls_shape shape,
                           const ls_tensor *like, int axis) {
  ls_size sizes[LS_MAX_RANK];
  const ls_attr attrs[] = {
      LS_OWN_T(DTYPE, dtype),
      ls_make_sizes(shape, like != NULL ? 0 : LS_SIZE_CONSTANT, sizes),
      LS_OWN_I(AXIS, axis < 0 ? axis + shape.rank : axis)};
  return ls_make(LS_OP_IOTA, like, like != NULL, attrs, LS_COUNT_OF(attrs));
}

ls_tensor ls_iota(ls_dtype dtype, ls_shape shape, int axis) {
  return make_iota(dtype, shape, NULL, axis);
}

ls_tensor ls_iota_like(ls_dtype dtype, ls_tensor like, int axis) {
  const ls_shape shape = ls_tensor_shape(like);
  if (ls_tensor_is_failed(like) || shape.rank == LS_UNKNOWN_RANK)
    return ls_make_unknown_rank("iota", like);
  return make_iota(dtype, shape, ls_shape_is_known(shape) ? NULL : &like, axis);
}

enum { MAX_RANDOM_ATTRS = 9 };

// Combines an op's seed with the seed of its whole graph, which regions and
// replicas share. The same formula combines an op's and a function's seed at
// run time.
static int64_t seed_of(const ls_random_options *options, ls_graph *graph) {
  const uint64_t whole =
      graph != NULL ? (uint64_t)ls_graph_whole(graph)->seed : 0;
  return (int64_t)((uint64_t)options->seed +
                   whole * UINT64_C(0x9E3779B97F4A7C15));
}

// Lists the attributes of a random op.
static size_t random_attrs(ls_dtype dtype, ls_attr sizes, const ls_attr *own,
                           size_t num_own, const ls_random_options *options,
                           ls_attr attrs[MAX_RANDOM_ATTRS]) {
  ls_graph *graph = ls_graph_current();
  int64_t stream = options->stream.value;
  // Streams number the random ops of the function and its regions.
  if (!options->stream.set)
    stream = graph == NULL ? 0 : ls_graph_whole(graph)->num_random++;
  size_t count = 0;
  attrs[count++] = LS_OWN_T(DTYPE, dtype);
  attrs[count++] = sizes;
  for (size_t i = 0; i < num_own; ++i)
    attrs[count++] = own[i];
  attrs[count++] = LS_OWN_I(SEED, seed_of(options, graph));
  attrs[count++] = LS_OWN_I(STREAM, stream);
  attrs[count++] = LS_OWN_B(FIXED, options->fixed);
  return count;
}

// Draws numbers by example ids. Sizes may be dimensions of `like` (NULL: none),
// the operand after the ids.
static ls_tensor random_by_example(uint16_t type, ls_dtype dtype, ls_attr sizes,
                                   const ls_tensor *like, const ls_attr *own,
                                   size_t num_own,
                                   const ls_random_options *options) {
  const char *distribution = type == LS_OP_RANDOM_UNIFORM  ? "uniform"
                             : type == LS_OP_RANDOM_NORMAL ? "normal"
                             : type == LS_OP_RANDOM_TRUNCATED_NORMAL
                                 ? "truncated_normal"
                                 : NULL;
  const char *name = ls_op_table[type].name;
  if (distribution == NULL)
    return ls_make_failed(
        name, ls_unimplemented("%s by example ids: only floats are", name));
  ls_size items[LS_MAX_RANK];
  for (size_t i = 0; i < sizes.as.sizes.count && i < LS_MAX_RANK; ++i) {
    items[i] = sizes.as.sizes.items[i];
    if (items[i].operand != LS_SIZE_CONSTANT) items[i].operand = 1;
  }
  sizes.as.sizes.items = items;
  const ls_tensor inputs[] = {ls_convert(options->example_ids, LS_DTYPE_I64),
                              like != NULL ? *like : ls_failed_tensor()};
  ls_attr attrs[MAX_RANDOM_ATTRS];
  size_t count = random_attrs(dtype, sizes, own, num_own, options, attrs);
  attrs[count++] = LS_OWN_S(DISTRIBUTION, distribution);
  // Equal ids give equal numbers on all replicas.
  attrs[count++] = LS_OWN_B(SAME_ON_ALL_REPLICAS, true);
  return ls_make(LS_OP_RANDOM_BY_EXAMPLE, inputs, like != NULL ? 2 : 1, attrs,
                 count);
}

// Returns the id + 1 of the replica for which an op of a build graph is made; 0
// elsewhere, where the engine knows the replica.
static int32_t replica_of_op(void) {
  const ls_graph *graph = ls_graph_current();
  while (graph != NULL && graph->kind == LS_GRAPH_REGION && !graph->is_replica)
    graph = graph->parent;
  return graph != NULL && graph->kind == LS_GRAPH_BUILD ? ls_context_replica()
                                                        : 0;
}

// Makes a random op. Sizes may be dimensions of `like` (NULL: none).
static ls_tensor random_op(uint16_t type, ls_dtype dtype, ls_attr sizes,
                           const ls_tensor *like, const ls_attr *own,
                           size_t num_own, const ls_random_options *options) {
  static const ls_random_options defaults;
  if (options == NULL) options = &defaults;
  if (options->example_ids.ref != 0)
    return random_by_example(type, dtype, sizes, like, own, num_own, options);
  ls_attr attrs[MAX_RANDOM_ATTRS];
  size_t count = random_attrs(dtype, sizes, own, num_own, options, attrs);
  attrs[count++] =
      LS_OWN_B(SAME_ON_ALL_REPLICAS, options->same_on_all_replicas);
  const int32_t replica = replica_of_op();
  if (replica > 0 && !options->same_on_all_replicas)
    attrs[count++] = LS_OWN_I(REPLICA, replica);
  return ls_make(type, like, like != NULL, attrs, count);
}

ls_tensor ls_make_random(uint16_t type, ls_dtype dtype, ls_shape shape,
                         const ls_attr *own, size_t num_own,
                         const ls_random_options *options) {
  ls_size sizes[LS_MAX_RANK];
  return random_op(type, dtype, ls_make_sizes(shape, LS_SIZE_CONSTANT, sizes),
                   NULL, own, num_own, options);
}

// Makes a random op of the shape of `like`, which may be unknown.
static ls_tensor random_like(uint16_t type, ls_dtype dtype, ls_tensor like,
                             const ls_attr *own, size_t num_own,
                             const ls_random_options *options) {
  const ls_shape shape = ls_tensor_shape(like);
  if (ls_tensor_is_failed(like) || shape.rank == LS_UNKNOWN_RANK)
    return ls_make_unknown_rank(ls_op_table[type].name, like);
  if (ls_shape_is_known(shape))
    return ls_make_random(type, dtype, shape, own, num_own, options);
  ls_size sizes[LS_MAX_RANK];
  return random_op(type, dtype, ls_make_sizes(shape, 0, sizes), &like, own,
                   num_own, options);
}

ls_tensor ls_random_uniform(ls_dtype dtype, ls_shape shape, double low,
                            double high, const ls_random_options *options) {
  const ls_attr own[] = {LS_OWN_F(LOW, low), LS_OWN_F(HIGH, high)};
  return ls_make_random(LS_OP_RANDOM_UNIFORM, dtype, shape, own, 2, options);
}

ls_tensor ls_random_normal(ls_dtype dtype, ls_shape shape, double mean,
                           double deviation, const ls_random_options *options) {
  const ls_attr own[] = {LS_OWN_F(MEAN, mean), LS_OWN_F(DEVIATION, deviation)};
  return ls_make_random(LS_OP_RANDOM_NORMAL, dtype, shape, own, 2, options);
}

ls_tensor ls_random_uniform_like(ls_dtype dtype, ls_tensor like, double low,
                                 double high,
                                 const ls_random_options *options) {
  const ls_attr own[] = {LS_OWN_F(LOW, low), LS_OWN_F(HIGH, high)};
  return random_like(LS_OP_RANDOM_UNIFORM, dtype, like, own, 2, options);
}

ls_tensor ls_random_normal_like(ls_dtype dtype, ls_tensor like, double mean,
                                double deviation,
                                const ls_random_options *options) {
  const ls_attr own[] = {LS_OWN_F(MEAN, mean), LS_OWN_F(DEVIATION, deviation)};
  return random_like(LS_OP_RANDOM_NORMAL, dtype, like, own, 2, options);
}

// ---- Structure -------------------------------------------------------------
ls_tensor ls_identity(ls_tensor x) {
  return ls_make(LS_OP_IDENTITY, &x, 1, NULL, 0);
}

ls_tensor ls_identity_named(ls_tensor x, const char *name) {
  return ls_op_output(ls_make_op(LS_OP_IDENTITY, name, &x, 1, NULL, 0), 0);
}

ls_tensor ls_stop_gradient(ls_tensor x) {
  return ls_make(LS_OP_STOP_GRADIENT, &x, 1, NULL, 0);
}

ls_op ls_group(const ls_op *ops, size_t count, const char *name) {
  return ls_op_add(&(ls_op_spec){.type = LS_OP_NO_OP,
                                 .name = name != NULL ? name : "group_deps",
                                 .control = ops,
                                 .num_control = count});
}

ls_tensor ls_dim_size(ls_tensor x, int axis) {
  const ls_attr attr = LS_OWN_I(AXIS, ls_make_axis(x, axis));
  return ls_make(LS_OP_DIM_SIZE, &x, 1, &attr, 1);
}

// ---- Elementwise -----------------------------------------------------------
LS_MAKE_UNARY(ls_neg, NEG)
LS_MAKE_UNARY(ls_abs, ABS)
LS_MAKE_UNARY(ls_sign, SIGN)
LS_MAKE_UNARY(ls_exp, EXP)
LS_MAKE_UNARY(ls_log, LOG)
LS_MAKE_UNARY(ls_sqrt, SQRT)
LS_MAKE_UNARY(ls_rsqrt, RSQRT)
LS_MAKE_UNARY(ls_tanh, TANH)
LS_MAKE_UNARY(ls_sigmoid, SIGMOID)
LS_MAKE_UNARY(ls_erf, ERF)
LS_MAKE_UNARY(ls_relu, RELU)
LS_MAKE_UNARY(ls_not, NOT)
LS_MAKE_UNARY(ls_softmax, SOFTMAX)
LS_MAKE_UNARY(ls_log_softmax, LOG_SOFTMAX)

LS_MAKE_BINARY(ls_add, ADD)
LS_MAKE_BINARY(ls_sub, SUB)
LS_MAKE_BINARY(ls_mul, MUL)
LS_MAKE_BINARY(ls_div, DIV)
LS_MAKE_BINARY(ls_maximum, MAXIMUM)
LS_MAKE_BINARY(ls_minimum, MINIMUM)
LS_MAKE_BINARY(ls_pow, POW)
LS_MAKE_BINARY(ls_and, AND)
LS_MAKE_BINARY(ls_or, OR)
LS_MAKE_BINARY(ls_equal, EQUAL)
LS_MAKE_BINARY(ls_not_equal, NOT_EQUAL)
LS_MAKE_BINARY(ls_less, LESS)
LS_MAKE_BINARY(ls_less_equal, LESS_EQUAL)
LS_MAKE_BINARY(ls_greater, GREATER)
LS_MAKE_BINARY(ls_greater_equal, GREATER_EQUAL)
LS_MAKE_BINARY(ls_relu_grad, RELU_GRAD)

ls_tensor ls_square(ls_tensor x) { return ls_mul(x, x); }

ls_tensor ls_convert(ls_tensor x, ls_dtype dtype) {
  if (ls_tensor_dtype(x) == dtype) return x;
  const ls_attr attr = LS_OWN_T(DTYPE, dtype);
  return ls_make(LS_OP_CONVERT, &x, 1, &attr, 1);
}

ls_tensor ls_select(ls_tensor condition, ls_tensor y, ls_tensor z) {
  return ls_make(LS_OP_SELECT, (const ls_tensor[]){condition, y, z}, 3, NULL,
                 0);
}

ls_tensor ls_add_scalar(ls_tensor x, double value) {
  if (ls_tensor_is_failed(x)) return ls_add(x, x);
  return ls_add(x, ls_scalar(ls_tensor_dtype(x), value));
}

ls_tensor ls_mul_scalar(ls_tensor x, double value) {
  if (ls_tensor_is_failed(x)) return ls_mul(x, x);
  return ls_mul(x, ls_scalar(ls_tensor_dtype(x), value));
}
