// SPDX-License-Identifier: Apache-2.0
//
// Traces as files: which spans there are, on which thread, and that they nest.
#include "lockstep/trace.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/threads/worker.h"
#include "base/trace.h"
#include "lockstep/communicator.h"
#include "lockstep/eager.h"
#include "lockstep/host.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "runtime/gate.h"
#include "support/callbacks.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/place.h"
#include "support/trace_events.h"

LS_OWNED_STRUCT(trace_events, trace_events_drop)

// ---- A world with files and switches ---------------------------------------
static struct {
  memory_files files;
  const char *lanes, *cut;  // LS_LANES and LS_CUT.
} world;

static const char *environment(void *user, const char *name) {
  (void)user;
  if (strcmp(name, "LS_LANES") == 0) return world.lanes;
  return strcmp(name, "LS_CUT") == 0 ? world.cut : NULL;
}

static counted begin(int threads) {
  const ls_file_system files = memory_files_system(&world.files);
  return counted_begin_with((ls_runtime_options){
      .threads = threads, .file_system = &files, .environment = environment});
}

static void end(counted *memory) {
  counted_end(memory);
  memory_files_clear(&world.files);
  memset(&world, 0, sizeof(world));
}
LS_OWNED_(traced_runtime, counted, end(ls_owned))

static ls_trace *begin_trace(int64_t spans) {
  ls_trace *trace = NULL;
  expect_ok(ls_trace_begin(
      ls_runtime_current(),
      &(ls_trace_options){.path = "t.json", .spans = spans}, &trace));
  return trace;
}

// ---- A step that calls the host --------------------------------------------
// Goes on when the run waits for it.
static ls_status square(ls_host_call *call) {
  while (__atomic_load_n(&call->runtime->progress, __ATOMIC_ACQUIRE) %
             LS_PROGRESS_MOVE !=
         0)
    sched_yield();
  const float *in = call->inputs[0];
  float *out = call->outputs[0];
  out[0] = in[0] * in[0];
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel hsq = {
    .name = "hsq", .infer = infer_like_first, .start = square};

// The sum over the replicas of (r + 2)^2, by the host or, with a user, not.
static ls_nest step(ls_nest args, void *user) {
  (void)args;
  const ls_tensor x =
      ls_add_scalar(ls_convert(ls_replica_id(), LS_DTYPE_F32), 2);
  ls_tensor y = ls_square(x);
  if (user == NULL) {
    LS_NAME_SCOPE("net");
    y = ls_op_output(ls_host_call_add(&hsq, NULL, &x, 1), 0);
  }
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, y));
}

typedef struct steps {
  ls_strategy *strategy;
  ls_function *function;
  ls_nest results;
} steps;

static steps begin_steps(void *user) {
  steps self = {0};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &self.strategy));
  self.function = function_of(step, user);
  return self;
}

static void take_step(steps *self, double wanted) {
  expect_ok(ls_strategy_run(self->strategy, ls_traced(self->function),
                            ls_none(), &self->results));
  assert_true(ls_nest_number(ls_distributed_component(self->results, 0)) ==
              wanted);
}

static void end_steps(steps *self) {
  ls_nest_release(self->results);
  ls_function_release(self->function);
  ls_strategy_release(self->strategy);
}
LS_OWNED_STRUCT(steps, end_steps)

static void finish(ls_trace *trace, trace_events *all) {
  ls_trace_end(trace);
  expect_ok(ls_trace_write(trace, NULL));
  ls_trace_destroy(trace);
  trace_events_read(all, &world.files, "t.json");
}

static void expect_calls(const trace_events *all) {
  static const char *const names[] = {"net/hsq/R0", "net/hsq/R1"};
  for (int r = 0; r < 2; ++r) {
    const trace_event *call = trace_events_expect(all, "host", names[r]);
    assert_int_equal(call->replica, r);
    assert_true(call->phase == 'X' && call->in_line > 0);
    assert_true(trace_events_is_of(all, call, "ls-host"));
    const trace_event *wait = trace_events_expect(all, "wait", "host");
    assert_true(wait->thread != call->thread &&
                wait->time < call->time + call->length);
  }
  // Each stood in line from its start by the run to its own beginning.
  assert_int_equal(trace_events_count(all, "in line"), 4);
  const trace_event *call = trace_events_expect(all, "host", names[0]);
  bool found = false;
  for (const trace_event *at = NULL;
       (at = trace_events_find(all, "in line", "net/hsq", at)) != NULL;)
    found |= at->phase == 'b' && at->time + call->in_line - call->time < 1e-3 &&
             at->time + call->in_line - call->time > -1e-3;
  assert_true(found);
}

