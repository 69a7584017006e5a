// SPDX-License-Identifier: Apache-2.0
//
// Outside compiled clusters that write variables of the host. Their replicas
// run one after another, in order of replica, also inside loops and branches.
//
// Such a cluster is cut into steps: runs of its ops, in order of creation, of
// which no op in between needs a value. Each step becomes a merge call whose
// body has a copy of the step's ops for each replica.
#include "graph/gather/copy.h"
#include "graph/walk.h"

typedef struct host_step {
  ls_copying *around;  // The level of the step.
  const ls_host_step *step;
  uint32_t number;
  uint64_t *args;  // Outside values that the step uses.
  size_t num_args;
  uint64_t *results;  // Values of the step that ops outside use.
  size_t num_results;
  uint64_t *parameters;  // [argument][replica]
  uint64_t *made;        // [result][replica]
  ls_graph *body;
} host_step;
LS_OWNED_(host_step, host_step, ls_graph_free(ls_owned->body))

// ---- Steps -----------------------------------------------------------------
// Returns true if an op of the level belongs to the computation.
static bool is_member(const ls_copying *c, size_t place) {
  return !c->is_body || ls_cluster_at(c->outer, place) == c->level->inside;
}

static const char *outside_of(const ls_copying *c, size_t place) {
  return is_member(c, place)
             ? ls_node_mark(c->from->nodes[place], LS_MARK_OUTSIDE)
             : NULL;
}

static bool is_of_cluster(const ls_copying *c, size_t place, const char *name) {
  const char *own = outside_of(c, place);
  return own != NULL && strcmp(own, name) == 0;
}

static bool is_of_step(const ls_copying *c, uint64_t id, uint32_t number) {
  const size_t place = ls_graph_position(c->from, id);
  return place != SIZE_MAX && c->level->step_of[place] == number;
}

static bool needs_step(const ls_copying *c, const ls_node *node,
                       uint32_t number) {
  for (uint32_t k = 0; k < node->num_inputs; ++k)
    if (is_of_step(c, ls_ref_id(node->inputs[k]), number)) return true;
  for (uint32_t k = 0; k < node->num_control; ++k)
    if (is_of_step(c, node->control[k], number)) return true;
  return false;
}

// Cuts a cluster, whose first op is at position `first`, into steps.
static void cut_cluster(ls_copying *c, const char *name, size_t first) {
  bool is_needed = true;
  for (size_t i = first; i < c->from->num_nodes; ++i) {
    if (!is_member(c, i)) continue;
    const uint32_t number = (uint32_t)c->level->num_steps;
    if (!is_of_cluster(c, i, name)) {
      is_needed = is_needed || needs_step(c, c->from->nodes[i], number);
      continue;
    }
    if (is_needed)
      c->level->steps[c->level->num_steps++] = (ls_host_step){name, i, i};
    is_needed = false;
    c->level->steps[c->level->num_steps - 1].last = i;
    c->level->step_of[i] = (uint32_t)c->level->num_steps;
  }
}

static size_t first_of_cluster(const ls_copying *c, const char *name) {
  size_t place = 0;
  while (!is_of_cluster(c, place, name))
    ++place;
  return place;
}

ls_status ls_find_host_steps(ls_copying *c) {
  const size_t count = c->from->num_nodes;
  if (c->level->inside == NULL || c->level->inside->replicas == 1 ||
      c->level->replica >= 0)
    return ls_ok();
  LS_ARENA_SET_OR_RETURN(c->memory, ls_host_step, c->level->steps, count + 1);
  LS_ARENA_SET_OR_RETURN(c->memory, uint32_t, c->level->step_of, count + 1);
  for (size_t i = 0; i < count; ++i) {
    const char *name = outside_of(c, i);
    if (name != NULL && c->level->step_of[i] == 0 &&
        ls_node_any(c->from->nodes[i], ls_node_assigns))
      cut_cluster(c, name, first_of_cluster(c, name));
  }
  return ls_ok();
}

// ---- Arguments and results -------------------------------------------------
static bool is_mine(const host_step *h, size_t place) {
  return place != SIZE_MAX && h->around->level->step_of[place] == h->number;
}

static ls_status host_cluster_list_values(host_step *h) {
  const ls_graph *from = h->around->from;
  size_t most = from->num_results;
  for (size_t i = 0; i < from->num_nodes; ++i)
    most += from->nodes[i]->num_inputs;
  LS_ARENA_SET_OR_RETURN(h->around->memory, uint64_t, h->args, most + 1);
  LS_ARENA_SET_OR_RETURN(h->around->memory, uint64_t, h->results, most + 1);
  for (size_t i = h->step->first; i < from->num_nodes; ++i) {
    const ls_node *node = from->nodes[i];
    const bool inside = is_mine(h, i);
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      const uint64_t ref = node->inputs[k];
      if (inside == is_mine(h, ls_graph_position(from, ls_ref_id(ref))))
        continue;
      if (inside)
        ls_list_ref(h->args, &h->num_args, ref);
      else
        ls_list_ref(h->results, &h->num_results, ref);
    }
  }
  for (size_t i = 0; i < from->num_results && !h->around->is_body; ++i)
    if (is_mine(h, ls_graph_position(from, ls_ref_id(from->results[i]))))
      ls_list_ref(h->results, &h->num_results, from->results[i]);
  return ls_ok();
}

