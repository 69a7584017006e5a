// SPDX-License-Identifier: Apache-2.0
//
// How a monitored session comes by a session: by a checkpoint or the initial
// values, and once everything has a value.
#include "base/memory/own.h"
#include "base/text.h"
#include "train/hooks/monitored.h"

// ---- Checkpoints -----------------------------------------------------------
static ls_status restore_newest(ls_checkpoints *checkpoints,
                                const ls_run_context *context, bool *out_done) {
  ls_restore_report report;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_checkpoints_list(checkpoints, NULL, 0, &count));
  if (count == 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_checkpoints_restore(checkpoints, NULL, &report));
  ls_runtime_log(context->runtime, LS_LOG_INFO, "train",
                 "restored the checkpoint of step %lld",
                 (long long)report.step);
  *out_done = true;
  return ls_ok();
}

// A folder that fails is no session that was lost: another one would not help.
static ls_status for_good(ls_status status) {
  if (!ls_monitored_is_lost(status)) return status;
  const ls_status told = ls_failed_precondition(
      "no checkpoint can be restored: %s", ls_status_message(status));
  ls_status_free(status);
  return told;
}

static ls_status new_session_restore(ls_monitored_session *self,
                                     bool *out_done) {
  const ls_scaffold *s = self->scaffold;
  ls_checkpoints *checkpoints = NULL;
  if (self->checkpoints == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_saved_values_take(&self->values, &self->hooks.context,
                                          s->saved, s->num_saved));
  LS_RETURN_IF_ERROR(ls_checkpoints_open(
      &(ls_checkpoints_options){.folder = self->checkpoints,
                                .values = &self->values.saver,
                                .states = self->options.states,
                                .num_states = self->options.num_states,
                                .keep = LS_SOME(0)},
      &checkpoints));
  const ls_status status =
      restore_newest(checkpoints, &self->hooks.context, out_done);
  return ls_status_join(status, ls_checkpoints_close(checkpoints));
}

// ---- Values ----------------------------------------------------------------
static ls_status new_session_run_op(ls_monitored_session *self, ls_op op,
                                    const ls_feed *feeds, size_t num_feeds) {
  LS_OWN(ls_nest, nothing) = ls_none();
  if (op.id == 0) return ls_ok();
  return ls_session_run(self->hooks.context.session, ls_nest_op(op), feeds,
                        num_feeds, &nothing);
}

static ls_status new_session_initialize(ls_monitored_session *self) {
  const ls_scaffold *s = self->scaffold;
  LS_RETURN_IF_ERROR(
      new_session_run_op(self, s->init_op, s->init_feeds, s->num_init_feeds));
  return s->init_fn == NULL
             ? ls_ok()
             : s->init_fn(s->init_user, self->hooks.context.session);
}

static ls_status name_missing(const ls_array *names, const char *when) {
  const ls_bytes *items = ls_array_data(names);
  LS_OWN(ls_text, text) = {0};
  size_t count = 0;
  ls_text_init(&text, ls_current_allocator());
  for (int64_t i = 0; i < ls_array_num_elements(names); ++i) {
    if (items[i].size == 0) continue;
    ls_text_append(&text, count++ > 0 ? ", " : "");
    ls_text_append_bytes(&text, items[i].data, items[i].size);
  }
  return count == 0
             ? ls_ok()
             : ls_failed_precondition("%zu variables have no value %s: %s",
                                      count, when, ls_text_data(&text));
}

static ls_status check_ready(ls_monitored_session *self, ls_tensor report,
                             const char *when) {
  LS_OWN(ls_nest, names) = ls_none();
  LS_RETURN_IF_ERROR(ls_session_run(self->hooks.context.session,
                                    ls_leaf(report), NULL, 0, &names));
  return name_missing(ls_nest_as_array(names), when);
}

static ls_status give_values(ls_monitored_session *self) {
  const ls_scaffold *s = self->scaffold;
  bool restored = false;
  LS_RETURN_IF_ERROR(for_good(new_session_restore(self, &restored)));
  if (!restored) LS_RETURN_IF_ERROR(new_session_initialize(self));
  LS_RETURN_IF_ERROR(check_ready(self, s->ready_for_local_init_op,
                                 restored ? "after a checkpoint was restored"
                                          : "after init_op"));
  LS_RETURN_IF_ERROR(new_session_run_op(self, s->local_init_op, NULL, 0));
  return check_ready(self, s->ready_op, "after local_init_op");
}

// ---- Sessions --------------------------------------------------------------
void ls_monitored_drop_session(ls_monitored_session *self) {
  ls_run_context *context = &self->hooks.context;
  if (context->session == NULL) return;
  ls_hook_list_lose(&self->hooks);
  ls_status_free(ls_session_close(context->session));
  ls_session_destroy(context->session);
  context->session = NULL;
}

int64_t ls_monitored_sessions(const ls_monitored_session *self) {
  return self->sessions;
}

ls_status ls_monitored_open(ls_monitored_session *self) {
  ++self->sessions;
  LS_RETURN_IF_ERROR(ls_session_create_with(
      self->options.graph, self->options.config, &self->hooks.context.session));
  LS_RETURN_IF_ERROR(give_values(self));
  return ls_hook_list_create(&self->hooks);
}

bool ls_monitored_is_lost(ls_status status) {
  return ls_status_code(status) == LS_ABORTED ||
         ls_status_code(status) == LS_UNAVAILABLE;
}

ls_status ls_monitored_reopen(ls_monitored_session *self) {
  enum { WAIT_NANOS = 1000 * 1000 * 1000, TIMEOUT = 7200 };
  const ls_opt limit = self->options.creation_timeout_seconds;
  const double seconds = limit.set ? (double)limit.value : TIMEOUT;
  ls_runtime *runtime = self->hooks.context.runtime;
  const int64_t began = ls_runtime_now(runtime);
  for (int tries = 0;;) {
    ls_monitored_drop_session(self);
    const ls_status status = ls_monitored_open(self);
    const double waited = (double)(ls_runtime_now(runtime) - began) * 1e-9;
    if (!ls_monitored_is_lost(status) || waited >= seconds ||
        ls_monitored_session_should_stop(self))
      return status;
    // Who looks on is told at the first time, and then each minute.
    if (tries++ % 60 == 0)
      ls_runtime_log(runtime, LS_LOG_WARNING, "train",
                     "a session could not begin: %s: %s; it is tried again for "
                     "%.0f seconds",
                     ls_code_name(ls_status_code(status)),
                     ls_status_message(status), seconds - waited);
    ls_status_free(status);
    ls_runtime_sleep(runtime, WAIT_NANOS);
  }
}
