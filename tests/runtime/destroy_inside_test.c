// SPDX-License-Identifier: Apache-2.0
//
// What is destroyed while it is in use: a runtime stays, and says so; a
// function, a session and a graph go once their last call or session has.
#include "distribute/own.h"
#include "lockstep/cancel.h"
#include "lockstep/checkpoint.h"
#include "lockstep/dataset.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/events.h"
#include "lockstep/hook.h"
#include "lockstep/host.h"
#include "lockstep/iterator.h"
#include "lockstep/object.h"
#include "lockstep/saved_file.h"
#include "lockstep/session.h"
#include "lockstep/tpu_strategy.h"
#include "lockstep/tpu_system.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/memory_files.h"
#include "support/process.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_runtime *made;

static ls_nest destroy_runtime(ls_nest args, void *user) {
  (void)args;
  (void)user;
  expect_status(ls_runtime_destroy(made), LS_FAILED_PRECONDITION,
                "while a callback of a function or of replicas runs");
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 3));
}

static ls_status start_destroy(ls_host_call *call) {
  const ls_status status = ls_runtime_destroy(made);
  *(float *)call->outputs[0] = ls_status_code(status) == LS_FAILED_PRECONDITION;
  ls_status_free(status);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status infer_scalar(const ls_object *state, const ls_type *in,
                              size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  (void)in;
  (void)num_in;
  out[0] = (ls_type){LS_DTYPE_F32, LS_SCALAR};
  *num_out = 1;
  return ls_ok();
}

static const ls_host_kernel destroys = {
    .name = "destroys", .infer = infer_scalar, .start = start_destroy};

static ls_nest call_host(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_op_output(ls_host_call_add(&destroys, NULL, NULL, 0), 0));
}

static void call_once(ls_callback callback, double wanted) {
  LS_OWN(ls_function, function) = unnamed_function(callback, NULL);
  LS_OWN(ls_nest, result) = call_results(function, ls_none());
  assert_true(number_of(result) == wanted);
}

TEST(a_callback_cannot_destroy_its_runtime) {
  expect_ok(ls_runtime_create(&(ls_runtime_options){.threads = 2}, &made));
  ls_runtime *before = ls_runtime_make_current(made);
  call_once(destroy_runtime, 3);
  call_once(call_host, 1);
  for (int replicas = 1; replicas <= 2; ++replicas) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    ls_nest_release(run_on(strategy, destroy_runtime, ls_none(), NULL));
  }
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(made));
}

// ---- Runtimes --------------------------------------------------------------
TEST(a_runtime_stays_while_what_was_made_under_it_lives) {
  expect_ok(ls_runtime_create(&(ls_runtime_options){.threads = 1}, &made));
  ls_runtime *before = ls_runtime_make_current(made);
  ls_function *function = unnamed_function(give_args, NULL);
  ls_runtime_make_current(before);
  expect_status(ls_runtime_destroy(made), LS_FAILED_PRECONDITION,
                "exist: release 1 function first");
  ls_runtime_make_current(made);
  ls_nest_release(call_results(function, ls_none()));
  ls_function_release(function);
  ls_graph *graph = graph_named("g");
  ls_session *session = session_of(graph);
  expect_status(ls_runtime_destroy(made), LS_FAILED_PRECONDITION,
                "release 1 session first");
  ls_session_destroy(session);
  expect_status(ls_runtime_destroy(made), LS_FAILED_PRECONDITION,
                "release 1 graph first");
  ls_graph_destroy(graph);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(made));
}

// Makes one object of each kind that uses its runtime when it is released.
static ls_variable *variable;
static ls_iterator *batches;
static ls_cancel *cancel;
static ls_hook *hook;
static ls_event_writer *writer;
static ls_checkpoints *checkpoints;
static ls_saved_file *saved;

