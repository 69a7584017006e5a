// SPDX-License-Identifier: Apache-2.0
//
// The engine's rewrites of a lowered program: their order, and those of
// products, pads, pools and gradients of maxima.
#include "engine/cpu/passes/passes.h"
#include "engine/cpu/conv/sparse.h"
#include "graph/compare/compare.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/walk.h"
#include "graph/window.h"

// ---- Products ---------------------------------------------------------------
// The gradient of weights that are used several times, such as those of each
// step of an unrolled loop, is a sum of products. Joined into one op, the
// products are added up block by block and never stored:
//
//   add_n(matmul(x', dy), matmul(u', dz))   add_products(x, dy, u, dz)
//
// Bit for bit: both add up along the canonical tree. The factors live until the
// sum in place of the products, so that only products are joined that are as
// large as both factors.

static int64_t count_elements(const ls_rewrite *r, uint64_t ref) {
  return ls_shape_num_elements(ls_graph_type(r->graph, ref).shape);
}

// Returns the product of matrices, the first transposed, that is used for this
// sum alone and not smaller than its factors; NULL: the value is something
// else.
static const ls_node *product_of(const ls_rewrite *r, uint64_t ref) {
  const ls_node *node = ls_rewrite_match(r, ref, LS_OP_MATMUL);
  if (node == NULL || ls_rewrite_count_uses(r, node->id) != 1 ||
      ls_rewrite_count_leaving(r, node->id) != 0 ||
      ls_node_int(node, LS_ATTR_ID_TRANSPOSE_A) == 0 ||
      ls_node_int(node, LS_ATTR_ID_TRANSPOSE_B) != 0)
    return NULL;
  const ls_type a = ls_graph_type(r->graph, node->inputs[0]);
  const ls_type b = ls_graph_type(r->graph, node->inputs[1]);
  const bool fits = (a.dtype == LS_DTYPE_F32 || a.dtype == LS_DTYPE_F64) &&
                    a.shape.rank == 2 && b.shape.rank == 2;
  const bool is_large =
      count_elements(r, node->inputs[0]) + count_elements(r, node->inputs[1]) <=
      count_elements(r, ref);
  return fits && is_large ? node : NULL;
}

static ls_status join_product_sum(ls_rewrite *r, ls_node *sum) {
  if (sum->type != LS_OP_ADD_N || sum->num_inputs < 2) return ls_ok();
  for (uint32_t i = 0; i < sum->num_inputs; ++i)
    if (product_of(r, sum->inputs[i]) == NULL) return ls_ok();
  LS_OWN_ARRAY_OR_RETURN(r->graph->allocator, uint64_t, factors,
                         2 * (size_t)sum->num_inputs);
  for (uint32_t i = 0; i < sum->num_inputs; ++i)
    memcpy(factors + 2 * i, product_of(r, sum->inputs[i])->inputs,
           2 * sizeof(uint64_t));
  sum->type = LS_OP_ADD_PRODUCTS;
  return ls_rewrite_set_inputs(r, sum, factors, 2 * sum->num_inputs);
}

// ---- Pads -------------------------------------------------------------------
// The gradient of an array that slices divide along an axis is a sum of pads:
//
//   add_n(pad(b, 0), pad(a, 0))   add(concatenate(a, b), 0)
//
// Bit for bit: all terms of an element but one are 0, and no sum with 0 is -0.

// Returns the sum's operand `i` if it is a pad by zeros of this dimension
// alone, else NULL; `out_low` gets the number of elements before its operand.
static const ls_node *pad_along(const ls_rewrite *r, const ls_node *sum,
                                uint32_t i, int32_t axis, int64_t *out_low) {
  const ls_node *pad = ls_rewrite_match(r, sum->inputs[i], LS_OP_PAD);
  const ls_node *zero =
      pad == NULL ? NULL : ls_rewrite_match(r, pad->inputs[1], LS_OP_CONSTANT);
  if (zero == NULL) return NULL;
  const ls_array *value = ls_node_attr(zero, LS_ATTR_ID_VALUE)->as.array;
  for (size_t k = 0; k < ls_array_size(value); ++k)
    if (((const char *)ls_array_data(value))[k] != 0) return NULL;
  const ls_shape from = ls_graph_type(r->graph, pad->inputs[0]).shape;
  const ls_shape to = pad->outputs[0].shape;
  if (!ls_shape_equal(to, sum->outputs[0].shape)) return NULL;
  const int64_t *low = ls_node_attr(pad, LS_ATTR_ID_PAD_LOW)->as.ints.items;
  const int64_t *gaps = ls_node_attr(pad, LS_ATTR_ID_INTERIOR)->as.ints.items;
  for (int32_t d = 0; d < from.rank; ++d)
    if (gaps[d] != 0 || low[d] < 0 || low[d] + from.dim[d] > to.dim[d] ||
        (d != axis && from.dim[d] != to.dim[d]))
      return NULL;
  *out_low = low[axis];
  return pad;
}

