// SPDX-License-Identifier: Apache-2.0
//
// Host calls that take and give strings, in every way to run; and strings on
// their ways through branches, loops, functions and eager ops.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "lockstep/flow.h"
#include "lockstep/host.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/values.h"

enum { MOST_REPLICAS = 3, LENGTH = 64 };

// ---- Kernels ---------------------------------------------------------------
// The same in capitals with a mark behind, in memory that goes at once.
static void shout(ls_host_call *call) {
  const size_t count =
      (size_t)ls_shape_num_elements(call->input_types[0].shape);
  const ls_bytes *in = call->inputs[0];
  ls_bytes *out = call->outputs[0];
  HEAP(char, memory) = malloc(count * LENGTH);
  assert_non_null(memory);
  for (size_t i = 0; i < count; ++i) {
    char *text = memory + i * LENGTH;
    assert_true(in[i].size + 1 < LENGTH);
    assert_int_equal(in[i].data[in[i].size], 0);
    for (size_t k = 0; k < in[i].size; ++k)
      text[k] = (char)toupper(in[i].data[k]);
    text[in[i].size] = '!';
    out[i] = (ls_bytes){text, in[i].size + 1};
  }
  ls_host_done(call, ls_ok());
}

static ls_status start_shouting(ls_host_call *call) {
  shout(call);
  return ls_ok();
}

static ls_worker later;
static void shout_later(void *user) { shout(user); }

static ls_status start_later(ls_host_call *call) {
  ls_worker_join(&later);
  later = (ls_worker){0};
  return ls_worker_start(&later, "later", NULL, shout_later, call);
}

static ls_status start_wrong(ls_host_call *call) {
  *(ls_bytes *)call->outputs[0] = (ls_bytes){NULL, 3};
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status start_failing(ls_host_call *call) {
  *(ls_bytes *)call->outputs[0] = (ls_bytes){NULL, 3};
  return LS_STATUS(LS_DATA_LOSS, "the tape is torn");
}

static const ls_host_kernel shouting = {
    .name = "shouting", .infer = infer_like_first, .start = start_shouting};
static const ls_host_kernel shouting_later = {
    .name = "later", .infer = infer_like_first, .start = start_later};
static const ls_host_kernel silent = {
    .name = "silent", .infer = infer_like_first, .start = finish_at_once};
static const ls_host_kernel wrong = {
    .name = "wrong", .infer = infer_like_first, .start = start_wrong};
static const ls_host_kernel failing = {
    .name = "failing", .infer = infer_like_first, .start = start_failing};

static ls_tensor call_host(const ls_host_kernel *kernel, ls_tensor x) {
  return ls_op_output(ls_host_call_add(kernel, NULL, &x, 1), 0);
}

// ---- Strings ---------------------------------------------------------------
static ls_array *strings_of(const char *first, const char *second) {
  const ls_bytes strings[] = {{first, strlen(first)}, {second, strlen(second)}};
  ls_array *array = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(2), strings, &array));
  return array;
}

static void expect_strings(const ls_array *array, const char *first,
                           const char *second) {
  const char *const wanted[] = {first, second};
  const ls_bytes *strings = ls_array_data(array);
  for (size_t i = 0; i < 2; ++i) {
    assert_int_equal(strings[i].size, strlen(wanted[i]));
    assert_string_equal(strings[i].data, wanted[i]);
  }
}

// ---- A computation ---------------------------------------------------------
static ls_nest shout_again(ls_nest values, void *user) {
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 ls_leaf(call_host(user, ls_nest_tensor(values, 1))));
}

static ls_nest yes(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(call_host(&shouting, *(const ls_tensor *)user));
}

static ls_nest no(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(*(const ls_tensor *)user);
}

// x; once; three times more in a loop; and in a branch that is taken or not.
static ls_nest compute(ls_nest args, void *user) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  ls_tensor once = call_host(user, x);
  LS_OWN(ls_nest, made) = ls_while(
      below_three, shout_again, user,
      LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(once)), 0);
  const ls_tensor often = ls_nest_tensor(made, 1);
  const ls_tensor five = ls_scalar(LS_DTYPE_F32, 5);
  const ls_nest taken =
      ls_cond(ls_less(five, ls_add_scalar(five, 1)), yes, no, &once);
  const ls_nest other =
      ls_cond(ls_less(five, ls_add_scalar(five, -1)), yes, no, &once);
  return LS_LIST(ls_leaf(ls_identity(x)), ls_leaf(once), ls_leaf(often), taken,
                 other);
}

