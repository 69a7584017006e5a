// SPDX-License-Identifier: Apache-2.0
#include "train/ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "runtime/program.h"
#include "state/checkpoint_file.h"
#include "train/folder/saved_values.h"

static const char name[] = "a run's ranks";

ls_status ls_run_ranks_init(ls_run_ranks *ranks, ls_runtime *runtime,
                            const ls_strategy *strategy) {
  ls_communicator *communicator = ls_runtime_communicator(runtime);
  *ranks = (ls_run_ranks){.allocator = ls_runtime_allocator(runtime)};
  if (communicator == NULL || communicator->ranks < 2 ||
      ls_strategy_num_replicas(strategy) < 2)
    return ls_ok();
  ranks->communicator = communicator;
  ranks->numbers = ls_new_array(ranks->allocator, ls_rank_numbers,
                                (size_t)communicator->ranks);
  return ranks->numbers == NULL ? ls_out_of_memory() : ls_ok();
}

void ls_run_ranks_deinit(ls_run_ranks *ranks) {
  if (ranks->allocator == NULL) return;
  ls_release(ranks->allocator, ranks->numbers);
  *ranks = (ls_run_ranks){0};
}

bool ls_run_ranks_writes(const ls_run_ranks *ranks) {
  return ranks->communicator == NULL || ranks->communicator->rank == 0;
}

// ---- Exchanges -------------------------------------------------------------
// Returns the next name that no program uses.
static ls_exchange_name next_name(ls_run_ranks *ranks) {
  return (ls_exchange_name){
      .program = {ls_hash(name, sizeof(name), 0), 0},
      .iteration = ranks->num_exchanges++,
      .merge = UINT32_MAX - 2,
  };
}

ls_status ls_run_ranks_exchange(ls_run_ranks *ranks, int64_t own,
                                int64_t *out_first, int64_t *out_bits) {
  *out_first = *out_bits = own;
  ls_communicator *communicator = ranks->communicator;
  if (communicator == NULL) return ls_ok();
  ranks->numbers[communicator->rank] =
      (ls_rank_numbers){own, ranks->sums.checksum};
  ranks->sums.checksum = 0;
  const ls_exchange_name exchange = next_name(ranks);
  LS_RETURN_IF_ERROR(ls_communicator_gather(
      communicator, &exchange, ranks->numbers, sizeof(*ranks->numbers)));
  *out_first = ranks->numbers[0].word;
  for (int32_t k = 0; k < communicator->ranks; ++k)
    *out_bits |= ranks->numbers[k].word;
  return ls_ok();
}

// Waits until all ranks know a failure: what one does afterwards must not fail
// another in other words.
static ls_status fail_together(ls_run_ranks *ranks, ls_status failure) {
  int64_t first = 0, bits = 0;
  ls_status_free(ls_run_ranks_exchange(ranks, 0, &first, &bits));
  return failure;
}

// ---- Checksums -------------------------------------------------------------
// Hashes of the variables, one after another.
typedef struct variable_sums {
  ls_allocator *allocator;
  ls_variable **variables;
  uint64_t *hashes;  // Rows of `count`, one per rank.
  size_t count;
} variable_sums;

static void variable_sums_deinit(variable_sums *sums) {
  ls_release(sums->allocator, sums->variables);
  ls_release(sums->allocator, sums->hashes);
}
LS_OWNED_STRUCT(variable_sums, variable_sums_deinit)

// Hashes a variable's value; 0 if replicas have values of their own, or it has
// none.
static ls_status hash_variable(ls_store *store, ls_variable *variable,
                               uint64_t *out_hash) {
  LS_OWN(ls_array, value) = NULL;
  *out_hash = 0;
  if (ls_state_parts(store, variable) > 0 || variable->num_targets > 0 ||
      !ls_store_has_value(store, variable))
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_store_read(store, variable, &value));
  *out_hash = ls_hash(ls_array_data(value), ls_array_size(value), 0);
  return ls_ok();
}

