// SPDX-License-Identifier: Apache-2.0
// Summaries with steps of their own, and writers of event files in graphs.
#include "lockstep/summary_ops.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/hook.h"
#include "lockstep/replicate.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/event_files.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- A graph that counts ---------------------------------------------------
typedef struct world {
  event_files files;
  ls_graph *graph;
  ls_variable *step;
  ls_session *session;
  ls_summary_writer *writer;
} world;

static void begin(world *w, ls_file_writer_options options) {
  *w = (world){0};
  event_files_begin(&w->files);
  expect_ok(ls_graph_create("g", &w->graph));
  expect_ok(ls_global_step_create(w->graph, &w->step));
  LS_GRAPH_SCOPE(w->graph);
  options.folder = "events";
  expect_ok(ls_file_writer_create(&options, &w->writer));
}

static ls_status run(world *w, ls_op op) {
  LS_OWN(ls_nest, nothing) = ls_none();
  if (w->session == NULL) expect_ok(ls_session_create(w->graph, &w->session));
  return ls_session_run(w->session, ls_nest_op(op), NULL, 0, &nothing);
}

static void start(world *w) {
  expect_ok(run(w, ls_variable_initializer(w->step)));
  expect_ok(run(w, ls_file_writer_initializer(w->writer)));
}

static ls_op count_up(const world *w) {
  return ls_tensor_op(
      ls_variable_assign_add(w->step, ls_scalar_i64(LS_DTYPE_I64, 1)));
}

static void end(world *w) {
  ls_session_destroy(w->session);
  ls_graph_destroy(w->graph);
  ls_summary_writer_release(w->writer);
  event_files_end(&w->files);
}
LS_OWNED_STRUCT(world, end)

// The numbers that a tag has in all files, in the order of steps 0, 1, ...
static size_t steps_of(world *w, const char *tag, int64_t *steps,
                       double *values) {
  size_t found = 0;
  if (event_files_nth(&w->files, 0) == NULL) return 0;
  const size_t count = event_files_read(&w->files, 0);
  for (int64_t step = 0; step < 200; ++step) {
    const ls_bytes value = event_value(w->files.events, count, tag, step);
    if (value.size == 0) continue;
    steps[found] = step;
    values[found++] = proto_f64(value, 2);
  }
  return found;
}

// ---- What is written -------------------------------------------------------
TEST(values_are_written_under_tags_at_steps) {
  LS_SPEC("E211");
  LS_OWN_BEGUN(world, w, begin, (ls_file_writer_options){.suffix = ".host"});
  ls_op all = {0}, next = {0};
  {
    LS_GRAPH_SCOPE(w.graph);
    LS_SUMMARY_SCOPE(w.writer);
    LS_RECORD_SUMMARIES_SCOPE(1);
    ls_op ops[4];
    const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(7), 3);
    const ls_tensor pixels = ls_fill(LS_DTYPE_U8, LS_SHAPE(2, 3, 1), 9);
    ops[0] =
        ls_summary_scalar("loss", ls_scalar(LS_DTYPE_F32, 0.5), (ls_tensor){0});
    ops[1] = ls_summary_histogram("w", x, (ls_tensor){0});
    ops[2] =
        ls_summary_image("picture", pixels, ls_scalar_i64(LS_DTYPE_I32, 42));
    {
      LS_NAME_SCOPE("train");
      ops[3] = ls_summary_scalar("right", ls_scalar(LS_DTYPE_BOOL, 1),
                                 ls_scalar_i64(LS_DTYPE_U8, 7));
    }
    all = ls_group(ops, 4, "all");
    next = count_up(&w);
    ls_nest leaves[5];
    assert_int_equal(
        ls_graph_collection(w.graph, LS_COLLECTION_SUMMARY_OPS, leaves, 5), 4);
    assert_int_equal(
        ls_graph_collection(w.graph, LS_COLLECTION_SUMMARIES, NULL, 0), 0);
  }
  start(&w);
  expect_ok(run(&w, all));
  expect_ok(run(&w, next));
  expect_ok(run(&w, next));
  expect_ok(run(&w, all));
  assert_null(event_files_nth(&w.files, 0));  // It holds them.
  expect_ok(run(&w, ls_file_writer_flusher(w.writer)));
  const size_t count = event_files_read(&w.files, 0);
  const char *path = event_files_nth(&w.files, 0)->path;
  assert_non_null(strstr(path, "events/events.out.tfevents.1700000000."));
  assert_string_equal(path + strlen(path) - 5, ".host");
  const ls_bytes *events = w.files.events;
  for (int64_t step = 0; step <= 2; step += 2) {
    assert_true(proto_f64(event_value(events, count, "loss", step), 2) == 0.5);
    const ls_bytes spread = PROTO_AT(event_value(events, count, "w", step), 5);
    assert_true(proto_f64(spread, 3) == 7);
    assert_true(proto_f64(spread, 4) == 21);
  }
  assert_true(proto_f64(event_value(events, count, "train/right", 7), 2) == 1);
  assert_true(proto_is(
      PROTO_AT(event_value(events, count, "picture", 42), 9, 1, 1), "images"));
  assert_int_equal(event_value(events, count, "loss", 1).size, 0);
}

