// SPDX-License-Identifier: Apache-2.0
// Summaries of functions on the host: by writers, whom a hook looks after.
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "estimator/own.h"
#include "lockstep/estimator_spec.h"
#include "lockstep/graph_ops.h"
#include "lockstep/summary_ops.h"
#include "support/event_files.h"
#include "support/expect.h"
#include "support/spec.h"

typedef struct world {
  event_files files;
  ls_graph *graph;
  ls_variable *step;
  ls_op train;
  ls_tensor loss;
  ls_summary_writer *writers[2], *old;
  int calls;
} world;

static void note_nothing(void *user, const ls_summary_record *record) {
  (void)user;
  (void)record;
}

static void begin(world *w) {
  *w = (world){0};
  event_files_begin(&w->files);
  expect_ok(ls_graph_create("g", &w->graph));
  expect_ok(ls_global_step_create(w->graph, &w->step));
  expect_ok(ls_summary_writer_create(note_nothing, NULL, &w->old));
  LS_GRAPH_SCOPE(w->graph);
  w->loss =
      ls_add_scalar(ls_convert(ls_variable_read(w->step), LS_DTYPE_F32), 0.5);
  w->train = ls_tensor_op(
      ls_variable_assign_add(w->step, ls_scalar_i64(LS_DTYPE_I64, 1)));
}

static void end(world *w) {
  ls_graph_destroy(w->graph);
  for (size_t i = 0; i < 2; ++i)
    ls_summary_writer_release(w->writers[i]);
  ls_summary_writer_release(w->old);
  event_files_end(&w->files);
}
LS_OWNED_STRUCT(world, end)

// What a host call of a user's does: tensors are [loss], or none.
static ls_nest write_summaries(ls_nest tensors, void *user) {
  static const char *const folders[] = {"first", "second"};
  world *w = user;
  ls_op ops[2];
  ++w->calls;
  for (size_t i = 0; i < 2; ++i) {
    const ls_status status = ls_file_writer_create(
        &(ls_file_writer_options){.folder = folders[i]}, &w->writers[i]);
    if (!ls_status_is_ok(status)) return ls_fail(status);
    LS_SUMMARY_SCOPE(w->writers[i]);
    LS_RECORD_SUMMARIES_SCOPE(1);
    ops[i] =
        ls_summary_scalar("loss", ls_nest_tensor(tensors, 0), (ls_tensor){0});
  }
  return LS_LIST(ls_nest_op(ops[0]), ls_nest_op(ops[1]));
}

static ls_estimator_spec *plain_of(world *w, ls_host_function host_call) {
  LS_OWN(ls_estimator_spec, spec) = NULL;
  ls_estimator_spec *plain = NULL;
  LS_GRAPH_SCOPE(w->graph);
  LS_OWN(ls_nest, tensors) = LS_LIST(ls_leaf(w->loss));
  host_call.tensors = tensors;
  expect_ok(ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = LS_MODE_TRAIN,
                                   .loss = w->loss,
                                   .train_op = w->train,
                                   .host_call = host_call},
      &spec));
  expect_ok(ls_estimator_spec_as_plain(spec, &plain));
  return plain;
}

static ls_monitored_session *session_of(const world *w,
                                        const ls_estimator_spec *plain) {
  ls_monitored_session *session = NULL;
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(plain);
  expect_ok(ls_monitored_session_create(
      &(ls_monitored_options){.graph = w->graph,
                              .hooks = spec_options->training_hooks,
                              .num_hooks = spec_options->num_training_hooks},
      &session));
  return session;
}

