// SPDX-License-Identifier: Apache-2.0
//
// Host kernels that give their results instead of writing them: they are read
// where they stand until the run needs them no more, and copied where they must
// lie elsewhere; the values are the same.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "lockstep/distributed.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/host.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/values.h"

enum { WIDTH = 512, ROOM = 64 + WIDTH * sizeof(float) };

// The k-th call gives k, k + 1, ...
static struct {
  int taken, ended, lent, most_lent;
  size_t off;  // Bytes from where 64 divides the address.
} seen;

static void reset(size_t off) {
  memset(&seen, 0, sizeof(seen));
  seen.off = off;
}

static ls_status infer_row(const ls_object *state, const ls_type *in,
                           size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)in, (void)num_in;
  out[0] = (ls_type){LS_DTYPE_F32, LS_SHAPE(WIDTH)};
  *num_out = 1;
  return ls_ok();
}

static float *values_of(ls_host_call *call) {
  return (float *)(void *)((char *)call->room[0] + seen.off);
}

static ls_status give(ls_host_call *call) {
  if (call->outputs == NULL) return ls_ok();
  call->room[0] = aligned_alloc(64, ROOM);
  call->room[1] = (void *)(intptr_t)++seen.taken;
  for (int i = 0; i < WIDTH; ++i)
    values_of(call)[i] = (float)(seen.taken + i);
  if (++seen.lent > seen.most_lent) seen.most_lent = seen.lent;
  return ls_host_give(call, 0, values_of(call));
}

// Nothing has written there, and nobody will read there.
static void end(ls_host_call *call) {
  if (call->room[0] == NULL) return;
  ++seen.ended;
  --seen.lent;
  const int first = (int)(intptr_t)call->room[1];
  for (int i = 0; i < WIDTH; ++i)
    assert_true(values_of(call)[i] == (float)(first + i));
  memset(call->room[0], 0xff, ROOM);
  free(call->room[0]);
}

static const ls_host_kernel on_thread = {.name = "gives",
                                         .infer = infer_row,
                                         .start = finish_at_once,
                                         .flags = LS_HOST_GIVES,
                                         .take = give,
                                         .end = end};
static const ls_host_kernel at_once = {.name = "gives_at_once",
                                       .infer = infer_row,
                                       .start = finish_at_once,
                                       .flags = LS_HOST_GIVES | LS_HOST_INLINE,
                                       .take = give,
                                       .end = end};
static const ls_host_kernel endless = {.name = "endless",
                                       .infer = infer_row,
                                       .start = finish_at_once,
                                       .flags = LS_HOST_GIVES,
                                       .take = give};

static ls_tensor given(const ls_host_kernel *kernel) {
  return ls_op_output(ls_host_call_add(kernel, NULL, NULL, 0), 0);
}

// The first of call k, and what all of it add up to.
static double sum_from(int first) {
  return WIDTH * (double)first + WIDTH * (WIDTH - 1) / 2.0;
}

static ls_tensor sum(ls_tensor x) { return ls_reduce_sum(x, LS_ALL_AXES); }

// ---- Programs --------------------------------------------------------------
static ls_nest read_in_place(ls_nest args, void *user) {
  (void)args;
  const ls_tensor x = given(user);
  // Would be made in its operand's place, if that were the run's.
  return ls_leaf(sum(ls_neg(ls_neg(ls_exp(ls_mul_scalar(x, 0))))));
}

static ls_nest add_up(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(sum(given(user)));
}

static ls_nest pass_on(ls_nest args, void *user) {
  (void)args;
  const ls_tensor x = given(user);
  return LS_TUPLE(ls_leaf(x), ls_leaf(sum(x)));
}

static ls_nest add_trip(ls_nest values, void *user) {
  const ls_tensor x = given(user);
  return LS_TUPLE(ls_leaf(ls_add(ls_nest_tensor(values, 0), sum(x))),
                  ls_leaf(x));
}

enum { TRIPS = 5 };

// What the trips add up to, and the last one's row, which the loop carries.
static ls_nest loop(ls_nest args, void *user) {
  (void)args;
  return ls_while(always_true, add_trip, user,
                  LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)),
                           ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(WIDTH), 0))),
                  TRIPS);
}

