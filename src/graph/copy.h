// SPDX-License-Identifier: Apache-2.0
//
// Copies ops of one graph into another unchanged: types, attributes, names,
// source positions, control edges and regions.
//
// An ls_copying maps values and ops to their copies. Callers copy ops in an
// order in which operands come before their users.
#ifndef LS_GRAPH_COPY_H_
#define LS_GRAPH_COPY_H_

#include "base/memory/own.h"
#include "graph/graph.h"

typedef struct ls_copying ls_copying;

// Functions that replace steps of the copying; NULL: the default.
typedef struct ls_copy_policy {
  // Copies a region of `holder` into `to` with ls_copy_region; `c` copies the
  // graph that contains `holder`.
  ls_status (*copy_into)(ls_copying *c, ls_node *holder, ls_graph *from,
                         ls_graph *to);
  // Copies the ops of a region. Default: all of them, one by one.
  ls_status (*copy_ops)(ls_copying *c);
  // Called when the copy of an op has been made, to complete it.
  ls_status (*finish)(ls_copying *c, ls_node *node, ls_node *copy);
  // Makes the error for a value without a copy. `user` is the op that uses the
  // value; NULL: a result.
  ls_status (*missing)(const ls_copying *c, ls_node *user, uint64_t ref);
} ls_copy_policy;

struct ls_copying {
  const ls_copy_policy *policy;  // NULL: the default.
  ls_copying *outer;             // Copying of the enclosing graph; NULL: none.
  ls_graph *from, *to;
  ls_arena *memory;
  // True if the ops of `from` become a region of a new op, while `outer` copies
  // the other ops of `from` into the region's parent. The region then captures
  // values of those other ops.
  bool is_body;
  ls_map refs, ids;  // Copies of values (by ref) and of ops (by id).
  // Data of the policy: see graph/gather/copy.h.
  struct ls_gather_level *level;
};

// Begins a copying with the policy of `outer` (NULL: the default). The caller
// frees the maps; everything else is in `memory`.
void ls_copying_init(ls_copying *c, ls_copying *outer, ls_graph *from,
                     ls_graph *to, ls_arena *memory);
void ls_copying_deinit(ls_copying *c);
LS_OWNED_STRUCT(ls_copying, ls_copying_deinit)

// Returns the copy of a value of `from`; if `c` copies a body, may capture a
// value of the enclosing graph. `user` is the op that uses the value, for
// messages; NULL: a result.
ls_status ls_copied(ls_copying *c, ls_node *user, uint64_t ref,
                    uint64_t *out_ref);
// Sets the copy of a value, unless it has a copy already: a fed value keeps its
// feed.
ls_status ls_copying_set(ls_copying *c, uint64_t ref, uint64_t to);
ls_status ls_copying_set_op(ls_copying *c, uint64_t id, uint64_t to);

// Copies an op with its regions.
ls_status ls_copy_node(ls_copying *c, ls_node *node);
// Makes `copy`, an op of `to`, the copy of `node`: gives it the original's
// types, name and source position, and maps the values.
ls_status ls_copying_take(ls_copying *c, ls_node *node, ls_node *copy);
// Replaces a custom_gradient op by those of its operands that are its outputs.
ls_status ls_copy_without_gradient(ls_copying *c, ls_node *node);
// Copies the parameters, ops and results of a region of `holder`.
ls_status ls_copy_region(ls_copying *c, ls_node *holder);
// Makes an empty graph of the same kind as `graph`, with the parent `parent`.
ls_status ls_graph_make_like(const ls_graph *graph, ls_graph *parent,
                             ls_graph **out_graph);

// Appends a copy of an op of a lowered graph, with other operands. The op gives
// its regions to the copy. Lowered ops have no names and no control inputs.
ls_status ls_graph_move_node(ls_node *node, ls_graph *to,
                             const uint64_t *inputs, ls_node **out_node);

// ---- inline.c ---------------------------------------------------------------
// Copies of ops made by ls_op_add, in the thread's current graph and scopes.

// Adds a copy of `node`, an op of `from`, with these operands (one for each of
// the node's) and control inputs. The node's regions are copied completely.
ls_status ls_graph_copy_op(ls_graph *from, const ls_node *node,
                           const ls_tensor *inputs, const ls_op *control,
                           size_t num_control, ls_op *out_op);

// Adds a copy of every op of `body`, a function or region, and returns the
// values of its results. `args` replace the declared parameters, or all
// parameters including captures. If only declared parameters are replaced,
// captures keep their values: the parent of `body` must then enclose the
// current graph.
ls_status ls_graph_inline(ls_graph *body, const ls_tensor *args,
                          size_t num_args, ls_tensor *results);

// Selects the ops to copy, by position.
typedef struct ls_inline_part {
  const bool *keep;  // By position: true for ops that the wanted results need.
  // By position: if not zeroed, replaces the op's first value.
  const ls_tensor *known;
} ls_inline_part;
// Copies the selected ops; results that need other ops are failed tensors.
ls_status ls_graph_inline_part(ls_graph *body, const ls_tensor *args,
                               size_t num_args, const ls_inline_part *part,
                               ls_tensor *results);

// Returns true if a second copy of the op is harmless and gives the same
// values: the op and its regions access no variables, call no host functions
// and use no stacks. Exception: inside a loop, the copy of a random op draws
// other numbers.
bool ls_node_is_repeatable(const ls_node *node);

#endif  // LS_GRAPH_COPY_H_