static const ls_array *part(ls_nest results, size_t leaf, int r) {
  const ls_nest item = ls_nest_item(results, leaf);
  return ls_nest_as_array(item.kind == LS_KIND_DISTRIBUTED
                              ? ls_distributed_component(item, (size_t)r)
                              : item);
}

static void expect_computed(ls_nest results, int r, const char *first) {
  char text[5][LENGTH + 8], upper[LENGTH];
  size_t size = 0;
  for (; first[size] != '\0' && size + 1 < LENGTH; ++size)
    upper[size] = (char)toupper(first[size]);
  upper[size] = '\0';
  snprintf(text[0], sizeof(text[0]), "%s", first);
  snprintf(text[1], sizeof(text[1]), "%s!", upper);
  snprintf(text[2], sizeof(text[2]), "%s!!!!", upper);
  snprintf(text[3], sizeof(text[3]), "%s!!", upper);
  snprintf(text[4], sizeof(text[4]), "%s!", upper);
  static const char *const second[] = {"b", "B!", "B!!!!", "B!!", "B!"};
  for (size_t i = 0; i < 5; ++i)
    expect_strings(part(results, i, r), text[i], second[i]);
}

static const ls_host_kernel *const kernels[] = {&shouting, &shouting_later};
static const char *const words[] = {"one", "", "another one"};

static ls_nest words_of(int replicas, int step) {
  ls_nest items[MOST_REPLICAS];
  for (int r = 0; r < replicas; ++r)
    items[r] = ls_nest_array(strings_of(words[(r + step) % 3], "b"));
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, (size_t)replicas));
}

TEST(traced_functions_have_strings_of_the_host) {
  for (size_t k = 0; k < LS_COUNT_OF(kernels); ++k)
    for (int replicas = 1; replicas <= MOST_REPLICAS; ++replicas) {
      ls_strategy *strategy = mirrored_of(replicas);
      ls_function *function =
          unnamed_function(compute, (void *)(uintptr_t)kernels[k]);
      ls_nest results[4];
      for (int step = 0; step < 4; ++step) {
        LS_OWN(ls_nest, args) = words_of(replicas, step);
        results[step] = ls_none();
        expect_ok(ls_strategy_run(strategy, ls_traced(function), args,
                                  &results[step]));
      }
      ls_function_release(function);
      ls_strategy_release(strategy);
      // Whatever has run since, and though all is gone.
      for (int step = 0; step < 4; ++step) {
        for (int r = 0; r < replicas; ++r)
          expect_computed(results[step], r, words[(r + step) % 3]);
        ls_nest_release(results[step]);
      }
    }
  ls_worker_join(&later);
  later = (ls_worker){0};
}

TEST(sessions_have_strings_of_the_host) {
  for (size_t k = 0; k < LS_COUNT_OF(kernels); ++k) {
    ls_tensor fed;
    ls_nest fetches, results[4];
    ls_graph *graph = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      fed = ls_placeholder(LS_DTYPE_STRING, LS_SHAPE(2), "fed");
      LS_OWN(ls_nest, args) = LS_LIST(ls_leaf(fed));
      fetches = compute(args, (void *)(uintptr_t)kernels[k]);
    }
    ls_session *session = session_of(graph);
    for (int step = 0; step < 4; ++step) {
      LS_OWN(ls_array, array) = strings_of(words[step % 3], "b");
      const ls_feed feed = {fed, array};
      results[step] = ls_none();
      expect_ok(ls_session_run(session, fetches, &feed, 1, &results[step]));
    }
    ls_session_destroy(session);
    ls_graph_destroy(graph);
    for (int step = 0; step < 4; ++step) {
      expect_computed(results[step], 0, words[step % 3]);
      ls_nest_release(results[step]);
    }
    ls_nest_release(fetches);
  }
  ls_worker_join(&later);
  later = (ls_worker){0};
}

static ls_nest value_of(ls_nest leaf, void *user) {
  (void)user;
  ls_array *array = tensor_array(leaf.as.tensor);
  return ls_nest_array(array);
}

