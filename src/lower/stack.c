// SPDX-License-Identifier: Apache-2.0
//
// Lowers stacks and finds the types of their elements.
//
// A stack is made before anything is pushed, and other regions push and pop.
// Facts about a stack are therefore kept outside of the graph, for all values
// of one stack_new op, and are written into that op once they are known.
#include "base/memory/own.h"
#include "graph/walk.h"
#include "lockstep/shape_rules.h"
#include "lower/ops.h"

// A stack_new that waits for its element type.
typedef struct stack_maker {
  struct stack_maker *next;
  ls_graph *graph;
  ls_node *node;
} stack_maker;

struct ls_lower_stack {
  ls_lower_stack *same;  // The stack whose facts count for this one, or NULL.
  bool is_known;
  ls_type element;
  ls_lower_stack *inner;  // Facts of the elements, if these are stacks.
  stack_maker *makers;
};

// ---- Facts -----------------------------------------------------------------
// The key has the graph's id, not its address, because lowering again may put
// new graphs at old addresses.
typedef struct stack_key {
  uint64_t graph, ref;
} stack_key;

static ls_lower_stack *stack_root_of(ls_lower_stack *stack) {
  while (stack != NULL && stack->same != NULL)
    stack = stack->same;
  return stack;
}

ls_lower_stack *ls_lower_stack_new(ls_lowering *all) {
  return ls_arena_new(&all->program->body->arena, ls_lower_stack);
}

ls_lower_stack *ls_lower_stack_of(const ls_lowering *all, const ls_graph *graph,
                                  uint64_t ref) {
  const stack_key key = {graph->id, ref};
  return stack_root_of(ls_map_find(&all->stacks, &key, sizeof(key)));
}

ls_status ls_lower_stack_set(ls_lowering *all, const ls_graph *graph,
                             uint64_t ref, ls_lower_stack *stack) {
  const stack_key key = {graph->id, ref};
  if (stack == NULL || ls_map_insert(&all->stacks, &key, sizeof(key), stack))
    return ls_ok();
  return ls_out_of_memory();
}

static ls_status tell_maker(const stack_maker *maker, ls_type element) {
  const ls_attr dtype = LS_OWN_T(DTYPE, element.dtype);
  const ls_attr shape = LS_OWN_SH(SHAPE, element.shape);
  LS_RETURN_IF_ERROR(ls_node_set_attr(maker->graph, maker->node, &dtype));
  return ls_node_set_attr(maker->graph, maker->node, &shape);
}

static ls_status set_element(ls_lowering *all, ls_lower_stack *stack,
                             ls_type element) {
  if (stack->is_known) {
    if (stack->element.dtype == element.dtype &&
        ls_shape_equal(stack->element.shape, element.shape))
      return ls_ok();
    return ls_invalid_argument(
        "a stack of %s is used as one of %s",
        LS_SHAPE_TEXT(stack->element.dtype, stack->element.shape),
        LS_SHAPE_TEXT(element.dtype, element.shape));
  }
  stack->is_known = true;
  stack->element = element;
  if (element.dtype == LS_DTYPE_VARIANT && stack->inner == NULL) {
    stack->inner = ls_lower_stack_new(all);
    if (stack->inner == NULL) return ls_out_of_memory();
  }
  for (const stack_maker *at = stack->makers; at != NULL; at = at->next)
    LS_RETURN_IF_ERROR(tell_maker(at, element));
  stack->makers = NULL;
  return ls_ok();
}

// Returns true if `inner` is an element of `stack`, at any depth.
static bool stack_holds(const ls_lower_stack *stack,
                        const ls_lower_stack *inner) {
  const ls_lower_stack *at = stack_root_of(stack->inner);
  while (at != NULL && at != inner)
    at = stack_root_of(at->inner);
  return at != NULL;
}

// Unifies the facts of `a` and `b`, except the facts about their elements.
static ls_status stack_join(ls_lowering *all, ls_lower_stack *a,
                            ls_lower_stack *b) {
  if (stack_holds(a, b) || stack_holds(b, a))
    return ls_invalid_argument(
        "a stack is pushed on itself, or on one of its elements");
  if (a->is_known) LS_RETURN_IF_ERROR(set_element(all, b, a->element));
  if (b->is_known) LS_RETURN_IF_ERROR(set_element(all, a, b->element));
  while (a->makers != NULL) {
    stack_maker *maker = a->makers;
    a->makers = maker->next;
    maker->next = b->makers;
    b->makers = maker;
  }
  return ls_ok();
}

