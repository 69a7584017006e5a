// SPDX-License-Identifier: Apache-2.0
//
// Rematerialization: results that a gradient can compute again are not kept.
//
// A result y of gelu or a layer norm is an operand of a product, and much later
// of the gradient of that product's weights, up to which it occupies memory.
// But its own gradient follows right after that one and has all its operands,
// so it computes y again, in x's memory, and the weights' gradient waits for
// it:
//
//   y = gelu(x)                         y = gelu(x)
//   z = y w                             z = y w
//   ...                                 ...
//   dw = y' dz                          dx, again = gelu_again(dz w', x)
//   dx = gelu_grad(dz w', x)            dw = again' dz
//
// The bits are the same. Meanwhile y's memory serves the next layers.
// graph/lowered_ops.def lists the ops.
//
// Decisions are made op by op on the original graph and written into it at the
// end. A node that a decision depends on is fixed in its position.
//
// Each node is visited a few times, for any graph. One pass over all nodes
// finds, for each, its first dependent that must stay or computes again itself,
// so that a search starts only if none of these precedes the gradient; a node
// that a search has visited waits from then on, or never will.
#include "engine/cpu/passes/passes.h"
#include "graph/compare/compare.h"
#include "graph/passes/rewrite.h"
#include "graph/walk.h"

// A row of graph/lowered_ops.def.
typedef struct again_row {
  uint16_t op, gradient;
  uint32_t shared;
  uint16_t again;
} again_row;

