// SPDX-License-Identifier: Apache-2.0
//
// Shared by the lowering of ops with child graphs. A region's lowered graph
// captures what it reads from around it; variables that it writes go in as
// carried or captured values and come out as results.
#ifndef LS_LOWER_FLOW_H_
#define LS_LOWER_FLOW_H_

#include "base/memory/own.h"
#include "lower/ops.h"

// A list of refs that grows.
typedef struct ls_ref_list {
  ls_allocator *allocator;
  uint64_t *items;
  size_t count, capacity;
} ls_ref_list;
LS_OWNED_(ls_ref_list, ls_ref_list,
          ls_release(ls_owned->allocator, ls_owned->items))
ls_status ls_ref_list_push(ls_ref_list *list, uint64_t ref);
// Pushes what regions capture.
ls_status ls_ref_list_push_captures(ls_ref_list *list, ls_graph *const *regions,
                                    size_t count);

// An op with regions on its way.
typedef struct ls_lower_flow {
  ls_lower_scope *scope;  // Where the op stands.
  ls_node *node;
  ls_graph **regions;  // Lowered ones, until the lowered op has them.
  size_t num_regions, regions_capacity;
  ls_ref_list inputs;
  ls_variable **written;  // Variables that the regions write.
  size_t num_written, written_capacity;
  ls_variable *differs;  // One of them that replicas inside make their own.
} ls_lower_flow;

ls_status ls_lower_flow_begin(ls_lower_flow *f, ls_lower_scope *scope,
                              ls_node *node);
void ls_lower_flow_end(ls_lower_flow *f);
LS_OWNED_STRUCT(ls_lower_flow, ls_lower_flow_end)
// Lowers a loop or branch by `lower`: once more for each variable that turns
// out to get a value for each replica from a replicate op inside. Then its
// components are what is written.
ls_status ls_lower_flow_around(ls_lower_scope *scope, ls_node *node,
                               ls_status (*lower)(ls_lower_flow *f));
// Reads a written variable, around the regions or in one.
ls_status ls_lower_flow_read(ls_lower_flow *f, ls_lower_scope *where,
                             ls_variable *variable, uint64_t *out_ref);
// Makes the lowered graph of a region and a scope in it, which the caller ends.
ls_status ls_lower_flow_open(ls_lower_flow *f, ls_graph *from, const char *name,
                             ls_lower_scope *inner);
// Adds a parameter to it.
ls_status ls_lower_flow_declare(ls_lower_scope *inner, ls_type type,
                                uint64_t *out_ref);
// Lets its captures stand for lowered values around it.
ls_status ls_lower_flow_map_captures(ls_lower_flow *f, ls_lower_scope *inner);
// Lowers what is in it; of several scopes over one region, node by node in all.
ls_status ls_lower_flow_lower(ls_lower_scope *inner, size_t count);
// Returns a scope for the ops of `from` that are to become nodes of `scope`,
// with values of its own: LS_OWN(ls_shared_scope, inner).
ls_lower_scope ls_lower_share_scope(const ls_lower_scope *scope,
                                    ls_graph *from);
LS_OWNED_(ls_shared_scope, ls_lower_scope, ls_map_deinit(&ls_owned->values))
// Lowers what is in such a scope, and hands back what it knows.
ls_status ls_lower_flow_inline(ls_lower_scope *scope, ls_lower_scope *inner);
// Notes a lowered loop or branch of replicas with steps in it.
ls_status ls_lower_note_steps(ls_lower_flow *f, const ls_node *made);
// Returns true if replicas are known to go through a loop or branch in own
// ways.
bool ls_lower_is_apart_flow(const ls_lower_scope *scope, const ls_node *node);
// Appends the lowered op: the inputs listed so far, then what its regions
// capture.
ls_status ls_lower_flow_append(ls_lower_flow *f, const ls_attr *attrs,
                               size_t num_attrs, ls_node **out_node);
// Takes the outputs of `made` from `first` on as new values of the variables.
ls_status ls_lower_flow_take_written(ls_lower_flow *f, const ls_node *made,
                                     size_t first);

#endif  // LS_LOWER_FLOW_H_
