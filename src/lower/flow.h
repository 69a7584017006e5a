// SPDX-License-Identifier: Apache-2.0
//
// Helpers for lowering ops with regions. A region's lowered graph captures the
// outer values it reads; variables that it writes enter as loop values or
// captures and leave as results.
#ifndef LS_LOWER_FLOW_H_
#define LS_LOWER_FLOW_H_

#include "base/memory/own.h"
#include "lower/ops.h"

// A growing list of refs.
typedef struct ls_ref_list {
  ls_allocator *allocator;
  uint64_t *items;
  size_t count, capacity;
} ls_ref_list;
LS_OWNED_(ls_ref_list, ls_ref_list,
          ls_release(ls_owned->allocator, ls_owned->items))
ls_status ls_ref_list_push(ls_ref_list *list, uint64_t ref);
// Pushes the outer values that regions capture.
ls_status ls_ref_list_push_captures(ls_ref_list *list, ls_graph *const *regions,
                                    size_t count);

// The lowering of an op with regions.
typedef struct ls_lower_flow {
  ls_lower_scope *scope;  // Scope of the op.
  ls_node *node;
  ls_graph **regions;  // Lowered regions, until an op owns them.
  size_t num_regions, regions_capacity;
  ls_ref_list inputs;
  ls_variable **written;  // Variables that the regions write.
  size_t num_written, written_capacity;
  // A written variable that has got a value for each replica inside.
  ls_variable *differs;
} ls_lower_flow;

ls_status ls_lower_flow_begin(ls_lower_flow *f, ls_lower_scope *scope,
                              ls_node *node);
void ls_lower_flow_end(ls_lower_flow *f);
LS_OWNED_STRUCT(ls_lower_flow, ls_lower_flow_end)
// Makes the lowered graph of a region, and its scope, which the caller ends.
ls_status ls_lower_flow_open(ls_lower_flow *f, ls_graph *from, const char *name,
                             ls_lower_scope *inner);
// Adds a parameter to a region's lowered graph.
ls_status ls_lower_flow_declare(ls_lower_scope *inner, ls_type type,
                                uint64_t *out_ref);
// Maps a region's captures to lowered outer values.
ls_status ls_lower_flow_map_captures(ls_lower_flow *f, ls_lower_scope *inner);
// Lowers a region's nodes; if several scopes lower one region, lowers each node
// in all of them.
ls_status ls_lower_flow_lower(ls_lower_scope *inner, size_t count);
// Returns a scope for lowering the ops of `from` into the graph of `scope`,
// with values of its own: LS_OWN(ls_shared_scope, inner).
ls_lower_scope ls_lower_share_scope(const ls_lower_scope *scope,
                                    ls_graph *from);
LS_OWNED_(ls_shared_scope, ls_lower_scope, ls_map_deinit(&ls_owned->values))
// Lowers the nodes of a shared scope, and copies the values of its variables to
// the outer scope.
ls_status ls_lower_flow_inline(ls_lower_scope *scope, ls_lower_scope *inner);
// Appends the lowered op; its operands are the listed inputs, then the captures
// of its regions.
ls_status ls_lower_flow_append(ls_lower_flow *f, const ls_attr *attrs,
                               size_t num_attrs, ls_node **out_node);

#endif  // LS_LOWER_FLOW_H_
