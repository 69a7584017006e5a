// SPDX-License-Identifier: Apache-2.0
//
// Exchanges that are started and finished later: pieces from one rank to one or
// to all, large and empty ones, several at once, and waits that end by
// themselves.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/communicator.h"
#include "lockstep/simulation.h"
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
static const ls_rank_services idle_services = {.describe = describe_nothing,
                                               .goes_on = never_goes_on,
                                               .stall = STALL_MICROS *
                                                        INT64_C(1000)};

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

// Makes an exchange on a thread that then ends, or was in the background of
// other work and lives on.
typedef struct short_work {
  ls_communicator *communicator;
  bool in_background;
  ls_status status;
  pthread_mutex_t end;
} short_work;

static ls_status exchange_once(const short_work *self) {
  ls_communicator *communicator = self->communicator;
  ls_exchange exchange = {
      .name = {.merge = 77},
      .pieces = &(ls_exchange_piece){.from = LS_EACH_RANK, .to = LS_EACH_RANK},
      .count = 1,
      .in_background = self->in_background};
  LS_RETURN_IF_ERROR(communicator->start(communicator, &exchange));
  return communicator->wait(communicator, &exchange);
}

static void *work_shortly(void *user) {
  short_work *self = user;
  self->status = exchange_once(self);
  if (!self->in_background) return NULL;
  pthread_mutex_lock(&self->end);
  pthread_mutex_unlock(&self->end);
  return NULL;
}

static ls_status wait_after_work(ls_communicator *communicator, void *user) {
  const bool *in_background = user;
  pthread_t thread;
  short_work work = {communicator, *in_background, ls_ok(),
                     PTHREAD_MUTEX_INITIALIZER};
  pthread_mutex_lock(&work.end);
  assert_int_equal(pthread_create(&thread, NULL, work_shortly, &work), 0);
  if (!work.in_background) pthread_join(thread, NULL);
  const ls_status status = wait_for_nobody(communicator, NULL);
  pthread_mutex_unlock(&work.end);
  if (work.in_background) pthread_join(thread, NULL);
  return ls_status_join(work.status, status);
}

TEST(threads_that_make_no_exchanges_any_more_are_not_waited_for) {
  for (int i = 0; i < 2; ++i) {
    bool in_background = i == 1;
    expect_status(ls_standin_run(2, wait_after_work, &in_background),
                  LS_DEADLINE_EXCEEDED, "all ranks wait for each other");
  }
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

// ---- Data that nobody takes -------------------------------------------------
// Sends data from rank 1 to rank 0, which a message has no room for.
static ls_status send_much(ls_communicator *communicator, int64_t limit) {
  static char data[2][100000];
  const ls_exchange_piece piece = {data[communicator->rank], sizeof(data[0]), 1,
                                   0};
  ls_exchange exchange = {
      .name = {.merge = 1}, .pieces = &piece, .count = 1, .limit = limit};
  LS_RETURN_IF_ERROR(communicator->start(communicator, &exchange));
  return communicator->wait(communicator, &exchange);
}

static ls_status send_in_vain(ls_communicator *communicator, void *user) {
  (void)user;
  return communicator->rank == 1
             ? send_much(communicator, 100000000)
             : exchange_once(&(short_work){.communicator = communicator});
}

TEST(a_limit_names_the_rank_that_takes_no_data) {
  expect_status(ls_standin_run(3, send_in_vain, NULL), LS_DEADLINE_EXCEEDED,
                "rank 1 has waited for rank 0 for 0.1 s");
}

static void keep_line(void *user, const char *text) {
  snprintf(user, 200, "%s", text);
}

// Lets rank 0 take data late: 12 times it waits for rank 2, which sleeps.
static ls_status take_late(ls_communicator *communicator, void *user) {
  ls_runtime_options options = {0};
  ls_simulation_set_rank(communicator, &options);
  if (communicator->rank == 1)
    communicator->attach(communicator,
                         &(ls_rank_services){.user = user, .log = keep_line});
  for (uint64_t i = 0; i < 24 && communicator->rank != 1; ++i) {
    const ls_exchange_name name = {.merge = 2, .step = i};
    if (communicator->rank == 2)
      options.clock->sleep(options.clock->user, 500000000);
    LS_RETURN_IF_ERROR(ls_communicator_exchange(
        communicator, &name, (ls_exchange_piece[]){{.from = 2}, {.to = 2}}, 2));
  }
  LS_RETURN_IF_ERROR(communicator->rank < 2 ? send_much(communicator, 0)
                                            : ls_ok());
  communicator->attach(communicator, NULL);
  return ls_ok();
}

TEST(the_log_names_the_rank_that_takes_data_late) {
  char line[200] = "";
  ls_simulation *simulation = NULL;
  expect_ok(
      ls_simulation_create(&(ls_simulation_options){.seed = 1}, &simulation));
  expect_ok(ls_simulation_run(simulation, 3, take_late, line));
  ls_simulation_destroy(simulation);
  expect_contains(line, "rank 1 has waited 10 s for rank 0");
}
