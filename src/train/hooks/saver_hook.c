// SPDX-License-Identifier: Apache-2.0
// The hook that saves checkpoints of a session, or of training functions.
#include <string.h>

#include "base/require.h"
#include "base/text.h"
#include "lockstep/function_plan.h"
#include "train/hooks/saving.h"

typedef struct saver {
  ls_saver_hook_options options;
  char *folder;
  ls_save_listener *listeners;
  size_t num_listeners, capacity;
  // For one loop: a state to save, too, and the number of listeners before it.
  const ls_saveable *lent;
  size_t num_own_listeners;
  ls_saveable *states;  // All states to save.
  size_t states_capacity;
  ls_saved_values values;
  ls_saving saving;  // Saves of the current session.
  bool has_graph;    // The graph has been written.
  double sum;        // Sum of the values of the metric since the last save,
  int64_t runs;      // and their number.
} saver;

// ---- Listeners -------------------------------------------------------------
static ls_status notify_after(const saver *self, ls_run_context *context,
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
// Keeps a failed save, such as on a full disk, from counting as a lost session:
// a new session would not help.
static ls_status for_good(const ls_run_context *context, ls_status status) {
  return context->session != NULL
             ? ls_keep_session(status, "a checkpoint cannot be saved")
             : status;
}

static ls_status saver_hook_save(saver *self, ls_run_context *context,
                                 int64_t step) {
  const ls_checkpoint_metric metric = {self->options.metric,
                                       self->sum / (double)self->runs};
  const size_t count = self->runs > 0;
  self->sum = 0;
  self->runs = 0;
  for (size_t i = 0; i < self->num_listeners; ++i)
    if (self->listeners[i].before_save != NULL)
      LS_RETURN_IF_ERROR(self->listeners[i].before_save(
          self->listeners[i].user, context->session, step));
  LS_RETURN_IF_ERROR(
      for_good(context, ls_saving_save(&self->saving, step, &metric, count)));
  // Waits, since listeners may read the file.
  if (self->num_listeners > 0)
    LS_RETURN_IF_ERROR(for_good(context, ls_saving_wait(&self->saving)));
  return notify_after(self, context, step);
}

static ls_status write_graph(saver *self, const ls_run_context *context) {
  const ls_file_system *files = ls_runtime_files(context->runtime);
  // A function has a graph after its first call.
  const ls_graph *graph = context->graph != NULL
                              ? context->graph
                              : ls_function_graph(context->called.step);
  char *text = NULL;
  if (graph == NULL) return ls_ok();
  self->has_graph = true;
  if (self->options.graph_text == LS_FLAG_OFF || context->called.rank > 0)
    return ls_ok();
  LS_OWN(ls_text, path) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&path, "%s/graph.ls", self->folder);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  LS_RETURN_IF_ERROR(ls_graph_print(graph, &text));
  const ls_status status =
      files->write(files->user, ls_text_data(&path), text, strlen(text));
  ls_text_release(text);
  return status;
}

static bool has_ranks(const ls_run_context *context) {
  return context->called.num_ranks > 1;
}

// Lists the states to save: the hook's own, and the loop's.
static ls_status list_states(saver *self, size_t *out_count) {
  const ls_saver_hook_options *o = &self->options;
  LS_RETURN_IF_NO_MEMORY(LS_GROW(ls_current_allocator(), self->states,
                                 self->states_capacity, o->num_states + 1));
  for (*out_count = 0; *out_count < o->num_states; ++*out_count)
    self->states[*out_count] = o->states[*out_count];
  if (self->lent != NULL) self->states[(*out_count)++] = *self->lent;
  return ls_ok();
}

static ls_status open_checkpoints(saver *self, const ls_run_context *context) {
  const ls_saver_hook_options *o = &self->options;
  size_t num_states = 0;
  const bool has_seconds = o->every_seconds.set && o->every_seconds.value > 0;
  LS_RETURN_IF_ERROR(ls_saved_values_take(&self->values, context, o->variables,
                                          o->num_variables));
  LS_RETURN_IF_ERROR(list_states(self, &num_states));
  return ls_saving_open(
      &self->saving,
      &(ls_checkpoints_options){
          .folder = self->folder,
          .values = &self->values.saver,
          .states = self->states,
          .num_states = num_states,
          .keep = o->keep,
          .keep_every_hours = o->keep_every_hours,
          .kept_step = o->kept_step,
          .best_metric = o->metric,
          .keep_best = LS_SOME(o->keep_lowest),
          .every_steps = LS_SOME(o->every_steps.set ? o->every_steps.value : 0),
          .every_seconds = has_seconds ? o->every_seconds : (ls_opt){0},
          .ranks = has_ranks(context) ? LS_FLAG_ON : LS_FLAG_OFF});
}

// ---- The hook --------------------------------------------------------------
static ls_status saver_begin(void *state) {
  saver *self = state;
  for (size_t i = 0; i < self->num_listeners; ++i)
    if (self->listeners[i].begin != NULL)
      LS_RETURN_IF_ERROR(self->listeners[i].begin(self->listeners[i].user));
  return ls_ok();
}