TEST(a_step_of_replicas_is_shown) {
  LS_OWN(traced_runtime, memory) = begin(2);
  LS_OWN(steps, s) = begin_steps(NULL);
  ls_trace *trace = begin_trace(0);
  take_step(&s, 13);
  LS_OWN(trace_events, all) = {0};
  finish(trace, &all);
  expect_calls(&all);
  const trace_event *call = trace_events_expect(&all, "call", "f");
  const trace_event *traced = trace_events_expect(&all, "trace", "f");
  const trace_event *compiled = trace_events_expect(&all, "compile", "f");
  assert_true(trace_event_is_within(traced, call) &&
              trace_event_is_within(compiled, traced));
  assert_true(compiled->thread == call->thread);
  assert_true(trace_events_count(&all, "turn") > 0);
  for (const trace_event *at = NULL;
       (at = trace_events_find(&all, "turn", NULL, at)) != NULL;) {
    assert_true(at->thread == call->thread && trace_event_is_within(at, call));
    assert_true(at->time >= compiled->time + compiled->length - 1e-3);
    assert_int_equal(at->replica, -1);  // Side by side.
  }
  assert_int_equal(all.lost, 0);
}

// Replicas that go one by one: the turns of each, in sweeps, and calls that
// each makes by itself.
TEST(turns_of_replicas_lie_in_sweeps) {
  static const char *const lanes[] = {"blocks", "threads"};
  for (int i = 0; i < 2; ++i) {
    world.lanes = lanes[i];
    world.cut = "0";
    LS_OWN(traced_runtime, memory) = begin(2);
    LS_OWN(steps, s) = begin_steps(NULL);
    take_step(&s, 13);
    ls_trace *trace = begin_trace(0);
    take_step(&s, 13);
    LS_OWN(trace_events, all) = {0};
    finish(trace, &all);
    expect_calls(&all);
    assert_int_equal(trace_events_count(&all, "compile"), 0);
    bool seen[2] = {false};
    for (const trace_event *at = NULL;
         (at = trace_events_find(&all, "turn", NULL, at)) != NULL;) {
      if (at->replica < 0) continue;
      assert_true(at->replica < 2);
      seen[at->replica] = true;
      expect_contains(at->name, at->replica == 0 ? "/R0" : "/R1");
      bool within = false;
      for (const trace_event *sweep = NULL;
           (sweep = trace_events_find(&all, "sweep", "replicate", sweep)) !=
           NULL;)
        within |= trace_event_is_within(at, sweep);
      assert_true(within);
    }
    assert_true(seen[0] && seen[1]);
  }
}

TEST(a_step_that_is_traced_takes_no_memory) {
  LS_OWN(traced_runtime, memory) = begin(1);
  LS_OWN(steps, s) = begin_steps(&world);
  ls_trace *trace = begin_trace(16);
  for (int i = 0; i < 5; ++i)
    take_step(&s, 13);
  const ls_allocator_counts before = counted_now(&memory);
  for (int i = 0; i < 20; ++i)
    take_step(&s, 13);
  assert_int_equal(counted_now(&memory).allocations, before.allocations);
  LS_OWN(trace_events, all) = {0};
  finish(trace, &all);
  // At least two spans a step: the oldest are gone, which is said.
  assert_true(all.lost >= 2 * 25 - 16);
  char text[80];
  bool told = false;
  for (size_t i = 0; i < all.count; ++i)
    told |= all.items[i].phase == 'i' &&
            sscanf(all.items[i].name, "%*d earlier spans are lo%2s", text) == 1;
  assert_true(told);
  assert_int_equal(trace_events_count(&all, "compile"), 0);
}

// ---- Other ways to run -----------------------------------------------------
TEST(sessions_and_eager_calls_are_shown) {
  LS_OWN(traced_runtime, memory) = begin(1);
  ls_tensor y;
  ls_trace *trace = begin_trace(0);
  ls_graph *graph = graph_named("a \"net\"\n\xff");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_scalar(LS_DTYPE_F32, 3);
    y = ls_op_output(ls_host_call_add(&hsq, NULL, &x, 1), 0);
  }
  expect_ok(ls_graph_take_error(graph));
  ls_session *session = session_of(graph);
  ls_nest result = session_results(session, ls_leaf(y));
  assert_true(ls_nest_number(result) == 9);
  ls_nest_release(result);
  ls_session_destroy(session);
  ls_graph_destroy(graph);
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 4);
  double value = 0;
  expect_ok(ls_tensor_item(ls_op_output(ls_host_call_add(&hsq, NULL, &x, 1), 0),
                           &value));
  assert_true(value == 16);
  expect_ok(ls_frame_end(NULL));
  LS_OWN(trace_events, all) = {0};
  finish(trace, &all);
  // The name is any text.
  const trace_event *run =
      trace_events_expect(&all, "run", "a \"net\"\n\xef\xbf\xbd");
  const trace_event *first = trace_events_expect(&all, "host", "hsq");
  assert_int_equal(first->replica, -1);
  assert_true(trace_event_is_within(first, run) &&
              first->thread != run->thread);
  const trace_event *second = trace_events_find(&all, "host", NULL, first);
  assert_non_null(second);
  assert_false(trace_event_is_within(second, run));
}

