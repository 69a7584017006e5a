// SPDX-License-Identifier: Apache-2.0
//
// Who computes what of a replicate op: lanes, or shared code before, beside or
// after them.
//
// Replicas may be of several classes, each with a body of its own. What is the
// same in all bodies is computed once, from the first one; of the others only
// lane code is emitted, which finds such values by their twins.
#ifndef LS_ENGINE_CPU_COMPILE_REGION_H_
#define LS_ENGINE_CPU_COMPILE_REGION_H_

#include "engine/cpu/compile/compile.h"
#include "graph/passes/twins.h"

// The body of one class of replicas.
typedef struct ls_cpu_body {
  ls_graph *graph;
  ls_cpu_scope scope;
  uint32_t num_lanes;
  // By node: the place in the first body of the value that shared code
  // computes; LS_NO_TWIN: lanes do.
  uint32_t *twins;
  const ls_node **merges;  // Those of the region, as they stand in here.
  uint32_t waited;         // Number of the last value that lanes waited for.
} ls_cpu_body;

struct ls_cpu_region {
  const ls_node *op;
  ls_cpu_body *bodies;
  uint32_t num_bodies;
  uint32_t *classes;  // By replica: its body.
  // Arguments are narrow ones, then wide ones, which are one value of the graph
  // around; so are what replicas give.
  uint32_t num_split, num_arguments, num_gathered, num_given;
  // By node of the first body:
  bool *after_merge;    // Shared code computes it, and it depends on a merge,
  bool *needed;         // ... and a lane depends on it.
  uint32_t *published;  // Its number if a lane uses it, else 0.
  bool *meets;          // A merge that lanes post to.
  ls_cpu_meeting *merges;  // Those at the top level.
  uint32_t num_merges;
  // Lanes post where the operand is computed; else at the merge, each when it
  // is its turn, as they do not come there in order.
  bool posts_early;
  uint32_t *gathered;  // By result and replica: the outer value's storage.
  uint32_t *wide;      // By wide result: the same.
  bool *is_gathered;   // By given result: lanes write it.
};

// Fills in a region: everything but scopes, merges' storages and gathered ones.
ls_status ls_cpu_region_init(ls_cpu_compiler *compiler, const ls_node *op,
                             ls_cpu_region *self);

// The input that argument `argument` of replica `replica` is, or is a part of.
static inline uint64_t ls_cpu_argument_of(const ls_cpu_region *self,
                                          uint32_t replicas, uint32_t argument,
                                          uint32_t replica) {
  const uint32_t split = self->num_split;
  return self->op
      ->inputs[argument < split ? argument * replicas + replica
                                : split * replicas + (argument - split)];
}

// Of a value of a body: its twin, or LS_NO_TWIN.
static inline uint32_t ls_cpu_twin(const ls_cpu_body *body, uint64_t ref) {
  return body->twins[ls_graph_position(body->graph, ls_ref_id(ref))];
}

#endif  // LS_ENGINE_CPU_COMPILE_REGION_H_
