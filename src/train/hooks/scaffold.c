// SPDX-License-Identifier: Apache-2.0
// How a graph's variables get their values.
#include "base/memory/own.h"
#include "base/require.h"
#include "lockstep/graph_ops.h"
#include "lockstep/monitored_session.h"
#include "lockstep/ops.h"
#include "lockstep/variable_parts.h"
#include "train/hooks/ready_op.h"
#include "train/hooks/saved.h"

// ---- Collections -----------------------------------------------------------
// What the one entry of a collection is; none if there is none.
static ls_status scaffold_look(const ls_graph *graph, const char *name,
                               ls_nest *out_leaf) {
  ls_nest leaves[2] = {ls_none(), ls_none()};
  const size_t count = ls_graph_collection(graph, name, leaves, 2);
  *out_leaf = leaves[0];
  return count < 2 ? ls_ok()
                   : ls_failed_precondition(
                         "graph '%s' has %zu entries in collection '%s': one "
                         "is possible",
                         ls_graph_name(graph), count, name);
}

static ls_status look_for_op(const ls_graph *graph, const char *name,
                             ls_op *op) {
  ls_nest leaf;
  if (op->id != 0) return ls_ok();
  LS_RETURN_IF_ERROR(scaffold_look(graph, name, &leaf));
  if (leaf.kind == LS_KIND_OP) *op = leaf.as.op;
  return ls_ok();
}

static ls_status look_for_tensor(const ls_graph *graph, const char *name,
                                 ls_tensor *tensor) {
  ls_nest leaf;
  if (tensor->ref != 0) return ls_ok();
  LS_RETURN_IF_ERROR(scaffold_look(graph, name, &leaf));
  if (leaf.kind == LS_KIND_TENSOR) *tensor = leaf.as.tensor;
  return ls_ok();
}

// ---- Defaults --------------------------------------------------------------
typedef struct found {
  ls_variable **global, **local, **all;
  size_t num_global, num_local;
} found;

static ls_status find_variables(const ls_graph *graph, found *f) {
  LS_RETURN_IF_ERROR(ls_collection_variables(
      graph, LS_COLLECTION_GLOBAL_VARIABLES, &f->global, &f->num_global));
  LS_RETURN_IF_ERROR(ls_collection_variables(
      graph, LS_COLLECTION_LOCAL_VARIABLES, &f->local, &f->num_local));
  f->all = ls_new_array(ls_current_allocator(), ls_variable *,
                        f->num_global + f->num_local + 1);
  if (f->all == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < f->num_global; ++i)
    f->all[i] = f->global[i];
  for (size_t i = 0; i < f->num_local; ++i)
    f->all[f->num_global + i] = f->local[i];
  return ls_ok();
}

static void scaffold_drop(found *f) {
  ls_allocator *allocator = ls_current_allocator();
  ls_release(allocator, f->global);
  ls_release(allocator, f->local);
  ls_release(allocator, f->all);
}

static ls_op initialize_all(ls_variable *const *variables, size_t count,
                            const char *name) {
  LS_OWN_ARRAY(ls_current_allocator(), ls_op, ops, count + 1);
  if (ops == NULL) return (ls_op){0};
  for (size_t i = 0; i < count; ++i)
    ops[i] = ls_variable_initializer(variables[i]);
  return ls_group(ops, count, name);
}

static ls_status make_missing(ls_scaffold *s, const found *f) {
  LS_NAME_SCOPE("");
  if (s->init_op.id == 0)
    s->init_op = initialize_all(f->global, f->num_global, "init");
  if (s->local_init_op.id == 0)
    s->local_init_op = initialize_all(f->local, f->num_local, "local_init");
  if (s->ready_op.ref == 0)
    s->ready_op = ls_report_uninitialized(f->all, f->num_global + f->num_local,
                                          "report_uninitialized_variables");
  if (s->ready_for_local_init_op.ref == 0)
    s->ready_for_local_init_op = ls_report_uninitialized(
        f->global, f->num_global, "report_uninitialized_global_variables");
  const bool whole = s->init_op.id != 0 && s->local_init_op.id != 0 &&
                     s->ready_op.ref != 0 &&
                     s->ready_for_local_init_op.ref != 0;
  const ls_status status = ls_graph_take_error(ls_graph_current());
  return whole || !ls_status_is_ok(status) ? status : ls_out_of_memory();
}

