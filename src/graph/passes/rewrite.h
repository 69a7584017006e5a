// SPDX-License-Identifier: Apache-2.0
//
// Changes a lowered graph.
//
// A rewrite keeps lists of the uses of each node's results, updated while nodes
// get other operands, are inserted, moved and erased. Nodes keep their ids
// until the rewrite ends; then nodes are in their new order and ids ascend
// again without gaps. Its cost grows with the number of changes, not the size
// of the graph.
//
// ¶ |  LS_OWN(ls_rewrite, r) = {0};
//   LS_RETURN_IF_ERROR(ls_rewrite_begin(&r, graph));
//   LS_RETURN_IF_ERROR(change(&r));
//   return ls_rewrite_end(&r);
//
// Regions are graphs of their own. A captured value is an operand of the node
// that holds the region; both are kept equal.
#ifndef LS_GRAPH_PASSES_REWRITE_H_
#define LS_GRAPH_PASSES_REWRITE_H_

#include "base/memory/own.h"
#include "graph/graph.h"

// A use of a value: an operand of a node.
typedef struct ls_node_use {
  ls_node *user;
  uint32_t input;
  uint32_t before, behind;  // Links of the list of uses of one node; 0: none.
} ls_node_use;

typedef struct ls_rewrite {
  ls_graph *graph;
  struct ls_rewrite_node *nodes;  // Indexed by id.
  ls_node_use *uses;              // Numbered from 1.
  size_t nodes_capacity, num_uses, uses_capacity;
  uint64_t first, last;  // Ids of the first and last node.
  bool changed;
  bool moved;  // True if nodes were moved, inserted or erased.
} ls_rewrite;

ls_status ls_rewrite_begin(ls_rewrite *r, ls_graph *graph);
// Sorts and renumbers the nodes. If this fails or is never called, the graph
// must be discarded.
ls_status ls_rewrite_end(ls_rewrite *r);
void ls_rewrite_deinit(ls_rewrite *r);
LS_OWNED_STRUCT(ls_rewrite, ls_rewrite_deinit)

// ---- Uses ------------------------------------------------------------------
// Returns the first use of a node's results, in order of the users; NULL if
// there is none. Valid until a node is inserted or its operands change.
const ls_node_use *ls_rewrite_first_use(const ls_rewrite *r, uint64_t id);
const ls_node_use *ls_rewrite_last_use(const ls_rewrite *r, uint64_t id);
const ls_node_use *ls_rewrite_next_use(const ls_rewrite *r,
                                       const ls_node_use *use);
const ls_node_use *ls_rewrite_previous_use(const ls_rewrite *r,
                                           const ls_node_use *use);
// Counts how often results of a node are among the graph's results.
// ls_rewrite_count_uses counts all uses.
uint32_t ls_rewrite_count_leaving(const ls_rewrite *r, uint64_t id);
uint32_t ls_rewrite_count_uses(const ls_rewrite *r, uint64_t id);
// Returns the node of a value if the node has this type, else NULL.
ls_node *ls_rewrite_match(const ls_rewrite *r, uint64_t ref, uint16_t type);

// ---- Changes ---------------------------------------------------------------
// Replaces a node's operands; a node with regions must keep their number.
ls_status ls_rewrite_set_inputs(ls_rewrite *r, ls_node *node,
                                const uint64_t *inputs, uint32_t count);
void ls_rewrite_set_input(ls_rewrite *r, ls_node *node, uint32_t input,
                          uint64_t ref);
// Drops the operands whose flag is not set; for a dropped capture, the regions
// must have lost it already.
ls_status ls_rewrite_keep_inputs(ls_rewrite *r, ls_node *node,
                                 const bool *kept);
// Changes a node's type and results; results in use must keep their positions.
ls_status ls_rewrite_retype(ls_rewrite *r, ls_node *node, uint16_t type,
                            const ls_type *outputs, uint32_t num_outputs);
// Moves another node's attributes to `node`.
void ls_rewrite_take_attrs(ls_rewrite *r, ls_node *node, const ls_node *from);
// Inserts a new result at `output`; later results move up by one.
ls_status ls_rewrite_add_output(ls_rewrite *r, ls_node *node, uint32_t output,
                                ls_type type);
// Drops the results whose flag is not set; they must be unused.
ls_status ls_rewrite_keep_outputs(ls_rewrite *r, ls_node *node,
                                  const bool *kept);
// Inserts a node with one result before the node `before`; it gets the source
// position and replicas of `before`.
ls_status ls_rewrite_insert(ls_rewrite *r, ls_node *before,
                            const ls_op_spec *spec, const uint64_t *inputs,
                            ls_type output, ls_node **out_node);
// Moves a node directly after another one.
void ls_rewrite_move_behind(ls_rewrite *r, const ls_node *node,
                            const ls_node *other);
// Removes an unused node.
void ls_rewrite_erase(ls_rewrite *r, ls_node *node);

#endif  // LS_GRAPH_PASSES_REWRITE_H_
