// SPDX-License-Identifier: Apache-2.0
//
// Ranks that stand in for processes: what they exchange, and how they end.
#include "lockstep/communicator.h"
#include "support/expect.h"

enum { RANKS = 3, ROUNDS = 200, WIDTH = 5 };

// ---- Exchanging ------------------------------------------------------------
static int32_t number_of(int32_t rank, int32_t round, int32_t i) {
  return rank * 10000 + round * WIDTH + i;
}

// A piece of `width` numbers from each rank; `name` may come again and again.
static ls_status exchange_numbers(ls_communicator *communicator,
                                  ls_exchange_name name, int32_t round,
                                  size_t width) {
  int32_t numbers[RANKS][WIDTH] = {{0}};
  ls_exchange_piece pieces[RANKS];
  for (int32_t i = 0; i < WIDTH; ++i)
    numbers[communicator->rank][i] = number_of(communicator->rank, round, i);
  for (int32_t k = 0; k < communicator->ranks; ++k)
    pieces[k] = (ls_exchange_piece){numbers[k], width * sizeof(int32_t), k,
                                    LS_EACH_RANK};
  LS_RETURN_IF_ERROR(ls_communicator_exchange(communicator, &name, pieces,
                                              (size_t)communicator->ranks));
  for (int32_t k = 0; k < communicator->ranks; ++k)
    for (int32_t i = 0; i < WIDTH; ++i)
      if (numbers[k][i] != number_of(k, round, i))
        return LS_STATUS(LS_DATA_LOSS, "round %d: %d of rank %d", round,
                         numbers[k][i], k);
  return ls_ok();
}

static ls_status exchange_rounds(ls_communicator *communicator, void *user) {
  (void)user;
  for (int32_t round = 0; round < ROUNDS; ++round)
    LS_RETURN_IF_ERROR(exchange_numbers(
        communicator, (ls_exchange_name){.merge = 7}, round, WIDTH));
  return ls_ok();
}

TEST(every_rank_gets_every_piece_round_after_round) {
  expect_ok(ls_standin_run(RANKS, exchange_rounds, NULL));
  expect_ok(ls_standin_run(1, exchange_rounds, NULL));
  expect_status(ls_standin_run(0, exchange_rounds, NULL), LS_INVALID_ARGUMENT,
                "a simulation of 0 ranks");
}

static ls_status exchange_other_sizes(ls_communicator *communicator,
                                      void *user) {
  (void)user;
  return exchange_numbers(communicator, (ls_exchange_name){.merge = 1}, 0,
                          (size_t)(WIDTH - communicator->rank));
}

TEST(pieces_of_other_sizes_are_refused) {
  expect_status(ls_standin_run(RANKS, exchange_other_sizes, NULL), LS_INTERNAL,
                "bytes of rank");
}

// ---- Ends ------------------------------------------------------------------
// Rank 1 fails or ends where the others wait. What they got is noted.
typedef struct ending {
  ls_status how;  // NULL: it ends in peace.
  ls_code got[RANKS], later[RANKS];
} ending;

static ls_code code_and_free(ls_status status) {
  const ls_code code = ls_status_code(status);
  ls_status_free(status);
  return code;
}

static ls_status wait_for_rank_one(ls_communicator *communicator, void *user) {
  ending *end = user;
  if (communicator->rank == 1) return end->how;
  const ls_exchange_name name = {.iteration = 3};
  end->got[communicator->rank] =
      code_and_free(exchange_numbers(communicator, name, 0, WIDTH));
  end->later[communicator->rank] =
      code_and_free(exchange_numbers(communicator, name, 1, WIDTH));
  return ls_ok();
}

TEST(a_rank_that_fails_tells_all_others) {
  ending end = {.how = LS_STATUS(LS_UNAVAILABLE, "no more paper")};
  const ls_status status = ls_standin_run(RANKS, wait_for_rank_one, &end);
  expect_contains(ls_status_message(status), "on rank 1 of 3");
  expect_status(status, LS_UNAVAILABLE, "no more paper");
  for (int k = 0; k < RANKS; k += 2) {
    assert_int_equal(end.got[k], LS_UNAVAILABLE);
    assert_int_equal(end.later[k], LS_UNAVAILABLE);
  }
}

TEST(nobody_waits_for_a_rank_that_has_ended) {
  ending end = {.how = ls_ok()};
  expect_status(ls_standin_run(RANKS, wait_for_rank_one, &end),
                LS_FAILED_PRECONDITION, "for rank 1, which has ended");
  for (int k = 0; k < RANKS; k += 2)
    assert_int_equal(end.got[k], LS_FAILED_PRECONDITION);
}