TEST(recording_is_off_until_it_is_opened) {
  LS_SPEC("E211");
  LS_OWN_BEGUN(world, w, begin, (ls_file_writer_options){0});
  ls_op ops[7], all = {0}, next = {0};
  {
    LS_GRAPH_SCOPE(w.graph);
    const ls_tensor one = ls_scalar(LS_DTYPE_F32, 1), none = {0};
    ops[0] = ls_summary_scalar("nowhere", one, none);
    {
      LS_RECORD_SUMMARIES_SCOPE(1);
      ops[1] = ls_summary_scalar("nobody", one, none);
    }
    LS_SUMMARY_SCOPE(w.writer);
    ops[2] = ls_summary_scalar("off", one, none);
    {
      LS_RECORD_SUMMARIES_SCOPE(3);
      ops[3] = ls_summary_scalar("third", one, none);
      {
        LS_RECORD_SUMMARIES_SCOPE(0);
        ops[4] = ls_summary_scalar("never", one, none);
      }
      {
        LS_RECORD_SUMMARIES_SCOPE(1);
        ops[5] = ls_summary_scalar("always", one, none);
      }
    }
    ops[6] = ls_summary_scalar("off again", one, none);
    for (size_t i = 0; i < LS_COUNT_OF(ops); ++i)
      assert_int_equal(strcmp(ls_op_type_name(ops[i]), "no_op") == 0,
                       i != 3 && i != 5);
    all = ls_group(ops, LS_COUNT_OF(ops), "all");
    next = count_up(&w);
  }
  start(&w);
  for (int i = 0; i < 8; ++i) {
    expect_ok(run(&w, all));
    expect_ok(run(&w, next));
  }
  expect_ok(run(&w, ls_file_writer_flusher(w.writer)));
  int64_t steps[8];
  double values[8];
  assert_int_equal(steps_of(&w, "third", steps, values), 3);
  for (int64_t i = 0; i < 3; ++i)
    assert_int_equal(steps[i], 3 * i);
  assert_int_equal(steps_of(&w, "always", steps, values), 8);
  static const char *const others[] = {"nowhere", "nobody", "off", "never",
                                       "off again"};
  for (size_t i = 0; i < LS_COUNT_OF(others); ++i)
    assert_int_equal(steps_of(&w, others[i], steps, values), 0);
}

TEST(ten_are_held_or_two_minutes) {
  LS_SPEC("E211");
  for (int own = 0; own < 2; ++own) {
    const int most = own ? 3 : 10;
    const int64_t seconds = own ? 7 : 120;
    LS_OWN_BEGUN(
        world, w, begin,
        own ? (ls_file_writer_options){.max_queue = LS_SOME(most),
                                       .flush_seconds = LS_SOME(seconds)}
            : (ls_file_writer_options){0});
    ls_op one = {0};
    {
      LS_GRAPH_SCOPE(w.graph);
      LS_SUMMARY_SCOPE(w.writer);
      LS_RECORD_SUMMARIES_SCOPE(1);
      one = ls_summary_scalar("x", ls_scalar(LS_DTYPE_F32, 1), (ls_tensor){0});
    }
    start(&w);
    for (int i = 1; i < most; ++i) {
      expect_ok(run(&w, one));
      assert_null(event_files_nth(&w.files, 0));
    }
    expect_ok(run(&w, one));
    const size_t before = event_files_read(&w.files, 0);
    expect_ok(run(&w, one));
    assert_int_equal(event_files_read(&w.files, 0), before);
    w.files.nanos += (seconds - 1) * 1000000000;
    expect_ok(run(&w, one));
    assert_int_equal(event_files_read(&w.files, 0), before);
    w.files.nanos += 1000000000;
    expect_ok(run(&w, one));
    assert_int_equal(event_files_read(&w.files, 0), before + 3);
  }
}

