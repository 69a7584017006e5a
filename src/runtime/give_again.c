// SPDX-License-Identifier: Apache-2.0
//
// Results that a gradient can give again are not kept.
//
// What gelu or a layer norm makes is an operand of a product, and much later of
// the gradient of that product's weights, up to which it takes memory. But its
// own gradient comes right behind that one and has all it is made of, so it
// gives it once more, in x's place, and the weights' gradient waits for it:
//   y = gelu(x)                         y = gelu(x)
//   z = y w                             z = y w
//   ...                                 ...
//   dw = y' dz                          dx, again = gelu_again(dz w', x)
//   dx = gelu_grad(dz w', x)            dw = again' dz
// The bits are the same. In y's memory lie the next layers' meanwhile.
#include "runtime/lower_ops.h"

// An op's result y, and its gradient.
typedef struct giver {
  ls_graph *graph;
  size_t made, given;  // Positions of the op and of its gradient.
  uint64_t y;
  bool *stays;  // By id: the gradient, or what is not pure, needs it.
  bool *waits;  // By id: comes behind the gradient.
} giver;

// ---- Who uses what ---------------------------------------------------------
static bool uses_value(const ls_node *node, uint64_t ref) {
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (node->inputs[i] == ref) return true;
  for (uint32_t r = 0; r < node->num_regions; ++r)
    for (size_t c = 0; c < node->regions[r]->num_captures; ++c)
      if (node->regions[r]->captures[c].outer.ref == ref) return true;
  return false;
}

// Whether y is used behind the gradient.
static bool lives_on(const giver *g) {
  const ls_graph *graph = g->graph;
  for (size_t i = g->given + 1; i < graph->num_nodes; ++i)
    if (uses_value(graph->nodes[i], g->y)) return true;
  for (size_t i = 0; i < graph->num_results; ++i)
    if (graph->results[i] == g->y) return true;
  return false;
}

static bool is_pure(const ls_node *node) {
  return node->num_regions == 0 && node->num_control == 0 &&
         !(ls_node_info(node)->traits &
           (LS_OP_EFFECT | LS_OP_ON_HOST | LS_OP_MERGE | LS_OP_LINEAR));
}

// Notes what must come before the gradient. Returns the position of the last
// one of these that uses y.
static size_t mark_staying(giver *g) {
  const ls_graph *graph = g->graph;
  size_t last = g->made;
  memset(g->stays, false, graph->next_id * sizeof(*g->stays));
  for (size_t i = g->given; i > g->made; --i) {
    const ls_node *node = graph->nodes[i];
    if (i == g->given || !is_pure(node)) g->stays[node->id] = true;
    if (!g->stays[node->id]) continue;
    if (last == g->made && i != g->given && uses_value(node, g->y)) last = i;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      g->stays[ls_ref_id(node->inputs[k])] = true;
    for (uint32_t r = 0; r < node->num_regions; ++r)
      for (size_t c = 0; c < node->regions[r]->num_captures; ++c)
        g->stays[ls_ref_id(node->regions[r]->captures[c].outer.ref)] = true;
  }
  return last;
}

static bool uses_waiting(const giver *g, const ls_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (g->waits[ls_ref_id(node->inputs[i])]) return true;
  return false;
}

// Marks who shall wait: who uses y behind the last one that cannot, and who
// uses what waits.
static bool mark_waiting(giver *g) {
  const ls_graph *graph = g->graph;
  bool any = false;
  memset(g->waits, false, graph->next_id * sizeof(*g->waits));
  for (size_t i = mark_staying(g) + 1; i < g->given; ++i) {
    const ls_node *node = graph->nodes[i];
    if (!g->stays[node->id])
      g->waits[node->id] = uses_value(node, g->y) || uses_waiting(g, node);
    any |= g->waits[node->id];
  }
  return any;
}

// ---- What gives what -------------------------------------------------------
static bool is_same_type(const ls_graph *graph, uint64_t a, uint64_t b) {
  const ls_type s = ls_graph_type(graph, a), t = ls_graph_type(graph, b);
  return s.dtype == t.dtype && ls_shape_equal(s.shape, t.shape);
}

// Whether `node` is the gradient of `op` by its operand 0. What is one for all
// replicas is not given by what each has of its own, nor the reverse.
static bool is_gradient(const ls_graph *graph, const ls_node *op,
                        const ls_node *node) {
  const uint64_t x = op->inputs[0];
  if (node->varying != op->varying) return false;
  if (op->type == LS_OP_GELU)
    return node->type == LS_OP_GELU_GRAD && node->inputs[1] == x &&
           is_same_type(graph, node->inputs[0], x);
  return node->type == LS_OP_LAYER_NORM_GRAD && node->inputs[1] == x &&
         node->inputs[2] == op->inputs[1] &&
         ls_node_attr(node, "epsilon")->as.f ==
             ls_node_attr(op, "epsilon")->as.f;
}

