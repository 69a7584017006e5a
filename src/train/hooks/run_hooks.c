// SPDX-License-Identifier: Apache-2.0
// Hooks that add to runs: summaries, feeds, final ops, a trace.
#include "base/require.h"
#include "base/text.h"
#include "base/values/nest_builder.h"
#include "distribute/values/values.h"
#include "lockstep/graph_ops.h"
#include "lockstep/trace.h"
#include "train/hooks/hook.h"

// ---- Summaries -------------------------------------------------------------
typedef struct summaries {
  ls_summary_hook_options options;
  ls_op *ops;
  ls_step_timer timer;
  // Fetches of a run in which summaries are due: the values of ls_summary,
  // which are recorded after the run, and other ops.
  ls_nest fetches;
  int64_t step;  // The step that the current run makes first.
  bool is_due;
  bool holds_back;  // The event writer waits until records are due.
} summaries;

static ls_status summary_begin(void *state) {
  summaries *self = state;
  LS_OWN(ls_nest_builder, list) = {0};
  self->timer.last_step = -1;
  if (self->options.num_ops == 0) return ls_ok();
  for (size_t i = 0; i < self->options.num_ops; ++i)
    ls_nest_builder_append(&list, ls_summary_of(self->ops[i]) != NULL
                                      ? ls_leaf(ls_op_input(self->ops[i], 0))
                                      : ls_nest_op(self->ops[i]));
  ls_nest_release(self->fetches);
  self->fetches = ls_none();
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST),
                      &self->fetches);
}

// Makes a step with summaries a run of its own. Other runs record no summaries
// while the writer is paused.
static void choose_steps(summaries *self, ls_run_wish *wish) {
  const ls_step_timer *timer = &self->timer;
  self->holds_back = true;
  ls_summary_writer_set_every(self->options.writer,
                              self->is_due ? 1 : INT64_MAX);
  if (self->is_due)
    wish->most_steps = 1;
  else if (timer->every_steps > 0)
    wish->most_steps =
        ls_steps_after(timer->last_step, timer->every_steps) - self->step;
}

static ls_status summary_before_run(void *state, ls_run_context *context,
                                    ls_run_wish *wish) {
  summaries *self = state;
  self->step = context->steps + 1;
  self->is_due = ls_step_timer_is_due(&self->timer, self->step);
  if (self->is_due && self->options.writer != NULL)
    ls_summary_writer_set_step(self->options.writer, self->step);
  if (self->is_due) wish->fetches = self->fetches;
  if (context->session == NULL) choose_steps(self, wish);
  return ls_ok();
}

// Records the summaries at the step after the run, which may make several.
static ls_status summary_after_run(void *state, ls_run_context *context,
                                   ls_nest results) {
  summaries *self = state;
  int64_t step = 0;
  if (!self->is_due) return ls_ok();
  (void)ls_step_timer_done(&self->timer, self->step, NULL, NULL);
  if (self->options.num_ops == 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  for (size_t i = 0; i < self->options.num_ops; ++i) {
    const ls_summary_state *s = ls_summary_of(self->ops[i]);
    if (s != NULL &&
        step % __atomic_load_n(&s->writer->every, __ATOMIC_RELAXED) == 0)
      LS_RETURN_IF_ERROR(
          ls_summary_write(s->writer, s->kind, s->tag, step,
                           ls_nest_as_array(ls_nest_item(results, i))));
  }
  return ls_ok();
}

// Resumes the writer.
static void summary_lost(void *state) {
  summaries *self = state;
  if (self->holds_back) ls_summary_writer_set_every(self->options.writer, 1);
  self->holds_back = false;
}

static void summary_destroy(void *state) {
  summaries *self = state;
  ls_release(ls_current_allocator(), self->ops);
  ls_nest_release(self->fetches);
}

static const ls_hook_type summary_type = {.name = "summary saver",
                                          .size = sizeof(summaries),
                                          .counts = true,
                                          .begin = summary_begin,
                                          .session_lost = summary_lost,
                                          .before_run = summary_before_run,
                                          .after_run = summary_after_run,
                                          .destroy = summary_destroy};

ls_status ls_summary_hook(const ls_summary_hook_options *options,
                          ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, options);
  LS_REQUIRE_ITEMS(options->ops, options->num_ops);
  summaries self = {.options = *options};
  if (!options->every_steps.set && !options->every_seconds.set)
    return ls_invalid_argument(
        "a hook of %zu summaries: set an interval in steps or seconds",
        options->num_ops);
  LS_RETURN_IF_ERROR(ls_step_timer_begin(&self.timer, options->every_steps,
                                         options->every_seconds));
  LS_SET_ARRAY_OR_RETURN(ls_current_allocator(), ls_op, self.ops,
                         options->num_ops + 1);
  for (size_t i = 0; i < options->num_ops; ++i)
    self.ops[i] = options->ops[i];
  LS_RETURN_IF_ERROR(ls_hook_make(&summary_type, &self, out_hook));
  (*out_hook)->needs_session = options->num_ops > 0 || options->writer == NULL;
  return ls_ok();
}

