// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/compile/region.h"

#include "graph/walk.h"

// ---- Bodies ----------------------------------------------------------------
static ls_status init_classes(ls_cpu_compiler *compiler, ls_cpu_region *self) {
  const uint32_t replicas = (uint32_t)compiler->share.replicas;
  const ls_attr *classes = ls_node_attr(self->op, LS_ATTR_ID_CLASSES);
  for (uint32_t r = 0; r < replicas; ++r) {
    const int64_t k = classes == NULL ? 0 : classes->as.ints.items[r];
    if (k < 0 || k >= self->num_bodies)
      return ls_internal("replica %u has body %lld of %u", r, (long long)k,
                         self->num_bodies);
    self->classes[r] = (uint32_t)k;
    ++self->bodies[k].num_lanes;
  }
  return ls_ok();
}

static ls_status check_body_shape(const ls_cpu_compiler *compiler,
                                  const ls_cpu_region *self) {
  const size_t replicas = (size_t)compiler->share.replicas;
  const ls_graph *first = self->op->regions[0];
  const size_t inputs = self->num_split * replicas +
                        (self->num_arguments - self->num_split) +
                        ls_count_captures(self->op->regions, self->num_bodies);
  bool fits = first->num_results >= self->num_given;
  for (uint32_t k = 0; k < self->num_bodies; ++k) {
    const ls_graph *graph = self->op->regions[k];
    fits = fits && graph->num_declared == self->num_arguments &&
           graph->num_results == first->num_results;
  }
  if (fits && self->op->num_inputs == inputs &&
      self->op->num_outputs ==
          self->num_gathered * (replicas - 1) + first->num_results)
    return ls_ok();
  return ls_internal("a replicate op of %zu replicas has %u inputs and %u "
                     "outputs, which its region does not fit",
                     replicas, self->op->num_inputs, self->op->num_outputs);
}

static ls_status init_body(ls_cpu_compiler *compiler, ls_cpu_region *self,
                           uint32_t k) {
  ls_arena *temp = &compiler->temp;
  ls_cpu_body *body = &self->bodies[k];
  ls_graph *graph = body->graph = self->op->regions[k];
  LS_ARENA_SET_OR_RETURN(temp, uint32_t, body->twins, graph->num_nodes);
  LS_ARENA_SET_OR_RETURN(temp, const ls_node *, body->merges, graph->num_nodes);
  if (k > 0)
    LS_RETURN_IF_ERROR(
        ls_find_twins(self->bodies[0].graph, graph, body->twins));
  uint32_t merges = 0;
  for (uint32_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (k == 0) body->twins[i] = node->varying ? LS_NO_TWIN : i;
    if (ls_node_info(node)->traits & LS_OP_MERGE) body->merges[merges++] = node;
  }
  return ls_ok();
}

// ---- Merges ----------------------------------------------------------------
// Returns true if values, one of each body, are computed by shared code.
static bool is_shared_value(const ls_cpu_region *self, const uint64_t *refs) {
  const uint32_t place = ls_cpu_twin(&self->bodies[0], refs[0]);
  for (uint32_t k = 0; k < self->num_bodies; ++k)
    if (ls_cpu_twin(&self->bodies[k], refs[k]) != place ||
        ls_ref_output(refs[k]) != ls_ref_output(refs[0]))
      return false;
  return place != LS_NO_TWIN;
}

// Finds the merges that lanes post to: all others have one operand for all
// lanes.
static void find_merges(ls_cpu_region *self, uint64_t *refs) {
  const ls_graph *graph = self->bodies[0].graph;
  for (uint32_t i = 0, number = 0; i < graph->num_nodes; ++i) {
    if ((ls_node_info(graph->nodes[i])->traits & LS_OP_MERGE) == 0) continue;
    for (uint32_t k = 0; k < self->num_bodies; ++k)
      refs[k] = self->bodies[k].merges[number]->inputs[0];
    self->is_lane_merge[i] = !is_shared_value(self, refs);
    if (self->is_lane_merge[i]) {
      for (uint32_t k = 0; k < self->num_bodies; ++k)
        self->bodies[k].merges[self->num_merges] =
            self->bodies[k].merges[number];
      self->merges[self->num_merges++].node = graph->nodes[i];
    }
    ++number;
  }
}

static void find_gathered(ls_cpu_region *self, uint64_t *refs) {
  for (uint32_t g = 0; g < self->num_gathered; ++g) {
    for (uint32_t k = 0; k < self->num_bodies; ++k)
      refs[k] = self->bodies[k].graph->results[g];
    self->is_gathered[g] = !is_shared_value(self, refs);
  }
  for (uint32_t g = self->num_gathered; g < self->num_given; ++g)
    self->is_gathered[g] = true;
}

