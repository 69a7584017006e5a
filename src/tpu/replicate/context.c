// SPDX-License-Identifier: Apache-2.0
#include "tpu/replicate/replicate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "lockstep/host.h"
#include "tpu/pod/pod.h"

static bool context_is_same(ls_op a, ls_op b) {
  return a.id == b.id && ls_graph_resolve(a.graph) == ls_graph_resolve(b.graph);
}

static const char *mark_of(ls_op op, const char *name) {
  const ls_node *node = ls_graph_node(op.graph, op.id);
  return node == NULL ? NULL : ls_node_mark(node, name);
}

static ls_status push_op(ls_tpu_context *self, ls_op **list, size_t *count,
                         size_t *capacity, ls_op op) {
  LS_PUSH_OR_RETURN(self->allocator, *list, *count, *capacity, op);
  return ls_ok();
}

// ---- Control inputs --------------------------------------------------------
static bool is_internal(const ls_tpu_context *self, ls_op op) {
  const char *mark = mark_of(op, LS_MARK_REPLICATE);
  return mark != NULL && strcmp(mark, self->name) == 0;
}

// Copies a value that is made without control inputs, because ops added by the
// computation itself wait for nothing.
static ls_op bring_in(ls_op op) {
  ls_scope alone = {0};
  ls_flow_alone_begin(&alone);
  const ls_tensor value = ls_identity(ls_op_output(op, 0));
  ls_scope_end(&alone);
  return ls_tensor_op(value);
}

// Adds `op` to the ops that the computation waits for, unless the list has it
// or the pivot already waits for it.
static ls_status context_wait_for(ls_tpu_context *self, ls_op op) {
  for (size_t i = 0; i < self->num_waits; ++i)
    if (context_is_same(self->waits[i], op)) return ls_ok();
  for (size_t i = 0; i < ls_op_num_control_inputs(self->pivot); ++i)
    if (context_is_same(ls_op_control_input(self->pivot, i), op))
      return ls_ok();
  if (context_is_same(self->pivot, op)) return ls_ok();
  return push_op(self, &self->waits, &self->num_waits, &self->waits_capacity,
                 op);
}

static ls_status replace_control(ls_tpu_context *self, ls_op_spec *spec,
                                 ls_op *ops) {
  size_t count = 0;
  for (size_t i = 0; i < spec->num_control; ++i)
    if (is_internal(self, spec->control[i])) ops[count++] = spec->control[i];
  if (count == 0 && spec->num_inputs == 0 && self->pivot.id != 0 &&
      ls_graph_resolve(ls_graph_current()) ==
          ls_graph_resolve(self->pivot.graph))
    ops[count++] = self->pivot;
  for (size_t i = 0; i < spec->num_control; ++i) {
    const ls_op op = spec->control[i];
    if (is_internal(self, op)) continue;
    if (ls_op_num_outputs(op) == 0) {
      LS_RETURN_IF_ERROR(context_wait_for(self, op));
      continue;
    }
    ops[count] = bring_in(op);
    if (ops[count++].id == 0) return ls_graph_error(ls_graph_current());
  }
  spec->control = ops;
  spec->num_control = count;
  return ls_ok();
}

static ls_status context_admit(ls_flow *flow, ls_op_spec *spec,
                               ls_arena *memory) {
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_op, ops, spec->num_control + 1);
  ls_variable *variable = ls_tpu_handled_variable(spec->attrs, spec->num_attrs);
  if (variable != NULL) {
    const ls_tpu_handle *handle = NULL;
    LS_RETURN_IF_ERROR(
        ls_tpu_context_handle((ls_tpu_context *)flow, variable, &handle));
    if (ls_node_assigns(&(ls_node){.type = spec->type}))
      LS_RETURN_IF_ERROR(
          ls_tpu_context_check_write((ls_tpu_context *)flow, handle));
  }
  return replace_control((ls_tpu_context *)flow, spec, ops);
}

// ---- Marks -----------------------------------------------------------------
static ls_status set_mark(ls_op op, const char *name, const char *text) {
  ls_graph *graph = ls_graph_resolve(op.graph);
  return ls_node_set_attr(
      graph, ls_graph_node(graph, op.id),
      &(ls_attr){.name = name, .kind = LS_ATTR_STRING, .as.string = text});
}

