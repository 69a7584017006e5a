// SPDX-License-Identifier: Apache-2.0
//
// A graph being copied into its gathered counterpart.
#ifndef LS_GRAPH_GATHER_COPY_H_
#define LS_GRAPH_GATHER_COPY_H_

#include "graph/copy.h"
#include "graph/gather/gather.h"

// One replicated computation, at one level of graphs.
typedef struct ls_cluster {
  const char *name;
  ls_node *metadata;
  size_t replicas;
  size_t last;     // The place of its last op.
  ls_map results;  // Of several replicas: ref of a member -> 1 + its number
                   // among the results.
  uint64_t op;     // The replicate op, once it is there. Else 0.
} ls_cluster;

// Ops of an outside compiled cluster that all replicas do together, one replica
// after the other: host_cluster.c. `first` and `last` are places.
typedef struct ls_host_step {
  const char *cluster;
  size_t first, last;
} ls_host_step;

// A level of graphs on its way: what a copying knows beside its values.
typedef struct ls_gather_level {
  const ls_cluster *inside;  // What all of it lies in; NULL: nothing.
  int32_t replica;  // Whose copy of outside compiled ops it is; -1: nobody's.
  size_t shows_copies;  // So many, of each op outside; 0: none are shown.
  // Its clusters, by place 1 + which an op is of, and what is needed and done.
  ls_cluster *clusters;
  size_t num_clusters;
  uint32_t *cluster_of;
  bool *needed, *done;
  // For several replicas: the steps of this level, and by place 1 + which an op
  // is of.
  ls_host_step *steps;
  size_t num_steps;
  uint32_t *step_of;
} ls_gather_level;

// A copying that gathers. ls_gather_end is due also after a failure.
ls_status ls_gather_begin(ls_copying *c, ls_copying *outer, ls_graph *from,
                          ls_graph *to, ls_arena *memory);
void ls_gather_end(ls_copying *c);
// LS_OWN(ls_gathering, c) = {0};
LS_OWNED_(ls_gathering, ls_copying, ls_gather_end(ls_owned))
// ls_copy_node, but for what one replica does by itself.
ls_status ls_gather_node(ls_copying *c, ls_node *node);
// Copies what a request needs (NULL: all of it), clusters as their ops.
ls_status ls_copy_level(ls_copying *c, const ls_gather_request *request);
// Makes the replicate op of a cluster whose outer values are there.
ls_status ls_copy_cluster(ls_copying *c, ls_cluster *cluster);

// Finds the steps of a level: the members of a computation, or a region in it.
ls_status ls_find_host_steps(ls_copying *c);
// If the op at `place` is of a step: at its last op copies all of it, as a
// merge call.
ls_status ls_copy_host_step(ls_copying *c, size_t place, bool *out_is_one);

// Where the copies of an outside compiled op are, one for each of `count`
// replicas: places.c. NULL: all on one host.
ls_status ls_copy_places(ls_copying *c, const ls_node *node, size_t count,
                         const char ***out_places);

// Finds the clusters of a level and what they hold.
ls_status ls_find_clusters(ls_copying *c);
// Finds what a request needs.
ls_status ls_find_needed(ls_copying *c, const ls_gather_request *request);
// Checks the clusters that are needed: check.c.
ls_status ls_check_clusters(const ls_copying *c);
// The cluster of several replicas at this level that an op is of; NULL: none.
ls_cluster *ls_cluster_at(const ls_copying *c, size_t place);
ls_cluster *ls_cluster_of_ref(const ls_copying *c, uint64_t ref);
// The cluster of this name at this level; NULL: none.
ls_cluster *ls_cluster_named(const ls_copying *c, const char *name);

#endif  // LS_GRAPH_GATHER_COPY_H_
