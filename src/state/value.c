// SPDX-License-Identifier: Apache-2.0
#include "state/value.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"

// ---- Reading ---------------------------------------------------------------
static void release_all(ls_allocator *allocator, ls_array **arrays,
                        size_t count) {
  for (size_t i = 0; arrays != NULL && i < count; ++i)
    ls_array_release(arrays[i]);
  ls_release(allocator, arrays);
}

// What the components make, by the rules of the whole.
static ls_status read_made(ls_store *store, ls_variable *container,
                           ls_array **out_value) {
  ls_allocator *allocator = container->allocator;
  const size_t count = container->num_components;
  ls_array **parts = ls_new_array(allocator, ls_array *, count);
  ls_status status = parts == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
    status = ls_store_read(store, container->components[i], &parts[i]);
  if (ls_status_is_ok(status))
    status = container->rules->make_saved(container, parts, out_value);
  release_all(allocator, parts, count);
  return status;
}

ls_variable *ls_state_of(ls_variable *variable) {
  while (variable->num_targets > 0)
    variable = variable->targets[0];
  return variable;
}

bool ls_state_is_made(const ls_variable *variable) {
  return variable->num_components > 0 && variable->rules->make_saved != NULL;
}

bool ls_state_is_saved(const ls_store *store, const ls_variable *variable) {
  return variable->num_components == 0 || ls_state_is_made(variable) ||
         variable->graph != NULL || ls_store_has_value(store, variable);
}

// Of a container the first component's, whatever device is current.
ls_status ls_state_read(ls_store *store, ls_variable *variable,
                        ls_array **out_value) {
  *out_value = NULL;
  variable = ls_state_of(variable);
  if (ls_state_is_made(variable)) return read_made(store, variable, out_value);
  return ls_state_is_saved(store, variable)
             ? ls_store_read(store, variable, out_value)
             : ls_ok();
}

size_t ls_state_parts(const ls_store *store, const ls_variable *variable) {
  return variable->num_components > 1 && !ls_store_is_shared(store, variable)
             ? variable->num_components
             : 0;
}

// ---- Writing ---------------------------------------------------------------
bool ls_state_is_stored(const ls_variable *variable) {
  return variable->num_targets == 0 && (variable->num_components == 0 ||
                                        variable->rules->share_saved == NULL);
}

ls_status ls_state_write(ls_store *store, ls_variable *variable,
                         const ls_array *value) {
  for (size_t i = 0; i < variable->num_targets; ++i)
    LS_RETURN_IF_ERROR(ls_state_write(store, variable->targets[i], value));
  if (variable->num_targets > 0) return ls_ok();
  if (ls_state_is_stored(variable))
    return ls_store_write(store, variable, value);
  LS_OWN(ls_array, share) = NULL;
  LS_RETURN_IF_ERROR(variable->rules->share_saved(variable, value, &share));
  return ls_store_write(store, variable, share);
}
