// SPDX-License-Identifier: Apache-2.0
#include "net/agreement.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/map.h"
#include "base/status_cause.h"

// A message to all other ranks.
struct ls_rank_word {
  uint64_t number;
  int32_t code;
  char text[500];
};

ls_status ls_ranks_init(ls_ranks *ranks, ls_runtime *runtime, const char *name,
                        uint64_t thread) {
  ls_communicator *communicator = ls_runtime_communicator(runtime);
  *ranks = (ls_ranks){.allocator = ls_runtime_allocator(runtime)};
  if (communicator == NULL || communicator->ranks < 2) return ls_ok();
  ranks->communicator = communicator;
  ranks->name.program[0] = ls_hash(name, strlen(name), 0);
  ranks->name.program[1] = thread;
  ranks->name.merge = UINT32_MAX;
  ranks->words = ls_new_array(ranks->allocator, struct ls_rank_word,
                              (size_t)communicator->ranks);
  return ls_memory_status(ranks->words != NULL);
}

void ls_ranks_deinit(ls_ranks *ranks) {
  if (ranks->allocator == NULL) return;
  ls_release(ranks->allocator, ranks->words);
  *ranks = (ls_ranks){0};
}

// ---- Collectives -----------------------------------------------------------
ls_status ls_ranks_exchange(ls_ranks *ranks, const ls_exchange_piece *pieces,
                            size_t count) {
  if (ranks->communicator == NULL) return ls_ok();
  ++ranks->name.step;
  return ls_communicator_exchange(ranks->communicator, &ranks->name, pieces,
                                  count);
}

ls_status ls_ranks_gather(ls_ranks *ranks, void *all, size_t size) {
  const ls_exchange_piece piece = {all, size, LS_EACH_RANK, LS_EACH_RANK};
  return ls_ranks_exchange(ranks, &piece, 1);
}

// Broadcasts the bytes of a rank.
static ls_status send_from(ls_ranks *ranks, int32_t from, void *data,
                           size_t size) {
  const ls_exchange_piece piece = {data, size, from, LS_EACH_RANK};
  return ls_ranks_exchange(ranks, &piece, 1);
}

ls_status ls_ranks_send(ls_ranks *ranks, void *data, size_t size) {
  return send_from(ranks, 0, data, size);
}

ls_status ls_ranks_send_text(ls_ranks *ranks, int32_t from, const char *own,
                             char **out_text) {
  const bool sends = (size_t)from == ls_ranks_own(ranks);
  uint64_t size = sends ? strlen(own) + 1 : 0;
  *out_text = NULL;
  LS_RETURN_IF_ERROR(send_from(ranks, from, &size, sizeof(size)));
  LS_OWN_MEMORY(ranks->allocator, char, text) =
      ls_allocate(ranks->allocator, (size_t)size);
  LS_RETURN_IF_NO_MEMORY(text);
  if (sends) memcpy(text, own, (size_t)size);
  LS_RETURN_IF_ERROR(send_from(ranks, from, text, (size_t)size));
  return ls_hand_over(&text, out_text);
}

static ls_status gather_words(ls_ranks *ranks, struct ls_rank_word own) {
  ranks->words[ls_ranks_own(ranks)] = own;
  return ls_ranks_gather(ranks, ranks->words, sizeof(*ranks->words));
}

