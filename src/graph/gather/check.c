// SPDX-License-Identifier: Apache-2.0
//
// Checks a replicated computation after it was built completely.
#include <stdlib.h>

#include "base/runtime_internal.h"
#include "base/text.h"
#include "graph/gather/copy.h"
#include "graph/gather/gather.h"
#include "graph/region.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"
#include "lockstep/host.h"

// Visits an op of the computation, in regions too; the second text is the op's
// outside compiled cluster (NULL: none).
typedef ls_status (*visitor)(void *self, ls_graph *graph, ls_node *node,
                             const char *outside);

// Returns the outside compiled cluster of the op, or of the innermost enclosing
// op that has one.
static const char *outside_of(const ls_graph_walk *walk) {
  const char *own = ls_node_mark(walk->node, LS_MARK_OUTSIDE);
  for (size_t i = walk->num_levels; own == NULL && i > 0; --i)
    own = ls_node_mark(walk->levels[i - 1].holder, LS_MARK_OUTSIDE);
  return own;
}

static ls_status visit_members(const ls_copying *c, const ls_cluster *cluster,
                               visitor visit, void *self) {
  const uint32_t number = (uint32_t)(cluster - c->level->clusters) + 1;
  ls_graph_walk walk;
  for (size_t i = 0; i < c->from->num_nodes; ++i) {
    if (c->level->cluster_of[i] != number) continue;
    for (ls_graph_walk_begin_at(&walk, c->from->nodes[i]);
         ls_graph_walk_next(&walk);)
      LS_RETURN_IF_ERROR(visit(self, walk.graph == NULL ? c->from : walk.graph,
                               walk.node, outside_of(&walk)));
  }
  return ls_ok();
}

// ---- Cores for outside clusters --------------------------------------------
static ls_status bad_core(const ls_cluster *cluster, const char *entry,
                          const char *what) {
  return ls_invalid_argument("computation '%s': '%s' in " LS_MARK_HOST_CORES
                             " %s",
                             cluster->name, entry, what);
}

static ls_status check_core(const ls_cluster *cluster, const char *entry,
                            size_t *out_length) {
  const char *colon = strchr(entry, ':');
  if (colon == NULL || colon == entry || strchr(colon + 1, ':') != NULL)
    return bad_core(cluster, entry, "is no \"cluster:core\"");
  char *end = NULL;
  const long long core = strtoll(colon + 1, &end, 10);
  if (colon[1] < '0' || colon[1] > '9' || *end != '\0')
    return bad_core(cluster, entry, "has no number after its colon");
  const int64_t cores =
      ls_node_int(cluster->metadata, LS_ATTR_ID_NUM_CORES_PER_REPLICA);
  *out_length = (size_t)(colon - entry);
  if (core < cores) return ls_ok();
  return ls_invalid_argument(
      "computation '%s': outside compiled cluster '%.*s' is to exchange values "
      "on core %lld of a replica, which has %lld",
      cluster->name, (int)*out_length, entry, core, (long long)cores);
}

static ls_status check_cores(const ls_cluster *cluster) {
  const ls_attr *attr =
      ls_node_attr_named(cluster->metadata, LS_MARK_HOST_CORES);
  if (attr == NULL || attr->kind != LS_ATTR_STRINGS) return ls_ok();
  const char *const *items = attr->as.strings.items;
  for (size_t i = 0; i < attr->as.strings.count; ++i) {
    size_t length = 0;
    LS_RETURN_IF_ERROR(check_core(cluster, items[i], &length));
    for (size_t k = 0; k < i; ++k)
      if (strncmp(items[k], items[i], length + 1) == 0)
        return ls_invalid_argument("computation '%s': outside compiled cluster "
                                   "'%.*s' is in " LS_MARK_HOST_CORES " twice",
                                   cluster->name, (int)length, items[i]);
  }
  return ls_ok();
}

// ---- Ops -------------------------------------------------------------------
// Returns true if the op cannot run on a core: it makes strings, or calls a
// host kernel without the flag LS_HOST_ON_CORES.
static bool has_no_device_form(const ls_node *node) {
  if (node->type == LS_OP_HOST)
    return (ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel->flags &
            LS_HOST_ON_CORES) == 0;
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i].dtype == LS_DTYPE_STRING) return true;
  return false;
}

enum { NAMED = 3 };  // Number of moved ops that the log line names.

typedef struct op_check {
  const ls_cluster *cluster;
  bool soft;
  size_t num_moved;
  const char *moved[NAMED];
} op_check;

static ls_status check_op(void *self, ls_graph *graph, ls_node *node,
                          const char *outside) {
  op_check *check = self;
  char text[LS_MAX_FULL_NAME];
  if (outside != NULL && ls_node_is_collective(node))
    return ls_invalid_argument(
        "%s is in outside compiled cluster '%s' of computation '%s': "
        "collectives run on cores, and these do not run it",
        ls_node_describe(graph, node, text, sizeof(text)), outside,
        check->cluster->name);
  if (outside != NULL || !has_no_device_form(node)) return ls_ok();
  if (check->num_moved < NAMED)
    check->moved[check->num_moved] = ls_node_name(graph, node);
  ++check->num_moved;
  if (check->soft) return ls_ok();
  return ls_invalid_argument(
      "%s of computation '%s' has no form for a TPU: make it in "
      "ls_outside_compilation, or allow soft placement",
      ls_node_describe(graph, node, text, sizeof(text)), check->cluster->name);
}