static void make_users(void) {
  const ls_saver values = {.variables = &variable, .num_variables = 1};
  variable = variable_of("v", LS_DTYPE_F32, LS_SCALAR, &(double){1});
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){.folder = "run", .values = &values},
      &checkpoints));
  expect_ok(ls_checkpoints_save(checkpoints, 1, NULL, 0));
  expect_ok(ls_checkpoints_wait(checkpoints));
  expect_ok(ls_saved_file_open("run", &saved));
  expect_ok(ls_event_writer_open(&(ls_event_writer_options){.folder = "events"},
                                 &writer));
  expect_ok(ls_hook_create(&(ls_hook_options){.name = "h"}, &hook));
  expect_ok(ls_cancel_create(made, &cancel));
  ls_dataset *data = ls_dataset_range(0, 400, 1);
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(data, NULL, &batches));
  expect_ok(ls_iterator_next(batches, &element));
  ls_dataset_release(data);
}

// Expects that `made` stays for one object of a kind; the caller releases it.
static void expect_stays(const char *text) {
  expect_status(ls_runtime_destroy(made), LS_FAILED_PRECONDITION, text);
}

TEST(a_runtime_stays_for_objects_that_use_it_when_they_go) {
  memory_files files = {0};
  const ls_file_system system = memory_files_system(&files);
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = 2, .file_system = &system}, &made));
  ls_runtime *before = ls_runtime_make_current(made);
  make_users();
  ls_runtime_make_current(before);
  expect_stays("release 1 hook first");
  ls_hook_release(hook);
  expect_stays("release 1 checkpoint folder first");
  expect_ok(ls_checkpoints_close(checkpoints));
  expect_stays("release 1 saved file first");
  ls_saved_file_close(saved);
  expect_stays("release 1 cancel first");
  ls_cancel_destroy(cancel);
  expect_stays("release 1 event writer first");
  expect_ok(ls_event_writer_close(writer));
  expect_stays("release 1 iterator first");
  ls_iterator_release(batches);
  expect_stays("release its variables first");
  ls_variable_release(variable);
  expect_ok(ls_runtime_destroy(made));
  memory_files_clear(&files);
}

TEST(a_variable_read_under_another_runtime_is_refused) {
  expect_ok(ls_runtime_create(NULL, &made));
  ls_runtime *before = ls_runtime_make_current(made);
  variable = variable_of("v", LS_DTYPE_F32, LS_SCALAR, &(double){1});
  ls_runtime_make_current(before);
  double number = 0;
  expect_status(ls_tensor_item(ls_variable_read(variable), &number),
                LS_FAILED_PRECONDITION, "it belongs to another runtime");
  ls_variable_release(variable);
  expect_ok(ls_runtime_destroy(made));
}

TEST(a_runtime_goes_with_variables_that_only_a_tape_refers_to) {
  expect_ok(ls_runtime_create(NULL, &made));
  ls_runtime *before = ls_runtime_make_current(made);
  ls_tape *tape = NULL;
  expect_ok(ls_tape_begin(&tape));
  variable = variable_of("v", LS_DTYPE_F32, LS_SCALAR, &(double){1});
  ls_square(ls_variable_read(variable));
  ls_variable_release(variable);
  expect_ok(ls_tape_end(tape));
  ls_tape_release(tape);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(made));
}

TEST(a_refused_destroy_changes_nothing) {
  expect_ok(ls_runtime_create(NULL, &made));
  ls_runtime *before = ls_runtime_make_current(made);
  ls_tpu_resolver *resolver = NULL;
  ls_strategy *strategy = NULL;
  double number = 0;
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = "virtual:2x1"}, &resolver));
  expect_ok(ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver},
                                   &strategy));
  {
    LS_STRATEGY_SCOPE(strategy);
    variable = variable_of("v", LS_DTYPE_F32, LS_SCALAR, &(double){1});
  }
  expect_ok(ls_frame_begin());
  {
    LS_OWN(ls_tape, tape) = NULL;
    expect_ok(ls_tape_begin(&tape));
    const ls_tensor x = ls_variable_read(variable), y = ls_square(x);
    LS_OWN(ls_nest, of) = ls_nest_variable(variable);
    ls_nest gradient = ls_none();
    expect_stays("release its variables first");
    expect_ok(ls_tape_gradients(tape, ls_leaf(y), &of, 1, &gradient));
    expect_ok(ls_tensor_item(ls_nest_tensor(gradient, 0), &number));
    assert_true(number == 2);
  }
  const ls_tensor sum = ls_add_scalar(ls_variable_read(variable), 1);
  expect_stays("release its variables first");
  expect_ok(ls_tensor_item(ls_square(sum), &number));
  assert_true(number == 4);
  expect_ok(ls_frame_end(NULL));
  {
    LS_OWN(ls_function, function) = unnamed_function(give_args, NULL);
    LS_OWN(ls_nest, result) = ls_none();
    expect_ok(
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &result));
  }
  ls_variable_release(variable);
  ls_strategy_release(strategy);
  ls_tpu_resolver_release(resolver);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(made));
}

