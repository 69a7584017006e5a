// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/tpu_strategy.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/pod_runs.h"
#include "support/values.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

// ---- Planning --------------------------------------------------------------
TEST(what_cannot_go_wrong_is_refused) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
  static const struct {
    ls_pod_fault fault;
    const char *part;
  } rows[] = {
      {{.kind = (ls_pod_fault_kind)99}, "no kind 99"},
      {{.host = 2}, "hosts 0 to 1 of cores 0 to 1"},
      {{.core = 2}, "host 0 core 2"},
      {{.host = -1}, "host -1"},
      {{.at_step = -1}, "none can be below 0"},
      {{.every = -1}, "none can be below 0"},
      {{.kind = LS_POD_TUPLE_LATE}, "set nanos"},
      {{.kind = LS_POD_CORE_SLOW}, "set nanos"},
      {{.kind = LS_POD_MEMORY_SHORT}, "set bytes"},
      {{.kind = LS_POD_MEMORY_SHORT, .bytes = -1}, "none can be below 0"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_status(ls_pod_inject(f.pod, &rows[i].fault), LS_INVALID_ARGUMENT,
                  rows[i].part);
  expect_status(ls_pod_inject(NULL, &rows[0].fault), LS_INVALID_ARGUMENT,
                "pod is NULL");
}

TEST(a_name_can_plan_faults) {
  LS_OWN(counted, c) = counted_begin(1);
  static const struct {
    const char *name;
    ls_pod_fault fault;
  } rows[] = {
      {"virtual:4x4,hosts=2,fault=preempt@host1:step40",
       {.kind = LS_POD_HOST_PREEMPTED, .host = 1, .at_step = 40}},
      {"virtual:2x2,fault=lost@host0.core3",
       {.kind = LS_POD_CORE_LOST, .core = 3}},
      {"virtual:2x2,fault=late@host0.core1:5ms:every2:step1",
       {.kind = LS_POD_TUPLE_LATE,
        .core = 1,
        .at_step = 1,
        .every = 2,
        .nanos = 5000000}},
      {"virtual:2x2,fault=slow@host0:7us",
       {.kind = LS_POD_CORE_SLOW, .nanos = 7000}},
      {"virtual:2x2,fault=change@host0", {.kind = LS_POD_TUPLE_CHANGED}},
      {"virtual:2x2,fault=drop@host0", {.kind = LS_POD_TUPLE_LOST}},
      {"virtual:2x2,fault=close@host0", {.kind = LS_POD_INFEED_CLOSED}},
      {"virtual:2x2,fault=fail@host0", {.kind = LS_POD_OUTFEED_FAILS}},
      {"virtual:2x2,fault=compile@host0:step1",
       {.kind = LS_POD_COMPILE_FAILS, .at_step = 1}},
      {"virtual:2x2,fault=memory@host0.core7:64MiB",
       {.kind = LS_POD_MEMORY_SHORT, .core = 7, .bytes = 64 << 20}},
      {"virtual:2x2,fault=memory@host0:16GiB",
       {.kind = LS_POD_MEMORY_SHORT, .bytes = (int64_t)16 << 30}},
      {"virtual:2x2,fault=memory@host0:3KiB",
       {.kind = LS_POD_MEMORY_SHORT, .bytes = 3072}},
      {"virtual:2x2,fault=memory@host0:99B",
       {.kind = LS_POD_MEMORY_SHORT, .bytes = 99}},
      {"virtual:2x2,fault=lame@host0", {.kind = LS_POD_HOST_LAME}},
      {"virtual:2x2,fault=silent@host0", {.kind = LS_POD_HOST_SILENT}},
      {"virtual:2x2,fault=noheartbeat@host0", {.kind = LS_POD_NO_HEARTBEAT}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_pod_fault got;
    const char *text = strstr(rows[i].name, "fault=") + strlen("fault=");
    assert_null(ls_pod_fault_parse(text, strlen(text), &got));
    const ls_pod_fault *wanted = &rows[i].fault;
    assert_int_equal(got.kind, wanted->kind);
    assert_int_equal(got.host, wanted->host);
    assert_int_equal(got.core, wanted->core);
    assert_int_equal(got.at_step, wanted->at_step);
    assert_int_equal(got.every, wanted->every);
    assert_int_equal(got.nanos, wanted->nanos);
    assert_int_equal(got.bytes, wanted->bytes);
    LS_OWN(ls_tpu_resolver, resolver) = NULL;
    LS_OWN(ls_pod, pod) = NULL;
    expect_ok(ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = rows[i].name}, &resolver));
    expect_ok(ls_tpu_pod(resolver, &pod));
    assert_int_equal(pod->num_faults, 1);
  }
  static const struct {
    const char *name, *part;
  } refused[] = {
      {"virtual:2x2,fault=", "is no fault"},
      {"virtual:2x2,fault=explode@host0", "'fault=explode@host0' is no fault"},
      {"virtual:2x2,fault=lost", "is no fault"},
      {"virtual:2x2,fault=lost@", "has no host"},
      {"virtual:2x2,fault=lost@core1", "has no host"},
      {"virtual:2x2,fault=lost@host", "has no host"},
      {"virtual:2x2,fault=lost@host1", "that is not there"},
      {"virtual:2x2,fault=lost@host0.core8", "that is not there"},
      {"virtual:2x2,fault=lost@host99999999999", "has no host"},
      {"virtual:2x2,fault=late@host0:9999999999s", "may be followed by :stepK"},
      {"virtual:2x2,fault=lost@host0:step", "may be followed by :stepK"},
      {"virtual:2x2,fault=lost@host0:step4x", "may be followed by :stepK"},
      {"virtual:2x2,fault=lost@host0:5", "may be followed by :stepK"},
      {"virtual:2x2,fault=slow@host0", "needs a duration"},
      {"virtual:2x2,fault=memory@host0", "needs a size"},
      {"virtual:2x2,fault=memory@host0:5MB", "may be followed by :stepK"},
      {"virtual:2x2,fault=lost@host0,cores=2", "follows a fault"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(refused); ++i) {
    ls_tpu_resolver *resolver = NULL;
    ls_status status = ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = refused[i].name}, &resolver);
    assert_non_null(status);
    expect_contains(ls_status_message(status), refused[i].name);
    expect_status(status, LS_INVALID_ARGUMENT, refused[i].part);
  }
}