// Logs moved ops once for each computation, which is identified by its graph's
// name and its source position, because each trace of a function is another
// graph.
static ls_status report_moved(const ls_copying *c, const op_check *check) {
  const ls_graph *whole = ls_graph_whole(c->from);
  const ls_node *metadata = check->cluster->metadata;
  const size_t more = check->num_moved > NAMED ? check->num_moved - NAMED : 0;
  LS_OWN(ls_text, key) = {.allocator = c->from->allocator};
  LS_OWN(ls_text, names) = {.allocator = c->from->allocator};
  ls_text_append_format(&key, "moved ops of '%s' in '%s'", check->cluster->name,
                        whole->name);
  if (whole->kind == LS_GRAPH_BUILD)
    ls_text_append_format(&key, ", graph %llu", (unsigned long long)whole->id);
  else if (metadata->file != NULL)
    ls_text_append_format(&key, " at %s:%d", metadata->file, metadata->line);
  for (size_t i = 0; i < check->num_moved && i < NAMED; ++i)
    ls_text_append_format(&names, i == 0 ? "'%s'" : ", '%s'", check->moved[i]);
  if (more > 0) ls_text_append_format(&names, " and %zu more", more);
  LS_RETURN_IF_ERROR(ls_text_status(&key));
  LS_RETURN_IF_ERROR(ls_text_status(&names));
  const bool is_one = check->num_moved == 1;
  ls_log_limited(c->from->runtime, ls_text_data(&key), 1, LS_LOG_INFO, "tpu",
                 "%zu %s of computation '%s' in '%s' %s no form for a TPU and "
                 "%s on its hosts: %s",
                 check->num_moved, is_one ? "op" : "ops", check->cluster->name,
                 whole->name, is_one ? "has" : "have", is_one ? "runs" : "run",
                 ls_text_data(&names));
  return ls_ok();
}

static ls_status check_ops(const ls_copying *c, const ls_cluster *cluster) {
  const ls_node *metadata = cluster->metadata;
  const ls_attr *use_tpu = ls_node_attr(metadata, LS_ATTR_ID_USE_TPU);
  const bool on_cpus = use_tpu != NULL && use_tpu->as.i == 0;
  op_check check = {
      .cluster = cluster,
      .soft = on_cpus ||
              ls_node_int(metadata, LS_ATTR_ID_ALLOW_SOFT_PLACEMENT) != 0};
  LS_RETURN_IF_ERROR(visit_members(c, cluster, check_op, &check));
  return check.num_moved == 0 || on_cpus ? ls_ok() : report_moved(c, &check);
}

// ---- Variables -------------------------------------------------------------
// Checks that compiled ops and outside ops of a computation use different
// variables, because the order of their accesses is not defined.
typedef struct variable_check {
  const ls_cluster *cluster;
  ls_map compiled;  // Variables (by family) that compiled ops use.
} variable_check;
LS_OWNED_(variable_check, variable_check, ls_map_deinit(&ls_owned->compiled))

static ls_status note_variable(void *self, ls_graph *graph, ls_node *node,
                               const char *outside) {
  variable_check *check = self;
  const ls_variable *variable = ls_node_named_variable(node);
  (void)graph;
  if (variable == NULL || outside != NULL) return ls_ok();
  return ls_memory_status(
      ls_map_insert_u64(&check->compiled, variable->family, check));
}

static ls_status check_variable(void *self, ls_graph *graph, ls_node *node,
                                const char *outside) {
  variable_check *check = self;
  const ls_variable *variable = ls_node_named_variable(node);
  char text[LS_MAX_FULL_NAME];
  if (variable == NULL || outside == NULL) return ls_ok();
  const bool on_device =
      variable->num_components > 0 || variable->container != NULL;
  if (!on_device && ls_map_find_u64(&check->compiled, variable->family) == NULL)
    return ls_ok();
  return ls_invalid_argument(
      "variable '%s' %s, and outside compiled cluster '%s' of computation '%s' "
      "uses it in %s: read it outside the cluster and pass its value",
      variable->name,
      on_device ? "lives on the devices" : "is used by compiled ops", outside,
      check->cluster->name, ls_node_describe(graph, node, text, sizeof(text)));
}

static ls_status check_variables(const ls_copying *c,
                                 const ls_cluster *cluster) {
  LS_OWN(variable_check, check) = {.cluster = cluster};
  ls_map_init(&check.compiled, c->from->allocator);
  LS_RETURN_IF_ERROR(visit_members(c, cluster, note_variable, &check));
  return visit_members(c, cluster, check_variable, &check);
}