ls_status ls_lower_stack_unify(ls_lowering *all, ls_lower_stack *a,
                               ls_lower_stack *b) {
  for (a = stack_root_of(a), b = stack_root_of(b);
       a != NULL && b != NULL && a != b;) {
    LS_RETURN_IF_ERROR(stack_join(all, a, b));
    ls_lower_stack *const inner = stack_root_of(a->inner);
    if (b->inner == NULL) b->inner = inner;
    a->same = b;
    a = inner;
    b = stack_root_of(b->inner);
  }
  return ls_ok();
}

static ls_status add_maker(ls_lowering *all, ls_lower_stack *stack,
                           ls_graph *graph, ls_node *node) {
  const stack_maker maker = {stack->makers, graph, node};
  if (stack->is_known) return tell_maker(&maker, stack->element);
  stack->makers =
      ls_arena_copy(&all->program->body->arena, &maker, sizeof(maker));
  return ls_memory_status(stack->makers != NULL);
}

// ---- Ops -------------------------------------------------------------------
ls_status ls_lower_stack_make(ls_lower_scope *scope, ls_lower_stack *stack,
                              const ls_attr *attrs, size_t num_attrs,
                              const ls_node *origin, uint64_t *out_ref) {
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_STACK_NEW, NULL, 0, attrs,
                                   num_attrs, origin, out_ref));
  ls_node *made = ls_graph_node_of(scope->to, *out_ref);
  stack = stack_root_of(stack);
  LS_RETURN_IF_ERROR(add_maker(scope->all, stack, scope->to, made));
  return ls_lower_stack_set(scope->all, scope->to, *out_ref, stack);
}

ls_status ls_lower_stack_push(ls_lower_scope *scope, uint64_t stack,
                              uint64_t value, const ls_node *origin,
                              uint64_t *out_ref) {
  ls_lowering *all = scope->all;
  ls_lower_stack *known = ls_lower_stack_of(all, scope->to, stack);
  if (known == NULL) return ls_internal("a stack that comes from nowhere");
  LS_RETURN_IF_ERROR(set_element(all, known, ls_lowered_type(scope, value)));
  LS_RETURN_IF_ERROR(ls_lower_stack_unify(
      all, ls_lower_stack_of(all, scope->to, value), known->inner));
  const uint64_t inputs[] = {stack, value};
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_STACK_PUSH, inputs, 2, NULL, 0,
                                   origin, out_ref));
  return ls_lower_stack_set(all, scope->to, *out_ref, known);
}