// Returns the operand of the sum's pad that begins at `at` of the axis, of
// those that begin at `lows`; 0: there is none.
static uint64_t part_at(const ls_rewrite *r, const ls_node *sum,
                        const int64_t *lows, int64_t at) {
  uint32_t i = 0;
  while (i < sum->num_inputs && lows[i] != at)
    ++i;
  return i == sum->num_inputs
             ? 0
             : ls_rewrite_match(r, sum->inputs[i], LS_OP_PAD)->inputs[0];
}

static ls_status join_pads(ls_rewrite *r, ls_node *sum) {
  if (sum->type != LS_OP_ADD && sum->type != LS_OP_ADD_N) return ls_ok();
  const ls_node *first = ls_rewrite_match(r, sum->inputs[0], LS_OP_PAD);
  const ls_type type = sum->outputs[0];
  if (first == NULL || type.shape.rank == 0) return ls_ok();
  const ls_shape from = ls_graph_type(r->graph, first->inputs[0]).shape;
  int32_t axis = 0;
  while (axis + 1 < from.rank && from.dim[axis] == type.shape.dim[axis])
    ++axis;
  LS_OWN_ARRAY_OR_RETURN(r->graph->allocator, uint64_t, parts, sum->num_inputs);
  LS_OWN_ARRAY_OR_RETURN(r->graph->allocator, int64_t, lows, sum->num_inputs);
  for (uint32_t i = 0; i < sum->num_inputs; ++i)
    if (pad_along(r, sum, i, axis, &lows[i]) == NULL) return ls_ok();
  int64_t end = 0;
  for (uint32_t i = 0; i < sum->num_inputs; ++i) {
    parts[i] = part_at(r, sum, lows, end);
    if (parts[i] == 0) return ls_ok();
    const int64_t begin = end;
    end += ls_graph_type(r->graph, parts[i]).shape.dim[axis];
    if (end == begin) return ls_ok();  // A part without elements.
  }
  if (end != type.shape.dim[axis]) return ls_ok();
  const ls_attr along = LS_OWN_I(AXIS, axis);
  ls_node *joined = NULL;
  LS_RETURN_IF_ERROR(
      ls_rewrite_insert(r, sum,
                        &(ls_op_spec){.type = LS_OP_CONCATENATE,
                                      .num_inputs = sum->num_inputs,
                                      .attrs = &along,
                                      .num_attrs = 1},
                        parts, type, &joined));
  const uint64_t inputs[] = {ls_ref(joined->id, 0), first->inputs[1]};
  sum->type = LS_OP_ADD;
  return ls_rewrite_set_inputs(r, sum, inputs, LS_COUNT_OF(inputs));
}

// ---- Pools ------------------------------------------------------------------
// Convolutions and the window maxima of their results, joined into one op,
// forward and backward.
//
// The gradient of maxima of windows of 2 by 2 is 0 in three positions of four.
// So a convolution's gradients take the gradient and the positions of the
// maxima instead, and add in another order: whoever else reads dy, lest the
// bits depend on it. And if a convolution's result only goes into such maxima,
// it is never stored:
//
//   max = reduce_window(conv(x, w))   max, places = conv_pool_max(x, w)
//   dy = window_max_grad(conv, d)
//   dx = conv_grad_input(dy, w)       conv_pool_grad_input(d, places, w)
//   relu_grad(dx, x)                  conv_pool_grad_input(d, places, x, w)
//   dw = conv_grad_weights(x, dy)     conv_pool_grad_weights(x, d, places)
//
// Nodes are changed in place; unused ones are left for ls_drop_unused.

