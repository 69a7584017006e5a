// SPDX-License-Identifier: Apache-2.0
#include "estimator/config/state.h"

static ls_status state_destroy(void *pointer) {
  ls_estimator_state *state = pointer;
  if (state->watchdogs != NULL) state->end_watchdogs(state->watchdogs);
  ls_release(state->allocator, state);
  return ls_ok();
}

ls_estimator_state *ls_estimator_state_get(ls_runtime *runtime) {
  ls_estimator_state *state = ls_runtime_slot(runtime, LS_SLOT_ESTIMATOR);
  if (state != NULL) return state;
  state = ls_new(ls_runtime_allocator(runtime), ls_estimator_state);
  if (state == NULL) return NULL;
  state->allocator = ls_runtime_allocator(runtime);
  ls_runtime_set_slot(runtime, LS_SLOT_ESTIMATOR, state, state_destroy);
  return state;
}
