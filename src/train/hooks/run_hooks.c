// SPDX-License-Identifier: Apache-2.0
// Hooks that add to runs: summaries, feeds, what is run at the end, a trace.
#include <string.h>

#include "base/require.h"
#include "base/text.h"
#include "lockstep/ops.h"
#include "lockstep/trace.h"
#include "train/hooks/hook.h"

// ---- Summaries -------------------------------------------------------------
typedef struct summaries {
  ls_summary_hook_options options;
  ls_op *ops;
  ls_step_timer timer;
  ls_nest all;  // What is fetched when they are due.
  bool due;
  bool holds;    // The writer, until they are.
  int64_t next;  // The step that the next run makes; -1: not known.
} summaries;

static ls_status summary_begin(void *user) {
  summaries *self = user;
  self->next = -1;
  self->all = ls_none();
  if (self->options.num_ops == 0) return ls_ok();
  LS_NAME_SCOPE("");
  const ls_op all = ls_group(self->ops, self->options.num_ops, "summaries");
  if (ls_op_is_failed(all)) return ls_graph_take_error(ls_graph_current());
  self->all = ls_nest_op(all);
  return ls_ok();
}

// It may be at another step than the one before.
static ls_status summary_after_create(void *user, ls_run_context *context) {
  (void)context;
  ((summaries *)user)->next = -1;
  return ls_ok();
}

// A step that writes them is a run of its own: what it has of them writes
// wherever it runs, if it is let.
static void choose_steps(summaries *self, ls_run_wish *wish) {
  const ls_step_timer *timer = &self->timer;
  self->holds = true;
  ls_summary_writer_set_every(self->options.writer, self->due ? 1 : INT64_MAX);
  if (self->due)
    wish->most_steps = 1;
  else if (timer->every_steps > 0)
    wish->most_steps =
        ls_steps_after(timer->last_step, timer->every_steps) - self->next;
}

static ls_status summary_before_run(void *user, ls_run_context *context,
                                    ls_run_wish *wish) {
  summaries *self = user;
  if (self->next < 0) {
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &self->next));
    ++self->next;
  }
  self->due = ls_step_timer_is_due(&self->timer, self->next);
  if (self->due && self->options.writer != NULL)
    ls_summary_writer_set_step(self->options.writer, self->next);
  if (self->due) wish->fetches = self->all;
  if (context->session == NULL) choose_steps(self, wish);
  return ls_ok();
}

static ls_status summary_after_run(void *user, ls_run_context *context,
                                   ls_nest results) {
  summaries *self = user;
  (void)results;
  if (self->due) (void)ls_step_timer_done(&self->timer, self->next, NULL, NULL);
  self->next = context->steps + 1;
  return ls_ok();
}

// What was held back writes again.
static void summary_lost(void *user) {
  summaries *self = user;
  if (self->holds) ls_summary_writer_set_every(self->options.writer, 1);
  self->holds = false;
}

static void summary_destroy(void *user) {
  summaries *self = user;
  ls_release(ls_current_allocator(), self->ops);
  ls_hook_free(self);
}

ls_status ls_summary_hook(const ls_summary_hook_options *options,
                          ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  LS_REQUIRE(options);
  LS_REQUIRE_ITEMS(options->ops, options->num_ops);
  ls_step_timer timer;
  if (!options->every_steps.set && !options->every_seconds.set)
    return ls_invalid_argument(
        "a hook of %zu summaries: say when, each so many "
        "steps or seconds",
        options->num_ops);
  LS_RETURN_IF_ERROR(ls_step_timer_begin(&timer, options->every_steps,
                                         options->every_seconds));
  summaries *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  self->options = *options;
  self->timer = timer;
  self->ops = ls_new_array(ls_current_allocator(), ls_op, options->num_ops + 1);
  if (self->ops == NULL) {
    summary_destroy(self);
    return ls_out_of_memory();
  }
  for (size_t i = 0; i < options->num_ops; ++i)
    self->ops[i] = options->ops[i];
  return ls_hook_of_steps(
      &(ls_hook_options){.name = "summary saver",
                         .user = self,
                         .begin = summary_begin,
                         .after_create_session = summary_after_create,
                         .session_lost = summary_lost,
                         .before_run = summary_before_run,
                         .after_run = summary_after_run,
                         .destroy = summary_destroy},
      options->num_ops > 0 || options->writer == NULL, out_hook);
}

// ---- The end ---------------------------------------------------------------
typedef struct final_ops {
  ls_nest fetches;
  const ls_feed *feeds;
  size_t num_feeds;
  ls_nest *values;
} final_ops;

static ls_status final_end(void *user, ls_run_context *context) {
  const final_ops *self = user;
  return ls_session_run(context->session, self->fetches, self->feeds,
                        self->num_feeds, self->values);
}

static void final_destroy(void *user) {
  ls_nest_release(((final_ops *)user)->fetches);
  ls_hook_free(user);
}