// ---- Steps -----------------------------------------------------------------
// "..X." : passes of a core, X where it fails.
static const char *passes(ls_core *core, ls_pod_door door, int count) {
  static char text[64];
  ls_pod_passing passing;
  for (int i = 0; i < count; ++i) {
    LS_OWN(ls_status, status) = ls_pod_pass(core, door, &passing);
    const bool is_wrong = status != NULL || passing.loses || passing.changes ||
                          passing.closes || passing.bytes > 0 || passing.lame;
    text[i] = is_wrong ? 'X' : '.';
  }
  text[count] = '\0';
  return text;
}

TEST(faults_happen_at_their_steps) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
  static const struct {
    ls_pod_fault fault;
    ls_pod_door door;
    int host, core;
    const char *wanted;
  } rows[] = {
      {{.kind = LS_POD_TUPLE_LOST, .at_step = 2},
       LS_DOOR_ENQUEUE,
       0,
       0,
       "..X....."},
      {{.kind = LS_POD_TUPLE_LOST, .at_step = 2, .every = 3},
       LS_DOOR_ENQUEUE,
       0,
       0,
       "..X..X.."},
      {{.kind = LS_POD_TUPLE_LOST}, LS_DOOR_ENQUEUE, 0, 1, "........"},
      {{.kind = LS_POD_TUPLE_LOST}, LS_DOOR_DEQUEUE, 0, 0, "........"},
      {{.kind = LS_POD_CORE_LOST, .host = 1, .core = 1, .at_step = 3},
       LS_DOOR_RUN,
       1,
       1,
       "...XXXXX"},
      {{.kind = LS_POD_CORE_LOST, .host = 1, .core = 1},
       LS_DOOR_RUN,
       1,
       0,
       "........"},
      {{.kind = LS_POD_HOST_PREEMPTED, .host = 1, .at_step = 1},
       LS_DOOR_DEQUEUE,
       1,
       1,
       ".XXXXXXX"},
      {{.kind = LS_POD_HOST_PREEMPTED, .host = 1},
       LS_DOOR_DEQUEUE,
       0,
       1,
       "........"},
      {{.kind = LS_POD_OUTFEED_FAILS, .at_step = 4},
       LS_DOOR_OUTFEED,
       0,
       0,
       "....X..."},
      {{.kind = LS_POD_COMPILE_FAILS, .host = 1, .at_step = 2},
       LS_DOOR_COMPILE,
       1,
       1,
       "..X....."},
      {{.kind = LS_POD_MEMORY_SHORT, .host = 1, .at_step = 2, .bytes = 8},
       LS_DOOR_COMPILE,
       1,
       0,
       "..XXXXXX"},
      {{.kind = LS_POD_HOST_LAME, .host = 1, .at_step = 5},
       LS_DOOR_HEALTH,
       1,
       0,
       ".....XXX"},
      // What is gone is gone elsewhere too, but does not count there.
      {{.kind = LS_POD_HOST_PREEMPTED, .host = 1, .at_step = 2},
       LS_DOOR_ENQUEUE,
       1,
       0,
       "........"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    pod_inject(f.pod, rows[i].fault);
    ls_core *core = ls_pod_core(f.pod, rows[i].host, rows[i].core);
    const char *got = passes(core, rows[i].door, 8);
    if (strcmp(got, rows[i].wanted) != 0)
      fail_msg("row %zu: %s, wanted %s", i, got, rows[i].wanted);
    ls_pod_heal(f.pod);
    assert_string_equal(passes(core, rows[i].door, 8), "........");
  }
}