TEST(eager_ops_have_strings_of_the_host) {
  for (size_t k = 0; k < LS_COUNT_OF(kernels); ++k)
    for (int step = 0; step < 3; ++step) {
      expect_ok(ls_frame_begin());
      ls_array *array = strings_of(words[step], "b");
      const ls_nest args = LS_LIST(ls_leaf(ls_constant(array)));
      ls_array_release(array);
      const ls_nest made = compute(args, (void *)(uintptr_t)kernels[k]);
      LS_OWN(ls_nest, results) = ls_nest_map(made, value_of, NULL);
      ls_nest_release(args);
      ls_nest_release(made);
      expect_ok(ls_frame_end(NULL));
      expect_computed(results, 0, words[step]);
    }
  ls_worker_join(&later);
  later = (ls_worker){0};
}

// ---- What kernels leave ----------------------------------------------------
static ls_nest call_one(ls_nest args, void *user) {
  return ls_leaf(call_host(user, ls_nest_tensor(args, 0)));
}

static ls_status call_kernel(const ls_host_kernel *kernel, ls_nest *results) {
  LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(strings_of("a", "b")));
  *results = ls_none();
  LS_OWN(ls_function, function) =
      unnamed_function(call_one, (void *)(uintptr_t)kernel);
  return ls_function_call(function, args, results);
}

TEST(strings_that_a_kernel_leaves_are_empty) {
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(call_kernel(&silent, &results));
  expect_strings(ls_nest_as_array(results), "", "");
}

TEST(bytes_at_null_are_refused_unless_the_call_has_failed) {
  ls_nest results;
  expect_status(call_kernel(&wrong, &results), LS_INVALID_ARGUMENT,
                "string 0 has 3 bytes at NULL\nin op");
  expect_status(call_kernel(&failing, &results), LS_DATA_LOSS,
                "the tape is torn");
}

// ---- A call that is given up -----------------------------------------------
static struct {
  bool goes;      // Atomic.
  bool is_right;  // Atomic.
} stuck;

static ls_status start_stuck(ls_host_call *call) {
  while (!__atomic_load_n(&stuck.goes, __ATOMIC_ACQUIRE))
    ls_clock_system()->sleep(NULL, 1000000);
  const ls_bytes *in = call->inputs[0];
  __atomic_store_n(&stuck.is_right,
                   in[0].size == 22 &&
                       memcmp(in[0].data, "long enough to be seen", 22) == 0,
                   __ATOMIC_RELEASE);
  shout(call);
  return ls_ok();
}

static const ls_host_kernel sticking = {
    .name = "sticking", .infer = infer_like_first, .start = start_stuck};

TEST(a_call_that_is_given_up_keeps_its_strings) {
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = 1, .stall_ms = 30});
  ls_nest results = ls_none();
  const ls_nest args =
      LS_LIST(ls_nest_array(strings_of("long enough to be seen", "b")));
  ls_function *function =
      unnamed_function(call_one, (void *)(uintptr_t)&sticking);
  expect_status(ls_function_call(function, args, &results),
                LS_DEADLINE_EXCEEDED, "no progress");
  ls_nest_release(args);
  ls_function_release(function);
  __atomic_store_n(&stuck.goes, true, __ATOMIC_RELEASE);
  for (int i = 0; i < 5000 && ls_runtime_abandoned_calls(home.runtime) > 0; ++i)
    ls_clock_system()->sleep(NULL, 1000000);
  assert_true(__atomic_load_n(&stuck.is_right, __ATOMIC_ACQUIRE));
}

// ---- Print -----------------------------------------------------------------
static void keep_line(void *user, const ls_log_line *line) {
  snprintf(user, 4 * LENGTH, "%s", line->text);
}

TEST(strings_are_printed_as_they_are) {
  char text[4 * LENGTH] = "";
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.log = keep_line, .log_user = text}, &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  expect_ok(ls_frame_begin());
  ls_array *array = strings_of("a \"b\"", "");
  (void)ls_print("it is", ls_constant(array));
  ls_array_release(array);
  expect_ok(ls_frame_end(NULL));
  (void)ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
  assert_string_equal(text, "it is string[2] [\"a \\\"b\\\"\" \"\"]");
}
