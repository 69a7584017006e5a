// SPDX-License-Identifier: Apache-2.0
//
// Values given to a handle that is all of its targets.
#include "base/memory/own.h"
#include "runtime/store.h"

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
