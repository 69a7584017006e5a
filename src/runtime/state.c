// SPDX-License-Identifier: Apache-2.0
#include "runtime/state.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "runtime/eager/eager.h"

void ls_runtime_state_drop_ops(ls_runtime_state *state) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&state->eager_ops, &at, &item);)
    ls_compiled_release(item.value);
  ls_map_clear(&state->eager_ops);
}

static ls_status destroy_state(void *pointer) {
  ls_runtime_state *state = pointer;
  ls_eager_graphs_deinit(state);
  ls_runtime_state_drop_ops(state);
  ls_map_deinit(&state->eager_ops);
  ls_map_deinit(&state->programs);
  ls_store_destroy(state->store);
  ls_release(state->allocator, state);
  return ls_ok();
}

static ls_status make_state(ls_runtime *runtime, ls_runtime_state **out_state) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, ls_runtime_state, state);
  static uint64_t last_serial;
  state->serial = __atomic_add_fetch(&last_serial, 1, __ATOMIC_RELAXED);
  state->runtime = runtime;
  state->allocator = allocator;
  ls_map_init(&state->programs, allocator);
  ls_map_init(&state->eager_ops, allocator);
  ls_eager_graphs_init(state);
  const ls_status status = ls_store_create(runtime, &state->store);
  if (!ls_status_is_ok(status)) {
    ls_status_free(destroy_state(state));
    return status;
  }
  ls_runtime_set_slot(runtime, LS_SLOT_RUNTIME, state, destroy_state);
  *out_state = state;
  return ls_ok();
}

ls_status ls_runtime_state_get(ls_runtime *runtime,
                               ls_runtime_state **out_state) {
  *out_state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  if (*out_state != NULL) return ls_ok();
  ls_status status = ls_ok();
  ls_runtime_lock(runtime);
  *out_state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  if (*out_state == NULL) status = make_state(runtime, out_state);
  ls_runtime_unlock(runtime);
  return status;
}
