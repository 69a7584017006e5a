// SPDX-License-Identifier: Apache-2.0
#include "train/hooks/monitored.h"

#include <string.h>

#include "base/require.h"

// ---- Making ----------------------------------------------------------------
static ls_status copy_options(ls_monitored_session *self) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = self->is.num_hooks;
  self->hooks = ls_new_array(allocator, ls_hook *, count + 1);
  self->wanted = ls_new_array(allocator, ls_nest, count + 1);
  self->asked = ls_new_array(allocator, ls_nest, count + 1);
  if (self->hooks == NULL || self->wanted == NULL || self->asked == NULL)
    return ls_out_of_memory();
  for (; self->num_hooks < count; ++self->num_hooks)
    self->hooks[self->num_hooks] =
        ls_hook_retain(self->is.hooks[self->num_hooks]);
  if (self->is.checkpoints == NULL) return ls_ok();
  self->checkpoints = ls_copy_text(allocator, self->is.checkpoints,
                                   strlen(self->is.checkpoints));
  return self->checkpoints != NULL ? ls_ok() : ls_out_of_memory();
}

static ls_status begin_hooks(ls_monitored_session *self) {
  LS_GRAPH_SCOPE(self->context.graph);
  for (size_t i = 0; i < self->num_hooks; ++i) {
    const ls_hook_options *hook = &self->hooks[i]->is;
    if (hook->begin != NULL)
      LS_RETURN_IF_ERROR(ls_status_annotate(
          hook->begin(hook->user), "in hook '%s', at its begin", hook->name));
  }
  return ls_ok();
}

static ls_status begin(ls_monitored_session *self) {
  self->scaffold = self->is.scaffold != NULL ? self->is.scaffold : &self->own;
  LS_RETURN_IF_ERROR(copy_options(self));
  LS_RETURN_IF_ERROR(begin_hooks(self));
  LS_RETURN_IF_ERROR(ls_scaffold_finalize(self->scaffold, self->context.graph));
  return ls_monitored_reopen(self);
}

static void destroy(ls_monitored_session *self) {
  ls_allocator *allocator = ls_current_allocator();
  ls_monitored_drop_session(self);
  ls_nest_release(self->results);
  ls_nest_release(self->fetches);
  for (size_t i = 0; i < self->num_hooks; ++i)
    ls_hook_release(self->hooks[i]);
  ls_saved_values_drop(&self->values);
  ls_release(allocator, self->hooks);
  ls_release(allocator, self->wanted);
  ls_release(allocator, self->asked);
  ls_release(allocator, self->feeds);
  ls_release(allocator, self->checkpoints);
  ls_release(allocator, self);
}

ls_status ls_monitored_session_create(const ls_monitored_options *options,
                                      ls_monitored_session **out_session) {
  LS_REQUIRE(out_session);
  *out_session = NULL;
  LS_REQUIRE(options);
  LS_REQUIRE(options->graph);
  LS_REQUIRE_ITEMS(options->hooks, options->num_hooks);
  ls_monitored_session *self =
      ls_new(ls_current_allocator(), ls_monitored_session);
  if (self == NULL) return ls_out_of_memory();
  self->is = *options;
  self->context = (ls_run_context){.runtime = ls_runtime_current(),
                                   .graph = options->graph};
  const ls_status status = begin(self);
  if (ls_status_is_ok(status))
    *out_session = self;
  else
    destroy(self);
  return status;
}

// ---- Stopping --------------------------------------------------------------
bool ls_monitored_session_should_stop(const ls_monitored_session *session) {
  return ls_run_context_stop_requested(&session->context) ||
         ls_train_stop_requested(session->is.stop);
}

void ls_monitored_session_request_stop(ls_monitored_session *session) {
  ls_run_context_request_stop(&session->context);
}

ls_session *ls_monitored_session_now(ls_monitored_session *session) {
  return session->context.session;
}

// ---- A run -----------------------------------------------------------------
static ls_status add_feeds(ls_monitored_session *self, const ls_feed *feeds,
                           size_t count) {
  if (!ls_grow(ls_current_allocator(), &self->feeds, &self->feeds_capacity,
               self->num_feeds + count, sizeof(*feeds)))
    return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    self->feeds[self->num_feeds++] = feeds[i];
  return ls_ok();
}