static ls_status hash_variables(const ls_run_ranks *ranks, variable_sums *out) {
  const ls_rank_sums *sums = &ranks->sums;
  ls_runtime_state *state = NULL;
  out->allocator = ranks->allocator;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(sums->runtime, &state));
  LS_RETURN_IF_ERROR(ls_train_variables(sums->runtime, sums->model, true,
                                        &out->variables, &out->count));
  const size_t rank = (size_t)ranks->communicator->rank;
  out->hashes = ls_new_array(out->allocator, uint64_t,
                             (size_t)ranks->communicator->ranks * out->count);
  LS_RETURN_IF_NO_MEMORY(out->hashes);
  for (size_t i = 0; i < out->count; ++i)
    LS_RETURN_IF_ERROR(hash_variable(state->store, out->variables[i],
                                     &out->hashes[rank * out->count + i]));
  return ls_ok();
}

ls_status ls_run_ranks_sum(ls_run_ranks *ranks, int64_t step) {
  ls_rank_sums *sums = &ranks->sums;
  if (ranks->communicator == NULL || sums->every == 0 || step < sums->next)
    return ls_ok();
  LS_OWN(variable_sums, own) = {0};
  LS_RETURN_IF_ERROR(hash_variables(ranks, &own));
  const size_t rank = (size_t)ranks->communicator->rank;
  sums->checksum = ls_hash(own.hashes + rank * own.count,
                           own.count * sizeof(*own.hashes), 0) |
                   1;
  sums->step = step;
  sums->next = step - step % sums->every + sums->every;
  return ls_ok();
}

// Names the first variable that differs. All ranks call it, after their
// checksums differed.
static ls_status find_variable(ls_run_ranks *ranks) {
  const ls_exchange_name exchange = next_name(ranks);
  const int64_t step = ranks->sums.step;
  LS_OWN(variable_sums, all) = {0};
  LS_RETURN_IF_ERROR(hash_variables(ranks, &all));
  LS_RETURN_IF_ERROR(ls_communicator_gather(ranks->communicator, &exchange,
                                            all.hashes,
                                            all.count * sizeof(*all.hashes)));
  for (int32_t k = 1; k < ranks->communicator->ranks; ++k)
    for (size_t i = 0; i < all.count; ++i)
      if (all.hashes[(size_t)k * all.count + i] != all.hashes[i])
        return fail_together(
            ranks, LS_STATUS(LS_DATA_LOSS,
                             "ranks 0 and %d have another value of variable "
                             "'%s' at step %lld",
                             k, all.variables[i]->name, (long long)step));
  return fail_together(
      ranks, LS_STATUS(LS_DATA_LOSS,
                       "the ranks' variables were not the same at step %lld",
                       (long long)step));
}

ls_status ls_run_ranks_stop(ls_run_ranks *ranks, bool stops, bool *out_stops) {
  const ls_rank_party *party = &ranks->party;
  int64_t first = 0, bits = 0;
  *out_stops = stops;
  if (ranks->communicator == NULL) return ls_ok();
  const int64_t sent = party->send != NULL ? party->send(party->user) : 0;
  const ls_status status = ls_run_ranks_exchange(
      ranks, (int64_t)((uint64_t)sent << 1) | stops, &first, &bits);
  *out_stops = (bits & 1) != 0;
  if (party->receive != NULL)
    party->receive(party->user, first >> 1, bits >> 1);
  LS_RETURN_IF_ERROR(status);
  for (int32_t k = 1; k < ranks->communicator->ranks; ++k)
    if (ranks->numbers[k].checksum != ranks->numbers[0].checksum)
      return find_variable(ranks);
  return ls_ok();
}

ls_status ls_run_ranks_agree(ls_run_ranks *ranks, ls_status own) {
  int64_t first = 0, bits = 0;
  ls_communicator *communicator = ranks->communicator;
  if (communicator == NULL || ls_status_is_ok(own))
    return ls_status_is_ok(own) ? ls_run_ranks_exchange(ranks, 0, &first, &bits)
                                : own;
  communicator->cancel(communicator, own);
  return own;
}