// ---- Final ops -------------------------------------------------------------
typedef struct final_ops {
  ls_nest fetches;
  const ls_feed *feeds;
  size_t num_feeds;
  ls_nest *values;
} final_ops;

static ls_status final_end(void *state, ls_run_context *context) {
  const final_ops *self = state;
  return ls_session_run(context->session, self->fetches, self->feeds,
                        self->num_feeds, self->values);
}

static void final_destroy(void *state) {
  ls_nest_release(((final_ops *)state)->fetches);
}

static const ls_hook_type final_type = {.name = "final ops",
                                        .size = sizeof(final_ops),
                                        .needs_session = true,
                                        .end = final_end,
                                        .destroy = final_destroy};

ls_status ls_final_ops_hook(ls_nest fetches, const ls_feed *feeds,
                            size_t num_feeds, ls_nest *out_values,
                            ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_values);
  LS_REQUIRE_OUT(out_hook);
  LS_REQUIRE_ITEMS(feeds, num_feeds);
  return ls_hook_make(
      &final_type,
      &(final_ops){ls_nest_retain(fetches), feeds, num_feeds, out_values},
      out_hook);
}

// ---- Feeds -----------------------------------------------------------------
enum { MOST_FEEDS = 64 };
typedef struct feeder {
  ls_feed_function feed;
  void *user;
  ls_feed feeds[MOST_FEEDS];
} feeder;

static ls_status feed_before_run(void *state, ls_run_context *context,
                                 ls_run_wish *wish) {
  feeder *self = state;
  (void)context;
  wish->feeds = self->feeds;
  LS_RETURN_IF_ERROR(
      self->feed(self->user, self->feeds, MOST_FEEDS, &wish->num_feeds));
  return wish->num_feeds <= MOST_FEEDS
             ? ls_ok()
             : ls_invalid_argument("%zu feeds were written, of at most %d",
                                   wish->num_feeds, MOST_FEEDS);
}

static const ls_hook_type feed_type = {.name = "feeder",
                                       .size = sizeof(feeder),
                                       .needs_session = true,
                                       .before_run = feed_before_run};

ls_status ls_feed_hook(ls_feed_function feed, void *user, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, feed);
  return ls_hook_make(&feed_type, &(feeder){.feed = feed, .user = user},
                      out_hook);
}

// ---- Traces ----------------------------------------------------------------
typedef struct profiler {
  char *folder;
  ls_step_timer timer;
  ls_trace *trace;
} profiler;

static ls_status profile_begin(void *state) {
  ((profiler *)state)->timer.last_step = -1;
  return ls_ok();
}

static ls_status profile_before_run(void *state, ls_run_context *context,
                                    ls_run_wish *wish) {
  profiler *self = state;
  (void)wish;
  if (context->called.rank > 0 ||
      !ls_step_timer_is_due(&self->timer, context->steps + 1))
    return ls_ok();
  ls_trace_destroy(self->trace);
  self->trace = NULL;
  return ls_trace_begin(context->runtime, NULL, &self->trace);
}

static ls_status profile_write(const profiler *self,
                               const ls_run_context *context) {
  const ls_file_system *files = ls_runtime_files(context->runtime);
  LS_OWN(ls_text, path) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&path, "%s/timeline-%lld.json", self->folder,
                        (long long)context->steps);
  ls_trace_end(self->trace);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  LS_RETURN_IF_ERROR(files->make_directories(files->user, self->folder));
  return ls_trace_write(self->trace, ls_text_data(&path));
}

static ls_status profile_after_run(void *state, ls_run_context *context,
                                   ls_nest results) {
  profiler *self = state;
  (void)results;
  if (self->trace == NULL) return ls_ok();
  (void)ls_step_timer_done(&self->timer, context->steps, NULL, NULL);
  const ls_status status = profile_write(self, context);
  ls_trace_destroy(self->trace);
  self->trace = NULL;
  return status;
}

static void profile_destroy(void *state) {
  profiler *self = state;
  ls_trace_destroy(self->trace);
  ls_release(ls_current_allocator(), self->folder);
}

static const ls_hook_type profile_type = {.name = "profiler",
                                          .size = sizeof(profiler),
                                          .counts = true,
                                          .begin = profile_begin,
                                          .before_run = profile_before_run,
                                          .after_run = profile_after_run,
                                          .destroy = profile_destroy};

ls_status ls_profiler_hook(const char *folder, ls_opt every_steps,
                           ls_opt every_seconds, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, folder);
  profiler self = {.trace = NULL};
  if (!every_steps.set && !every_seconds.set)
    return ls_invalid_argument("a hook that traces runs into '%s': set an "
                               "interval in steps or seconds",
                               folder);
  LS_RETURN_IF_ERROR(
      ls_step_timer_begin(&self.timer, every_steps, every_seconds));
  LS_RETURN_IF_ERROR(
      ls_keep_text(ls_current_allocator(), folder, &self.folder));
  return ls_hook_make(&profile_type, &self, out_hook);
}