TEST(what_is_held_is_written_with_the_last_of_a_writer) {
  LS_OWN_BEGUN(world, w, begin, (ls_file_writer_options){0});
  ls_op one = {0};
  {
    LS_GRAPH_SCOPE(w.graph);
    LS_SUMMARY_SCOPE(w.writer);
    LS_RECORD_SUMMARIES_SCOPE(1);
    one = ls_summary_scalar("x", ls_scalar(LS_DTYPE_F32, 4), (ls_tensor){0});
  }
  ls_summary_writer_release(w.writer);  // The graph has it.
  expect_ok(run(&w, ls_variable_initializer(w.step)));
  expect_ok(run(&w, ls_file_writer_initializer(w.writer)));
  expect_ok(run(&w, one));
  w.writer = NULL;
  ls_session_destroy(w.session);
  w.session = NULL;
  ls_graph_destroy(w.graph);
  w.graph = NULL;
  int64_t steps[2];
  double values[2];
  assert_int_equal(steps_of(&w, "x", steps, values), 1);
  assert_true(values[0] == 4);
}

// ---- Initializers ----------------------------------------------------------
TEST(a_writer_begins_with_its_initializer) {
  LS_SPEC("E211");
  LS_OWN_BEGUN(world, w, begin, (ls_file_writer_options){0});
  ls_op one = {0};
  LS_OWN(ls_summary_writer, second) = NULL;
  {
    LS_GRAPH_SCOPE(w.graph);
    LS_SUMMARY_SCOPE(w.writer);
    LS_RECORD_SUMMARIES_SCOPE(1);
    one = ls_summary_scalar("x", ls_scalar(LS_DTYPE_F32, 4), (ls_tensor){0});
    expect_ok(ls_file_writer_create(&(ls_file_writer_options){.folder = "more"},
                                    &second));
  }
  expect_ok(run(&w, ls_variable_initializer(w.step)));
  expect_status(run(&w, one), LS_FAILED_PRECONDITION,
                "event files in 'events' is not initialized");
  expect_ok(run(&w, ls_file_writer_flusher(w.writer)));  // Nothing to write.
  // The graph lists what each has.
  LS_OWN(ls_nest, initializers) = ls_none();
  LS_OWN(ls_nest, flushers) = ls_none();
  expect_ok(ls_file_writers_of(w.graph, &initializers, &flushers));
  assert_int_equal(ls_nest_count(initializers), 2);
  assert_int_equal(ls_nest_count(flushers), 2);
  assert_true(ls_nest_item(initializers, 0).as.op.id ==
              ls_file_writer_initializer(w.writer).id);
  assert_true(ls_nest_item(flushers, 1).as.op.id ==
              ls_file_writer_flusher(second).id);
  ls_nest nothing = ls_none();
  for (int i = 0; i < 2; ++i) {  // Again, as of another session.
    expect_ok(ls_session_run(w.session, initializers, NULL, 0, &nothing));
    ls_nest_release(nothing);
    nothing = ls_none();
    expect_ok(run(&w, one));
  }
  expect_ok(ls_session_run(w.session, flushers, NULL, 0, &nothing));
  ls_nest_release(nothing);
  assert_true(event_files_read(&w.files, 0) >= 3);
  assert_null(event_files_nth(&w.files, 1));  // The other one has nothing.
}

// ---- Every way -------------------------------------------------------------
static ls_nest see(ls_nest args, void *user) {
  (void)user;
  const ls_nest x = ls_nest_item(args, 0);
  ls_tensor value = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(x, &value));
  ls_summary_scalar("x", value, ls_scalar_i64(LS_DTYPE_I64, 5));
  return ls_leaf(ls_neg(value));
}

