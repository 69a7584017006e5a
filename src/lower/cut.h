// SPDX-License-Identifier: Apache-2.0
// The cut: moves ops that all replicas run together out of a replicate op's
// lowered body. Host calls, and loops and branches that take the same path on
// all replicas, become ops around smaller replicate ops. Then the ops left
// inside are pure, and a variable in a loop remains one variable.
//   replicate { a; while { b }; host; c } ->
//   replicate { a }; while { replicate { b } }; host of all; replicate { c }
//
// A value that differs by replica passes between them as a wide value, which
// has all replicas' values one after another (engine/backend.h).
#ifndef LS_LOWER_CUT_H_
#define LS_LOWER_CUT_H_

#include "lower/flow.h"

// ---- Common values (replica_bodies.c) ---------------------------------------
// Finds the values of a lowered replicate body that are the same on all
// replicas, one by one: one value of a loop may be the same even if another one
// differs. (ls_mark_varying looks at whole nodes.)
typedef struct ls_common_values {
  ls_arena memory;
  ls_map graphs;  // Id of the body or a region in it -> its marks.
} ls_common_values;

void ls_common_values_init(ls_common_values *self, ls_allocator *allocator);
void ls_common_values_deinit(ls_common_values *self);

// Returns true if a value differs between replicas. It is a value of the body,
// or of a region of an op that leaves the body.
bool ls_value_varies(const ls_common_values *self, const ls_graph *graph,
                     uint64_t ref);
// Returns true if an op can be moved around replicate ops: a host call, or a
// loop or branch that takes the same path on all replicas and contains
// differing values or merges.
bool ls_node_leaves(const ls_common_values *self, const ls_graph *graph,
                    const ls_node *node);

// ---- cut.c ------------------------------------------------------------------
typedef struct ls_cut_request {
  const ls_common_values *values;  // Common values of the body.
  ls_graph *body;                  // The body, which is consumed.
  ls_graph *to;                    // Graph that contains the replicate op.
  uint32_t replicas;
  size_t num_split, num_gathered;
  // The operands of the replicate op: for each split argument one value per
  // replica, then the values that are the same for all replicas.
  const uint64_t *inputs;
  uint64_t *outputs;      // Receives the results.
  const ls_node *origin;  // Op of `from` that the user built.
  ls_graph *from;
} ls_cut_request;

// Returns true if an op can leave the body and nothing prevents the cut: no
// stack and no value of LS_MAX_RANK dimensions would cross it.
ls_status ls_can_cut(const ls_common_values *values, const ls_graph *body,
                     bool *out_can);
ls_status ls_cut_replicas(const ls_cut_request *request);

// ---- Shared by the files cut*.c ---------------------------------------------
// Destination of a node of the body.
typedef enum ls_cut_kind {
  LS_CUT_PARAMETER,
  LS_CUT_FREE,     // No operands: made again at each use.
  LS_CUT_OUTER,    // The same for all replicas: moves to the outer graph.
  LS_CUT_SEGMENT,  // Stays in a replicate op.
  LS_CUT_LEAVES,   // Moves to the outer graph, between two replicate ops.
} ls_cut_kind;

// The form of a value in the outer graph.
typedef enum ls_cut_role {
  LS_CUT_COMMON = 1 << 0,  // One value for all replicas.
  LS_CUT_WIDE = 1 << 1,    // Wide: all replicas' values, one after another.
  LS_CUT_NARROW = 1 << 2,  // One value per replica.
} ls_cut_role;

// Refs of a value in the outer graph, by role.
typedef struct ls_cut_value {
  uint64_t common, wide;
  uint64_t *narrow;
  uint8_t wanted;  // Roles that its segment must return.
} ls_cut_value;

typedef struct ls_cut_graph {
  const ls_cut_request *request;
  ls_arena *memory;
  ls_graph *from, *to;
  uint8_t *kind;    // By node position.
  uint32_t *level;  // Number of leaving ops before the node or its operands.
  uint32_t num_levels;
  size_t *first;  // By node position: index of its first result in
  ls_cut_value *values;
  // The results, and the role of each.
  const uint8_t *roles;
} ls_cut_graph;

static inline size_t ls_cut_place(const ls_cut_graph *g, uint64_t ref) {
  return ls_graph_position(g->from, ls_ref_id(ref));
}
static inline ls_cut_value *ls_cut_value_of(const ls_cut_graph *g,
                                            uint64_t ref) {
  return &g->values[g->first[ls_cut_place(g, ref)] + ls_ref_output(ref)];
}
static inline bool ls_cut_varies(const ls_cut_graph *g, uint64_t ref) {
  return ls_value_varies(g->request->values, g->from, ref);
}
// Returns the role in which a leaving node takes its operand `input`.
ls_cut_role ls_cut_operand_role(const ls_cut_graph *g, const ls_node *node,
                                uint32_t input);

// ---- cut_plan.c -------------------------------------------------------------
// Decides for each node where it goes.
ls_status ls_cut_plan(ls_cut_graph *g);
// Finds the values that are used outside of the segment that makes them.
void ls_cut_find_wanted(ls_cut_graph *g);

// ---- cut_segment.c ----------------------------------------------------------
// Returns a value of the outer graph in a role.
ls_status ls_cut_ref(ls_cut_graph *g, uint64_t ref, ls_cut_role role,
                     uint64_t *out_ref);
// Appends the replicate op of a level, unless the level has no work. `leaving`
// is the op that follows; NULL at the end of the graph.
ls_status ls_cut_emit_segment(ls_cut_graph *g, uint32_t level,
                              const ls_node *leaving);

// ---- cut.c ------------------------------------------------------------------
// Cuts a graph. The values of the graph's parameters must be set.
ls_status ls_cut_emit(ls_cut_graph *g);

// ---- Replicate ops ---------------------------------------------------------
// Lowering of a replicate op: declarations shared by the files replica*.c.

// A replicate op being lowered. Replicas whose arguments have the same shapes
// form a class, which has one body; nodes that the bodies have in common run
// once.
typedef struct ls_lower_replicas {
  ls_lower_flow *f;
  size_t replicas, num_split;
  int64_t *classes;  // Class of each replica.
  size_t *first;     // First replica of each class.
  size_t num_classes;
  ls_lower_scope *bodies;
  size_t num_bodies;      // Number of bodies made so far.
  uint32_t **twins;       // For each body but the first: see ls_find_twins.
  size_t *place;          // Position of result i of the source,
  size_t *written_place;  // and of the value of written variable i.
  size_t num_gathered;
  // Variables with a value for each replica: each is a split argument and a
  // result. They are found one after another.
  const ls_lower_own *own;
  // A variable that must be added to `own`, before the op is lowered again.
  ls_variable *differs;
  bool goes_apart;  // True if the op is lowered again, taken apart.
  // Values by which the bodies are cut, if they are cut.
  ls_common_values values;
  bool is_cut;
  uint64_t *outputs;  // Outputs of the op, or of the ops that replace it.
} ls_lower_replicas;

// ---- replica_bodies.c -------------------------------------------------------
void ls_lower_replicas_find_classes(ls_lower_replicas *self);
// Makes the body of class `k`.
ls_status ls_lower_replicas_open_body(ls_lower_replicas *self, size_t k);
// Finds the values that differ between replicas in the lowered bodies, and
// decides if the bodies are cut.
ls_status ls_lower_replicas_mark(ls_lower_replicas *self);
// Returns true if a value of the first body differs between replicas.
bool ls_lower_replicas_varies(const ls_lower_replicas *self, uint64_t ref);

#endif  // LS_LOWER_CUT_H_
