// SPDX-License-Identifier: Apache-2.0
//
// Gathering: replicated computations become replicate ops.
//
// In a graph as it was built such a computation is flat: its ops lie among the
// others and carry the mark `_tpu_replicate`, a cluster's name. Before a
// request is lowered what it needs is copied, and in the copy each cluster is
// one replicate op, with the cluster's ops in its region. Nothing else differs:
// names, attributes and places are those of the originals, which the copies
// name as their origin.
//
// One needed value of a cluster needs all of it. A cluster stands where its
// last op did, what depends on it behind it; else the order of creation stays.
// With one replica its ops stay among the others.
#ifndef LS_GRAPH_GATHER_GATHER_H_
#define LS_GRAPH_GATHER_GATHER_H_

#include "graph/graph.h"

// The marks.
#define LS_MARK_REPLICATE "_tpu_replicate"
#define LS_MARK_OUTSIDE "_xla_outside_compilation"
// A mark of reports of compilations: the cluster, and in a copy the report.
#define LS_MARK_COMPILED "_tpu_compilation_status"
#define LS_MARK_TOLD "_told"
// A mark of an op outside: its function is called for each part of what is cut.
#define LS_MARK_MAP_OUTSIDE "_xla_map_outside_compilation"
// A mark of metadata: on which core of each replica an outside compiled cluster
// exchanges values, "cluster:core" each.
#define LS_MARK_HOST_CORES "host_compute_core"
// A mark of metadata, where cores are on several hosts: each replica's cores'
// hosts.
#define LS_MARK_HOSTS "_hosts"

// Marks of metadata, where the system that a computation is for is known: its
// name; its job, where that is not the local one; its mesh, x, y, z and cores
// of a chip, and its hosts, as it was then. They say where it runs, not what it
// computes: no part of a graph's identity (graph/compare/identity.h).
#define LS_MARK_SYSTEM "_tpu_system"
#define LS_MARK_JOB "_tpu_job"
#define LS_MARK_MESH "_tpu_mesh"
// Returns true if an attribute is one of these.
bool ls_attr_is_of_system(const ls_attr *attr);

// A request to a graph: as in an ls_lower_request.
typedef struct ls_gather_request {
  ls_graph *graph;
  const uint64_t *fetches;
  size_t num_fetches;
  const uint64_t *feeds;  // In a function these are its parameters.
  size_t num_feeds;
  const ls_op *targets;
  size_t num_targets;
  bool effects_are_roots;
  // Says of outside compiled ops what their copies are called and which replica
  // each is of: for who prints the copy.
  bool shows_copies;
} ls_gather_request;

// The copy, and the request in it.
typedef struct ls_gathered {
  ls_graph *graph;  // The caller's (ls_graph_free). NULL: no clusters.
  uint64_t *fetches, *feeds;
  ls_op *targets;  // Also what a needed computation of one replica does.
  size_t num_targets;
} ls_gathered;

// `memory` holds the lists, and what is needed meanwhile. The copy uses names
// of the graph and must go before it.
//   LS_INVALID_ARGUMENT  a value leaves a cluster other than as its output, or
//                        clusters need each other in a circle.
//   LS_INTERNAL          marks that belong to no cluster.
LS_MUST_USE ls_status ls_graph_gather(const ls_gather_request *request,
                                      ls_arena *memory, ls_gathered *out);

// Finds which ops a request needs, computations whole: by position, in
// `memory`.
LS_MUST_USE ls_status ls_graph_find_needed(const ls_gather_request *request,
                                           ls_arena *memory,
                                           const bool **out_needed);

// Returns true if the marks of an op of a computation of so many replicas say
// that it may be neither fed nor fetched (ls_op_prevent_feeding).
bool ls_marks_ban(const ls_node *node, int64_t replicas);
// Returns true if it pads inputs so that nobody can see it, and is banned
// likewise.
bool ls_pads_unseen(const ls_node *node);
// Sets the bans that marks say on all ops, at any depth.
ls_status ls_graph_ban_by_marks(ls_graph *graph);

// A mark of an op; NULL: it has none.
const char *ls_node_mark(const ls_node *node, const char *name);

#endif  // LS_GRAPH_GATHER_GATHER_H_