// ---- Edges -----------------------------------------------------------------
static ls_cluster *any_cluster(const ls_copying *c, size_t place) {
  return place == SIZE_MAX || c->level->cluster_of[place] == 0
             ? NULL
             : &c->level->clusters[c->level->cluster_of[place] - 1];
}

// Checks a value that is used outside of its computation: it must be an output,
// or compiled outside and either of a single replica or used by a computation
// with as many replicas.
static ls_status check_edge(const ls_copying *c, ls_node *user,
                            const ls_cluster *of_user, uint64_t ref) {
  const size_t place = ls_graph_position(c->from, ls_ref_id(ref));
  const ls_cluster *cluster = any_cluster(c, place);
  if (cluster == NULL || cluster == of_user ||
      ls_map_find_u64(&c->refs, ref) != NULL)
    return ls_ok();
  char to[LS_MAX_FULL_NAME], from[LS_MAX_FULL_NAME];
  ls_node *node = c->from->nodes[place];
  ls_node_describe(c->from, user, to, sizeof(to));
  ls_node_describe(c->from, node, from, sizeof(from));
  if (ls_node_mark(node, LS_MARK_OUTSIDE) == NULL)
    return ls_invalid_argument("Undeclared output of TPU computation '%s': %s "
                               "uses %s; return it from the computation",
                               cluster->name, to, from);
  if (of_user == NULL && cluster->replicas > 1)
    return ls_invalid_argument(
        "%s outside of computation '%s' uses %s, of which each of its %zu "
        "replicas has its own: only with one replica an outside compiled op "
        "can be used so; return it from the computation",
        to, cluster->name, from, cluster->replicas);
  if (of_user == NULL || of_user->replicas == cluster->replicas) return ls_ok();
  return ls_invalid_argument("%s of computation '%s' with %zu replicas uses %s "
                             "of computation '%s' with %zu replicas",
                             to, of_user->name, of_user->replicas, from,
                             cluster->name, cluster->replicas);
}

static ls_status check_edges(const ls_copying *c) {
  for (size_t i = 0; i < c->from->num_nodes; ++i) {
    ls_node *node = c->from->nodes[i];
    if (!c->level->needed[i] || node->type == LS_OP_TPU_REPLICATED_OUTPUT)
      continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      LS_RETURN_IF_ERROR(
          check_edge(c, node, any_cluster(c, i), node->inputs[k]));
  }
  return ls_ok();
}

ls_status ls_check_clusters(const ls_copying *c) {
  if (c->level->num_clusters > 0) LS_RETURN_IF_ERROR(check_edges(c));
  for (size_t k = 0; k < c->level->num_clusters; ++k) {
    const ls_cluster *cluster = &c->level->clusters[k];
    const size_t place = ls_graph_position(c->from, cluster->metadata->id);
    if (!c->level->needed[place]) continue;
    LS_RETURN_IF_ERROR(check_cores(cluster));
    LS_RETURN_IF_ERROR(check_ops(c, cluster));
    LS_RETURN_IF_ERROR(check_variables(c, cluster));
  }
  return ls_ok();
}

// ---- Bans -------------------------------------------------------------------
// Bans feeds and fetches of a computation's ops, except outside compiled ops of
// computations with one replica. Only the op's marks decide, so that a graph
// read from its text has the same bans.
bool ls_marks_ban(const ls_node *node, int64_t replicas) {
  return ls_node_mark(node, LS_MARK_REPLICATE) != NULL &&
         (replicas > 1 || ls_node_mark(node, LS_MARK_OUTSIDE) == NULL);
}

bool ls_pads_unseen(const ls_node *node) {
  return node->type == LS_OP_TPU_PADDED_INPUT &&
         ls_node_int(node, LS_ATTR_ID_DYNAMIC_PADDER) != 0;
}

// ---- Whole graphs ----------------------------------------------------------
// Lists the computations' metadata ops by name.
static ls_status list_computations(ls_map *computations,
                                   const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const char *name = ls_node_mark(walk.node, LS_MARK_REPLICATE);
    if (walk.node->type == LS_OP_TPU_REPLICATE_METADATA && name != NULL &&
        !ls_map_insert(computations, name, strlen(name), walk.node))
      return ls_out_of_memory();
  }
  return ls_ok();
}

static void ban(const ls_map *computations, const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    ls_node *node = walk.node;
    const char *name = ls_node_mark(node, LS_MARK_REPLICATE);
    const ls_node *metadata =
        name == NULL ? NULL : ls_map_find(computations, name, strlen(name));
    if (metadata != NULL)
      node->not_fed = node->not_fetched =
          ls_marks_ban(node, ls_node_int(metadata, LS_ATTR_ID_NUM_REPLICAS));
    if (ls_pads_unseen(node)) node->not_fed = node->not_fetched = true;
  }
}

ls_status ls_graph_ban_by_marks(ls_graph *graph) {
  LS_OWN(ls_map, computations) = {0};
  ls_map_init(&computations, graph->allocator);
  LS_RETURN_IF_ERROR(list_computations(&computations, graph));
  ban(&computations, graph);
  return ls_ok();
}