ls_status ls_final_ops_hook(ls_nest fetches, const ls_feed *feeds,
                            size_t num_feeds, ls_nest *out_values,
                            ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_values);
  LS_REQUIRE_OUT(out_hook);
  LS_REQUIRE_ITEMS(feeds, num_feeds);
  final_ops *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  *self = (final_ops){ls_nest_retain(fetches), feeds, num_feeds, out_values};
  return ls_hook_of_state(&(ls_hook_options){.name = "final ops",
                                             .user = self,
                                             .end = final_end,
                                             .destroy = final_destroy},
                          out_hook);
}

// ---- Feeds -----------------------------------------------------------------
enum { MOST_FEEDS = 64 };
typedef struct feeder {
  ls_feed_function feed;
  void *user;
  ls_feed feeds[MOST_FEEDS];
} feeder;

static ls_status feed_before_run(void *user, ls_run_context *context,
                                 ls_run_wish *wish) {
  feeder *self = user;
  (void)context;
  wish->feeds = self->feeds;
  LS_RETURN_IF_ERROR(
      self->feed(self->user, self->feeds, MOST_FEEDS, &wish->num_feeds));
  return wish->num_feeds <= MOST_FEEDS
             ? ls_ok()
             : ls_invalid_argument("%zu feeds were written, of at most %d",
                                   wish->num_feeds, MOST_FEEDS);
}

ls_status ls_feed_hook(ls_feed_function feed, void *user, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  LS_REQUIRE(feed);
  feeder *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  self->feed = feed;
  self->user = user;
  return ls_hook_of_state(&(ls_hook_options){.name = "feeder",
                                             .user = self,
                                             .before_run = feed_before_run,
                                             .destroy = ls_hook_free},
                          out_hook);
}

// ---- Traces ----------------------------------------------------------------
typedef struct profiler {
  char *folder;
  ls_step_timer timer;
  int64_t next;  // As of summaries.
  ls_trace *trace;
} profiler;

static ls_status profile_begin(void *user) {
  ((profiler *)user)->next = -1;
  return ls_ok();
}

static ls_status profile_after_create(void *user, ls_run_context *context) {
  (void)context;
  ((profiler *)user)->next = -1;
  return ls_ok();
}

static ls_status profile_before_run(void *user, ls_run_context *context,
                                    ls_run_wish *wish) {
  profiler *self = user;
  (void)wish;
  if (self->next < 0) {
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &self->next));
    ++self->next;
  }
  if (context->called.rank > 0 ||
      !ls_step_timer_is_due(&self->timer, self->next))
    return ls_ok();
  ls_trace_destroy(self->trace);
  self->trace = NULL;
  return ls_trace_begin(context->runtime, NULL, &self->trace);
}

static ls_status profile_write(profiler *self, const ls_run_context *context,
                               int64_t step) {
  const ls_file_system *files = ls_runtime_files(context->runtime);
  ls_text path;
  ls_text_init(&path, ls_current_allocator());
  ls_text_append_format(&path, "%s/timeline-%lld.json", self->folder,
                        (long long)step);
  ls_trace_end(self->trace);
  ls_status status = ls_text_status(&path);
  if (ls_status_is_ok(status))
    status = files->make_directories(files->user, self->folder);
  if (ls_status_is_ok(status))
    status = ls_trace_write(self->trace, ls_text_data(&path));
  ls_text_deinit(&path);
  ls_trace_destroy(self->trace);
  self->trace = NULL;
  return status;
}

static ls_status profile_after_run(void *user, ls_run_context *context,
                                   ls_nest results) {
  profiler *self = user;
  const int64_t step = context->steps;
  (void)results;
  self->next = step + 1;
  if (self->trace == NULL) return ls_ok();
  (void)ls_step_timer_done(&self->timer, step, NULL, NULL);
  return profile_write(self, context, step);
}

static void profile_destroy(void *user) {
  profiler *self = user;
  ls_trace_destroy(self->trace);
  ls_release(ls_current_allocator(), self->folder);
  ls_hook_free(self);
}

ls_status ls_profiler_hook(const char *folder, ls_opt every_steps,
                           ls_opt every_seconds, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  LS_REQUIRE(folder);
  ls_step_timer timer;
  if (!every_steps.set && !every_seconds.set)
    return ls_invalid_argument("a hook that traces runs into '%s': say when, "
                               "each so many steps or seconds",
                               folder);
  LS_RETURN_IF_ERROR(ls_step_timer_begin(&timer, every_steps, every_seconds));
  profiler *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  self->timer = timer;
  self->folder = ls_copy_text(ls_current_allocator(), folder, strlen(folder));
  if (self->folder == NULL) {
    profile_destroy(self);
    return ls_out_of_memory();
  }
  return ls_hook_of_steps(
      &(ls_hook_options){.name = "profiler",
                         .user = self,
                         .begin = profile_begin,
                         .after_create_session = profile_after_create,
                         .before_run = profile_before_run,
                         .after_run = profile_after_run,
                         .destroy = profile_destroy},
      false, out_hook);
}
