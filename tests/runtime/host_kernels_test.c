// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the host by their flags: inline ones, one call for all replicas,
// results taken in place; calls that begin early and end late.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "lockstep/distributed.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/values.h"

enum { WIDTH = 3, MOST_REPLICAS = 4 };

// What the kernels saw.
static struct {
  int calls, taken, left;
  int32_t replicas[64], counts[64];
  pthread_t thread;
  bool other_thread, taken_elsewhere, had_outputs;
  bool fails;
} seen;

static void note(const ls_host_call *call) {
  seen.replicas[seen.calls % 64] = call->replica;
  seen.counts[seen.calls % 64] = call->num_replicas;
  seen.other_thread |= !pthread_equal(pthread_self(), seen.thread);
  seen.had_outputs |= call->outputs != NULL;
  ++seen.calls;
}

static void reset(void) {
  memset(&seen, 0, sizeof(seen));
  seen.thread = pthread_self();
}

// The result of replica r: x + 100 r + y.
static void answer(ls_host_call *call) {
  for (int32_t k = 0; k < call->num_replicas; ++k) {
    const size_t r = (size_t)k;
    const float *x =
        (const float *)(const void *)((const char *)call->inputs[0] +
                                      r * call->input_strides[0]);
    const float *y =
        (const float *)(const void *)((const char *)call->inputs[1] +
                                      r * call->input_strides[1]);
    float *out = (float *)call->outputs[0] + r * WIDTH;
    for (int i = 0; i < WIDTH; ++i)
      out[i] = x[i] + 100 * (float)(call->replica + k) + y[i];
  }
}

