// SPDX-License-Identifier: Apache-2.0
// Saves checkpoints of a session.
#include <string.h>

#include "base/require.h"
#include "base/text.h"
#include "lockstep/function_plan.h"
#include "train/hooks/monitored.h"

typedef struct saver {
  ls_saver_hook_options options;
  char *folder;
  ls_save_listener *listeners;
  size_t num_listeners, capacity;
  ls_step_timer timer;
  ls_saved_values values;
  ls_checkpoints *checkpoints;  // Of the session at hand.
  bool has_graph;               // It is written.
} saver;

// ---- Listeners -------------------------------------------------------------
static ls_status tell_before(const saver *self, ls_session *session,
                             int64_t step) {
  for (size_t i = 0; i < self->num_listeners; ++i)
    if (self->listeners[i].before_save != NULL)
      LS_RETURN_IF_ERROR(self->listeners[i].before_save(self->listeners[i].user,
                                                        session, step));
  return ls_ok();
}

static ls_status tell_after(const saver *self, ls_run_context *context,
                            int64_t step) {
  for (size_t i = 0; i < self->num_listeners; ++i) {
    bool stop = false;
    if (self->listeners[i].after_save == NULL) continue;
    LS_RETURN_IF_ERROR(self->listeners[i].after_save(
        self->listeners[i].user, context->session, step, &stop));
    if (stop) ls_run_context_request_stop(context);
  }
  return ls_ok();
}

// ---- Saving ----------------------------------------------------------------
// A disk that is full is no session that was lost: another one would not help.
static ls_status for_good(const ls_run_context *context, ls_status status) {
  const ls_code code = ls_status_code(status);
  if (context->session == NULL ||
      (code != LS_UNAVAILABLE && code != LS_ABORTED))
    return status;
  const ls_status told = ls_failed_precondition("a checkpoint cannot be saved: "
                                                "%s",
                                                ls_status_message(status));
  ls_status_free(status);
  return told;
}

static ls_status saver_hook_save(saver *self, ls_run_context *context,
                                 int64_t step) {
  LS_RETURN_IF_ERROR(tell_before(self, context->session, step));
  LS_RETURN_IF_ERROR(
      for_good(context, ls_checkpoints_save(self->checkpoints, step, NULL, 0)));
  // Who is told that it is saved may look at it.
  if (self->num_listeners > 0)
    LS_RETURN_IF_ERROR(
        for_good(context, ls_checkpoints_wait(self->checkpoints)));
  return tell_after(self, context, step);
}

// Of a function there is one once it was called.
static const ls_graph *graph_of(const ls_run_context *context) {
  return context->graph != NULL ? context->graph
                                : ls_function_graph(context->called.step);
}

static ls_status write_graph(saver *self, const ls_run_context *context) {
  const ls_file_system *files = ls_runtime_files(context->runtime);
  const ls_graph *graph = graph_of(context);
  ls_text path;
  char *text = NULL;
  if (graph == NULL) return ls_ok();
  self->has_graph = true;
  if (self->options.graph_text == LS_FLAG_OFF || context->called.rank > 0)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_graph_print(graph, &text));
  ls_text_init(&path, ls_current_allocator());
  ls_text_append_format(&path, "%s/graph.ls", self->folder);
  ls_status status = ls_text_status(&path);
  if (ls_status_is_ok(status))
    status = files->write(files->user, ls_text_data(&path), text, strlen(text));
  ls_text_deinit(&path);
  ls_text_release(text);
  return status;
}

static bool has_ranks(const ls_run_context *context) {
  return context->called.num_ranks > 1;
}

// All come to a save, or none.
static ls_status check_ranks(const saver *self, const ls_run_context *context) {
  return !has_ranks(context) || self->timer.every_steps > 0
             ? ls_ok()
             : ls_unimplemented("saves by time on %d ranks, each with a clock "
                                "of its own: say every_steps",
                                context->called.num_ranks);
}

