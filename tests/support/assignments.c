// SPDX-License-Identifier: Apache-2.0
#include "support/assignments.h"

#include "base/memory/own.h"
#include "support/expect.h"

ls_topology *make_topology(int hosts, int cores) {
  LS_OWN(ls_array, places) = NULL;
  ls_topology *topology = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(hosts, cores, 4), &places));
  for (int64_t i = 0; i < (int64_t)hosts * cores; ++i) {
    ls_array_set_i64(places, 4 * i, i / cores);
    ls_array_set_i64(places, 4 * i + 1, i % cores);
  }
  const int32_t mesh[] = {hosts, cores, 1, 1};
  expect_ok(ls_topology_create(mesh, 4, places, &topology));
  return topology;
}

ls_device_assignment *make_assignment(ls_topology *topology, int replicas,
                                      int cores, const int (*at)[2]) {
  LS_OWN(ls_array, places) = NULL;
  ls_device_assignment *made = NULL;
  expect_ok(
      ls_array_create(LS_DTYPE_I32, LS_SHAPE(replicas, cores, 4), &places));
  for (int64_t i = 0; i < (int64_t)replicas * cores; ++i) {
    ls_array_set_i64(places, 4 * i, at[i][0]);
    ls_array_set_i64(places, 4 * i + 1, at[i][1]);
  }
  expect_ok(ls_device_assignment_create(topology, places, &made));
  return made;
}

ls_topology *mesh_topology(const int32_t mesh[4], int32_t tasks,
                           int32_t per_task) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(
      ls_array_create(LS_DTYPE_I32, LS_SHAPE(tasks, per_task, 4), &array));
  for (int32_t i = 0; i < tasks * per_task; ++i) {
    int32_t rest = i;
    for (int k = 3; k >= 0; --k) {
      ls_array_set_i64(array, 4 * i + k, rest % mesh[k]);
      rest /= mesh[k];
    }
  }
  ls_topology *topology = NULL;
  expect_ok(ls_topology_create(mesh, 4, array, &topology));
  return topology;
}