static double number(ls_nest results, size_t leaf, int64_t item) {
  ls_nest leaves[2] = {results};
  if (ls_nest_is_node(results)) ls_nest_flatten(results, leaves, 2);
  return ls_array_f64(ls_nest_as_array(leaves[leaf]), item);
}

// Runs it so often as a function or in a session; the results are the caller's.
static ls_status run(bool traced, ls_callback body,
                     const ls_host_kernel *kernel, int times, ls_nest *results,
                     char **out_plan) {
  void *user = (void *)(uintptr_t)kernel;
  ls_status status = ls_ok();
  if (traced) {
    LS_OWN(ls_function, function) = NULL;
    LS_RETURN_IF_ERROR(ls_function_create(
        &(ls_function_options){.call = body, .user = user}, &function));
    for (int i = 0; i < times && ls_status_is_ok(status); ++i) {
      status = ls_function_call(function, ls_none(), results);
      assert_int_equal(seen.lent, 0);
    }
    if (ls_status_is_ok(status) && out_plan != NULL)
      status = ls_function_print_plan(function, out_plan);
    return status;
  }
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("given", &graph));
  LS_OWN(ls_nest, fetch) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    fetch = body(ls_none(), user);
  }
  status = ls_session_create(graph, &session);
  for (int i = 0; i < times && ls_status_is_ok(status); ++i) {
    status = ls_session_run(session, fetch, NULL, 0, results);
    assert_int_equal(seen.lent, 0);
  }
  return status;
}

static const ls_host_kernel *const kernels[] = {&on_thread, &at_once};

// ---- Tests -----------------------------------------------------------------
TEST(what_is_given_is_read_where_it_stands) {
  for (size_t k = 0; k < LS_COUNT_OF(kernels); ++k)
    for (size_t off = 0; off < 64; off += 36)
      for (int traced = 0; traced < 2; ++traced) {
        LS_OWN(ls_nest, results) = ls_none();
        LS_OWN(printed, plan) = NULL;
        reset(off);
        expect_ok(run(traced, add_up, kernels[k], 3, &results, &plan));
        assert_true(number(results, 0, 0) == sum_from(3));
        assert_int_equal(seen.ended, 3);
        assert_int_equal(seen.most_lent, 1);
        // One that ends at once is short enough to write its results.
        if (plan != NULL)
          assert_int_equal(strstr(plan, "given 0") != NULL,
                           kernels[k] == &on_thread);
        expect_ok(run(traced, read_in_place, kernels[k], 2, &results, NULL));
        assert_true(number(results, 0, 0) == WIDTH);
      }
}

TEST(what_must_lie_elsewhere_is_copied) {
  for (size_t k = 0; k < LS_COUNT_OF(kernels); ++k)
    for (int traced = 0; traced < 2; ++traced) {
      LS_OWN(ls_nest, results) = ls_none();
      reset(0);
      expect_ok(run(traced, pass_on, kernels[k], 3, &results, NULL));
      assert_true(number(results, 0, 7) == 10);
      assert_true(number(results, 1, 0) == sum_from(3));
      reset(0);
      expect_ok(run(traced, loop, kernels[k], 2, &results, NULL));
      assert_int_equal(seen.taken, 2 * TRIPS);
      assert_int_equal(seen.ended, 2 * TRIPS);
      assert_int_equal(seen.most_lent, 1);
      assert_true(number(results, 0, 0) == sum_from(6) + sum_from(7) +
                                               sum_from(8) + sum_from(9) +
                                               sum_from(10));
      assert_true(number(results, 1, 3) == 13);
    }
}

TEST(an_eager_op_may_give_too) {
  for (size_t k = 0; k < LS_COUNT_OF(kernels); ++k) {
    reset(0);
    expect_ok(ls_frame_begin());
    const ls_tensor first = given(kernels[k]), second = given(kernels[k]);
    assert_true(item_of(sum(second)) == sum_from(2));
    assert_true(item_of(sum(first)) == sum_from(1));
    expect_ok(ls_frame_end(NULL));
    assert_int_equal(seen.ended, 2);
  }
}

