// SPDX-License-Identifier: Apache-2.0
//
// The state of copying a graph to its gathered counterpart.
#ifndef LS_GRAPH_GATHER_COPY_H_
#define LS_GRAPH_GATHER_COPY_H_

#include "graph/copy.h"
#include "graph/gather/gather.h"

// The ops of one replicated computation in one graph.
typedef struct ls_cluster {
  const char *name;
  ls_node *metadata;
  size_t replicas;
  size_t last;  // Position of the cluster's last op.
  // With several replicas: ref of a cluster's value -> 1 + index of the result.
  ls_map results;
  uint64_t op;  // Id of the replicate op; 0 until the op is made.
} ls_cluster;

// Consecutive ops of an outside compiled cluster that run for one replica after
// another: host_cluster.c. `first` and `last` are positions.
typedef struct ls_host_step {
  const char *cluster;
  size_t first, last;
} ls_host_step;

// The state of gathering one graph, called a level.
typedef struct ls_gather_level {
  // Cluster that contains the level's graph; NULL: none.
  const ls_cluster *inside;
  // Replica for which outside compiled ops are copied; -1: for all.
  int32_t replica;
  // Number of copies with which outside ops are marked for printing; 0: no
  // marks.
  size_t shows_copies;
  // Clusters of the level. For each position: 1 + the op's cluster, whether the
  // op is needed, and whether its copy is made.
  ls_cluster *clusters;
  size_t num_clusters;
  uint32_t *cluster_of;
  bool *needed, *done;
  // With several replicas: the steps of the level, and for each position 1 +
  // the op's step.
  ls_host_step *steps;
  size_t num_steps;
  uint32_t *step_of;
} ls_gather_level;

// Begins a gathering copy. Call ls_gather_end even after a failure.
ls_status ls_gather_begin(ls_copying *c, ls_copying *outer, ls_graph *from,
                          ls_graph *to, ls_arena *memory);
void ls_gather_end(ls_copying *c);
// Allows LS_OWN(ls_gathering, c) = {0}.
LS_OWNED_(ls_gathering, ls_copying, ls_gather_end(ls_owned))
// Copies an op as ls_copy_node does; in a copy for one replica, the replica's
// id becomes a constant.
ls_status ls_gather_node(ls_copying *c, ls_node *node);
// Copies the ops that a request needs (NULL: all ops), each cluster as one op.
ls_status ls_copy_level(ls_copying *c, const ls_gather_request *request);
// Makes a cluster's replicate op, after the outer values were copied.
ls_status ls_copy_cluster(ls_copying *c, ls_cluster *cluster);

// Finds the steps of a level, whose graph is a computation's body or a region
// in it.
ls_status ls_find_host_steps(ls_copying *c);
// Sets `*out_is_one` if the op at `place` belongs to a step. If it is the
// step's last op, copies the step as a merge call.
ls_status ls_copy_host_step(ls_copying *c, size_t place, bool *out_is_one);

// Finds the hosts of an outside compiled op's `count` copies, one per replica.
// NULL: all on one host.
ls_status ls_copy_places(ls_copying *c, const ls_node *node, size_t count,
                         const char ***out_places);

// Finds the clusters of a level and their members.
ls_status ls_find_clusters(ls_copying *c);
// Finds the ops that a request needs.
ls_status ls_find_needed(ls_copying *c, const ls_gather_request *request);
// Checks the needed clusters.
ls_status ls_check_clusters(const ls_copying *c);
// Returns the cluster of the op at a position if it has several replicas; else
// NULL.
ls_cluster *ls_cluster_at(const ls_copying *c, size_t place);
ls_cluster *ls_cluster_of_ref(const ls_copying *c, uint64_t ref);
// Returns the level's cluster of this name, NULL if there is none.
ls_cluster *ls_cluster_named(const ls_copying *c, const char *name);

#endif  // LS_GRAPH_GATHER_COPY_H_
