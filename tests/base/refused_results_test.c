// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/allocator.h"
#include "lockstep/array.h"
#include "lockstep/cancel.h"
#include "lockstep/cluster.h"
#include "lockstep/device_name.h"
#include "lockstep/mpi.h"
#include "lockstep/nest.h"
#include "lockstep/parameters.h"
#include "lockstep/runtime.h"
#include "lockstep/shape.h"
#include "lockstep/shape_rules.h"
#include "lockstep/simulation.h"
#include "support/refused.h"

TEST(refused_calls_of_allocator_leave_nothing) {
  ls_counting_allocator *empty = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &empty));
  ls_counting_allocator_fail_at(empty, 1);
  REFUSED(ls_counting_allocator *,
          ls_counting_allocator_create(ls_counting_allocator_allocator(empty),
                                       &out));
  ls_counting_allocator_destroy(empty);
}

TEST(refused_calls_of_array_leave_nothing) {
  REFUSED(ls_array *, ls_array_create((ls_dtype){0}, (ls_shape){0}, &out));
  REFUSED(ls_array *,
          ls_array_create_copy((ls_dtype){0}, (ls_shape){0}, NULL, &out));
  REFUSED(ls_array *, ls_array_create_view((ls_dtype){0}, (ls_shape){0}, NULL,
                                           NULL, NULL, &out));
}

TEST(refused_calls_of_cancel_leave_nothing) {
  REFUSED(ls_cancel *, ls_cancel_create(NULL, &out));
}

static const char *find_nowhere(void *user, const char *name) {
  (void)user;
  return strcmp(name, "LS_MPI") == 0 ? "/nowhere" : NULL;
}

TEST(refused_calls_of_mpi_leave_nothing) {
  REFUSED(ls_communicator *,
          ls_mpi_open(&(ls_mpi_options){.environment = find_nowhere}, &out));
}

TEST(refused_calls_of_simulation_leave_nothing) {
  REFUSED(ls_simulation *, ls_simulation_create(NULL, &out));
}

TEST(refused_calls_of_cluster_leave_nothing) {
  REFUSED(size_t, ls_cluster_devices(&(ls_cluster_spec){0}, -1, NULL, 0, &out));
  REFUSED(ls_cluster_task,
          ls_cluster_find_task(&(ls_cluster_spec){0}, "x", 0, &out));
  REFUSED_MEMORY(ls_cluster_spec *,
                 ls_cluster_spec_copy(&(ls_cluster_spec){0}, &out));
}

TEST(refused_calls_of_device_name_leave_nothing) {
  REFUSED_NAME(ls_device_canonical(NULL, NULL, &out));
  REFUSED_NAME(ls_device_host(NULL, &out));
  REFUSED_NAME(ls_device_merge(NULL, NULL, &out));
}

TEST(refused_calls_of_nest_leave_nothing) {
  REFUSED_NUMBER(ls_nest_to_number(ls_none(), &out));
}

TEST(refused_calls_of_parameters_leave_nothing) {
  REFUSED(ls_nest, ls_parameters_bind(NULL, NULL, ls_none(), ls_none(), &out));
}

TEST(refused_calls_of_runtime_leave_nothing) {
  REFUSED(ls_runtime *,
          ls_runtime_create(&(ls_runtime_options){.threads = -1}, &out));
}

TEST(refused_calls_of_shape_leave_nothing) {
  REFUSED(ls_dtype, ls_dtype_parse(NULL, &out));
  REFUSED_SHAPE(ls_shape_broadcast(LS_SHAPE(2), LS_SHAPE(3), &out));
  REFUSED_SHAPE(ls_shape_merge(LS_SHAPE(2), LS_SHAPE(3), &out));
  REFUSED_TWO(ls_dtype, ls_shape, ls_shape_parse(NULL, &out, &second));
}
