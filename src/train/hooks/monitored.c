// SPDX-License-Identifier: Apache-2.0
// Monitored sessions: creates sessions, restores a checkpoint or initializes,
// until all variables have values; and makes their runs.
#include "train/hooks/saving.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/text.h"
#include "base/values/nest_internal.h"
#include "state/checkpoints.h"

enum { CALLERS, STEP, FIRST_OF_HOOKS };  // Order of a run's fetches.

// ---- Checkpoints -----------------------------------------------------------
static ls_status restore_newest(ls_checkpoints *checkpoints,
                                const ls_run_context *context, bool *out_done) {
  ls_restore_report report;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_checkpoints_list(checkpoints, NULL, 0, &count));
  if (count == 0) return ls_ok();
  checkpoints->allows_missing = context->of->allows_missing;
  LS_RETURN_IF_ERROR(ls_checkpoints_restore(checkpoints, NULL, &report));
  ls_runtime_log(context->runtime, LS_LOG_INFO, "train",
                 "restored the checkpoint of step %lld",
                 (long long)report.step);
  *out_done = true;
  return ls_ok();
}

static ls_status restore(ls_monitored_session *self, bool *out_done) {
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
                                .keep = LS_SOME(0),
                                .ranks = self->options.ranks},
      &checkpoints));
  const ls_status status =
      restore_newest(checkpoints, &self->hooks.context, out_done);
  return ls_status_join(status, ls_checkpoints_close(checkpoints));
}

// ---- Values ----------------------------------------------------------------
static ls_status run_op(ls_monitored_session *self, ls_op op,
                        const ls_feed *feeds, size_t num_feeds) {
  LS_OWN(ls_nest, nothing) = ls_none();
  if (op.id == 0) return ls_ok();
  return ls_session_run(self->hooks.context.session, ls_nest_op(op), feeds,
                        num_feeds, &nothing);
}

static ls_status initialize(ls_monitored_session *self) {
  const ls_scaffold *s = self->scaffold;
  LS_RETURN_IF_ERROR(
      run_op(self, s->init_op, s->init_feeds, s->num_init_feeds));
  return s->init_fn == NULL
             ? ls_ok()
             : s->init_fn(s->init_user, self->hooks.context.session);
}

static ls_status check_ready(ls_monitored_session *self, ls_tensor report,
                             const char *when) {
  LS_OWN(ls_nest, names) = ls_none();
  LS_RETURN_IF_ERROR(ls_session_run(self->hooks.context.session,
                                    ls_leaf(report), NULL, 0, &names));
  const ls_bytes *items = ls_array_data(ls_nest_as_array(names));
  size_t count = 0;
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  for (int64_t i = 0; i < ls_array_num_elements(ls_nest_as_array(names)); ++i) {
    if (items[i].size == 0) continue;
    ls_text_append(&text, count++ > 0 ? ", " : "");
    ls_text_append_bytes(&text, items[i].data, items[i].size);
  }
  return count == 0
             ? ls_ok()
             : ls_failed_precondition("%zu variables have no value %s: %s",
                                      count, when, ls_text_data(&text));
}

static ls_status give_values(ls_monitored_session *self) {
  const ls_scaffold *s = self->scaffold;
  bool restored = false;
  LS_RETURN_IF_ERROR(ls_keep_session(restore(self, &restored),
                                     "no checkpoint can be restored"));
  if (!restored) LS_RETURN_IF_ERROR(initialize(self));
  LS_RETURN_IF_ERROR(check_ready(self, s->ready_for_local_init_op,
                                 restored ? "after a checkpoint was restored"
                                          : "after init_op"));
  LS_RETURN_IF_ERROR(run_op(self, s->local_init_op, NULL, 0));
  return check_ready(self, s->ready_op, "after local_init_op");
}