static const again_row rows[] = {
#define LS_OP(...)
#define LS_AGAIN(op, gradient, shared, again)                                  \
  {LS_OP_##op, LS_OP_##gradient, shared, LS_OP_##again},
#include "graph/lowered_ops.def"
#undef LS_AGAIN
#undef LS_OP
};

// Facts about a node.
typedef struct fate {
  // Table row of the op's gradient that can recompute its result; NULL: none.
  const again_row *row;
  uint64_t gradient;
  uint64_t limit;  // First dependent that must stay, or computes again.
  uint64_t giver;  // Node to wait for and to take y from; 0: none.
  uint64_t taken;  // The y that the node takes.
  uint64_t seen;   // Number of the last search that visited the node.
  bool fixed;      // Cannot wait: not pure, or fixed by a decision.
  bool stays;      // Cannot wait: a search failed at the node.
  bool may_give;   // A gradient that could recompute an op's result,
  bool gives;      // and that does recompute it.
  bool is_given;   // The gradient recomputes this op's result.
} fate;

typedef struct plan {
  ls_rewrite *r;
  fate *of;           // Per id. Ids of a lowered graph are dense.
  uint64_t *path;     // Nodes still to visit in a search.
  uint64_t *waiting;  // Nodes that shall wait for the gradient.
  size_t num_waiting;
  uint64_t searches;
  uint64_t y, gradient;  // The current op's result, and its gradient.
  bool changed;
} plan;

static ls_node *node_at(const plan *p, uint64_t id) {
  return p->r->graph->nodes[id - 1];
}

static bool is_pure(const ls_node *node) {
  return node->num_regions == 0 && node->num_control == 0 &&
         !(ls_node_info(node)->traits &
           (LS_OP_EFFECT | LS_OP_ON_HOST | LS_OP_MERGE | LS_OP_LINEAR));
}

// ---- Gradients that can compute again --------------------------------------
static const again_row *row_of(const ls_node *op) {
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    if (rows[i].op == op->type) return &rows[i];
  return NULL;
}

static bool is_same_type(ls_type a, ls_type b) {
  return a.dtype == b.dtype && ls_shape_equal(a.shape, b.shape);
}

// Returns true if `node` is the gradient of `op` for operand 0. A varying node
// cannot recompute a value that is the same on all replicas, nor the reverse.
static bool is_gradient(const plan *p, const again_row *row, const ls_node *op,
                        const ls_node *node) {
  if (node->type != row->gradient || node->id <= op->id ||
      node->varying != op->varying || node->once != op->once ||
      node->num_attrs != op->num_attrs ||
      !is_same_type(ls_graph_type(p->r->graph, node->inputs[0]),
                    op->outputs[0]))
    return false;
  for (uint32_t i = 0; i < row->shared; ++i)
    if (node->inputs[i + 1] != op->inputs[i]) return false;
  for (uint32_t i = 0; i < op->num_attrs; ++i)
    if (!ls_attr_equal(&node->attrs[i], &op->attrs[i])) return false;
  return true;
}

// Searches the users of the operand with the fewest users.
static void find_gradient(plan *p, const ls_node *op) {
  const again_row *row = row_of(op);
  if (row == NULL || p->of[op->id].fixed) return;
  uint64_t fewest = ls_ref_id(op->inputs[0]);
  for (uint32_t i = 1; i < row->shared; ++i)
    if (ls_rewrite_count_uses(p->r, ls_ref_id(op->inputs[i])) <
        ls_rewrite_count_uses(p->r, fewest))
      fewest = ls_ref_id(op->inputs[i]);
  for (const ls_node_use *use = ls_rewrite_first_use(p->r, fewest); use != NULL;
       use = ls_rewrite_next_use(p->r, use)) {
    if (!is_gradient(p, row, op, use->user)) continue;
    p->of[op->id].row = row;
    p->of[op->id].gradient = use->user->id;
    p->of[use->user->id].may_give = true;
    return;
  }
}

// Goes backwards: users come after their operands.
static void find_limits(plan *p) {
  for (uint64_t id = p->r->graph->num_nodes; id > 0; --id) {
    fate *at = &p->of[id];
    at->limit = UINT64_MAX;
    for (const ls_node_use *use = ls_rewrite_first_use(p->r, id); use != NULL;
         use = ls_rewrite_next_use(p->r, use)) {
      const fate *user = &p->of[use->user->id];
      const uint64_t limit =
          user->fixed || user->may_give ? use->user->id : user->limit;
      if (limit < at->limit) at->limit = limit;
    }
  }
}

static ls_status find_fates(plan *p) {
  const ls_graph *graph = p->r->graph;
  ls_allocator *allocator = graph->allocator;
  p->of = ls_new_array(allocator, fate, graph->num_nodes + 1);
  p->path = ls_new_array(allocator, uint64_t, p->r->num_uses + 1);
  p->waiting = ls_new_array(allocator, uint64_t, graph->num_nodes + 1);
  if (p->of == NULL || p->path == NULL || p->waiting == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < graph->num_nodes; ++i)
    p->of[i + 1].fixed = !is_pure(graph->nodes[i]);
  for (size_t i = 0; i < graph->num_nodes; ++i)
    find_gradient(p, graph->nodes[i]);
  find_limits(p);
  return ls_ok();
}

// ---- Nodes that can wait ---------------------------------------------------
// Returns true if `id` comes after the gradient, by position or by waiting.
static bool is_behind(const plan *p, uint64_t id) {
  const uint64_t at = p->of[id].giver != 0 ? p->of[id].giver : id;
  return at >= p->gradient && id != p->gradient;
}

static bool lives_on(const plan *p) {
  for (const ls_node_use *use = ls_rewrite_first_use(p->r, p->y); use != NULL;
       use = ls_rewrite_next_use(p->r, use))
    if (is_behind(p, use->user->id)) return true;
  return ls_rewrite_count_leaving(p->r, p->y) != 0;
}

// Visits all dependents of `user` that come before the gradient. Returns false
// if one of them must stay: then so must all nodes that led there, and neither
// these nor the visited ones are searched again.
static bool can_wait(plan *p, uint64_t user) {
  const size_t before = p->num_waiting;
  size_t depth = 0;
  if (!is_behind(p, user) && p->of[user].limit <= p->gradient) return false;
  p->path[depth++] = user;
  while (depth > 0) {
    const uint64_t id = p->path[--depth];
    fate *at = &p->of[id];
    if (at->seen == p->searches || is_behind(p, id)) continue;
    at->seen = p->searches;
    if (at->fixed || at->stays || at->may_give) {
      while (p->num_waiting > before)
        p->of[p->waiting[--p->num_waiting]].stays = true;
      return false;
    }
    p->waiting[p->num_waiting++] = id;
    for (const ls_node_use *use = ls_rewrite_first_use(p->r, id); use != NULL;
         use = ls_rewrite_next_use(p->r, use))
      if (p->of[use->user->id].seen != p->searches)
        p->path[depth++] = use->user->id;
  }
  return true;
}

// Finds the nodes that are to wait: users of y after the last one that cannot,
// and their dependents. Returns true if there are any.
static bool find_waiting(plan *p) {
  p->num_waiting = 0;
  ++p->searches;
  for (const ls_node_use *use = ls_rewrite_last_use(p->r, p->y); use != NULL;
       use = ls_rewrite_previous_use(p->r, use))
    if (use->user->id != p->gradient && !can_wait(p, use->user->id)) break;
  return p->num_waiting > 0;
}

static void decide(plan *p, const ls_node *op) {
  const fate *own = &p->of[op->id];
  if (own->row == NULL || own->fixed || own->giver != 0 ||
      p->of[own->gradient].giver != 0 || p->of[own->gradient].gives)
    return;
  p->y = op->id;
  p->gradient = own->gradient;
  if (lives_on(p) || !find_waiting(p)) return;
  for (size_t i = 0; i < p->num_waiting; ++i) {
    fate *at = &p->of[p->waiting[i]];
    at->giver = p->gradient;
    at->taken = ls_ref(op->id, 0);
    at->fixed = true;
  }
  // Nodes that make operands for the op only must stay before it.
  for (uint32_t i = own->row->shared; i < op->num_inputs; ++i)
    p->of[ls_ref_id(op->inputs[i])].fixed = true;
  p->of[p->gradient].gives = p->of[p->gradient].fixed = true;
  p->of[p->y].is_given = true;
  p->changed = true;
}

// ---- Applying the decisions ------------------------------------------------
static ls_status become_giver(const plan *p, const ls_node *op) {
  const again_row *row = p->of[op->id].row;
  ls_node *node = node_at(p, p->of[op->id].gradient);
  uint64_t inputs[8];
  uint32_t count = node->num_inputs;
  LS_ASSERT(count + op->num_inputs - row->shared <= LS_COUNT_OF(inputs));
  memcpy(inputs, node->inputs, count * sizeof(*inputs));
  for (uint32_t i = row->shared; i < op->num_inputs; ++i)
    inputs[count++] = op->inputs[i];
  node->type = row->again;
  LS_RETURN_IF_ERROR(ls_rewrite_add_output(p->r, node, 1, op->outputs[0]));
  return ls_rewrite_set_inputs(p->r, node, inputs, count);
}

// Applies the decisions: nodes that wait take y from the gradient and follow
// it, in their previous order.
static ls_status write_down(plan *p) {
  const uint64_t count = p->r->graph->num_nodes;
  for (uint64_t id = 1; id <= count; ++id)
    if (p->of[id].is_given) LS_RETURN_IF_ERROR(become_giver(p, node_at(p, id)));
  for (uint64_t id = count; id > 0; --id) {
    const fate *own = &p->of[id];
    ls_node *node = node_at(p, id);
    if (own->giver == 0) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      if (node->inputs[k] == own->taken)
        ls_rewrite_set_input(p->r, node, k, ls_ref(own->giver, 1));
    ls_rewrite_move_behind(p->r, node, node_at(p, own->giver));
  }
  return ls_ok();
}

static ls_status rematerialize(ls_rewrite *r) {
  plan p = {.r = r};
  LS_OWN_FIELD(r->graph->allocator, p.of);
  LS_OWN_FIELD(r->graph->allocator, p.path);
  LS_OWN_FIELD(r->graph->allocator, p.waiting);
  LS_RETURN_IF_ERROR(find_fates(&p));
  for (size_t i = 0; i < r->graph->num_nodes; ++i)
    decide(&p, r->graph->nodes[i]);
  return p.changed ? write_down(&p) : ls_ok();
}

static ls_status rematerialize_graph(ls_graph *graph, void *user) {
  (void)user;
  LS_OWN(ls_rewrite, r) = {0};
  LS_RETURN_IF_ERROR(ls_rewrite_begin(&r, graph));
  LS_RETURN_IF_ERROR(rematerialize(&r));
  return ls_rewrite_end(&r);
}

ls_status ls_cpu_rematerialize(ls_graph *graph) {
  return ls_graph_each(graph, rematerialize_graph, NULL);
}
