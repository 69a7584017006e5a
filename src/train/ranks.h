// SPDX-License-Identifier: Apache-2.0
// Ranks of a run: their agreement around steps.
#ifndef LS_TRAIN_RANKS_H_
#define LS_TRAIN_RANKS_H_

#include "lockstep/models.h"
#include "lockstep/strategy.h"
#include "net/agreement.h"
#include "runtime/store.h"

// Bits to exchange with other ranks together with a stop: `send` returns own
// bits, `receive` gets rank 0's and the union of all.
typedef struct ls_rank_party {
  void *user;
  int64_t (*send)(void *user);  // NULL: sends nothing.
  void (*receive)(void *user, int64_t first, int64_t bits);
} ls_rank_party;

// Numbers that a rank sends around a step: a word, and a checksum of its
// variables; 0 if none is due.
typedef struct ls_rank_numbers {
  int64_t word;
  uint64_t checksum;
} ls_rank_numbers;

// Checksums of the variables that should be the same on all ranks.
typedef struct ls_rank_sums {
  ls_runtime *runtime;
  const ls_model *model;  // Lent.
  int64_t every;          // Number of steps between checks; 0: no checks.
  int64_t next;           // Step of the next check.
  ls_text text;           // Hashes of the variables at the last check.
  uint64_t checksum;      // Checksum to send with the next exchange, or 0.
} ls_rank_sums;

// Computes a checksum of the variables of a model and its optimizer after
// `step` steps, from hashes that it prints to `text`; variables of which
// replicas have values of their own are left out.
LS_MUST_USE ls_status ls_train_sum(ls_runtime *runtime, const ls_model *model,
                                   int64_t step, ls_text *text,
                                   uint64_t *out_sum);

// Does so for variables of a store.
LS_MUST_USE ls_status ls_variables_sum(ls_runtime *runtime, ls_store *store,
                                       ls_variable *const *variables,
                                       size_t count, int64_t step,
                                       ls_text *text, uint64_t *out_sum);

// A fact that is the same on all ranks of a run: a text, or a number.
typedef struct ls_run_fact {
  const char *noun;
  int64_t number;    // Without a text.
  const char *text;  // NULL: a number.
} ls_run_fact;
static inline const char *ls_text_or_none(const char *text) {
  return text != NULL ? text : "none";
}
// Compares the facts of all ranks before their run. `own` is this rank's
// failure so far, which then is that of all, without facts.
//   LS_FAILED_PRECONDITION  on all ranks: names two of them, the fact and its
//                           values.
LS_MUST_USE ls_status ls_run_facts_compare(ls_ranks *ranks, ls_status own,
                                           const ls_run_fact *facts,
                                           size_t count);

// Zeroed: a single rank.
typedef struct ls_run_ranks {
  ls_ranks all;
  ls_rank_numbers *numbers;  // One per rank.
  ls_rank_sums sums;
  ls_rank_party party;
} ls_run_ranks;

LS_MUST_USE ls_status ls_run_ranks_init(ls_run_ranks *ranks,
                                        ls_runtime *runtime,
                                        const ls_strategy *strategy);
void ls_run_ranks_deinit(ls_run_ranks *ranks);
// Returns true on the rank that writes the run's files.
bool ls_run_ranks_writes(const ls_run_ranks *ranks);

// Compares the initial values of the variables, once before the first step.
//   LS_FAILED_PRECONDITION  on all ranks: names two of them and the variable.
LS_MUST_USE ls_status ls_run_ranks_compare(ls_run_ranks *ranks);

// Adds a checksum of the variables to the next ls_run_ranks_stop, if the check
// is due at `step`. All ranks call it at the same steps.
LS_MUST_USE ls_status ls_run_ranks_sum(ls_run_ranks *ranks, int64_t step);

// Returns true in `*out_stops` if a rank requests a stop; also exchanges the
// party's bits and the checksums.
//   LS_DATA_LOSS  the checksums differ: names the rank, the variable and the
//                 step.
LS_MUST_USE ls_status ls_run_ranks_stop(ls_run_ranks *ranks, bool stops,
                                        bool *out_stops);
// Waits for all ranks; a failure on one cancels the communicator, so that it is
// that of all.
LS_MUST_USE ls_status ls_run_ranks_agree(ls_run_ranks *ranks, ls_status own);

#endif  // LS_TRAIN_RANKS_H_
