// SPDX-License-Identifier: Apache-2.0
//
// The cut: a replicate op's lowered body without what all replicas come to
// together. Host calls, and loops and branches that go the same way on all,
// become ops around smaller replicate ops, so that what stays inside is pure
// and a variable in a loop stays one.
//
//   replicate { a; while { b }; host; c }
//     ->  replicate { a }; while { replicate { b } }; host of all; replicate {
//     c }
//
// A value that differs passes between them as one that is wide: those of all
// replicas, one after another (engine/backend.h).
#ifndef LS_LOWER_CUT_H_
#define LS_LOWER_CUT_H_

#include "lower/flow.h"

// ---- common_values.c --------------------------------------------------------
// Finds which values of a lowered replicate body are the same on all replicas,
// one by one: what goes round in a loop may be, though the loop also holds what
// differs. ls_mark_varying looks at whole nodes.
typedef struct ls_common_values {
  ls_arena memory;
  ls_map graphs;  // Id of the body or of a region in it -> its marks.
} ls_common_values;

void ls_common_values_init(ls_common_values *self, ls_allocator *allocator);
void ls_common_values_deinit(ls_common_values *self);

// Finds them in a body of which the first `num_split` parameters differ.
ls_status ls_find_common_values(ls_common_values *self, const ls_graph *body,
                                size_t num_split);
// Returns true if a value of the body, or of a region of an op that leaves,
// differs.
bool ls_value_varies(const ls_common_values *self, const ls_graph *graph,
                     uint64_t ref);
// Returns true if replicas may go through a loop or branch in ways of their
// own, and do not already through what is around it.
bool ls_node_goes_apart(const ls_common_values *self, const ls_graph *graph,
                        const ls_node *node);
// Returns true if a stack is an operand or a result of the op.
bool ls_node_has_stack(const ls_graph *graph, const ls_node *node);
// Returns true if all replicas come to the op together and it can stand around
// replicate ops: a host call, or a loop or branch that goes the same way on all
// and in which something differs or is put together.
bool ls_node_leaves(const ls_common_values *self, const ls_graph *graph,
                    const ls_node *node);

// ---- cut.c ------------------------------------------------------------------
typedef struct ls_cut_request {
  const ls_common_values *values;  // Of the body.
  ls_graph *body;                  // What has its results; it is used up.
  ls_graph *to;                    // The graph around.
  uint32_t replicas;
  size_t num_split, num_gathered;
  // As the replicate op's would be: of each split argument and gathered result
  // one for each replica, then those that are one for all.
  const uint64_t *inputs;
  uint64_t *outputs;      // Filled.
  const ls_node *origin;  // What the user built, of `from`.
  ls_graph *from;
} ls_cut_request;

// Returns true if there is something to cut out of a body and nothing in the
// way: a stack or a value of LS_MAX_RANK dimensions that would cross.
ls_status ls_can_cut(const ls_common_values *values, const ls_graph *body,
                     bool *out_can);
ls_status ls_cut_replicas(const ls_cut_request *request);

// ---- Shared by the files cut*.c ---------------------------------------------
// The fate of a node.
typedef enum ls_cut_kind {
  LS_CUT_PARAMETER,
  LS_CUT_FREE,     // Has no operands: made again wherever it is used.
  LS_CUT_OUTER,    // The same for all without their doing: stands around.
  LS_CUT_SEGMENT,  // Stays in a replicate op.
  LS_CUT_LEAVES,   // Stands around, between two of them.
} ls_cut_kind;

// A form in which a value is wanted around replicate ops.
typedef enum ls_cut_role {
  LS_CUT_COMMON = 1 << 0,  // One for all.
  LS_CUT_WIDE = 1 << 1,    // Those of all, one behind the other.
  LS_CUT_NARROW = 1 << 2,  // One for each.
} ls_cut_role;

// Where a value of the graph is around: refs of the graph cut to.
typedef struct ls_cut_value {
  uint64_t common, wide;
  uint64_t *narrow;
  uint8_t wanted;  // Roles in which what makes it has to give it.
} ls_cut_value;

typedef struct ls_cut_graph {
  const ls_cut_request *request;
  ls_arena *memory;
  ls_graph *from, *to;
  uint8_t *kind;    // By place of a node.
  uint32_t *level;  // As many leave before it, or before what it needs.
  uint32_t num_levels;
  size_t *first;  // By place: where its results are in
  ls_cut_value *values;
  // The results and how each is wanted.
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
// Returns how a node that leaves takes operand `input`.
ls_cut_role ls_cut_operand_role(const ls_cut_graph *g, const ls_node *node,
                                uint32_t input);

// ---- cut_plan.c -------------------------------------------------------------
// Decides what becomes of the nodes.
ls_status ls_cut_plan(ls_cut_graph *g);
// Finds the values that leave the segments that make them.
void ls_cut_find_wanted(ls_cut_graph *g);

// ---- cut_segment.c ----------------------------------------------------------
// Returns a value as it is around.
ls_status ls_cut_ref(ls_cut_graph *g, uint64_t ref, ls_cut_role role,
                     uint64_t *out_ref);
// Appends the replicate op of a level, unless it has nothing to do. `leaving`:
// what leaves after it; NULL: the graph ends.
ls_status ls_cut_emit_segment(ls_cut_graph *g, uint32_t level,
                              const ls_node *leaving);

// ---- cut_flow.c -------------------------------------------------------------
// Appends what leaves: a loop, a branch or a host call.
ls_status ls_cut_emit_leaving(ls_cut_graph *g, ls_node *node);

// ---- cut.c ------------------------------------------------------------------
// Cuts a graph whose parameters have their values.
ls_status ls_cut_emit(ls_cut_graph *g);
// Begins a graph to be cut, of the same request.
ls_status ls_cut_graph_init(ls_cut_graph *g, const ls_cut_request *request,
                            ls_arena *memory, ls_graph *from, ls_graph *to);

#endif  // LS_LOWER_CUT_H_
