// SPDX-License-Identifier: Apache-2.0
// Ops on the tensors of whole nests: custom gradients and barriers.
#include "graph/callbacks.h"

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "graph/trial.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"

// ---- The object -------------------------------------------------------------
// Replaces tensors by numbers, because handles would outlive their graph.
static ls_nest without_handles(ls_nest leaf, void *user) {
  (void)user;
  return leaf.kind == LS_KIND_TENSOR ? ls_nest_i64(0) : ls_none();
}

LS_OWNED_POINTER(ls_custom_gradient_object, ls_object_release)

static ls_status make_object(ls_gradient_callback gradient, void *user,
                             ls_nest inputs, ls_nest outputs,
                             ls_custom_gradient_object **out_object) {
  ls_allocator *allocator = ls_current_allocator();
  ls_custom_gradient_object *self =
      ls_new(allocator, ls_custom_gradient_object);
  *out_object = self;
  if (self == NULL) return ls_out_of_memory();
  ls_object_init(&self->object, &ls_custom_gradient_type);
  self->allocator = allocator;
  self->gradient = gradient;
  self->user = user;
  self->inputs = ls_nest_map(inputs, without_handles, NULL);
  self->outputs = ls_nest_map(outputs, without_handles, NULL);
  LS_RETURN_IF_ERROR(ls_nest_status(self->inputs));
  return ls_nest_status(self->outputs);
}

// ---- The maker -------------------------------------------------------------
// The tensors among the nests' leaves, in order.
typedef struct operands {
  ls_tensor *items;
  size_t count, next;
  ls_op op;
} operands;

static ls_nest to_tensor(ls_nest leaf, void *user) {
  (void)user;
  if (leaf.kind == LS_KIND_NONE || leaf.kind == LS_KIND_OP ||
      leaf.kind == LS_KIND_OBJECT)
    return ls_nest_retain(leaf);
  ls_tensor tensor;
  const ls_status status = ls_region_tensor(leaf, &tensor);
  return ls_status_is_ok(status) ? ls_leaf(tensor) : ls_fail(status);
}

static ls_nest note_operand(ls_nest leaf, void *user) {
  operands *all = user;
  if (leaf.kind == LS_KIND_TENSOR) all->items[all->count++] = leaf.as.tensor;
  return ls_none();
}

static ls_nest take_output(ls_nest leaf, void *user) {
  operands *all = user;
  if (leaf.kind != LS_KIND_TENSOR) return ls_nest_retain(leaf);
  return ls_leaf(ls_op_output(all->op, (unsigned)all->next++));
}

// Refuses a trainable variable that the forward callback reads itself, because
// the variable would get no gradient.
static ls_status check_read(const ls_node *node) {
  // Ops that eager mode does not record have no attributes.
  const ls_variable *variable =
      node->type == LS_OP_READ ? ls_node_named_variable(node) : NULL;
  if (variable == NULL || !ls_variable_is_trainable(variable)) return ls_ok();
  return ls_failed_precondition(
      "the forward callback reads variable '%s', which would get no gradient; "
      "make it one of the inputs",
      ls_variable_name(variable));
}

// Checks the ops from number `first` on, without those that other replicas have
// made while the forward callback waited for them.
static ls_status check_reads(const ls_graph *graph, size_t first) {
  const int32_t replica = ls_context_current()->replica;
  ls_graph_walk walk;
  for (size_t i = first; i < graph->num_nodes; ++i)
    for (ls_graph_walk_begin_at(&walk, graph->nodes[i]);
         graph->nodes[i]->replica == replica && ls_graph_walk_next(&walk);)
      LS_RETURN_IF_ERROR(check_read(walk.node));
  return ls_ok();
}

static ls_status add_op(ls_graph *graph, ls_gradient_callback gradient,
                        void *user, ls_nest inputs, ls_nest outputs,
                        ls_nest *out_result) {
  const size_t most = ls_nest_num_leaves(inputs) + ls_nest_num_leaves(outputs);
  LS_OWN_ARRAY_OR_RETURN(graph->allocator, ls_tensor, items, most + 1);
  operands all = {.items = items};
  LS_OWN(ls_custom_gradient_object, object) = NULL;
  LS_RETURN_IF_ERROR(make_object(gradient, user, inputs, outputs, &object));
  ls_nest_release(ls_nest_map(inputs, note_operand, &all));
  const ls_attr attrs[] = {LS_OWN_I(NUM_INPUTS, (int64_t)all.count),
                           LS_OWN_O(GRADIENT, &object->object)};
  ls_nest_release(ls_nest_map(outputs, note_operand, &all));
  all.op =
      ls_make_op(LS_OP_CUSTOM_GRADIENT, NULL, all.items, all.count, attrs, 2);
  *out_result = ls_nest_map(outputs, take_output, &all);
  return ls_ok();
}

