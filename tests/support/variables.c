// SPDX-License-Identifier: Apache-2.0
#include "support/variables.h"
#include "base/memory/own.h"

static ls_nest write_in_replica(ls_nest args, void *user) {
  replica_writes *w = user;
  (void)args;
  const int r = ls_replica_number();
  ls_nest made = ls_none();
  const ls_nest value = w->use_value     ? w->value
                        : w->use_outside ? ls_leaf(w->outside)
                                         : ls_leaf(scalar_of(r + 1));
  const ls_status status =
      ls_variable_write(w->variable, w->op, value, NULL, &made);
  if (w->code != LS_OK) return ls_fail(status);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  w->after[r] = number_of(made);
  ls_nest_release(made);
  return ls_none();
}

void run_writes(ls_strategy *strategy, replica_writes *w) {
  LS_OWN(ls_nest, results) = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain(write_in_replica, w),
                                ls_none(), &results),
                w->code, w->code == LS_OK ? "" : w->says);
}

ls_nest write_across(ls_variable *v, ls_write_op op, ls_nest value) {
  ls_nest made = ls_none();
  expect_ok(ls_variable_write(v, op, value, NULL, &made));
  return made;
}

ls_nest read_in_replica(ls_nest args, void *user) {
  replica_reads *r = user;
  (void)args;
  const int id = ls_replica_number();
  r->seen[id] = number_of(ls_leaf(ls_variable_read(r->variable)));
  r->used[id] = number_of(ls_leaf(ls_variable_as_tensor(r->variable)));
  ++r->count;
  return ls_none();
}

const variable_kind all_kinds[NUM_KINDS] = {
    {.aggregation = NONE},
    {.aggregation = SUM},
    {.aggregation = MEAN},
    {.aggregation = FIRST},
    {.synchronization = ON_READ, .aggregation = NONE},
    {.synchronization = ON_READ, .aggregation = SUM},
    {.synchronization = ON_READ, .aggregation = MEAN},
};

ls_variable *pair_in(ls_strategy *strategy, variable_kind kind) {
  ls_variable *v = variable_in(strategy, kind);
  set_components(v, (double[]){3, 4}, 2);
  return v;
}
