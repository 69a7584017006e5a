// SPDX-License-Identifier: Apache-2.0
//
// The state of copying a graph to its gathered counterpart.
#ifndef LS_GRAPH_GATHER_COPY_H_
#define LS_GRAPH_GATHER_COPY_H_

#include "graph/copy.h"
#include "graph/gather/gather.h"

// One replicated computation in one graph.
typedef struct ls_cluster {
  const char *name;
  ls_node *metadata;
  size_t replicas;
  size_t last;  // Position of its last op.
  // Several replicas: ref of a member -> 1 + index of the result.
  ls_map results;
  uint64_t op;  // Id of the replicate op, 0 until it is made.
} ls_cluster;

// Ops of an outside compiled cluster that run for one replica after another:
// host_cluster.c. `first` and `last` are positions.
typedef struct ls_host_step {
  const char *cluster;
  size_t first, last;
} ls_host_step;

// State of gathering one graph (level).
typedef struct ls_gather_level {
  const ls_cluster *inside;  // Cluster that encloses the level; NULL: none.
  // Replica that outside compiled ops are copied for; -1: none.
  int32_t replica;
  // Number of copies to show of each outside op; 0: not shown.
  size_t shows_copies;
  // Clusters; for each position 1 + the op's cluster, if it is needed, and if
  // it is done.
  ls_cluster *clusters;
  size_t num_clusters;
  uint32_t *cluster_of;
  bool *needed, *done;
  // Several replicas: steps of this level, and for each position 1 + the op's
  // step.
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
// Copies an op like ls_copy_node; in a copy for one replica, the replica's id
// becomes a constant.
ls_status ls_gather_node(ls_copying *c, ls_node *node);
// Copies the ops that a request needs (NULL: all), each cluster as one op.
ls_status ls_copy_level(ls_copying *c, const ls_gather_request *request);
// Makes a cluster's replicate op; its outer values have been copied.
ls_status ls_copy_cluster(ls_copying *c, ls_cluster *cluster);

// Finds the steps of a level, which is a computation's or of a region in it.
ls_status ls_find_host_steps(ls_copying *c);
// Sets `*out_is_one` if the op at `place` belongs to a step; at its last op
// copies the step as a merge call.
ls_status ls_copy_host_step(ls_copying *c, size_t place, bool *out_is_one);

// Finds the hosts of an outside compiled op's `count` copies, one per replica.
// NULL: all on one host.
ls_status ls_copy_places(ls_copying *c, const ls_node *node, size_t count,
                         const char ***out_places);

// Finds the clusters of a level and their members.
ls_status ls_find_clusters(ls_copying *c);
// Finds the ops that a request needs.
ls_status ls_find_needed(ls_copying *c, const ls_gather_request *request);
// Checks the needed clusters (check.c).
ls_status ls_check_clusters(const ls_copying *c);
// Returns the several-replica cluster of the op at a position, NULL if there is
// none.
ls_cluster *ls_cluster_at(const ls_copying *c, size_t place);
ls_cluster *ls_cluster_of_ref(const ls_copying *c, uint64_t ref);
// Returns the level's cluster of this name, NULL if there is none.
ls_cluster *ls_cluster_named(const ls_copying *c, const char *name);

#endif  // LS_GRAPH_GATHER_COPY_H_
