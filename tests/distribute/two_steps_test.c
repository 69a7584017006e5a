// SPDX-License-Identifier: Apache-2.0
//
// Random steps of two strategies of other numbers of replicas, one behind the
// other and in a loop: in one program they give what they do in programs of
// their own, and make the same calls of the host.
//
// LS_TEST_SEED is the first pair's number, LS_TEST_PROGRAMS how many there are.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/communicator.h"
#include "lockstep/flow.h"
#include "lockstep/variable_parts.h"
#include "support/cut_steps.h"
#include "support/draw.h"
#include "support/function.h"
#include "support/place.h"
#include "support/sanitizer.h"
#include "support/values.h"
#include "support/ways_run.h"

enum { MOST_RANKS = 2, MOST_LEAVES = 1024, MOST_BYTES = 1 << 16, TIMES = 2 };

typedef struct outcome {
  unsigned char *bytes;
  size_t size;
} outcome;

typedef struct job {
  uint64_t seed;
  const int *replicas;  // Of the two.
  bool in_loop, in_one;
  const place *where;
  // What came out.
  ls_code code;
  char message[300];
  outcome out[MOST_RANKS];
  cut_call calls[CUT_MOST_CALLS];
  size_t num_calls;
} job;

// ---- A pair ----------------------------------------------------------------
typedef struct pair {
  const job *work;
  ways_run runs[2];
  ls_function *functions[2];
  ls_nest leaves[MOST_LEAVES];
  size_t count;
  ls_status status;
} pair;

static ls_nest step_in_replica(ls_nest args, void *user) {
  ways_run *run = user;
  return run->c->step(ls_nest_item(args, 0), &run->self);
}

static ls_nest args_of(const ways_run *run) {
  ls_nest parts[WAYS_MOST_REPLICAS];
  const size_t replicas = (size_t)run->self.replicas;
  for (size_t r = 0; r < replicas; ++r) {
    LS_OWN(ls_nest, rows) = run->c->args(&run->self, 0, (int)r);
    parts[r] = ls_leaf(ls_constant(ls_nest_as_array(ls_nest_item(rows, 0))));
  }
  return LS_TUPLE(
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, replicas)));
}

static void keep_leaves(pair *p, ls_nest results, int32_t r, size_t which) {
  ls_nest own = ls_none(), leaves[RESULTS];
  p->status = ls_strategy_replica_result(p->runs[which].self.strategy, results,
                                         r, &own);
  if (!ls_status_is_ok(p->status)) return;
  const size_t count = ls_nest_flatten(own, leaves, RESULTS);
  assert_true(count <= RESULTS && p->count + count <= MOST_LEAVES);
  for (size_t i = 0; i < count; ++i)
    p->leaves[p->count++] = ls_nest_retain(leaves[i]);
  ls_nest_release(own);
}

static void play_one(pair *p, size_t which, bool keeps) {
  ways_run *run = &p->runs[which];
  ls_nest results = ls_none();
  if (!ls_status_is_ok(p->status)) return;
  LS_OWN(ls_nest, args) = args_of(run);
  p->status = ls_strategy_run(run->self.strategy,
                              ls_traced(p->functions[which]), args, &results);
  for (int32_t r = 0;
       keeps && ls_status_is_ok(p->status) && r < run->self.replicas; ++r)
    keep_leaves(p, results, r, which);
  ls_nest_release(results);
}

static ls_nest below_two(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(values.as.tensor, ls_scalar_i64(LS_DTYPE_I32, 2)));
}

static ls_nest go_round(ls_nest values, void *user) {
  pair *p = user;
  play_one(p, 0, false);
  play_one(p, 1, false);
  if (!ls_status_is_ok(p->status)) return ls_fail(ls_status_clone(p->status));
  return ls_leaf(ls_add_scalar(values.as.tensor, 1));
}

