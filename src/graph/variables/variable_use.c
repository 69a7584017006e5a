// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes of variables: plain ops, or calls of a variable's rules.
#include "graph/flow.h"
#include "graph/make/make.h"
#include "graph/variables/variable.h"

static ls_tensor no_variable(const char *what) {
  return ls_make_failed(what, ls_invalid_argument("the variable is NULL"));
}

ls_tensor ls_variable_op(uint16_t type, ls_variable *variable,
                         const ls_tensor *value) {
  const ls_attr attr = LS_OWN_O(VARIABLE, &variable->object);
  return ls_make(type, value, value == NULL ? 0 : 1, &attr, 1);
}

ls_tensor ls_variable_scatter_op(ls_variable *variable, ls_scatter_op op,
                                 ls_tensor indices, ls_tensor updates) {
  const ls_attr attrs[] = {LS_OWN_O(VARIABLE, &variable->object),
                           LS_OWN_S(COMBINE, ls_scatter_name(op))};
  return ls_make(LS_OP_ASSIGN_SCATTER, (const ls_tensor[]){indices, updates}, 2,
                 attrs, LS_COUNT_OF(attrs));
}

ls_tensor ls_variable_read(ls_variable *variable) {
  if (variable == NULL) return no_variable("read_variable");
  variable = ls_variable_meant(variable);
  const ls_tensor given = ls_flow_read(variable);
  if (!ls_tensor_is_failed(given)) return given;
  const ls_status status = ls_variable_settle(variable);
  if (!ls_status_is_ok(status)) return ls_make_failed("read_variable", status);
  return variable->rules != NULL ? variable->rules->read(variable)
                                 : ls_variable_op(LS_OP_READ, variable, NULL);
}

ls_tensor ls_variable_as_tensor(ls_variable *variable) {
  if (variable == NULL) return no_variable("read_variable");
  variable = ls_variable_meant(variable);
  const ls_tensor given = ls_flow_read(variable);
  if (!ls_tensor_is_failed(given)) return given;
  return variable->rules != NULL ? variable->rules->as_tensor(variable)
                                 : ls_variable_op(LS_OP_READ, variable, NULL);
}

ls_tensor ls_variable_sparse_read(ls_variable *variable, ls_tensor indices) {
  if (variable == NULL) return no_variable("gather");
  variable = ls_variable_meant(variable);
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  return ls_gather(ls_variable_read(variable), indices, 0);
}

static ls_tensor write_any(uint16_t type, ls_variable *variable,
                           ls_tensor value, const char *what) {
  if (variable == NULL) return no_variable(what);
  variable = ls_variable_meant(variable);
  const ls_status status = ls_variable_settle(variable);
  if (!ls_status_is_ok(status)) return ls_make_failed(what, status);
  return variable->rules != NULL ? variable->rules->write(variable, type, value)
                                 : ls_variable_op(type, variable, &value);
}

ls_tensor ls_variable_assign(ls_variable *variable, ls_tensor value) {
  return write_any(LS_OP_ASSIGN, variable, value, "assign");
}

ls_tensor ls_variable_assign_add(ls_variable *variable, ls_tensor delta) {
  return write_any(LS_OP_ASSIGN_ADD, variable, delta, "assign_add");
}

ls_tensor ls_variable_assign_sub(ls_variable *variable, ls_tensor delta) {
  return write_any(LS_OP_ASSIGN_SUB, variable, delta, "assign_sub");
}

ls_tensor ls_variable_scatter(ls_variable *variable, ls_scatter_op op,
                              ls_tensor indices, ls_tensor updates) {
  if (variable == NULL) return no_variable("assign_scatter");
  if (ls_scatter_name(op) == NULL)
    return ls_make_failed("assign_scatter", ls_no_scatter(op));
  variable = ls_variable_meant(variable);
  return variable->rules != NULL
             ? variable->rules->scatter(variable, op, indices, updates)
             : ls_variable_scatter_op(variable, op, indices, updates);
}

ls_tensor ls_variable_scatter_update(ls_variable *variable, ls_tensor indices,
                                     ls_tensor updates) {
  return ls_variable_scatter(variable, LS_SCATTER_UPDATE, indices, updates);
}

ls_tensor ls_variable_scatter_add(ls_variable *variable, ls_tensor indices,
                                  ls_tensor updates) {
  return ls_variable_scatter(variable, LS_SCATTER_ADD, indices, updates);
}
