// SPDX-License-Identifier: Apache-2.0
#include "estimator/calls/system_use.h"

#include "estimator/config/state.h"

static ls_status refuse_use(const ls_system_use *other, const char *folder) {
  static const char *const acts[LS_NUM_MODES] = {
      [LS_MODE_TRAIN] = "trains on it",
      [LS_MODE_EVAL] = "evaluates on it",
      [LS_MODE_PREDICT] = "has predictions open on it (ls_predictions_close)"};
  return ls_failed_precondition(
      "the estimator in '%s' cannot use TPU system '%s' of job %s: that in "
      "'%s' %s; wait for its end, or use another system",
      folder, other->id->name, ls_job_text(other->id->job), other->folder,
      acts[other->mode]);
}

// With the runtime's lock held.
static ls_status system_use_add_use(ls_system_use *self) {
  ls_estimator_state *state = ls_estimator_state_get(self->runtime);
  if (state == NULL) return ls_out_of_memory();
  for (const ls_system_use *at = state->uses; at != NULL; at = at->next)
    if (ls_system_id_equal(at->id, self->id))
      return refuse_use(at, self->folder);
  self->next = state->uses;
  state->uses = self;
  return ls_ok();
}

ls_status ls_system_use_begin(ls_system_use *self, const ls_plan *plan,
                              const char *folder) {
  *self = (ls_system_use){.runtime = plan->runtime,
                          .id = ls_object_retain(plan->system->resolver->id),
                          .folder = folder,
                          .mode = plan->mode};
  ls_runtime_lock(self->runtime);
  const ls_status status = system_use_add_use(self);
  ls_runtime_unlock(self->runtime);
  if (ls_status_is_ok(status)) return status;
  ls_object_release(self->id);
  self->id = NULL;
  return status;
}

void ls_system_use_end(ls_system_use *self) {
  if (self->id == NULL) return;
  ls_runtime_lock(self->runtime);
  ls_estimator_state *state = ls_estimator_state_get(self->runtime);
  ls_system_use **at = &state->uses;
  while (*at != self)
    at = &(*at)->next;
  *at = self->next;
  ls_runtime_unlock(self->runtime);
  ls_object_release(self->id);
  self->id = NULL;
}