enum { SPATIAL = LS_POOL_RANK - 2 };

// ---- Nodes that can be joined ----------------------------------------------
// Returns true if the node takes maxima of windows of 2 by 2, without padding,
// or is their gradient.
static bool is_pool(const ls_rewrite *r, const ls_node *node) {
  const ls_attr *reduce = ls_node_attr(node, LS_ATTR_ID_WINDOW_REDUCE);
  if (node->type == LS_OP_REDUCE_WINDOW ? strcmp(reduce->as.string, "max") != 0
                                        : node->type != LS_OP_WINDOW_MAX_GRAD)
    return false;
  const ls_type y = ls_graph_type(r->graph, node->inputs[0]);
  ls_window window;
  if (!ls_can_pool(y) || y.shape.dim[3] % LS_POOL_CHANNELS != 0) return false;
  ls_status status =
      ls_window_read("", node->attrs, node->num_attrs, SPATIAL, &window);
  bool fits = ls_status_is_ok(status) &&
              ls_window_is(&window, LS_POOL_SIDE, LS_POOL_SIDE);
  ls_status_free(status);
  for (int i = 0; fits && i < SPATIAL; ++i)
    fits = window.low[i] == 0 && window.high[i] == 0 &&
           !(window.same && y.shape.dim[i + 1] % LS_POOL_SIDE != 0);
  return fits;
}

// Returns true if the convolution, or its gradient, has weights of this shape
// and can be joined with maxima of its result.
static bool is_convolution(const ls_node *node, ls_shape w) {
  return ls_can_join_pool(node->attrs, node->num_attrs, w) &&
         w.dim[2] % LS_POOL_CHANNELS == 0 && w.dim[3] % LS_POOL_CHANNELS == 0;
}

// ---- Maxima ----------------------------------------------------------------
static bool has_attr(const ls_node *node, const ls_attr *wanted) {
  const ls_attr *has = ls_node_attr(node, (ls_attr_id)wanted->id);
  return has != NULL && ls_attr_equal(has, wanted);
}

// Returns true if `node` takes the maxima that `grad` is the gradient of.
static bool takes_maxima(const ls_rewrite *r, const ls_node *node,
                         const ls_node *grad) {
  if (node->id > grad->id || node->inputs[0] != grad->inputs[0] ||
      node->varying != grad->varying)
    return false;
  if (node->type == LS_OP_POOL_MAX) return is_pool(r, grad);
  if (node->type != LS_OP_REDUCE_WINDOW) return false;
  const ls_attr *reduce = ls_node_attr(node, LS_ATTR_ID_WINDOW_REDUCE);
  bool same = strcmp(reduce->as.string, "max") == 0;
  for (uint32_t a = 0; same && a < grad->num_attrs; ++a)
    same = has_attr(node, &grad->attrs[a]);
  return same && ls_shape_equal(node->outputs[0].shape,
                                ls_graph_type(r->graph, grad->inputs[1]).shape);
}

// Finds the maxima that `grad` is the gradient of. Adds them to a program that
// did not need them, so that rewrites do not depend on what else is computed.
static ls_status find_maxima(ls_rewrite *r, ls_node *grad, ls_node **out_node) {
  const uint64_t y = grad->inputs[0];
  for (const ls_node_use *use = ls_rewrite_first_use(r, ls_ref_id(y));
       use != NULL; use = ls_rewrite_next_use(r, use))
    if (takes_maxima(r, use->user, grad)) {
      *out_node = use->user;
      return ls_ok();
    }
  const ls_op_spec spec = {.type = LS_OP_REDUCE_WINDOW,
                           .num_inputs = 1,
                           .attrs = grad->attrs,
                           .num_attrs = grad->num_attrs};
  const ls_attr reduce = LS_OWN_S(WINDOW_REDUCE, "max");
  LS_RETURN_IF_ERROR(ls_rewrite_insert(
      r, grad, &spec, &y, ls_graph_type(r->graph, grad->inputs[1]), out_node));
  return ls_node_set_attr(r->graph, *out_node, &reduce);
}

