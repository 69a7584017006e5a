// SPDX-License-Identifier: Apache-2.0
//
// Random programs with two systems: pods of equal or of different sizes, in one
// runtime or in two, on one thread or on two; each is initialized, shut down,
// made anew in another size, loses a host, and runs between: functions,
// sessions, computations fed by hand and by loops of ops, estimators. Whatever
// the other one does, each gives what it gives alone, byte by byte, and its
// failures name it. A few in each test run; LS_TEST_SYSTEMS=300 draws as many,
// from LS_TEST_SEED on.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/counted.h"
#include "support/draw.h"
#include "support/expect.h"
#include "support/loop_case.h"
#include "support/system_player.h"

enum { FEW = 6 };

static void *act_all(void *user) {
  system_player *p = user;
  ls_runtime *before = ls_runtime_make_current(p->runtime);
  while (system_player_goes_on(p))
    system_player_act(p);
  ls_runtime_make_current(before);
  return NULL;
}

// ---- Alone and together ----------------------------------------------------
static void play_alone(const system_plan *plan, system_player *out) {
  LS_OWN(counted, c) = counted_begin(1);
  system_player_begin(out, plan, c.runtime, "alone");
  act_all(out);
  system_player_end(out);
}

static void interleave(const pair_plan *p, system_player *players) {
  loop_random random = {p->seed * 31 + 7};
  while (system_player_goes_on(&players[0]) ||
         system_player_goes_on(&players[1])) {
    int k = (int)loop_random_between(&random, 0, 1);
    if (!system_player_goes_on(&players[k])) k = 1 - k;
    ls_runtime *before = ls_runtime_make_current(players[k].runtime);
    system_player_act(&players[k]);
    ls_runtime_make_current(before);
  }
}

static void act_at_once(system_player *players) {
  pthread_t threads[2];
  for (int k = 0; k < 2; ++k)
    assert_int_equal(pthread_create(&threads[k], NULL, act_all, &players[k]),
                     0);
  for (int k = 0; k < 2; ++k)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
}

static void play_together(const pair_plan *p, system_player *players) {
  counted worlds[2];
  worlds[0] = counted_begin(p->two_threads ? 0 : 1);
  if (p->two_runtimes) worlds[1] = counted_begin(1);
  for (int k = 0; k < 2; ++k) {
    system_player_begin(&players[k], &p->systems[k],
                        worlds[p->two_runtimes ? k : 0].runtime, "beside");
    players[k].other_job = p->systems[1 - k].job;
  }
  if (p->two_threads)
    act_at_once(players);
  else
    interleave(p, players);
  for (int k = 0; k < 2; ++k)
    system_player_end(&players[k]);
  if (p->two_runtimes) counted_end(&worlds[1]);
  counted_end(&worlds[0]);
}

static void expect_equal(const pair_plan *p, const system_player *alone,
                         const system_player *together) {
  const system_plan *plan = alone->plan;
  for (int i = 0; i < plan->num_acts; ++i) {
    const system_outcome *a = &alone->outcomes[i], *b = &together->outcomes[i];
    if (a->code == b->code && memcmp(&a->value, &b->value, sizeof(float)) == 0)
      continue;
    fail_msg("seed %" PRIu64 ": '%s' of job %s by %s, %d runtimes, %d threads, "
             "act %d (%s): alone code %d and %.9g, beside '%s' %d and %.9g",
             p->seed, plan->sizes[0].name, plan->job,
             system_way_names[plan->way], 1 + p->two_runtimes,
             1 + p->two_threads, i, system_act_names[plan->acts[i]],
             (int)a->code, (double)a->value,
             p->systems[plan == &p->systems[0]].sizes[0].name, (int)b->code,
             (double)b->value);
  }
  if (together->wrong[0] != '\0')
    fail_msg("seed %" PRIu64 ": a failure names another system: %s", p->seed,
             together->wrong);
}

TEST(each_system_does_what_it_does_alone) {
  const uint64_t first = loop_random_seed();
  const int count = int_from_environment("LS_TEST_SYSTEMS", FEW);
  int runs = 0, failed = 0;
  for (int i = 0; i < count; ++i) {
    const pair_plan p = pair_plan_of(first + (uint64_t)i);
    system_player alone[2], together[2];
    for (int k = 0; k < 2; ++k)
      play_alone(&p.systems[k], &alone[k]);
    play_together(&p, together);
    for (int k = 0; k < 2; ++k) {
      expect_equal(&p, &alone[k], &together[k]);
      runs += alone[k].runs;
      for (int a = 0; a < alone[k].next; ++a)
        failed += alone[k].outcomes[a].code != LS_OK;
    }
  }
  if (getenv("LS_TEST_SYSTEMS") != NULL)
    printf("%d programs, %d runs, %d refused\n", count, runs, failed);
}