// ---- Sessions --------------------------------------------------------------
static void drop_session(ls_monitored_session *self) {
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

static ls_status open_session(ls_monitored_session *self) {
  ++self->sessions;
  LS_RETURN_IF_ERROR(ls_session_create_with(
      self->options.graph, self->options.config, &self->hooks.context.session));
  LS_RETURN_IF_ERROR(give_values(self));
  return ls_hook_list_create(&self->hooks);
}

static ls_status reopen_session(ls_monitored_session *self) {
  enum { WAIT_NANOS = 1000 * 1000 * 1000, TIMEOUT = 7200 };
  const ls_opt limit = self->options.creation_timeout_seconds;
  const double seconds = limit.set ? (double)limit.value : TIMEOUT;
  ls_runtime *runtime = self->hooks.context.runtime;
  const int64_t began = ls_runtime_now(runtime);
  for (int tries = 0;;) {
    drop_session(self);
    const ls_status status = open_session(self);
    const double waited = (double)(ls_runtime_now(runtime) - began) * 1e-9;
    if (!ls_loses_session(status) || waited >= seconds ||
        ls_monitored_session_should_stop(self))
      return status;
    // Logs the failure the first time, and then once a minute.
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

// ---- Making ----------------------------------------------------------------
static ls_status copy_options(ls_monitored_session *self) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = FIRST_OF_HOOKS + self->options.num_hooks;
  LS_RETURN_IF_ERROR(ls_hook_list_add_all(&self->hooks, self->options.hooks,
                                          self->options.num_hooks));
  const ls_communicator *ranks =
      self->options.ranks == LS_FLAG_ON
          ? ls_runtime_communicator(ls_runtime_current())
          : NULL;
  if (ranks != NULL) {
    self->hooks.context.called.rank = ranks->rank;
    self->hooks.context.called.num_ranks = ranks->ranks;
  }
  self->hooks.context.graph = self->options.graph;
  self->hooks.context.of = self;
  self->wanted = ls_new_array(allocator, ls_nest, count);
  self->asked = ls_new_array(allocator, ls_nest, count);
  if (self->wanted == NULL || self->asked == NULL) return ls_out_of_memory();
  return ls_keep_text(ls_current_allocator(), self->options.checkpoints,
                      &self->checkpoints);
}

static ls_status monitored_begin(ls_monitored_session *self) {
  self->scaffold =
      self->options.scaffold != NULL ? self->options.scaffold : &self->own;
  LS_RETURN_IF_ERROR(copy_options(self));
  LS_RETURN_IF_ERROR(ls_hook_list_begin(&self->hooks));
  LS_RETURN_IF_ERROR(ls_scaffold_finalize(self->scaffold, self->options.graph));
  return reopen_session(self);
}

static void monitored_destroy(ls_monitored_session *self) {
  ls_runtime *before = ls_runtime_make_current(self->runtime);
  ls_allocator *allocator = ls_current_allocator();
  drop_session(self);
  ls_nest_release(self->results);
  ls_nest_release(self->fetches);
  ls_hook_list_deinit(&self->hooks);
  ls_saved_values_drop(&self->values);
  ls_release(allocator, self->wanted);
  ls_release(allocator, self->asked);
  ls_release(allocator, self->feeds);
  ls_release(allocator, self->checkpoints);
  ls_release(allocator, self);
  (void)ls_runtime_make_current(before);
}

ls_status ls_monitored_session_make(const ls_monitored_options *options,
                                    bool allows_missing,
                                    ls_monitored_session **out_session) {
  LS_REQUIRE_EACH_FIELD(options->states, options->num_states, name);
  LS_RETURN_IF_ERROR(
      ls_hooks_check("hooks", options->hooks, options->num_hooks));
  LS_NEW_OR_RETURN(ls_current_allocator(), ls_monitored_session, self);
  self->runtime = ls_runtime_current();
  self->options = *options;
  self->allows_missing = allows_missing;
  const ls_status status = monitored_begin(self);
  if (ls_status_is_ok(status))
    *out_session = self;
  else
    monitored_destroy(self);
  return status;
}

ls_status ls_monitored_session_create(const ls_monitored_options *options,
                                      ls_monitored_session **out_session) {
  LS_REQUIRE_OUT(out_session, options, options->graph);
  return ls_monitored_session_make(options, false, out_session);
}

// ---- Stop ------------------------------------------------------------------
bool ls_monitored_session_should_stop(const ls_monitored_session *session) {
  return session == NULL ||
         ls_run_context_stop_requested(&session->hooks.context) ||
         ls_train_stop_requested(session->options.stop) ||
         ls_train_stop_requested(session->options.other_stop);
}

void ls_monitored_session_request_stop(ls_monitored_session *session) {
  if (session != NULL) ls_run_context_request_stop(&session->hooks.context);
}

ls_session *ls_monitored_session_now(ls_monitored_session *session) {
  return session != NULL ? session->hooks.context.session : NULL;
}

// ---- A run -----------------------------------------------------------------
static ls_status add_feeds(ls_monitored_session *self, const ls_feed *feeds,
                           size_t count) {
  LS_RETURN_IF_NO_MEMORY(LS_GROW(ls_runtime_allocator(self->runtime),
                                 self->feeds, self->feeds_capacity,
                                 self->num_feeds + count));
  for (size_t i = 0; i < count; ++i)
    self->feeds[self->num_feeds++] = feeds[i];
  return ls_ok();
}

// Gathers the caller's fetches and the hooks' requests.
static ls_status gather_wishes(ls_monitored_session *self, ls_nest fetches) {
  const ls_hook_list *hooks = &self->hooks;
  self->wanted[CALLERS] = fetches;
  const bool counts =
      hooks->counts || (self->has_lost && hooks->context.has_step);
  self->wanted[STEP] = counts ? ls_leaf(hooks->context.step) : ls_none();
  for (size_t i = 0; i < hooks->count; ++i) {
    const ls_run_wish *wish = &hooks->wishes[i];
    self->wanted[FIRST_OF_HOOKS + i] = wish->fetches;
    if (wish->feeds == NULL && wish->num_feeds > 0)
      return ls_invalid_argument("hook '%s' adds %zu feeds at NULL",
                                 ls_hook_name(hooks->hooks[i]),
                                 wish->num_feeds);
    LS_RETURN_IF_ERROR(add_feeds(self, wish->feeds, wish->num_feeds));
  }
  return ls_ok();
}

// Returns true for leaves of the same tensor or op, or the same list.
static bool monitored_is_same(ls_nest a, ls_nest b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
  case LS_KIND_NONE:
    return true;
  case LS_KIND_TENSOR:
    return ls_tensor_equal(a.as.tensor, b.as.tensor);
  case LS_KIND_OP:
    return a.as.op.graph == b.as.op.graph && a.as.op.id == b.as.op.id;
  default:
    return a.as.ref == b.as.ref;
  }
}

// Makes `fetches` the list of all that is wanted, unless it already is.
static ls_status gather_fetches(ls_monitored_session *self) {
  const size_t count = FIRST_OF_HOOKS + self->hooks.count;
  bool is_same = self->fetches.kind != LS_KIND_NONE;
  for (size_t i = 0; i < count && is_same; ++i)
    is_same = monitored_is_same(self->wanted[i], self->asked[i]);
  if (is_same) return ls_ok();
  for (size_t i = 0; i < count; ++i)
    self->asked[i] = ls_nest_retain(self->wanted[i]);
  ls_nest_release(self->fetches);
  self->fetches = ls_none();
  return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, self->asked, count),
                      &self->fetches);
}