// What they give, as a list; the caller's.
static ls_nest play(ls_nest args, void *user) {
  (void)args;
  pair *p = user;
  p->count = 0;
  p->status = ls_ok();
  if (p->work->in_loop) {
    LS_OWN(ls_nest, trips) = ls_while(
        below_two, go_round, p, ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), 0);
    const ls_status status = ls_nest_status(trips);
    if (ls_status_is_ok(p->status))
      p->status = status;
    else
      ls_status_free(status);
  } else {
    play_one(p, 0, true);
    play_one(p, 1, true);
  }
  const ls_nest made = ls_nest_sequence(LS_KIND_LIST, p->leaves, p->count);
  if (ls_status_is_ok(p->status)) return made;
  ls_nest_release(made);
  return ls_fail(p->status);
}

// ---- Running ---------------------------------------------------------------
static void record(outcome *out, ls_array *array) {
  const size_t size = ls_array_size(array);
  assert_true(out->size + size <= MOST_BYTES);
  memcpy(out->bytes + out->size, ls_array_data(array), size);
  out->size += size;
}

static void record_results(outcome *out, ls_nest results) {
  for (size_t i = 0; i < ls_nest_count(results); ++i) {
    const ls_nest leaf = ls_nest_item(results, i);
    ls_array *array = ls_array_retain(ls_nest_as_array(leaf));
    if (leaf.kind == LS_KIND_TENSOR)
      expect_ok(ls_tensor_value(leaf.as.tensor, &array));
    if (array == NULL) continue;
    record(out, array);
    ls_array_release(array);
  }
}

static void record_variable(outcome *out, ls_variable *v) {
  const size_t parts = ls_variable_num_components(v);
  for (size_t c = 0; c < (parts == 0 ? 1 : parts); ++c) {
    LS_OWN(ls_array, array) =
        variable_array(parts == 0 ? v : ls_variable_component(v, c));
    record(out, array);
  }
}

static ls_status call_pair(pair *p, outcome *out) {
  ls_nest results = ls_none();
  ls_status status = ls_ok();
  ls_function *both = unnamed_function(play, p);
  for (int k = 0; k < TIMES && ls_status_is_ok(status); ++k) {
    expect_ok(ls_frame_begin());
    if (p->work->in_one) {
      status = ls_function_call(both, ls_none(), &results);
    } else {
      ls_nest_release(results);
      results = play(ls_none(), p);
      status = ls_nest_status(results);
    }
    if (ls_status_is_ok(status)) record_results(out, results);
    expect_ok(ls_frame_end(NULL));
  }
  ls_nest_release(results);
  ls_function_release(both);
  for (size_t i = 0; i < 2 && ls_status_is_ok(status); ++i)
    for (size_t v = 0; v < p->runs[i].self.num_variables; ++v)
      record_variable(out, p->runs[i].self.variables[v]);
  return status;
}

static ls_status run_pair(const job *work, outcome *out) {
  HEAP(pair, p) = calloc(1, sizeof(*p));
  random_step steps[2];
  ways_case cases[2];
  p->work = work;
  for (size_t i = 0; i < 2; ++i) {
    // In a loop the functions' steps are not the caller's.
    steps[i] = (random_step){.seed = 2 * work->seed + i,
                             .draws_nothing = work->in_loop};
    cases[i] = (ways_case){.user = &steps[i],
                           .make = step_variables,
                           .args = step_rows,
                           .step = cut_step};
    p->runs[i] =
        (ways_run){.c = &cases[i],
                   .self = {.replicas = work->replicas[i], .user = &steps[i]}};
    ways_set_up(&p->runs[i]);
    expect_ok(ls_function_create(
        &(ls_function_options){.call = step_in_replica, .user = &p->runs[i]},
        &p->functions[i]));
  }
  const ls_status status = call_pair(p, out);
  for (size_t i = 0; i < 2; ++i) {
    ls_function_release(p->functions[i]);
    ways_tear_down(&p->runs[i]);
  }
  return status;
}

