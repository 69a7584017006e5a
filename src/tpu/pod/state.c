// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/state.h"

#include "tpu/pod/launch.h"

void ls_tpu_system_deinit(ls_allocator *allocator, ls_tpu_system *system) {
  ls_release(allocator, system->name);
  ls_release(allocator, system->job);
  ls_topology_release(system->topology);
  *system = (ls_tpu_system){0};
}

static ls_status destroy_state(void *pointer) {
  ls_tpu_state *state = pointer;
  for (size_t i = 0; i < state->num_pods; ++i)
    ls_object_release(state->pods[i]);
  for (size_t i = 0; i < state->num_systems; ++i)
    ls_tpu_system_deinit(state->allocator, &state->systems[i]);
  ls_object_release(state->gone);
  ls_object_release(state->first);
  ls_release(state->allocator, state->pods);
  ls_release(state->allocator, state->systems);
  ls_release(state->allocator, state);
  return ls_ok();
}

ls_tpu_state *ls_tpu_state_get(ls_runtime *runtime) {
  ls_tpu_state *state = ls_tpu_state_find(runtime);
  if (state != NULL) return state;
  state = ls_new(ls_runtime_allocator(runtime), ls_tpu_state);
  if (state == NULL) return NULL;
  state->allocator = ls_runtime_allocator(runtime);
  ls_runtime_set_slot(runtime, LS_SLOT_TPU, state, destroy_state);
  runtime->has_core = ls_pod_has_core;
  runtime->launches = &ls_tpu_launches;
  return state;
}

ls_tpu_system *ls_tpu_state_system(const ls_tpu_state *state, const char *name,
                                   const char *job) {
  for (size_t i = 0; state != NULL && i < state->num_systems; ++i)
    if (strcmp(state->systems[i].name, name) == 0 &&
        strcmp(state->systems[i].job, job) == 0)
      return &state->systems[i];
  return NULL;
}
