// SPDX-License-Identifier: Apache-2.0
//
// The base of all layers; dropout; and updates that layers make beside their
// results.
#include "nn/layer.h"

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/graph.h"
#include "graph/make/make.h"
#include "lockstep/bag.h"
#include "lockstep/variable.h"

void *ls_layer_make(size_t size, const char *name) {
  ls_allocator *allocator = ls_current_allocator();
  ls_layer *layer = ls_allocate_zeroed(allocator, 1, size);
  if (layer == NULL) return NULL;
  layer->allocator = allocator;
  layer->name = ls_copy_text(allocator, name, strlen(name));
  if (layer->name == NULL) {
    ls_release(allocator, layer);
    return NULL;
  }
  ls_trial_begin(&layer->making);
  return layer;
}

void ls_layer_free(ls_layer *layer) {
  if (layer == NULL) return;
  for (size_t i = 0; i < layer->num_variables; ++i)
    ls_variable_release(layer->variables[i]);
  ls_release(layer->allocator, layer->name);
  ls_release(layer->allocator, layer);
}

ls_status ls_layer_weight(ls_layer *layer, const ls_weight_options *options,
                          ls_variable **out_variable) {
  LS_ASSERT(layer->num_variables < LS_MAX_LAYER_VARIABLES);
  LS_RETURN_IF_ERROR(ls_weight_create(options, out_variable));
  layer->variables[layer->num_variables++] = *out_variable;
  return ls_ok();
}

ls_status ls_layer_product_weights(ls_layer *layer,
                                   const ls_product_weights *weights,
                                   ls_variable **out_kernel,
                                   ls_variable **out_bias) {
  ls_weight_options kernel = {.name = "kernel",
                              .shape = weights->kernel,
                              .dtype = weights->dtype,
                              .initializer = weights->kernel_initializer,
                              .seed = weights->seed};
  ls_weight_options bias = kernel;
  bias.name = "bias";
  bias.shape = LS_SHAPE(weights->outputs);
  bias.initializer = ls_init_or(weights->bias_initializer, ls_init_zeros());
  LS_NAME_SCOPE(weights->scope);
  LS_RETURN_IF_ERROR(ls_layer_weight(layer, &kernel, out_kernel));
  if (!weights->no_bias) return ls_layer_weight(layer, &bias, out_bias);
  return ls_ok();
}

ls_status ls_layer_finish(ls_layer *layer, const char *what, ls_status status,
                          void *out_layer) {
  status = ls_trial_end(&layer->making, status);
  if (ls_status_is_ok(status)) {
    *(ls_layer **)out_layer = layer;
    return status;
  }
  status =
      ls_status_annotate(status, "while creating %s '%s'", what, layer->name);
  ls_layer_free(layer);
  return status;
}

size_t ls_layer_list(const ls_layer *layer, ls_variable **variables,
                     size_t capacity) {
  for (size_t i = 0; i < layer->num_variables && i < capacity; ++i)
    variables[i] = layer->variables[i];
  return layer->num_variables;
}

ls_tensor ls_layer_read(ls_variable *variable) {
  return variable != NULL ? ls_variable_read(variable) : ls_failed_tensor();
}

ls_tensor ls_layer_read_or(ls_variable *variable, ls_dtype dtype, int64_t size,
                           double value) {
  return variable != NULL ? ls_variable_read(variable)
                          : ls_fill(dtype, LS_SHAPE(size), value);
}

ls_tensor ls_layer_zeros(ls_tensor x, const ls_size *sizes, size_t rank) {
  const ls_shape shape = ls_tensor_shape(x);
  ls_size known[LS_MAX_RANK];
  for (size_t i = 0; i < rank; ++i) {
    known[i] = sizes[i];
    if (sizes[i].operand == 1 && shape.dim[sizes[i].value] >= 0)
      known[i] = (ls_size){LS_SIZE_CONSTANT, shape.dim[sizes[i].value]};
  }
  const ls_tensor inputs[] = {ls_scalar(ls_tensor_dtype(x), 0), x};
  const ls_attr attr = LS_OWN_SZ(SIZES, known, rank);
  return ls_make(LS_OP_BROADCAST, inputs, 2, &attr, 1);
}

ls_initializer ls_init_or(ls_initializer given, ls_initializer fallback) {
  return given.draw != NULL ? given : fallback;
}

// ---- Dropout ----------------------------------------------------------------
ls_tensor ls_dropout(ls_tensor x, double rate, bool training,
                     const ls_random_options *random) {
  if (!(rate >= 0 && rate < 1))
    return ls_make_failed(
        "dropout", ls_invalid_argument("the rate must be from 0 to below 1, "
                                       "got %g",
                                       rate));
  if (!training || rate == 0 || ls_tensor_is_failed(x)) return x;
  LS_NAME_SCOPE("dropout");
  const ls_tensor limit = ls_scalar(LS_DTYPE_F32, rate);
  const ls_tensor dropped =
      ls_less(ls_random_uniform_like(LS_DTYPE_F32, x, 0, 1, random), limit);
  const ls_tensor zero = ls_scalar(ls_tensor_dtype(x), 0);
  return ls_select(dropped, zero, ls_mul_scalar(x, 1 / (1 - rate)));
}

// ---- Updates of layers -----------------------------------------------------
void ls_update_ops_add(ls_tensor written) {
  ls_graph *graph = ls_graph_current();
  if (graph->kind != LS_GRAPH_BUILD || ls_tensor_is_failed(written)) return;
  const ls_status status = ls_graph_add_to_collection(
      graph, LS_COLLECTION_UPDATE_OPS, ls_nest_op(ls_tensor_op(written)));
  if (!ls_status_is_ok(status)) ls_graph_fail(graph, status);
}

