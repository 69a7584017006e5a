// SPDX-License-Identifier: Apache-2.0
#include "support/parties.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/threads/threads.h"
#include "lockstep/communicator.h"
#include "lockstep/flow.h"
#include "lockstep/host.h"
#include "lockstep/strategy_extended.h"
#include "support/callbacks.h"
#include "support/values.h"

// ---- Calls of the host -----------------------------------------------------
// All ranks'.
static struct {
  pthread_mutex_t lock;
  party_call items[PARTY_MOST_CALLS];
  size_t count;
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note(const ls_host_call *c, int32_t replica, float value) {
  const ls_communicator *communicator = ls_runtime_communicator(c->runtime);
  const int32_t *who = c->inputs[1];  // The party's number, and its replicas.
  if (communicator != NULL && communicator->rank > 0 && who[1] == 1) return;
  pthread_mutex_lock(&calls.lock);
  if (calls.count < PARTY_MOST_CALLS)
    calls.items[calls.count++] = (party_call){who[0], replica, value};
  pthread_mutex_unlock(&calls.lock);
}

static ls_status note_and_halve(ls_host_call *c) {
  for (int32_t r = 0; r < c->num_replicas; ++r) {
    const float *in = (const float *)((const char *)c->inputs[0] +
                                      (size_t)r * c->input_strides[0]);
    float *out = (float *)c->outputs[0] + (size_t)r * PARTY_WIDTH;
    for (size_t i = 0; i < PARTY_WIDTH; ++i)
      out[i] = in[i] / 2;
    note(c, c->replica + r, in[0]);
  }
  ls_host_done(c, ls_ok());
  return ls_ok();
}

static const ls_host_kernel kernels[] = {
    {.name = "each", .infer = infer_like_first, .start = note_and_halve},
    {.name = "all",
     .infer = infer_like_first,
     .start = note_and_halve,
     .flags = LS_HOST_ALL},
    {.name = "here",
     .infer = infer_like_first,
     .start = note_and_halve,
     .flags = LS_HOST_INLINE}};

static bool comes_before(const party_call *a, const party_call *b) {
  return a->party != b->party ? a->party < b->party : a->replica < b->replica;
}

void party_forget_calls(void) { calls.count = 0; }

size_t party_calls(party_call *out) {
  memcpy(out, calls.items, calls.count * sizeof(*out));
  // Stable: the order of each replica's calls stays.
  for (size_t i = 1; i < calls.count; ++i)
    for (size_t k = i; k > 0 && comes_before(&out[k], &out[k - 1]); --k) {
      const party_call moved = out[k];
      out[k] = out[k - 1];
      out[k - 1] = moved;
    }
  return calls.count;
}

// ---- Its step --------------------------------------------------------------
static ls_tensor go_once(const party *p, ls_tensor y) {
  const ls_tensor met = ls_all_reduce(LS_REDUCE_MEAN, y);
  LS_OWN(ls_array, who) =
      array_of(LS_DTYPE_I32, LS_SHAPE(2), (double[]){p->number, p->replicas});
  const ls_tensor inputs[] = {ls_sub(y, met), ls_constant(who)};
  const ls_op op = ls_host_call_add(
      &kernels[(size_t)p->number % LS_COUNT_OF(kernels)], NULL, inputs, 2);
  return ls_tanh(ls_add(ls_op_output(op, 0), met));
}

static ls_nest go_round(ls_nest values, void *user) {
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(go_once(user, ls_nest_tensor(values, 1))));
}

// A loop in which replicas meet and call the host. They do not meet in one of a
// plain callback.
static ls_status go_three_times(party *p, ls_tensor *y) {
  for (int i = 0; p->is_plain && i < 3; ++i)
    *y = go_once(p, *y);
  if (p->is_plain) return ls_ok();
  LS_OWN(ls_nest, last) = ls_while(
      below_three, go_round, p,
      LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(*y)), 0);
  LS_RETURN_IF_ERROR(ls_nest_status(last));
  *y = ls_nest_tensor(last, 1);
  return ls_ok();
}

ls_tensor party_tensor(ls_nest leaf) {
  ls_tensor x = ls_failed_tensor();
  ls_status_free(ls_distributed_as_tensor(leaf, &x));
  return x;
}

// A replica's: of its rows and of what is for all. Gives its own value, the sum
// of all, and the rows of all.
static ls_nest step_of(ls_nest args, void *user) {
  party *p = user;
  const ls_tensor rows = party_tensor(ls_nest_item(args, 0));
  const ls_tensor given = party_tensor(ls_nest_item(args, 1));
  const ls_tensor factor = ls_mul(ls_variable_read(p->weights), given);
  ls_tensor own = ls_tanh(ls_mul(ls_reduce_sum(rows, LS_AXES(0)), factor));
  const ls_status status = go_three_times(p, &own);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, own);
  ls_variable_assign_add(p->weights, ls_mul_scalar(sum, 0.125));
  ls_variable_assign_add(p->sums, own);
  return LS_TUPLE(
      ls_leaf(own), ls_leaf(sum),
      ls_leaf(ls_all_gather(ls_reshape(own, LS_SHAPE(1, PARTY_WIDTH)), 0)));
}

// ---- A party ---------------------------------------------------------------
void party_make(party *p, int32_t number, int32_t replicas) {
  *p = (party){.number = number, .replicas = replicas};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &p->strategy));
  LS_OWN(ls_array, initial) = array_of_numbers(
      LS_DTYPE_F32, LS_SHAPE(PARTY_WIDTH), (uint32_t)(number + 5));
  char name[24];
  LS_STRATEGY_SCOPE(p->strategy);
  snprintf(name, sizeof(name), "weights_%d", number);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = initial},
      &p->weights));
  snprintf(name, sizeof(name), "sums_%d", number);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name,
                             .initial_array = initial,
                             .synchronization = LS_SYNCHRONIZATION_ON_READ,
                             .aggregation = LS_AGGREGATION_SUM},
      &p->sums));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = step_of, .user = p}, &p->step));
}

void party_drop(party *p) {
  ls_function_release(p->step);
  ls_variable_release(p->sums);
  ls_variable_release(p->weights);
  ls_strategy_release(p->strategy);
}

// The rows, dealt to its replicas; every second party's, one less, so that some
// replicas have others' shapes.
static ls_nest deal(const party *p, ls_tensor rows) {
  ls_nest parts[PARTY_MOST_REPLICAS];
  const int64_t count = PARTY_ROWS - p->number % 2;
  for (int32_t r = 0; r < p->replicas; ++r)
    parts[r] = ls_leaf(ls_slice_axis(rows, 0, r * count / p->replicas,
                                     (r + 1) * count / p->replicas));
  return ls_nest_distributed(LS_PER_REPLICA, parts, (size_t)p->replicas);
}

ls_status party_run(party *p, ls_tensor rows, ls_tensor factor,
                    ls_nest *results) {
  LS_OWN(ls_nest, args) = LS_TUPLE(deal(p, rows), ls_leaf(factor));
  return ls_strategy_run(
      p->strategy, p->is_plain ? ls_plain(step_of, p) : ls_traced(p->step),
      args, results);
}
