// SPDX-License-Identifier: Apache-2.0
//
// Monitored sessions: how they begin, what hooks see, how they begin again.
#include "lockstep/graph_ops.h"
#include "lockstep/monitored_session.h"
#include "lockstep/variable_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/own.h"
#include "support/monitored_runs.h"
#include "support/values.h"

// ---- A hook that tells -----------------------------------------------------
typedef struct teller {
  const char *name;
  char *to;  // What was called, "a.begin a.before ...".
  ls_nest wish;
  int fails_at;  // The run that fails, with `code`; 0: none.
  ls_code code;
  int runs;
  double seen;
  bool stops;
  ls_feed feed;
} teller;

static void tell(const teller *t, const char *what) {
  sprintf(t->to + strlen(t->to), "%s.%s ", t->name, what);
}

static ls_status begin(void *user) {
  tell(user, "begin");
  return ls_ok();
}

static ls_status created(void *user, ls_run_context *context) {
  int64_t steps = -1;
  assert_non_null(ls_run_context_session(context));
  // Variables have their values.
  expect_ok(ls_run_context_steps(context, &steps));
  tell(user, "created");
  return ls_ok();
}

static ls_status before(void *user, ls_run_context *context,
                        ls_run_wish *wish) {
  teller *t = user;
  (void)context;
  tell(t, "before");
  wish->fetches = t->wish;
  if (t->feed.value != NULL) {
    wish->feeds = &t->feed;
    wish->num_feeds = 1;
  }
  if (++t->runs == t->fails_at) return LS_STATUS(t->code, "planned");
  return ls_ok();
}

static ls_status after(void *user, ls_run_context *context, ls_nest results) {
  teller *t = user;
  tell(t, "after");
  if (results.kind == LS_KIND_ARRAY)
    t->seen = ls_array_f64(ls_nest_as_array(results), 0);
  if (t->stops) ls_run_context_request_stop(context);
  return ls_ok();
}

static ls_status end(void *user, ls_run_context *context) {
  (void)context;
  tell(user, "end");
  return ls_ok();
}

static ls_hook *hook_of(teller *t) {
  ls_hook *hook = NULL;
  expect_ok(ls_hook_create(&(ls_hook_options){.name = t->name,
                                              .user = t,
                                              .begin = begin,
                                              .after_create_session = created,
                                              .before_run = before,
                                              .after_run = after,
                                              .end = end},
                           &hook));
  assert_string_equal(ls_hook_name(hook), t->name);
  return hook;
}

TEST(hooks_are_called_in_order) {
  LS_SPEC("E181 E182");
  char said[500] = "";
  teller a = {.name = "a", .to = said, .wish = ls_none()},
         b = {.name = "b", .to = said, .wish = ls_none()};
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  b.wish = ls_leaf(f.loss);
  monitored_runs_open(&f, (ls_hook *[]){hook_of(&a), hook_of(&b)}, 2, NULL);
  expect_ok(monitored_runs_try(&f));
  assert_true(b.seen == 1);
  expect_ok(monitored_runs_try(&f));
  assert_true(b.seen == 0.5);
  assert_int_equal(monitored_runs_step(&f), 2);
  a.stops = true;
  expect_ok(monitored_runs_try(&f));  // It is asked for behind this one.
  assert_true(ls_monitored_session_should_stop(f.session));
  expect_status(monitored_runs_try(&f), LS_FAILED_PRECONDITION, "stop");
  monitored_runs_close(&f);
  assert_string_equal(said, "a.begin b.begin a.created b.created "
                            "a.before b.before a.after b.after "
                            "a.before b.before a.after b.after "
                            "a.before b.before a.after b.after a.end b.end ");
}

TEST(no_op_can_be_added_any_more) {
  LS_SPEC("E181");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  assert_false(ls_graph_is_frozen(f.graph));
  monitored_runs_open(&f, NULL, 0, NULL);
  assert_true(ls_graph_is_frozen(f.graph));
  {
    LS_GRAPH_SCOPE(f.graph);
    assert_true(ls_tensor_is_failed(ls_scalar(LS_DTYPE_F32, 3)));
    expect_status(ls_graph_take_error(f.graph), LS_FAILED_PRECONDITION,
                  "frozen");
  }
  expect_ok(monitored_runs_try(&f));
}

