// SPDX-License-Identifier: Apache-2.0
// Two hooks. The first acts, after each run, on hosts that announce their end,
// while the run's results still exist; the second on a system that is gone for
// good.
#include "lockstep/shutdown_hooks.h"

#include <stdio.h>
#include <string.h>

#include "base/require.h"
#include "base/threads/worker.h"
#include "estimator/config/config.h"
#include "tpu/system/resolver.h"
#include "train/hooks/hook.h"

enum { TIMEOUT_MS = 60000, POLL_SECONDS = 30 };
static const int64_t FIRST_NANOS = INT64_C(5000000000);

typedef struct graceful {
  ls_tpu_resolver *resolver;
  ls_shutdown_mode mode;
  int64_t nanos;   // Time to wait for a host's answer.
  bool saves;      // True if the model is saved before: by a saver hook or to
  char *folder;    // this folder; NULL: nowhere.
  ls_pod *pod;     // The queried hosts; NULL: none.
  bool *lame;      // By host of the pod: true if it announces its end.
  ls_status ends;  // Status that ends the training.
} graceful;

// ---- Hosts about to go: environment ----------------------------------------
static ls_status read_mode(ls_shutdown_mode *mode) {
  static const char *const names[] = {[LS_SHUTDOWN_WORKER] = "shutdown_worker",
                                      [LS_SHUTDOWN_COMPUTATION] =
                                          "shutdown_computation",
                                      [LS_SHUTDOWN_NONE] = ""};
  ls_setting setting;
  if (*mode != LS_SHUTDOWN_OF_ENVIRONMENT) return ls_ok();
  ls_setting_read(ls_runtime_current(), "TF_TPU_GRACEFUL_SHUTDOWN_MODE",
                  &setting);
  const char *value =
      setting.value != NULL ? setting.value : names[LS_SHUTDOWN_WORKER];
  for (int i = LS_SHUTDOWN_WORKER; i <= LS_SHUTDOWN_NONE; ++i)
    if (strcmp(value, names[i]) == 0) *mode = (ls_shutdown_mode)i;
  if (*mode != LS_SHUTDOWN_OF_ENVIRONMENT) return ls_ok();
  return ls_invalid_argument(
      "%s is '%s', expected shutdown_worker, shutdown_computation or nothing",
      setting.name, value);
}

// ---- Query -----------------------------------------------------------------
// Returns true if a host supports health checks. A host that is gone counts,
// too, because it will be back with the next session.
static bool can_tell(ls_pod *pod, int32_t host) {
  ls_pod_health health;
  const ls_status status = ls_pod_ask_health(pod, host, FIRST_NANOS, &health);
  const ls_code code = ls_status_code(status);
  ls_status_free(status);
  return code == LS_OK || code == LS_UNAVAILABLE;
}

static ls_status look_for_hosts(graceful *self, ls_runtime *runtime) {
  ls_allocator *allocator = ls_current_allocator();
  ls_pod_release(self->pod);
  self->pod = NULL;
  ls_pod *pod = NULL;
  const ls_status status = ls_tpu_pod(self->resolver, &pod);
  if (ls_status_code(status) != LS_UNIMPLEMENTED) LS_RETURN_IF_ERROR(status);
  ls_status_free(status);
  const int32_t count = pod != NULL ? ls_pod_num_hosts(pod) : 0;
  int32_t telling = 0;
  while (telling < count && can_tell(pod, telling))
    ++telling;
  if (telling == count && count > 0) {
    ls_release(allocator, self->lame);
    self->lame = ls_new_array(allocator, bool, (size_t)count);
    self->pod = pod;
    return self->lame != NULL ? ls_ok() : ls_out_of_memory();
  }
  if (count > 0)
    ls_runtime_log(runtime, LS_LOG_WARNING, "estimator",
                   "host %d does not support heartbeats: hosts that will go "
                   "are not noticed",
                   telling);
  else
    ls_runtime_log(runtime, LS_LOG_WARNING, "estimator",
                   "no host of this system supports heartbeats: hosts that "
                   "will go are not noticed");
  ls_pod_release(pod);
  return ls_ok();
}

// ---- Shut down -------------------------------------------------------------
typedef struct lame_text {
  char text[160];
} lame_text;

// Prints host numbers such as "1, 3", as many as fit.
static lame_text print_lame(const graceful *self) {
  lame_text out = {.text = ""};
  size_t used = 0;
  for (int32_t i = 0; i < ls_pod_num_hosts(self->pod); ++i) {
    if (!self->lame[i]) continue;
    const size_t room = sizeof(out.text) - used;
    const int wrote =
        snprintf(out.text + used, room, "%s%d", used > 0 ? ", " : "", i);
    if (wrote < 0 || (size_t)wrote >= room) break;
    used += (size_t)wrote;
  }
  return out;
}

static ls_status shut_down(const graceful *self, bool all) {
  for (int32_t i = 0; i < ls_pod_num_hosts(self->pod); ++i)
    if (all || self->lame[i])
      LS_RETURN_IF_ERROR(ls_pod_shut_down_host(self->pod, i));
  return ls_ok();
}