static ls_status start_and_answer(ls_host_call *call) {
  note(call);
  if (seen.fails) return ls_out_of_range("it was told to");
  answer(call);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status start_only(ls_host_call *call) {
  note(call);
  call->room[0] = &seen;
  ls_host_done(call, seen.fails ? ls_out_of_range("it was told to") : ls_ok());
  return ls_ok();
}

static ls_status take(ls_host_call *call) {
  assert_ptr_equal(call->room[0], &seen);
  if (call->outputs == NULL) {
    ++seen.left;
    return ls_ok();
  }
  ++seen.taken;
  seen.taken_elsewhere |= !pthread_equal(pthread_self(), seen.thread);
  answer(call);
  return ls_ok();
}

static ls_status forget(ls_host_call *call) {
  note(call);
  return ls_ok();
}

static const ls_host_kernel in_line = {.name = "in_line",
                                       .infer = infer_like_first,
                                       .start = start_and_answer,
                                       .flags = LS_HOST_INLINE};
static const ls_host_kernel for_all = {.name = "for_all",
                                       .infer = infer_like_first,
                                       .start = start_and_answer,
                                       .flags = LS_HOST_INLINE | LS_HOST_ALL};
static const ls_host_kernel for_all_later = {.name = "for_all_later",
                                             .infer = infer_like_first,
                                             .start = start_and_answer,
                                             .flags = LS_HOST_ALL};
static const ls_host_kernel taken_here = {.name = "taken_here",
                                          .infer = infer_like_first,
                                          .start = start_only,
                                          .flags = LS_HOST_INLINE,
                                          .take = take};
static const ls_host_kernel taken_later = {.name = "taken_later",
                                           .infer = infer_like_first,
                                           .start = start_only,
                                           .take = take};
static const ls_host_kernel all_taken = {.name = "all_taken",
                                         .infer = infer_like_first,
                                         .start = start_only,
                                         .flags = LS_HOST_ALL,
                                         .take = take};
static const ls_host_kernel forgets = {.name = "forgets",
                                       .infer = infer_like_first,
                                       .start = forget,
                                       .flags = LS_HOST_INLINE};
static const ls_host_kernel uncancelled = {.name = "uncancelled",
                                           .infer = infer_like_first,
                                           .start = forget,
                                           .flags =
                                               LS_HOST_INLINE | LS_HOST_WAITS};

// ---- Values ----------------------------------------------------------------
typedef struct step {
  const ls_host_kernel *kernel;
  bool by_id;   // In a branch that only some replicas take.
  ls_tensor x;  // In that branch.
} step;

static ls_tensor call_host(const step *self, ls_tensor x) {
  const ls_tensor y = ls_fill(LS_DTYPE_F32, LS_SHAPE(WIDTH), 0.5);
  const ls_op op = ls_host_call_add(self->kernel, NULL, (ls_tensor[]){x, y}, 2);
  return ls_op_output(op, 0);
}

static ls_nest called(ls_nest values, void *user) {
  (void)values;
  const step *self = user;
  return ls_leaf(call_host(self, self->x));
}

static ls_nest passed(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(((const step *)user)->x);
}

static ls_nest step_of(ls_nest args, void *user) {
  step *self = user;
  const ls_tensor x = ls_reshape(ls_nest_tensor(args, 0), LS_SHAPE(WIDTH));
  if (!self->by_id) return ls_leaf(ls_mul_scalar(call_host(self, x), 2));
  const ls_tensor id = ls_replica_id();
  self->x = x;
  return ls_cond(ls_equal(ls_remainder(id, ls_scalar_i64(LS_DTYPE_I32, 2)),
                          ls_scalar_i64(LS_DTYPE_I32, 1)),
                 called, passed, user);
}

static const float *data_of(ls_nest made, int replica) {
  if (ls_distributed_count(made) > 0)
    made = ls_distributed_component(made, (size_t)replica);
  return ls_array_data(ls_nest_as_array(made));
}

static ls_nest rows(int replicas) {
  double values[MOST_REPLICAS * WIDTH];
  for (int i = 0; i < replicas * WIDTH; ++i)
    values[i] = i;
  return LS_LIST(split_of(
      replicas, array_of(LS_DTYPE_F32, LS_SHAPE(replicas, WIDTH), values)));
}

static void expect_answers(const ls_host_kernel *kernel, int replicas) {
  step self = {.kernel = kernel};
  LS_OWN(ls_nest, x) = rows(replicas);
  reset();
  LS_OWN(ls_nest, made) = call_on(replicas, step_of, &self, x, 2);
  for (int r = 0; r < replicas; ++r) {
    const float *out = data_of(made, r);
    for (int i = 0; i < WIDTH; ++i)
      assert_true(out[i] ==
                  2 * ((float)(r * WIDTH + i) + 100 * (float)r + 0.5F));
  }
  const bool by_one = (kernel->flags & LS_HOST_ALL) != 0;
  assert_int_equal(seen.calls, by_one ? 2 : 2 * replicas);
  for (int i = 0; i < seen.calls; ++i) {
    assert_int_equal(seen.replicas[i], by_one ? 0 : i % replicas);
    assert_int_equal(seen.counts[i], by_one ? replicas : 1);
  }
  if (kernel->flags & LS_HOST_INLINE) assert_false(seen.other_thread);
  assert_false(seen.taken_elsewhere);
  assert_int_equal(seen.had_outputs, kernel->take == NULL);
  assert_int_equal(seen.taken, kernel->take == NULL ? 0 : seen.calls);
  assert_int_equal(seen.left, 0);
}

static const ls_host_kernel *const all_kernels[] = {
    &in_line, &for_all, &for_all_later, &taken_here, &taken_later, &all_taken};

TEST(every_kind_of_kernel_answers_each_replica) {
  for (size_t k = 0; k < LS_COUNT_OF(all_kernels); ++k)
    for (int replicas = 1; replicas <= MOST_REPLICAS; ++replicas)
      expect_answers(all_kernels[k], replicas);
}

TEST(a_call_that_some_replicas_make_is_theirs_alone) {
  for (size_t k = 0; k < LS_COUNT_OF(all_kernels); ++k) {
    step self = {.kernel = all_kernels[k], .by_id = true};
    LS_OWN(ls_nest, x) = rows(MOST_REPLICAS);
    reset();
    LS_OWN(ls_nest, made) = call_on(MOST_REPLICAS, step_of, &self, x, 1);
    assert_int_equal(seen.calls, 2);
    for (int i = 0; i < 2; ++i) {
      assert_int_equal(seen.replicas[i] % 2, 1);
      assert_int_equal(seen.counts[i], 1);
    }
    const float *out = data_of(made, 3);
    assert_true(out[0] == 9 + 300 + 0.5F);
  }
}

// ---- Failures --------------------------------------------------------------
static ls_status try_on(int replicas, step *self) {
  LS_OWN(ls_nest, x) = rows(replicas);
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_function, function) = unnamed_function(step_of, self);
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  return ls_strategy_run(strategy, ls_traced(function), x, &results);
}