TEST(values_begin_as_the_scaffold_says) {
  LS_SPEC("E181 E213");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_variable *local = NULL;
  static const char *const in[] = {LS_COLLECTION_LOCAL_VARIABLES};
  ls_scaffold scaffold = {0};
  {
    LS_GRAPH_SCOPE(f.graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "local",
                               .initial_value = ls_variable_read(f.weight),
                               .collections = in,
                               .num_collections = 1},
        &local));
    // Two entries are refused, and named.
    for (int i = 0; i < 2; ++i)
      expect_ok(
          ls_graph_add_to_collection(f.graph, LS_COLLECTION_LOCAL_INIT_OP,
                                     ls_nest_op(ls_group(NULL, 0, "other"))));
  }
  expect_status(ls_scaffold_finalize(&scaffold, f.graph),
                LS_FAILED_PRECONDITION, "local_init_op");
  assert_false(ls_graph_is_frozen(f.graph));
  ls_nest leaves[2];
  assert_int_equal(
      ls_graph_collection(f.graph, LS_COLLECTION_LOCAL_INIT_OP, leaves, 2), 2);
  ls_graph_remove_from_collection(f.graph, LS_COLLECTION_LOCAL_INIT_OP,
                                  leaves[1]);
  // What it finds is an op that does nothing, so the local one has no value.
  ls_monitored_session *session = NULL;
  expect_status(ls_monitored_session_create(
                    &(ls_monitored_options){.graph = f.graph}, &session),
                LS_FAILED_PRECONDITION, "local");
  assert_null(session);
  ls_variable_release(local);
  monitored_runs_renew(&f);
  monitored_runs_open(&f, NULL, 0, NULL);
}

static ls_status set_weight(void *user, ls_session *session) {
  monitored_runs *f = user;
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &value));
  return ls_session_set_variable_value(session, f->weight, value);
}

static double weight_of(monitored_runs *f) {
  LS_OWN(ls_array, value) =
      session_array(ls_monitored_session_now(f->session), f->weight);
  return ls_array_f64(value, 0);
}

TEST(a_scaffold_can_say_how) {
  LS_SPEC("E213");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_scaffold mine = {0}, theirs = {.init_fn = set_weight, .init_user = &f};
  ls_scaffold_copy(&mine, &theirs);
  expect_ok(ls_monitored_session_create(
      &(ls_monitored_options){.graph = f.graph, .scaffold = &mine},
      &f.session));
  assert_true(weight_of(&f) == 0);  // Behind init_op.
  assert_string_equal(ls_op_name(mine.init_op), "init");
  assert_true(mine.ready_op.ref != 0 && mine.finalized);
  assert_int_equal(mine.summary_op.id, 0);
  // Made once.
  const ls_tensor ready = mine.ready_op;
  expect_ok(ls_scaffold_finalize(&mine, f.graph));
  assert_true(ls_tensor_equal(ready, mine.ready_op));
}

TEST(a_lost_session_is_made_again) {
  LS_SPEC("E183");
  static const ls_code codes[] = {LS_ABORTED, LS_UNAVAILABLE};
  for (int i = 0; i < 2; ++i) {
    char said[500] = "";
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    teller a = {.name = "a",
                .to = said,
                .wish = ls_none(),
                .fails_at = 3,
                .code = codes[i]};
    monitored_runs_open(&f, (ls_hook *[]){hook_of(&a)}, 1, NULL);
    expect_ok(monitored_runs_try(&f));
    expect_ok(monitored_runs_try(&f));
    expect_ok(monitored_runs_try(&f));             // Fails, and is made again.
    assert_int_equal(monitored_runs_step(&f), 1);  // Without a checkpoint.
    expect_contains(monitored_runs_log(), "new session");
    expect_ok(monitored_runs_try_close(&f, ls_ok()));
    assert_string_equal(said,
                        "a.begin a.created a.before a.after a.before a.after "
                        "a.before a.created a.before a.after a.end ");
  }
}

static ls_status always_lost(void *user, ls_run_context *context,
                             ls_run_wish *wish) {
  int *calls = user;
  (void)context;
  (void)wish;
  ++*calls;
  return *calls > 2 ? LS_STATUS(LS_UNAVAILABLE, "gone as planned") : ls_ok();
}

