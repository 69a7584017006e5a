// SPDX-License-Identifier: Apache-2.0
//
// Exchanges that are started and finished later: pieces from one rank to one or
// to all, large and empty ones, several at once, and waits that end by
// themselves.
#include <stdio.h>
#include <unistd.h>

#include "lockstep/communicator.h"
#include "support/crossing.h"
#include "support/expect.h"
#include "support/process.h"

enum { RANKS = 4, BIG = 300000 };

TEST(pieces_go_from_each_rank_to_each) {
  size_t sizes[] = {0, 1, 999, 4000, 4001, BIG};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i)
    expect_ok(ls_standin_run(RANKS, cross, &sizes[i]));
}

TEST(exchanges_may_start_in_any_order) {
  for (int i = 0; i < 8; ++i)
    expect_ok(ls_standin_run(RANKS, cross_in_disorder, NULL));
}

// ---- Gathers and broadcasts -------------------------------------------------
TEST(gathers_and_broadcasts_give_all_the_same) {
  expect_ok(ls_standin_run(RANKS, gather_and_broadcast, NULL));
}

// ---- Waits that end by themselves -------------------------------------------
static void describe_nothing(void *user, char *text, size_t size) {
  (void)user;
  (void)snprintf(text, size, "in the kitchen\n");
}

static bool never_goes_on(void *user, uint64_t *seen) {
  (void)user;
  (void)seen;
  return false;
}

// Several beats long, some of which are late on a busy machine.
enum { STALL_MICROS = 2000000, LONGER_MICROS = 3500000 };
static const ls_rank_services idle_services = {
    .describe = describe_nothing,
    .goes_on = never_goes_on,
    .stall = STALL_MICROS * INT64_C(1000)};

// Waits for an exchange whose name no other rank has.
static ls_status wait_for_nobody(ls_communicator *communicator, void *user) {
  (void)user;
  communicator->attach(communicator, &idle_services);
  const ls_exchange_name name = {.merge = (uint32_t)communicator->rank};
  return ls_communicator_exchange(
      communicator, &name,
      &(ls_exchange_piece){.from = LS_EACH_RANK, .to = LS_EACH_RANK}, 1);
}

TEST(ranks_that_wait_for_each_other_learn_of_it) {
  const ls_status status = ls_standin_run(2, wait_for_nobody, NULL);
  expect_contains(ls_status_message(status), "all ranks wait for each other");
  expect_contains(ls_status_message(status), "rank 1:\nin the kitchen");
  expect_status(status, LS_DEADLINE_EXCEEDED, "rank 0:\nin the kitchen");
}

// Computes on rank 1, for longer than may nothing move.
static ls_status compute_on_rank_one(ls_communicator *communicator,
                                     void *user) {
  (void)user;
  communicator->attach(communicator, &idle_services);
  const int64_t end = micros_now() + LONGER_MICROS;
  while (communicator->rank == 1 && micros_now() < end) {
  }
  return ls_communicator_exchange(
      communicator, &(ls_exchange_name){0},
      &(ls_exchange_piece){.from = LS_EACH_RANK, .to = LS_EACH_RANK}, 1);
}

TEST(a_rank_that_computes_is_waited_for) {
  expect_ok(ls_standin_run(2, compute_on_rank_one, NULL));
}

static ls_status sleep_on_rank_one(ls_communicator *communicator, void *user) {
  const unsigned *micros = user;
  communicator->attach(communicator, &idle_services);
  if (communicator->rank == 1) usleep(*micros);
  return ls_communicator_exchange(
      communicator, &(ls_exchange_name){0},
      &(ls_exchange_piece){.from = LS_EACH_RANK, .to = LS_EACH_RANK}, 1);
}

TEST(a_rank_that_sleeps_is_waited_for_as_long_as_is_allowed) {
  unsigned micros = 200000;
  expect_ok(ls_standin_run(3, sleep_on_rank_one, &micros));
  micros = LONGER_MICROS;
  const ls_status status = ls_standin_run(3, sleep_on_rank_one, &micros);
  expect_status(status, LS_DEADLINE_EXCEEDED, "nothing has moved on any rank");
}
