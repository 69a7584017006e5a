// SPDX-License-Identifier: Apache-2.0
#include "support/gradient_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/op_table.h"
#include "support/expect.h"

int gradient_graph_set_up(void **state) {
  gradient_graph *self = calloc(1, sizeof(*self));
  *state = self;
  expect_ok(ls_graph_create("test", &self->graph));
  ls_graph_begin(&self->scope, self->graph);
  return 0;
}

int gradient_graph_tear_down(void **state) {
  HEAP(gradient_graph, self) = *state;
  expect_ok(ls_graph_error(self->graph));
  expect_ok(ls_graph_verify(self->graph));
  ls_scope_end(&self->scope);
  ls_graph_destroy(self->graph);
  return 0;
}

ls_tensor gradient_input(const char *name) {
  return ls_placeholder(LS_DTYPE_F32, LS_SHAPE(2, 3), name);
}

ls_variable *gradient_variable(const char *name) {
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(&(ls_variable_options){.name = name,
                                                      .dtype = LS_DTYPE_F32,
                                                      .shape = LS_SHAPE(2, 3)},
                               &variable));
  return variable;
}

ls_tensor gradient_of(ls_tensor y, ls_tensor x,
                      const ls_gradient_options *options) {
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_gradients(ys, 1, xs, 1, options, grads));
  return ls_nest_tensor(grads[0], 0);
}

const char *gradient_names_from(gradient_graph *self, size_t from) {
  size_t at = 0;
  self->text[0] = '\0';
  for (size_t i = from; i < ls_graph_num_ops(self->graph); ++i) {
    const ls_op op = ls_graph_op(self->graph, i);
    if (ls_op_type(op) == LS_OP_CONSTANT || ls_op_type(op) == LS_OP_BROADCAST)
      continue;
    at += (size_t)snprintf(self->text + at, sizeof(self->text) - at, "%s%s",
                           at == 0 ? "" : " ", ls_op_name(op));
  }
  return self->text;
}

ls_op gradient_op(const gradient_graph *self, const char *name) {
  ls_op op;
  expect_ok(ls_graph_lookup_op(self->graph, name, &op));
  return op;
}

const char *gradient_strings(gradient_graph *self, ls_op op, const char *name) {
  const ls_attr *attr = NULL;
  ls_status_free(ls_op_attr(op, name, &attr));
  self->text[0] = '\0';
  for (size_t i = 0; attr != NULL && i < attr->as.strings.count; ++i) {
    if (i != 0) strcat(self->text, " ");
    strcat(self->text, attr->as.strings.items[i]);
  }
  return self->text;
}

ls_status gradient_refusal(ls_tensor y, ls_tensor x,
                           const ls_gradient_options *options) {
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  return ls_gradients(ys, 1, xs, 1, options, grads);
}
