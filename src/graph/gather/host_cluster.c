// SPDX-License-Identifier: Apache-2.0
//
// An outside compiled cluster that writes variables of the host: what its
// replicas do to them they do one after the other, in the order of replicas. It
// becomes a merge call whose body holds a copy of its ops for each.
#include "graph/gather/copy.h"
#include "graph/passes/inline.h"

typedef struct host_cluster {
  ls_copying *around;  // The body of the computation.
  const ls_cluster *cluster;
  const char *name;
  size_t first, last;  // Places of its ops.
  uint64_t *args;      // Values that it uses.
  size_t num_args;
  uint64_t *results;  // Values of it that others use.
  size_t num_results;
  uint64_t *parameters;  // [argument][replica]
  uint64_t *made;        // [result][replica]
  ls_graph *body;
} host_cluster;

static bool writes(const ls_node *node) {
  if (ls_node_assigns(node)) return true;
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    const ls_graph *region = ls_graph_resolve(node->regions[r]);
    for (size_t i = 0; i < region->num_nodes; ++i)
      if (writes(region->nodes[i])) return true;
  }
  return false;
}

static bool is_of(const host_cluster *h, size_t place) {
  if (place == SIZE_MAX) return false;
  const ls_copying *level = h->around->outer;
  const char *name = ls_node_mark(level->from->nodes[place], LS_MARK_OUTSIDE);
  return ls_cluster_at(level, place) == h->cluster && name != NULL &&
         strcmp(name, h->name) == 0;
}

// Finds its ops. Whether one of them writes.
static bool find(host_cluster *h) {
  const ls_graph *from = h->around->from;
  bool found = false, is_written = false;
  for (size_t i = 0; i < from->num_nodes; ++i) {
    if (!is_of(h, i)) continue;
    if (!found) h->first = i;
    found = true;
    h->last = i;
    is_written = is_written || writes(from->nodes[i]);
  }
  return is_written;
}

static bool is_listed(const uint64_t *list, size_t count, uint64_t ref) {
  for (size_t i = 0; i < count; ++i)
    if (list[i] == ref) return true;
  return false;
}

// What differs between copies by itself is not copied.
static ls_status check(const host_cluster *h, ls_node *node) {
  char text[LS_MAX_FULL_NAME];
  if (node->type != LS_OP_REPLICA_ID && !ls_node_draws(node)) return ls_ok();
  return ls_unimplemented(
      "%s in outside compiled cluster '%s', which writes a variable of the "
      "host: make it outside of the cluster and hand its value over",
      ls_node_describe(h->around->from, node, text, sizeof(text)), h->name);
}

static ls_status list_values(host_cluster *h) {
  ls_graph *from = h->around->from;
  size_t most = 0;
  for (size_t i = 0; i < from->num_nodes; ++i)
    most += from->nodes[i]->num_inputs;
  h->args = ls_arena_new_array(h->around->memory, uint64_t, most + 1);
  h->results = ls_arena_new_array(h->around->memory, uint64_t, most + 1);
  if (h->args == NULL || h->results == NULL) return ls_out_of_memory();
  for (size_t i = h->first; i < from->num_nodes; ++i) {
    ls_node *node = from->nodes[i];
    const bool inside = is_of(h, i);
    if (inside) LS_RETURN_IF_ERROR(check(h, node));
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      const uint64_t ref = node->inputs[k];
      if (inside == is_of(h, ls_graph_position(from, ls_ref_id(ref)))) continue;
      uint64_t *list = inside ? h->args : h->results;
      size_t *count = inside ? &h->num_args : &h->num_results;
      if (!is_listed(list, *count, ref)) list[(*count)++] = ref;
    }
  }
  return ls_ok();
}