TEST(eager_and_functions_record_at_each_call) {
  LS_SPEC("E211");
  for (int replicas = 1; replicas <= 3; ++replicas)
    for (int traced = 0; traced < 2; ++traced) {
      LS_OWN(world, w) = {0};
      event_files_begin(&w.files);
      expect_ok(ls_file_writer_create(
          &(ls_file_writer_options){.folder = "events"}, &w.writer));
      assert_true(ls_op_is_failed(ls_file_writer_initializer(w.writer)));
      LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
      LS_OWN(ls_function, function) = function_of(see, NULL);
      ls_nest each[3], result = ls_none();
      for (int r = 0; r < replicas; ++r)
        each[r] = ls_nest_array(
            array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){10 * (r + 1)}));
      LS_OWN(ls_nest, args) =
          LS_TUPLE(replicas == 1 ? each[0]
                                 : ls_nest_distributed(LS_PER_REPLICA, each,
                                                       (size_t)replicas));
      {
        LS_SUMMARY_SCOPE(w.writer);
        LS_RECORD_SUMMARIES_SCOPE(5);
        for (int i = 0; i < 2; ++i)
          expect_ok(ls_strategy_run(
              strategy, traced ? ls_traced(function) : ls_plain(see, NULL),
              args, &result));
      }
      expect_ok(ls_file_writer_flush(w.writer));
      // A version, and replica 0's two.
      assert_int_equal(event_files_read(&w.files, 0), 3);
      assert_true(proto_f64(event_value(w.files.events, 3, "x", 5), 2) == 10);
      ls_nest_release(result);
    }
}

static ls_nest outside(ls_nest args, void *user) {
  (void)user;
  ls_summary_scalar("x", args.as.tensor, ls_scalar_i64(LS_DTYPE_I64, 2));
  return ls_leaf(ls_identity(args.as.tensor));
}

static ls_nest compute(ls_nest args, void *user) {
  const ls_tensor x = ls_add_scalar(ls_nest_tensor(args, 0), 1);
  const ls_nest y = ls_outside_compilation(outside, user, ls_leaf(x));
  return LS_LIST(y);
}

TEST(hosts_of_computations_record_outside) {
  LS_SPEC("E211");
  LS_OWN_BEGUN(world, w, begin, (ls_file_writer_options){0});
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(w.graph);
    LS_SUMMARY_SCOPE(w.writer);
    LS_RECORD_SUMMARIES_SCOPE(1);
    LS_OWN(ls_nest, inputs) =
        LS_LIST(LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 6))),
                LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 8))));
    expect_ok(ls_replicate(compute, &w, inputs, NULL, &outputs));
  }
  start(&w);
  LS_OWN(ls_nest, result) = session_results(w.session, outputs);
  expect_ok(run(&w, ls_file_writer_flusher(w.writer)));
  int64_t steps[2];
  double values[2];
  assert_int_equal(steps_of(&w, "x", steps, values), 1);
  assert_true(steps[0] == 2 && values[0] == 7);
}

// ---- Refused ---------------------------------------------------------------
static void expect_failed(ls_op op, ls_graph *graph, const char *says) {
  assert_true(ls_op_is_failed(op));
  expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT, says);
}

TEST(values_that_do_not_fit_are_refused) {
  LS_OWN_BEGUN(world, w, begin, (ls_file_writer_options){0});
  ls_op vector = {0}, stepped = {0};
  ls_tensor any = {0}, step = {0};
  {
    LS_GRAPH_SCOPE(w.graph);
    LS_SUMMARY_SCOPE(w.writer);
    LS_RECORD_SUMMARIES_SCOPE(1);
    const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1), at = {0};
    expect_failed(ls_summary_scalar("a", x, at), w.graph,
                  "summary 'a' is f32[2], expected a scalar");
    expect_failed(ls_summary_histogram(
                      "b", ls_placeholder(LS_DTYPE_C64, LS_SHAPE(2), "c"), at),
                  w.graph, "summary 'b' is c64[2]");
    expect_failed(ls_summary_image("c", x, at), w.graph,
                  "summary 'c' is f32[2], expected u8");
    expect_failed(
        ls_summary_image("d", ls_fill(LS_DTYPE_U8, LS_SHAPE(2, 2, 5), 0), at),
        w.graph, "1 to 4 channels");
    expect_failed(ls_summary_scalar("e", ls_scalar(LS_DTYPE_F32, 1), x),
                  w.graph, "the step of summary 'e' is f32[2]");
    any = ls_placeholder(LS_DTYPE_F32, LS_SHAPE_UNKNOWN, "any");
    vector = ls_summary_scalar("f", any, at);
    step = ls_placeholder(LS_DTYPE_I64, LS_SHAPE_UNKNOWN, "step");
    stepped = ls_summary_scalar("g", ls_scalar(LS_DTYPE_F32, 1), step);
    LS_RECORD_SUMMARIES_SCOPE(-1);
    expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "each -1 steps");
  }
  start(&w);
  LS_OWN(ls_array, two) = array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){1, 2});
  const ls_feed feed = {any, two};
  ls_nest nothing = ls_none();
  expect_status(
      ls_session_run(w.session, ls_nest_op(vector), &feed, 1, &nothing),
      LS_INVALID_ARGUMENT, "summary 'f' of a scalar is f32[2]");
  LS_OWN(ls_array, three) =
      array_of(LS_DTYPE_I64, LS_SHAPE(3), (double[]){1, 2, 3});
  LS_OWN(ls_array, none) = array_of(LS_DTYPE_I64, LS_SHAPE(0), NULL);
  const ls_feed feeds[] = {{step, three}, {step, none}};
  for (int i = 0; i < 2; ++i)
    expect_status(
        ls_session_run(w.session, ls_nest_op(stepped), &feeds[i], 1, &nothing),
        LS_INVALID_ARGUMENT,
        i == 0 ? "the step of summary 'g' is i64[3], expected a scalar"
               : "the step of summary 'g' is i64[0], expected a scalar");
}