static ls_nest map_destroys(ls_nest element, const ls_map_call *call,
                            void *user) {
  (void)call, (void)user;
  // Its first call is made by the maker of the data set.
  expect_status(ls_runtime_destroy(made), LS_FAILED_PRECONDITION,
                user == NULL
                    ? "while a callback"
                    : "by a function of a data set that runs under it");
  return ls_nest_retain(element);
}

TEST(a_data_sets_function_cannot_destroy_its_runtime) {
  for (int threads = 0; threads <= 1; ++threads) {
    expect_ok(ls_runtime_create(
        &(ls_runtime_options){.threads = 1, .input_threads = LS_SOME(threads)},
        &made));
    ls_runtime *before = ls_runtime_make_current(made);
    ls_dataset_release(ls_dataset_map(ls_dataset_range(0, 3, 1),
                                      &(ls_map_options){.call = map_destroys}));
    ls_dataset *data = ls_dataset_map(
        ls_dataset_range(0, 3, 1),
        &(ls_map_options){.call = map_destroys,
                          .user = &made,
                          .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
    ls_iterator *iterator = NULL;
    ls_nest element = ls_none();
    expect_ok(ls_iterator_create(data, NULL, &iterator));
    expect_ok(ls_iterator_next(iterator, &element));
    ls_nest_release(element);
    ls_iterator_release(iterator);
    ls_dataset_release(data);
    ls_runtime_make_current(before);
    expect_ok(ls_runtime_destroy(made));
  }
}

// ---- Functions -------------------------------------------------------------
static int times_released;

static void note_release(void *user) {
  *(ls_function **)user = NULL;
  ++times_released;
}

static ls_nest release_itself(ls_nest args, void *user) {
  (void)args;
  ls_function_release(*(ls_function **)user);
  assert_non_null(*(ls_function **)user);  // It is not freed yet.
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 5));
}

static ls_function *to_be_released;

static ls_status start_release(ls_host_call *call) {
  ls_function_release(to_be_released);
  *(float *)call->outputs[0] = 5;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel releases = {
    .name = "releases", .infer = infer_scalar, .start = start_release};

static ls_nest release_on_host(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_op_output(ls_host_call_add(&releases, NULL, NULL, 0), 0));
}

static void release_in(ls_callback callback) {
  expect_ok(ls_function_create(&(ls_function_options){.call = callback,
                                                      .user = &to_be_released,
                                                      .release = note_release},
                               &to_be_released));
  times_released = 0;
  LS_OWN(ls_nest, result) = call_results(to_be_released, ls_none());
  assert_int_equal(times_released, 1);
  if (result.kind == LS_KIND_ARRAY) assert_true(number_of(result) == 5);
}

TEST(a_function_may_lose_its_last_reference_in_a_call) {
  release_in(release_itself);
  release_in(release_on_host);
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    release_in(release_itself);
  }
  ls_graph_destroy(graph);
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  release_in(release_itself);
}

// ---- Sessions and graphs ---------------------------------------------------
static ls_session *session_to_go;

static ls_status start_end(ls_host_call *call) {
  ls_session_destroy(session_to_go);
  *(float *)call->outputs[0] = 7;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel ends = {
    .name = "ends", .infer = infer_scalar, .start = start_end};

TEST(a_session_and_its_graph_go_with_the_last_run) {
  ls_nest fetch = ls_none();
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    fetch = ls_leaf(ls_op_output(ls_host_call_add(&ends, NULL, NULL, 0), 0));
  }
  expect_ok(ls_session_create(graph, &session_to_go));
  ls_graph_destroy(graph);
  LS_OWN(ls_nest, result) = session_results(session_to_go, fetch);
  assert_true(number_of(result) == 7);
}

