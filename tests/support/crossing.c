// SPDX-License-Identifier: Apache-2.0
#include "support/crossing.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BIG = 300000, HUGE_SIZE = 1 << 20 };

// ---- Crossings -------------------------------------------------------------
static unsigned char byte_of(size_t i, int32_t from, int32_t to, int32_t salt) {
  return (unsigned char)(i * 7 + i / 251 + (size_t)(from * 31 + to * 5 + salt));
}

static void fill(unsigned char *data, size_t size, int32_t from, int32_t to,
                 int32_t salt) {
  for (size_t i = 0; i < size; ++i)
    data[i] = byte_of(i, from, to, salt);
}

static ls_status check(const unsigned char *data, size_t size, int32_t from,
                       int32_t to, int32_t salt) {
  for (size_t i = 0; i < size; ++i)
    if (data[i] != byte_of(i, from, to, salt))
      return LS_STATUS(LS_DATA_LOSS, "byte %zu of %zu from rank %d to %d", i,
                       size, from, to);
  return ls_ok();
}

void crossing_init(crossing *self, const ls_communicator *communicator,
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

void crossing_deinit(crossing *self, const ls_communicator *communicator) {
  for (int32_t k = 0; k < communicator->ranks; ++k) {
    free(self->out[k]);
    free(self->in[k]);
  }
}

ls_status crossing_check(crossing *self, const ls_communicator *communicator) {
  const int32_t rank = communicator->rank;
  ls_status status = ls_ok();
  for (int32_t k = 0; k < communicator->ranks; ++k)
    if (k != rank && ls_status_is_ok(status))
      status = check(self->in[k], self->size, k, rank, self->salt);
  crossing_deinit(self, communicator);
  return status;
}

// ---- Functions of a rank ---------------------------------------------------
ls_status cross(ls_communicator *communicator, void *user) {
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

ls_status cross_in_disorder(ls_communicator *communicator, void *user) {
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

// Copies a large text of one rank to all.
static ls_status broadcast_much(ls_communicator *communicator, int32_t from) {
  unsigned char *data = calloc(1, HUGE_SIZE);
  if (communicator->rank == from) fill(data, HUGE_SIZE, from, 0, 3);
  ls_status status = ls_communicator_broadcast(
      communicator, &(ls_exchange_name){.merge = 3}, from, data, HUGE_SIZE);
  if (ls_status_is_ok(status)) status = check(data, HUGE_SIZE, from, 0, 3);
  free(data);
  return status;
}

ls_status gather_and_broadcast(ls_communicator *communicator, void *user) {
  const int32_t ranks = communicator->ranks;
  (void)user;
  for (int32_t round = 0; round < 20; ++round) {
    int32_t all[MOST_CROSSING] = {0};
    all[communicator->rank] = round + communicator->rank;
    LS_RETURN_IF_ERROR(ls_communicator_gather(
        communicator, &(ls_exchange_name){.merge = 1}, all, sizeof(*all)));
    for (int32_t k = 0; k < ranks; ++k)
      if (all[k] != round + k) return ls_internal("rank %d sent %d", k, all[k]);
    const int32_t from = round % ranks;
    int32_t word = communicator->rank == from ? round : -1;
    LS_RETURN_IF_ERROR(
        ls_communicator_broadcast(communicator, &(ls_exchange_name){.merge = 2},
                                  from, &word, sizeof(word)));
    if (word != round) return ls_internal("round %d gives %d", round, word);
  }
  return broadcast_much(communicator, ranks - 1);
}
