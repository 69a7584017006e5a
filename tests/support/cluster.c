// SPDX-License-Identifier: Apache-2.0
#include "support/cluster.h"

#include <stdio.h>
#include <string.h>

#include "graph/make/make.h"
#include "support/attrs.h"
#include "support/expect.h"

const char *mark_of(ls_op op, const char *name) {
  const ls_attr *attr = NULL;
  ls_status_free(ls_op_attr(op, name, &attr));
  return attr == NULL ? "" : attr->as.string;
}

// ---- Control inputs --------------------------------------------------------
static bool is_internal(const cluster *self, ls_op op) {
  const ls_graph *home = ls_graph_resolve(self->pivot.graph);
  if (op.graph == home)
    return strcmp(mark_of(op, CLUSTER_MARK), self->name) == 0;
  for (const ls_graph *at = op.graph; at != NULL;
       at = ls_graph_resolve(at->parent))
    if (at == home) return true;
  return false;
}

// What is made for the cluster waits for nothing.
static ls_op bring_in(ls_op op) {
  ls_scope alone = {0};
  ls_flow_alone_begin(&alone);
  const ls_tensor value = ls_identity(ls_op_output(op, 0));
  ls_scope_end(&alone);
  return ls_tensor_op(value);
}

static ls_status admit(ls_flow *flow, ls_op_spec *spec, ls_arena *memory) {
  cluster *self = (cluster *)flow;
  if (spec->type == self->refused)
    return ls_unimplemented("%s has no %s", self->name,
                            ls_op_table[spec->type].name);
  if (self->pivot.id == 0) return ls_ok();
  ls_op *ops = ls_arena_new_array(memory, ls_op, spec->num_control + 1);
  if (ops == NULL) return ls_out_of_memory();
  size_t count = 0;
  for (size_t i = 0; i < spec->num_control; ++i)
    if (is_internal(self, spec->control[i])) ops[count++] = spec->control[i];
  if (count == 0 && spec->num_inputs == 0 &&
      ls_graph_resolve(ls_graph_current()) == self->pivot.graph)
    ops[count++] = self->pivot;
  for (size_t i = 0; i < spec->num_control; ++i) {
    const ls_op op = spec->control[i];
    if (is_internal(self, op)) continue;
    if (ls_op_num_outputs(op) > 0) {
      ops[count] = bring_in(op);
      if (ops[count++].id == 0) return ls_graph_error(ls_graph_current());
    } else if (self->num_outside < CLUSTER_ROOM) {
      self->outside[self->num_outside++] = op;
    }
  }
  spec->control = ops;
  spec->num_control = count;
  return ls_ok();
}

// ---- Marks -----------------------------------------------------------------
static ls_status set_mark(ls_op op, const char *name, const char *mark) {
  ls_graph *graph = ls_graph_resolve(op.graph);
  return ls_node_set_attr(graph, ls_graph_node(graph, op.id),
                          &LS_ATTR_S(name, mark));
}

static ls_status mark(ls_flow *flow, ls_op op) {
  const cluster *self = (const cluster *)flow;
  const char *there = mark_of(op, CLUSTER_MARK);
  if (there[0] != '\0' && strcmp(there, self->name) != 0)
    return ls_invalid_argument("op '%s': clusters cannot be nested",
                               ls_op_name(op));
  if (there[0] == '\0') {
    LS_RETURN_IF_ERROR(set_mark(op, CLUSTER_MARK, self->name));
    if (self->part[0] != '\0')
      LS_RETURN_IF_ERROR(set_mark(op, CLUSTER_PART, self->part));
  }
  if (self->replicas > 1 || mark_of(op, CLUSTER_PART)[0] == '\0') {
    ls_op_prevent_feeding(op);
    ls_op_prevent_fetching(op);
  }
  return ls_ok();
}

// ---- Gradients -------------------------------------------------------------
static bool is_of_call(const char *part, const char *uid) {
  const size_t length = strlen(part), end = strlen(uid);
  return length > end && part[length - end - 1] == '.' &&
         strcmp(part + length - end, uid) == 0;
}

static ls_status enter_gradient(ls_flow *flow, ls_op op, const char *uid) {
  cluster *self = (cluster *)flow;
  const char *part = mark_of(op, CLUSTER_PART);
  if (self->num_entered == CLUSTER_ROOM) return ls_internal("too deep");
  if (self->part[0] == '\0' && part[0] != '\0' &&
      strcmp(uid, "__unsupported__") == 0)
    return ls_unimplemented("No gradient_uid calling gradient within "
                            "outside_compilation");
  self->entered[self->num_entered++] = op;
  if (self->num_entered > self->most_entered)
    self->most_entered = self->num_entered;
  if (self->part[0] != '\0' || part[0] == '\0') return ls_ok();
  self->opener = op;
  if (is_of_call(part, uid))
    snprintf(self->part, sizeof(self->part), "%s", part);
  else
    snprintf(self->part, sizeof(self->part), "%s.%s", part, uid);
  ls_context_current()->scoped.device = self->around;
  return ls_ok();
}

static ls_status leave_gradient(ls_flow *flow, ls_op op, const char *uid) {
  cluster *self = (cluster *)flow;
  (void)uid;
  if (self->num_entered == 0)
    return ls_internal("Badly nested gradient colocation: empty stack, '%s'",
                       ls_op_name(op));
  const ls_op last = self->entered[--self->num_entered];
  if (last.id != op.id || last.graph != op.graph)
    return ls_internal("Badly nested gradient colocation: expected '%s', got "
                       "'%s'",
                       ls_op_name(last), ls_op_name(op));
  if (op.id == self->opener.id && op.graph == self->opener.graph) {
    self->opener = (ls_op){0};
    self->part[0] = '\0';
  }
  return ls_ok();
}

static const ls_flow_type type = {.name = "a cluster",
                                  .is_replicated = true,
                                  .admit = admit,
                                  .mark = mark,
                                  .enter_gradient = enter_gradient,
                                  .leave_gradient = leave_gradient};

cluster cluster_of(const char *name, int replicas) {
  return (cluster){.flow = {&type}, .name = name, .replicas = replicas};
}

void cluster_make_pivot(cluster *self) {
  ls_scope scope = {0};
  ls_flow_begin(&scope, &self->flow);
  self->pivot = ls_group(NULL, 0, "pivot");
  ls_scope_end(&scope);
}
