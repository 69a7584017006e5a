// SPDX-License-Identifier: Apache-2.0
#include "support/cut_steps.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "base/threads/threads.h"
#include "lockstep/communicator.h"
#include "lockstep/host.h"
#include "lockstep/replica.h"
#include "lockstep/strategy_extended.h"
#include "support/callbacks.h"
#include "support/values.h"

// ---- Calls of the host -----------------------------------------------------
// What each replica has called, in its order, on all ranks together.
static struct {
  pthread_mutex_t lock;
  cut_call calls[CUT_MOST_CALLS];
  size_t count;
  bool strayed;  // To a rank that does not host the replica.
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_at_home(const ls_host_call *c, int32_t replica) {
  const ls_communicator *communicator = ls_runtime_communicator(c->runtime);
  if (communicator == NULL) return true;
  const int32_t all = *(const int32_t *)c->inputs[2];
  return ls_communicator_first(communicator, communicator->rank, all) <=
             replica &&
         replica <
             ls_communicator_first(communicator, communicator->rank + 1, all);
}

static void note(const ls_host_call *c, int32_t replica, float value) {
  pthread_mutex_lock(&calls.lock);
  calls.strayed |= !is_at_home(c, replica);
  if (calls.count < CUT_MOST_CALLS)
    calls.calls[calls.count++] =
        (cut_call){.op = *(const int32_t *)c->inputs[1],
                   .replicas = *(const int32_t *)c->inputs[2],
                   .replica = replica,
                   .value = value};
  pthread_mutex_unlock(&calls.lock);
}

static ls_status note_and_double(ls_host_call *c) {
  const int64_t count = ls_shape_num_elements(c->input_types[0].shape);
  for (int32_t r = 0; r < c->num_replicas; ++r) {
    const float *in = (const float *)((const char *)c->inputs[0] +
                                      (size_t)r * c->input_strides[0]);
    float *out = (float *)c->outputs[0] + r * count;
    for (int64_t i = 0; i < count; ++i)
      out[i] = 2 * in[i];
    note(c, c->replica + r, in[0]);
  }
  ls_host_done(c, ls_ok());
  return ls_ok();
}

// One on a thread of the host's, one on the run's own, one for all replicas.
static const ls_host_kernel kernels[] = {
    {.name = "on_host", .infer = infer_like_first, .start = note_and_double},
    {.name = "on_run",
     .infer = infer_like_first,
     .start = note_and_double,
     .flags = LS_HOST_INLINE},
    {.name = "for_all",
     .infer = infer_like_first,
     .start = note_and_double,
     .flags = LS_HOST_ALL}};

static bool comes_before(const cut_call *a, const cut_call *b) {
  return a->replicas != b->replicas ? a->replicas < b->replicas
                                    : a->replica < b->replica;
}

void cut_forget_calls(void) {
  calls.count = 0;
  calls.strayed = false;
}

bool cut_has_strayed(void) { return calls.strayed; }

size_t cut_calls(cut_call *out) {
  // Stable: each replica's own order stays.
  for (size_t i = 1; i < calls.count; ++i)
    for (size_t k = i;
         k > 0 && comes_before(&calls.calls[k], &calls.calls[k - 1]); --k) {
      const cut_call moved = calls.calls[k];
      calls.calls[k] = calls.calls[k - 1];
      calls.calls[k - 1] = moved;
    }
  memcpy(out, calls.calls, calls.count * sizeof(*out));
  return calls.count;
}

static void call_host(step_state *s) {
  const ls_tensor number =
      ls_scalar_i64(LS_DTYPE_I32, (int64_t)step_below(&s->draw, 1000));
  const ls_tensor inputs[] = {s->values[step_pick(s)], number,
                              ls_scalar_i64(LS_DTYPE_I32, s->self->replicas)};
  const ls_op op = ls_host_call_add(
      &kernels[step_below(&s->draw, LS_COUNT_OF(kernels))], NULL, inputs, 3);
  // Now and then nobody wants the result.
  if (step_below(&s->draw, 3) > 0)
    step_add(s, ls_tanh(ls_op_output(op, 0)), false);
}

// ---- Loops and branches ----------------------------------------------------
static void act(step_state *s);

// A loop or branch on its way.
typedef struct flow {
  step_state *s;
  ls_tensor limit;
  size_t acts;
} flow;

// Acts in a region, and a value of it.
static ls_tensor act_inside(step_state *s, size_t acts) {
  ++s->depth;
  for (size_t i = 0; i < acts && ls_status_is_ok(s->status); ++i)
    act(s);
  --s->depth;
  return s->values[s->count - 1];
}

static ls_nest goes_on(ls_nest values, void *user) {
  const flow *f = user;
  return ls_leaf(ls_less(ls_nest_item(values, 0).as.tensor, f->limit));
}

static ls_nest go_round(ls_nest values, void *user) {
  const flow *f = user;
  step_state *s = f->s;
  const size_t count = s->count;
  const ls_tensor trip = ls_nest_item(values, 0).as.tensor;
  step_add(s, ls_nest_item(values, 1).as.tensor, false);
  const ls_tensor met = ls_nest_item(values, 2).as.tensor;
  step_add(s, met, false);
  const ls_tensor last = act_inside(s, f->acts);
  const ls_nest next = LS_TUPLE(
      ls_leaf(ls_add(trip, ls_scalar_i64(LS_DTYPE_I32, 1))), ls_leaf(last),
      ls_leaf(ls_mul(met, ls_scalar(LS_DTYPE_F32, 0.5))));
  s->count = count;
  return next;
}

// A number of trips that is one for all, or each replica's own.
static ls_tensor draw_limit(step_state *s, bool apart) {
  const ls_tensor most =
      ls_scalar_i64(LS_DTYPE_I32, 1 + (int64_t)step_below(&s->draw, 3));
  return apart ? ls_add(most, ls_remainder(ls_replica_id(),
                                           ls_scalar_i64(LS_DTYPE_I32, 2)))
               : most;
}

static void loop(step_state *s) {
  if (s->depth == 2 || s->count + 2 >= VALUES) return;
  const bool was_apart = s->apart, apart = step_below(&s->draw, 4) == 0;
  flow f = {.s = s,
            .limit = draw_limit(s, apart),
            .acts = 1 + step_below(&s->draw, 3)};
  const ls_nest initial = LS_TUPLE(
      ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(s->values[step_pick(s)]),
      ls_leaf(ls_broadcast(ls_scalar(LS_DTYPE_F32, 1.25), LS_SHAPE(WIDTH))));
  s->apart |= apart;
  LS_OWN(ls_nest, made) = ls_while(goes_on, go_round, &f, initial, 0);
  s->apart = was_apart;
  const ls_status status = ls_nest_status(made);
  if (ls_status_is_ok(status)) {
    step_add(s, ls_nest_item(made, 1).as.tensor, false);
    step_add(s, ls_nest_item(made, 2).as.tensor, false);
  }
  step_fail(s, status);
}

static ls_nest take_branch(ls_nest args, void *user) {
  const flow *f = user;
  const size_t count = f->s->count;
  (void)args;
  const ls_nest made = ls_leaf(act_inside(f->s, f->acts));
  f->s->count = count;
  return made;
}

static void choose(step_state *s) {
  if (s->depth == 2) return;
  const bool was_apart = s->apart, apart = step_below(&s->draw, 3) == 0;
  flow f = {.s = s, .acts = 1 + step_below(&s->draw, 2)};
  const ls_tensor x = s->values[step_pick(s)];
  const ls_tensor sum = ls_reduce_sum(x, LS_ALL_AXES);
  const ls_tensor whole =
      apart || was_apart ? sum : ls_all_reduce(LS_REDUCE_SUM, sum);
  s->apart |= apart;
  step_keep(s,
            ls_cond(ls_greater(whole, ls_scalar(LS_DTYPE_F32, 0)), take_branch,
                    take_branch, &f),
            true, false);
  s->apart = was_apart;
}

// ---- The step --------------------------------------------------------------
static void draw_random(step_state *s) {
  const random_step *step = s->self->user;
  const ls_random_options options = {
      .stream = LS_SOME((int64_t)step_below(&s->draw, 1000))};
  if (step->draws_nothing) return;
  step_add(
      s,
      ls_mul(s->values[step_pick(s)],
             ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(WIDTH), -1, 1, &options)),
      false);
}

