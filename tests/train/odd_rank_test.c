// SPDX-License-Identifier: Apache-2.0
//
// Trainings of which one rank differs: by its options, by its data, or by a
// value that it has changed.
#include <string.h>
#include <unistd.h>

#include "lockstep/training_parts.h"
#include "support/expect.h"
#include "support/resumable.h"

enum { RANKS = 3 };

static ls_status run_with(const resumable *like, const resumable *odd,
                          int odd_rank, char (*seen)[RESUMABLE_MOST_TEXT]) {
  ls_train_result result;
  resumable r = *like;
  r.odd = odd;
  r.odd_rank = odd_rank;
  r.seen = seen;
  return resumable_run(&r, &result);
}

// All ranks fail in the same words.
static void expect_odd(const resumable *like, const resumable *odd,
                       int odd_rank, const char *code, const char *part) {
  char seen[RANKS][RESUMABLE_MOST_TEXT];
  ls_status_free(run_with(like, odd, odd_rank, seen));
  for (int k = 0; k < RANKS; ++k) {
    assert_int_equal(strncmp(seen[k], code, strlen(code)), 0);
    assert_string_equal(seen[k], seen[0]);
    expect_contains(seen[k], part);
  }
}

static const resumable alike = {
    .ranks = RANKS, .replicas = 6, .threads = 1, .steps = 6};

TEST(options_that_differ_are_named_with_both_values) {
  struct {
    resumable odd;
    int rank;
    const char *part;
  } rows[] = {
      {alike, 1, "ranks 0 and 1 train with another batch size: 8 and 12"},
      {alike, 2, "ranks 0 and 2 train with another seed: 0 and 5"},
      {alike, 0, "ranks 0 and 1 train with another number of steps: 7 and 6"},
      {alike, 1, "with another data, by their hash: "},
      {alike, 1, "another number of replicas: 6 and 7"},
      {alike, 1, "another check_ranks: 0 and 2"},
      {alike, 2, "another use of a test set: 0 and 1"},
  };
  rows[0].odd.batch_size = 12;
  rows[1].odd.seed = 5;
  rows[2].odd.steps = 7;
  rows[3].odd.data_seed = 1;
  rows[4].odd.replicas = 7;
  rows[5].odd.check_ranks = 2;
  rows[6].odd.with_test = true;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_odd(&alike, &rows[i].odd, rows[i].rank,
               "FAILED_PRECONDITION: ", rows[i].part);
}

// Rank 0 alone writes them.
TEST(event_files_of_one_rank_alone_are_none_of_the_others) {
  ls_train_result result;
  resumable r = alike, odd = alike;
  odd.events = "events";
  r.odd = &odd;
  expect_ok(resumable_run(&r, &result));
  assert_int_equal(result.steps, alike.steps);
  remove_folder("events/train");
  (void)rmdir("events");
}

// Variables of a warm start are each rank's own.
TEST(initial_values_that_differ_are_named) {
  ls_train_result result;
  const ls_warm_start from[] = {{.path = "seed-1"}, {.path = "seed-2"}};
  for (int i = 0; i < 2; ++i) {
    remove_folder(from[i].path);
    expect_ok(resumable_run(
        &(resumable){
            .folder = from[i].path, .replicas = 2, .seed = i + 1, .steps = 2},
        &result));
  }
  for (int rank = 1; rank < RANKS; ++rank) {
    resumable like = alike, odd = alike;
    like.warm_start = &from[0];
    odd.warm_start = &from[1];
    expect_odd(&like, &odd, rank, "FAILED_PRECONDITION: ",
               rank == 2 ? "ranks 0 and 2 begin with another value of variable "
                           "'hidden/kernel' at step 0: "
                         : "ranks 0 and 1 begin with another value of variable "
                           "'hidden/kernel' at step 0: ");
    odd.warm_start = NULL;
    expect_odd(&like, &odd, rank,
               "FAILED_PRECONDITION: ", "another use of a warm start: 1 and 0");
  }
}

TEST(a_rank_whose_options_are_refused_ends_all) {
  char seen[RANKS][RESUMABLE_MOST_TEXT];
  resumable odd = alike;
  odd.keep_best = "height";
  ls_status_free(run_with(&alike, &odd, 1, seen));
  expect_contains(seen[0], "on rank 1 of 3: keep_best is 'height'");
  expect_contains(seen[1], "keep_best is 'height'");
  expect_contains(seen[2], "on rank 1 of 3: keep_best is 'height'");
}

TEST(a_step_that_differs_is_named) {
  resumable odd = alike;
  odd.rate = 0.25;
  expect_odd(&alike, &odd, 2, "FAILED_PRECONDITION: ",
             "ranks 0 and 2 run 'train_step' with another program; op");
}

TEST(checks_of_equal_variables_change_nothing) {
  ls_train_result result;
  resumable r = alike;
  r.check_ranks = 1;
  expect_ok(resumable_run(&r, &result));
  r.check_ranks = 4;
  r.steps = RESUMABLE_STEPS;
  expect_ok(resumable_run(&r, &result));
}

TEST(a_variable_that_differs_is_named_with_its_rank_and_step) {
  static const struct {
    int64_t spoil_at, every;
    const char *part;
  } rows[] = {{1, 1, "at step 1"}, {3, 2, "at step 4"}, {2, 5, "at step 5"}};
  for (int rank = 0; rank < RANKS; ++rank)
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
      resumable like = alike, odd = alike;
      like.check_ranks = odd.check_ranks = rows[i].every;
      odd.spoil_at = rows[i].spoil_at;
      expect_odd(&like, &odd, rank, "DATA_LOSS: ", rows[i].part);
      expect_odd(&like, &odd, rank, "DATA_LOSS: ",
                 rank == 2 ? "ranks 0 and 2 have another value of variable '"
                           : "ranks 0 and 1 have another value of variable '");
    }
}