TEST(a_new_beginning_brings_back_what_was_gone) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 1);
  ls_core *core = ls_pod_core(f.pod, 0, 0);
  pod_inject(f.pod,
             (ls_pod_fault){.kind = LS_POD_HOST_PREEMPTED, .at_step = 1});
  assert_string_equal(passes(core, LS_DOOR_RUN, 3), ".XX");
  ls_pod_initialize(f.pod);
  assert_string_equal(passes(core, LS_DOOR_RUN, 3), "...");
  pod_inject(f.pod, (ls_pod_fault){
                        .kind = LS_POD_CORE_LOST, .at_step = 2, .every = 9});
  assert_string_equal(passes(core, LS_DOOR_RUN, 4), "..XX");
  ls_pod_initialize(f.pod);  // Steps count from 0 again.
  assert_string_equal(passes(core, LS_DOOR_RUN, 4), "..XX");
}

// ---- Infeed and outfeed ----------------------------------------------------
static ls_nest put(pod_runs *f, double value) {
  LS_GRAPH_SCOPE(f->graph);
  return ls_nest_op(put_number(0, 0, value));
}

static ls_nest take(pod_runs *f) {
  LS_GRAPH_SCOPE(f->graph);
  return ls_leaf(take_number(0, 0));
}

TEST(a_tuple_can_be_lost_on_its_way) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 1);
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_TUPLE_LOST, .at_step = 1});
  for (int i = 0; i < 3; ++i)
    pod_runs_do(&f, put(&f, i));
  pod_runs_do(&f, take(&f));
  assert_true(pod_runs_number(&f, 0) == 0);
  pod_runs_do(&f, take(&f));
  assert_true(pod_runs_number(&f, 0) == 2);
}

TEST(a_tuple_can_be_late) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 1);
  pod_inject(f.pod,
             (ls_pod_fault){.kind = LS_POD_TUPLE_LATE, .nanos = 3000000});
  const int64_t before = pod_runs_now;
  pod_runs_do(&f, put(&f, 1));
  assert_true(pod_runs_now - before == 3000000);
  expect_contains(pod_runs_warning,
                  "a tuple of /job:localhost/replica:0/task:0/device:"
                  "TPU:0 takes 3.000 ms");
  pod_runs_do(&f, take(&f));
  assert_true(pod_runs_number(&f, 0) == 1);
}

TEST(a_tuple_can_be_of_another_type) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 1);
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_TUPLE_CHANGED});
  pod_runs_do(&f, put(&f, 1));
  expect_status(pod_runs_try(&f, take(&f)), LS_INVALID_ARGUMENT,
                "is u8[], expected is f32[]");
  pod_runs_do(&f, put(&f, 2));
  pod_runs_do(&f, take(&f));
  assert_true(pod_runs_number(&f, 0) == 2);
}

