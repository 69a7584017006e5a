// SPDX-License-Identifier: Apache-2.0
//
// Random steps of loops, branches, host calls, draws and collectives, some of
// which all replicas come to together and some not: cut out of the replicas'
// body or left in it, they give the same bytes and the same calls, whatever the
// replicas, threads, ranks and ways to run them.
//
// LS_TEST_SEED is the first step's number, LS_TEST_PROGRAMS how many there are.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/communicator.h"
#include "support/cut_steps.h"
#include "support/draw.h"
#include "support/place.h"
#include "support/sanitizer.h"
#include "support/ways_run.h"

// ---- Running ---------------------------------------------------------------
enum { MOST_RANKS = 4 };

// What came out of a run, on one rank; calls on all together.
typedef struct outcome {
  ls_code code;
  char message[300];
  size_t num_values, size;
  unsigned char *bytes;
  cut_call *calls;
  size_t num_calls;
} outcome;

// A run on its way.
typedef struct job {
  const random_step *step;
  int replicas;
  const place *where;
  outcome out[MOST_RANKS];
} job;

static void keep_values(const ways *self, outcome *out) {
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
}

static void keep_calls(outcome *out) {
  out->calls = malloc(CUT_MOST_CALLS * sizeof(*out->calls));
  out->num_calls = cut_calls(out->calls);
}

static ls_status run_rank(ls_communicator *communicator, void *user) {
  job *work = user;
  outcome *out = &work->out[communicator != NULL ? communicator->rank : 0];
  const ways_case c = {.user = work->step,
                       .make = step_variables,
                       .args = step_rows,
                       .step = cut_step,
                       .steps = 2};
  open_place here;
  LS_RETURN_IF_ERROR(place_open(work->where, communicator, &here));
  HEAP(ways_run, run) = calloc(1, sizeof(*run));
  *run =
      (ways_run){.c = &c, .self = {.replicas = work->replicas, .user = c.user}};
  const ls_status status = ways_run_traced(run);
  if (ls_status_is_ok(status)) keep_values(&run->self, out);
  ways_tear_down(run);
  return place_close(&here, status);
}

// On as many ranks as there are outcomes; the first one has the calls of all.
static void run_at(job *work) {
  outcome *out = &work->out[0];
  cut_forget_calls();
  const ls_status status =
      work->where->ranks == 0
          ? run_rank(NULL, work)
          : ls_standin_run(work->where->ranks, run_rank, work);
  out->code = ls_status_code(status);
  snprintf(out->message, sizeof(out->message), "%s",
           ls_status_is_ok(status) ? "" : ls_status_message(status));
  ls_status_free(status);
  keep_calls(out);
}

static void drop(job *work) {
  for (size_t i = 0; i < MOST_RANKS; ++i) {
    free(work->out[i].bytes);
    free(work->out[i].calls);
  }
}
LS_OWNED_STRUCT(job, drop)

// ---- Comparing -------------------------------------------------------------
static void expect_equal_bytes(const char *where, const outcome *wanted,
                               const outcome *got) {
  if (got->num_values == wanted->num_values && got->size == wanted->size &&
      memcmp(got->bytes, wanted->bytes, got->size) == 0)
    return;
  size_t at = 0;
  while (at < got->size && got->bytes[at] == wanted->bytes[at])
    ++at;
  float a = 0, b = 0;
  memcpy(&a, got->bytes + at / 4 * 4, 4);
  memcpy(&b, wanted->bytes + at / 4 * 4, 4);
  fail_msg("%s: other bytes than uncut: number %zu of %zu is %.9g, was %.9g",
           where, at / 4, got->size / 4, (double)a, (double)b);
}

static void expect_equal(const job *wanted, const job *got) {
  const place *p = got->where;
  const outcome *was = &wanted->out[0], *now = &got->out[0];
  char where[200];
  snprintf(where, sizeof(where),
           "step %llu on %d replicas, LS_CUT=%s LS_LANES=%s, %d threads, "
           "%d ranks",
           (unsigned long long)got->step->seed, got->replicas, p->cut,
           p->lanes != NULL ? p->lanes : "", p->threads, p->ranks);
  if (was->code != LS_OK && now->code == was->code) return;
  if (now->code != LS_OK) fail_msg("%s: %s", where, now->message);
  if (was->code != LS_OK) return;  // More is possible when it is cut.
  for (int k = 0; k < (p->ranks == 0 ? 1 : p->ranks); ++k)
    expect_equal_bytes(where, was, &got->out[k]);
  if (now->num_calls != was->num_calls ||
      memcmp(now->calls, was->calls, now->num_calls * sizeof(cut_call)) != 0)
    fail_msg("%s: other calls than uncut (%zu, %zu)", where, now->num_calls,
             was->num_calls);
  if (cut_has_strayed())
    fail_msg("%s: a rank calls for a replica that it does not host", where);
}

// At all these places the same as uncut on lanes of one thread.
static void compare(random_step step, int replicas, const place *places,
                    size_t count) {
  static const place plain = {"0", "cost", 1, 0};
  LS_OWN(job, wanted) = {.step = &step, .replicas = replicas, .where = &plain};
  run_at(&wanted);
  step.prints = false;
  for (size_t k = 0; k < count; ++k) {
    const bool cut = places[k].cut[0] == '1';
    if (places[k].ranks > replicas) continue;
    if (!cut && wanted.out[0].code != LS_OK) continue;
    LS_OWN(job,
           got) = {.step = &step, .replicas = replicas, .where = &places[k]};
    run_at(&got);
    expect_equal(&wanted, &got);
  }
}

static void compare_steps(uint64_t usually, uint64_t sanitized,
                          const place *places, size_t count) {
  static const int replicas[] = {1, 2, 3, 8};
  const uint64_t first = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t steps = number_from_environment(
      "LS_TEST_PROGRAMS", LS_SANITIZED ? sanitized : usually);
  for (uint64_t seed = first; seed < first + steps; ++seed)
    for (size_t i = 0; i < LS_COUNT_OF(replicas); ++i)
      compare((random_step){.seed = seed,
                            .prints = getenv("LS_TEST_FAILURES") != NULL},
              replicas[i], places, count);
}

TEST(steps_are_the_same_cut_and_uncut) {
  static const place places[] = {{"1", NULL, 1, 0},
                                 {"1", NULL, 2, 0},
                                 {"1", "threads", 8, 0},
                                 {"1", "blocks", 2, 0},
                                 {"0", NULL, 2, 0}};
  compare_steps(12, 3, places, LS_COUNT_OF(places));
}

TEST(so_they_are_on_ranks) {
  static const place places[] = {
      {"1", NULL, 1, 1},      {"1", NULL, 1, 2},    {"0", NULL, 1, 2},
      {"1", NULL, 2, 2},      {"0", NULL, 2, 2},    {"1", NULL, 1, 4},
      {"0", NULL, 1, 4},      {"1", NULL, 2, 3},    {"1", "threads", 2, 2},
      {"0", "threads", 2, 2}, {"1", "blocks", 2, 3}};
  compare_steps(8, 1, places, LS_COUNT_OF(places));
}