// ---- Changing --------------------------------------------------------------
// Turns the node into one that also takes the maxima and returns their
// positions.
static ls_status become_pool(ls_rewrite *r, ls_node *node) {
  const ls_type y = ls_graph_type(r->graph, node->inputs[0]);
  ls_type outputs[] = {y, y};
  for (int i = 0; i < 2; ++i) {
    outputs[i].shape.dim[1] /= LS_POOL_SIDE;
    outputs[i].shape.dim[2] /= LS_POOL_SIDE;
  }
  outputs[1].dtype = LS_DTYPE_U8;
  node->num_attrs = 0;
  LS_RETURN_IF_ERROR(ls_rewrite_retype(r, node, LS_OP_POOL_MAX, outputs,
                                       LS_COUNT_OF(outputs)));
  return ls_rewrite_set_inputs(r, node, node->inputs, 1);
}

// ---- Backward --------------------------------------------------------------
// Returns true if the node is a gradient of a convolution that takes `dy` as
// the result's gradient and nowhere else.
static bool takes(const ls_rewrite *r, const ls_node *node, uint64_t dy) {
  const bool weights = node->type == LS_OP_CONV_GRAD_WEIGHTS;
  if (!weights && node->type != LS_OP_CONV_GRAD_INPUT) return false;
  if (node->inputs[weights] != dy || node->inputs[!weights] == dy) return false;
  return is_convolution(
      node, weights ? node->outputs[0].shape
                    : ls_graph_type(r->graph, node->inputs[1]).shape);
}

static ls_status take_places(ls_rewrite *r, ls_node *node, uint64_t d,
                             uint64_t places) {
  if (node->type == LS_OP_CONV_GRAD_INPUT) {
    node->type = LS_OP_CONV_POOL_GRAD_INPUT;
    return ls_rewrite_set_inputs(r, node,
                                 (uint64_t[]){d, places, node->inputs[1]}, 3);
  }
  node->type = LS_OP_CONV_POOL_GRAD_WEIGHTS;
  return ls_rewrite_set_inputs(r, node,
                               (uint64_t[]){node->inputs[0], d, places}, 3);
}

// Returns the first user of a gradient of maxima that can take the positions
// instead, or NULL.
static ls_node *find_taker(const ls_rewrite *r, const ls_node *grad) {
  const ls_node_use *use = ls_rewrite_first_use(r, grad->id);
  while (use != NULL && !takes(r, use->user, ls_ref(grad->id, 0)))
    use = ls_rewrite_next_use(r, use);
  return use != NULL ? use->user : NULL;
}