static ls_status make_run(void *user, bool *out_has_run) {
  ls_monitored_session *self = user;
  ls_run_context *context = &self->hooks.context;
  LS_RETURN_IF_ERROR(gather_wishes(self, context->fetches));
  LS_RETURN_IF_ERROR(gather_fetches(self));
  context->results = ls_none();
  LS_RETURN_IF_ERROR(ls_session_run(context->session, self->fetches,
                                    self->feeds, self->num_feeds,
                                    &self->results));
  context->results = ls_nest_item(self->results, CALLERS);
  context->steps = ls_result_count(ls_nest_item(self->results, STEP));
  *out_has_run = true;
  return ls_ok();
}

static ls_status monitored_run(ls_monitored_session *self, ls_nest fetches,
                               const ls_feed *feeds, size_t num_feeds) {
  self->num_feeds = 0;
  self->hooks.context.fetches = fetches;
  LS_RETURN_IF_ERROR(add_feeds(self, feeds, num_feeds));
  return ls_hook_list_run(&self->hooks,
                          &(ls_hooked_run){.make = make_run,
                                           .user = self,
                                           .results = &self->results,
                                           .first = FIRST_OF_HOOKS});
}

// ---- Losses ----------------------------------------------------------------
// Resets the count of losses at a step that was never reached before: sessions
// make progress between losses.
static void note_step(ls_monitored_session *self) {
  const int64_t steps = self->hooks.context.steps;
  if (steps <= self->furthest) return;
  self->furthest = steps;
  self->losses = 0;
}

// Returns OK if another session may be created.
static ls_status count_loss(ls_monitored_session *self, ls_status status) {
  enum { MOST = 3 };
  const ls_opt most = self->options.most_losses;
  self->has_lost = true;
  if (self->losses++ < (most.set ? most.value : MOST)) return ls_ok();
  return ls_status_annotate(
      ls_status_clone(status),
      "%lld sessions were lost without progress beyond step %lld",
      (long long)self->losses, (long long)self->furthest);
}

static void log_loss(const ls_monitored_session *self, ls_status status) {
  ls_runtime_log(self->hooks.context.runtime, LS_LOG_WARNING, "train",
                 "a run ended with %s: %s; it is made again in a new session",
                 ls_code_name(ls_status_code(status)),
                 ls_status_message(status));
}

ls_status ls_monitored_session_run(ls_monitored_session *session,
                                   ls_nest fetches, const ls_feed *feeds,
                                   size_t num_feeds, ls_nest *results) {
  LS_REQUIRE_OUT(results, session);
  LS_REQUIRE_ITEMS(feeds, num_feeds);
  if (ls_monitored_session_should_stop(session))
    return ls_failed_precondition("a run of a monitored session after a stop "
                                  "was requested");
  for (;;) {
    const ls_status status = monitored_run(session, fetches, feeds, num_feeds);
    if (ls_status_is_ok(status)) {
      *results = ls_nest_item(session->results, CALLERS);
      note_step(session);
    }
    if (!ls_loses_session(status)) return status;
    const ls_status counted = count_loss(session, status);
    if (ls_status_is_ok(counted)) log_loss(session, status);
    ls_status_free(status);
    LS_RETURN_IF_ERROR(counted);
    LS_RETURN_IF_ERROR(reopen_session(session));
  }
}

// ---- Close -----------------------------------------------------------------
ls_status ls_monitored_session_close(ls_monitored_session *session,
                                     ls_status how) {
  if (session == NULL) return how;
  ls_status status = how;
  if (ls_status_code(how) == LS_OUT_OF_RANGE) {
    ls_status_free(how);
    status = ls_ok();
  }
  if (ls_status_is_ok(status)) status = ls_hook_list_end(&session->hooks);
  monitored_destroy(session);
  return status;
}
