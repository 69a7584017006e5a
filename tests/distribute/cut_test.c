// SPDX-License-Identifier: Apache-2.0
//
// Random steps of loops, branches, host calls, draws and collectives, some of
// which all replicas come to together and some not: cut out of the replicas'
// body or left in it, they give the same bytes and the same calls, whatever the
// replicas, threads and ways to run them.
//
// LS_TEST_SEED is the first step's number, LS_TEST_PROGRAMS how many there are.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/threads/threads.h"
#include "lockstep/host.h"
#include "lockstep/replica.h"
#include "support/sanitizer.h"
#include "support/step_state.h"
#include "support/values.h"
#include "support/ways_run.h"

// ---- Calls of the host -----------------------------------------------------
enum { MOST_CALLS = 4096 };

typedef struct call {
  int32_t op, replica;
  float value;
} call;

// What each replica has called, in its order.
static struct {
  pthread_mutex_t lock;
  call calls[MOST_CALLS];
  size_t count;
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER};

static ls_status infer_like_first(const ls_object *state, const ls_type *in,
                                  size_t num_in, ls_type *out,
                                  size_t *num_out) {
  (void)state;
  (void)num_in;
  out[0] = in[0];
  *num_out = 1;
  return ls_ok();
}

static ls_status note_and_double(ls_host_call *c) {
  const float *in = c->inputs[0];
  float *out = c->outputs[0];
  const int64_t count = ls_shape_num_elements(c->input_types[0].shape);
  for (int64_t i = 0; i < count; ++i)
    out[i] = 2 * in[i];
  pthread_mutex_lock(&calls.lock);
  if (calls.count < MOST_CALLS)
    calls.calls[calls.count++] = (call){.op = *(const int32_t *)c->inputs[1],
                                        .replica = c->replica,
                                        .value = in[0]};
  pthread_mutex_unlock(&calls.lock);
  ls_host_done(c, ls_ok());
  return ls_ok();
}

static const ls_host_kernel kernel = {.name = "note_and_double",
                                      .infer = infer_like_first,
                                      .start = note_and_double};

static int by_replica(const void *a, const void *b) {
  const call *x = a, *y = b;
  return x->replica != y->replica ? (x->replica < y->replica ? -1 : 1) : 0;
}

// Stable, by replica: each one's own order stays.
static void sort_calls(void) {
  for (size_t i = 1; i < calls.count; ++i)
    for (size_t k = i;
         k > 0 && by_replica(&calls.calls[k - 1], &calls.calls[k]) > 0; --k) {
      const call moved = calls.calls[k];
      calls.calls[k] = calls.calls[k - 1];
      calls.calls[k - 1] = moved;
    }
}

