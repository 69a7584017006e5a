// SPDX-License-Identifier: Apache-2.0
//
// Emission of stacks. Storages hold pointers to stacks, and a push or pop
// changes the stack itself, so each stack value may be used only once; lowering
// guarantees that.
#include "engine/cpu/compile/compile.h"

// Adds a stack_new and returns its number.
static uint32_t add_site(ls_cpu_compiler *self, bool is_endless) {
  ls_executable *out = self->out;
  const uint32_t number = out->num_stacks;
  if (!ls_grow(self->allocator, &self->endless_stacks,
               &self->endless_stacks_capacity, number + 1,
               sizeof(*self->endless_stacks))) {
    ls_cpu_fail(self, ls_out_of_memory());
    return 0;
  }
  self->endless_stacks[number] = is_endless;
  ++out->num_stacks;
  return number;
}

void ls_cpu_emit_stack(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node) {
  const bool is_new = node->type == LS_OP_STACK_NEW;
  const bool is_push = node->type == LS_OP_STACK_PUSH;
  const ls_cpu_code code = is_new    ? LS_CPU_STACK_NEW
                           : is_push ? LS_CPU_STACK_PUSH
                                     : LS_CPU_STACK_POP;
  const uint32_t position = ls_cpu_emit(self, code, node);
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    ls_cpu_read(self, ls_cpu_storage_of(self, scope, node->inputs[i]));
  }
  for (unsigned i = 0; i < node->num_outputs; ++i) {
    const uint32_t storage =
        ls_cpu_new_storage(self, ls_cpu_type_size(node->outputs[i]));
    ls_cpu_write(self, storage);
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, i), storage);
  }
  ls_cpu_label(self, scope->graph, node);
  if (ls_cpu_failed(self)) return;
  uint32_t number = 0;
  if (is_new) {
    number = add_site(self, ls_node_int(node, LS_ATTR_ID_ENDLESS) != 0);
  } else {
    const ls_type element = is_push
                                ? ls_graph_type(scope->graph, node->inputs[1])
                                : node->outputs[1];
    ls_cpu_at(self, position)->size = (int64_t)ls_cpu_type_size(element);
    number = element.dtype == LS_DTYPE_VARIANT;
    // The new pointer overwrites the old one.
    self->origins[position].in_place[0] = 1;
  }
  ls_cpu_at(self, position)->number = number;
}