TEST(a_step_comes_from_somewhere) {
  LS_OWN_BEGUN(event_files, files, event_files_begin);
  LS_OWN(ls_summary_writer, writer) = NULL;
  LS_OWN(ls_graph, graph) = NULL;
  expect_ok(ls_file_writer_create(&(ls_file_writer_options){.folder = "events"},
                                  &writer));
  {
    LS_SUMMARY_SCOPE(writer);
    LS_RECORD_SUMMARIES_SCOPE(1);
    expect_ok(ls_frame_begin());
    const ls_op op = ls_summary_scalar("x", scalar_of(1), (ls_tensor){0});
    expect_status(ls_tensor_status(ls_op_output(op, 0)), LS_FAILED_PRECONDITION,
                  "summary 'x' without a step");
    expect_ok(ls_frame_end(NULL));
    expect_ok(ls_graph_create("g", &graph));
    LS_GRAPH_SCOPE(graph);
    ls_summary_scalar("x", ls_scalar(LS_DTYPE_F32, 1), (ls_tensor){0});
    expect_status(ls_graph_take_error(graph), LS_FAILED_PRECONDITION,
                  "Global step should be created");
  }
}

static void note_nothing(void *user, const ls_summary_record *record) {
  (void)user;
  (void)record;
}

TEST(writers_that_cannot_be_are_refused) {
  static const struct {
    ls_file_writer_options options;
    const char *says;
  } rows[] = {
      {{.folder = NULL}, "folder"},
      {{.folder = "x", .max_queue = {true, 0}}, "max_queue is 0"},
      {{.folder = "x", .flush_seconds = {true, -1}}, "flush_seconds is -1"},
      {{.folder = "x", .suffix = "a/b"}, "'a/b'"},
  };
  LS_OWN(ls_summary_writer, writer) = NULL;
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    expect_status(ls_file_writer_create(&rows[i].options, &writer),
                  LS_INVALID_ARGUMENT, rows[i].says);
    assert_null(writer);
  }
  expect_ok(ls_summary_writer_create(note_nothing, NULL, &writer));
  expect_status(ls_file_writer_flush(writer), LS_INVALID_ARGUMENT,
                "writes no files");
  assert_true(ls_op_is_failed(ls_file_writer_flusher(writer)));
}

TEST(what_a_file_does_not_take_fails_the_flush) {
  LS_OWN_BEGUN(world, w, begin, (ls_file_writer_options){0});
  ls_op one = {0};
  {
    LS_GRAPH_SCOPE(w.graph);
    LS_SUMMARY_SCOPE(w.writer);
    LS_RECORD_SUMMARIES_SCOPE(1);
    one = ls_summary_scalar("x", ls_scalar(LS_DTYPE_F32, 4), (ls_tensor){0});
  }
  start(&w);
  expect_ok(run(&w, one));
  w.files.files.fail_at = 1;
  expect_status(run(&w, ls_file_writer_flusher(w.writer)), LS_UNAVAILABLE, "");
  expect_ok(run(&w, ls_file_writer_flusher(w.writer)));
}
