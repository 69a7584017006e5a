// SPDX-License-Identifier: Apache-2.0
#include "train/ranks.h"

ls_status ls_run_ranks_init(ls_run_ranks *ranks, ls_runtime *runtime,
                            const ls_strategy *strategy) {
  *ranks = (ls_run_ranks){0};
  if (ls_strategy_num_replicas(strategy) < 2) return ls_ok();
  LS_RETURN_IF_ERROR(ls_ranks_init(&ranks->all, runtime, "a run's ranks", 0));
  if (ranks->all.communicator == NULL) return ls_ok();
  ranks->numbers = ls_new_array(ls_runtime_allocator(runtime), ls_rank_numbers,
                                ls_ranks_count(&ranks->all));
  return ls_memory_status(ranks->numbers != NULL);
}

void ls_run_ranks_deinit(ls_run_ranks *ranks) {
  if (ranks->all.allocator != NULL)
    ls_release(ranks->all.allocator, ranks->numbers);
  ls_text_deinit(&ranks->sums.text);
  ls_ranks_deinit(&ranks->all);
}

bool ls_run_ranks_writes(const ls_run_ranks *ranks) {
  return ls_ranks_own(&ranks->all) == 0;
}

// ---- Comparing -------------------------------------------------------------
ls_status ls_run_facts_compare(ls_ranks *ranks, ls_status own,
                               const ls_run_fact *facts, size_t count) {
  if (ranks->communicator == NULL) return own;
  LS_OWN(ls_text, text) = {.allocator = ranks->allocator};
  for (size_t i = 0; i < count; ++i)
    if (facts[i].text != NULL)
      ls_text_append_format(&text, "%s: %s\n", facts[i].noun, facts[i].text);
    else
      ls_text_append_format(&text, "%s: %lld\n", facts[i].noun,
                            (long long)facts[i].number);
  return ls_ranks_compare(
      ranks, own, &(ls_rank_facts){.verb = "train with", .text = &text});
}

ls_status ls_run_ranks_compare(ls_run_ranks *ranks) {
  const ls_rank_sums *sums = &ranks->sums;
  uint64_t sum = 0;
  if (ranks->all.communicator == NULL) return ls_ok();
  LS_OWN(ls_text, text) = {.allocator = ranks->all.allocator};
  const ls_status status =
      ls_train_sum(sums->runtime, sums->model, 0, &text, &sum);
  return ls_ranks_compare(
      &ranks->all, status,
      &(ls_rank_facts){.verb = "begin with", .text = &text});
}

// ---- Checksums -------------------------------------------------------------
ls_status ls_run_ranks_sum(ls_run_ranks *ranks, int64_t step) {
  ls_rank_sums *sums = &ranks->sums;
  if (ranks->all.communicator == NULL || sums->every == 0 || step < sums->next)
    return ls_ok();
  ls_text_deinit(&sums->text);
  ls_text_init(&sums->text, ranks->all.allocator);
  LS_RETURN_IF_ERROR(ls_train_sum(sums->runtime, sums->model, step, &sums->text,
                                  &sums->checksum));
  sums->checksum |= 1;
  sums->next = step - step % sums->every + sums->every;
  return ls_ok();
}

// ---- Agreement -------------------------------------------------------------
// Sends a word and the checksum, and gets rank 0's word and the union of all.
static ls_status exchange_numbers(ls_run_ranks *ranks, int64_t own,
                                  int64_t *out_first, int64_t *out_bits) {
  const size_t rank = ls_ranks_own(&ranks->all);
  *out_first = *out_bits = own;
  ranks->numbers[rank] = (ls_rank_numbers){own, ranks->sums.checksum};
  ranks->sums.checksum = 0;
  LS_RETURN_IF_ERROR(
      ls_ranks_gather(&ranks->all, ranks->numbers, sizeof(*ranks->numbers)));
  *out_first = ranks->numbers[0].word;
  for (size_t k = 0; k < ls_ranks_count(&ranks->all); ++k)
    *out_bits |= ranks->numbers[k].word;
  return ls_ok();
}

ls_status ls_run_ranks_stop(ls_run_ranks *ranks, bool stops, bool *out_stops) {
  const ls_rank_party *party = &ranks->party;
  int64_t first = 0, bits = 0;
  *out_stops = stops;
  if (ranks->all.communicator == NULL) return ls_ok();
  const int64_t sent = party->send != NULL ? party->send(party->user) : 0;
  const ls_status status = exchange_numbers(
      ranks, (int64_t)((uint64_t)sent << 1) | stops, &first, &bits);
  *out_stops = (bits & 1) != 0;
  if (party->receive != NULL)
    party->receive(party->user, first >> 1, bits >> 1);
  LS_RETURN_IF_ERROR(status);
  for (size_t k = 1; k < ls_ranks_count(&ranks->all); ++k)
    if (ranks->numbers[k].checksum != ranks->numbers[0].checksum)
      return ls_ranks_compare(&ranks->all, ls_ok(),
                              &(ls_rank_facts){.verb = "have",
                                               .code = LS_DATA_LOSS,
                                               .text = &ranks->sums.text});
  return ls_ok();
}

ls_status ls_run_ranks_agree(ls_run_ranks *ranks, ls_status own) {
  ls_communicator *communicator = ranks->all.communicator;
  bool any = false;
  if (communicator == NULL) return own;
  if (ls_status_is_ok(own)) return ls_ranks_any(&ranks->all, false, &any);
  communicator->cancel(communicator, own);
  return own;
}