static void write(step_state *s) {
  if (s->apart) return;
  step_write(s, s->self->variables[step_below(&s->draw, VARIABLES)]);
}

static void read(step_state *s) {
  step_add(
      s, ls_variable_read(s->self->variables[step_below(&s->draw, VARIABLES)]),
      false);
}

static void meet(step_state *s) {
  if (!s->apart) step_meet(s);
}

static void act(step_state *s) {
  static const struct {
    const char *name;
    void (*act)(step_state *s);
  } acts[] = {{"compute", step_compute},
              {"meet", meet},
              {"call", call_host},
              {"call", call_host},
              {"read", read},
              {"write", write},
              {"loop", loop},
              {"loop", loop},
              {"choose", choose},
              {"draw", draw_random}};
  const size_t i = step_below(&s->draw, LS_COUNT_OF(acts));
  if (s->prints) printf("%*s%s\n", 2 + 2 * s->depth, "", acts[i].name);
  acts[i].act(s);
}

ls_nest cut_step(ls_nest args, ways *self) {
  const random_step *step = self->user;
  step_state s = {.self = self,
                  .draw = {step->seed},
                  .prints = step->prints && ls_replica_number() == 0};
  ls_tensor x = ls_failed_tensor();
  ls_status status = ls_distributed_as_tensor(ls_nest_item(args, 0), &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  step_below(&s.draw, 2);
  step_add(&s, ls_reduce_sum(x, LS_AXES(0)), false);
  step_add(&s, ls_reduce_mean(ls_tanh(x), LS_AXES(0)), false);
  const size_t count = 3 + step_below(&s.draw, 5);
  for (size_t i = 0; i < count && ls_status_is_ok(s.status); ++i)
    act(&s);
  for (size_t i = 0; i < s.count && s.num_results < RESULTS; ++i)
    s.results[s.num_results++] = ls_leaf(s.values[i]);
  const ls_nest made =
      ls_nest_sequence(LS_KIND_TUPLE, s.results, s.num_results);
  if (ls_status_is_ok(s.status)) return made;
  ls_nest_release(made);
  return ls_fail(s.status);
}
