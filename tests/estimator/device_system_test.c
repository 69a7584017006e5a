// SPDX-License-Identifier: Apache-2.0
//
// What is done to the system and its hosts around a program on cores.
#include <string.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "base/text.h"
#include "lockstep/events.h"
#include "lockstep/summary_ops.h"
#include "support/callbacks.h"
#include "support/device_runs.h"
#include "support/function.h"
#include "support/thread_count.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

// A session that makes `last` steps, in runs of so many.
static void open_runs(device_runs *d, int64_t iterations, int64_t last) {
  ls_hook *stop = NULL;
  expect_ok(ls_tpu_stop_hook((ls_loop_length){.steps = iterations}, (ls_opt){0},
                             LS_SOME(last), &stop));
  device_runs_open(d, &stop, 1);
}

// ---- The system ------------------------------------------------------------
TEST(the_system_lives_as_long_as_the_loop) {
  LS_SPEC("E79");
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 2});
  for (int time = 0; time < 2; ++time) {
    open_runs(&d, 2, 4);
    ls_pod *pod = device_runs_pod(&d);
    assert_true(ls_pod_is_initialized(pod));
    ls_pod_release(pod);
    expect_contains(device_runs_log(), "initialized the TPU system in ");
    expect_ok(device_runs_all(&d));
    expect_ok(device_runs_close(&d, ls_ok()));
    assert_null(device_runs_pod(&d));
    device_runs_renew(&d);
  }
}

TEST(a_program_that_does_not_compile_is_not_run) {
  LS_SPEC("E82");
  for (int fails = 0; fails < 2; ++fails) {
    LS_OWN(device_runs, d) = {0};
    device_runs_begin(
        &d, &(device_runs_options){.hosts = 1, .asks_compiler = true});
    ls_pod *pod = device_runs_pod(&d);
    if (fails)
      expect_ok(ls_pod_inject(pod, &(ls_pod_fault){.kind = LS_POD_COMPILE_FAILS,
                                                   .text = "no way"}));
    ls_pod_release(pod);
    open_runs(&d, 2, 4);
    expect_contains(device_runs_log(), fails ? "E Compilation failed: "
                                             : "I the program compiles");
    assert_int_equal(ls_monitored_session_should_stop(d.session), fails);
    expect_ok(device_runs_all(&d));
    assert_int_equal(device_runs_step(&d), fails ? 0 : 4);
    const char *error = ls_device_hook_compile_error(d.hook);
    assert_int_equal(error != NULL, fails);
    if (fails) expect_contains(error, "no way");
    expect_ok(device_runs_close(&d, ls_ok()));
    assert_null(device_runs_pod(&d));
    expect_ok(ls_rendezvous_status(d.rendezvous, 0));
  }
}

TEST(hosts_are_watched_where_it_is_asked_for) {
  for (int watches = 0; watches < 2; ++watches) {
    LS_OWN_BEGUN(device_runs, d, device_runs_begin,
                 &(device_runs_options){
                     .hosts = 2, .watches = watches, .real_clock = true});
    open_runs(&d, 2, 4);
    const bool said =
        strstr(device_runs_log(), "watchdog of 70 seconds") != NULL;
    assert_int_equal(said, watches);
    expect_ok(device_runs_all(&d));
    expect_ok(device_runs_close(&d, ls_ok()));
  }
}

// A system that its user has initialized is left alone if replicas of several
// cores are fed the same.
TEST(some_systems_are_left_alone) {
  LS_SPEC("E79");
  for (int way = 0; way < 8; ++way) {
    const ls_tpu_config tpu = {
        .num_cores_per_replica = way & 1 ? (ls_opt)LS_SOME(2) : (ls_opt){0},
        .per_host_input = way & 2 ? LS_INPUT_BROADCAST : LS_INPUT_PER_HOST_V1};
    LS_OWN(device_runs, d) = {0};
    device_runs_begin(
        &d, &(device_runs_options){.hosts = 1, .cores = 2, .tpu = &tpu});
    if (way & 4) expect_ok(ls_tpu_initialize(d.resolver, NULL));
    open_runs(&d, 2, 4);
    LS_OWN(ls_pod, pod) = device_runs_pod(&d);
    assert_true(ls_pod_is_initialized(pod));
    ls_pod_release(pod);
    expect_ok(device_runs_close(&d, ls_ok()));
    pod = device_runs_pod(&d);
    assert_int_equal(pod != NULL, way == 7);
  }
}

// What happened, a letter each: the system, writers, the compiler, the
// watchdog; and of the threads, where they are too early.
static char order[20];
static void happen(char what) {
  const size_t length = strlen(order);
  if (length + 1 < sizeof(order)) order[length] = what;
}

static int num_threads(void) {
  return threads_called("InfeedControlle") + threads_called("OutfeedControll");
}

static void look_at_line(const char *line) {
  if (strstr(line, "initialized the TPU system in ") != NULL) happen('S');
  if (strstr(line, "watchdog of 70 seconds") != NULL) happen('D');
  if (strstr(line, "the program compiles") == NULL) return;
  happen('C');
  if (num_threads() > 0) happen('T');
}

