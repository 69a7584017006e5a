// SPDX-License-Identifier: Apache-2.0
//
// Whichever request for memory fails while a model is made, traced, compiled
// and run: there is a status, nothing is lost, and the next step works.
#include "support/counted.h"
#include "support/fault.h"
#include "support/sanitizer.h"

#include "support/trainer.h"

// Three layers as mlp has, of sizes that need little time.
static const mlp_shape small = {"small", 3, {6, 4, 4, 3}};

// Makes a model, runs two steps and gives all back.
static ls_status train(void *user) {
  trainer training;
  ls_status status = trainer_create(user, &training);
  for (int i = 0; i < 2 && ls_status_is_ok(status); ++i)
    status = trainer_step(&training);
  trainer_destroy(&training);
  return status;
}

// ---- Under a runtime that has run the like before --------------------------
TEST(a_function_survives_any_failure) {
  trainer_options options = {&mlp_tiny, TRAINER_FUNCTION, 8, 0};
  REFUSE_EACH(train, &options);
  options.shape = &small;
  REFUSE_EACH(train, &options);
}

TEST(replicas_survive_any_failure) {
  trainer_options options = {&mlp_tiny, TRAINER_STRATEGY, 8, 1};
  REFUSE_EACH(train, &options);
  options.replicas = 3;
  options.batch = 6;
  REFUSE_EACH(train, &options);
  options.shape = &small;
  REFUSE_EACH(train, &options);
}

TEST(a_session_survives_any_failure) {
  trainer_options options = {&mlp_tiny, TRAINER_SESSION, 8, 0};
  REFUSE_EACH(train, &options);
  options.shape = &small;
  REFUSE_EACH(train, &options);
}

TEST(eager_survives_any_failure) {
  trainer_options options = {&mlp_tiny, TRAINER_EAGER, 8, 0};
  REFUSE_EACH(train, &options);
  options.shape = &small;
  REFUSE_EACH(train, &options);
}

// ---- From nothing ----------------------------------------------------------
// One training under a runtime made for it, with the nth request failing.
// Whether there were that many.
static bool start_and_train(trainer_options *options, uint64_t nth) {
  ls_counting_allocator *memory = NULL;
  ls_runtime *runtime = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &memory));
  ls_counting_allocator_fail_at(memory, nth);
  ls_status status = ls_runtime_create(
      &(ls_runtime_options){
          .allocator = ls_counting_allocator_allocator(memory), .threads = 2},
      &runtime);
  if (runtime != NULL) {
    ls_runtime *outside = ls_runtime_make_current(runtime);
    status = train(options);
    ls_runtime_make_current(outside);
    expect_ok(ls_runtime_destroy(runtime));
  }
  const ls_allocator_counts counts = ls_counting_allocator_counts(memory);
  if (counts.live_blocks != 0)
    fail_msg("%llu blocks lost with request %llu failing",
             (unsigned long long)counts.live_blocks, (unsigned long long)nth);
  if (!ls_status_is_ok(status))
    expect_status(status, LS_RESOURCE_EXHAUSTED, "");
  ls_counting_allocator_destroy(memory);
  return counts.allocations >= nth;
}

TEST(a_first_step_survives_any_failure) {
  trainer_options ways[] = {{&mlp_tiny, TRAINER_STRATEGY, 6, 3},
                            {&mlp_tiny, TRAINER_SESSION, 8, 0},
                            {&mlp_tiny, TRAINER_EAGER, 8, 0}};
  for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); ++i) {
    uint64_t nth = 1;
    while (start_and_train(&ways[i], nth))
      nth += FAULT_STRIDE;
    print_message("%llu requests\n", (unsigned long long)nth - 1);
    assert_true(nth > 100);
  }
}

// ---- Afterwards ------------------------------------------------------------
// A step that found no memory changes nothing, and is made up for: with every
// failure that a first step can meet, training ends as if there were none.
TEST(a_step_that_failed_can_be_done_again) {
  static const trainer_options ways[] = {{&mlp_tiny, TRAINER_FUNCTION, 8, 0},
                                         {&mlp_tiny, TRAINER_STRATEGY, 6, 3},
                                         {&mlp_tiny, TRAINER_SESSION, 8, 0}};
  for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); ++i) {
    LS_OWN(counted, memory) = counted_begin(1);
    trainer straight;
    expect_ok(trainer_create(&ways[i], &straight));
    expect_ok(trainer_step(&straight));
    expect_ok(trainer_step(&straight));
    const float want = trainer_loss(&straight);
    trainer_destroy(&straight);
    trainer training;
    expect_ok(trainer_create(&ways[i], &training));
    ls_status status = ls_ok();
    uint64_t failures = 0;
    do {
      ls_status_free(status);
      failures += failures == 0 ? 1 : FAULT_STRIDE;
      ls_counting_allocator_fail_at(memory.memory, failures);
      status = trainer_step(&training);
      ls_counting_allocator_fail_at(memory.memory, 0);
    } while (ls_status_code(status) == LS_RESOURCE_EXHAUSTED);
    expect_ok(status);
    assert_true(failures > 10);
    expect_ok(trainer_step(&training));
    const float got = trainer_loss(&training);
    assert_memory_equal(&got, &want, sizeof(got));
    trainer_destroy(&training);
  }
}