// Forgets the save of a lost session, which is complete or absent, and the
// values of its runs.
static void saver_lost(void *state) {
  saver *self = state;
  self->sum = 0;
  self->runs = 0;
  ls_status_free(ls_saving_close(&self->saving));
}

static ls_status saver_after_create(void *state, ls_run_context *context) {
  saver *self = state;
  LS_RETURN_IF_ERROR(for_good(context, open_checkpoints(self, context)));
  LS_RETURN_IF_ERROR(for_good(context, write_graph(self, context)));
  return saver_hook_save(self, context, context->steps);
}

static ls_status saver_before_run(void *state, ls_run_context *context,
                                  ls_run_wish *wish) {
  wish->most_steps =
      ls_saving_steps_left(&((saver *)state)->saving, context->steps);
  return ls_ok();
}

// Reports a failed save. With several ranks the next save reports it to all.
static ls_status check_save(const saver *self, const ls_run_context *context) {
  return has_ranks(context)
             ? ls_ok()
             : for_good(context,
                        ls_checkpoints_check(self->saving.checkpoints));
}

// Finds out if a save is due. Ranks save by the clock of rank 0.
static bool is_due(const saver *self, const ls_run_context *context,
                   int64_t step) {
  return has_ranks(context) && self->options.every_seconds.set
             ? ls_checkpoints_due(self->saving.checkpoints, step) &&
                   step != self->saving.saved
             : ls_saving_is_due(&self->saving, step);
}

static ls_status add_metric(saver *self, const ls_run_context *context) {
  double value = 0;
  if (self->options.metric == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_run_context_number(context, self->options.metric, &value));
  self->sum += value;
  ++self->runs;
  return ls_ok();
}

// The step read in a run may be from before the run's own update; reads the
// current step only if a save would be due then.
static ls_status saver_after_run(void *state, ls_run_context *context,
                                 ls_nest results) {
  saver *self = state;
  int64_t step = context->steps;
  (void)results;
  if (!self->has_graph) LS_RETURN_IF_ERROR(write_graph(self, context));
  LS_RETURN_IF_ERROR(add_metric(self, context));
  if (!is_due(self, context, step + self->options.steps_per_run.value))
    return check_save(self, context);
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  return is_due(self, context, step) ? saver_hook_save(self, context, step)
                                     : ls_ok();
}

static ls_status save_unless_saved(saver *self, ls_run_context *context,
                                   int64_t *out_step) {
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, out_step));
  return self->saving.saved != *out_step
             ? saver_hook_save(self, context, *out_step)
             : ls_ok();
}

static ls_status saver_end(void *state, ls_run_context *context) {
  saver *self = state;
  int64_t step = 0;
  LS_RETURN_IF_ERROR(save_unless_saved(self, context, &step));
  LS_RETURN_IF_ERROR(ls_saving_close(&self->saving));
  for (size_t i = 0; i < self->num_listeners; ++i)
    if (self->listeners[i].end != NULL)
      LS_RETURN_IF_ERROR(self->listeners[i].end(self->listeners[i].user,
                                                context->session, step));
  return ls_ok();
}

static void saver_destroy(void *state) {
  saver *self = state;
  ls_allocator *allocator = ls_current_allocator();
  saver_lost(self);
  ls_saved_values_drop(&self->values);
  ls_release(allocator, self->folder);
  ls_release(allocator, self->listeners);
  ls_release(allocator, self->states);
}

static const ls_hook_type saver_type = {.name = "checkpoint saver",
                                        .size = sizeof(saver),
                                        .counts = true,
                                        .begin = saver_begin,
                                        .after_create_session =
                                            saver_after_create,
                                        .session_lost = saver_lost,
                                        .before_run = saver_before_run,
                                        .after_run = saver_after_run,
                                        .end = saver_end,
                                        .destroy = saver_destroy};

static ls_status add_listeners(saver *self, const ls_save_listener *listeners,
                               size_t count) {
  LS_RETURN_IF_NO_MEMORY(LS_GROW(ls_current_allocator(), self->listeners,
                                 self->capacity, self->num_listeners + count));
  for (size_t i = 0; i < count; ++i)
    self->listeners[self->num_listeners++] = listeners[i];
  return ls_ok();
}

static ls_status saver_fill(saver *self, const ls_saver_hook_options *options) {
  ls_step_timer timer;
  self->options = *options;
  if (!self->options.every_steps.set && !self->options.every_seconds.set)
    self->options.every_seconds = LS_SOME(600);
  if (!self->options.steps_per_run.set)
    self->options.steps_per_run = LS_SOME(1);
  LS_RETURN_IF_ERROR(ls_step_timer_begin(&timer, self->options.every_steps,
                                         self->options.every_seconds));
  LS_RETURN_IF_ERROR(
      ls_keep_text(ls_current_allocator(), options->folder, &self->folder));
  return add_listeners(self, options->listeners, options->num_listeners);
}

