// SPDX-License-Identifier: Apache-2.0
//
// Copies ops of one graph into another as they stand: with types, attributes,
// names, places, control edges and regions.
//
// A copying holds what became of each value and op. It copies in the order in
// which it is told to; what an op needs is copied before it.
#ifndef LS_GRAPH_COPY_H_
#define LS_GRAPH_COPY_H_

#include "base/memory/own.h"
#include "graph/graph.h"

typedef struct ls_copying ls_copying;

// Ways of a copying of its own; NULL: the ordinary one.
typedef struct ls_copy_policy {
  // Copies a region of `holder` into `to`, by ls_copy_region. `c`: around.
  ls_status (*copy_into)(ls_copying *c, ls_node *holder, ls_graph *from,
                         ls_graph *to);
  // Copies the ops of a region. Else all of them, one by one.
  ls_status (*copy_ops)(ls_copying *c);
  // Adds to the copy of an op.
  ls_status (*finish)(ls_copying *c, ls_node *node, ls_node *copy);
  // Says why a value has no copy. `user`: see ls_copied.
  ls_status (*missing)(const ls_copying *c, ls_node *user, uint64_t ref);
} ls_copy_policy;

struct ls_copying {
  const ls_copy_policy *policy;  // NULL: the ordinary one.
  ls_copying *outer;             // Into the graph around `to`; NULL: none.
  ls_graph *from, *to;
  ls_arena *memory;
  // Ops of `from` go into a region of `to`'s parent, where the others are: what
  // they need of these is captured. `from` is that of `outer`.
  bool is_body;
  ls_map refs, ids;               // What became of values and ops.
  struct ls_gather_level *level;  // The policy's own: see graph/gather/copy.h.
};

// `outer` gives its policy; NULL: the ordinary one. The maps are to be freed,
// `memory` has the rest.
void ls_copying_init(ls_copying *c, ls_copying *outer, ls_graph *from,
                     ls_graph *to, ls_arena *memory);
void ls_copying_deinit(ls_copying *c);
LS_OWNED_STRUCT(ls_copying, ls_copying_deinit)

// Returns what a value of `from` is in the copy; a body captures what it needs
// from around. `user` is who asks, for messages; NULL: a result.
ls_status ls_copied(ls_copying *c, ls_node *user, uint64_t ref,
                    uint64_t *out_ref);
// Sets the copy of a value. One that is there already stays: a fed value is
// what is fed.
ls_status ls_copying_set(ls_copying *c, uint64_t ref, uint64_t to);
ls_status ls_copying_set_op(ls_copying *c, uint64_t id, uint64_t to);

// Copies an op with all that it holds.
ls_status ls_copy_node(ls_copying *c, ls_node *node);
// Takes an op of `to` for the copy of `node`: gives it types, name and place,
// and its values stand for those of `node`.
ls_status ls_copying_take(ls_copying *c, ls_node *node, ls_node *copy);
// Lets what an op with gradients of its own gives be its later operands.
ls_status ls_copy_without_gradient(ls_copying *c, ls_node *node);
// Copies what a region of `holder` has: parameters, ops and results.
ls_status ls_copy_region(ls_copying *c, ls_node *holder);
// Makes an empty graph of the same kind in another one.
ls_status ls_graph_make_like(const ls_graph *graph, ls_graph *parent,
                             ls_graph **out_graph);

// Appends a copy of an op of a lowered graph, which has no names and waits for
// nothing, with other operands. Its regions go along: the op holds none then.
ls_status ls_graph_move_node(ls_node *node, ls_graph *to,
                             const uint64_t *inputs, ls_node **out_node);

// ---- inline.c ---------------------------------------------------------------
// Copies that are made anew: by the ordinary way in, in the thread's current
// graph and scopes.

// Adds a copy of `node`, an op of `from`, with these operands (one each of the
// node's) and control inputs. Its regions are copied whole.
ls_status ls_graph_copy_op(ls_graph *from, const ls_node *node,
                           const ls_tensor *inputs, const ls_op *control,
                           size_t num_control, ls_op *out_op);

// Adds a copy of every op of `body`, a function or region, and gives the
// values of its results. `args` stand for its parameters: for the declared
// ones, or for those and then the captures. Without the latter captures mean
// what they mean in `body`, whose parent must be around the current graph.
ls_status ls_graph_inline(ls_graph *body, const ls_tensor *args,
                          size_t num_args, ls_tensor *results);

// Chooses the ops that are copied, by their places.
typedef struct ls_inline_part {
  const bool *keep;        // All that the wanted results need.
  const ls_tensor *known;  // Not zeroed: what stands for the op's first value.
} ls_inline_part;
// The same of a part of the ops; other results are failed tensors.
ls_status ls_graph_inline_part(ls_graph *body, const ls_tensor *args,
                               size_t num_args, const ls_inline_part *part,
                               ls_tensor *results);

// Returns true if a second copy of the op does no harm and gives the same
// values: it neither reads or writes variables nor calls the host nor uses
// stacks, nor does what is in its regions. Inside a loop a copy of what draws
// random numbers gives others, though.
bool ls_node_is_repeatable(const ls_node *node);
// Returns true if the op, or one in its regions, writes the variable.
bool ls_node_writes(const ls_node *node, const ls_object *variable);

#endif  // LS_GRAPH_COPY_H_