TEST(replicas_have_parts_of_what_is_given) {
  for (size_t k = 0; k < LS_COUNT_OF(kernels); ++k)
    for (int replicas = 1; replicas <= 3; ++replicas) {
      reset(0);
      LS_OWN(ls_nest, made) = call_on(
          replicas, add_up, (void *)(uintptr_t)kernels[k], ls_none(), 2);
      double all = 0, want = 0;
      for (int r = 0; r < replicas; ++r) {
        const ls_nest own = ls_distributed_count(made) > 0
                                ? ls_distributed_component(made, (size_t)r)
                                : made;
        all += number(own, 0, 0);
        want += sum_from(replicas + r + 1);
      }
      assert_true(all == want);
      assert_int_equal(seen.ended, 2 * replicas);
    }
}

static ls_nest fail_behind(ls_nest args, void *user) {
  (void)args;
  const ls_tensor x = sum(given(user));
  (void)ls_assert_true(ls_less(x, ls_scalar(LS_DTYPE_F32, 0)), "never");
  return ls_leaf(x);
}

TEST(a_run_that_fails_gives_back_too) {
  for (int traced = 0; traced < 2; ++traced) {
    LS_OWN(ls_nest, results) = ls_none();
    reset(0);
    ls_status status = run(traced, fail_behind, &on_thread, 1, &results, NULL);
    // Who does not fetch an assertion does not run it.
    assert_int_equal(ls_status_is_ok(status), !traced);
    ls_status_free(status);
    assert_int_equal(seen.taken, 1);
    assert_int_equal(seen.ended, 1);
  }
}

// ---- Calls that do not come back --------------------------------------------
static bool hangs;  // Atomic: until it is false, a call waits.

static ls_status finish_late(ls_host_call *call) {
  while (__atomic_load_n(&hangs, __ATOMIC_ACQUIRE))
    ls_clock_system()->sleep(NULL, 1000000);
  return finish_at_once(call);
}

// A clock that stands, but that while a call waits each look is a second later.
static int64_t look(void *user) {
  const int64_t step =
      __atomic_load_n(&hangs, __ATOMIC_ACQUIRE) ? INT64_C(1000000000) : 1;
  return __atomic_add_fetch((int64_t *)user, step, __ATOMIC_RELAXED);
}

TEST(a_call_that_does_not_come_back_leaves_no_copies) {
  static const ls_host_kernel late = {.name = "gives_late",
                                      .infer = infer_row,
                                      .start = finish_late,
                                      .flags = LS_HOST_GIVES,
                                      .take = give,
                                      .end = end};
  int64_t time = 0;
  const ls_clock clock = {.now = look, .user = &time};
  LS_OWN(counted, here) = counted_begin_with(
      (ls_runtime_options){.threads = 1, .clock = &clock});
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  reset(4);
  expect_ok(ls_function_create(
      &(ls_function_options){.call = add_up,
                             .user = (void *)(uintptr_t)&late},
      &function));
  expect_ok(ls_function_call(function, ls_none(), &results));
  __atomic_store_n(&hangs, true, __ATOMIC_RELEASE);
  expect_status(ls_function_call(function, ls_none(), &results),
                LS_DEADLINE_EXCEEDED, "no progress");
  assert_int_equal(ls_runtime_abandoned_calls(here.runtime), 1);
  __atomic_store_n(&hangs, false, __ATOMIC_RELEASE);
  while (ls_runtime_abandoned_calls(here.runtime) > 0)
    ls_clock_system()->sleep(NULL, 1000000);
}

TEST(who_gives_must_say_when_it_ends) {
  for (int traced = 0; traced < 2; ++traced) {
    LS_OWN(ls_nest, results) = ls_none();
    expect_status(run(traced, add_up, &endless, 1, &results, NULL),
                  LS_INVALID_ARGUMENT, "needs `take` and `end`");
  }
}

MEMORY_TEST(give_unaligned) {
  LS_OWN(ls_nest, results) = ls_none();
  reset(4);
  return run(true, add_up, &on_thread, 2, &results, NULL);
}
