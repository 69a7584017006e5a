// SPDX-License-Identifier: Apache-2.0
//
// Division of a replicate op: which values lanes compute, and which shared code
// computes before, beside or after the lanes.
//
// Replicas may be of several classes, each with its own body. Values that are
// equal in all bodies are computed once, from the first body; for other bodies
// only lane code is emitted, which finds such values through the equal nodes of
// the first body (graph/passes/passes.h).
#ifndef LS_ENGINE_CPU_COMPILE_REGION_H_
#define LS_ENGINE_CPU_COMPILE_REGION_H_

#include "engine/cpu/compile/compile.h"
#include "graph/passes/passes.h"

// The body of one class of replicas.
typedef struct ls_cpu_body {
  ls_graph *graph;
  ls_cpu_scope scope;
  uint32_t num_lanes;
  // Per node: position of its equal node in the first body, whose value shared
  // code computes; LS_NO_TWIN: lanes compute it.
  uint32_t *twins;
  const ls_node **merges;  // The region's merges, as nodes of this body.
  // Number of the last published value that lanes have waited for.
  uint32_t waited;
} ls_cpu_body;

struct ls_cpu_region {
  const ls_node *op;
  ls_cpu_body *bodies;
  uint32_t num_bodies;
  uint32_t *classes;  // Per replica: index of its body.
  // Narrow arguments come first, then wide ones; likewise results. A wide
  // argument or result is a single value of the outer graph.
  uint32_t num_split, num_arguments, num_gathered, num_given;
  // Per node of the first body:
  bool *after_merge;  // Computed by shared code after a merge,
  bool *needed;       // and used by a lane.
  // Number under which a value is published for lanes; 0: no lane uses it.
  uint32_t *published;
  bool *is_lane_merge;        // A merge that lanes post to.
  ls_cpu_lane_merge *merges;  // Merges at the top level.
  uint32_t num_merges;
  // Lanes post as soon as the operand is computed; otherwise at the merge.
  bool posts_early;
  // Lanes of all classes reach posts in order of replica, but for host calls.
  bool in_order;
  uint32_t *gathered;  // Per result and replica: the outer value's storage.
  uint32_t *wide;      // Per wide result: the outer value's storage.
  bool *is_gathered;   // Per result: true if lanes write it.
};

// Fills in a region, except scopes and the storages of merges and gathered
// results.
ls_status ls_cpu_region_init(ls_cpu_compiler *compiler, const ls_node *op,
                             ls_cpu_region *self);

// Returns the input of which argument `argument` of replica `replica` is the
// value or a part.
static inline uint64_t ls_cpu_argument_of(const ls_cpu_region *self,
                                          uint32_t replicas, uint32_t argument,
                                          uint32_t replica) {
  const uint32_t split = self->num_split;
  return self->op
      ->inputs[argument < split ? argument * replicas + replica
                                : split * replicas + (argument - split)];
}

// Returns the position of the equal node in the first body, or LS_NO_TWIN.
static inline uint32_t ls_cpu_twin(const ls_cpu_body *body, uint64_t ref) {
  return body->twins[ls_graph_position(body->graph, ls_ref_id(ref))];
}

#endif  // LS_ENGINE_CPU_COMPILE_REGION_H_