// ---- Needed ops ------------------------------------------------------------
typedef struct needs {
  const ls_graph *graph;
  // The last visitor of each node: `STEP`, or the number of an update from 1
  // on.
  uint32_t *seen;
  size_t *stack;
  size_t depth;
} needs;
enum { STEP = UINT32_MAX };

static void update_ops_push(needs *n, uint64_t id, uint32_t visitor) {
  const size_t at = ls_graph_position(n->graph, id);
  if (at == SIZE_MAX || n->seen[at] == STEP || n->seen[at] == visitor) return;
  n->seen[at] = visitor;
  n->stack[n->depth++] = at;
}

// Walks back from an op, except through nodes that the step needs. Returns
// false if the walk reaches a placeholder or a host op.
static bool walk(needs *n, uint64_t id, uint32_t visitor) {
  bool inside = true;
  n->depth = 0;
  update_ops_push(n, id, visitor);
  while (n->depth > 0) {
    const ls_node *node = n->graph->nodes[n->stack[--n->depth]];
    inside &= node->type != LS_OP_PLACEHOLDER &&
              (ls_node_info(node)->traits & LS_OP_ON_HOST) == 0;
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      update_ops_push(n, ls_ref_id(node->inputs[i]), visitor);
    for (uint32_t i = 0; i < node->num_control; ++i)
      update_ops_push(n, node->control[i], visitor);
  }
  return inside;
}

// ---- Join with a step ------------------------------------------------------
// Lists the step, then the updates that can run with the step, in `ops`.
static size_t update_ops_choose(needs *n, ls_op step, const ls_nest *updates,
                                size_t count, ls_op *ops) {
  size_t chosen = 0;
  walk(n, step.id, STEP);
  ops[chosen++] = step;
  for (size_t i = 0; i < count; ++i)
    if (updates[i].kind == LS_KIND_OP &&
        walk(n, updates[i].as.op.id, (uint32_t)i + 1))
      ops[chosen++] = updates[i].as.op;
  return chosen;
}

ls_status ls_update_ops_join(const char *name, ls_op *step) {
  ls_graph *graph = ls_graph_current();
  const size_t count =
      graph->kind != LS_GRAPH_BUILD || ls_op_is_failed(*step)
          ? 0
          : ls_graph_collection(graph, LS_COLLECTION_UPDATE_OPS, NULL, 0);
  if (count == 0) return ls_ok();
  ls_allocator *allocator = graph->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, uint32_t, seen, graph->num_nodes);
  LS_OWN_ARRAY_OR_RETURN(allocator, size_t, stack, graph->num_nodes);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, updates, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops, count + 1);
  needs n = {.graph = graph, .seen = seen, .stack = stack};
  ls_graph_collection(graph, LS_COLLECTION_UPDATE_OPS, updates, count);
  const size_t chosen = update_ops_choose(&n, *step, updates, count, ops);
  if (chosen > 1) *step = ls_group(ops, chosen, name);
  return ls_ok();
}

// ---- Bags -------------------------------------------------------------------
typedef struct ls_bag_item {
  struct ls_bag_item *before;
  ls_allocator *allocator;
  void *thing;
  void (*release)(void *thing);
} ls_bag_item;

static void keep_failure(ls_bag *bag, ls_status status) {
  bag->error = ls_status_join(bag->error, status);
}

void *ls_bag_keep(ls_bag *bag, ls_status status, void *thing,
                  void (*release)(void *thing)) {
  if (ls_status_is_ok(status) && thing == NULL) return NULL;
  ls_allocator *allocator = ls_current_allocator();
  ls_bag_item *item =
      ls_status_is_ok(status) ? ls_new(allocator, ls_bag_item) : NULL;
  if (item == NULL) {
    keep_failure(bag, ls_status_is_ok(status) ? ls_out_of_memory() : status);
    if (thing != NULL) release(thing);
    return NULL;
  }
  *item = (ls_bag_item){bag->last, allocator, thing, release};
  bag->last = item;
  return thing;
}

// ---- Nests -----------------------------------------------------------------
typedef struct kept_nest {
  ls_nest nest;
  ls_allocator *allocator;
} kept_nest;

static void release_nest(void *thing) {
  kept_nest *kept = thing;
  ls_nest_release(kept->nest);
  ls_release(kept->allocator, kept);
}

ls_nest *ls_nest_in(ls_bag *bag, ls_nest nest) {
  ls_allocator *allocator = ls_current_allocator();
  const ls_status status = ls_nest_status(nest);
  kept_nest *kept =
      ls_status_is_ok(status) ? ls_new(allocator, kept_nest) : NULL;
  if (kept == NULL) {
    keep_failure(bag, ls_status_is_ok(status) ? ls_out_of_memory() : status);
    ls_nest_release(nest);
    return NULL;
  }
  *kept = (kept_nest){nest, allocator};
  return ls_bag_keep(bag, ls_ok(), kept, release_nest);
}

ls_nest ls_bag_nest(ls_bag *bag, ls_nest nest) {
  const ls_nest *kept = ls_nest_in(bag, nest);
  return kept != NULL ? *kept : ls_none();
}

// ---- End -------------------------------------------------------------------
ls_status ls_bag_take_error(ls_bag *bag) {
  LS_REQUIRE(bag);
  const ls_status error = bag->error;
  bag->error = NULL;
  return error;
}

void ls_bag_empty(ls_bag *bag) {
  while (bag->last != NULL) {
    ls_bag_item *item = bag->last;
    bag->last = item->before;
    item->release(item->thing);
    ls_release(item->allocator, item);
  }
  ls_status_free(ls_bag_take_error(bag));
}
