// SPDX-License-Identifier: Apache-2.0
//
// Monitored sessions when memory fails, and what they refuse.
#include "lockstep/monitored_session.h"
#include "lockstep/ops.h"
#include "support/fault.h"
#include "train/hooks/hook.h"
#include "train/own.h"

static ls_status make_hooks(ls_tensor loss, const ls_op *summary,
                            ls_hook **hooks) {
  const char *const names[] = {"loss"};
  LS_RETURN_IF_ERROR(ls_stop_at_step_hook(LS_SOME(2), (ls_opt){0}, &hooks[0]));
  LS_RETURN_IF_ERROR(ls_counter_hook(NULL, &hooks[1]));
  LS_RETURN_IF_ERROR(
      ls_log_hook(&(ls_log_hook_options){.names = names,
                                         .values = &loss,
                                         .num_values = 1,
                                         .every_steps = LS_SOME(1)},
                  &hooks[2]));
  LS_RETURN_IF_ERROR(ls_nan_hook(loss, LS_FLAG_DEFAULT, &hooks[3]));
  return ls_summary_hook(&(ls_summary_hook_options){.ops = summary,
                                                    .num_ops = 1,
                                                    .every_steps = LS_SOME(1)},
                         &hooks[4]);
}

MEMORY_TEST(make_a_saver_hook) {
  const ls_save_listener listener = {0};
  LS_OWN(ls_hook, hook) = NULL;
  return ls_saver_hook(&(ls_saver_hook_options){.folder = "hooks_memory",
                                                .listeners = &listener,
                                                .num_listeners = 1},
                       &hook);
}

static ls_status run_all(ls_monitored_session *session, ls_op train) {
  ls_nest results = ls_none();
  while (!ls_monitored_session_should_stop(session))
    LS_RETURN_IF_ERROR(ls_monitored_session_run(session, ls_nest_op(train),
                                                NULL, 0, &results));
  return ls_ok();
}

static ls_status build(ls_graph *graph, ls_op *out_train, ls_op *out_summary,
                       ls_tensor *out_loss) {
  ls_variable *step = NULL;
  LS_RETURN_IF_ERROR(ls_global_step_create(graph, &step));
  LS_GRAPH_SCOPE(graph);
  *out_loss = ls_convert(ls_variable_read(step), LS_DTYPE_F32);
  *out_train =
      ls_tensor_op(ls_variable_assign_add(step, ls_scalar(LS_DTYPE_I64, 1)));
  *out_summary = ls_group(NULL, 0, "summary");
  return ls_graph_take_error(graph);
}

static ls_status train_in(ls_graph *graph) {
  enum { HOOKS = 5 };
  ls_hook *hooks[HOOKS] = {NULL};
  ls_monitored_session *session = NULL;
  ls_op train, summary;
  ls_tensor loss;
  LS_RETURN_IF_ERROR(build(graph, &train, &summary, &loss));
  ls_status status = make_hooks(loss, &summary, hooks);
  if (ls_status_is_ok(status))
    status = ls_monitored_session_create(
        &(ls_monitored_options){
            .graph = graph, .hooks = hooks, .num_hooks = HOOKS},
        &session);
  for (int i = 0; i < HOOKS; ++i)
    ls_hook_release(hooks[i]);
  if (ls_status_is_ok(status)) status = run_all(session, train);
  return ls_monitored_session_close(session, status);
}

MEMORY_TEST(train_with_hooks) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("g", &graph));
  return train_in(graph);
}

// One that has nothing to end with, as those that a job lends its state.
MEMORY_TEST(make_a_plain_hook) {
  static const ls_hook_type plain = {.name = "plain"};
  LS_OWN(ls_hook, hook) = NULL;
  return ls_hook_lend(&plain, self, &hook);
}

TEST(null_arguments_are_refused) {
  ls_hook *hook = NULL;
  ls_monitored_session *session = NULL;
  expect_status(ls_hook_create(NULL, &hook), LS_INVALID_ARGUMENT, "options");
  expect_status(ls_hook_create(&(ls_hook_options){0}, NULL),
                LS_INVALID_ARGUMENT, "out_hook");
  expect_status(ls_saver_hook(&(ls_saver_hook_options){0}, &hook),
                LS_INVALID_ARGUMENT, "folder");
  expect_status(ls_log_hook(NULL, &hook), LS_INVALID_ARGUMENT, "options");
  expect_status(ls_nan_hook_named(NULL, LS_FLAG_DEFAULT, &hook),
                LS_INVALID_ARGUMENT, "name");
  expect_status(ls_feed_hook(NULL, NULL, &hook), LS_INVALID_ARGUMENT, "feed");
  expect_status(ls_profiler_hook(NULL, LS_SOME(1), (ls_opt){0}, &hook),
                LS_INVALID_ARGUMENT, "folder");
  expect_status(ls_summary_hook(NULL, &hook), LS_INVALID_ARGUMENT, "options");
  expect_status(ls_final_ops_hook(ls_none(), NULL, 0, NULL, &hook),
                LS_INVALID_ARGUMENT, "out_values");
  expect_status(ls_monitored_session_create(NULL, &session),
                LS_INVALID_ARGUMENT, "options");
  expect_status(
      ls_monitored_session_create(&(ls_monitored_options){0}, &session),
      LS_INVALID_ARGUMENT, "graph");
  expect_status(ls_monitored_session_run(NULL, ls_none(), NULL, 0, NULL),
                LS_INVALID_ARGUMENT, "session");
  expect_ok(ls_monitored_session_close(NULL, ls_ok()));
  ls_hook_release(NULL);
}
