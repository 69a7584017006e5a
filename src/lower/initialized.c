// SPDX-License-Identifier: Apache-2.0
//
// Whether a variable has a value: known when a program is lowered, from what
// the program has written so far or from the store. The program expects what
// the store says; another one is lowered for a store that says otherwise.
#include "base/runtime_internal.h"
#include "lower/ops.h"

static bool is_written(const ls_program *program, const ls_variable *variable) {
  for (size_t i = 0; variable != NULL && i < program->num_uses; ++i)
    if (program->uses[i].variable == &variable->object &&
        program->uses[i].written)
      return true;
  return false;
}

static ls_status expect(ls_lowering *all, ls_variable *variable,
                        bool initialized) {
  ls_program *program = all->program;
  if (!ls_grow(all->allocator, &program->expects, &program->expects_capacity,
               program->num_expects + 1, sizeof(*program->expects)))
    return ls_out_of_memory();
  program->expects[program->num_expects++] =
      (ls_expectation){ls_object_retain(&variable->object), initialized};
  return ls_ok();
}

ls_status lower_is_initialized(ls_lower_scope *scope, ls_node *node) {
  ls_lowering *all = scope->all;
  ls_variable *variable = ls_node_variable(node);
  bool has_value = is_written(all->program, variable) ||
                   is_written(all->program, variable->container);
  if (!has_value) {
    const ls_variable_states *states = all->variables;
    has_value =
        states->has_value != NULL && states->has_value(states->store, variable);
    LS_RETURN_IF_ERROR(expect(all, variable, has_value));
  }
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(
      ls_lower_scalar(scope, LS_DTYPE_BOOL, has_value, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}
