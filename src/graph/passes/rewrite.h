// SPDX-License-Identifier: Apache-2.0
//
// Changes a lowered graph.
//
// A rewrite knows who uses each node's results and keeps that true while nodes
// get other operands, are inserted, moved and erased. Nodes keep their ids and
// are found by them until it ends; then they stand where they were put, and ids
// ascend again without gaps. It takes time by what is changed, not by the graph
// it is changed in.
//
//   LS_OWN(ls_rewrite, r) = {0};
//   LS_RETURN_IF_ERROR(ls_rewrite_begin(&r, graph));
//   LS_RETURN_IF_ERROR(change(&r));
//   return ls_rewrite_end(&r);
//
// Regions are graphs of their own. What one captures is an operand of the node
// that holds it, and is kept the same.
#ifndef LS_GRAPH_PASSES_REWRITE_H_
#define LS_GRAPH_PASSES_REWRITE_H_

#include "base/memory/own.h"
#include "graph/graph.h"

// An operand.
typedef struct ls_node_use {
  ls_node *user;
  uint32_t input;
  uint32_t before, behind;  // In the list of those of one node; 0: none.
} ls_node_use;

typedef struct ls_rewrite {
  ls_graph *graph;
  struct ls_rewrite_node *nodes;  // By id.
  ls_node_use *uses;              // From 1 on.
  size_t nodes_capacity, num_uses, uses_capacity;
  uint64_t first, last;  // Ids of the nodes that stand there.
  bool changed;
  bool moved;  // Nodes stand elsewhere, came or went.
} ls_rewrite;

ls_status ls_rewrite_begin(ls_rewrite *r, ls_graph *graph);
// Puts nodes in their places and numbers them. Without it, and after a failure,
// the graph is to be thrown away.
ls_status ls_rewrite_end(ls_rewrite *r);
void ls_rewrite_deinit(ls_rewrite *r);
LS_OWNED_STRUCT(ls_rewrite, ls_rewrite_deinit)

// ---- Who uses what ---------------------------------------------------------
// Uses of a node's results by others, in the order in which those stood; NULL:
// there is none. They stay where they are until a node is inserted or gets
// other operands.
const ls_node_use *ls_rewrite_first_use(const ls_rewrite *r, uint64_t id);
const ls_node_use *ls_rewrite_last_use(const ls_rewrite *r, uint64_t id);
const ls_node_use *ls_rewrite_next_use(const ls_rewrite *r,
                                       const ls_node_use *use);
const ls_node_use *ls_rewrite_previous_use(const ls_rewrite *r,
                                           const ls_node_use *use);
// Counts how often results of a node are among those of the graph, and in all.
uint32_t ls_rewrite_count_leaving(const ls_rewrite *r, uint64_t id);
uint32_t ls_rewrite_count_uses(const ls_rewrite *r, uint64_t id);
// The node that makes a value, if it is one of this type; else NULL.
ls_node *ls_rewrite_match(const ls_rewrite *r, uint64_t ref, uint16_t type);

// ---- Changes ---------------------------------------------------------------
// Gives a node other operands; of one with regions as many as before.
ls_status ls_rewrite_set_inputs(ls_rewrite *r, ls_node *node,
                                const uint64_t *inputs, uint32_t count);
void ls_rewrite_set_input(ls_rewrite *r, ls_node *node, uint32_t input,
                          uint64_t ref);
// Drops operands whose flag is not set. Regions no longer have the captures.
ls_status ls_rewrite_keep_inputs(ls_rewrite *r, ls_node *node,
                                 const bool *kept);
// Makes a node one of another type with these results; those that it had and
// somebody uses must be among them, at their places.
ls_status ls_rewrite_retype(ls_rewrite *r, ls_node *node, uint16_t type,
                            const ls_type *outputs, uint32_t num_outputs);
// Takes over another node's attributes.
void ls_rewrite_take_attrs(ls_rewrite *r, ls_node *node, const ls_node *from);
// Result `output` is a new one; those from there on are one further.
ls_status ls_rewrite_add_output(ls_rewrite *r, ls_node *node, uint32_t output,
                                ls_type type);
// Drops results whose flag is not set, which nobody uses.
ls_status ls_rewrite_keep_outputs(ls_rewrite *r, ls_node *node,
                                  const bool *kept);
// Whoever uses value `from` uses `to` instead.
void ls_rewrite_replace(ls_rewrite *r, uint64_t from, uint64_t to);
// A new node of one result, right before another one, whose place in the user's
// source, and whose replicas, are its own.
ls_status ls_rewrite_insert(ls_rewrite *r, ls_node *before,
                            const ls_op_spec *spec, const uint64_t *inputs,
                            ls_type output, ls_node **out_node);
// Moves a node right behind another one.
void ls_rewrite_move_behind(ls_rewrite *r, const ls_node *node,
                            const ls_node *other);
// Removes a node that nobody uses.
void ls_rewrite_erase(ls_rewrite *r, ls_node *node);

#endif  // LS_GRAPH_PASSES_REWRITE_H_