// Other users keep `grad`: the bits of a convolution's gradients do not depend
// on them.
static ls_status join_gradient(ls_rewrite *r, ls_node *grad) {
  if (grad->type != LS_OP_WINDOW_MAX_GRAD || !is_pool(r, grad)) return ls_ok();
  ls_node *taker = find_taker(r, grad), *maxima;
  if (taker == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(find_maxima(r, grad, &maxima));
  if (maxima->type != LS_OP_POOL_MAX)
    LS_RETURN_IF_ERROR(become_pool(r, maxima));
  for (; taker != NULL; taker = find_taker(r, grad))
    LS_RETURN_IF_ERROR(
        take_places(r, taker, grad->inputs[1], ls_ref(maxima->id, 1)));
  if (ls_rewrite_count_uses(r, grad->id) == 0) ls_rewrite_erase(r, grad);
  return ls_ok();
}

// Joins a relu's gradient with the input's gradient that only it uses.
static ls_status join_relu(ls_rewrite *r, ls_node *relu) {
  if (relu->type != LS_OP_RELU_GRAD) return ls_ok();
  const ls_node *grad =
      ls_rewrite_match(r, relu->inputs[0], LS_OP_CONV_POOL_GRAD_INPUT);
  if (grad == NULL || grad->num_inputs != 3 ||
      ls_rewrite_count_uses(r, grad->id) != 1 ||
      !ls_shape_equal(grad->outputs[0].shape,
                      ls_graph_type(r->graph, relu->inputs[1]).shape))
    return ls_ok();
  const uint64_t inputs[] = {grad->inputs[0], grad->inputs[1], relu->inputs[1],
                             grad->inputs[2]};
  relu->type = grad->type;
  relu->origin = grad->origin;
  relu->file = grad->file;
  relu->line = grad->line;
  ls_rewrite_take_attrs(r, relu, grad);
  return ls_rewrite_set_inputs(r, relu, inputs, 4);
}

// ---- Forward ---------------------------------------------------------------
static ls_status join_forward(ls_rewrite *r, ls_node *pool) {
  if (pool->type != LS_OP_POOL_MAX &&
      (pool->type != LS_OP_REDUCE_WINDOW || !is_pool(r, pool)))
    return ls_ok();
  const ls_node *conv = ls_graph_node_of(r->graph, pool->inputs[0]);
  if ((conv->type != LS_OP_CONVOLUTION && conv->type != LS_OP_CONV_BIAS_ACT) ||
      ls_rewrite_count_uses(r, conv->id) != 1 ||
      !is_convolution(conv, ls_graph_type(r->graph, conv->inputs[1]).shape))
    return ls_ok();
  if (pool->type != LS_OP_POOL_MAX) LS_RETURN_IF_ERROR(become_pool(r, pool));
  pool->type = LS_OP_CONV_POOL_MAX;
  pool->origin = conv->origin;
  pool->file = conv->file;
  pool->line = conv->line;
  ls_rewrite_take_attrs(r, pool, conv);
  return ls_rewrite_set_inputs(r, pool, conv->inputs, conv->num_inputs);
}

// ---- Gradients of maxima ---------------------------------------------------
// Rewrites of operations on the gradient of window maxima, which work as well
// on its operand, where there are fewer numbers.
//
// A relu followed by maxima: the gradient goes to the largest element of a
// window, which is the maximum, so it is enough to ask whether the maximum is
// above 0:
//
//   relu_grad(window_max_grad(y, d), y) = window_max_grad(y, relu_grad(d, max))
//
// bit for bit, and the relu's output is read once less.
//
// A sum over all positions, for the gradient of a bias: each number of d goes
// to one position of its own channel, so
//
//   sum over positions(window_max_grad(y, d)) = sum over windows(d)
//
// up to the order of the additions.
//
// Neither depends on users of a value: bits must not depend on what is fetched.

static ls_status relu_before(ls_rewrite *r, ls_node *relu) {
  if (relu->type != LS_OP_RELU_GRAD) return ls_ok();
  ls_node *grad = ls_rewrite_match(r, relu->inputs[0], LS_OP_WINDOW_MAX_GRAD);
  if (grad == NULL || grad->inputs[0] != relu->inputs[1]) return ls_ok();
  ls_node *maxima, *mask;
  LS_RETURN_IF_ERROR(find_maxima(r, grad, &maxima));
  const uint64_t masked[] = {grad->inputs[1], ls_ref(maxima->id, 0)};
  LS_RETURN_IF_ERROR(ls_rewrite_insert(
      r, relu, &(ls_op_spec){.type = LS_OP_RELU_GRAD, .num_inputs = 2}, masked,
      maxima->outputs[0], &mask));
  const uint64_t given[] = {relu->inputs[1], ls_ref(mask->id, 0)};
  relu->type = LS_OP_WINDOW_MAX_GRAD;
  ls_rewrite_take_attrs(r, relu, grad);
  return ls_rewrite_set_inputs(r, relu, given, LS_COUNT_OF(given));
}

// Returns the operand of a sum over all but the last dimension, even if these
// dimensions were reshaped to one; otherwise 0.
static uint64_t summed_places(const ls_graph *graph, const ls_node *sum) {
  const uint64_t input = sum->inputs[0];
  const ls_attr *axes = ls_node_attr(sum, LS_ATTR_ID_AXES);
  const int32_t rank = ls_graph_type(graph, input).shape.rank;
  if (axes == NULL || axes->as.ints.count + 1 != (size_t)rank ||
      ls_node_int(sum, LS_ATTR_ID_KEEP_DIMS))
    return 0;
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    if (axes->as.ints.items[i] == rank - 1) return 0;
  const ls_node *from = ls_graph_node_of(graph, input);
  if (from->type != LS_OP_RESHAPE) return input;
  const ls_shape before = ls_graph_type(graph, from->inputs[0]).shape;
  const ls_shape after = ls_graph_type(graph, input).shape;
  const bool joined = after.rank == 2 && before.rank > 2 &&
                      before.dim[before.rank - 1] == after.dim[1];
  return joined ? from->inputs[0] : 0;
}

// Returns true if a window may lie in the padding alone, and then contributes
// nothing: with padding of its own, or if its taps are farther apart than the
// input is long.
static bool may_have_empty_windows(const ls_graph *graph, const ls_node *grad) {
  const ls_attr *distances = ls_node_attr(grad, LS_ATTR_ID_DILATIONS);
  const ls_shape shape = ls_graph_type(graph, grad->inputs[0]).shape;
  for (size_t i = 0; distances != NULL && i < distances->as.ints.count; ++i)
    if (distances->as.ints.items[i] > shape.dim[i + 1]) return true;
  return ls_node_attr(grad, LS_ATTR_ID_PADDING) != NULL;
}

static ls_status sum_before(ls_rewrite *r, ls_node *sum) {
  const uint64_t places =
      sum->type == LS_OP_REDUCE_SUM ? summed_places(r->graph, sum) : 0;
  const ls_node *grad =
      places != 0 ? ls_rewrite_match(r, places, LS_OP_WINDOW_MAX_GRAD) : NULL;
  if (grad == NULL || may_have_empty_windows(r->graph, grad)) return ls_ok();
  const uint64_t windows = grad->inputs[1];
  const int32_t rank = ls_graph_type(r->graph, windows).shape.rank;
  int64_t items[LS_MAX_RANK];
  for (int32_t i = 0; i < rank; ++i)
    items[i] = i;
  const ls_attr axes = LS_OWN_IS(AXES, items, (size_t)rank - 1);
  const ls_attr keep_dims = LS_OWN_B(KEEP_DIMS, false);
  LS_RETURN_IF_ERROR(ls_node_set_attr(r->graph, sum, &axes));
  LS_RETURN_IF_ERROR(ls_node_set_attr(r->graph, sum, &keep_dims));
  return ls_rewrite_set_inputs(r, sum, &windows, 1);
}

// ---- All passes ------------------------------------------------------------
// Rewrites of a node, by which others become unused: these are left in place.
typedef struct cpu_pass {
  const char *name;
  ls_status (*rewrites[4])(ls_rewrite *r, ls_node *node);  // Ends with NULL.
  bool has_changed;
} cpu_pass;

static ls_status rewrite_nodes(ls_graph *graph, void *user) {
  cpu_pass *pass = user;
  LS_OWN(ls_rewrite, r) = {0};
  LS_RETURN_IF_ERROR(ls_rewrite_begin(&r, graph));
  for (size_t k = 0; pass->rewrites[k] != NULL; ++k) {
    const size_t count = graph->num_nodes;  // Inserted nodes come after.
    for (size_t i = 0; i < count; ++i)
      LS_RETURN_IF_ERROR(pass->rewrites[k](&r, graph->nodes[i]));
  }
  pass->has_changed |= r.changed;
  return ls_rewrite_end(&r);
}

ls_status ls_cpu_prepare(ls_backend *backend, ls_program *program) {
  ls_graph *body = program->body;
  ls_runtime *runtime = backend->runtime;
  cpu_pass passes[] = {
      {.name = "windows", .rewrites = {relu_before, sum_before}},
      {.name = "join_pools",
       .rewrites = {join_gradient, join_relu, join_forward}},
      {.name = "join_products", .rewrites = {join_product_sum, join_pads}}};
  for (size_t i = 0; i < LS_COUNT_OF(passes); ++i) {
    LS_RETURN_IF_ERROR(ls_graph_each(body, rewrite_nodes, &passes[i]));
    if (passes[i].has_changed) LS_RETURN_IF_ERROR(ls_drop_unused(body));
    LS_RETURN_IF_ERROR(ls_watch_pass(runtime, body, passes[i].name, false));
  }
  LS_RETURN_IF_ERROR(ls_cpu_rematerialize(body));
  return ls_watch_pass(runtime, body, "rematerialize", true);
}
