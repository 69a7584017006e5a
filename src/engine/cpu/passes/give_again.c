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
//
// It is decided op by op on the graph as it was, with a list of each value's
// users; what was decided is written into the graph at the end. A node that
// such a decision was about stays where it is then.
#include "engine/cpu/passes/passes.h"

// What is known of a node. Ids of a lowered graph are dense: they are places.
typedef struct fate {
  size_t first, end;  // Who uses its results: from here to there in `users`.
  uint64_t giver;     // It waits for this node and takes y from it; 0: no.
  uint64_t taken;     // y, where it waits.
  uint64_t seen;      // The last search that came by.
  bool fixed;         // Does not wait: not pure, or decided.
  bool leaves;        // Result 0 is one of the graph's.
  bool gives;         // Gives again: its results but the first are one further.
} fate;

typedef struct giver {
  ls_graph *graph;
  fate *of;           // By id.
  uint64_t *users;    // Ids that ascend, for each node.
  uint64_t *path;     // Of a search: what is still to be looked at.
  uint64_t *waiting;  // Who shall wait for the gradient.
  size_t num_waiting;
  uint64_t searches;
  bool changed;
  const ls_node *op;  // Its result 0 is y,
  ls_node *gradient;  // and this its gradient.
} giver;

static ls_node *node_at(const giver *g, uint64_t id) {
  return g->graph->nodes[id - 1];
}

// ---- Who uses what ---------------------------------------------------------
static bool is_pure(const ls_node *node) {
  return node->num_regions == 0 && node->num_control == 0 &&
         !(ls_node_info(node)->traits &
           (LS_OP_EFFECT | LS_OP_ON_HOST | LS_OP_MERGE | LS_OP_LINEAR));
}

// What a region captures is an operand of its node, so operands are all uses.
static ls_status list_users(giver *g) {
  const ls_graph *graph = g->graph;
  ls_allocator *allocator = graph->allocator;
  size_t count = 0;
  g->of = ls_new_array(allocator, fate, graph->num_nodes + 2);
  if (g->of == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    g->of[node->id].fixed = !is_pure(node);
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      ++g->of[ls_ref_id(node->inputs[k])].end;
    count += node->num_inputs;
  }
  g->users = ls_new_array(allocator, uint64_t, count + 1);
  g->path = ls_new_array(allocator, uint64_t, count + 1);
  g->waiting = ls_new_array(allocator, uint64_t, graph->num_nodes + 1);
  if (g->users == NULL || g->path == NULL || g->waiting == NULL)
    return ls_out_of_memory();
  size_t next = 0;
  for (size_t id = 1; id <= graph->num_nodes; ++id) {
    next += g->of[id].end;
    g->of[id].first = g->of[id].end = next - g->of[id].end;
  }
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t k = 0; k < graph->nodes[i]->num_inputs; ++k) {
      fate *from = &g->of[ls_ref_id(graph->nodes[i]->inputs[k])];
      g->users[from->end++] = graph->nodes[i]->id;
    }
  for (size_t i = 0; i < graph->num_results; ++i)
    if (ls_ref_output(graph->results[i]) == 0)
      g->of[ls_ref_id(graph->results[i])].leaves = true;
  return ls_ok();
}

// Whether `id` stands behind the gradient, by itself or since it waits.
static bool is_behind(const giver *g, uint64_t id) {
  const uint64_t at = g->of[id].giver != 0 ? g->of[id].giver : id;
  return at >= g->gradient->id && id != g->gradient->id;
}

static bool lives_on(const giver *g) {
  const fate *y = &g->of[g->op->id];
  for (size_t i = y->first; i < y->end; ++i)
    if (is_behind(g, g->users[i])) return true;
  return y->leaves;
}

// Whether a user of y can wait: nothing between it and the gradient, nor the
// gradient, comes of it that must stay. Then it waits, with what comes of it.
// The way that is looked at first is the one that leads furthest.
static bool can_wait(giver *g, uint64_t user) {
  const size_t before = g->num_waiting;
  size_t depth = 0;
  g->path[depth++] = user;
  while (depth > 0) {
    const uint64_t id = g->path[--depth];
    fate *at = &g->of[id];
    if (at->seen == g->searches || is_behind(g, id)) continue;
    at->seen = g->searches;
    if (at->fixed || id == g->gradient->id) {
      g->num_waiting = before;
      return false;
    }
    g->waiting[g->num_waiting++] = id;
    for (size_t i = at->first; i < at->end; ++i)
      if (g->of[g->users[i]].seen != g->searches)
        g->path[depth++] = g->users[i];
  }
  return true;
}

// Finds who shall wait: who uses y behind the last one that cannot, and what
// comes of them. Whether there is somebody.
static bool find_waiting(giver *g) {
  const fate *y = &g->of[g->op->id];
  g->num_waiting = 0;
  ++g->searches;
  for (size_t i = y->end; i > y->first; --i) {
    const uint64_t user = g->users[i - 1];
    if (user != g->gradient->id && !can_wait(g, user)) break;
  }
  return g->num_waiting > 0;
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
  if (node->varying != op->varying || node->once != op->once) return false;
  if (op->type == LS_OP_GELU)
    return node->type == LS_OP_GELU_GRAD && node->inputs[1] == x &&
           is_same_type(graph, node->inputs[0], x);
  return node->type == LS_OP_LAYER_NORM_GRAD && node->inputs[1] == x &&
         node->inputs[2] == op->inputs[1] &&
         ls_node_attr(node, "epsilon")->as.f ==
             ls_node_attr(op, "epsilon")->as.f;
}

