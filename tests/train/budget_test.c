// SPDX-License-Identifier: Apache-2.0
//
// Where a run's time goes: parts that add up to the whole.
#include "train/loop.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "data/own.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/full.h"
#include "support/pipelines.h"
#include "support/place.h"
#include "support/training.h"

static int64_t now;

static int64_t read_clock(void *user) {
  (void)user;
  return __atomic_add_fetch(&now, 1000, __ATOMIC_RELAXED);
}

static void sleep_not(void *user, int64_t nanos) {
  (void)user;
  __atomic_add_fetch(&now, nanos, __ATOMIC_RELAXED);
}

// A map that takes a second of the clock for each example.
static ls_status slow(ls_nest element, ls_nest out, const ls_map_call *call,
                      void *user) {
  (void)call;
  memcpy(ls_nest_data(out, 0), ls_nest_data(element, 0), 16 * sizeof(float));
  memcpy(ls_nest_data(out, 1), ls_nest_data(element, 1), sizeof(int32_t));
  sleep_not(user, 1000000000);
  return ls_ok();
}

typedef struct seen {
  int reports;
  ls_train_budget last;
  bool map;
} seen;

static void note(void *user, const ls_train_report *report) {
  seen *it = user;
  const ls_train_budget *b = &report->budget;
  const double sum =
      b->input + b->compute + b->collective + b->host + b->save + b->rest;
  assert_true(fabs(sum - b->whole) <= 1e-6 * b->whole);
  it->last = *b;
  it->map = strcmp(b->input_stage, "map") == 0;
  ++it->reports;
}

TEST(the_parts_of_a_run_add_up_and_name_the_slow_stage) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .clock = &(
          ls_clock){.now = read_clock, .wall = read_clock, .sleep = sleep_not},
      .input_threads = LS_SOME(0)});
  const ls_model_type *type = ls_model_find("tiny");
  LS_OWN(ls_dataset, data) = ls_dataset_map(
      ls_dataset_synthetic(
          &(ls_synthetic_options){.size = 20,
                                  .shape = type->example_shape,
                                  .num_classes = type->num_classes}),
      &(ls_map_options){
          .fill = slow,
          .result = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, type->example_shape),
                             ls_nest_spec(LS_DTYPE_I32, LS_SCALAR))});
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_model, model) = {0};
  seen it = {0};
  ls_train_result result;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy));
  expect_ok(
      ls_model_create(type, &(ls_model_options){.metrics = true}, &model));
  expect_ok(ls_train(&(ls_train_options){.model = &model,
                                         .strategy = strategy,
                                         .train = data,
                                         .batch_size = 5,
                                         .epochs = 1,
                                         .report = note,
                                         .report_user = &it},
                     &result));
  assert_int_equal(it.reports, 4 + 1);
  assert_true(it.map);
  assert_true(it.last.input >= 20 && it.last.input < 21);
}

// ---- Ranks ------------------------------------------------------------------
enum { SLOW = 1, RANKS = 3 };

// Meets the others ten times, the slow one late.
static ls_status meet(ls_communicator *communicator, void *user) {
  ls_train_budget *out = user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_iterator, input) = pipeline_iterator(count_to(1), LS_SOME(0));
  const ls_spent spent = {0};
  ls_budget budget;
  ls_budget_begin(home.runtime, &spent, &budget);
  for (uint64_t i = 0; i < 10; ++i) {
    int64_t words[RANKS];
    ls_exchange_piece pieces[RANKS];
    for (int32_t k = 0; k < RANKS; ++k)
      pieces[k] =
          (ls_exchange_piece){&words[k], sizeof(words[k]), k, LS_EACH_RANK};
    if (communicator->rank == SLOW) usleep(5000);
    expect_ok(ls_communicator_exchange(
        communicator, &(ls_exchange_name){.iteration = i}, pieces, RANKS));
  }
  out[communicator->rank] = ls_budget_of(home.runtime, &spent, &budget, input);
  return ls_ok();
}

TEST(the_rank_that_others_wait_for_is_named) {
  ls_train_budget budgets[RANKS];
  expect_ok(ls_standin_run(RANKS, meet, budgets));
  for (int k = 0; k < RANKS; ++k) {
    if (k == SLOW) continue;
    assert_true(budgets[k].slowest_rank.set);
    assert_int_equal(budgets[k].slowest_rank.value, SLOW);
  }
  if (budgets[SLOW].slowest_rank.set)
    assert_int_not_equal(budgets[SLOW].slowest_rank.value, SLOW);
  // Without others there is none.
  const ls_spent spent = {0};
  ls_budget budget;
  LS_OWN(ls_iterator, input) = pipeline_iterator(count_to(1), LS_SOME(0));
  ls_budget_begin(ls_runtime_current(), &spent, &budget);
  assert_false(ls_budget_of(ls_runtime_current(), &spent, &budget, input)
                   .slowest_rank.set);
}

TEST(a_line_names_who_took_most) {
  char line[120];
  ls_train_budget budget = {.whole = 10,
                            .collective = 5,
                            .slowest_rank = LS_SOME(2),
                            .compute = 3,
                            .input = 2,
                            .input_stage = "map"};
  assert_string_equal(ls_budget_print(&budget, line, sizeof(line)),
                      "collective 50% (rank 2) compute 30% input 20% (map)");
  budget.slowest_rank = (ls_opt){0};
  budget.input_stage = "";
  assert_string_equal(ls_budget_print(&budget, line, sizeof(line)),
                      "collective 50% compute 30% input 20%");
}