TEST(a_hook_begins_and_flushes_writers) {
  LS_SPEC("E150 E211");
  LS_OWN_BEGUN(world, w, begin);
  LS_OWN(ls_estimator_spec, plain) = plain_of(&w, (ls_host_function){
                                                      .call = write_summaries,
                                                      .user = &w,
                                                  });
  assert_int_equal(w.calls, 1);
  ls_monitored_session *session = session_of(&w, plain);
  ls_nest results = ls_none();
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_monitored_session_run(session, ls_nest_op(w.train), NULL, 0,
                                       &results));
  assert_null(event_files_nth(&w.files, 0));  // They hold them.
  expect_ok(ls_monitored_session_close(session, ls_ok()));
  for (size_t i = 0; i < 2; ++i) {
    assert_non_null(strstr(event_files_nth(&w.files, i)->path,
                           i == 0 ? "first/" : "second/"));
    const size_t count = event_files_read(&w.files, i);
    assert_int_equal(count, 4);  // A version, and three steps.
    double sum = 0;
    for (int64_t step = 0; step <= 3; ++step) {
      const ls_bytes value = event_value(w.files.events, count, "loss", step);
      if (value.size > 0) sum += proto_f64(value, 2);
    }
    assert_true(sum >= 0.5 + 1.5 + 2.5 - 1e-6);
  }
  assert_null(event_files_nth(&w.files, 2));
}

TEST(a_failed_loop_flushes_nothing) {
  LS_OWN_BEGUN(world, w, begin);
  LS_OWN(ls_estimator_spec, plain) = plain_of(&w, (ls_host_function){
                                                      .call = write_summaries,
                                                      .user = &w,
                                                  });
  ls_monitored_session *session = session_of(&w, plain);
  ls_nest results = ls_none();
  expect_ok(ls_monitored_session_run(session, ls_nest_op(w.train), NULL, 0,
                                     &results));
  expect_status(ls_monitored_session_close(
                    session, LS_STATUS(LS_INTERNAL, "out of coffee")),
                LS_INTERNAL, "out of coffee");
  assert_null(event_files_nth(&w.files, 0));
}

// ---- The old style ---------------------------------------------------------
static ls_nest summarize(ls_nest tensors, void *user) {
  const world *w = user;
  LS_SUMMARY_SCOPE(w->old);
  LS_NAME_SCOPE("host");
  return LS_LIST(ls_nest_op(ls_summary("loss", ls_nest_tensor(tensors, 0))));
}

static ls_nest summarize_metrics(ls_nest tensors, void *user) {
  ls_nest_release(summarize(tensors, user));
  return ls_nest_dict("", NULL, NULL, 0);
}

TEST(summaries_of_the_old_style_are_refused) {
  LS_SPEC("E144");
  for (int metrics = 0; metrics < 2; ++metrics) {
    LS_OWN_BEGUN(world, w, begin);
    LS_OWN(ls_estimator_spec, spec) = NULL;
    ls_estimator_spec *plain = NULL;
    {
      LS_GRAPH_SCOPE(w.graph);
      LS_SUMMARY_SCOPE(w.old);
      // One that is there already is nobody's business.
      ls_summary("earlier", w.loss);
      const ls_nest tensors = LS_LIST(ls_leaf(w.loss));
      const ls_host_function function = {.call = metrics ? summarize_metrics
                                                         : summarize,
                                         .user = &w,
                                         .tensors = tensors};
      ls_estimator_spec_options o = {
          .mode = LS_MODE_TRAIN, .loss = w.loss, .train_op = w.train};
      if (metrics)
        o.eval_metrics = function;
      else
        o.host_call = function;
      expect_ok(ls_tpu_estimator_spec_create(&o, &spec));
      ls_nest_release(tensors);
      const size_t ops = ls_graph_num_ops(w.graph);
      expect_status(ls_estimator_spec_as_plain(spec, &plain),
                    LS_INVALID_ARGUMENT, "ls_summary_scalar");
      expect_status(ls_estimator_spec_as_plain(spec, &plain),
                    LS_INVALID_ARGUMENT,
                    metrics ? "the function of eval_metrics makes a summary"
                            : "the function of host_call makes a summary");
      assert_int_equal(ls_graph_num_ops(w.graph), ops);  // As it was.
      assert_int_equal(
          ls_graph_collection(w.graph, LS_COLLECTION_SUMMARIES, NULL, 0), 1);
    }
    assert_null(plain);
  }
}
