// SPDX-License-Identifier: Apache-2.0
//
// Random programs have the same bytes in every way to run: op by op, in a
// session and in a function, whatever is fetched, on any number of threads and
// with any vectors; and on replicas, side by side or one by one.
//
// LS_TEST_SEED is the first program's number, LS_TEST_PROGRAMS how many there
// are: thousands, by hand. LS_TEST_FAILURES prints why programs were refused,
// which they are in every way or in none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels.h"
#include "support/draw.h"
#include "support/expect.h"
#include "support/random_ways.h"
#include "support/sanitizer.h"

// The first one of each group is what the others are compared with.
static const random_way alone[] = {
    {"function", RANDOM_FUNCTION, .threads = 1, .fetch = RANDOM_FETCH_ALL},
    {"eager", RANDOM_EAGER, .threads = 1},
    {"session", RANDOM_SESSION, .threads = 1},
    {"function, some fetched", RANDOM_FUNCTION, .threads = 1},
    {"session, loss fetched", RANDOM_SESSION, .threads = 1,
     .fetch = RANDOM_FETCH_LOSS},
    {"function, 2 threads", RANDOM_FUNCTION, .threads = 2},
    {"function, 3 threads, all fetched", RANDOM_FUNCTION, .threads = 3,
     .fetch = RANDOM_FETCH_ALL},
    {"eager, 2 threads", RANDOM_EAGER, .threads = 2},
    {"function, plain C", RANDOM_FUNCTION, .threads = 1, .isa = "base",
     .fetch = RANDOM_FETCH_ALL},
    {"eager, plain C", RANDOM_EAGER, .threads = 1, .isa = "base"},
    {"function, AVX2", RANDOM_FUNCTION, .threads = 1, .isa = "v3"},
};
static const random_way replicated[] = {
    {"3 replicas", RANDOM_STRATEGY, .threads = 1, .replicas = 3,
     .fetch = RANDOM_FETCH_ALL},
    {"3 replicas, eager", RANDOM_STRATEGY_EAGER, .threads = 1, .replicas = 3},
    {"3 replicas, session", RANDOM_STRATEGY_SESSION, .threads = 1,
     .replicas = 3},
    {"3 replicas, some fetched", RANDOM_STRATEGY, .threads = 1, .replicas = 3},
    {"3 replicas, 2 threads", RANDOM_STRATEGY, .threads = 2, .replicas = 3},
    {"3 replicas, lanes, 2 threads", RANDOM_STRATEGY, .threads = 2,
     .replicas = 3, .lanes = "threads"},
    {"3 replicas, blocks", RANDOM_STRATEGY, .threads = 1, .replicas = 3,
     .lanes = "blocks"},
    {"3 replicas, plain C", RANDOM_STRATEGY, .threads = 1, .replicas = 3,
     .isa = "base"},
};
// One replica and two equal ones: a sum of equal numbers is twice the number.
// But gradients of what one replica sends go to that one alone.
static const random_way equal[] = {
    {"1 replica", RANDOM_STRATEGY, .threads = 1, .replicas = 1},
    {"2 equal replicas", RANDOM_STRATEGY, .threads = 1, .replicas = 2,
     .same_args = true},
};

typedef struct counts {
  size_t programs, failed, compared, differ, programs_that_differ;
} counts;

static bool has_value(const random_outcome *outcome, const char *name) {
  for (size_t i = 0; i < RANDOM_VALUES && outcome->names[i] != NULL; ++i)
    if (strncmp(outcome->names[i], name, strlen(name)) == 0) return true;
  return false;
}

// Returns true if this machine has the way, and it promises the bits of the
// others. Op by op, gradients through loops and branches are added in another
// order, and so is the gradient of a bias before window maxima, which programs
// add over windows in place of positions (engine/cpu/passes).
static bool is_comparable(const random_program *program, const random_way *way,
                          const random_outcome *want) {
  const bool is_eager =
      way->how == RANDOM_EAGER || way->how == RANDOM_STRATEGY_EAGER;
  if (way->isa != NULL && ls_cpu_kernels_find(way->isa) == NULL) return false;
  if (way->same_args && has_value(want, "collective")) return false;
  return !is_eager || !program->trains ||
         !(program->through_flow || has_value(want, "max_pool"));
}

static bool check_ways(const random_program *program, const random_way *ways,
                       size_t count, counts *c) {
  random_outcome *want = random_run(program, &ways[0]);
  bool same = true;
  if (want->code != LS_OK) {
    ++c->failed;
    if (getenv("LS_TEST_FAILURES") != NULL)
      printf("program %llu: %s\n", (unsigned long long)program->seed,
             want->message);
  }
  for (size_t i = 1; i < count; ++i) {
    if (!is_comparable(program, &ways[i], want)) continue;
    char text[400] = "";
    random_outcome *got = random_run(program, &ways[i]);
    const size_t differ =
        random_compare(want, got, text, sizeof(text), &c->compared);
    if (differ > 0) {
      printf("program %llu of %s, %s and %s: %zu arrays differ: %s\n",
             (unsigned long long)program->seed, ls_dtype_name(program->dtype),
             ways[0].name, ways[i].name, differ, text);
      fflush(stdout);
      same = false;
    }
    c->differ += differ;
    random_outcome_destroy(got);
  }
  random_outcome_destroy(want);
  return same;
}

#define CHECK(ways) check_ways(&program, ways, sizeof(ways) / sizeof(*ways), &c)

TEST(programs_have_the_same_bytes_in_every_way) {
  const uint64_t first = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t programs =
      number_from_environment("LS_TEST_PROGRAMS", LS_SANITIZED ? 3 : 20);
  counts c = {0};
  for (uint64_t i = 0; i < programs; ++i) {
    const random_program program = random_program_draw(first + i);
    bool same = CHECK(alone);
    same = CHECK(replicated) && same;
    if (program.random.same_on_all_replicas) same = CHECK(equal) && same;
    ++c.programs;
    c.programs_that_differ += !same;
  }
  printf("%zu programs, %zu comparisons, %zu differ, in %zu programs; %zu "
         "refused\n",
         c.programs, c.compared, c.differ, c.programs_that_differ, c.failed);
  assert_int_equal(c.differ, 0);
}