TEST(what_is_lost_at_the_same_step_again_and_again_is_told) {
  LS_SPEC("E183");
  static const int64_t most[] = {0, 3, 7};
  for (int i = 0; i < 3; ++i) {
    int calls = 0;
    ls_hook *hook = NULL;
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    expect_ok(ls_hook_create(&(ls_hook_options){.name = "a",
                                                .user = &calls,
                                                .before_run = always_lost},
                             &hook));
    ls_hook *hooks[] = {hook};
    const ls_opt wanted = most[i] == 3 ? (ls_opt){0} : LS_SOME(most[i]);
    expect_ok(ls_monitored_session_create(
        &(ls_monitored_options){.graph = f.graph,
                                .hooks = hooks,
                                .num_hooks = 1,
                                .most_losses = wanted},
        &f.session));
    ls_hook_release(hook);
    expect_ok(monitored_runs_try(&f));
    expect_ok(monitored_runs_try(&f));
    const ls_status status = monitored_runs_try(&f);
    assert_int_equal(calls, 3 + most[i]);
    expect_contains(ls_status_message(status), "sessions were lost without");
    expect_status(monitored_runs_try_close(&f, status), LS_UNAVAILABLE,
                  "gone as planned");
  }
}

TEST(other_failures_skip_the_end) {
  LS_SPEC("E183");
  char said[500] = "";
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  teller a = {.name = "a",
              .to = said,
              .wish = ls_none(),
              .fails_at = 1,
              .code = LS_DATA_LOSS};
  monitored_runs_open(&f, (ls_hook *[]){hook_of(&a)}, 1, NULL);
  const ls_status status = monitored_runs_try(&f);
  expect_contains(ls_status_message(status), "in hook 'a', before a run");
  expect_status(monitored_runs_try_close(&f, status), LS_DATA_LOSS, "planned");
  assert_string_equal(said, "a.begin a.created a.before ");
  // The end of data is none.
  monitored_runs_renew(&f);
  said[0] = '\0';
  a.runs = 0;
  a.code = LS_OUT_OF_RANGE;
  monitored_runs_open(&f, (ls_hook *[]){hook_of(&a)}, 1, NULL);
  expect_ok(monitored_runs_try_close(&f, monitored_runs_try(&f)));
  assert_string_equal(said, "a.begin a.created a.before a.end ");
}

TEST(hooks_feed_runs) {
  LS_SPEC("E182");
  char said[500] = "";
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_array, two) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, (float[]){2}, &two));
  teller a = {.name = "a", .to = said, .wish = ls_leaf(f.input)};
  a.feed = (ls_feed){f.input, two};
  monitored_runs_open(&f, (ls_hook *[]){hook_of(&a)}, 1, NULL);
  expect_ok(monitored_runs_try(&f));
  assert_true(a.seen == 2);
  expect_status(ls_monitored_session_run(f.session, ls_nest_op(f.train),
                                         &a.feed, 1, &f.results),
                LS_INVALID_ARGUMENT, "fed twice");
}

TEST(a_stop_can_be_asked_for_from_outside) {
  LS_SPEC("E182");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_train_stop stop = {0};
  expect_ok(ls_monitored_session_create(
      &(ls_monitored_options){.graph = f.graph, .stop = &stop}, &f.session));
  expect_ok(monitored_runs_try(&f));
  ls_train_stop_request(&stop);
  assert_true(ls_monitored_session_should_stop(f.session));
  expect_status(monitored_runs_try(&f), LS_FAILED_PRECONDITION, "stop");
}

static ls_status never_begins(void *user, ls_run_context *context) {
  ++*(int *)user;
  (void)context;
  return LS_STATUS(LS_UNAVAILABLE, "not there");
}

TEST(a_session_that_cannot_begin_is_tried_for_a_time) {
  int tries = 0;
  ls_hook *hook = NULL;
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &tries, .after_create_session = never_begins},
      &hook));
  expect_status(
      ls_monitored_session_create(
          &(ls_monitored_options){.graph = f.graph,
                                  .hooks = &hook,
                                  .num_hooks = 1,
                                  .creation_timeout_seconds = LS_SOME(5)},
          &f.session),
      LS_UNAVAILABLE, "not there");
  assert_null(f.session);
  assert_int_equal(tries, 6);  // Each second.
  assert_true(monitored_runs_now() == 5);
  ls_hook_release(hook);
}

