// SPDX-License-Identifier: Apache-2.0
#include "support/system_plan.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "support/loop_case.h"

const char *const system_way_names[NUM_SYSTEM_WAYS] = {
    "function", "session", "replicate", "infeed", "enqueue ops", "estimator"};
const char *const system_act_names[NUM_SYSTEM_ACTS] = {
    "run", "initialize", "shut down", "lose", "resize", "rebuild"};

static const system_size pods[] = {{.name = "virtual:1x1"},
                                   {.name = "virtual:2x1"},
                                   {.name = "virtual:2x1,hosts=2"},
                                   {.name = "virtual:2x2"},
                                   {.name = "virtual:4x1,cores=1,hosts=4"}};
static const char *const locals[] = {"2x2", "2x1", "1x1"};

static system_size size_of(loop_random *random, bool is_local) {
  if (!is_local)
    return pods[loop_random_between(random, 0, (int64_t)LS_COUNT_OF(pods) - 1)];
  return (system_size){.name = "local",
                       .local = locals[loop_random_between(
                           random, 0, (int64_t)LS_COUNT_OF(locals) - 1)]};
}

static bool is_same(const system_size *a, const system_size *b) {
  return strcmp(a->name, b->name) == 0 &&
         (a->local == NULL || strcmp(a->local, b->local) == 0);
}

// Half of the acts run something, and most of what goes wrong is mended soon.
static system_act act_of(loop_random *random) {
  const int64_t drawn = loop_random_between(random, 0, 2 * NUM_SYSTEM_ACTS + 2);
  if (drawn < NUM_SYSTEM_ACTS) return (system_act)drawn;
  return drawn < 2 * NUM_SYSTEM_ACTS    ? RUN
         : drawn == 2 * NUM_SYSTEM_ACTS ? INITIALIZE
                                        : REBUILD;
}

pair_plan pair_plan_of(uint64_t seed) {
  loop_random random = {seed * 7919 + 1};
  pair_plan p = {.seed = seed};
  p.two_runtimes = loop_random_between(&random, 0, 2) == 0;
  p.two_threads = loop_random_between(&random, 0, 1) == 0;
  // A runtime has one local system.
  const int64_t local = loop_random_between(&random, 0, 5);
  for (int k = 0; k < 2; ++k) {
    system_plan *s = &p.systems[k];
    s->sizes[0] = size_of(&random, local == k);
    do
      s->sizes[1] = size_of(&random, local == k);
    while (is_same(&s->sizes[0], &s->sizes[1]));
    s->job = k == 0 ? "ruby" : "jade";
    s->way = (system_way)loop_random_between(&random, 0, NUM_SYSTEM_WAYS - 1);
    s->num_acts = (int)loop_random_between(&random, 6, SYSTEM_MOST_ACTS);
    for (int i = 0; i < s->num_acts; ++i)
      s->acts[i] = act_of(&random);
  }
  return p;
}

bool system_plan_is_local(const system_plan *plan) {
  return plan->sizes[0].local != NULL;
}