// ---- Waits -----------------------------------------------------------------
typedef struct entering {
  ls_worker thread;
  ls_gate *gate;
  ls_access access;
} entering;

static void enter_and_leave(void *user) {
  entering *self = user;
  if (ls_status_is_ok(ls_gate_enter(self->gate, &self->access)))
    ls_gate_leave(self->gate, &self->access);
}

static bool is_on_the_list(ls_gate *gate, const ls_access *access) {
  ls_mutex_lock(&gate->lock);
  const ls_access *at = gate->first;
  while (at != NULL && at != access)
    at = at->next;
  ls_mutex_unlock(&gate->lock);
  return at != NULL;
}

TEST(a_wait_for_variables_is_shown) {
  LS_OWN(traced_runtime, memory) = begin(1);
  ls_gate gate = {0};
  expect_ok(ls_gate_init(&gate, memory.runtime));
  ls_trace *trace = begin_trace(0);
  const ls_touch touch = {.family = 1, .written = true, .name = "w"};
  ls_access first = {.touches = &touch, .count = 1, .hold = LS_HOLD_TAKING};
  entering second = {.gate = &gate, .access = first};
  expect_ok(ls_gate_enter(&gate, &first));
  expect_ok(ls_worker_start(&second.thread, "second", NULL, enter_and_leave,
                            &second));
  // Whoever is on the list has let go of the lock to wait.
  while (!is_on_the_list(&gate, &second.access))
    sched_yield();
  const int64_t now = ls_runtime_now(memory.runtime);
  ls_gate_leave(&gate, &first);
  ls_worker_join(&second.thread);
  ls_gate_deinit(&gate);
  LS_OWN(trace_events, all) = {0};
  finish(trace, &all);
  const trace_event *wait = trace_events_expect(&all, "wait", "variables");
  assert_int_equal(trace_events_count(&all, "wait"), 1);
  assert_true(trace_events_is_of(&all, wait, "second"));
  assert_true(wait->time <= (double)now * 1e-3 + 1e-3 &&
              wait->time + wait->length >= (double)now * 1e-3 - 1e-3);
}

// Each rank has a runtime, and with it a trace, of its own.
static memory_files rank_files[2];

static ls_status trace_steps(ls_runtime *runtime) {
  ls_strategy *strategy = NULL;
  ls_trace *trace = NULL;
  ls_nest results = ls_none();
  ls_function *function = NULL;
  LS_RETURN_IF_ERROR(
      ls_trace_begin(runtime, &(ls_trace_options){.path = "t.json"}, &trace));
  ls_status status = ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy);
  if (ls_status_is_ok(status))
    status = ls_function_create(
        &(ls_function_options){.call = step, .user = &world}, &function);
  if (ls_status_is_ok(status))
    status =
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &results);
  ls_nest_release(results);
  ls_function_release(function);
  ls_strategy_release(strategy);
  ls_trace_end(trace);
  status = ls_status_join(status, ls_trace_write(trace, NULL));
  ls_trace_destroy(trace);
  return status;
}

static ls_status be_rank(ls_communicator *communicator, void *user) {
  (void)user;
  const ls_file_system files =
      memory_files_system(&rank_files[communicator->rank]);
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .threads = 1, .communicator = communicator, .file_system = &files});
  return trace_steps(home.runtime);
}

TEST(each_rank_shows_its_waits_for_the_others) {
  expect_ok(ls_standin_run(2, be_rank, NULL));
  for (int k = 0; k < 2; ++k) {
    trace_events all;
    char name[40];
    snprintf(name, sizeof(name), "lockstep, rank %d of 2", k);
    trace_events_read(&all, &rank_files[k], "t.json");
    const trace_event *call = trace_events_expect(&all, "call", "function");
    const trace_event *wait = trace_events_expect(&all, "wait", "ranks");
    assert_true(wait->thread == call->thread &&
                trace_event_is_within(wait, call));
    expect_contains(memory_files_find(&rank_files[k], "t.json")->data, name);
    trace_events_drop(&all);
    memory_files_clear(&rank_files[k]);
  }
}