static bool find_gradient(giver *g, const ls_node *op) {
  if (op->type != LS_OP_GELU && op->type != LS_OP_LAYER_NORM) return false;
  const fate *x = &g->of[ls_ref_id(op->inputs[0])];
  for (size_t i = x->first; i < x->end; ++i) {
    ls_node *node = node_at(g, g->users[i]);
    if (node->id <= op->id || !is_gradient(g->graph, op, node)) continue;
    g->op = op;
    g->gradient = node;
    return g->of[node->id].giver == 0;
  }
  return false;
}

// ---- Changing --------------------------------------------------------------
static ls_status become_giver(giver *g) {
  ls_graph *graph = g->graph;
  const ls_node *op = g->op;
  ls_node *node = g->gradient;
  const bool norm = op->type == LS_OP_LAYER_NORM;
  const uint32_t count = node->num_outputs;
  ls_type *outputs = ls_arena_new_array(&graph->arena, ls_type, count + 1U);
  uint64_t *inputs = ls_arena_new_array(&graph->arena, uint64_t, 4);
  if (outputs == NULL || inputs == NULL) return ls_out_of_memory();
  memcpy(inputs, node->inputs, node->num_inputs * sizeof(*inputs));
  // One user more than are listed.
  if (norm) g->of[ls_ref_id(op->inputs[2])].fixed = true;
  if (norm) inputs[node->num_inputs++] = op->inputs[2];
  node->inputs = inputs;
  outputs[0] = node->outputs[0];
  memcpy(outputs + 1, node->outputs, count * sizeof(*outputs));
  node->outputs = outputs;
  ++node->num_outputs;
  node->type = norm ? LS_OP_LAYER_NORM_AGAIN : LS_OP_GELU_AGAIN;
  return ls_ok();
}

static ls_status give_again(giver *g, const ls_node *op) {
  if (g->of[op->id].fixed || g->of[op->id].giver != 0 ||
      !find_gradient(g, op) || lives_on(g) || !find_waiting(g))
    return ls_ok();
  LS_RETURN_IF_ERROR(become_giver(g));
  for (size_t i = 0; i < g->num_waiting; ++i) {
    fate *at = &g->of[g->waiting[i]];
    at->giver = g->gradient->id;
    at->taken = ls_ref(op->id, 0);
    at->fixed = true;
  }
  g->of[g->gradient->id].gives = g->of[g->gradient->id].fixed = true;
  g->changed = true;
  return ls_ok();
}

// A giver's result 1 is y now; those behind it are one further.
static uint64_t shifted(const giver *g, uint64_t ref) {
  const bool further = g->of[ls_ref_id(ref)].gives && ls_ref_output(ref) > 0;
  return further ? ref + 1 : ref;
}

static void tell_users(const giver *g) {
  const ls_graph *graph = g->graph;
  for (size_t i = 0; i < graph->num_results; ++i)
    graph->results[i] = shifted(g, graph->results[i]);
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    const fate *own = &g->of[node->id];
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      node->inputs[k] = own->giver != 0 && node->inputs[k] == own->taken
                            ? ls_ref(own->giver, 1)
                            : shifted(g, node->inputs[k]);
    for (uint32_t r = 0; r < node->num_regions; ++r)
      for (size_t c = 0; c < node->regions[r]->num_captures; ++c) {
        uint64_t *outer = &node->regions[r]->captures[c].outer.ref;
        *outer = shifted(g, *outer);
      }
  }
}

// Moves those who wait behind the gradients, in their order.
static ls_status move_waiting(const giver *g) {
  ls_graph *graph = g->graph;
  const size_t count = graph->num_nodes;
  ls_node **nodes = ls_new_array(graph->allocator, ls_node *, count);
  size_t *ends = ls_new_array(graph->allocator, size_t, count + 2);
  if (nodes != NULL && ends != NULL) {
    // A node's place is behind that of those before it, each with who waits.
    for (size_t id = 1; id <= count; ++id)
      ++ends[g->of[id].giver != 0 ? g->of[id].giver : id];
    for (size_t id = 1, next = 0; id <= count; ++id) {
      next += ends[id];
      ends[id] = next - ends[id];
    }
    // Who waits has a lower id than its giver, which goes first all the same.
    for (size_t id = 1; id <= count; ++id)
      if (g->of[id].giver == 0) nodes[ends[id]++] = graph->nodes[id - 1];
    for (size_t id = 1; id <= count; ++id)
      if (g->of[id].giver != 0)
        nodes[ends[g->of[id].giver]++] = graph->nodes[id - 1];
    memcpy(graph->nodes, nodes, count * sizeof(*nodes));
  }
  const bool moved = nodes != NULL && ends != NULL;
  ls_release(graph->allocator, nodes);
  ls_release(graph->allocator, ends);
  return moved ? ls_ok() : ls_out_of_memory();
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

static ls_status write_down(const giver *g) {
  if (!g->changed) return ls_ok();
  tell_users(g);
  LS_RETURN_IF_ERROR(move_waiting(g));
  return renumber(g->graph);
}

ls_status ls_cpu_give_again(ls_graph *graph) {
  giver g = {.graph = graph};
  ls_status status = list_users(&g);
  for (size_t i = 0; status == NULL && i < graph->num_nodes; ++i)
    status = give_again(&g, graph->nodes[i]);
  if (status == NULL) status = write_down(&g);
  ls_release(graph->allocator, g.of);
  ls_release(graph->allocator, g.users);
  ls_release(graph->allocator, g.path);
  ls_release(graph->allocator, g.waiting);
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t r = 0; status == NULL && r < graph->nodes[i]->num_regions;
         ++r)
      status = ls_cpu_give_again(graph->nodes[i]->regions[r]);
  return status;
}