// ---- Division of the nodes -------------------------------------------------
static uint32_t next_merge(const ls_graph *graph, uint32_t from) {
  while (from < graph->num_nodes && !ls_node_is_merge(graph->nodes[from]))
    ++from;
  return from;
}

// Lets lanes compute values for which they would wait before they post to a
// merge, while shared code computes them after that merge. What is drawn or
// asked of the host once for all stays shared.
static void drop_late_twins(const ls_cpu_region *self,
                            const ls_cpu_body *body) {
  const ls_graph *first = self->bodies[0].graph;
  uint32_t next = next_merge(first, 0);
  for (uint32_t i = 0; i < body->graph->num_nodes; ++i) {
    const ls_node *node = body->graph->nodes[i];
    const uint32_t twin = body->twins[i];
    if (ls_node_is_merge(node))
      next = next_merge(first, twin + 1);
    else if (twin != LS_NO_TWIN && twin > next && self->after_merge[twin] &&
             !ls_node_any_trait(node, LS_OP_RANDOM | LS_OP_ON_HOST))
      body->twins[i] = LS_NO_TWIN;
  }
}

// Notes that a lane uses a value.
static void use_value(ls_cpu_region *self, const ls_cpu_body *body,
                      uint64_t ref) {
  const uint32_t twin = ls_cpu_twin(body, ref);
  if (twin == LS_NO_TWIN || !self->after_merge[twin]) return;
  self->needed[twin] = true;
  self->published[twin] = 1;
}

static void note_uses(ls_cpu_region *self, const ls_cpu_body *body) {
  const ls_graph *graph = body->graph;
  for (uint32_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t n = 0;
         body->twins[i] == LS_NO_TWIN && n < graph->nodes[i]->num_inputs; ++n)
      use_value(self, body, graph->nodes[i]->inputs[n]);
  for (uint32_t m = 0; m < self->num_merges; ++m)
    use_value(self, body, body->merges[m]->inputs[0]);
  for (uint32_t g = 0; g < self->num_given; ++g)
    if (self->is_gathered[g]) use_value(self, body, graph->results[g]);
}

static void classify_nodes(ls_cpu_region *self) {
  const ls_cpu_body *first = &self->bodies[0];
  const ls_graph *graph = first->graph;
  for (uint32_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (node->varying) continue;
    self->after_merge[i] = self->is_lane_merge[i];
    for (uint32_t n = 0; n < node->num_inputs; ++n) {
      const uint32_t input = ls_cpu_twin(first, node->inputs[n]);
      if (input != LS_NO_TWIN && self->after_merge[input])
        self->after_merge[i] = true;
    }
  }
  for (uint32_t k = 0; k < self->num_bodies; ++k) {
    drop_late_twins(self, &self->bodies[k]);
    note_uses(self, &self->bodies[k]);
  }
  for (size_t i = graph->num_nodes; i-- > 0;) {
    // Operands of a merge that lanes post to are computed by lanes.
    if (!self->needed[i] || self->is_lane_merge[i]) continue;
    for (uint32_t n = 0; n < graph->nodes[i]->num_inputs; ++n) {
      const uint32_t input = ls_cpu_twin(first, graph->nodes[i]->inputs[n]);
      if (input != LS_NO_TWIN && self->after_merge[input])
        self->needed[input] = true;
    }
  }
  uint32_t number = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    if (self->published[i] != 0) self->published[i] = ++number;
}

// ---- The order of posts ----------------------------------------------------
// How far a lane is when it reaches a post.
typedef struct post_place {
  uint32_t posts;   // Posts before the node.
  uint32_t waited;  // Last published value that the lane has waited for.
  uint32_t parks;   // Other nodes before the node that may park.
} post_place;

static void note_wait(const ls_cpu_region *self, const ls_cpu_body *body,
                      uint64_t ref, post_place *progress) {
  const uint32_t twin = ls_cpu_twin(body, ref);
  if (twin != LS_NO_TWIN && self->published[twin] > progress->waited)
    progress->waited = self->published[twin];
}

static void note_post(const ls_cpu_region *self, const ls_cpu_body *body,
                      const ls_node *node, bool is_shared_operand,
                      post_place *progress, post_place *places) {
  for (uint32_t m = 0; m < self->num_merges; ++m) {
    const ls_node *merge = body->merges[m];
    const bool here =
        is_shared_operand
            ? merge == node && ls_cpu_twin(body, node->inputs[0]) != LS_NO_TWIN
            : ls_ref_id(merge->inputs[0]) == node->id;
    if (!here) continue;
    if (is_shared_operand) note_wait(self, body, node->inputs[0], progress);
    places[m] = *progress;
    ++progress->posts;
  }
}