static ls_status save_and_stop(graceful *self, ls_run_context *context) {
  const lame_text lame = print_lame(self);
  const bool all = self->mode == LS_SHUTDOWN_COMPUTATION;
  int64_t step = -1;
  ls_runtime_log(context->runtime, LS_LOG_WARNING, "estimator",
                 "lame workers found: hosts %s of TPU system '%s'", lame.text,
                 self->resolver->id->name);
  if (self->saves)
    LS_RETURN_IF_ERROR(ls_session_save(context, self->folder, &step));
  if (step >= 0)
    ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                   "saved the checkpoint of step %lld before they go",
                   (long long)step);
  else
    ls_runtime_log(context->runtime, LS_LOG_WARNING, "estimator",
                   "no checkpoint is saved before they go");
  LS_RETURN_IF_ERROR(shut_down(self, all));
  if (!all) return ls_ok();
  ls_status_free(self->ends);
  self->ends = LS_STATUS(LS_ABORTED,
                         "coordinator shutdown: hosts %s of TPU system '%s' "
                         "are lame, and all its %d hosts were shut down",
                         lame.text, self->resolver->id->name,
                         ls_pod_num_hosts(self->pod));
  ls_run_context_request_stop(context);
  return ls_ok();
}

// ---- Hook for hosts --------------------------------------------------------
static ls_status graceful_begin(void *state) {
  graceful *self = state;
  ls_status_free(self->ends);
  self->ends = ls_ok();
  return ls_ok();
}

static ls_status graceful_after_create(void *state, ls_run_context *context) {
  graceful *self = state;
  if (self->saves)
    LS_RETURN_IF_ERROR(ls_session_check_save(context, self->folder));
  return look_for_hosts(self, context->runtime);
}

static ls_status graceful_after_run(void *state, ls_run_context *context,
                                    ls_nest results) {
  graceful *self = state;
  int32_t count = 0;
  (void)results;
  if (self->pod == NULL || !ls_status_is_ok(self->ends)) return ls_ok();
  for (int32_t i = 0; i < ls_pod_num_hosts(self->pod); ++i) {
    ls_pod_health health = LS_POD_HEALTHY;
    const ls_status status =
        ls_pod_ask_health(self->pod, i, self->nanos, &health);
    const bool silent = ls_status_code(status) == LS_DEADLINE_EXCEEDED;
    if (!silent) LS_RETURN_IF_ERROR(status);
    ls_status_free(status);
    self->lame[i] = silent || health == LS_POD_LAME;
    count += self->lame[i];
  }
  return count > 0 ? save_and_stop(self, context) : ls_ok();
}

static ls_status graceful_end(void *state, ls_run_context *context) {
  graceful *self = state;
  const ls_status status = self->ends;
  (void)context;
  self->ends = ls_ok();
  return status;
}

static void graceful_destroy(void *state) {
  graceful *self = state;
  ls_status_free(self->ends);
  ls_pod_release(self->pod);
  ls_tpu_resolver_release(self->resolver);
  ls_release(ls_current_allocator(), self->lame);
  ls_release(ls_current_allocator(), self->folder);
}

static const ls_hook_type graceful_type = {.name = "graceful shutdown",
                                           .size = sizeof(graceful),
                                           .needs_session = true,
                                           .begin = graceful_begin,
                                           .after_create_session =
                                               graceful_after_create,
                                           .after_run = graceful_after_run,
                                           .end = graceful_end,
                                           .destroy = graceful_destroy};

ls_status ls_graceful_shutdown_hook(const ls_graceful_shutdown_options *options,
                                    ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, options, options->resolver);
  const ls_opt given = options->timeout_ms;
  if (given.set && (given.value < 1 || given.value > INT32_MAX))
    return ls_invalid_argument(
        "timeout_ms of a graceful shutdown is %lld, expected 1 to %d",
        given.value, INT32_MAX);
  if ((unsigned)options->mode > LS_SHUTDOWN_NONE)
    return ls_invalid_argument("there is no mode %d of a graceful shutdown",
                               (int)options->mode);
  ls_shutdown_mode mode = options->mode;
  LS_RETURN_IF_ERROR(read_mode(&mode));
  if (mode == LS_SHUTDOWN_NONE) return ls_ok();
  graceful self = {.mode = mode,
                   .nanos = (given.set ? given.value : TIMEOUT_MS) * 1000000,
                   .saves = options->saves != LS_FLAG_OFF};
  if (self.saves)
    LS_RETURN_IF_ERROR(
        ls_keep_text(ls_current_allocator(), options->folder, &self.folder));
  self.resolver = ls_tpu_resolver_retain(options->resolver);
  return ls_hook_make(&graceful_type, &self, out_hook);
}

typedef struct preemption {
  ls_runtime *runtime;
  ls_tpu_resolver *resolver;
  ls_train_stop *stop;
  int64_t nanos;
  char *folder;  // Folder for a save without a saver hook; NULL: none.
  ls_worker worker;
  // Atomic. Name of the system's final state; NULL: the system exists.
  const char *state;
} preemption;

// ---- A system that is gone: polling thread ---------------------------------
// Records that the system is gone and requests a stop. The loop then ends as
// usual and saves its last checkpoint.
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

// ---- Hook for the system ---------------------------------------------------
// Starts the polling thread before there is a session, and again while a lost
// session is recovered, so that the loop does not wait for a system that is
// gone.
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

// Saves unless a saver hook did so at its end, and fails the training because
// its system is gone.
static ls_status preemption_end(void *state, ls_run_context *context) {
  preemption *self = state;
  int64_t step = -1;
  ls_worker_join(&self->worker);
  const char *lost_state = state_of(self);
  if (lost_state == NULL) return ls_ok();
  if (!ls_session_has_saver(context))
    LS_RETURN_IF_ERROR(ls_session_save(context, self->folder, &step));
  return LS_STATUS(LS_UNAVAILABLE,
                   "TPU '%s' is in state %s and will not recover: resume from "
                   "the last checkpoint on another one",
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
  LS_REQUIRE_OUT(out_hook, options, options->resolver);
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
  LS_RETURN_IF_ERROR(
      ls_keep_text(ls_current_allocator(), options->folder, &self.folder));
  self.resolver = ls_tpu_resolver_retain(options->resolver);
  return ls_hook_make(&preemption_type, &self, out_hook);
}
