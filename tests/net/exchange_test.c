// SPDX-License-Identifier: Apache-2.0
//
// Exchanges that are started and finished later: pieces from one rank to one or
// to all, large and empty ones, several at once, and waits that end by
// themselves.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/communicator.h"
#include "support/expect.h"

enum { RANKS = 4, BIG = 300000 };

// Fills the bytes of an exchange; different for each sender and receiver.
static void fill(unsigned char *data, size_t size, int32_t from, int32_t to,
                 int32_t salt) {
  for (size_t i = 0; i < size; ++i)
    data[i] = (unsigned char)(i * 7 + (size_t)(from * 31 + to * 5 + salt));
}

static ls_status check(const unsigned char *data, size_t size, int32_t from,
                       int32_t to, int32_t salt) {
  for (size_t i = 0; i < size; ++i)
    if (data[i] != (unsigned char)(i * 7 + (size_t)(from * 31 + to * 5 + salt)))
      return LS_STATUS(LS_DATA_LOSS, "byte %zu from %d to %d", i, from, to);
  return ls_ok();
}

// An exchange in which every rank sends other bytes to every other one.
typedef struct crossing {
  unsigned char *out[RANKS], *in[RANKS];
  ls_exchange_piece pieces[2 * RANKS];
  ls_exchange exchange;
  size_t size;
  int32_t salt;
} crossing;

static void crossing_init(crossing *self, const ls_communicator *communicator,
                          size_t size, int32_t salt) {
  const int32_t rank = communicator->rank;
  *self = (crossing){.size = size, .salt = salt};
  for (int32_t k = 0; k < communicator->ranks; ++k) {
    self->out[k] = malloc(size + 1);
    self->in[k] = calloc(1, size + 1);
    fill(self->out[k], size, rank, k, salt);
    self->pieces[2 * k] =
        (ls_exchange_piece){self->out[k], size, .from = rank, .to = k};
    self->pieces[2 * k + 1] =
        (ls_exchange_piece){self->in[k], size, .from = k, .to = rank};
  }
  self->exchange = (ls_exchange){.name = {.merge = (uint32_t)salt},
                                 .pieces = self->pieces,
                                 .count = 2 * (size_t)communicator->ranks};
}

static ls_status crossing_check(crossing *self,
                                const ls_communicator *communicator) {
  ls_status status = ls_ok();
  for (int32_t k = 0; k < communicator->ranks; ++k) {
    if (k != communicator->rank && ls_status_is_ok(status))
      status =
          check(self->in[k], self->size, k, communicator->rank, self->salt);
    free(self->out[k]);
    free(self->in[k]);
  }
  return status;
}

static ls_status cross(ls_communicator *communicator, void *user) {
  const size_t *size = user;
  crossing each;
  for (int32_t round = 0; round < 5; ++round) {
    crossing_init(&each, communicator, *size, round);
    LS_RETURN_IF_ERROR(communicator->start(communicator, &each.exchange));
    LS_RETURN_IF_ERROR(communicator->wait(communicator, &each.exchange));
    LS_RETURN_IF_ERROR(crossing_check(&each, communicator));
  }
  return ls_ok();
}

TEST(pieces_go_from_each_rank_to_each) {
  size_t sizes[] = {0, 1, 999, 4000, 4001, BIG};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i)
    expect_ok(ls_standin_run(RANKS, cross, &sizes[i]));
}

// Starts exchanges in another order on each rank, and waits in a third.
static ls_status cross_in_disorder(ls_communicator *communicator, void *user) {
  enum { COUNT = 12 };
  crossing all[COUNT];
  (void)user;
  for (int32_t i = 0; i < COUNT; ++i) {
    const int32_t salt = (i * 5 + communicator->rank * 3) % COUNT;
    crossing_init(&all[salt], communicator, salt % 3 == 0 ? BIG : 16, salt);
    LS_RETURN_IF_ERROR(communicator->start(communicator, &all[salt].exchange));
  }
  for (int32_t i = 0; i < COUNT; ++i) {
    crossing *each = &all[(i * 7 + communicator->rank) % COUNT];
    while (i % 4 == 0 && !communicator->is_done(communicator, &each->exchange))
      usleep(10);
    LS_RETURN_IF_ERROR(communicator->wait(communicator, &each->exchange));
    LS_RETURN_IF_ERROR(crossing_check(each, communicator));
  }
  return ls_ok();
}

TEST(exchanges_may_start_in_any_order) {
  for (int i = 0; i < 20; ++i)
    expect_ok(ls_standin_run(RANKS, cross_in_disorder, NULL));
}

// ---- Gathers and broadcasts -------------------------------------------------
static ls_status gather_and_broadcast(ls_communicator *communicator,
                                      void *user) {
  (void)user;
  for (int32_t round = 0; round < 20; ++round) {
    int32_t all[RANKS] = {0};
    all[communicator->rank] = round + communicator->rank;
    LS_RETURN_IF_ERROR(ls_communicator_gather(
        communicator, &(ls_exchange_name){.merge = 1}, all, sizeof(*all)));
    for (int32_t k = 0; k < RANKS; ++k)
      if (all[k] != round + k) return ls_internal("rank %d sent %d", k, all[k]);
    const int32_t from = round % RANKS;
    int32_t word = communicator->rank == from ? round : -1;
    LS_RETURN_IF_ERROR(
        ls_communicator_broadcast(communicator, &(ls_exchange_name){.merge = 2},
                                  from, &word, sizeof(word)));
    if (word != round) return ls_internal("round %d gives %d", round, word);
  }
  return ls_ok();
}

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

static const ls_rank_services idle_services = {.describe = describe_nothing,
                                               .goes_on = never_goes_on,
                                               .stall = 1500000000};

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

static ls_status sleep_on_rank_one(ls_communicator *communicator, void *user) {
  const unsigned *micros = user;
  communicator->attach(communicator, &idle_services);
  if (communicator->rank == 1) usleep(*micros);
  return ls_communicator_exchange(
      communicator, &(ls_exchange_name){0},
      &(ls_exchange_piece){.from = LS_EACH_RANK, .to = LS_EACH_RANK}, 1);
}

TEST(a_rank_that_sleeps_is_waited_for_as_long_as_is_allowed) {
  unsigned micros = 700000;
  expect_ok(ls_standin_run(3, sleep_on_rank_one, &micros));
  micros = 3500000;
  const ls_status status = ls_standin_run(3, sleep_on_rank_one, &micros);
  expect_status(status, LS_DEADLINE_EXCEEDED, "nothing has moved on any rank");
}
