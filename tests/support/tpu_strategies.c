// SPDX-License-Identifier: Apache-2.0
#include "support/tpu_strategies.h"

#include "support/expect.h"
#include "tpu/own.h"

ls_strategy *tpu_strategy_of(int replicas) {
  return tpu_strategy_on(1, replicas);
}

ls_strategy *tpu_strategy_on(int hosts, int each) {
  const int replicas = hosts * each;
  const int32_t mesh[] = {replicas, 1, 1, 1};
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  ls_strategy *strategy = NULL;
  LS_OWN(ls_array, places) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(hosts, each, 4), &places));
  for (int r = 0; r < replicas; ++r)
    ls_array_set_i64(places, 4 * r, r);
  expect_ok(ls_topology_create(mesh, 4, places, &topology));
  expect_ok(ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.num_replicas = LS_SOME(replicas),
                                      .order = LS_DEVICE_ORDER_MESH},
      &assignment));
  expect_ok(ls_tpu_strategy_create(&(ls_tpu_options){.assignment = assignment},
                                   &strategy));
  return strategy;
}