static ls_status set_map_mark(ls_op op) {
  ls_graph *graph = ls_graph_resolve(op.graph);
  return ls_node_set_attr(graph, ls_graph_node(graph, op.id),
                          &(ls_attr){.name = LS_MARK_MAP_OUTSIDE,
                                     .kind = LS_ATTR_BOOL,
                                     .as.i = true});
}

static ls_status set_copies_mark(const ls_tpu_context *self, ls_op op,
                                 const int64_t *copies) {
  ls_graph *graph = ls_graph_resolve(op.graph);
  return ls_node_set_attr(
      graph, ls_graph_node(graph, op.id),
      &(ls_attr){.name = LS_MARK_CORE_COPIES,
                 .kind = LS_ATTR_INTS,
                 .as.ints = {copies, (size_t)self->num_replicas}});
}

// Returns true for prints and summaries, which no core runs.
static bool is_unsupported(const ls_node *node) {
  static const char *const names[] = {"print", "summary"};
  if (node->type != LS_OP_HOST) return false;
  const char *name = ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel->name;
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

// Returns the outside compiled cluster of new ops; NULL: none.
static const char *cluster_here(const ls_tpu_context *self) {
  const bool is_gradient = self->colocated.id != 0;
  return is_gradient && ls_context_current()->scoped.makes_forward
             ? NULL
             : self->outside;
}

static ls_status note_op(ls_tpu_context *self, ls_op op) {
  const ls_node *node = ls_graph_node(op.graph, op.id);
  if (cluster_here(self) != NULL) return ls_ok();
  if (node->type == LS_OP_PLACEHOLDER)
    ls_tpu_log(op.graph->runtime, LS_LOG_ERROR,
               "%s (%s) is not supported on the TPU: it cannot be fed inside "
               "computation '%s'",
               ls_op_name(op), ls_node_info(node)->name, self->name);
  return is_unsupported(node)
             ? push_op(self, &self->unsupported, &self->num_unsupported,
                       &self->unsupported_capacity, op)
             : ls_ok();
}

static ls_status context_mark(ls_flow *flow, ls_op op) {
  ls_tpu_context *self = (ls_tpu_context *)flow;
  const char *there = mark_of(op, LS_MARK_REPLICATE);
  if (there != NULL && strcmp(there, self->name) != 0)
    return ls_invalid_argument("TPU computations cannot be nested: op '%s' of "
                               "computation '%s' is being made in '%s'",
                               ls_op_name(op), there, self->name);
  // A copied op has its marks already, so only other ops are marked.
  if (there == NULL) {
    const char *cluster = cluster_here(self);
    LS_RETURN_IF_ERROR(set_mark(op, LS_MARK_REPLICATE, self->name));
    if (cluster != NULL)
      LS_RETURN_IF_ERROR(set_mark(op, LS_MARK_OUTSIDE, cluster));
    if (cluster != NULL && self->maps) LS_RETURN_IF_ERROR(set_map_mark(op));
  }
  const ls_node *node = ls_graph_node(op.graph, op.id);
  ls_variable *variable = ls_tpu_handled_variable(node->attrs, node->num_attrs);
  if (variable != NULL) {
    const ls_tpu_handle *handle = NULL;
    LS_RETURN_IF_ERROR(ls_tpu_context_handle(self, variable, &handle));
    LS_RETURN_IF_ERROR(set_mark(op, LS_MARK_HANDLE, ls_op_name(handle->op)));
    if (handle->copies != NULL)
      LS_RETURN_IF_ERROR(set_copies_mark(self, op, handle->copies));
  }
  LS_RETURN_IF_ERROR(note_op(self, op));
  if (ls_marks_ban(node, self->num_replicas)) {
    ls_op_prevent_feeding(op);
    ls_op_prevent_fetching(op);
  }
  return ls_ok();
}

// ---- Outside compilation ---------------------------------------------------
// Notes "cluster:core" if a logical core was requested.
static ls_status note_core(ls_tpu_context *self, const char *cluster) {
  static const char type[] = "/device:TPU_REPLICATED_CORE:";
  const char *device = ls_context_current()->scoped.device;
  const char *at = device != NULL ? strstr(device, type) : NULL;
  if (at == NULL || at[sizeof(type) - 1] == '*') return ls_ok();
  LS_RETURN_IF_NO_MEMORY(LS_GROW(self->allocator, self->host_compute_cores,
                                 self->host_compute_cores_capacity,
                                 self->num_host_compute_cores + 1));
  ls_text text = {.allocator = self->allocator};
  ls_text_append_format(&text, "%s:%s", cluster, at + sizeof(type) - 1);
  char *entry = ls_text_finish(&text);
  if (entry == NULL) return ls_out_of_memory();
  self->host_compute_cores[self->num_host_compute_cores++] = entry;
  return ls_ok();
}

ls_status ls_tpu_context_enter_outside(ls_tpu_context *self, const char *name) {
  char number[16];
  if (self->outside != NULL)
    return ls_unimplemented("Cannot nest outside_compilation clusters: in "
                            "cluster '%s' of computation '%s'",
                            self->outside, self->name);
  snprintf(number, sizeof(number), "%u", self->outside_counter);
  const char *cluster = name != NULL ? name : number;
  LS_OWN_MEMORY(self->allocator, char, kept) =
      ls_copy_text(self->allocator, cluster, strlen(cluster));
  LS_RETURN_IF_NO_MEMORY(kept);
  LS_RETURN_IF_ERROR(note_core(self, kept));
  ls_context *context = ls_context_current();
  self->outside = ls_give(&kept);
  self->outside_counter += name == NULL;
  self->inner_device = context->scoped.device;
  context->scoped.device = self->outer_device;
  return ls_ok();
}

ls_status ls_tpu_context_exit_outside(ls_tpu_context *self) {
  if (self->outside == NULL)
    return ls_unimplemented("Attempted to exit outside_compilation scope when "
                            "not in scope, in computation '%s'",
                            self->name);
  ls_release(self->allocator, self->outside);
  self->outside = NULL;
  ls_context_current()->scoped.device = self->inner_device;
  self->inner_device = NULL;
  return ls_ok();
}

// ---- Gradients -------------------------------------------------------------
// Returns true if a cluster belongs to the call of gradients with this uid.
static bool is_of_call(const char *cluster, const char *uid) {
  const size_t length = strlen(cluster), end = strlen(uid);
  return length > end && cluster[length - end - 1] == '.' &&
         strcmp(cluster + length - end, uid) == 0;
}

static ls_status enter_gradient_cluster(ls_tpu_context *self,
                                        const char *cluster, const char *uid) {
  if (is_of_call(cluster, uid))
    return ls_tpu_context_enter_outside(self, cluster);
  LS_OWN(ls_text, name) = {.allocator = self->allocator};
  ls_text_append_format(&name, "%s.%s", cluster, uid);
  LS_RETURN_IF_ERROR(ls_text_status(&name));
  return ls_tpu_context_enter_outside(self, ls_text_data(&name));
}

ls_status ls_tpu_context_enter_gradient(ls_tpu_context *self, ls_op op,
                                        const char *uid) {
  if (op.id == 0) return ls_ok();
  const char *cluster = mark_of(op, LS_MARK_OUTSIDE);
  const bool opens = self->outside == NULL && cluster != NULL;
  if (opens && self->colocated.id != 0)
    return ls_unimplemented("Cannot nest gradient colocation operations "
                            "outside compilation: '%s' in '%s'",
                            ls_op_name(op), ls_op_name(self->colocated));
  if (opens && (uid == NULL || strcmp(uid, LS_NO_GRADIENT_UID) == 0))
    return ls_unimplemented(
        "No gradient_uid calling gradient within outside_compilation, for '%s'",
        ls_op_name(op));
  LS_RETURN_IF_ERROR(push_op(self, &self->gradients, &self->num_gradients,
                             &self->gradients_capacity, op));
  if (!opens) return ls_ok();
  const ls_status status = enter_gradient_cluster(self, cluster, uid);
  if (ls_status_is_ok(status))
    self->colocated = op;
  else
    --self->num_gradients;
  return status;
}

ls_status ls_tpu_context_exit_gradient(ls_tpu_context *self, ls_op op,
                                       const char *uid) {
  (void)uid;
  if (op.id == 0) return ls_ok();
  if (self->num_gradients == 0)
    return ls_internal(
        "Badly nested gradient colocation: empty stack when popping op '%s'",
        ls_op_name(op));
  const ls_op last = self->gradients[--self->num_gradients];
  if (!context_is_same(last, op))
    return ls_internal(
        "Badly nested gradient colocation: expected '%s', got '%s'",
        ls_op_name(last), ls_op_name(op));
  if (!context_is_same(self->colocated, op)) return ls_ok();
  // An op may be on the stack more than once; the first one opened the cluster.
  for (size_t i = 0; i < self->num_gradients; ++i)
    if (context_is_same(self->gradients[i], op)) return ls_ok();
  self->colocated = (ls_op){0};
  return ls_tpu_context_exit_outside(self);
}

static ls_status enter_gradient(ls_flow *flow, ls_op op, const char *uid) {
  return ls_tpu_context_enter_gradient((ls_tpu_context *)flow, op, uid);
}

static ls_status leave_gradient(ls_flow *flow, ls_op op, const char *uid) {
  return ls_tpu_context_exit_gradient((ls_tpu_context *)flow, op, uid);
}

// ---- The context -----------------------------------------------------------
static const ls_flow_type type = {.name = "a replicated computation",
                                  .is_replicated = true,
                                  .has_system = true,
                                  .admit = context_admit,
                                  .mark = context_mark,
                                  .enter_gradient = enter_gradient,
                                  .leave_gradient = leave_gradient};

ls_status ls_tpu_context_init(ls_tpu_context *self, const char *name,
                              int32_t num_replicas, ls_op pivot) {
  ls_allocator *allocator = ls_current_allocator();
  *self = (ls_tpu_context){.around = {.flow = {&type}},
                           .allocator = allocator,
                           .name = ls_copy_text(allocator, name, strlen(name)),
                           .num_replicas = num_replicas,
                           .pivot = pivot};
  return self->name != NULL ? ls_ok() : ls_out_of_memory();
}

void ls_tpu_context_deinit(ls_tpu_context *self) {
  ls_release(self->allocator, self->name);
  ls_release(self->allocator, self->outside);
  ls_release(self->allocator, self->gradients);
  for (size_t i = 0; i < self->num_host_compute_cores; ++i)
    ls_release(self->allocator, self->host_compute_cores[i]);
  ls_release(self->allocator, self->host_compute_cores);
  ls_release(self->allocator, self->unsupported);
  ls_release(self->allocator, self->waits);
  for (size_t i = 0; i < self->num_handles; ++i)
    ls_release(self->allocator, self->handles[i].copies);
  ls_release(self->allocator, self->handles);
}

void ls_tpu_context_enter(ls_scope *scope, ls_tpu_context *self) {
  const char *device = ls_context_current()->scoped.device;
  ls_flow_begin(scope, &self->around.flow);
  if (self->was_entered ||
      ls_scope_opened(scope)->type != &ls_graph_scopes.flow)
    return;
  self->was_entered = true;
  self->outer_device = device;
}

ls_tpu_context *ls_tpu_context_current(void) {
  ls_flow *flow = ls_flow_replicated();
  return flow != NULL && flow->type == &type ? (ls_tpu_context *)flow : NULL;
}

void ls_tpu_context_report(const ls_tpu_context *self) {
  enum { SHOWN = 5 };
  const size_t count = self->num_unsupported;
  if (count == 0) return;
  ls_text text = {.allocator = self->allocator};
  ls_text_append_format(
      &text, "%zu unsupported operations found in computation '%s':", count,
      self->name);
  for (size_t i = 0; i < count && i < SHOWN; ++i) {
    const ls_op op = self->unsupported[i];
    const ls_node *node = ls_graph_node(op.graph, op.id);
    if (node == NULL) continue;
    ls_text_append_format(
        &text, "\n  %s (%s)",
        ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel->name, ls_op_name(op));
  }
  ls_runtime *runtime = self->unsupported[0].graph->runtime;
  ls_tpu_log(runtime, LS_LOG_WARNING, "%s", ls_text_data(&text));
  if (count > SHOWN)
    ls_tpu_log(runtime, LS_LOG_WARNING, "... and %zu more", count - SHOWN);
  ls_text_deinit(&text);
}