TEST(an_init_op_is_fed) {
  LS_OWN(monitored_runs, f) = {0};
  LS_OWN(ls_array, seven) = NULL;
  monitored_runs_begin(&f);
  expect_ok(
      ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, (float[]){7}, &seven));
  const ls_feed feed = {f.input, seven};
  ls_scaffold scaffold = {.init_feeds = &feed, .num_init_feeds = 1};
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_op ops[] = {ls_variable_initializer(f.step),
                         ls_tensor_op(ls_variable_assign(f.weight, f.input))};
    scaffold.init_op = ls_group(ops, 2, "fed");
  }
  expect_ok(ls_monitored_session_create(
      &(ls_monitored_options){.graph = f.graph, .scaffold = &scaffold},
      &f.session));
  LS_OWN(ls_array, value) =
      session_array(ls_monitored_session_now(f.session), f.weight);
  assert_true(ls_array_f64(value, 0) == 7);
}

TEST(local_values_begin_behind_the_others) {
  LS_SPEC("E181");
  static const char *const in[] = {LS_COLLECTION_LOCAL_VARIABLES};
  LS_OWN(monitored_runs, f) = {0};
  LS_OWN(ls_variable, local) = NULL;
  monitored_runs_begin(&f);
  {
    LS_GRAPH_SCOPE(f.graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "local",
                               .initial_value = ls_variable_read(f.weight),
                               .collections = in,
                               .num_collections = 1},
        &local));
  }
  monitored_runs_open(&f, NULL, 0, NULL);
  LS_OWN(ls_array, value) =
      session_array(ls_monitored_session_now(f.session), local);
  assert_true(ls_array_f64(value, 0) == 5);
}

typedef struct losing {
  int calls;
  bool loses_first;  // Of each two.
} losing;

static ls_status lose_each_other(void *user, ls_run_context *context,
                                 ls_run_wish *wish) {
  losing *self = user;
  (void)context, (void)wish;
  return ++self->calls % 2 == (self->loses_first ? 1 : 0)
             ? LS_STATUS(LS_UNAVAILABLE, "gone as planned")
             : ls_ok();
}

// So many losses are allowed until a run comes to a step that none had come to.
TEST(losses_are_counted_from_the_furthest_step_on) {
  LS_SPEC("E183");
  for (int goes_on = 0; goes_on < 2; ++goes_on) {
    losing l = {.loses_first = goes_on == 1};
    char folder[] = "losses-XXXXXX";
    ls_hook *hooks[2] = {NULL};
    assert_non_null(mkdtemp(folder));
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &l, .before_run = lose_each_other},
        &hooks[0]));
    expect_ok(ls_saver_hook(
        &(ls_saver_hook_options){.folder = folder, .every_steps = LS_SOME(1)},
        &hooks[1]));
    expect_ok(ls_monitored_session_create(
        &(ls_monitored_options){.graph = f.graph,
                                .hooks = hooks,
                                .num_hooks = 2,
                                .checkpoints = goes_on ? folder : NULL,
                                .most_losses = LS_SOME(goes_on ? 1 : 2)},
        &f.session));
    ls_hook_release(hooks[0]);
    ls_hook_release(hooks[1]);
    ls_status status = ls_ok();
    int runs = 0;
    for (; runs < 6 && ls_status_is_ok(status); ++runs)
      status = monitored_runs_try(&f);
    // Without checkpoints each session makes the first step again.
    assert_int_equal(runs, goes_on ? 6 : 4);
    assert_int_equal(ls_status_is_ok(status), goes_on);
    if (goes_on) assert_int_equal(monitored_runs_step(&f), 6);
    ls_status_free(monitored_runs_try_close(&f, status));
  }
}

TEST(who_has_no_session_stops_nothing) {
  ls_monitored_session_request_stop(NULL);
  assert_true(ls_monitored_session_should_stop(NULL));
  assert_null(ls_monitored_session_now(NULL));
}
