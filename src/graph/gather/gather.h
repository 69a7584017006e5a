// SPDX-License-Identifier: Apache-2.0
//
// Gathering: replicated computations become replicate ops.
//
// In a graph as built, a computation's ops lie among the others and carry its
// name, the cluster's, in the mark `_tpu_replicate`. Before a request is
// lowered, the ops it needs are copied, and in the copy each cluster is one
// replicate op with the cluster's ops in its region. All else is kept: names,
// attributes and source positions; each copy names its original as its origin.
//
// If one value of a cluster is needed, the whole cluster is. A cluster goes
// where its last op was, followed by the ops that depend on it; otherwise the
// order of creation stays. The ops of a cluster with one replica stay among the
// others.
#ifndef LS_GRAPH_GATHER_GATHER_H_
#define LS_GRAPH_GATHER_GATHER_H_

#include "graph/graph.h"

// Marks of a computation's ops: the cluster, and the outside compiled cluster.
#define LS_MARK_REPLICATE "_tpu_replicate"
#define LS_MARK_OUTSIDE "_xla_outside_compilation"
// Marks of compilation reports: the cluster, and in a copy the report.
#define LS_MARK_COMPILED "_tpu_compilation_status"
#define LS_MARK_TOLD "_told"
// Mark of an outside op: its function is called for each part of a partitioned
// value.
#define LS_MARK_MAP_OUTSIDE "_xla_map_outside_compilation"
// Mark of metadata: the core of each replica with which an outside compiled
// cluster exchanges values, a list of "cluster:core".
#define LS_MARK_HOST_CORES "host_compute_core"
// Mark of metadata, if cores are on several hosts: the host of each replica's
// cores.
#define LS_MARK_HOSTS "_hosts"

// Marks of metadata, if the computation's system is known: its name; its job,
// unless local; and the mesh (x, y, z, cores of a chip) and number of hosts
// that it had then. The marks tell where a computation runs, not what it
// computes, so that they do not count in a graph's identity
// (graph/compare/compare.h).
#define LS_MARK_SYSTEM "_tpu_system"
#define LS_MARK_JOB "_tpu_job"
#define LS_MARK_MESH "_tpu_mesh"
// Returns true if an attribute is one of these marks.
bool ls_attr_is_of_system(const ls_attr *attr);

// A request to a graph, as in an ls_lower_request.
typedef struct ls_gather_request {
  ls_graph *graph;
  const uint64_t *fetches;
  size_t num_fetches;
  const uint64_t *feeds;  // Fed values; in a function its parameters.
  size_t num_feeds;
  const ls_op *targets;
  size_t num_targets;
  bool effects_are_roots;
  // Marks outside compiled ops with the names and replicas of their copies, for
  // printing.
  bool shows_copies;
} ls_gather_request;

// The gathered copy of a graph, and the request with refs of the copy.
typedef struct ls_gathered {
  // Owned by the caller (ls_graph_free). NULL: the graph has no clusters.
  ls_graph *graph;
  uint64_t *fetches, *feeds;
  // Include ops with effects in needed one-replica computations.
  ls_op *targets;
  size_t num_targets;
} ls_gathered;

// Gathers a graph. `memory` holds the lists and temporary data. The copy uses
// the graph's names, so that the copy must be freed first.
//   LS_INVALID_ARGUMENT  a value leaves a cluster without being its output, or
//                        clusters need each other in a cycle
//   LS_INTERNAL          marks that belong to no cluster
LS_MUST_USE ls_status ls_graph_gather(const ls_gather_request *request,
                                      ls_arena *memory, ls_gathered *out);

// Finds the ops that a request needs, with whole computations: flags by
// position, in `memory`.
LS_MUST_USE ls_status ls_graph_find_needed(const ls_gather_request *request,
                                           ls_arena *memory,
                                           const bool **out_needed);

// Returns true if the marks of an op of a computation with this many replicas
// forbid feeding and fetching it (ls_op_prevent_feeding).
bool ls_marks_ban(const ls_node *node, int64_t replicas);
// Returns true if the op pads inputs without materializing the result, so that
// feeding and fetching it is forbidden.
bool ls_pads_unseen(const ls_node *node);
// Sets the bans that marks require on all ops, at any depth.
ls_status ls_graph_ban_by_marks(ls_graph *graph);

// Returns a mark of an op, NULL if it has none.
const char *ls_node_mark(const ls_node *node, const char *name);

#endif  // LS_GRAPH_GATHER_GATHER_H_
