// SPDX-License-Identifier: Apache-2.0
//
// Sums gradients, and opens scopes for gradient ops.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "grad/walk.h"
#include "graph/context.h"
#include "graph/flow.h"
#include "graph/make/make.h"

enum { AGGREGATE_ADD_N = 0 };  // Methods 1 and 2 add in pairs.

int ls_gradient_verbosity(const ls_gradient_context *context) {
  return ls_debug_level(context->runtime, LS_DEBUG_GRAD);
}

// ---- Scopes ----------------------------------------------------------------
static bool in_eager(void) {
  const ls_graph *graph = ls_graph_resolve(ls_graph_current());
  return graph != NULL && graph->kind == LS_GRAPH_EAGER;
}

static const char *uid_of(const ls_gradient_context *context) {
  return context->uid != NULL ? context->uid : LS_NO_GRADIENT_UID;
}

// Opens a colocation scope for gradients and notifies enclosing flows; all
// gradient ops use it.
static void begin_colocation(const ls_gradient_context *context,
                             ls_scope *scope, ls_op op) {
  ls_flow_gradient_begin(scope, op, uid_of(context));
}

void ls_gradient_begin_beside(const ls_gradient_context *context,
                              ls_scope *scope, ls_op op) {
  if (context->colocate && !in_eager()) begin_colocation(context, scope, op);
}

void ls_gradient_begin_inside(const ls_gradient_context *context,
                              ls_scope *scope, ls_op op) {
  if (context->colocate && !in_eager())
    ls_flow_gradient_inside_begin(scope, op, uid_of(context));
}

// Leaves all device and colocation scopes.
static void begin_nowhere(ls_scope *scope) {
  ls_device_scope_begin(scope, NULL);
  ls_context_current()->scoped.colocate = NULL;
}

void ls_gradient_begin_names(ls_scope *scope, const char *name,
                             const char *suffix) {
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  if (graph == NULL || graph->kind == LS_GRAPH_EAGER) return;
  const ls_name_scope *names = ls_context_current()->scoped.names;
  char part[LS_MAX_NAME];
  ls_status status = ls_ok();
  // Enters the scopes one by one, because the length limit applies to each part
  // of the name.
  while (ls_status_is_ok(status)) {
    const char *slash = strchr(name, '/');
    const size_t length = slash != NULL ? (size_t)(slash - name) : strlen(name);
    snprintf(part, sizeof(part), "%.*s%s", (int)length, name,
             slash == NULL ? suffix : "");
    status = ls_graph_name_scope(graph, names, part, slash == NULL, &names);
    if (slash == NULL) break;
    name = slash + 1;
  }
  if (!ls_status_is_ok(status)) {
    ls_context_refuse(scope, status);
    return;
  }
  ls_name_scope_begin(scope, NULL);
  ls_context_current()->scoped.names = names;
}

// ---- Sums ------------------------------------------------------------------
static int sum_compare_devices(const char *a, const char *b) {
  return strcmp(a != NULL ? a : "", b != NULL ? b : "");
}

// Adds the terms on `device`, colocated with the first of them.
static ls_tensor sum_on_device(const ls_gradient_context *context,
                               const char *device, const ls_tensor *terms,
                               size_t count, ls_tensor *group) {
  size_t size = 0;
  for (size_t i = 0; i < count; ++i)
    if (sum_compare_devices(ls_op_device(ls_tensor_op(terms[i])), device) == 0)
      group[size++] = terms[i];
  if (size == 1) return group[0];
  ls_scope nowhere = {0}, beside = {0};
  begin_nowhere(&nowhere);
  begin_colocation(context, &beside, ls_tensor_op(group[0]));
  const ls_tensor sum = ls_add_n(group, size);
  ls_scope_end(&beside);
  ls_scope_end(&nowhere);
  return sum;
}

// Returns a failed tensor and sets the graph's error.
static ls_tensor no_memory(void) {
  return ls_make_failed("gradients", ls_out_of_memory());
}

// Finds the next device of the terms after `*device`, in sorted order.
static bool next_device(const ls_tensor *terms, size_t count,
                        const char **device, bool first) {
  const char *best = NULL;
  for (size_t i = 0; i < count; ++i) {
    const char *at = ls_op_device(ls_tensor_op(terms[i]));
    if (!first && sum_compare_devices(at, *device) <= 0) continue;
    if (best == NULL || sum_compare_devices(at, best) < 0) best = at;
  }
  if (best == NULL) return false;
  *device = best;
  return true;
}

static ls_tensor sum_by_device(const ls_gradient_context *context,
                               const ls_tensor *terms, size_t count) {
  ls_tensor *group = ls_arena_new_array(context->arena, ls_tensor, count);
  ls_tensor *sums = ls_arena_new_array(context->arena, ls_tensor, count);
  if (group == NULL || sums == NULL) return no_memory();
  size_t num_sums = 0;
  const char *device = NULL;
  for (bool first = true; next_device(terms, count, &device, first);
       first = false)
    sums[num_sums++] = sum_on_device(context, device, terms, count, group);
  return num_sums == 1 ? sums[0] : ls_add_n(sums, num_sums);
}

