// SPDX-License-Identifier: Apache-2.0
#include "support/computation.h"
#include "base/memory/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/variable_parts.h"

#include <string.h>

void computation_open(computation *self) {
  *self = (computation){0};
  expect_ok(ls_graph_create("g", &self->graph));
  ls_graph_begin(&self->scope, self->graph);
}

void computation_close(computation *self) {
  ls_scope_end(&self->scope);
  expect_ok(ls_graph_error(self->graph));
  expect_ok(ls_graph_verify(self->graph));
  ls_nest_release(self->outputs);
  ls_session_destroy(self->session);
  ls_graph_destroy(self->graph);
}

ls_nest computation_inputs(size_t replicas) {
  ls_nest each[64];
  assert_true(replicas <= 64);
  for (size_t r = 0; r < replicas; ++r)
    each[r] = LS_LIST(ls_leaf(f32_of((double)r + 1)));
  return ls_nest_sequence(LS_KIND_LIST, each, replicas);
}

void computation_replicate(computation *self, size_t replicas, ls_callback fn,
                           void *user) {
  LS_OWN(ls_nest, inputs) = computation_inputs(replicas);
  ls_nest_release(self->outputs);
  expect_ok(ls_replicate(fn, user, inputs, NULL, &self->outputs));
}

static ls_session *session_of(computation *self) {
  if (self->session == NULL)
    expect_ok(ls_session_create(self->graph, &self->session));
  return self->session;
}

ls_status computation_run(computation *self, ls_nest fetches) {
  LS_OWN(ls_nest, result) = ls_none();
  return ls_session_run(session_of(self), fetches, NULL, 0, &result);
}

double computation_fetch(computation *self, ls_tensor value) {
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_session_run(session_of(self), ls_leaf(value), NULL, 0, &result));
  return ls_nest_number(result);
}

double computation_output(computation *self, size_t replica, size_t i) {
  return computation_fetch(
      self, ls_nest_tensor(ls_nest_item(self->outputs, replica), i));
}

void computation_initialize(computation *self, ls_variable *variable) {
  expect_ok(
      computation_run(self, ls_nest_op(ls_variable_initializer(variable))));
}

const char *attr_text(ls_op op, const char *name) {
  const ls_attr *attr = NULL;
  LS_OWN(ls_status, status) = ls_op_attr(op, name, &attr);
  return attr == NULL || attr->kind != LS_ATTR_STRING ? NULL : attr->as.string;
}

ls_op op_named(const ls_graph *graph, const char *name) {
  ls_op op = {0};
  expect_ok(ls_graph_lookup_op(graph, name, &op));
  return op;
}

void expect_outside(ls_tensor value, const char *cluster) {
  const char *mark = attr_text(ls_tensor_op(value), "_xla_outside_compilation");
  if (mark == NULL || cluster == NULL)
    assert_true(mark == cluster);
  else
    assert_string_equal(mark, cluster);
}