// Its ops for one replica.
static ls_status copy_for(host_cluster *h, size_t replica) {
  const ls_graph *from = h->around->from;
  const size_t replicas = h->cluster->replicas;
  ls_copying c;
  ls_copying_init(&c, h->around, h->around->from, h->body, h->around->memory);
  ls_status status = ls_ok();
  for (size_t a = 0; ls_status_is_ok(status) && a < h->num_args; ++a)
    status =
        ls_copying_set(&c, h->args[a], h->parameters[a * replicas + replica]);
  for (size_t i = h->first; ls_status_is_ok(status) && i <= h->last; ++i) {
    if (!is_of(h, i)) continue;
    ls_node *node = from->nodes[i];
    status = ls_copy_node(&c, node);
    if (!ls_status_is_ok(status)) break;
    ls_node *copy = h->body->nodes[h->body->num_nodes - 1];
    copy->scope = NULL;
    copy->number = 0;
    copy->base = ls_arena_format(&h->body->arena, "%s/R%zu",
                                 ls_node_name(h->around->from, node), replica);
    if (copy->base == NULL) status = ls_out_of_memory();
  }
  for (size_t i = 0; ls_status_is_ok(status) && i < h->num_results; ++i)
    status =
        ls_copied(&c, NULL, h->results[i], &h->made[i * replicas + replica]);
  ls_copying_deinit(&c);
  return status;
}

static ls_status make_body(host_cluster *h) {
  const size_t replicas = h->cluster->replicas;
  ls_arena *memory = h->around->memory;
  h->parameters =
      ls_arena_new_array(memory, uint64_t, h->num_args * replicas + 1);
  h->made = ls_arena_new_array(memory, uint64_t, h->num_results * replicas + 1);
  if (h->parameters == NULL || h->made == NULL) return ls_out_of_memory();
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

// The op, with what it gives as the values of the cluster.
static ls_status append(host_cluster *h) {
  ls_copying *c = h->around;
  const size_t count = h->num_args + h->body->num_captures;
  uint64_t *inputs = ls_arena_new_array(c->memory, uint64_t, count + 1);
  if (inputs == NULL) return ls_out_of_memory();
  for (size_t a = 0; a < h->num_args; ++a)
    LS_RETURN_IF_ERROR(ls_copied(c, NULL, h->args[a], &inputs[a]));
  for (size_t i = 0; i < h->body->num_captures; ++i)
    inputs[h->num_args + i] = h->body->captures[i].outer.ref;
  const ls_attr attrs[] = {LS_OWN_I(REPLICAS, (int64_t)h->cluster->replicas),
                           LS_OWN_I(NUM_ARGS, (int64_t)h->num_args),
                           LS_OWN_I(NUM_GATHERED, (int64_t)h->num_results)};
  ls_node *last = c->from->nodes[h->last];
  ls_node *node = ls_graph_append(c->to,
                                  &(ls_op_spec){.type = LS_OP_MERGE_CALL,
                                                .num_inputs = count,
                                                .attrs = attrs,
                                                .num_attrs = LS_COUNT_OF(attrs),
                                                .regions = &h->body,
                                                .num_regions = 1},
                                  inputs, h->num_results);
  if (node == NULL) return ls_out_of_memory();
  h->body = NULL;  // The op has it.
  node->origin = ls_node_source(c->from, last);
  node->base = last->base;
  node->scope = last->scope;
  node->number = last->number;
  node->file = last->file;
  node->line = last->line;
  for (size_t i = 0; i < h->num_results; ++i) {
    node->outputs[i] = ls_graph_type(c->from, h->results[i]);
    LS_RETURN_IF_ERROR(
        ls_copying_set(c, h->results[i], ls_ref(node->id, (unsigned)i)));
  }
  for (size_t i = h->first; i <= h->last; ++i)
    if (is_of(h, i))
      LS_RETURN_IF_ERROR(ls_copying_set_op(c, c->from->nodes[i]->id, node->id));
  return ls_ok();
}

ls_status ls_copy_host_cluster(ls_copying *around, const ls_cluster *cluster,
                               size_t place, bool *out_is_one) {
  const ls_node *node = around->from->nodes[place];
  host_cluster h = {.around = around,
                    .cluster = cluster,
                    .name = ls_node_mark(node, LS_MARK_OUTSIDE)};
  *out_is_one = h.name != NULL && find(&h);
  if (!*out_is_one || place != h.last) return ls_ok();
  LS_RETURN_IF_ERROR(list_values(&h));
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, "merge",
                                   around->from->runtime, around->to, &h.body));
  ls_status status = make_body(&h);
  if (ls_status_is_ok(status)) status = append(&h);
  ls_graph_free(h.body);
  return status;
}