static ls_status open_checkpoints(saver *self, const ls_run_context *context) {
  LS_RETURN_IF_ERROR(check_ranks(self, context));
  LS_RETURN_IF_ERROR(ls_saved_values_take(&self->values, context,
                                          self->options.variables,
                                          self->options.num_variables));
  return ls_checkpoints_open(
      &(ls_checkpoints_options){
          .folder = self->folder,
          .values = &self->values.saver,
          .states = self->options.states,
          .num_states = self->options.num_states,
          .keep = self->options.keep,
          .keep_every_hours = self->options.keep_every_hours,
          .every_steps = LS_SOME(0),
          .ranks = has_ranks(context) ? LS_FLAG_ON : LS_FLAG_OFF},
      &self->checkpoints);
}

// ---- The hook --------------------------------------------------------------
static ls_status saver_begin(void *user) {
  saver *self = user;
  for (size_t i = 0; i < self->num_listeners; ++i)
    if (self->listeners[i].begin != NULL)
      LS_RETURN_IF_ERROR(self->listeners[i].begin(self->listeners[i].user));
  return ls_ok();
}

// What a lost session was writing is whole, or is not there.
static void saver_lost(void *user) {
  saver *self = user;
  ls_status_free(ls_checkpoints_close(self->checkpoints));
  self->checkpoints = NULL;
}

static ls_status saver_after_create(void *user, ls_run_context *context) {
  saver *self = user;
  int64_t step = 0;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  LS_RETURN_IF_ERROR(for_good(context, open_checkpoints(self, context)));
  LS_RETURN_IF_ERROR(for_good(context, write_graph(self, context)));
  LS_RETURN_IF_ERROR(saver_hook_save(self, context, step));
  (void)ls_step_timer_done(&self->timer, step, NULL, NULL);
  return ls_ok();
}

static ls_status saver_before_run(void *user, ls_run_context *context,
                                  ls_run_wish *wish) {
  const ls_step_timer *timer = &((saver *)user)->timer;
  if (timer->every_steps > 0)
    wish->most_steps =
        ls_steps_after(timer->last_step, timer->every_steps) - context->steps;
  return ls_ok();
}

// What has gone wrong on one of several ranks, the next save tells all.
static ls_status saver_hook_check(const saver *self,
                                  const ls_run_context *context) {
  return has_ranks(context)
             ? ls_ok()
             : for_good(context, ls_checkpoints_check(self->checkpoints));
}

// What was read in the run may be from before its steps: the true one is looked
// at only when a save is due then.
static ls_status saver_after_run(void *user, ls_run_context *context,
                                 ls_nest results) {
  saver *self = user;
  int64_t step = context->steps;
  (void)results;
  if (!self->has_graph) LS_RETURN_IF_ERROR(write_graph(self, context));
  if (!ls_step_timer_is_due(&self->timer,
                            step + self->options.steps_per_run.value))
    return saver_hook_check(self, context);
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (!ls_step_timer_is_due(&self->timer, step)) return ls_ok();
  (void)ls_step_timer_done(&self->timer, step, NULL, NULL);
  return saver_hook_save(self, context, step);
}

static ls_status saver_end(void *user, ls_run_context *context) {
  saver *self = user;
  int64_t step = 0;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (self->timer.last_step != step)
    LS_RETURN_IF_ERROR(saver_hook_save(self, context, step));
  const ls_status status = ls_checkpoints_close(self->checkpoints);
  self->checkpoints = NULL;
  LS_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < self->num_listeners; ++i)
    if (self->listeners[i].end != NULL)
      LS_RETURN_IF_ERROR(self->listeners[i].end(self->listeners[i].user,
                                                context->session, step));
  return ls_ok();
}

static void saver_destroy(void *user) {
  saver *self = user;
  ls_allocator *allocator = ls_current_allocator();
  saver_lost(self);
  ls_saved_values_drop(&self->values);
  ls_release(allocator, self->folder);
  ls_release(allocator, self->listeners);
  ls_hook_free(self);
}

