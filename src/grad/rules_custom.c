// SPDX-License-Identifier: Apache-2.0
//
// The rule of custom_gradient: calls the user's callback.
#include "base/memory/own.h"
#include "grad/rules.h"
#include "grad/walk.h"
#include "graph/callbacks.h"
#include "graph/region.h"
#include "lockstep/shape_rules.h"

// State of replacing the numbers of a structure by values.
typedef struct filling {
  ls_gradient *g;
  size_t next;
} filling;

static ls_nest next_input(ls_nest leaf, void *user) {
  filling *f = user;
  if (leaf.kind != LS_KIND_SCALAR) return ls_nest_retain(leaf);
  return ls_leaf(ls_gradient_input(f->g, f->next++));
}

static ls_nest next_output(ls_nest leaf, void *user) {
  filling *f = user;
  if (leaf.kind != LS_KIND_SCALAR) return ls_nest_retain(leaf);
  return ls_leaf(ls_gradient_output(f->g, f->next++));
}

static ls_nest next_gradient(ls_nest leaf, void *user) {
  filling *f = user;
  if (leaf.kind != LS_KIND_SCALAR) return ls_nest_retain(leaf);
  const size_t i = f->next++;
  if (f->g->dout[i].ref != 0) return ls_leaf(f->g->dout[i]);
  const ls_tensor like = ls_gradient_output(f->g, i);
  if (!ls_dtype_is_trainable(ls_tensor_dtype(like))) return ls_none();
  return ls_leaf(ls_broadcast_like(ls_gradient_number(like, 0), like));
}

static ls_nest rules_custom_fill(ls_gradient *g, ls_nest structure,
                                 ls_leaf_function next) {
  filling f = {.g = g};
  return ls_nest_map(structure, next, &f);
}

// Takes the returned gradients, in the order of the inputs.
static ls_status rules_custom_take(ls_gradient *g,
                                   const ls_custom_gradient_object *object,
                                   ls_nest made) {
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  ls_arena *arena = g->walk->context->arena;
  const size_t count = ls_nest_num_leaves(object->inputs);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_nest, inputs, count);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_nest, leaves, count);
  ls_nest_flatten(object->inputs, inputs, count);
  const size_t given = ls_nest_flatten(made, leaves, count);
  if (given != count)
    return ls_invalid_argument(
        "op '%s' (%s): its gradient callback gave %zu gradients for %zu inputs",
        ls_op_name(g->op), ls_op_type_name(g->op), given, count);
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (inputs[i].kind != LS_KIND_SCALAR) continue;
    const size_t at = next++;
    if (leaves[i].kind == LS_KIND_NONE || !g->wanted[at]) continue;
    LS_RETURN_IF_ERROR(ls_region_tensor(leaves[i], &g->din[at]));
  }
  return ls_ok();
}

ls_status gradient_custom_gradient(ls_gradient *g) {
  const ls_attr *attr = ls_node_attr(g->node, LS_ATTR_ID_GRADIENT);
  if (attr->as.object == NULL ||
      attr->as.object->type != &ls_custom_gradient_type)
    return ls_invalid_argument("op '%s' (%s): its attribute 'gradient' is no "
                               "callback",
                               ls_op_name(g->op), ls_op_type_name(g->op));
  const ls_custom_gradient_object *object =
      (const ls_custom_gradient_object *)attr->as.object;
  LS_OWN(ls_nest, inputs) = rules_custom_fill(g, object->inputs, next_input);
  LS_OWN(ls_nest, outputs) = rules_custom_fill(g, object->outputs, next_output);
  LS_OWN(ls_nest, gradients) =
      rules_custom_fill(g, object->outputs, next_gradient);
  LS_OWN(ls_nest, made) = ls_none();
  if (g->walk->failure == NULL) {
    made = object->gradient(inputs, outputs, gradients, object->user);
    LS_RETURN_IF_ERROR(rules_custom_take(g, object, made));
  }
  return ls_ok();
}