TEST(an_infeed_can_close_too_early) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 1);
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_INFEED_CLOSED, .at_step = 1});
  pod_runs_do(&f, put(&f, 1));
  pod_runs_do(&f, put(&f, 2));
  expect_status(pod_runs_try(&f, put(&f, 3)), LS_FAILED_PRECONDITION,
                "was closed");
  pod_runs_do(&f, take(&f));
  pod_runs_do(&f, take(&f));
  assert_true(pod_runs_number(&f, 0) == 2);
  expect_status(pod_runs_try(&f, take(&f)), LS_OUT_OF_RANGE, "infeed closed");
}

TEST(an_outfeed_can_fail) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 1);
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_OUTFEED_FAILS,
                                   .text = "a wire fell"});
  ls_nest give = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    give = ls_nest_op(give_tensor(0, 0, pod_number(1)));
  }
  ls_status status = pod_runs_try(&f, ls_nest_retain(give));
  assert_non_null(status);
  expect_contains(ls_status_message(status), "TPU:0 failed");
  expect_status(status, LS_ABORTED, "a wire fell");
  pod_runs_do(&f, give);
}

TEST(a_host_can_be_preempted_between_tuples) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 1);
  pod_inject(f.pod,
             (ls_pod_fault){.kind = LS_POD_HOST_PREEMPTED, .at_step = 1});
  for (int i = 0; i < 3; ++i)
    pod_runs_do(&f, put(&f, i));
  pod_runs_do(&f, take(&f));
  for (int i = 0; i < 2; ++i)
    expect_status(pod_runs_try(&f, take(&f)), LS_UNAVAILABLE,
                  "host /job:localhost/task:0 of TPU system 'virtual' was "
                  "preempted");
  // It has taken nothing.
  ls_pod_heal(f.pod);
  pod_runs_do(&f, take(&f));
  assert_true(pod_runs_number(&f, 0) == 1);
}

// ---- Steps of a strategy ---------------------------------------------------
static ls_nest count_up(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1)));
}

// Variables are as the last whole step has left them, and go on behind it.
TEST(a_strategy_loses_a_host_and_gets_it_back) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){
          .local = "2x1,cores=1,hosts=2,fault=preempt@host1:step3"},
      &resolver));
  expect_ok(ls_tpu_strategy_create(NULL, &strategy));
  assert_int_equal(ls_strategy_num_replicas(strategy), 2);
  LS_OWN(ls_variable, variable) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32,
                               .shape = LS_SCALAR,
                               .aggregation = LS_AGGREGATION_MEAN},
        &variable));
  }
  LS_OWN(ls_function, f) = function_of(count_up, variable);
  LS_OWN(ls_nest, results) = ls_none();
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &results));
  for (int i = 0; i < 2; ++i)
    expect_status(ls_strategy_run(strategy, ls_traced(f), ls_none(), &results),
                  LS_UNAVAILABLE, "task:1 of TPU system 'local' was preempted");
  ls_array *value = variable_array(variable);
  assert_true(ls_array_f64(value, 0) == 3);
  ls_array_release(value);
  ls_topology *topology = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  ls_topology_release(topology);
  for (int i = 0; i < 5; ++i)
    expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &results));
  expect_ok(ls_variable_value(variable, &value));
  assert_true(ls_array_f64(value, 0) == 8);
  ls_array_release(value);
}

static ls_status plan_and_heal(void *user) {
  ls_pod *pod = user;
  LS_RETURN_IF_ERROR(ls_pod_inject(
      pod, &(ls_pod_fault){.kind = LS_POD_OUTFEED_FAILS, .text = "because"}));
  ls_pod_heal(pod);
  return ls_ok();
}

MEMORY_TEST(make_a_pod_with_faults) {
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_pod, pod) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = "virtual:2x1,fault=drop@host0,fault=lost@host0:step2"},
      &resolver));
  const ls_status status = ls_tpu_pod(resolver, &pod);
  if (ls_status_is_ok(status)) {
    ls_status_free(plan_and_heal(pod));
    ls_pod_shut_down(pod);
  }
  return status;
}