static ls_status add_listeners(saver *self, const ls_save_listener *listeners,
                               size_t count) {
  if (!ls_grow(ls_current_allocator(), &self->listeners, &self->capacity,
               self->num_listeners + count, sizeof(*listeners)))
    return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    self->listeners[self->num_listeners++] = listeners[i];
  return ls_ok();
}

static ls_status saver_hook_fill(saver *self,
                                 const ls_saver_hook_options *options) {
  self->options = *options;
  if (!self->options.every_steps.set && !self->options.every_seconds.set)
    self->options.every_seconds = LS_SOME(600);
  if (!self->options.steps_per_run.set)
    self->options.steps_per_run = LS_SOME(1);
  LS_RETURN_IF_ERROR(ls_step_timer_begin(
      &self->timer, self->options.every_steps, self->options.every_seconds));
  self->folder = ls_copy_text(ls_current_allocator(), options->folder,
                              strlen(options->folder));
  if (self->folder == NULL) return ls_out_of_memory();
  return add_listeners(self, options->listeners, options->num_listeners);
}

ls_status ls_saver_hook(const ls_saver_hook_options *options,
                        ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  LS_REQUIRE(options);
  LS_REQUIRE(options->folder);
  LS_REQUIRE_ITEMS(options->listeners, options->num_listeners);
  LS_REQUIRE_ITEMS(options->variables, options->num_variables);
  LS_REQUIRE_ITEMS(options->states, options->num_states);
  saver *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  const ls_status status = saver_hook_fill(self, options);
  if (!ls_status_is_ok(status)) {
    saver_destroy(self);
    return status;
  }
  return ls_hook_of_steps(
      &(ls_hook_options){.name = "checkpoint saver",
                         .user = self,
                         .begin = saver_begin,
                         .after_create_session = saver_after_create,
                         .session_lost = saver_lost,
                         .before_run = saver_before_run,
                         .after_run = saver_after_run,
                         .end = saver_end,
                         .destroy = saver_destroy},
      false, out_hook);
}

// ---- Savers of a session ---------------------------------------------------
size_t ls_run_context_savers(const ls_run_context *context,
                             ls_hook **out_saver) {
  const ls_hook_list *list = &context->of->hooks;
  size_t count = 0;
  *out_saver = NULL;
  for (size_t i = 0; i < list->count; ++i)
    if (list->hooks[i]->options.begin == saver_begin && count++ == 0)
      *out_saver = list->hooks[i];
  return count;
}

ls_status ls_saver_hook_save(ls_hook *hook, ls_run_context *context,
                             int64_t *out_step) {
  saver *self = hook->options.user;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, out_step));
  if (self->timer.last_step != *out_step) {
    (void)ls_step_timer_done(&self->timer, *out_step, NULL, NULL);
    LS_RETURN_IF_ERROR(saver_hook_save(self, context, *out_step));
  }
  return for_good(context, ls_checkpoints_wait(self->checkpoints));
}

bool ls_hooks_have_saver(ls_hook *const *hooks, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (hooks[i]->options.begin == saver_begin) return true;
  return false;
}

ls_status ls_saver_hooks_add_listeners(ls_hook *const *hooks, size_t num_hooks,
                                       const ls_save_listener *listeners,
                                       size_t num_listeners) {
  LS_RETURN_IF_ERROR(ls_hooks_check("hooks", hooks, num_hooks));
  LS_REQUIRE_ITEMS(listeners, num_listeners);
  for (size_t i = 0; i < num_hooks; ++i)
    if (hooks[i]->options.begin == saver_begin)
      return add_listeners(hooks[i]->options.user, listeners, num_listeners);
  return ls_invalid_argument(
      "there are %zu listeners to saves and no hook that "
      "saves, among %zu",
      num_listeners, num_hooks);
}
