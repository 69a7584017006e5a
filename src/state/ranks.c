// SPDX-License-Identifier: Apache-2.0
#include "state/ranks.h"

#include <stdio.h>

#include "base/values/array_internal.h"
#include "state/saver_file.h"
#include "state/value.h"

// How it went on a rank.
struct ls_rank_word {
  uint64_t number;
  int32_t code;
  char text[500];
};

ls_status ls_ranks_init(ls_ranks *ranks, ls_runtime *runtime, const char *name,
                        uint64_t thread) {
  ls_trunk *trunk = ls_runtime_trunk(runtime);
  *ranks = (ls_ranks){.allocator = ls_runtime_allocator(runtime)};
  if (trunk == NULL || trunk->ranks < 2) return ls_ok();
  const size_t count = (size_t)trunk->ranks;
  ranks->trunk = trunk;
  ranks->name[0] = ls_hash(name, strlen(name), 0);
  ranks->name[1] = thread;
  ranks->words = ls_new_array(ranks->allocator, struct ls_rank_word, count);
  ranks->pieces = ls_new_array(ranks->allocator, ls_trunk_piece, count);
  return ranks->words == NULL || ranks->pieces == NULL ? ls_out_of_memory()
                                                       : ls_ok();
}

void ls_ranks_deinit(ls_ranks *ranks) {
  if (ranks->allocator == NULL) return;
  ls_release(ranks->allocator, ranks->words);
  ls_release(ranks->allocator, ranks->pieces);
  *ranks = (ls_ranks){0};
}

// ---- Meetings --------------------------------------------------------------
// No program has such a name.
static ls_status ranks_exchange(ls_ranks *ranks, const ls_trunk_piece *pieces,
                                size_t count) {
  const ls_trunk_name meeting = {
      .program = {ranks->name[0], ranks->name[1]},
      .iteration = ranks->meetings++,
      .merge = UINT32_MAX - 3,
  };
  return ranks->trunk->exchange(ranks->trunk, &meeting, pieces, count);
}

ls_status ls_ranks_gather(ls_ranks *ranks, void *all, size_t size) {
  if (ranks->trunk == NULL) return ls_ok();
  const size_t count = ls_ranks_count(ranks);
  for (size_t k = 0; k < count; ++k)
    ranks->pieces[k] =
        (ls_trunk_piece){(char *)all + k * size, size, (int32_t)k};
  return ranks_exchange(ranks, ranks->pieces, count);
}

ls_status ls_ranks_send(ls_ranks *ranks, void *data, size_t size) {
  if (ranks->trunk == NULL) return ls_ok();
  ranks->pieces[0] = (ls_trunk_piece){data, size, 0};
  return ranks_exchange(ranks, ranks->pieces, 1);
}

ls_status ls_ranks_agree(ls_ranks *ranks, ls_status own) {
  return ls_ranks_agree_on(ranks, own, 0, "");
}

ls_status ls_ranks_agree_on(ls_ranks *ranks, ls_status own, uint64_t number,
                            const char *what) {
  if (ranks->trunk == NULL) return own;
  struct ls_rank_word *word = &ranks->words[ls_ranks_own(ranks)];
  *word = (struct ls_rank_word){.number = number,
                                .code = (int32_t)ls_status_code(own)};
  if (!ls_status_is_ok(own))
    snprintf(word->text, sizeof(word->text), "%s", ls_status_message(own));
  const ls_status status =
      ls_ranks_gather(ranks, ranks->words, sizeof(*ranks->words));
  if (!ls_status_is_ok(own) || !ls_status_is_ok(status))
    return ls_status_join(own, status);
  for (size_t k = 0; k < ls_ranks_count(ranks); ++k) {
    word = &ranks->words[k];
    if (word->code != LS_OK)
      return LS_STATUS((ls_code)word->code, "on rank %zu of %zu: %s", k,
                       ls_ranks_count(ranks), word->text);
  }
  for (size_t k = 1; k < ls_ranks_count(ranks); ++k)
    if (ranks->words[k].number != ranks->words[0].number)
      return ls_failed_precondition("ranks 0 and %zu have other %s", k, what);
  return ls_ok();
}

// ---- Components ------------------------------------------------------------
// Those that are not shared, one behind the other.
typedef struct parts {
  ls_store *store;
  ls_variable **components;
  ls_array **values;
  ls_trunk_piece *pieces;
  size_t count;
} parts;

static int32_t ranks_rank_of(const ls_trunk *trunk, size_t replica,
                             size_t replicas) {
  int32_t rank = 0;
  while (rank + 1 < trunk->ranks &&
         replica >= (size_t)ls_trunk_first(trunk, rank + 1, (int32_t)replicas))
    ++rank;
  return rank;
}

static ls_status read_parts(const ls_trunk *trunk, const ls_variable *variable,
                            parts *all) {
  const size_t count = ls_state_parts(all->store, variable);
  for (size_t r = 0; r < count; ++r, ++all->count) {
    ls_array **value = &all->values[all->count];
    all->components[all->count] = variable->components[r];
    LS_RETURN_IF_ERROR(
        ls_store_read(all->store, variable->components[r], value));
    all->pieces[all->count] =
        (ls_trunk_piece){ls_array_mutable_data(*value), ls_array_size(*value),
                         ranks_rank_of(trunk, r, count)};
  }
  return ls_ok();
}

static ls_status find_parts(const ls_ranks *ranks, const ls_saver *values,
                            parts *all) {
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_saver_open(values, &all->store));
  for (size_t i = 0; i < values->num_variables; ++i)
    count += ls_state_parts(all->store, values->variables[i]);
  all->components = ls_new_array(ranks->allocator, ls_variable *, count + 1);
  all->values = ls_new_array(ranks->allocator, ls_array *, count + 1);
  all->pieces = ls_new_array(ranks->allocator, ls_trunk_piece, count + 1);
  if (all->components == NULL || all->values == NULL || all->pieces == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < values->num_variables; ++i)
    LS_RETURN_IF_ERROR(read_parts(ranks->trunk, values->variables[i], all));
  return ls_ok();
}

static ls_status take_parts(const ls_ranks *ranks, const parts *all) {
  for (size_t i = 0; i < all->count; ++i)
    if (all->pieces[i].rank != ranks->trunk->rank)
      LS_RETURN_IF_ERROR(
          ls_store_write(all->store, all->components[i], all->values[i]));
  return ls_ok();
}

ls_status ls_ranks_gather_parts(ls_ranks *ranks, const ls_saver *values) {
  if (ranks->trunk == NULL) return ls_ok();
  parts all = {0};
  // The others would wait for one that could not.
  ls_status status = ls_ranks_agree(ranks, find_parts(ranks, values, &all));
  if (ls_status_is_ok(status))
    status = ranks_exchange(ranks, all.pieces, all.count);
  if (ls_status_is_ok(status)) status = take_parts(ranks, &all);
  for (size_t i = 0; all.values != NULL && i < all.count; ++i)
    ls_array_release(all.values[i]);
  ls_release(ranks->allocator, all.components);
  ls_release(ranks->allocator, all.values);
  ls_release(ranks->allocator, all.pieces);
  return status;
}