// ---- Facts -----------------------------------------------------------------
// Names the first line that differs between ranks 0 and `rank`.
static ls_status describe_facts(int32_t rank, const char *a, const char *b) {
  size_t line = 0, at = 0;
  for (; a[at] != '\0' && a[at] == b[at]; ++at)
    if (a[at] == '\n') line = at + 1;
  const int noun = (int)strcspn(a + line, ":\n");
  const int first = (int)strcspn(a + line, "\n");
  const int second = (int)strcspn(b + line, "\n");
  const int skip = noun + 2;
  if (first < skip || second < skip)
    return ls_failed_precondition("ranks 0 and %d train differently", rank);
  return ls_failed_precondition(
      "ranks 0 and %d train with another %.*s: %.*s and %.*s", rank, noun,
      a + line, first - skip, a + line + skip, second - skip, b + line + skip);
}

// Gets the facts of a rank, `size` bytes, on all ranks. The caller frees them.
static ls_status send_facts(ls_run_ranks *ranks, int32_t from, int64_t size,
                            const ls_text *own, char **out_facts) {
  const ls_exchange_name exchange = next_name(ranks);
  *out_facts = ls_allocate_zeroed(ranks->allocator, (size_t)size + 1, 1);
  LS_RETURN_IF_NO_MEMORY(*out_facts);
  if (from == ranks->communicator->rank)
    memcpy(*out_facts, own->data, own->size);
  return ls_communicator_broadcast(ranks->communicator, &exchange, from,
                                   *out_facts, (size_t)size);
}

static ls_status compare_with(ls_run_ranks *ranks, int32_t rank,
                              const ls_text *own) {
  int64_t first = 0, bits = 0;
  LS_OWN_MEMORY(ranks->allocator, char, a) = NULL;
  LS_OWN_MEMORY(ranks->allocator, char, b) = NULL;
  LS_RETURN_IF_ERROR(
      ls_run_ranks_exchange(ranks, (int64_t)own->size, &first, &bits));
  const int64_t size = ranks->numbers[rank].word;
  LS_RETURN_IF_ERROR(send_facts(ranks, 0, first, own, &a));
  LS_RETURN_IF_ERROR(send_facts(ranks, rank, size, own, &b));
  return fail_together(ranks, describe_facts(rank, a, b));
}

// Tells all ranks why one cannot begin. A rank with a failure returns its own.
static ls_status tell_failure(ls_run_ranks *ranks, int32_t from,
                              ls_status own) {
  char why[400] = "";
  const ls_exchange_name exchange = next_name(ranks);
  if (from == ranks->communicator->rank)
    snprintf(why, sizeof(why), "%s", ls_status_message(own));
  const ls_status sent = ls_communicator_broadcast(
      ranks->communicator, &exchange, from, why, sizeof(why));
  if (!ls_status_is_ok(sent)) return ls_status_join(own, sent);
  if (ls_status_is_ok(own))
    own =
        ls_failed_precondition("rank %d cannot begin to train: %s", from, why);
  return fail_together(ranks, own);
}

ls_status ls_run_ranks_compare(ls_run_ranks *ranks, ls_status own,
                               const ls_text *facts) {
  enum { FAILED = 0 };
  int64_t first = 0, bits = 0;
  if (ranks->communicator == NULL) return own;
  if (ls_status_is_ok(own)) own = ls_text_status(facts);
  const int64_t hash = ls_status_is_ok(own)
                           ? (int64_t)(ls_hash(facts->data, facts->size, 0) | 1)
                           : FAILED;
  const ls_status sent = ls_run_ranks_exchange(ranks, hash, &first, &bits);
  if (!ls_status_is_ok(sent)) return ls_status_join(own, sent);
  for (int32_t k = 0; k < ranks->communicator->ranks; ++k)
    if (ranks->numbers[k].word == FAILED) return tell_failure(ranks, k, own);
  for (int32_t k = 1; k < ranks->communicator->ranks; ++k)
    if (ranks->numbers[k].word != first) return compare_with(ranks, k, facts);
  return ls_ok();
}
