// SPDX-License-Identifier: Apache-2.0
//
// Columns of devices: where replicas have several each, which of them are meant
// where the thread is.
#include "distribute/base/strategy.h"

// An open scope, on the stack of whoever opened it.
struct ls_column_entry {
  const struct ls_column_entry *outer;
  const ls_strategy *strategy;
  int32_t column;
};

void ls_column_push(ls_scope *scope, const ls_strategy *strategy,
                    int32_t column) {
  ls_context *context = ls_context_current();
  struct ls_column_entry *entry = LS_SCOPE_ENTRY(struct ls_column_entry, scope);
  *entry = (struct ls_column_entry){ls_distribute_scoped_of(context)->columns,
                                    strategy, column};
  ls_distribute_scoped_of(context)->columns = entry;
}

int32_t ls_strategy_column(const ls_strategy *strategy) {
  const struct ls_column_entry *entry = ls_distribute_scoped_here()->columns;
  while (entry != NULL && entry->strategy != strategy)
    entry = entry->outer;
  return entry != NULL ? entry->column : 0;
}

const char *ls_strategy_device_here(const ls_strategy *strategy,
                                    int32_t replica) {
  return ls_strategy_column_device(strategy, ls_strategy_column(strategy),
                                   replica);
}

const char *ls_strategy_column_device(const ls_strategy *strategy,
                                      int32_t column, int32_t replica) {
  return strategy->devices == NULL
             ? ""
             : strategy->devices[column * strategy->num_replicas + replica];
}