static bool find_gradient(giver *g) {
  const ls_graph *graph = g->graph;
  const ls_node *op = graph->nodes[g->made];
  if (op->type != LS_OP_GELU && op->type != LS_OP_LAYER_NORM) return false;
  g->y = ls_ref(op->id, 0);
  for (size_t i = g->made + 1; i < graph->num_nodes; ++i) {
    if (!is_gradient(graph, op, graph->nodes[i])) continue;
    g->given = i;
    return true;
  }
  return false;
}

// ---- Changing --------------------------------------------------------------
static ls_status become_giver(ls_graph *graph, const ls_node *op,
                              ls_node *node) {
  const bool norm = op->type == LS_OP_LAYER_NORM;
  const uint32_t count = node->num_outputs;
  ls_type *outputs = ls_arena_new_array(&graph->arena, ls_type, count + 1U);
  uint64_t *inputs = ls_arena_new_array(&graph->arena, uint64_t, 4);
  if (outputs == NULL || inputs == NULL) return ls_out_of_memory();
  memcpy(inputs, node->inputs, node->num_inputs * sizeof(*inputs));
  if (norm) inputs[node->num_inputs++] = op->inputs[2];
  node->inputs = inputs;
  outputs[0] = node->outputs[0];
  memcpy(outputs + 1, node->outputs, count * sizeof(*outputs));
  node->outputs = outputs;
  ++node->num_outputs;
  node->type = norm ? LS_OP_LAYER_NORM_AGAIN : LS_OP_GELU_AGAIN;
  return ls_ok();
}

static void replace(uint64_t *ref, uint64_t from, uint64_t to) {
  if (*ref == from) *ref = to;
}

// Output 1 is y now; those behind it are one further.
static void shift_outputs(ls_graph *graph, const ls_node *node) {
  for (unsigned k = node->num_outputs - 1U; k-- > 1;) {
    const uint64_t from = ls_ref(node->id, k), to = ls_ref(node->id, k + 1);
    for (size_t i = 0; i < graph->num_nodes; ++i) {
      ls_node *user = graph->nodes[i];
      for (uint32_t n = 0; n < user->num_inputs; ++n)
        replace(&user->inputs[n], from, to);
      for (uint32_t r = 0; r < user->num_regions; ++r)
        for (size_t c = 0; c < user->regions[r]->num_captures; ++c)
          replace(&user->regions[r]->captures[c].outer.ref, from, to);
    }
    for (size_t i = 0; i < graph->num_results; ++i)
      replace(&graph->results[i], from, to);
  }
}

// Moves those who wait behind the gradient, in their order.
static ls_status move_waiting(const giver *g, uint64_t again) {
  ls_graph *graph = g->graph;
  const size_t first = g->made + 1, end = g->given + 1;
  ls_node **nodes = ls_new_array(graph->allocator, ls_node *, end - first);
  if (nodes == NULL) return ls_out_of_memory();
  size_t count = 0;
  for (size_t i = first; i < end; ++i)
    if (!g->waits[graph->nodes[i]->id]) nodes[count++] = graph->nodes[i];
  for (size_t i = first; i < end; ++i) {
    ls_node *node = graph->nodes[i];
    if (!g->waits[node->id]) continue;
    for (uint32_t n = 0; n < node->num_inputs; ++n)
      replace(&node->inputs[n], g->y, again);
    nodes[count++] = node;
  }
  memcpy(graph->nodes + first, nodes, count * sizeof(*nodes));
  ls_release(graph->allocator, nodes);
  return ls_ok();
}

// Ids ascend again.
static ls_status renumber(ls_graph *graph) {
  bool *keep = ls_new_array(graph->allocator, bool, graph->next_id);
  if (keep == NULL) return ls_out_of_memory();
  memset(keep, true, graph->next_id * sizeof(*keep));
  const ls_status status = ls_graph_keep_nodes(graph, keep);
  ls_release(graph->allocator, keep);
  return status;
}

static ls_status give_again(giver *g) {
  if (!find_gradient(g) || lives_on(g) || !mark_waiting(g)) return ls_ok();
  ls_graph *graph = g->graph;
  ls_node *node = graph->nodes[g->given];
  LS_RETURN_IF_ERROR(become_giver(graph, graph->nodes[g->made], node));
  shift_outputs(graph, node);
  LS_RETURN_IF_ERROR(move_waiting(g, ls_ref(node->id, 1)));
  return renumber(graph);
}

ls_status ls_give_again(ls_graph *graph) {
  giver g = {.graph = graph,
             .stays = ls_new_array(graph->allocator, bool, graph->next_id),
             .waits = ls_new_array(graph->allocator, bool, graph->next_id)};
  ls_status status =
      g.stays == NULL || g.waits == NULL ? ls_out_of_memory() : ls_ok();
  for (; status == NULL && g.made < graph->num_nodes; ++g.made)
    status = give_again(&g);
  ls_release(graph->allocator, g.stays);
  ls_release(graph->allocator, g.waits);
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t r = 0; status == NULL && r < graph->nodes[i]->num_regions;
         ++r)
      status = ls_give_again(graph->nodes[i]->regions[r]);
  return status;
}
