// SPDX-License-Identifier: Apache-2.0
//
// Contexts of replicas: a strategy keeps those that do not run, for the next
// run.
#include "lockstep/replica.h"

#include "base/memory/allocator.h"
#include "distribute/base/strategy.h"

ls_status ls_replicas_take(ls_strategy *strategy, ls_replica **out_replicas) {
  const size_t count = (size_t)strategy->num_replicas;
  ls_mutex_lock(&strategy->lock);
  ls_replica *replicas = strategy->idle_replicas;
  if (replicas != NULL) strategy->idle_replicas = replicas->next_idle;
  ls_mutex_unlock(&strategy->lock);
  if (replicas == NULL)
    replicas = ls_new_array(ls_allocator_system(), ls_replica, count);
  *out_replicas = replicas;
  if (replicas == NULL) return ls_out_of_memory();
  for (size_t r = 0; r < count; ++r)
    replicas[r] = (ls_replica){.strategy = strategy,
                               .id = (int32_t)r,
                               .count = (int32_t)count,
                               .runs = true};
  return ls_ok();
}

void ls_replicas_give(ls_strategy *strategy, ls_replica *replicas) {
  if (replicas == NULL) return;
  for (int32_t r = 0; r < strategy->num_replicas; ++r)
    replicas[r] =
        (ls_replica){.strategy = strategy, .id = r, .count = replicas[r].count};
  ls_mutex_lock(&strategy->lock);
  replicas->next_idle = strategy->idle_replicas;
  strategy->idle_replicas = replicas;
  ls_mutex_unlock(&strategy->lock);
}

void ls_replicas_free(ls_strategy *strategy) {
  while (strategy->idle_replicas != NULL) {
    ls_replica *replicas = strategy->idle_replicas;
    strategy->idle_replicas = replicas->next_idle;
    for (int32_t r = 0; r < strategy->num_replicas; ++r)
      replicas[r] = (ls_replica){.id = r, .count = replicas[r].count};
    ls_bury(replicas);
  }
}

ls_strategy *ls_replica_strategy(const ls_replica *replica) {
  return replica->strategy;
}

int32_t ls_replica_num_replicas(const ls_replica *replica) {
  return replica->count;
}
