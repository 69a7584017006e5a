// SPDX-License-Identifier: Apache-2.0
//
// The thread notes that the system is gone and asks for a stop; everything else
// is done by the loop, which then ends as usual, with its last checkpoint.
#include <string.h>

#include "base/require.h"
#include "base/threads/worker.h"
#include "lockstep/shutdown_hooks.h"
#include "tpu/system/resolver.h"
#include "train/hooks/hook.h"

enum { POLL_SECONDS = 30 };

typedef struct preemption {
  ls_runtime *runtime;
  ls_tpu_resolver *resolver;
  ls_train_stop *stop;
  int64_t nanos;
  char *folder;  // To save in, where no hook saves; NULL: nowhere.
  ls_worker worker;
  const char *state;  // Atomic. Of a system that is gone; NULL: it is there.
} preemption;

// ---- The thread ------------------------------------------------------------
static bool poll_state(void *user) {
  preemption *self = user;
  bool lost = false;
  const char *state = NULL;
  const ls_status status =
      ls_tpu_resolver_is_lost(self->resolver, &lost, &state);
  if (!ls_status_is_ok(status))
    ls_runtime_log(self->runtime, LS_LOG_WARNING, "estimator",
                   "the state of the TPU is not known: %s",
                   ls_status_message(status));
  ls_status_free(status);
  if (!lost) return true;
  ls_runtime_log(self->runtime, LS_LOG_WARNING, "estimator",
                 "TPU '%s' is in state %s: stopping", self->resolver->name,
                 state);
  __atomic_store_n(&self->state, state, __ATOMIC_RELEASE);
  if (self->stop != NULL) ls_train_stop_request(self->stop);
  return false;
}

static const char *state_of(const preemption *self) {
  return __atomic_load_n(&self->state, __ATOMIC_ACQUIRE);
}

// ---- The hook --------------------------------------------------------------
// The thread asks before there is a session, and while a lost one is made
// again: for a system that is gone nobody shall wait.
static ls_status preemption_begin(void *state) {
  preemption *self = state;
  ls_worker_join(&self->worker);
  __atomic_store_n(&self->state, NULL, __ATOMIC_RELEASE);
  return ls_worker_every(&self->worker, "TPUPolling", ls_runtime_current(),
                         self->nanos, poll_state, self);
}

static ls_status preemption_after_create(void *state, ls_run_context *context) {
  return ls_session_check_save(context, ((const preemption *)state)->folder);
}

static ls_status preemption_after_run(void *state, ls_run_context *context,
                                      ls_nest results) {
  (void)results;
  if (state_of(state) != NULL) ls_run_context_request_stop(context);
  return ls_ok();
}

// Hooks that save have saved at their end.
static ls_status preemption_end(void *state, ls_run_context *context) {
  preemption *self = state;
  int64_t step = -1;
  ls_worker_join(&self->worker);
  const char *lost_state = state_of(self);
  if (lost_state == NULL) return ls_ok();
  if (!ls_session_has_saver(context))
    LS_RETURN_IF_ERROR(ls_session_save(context, self->folder, &step));
  return LS_STATUS(LS_UNAVAILABLE,
                   "TPU '%s' is in state %s, from which it does not come back: "
                   "go on from the last checkpoint on another one",
                   self->resolver->name, lost_state);
}

static void preemption_destroy(void *state) {
  preemption *self = state;
  ls_worker_join(&self->worker);
  ls_tpu_resolver_release(self->resolver);
  ls_release(ls_current_allocator(), self->folder);
}

static const ls_hook_type preemption_type = {.name = "preemption",
                                             .size = sizeof(preemption),
                                             .needs_session = true,
                                             .begin = preemption_begin,
                                             .after_create_session =
                                                 preemption_after_create,
                                             .after_run = preemption_after_run,
                                             .end = preemption_end,
                                             .destroy = preemption_destroy};

ls_status ls_preemption_hook(const ls_preemption_options *options,
                             ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  LS_REQUIRE(options);
  LS_REQUIRE(options->resolver);
  const ls_opt given = options->poll_seconds;
  if (given.set && (given.value < 1 || given.value > INT32_MAX))
    return ls_invalid_argument(
        "poll_seconds of a preemption hook is %lld, expected 1 to %d",
        given.value, INT32_MAX);
  if (options->resolver->kind != LS_TPU_NAMED) return ls_ok();
  preemption self = {.runtime = ls_runtime_current(),
                     .stop = options->stop,
                     .nanos =
                         (given.set ? given.value : POLL_SECONDS) * 1000000000};
  LS_RETURN_IF_ERROR(ls_hook_copy_text(options->folder, &self.folder));
  self.resolver = ls_tpu_resolver_retain(options->resolver);
  return ls_hook_make(&preemption_type, &self, out_hook);
}