// ---- The copies ------------------------------------------------------------
static ls_status copy_ops(host_step *h, ls_copying *c) {
  for (size_t i = h->step->first; i <= h->step->last; ++i) {
    if (!is_mine(h, i)) continue;
    ls_node *node = c->from->nodes[i];
    LS_RETURN_IF_ERROR(ls_gather_node(c, node));
    ls_node *copy = h->body->nodes[h->body->num_nodes - 1];
    copy->scope = NULL;
    copy->number = 0;
    copy->base =
        ls_arena_format(&h->body->arena, "%s/R%d", ls_node_name(c->from, node),
                        (int)c->level->replica);
    if (copy->base == NULL) return ls_out_of_memory();
  }
  return ls_ok();
}

// Copies the step's ops for one replica.
static ls_status copy_for(host_step *h, size_t replica) {
  const size_t replicas = h->around->level->inside->replicas;
  LS_OWN(ls_gathering, c) = {0};
  LS_RETURN_IF_ERROR(ls_gather_begin(&c, h->around, h->around->from, h->body,
                                     h->around->memory));
  c.level->replica = (int32_t)replica;
  for (size_t a = 0; a < h->num_args; ++a)
    LS_RETURN_IF_ERROR(
        ls_copying_set(&c, h->args[a], h->parameters[a * replicas + replica]));
  LS_RETURN_IF_ERROR(copy_ops(h, &c));
  for (size_t i = 0; i < h->num_results; ++i)
    LS_RETURN_IF_ERROR(
        ls_copied(&c, NULL, h->results[i], &h->made[i * replicas + replica]));
  return ls_ok();
}

static ls_status make_body(host_step *h) {
  const size_t replicas = h->around->level->inside->replicas;
  ls_arena *memory = h->around->memory;
  LS_ARENA_SET_OR_RETURN(memory, uint64_t, h->parameters,
                         h->num_args * replicas + 1);
  LS_ARENA_SET_OR_RETURN(memory, uint64_t, h->made,
                         h->num_results * replicas + 1);
  for (size_t a = 0; a < h->num_args; ++a)
    for (size_t r = 0; r < replicas; ++r) {
      ls_tensor made;
      LS_RETURN_IF_ERROR(ls_graph_add_parameter(
          h->body, ls_graph_type(h->around->from, h->args[a]), NULL, &made));
      h->parameters[a * replicas + r] = made.ref;
    }
  for (size_t r = 0; r < replicas; ++r)
    LS_RETURN_IF_ERROR(copy_for(h, r));
  return ls_graph_set_results(h->body, h->made, h->num_results * replicas);
}

// Appends the merge call that runs the step; its results are the step's values.
static ls_status host_cluster_append(host_step *h) {
  ls_copying *c = h->around;
  const size_t count = h->num_args + h->body->num_captures;
  LS_ARENA_ARRAY_OR_RETURN(c->memory, uint64_t, inputs, count + 1);
  for (size_t a = 0; a < h->num_args; ++a)
    LS_RETURN_IF_ERROR(ls_copied(c, NULL, h->args[a], &inputs[a]));
  ls_list_capture_refs(&h->body, 1, inputs + h->num_args);
  const ls_attr attrs[] = {
      LS_OWN_I(REPLICAS, (int64_t)h->around->level->inside->replicas),
      LS_OWN_I(NUM_ARGS, (int64_t)h->num_args),
      LS_OWN_I(NUM_GATHERED, (int64_t)h->num_results),
      {.name = LS_MARK_OUTSIDE,
       .kind = LS_ATTR_STRING,
       .as.string = h->step->cluster}};
  ls_node *last = c->from->nodes[h->step->last];
  ls_node *node = ls_graph_append(c->to,
                                  &(ls_op_spec){.type = LS_OP_MERGE_CALL,
                                                .num_inputs = count,
                                                .attrs = attrs,
                                                .num_attrs = LS_COUNT_OF(attrs),
                                                .regions = &h->body,
                                                .num_regions = 1},
                                  inputs, h->num_results);
  if (node == NULL) return ls_out_of_memory();
  h->body = NULL;  // The op owns the body now.
  ls_node_take_name(node, c->from, last);
  for (size_t i = 0; i < h->num_results; ++i) {
    node->outputs[i] = ls_graph_type(c->from, h->results[i]);
    LS_RETURN_IF_ERROR(
        ls_copying_set(c, h->results[i], ls_ref(node->id, (unsigned)i)));
  }
  for (size_t i = h->step->first; i <= h->step->last; ++i)
    if (is_mine(h, i))
      LS_RETURN_IF_ERROR(ls_copying_set_op(c, c->from->nodes[i]->id, node->id));
  return ls_ok();
}

ls_status ls_copy_host_step(ls_copying *c, size_t place, bool *out_is_one) {
  const uint32_t number =
      c->level->step_of != NULL ? c->level->step_of[place] : 0;
  *out_is_one = number != 0;
  if (number == 0 || c->level->steps[number - 1].last != place) return ls_ok();
  LS_OWN(host_step, h) = {
      .around = c, .step = &c->level->steps[number - 1], .number = number};
  LS_RETURN_IF_ERROR(host_cluster_list_values(&h));
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, "merge", c->from->runtime,
                                   c->to, &h.body));
  LS_RETURN_IF_ERROR(make_body(&h));
  return host_cluster_append(&h);
}