static ls_status ask_hooks(ls_monitored_session *self) {
  for (size_t i = 0; i < self->num_hooks; ++i) {
    const ls_hook_options *hook = &self->hooks[i]->is;
    ls_run_wish wish = {.fetches = ls_none()};
    if (hook->before_run != NULL)
      LS_RETURN_IF_ERROR(ls_status_annotate(
          hook->before_run(hook->user, &self->context, &wish),
          "in hook '%s', before a run", hook->name));
    self->wanted[i + 1] = wish.fetches;
    LS_RETURN_IF_ERROR(add_feeds(self, wish.feeds, wish.num_feeds));
  }
  return ls_ok();
}

// Whether two are one: a leaf of the same tensor or op, or one list.
static bool is_same(ls_nest a, ls_nest b) {
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

// Makes `fetches` the list of what is wanted, unless it is that.
static ls_status gather_fetches(ls_monitored_session *self) {
  const size_t count = self->num_hooks + 1;
  bool same = self->fetches.kind != LS_KIND_NONE;
  for (size_t i = 0; i < count && same; ++i)
    same = is_same(self->wanted[i], self->asked[i]);
  if (same) return ls_ok();
  for (size_t i = 0; i < count; ++i)
    self->asked[i] = ls_nest_retain(self->wanted[i]);
  ls_nest_release(self->fetches);
  self->fetches = ls_nest_sequence(LS_KIND_LIST, self->asked, count);
  const ls_status status = ls_nest_status(self->fetches);
  if (ls_status_is_ok(status)) return status;
  ls_nest_release(self->fetches);
  self->fetches = ls_none();
  return status;
}

static ls_status tell_hooks(ls_monitored_session *self) {
  for (size_t i = 0; i < self->num_hooks; ++i) {
    const ls_hook_options *hook = &self->hooks[i]->is;
    if (hook->after_run != NULL)
      LS_RETURN_IF_ERROR(ls_status_annotate(
          hook->after_run(hook->user, &self->context,
                          ls_nest_item(self->results, i + 1)),
          "in hook '%s', after a run", hook->name));
  }
  return ls_ok();
}

static ls_status run(ls_monitored_session *self, ls_nest fetches,
                     const ls_feed *feeds, size_t num_feeds) {
  self->num_feeds = 0;
  self->context.fetches = fetches;
  self->wanted[0] = fetches;
  LS_RETURN_IF_ERROR(add_feeds(self, feeds, num_feeds));
  LS_RETURN_IF_ERROR(ask_hooks(self));
  LS_RETURN_IF_ERROR(gather_fetches(self));
  LS_RETURN_IF_ERROR(ls_session_run(self->context.session, self->fetches,
                                    self->feeds, self->num_feeds,
                                    &self->results));
  return tell_hooks(self);
}

static void log_loss(const ls_monitored_session *self, ls_status status) {
  ls_runtime_log(self->context.runtime, LS_LOG_WARNING, "train",
                 "a run ended with %s: %s; it is made again in a new session",
                 ls_code_name(ls_status_code(status)),
                 ls_status_message(status));
}

ls_status ls_monitored_session_run(ls_monitored_session *session,
                                   ls_nest fetches, const ls_feed *feeds,
                                   size_t num_feeds, ls_nest *results) {
  LS_REQUIRE(session);
  LS_REQUIRE(results);
  LS_REQUIRE_ITEMS(feeds, num_feeds);
  if (ls_monitored_session_should_stop(session))
    return ls_failed_precondition("a run of a monitored session after a stop "
                                  "was requested");
  for (;;) {
    const ls_status status = run(session, fetches, feeds, num_feeds);
    if (ls_status_is_ok(status)) *results = ls_nest_item(session->results, 0);
    if (!ls_monitored_is_lost(status)) return status;
    log_loss(session, status);
    ls_status_free(status);
    LS_RETURN_IF_ERROR(ls_monitored_reopen(session));
  }
}

// ---- The end ---------------------------------------------------------------
static ls_status end_hooks(ls_monitored_session *self) {
  for (size_t i = 0; i < self->num_hooks; ++i) {
    const ls_hook_options *hook = &self->hooks[i]->is;
    if (hook->end != NULL)
      LS_RETURN_IF_ERROR(
          ls_status_annotate(hook->end(hook->user, &self->context),
                             "in hook '%s', at its end", hook->name));
  }
  return ls_ok();
}

ls_status ls_monitored_session_close(ls_monitored_session *session,
                                     ls_status how) {
  if (session == NULL) return how;
  ls_status status = how;
  if (ls_status_code(how) == LS_OUT_OF_RANGE) {
    ls_status_free(how);
    status = ls_ok();
  }
  if (ls_status_is_ok(status)) status = end_hooks(session);
  destroy(session);
  return status;
}
