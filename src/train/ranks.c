// SPDX-License-Identifier: Apache-2.0
#include "train/ranks.h"

#include <string.h>

#include "graph/variable.h"
#include "state/saver_file.h"
#include "state/value.h"

static const char name[] = "a run's ranks";

ls_status ls_run_ranks_init(ls_run_ranks *ranks, ls_runtime *runtime,
                            const ls_strategy *strategy) {
  ls_trunk *trunk = ls_runtime_trunk(runtime);
  *ranks = (ls_run_ranks){.allocator = ls_runtime_allocator(runtime)};
  if (trunk == NULL || trunk->ranks < 2 ||
      ls_strategy_num_replicas(strategy) < 2)
    return ls_ok();
  ranks->trunk = trunk;
  ranks->words = ls_new_array(ranks->allocator, int64_t, (size_t)trunk->ranks);
  ranks->pieces =
      ls_new_array(ranks->allocator, ls_trunk_piece, (size_t)trunk->ranks);
  return ranks->words == NULL || ranks->pieces == NULL ? ls_out_of_memory()
                                                       : ls_ok();
}

void ls_run_ranks_deinit(ls_run_ranks *ranks) {
  if (ranks->allocator == NULL) return;
  ls_release(ranks->allocator, ranks->words);
  ls_release(ranks->allocator, ranks->pieces);
  *ranks = (ls_run_ranks){0};
}

bool ls_run_ranks_writes(const ls_run_ranks *ranks) {
  return ranks->trunk == NULL || ranks->trunk->rank == 0;
}

// ---- Meetings --------------------------------------------------------------
// No program has this name.
static ls_status exchange(ls_run_ranks *ranks, const ls_trunk_piece *pieces,
                          size_t count) {
  const ls_trunk_name meeting = {
      .program = {ls_hash(name, sizeof(name), 0), 0},
      .iteration = ranks->meetings++,
      .merge = UINT32_MAX - 2,
  };
  return ranks->trunk->exchange(ranks->trunk, &meeting, pieces, count);
}

ls_status ls_run_ranks_tell(ls_run_ranks *ranks, int64_t own,
                            int64_t *out_first, int64_t *out_bits) {
  *out_first = *out_bits = own;
  ls_trunk *trunk = ranks->trunk;
  if (trunk == NULL) return ls_ok();
  ranks->words[trunk->rank] = own;
  for (int32_t k = 0; k < trunk->ranks; ++k)
    ranks->pieces[k] =
        (ls_trunk_piece){&ranks->words[k], sizeof(*ranks->words), k};
  LS_RETURN_IF_ERROR(exchange(ranks, ranks->pieces, (size_t)trunk->ranks));
  *out_first = ranks->words[0];
  for (int32_t k = 0; k < trunk->ranks; ++k)
    *out_bits |= ranks->words[k];
  return ls_ok();
}

ls_status ls_run_ranks_agree(ls_run_ranks *ranks, ls_status own) {
  int64_t first = 0, bits = 0;
  ls_trunk *trunk = ranks->trunk;
  if (trunk == NULL || ls_status_is_ok(own))
    return ls_status_is_ok(own) ? ls_run_ranks_tell(ranks, 0, &first, &bits)
                                : own;
  trunk->cancel(trunk, own);
  return own;
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

static size_t count_parts(const ls_store *store, const ls_saver *values) {
  size_t count = 0;
  for (size_t i = 0; i < values->num_variables; ++i)
    count += ls_state_parts(store, values->variables[i]);
  return count;
}

static int32_t rank_of(const ls_trunk *trunk, size_t replica, size_t replicas) {
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
                         rank_of(trunk, r, count)};
  }
  return ls_ok();
}

static ls_status gather(ls_run_ranks *ranks, const ls_saver *values,
                        parts *all) {
  for (size_t i = 0; i < values->num_variables; ++i)
    LS_RETURN_IF_ERROR(read_parts(ranks->trunk, values->variables[i], all));
  LS_RETURN_IF_ERROR(exchange(ranks, all->pieces, all->count));
  for (size_t i = 0; i < all->count; ++i)
    if (all->pieces[i].rank != ranks->trunk->rank)
      LS_RETURN_IF_ERROR(
          ls_store_write(all->store, all->components[i], all->values[i]));
  return ls_ok();
}

ls_status ls_run_ranks_gather(ls_run_ranks *ranks, const ls_saver *values) {
  if (ranks->trunk == NULL) return ls_ok();
  parts all = {0};
  LS_RETURN_IF_ERROR(ls_saver_open(values, &all.store));
  const size_t count = count_parts(all.store, values);
  if (count == 0) return ls_ok();
  all.components = ls_new_array(ranks->allocator, ls_variable *, count);
  all.values = ls_new_array(ranks->allocator, ls_array *, count);
  all.pieces = ls_new_array(ranks->allocator, ls_trunk_piece, count);
  ls_status status =
      all.components == NULL || all.values == NULL || all.pieces == NULL
          ? ls_out_of_memory()
          : gather(ranks, values, &all);
  for (size_t i = 0; all.values != NULL && i < count; ++i)
    ls_array_release(all.values[i]);
  ls_release(ranks->allocator, all.components);
  ls_release(ranks->allocator, all.values);
  ls_release(ranks->allocator, all.pieces);
  return status;
}
