// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph_ops.h"
#include "train/hooks/hook.h"

ls_status ls_hook_list_add(ls_hook_list *list, ls_hook *hook) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = list->count + 1;
  if (hook == NULL) return ls_ok();
  if (!LS_GROW(allocator, list->hooks, list->hooks_capacity, count) ||
      !LS_GROW(allocator, list->wishes, list->wishes_capacity, count)) {
    ls_hook_release(hook);
    return ls_out_of_memory();
  }
  list->hooks[list->count++] = hook;
  list->counts |= hook->type->counts;
  return ls_ok();
}

ls_status ls_hook_list_add_all(ls_hook_list *list, ls_hook *const *hooks,
                               size_t count) {
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_hook_list_add(list, ls_hook_retain(hooks[i])));
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

static ls_status name_hook(ls_status status, const ls_hook *hook,
                           const char *when) {
  const char *name = hook->type->name;
  return ls_status_is_ok(status) || name[0] == '\0'
             ? status
             : ls_status_annotate(status, "in hook '%s', %s", name, when);
}

// ---- Moments ---------------------------------------------------------------
// Reads the step in the graph, once for all hooks.
static ls_status read_step(ls_run_context *context) {
  if (context->has_step) return ls_ok();
  LS_RETURN_IF_ERROR(ls_global_step_read(&context->step));
  context->has_step = true;
  return ls_ok();
}

static ls_status begin_hook(ls_hook_list *list, const ls_hook *hook) {
  if (hook->type->counts && list->context.graph != NULL)
    LS_RETURN_IF_ERROR(read_step(&list->context));
  return hook->type->begin != NULL ? hook->type->begin(hook->state) : ls_ok();
}

ls_status ls_hook_list_begin(ls_hook_list *list) {
  list->context.runtime = ls_runtime_current();
  LS_GRAPH_SCOPE(list->context.graph);
  for (size_t i = 0; i < list->count; ++i)
    LS_RETURN_IF_ERROR(name_hook(begin_hook(list, list->hooks[i]),
                                 list->hooks[i], "at its begin"));
  // Provides the step also to hooks that do not need it, if the graph has one.
  const ls_graph *graph = list->context.graph;
  ls_nest leaf = ls_none();
  return list->count > 0 && graph != NULL &&
                 ls_graph_collection(graph, LS_COLLECTION_GLOBAL_STEP, &leaf,
                                     1) == 1
             ? read_step(&list->context)
             : ls_ok();
}

ls_status ls_hook_list_create(ls_hook_list *list) {
  ls_run_context *context = &list->context;
  list->is_alive = true;
  if (list->counts && context->session != NULL)
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &context->steps));
  for (size_t i = 0; i < list->count; ++i) {
    const ls_hook *hook = list->hooks[i];
    if (hook->type->after_create_session != NULL)
      LS_RETURN_IF_ERROR(
          name_hook(hook->type->after_create_session(hook->state, context),
                    hook, "after a session was made"));
  }
  return ls_ok();
}

void ls_hook_list_lose(ls_hook_list *list) {
  for (size_t i = 0; i < list->count && list->is_alive; ++i)
    if (list->hooks[i]->type->session_lost != NULL)
      list->hooks[i]->type->session_lost(list->hooks[i]->state);
  list->is_alive = false;
}

ls_status ls_hook_list_end(ls_hook_list *list) {
  for (size_t i = 0; i < list->count; ++i) {
    const ls_hook *hook = list->hooks[i];
    if (hook->type->end != NULL)
      LS_RETURN_IF_ERROR(name_hook(hook->type->end(hook->state, &list->context),
                                   hook, "at its end"));
  }
  return ls_ok();
}

// ---- A run -----------------------------------------------------------------
static ls_status call_after(ls_hook_list *list, const ls_hooked_run *run) {
  for (size_t i = 0; i < list->count; ++i) {
    const ls_hook *hook = list->hooks[i];
    const ls_nest results = run->results != NULL
                                ? ls_nest_item(*run->results, run->first + i)
                                : ls_none();
    if (hook->type->after_run != NULL)
      LS_RETURN_IF_ERROR(
          name_hook(hook->type->after_run(hook->state, &list->context, results),
                    hook, "after a run"));
  }
  return ls_ok();
}

static ls_status make_run(ls_hook_list *list, const ls_hooked_run *run) {
  bool has_run = false;
  for (size_t i = 0; i < list->count; ++i) {
    const ls_hook *hook = list->hooks[i];
    list->wishes[i] = (ls_run_wish){.fetches = ls_none()};
    if (hook->type->before_run != NULL)
      LS_RETURN_IF_ERROR(name_hook(
          hook->type->before_run(hook->state, &list->context, &list->wishes[i]),
          hook, "before a run"));
  }
  const ls_status status = run->make(run->user, &has_run);
  return has_run ? ls_status_join(status, call_after(list, run)) : status;
}

ls_status ls_hook_list_run(ls_hook_list *list, const ls_hooked_run *run) {
  ls_status status = make_run(list, run);
  for (size_t i = 0; i < list->count && !ls_status_is_ok(status); ++i) {
    const ls_hook *hook = list->hooks[i];
    if (hook->type->run_failed != NULL)
      status = hook->type->run_failed(hook->state, status);
  }
  return status;
}

// ---- Functions -------------------------------------------------------------
ls_status ls_hook_list_check_called(const ls_hook_list *list) {
  for (size_t i = 0; i < list->count; ++i)
    if (list->hooks[i]->needs_session)
      return ls_invalid_argument(
          "hook '%s' needs a session, because its ops, fetches or feeds are in "
          "a graph: here functions are called, whose results have names",
          ls_hook_name(list->hooks[i]));
  return ls_ok();
}

ls_status ls_hook_list_count_steps(const ls_hook_list *list, int64_t *steps) {
  for (size_t i = 0; i < list->count; ++i) {
    const ls_run_wish *wish = &list->wishes[i];
    if (wish->fetches.kind != LS_KIND_NONE || wish->num_feeds > 0)
      return ls_invalid_argument(
          "hook '%s' wishes to %s, but here is no session: functions are "
          "called, whose results are ls_run_context_results",
          ls_hook_name(list->hooks[i]), wish->num_feeds > 0 ? "feed" : "fetch");
    if (wish->most_steps > 0 && wish->most_steps < *steps)
      *steps = wish->most_steps;
  }
  return ls_ok();
}