TEST(a_call_that_fails_names_its_op_and_replica) {
  for (size_t k = 0; k < LS_COUNT_OF(all_kernels); ++k) {
    step self = {.kernel = all_kernels[k]};
    reset();
    seen.fails = true;
    ls_status status = try_on(2, &self);
    assert_int_equal(ls_status_code(status), LS_OUT_OF_RANGE);
    expect_contains(ls_status_message(status), all_kernels[k]->name);
    expect_contains(ls_status_message(status), "replica 0");
    ls_status_free(status);
    assert_int_equal(seen.taken + seen.left, 0);
  }
}

TEST(an_inline_call_that_does_not_end_is_an_error) {
  step self = {.kernel = &forgets};
  reset();
  expect_status(try_on(1, &self), LS_INTERNAL, "is not marked as waiting");
}

TEST(who_waits_must_be_cancellable) {
  step self = {.kernel = &uncancelled};
  reset();
  expect_status(try_on(1, &self), LS_INVALID_ARGUMENT, "cancelled");
}

// ---- Many results ----------------------------------------------------------
enum { MANY = 100 };

static ls_status infer_many(const ls_object *state, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)num_in;
  for (size_t i = 0; *num_out >= MANY && i < MANY; ++i)
    out[i] = in[0];
  *num_out = MANY;
  return ls_ok();
}

static ls_status give_many(ls_host_call *call) {
  assert_int_equal(call->num_outputs, MANY);
  for (int i = 0; i < MANY; ++i)
    *(float *)call->outputs[i] = *(const float *)call->inputs[0] + (float)i;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel many = {
    .name = "many", .infer = infer_many, .start = give_many};
static const ls_host_kernel many_here = {.name = "many_here",
                                         .infer = infer_many,
                                         .start = give_many,
                                         .flags = LS_HOST_INLINE};

static ls_nest sum_of_many(ls_nest args, void *user) {
  const ls_tensor x = ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES);
  const ls_op op = ls_host_call_add(user, NULL, &x, 1);
  ls_tensor sum = ls_op_output(op, 0);
  for (unsigned i = 1; i < MANY; ++i)
    sum = ls_add(sum, ls_op_output(op, i));
  return ls_leaf(sum);
}

TEST(a_call_has_as_many_results_as_wanted) {
  const ls_host_kernel *const kernels[] = {&many, &many_here};
  for (int i = 0; i < 4; ++i) {
    LS_OWN(ls_nest, x) = rows(1 + i / 2);
    LS_OWN(ls_nest, made) = call_on(1 + i / 2, sum_of_many,
                                    (void *)(uintptr_t)kernels[i % 2], x, 1);
    assert_true(*data_of(made, 0) == MANY * 3 + (MANY - 1) * MANY / 2);
  }
  // Op by op.
  const double three = 3;
  expect_ok(ls_frame_begin());
  const ls_nest args =
      LS_LIST(ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(1), &three)));
  const ls_nest made = sum_of_many(args, (void *)(uintptr_t)&many);
  assert_true(item_of(ls_nest_tensor(made, 0)) ==
              MANY * 3 + (MANY - 1) * MANY / 2);
  ls_nest_release(made);
  ls_nest_release(args);
  expect_ok(ls_frame_end(NULL));
}

