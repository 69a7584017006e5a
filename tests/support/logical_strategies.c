// SPDX-License-Identifier: Apache-2.0
#include "support/logical_strategies.h"

#include "support/expect.h"
#include "tpu/own.h"

ls_device_assignment *logical_assignment(int replicas, int cores) {
  const int count = replicas * cores;
  const int32_t mesh[] = {count, 1, 1, 1};
  LS_OWN(ls_topology, topology) = NULL;
  ls_device_assignment *assignment = NULL;
  LS_OWN(ls_array, places) = NULL;
  LS_OWN(ls_array, assigned) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(1, count, 4), &places));
  expect_ok(
      ls_array_create(LS_DTYPE_I32, LS_SHAPE(replicas, cores, 4), &assigned));
  for (int i = 0; i < count; ++i) {
    ls_array_set_i64(places, 4 * i, i);
    ls_array_set_i64(assigned, 4 * i, i);
  }
  expect_ok(ls_topology_create(mesh, 4, places, &topology));
  expect_ok(ls_device_assignment_create(topology, assigned, &assignment));
  return assignment;
}

ls_strategy *logical_strategy(strategy_flavour flavour, int replicas, int cores,
                              ls_flag spmd) {
  ls_device_assignment *assignment = logical_assignment(replicas, cores);
  const ls_tpu_options options = {.assignment = assignment, .spmd = spmd};
  ls_strategy *strategy = NULL;
  switch (flavour) {
  case FLAVOUR_EXPERIMENTAL:
    expect_ok(ls_tpu_strategy_experimental_create(&options, &strategy));
    break;
  case FLAVOUR_V1:
    expect_ok(ls_tpu_strategy_v1_create(
        &(ls_tpu_v1_options){.assignment = assignment}, &strategy));
    break;
  default:
    expect_ok(ls_tpu_strategy_create(&options, &strategy));
    break;
  }
  ls_device_assignment_release(assignment);
  return strategy;
}