static ls_tensor sum_in_pairs(const char *op_name, const ls_tensor *terms,
                              size_t count) {
  ls_scope names = {0};
  ls_gradient_begin_names(&names, op_name, "_gradient_sum");
  ls_tensor sum = terms[0];
  for (size_t i = 1; i < count; ++i)
    sum = ls_add_n((ls_tensor[]){sum, terms[i]}, 2);
  ls_scope_end(&names);
  return sum;
}

// If all terms are slices, concatenates them without merging equal indices;
// else returns a failed tensor.
static ls_tensor join_slices(const ls_gradient_context *context,
                             const ls_tensor *terms, size_t count) {
  ls_tensor *indices = ls_arena_new_array(context->arena, ls_tensor, count);
  ls_tensor *values = ls_arena_new_array(context->arena, ls_tensor, count);
  if (indices == NULL || values == NULL) return no_memory();
  bool mixed = false;
  for (size_t i = 0; i < count; ++i) {
    if (!ls_tensor_is_slices(terms[i], &indices[i], &values[i]) ||
        ls_tensor_shape(indices[i]).rank != 1)
      return ls_failed_tensor();
    mixed = mixed || ls_tensor_dtype(indices[i]) != ls_tensor_dtype(indices[0]);
  }
  for (size_t i = 0; mixed && i < count; ++i)
    indices[i] = ls_convert(indices[i], LS_DTYPE_I64);
  const ls_tensor where = ls_concatenate(indices, count, 0);
  const ls_tensor joined = ls_concatenate(values, count, 0);
  return ls_indexed_slices(where, joined, terms[0]);
}

ls_tensor ls_gradient_sum(const ls_gradient_context *context,
                          const char *op_name, const ls_tensor *terms,
                          size_t count) {
  const bool pairs = context->aggregation != AGGREGATE_ADD_N;
  ls_tensor sum = count > 1 ? join_slices(context, terms, count) : terms[0];
  const bool joined = sum.ref != 0;
  if (!joined)
    sum = pairs        ? sum_in_pairs(op_name, terms, count)
          : in_eager() ? ls_add_n(terms, count)
                       : sum_by_device(context, terms, count);
  if (ls_gradient_verbosity(context) >= 2)
    ls_runtime_log(context->runtime, LS_LOG_DEBUG, "grad",
                   "%s: %zu terms of %s, %s", op_name, count,
                   LS_SHAPE_TEXT(ls_tensor_dtype(sum), ls_tensor_shape(sum)),
                   count == 1 ? "nop"
                   : joined   ? "slices"
                   : pairs    ? "tree"
                              : "add_n");
  return sum;
}

// ---- Gating ----------------------------------------------------------------
// Makes one op that runs after all of `ops`: a no-op on each of their devices
// and, if there are several devices, one after these.
static ls_op group_by_device(const ls_gradient_context *context,
                             const ls_tensor *items, const ls_op *ops,
                             size_t count) {
  ls_op *members = ls_arena_new_array(context->arena, ls_op, count);
  ls_op *groups = ls_arena_new_array(context->arena, ls_op, count);
  if (members == NULL || groups == NULL) return ls_tensor_op(no_memory());
  const char *device = NULL;
  next_device(items, count, &device, true);
  const char *another = device;
  const bool single = !next_device(items, count, &another, false);
  size_t num_groups = 0;
  for (bool first = true; next_device(items, count, &device, first);
       first = false) {
    size_t size = 0;
    for (size_t i = 0; i < count; ++i)
      if (sum_compare_devices(ls_op_device(ops[i]), device) == 0)
        members[size++] = ops[i];
    ls_scope scope = {0};
    if (device != NULL && device[0] != '\0')
      ls_device_scope_begin(&scope, device);
    groups[num_groups++] =
        ls_group(members, size, single ? "group_deps" : "group_deps/device");
    ls_scope_end(&scope);
  }
  return single ? groups[0] : ls_group(groups, num_groups, "group_deps");
}

void ls_gradient_gate(const ls_gradient_context *context, ls_tensor *items,
                      size_t count) {
  ls_op *ops = ls_arena_new_array(context->arena, ls_op, count);
  ls_tensor *there = ls_arena_new_array(context->arena, ls_tensor, count);
  if (in_eager()) return;
  if (ops == NULL || there == NULL) {
    no_memory();
    return;
  }
  size_t num_there = 0;
  for (size_t i = 0; i < count; ++i)
    if (items[i].ref != 0) {
      there[num_there] = items[i];
      ops[num_there++] = ls_tensor_op(items[i]);
    }
  if (num_there < 2) return;
  ls_scope nowhere = {0}, names = {0};
  begin_nowhere(&nowhere);
  ls_gradient_begin_names(&names, "tuple", "");
  const ls_op gate = group_by_device(context, there, ops, num_there);
  for (size_t i = 0; i < count; ++i) {
    if (items[i].ref == 0) continue;
    ls_scope beside = {0}, after = {0};
    begin_colocation(context, &beside, ls_tensor_op(items[i]));
    ls_control_scope_begin(&after, &gate, 1);
    items[i] = ls_identity_named(items[i], "control_dependency");
    ls_scope_end(&after);
    ls_scope_end(&beside);
  }
  ls_scope_end(&names);
  ls_scope_end(&nowhere);
}
