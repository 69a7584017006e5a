// SPDX-License-Identifier: Apache-2.0
// A run on devices with each request for memory refused.
#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/fault.h"
#include "support/plugin.h"
#include "support/values.h"
#include "tpu/own.h"

static ls_nest add_one(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1)));
}

static ls_status step_on_a_device(void *user) {
  (void)user;
  LS_OWN(ls_array, initial) = NULL;
  LS_OWN(ls_variable, variable) = NULL;
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, results) = {0};
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &initial));
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_array = initial},
      &variable));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = add_one, .user = variable}, &function));
  LS_RETURN_IF_ERROR(ls_function_call(function, (ls_nest){0}, &results));
  LS_RETURN_IF_ERROR(ls_function_call(function, (ls_nest){0}, &results));
  assert_true(nest_element(results, 0) == 2);
  LS_RETURN_IF_ERROR(ls_variable_value(variable, &value));
  assert_true(ls_array_f64(value, 0) == 2);
  return ls_ok();
}

TEST(a_step_on_a_device_survives_refused_memory) {
  refuse_each(&(fault_scenario){.name = "step_on_a_device",
                                .act = step_on_a_device,
                                .options = {.device = plugin_device()}});
}

static ls_status initialize_system(void *user) {
  (void)user;
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_topology, topology) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(NULL, &resolver));
  LS_RETURN_IF_ERROR(ls_tpu_initialize(resolver, &topology));
  assert_int_equal(ls_topology_num_devices_per_task(topology), 2);
  return ls_ok();
}

// Removes the pod, so that the next one is made again.
static void shut_down(void *user) {
  (void)user;
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_create(NULL, &resolver));
  expect_ok(ls_tpu_shutdown(resolver));
}

TEST(a_system_of_devices_survives_refused_memory) {
  refuse_each(&(fault_scenario){
      .name = "initialize_system",
      .act = initialize_system,
      .end = shut_down,
      .options = {.device = plugin_device(), .num_devices = 2}});
}