// It uses no variables.
static ls_status close_session(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_session_close(session_to_go);
}

TEST(a_host_function_may_close_its_session) {
  LS_OWN(ls_nest, result) = ls_none();
  ls_nest fetch = ls_none();
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    fetch = ls_nest_op(ls_host_function_op(close_session, NULL, ls_none()));
  }
  expect_ok(ls_session_create(graph, &session_to_go));
  const double began = seconds_now();
  // The run may have come to its end before it looks.
  const ls_status status =
      ls_session_run(session_to_go, fetch, NULL, 0, &result);
  if (!ls_status_is_ok(status))
    expect_status(status, LS_CANCELLED, "as its session was closed");
  assert_true(seconds_now() - began < 20);  // It waits for no stall.
  expect_status(ls_session_run(session_to_go, fetch, NULL, 0, &result),
                LS_FAILED_PRECONDITION, "the session is closed");
  ls_session_destroy(session_to_go);
  ls_graph_destroy(graph);
}

// It is the library's.
TEST(the_eager_graph_cannot_be_destroyed) {
  ls_graph_destroy(ls_graph_current());
  ls_graph_destroy(NULL);
  double value = 0;
  expect_ok(ls_tensor_item(ls_neg(ls_scalar(LS_DTYPE_F32, 2)), &value));
  assert_true(value == -2);
}

// ---- Handles ---------------------------------------------------------------
static void expect_stale(ls_tensor value) {
  double number = 0;
  assert_int_equal(ls_tensor_dtype(value), LS_DTYPE_NONE);
  assert_string_equal(ls_tensor_name(value), "");
  expect_status(ls_tensor_item(ls_neg(value), &number), LS_INVALID_ARGUMENT,
                "a stale handle was used in graph 'eager'");
  ls_nest result = ls_none();
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    assert_true(ls_tensor_is_failed(ls_neg(value)));
    expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT,
                  "a stale handle was used in graph 'g'");
  }
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_status, status) =
      ls_session_run(session, ls_leaf(value), NULL, 0, &result);
  assert_int_equal(ls_status_code(status), LS_INVALID_ARGUMENT);
}

static ls_tensor kept;

static ls_nest keep_and_fail(ls_nest args, void *user) {
  (void)args, (void)user;
  kept = ls_scalar(LS_DTYPE_F32, 1);
  return LS_FAIL(LS_INTERNAL, "as wanted");
}

TEST(a_handle_of_a_graph_that_has_gone_is_stale) {
  ls_graph *graph = graph_named("h");
  {
    LS_GRAPH_SCOPE(graph);
    kept = ls_scalar(LS_DTYPE_F32, 1);
    ls_graph_destroy(graph);
    assert_true(ls_tensor_is_failed(ls_scalar(LS_DTYPE_F32, 2)));
    LS_NAME_SCOPE("inside");
    expect_status(ls_scope_status(), LS_FAILED_PRECONDITION, "");
  }
  expect_stale(kept);
  ls_graph_destroy(graph);
  ls_nest result = ls_none();
  LS_OWN(ls_function, function) = unnamed_function(keep_and_fail, NULL);
  expect_status(ls_function_call(function, ls_none(), &result), LS_INTERNAL,
                "as wanted");
  expect_stale(kept);
}

static ls_replica *kept_context;

static ls_nest keep_context(ls_nest args, void *user) {
  (void)args, (void)user;
  kept_context = ls_replica_context();
  return ls_none();
}

TEST(a_context_of_a_strategy_that_has_gone_is_refused) {
  ls_tensor id;
  ls_strategy *strategy = mirrored_of(2);
  ls_nest_release(run_on(strategy, keep_context, ls_none(), NULL));
  expect_status(ls_replica_id_in_sync_group(kept_context, &id),
                LS_FAILED_PRECONDITION, "has ended");
  ls_strategy_release(strategy);
  expect_status(ls_replica_id_in_sync_group(kept_context, &id),
                LS_FAILED_PRECONDITION, "has gone");
}