static ls_status build(ls_graph *graph, ls_flow_callback forward,
                       ls_gradient_callback gradient, void *user,
                       ls_nest inputs, ls_nest *out_result) {
  LS_OWN(ls_nest, tensors) = ls_nest_map(inputs, to_tensor, NULL);
  LS_RETURN_IF_ERROR(ls_nest_status(tensors));
  const size_t before = graph->num_nodes;
  if (forward == NULL || gradient == NULL)
    return ls_invalid_argument("the %s callback is NULL",
                               forward == NULL ? "forward" : "gradient");
  LS_OWN(ls_nest, made) = forward(tensors, user);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  LS_RETURN_IF_ERROR(check_reads(graph, before));
  LS_OWN(ls_nest, outputs) = ls_nest_map(made, to_tensor, NULL);
  LS_RETURN_IF_ERROR(ls_nest_status(outputs));
  return add_op(graph, gradient, user, tensors, outputs, out_result);
}

ls_nest ls_custom_gradient(ls_flow_callback forward,
                           ls_gradient_callback gradient, void *user,
                           ls_nest inputs) {
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  if (graph == NULL || ls_nest_is_failed(inputs)) return inputs;
  ls_nest result = ls_none();
  const ls_status status = LS_TRIAL_WITH(
      &result, build(graph, forward, gradient, user, inputs, &result));
  ls_nest_release(inputs);
  if (ls_status_is_ok(status)) return result;
  ls_make_failed("custom_gradient", ls_status_clone(status));
  return ls_fail(status);
}

// ---- Barriers --------------------------------------------------------------
static ls_status make_barrier(const ls_graph *graph, ls_nest values,
                              ls_nest *out_result) {
  LS_OWN_ARRAY_OR_RETURN(graph->allocator, ls_tensor, items,
                         ls_nest_num_leaves(values) + 1);
  operands all = {.items = items};
  ls_nest_release(ls_nest_map(values, note_operand, &all));
  all.op = ls_make_op(LS_OP_BARRIER, NULL, items, all.count, NULL, 0);
  *out_result = ls_nest_map(values, take_output, &all);
  return ls_ok();
}

ls_nest ls_barrier(ls_nest values) {
  const ls_graph *graph = ls_graph_current();
  if (graph == NULL || ls_nest_is_failed(values)) return values;
  ls_nest result = ls_none();
  const ls_status status = make_barrier(graph, values, &result);
  ls_nest_release(values);
  if (ls_status_is_ok(status)) return result;
  ls_make_failed("barrier", ls_status_clone(status));
  return ls_fail(status);
}

// ---- Objects ---------------------------------------------------------------
static void custom_gradient_destroy(ls_object *object) {
  ls_custom_gradient_object *self = (ls_custom_gradient_object *)object;
  ls_nest_release(self->inputs);
  ls_nest_release(self->outputs);
  ls_release(self->allocator, self);
}

static bool same_structure(ls_nest a, ls_nest b) {
  ls_status status = ls_nest_same_structure(a, b);
  const bool same = ls_status_is_ok(status);
  ls_status_free(status);
  return same;
}

static bool gradients_are_equal(const ls_object *a, const ls_object *b) {
  const ls_custom_gradient_object *x = (const ls_custom_gradient_object *)a;
  const ls_custom_gradient_object *y = (const ls_custom_gradient_object *)b;
  return x->gradient == y->gradient && x->user == y->user &&
         same_structure(x->inputs, y->inputs) &&
         same_structure(x->outputs, y->outputs);
}

const ls_object_type ls_custom_gradient_type = {.name = "custom_gradient",
                                                .destroy =
                                                    custom_gradient_destroy,
                                                .equal = gradients_are_equal};
