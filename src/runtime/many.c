// SPDX-License-Identifier: Apache-2.0
#include "runtime/store.h"

#include "base/memory/own.h"
#include <stdlib.h>

static int by_family(const void *a, const void *b) {
  const ls_touch *x = a, *y = b;
  return x->family < y->family ? -1 : x->family > y->family;
}

// Makes one touch per family, in ascending order; returns their number.
static size_t list_touches(const ls_many *many) {
  for (size_t i = 0; i < many->count; ++i) {
    const ls_variable *variable = many->variables[i];
    many->touches[i] =
        (ls_touch){variable->family, many->written, variable->name};
  }
  if (many->count > 0)
    qsort(many->touches, many->count, sizeof(*many->touches), by_family);
  size_t count = 0;
  for (size_t i = 0; i < many->count; ++i)
    if (count == 0 ||
        many->touches[count - 1].family != many->touches[i].family)
      many->touches[count++] = many->touches[i];
  return count;
}

static ls_status find_data(ls_many *many, size_t i) {
  ls_variable *variable = many->variables[i];
  if (many->written) {
    ls_buffer *buffer = NULL;
    LS_RETURN_IF_ERROR(ls_store_buffer_to_write(many->store, variable,
                                                variable->type, &buffer));
    many->data[i] = buffer->backend->vtable->overwrite(buffer);
    return ls_ok();
  }
  const ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(ls_store_look(many->store, variable, &buffer));
  const void *data = NULL;
  LS_RETURN_IF_ERROR(buffer->backend->vtable->look(buffer, &data));
  many->data[i] = (void *)(uintptr_t)data;
  return ls_ok();
}

static void many_drop(const ls_many *many) {
  ls_allocator *allocator =
      ls_runtime_allocator(ls_store_gate(many->store)->runtime);
  ls_release(allocator, many->data);
  ls_release(allocator, many->touches);
}

static ls_status many_begin(ls_many *many) {
  LS_RETURN_IF_NO_MEMORY(many->data != NULL && many->touches != NULL);
  ls_gate *gate = ls_store_gate(many->store);
  many->access = (ls_access){.touches = many->touches,
                             .count = list_touches(many),
                             .hold = LS_HOLD_SHORT};
  LS_RETURN_IF_ERROR(ls_gate_enter(gate, &many->access));
  for (size_t i = 0; i < many->count; ++i) {
    const ls_status status = find_data(many, i);
    if (ls_status_is_ok(status)) continue;
    ls_gate_leave(gate, &many->access);
    return status;
  }
  return ls_ok();
}

ls_status ls_many_enter(ls_store *store, ls_variable *const *variables,
                        size_t count, bool written, ls_many *out_many) {
  ls_allocator *allocator = ls_runtime_allocator(ls_store_gate(store)->runtime);
  ls_many *many = out_many;
  *many = (ls_many){.store = store,
                    .variables = variables,
                    .count = count,
                    .written = written};
  many->data = ls_new_array(allocator, void *, count);
  many->touches = ls_new_array(allocator, ls_touch, count);
  const ls_status status = many_begin(many);
  if (!ls_status_is_ok(status)) many_drop(many);
  return status;
}

void ls_many_leave(ls_many *many, bool wrote) {
  for (size_t i = 0; i < many->count && many->written; ++i) {
    if (wrote)
      ls_store_note_write(many->store, many->variables[i]);
    else
      ls_store_mark_lost(many->store, many->variables[i]);
  }
  ls_gate_leave(ls_store_gate(many->store), &many->access);
  many_drop(many);
}

// ---- Handles ---------------------------------------------------------------
ls_status ls_store_write_others(ls_store *store, const ls_variable *handle) {
  LS_OWN(ls_array, value) = NULL;
  if (handle->num_targets < 2 || !handle->rules->is_replicated) return ls_ok();
  ls_variable *first = ls_variable_here(handle);
  LS_RETURN_IF_ERROR(ls_store_read(store, first, &value));
  for (size_t i = 1; i < handle->num_targets; ++i)
    if (ls_variable_here(handle->targets[i]) != first)
      LS_RETURN_IF_ERROR(ls_store_write(store, handle->targets[i], value));
  return ls_ok();
}

// ---- Distributed variables --------------------------------------------------
bool ls_store_makes_value(const ls_variable *variable) {
  return variable->num_components > 0 && variable->rules->make_saved != NULL;
}

bool ls_store_divides_value(const ls_variable *variable) {
  return variable->num_components > 0 && variable->rules->share_saved != NULL;
}

ls_status ls_store_get(ls_store *store, ls_variable *variable,
                       ls_array **out_array) {
  *out_array = NULL;
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  if (!ls_store_makes_value(variable))
    return ls_store_read(store, variable, out_array);
  const size_t count = variable->num_components;
  LS_OWN_ARRAY_OR_RETURN(variable->allocator, ls_array *, parts, count);
  ls_status status = ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
    status = ls_store_read(store, variable->components[i], &parts[i]);
  if (ls_status_is_ok(status))
    status = variable->rules->make_saved(variable, parts, out_array);
  for (size_t i = 0; i < count; ++i)
    ls_array_release(parts[i]);
  return status;
}

ls_status ls_store_set(ls_store *store, ls_variable *variable,
                       const ls_array *array) {
  LS_OWN(ls_array, share) = NULL;
  ls_variable *here =
      variable->num_targets > 0 ? ls_variable_here(variable) : variable;
  if (!ls_store_divides_value(here))
    return ls_store_write(store, variable, array);
  LS_RETURN_IF_ERROR(here->rules->share_saved(here, array, &share));
  return ls_store_write(store, variable, share);
}
