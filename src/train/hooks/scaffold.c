// SPDX-License-Identifier: Apache-2.0
// Scaffolds: how a graph's variables are initialized.
#include <string.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/graph_ops.h"
#include "lockstep/host.h"
#include "lockstep/monitored_session.h"
#include "lockstep/ops.h"
#include "lockstep/variable_parts.h"
#include "train/hooks/saving.h"

// ---- Collections -----------------------------------------------------------
// Finds the only entry of a collection; empty if there is none.
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

// ---- Variables without a value ---------------------------------------------
// Names of variables.
typedef struct names {
  ls_object object;
  ls_allocator *allocator;
  size_t count;
  char **items;
} names;

static void ready_op_destroy(ls_object *object) {
  names *self = (names *)object;
  ls_allocator *allocator = self->allocator;
  for (size_t i = 0; self->items != NULL && i < self->count; ++i)
    ls_release(allocator, self->items[i]);
  ls_release(allocator, self->items);
  ls_release(allocator, self);
}

static const ls_object_type names_type = {.name = "names",
                                          .destroy = ready_op_destroy};

LS_OWNED_POINTER(names, ls_object_release)

static ls_status make_names(ls_variable *const *variables, size_t count,
                            names **out_names) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN(names, made) = NULL;
  LS_SET_ARRAY_OR_RETURN(allocator, names, made, 1);
  ls_object_init(&made->object, &names_type);
  made->allocator = allocator;
  LS_SET_ARRAY_OR_RETURN(allocator, char *, made->items, count + 1);
  for (made->count = 0; made->count < count; ++made->count) {
    const char *name = ls_variable_name(variables[made->count]);
    char *copy = ls_copy_text(allocator, name, strlen(name));
    LS_RETURN_IF_NO_MEMORY(copy);
    made->items[made->count] = copy;
  }
  return ls_hand_over(&made, out_names);
}

static ls_status infer(const ls_object *state, const ls_type *in, size_t num_in,
                       ls_type *out, size_t *num_out) {
  (void)in, (void)num_in;
  *num_out = 1;
  out[0] = (ls_type){LS_DTYPE_STRING,
                     LS_SHAPE((int64_t)((const names *)state)->count)};
  return ls_ok();
}

static ls_status ready_op_start(ls_host_call *call) {
  const names *self = (const names *)call->state;
  ls_bytes *out = call->outputs[0];
  for (size_t i = 0; i < self->count; ++i) {
    const bool has_value = *(const uint8_t *)call->inputs[i] != 0;
    out[i].data = self->items[i];
    out[i].size = has_value ? 0 : strlen(self->items[i]);
  }
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel kernel = {.name = "report_uninitialized_variables",
                                      .infer = infer,
                                      .start = ready_op_start};

// Makes an op that returns the names of variables without a value, "" for
// others.
static ls_tensor report_uninitialized(ls_variable *const *variables,
                                      size_t count, const char *name) {
  LS_OWN_ARRAY(ls_current_allocator(), ls_tensor, inputs, count + 1);
  LS_OWN(names, state) = NULL;
  const ls_status status = make_names(variables, count, &state);
  if (inputs == NULL || !ls_status_is_ok(status)) {
    ls_status_free(status);
    return ls_failed_tensor();
  }
  LS_NAME_SCOPE(name);
  for (size_t i = 0; i < count; ++i)
    inputs[i] = ls_variable_is_initialized(variables[i], NULL);
  return ls_op_output(ls_host_call_add(&kernel, &state->object, inputs, count),
                      0);
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
  LS_SET_ARRAY_OR_RETURN(ls_current_allocator(), ls_variable *, f->all,
                         f->num_global + f->num_local + 1);
  for (size_t i = 0; i < f->num_global; ++i)
    f->all[i] = f->global[i];
  for (size_t i = 0; i < f->num_local; ++i)
    f->all[f->num_global + i] = f->local[i];
  return ls_ok();
}

static void found_deinit(found *f) {
  ls_allocator *allocator = ls_current_allocator();
  ls_release(allocator, f->global);
  ls_release(allocator, f->local);
  ls_release(allocator, f->all);
}
LS_OWNED_STRUCT(found, found_deinit)

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
    s->ready_op = report_uninitialized(f->all, f->num_global + f->num_local,
                                       "report_uninitialized_variables");
  if (s->ready_for_local_init_op.ref == 0)
    s->ready_for_local_init_op = report_uninitialized(
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
  LS_OWN(found, f) = {0};
  LS_RETURN_IF_ERROR(find_variables(graph, &f));
  LS_RETURN_IF_ERROR(make_missing(s, &f));
  return merge_summaries(s, graph);
}

ls_status ls_scaffold_finalize(ls_scaffold *scaffold, ls_graph *graph) {
  LS_REQUIRE(scaffold, graph);
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
