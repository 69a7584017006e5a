// SPDX-License-Identifier: Apache-2.0
// Strategies that share a program: each is a party with a step of its own, in
// which its replicas go round a loop, meet and call the host, and with its
// variables.
#ifndef LS_TESTS_SUPPORT_PARTIES_H_
#define LS_TESTS_SUPPORT_PARTIES_H_

#include "lockstep/strategy.h"

enum {
  PARTY_WIDTH = 3,
  PARTY_ROWS = 24,  // Of all replicas together.
  PARTY_MOST_REPLICAS = 8,
  PARTY_MOST_CALLS = 1024
};

typedef struct party {
  int32_t number, replicas;
  bool is_plain;  // Its callback is run as it is.
  ls_strategy *strategy;
  ls_variable *weights, *sums;  // One for all; a value on each replica.
  ls_function *step;
} party;

// Party `number`, of so many replicas.
void party_make(party *p, int32_t number, int32_t replicas);
void party_drop(party *p);
// Runs its step where the thread is, of rows that are dealt to the replicas and
// a row that is for all. Results: each replica's own row, the sum of all, and
// the rows of all.
ls_status party_run(party *p, ls_tensor rows, ls_tensor factor,
                    ls_nest *results);
// A leaf as a tensor; a failed one if it is none.
ls_tensor party_tensor(ls_nest leaf);

// A call of the host.
typedef struct party_call {
  int32_t party, replica;
  float value;
} party_call;

// Forgets all calls; lists those since then, of all ranks, by party and replica
// in its order. What has one replica is run by every rank, and rank 0's counts.
void party_forget_calls(void);
size_t party_calls(party_call *out);

#endif  // LS_TESTS_SUPPORT_PARTIES_H_