// ---- Early and late --------------------------------------------------------
// What a call does not need, and what does not need it, stands between its
// start and its end.
static ls_nest call_beside(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor w = ls_nest_tensor(args, 1);
  const ls_tensor before = ls_neg(x);
  const ls_tensor beside = ls_matmul(w, w);
  const ls_tensor asked = call_host(user, before);
  return LS_LIST(ls_leaf(asked), ls_leaf(beside),
                 ls_leaf(ls_add(asked, ls_reduce_sum(beside, LS_ALL_AXES))));
}

static const char *find(const char *text, const char *part) {
  const char *at = strstr(text, part);
  if (at == NULL) fail_msg("no '%s' in:\n%s", part, text);
  return at;
}

TEST(what_a_call_does_not_need_is_computed_meanwhile) {
  step self = {.kernel = &for_all_later};
  const double ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  LS_OWN(ls_nest, args) =
      LS_LIST(ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(WIDTH), ones)),
              ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(4, 4), ones)));
  LS_OWN(printed, plan) = NULL;
  reset();
  LS_OWN(ls_function, function) = unnamed_function(call_beside, &self);
  LS_OWN(ls_nest, results) = call_results(function, args);
  expect_ok(ls_function_print_plan(function, &plan));
  // The negation is fused with another op.
  const char *needed = find(plan, "fused"), *start = find(plan, "host_start");
  const char *product = find(plan, "matmul"), *end = find(plan, "host_finish");
  assert_true(needed < start);
  assert_true(start < product);
  assert_true(product < end);
}

// ---- Functions with a user -------------------------------------------------
typedef struct listener {
  int calls;  // Atomic.
  double sum;
  bool fails;
} listener;

static ls_status hear(ls_nest values, void *user) {
  listener *l = user;
  const ls_nest x = ls_nest_find(values, "x");
  __atomic_add_fetch(&l->calls, 1, __ATOMIC_RELAXED);
  if (l->fails) return LS_STATUS(LS_DATA_LOSS, "deaf");
  l->sum = ls_array_f64(ls_nest_as_array(x), 0) +
           ls_array_f64(ls_nest_as_array(ls_nest_find(values, "y")), 1);
  return ls_ok();
}

static ls_nest tell_listener(ls_nest args, void *user) {
  static const char *const keys[] = {"x", "y"};
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest items[] = {ls_leaf(x), ls_leaf(ls_mul_scalar(x, 10))};
  LS_OWN(ls_nest, dict) = ls_nest_dict("", keys, items, 2);
  (void)ls_host_function_op(hear, user, dict);
  return ls_leaf(ls_neg(x));
}

// Traced, op by op, and in a session.
TEST(a_function_on_the_host_knows_its_user) {
  const double numbers[] = {1, 2};
  listener l = {0};
  const ls_nest args =
      LS_LIST(ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(2), numbers)));
  ls_function *function = unnamed_function(tell_listener, &l);
  ls_nest results = call_results(function, args);
  assert_int_equal(l.calls, 1);
  assert_true(l.sum == 21);
  l.fails = true;
  expect_status(ls_function_call(function, args, &results), LS_DATA_LOSS,
                "deaf");
  ls_nest_release(results);
  ls_nest_release(args);
  ls_function_release(function);
  l = (listener){0};
  expect_ok(ls_frame_begin());
  const ls_nest eager =
      LS_LIST(ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(2), numbers)));
  ls_nest_release(tell_listener(eager, &l));
  ls_nest_release(eager);
  expect_ok(ls_frame_end(NULL));
  assert_int_equal(l.calls, 1);
  assert_true(l.sum == 21);
}

TEST(what_a_function_on_the_host_cannot_be_given_is_refused) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    assert_int_equal(ls_host_function_op(NULL, NULL, ls_none()).id, 0);
    expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT, "is NULL");
    assert_int_equal(ls_host_function_op(hear, NULL, ls_nest_i64(1)).id, 0);
    expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT,
                  "is no tensor");
    assert_int_not_equal(ls_host_function_op(hear, NULL, ls_none()).id, 0);
  }
}