ls_status ls_ranks_any(ls_ranks *ranks, bool own, bool *out_any) {
  *out_any = own;
  if (ranks->communicator == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(gather_words(ranks, (struct ls_rank_word){.number = own}));
  for (size_t k = 0; k < ls_ranks_count(ranks); ++k)
    *out_any |= ranks->words[k].number != 0;
  return ls_ok();
}

// Waits until all ranks know a failure, and returns it: what one does
// afterwards must not fail another in other words.
static ls_status wait_and_fail(ls_ranks *ranks, ls_status failure) {
  bool any = false;
  ls_status_free(ls_ranks_any(ranks, false, &any));
  return failure;
}

// ---- Failures --------------------------------------------------------------
// Gathers words, to which it adds this rank's failure.
static ls_status gather_failures(ls_ranks *ranks, ls_status own,
                                 struct ls_rank_word word) {
  word.code = (int32_t)ls_status_code(own);
  if (!ls_status_is_ok(own))
    snprintf(word.text, sizeof(word.text), "%s", ls_status_message(own));
  return gather_words(ranks, word);
}

// Returns this rank's failure or else the first one.
static ls_status find_failure(const ls_ranks *ranks, ls_status own) {
  for (size_t k = 0; ls_status_is_ok(own) && k < ls_ranks_count(ranks); ++k) {
    const struct ls_rank_word *word = &ranks->words[k];
    if (word->code != LS_OK)
      own = ls_status_of_rank(LS_STATUS((ls_code)word->code,
                                        "on rank %zu of %zu: %s", k,
                                        ls_ranks_count(ranks), word->text),
                              (int32_t)k);
  }
  return own;
}

// Returns the first rank whose number is not rank 0's; 0: there is none.
static size_t find_other(const ls_ranks *ranks) {
  for (size_t k = 1; k < ls_ranks_count(ranks); ++k)
    if (ranks->words[k].number != ranks->words[0].number) return k;
  return 0;
}

ls_status ls_ranks_agree_on(ls_ranks *ranks, ls_status own, uint64_t number,
                            const char *noun) {
  if (ranks->communicator == NULL) return own;
  const ls_status sent =
      gather_failures(ranks, own, (struct ls_rank_word){.number = number});
  if (!ls_status_is_ok(sent)) return ls_status_join(own, sent);
  LS_RETURN_IF_ERROR(find_failure(ranks, own));
  const size_t other = find_other(ranks);
  return other == 0 ? ls_ok()
                    : ls_failed_precondition("ranks 0 and %zu have other %s",
                                             other, noun);
}

ls_status ls_ranks_agree(ls_ranks *ranks, ls_status own) {
  return ls_ranks_agree_on(ranks, own, 0, "");
}

// ---- Comparing -------------------------------------------------------------
// Texts of rank 0 and of another.
typedef struct text_pair {
  ls_allocator *allocator;
  char *texts[2];
} text_pair;

static void text_pair_deinit(text_pair *self) {
  ls_release(self->allocator, self->texts[0]);
  ls_release(self->allocator, self->texts[1]);
}
LS_OWNED_STRUCT(text_pair, text_pair_deinit)

// Gets a text of rank 0 and of another, on all ranks.
static ls_status bring_texts(ls_ranks *ranks, size_t other, const char *own,
                             text_pair *out) {
  out->allocator = ranks->allocator;
  LS_RETURN_IF_ERROR(ls_ranks_send_text(ranks, 0, own, &out->texts[0]));
  return ls_ranks_send_text(ranks, (int32_t)other, own, &out->texts[1]);
}

// Returns the start of the first line that differs.
static size_t find_line(const char *a, const char *b) {
  size_t line = 0;
  for (size_t at = 0; a[at] != '\0' && a[at] == b[at]; ++at)
    if (a[at] == '\n') line = at + 1;
  return line;
}

static ls_status describe_fact(const ls_rank_facts *facts, size_t rank,
                               const char *a, const char *b) {
  const int noun = (int)strcspn(a, ":\n"), skip = noun + 2;
  const int first = (int)strcspn(a, "\n"), second = (int)strcspn(b, "\n");
  const ls_code code =
      facts->code == LS_OK ? LS_FAILED_PRECONDITION : facts->code;
  if (first < skip || second < skip)
    return LS_STATUS(code, "ranks 0 and %zu %s other facts", rank, facts->verb);
  return LS_STATUS(code, "ranks 0 and %zu %s another %.*s: %.*s and %.*s", rank,
                   facts->verb, noun, a, first - skip, a + skip, second - skip,
                   b + skip);
}

static ls_status find_difference(ls_ranks *ranks, size_t other,
                                 const ls_rank_facts *facts) {
  LS_OWN(text_pair, pair) = {0};
  LS_OWN(text_pair, details) = {0};
  LS_RETURN_IF_ERROR(
      bring_texts(ranks, other, ls_text_data(facts->text), &pair));
  const size_t line = find_line(pair.texts[0], pair.texts[1]);
  const char *a = pair.texts[0] + line, *b = pair.texts[1] + line;
  const bool is_last =
      a[strcspn(a, "\n")] == '\0' || a[strcspn(a, "\n") + 1] == '\0';
  if (facts->describe == NULL || !is_last)
    return wait_and_fail(ranks, describe_fact(facts, other, a, b));
  LS_RETURN_IF_ERROR(bring_texts(ranks, other, facts->details, &details));
  return wait_and_fail(ranks,
                       facts->describe(facts->verb, (int32_t)other,
                                       details.texts[0], details.texts[1]));
}

ls_status ls_ranks_compare(ls_ranks *ranks, ls_status own,
                           const ls_rank_facts *facts) {
  if (ranks->communicator == NULL) return own;
  if (ls_status_is_ok(own)) own = ls_text_status(facts->text);
  const uint64_t hash =
      ls_hash(ls_text_data(facts->text), facts->text->size, 0);
  const ls_status sent =
      gather_failures(ranks, own, (struct ls_rank_word){.number = hash});
  if (!ls_status_is_ok(sent)) return ls_status_join(own, sent);
  own = find_failure(ranks, own);
  if (!ls_status_is_ok(own)) return wait_and_fail(ranks, own);
  const size_t other = find_other(ranks);
  return other == 0 ? ls_ok() : find_difference(ranks, other, facts);
}
