// SPDX-License-Identifier: Apache-2.0
//
// A graph that is being cut: what the files cut*.c share.
#ifndef LS_LOWER_CUT_GRAPH_H_
#define LS_LOWER_CUT_GRAPH_H_

#include "lower/cut.h"
#include "lower/flow.h"

// What becomes of a node.
typedef enum ls_cut_kind {
  LS_CUT_PARAMETER,
  LS_CUT_FREE,     // Has no operands: made again wherever it is used.
  LS_CUT_OUTER,    // The same for all without their doing: stands around.
  LS_CUT_SEGMENT,  // Stays in a replicate op.
  LS_CUT_LEAVES,   // Stands around, between two of them.
} ls_cut_kind;

// How a value is wanted around replicate ops.
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
// Of a node that leaves, how it takes operand `input`.
ls_cut_role ls_cut_operand_role(const ls_cut_graph *g, const ls_node *node,
                                uint32_t input);

// ---- cut_plan.c -------------------------------------------------------------
// What becomes of the nodes.
ls_status ls_cut_plan(ls_cut_graph *g);
// Which values leave the segments that make them.
void ls_cut_find_wanted(ls_cut_graph *g);

// ---- cut_segment.c ----------------------------------------------------------
// A value as it is around.
ls_status ls_cut_ref(ls_cut_graph *g, uint64_t ref, ls_cut_role role,
                     uint64_t *out_ref);
// Appends the replicate op of a level, unless it has nothing to do. `leaving`:
// what leaves behind it; NULL: the graph ends.
ls_status ls_cut_emit_segment(ls_cut_graph *g, uint32_t level,
                              const ls_node *leaving);

// ---- cut_flow.c -------------------------------------------------------------
// Appends what leaves: a loop, a branch or a host call.
ls_status ls_cut_emit_leaving(ls_cut_graph *g, ls_node *node);

// ---- cut.c ------------------------------------------------------------------
// Cuts a graph whose parameters have their values.
ls_status ls_cut_emit(ls_cut_graph *g);
// A graph to be cut, of the same request.
ls_status ls_cut_graph_init(ls_cut_graph *g, const ls_cut_request *request,
                            ls_arena *memory, ls_graph *from, ls_graph *to);

#endif  // LS_LOWER_CUT_GRAPH_H_
