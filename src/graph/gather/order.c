// SPDX-License-Identifier: Apache-2.0
//
// Orders the ops of one level by creation, but puts a cluster of several
// replicas at the position of its last op, followed by the ops that need the
// cluster.
#include "graph/gather/copy.h"

static bool is_done(const ls_copying *c, uint64_t id) {
  const size_t place = ls_graph_position(c->from, id);
  return place == SIZE_MAX || c->level->done[place];
}

// Returns true if an op's operands and control inputs have been copied, apart
// from ops of the op's own cluster.
static bool has_all(const ls_copying *c, const ls_node *node,
                    const ls_cluster *cluster) {
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const uint64_t ref = node->inputs[i];
    if (ls_map_find_u64(&c->refs, ref) == NULL && !is_done(c, ls_ref_id(ref)) &&
        (cluster == NULL || ls_cluster_of_ref(c, ref) != cluster))
      return false;
  }
  for (uint32_t i = 0; i < node->num_control; ++i) {
    const size_t place = ls_graph_position(c->from, node->control[i]);
    if (place != SIZE_MAX && c->level->needed[place] &&
        !c->level->done[place] &&
        (cluster == NULL || ls_cluster_at(c, place) != cluster))
      return false;
  }
  return true;
}

static bool order_is_ready(const ls_copying *c, size_t place) {
  const ls_cluster *cluster = ls_cluster_at(c, place);
  if (cluster == NULL) return has_all(c, c->from->nodes[place], NULL);
  if (cluster->last != place) return false;
  for (size_t i = 0; i < c->from->num_nodes; ++i)
    if (ls_cluster_at(c, i) == cluster &&
        !has_all(c, c->from->nodes[i], cluster))
      return false;
  return true;
}

// ---- One op or cluster -----------------------------------------------------
// Maps the output of a one-replica computation to the copy of its operand.
static ls_status pass_on(ls_copying *c, ls_node *node) {
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_copied(c, node, node->inputs[0], &ref));
  LS_RETURN_IF_ERROR(ls_copying_set(c, ls_ref(node->id, 0), ref));
  return ls_copying_set_op(c, node->id, ls_ref_id(ref));
}

// Returns true if one-replica computations keep all their ops, because the copy
// is printed.
static bool stays_flat(const ls_copying *c) {
  return c->level->shows_copies > 0;
}

static ls_status take_outputs(ls_copying *c, ls_node *node) {
  const ls_cluster *cluster = ls_cluster_of_ref(c, node->inputs[0]);
  if (cluster == NULL && node->num_outputs == 1)
    return stays_flat(c) ? ls_gather_node(c, node) : pass_on(c, node);
  if (cluster == NULL || cluster->replicas != node->num_outputs) {
    char text[LS_MAX_FULL_NAME];
    return ls_internal(
        "%s has the values of %u replicas, its operand is of %s of %zu",
        ls_node_describe(c->from, node, text, sizeof(text)), node->num_outputs,
        cluster == NULL ? "no replicated computation" : "a computation",
        cluster == NULL ? 1 : cluster->replicas);
  }
  const size_t first =
      ((uintptr_t)ls_map_find_u64(&cluster->results, node->inputs[0]) - 1) *
      cluster->replicas;
  for (unsigned r = 0; r < node->num_outputs; ++r)
    LS_RETURN_IF_ERROR(ls_copying_set(
        c, ls_ref(node->id, r), ls_ref(cluster->op, (unsigned)first + r)));
  return ls_copying_set_op(c, node->id, cluster->op);
}

// Copies a placeholder, unless it is fed: then it has a copy already.
static ls_status copy_placeholder(ls_copying *c, ls_node *node) {
  const uint64_t fed =
      (uintptr_t)ls_map_find_u64(&c->refs, ls_ref(node->id, 0));
  return fed != 0 ? ls_copying_set_op(c, node->id, ls_ref_id(fed))
                  : ls_gather_node(c, node);
}

static ls_status copy_one(ls_copying *c, size_t place) {
  ls_node *node = c->from->nodes[place];
  switch (node->type) {
  case LS_OP_PARAMETER:
    return ls_ok();
  case LS_OP_PLACEHOLDER:
    return copy_placeholder(c, node);
  case LS_OP_TPU_REPLICATE_METADATA:
    return stays_flat(c) ? ls_gather_node(c, node) : ls_ok();
  case LS_OP_TPU_REPLICATED_INPUT:
    if (node->num_inputs != 1) return ls_ok();
    return stays_flat(c) ? ls_gather_node(c, node) : pass_on(c, node);
  case LS_OP_TPU_REPLICATED_OUTPUT:
    return take_outputs(c, node);
  default: {
    bool is_of_step = false;
    LS_RETURN_IF_ERROR(ls_copy_host_step(c, place, &is_of_step));
    return is_of_step ? ls_ok() : ls_gather_node(c, node);
  }
  }
}

static ls_status copy_at(ls_copying *c, size_t place) {
  ls_cluster *cluster = ls_cluster_at(c, place);
  if (cluster == NULL) {
    c->level->done[place] = true;
    return copy_one(c, place);
  }
  for (size_t i = 0; i < c->from->num_nodes; ++i)
    if (ls_cluster_at(c, i) == cluster) c->level->done[i] = true;
  return ls_copy_cluster(c, cluster);
}

// ---- All ops ---------------------------------------------------------------
static ls_status circular_order(const ls_copying *c, size_t place) {
  char text[LS_MAX_FULL_NAME];
  ls_node *node = c->from->nodes[place];
  const ls_cluster *cluster = ls_cluster_at(c, place);
  return ls_invalid_argument(
      "%s needs an op that depends on it%s%s: a computation of several "
      "replicas is one op for ops outside it",
      ls_node_describe(c->from, node, text, sizeof(text)),
      cluster == NULL ? "" : ", with all of computation ",
      cluster == NULL ? "" : cluster->name);
}

ls_status ls_copy_level(ls_copying *c, const ls_gather_request *request) {
  const size_t count = c->from->num_nodes;
  LS_RETURN_IF_ERROR(ls_find_clusters(c));
  LS_RETURN_IF_ERROR(ls_find_needed(c, request));
  LS_RETURN_IF_ERROR(ls_check_clusters(c));
  LS_RETURN_IF_ERROR(ls_find_host_steps(c));
  LS_ARENA_SET_OR_RETURN(c->memory, bool, c->level->done, count + 1);
  // After a cluster, tries the ops that waited for it again.
  for (size_t i = 0, waiting = SIZE_MAX; i < count || waiting < count;) {
    if (i == count) return circular_order(c, waiting);
    const bool to_do = c->level->needed[i] && !c->level->done[i];
    if (to_do && order_is_ready(c, i)) {
      const bool again = ls_cluster_at(c, i) != NULL && waiting < i;
      LS_RETURN_IF_ERROR(copy_at(c, i));
      i = again ? waiting : i + 1;
      if (again) waiting = SIZE_MAX;
    } else {
      const ls_cluster *cluster = ls_cluster_at(c, i);
      if (to_do && waiting > i && (cluster == NULL || cluster->last == i))
        waiting = i;
      ++i;
    }
  }
  return ls_ok();
}
