// SPDX-License-Identifier: Apache-2.0
// Ranks in one process: four threads stand in for four processes of MPI, share
// eight replicas, and end with one value, the bits of which do not depend on
// their number.
#include <stdio.h>
#include <string.h>

#include "lockstep/full.h"

typedef struct shared_sum {
  float sum;  // Written by rank 0.
} shared_sum;

static ls_nest add_up(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor x =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(1000), 0, 1, NULL);
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_reduce_sum(x, LS_ALL_AXES)));
}

static ls_status call_replicas(ls_bag *bag, float *out_sum) {
  ls_function *function = ls_function_in(bag, .call = add_up);
  ls_strategy *strategy =
      ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(8));
  ls_nest *sum = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(ls_strategy_run(strategy, ls_traced(function),
                                     ls_bag_nest(bag, LS_TUPLE(ls_nest_i64(0))),
                                     sum));
  if (out_sum == NULL) return ls_ok();
  const ls_array *value = ls_nest_as_array(ls_distributed_component(*sum, 0));
  memcpy(out_sum, ls_array_data(value), sizeof(*out_sum));
  return ls_ok();
}

static ls_status rank_main(ls_communicator *communicator, void *user) {
  shared_sum *shared = user;
  ls_bag bag = {0};
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){.communicator = communicator, .threads = 1},
      &runtime));
  (void)ls_runtime_make_current(runtime);
  const bool is_first = communicator->rank == 0;
  const ls_status status = call_replicas(&bag, is_first ? &shared->sum : NULL);
  ls_bag_empty(&bag);
  (void)ls_runtime_make_current(NULL);
  return ls_status_join(status, ls_runtime_destroy(runtime));
}

int main(void) {
  shared_sum one = {0}, four = {1};
  ls_status status = ls_standin_run(1, rank_main, &one);
  if (ls_status_is_ok(status)) status = ls_standin_run(4, rank_main, &four);
  printf("%.9g and %.9g %s\n", (double)one.sum, (double)four.sum,
         ls_status_message(status));
  const bool ok = ls_status_is_ok(status);
  ls_status_free(status);
  return ok && memcmp(&one.sum, &four.sum, sizeof(float)) == 0 ? 0 : 1;
}