static ls_status run_rank(ls_communicator *communicator, void *user) {
  job *work = user;
  outcome *out = &work->out[communicator != NULL ? communicator->rank : 0];
  open_place here;
  LS_RETURN_IF_ERROR(place_open(work->where, communicator, &here));
  out->bytes = malloc(MOST_BYTES);
  const ls_status status = run_pair(work, out);
  return place_close(&here, status);
}

static void run_job(job *work) {
  cut_forget_calls();
  LS_OWN(ls_status, status) =
      work->where->ranks == 0
          ? run_rank(NULL, work)
          : ls_standin_run(work->where->ranks, run_rank, work);
  work->num_calls = cut_calls(work->calls);
  work->code = ls_status_code(status);
  snprintf(work->message, sizeof(work->message), "%s",
           ls_status_is_ok(status) ? "" : ls_status_message(status));
}

static void drop(job *work) {
  for (size_t i = 0; i < MOST_RANKS; ++i)
    free(work->out[i].bytes);
}

// ---- Comparing -------------------------------------------------------------
static void expect_as(const job *wanted, const job *got) {
  const place *p = got->where;
  char where[200];
  snprintf(where, sizeof(where),
           "pair %llu of %d and %d replicas%s, LS_CUT=%s LS_LANES=%s, %d "
           "threads, %d ranks",
           (unsigned long long)got->seed, got->replicas[0], got->replicas[1],
           got->in_loop ? " in a loop" : "", p->cut,
           p->lanes != NULL ? p->lanes : "", p->threads, p->ranks);
  if (got->code != LS_OK) fail_msg("%s: %s", where, got->message);
  for (int k = 0; k < (p->ranks == 0 ? 1 : p->ranks); ++k)
    if (got->out[k].size != wanted->out[0].size ||
        memcmp(got->out[k].bytes, wanted->out[0].bytes, got->out[k].size) != 0)
      fail_msg("%s: other bytes than apart", where);
  if (got->num_calls != wanted->num_calls ||
      memcmp(got->calls, wanted->calls, got->num_calls * sizeof(cut_call)) != 0)
    fail_msg("%s: other calls than apart (%zu, %zu)", where, got->num_calls,
             wanted->num_calls);
  if (cut_has_strayed())
    fail_msg("%s: a rank calls for a replica that it does not host", where);
}

static void compare(uint64_t seed, const int *replicas, bool in_loop) {
  static const place places[] = {{"0", "cost", 1, 0},
                                 {"1", NULL, 1, 0},
                                 {"1", "threads", 2, 0},
                                 {"1", NULL, 1, 2},
                                 {"0", NULL, 2, 2}};
  static job wanted, got;
  wanted = (job){.seed = seed,
                 .replicas = replicas,
                 .in_loop = in_loop,
                 .where = &places[0]};
  run_job(&wanted);
  for (size_t i = 0; i < LS_COUNT_OF(places) && wanted.code == LS_OK; ++i) {
    if (replicas[1] == 1 && places[i].ranks > 0) continue;
    got = wanted;
    memset(got.out, 0, sizeof(got.out));
    got.in_one = true;
    got.where = &places[i];
    run_job(&got);
    expect_as(&wanted, &got);
    drop(&got);
  }
  drop(&wanted);
}

TEST(steps_of_two_strategies_are_the_same_in_one_program) {
  static const int replicas[][2] = {{2, 8}, {3, 2}, {8, 1}};
  const uint64_t first = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t count =
      number_from_environment("LS_TEST_PROGRAMS", LS_SANITIZED ? 1 : 6);
  for (uint64_t seed = first; seed < first + count; ++seed)
    for (size_t i = 0; i < LS_COUNT_OF(replicas); ++i)
      for (int in_loop = 0; in_loop < 2; ++in_loop)
        compare(seed, replicas[i], in_loop == 1);
}