// Finds the progress at all posts of a body, if lanes post early. Returns that
// at its end.
static post_place find_post_progress(const ls_cpu_region *self,
                                     const ls_cpu_body *body,
                                     post_place *places) {
  post_place progress = {0};
  for (uint32_t i = 0; i < body->graph->num_nodes; ++i) {
    const ls_node *node = body->graph->nodes[i];
    const bool by_lane = body->twins[i] == LS_NO_TWIN;
    for (uint32_t n = 0; by_lane && n < node->num_inputs; ++n)
      note_wait(self, body, node->inputs[n], &progress);
    if (by_lane && ls_node_any_trait(node, LS_OP_MERGE | LS_OP_ON_HOST))
      ++progress.parks;
    note_post(self, body, node, !by_lane, &progress, places);
  }
  return progress;
}

// Decides how lanes post. Those of all classes reach each merge in order of
// replica if they park for published values only, and for the same ones. While
// a lane waits for its turn, lower lanes must not wait for its other posts.
static ls_status order_posts(ls_arena *temp, ls_cpu_region *self) {
  LS_ARENA_ARRAY_OR_RETURN(temp, post_place, first, self->num_merges);
  LS_ARENA_ARRAY_OR_RETURN(temp, post_place, other, self->num_merges);
  self->posts_early = self->in_order = true;
  uint32_t parks = find_post_progress(self, &self->bodies[0], first).parks;
  for (uint32_t k = 1; k < self->num_bodies; ++k) {
    parks += find_post_progress(self, &self->bodies[k], other).parks;
    for (uint32_t m = 0; m < self->num_merges; ++m) {
      if (first[m].posts != other[m].posts || first[m].parks != other[m].parks)
        self->posts_early = false;
      if (first[m].waited != other[m].waited) self->in_order = false;
    }
  }
  if (self->num_bodies > 1 && (parks > 0 || !self->posts_early))
    self->in_order = false;
  return ls_ok();
}

// ---- The region ------------------------------------------------------------
ls_status ls_cpu_region_init(ls_cpu_compiler *compiler, const ls_node *op,
                             ls_cpu_region *self) {
  ls_arena *temp = &compiler->temp;
  const size_t replicas = (size_t)compiler->share.replicas;
  const size_t nodes = op->regions[0]->num_nodes;
  *self = (ls_cpu_region){
      .op = op,
      .num_bodies = op->num_regions,
      .num_split = (uint32_t)ls_node_int(op, LS_ATTR_ID_NUM_SPLIT),
      .num_gathered = (uint32_t)ls_node_int(op, LS_ATTR_ID_NUM_GATHERED),
  };
  self->num_arguments =
      self->num_split + (uint32_t)ls_node_int(op, LS_ATTR_ID_NUM_WIDE_SPLIT);
  self->num_given = self->num_gathered +
                    (uint32_t)ls_node_int(op, LS_ATTR_ID_NUM_WIDE_GATHERED);
  LS_RETURN_IF_ERROR(check_body_shape(compiler, self));
  LS_ARENA_SET_OR_RETURN(temp, ls_cpu_body, self->bodies, self->num_bodies);
  LS_ARENA_SET_OR_RETURN(&compiler->out->arena, uint32_t, self->classes,
                         replicas);
  LS_ARENA_SET_OR_RETURN(temp, bool, self->after_merge, nodes);
  LS_ARENA_SET_OR_RETURN(temp, bool, self->needed, nodes);
  LS_ARENA_SET_OR_RETURN(temp, uint32_t, self->published, nodes);
  LS_ARENA_SET_OR_RETURN(temp, bool, self->is_lane_merge, nodes);
  LS_ARENA_SET_OR_RETURN(temp, ls_cpu_lane_merge, self->merges, nodes);
  LS_ARENA_SET_OR_RETURN(temp, bool, self->is_gathered, self->num_given);
  LS_ARENA_SET_OR_RETURN(temp, uint32_t, self->wide,
                         self->num_given - self->num_gathered);
  LS_ARENA_SET_OR_RETURN(temp, uint32_t, self->gathered,
                         self->num_gathered * replicas);
  LS_ARENA_ARRAY_OR_RETURN(temp, uint64_t, refs, self->num_bodies);
  LS_RETURN_IF_ERROR(init_classes(compiler, self));
  for (uint32_t k = 0; k < self->num_bodies; ++k)
    LS_RETURN_IF_ERROR(init_body(compiler, self, k));
  find_merges(self, refs);
  find_gathered(self, refs);
  classify_nodes(self);
  return order_posts(temp, self);
}