static ls_status begin_writer(ls_host_call *call) {
  happen('W');
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel writing = {.name = "device_system_writer",
                                       .start = begin_writer};

TEST(a_session_begins_in_order) {
  LS_SPEC("E81");
  memset(order, 0, sizeof(order));
  while (num_threads() > 0)  // One that was joined is seen for a moment.
    usleep(1000);
  device_runs_on_line(look_at_line);
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 2,
                                      .asks_compiler = true,
                                      .watches = true,
                                      .real_clock = true});
  {
    LS_GRAPH_SCOPE(d.graph);
    expect_ok(ls_graph_add_to_collection(
        d.graph, LS_COLLECTION_SUMMARY_WRITER_INIT,
        ls_nest_op(ls_host_call_add(&writing, NULL, NULL, 0))));
  }
  open_runs(&d, 2, 4);
  assert_string_equal(order, "SWCD");
  // In a graph of its own.
  char *text = graph_text(d.graph);
  assert_null(strstr(text, "configure_distributed_tpu"));
  assert_non_null(strstr(text, "shutdown_distributed_tpu"));
  ls_text_release(text);
  expect_ok(device_runs_all(&d));
  while (num_threads() < 2)  // One may not have got a turn yet.
    usleep(1000);
  expect_ok(device_runs_close(&d, ls_ok()));
  device_runs_on_line(NULL);
}

TEST(only_a_1_asks_the_compiler) {
  LS_SPEC("E81");
  static const char *const says[] = {NULL, "", "0", "11", "1 ", "true", "1"};
  for (size_t i = 0; i < LS_COUNT_OF(says); ++i) {
    LS_OWN_BEGUN(device_runs, d, device_runs_begin,
                 &(device_runs_options){.hosts = 1, .asks = says[i]});
    open_runs(&d, 2, 4);
    const bool asked = strstr(device_runs_log(), "the program compiles");
    assert_int_equal(asked, i + 1 == LS_COUNT_OF(says));
    expect_ok(device_runs_close(&d, ls_ok()));
  }
}

TEST(the_system_begins_in_a_session_of_the_configuration) {
  LS_SPEC("E81");
  LS_OWN(device_runs, d) = {0};
  device_runs_begin(
      &d, &(device_runs_options){.hosts = 1,
                                 .session_config = &(ls_session_config){
                                     .soft_placement = LS_FLAG_OFF}});
  expect_status(device_runs_try_open(&d, NULL, 0), LS_UNIMPLEMENTED,
                "soft_placement");
}

// ---- Writers of summaries --------------------------------------------------
TEST(writers_are_initialized_and_flushed) {
  LS_SPEC("E80");
  static const char folder[] = "device_system_events";
  LS_OWN(device_runs, d) = {0};
  LS_OWN(ls_summary_writer, writer) = NULL;
  ls_event_numbers *numbers = NULL;
  // A test's clock would be put forward while files are made, by minutes.
  device_runs_begin(&d, &(device_runs_options){.hosts = 1, .real_clock = true});
  {
    LS_GRAPH_SCOPE(d.graph);
    expect_ok(ls_file_writer_create(&(ls_file_writer_options){.folder = folder},
                                    &writer));
    LS_SUMMARY_SCOPE(writer);
    LS_RECORD_SUMMARIES_SCOPE(1);
    ls_nest_release(d.dequeue);
    d.dequeue = LS_LIST(ls_nest_op(
        ls_summary_scalar("said", d.said, ls_variable_read(d.step))));
  }
  open_runs(&d, 1, 3);
  expect_ok(device_runs_all(&d));
  expect_ok(device_runs_close(&d, ls_ok()));
  assert_null(device_runs_pod(&d));  // It is shut down.
  expect_ok(ls_events_read(folder, "said", &numbers));
  assert_true(numbers->count > 0);
  assert_true(numbers->items[numbers->count - 1].value == 3);
  ls_event_numbers_destroy(numbers);
}

static ls_status never_ends(ls_host_call *call) {
  (void)call;
  return ls_ok();
}
static const ls_host_kernel stuck = {.name = "device_system_stuck",
                                     .start = never_ends,
                                     .flags = LS_HOST_INLINE | LS_HOST_WAITS,
                                     .cancel = cancel_call};

TEST(writers_have_five_minutes_to_begin) {
  LS_SPEC("E81");
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 1, .stall_ms = -1});
  {
    LS_GRAPH_SCOPE(d.graph);
    expect_ok(ls_graph_add_to_collection(
        d.graph, LS_COLLECTION_SUMMARY_WRITER_INIT,
        ls_nest_op(ls_host_call_add(&stuck, NULL, NULL, 0))));
  }
  expect_status(device_runs_try_open(&d, NULL, 0), LS_DEADLINE_EXCEEDED,
                "more than 5 minutes");
  assert_true(device_runs_now() >= 300 && device_runs_now() < 310);
}
