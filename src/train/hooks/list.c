// SPDX-License-Identifier: Apache-2.0
#include "train/hooks/list.h"
#include "lockstep/graph_ops.h"

ls_status ls_hook_list_init(ls_hook_list *list, ls_hook *const *hooks,
                            size_t count) {
  ls_allocator *allocator = ls_current_allocator();
  *list = (ls_hook_list){.context = {.runtime = ls_runtime_current()}};
  list->hooks = ls_new_array(allocator, ls_hook *, count + 1);
  list->wishes = ls_new_array(allocator, ls_run_wish, count + 1);
  if (list->hooks == NULL || list->wishes == NULL) return ls_out_of_memory();
  for (; list->count < count; ++list->count) {
    list->hooks[list->count] = ls_hook_retain(hooks[list->count]);
    list->counts |= hooks[list->count]->counts;
  }
  return ls_ok();
}

void ls_hook_list_deinit(ls_hook_list *list) {
  ls_allocator *allocator = ls_current_allocator();
  ls_hook_list_lose(list);
  for (size_t i = 0; i < list->count; ++i)
    ls_hook_release(list->hooks[i]);
  ls_release(allocator, list->hooks);
  ls_release(allocator, list->wishes);
  *list = (ls_hook_list){0};
}

static ls_status name_hook(ls_status status, const ls_hook_options *hook,
                           const char *when) {
  return ls_status_is_ok(status) || hook->name[0] == '\0'
             ? status
             : ls_status_annotate(status, "in hook '%s', %s", hook->name, when);
}

// ---- Moments ---------------------------------------------------------------
// One read is enough for all.
static ls_status read_step(ls_hook_list *list, const ls_hook *hook) {
  ls_run_context *context = &list->context;
  if (!hook->counts || context->graph == NULL || context->has_step)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_global_step_read(&context->step));
  context->has_step = true;
  return ls_ok();
}

// Whoever asks may have it, if the graph counts.
static ls_status offer_step(ls_hook_list *list) {
  ls_run_context *context = &list->context;
  ls_nest leaf = ls_none();
  if (list->count == 0 || context->has_step || context->graph == NULL ||
      ls_graph_collection(context->graph, LS_COLLECTION_GLOBAL_STEP, &leaf,
                          1) != 1)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_global_step_read(&context->step));
  context->has_step = true;
  return ls_ok();
}

static ls_status list_begin(ls_hook_list *list, const ls_hook *hook) {
  LS_RETURN_IF_ERROR(read_step(list, hook));
  return hook->options.begin != NULL ? hook->options.begin(hook->options.user)
                                     : ls_ok();
}

ls_status ls_hook_list_begin(ls_hook_list *list) {
  LS_GRAPH_SCOPE(list->context.graph);
  for (size_t i = 0; i < list->count; ++i)
    LS_RETURN_IF_ERROR(name_hook(list_begin(list, list->hooks[i]),
                                 &list->hooks[i]->options, "at its begin"));
  return offer_step(list);
}

ls_status ls_hook_list_create(ls_hook_list *list) {
  list->lives = true;
  for (size_t i = 0; i < list->count; ++i) {
    const ls_hook_options *hook = &list->hooks[i]->options;
    if (hook->after_create_session != NULL)
      LS_RETURN_IF_ERROR(
          name_hook(hook->after_create_session(hook->user, &list->context),
                    hook, "after a session was made"));
  }
  return ls_ok();
}

void ls_hook_list_lose(ls_hook_list *list) {
  for (size_t i = 0; i < list->count && list->lives; ++i)
    if (list->hooks[i]->options.session_lost != NULL)
      list->hooks[i]->options.session_lost(list->hooks[i]->options.user);
  list->lives = false;
}

ls_status ls_hook_list_before(ls_hook_list *list) {
  for (size_t i = 0; i < list->count; ++i) {
    const ls_hook_options *hook = &list->hooks[i]->options;
    list->wishes[i] = (ls_run_wish){.fetches = ls_none()};
    if (hook->before_run != NULL)
      LS_RETURN_IF_ERROR(name_hook(
          hook->before_run(hook->user, &list->context, &list->wishes[i]), hook,
          "before a run"));
  }
  return ls_ok();
}

ls_status ls_hook_list_judge(ls_hook_list *list, ls_status status) {
  for (size_t i = 0; i < list->count && !ls_status_is_ok(status); ++i) {
    const ls_hook_options *hook = &list->hooks[i]->options;
    if (hook->run_failed != NULL) status = hook->run_failed(hook->user, status);
  }
  return status;
}

ls_status ls_hook_list_after(ls_hook_list *list, ls_nest results,
                             size_t first) {
  for (size_t i = 0; i < list->count; ++i) {
    const ls_hook_options *hook = &list->hooks[i]->options;
    if (hook->after_run != NULL)
      LS_RETURN_IF_ERROR(
          name_hook(hook->after_run(hook->user, &list->context,
                                    ls_nest_item(results, first + i)),
                    hook, "after a run"));
  }
  return ls_ok();
}

ls_status ls_hook_list_end(ls_hook_list *list) {
  for (size_t i = 0; i < list->count; ++i) {
    const ls_hook_options *hook = &list->hooks[i]->options;
    if (hook->end != NULL)
      LS_RETURN_IF_ERROR(
          name_hook(hook->end(hook->user, &list->context), hook, "at its end"));
  }
  return ls_ok();
}

// ---- Functions -------------------------------------------------------------
ls_status ls_hook_list_check_called(const ls_hook_list *list) {
  for (size_t i = 0; i < list->count; ++i)
    if (list->hooks[i]->needs_session)
      return ls_invalid_argument(
          "hook '%s' needs a session, for what it runs, fetches or feeds is in "
          "a graph: here functions are called, whose results have names",
          list->hooks[i]->options.name);
  return ls_ok();
}

ls_status ls_hook_list_count_steps(const ls_hook_list *list, int64_t *steps) {
  for (size_t i = 0; i < list->count; ++i) {
    const ls_run_wish *wish = &list->wishes[i];
    if (wish->fetches.kind != LS_KIND_NONE || wish->num_feeds > 0)
      return ls_invalid_argument(
          "hook '%s' wishes to %s, but here is no session: functions are "
          "called, whose results are ls_run_context_results",
          list->hooks[i]->options.name, wish->num_feeds > 0 ? "feed" : "fetch");
    if (wish->most_steps > 0 && wish->most_steps < *steps)
      *steps = wish->most_steps;
  }
  return ls_ok();
}