static void call_host(step_state *s) {
  const ls_tensor number =
      ls_scalar_i64(LS_DTYPE_I32, (int64_t)step_below(&s->draw, 1000));
  const ls_tensor inputs[] = {s->values[step_pick(s)], number};
  const ls_op op = ls_host_call_add(&kernel, NULL, inputs, 2);
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
  const ls_nest made = ls_while(goes_on, go_round, &f, initial, 0);
  s->apart = was_apart;
  const ls_status status = ls_nest_status(made);
  if (ls_status_is_ok(status)) {
    step_add(s, ls_nest_item(made, 1).as.tensor, false);
    step_add(s, ls_nest_item(made, 2).as.tensor, false);
  }
  ls_nest_release(made);
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
  step_add(
      s,
      ls_mul(s->values[step_pick(s)],
             ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(WIDTH), -1, 1, NULL)),
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

static ls_nest run_step(ls_nest args, ways *self) {
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

// ---- Comparing -------------------------------------------------------------
typedef struct place {
  const char *cut, *lanes;
  int threads;
} place;

// What came out of a run.
typedef struct outcome {
  ls_code code;
  char message[200];
  size_t num_values, size;
  unsigned char *bytes;
  call *calls;
  size_t num_calls;
} outcome;

static const char *environment_of(void *user, const char *name) {
  const place *p = user;
  if (strcmp(name, "LS_CUT") == 0) return p->cut;
  if (strcmp(name, "LS_LANES") == 0) return p->lanes;
  return getenv(name);
}

static void keep_outcome(const ways *self, outcome *out) {
  out->num_values = self->num_values;
  for (size_t i = 0; i < self->num_values; ++i)
    out->size += ls_array_size(self->values[i]);
  out->bytes = malloc(out->size + 1);
  size_t at = 0;
  for (size_t i = 0; i < self->num_values; ++i) {
    const size_t size = ls_array_size(self->values[i]);
    memcpy(out->bytes + at, ls_array_data(self->values[i]), size);
    at += size;
  }
  sort_calls();
  out->num_calls = calls.count;
  out->calls = malloc(calls.count * sizeof(call) + 1);
  memcpy(out->calls, calls.calls, calls.count * sizeof(call));
}

static outcome run_at(const random_step *step, int replicas, const place *p) {
  const ways_case c = {.user = step,
                       .make = step_variables,
                       .args = step_rows,
                       .step = run_step,
                       .steps = 2};
  outcome out = {0};
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = p->threads,
                            .environment = environment_of,
                            .environment_user = (void *)(uintptr_t)p},
      &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  calls.count = 0;
  ways_run *run = calloc(1, sizeof(*run));
  *run = (ways_run){.c = &c, .self = {.replicas = replicas, .user = c.user}};
  const ls_status status = ways_run_traced(run);
  out.code = ls_status_code(status);
  snprintf(out.message, sizeof(out.message), "%s",
           ls_status_is_ok(status) ? "" : ls_status_message(status));
  if (ls_status_is_ok(status)) keep_outcome(&run->self, &out);
  ls_status_free(status);
  ways_tear_down(run);
  free(run);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
  return out;
}

static void drop(outcome *o) {
  free(o->bytes);
  free(o->calls);
}

static void expect_equal(const random_step *step, int replicas, const place *p,
                         const outcome *wanted, const outcome *got) {
  char where[160];
  snprintf(where, sizeof(where),
           "step %llu on %d replicas, LS_CUT=%s LS_LANES=%s, %d threads",
           (unsigned long long)step->seed, replicas, p->cut,
           p->lanes != NULL ? p->lanes : "", p->threads);
  if (wanted->code != LS_OK && got->code == wanted->code) return;
  if (got->code != LS_OK) fail_msg("%s: %s", where, got->message);
  if (wanted->code != LS_OK) return;  // More is possible when it is cut.
  if (got->num_values != wanted->num_values || got->size != wanted->size ||
      memcmp(got->bytes, wanted->bytes, got->size) != 0) {
    size_t at = 0;
    while (at < got->size && got->bytes[at] == wanted->bytes[at])
      ++at;
    float a = 0, b = 0;
    memcpy(&a, got->bytes + at / 4 * 4, 4);
    memcpy(&b, wanted->bytes + at / 4 * 4, 4);
    fail_msg("%s: other bytes than uncut: number %zu of %zu is %.9g, was %.9g",
             where, at / 4, got->size / 4, (double)a, (double)b);
  }
  if (got->num_calls != wanted->num_calls ||
      memcmp(got->calls, wanted->calls, got->num_calls * sizeof(call)) != 0)
    fail_msg("%s: other calls than uncut (%zu, %zu)", where, got->num_calls,
             wanted->num_calls);
}

static uint64_t number_of(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void steps_are_the_same_cut_and_uncut(void **state) {
  (void)state;
  static const int replicas[] = {1, 2, 3, 8};
  static const place places[] = {{"0", "cost", 1},   {"1", NULL, 1},
                                 {"1", NULL, 2},     {"1", "threads", 8},
                                 {"1", "blocks", 2}, {"0", NULL, 2}};
  const uint64_t first = number_of("LS_TEST_SEED", 1);
  const uint64_t count = number_of("LS_TEST_PROGRAMS", LS_SANITIZED ? 3 : 12);
  for (uint64_t seed = first; seed < first + count; ++seed)
    for (size_t i = 0; i < LS_COUNT_OF(replicas); ++i) {
      random_step step = {seed, getenv("LS_TEST_FAILURES") != NULL};
      outcome wanted = run_at(&step, replicas[i], &places[0]);
      step.prints = false;
      for (size_t k = 1; k < LS_COUNT_OF(places); ++k) {
        if (k + 1 == LS_COUNT_OF(places) && wanted.code != LS_OK) continue;
        outcome got = run_at(&step, replicas[i], &places[k]);
        expect_equal(&step, replicas[i], &places[k], &wanted, &got);
        drop(&got);
      }
      drop(&wanted);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_are_the_same_cut_and_uncut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