static ls_status merge_summaries(ls_scaffold *s, const ls_graph *graph) {
  LS_OWN_MEMORY(ls_current_allocator(), ls_op, ops) = NULL;
  size_t count = 0;
  if (s->summary_op.id != 0 ||
      ls_graph_collection(graph, LS_COLLECTION_SUMMARIES, NULL, 0) == 0)
    return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_collection_ops(graph, LS_COLLECTION_SUMMARIES, &ops, &count));
  {
    LS_NAME_SCOPE("");
    s->summary_op = ls_group(ops, count, "merge_all_summaries");
  }
  const ls_status status = ls_graph_take_error(ls_graph_current());
  return s->summary_op.id != 0 || !ls_status_is_ok(status) ? status
                                                           : ls_out_of_memory();
}

static ls_status finalize(ls_scaffold *s, ls_graph *graph) {
  LS_RETURN_IF_ERROR(look_for_op(graph, LS_COLLECTION_INIT_OP, &s->init_op));
  LS_RETURN_IF_ERROR(
      look_for_op(graph, LS_COLLECTION_LOCAL_INIT_OP, &s->local_init_op));
  LS_RETURN_IF_ERROR(
      look_for_op(graph, LS_COLLECTION_SUMMARY_OP, &s->summary_op));
  LS_RETURN_IF_ERROR(
      look_for_tensor(graph, LS_COLLECTION_READY_OP, &s->ready_op));
  LS_RETURN_IF_ERROR(look_for_tensor(graph,
                                     LS_COLLECTION_READY_FOR_LOCAL_INIT_OP,
                                     &s->ready_for_local_init_op));
  found f = {0};
  ls_status status = find_variables(graph, &f);
  if (ls_status_is_ok(status)) status = make_missing(s, &f);
  if (ls_status_is_ok(status)) status = merge_summaries(s, graph);
  scaffold_drop(&f);
  return status;
}

ls_status ls_scaffold_finalize(ls_scaffold *scaffold, ls_graph *graph) {
  LS_REQUIRE(scaffold);
  LS_REQUIRE(graph);
  if (!scaffold->finalized) {
    LS_GRAPH_SCOPE(graph);
    LS_RETURN_IF_ERROR(finalize(scaffold, graph));
    scaffold->finalized = true;
  }
  ls_graph_freeze(graph);
  return ls_ok();
}

void ls_scaffold_copy(ls_scaffold *scaffold, const ls_scaffold *from) {
  if (scaffold->init_op.id == 0) scaffold->init_op = from->init_op;
  if (scaffold->init_feeds == NULL) {
    scaffold->init_feeds = from->init_feeds;
    scaffold->num_init_feeds = from->num_init_feeds;
  }
  if (scaffold->init_fn == NULL) {
    scaffold->init_fn = from->init_fn;
    scaffold->init_user = from->init_user;
  }
  if (scaffold->ready_op.ref == 0) scaffold->ready_op = from->ready_op;
  if (scaffold->ready_for_local_init_op.ref == 0)
    scaffold->ready_for_local_init_op = from->ready_for_local_init_op;
  if (scaffold->local_init_op.id == 0)
    scaffold->local_init_op = from->local_init_op;
  if (scaffold->summary_op.id == 0) scaffold->summary_op = from->summary_op;
  if (scaffold->saved == NULL) {
    scaffold->saved = from->saved;
    scaffold->num_saved = from->num_saved;
  }
}
