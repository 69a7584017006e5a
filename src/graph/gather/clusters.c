// SPDX-License-Identifier: Apache-2.0
//
// Finds clusters and their members, and the ops that a request needs.
#include "graph/gather/copy.h"

ls_cluster *ls_cluster_at(const ls_copying *c, size_t place) {
  if (place == SIZE_MAX || c->level->cluster_of == NULL ||
      c->level->cluster_of[place] == 0)
    return NULL;
  ls_cluster *cluster = &c->level->clusters[c->level->cluster_of[place] - 1];
  return cluster->replicas > 1 ? cluster : NULL;
}

ls_cluster *ls_cluster_of_ref(const ls_copying *c, uint64_t ref) {
  return ls_cluster_at(c, ls_graph_position(c->from, ls_ref_id(ref)));
}

// ---- Clusters --------------------------------------------------------------
ls_cluster *ls_cluster_named(const ls_copying *c, const char *name) {
  for (size_t k = 0; k < c->level->num_clusters; ++k)
    if (strcmp(c->level->clusters[k].name, name) == 0)
      return &c->level->clusters[k];
  return NULL;
}

static ls_status broken_cluster(const ls_copying *c, ls_node *node,
                                const char *name, const char *what) {
  char text[LS_MAX_FULL_NAME];
  return ls_internal("%s has '%s' = '%s', %s",
                     ls_node_describe(c->from, node, text, sizeof(text)),
                     LS_MARK_REPLICATE, name, what);
}

static ls_status list_clusters(ls_copying *c) {
  size_t count = 0;
  for (size_t i = 0; i < c->from->num_nodes; ++i)
    count += c->from->nodes[i]->type == LS_OP_TPU_REPLICATE_METADATA;
  LS_ARENA_SET_OR_RETURN(c->memory, ls_cluster, c->level->clusters, count + 1);
  LS_ARENA_SET_OR_RETURN(c->memory, uint32_t, c->level->cluster_of,
                         c->from->num_nodes + 1);
  for (size_t i = 0; i < c->from->num_nodes; ++i) {
    ls_node *node = c->from->nodes[i];
    if (node->type != LS_OP_TPU_REPLICATE_METADATA) continue;
    const char *name = ls_node_mark(node, LS_MARK_REPLICATE);
    if (name == NULL || name[0] == '\0')
      return broken_cluster(c, node, name != NULL ? name : "",
                            "which is no name of a computation");
    if (ls_cluster_named(c, name) != NULL)
      return broken_cluster(c, node, name,
                            "which is another computation's name");
    ls_cluster *cluster = &c->level->clusters[c->level->num_clusters++];
    *cluster = (ls_cluster){
        .name = name,
        .metadata = node,
        .replicas = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_REPLICAS)};
    ls_map_init(&cluster->results, c->from->allocator);
  }
  return ls_ok();
}

// Checks an op in a cluster's body: its mark must name that cluster.
static ls_status check_inside(const ls_copying *c, ls_node *node,
                              const char *name) {
  if (strcmp(name, c->level->inside->name) == 0) return ls_ok();
  return broken_cluster(c, node, name, "and is in another computation");
}

static ls_status check_mark(const ls_copying *c, ls_node *node,
                            const char *name) {
  const ls_attr *attr = ls_node_attr_named(node, name);
  if (attr == NULL) return ls_ok();
  const char *text = ls_node_mark(node, name);
  if (text != NULL && text[0] != '\0') return ls_ok();
  char node_text[LS_MAX_FULL_NAME];
  return ls_internal(
      "%s has '%s', which is %s",
      ls_node_describe(c->from, node, node_text, sizeof(node_text)), name,
      text == NULL ? "no text" : "empty");
}

ls_status ls_find_clusters(ls_copying *c) {
  if (c->level->inside == NULL) LS_RETURN_IF_ERROR(list_clusters(c));
  for (size_t i = 0; i < c->from->num_nodes; ++i) {
    ls_node *node = c->from->nodes[i];
    if (node->type == LS_OP_REPLICATE) continue;  // Already gathered.
    LS_RETURN_IF_ERROR(check_mark(c, node, LS_MARK_REPLICATE));
    LS_RETURN_IF_ERROR(check_mark(c, node, LS_MARK_OUTSIDE));
    const char *name = ls_node_mark(node, LS_MARK_REPLICATE);
    if (name == NULL) continue;
    if (c->level->inside != NULL) {
      LS_RETURN_IF_ERROR(check_inside(c, node, name));
      continue;
    }
    ls_cluster *cluster = ls_cluster_named(c, name);
    if (cluster == NULL)
      return broken_cluster(c, node, name,
                            "which no replicated computation has");
    cluster->last = i;
    c->level->cluster_of[i] = (uint32_t)(cluster - c->level->clusters) + 1;
  }
  return ls_ok();
}

// ---- Needed ops ------------------------------------------------------------
typedef struct needing {
  ls_copying *c;
  size_t *stack;
  size_t count;
  bool *whole;  // True for clusters that are needed; by cluster number.
} needing;

static void clusters_need(needing *n, size_t place) {
  if (place == SIZE_MAX || n->c->level->needed[place]) return;
  n->c->level->needed[place] = true;
  n->stack[n->count++] = place;
}

static void need_cluster(needing *n, uint32_t number) {
  if (number == 0 || n->whole[number - 1]) return;
  n->whole[number - 1] = true;
  for (size_t i = 0; i < n->c->from->num_nodes; ++i)
    if (n->c->level->cluster_of[i] == number) clusters_need(n, i);
}

static void need_all(needing *n) {
  const ls_graph *from = n->c->from;
  while (n->count > 0) {
    const size_t place = n->stack[--n->count];
    const ls_node *node = from->nodes[place];
    need_cluster(n, n->c->level->cluster_of[place]);
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      if (ls_map_find_u64(&n->c->refs, node->inputs[i]) == NULL)
        clusters_need(n, ls_graph_position(from, ls_ref_id(node->inputs[i])));
    // Reading a compilation's result does not need a run, so it ignores control
    // inputs.
    if (node->type == LS_OP_TPU_COMPILATION_RESULT) continue;
    for (uint32_t i = 0; i < node->num_control; ++i)
      clusters_need(n, ls_graph_position(from, node->control[i]));
  }
}

ls_status ls_find_needed(ls_copying *c, const ls_gather_request *request) {
  const size_t count = c->from->num_nodes;
  c->level->needed = ls_arena_new_array(c->memory, bool, count + 1);
  needing n = {
      .c = c,
      .stack = ls_arena_new_array(c->memory, size_t, count + 1),
      .whole = ls_arena_new_array(c->memory, bool, c->level->num_clusters + 1)};
  if (c->level->needed == NULL || n.stack == NULL || n.whole == NULL)
    return ls_out_of_memory();
  if (request == NULL || request->effects_are_roots) {
    memset(c->level->needed, 1, count * sizeof(*c->level->needed));
    return ls_ok();
  }
  for (size_t i = 0; i < request->num_fetches; ++i)
    if (ls_map_find_u64(&c->refs, request->fetches[i]) == NULL)
      clusters_need(&n,
                    ls_graph_position(c->from, ls_ref_id(request->fetches[i])));
  for (size_t i = 0; i < request->num_targets; ++i)
    clusters_need(&n, ls_graph_position(c->from, request->targets[i].id));
  need_all(&n);
  return ls_ok();
}