ls_status ls_saver_hook(const ls_saver_hook_options *options,
                        ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, options, options->folder);
  LS_REQUIRE_ITEMS(options->listeners, options->num_listeners);
  LS_REQUIRE_ITEMS(options->variables, options->num_variables);
  LS_REQUIRE_ITEMS(options->states, options->num_states);
  LS_OWN(ls_hook, hook) = NULL;
  LS_RETURN_IF_ERROR(ls_hook_make(&saver_type, NULL, &hook));
  LS_RETURN_IF_ERROR(saver_fill(hook->state, options));
  return ls_hand_over(&hook, out_hook);
}

// ---- Savers in a list ------------------------------------------------------
// Returns the number of saver hooks, and the first.
static size_t find_savers(ls_hook *const *hooks, size_t count,
                          saver **out_first) {
  size_t num_savers = 0;
  for (size_t i = 0; i < count; ++i)
    if (hooks[i]->type == &saver_type && num_savers++ == 0)
      *out_first = hooks[i]->state;
  return num_savers;
}

bool ls_hooks_have_saver(ls_hook *const *hooks, size_t count) {
  saver *first = NULL;
  return find_savers(hooks, count, &first) > 0;
}

void ls_saver_hooks_lend(ls_hook *const *hooks, size_t count,
                         const ls_saveable *state) {
  for (size_t i = 0; i < count; ++i) {
    saver *self = hooks[i]->state;
    if (hooks[i]->type != &saver_type) continue;
    self->lent = state;
    self->num_own_listeners = self->num_listeners;
  }
}

void ls_saver_hooks_take_back(ls_hook *const *hooks, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    saver *self = hooks[i]->state;
    if (hooks[i]->type != &saver_type || self->lent == NULL) continue;
    self->lent = NULL;
    self->num_listeners = self->num_own_listeners;
  }
}

ls_status ls_saver_hooks_add_listeners(ls_hook *const *hooks, size_t num_hooks,
                                       const ls_save_listener *listeners,
                                       size_t num_listeners) {
  saver *first = NULL;
  LS_RETURN_IF_ERROR(ls_hooks_check("hooks", hooks, num_hooks));
  LS_REQUIRE_ITEMS(listeners, num_listeners);
  if (find_savers(hooks, num_hooks, &first) > 0)
    return add_listeners(first, listeners, num_listeners);
  return ls_invalid_argument(
      "there are %zu save listeners, but no saver hook among %zu",
      num_listeners, num_hooks);
}

// ---- Saves on demand -------------------------------------------------------
static size_t savers_of_session(const ls_run_context *context,
                                saver **out_first) {
  const ls_hook_list *list = &context->of->hooks;
  return find_savers(list->hooks, list->count, out_first);
}

bool ls_session_has_saver(const ls_run_context *context) {
  saver *first = NULL;
  return savers_of_session(context, &first) > 0;
}

ls_status ls_session_check_save(const ls_run_context *context,
                                const char *folder) {
  if (context->has_step || (folder == NULL && !ls_session_has_saver(context)))
    return ls_ok();
  return ls_failed_precondition(
      "a checkpoint shall be saved, and graph '%s' has no global step "
      "(ls_global_step_create)",
      ls_graph_name(context->graph));
}

// Saves everything that a new session would restore.
static ls_status save_in_folder(const ls_run_context *context,
                                const char *folder, int64_t step) {
  const ls_monitored_session *session = context->of;
  const ls_scaffold *scaffold = session->scaffold;
  LS_OWN(ls_saved_values, values) = {0};
  ls_saving saving = {0};
  LS_RETURN_IF_ERROR(ls_saved_values_take(&values, context, scaffold->saved,
                                          scaffold->num_saved));
  LS_RETURN_IF_ERROR(ls_saving_open(
      &saving,
      &(ls_checkpoints_options){.folder = folder,
                                .values = &values.saver,
                                .states = session->options.states,
                                .num_states = session->options.num_states,
                                .keep = LS_SOME(0),
                                .background = LS_FLAG_OFF}));
  const ls_status status = ls_saving_save(&saving, step, NULL, 0);
  return ls_status_join(status, ls_saving_close(&saving));
}

ls_status ls_session_save(ls_run_context *context, const char *folder,
                          int64_t *out_step) {
  saver *first = NULL;
  const size_t num_savers = savers_of_session(context, &first);
  int64_t step = -1;
  *out_step = -1;
  if (num_savers > 1) {
    ls_runtime_log(context->runtime, LS_LOG_ERROR, "train",
                   "multiple savers, %zu of them: no checkpoint is saved on "
                   "demand",
                   num_savers);
    return ls_ok();
  }
  if (num_savers == 1) {
    LS_RETURN_IF_ERROR(save_unless_saved(first, context, &step));
    LS_RETURN_IF_ERROR(for_good(context, ls_saving_wait(&first->saving)));
  } else if (folder != NULL) {
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
    LS_RETURN_IF_ERROR(save_in_folder(context, folder, step));
  }
  *out_step = step;
  return ls_ok();
}