ls_status lower_stack_new(ls_lower_scope *scope, ls_node *node) {
  ls_lower_stack *stack = ls_lower_stack_new(scope->all);
  if (stack == NULL) return ls_out_of_memory();
  const ls_attr *dtype = ls_node_attr(node, LS_ATTR_ID_DTYPE);
  const ls_attr *shape = ls_node_attr(node, LS_ATTR_ID_SHAPE);
  const ls_attr *endless = ls_node_attr(node, LS_ATTR_ID_ENDLESS);
  if (dtype != NULL && shape != NULL && ls_shape_is_known(shape->as.shape))
    LS_RETURN_IF_ERROR(set_element(
        scope->all, stack, (ls_type){dtype->as.dtype, shape->as.shape}));
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_lower_stack_make(scope, stack, endless,
                                         endless != NULL ? 1 : 0, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

ls_status lower_stack_push(ls_lower_scope *scope, ls_node *node) {
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(
      ls_lower_stack_push(scope, ls_lowered(scope, node->inputs[0]),
                          ls_lowered(scope, node->inputs[1]), node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// Finds the element type for a pop: the type of pushed values, or the type in
// the op.
static ls_status find_element(ls_lower_scope *scope, const ls_node *node,
                              ls_lower_stack *stack) {
  const ls_type op_type = {ls_node_attr(node, LS_ATTR_ID_DTYPE)->as.dtype,
                           ls_node_attr(node, LS_ATTR_ID_SHAPE)->as.shape};
  if (!stack->is_known) {
    if (ls_shape_is_known(op_type.shape))
      return set_element(scope->all, stack, op_type);
    return ls_invalid_argument(
        "a value %s is popped from a stack whose element type is not known yet",
        LS_SHAPE_TEXT(op_type.dtype, op_type.shape));
  }
  if (op_type.dtype == stack->element.dtype &&
      ls_shape_compatible(op_type.shape, stack->element.shape))
    return ls_ok();
  return ls_invalid_argument(
      "a value %s is taken from a stack of %s",
      LS_SHAPE_TEXT(op_type.dtype, op_type.shape),
      LS_SHAPE_TEXT(stack->element.dtype, stack->element.shape));
}

ls_status lower_stack_pop(ls_lower_scope *scope, ls_node *node) {
  const uint64_t from = ls_lowered(scope, node->inputs[0]);
  ls_lower_stack *stack = ls_lower_stack_of(scope->all, scope->to, from);
  if (stack == NULL) return ls_internal("a stack that comes from nowhere");
  LS_RETURN_IF_ERROR(find_element(scope, node, stack));
  const ls_attr attrs[] = {LS_OWN_T(DTYPE, stack->element.dtype),
                           LS_OWN_SH(SHAPE, stack->element.shape)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(ls_lower_append(scope,
                                     &(ls_op_spec){.type = LS_OP_STACK_POP,
                                                   .num_inputs = 1,
                                                   .attrs = attrs,
                                                   .num_attrs = 2},
                                     &from, node, &made));
  ls_lower_stack *const holds[] = {stack, stack->inner};
  for (unsigned i = 0; i < 2; ++i) {
    const uint64_t ref = ls_ref(made->id, i);
    LS_RETURN_IF_ERROR(
        ls_lower_stack_set(scope->all, scope->to, ref, holds[i]));
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, i), ref));
  }
  return ls_ok();
}

// ---- Single use ------------------------------------------------------------
static ls_status used_again(const ls_graph *graph, ls_node *node) {
  char text[LS_MAX_FULL_NAME];
  ls_graph *named = ls_graph_resolve(node->origin.graph);
  ls_node *origin =
      named == NULL ? NULL : ls_graph_node(named, node->origin.id);
  if (origin == NULL) {
    named = (ls_graph *)(uintptr_t)graph;
    origin = node;
  }
  return ls_invalid_argument(
      "a value of a stack must be used once, by the op that makes the next "
      "one: %s uses one that is used elsewhere, or in each iteration of a loop",
      ls_node_describe(named, origin, text, sizeof(text)));
}

// Checks the stacks among a node's operands; `used` has the values used so far.
// Two branches may use the same value, because only one of them runs.
static ls_status check_uses(const ls_graph *graph, ls_node *node,
                            ls_map *used) {
  const size_t carried = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED);
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const uint64_t ref = node->inputs[i];
    if (!ls_is_stack(graph, ref)) continue;
    const void *by = ls_map_find_u64(used, ref);
    if ((by != NULL && (by != node || node->type != LS_OP_COND)) ||
        (node->type == LS_OP_WHILE && i >= carried))
      return used_again(graph, node);
    if (!ls_map_insert_u64(used, ref, node)) return ls_out_of_memory();
  }
  return ls_ok();
}

static ls_status check_results(const ls_graph *graph, ls_map *used) {
  for (size_t i = 0; i < graph->num_results; ++i) {
    const uint64_t ref = graph->results[i];
    if (!ls_is_stack(graph, ref)) continue;
    ls_node *node = ls_graph_node_of(graph, ref);
    if (ls_map_find_u64(used, ref) != NULL) return used_again(graph, node);
    if (!ls_map_insert_u64(used, ref, node)) return ls_out_of_memory();
  }
  return ls_ok();
}

static ls_status check_graph(ls_graph *graph, void *user) {
  (void)user;
  LS_OWN(ls_map, used) = {0};
  ls_map_init(&used, graph->allocator);
  for (size_t i = 0; i < graph->num_nodes; ++i)
    LS_RETURN_IF_ERROR(check_uses(graph, graph->nodes[i], &used));
  return check_results(graph, &used);
}

ls_status ls_check_stacks(ls_graph *graph) {
  return ls_graph_each(graph, check_graph, NULL);
}
